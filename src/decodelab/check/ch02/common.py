"""How chapter 2's checks reach an answer, and how they compare seconds."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from decodelab.check.ch02 import toy
from decodelab.check.rules import Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

TOLERANCE = 1e-9  # relative

# Goes over as source: a sandbox does not show check/.
PROBE = f"""{inspect.getsource(toy)}

def probed(function, names, arguments):
    return globals()[function](*(globals()[name] for name in names), *arguments)
"""


def probe(student: Student, function: str, names: list[str], *arguments: Any) -> Any:
    """Call a function of ``toy`` over there with the answer's objects called ``names``, then ``arguments``."""
    return student.apart(PROBE, *names).call("probed", function, names, list(arguments))


def number(value: Any) -> bool:
    """Whether a value is a number, not NaN; a bool is none."""
    return type(value) in (int, float) and not math.isnan(value)


def same(got: Any, want: float | None) -> bool:
    """Whether two numbers of seconds are the same, but for rounding; None is only None."""
    if want is None or not number(got):
        return got is None and want is None
    return math.isclose(got, want, rel_tol=TOLERANCE, abs_tol=1e-15)


def unreadable(what: str, value: Any) -> Finding:
    """An answer that is no answer: what came has not the form that it needs."""
    return finding(
        "right-form",
        f"{what} did not give what a check can read; it gave {value!r:.200}.",
        f"{what} 给出的东西检查读不懂：{value!r:.200}。",
        hint=0,
    )
