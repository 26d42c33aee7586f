"""TODO 6: the smallest compute-bound batch, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from decodelab.check.ch02.common import probe
from decodelab.check.ch02.cost import seconds
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

NEAR = Fraction(1, 10**9)  # two times that differ by less count as equal, either way


def lead(case: Case, batch: int) -> Fraction:
    """By which share the arithmetic of a decode step of this batch is longer than its traffic; negative: shorter."""
    arithmetic, traffic = two_times(case, batch)
    return (arithmetic - traffic) / traffic


def smallest(case: Case) -> int | None:
    """The batch from which on decode is compute-bound, by doubling and halving; None where there is none."""
    (one, its_traffic), (two, their_traffic) = (two_times(case, n) for n in (1, 2))
    if two - one <= their_traffic - its_traffic:
        return None
    low, high = 0, 1
    while lead(case, high) < 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if lead(case, middle) < 0 else (low, middle)
    return high


def two_times(case: Case, batch: int) -> tuple[Fraction, Fraction]:
    """Arithmetic and traffic of a decode step, by the roofline or by the two ``lines`` of the case."""
    step = [batch, batch * case["context"], batch * case["context"]]
    if "lines" not in case:
        return seconds(case["model"], case["gpu"], step)
    arithmetic, traffic = (
        sum((Fraction(price) * count for price, count in zip(line, [1, *step], strict=True)), Fraction(0))
        for line in case["lines"]
    )
    return arithmetic, traffic


def check_turn(student: Student, case: Case) -> Finding | None:
    """The turning point of one model, GPU and context."""
    if "lines" in case:
        got = probe(student, "turn_of_lines", ["turning_point"], *case["lines"], case["context"])
        roofline = f"an object with times alone: {' and '.join(map(str, case['lines']))}"
    else:
        got = probe(
            student, "turn", ["turning_point", "Roofline"], case["model"], case["gpu"], case["context"]
        )
        roofline = f"{case['model']['name']}, {case['gpu']['name']}"
    want = smallest(case)
    typed = f"turning_point({roofline}, context={case['context']})"
    if want is None or got is None:
        if got is want:
            return None
        return finding(
            "never",
            f"{typed} must be {want}; yours gave {got!r:.50}. There is no such batch exactly if one more request "
            "adds at least as much traffic as arithmetic.",
            f"{typed} 应当是 {want}，你的结果是 {got!r:.50}。当且仅当多一个请求时访存涨的不比计算少，才没有这样的批大小。",
            hint=2,
        )
    if type(got) is not int or got < 1:
        return finding(
            "a-whole-batch",
            f"{typed} must be a whole number of requests, at least 1; yours gave {got!r:.50}.",
            f"{typed} 应当是至少为 1 的整数；你的结果是 {got!r:.50}。",
        )
    if lead(case, got) >= -NEAR and (got == 1 or lead(case, got - 1) <= NEAR):
        return None
    return finding(
        "smallest-compute-bound",
        f"{typed} must be {want}: the smallest batch whose arithmetic takes at least as long as its traffic; yours gave {got}.",
        f"{typed} 应当是 {want}，即计算不短于访存的最小批大小；你的结果是 {got}。",
        hint=2,
    )
