# %% [markdown] lang="en"
# # Chapter 6 · Memory pressure
#
# Chapter 5 filled the pool to the last block, and then everybody wanted one more. Here you write what
# happens next: who may come in, who is thrown out, and how whoever was thrown out comes back without having
# lost a word.
#
# **Time.** Core: 90 minutes at most (five TODOs, three experiments). Extension: 45 minutes more.
#
# **You need.** [Chapter 3](./ch03_policies.ipynb) (a policy is a `key`),
# [chapter 4](./ch04_continuous_batching.ipynb) (the contract) and [chapter 5](./ch05_paged_kv.ipynb) (the block
# manager), or their references. No GPU, no PyTorch.
#
# **You leave with.** A scheduler that never runs out of memory. Its parts go into chapter 7 unchanged.

# %% [markdown] lang="zh"
# # 第 6 章 · 显存吃紧
#
# 第 5 章把池填到了最后一块，然后每个人都还想再要一块。接下来会发生什么，就由你来写：
# 谁可以进来，谁要被请出去，被请出去的又怎样一个字不丢地回来。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，三个实验）；扩展部分再加 45 分钟。
#
# **基础。** [第 3 章](./ch03_policies.ipynb)（策略就是一个 `key`）、[第 4 章](./ch04_continuous_batching.ipynb)（契约）和
# [第 5 章](./ch05_paged_kv.ipynb)（块管理器），或者直接用它们的参考实现。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 一个永远不会把显存用爆的调度器。它的各个零件会原样装进第 7 章。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. What does `kv.allocate(7, 33)` of chapter 5 do if too few blocks are free?
# 2. A request has 20 tokens and 19 of them are computed. What does the next step compute?
# 3. By a policy's `key(request, now)`, who is next: the smallest or the largest? Then who is last?
#
# 1 is TODO ch05.2 of [chapter 5](./ch05_paged_kv.ipynb), 2 the table in the idea of
# [chapter 4](./ch04_continuous_batching.ipynb), 3 the beginning of [chapter 3](./ch03_policies.ipynb).

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 空闲块不够的时候，第 5 章的 `kv.allocate(7, 33)` 会怎样？
# 2. 一个请求有 20 个 token，算过 19 个。下一步算什么？
# 3. 按策略的 `key(request, now)`，下一个是键最小的还是最大的？那么排在最后的是谁？
#
# 第 1 题见[第 5 章](./ch05_paged_kv.ipynb)的 TODO ch05.2，第 2 题见[第 4 章](./ch04_continuous_batching.ipynb)“想法”里的那张表，
# 第 3 题见[第 3 章](./ch03_policies.ipynb)开头。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch06", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# An RTX 4090 with Llama-3.1-8B has 2,641 blocks of 16 (chapter 5). Three hundred chats wait. Each request needs
# what its prompt takes, and then a block more every 16 tokens, nobody knows how often. How many do you let in?
#
# | you let in | at once, at most | thrown out | computed twice | tokens a second |
# |---|---|---|---|---|
# | only who can be served to the very end | 34 | 0 | 0 | 759 |
# | whoever fits now | 42 | 35 | 10.9 % | 757 |
# | whoever fits and leaves 2 % free | 39 | 2 | 0.4 % | 792 |
#
# Caution wastes memory and greed wastes work: here they come out even. A reserve of 52 blocks is better
# than both. And without the column *thrown out* there is no second row at all: the step after the pool is
# full, somebody needs a block, and everybody waits for the others, for ever.
#
# *`synthetic("azure-chat-like", 300, seed=6)`, all there from the start; your roofline of chapter 2. You
# will make this table yourself (the first row in the extension).*

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 一块 RTX 4090 跑 Llama-3.1-8B，有 2,641 个大小为 16 的块（第 5 章）。三百个聊天请求在等。
# 每个请求先要放下提示词，之后每写 16 个 token 再要一块，要多少次，谁也不知道。你放多少个进来？
#
# | 放谁进来 | 最多同时几个 | 被请出去 | 重复计算 | 每秒 token 数 |
# |---|---|---|---|---|
# | 只放保证能写到最后的 | 34 | 0 | 0 | 759 |
# | 现在放得下就放 | 42 | 35 | 10.9% | 757 |
# | 放得下，还要留出 2% | 39 | 2 | 0.4% | 792 |
#
# 谨慎浪费显存，贪心浪费计算：这里两边正好打平。留出 52 块，比两者都好。
# 而且要是没有“被请出去”这一列，第二行根本跑不下去：池满之后的下一步，有人要一块，于是人人都在等别人，永远等下去。
#
# 数据：`synthetic("azure-chat-like", 300, seed=6)`，一开始就到齐；成本用第 2 章的 roofline。这张表稍后由你亲手跑出来（第一行在扩展部分）。

# %% [markdown] lang="en"
# ## The idea: take the memory, keep the words
#
# What a request has said so far is a list of token ids, a few bytes each. What is expensive is the KV cache
# of them, and that can be **computed again** from the ids. So when nobody has a block to spare, one request
# gives back all of its blocks, keeps its tokens, and waits in line again. That is **preemption by
# recompute**:
#
# ```text
#   block      0 1 2 3 4 5
#   step 4     a a b a b b     full, and a's next token needs a block
#   step 5     a a . a . .     b is preempted: its blocks are free, its tokens are kept
#              a a a a . .     a takes one and goes on
#    ...
#   step 9     . . . . . .     a has finished
#              b b b b . .     b comes back: prompt and answer so far, computed in one go
# ```
#
# *Two requests in a pool of six blocks. A letter is a block that is held, a dot one that is free.*
#
# To b's user nothing happens but a pause. Four rules keep the peace, and they are those of vLLM's scheduler
# too, against which chapter 7 will compare yours step by step:
#
# | rule | without it |
# |---|---|
# | **The victim is the one that the policy would serve last**: the largest key, of equal ones the one admitted first | an urgent request pays for a patient one |
# | **Nobody is let in in a step that preempted** | the newcomer takes the block that the victim has just given |
# | **While others run, a reserve stays free** at the door: the *watermark* | whoever is let in is thrown out a few steps later |
# | **What can never fit is refused**, at once | it waits for ever, and everybody behind it too |

# %% [markdown] lang="zh"
# ## 想法：收回显存，留下文字
#
# 一个请求说到哪儿了，不过是一串 token id，每个几字节。贵的是它们的 KV cache，而 KV cache 可以从这些 id **重新算出来**。
# 所以，当谁也拿不出一块的时候，就让一个请求交回全部的块，保留自己的 token，重新去排队。这就是**重算式抢占**（preemption by recompute）：
#
# ```text
#   block      0 1 2 3 4 5
#   step 4     a a b a b b     full, and a's next token needs a block
#   step 5     a a . a . .     b is preempted: its blocks are free, its tokens are kept
#              a a a a . .     a takes one and goes on
#    ...
#   step 9     . . . . . .     a has finished
#              b b b b . .     b comes back: prompt and answer so far, computed in one go
# ```
#
# 图：两个请求，一个六块的池。字母是占着的块，点是空闲的块。第 4 步满了，a 的下一个 token 还要一块；第 5 步 b 被抢占，
# 块空出来，token 留着，a 接着走；第 9 步 a 写完，b 回来，提示词和已有的回答一次算完。
#
# 在 b 的用户看来，只是停顿了一下。下面四条规则维持秩序，它们也是 vLLM 调度器的规则，第 7 章会拿你的和它一步一步对照：
#
# | 规则 | 没有它会怎样 |
# |---|---|
# | **抢占策略最后才会服务的那一个**：键最大的；键相同，先放进来的那个 | 急的请求替不急的付账 |
# | **刚发生抢占的那一步，谁也不放进来** | 被抢占者刚交出来的块，立刻被新来的拿走 |
# | **有请求在运行时，门口要留一点余量**：水位线（watermark） | 刚放进来，几步之后又被请出去 |
# | **永远放不下的，当场拒绝** | 它永远等下去，排在后面的人也一样 |

# %% [markdown] lang="en"
# ## What is given
#
# Nothing here is new: `Sequence`, `WaitingQueue` and `take_tokens` are chapter 4's, `BlockManager` is what
# chapter 5 built (yours, where it passes its checks). Policies are chapter 3's.

# %% [markdown] lang="zh"
# ## 现成的部分
#
# 这里没有新东西：`Sequence`、`WaitingQueue`、`take_tokens` 来自第 4 章，`BlockManager` 就是第 5 章写的那个
# （你的通过了检查，就用你的）。策略来自第 3 章。

# %% tags=["export"]
from decodelab import chapter
from decodelab.contract import Plan, Refused, SchedulerConfig, State
from decodelab.request import Request

ch03, ch04, ch05 = chapter("ch03"), chapter("ch04"), chapter("ch05")
Sequence, WaitingQueue = ch04.Sequence, ch04.WaitingQueue
take_tokens, is_length = ch04.take_tokens, ch04.is_length
BlockManager = ch05.BlockManager

# %% [markdown] lang="en"
# ## TODO ch06.1 · What can never fit
#
# Preemption makes room, but not more room than there is. A request that needs more than the *whole* pool
# would be let in, grow, throw out everybody, then itself, come back, and so on for ever. So the door asks
# first.
#
# Fill in `refusal(request, config)`. It returns one word, or `None` for a request that can be served:
#
# | reason | when, at its longest |
# |---|---|
# | `"never_fits"` | it needs more slots than the pool has: `num_blocks` blocks of `block_size` tokens |
# | `"over_budget"` | it has more tokens than a step may compute: `max_num_batched_tokens` |
#
# *At its longest* a request has `prompt_len + max_new_tokens - 1` tokens in memory: the very last token is
# handed to the user and never computed. The second reason is stricter than chapter 4's, where the prompt
# alone counted: whoever is preempted near its end computes prompt **and answer** again, in one piece
# (chapter 7 cuts pieces, and the reason goes away).
#
# Where both hold, either is right. Lengths are positive integers by now: `add_request` below sees to that.
#
# **Predict:** 4 blocks of 2, a prompt of 3. What is the largest `max_new_tokens` that fits?

# %% [markdown] lang="zh"
# ## TODO ch06.1 · 永远放不下的
#
# 抢占能腾出地方，但腾不出比池子更大的地方。一个请求要是比**整个池**还大，就会被放进来，变长，把别人都请出去，再把自己请出去，
# 然后回来，周而复始。所以在门口先问清楚。
#
# 补全 `refusal(request, config)`，返回一个词；能够服务的请求返回 `None`：
#
# | 原因 | 什么时候（按最长的时候算） |
# |---|---|
# | `"never_fits"` | 要的槽位比整个池还多：`num_blocks` 块，每块 `block_size` 个 token |
# | `"over_budget"` | token 比一步能算的还多：`max_num_batched_tokens` |
#
# **最长的时候**，一个请求在显存里有 `prompt_len + max_new_tokens - 1` 个 token：最后那个 token 交给用户就完了，不用再算。
# 第二个原因比第 4 章严：那里只看提示词；现在，快写完时被抢占的请求，提示词**和回答**都要一次重算
# （第 7 章会把它切成块，这个原因也就消失了）。
#
# 两条都成立时，给哪一条都对。走到这里，两个长度都已经是正整数，由下面的 `add_request` 保证。
#
# **先猜：** 4 个大小为 2 的块，提示词是 3。`max_new_tokens` 最大可以是多少？


# %% answer="ch06-answer" tags=["export"]
def refusal(request: Request, config: SchedulerConfig) -> str | None:
    """en: Why the request can never be served, in one word; None where it can.
    zh: 这个请求为什么永远服务不了，一个词；能服务就是 None。
    """
    # TODO ch06.1
    # en: Its most tokens in memory, against the slots of the whole pool, and against the budget of a step.
    # zh: 它在显存里最多有几个 token：和整个池的槽位比，再和一步的预算比。
    longest = request.prompt_len + request.max_new_tokens - 1
    if longest > config.num_blocks * config.block_size:
        return "never_fits"
    if longest > config.max_num_batched_tokens:
        return "over_budget"
    return None
    # END ch06.1


# %% [markdown] lang="en" hint="ch06.1"
# 1. One number, compared twice.
# 2. The number counts prompt and answer less one. Slots are blocks times their size; a request that fills
#    the pool to the last slot fits, and so does one that uses the budget up exactly.
# 3. `longest = request.prompt_len + request.max_new_tokens - 1`; `if longest > config.num_blocks *
#    config.block_size: return "never_fits"`; the same for the budget; `return None`.

# %% [markdown] lang="zh" hint="ch06.1"
# 1. 一个数，比两次。
# 2. 这个数是提示词加回答再减一。槽位数是块数乘以块大小；正好填满整个池的放得下，正好用完预算的也可以。
# 3. `longest = request.prompt_len + request.max_new_tokens - 1`；
#    `if longest > config.num_blocks * config.block_size: return "never_fits"`；预算照样写一遍；最后 `return None`。

# %% [markdown] lang="en" explain="ch06.1"
# By hand: 4 blocks of 2 are 8 slots; 3 + 6 − 1 = 8, so 6 tokens fit. The last one is sampled from the
# computation of the one before it, and ends the request: nobody needs its key and value.
#
# This is the promise behind everything that follows: whoever is inside *could* be served alone. So there is
# always somebody whom preempting all others would help, and no step is without progress.

# %% [markdown] lang="zh" explain="ch06.1"
# 手算：4 个大小为 2 的块是 8 个槽位；3 + 6 − 1 = 8，所以能写 6 个 token。最后一个 token 是由前一个的计算采样出来的，
# 一出来请求就结束了，没人用得着它的 key 和 value。
#
# 后面的一切都靠这个承诺：放进来的每一个，**单独**跑都跑得完。所以总有一个请求，只要把别人都请出去就能继续，
# 任何一步都不会毫无进展。

# %% check="ch06.1" points=2 level="core"
check("ch06.1")

# %% [markdown] lang="en"
# ## TODO ch06.2 · Who may come in
#
# Fill in `may_admit`: is there memory for `seq`, which is next in line? `num_tokens` says how many of its
# tokens will be in the cache after this step. In this chapter that is all of them; in chapter 7 it may be a
# part.
#
# - The blocks that it still needs for them must be free: `kv.missing(seq.request_id, ...)` knows how many.
# - **Watermark.** While anybody runs (`running` is not empty), `int(config.watermark * config.num_blocks)`
#   blocks more must be free: those who run will grow. When nobody runs, nothing is kept back: nobody is
#   there to grow, and a request that needs the reserve would wait for ever.
# - **Whole-prompt reservation.** With `config.reserve_full_prompt`, room for this step's tokens is not
#   enough: *all* tokens that the sequence has, `seq.num_tokens`, must find room. (It counts prompt and answer so far, not
#   what is to come.)
#
# Return `True` or `False`, and take nothing yet.
#
# *(What you predicted in ch06.1: 6, for 3 + 6 − 1 = 8 slots.)*

# %% [markdown] lang="zh"
# ## TODO ch06.2 · 谁可以进来
#
# 补全 `may_admit`：排在最前面的 `seq`，显存放得下吗？`num_tokens` 是这一步之后它有多少个 token 在 cache 里。
# 在这一章就是它的全部 token；到第 7 章，可能只是一部分。
#
# - 还差的块必须有空闲的：差几块，问 `kv.missing(seq.request_id, ...)`。
# - **水位线。** 只要有请求在运行（`running` 不空），就要再多出 `int(config.watermark * config.num_blocks)` 个空闲块：
#   在运行的还会变长。没有请求在运行时，一块都不必留：没有请求会再变长，而要用到这点余量的请求，会因此永远等下去。
# - **整段预留。** 开着 `config.reserve_full_prompt` 时，只放得下这一步的部分还不够：它现有的**全部** token（`seq.num_tokens`）
#   都要放得下。（算的是提示词加已有的回答，不算将来的。）
#
# 返回 `True` 或 `False`，先什么都不要拿。
#
# （ch06.1 里猜的答案：6，因为 3 + 6 − 1 = 8 个槽位。）


# %% answer="ch06-answer-2" tags=["export"]
def may_admit(
    kv: BlockManager, seq: Sequence, num_tokens: int, config: SchedulerConfig, running: list
) -> bool:
    """en: Whether there is memory for ``seq``, which waits, to have ``num_tokens`` tokens in the cache.
    zh: 还在等的 ``seq`` 要在 cache 里放 ``num_tokens`` 个 token，显存够不够。
    """
    # TODO ch06.2
    # en: Blocks that are missing, and the watermark where somebody runs, against what is free.
    # zh: 差的块，再加上有人在运行时的水位线，和空闲块比。
    if config.reserve_full_prompt:
        num_tokens = seq.num_tokens
    spare = int(config.watermark * config.num_blocks) if running else 0
    return kv.missing(seq.request_id, num_tokens) + spare <= kv.num_free
    # END ch06.2


# %% [markdown] lang="en" hint="ch06.2"
# 1. Three small decisions, one after the other: how many tokens count, how many blocks stay back, do both fit.
# 2. Work the two settings into two numbers first; the last line is then one comparison with `<=`: what is
#    needed may use up what is free. `int(...)` rounds the watermark down.
# 3. `if config.reserve_full_prompt: num_tokens = seq.num_tokens`;
#    `spare = int(config.watermark * config.num_blocks) if running else 0`; and `return` whether
#    `kv.missing(...) + spare` is at most `kv.num_free`.

# %% [markdown] lang="zh" hint="ch06.2"
# 1. 三个小决定，一个接一个：按几个 token 算，留出几块，两样加起来放不放得下。
# 2. 先把两个设置变成两个数，最后一行就只是一次比较，用 `<=`：正好把空闲块用完也可以。`int(...)` 把水位线向下取整。
# 3. `if config.reserve_full_prompt: num_tokens = seq.num_tokens`；
#    `spare = int(config.watermark * config.num_blocks) if running else 0`；
#    返回 `kv.missing(...) + spare` 是否不超过 `kv.num_free`。

# %% [markdown] lang="en" explain="ch06.2"
# The watermark is a bet on growth: those who run will need blocks soon, so do not give the last ones away.
# It costs room all the time and saves work some of the time; experiment 2 finds out when it pays.
#
# `if running` is easily forgotten and hard to find: with a watermark of 0.3 and a prompt that takes 80 % of
# the pool, an *idle* machine would let nobody in. It would have passed every test with small prompts.

# %% [markdown] lang="zh" explain="ch06.2"
# 水位线赌的是“还会变长”：在运行的很快就要新块，所以别把最后几块送出去。它时时刻刻占着地方，有些时候省下计算；
# 什么时候划算，实验 2 见分晓。
#
# `if running` 很容易忘，忘了又很难发现：水位线 0.3，来一段占池子 80% 的提示词，机器**空着**，却谁也不让进。
# 只用短提示词测试，永远测不出来。

# %% check="ch06.2" points=3 level="core"
check("ch06.2")

# %% [markdown] lang="en"
# ## TODO ch06.3 · Who has to go
#
# Fill in `choose_victim`: of the sequences in `running`, return the one with the **largest**
# `policy.key(seq.request, now)`; where several have the largest, the first of them in the list. The policy
# says who is served first; read backwards, it says who can wait. Under first come, first served, that is
# whoever came last.
#
# `running` is never empty. Change nothing.

# %% [markdown] lang="zh"
# ## TODO ch06.3 · 谁得出去
#
# 补全 `choose_victim`：在 `running` 里，返回 `policy.key(seq.request, now)` **最大**的那个；并列最大时，返回列表里的第一个。
# 策略说的是谁先服务；倒过来读，就是谁可以等。先来先服务的话，那就是最后来的那个。
#
# `running` 不会是空的。什么都不要改。


# %% answer="ch06-answer-3" tags=["export"]
def choose_victim(running: list, policy, now: float) -> Sequence:
    """en: Whose memory is taken: of who runs, the one that the policy would serve last.
    zh: 收回谁的显存：在运行的请求里，策略最后才会服务的那一个。
    """
    # TODO ch06.3
    # en: The largest key of all who run; of equal ones the first.
    # zh: 在运行的请求里键最大的；并列时取第一个。
    return max(running, key=lambda seq: policy.key(seq.request, now))
    # END ch06.3


# %% [markdown] lang="en" hint="ch06.3"
# 1. Python has a function for "the largest by some measure".
# 2. `max(list, key=function)`: the function gets one element and returns what is compared. Of equal ones,
#    `max` returns the first it meets; `sorted(...)[-1]` returns the last.
# 3. `return max(running, key=lambda seq: ...)`, where the dots are the policy's key of `seq.request` at `now`.

# %% [markdown] lang="zh" hint="ch06.3"
# 1. “按某种标准最大的那个”，Python 有现成的函数。
# 2. `max(列表, key=函数)`：函数拿到一个元素，返回用来比较的值。并列时，`max` 返回最先遇到的；`sorted(...)[-1]` 返回最后一个。
# 3. `return max(running, key=lambda seq: ...)`，省略号处是策略对 `seq.request` 在 `now` 时刻给出的键。

# %% [markdown] lang="en" explain="ch06.3"
# Any choice would free memory. This one cannot fight with the queue: whoever is thrown out has the largest
# key of those who ran, so everybody who ran is still before it in line. If instead you threw out the
# *smallest*, it would be the next one to be let in: out, in, out, in, and its prompt computed each time.
#
# vLLM takes the most recently admitted under first come, first served, and the largest (priority, arrival
# time) under priorities, the first such in its list: the same rule, read off two policies.

# %% [markdown] lang="zh" explain="ch06.3"
# 选谁都能腾出显存。这样选的好处，是不会和队列打架：被请出去的，键在运行者中最大，所以其他在运行的都排在它前面。
# 要是请出去的是键**最小**的，下一个放进来的又是它：出去，进来，再出去，再进来，每一趟都重算一遍提示词。
#
# vLLM 在先来先服务时抢占最近放进来的那个；在优先级模式下抢占（优先级，到达时间）最大的，并列时取列表里的第一个：
# 同一条规则，用在两种策略上。

# %% check="ch06.3" points=1 level="core"
check("ch06.3")

# %% [markdown] lang="en"
# ## TODO ch06.4 · Out, and nothing lost
#
# Fill in `preempt(scheduler, victim, plan, now)`. `scheduler` has `running` (a list), `waiting` (chapter
# 4's queue) and `kv`; `plan` is the step that is being made. Afterwards:
#
# 1. `victim` does not run any more, and its blocks are free.
# 2. Nothing of it is computed (`num_computed_tokens` is 0), it is marked `preempted`, and it **waits**
#    again, in the place that the policy gives it. Its `num_tokens` stays: the answer so far is not lost.
# 3. The plan says so: its id is at the end of `plan.preempted`. And if this step had scheduled it already,
#    that is undone: its entries in `plan.scheduled`, `plan.start` and `plan.block_tables` are gone. Every
#    other field of the plan is as it was.
# 4. Return how many tokens of the step's budget that gives back: its entry in `plan.scheduled`, or 0 if it
#    had none. (Chapter 7 will spend them on others.)

# %% [markdown] lang="zh"
# ## TODO ch06.4 · 请出去，什么也不丢
#
# 补全 `preempt(scheduler, victim, plan, now)`。`scheduler` 有 `running`（列表）、`waiting`（第 4 章的队列）和 `kv`；
# `plan` 是正在排的这一步。做完之后：
#
# 1. `victim` 不再运行，它的块全部空闲。
# 2. 它没有任何算好的 token（`num_computed_tokens` 为 0），标记为 `preempted`，重新**排队**，排在策略给它的位置。
#    它的 `num_tokens` 不变：已有的回答不能丢。
# 3. 计划里要写明：它的 id 加到 `plan.preempted` 末尾。如果这一步已经安排了它，就要撤销：
#    `plan.scheduled`、`plan.start`、`plan.block_tables` 里都不再有它。计划的其他字段都不变。
# 4. 返回这样退回了多少 token 的预算：它在 `plan.scheduled` 里的数；没有安排过就是 0。（第 7 章会把它们分给别人。）


# %% answer="ch06-answer-4" tags=["export"]
def preempt(scheduler, victim: Sequence, plan: Plan, now: float) -> int:
    """en: Take a running sequence's memory and let it wait again; tokens of this step that are given back.
    zh: 收回一个在运行的请求的显存，让它重新排队；返回这一步退回的 token 数。
    """
    # TODO ch06.4
    # en: Out of running, blocks free, nothing computed, marked, back in waiting; then the plan.
    # zh: 离开 running，块空闲，没有算好的 token，打上标记，回到 waiting；然后改计划。
    request_id = victim.request_id
    scheduler.running.remove(victim)
    scheduler.kv.free(request_id)
    victim.num_computed_tokens = 0
    victim.preempted = True
    scheduler.waiting.push(victim, now)
    plan.preempted.append(request_id)
    plan.start.pop(request_id, None)
    plan.block_tables.pop(request_id, None)
    return plan.scheduled.pop(request_id, 0)
    # END ch06.4


# %% [markdown] lang="en" hint="ch06.4"
# 1. Go down the list in the text; each item is a line or two.
# 2. `waiting.push(seq, now)` finds the place by itself. `dict.pop(key, default)` removes an entry, returns
#    its value, and returns the default where there was none: good for entries that may be missing, and for
#    the number to return.
# 3. `scheduler.running.remove(victim)`; `scheduler.kv.free(victim.request_id)`; the two attributes; `push`;
#    `plan.preempted.append(...)`; `plan.start.pop(..., None)`, the same for `block_tables`; and at last
#    `return plan.scheduled.pop(..., 0)`.

# %% [markdown] lang="zh" hint="ch06.4"
# 1. 照着正文的清单往下写，每一条一两行。
# 2. `waiting.push(seq, now)` 自己会找到位置。`dict.pop(键, 默认值)` 删掉一项并返回它的值，没有这一项就返回默认值：
#    正好用来删可能不存在的项，也正好给出要返回的数。
# 3. `scheduler.running.remove(victim)`；`scheduler.kv.free(victim.request_id)`；两个属性；`push`；
#    `plan.preempted.append(...)`；`plan.start.pop(..., None)`，`block_tables` 同样；最后
#    `return plan.scheduled.pop(..., 0)`。

# %% [markdown] lang="en" explain="ch06.4"
# `num_tokens` is the whole state of an answer, so keeping it is doing nothing. When the victim comes back,
# `num_tokens - num_computed_tokens` is prompt **and** answer: chapter 4's two counters need no special
# case, and there is no phase to set back.
#
# Undoing the plan is the part that gets forgotten, since it takes a victim that stood *before* the one who
# needs the block. What is left behind then is a request that computes into blocks which belong to somebody
# else.

# %% [markdown] lang="zh" explain="ch06.4"
# 一个回答的全部状态就是 `num_tokens`，所以保留它，就是什么都不做。被抢占者回来时，`num_tokens - num_computed_tokens`
# 正好是提示词**加**回答：第 4 章的两个计数不需要任何特殊处理，也没有什么“阶段”要改回去。
#
# 最容易忘的是撤销计划，因为只有被抢占者排在要块的那个**前面**时才用得上。忘了的后果，是一个请求往已经属于别人的块里写。

# %% check="ch06.4" points=3 level="core"
check("ch06.4")

# %% [markdown] lang="en"
# ## TODO ch06.5 · The scheduler
#
# `PagedScheduler` is chapter 4's continuous batch with memory. All but `schedule` is written; read `let_in`
# and `admit`, which call your `may_admit`. In the gap, with `plan` an empty plan, write the step:
#
# 1. **Who runs, in the order of `self.running`.** For each: `self.kv.allocate(seq.request_id,
#    seq.num_tokens)`. If that succeeds, `self.serve(plan, seq)` puts it into the plan.
# 2. **If it fails**, `choose_victim(self.running, self.policy, now)`, then `self.evict(victim, plan, now)`,
#    which is your `preempt`; and again, until it succeeds, or until the victim was `seq` itself. Then go on
#    with the next. (Here one victim always suffices; with chapter 7's chunks it may not.)
# 3. **Then the door**: `self.let_in(plan, now)`, but only if this step has preempted nobody.
#
# `evict` takes the victim out of the list that you are walking over. If it stood *before* `seq`, all that
# follow move up by one, and so must you; otherwise somebody is skipped. If `seq` was its own victim, the
# next one has moved into its place. So use an index, and look where the victim stands **before** you evict
# it.

# %% [markdown] lang="zh"
# ## TODO ch06.5 · 调度器
#
# `PagedScheduler` 就是第 4 章的连续批，加上显存。除了 `schedule`，其余都写好了；读一读 `let_in` 和 `admit`，
# 它们会调用你的 `may_admit`。空白处已备好一个空计划 `plan`，请写出这一步：
#
# 1. **在运行的，按 `self.running` 的次序。** 对每一个先 `self.kv.allocate(seq.request_id, seq.num_tokens)`；
#    成功了，就用 `self.serve(plan, seq)` 写进计划。
# 2. **失败了**，就 `choose_victim(self.running, self.policy, now)`，再 `self.evict(victim, plan, now)`，也就是你的 `preempt`；
#    然后再试，直到成功，或者被抢占的就是 `seq` 自己。接着轮到下一个。（在这一章，抢占一个总是够的；第 7 章分块之后就未必了。）
# 3. **最后才是门口**：`self.let_in(plan, now)`，但这一步抢占过谁的话，就不放人。
#
# `evict` 会把被抢占者从你正在遍历的列表里拿走。它要是排在 `seq` **前面**，后面的都往前挪一位，你也得跟着挪，否则就会跳过一个。
# 如果 `seq` 抢占的是自己，那么下一个已经挪到了它的位置。所以要用下标，而且要在 evict **之前**看清它排在哪里。


# %% answer="ch06-answer-5" tags=["export"]
class PagedScheduler:
    """en: A continuous batch that never needs more memory than there is. ``kv``: its block manager.
    zh: 连续批，而且显存永远够用。``kv``：它的块管理器。
    """

    def __init__(self, config: SchedulerConfig, policy, kv: BlockManager | None = None) -> None:
        self.config, self.policy = config, policy
        self.kv = kv or BlockManager(config.num_blocks, config.block_size)
        self.waiting = WaitingQueue(policy)
        self.running: list[Sequence] = []
        self.sequences: dict = {}
        self.ids: set = set()
        self.now = 0.0

    def add_request(self, request: Request, now: float) -> None:
        """en: Take in a request; Refused says why not, and leaves everything as it was.
        zh: 收下一个请求；不收就抛 Refused 说明原因，什么都不改。
        """
        if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)):
            raise Refused("bad_length")
        if request.request_id in self.ids:
            raise Refused("duplicate_id")
        if reason := refusal(request, self.config):
            raise Refused(reason)
        self.now = now
        self.ids.add(request.request_id)
        seq = self.sequences[request.request_id] = Sequence(request)
        self.waiting.push(seq, now)

    def schedule(self, now: float) -> Plan:
        """en: The next step.
        zh: 下一步做什么。
        """
        plan = Plan()
        # TODO ch06.5
        # en: Blocks for each who runs, evicting while there are none; then let_in, if nobody was preempted.
        # zh: 给每个在运行的拿块，拿不到就抢占；最后，没有人被抢占才 let_in。
        i = 0
        while i < len(self.running):
            seq = self.running[i]
            while not self.kv.allocate(seq.request_id, seq.num_tokens):
                victim = choose_victim(self.running, self.policy, now)
                if self.running.index(victim) < i:
                    i -= 1
                self.evict(victim, plan, now)
                if victim is seq:
                    break
            else:
                self.serve(plan, seq)
                i += 1
        if not plan.preempted:
            self.let_in(plan, now)
        # END ch06.5
        return plan

    def evict(self, victim: Sequence, plan: Plan, now: float) -> None:
        """en: Take a running sequence's memory.
        zh: 收回一个在运行的请求的显存。
        """
        preempt(self, victim, plan, now)

    def fits(self, seq: Sequence) -> bool:
        """en: Whether there is memory for all tokens that ``seq`` has.
        zh: ``seq`` 现有的全部 token，显存放不放得下。
        """
        return may_admit(self.kv, seq, seq.num_tokens, self.config, self.running)

    def let_in(self, plan: Plan, now: float) -> None:
        """en: Admit the next in line, one after the other, while there are a slot, budget and memory.
        zh: 只要有位置、有预算、有显存，就把排在最前面的一个接一个放进来。
        """
        left = self.config.max_num_batched_tokens - sum(plan.scheduled.values())
        while len(self.running) < self.config.max_num_seqs and (seq := self.waiting.peek(now)):
            left -= seq.num_tokens - seq.num_computed_tokens
            if left < 0 or not self.fits(seq):
                return
            self.admit(plan, seq)

    def admit(self, plan: Plan, seq: Sequence) -> None:
        """en: Let ``seq`` in, new or back after a preemption.
        zh: 放 ``seq`` 进来，不管是第一次来，还是被抢占后回来。
        """
        self.waiting.remove(seq)
        self.running.append(seq)
        self.kv.allocate(seq.request_id, seq.num_tokens)
        if seq.preempted:
            plan.resumed.append(seq.request_id)
        else:
            plan.new.append(seq.request_id)
            plan.cached[seq.request_id] = 0
        self.serve(plan, seq)

    def serve(self, plan: Plan, seq: Sequence) -> None:
        """en: Let this step compute what is not computed yet, and tell the block table where it has grown.
        zh: 让这一步把还没算的算完；块表变长了，就写进计划。
        """
        request_id, start = seq.request_id, seq.num_computed_tokens
        plan.scheduled[request_id], plan.start[request_id] = seq.num_tokens - start, start
        if start % self.kv.block_size == 0:
            plan.block_tables[request_id] = list(self.kv.tables[request_id])
        seq.num_computed_tokens = seq.num_tokens

    def abort(self, request_id, now: float) -> None:
        """en: Forget a request, waiting or running, and free its blocks; an unknown id is ignored.
        zh: 忘掉一个请求，在等的、在跑的都行，块也还回去；不认识的 id 不理会。
        """
        seq = self.sequences.pop(request_id, None)
        if seq in self.running:
            self.running.remove(seq)
        elif seq:
            self.waiting.remove(seq)
        self.kv.free(request_id)

    def update(self, plan: Plan, tokens: dict, now: float) -> dict:
        """en: Take in what the step generated; who ended by it, and why. Their blocks are free.
        zh: 收下这一步生成的 token；返回谁结束了、为什么。结束的请求，块立刻还回去。
        """
        self.now = now
        finished = {}
        for request_id, new_tokens in tokens.items():
            seq = self.sequences.get(request_id)
            if seq and (reason := take_tokens(seq, new_tokens)):
                finished[request_id] = reason
        for request_id in finished:
            self.running.remove(self.sequences.pop(request_id))
            self.kv.free(request_id)
        return finished

    def state(self) -> State:
        """en: Who runs, who waits, and how many blocks are free, for logs and pictures.
        zh: 谁在跑、谁在等、空闲几块，供日志和图使用。
        """
        waiting = [seq.request_id for seq in self.waiting.ordered(self.now)]
        return State([seq.request_id for seq in self.running], waiting, self.kv.num_free)


# %% [markdown] lang="en" hint="ch06.5"
# 1. Two loops, one inside the other: over those who run, and, for each, over victims until there is a block.
# 2. `while i < len(self.running):`, since the list gets shorter on the way. Python's `while ... else` runs
#    the `else` where the loop ended without `break`: so break when `seq` was its own victim, and put
#    `serve` and `i += 1` into the `else`. After a break `i` stays: the next one stands there now.
# 3. Inside: `seq = self.running[i]`; `while not self.kv.allocate(...):` choose; `if
#    self.running.index(victim) < i: i -= 1`; `self.evict(victim, plan, now)`; `if victim is seq: break`;
#    `else:` serve, `i += 1`. Behind both loops `if not plan.preempted: self.let_in(plan, now)`.

# %% [markdown] lang="zh" hint="ch06.5"
# 1. 两层循环：外层走遍在运行的，里层为当前这一个不断抢占，直到有块可用。
# 2. 外层用 `while i < len(self.running):`，因为列表会在途中变短。Python 的 `while ... else`，循环没有 `break` 才会执行 `else`：
#    所以 `seq` 抢占了自己就 break，把 `serve` 和 `i += 1` 放进 `else`。break 之后 `i` 不动：下一个已经站在那里了。
# 3. 里面：`seq = self.running[i]`；`while not self.kv.allocate(...):` 选人；`if self.running.index(victim) < i: i -= 1`；
#    `self.evict(victim, plan, now)`；`if victim is seq: break`；`else:` 里 serve，`i += 1`。
#    两层循环之后，`if not plan.preempted: self.let_in(plan, now)`。

# %% [markdown] lang="en" explain="ch06.5"
# Does it end? Each pass of the inner loop makes `running` shorter by one, each pass of the outer either
# moves on or makes it shorter. Is there progress? Somebody has the smallest key of all who run; it is a
# victim only when it runs alone, and alone it fits: `refusal` saw to that. So in every step at least one
# request gets a token.
#
# Why no newcomers after a preemption? The victim is in the queue by now, and may be the next in line: it
# would be let in at once, by the blocks it has just given, and its prefill would be computed for one step's
# rest.

# %% [markdown] lang="zh" explain="ch06.5"
# 它会停吗？里层每转一圈，`running` 就短一个；外层每转一圈，要么往前走，要么 `running` 变短。有进展吗？在运行的请求里总有一个键最小，
# 只有它独自运行时才会轮到它被抢占，而独自运行它是放得下的：`refusal` 保证过。所以每一步至少有一个请求得到 token。
#
# 抢占之后为什么不放人？被抢占者这时已经在队列里，很可能就排在最前面：它会立刻拿着刚交出的块再进来，
# 整段重算一遍，歇都没歇一步。

# %% check="ch06.5" points=5 level="core"
check("ch06.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass: from here on **your** scheduler runs.
#
# Stuck? `hint("ch06.5", 1)` gives a direction, `hint("ch06.5", 2)` the tool and the trap beside it,
# `hint("ch06.5", 3)` almost the code, `solution("ch06.5")` the reference and its reasons. Give a TODO
# fifteen honest minutes before each.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了再往下看：从这里开始，跑的是**你的**调度器。
#
# 卡住了？`hint("ch06.5", 1)` 给方向，`hint("ch06.5", 2)` 说该用什么、小心什么，`hint("ch06.5", 3)` 差不多就是代码，
# `solution("ch06.5")` 是参考实现和理由。每看下一样之前，先老老实实想十五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## Experiment 1 · Exhaustion, averted
#
# Four requests, a pool of ten blocks of 2. At its longest each needs seven.
#
# **Predict:** in which order do they finish? How often does request 4 start?

# %% [markdown] lang="zh"
# ## 实验 1 · 眼看用完，化险为夷
#
# 四个请求，十个大小为 2 的块。每个请求最长的时候要七块。
#
# **先猜：** 它们按什么次序完成？请求 4 一共开始了几次？

# %%
from decodelab.log import events, record_all
from decodelab.request import Job
from decodelab.run import Loop, StepClock
from decodelab.show.plots import gantt, kv_map
from decodelab.sim.executor import SimExecutor

FCFS = ch03.FCFS


def small_memory(num_blocks, block_size, watermark=0.0):
    return SchedulerConfig(8, 64, None, block_size, num_blocks, watermark, enable_chunked_prefill=False)


four = [Job(Request(i, 0.0, prompt_len=4, max_new_tokens=11), arrival_step=i - 1) for i in (1, 2, 3, 4)]


def logged(num_blocks, watermark=0.0):
    """en: The log of the four in a pool of so many blocks of 2.
    zh: 四个请求在这么多个大小为 2 的块里运行的日志。
    """
    scheduler = PagedScheduler(small_memory(num_blocks, 2, watermark), FCFS())
    return list(record_all(Loop(four, scheduler, SimExecutor(), StepClock(), watch=True)))


records = logged(10)
for event in events(records, [job.request for job in four]):
    if event["action"] not in ("decode_one_step", "arrive"):
        print(f"{event['step']:3d}  {event['request_id']}  {event['action']}")

# %%
gantt(records, [job.request for job in four])

# %% [markdown] lang="en"
# *A row a request. Tall and hatched: prefill; low: decode; thin line: waiting; crossed: preempted. ✖
# preempted at this moment, ● finished.*

# %% [markdown] lang="zh"
# 图：一行是一个请求。高条带斜纹：prefill；矮条：decode；细线：等待；带叉纹：被抢占、等着重来。✖ 此刻被抢占，● 完成。

# %%
kv_map(records, 10)

# %% [markdown] lang="en"
# *A row a physical block, a column a step, one colour a request; white is free.*
#
# The youngest goes first, then the second youngest, until who is left has room; they come back in the order
# in which they came. Nobody lost a token: each has its eleven. And the map shows the price, a colour that
# returns at full height: its prompt and its answer, computed once more.

# %% [markdown] lang="zh"
# 图：一行是一个物理块，一列是一步，一种颜色是一个请求；白色是空闲。
#
# 最晚来的先出去，然后是倒数第二个，直到剩下的放得下；回来时按来的先后。谁都没有丢 token：每个都写满了十一个。
# 代价也在图上：一种颜色消失之后，又整段地冒出来，那是提示词加回答，又算了一遍。

# %% [markdown] lang="en"
# ### Walk through a run
#
# Pick a pool and drag the step: who runs, who waits, whose blocks are whose, and what changes from one step to the next.
#
# **Find:** in ten blocks, the step that throws out request 4 for the first time. Who needed the block? And why
# is nobody thrown out in 26 blocks, though four times seven are 28?

# %% [markdown] lang="zh"
# ### 亲手走一遍
#
# 选一个池，拖动步数：谁在跑，谁在等，哪块是谁的，前后两步之间变了什么。
#
# **找一找：** 十块的池里，请求 4 第一次被请出去是在哪一步？是谁要那一块？还有，26 块就谁也不用出去了，可四乘七是 28，为什么？

# %%
from decodelab.show.explorer import explore

pools = {f"{n} blocks": lambda n=n: logged(n) for n in (10, 7, 14, 20, 26)}
explore({"four requests": {**pools, "10 blocks, watermark 0.5": lambda: logged(10, 0.5)}})

# %% [markdown] lang="en"
# ## Experiment 2 · How much to keep back
#
# Now the table from the beginning (its first row comes in the extension), and the knob in it: the watermark. Two loads of 300 requests, all there
# from the start, on the RTX 4090: the chats (long prompts, short answers), and their reverse, prompts of
# 200 tokens with answers of 800.
#
# *Computed twice*: the tokens computed beyond what one pass over each request takes. *Longest pause*: the
# largest gap between two tokens of one answer, which its user sees; of all requests the 95th percentile.
#
# **Predict:** which watermark is best for each load?

# %% [markdown] lang="zh"
# ## 实验 2 · 留多少余量
#
# 现在来跑开头的那张表（第一行要到扩展部分），顺便转一转里面的旋钮：水位线。两种负载，各 300 个请求，一开始就到齐，跑在 RTX 4090 上：
# 一种是聊天（提示词长，回答短），一种反过来，提示词 200 个 token，回答 800 个。
#
# **重复计算**：每个请求从头算一遍之外，又多算的 token。**最长停顿**：一个回答里相邻两个 token 之间最大的间隔，用户看得见；
# 取所有请求的 p95。
#
# **先猜：** 两种负载，水位线各取多少最好？

# %%
from dataclasses import replace
from itertools import pairwise

from decodelab.sim.hardware import GPUS, MODELS
from decodelab.timings import Timings
from decodelab.workload import synthetic

ch02 = chapter("ch02")
model, gpu = MODELS["Llama-3.1-8B"], GPUS["RTX 4090"]
cost = ch02.Roofline(model, gpu)
block_bytes = 16 * model.kv_bytes_per_token
num_blocks = int((0.9 * gpu.memory - model.weight_bytes) / block_bytes)


def config_of(watermark=0.0):
    return SchedulerConfig(256, 16_384, None, 16, num_blocks, watermark, enable_chunked_prefill=False)


def measured(scheduler, requests, executor=None):
    """en: Tokens a second, share computed twice, longest pause (s, p95), preemptions, most at once.
    zh: 每秒 token 数、重复计算的比例、最长停顿（秒，p95）、抢占次数、最多同时几个。
    """
    seen, loop = Timings(), Loop(requests, scheduler, executor or SimExecutor(cost))
    computed, most = 0, 0
    for step in loop:
        seen.see(step)
        computed += sum(step.plan.scheduled.values())
        most = max(most, len(step.plan.scheduled))
    tokens = sum(len(t.token_times) for t in seen)
    once = sum(t.prompt_len + len(t.token_times) - 1 for t in seen)
    pauses = [max((b - a for a, b in pairwise(t.token_times)), default=0.0) for t in seen]
    return {
        "tokens/s": tokens / loop.clock.now,
        "twice": computed / once - 1,
        "pause": ch02.percentile(pauses, 95),
        "preempted": sum(t.preemptions for t in seen),
        "most": most,
    }


def told(name, m):
    print(
        f"{name:>10}  {m['tokens/s']:6,.0f} tokens/s  {m['twice']:6.1%}  {m['pause']:5.1f} s  "
        f"{m['preempted']:4d} ✖  {m['most']:4d}"
    )


chat = [replace(request, arrival_time=0.0) for request in synthetic("azure-chat-like", 300, seed=6)]
writing = [replace(request, prompt_len=200, max_new_tokens=800) for request in chat]
loads = {tr(en="chat", zh="聊天"): chat, tr(en="long answers", zh="长回答"): writing}
curves: dict[str, dict[float, float]] = {}
print(
    tr(
        en="watermark, tokens/s, twice, pause, ✖, most at once",
        zh="水位线、tokens/s、重复计算、停顿、✖、最多同时",
    )
)
for number, (name, load) in enumerate(loads.items(), 1):
    print(name)
    for watermark in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6):
        m = measured(PagedScheduler(config_of(watermark), FCFS()), load)
        told(watermark, m)
        curves.setdefault(str(number), {})[watermark] = m["tokens/s"]

# %%
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for (number, curve), style, colour in zip(curves.items(), ("o-", "s--"), ("#0072B2", "#E69F00"), strict=True):
    percent = [100 * rate / curve[0.0] for rate in curve.values()]
    ax.plot(list(curve), percent, style, color=colour, label=number)
ax.set_xscale("symlog", linthresh=0.01)
ax.set_xticks(list(curve), [f"{watermark:g}" for watermark in curve])
ax.minorticks_off()
ax.set(xlabel="watermark", ylabel="%")
ax.legend(frameon=False)
plt.show()

# %% [markdown] lang="en"
# *x: watermark; y: tokens a second, in per cent of what there is without one. 1: chats, 2: long answers.*
#
# For the chats two blocks in a hundred are enough: preemptions nearly vanish, and beyond that the reserve
# only costs batch. The long answers are another world: a request is let in at 200 tokens and wants 1,000,
# so those who run outgrow any reserve. The first percent helps a little, and from there on every block kept
# back costs throughput; yet even where six in ten stay free, answers stop for eleven seconds, and for
# 24 to 38 seconds with less kept back.
#
# **Takeaway.** A watermark insures against the growth of the next few steps, not against the growth of whole
# answers. Do not ask for *the* right value: ask how much those who run will still grow.

# %% [markdown] lang="zh"
# 图：横轴是水位线，纵轴是每秒 token 数，以不留水位线时为 100%。1 是聊天，2 是长回答。
#
# 聊天只要留出百分之二：抢占几乎消失，再多留，就只是让批变小。长回答是另一个世界：放进来时 200 个 token，最后要 1,000 个，
# 留多少余量都会被它们长满。头一个百分点略有好处，再往上，多留一块就少一分吞吐量；可是哪怕六成都空着，
# 回答写到一半仍要停十一秒，留得少的时候一停就是 24 到 38 秒。
#
# **结论。** 水位线防的是接下来几步的增长，防不住整个回答的增长。不要问“到底该取多少”，要问：在运行的这些，还会长多少？

# %% [markdown] lang="en"
# ## Experiment 3 · Who pays
#
# One chat in ten is urgent now, and the policy is `PriorityOrder`. The requests arrive over a minute, five
# a second, more than the GPU can serve. **Predict:** how many of the urgent ones are preempted, and how do
# the waits for the first token compare?

# %% [markdown] lang="zh"
# ## 实验 3 · 谁来付账
#
# 现在十个聊天里有一个是急的，策略换成 `PriorityOrder`。请求在一分钟里陆续到达，每秒五个，超出 GPU 的处理能力。
# **先猜：** 急的请求有多少个被抢占？等第一个 token 的时间，两类相差多少？

# %%
spread = [replace(r, arrival_time=i / 5, priority=int(i % 10 == 3)) for i, r in enumerate(chat)]
for policy in (FCFS(), ch03.PriorityOrder()):
    seen, scheduler = Timings(), PagedScheduler(config_of(), policy)
    for step in Loop(spread, scheduler, SimExecutor(cost)):
        seen.see(step)
    for urgent in (1, 0):
        group = [seen.by_id[r.request_id] for r in spread if r.priority == urgent]
        waits = ch02.percentile([ch02.ttft(t) for t in group], 50)
        print(
            f"{type(policy).__name__:14} {tr(en='urgent', zh='急的') if urgent else tr(en='others', zh='其余')}: ",
            tr(
                en=f"preempted {sum(t.preemptions for t in group)} times, median TTFT {waits:.1f} s",
                zh=f"抢占 {sum(t.preemptions for t in group)} 次，TTFT 中位数 {waits:.1f} 秒",
            ),
        )

# %% [markdown] lang="en"
# Under priorities no urgent request is ever a victim here: as long as anybody less urgent runs, that one
# goes. The bill even grows, from 34 preemptions to 44, and all of it is sent to the others.
#
# **Takeaway.** Preemption makes a promise to the urgent keepable even when memory is full. But note what it
# does *not* do: an urgent request at the door waits until there is room; nobody is thrown out for a
# newcomer.

# %% [markdown] lang="zh"
# 有了优先级，这里没有一个急的请求被抢占：只要还有不那么急的在运行，出去的就是它。账单还变大了，抢占从 34 次到 44 次，
# 只是全都寄给了别人。
#
# **结论。** 显存满了，对急的请求作的承诺照样守得住，靠的就是抢占。不过也要看清它**不管**什么：急的请求到了门口，
# 还得等有地方才进得来；不会为了新来的请谁出去。

# %% [markdown] lang="en"
# ## TODO ch06.6 · Swap instead of compute
#
# *Extension: its points are counted apart, and no later chapter needs it.*
#
# The host has memory too, ten times as much, behind a slower road. Instead of throwing blocks away, copy
# them there (**swap out**) and back later (**swap in**): no token is computed twice. The host pool is a
# block manager of its own: `scheduler.host`.
#
# Fill in `swap_out`, which stands in for `preempt` in `SwappingScheduler`:
#
# - How many tokens of the victim are *really* computed? `num_computed_tokens`; but if this step has
#   scheduled it already, the counter has run ahead, and `plan.start` has the truth.
# - Take host blocks for that many: `scheduler.host.allocate(...)`. If there are too few, do as before,
#   `preempt`.
# - `plan.swap_out[request_id]` is a list of pairs `(block, host block)`, in the order of its tokens, for
#   the blocks of those computed tokens and no others. (The block it took in this step holds nothing yet. Where
#   nothing is computed, the list is empty, and `scheduler.host.tables` may have no entry of it.)
# - All the rest is `preempt`'s work, but for one thing: what was computed still is. Return what `preempt`
#   returns.

# %% [markdown] lang="zh"
# ## TODO ch06.6 · 换出去，不重算
#
# **扩展部分**：单独计分，后面的章节用不到它。
#
# 主机也有内存，是显存的十倍，只是通路慢一些。与其把块扔掉，不如复制到那边（**换出**），以后再复制回来（**换入**）：
# 一个 token 都不用重算。主机那边的池自成一个块管理器：`scheduler.host`。
#
# 补全 `swap_out`，它在 `SwappingScheduler` 里代替 `preempt`：
#
# - 被抢占者**真正**算好的有几个 token？看 `num_computed_tokens`；可是如果这一步已经安排了它，这个计数就跑到前面去了，
#   `plan.start` 里的才是真的。
# - 按这个数去拿主机块：`scheduler.host.allocate(...)`。不够，就照旧 `preempt`。
# - `plan.swap_out[request_id]` 是一串（块，主机块），按 token 的次序，只含放着这些算好的 token 的块。
#   （这一步刚拿到的块，里面还什么都没有。要是一个 token 都没算好，这一串就是空的，`scheduler.host.tables` 里也可能没有它。）
# - 其余的都是 `preempt` 的活，只差一样：算好的仍然是算好的。返回 `preempt` 返回的数。


# %% answer="ch06-answer-6" tags=["export"]
def swap_out(scheduler, victim: Sequence, plan: Plan, now: float) -> int:
    """en: As ``preempt``, but what is computed moves to host memory where there is room; (block, host block) pairs.
    zh: 同 ``preempt``，但主机内存放得下时，算好的搬到那里；记成（块，主机块）。
    """
    # TODO ch06.6
    # en: What is really computed; host blocks for it, or preempt; the pairs; preempt, and set the counter right.
    # zh: 真正算好的 token 数；拿主机块，不够就 preempt；配对；preempt，再把计数改回来。
    request_id = victim.request_id
    computed = plan.start.get(request_id, victim.num_computed_tokens)
    if not scheduler.host.allocate(request_id, computed):
        return preempt(scheduler, victim, plan, now)
    there = scheduler.host.tables.get(request_id, [])
    plan.swap_out[request_id] = list(zip(scheduler.kv.tables[request_id], there, strict=False))
    given_back = preempt(scheduler, victim, plan, now)
    victim.num_computed_tokens = computed
    return given_back
    # END ch06.6


class SwappingScheduler(PagedScheduler):
    """en: Moves victims to a host pool of ``host_blocks`` blocks and back.
    zh: 把被抢占者搬到主机的池（``host_blocks`` 块），以后再搬回来。
    """

    def __init__(self, config: SchedulerConfig, policy, host_blocks: int) -> None:
        super().__init__(config, policy)
        self.host = BlockManager(host_blocks, config.block_size)

    def evict(self, victim: Sequence, plan: Plan, now: float) -> None:
        swap_out(self, victim, plan, now)

    def admit(self, plan: Plan, seq: Sequence) -> None:
        super().admit(plan, seq)
        if there := self.host.tables.get(seq.request_id):
            table = plan.block_tables[seq.request_id] = list(self.kv.tables[seq.request_id])
            plan.swap_in[seq.request_id] = list(zip(there, table, strict=False))
            self.host.free(seq.request_id)

    def abort(self, request_id, now: float) -> None:
        super().abort(request_id, now)
        self.host.free(request_id)


# %% [markdown] lang="en" hint="ch06.6"
# 1. Find out first, then take, then write down, then let `preempt` do its work. The order matters:
#    `preempt` frees the blocks and forgets the plan's entries.
# 2. `plan.start.get(request_id, victim.num_computed_tokens)` is the truth in both cases. `zip` of the two
#    tables ends with the shorter, which is the host's: so the block that is too many drops out by itself.
# 3. `computed = ...` as above; `if not scheduler.host.allocate(request_id, computed): return preempt(...)`;
#    `plan.swap_out[request_id] = list(zip(...))`; keep what `preempt` returns; `victim.num_computed_tokens
#    = computed`; return it.

# %% [markdown] lang="zh" hint="ch06.6"
# 1. 先弄清楚，再去拿，然后记下来，最后让 `preempt` 干它的活。次序很要紧：`preempt` 会还掉块，也会删掉计划里的项。
# 2. `plan.start.get(request_id, victim.num_computed_tokens)` 在两种情况下都是真的。两张块表 `zip` 起来，以短的为准，
#    也就是主机那张：多出来的那块自己就掉了。
# 3. `computed = ...`，如上；`if not scheduler.host.allocate(request_id, computed): return preempt(...)`；
#    `plan.swap_out[request_id] = list(zip(...))`；记下 `preempt` 返回的数；`victim.num_computed_tokens = computed`；
#    把那个数返回。

# %% [markdown] lang="en" explain="ch06.6"
# With `num_computed_tokens` kept, `let_in` sees that only one token is to be computed, and `serve` starts
# where it stopped: not a line of the scheduler had to change.
#
# The executor swaps out before it swaps in and before it computes (the contract says so), so a block that
# is freed here may be given to somebody else in the same step.

# %% [markdown] lang="zh" explain="ch06.6"
# 保留了 `num_computed_tokens`，`let_in` 就知道只剩一个 token 要算，`serve` 也从停下的地方接着来：调度器一行都不用改。
#
# 执行器先换出，再换入，最后才计算（契约里写着），所以在这里空出来的块，同一步就可以给别人。

# %% check="ch06.6" points=4 level="extension"
check("ch06.6")

# %% [markdown] lang="en"
# What is a copy worth? `MovingExecutor` charges each block at a bandwidth. 25 GB/s is about what a fast
# slot of a PC gives at its best; small copies get a fraction. (An assumption: measure yours.) **Predict:**
# at which bandwidth are swapping and computing equally good?

# %% [markdown] lang="zh"
# 复制一趟划不划算？`MovingExecutor` 给每一块按带宽计时。25 GB/s 大约是 PC 上较快插槽的最好成绩；零碎的小块只有几分之一。
# （这是假设，请量你自己的机器。）**先猜：** 带宽是多少的时候，换出和重算一样好？


# %%
class MovingExecutor(SimExecutor):
    """en: A block between device and host takes its bytes over ``bandwidth`` (bytes/s).
    zh: 一块在显存和主机之间走一趟，用时是字节数除以 ``bandwidth``（字节/秒）。
    """

    def __init__(self, cost, bandwidth):
        super().__init__(cost)
        self.seconds = block_bytes / bandwidth

    def execute(self, plan):
        tokens, seconds = super().execute(plan)
        moved = sum(map(len, [*plan.swap_out.values(), *plan.swap_in.values()]))
        return tokens, seconds + moved * self.seconds


for name, load in loads.items():
    print(name)
    told(tr(en="compute", zh="重算"), measured(PagedScheduler(config_of(), FCFS()), load))
    for gigabytes in (1, 2, 5, 25):
        scheduler = SwappingScheduler(config_of(), FCFS(), host_blocks=20_000)
        told(f"{gigabytes} GB/s", measured(scheduler, load, MovingExecutor(cost, gigabytes * 1e9)))

# %% [markdown] lang="en"
# In this model they are even between 2 and 5 GB/s, for both loads. Above that, swapping wins: 1,000 tokens
# take 0.1 s to compute here, and are 131 MB to move, 5 ms one way at 25 GB/s. What the model leaves out
# lies in the other scale: many small copies do not reach the peak, they need pinned memory, and code that
# must be right. (Chapter 13 does it for real.)

# %% [markdown] lang="zh"
# 在这个模型里，两种负载都在每秒 2 到 5 GB 之间打平；再往上，换出更好：1,000 个 token，在这里重算要 0.1 秒，
# 搬一趟是 131 MB，按 25 GB/s 只要 5 毫秒。模型没算的，都在天平的另一边：零碎的复制达不到峰值，需要锁页内存，还得有一段不能出错的代码。
# （第 13 章会真的做一遍。）

# %% [markdown] lang="en"
# ## TODO ch06.7 · Or promise never to throw anybody out
#
# *Extension.*
#
# The opposite of preempting is to let in only who is sure to finish. TensorRT-LLM has both, as *capacity
# policies*: `MAX_UTILIZATION` is what you wrote, `GUARANTEED_NO_EVICT` this.
#
# Fill in `may_admit_for_good`, which takes the place of `may_admit` in `NoEvictScheduler` and has the same
# arguments: could all in `running` **and** `seq` be at their longest at the same time? A sequence at its
# longest has `seq.longest - 1` tokens in memory, which take blocks of `config.block_size`; the pool has
# `config.num_blocks`. What they hold today does not matter.

# %% [markdown] lang="zh"
# ## TODO ch06.7 · 或者：保证谁也不请出去
#
# **扩展部分。**
#
# 抢占的反面，是只放一定能写完的进来。TensorRT-LLM 两样都有，叫作**容量策略**（capacity policy）：
# `MAX_UTILIZATION` 就是你刚写的，`GUARANTEED_NO_EVICT` 是这一个。
#
# 补全 `may_admit_for_good`，它在 `NoEvictScheduler` 里代替 `may_admit`，参数相同：`running` 里的全部**加上** `seq`，
# 能不能同时都写到最长？一个请求最长的时候，显存里有 `seq.longest - 1` 个 token，每块放 `config.block_size` 个；
# 池里有 `config.num_blocks` 块。它们今天占着多少，无关紧要。


# %% answer="ch06-answer-7" tags=["export"]
def may_admit_for_good(
    kv: BlockManager, seq: Sequence, num_tokens: int, config: SchedulerConfig, running: list
) -> bool:
    """en: Whether ``seq`` and all who run could be at their longest at the same time.
    zh: ``seq`` 和所有在运行的，能不能同时都写到最长。
    """
    # TODO ch06.7
    # en: The blocks of each at its longest, added up, against the pool.
    # zh: 每一个写到最长时的块数，加起来，和池比。
    promised = sum(-(-(each.longest - 1) // config.block_size) for each in [*running, seq])
    return promised <= config.num_blocks
    # END ch06.7


class NoEvictScheduler(PagedScheduler):
    """en: Lets in only who is sure to finish: nobody is ever preempted.
    zh: 只放一定能写完的进来：谁也不会被抢占。
    """

    def fits(self, seq: Sequence) -> bool:
        return may_admit_for_good(self.kv, seq, seq.num_tokens, self.config, self.running)


# %% [markdown] lang="en" hint="ch06.7"
# 1. A sum over everybody, and one comparison.
# 2. Round up **each** request's blocks before adding: blocks are not shared. `[*running, seq]` is a list of
#    all.
# 3. `sum(-(-(each.longest - 1) // config.block_size) for each in [...])`, and whether that is at most
#    `config.num_blocks`.

# %% [markdown] lang="zh" hint="ch06.7"
# 1. 对所有人求和，再比一次。
# 2. **每个**请求的块数先向上取整，再相加：块是不共用的。`[*running, seq]` 就是全部。
# 3. `sum(-(-(each.longest - 1) // config.block_size) for each in [...])`，看它是否不超过 `config.num_blocks`。

# %% [markdown] lang="en" explain="ch06.7"
# `kv` and `num_tokens` stay unused: they are there so that one function can stand in for the other. What is
# promised counts, not what is held, and so `kv.allocate` can never fail for anybody who runs.
#
# The promise is made with `max_new_tokens`, which users set generously. An answer that stops after 50 of
# 4,000 allowed tokens has blocked the memory of 4,000.

# %% [markdown] lang="zh" explain="ch06.7"
# `kv` 和 `num_tokens` 没有用上：留着它们，是为了两个函数可以互换。算数的是承诺出去的，不是手里占着的，
# 所以对在运行的请求，`kv.allocate` 永远不会失败。
#
# 承诺是按 `max_new_tokens` 作的，而用户填这个数总是很大方。允许写 4,000 个 token、写了 50 个就停的回答，占住的是 4,000 个的显存。

# %% check="ch06.7" points=2 level="extension"
check("ch06.7")

# %% [markdown] lang="en"
# Both policies, both loads; and, since the promise is made for `max_new_tokens`, a third load: chats that
# were allowed 2,000 tokens and stop when they are done. **Predict** the order of the tokens a second.

# %% [markdown] lang="zh"
# 两种策略，两种负载；既然承诺是按 `max_new_tokens` 作的，再加第三种：聊天请求一律允许写 2,000 个 token，写完自己停。
# **先猜**每秒 token 数谁高谁低。

# %%
generous = [
    Job(replace(r, max_new_tokens=2000, stop_token_ids=(2,)), stop_at=r.max_new_tokens - 1) for r in chat
]
for name, load in {**loads, tr(en="generous", zh="上限放宽"): generous}.items():
    print(name)
    told("MAX_UTIL", measured(PagedScheduler(config_of(0.02), FCFS()), load))
    told("NO_EVICT", measured(NoEvictScheduler(config_of(), FCFS()), load))

# %% [markdown] lang="en"
# On the chats the promise costs little. On long answers it costs a quarter of the throughput, and buys that
# nobody's answer stops for half a minute. Where `max_new_tokens` says nothing about the answer, it costs
# most and buys least.
#
# **Takeaway.** Throughput or an even flow: that is a decision about users, not about memory.

# %% [markdown] lang="zh"
# 聊天负载下，承诺的代价不大。长回答时，它要用掉约四分之一的吞吐量，换来的是没有谁的回答会停半分钟。
# `max_new_tokens` 和回答长度无关的时候，它最贵，换来的也最少。
#
# **结论。** 要吞吐量，还是要流畅：这是关于用户的决定，不是关于显存的。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **vLLM 0.33.0** preempts as you do, and the four rules above are its rules.
#   *(`vllm/v1/core/sched/scheduler.py`, read and driven.)* One it has not: a request that needs more blocks
#   than the pool has is not refused by the scheduler. With whole-prompt reservation it waits for ever, and
#   a small one behind it too; without it, it preempts itself and then waits for ever. *(Both measured.)*
#   There the engine checks beforehand that one request of the longest allowed length fits.
# - Its documentation advises, where preemptions are frequent: more memory for the cache, a smaller
#   `max_num_seqs` or `max_num_batched_tokens`, or more GPUs; and it counts them, so that you can see it.
#   The mode in its warning is `RECOMPUTE`. ([Optimization and Tuning,
#   v0.17.1](https://docs.vllm.ai/en/v0.17.1/configuration/optimization/))
# - **TensorRT-LLM.** `GUARANTEED_NO_EVICT` is the default (1.4.0rc4:
#   [SchedulerConfig](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/SchedulerConfig.html));
#   `MAX_UTILIZATION` is for throughput, "at the risk of having to pause requests". ([runtime
#   options](https://nvidia.github.io/TensorRT-LLM/performance/performance-tuning-guide/useful-runtime-flags.html))
#   Its scheduler has two stages: the first says whose memory is reserved in this step, the second who of
#   them runs. ([scheduler](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/torch/scheduler.html))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **vLLM 0.33.0** 的抢占和你的一样，上面四条规则就是它的规则。（`vllm/v1/core/sched/scheduler.py`，读过源码，也实际驱动运行过。）
#   有一样它没有：比整个池还大的请求，它的调度器并不拒绝。开着整段预留，这个请求永远等下去，排在后面的小请求也跟着等；
#   不开，它会把自己抢占掉，然后永远等下去。（两种都实测过。）那里靠引擎事先检查：池里至少放得下一个允许的最长请求。
# - 它的文档建议，抢占频繁时：给 cache 更多显存，调小 `max_num_seqs` 或 `max_num_batched_tokens`，或者增加 GPU；抢占次数有统计，看得见。
#   警告里写的方式是 `RECOMPUTE`。
#   （[Optimization and Tuning，v0.17.1](https://docs.vllm.ai/en/v0.17.1/configuration/optimization/)）
# - **TensorRT-LLM** 默认是 `GUARANTEED_NO_EVICT`（1.4.0rc4：
#   [SchedulerConfig](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/SchedulerConfig.html)）；
#   `MAX_UTILIZATION` 换取吞吐量，代价是请求可能被暂停。
#   （[运行时选项](https://nvidia.github.io/TensorRT-LLM/performance/performance-tuning-guide/useful-runtime-flags.html)）
#   它的调度分两段：前一段决定这一步给谁留显存，后一段决定其中谁上场。
#   （[scheduler](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/torch/scheduler.html)）

# %% [markdown] lang="en"
# ## Summary
#
# - When the pool is full and somebody needs a block, one request gives all of its blocks and keeps its
#   tokens. It comes back by one prefill over prompt and answer.
# - The victim is whom the policy would serve last. In a step that preempted, nobody comes in.
# - A step that is undone must be undone whole: the plan's entries, the budget, the place of the cursor.
# - What can never fit is refused at the door; that is why everybody else makes progress.
# - A watermark insures against the growth of the next steps. Against the growth of whole answers only a
#   promise helps, and it costs batch.

# %% [markdown] lang="zh"
# ## 小结
#
# - 池满了又有人要块，就让一个请求交出全部的块，保留它的 token。它回来时，把提示词和已有的回答用一次 prefill 算完。
# - 被抢占的，是策略最后才会服务的那一个。发生抢占的那一步，谁也不放进来。
# - 要撤销，就撤得干净：计划里的项，预算，还有下标的位置。
# - 永远放不下的，在门口就拒绝；正因如此，其他请求才都有进展。
# - 水位线防的是接下来几步的增长。要防整个回答的增长，只有事先承诺，代价是批变小。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **The wrong victim.** Give `choose_victim` the smallest key instead, and run experiment 2 at watermark
#    0. What happens to *computed twice*? Find the requests that pay.
# 2. **The cheapest victim.** Throw out whoever has the fewest tokens computed. Is less computed twice? Whom
#    does it never hit, and is that fair?
# 3. **A watermark that knows.** Keep back the blocks that those who run will need in the next 50 steps,
#    from their `longest`. Compare with the best fixed value, on both loads.
# 4. **Promise less.** Between both policies of ch06.7: promise to each half of what it may still write.
#    Sweep the half.
#
# To discuss: a user pays per token. Who pays for the tokens that are computed twice?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **选错人。** 让 `choose_victim` 返回键最小的，水位线为 0 再跑实验 2。重复计算变成多少？找出替大家付账的是哪些请求。
# 2. **最便宜的人选。** 改成请出算好的 token 最少的那个。重复计算少了吗？它永远轮不到谁，这公平吗？
# 3. **心中有数的水位线。** 根据 `longest`，留出在运行的请求今后 50 步还要的块。和最好的固定值比，两种负载都比。
# 4. **少承诺一点。** 在 ch06.7 的两种策略之间：对每个请求，只承诺它还可能写的一半。再把“一半”扫一遍。
#
# 讨论：用户按 token 付费。重复计算的那些 token，该谁付？

# %% [markdown] lang="en"
# ## What next
#
# One thing still comes in one piece: a prompt. It must fit the budget whole, it holds up everybody's next
# token, and who comes back after a preemption pays it again in a single step. Chapter 7 cuts it into
# chunks, and then holds your scheduler against vLLM's, step by step.

# %% [markdown] lang="zh"
# ## 接下来
#
# 还有一样东西是整块的：提示词。它必须整段放进预算，它让所有人的下一个 token 迟到，被抢占后回来还要一步之内再付一遍。
# 第 7 章把它切成块，然后拿你的调度器和 vLLM 一步一步对照。
