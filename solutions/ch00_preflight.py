# %% [markdown] lang="en"
# # Chapter 0 · Preflight
#
# Behind every chat window a server decides, dozens of times a second, whose text grows by one token next.
# In this course you build that server's scheduler yourself. This page gets you ready: you learn four words,
# look over your machine, and have your first code checked.
#
# **Time.** 20 minutes.
#
# **You need.** Functions and lists in Python. No GPU, no PyTorch.
#
# **You leave with.** A machine that is ready, and one function that later chapters use.

# %% [markdown] lang="zh"
# # 第 0 章 · 行前检查
#
# 每个聊天窗口背后都有一台服务器，每秒要做几十次决定：接下来，轮到谁的文字长出一个 token？
# 这门课里，你要亲手写出这台服务器的调度器。本章先做准备：认识四个词，检查一遍你的机器，
# 再让你写的代码第一次接受检查。
#
# **时间。** 20 分钟。
#
# **基础。** 会写 Python 的函数，会用列表。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 一台准备就绪的机器，以及一个后面章节会用到的函数。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# If one of them makes you hesitate, its link takes five minutes.
#
# 1. `def area(width, height): ...` What does `area(height=2, width=3)` hand over as `width`?
#    ([keyword arguments](https://docs.python.org/3/tutorial/controlflow.html#keyword-arguments))
# 2. Is `(0, 5) < (1, 0)` true? Chapter 1 rests on this comparison.
#    ([comparing sequences](https://docs.python.org/3/tutorial/datastructures.html#comparing-sequences-and-other-types))
# 3. What does `@dataclass` write for you?
#    ([dataclasses](https://docs.python.org/3/library/dataclasses.html))

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 哪一题拿不准，就点开后面的链接看五分钟。
#
# 1. `def area(width, height): ...`，调用 `area(height=2, width=3)` 时，`width` 拿到的是几？
#    （[关键字参数](https://docs.python.org/zh-cn/3/tutorial/controlflow.html#keyword-arguments)）
# 2. `(0, 5) < (1, 0)` 成立吗？第 1 章就建立在这种比较之上。
#    （[序列的比较](https://docs.python.org/zh-cn/3/tutorial/datastructures.html#comparing-sequences-and-other-types)）
# 3. `@dataclass` 会替你写好什么？
#    （[dataclasses](https://docs.python.org/zh-cn/3/library/dataclasses.html)）

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch00", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## Is this machine ready?
#
# Run the next cell (Shift+Enter). `✓` means ready. `!` means that you can start, and says where it will
# matter. `✗` must be put right first; the row says how.

# %% [markdown] lang="zh"
# ## 这台机器准备好了吗？
#
# 运行下一个单元格（Shift+Enter）。`✓` 表示正常；`!` 表示可以开始，并说明在哪里会有影响；
# `✗` 必须先解决，那一行会告诉你怎么做。

# %%
from decodelab.preflight import card

card()

# %% [markdown] lang="en"
# ## Ten minutes: how a language model answers
#
# **Token.** A model does not read letters. Text is first cut into *tokens*: a word, a piece of a word, a comma.
# Each is a number from a fixed list; the small model that you meet in chapter 8 knows 49,152 of them. The model
# itself does one thing only: given the tokens so far, it scores every token of the list as the next one. We pick
# one, append it, and ask again. An answer of 200 tokens takes 200 rounds.
#
# **Prefill.** In the first round the model works through the whole prompt, all its tokens at once. That is a lot
# of arithmetic, and a GPU is good at it. Out comes the first new token.
#
# **Decode.** Every later round takes in one token only, the newest. That is very little arithmetic, and yet all
# the model's weights must be fetched from memory for it. Prefill is usually limited by how fast the chip
# *computes*, decode by how fast it *reads*. Chapter 2 puts numbers on both.
#
# **KV cache.** Each token looks back at all tokens before it. For this it needs two vectors of each of them in
# every layer (two per *KV head*, as you will see), a *key* and a *value*. They never change once they are
# computed, because no token looks ahead.
# So the server keeps them: that is the KV cache. It spares the model from going through the whole text again in
# every round. Its price is memory, and the bill grows with every token until the request is finished.
#
# The next cell draws the four words in one figure.

# %% [markdown] lang="zh"
# ## 十分钟：语言模型是怎么作答的
#
# **Token。** 模型读的不是文字。文本先被切成一个个 *token*：可能是一个词、半个词，也可能是一个逗号。
# 每个 token 是固定词表里的一个编号；第 8 章里的那个小模型，词表有 49,152 项。模型本身只做一件事：
# 根据已有的 token，给词表里的每一项打分，看谁最适合接在后面。我们选出一个，接上去，再问下一轮。
# 200 个 token 的回答，就要问 200 轮。
#
# **预填充（prefill）。** 第一轮，模型一次读完整个提示词（prompt），所有 token 同时计算。计算量很大，而这正是 GPU 擅长的事。
# 算完就得到第一个新 token。
#
# **解码（decode）。** 之后每一轮只输入一个 token，也就是最新的那个。计算量很小，可是模型的全部权重都要为它从显存里读一遍。
# 所以 prefill 通常受限于芯片**算**得多快，decode 则受限于它**读**得多快。第 2 章会用数字说明这两点。
#
# **KV cache。** 每个 token 都要回看它前面的所有 token，为此，每一层都要用到前面每个 token 的两个向量
# （准确地说，每个 KV 头各两个）：*key* 和 *value*。因为每个 token 只回看前面的，这两个向量一旦算好就不再变化。服务器于是把它们存起来，这就是 KV cache。
# 有了它，就不必每一轮都把整段文本重算一遍。代价是显存：请求结束之前，每多一个 token，占用就多一份。
#
# 下一个单元格把这四个词画在一张图里。

# %%
import matplotlib.pyplot as plt

prompt_len, steps = 4, 4
figure, ax = plt.subplots(figsize=(5.6, 2.4), layout="constrained")
for step in range(1, steps + 1):
    # en: tokens that the model has seen when this step ends
    # zh: 这一步结束时，模型看过的 token 数
    known = prompt_len + step - 1
    fresh = range(1, known + 1) if step == 1 else [known]
    for position in range(1, known + 1):
        colour, hatch = ("#E69F00", "////") if position in fresh else ("#56B4E9", "")
        ax.barh(step, 0.9, left=position - 0.45, color=colour, hatch=hatch, edgecolor="white")
    ax.plot(known + 1, step, "o", markersize=11, markerfacecolor="none", markeredgecolor="#333333")
ax.set_xticks(range(1, prompt_len + steps + 1))
ax.set_yticks(range(1, steps + 1))
ax.invert_yaxis()
ax.set(xlabel="token position", ylabel="step")
ax.spines[:].set_visible(False)
plt.show()

# %% [markdown] lang="en"
# *A request with a prompt of four tokens. One row a step, one column a token position. Orange, hatched: keys and
# values computed in this step and put into the KV cache. Blue: read from the KV cache. Ring: the new token that
# the step gives out, the input of the next one. Row 1 is the prefill, four positions at once; rows 2 to 4 are
# decode steps, one position each, and what they read grows by one token a step.*

# %% [markdown] lang="zh"
# 图：一个提示词为四个 token 的请求。一行是一步，一列是一个 token 位置。橙色斜纹：这一步算出 key 和 value，并存入 KV cache；
# 蓝色：从 KV cache 读出；圆圈：这一步产生的新 token，也是下一步的输入。第 1 行是 prefill，四个位置一起算；
# 第 2 到 4 行是 decode，每步只算一个位置，要读的内容则每步多一个 token。

# %% [markdown] lang="en"
# ## How a TODO works
#
# - Replace the line `raise TodoError(...)` with your own code and run the cell. Then run the check below it, as often
#   as you like.
# - A check runs your code in a process of its own, for at most 10 seconds. An endless loop does no harm, and
#   nothing in this notebook changes.
# - Stuck? `hint("ch00.1")` gives a nudge, `hint("ch00.1", 2)` and `hint("ch00.1", 3)` go further. Once you
#   have tried, `solution("ch00.1")` shows one way to write it, and why.
# - What passes is saved, and later chapters build on *your* code. `progress()` shows how far you are.

# %% [markdown] lang="zh"
# ## TODO 怎么做
#
# - 把 `raise TodoError(...)` 那一行换成你的代码，运行该单元格，再运行下面的检查。想检查几次都行。
# - 检查会在单独的进程里运行你的代码，最多 10 秒。写出死循环也不要紧，notebook 里的东西不会有任何变化。
# - 卡住了？`hint("ch00.1")` 先给一点提示，`hint("ch00.1", 2)` 和 `hint("ch00.1", 3)` 逐步深入。
#   自己试过之后，再用 `solution("ch00.1")` 看一种写法，以及为什么这样写。
# - 通过的代码会保存下来，后面的章节就建立在**你自己的**代码之上。`progress()` 显示你走到了哪里。

# %% [markdown] lang="en"
# ## TODO ch00.1 · The size of a KV cache
#
# A token keeps one key and one value for every *KV head* of every layer. Each of these vectors has `head_dim`
# numbers, and a number takes `bytes_per_value` bytes (2 in bfloat16 or float16). How many bytes do `num_tokens`
# tokens take?

# %% [markdown] lang="zh"
# ## TODO ch00.1 · KV cache 的大小
#
# 在每一层，一个 token 为每个 **KV 头**各存一个 key 和一个 value。每个向量有 `head_dim` 个数，
# 每个数占 `bytes_per_value` 字节（bfloat16 和 float16 都是 2）。那么 `num_tokens` 个 token 一共占多少字节？


# %% answer="ch00-answer" tags=["export"]
def kv_cache_bytes(
    num_tokens: int, num_layers: int, num_kv_heads: int, head_dim: int, bytes_per_value: int
) -> int:
    """en: Bytes of KV cache that this many tokens take in a model of this shape.
    zh: 在这种形状的模型里，这么多 token 的 KV cache 占多少字节。
    """
    # TODO ch00.1
    # en: Count the vectors of one token first, then their numbers, then bytes, then all tokens.
    # zh: 先数一个 token 有几个向量，再数其中有多少个数，再换成字节，最后乘上 token 数。
    return 2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value
    # END ch00.1


# %% check="ch00.1" points=2 level="core"
check("ch00.1")

# %% [markdown] lang="en" hint="ch00.1"
# 1. Everything is multiplied: tokens, layers, heads, numbers in a vector, bytes of a number.
# 2. Five arguments make five factors. There is a sixth: what does a token keep besides its key?
# 3. `2 * num_tokens * num_layers * ...`: the 2 stands for key and value. Multiply by the three arguments that are left.

# %% [markdown] lang="zh" hint="ch00.1"
# 1. 全都是乘法：token 数、层数、头数、一个向量里有几个数、一个数占几个字节。
# 2. 五个参数是五个因子，但还有第六个：除了 key，每个 token 还存了什么？
# 3. `2 * num_tokens * num_layers * ...` 里的 2 代表 key 和 value，再乘上剩下的三个参数。

# %% [markdown] lang="en" explain="ch00.1"
# The 2 is for key *and* value. It has nothing to do with the 2 bytes of a bfloat16, which is the last factor.
# The head that counts is the *KV* head: many models let several query heads share one (grouped-query attention),
# just to make this product smaller. Nothing here depends on what the tokens say: the size of a cache is known
# before the model runs, and that is what lets a scheduler plan with it.

# %% [markdown] lang="zh" explain="ch00.1"
# 开头的 2 代表 key **和** value，与 bfloat16 的 2 字节无关，后者是最后一个因子。
# 这里算的是 **KV** 头：许多模型让几个 query 头共用一个 KV 头（分组查询注意力，GQA），正是为了让这个乘积变小。
# 结果与 token 的内容毫无关系：模型还没运行，cache 的大小就已经知道了，调度器因此可以拿它来做计划。

# %% [markdown] lang="en"
# ## Try it: what a request costs
#
# Two real models, with the numbers from their published `config.json`
# ([SmolLM2-135M](https://huggingface.co/HuggingFaceTB/SmolLM2-135M/blob/main/config.json),
# [Llama-3.1-8B](https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json)).

# %% [markdown] lang="zh"
# ## 试一试：一个请求要占多少？
#
# 两个真实的模型，数字来自它们公开的 `config.json`（
# [SmolLM2-135M](https://huggingface.co/HuggingFaceTB/SmolLM2-135M/blob/main/config.json)、
# [Llama-3.1-8B](https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json)）。

# %%
MODELS = {
    "SmolLM2-135M": {"num_layers": 30, "num_kv_heads": 3, "head_dim": 64, "bytes_per_value": 2},
    "Llama-3.1-8B": {"num_layers": 32, "num_kv_heads": 8, "head_dim": 128, "bytes_per_value": 2},
}
for model, shape in MODELS.items():
    one, long = (kv_cache_bytes(num_tokens, **shape) for num_tokens in (1, 8_000))
    print(
        tr(
            en=f"{model}: {one / 2**10:.1f} KiB a token, {long / 2**20:.0f} MiB for a request of 8,000 tokens",
            zh=f"{model}：每个 token {one / 2**10:.1f} KiB，一个 8,000 token 的请求共 {long / 2**20:.0f} MiB",
        )
    )

# %% [markdown] lang="en"
# Look at the second line. The 8 billion weights of that model take about 15 GiB in bfloat16. On a GPU with 24 GiB
# some 9 GiB are left: room for nine such requests; a tenth does not fit. Who gets that room, and for how long, is
# what a scheduler decides.

# %% [markdown] lang="zh"
# 看第二行。那个模型有 80 亿个权重，用 bfloat16 存放约占 15 GiB。在 24 GiB 的 GPU 上只剩下 9 GiB 左右，
# 放得下九个这样的请求，第十个就放不下了。这块地方给谁用、用多久，就由调度器来决定。

# %% [markdown] lang="en"
# ## In real systems
#
# A server does not ask for this memory request by request. It sets aside a fixed share of the GPU when it starts
# and divides it itself. Each system has a knob for the share; names and defaults change, so here is what was read,
# and where, on 2026-11-29.
#
# | system | the knob | a share of |
# |---|---|---|
# | vLLM, [commit `c1d8642`](https://github.com/vllm-project/vllm/blob/c1d86421174a87056edc90a41dc9942391509e84/vllm/config/cache.py) | `gpu_memory_utilization` | all the memory: weights, KV cache and the rest |
# | SGLang, [commit `004813e`](https://github.com/sgl-project/sglang/blob/004813e1dd464844bd92ddbca5cab8c024a75f78/docs/advanced_features/server_arguments.md) | `--mem-fraction-static` | all the memory: weights and KV cache |
# | TensorRT-LLM, [1.4.0rc4](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/KvCacheConfig.html) | `free_gpu_memory_fraction` | what the weights leave free: KV cache alone |
#
# In chapter 5 you write the part that divides it.

# %% [markdown] lang="zh"
# ## 真实系统里
#
# 服务器并不会为每个请求单独申请显存，而是启动时就划出固定的一块，然后自己分配。
# 这一块有多大，各家都有一个参数来定。名字和默认值会变，下表是 2026-11-29 从所列出处查到的。
#
# | 系统 | 参数 | 占什么的比例 |
# |---|---|---|
# | vLLM，[commit `c1d8642`](https://github.com/vllm-project/vllm/blob/c1d86421174a87056edc90a41dc9942391509e84/vllm/config/cache.py) | `gpu_memory_utilization` | 全部显存：权重、KV cache 和其余开销 |
# | SGLang，[commit `004813e`](https://github.com/sgl-project/sglang/blob/004813e1dd464844bd92ddbca5cab8c024a75f78/docs/advanced_features/server_arguments.md) | `--mem-fraction-static` | 全部显存：权重和 KV cache |
# | TensorRT-LLM，[1.4.0rc4](https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/KvCacheConfig.html) | `free_gpu_memory_fraction` | 放下权重之后剩下的显存：只给 KV cache |
#
# 负责分配的那部分代码，第 5 章由你来写。

# %% [markdown] lang="en"
# ## Summary
#
# - Text is tokens, and an answer grows by one token a round.
# - Prefill computes the whole prompt at once; decode takes one token a step and reads much more than it computes.
# - The KV cache keeps each token's keys and values: `2 · layers · KV heads · head_dim · bytes` for every token.

# %% [markdown] lang="zh"
# ## 小结
#
# - 文本由 token 组成，回答每一轮增加一个 token。
# - prefill 一次算完整个提示词；decode 每步只算一个 token，读的远比算的多。
# - KV cache 保存每个 token 的 key 和 value：每个 token 占 `2 · 层数 · KV 头数 · head_dim · 字节数`。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. Store keys and values in 8-bit integers instead of bfloat16. Which argument changes, and how many requests of
#    8,000 tokens fit into the 9 GiB now? (Chapter 13 asks what that costs in quality.)
# 2. Llama-3.1-8B has 32 query heads that share 8 KV heads. How large would a token be if they did not share?
# 3. A decode step must read all the weights once. At how many tokens does Llama-3.1-8B read as many bytes of KV
#    cache as of weights?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. 如果 key 和 value 不用 bfloat16，而用 8 位整数存放，哪个参数会变？那 9 GiB 现在放得下几个 8,000 token 的请求？
#    （第 13 章会问：这样做要损失多少质量。）
# 2. Llama-3.1-8B 有 32 个 query 头，共用 8 个 KV 头。如果不共用，一个 token 会占多大？
# 3. decode 每一步都要把全部权重读一遍。对 Llama-3.1-8B 来说，要有多少个 token，读 KV cache 的字节数才会和读权重的一样多？

# %% [markdown] lang="en"
# ## What is next
#
# You have met the words; now the queue. In [chapter 1](./ch01_decode_scheduler.ipynb) three requests arrive at once,
# one server is free, and you decide who goes first.

# %% [markdown] lang="zh"
# ## 接下来
#
# 词认识了，接下来是排队。[第 1 章](./ch01_decode_scheduler.ipynb)里，三个请求同时到来，只有一台服务器空闲，
# 谁先谁后，由你决定。
