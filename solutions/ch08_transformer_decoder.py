# %% [markdown] lang="en"
# # Chapter 8 · A real transformer decoder
#
# Until now a step was a number of seconds. Here it becomes what it stands for: a forward pass of a language
# model. You write the five places where serving touches the model (positions, attention, cache, sampling, the
# loop), and at the end it writes Chinese and English with your code.
#
# **Time.** Core: 90 minutes at most (five TODOs, four experiments). Extension: 30 minutes more.
#
# **You need.** Basic PyTorch: tensors, indexing, matrix products. Chapter 2's roofline, or its reference. No
# GPU. If torch is missing: `pip install "decodelab[torch]"`.
#
# **You leave with.** A decoder that computes what Hugging Face's transformers compute, with a KV cache;
# chapters 9 and 10 batch it and drive it by your scheduler.

# %% [markdown] lang="zh"
# # 第 8 章 · 真正的 transformer 解码器
#
# 到现在为止，一步只是一个秒数。从这一章起它是真的了：语言模型的一次前向计算。
# 推理服务要碰到模型的地方有五处（位置、注意力、cache、抽样、循环），都由你来写；
# 写完以后，模型就用你的代码写中文和英文。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，四个实验）；扩展部分再加 30 分钟。
#
# **基础。** 基本的 PyTorch：张量、索引、矩阵乘法。第 2 章的 roofline，或者它的参考实现。不需要 GPU。
# 没有 torch 的话：`pip install "decodelab[torch]"`。
#
# **收获。** 一个带 KV cache 的解码器，算出来的和 Hugging Face 的 transformers 一样；
# 第 9、10 章会把它变成批处理，再由你的调度器来驱动。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. What does prefill compute, and what does a decode step compute?
# 2. A decode step of one request is memory-bound. What does it spend its time on?
# 3. In PyTorch: `x` has shape (5, 6, 8). What shapes have `x[..., :4]` and `x.repeat_interleave(2, 1)`?
#
# For 1 see [chapter 0](./ch00_preflight.ipynb), for 2 [chapter 2](./ch02_cost_and_metrics.ipynb); for 3 try
# it in a new cell.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. 预填充（prefill）算的是什么？一步 decode 算的又是什么？
# 2. 单个请求的一步 decode 是访存受限的。它的时间花在哪里？
# 3. 在 PyTorch 里，`x` 的形状是 (5, 6, 8)。`x[..., :4]` 和 `x.repeat_interleave(2, 1)` 的形状各是什么？
#
# 第 1 题见[第 0 章](./ch00_preflight.ipynb)，第 2 题见[第 2 章](./ch02_cost_and_metrics.ipynb)，
# 第 3 题新建一个单元格试试就知道。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch08", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# A model that has read n tokens gives the next one. Then there are n + 1 tokens to read. Who simply asks
# again computes the same keys and values anew, every time:
#
# | answer | tokens computed without a cache | with one | ratio |
# |---|---|---|---|
# | 10 tokens after a prompt of 100 | 1,045 | 109 | 10 |
# | 100 after 100 | 14,950 | 199 | 75 |
# | 1,000 after 100 | 599,500 | 1,099 | 545 |
#
# *A prompt of p and an answer of n: the sum of p, p + 1, …, p + n − 1, against p + n − 1.*
#
# So everything in this course rests on one observation: a token's keys and values depend on the tokens
# before it, on itself, and on nothing after it. Compute them once, keep them. That this is *exact*, no
# approximation, you will see on your own code.

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 模型读了 n 个 token，给出下一个。于是要读的就成了 n + 1 个。如果每次都从头问一遍，
# 同样的 key 和 value 就要一遍遍地重算：
#
# | 回答 | 不用 cache 要算的 token 数 | 用 cache | 倍数 |
# |---|---|---|---|
# | 提示词 100，回答 10 个 | 1,045 | 109 | 10 |
# | 提示词 100，回答 100 个 | 14,950 | 199 | 75 |
# | 提示词 100，回答 1,000 个 | 599,500 | 1,099 | 545 |
#
# 提示词 p 个、回答 n 个：前者是 p、p + 1、……、p + n − 1 之和，后者是 p + n − 1。
#
# 整门课都建立在这一点上：一个 token 的 key 和 value 只取决于它自己和它前面的 token，和后面的无关。
# 算一次，存下来。这样做是**精确**的，不是近似：你会用自己的代码看到这一点。

# %% [markdown] lang="en"
# ## The idea: one pass, any number of new tokens
#
# ```text
#   tokens      positions                     a decoder layer, `layers` times
#   (n,)        (n,)
#     |           |              x -> norm -> q, k, v -> rope -> kv.attend -> o -> + x
#   embedding     +--------->                              |          |
#     |                                       keys and values so far: the KV cache
#     x (n, hidden)              x -> norm -> gate, up -> SwiGLU -> down -> + x
#     |
#   norm -> logits (n, vocab)    prefill: n = the prompt      decode: n = 1
# ```
#
# *One function for both phases. What distinguishes them is n, and where the new tokens stand.*
#
# Between tokens only attention carries anything; all else works on each row by itself. And attention has
# two inputs besides the new rows: their **positions**, and the **cache**. So the whole model sees serving
# through one line, `kv.attend(layer, q, k, v, positions)`. Chapter 9 puts a paged cache for many requests
# behind that line, chapter 14 a GPU kernel. The model does not notice.

# %% [markdown] lang="zh"
# ## 想法：一次计算，新 token 有几个都行
#
# ```text
#   tokens      positions                     a decoder layer, `layers` times
#   (n,)        (n,)
#     |           |              x -> norm -> q, k, v -> rope -> kv.attend -> o -> + x
#   embedding     +--------->                              |          |
#     |                                       keys and values so far: the KV cache
#     x (n, hidden)              x -> norm -> gate, up -> SwiGLU -> down -> + x
#     |
#   norm -> logits (n, vocab)    prefill: n = the prompt      decode: n = 1
# ```
#
# 图：两个阶段是同一个函数。区别只在 n 是几，以及新 token 站在哪里。
#
# token 与 token 之间，只有注意力在传东西，其余的运算都是一行管一行。注意力除了新来的行，还要两样：
# 它们的**位置**，和 **cache**。所以整个模型与推理服务打交道只有一行：`kv.attend(layer, q, k, v, positions)`。
# 第 9 章把这一行背后的 cache 换成许多请求共用的分页 cache，第 14 章换上 GPU kernel，模型毫无察觉。

# %% [markdown] lang="en"
# ## Given: what works on each row by itself
#
# RMSNorm divides a row by its root mean square; SwiGLU is the MLP. Both are a line or two, and neither
# knows of other tokens.

# %% [markdown] lang="zh"
# ## 已经写好的：一行管一行的运算
#
# RMSNorm 把一行除以它的均方根；SwiGLU 就是 MLP。两个都只有一两行，都不知道别的 token 存在。

# %% tags=["export"]
import random
from collections.abc import Generator

import torch
from torch.nn.functional import linear, silu


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """en: Each row (last axis) divided by its root mean square, in float32, times ``weight``.
    zh: 每一行（最后一维）除以它的均方根（用 float32 算），再乘 ``weight``。
    """
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """en: The MLP of a layer; a weight matrix is (out, in).
    zh: 一层里的 MLP；权重矩阵的形状是（输出、输入）。
    """
    return linear(silu(linear(x, gate)) * linear(x, up), down)


# %% answer="ch08-answer" tags=["export"]
def rope(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """en: Queries or keys (tokens, heads, head_dim), each row turned by its position (tokens,); same shape and type.
    zh: 把 query 或 key（token、头、head_dim）的每一行按它的位置（token,）旋转；形状和类型不变。
    """
    # TODO ch08.1
    # en: An angle for each row and each pair of components i and i + half; then turn the pairs.
    # zh: 每一行、每一对分量（i 和 i + half）各有一个角度；然后旋转每一对。
    half = x.shape[-1] // 2
    speeds = theta ** (-torch.arange(half, device=x.device) / half)
    angles = (positions[:, None] * speeds)[:, None]
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)
    # END ch08.1


# %% [markdown] lang="en"
# ## TODO ch08.1 · Where a token stands
#
# Attention compares a query with keys and knows no order. RoPE writes the order into them: cut a vector of
# `head_dim` numbers into pairs, take each pair as a point in the plane, and turn it by an angle that grows
# with the position. Slow pairs and fast pairs, like the hands of a clock.
#
# Fill in `rope`, with `half = head_dim / 2`:
#
# - Component `i` and component `i + half` are a pair, for `i` from 0 to `half − 1`. (Neighbours, 0 with 1, is
#   another convention; weights made for one do not work with the other.)
# - Pair `i` of row `r` turns by the angle `positions[r] * theta ** (-i / half)`, in radians:
#   (a, b) becomes (a cos − b sin, a sin + b cos). All heads of a row turn alike.
# - The angles are float32, whatever the type of `x`; the result has the type of `x`.
# - Positions are whole numbers, in any order.
# - `x` itself stays as it is. No function of this chapter changes its arguments; only the cache is written.

# %% [markdown] lang="zh"
# ## TODO ch08.1 · token 站在哪里
#
# 注意力拿 query 去和各个 key 比，本身不懂先后。RoPE 把先后写进它们里面：把 `head_dim` 个数分成一对一对，
# 每一对看成平面上的一个点，转过一个随位置增大的角度。有的对转得快，有的转得慢，像钟表的几根针。
#
# 补全 `rope`，其中 `half = head_dim / 2`：
#
# - 分量 `i` 和分量 `i + half` 是一对，`i` 从 0 到 `half − 1`。（相邻的 0 和 1 配对是另一种约定；
#   为一种约定训练的权重，换到另一种上就不对了。）
# - 第 `r` 行的第 `i` 对转过的角度是 `positions[r] * theta ** (-i / half)`（弧度）：
#   (a, b) 变成 (a cos − b sin, a sin + b cos)。同一行的所有头转得一样。
# - 不管 `x` 是什么类型，角度都用 float32；结果的类型和 `x` 相同。
# - 位置是整数，次序任意。
# - `x` 本身不能动。这一章的函数都不改自己的参数，只有 cache 是用来写的。

# %% [markdown] lang="en" hint="ch08.1"
# 1. First a table of angles with a row for each token and a column for each pair; then one line that turns
#    all pairs at once.
# 2. `positions[:, None] * speeds` is that table, (tokens, half). For the heads it needs one more axis in the
#    middle: `[:, None]` again. The halves are `x[..., :half]` and `x[..., half:]`; `torch.cat([…], -1)` puts
#    them together.
# 3. `speeds = theta ** (-torch.arange(half) / half)`; `angles = (positions[:, None] * speeds)[:, None]`; with
#    `cos`, `sin` of it and the halves `a`, `b`: the first half is `a * cos - b * sin`, the second
#    `a * sin + b * cos`.

# %% [markdown] lang="zh" hint="ch08.1"
# 1. 先做一张角度表，每个 token 一行，每一对一列；然后用一行代码把所有的对一起转过去。
# 2. `positions[:, None] * speeds` 就是这张表，形状是（token、half）。要照顾到头，中间还得加一维：再来一次
#    `[:, None]`。两半是 `x[..., :half]` 和 `x[..., half:]`，用 `torch.cat([…], -1)` 拼起来。
# 3. `speeds = theta ** (-torch.arange(half) / half)`；`angles = (positions[:, None] * speeds)[:, None]`；
#    取它的 `cos`、`sin`，两半记作 `a`、`b`：前一半是 `a * cos - b * sin`，后一半是 `a * sin + b * cos`。

# %% [markdown] lang="en" explain="ch08.1"
# Turning both vectors by the same angle leaves their product as it was. So the score of a query at position
# m and a key at n depends on m − n only: RoPE is an *absolute* recipe with a *relative* effect. That is why a
# key can be cached already turned: it need not know who will look at it.
#
# Angles stay in float32 because in bfloat16 positions beyond 256 are not even whole numbers any more.

# %% [markdown] lang="zh" explain="ch08.1"
# 两个向量转过同样的角度，内积不变。所以位置 m 的 query 和位置 n 的 key 的分数只取决于 m − n：
# RoPE 的做法是**绝对**的，效果是**相对**的。正因为如此，转好的 key 可以直接存进 cache，
# 不必知道将来谁会来看它。
#
# 角度要用 float32：换成 bfloat16，位置超过 256 就连整数都表示不准了。

# %% check="ch08.1" points=3 level="core"
check("ch08.1")


# %% answer="ch08-answer-2" tags=["export"]
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """en: Causal attention: q (new, heads, dim) at ``positions`` (new,); k, v (all, kv_heads, dim) at 0, 1, 2, …
    zh: 因果注意力：q（新、头、dim）站在 ``positions``（新）；k、v（全部、kv_heads、dim）站在 0、1、2……
    """
    # TODO ch08.2
    # en: A KV head for each head; scores; hide later keys; softmax over the keys; mix the values.
    # zh: 给每个头配上 KV 头；算分数；遮住后面的 key；在 key 上做 softmax；混合 value。
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    later = torch.arange(len(k), device=q.device) > positions[:, None]
    shares = scores.masked_fill(later, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", shares, v)
    # END ch08.2


# %% [markdown] lang="en"
# ## TODO ch08.2 · Causal attention with shared heads
#
# Fill in `attention`. There are `len(q)` new tokens and `len(k)` keys, those of the new tokens among them.
#
# - Query row `i` stands at `positions[i]` and sees the keys 0 to `positions[i]`, its own included. Never the row
#   number: in a second chunk row 0 may stand at position 512.
# - The score of a query and a key is their product over the root of `head_dim`.
# - A softmax over the keys that it may see, then the values mixed by it. Shape and type of `q`.
# - *Grouped queries (GQA)*: there are fewer KV heads than heads, so that the cache is smaller. With `group = heads /
#   kv_heads`, head `h` uses KV head `h // group`: of 6 heads and 2 KV heads, 0, 1, 2 share the first.

# %% [markdown] lang="zh"
# ## TODO ch08.2 · 因果注意力，几个头共用 KV
#
# 补全 `attention`。新 token 有 `len(q)` 个，key 有 `len(k)` 个，其中包括新 token 自己的。
#
# - 第 `i` 行 query 站在 `positions[i]`，看 key 0 到 `positions[i]`，自己也算在内。不能用行号：
#   第二块预填充的第 0 行，也许站在位置 512。
# - query 和 key 的分数是两者的内积，除以 `head_dim` 的平方根。
# - 在看得到的 key 上做 softmax，再按它混合 value。形状和类型同 `q`。
# - **分组查询（GQA）**：KV 头比头少，这样 cache 更小。令 `group = 头数 / kv_heads`，第 `h` 个头用第 `h // group`
#   个 KV 头：6 个头、2 个 KV 头，则 0、1、2 共用第一个。

# %% [markdown] lang="en" hint="ch08.2"
# 1. Four stages: repeat the KV heads until there are as many as heads; scores (heads, new, all); minus
#    infinity where a key is later than its query; softmax and mix.
# 2. `repeat_interleave(group, 1)` makes 0 0 0 1 1 1; `repeat` would make 0 1 0 1 0 1.
#    `torch.einsum("qhd,khd->hqk", q, k)` gives all scores. The mask is (new, all): compare `torch.arange(len(k))`
#    with `positions[:, None]`.
# 3. `later = torch.arange(len(k)) > positions[:, None]`;
#    `shares = scores.masked_fill(later, float("-inf")).softmax(-1)`; then
#    `torch.einsum("hqk,khd->qhd", shares, v)`.

# %% [markdown] lang="zh" hint="ch08.2"
# 1. 分四步：把 KV 头重复到和头一样多；算分数（头、新、全部）；key 比 query 晚的地方填负无穷；softmax，再混合。
# 2. `repeat_interleave(group, 1)` 得到 0 0 0 1 1 1；用 `repeat` 得到的是 0 1 0 1 0 1。
#    `torch.einsum("qhd,khd->hqk", q, k)` 给出全部分数。遮罩的形状是（新、全部）：拿 `torch.arange(len(k))` 和
#    `positions[:, None]` 比。
# 3. `later = torch.arange(len(k)) > positions[:, None]`；
#    `shares = scores.masked_fill(later, float("-inf")).softmax(-1)`；最后
#    `torch.einsum("hqk,khd->qhd", shares, v)`。

# %% [markdown] lang="en" explain="ch08.2"
# The mask uses positions, so the same function serves a whole prompt, a later chunk and a decode step. With
# `torch.tril` it would serve the first of the three only.
#
# `repeat_interleave` copies keys, which a real kernel avoids: it lets the heads of a group read the same memory.
# Saving that reading is half of why GQA exists; the other half is the smaller cache.

# %% [markdown] lang="zh" explain="ch08.2"
# 遮罩按位置来做，所以同一个函数既能算整段提示词，也能算后面的一块，还能算一步 decode。
# 换成 `torch.tril`，就只对三者里的第一种。
#
# `repeat_interleave` 会复制 key，真正的 kernel 不会这样：它让同组的头去读同一块内存。
# GQA 的好处，一半在于省下这些读取，另一半在于 cache 更小。

# %% check="ch08.2" points=3 level="core"
check("ch08.2")


# %% answer="ch08-answer-3" tags=["export"]
class KVCache:
    """en: Keys and values of one sequence, in all layers; row p belongs to position p.
    zh: 一个序列在所有层的 key 和 value；第 p 行属于位置 p。
    """

    def __init__(self, config, capacity: int, dtype=torch.float32, device="cpu") -> None:
        shape = (config.layers, capacity, config.kv_heads, config.head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """en: Keep k, v (new, kv_heads, dim) of the tokens at ``positions``, one after the other; attend over all so far.
        zh: 存下站在 ``positions``（依次相邻）的 token 的 k、v（新、kv_heads、dim）；在到目前为止的全部上做注意力。
        """
        # TODO ch08.3
        # en: Write the new rows of this layer; then attention over the rows up to the last position.
        # zh: 写入这一层的新行；然后在直到最后一个位置的各行上做注意力。
        self.keys[layer, positions] = k
        self.values[layer, positions] = v
        end = int(positions[-1]) + 1
        return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)
        # END ch08.3


# %% [markdown] lang="en"
# ## TODO ch08.3 · Compute once, keep
#
# Fill in `attend`. `k` and `v` are those of the new tokens only, already turned; `positions` are their places,
# successive whole numbers.
#
# - Keep them in `self.keys[layer]` and `self.values[layer]`, at their positions.
# - Return your `attention` of `q` over positions 0 to the last new one: what was kept before, and the new.
# - The rows beyond were never written and hold anything, NaN too (the check sees to that): do not read them.
# - A position may be written again, when someone goes back. What counts is what was written last.

# %% [markdown] lang="zh"
# ## TODO ch08.3 · 算一次，存下来
#
# 补全 `attend`。`k` 和 `v` 只是新 token 的，已经转好；`positions` 是它们的位置，一串相邻的整数。
#
# - 按位置存进 `self.keys[layer]` 和 `self.values[layer]`。
# - 返回 `q` 在位置 0 到最后一个新位置上的 `attention`：以前存的，加上新来的。
# - 再往后的行从没写过，里面什么都可能有，包括 NaN（检查会故意放进去）：不要读。
# - 同一个位置可以再写一次，比如有人退回去重来。以最后写的为准。

# %% [markdown] lang="en" hint="ch08.3"
# 1. Two assignments, then one call. What comes back from the cache replaces `k` and `v`.
# 2. A tensor can be indexed by a tensor: `self.keys[layer, positions] = k` writes all rows at once. The last
#    position as a number is `int(positions[-1])`, and a slice ends *before* its end.
# 3. `end = int(positions[-1]) + 1`;
#    `return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)`.

# %% [markdown] lang="zh" hint="ch08.3"
# 1. 两次赋值，一次调用。从 cache 里取出来的，代替 `k` 和 `v`。
# 2. 张量可以用张量来索引：`self.keys[layer, positions] = k` 一次写好所有行。最后一个位置的数值是
#    `int(positions[-1])`，而切片不含右端。
# 3. `end = int(positions[-1]) + 1`；
#    `return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)`。

# %% [markdown] lang="en" explain="ch08.3"
# There is no counter "how many tokens are held": the positions say where to write and how far to read. So going
# back, which chapter 12 does after a rejected draft, takes nothing: the next call simply has smaller positions.
#
# `int(positions[-1])` looks innocent. On a GPU it makes Python wait for the device, once a layer. Engines
# keep such numbers on the host; chapter 9 will.

# %% [markdown] lang="zh" explain="ch08.3"
# 这里没有“已经存了几个”的计数器：写到哪里、读到哪里，都由位置说了算。所以第 12 章草稿被拒、需要退回时，
# 什么都不用做：下一次调用的位置小一些就行。
#
# `int(positions[-1])` 看着人畜无害，可是在 GPU 上，每一层都会让 Python 停下来等设备一次。
# 推理引擎会把这类数留在主机这边；第 9 章也会。

# %% check="ch08.3" points=3 level="core"
check("ch08.3")

# %% [markdown] lang="en"
# ## Given: the whole model
#
# Everything is here, on one screen; the names of the weights are those that Hugging Face publishes. It
# computes Llama, and Qwen3, which norms each head's queries and keys first.
#
# The check of TODO 3 has run it already: against numbers that transformers 5.17.0 computed from the same weights.

# %% [markdown] lang="zh"
# ## 已经写好的：整个模型
#
# 全在这里，一屏之内；权重的名字就是 Hugging Face 发布时用的名字。它能算 Llama，
# 也能算 Qwen3（后者先对每个头的 query 和 key 做一次 norm）。
#
# TODO 3 的检查已经跑过它了：对照的是 transformers 5.17.0 用同样的权重算出来的数。


# %% tags=["export"]
class Decoder:
    """en: A Llama or Qwen3 model: a Config and its weights by name, no state. New tokens in, their rows out.
    zh: Llama 或 Qwen3 模型：一个 Config 加上按名字存的权重，没有状态。进去的是新 token，出来的是它们的行。
    """

    def __init__(self, config, weights: dict[str, torch.Tensor]) -> None:
        self.config, self.weights = config, weights
        self.embedding = weights["model.embed_tokens.weight"]

    def cache(self, capacity: int):
        """en: An empty cache for ``capacity`` tokens.
        zh: 一个能放 ``capacity`` 个 token 的空 cache。
        """
        return KVCache(self.config, capacity, self.embedding.dtype, self.embedding.device)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, kv) -> torch.Tensor:
        """en: tokens (n,) at positions (n,), attending through ``kv``; returns the last hidden rows (n, hidden).
        zh: 站在 positions（n,）的 tokens（n,），通过 ``kv`` 做注意力；返回最后的隐藏行（n, hidden）。
        """
        positions = positions.to(self.embedding.device)
        x, eps = self.embedding[tokens], self.config.eps
        for i in range(self.config.layers):
            prefix = f"model.layers.{i}."
            w = {name: self.weights[f"{prefix}{name}.weight"] for name, _ in self.config.layer_weights()}
            x = x + self.mixed(i, w, rms_norm(x, w["input_layernorm"], eps), positions, kv)
            y = rms_norm(x, w["post_attention_layernorm"], eps)
            x = x + swiglu(y, w["mlp.gate_proj"], w["mlp.up_proj"], w["mlp.down_proj"])
        return rms_norm(x, self.weights["model.norm.weight"], eps)

    def mixed(self, i: int, w: dict[str, torch.Tensor], x: torch.Tensor, positions: torch.Tensor, kv):
        """en: The attention of layer i.
        zh: 第 i 层的注意力。
        """
        c = self.config
        q, k, v = (linear(x, w[f"self_attn.{n}_proj"]).unflatten(-1, (-1, c.head_dim)) for n in "qkv")
        if c.qk_norm:
            q, k = rms_norm(q, w["self_attn.q_norm"], c.eps), rms_norm(k, w["self_attn.k_norm"], c.eps)
        q, k = rope(q, positions, c.rope_theta), rope(k, positions, c.rope_theta)
        return linear(kv.attend(i, q, k, v, positions).flatten(-2), w["self_attn.o_proj"])

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """en: (…, hidden) to (…, vocab): how much each token is expected next.
        zh: （…, hidden）到（…, vocab）：接下来是每个 token 的可能有多大。
        """
        return linear(hidden, self.weights.get("lm_head.weight", self.embedding))


# %% answer="ch08-answer-4" tags=["export"]
def distribution(logits: torch.Tensor, temperature: float = 0.0, top_p: float = 1.0) -> torch.Tensor:
    """en: The probabilities (vocab,) that the next token is drawn from, by token id; temperature 0 is greedy.
    zh: 抽下一个 token 用的概率（vocab,），按 token id 排列；温度 0 就是贪心。
    """
    # TODO ch08.4
    # en: Greedy: all on the largest. Else softmax, the most probable until top_p is reached, and 1 in all again.
    # zh: 贪心：全押最大的。否则 softmax，从概率最大的开始留到够 top_p 为止，再让总和回到 1。
    if temperature == 0:
        return torch.zeros_like(logits).scatter(0, logits.argmax(), 1.0)
    probs = (logits / temperature).softmax(0)
    ordered, ids = probs.sort(descending=True, stable=True)
    before = ordered.cumsum(0) - ordered
    kept = ordered.masked_fill(before >= top_p, 0.0)
    return torch.zeros_like(probs).scatter(0, ids, kept / kept.sum())
    # END ch08.4


# %% [markdown] lang="en"
# ## TODO ch08.4 · Greedy and top-p
#
# The logits say how much each token is expected. Fill in `distribution`: the probabilities that the next token
# is drawn from, one for each id, in order of ids, 1 in all.
#
# - `temperature` 0 is *greedy*: probability 1 for the largest logit, of equal ones the smallest id.
# - Else divide the logits by `temperature`, then softmax. Below 1 it gets bolder, above 1 more even.
# - *Top-p*: from the most probable down (of equal ones the smaller id first), keep a token as long as those before it add up
#   to **less than** `top_p`. So the token with which `top_p` is reached is kept, the next is not, and the first
#   always is. What is not kept gets 0; what is kept is divided by its sum.
# - `temperature` is at least 0, `top_p` above 0 and at most 1.

# %% [markdown] lang="zh"
# ## TODO ch08.4 · 贪心和 top-p
#
# logits 说的是每个 token 有多被看好。补全 `distribution`：抽下一个 token 用的概率，每个 id 一个，
# 按 id 排列，总和为 1。
#
# - `temperature` 为 0 就是**贪心**：logit 最大的概率为 1；一样大时取 id 最小的。
# - 否则先把 logits 除以 `temperature`，再 softmax。小于 1 更果断，大于 1 更平均。
# - **top-p**：从概率最大的往下（一样大时 id 小的在前），只要排在它前面的加起来**小于** `top_p`，就留下它。
#   所以让总和达到 `top_p` 的那个留下，下一个就不留了；第一个总是留下。没留下的是 0，留下的除以它们的和。
# - `temperature` 不小于 0，`top_p` 大于 0、不超过 1。

# %% [markdown] lang="en" hint="ch08.4"
# 1. Three steps after greedy is dealt with: probabilities; which of them to keep, decided in order of
#    probability; back to the order of ids.
# 2. `probs.sort(descending=True, stable=True)` gives values and ids. `cumsum` includes the token itself; what
#    stands *before* it is `ordered.cumsum(0) - ordered`. `torch.zeros_like(probs).scatter(0, ids, kept)` puts each value
#    at its id.
# 3. `kept = ordered.masked_fill(ordered.cumsum(0) - ordered >= top_p, 0.0)`; then
#    `torch.zeros_like(probs).scatter(0, ids, kept / kept.sum())`. Greedy: `scatter(0, logits.argmax(), 1.0)` into zeros.

# %% [markdown] lang="zh" hint="ch08.4"
# 1. 处理掉贪心以后还有三步：算概率；按概率的次序决定留哪些；回到 id 的次序。
# 2. `probs.sort(descending=True, stable=True)` 给出值和 id。`cumsum` 把自己也算进去了；排在它**前面**的是
#    `ordered.cumsum(0) - ordered`。`torch.zeros_like(probs).scatter(0, ids, kept)` 把每个值放回它的 id。
# 3. `kept = ordered.masked_fill(ordered.cumsum(0) - ordered >= top_p, 0.0)`；然后
#    `torch.zeros_like(probs).scatter(0, ids, kept / kept.sum())`。贪心：往全零里 `scatter(0, logits.argmax(), 1.0)`。

# %% [markdown] lang="en" explain="ch08.4"
# Compare with what stands before a token, not with the sum that includes it: otherwise a model that is 95 % sure
# would, at top-p 0.9, keep nothing at all.
#
# `stable=True` makes equal probabilities a matter of the id and not of the sorting algorithm, which differs
# between devices. The function returns a distribution and not a token, because chapter 12 needs the numbers
# themselves: speculative decoding is right only for the very distribution that is drawn from.

# %% [markdown] lang="zh" explain="ch08.4"
# 要比的是排在它前面的总和，不是把它也算进去的总和：否则模型有 95% 的把握时，top-p 取 0.9 就一个也留不下。
#
# `stable=True` 让概率相等时由 id 决定，而不是由排序算法决定，后者在不同设备上并不一样。
# 这个函数返回的是分布而不是 token，因为第 12 章要用到这些数本身：投机解码只有对着真正抽样所用的分布才是对的。

# %% check="ch08.4" points=3 level="core"
check("ch08.4")


# %% tags=["export"]
def sample(
    logits: torch.Tensor, temperature: float, top_p: float, generator: torch.Generator | None = None
) -> int:
    """en: A token id drawn from ``distribution``; greedy draws nothing.
    zh: 按 ``distribution`` 抽出的 token id；贪心时不用抽。
    """
    probs = distribution(logits, temperature, top_p)
    if temperature == 0:
        return int(probs.argmax())
    return int(torch.multinomial(probs.float().cpu(), 1, generator=generator))


# %% answer="ch08-answer-5" tags=["export"]
def generate(
    decoder,
    prompt: list[int],
    max_new_tokens: int,
    stop_token_ids: tuple[int, ...] = (),
    temperature: float = 0.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Generator[int, None, str]:
    """en: Yield the answer's token ids one by one; returns "stop" or "length" at its end.
    zh: 逐个产出回答的 token id；结束时返回 "stop" 或 "length"。
    """
    kv = decoder.cache(len(prompt) + max_new_tokens)
    # TODO ch08.5
    # en: A pass over what is not computed yet; sample from its last row; yield; stop? And again.
    # zh: 算还没算过的 token；从最后一行抽样；产出；该停了吗？再来一遍。
    tokens, start = list(prompt), 0
    for _ in range(max_new_tokens):
        positions = torch.arange(start, len(tokens))
        hidden = decoder.forward(torch.tensor(tokens[start:]), positions, kv)
        start = len(tokens)
        tokens.append(sample(decoder.logits(hidden[-1]), temperature, top_p, generator))
        yield tokens[-1]
        if tokens[-1] in stop_token_ids:
            return "stop"
    return "length"
    # END ch08.5


# %% [markdown] lang="en"
# ## TODO ch08.5 · The loop
#
# Fill in `generate`. It is a Python generator: whoever calls it gets each token when it is there.
#
# - The first pass computes the whole prompt, at positions 0, 1, 2, …; every later one the token that was just
#   drawn, at the next position. All with the one cache `kv`.
# - The next token is drawn with `sample` from the logits of the **last** row of the pass.
# - Yield it, a plain int, before anything else is computed.
# - A token in `stop_token_ids` is the last; it is yielded, too. Then return `"stop"`. After `max_new_tokens` tokens
#   return `"length"`; a stop token on the last place is `"stop"`. The prompt may contain stop tokens: they stop nothing.
# - The last token is not computed: nobody needs its keys.
#
# `prompt` is a list with at least one token and belongs to the caller: do not append to it. `max_new_tokens` is
# at least 1.

# %% [markdown] lang="zh"
# ## TODO ch08.5 · 循环
#
# 补全 `generate`。它是一个 Python 生成器：每个 token 一出来，调用者就能拿到。
#
# - 第一次计算整段提示词，位置是 0、1、2……；以后每次只算刚抽出来的那个 token，位置接着往下。用的都是同一个
#   cache：`kv`。
# - 下一个 token 用 `sample` 从这次计算**最后一行**的 logits 里抽。
# - 先把它产出（普通的 int），再算别的。
# - 抽到 `stop_token_ids` 里的 token，它就是最后一个，也要产出，然后返回 `"stop"`。产出满 `max_new_tokens` 个，返回
#   `"length"`；最后一个名额上恰好是停止 token，算 `"stop"`。提示词里可以有停止 token，不影响什么。
# - 最后一个 token 不用再算：没有人要它的 key。
#
# `prompt` 是至少有一个 token 的列表，归调用者所有：不要往里面添东西。`max_new_tokens` 至少是 1。

# %% [markdown] lang="en" hint="ch08.5"
# 1. Keep one list of all tokens and one number: how many of them are computed. A pass takes what lies
#    beyond that number, whether it is a prompt or one token.
# 2. Tokens and positions go in as tensors: `torch.tensor(tokens[start:])`, `torch.arange(start, len(tokens))`. The
#    last row is `hidden[-1]`. A `return value` in a generator ends it and hands the value on.
# 3. In the loop: `hidden = decoder.forward(torch.tensor(tokens[start:]), torch.arange(start, len(tokens)), kv)`;
#    `start = len(tokens)`; append `sample(decoder.logits(hidden[-1]), temperature, top_p, generator)`; `yield` it; then look whether it is
#    in `stop_token_ids`.

# %% [markdown] lang="zh" hint="ch08.5"
# 1. 用一个列表装全部 token，再用一个数记住已经算过几个。每次计算取这个数之后的部分，不管那是整段提示词还是一个 token。
# 2. token 和位置要以张量传入：`torch.tensor(tokens[start:])`、`torch.arange(start, len(tokens))`。最后一行是
#    `hidden[-1]`。在生成器里写 `return 值`，会结束它并把值交出去。
# 3. 循环里：`hidden = decoder.forward(torch.tensor(tokens[start:]), torch.arange(start, len(tokens)), kv)`；
#    `start = len(tokens)`；把 `sample(decoder.logits(hidden[-1]), temperature, top_p, generator)` 加到列表末尾；`yield` 它；
#    再看它在不在 `stop_token_ids` 里。

# %% [markdown] lang="en" explain="ch08.5"
# `start` is `num_computed_tokens` of the contract, and `tokens` is as long as `num_tokens`: a request is in
# prefill as long as more than its last token is to be computed. No phase is needed, here as there.
#
# The check counts passes when a token arrives. A loop that computes the next token before it yields the last
# one gives the same text and doubles the time to the first token.

# %% [markdown] lang="zh" explain="ch08.5"
# `start` 就是契约里的 `num_computed_tokens`，`tokens` 的长度就是 `num_tokens`：只要待算的不止最后一个 token，
# 请求就还在预填充。和契约一样，这里也不需要“阶段”这个变量。
#
# 检查会在每个 token 到手时数一数模型算了几次。先算下一个、再产出上一个的循环，文本一样，首 token 却要等两倍的时间。

# %% check="ch08.5" points=3 level="core"
check("ch08.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass. The rest of the chapter runs **your** code.
#
# Stuck? In a new cell, in this order: `hint("ch08.2", 1)` for a direction, `hint("ch08.2", 2)` for the tool
# and the trap beside it, `hint("ch08.2", 3)` for almost the code, `solution("ch08.2")` for the reference
# and its reasons. Give each fifteen honest minutes before the next.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了，再往下看。后面跑的全是**你的**代码。
#
# 卡住了？新建一个单元格，按这个次序来：`hint("ch08.2", 1)` 给方向，`hint("ch08.2", 2)` 给工具和旁边的坑，
# `hint("ch08.2", 3)` 差不多就是代码，`solution("ch08.2")` 是参考实现和它的理由。
# 每往下一步之前，先老老实实想十五分钟。

# %%
progress()

# %% [markdown] lang="en"
# ## Experiment 1 · It writes
#
# The course brings a small model: two and a half million weights, trained on classical Chinese verse and the
# King James Bible, in both languages badly enough to be charming. Every word below passes through your five
# functions.
#
# **Predict:** what does temperature 0 do to a poem, and what does temperature 1.5?

# %% [markdown] lang="zh"
# ## 实验 1 · 它开口了
#
# 课程自带一个小模型：两百五十万个权重，用中文旧体诗和英王钦定本《圣经》训练，两种语言都写得不怎么好，但有点意思。
# 下面的每个字，都是从你的五个函数里流出来的。
#
# **先猜：** 温度为 0 会把诗写成什么样？1.5 呢？

# %%
from decodelab.models.load import load

# en: Small operations gain nothing from more threads.
# zh: 运算都很小，线程多了没有好处。
torch.set_num_threads(1)
model = load()
decoder = Decoder(model.config, model.weights)


def write(prompt, temperature, max_new_tokens=48):
    """en: Print the model's answer to ``prompt`` while it is generated.
    zh: 一边生成，一边打印模型接在 ``prompt`` 后面写的话。
    """
    generator = torch.Generator().manual_seed(8)
    ids, shown = model.tokenizer.encode(prompt), prompt
    print(prompt, end="")
    said = generate(decoder, ids, max_new_tokens, model.config.eos, temperature, 0.9, generator)
    for token in said:
        ids.append(token)
        text = model.tokenizer.decode(ids)
        if not text.endswith("\ufffd"):
            print(text[len(shown) :], end="", flush=True)
            shown = text
    print("\n" + "-" * 40)


for prompt in ("春风", "And God said"):
    for temperature in (0.0, 0.8, 1.5):
        write(prompt, temperature)

# %% [markdown] lang="en"
# *Two prompts, three temperatures each: 0, 0.8, 1.5; top-p 0.9.*
#
# A character can take several tokens, so a text that ends in half a character waits for the next token: that
# is the `\ufffd` in the loop. Greedy tends to repeat itself, for the most probable next word after a phrase
# is often the phrase.

# %% [markdown] lang="zh"
# 输出：两段提示词，每段三个温度：0、0.8、1.5；top-p 取 0.9。
#
# 一个字可能要几个 token 才拼得出来，所以文本末尾只有半个字时要等下一个 token：循环里的 `\ufffd` 就是干这个的。
# 贪心容易车轱辘话来回说，因为一句话后面最可能出现的，往往还是这句话。

# %% [markdown] lang="en"
# ## Experiment 2 · Exact, and moved
#
# Two claims, on your own code. First: a pass over everything at once, and the same tokens one by one through
# the cache, give the same logits. Second: RoPE makes scores depend on distances only, so a query and a key
# that both move on by 1,000 positions keep their score, and a text that moves stays the same text.
#
# **Predict** both differences. Exactly 0?

# %% [markdown] lang="zh"
# ## 实验 2 · 精确，而且搬得动
#
# 两件事，在你自己的代码上验证。第一：一次全算，和一个一个经过 cache 算，logits 一样。
# 第二：有了 RoPE，分数只看距离：query 和 key 一起往后挪 1,000 个位置，分数不变；整段文本挪动，还是同一段文本。
#
# **先猜**这两个差是多少。正好是 0 吗？

# %%
ids = torch.tensor(model.tokenizer.encode("In the beginning God created the heaven and the earth"))
places = torch.arange(len(ids))
whole = decoder.logits(decoder.forward(ids, places, decoder.cache(len(ids))))

kv = decoder.cache(len(ids))
one_by_one = torch.cat([decoder.forward(ids[i : i + 1], places[i : i + 1], kv) for i in range(len(ids))])
apart = (decoder.logits(one_by_one) - whole).abs().max()
print(tr(en="logits, one by one and all at once:", zh="logits，逐个计算与一次全算："), f"{apart:.1e}")

q, k = torch.randn(1, 1, 64), torch.randn(1, 1, 64)
near, far = (
    (rope(q, torch.tensor([9 + shift]), 1e4) * rope(k, torch.tensor([2 + shift]), 1e4)).sum()
    for shift in (0, 1000)
)
print(
    tr(en="a score, here and 1,000 further on:", zh="一个分数，原处与挪后 1,000："),
    f"{(near - far).abs():.1e}",
)

# %% [markdown] lang="en"
# Small, and hardly ever 0. In the first the numbers are the same; the *order* in which float32 adds them up is
# not, and float addition is not associative. In the second, angles of a thousand radians have lost some digits.
# Remember this when two engines give different texts: where the two best tokens are closer than the rounding,
# both are right. Chapters 9 and 10 count such ties.

# %% [markdown] lang="zh"
# 很小，但几乎不会是 0。前一个加的是同样一些数，float32 相加的**次序**却不同，而浮点加法不满足结合律；
# 后一个的角度超过了 1,000 弧度，末几位丢了。
# 以后两个引擎写出不同的文本时，请记得这一点：最好的两个 token 之差小于舍入误差时，两边都对。
# 第 9、10 章会把这种平局数出来。

# %% [markdown] lang="en"
# ## Experiment 3 · What the cache is worth
#
# Milliseconds for the next token after n tokens: once through the cache, once computing everything again.
#
# **Predict:** how does each curve grow from 16 to 480 tokens?

# %% [markdown] lang="zh"
# ## 实验 3 · cache 值多少
#
# 已有 n 个 token，算出下一个要多少毫秒：一次用 cache，一次全部重算。
#
# **先猜：** 从 16 个到 480 个 token，两条曲线各怎么长？

# %%
from time import perf_counter

from decodelab.show.plots import sweep


def seconds(work, repeats=7):
    """en: The shortest of several runs, after one to warm up.
    zh: 先热身一次，再取几次里最短的。
    """
    work()
    times = []
    for _ in range(repeats):
        begun = perf_counter()
        work()
        times.append(perf_counter() - begun)
    return min(times)


def pass_of(decoder, start, count, asked=1):
    """en: A pass of ``count`` tokens behind ``start`` others, with logits for the last ``asked``, as something to call.
    zh: 一次可以调用的计算：前面有 ``start`` 个 token，这次算 ``count`` 个，并给出最后 ``asked`` 个的 logits。
    """
    kv = decoder.cache(start + count)
    kv.keys.normal_(), kv.values.normal_()
    ids = torch.randint(decoder.config.vocab, (count,))
    positions = torch.arange(start, start + count)
    return lambda: decoder.logits(decoder.forward(ids, positions, kv)[-asked:])


lengths = [16, 32, 64, 128, 256, 480]
times: dict = {
    "cached": {n: 1e3 * seconds(pass_of(decoder, n - 1, 1)) for n in lengths},
    "uncached": {n: 1e3 * seconds(pass_of(decoder, 0, n)) for n in lengths},
}
for n in lengths:
    print(f"{n:>4}  {times['cached'][n]:7.2f} ms  {times['uncached'][n]:7.2f} ms")
sweep(times, "tokens", "ms", log=True)

# %% [markdown] lang="en"
# *x: tokens so far, logarithmic. y: milliseconds for one more.*
#
# With the cache the time hardly moves: one row through all weights, and a little attention. Without it, the
# time grows with n, and a whole answer with its square. For very short texts the two are close: then it is
# neither arithmetic nor memory that takes the time, but the hundred-odd operations that Python starts one by one.

# %% [markdown] lang="zh"
# 图：横轴是已有的 token 数（对数），纵轴是多算一个要多少毫秒。
#
# 用 cache，时间几乎不动：一行数据过一遍全部权重，外加一点注意力。不用 cache，时间随 n 增长，
# 整个回答就随 n 的平方增长。文本很短时两者差不多：这时费时间的既不是计算也不是访存，
# 而是 Python 一个一个发起的那一百多次运算。

# %% [markdown] lang="en"
# ## Experiment 4 · This machine's own roof
#
# Chapter 2 took peaks from datasheets. Now measure yours, on one core: arithmetic with one large matrix product, bandwidth with
# one large product of a matrix and a vector, which reads every weight once. Then put real passes under that roof: of
# the embedded model, and of one with the proportions of SmolLM2-135M cut to four layers (random weights; speed does not depend
# on them). Every token gets its logits, for that is what chapter 2's roofline counts.
#
# **Predict:** where do prefill and decode land? And how close to the roof does each come?

# %% [markdown] lang="zh"
# ## 实验 4 · 这台机器自己的屋顶
#
# 第 2 章的峰值取自数据手册。现在量你自己的，只用一个核：算力用一次大矩阵乘法来量；带宽用一次大矩阵乘向量来量，它把每个权重正好读一遍。
# 然后把真正的计算放到这个屋顶下面：自带的小模型，以及一个比例同 SmolLM2-135M、但只留四层的模型
# （权重随机，不影响速度）。每个 token 都算 logits，因为第 2 章的 roofline 就是这样计的。
#
# **先猜：** 预填充和 decode 各落在哪里？离屋顶各有多近？

# %%
from dataclasses import replace

from decodelab import chapter
from decodelab.models.config import Config
from decodelab.show.plots import roofline
from decodelab.sim.hardware import GPU, MODELS

square, vector = torch.randn(1024, 1024), torch.randn(4096)
large = torch.randn(8192, 4096)
here = GPU(
    tr(en="this machine", zh="这台机器"),
    flops=2 * 1024**3 / seconds(lambda: square @ square, repeats=20),
    bandwidth=4 * large.numel() / seconds(lambda: large @ vector, repeats=20),
    memory=1,
    source=tr(en="measured just now", zh="刚刚实测"),
)
print(
    f"{here.flops / 1e9:.0f} GFLOP/s, {here.bandwidth / 1e9:.1f} GB/s, {here.flops / here.bandwidth:.0f} FLOP/B"
)

smol = replace(MODELS["SmolLM2-135M"], layers=4, vocab=8192)
big_config = Config(**{**vars(smol), "bytes_per_param": 4, "bytes_per_kv": 4})
big = Decoder(big_config, {name: torch.randn(shape) * 0.02 for name, shape in big_config.weights()})
small = Decoder(replace(model.config, bytes_per_param=4, bytes_per_kv=4), model.weights)

Roofline = chapter("ch02").Roofline
points = {}
for name, each in (("small", small), ("big", big)):
    for phase, past, count in (("prefill", 0, 128), ("decode", 127, 1)):
        pairs = count * past + count * (count + 1) // 2
        arithmetic, traffic = Roofline(each.config, here).times(count, past, pairs)
        took = seconds(pass_of(each, past, count, asked=count), repeats=5)
        points[f"{name} {phase}"] = (arithmetic * here.flops, traffic * here.bandwidth, took)
        print(f"{name:5} {phase:7} {1e3 * took:8.2f} ms, {max(arithmetic, traffic) / took:4.0%}")
roofline(points, here.flops, here.bandwidth)

# %% [markdown] lang="en"
# *Slope: this machine's bandwidth; flat: its arithmetic. Printed: what a pass took, and the roofline's time in per cent of it.*
#
# Prefill lies to the right of the ridge, decode far to the left, on your CPU as on any GPU: 128 tokens share one
# reading of the weights, one token shares it with nobody.
#
# And decode stays well below the roof. On one core of an AMD EPYC server (2026-11-29, four runs beside other work) the big
# model's came to 59 to 82 per cent of it, the small one's to 37 to 54: the roofline knows no cost of starting an operation,
# and the small model's are over before Python has started the next. Chapter 10 fits the missing terms to your machine.
# (More than 100 per cent is no wonder: the roof was measured with one shape, another may suit the processor better, and
# weights that fit into its cache come faster than from the memory that was measured.)
#
# So two things will make decode faster: more rows for one reading, which is batching, chapter 9; and fewer, larger
# operations, which is chapter 14.

# %% [markdown] lang="zh"
# 图：斜线是这台机器的带宽，平线是它的算力。打印的是：一次计算花了多久，以及 roofline 预言的时间占它的百分之几。
#
# 预填充落在拐点右边，decode 远远落在左边；你的 CPU 如此，任何 GPU 也如此：128 个 token 合用一次权重读取，
# 一个 token 没有人可合用。
#
# 而且 decode 离屋顶还远。在一台 AMD EPYC 服务器的一个核上（2026-11-29，四次，同时还有别的任务），大模型的到了屋顶的
# 59% 到 82%，小模型的只有 37% 到 54%：roofline 不知道发起一次运算也要花时间，而小模型的运算，
# 还没等 Python 发起下一个就已经做完了。第 10 章会把缺的这几项拟合到你的机器上。
# （超过 100% 也不奇怪：屋顶是用一种形状量的，别的形状也许更合处理器的胃口；装得进处理器缓存的权重，读起来也比量到的内存快。）
#
# 所以让 decode 变快有两条路：读一遍权重多带几行，这是批处理，第 9 章；运算少而大，这是第 14 章。

# %% [markdown] lang="en"
# ## Numbers of one's own
#
# *Extension: its points are counted apart.*
#
# A user sends `seed=7` and expects the same text tomorrow. In a batch, sixteen requests draw random numbers in each
# step; with one common generator, what you get depends on who else happens to be there. So every request needs a
# generator of its own, made from the seed and from nothing else that changes.

# %% [markdown] lang="zh"
# ## 各用各的随机数
#
# **扩展部分**：单独计分。
#
# 用户传来 `seed=7`，指望明天还能得到同样的文本。可是一批里有十六个请求，每一步都在取随机数；
# 如果共用一个生成器，得到什么就取决于当时旁边还有谁。所以每个请求都要有自己的生成器，
# 只由种子决定，不掺进别的会变的东西。


# %% answer="ch08-answer-6" tags=["export"]
class Seeds:
    """en: A generator for every request, from one seed.
    zh: 由一个种子给每个请求生成它自己的随机数生成器。
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._made: dict[int | str, torch.Generator] = {}

    def generator(self, request_id: int | str) -> torch.Generator:
        """en: The request's own generator: made when first asked for, the same one ever after.
        zh: 这个请求自己的生成器：第一次索取时建好，以后总是同一个。
        """
        # TODO ch08.6
        # en: At the first call, a generator seeded by both the seed and the id; then always that one.
        # zh: 第一次调用时，用种子和 id 一起给生成器播种；以后一直用它。
        if request_id not in self._made:
            mixed = random.Random(f"{self.seed}/{request_id}").getrandbits(63)
            self._made[request_id] = torch.Generator().manual_seed(mixed)
        return self._made[request_id]
        # END ch08.6


# %% [markdown] lang="en"
# ## TODO ch08.6 · A generator for each request
#
# Fill in `generator`.
#
# - Another request, or another seed, draws other numbers. The same seed and id draw the same ones, on any day,
#   whoever else is there.
# - Asked again, a request goes on with its generator; it does not begin anew.
# - Seed and id have to be *mixed*: by adding them, seed 1 and request 2 would be seed 2 and request 1.
# - torch's global generator stays untouched.

# %% [markdown] lang="zh"
# ## TODO ch08.6 · 每个请求一个生成器
#
# 补全 `generator`。
#
# - 换一个请求，或者换一个种子，取到的数就不同。种子和 id 都相同，取到的就相同：不管哪一天，也不管旁边有谁。
# - 再次索取时，接着用它的生成器，不从头开始。
# - 种子和 id 要**混合**起来：只是相加的话，种子 1 的请求 2 就成了种子 2 的请求 1。
# - 不要动 torch 的全局生成器。

# %% [markdown] lang="en" hint="ch08.6"
# 1. A dict remembers what was made. The only question is which number to seed a new generator with.
# 2. `torch.Generator().manual_seed(n)` takes one number. A good mixer is at hand: `random.Random("a text")` is seeded
#    by a hash of the text, the same in every process, which Python's `hash` of a text is not.
# 3. `random.Random(f"{self.seed}/{request_id}").getrandbits(63)` is the number; put the generator into `self._made` and
#    return it from there.

# %% [markdown] lang="zh" hint="ch08.6"
# 1. 用一个字典记住建好的。唯一的问题是：新的生成器用哪个数来播种。
# 2. `torch.Generator().manual_seed(n)` 只收一个数。手边就有好用的混合器：`random.Random("一段文本")` 用文本的散列播种，
#    在哪个进程里都一样；Python 自带的 `hash` 对文本可不是这样。
# 3. 这个数就是 `random.Random(f"{self.seed}/{request_id}").getrandbits(63)`；把生成器放进 `self._made`，再从那里返回。

# %% [markdown] lang="en" explain="ch08.6"
# The "/" between seed and id is not decoration: without it seed 1 with request 11 and seed 11 with request 1
# are the same text. `hash((seed, id))` would do for numbers, but Python salts the hash of strings anew in every
# process, so that tomorrow's text would be another.

# %% [markdown] lang="zh" explain="ch08.6"
# 种子和 id 之间的“/”不是装饰：没有它，种子 1 的请求 11 和种子 11 的请求 1 就是同一段文本。
# id 是数的时候，`hash((seed, id))` 也行；但字符串的散列，Python 在每个进程里都要重新加盐，明天的文本就变了。

# %% check="ch08.6" points=2 level="extension"
check("ch08.6")


# %% answer="ch08-answer-7" tags=["export"]
def visible(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """en: What of ``text`` may be shown so far, and whether a stop string has ended it.
    zh: ``text`` 到目前为止能显示的部分，以及它是否已被停止串结束。
    """
    # TODO ch08.7
    # en: Cut before the stop string that begins first; if none is there, hold back an end that may become one.
    # zh: 在最先开始的停止串之前截断；一个都没有，就扣住可能变成停止串的结尾。
    found = [text.find(stop) for stop in stops if stop in text]
    if found:
        return text[: min(found)], True
    held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
    return text[: len(text) - max(held, default=0)], False
    # END ch08.7


# %% [markdown] lang="en"
# ## TODO ch08.7 · Stop strings
#
# A stop *token* is one id. A stop *string* is text, and may come in pieces, across tokens: `"\n\n"` as two lines' ends. A
# service that streams must not show a beginning that it later has to take back. Fill in `visible`, which is
# asked again with a longer text after each token:
#
# - A stop string is in the text: what stands before it, and `True`. Of several the one that **begins** first.
# - None is, but the text ends with the beginning of one: everything before that end, and `False`. Of several such
#   ends the longest.
# - Neither: the whole text, and `False`.
#
# Stop strings are not empty; there may be none.

# %% [markdown] lang="zh"
# ## TODO ch08.7 · 停止串
#
# 停止 **token** 是一个 id；停止**串**是一段文本，可能分几次、跨几个 token 才出现：比如 `"\n\n"` 是两个换行。
# 流式输出的服务，不能先显示一个开头、后来又收回去。补全 `visible`，每来一个 token，就会拿变长了的文本再问它一次：
#
# - 文本里有停止串：返回它之前的部分，和 `True`。有好几个时，取最先**开始**的那个。
# - 没有，但文本的结尾是某个停止串的开头：返回这个结尾之前的部分，和 `False`。这样的结尾有好几种时，取最长的。
# - 都不是：返回整段文本，和 `False`。
#
# 停止串不会是空的；也可以一个停止串都没有。

# %% [markdown] lang="en" hint="ch08.7"
# 1. First the complete stop strings, then the beginnings. Two lists, one `min` and one `max`.
# 2. `text.find(stop)` says where it begins. A beginning of `stop` is `stop[:n]` with n from 1 to `len(stop) - 1`;
#    `text.endswith` tells. `max(…, default=0)` for when there is none. `text[:-0]` is the empty text, so write
#    `text[: len(text) - n]`.
# 3. `found = [text.find(stop) for stop in stops if stop in text]`; if any, `text[: min(found)], True`;
#    `held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]`.

# %% [markdown] lang="zh" hint="ch08.7"
# 1. 先找完整的停止串，再找开头。两个列表，一个 `min`，一个 `max`。
# 2. `text.find(stop)` 说出它从哪里开始。`stop` 的开头是 `stop[:n]`，n 从 1 到 `len(stop) - 1`；用 `text.endswith` 来判断。
#    一个都没有时用 `max(…, default=0)`。`text[:-0]` 是空文本，所以要写 `text[: len(text) - n]`。
# 3. `found = [text.find(stop) for stop in stops if stop in text]`；有的话返回 `text[: min(found)], True`；
#    `held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]`。

# %% [markdown] lang="en" explain="ch08.7"
# Only the last `len(stop) - 1` characters can ever be held back, so a service need not look through the whole text
# again after each token; for texts of a chat's length it does not matter. Half characters (`\ufffd`) are held back
# before this function sees the text, as in experiment 1.

# %% [markdown] lang="zh" explain="ch08.7"
# 能被扣住的最多是最后 `len(stop) - 1` 个字符，所以服务不必每来一个 token 就把整段文本重找一遍；
# 聊天这么长的文本，怎样都无所谓。半个字（`\ufffd`）在交给这个函数之前就已经扣住了，见实验 1。

# %% check="ch08.7" points=2 level="extension"
check("ch08.7")

# %% [markdown] lang="en"
# ### One couplet, please
#
# Three requests take turns, each with its own generator, and each ends after a couplet, at its first full stop.
# Run the cell again with another order of names.
#
# **Predict:** which of the three poems change?

# %% [markdown] lang="zh"
# ### 只要一联
#
# 三个请求轮流走，各用各的生成器，写满一联（到句号为止）就停。换一换名字的次序，再运行一次。
#
# **先猜：** 三首里有几首会变？

# %%
seeds = Seeds(2026)
going = {
    name: generate(
        decoder, model.tokenizer.encode("明月"), 40, model.config.eos, 0.9, 0.95, seeds.generator(name)
    )
    for name in ("a", "b", "c")
}
said = {name: model.tokenizer.encode("明月") for name in going}
done: dict[str, str] = {}
while len(done) < len(going):
    for name, answer in going.items():
        if name in done:
            continue
        token = next(answer, None)
        said[name] += [] if token is None else [token]
        text, over = visible(model.tokenizer.decode(said[name]), ("。",))
        if over or token is None:
            done[name] = text
for name in sorted(done):
    print(name, done[name])

# %% [markdown] lang="en"
# None. A request's text depends on its prompt, its seed and its id. That is a promise which chapter 9 has to keep for
# batches, too.

# %% [markdown] lang="zh"
# 一首也不变。请求的文本只取决于它的提示词、种子和 id。到了批处理里，这个承诺还得算数：那是第 9 章的事。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **transformers 5.17.0** pairs components half a head apart (`rotate_half`), repeats KV heads side by side
#   (`repeat_kv`, "the equivalent of torch.repeat_interleave"), takes the softmax in float32, and has your decoder's
#   numbers: TODO 3's check compares with it. Its top-p sorts upwards and removes what sums to at most 1 − p: the same
#   rule from the other end. *(Read in the installed package.)*
# - **vLLM, commit `e372329`**, holds back a fixed number of characters while it streams: the length of the longest stop
#   string less one, whether or not they could begin one. Simpler than `visible`, and always that far behind.
#   ([detokenizer.py](https://github.com/vllm-project/vllm/blob/e372329d90d7d12e3957ac21c4097fd9bb79192c/vllm/v1/engine/detokenizer.py))
# - **Where it comes from.** RoPE: Su et al., [arXiv 2104.09864](https://arxiv.org/abs/2104.09864). Grouped queries:
#   Ainslie et al., [arXiv 2305.13245](https://arxiv.org/abs/2305.13245). Top-p, there *nucleus sampling*: Holtzman et al.,
#   [arXiv 1904.09751](https://arxiv.org/abs/1904.09751).

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **transformers 5.17.0** 把相隔半个头的分量配对（`rotate_half`），把每个 KV 头就地重复（`repeat_kv`，注释说它等价于
#   torch.repeat_interleave），softmax 用 float32，算出来的和你的解码器一样：TODO 3 的检查对照的就是它。
#   它的 top-p 从小到大排序，去掉总和不超过 1 − p 的部分：同一条规则，从另一头说起。（读的是安装好的包。）
# - **vLLM，commit `e372329`**，流式输出时扣住固定的字符数：最长的停止串的长度减一，不管这些字符像不像停止串的开头。
#   比 `visible` 简单，但总是落后这么多。
#   （[detokenizer.py](https://github.com/vllm-project/vllm/blob/e372329d90d7d12e3957ac21c4097fd9bb79192c/vllm/v1/engine/detokenizer.py)）
# - **出处。** RoPE：Su 等人，[arXiv 2104.09864](https://arxiv.org/abs/2104.09864)。分组查询：Ainslie 等人，
#   [arXiv 2305.13245](https://arxiv.org/abs/2305.13245)。top-p，原文叫 nucleus sampling：Holtzman 等人，
#   [arXiv 1904.09751](https://arxiv.org/abs/1904.09751)。

# %% [markdown] lang="en"
# ## Summary
#
# - One forward pass serves prefill and decode: what differs is how many new tokens there are, and their positions.
# - RoPE turns queries and keys by their position, so scores depend on distances and keys can be cached once turned.
# - A query at position p sees keys 0 to p. Ask the position, never the row.
# - The cache changes nothing but the time: cached equals uncached, up to the order of additions.
# - Top-p keeps the token that reaches the sum. A distribution comes first, a draw second.
# - On your own machine, too, prefill lies right of the ridge; decode left of it, well below the roof.

# %% [markdown] lang="zh"
# ## 小结
#
# - 预填充和 decode 是同一个前向计算：区别只在新 token 有几个、站在哪里。
# - RoPE 按位置旋转 query 和 key，所以分数只看距离，转好的 key 可以直接存。
# - 位置 p 的 query 看 key 0 到 p。要问位置，不要问行号。
# - cache 除了时间什么都不改变：用与不用结果相等，差的只是加法的次序。
# - top-p 要留下让总和达标的那个 token。先有分布，再去抽样。
# - 在你自己的机器上也一样：预填充在拐点右边；decode 在左边，离屋顶还远。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **How far does it see?** Set all keys before position n − 64 to zero weight in `attention` (a sliding window). How do
#    text and speed change? What could the cache forget?
# 2. **Half the bytes.** Load the model with `load(dtype=torch.bfloat16)`. Measure experiment 4's decode again. Does your
#    processor like bfloat16?
# 3. **Min-p.** Keep tokens with at least a tenth of the largest probability, instead of top-p. Which texts differ most?
# 4. **Where the time goes.** Count the operations of one decode step with `torch.profiler`. How many are yours?
# 5. *(Extension.)* `generate` ends at token ids, `visible` at strings. Put them together into a stream that shows safe text
#    only, half characters included.
#
# To discuss: two servers with the same weights and seed answer differently in 1 of 1,000 tokens. How would you find
# out whether that is a bug?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **能看多远？** 在 `attention` 里把位置 n − 64 之前的 key 全部遮住（滑动窗口）。文本和速度怎么变？cache 可以忘掉什么？
# 2. **字节减半。** 用 `load(dtype=torch.bfloat16)` 载入模型，重做实验 4 的 decode。你的处理器喜欢 bfloat16 吗？
# 3. **min-p。** 不用 top-p，改成保留概率不低于最大值十分之一的 token。哪些文本变化最大？
# 4. **时间去哪儿了。** 用 `torch.profiler` 数一数一步 decode 有多少次运算。其中几次是你写的？
# 5. （扩展）`generate` 给出的是 token id，`visible` 处理的是文本。把两者接成一个流，只显示保险的部分，半个字也要扣住。
#
# 讨论：两台服务器，权重和种子都一样，一千个 token 里却有一个不同。怎样才能知道这是不是 bug？

# %% [markdown] lang="en"
# ## What next
#
# One request at a time, and the roofline has shown what that wastes. In chapter 9 many requests of different lengths
# go through one pass, and their keys lie in chapter 5's blocks.

# %% [markdown] lang="zh"
# ## 接下来
#
# 一次只服务一个请求，浪费了什么，roofline 已经画出来了。第 9 章让许多长短不一的请求走同一次计算，
# 它们的 key 就放在第 5 章的块里。
