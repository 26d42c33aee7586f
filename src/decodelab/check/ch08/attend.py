"""TODO 2: attention, causal and with shared KV heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.common import TOLERANCE, WATCH, close, drawn, misfit, row, watched, worst
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

SLIPS: dict[str, Text] = {
    "causal": both(
        en="a query at position p sees keys 0 to p and no later one",
        zh="位置 p 的 query 只看 key 0 到 p，不看更后面的",
    ),
    "by-position": both(
        en="row i of the queries stands at positions[i], not at i: earlier keys may come from the cache",
        zh="第 i 行 query 的位置是 positions[i]，不是 i：前面的 key 可能来自 cache",
    ),
    "sees-itself": both(
        en="a query sees the key at its own position, too", zh="query 也要看自己位置上的 key"
    ),
    "groups": both(
        en="head h uses KV head h // group: heads that share one stand side by side",
        zh="第 h 个头用第 h // group 个 KV 头：共用一个 KV 头的几个头挨在一起",
    ),
    "hidden-first": both(
        en="later keys get the score −infinity before the softmax: a score of 0, or a weight of 0 after it, is something else",
        zh="更后面的 key 要在 softmax 之前填负无穷：分数填 0，或者 softmax 之后再把权重清零，都是另一回事",
    ),
    "over-the-keys": both(
        en="the softmax goes over the keys: the weights of one query add up to 1",
        zh="softmax 在 key 上做：每个 query 的权重加起来是 1",
    ),
    "scaled": both(en="scores are divided by the root of head_dim", zh="分数要除以 head_dim 的平方根"),
    "stays-finite": both(
        en="scores may be large: exp of them overflows, so the largest score of a query is subtracted first, as softmax does",
        zh="分数可能很大，直接取 exp 会溢出：要先减去这个 query 的最大分数，softmax 就是这样做的",
    ),
    "attends": both(
        en="the values, weighted by the softmax of the scores over the keys",
        zh="用分数在 key 上的 softmax 作权重，把 value 加起来",
    ),
}


def tensors(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values of a case."""
    dim, seed = case["head_dim"], case["seed"]
    q = drawn(seed, len(case["positions"]), case["heads"], dim) * np.float32(case.get("scale", 1))
    k, v = (drawn(seed + n, case["keys"], case["kv_heads"], dim) for n in (1, 2))
    return q, k, v


def check_attention(student: Student, case: Case) -> Finding | None:
    """One call against the oracle, and another in which everything after the last query is different."""
    positions = case["positions"]
    if not positions or not all(0 <= p < case["keys"] for p in positions):
        return None
    dtype = case.get("dtype", "float32")
    q, k, v = (x.astype(dtype) for x in tensors(case))
    tolerance = TOLERANCE if dtype == "float32" else 10 * TOLERANCE
    later = max(positions) + 1
    changed = [np.concatenate([x[:later], x[later:] + 9]) for x in (k, v)]
    watch = student.apart(WATCH, "attention")
    reply = watch.later("_named", "attention", q, k, v, np.array(positions))
    probe = student.later("attention", q, *changed, np.array(positions))
    call = f"attention(q, k, v, {positions})"
    got, touched = watched(reply(), "q k v positions", call)
    if wrong := misfit(got, q.shape, call, dtype) or touched:
        return wrong
    want = oracle.attention(q.astype(float), k.astype(float), v.astype(float), positions)
    if not close(got.numbers, want, tolerance):
        rule = slip(got.numbers, q, k, v, positions)
        if "scale" in case and rule == "attends":
            rule = "hidden-first" if np.isfinite(got.numbers).all() else "stays-finite"
        return told(call, got.numbers, want, rule)
    again = probe()
    return misfit(again, q.shape, call, dtype) or (
        None if close(again.numbers, want, tolerance) else told(call, again.numbers, want, "causal")
    )


def told(call: str, got: np.ndarray, want: np.ndarray, rule: str) -> Finding:
    """What is wrong, with the row that is furthest off."""
    i, head, _ = at = worst(got, want)
    return finding(
        rule,
        f"{call}: {SLIPS[rule]['en']}. Row {i}, head {head} must be {row(want[at[:2]])}, not {row(got[at[:2]])}.",
        f"{call}：{SLIPS[rule]['zh']}。第 {i} 行、第 {head} 个头应当是 {row(want[at[:2]])}，而不是 {row(got[at[:2]])}。",
        hint={"attends": 1, "over-the-keys": 1, "scaled": 0, "sees-itself": 0, "stays-finite": 0}.get(
            rule, 2
        ),
        call=call,
    )


def slip(got: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, positions: list[int]) -> str:
    """The rule that an answer breaks: what it equals is the oracle's answer to another question."""
    last, group = len(k) - 1, q.shape[1] // k.shape[1]
    turns = [h % k.shape[1] for h in range(q.shape[1])]
    slips = {
        "causal": (q, k, v, [last] * len(positions)),
        "by-position": (q, k, v, list(range(len(positions)))),
        "sees-itself": (q, k, v, [max(p - 1, 0) for p in positions]),
        "groups": (q, k[:, turns], v[:, turns], positions) if group > 1 else (q, k, v, positions),
        "scaled": (q * q.shape[2] ** 0.5, k, v, positions),
    }
    one_later = (q, k, v, [min(p + 1, last) for p in positions])
    if close(got, oracle.attention(*one_later)):
        return "causal"
    if [bool(nan) for nan in np.isnan(got).all((1, 2))] == [p == 0 for p in positions] and 0 in positions:
        return "sees-itself"  # so row 0 sees nothing
    found = [(rule, oracle.attention(*question)) for rule, question in slips.items()]
    found += [("hidden-first", otherwise(q, k, v, positions, fill=0.0))]
    found += [("hidden-first", otherwise(q, k, v, positions, late=True))]
    found += [("over-the-keys", otherwise(q, k, v, positions, axis=1))]
    return next((rule for rule, numbers in found if close(got, numbers)), "attends")


def otherwise(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    positions: list[int],
    fill: float = -np.inf,
    axis: int = 2,
    late: bool = False,
) -> np.ndarray:
    """Attention with later keys scored ``fill`` or, ``late``, hidden behind the softmax, which goes over ``axis``."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = np.einsum("qhd,khd->hqk", q, k) / q.shape[2] ** 0.5
    later = np.arange(len(k)) > np.array(positions)[:, None]
    with np.errstate(invalid="ignore", over="ignore"):  # a key that nobody sees, scores that are large
        shares = np.exp(scores if late else np.where(later, fill, scores))
        shares = shares / shares.sum(axis, keepdims=True)
    return np.einsum("hqk,khd->qhd", np.where(later, 0.0, shares) if late else shares, v)
