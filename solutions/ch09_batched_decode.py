# %% [markdown] lang="en"
# # Chapter 9 · One step for everybody
#
# Chapter 8's decoder serves one request at a time, and reads all its weights for one token. Here one forward
# pass carries many requests, each at its own place in its own text, their keys scattered over chapter 5's
# blocks. And each request says exactly what it would have said alone.
#
# **Time.** Core: 90 minutes at most (five TODOs, four experiments). Extension: 30 minutes more.
#
# **You need.** Chapter 8, and chapter 5's blocks, or their references. Indexing a PyTorch tensor by a tensor.
# No GPU; where there is one, the experiments use it.
#
# **You leave with.** A batched decoder over a paged KV cache; chapter 10 lets your scheduler drive it, chapter 14
# puts a kernel behind it.

# %% [markdown] lang="zh"
# # 第 9 章 · 一步算一批
#
# 第 8 章的解码器一次只服务一个请求，为了一个 token 就要把权重全读一遍。这一章让一次前向计算带上许多请求：
# 每个请求都走到了自己文本里的某个位置，key 散放在第 5 章的各个块里。而每个请求说出来的话，
# 和它单独运行时一个字都不差。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，四个实验）；扩展部分再加 30 分钟。
#
# **基础。** 第 8 章，还有第 5 章的块，或者它们的参考实现。会用张量去索引 PyTorch 张量。
# 不需要 GPU；有的话，实验会用上。
#
# **收获。** 一个建在分页 KV cache 上的批量解码器；第 10 章由你的调度器来驱动它，第 14 章给它换上 GPU kernel。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch09", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. A request's block table is [7, 2], a block holds 4 tokens. In which slot of the pool is its token at position 5?
# 2. A decode step of one request reads every weight for one row. What does a second row add to that step?
# 3. In PyTorch: `x` has shape (10, 3), `i` is a tensor of whole numbers of shape (2, 4). What shape has `x[i]`?
#
# For 1 see [chapter 5](./ch05_paged_kv.ipynb), for 2 [chapter 2](./ch02_cost_and_metrics.ipynb); for 3 try it in
# a new cell.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 一个请求的块表是 [7, 2]，一个块放 4 个 token。它在位置 5 的 token，放在池的哪个槽位？
# 2. 单个请求的一步 decode，为一行数据读遍所有权重。再加一行，这一步要多花什么？
# 3. 在 PyTorch 里，`x` 的形状是 (10, 3)，`i` 是形状 (2, 4) 的整数张量。`x[i]` 是什么形状？
#
# 第 1 题见[第 5 章](./ch05_paged_kv.ipynb)，第 2 题见[第 2 章](./ch02_cost_and_metrics.ipynb)，
# 第 3 题新建一个单元格试试就知道。

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# What chapter 2's roofline says of one decode step of Llama-3.1-8B on an H100, each request 1,000 tokens along:
#
# | requests in the step | arithmetic | memory traffic | tokens a second, together | each |
# |---|---|---|---|---|
# | 1 | 0.02 ms | 4.83 ms | 207 | 207 |
# | 8 | 0.13 ms | 5.11 ms | 1,566 | 196 |
# | 64 | 1.07 ms | 7.30 ms | 8,766 | 137 |
# | 256 | 4.29 ms | 14.82 ms | 17,273 | 67 |
#
# *A step takes the longer of the two times.*
#
# Weights are read once for everybody, so eight requests cost hardly more than one. Keys and values are not: each
# request has its own, and with 256 requests they are most of the traffic. But nobody gets these tokens from a
# decoder that takes one request at a time.

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# H100 上的 Llama-3.1-8B，每个请求都已有 1,000 个 token。一步 decode 要花多少，按第 2 章的 roofline 算：
#
# | 这一步里的请求数 | 计算 | 访存 | 每秒 token 数，合计 | 每个请求 |
# |---|---|---|---|---|
# | 1 | 0.02 ms | 4.83 ms | 207 | 207 |
# | 8 | 0.13 ms | 5.11 ms | 1,566 | 196 |
# | 64 | 1.07 ms | 7.30 ms | 8,766 | 137 |
# | 256 | 4.29 ms | 14.82 ms | 17,273 | 67 |
#
# 一步的时间，是计算和访存里较长的那个。
#
# 权重读一遍，大家都能用，所以八个请求并不比一个贵多少。key 和 value 就不行了：每个请求各有各的，
# 到了 256 个请求，访存大半花在它们身上。可是解码器一次只管一个请求的话，这些好处一点也拿不到。

# %% [markdown] lang="en"
# ## The idea: rows are rows
#
# The matrices of a model do not care whose row is whose. So a step puts the new tokens of all requests one behind the
# other, no padding, and keeps beside them who is where. This is called a *ragged* batch.
#
# ```text
#   plan.scheduled   {"b": 4, "a": 1, "c": 3}      plan.start   {"b": 0, "a": 6, "c": 4}
#
#   row               0   1   2   3  |  4  |  5   6   7
#   tokens            b0  b1  b2  b3 |  a6 |  c4  c5  c6
#   positions         0   1   2   3  |  6  |  4   5   6
#   query_start_loc   0                 4     5            8     one more than requests
#   seq_lens          4                 7     7                  in the cache after the step
# ```
#
# *b begins with a prompt of four, a decodes, c is in its second chunk: three phases, one pass.*
#
# Only two places ask whose row it is: attention, which must read that request's keys and no others, and sampling, which
# wants that request's temperature. Keys lie in the blocks of chapter 5: a pool of slots for each layer, written at
# `slot_mapping`, read at the slots of each request.
#
# ```text
#   block_size 4    block table of a: [5, 2]     position 6 -> block 2, offset 2 -> slot 2 * 4 + 2 = 10
#
#   pool    | 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 … 15 | 16 … 19 | 20 21 22 23 | …
#              block 0   block 1    block 2    block 3   block 4     block 5
#                                  a4 a5 a6                        a0 a1 a2 a3
# ```
#
# *Everything else in the pool belongs to others, or to nobody.*

# %% [markdown] lang="zh"
# ## 想法：行就是行
#
# 模型里的矩阵不在乎哪一行是谁的。所以一步把所有请求的新 token 首尾相接排成一列，不补齐，
# 再在旁边记下谁在哪里。这样的批叫做**不等长的批**（ragged batch）。
#
# ```text
#   plan.scheduled   {"b": 4, "a": 1, "c": 3}      plan.start   {"b": 0, "a": 6, "c": 4}
#
#   row               0   1   2   3  |  4  |  5   6   7
#   tokens            b0  b1  b2  b3 |  a6 |  c4  c5  c6
#   positions         0   1   2   3  |  6  |  4   5   6
#   query_start_loc   0                 4     5            8
#   seq_lens          4                 7     7
# ```
#
# 图：b 刚来，提示词有四个 token；a 在解码；c 在算第二个分块：三个阶段，一次计算。query_start_loc 比请求数多一个；
# seq_lens 是这一步做完之后各有多少 token 在 cache 里。
#
# 只有两个地方要问这一行是谁的：注意力，它只能读这个请求的 key；抽样，它要用这个请求的温度。
# key 放在第 5 章的块里：每一层一个由槽位组成的池，按 `slot_mapping` 写入，按各个请求的槽位读出。
#
# ```text
#   block_size 4    block table of a: [5, 2]     position 6 -> block 2, offset 2 -> slot 2 * 4 + 2 = 10
#
#   pool    | 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 … 15 | 16 … 19 | 20 21 22 23 | …
#              block 0   block 1    block 2    block 3   block 4     block 5
#                                  a4 a5 a6                        a0 a1 a2 a3
# ```
#
# 图：池里其余的地方都是别人的，或者谁的也不是。

# %% [markdown] lang="en"
# ## Given: the batch
#
# `Batch` is the whole table above. Counts that Python decides by, such as `seq_lens`, stay plain lists: to ask a tensor on
# a GPU for a number makes Python wait for it. `reading` is what attention will ask in every layer, worked out once a step.

# %% [markdown] lang="zh"
# ## 已经写好的：批
#
# `Batch` 就是上面那张表。Python 要用来做决定的数，比如 `seq_lens`，留作普通列表：向 GPU 上的张量要一个数，
# Python 就得停下来等它。`reading` 是注意力在每一层都要问的东西，一步只算一次。

# %% tags=["export"]
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch.nn.functional import scaled_dot_product_attention

from decodelab import chapter
from decodelab.contract import Plan

ch08 = chapter("ch08")
Decoder, generate, sample = ch08.Decoder, ch08.generate, ch08.sample


@dataclass
class Batch:
    """en: The new tokens of one step, a row each: request after request, in the plan's order.
    en: tokens, positions (rows,). query_start_loc: the rows of request i begin at [i] and end before [i + 1].
    en: seq_lens: tokens of each in the cache once the step is done. block_tables (requests, blocks of the longest),
    en: filled up with 0.
    zh: 一步里的新 token，一个一行：按计划的次序，一个请求接一个请求。
    zh: tokens、positions（行）。query_start_loc：第 i 个请求的行从 [i] 开始，到 [i + 1] 之前为止。
    zh: seq_lens：这一步做完之后，每个请求有多少 token 在 cache 里。block_tables（请求、最长者的块数），用 0 补齐。
    """

    request_ids: list
    tokens: torch.Tensor
    positions: torch.Tensor
    query_start_loc: list[int]
    seq_lens: list[int]
    block_tables: torch.Tensor
    block_size: int

    @cached_property
    def last(self) -> torch.Tensor:
        """en: The row of each request's last token (requests,).
        zh: 每个请求最后一个 token 所在的行（请求）。
        """
        return torch.tensor(self.query_start_loc[1:], device=self.tokens.device) - 1

    @cached_property
    def slot_mapping(self) -> torch.Tensor:
        """en: Where each row's key and value go (rows,).
        zh: 每一行的 key 和 value 写到哪里（行）。
        """
        counts = torch.tensor(self.counts, device=self.tokens.device)
        whose = torch.arange(len(self.counts), device=self.tokens.device).repeat_interleave(counts)
        return slots(self.block_tables, whose, self.positions, self.block_size)

    @cached_property
    def counts(self) -> list[int]:
        """en: How many rows each request has.
        zh: 每个请求有几行。
        """
        return [
            end - start for start, end in zip(self.query_start_loc, self.query_start_loc[1:], strict=False)
        ]

    @cached_property
    def decodes(self) -> list[int]:
        """en: The requests with one row, by their number in the batch.
        zh: 只有一行的请求，用它在批里的序号表示。
        """
        return [i for i, count in enumerate(self.counts) if count == 1]

    @cached_property
    def chunks(self) -> list[int]:
        """en: The requests with several rows.
        zh: 有好几行的请求。
        """
        return [i for i, count in enumerate(self.counts) if count > 1]

    @cached_property
    def reading(self) -> tuple:
        """en: What attention reads in each layer, worked out once a step: for each chunk its rows, slots and positions;
        en: for all requests with one row together their rows, slots (requests, longest) and lengths.
        zh: 注意力在每一层要读什么，一步只算一次：每个分块的行、槽位和位置；
        zh: 所有只有一行的请求合在一起的行、槽位（请求、最长）和长度。
        """
        return [self.read_chunk(i) for i in self.chunks], self.read_decodes() if self.decodes else None

    def read_chunk(self, i: int) -> tuple[slice, torch.Tensor, torch.Tensor]:
        """en: Request i's rows, the slots of its tokens (seq_len,), the positions of its rows.
        zh: 第 i 个请求的行、它各个 token 的槽位（seq_len,）、各行的位置。
        """
        rows = slice(self.query_start_loc[i], self.query_start_loc[i + 1])
        places = torch.arange(self.seq_lens[i], device=self.tokens.device)
        return rows, slots(self.block_tables, i, places, self.block_size), self.positions[rows]

    def read_decodes(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """en: Rows, slots and lengths of the requests with one row; a shorter one's slots are filled up with its last.
        zh: 只有一行的请求的行、槽位和长度；较短的请求，用它自己最后一个槽位补齐。
        """
        device = self.tokens.device
        which = torch.tensor(self.decodes, device=device)
        lens = torch.tensor([self.seq_lens[i] for i in self.decodes], device=device)
        longest = max(self.seq_lens[i] for i in self.decodes)
        places = torch.arange(longest, device=device).minimum(lens[:, None] - 1)
        return self.last[which], slots(self.block_tables, which[:, None], places, self.block_size), lens


# %% [markdown] lang="en"
# ## TODO ch09.1 · Pack
#
# Fill in `pack`: four plain lists, from which the given lines below make the batch. Walk over `plan.scheduled` in its
# order; a request with `count` tokens from `plan.start[request_id]` on gives
#
# - `tokens`: its ids at these positions, from `sequences[request_id]`, all its ids so far;
# - `positions`: where they stand in *its own* text, not in the batch;
# - `query_start_loc`: how many rows the batch has once its own are in. The list begins with 0;
# - `seq_lens`: how many of its tokens lie in the cache after this step.
#
# `sequences` and `tables` may hold requests that are not in the plan, in any order. Nothing that a function is given may
# change, here and in the TODOs below: no plan, no list, no tensor.

# %% [markdown] lang="zh"
# ## TODO ch09.1 · 打包
#
# 补全 `pack`：填好四个普通列表，后面写好的几行会用它们拼出批。按次序走一遍 `plan.scheduled`；一个请求从
# `plan.start[request_id]` 起算 `count` 个 token，它带来
#
# - `tokens`：这些位置上的 id，取自 `sequences[request_id]`，那是它到目前为止的全部 id；
# - `positions`：它们在**自己**文本里的位置，不是在批里的位置；
# - `query_start_loc`：排完它之后一共有多少行。列表以 0 开头；
# - `seq_lens`：这一步之后，它有多少个 token 在 cache 里。
#
# `sequences` 和 `tables` 里可能有不在计划里的请求，次序也不一定。传进来的东西一律不要改动：计划、列表、张量都是，
# 下面的 TODO 也都一样。


# %% answer="ch09-answer" tags=["export"]
def pack(plan: Plan, sequences: dict, tables: dict, block_size: int, device: str = "cpu") -> Batch:
    """en: The batch of a plan; ``sequences``: all token ids of a request so far, ``tables``: its blocks, both by id.
    zh: 把一个计划打包成批；``sequences`` 是每个请求到目前为止的全部 token id，``tables`` 是它的块，都按 id 查。
    """
    # TODO ch09.1
    # en: Fill tokens, positions, query_start_loc, seq_lens (plain lists), request after request in the plan's order.
    # zh: 按计划的次序，一个请求接一个请求，填好 tokens、positions、query_start_loc、seq_lens（普通列表）。
    tokens: list[int] = []
    positions: list[int] = []
    query_start_loc, seq_lens = [0], []
    for request_id, count in plan.scheduled.items():
        start, end = plan.start[request_id], plan.start[request_id] + count
        tokens.extend(sequences[request_id][start:end])
        positions.extend(range(start, end))
        query_start_loc.append(len(tokens))
        seq_lens.append(end)
    # END ch09.1
    width = max(len(tables[i]) for i in plan.scheduled)
    filled = [[*tables[i], *[0] * (width - len(tables[i]))] for i in plan.scheduled]
    new, places, block_tables = (torch.tensor(rows, device=device) for rows in (tokens, positions, filled))
    return Batch(list(plan.scheduled), new, places, query_start_loc, seq_lens, block_tables, block_size)


# %% [markdown] lang="en" hint="ch09.1"
# 1. One loop over `plan.scheduled.items()`; in each turn all four lists grow, by `count` items or by one.
# 2. `extend` takes a slice of a list as well as a `range`. When a request's rows are in, `len(tokens)` is the next
#    boundary. The cache holds what was there before, `plan.start[request_id]`, and what is new.
# 3. `start, end = plan.start[request_id], plan.start[request_id] + count`; `tokens.extend(sequences[request_id][start:end])`;
#    `positions.extend(range(start, end))`; `query_start_loc.append(len(tokens))`; `seq_lens.append(end)`.

# %% [markdown] lang="zh" hint="ch09.1"
# 1. 对 `plan.scheduled.items()` 循环一遍；每一轮四个列表都变长，有的多 `count` 项，有的多一项。
# 2. `extend` 既可以接一段切片，也可以接一个 `range`。一个请求的行放好以后，`len(tokens)` 就是下一个边界。
#    cache 里的，是原来就有的 `plan.start[request_id]` 个，加上新的。
# 3. `start, end = plan.start[request_id], plan.start[request_id] + count`；`tokens.extend(sequences[request_id][start:end])`；
#    `positions.extend(range(start, end))`；`query_start_loc.append(len(tokens))`；`seq_lens.append(end)`。

# %% [markdown] lang="en" explain="ch09.1"
# There is no phase here: a prompt, a chunk and a decode step are one slice with different ends. And there is no
# padding: eight rows are eight rows of work in every matrix product.
#
# The order is the plan's because chapter 7's is: whoever reads a log beside a batch wants row 0 to be the first request
# of the plan. Any order would give the same tokens.

# %% [markdown] lang="zh" explain="ch09.1"
# 这里没有“阶段”：整段提示词、一个分块、一步 decode，都是一段切片，只是两头不同。也没有补齐：
# 八行就是八行的活，每个矩阵乘法都一样。
#
# 次序按计划来，因为第 7 章的日志就是这个次序：对着日志看批的人，希望第 0 行就是计划里的第一个请求。
# 换成别的次序，token 也一样。

# %% check="ch09.1" points=3 level="core"
check("ch09.1")

# %% [markdown] lang="en"
# ## TODO ch09.2 · Slots
#
# Chapter 5's `slot_mapping`, for everybody at once. Fill in `slots`:
#
# - `block_tables` has a row for each request. A token at position `p` of the request in row `r` lies in block
#   `block_tables[r, p // block_size]`, at offset `p % block_size`.
# - A slot is block × block_size + offset.
# - `rows` and `positions` have any shapes that broadcast, `rows` may be a plain number; the result has the shape that
#   they broadcast to. `Batch.slot_mapping` asks for a list of pairs, `Batch.reading` for whole tables.

# %% [markdown] lang="zh"
# ## TODO ch09.2 · 槽位
#
# 第 5 章的 `slot_mapping`，这回一次为所有请求算。补全 `slots`：
#
# - `block_tables` 每个请求一行。第 `r` 行的请求，位置 `p` 上的 token 在块 `block_tables[r, p // block_size]` 里，
#   块内偏移是 `p % block_size`。
# - 槽位 = 块号 × block_size + 偏移。
# - `rows` 和 `positions` 的形状只要能广播就行，`rows` 也可以是一个普通的数；结果的形状就是广播出来的。
#   `Batch.slot_mapping` 问的是一对一对的，`Batch.reading` 问的是整张表。


# %% answer="ch09-answer-2" tags=["export"]
def slots(
    block_tables: torch.Tensor, rows: torch.Tensor | int, positions: torch.Tensor, block_size: int
) -> torch.Tensor:
    """en: The slot of the token at ``positions`` of the request in row ``rows`` of block_tables; any shapes that broadcast.
    zh: block_tables 第 ``rows`` 行那个请求，位置 ``positions`` 上的 token 的槽位；形状能广播即可。
    """
    # TODO ch09.2
    # en: Which block of the request, and where in it.
    # zh: 在这个请求的第几块，块内第几个。
    return block_tables[rows, positions // block_size] * block_size + positions % block_size
    # END ch09.2


# %% [markdown] lang="en" hint="ch09.2"
# 1. One line. The formula is the one above, and `//`, `%`, `*`, `+` work on tensors item by item.
# 2. A table with two axes takes two indices, `table[rows, columns]`: an entry for each pair, the two broadcast. Which column is
#    it? The number of the block within the request, so not `positions` itself.
# 3. `block_tables[rows, positions // block_size]` are the blocks; what is left is `* block_size` and `+ positions % block_size`.

# %% [markdown] lang="zh" hint="ch09.2"
# 1. 一行。公式就在上面，`//`、`%`、`*`、`+` 对张量都是逐个元素算的。
# 2. 两个轴的表要两个下标：`table[rows, columns]`，每一对给出一项，两者会广播。列是什么？是请求的第几块，
#    所以不是 `positions` 本身。
# 3. 块号是 `block_tables[rows, positions // block_size]`；剩下的就是 `* block_size` 和 `+ positions % block_size`。

# %% [markdown] lang="en" explain="ch09.2"
# `block_size` 1 turns a slot into a block, and one huge block for each request turns the pool into chapter 8's cache. Everything
# between is the same line.
#
# The check for `rows` as a column, `[[0], [1]]`, with positions (2, 3) is what the attention of all decodes needs: a whole
# row of positions for each request.

# %% [markdown] lang="zh" explain="ch09.2"
# `block_size` 为 1，一个块就是一个槽位；给每个请求一个大块，池就成了第 8 章的 cache。中间的一切情形，都是同一行代码。
#
# 检查里 `rows` 写成一列 `[[0], [1]]`、位置是 (2, 3) 的那一例，正是所有 decode 的注意力要用的：
# 每个请求有一整行位置。

# %% check="ch09.2" points=2 level="core"
check("ch09.2")

# %% [markdown] lang="en"
# ## TODO ch09.3 · A chunk reads its own pages
#
# One request has several rows in this step: a prompt or a chunk. Its keys and values are in the pool by now, the new ones
# too, at `slots`: one slot for each of its tokens, in their order. Fill in `chunk_attention`:
#
# - *Gather* its keys and values: `keys[slots]` is (tokens, kv_heads, dim).
# - Row `i` stands at `positions[i]` and sees tokens 0 to `positions[i]`; the order of the rows does not matter. Heads share KV heads. All
#   as in chapter 8.
# - Everything outside `slots` is somebody else's, or was never written: the check fills it with NaN.
# - The result has the shape and the type of `q`.
#
# You may call your own attention of chapter 8 (`ch08.attention`), or learn PyTorch's:
# `scaled_dot_product_attention(q, k, v, attn_mask=…, enable_gqa=True)` wants heads *before* rows, (heads, rows, dim), and a mask
# (rows, tokens) that is True where a row may look.

# %% [markdown] lang="zh"
# ## TODO ch09.3 · 分块读自己的槽位
#
# 有一个请求在这一步里占好几行：整段提示词，或者一个分块。它的 key 和 value 这时都在池里了，新的也在，
# 槽位就是 `slots`：每个 token 一个，按 token 的次序排。补全 `chunk_attention`：
#
# - **取出**（gather）它的 key 和 value：`keys[slots]` 是（token、kv_heads、dim）。
# - 和第 8 章一样：第 `i` 行站在 `positions[i]`，看 token 0 到 `positions[i]`，各行的先后无所谓；几个头共用一个 KV 头。
# - `slots` 以外的，不是别人的，就是从没写过的：检查会在那里放 NaN。
# - 结果的形状和类型都同 `q`。
#
# 可以调用你自己在第 8 章写的注意力（`ch08.attention`），也可以学一学 PyTorch 自带的：
# `scaled_dot_product_attention(q, k, v, attn_mask=…, enable_gqa=True)` 要求头在行的**前面**，也就是（头、行、dim）；
# 遮罩是（行、token），能看的地方为 True。


# %% answer="ch09-answer-3" tags=["export"]
def chunk_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """en: One request's rows q (new, heads, dim) at ``positions`` (new,) over its own tokens, which lie in ``slots``
    en: (tokens,) of a layer's keys and values (pool, kv_heads, dim); shape of q.
    zh: 一个请求的各行 q（新、头、dim），站在 ``positions``（新），看它自己的 token；这些 token 在这一层的
    zh: keys、values（池、kv_heads、dim）里的槽位是 ``slots``（token,）。形状同 q。
    """
    # TODO ch09.3
    # en: Gather its keys and values, hide what is later, one call of scaled_dot_product_attention.
    # zh: 取出它的 key 和 value，遮住更后面的，调用一次 scaled_dot_product_attention。
    k, v = keys[slots].transpose(0, 1), values[slots].transpose(0, 1)
    seen = torch.arange(len(slots), device=q.device) <= positions[:, None]
    mixed = scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, enable_gqa=True)
    return mixed.transpose(0, 1)
    # END ch09.3


# %% [markdown] lang="en" hint="ch09.3"
# 1. After the gather this is chapter 8's problem: some rows, all keys in order, a mask by position.
# 2. `transpose(0, 1)` brings heads to the front, and back at the end. The mask compares `torch.arange(len(slots))` with
#    `positions[:, None]`: True where the token is *not later*. `enable_gqa=True` shares KV heads side by side.
# 3. `k, v = keys[slots].transpose(0, 1), values[slots].transpose(0, 1)`; `seen = torch.arange(len(slots), device=q.device) <= positions[:, None]`;
#    then `scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, enable_gqa=True)`, and transpose back.

# %% [markdown] lang="zh" hint="ch09.3"
# 1. 取出来以后，就是第 8 章的题目：若干行，按次序排好的全部 key，一张按位置的遮罩。
# 2. `transpose(0, 1)` 把头换到前面，最后再换回来。遮罩拿 `torch.arange(len(slots))` 和 `positions[:, None]` 比：
#    token **不在后面**的地方为 True。`enable_gqa=True` 让挨在一起的头共用 KV 头。
# 3. `k, v = keys[slots].transpose(0, 1), values[slots].transpose(0, 1)`；`seen = torch.arange(len(slots), device=q.device) <= positions[:, None]`；
#    然后 `scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, enable_gqa=True)`，再转置回来。

# %% [markdown] lang="en" explain="ch09.3"
# The gather makes a copy: each key is read, written and read again. A kernel that follows the block table needs no copy; that
# is what PagedAttention is, and chapter 14's task. Experiment 4 measures what it costs here.
#
# Why not attend over the whole pool and mask the rest? Because a weight of 0 does not forget: 0 × NaN is NaN, and a slot that
# nobody wrote may hold anything. It would also cost the whole pool for each request.

# %% [markdown] lang="zh" explain="ch09.3"
# 取出就是复制：每个 key 读一遍、写一遍、再读一遍。会沿着块表走的 kernel 就不用复制，这正是 PagedAttention，
# 也是第 14 章的任务。实验 4 会量出它在这里的代价。
#
# 为什么不对整个池做注意力、再把其余的遮住？因为权重为 0 并不等于没看见：0 × NaN 还是 NaN，而没人写过的槽位里什么都可能有。
# 何况那样每个请求都要付整个池的代价。

# %% check="ch09.3" points=3 level="core"
check("ch09.3")

# %% [markdown] lang="en"
# ## TODO ch09.4 · All decodes at once
#
# A decoding request has one row. Sixty-four calls for sixty-four rows would take most of their time to get started, so all
# of them go into one call, and here the lengths must be made equal after all: `slots` is (requests, longest), a shorter
# request's row filled up with its own last slot. (So nothing unwritten is read, and no block of a stranger.) Fill in
# `decode_attention`:
#
# - Row `i` of `q` sees the first `seq_lens[i]` of `slots[i]`, its own newest token among them. What fills up counts for nothing.
# - Heads share KV heads as before; shape and type are those of `q` again.
#
# After the gather, `scaled_dot_product_attention` takes any number of axes in front: (requests, kv_heads, rows, dim) for
# queries, (requests, kv_heads, longest, dim) for keys and values. The heads that share a KV head can be its *rows*.

# %% [markdown] lang="zh"
# ## TODO ch09.4 · 所有 decode 一起算
#
# 正在解码的请求只有一行。六十四行分六十四次调用，时间大半都花在发起调用上，所以全部放进一次调用；
# 这样一来，长短还是得一样：`slots` 是（请求、最长），较短的请求，用它自己最后一个槽位补齐。
# （这样不会读到没写过的地方，也不会读到别人的块。）补全 `decode_attention`：
#
# - `q` 的第 `i` 行看 `slots[i]` 的前 `seq_lens[i]` 个，它自己最新的 token 也在内。补齐的部分一个也不算。
# - 头照旧共用 KV 头；结果的形状和类型照旧同 `q`。
#
# 取出之后，`scaled_dot_product_attention` 前面可以有任意多个轴：query 是（请求、kv_heads、行、dim），
# key 和 value 是（请求、kv_heads、最长、dim）。共用一个 KV 头的几个头，可以当作它的几**行**。


# %% answer="ch09-answer-4" tags=["export"]
def decode_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor, seq_lens: torch.Tensor
) -> torch.Tensor:
    """en: One row for each request, q (requests, heads, dim), over the first ``seq_lens`` (requests,) of its ``slots``
    en: (requests, longest) in a layer's keys and values (pool, kv_heads, dim); shape of q.
    zh: 每个请求一行，q（请求、头、dim），看它在这一层 keys、values（池、kv_heads、dim）里的 ``slots``（请求、最长）
    zh: 中的前 ``seq_lens``（请求）个。形状同 q。
    """
    # TODO ch09.4
    # en: Gather for all requests; the heads of a group are rows of their KV head; hide what fills up.
    # zh: 一次为所有请求取出；同组的头当作它们那个 KV 头的几行；遮住补齐的部分。
    k, v = keys[slots].transpose(1, 2), values[slots].transpose(1, 2)
    grouped = q.unflatten(1, (k.shape[1], -1))
    seen = torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]
    return scaled_dot_product_attention(grouped, k, v, attn_mask=seen[:, None, None]).flatten(1, 2)
    # END ch09.4


# %% [markdown] lang="en" hint="ch09.4"
# 1. One gather, one mask, one call; no loop. Write down the shape after each step.
# 2. `keys[slots]` is (requests, longest, kv_heads, dim): `transpose(1, 2)` puts it right. `q.unflatten(1, (kv_heads, -1))` makes
#    (requests, kv_heads, group, dim) of the heads, and `flatten(1, 2)` takes it back. The mask (requests, longest) has to
#    broadcast over KV heads and rows.
# 3. `seen = torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]`; then
#    `scaled_dot_product_attention(q.unflatten(1, (k.shape[1], -1)), k, v, attn_mask=seen[:, None, None]).flatten(1, 2)`.

# %% [markdown] lang="zh" hint="ch09.4"
# 1. 取一次，遮一次，调用一次；不用循环。每走一步，把形状写下来。
# 2. `keys[slots]` 是（请求、最长、kv_heads、dim），用 `transpose(1, 2)` 换好。`q.unflatten(1, (kv_heads, -1))` 把头变成
#    （请求、kv_heads、组、dim），`flatten(1, 2)` 再变回来。遮罩（请求、最长）要能在 KV 头和行上广播。
# 3. `seen = torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]`；然后
#    `scaled_dot_product_attention(q.unflatten(1, (k.shape[1], -1)), k, v, attn_mask=seen[:, None, None]).flatten(1, 2)`。

# %% [markdown] lang="en" explain="ch09.4"
# No causal mask is needed: the one new row is the last token, and everything of its request comes before. What is masked is
# the filling.
#
# With the heads of a group as rows, keys are not repeated for each head: `repeat_interleave` would copy all of them
# once more, and this step is memory-bound.
#
# The price is the length of the longest: one request of 2,000 tokens among short ones makes everybody's row 2,000 long.
# Experiment 4 shows it, and the extension does something about it.

# %% [markdown] lang="zh" explain="ch09.4"
# 这里不需要因果遮罩：唯一的新行就是最后一个 token，它那个请求的其余 token 都在前面。要遮的是补齐的部分。
#
# 把一组里的头当作行，key 就不用为每个头重复一份：`repeat_interleave` 会把它们全部再复制一遍，而这一步恰恰是访存受限的。
#
# 代价是长度要按最长的算：短请求里混进一个 2,000 token 的，大家的行都成了 2,000 长。实验 4 会让你看到，扩展部分会想想办法。

# %% check="ch09.4" points=3 level="core"
check("ch09.4")

# %% [markdown] lang="en"
# ## Given: the pool, and one pass
#
# `PagedKV` stands where chapter 8's `KVCache` stood, behind the same line `kv.attend(…)`. It writes the new rows of all
# requests at once, then attends: chunks one by one, decodes together. The model notices nothing.

# %% [markdown] lang="zh"
# ## 已经写好的：池，以及一次前向计算
#
# `PagedKV` 顶替第 8 章的 `KVCache`，接口还是 `kv.attend(…)` 这一行。它先一次写好所有请求的新行，再做注意力：
# 分块一个一个来，decode 合在一起。模型毫无察觉。


# %% tags=["export"]
def paged_attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: Batch) -> torch.Tensor:
    """en: Each row of q (rows, heads, dim) over its own request's tokens, up to its own position; keys and values are
    en: those of one layer, (slots, kv_heads, dim). Behind this signature chapter 14 puts a kernel.
    zh: q（行、头、dim）的每一行看自己那个请求的 token，直到自己的位置为止；keys、values 是某一层的
    zh: （槽位、kv_heads、dim）。第 14 章会在这个签名后面换上 kernel。
    """
    out = torch.empty_like(q)
    chunks, decodes = batch.reading
    for rows, own, positions in chunks:
        out[rows] = chunk_attention(q[rows], keys, values, own, positions)
    if decodes:
        rows, own, lens = decodes
        out[rows] = decode_attention(q[rows], keys, values, own, lens)
    return out


class PagedKV:
    """en: The keys and values of all requests, in blocks; one pool for each layer.
    zh: 所有请求的 key 和 value，分块存放；每一层一个池。
    """

    def __init__(
        self,
        config,
        num_blocks: int,
        block_size: int,
        dtype=torch.float32,
        device="cpu",
        attention=None,
    ) -> None:
        shape = (config.layers, num_blocks * block_size, config.kv_heads, config.head_dim)
        self.block_size, self.attention = block_size, attention or paged_attention
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    def use(self, batch: Batch) -> "PagedKV":
        """en: Serve this batch from now on.
        zh: 从现在起服务这一批。
        """
        self.batch = batch
        return self

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """en: Write the new rows into their slots, then attend; the batch knows the positions, too.
        zh: 把新的行写进各自的槽位，然后做注意力；位置在批里也有。
        """
        keys, values = self.keys[layer], self.values[layer]
        keys[self.batch.slot_mapping], values[self.batch.slot_mapping] = k, v
        return self.attention(q, keys, values, self.batch)


def forward_batch(decoder, kv: PagedKV, batch: Batch) -> torch.Tensor:
    """en: One pass of the model over a batch: the logits (requests, vocab) after each request's last row.
    zh: 模型对一批做一次计算：每个请求最后一行之后的 logits（请求、vocab）。
    """
    hidden = decoder.forward(batch.tokens, batch.positions, kv.use(batch))
    return decoder.logits(hidden[batch.last])


# %% [markdown] lang="en"
# ## TODO ch09.5 · A token for each
#
# The last rows have become logits, one row for each request. Fill in `sample_batch`; `temperatures`, `top_ps` and `generators` have
# an item for each row.
#
# - Temperature 0: the largest logit, of equal ones the smallest id. Nothing is drawn, and the generator may be None.
# - Else the token that chapter 8's `sample(row, temperature, top_p, generator)` would draw, with the row's own three: the same
#   token whoever else is in the batch, and the generator left where one call of `sample` leaves it.
# - A list of plain ints.
#
# A loop over `sample` is right. Better do the expensive part for all rows at once: softmax, sort and cut are chapter 8's lines
# along the last axis. Then draw, row by row, with `torch.multinomial(row, 1, generator=…)`.

# %% [markdown] lang="zh"
# ## TODO ch09.5 · 每人一个 token
#
# 最后几行已经变成 logits，每个请求一行。补全 `sample_batch`；`temperatures`、`top_ps`、`generators` 每行各有一项。
#
# - 温度为 0：取最大的 logit，一样大时取 id 最小的。什么也不抽，这时生成器可以是 None。
# - 否则就是第 8 章的 `sample(row, temperature, top_p, generator)` 会抽到的那个 token，三样都用这一行自己的：
#   批里不管还有谁，抽到的都一样；生成器停在调用一次 `sample` 之后的地方。
# - 返回普通 int 的列表。
#
# 循环调用 `sample` 是对的。更好的做法是贵的部分所有行一起算：softmax、排序、截断，就是第 8 章那几行，沿最后一个轴来做；
# 然后逐行用 `torch.multinomial(row, 1, generator=…)` 去抽。


# %% answer="ch09-answer-5" tags=["export"]
def sample_batch(
    logits: torch.Tensor, temperatures: list[float], top_ps: list[float], generators: list
) -> list[int]:
    """en: The next token of each request, from its row of logits (requests, vocab), as chapter 8's ``sample`` draws it.
    zh: 每个请求的下一个 token，取自 logits（请求、vocab）中它那一行，和第 8 章的 ``sample`` 抽的一样。
    """
    # TODO ch09.5
    # en: Greedy rows by one argmax; the others: softmax, sort and cut all rows at once, then draw from each row.
    # zh: 贪心的行一次 argmax；其余的行一起做 softmax、排序、截断，再逐行抽取。
    tokens = logits.argmax(-1).tolist()
    drawn = [i for i, temperature in enumerate(temperatures) if temperature > 0]
    if drawn:
        heat = torch.tensor([temperatures[i] for i in drawn], device=logits.device)[:, None]
        reach = torch.tensor([top_ps[i] for i in drawn], device=logits.device)[:, None]
        ordered, ids = (logits[drawn] / heat).softmax(-1).sort(descending=True, stable=True)
        kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= reach, 0.0)
        probs = torch.zeros_like(kept).scatter(-1, ids, kept).cpu()
        for n, i in enumerate(drawn):
            tokens[i] = int(torch.multinomial(probs[n], 1, generator=generators[i]))
    return tokens
    # END ch09.5


# %% [markdown] lang="en" hint="ch09.5"
# 1. `logits.argmax(-1)` answers every greedy row. The others, `logits[drawn]` with a list of their numbers, go through the lines
#    of chapter 8's `distribution`, all at once, along the last axis.
# 2. Temperatures and top-ps become columns, `torch.tensor([…])[:, None]`, so that each row has its own. Scatter back to the order of
#    ids before you draw: `multinomial` in order of probability would draw other tokens. What it draws from need
#    not add up to 1.
# 3. `ordered, ids = (logits[drawn] / heat).softmax(-1).sort(descending=True, stable=True)`; zeros where
#    `ordered.cumsum(-1) - ordered >= reach`; `torch.zeros_like(kept).scatter(-1, ids, kept)`; then
#    `int(torch.multinomial(probs[n], 1, generator=generators[i]))` for the n-th of `drawn`.

# %% [markdown] lang="zh" hint="ch09.5"
# 1. `logits.argmax(-1)` 一次答完所有贪心的行。其余的行取 `logits[drawn]`（`drawn` 是行号的列表），一起走一遍
#    第 8 章 `distribution` 的那几行，沿最后一个轴。
# 2. 温度和 top-p 各排成一列，`torch.tensor([…])[:, None]`，每行就用上自己的了。抽之前要 scatter 回 id 的次序：
#    按概率的次序去 `multinomial`，抽到的会是别的 token。`multinomial` 不要求总和为 1。
# 3. `ordered, ids = (logits[drawn] / heat).softmax(-1).sort(descending=True, stable=True)`；在
#    `ordered.cumsum(-1) - ordered >= reach` 的地方置零；`torch.zeros_like(kept).scatter(-1, ids, kept)`；再对 `drawn` 里的第 n 个用
#    `int(torch.multinomial(probs[n], 1, generator=generators[i]))`。

# %% [markdown] lang="en" explain="ch09.5"
# Generators are why one call cannot do it all: a single `multinomial` for all rows would draw from one stream, and a request's text
# would depend on its neighbours. The draws are cheap; the sort of 4,608 or 151,936 numbers is not, and that is batched.
#
# The probabilities go to the CPU because the generators live there, so that a seed gives the same numbers on every machine. An
# engine that must not wait for the GPU draws there, with a generator that is a counter.

# %% [markdown] lang="zh" explain="ch09.5"
# 一次调用做不完，原因就在生成器：对所有行只调用一次 `multinomial`，数就都取自同一条随机数流，一个请求的文本就会取决于邻居。
# 抽样本身便宜；把 4,608 或 151,936 个数排序可不便宜，而那一步是成批做的。
#
# 概率要搬到 CPU 上，因为生成器在那里：这样同一个种子在哪台机器上都给出同样的数。不能停下来等 GPU 的引擎，就在 GPU 上抽，
# 它的生成器是一个计数器。

# %% check="ch09.5" points=3 level="core"
check("ch09.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass. The rest of the chapter runs **your** code.
#
# Stuck? In a new cell, in this order: `hint("ch09.4", 1)` for a direction, `hint("ch09.4", 2)` for the tool and the trap
# beside it, `hint("ch09.4", 3)` for almost the code, `solution("ch09.4")` for the reference and its reasons. Give each
# fifteen honest minutes before the next.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了，再往下看。后面跑的全是**你的**代码。
#
# 卡住了？新建一个单元格，按这个次序来：`hint("ch09.4", 1)` 给方向，`hint("ch09.4", 2)` 给工具和旁边的坑，
# `hint("ch09.4", 3)` 差不多就是代码，`solution("ch09.4")` 是参考实现和它的理由。
# 每往下一步之前，先老老实实想十五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## Experiment 1 · Four at once
#
# Four texts in two languages, each joining three steps after the one before, all greedy. Blocks come from your chapter 5;
# the plan of each step is made by hand here (chapter 10 has your scheduler do it).
#
# **Predict:** how many rows has step 3, in which the first text decodes and the second brings its prompt?

# %% [markdown] lang="zh"
# ## 实验 1 · 四段一起写
#
# 四段文本，两种语言，每段比前一段晚三步加入，全部贪心。块由你在第 5 章写的代码来管；每一步的计划在这里手工做
# （第 10 章交给你的调度器）。
#
# **先猜：** 第 3 步有几行？那时第一段在解码，第二段刚带着提示词进来。

# %%
from decodelab.models.load import load

device = "cuda" if torch.cuda.is_available() else "cpu"
# en: Small operations gain nothing from more threads.
# zh: 运算都很小，线程多了没有好处。
torch.set_num_threads(1)
model = load(device=device)
decoder = Decoder(model.config, model.weights)
BlockManager = chapter("ch05").BlockManager


def together(decoder, prompts, joins, count, block_size=16):
    """en: Greedy answers of ``count`` tokens to ``prompts``, {name: ids}; each joins at step ``joins[name]``.
    en: Returns the answers and, for each step, what it computed.
    zh: 给 ``prompts``（{名字: ids}）各贪心地写 ``count`` 个 token；每段在第 ``joins[name]`` 步加入。
    zh: 返回各段回答，以及每一步算了什么。
    """
    texts, computed = {name: list(ids) for name, ids in prompts.items()}, dict.fromkeys(prompts, 0)
    steps: list[dict] = []
    ends = {name: len(ids) + count for name, ids in prompts.items()}
    blocks = BlockManager(sum(-(-end // block_size) for end in ends.values()), block_size)
    kv = PagedKV(decoder.config, blocks.num_blocks, block_size, decoder.embedding.dtype, device)
    while any(len(texts[name]) < ends[name] for name in texts):
        plan = Plan()
        for name, ids in texts.items():
            if joins[name] <= len(steps) and len(ids) < ends[name]:
                plan.start[name], plan.scheduled[name] = computed[name], len(ids) - computed[name]
                computed[name] = len(ids)
                blocks.allocate(name, len(ids))
        steps.append(plan.scheduled)
        batch = pack(plan, texts, blocks.tables, block_size, device)
        greedy = [0.0] * len(steps[-1]), [1.0] * len(steps[-1]), [None] * len(steps[-1])
        drawn = sample_batch(forward_batch(decoder, kv, batch), *greedy)
        for name, token in zip(steps[-1], drawn, strict=True):
            texts[name].append(token)
            if len(texts[name]) == ends[name]:
                blocks.free(name)
    return {name: ids[len(prompts[name]) :] for name, ids in texts.items()}, steps


words = ["春风", "The spring", "明月", "In the beginning"]
prompts = {text: model.tokenizer.encode(text) for text in words}
answers, steps = together(decoder, prompts, {text: 3 * i for i, text in enumerate(words)}, 32)
for i in (0, 1, 3, 4, 9, 10, 32, len(steps) - 1):
    print(f"{i:>3}  {sum(steps[i].values()):>2}  {steps[i]}")
for text in words:
    print("-" * 40 + "\n" + model.tokenizer.decode(prompts[text] + answers[text]))

# %% [markdown] lang="en"
# *Step, its rows, and whose they are. Below: the four texts.*
#
# Whoever comes brings a prompt's worth of rows once, then one row a step; whoever is done leaves, and the next step is
# shorter. Nothing waits for anybody, and the steps are as many as the last one to come needs.

# %% [markdown] lang="zh"
# 输出：步号、行数、各是谁的；下面是四段文本。
#
# 新来的先带来一整段提示词的行，以后每步一行；写完的就走，下一步就短了。谁也不等谁，一共多少步，只看最后来的那个什么时候写完。

# %% [markdown] lang="en"
# ## Experiment 2 · The same words as alone
#
# The claim of this chapter, on eight prompts: one by one with chapter 8's `generate`, then batched in three ways: all at once; joining
# in turns; joining the other way round, in blocks of one token.
#
# **Predict:** of 8 × 48 tokens, how many differ? And if the model computes in bfloat16, which keeps 8 bits of each number?

# %% [markdown] lang="zh"
# ## 实验 2 · 和单独写的一字不差
#
# 这一章的承诺，用八段提示词来验证：先用第 8 章的 `generate` 一段一段写，再成批写三次：同时开始；轮流加入；
# 倒过来轮流加入，而且一个块只放一个 token。
#
# **先猜：** 8 × 48 个 token 里有几个不同？如果模型用 bfloat16 计算（每个数只留 8 位有效位）呢？

# %%
words = [
    "春风",
    "明月",
    "白日依山尽，",
    "一",
    "The spring",
    "And God said",
    "And it came to pass",
    "The LORD",
]
prompts = {text: model.tokenizer.encode(text) for text in words}
ways = {
    tr(en="at once", zh="同时"): (dict.fromkeys(words, 0), 16),
    tr(en="in turns", zh="轮流"): ({text: 5 * i for i, text in enumerate(words)}, 16),
    tr(en="the other way round", zh="倒过来"): ({text: 35 - 5 * i for i, text in enumerate(words)}, 1),
}


def lead(decoder, ids):
    """en: By how much the best next token leads the second, in logits.
    zh: 排第一的下一个 token 比第二的高出多少（logits）。
    """
    rows = decoder.forward(torch.tensor(ids, device=device), torch.arange(len(ids)), decoder.cache(len(ids)))
    first, second = decoder.logits(rows[-1]).float().topk(2).values.tolist()
    return first - second


for dtype in (torch.float32, torch.bfloat16):
    weights = {name: weight.to(dtype) for name, weight in model.weights.items()}
    each = Decoder(model.config, weights)
    alone = {text: list(generate(each, ids, 48)) for text, ids in prompts.items()}
    for way, (joins, block_size) in ways.items():
        answers, _ = together(each, prompts, joins, 48, block_size)
        equal = sum(a == b for t in words for a, b in zip(alone[t], answers[t], strict=True))
        print(f"{dtype}  {way}  {equal} / {48 * len(words)}")
        for text in words:
            same = [a == b for a, b in zip(alone[text], answers[text], strict=True)]
            if not all(same):
                n = same.index(False)
                gap = lead(each, prompts[text] + alone[text][:n])
                print(f"    {text}  {n + 1}  {gap:.3f}")

# %% [markdown] lang="en"
# *Equal tokens of all. Where a text parts from the one written alone: at which token of the answer, and by how much the best
# token led the second there.*
#
# In float32 all are the same. The logits are not, to the last bit: other shapes add in another order, as in chapter 8's
# experiment 2. But a difference of a millionth changes a token only where two are that close.
#
# bfloat16 has such places: two logits next to each other are 0.06 apart around 10, so near ties are common, and after one
# different token the texts go their own ways. Nobody is wrong there. It means that "the same as alone" is a claim to be tested in
# float32, and that a service which promises equal texts in 16 bits needs kernels whose order of additions does not depend on the
# batch.

# %% [markdown] lang="zh"
# 输出：相同的 token 数和总数；文本与单独写的在哪里分叉：回答的第几个 token，当时第一名领先第二名多少。
#
# float32 下全部相同。logits 并不是每一位都相同：形状不同，相加的次序就不同，见第 8 章的实验 2。但百万分之一的差别，
# 只有在两个 token 本来就差这么一点的地方，才改得动结果。
#
# bfloat16 就有这样的地方：在 10 附近，相邻的两个数相差 0.06，差不多打平是常事；而一个 token 不同，后面的文本就各走各的了。
# 谁也没有错。所以“和单独写的一样”要用 float32 来检验；要在 16 位下承诺文本相同，就需要相加次序不随批而变的 kernel。

# %% [markdown] lang="en"
# ## Experiment 3 · Until it bends
#
# Tokens a second against the number of requests in a step, each 128 tokens along: the embedded model, and the four layers with
# SmolLM2's proportions from chapter 8. Beside it what chapter 2's roofline says of the second, with this machine's peaks measured just now.
#
# **Predict:** up to how many requests does a step cost about the same?

# %% [markdown] lang="zh"
# ## 实验 3 · 直到拐弯
#
# 每秒 token 数随一步里的请求数怎么变？每个请求都已走到 128 个 token。两个模型：自带的那个，和第 8 章里比例同 SmolLM2、
# 只留四层的那个。旁边再画上第 2 章的 roofline 对后者的预言，峰值是刚刚在这台机器上量的。
#
# **先猜：** 请求数加到多少，一步的时间还差不多不变？

# %%
from dataclasses import replace
from timeit import repeat

from decodelab.models.config import Config
from decodelab.show.plots import sweep
from decodelab.sim.hardware import GPU, MODELS


def seconds(work, repeats=7):
    """en: The shortest of several runs, after one to warm up.
    zh: 先热身一次，再取几次里最短的。
    """
    work()
    return min(repeat(work, number=1, repeat=repeats))


def decode_step(decoder, lens, block_size=16):
    """en: A decode step of requests of these lengths, in scattered blocks, as something to call.
    zh: 这么长的一些请求的一步 decode，块散放各处，包成一个可调用的东西。
    """
    needed = [-(-n // block_size) for n in lens]
    tables = dict(enumerate(t.tolist() for t in torch.randperm(sum(needed)).split(needed)))
    texts = {i: torch.randint(decoder.config.vocab, (n,)).tolist() for i, n in enumerate(lens)}
    kv = PagedKV(decoder.config, sum(needed), block_size, decoder.embedding.dtype, device)
    kv.keys.normal_(), kv.values.normal_()
    plan = Plan(scheduled=dict.fromkeys(texts, 1), start={i: n - 1 for i, n in enumerate(lens)})
    greedy = [0.0] * len(lens), [1.0] * len(lens), [None] * len(lens)

    def step():
        batch = pack(plan, texts, tables, block_size, device)
        return sample_batch(forward_batch(decoder, kv, batch), *greedy)

    return step


smol = replace(MODELS["SmolLM2-135M"], layers=4, vocab=8192)
big_config = Config(**{**vars(smol), "bytes_per_param": 4, "bytes_per_kv": 4})
big = Decoder(big_config, {n: torch.randn(s, device=device) * 0.02 for n, s in big_config.weights()})
sizes = [1, 2, 4, 8, 16, 32, 64]
speed: dict = {}
for name, each in (("small", decoder), ("big", big)):
    speed[name] = {n: n / seconds(decode_step(each, [128] * n)) for n in sizes}

square, large = torch.randn(1024, 1024, device=device), torch.randn(8192, 4096, device=device)
here = GPU(
    tr(en="this machine", zh="这台机器"),
    flops=2 * 1024**3 / seconds(lambda: (square @ square)[0, 0].item(), 20),
    bandwidth=4 * large.numel() / seconds(lambda: (large @ large[0])[0].item(), 20),
    memory=1,
    source=tr(en="measured just now", zh="刚刚实测"),
)
cost = chapter("ch02").Roofline(big_config, here)
speed["big, roofline"] = {n: n / cost(n, 127 * n, 128 * n) for n in sizes}
for n in sizes:
    print(f"{n:>3} " + "".join(f"{name:>16} {c[n]:6.0f}  x{c[n] / c[1]:4.1f}" for name, c in speed.items()))
bend = next((n for n in range(1, 4096) if (t := cost.times(n, 127 * n, 128 * n))[0] > t[1]), None)
print(tr(en="arithmetic takes longer than traffic from N =", zh="计算比访存更久，从 N ="), bend)
sweep(speed, "requests in a step", "tokens/s", log=True)

# %% [markdown] lang="en"
# *x: requests in one step, logarithmic. y: tokens a second of all of them together. Printed: the same, and as a multiple of one request's.*
#
# The curve climbs while rows share the reading of the weights, and flattens where arithmetic takes over: the ridge again. A CPU's
# ridge is low, so it bends early; that of chapter 2's GPUs lies between 150 and 400 rows, which is why services batch so many.
#
# On one core of an AMD EPYC server (2026-11-29, beside other work, so counted in processor time) eight requests of the big model made 4 times
# the tokens of one, and 64 made 8 times, most of it reached by 32. The roofline said 7.5 and 9 to 10, with the bend at 10 or 11. It does not know what
# gathering keys costs, nor that the library is poor at matrices of two or three rows: from one request to two hardly anything was gained.

# %% [markdown] lang="zh"
# 图：横轴是一步里的请求数（对数），纵轴是全部请求合计每秒的 token 数。打印的是同样的数，以及它是单个请求的多少倍。
#
# 只要各行还在分摊读权重的时间，曲线就往上走；轮到计算说了算，就平了：又是那个拐点。CPU 的拐点低，所以弯得早；
# 第 2 章那些 GPU 的拐点在 150 到 400 行之间，推理服务一批放那么多请求，原因就在这里。
#
# 在一台 AMD EPYC 服务器的一个核上（2026-11-29，同时还有别的任务，所以按处理器时间计），大模型八个请求的 token 数是一个的 4 倍，64 个是 8 倍，
# 到 32 个时已差不多到头。roofline 说的是 7.5 倍和 9 到 10 倍，拐点在 10 或 11。它不知道取出 key 要花多少，也不知道这个库不擅长两三行的矩阵：
# 从一个请求到两个，几乎没有好处。

# %% [markdown] lang="en"
# ## Experiment 4 · What gathering costs, and what one long request costs
#
# First the attention of 16 decodes over 512 tokens each, with blocks of 1, 16 and 512 tokens; then without a gather, on a copy that
# lies in order. Second: fifteen requests of 64 tokens, and one that gets longer and longer; all in one call, and
# each by itself.
#
# **Predict:** does a larger block make the gather cheaper? From which length of the long one on is one by one faster?

# %% [markdown] lang="zh"
# ## 实验 4 · 取出的代价，和一个长请求的代价
#
# 先看 16 个 decode、每个 512 token 的注意力：块的大小分别是 1、16、512；再在一份已经按次序排好的副本上算，不用取出。
# 然后是十五个 64 token 的请求，加上一个越来越长的：放在一次调用里，和一个一个算。
#
# **先猜：** 块大一些，取出会便宜些吗？那个长请求长到多少，一个一个算反而更快？


# %%
def pool_of(lens, block_size):
    """en: A layer's keys and values, and where each request's tokens lie in them, filled up as ``Batch`` does it.
    zh: 一层的 key 和 value，以及各请求的 token 在其中的位置，补齐方式同 ``Batch``。
    """
    needed = [-(-n // block_size) for n in lens]
    tables = torch.nn.utils.rnn.pad_sequence(torch.randperm(sum(needed)).split(needed), batch_first=True)
    lens = torch.tensor(lens)
    places = torch.arange(int(lens.max())).minimum(lens[:, None] - 1)
    own = slots(tables, torch.arange(len(lens))[:, None], places, block_size)
    keys, values = torch.randn(2, sum(needed) * block_size, 3, 64, device=device)
    return torch.randn(len(lens), 9, 64, device=device), keys, values, own.to(device), lens.to(device)


def milliseconds(*questions):
    """en: Of one call of ``decode_attention`` for each question, one after the other.
    zh: 对每个问题各调用一次 ``decode_attention``，一共多少毫秒。
    """
    return 1e3 * seconds(lambda: sum(decode_attention(*one).sum().item() for one in questions))


took = {f"block_size {size}": milliseconds(pool_of([512] * 16, size)) for size in (1, 16, 512)}
q, keys, values, own, lens = pool_of([512] * 16, 16)
k, v = keys[own].transpose(1, 2).contiguous(), values[own].transpose(1, 2).contiguous()
grouped = q.unflatten(1, (3, 3))
took["no gather"] = 1e3 * seconds(lambda: scaled_dot_product_attention(grouped, k, v).sum().item())
for name, each in took.items():
    print(f"{name:>15} {each:7.2f} ms  x{each / took['no gather']:.1f}")

curves: dict = {"together": {}, "one by one": {}}
for longest in (64, 128, 256, 512, 1024, 2048):
    q, keys, values, own, lens = whole = pool_of([64] * 15 + [longest], 16)
    alone = [(q[[i]], keys, values, own[[i], :n], lens[[i]]) for i, n in enumerate(lens.tolist())]
    curves["together"][longest] = milliseconds(whole)
    curves["one by one"][longest] = milliseconds(*alone)
sweep(curves, "tokens of the longest of 16", "ms", log=True)

# %% [markdown] lang="en"
# *x: length of the one long request, logarithmic. y: milliseconds of attention in one layer.*
#
# On the server of experiment 3, attention without a gather took 0.6 ms; with blocks of 512 about four times that, of 16 four to five times, of one
# token six to nine times. What lies side by side is cheaper to fetch, but most of the price is the same for all: each key is read, written and read
# again.
#
# And padding: with the long one at 128 tokens, twice the others, one call was still the faster way; at 256 it was not, and at 2,048 it took ten times as
# long and more. The shorter the step and the dearer a call, the later that comes; on a GPU calls are dear.

# %% [markdown] lang="zh"
# 图：横轴是那个长请求的长度（对数），纵轴是一层注意力的毫秒数。
#
# 在实验 3 的那台服务器上，不取出时注意力用了 0.6 毫秒；块为 512 时约为它的四倍，16 时四到五倍，1 时六到九倍。挨在一起的取起来便宜些，
# 但大半的代价谁都逃不掉：每个 key 都要读一遍、写一遍、再读一遍。
#
# 再看补齐：那个长请求是 128 个 token（别人的两倍）时，一次调用还快些；到 256 就不是了，到 2,048 要花十倍还多的时间。
# 一步越短、一次调用越贵，这个转折来得越晚；在 GPU 上，调用是贵的。

# %% [markdown] lang="en"
# ## Few sizes for many
#
# *Extension: its points are counted apart.*
#
# Two things want equal sizes. Decodes in one call are filled up to the longest of them. And on a GPU, chapter 14 records a whole
# step once and plays it back, which works for the very batch size that was recorded: a step of 13 requests goes into the recording
# for 16, and three rows are computed for nothing. Either way somebody chooses a few *buckets*, and each size goes into the smallest
# one that holds it.

# %% [markdown] lang="zh"
# ## 用少数几种大小，装下所有大小
#
# **扩展部分**：单独计分。
#
# 有两件事希望大小一样。放在一次调用里的 decode，要按其中最长的补齐。而在 GPU 上，第 14 章会把一整步录下来再回放，
# 录的是多大的批，就只能回放多大的批：13 个请求的一步，要放进为 16 录的那一份，有三行白算。
# 两件事都要选定少数几个**桶**，每个大小放进装得下它的最小的桶。

# %% [markdown] lang="en"
# ## TODO ch09.6 · The bucket that holds it
#
# Fill in `bucket`: the smallest of `buckets` that is at least `size`; None where there is none (such a step goes without a
# recording). The buckets stand in any order, and there may be none at all.

# %% [markdown] lang="zh"
# ## TODO ch09.6 · 装得下的桶
#
# 补全 `bucket`：`buckets` 里不小于 `size` 的最小的那个；没有就返回 None（这样的一步就不用录好的那份）。
# 桶的次序任意，也可以一个都没有。


# %% answer="ch09-answer-6" tags=["export"]
def bucket(size: int, buckets: list[int]) -> int | None:
    """en: The smallest bucket that holds ``size``, or None.
    zh: 装得下 ``size`` 的最小的桶；没有就是 None。
    """
    # TODO ch09.6
    # en: Of those that are large enough the smallest.
    # zh: 够大的里面取最小的。
    return min((b for b in buckets if b >= size), default=None)
    # END ch09.6


# %% [markdown] lang="en" hint="ch09.6"
# 1. Leave out what is too small, take the smallest of the rest.
# 2. `min` of a generator; it complains about an empty one, unless it is told what to say then.
# 3. `min((b for b in buckets if b >= size), default=…)`.

# %% [markdown] lang="zh" hint="ch09.6"
# 1. 去掉太小的，剩下的里面取最小的。
# 2. 对一个生成器表达式取 `min`；里面一个都没有时它会报错，除非告诉它这时返回什么。
# 3. `min((b for b in buckets if b >= size), default=…)`。

# %% [markdown] lang="en" explain="ch09.6"
# Chapter 14 asks this once a step, of a dozen buckets. A table with an entry for every size, as vLLM has it, answers without looking.

# %% [markdown] lang="zh" explain="ch09.6"
# 第 14 章每一步问一次，桶不过十几个。vLLM 则给每个大小都存一项，查表就行，不用找。

# %% check="ch09.6" points=1 level="extension"
check("ch09.6")

# %% [markdown] lang="en"
# ## TODO ch09.7 · The buckets that waste least
#
# `sizes` are the sizes that occurred, one item for each step (or request), so a frequent one occurs often. Fill in
# `best_buckets`: at most `count` buckets, from small to large, such that every size fits into one and the rows are fewest, when each
# size goes into the smallest bucket that holds it. Of equally good ones, any.
#
# `sizes` has at least one item, `count` is at least 1. A hundred sizes and eight buckets must not take a second (experiment 5 has more):
# trying every choice is hopeless there, and adding the best bucket one after the other is not always right. Think of the sorted list, and
# of where its last bucket begins.

# %% [markdown] lang="zh"
# ## TODO ch09.7 · 浪费最少的桶
#
# `sizes` 是出现过的各个大小，每一步（或每个请求）一项，所以常见的大小会出现很多次。补全 `best_buckets`：
# 最多 `count` 个桶，从小到大排，要让每个大小都有桶可放，并且在各自放进装得下的最小的桶时，总行数最少。
# 一样好的选哪种都行。
#
# `sizes` 至少有一项，`count` 至少是 1。一百个大小、八个桶，要在一秒之内算完（实验 5 里还要多）：把每种选法都试一遍是没指望的，
# 一个一个地加当前最好的桶又不一定对。想想排好序的列表，再想想最后一个桶从哪里开始。


# %% answer="ch09-answer-7" tags=["export"]
def best_buckets(sizes: list[int], count: int) -> list[int]:
    """en: At most ``count`` buckets, from small to large, in which ``sizes`` come to the fewest rows.
    zh: 最多 ``count`` 个桶，从小到大；``sizes`` 放进去，总行数最少。
    """
    # TODO ch09.7
    # en: The largest of the n smallest sizes is a bucket; try where it begins, the rest is the same question again.
    # zh: 最小的 n 个大小里，最大的那个必是一个桶；试它从哪里开始，其余的又是同样的问题。
    ordered = sorted(sizes)

    @cache
    def best(n: int, left: int) -> tuple:
        if n == 0 or left == 0:
            return (0 if n == 0 else float("inf"), ())
        options = ((m, best(m, left - 1)) for m in range(n))
        return min((rows + (n - m) * ordered[n - 1], (*some, ordered[n - 1])) for m, (rows, some) in options)

    return list(best(len(ordered), count)[1])
    # END ch09.7


# %% [markdown] lang="en" hint="ch09.7"
# 1. Sort. Some bucket equals the largest size, and it takes a piece at the end of the list: from m to the end. What is in front of it is the
#    same question with fewer sizes and one bucket less.
# 2. Let `best(n, left)` be the fewest rows for the n smallest sizes with `left` buckets, together with these buckets. It is 0 for no
#    size, infinite for no bucket, else the minimum over m of `best(m, left - 1)` plus `(n - m) * ordered[n - 1]`. `functools.cache` remembers.
# 3. `return min((rows + (n - m) * ordered[n - 1], (*some, ordered[n - 1])) for m, (rows, some) in …)`, where `…` gives m and
#    `best(m, left - 1)` for each m in `range(n)`; the answer is `list(best(len(ordered), count)[1])`.

# %% [markdown] lang="zh" hint="ch09.7"
# 1. 先排序。必有一个桶等于最大的那个大小，它管列表末尾的一段：从 m 到最后。前面那些，就是同样的问题，大小少几个，桶少一个。
# 2. 令 `best(n, left)` 为：最小的 n 个大小、`left` 个桶时最少的行数，连同这些桶。没有大小时是 0，没有桶时是无穷大，
#    否则对 m 取 `best(m, left - 1)` 加上 `(n - m) * ordered[n - 1]` 的最小值。`functools.cache` 会替你记住算过的。
# 3. `return min((rows + (n - m) * ordered[n - 1], (*some, ordered[n - 1])) for m, (rows, some) in …)`，其中 `…` 对 `range(n)` 里的每个 m
#    给出 m 和 `best(m, left - 1)`；答案是 `list(best(len(ordered), count)[1])`。

# %% [markdown] lang="en" explain="ch09.7"
# Dynamic programming: n × count questions, each with n options, instead of all ways to choose. It minimises the rows and not the
# padding, which is the same, since the sizes themselves are what they are.
#
# A bucket that is no size would be too large for nothing: moving it down to the largest size in it costs nobody anything. So only sizes
# need to be tried.

# %% [markdown] lang="zh" explain="ch09.7"
# 这是动态规划：n × count 个小问题，每个有 n 种选法，而不是试遍所有的组合。它最小化的是行数而不是补齐，两者一样，
# 因为大小本身是定数。
#
# 如果某个桶不等于任何一个大小，那它就白白大了一截：把它降到里面最大的那个大小，谁也不吃亏。所以只要试这些大小就够了。

# %% check="ch09.7" points=3 level="extension"
check("ch09.7")

# %% [markdown] lang="en"
# ### Experiment 5 · Both kinds of padding
#
# Batch sizes: four hundred chat requests on a simulated H100, driven by your scheduler of chapter 7, and the steps of it that only decode. Their
# rows in three sets of buckets: powers of two; those that nano-vllm records; as many, chosen by your `best_buckets`. Then lengths: every third request
# of the fullest of these steps, whose attention is split into one to four calls.
#
# **Predict:** how many per cent of rows are padding with powers of two? And how many calls are worth it?

# %% [markdown] lang="zh"
# ### 实验 5 · 两种补齐
#
# 批的大小：模拟的 H100 上跑四百个聊天请求，由你第 7 章的调度器来排，取其中只有 decode 的步。
# 三组桶，各要算多少行：2 的幂；nano-vllm 录的那些；同样数目、由你的 `best_buckets` 选的。然后是长度：取其中最满的一步，每三个请求取一个，把它们的注意力分成一到四次调用。
#
# **先猜：** 用 2 的幂，有百分之几的行是补齐？分成几次调用才划算？

# %%
from decodelab.contract import SchedulerConfig
from decodelab.run import Loop
from decodelab.sim.executor import SimExecutor
from decodelab.sim.hardware import GPUS
from decodelab.workload import synthetic

llama = chapter("ch02").Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])
chat = list(synthetic("azure-chat-like", 400, seed=9, rate=24))
scheduler = chapter("ch07").ChunkedScheduler(
    SchedulerConfig(128, 512, num_blocks=50_000), chapter("ch03").FCFS()
)
plans = [step.plan for step in Loop(chat, scheduler, SimExecutor(llama))]
decodes = [plan for plan in plans if set(plan.scheduled.values()) == {1}]
seen = [len(plan.scheduled) for plan in decodes]
few = [*sorted(seen)[:: max(1, len(seen) // 150)], max(seen)]
nano = [1, 2, 4, 8, *range(16, max(seen) + 16, 16)]
sets = {"powers of two": [2**i for i in range((max(seen) - 1).bit_length() + 1)], "nano-vllm": nano}
sets["best"] = best_buckets(few, len(nano))
for name, buckets in sets.items():
    rows = sum(bucket(size, buckets) for size in seen)
    print(f"{name:>14} {len(buckets):>3} {1 - sum(seen) / rows:6.1%}  {buckets}")

busy = max(decodes, key=lambda plan: len(plan.scheduled))
lens = sorted(busy.start[i] + 1 for i in busy.scheduled)[::3]
for calls in (1, 2, 3, 4):
    tops = best_buckets(lens, calls)
    groups = [[n for n in lens if bucket(n, tops) == top] for top in tops]
    took = milliseconds(*(pool_of(group, 16) for group in groups))
    padding = sum(max(group) * len(group) for group in groups) - sum(lens)
    print(f"{calls}  {took:7.2f} ms  {padding / sum(lens):5.0%}  {tops}")

# %% [markdown] lang="en"
# *Buckets: how many, the share of rows computed for nothing, which. Lengths: calls, time, padding as a share of the tokens, the longest of each group.*
#
# With powers of two a third of all rows is padding, with the list that goes on in sixteens a fifth, with as many buckets chosen for this load a twelfth.
# (Chosen on the very sizes that they are judged by; exercise 5 is about tomorrow's.) And the first split of the attention is worth most: it frees the many
# from the few long ones. On the server of experiment 3 two calls took a fifth of one call's time, four hardly less than three.

# %% [markdown] lang="zh"
# 输出：桶的个数、白算的行所占的比例、各是多大；调用次数、时间、补齐相当于 token 数的百分之几、各组最长的长度。
#
# 用 2 的幂，三分之一的行是补齐；用后面每 16 一档的那份，五分之一；同样数目、为这份负载选的桶，十二分之一。（选和评用的是同一批大小，
# 明天的大小怎么样，见练习 5。）注意力分成几次，第一刀最划算：它让大多数请求不再受那几个长的拖累。在实验 3 的那台服务器上，
# 分两次只用了一次的五分之一的时间，分四次比分三次省不了多少。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **vLLM, commit `d29a69a`**, computes slots in a Triton kernel, one program for each request: block number × block size + position mod
#   block size, from `query_start_loc` and the positions. Rows beyond the batch get slot −1, because a recorded step has as many rows as it
#   was recorded with.
#   ([block_table.py](https://github.com/vllm-project/vllm/blob/d29a69a5f9eac41579524a0c22bcd68dd15b9ba7/vllm/v1/worker/gpu/block_table.py))
# - **vLLM, commit `9fa4eff`**, keeps a table from every batch size to the smallest recorded one that holds it, your `bucket`; for a larger
#   batch there is none, and the step runs without.
#   ([cudagraph_utils.py](https://github.com/vllm-project/vllm/blob/9fa4eff36cecfe0949927f31043a9871cffb5e20/vllm/v1/worker/gpu/cudagraph_utils.py))
# - **transformers 5.17.0** does in `generate_batch` what you do: `index_copy_` of the new keys at a write index, `index_select` of all keys at a
#   read index, then attention over a ragged batch. Its documentation warns that this "can become a bottleneck when sequence length grows
#   large", and has a second path, in which the kernel follows the block table. *(The code read in the installed package;
#   [documentation](https://huggingface.co/docs/transformers/main/en/paged_attention).)*
# - **nano-vllm, commit `2d9b51b`**, divides as you do, by phase: `flash_attn_varlen_func` for prompts, `flash_attn_with_kvcache` for decodes, both with a
#   block table. A step of it is one or the other, never mixed. It records steps of 1, 2, 4, 8, 16, 32, 48, … decodes (commit `06005bd`).
#   ([attention.py](https://github.com/GeeeekExplorer/nano-vllm/blob/2d9b51b1f97660e39bc34dda0c87d28aced3b09d/nanovllm/layers/attention.py),
#   [model_runner.py](https://github.com/GeeeekExplorer/nano-vllm/blob/06005bd4602e0dc6e4c80e64c159658dbc468fae/nanovllm/engine/model_runner.py))
# - **PyTorch 2.13** has your `paged_attention` as one call on CUDA: `torch.nn.attention.varlen.varlen_attn`, with boundaries, lengths and a
#   block table. Its description says that by default other batches may give other last digits, and that `num_splits=1` rules that out, at a
#   price. *(Read in the installed package.)*
# - **Where it comes from.** PagedAttention: Kwon et al., [arXiv 2309.06180](https://arxiv.org/abs/2309.06180).

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **vLLM，commit `d29a69a`**，用一个 Triton kernel 来算槽位，每个请求一个程序：块号 × 块大小 + 位置对块大小取余，
#   用到的是 `query_start_loc` 和各个位置。超出这一批的行，槽位记作 −1，因为录好的一步，录的时候有几行，回放就有几行。
#   （[block_table.py](https://github.com/vllm-project/vllm/blob/d29a69a5f9eac41579524a0c22bcd68dd15b9ba7/vllm/v1/worker/gpu/block_table.py)）
# - **vLLM，commit `9fa4eff`**，存了一张表，从每个批大小查到装得下它的最小的一份录制，也就是你的 `bucket`；
#   批再大就没有了，这一步照常运行，不用录制。
#   （[cudagraph_utils.py](https://github.com/vllm-project/vllm/blob/9fa4eff36cecfe0949927f31043a9871cffb5e20/vllm/v1/worker/gpu/cudagraph_utils.py)）
# - **transformers 5.17.0** 的 `generate_batch` 和你做的一样：按写下标 `index_copy_` 新的 key，按读下标 `index_select` 全部 key，
#   再对不等长的批做注意力。它的文档提醒说，序列很长时这会成为瓶颈；另有一条路径，由 kernel 自己沿着块表走。
#   （代码读的是安装好的包；[文档](https://huggingface.co/docs/transformers/main/en/paged_attention)。）
# - **nano-vllm，commit `2d9b51b`**，和你一样按阶段分开：提示词用 `flash_attn_varlen_func`，decode 用 `flash_attn_with_kvcache`，
#   两者都带块表。它的一步只做其中一种，从不混在一起。它录的是 1、2、4、8、16、32、48……个 decode 的步（commit `06005bd`）。
#   （[attention.py](https://github.com/GeeeekExplorer/nano-vllm/blob/2d9b51b1f97660e39bc34dda0c87d28aced3b09d/nanovllm/layers/attention.py)、
#   [model_runner.py](https://github.com/GeeeekExplorer/nano-vllm/blob/06005bd4602e0dc6e4c80e64c159658dbc468fae/nanovllm/engine/model_runner.py)）
# - **PyTorch 2.13** 在 CUDA 上把你的 `paged_attention` 做成了一次调用：`torch.nn.attention.varlen.varlen_attn`，参数有边界、长度和块表。
#   它的说明里写道：默认情况下，批不同，末几位可能不同；`num_splits=1` 可以避免，但要付出代价。（读的是安装好的包。）
# - **出处。** PagedAttention：Kwon 等人，[arXiv 2309.06180](https://arxiv.org/abs/2309.06180)。

# %% [markdown] lang="en"
# ## Summary
#
# - A batch is rows. Matrices do not ask whose they are, so prompts, chunks and decodes share one pass and one reading of the weights.
# - `positions` say where a row stands in its own text, `query_start_loc` whose it is, `slot_mapping` where its key goes.
# - Attention gathers a request's own slots, and nothing else: what nobody wrote must not even be multiplied by 0.
# - Decodes go together, filled up to the longest; that is cheap while lengths are alike.
# - Each request says what it would say alone, in float32 to the token; its numbers come from its own generator.
# - Tokens a second grow with the batch until arithmetic takes over. Keys and values are not shared, so the longer the texts, the sooner.

# %% [markdown] lang="zh"
# ## 小结
#
# - 批就是若干行。矩阵不问哪一行是谁的，所以整段提示词、分块和 decode 可以合用一次计算、一遍权重。
# - `positions` 说一行站在自己文本的哪里，`query_start_loc` 说它是谁的，`slot_mapping` 说它的 key 放到哪里。
# - 注意力只取这个请求自己的槽位，别的一概不碰：没人写过的东西，连乘以 0 都不行。
# - decode 合在一起算，按最长的补齐；长短相近时，这很便宜。
# - 每个请求说的都和单独运行时一样，float32 下一个 token 都不差；它的随机数来自自己的生成器。
# - 每秒 token 数随批增长，直到计算说了算。key 和 value 没法共用，所以文本越长，越早到头。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **Only decodes.** Let `paged_attention` treat a chunk as so many decodes, each row with its own length. Is it right? When is it faster?
# 2. **Half the bytes.** Let `PagedKV` keep bfloat16, converted on the way in and out, while all else stays float32. How many of experiment 2's tokens differ?
# 3. **Shared blocks.** Two prompts begin with the same 32 tokens. Let their tables share two blocks, and compute them once. What in this chapter has
#    to change? (Chapter 11 does it.)
# 4. **On a GPU.** Run experiment 3 there, with sizes up to 512, in the type that the GPU likes. Where does it bend?
# 5. *(Extension.)* Choose buckets for today's sizes and use them on tomorrow's. How much worse are they than tomorrow's best?
#
# To discuss: a service bills by the token. Should a request in a batch of 64 cost less than one that ran alone at night?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **全当 decode。** 让 `paged_attention` 把一个分块当成若干个 decode，每一行有自己的长度。对吗？什么时候更快？
# 2. **字节减半。** 让 `PagedKV` 用 bfloat16 来存，进出时转换，其余仍是 float32。实验 2 里有几个 token 不同？
# 3. **共用的块。** 两段提示词开头有 32 个 token 相同。让它们的块表共用两个块，只算一次。这一章里有什么要改？（第 11 章就做这个。）
# 4. **在 GPU 上。** 到 GPU 上做实验 3，请求数加到 512，用它喜欢的数据类型。在哪里拐弯？
# 5. （扩展）按今天的大小选桶，拿去用在明天。比明天的最优差多少？
#
# 讨论：服务按 token 收费。和另外 63 个请求一起跑的请求，该不该比半夜独自跑的便宜？

# %% [markdown] lang="en"
# ## What next
#
# Plans were made by hand here. In chapter 10 the scheduler of chapters 4 to 7 makes them, on a clock, with requests that
# come, stream and go: the engine.

# %% [markdown] lang="zh"
# ## 接下来
#
# 这一章的计划是手工做的。第 10 章由第 4 到 7 章的调度器来做，有时钟，有请求来来去去、边写边输出：那就是引擎。
