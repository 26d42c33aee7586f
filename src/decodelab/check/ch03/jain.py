"""TODO 6: Jain's index, within a relative 1e-9 of the definition worked out in fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items

if TYPE_CHECKING:
    from decodelab.grading.student import Student


# The answer, and whether the caller's list is as it was.
ASK = """
def asked(values):
    given = list(values)
    return jain(given), given == values
"""


def index(values: list[float]) -> float:
    """The definition, exactly; 1 where there is nothing to share."""
    exact = [Fraction(v) for v in values]
    squares = len(exact) * sum(v * v for v in exact)
    return float(sum(exact) ** 2 / squares) if squares else 1.0


def check_jain(student: Student, case: Case) -> Finding | None:
    """One list of shares."""
    values, want = case["values"], index(case["values"])
    got, kept = items(student.apart(ASK, "jain").call("asked", values), 2)
    if isinstance(got, int | float) and not isinstance(got, bool) and math.isclose(got, want, rel_tol=1e-9):
        return None if kept is True else changed(values)
    if got is None:
        return finding(
            "returns-a-number",
            "jain returned None: is there a `return`?",
            "jain 返回了 None：是不是少了 `return`？",
            hint=0,
        )
    return finding(
        case["rule"],
        f"jain({values}) must be {want:.6g}; yours gave {got!r}. {case['text']['en']}",
        f"jain({values}) 应当是 {want:.6g}，你的结果是 {got!r}。{case['text']['zh']}",
        hint=2,
    )


def changed(values: list[float]) -> Finding:
    """The finding where the caller's list is another one afterwards."""
    return finding(
        "changes-nothing",
        f"jain({values}) changed the caller's list; it only looks at it.",
        f"jain({values}) 改动了调用者的列表；它只能看，不能改。",
    )
