"""TODO 1: where a token stands, turned into its queries and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.common import WATCH, close, drawn, misfit, row, watched, worst
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

SLIPS: dict[str, Text] = {
    "by-position": both(
        en="row i was turned by i, not by positions[i]", zh="第 i 行转的是 i，而不是 positions[i]"
    ),
    "halves": both(
        en="neighbouring components were paired; component i goes with i + head_dim / 2",
        zh="你把相邻的两个分量配成一对；应当是分量 i 和 i + head_dim / 2",
    ),
    "direction": both(en="it was turned the other way round", zh="转的方向反了"),
    "frequencies": both(
        en="pair i turns by position × theta ** (−i / half), half being head_dim / 2",
        zh="第 i 对转的角度是 position × theta ** (−i / half)，half 是 head_dim / 2",
    ),
    "angles-in-float32": both(
        en="angles are float32 or better, whatever the type of x", zh="不管 x 是什么类型，角度至少用 float32"
    ),
    "turns": both(en="each pair is turned by its angle", zh="每一对都要按自己的角度转"),
}


def check_rope(student: Student, case: Case) -> Finding | None:
    """One call, against the oracle; a wrong answer is compared with what known slips give."""
    positions, theta, dtype = case["positions"], case["theta"], case.get("dtype", "float32")
    if not positions:
        return None
    x = drawn(case["seed"], len(positions), case["heads"], case["head_dim"]).astype(dtype)
    call = f"rope(x, {positions}, {theta:g})"
    watch = student.apart(WATCH, "rope")
    got, changed = watched(watch.call("_named", "rope", x, np.array(positions), theta), "x positions", call)
    if wrong := misfit(got, x.shape, call, dtype) or changed:
        return wrong
    want = oracle.rope(x.astype(float), positions, theta)
    if close(got.numbers, want):
        return None
    i, head, _ = at = worst(got.numbers, want)
    rule = slip(got.numbers, x.astype(float), positions, theta)
    rule = "angles-in-float32" if rule == "turns" and dtype != "float32" else rule
    return finding(
        rule,
        f"{call}: {SLIPS[rule]['en']}. Row {i}, head {head} must be {row(want[at[:2]])}, not {row(got.numbers[at[:2]])}.",
        f"{call}：{SLIPS[rule]['zh']}。第 {i} 行、第 {head} 个头应当是 {row(want[at[:2]])}，而不是 {row(got.numbers[at[:2]])}。",
        hint={"turns": 1, "direction": 0, "frequencies": 0, "angles-in-float32": 0}.get(rule, 2),
        call=call,
    )


def slip(got: np.ndarray, x: np.ndarray, positions: list[int], theta: float) -> str:
    """The rule that an answer breaks, by what it equals."""
    pairs = np.arange(x.shape[-1]).reshape(-1, 2).T.ravel()  # neighbours, moved half a head apart
    neighbours = np.empty(x.shape)
    neighbours[..., pairs] = oracle.rope(x[..., pairs], positions, theta)
    slips = {
        "by-position": oracle.rope(x, range(len(positions)), theta),
        "halves": neighbours,
        "direction": oracle.rope(x, [-p for p in positions], theta),
        "frequencies": oracle.rope(x, positions, theta**0.5),
    }
    return next((rule for rule, numbers in slips.items() if close(got, numbers)), "turns")
