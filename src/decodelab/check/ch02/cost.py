"""TODO 2: the two times of a step, term by term, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from decodelab.check.ch02.common import number, probe, same, unreadable
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.sim.hardware import ModelShape

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def seconds(model: dict[str, Any], gpu: dict[str, Any], step: list[int]) -> tuple[Fraction, Fraction]:
    """Arithmetic and traffic of a step in seconds, summed piece by piece."""
    shape, (new_tokens, kv_tokens, pairs) = ModelShape(**model), step
    multiply_adds = shape.params * new_tokens
    for _ in ("score", "value"):
        multiply_adds += pairs * shape.layers * shape.heads * shape.head_dim
    position = Fraction(shape.bytes_per_kv) * 2 * shape.layers * shape.kv_heads * shape.head_dim
    moved = Fraction(shape.bytes_per_param) * shape.params + position * kv_tokens + position * new_tokens
    return 2 * multiply_adds / Fraction(gpu["flops"]), moved / Fraction(gpu["bandwidth"])


def check_cost(student: Student, case: Case) -> Finding | None:
    """The two times of every step of a case, or the one that the case is about (``of``: 0 arithmetic, 1 traffic)."""
    answers = probe(student, "times", ["Roofline"], case["model"], case["gpu"], case["steps"])
    if not isinstance(answers, list) or len(answers) != len(case["steps"]):
        return unreadable("times", answers)
    for step, answer in zip(case["steps"], answers, strict=True):
        if not isinstance(answer, (list, tuple)) or len(answer) != 2:
            return unreadable("times", answer)
        if broken := two_times(case, step, *answer):
            return broken
    return None


def two_times(case: Case, step: list[int], got: Any, price: Any) -> Finding | None:
    """One step's arithmetic and traffic, and that the longer one is its price."""
    typed = f"times(new_tokens={step[0]}, kv_tokens={step[1]}, pairs={step[2]})"
    if not isinstance(got, tuple) or len(got) != 2 or not all(map(number, got)):
        return finding(
            "returns-two-times",
            f"{typed} must return a tuple of two numbers, (arithmetic, traffic); yours returned {got!r:.200}.",
            f"{typed} 必须返回两个数的元组（计算，访存）；你返回的是 {got!r:.200}。",
            hint=1,
        )
    want = [float(time) for time in seconds(case["model"], case["gpu"], step)]
    for place, (name, zh) in enumerate((("arithmetic", "计算"), ("traffic", "访存"))):
        came, right = got[place], want[place]
        if case["of"] in (place, None) and not same(came, right):
            en, text = case["text"]["en"], case["text"]["zh"]
            swapped = all(map(same, got, reversed(want)))
            return finding(
                case["rule"],
                f"{en} For {typed} the {name} must take {right:.12g} s; yours takes {came:.12g} s."
                + (" The two seem swapped: arithmetic comes first." if swapped else ""),
                f"{text}对 {typed}，{zh}应当用 {right:.12g} 秒，你的是 {came:.12g} 秒。"
                + ("两个数好像放反了：先计算，后访存。" if swapped else ""),
                hint=2,
            )
    if case["of"] is None and not same(price, max(want)):
        return finding(
            "longer-of-the-two",
            f"A step takes the longer of its two times: roofline{tuple(step)} must be {max(want):.12g} s, not {price!r:.50}.",
            f"一步的时间是两者里较长的：roofline{tuple(step)} 应当是 {max(want):.12g} 秒，而不是 {price!r:.50}。",
            hint=0,
        )
    return None
