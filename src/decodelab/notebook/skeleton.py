"""What `decodelab new-chapter` starts an author with: a small chapter that builds as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from decodelab.errors import DecodeLabError
from decodelab.lang import both

SOURCE = '''\
# %% [markdown] lang="en"
# # Chapter {number} · {name}
#
# What will hurt without it, in numbers.
#
# **Time.** Core: … minutes.
#
# **You need.** …
#
# **You leave with.** …

# %% [markdown] lang="zh"
# # 第 {number} 章 · {name}
#
# 没有它会怎样，用数字说话。
#
# **时间。** 核心部分 … 分钟。
#
# **基础。** …
#
# **收获。** …

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("{chapter}", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## TODO {chapter}.1 · Its title
#
# What is given, what is wanted, units, errors.

# %% [markdown] lang="zh"
# ## TODO {chapter}.1 · 标题
#
# 给了什么，要什么，单位是什么，出错时怎么办。


# %% answer="{chapter}-answer" tags=["export"]
def double(number: int) -> int:
    """en: What it returns.
    zh: 返回什么。
    """
    # TODO {chapter}.1
    # en: One or two lines that stay in the learner's copy.
    # zh: 一两行提示，会留在学习者的版本里。
    return 2 * number
    # END {chapter}.1


# %% check="{chapter}.1" points=2 level="core"
check("{chapter}.1")

# %% [markdown] lang="en" hint="{chapter}.1"
# 1. Where to look.
# 2. What to do.
# 3. Nearly the code.

# %% [markdown] lang="zh" hint="{chapter}.1"
# 1. 往哪里看。
# 2. 该做什么。
# 3. 离代码只差一步。

# %% [markdown] lang="en" explain="{chapter}.1"
# Why it is so.

# %% [markdown] lang="zh" explain="{chapter}.1"
# 为什么这样写。
'''

CHECKS = '''\
"""Chapter {number}'s rules and visible cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.rules import Case, Finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_double(student: Student, case: Case) -> Finding | None:
    """Twice the number."""
    got = student.call("double", case["number"])
    if got == 2 * case["number"]:
        return None
    return Finding("doubles", both(en=f"Expected …, got {{got!r}}.", zh=f"应当是 …，你的结果是 {{got!r}}。"))


def shown(case: Case) -> list[str]:
    """A case as the call it makes, for feedback."""
    return [f"double({{case['number']}})"]


VISIBLE: dict[str, list[Case]] = {{"{chapter}.1": [{{"name": "three", "number": 3}}]}}
CHECKS = {{"{chapter}.1": check_double}}
'''

SUITE = '''\
"""Chapter {number}'s hidden side: more cases, and answers that are known to be wrong or right."""

from __future__ import annotations

import random

from decodelab.check.rules import Case
from decodelab.grading.prove import Variant

DIRECTED: dict[str, list[Case]] = {{"{chapter}.1": [{{"name": "zero", "number": 0}}]}}


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The cases of one student's seed; each is marked ``drawn``."""
    return [{{"name": "drawn", "number": rng.randint(-99, 99), "drawn": True}}]


WRONG = [Variant("squared", {{"{chapter}.1": "return number**2"}}, rule="doubles")]
CORRECT = [Variant("added", {{"{chapter}.1": "return number + number"}})]
'''

FILES = {
    "solutions/{chapter}_{name}.py": SOURCE,
    "src/decodelab/check/{chapter}.py": CHECKS,
    "grader/suites/{chapter}.py": SUITE,
}


def new_chapter(root: Path, chapter: str, name: str) -> list[Path]:
    """Write a chapter's three files below ``root`` and return their paths; never over one that exists."""
    if not re.fullmatch(r"ch\d\d", chapter) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise DecodeLabError(
            both(
                en=f"Name it like `new-chapter ch02 cost_and_metrics`, not {chapter!r} {name!r}.",
                zh=f"请写成 `new-chapter ch02 cost_and_metrics` 这样，而不是 {chapter!r} {name!r}。",
            )
        )
    words = {"chapter": chapter, "name": name, "number": int(chapter[2:])}
    files = {root / path.format(**words): text.format(**words) for path, text in FILES.items()}
    taken = [*(p for p in files if p.exists()), *(root / "solutions").glob(f"{chapter}_*.py")]
    if taken:
        raise DecodeLabError(
            both(en=f"{taken[0]} is there already.", zh=f"{taken[0]} 已经存在，请换一个编号。")
        )
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)
