"""TODO 3 and 4: attention over keys and values that lie scattered in a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.common import TOLERANCE, WATCH, close, drawn, misfit, row, watched, worst
from decodelab.check.ch09.slips import HINTS, SLIPS, chunk_slip, decode_slip, each
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def pool_of(case: Case, lens: list[int]) -> tuple[list[list[int]], np.ndarray, np.ndarray]:
    """Slots for each of so many tokens, scattered by the seed over a pool that holds NaN everywhere else."""
    rng, size = np.random.RandomState(case["seed"]), sum(lens) + case.get("spare", 3)
    where = rng.permutation(size)[: sum(lens)]
    pools = np.full((2, size, case["kv_heads"], case["head_dim"]), np.nan, case["dtype"])
    pools[:, where] = drawn(case["seed"], 2, sum(lens), case["kv_heads"], case["head_dim"])
    ends = np.cumsum(lens)
    return [where[end - n : end].tolist() for n, end in zip(lens, ends, strict=True)], *pools


def queries(case: Case, count: int) -> np.ndarray:
    """So many rows of queries."""
    numbers = drawn(case["seed"] + 9, count, case["heads"], case["head_dim"])
    return (numbers * np.float32(case.get("scale", 1))).astype(case["dtype"])


def asked(
    student: Student, call: str, name: str, names: str, *args: np.ndarray
) -> tuple[np.ndarray, Finding | None]:
    """One call: its numbers, and what there is to say of it before anybody looks at them."""
    watch = student.apart(WATCH, name)
    q = args[0]
    got, touched = watched(watch.call("_named", name, *args), names, call)
    wrong = misfit(got, q.shape, call, q.dtype.name) or touched
    return (q, wrong) if wrong else (got.numbers, None)


def near(got: np.ndarray, want: np.ndarray, case: Case) -> bool:
    """Whether all numbers are the same but for the rounding of their type."""
    return close(got, want, TOLERANCE if case["dtype"] == "float32" else 10 * TOLERANCE)


def check_chunk(student: Student, case: Case) -> Finding | None:
    """One request's rows over its own tokens."""
    positions, length = case["positions"], case["length"]
    if not positions or not all(0 <= p < length for p in positions):
        return None
    (slots,), keys, values = pool_of(case, [length])
    q = queries(case, len(positions))
    call = f"chunk_attention(q, keys, values, {slots}, {positions})"
    args = q, keys, values, np.array(slots), np.array(positions)
    got, wrong = asked(student, call, "chunk_attention", "q keys values slots positions", *args)
    if wrong:
        return wrong
    q, keys, values = (x.astype(float) for x in (q, keys, values))
    want = oracle.attention(q, keys[slots], values[slots], positions)
    if near(got, want, case):
        return None
    return told(call, got, want, chunk_slip(got, q, keys, values, slots, positions))


def check_decodes(student: Student, case: Case) -> Finding | None:
    """A row for each request, all in one call."""
    lens = case["lens"]
    if not lens or min(lens) < 1:
        return None
    slots, keys, values = pool_of(case, lens)
    filled = np.array([own + own[-1:] * (max(lens) - len(own)) for own in slots])
    q = queries(case, len(lens))
    call = f"decode_attention(q, keys, values, {filled.tolist()}, {lens})"
    args = q, keys, values, filled, np.array(lens)
    got, wrong = asked(student, call, "decode_attention", "q keys values slots seq_lens", *args)
    if wrong:
        return wrong
    q, keys, values = (x.astype(float) for x in (q, keys, values))
    want = each(q, keys, values, filled, lens)
    if near(got, want, case):
        return None
    return told(call, got, want, decode_slip(got, q, keys, values, filled, lens))


def told(call: str, got: np.ndarray, want: np.ndarray, rule: str) -> Finding:
    """What is wrong, with the row that is furthest off."""
    i, head, _ = at = worst(got, want)
    return finding(
        rule,
        f"{call}: {SLIPS[rule]['en']}. Row {i}, head {head} must be {row(want[at[:2]])}, not {row(got[at[:2]])}.",
        f"{call}：{SLIPS[rule]['zh']}。第 {i} 行、第 {head} 个头应当是 {row(want[at[:2]])}，而不是 {row(got[at[:2]])}。",
        hint=HINTS.get(rule, 2),
        call=call,
    )
