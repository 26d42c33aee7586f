# %% [markdown] lang="en"
# # Chapter 2 · What a step costs, and what a user waits
#
# Chapter 1's scheduler lives in steps. Here you give it a clock, put a price in seconds on every step, and
# turn a run into the numbers that serving teams are paged for. Then you break a rule of thumb with them.
#
# **Time.** Core: 90 minutes at most (five TODOs, four experiments). Extension: 30 minutes more.
#
# **You need.** Chapter 1, or its reference. No GPU, no PyTorch.
#
# **You leave with.** A cost model and the metrics, saved: every later chapter runs on them.

# %% [markdown] lang="zh"
# # 第 2 章 · 一步要花多久，用户要等多久
#
# 第 1 章的调度器活在“步”里。这一章你要给它装上时钟，给每一步标出以秒计的价格，
# 再把一次运行变成线上团队真正盯着的那几个数。最后用它们推翻一条流传很广的经验。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，四个实验）；扩展部分再加 30 分钟。
#
# **基础。** 做过第 1 章，或者直接用它的参考实现。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 一个成本模型和一套指标，保存下来，后面每一章都靠它们运行。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. In chapter 1's toy, what does a prefill of 7,000 tokens cost, compared with one of 7?
# 2. What must a decode step read from GPU memory, however short the answer is?
# 3. Ten users waited 1 second each, one waited 90. What is the mean, what is the median, and which of the
#    two would you want to be told?
#
# 1 and 2 are in [chapter 1](./ch01_decode_scheduler.ipynb): experiment 4, and the pain in numbers. For 3,
# take a pencil.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 在第 1 章的玩具里，7,000 个 token 的 prefill 和 7 个 token 的相比，代价差多少？
# 2. 不管回答有多短，一步 decode 都必须从显存里读什么？
# 3. 十个用户各等了 1 秒，还有一个等了 90 秒。平均数是多少？中位数是多少？你更想知道哪一个？
#
# 前两题的答案在[第 1 章](./ch01_decode_scheduler.ipynb)：实验 4，以及开头的“先看数字”。
# 第 3 题拿笔算一算。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch02", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# Llama-3.1-8B has 8.03 billion weights. On an H100 (989 TFLOP/s, 3.35 TB/s) three steps cost, by the model
# that you are about to write:
#
# | step of the toy | arithmetic | memory traffic | so it takes |
# |---|---|---|---|
# | prefill of 7 tokens | 0.1 ms | 4.8 ms | 4.8 ms |
# | prefill of 7,000 tokens | 126.6 ms | 5.3 ms | 126.6 ms |
# | decode of one token, 1,000 positions in the cache | 0.02 ms | 4.8 ms | 4.8 ms |
#
# Chapter 1 counted each of the three as *one step*. The second takes as long as 26 of the others. And look
# at the last row: the arithmetic units work for 0.02 ms and wait for 4.8.
#
# *The peak rates are the makers', from the datasheets that `decodelab.sim.hardware` names; no real step is
# as fast.*

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# Llama-3.1-8B 有 80.3 亿个权重。在一块 H100（989 TFLOP/s，3.35 TB/s）上，
# 按你马上要写的模型，三种步的代价是：
#
# | 玩具里的一步 | 算要多久 | 搬数据要多久 | 所以这一步要 |
# |---|---|---|---|
# | 7 个 token 的 prefill | 0.1 毫秒 | 4.8 毫秒 | 4.8 毫秒 |
# | 7,000 个 token 的 prefill | 126.6 毫秒 | 5.3 毫秒 | 126.6 毫秒 |
# | decode 一个 token，cache 里有 1,000 个位置 | 0.02 毫秒 | 4.8 毫秒 | 4.8 毫秒 |
#
# 在第 1 章里，这三种都算**一步**。可是中间那一步，抵得上另外两种的 26 步。
# 再看最后一行：计算单元干了 0.02 毫秒的活，等了 4.8 毫秒的数据。
#
# 峰值取自各厂商的数据手册，出处写在 `decodelab.sim.hardware` 里；真实的一步不可能这么快。

# %% [markdown] lang="en"
# ## The idea: two bars, and the longer one wins
#
# A step does two things at once. It **computes**, at most so many FLOPs a second; and it **moves bytes**
# between memory and the chip, at most so many a second. Whichever takes longer decides:
#
# ```text
#              arithmetic   |==============|                 FLOPs / peak FLOP/s
#   one step
#              memory       |========================|       bytes / bandwidth
#
#              takes        |------------------------|       the longer of the two
# ```
#
# This is the **roofline model** (Williams, Waterman and Patterson, 2009). A step is *compute-bound* if the
# first bar is the longer one, *memory-bound* if the second is.
#
# Three numbers say all that the model needs to know of a step:
#
# | | prefill of n tokens | decode, c positions in the cache |
# |---|---|---|
# | `new_tokens`: computed in this step | n | 1 |
# | `kv_tokens`: KV positions read, the new ones too | n | c |
# | `pairs`: (query, key) pairs, each query sees its past and itself | 1 + 2 + … + n = n(n + 1)/2 | c |
#
# Of a batch, each is the sum over its requests. That is why every later chapter can keep this model.

# %% [markdown] lang="zh"
# ## 想法：两根条，长的说了算
#
# 一步同时在做两件事。一是**算**，每秒最多这么多 FLOP；二是**搬**，在显存和芯片之间搬字节，每秒最多这么多。
# 谁慢，谁说了算：
#
# ```text
#              arithmetic   |==============|                 FLOPs / peak FLOP/s
#   one step
#              memory       |========================|       bytes / bandwidth
#
#              takes        |------------------------|       the longer of the two
# ```
#
# 这就是 **roofline 模型**（Williams、Waterman、Patterson，2009）。
# 上面那条更长，这一步就是**计算受限**；下面那条更长，就是**访存受限**。
#
# 关于一步，模型只需要知道三个数：
#
# | | n 个 token 的 prefill | decode，cache 里有 c 个位置 |
# |---|---|---|
# | `new_tokens`：这一步要算的 token | n | 1 |
# | `kv_tokens`：要读的 KV 位置，含新算的 | n | c |
# | `pairs`：（query，key）对，每个 query 看自己和之前的全部 | 1 + 2 + … + n = n(n + 1)/2 | c |
#
# 一批请求的三个数，就是各请求的三个数分别相加。正因如此，后面每一章都能沿用这个模型。

# %% [markdown] lang="en"
# ## What is given
#
# `work` turns an event of chapter 1 into the three numbers. A `Timing` is what is kept of a request: when it
# arrived, when it was first worked for, when each of its tokens came, and why it ended. From these times,
# and from nothing else, all metrics are made.

# %% [markdown] lang="zh"
# ## 现成的部分
#
# `work` 把第 1 章的一个事件变成那三个数。`Timing` 记着一个请求的全部时刻：什么时候到达，什么时候第一次轮到它，
# 每个 token 什么时候出来，最后为什么结束。所有的指标都从这些时刻算出来，不靠别的。

# %% tags=["export"]
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil

from decodelab.request import SLO, Request
from decodelab.sim.hardware import GPU, ModelShape
from decodelab.timings import Timing

COMPLETED = ("stop", "length")  # the reasons of an answer that came to its end


def work(event: dict) -> tuple[int, int, int]:
    """en: What a step of chapter 1 has to do: new tokens, KV positions read, (query, key) pairs.
    zh: 第 1 章的一步要做多少事：新算的 token 数、读取的 KV 位置数、（query，key）对数。
    """
    if event["phase"] == "prefill":
        n = event["prompt_len"]
        return n, n, n * (n + 1) // 2
    context = event["prompt_len"] + event["generated_len"]
    return 1, context, context


# %% [markdown] lang="en"
# ## TODO ch02.1 · Arrivals on a clock
#
# `ClockedSim` takes a scheduler of chapter 1's kind, with its `enqueue` and its `step`, and drives it in
# *time*. `arrive`, `record` and the last line are written; you write the loop. It repeats this:
#
# 1. Everyone who has arrived by `self.now` goes in, with `self.arrive(request)`: **before** a step is made,
#    and nobody whose time has not come. `coming` has them in order of arrival.
# 2. `self.sim.step()` makes one step. It returns the event, or `None` if nobody is there.
# 3. An event: the step took `self.cost(*work(event))` seconds. Move `self.now` on by that, then
#    `self.record(event, start)`, where `start` is what `self.now` was when the step began.
# 4. `None`, and somebody is still to come: nothing happens before they arrive, so **jump** there.
#    Waiting costs the simulation nothing.
# 5. `None`, and nobody is to come: done.
#
# A request that arrives *during* a step waits for its end. That is how real engines behave: a step on the GPU
# is not interrupted.

# %% [markdown] lang="zh"
# ## TODO ch02.1 · 让请求按时间到达
#
# `ClockedSim` 接过一个第 1 章那样的调度器（有 `enqueue`，有 `step`），让它在**时间**里运行。
# `arrive`、`record` 和最后一行已经写好，循环由你来写。循环反复做这几件事：
#
# 1. 到 `self.now` 为止已经到达的，用 `self.arrive(request)` 全部放进来：一定在走步**之前**放，
#    时间没到的一个也不许放。`coming` 里的请求按到达先后排好。
# 2. `self.sim.step()` 走一步。它返回事件；没有人可服务，就返回 `None`。
# 3. 返回的是事件：这一步花了 `self.cost(*work(event))` 秒。把 `self.now` 往前拨这么多，
#    再调用 `self.record(event, start)`，`start` 是这一步开始时 `self.now` 的值。
# 4. 返回 `None`，但还有人没到：在那之前什么也不会发生，所以直接**跳**到他到达的时刻。
#    空等不花模拟器一点时间。
# 5. 返回 `None`，也没有人要来了：结束。
#
# 请求要是在一步**当中**到达，就得等这一步走完。真实的引擎也是这样：GPU 上的一步不会半途停下来。


# %% answer="ch02-answer" tags=["export"]
class ClockedSim:
    """en: A scheduler of chapter 1 on a clock; ``now`` and all times are seconds.
    zh: 装上时钟的第 1 章调度器；``now`` 和所有时刻都以秒计。
    """

    def __init__(self, sim, cost: Callable[[int, int, int], float]) -> None:
        self.sim, self.cost = sim, cost
        self.now = 0.0
        self.timings: dict[int | str, Timing] = {}
        self.log: list[tuple[dict, float, float]] = []  # event, start, end

    def arrive(self, request: Request) -> None:
        """en: Hand a request to the scheduler and begin its Timing.
        zh: 把请求交给调度器，并开始记它的 Timing。
        """
        self.sim.enqueue(
            request.request_id,
            request.prompt_len,
            priority=request.priority,
            max_new_tokens=request.max_new_tokens,
        )
        self.timings[request.request_id] = Timing(
            request.request_id, request.arrival_time, request.prompt_len
        )

    def record(self, event: dict, start: float) -> None:
        """en: Note a step that began at ``start`` and ends now; a decode step gives a token.
        zh: 记下一步：从 ``start`` 开始，到现在结束；decode 步会给出一个 token。
        """
        timing = self.timings[event["request_id"]]
        if timing.scheduled_time is None:
            timing.scheduled_time = start
        if event["phase"] == "decode":
            timing.token_times.append(self.now)
        if event["action"] == "finish":
            timing.reason = "length"
        self.log.append((event, start, self.now))

    def run(self, requests: Iterable[Request]) -> list[Timing]:
        """en: Serve them all; their timings in order of arrival.
        zh: 服务完所有请求；按到达次序返回它们的 Timing。
        """
        coming = deque(sorted(requests, key=lambda request: request.arrival_time))
        # TODO ch02.1
        # en: Arrivals by now; one step; then advance by its cost, or jump to the next arrival, or stop.
        # zh: 先放进已到达的；走一步；然后按代价往前拨，或者跳到下一个到达时刻，或者结束。
        while True:
            while coming and coming[0].arrival_time <= self.now:
                self.arrive(coming.popleft())
            event = self.sim.step()
            if event is not None:
                start = self.now
                self.now += self.cost(*work(event))
                self.record(event, start)
            elif coming:
                self.now = coming[0].arrival_time
            else:
                break
        # END ch02.1
        return list(self.timings.values())


# %% [markdown] lang="en" hint="ch02.1"
# 1. One `while True:` with one `step()` in it. The only things that move the clock are the cost of a step
#    and a jump; each turn of the loop does at most one of the two.
# 2. Let in with an inner `while coming and coming[0].arrival_time <= self.now:`, `coming.popleft()`. An
#    `if` would let in one where two have arrived. Compare with `<=`: who arrives at this very moment is
#    there. Keep `start = self.now` before you add the cost.
# 3. Inner while with `self.arrive(coming.popleft())`; `event = self.sim.step()`; then three branches:
#    `if event is not None:` start, `self.now += self.cost(*work(event))`, `self.record(event, start)`;
#    `elif coming:` `self.now = coming[0].arrival_time`; `else:` `break`.

# %% [markdown] lang="zh" hint="ch02.1"
# 1. 一个 `while True:`，里面只调用一次 `step()`。能拨动时钟的只有两样：一步的代价，和一次跳跃；
#    每转一圈，两样里最多发生一样。
# 2. 放人进来用内层循环 `while coming and coming[0].arrival_time <= self.now:`，配 `coming.popleft()`。
#    写成 `if`，同时到了两个就只放进来一个。要用 `<=`：恰好此刻到达的，算已经到了。
#    加代价之前，先记下 `start = self.now`。
# 3. 内层循环里 `self.arrive(coming.popleft())`；接着 `event = self.sim.step()`；然后三个分支：
#    `if event is not None:` 记 start，`self.now += self.cost(*work(event))`，`self.record(event, start)`；
#    `elif coming:` 就 `self.now = coming[0].arrival_time`；`else:` 就 `break`。

# %% [markdown] lang="en" explain="ch02.1"
# This is a *discrete-event simulation*: between two events nothing changes, so time may jump from one to
# the next. An hour of traffic takes as long as its steps take to compute, not an hour.
#
# Letting in before stepping matters: with the two swapped, whoever arrived during the last step would miss
# one turn. The jump sets the clock to the next arrival and lets the loop come round: there is one
# place where requests go in, not two. And since a step is made only when somebody is there, no idle time is
# priced.

# %% [markdown] lang="zh" explain="ch02.1"
# 这叫**离散事件模拟**：两个事件之间什么都不变，所以时间可以从一个事件直接跳到下一个。
# 一小时的流量，只花计算那些步的时间，不用真等一小时。
#
# 先放人、再走步，次序不能反：反过来，上一步当中到达的请求就白白错过一轮。
# 跳跃只负责把时钟拨到下一个到达时刻，然后让循环转回开头：放人进来的地方只有一处，而不是两处。
# 而且只有有人可服务时才走步，所以空闲的时间不会被算上代价。

# %% check="ch02.1" points=3 level="core"
check("ch02.1")

# %% [markdown] lang="en"
# ## TODO ch02.2 · FLOPs against bytes
#
# Fill in `Roofline.times`: how long the **arithmetic** of a step takes, and how long its **memory traffic**,
# both in seconds, as a tuple of two. `__call__` then takes the longer one.
#
# *Arithmetic.*
# - Each new token passes through every weight once, one multiplication and one addition: 2 FLOPs for
#   each of `self.params`.
# - Attention: each (query, key) pair costs a dot product for the score and a weighted value, 2 FLOPs for each
#   number of a head in both, in all heads of all layers: 4 × `layers` × `heads` × `head_dim`. `self.width` is
#   the product of the three.
# - Together, divided by `self.gpu.flops`.
#
# *Traffic.*
# - All weights are read **once per step**, however many tokens it computes: `self.weight_bytes`.
# - Each of the `kv_tokens` positions is read, each of the `new_tokens` is written: `self.kv_bytes` apiece.
# - Together, divided by `self.gpu.bandwidth`.
#
# *Left out*, so the answer is a lower bound: the activations, norms and softmax, the start of each kernel, and
# that no kernel reaches the peak. It counts a little too much, too: an embedding is looked up, not
# multiplied, and only the last token of a prompt needs the output matrix.

# %% [markdown] lang="zh"
# ## TODO ch02.2 · FLOPs 对字节
#
# 补全 `Roofline.times`，返回一个元组：一步里**算**要多少秒，**搬**要多少秒。`__call__` 再取其中较长的。
#
# **算。**
# - 每个新 token 把每个权重都过一遍，一次乘、一次加：`self.params` 个权重，每个 2 FLOP。
# - 注意力：每个（query，key）对先做点积得到分数，再给 value 加权；head 里的每个数，两边各 2 FLOP，
#   所有层的所有 head 都要做：4 × `layers` × `heads` × `head_dim`。`self.width` 就是后三项的乘积。
# - 加起来，除以 `self.gpu.flops`。
#
# **搬。**
# - 全部权重**每步读一次**，不管这一步算几个 token：`self.weight_bytes`。
# - `kv_tokens` 个位置每个读一次，`new_tokens` 个新 token 每个写一次：每个都是 `self.kv_bytes`。
# - 加起来，除以 `self.gpu.bandwidth`。
#
# **没有算进去的**，所以结果是个下界：激活值、norm 和 softmax、每个 kernel 的启动，以及任何 kernel 都达不到峰值。
# 也有略微多算的：embedding 是查表，不做乘法；提示词里只有最后一个 token 用得上输出矩阵。


# %% answer="ch02-answer-2" tags=["export"]
class Roofline:
    """en: Seconds of a step of ``model`` on ``gpu``: the longer of its arithmetic and its memory traffic.
    zh: ``model`` 在 ``gpu`` 上走一步的秒数：计算和访存里较长的那个。
    """

    def __init__(self, model: ModelShape, gpu: GPU) -> None:
        self.model, self.gpu = model, gpu
        self.params = model.params
        self.width = model.layers * model.heads * model.head_dim
        self.weight_bytes = model.weight_bytes
        self.kv_bytes = model.kv_bytes_per_token

    def times(self, new_tokens: int, kv_tokens: int, pairs: int) -> tuple[float, float]:
        """en: Seconds of arithmetic and seconds of memory traffic, in this order.
        zh: 依次是计算的秒数、访存的秒数。
        """
        # TODO ch02.2
        # en: FLOPs over the peak; bytes over the bandwidth; return both.
        # zh: FLOP 数除以峰值；字节数除以带宽；两个都返回。
        flops = 2 * self.params * new_tokens + 4 * self.width * pairs
        moved = self.weight_bytes + self.kv_bytes * (kv_tokens + new_tokens)
        return flops / self.gpu.flops, moved / self.gpu.bandwidth
        # END ch02.2

    def __call__(self, new_tokens: int, kv_tokens: int, pairs: int) -> float:
        return max(self.times(new_tokens, kv_tokens, pairs))


# %% [markdown] lang="en" hint="ch02.2"
# 1. Two sums, two divisions, one tuple. Which of the three arguments appears in which sum? Only
#    `new_tokens` appears in both.
# 2. `flops` has a term in `new_tokens` and a term in `pairs`. `moved` has one term without any argument,
#    the weights, and one in `kv_tokens + new_tokens`. Arithmetic first in the tuple.
# 3. `flops = 2 * self.params * new_tokens + 4 * self.width * pairs`;
#    `moved = self.weight_bytes + self.kv_bytes * (...)`; then `return flops / self.gpu.flops, ...`.

# %% [markdown] lang="zh" hint="ch02.2"
# 1. 两个和、两次除法、一个元组。三个参数各出现在哪个和里？只有 `new_tokens` 两边都有。
# 2. `flops` 有一项含 `new_tokens`，一项含 `pairs`。`moved` 有一项不含任何参数，就是权重，
#    另一项含 `kv_tokens + new_tokens`。元组里先放计算。
# 3. `flops = 2 * self.params * new_tokens + 4 * self.width * pairs`；
#    `moved = self.weight_bytes + self.kv_bytes * (...)`；最后 `return flops / self.gpu.flops, ...`。

# %% [markdown] lang="en" explain="ch02.2"
# One term of the four does not depend on the step at all: the weights, in the traffic. Everything that makes
# batching worth while is in that asymmetry. A second request adds its FLOPs and its KV positions, but
# reads no weight again.
#
# The maximum assumes that arithmetic and traffic overlap perfectly. Without any overlap it would be the sum,
# at most twice as long. Real kernels lie between; chapter 10 measures where this machine lies.
#
# `__init__` reads the model's properties once, since a run asks for the price of every step.

# %% [markdown] lang="zh" explain="ch02.2"
# 四项里有一项与这一步做什么毫无关系：访存里的权重。批处理之所以划算，道理全在这个不对称里：
# 多带一个请求，多了它的 FLOP 和它的 KV 位置，权重却不用再读一遍。
#
# 取最大值，等于假设计算和访存完全重叠。要是完全不重叠，就该相加，最多长一倍。
# 真实的 kernel 介于两者之间；第 10 章会测出这台机器在哪儿。
#
# `__init__` 把模型的属性先读一次存好，因为一次运行里每一步都要问价。

# %% check="ch02.2" points=3 level="core"
check("ch02.2")

# %% [markdown] lang="en"
# ## TODO ch02.3 · What one user waits
#
# Fill in `latencies`: a tuple of three numbers of one request, in seconds, `None` where there is none. It reads `timing`
# and changes nothing of it.
#
# | | what it is | there is none |
# |---|---|---|
# | **TTFT**, time to first token | from arrival to the first token, the queue included | without a token |
# | **TPOT**, time per output token | from the first token to the last, divided by the number of *gaps* between | with fewer than two tokens |
# | **E2E**, end to end | from arrival to the last token | unless the answer is complete: `timing.reason in COMPLETED` |
#
# *Why three?* A reader watches TTFT go by, then reads at the pace of TPOT; a program that waits for the
# whole answer knows only E2E.
#
# An answer that its user aborted has a TTFT and a TPOT, for its tokens did come, but no E2E: its end is not
# the server's doing.

# %% [markdown] lang="zh"
# ## TODO ch02.3 · 一个用户等了多久
#
# 补全 `latencies`，返回一个元组：一个请求的三个数，以秒计；没有的就是 `None`。`timing` 只读不改。
#
# | | 是什么 | 什么时候没有 |
# |---|---|---|
# | **TTFT**，首 token 延迟 | 从到达到第一个 token，排队也算在内 | 一个 token 都没有 |
# | **TPOT**，每 token 延迟 | 从第一个 token 到最后一个，除以中间的**间隔**数 | 不到两个 token |
# | **E2E**，端到端延迟 | 从到达到最后一个 token | 回答没有完整结束，即 `timing.reason` 不在 `COMPLETED` 里 |
#
# **为什么要三个？** 坐在屏幕前的人先熬过 TTFT，然后按 TPOT 的节奏往下读；
# 等着整段回答的程序，只关心 E2E。
#
# 用户中途取消的回答有 TTFT，也有 TPOT，因为那些 token 确实出来过；但没有 E2E：它在哪儿结束，不由服务器决定。


# %% answer="ch02-answer-3" tags=["export"]
def latencies(timing: Timing) -> tuple:
    """en: TTFT, TPOT and E2E of one request in seconds; None where there is none.
    zh: 一个请求的 TTFT、TPOT、E2E，以秒计；没有的是 None。
    """
    # TODO ch02.3
    # en: No token: three Nones. TPOT divides by gaps, not by tokens. E2E only for a complete answer.
    # zh: 没有 token：三个 None。TPOT 除以间隔数，不是 token 数。E2E 只给完整的回答。
    times = timing.token_times
    if not times:
        return None, None, None
    between = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
    whole = times[-1] - timing.arrival_time if timing.reason in COMPLETED else None
    return times[0] - timing.arrival_time, between, whole
    # END ch02.3


# %% [markdown] lang="en" hint="ch02.3"
# 1. Everything comes from `timing.token_times`, `timing.arrival_time` and `timing.reason`. Deal with the
#    empty list first. The reason matters to E2E alone.
# 2. n tokens have n − 1 gaps between them, so one token has none and would divide by zero.
#    `scheduled_time` appears nowhere: a user who waits in the queue waits.
# 3. `times = timing.token_times`; `if not times: return None, None, None`; TPOT is
#    `(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None`; E2E is
#    `times[-1] - timing.arrival_time if ... else None`.

# %% [markdown] lang="zh" hint="ch02.3"
# 1. 全部来自 `timing.token_times`、`timing.arrival_time` 和 `timing.reason`。先处理空列表。只有 E2E 要看 reason。
# 2. n 个 token 之间有 n − 1 个间隔，所以只有一个 token 时没有间隔，硬除就是除以零。
#    `scheduled_time` 哪儿都用不上：用户在队列里等，也是等。
# 3. `times = timing.token_times`；`if not times: return None, None, None`；TPOT 是
#    `(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None`；E2E 是
#    `times[-1] - timing.arrival_time if ... else None`。

# %% [markdown] lang="en" explain="ch02.3"
# The mean of the gaps telescopes: all times but the first and the last cancel. So TPOT cannot see a stall in
# the middle that quicker tokens make up for; the gaps themselves are called ITL, inter-token latency, and
# chapter 7 looks at the largest one.
#
# Starting TTFT at `scheduled_time` is the most flattering mistake there is: under load nearly all of TTFT is
# the queue.

# %% [markdown] lang="zh" explain="ch02.3"
# 间隔求平均时，中间的时刻全部抵消，只剩首尾两个。所以中途卡顿过、后来又追上的情况，TPOT 看不出来；
# 单个间隔叫 ITL（inter-token latency），第 7 章会盯着其中最大的那个。
#
# 把 TTFT 从 `scheduled_time` 算起，是最会给自己脸上贴金的一种错误：负载一高，TTFT 几乎全是排队。

# %% check="ch02.3" points=2 level="core"
check("ch02.3")


# %% tags=["export"]
def ttft(timing: Timing) -> float | None:
    """en: Time to first token in seconds.
    zh: 首 token 延迟，以秒计。
    """
    return latencies(timing)[0]


def tpot(timing: Timing) -> float | None:
    """en: Mean time per token after the first, in seconds.
    zh: 首 token 之后平均每个 token 的秒数。
    """
    return latencies(timing)[1]


def e2e(timing: Timing) -> float | None:
    """en: From arrival to the end of a complete answer, in seconds.
    zh: 从到达到完整回答结束的秒数。
    """
    return latencies(timing)[2]


# %% [markdown] lang="en"
# ## TODO ch02.4 · The slowest of a hundred
#
# A mean hides the user who waited 90 seconds. A **percentile** finds them: p95 is what 95 % of the values do
# not exceed. But between *which* two values does p95 of ten values lie? There are nine definitions in use
# (Hyndman and Fan, 1996), so say which one is meant. Ours is **linear interpolation**:
#
# Put the n values in order and number them 0, 1, …, n − 1. The q-th percentile stands at place q/100 × (n −
# 1). If the place is a whole number, it is the value there; else it lies on the straight line between its two
# neighbours.
#
# | values | q | place | percentile |
# |---|---|---|---|
# | 10, 20, 30, 40, 50 | 50 | 2 | 30 |
# | 10, 20, 30, 40, 50 | 90 | 3.6 | 40 + 0.6 × 10 = 46 |
# | 10, 20, 30, 40, 50 | 100 | 4 | 50 |
#
# The values may come in any order, and the caller's list is not to be changed. Nothing to rank, or a q outside
# 0 … 100, raises `ValueError`: that line is written.

# %% [markdown] lang="zh"
# ## TODO ch02.4 · 一百个里最慢的那个
#
# 平均数会把等了 90 秒的那个用户藏起来，**百分位数**能把他找出来：p95 就是 95% 的值都不超过的那个数。
# 可是十个值的 p95 落在**哪**两个值之间？通行的定义有九种（Hyndman 和 Fan，1996），所以必须说清用的是哪一种。
# 我们用**线性插值**：
#
# 把 n 个值从小到大排好，编号 0、1、……、n − 1。第 q 百分位数站在位置 q/100 × (n − 1) 上。
# 位置是整数，就取那里的值；不是整数，就取左右两个值连线上的那一点。
#
# | 值 | q | 位置 | 百分位数 |
# |---|---|---|---|
# | 10、20、30、40、50 | 50 | 2 | 30 |
# | 10、20、30、40、50 | 90 | 3.6 | 40 + 0.6 × 10 = 46 |
# | 10、20、30、40、50 | 100 | 4 | 50 |
#
# 传进来的值不一定有序，而且不能改动调用者的列表。没有值可排，或者 q 不在 0 到 100 之间，就抛 `ValueError`：
# 这一行已经写好。


# %% answer="ch02-answer-4" tags=["export"]
def percentile(values: Iterable[float], q: float) -> float:
    """en: The q-th percentile (0 to 100), linearly interpolated; ValueError for no values or another q.
    zh: 第 q 百分位数（0 到 100），线性插值；没有值或 q 越界则抛 ValueError。
    """
    ordered = sorted(values)
    if not ordered or not 0 <= q <= 100:
        raise ValueError(
            "percentile needs values and a q from 0 to 100 | 需要至少一个值，且 q 在 0 到 100 之间"
        )
    # TODO ch02.4
    # en: Find the place among the n - 1 gaps of ordered; interpolate between its two neighbours.
    # zh: 在 ordered 的 n - 1 个间隔里找到位置；在左右两个值之间插值。
    place = q / 100 * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
    # END ch02.4


# %% [markdown] lang="en" hint="ch02.4"
# 1. `ordered` is sorted already, and a list of your own. Compute the place first; it is a float.
# 2. `int(place)` is the neighbour below. The one above is the next index, except at q = 100, where there is
#    none: keep it inside the list. How far the place has gone from one to the other is `place - below`.
# 3. `place = q / 100 * (len(ordered) - 1)`; `below = int(place)`; `above = min(below + 1, ...)`; the value
#    below, plus the fraction times the difference of the two.

# %% [markdown] lang="zh" hint="ch02.4"
# 1. `ordered` 已经排好序，而且是你自己的列表。先算位置，它是个浮点数。
# 2. `int(place)` 是左边那个值的编号。右边是下一个编号；只有 q = 100 时右边没有了，别让它越出列表。
#    位置从左到右走了多远，就是 `place - below`。
# 3. `place = q / 100 * (len(ordered) - 1)`；`below = int(place)`；`above = min(below + 1, ...)`；
#    结果是左边的值，加上“走了多远”乘以两值之差。

# %% [markdown] lang="en" explain="ch02.4"
# n values have n − 1 gaps between them, and q says how far along all the gaps to go: 0 is the smallest,
# 100 the largest, 50 the median. It is what `numpy.percentile` does by default.
#
# The other widespread definition, *nearest rank*, always returns a value that some user really had. The two
# differ most where values are few: with 20 values linear p99 is a mixture of the two slowest, nearest rank
# the slowest. Neither can know more than 20 values tell.

# %% [markdown] lang="zh" explain="ch02.4"
# n 个值之间有 n − 1 个间隔，q 说的是沿着这些间隔走多远：0 是最小值，100 是最大值，50 是中位数。
# `numpy.percentile` 默认就是这样算的。
#
# 另一种常见的定义叫**最近秩**（nearest rank），它返回的一定是某个用户真实遇到的值。值越少，两者差得越多：
# 20 个值时，线性插值的 p99 是最慢两个值的混合，最近秩直接给最慢的那个。
# 不过谁也不可能知道 20 个值以外的事。

# %% check="ch02.4" points=2 level="core"
check("ch02.4")

# %% [markdown] lang="en"
# ## TODO ch02.5 · Goodput
#
# *Throughput* counts what left the machine. It is highest when the queue is longest. **Goodput** counts
# what was worth having: requests per second that kept a promise, the service level objective `slo`.
#
# A request is good if all of this holds:
#
# - its answer is complete, so it has an E2E;
# - its TTFT is at most `slo.ttft`;
# - its TPOT is at most `slo.tpot`. An answer of one token has no TPOT and so cannot miss it.
#
# "At most" includes the limit itself. Return the number of good requests divided by `seconds`, the length of
# the run.

# %% [markdown] lang="zh"
# ## TODO ch02.5 · 有效吞吐
#
# **吞吐量**数的是从机器里出来了多少，队排得最长的时候它最高。**有效吞吐**（goodput）数的是其中有用的：
# 每秒有多少个请求兑现了承诺。承诺就是服务等级目标 `slo`。
#
# 一个请求要算“好”，下面几条都得成立：
#
# - 回答完整，也就是有 E2E；
# - TTFT 不超过 `slo.ttft`；
# - TPOT 不超过 `slo.tpot`。只有一个 token 的回答没有 TPOT，也就谈不上超过。
#
# “不超过”包含恰好相等。返回好请求的个数除以 `seconds`，即这次运行的总时长。


# %% answer="ch02-answer-5" tags=["export"]
def goodput(timings: Iterable[Timing], slo: SLO, seconds: float) -> float:
    """en: Requests a second that were complete and within both limits of ``slo``.
    zh: 每秒有多少个请求既完整、又在 ``slo`` 的两个限度之内。
    """
    good = 0
    for timing in timings:
        first, between, whole = latencies(timing)
        # TODO ch02.5
        # en: Count this request if it is complete and keeps both limits.
        # zh: 这个请求如果完整，而且两个限度都没超，就数上它。
        if whole is not None and first <= slo.ttft and (between is None or between <= slo.tpot):
            good += 1
        # END ch02.5
    return good / seconds


# %% [markdown] lang="en" hint="ch02.5"
# 1. One condition with three parts, joined by `and`. Ask first whether the answer is complete: then there is
#    a TTFT, too.
# 2. `between` may be `None`, and `None <= 0.1` raises: ask `between is None or ...` in parentheses. Ask
#    `whole is not None`, not just `whole`: an E2E of 0.0 is false, too.
# 3. `if whole is not None and first <= slo.ttft and (between is None or ...):` then `good += 1`.

# %% [markdown] lang="zh" hint="ch02.5"
# 1. 一个条件，三部分，用 `and` 连起来。先问回答是否完整：完整的一定有 TTFT。
# 2. `between` 可能是 `None`，而 `None <= 0.1` 会抛异常：写成 `between is None or ...`，外面加括号。
#    要问 `whole is not None`，不能只写 `whole`：E2E 等于 0.0 时它也算假。
# 3. `if whole is not None and first <= slo.ttft and (between is None or ...):`，成立就 `good += 1`。

# %% [markdown] lang="en" explain="ch02.5"
# Both limits at once, of the *same* request. "95 % meet TTFT and 95 % meet TPOT" may mean that 90 % meet
# both.
#
# Goodput has a blind side, and it is worth knowing before somebody tunes by it: a request that has missed its
# limit counts nothing any more, so a scheduler that abandons it does better. Chapter 15's score counts
# abandoned requests, too.

# %% [markdown] lang="zh" explain="ch02.5"
# 两个限度要**同一个**请求同时满足。“95% 满足 TTFT，95% 满足 TPOT”，可能意味着两样都满足的只有 90%。
#
# goodput 有个盲区，在有人照着它调参之前最好先知道：已经超限的请求不再有任何价值，
# 所以干脆抛弃它的调度器，分数反而更高。第 15 章的评分会把被抛弃的请求也算进去。

# %% check="ch02.5" points=2 level="core"
check("ch02.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass. What follows runs **your** clock, **your** prices and **your** metrics.
#
# Stuck? `hint("ch02.1", 1)`, then 2, then 3, ten honest minutes before the first, five before each other;
# `solution("ch02.1")` last.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了，再往下看。后面用的全是**你的**时钟、**你的**价格和**你的**指标。
#
# 卡住了？`hint("ch02.1", 1)`，然后是 2、3；看第一条之前老老实实想十分钟，之后每条之前再想五分钟；最后才是 `solution("ch02.1")`。

# %%
progress()

# %% [markdown] lang="en"
# `report` puts your metrics into one dict. With it a run becomes a row of a table.

# %% [markdown] lang="zh"
# `report` 把你的各项指标收进一个 dict。有了它，一次运行就是表里的一行。


# %% tags=["export"]
def report(timings: Sequence[Timing], slo: SLO, seconds: float) -> dict[str, float | None]:
    """en: A run in a few numbers: counts, rates a second, percentiles in seconds (None where no value is).
    zh: 用几个数概括一次运行：个数、每秒的速率、以秒计的百分位数（没有值则为 None）。
    """
    table: dict[str, float | None] = {
        "requests": len(timings),
        "completed": sum(timing.reason in COMPLETED for timing in timings),
        "tokens_per_second": sum(len(timing.token_times) for timing in timings) / seconds,
        "goodput": goodput(timings, slo, seconds),
    }
    for name, metric in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e)):
        values = [value for timing in timings if (value := metric(timing)) is not None]
        for q in (50, 95, 99):
            table[f"{name}_p{q}"] = percentile(values, q) if values else None
    return table


# %% [markdown] lang="en"
# ## A run, with a clock
#
# Chapter 1's class, unchanged, on the clock. Three requests arrive at 0, 20 and 60 ms. Request 1 has a
# prompt of 4,000 tokens; each wants a few tokens.
#
# **Predict:** which request gets its first token last? And who has to wait for whom?

# %% [markdown] lang="zh"
# ## 带着时钟跑一次
#
# 第 1 章的类一个字没改，只是装上了时钟。三个请求在第 0、20、60 毫秒到达。请求 1 的提示词有 4,000 个 token；
# 每个请求都只要几个 token。
#
# **先猜：** 谁的第一个 token 来得最晚？谁在等谁？

# %%
import matplotlib.pyplot as plt

from decodelab import chapter
from decodelab.sim.hardware import GPUS, MODELS

BLUE, ORANGE = "#0072B2", "#E69F00"
DecodeSchedulerSim = chapter("ch01").DecodeSchedulerSim
roofline = Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])

three = [Request(0, 0.0, 500, 8), Request(1, 0.02, 4000, 4), Request(2, 0.06, 500, 6)]
clocked = ClockedSim(DecodeSchedulerSim(), roofline)
timings = clocked.run(three)

fig, ax = plt.subplots(figsize=(7, 2))
for event, begin, end in clocked.log:
    prefill = event["phase"] == "prefill"
    ax.barh(
        event["request_id"],
        1000 * (end - begin),
        left=1000 * begin,
        height=0.8 if prefill else 0.5,
        color=ORANGE if prefill else BLUE,
        edgecolor="white",
        hatch="///" if prefill else "",
    )
for timing in timings:
    ax.plot(1000 * timing.arrival_time, timing.request_id, "|", color="black", markersize=22)
ax.set(xlabel="ms", ylabel="request", yticks=[0, 1, 2], ylim=(2.6, -0.6))
plt.show()

# %% [markdown] lang="en"
# *Gantt chart: one row per request, x in milliseconds. Tall and hatched: prefill. Low: one bar per token. Black
# stroke: arrival.*
#
# Request 0 is in the middle of its answer when the long prompt comes, and stands still until it has been
# read. So does request 2: it arrives while the prefill runs, and a step is not interrupted. In chapter 1 this
# was one step among others. Now you see what it was.

# %% [markdown] lang="zh"
# 图：甘特图，一行一个请求，横轴是毫秒。高格带斜纹是 prefill；矮格一格一个 token；黑色竖线是到达时刻。
#
# 请求 0 正答到一半，长提示词来了，于是它原地不动，直到提示词读完。请求 2 也一样：它在 prefill 途中到达，
# 而一步不会半途停下。在第 1 章里，这不过是许多步里的一步；现在你看到了它到底有多长。

# %%
from decodelab.show.tell import table_html, table_text, tell


def ms(value):
    """en: Seconds as milliseconds, for a table.
    zh: 把秒写成毫秒，供表格使用。
    """
    return "-" if value is None else f"{1000 * value:,.1f}"


head = [tr(en="request", zh="请求"), "TTFT (ms)", "TPOT (ms)", "E2E (ms)"]
rows = [[str(t.request_id), ms(ttft(t)), ms(tpot(t)), ms(e2e(t))] for t in timings]
tell(table_text(head, rows), as_html=table_html(head, rows))

# %% [markdown] lang="en"
# One detail of the toy: its prefill yields no token, so its TTFT is one decode step too long, about 5 ms. In
# a real engine, and in this course from chapter 4 on, the step that ends a prefill gives the first token.

# %% [markdown] lang="zh"
# 玩具有个细节：它的 prefill 不产出 token，所以 TTFT 多了一步 decode，大约 5 毫秒。
# 真实引擎里（本课程从第 4 章起也一样），prefill 的最后一步就给出第一个 token。

# %% [markdown] lang="en"
# ## Two points under a roof
#
# Divide the FLOPs of a step by its bytes: its **intensity**. Draw FLOP/s against intensity, and the two
# limits become a roof: a slope where bandwidth limits, a flat top where arithmetic does. A step is a point on
# it.
#
# **Predict:** how far below the top is a decode step? And a prefill of 16 tokens?

# %% [markdown] lang="zh"
# ## 屋顶下的两个点
#
# 用一步的 FLOP 数除以它的字节数，得到**计算强度**。以强度为横轴、每秒 FLOP 数为纵轴画出来，
# 两个极限就成了一个屋顶：带宽受限的地方是斜坡，计算受限的地方是平顶。一步就是屋顶上的一个点。
#
# **先猜：** 一步 decode 离平顶有多远？16 个 token 的 prefill 呢？


# %%
from decodelab.show.plots import roofline as draw_roof

gpu = roofline.gpu
steps = {"D1": (1, 1000, 1000), "D32": (32, 32_000, 32_000)}
steps |= {f"P{n}": (n, n, n * (n + 1) // 2) for n in (16, 128, 1024)}

points: dict = {}
for label, step in steps.items():
    compute, memory = roofline.times(*step)
    points[label] = compute * gpu.flops, memory * gpu.bandwidth
    print(f"{label}: {compute / max(compute, memory):.1%}")

draw_roof(points, gpu.flops, gpu.bandwidth)

# %% [markdown] lang="en"
# *Both axes logarithmic; the number at the bend is the ridge, peak over bandwidth. D: decode steps of 1 and of 32
# requests with 1,000 positions each. P: prefills of 16, 128 and 1,024 tokens. Printed: the share of the peak
# that the step can use.*
#
# A lone decode step can use a third of one percent of the arithmetic that was paid for. A prefill of 1,024
# tokens reaches the top. But a prefill of 16 tokens is a memory-bound step like a decode step: not the
# *phase* makes a step compute-bound, but the number of tokens for which the weights are read.

# %% [markdown] lang="zh"
# 图：两轴都是对数，拐角处的数字是峰值算力除以带宽。D 是 decode 步，分别带 1 个和 32 个请求，每个 1,000 个位置；
# P 是 16、128、1,024 个 token 的 prefill。打印出来的是这一步最多用得上峰值的百分之几。
#
# 单独一步 decode，花钱买来的算力只用得上千分之三。1,024 个 token 的 prefill 碰到了平顶。
# 可是 16 个 token 的 prefill 和 decode 一样访存受限：决定一步是不是计算受限的，不是**阶段**，
# 而是权重读这一遍，摊给了多少个 token。

# %% [markdown] lang="en"
# ## Experiments
#
# Four questions. **Write your prediction down before you run the cell.**
#
# ### Experiment 1 · More load, more throughput, less goodput
#
# A hundred synthetic requests, shaped like the Azure chat trace, on chapter 1's scheduler. The same requests
# come at rates from 0.2 to 1.6 a second. The promise: first token within 1 s, then a token every 20 ms at
# least, a quarter of what the machine can do for one request alone.
#
# **Predict:** one request needs about a second of work. At which rate is goodput highest? What does throughput
# do beyond?

# %% [markdown] lang="zh"
# ## 实验
#
# 四个问题。**运行之前，先把你的预测写下来。**
#
# ### 实验 1 · 负载越高，吞吐量越高，goodput 越低
#
# 一百个合成请求，长度和到达仿照 Azure 聊天 trace，交给第 1 章的调度器。同一批请求，按每秒 0.2 个到 1.6 个的不同速率到达。
# 承诺是：1 秒之内出第一个 token，之后至少每 20 毫秒一个（机器单独服务一个请求时，速度是这个的四倍）。
#
# **先猜：** 一个请求大约要一秒钟的活。goodput 在哪个速率最高？再往上，吞吐量会怎样？

# %%
from dataclasses import replace

from decodelab.workload import synthetic

slo = SLO(ttft=1.0, tpot=0.020)
chat = list(synthetic("azure-chat-like", 100, seed=1))


def at_rate(requests, rate):
    """en: The same requests, so many a second.
    zh: 同一批请求，改成每秒这么多个。
    """
    squeeze = len(requests) / rate / requests[-1].arrival_time
    return [replace(r, arrival_time=r.arrival_time * squeeze) for r in requests]


def measure(sim, requests):
    """en: The report of a run of ``sim``.
    zh: 让 ``sim`` 跑一次，返回它的 report。
    """
    clocked = ClockedSim(sim, roofline)
    return report(clocked.run(requests), slo, clocked.now)


rates = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6]
sweep = [measure(DecodeSchedulerSim(), at_rate(chat, rate)) for rate in rates]
tokens_each = sum(r.max_new_tokens for r in chat) / len(chat)
throughputs = [row["tokens_per_second"] / tokens_each for row in sweep]

head = [
    tr(en="rate", zh="速率"),
    tr(en="throughput", zh="吞吐量"),
    "goodput",
    "TTFT p50 (ms)",
    "TTFT p95 (ms)",
]
rows = [
    [f"{rate:g}", f"{t:.2f}", f"{row['goodput']:.2f}", ms(row["ttft_p50"]), ms(row["ttft_p95"])]
    for rate, t, row in zip(rates, throughputs, sweep, strict=True)
]
tell(table_text(head, rows), as_html=table_html(head, rows))

# %%
from decodelab.show.plots import sweep as draw_sweep

curves = {"throughput": throughputs, "goodput": [row["goodput"] for row in sweep]}
draw_sweep(
    {name: dict(zip(rates, values, strict=True)) for name, values in curves.items()},
    "requests/s offered",
    "requests/s",
)

# %% [markdown] lang="en"
# *x: requests offered a second. Circles: throughput. Squares: goodput.*
#
# Goodput has a **knee**, at about 0.8 requests a second, and falls behind it, while throughput climbs on to its
# limit of about 0.93. Between 0.8 and 1.6 the machine delivers more and more that nobody wanted any longer. Who
# watches throughput alone sees a system that gets better.
#
# And note the two TTFT columns. The median stays near 20 ms far into the overload (to 1.2): this order serves newcomers
# with short prompts at once, and a few wait a minute. **Takeaway.** A latency without its percentile, and a
# throughput without its promise, say nothing.

# %% [markdown] lang="zh"
# 图：横轴是每秒来多少个请求。圆点是吞吐量，方块是 goodput。
#
# goodput 有个**拐点**，大约在每秒 0.8 个请求，过了就往下掉；吞吐量却还在往上爬，直到极限 0.93 左右。
# 从 0.8 到 1.6，机器的产出越来越多，可多出来的都已经没人要了。只盯吞吐量的人，看到的是一个越来越好的系统。
#
# 再看 TTFT 的两列。到每秒 1.2 个（早已过载），中位数仍只有二十几毫秒：这种次序让短提示词的新人立刻得到服务，代价是有几个人等了一分钟。
# **结论。** 延迟不说是哪个百分位，吞吐不说守着什么承诺，等于什么都没说。

# %% [markdown] lang="en"
# ### Experiment 2 · Prefill first or decode first, in seconds
#
# Chapter 1 asked who should go first, a newcomer's prefill or a running decode, and had no clock to answer
# with. Here are both, and first-come-first-served, at 0.6 requests a second.
#
# **Predict:** whose TPOT is best, whose TTFT? And whose throughput?

# %% [markdown] lang="zh"
# ### 实验 2 · prefill 优先还是 decode 优先，用秒来说话
#
# 第 1 章问过：新人的 prefill 和进行中的 decode，谁该先走？那时没有时钟，答不上来。
# 现在两种都有，再加上先来先服务，速率是每秒 0.6 个请求。
#
# **先猜：** 谁的 TPOT 最好？谁的 TTFT 最好？谁的吞吐量最高？


# %%
class DecodeFirst(DecodeSchedulerSim):
    def _schedule_key(self, req):
        phase, *rest = super()._schedule_key(req)
        return (1 - phase, *rest)


class FirstComeFirstServed(DecodeSchedulerSim):
    def _schedule_key(self, req):
        return (req.request_id,)


orders = {
    tr(en="prefill first", zh="prefill 优先"): DecodeSchedulerSim,
    tr(en="decode first", zh="decode 优先"): DecodeFirst,
    tr(en="first come, first served", zh="先来先服务"): FirstComeFirstServed,
}
compared = {name: measure(order(), at_rate(chat, 0.6)) for name, order in orders.items()}
head = ["", "tokens/s", "goodput", "TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95"]
rows = [
    [
        name,
        f"{row['tokens_per_second']:.0f}",
        f"{row['goodput']:.2f}",
        *(ms(row[key]) for key in ("ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95")),
    ]
    for name, row in compared.items()
]
tell(table_text(head, rows), as_html=table_html(head, rows))

# %% [markdown] lang="en"
# *Times in milliseconds.*
#
# The same tokens a second, to the digit: the machine is never idle while there is work, and the steps are the
# same ones in another order. What differs is who waits. Prefill first gives half the users their first token
# in 20 ms and lets some answers stutter. With the other two no answer ever does, and the median user waits
# more than twenty times as long for it to begin.
#
# **Takeaway.** With one request a step, an order only hands the waiting to somebody else. To make *less* of
# it, steps must do more: that is chapter 4.

# %% [markdown] lang="zh"
# 表里的时间都是毫秒。
#
# 每秒 token 数一模一样：只要有活，机器就没闲着，走的也是同样那些步，只是次序不同。不同的是谁在等。
# prefill 优先让一半用户 20 毫秒就看到第一个 token，代价是有些回答断断续续；另外两种从不断续，
# 可是中位用户要等二十多倍的时间才看到开头。
#
# **结论。** 一步只带一个请求，换什么次序都只是把等待推给别人。想让等待**变少**，一步就得多干点活：那是第 4 章。

# %% [markdown] lang="en"
# ### Experiment 3 · "Batch 4 to 16"
#
# You will meet the advice to batch 4 to 16 requests. Let your roofline say when that holds. A decode step of
# `batch` requests with 1,000 positions each computes `batch` tokens and reads `batch` × 1,000 positions.
# Weights are read once.
#
# Two limits come from outside the step: memory, since weights and all KV caches must fit at once; and the
# promise, a token every 20 ms.
#
# **Predict:** on an H100, from which batch size on does doubling it gain less than 10 %?

# %% [markdown] lang="zh"
# ### 实验 3 · “批大小取 4 到 16”
#
# 你会碰到这样的建议：一批放 4 到 16 个请求。什么时候成立，让你的 roofline 来说。
# 一步 decode 带 `batch` 个请求，每个 1,000 个位置：算 `batch` 个 token，读 `batch` × 1,000 个位置，权重只读一次。
#
# 还有两个限度来自步外：一是显存，权重和所有 KV cache 要同时放得下；二是承诺，每 20 毫秒一个 token。
#
# **先猜：** 在 H100 上，批大小从多少开始，再翻一倍只多不到 10%？


# %%
def decode_step(roofline, batch, context):
    """en: Seconds of a decode step of ``batch`` requests with ``context`` positions each.
    zh: 一步 decode 的秒数：``batch`` 个请求，每个 ``context`` 个位置。
    """
    return roofline(batch, batch * context, batch * context)


def room(roofline, context):
    """en: How many requests with ``context`` positions fit into the GPU's memory beside the weights.
    zh: 除去权重，显存里还放得下多少个有 ``context`` 个位置的请求。
    """
    left = roofline.gpu.memory - roofline.weight_bytes
    return max(0, int(left // (roofline.kv_bytes * context)))


batches = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
speed = {
    context: {batch: batch / decode_step(roofline, batch, context) for batch in batches}
    for context in (100, 1000, 8000)
}
for context, curve in speed.items():
    print(context, [f"{curve[2 * batch] / curve[batch] - 1:+.0%}" for batch in batches[:-1]])
figure = draw_sweep({str(context): curve for context, curve in speed.items()}, "batch", "tokens/s", log=True)
figure.axes[0].set_yscale("log")
for context in (1000, 8000):
    figure.axes[0].axvline(room(roofline, context), color="grey", linewidth=1)
figure

# %%
head = [
    "",
    tr(en="context", zh="上下文"),
    tr(en="fits", zh="放得下"),
    tr(en="within 20 ms", zh="20 毫秒以内"),
]
rows = []
for name in ("L4", "RTX 4090", "A100 80GB SXM", "H100 SXM"):
    priced = Roofline(MODELS["Llama-3.1-8B"], GPUS[name])
    for context in (1000, 8000):
        quick = [n for n in range(1, 1025) if decode_step(priced, n, context) <= slo.tpot]
        rows.append([name, f"{context:,}", str(room(priced, context)), str(max(quick, default=0))])
tell(table_text(head, rows), as_html=table_html(head, rows))

# %% [markdown] lang="en"
# *Figure: x is the batch, y the tokens a second of all its requests together, both logarithmic; one line per
# context. Grey: where memory is full, for 8,000 and for 1,000 positions. Printed: what each doubling gains.
# Table: the largest batch that fits, and the largest whose step keeps the promise (0: not even one request).*
#
# With 1,000 positions the answer is: never. Each doubling gains more than 10 % until the memory is full, at
# 487. From 4 to 16 you are still low on the slope, and a doubling gains about 90 %. Nothing about the
# arithmetic makes 16 a place to stop.
#
# What does is the **context**: at 8,000 positions the KV caches of 16 requests are as many bytes as the
# weights, and a doubling there gains a third. And **memory**: a 24 GB card has room for 60 requests of 1,000
# positions, or for 7 of 8,000.
#
# **Takeaway.** "4 to 16" holds on a small card with long contexts, and for an answer that is to stay near its
# lone pace. On a large card with chats it leaves most of the machine unused. The number is not wrong; it
# lacks its conditions.

# %% [markdown] lang="zh"
# 图：横轴是批大小，纵轴是所有请求合计的每秒 token 数，两轴都是对数；一条线是一种上下文长度。
# 灰色竖线是显存装满的地方，左边是 8,000 个位置，右边是 1,000 个。打印出来的是每翻一倍多得百分之几。
# 表里是放得下的最大批，以及一步仍守得住承诺的最大批（0 表示一个请求都不行）。
#
# 1,000 个位置时，答案是：永远不会。直到 487 个请求把显存装满，每翻一倍都还能多得 10% 以上。
# 从 4 到 16，你还在坡的下段，翻一倍能多得九成左右。从算力上看，16 没有任何值得停下的理由。
#
# 真正让人停下的，一是**上下文**：8,000 个位置时，16 个请求的 KV cache 已经和权重一样大，再翻一倍只多得三分之一；
# 二是**显存**：24 GB 的卡放得下 60 个 1,000 位置的请求，8,000 位置的只放得下 7 个。
#
# **结论。** “4 到 16”在小卡、长上下文的时候成立，或者要求每个回答都接近独享时的速度。
# 换成大卡和聊天，照它做就白白闲置了大半台机器。这个数没有错，错在没说条件。

# %% [markdown] lang="en"
# ### Experiment 4 · How sure is a p99?
#
# The run of experiment 1 at 0.6 requests a second gave a p99 of TTFT from 100 requests. Would another hundred
# users have told the same? Draw 100 of the measured TTFTs with replacement, a thousand times, and look at how
# the percentiles scatter.
#
# **Predict:** by which factor do the 5th and the 95th of the drawn p99s differ?

# %% [markdown] lang="zh"
# ### 实验 4 · p99 有多可信？
#
# 实验 1 里速率 0.6 的那次运行，用 100 个请求算出了 TTFT 的 p99。换一百个用户，还会是这个数吗？
# 从测到的 TTFT 里有放回地抽 100 个，抽一千遍，看看百分位数散得有多开。
#
# **先猜：** 抽出来的一千个 p99 里，第 5 百分位和第 95 百分位差几倍？

# %%
import random

clocked = ClockedSim(DecodeSchedulerSim(), roofline)
waits: list = [ttft(timing) for timing in clocked.run(at_rate(chat, 0.6))]
rng = random.Random(0)
draws = [rng.choices(waits, k=len(waits)) for _ in range(1000)]

head = [
    "",
    tr(en="measured (ms)", zh="实测（毫秒）"),
    tr(en="5 % to 95 % of the draws (ms)", zh="抽样的 5% 到 95%（毫秒）"),
]
rows = []
for q in (50, 95, 99):
    drawn = [percentile(draw, q) for draw in draws]
    rows.append(
        [f"p{q}", ms(percentile(waits, q)), f"{ms(percentile(drawn, 5))} … {ms(percentile(drawn, 95))}"]
    )
tell(table_text(head, rows), as_html=table_html(head, rows))

# %% [markdown] lang="en"
# The median stands still; the p99 moves by a factor of 2.7. With a hundred values it hangs on the slowest
# two. Before you believe that one scheduler's p99 beats another's, ask for more requests, or for several
# seeds. (Even this is too kind: it treats waits as independent, and users in one queue share their bad
# minutes.)
#
# **Takeaway.** A percentile is a measurement, and needs an error bar.

# %% [markdown] lang="zh"
# 中位数几乎不动，p99 却能差出 2.7 倍：一百个值的 p99，全系于最慢的那两个。别急着相信某个调度器的 p99 胜过另一个，先多要些请求，或者多换几个种子。
# （即便如此还是太客气了：这种抽法把各人的等待当成互不相干，而排在同一条队里的人，倒霉的时段是一起倒霉的。）
#
# **结论。** 百分位数是测出来的，是测量就该有误差范围。

# %% [markdown] lang="en"
# ## TODO ch02.6 · Where decode turns compute-bound
#
# *Extension: its points are counted apart, and no later chapter needs it.*
#
# Write `turning_point(roofline, context)`: the smallest batch at which a decode step is compute-bound, that
# is, at which its arithmetic takes **at least** as long as its traffic. Each of the `batch` requests has
# `context` positions, so a step is `roofline.times(batch, batch * context, batch * context)`.
#
# Both times are straight lines in the batch. Arithmetic starts at zero and is steep or not; traffic starts at
# the weights. A second request adds to both. **If it adds at least as much traffic as arithmetic, they never
# meet:** return `None`.
#
# Trying 1, 2, 3, … works only if there is an answer, and ends never if there is none. Think in slopes.

# %% [markdown] lang="zh"
# ## TODO ch02.6 · decode 从哪里开始计算受限
#
# **扩展部分**：单独计分，后面的章节用不到它。
#
# 写出 `turning_point(roofline, context)`：使一步 decode 变成计算受限的最小批大小，也就是计算的时间**不短于**访存的时间。
# `batch` 个请求各有 `context` 个位置，所以一步是 `roofline.times(batch, batch * context, batch * context)`。
#
# 两个时间都是批大小的一次函数。计算从零开始，有陡有缓；访存从权重那么高开始。多一个请求，两边各涨一截。
# **如果访存涨的不比计算少，两条线永远碰不到一起：** 返回 `None`。
#
# 从 1、2、3 一路试下去，有答案时才行得通；没有答案就永远停不下来。从斜率去想。


# %% answer="ch02-answer-6" tags=["export"]
def turning_point(roofline: Roofline, context: int) -> int | None:
    """en: The smallest batch whose decode step is compute-bound at ``context`` positions each; None if none is.
    zh: 每个请求有 ``context`` 个位置时，使 decode 步计算受限的最小批大小；不存在则为 None。
    """
    # TODO ch02.6
    # en: What one more request adds to each of the two times; the weights are what is left to make up.
    # zh: 多一个请求，两个时间各涨多少；要追上的差距就是读权重的时间。
    compute, memory = roofline.times(1, context, context)
    compute_more, memory_more = roofline.times(2, 2 * context, 2 * context)
    compute_each, memory_each = compute_more - compute, memory_more - memory
    if compute_each <= memory_each:
        return None
    weights = memory - memory_each
    return ceil(weights / (compute_each - memory_each))
    # END ch02.6


# %% [markdown] lang="en" hint="ch02.6"
# 1. Ask `roofline.times` for a batch of 1 and for a batch of 2. The differences are the slopes.
# 2. At batch B the arithmetic is B × its slope, the traffic is weights + B × its slope. Set them equal and
#    solve for B; round *up*. The weights' time is the traffic of one request less one slope.
# 3. `compute_each <= memory_each`: `return None`. Else `ceil(weights / (compute_each - memory_each))`, with
#    `weights = memory - memory_each`.

# %% [markdown] lang="zh" hint="ch02.6"
# 1. 分别问 `roofline.times` 批大小为 1 和 2 时的两个时间，相减就是两条线的斜率。
# 2. 批大小为 B 时，计算是 B × 计算斜率，访存是权重 + B × 访存斜率。令两者相等，解出 B，**向上**取整。
#    读权重的时间，等于一个请求的访存时间减去一个访存斜率。
# 3. `compute_each <= memory_each` 时 `return None`；否则 `ceil(weights / (compute_each - memory_each))`，
#    其中 `weights = memory - memory_each`。

# %% [markdown] lang="en" explain="ch02.6"
# Two lines, their crossing, rounded up. The condition for `None` comes out of the algebra: with a slope
# difference of zero or below, there is nothing to divide by.
#
# Without context the answer is nearly the *ridge* of the roof, peak FLOP/s over bandwidth (at 2 bytes a
# weight and 2 FLOPs a weight the twos cancel). Each position in the cache makes the traffic's line steeper,
# by far more than the arithmetic's.

# %% [markdown] lang="zh" explain="ch02.6"
# 两条直线，求交点，向上取整。`None` 的条件是代数自己给出来的：斜率之差为零或为负，就没有可除的数。
#
# 没有上下文时，答案差不多就是屋顶的**拐角**，即峰值算力除以带宽（每个权重 2 字节、2 FLOP，两个 2 正好约掉）。
# cache 里每多一个位置，访存那条线就陡一截，比计算那条线陡得多。

# %% check="ch02.6" points=3 level="extension"
check("ch02.6")

# %%
contexts = [0, 50, 100, 200, 300, 400, 500, 1000, 4000]
head = ["", *map(str, contexts)]
rows = []
for name, device in GPUS.items():
    priced = Roofline(MODELS["Llama-3.1-8B"], device)
    points = [turning_point(priced, context) for context in contexts]
    rows.append([name, *("-" if at is None else f"{at:,}" for at in points)])
tell(table_text(head, rows), as_html=table_html(head, rows))

# %% [markdown] lang="en"
# *The batch at which decode of Llama-3.1-8B turns compute-bound, by positions in each cache. A dash: never.*
#
# With a thousand positions each, **no batch on any of these cards makes decode compute-bound**. Weights are
# shared by a batch; KV caches are not. So two remedies are left, and the course teaches both: share the
# caches that begin alike (chapter 11), or make them smaller (chapter 13). Try `MODELS["Llama-2-7B"]`, which
# has four times as many KV heads.

# %% [markdown] lang="zh"
# 表：Llama-3.1-8B 的 decode 变成计算受限所需的批大小，按每个 cache 里的位置数排列。短横表示永远不会。
#
# 每个请求有一千个位置时，**这些卡上没有任何批大小能让 decode 变成计算受限**。权重是全批共用的，KV cache 却是各人各有一份。
# 于是只剩两条路，这门课都会教：让开头相同的 cache 共用（第 11 章），或者把 cache 变小（第 13 章）。
# 换成 `MODELS["Llama-2-7B"]` 试试，它的 KV head 是四倍。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# | | vLLM `bench serve`, commit `009e6d4` | SGLang `bench_serving`, commit `0033168` | ours |
# |---|---|---|---|
# | TPOT | (latency − TTFT) / (tokens − 1) | the same | the same |
# | one-token answer | left out of TPOT; counts as 0 for goodput | left out of TPOT | `None`; cannot miss |
# | percentiles | `numpy.percentile`, default | `numpy.percentile`, default | the same definition |
# | goodput | all limits kept, limit included, per second of the run | not in this file | the same |
#
# - **Who measures** differs more than the formulas. Both are clients: their TTFT includes network and
#   tokenizer; ours is the scheduler's own clock.
#   ([vLLM](https://github.com/vllm-project/vllm/blob/009e6d4a1cd6ba3fb2a9fc00f4ec06f5297232a1/vllm/benchmarks/serve.py),
#   [SGLang](https://github.com/sgl-project/sglang/blob/0033168f0f58b2bc05aa0273bd475d9c01bafb1c/python/sglang/bench_serving.py))
# - **TPOT and ITL**: both also report ITL, the single gaps of all requests in one heap. There long answers
#   weigh more; in TPOT each request counts once.
# - **NVIDIA AIPerf 0.7.0** defines goodput as we do: completed requests per second that meet the given
#   constraints.
#   ([tutorial](https://docs.nvidia.com/aiperf/v0.7.0/tutorials/metrics-analysis/benchmark-goodput-with-ai-perf))
# - **Goodput can be gamed.** Wang et al. show that abandoning requests which have missed their limit raises
#   it, and that holding tokens back smooths the tail of their gaps. ([arXiv
#   2410.14257](https://arxiv.org/abs/2410.14257))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# | | vLLM `bench serve`，commit `009e6d4` | SGLang `bench_serving`，commit `0033168` | 本课程 |
# |---|---|---|---|
# | TPOT | （总延迟 − TTFT）/（token 数 − 1） | 相同 | 相同 |
# | 只有一个 token 的回答 | 不计入 TPOT；算 goodput 时当作 0 | 不计入 TPOT | `None`；谈不上超限 |
# | 百分位数 | `numpy.percentile`，默认方式 | `numpy.percentile`，默认方式 | 同一定义 |
# | goodput | 各项限度都满足，含恰好相等，除以运行时长 | 该文件里没有 | 相同 |
#
# - 公式之外，**在哪儿测**差得更多。那两个都是客户端，TTFT 里含网络和分词；我们的是调度器自己的时钟。
#   （[vLLM](https://github.com/vllm-project/vllm/blob/009e6d4a1cd6ba3fb2a9fc00f4ec06f5297232a1/vllm/benchmarks/serve.py)、
#   [SGLang](https://github.com/sgl-project/sglang/blob/0033168f0f58b2bc05aa0273bd475d9c01bafb1c/python/sglang/bench_serving.py)）
# - **TPOT 和 ITL**：两者还都报告 ITL，也就是把所有请求的单个间隔倒在一起统计。那里长回答的分量更重；
#   TPOT 则是每个请求只算一次。
# - **NVIDIA AIPerf 0.7.0** 对 goodput 的定义和我们一样：每秒完成的、满足给定约束的请求数。
#   （[教程](https://docs.nvidia.com/aiperf/v0.7.0/tutorials/metrics-analysis/benchmark-goodput-with-ai-perf)）
# - **goodput 可以钻空子。** Wang 等人指出：抛弃已经超限的请求，它就会升高；把 token 压着晚点发，间隔的尾部就会变平滑。
#   （[arXiv 2410.14257](https://arxiv.org/abs/2410.14257)）

# %% [markdown] lang="en"
# ## Summary
#
# - A step takes the longer of its arithmetic and its memory traffic. The weights are read once a step,
#   however many tokens share them.
# - A lone decode step is memory-bound by a factor of hundreds; a short prefill is memory-bound too, by less.
# - TTFT, TPOT and E2E come from token times alone. Say which percentile, by which definition, of how many
#   values.
# - Goodput counts promises kept. It has a knee; throughput has none.
# - With one request a step, an order moves waiting from one user to another and makes none of it go away.
# - A tuning number without its conditions (model, card, context, promise) is a guess.

# %% [markdown] lang="zh"
# ## 小结
#
# - 一步的时间是计算和访存里较长的那个。权重每步只读一遍，不管摊给多少个 token。
# - 单独一步 decode 是访存受限的，相差几百倍；短的 prefill 也是访存受限，只是差得没那么多。
# - TTFT、TPOT、E2E 都只从 token 的时刻算出来。报百分位数时要说清：第几百分位、哪种定义、多少个值。
# - goodput 数的是兑现的承诺。它有拐点，吞吐量没有。
# - 一步只带一个请求时，换次序只是把等待从一个用户挪给另一个，一点也不会变少。
# - 调参的数字不带条件（模型、卡、上下文、承诺），就只是猜测。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **Two promises.** Repeat experiment 1 with `SLO(ttft=10, tpot=0.006)`. Which of the three orders of
#    experiment 2 wins now? Which promise would you give to a chat user, which to a program?
# 2. **Nearest rank.** Write it. For 20, 100 and 1,000 values, by how much does its p99 differ from yours?
# 3. **Half the bytes.** `replace(MODELS["Llama-3.1-8B"], bytes_per_param=1)` is the model with 8-bit weights.
#    What happens to a decode step, to a prefill of 1,000 tokens, to the turning point? Which assumption of
#    yours is doubtful here?
# 4. **No overlap.** Let `__call__` return the sum instead of the longer one. At which batch size is the
#    difference largest, and why just there?
#
# To discuss: your team's dashboard shows mean TTFT. Which single number would you put in its place, and what
# could somebody do to improve *that* number without serving anybody better?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **两种承诺。** 用 `SLO(ttft=10, tpot=0.006)` 重做实验 1。实验 2 的三种次序里，这回谁赢？
#    对聊天的用户，你会给哪种承诺？对程序呢？
# 2. **最近秩。** 把它写出来。值有 20 个、100 个、1,000 个时，它的 p99 和你的各差多少？
# 3. **字节减半。** `replace(MODELS["Llama-3.1-8B"], bytes_per_param=1)` 是权重为 8 位的模型。
#    一步 decode、1,000 个 token 的 prefill、转折点，各会怎样？你的哪条假设在这里值得怀疑？
# 4. **不重叠。** 让 `__call__` 返回两者之和，而不是较长的那个。批大小是多少时差别最大，为什么恰好在那里？
#
# 讨论：你们团队的看板上显示的是 TTFT 的平均数。你会换成哪一个数？又有什么办法能让**那个**数变好看，却没有让任何人得到更好的服务？

# %% [markdown] lang="en"
# ## What next
#
# Your metrics can now say which order is better for whom. In chapter 3 an order becomes a policy, an object
# with a key that may look at the clock, and waiting gets a bound.

# %% [markdown] lang="zh"
# ## 接下来
#
# 有了指标，就说得清哪种次序对谁更好。第 3 章里，次序变成策略：一个带排序键的对象，键可以看时钟，等待从此有了上限。
