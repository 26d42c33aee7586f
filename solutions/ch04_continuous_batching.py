# %% [markdown] lang="en"
# # Chapter 4 · Continuous batching
#
# So far one request was served at a time. From here on a step serves a batch, and the scheduler says who is
# in it. You will write two of them: one that fills a batch and waits until all of it is done, and one that gives
# a slot to the next in line the moment it is free. They differ in a line or two, and by a factor of about two in
# what a GPU delivers.
#
# **Time.** Core: 90 minutes at most (five TODOs, four experiments). Extension: 30 minutes more.
#
# **You need.** [Chapter 2](./ch02_cost_and_metrics.ipynb) (what a step costs, TTFT, TPOT) and
# [chapter 3](./ch03_policies.ipynb) (a policy is a `key`). No GPU, no PyTorch.
#
# **You leave with.** A scheduler that meets *the contract*: the same five methods will drive the simulator today
# and a real decoder in chapter 10.

# %% [markdown] lang="zh"
# # 第 4 章 · 连续批处理
#
# 到现在为止，一次只服务一个请求。从这一章起，一步服务一批，谁在这一批里，由调度器说了算。
# 你要写两个调度器：一个凑满一批，等这一批全部做完再凑下一批；另一个只要空出一个位置，立刻让给排在最前面的请求。
# 两者的代码只差一两行，GPU 的产出却大约差一倍。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，四个实验）；扩展部分再加 30 分钟。
#
# **基础。** [第 2 章](./ch02_cost_and_metrics.ipynb)（一步值多少钱，TTFT、TPOT）和
# [第 3 章](./ch03_policies.ipynb)（策略就是一个 `key`）。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 一个遵守**契约**的调度器：就是这五个方法，今天驱动模拟器，到第 10 章驱动真正的解码器。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. A decode step for one request reads all weights from memory. What does a decode step for eight read?
# 2. What do TTFT and TPOT measure, and which of them does a user feel while an answer is being written?
# 3. A policy's `key(request, now)` gives 3 for one request and 5 for another. Who goes first?
#
# For 1 and 2 see [chapter 2](./ch02_cost_and_metrics.ipynb), for 3
# [chapter 3](./ch03_policies.ipynb).

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 给一个请求做一步 decode，要把全部权重从显存读一遍。同时给八个请求做，要读多少？
# 2. TTFT 和 TPOT 量的各是什么？回答正在一个字一个字往外冒的时候，用户感受到的是哪一个？
# 3. 某个策略的 `key(request, now)`，对一个请求给出 3，对另一个给出 5。谁先？
#
# 前两题见[第 2 章](./ch02_cost_and_metrics.ipynb)，第 3 题见[第 3 章](./ch03_policies.ipynb)。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch04", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# A batch is nearly free: a decode step reads the same weights for eight requests as for one. So put eight
# requests together, run them, and take the next eight. Where is the catch?
#
# Answers have different lengths. Here are 8,000 synthetic requests with the published lengths of a chat service
# (Azure, 2023): the mean answer has 210 tokens, the **longest of eight** has 459 on average. Seven finish and
# leave their slots empty until the last one is done.
#
# | requests in a batch | longest answer, on average | share of the slots that works |
# |---|---|---|
# | 2 | 298 tokens | 70 % |
# | 4 | 390 | 54 % |
# | 8 | 459 | 46 % |
# | 16 | 516 | 41 % |
# | 32 | 580 | 36 % |
#
# The larger the batch, the more of it is idle, while others wait at the door. One fraction says it all: *mean over
# maximum* is the share of the machine that you use.
#
# *`synthetic("azure-chat-like", 8000, seed=1)`, in groups as they come; Azure LLM inference trace 2023, CC-BY 4.0,
# Patel et al., ISCA 2024.*

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 批几乎是白送的：同样把权重读一遍，给八个请求做一步 decode，和给一个做差不多快。那就八个一组一起跑，跑完再来八个。
# 问题出在哪儿？
#
# 回答有长有短。按一个聊天服务公布的长度（Azure，2023）合成 8,000 个请求：平均一个回答 210 个 token，
# 而**八个里最长的那个**平均有 459 个。另外七个早就写完了，位置却一直空着，等最后那一个。
#
# | 一批几个请求 | 最长的回答（平均） | 真正在干活的位置 |
# |---|---|---|
# | 2 | 298 个 token | 70% |
# | 4 | 390 | 54% |
# | 8 | 459 | 46% |
# | 16 | 516 | 41% |
# | 32 | 580 | 36% |
#
# 批越大，闲着的比例越高，而门外还有人在排队。一句话：**平均值除以最大值**，就是机器被用上的比例。
#
# 数据：`synthetic("azure-chat-like", 8000, seed=1)`，按先后分组；
# Azure LLM inference trace 2023，CC-BY 4.0，Patel 等，ISCA 2024。

# %% [markdown] lang="en"
# ## The idea: decide anew in every step
#
# A model makes one token of each request per pass, and after every pass it stops anyway. So after every pass
# the batch may change: who has finished leaves, who waits comes in. That is **continuous batching** (also
# *iteration-level scheduling* or *inflight batching*).
#
# This needs a scheduler and an executor that talk in every step. What they say to each other is the
# **contract** of this course, and the loop in the middle never changes again:
#
# ```text
#   workload                     scheduler                      executor
#      |                             |                             |
#      |--- add_request(r, now) ---->|                             |
#      |--- abort(id, now) --------->|                             |
#      |                             |--- schedule(now): a Plan -->|
#      |                             |                             |  one pass of the model,
#      |                             |<------ tokens, seconds -----|  or of the simulator
#      |                      update(plan, tokens, now)            |
#      |<-- who has finished, why ---|                             |
#      |                             |                             |
#                  ... and again, until nobody is left
# ```
#
# *One step of `decodelab.run.Loop`. From left to right: who asks, who decides, who computes.*
#
# A **Plan** says who runs in this step, in order. Four of its fields matter in this chapter; the others are about
# memory and stay empty until chapter 5.
#
# | field | what it says | example |
# |---|---|---|
# | `scheduled` | how many tokens to compute, by request | `{7: 1, 9: 12}` |
# | `start` | of the same requests: position of the first of them | `{7: 30, 9: 0}` |
# | `new` | who is in the batch for the first time | `[9]` |
# | `cached` | tokens of the new ones that need not be computed; 0 until chapter 11 | `{9: 0}` |
#
# Request 7 is in the middle of its answer: one token, at position 30. Request 9 is new: its whole prompt of 12.
# Both go through the model **together**. There is no phase any more, just two counters for each request: how many
# tokens it has (`num_tokens`, prompt and answer) and how many of them are computed (`num_computed_tokens`). A step
# computes the difference, and whoever is computed up to the last token gets one more:
#
# | step | `num_tokens` | `num_computed_tokens` | the step computes | then |
# |---|---|---|---|---|
# | 0 | 3 | 0 | 3 tokens, the prompt | token 1 comes: `num_tokens` 4 |
# | 1 | 4 | 3 | 1 | token 2: 5 |
# | 2 | 5 | 4 | 1 | token 3: 6, which is prompt 3 + `max_new_tokens` 3: finished |
#
# The scheduler asks no clock; it is told the time (`now`, seconds). Today the executor is a simulator that gets the
# price of each step from your roofline of chapter 2.

# %% [markdown] lang="zh"
# ## 想法：每一步都重新决定
#
# 模型跑一趟，给每个请求生成一个 token，然后反正都要停一下。那么每跑完一趟，批都可以变：写完的离开，等着的进来。
# 这就是**连续批处理**（continuous batching，也叫 iteration-level scheduling 或 inflight batching）。
#
# 为此，调度器和执行器每一步都要对话。它们之间说的话，就是这门课的**契约**；中间的循环从此不再改动：
#
# ```text
#   workload                     scheduler                      executor
#      |                             |                             |
#      |--- add_request(r, now) ---->|                             |
#      |--- abort(id, now) --------->|                             |
#      |                             |--- schedule(now): a Plan -->|
#      |                             |                             |  one pass of the model,
#      |                             |<------ tokens, seconds -----|  or of the simulator
#      |                      update(plan, tokens, now)            |
#      |<-- who has finished, why ---|                             |
#      |                             |                             |
#                  ... and again, until nobody is left
# ```
#
# 图：`decodelab.run.Loop` 的一步。从左到右：提问的、做决定的、做计算的。
#
# **Plan**（计划）说的是：这一步谁上场，按什么次序。这一章只用到它的四个字段；其余的都和显存有关，第 5 章之前一直是空的。
#
# | 字段 | 说什么 | 例子 |
# |---|---|---|
# | `scheduled` | 每个请求这一步要算几个 token | `{7: 1, 9: 12}` |
# | `start` | 同样这些请求，从哪个位置算起 | `{7: 30, 9: 0}` |
# | `new` | 谁是第一次进这一批 | `[9]` |
# | `cached` | 新来的请求有几个 token 不用算；第 11 章之前都是 0 | `{9: 0}` |
#
# 请求 7 的回答写到一半：在位置 30 算一个 token。请求 9 是新来的：整段 12 个 token 的提示词一次算完。
# 两者**一起**过一遍模型。从此不再有“阶段”，每个请求只有两个计数：一共有几个 token（`num_tokens`，提示词加回答），
# 其中算过几个（`num_computed_tokens`）。一步算的就是两者之差；算到最后一个 token 的，就会得到下一个：
#
# | 步 | `num_tokens` | `num_computed_tokens` | 这一步算 | 然后 |
# |---|---|---|---|---|
# | 0 | 3 | 0 | 3 个 token，整段提示词 | 第 1 个 token 来了：`num_tokens` 变成 4 |
# | 1 | 4 | 3 | 1 个 | 第 2 个：5 |
# | 2 | 5 | 4 | 1 个 | 第 3 个：6，也就是提示词 3 + `max_new_tokens` 3：完成 |
#
# 调度器不看钟，时间由别人告诉它（`now`，单位是秒）。今天的执行器是模拟器，每一步的价钱来自你在第 2 章写的 roofline。

# %% [markdown] lang="en"
# ## What is given
#
# `Sequence` is a request as the scheduler keeps it: the two counters, and where it must end. `WaitingQueue` holds
# those who wait and knows by its policy who is next; where the policy's key does not change with time
# (`static`), it does so with the heap of chapter 1. Read the docstrings; you will call `peek(now)`.

# %% [markdown] lang="zh"
# ## 现成的部分
#
# `Sequence` 是调度器手里的一个请求：两个计数，外加到哪里必须结束。`WaitingQueue` 装着在等的请求，按策略知道下一个是谁；
# 如果策略的键不随时间变化（`static`），它用的就是第 1 章的堆。读一读文档字符串，后面会用到 `peek(now)`。

# %% tags=["export"]
import heapq

from decodelab.contract import Plan, Refused, SchedulerConfig, State
from decodelab.request import Request


class Sequence:
    """en: A request as a scheduler keeps it; counts are in tokens. Two are equal only if they are one object.
    en: num_tokens: prompt and answer so far. num_computed_tokens: those whose keys and values are in the KV cache.
    en: longest: the num_tokens at which the answer has its last token. preempted: it ran and lost its memory.
    zh: 调度器手里的一个请求；计数都以 token 计。只有同一个对象才算相等。
    zh: num_tokens：提示词加上目前的回答。num_computed_tokens：其中 key 和 value 已在 KV cache 里的。
    zh: longest：num_tokens 到了这个数，回答就写满了。preempted：以前运行过，被收走了显存。
    """

    __slots__ = (
        *("request", "request_id", "stop_token_ids", "longest"),
        *("num_tokens", "num_computed_tokens", "preempted"),
    )

    def __init__(self, request: Request) -> None:
        self.request = request
        self.request_id = request.request_id
        self.stop_token_ids = request.stop_token_ids
        self.longest = request.prompt_len + request.max_new_tokens
        self.num_tokens = request.prompt_len
        self.num_computed_tokens = 0
        self.preempted = False


class WaitingQueue:
    """en: Sequences that wait, the one with the policy's smallest key first; a tie goes to the smaller request_id.
    zh: 在等的请求，按策略的键，最小的在最前；平局时 request_id 小的在前。
    """

    def __init__(self, policy) -> None:
        self.policy = policy
        self.static = getattr(policy, "static", False)
        self._waiting: dict = {}
        self._heap: list = []

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, seq: Sequence, now: float) -> None:
        """en: Let a sequence wait.
        zh: 让一个请求开始等。
        """
        self._waiting[seq.request_id] = seq
        if self.static:
            heapq.heappush(self._heap, (*self._key(seq, now), id(seq), seq))

    def peek(self, now: float) -> Sequence | None:
        """en: The next one, which stays where it is; None if nobody waits.
        zh: 下一个是谁（仍留在队列里）；没人在等就是 None。
        """
        if not self._waiting:
            return None
        if not self.static:
            return min(self._waiting.values(), key=lambda seq: self._key(seq, now))
        while self._waiting.get(self._heap[0][1]) is not self._heap[0][-1]:
            heapq.heappop(self._heap)
        return self._heap[0][-1]

    def remove(self, seq: Sequence) -> None:
        """en: It waits no longer.
        zh: 它不再等了。
        """
        del self._waiting[seq.request_id]

    def ordered(self, now: float) -> list[Sequence]:
        """en: All of them, the next one first.
        zh: 全部在等的请求，下一个排在最前。
        """
        return sorted(self._waiting.values(), key=lambda seq: self._key(seq, now))

    def _key(self, seq: Sequence, now: float) -> tuple:
        return self.policy.key(seq.request, now), seq.request_id


def is_length(value: object) -> bool:
    """en: Whether ``value`` is a positive int; a bool does not count as one, although ``True == 1``.
    zh: ``value`` 是不是正整数；bool 不算整数，尽管 ``True == 1``。
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


# %% [markdown] lang="en"
# ## TODO ch04.1 · What a token does
#
# After a step the executor hands over what it generated: a list of token ids for each request. Usually it is one
# token; with speculative decoding (chapter 12) it will be several. Fill in `take_tokens(seq, tokens)`: take the
# tokens in, one after the other.
#
# - Each token makes `seq.num_tokens` one larger.
# - If the token is one of `seq.stop_token_ids`, the answer ends: return `"stop"`.
# - If `seq.num_tokens` has reached `seq.longest`, it ends too: return `"length"`.
# - Where both hold, `"stop"` wins: the model said by itself that it was done.
# - Tokens behind the end are dropped: nobody will read them, so they do not count.
# - If it goes on, return `None`.
# - Nothing else of `seq` changes, and the list `tokens` stays as it is: others read it, too.
#
# **Predict** before the check: prompt 4, `max_new_tokens` 3, and a first step that brings two tokens. What is
# `num_tokens` after it, and how many may still come?

# %% [markdown] lang="zh"
# ## TODO ch04.1 · 来了一个 token
#
# 一步做完，执行器把生成的东西交回来：每个请求一个 token id 列表。通常只有一个 token；
# 到了投机解码（第 12 章）会有好几个。补全 `take_tokens(seq, tokens)`，把它们一个一个收下：
#
# - 每收一个，`seq.num_tokens` 加一。
# - 这个 token 在 `seq.stop_token_ids` 里，回答到此为止：返回 `"stop"`。
# - `seq.num_tokens` 到了 `seq.longest`，也到此为止：返回 `"length"`。
# - 两样都成立，算 `"stop"`：是模型自己说写完了。
# - 结束之后的 token 一律丢掉：没有人会读，所以不计数。
# - 还没结束，返回 `None`。
# - `seq` 的其他字段一概不改，列表 `tokens` 也原样留着：别人还要读。
#
# 检查之前**先猜**：提示词 4，`max_new_tokens` 3，第一步就来了两个 token。这时 `num_tokens` 是几？还能再来几个？


# %% answer="ch04-answer" tags=["export"]
def take_tokens(seq: Sequence, tokens: list[int]) -> str | None:
    """en: Append what a step generated; why the answer ends with it ("stop", "length"), or None.
    zh: 收下一步生成的 token；回答就此结束的原因（"stop"、"length"），没结束就是 None。
    """
    # TODO ch04.1
    # en: For each token: count it; return "stop" for a stop token, else "length" where longest is reached.
    # zh: 对每个 token：先计数；是停止 token 就返回 "stop"，否则到了 longest 就返回 "length"。
    for token in tokens:
        seq.num_tokens += 1
        if token in seq.stop_token_ids:
            return "stop"
        if seq.num_tokens >= seq.longest:
            return "length"
    # END ch04.1
    return None


# %% check="ch04.1" points=2 level="core"
check("ch04.1")

# %% [markdown] lang="en" hint="ch04.1"
# 1. A loop over the tokens, and inside it three things in the order in which the text names them. Returning from
#    inside the loop is what drops the rest.
# 2. Count first, then ask: the last allowed token is the one that makes `num_tokens` *equal* to `longest`. Test the
#    stop token before the length. Compare tokens with `in seq.stop_token_ids`: it may hold several, or none.
# 3. `for token in tokens:` then `seq.num_tokens += 1`, `if token in seq.stop_token_ids: return "stop"` and
#    `if seq.num_tokens >= seq.longest: return ...`. The line behind the gap already returns `None`.

# %% [markdown] lang="zh" hint="ch04.1"
# 1. 对 token 循环，循环体里按正文的次序做三件事。在循环里直接 return，后面的 token 自然就丢掉了。
# 2. 先计数，再判断：最后一个允许的 token，正是让 `num_tokens` **等于** `longest` 的那个。先查停止 token，再查长度。
#    用 `in seq.stop_token_ids` 来比：里面可能有好几个，也可能一个都没有。
# 3. `for token in tokens:`，里面是 `seq.num_tokens += 1`、`if token in seq.stop_token_ids: return "stop"`、
#    `if seq.num_tokens >= seq.longest: return ...`。空后面那一行已经返回 `None`。

# %% [markdown] lang="en" explain="ch04.1"
# The order of the two tests is a decision that users see: an answer that ends by itself on its last allowed
# token is complete, and "length" would tell the user that it was cut off. vLLM decides the same.
#
# `return` inside the loop is what drops tokens behind the end. With one token a step that never happens; a
# drafting decoder brings several at once, and one of them may be the stop token.

# %% [markdown] lang="zh" explain="ch04.1"
# 两个判断谁先谁后，用户看得见：回答正好在最后一个允许的 token 上自己收尾，那它是完整的；要是说 "length"，用户会以为被截断了。
# vLLM 也是这样定的。
#
# 循环里的 `return` 把结束之后的 token 丢掉了。一步一个 token 时用不着；带草稿的解码器一次交来好几个，
# 停止 token 可能就夹在中间。

# %% [markdown] lang="en"
# ## One scheduler, but for one method
#
# Of the contract's five methods only `schedule` differs between a static and a continuous batch. `BatchScheduler`
# below is the rest. Read `admit`, `serve` and `update`: your two schedulers are made of the first two.
#
# - `self.running`: the sequences in the batch, in the order in which they were let in;
# - `self.waiting`: the queue; `self.sequences`: all that run or wait, by id;
# - `self.ids`: every id that was ever taken in.
#
# The cell holds two TODOs.

# %% [markdown] lang="zh"
# ## 同一个调度器，只差一个方法
#
# 契约的五个方法里，静态批和连续批只有 `schedule` 不同，其余的都在下面的 `BatchScheduler` 里。
# 读一读 `admit`、`serve` 和 `update`：你的两个调度器就是用前两个搭起来的。
#
# - `self.running`：批里的请求，按放进来的先后排列；
# - `self.waiting`：等待队列；`self.sequences`：所有在跑或在等的，按 id 查；
# - `self.ids`：收过的每一个 id。
#
# 这个单元格里有两个 TODO。


# %% answer="ch04-answer-2" tags=["export"]
class BatchScheduler:
    """en: All that the contract asks of a scheduler but ``schedule``. ``policy`` has ``key(request, now)``.
    zh: 契约对调度器的全部要求，只差 ``schedule``。``policy`` 带有 ``key(request, now)``。
    """

    def __init__(self, config: SchedulerConfig, policy) -> None:
        self.config = config
        self.waiting = WaitingQueue(policy)
        self.running: list[Sequence] = []
        self.sequences: dict = {}
        self.ids: set = set()
        self.now = 0.0

    def add_request(self, request: Request, now: float) -> None:
        """en: Take in a request; Refused says why not, and leaves everything as it was.
        zh: 收下一个请求；不收就抛 Refused 说明原因，什么都不改。
        """
        # TODO ch04.2
        # en: raise Refused("bad_length"), Refused("duplicate_id") or Refused("over_budget") where it applies.
        # zh: 该拒绝的，抛 Refused("bad_length")、Refused("duplicate_id") 或 Refused("over_budget")。
        if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)):
            raise Refused("bad_length")
        if request.request_id in self.ids:
            raise Refused("duplicate_id")
        if request.prompt_len > self.config.max_num_batched_tokens:
            raise Refused("over_budget")
        # END ch04.2
        self.now = now
        self.ids.add(request.request_id)
        seq = self.sequences[request.request_id] = Sequence(request)
        self.waiting.push(seq, now)

    def room_for(self, plan: Plan, seq: Sequence) -> bool:
        """en: Whether ``seq``, which waits, still fits into the step of ``plan``: a slot, and budget for all its tokens.
        zh: 还在等的 ``seq`` 放不放得进 ``plan`` 这一步：要有空位，预算也要容得下它的全部 token。
        """
        # TODO ch04.3
        # en: At most max_num_seqs run at once; a step computes at most max_num_batched_tokens.
        # zh: 同时运行的最多 max_num_seqs 个；一步最多算 max_num_batched_tokens 个 token。
        spent = sum(plan.scheduled.values())
        if len(self.running) >= self.config.max_num_seqs:
            return False
        return spent + seq.num_tokens <= self.config.max_num_batched_tokens
        # END ch04.3

    def admit(self, plan: Plan, seq: Sequence) -> None:
        """en: Let ``seq`` in: it waits no longer, it runs, and this step computes its prompt.
        zh: 放 ``seq`` 进来：不再等待，开始运行，这一步就算它的提示词。
        """
        self.waiting.remove(seq)
        self.running.append(seq)
        plan.new.append(seq.request_id)
        plan.cached[seq.request_id] = 0
        self.serve(plan, seq)

    def serve(self, plan: Plan, seq: Sequence) -> None:
        """en: Let this step compute all of ``seq`` that is not computed yet.
        zh: 让这一步把 ``seq`` 还没算的 token 全部算完。
        """
        plan.start[seq.request_id] = seq.num_computed_tokens
        plan.scheduled[seq.request_id] = seq.num_tokens - seq.num_computed_tokens
        seq.num_computed_tokens = seq.num_tokens

    def abort(self, request_id, now: float) -> None:
        """en: Forget a request, waiting or running; an unknown id is ignored.
        zh: 忘掉一个请求，在等的、在跑的都行；不认识的 id 不理会。
        """
        seq = self.sequences.pop(request_id, None)
        if seq in self.running:
            self.running.remove(seq)
        elif seq:
            self.waiting.remove(seq)

    def update(self, plan: Plan, tokens: dict, now: float) -> dict:
        """en: Take in what the step generated; who ended by it, and why. Tokens of an aborted request are dropped.
        zh: 收下这一步生成的 token；返回谁结束了、为什么。已取消的请求，它的 token 丢掉。
        """
        self.now = now
        finished = {}
        for request_id, new_tokens in tokens.items():
            seq = self.sequences.get(request_id)
            if seq and (reason := take_tokens(seq, new_tokens)):
                finished[request_id] = reason
        for request_id in finished:
            self.running.remove(self.sequences.pop(request_id))
        return finished

    def state(self) -> State:
        """en: Who runs and who waits, for logs and pictures.
        zh: 谁在跑、谁在等，供日志和图使用。
        """
        waiting = self.waiting.ordered(self.now)
        return State([seq.request_id for seq in self.running], [seq.request_id for seq in waiting])


# %% [markdown] lang="en"
# ## TODO ch04.2 · The door
#
# Fill in the gap of `add_request`: turn away what can never be served, by `raise Refused(reason)`, before
# anything has changed. Three reasons, each a word of its own:
#
# | reason | when |
# |---|---|
# | `"bad_length"` | `prompt_len` or `max_new_tokens` is not a positive integer (`is_length` knows) |
# | `"duplicate_id"` | this id was taken in before; finished and aborted requests keep theirs |
# | `"over_budget"` | the prompt alone has more tokens than a step may compute, `max_num_batched_tokens` |
#
# Where several apply, give any of them. A request that is refused was never here: its id stays free.
#
# The third reason is new. In this chapter a prompt is computed in one piece, so one that is larger than the
# budget would wait for ever, **and everybody behind it too**. Chapter 7 cuts prompts into chunks, and the
# reason goes away.

# %% [markdown] lang="zh"
# ## TODO ch04.2 · 守好门口
#
# 补全 `add_request` 里的空：永远服务不了的请求，用 `raise Refused(原因)` 挡在外面，而且要赶在任何改动之前。
# 原因有三种，各是一个固定的词：
#
# | 原因 | 什么时候 |
# |---|---|
# | `"bad_length"` | `prompt_len` 或 `max_new_tokens` 不是正整数（交给 `is_length`） |
# | `"duplicate_id"` | 这个 id 以前收过；完成的、取消的请求，id 仍算占用 |
# | `"over_budget"` | 光是提示词就超过一步的预算 `max_num_batched_tokens` |
#
# 同时符合几条，给哪一条都行。被拒绝的请求等于没来过：它的 id 仍然可用。
#
# 第三种原因是新的。这一章里提示词必须一次算完，比预算还长的请求会永远等下去，**排在它后面的人也一样**。
# 第 7 章把提示词切成块，这个原因就消失了。

# %% [markdown] lang="en" hint="ch04.2"
# 1. Three tests, three `raise`. Nothing else: the lines behind the gap take the request in.
# 2. Both lengths must pass `is_length`, so it is `not (a and b)`, or two tests. Ids ever taken in are in `self.ids`,
#    not in `self.sequences`, which forgets. A prompt exactly as long as the budget fits.
# 3. `if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)): raise Refused("bad_length")`;
#    `if request.request_id in self.ids: raise ...`; `if request.prompt_len > self.config.max_num_batched_tokens:`
#    and the last one.

# %% [markdown] lang="zh" hint="ch04.2"
# 1. 三个判断，三个 `raise`，没有别的：收下请求的代码已经写在空的后面。
# 2. 两个长度都要过 `is_length`，所以是 `not (a and b)`，或者分开判断。收过的 id 都在 `self.ids` 里；
#    `self.sequences` 会忘，不能拿它查。提示词正好等于预算，是放得下的。
# 3. `if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)): raise Refused("bad_length")`；
#    `if request.request_id in self.ids: raise ...`；`if request.prompt_len > self.config.max_num_batched_tokens:`，
#    再抛最后一种。

# %% [markdown] lang="en" explain="ch04.2"
# Lengths come first, since comparing `"3"` with the budget would raise a `TypeError` instead of a refusal.
#
# `self.ids` grows for ever, and that is deliberate: with ids that come free again, a late `abort(7)` could hit a
# stranger. A server that runs for weeks would make up unique ids instead of remembering old ones.
#
# Only what can *never* be served is refused. A full batch is no reason: that is what waiting is for.

# %% [markdown] lang="zh" explain="ch04.2"
# 先查长度：拿 `"3"` 去和预算比大小，抛出来的会是 `TypeError`，而不是拒绝。
#
# `self.ids` 只增不减，这是故意的：要是 id 可以回收，一个迟到的 `abort(7)` 就可能误伤别人。
# 连着跑几个星期的服务不会记住所有旧 id，而是自己生成不重复的 id。
#
# 只拒绝**永远**服务不了的。批满了不是理由：排队就是干这个用的。

# %% check="ch04.2" points=2 level="core"
check("ch04.2")

# %% [markdown] lang="en"
# ## TODO ch04.3 · Slots and budget
#
# Two numbers bound a step, and both have the names that vLLM gives them:
#
# - `max_num_seqs`: how many requests run at once. Say *slots*. (What a slot costs is memory: chapter 5.)
# - `max_num_batched_tokens`: how many tokens one step computes, prompts and single tokens alike. This is the
#   **token budget**. It bounds how long a step takes, hence how long everybody in it waits for the next token.
#
# Fill in `room_for(plan, seq)`: may `seq`, which waits, still join the step that `plan` describes so far? It
# needs a free slot (`self.running` holds those who have one) and budget for **all** its tokens, `seq.num_tokens`;
# `plan.scheduled` knows what is spent. Answer only: change nothing.
#
# **Predict:** three requests run, `max_num_seqs` is 8 and the budget is 16. What is the longest prompt that may
# come in now?

# %% [markdown] lang="zh"
# ## TODO ch04.3 · 空位与预算
#
# 一步的大小受两个数限制，名字都和 vLLM 一样：
#
# - `max_num_seqs`：同时运行几个请求，也就是有几个**位置**。（位置的代价是显存，见第 5 章。）
# - `max_num_batched_tokens`：一步算几个 token，整段提示词也好，单个 token 也好，都算在内。这就是 **token 预算**。
#   它限制了一步的时长，也就限制了这一步里每个人等下一个 token 的时间。
#
# 补全 `room_for(plan, seq)`：还在等的 `seq`，能不能加入 `plan` 目前描述的这一步？
# 它需要一个空位（占着位置的都在 `self.running` 里），还需要够算它**全部** token（`seq.num_tokens`）的预算；
# 已经花了多少，`plan.scheduled` 里有。只回答，什么都不要改。
#
# **先猜：** 三个请求在跑，`max_num_seqs` 是 8，预算是 16。现在最长能放进多长的提示词？

# %% [markdown] lang="en" hint="ch04.3"
# 1. Two comparisons joined by "and". The one looks at `self.running`, the other at what the plan spends so far. Looking
#    is all: `admit` enters the sequence into the plan later.
# 2. `plan.scheduled` is `{id: tokens}`: sum its values, do not count its keys. A slot is free while
#    `len(self.running)` is *below* `max_num_seqs`; the budget may be used up *exactly*.
# 3. `spent = sum(plan.scheduled.values())`; `return len(self.running) < self.config.max_num_seqs and ...`, where
#    the second half adds `seq.num_tokens` to `spent` and compares with `<=`.

# %% [markdown] lang="zh" hint="ch04.3"
# 1. 两个比较，用“并且”连起来：一个看 `self.running`，一个看计划到目前为止花了多少。只看不写：写进计划是 `admit` 后来做的事。
# 2. `plan.scheduled` 是 `{id: token 数}`：要把值加起来，不是数有几个键。`len(self.running)` **小于** `max_num_seqs`
#    才有空位；预算则可以**正好**用完。
# 3. `spent = sum(plan.scheduled.values())`；`return len(self.running) < self.config.max_num_seqs and ...`，
#    后一半把 `seq.num_tokens` 加到 `spent` 上，用 `<=` 比。

# %% [markdown] lang="en" explain="ch04.3"
# Every running request costs one token of budget a step. So with three running, 13 are left for a prompt.
#
# Can the running ones alone exceed the budget? No: when the last of them came in, all of them together fitted, and
# none of them has asked for more than one token since. That is why the budget needs to be asked only at the door.

# %% [markdown] lang="zh" explain="ch04.3"
# 每个在跑的请求，每一步花一个 token 的预算。所以三个在跑时，留给提示词的是 13。
#
# 光是在跑的这些，会不会就超出预算？不会：最后一个进来的时候，大家加在一起是放得下的，从那以后每人每步最多要一个 token。
# 所以预算只需要在门口问一次。

# %% check="ch04.3" points=2 level="core"
check("ch04.3")

# %% [markdown] lang="en"
# ## TODO ch04.4 · A static batch
#
# The obvious scheduler first. Fill in `schedule(now)`; it returns a `Plan`.
#
# - While anybody runs, the step serves everybody who runs, in the order of `self.running`, and lets nobody in.
# - When nobody runs any more, it fills a new batch: as long as there is room for the next in line, let it in. **The
#   next in line**, and nobody else: where it does not fit, the batch is full, even if a smaller one behind it would.
# - Nobody runs and nobody waits: an empty plan.
#
# `Plan()` makes an empty plan; `self.serve(plan, seq)` and `self.admit(plan, seq)` put a request into it.

# %% [markdown] lang="zh"
# ## TODO ch04.4 · 静态批
#
# 先写最直接的那种。补全 `schedule(now)`，它返回一个 `Plan`。
#
# - 只要还有请求在跑，这一步就按 `self.running` 的次序服务所有在跑的，谁也不放进来。
# - 没有请求在跑了，就凑新的一批：只要下一个放得下，就放进来。只看**排在最前面的那个**：它放不下，这一批就算满了，
#   哪怕后面有更小的能塞进去。
# - 没人在跑，也没人在等：空计划。
#
# `Plan()` 造一个空计划；`self.serve(plan, seq)` 和 `self.admit(plan, seq)` 把请求写进去。


# %% answer="ch04-answer-3" tags=["export"]
class StaticBatchScheduler(BatchScheduler):
    """en: Fills a batch, and the next one when all of it is done.
    zh: 凑满一批，全部做完，再凑下一批。
    """

    def schedule(self, now: float) -> Plan:
        """en: The next step.
        zh: 下一步做什么。
        """
        # TODO ch04.4
        # en: Serve all of self.running; only where nobody runs, admit from self.waiting while there is room.
        # zh: 服务 self.running 里的全部；没人在跑时，才从 self.waiting 里放人，放到放不下为止。
        plan = Plan()
        if self.running:
            for seq in self.running:
                self.serve(plan, seq)
            return plan
        while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):
            self.admit(plan, seq)
        return plan
        # END ch04.4


# %% [markdown] lang="en" hint="ch04.4"
# 1. Two cases, told apart by whether `self.running` is empty *before* you let anybody in.
# 2. `self.waiting.peek(now)` shows the next in line and leaves it there; `admit` takes it out. So a loop that peeks
#    again and again sees one after the other. It ends at `None` or where `self.room_for(plan, seq)` says no. `admit`
#    serves the newcomer, too: to serve it again is to serve it twice.
# 3. `plan = Plan()`; `if self.running:` serve each and `return plan`; otherwise
#    `while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):` with one line inside; `return plan`.

# %% [markdown] lang="zh" hint="ch04.4"
# 1. 分两种情况，看的是放人**之前** `self.running` 空不空。
# 2. `self.waiting.peek(now)` 只看一眼下一个是谁，人还在队列里；`admit` 才把它取走。所以反复 peek，看到的就是一个接一个。
#    循环到 `None`，或者 `self.room_for(plan, seq)` 说不行为止。`admit` 顺带就服务了新来的，再服务一次就是两遍了。
# 3. `plan = Plan()`；`if self.running:` 就逐个 serve，然后 `return plan`；否则
#    `while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):`，里面只有一行；最后 `return plan`。

# %% [markdown] lang="en" explain="ch04.4"
# `self.running` shrinks as requests finish (`update` takes them out), so "the batch is done" is just "nobody runs".
#
# Why not look past a prompt that does not fit? Because small requests could then slip in for ever, and the large one
# would starve: the lesson of chapter 1. The policy decides who is next, and nobody overtakes.

# %% [markdown] lang="zh" explain="ch04.4"
# 请求一完成，`update` 就把它从 `self.running` 里拿走，所以“这一批做完了”就是“没人在跑了”。
#
# 放不下的提示词，为什么不跳过它看后面的？因为小请求会一个接一个地插进来，大的就饿死了：这是第 1 章的教训。
# 下一个是谁由策略决定，谁也不能越过去。

# %% check="ch04.4" points=3 level="core"
check("ch04.4")

# %% [markdown] lang="en"
# ## TODO ch04.5 · A continuous batch
#
# Now the same with one idea more: a slot that is free is filled **in the very next step**. Fill in `schedule`:
#
# - First everybody who runs, in the order in which they came in: nobody's answer is held up by a newcomer.
# - Then, in the same step, whoever is next in line and fits, one after the other, until somebody does not fit.
#
# Half of the idea is in what you leave out.

# %% [markdown] lang="zh"
# ## TODO ch04.5 · 连续批
#
# 和刚才一样，只多一个想法：空出来的位置，**下一步**就用上。补全 `schedule`：
#
# - 先是所有在跑的，按进来的先后：谁的回答都不会因为来了新人而卡住。
# - 然后在同一步里，排在最前面的、放得下的，一个接一个放进来，直到有一个放不下为止。
#
# 这个想法，有一半在于你删掉了什么。


# %% answer="ch04-answer-4" tags=["export"]
class ContinuousBatchScheduler(BatchScheduler):
    """en: Fills every free slot in the next step.
    zh: 空出来的位置，下一步就填上。
    """

    def schedule(self, now: float) -> Plan:
        """en: The next step.
        zh: 下一步做什么。
        """
        # TODO ch04.5
        # en: Serve all of self.running, then admit from self.waiting while there is room.
        # zh: 先服务 self.running 里的全部，再从 self.waiting 里放人，放到放不下为止。
        plan = Plan()
        for seq in self.running:
            self.serve(plan, seq)
        while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):
            self.admit(plan, seq)
        return plan
        # END ch04.5


# %% [markdown] lang="en" hint="ch04.5"
# 1. Take your static batch and ask which line makes it wait.
# 2. Serve the running ones first, in the order of `self.running`; admit afterwards, by the loop of ch04.4: it takes who
#    `peek` shows and ends where `room_for` says no. `admit` serves the newcomer itself, so a loop over `self.running`
#    behind it would serve it twice.
# 3. A `for` over `self.running` with `self.serve(plan, seq)`, then the `while` of `ch04.4`, with no `if` around
#    either of them.

# %% [markdown] lang="zh" hint="ch04.5"
# 1. 拿出你的静态批，看看是哪一行让它等着。
# 2. 先按 `self.running` 的次序服务在跑的，再用 ch04.4 的那个循环放人：只放 `peek` 给出的那个，`room_for` 说不行就停。
#    `admit` 自己就会服务新来的，要是之后再对 `self.running` 循环，它就被服务了两遍。
# 3. 对 `self.running` 做 `for`，里面 `self.serve(plan, seq)`；接着是 `ch04.4` 的那个 `while`；两个外面都没有 `if`。

# %% [markdown] lang="en" explain="ch04.5"
# Compared with the static batch, one `if` and one `return` are gone. Everything that continuous batching needs, the
# counters, the plan that mixes prompts and single tokens, was in the contract already: that is what a good contract
# is for.
#
# Running first is a promise: once let in, a request gets a token in every step. Admission only spends what is left.

# %% [markdown] lang="zh" explain="ch04.5"
# 和静态批相比，少了一个 `if` 和一个 `return`。连续批处理需要的其他东西，两个计数也好，把提示词和单个 token 混在一起的计划也好，
# 契约里早就有了：好的契约就是干这个用的。
#
# “在跑的优先”是一个承诺：一旦放进来，每一步都会有一个 token。放新人只花剩下的预算。

# %% check="ch04.5" points=3 level="core"
check("ch04.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass: the experiments run **your** two schedulers.
#
# Stuck? `hint("ch04.4", 1)` gives a direction, `hint("ch04.4", 2)` the tool and the trap beside it,
# `hint("ch04.4", 3)` almost the code, `solution("ch04.4")` the reference and why it is written that way. Give a
# TODO ten honest minutes before the first, and five before each further one.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了再往下看：后面的实验跑的是**你的**两个调度器。
#
# 卡住了？`hint("ch04.4", 1)` 给一个方向，`hint("ch04.4", 2)` 说该用什么、小心什么，
# `hint("ch04.4", 3)` 差不多就是代码，`solution("ch04.4")` 是参考实现和理由。
# 看第一条提示之前，先老老实实想十分钟；之后每看一样，再想五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## The worked case
#
# Three requests, two slots, a budget of 8 tokens a step. Request 1 has a prompt of 5 and wants 4 tokens, request 2
# has 3 and wants 1, request 3 arrives in step 1 with a prompt of 6 and wants 2.
#
# **Predict** on paper, step by step: who is scheduled with how many tokens, and who has finished? Then run. The loop
# makes *steps*, the log makes *records* of them; an arrival in this run is by step number (the **logical clock**), so that
# what happens does not depend on how long a step takes.

# %% [markdown] lang="zh"
# ## 完整走一遍
#
# 三个请求，两个位置，每步预算 8 个 token。请求 1 的提示词是 5，要 4 个 token；请求 2 是 3，要 1 个；
# 请求 3 在第 1 步才来，提示词 6，要 2 个。
#
# 先在纸上一步一步**猜**：每一步谁被安排、各算几个 token、谁结束了？然后运行。循环走出一**步**一步，日志把它们记成**记录**；
# 这里的到达时间按步数算（**逻辑时钟**），所以结果和一步要花多久无关。

# %%
from decodelab import chapter
from decodelab.log import events, record_all
from decodelab.request import Job
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor

policies = chapter("ch03")


def logged(scheduler, workload, executor, clock=None):
    """en: The log of a whole run, a record a step.
    zh: 一次完整运行的日志，一步一条记录。
    """
    return list(record_all(Loop(workload, scheduler, executor, clock, watch=True)))


three = [
    Job(Request(1, 0.0, prompt_len=5, max_new_tokens=4)),
    Job(Request(2, 0.0, prompt_len=3, max_new_tokens=1)),
    Job(Request(3, 0.0, prompt_len=6, max_new_tokens=2), arrival_step=1),
]
config = SchedulerConfig(max_num_seqs=2, max_num_batched_tokens=8, enable_chunked_prefill=False)
records = logged(ContinuousBatchScheduler(config, policies.FCFS()), three, SimExecutor(), StepClock())
for record in records:
    print(record["step"], record["scheduled"], "new", record["new"], "finished", record["finished"])

# %% [markdown] lang="en"
# In step 1 request 3 meets a free slot (request 2 has finished) and enough budget: one token for request 1, six for
# itself. From the same log come chapter 1's *events*:

# %% [markdown] lang="zh"
# 第 1 步，请求 3 一来就碰上空位（请求 2 已经结束），预算也够：请求 1 花一个 token，它自己花六个。
# 同一份日志，还能变回第 1 章的**事件**：

# %%
for event in events(records, [job.request for job in three]):
    print(event["step"], event["request_id"], event["action"])

# %% [markdown] lang="en"
# ## Experiments: what a slot is worth
#
# ### Experiment 1 · Idle slots
#
# Twelve requests, all there from the start, four slots. Most answers are short; every fourth is long.
#
# **Predict:** how many steps does each scheduler need? The longest answer takes 24 steps, all answers together
# have 105 tokens.

# %% [markdown] lang="zh"
# ## 实验：一个位置值多少
#
# ### 实验 1 · 闲着的位置
#
# 十二个请求，一开始就到齐，四个位置。回答大多很短，每四个里有一个长的。
#
# **先猜：** 两个调度器各要几步？最长的回答要 24 步，所有回答加起来有 105 个 token。

# %%
from dataclasses import replace

from decodelab.show.plots import idle_slots

skewed = [Request(i, 0.0, 4, wanted) for i, wanted in enumerate([3, 24, 2, 5, 4, 2, 21, 3, 19, 6, 4, 12])]
config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=64, enable_chunked_prefill=False)
both_ways = {}
for kind in (StaticBatchScheduler, ContinuousBatchScheduler):
    both_ways[kind] = logged(kind(config, policies.FCFS()), skewed, SimExecutor())
    tokens = sum(len(made) for record in both_ways[kind] for made in record["tokens"].values())
    used = tokens / (4 * len(both_ways[kind]))
    print(
        f"{kind.__name__}: ",
        tr(
            en=f"{len(both_ways[kind])} steps, {tokens} tokens, slots used {used:.0%}",
            zh=f"{len(both_ways[kind])} 步，{tokens} 个 token，位置用上 {used:.0%}",
        ),
    )

# %%
idle_slots(both_ways[StaticBatchScheduler], 4)

# %%
idle_slots(both_ways[ContinuousBatchScheduler], 4)

# %% [markdown] lang="en"
# *First the static batch, then the continuous one. A row is a slot, a column a step; hatched: nobody is in the slot.*
#
# The static batch is three blocks, each as long as its longest answer. In the continuous one slots go idle only at
# the end, when nobody waits any more.
#
# **Takeaway.** The work is the same, token for token. What changes is who waits: the machine or the queue.

# %% [markdown] lang="zh"
# 图：先是静态批，再是连续批。一行是一个位置，一列是一步；画斜纹的，位置上没有人。
#
# 静态批是三个方块，每块的长度都等于其中最长的回答。连续批只在最后才有空位，那时已经没人在等了。
#
# **结论。** 干的活一模一样，一个 token 不多，一个不少。变的是谁在等：是机器等，还是队列等。

# %% [markdown] lang="en"
# ### Walk through a run
#
# Pick a load and a scheduler, drag the step: who runs with how many tokens, who waits, and what changes from one step to
# the next. `SJF` is chapter 3's, unchanged, in your scheduler.
#
# **Find:** the step in which the static batch wastes most, and what the continuous one does in that step. And with `SJF`:
# who is let in last?

# %% [markdown] lang="zh"
# ### 亲手走一遍
#
# 选一种负载、一个调度器，拖动步数：谁在跑、各算几个 token，谁在等，前后两步之间变了什么。
# `SJF` 就是第 3 章的那个，一个字没改，放进了你的调度器。
#
# **找一找：** 静态批在哪一步浪费最多？同一步，连续批在做什么？换成 `SJF`，最后放进来的是谁？

# %%
from decodelab.show.explorer import explore

trickle = [replace(request, arrival_time=2.0 * i) for i, request in enumerate(skewed)]
explore(
    {
        load: {
            "static, FCFS": lambda jobs=jobs: logged(
                StaticBatchScheduler(config, policies.FCFS()), jobs, SimExecutor()
            ),
            "continuous, FCFS": lambda jobs=jobs: logged(
                ContinuousBatchScheduler(config, policies.FCFS()), jobs, SimExecutor()
            ),
            "continuous, SJF": lambda jobs=jobs: logged(
                ContinuousBatchScheduler(config, policies.SJF()), jobs, SimExecutor()
            ),
        }
        for load, jobs in {"all at once": skewed, "one every 2 steps": trickle}.items()
    }
)

# %% [markdown] lang="en"
# ### Experiment 2 · Static against continuous, in tokens per second
#
# Now with your roofline: Llama 3.1 8B on an H100, 256 requests all waiting, 8 slots. Three loads with the same
# prompts: answers of one fixed length; the chat lengths; and one answer in ten ten times as long as the others.
#
# **Predict** the ratio continuous : static for each of the three. (The table at the top helps with the second.)

# %% [markdown] lang="zh"
# ### 实验 2 · 静态对连续：每秒多少 token
#
# 换成你的 roofline：Llama 3.1 8B 跑在 H100 上，256 个请求都在等，8 个位置。三种负载，提示词相同：
# 回答一样长；聊天的长度；每十个回答里有一个是其他的十倍长。
#
# **先猜**三种负载下，连续与静态之比各是多少。（开头那张表对第二种有帮助。）

# %%
from decodelab.sim.hardware import GPUS, MODELS
from decodelab.timings import timings
from decodelab.workload import synthetic

costs = chapter("ch02")
llama = costs.Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])
chat = [replace(request, arrival_time=0.0) for request in synthetic("azure-chat-like", 256, seed=1)]
loads = {
    tr(en="one length", zh="一样长"): [replace(r, max_new_tokens=200) for r in chat],
    tr(en="chat", zh="聊天"): chat,
    tr(en="one in ten is long", zh="十中有一很长"): [
        replace(r, max_new_tokens=1000 if i % 10 == 3 else 100) for i, r in enumerate(chat)
    ],
}


def tokens_per_second(scheduler, workload, cost):
    """en: Output tokens a second until the last one is there.
    zh: 从开始到最后一个 token，平均每秒生成的 token 数。
    """
    loop = Loop(workload, scheduler, SimExecutor(cost))
    generated = sum(len(made) for step in loop for made in step.tokens.values())
    return generated / loop.clock.now


def limits(max_num_seqs, max_num_batched_tokens=16_384):
    return SchedulerConfig(max_num_seqs, max_num_batched_tokens, enable_chunked_prefill=False)


for name, load in loads.items():
    static, continuous = (
        tokens_per_second(kind(limits(8), policies.FCFS()), load, llama)
        for kind in (StaticBatchScheduler, ContinuousBatchScheduler)
    )
    print(f"{name}: {static:,.0f} : {continuous:,.0f} tokens/s, {continuous / static:.2f}")

# %% [markdown] lang="en"
# **Takeaway.** With answers of one length there is next to nothing to gain: a static batch is hardly ever idle. (1.03:
# one batch of eight did not fit the budget, and only six came in.) All of the
# gain comes from *skew*, and it is roughly the longest answer of a batch over the mean one. "Continuous batching is so
# many times faster" is a statement about a workload, and about the static batch that it is compared with.

# %% [markdown] lang="zh"
# **结论。** 回答一样长时，几乎没有好处：静态批本来就不闲（1.03 是因为有一批八个放不进预算，只能先来六个）。好处全部来自**长短不齐**，大致等于一批里最长的除以平均的。
# 所以“连续批处理快多少倍”，说的其实是负载，还有被拿来比的那个静态批。

# %% [markdown] lang="en"
# ### Experiment 3 · "Batch 4 to 16"
#
# A number that gets repeated: serve 4 to 16 requests at a time. It is a hypothesis; sweep it. The same chat
# requests, `max_num_seqs` from 1 to 256.
#
# **Predict:** where does throughput stop growing? And what happens to TPOT on the way?

# %% [markdown] lang="zh"
# ### 实验 3 · “批大小取 4 到 16”
#
# 常听人说：一次服务 4 到 16 个请求最合适。这是一个假设，扫一遍就知道。还是那些聊天请求，`max_num_seqs` 从 1 到 256。
#
# **先猜：** 吞吐量涨到哪里停下？一路上 TPOT 会怎样？

# %%
import matplotlib.pyplot as plt

BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
rates, paces = [], []
for size in sizes:
    loop = Loop(chat, ContinuousBatchScheduler(limits(size), policies.FCFS()), SimExecutor(llama))
    seen = timings(loop)
    rates.append(sum(len(timing.token_times) for timing in seen) / loop.clock.now)
    pace = [p for p in map(costs.tpot, seen) if p is not None]
    paces.append([1000 * costs.percentile(pace, q) for q in (50, 95)])
    print(
        f"{size:4d}  {rates[-1]:6,.0f} tokens/s  TPOT p50 {paces[-1][0]:5.1f} ms, p95 {paces[-1][1]:5.1f} ms"
    )

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
left.plot(sizes, rates, "o-", color=BLUE)
left.set(xscale="log", xlabel="max_num_seqs", ylabel="tokens/s", ylim=(0, None))
right.plot(sizes, [p50 for p50, _ in paces], "o-", color=BLUE)
right.plot(sizes, [p95 for _, p95 in paces], "s--", color=ORANGE)
right.set(xscale="log", yscale="log", xlabel="max_num_seqs", ylabel="TPOT (ms)")
for ax in (left, right):
    ax.axvspan(4, 16, color=GREEN, alpha=0.15)
    ax.set_xticks(sizes, sizes, minor=False)
plt.show()

# %% [markdown] lang="en"
# *Left: throughput. Right: TPOT, median (circles) and p95 (squares, dashed). The green band is 4 to 16.*
#
# On this GPU the band is where the curve is still climbing: 16 slots give less than half of what 128 give. The climb
# ends only there; 256 give a little less: all prompts are computed at the very start, so few decodes ride along in
# those steps, and from then on the batch only shrinks. TPOT grows too, slowly at first: each further request adds its
# KV cache to what a step reads, and now and then a prompt to what it computes. So why does anybody say 4 to 16? Count the memory: every slot needs the KV cache of a whole request.

# %% [markdown] lang="zh"
# 图：左边是吞吐量；右边是 TPOT，圆点是中位数，方块虚线是 p95。绿色的一段就是 4 到 16。
#
# 在这块 GPU 上，4 到 16 还在爬坡：16 个位置给出的，不到 128 个位置的一半。到 128 才爬到头，256 反而略少：
# 提示词一开始就全算完了，顺路搭车的 decode 少，此后这一批只会越来越小。TPOT 也在涨，开头涨得慢：
# 多一个请求，每一步就多读一份它的 KV cache，时不时还要多算一段提示词。那为什么有人说 4 到 16？
# 算一算显存：每个位置都要放得下一个完整请求的 KV cache。

# %%
length = sum(r.prompt_len + r.max_new_tokens for r in chat) / len(chat)
print(tr(en=f"mean request: {length:,.0f} tokens", zh=f"平均一个请求：{length:,.0f} 个 token"))
for model_name, gpu_name in [
    ("Llama-2-7B", "T4"),
    ("Llama-3.1-8B", "L4"),
    ("Llama-2-7B", "RTX 4090"),
    ("Llama-2-7B", "A100 80GB SXM"),
    ("Llama-3.1-8B", "H100 SXM"),
]:
    model, gpu = MODELS[model_name], GPUS[gpu_name]
    fits = (gpu.memory - model.weight_bytes) / (model.kv_bytes_per_token * length)
    print(f"{model_name:13} {gpu_name:14} {fits:6.1f}")

# %% [markdown] lang="en"
# *How many requests of mean length have their KV cache beside the weights, at the most: all of the memory, nothing
# lost.*
#
# **Takeaway.** "4 to 16" is a statement about **memory**. It holds for a 7B model with full attention on a GPU of
# 16 to 24 GB; with grouped-query attention, or on 80 GB, many times as many fit. The right questions are: which TPOT
# did I promise, and how much KV cache do I have? Chapters 5 and 6 are about the second one.

# %% [markdown] lang="zh"
# 说明：除去权重，剩下的显存最多放得下几个平均长度请求的 KV cache（显存全部用上，一点不浪费）。
#
# **结论。** “4 到 16”说的其实是**显存**。7B 的模型、完整的注意力头、16 到 24 GB 的 GPU，它成立；
# 用了分组查询注意力（GQA），或者换成 80 GB，放得下的就多出许多倍。该问的是：我承诺的 TPOT 是多少？KV cache 有多大？
# 后一个问题就是第 5、6 章的内容。

# %% [markdown] lang="en"
# ### Experiment 4 · Who pays for a prompt
#
# So far everybody was there from the start. Now chat requests arrive by the clock, and we look into the steps: how
# many tokens of each are prompts, how many are decodes?
#
# **Predict:** a decode step of this batch takes about 5 ms. A prompt of 4,000 tokens joins it. How long do the others
# wait for their next token?

# %% [markdown] lang="zh"
# ### 实验 4 · 提示词的账谁来付
#
# 前面的请求都是一开始就到齐的。现在让聊天请求按时钟到达，再看每一步的内部：多少 token 是提示词，多少是 decode？
#
# **先猜：** 这样一批，一步 decode 大约 5 毫秒。一段 4,000 个 token 的提示词加入进来，其他人的下一个 token 要等多久？

# %%
from decodelab.show.plots import batch_composition

arriving = list(synthetic("azure-chat-like", 120, seed=4))
scheduler = ContinuousBatchScheduler(limits(64), policies.FCFS())
records = logged(scheduler, arriving, SimExecutor(llama))
batch_composition(records[:400])

# %%
took = [1000 * (record["time"] - record["start"]) for record in records if record["scheduled"]]
prompts = [bool(record["new"]) for record in records if record["scheduled"]]
pure = [ms for ms, has in zip(took, prompts, strict=True) if not has]
mixed = [ms for ms, has in zip(took, prompts, strict=True) if has]
print(tr(en="steps without a prompt, ms:", zh="没有提示词的步，毫秒："), f"{min(pure):.1f} – {max(pure):.1f}")
print(tr(en="steps with one, ms:", zh="带提示词的步，毫秒："), f"{min(mixed):.1f} – {max(mixed):.1f}")
alone = 1000 * llama(4000, 4000, 4000 * 4001 // 2)
print(
    tr(en="a prompt of 4,000 tokens by itself, ms:", zh="单算一段 4,000 token 的提示词，毫秒："),
    f"{alone:.1f}",
)

# %% [markdown] lang="en"
# *Batch composition: a column a step, its height the tokens that it computes, prompts and decodes apart.*
#
# One long prompt, and everybody's next token is late. A smaller `max_num_batched_tokens` cannot help here: it
# would refuse the prompt altogether, since in this chapter prompts come in one piece.
#
# **Takeaway.** Continuous batching fills slots; it does not bound a step. For that a prompt has to be cut: chapter 7.

# %% [markdown] lang="zh"
# 图：批的构成。一列是一步，高度是这一步算的 token 数，提示词和 decode 分开画。
#
# 来一段长提示词，所有人的下一个 token 都跟着迟到。把 `max_num_batched_tokens` 调小在这里没有用：
# 这一章的提示词必须一次算完，调小了，就只能把它拒之门外。
#
# **结论。** 连续批处理填满了位置，却没有给一步的时长封顶。要封顶，就得把提示词切开：第 7 章。

# %% [markdown] lang="en"
# ## TODO ch04.6 · A batch size that adjusts itself
#
# *Extension: its points are counted apart, and no later chapter needs it.*
#
# Which `max_num_seqs` keeps steps below a promised time depends on the model, the GPU and the requests of the hour.
# Instead of knowing it, one can look for it all the time: **halve on a late step, else grow by one**. TCP finds
# its window in the same way.
#
# `DynamicBatchScheduler` measures each step and calls `adjust(seconds)`; `room_for` already asks `self.limit`. Write
# `adjust`:
#
# - a step is late if it took **more** than `self.target` seconds: then halve `self.limit`, rounding down;
# - otherwise the limit grows by one;
# - it never leaves 1 … `max_num_seqs`.
#
# The limit acts at the door: nobody who runs is thrown out, the batch just shrinks as requests finish.

# %% [markdown] lang="zh"
# ## TODO ch04.6 · 会自己调节的批大小
#
# **扩展部分**：单独计分，后面的章节用不到它。
#
# 要让每一步都不超过承诺的时间，`max_num_seqs` 该取多少？这取决于模型、GPU，还有此刻来的是什么请求。
# 与其事先知道，不如一直去找：**超时就减半，否则加一**。TCP 找它的窗口，用的就是这个办法。
#
# `DynamicBatchScheduler` 给每一步计时，并调用 `adjust(seconds)`；`room_for` 已经会看 `self.limit`。请写出 `adjust`：
#
# - 一步**超过** `self.target` 秒就算超时：`self.limit` 减半，向下取整；
# - 否则上限加一；
# - 它始终在 1 到 `max_num_seqs` 之间。
#
# 上限只在门口起作用：在跑的不会被赶走，等它们完成，批自然就小了。


# %% answer="ch04-answer-5" tags=["export"]
class DynamicBatchScheduler(ContinuousBatchScheduler):
    """en: A continuous batch whose size follows the time that steps take; ``target`` is in seconds.
    zh: 批的大小跟着每一步的用时走；``target`` 以秒计。
    """

    def __init__(self, config: SchedulerConfig, policy, target: float) -> None:
        super().__init__(config, policy)
        self.target = target
        self.limit = 1
        self.began = 0.0

    def room_for(self, plan: Plan, seq: Sequence) -> bool:
        return len(self.running) < self.limit and super().room_for(plan, seq)

    def schedule(self, now: float) -> Plan:
        self.began = now
        return super().schedule(now)

    def update(self, plan: Plan, tokens: dict, now: float) -> dict:
        if plan.scheduled:
            self.adjust(now - self.began)
        return super().update(plan, tokens, now)

    def adjust(self, seconds: float) -> None:
        """en: Bring ``limit`` in line with a step that took ``seconds``.
        zh: 一步用了 ``seconds`` 秒，据此调整 ``limit``。
        """
        # TODO ch04.6
        # en: Late: halve self.limit, but not below 1. Else one more, but not above max_num_seqs.
        # zh: 超时：self.limit 减半，但不低于 1。否则加一，但不超过 max_num_seqs。
        if seconds > self.target:
            self.limit = max(1, self.limit // 2)
        else:
            self.limit = min(self.config.max_num_seqs, self.limit + 1)
        # END ch04.6


# %% [markdown] lang="en" hint="ch04.6"
# 1. One `if` with two branches, and one bound in each.
# 2. `max(…)` keeps a number from falling too low, `min(…)` from rising too high. `// 2` rounds down. A step that
#    takes exactly the target is in time.
# 3. `if seconds > self.target: self.limit = max(1, self.limit // 2)`, and in the `else` branch
#    `min(self.config.max_num_seqs, ...)` of one more.

# %% [markdown] lang="zh" hint="ch04.6"
# 1. 一个 `if`，两个分支，每个分支里守住一头。
# 2. `max(…)` 防止太小，`min(…)` 防止太大。`// 2` 向下取整。正好用了 target 秒的，不算超时。
# 3. `if seconds > self.target: self.limit = max(1, self.limit // 2)`；`else` 里是
#    `min(self.config.max_num_seqs, ...)`，省略号处是加一之后的数。

# %% [markdown] lang="en" explain="ch04.6"
# Additive increase, multiplicative decrease. If a step of `b` requests is just in time, the limit climbs to `b + 1`,
# is late, falls to about half and climbs again: it settles in a band from `(b + 1) // 2` to `b + 1`, wherever it
# started. Growing by doubling instead would overshoot; shrinking by one would leave users late for a long time.

# %% [markdown] lang="zh" explain="ch04.6"
# 加法增大，乘法减小（AIMD）。假设一步 `b` 个请求刚好不超时，上限会爬到 `b + 1`，超时，落到一半左右，再往上爬：
# 不管从哪里开始，最后都稳定在 `(b + 1) // 2` 到 `b + 1` 之间。要是翻倍地涨，就会冲过头；
# 要是一个一个地减，用户就要迟到很久。

# %% check="ch04.6" points=3 level="extension"
check("ch04.6")

# %% [markdown] lang="en"
# Two thousand requests with short prompts (at most 64 tokens) wait, and 8 ms are promised for a step. Then the same
# with the chat prompts as they are. **Predict:** does the limit settle in both?

# %% [markdown] lang="zh"
# 两千个请求在等，提示词很短（最多 64 个 token），承诺每步不超过 8 毫秒。然后换回聊天的提示词，再来一遍。
# **先猜：** 两次上限都会稳定下来吗？

# %%
many = [replace(request, arrival_time=0.0) for request in synthetic("azure-chat-like", 2000, seed=2)]
short = [replace(request, prompt_len=min(request.prompt_len, 64), max_new_tokens=200) for request in many]
fig, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained", sharey=True)
for ax, load in zip(axes, (short, many), strict=True):
    scheduler = DynamicBatchScheduler(limits(512), policies.FCFS(), target=0.008)
    followed, late = [], 0
    for step in Loop(load, scheduler, SimExecutor(llama)):
        followed.append(scheduler.limit)
        late += step.end - step.start > scheduler.target
    ax.plot(followed, color=BLUE, linewidth=0.8)
    ax.set(xlabel="step", ylim=(0, 520))
    print(tr(en=f"late steps: {late / len(followed):.1%}", zh=f"超时的步：{late / len(followed):.1%}"))
axes[0].set_ylabel("limit")
plt.show()

# %% [markdown] lang="en"
# *x: step; y: the limit. Left: short prompts. Right: chat prompts.*
#
# With short prompts a saw-tooth, in a band of about 100 to 200; it sinks a little as the answers, and with them the KV
# cache, get longer. (The last climb: nobody waits any more.) With chat prompts the limit hovers around 20: a single
# prompt makes a step late, and the batch is halved for something that a smaller batch cannot cure. A controller is as
# good as the cause that it assumes.

# %% [markdown] lang="zh"
# 图：横轴是步，纵轴是上限。左边是短提示词，右边是聊天的提示词。
#
# 短提示词给出锯齿，稳在大约 100 到 200 之间；随着回答变长、KV cache 变大，它略微下沉。（最后那一段爬升，是没有人在等了。）
# 换成聊天的提示词，上限一直在 20 上下：一段提示词就能让一步超时，批随之减半，可这个毛病不是缩小批能治的。
# 控制器的好坏，取决于它对病因的假设对不对。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **Orca** (Yu et al., OSDI 2022) proposed *iteration-level scheduling*: the scheduler runs the engine for one
#   iteration, then decides anew. Its abstract gives 36.9 times the throughput of FasterTransformer at the same
#   latency, for a GPT-3 of 175B. After experiment 2 you know what to ask of such a number.
#   ([paper](https://www.usenix.org/conference/osdi22/presentation/yu))
# - **vLLM 0.33.0** fills a step as you do: a token budget, everybody running in order of admission, then the waiting
#   while there are slots; without chunked prefill, a prompt that does not fit the rest of the budget ends admission.
#   A prompt larger than the whole budget would end admission for ever there, so its configuration refuses a budget below
#   the model's length where chunking is off; yours says no to the one request. *(`vllm/v1/core/sched/scheduler.py`, read
#   and driven.)* In its configuration class (read at 0.11.2) the defaults are 128 sequences and 2,048 tokens, "mainly
#   for convenience when testing"; real use sets its own.
#   ([SchedulerConfig](https://docs.vllm.ai/en/v0.11.2/api/vllm/config/scheduler/))
# - **TensorRT-LLM** calls it *inflight batching*; the knobs are `max_batch_size` and `max_num_tokens`. The static batch
#   is still there as the policy `STATIC_BATCH`, "a legacy mode", not recommended for production.
#   ([runtime flags](https://nvidia.github.io/TensorRT-LLM/_sources/performance/performance-tuning-guide/useful-runtime-flags.md.txt))
#   Its `DynamicBatchConfig` (1.3.0rc27) tunes the batch size while running, from a moving average of input and output
#   lengths over the last 128 requests, hence by prediction, where yours reacts to time.
#   ([DynamicBatchConfig](https://nvidia.github.io/TensorRT-LLM/1.3.0rc27/llm-api/reference/DynamicBatchConfig.html))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **Orca**（Yu 等，OSDI 2022）提出了 iteration-level scheduling：调度器让引擎只跑一次迭代，然后重新决定。
#   摘要里说，在 175B 的 GPT-3 上，延迟相同的情况下，吞吐量是 FasterTransformer 的 36.9 倍。
#   做完实验 2，你知道该怎样追问这样一个数字。
#   （[论文](https://www.usenix.org/conference/osdi22/presentation/yu)）
# - **vLLM 0.33.0** 填满一步的办法和你一样：一份 token 预算，先按准入次序给所有在跑的，再趁有空位放进等待的；
#   不分块时，提示词放不进剩余预算，就停止放人。比整份预算还长的提示词，在它那里会把门永远堵住，
#   所以关掉分块时，它的配置不许预算小于模型的最大长度；你的做法是只拒绝那一个请求。
#   （`vllm/v1/core/sched/scheduler.py`，读过源码，也实际驱动运行过。）
#   它的配置类里（查的是 0.11.2），默认值是 128 个请求、2,048 个 token，注释说主要是为了测试方便，实际使用时另行设定。
#   （[SchedulerConfig](https://docs.vllm.ai/en/v0.11.2/api/vllm/config/scheduler/)）
# - **TensorRT-LLM** 把它叫作 inflight batching，旋钮是 `max_batch_size` 和 `max_num_tokens`。
#   静态批仍以 `STATIC_BATCH` 策略的名义留着，文档说它是旧模式，不建议用于生产。
#   （[运行时选项](https://nvidia.github.io/TensorRT-LLM/_sources/performance/performance-tuning-guide/useful-runtime-flags.md.txt)）
#   它的 `DynamicBatchConfig`（1.3.0rc27）也在运行中调整批大小，依据是输入、输出长度的滑动平均（窗口 128），
#   也就是靠预测；你的控制器靠的是对用时的反应。
#   （[DynamicBatchConfig](https://nvidia.github.io/TensorRT-LLM/1.3.0rc27/llm-api/reference/DynamicBatchConfig.html)）

# %% [markdown] lang="en"
# ## Summary
#
# - A scheduler and an executor meet in every step: a `Plan` there, tokens back. All that a request needs is two
#   counters, how many tokens it has and how many are computed.
# - A static batch wastes what lies between the mean answer and the longest. Refilling a slot in the next step
#   wins it back, and costs one `if` less.
# - Slots (`max_num_seqs`) and budget (`max_num_batched_tokens`) bound a step. The running come first, then the next in
#   line, and nobody overtakes.
# - What can never be served is refused at the door, with a reason.
# - "Batch 4 to 16" is about memory. Throughput grows far beyond it, where the KV cache fits and TPOT allows.

# %% [markdown] lang="zh"
# ## 小结
#
# - 调度器和执行器每一步碰一次头：交出一个 `Plan`，收回一批 token。一个请求只需要两个计数：有几个 token，算过几个。
# - 静态批浪费的，是平均回答和最长回答之间的那一截。空位下一步就补上，就能补回来，代码反而少一个 `if`。
# - 位置（`max_num_seqs`）和预算（`max_num_batched_tokens`）限制了一步。在跑的优先，然后是排在最前面的，谁也不能插队。
# - 永远服务不了的，在门口就拒绝，并说明原因。
# - “4 到 16”说的是显存。只要 KV cache 放得下、TPOT 允许，吞吐量还能涨得远得多。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **Another policy.** Run experiment 4 with `policies.SJF()`. What happens to the median TTFT, and to the worst?
# 2. **Overtaking.** Let `schedule` look past a prompt that does not fit. Find an arrival pattern in which one request
#    then waits for ever, and one in which everybody gains.
# 3. **Grow only when full.** The controller's limit also grows while half of the slots are empty. Change that. What is
#    better after an idle minute, and what is worse?
# 4. **A fair comparison.** A static batcher could sort requests by expected length, so that a batch ends together. How
#    much of the gap of experiment 2 does that close, if it knew the lengths exactly?
#
# To discuss: a provider offers "half price, within 24 hours". What would you change in this scheduler for it?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **换个策略。** 用 `policies.SJF()` 再跑一遍实验 4。TTFT 的中位数怎样变？最差的那个呢？
# 2. **插队。** 让 `schedule` 越过放不下的提示词往后看。找一种到达方式，使某个请求永远等下去；再找一种，使人人都得利。
# 3. **满了才涨。** 位置空着一半的时候，控制器的上限也照样涨。改掉它。空闲一分钟之后，什么变好了，什么变差了？
# 4. **公平的比较。** 静态批可以先按预计的长度排序，让一批差不多同时结束。假如长度预计得完全准，实验 2 的差距能补回多少？
#
# 讨论：某家服务商推出“半价，24 小时内完成”。为此你会怎样改这个调度器？

# %% [markdown] lang="en"
# ## What next
#
# We gave every request a slot as if memory were free. Chapter 5 cuts the KV cache into blocks, so that a request
# holds what it uses and no more.

# %% [markdown] lang="zh"
# ## 接下来
#
# 这一章给每个请求一个位置，好像显存不要钱。第 5 章把 KV cache 切成块，让每个请求用多少占多少。
