# %% [markdown] lang="en"
# # Chapter 1 · A decode scheduler, one decision per step
#
# You will write `DecodeSchedulerSim`: about 25 lines that decide, over and over, which request a
# language model works on next. Then you will run it, watch it fail in four instructive ways, and
# know why every later chapter exists.
#
# **Time.** Core: 90 minutes at most (four TODOs, four experiments). Extension: 30 minutes more.
#
# **You need.** Python classes and dataclasses. No GPU, no PyTorch.
#
# **You leave with.** A scheduler that passes its checks, saved for later chapters.

# %% [markdown] lang="zh"
# # 第 1 章 · 解码调度器：一步一个决定
#
# 这一章你要写出 `DecodeSchedulerSim`：大约 25 行代码，反复回答同一个问题——大模型的下一步给谁？
# 写完就跑，亲眼看它以四种方式翻车。看懂这四次翻车，你就知道后面每一章为什么要存在。
#
# **时间。** 核心部分最多 90 分钟（四个 TODO，四个实验）；扩展部分再加 30 分钟。
#
# **基础。** 会写 Python 的类和 dataclass 就够了。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 一个通过全部检查的调度器，保存下来，后面的章节接着用。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. What does one prefill work through, and what does one decode step add?
# 2. What is in a KV cache, and what would decode have to redo without it?
# 3. In Python, which is smaller: `(0, 5)` or `(1, 2)`? And what does `min(cars, key=price)` return, a
#    car or a price?
#
# If 1 or 2 does not come at once, do [chapter 0](./ch00_preflight.ipynb) first: twenty
# minutes. For 3, try it in a new cell.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 一次 prefill 处理的是什么？一步 decode 又多出来什么？
# 2. KV cache 里存了什么？没有它，decode 每一步都得重算什么？
# 3. 在 Python 里，`(0, 5)` 和 `(1, 2)` 谁小？`min(cars, key=price)` 返回的是车，还是价格？
#
# 前两题要是没法脱口而出，先做完[第 0 章](./ch00_preflight.ipynb)，只要二十分钟。
# 第 3 题新建一个单元格试试就知道。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch01", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# One hour of a real chat service, the Azure LLM inference trace of November 2023: 19,366 requests in
# 3,502 seconds, answered with 4,088,665 tokens. That is 1,168 tokens every second.
#
# Now serve it with a 7-billion-parameter model, one request at a time. To produce *one* token, a decode
# step must read every weight from GPU memory: 7 billion × 2 bytes = 14 GB. If the memory delivers
# 3 TB/s, that takes 4.7 ms at the very best, hence at most 214 tokens per second.
#
# | | tokens per second |
# |---|---|
# | the users want | 1,168 |
# | one request at a time can give, at best | 214 |
#
# Five and a half times too slow, and no prompt has been read yet. When the hour is over, 3.3 million
# tokens are still owed. So requests *will* queue, and something must decide who goes next. That
# something is the scheduler.
#
# *Data: Azure Public Dataset, CC-BY 4.0, from Patel et al., "Splitwise", ISCA 2024; counted from the
# file. The 7 billion parameters, 2 bytes and 3 TB/s are chosen to keep the arithmetic easy, not measured.*

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 这是一个真实聊天服务的一小时，取自 Azure 2023 年 11 月公开的 LLM 推理 trace：
# 3,502 秒里来了 19,366 个请求，一共生成了 4,088,665 个 token，平均每秒 1,168 个。
#
# 假设用一个 70 亿参数的模型，一次只服务一个请求。decode 每吐**一个** token，都要把全部权重从显存里读一遍：
# 70 亿 × 2 字节 = 14 GB。显存带宽按 3 TB/s 算，读一遍最快也要 4.7 毫秒，所以每秒顶多 214 个 token。
#
# | | 每秒 token 数 |
# |---|---|
# | 用户要的 | 1,168 |
# | 一次只服务一个请求，最多能给的 | 214 |
#
# 连需求的五分之一都不到，而且提示词（prompt）还一个字没读。这一小时过完，还欠着 330 万个 token。
# 所以排队是必然的，总得有谁来决定下一个轮到谁。这个“谁”，就是调度器。
#
# 数据：Azure Public Dataset，CC-BY 4.0，出自 Patel 等人的 Splitwise 论文（ISCA 2024）；
# 上面的数由原文件数出。
# 70 亿参数、2 字节、3 TB/s 是为了好算取的整数，不是实测。

# %% [markdown] lang="en"
# ## The idea: a decision is a sort key
#
# Our machine is a toy. Time passes in *steps*; each step serves exactly one request and records one
# *event*:
#
# ```text
#              prefill_to_decode        decode_one_step         finish
#
#   enqueue --->  [ prefill ]  --------->  [ decode ]  --------->  done
#                                           |      ^
#                                           +------+
#                                           +1 token
# ```
#
# *A request enters in the phase prefill. One step moves it to decode. Every further step adds one token,
# until the last one finishes it.* (In a real engine the pass that ends a prefill already yields the first
# token. The toy keeps the two apart, so that you can see them.)
#
# Who is served in a step? Give each unfinished request a **key**, a tuple, and take the smallest.
# Python compares tuples from the left: a later field matters only where all earlier ones are equal.
#
# | field of the key | the smaller goes first | the good intention |
# |---|---|---|
# | phase rank | prefill is 0, decode is 1 | a newcomer should not wait to get started |
# | cache rank | a hit is 0, a miss is 1 | a prompt that is already in the cache is cheap |
# | −priority | hence the higher priority | urgent is urgent |
# | total length | the shorter | short jobs first keeps the average wait low |
# | request id | the smaller | no ties: the same input gives the same run, always |
#
# Every line sounds reasonable. Remember that feeling; the experiments are about it.

# %% [markdown] lang="zh"
# ## 想法：决定就是一个排序键
#
# 我们的机器是个玩具：时间一**步**一**步**地走，每一步恰好服务一个请求，并记下一个**事件**：
#
# ```text
#              prefill_to_decode        decode_one_step         finish
#
#   enqueue --->  [ prefill ]  --------->  [ decode ]  --------->  done
#                                           |      ^
#                                           +------+
#                                           +1 token
# ```
#
# 图：请求入队时处在预填充（prefill）阶段；走一步，进入解码（decode）阶段；之后每一步多一个 token，
# 最后一个 token 让它完成。
# （真实引擎里，prefill 的最后一次前向就已经产出第一个 token。玩具把两件事拆开，好让你看清楚。）
#
# 这一步服务谁？给每个没完成的请求算一个**键**，也就是一个元组，谁的最小就选谁。
# Python 从左到右比较元组：前面的字段全都相等，才轮到后面的字段说话。
#
# | 键的字段 | 小的在前 | 它的好意 |
# |---|---|---|
# | 阶段 | prefill 记 0，decode 记 1 | 新来的别干等，先让它动起来 |
# | 缓存 | 命中记 0，未命中记 1 | 提示词已经在缓存里，做起来便宜 |
# | −priority | 也就是优先级高的在前 | 急的就是急 |
# | 总长度 | 短的在前 | 短作业优先，平均等待时间短 |
# | request_id | 小的在前 | 不留平局：同样的输入，每次跑出来都一样 |
#
# 每一行听上去都很有道理。记住这种感觉，后面的实验专门收拾它。

# %% [markdown] lang="en"
# ## What is given
#
# A request is a `RequestState`: lengths and flags. The scheduler never sees a token's text, and needs
# none. `max_new_tokens=None` means "as many as the prompt is long". `require_length` refuses every length
# that makes no sense; you will call it in your first TODO.

# %% [markdown] lang="zh"
# ## 现成的部分
#
# 一个请求就是一个 `RequestState`：几个长度，几个标记。调度器看不到 token 的内容，也不需要看。
# `max_new_tokens=None` 的意思是“提示词多长，就生成多长”。`require_length` 负责拒绝一切不像话的长度，
# 第一个 TODO 就会用到它。

# %% tags=["export"]
from dataclasses import dataclass


@dataclass
class RequestState:
    """en: One request as the scheduler sees it; lengths are in tokens.
    zh: 调度器眼里的一个请求；长度都以 token 计。
    """

    request_id: int
    prompt_len: int
    generated_len: int = 0
    phase: str = "prefill"
    priority: int = 0
    cache_hit: bool = False
    max_new_tokens: int | None = None

    @property
    def total_len(self) -> int:
        """en: Prompt and generated tokens so far.
        zh: 提示词加上目前生成的 token 数。
        """
        return self.prompt_len + self.generated_len

    @property
    def target(self) -> int:
        """en: How many tokens it is to generate.
        zh: 一共要生成多少个 token。
        """
        return self.prompt_len if self.max_new_tokens is None else self.max_new_tokens

    @property
    def done(self) -> bool:
        """en: Whether all of them are there.
        zh: 是否已经全部生成。
        """
        return self.generated_len >= self.target


def require_length(name: str, value: object) -> None:
    """en: ValueError unless ``value`` is a positive int; a bool does not count as one, although ``True == 1``.
    zh: ``value`` 不是正整数就抛 ValueError；bool 不算整数，尽管 ``True == 1``。
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, not {value!r} | {name} 必须是正整数")


# %% [markdown] lang="en"
# ## Your class: four gaps
#
# The cell below is the whole scheduler. Four methods have a gap; the two that need no decision are
# written. Read it through once before you type.
#
# | TODO | method | in one sentence |
# |---|---|---|
# | `ch01.1` | `enqueue` | let a good request in, keep a bad one out |
# | `ch01.2` | `_schedule_key` | the tuple from the table above |
# | `ch01.3` | `step` | choose the one request that this step serves |
# | `ch01.4` | `run` | step until nothing is left, or the bound is reached |
#
# **The rhythm**, four times: read the TODO's section below · come back here and replace its
# `raise TodoError(...)` · run this cell · run the TODO's check. Checks only run what they need: you can
# pass the first one with three gaps still open.
#
# Two views help: in JupyterLab right-click the notebook's tab, *New View for Notebook*, and keep the
# class on one side and the text on the other.

# %% [markdown] lang="zh"
# ## 你的类：四个空
#
# 下面这个单元格就是整个调度器。四个方法里各有一个空；不需要做决定的两个方法已经写好。动手之前，先通读一遍。
#
# | TODO | 方法 | 一句话 |
# |---|---|---|
# | `ch01.1` | `enqueue` | 合格的请求放进来，不合格的挡在外面 |
# | `ch01.2` | `_schedule_key` | 上面那张表写成元组 |
# | `ch01.3` | `step` | 选出这一步要服务的那个请求 |
# | `ch01.4` | `run` | 一步步走，直到没活可干，或者走满上限 |
#
# **节奏**是同一套动作做四遍：读下面对应的小节 · 回到这里，把 `raise TodoError(...)` 换成你的代码 ·
# 运行这个单元格 · 运行那个 TODO 的检查。检查只运行它需要的那部分代码：
# 后面三个空还没填，第一个检查照样能过。
#
# 小窍门：在 JupyterLab 里右键点笔记本的标签页，选 *New View for Notebook*（新建视图），一边看类，一边看说明。


# %% answer="ch01-answer" tags=["export"]
class DecodeSchedulerSim:
    """en: Serves one request per step, the one with the smallest key; records what each step did.
    zh: 每一步服务键最小的那个请求，并记下这一步做了什么。
    """

    def __init__(self) -> None:
        self.queue: list[RequestState] = []
        self.timeline: list[dict] = []

    def enqueue(
        self,
        request_id: int,
        prompt_len: int,
        priority: int = 0,
        cache_hit: bool = False,
        max_new_tokens: int | None = None,
    ) -> None:
        """en: Take in a new request; ValueError for a bad length or an id that is taken.
        zh: 收下一个新请求；长度不对或 id 已被占用，抛 ValueError。
        """
        # TODO ch01.1
        # en: First refuse: bad lengths, then a taken id. Only then append a RequestState.
        # zh: 先拒绝：长度不对的、id 已被占用的。都没问题，再把 RequestState 加进队列。
        require_length("prompt_len", prompt_len)
        if max_new_tokens is not None:
            require_length("max_new_tokens", max_new_tokens)
        if any(req.request_id == request_id for req in self.queue):
            raise ValueError(f"request_id {request_id!r} is taken | request_id {request_id!r} 已被占用")
        req = RequestState(
            request_id, prompt_len, priority=priority, cache_hit=cache_hit, max_new_tokens=max_new_tokens
        )
        self.queue.append(req)
        # END ch01.1

    def _schedule_key(self, req: RequestState) -> tuple:
        """en: The smaller, the sooner.
        zh: 越小越先。
        """
        # TODO ch01.2
        # en: Five fields: phase rank, cache rank, -priority, total length, request id.
        # zh: 五个字段：阶段、缓存、-priority、总长度、request_id。
        return (
            0 if req.phase == "prefill" else 1,
            0 if req.cache_hit else 1,
            -req.priority,
            req.total_len,
            req.request_id,
        )
        # END ch01.2

    def step(self) -> dict | None:
        """en: Advance one request and return the event; None if no request is active.
        zh: 让一个请求前进一步，返回事件；没有活跃请求就返回 None。
        """
        # TODO ch01.3
        # en: Among the requests that are not done, req is the one with the smallest key; none: return None.
        # zh: 在没完成的请求里，req 是键最小的那个；一个都没有，就返回 None。
        active = [req for req in self.queue if not req.done]
        if not active:
            return None
        req = min(active, key=self._schedule_key)
        # END ch01.3
        return self._advance(req)

    def _advance(self, req: RequestState) -> dict:
        phase = req.phase
        if phase == "prefill":
            req.phase = "decode"
            action = "prefill_to_decode"
        else:
            req.generated_len += 1
            action = "finish" if req.done else "decode_one_step"
        event = {
            "request_id": req.request_id,
            "phase": phase,
            "action": action,
            "prompt_len": req.prompt_len,
            "generated_len": req.generated_len,
        }
        self.timeline.append(event)
        return event

    def run(self, max_steps: int = 100) -> list[dict]:
        """en: Step until nothing is active, ``max_steps`` times at most; returns the timeline itself.
        zh: 一步步走到没有活跃请求为止，最多 ``max_steps`` 步；返回时间线本身。
        """
        # TODO ch01.4
        # en: ValueError for a negative bound; then at most max_steps steps; then self.timeline itself.
        # zh: 上限为负，抛 ValueError；否则最多走 max_steps 步；最后返回 self.timeline 本身。
        if max_steps < 0:
            raise ValueError(f"max_steps must not be negative: {max_steps} | max_steps 不能是负数")
        for _ in range(max_steps):
            if self.step() is None:
                break
        return self.timeline
        # END ch01.4


# %% [markdown] lang="en"
# ## TODO ch01.1 · Into the queue
#
# Fill in `enqueue`. It lets a request in, or raises `ValueError` and changes **nothing**:
#
# - `prompt_len` must be a positive integer. So must `max_new_tokens`, unless it is `None`. Zero, `-1`,
#   `2.5`, `"3"` and `True` are all refused: `require_length` knows.
# - `request_id` must be new. Ids stay taken after their request has finished; that is easy, since
#   `queue` keeps finished requests.
#
# A good request is appended at the end of `queue` as a `RequestState` in its initial state: phase
# `prefill`, nothing generated. Nothing goes on `timeline`: no step was made.
#
# Why the fuss about bad input? A server that takes a request which can never be right fails *later*, in
# the middle of everybody else's answers. The door is the cheapest place to say no.

# %% [markdown] lang="zh"
# ## TODO ch01.1 · 请求入队
#
# 补全 `enqueue`。它要么收下请求，要么抛 `ValueError`，而且**什么都不改**：
#
# - `prompt_len` 必须是正整数；`max_new_tokens` 也一样，除非它是 `None`。
#   `0`、`-1`、`2.5`、`"3"`、`True` 一律拒绝，交给 `require_length` 就行。
# - `request_id` 不能重复。请求完成以后，它的 id 仍算被占用；这不难，因为完成的请求还留在 `queue` 里。
#
# 合格的请求变成一个初始状态的 `RequestState`（阶段是 `prefill`，还没生成任何 token），加到 `queue` 末尾。
# `timeline` 不动：还没走过任何一步。
#
# 为什么对输入这么较真？错误的请求一旦放进来，会在**后面**某个时刻出事，那时所有人的回答都才算到一半。
# 在门口说“不”，代价最小。

# %% [markdown] lang="en" hint="ch01.1"
# 1. Order is everything: do all the refusing before the one line that changes the queue. Then an error
#    cannot leave anything behind.
# 2. `require_length("prompt_len", prompt_len)` raises by itself. For `max_new_tokens` call it only when
#    it `is not None` (not `if max_new_tokens:`, which would let 0 through). For the id, look at every
#    request in `self.queue`, finished ones too.
# 3. Two calls of `require_length`. Then, if `any(req.request_id == request_id for req in self.queue)`,
#    raise `ValueError(...)`. Last, `self.queue.append(...)` with
#    `RequestState(request_id, prompt_len, priority=priority, cache_hit=..., max_new_tokens=...)`.
#    The names matter: the third field of `RequestState` is `generated_len`, not `priority`.

# %% [markdown] lang="zh" hint="ch01.1"
# 1. 关键是顺序：先把该拒绝的全部拒绝完，最后才执行改队列的那一行。这样出错时就不会留下任何痕迹。
# 2. `require_length("prompt_len", prompt_len)` 自己会抛异常。`max_new_tokens` 只在 `is not None` 时检查
#    （别写成 `if max_new_tokens:`，那会放过 0）。检查 id 时要看 `self.queue` 里的每一个请求，完成的也算。
# 3. 先调用两次 `require_length`。再判断 `any(req.request_id == request_id for req in self.queue)`，
#    成立就 `raise ValueError(...)`。最后 `self.queue.append(...)`，里面是
#    `RequestState(request_id, prompt_len, priority=priority, cache_hit=..., max_new_tokens=...)`。
#    关键字参数的名字不能省：`RequestState` 的第三个字段是 `generated_len`，不是 `priority`。

# %% [markdown] lang="en" explain="ch01.1"
# Everything that can fail comes first; the single line that changes state comes last. That order alone
# gives the promise "an error changes nothing", with no clean-up code.
#
# `require_length` tests `bool` before `int` because `isinstance(True, int)` is true in Python. `any(...)`
# walks the whole queue, so one `enqueue` costs time proportional to all requests ever seen. Fine here;
# an exercise at the end comes back to it.

# %% [markdown] lang="zh" explain="ch01.1"
# 可能失败的动作全放在前面，唯一改状态的一行放在最后。光凭这个顺序，就做到了“出错什么都不改”，
# 不用写任何善后代码。
#
# `require_length` 先查 `bool` 再查 `int`，因为在 Python 里 `isinstance(True, int)` 为真。
# `any(...)` 要扫一遍整个队列，所以一次 `enqueue` 的开销和历史上所有请求的数量成正比。眼下无妨，
# 章末有道练习会回到这里。

# %% check="ch01.1" points=2 level="core"
check("ch01.1")

# %% [markdown] lang="en"
# ## TODO ch01.2 · The order of the queue
#
# Fill in `_schedule_key`: return the tuple of the table above, field by field, in this order.
#
# 1. phase rank: 0 for `"prefill"`, 1 for `"decode"`
# 2. cache rank: 0 for a cache hit, 1 for a miss
# 3. `-priority`: a **higher** priority is more urgent, here and in every chapter
# 4. `total_len`: the tokens it has *now*, prompt and generated
# 5. `request_id`
#
# The smallest key is served first. Before you run the check, predict: who goes first, a decode with
# priority 100 or a prefill with priority 0?

# %% [markdown] lang="zh"
# ## TODO ch01.2 · 队列的次序
#
# 补全 `_schedule_key`：按上面那张表，依次返回五个字段组成的元组。
#
# 1. 阶段：`"prefill"` 是 0，`"decode"` 是 1
# 2. 缓存：命中是 0，未命中是 1
# 3. `-priority`：**数值越大越急**，这里如此，以后每一章都如此
# 4. `total_len`：**此刻**的长度，提示词加上已经生成的
# 5. `request_id`
#
# 键最小的先服务。运行检查之前先猜一猜：优先级 100 的 decode 和优先级 0 的 prefill，谁先？

# %% [markdown] lang="en" hint="ch01.2"
# 1. You compare nothing yourself: return one tuple, and Python's tuple comparison does the rest. Each
#    field only has to be smaller for the request that should go first.
# 2. Mind the directions. A hit goes first, so a hit must give the *smaller* number. A high priority goes
#    first, so it needs a minus sign. `total_len` is a property: no parentheses.
# 3. `return (0 if req.phase == "prefill" else 1, 0 if req.cache_hit else 1, -req.priority, ...)`, and two
#    more fields, both straight from `req`.

# %% [markdown] lang="zh" hint="ch01.2"
# 1. 不用自己比较：返回一个元组，剩下的交给 Python 的元组比较。每个字段只要做到一点：该在前的请求，数值更小。
# 2. 小心方向。命中在前，所以命中要给**小**的数；优先级高的在前，所以要加负号。`total_len` 是属性，
#    后面没有括号。
# 3. `return (0 if req.phase == "prefill" else 1, 0 if req.cache_hit else 1, -req.priority, ...)`，
#    还差两个字段，都直接取自 `req`。

# %% [markdown] lang="en" explain="ch01.2"
# A lexicographic key is a strict hierarchy: no amount of priority outweighs one rank of phase. So the
# prefill with priority 0 beats the decode with priority 100.
#
# The last field makes all keys different. Without it, equal requests would go in whatever order the
# search happens to meet them; with it, every correct implementation gives the same events. This is also
# what makes the run of your scheduler checkable at all.

# %% [markdown] lang="zh" explain="ch01.2"
# 按字典序比较的键是一种森严的等级：优先级再高，也抵不过阶段上差的那一级。
# 所以优先级 0 的 prefill 先于优先级 100 的 decode。
#
# 最后一个字段让所有的键互不相同。没有它，条件一样的请求谁先谁后，就要看查找时碰巧先遇到谁；
# 有了它，任何正确的实现都会给出同样的事件序列。你的调度器能被检查，靠的也正是这一点。

# %% check="ch01.2" points=3 level="core"
check("ch01.2")

# %% [markdown] lang="en"
# ## TODO ch01.3 · Choose one
#
# First, who won in `ch01.2`? The prefill. Its phase rank is smaller, and no field further right can make up for
# that: priority 100 counts only among requests that are alike in phase and cache.
#
# Now fill in the gap in `step`: let `req` be the request that this step serves. The line after the gap
# already does the serving.
#
# - Only requests that are not `done` take part; *active* means exactly that.
# - Of these, `req` is the one with the smallest key **now**. Keys change: a prefill becomes a decode, a
#   decode grows longer.
# - If nothing is active, return `None` and change nothing.
# - Leave `queue` as it is: same requests, same order. It is the record of who came when.
#
# How you find the smallest is up to you, but ask `self._schedule_key(req)` for the keys: the first experiment
# changes the order by changing that one method.

# %% [markdown] lang="zh"
# ## TODO ch01.3 · 选出一个
#
# 先说 `ch01.2` 里那个问题的答案：prefill 先。它的阶段小，右边的字段再有利也补不回来；
# 优先级 100 只有在阶段、缓存都相同的请求之间才起作用。
#
# 现在补上 `step` 里的空：让 `req` 成为这一步要服务的请求。真正的服务由空后面那一行来做。
#
# - 只有没完成（不是 `done`）的请求参加；所谓**活跃**，就是这个意思。
# - 其中 `req` 是**此刻**键最小的那个。键会变：prefill 会变成 decode，decode 会越来越长。
# - 没有活跃请求，就返回 `None`，什么都不改。
# - `queue` 保持原样：请求不少，次序不变。谁先来谁后来，全记在里面。
#
# 用什么办法找最小，随你；但键要问 `self._schedule_key(req)`：第一个实验只改这一个方法，就换了一种次序。

# %% [markdown] lang="en" hint="ch01.3"
# 1. Two small steps: which requests are active, and which of those has the smallest key. Handle "none"
#    between the two.
# 2. `min` takes a `key=` function and returns the *element*, not the key; on an empty list it raises, so
#    test for emptiness first. Sorting `self.queue` in place would change the enqueue order: do not.
# 3. `active = [req for req in self.queue if not req.done]`; `if not active: return None`; then
#    `req = min(active, key=...)` with the method you wrote in `ch01.2`, without calling it.

# %% [markdown] lang="zh" hint="ch01.3"
# 1. 分两小步：哪些请求活跃；其中谁的键最小。“一个都没有”的情况，夹在两步之间处理。
# 2. `min` 可以带 `key=` 函数，返回的是**元素**而不是键；列表为空它会抛异常，所以先判断是否为空。
#    不要对 `self.queue` 就地排序，那会打乱入队次序。
# 3. `active = [req for req in self.queue if not req.done]`；`if not active: return None`；
#    然后 `req = min(active, key=...)`，这里填你在 `ch01.2` 写的那个方法，只写名字，不要加括号调用。

# %% [markdown] lang="en" explain="ch01.3"
# Filter, then `min` with a key. `self._schedule_key` without parentheses hands the *function* over; `min`
# calls it once for each active request and returns the request.
#
# The keys are computed afresh in every step. That is correct and simple, and it looks at every request
# for every token: with n requests a run costs about n times the number of steps. The extension removes
# that factor.

# %% [markdown] lang="zh" explain="ch01.3"
# 先筛选，再用带 `key` 的 `min`。`self._schedule_key` 后面没有括号，交出去的是**函数**本身；
# `min` 对每个活跃请求各调用一次，返回的是请求。
#
# 每一步都重新计算所有的键，简单而且正确，但每出一个 token 都要把所有请求看一遍：n 个请求，
# 总开销大约是步数的 n 倍。
# 扩展部分就是要去掉这个 n。

# %% check="ch01.3" points=3 level="core"
check("ch01.3")

# %% [markdown] lang="en"
# ## TODO ch01.4 · Count the steps
#
# Fill in `run`.
#
# - Call `self.step()` until it returns `None`, but at most `max_steps` times **in this call**. Zero is a fine
#   bound: no step. A second `run` starts counting afresh.
# - A negative bound raises `ValueError` before any step.
# - Return `self.timeline` itself, the same list object, not a copy.
#
# Why a bound? Because a scheduler can have a bug, and a loop without a bound turns a bug into a frozen
# server.

# %% [markdown] lang="zh"
# ## TODO ch01.4 · 数着步子走
#
# 补全 `run`。
#
# - 反复调用 `self.step()`，直到它返回 `None`；但**这一次调用**最多走 `max_steps` 步。
#   上限为 0 也合法：一步不走。再次调用 `run`，重新计数。
# - 上限是负数，一步都不走，直接抛 `ValueError`。
# - 返回 `self.timeline` 本身，同一个列表对象，不是副本。
#
# 为什么要设上限？因为调度器可能有 bug，而没有上限的循环会把一个 bug 变成一台卡死的服务器。

# %% [markdown] lang="en" hint="ch01.4"
# 1. This is a counted loop with an early exit. Check the bound before the loop.
# 2. `for _ in range(max_steps)` can never take one step too many, and does nothing for 0. Compare with
#    `is None`. Do not compare `len(self.timeline)` with the bound: it also counts earlier calls.
# 3. `if max_steps < 0: raise ValueError(...)`; `for _ in range(max_steps):` with
#    `if self.step() is None: break` inside; and `return self.timeline`.

# %% [markdown] lang="zh" hint="ch01.4"
# 1. 这是一个可以提前退出的计数循环。上限在进循环之前检查。
# 2. `for _ in range(max_steps)` 绝不会多走一步，上限为 0 时也正好什么都不做。判断用 `is None`。
#    不要拿 `len(self.timeline)` 和上限比：那里面还有以前几次调用的步数。
# 3. `if max_steps < 0: raise ValueError(...)`；`for _ in range(max_steps):`，
#    里面写 `if self.step() is None: break`；最后 `return self.timeline`。

# %% [markdown] lang="en" explain="ch01.4"
# `range(max_steps)` is the bound: there is no counter to forget. `break` leaves as soon as nothing is
# active.
#
# `range(-1)` is simply empty, so without the explicit test a negative bound would pass in silence; a
# caller who computed `-1` has made a mistake and should hear of it. Returning the list itself means that
# whoever holds it sees later events too: useful here, and something to say aloud in the docstring.

# %% [markdown] lang="zh" explain="ch01.4"
# `range(max_steps)` 本身就是上限，没有计数器可忘。一旦没有活跃请求，`break` 立刻退出。
#
# `range(-1)` 是空的，不主动检查的话，负数上限会悄无声息地混过去；调用者算出了 `-1`，说明他那边有错，
# 应该让他知道。
# 返回列表本身，意味着拿到它的人也会看到后来的事件：这里正好用得上，但要在文档字符串里说清楚。

# %% check="ch01.4" points=2 level="core"
check("ch01.4")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the four checks pass. The rest of the chapter runs **your** class, and it is more fun when
# the surprise is your own.
#
# Stuck? In a new cell, in this order:
#
# | | what you get |
# |---|---|
# | `hint("ch01.2", 1)` | a direction |
# | `hint("ch01.2", 2)` | the tool, and the trap beside it |
# | `hint("ch01.2", 3)` | almost the code |
# | `solution("ch01.2")` | the reference, and why it is written that way |
#
# Give a TODO fifteen honest minutes before the next row. If you do open a solution, close it again and
# write it from memory: copying only trains the clipboard.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 四个检查都通过了，再往下看。后面跑的全是**你的**类，亲手写出来的东西出了意外，才有意思。
#
# 卡住了？新建一个单元格，按这个顺序来：
#
# | | 得到什么 |
# |---|---|
# | `hint("ch01.2", 1)` | 一个方向 |
# | `hint("ch01.2", 2)` | 该用的工具，以及旁边的坑 |
# | `hint("ch01.2", 3)` | 差不多就是代码了 |
# | `solution("ch01.2")` | 参考实现，以及为什么这样写 |
#
# 每往下一行之前，先老老实实想十五分钟。真要看了答案，就把它关掉，凭记忆自己写一遍：
# 复制粘贴只锻炼剪贴板。

# %%
progress()

# %% [markdown] lang="en"
# ## The worked case
#
# Three requests, all there from the start:
#
# | request | prompt | priority | cache |
# |---|---|---|---|
# | 1 | 2 | 2 | hit |
# | 2 | 3 | 1 | miss |
# | 3 | 1 | 3 | hit |
#
# Each generates as many tokens as its prompt is long: 3 prefills and 2 + 3 + 1 tokens, nine events.
# **Predict** the order of the nine on paper. Then run.

# %% [markdown] lang="zh"
# ## 完整走一遍
#
# 三个请求，一开始就都到齐：
#
# | 请求 | 提示词长度 | 优先级 | 缓存 |
# |---|---|---|---|
# | 1 | 2 | 2 | 命中 |
# | 2 | 3 | 1 | 未命中 |
# | 3 | 1 | 3 | 命中 |
#
# 提示词多长就生成多长：3 次 prefill，加上 2 + 3 + 1 个 token，一共九个事件。
# 先在纸上**猜出**这九个事件的次序，再运行。

# %%
sim = DecodeSchedulerSim()
sim.enqueue(1, prompt_len=2, priority=2, cache_hit=True)
sim.enqueue(2, prompt_len=3, priority=1, cache_hit=False)
sim.enqueue(3, prompt_len=1, priority=3, cache_hit=True)
for event in sim.run(max_steps=20):
    print(event["request_id"], event["action"])

# %%
from decodelab.show.plots import event_strip

event_strip(sim.timeline)

# %% [markdown] lang="en"
# *Event strip: one row per request id, steps to the right. Tall and hatched: prefill, with the prompt's
# length. Low: decode, with the tokens generated so far. With a dot: the step that finishes the request. Thin
# line: begun and waiting.*
#
# Look at request 2. Its prefill comes third, but its first token only after both others have finished:
# every decode of a hit outranks every decode of a miss. Three requests, and someone already waits.

# %% [markdown] lang="zh"
# 图：事件条，一行一个请求（左边是 id），从左到右是步。高格带斜纹是 prefill，数字是提示词长度；
# 矮格是 decode，数字是已生成的 token 数；带圆点的那一步完成请求；细线表示已经开始、正在等。
#
# 看请求 2。它第三步就做完了 prefill，第一个 token 却要等另外两个全部完成才轮得到：
# 命中者的任何一步 decode，都排在未命中者的 **decode** 前面。才三个请求，就已经有人在干等了。

# %% [markdown] lang="en"
# ## Experiments: what is wrong with this scheduler
#
# Your class does exactly what it should. Now we ask whether that is any good. Four experiments, each with
# a question: **write your prediction down before you run the cell.** A wrong prediction is the most
# valuable thing that you can get from this chapter.
#
# The toy has no clock, so a small helper lets requests arrive *at a step*.

# %% [markdown] lang="zh"
# ## 实验：这个调度器错在哪里
#
# 你的类严格照规则办事，一点没错。现在要问的是：规则本身好不好？
# 四个实验，每个先给一个问题：**运行之前，先把你的预测写下来。** 猜错了，正是这一章最值钱的收获。
#
# 玩具没有时钟，所以用一个小工具，让请求在**某一步**到达。

# %%
import matplotlib.pyplot as plt

BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"


def drive(sim, arrivals, steps):
    """en: Make ``steps`` steps; before step k, enqueue what ``arrivals[k]`` lists. One event (or None) a step.
    zh: 走 ``steps`` 步；第 k 步之前，先让 ``arrivals[k]`` 里的请求入队。每步返回一个事件（或 None）。
    """
    log = []
    for now in range(steps):
        for request in arrivals.get(now, []):
            sim.enqueue(**request)
        log.append(sim.step())
    return log


def token_steps(log, request_id):
    """en: The steps in which this request got a token.
    zh: 这个请求在哪些步得到了 token。
    """
    return [
        now
        for now, event in enumerate(log)
        if event and event["request_id"] == request_id and event["phase"] == "decode"
    ]


# %% [markdown] lang="en"
# ### Experiment 1 · A miss among hits
#
# Request 0 is a cache miss, priority **9**, and wants 20 tokens. Meanwhile a cache hit of priority 0
# arrives every `gap` steps and wants one token, so it needs two steps: at `gap=2` the hits alone fill the
# machine, at 3 they leave every third step free, at 4 every second.
#
# **Predict:** how many of its 20 tokens does the urgent request get in 120 steps, for each gap?

# %% [markdown] lang="zh"
# ### 实验 1 · 命中堆里的未命中
#
# 请求 0 没命中缓存，优先级是 **9**，要 20 个 token。与此同时，
# 每隔 `gap` 步来一个命中缓存、优先级为 0 的请求，
# 只要一个 token，也就是占两步。`gap=2` 时，光是它们就把机器占满；
# 等于 3 时每三步空出一步；等于 4 时空出一半。
#
# **先猜：** 三种 gap 下，120 步之内，这个最急的请求各能拿到 20 个 token 里的几个？


# %%
def hits_every(gap, steps):
    arrivals = {
        now: [{"request_id": now + 1, "prompt_len": 4, "cache_hit": True, "max_new_tokens": 1}]
        for now in range(0, steps, gap)
    }
    arrivals[0].append({"request_id": 0, "prompt_len": 4, "priority": 9, "max_new_tokens": 20})
    return arrivals


fig, ax = plt.subplots(figsize=(7, 2.6))
for gap, colour, line in [(2, BLUE, "-"), (3, ORANGE, "--"), (4, GREEN, ":")]:
    tokens = token_steps(drive(DecodeSchedulerSim(), hits_every(gap, 120), 120), request_id=0)
    ax.step([0, *tokens, 120], [0, *range(1, len(tokens) + 1), len(tokens)], line, where="post", color=colour)
    ax.text(tokens[9] if tokens else 60, len(tokens) / 2, str(gap), color=colour, backgroundcolor="white")
    print(f"gap {gap}: {len(tokens)}/20")
ax.set(xlabel="step", ylabel="tokens", ylim=(-2.5, 21))
plt.show()

# %% [markdown] lang="en"
# *x: step. y: tokens that request 0 has. The number on a line is its gap: 2 solid, 3 dashed,
# 4 dotted.*
#
# At `gap=2`: none, ever. The highest priority in the building, and it starves, because cache rank stands
# *before* priority in the key. Is it enough to swap the two fields?

# %% [markdown] lang="zh"
# 图：横轴是步，纵轴是请求 0 已有的 token 数。线上的数字是 gap：2 是实线，3 是虚线，4 是点线。
#
# `gap=2` 时：一个都没有，永远没有。全场优先级最高的请求活活饿死，因为在键里，缓存排在优先级**前面**。
# 那把这两个字段对调一下，够不够？


# %%
class PriorityBeforeCache(DecodeSchedulerSim):
    def _schedule_key(self, req):
        phase, cache, urgency, length, request_id = super()._schedule_key(req)
        return (phase, urgency, cache, length, request_id)


urgent = hits_every(2, 120)
relaxed = hits_every(2, 120)
relaxed[0][-1]["priority"] = 0
for arrivals in (urgent, relaxed):
    tokens = token_steps(drive(PriorityBeforeCache(), arrivals, 120), request_id=0)
    print(f"priority {arrivals[0][-1]['priority']}: {len(tokens)}/20")

# %% [markdown] lang="en"
# **Takeaway.** Swapping saves the urgent miss and starves the ordinary one all the same. *Any* strict order in
# which newcomers may step in front of those who wait starves whoever stands last, as long as newcomers keep
# coming. The cure is not a better order but a bound on waiting: aging (chapter 3), and a fair cache-aware order
# (chapter 11).

# %% [markdown] lang="zh"
# **结论。** 对调救了那个最急的，普通的未命中请求照样饿死。只要后来的可以排到前面，
# 而且不断有后来的，**任何**严格的次序都会让排在最后的饿死。药方不是换一个更好的次序，而是给等待时间设上限：
# 第 3 章的老化（aging），以及第 11 章既照顾缓存又公平的次序。

# %% [markdown] lang="en"
# ### Experiment 2 · Decode under a stream of newcomers
#
# Request 0 comes first, is prefilled at step 0, and wants 12 tokens. From step 1 to step 59 a new request
# arrives every `gap` steps, with a longer prompt; no cache hits, equal priorities.
#
# **Predict:** at `gap=1`, in which step does request 0 get its first token? And what does its user see?

# %% [markdown] lang="zh"
# ### 实验 2 · 新人不断，decode 怎么办
#
# 请求 0 先到，第 0 步做完 prefill，要 12 个 token。从第 1 步到第 59 步，每隔 `gap` 步来一个新请求，
# 提示词更长；大家都没命中缓存，优先级也都一样。
#
# **先猜：** `gap=1` 时，请求 0 第几步才拿到第一个 token？屏幕前的用户看到的是什么？


# %%
def newcomers_every(gap):
    arrivals = {
        now: [{"request_id": now, "prompt_len": 100, "max_new_tokens": 1}] for now in range(1, 60, gap)
    }
    arrivals[0] = [{"request_id": 0, "prompt_len": 1, "max_new_tokens": 12}]
    return arrivals


fig, ax = plt.subplots(figsize=(7, 2.2))
for gap, colour, marker in [(1, BLUE, "o"), (2, ORANGE, "s"), (3, GREEN, "^")]:
    tokens = token_steps(drive(DecodeSchedulerSim(), newcomers_every(gap), 80), request_id=0)
    ax.plot(tokens, [gap] * len(tokens), marker, color=colour)
    print(f"gap {gap}: {tokens}")
ax.axvline(60, color="grey", linewidth=1)
ax.set(xlabel="step", ylabel="gap", xlim=(-1, 80), ylim=(3.5, 0.5), yticks=[1, 2, 3])
plt.show()

# %% [markdown] lang="en"
# *x: step. One row per gap; each mark is one token of request 0. The grey line: no more newcomers.*
#
# At `gap=1` not a single token leaves the machine in the first 60 steps: not for request 0, not for anyone. The
# machine is busy all the time and delivers nothing.
#
# **Takeaway.** "Prefill first" brings every answer's beginning early and leaves the rest of it at the mercy of
# the traffic. Chapter 2 gives the two sides names (TTFT and TPOT); chapter 7 serves both in one step, with a
# budget for each.

# %% [markdown] lang="zh"
# 图：横轴是步，一行一个 gap，每个记号是请求 0 的一个 token。灰线之后不再有新请求。
#
# `gap=1` 时，前 60 步里机器一个 token 都没吐出来：请求 0 没有，谁都没有。机器一刻没闲着，却什么也没交付。
#
# **结论。** “prefill 优先”让每个回答开头来得早，后面的 token 何时能来，
# 却全看有没有新请求插到前面。
# 第 2 章会给这两头起名字（TTFT 和 TPOT）；第 7 章让两者在同一步里都得到服务，各有各的预算。

# %% [markdown] lang="en"
# ### Experiment 3 · One at a time
#
# Eight requests want 8, 16, …, 64 tokens: 288 in all. A decode pass of a real model reads all weights
# once, *however many* requests it serves. The toy serves one.
#
# So at each decode step count the requests that are ready to decode: all of them could have shared that
# pass.
#
# **Predict:** if every pass served all that are ready, how many passes would the 288 tokens need?

# %% [markdown] lang="zh"
# ### 实验 3 · 一次只服务一个
#
# 八个请求，分别要 8、16、……、64 个 token，一共 288 个。真实模型做一次 decode 前向，要把全部权重读一遍，
# **不管**这一次服务几个请求。玩具一次只服务一个。
#
# 所以在每个 decode 步，数一数有几个请求已经可以 decode：它们本来都能搭上这一趟。
#
# **先猜：** 如果每一趟都把可以 decode 的全带上，288 个 token 要跑几趟？

# %%
sim = DecodeSchedulerSim()
targets = range(8, 65, 8)
for number, target in enumerate(targets):
    sim.enqueue(number, prompt_len=16, max_new_tokens=target)

ready = []
while True:
    could_decode = sum(req.phase == "decode" and not req.done for req in sim.queue)
    served = sim.step()
    if served is None:
        break
    if served["phase"] == "decode":
        ready.append(could_decode)

used = sum(1 / r for r in ready) / len(ready)
print(tr(en="one request a pass, passes:", zh="一趟带一个，趟数："), len(ready))
print(tr(en="all ready ones in a pass, passes:", zh="能带的全带上，趟数："), max(targets))
print(tr(en="mean share of the ready ones served:", zh="每趟平均带上的比例："), f"{used:.0%}")

fig, ax = plt.subplots(figsize=(7, 2.2))
ax.fill_between(range(len(ready)), ready, step="post", color=ORANGE, alpha=0.5)
ax.fill_between(range(len(ready)), 1, step="post", color=BLUE)
ax.set(xlabel="decode step", ylabel="requests", ylim=(0, 8.5))
plt.show()

# %% [markdown] lang="en"
# *x: decode step. y: requests. Light: ready to decode. Dark: the one that was served.*
#
# The longest request alone needs 64 passes, and all others fit into its shadow: 64 instead of 288.
#
# **Takeaway.** The light area is work that was ready and left out. Two honest limits: this counts *passes*,
# not seconds (a fuller pass costs something; chapter 2 says how much), and it takes memory to have eight
# requests open at once (chapter 5). Chapter 4 fills the light area: continuous batching.

# %% [markdown] lang="zh"
# 图：横轴是 decode 步，纵轴是请求数。浅色是可以 decode 的，深色是真正被服务的那一个。
#
# 最长的请求自己就要 64 趟，其余的全能搭它的车：288 趟变成 64 趟。
#
# **结论。** 浅色的面积，是万事俱备却没带上的活。有两点要说在前头：这里数的是**趟数**，不是秒数
# （一趟装得多，总要多花一点，第 2 章算给你看）；而且同时开着八个请求要占显存（第 5 章）。
# 把浅色填满的，是第 4 章的连续批处理（continuous batching）。

# %% [markdown] lang="en"
# ### Experiment 4 · A hundred requests of real length
#
# Now lengths as they are in service: the first 100 requests of the Azure chat trace if the environment variable
# `DECODELAB_TRACES` names the folder that holds it; otherwise 100 *synthetic* ones, drawn to its published
# quantiles. The toy has no clock, so all are enqueued at once, in order of arrival.
#
# **Predict:** whose first token comes last? And which share of the steps goes into reading prompts, when
# prompts hold most of the tokens?

# %% [markdown] lang="zh"
# ### 实验 4 · 一百个长度真实的请求
#
# 换成线上那样的长度：环境变量 `DECODELAB_TRACES` 指向存放 trace 的文件夹时，取 Azure 聊天 trace 的前 100 个请求；
# 否则用 100 个**合成**请求，按它公布的分位数生成。玩具没有时钟，所以按到达次序一次全部入队。
#
# **先猜：** 谁的第一个 token 来得最晚？token 大半都在提示词里，那么读提示词占了多少步？

# %%
import os
import time
from pathlib import Path

import numpy as np

from decodelab.workload import read_trace, synthetic

path = Path(os.environ.get("DECODELAB_TRACES", "")) / "azure_llm_2023_conv.csv"
requests = read_trace(path, rows=100) if path.is_file() else synthetic("azure-chat-like", 100, seed=1)
print(requests.name)

sim = DecodeSchedulerSim()
for number, request in enumerate(requests):
    sim.enqueue(number, request.prompt_len, max_new_tokens=request.max_new_tokens)

prompt_tokens = sum(request.prompt_len for request in requests)
answer_tokens = sum(request.max_new_tokens for request in requests)
began = time.perf_counter()
timeline = sim.run(max_steps=len(requests) + answer_tokens)
seconds = time.perf_counter() - began

first_token, finish = {}, {}
for now, event in enumerate(timeline, start=1):
    if event["generated_len"] == 1:
        first_token[event["request_id"]] = now
    if event["action"] == "finish":
        finish[event["request_id"]] = now

for label, waits in [
    (tr(en="steps to the first token", zh="到第一个 token 的步数"), list(first_token.values())),
    (tr(en="steps to the last token", zh="到最后一个 token 的步数"), list(finish.values())),
]:
    p50, p99 = np.percentile(waits, [50, 99])
    print(f"{label}: p50 {p50:,.0f}, p99 {p99:,.0f}")
print(
    tr(en="prompts: share of tokens, share of steps:", zh="提示词占 token 的比例、占步数的比例："),
    f"{prompt_tokens / (prompt_tokens + answer_tokens):.1%}, {len(requests) / len(timeline):.1%}",
)

fig, ax = plt.subplots(figsize=(7, 2.6))
prompt_lens = [request.prompt_len for request in requests]
ax.scatter(prompt_lens, [first_token[number] for number in range(len(requests))], s=14, color=BLUE)
ax.set(xlabel="prompt_len", ylabel="step")
plt.show()

# %% [markdown] lang="en"
# *One dot per request. x: prompt length in tokens. y: the step of its first token.*
#
# The longer the prompt, the later the first token: shortest-first, with no bound, again. And reading most
# of the tokens took almost none of the steps, because in the toy a prefill costs **one step at any
# length**: a prompt of 7 tokens and one of 7,000 look alike.
#
# **Takeaway.** A step is not a unit of time. No latency measured in these steps means anything in
# milliseconds, and no policy can be judged by it. Chapter 2 gives the simulator a clock and each step a cost.

# %% [markdown] lang="zh"
# 图：一个点是一个请求。横轴是提示词的 token 数，纵轴是第一个 token 出现在第几步。
#
# 提示词越长，第一个 token 来得越晚：又是没有上限的“短者优先”。再看比例：
# 大半的 token 只花了极少的步数就读完了，
# 因为在玩具里，prefill **不论多长都只算一步**：7 个 token 的提示词和 7,000 个的，看起来一模一样。
#
# **结论。** 步不是时间单位。用步量出来的延迟换算不成毫秒，也没法拿来评判哪个策略好。
# 第 2 章会给模拟器装上时钟，给每一步标上价格。

# %% [markdown] lang="en"
# ## TODO ch01.5 · The same events, faster
#
# *Extension: its points are counted apart, and no later chapter needs it.*
#
# How long would the whole trace take? Steps grow with the number of requests, and so does the scan in
# each step. The next cell scales your measured time up.

# %% [markdown] lang="zh"
# ## TODO ch01.5 · 事件不变，速度更快
#
# **扩展部分**：单独计分，后面的章节用不到它。
#
# 跑完整个 trace 要多久？请求多了，步数跟着涨，每一步要扫的请求也跟着涨。
# 下面这个单元格拿你刚才实测的时间推算一下。

# %%
hours = seconds * (19_366 / len(requests)) ** 2 / 3600
print(
    tr(
        en=f"{len(requests)} requests, measured: {seconds:.2f} s",
        zh=f"{len(requests)} 个请求，实测 {seconds:.2f} 秒",
    )
)
print(tr(en=f"19,366 requests, scaled up: {hours:,.1f} hours", zh=f"19,366 个请求，推算 {hours:,.1f} 小时"))

# %% [markdown] lang="en"
# A **heap** keeps its smallest element at hand: `heappush` and `heappop` cost about log n instead of n. The
# usual worry is that keys change while they lie in the heap. Here they do not: a key depends only on the
# request itself, and **a step changes one request, the one that you just popped**. So pop it, advance it,
# and push it back with its new key; all other entries are still right.
#
# `__init__` and `enqueue` are written: they keep every active request in `self._heap`, as an entry
# `(key, req)`. Write `step`. It must give exactly the same events as before: same `queue`, same `timeline`,
# `None` when nothing is active, late arrivals included. One thing to ponder: no two keys are ever equal
# (why?), so Python never has to compare two requests.
#
# The check runs thousands of requests: a scan per step does not finish in time.

# %% [markdown] lang="zh"
# **堆**（heap）把最小的元素放在手边：`heappush` 和 `heappop` 的开销大约是 log n，而不是 n。
# 通常要担心的是：元素躺在堆里的时候，键变了怎么办？这里不会。键只取决于请求自己，而
# **一步只改一个请求，就是你刚弹出来的那个**。所以弹出来，前进一步，带着新键放回去；堆里其他的键依然有效。
#
# `__init__` 和 `enqueue` 已经写好：每个活跃请求都以 `(key, req)` 的形式放在 `self._heap` 里。请写出 `step`。
# 它给出的事件必须和原来完全一样：`queue` 一样，`timeline` 一样，没有活跃请求时返回 `None`，
# 中途到达的请求也照常处理。
# 想一想：任何两个键都不会相等（为什么？），所以 Python 永远不需要比较两个请求。
#
# 检查会跑几千个请求：每步扫一遍的写法，时间内跑不完。

# %% [markdown] lang="en" hint="ch01.5"
# 1. The heap holds exactly the active requests, each once. Keep that true: take one out, and put it back
#    only if it is still active.
# 2. `heapq.heappop(self._heap)` returns the whole entry, key and request. Compute the new key *after*
#    `self._advance(req)`; the old one is out of date by then. An empty heap means: nothing is active.
# 3. `if not self._heap: return None`; `_, req = heapq.heappop(self._heap)`;
#    `event = self._advance(req)`; `if not req.done:` push `(self._schedule_key(req), req)`;
#    `return event`.

# %% [markdown] lang="zh" hint="ch01.5"
# 1. 堆里放的恰好是全部活跃请求，每个一份。让这句话始终成立：取出一个；它还活跃，才放回去。
# 2. `heapq.heappop(self._heap)` 返回整个元素，键和请求都在里面。新键要在 `self._advance(req)` **之后**再算，
#    那时旧键已经过期。堆空了，就是没有活跃请求。
# 3. `if not self._heap: return None`；`_, req = heapq.heappop(self._heap)`；
#    `event = self._advance(req)`；`if not req.done:` 就把 `(self._schedule_key(req), req)` 放回堆里；
#    最后 `return event`。

# %% [markdown] lang="en" explain="ch01.5"
# The invariant: *every active request is in the heap once, with its present key*. `enqueue` establishes it
# for a newcomer. `step` breaks it for the popped request only and restores it before returning. Since no
# other request changed, no entry is ever stale.
#
# Keys end in the id, and ids are unique, so two keys are never equal and the tuple comparison never
# reaches `req`, which has no order. Remember the condition: where keys change with *time*, as in chapter 3,
# those in the heap go stale, all at once; there you will see when that can be helped and when it cannot.

# %% [markdown] lang="zh" explain="ch01.5"
# 不变式是：**每个活跃请求在堆里恰好出现一次，带的是它当前的键**。`enqueue` 为新请求建立它；
# `step` 只对弹出的那个请求打破它，返回之前又恢复。其他请求都没变，所以堆里的键不会过期。
#
# 键的最后一项是 id，id 不重复，所以两个键不会相等，元组比较也就走不到 `req`（它没有大小之分）。
# 记住这个前提：如果键随**时间**变，像第 3 章那样，堆里的键就会一起过期；什么时候有办法补救，什么时候没有，到那里再看。

# %% answer="ch01-answer-2" tags=["export"]
import heapq


class FastDecodeSchedulerSim(DecodeSchedulerSim):
    """en: The same events, without looking at every request in every step.
    zh: 事件完全相同，但不用每一步都把所有请求看一遍。
    """

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[tuple, RequestState]] = []

    def enqueue(
        self,
        request_id: int,
        prompt_len: int,
        priority: int = 0,
        cache_hit: bool = False,
        max_new_tokens: int | None = None,
    ) -> None:
        super().enqueue(request_id, prompt_len, priority, cache_hit, max_new_tokens)
        req = self.queue[-1]
        heapq.heappush(self._heap, (self._schedule_key(req), req))

    def step(self) -> dict | None:
        # TODO ch01.5
        # en: Pop the smallest, advance it, push it back with its new key unless it is done.
        # zh: 弹出最小的，让它前进一步；没完成的话，带着新键放回堆里。
        if not self._heap:
            return None
        _, req = heapq.heappop(self._heap)
        event = self._advance(req)
        if not req.done:
            heapq.heappush(self._heap, (self._schedule_key(req), req))
        return event
        # END ch01.5


# %% check="ch01.5" points=3 level="extension"
check("ch01.5")

# %%
race = FastDecodeSchedulerSim()
for number, request in enumerate(requests):
    race.enqueue(number, request.prompt_len, max_new_tokens=request.max_new_tokens)
began = time.perf_counter()
race.run(max_steps=len(timeline))
fast = time.perf_counter() - began
whole = fast * 19_366 / len(requests)
print(
    tr(en="the same events:", zh="事件相同："),
    race.timeline == timeline,
)
print(
    tr(
        en=f"{len(requests)} requests, measured: {seconds:.2f} s before, {fast:.2f} s now",
        zh=f"{len(requests)} 个请求，实测：原来 {seconds:.2f} 秒，现在 {fast:.2f} 秒",
    )
)
print(tr(en=f"19,366 requests, scaled up: {whole:.0f} s", zh=f"19,366 个请求，推算 {whole:.0f} 秒"))

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# | | vLLM 0.33.0 | SGLang, commit `00550cd` | TensorRT-LLM 1.4.0rc4 |
# |---|---|---|---|
# | a step serves | a batch | a batch | a batch |
# | prefill or decode first | running requests first | prefill, if one can be formed | not checked |
# | order of the waiting | `fcfs`, `priority` | `fcfs`, `lpm`, `hrrn`, … | `fcfs`, `shortest_uncached_first` |
#
# - **vLLM has no phase at all.** A request has so many tokens, and so many of them are computed; each step
#   spends a budget of tokens, first on running requests in order of admission, then on waiting ones. A
#   running decode therefore cannot starve as in experiment 2. Under `priority` the **lower** value goes
#   first: the opposite of ours. *(`vllm/v1/core/sched/scheduler.py`, read and driven.)*
# - **SGLang asks our first question and answers it like us**: if a prefill batch can be formed it runs, else
#   the running requests decode. Its `lpm` (longest prefix match) is a finer-grained version of our
#   cache rank: the more cached tokens, the sooner. Its `hrrn` answers experiment 1: it ranks by waiting time over prefill work still
#   to do, so a cold request rises as it waits. With more than 128 waiting, both fall back to `fcfs`, since sorting
#   by prefix costs time too.
#   ([scheduler.py](https://github.com/sgl-project/sglang/blob/00550cd11b35def9d584bf761a1e32729c20a21d/python/sglang/srt/managers/scheduler.py),
#   [schedule_policy.py](https://github.com/sgl-project/sglang/blob/00550cd11b35def9d584bf761a1e32729c20a21d/python/sglang/srt/managers/schedule_policy.py))
# - **TensorRT-LLM** takes its decision anew in every step, too ("inflight batching"). By default waiting
#   requests are admitted in order of arrival; `shortest_uncached_first` prefers few uncached prompt
#   tokens, and right beside it stands an option named `context_starvation_iterations`. Whoever adds the one
#   soon needs the other.
#   ([SchedulerConfig](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/SchedulerConfig.html),
#   [Scheduler](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/torch/scheduler.html))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# | | vLLM 0.33.0 | SGLang，commit `00550cd` | TensorRT-LLM 1.4.0rc4 |
# |---|---|---|---|
# | 一步服务 | 一批 | 一批 | 一批 |
# | prefill 和 decode 谁先 | 运行中的先 | 凑得出 prefill 就先 prefill | 未查证 |
# | 等待者的次序 | `fcfs`、`priority` | `fcfs`、`lpm`、`hrrn` 等 | `fcfs`、`shortest_uncached_first` |
#
# - **vLLM 根本没有“阶段”。** 一个请求有多少 token，其中多少已经算过，只记这两个数；每一步有一份 token 预算，
#   先按接纳次序分给运行中的请求，再分给等待的。所以正在 decode 的请求不会像实验 2 那样饿死。
#   另外，在 `priority` 策略下，数值**小**的在前，和我们相反。
#   （`vllm/v1/core/sched/scheduler.py`，读过源码，也实际驱动运行过。）
# - **SGLang 问的第一个问题和我们一样，答案也一样**：凑得出 prefill 批次就先跑它，否则让运行中的请求 decode。
#   它的 `lpm`（最长前缀匹配）是我们“缓存”字段的精细版：命中的 token 越多越靠前。
#   它的 `hrrn` 正好回答了实验 1：用“已经等了多少”除以“还要 prefill 多少”，等得越久比值越大，
#   没命中的请求也会慢慢往前挪。等待者超过 128 个时，两者都退回 `fcfs`，因为按前缀排序本身也费时间。
#   （[scheduler.py](https://github.com/sgl-project/sglang/blob/00550cd11b35def9d584bf761a1e32729c20a21d/python/sglang/srt/managers/scheduler.py)、
#   [schedule_policy.py](https://github.com/sgl-project/sglang/blob/00550cd11b35def9d584bf761a1e32729c20a21d/python/sglang/srt/managers/schedule_policy.py)）
# - **TensorRT-LLM** 也是每一步重新做决定（它叫 inflight batching）。等待的请求默认按到达次序接纳；
#   `shortest_uncached_first` 则优先接纳未命中 token 少的，而它旁边就摆着一个叫
#   `context_starvation_iterations` 的选项（starvation 就是“饿死”）。有了前者，迟早要补上后者。
#   （[SchedulerConfig](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/SchedulerConfig.html)、
#   [Scheduler](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/torch/scheduler.html)）

# %% [markdown] lang="en"
# ## Summary
#
# - A scheduler answers one question per step: who goes next? A **key** makes the answer explainable, and a
#   unique last field makes it repeatable.
# - A key is a strict hierarchy. Where newcomers may step in front of those who wait, whoever stands last
#   starves: a miss among steady hits, a decode among steady prefills.
# - One request per pass leaves most of the ready work out. That is what batching is for.
# - Steps are not time: a prefill of any length costs one.
# - Where a step changes one key only, a heap gives the same events at log n.

# %% [markdown] lang="zh"
# ## 小结
#
# - 调度器每一步只回答一个问题：下一个是谁？**键**让答案说得清道理，末尾那个不重复的字段让答案可以重现。
# - 键是森严的等级。只要后来的可以排到前面，排在最后的就会饿死：命中不断，未命中饿死；
#   prefill 不断，decode 饿死。
# - 一趟只带一个请求，大半准备好的活都没带上。批处理就是为此而生。
# - 步不是时间：prefill 不论多长，都只算一步。
# - 如果一步只改一个键，用堆就能以 log n 的代价得到同样的事件。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **Decode first.** Subclass your scheduler and flip the phase rank. Run experiment 2 again: who waits
#    now? Give the arrival pattern that starves *that* scheduler.
# 2. **A cheap bound.** Serve the smallest key, except that every tenth step serves the request that came
#    first. How long can the miss of experiment 1 now wait for a token? Compute the bound, then measure.
# 3. **What is left.** With the heap, what grows fastest in a run of the whole trace? Measure `enqueue` for
#    1,000 and 10,000 requests, and make it cost the same for each request.
# 4. **Ties.** Drop the id from the key. Find two requests and two correct ways of writing `step` that now
#    give different events. What happens to the heap?
#
# To discuss: a service promises "urgent requests first". Which sentence would *you* put into the contract,
# so that it can be kept when everybody is urgent?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **decode 优先。** 写一个子类，把阶段的先后反过来，再跑一遍实验 2：现在轮到谁等？
#    给出一种到达方式，让**它**也饿死人。
# 2. **便宜的上限。** 平时服务键最小的，但每逢第十步，改为服务来得最早的那个。
#    这时实验 1 的未命中请求，最多要等多久才有一个 token？先算出上限，再实测。
# 3. **还剩什么。** 用了堆以后，跑完整个 trace，增长最快的是哪一块？分别用 1,000 和 10,000 个请求测一测
#    `enqueue`，并把它改到每个请求的开销都一样。
# 4. **平局。** 从键里去掉 id。找出两个请求，以及两种都算正确的 `step` 写法，让它们给出不同的事件。
#    堆又会怎样？
#
# 讨论：某个服务承诺“紧急请求优先”。换作**你**来写这份合同，该怎么写，才能在人人都紧急的时候也兑现得了？

# %% [markdown] lang="en"
# ## What next
#
# In chapter 2 requests arrive at a time of their own, and a roofline model puts a price on every step. You learn
# the metrics that serving teams are paged for: TTFT, TPOT, goodput. Then "better scheduler" becomes a number.

# %% [markdown] lang="zh"
# ## 接下来
#
# 第 2 章让请求有到达时间，用 roofline 模型给每一步标价，再教你线上服务真正盯着的指标：TTFT、TPOT、goodput。
# 到那时，“更好的调度器”就不再是感觉，而是一个数。
