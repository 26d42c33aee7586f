"""TODO 3 and 4: attention over keys and values that lie scattered in a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decodelab.check.ch08 import attend, oracle
from decodelab.check.ch08.common import TOLERANCE, WATCH, close, drawn, misfit, row, watched, worst
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

SLIPS: dict[str, Text] = attend.SLIPS | {
    "only-its-own": both(
        en="the slots of others and free ones are not read (they hold NaN here; a weight of 0 does not help, 0 × NaN is NaN)",
        zh="别人的槽位和空闲的槽位都不能读（这里放的是 NaN；权重为 0 也没用，0 × NaN 还是 NaN）",
    ),
    "in-the-order-of-tokens": both(
        en="key j is the one in slots[j]: the order of the request's tokens, not of the pool",
        zh="第 j 个 key 是 slots[j] 里的那个：按请求的 token 排，不按池里的次序排",
    ),
    "hides-what-fills-up": both(
        en="what fills up a shorter request's slots counts for nothing: it has seq_lens keys",
        zh="给较短的请求补齐用的槽位一个也不算：它只有 seq_lens 个 key",
    ),
    "its-own-length": both(
        en="a request has seq_lens keys, its newest token's among them",
        zh="一个请求有 seq_lens 个 key，最新那个 token 的也在内",
    ),
    "its-own-request": both(en="row i reads the slots of request i", zh="第 i 行读的是第 i 个请求的槽位"),
}


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
    return drawn(case["seed"] + 9, count, case["heads"], case["head_dim"]).astype(case["dtype"])


def asked(
    student: Student, call: str, name: str, names: str, *args: np.ndarray
) -> tuple[np.ndarray, Finding | None]:
    """One call: its numbers, and what there is to say of it before anybody looks at them."""
    student.load("check", WATCH)
    q = args[0]
    got, touched = watched(student.call("_named", name, *args), names, call)
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
    k, v, order = keys[slots], values[slots], np.sort(slots)
    want = oracle.attention(q, k, v, positions)
    if near(got, want, case):
        return None
    rule = attend.slip(got, q, k, v, positions)
    if np.isnan(got).any() and rule != "sees-itself":
        rule = "only-its-own"
    elif close(got, oracle.attention(q, keys[order], values[order], positions)):
        rule = "in-the-order-of-tokens"
    return told(call, got, want, rule)


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
    return told(call, got, want, slip(got, q, keys, values, filled, lens))


def each(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, slots: np.ndarray, lens: list[int]
) -> np.ndarray:
    """Each row by itself over the first so many of its slots."""
    rows = [
        oracle.attention(q[[i]], keys[own[:n]], values[own[:n]], [n - 1])
        for i, (own, n) in enumerate(zip(slots, lens, strict=True))
    ]
    return np.concatenate(rows)


def slip(
    got: np.ndarray, q: np.ndarray, keys: np.ndarray, values: np.ndarray, slots: np.ndarray, lens: list[int]
) -> str:
    """The rule that an answer breaks, by what it equals."""
    longest, turns = [slots.shape[1]] * len(lens), [h % keys.shape[1] for h in range(q.shape[1])]
    slips = {
        "hides-what-fills-up": (q, keys, values, slots, longest),
        "its-own-length": (q, keys, values, slots, [max(n - 1, 1) for n in lens]),
        "groups": (q, keys[:, turns], values[:, turns], slots, lens),
        "scaled": (q * q.shape[2] ** 0.5, keys, values, slots, lens),
        "its-own-request": (q, keys, values, slots[[0] * len(lens)], [lens[0]] * len(lens)),
    }
    if np.isnan(got).any():
        return "only-its-own"
    one_more = (q, keys, values, slots, [min(n + 1, slots.shape[1]) for n in lens])
    if close(got, each(*one_more)):
        return "hides-what-fills-up"
    return next((rule for rule, question in slips.items() if close(got, each(*question))), "attends")


def told(call: str, got: np.ndarray, want: np.ndarray, rule: str) -> Finding:
    """What is wrong, with the row that is furthest off."""
    i, head, _ = at = worst(got, want)
    return finding(
        rule,
        f"{call}: {SLIPS[rule]['en']}. Row {i}, head {head} must be {row(want[at[:2]])}, not {row(got[at[:2]])}.",
        f"{call}：{SLIPS[rule]['zh']}。第 {i} 行、第 {head} 个头应当是 {row(want[at[:2]])}，而不是 {row(got[at[:2]])}。",
        hint={"attends": 1, "over-the-keys": 1, "scaled": 0, "sees-itself": 0, "only-its-own": 1}.get(
            rule, 2
        ),
        call=call,
    )
