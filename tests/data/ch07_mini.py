# %% [markdown] lang="en"
# # Chapter 7 · Mini
#
# What you build, in one sentence.

# %% [markdown] lang="zh"
# # 第 7 章 · 小章
#
# 用一句话说清这一章要写出什么。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch07", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## TODO ch07.1 · Double a number
#
# `double(x)` returns twice `x`.

# %% [markdown] lang="zh"
# ## TODO ch07.1 · 翻倍
#
# `double(x)` 返回 `x` 的两倍。

# %% [markdown] lang="en" hint="ch07.1"
# 1. What is `double(3)`?
#    And `double(0)`?
# 2. One operator is enough.
# 3. `return 2 * x`

# %% [markdown] lang="zh" hint="ch07.1"
# 1. `double(3)` 应该等于多少？
# 2. 一个运算符就够了。
# 3. `return 2 * x`

# %% [markdown] lang="en" explain="ch07.1"
# Twice a number is the number added to itself.

# %% [markdown] lang="zh" explain="ch07.1"
# 一个数的两倍，就是它加上它自己。


# %% answer="ch07-answer" tags=["export"]
def double(x: int) -> int:
    """en: Twice ``x``.
    zh: ``x`` 的两倍。
    """
    # TODO ch07.1
    # en: One line.
    # zh: 一行。
    return 2 * x
    # END ch07.1


# %% check="ch07.1" points=1 level="core"
check("ch07.1")

# %% tags=["export"]
LIMIT = 3
