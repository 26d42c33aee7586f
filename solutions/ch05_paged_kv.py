# %% [markdown] lang="en"
# # Chapter 5 · Pages for the KV cache
#
# A batch is as large as memory lets it be. Here you write the part that decides how far memory goes: a
# `BlockManager` that cuts the KV cache into blocks and hands them out one by one. Then you measure what that
# is worth, on the same requests, with and without.
#
# **Time.** Core: 90 minutes at most (five TODOs, five experiments). Extension: 45 minutes more.
#
# **You need.** Chapters 2, 3 and 4, or their references. No GPU, no PyTorch.
#
# **You leave with.** A block manager that passes its checks; chapters 6, 7 and 9 build on it.

# %% [markdown] lang="zh"
# # 第 5 章 · 给 KV cache 分页
#
# 一批能有多大，最后由显存说了算。这一章你要写的，正是决定显存能用到什么份上的那一部分：
# `BlockManager`，把 KV cache 切成块，要用时一块一块地发。然后拿同样的请求，量一量有它和没它差多少。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，五个实验）；扩展部分再加 45 分钟。
#
# **基础。** 做过第 2、3、4 章，或者直接用它们的参考实现。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 一个通过全部检查的块管理器，第 6、7、9 章都建在它上面。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. What does a KV cache keep of each token, and how many bytes is that for one token of *your* model?
# 2. In a continuous batch, who may leave in a step, and who may join in the next?
# 3. In Python: what is `-(-9 // 4)`? And which end of a list does `pop()` take from?
#
# For 1 see [chapter 0](./ch00_preflight.ipynb), for 2 [chapter 4](./ch04_continuous_batching.ipynb); for 3
# try it in a new cell.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. KV cache 为每个 token 存了什么？换成**你的**模型，一个 token 要占多少字节？
# 2. 连续批处理里，这一步谁可以离开，下一步谁可以加入？
# 3. 在 Python 里，`-(-9 // 4)` 等于几？`pop()` 从列表的哪一头拿？
#
# 第 1 题见[第 0 章](./ch00_preflight.ipynb)，第 2 题见[第 4 章](./ch04_continuous_batching.ipynb)，
# 第 3 题新建一个单元格试试就知道。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch05", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# Llama-3.1-8B keeps 131,072 bytes of keys and values for every token. On an RTX 4090 with 24 GB, take 16.1
# GB for the weights and leave a tenth of the memory aside: 5.5 GB are left, room for **42,262 tokens**.
#
# How many chats is that? Nobody knows how long an answer will be. If each must lie in one piece, the
# only safe piece is the longest that the service allows, say 16,384 tokens.
#
# | | tokens a request | requests at once | tokens a second, at best |
# |---|---|---|---|
# | one piece of the longest | 16,384 | 2 | 123 |
# | what a chat takes on average | 1,344 | 31 | 1,452 |
#
# Nine tenths of the memory is reserved for tokens that never come, and with it goes nine tenths of the
# speed: a decode step reads all weights once, for 2 requests or for 31.
#
# *Model and GPU from `decodelab.sim.hardware`, which names its sources; average length of 2,000 requests drawn
# by `chat_like`. The last column is bandwidth alone: (weights and cached keys and values) / 1,008 GB/s.*

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# Llama-3.1-8B 为每个 token 存 131,072 字节的 key 和 value。一张 24 GB 的 RTX 4090，放下权重要 16.1 GB，
# 再留出十分之一备用，还剩 5.5 GB，能放 **42,262 个 token**。
#
# 这够几个人聊天？回答会有多长，谁也不知道。如果每个请求必须占**一整段**连续的显存，
# 那么唯一保险的长度就是服务允许的最大长度，比如 16,384 个 token。
#
# | | 每个请求占的 token | 同时放得下的请求 | 每秒 token 数，最多 |
# |---|---|---|---|
# | 一整段，按最大长度留 | 16,384 | 2 | 123 |
# | 一次聊天平均实际用到的 | 1,344 | 31 | 1,452 |
#
# 九成的显存留给了永远不会来的 token，九成的速度也跟着没了：
# decode 一步要把全部权重读一遍，带 2 个请求是读一遍，带 31 个也是读一遍。
#
# 模型和 GPU 取自 `decodelab.sim.hardware`，出处写在里面；平均长度是用 `chat_like` 抽 2,000 个请求算的。
# 最后一列只算带宽：（权重 + 缓存的 key 和 value）÷ 1,008 GB/s。

# %% [markdown] lang="en"
# ## The idea: blocks, and a table that says where they are
#
# Operating systems had this problem sixty years ago and solved it with *pages*. Cut the memory into
# **blocks** of `block_size` tokens, all alike. A request's tokens lie in order, but its blocks may lie
# anywhere; its **block table** lists them.
#
# ```text
#   request a, 10 tokens, block_size 4           the pool
#
#   tokens     0 1 2 3   4 5 6 7   8 9           block 0   [ 4 5 6 7 ]  a
#                 |         |       |            block 1   [ . . . . ]  free
#   table      [  2    ,    0   ,   5  ]         block 2   [ 0 1 2 3 ]  a
#                                                block 3   [ * * * * ]  b
#   token 9 lies in block table[9 // 4] = 5      block 4   [ . . . . ]  free
#   at offset 9 % 4 = 1, so in slot 5*4 + 1      block 5   [ 8 9 . . ]  a
# ```
#
# *Left: what the request sees. Right: what there is. Two slots of block 5 are held and empty.*
#
# Three things follow. A request takes a block only when its tokens reach one, so **nothing is reserved for
# the future**. Any free block will do, so **no gap is too small**. And what is wasted is the empty end of
# the last block: fewer than `block_size` slots a request, however long it gets.

# %% [markdown] lang="zh"
# ## 想法：切成块，再用一张表记住在哪里
#
# 操作系统六十年前就遇到过这个问题，答案是**分页**。把显存切成一样大的**块**，每块放 `block_size` 个 token。
# 请求的 token 仍然按次序排，它的块却可以散在任何地方，由它的**块表**（block table）记住是哪几块。
#
# ```text
#   request a, 10 tokens, block_size 4           the pool
#
#   tokens     0 1 2 3   4 5 6 7   8 9           block 0   [ 4 5 6 7 ]  a
#                 |         |       |            block 1   [ . . . . ]  free
#   table      [  2    ,    0   ,   5  ]         block 2   [ 0 1 2 3 ]  a
#                                                block 3   [ * * * * ]  b
#   token 9 lies in block table[9 // 4] = 5      block 4   [ . . . . ]  free
#   at offset 9 % 4 = 1, so in slot 5*4 + 1      block 5   [ 8 9 . . ]  a
# ```
#
# 图：左边是请求眼里的样子，右边是显存里的样子。token 9 在块 `table[9 // 4]` = 5 里，偏移 `9 % 4` = 1，
# 槽位就是 5*4 + 1。块 5 有两个槽位占着却是空的。
#
# 由此得到三个好处。token 写到哪里才拿到哪里的块，所以**不必为将来预留**。
# 随便哪个空闲块都能用，所以**再小的空隙也不浪费**。真正浪费的只有最后一块的尾巴：
# 不管请求多长，都不到 `block_size` 个槽位。

# %% [markdown] lang="en"
# ## Your class: five gaps
#
# A `BlockManager` holds no tensors, only numbers: who has which block. `__init__` is written; the free
# blocks are a list, `self._free`, in any order you like. Blocks are numbered from 0 to `num_blocks - 1`.
#
# | TODO | method | in one sentence |
# |---|---|---|
# | `ch05.1` | `missing` | how many more blocks does this request need? |
# | `ch05.2` | `allocate` | give it all of them, or nothing |
# | `ch05.3` | `free` | take everything back |
# | `ch05.4` | `slot_mapping` | where does each token go? |
# | `ch05.5` | `waste` | how much of what is held is empty? |

# %% [markdown] lang="zh"
# ## 你的类：五个空
#
# `BlockManager` 里没有张量，只有数：哪个块在谁手里。`__init__` 已经写好；空闲的块放在列表 `self._free` 里，
# 什么次序都行。块从 0 编号到 `num_blocks - 1`。
#
# | TODO | 方法 | 一句话 |
# |---|---|---|
# | `ch05.1` | `missing` | 这个请求还差几块？ |
# | `ch05.2` | `allocate` | 要么全给够，要么一块不给 |
# | `ch05.3` | `free` | 全部收回 |
# | `ch05.4` | `slot_mapping` | 每个 token 写到哪里？ |
# | `ch05.5` | `waste` | 占着的里面，有多少是空的？ |


# %% answer="ch05-answer" tags=["export"]
class BlockManager:
    """en: Who holds which block of the KV cache; ``block_size`` tokens fit into a block.
    zh: 记住 KV cache 的每个块在谁手里；一个块放 ``block_size`` 个 token。
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.tables: dict[int | str, list[int]] = {}  # request id -> its blocks, in order of its tokens
        self._free = list(range(num_blocks))[::-1]  # block 0 is the first to go

    @property
    def num_free(self) -> int:
        """en: How many blocks nobody holds.
        zh: 没有人占的块有几个。
        """
        return len(self._free)

    def missing(self, request_id: int | str, num_tokens: int) -> int:
        """en: How many more blocks the request needs to hold its first ``num_tokens`` tokens.
        zh: 这个请求要放下前 ``num_tokens`` 个 token，还差几块。
        """
        # TODO ch05.1
        # en: Blocks for num_tokens, rounded up, less the blocks in its table; never below 0.
        # zh: num_tokens 要用的块数（向上取整），减去块表里已有的；不能小于 0。
        needed = -(-num_tokens // self.block_size)
        return max(0, needed - len(self.tables.get(request_id, ())))
        # END ch05.1

    def allocate(self, request_id: int | str, num_tokens: int) -> bool:
        """en: Let the request hold ``num_tokens`` tokens; False, and nothing changed, where blocks are lacking.
        zh: 让这个请求放得下 ``num_tokens`` 个 token；块不够就返回 False，什么都不改。
        """
        # TODO ch05.2
        # en: Too few free blocks: False. Else append as many as are missing to its table: True.
        # zh: 空闲块不够：返回 False。否则把差的块接到它的块表末尾：返回 True。
        need = self.missing(request_id, num_tokens)
        if need > len(self._free):
            return False
        table = self.tables.setdefault(request_id, [])
        for _ in range(need):
            table.append(self._free.pop())
        return True
        # END ch05.2

    def free(self, request_id: int | str) -> None:
        """en: Take back all blocks of a request; one that holds none is ignored.
        zh: 收回一个请求的全部块；一个块都没占的请求，不用理会。
        """
        # TODO ch05.3
        # en: Its table goes, and every block in it is free again.
        # zh: 删掉它的块表，表里的每个块重新变为空闲。
        table = self.tables.pop(request_id, ())
        self._free.extend(table)
        # END ch05.3

    def slot_mapping(self, request_id: int | str, start: int, count: int) -> list[int]:
        """en: The slots of ``count`` tokens from position ``start`` on; a slot is block * block_size + offset.
        zh: 从位置 ``start`` 起 ``count`` 个 token 的槽位；槽位 = 块号 * block_size + 块内偏移。
        """
        # TODO ch05.4
        # en: For each position: which block of the table, and where in it.
        # zh: 对每个位置：在块表的第几块，块内第几个。
        table, size = self.tables[request_id], self.block_size
        return [table[p // size] * size + p % size for p in range(start, start + count)]
        # END ch05.4

    def waste(self, num_tokens: dict[int | str, int]) -> float:
        """en: The share of the held slots that hold no token; ``num_tokens``: tokens stored, by request.
        zh: 占着的槽位里没有存 token 的比例；``num_tokens``：每个请求存了多少 token。
        """
        # TODO ch05.5
        # en: Held slots, those of them in use, and the share of the rest; 0.0 where none is held.
        # zh: 占着的槽位、其中用上的槽位，算出其余部分的比例；一个都没占就是 0.0。
        held = (self.num_blocks - self.num_free) * self.block_size
        used = sum(num_tokens[request_id] for request_id in self.tables)
        return (held - used) / held if held else 0.0
        # END ch05.5


# %% [markdown] lang="en"
# ## TODO ch05.1 · How many blocks are missing
#
# Fill in `missing`: how many blocks does the request still need to hold its first `num_tokens` tokens?
#
# - Begun is begun: 9 tokens need 3 blocks of 4, and so do 12. But 8 need 2.
# - The blocks in `self.tables[request_id]` count as had. A request without a table has none.
# - It may have more than it needs. Then nothing is missing: 0, not -1.
# - This is a question. It changes nothing, not even by an empty table for a newcomer.

# %% [markdown] lang="zh"
# ## TODO ch05.1 · 还差几块
#
# 补全 `missing`：请求要放下前 `num_tokens` 个 token，还差几块？
#
# - 用到一点也算一块：9 个 token 要 3 个大小为 4 的块，12 个也是 3 个；8 个只要 2 个。
# - `self.tables[request_id]` 里的块算已有的。没有块表的请求，就是一块都没有。
# - 已有的可能比要用的还多，那就什么都不差：返回 0，不是 -1。
# - 这只是一个问题，什么都不能改，也不要顺手给新请求建一张空表。

# %% [markdown] lang="en" hint="ch05.1"
# 1. Two numbers and their difference: the blocks that the tokens need, and the blocks that are there.
# 2. `//` rounds down. To round up: `-(-n // b)`, or `(n + b - 1) // b`; `n // b + 1` is wrong where n is a
#    multiple of b. `self.tables.get(request_id, ())` has a length, whether or not the request is known.
# 3. `needed = -(-num_tokens // self.block_size)`; then the difference to
#    `len(self.tables.get(request_id, ()))`, inside `max(0, ...)`.

# %% [markdown] lang="zh" hint="ch05.1"
# 1. 两个数，再一减：这些 token 要用几块，手里已经有几块。
# 2. `//` 是向下取整。向上取整写成 `-(-n // b)` 或 `(n + b - 1) // b`；写成 `n // b + 1`，
#    n 正好是 b 的倍数时就错了。`self.tables.get(request_id, ())` 不管认不认识这个请求，都能取长度。
# 3. `needed = -(-num_tokens // self.block_size)`；再减去
#    `len(self.tables.get(request_id, ()))`，外面套上 `max(0, ...)`。

# %% [markdown] lang="en" explain="ch05.1"
# `-(-n // b)` is rounding up by rounding the negative number down: no floats, so no surprise at large
# numbers. `math.ceil(n / b)` is right here too, as long as n stays below `2**53`.
#
# The scheduler asks this question before it admits anybody: chapter 6 compares the answer with the free
# blocks *less a reserve*. That is why it stands by itself and not inside `allocate`.

# %% [markdown] lang="zh" explain="ch05.1"
# `-(-n // b)` 是先取负、向下取整、再取负，等于向上取整：不经过浮点数，数再大也不会出怪事。
# 这里写 `math.ceil(n / b)` 也对，只要 n 不超过 `2**53`。
#
# 调度器接纳任何请求之前都要先问这一句：第 6 章会拿它和“空闲块**减去储备**”比较。
# 所以它单独成为一个方法，而不是藏在 `allocate` 里。

# %% check="ch05.1" points=2 level="core"
check("ch05.1")

# %% [markdown] lang="en"
# ## TODO ch05.2 · All or nothing
#
# Fill in `allocate`: afterwards the request's table holds `num_tokens` tokens, counted from its first.
#
# - Enough free blocks: append as many as are missing **to the end** of the table, no more, and return
#   `True`. The blocks that are there already hold tokens; they stay where they are.
# - Too few: return `False` and change **nothing**. Not a table, not a free block; a newcomer gets no empty
#   table either.
# - Nothing is missing: `True`. A table never shrinks here.
#
# A decode step calls this with one token more than last time. With blocks of 16, the token fits into the
# last block in 15 of 16 cases, and no block is taken: it grows **at a block boundary** only.
#
# Why all or nothing? A request with half of its blocks cannot run, and the blocks that it sits on are
# missing elsewhere. Two such requests, each waiting for the other's blocks, wait for ever.

# %% [markdown] lang="zh"
# ## TODO ch05.2 · 要么全给，要么不给
#
# 补全 `allocate`：做完以后，请求的块表放得下它从头数起的 `num_tokens` 个 token。
#
# - 空闲块够：把差的块接到块表**末尾**，差几块接几块，返回 `True`。已有的块里存着 token，不许动。
# - 不够：返回 `False`，**什么都不改**。块表不动，空闲块也不动，也不给新请求留一张空表。
# - 什么都不差：返回 `True`。这里的块表从不缩短。
#
# decode 每一步都会带着“比上次多一个 token”来调用它。块大小是 16 时，16 次里有 15 次，新 token 放得进最后一块，
# 一块都不用拿：只有**跨过块的边界**才会长一块。
#
# 为什么要么全给、要么不给？只拿到一半块的请求跑不起来，它占着的那一半别人又用不上。
# 两个这样的请求互相等对方的块，就会永远等下去。

# %% [markdown] lang="en" hint="ch05.2"
# 1. Ask `missing` first, and refuse before the first change. What comes after cannot fail any more.
# 2. `len(self._free)` free blocks are enough for exactly as many missing ones: compare with `>`.
#    `self.tables.setdefault(request_id, [])` gives the table, a new one where there was none;
#    `self._free.pop()` takes a block.
# 3. `need = self.missing(...)`; `if need > len(self._free): return False`; then the table by `setdefault`,
#    `need` times `table.append(self._free.pop())`, and `return True`.

# %% [markdown] lang="zh" hint="ch05.2"
# 1. 先问 `missing`，该拒绝的在动手之前就拒绝。过了这一关，后面就不会再失败。
# 2. 空闲块有 `len(self._free)` 个，差的正好这么多也是够的：比较用 `>`。
#    `self.tables.setdefault(request_id, [])` 拿到块表，原来没有就新建一张；`self._free.pop()` 拿走一块。
# 3. `need = self.missing(...)`；`if need > len(self._free): return False`；
#    再用 `setdefault` 拿块表，做 `need` 次 `table.append(self._free.pop())`，最后 `return True`。

# %% [markdown] lang="en" explain="ch05.2"
# The order is the one of chapter 1's `enqueue`: everything that can fail, then everything that changes.
#
# `pop()` takes the block that was given back last. Any free block is right, and the checks never ask for a
# particular one; the last one is simply the cheapest to take from a list. `self._free.pop(0)` would be as
# right and would move the whole list each time: with 40,000 free blocks that is the slowest line of the
# scheduler.

# %% [markdown] lang="zh" explain="ch05.2"
# 次序和第 1 章的 `enqueue` 一样：会失败的先做完，再做会改变状态的。
#
# `pop()` 拿走的是最近还回来的那块。其实拿哪个空闲块都对，检查从不指定是哪一块；
# 只是从列表末尾拿最便宜。`self._free.pop(0)` 同样正确，但每次都要把整个列表挪一遍：
# 空闲块有四万个的时候，它会是整个调度器里最慢的一行。

# %% check="ch05.2" points=3 level="core"
check("ch05.2")

# %% [markdown] lang="en"
# ## TODO ch05.3 · Everything back
#
# Fill in `free`: all blocks of the request are free again, each **once**, and its entry in `tables` is gone.
#
# A request without blocks is ignored: one that is aborted while it waits has none, and who frees twice
# must not harm anybody. That second call is the dangerous one. If a block comes onto the free list
# twice, it will be given to two requests, and each will overwrite the other's keys and values: no error, just
# wrong text.

# %% [markdown] lang="zh"
# ## TODO ch05.3 · 全部收回
#
# 补全 `free`：请求的所有块重新变为空闲，每块**一次**；它在 `tables` 里的条目也要消失。
#
# 没占块的请求，不用理会：排队时就被取消的请求一块都没有；不小心释放两次，也不该连累别人。
# 危险的正是这第二次。同一个块要是在空闲列表里出现两次，就会发给两个请求，
# 两边互相覆盖对方的 key 和 value：不报错，只是文本悄悄变错。

# %% [markdown] lang="en" hint="ch05.3"
# 1. Two things at one stroke: the table leaves `tables`, and its blocks join the free ones.
# 2. `self.tables.pop(request_id, ())` removes the table and returns it; for an id that is not there it
#    returns the empty tuple. Because it is removed, a second call finds nothing to give back.
# 3. `table = self.tables.pop(...)` as above; then `self._free.extend(...)` with it.

# %% [markdown] lang="zh" hint="ch05.3"
# 1. 一口气做两件事：块表离开 `tables`，里面的块回到空闲块当中。
# 2. `self.tables.pop(request_id, ())` 删掉块表并把它返回；没有这个 id 就返回空元组。
#    因为已经删掉，第二次调用就没有东西可还了。
# 3. `table = self.tables.pop(...)`，照上面那样写；再 `self._free.extend(...)`，把它放进去。

# %% [markdown] lang="en" explain="ch05.3"
# Two lines, and their order matters: the table is out of `tables` before its blocks are free. At no
# moment is a block in both places.
#
# Note what is *not* done: the memory is not cleared. The next owner writes each slot before it reads it.
# (Chapter 9 will poison freed blocks to prove that.)

# %% [markdown] lang="zh" explain="ch05.3"
# 只有两行，先后却有讲究：块表先离开 `tables`，块才变为空闲。任何时刻，一个块都不会同时在两边。
#
# 注意**没做**的事：显存并没有清零。下一个主人读一个槽位之前，总会先写它。
# （第 9 章会往还回来的块里下毒，来证明这一点。）

# %% check="ch05.3" points=2 level="core"
check("ch05.3")

# %% [markdown] lang="en"
# ## TODO ch05.4 · Where each token goes
#
# The GPU knows no tables. It has one long array of **slots**, `num_blocks * block_size` of them, and wants
# to be told, for each token that a step computes, the slot to write its key and value into. That list is
# the *slot mapping*.
#
# Fill in `slot_mapping`: the slots of the positions `start`, `start + 1`, …, `count` of them, in this
# order. Position `p` lies in the table's block number `p // block_size`, at offset `p % block_size`; and
# block `b` begins at slot `b * block_size`. The caller has allocated: every position lies within the table.
# `count` may be 0.
#
# Before you run the check, do one by hand: the table is `[2, 0, 5]`, blocks hold 4 tokens. Which slots do
# the positions 6 to 9 have?

# %% [markdown] lang="zh"
# ## TODO ch05.4 · 每个 token 写到哪里
#
# GPU 不认识什么块表。它只有一长排**槽位**（slot），一共 `num_blocks * block_size` 个；
# 它要的是：这一步算的每个 token，key 和 value 写进哪个槽位。这张清单就叫**槽位映射**（slot mapping）。
#
# 补全 `slot_mapping`：按次序给出位置 `start`、`start + 1`、……一共 `count` 个位置的槽位。
# 位置 `p` 在块表的第 `p // block_size` 项（从 0 数），块内偏移是 `p % block_size`；
# 块 `b` 的第一个槽位是 `b * block_size`。调用者已经分配好：每个位置都在块表范围之内。`count` 可以是 0。
#
# 运行检查之前，先手算一个：块表是 `[2, 0, 5]`，块大小是 4，位置 6 到 9 的槽位各是多少？

# %% [markdown] lang="en" hint="ch05.4"
# 1. One position at a time: block first, then the offset in it. Everything else is a loop over positions.
# 2. Two different block numbers are in play: the *logical* one, `p // size`, is an index into the table;
#    the *physical* one is what the table says there. Only the physical one is multiplied by the size. And
#    positions run from `start`, not from 0.
# 3. `[table[p // size] * size + p % size for p in range(start, start + count)]`, with the table of this
#    request.

# %% [markdown] lang="zh" hint="ch05.4"
# 1. 一次只看一个位置：先找块，再找块内偏移。剩下的就是对位置循环。
# 2. 这里有两种块号：**逻辑**块号 `p // size` 是块表的下标，**物理**块号是块表里那一项的值。
#    要乘以块大小的是物理块号。位置从 `start` 数起，不是从 0。
# 3. `[table[p // size] * size + p % size for p in range(start, start + count)]`，`table` 是这个请求的块表。

# %% [markdown] lang="en" explain="ch05.4"
# By hand: position 6 is in logical block 1, which is physical block 0, at offset 2: slot 2. Position 7:
# slot 3. Position 8 is in logical block 2, physical 5, at offset 0: slot 20. Position 9: slot 21. So
# `[2, 3, 20, 21]`: in the middle it jumps.
#
# This is the same arithmetic as an address translation in a CPU: page number, page table, offset. With
# `block_size=1` the table *is* the slot mapping.

# %% [markdown] lang="zh" explain="ch05.4"
# 手算的答案：位置 6 在逻辑块 1，物理块是 0，偏移 2，槽位就是 2；位置 7 是 3。
# 位置 8 在逻辑块 2，物理块是 5，偏移 0，槽位是 20；位置 9 是 21。所以是 `[2, 3, 20, 21]`，中间跳了一下。
#
# 这和 CPU 的地址翻译是同一套算术：页号、页表、页内偏移。块大小为 1 时，块表**就是**槽位映射。

# %% check="ch05.4" points=3 level="core"
check("ch05.4")

# %% [markdown] lang="en"
# ## TODO ch05.5 · What is wasted
#
# A slot that is held and holds no token is wasted: nobody else can use it. Fill in `waste`: the **share**
# of the held slots that are empty, a number from 0 to 1.
#
# - Held slots: those of all blocks that are not free.
# - Used slots: `num_tokens` says how many tokens each request has stored. It may also name requests that hold
#   no blocks, those that wait for instance; they do not count.
# - Nothing is held: `0.0`.

# %% [markdown] lang="zh"
# ## TODO ch05.5 · 浪费了多少
#
# 占着却没有存 token 的槽位就是浪费：别人用不上。补全 `waste`：占着的槽位里，空的占多大**比例**，
# 是 0 到 1 之间的一个数。
#
# - 占着的槽位：所有不空闲的块的全部槽位。
# - 用上的槽位：`num_tokens` 告诉你每个请求存了多少 token。里面可能也有一块都没占的请求，
#   比如还在排队的；它们不算。
# - 什么都没占：返回 `0.0`。

# %% [markdown] lang="en" hint="ch05.5"
# 1. A share is a part over a whole. The whole is what is *held*, not what the pool has.
# 2. Held: blocks that are not free, times `block_size`. Used: sum over the requests **in `self.tables`**.
#    Mind the division where nothing is held.
# 3. `held = (self.num_blocks - self.num_free) * self.block_size`;
#    `used = sum(num_tokens[...] for ... in self.tables)`; return `(held - used) / held`, or `0.0` if `held` is 0.

# %% [markdown] lang="zh" hint="ch05.5"
# 1. 比例就是部分除以整体。整体是**占着的**，不是池里全部的。
# 2. 占着的：不空闲的块数乘以 `block_size`。用上的：只对 **`self.tables` 里的**请求求和。
#    什么都没占的时候，小心除以 0。
# 3. `held = (self.num_blocks - self.num_free) * self.block_size`；
#    `used = sum(num_tokens[...] for ... in self.tables)`；
#    返回 `(held - used) / held`，`held` 是 0 就返回 `0.0`。

# %% [markdown] lang="en" explain="ch05.5"
# This is *internal fragmentation*: space lost inside of what is allocated. The other kind, *external*
# fragmentation, is free space in pieces too small to be of use; with equal blocks there is none, since any
# block fits anywhere.
#
# Counting held blocks by `num_blocks - num_free` or by the lengths of the tables is the same thing, as long
# as no block has two owners. The extension changes that.

# %% [markdown] lang="zh" explain="ch05.5"
# 这叫**内部碎片**：浪费在已经分出去的空间里面。另一种叫**外部碎片**：空闲空间碎成小块，小到没法用；
# 块都一样大，就没有外部碎片，因为随便哪一块放到哪里都合适。
#
# 占着几块，用 `num_blocks - num_free` 算，还是把各张块表的长度加起来，结果一样，
# 前提是没有哪个块有两个主人。扩展部分会打破这个前提。

# %% check="ch05.5" points=2 level="core"
check("ch05.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass. The rest of the chapter runs **your** class.
#
# Stuck? In a new cell, in this order: `hint("ch05.2", 1)` for a direction, `hint("ch05.2", 2)` for the tool
# and the trap beside it, `hint("ch05.2", 3)` for almost the code, `solution("ch05.2")` for the reference
# and its reasons. Give each fifteen honest minutes before the next.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了，再往下看。后面跑的全是**你的**类。
#
# 卡住了？新建一个单元格，按这个次序来：`hint("ch05.2", 1)` 给方向，`hint("ch05.2", 2)` 给工具和旁边的坑，
# `hint("ch05.2", 3)` 差不多就是代码，`solution("ch05.2")` 是参考实现和它的理由。
# 每往下一步之前，先老老实实想十五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## Experiment 1 · The memory map
#
# Chapter 4's scheduler decides who runs; your block manager stands beside it and follows. The small wrapper
# below puts the two together: before a step, `allocate` for each request that the plan names; after it,
# `free` for each that finished. (What to do when `allocate` says no is chapter 6. Here the pool is large
# enough.)
#
# **Predict:** request 1 leaves early. Where will the blocks of request 3, which comes next, lie?

# %% [markdown] lang="zh"
# ## 实验 1 · 内存图
#
# 谁来跑，由第 4 章的调度器决定；你的块管理器站在旁边，跟着记账。下面这个小小的包装把两者合在一起：
# 走步之前，对计划里的每个请求 `allocate`；走步之后，对每个完成的请求 `free`。
# （`allocate` 说不行的时候怎么办，是第 6 章的事。这里的池足够大。）
#
# **先猜：** 请求 1 很早就离开。紧接着来的请求 3，它的块会落在哪里？

# %%
from decodelab import chapter
from decodelab.contract import SchedulerConfig
from decodelab.log import record_all
from decodelab.request import Job, Request
from decodelab.run import Loop, StepClock
from decodelab.show.plots import kv_map, sweep
from decodelab.sim.executor import SimExecutor

ch03, ch04 = chapter("ch03"), chapter("ch04")


class WithBlocks:
    """en: A scheduler with a block manager beside it.
    zh: 调度器，旁边站着一个块管理器。
    """

    def __init__(self, scheduler, kv):
        self.scheduler, self.kv = scheduler, kv
        self.add_request, self.abort = scheduler.add_request, scheduler.abort

    def schedule(self, now):
        plan = self.scheduler.schedule(now)
        for request_id, count in plan.scheduled.items():
            assert self.kv.allocate(request_id, plan.start[request_id] + count), "the pool is too small"
            plan.block_tables[request_id] = list(self.kv.tables[request_id])
        return plan

    def update(self, plan, tokens, now):
        finished = self.scheduler.update(plan, tokens, now)
        for request_id in finished:
            self.kv.free(request_id)
        return finished

    def state(self):
        return self.scheduler.state()._replace(free_blocks=self.kv.num_free)


def batching(max_num_seqs):
    config = SchedulerConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=200_000)
    return ch04.ContinuousBatchScheduler(config, ch03.FCFS())


shapes = [(0, 6, 14), (0, 9, 3), (1, 4, 20), (3, 12, 6), (6, 7, 9), (8, 3, 12)]  # step, prompt, answer
few = [Job(Request(i, 0.0, prompt, answer), step) for i, (step, prompt, answer) in enumerate(shapes)]
kv = BlockManager(num_blocks=16, block_size=4)
records = list(record_all(Loop(few, WithBlocks(batching(4), kv), SimExecutor(), StepClock(), watch=True)))
kv_map(records, kv.num_blocks)

# %% [markdown] lang="en"
# *One row a physical block, one column a step, one colour a request, whose id stands where it begins.
# White: free.*
#
# A colour lies where there was room. If your free blocks are a stack, it gives out first what came back
# last: request 3 takes over two of the three blocks that request 1 has just left, and request 0 grew into
# the third. Nobody was moved, nobody waited for a gap of the right size.

# %% [markdown] lang="zh"
# 图：一行是一个物理块，一列是一步，一种颜色是一个请求，它的编号写在开头处。白色是空闲。
#
# 哪里有空，颜色就落在哪里。如果你的空闲块是一个栈，就会先发最近还回来的：请求 1 让出来的三块，
# 请求 3 接手两块，第三块给了正好要再长一块的请求 0。没有谁被搬动过，也没有谁在等一段大小合适的空隙。

# %% [markdown] lang="en"
# ## Experiment 2 · Scattered, and still right
#
# Does it matter to the model that the tokens lie all over the place? Write a vector for each token through your
# `slot_mapping`, in the steps of the run above, and read a request's vectors back, in order.

# %% [markdown] lang="zh"
# ## 实验 2 · 散了，但没乱
#
# token 散得到处都是，模型会不会受影响？按上面那次运行的步子，通过你的 `slot_mapping` 给每个 token 写一个向量，
# 再把一个请求的向量按次序读回来。

# %%
import numpy as np

kv = BlockManager(num_blocks=16, block_size=4)
pool = np.zeros((16 * 4, 8))  # one row a slot
rng = np.random.default_rng(0)
stored: dict = {}
right = 0
for record in records:
    for request_id, count in record["scheduled"].items():
        held = len(stored.get(request_id, ()))
        kv.allocate(request_id, held + count)
        new = rng.normal(size=(count, 8))
        stored[request_id] = np.concatenate([stored.get(request_id, np.empty((0, 8))), new])
        pool[kv.slot_mapping(request_id, held, count)] = new
    for request_id in record["finished"]:
        vectors = stored.pop(request_id)
        right += np.array_equal(pool[kv.slot_mapping(request_id, 0, len(vectors))], vectors)
        kv.free(request_id)
print(tr(en="requests read back exactly:", zh="原样读回的请求："), f"{right}/{len(shapes)}")

# %% [markdown] lang="en"
# Attention adds up over positions and asks only *which* keys and values, not where they lie. So a gather
# through the table gives the same numbers. Chapter 9 does exactly this with real tensors.

# %% [markdown] lang="zh"
# 注意力是对各个位置求和，它只问**哪些** key 和 value，不问它们放在哪里。
# 所以按块表收集起来，得到的是同样的数。第 9 章就用真正的张量这样做。

# %% [markdown] lang="en"
# ## Experiment 3 · Paged against one piece
#
# How would memory look without pages? As a pool of *very large* blocks: one block of the longest length
# allowed, for each request. So your own class plays both parts, and everything between.
#
# Two loads, lengths as in real traces (synthetic): chats, at most 16,384 tokens, and questions on long
# documents, at most 131,072. Chapter 4 runs each once, 16 requests at a time; then the same run is booked
# with different block sizes.
#
# **Predict** the waste of each load: in one piece, and in blocks of 16.

# %% [markdown] lang="zh"
# ## 实验 3 · 分页和一整段，差多少
#
# 不分页的显存是什么样？就是块**特别大**的池：每个请求一块，大小是允许的最大长度。
# 所以你自己的类一人分饰两角，中间的大小也全包了。
#
# 两种负载，长度都照真实 trace 的样子（合成的）：聊天，最长 16,384 个 token；对长文档提问，最长 131,072 个。
# 用第 4 章的调度器各跑一遍，同时 16 个请求；然后拿同一次运行，按不同的块大小记账。
#
# **先猜**两种负载的浪费：一整段时是多少，块大小 16 时是多少。

# %%
from decodelab.workload import chat_like, long_document_like


def booked(steps, block_size):
    """en: The memory of a run: mean waste, most slots held at once, most entries in all tables.
    zh: 一次运行的显存账：平均浪费、最多同时占多少槽位、块表最多一共多少项。
    """
    kv = BlockManager(num_blocks=16 * 131_072 // block_size + 16, block_size=block_size)
    stored, shares, slots, entries = {}, [], 0, 0
    for step in steps:
        for request_id, count in step.plan.scheduled.items():
            stored[request_id] = step.plan.start[request_id] + count
            kv.allocate(request_id, stored[request_id])
        held = kv.num_blocks - kv.num_free
        shares.append(kv.waste(stored))
        slots, entries = max(slots, held * block_size), max(entries, held)
        for request_id in step.finished:
            kv.free(request_id)
            del stored[request_id]
    return sum(shares) / len(shares), slots, entries


loads = {"chat": (chat_like(120), 16_384), "document": (long_document_like(48), 131_072)}
runs = {
    name: list(Loop(requests, batching(16), SimExecutor(), StepClock()))
    for name, (requests, _) in loads.items()
}
for name, (_, longest) in loads.items():
    for label, size in [
        (tr(en="one piece", zh="一整段"), longest),
        (tr(en="blocks of 16", zh="块大小 16"), 16),
    ]:
        share, slots, entries = booked(runs[name], size)
        print(f"{name:9} {label:13} {share:6.1%}  {slots:>9,} slots  {entries:>6,} entries")

# %% [markdown] lang="en"
# In one piece about nine slots in ten are empty, for both loads. In blocks of 16 it is less than one in a
# hundred. At its fullest moment the *same run* now needs a sixth of the memory.

# %% [markdown] lang="zh"
# 一整段时，两种负载都是十个槽位空九个左右；块大小 16 时，一百个里空不到一个。
# **同样的运行**，占得最满的那一刻，显存也只要六分之一。

# %% [markdown] lang="en"
# ## Experiment 4 · How large should a block be
#
# "Use 16" is what everybody repeats. Small blocks waste little and make long tables: the table must be
# kept, sent to the GPU and walked by the attention kernel. Large blocks make short tables and waste. Sweep
# it.
#
# **Predict:** which of the two loads forgives large blocks, and why?

# %% [markdown] lang="zh"
# ## 实验 4 · 块应该多大
#
# “就用 16”，人人都这么说。块小，浪费少，但块表长：块表要保存，要发给 GPU，注意力内核还要照着它逐块去查。
# 块大，块表短，但浪费多。扫一遍看看。
#
# **先猜：** 两种负载里，哪一种不怕块大？为什么？

# %%
sizes = [4, 16, 64, 256, 1024, 4096, 16_384]
curves = {name: {size: booked(runs[name], size) for size in sizes} for name in loads}
for name, curve in curves.items():
    for size, (share, _, entries) in curve.items():
        print(f"{name:9} {size:>6}  {share:6.1%}  {entries:>7,}")
sweep(
    {name: {size: 100 * share for size, (share, _, _) in curve.items()} for name, curve in curves.items()},
    "tokens/block",
    "%",
    log=True,
)

# %% [markdown] lang="en"
# *Columns: load, tokens a block, held slots that are empty, most entries in all tables at once. Figure: x:
# tokens a block, logarithmic; y: held slots that are empty, in per cent.*
#
# On average half a block a request is empty, so the share is about `block_size / 2` over the length of a
# request. The long documents are some ten times longer, hence they bear blocks ten times larger for the
# same waste: their curve is the other one, shifted to the right. From 64 down to 4 the waste of both is
# small already, and each step down makes the tables four times longer. **16 is not magic.** It is
# small against a thousand tokens. Were a request 50 tokens long in all, half a block of 16 would already be
# a seventh of what it holds.

# %% [markdown] lang="zh"
# 输出的各列：负载、每块的 token 数、占着却空着的槽位的比例、所有块表最多一共多少项。
#
# 图：横轴是每块的 token 数（对数），纵轴是占着却空着的槽位，百分比。
#
# 平均每个请求空半块，所以浪费的比例大约是 `block_size / 2` 除以请求的长度。
# 长文档大约长十倍，同样的浪费下块也可以大十倍：它的曲线就是另一条往右挪了一段。
# 从 64 往下到 4，两条的浪费都已经很小，块表却每一档长四倍。
# **16 没有什么魔力**，只是和一千个 token 比起来够小。要是一个请求总共才 50 个 token，
# 16 的半块就占去它的七分之一了。

# %% [markdown] lang="en"
# ## Experiment 5 · How many fit on a GPU
#
# Now with a model and a GPU in it. Nine tenths of the memory, less the weights, in blocks; then requests
# are let in, each at its full length, until your `allocate` returns `False`. Chapter 2's roofline says what
# a decode step of that batch yields.
#
# **Predict:** the H200 has 1.8 times the memory of the H100. How many times the requests?

# %% [markdown] lang="zh"
# ## 实验 5 · 一张 GPU 放得下多少
#
# 这回把模型和 GPU 放进来。显存的九成，减去权重，切成块；然后让请求一个个进来，每个都按完整长度分配，
# 直到你的 `allocate` 返回 `False`。这样一批 decode 一步能出多少 token，问第 2 章的 roofline。
#
# **先猜：** H200 的显存是 H100 的 1.8 倍。放得下的请求是几倍？

# %%
from decodelab.sim.hardware import GPUS, MODELS

Roofline = chapter("ch02").Roofline
model = MODELS["Llama-3.1-8B"]


def fill(gpu, requests, block_size):
    """en: How many of the requests fit at once at their full length, and the tokens that they hold.
    zh: 按完整长度，同时放得下几个请求，一共存多少 token。
    """
    room = 0.9 * gpu.memory - model.weight_bytes
    kv = BlockManager(int(room / (block_size * model.kv_bytes_per_token)), block_size)
    tokens = 0
    for request in requests:
        length = request.prompt_len + request.max_new_tokens
        if not kv.allocate(request.request_id, length):
            break
        tokens += length
    return len(kv.tables), tokens


for gpu in (GPUS["RTX 4090"], GPUS["H100 SXM"], GPUS["H200 SXM"]):
    for name, draw, longest in [("chat", chat_like, 16_384), ("document", long_document_like, 131_072)]:
        for size in (longest, 16):
            count, tokens = fill(gpu, draw(2000), size)
            rate = count / Roofline(model, gpu)(count, tokens, tokens) if count else 0
            print(f"{gpu.name:9} {name:9} {size:>7}  {count:>4}  {rate:>7,.0f} token/s")

# %% [markdown] lang="en"
# *GPU, load, tokens a block, requests that fit, tokens a second of one decode step by the roofline.*
#
# What paging is worth is not memory but **batch**: the weights are read once for all of them. The H200 has
# room for twice the tokens, not 1.8 times: the weights take the same from both, so everything more is for
# requests. So few documents fit that their lengths blur it: 2.5 times. And on the RTX 4090 not one long
# document fits in one piece, while paged some do. (27 chats there, not the 31 of the beginning: the first
# chats of this draw are longer than average, and `fill` stops at the first that does not fit.)
#
# **Takeaway.** Memory sets the batch, the batch sets the throughput. But this pool was filled to the last
# block, and now nobody may grow. What then? That is chapter 6.

# %% [markdown] lang="zh"
# 输出的各列：GPU、负载、每块的 token 数、放得下的请求数、按 roofline 一步 decode 每秒的 token 数。
#
# 分页换来的不是显存，而是**批**：权重读一遍，大家都沾光。H200 装得下的 token 是 H100 的两倍，而不是 1.8 倍：
# 权重从两边拿走的一样多，多出来的全归请求。文档只放得下几十个，长短不一，所以看起来是 2.5 倍。
# 而在 RTX 4090 上，一整段的办法连一个长文档都放不下，分页却能放几个。
# （聊天在那里放得下 27 个，不是开头说的 31 个：这次抽到的前面这些聊天比平均的长，
# 而且 `fill` 碰到第一个放不下的就停。）
#
# **结论。** 显存决定批，批决定吞吐量。不过这个池已经填到了最后一块，谁也不能再长了。怎么办？那是第 6 章。

# %% [markdown] lang="en"
# ## Blocks with several owners
#
# *Extension: its points are counted apart.*
#
# A user asks for four answers to one prompt, or a beam search keeps the four best beginnings. All four
# share the prompt, to the last key and value. With a table of its own for each, they can share the
# *blocks*:
#
# ```text
#   a   [ 2, 0, 5 ]                  2 and 0 are full: nobody writes there any more
#   b   [ 2, 0, 5 ]                  5 is half full: the next token of both goes there
# ```
#
# So a block gets a count of its owners. It is free when the last one lets go. And before a request writes
# into a block that others own too, it takes a block of its own and copies: *copy-on-write*, as `fork` does
# for the memory of a process.
#
# `self.extra[block]` counts the owners **beyond the first**, so that a block with one owner needs no entry,
# and the plain path of the core costs nothing more.

# %% [markdown] lang="zh"
# ## 一块多主
#
# **扩展部分**：单独计分。
#
# 用户对一段提示词要四个回答，或者 beam search 保留最好的四个开头。四者的提示词一模一样，key 和 value 也一模一样。
# 既然各有各的块表，它们就可以共用**块**：
#
# ```text
#   a   [ 2, 0, 5 ]                  2 and 0 are full: nobody writes there any more
#   b   [ 2, 0, 5 ]                  5 is half full: the next token of both goes there
# ```
#
# 图：块 2 和块 0 已经写满，不会再有人写；块 5 只写了一半，两边的下一个 token 都要写到这里。
#
# 于是每个块都要数一数有几个主人。最后一个放手，它才空闲。要往别人也有份的块里写之前，先拿一个自己的块，
# 把内容复制过去：这就是**写时复制**（copy-on-write），进程 `fork` 时的内存也是这样处理的。
#
# `self.extra[block]` 记的是**第一个之外**还有几个主人。这样只有一个主人的块不用记，核心部分的路径也不多花一点时间。


# %% answer="ch05-answer-2" tags=["export"]
from collections import Counter


class SharedBlockManager(BlockManager):
    """en: A block manager whose blocks may have several owners.
    zh: 一个块可以有几个主人的块管理器。
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        super().__init__(num_blocks, block_size)
        self.extra: Counter[int] = Counter()  # block -> its owners beyond the first

    def fork(self, parent: int | str, child: int | str) -> None:
        """en: Let ``child`` own all blocks of ``parent`` too; ValueError where it cannot.
        zh: 让 ``child`` 也拥有 ``parent`` 的全部块；做不到就抛 ValueError。
        """
        # TODO ch05.6
        # en: Refuse a parent without a table and a child with one. Then a table of its own, and counts.
        # zh: parent 没有块表、child 已有块表，都要拒绝。然后给 child 一张自己的块表，并记上主人数。
        if parent not in self.tables or child in self.tables:
            raise ValueError(f"cannot fork {parent!r} to {child!r} | 不能从 {parent!r} 分叉出 {child!r}")
        self.tables[child] = list(self.tables[parent])
        for block in self.tables[child]:
            self.extra[block] += 1
        # END ch05.6

    def free(self, request_id: int | str) -> None:
        """en: The request lets go of its blocks; those that nobody else owns are free.
        zh: 请求放开它的块；没有别的主人的块变为空闲。
        """
        # TODO ch05.7
        # en: Its table goes. Each block in it loses an owner, or is free where this was the only one.
        # zh: 删掉它的块表。表里的每个块少一个主人；如果它是唯一的主人，块就空闲。
        for block in self.tables.pop(request_id, ()):
            if self.extra[block]:
                self.extra[block] -= 1
            else:
                self._free.append(block)
        # END ch05.7

    def write(self, request_id: int | str, position: int) -> tuple[int, int] | None:
        """en: Make sure that the request alone owns the block of this position: (from, to) to copy, or None.
        zh: 确保这个位置所在的块只归这个请求：返回要复制的（从，到），不用复制就返回 None。
        """
        # TODO ch05.8
        # en: Not shared: None. No block free: ValueError. Else a free block in its place, one owner less.
        # zh: 没有共用：返回 None。没有空闲块：抛 ValueError。否则换上一个空闲块，旧块少一个主人。
        table, index = self.tables[request_id], position // self.block_size
        old = table[index]
        if not self.extra[old]:
            return None
        if not self._free:
            raise ValueError("no block is free for a copy | 没有空闲块可供复制")
        table[index] = self._free.pop()
        self.extra[old] -= 1
        return old, table[index]
        # END ch05.8


# %% [markdown] lang="en"
# ## TODO ch05.6 · Fork
#
# Fill in `fork`: afterwards `child` has a table with the same blocks in the same order, and every one of
# them has one owner more. No block is taken.
#
# - The child's table is a list **of its own**: it will grow without its parent.
# - A parent that has no table, or a child that has one already: `ValueError`, and nothing changes.

# %% [markdown] lang="zh"
# ## TODO ch05.6 · 分叉
#
# 补全 `fork`：做完以后，`child` 有一张块表，里面是同样的块、同样的次序；其中每个块都多了一个主人。不拿新块。
#
# - child 的块表是它**自己的**列表：以后它会独自变长。
# - parent 没有块表，或者 child 已经有了：抛 `ValueError`，什么都不改。

# %% [markdown] lang="en" hint="ch05.6"
# 1. Refuse first. Then two things: a copy of the list, and a count for each block in it.
# 2. `self.tables[child] = self.tables[parent]` would be *one* list with two names. `list(...)` makes
#    another. `extra` is a `Counter`: a block without an entry counts 0.
# 3. `if parent not in self.tables or child in self.tables: raise ValueError(...)`;
#    `self.tables[child] = list(self.tables[parent])`; and `self.extra[block] += 1` for each block of it.

# %% [markdown] lang="zh" hint="ch05.6"
# 1. 先拒绝。然后做两件事：复制列表；给里面的每个块记上一个主人。
# 2. `self.tables[child] = self.tables[parent]` 只是**同一个**列表有了两个名字；用 `list(...)` 才是另一个。
#    `extra` 是 `Counter`：没有记录的块，读出来是 0。
# 3. `if parent not in self.tables or child in self.tables: raise ValueError(...)`；
#    `self.tables[child] = list(self.tables[parent])`；再对其中每个块 `self.extra[block] += 1`。

# %% [markdown] lang="en" explain="ch05.6"
# A fork costs as much as the table is long, not as much as the cache is large: for 1,000 tokens it copies
# 63 small numbers instead of 131 MB.
#
# Full blocks and the half-full last one are shared alike. That is right: sharing is harmless as long as
# nobody writes, and who writes will ask first.

# %% [markdown] lang="zh" explain="ch05.6"
# 一次分叉的开销只和块表一样长，而不是和 cache 一样大：1,000 个 token，复制的是 63 个小整数，而不是 131 MB。
#
# 写满的块和最后那个写了一半的块，一视同仁都共用。这没有问题：只要没人写，共用就没有害处；谁要写，谁先问。

# %% check="ch05.6" points=2 level="extension"
check("ch05.6")

# %% [markdown] lang="en"
# ## TODO ch05.7 · The last one turns off the light
#
# Fill in `free` for blocks with several owners: the table goes as before; each block in it loses one owner,
# and is free only when this request was its last. A request without blocks is ignored, as before.

# %% [markdown] lang="zh"
# ## TODO ch05.7 · 最后一个走的关灯
#
# 为一块多主重写 `free`：块表照旧删掉；表里的每个块少一个主人，只有这个请求是它最后的主人时，它才变为空闲。
# 没占块的请求照旧不用理会。

# %% [markdown] lang="en" hint="ch05.7"
# 1. Block by block, and for each one question: does anybody else own it?
# 2. Take the table out as in `ch05.3`: `pop(request_id, ())` knows what to do with a stranger.
#    `self.extra[block]` is 0 where this request is the only owner: then the block is free. Otherwise count
#    one owner less; do not do both.
# 3. `for block in self.tables.pop(request_id, ()):` with `if self.extra[block]: self.extra[block] -= 1`,
#    else append to `self._free`.

# %% [markdown] lang="zh" hint="ch05.7"
# 1. 一块一块来，每块只问一句：还有别的主人吗？
# 2. 块表像 `ch05.3` 那样取出来：`pop(request_id, ())` 碰到不认识的 id 也不出错。
#    `self.extra[block]` 是 0，说明这个请求是唯一的主人，块就空闲了；否则主人数减一。两件事只做一件。
# 3. `for block in self.tables.pop(request_id, ()):`，里面 `if self.extra[block]: self.extra[block] -= 1`，
#    否则加进 `self._free`。

# %% [markdown] lang="en" explain="ch05.7"
# Who was parent and who child is forgotten by now: a block knows how many owners it has, not which came
# first. So any order of leaving is right, and the parent may go before its children.

# %% [markdown] lang="zh" explain="ch05.7"
# 谁是 parent、谁是 child，这时早已不重要：块只知道自己有几个主人，不知道谁先谁后。
# 所以按什么次序离开都对，parent 也可以比 child 先走。

# %% check="ch05.7" points=2 level="extension"
check("ch05.7")

# %% [markdown] lang="en"
# ## TODO ch05.8 · Copy on write
#
# Fill in `write`, which is called before a token is written at `position`. It makes sure that the block of
# this position belongs to this request alone.
#
# - It does already: return `None`, change nothing.
# - It is shared: put a free block in its place in **this** table, let the old block have one owner less,
#   and return `(from, to)`, the two blocks: whoever runs the model copies the one to the other before the
#   step.
# - It is shared and no block is free: `ValueError`, and nothing changes.

# %% [markdown] lang="zh"
# ## TODO ch05.8 · 写时复制
#
# 补全 `write`：往 `position` 写 token 之前会调用它。它要保证这个位置所在的块只属于这个请求。
#
# - 本来就只属于它：返回 `None`，什么都不改。
# - 和别人共用：在**这张**块表里换上一个空闲块，旧块少一个主人，返回 `(from, to)` 两个块号：
#   负责跑模型的一方会在这一步之前把前者复制到后者。
# - 和别人共用，又没有空闲块：抛 `ValueError`，什么都不改。

# %% [markdown] lang="en" hint="ch05.8"
# 1. Find the block first; then there are three cases, and only the last one changes anything.
# 2. The entry is `table[position // self.block_size]`. Keep the old block's number before you replace it.
#    The new block has one owner, so it needs no entry in `extra`.
# 3. `old = table[index]`; `if not self.extra[old]: return None`; `if not self._free: raise ValueError(...)`;
#    `table[index] = self._free.pop()`; `self.extra[old] -= 1`; `return old, table[index]`.

# %% [markdown] lang="zh" hint="ch05.8"
# 1. 先找到块；然后分三种情况，只有最后一种才动手改。
# 2. 那一项是 `table[position // self.block_size]`。替换之前先记下旧块号。新块只有一个主人，不用在 `extra` 里记。
# 3. `old = table[index]`；`if not self.extra[old]: return None`；`if not self._free: raise ValueError(...)`；
#    `table[index] = self._free.pop()`；`self.extra[old] -= 1`；`return old, table[index]`。

# %% [markdown] lang="en" explain="ch05.8"
# Of two owners the one that writes first copies; the other is then alone and writes in place. So two
# samples of one prompt cost one copy, and n samples n − 1.
#
# A caller should look at `num_free` before it plans the step: `ValueError` in the middle of one is late.
# Chapter 10 hands the pairs to the executor in `plan.copy`, and there they copy real keys and values.

# %% [markdown] lang="zh" explain="ch05.8"
# 两个主人里，谁先写谁复制；剩下那个就是独占，直接写。所以一段提示词的两个样本只复制一次，n 个样本复制 n − 1 次。
#
# 调用者最好在排计划时就看一眼 `num_free`：走到一半才抛 `ValueError`，就晚了。
# 第 10 章会把这些（从，到）放进 `plan.copy` 交给执行器，在那里复制真正的 key 和 value。

# %% check="ch05.8" points=3 level="extension"
check("ch05.8")

# %% [markdown] lang="en"
# ### Four samples, four beams
#
# One prompt of 1,000 tokens, blocks of 16. First four samples of 200 tokens each. Then a beam search of
# width 4: in each step the worst beam is dropped and the best is forked, which makes the histories of the
# beams the same up to ever later positions.
#
# **Predict:** how many blocks do the four need at the end, of what four separate requests would take? And
# which of the two copies more?

# %% [markdown] lang="zh"
# ### 四个样本，四条 beam
#
# 一段 1,000 个 token 的提示词，块大小 16。先来四个样本，每个 200 个 token。
# 再来宽度 4 的 beam search：每一步丢掉最差的一条，把最好的一条分叉，于是各条的历史会在越来越靠后的位置之前都一样。
#
# **先猜：** 到最后，四条一共要多少块，是四个各占各的总数的几成？两种做法，哪一种复制得更多？


# %%
def generate(search):
    """en: Blocks held and copies made after 200 steps of four requests that began as one.
    zh: 一个请求分成四个，走 200 步之后占多少块、复制了几次。
    """
    kv = SharedBlockManager(num_blocks=1000, block_size=16)
    rng = np.random.default_rng(0)
    kv.allocate(0, 1000)
    for i in (1, 2, 3):
        kv.fork(0, i)
    living, copies, names = [0, 1, 2, 3], 0, 4
    for position in range(1000, 1200):
        if search:
            worst, best = rng.choice(4, 2, replace=False)
            kv.free(living[worst])
            kv.fork(living[best], names)
            living[worst], names = names, names + 1
        for i in living:
            kv.allocate(i, position + 1)
            copies += kv.write(i, position) is not None
    return kv.num_blocks - kv.num_free, copies


apart = 4 * -(-1200 // 16)
for label, search in [
    (tr(en="four samples", zh="四个样本"), False),
    (tr(en="beam search", zh="beam search"), True),
]:
    blocks, copies = generate(search)
    print(f"{label:13} {blocks:>4}/{apart} = {blocks / apart:.0%}, {copies} copies")

# %% [markdown] lang="en"
# The samples share the prompt and copy three times, once for all. The beams share nearly everything,
# because each is a recent fork of another; the price is a copy in almost every step. Counting owners pays
# for both.

# %% [markdown] lang="zh"
# 四个样本共用提示词，一共复制三次，一劳永逸。beam 之间几乎全部共用，因为每一条都刚从另一条分出来；
# 代价是差不多每一步都要复制一次。两种情形，靠的都是数清主人。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **Where it comes from.** Kwon et al., "Efficient Memory Management for Large Language Model Serving with
#   PagedAttention" (SOSP 2023), the paper of vLLM: near-zero waste, sharing within and across requests, and
#   2 to 4 times the throughput of the systems before it at the same level of latency, by its abstract. ([arXiv
#   2309.06180](https://arxiv.org/abs/2309.06180))
# - **vLLM 0.33.0** takes blocks from the front of a free queue and gives a request's back in reverse order;
#   block 0 is never handed out. *(Driven, and its decisions recorded: chapter 7 compares yours with them.)*
#   The default block has 16 tokens in the
#   [documentation](https://docs.vllm.ai/en/stable/api/vllm/config/cache/).
# - **SGLang, commit `02e29cb`**, has two allocators: one of single tokens, a pool with page size 1, and one
#   with pages. Where there are too few, `alloc` returns `None` and has taken nothing: all or nothing, as
#   yours.
#   ([allocator.py](https://github.com/sgl-project/sglang/blob/02e29cb18ae1626521ef3baaaead10217f94fc20/python/sglang/srt/mem_cache/allocator.py))
# - **TensorRT-LLM.** "It must be a power of two greater than 1", say the documents of 1.4.0rc4 of the
#   tokens in a block; 32 is the default of `tokens_per_block` in 1.3.0rc27. ([KV
#   cache](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/features/kvcache.html),
#   [KvCacheConfig](https://nvidia.github.io/TensorRT-LLM/1.3.0rc27/llm-api/reference/KvCacheConfig.html))
# - **The other way.** vAttention leaves the cache contiguous in *virtual* memory and lets the system's own
#   demand paging supply the physical memory, so that attention kernels need not be rewritten for blocks, by
#   its abstract. ([arXiv 2405.04437](https://arxiv.org/abs/2405.04437))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **出处。** Kwon 等人的 PagedAttention 论文（SOSP 2023），也就是 vLLM 的论文。按它的摘要：
#   KV cache 几乎零浪费，请求内部和请求之间都能共用，延迟水平相同时，吞吐量是此前系统的 2 到 4 倍。
#   （[arXiv 2309.06180](https://arxiv.org/abs/2309.06180)）
# - **vLLM 0.33.0** 从空闲队列的队头拿块，归还时按块表的逆序；块 0 从不分配出去。
#   （实际驱动运行，并录下了它的决定：第 7 章会拿你的和它比。）块的默认大小是 16 个 token，见
#   [文档](https://docs.vllm.ai/en/stable/api/vllm/config/cache/)。
# - **SGLang，commit `02e29cb`**，有两个分配器：一个按单个 token 分配，也就是页大小为 1 的池；一个按页分配。
#   不够的时候，`alloc` 返回 `None`，什么都没拿走：要么全给，要么不给，和你的一样。
#   （[allocator.py](https://github.com/sgl-project/sglang/blob/02e29cb18ae1626521ef3baaaead10217f94fc20/python/sglang/srt/mem_cache/allocator.py)）
# - **TensorRT-LLM**：1.4.0rc4 的文档说，一个块的 token 数必须是大于 1 的 2 的幂；
#   在 1.3.0rc27 里，`tokens_per_block` 的默认值是 32。
#   （[KV cache](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/features/kvcache.html)、
#   [KvCacheConfig](https://nvidia.github.io/TensorRT-LLM/1.3.0rc27/llm-api/reference/KvCacheConfig.html)）
# - **另一条路。** vAttention 让 cache 在**虚拟**内存里保持连续，物理内存交给系统底层的按需分页去分配；
#   按它的摘要，这样注意力内核就不必为了块而重写。（[arXiv 2405.04437](https://arxiv.org/abs/2405.04437)）

# %% [markdown] lang="en"
# ## Summary
#
# - Nobody knows how long an answer will be. Reserving the longest wastes nine tenths; taking blocks as they
#   are reached wastes half a block a request.
# - A block table makes scattered memory look whole: `slot = table[p // size] * size + p % size`.
# - Allocation is all or nothing: else requests wait for each other for ever. A block is either held or free,
#   always: else texts go wrong without an error.
# - Memory sets the batch, and the batch sets the throughput.
# - Count the owners of a block, copy when one of several writes, and forks cost next to nothing.

# %% [markdown] lang="zh"
# ## 小结
#
# - 回答会有多长，谁也不知道。按最大长度预留，浪费九成；写到哪里拿到哪里，每个请求只浪费半块。
# - 有了块表，散开的显存看起来就是完整的一段：`slot = table[p // size] * size + p % size`。
# - 分配要么全给要么不给，否则请求会互相等到永远；一个块要么被占着要么空闲，任何时候都如此，
#   否则文本会悄悄出错，连报错都没有。
# - 显存决定批，批决定吞吐量。
# - 数清每个块的主人，几个主人当中有谁要写就先复制：分叉几乎不花代价。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **Half a block?** Experiment 4 says that a request wastes half a block on average. Measure it in slots,
#    per request and block size, for chats. Where does the rule break, and why?
# 2. **Another order.** Give out blocks in order of their number, smallest first. What changes in the memory
#    map? What in the waste?
# 3. **The cost of a table.** With blocks of 1, how many bytes do the tables of experiment 5's H100 take at
#    4 bytes an entry, against the cache itself?
# 4. **Two sizes.** A pool with blocks of 256 *and* of 16: sketch `allocate`. Which fragmentation comes back?
# 5. *(Extension.)* What does `waste` say after a fork, and what should it say? Mend it.
#
# To discuss: a service promises context of a million tokens and most users send a thousand. Which block
# size would you choose, and what would you have to know first?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **真的是半块吗？** 实验 4 说每个请求平均浪费半块。用聊天负载，按请求、按块大小，把浪费的槽位数量出来。
#    这条规律在哪里不成立？为什么？
# 2. **换个次序。** 改成总是发编号最小的空闲块。内存图有什么变化？浪费呢？
# 3. **块表的代价。** 块大小为 1，块表每项 4 字节，实验 5 里那张 H100 的块表一共占多少字节？和 cache 本身比呢？
# 4. **两种大小。** 一个池里既有 256 的块，**又**有 16 的块：写出 `allocate` 的思路。哪种碎片又回来了？
# 5. （扩展）分叉之后，`waste` 给出的是什么？它应该给出什么？改好它。
#
# 讨论：某个服务承诺支持一百万 token 的上下文，而多数用户只发一千个。块大小你会选多少？选之前得先知道什么？

# %% [markdown] lang="en"
# ## What next
#
# So far the pool was always large enough. In chapter 6 it is not: whom do you let in, and whom do you throw
# out when everybody has grown and the last block is gone?

# %% [markdown] lang="zh"
# ## 接下来
#
# 到现在为止，池总是够大的。第 6 章它就不够了：该放谁进来？大家都长大了、最后一块也没了的时候，又该请谁出去？
