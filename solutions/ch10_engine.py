# %% [markdown] lang="en"
# # Chapter 10 · The engine
#
# Your scheduler has decided over seconds that a formula gave it. Your decoder has computed batches that were planned by
# hand. Here they meet: users come at any time, your scheduler decides, your decoder computes, and text streams back, in
# two languages at once. Then the loop closes: you fit the formula to this machine, and the simulator foretells what the
# engine does.
#
# **Time.** Core: 90 minutes at most (five TODOs, four experiments). Extension: 30 minutes more.
#
# **You need.** Chapters 8 and 9, and a scheduler: chapter 7's, or its reference. Python generators. No GPU; where there
# is one, the experiments use it.
#
# **You leave with.** An engine with `add_request`, `step`, `stream` and `abort`. Chapters 11 to 13 make it faster and
# chapter 15 puts it behind a web server.

# %% [markdown] lang="zh"
# # 第 10 章 · 引擎
#
# 到现在为止，你的调度器用的时间是公式算出来的，你的解码器算的批是手工排的。这一章让两者见面：
# 用户随时会来，你的调度器决定，你的解码器计算，文本一点一点流回去，两种语言同时进行。最后首尾相接：
# 用这台机器的实测去拟合那个公式，再让模拟器预言引擎的表现。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，四个实验）；扩展部分再加 30 分钟。
#
# **基础。** 第 8、9 章，还有一个调度器：第 7 章你自己的，或者它的参考实现。会用 Python 生成器。
# 不需要 GPU；有的话，实验会用上。
#
# **收获。** 一个有 `add_request`、`step`、`stream` 和 `abort` 的引擎。第 11 到 13 章让它更快，
# 第 15 章把它放到网络服务后面。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. A plan has `scheduled`, `start` and `block_tables`. What does each say?
# 2. A prompt of ten tokens is computed in chunks of four. After which step does its request get a token?
# 3. `def f(): yield 1; print("here"); yield 2`. When is "here" printed?
#
# For 1 and 2 see [chapter 7](./ch07_chunked_prefill.ipynb) and [the contract](../../docs/contract.md); for 3 try it.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 计划里有 `scheduled`、`start` 和 `block_tables`，各说的是什么？
# 2. 十个 token 的提示词，每步算四个。哪一步之后，这个请求得到一个 token？
# 3. `def f(): yield 1; print("here"); yield 2`，“here” 在什么时候打印出来？
#
# 第 1、2 题见[第 7 章](./ch07_chunked_prefill.ipynb)和[契约](../../docs/contract.zh.md)，第 3 题试一试就知道。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch10", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# Eight users, a prompt and 64 tokens each, all there from the start. Chapter 8's `generate` serves one after the other:
#
# | passes of the model until | one after the other | all in one batch |
# |---|---|---|
# | the first user's first token | 1 | 1 |
# | the eighth user's first token | 449 | 1 |
# | everybody is done | 512 | 64 |
#
# *By the roofline a pass of one row takes as long as a pass of eight: both read all the weights. On a CPU eight rows take
# longer, but far less than eight times as long (chapter 9).*
#
# In chapter 9 the batch was made by hand. But users come in the middle, leave in the middle, want to see each word at
# once, and do not know of each other. Whoever stands between them and the scheduler is the engine.

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 八个用户，每人一段提示词，各要 64 个 token，一开始就都到了。第 8 章的 `generate` 只能一个接一个地服务：
#
# | 到这时模型算了几次 | 一个接一个 | 全在一批里 |
# |---|---|---|
# | 第一个用户的首 token | 1 | 1 |
# | 第八个用户的首 token | 449 | 1 |
# | 全部完成 | 512 | 64 |
#
# 按 roofline，算一行和算八行用的时间一样：都要把权重读一遍。在 CPU 上八行要久一些，但远远不到八倍（第 9 章）。
#
# 第 9 章的批是手工排的。可是用户会中途来、中途走，每出一个词都想马上看到，彼此又互不相识。
# 站在他们和调度器之间的，就是引擎。

# %% [markdown] lang="en"
# ## The idea: one loop, and users around it
#
# ```text
#   add_request -->  scheduler.add_request, executor.begin          may refuse
#
#                    +--------------- step ----------------+
#                    |  plan   = scheduler.schedule        |        chapters 3 to 7
#                    |  tokens = executor.execute(plan)    |        chapters 8 and 9
#                    |  scheduler.update(plan, tokens)     |
#                    |  tokens -> outputs -> text          |
#                    +-------------------------------------+
#
#   stream      <--  outputs[id].text, as far as it is safe
#   abort       -->  scheduler.abort, executor.end
# ```
#
# *The engine decides nothing and computes nothing. It carries.*
#
# It is the loop of chapter 4 with two differences. Its executor is real, so tokens have a meaning and become text. And
# nobody knows the workload in advance: between any two steps somebody may come or go.
#
# Two parts, then: an **executor** that turns a plan into tokens (TODO 1), and an **engine** around it (TODOs 2 to 4).

# %% [markdown] lang="zh"
# ## 想法：一个循环，周围是用户
#
# ```text
#   add_request -->  scheduler.add_request, executor.begin          may refuse
#
#                    +--------------- step ----------------+
#                    |  plan   = scheduler.schedule        |        chapters 3 to 7
#                    |  tokens = executor.execute(plan)    |        chapters 8 and 9
#                    |  scheduler.update(plan, tokens)     |
#                    |  tokens -> outputs -> text          |
#                    +-------------------------------------+
#
#   stream      <--  outputs[id].text, as far as it is safe
#   abort       -->  scheduler.abort, executor.end
# ```
#
# 图：引擎什么也不决定，什么也不计算，它只管传递。
#
# 这还是第 4 章的循环，只有两处不同。执行器是真的，所以 token 有了意义，会变成文本。
# 而且谁也不能预先知道负载：任何两步之间，都可能有人来、有人走。
#
# 所以要写两部分：把计划变成 token 的**执行器**（TODO 1），和它外面的**引擎**（TODO 2 到 4）。

# %% [markdown] lang="en"
# ## Given: what earlier chapters made
#
# `forward_batch`, `pack`, `PagedKV` and `sample_batch` are chapter 9's, `Seeds` and `visible` chapter 8's: your own where
# they pass. `counts` is what a cost model wants to know of a step.

# %% [markdown] lang="zh"
# ## 已经写好的：前面几章的成果
#
# `forward_batch`、`pack`、`PagedKV` 和 `sample_batch` 来自第 9 章，`Seeds` 和 `visible` 来自第 8 章：
# 你的通过了，用的就是你的。`counts` 是成本模型要问一步的三个数。

# %% tags=["export"]
import itertools
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import torch

from decodelab import chapter
from decodelab.contract import Plan, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.request import Job, Request, RequestId, Sampling
from decodelab.run import IDLE_STEPS, Step, WallClock
from decodelab.timings import Timings

ch02, ch08, ch09 = chapter("ch02"), chapter("ch08"), chapter("ch09")
PagedKV, pack, forward_batch, sample_batch = ch09.PagedKV, ch09.pack, ch09.forward_batch, ch09.sample_batch
Seeds, visible = ch08.Seeds, ch08.visible
GREEDY = Sampling()


def counts(plan: Plan) -> tuple[int, int, int]:
    """en: What a cost model asks of a step: new tokens, tokens in the cache after it, query-key pairs.
    zh: 成本模型要问一步的三个数：新 token、算完后 cache 里的 token、query 与 key 的配对数。
    """
    spans = [(count, plan.start[i] + count) for i, count in plan.scheduled.items()]
    pairs = sum(count * (2 * end - count + 1) // 2 for count, end in spans)
    return sum(count for count, _ in spans), sum(end for _, end in spans), pairs


# %% answer="ch10-answer" tags=["export"]
class TorchExecutor:
    """en: Runs plans on a real decoder; ``num_blocks`` blocks on its device, ``host_blocks`` beside them.
    zh: 在真正的解码器上执行计划；设备上有 ``num_blocks`` 块，主机上另有 ``host_blocks`` 块。
    """

    def __init__(
        self,
        decoder,
        num_blocks: int,
        block_size: int,
        host_blocks: int = 0,
        cost: Callable[[int, int, int], float] | None = None,
        fixed_ends: bool = False,
        attention=None,
    ) -> None:
        self.decoder, self.block_size, self.cost, self.fixed_ends = decoder, block_size, cost, fixed_ends
        config, dtype, self.device = decoder.config, decoder.embedding.dtype, decoder.embedding.device
        self.vocab = config.vocab
        self.kv = PagedKV(config, num_blocks, block_size, dtype, self.device, attention)
        self.host = PagedKV(config, host_blocks, block_size, dtype, "cpu")
        self.jobs: dict[RequestId, Job] = {}
        self.sequences: dict[RequestId, list[int]] = {}  # prompt and answer so far
        self.tables: dict[RequestId, list[int]] = {}
        self.generators: dict[RequestId, torch.Generator] = {}

    def begin(self, job: Job) -> None:
        """en: A request was taken in. One without prompt ids gets random ones, always the same for its id.
        zh: 收下了一个请求。没有给出提示词 id 的，按请求的 id 随机生成，每次都一样。
        """
        request_id, prompt = job.request.request_id, list(job.request.prompt)
        if not prompt:
            drawn = random.Random(f"{request_id}")
            prompt = [drawn.randrange(self.decoder.config.vocab) for _ in range(job.request.prompt_len)]
        self.jobs[request_id], self.sequences[request_id] = job, prompt
        if job.sampling.temperature:
            self.generators[request_id] = Seeds(job.sampling.seed).generator(request_id)

    def end(self, request_id: RequestId) -> None:
        """en: A request is over; nothing is kept of it.
        zh: 一个请求结束了，什么都不留。
        """
        for kept in (self.jobs, self.sequences, self.tables, self.generators):
            kept.pop(request_id, None)

    @torch.inference_mode()
    def execute(self, plan: Plan) -> tuple[dict, float]:
        """en: Run one step: the tokens generated, by request, and its seconds.
        zh: 执行一步：每个请求生成的 token，以及用了多少秒。
        """
        began, tokens = perf_counter(), {}
        if plan.swap_out or plan.swap_in or plan.copy:
            move_blocks(plan, self.kv, self.host)
        # TODO ch10.1
        # en: Note the tables; pack, forward_batch; for who is computed to its last token: choose, keep, return.
        # zh: 记下块表；pack、forward_batch；谁算到了自己最后一个 token，就为谁 choose，记下，返回。
        self.tables.update(plan.block_tables)
        if plan.scheduled:
            batch = pack(plan, self.sequences, self.tables, self.block_size, self.device)
            logits = forward_batch(self.decoder, self.kv, batch)
            known = [len(self.sequences[i]) for i in batch.request_ids]
            ready = [n for n, end in enumerate(batch.seq_lens) if end == known[n]]
            ids = [batch.request_ids[n] for n in ready]
            for request_id, token in zip(ids, self.choose(ids, logits[ready]), strict=True):
                self.sequences[request_id].append(token)
                tokens[request_id] = [token]
        # END ch10.1
        return tokens, self.seconds(plan, began)

    def choose(self, ids: list, logits: torch.Tensor) -> list[int]:
        """en: The next token of each request, from its row of logits, drawn as the request wants it.
        zh: 按每个请求自己的要求，从它那一行 logits 里选出下一个 token。
        """
        wanted = [self.jobs[i].sampling for i in ids]
        temperatures, top_ps = [s.temperature for s in wanted], [s.top_p for s in wanted]
        tokens = sample_batch(logits.float(), temperatures, top_ps, [self.generators.get(i) for i in ids])
        return [self.fixed(i, t) for i, t in zip(ids, tokens, strict=True)] if self.fixed_ends else tokens

    def fixed(self, request_id: RequestId, token: int) -> int:
        """en: The token with the end where the workload put it: a stop token at ``stop_at``, and at no other place.
        zh: 让回答在负载规定的地方结束：停止 token 恰好出现在 ``stop_at``，别处都不出现。
        """
        job = self.jobs[request_id]
        stops = job.request.stop_token_ids
        if job.stop_at == len(self.sequences[request_id]) - job.request.prompt_len:
            return stops[0]
        return next(t for t in itertools.count() if t not in stops) if token in stops else token

    def seconds(self, plan: Plan, began: float) -> float:
        """en: How long the step took: by the cost model where there is one, else by the clock.
        zh: 这一步用了多久：有成本模型就按它算，没有就看表。
        """
        if self.cost:
            return self.cost(*counts(plan)) if plan.scheduled else 0.0
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return perf_counter() - began


# %% [markdown] lang="en"
# ## TODO ch10.1 · A plan becomes tokens
#
# Fill in the middle of `execute`. `self.sequences[id]` are all token ids of a request so far, prompt and answer;
# `self.tables[id]` are its blocks. What moves blocks about is done already, above your lines.
#
# - A plan tells the table of a request only where it has changed. Those of earlier plans still hold.
# - A plan that schedules nobody computes nothing; there are no tokens.
# - Else **one pass** computes the whole plan: `pack(plan, self.sequences, self.tables, self.block_size, self.device)` gives
#   the batch, and `forward_batch(self.decoder, self.kv, batch)` a row of logits for each request, in the order of
#   `batch.request_ids`.
# - A request gets a token if the step computes up to its **last known token**: its `batch.seq_lens` is then the length
#   of its sequence. One in the middle of a prompt gets none. Nor does one that was preempted and computes its old
#   answer again, until it has caught up.
# - `self.choose(ids, rows)` draws the next token for each of `ids` from its row. Append it to the sequence, for it is
#   part of what will be computed next, and put it into `tokens` as `[token]`.

# %% [markdown] lang="zh"
# ## TODO ch10.1 · 从计划到 token
#
# 补全 `execute` 中间那一段。`self.sequences[id]` 是一个请求到目前为止的全部 token id，提示词和回答都在内；
# `self.tables[id]` 是它的块表。要搬的块，前面的代码已经搬好了。
#
# - 块表变了，计划才会说；没说的，沿用以前的。
# - 没有安排任何请求的计划，什么也不算，也没有 token。
# - 否则，整个计划**只算一次**：`pack(plan, self.sequences, self.tables, self.block_size, self.device)` 给出批，
#   `forward_batch(self.decoder, self.kv, batch)` 给每个请求一行 logits，次序同 `batch.request_ids`。
# - 这一步算到了请求**已知的最后一个 token**，它才得到新的 token：这时它的 `batch.seq_lens` 正好等于序列的长度。
#   提示词才算到一半的，没有。被抢占以后把旧的回答重算一遍的，追上之前也没有。
# - `self.choose(ids, rows)` 按 `ids` 各自的一行抽出下一个 token。把它接到序列末尾，因为接下来要算的就有它；
#   再以 `[token]` 的形式放进 `tokens`。

# %% [markdown] lang="en" hint="ch10.1"
# 1. Four stages: tables; a pass; who is ready; for each of those one token. Only the third needs thought: compare two
#    numbers.
# 2. A dict takes in another with `update`. Ready are the places `n` of the batch with
#    `batch.seq_lens[n] == len(self.sequences[batch.request_ids[n]])`. Logits can be indexed by a list of rows.
# 3. With `ready` as that list and `ids = [batch.request_ids[n] for n in ready]`: for each `request_id, token` of
#    `zip(ids, self.choose(ids, logits[ready]))` append to `self.sequences[request_id]`, and `tokens[request_id] =
#    [token]`.

# %% [markdown] lang="zh" hint="ch10.1"
# 1. 分四步：块表；算一次；看谁好了；给每个好了的一个 token。只有第三步要想一想：比两个数。
# 2. 一个 dict 用 `update` 收下另一个。好了的，是批里满足 `batch.seq_lens[n] == len(self.sequences[batch.request_ids[n]])`
#    的那些 `n`。logits 可以用一个行号的列表来索引。
# 3. 把这个列表叫作 `ready`，`ids = [batch.request_ids[n] for n in ready]`；对 `zip(ids, self.choose(ids, logits[ready]))` 里的每一对
#    `request_id, token`：接到 `self.sequences[request_id]` 末尾，并且 `tokens[request_id] = [token]`。

# %% [markdown] lang="en" explain="ch10.1"
# Nothing here asks whether a request is in prefill, in decode, or back from a preemption. "Up to its last known token"
# covers all three, as it did in chapter 8's loop, and as it will when a draft adds several tokens at once (chapter 12).
#
# `forward_batch` computes logits for requests that are not ready, too, and throws them away: a row of the last matrix for
# each. Leaving them out would save that and cost a gather.

# %% [markdown] lang="zh" explain="ch10.1"
# 这里从不问一个请求是在预填充、在解码，还是被抢占后回来。“算到已知的最后一个 token”一句话管住三种情况：
# 第 8 章的循环是这样，以后草稿一次加进好几个 token（第 12 章）也是这样。
#
# 没好的请求，`forward_batch` 也给它们算了 logits，然后丢掉：每个多算最后一个矩阵的一行。
# 要省掉它，就得多做一次 gather。

# %% check="ch10.1" points=3 level="core"
check("ch10.1")


# %% [markdown] lang="en"
# ## The engine
#
# First what it keeps for each request, given. Then the engine; TODOs 2, 3 and 4 are its three holes.

# %% [markdown] lang="zh"
# ## 引擎
#
# 先是它为每个请求记着的东西，已经写好。然后是引擎本身，TODO 2、3、4 是其中的三个空。


# %% tags=["export"]
NO_TOKENIZER = both(
    en="This engine has no tokenizer: give the prompt as a list of token ids, or make the Engine with tokenizer=….",
    zh="这个引擎没有 tokenizer：请用 token id 的列表作提示词，或者在创建 Engine 时给出 tokenizer=……。",
)
NO_TOKEN = both(
    en="The prompt has a token id that the model does not have: give ids from 0 to its vocabulary's size less one.",
    zh="提示词里有模型没有的 token id：请给出从 0 到词表大小减一的 id。",
)


def stuck(active: Collection[RequestId]) -> dict[str, str]:
    """en: What to say where nothing is scheduled any more.
    zh: 再也没有请求被调度时说的话。
    """
    names = ", ".join(map(str, list(active)[:8]))
    return both(
        en=f"schedule() has returned {IDLE_STEPS} empty plans in a row while these requests wait: {names}. "
        "Schedule them, or refuse in add_request what can never fit.",
        zh=f"schedule() 接连返回了 {IDLE_STEPS} 个空计划，而这些请求还在等：{names}。"
        "请调度它们；永远放不下的请求，应当在 add_request 里拒绝。",
    )


@dataclass
class Output:
    """en: What a request has got so far; ``reason`` is None while it goes on.
    zh: 一个请求到目前为止得到了什么；还没结束时 ``reason`` 是 None。
    """

    prompt: tuple[int, ...]
    stop: tuple[str, ...] = ()
    token_ids: list[int] = field(default_factory=list)
    text: str = ""  # safe to show: never taken back
    reason: str | None = None  # "stop", "length", "aborted", or why the scheduler dropped it

    def show(self, text: str) -> None:
        """en: ``text`` is safe, too; one that is shorter than what was shown changes nothing.
        zh: ``text`` 也可以显示了；比已经显示的还短，就什么都不改。
        """
        self.text = max(self.text, text, key=len)


# %% answer="ch10-answer-2" tags=["export"]
class Engine:
    """en: Serves requests that come at any time: a scheduler decides, an executor computes; tokens become text.
    zh: 服务随时到来的请求：调度器决定，执行器计算，token 变成文本。
    """

    def __init__(self, scheduler, executor, tokenizer=None, clock=None) -> None:
        self.scheduler, self.executor, self.tokenizer = scheduler, executor, tokenizer
        self.clock = clock or WallClock()
        self.outputs: dict[RequestId, Output] = {}
        self.active: set[RequestId] = set()
        self.steps: list[Step] = []
        self.timings = Timings()
        self.arrived: list[Request] = []  # since the last step
        self.aborted: list[RequestId] = []
        self.idle = 0  # steps without work, one after the other

    def add_request(
        self,
        prompt: str | list[int],
        max_new_tokens: int = 64,
        *,
        request_id: int | str | None = None,
        priority: int = 0,
        sampling: Sampling = GREEDY,
        stop_token_ids: tuple[int, ...] = (),
    ) -> RequestId:
        """en: Take in a request, its prompt as text or token ids; returns its id. Refused leaves everything as it was.
        zh: 收下一个请求，提示词可以是文本或 token id；返回它的 id。抛 Refused 时什么都不改。
        """
        if request_id is None:
            request_id = next(i for i in itertools.count(len(self.outputs)) if i not in self.outputs)
        ids = tuple(self.encoded(prompt) if isinstance(prompt, str) else prompt)
        if not all(0 <= token < getattr(self.executor, "vocab", token + 1) for token in ids):
            raise DecodeLabError(NO_TOKEN)  # here, for in the middle of a batch it would be everybody's
        self.clock.reads()
        request = Request(
            request_id,
            self.clock.now,
            len(ids),
            max_new_tokens,
            priority,
            prompt=ids,
            stop_token_ids=tuple(stop_token_ids),
        )
        self.submit(Job(request, sampling=sampling))
        return request_id

    def submit(self, job: Job) -> None:
        """en: Take in a request that is made already. Refused leaves everything as it was.
        zh: 收下一个已经造好的请求。抛 Refused 时什么都不改。
        """
        request = job.request
        # TODO ch10.2
        # en: Scheduler first, it may refuse; then the executor, an Output, active, arrived.
        # zh: 先问调度器，它可能不收；然后是执行器、一个 Output、active、arrived。
        self.scheduler.add_request(request, self.clock.now)
        self.executor.begin(job)
        self.outputs[request.request_id] = Output(request.prompt, job.sampling.stop)
        self.active.add(request.request_id)
        self.arrived.append(request)
        # END ch10.2

    def abort(self, request_id: RequestId) -> None:
        """en: Forget a request at once; an unknown one, or one that is over, is ignored.
        zh: 立刻忘掉一个请求；不认识的、已经结束的，不理会。
        """
        if request_id in self.active:
            self.clock.reads()
            self.scheduler.abort(request_id, self.clock.now)
            self.aborted.append(request_id)
            self.end(request_id, "aborted")

    def end(self, request_id: RequestId, reason: str) -> None:
        """en: A request is over; its scheduler knows.
        zh: 一个请求结束了；调度器已经知道。
        """
        self.active.discard(request_id)
        self.executor.end(request_id)
        self.outputs[request_id].reason = reason

    def step(self) -> Step | None:
        """en: Let everybody make one step; None where nobody is there and nothing has happened.
        zh: 所有请求一起走一步；没有请求、也没有发生过什么，就返回 None。
        """
        if not (self.active or self.arrived or self.aborted):
            return None
        clock, scheduler, executor = self.clock, self.scheduler, self.executor
        clock.reads()
        step = Step(getattr(clock, "step", len(self.steps)), clock.now, self.arrived, {}, self.aborted)
        self.arrived, self.aborted = [], []
        plan = scheduler.schedule(clock.now)
        step.plan, step.scheduled = plan, scheduler.state()
        # TODO ch10.3
        # en: execute, tick, update, all kept in step; tokens to their outputs, text that is safe; end who is over.
        # zh: execute、tick、update，结果都记在 step 里；token 归入各自的 output，显示安全的文本；送走结束的。
        step.tokens, seconds = executor.execute(plan)
        clock.tick(seconds)
        step.finished = scheduler.update(plan, step.tokens, clock.now)
        for request_id, tokens in step.tokens.items():
            output = self.outputs[request_id]
            output.token_ids += tokens
            text = self.decoded(output).rstrip("\ufffd")
            shown, over = visible(text, output.stop)
            if over:
                scheduler.abort(request_id, clock.now)
                step.finished[request_id] = "stop"
            output.show(shown if over or request_id not in step.finished else text)
        for request_id, reason in (plan.dropped | step.finished).items():
            self.end(request_id, reason)
        # END ch10.3
        step.end, step.updated = clock.now, scheduler.state()
        self.steps.append(step)
        self.timings.see(step)
        self.idle = 0 if plan.scheduled or not self.active else self.idle + 1
        if self.idle >= IDLE_STEPS:
            raise DecodeLabError(stuck(self.active))
        return step

    def stream(self, request_id: RequestId) -> Iterator[str]:
        """en: The request's text, piece by piece as it becomes safe; makes steps while there is nothing new.
        zh: 这个请求的文本，能显示一点就给一点；没有新的就让引擎走一步。
        """
        output, sent = self.outputs[request_id], 0
        # TODO ch10.4
        # en: Yield what is new; where nothing is: return when it is over, else make a step.
        # zh: 有新的就产出；没有的话：结束了就返回，没结束就走一步。
        while True:
            new = output.text[sent:]
            sent += len(new)
            if new:
                yield new
            elif output.reason:
                return
            else:
                self.step()
        # END ch10.4

    def encoded(self, prompt: str) -> list[int]:
        """en: The token ids of a text.
        zh: 一段文本的 token id。
        """
        if self.tokenizer is None:
            raise DecodeLabError(NO_TOKENIZER)
        return self.tokenizer.encode(prompt)

    def decoded(self, output: Output) -> str:
        """en: The text of an answer, perhaps with half a character (``\\ufffd``) at its end; "" without a tokenizer.
        zh: 一个回答的文本，末尾可能有半个字（``\\ufffd``）；没有 tokenizer 就是空文本。
        """
        if self.tokenizer is None:
            return ""
        before = list(output.prompt[-8:])  # an answer's first space is lost without what it follows
        return self.tokenizer.decode(before + output.token_ids)[len(self.tokenizer.decode(before)) :]

    def stats(self) -> dict:
        """en: Queues and free blocks now; tokens, seconds and median latencies (seconds) so far.
        zh: 现在的队列和空闲块；到目前为止的 token 数、秒数和延迟中位数（秒）。
        """
        state, done = self.scheduler.state(), [t for t in self.timings if t.reason in ("stop", "length")]
        seconds = self.steps[-1].end - self.steps[0].start if self.steps else 0.0
        tokens = sum(len(output.token_ids) for output in self.outputs.values())
        told = {
            "running": len(state.running),
            "waiting": len(state.waiting),
            "free_blocks": state.free_blocks,
            "finished": len(done),
            "aborted": sum(output.reason == "aborted" for output in self.outputs.values()),
            "tokens": tokens,
            "seconds": seconds,
            "tokens_per_second": tokens / seconds if seconds else 0.0,
        }
        for name in ("ttft", "tpot", "e2e"):
            values = [value for t in done if (value := getattr(ch02, name)(t)) is not None]
            told[name] = ch02.percentile(values, 50) if values else None
        return told


# %% [markdown] lang="en"
# ## TODO ch10.2 · Come in
#
# Fill in `submit`. A `job` is a request and what only the engine's side needs: how to sample, which text ends it.
#
# - The scheduler is asked first, with the time `self.clock.now`. It may raise `Refused`: let it through, and leave
#   everything as it was. No output, nothing at the executor, nothing in the log.
# - Then the executor is told: `begin(job)`.
# - `self.outputs[id]` becomes a new `Output(request.prompt, job.sampling.stop)`, and the id joins `self.active`, a set.
# - `self.arrived` lists the requests that came since the last step (requests, not jobs); the next step takes that list
#   along.
#
# How a request leaves is written already: read `abort` and `end` before you go on.

# %% [markdown] lang="zh"
# ## TODO ch10.2 · 请进
#
# 补全 `submit`。`job` 是请求本身，加上只有引擎这边才要知道的事：怎样抽样，什么文本让它结束。
#
# - 先问调度器，时刻是 `self.clock.now`。它可能抛出 `Refused`：让它原样抛出去，一切保持原样。
#   没有 output，执行器那里没有它，日志里也没有。
# - 然后告诉执行器：`begin(job)`。
# - `self.outputs[id]` 是一个新的 `Output(request.prompt, job.sampling.stop)`；id 加入集合 `self.active`。
# - `self.arrived` 记着上一步之后来的请求（请求本身，不是 job），下一步会把这个列表带走。
#
# 请求怎样离开，已经写好了：接着往下之前，先读一读 `abort` 和 `end`。

# %% [markdown] lang="en" hint="ch10.2"
# 1. Five lines, one for each party: scheduler, executor, outputs, active, arrived. Only the place of the first matters.
# 2. What may raise comes before what would have to be undone. There is nothing to catch.
# 3. `self.scheduler.add_request(request, self.clock.now)` first; then `begin`, `Output(…)` at `request.request_id`,
#    `active.add`, `arrived.append(request)`.

# %% [markdown] lang="zh" hint="ch10.2"
# 1. 五行，每一方一行：调度器、执行器、outputs、active、arrived。只有第一行的位置要紧。
# 2. 可能抛异常的，放在做了就得撤销的前面。不需要捕获什么。
# 3. 先 `self.scheduler.add_request(request, self.clock.now)`；然后 `begin`、把 `Output(…)` 放到 `request.request_id` 名下、
#    `active.add`、`arrived.append(request)`。

# %% [markdown] lang="en" explain="ch10.2"
# Ask first, act afterwards: then a refusal needs no clean-up, and there is no path on which the clean-up is forgotten.
# vLLM (commit `001999d`) has it the other way round, its output processor learns of a request before the core does; an
# input processor has looked at the request before either.

# %% [markdown] lang="zh" explain="ch10.2"
# 先问，后做：这样拒绝就不需要清理，也就不会在哪条路上忘了清理。vLLM（commit `001999d`）的次序反过来，输出处理器比核心先知道一个请求；
# 在两者之前，输入处理器已经看过这个请求。

# %% check="ch10.2" points=3 level="core"
check("ch10.2")

# %% [markdown] lang="en"
# ## TODO ch10.3 · One step
#
# Fill in the heart of `step`. The plan is there.
#
# - `executor.execute(plan)` gives tokens and seconds; the tokens belong into `step.tokens`. Then `clock.tick(seconds)`,
#   and then `scheduler.update(plan, tokens, clock.now)`: what it returns, who ended and why, is `step.finished`.
# - Each request's new tokens are added to its output's `token_ids`, the last one too. Yours come one at a time; chapter
#   12's executor gives several at once.
# - Its text: `self.decoded(output)` is everything so far. Half a character at its end (`"\ufffd"`, perhaps several) is
#   not shown. `visible(text, output.stop)` says what of it is safe, and whether a stop string is there.
# - A stop string ends a request, though the scheduler knows nothing of text: tell it by `scheduler.abort(id,
#   clock.now)`, which ignores whoever is over already, and put `"stop"` into `step.finished`.
# - `output.show(…)` what is safe. It never takes anything back, and must not: where tokens are single bytes, a new one
#   can break a whole character for a step or two. Where the request is over without a stop string, show everything:
#   nothing more will come that could complete one.
# - Whoever is in `step.finished`, and whoever the scheduler itself gave up (`plan.dropped`, with a reason), leaves by
#   `self.end(id, reason)`.

# %% [markdown] lang="zh"
# ## TODO ch10.3 · 走一步
#
# 补全 `step` 的核心。计划已经在手。
#
# - `executor.execute(plan)` 给出 token 和秒数；token 记进 `step.tokens`。然后 `clock.tick(seconds)`，再
#   `scheduler.update(plan, tokens, clock.now)`：它返回谁结束了、为什么，记进 `step.finished`。
# - 每个请求的新 token 接到它的 output 的 `token_ids` 后面，最后一个也不例外。你的执行器一次给一个，第 12 章的会一次给几个。
# - 文本：`self.decoded(output)` 是到目前为止的全部。末尾的半个字（`"\ufffd"`，可能有好几个）不显示。
#   `visible(text, output.stop)` 说出哪些可以安全显示，停止串有没有出现。
# - 停止串会让请求结束，可是调度器不懂文本：用 `scheduler.abort(id, clock.now)` 告诉它（已经结束的它会忽略），
#   并在 `step.finished` 里记上 `"stop"`。
# - 用 `output.show(…)` 显示安全的部分。它从不收回，也不该收回：token 是单个字节时，新来的一个会让前面完整的字暂时变坏，
#   过一两步才复原。如果请求已经结束、又不是因为停止串，就全部显示：后面不会再来什么去凑成停止串了。
# - `step.finished` 里的，还有被调度器自己放弃的（`plan.dropped`，带着原因），都用 `self.end(id, reason)` 送走。

# %% [markdown] lang="en" hint="ch10.3"
# 1. Three lines for executor, clock and scheduler; a loop over `step.tokens` for outputs and text; a loop over whoever
#    is over. The second loop may add to `step.finished`, so the third comes last.
# 2. `text.rstrip("\ufffd")` takes half characters off. Of what `visible` returns, `shown` and `over`, show `shown`
#    while the request goes on or when it is `over`; else the whole text. Two dicts are joined by `plan.dropped |
#    step.finished`.
# 3. In the loop: `output.token_ids += tokens`; `text = self.decoded(output).rstrip("\ufffd")`; `shown, over =
#    visible(text, output.stop)`; if `over`: abort at the scheduler and `step.finished[request_id] = "stop"`;
#    `output.show(shown if over or request_id not in step.finished else text)`.

# %% [markdown] lang="zh" hint="ch10.3"
# 1. 执行器、时钟、调度器，三行；对 `step.tokens` 循环，管 output 和文本；再对结束的循环一遍。
#    第二个循环可能往 `step.finished` 里加人，所以第三个放在最后。
# 2. `text.rstrip("\ufffd")` 去掉半个字。`visible` 返回 `shown` 和 `over`：请求还没结束，或者 `over`，就显示 `shown`；
#    否则显示整段文本。两个 dict 用 `plan.dropped | step.finished` 合在一起。
# 3. 循环里：`output.token_ids += tokens`；`text = self.decoded(output).rstrip("\ufffd")`；`shown, over = visible(text, output.stop)`；
#    如果 `over`：对调度器 abort，并且 `step.finished[request_id] = "stop"`；最后 `output.show(shown if over or request_id not in step.finished else text)`。

# %% [markdown] lang="en" explain="ch10.3"
# `update` before text, because the scheduler's answer says whether text may still come. Then the stop string overrules
# it: a request that reached its length with the last letter of a stop string ended by "stop".
#
# The token that completed the stop string has been drawn, and nobody will compute its keys. The blocks come back by
# `abort`, in the same step. An engine that forgets it works in every demo and runs out of memory on the second day.
#
# `output.show` takes nothing back. With the embedded model's tokenizer it must not: there a run of byte tokens that is
# not complete yet turns a character that was complete before into replacement characters, for a step.

# %% [markdown] lang="zh" explain="ch10.3"
# 先 `update`，后文本，因为调度器的回答说出了后面还会不会有文本。然后停止串可以推翻它：
# 达到长度上限的那个 token，恰好凑齐停止串，那就算 "stop"。
#
# 凑齐停止串的那个 token 已经抽出来了，它的 key 不会再有人去算。靠 `abort`，块在同一步里就还回来。
# 忘了这一句的引擎，演示起来样样正常，第二天就耗尽显存。
#
# `output.show` 从不往回收。对自带小模型的 tokenizer 来说，也绝不能收：一串字节 token 还没凑齐时，
# 前面本来完整的字，会暂时也变成替换字符，过一步才复原。

# %% check="ch10.3" points=3 level="core"
check("ch10.3")

# %% [markdown] lang="en"
# ## TODO ch10.4 · Text as it comes
#
# Fill in `stream`: a generator of one request's text, in pieces. `sent` counts the characters given so far.
#
# - Is there text that was not given yet? Give it, and count it.
# - Else, is the request over? Return.
# - Else make a step, which serves **everybody**, and look again.
#
# Between two pieces anything may happen: another stream makes steps, somebody aborts this request. So look at `output`
# anew each time, and count what you give *before* you give it away: `yield` hands over control, and when it comes back
# the text may be longer.

# %% [markdown] lang="zh"
# ## TODO ch10.4 · 来一点，给一点
#
# 补全 `stream`：一个生成器，把一个请求的文本一段一段地给出来。`sent` 记着已经给了多少个字符。
#
# - 有还没给的文本吗？给出去，记上数。
# - 没有的话，请求结束了吗？那就返回。
# - 还没结束，就走一步（这一步服务的是**所有人**），再看。
#
# 两段之间什么都可能发生：别的 stream 走了几步，有人取消了这个请求。所以每次都要重新看 `output`；
# 而且要**先**记数再给：`yield` 会把控制权交出去，等它回来，文本也许又变长了。

# %% [markdown] lang="en" hint="ch10.4"
# 1. An endless loop with three cases, in the order of the text.
# 2. What is new is `output.text[sent:]`. `output.reason` is None while the request goes on. `self.step()` makes a step.
# 3. `new = output.text[sent:]`; `sent += len(new)`; if `new`: `yield new`; elif `output.reason`: `return`; else
#    `self.step()`.

# %% [markdown] lang="zh" hint="ch10.4"
# 1. 一个无限循环，里面三种情况，次序和正文一样。
# 2. 新的部分是 `output.text[sent:]`。请求没结束时 `output.reason` 是 None。`self.step()` 走一步。
# 3. `new = output.text[sent:]`；`sent += len(new)`；有 `new` 就 `yield new`；否则如果 `output.reason` 就 `return`；再否则 `self.step()`。

# %% [markdown] lang="en" explain="ch10.4"
# Nobody owns the loop: whoever wants to read drives it, and by doing so drives it for all. That is enough for one
# thread, and it makes tests simple. A server turns it round: a task of its own makes the steps, and streams wait for
# news (chapter 15).

# %% [markdown] lang="zh" explain="ch10.4"
# 循环不归谁所有：谁想读，谁就推着它走，同时也替所有人推。对单线程来说够了，测试也简单。
# 服务器会反过来：由一个专门的任务走步，各个 stream 等消息（第 15 章）。

# %% check="ch10.4" points=2 level="core"
check("ch10.4")


# %% [markdown] lang="en"
# ## Given: what a step's time is made of

# %% [markdown] lang="zh"
# ## 已经写好的：一步的时间由什么组成

# %% tags=["export"]
BENDS = (1, 8, 16, 32, 64, 128, 256, 512)  # new tokens


def features(new_tokens, kv_tokens, pairs) -> np.ndarray:
    """en: What a step's time is made of, a row a step: a constant, the new tokens between any two BENDS, the rest.
    zh: 一步的时间由什么组成，一步一行：常数、落在 BENDS 每一段里的新 token 数，以及另外两个数。
    """
    new_tokens = np.asarray(new_tokens, float)
    pieces = [np.clip(new_tokens, low, high) - low for low, high in itertools.pairwise((*BENDS, np.inf))]
    return np.stack(
        [np.ones_like(new_tokens), *pieces, np.asarray(kv_tokens, float), np.asarray(pairs, float)], -1
    )


# %% answer="ch10-answer-3" tags=["export"]
def fit(samples: list[tuple[int, int, int, float]]) -> Callable[[int, int, int], float]:
    """en: A cost model from measured steps (new_tokens, kv_tokens, pairs, seconds).
    zh: 由实测的各步（new_tokens、kv_tokens、pairs、秒）得到成本模型。
    """
    # TODO ch10.5
    # en: Least squares, each row divided by its seconds; drop what is below zero; then divide by what is expected.
    # zh: 最小二乘，每行除以它的秒数；去掉小于零的；再改为除以预计的秒数。
    data = np.array(samples, float)
    rows, seconds = features(*data[:, :3].T), data[:, 3]
    scale = rows.max(0) + 1e-300
    used, expected, rounds = list(range(len(scale))), seconds, 4
    while rounds:
        known = (rows / scale)[:, used]
        weights = np.linalg.lstsq(known / expected[:, None], seconds / expected, rcond=None)[0]
        if weights.min() < 0:
            del used[int(weights.argmin())]
        else:
            expected, rounds = np.maximum(known @ weights, seconds / 10), rounds - 1
    return lambda *step: float((features(*step) / scale)[used] @ weights)
    # END ch10.5


# %% [markdown] lang="en"
# ## TODO ch10.5 · A cost model of this machine
#
# Chapter 8 measured that no pass reaches the roof: the roofline knows no cost of starting an operation. So do not
# guess. Measure steps, and fit.
#
# A sample is `(new_tokens, kv_tokens, pairs, seconds)` of one step. `features(new_tokens, kv_tokens, pairs)` gives a
# row of numbers for each step, of which its time should be a sum with weights: a constant; the new tokens, in pieces,
# since the first few ride along with the weights that are read anyway and later ones do not; the cache; the pairs. Fill
# in `fit`, which finds the weights and returns `cost(new_tokens, kv_tokens, pairs) -> seconds`.
#
# - Least squares of the **relative** error. A decode step takes a millisecond, a chunk takes thirty; a millisecond off
#   is nothing for the one and everything for the other. Divide each row, and its seconds, by the time that the step
#   takes.
# - No step takes less than no time, and more work does not take less: weights below zero have no meaning. Leave out the
#   feature whose weight is the lowest, and solve again, until none is negative.
# - Dividing by the *measured* time favours steps that happened to be fast. Once there is a fit, divide by what it
#   expects, and fit again a few times: then slow and fast mishaps count alike, and times add up to what was measured.
# - There may be few samples, fewer than features.
#
# Only predictions are checked: on machines that the check makes up, nine in ten steps must be within a few per cent.
# How you do it is free.

# %% [markdown] lang="zh"
# ## TODO ch10.5 · 这台机器的成本模型
#
# 第 8 章量过：没有一次计算够得到屋顶，因为 roofline 不知道发起运算也要花时间。那就不要猜：量各步的时间，再拟合。
#
# 一个样本是一步的 `(new_tokens, kv_tokens, pairs, seconds)`。`features(new_tokens, kv_tokens, pairs)` 给每一步一行数，
# 这一步的时间应当是它们的加权和：一个常数；新 token，分成几段，因为权重反正要读，头几个是搭车的，后面的就不是了；
# cache；配对数。补全 `fit`：求出权重，返回 `cost(new_tokens, kv_tokens, pairs) -> 秒`。
#
# - 最小二乘，用**相对**误差。一步 decode 一毫秒，一个分块三十毫秒；差一毫秒，对后者无所谓，对前者就是全错。
#   把每一行、连同它的秒数，都除以这一步的时间。
# - 没有一步的时间会小于零，活多了也不会更快：负的权重没有意义。去掉权重最低的那个特征，重新求解，直到没有负的。
# - 除以**实测**时间，会偏向碰巧快的那些步。有了一次拟合，就改为除以它预计的时间，再拟合几次：
#   这样偏快偏慢一视同仁，各步加起来也和实测相符。
# - 样本可能很少，比特征还少。
#
# 检查只看预测：在检查虚构的几台机器上，十步里要有九步误差在百分之几以内。怎么做，随你。

# %% [markdown] lang="en" hint="ch10.5"
# 1. `np.linalg.lstsq(rows, target, rcond=None)[0]` solves least squares. Which rows, which target, for a relative
#    error? And which columns are in use?
# 2. Relative: `rows / expected[:, None]` and `seconds / expected`, with `expected = seconds` at first. Columns are of
#    very different size; divide each by its largest number, so that few samples do no harm. A list `used` of columns
#    shrinks by `del used[weights.argmin()]`.
# 3. Loop: solve for the columns `used`; if the smallest weight is negative, delete that column, else `expected =
#    rows[:, used] @ weights` and count a round. After four rounds return `lambda *step: float(features(*step)[used] @
#    weights)`, with the scale put in.

# %% [markdown] lang="zh" hint="ch10.5"
# 1. `np.linalg.lstsq(rows, target, rcond=None)[0]` 解最小二乘。要相对误差，行和目标各是什么？正在用的又是哪几列？
# 2. 相对误差：`rows / expected[:, None]` 和 `seconds / expected`，起初 `expected = seconds`。各列大小悬殊，每列先除以自己的最大值，
#    样本少时才不出问题。列号的列表 `used` 用 `del used[weights.argmin()]` 变短。
# 3. 循环：对 `used` 里的列求解；最小的权重是负的，就删掉那一列，否则 `expected = rows[:, used] @ weights`，算一轮。
#    四轮以后返回 `lambda *step: float(features(*step)[used] @ weights)`，别忘了列的缩放。

# %% [markdown] lang="en" explain="ch10.5"
# This is iteratively reweighted least squares with an active set, in a dozen lines. A library does it better
# (`scipy.optimize.nnls`), but chapters need numpy alone.
#
# Why the mean and not the median of a noisy step? Because a queue adds steps up. If a step in a hundred takes ten times
# as long, a thousand steps take 9 % longer than the median says, and everybody behind them waits for it.

# %% [markdown] lang="zh" explain="ch10.5"
# 这就是十来行的“迭代重加权最小二乘加有效集”。有库做得更好（`scipy.optimize.nnls`），但这门课只要求 numpy。
#
# 一步的时间有波动，为什么要均值而不要中位数？因为排队是把各步加起来的。一百步里有一步慢十倍，
# 一千步就比中位数说的多花 9%，排在后面的人都得陪着等。

# %% check="ch10.5" points=3 level="core"
check("ch10.5")


# %% [markdown] lang="en"
# ## Given: steps to measure
#
# `measure` keeps an engine busy with random requests, now more of them and now fewer, who come one at a time as users
# do, and notes for each step its three numbers and what `step` took by the clock, text included.

# %% [markdown] lang="zh"
# ## 已经写好的：供测量的步
#
# `measure` 用随机请求让引擎忙起来，时多时少，像用户那样一个一个地来；记下每一步的三个数，以及 `step` 实际花的时间，生成文本也算在内。


# %% tags=["export"]
def measure(
    engine, config: SchedulerConfig, seconds: float = 15.0, longest: int = 256, seed: int = 0
) -> list:
    """en: Samples for ``fit`` from about ``seconds`` of random requests of up to ``longest`` tokens on an idle engine.
    zh: 在空闲的引擎上跑约 ``seconds`` 秒随机请求（每个最多 ``longest`` 个 token），得到 ``fit`` 要的样本。
    """
    drawn, samples, until, most = random.Random(seed), [], perf_counter() + seconds, 1
    while perf_counter() < until:
        if drawn.random() < 0.05:
            most = drawn.randint(1, config.max_num_seqs)
        if len(engine.active) < most:  # one at a time, as users come
            total = drawn.randint(2, longest)
            prompt_len = drawn.randint(1, total - 1)
            engine.submit(
                Job(
                    Request(f"{seed}-{len(engine.outputs)}", engine.clock.now, prompt_len, total - prompt_len)
                )
            )
        began = perf_counter()
        step = engine.step()
        if step and step.plan.scheduled:
            samples.append((*counts(step.plan), perf_counter() - began))
    for request_id in list(engine.active):
        engine.abort(request_id)
    engine.step()
    return samples[WARM:]


WARM = 10  # steps: the first ones load and allocate


def calibrate(engine, config: SchedulerConfig, seconds: float = 15.0, longest: int = 256, seed: int = 0):
    """en: A cost model of this engine on this machine, from ``measure``.
    zh: 由 ``measure`` 得到的成本模型：这个引擎，在这台机器上。
    """
    return fit(measure(engine, config, seconds, longest, seed))


# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass. The rest of the chapter runs **your** code.
#
# Stuck? In a new cell, in this order: `hint("ch10.3", 1)` for a direction, `hint("ch10.3", 2)` for the tool
# and the trap beside it, `hint("ch10.3", 3)` for almost the code, `solution("ch10.3")` for the reference
# and its reasons. Give each fifteen honest minutes before the next.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了，再往下看。后面跑的全是**你的**代码。
#
# 卡住了？新建一个单元格，按这个次序来：`hint("ch10.3", 1)` 给方向，`hint("ch10.3", 2)` 给工具和旁边的坑，
# `hint("ch10.3", 3)` 差不多就是代码，`solution("ch10.3")` 是参考实现和它的理由。
# 每往下一步之前，先老老实实想十五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## Experiment 1 · Two languages at once
#
# Two users, a poem and a psalm, one engine. Each reads its own stream, in turns; whoever reads makes the steps for both.
#
# **Predict:** the second prompt is longer. Will its reader have to wait?

# %% [markdown] lang="zh"
# ## 实验 1 · 两种语言，同时进行
#
# 两个用户，一首诗、一段经文，一个引擎。各读各的流，轮流来；谁在读，谁就替两边走步。
#
# **先猜：** 第二段提示词更长。它的读者要多等吗？

# %%
from itertools import zip_longest

from decodelab.models.load import load

ch03, ch07 = chapter("ch03"), chapter("ch07")

# en: Small operations gain nothing from more threads.
# zh: 运算都很小，线程多了没有好处。
torch.set_num_threads(1)
model = load(device="cuda" if torch.cuda.is_available() else "cpu")
decoder = ch08.Decoder(model.config, model.weights)
config = SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=64, block_size=16, num_blocks=128)


def engine_for(config, clock=None, scheduler=None, **how):
    """en: A new engine: chapter 7's scheduler over your executor.
    zh: 一个新引擎：第 7 章的调度器，下面是你的执行器。
    """
    executor = TorchExecutor(decoder, config.num_blocks, config.block_size, **how)
    return Engine(scheduler or ch07.ChunkedScheduler(config, ch03.FCFS()), executor, model.tokenizer, clock)


engine = engine_for(config)
warm = Sampling(temperature=0.8, top_p=0.9, seed=10)
for prompt in ("明月", "And it came to pass"):
    engine.add_request(prompt, 24, sampling=warm, stop_token_ids=model.config.eos)
for left, right in zip_longest(engine.stream(0), engine.stream(1), fillvalue=""):
    print(f"{left!r:14} {right!r}")
for output in engine.outputs.values():
    print("-" * 40, model.tokenizer.decode(list(output.prompt)) + output.text, f"({output.reason})", sep="\n")
print(engine.stats())

# %% [markdown] lang="en"
# *Left and right: what each reader got, turn by turn; below, the whole texts and the engine's own account.*
#
# It need not wait: both prompts fit into one step's budget, and from then on each step gives both a token. Whoever
# reads first makes the step, and finds the other's piece ready.

# %% [markdown] lang="zh"
# 输出：左右两列是两位读者每一轮各得到的一段；下面是全文，以及引擎自己的统计。
#
# 不用多等：两段提示词合起来，一步的预算就装得下；以后每一步，两边各得一个 token。先读的人走了这一步，
# 轮到另一位时，他那一段已经在那里了。

# %% [markdown] lang="en"
# ## Experiment 2 · The same events in two worlds
#
# Chapter 1's strip again: its three requests, one with a longer prompt so that it comes in chunks, and a fourth that
# comes late and is aborted. Once through the simulator's loop, whose tokens are numbers, and once through your engine,
# whose tokens a model has computed. Both on the logical clock: a step takes one second, and the workload says where
# answers end (`fixed_ends`).
#
# **Predict:** where will the two strips differ?

# %% [markdown] lang="zh"
# ## 实验 2 · 两个世界，同样的事件
#
# 又见第 1 章的事件图：那三个请求，其中一个提示词加长了，好分几块来算；再加一个晚到、又被取消的。一遍走模拟器的循环，
# 那里的 token 只是数字；一遍走你的引擎，token 是模型算出来的。两边都用逻辑时钟：一步一秒，回答在哪里结束由负载规定（`fixed_ends`）。
#
# **先猜：** 两张图会在哪里不同？

# %%
from decodelab.log import events, record_all
from decodelab.run import Loop, StepClock
from decodelab.show.plots import event_strip
from decodelab.sim.executor import SimExecutor, one_second

lengths = [(1, 2, 2, 0), (2, 6, 3, 0), (3, 1, 1, 1), (4, 9, 5, 2)]  # id, prompt, answer, comes at step
jobs = [Job(Request(i, 0.0, prompt, answer), step) for i, prompt, answer, step in lengths]
small = SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=4, block_size=4, num_blocks=16)


def by_simulator():
    """en: The log of a run in the simulator.
    zh: 在模拟器里跑一遍的日志。
    """
    leaves = [
        Job(job.request, job.arrival_step, abort_at=6 if job.request.request_id == 4 else None)
        for job in jobs
    ]
    loop = Loop(leaves, ch07.ChunkedScheduler(small, ch03.FCFS()), SimExecutor(), StepClock(), watch=True)
    return list(record_all(loop))


def by_engine():
    """en: The log of the same run in the engine, its users played by hand.
    zh: 同一次运行在引擎里的日志，用户由我们来扮演。
    """
    engine = engine_for(small, StepClock(), cost=one_second, fixed_ends=True)
    for now in range(99):
        for job in jobs:
            if job.arrival_step == now:
                engine.add_request(
                    list(range(job.request.prompt_len)),
                    job.request.max_new_tokens,
                    request_id=job.request.request_id,
                )
        if now == 6:
            engine.abort(4)
        if engine.step() is None:
            break
    return list(record_all(engine.steps))


requests = [job.request for job in jobs]
simulated, real = events(by_simulator(), requests), events(by_engine(), requests)
print(tr(en="the same events, times included:", zh="事件完全相同，时间也相同："), simulated == real)
event_strip(simulated)

# %%
event_strip(real)

# %% [markdown] lang="en"
# *First the simulator, then the engine. A row a request, a column a step; numbers are tokens computed.*
#
# Nowhere. A scheduler sees lengths, times and ends, and none of these comes from the model here. That is what makes a
# simulator worth having: chapters 3 to 7 were not a game about a scheduler, they were about *this* one. (A model may of
# course end an answer by itself. On the logical clock the workload fixes that, so that two worlds can be compared.)

# %% [markdown] lang="zh"
# 图：先是模拟器，后是引擎。一行一个请求，一列一步；数字是算了几个 token。
#
# 没有不同。调度器看得到的只有长度、时间和结束，这里没有一样来自模型。模拟器的价值就在于此：
# 第 3 到 7 章不是纸上谈兵，写的就是**这一个**。（模型当然可以自己决定何时结束。在逻辑时钟上，
# 这一点由负载规定，两个世界才好比较。）

# %% [markdown] lang="en"
# ## Experiment 3 · Can the simulator foretell this machine?
#
# Now with the wall clock. First random requests for some seconds: `calibrate` measures each step and lets your `fit`
# make a cost model of it. Then a Poisson workload that it has not seen, at a load of 60 per cent: foretold by the
# simulator in a blink, and served by the engine in real time, request by request as they arrive.
#
# **Predict:** how near do P50 and P95 of TTFT, TPOT and E2E come? Which of them are the hardest?

# %% [markdown] lang="zh"
# ## 实验 3 · 模拟器能预言这台机器吗？
#
# 这一次用真实的时钟。先跑几秒随机请求：`calibrate` 量下每一步，让你的 `fit` 做出成本模型，这就叫标定。然后是一份它没见过的泊松负载，
# 负荷 60%：模拟器一眨眼就给出预言，引擎则实打实地按到达时间一个个服务。
#
# **先猜：** TTFT、TPOT、E2E 的 P50 和 P95 各有多接近？哪些最难？

# %%
from decodelab.show.tell import table_text
from decodelab.timings import timings
from decodelab.workload.arrivals import arriving, poisson

cost = calibrate(engine_for(config), config, seconds=8)
for step in ((1, 100, 100), (8, 800, 800), (64, 64, 2080), (64, 800, 8000)):
    print(f"cost{step} = {1e3 * cost(*step):.2f} ms")

lots = random.Random(7)
sizes = [(lots.randint(8, 120), lots.randint(8, 64)) for _ in range(400)]
whole = [Request(i, 0.0, *size) for i, size in enumerate(sizes[:100])]
*_, last = Loop(whole, ch07.ChunkedScheduler(config, ch03.FCFS()), SimExecutor(cost))
rate = 0.6 * len(whole) / last.end
count = min(len(sizes), round(10 * rate))
users = arriving(
    [Request(i, 0.0, *size) for i, size in enumerate(sizes[:count])], poisson(rate, count, seed=3)
)
print(tr(en=f"{count} requests, {rate:.1f} a second", zh=f"{count} 个请求，每秒 {rate:.1f} 个"))


def served(engine, requests):
    """en: Serve each request when its time has come; the timings.
    zh: 到点就服务每个请求；返回各自的时间。
    """
    coming = requests[::-1]
    while coming or engine.active:
        engine.clock.reads()
        while coming and coming[-1].arrival_time <= engine.clock.now:
            engine.submit(Job(coming.pop()))
        if engine.step() is None:
            engine.clock.skip(coming[-1].arrival_time)
    return engine.timings


foretold = timings(Loop(users, ch07.ChunkedScheduler(config, ch03.FCFS()), SimExecutor(cost)))
measured = served(engine_for(config), users)
rows = []
for name in ("ttft", "tpot", "e2e"):
    for q in (50, 95):
        values = [
            1e3 * ch02.percentile([v for t in seen if (v := getattr(ch02, name)(t)) is not None], q)
            for seen in (foretold, measured)
        ]
        rows.append([f"{name} p{q}", *(f"{v:.1f}" for v in values), f"{values[0] / values[1]:.2f}"])
print(
    table_text(
        ["ms", tr(en="foretold", zh="预言"), tr(en="measured", zh="实测"), tr(en="ratio", zh="比值")], rows
    )
)

# %% [markdown] lang="en"
# *A ratio of 1 is a perfect forecast.*
#
# On one core of an AMD EPYC server that was busy with other work (2026-11-29, three runs), in two runs all three P50
# came within 7 per cent, and P95 came out at 0.58 to 0.84 of what was measured: other work interrupts in lumps, and a
# fit of the mean spreads the lumps evenly over all steps. In the third run the machine got busier between calibrating
# and measuring, and everything took twice as long as foretold. In four more runs beside other work TTFT was hit
# hardest: the forecast of its P95 was 0.18, 0.22, 0.32 and 0.68 of what came. What no forecast knows is what else the
# machine will do. Run the cell again while a video plays, and while nothing does.
#
# With a cost model of the machine you serve on, every experiment of chapters 3 to 7 is one about your service: budget,
# chunk, policy, pool. Try every setting there, confirm here.

# %% [markdown] lang="zh"
# 输出：比值为 1，就是预言得分毫不差。
#
# 在一台同时还有别的任务的 AMD EPYC 服务器的一个核上（2026-11-29，三次），有两次，三个 P50 都在 7% 以内，
# 而 P95 的预言只有实测的 0.58 到 0.84：别的任务总是一阵一阵地打断，按均值拟合，却把它们平摊到了每一步。
# 第三次，标定之后机器更忙了，样样都比预言的慢一倍。另有四次，同样有别的任务在跑，受害最重的是 TTFT：P95 的预言分别是实测的 0.18、0.22、0.32 和 0.68。任何预报都不知道机器接下来还要忙什么。
# 放着视频再跑一遍这个单元格，什么都不放也跑一遍，比比看。
#
# 有了你自己这台机器的成本模型，第 3 到 7 章的每个实验，问的都是你的服务：预算、分块、策略、池。先在那里试遍各种设定，再到这里验证。

# %% [markdown] lang="en"
# ## Experiment 4 · Memory runs out, and nobody notices
#
# The same eight prompts twice: with plenty of blocks, and with so few that the scheduler has to preempt. A victim loses
# its keys and values, the real ones now, and computes them again.
#
# **Predict:** how many of the eight texts change?

# %% [markdown] lang="zh"
# ## 实验 4 · 显存不够了，谁也没有察觉
#
# 同样八段提示词，跑两遍：一遍块很充裕，一遍少到调度器不得不抢占。被抢占的请求失去它的 key 和 value（这次是真的），
# 以后重新计算。
#
# **先猜：** 八段文本里有几段会变？

# %%
prompts = ["春风", "明月", "白日", "山中", "And God said", "The LORD", "In the beginning", "Behold"]
texts = {}
for num_blocks in (128, 10):
    engine = engine_for(SchedulerConfig(8, 64, block_size=4, num_blocks=num_blocks))
    for prompt in prompts:
        engine.add_request(prompt, 20, sampling=warm)
    while engine.step():
        pass
    texts[num_blocks] = [output.text for output in engine.outputs.values()]
    preempted = sum(len(step.plan.preempted) for step in engine.steps)
    print(
        tr(
            en=f"{num_blocks:4} blocks: {len(engine.steps):4} steps, {preempted:3} preemptions",
            zh=f"{num_blocks:4} 块：{len(engine.steps):4} 步，抢占 {preempted:3} 次",
        )
    )
print(
    tr(en="texts that changed:", zh="变了的文本："), sum(a != b for a, b in zip(*texts.values(), strict=True))
)

# %% [markdown] lang="en"
# None, though every token is drawn at temperature 0.8. The generator of a request goes on where it was, tokens that
# were said are not drawn again, and keys that are computed twice are the same keys, up to rounding. What preemption
# costs is time, not words.

# %% [markdown] lang="zh"
# 一段也没变，虽然每个 token 都是在温度 0.8 下抽出来的。请求的随机数生成器接着原处走，说过的 token 不会重抽，
# 算两遍的 key 还是同样的 key，差的只是舍入。抢占花掉的是时间，不是文字。

# %% [markdown] lang="en"
# ## Blocks that really move
#
# *Extension: its points are counted apart.*
#
# Chapter 6's `swap_out` and chapter 5's `write` return pairs of block numbers. Somebody has to move what lies in the
# blocks.

# %% [markdown] lang="zh"
# ## 真的把块搬走
#
# **扩展部分**：单独计分。
#
# 第 6 章的 `swap_out`、第 5 章的 `write` 给出的是一对一对的块号。块里的东西，总得有人去搬。


# %% answer="ch10-answer-4" tags=["export"]
def move_blocks(plan: Plan, kv: PagedKV, host: PagedKV) -> None:
    """en: Copy the blocks that a plan moves, keys and values of all layers: swap_out, then swap_in, then copy.
    zh: 复制计划要搬的块，所有层的 key 和 value 都要搬：先 swap_out，再 swap_in，最后 copy。
    """
    # TODO ch10.6
    # en: For each kind of pair: view both pools as blocks; target[:, to] = source[:, from], keys and values.
    # zh: 每一类配对：把两个池都看成一块一块的；target[:, to] = source[:, from]，key 和 value 各一次。
    out, back = (list(itertools.chain(*pairs.values())) for pairs in (plan.swap_out, plan.swap_in))
    for pairs, source, target in ((out, kv, host), (back, host, kv), (plan.copy, kv, kv)):
        if pairs:
            from_, to = map(list, zip(*pairs, strict=True))
            for old, new in ((source.keys, target.keys), (source.values, target.values)):
                blocks = old.unflatten(1, (-1, kv.block_size))[:, from_]
                new.unflatten(1, (-1, kv.block_size))[:, to] = blocks.to(new.device)
    # END ch10.6


# %% [markdown] lang="en"
# ## TODO ch10.6 · Move blocks
#
# Fill in `move_blocks`. `kv` is the pool on the device, `host` the one in host memory; each has `keys` and `values` of
# shape (layers, slots, kv_heads, head_dim), and block `b` is the slots `b * block_size` to `(b + 1) * block_size − 1`
# of **every** layer.
#
# - First `plan.swap_out`, {id: [(block, host block), …]}: from `kv` to `host`.
# - Then `plan.swap_in`, {id: [(host block, block), …]}: from `host` to `kv`. A block number that was just swapped out
#   may be filled here.
# - Then `plan.copy`, [(from, to), …], within `kv`.
# - Keys and values alike; nothing else changes. The two pools may be on different devices (`.to(device)`). Within one
#   kind no block is both source and target.

# %% [markdown] lang="zh"
# ## TODO ch10.6 · 搬块
#
# 补全 `move_blocks`。`kv` 是设备上的池，`host` 是主机内存里的池；各有 `keys` 和 `values`，形状是（层、槽位、kv_heads、head_dim）。
# 第 `b` 块就是**每一层**里的槽位 `b * block_size` 到 `(b + 1) * block_size − 1`。
#
# - 先做 `plan.swap_out`，{id: [（块、主机块）, …]}：从 `kv` 到 `host`。
# - 再做 `plan.swap_in`，{id: [（主机块、块）, …]}：从 `host` 到 `kv`。刚换出去的块号，这里可能马上又被填上。
# - 最后做 `plan.copy`，[（从、到）, …]，在 `kv` 里面。
# - key 和 value 都要搬，别的都不变。两个池可能在不同的设备上（`.to(device)`）。同一类里，没有哪一块既是来源又是目标。

# %% [markdown] lang="en" hint="ch10.6"
# 1. The three kinds differ in their pairs, their source and their target only. One loop over three tuples, and inside
#    it keys and values.
# 2. `pool.unflatten(1, (-1, block_size))` views the slots as blocks: (layers, blocks, block_size, …). It is a view, so
#    assigning to it writes into the pool. A list of block numbers indexes many at once: `blocks[:, [3, 5]]`.
# 3. `for pairs, source, target in ((out, kv, host), (back, host, kv), (plan.copy, kv, kv))`; with `from_, to =
#    map(list, zip(*pairs))`: `new.unflatten(…)[:, to] = old.unflatten(…)[:, from_].to(new.device)` for keys and for
#    values. Skip empty pairs.

# %% [markdown] lang="zh" hint="ch10.6"
# 1. 三类只有配对、来源、目标不同。对三个元组做一个循环，里面再分 key 和 value。
# 2. `pool.unflatten(1, (-1, block_size))` 把槽位看成块：（层、块、block_size、……）。它是视图，往里赋值就写进了池。
#    块号的列表可以一次索引许多块：`blocks[:, [3, 5]]`。
# 3. `for pairs, source, target in ((out, kv, host), (back, host, kv), (plan.copy, kv, kv))`；取 `from_, to = map(list, zip(*pairs))`：
#    `new.unflatten(…)[:, to] = old.unflatten(…)[:, from_].to(new.device)`，key 和 value 各一次。空的配对跳过。

# %% [markdown] lang="en" explain="ch10.6"
# The order is a promise of the contract, and schedulers lean on it: a block that was swapped out is free, so the same
# plan may give it to somebody else. Were swap_in first, it would overwrite what is still to be saved.
#
# Indexing by a list gathers, then scatters: two kernels for any number of blocks. Chapter 13 lets such copies run
# beside the computation.

# %% [markdown] lang="zh" explain="ch10.6"
# 次序是契约的承诺，调度器靠着它：换出去的块就空了，同一个计划可以马上把它给别人。
# 要是先做 swap_in，就会盖掉还没保存的内容。
#
# 用列表索引，是先 gather 再 scatter：不管多少块，都只是两次 kernel。第 13 章会让这样的复制和计算同时进行。

# %% check="ch10.6" points=2 level="extension"
check("ch10.6")


# %% answer="ch10-answer-5" tags=["export"]
def parallel_samples(
    decoder,
    kv: PagedKV,
    manager,
    prompt: list[int],
    n: int,
    max_new_tokens: int,
    sampling: Sampling,
    stop_token_ids: tuple[int, ...] = (),
) -> list[list[int]]:
    """en: ``n`` answers to one prompt, sample i drawn as request i; ``manager``: a SharedBlockManager of ``kv``'s blocks.
    zh: 同一段提示词的 ``n`` 个回答，第 i 个按请求 i 抽样；``manager`` 是管 ``kv`` 的块的 SharedBlockManager。
    """
    shared = len(prompt) // kv.block_size
    need = shared + n * (-(-(len(prompt) + max_new_tokens - 1) // kv.block_size) - shared)
    if manager.num_free < need:
        raise DecodeLabError(
            both(
                en=f"{n} answers of this length need {need} free blocks, there are {manager.num_free}: make the pool larger, "
                "or ask for fewer or shorter answers.",
                zh=f"这么长的 {n} 个回答要 {need} 个空闲块，现在有 {manager.num_free} 个：请把池加大，或者少要几个、短一点。",
            )
        )
    sequences = {i: list(prompt) for i in range(n)}
    generators = [Seeds(sampling.seed).generator(i) for i in range(n)]

    def compute(plan: Plan) -> torch.Tensor:
        """en: The logits of a plan's requests, a row each; its copies come first.
        zh: 计划里每个请求的 logits，一个一行；先做计划里的复制。
        """
        if plan.copy:
            move_blocks(plan, kv, kv)
        device = decoder.embedding.device
        return forward_batch(decoder, kv, pack(plan, sequences, manager.tables, kv.block_size, device))

    def draw(going: list[int], logits: torch.Tensor) -> list[int]:
        """en: Give each of ``going`` its next token, by its row; who is over gives its blocks back. Returns the others.
        zh: 按各自的一行给 ``going`` 里的每个抽下一个 token；结束的还回块。返回还没结束的。
        """
        rules = [sampling.temperature] * len(going), [sampling.top_p] * len(going)
        for i, token in zip(
            going, sample_batch(logits.float(), *rules, [generators[i] for i in going]), strict=True
        ):
            sequences[i].append(token)
            if token in stop_token_ids or len(sequences[i]) == len(prompt) + max_new_tokens:
                manager.free(i)
        return [i for i in going if i in manager.tables]

    # TODO ch10.7
    # en: The prompt once, for sample 0; fork; draw. While some go on: a plan of one token each, grown, unshared; draw.
    # zh: 提示词只为样本 0 算一次；分叉；抽样。还有没结束的：做一个每人一个 token 的计划，块要够、要独占；再抽样。
    manager.allocate(0, len(prompt))
    logits = compute(Plan({0: len(prompt)}, {0: 0}))
    for i in range(1, n):
        manager.fork(0, i)
    going = draw(list(range(n)), logits.expand(n, -1))
    while going:
        plan = Plan()
        for i in going:
            plan.scheduled[i], plan.start[i] = 1, len(sequences[i]) - 1
            manager.allocate(i, len(sequences[i]))
            if moved := manager.write(i, plan.start[i]):
                plan.copy.append(moved)
        going = draw(going, compute(plan))
    # END ch10.7
    return [sequences[i][len(prompt) :] for i in range(n)]


# %% [markdown] lang="en"
# ## TODO ch10.7 · One prompt, several answers
#
# A user wants `n` answers to one prompt, to choose from. The prompt is the same, so its keys are, too: compute them
# once, and let all share the blocks until they part. Fill in the middle of `parallel_samples`; `compute` and `draw` are
# there.
#
# - `manager.allocate(0, len(prompt))`, and one plan for sample 0 that computes the whole prompt: `compute(plan)` gives
#   its row of logits.
# - `manager.fork(0, i)` for the others. Each of the `n` draws its first token from that same row: `draw(going, logits)`
#   wants a row for each of `going` (`logits.expand(n, -1)`), and returns those that go on.
# - While some go on: one plan, in which each computes the one token that it drew last. Before that it needs room for
#   all its tokens (`allocate`), and the block in which the new key will lie must be its own: `manager.write(i,
#   position)` returns None, or the pair to copy; pairs go into `plan.copy`. Then draw again.
#
# Sample `i` says exactly what request `i` would say alone with the same seed. In the end all blocks are free (`draw`
# gives them back).

# %% [markdown] lang="zh"
# ## TODO ch10.7 · 一段提示词，几个回答
#
# 用户想要同一段提示词的 `n` 个回答，好挑一个。提示词相同，key 也就相同：只算一次，大家共用这些块，直到各写各的。
# 补全 `parallel_samples` 中间那一段；`compute` 和 `draw` 已经写好。
#
# - `manager.allocate(0, len(prompt))`，再用一个计划为样本 0 算完整段提示词：`compute(plan)` 给出它的一行 logits。
# - 其余的用 `manager.fork(0, i)`。`n` 个样本都从这同一行里抽出各自的第一个 token：`draw(going, logits)` 要 `going` 里每个一行
#   （`logits.expand(n, -1)`），返回还没结束的那些。
# - 还有没结束的：做一个计划，每个只算它刚抽到的那一个 token。在此之前，要有放得下它全部 token 的块（`allocate`），
#   而且新 key 要写进的那一块必须归它独有：`manager.write(i, position)` 返回 None，或者要复制的一对；这一对放进 `plan.copy`。然后再抽。
#
# 第 `i` 个样本说的话，和请求 `i` 用同样的种子单独运行时一字不差。最后所有的块都空闲（`draw` 会还）。

# %% [markdown] lang="en" hint="ch10.7"
# 1. First the prompt (allocate, plan, compute), then the forks, then `draw`; then a loop that makes a plan, fills it
#    for everybody who goes on, and draws.
# 2. A plan is `Plan({0: len(prompt)}, {0: 0})`: counts and starts. The token drawn last stands at position
#    `len(sequences[i]) - 1`, and its request then has `len(sequences[i])` tokens. `write` comes after `allocate`, which
#    may have appended the very block.
# 3. In the loop, for each `i`: `plan.scheduled[i], plan.start[i] = 1, len(sequences[i]) - 1`; `manager.allocate(i,
#    len(sequences[i]))`; `if moved := manager.write(i, plan.start[i]): plan.copy.append(moved)`. Then `going =
#    draw(going, compute(plan))`.

# %% [markdown] lang="zh" hint="ch10.7"
# 1. 先是提示词（allocate、计划、compute），再是分叉，再 `draw`；然后循环：造计划，为每个没结束的填好，再抽。
# 2. 计划写作 `Plan({0: len(prompt)}, {0: 0})`：数目和起点。刚抽到的 token 站在位置 `len(sequences[i]) - 1`，
#    这个请求一共有 `len(sequences[i])` 个 token。`write` 在 `allocate` 之后，要写的块也许正是它刚接上的。
# 3. 循环里对每个 `i`：`plan.scheduled[i], plan.start[i] = 1, len(sequences[i]) - 1`；`manager.allocate(i, len(sequences[i]))`；
#    `if moved := manager.write(i, plan.start[i]): plan.copy.append(moved)`。然后 `going = draw(going, compute(plan))`。

# %% [markdown] lang="en" explain="ch10.7"
# Of n samples, n − 1 copy the last block of the prompt, and the last one to write keeps the original: by then it is the
# only owner. Where the prompt ends with a full block, nobody copies anything.
#
# The first token is drawn before anybody writes, from one row for all. That is why samples need generators of their own.

# %% [markdown] lang="zh" explain="ch10.7"
# n 个样本里，n − 1 个会复制提示词的最后一块；最后一个要写的，就用原来那块，因为到那时只剩它一个主人。
# 提示词恰好填满最后一块的话，谁都不用复制。
#
# 第一个 token，是大家在写任何东西之前，从同一行里抽的。所以每个样本要有自己的随机数生成器。

# %% check="ch10.7" points=2 level="extension"
check("ch10.7")

# %% [markdown] lang="en"
# ### Four endings, and a trip to the host
#
# Four samples of one beginning, with the blocks that they took. Then chapter 6's swapping scheduler in a pool that is
# too small: victims move to host memory and come back.
#
# **Predict:** four samples of a prompt of a dozen tokens and 25 new ones, in blocks of 4: how many blocks at most, with
# sharing and without?

# %% [markdown] lang="zh"
# ### 四个结尾，再去主机走一趟
#
# 同一个开头的四个样本，看看一共占了多少块。然后在一个太小的池里用第 6 章会换出换入的调度器：被抢占的搬到主机内存，以后再回来。
#
# **先猜：** 提示词十来个 token，再写 25 个，块大小 4，四个样本：共用时最多占几块，不共用时呢？

# %%
SharedBlockManager, ch06 = chapter("ch05").SharedBlockManager, chapter("ch06")


class Counting(SharedBlockManager):
    """en: A manager that remembers how many blocks were held at once.
    zh: 会记住最多同时占了几块的管理器。
    """

    most = 0

    def allocate(self, request_id, num_tokens):
        done = super().allocate(request_id, num_tokens)
        self.most = max(self.most, self.num_blocks - self.num_free)
        return done


beginning = model.tokenizer.encode("In the beginning God created the heaven and the earth, and")
kv = PagedKV(model.config, 64, 4, device=decoder.embedding.device)
manager = Counting(64, 4)
answers = parallel_samples(decoder, kv, manager, beginning, 4, 25, warm)
for answer in answers:
    print(model.tokenizer.decode(beginning + answer))
alone = 4 * -(-(len(beginning) + 24) // 4)
print(
    tr(
        en=f"blocks at most: {manager.most}, unshared {alone}",
        zh=f"最多占 {manager.most} 块，不共用要 {alone} 块",
    )
)

tight = SchedulerConfig(8, 64, block_size=4, num_blocks=12, enable_chunked_prefill=False)
swapping = ch06.SwappingScheduler(tight, ch03.FCFS(), host_blocks=40)
engine = engine_for(tight, scheduler=swapping, host_blocks=40)
for prompt in prompts:
    engine.add_request(prompt, 20, sampling=warm)
while engine.step():
    pass
moved = sum(len(pairs) for step in engine.steps for pairs in step.plan.swap_out.values())
same = [output.text for output in engine.outputs.values()] == texts[128]
print(
    tr(
        en=f"{moved} blocks went out and came back; same texts: {same}",
        zh=f"{moved} 块换出又换入；文本不变：{same}",
    )
)

# %% [markdown] lang="en"
# The prompt's blocks are there once, all else four times: sharing pays by the length of the prompt. And nobody can tell
# from a text whether its keys have been to the host.

# %% [markdown] lang="zh"
# 提示词的块只有一份，其余的都是四份：提示词越长，共用越划算。而一段文本的 key 去没去过主机，从文本上谁也看不出来。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **nano-vllm, commit `718d894`**, has your `step` in five lines: schedule, run the model, postprocess, collect who
#   has finished. It gives texts at the end only, and knows neither stop strings nor aborts: the bookkeeping of this
#   chapter is what it leaves out.
#   ([llm_engine.py](https://github.com/GeeeekExplorer/nano-vllm/blob/718d89427db6a125733c1266de38567f521b30a6/nanovllm/engine/llm_engine.py))
# - **vLLM, commit `001999d`**, has `add_request`, `abort_request` and `step`. `step` gets the core's tokens, lets an
#   output processor turn them into text, and then aborts *at the core* whoever met a stop string: the core, which
#   schedules, knows tokens only, as yours does. The core may run in a process of its own.
#   ([llm_engine.py](https://github.com/vllm-project/vllm/blob/001999d2f360c2c5da23a916510c273b1a73d06c/vllm/v1/engine/llm_engine.py))
# - **vLLM, commit `003d3ee`**, makes `n` requests of one with `n` samples, each with its own id; with a seed, sample
#   `i` gets seed + `i`. It forks no blocks; what such requests have in common a prefix cache can share (chapter 11).
#   ([parallel_sampling.py](https://github.com/vllm-project/vllm/blob/003d3ee22261b7937258b7531aee00e10393f1d6/vllm/v1/engine/parallel_sampling.py))
# - **SGLang, commit `000935b`**, makes text in a process of its own, too. It decodes from a little before the new
#   tokens on, takes what is longer than before, and holds it back while it ends in `�`.
#   ([detokenizer_manager.py](https://github.com/sgl-project/sglang/blob/000935bdda57675933def88a37dcd6786a2de0d1/python/sglang/srt/managers/detokenizer_manager.py))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **nano-vllm，commit `718d894`**，你的 `step` 在那里是五行：调度、跑模型、收尾、收集完成的。文本到最后才一次给出，
#   没有停止串，也不能取消：这一章的账，正是它省掉的部分。
#   （[llm_engine.py](https://github.com/GeeeekExplorer/nano-vllm/blob/718d89427db6a125733c1266de38567f521b30a6/nanovllm/engine/llm_engine.py)）
# - **vLLM，commit `001999d`**，有 `add_request`、`abort_request` 和 `step`。`step` 从核心拿到 token，由输出处理器变成文本，
#   然后**到核心那里**取消碰上停止串的请求：负责调度的核心只认识 token，和你的一样。核心可以在单独的进程里跑。
#   （[llm_engine.py](https://github.com/vllm-project/vllm/blob/001999d2f360c2c5da23a916510c273b1a73d06c/vllm/v1/engine/llm_engine.py)）
# - **vLLM，commit `003d3ee`**，把要 `n` 个样本的请求拆成 `n` 个请求，各有各的 id；给了种子的话，第 `i` 个用种子 + `i`。
#   它不分叉块；这样的请求有多少相同，可以由前缀缓存（第 11 章）来共用。
#   （[parallel_sampling.py](https://github.com/vllm-project/vllm/blob/003d3ee22261b7937258b7531aee00e10393f1d6/vllm/v1/engine/parallel_sampling.py)）
# - **SGLang，commit `000935b`**，也用单独的进程生成文本。它从新 token 稍前一点的地方开始解码，取比原来多出来的部分，
#   以 `�` 结尾时先扣住。
#   （[detokenizer_manager.py](https://github.com/sgl-project/sglang/blob/000935bdda57675933def88a37dcd6786a2de0d1/python/sglang/srt/managers/detokenizer_manager.py)）

# %% [markdown] lang="en"
# ## Summary
#
# - An executor turns a plan into tokens. A request gets one when the step computes up to its last known token, and only
#   then.
# - An engine carries: it asks the scheduler first, keeps every token, and tells everybody of an end once.
# - Text is shown as soon as it is safe: no half character, no stop string, no beginning of one while more may come.
# - A stop string ends a request behind the scheduler's back, so the scheduler must be told, or its blocks are lost.
# - On the logical clock, simulator and engine have the same events. On the wall clock, a fitted cost model makes the
#   simulator a forecast.

# %% [markdown] lang="zh"
# ## 小结
#
# - 执行器把计划变成 token。一步算到请求已知的最后一个 token，它才得到新的，别的时候都没有。
# - 引擎只管传递：先问调度器，一个 token 都不丢，谁结束了就通知各方一次。
# - 文本一旦安全就显示：没有半个字，没有停止串；后面还可能来文本时，连停止串的开头也没有。
# - 停止串让请求结束，调度器并不知道，所以要告诉它，否则块就回不来了。
# - 用逻辑时钟，模拟器和引擎的事件完全相同。用真实时钟，拟合出来的成本模型让模拟器变成预报。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **A reader goes away.** Let `stream` abort its request when its generator is closed before the end (`try`,
#    `finally`). What should happen with two readers of one request?
# 2. **Decode less.** `decoded` decodes the whole answer in every step. Do it as SGLang does, from a little before the
#    new tokens on. How long must an answer be before it pays?
# 3. **What is an engine's own share?** Measure the time of `step` without the executor. At how many requests would you
#    give text a process of its own?
# 4. **A forecast under pressure.** Repeat experiment 3 at loads of 80 and 95 per cent. Where does the forecast break,
#    and which way?
# 5. *(Extension.)* Best of n: let the sample with the highest mean log-probability win. What has `draw` to keep?
#
# To discuss: a user aborts while the step with their last token is being computed. Who should be charged for it?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **读者走了。** 让 `stream` 在生成器没读完就被关掉时取消它的请求（`try`、`finally`）。如果两个人在读同一个请求，该怎么办？
# 2. **少解码一点。** `decoded` 每一步都把整个回答解码一遍。学 SGLang，从新 token 稍前一点的地方开始。回答要多长才划算？
# 3. **引擎自己占多少？** 量一量 `step` 里除去执行器的时间。到多少个请求，你会让文本单独用一个进程？
# 4. **高负荷下的预报。** 在 80% 和 95% 的负荷下重做实验 3。预报在哪里失准，偏向哪边？
# 5. （扩展）n 选一：平均对数概率最高的样本胜出。`draw` 需要记住什么？
#
# 讨论：用户取消请求时，含有他最后一个 token 的那一步正在计算。这笔账该算在谁头上？

# %% [markdown] lang="en"
# ## What next
#
# Many users send the same beginning: a system prompt, a document, the chat so far. Chapter 11 keeps what was computed
# for one, and gives it to the next.

# %% [markdown] lang="zh"
# ## 接下来
#
# 许多用户发来的开头都一样：系统提示词、一份文档、到目前为止的对话。第 11 章把为一个人算过的留下来，给下一个人用。
