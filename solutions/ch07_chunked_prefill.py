# %% [markdown] lang="en"
# # Chapter 7 · Chunked prefill
#
# One long prompt, and everybody's next token is late: that is how chapter 4 ended. Here you cut prompts into
# chunks, so that a step never computes more than its budget, and put the parts of five chapters together into one
# scheduler. At the end it runs against vLLM's, step by step.
#
# **Time.** Core: 90 minutes at most (five TODOs, three experiments). Extension: 45 minutes more.
#
# **You need.** Chapters 4 to 6, or their references, and the policies of chapter 3. No GPU, no PyTorch.
#
# **You leave with.** The scheduler that chapters 10 and 11 build on, and the proof of what it decides.

# %% [markdown] lang="zh"
# # 第 7 章 · 分块预填充
#
# 来一段长提示词，所有人的下一个 token 都跟着迟到：第 4 章就停在这里。这一章你要把提示词切成分块，
# 让一步算的 token 绝不超过预算；再把五章的零件拼成一个调度器。最后，让它和 vLLM 的调度器一步一步对着跑。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，三个实验）；扩展部分再加 45 分钟。
#
# **基础。** 做过第 4 到 6 章，或者直接用它们的参考实现，还有第 3 章的策略。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 第 10、11 章要用的那个调度器，以及它怎样做决定的证据。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. A prompt of 8,000 tokens and a decode of one token are in the same step. Which of the two decides how long it
#    takes?
# 2. A request is preempted by recompute after 50 tokens of its answer. How many tokens must be computed before it
#    gets its next one?
# 3. A step computes positions 0 to 63 of a prompt of 100. Does it generate a token?
#
# For 1 see [chapter 2](./ch02_cost_and_metrics.ipynb), for 2 [chapter 6](./ch06_memory_pressure.ipynb); 3 is what this
# chapter is about, and [chapter 4](./ch04_continuous_batching.ipynb) has the two counters that answer it.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 同一步里有一段 8,000 个 token 的提示词，还有一个只算一个 token 的 decode。这一步要花多久，由谁决定？
# 2. 一个请求写了 50 个 token 的回答，被抢占了，要重算。它要先算多少个 token，才能得到下一个？
# 3. 提示词有 100 个 token，这一步算位置 0 到 63。它会生成 token 吗？
#
# 第 1 题见[第 2 章](./ch02_cost_and_metrics.ipynb)，第 2 题见[第 6 章](./ch06_memory_pressure.ipynb)；
# 第 3 题正是这一章要讲的，答案藏在[第 4 章](./ch04_continuous_batching.ipynb)的两个计数里。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch07", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# 32 requests decode, each with 1,000 tokens in its cache. Then a prompt joins their step:
#
# | prompt tokens in the step | the step takes |
# |---|---|
# | none | 6.0 ms |
# | 256 | 6.1 ms |
# | 512 | 8.9 ms |
# | 2,048 | 34.9 ms |
# | 8,192 | 151 ms |
# | 14,050 | 281 ms |
#
# The last row is the longest prompt of Azure's chat trace of 2023. Whoever watches an answer being written sees it stop
# for as long as 46 ordinary steps. And look at the second row: **256 tokens of a prompt are free**. A decode step waits
# for memory; up to a point, the arithmetic units have nothing better to do.
#
# *Llama-3.1-8B on an H100 by the roofline of chapter 2.*

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 32 个请求正在 decode，每个的 cache 里有 1,000 个 token。这时一段提示词加入这一步：
#
# | 这一步里提示词的 token 数 | 这一步要 |
# |---|---|
# | 没有 | 6.0 毫秒 |
# | 256 | 6.1 毫秒 |
# | 512 | 8.9 毫秒 |
# | 2,048 | 34.9 毫秒 |
# | 8,192 | 151 毫秒 |
# | 14,050 | 281 毫秒 |
#
# 最后一行是 Azure 2023 年聊天记录里最长的提示词。正在看回答往外冒的人，会发现它停住了，一停就是平常的 46 步。
# 再看第二行：**256 个 token 的提示词几乎不要钱**。decode 步在等显存，在某个限度之内，计算单元闲着也是闲着。
#
# 数字由第 2 章的 roofline 算出：Llama-3.1-8B 跑在 H100 上。

# %% [markdown] lang="en"
# ## The idea: a prompt is only a long way to go
#
# A request has two counters since chapter 4: how many tokens it has, and how many of them are computed. Nothing says
# that one step must close the gap. So give each step a **budget** of tokens, let everybody who runs take from it in turn,
# and let a prompt have what is left:
#
# ```text
#   budget 8       step 0            step 1            step 2            step 3
#
#   request 1      a a a             a                 a                 a           prompt of 3, then decode
#   request 2      b b b b b         b b b b b b b     b b b b           b           prompt of 16, in three chunks
#   request 3                                          c c c             c c c c     arrives in step 1, prompt of 7
#                  ---------------   ---------------   ---------------   -----------
#   computed       3 + 5 = 8         1 + 7 = 8         1 + 4 + 3 = 8     1 + 1 + 4 = 6
#   a token for    1                 1                 1, 2              1, 2, 3
# ```
#
# *A column a step, a letter a token computed. Nobody's decode ever waits: request 1 gets a token in every step.*
#
# Three things follow. Prompts and decodes share a step, so the free arithmetic of a decode step gets used. A step
# has a longest time, and with it the gap between two tokens. And a prompt that is larger than the budget is no longer
# refused: it just takes several steps.
#
# There is no phase in this, and no special case for the last chunk: **who is computed up to its last token gets the
# next one**. The executor sees to that.

# %% [markdown] lang="zh"
# ## 想法：提示词不过是还有很长的路要走
#
# 从第 4 章起，每个请求就有两个计数：一共有几个 token，其中算过几个。没有人规定两者的差距必须一步补上。
# 那就给每一步一份 token **预算**，在跑的依次从里面拿，剩下多少，提示词就用多少：
#
# ```text
#   budget 8       step 0            step 1            step 2            step 3
#
#   request 1      a a a             a                 a                 a           prompt of 3, then decode
#   request 2      b b b b b         b b b b b b b     b b b b           b           prompt of 16, in three chunks
#   request 3                                          c c c             c c c c     arrives in step 1, prompt of 7
#                  ---------------   ---------------   ---------------   -----------
#   computed       3 + 5 = 8         1 + 7 = 8         1 + 4 + 3 = 8     1 + 1 + 4 = 6
#   a token for    1                 1                 1, 2              1, 2, 3
# ```
#
# 图：一列是一步，一个字母是算的一个 token。没有谁的 decode 需要等：请求 1 每一步都得到一个 token。
#
# 由此得到三个好处。提示词和 decode 同在一步，decode 步里闲着的计算单元就用上了。一步最多花多久有了上限，
# 两个 token 之间的间隔也就有了上限。比预算还长的提示词不再被拒绝，多走几步而已。
#
# 这里没有“阶段”，最后一个分块也不是特例：**算到了自己最后一个 token 的，就得到下一个**。这由执行器负责。

# %% [markdown] lang="en"
# ## What is given
#
# Five chapters of parts. Each line says where a part comes from: yours where you finished it, else the reference.

# %% [markdown] lang="zh"
# ## 现成的部分
#
# 五章的零件都在这里。每一行会说明零件从哪里来：你做完的章用你自己的，没做完的用参考实现。

# %% tags=["export"]
from decodelab import chapter
from decodelab.contract import Plan, Refused, SchedulerConfig, State
from decodelab.request import Request

policies, batching, paging, memory = chapter("ch03"), chapter("ch04"), chapter("ch05"), chapter("ch06")
FCFS, PriorityOrder = policies.FCFS, policies.PriorityOrder
Sequence, WaitingQueue = batching.Sequence, batching.WaitingQueue
take_tokens, is_length = batching.take_tokens, batching.is_length
BlockManager = paging.BlockManager
may_admit, choose_victim, preempt = memory.may_admit, memory.choose_victim, memory.preempt


# %% [markdown] lang="en"
# ## TODO ch07.1 · The next chunk
#
# Fill in `next_chunk`: how many tokens of `seq` does this step compute? Start from the difference of the two counters,
# all that is not computed yet. Then, in this order:
#
# - **The cap.** Where `config.long_prefill_token_threshold` is not 0, a request gets at most so many tokens in a step,
#   so that one long prompt leaves something for those behind it. **Alone it is not capped**: `active` says how many
#   requests run or wait, this one included, and there is nobody to leave anything for.
# - **In one piece.** Where `config.enable_chunked_prefill` is off, what is more than `budget` is not cut: the answer is
#   0, and the request waits. (What the cap has cut is compared, not the whole prompt; so a cap cuts even here.)
# - **The budget.** Never more than `budget`, the tokens that this step has left.
#
# A decode step is the case in which the difference is 1. Where a prompt of `c` tokens meets a budget of `c`, it is done in
# one chunk; with `c + 1` a second chunk of one token remains, and only that one brings a token.
#
# **Predict:** budget 64, cap 20, a prompt of 70. Which chunks does it get beside another request, and which alone?

# %% [markdown] lang="zh"
# ## TODO ch07.1 · 下一个分块有多大
#
# 补全 `next_chunk`：这一步为 `seq` 算几个 token？从两个计数之差开始，也就是还没算的全部。然后依次：
#
# - **上限。** `config.long_prefill_token_threshold` 不是 0 时，一个请求在一步里最多得到这么多 token，
#   好让一段长提示词给后面的人留下些什么。**独自一个时不设限**：`active` 是在跑和在等的请求总数（含它自己），
#   只有它一个，就没有要留给谁的问题。
# - **一次算完。** `config.enable_chunked_prefill` 关着时，超过 `budget` 的不许切开：答案是 0，它继续等。
#   （拿来和预算比的，是上限削过之后的数，不是整段提示词；所以即使在这里，上限照样会切。）
# - **预算。** 绝不超过 `budget`，也就是这一步还剩的 token 数。
#
# 差是 1 的时候，就是一步 decode。`c` 个 token 的提示词碰上 `c` 的预算，一个分块就算完；
# `c + 1` 个的，还剩一个 token，要再来第二个分块，而只有这第二个才带来新 token。
#
# **先猜：** 预算 64，上限 20，提示词 70。旁边还有别的请求时，它得到哪几个分块？独自一个呢？


# %% answer="ch07-answer" tags=["export"]
def next_chunk(seq: Sequence, budget: int, active: int, config: SchedulerConfig) -> int:
    """en: How many tokens of ``seq`` a step computes that has ``budget`` left; ``active`` requests run or wait.
    zh: 这一步还剩 ``budget`` 个 token，为 ``seq`` 算几个；在跑和在等的一共 ``active`` 个请求。
    """
    # TODO ch07.1
    # en: What is not computed yet; at most the cap, unless alone; 0 where it may not be cut; at most the budget.
    # zh: 还没算的；除非独自一个，不超过上限；不许切开又放不下，就是 0；不超过预算。
    count = seq.num_tokens - seq.num_computed_tokens
    if active > 1 and config.long_prefill_token_threshold:
        count = min(count, config.long_prefill_token_threshold)
    if count <= budget:
        return count
    return budget if config.enable_chunked_prefill else 0
    # END ch07.1


# %% [markdown] lang="en" hint="ch07.1"
# 1. Four steps, in the order of the text: the difference, then each rule makes it smaller or leaves it.
# 2. A threshold of 0 means "no cap", so test it before you take `min` with it. `active > 1` is "not alone". With
#    chunking off, exactly as much as the budget still fits.
# 3. `count = seq.num_tokens - seq.num_computed_tokens`; `if active > 1 and config.long_prefill_token_threshold:` the
#    `min`; `if count <= budget: return count`; and for what is larger, `budget` or 0.

# %% [markdown] lang="zh" hint="ch07.1"
# 1. 四步，次序和正文一样：先求差，然后每条规则要么把它变小，要么不动它。
# 2. 阈值是 0 表示“不设限”，所以先判断再取 `min`。`active > 1` 就是“不止它一个”。关掉分块时，正好等于预算的仍然放得下。
# 3. `count = seq.num_tokens - seq.num_computed_tokens`；`if active > 1 and config.long_prefill_token_threshold:` 里取
#    `min`；`if count <= budget: return count`；更大的，看能不能切，返回 `budget` 或 0。

# %% [markdown] lang="en" explain="ch07.1"
# There is no "last chunk" in it. A chunk that reaches the end of the prompt is the last one by arithmetic, and the
# executor generates a token for whoever is computed to the end. A preempted request is no special case either: its counter
# is 0 again, so its prompt *and* what it has generated come in chunks.
#
# Beside another: 20, 20, 20, 10. Alone: 64, 6. Both were measured on vLLM.
#
# vLLM cuts a chunk at the model's length, too, because it lets prompts in that have no room for a single token. Yours are
# refused at the door (`ch07.4`), so that cut could never act.

# %% [markdown] lang="zh" explain="ch07.1"
# 里面没有“最后一个分块”这回事。走到提示词末尾的那个，算出来自然就是最后一个；谁算到了末尾，执行器就给谁生成一个 token。
# 被抢占的请求也不是特例：它的计数回到 0，于是提示词**连同**已经写出来的部分，都一个分块一个分块地重新算。
#
# 旁边有人：20、20、20、10。独自一个：64、6。两种都在 vLLM 上实测过。
#
# vLLM 还会按模型的最大长度截断分块，因为它会放进一个 token 都容不下的提示词。你的调度器在门口就拒绝了（`ch07.4`），
# 这样的截断永远用不上。

# %% check="ch07.1" points=3 level="core"
check("ch07.1")

# %% [markdown] lang="en"
# ## One scheduler out of five chapters
#
# `ChunkedScheduler` holds no rule twice. Chapter 3's policy says who is next and who is the victim, chapter 4's queue and
# `take_tokens` wait and count, chapter 5's block manager has the memory, chapter 6's functions admit and preempt. What is
# missing is the loop between them, and that is this chapter.
#
# Read `compute` and `let_in`; the TODOs call them.
#
# - `self.compute(plan, seq, count)` gets `seq` the blocks for `count` more tokens and writes it into the plan. `True` if it
#   could; where blocks are lacking it returns `False` and **has changed nothing**.
# - `self.let_in(plan, seq)` moves `seq` from waiting to running and tells the plan so.
#
# The cell holds three TODOs. (`ch07.4` stands first in the cell and is explained last.)

# %% [markdown] lang="zh"
# ## 五章拼成的调度器
#
# `ChunkedScheduler` 里没有一条规则写了两遍。下一个是谁、抢占谁，由第 3 章的策略决定；排队和计数，用第 4 章的队列和
# `take_tokens`；显存归第 5 章的块管理器管；准入和抢占，调用第 6 章的函数。缺的只是把它们串起来的循环，也就是这一章。
#
# 读一读 `compute` 和 `let_in`，TODO 里要用。
#
# - `self.compute(plan, seq, count)` 为 `seq` 准备好再放 `count` 个 token 的块，并把它写进计划。办成了返回 `True`；
#   块不够就返回 `False`，而且**什么都没有改**。
# - `self.let_in(plan, seq)` 把 `seq` 从等待移到运行，并告诉计划。
#
# 这个单元格里有三个 TODO。（`ch07.4` 在单元格里排在最前面，讲解放在最后。）


# %% answer="ch07-answer-2" tags=["export"]
class ChunkedScheduler:
    """en: The parts of chapters 3 to 6 around one token budget; ``kv`` is a block manager, by default one of its own.
    zh: 第 3 到 6 章的零件，围着一份 token 预算转；``kv`` 是块管理器，默认自己造一个。
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
        seq = Sequence(request)
        # TODO ch07.4
        # en: Where there is a max_model_len: refuse a prompt that leaves no room for a token, and end seq there.
        # zh: 有 max_model_len 时：提示词一个 token 的余地都不留，就拒绝；否则让 seq 到那里为止。
        limit = self.config.max_model_len
        if limit is not None:
            if request.prompt_len >= limit:
                raise Refused("over_model_len")
            seq.longest = min(seq.longest, limit)
        # END ch07.4
        self.refuse_what_never_fits(seq.longest - 1)
        self.now = now
        self.ids.add(request.request_id)
        self.sequences[request.request_id] = seq
        self.waiting.push(seq, now)

    def refuse_what_never_fits(self, longest: int) -> None:
        """en: Refused where ``longest`` tokens, all but the last one, can never be in the cache at once.
        zh: 除最后一个外的 ``longest`` 个 token 永远不可能同时在 cache 里，就抛 Refused。
        """
        if longest > self.config.num_blocks * self.config.block_size:
            raise Refused("never_fits")
        if longest > self.config.max_num_batched_tokens and not self.config.enable_chunked_prefill:
            raise Refused("over_budget")

    def schedule(self, now: float) -> Plan:
        """en: The next step: first who runs, then who waits; nobody is let in when memory has just run out.
        zh: 下一步做什么：先是在跑的，再是在等的；刚刚显存不够时，谁也不放进来。
        """
        plan = Plan()
        budget = self.serve_running(plan, now)
        if not plan.preempted:
            self.admit_waiting(plan, budget, now)
        return plan

    def serve_running(self, plan: Plan, now: float) -> int:
        """en: Let everybody who runs go on, in order of admission; the budget that is left.
        zh: 让在跑的都往前走，按准入次序；返回剩下的预算。
        """
        # TODO ch07.2
        # en: Each gets its next chunk while there is budget; preempt until it has blocks, or was its own victim.
        # zh: 只要还有预算，就给每个请求下一个分块；显存块不够就抢占，直到够了，或者抢占的是它自己。
        running, i = self.running, 0
        budget = self.config.max_num_batched_tokens
        while i < len(running) and budget > 0:
            seq = running[i]
            count = next_chunk(seq, budget, len(self.sequences), self.config)
            while not self.compute(plan, seq, count):
                victim = choose_victim(running, self.policy, now)
                i -= running.index(victim) < i
                budget += preempt(self, victim, plan, now)
                if victim is seq:
                    break
            else:
                budget -= count
                i += 1
        return budget
        # END ch07.2

    def admit_waiting(self, plan: Plan, budget: int, now: float) -> None:
        """en: Let in who waits, the next in line first, as long as there are slots, blocks and budget.
        zh: 放进在等的，排在最前的先来，直到位置、块或预算不够。
        """
        # TODO ch07.3
        # en: While there is budget and a slot: next in line, its chunk, may_admit; let it in, compute; or stop.
        # zh: 还有预算和空位时：看下一个是谁、它的下一个分块、may_admit；放进来并计算；不行就停。
        config, running = self.config, self.running
        while budget > 0 and len(running) < config.max_num_seqs and (seq := self.waiting.peek(now)):
            count = next_chunk(seq, budget, len(self.sequences), config)
            if not (count and may_admit(self.kv, seq, count, config, running)):
                return
            self.let_in(plan, seq)
            self.compute(plan, seq, count)
            budget -= count
        # END ch07.3

    def let_in(self, plan: Plan, seq: Sequence) -> None:
        """en: ``seq`` waits no longer, it runs. What is computed of it already is cached: nothing before chapter 11.
        zh: ``seq`` 不再等待，开始运行。它已经算好的部分就是缓存：第 11 章之前一点也没有。
        """
        self.waiting.remove(seq)
        self.running.append(seq)
        if seq.preempted:
            plan.resumed.append(seq.request_id)
        else:
            plan.new.append(seq.request_id)
            plan.cached[seq.request_id] = seq.num_computed_tokens

    def compute(self, plan: Plan, seq: Sequence, count: int) -> bool:
        """en: Let the step compute ``count`` more tokens of ``seq``; False, and nothing changed, where blocks lack.
        zh: 让这一步再算 ``seq`` 的 ``count`` 个 token；块不够就返回 False，什么都不改。
        """
        request_id, start, kv = seq.request_id, seq.num_computed_tokens, self.kv
        end = start + count
        if end > len(kv.tables.get(request_id, ())) * kv.block_size:
            if not kv.allocate(request_id, end):
                return False
            plan.block_tables[request_id] = list(kv.tables[request_id])
        plan.scheduled[request_id] = count
        plan.start[request_id] = start
        seq.num_computed_tokens = end
        return True

    def update(self, plan: Plan, tokens: dict, now: float) -> dict:
        """en: Take in what the step generated; who ended by it, and why.
        zh: 收下这一步生成的 token；返回谁结束了、为什么。
        """
        self.now = now
        finished = {}
        for request_id, new_tokens in tokens.items():
            seq = self.sequences.get(request_id)
            if seq and (reason := take_tokens(seq, new_tokens)):
                finished[request_id] = reason
        for request_id in finished:
            self.abort(request_id, now)
        return finished

    def abort(self, request_id, now: float) -> None:
        """en: Forget a request, waiting or running, and take its blocks back; an unknown id is ignored.
        zh: 忘掉一个请求，在等的、在跑的都行，收回它的块；不认识的 id 不理会。
        """
        seq = self.sequences.pop(request_id, None)
        if seq in self.running:
            self.running.remove(seq)
            self.kv.free(request_id)
        elif seq:
            self.waiting.remove(seq)

    def state(self) -> State:
        """en: Who runs, who waits, and how many blocks are free.
        zh: 谁在跑、谁在等、还有几个空闲块。
        """
        running = [seq.request_id for seq in self.running]
        waiting = [seq.request_id for seq in self.waiting.ordered(self.now)]
        return State(running, waiting, self.kv.num_free)


# %% [markdown] lang="en"
# ## TODO ch07.2 · First those who run
#
# Fill in `serve_running`. Everybody who runs goes on, **in order of admission**, which is the order of `self.running`;
# whether a request is in the middle of its prompt or of its answer makes no difference.
#
# - The budget starts at `max_num_batched_tokens`. Each request gets `next_chunk(seq, budget, active, config)` tokens of what
#   is left, and the loop ends when nothing is left. `active` is how many run or wait: `self.sequences` has them all.
#   The chunk is never 0 here: exercise 2 asks why.
# - `self.compute` enters it. Where that says no, **memory is short**: preempt the `choose_victim(self.running, self.policy,
#   now)` with `preempt(self, victim, plan, now)`, and try again with the same chunk, which is not made larger by what a
#   victim gives back; until there is room or the victim was this request itself; then the next one follows, which now
#   stands at the same index.
# - `preempt` returns the tokens that the victim had in this step already; the budget gets them back.
# - Mind the cursor: `preempt` takes the victim out of `self.running`. If the victim stood before the request that you
#   serve, everybody behind it moves up by one place.
# - Return the budget that is left.
#
# You know this loop from `ch06.5`. New is that each request gets a chunk, and the budget that the chunks share.

# %% [markdown] lang="zh"
# ## TODO ch07.2 · 先管在跑的
#
# 补全 `serve_running`。在跑的每一个都往前走，**按准入次序**，也就是 `self.running` 的次序；
# 它正算到提示词的一半，还是回答的一半，没有区别。
#
# - 预算从 `max_num_batched_tokens` 开始。每个请求从剩下的里面拿 `next_chunk(seq, budget, active, config)` 个 token，
#   拿光了循环就结束。`active` 是在跑和在等的总数：全都在 `self.sequences` 里。分块在这里不会是 0，练习 2 会问为什么。
# - 用 `self.compute` 写进计划。它说不行，就是**显存不够**：用 `choose_victim(self.running, self.policy, now)` 选出一个，
#   `preempt(self, victim, plan, now)` 抢占它，再用同一个分块去试，别人还回来的不会让这个分块变大；
#   直到放得下，或者抢占的就是这个请求自己。抢占了自己，就轮到下一个，它现在正站在同一个下标上。
# - `preempt` 返回被抢占者在这一步已经拿到的 token 数，要还给预算。
# - 小心游标：`preempt` 会把被抢占者从 `self.running` 里拿走。如果被抢占者排在正在处理的请求前面，后面的就都往前挪了一位。
# - 返回剩下的预算。
#
# 这个循环你在 `ch06.5` 写过。新的是：每个请求得到一个分块，而这些分块共用一份预算。

# %% [markdown] lang="en" hint="ch07.2"
# 1. `for` over a list that shrinks under you skips people. Use an index, `i`, and a `while`; the index only moves on when
#    a request got its chunk.
# 2. The inner loop is `while not self.compute(plan, seq, count):`. In it: the victim; `i` less one if
#    `self.running.index(victim) < i` (look *before* you preempt); `budget += preempt(...)`; and `break` where
#    `victim is seq`. Python's `while … else` runs the `else` only where no `break` happened.
# 3. `while i < len(running) and budget > 0:` `seq = running[i]`, `count = next_chunk(seq, budget, len(self.sequences),
#    self.config)`, the inner loop, and in its `else` `budget -= count` and `i += 1`; behind everything `return budget`.

# %% [markdown] lang="zh" hint="ch07.2"
# 1. 对一个边走边缩短的列表用 `for`，会漏掉人。用下标 `i` 和 `while`；只有请求拿到了自己的分块，下标才往前走。
# 2. 内层循环是 `while not self.compute(plan, seq, count):`。里面：选出要抢占的；如果
#    `self.running.index(victim) < i`，`i` 减一（要在抢占**之前**看）；`budget += preempt(...)`；
#    `victim is seq` 就 `break`。Python 的 `while … else`，只有没 `break` 时才走 `else`。
# 3. `while i < len(running) and budget > 0:` 里面是 `seq = running[i]`、`count = next_chunk(seq, budget,
#    len(self.sequences), self.config)`、内层循环，内层的 `else` 里 `budget -= count`、`i += 1`；最后 `return budget`。

# %% [markdown] lang="en" explain="ch07.2"
# Running first, in order of admission, is what bounds the gap between two tokens: whoever decodes takes one token from a
# budget of `max_num_batched_tokens`, and `max_num_seqs` of them never use it up as long as it is the larger number. A
# partly computed prompt stands at the place where it came in, usually the last one, and gets the rest.
#
# Can those who run use the budget up before the last of them has a token? No. Each had at least one when it came in, and
# takes no more in a later step than it took then, unless it is the last. So nobody who runs is ever left out, and no chunk is
# ever negative: that is what schedulers have computed that take the decodes off the budget first, without looking.
#
# After a request has preempted itself the loop goes on with whoever stands at its place now. Under FCFS there is nobody: it
# was the last one. Under priorities there may be.

# %% [markdown] lang="zh" explain="ch07.2"
# 在跑的优先、按准入次序，这就限定了两个 token 之间的间隔：正在 decode 的，每一步只从 `max_num_batched_tokens` 里拿一个；
# 只要预算大于 `max_num_seqs`，所有 decode 加起来也用不完。算到一半的提示词排在它进来时的位置，通常是最后，拿剩下的。
#
# 在跑的会不会没轮到最后一个，就把预算用光了？不会。每个进来的时候都至少拿到一个 token，以后每一步拿的不会比那时多，除非它是最后一个。
# 所以在跑的谁也不会落空，分块也绝不会是负数：有些调度器不看一眼就先从预算里减掉 decode，真的算出过负数。
#
# 请求把自己抢占之后，循环接着看现在站在那个位置上的是谁。FCFS 下没有人：它本来就是最后一个。有优先级时就可能有。

# %% check="ch07.2" points=4 level="core"
check("ch07.2")

# %% [markdown] lang="en"
# ## TODO ch07.3 · Then those who wait
#
# Fill in `admit_waiting`. It gets the budget that the running have left, and `schedule` calls it only in a step that
# preempted nobody (chapter 6: who has just been thrown out must not be let in again at once).
#
# - As long as there is budget, a free slot (`max_num_seqs`) and somebody who waits: look at the **next in line**,
#   `self.waiting.peek(now)`, and at its next chunk. It may be a part of its prompt: that is **partial admission**.
# - It comes in if its chunk is not 0 and `may_admit(self.kv, seq, count, config, self.running)` agrees. Then `let_in`,
#   `compute`, and the budget shrinks.
# - Otherwise stop. Nobody overtakes it, even if a smaller one behind it would fit.

# %% [markdown] lang="zh"
# ## TODO ch07.3 · 再管在等的
#
# 补全 `admit_waiting`。它拿到的是在跑的用剩的预算；这一步只要抢占过谁，`schedule` 就不会调用它
# （第 6 章：刚被赶出去的，不能马上又放进来）。
#
# - 只要还有预算、还有空位（`max_num_seqs`）、还有人在等：看**排在最前面的**是谁，`self.waiting.peek(now)`，
#   再看它的下一个分块。分块可以只是提示词的一部分：这叫**部分准入**。
# - 分块不是 0，而且 `may_admit(self.kv, seq, count, config, self.running)` 同意，就放它进来：`let_in`、`compute`，预算减少。
# - 否则就停。谁也不能越过它，哪怕后面有更小的放得下。

# %% [markdown] lang="en" hint="ch07.3"
# 1. It is the loop of `ch04.5`, with a chunk in the place of the whole prompt and `may_admit` beside the slots.
# 2. `peek` shows the same request until `let_in` takes it out. `may_admit` only looks; the blocks are taken by `compute`,
#    which cannot fail after it. With a chunk of 0 nothing may be entered into the plan.
# 3. `while budget > 0 and len(self.running) < self.config.max_num_seqs and (seq := self.waiting.peek(now)):`, inside it
#    `count = next_chunk(...)`, `if not (count and may_admit(...)): return`, then the three lines that let it in.

# %% [markdown] lang="zh" hint="ch07.3"
# 1. 就是 `ch04.5` 的那个循环：整段提示词换成一个分块，位置之外再加上 `may_admit`。
# 2. `let_in` 把它取走之前，`peek` 看到的一直是同一个请求。`may_admit` 只看不动；块由 `compute` 来拿，这时不会失败。
#    分块是 0 时，什么都不能写进计划。
# 3. `while budget > 0 and len(self.running) < self.config.max_num_seqs and (seq := self.waiting.peek(now)):`，里面
#    `count = next_chunk(...)`，`if not (count and may_admit(...)): return`，然后是放它进来的三行。

# %% [markdown] lang="en" explain="ch07.3"
# Once a prompt may come in by parts, "does it fit into the budget?" is no longer a question: any budget above 0 will do.
# What remains are slots and memory. Memory is asked for this chunk only, unless `reserve_full_prompt` is on; so a
# prompt can come in, and find no blocks for its rest. That is a gamble, and experiment 3 shows its price.
#
# The blocks go to whoever is first in line or to nobody. Letting a small one past would be better for it, and a stream of
# small ones would keep the large one out for ever.

# %% [markdown] lang="zh" explain="ch07.3"
# 提示词可以一部分一部分地进来，“预算放不放得下”就不成问题了：只要大于 0 就行。剩下要问的是位置和显存。
# 显存只问这个分块够不够，除非开了 `reserve_full_prompt`；所以一段提示词可能进来了，后半段却没有块。这是在赌，实验 3 会看到赌注有多大。
#
# 块要么给排在最前面的，要么谁也不给。放小的先过，对它当然好；可是小的一个接一个，大的就永远进不来了。

# %% check="ch07.3" points=3 level="core"
check("ch07.3")

# %% [markdown] lang="en"
# ## TODO ch07.4 · The model's length
#
# A model has a longest text, `max_model_len` tokens, prompt and answer together. Fill in the gap of `add_request`; `seq` is
# the new request's `Sequence`, not taken in yet. Where `self.config.max_model_len` is `None`, there is no limit.
#
# - A prompt that leaves no room for one token can never get an answer: `raise Refused("over_model_len")`. A prompt that is one
#   shorter than the limit gets exactly one token.
# - Any other answer ends at the limit, if not before: put `seq.longest` right, and `take_tokens` does the rest. It says
#   `"stop"` for a stop token on the last possible place, and `"length"` for any other token there.
#
# The lines behind the gap refuse what can never fit into memory, and they count up to `seq.longest`: a request that asks
# for a million tokens is fine if the model ends it early enough.

# %% [markdown] lang="zh"
# ## TODO ch07.4 · 模型的长度
#
# 模型能处理的文本有最大长度 `max_model_len`，提示词和回答加在一起算。补全 `add_request` 里的空；`seq` 是新请求的
# `Sequence`，还没有收下。`self.config.max_model_len` 是 `None`，就没有限制。
#
# - 提示词连一个 token 的余地都不留，永远得不到回答：`raise Refused("over_model_len")`。比限度短一个的，正好得到一个 token。
# - 其他的回答，最迟到限度为止：把 `seq.longest` 改对，其余交给 `take_tokens`。停止 token 落在最后一个位置上，
#   它说 `"stop"`；别的 token 落在那里，它说 `"length"`。
#
# 空后面的几行拒绝显存永远放不下的，算到 `seq.longest` 为止：要一百万个 token 的请求也没问题，只要模型及早让它结束。

# %% [markdown] lang="en" hint="ch07.4"
# 1. One `if` for "is there a limit", and inside it one refusal and one assignment.
# 2. The prompt and one token must fit: a prompt *as long as* the limit is refused. `seq.longest` is the `num_tokens` at which
#    the answer has its last token, and may only become smaller.
# 3. `limit = self.config.max_model_len`; `if limit is not None:`, in it `if request.prompt_len >= limit: raise ...` and
#    `seq.longest = min(...)`.

# %% [markdown] lang="zh" hint="ch07.4"
# 1. 一个 `if` 判断“有没有限度”，里面一次拒绝、一次赋值。
# 2. 提示词加一个 token 要放得下：和限度**一样长**的提示词要拒绝。`seq.longest` 是回答写完最后一个 token 时的
#    `num_tokens`，只能变小。
# 3. `limit = self.config.max_model_len`；`if limit is not None:` 里面，`if request.prompt_len >= limit: raise ...`，
#    再 `seq.longest = min(...)`。

# %% [markdown] lang="en" explain="ch07.4"
# A limit that is known at the door belongs at the door. vLLM 0.33.0's scheduler takes a prompt as long as the limit, computes
# all of it but the last token, and then plans nothing for it for ever (measured: 64, 64, 64, 63 of 256, then empty plans);
# its engine has other code that catches such prompts before. Your scheduler has nothing in front of it.
#
# With `longest` put right once, no other line of the course needs to know of the limit: not the counting of tokens, not the
# reasons, not the memory.

# %% [markdown] lang="zh" explain="ch07.4"
# 在门口就知道的限制，就该在门口处理。vLLM 0.33.0 的调度器会收下和限度一样长的提示词，算到只差最后一个 token，
# 然后永远不再给它安排（实测：256 个 token，算了 64、64、64、63，之后全是空计划）；它的引擎另有代码在前面拦住这种提示词。
# 你的调度器前面可没有别人。
#
# `longest` 改对一次，课程里就再没有别的代码需要知道这个限度：数 token 的不用，给原因的不用，管显存的也不用。

# %% check="ch07.4" points=2 level="core"
check("ch07.4")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the four checks pass: the experiments run **your** scheduler, and the finale compares it with vLLM's.
#
# Stuck? `hint("ch07.2", 1)` gives a direction, `hint("ch07.2", 2)` the tool and the trap beside it,
# `hint("ch07.2", 3)` almost the code, `solution("ch07.2")` the reference and why it is written that way. Give a
# TODO fifteen honest minutes before each.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 四个检查都通过了再往下看：实验跑的是**你的**调度器，压轴戏是拿它和 vLLM 的比。
#
# 卡住了？`hint("ch07.2", 1)` 给一个方向，`hint("ch07.2", 2)` 说该用什么、小心什么，
# `hint("ch07.2", 3)` 差不多就是代码，`solution("ch07.2")` 是参考实现和理由。
# 每看下一样之前，先老老实实想十五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## The worked case
#
# The picture from the top: a budget of 8; prompts of 3, 16 and 7 tokens; request 3 arrives in step 1. **Predict** step 3
# and the rest, then run. In the strip a chunk is a colour of its own.

# %% [markdown] lang="zh"
# ## 完整走一遍
#
# 就是开头那张图：预算 8；提示词 3、16、7；请求 3 在第 1 步到达。先**猜**第 3 步和之后的样子，再运行。条带图里，分块有自己的颜色。

# %%
from decodelab.log import events, record_all
from decodelab.request import Job
from decodelab.run import Loop, StepClock
from decodelab.show.plots import event_strip
from decodelab.sim.executor import SimExecutor

three = [
    Job(Request(1, 0.0, prompt_len=3, max_new_tokens=5)),
    Job(Request(2, 0.0, prompt_len=16, max_new_tokens=2)),
    Job(Request(3, 0.0, prompt_len=7, max_new_tokens=2), arrival_step=1),
]


def logged(budget, **others):
    """en: The log of a run of the three with this budget.
    zh: 三个请求在这份预算下跑一遍的日志。
    """
    config = SchedulerConfig(4, budget, block_size=4, num_blocks=16, **others)
    loop = Loop(three, ChunkedScheduler(config, FCFS()), SimExecutor(), StepClock(), watch=True)
    return list(record_all(loop))


records = logged(8)
for record in records:
    print(record["step"], record["scheduled"], "tokens for", list(record["tokens"]))
event_strip(events(records, [job.request for job in three]))

# %% [markdown] lang="en"
# *A row a request, a column a step. Request 2 gets no token before the step that computes its last chunk.*

# %% [markdown] lang="zh"
# 图：一行是一个请求，一列是一步。请求 2 要等到算完最后一个分块的那一步，才得到 token。

# %% [markdown] lang="en"
# ### Walk through a run
#
# The same three under other budgets; drag the step. **Find:** what does the cap of 3 do for request 3, and what does it cost
# request 2? And is there a budget under which request 1 misses a step?

# %% [markdown] lang="zh"
# ### 亲手走一遍
#
# 还是这三个请求，换几种预算；拖动步数看看。**找一找：** 上限 3 给了请求 3 什么好处，又让请求 2 付了什么代价？
# 有没有哪种预算，会让请求 1 有一步什么也没得到？

# %%
from decodelab.show.explorer import explore

explore(
    {
        "three requests": {
            "budget 8": records,
            "budget 4": lambda: logged(4),
            "budget 16": lambda: logged(16),
            "budget 8, cap 3": lambda: logged(8, long_prefill_token_threshold=3),
            "budget 32, in one piece": lambda: logged(32, enable_chunked_prefill=False),
        }
    }
)

# %% [markdown] lang="en"
# ## Experiments: what a chunk is worth
#
# ### Experiment 1 · The longest silence
#
# 300 chat requests, 12 a second, on an H100. Once with prompts in one piece, once with a budget of 512. We look into the
# steps, and for the longest time that anybody waited between two tokens of an answer, the largest ITL: call it the **decode gap**.
#
# **Predict:** the longest prompt has 6,050 tokens. How long is the longest gap in each of the two?

# %% [markdown] lang="zh"
# ## 实验：一个分块值多少
#
# ### 实验 1 · 最长的停顿
#
# 300 个聊天请求，每秒来 12 个，跑在 H100 上。一次让提示词一口气算完，一次用 512 的预算。
# 看每一步的构成，再看写回答时两个 token 之间最长等了多久，也就是最大的 ITL，这里叫它 **decode 间隔**。
#
# **先猜：** 最长的提示词有 6,050 个 token。两次的最长间隔各是多少？

# %%
from decodelab.show.plots import batch_composition
from decodelab.sim.hardware import GPUS, MODELS
from decodelab.timings import Timings, timings
from decodelab.workload import long_document_like, synthetic

costs = chapter("ch02")
llama = costs.Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])
chat = list(synthetic("azure-chat-like", 300, seed=4, rate=12))
# en: Blocks; memory is not the subject here.
# zh: 块数；这里不谈显存。
PLENTY = 200_000


def limits(budget, **others):
    return SchedulerConfig(128, budget, **({"num_blocks": PLENTY} | others))


def p(values, q):
    """en: A percentile in milliseconds, of those that there are.
    zh: 以毫秒计的百分位数；没有的不算。
    """
    return 1000 * costs.percentile([value for value in values if value is not None], q)


def longest_gap(seen):
    """en: The longest time between two tokens of one answer, in milliseconds.
    zh: 同一个回答里，相邻两个 token 之间最长的时间，毫秒。
    """
    return 1000 * max(b - a for t in seen for a, b in zip(t.token_times, t.token_times[1:], strict=False))


in_pieces, in_one = limits(512), limits(8192, enable_chunked_prefill=False)
kept: dict = {}
for config in (in_one, in_pieces):
    seen, kept[config] = Timings(), []
    steps = []
    for step in Loop(chat, ChunkedScheduler(config, FCFS()), SimExecutor(llama), watch=True):
        seen.see(step)
        steps.append(step)
    kept[config] = list(record_all(steps))
    print(
        tr(en="chunks", zh="分块") if config.enable_chunked_prefill else tr(en="one piece", zh="一口气"),
        tr(
            en=f"longest gap {longest_gap(seen):.0f} ms, TPOT p95 {p(map(costs.tpot, seen), 95):.1f} ms",
            zh=f"最长间隔 {longest_gap(seen):.0f} 毫秒，TPOT p95 {p(map(costs.tpot, seen), 95):.1f} 毫秒",
        ),
    )

# %%
batch_composition(kept[in_one][:200])

# %%
batch_composition(kept[in_pieces][:200], 512)

# %% [markdown] lang="en"
# *The first 200 steps, first in one piece, then in chunks: tokens a step, decodes below, prompts hatched above. Mind the
# two scales, they differ: in the first picture the decodes are there, but too low to see.*
#
# The peaks of the first picture are what users see as a stutter; in the second there is a ceiling, the budget. The longest
# gap falls by a factor of eleven. TPOT, a mean over an answer, falls by a quarter only: one gap of 108 ms in an answer of
# 200 tokens is 0.5 ms a token. **If you look at means only, you will not find this problem.**

# %% [markdown] lang="zh"
# 图：前 200 步，先是一口气算完，再是分块。高度是一步的 token 数，下面是 decode，上面带斜纹的是提示词。
# 注意两张图的刻度不同：第一张图里 decode 也在，只是矮得看不见。
#
# 第一张图里的尖峰，就是用户看到的卡顿；第二张图有个天花板，那就是预算。最长间隔缩短到十一分之一。
# TPOT 是一个回答里的平均数，只降了四分之一：200 个 token 里有一次 108 毫秒的停顿，摊下来每个 token 才 0.5 毫秒。
# **只看平均数，是发现不了这个问题的。**

# %% [markdown] lang="en"
# ### Experiment 2 · How large should a chunk be?
#
# "512" is a number that gets repeated. Sweep the budget. A small one bounds every step; but all prompts must get through
# it, and each step reads all weights once, however little it computes.
#
# **Predict:** which curve turns first when the budget shrinks, TPOT or TTFT? And below which budget does the queue never
# empty?

# %% [markdown] lang="zh"
# ### 实验 2 · 分块该有多大？
#
# 常听人说“512”。把预算扫一遍。预算小，每一步都短；可是所有提示词都得从这里挤过去，而且不管算得多少，每一步都要把权重读一遍。
#
# **先猜：** 预算变小，先拐弯的是 TPOT 还是 TTFT？小到多少，队伍就再也排不完？

# %%
from decodelab.show.plots import sweep

budgets = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
tpots: dict[float, float | None] = {}
ttfts: dict[float, float | None] = {}
for budget in budgets:
    seen = timings(Loop(chat, ChunkedScheduler(limits(budget), FCFS()), SimExecutor(llama)))
    tpots[budget], ttfts[budget] = p(map(costs.tpot, seen), 95), p(map(costs.ttft, seen), 95)
    print(
        tr(
            en=f"{budget:5d}  TPOT p95 {tpots[budget]:5.1f} ms   TTFT p95 {ttfts[budget]:8,.0f} ms   gap {longest_gap(seen):5.1f} ms",
            zh=f"{budget:5d}  TPOT p95 {tpots[budget]:5.1f} 毫秒   TTFT p95 {ttfts[budget]:8,.0f} 毫秒   最长间隔 {longest_gap(seen):5.1f} 毫秒",
        )
    )
sweep({"TPOT p95": tpots}, "tok", "ms", log=True)

# %%
sweep({"TTFT p95": {budget: ttft for budget, ttft in ttfts.items() if budget > 64}}, "tok", "ms", log=True)

# %% [markdown] lang="en"
# *x: the budget, on a logarithmic axis; y: the slowest 5 % begin here. In the second picture 64 is left out: its
# point would lie far above the frame.*
#
# TPOT turns first, from 4,096 down; TTFT only below 512.
#
# 12 requests a second bring about 16,000 prompt tokens a second. With 64 a step, of which some twenty are decodes, and 190
# steps a second, they do not get through: the queue grows for as long as people come. From 512 on TTFT is flat, and up to 256
# the gap (printed above the picture) is flat: there a step is bound by memory, and the prompt's arithmetic is free. So "512" is a good answer **here**,
# and what decides is where the roofline bends: about 300 tokens on this card, for this model. Another card bends elsewhere.

# %% [markdown] lang="zh"
# 图：横轴是预算，对数刻度；纵轴是最慢的 5% 从哪里开始。第二张图没有画 64，它的点远在图框之上。
#
# 先拐弯的是 TPOT，从 4,096 往下就开始了；TTFT 要到 512 以下才拐。
#
# 每秒 12 个请求，带来大约 16,000 个提示词 token。一步 64 个，其中二十来个是 decode，一秒走 190 步，根本过不完：
# 只要还有人来，队伍就一直变长。512 以上，TTFT 是平的；256 以下，最长间隔（印在图的上面）是平的：那里的一步受限于访存，提示词的计算不花钱。
# 所以在**这里**“512”是个好答案，而真正起决定作用的是 roofline 在哪里拐弯：这张卡、这个模型，大约 300 个 token。换张卡，就在别处拐弯。

# %% [markdown] lang="en"
# One number more, the cap: `long_prefill_token_threshold`. With a budget of 2,048, prompts of at most 1,000 tokens beside
# longer ones:

# %% [markdown] lang="zh"
# 还有一个数：上限 `long_prefill_token_threshold`。预算 2,048，把不超过 1,000 个 token 的提示词和更长的分开看：

# %%
for cap in (0, 256, 512, 1024):
    config = limits(2048, long_prefill_token_threshold=cap)
    seen = timings(Loop(chat, ChunkedScheduler(config, FCFS()), SimExecutor(llama)))
    short = p((costs.ttft(t) for t in seen if t.prompt_len <= 1000), 95)
    long = p((costs.ttft(t) for t in seen if t.prompt_len > 3000), 95)
    print(
        tr(
            en=f"cap {cap:4d}: TTFT p95 of the short {short:4.0f} ms, of the long (over 3,000) {long:4.0f} ms",
            zh=f"上限 {cap:4d}：TTFT p95，短的 {short:4.0f} 毫秒，长的（超过 3,000）{long:4.0f} 毫秒",
        )
    )

# %% [markdown] lang="en"
# **Takeaway.** The budget bounds what a step costs; the cap bounds what one prompt may take of it. The short ones wait half
# as long, the long ones pay for it, and the sum of the work is the same.

# %% [markdown] lang="zh"
# **结论。** 预算管一步的代价，上限管一段提示词能占其中多少。短的少等一半，账由长的付，总的活一点没变。

# %% [markdown] lang="en"
# ### Experiment 3 · "512, and 256 when memory runs out"
#
# Another piece of advice. Here is a pool that is too small: 2,600 blocks, 20 requests a second. We count preemptions
# and how many tokens were computed more than once, for four budgets; first as it is, then with chapter 6's
# `reserve_full_prompt`.
#
# **Predict:** does a smaller chunk help? And if so, is it the chunk that helps?

# %% [markdown] lang="zh"
# ### 实验 3 · “取 512，显存不够就取 256”
#
# 又一条流传的建议。这里有一个偏小的池：2,600 块，每秒 20 个请求。四种预算，各数一数抢占了几次、多少 token 被重复计算；
# 先照原样跑，再打开第 6 章的 `reserve_full_prompt`。
#
# **先猜：** 分块小一些有用吗？如果有用，起作用的真的是分块的大小吗？

# %%
rush = list(synthetic("azure-chat-like", 300, seed=4, rate=20))
once = sum(request.prompt_len + request.max_new_tokens - 1 for request in rush)
for reserve in (False, True):
    print(f"reserve_full_prompt={reserve}")
    for budget in (256, 512, 2048, 8192):
        config = limits(budget, num_blocks=2_600, reserve_full_prompt=reserve)
        preempted = computed = 0
        loop = Loop(rush, ChunkedScheduler(config, FCFS()), SimExecutor(llama))
        for step in loop:
            preempted += len(step.plan.preempted)
            computed += sum(step.plan.scheduled.values())
        print(
            tr(
                en=f"{budget:6d}: {preempted:4d} preemptions, {computed / once - 1:5.0%} computed again, {loop.clock.now:.1f} s",
                zh=f"{budget:6d}：抢占 {preempted:4d} 次，重算 {computed / once - 1:5.0%}，共 {loop.clock.now:.1f} 秒",
            )
        )

# %% [markdown] lang="en"
# It helps: from 2,048 to 256, preemptions fall to about a quarter, and the work that is done twice from all of it to an
# eighth. But look at the second half. With the whole prompt reserved, at most 28 are left at *any* budget. What
# hurt was **partial admission**: a prompt comes in with blocks for its first chunk and none for its rest, and somebody is
# thrown out for it. A budget of 8,192 shows it from the other side: prompts come in whole, and there is hardly anything left
# to thrash.
#
# **Takeaway.** A small chunk lets in more slowly; that is why it helps, and it treats the symptom. Reserving the
# prompt treats the cause. (In real engines there is a second reason for small chunks, the memory for a step's activations, which
# this simulator does not count.)

# %% [markdown] lang="zh"
# 有用：从 2,048 降到 256，抢占少到四分之一左右，白做的活从整整一遍降到八分之一。可是看看后一半：把整段提示词都预留下来，
# **不管**预算多大，抢占最多只剩 28 次。真正伤人的是**部分准入**：提示词进来时只有第一个分块的显存，后半段没有着落，
# 只好把别人赶出去。8,192 从反面说明了同一件事：提示词整段进来，也就没什么可折腾的了。
#
# **结论。** 分块小，放人进来就慢，所以有用，但治的是标；预留整段提示词，治的才是本。
# （真实的引擎里，小分块还有一个好处：一步的激活值占的显存少。这个模拟器不算激活值。）

# %% [markdown] lang="en"
# ## Finale: your scheduler against vLLM's
#
# The course carries recorded runs of **vLLM 0.33.0's own scheduler**: 14 workloads first come, first served, and 21 with
# priorities (15 of these use a prefix cache, too, and have to wait for chapter 11). There are late arrivals, aborts, early stops,
# chunks and preemptions; of each step the recording has what was scheduled, who was let in, who was thrown out, both queues, the free
# blocks, who finished and why. Yours has been written from rules that chapters 3 to 7 gave reasons for, one by one. If the
# reasons were right and you followed them, **every step is the same**.
#
# One rule is left. vLLM's victim under priorities is, of those who run, the least urgent one that came last, and it does not look
# at ids: of two equal ones the one that was admitted first goes. `VllmPriority` is that order. (In a queue a tie still goes to the
# smaller id, and vLLM compares ids there as text. In its numbers a *small* priority is urgent; the reader of the recordings has
# turned that round.)

# %% [markdown] lang="zh"
# ## 压轴戏：你的调度器对 vLLM 的调度器
#
# 课程里带着 **vLLM 0.33.0 自己的调度器**的运行记录：14 组先来先服务，21 组带优先级（其中 15 组还用了前缀缓存，要等到第 11 章）。
# 里面有迟到的、取消的、提前结束的，也有分块和抢占；每一步都记着安排了什么、放进了谁、赶走了谁、两条队列、空闲块数、谁结束了、为什么。
# 你的调度器是照着第 3 到 7 章一条一条讲过道理的规则写的。道理要是讲得对，你也照着做了，**那就每一步都一样**。
#
# 还剩一条规则。带优先级时，vLLM 抢占的是正在运行的里面最不急、又来得最晚的那个，而且不看 id：两个一样，先放进来的走。
# `VllmPriority` 就是这个次序。（排队时的平局仍然给 id 小的，vLLM 在那里把 id 当文本比较。在它的数字里，priority **小**的急；
# 读记录时已经换成了我们的方向。）


# %% tags=["export"]
class VllmPriority:
    """en: The more urgent first; among equals, who came first. Two that came together are equal, whatever their ids.
    zh: 急的在前；一样急的，先到的在前。同时到的两个不分先后，不看 id。
    """

    static = True

    def key(self, request: Request, now: float) -> tuple:
        return (-request.priority, request.arrival_time)


# %% [markdown] lang="en"
# ## TODO ch07.5 · Put it together
#
# Fill in `like_vllm(config, policy)`: the scheduler for a recorded run, out of your parts.
#
# - `policy` is `"fcfs"` or `"priority"`. The first is `FCFS`, the second the order just given.
# - The block manager has `config.num_blocks` blocks of `config.block_size`. (vLLM's pool has one block more, its null block,
#   which no request gets; the reader of the recordings has taken it off.)
# - A configuration with `enable_prefix_caching` needs chapter 11. Say so by returning `None`.
#
# The check replays recorded runs through it and compares every field of every step, **`state()` included**: both queues and the
# free blocks. It does not compare block ids, which are yours to choose.

# %% [markdown] lang="zh"
# ## TODO ch07.5 · 拼起来
#
# 补全 `like_vllm(config, policy)`：用你的零件，为一次录下的运行造出调度器。
#
# - `policy` 是 `"fcfs"` 或 `"priority"`。前者用 `FCFS`，后者用刚才给出的次序。
# - 块管理器有 `config.num_blocks` 个大小为 `config.block_size` 的块。（vLLM 的池里多一个占位的 null block，谁也拿不到，读记录时已经去掉了。）
# - 开了 `enable_prefix_caching` 的配置要等到第 11 章：返回 `None`，表示还不支持。
#
# 检查会用它重放录下的运行，逐步逐字段地比，**`state()` 也算在内**：两条队列和空闲块数。块号不比，用哪几块随你。


# %% answer="ch07-answer-3" tags=["export"]
def like_vllm(config: SchedulerConfig, policy: str) -> ChunkedScheduler | None:
    """en: A scheduler for a recorded run; ``policy`` is "fcfs" or "priority". None where it needs a prefix cache.
    zh: 为一次录下的运行造一个调度器；``policy`` 是 "fcfs" 或 "priority"。需要前缀缓存的，返回 None。
    """
    # TODO ch07.5
    # en: None with enable_prefix_caching. Else a ChunkedScheduler with the policy that breaks ties as vLLM does.
    # zh: 开了 enable_prefix_caching 就返回 None。否则是一个 ChunkedScheduler，策略在平局时要和 vLLM 一样。
    if config.enable_prefix_caching:
        return None
    order = FCFS() if policy == "fcfs" else VllmPriority()
    return ChunkedScheduler(config, order, BlockManager(config.num_blocks, config.block_size))
    # END ch07.5


# %% [markdown] lang="en" hint="ch07.5"
# 1. Three lines: what it cannot do, which order, and the scheduler.
# 2. A policy is an *object*: `FCFS()`, not `FCFS`. Ours in chapter 3, `PriorityOrder`, has the id in its key, and would choose
#    another victim among equals.
# 3. `if config.enable_prefix_caching: return None`; `order = FCFS() if policy == "fcfs" else VllmPriority()`;
#    `return ChunkedScheduler(config, order, ...)`, with a `BlockManager` of the right size.

# %% [markdown] lang="zh" hint="ch07.5"
# 1. 三行：做不了的、用哪种次序、造出调度器。
# 2. 策略是一个**对象**：`FCFS()`，不是 `FCFS`。第 3 章的 `PriorityOrder` 键里有 id，平局时会选出另一个来抢占。
# 3. `if config.enable_prefix_caching: return None`；`order = FCFS() if policy == "fcfs" else VllmPriority()`；
#    `return ChunkedScheduler(config, order, ...)`，省略号处是大小合适的 `BlockManager`。

# %% [markdown] lang="en" explain="ch07.5"
# That the answer is so short is the point: nothing in it decides anything. Policy, queue, memory, admission, preemption and
# chunks were each written for a reason of their own, and they meet only in the lists and numbers that they hand each other.
#
# Why do our own policies have the id in the key? Because ties can hurt: under `VllmPriority` two requests of equal rank can
# throw each other out for ever, each the first of equals in its turn. Exercise 4 has such a workload.

# %% [markdown] lang="zh" explain="ch07.5"
# 答案这么短，正是要说明的事：这里面什么决定都没有做。策略、队列、显存、准入、抢占、分块，每一样都是为了自己的理由写的，
# 它们之间只靠交接的列表和数字打交道。
#
# 我们自己的策略为什么要把 id 放进键里？因为平局会惹祸：用 `VllmPriority`，两个不分高下的请求可能永远互相赶来赶去，
# 轮流当那个“先放进来的”。练习 4 里就有这样一组负载。

# %% check="ch07.5" points=4 level="core"
check("ch07.5")

# %% [markdown] lang="en"
# Now the whole of it, with **your** `like_vllm` over whatever you have written, and block ids too for those who are curious.
# (On the command line: `decodelab parity`, `decodelab parity --block-ids`.)

# %% [markdown] lang="zh"
# 现在全部跑一遍，用**你的** `like_vllm`，架在你写的一切之上；好奇的话，连块号也一起比。
# （命令行里是 `decodelab parity`、`decodelab parity --block-ids`。）

# %%
from decodelab.lang import say
from decodelab.parity import differences, recorded, workloads

for name in ("plain", "priority"):
    runs = [run for run in workloads(recorded(name)) if not run.config.enable_prefix_caching]
    for block_ids in (False, True):
        parted = [found for found in differences(runs, like_vllm, block_ids) if found]
        exact, steps = len(runs) - len(parted), sum(len(run.events) for run in runs)
        print(
            tr(
                en=f"{name}{', block ids too' if block_ids else ''}: {exact}/{len(runs)} exact, {steps} steps",
                zh=f"{name}{'，含块号' if block_ids else ''}：{exact}/{len(runs)} 完全一致，共 {steps} 步",
            )
        )
        for found in parted[:1]:
            print("  ", say(found.text))

# %% [markdown] lang="en"
# If your block ids differ, nothing is wrong: any free block is as good as another. Equal ones come from handing out the block
# that was freed last, and from freeing a request's blocks in the order of its table.
#
# **Takeaway.** Some three hundred lines over five chapters decide as a production scheduler decides. What vLLM has beside them,
# and you will add: prefix caching (chapter 11), speculation (chapter 12), and the engine itself (chapter 10). What these runs do *not*
# show: vLLM in production schedules one step ahead of the model, and its sequence then differs from this one.

# %% [markdown] lang="zh"
# 块号不一样也没有错：哪个空闲块都一样好用。要想一样，就先发最后收回的块，并且按块表的次序收回。
#
# **结论。** 五章加起来三百来行代码，做出的决定和生产用的调度器一样。vLLM 另外有的，后面会补上：前缀缓存（第 11 章）、
# 投机解码（第 12 章），还有引擎本身（第 10 章）。这些记录**没有**说明的是：生产环境里的 vLLM 会比模型早一步调度，次序与此不同。

# %% [markdown] lang="en"
# ## Extension: dividing a step
#
# *Three TODOs in one cell. Their points are counted apart, and no later chapter needs them.*
#
# `SharedScheduler` takes the same chunks in another way: an order of its own (`ch07.6`), a quota for prompts (`ch07.7`), and
# a gate that pauses long prompts (`ch07.8`). `schedule` is written and calls the three.

# %% [markdown] lang="zh"
# ## 扩展：怎样分一步
#
# **一个单元格里三个 TODO。** 单独计分，后面的章节用不到。
#
# `SharedScheduler` 还是那些分块，换一种分法：自己的次序（`ch07.6`），给提示词的配额（`ch07.7`），以及让长提示词暂停的闸门
# （`ch07.8`）。`schedule` 已经写好，会调用这三样。


# %% answer="ch07-answer-4" tags=["export"]
from bisect import bisect_right


class SharedScheduler(ChunkedScheduler):
    """en: Divides each step between prompts and answers. For pools that do not run out: it never preempts.
    zh: 把每一步在提示词和回答之间分。用于显存够用的场合：从不抢占。
    """

    def __init__(
        self, config, policy, first="decode", share=1.0, seconds=None, pace=0.0, low=0, high=1 << 60
    ):
        super().__init__(config, policy)
        self.first, self.share = first, share
        self.seconds, self.pace = seconds or (lambda new_tokens: 0.0), pace
        self.low, self.high = low, high
        self.suspended = False

    def serving_order(self, running: list, newcomers: list) -> list:
        """en: Who takes from the budget first, by ``self.first``: "admission", "decode" or "prefill".
        zh: 谁先从预算里拿，由 ``self.first`` 决定："admission"、"decode" 或 "prefill"。
        """
        # TODO ch07.6
        # en: Split running into decodes (one token left) and prefills; put the three lists together.
        # zh: 把 running 分成 decode（只差一个 token）和 prefill，再把三个列表接起来。
        decodes = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens == 1]
        prefills = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens > 1]
        if self.first == "decode":
            return decodes + prefills + newcomers
        if self.first == "prefill":
            return prefills + newcomers + decodes
        return running + newcomers
        # END ch07.6

    def prefill_quota(self, decodes: int) -> int:
        """en: How many tokens of a step prompts may take, in which ``decodes`` requests decode.
        zh: 有 ``decodes`` 个请求在 decode 的一步里，提示词最多可以用几个 token。
        """
        budget = self.config.max_num_batched_tokens
        # TODO ch07.7
        # en: No decodes: all of it. Else the share; where there is a pace, no more than it allows; but at least 1.
        # zh: 没有 decode：全部。否则是份额那么多；有 pace 时不超过它允许的；但至少 1 个。
        if not decodes:
            return budget
        quota = int(self.share * budget)
        if self.pace:
            quota = bisect_right(range(decodes + 1, decodes + quota + 1), 1 / self.pace, key=self.seconds)
        return max(quota, 1)
        # END ch07.7

    def gate(self, pressure: int) -> bool:
        """en: Whether long prefills pause in this step, in which ``pressure`` requests decode.
        zh: 这一步有 ``pressure`` 个请求在 decode，长的 prefill 要不要暂停。
        """
        # TODO ch07.8
        # en: Suspend from self.high on; once suspended, resume only at self.low or below.
        # zh: 到 self.high 就暂停；暂停之后，要降到 self.low 或以下才恢复。
        if self.suspended:
            self.suspended = pressure > self.low
        else:
            self.suspended = pressure >= self.high
        return self.suspended
        # END ch07.8

    def schedule(self, now: float) -> Plan:
        """en: The next step, divided.
        zh: 下一步做什么，按份额分。
        """
        plan, budget = Plan(), self.config.max_num_batched_tokens
        newcomers = self.waiting.ordered(now)[: self.config.max_num_seqs - len(self.running)]
        decodes = sum(seq.num_tokens - seq.num_computed_tokens == 1 for seq in self.running)
        quota, paused = self.prefill_quota(decodes), self.gate(decodes)
        for seq in self.serving_order(list(self.running), newcomers):
            left, runs = seq.num_tokens - seq.num_computed_tokens, seq.num_computed_tokens > 0
            prefills = not runs or left > 1
            room = min(budget, quota) if prefills else budget
            if room < 1 or (paused and left > self.config.max_num_batched_tokens):
                continue
            count = next_chunk(seq, room, len(self.sequences), self.config)
            if not runs:
                if not may_admit(self.kv, seq, count, self.config, self.running):
                    break
                self.let_in(plan, seq)
            self.compute(plan, seq, count)
            budget, quota = budget - count, quota - count * prefills
        return plan


# %% [markdown] lang="en"
# ## TODO ch07.6 · Prefill first, decode first
#
# Fill in `serving_order`: one list of sequences, in the order in which they take from the budget. `running` is in order of
# admission, `newcomers` in the order of the policy; keep both orders inside the parts. A running sequence of which one token
# is left to compute counts as a **decode**, with more it is a **prefill**.
#
# - `self.first == "decode"`: decodes, then prefills, then newcomers.
# - `"prefill"`: prefills, then newcomers, then decodes.
# - `"admission"`: everybody who runs as they stand, then newcomers. That is `ch07.2`.

# %% [markdown] lang="zh"
# ## TODO ch07.6 · prefill 优先，decode 优先
#
# 补全 `serving_order`：返回一个列表，里面的请求依次从预算里拿。`running` 按准入次序，`newcomers` 按策略的次序；
# 各部分内部保持原来的次序。在跑的请求只差一个 token 没算，就算 **decode**；差得更多，就算 **prefill**。
#
# - `self.first == "decode"`：decode，然后 prefill，然后新来的。
# - `"prefill"`：prefill，然后新来的，然后 decode。
# - `"admission"`：在跑的照原样，然后新来的。这就是 `ch07.2`。

# %% [markdown] lang="en" hint="ch07.6"
# 1. Split `running` in two, and put three lists together in three ways.
# 2. Two list comprehensions with the same difference in their conditions, `seq.num_tokens - seq.num_computed_tokens`; lists
#    are joined with `+`. Newcomers are never decodes, not even with a prompt of one token.
# 3. `decodes = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens == 1]`, `prefills` with `> 1`; then
#    `return decodes + prefills + newcomers` under its `if`, and the other two likewise.

# %% [markdown] lang="zh" hint="ch07.6"
# 1. 把 `running` 分成两份，再用三种方式把三个列表接起来。
# 2. 两个列表推导式，条件里是同一个差 `seq.num_tokens - seq.num_computed_tokens`；列表用 `+` 连接。
#    新来的永远不算 decode，哪怕提示词只有一个 token。
# 3. `decodes = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens == 1]`，`prefills` 用 `> 1`；
#    然后在各自的 `if` 下面 `return decodes + prefills + newcomers`，另外两种照此类推。

# %% [markdown] lang="en" explain="ch07.6"
# Without a cap, "decode" and "admission" are nearly the same: a prompt that was cut used up the budget, so whoever was
# admitted after it came in when it was done. Prefill first is chapter 1's rule on a larger scale, and what is wrong with it has
# stayed the same: as long as prompts come, answers stand still.

# %% [markdown] lang="zh" explain="ch07.6"
# 没有上限时，“decode”和“admission”几乎一样：被切开的提示词用光了预算，排在它后面进来的，进来时它已经算完了。
# prefill 优先就是第 1 章的那条规则，规模大了一些，毛病还是那个毛病：只要还有提示词来，回答就停在那里。

# %% check="ch07.6" points=2 level="extension"
check("ch07.6")

# %% [markdown] lang="en"
# ## TODO ch07.7 · A quota for prompts
#
# Fill in `prefill_quota(decodes)`: how many tokens of the coming step may prompts take together? `budget` is
# `max_num_batched_tokens`.
#
# - Nobody decodes: all of `budget`. There is nobody to protect.
# - **A share.** Otherwise at most `self.share` of the budget, rounded down.
# - **A pace.** Where `self.pace` is not 0, everybody who decodes is promised so many tokens a second, so a step may take
#   at most `1 / self.pace` seconds. `self.seconds(n)` predicts a step with `n` tokens in all, and never falls as `n` grows:
#   find the largest quota with which `decodes` and quota together are in time. (The cell has imported `bisect_right` for
#   this; counting down works as well.)
# - But never 0: at least **one** token, or prompts would wait for as long as anybody decodes.

# %% [markdown] lang="zh"
# ## TODO ch07.7 · 给提示词的配额
#
# 补全 `prefill_quota(decodes)`：接下来这一步，所有提示词一共可以用几个 token？`budget` 就是 `max_num_batched_tokens`。
#
# - 没有人在 decode：整个 `budget`。没有谁需要保护。
# - **份额。** 否则最多是预算的 `self.share`，向下取整。
# - **步速。** `self.pace` 不是 0 时，就是向每个 decode 中的请求承诺每秒这么多 token，所以一步最多 `1 / self.pace` 秒。
#   `self.seconds(n)` 预测一共 `n` 个 token 的一步要几秒，`n` 变大它不会变小：找出最大的配额，使 `decodes` 加上配额仍然来得及。
#   （单元格里引入的 `bisect_right` 就是为此准备的；一个一个往下数也行。）
# - 但绝不为 0：至少**一个** token，不然只要还有人 decode，提示词就得一直等。

# %% [markdown] lang="en" hint="ch07.7"
# 1. Start from the share, make it smaller until the pace is kept, and look at the end whether anything is left.
# 2. Counting down one by one works. Faster: `bisect_right(numbers, limit, key=f)` says how many of ascending numbers have
#    `f(number) <= limit`, and a `range` is such a list. A step that takes exactly the time is in time.
# 3. `quota = int(self.share * budget)`; `if self.pace: quota = bisect_right(range(decodes + 1, decodes + quota + 1),
#    1 / self.pace, key=self.seconds)`; `return max(quota, ...)`.

# %% [markdown] lang="zh" hint="ch07.7"
# 1. 从份额开始，缩小到守得住步速为止，最后看看还剩不剩。
# 2. 一个一个往下数就行。更快的办法：`bisect_right(一串递增的数, 限度, key=f)` 告诉你有几个数满足 `f(数) <= 限度`，
#    `range` 就是这样一串数。正好用完时间的一步，算来得及。
# 3. `quota = int(self.share * budget)`；`if self.pace: quota = bisect_right(range(decodes + 1, decodes + quota + 1),
#    1 / self.pace, key=self.seconds)`；最后 `return max(quota, ...)`。

# %% [markdown] lang="en" explain="ch07.7"
# The longest time for a step and the least rate of decoding are one promise, said twice: `1 / pace`. A share, in contrast, is a
# number without a unit: whether 70 % of a budget is in time depends on the budget, the model, and the card.
#
# The one token at the end is a bound on waiting. It costs a decode next to nothing, and a prompt of `n` tokens is done in `n`
# steps at the latest.

# %% [markdown] lang="zh" explain="ch07.7"
# 一步最多多久，decode 最少多快，是同一个承诺的两种说法：`1 / pace`。份额却是一个没有单位的数：
# 预算的 70% 来不来得及，要看预算、模型和卡。
#
# 末尾那一个 token，给等待设了上限。它对 decode 几乎没有影响，而 `n` 个 token 的提示词，最迟 `n` 步也能算完。

# %% check="ch07.7" points=3 level="extension"
check("ch07.7")

# %% [markdown] lang="en"
# ## TODO ch07.8 · A gate that does not flutter
#
# Fill in `gate(pressure)`. It is asked once in every step, with the number of requests that decode, and says whether long
# prefills (those with more left than a whole budget) pause in this step. Keep the answer in `self.suspended`.
#
# - While it is open: it closes when `pressure` has reached `self.high`.
# - While it is closed: it opens when `pressure` has fallen to `self.low`. At `low = 0` that means at 0.
#
# Between the two thresholds everything stays as it is. That is **hysteresis**: with one threshold for both, every request
# that comes or goes would turn the gate round.

# %% [markdown] lang="zh"
# ## TODO ch07.8 · 不会来回跳的闸门
#
# 补全 `gate(pressure)`。每一步问它一次，参数是正在 decode 的请求数；它回答长的 prefill（剩下的比一整份预算还多的）这一步
# 要不要暂停。答案记在 `self.suspended` 里。
#
# - 开着时：`pressure` 到了 `self.high` 就关上。
# - 关着时：`pressure` 降到 `self.low` 就打开。`low = 0` 时，降到 0 就打开。
#
# 在两个阈值之间，一切照旧。这叫**滞回**（hysteresis）：要是两头共用一个阈值，每来一个或走一个请求，闸门就翻转一次。

# %% [markdown] lang="en" hint="ch07.8"
# 1. What the gate does depends on how it stands: two branches, one comparison each.
# 2. Closed: it stays closed as long as `pressure` is *above* `low`. Open: it closes *at* `high`. `pressure < low` as the condition
#    to open would never come true at `low = 0`.
# 3. `if self.suspended: self.suspended = pressure > self.low`, `else: self.suspended = ...`, `return self.suspended`.

# %% [markdown] lang="zh" hint="ch07.8"
# 1. 怎么动，要看它现在是开是关：两个分支，各做一次比较。
# 2. 关着：只要 `pressure` **大于** `low`，就继续关着。开着：**到了** `high` 就关。
#    用 `pressure < low` 做打开的条件，`low = 0` 时就永远打不开。
# 3. `if self.suspended: self.suspended = pressure > self.low`，`else: self.suspended = ...`，最后 `return self.suspended`。

# %% [markdown] lang="en" explain="ch07.8"
# A thermostat works like this, and for the same reason. The pressure is the number of *decodes*, not of those who wait: decodes
# end by themselves, so the gate opens again whatever comes. Had it been the number of waiting requests, and all of them long, the
# gate would keep them waiting because they wait.

# %% [markdown] lang="zh" explain="ch07.8"
# 恒温器就是这样工作的，道理也一样。压力取的是 **decode** 的个数，而不是在等的个数：decode 自己会结束，所以不管来什么，
# 闸门总会再打开。要是取在等的个数，而在等的又全是长的，闸门就会因为它们在等，让它们继续等。

# %% check="ch07.8" points=2 level="extension"
check("ch07.8")

# %% [markdown] lang="en"
# ### Experiment 4 · "Prefill 70 %, decode 30 %"
#
# Long documents now: prompts of thousands of tokens, 2 a second, a budget of 2,048. First the three orders, then the share
# from 10 % to 100 %, and beside the two best-known shares a plain scheduler whose whole budget is that share.
#
# **Predict:** is a share something that a smaller budget could not do?

# %% [markdown] lang="zh"
# ### 实验 4 · “prefill 70%，decode 30%”
#
# 这回是长文档：提示词有几千个 token，每秒来 2 个，预算 2,048。先比三种次序，再把份额从 10% 扫到 100%；
# 两个常见的份额旁边，再放一个普通的调度器，整份预算就等于那个份额。
#
# **先猜：** 份额能做到的，缩小预算就做不到吗？

# %%
documents = long_document_like(120, rate=2.0, seed=4)


def told(name, scheduler):
    seen = timings(Loop(documents, scheduler, SimExecutor(llama)))
    tpot, ttft = p(map(costs.tpot, seen), 95), p(map(costs.ttft, seen), 95)
    gap = longest_gap(seen)
    print(
        tr(
            en=f"{name:22} TPOT p95 {tpot:6.1f} ms   gap {gap:7,.0f} ms   TTFT p95 {ttft:7,.0f} ms",
            zh=f"{name:22} TPOT p95 {tpot:6.1f} 毫秒   最长间隔 {gap:7,.0f} 毫秒   TTFT p95 {ttft:7,.0f} 毫秒",
        )
    )


for first in ("admission", "decode", "prefill"):
    told(first, SharedScheduler(limits(2048), FCFS(), first))
for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
    told(f"share {share:.0%}", SharedScheduler(limits(2048), FCFS(), share=share))
for budget in (614, 1433):
    told(f"plain, budget {budget}", ChunkedScheduler(limits(budget), FCFS()))
told(
    "pace 120 tokens/s",
    SharedScheduler(limits(2048), FCFS(), seconds=lambda n: llama(n, 60_000, 60_000), pace=120),
)

# %% [markdown] lang="en"
# Prefill first is out of the question: somebody looks at half an answer for eight seconds. The share is a dial between
# TPOT and TTFT, and "70 / 30" is one of its marks, at a place where the step is bound by arithmetic in any case. A plain budget of
# the same size does the same within a few percent. What a share adds is small: prompts may use the whole budget when nobody
# decodes.
#
# **Takeaway.** "70 / 30" is not wrong, it is a budget in disguise, and without the budget it says nothing. A pace says what
# is meant, in seconds, and finds the number by itself.

# %% [markdown] lang="zh"
# prefill 优先不用考虑了：有人盯着半截回答看了八秒。份额是 TPOT 和 TTFT 之间的一个旋钮，“70 / 30”是上面的一个刻度，
# 而那里的步反正都受限于计算。同样大小的普通预算，效果只差百分之几。份额多出来的好处很小：没有人 decode 时，提示词可以用满整份预算。
#
# **结论。** “70 / 30”没有错，它是换了个名字的预算；不说预算是多少，它就什么都没说。步速把想要的直接说成秒，数字它自己去找。

# %% [markdown] lang="en"
# And the gate: how often does it turn, with one threshold and with two?

# %% [markdown] lang="zh"
# 再看闸门：一个阈值和两个阈值，各翻转多少次？

# %%
for low, high in ((15, 16), (8, 24), (0, 1_000)):
    scheduler = SharedScheduler(limits(2048), FCFS(), low=low, high=high)
    turned, seen, before = 0, Timings(), False
    for step in Loop(documents, scheduler, SimExecutor(llama)):
        seen.see(step)
        turned += scheduler.suspended != before
        before = scheduler.suspended
    short = p((costs.ttft(t) for t in seen if t.prompt_len <= 2048), 95)
    long = p((costs.ttft(t) for t in seen if t.prompt_len > 2048), 95)
    print(
        tr(
            en=f"low {low}, high {high}: turned {turned} times; TTFT p95 short {short:,.0f} ms, long {long:,.0f} ms",
            zh=f"low {low}，high {high}：翻转 {turned} 次；TTFT p95，短的 {short:,.0f} 毫秒，长的 {long:,.0f} 毫秒",
        )
    )

# %% [markdown] lang="en"
# Two thresholds turn it seldom. But look at the last row, in which the gate never closes: a pause for the long ones makes them
# wait for much longer, and the short ones gain next to nothing, or lose too. The budget has bounded every step already, and a
# prompt in chunks blocks nobody's decode. **Measure a remedy against doing nothing**, not only against its own variants.

# %% [markdown] lang="zh"
# 两个阈值，翻转得就少。可是看最后一行，闸门从来没有关过：让长的暂停，它们要多等很久，短的也几乎没有得到好处，两个阈值时甚至更久。
# 预算早就给每一步封了顶，切成分块的提示词也不会挡住谁的 decode。**一个办法要和“什么都不做”比**，不能只和它自己的变体比。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **Sarathi-Serve** (Agrawal et al., OSDI 2024) proposed chunked prefills and stall-free scheduling: new requests join without
#   pausing those that decode. Its abstract gives 2.6 times the serving capacity for Mistral-7B on one A100, and up to 3.7 times for
#   Yi-34B on two, against the vLLM of that time, under limits on tail latency. ([arXiv 2403.02310](https://arxiv.org/abs/2403.02310))
# - **vLLM 0.33.0** decides as your finale shows. Its names are the ones that you used: `max_num_batched_tokens`,
#   `long_prefill_token_threshold`, `enable_chunked_prefill`. *(`vllm/v1/core/sched/scheduler.py`, read and driven.)*
# - **TensorRT-LLM** calls it *chunked context* (`enable_chunked_prefill`), and says why it also saves memory: what a step needs
#   depends on the tokens that it computes, no longer on the length of the prompt.
#   ([long sequences](https://nvidia.github.io/TensorRT-LLM/features/long-sequence.html)) There prefills stand before decodes in a
#   batch, since its kernels want them so.
#   ([scheduling](https://nvidia.github.io/TensorRT-LLM/features/paged-attention-ifb-scheduler.html))
# - **SGLang** has `--chunked-prefill-size`, and advises 4096 or 2048 where memory runs out *during prefill*: that is
#   the activations' memory, not the pool of experiment 3.
#   ([troubleshooting](https://www.mintlify.com/sgl-project/sglang/resources/troubleshooting))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **Sarathi-Serve**（Agrawal 等，OSDI 2024）提出了分块预填充和 stall-free（不停顿）调度：新请求加入时，不让正在 decode 的停下。
#   摘要里说，在尾延迟的限度之内，单张 A100 上的 Mistral-7B，服务容量是当时 vLLM 的 2.6 倍；两张卡上的 Yi-34B，最多 3.7 倍。
#   （[arXiv 2403.02310](https://arxiv.org/abs/2403.02310)）
# - **vLLM 0.33.0** 怎样决定，压轴戏里已经看到了。名字就是你用的那些：`max_num_batched_tokens`、`long_prefill_token_threshold`、
#   `enable_chunked_prefill`。（`vllm/v1/core/sched/scheduler.py`，读过源码，也实际驱动运行过。）
# - **TensorRT-LLM** 把它叫作 chunked context（`enable_chunked_prefill`），还说明了它为什么也省显存：
#   一步要多少显存，取决于这一步算几个 token，不再取决于提示词有多长。
#   （[长序列](https://nvidia.github.io/TensorRT-LLM/features/long-sequence.html)）它的批里 prefill 排在 decode 前面，因为 kernel 这样要求。
#   （[调度](https://nvidia.github.io/TensorRT-LLM/features/paged-attention-ifb-scheduler.html)）
# - **SGLang** 的选项叫 `--chunked-prefill-size`，文档建议在 **prefill 时**显存不够，就降到 4096 或 2048：说的是激活值占的显存，
#   不是实验 3 里的那个池。（[故障排查](https://www.mintlify.com/sgl-project/sglang/resources/troubleshooting)）

# %% [markdown] lang="en"
# ## Summary
#
# - A prompt is a request whose counters are far apart. Cutting it needs one number, the budget, and no phase.
# - Running first, in order of admission, then the waiting: whoever decodes gets a token in every step, and a step has a
#   longest time.
# - A chunk is free as long as the step is bound by memory. Where that ends is where the right budget lies; "512" is one card's
#   answer.
# - Partial admission is a gamble on memory. Reserve the prompt where the pool is small.
# - What is too long for the model is refused at the door, and nothing behind the door needs to know.
# - Parts that were each written for a reason decide, together, as vLLM's scheduler decides.

# %% [markdown] lang="zh"
# ## 小结
#
# - 提示词不过是两个计数相差很大的请求。切开它只要一个数，就是预算，不需要什么阶段。
# - 先管在跑的，按准入次序，再管在等的：正在 decode 的每一步都有一个 token，一步最多多久也有了上限。
# - 只要一步还受限于访存，加进去的分块就不要钱。到哪里为止，合适的预算就在哪里；“512”是某一张卡的答案。
# - 部分准入是拿显存在赌。池小的时候，把整段提示词预留下来。
# - 对模型来说太长的，在门口拒绝，门里的代码不必知道有这回事。
# - 一个个各有理由的零件，合在一起，做出的决定和 vLLM 的调度器一样。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **Your card.** Draw the first picture of experiment 2 for `GPUS["L4"]` and `GPUS["RTX 4090"]`, at `rate=1`, which they can
#    bear. Where does each bend, and how does that compare with its ratio of FLOP/s to bytes/s?
# 2. **Nobody left out.** Show that everybody who runs gets at least one token in every step, however small the budget is. Then let
#    `admit_waiting` run before `serve_running`: find a workload in which somebody who runs gets nothing.
# 3. **One long prompt.** Give one request a prompt of 100,000 tokens, and let short ones arrive all the time. How long does it
#    take under a cap of 256, and how does that depend on how many others there are?
# 4. **A tie that never ends.** With `VllmPriority`, 15 blocks of 2, a budget of 5 and a cap of 3: find two requests of equal
#    priority that throw each other out for ever. (Prompts of 19 are a start.) Why can it not happen with the id in the key?
#
# To discuss: vLLM makes its decisions one step ahead of the model, when it does not know yet who will have stopped. Which of
# your lines would have to change?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **你的卡。** 用 `GPUS["L4"]` 和 `GPUS["RTX 4090"]` 画出实验 2 的第一张图，到达率用它们扛得住的 `rate=1`。各在哪里拐弯？和它每秒 FLOP 与每秒字节之比是什么关系？
# 2. **谁也不落空。** 说明为什么不管预算多小，在跑的每一步都至少得到一个 token。然后让 `admit_waiting` 先于 `serve_running`：
#    找一组负载，使某个在跑的一个 token 也得不到。
# 3. **一段长提示词。** 给一个请求 100,000 个 token 的提示词，同时不断有短的来。上限 256 时它要多久？和别人的多少有什么关系？
# 4. **没完没了的平局。** 用 `VllmPriority`，15 个大小为 2 的块，预算 5，上限 3：找出两个优先级相同、永远互相赶来赶去的请求。
#    （提示词从 19 开始试。）键里有 id，为什么就不会发生？
#
# 讨论：vLLM 会比模型早一步做决定，那时还不知道谁会停下。你的哪几行得改？

# %% [markdown] lang="en"
# ## What next
#
# The scheduler is done, and nothing has been computed yet. Chapter 8 builds the other half: a decoder that reads a prompt and
# writes an answer.

# %% [markdown] lang="zh"
# ## 接下来
#
# 调度器写完了，可是还什么都没有真正算过。第 8 章做另一半：一个能读提示词、能写回答的解码器。
