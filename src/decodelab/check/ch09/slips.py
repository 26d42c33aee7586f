"""What an answer to TODO 3 or 4 equals that is not right: the attention that somebody asked another question."""

from __future__ import annotations

import numpy as np

from decodelab.check.ch08 import attend, oracle
from decodelab.check.ch08.common import close
from decodelab.lang import Text, both

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
    "hidden-first": both(
        en="what a row may not see needs the score −infinity before the softmax; a mask of True and False does that, but a mask of numbers is added to the scores, so 1 and 0 hide nothing",
        zh="不该看的，要在 softmax 之前把分数变成负无穷；True 和 False 的遮罩就是这样，数字的遮罩却是加到分数上的，1 和 0 什么也遮不住",
    ),
    "true-where-it-may-look": both(
        en="the mask is True where a row may look, not where it may not",
        zh="遮罩在能看的地方为 True，不是在不能看的地方",
    ),
    "its-own-request": both(en="row i reads the slots of request i", zh="第 i 行读的是第 i 个请求的槽位"),
}
HINTS = {"attends": 1, "over-the-keys": 1, "only-its-own": 1} | dict.fromkeys(
    ["scaled", "sees-itself", "hidden-first", "true-where-it-may-look", "its-own-length", "its-own-request"],
    0,
)


def chunk_slip(
    got: np.ndarray,
    q: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    slots: list[int],
    positions: list[int],
) -> str:
    """The rule that an answer breaks, by what it equals."""
    k, v, last, new = keys[slots], values[slots], len(slots) - 1, len(positions)
    rule = attend.slip(got, q, k, v, positions)
    if rule != "attends":
        return rule
    if np.isnan(got).any():
        return "only-its-own"
    order, ahead = np.sort(slots), np.arange(len(slots)) - np.array(positions)[:, None]
    later, itself = ahead > 0, ahead == 0
    found = [
        ("sees-itself", masked(q, k, v, np.where(later | itself, -np.inf, 0.0))),
        ("in-the-order-of-tokens", oracle.attention(q, keys[order], values[order], positions)),
        ("in-the-order-of-tokens", oracle.attention(q, k[::-1], v[::-1], positions)),
        *(("groups", oracle.attention(q, *kv, positions)) for kv in other_groups(q, k, v)),
        *(
            ("by-position", oracle.attention(q, k, v, places))
            for places in other_places(positions, last, new)
        ),
        ("true-where-it-may-look", masked(q, k, v, np.where(later, 0.0, -np.inf))),
        ("true-where-it-may-look", masked(q, k, v, np.where(later | itself, 0.0, -np.inf))),
        ("hidden-first", masked(q, k, v, np.where(later, 0.0, 1.0))),
    ]
    return next((rule for rule, numbers in found if close(got, numbers)), "attends")


def other_places(positions: list[int], last: int, new: int) -> list[list[int]]:
    """Where rows might be thought to stand: the last ones, one behind the other, sorted, all at one place."""
    behind = [min(positions[0] + i, last) for i in range(new)]
    return [list(range(last + 1 - new, last + 1)), behind, sorted(positions), positions[:1] * new]


def other_groups(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keys and values (…, heads, dim) of a KV head for each head, where those of a group are not side by side."""
    heads, kv_heads = q.shape[-2], k.shape[-2]
    own = [h * kv_heads // heads for h in range(heads)]
    turns, first = [h % kv_heads for h in range(heads)], [0] * heads
    pairs = [(own, turns), (turns, own), (turns, turns), (first, first)]
    return [(k[..., of_k, :], v[..., of_v, :]) for of_k, of_v in pairs if kv_heads > 1]


def masked(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Attention with ``bias`` (rows, tokens) added to the scores; PyTorch's gives 0 where all of a row is hidden."""
    group = q.shape[1] // k.shape[1]
    scores = np.einsum("qhd,khd->hqk", q, k.repeat(group, 1)) / q.shape[2] ** 0.5 + bias
    shares = np.exp(scores)
    shares /= np.maximum(shares.sum(-1, keepdims=True), 1e-30)
    return np.einsum("hqk,khd->qhd", shares, v.repeat(group, 1))


def each(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, slots: np.ndarray, lens: list[int]
) -> np.ndarray:
    """Each row by itself over the first so many of its slots."""
    rows = [
        oracle.attention(q[[i]], keys[own[:n]], values[own[:n]], [n - 1])
        for i, (own, n) in enumerate(zip(slots, lens, strict=True))
    ]
    return np.concatenate(rows)


def decode_slip(
    got: np.ndarray, q: np.ndarray, keys: np.ndarray, values: np.ndarray, slots: np.ndarray, lens: list[int]
) -> str:
    """The rule that an answer breaks, by what it equals."""
    longest = [slots.shape[1]] * len(lens)
    slips = [
        ("hides-what-fills-up", (q, keys, values, slots, longest)),
        ("its-own-length", (q, keys, values, slots, [max(n - 1, 1) for n in lens])),
        ("its-own-length", (q, keys, values, slots, lens[:1] * len(lens))),
        ("its-own-length", (q, keys, values, slots, [min(lens)] * len(lens))),
        ("scaled", (q * q.shape[2] ** 0.5, keys, values, slots, lens)),
        ("its-own-request", (q, keys, values, slots[[0] * len(lens)], lens[:1] * len(lens))),
    ]
    if np.isnan(got).any():
        return "only-its-own"
    one_more = (q, keys, values, slots, [min(n + 1, slots.shape[1]) for n in lens])
    if close(got, each(*one_more)):
        return "hides-what-fills-up"
    found = [(rule, each(*question)) for rule, question in slips]
    found += [("groups", each(q, *kv, slots, lens)) for kv in other_groups(q, keys, values)]
    over = np.arange(slots.shape[1]) >= np.array(lens)[:, None]
    nothing, seen = np.zeros(over.shape), ~over[..., None, None]
    k, v = keys[slots], values[slots]
    for rule, heads, mixed, bias in (
        ("true-where-it-may-look", k, v, np.where(over, 0.0, -np.inf)),
        ("hidden-first", k, v, np.where(over, 0.0, 1.0)),
        ("hidden-first", k * seen, v, nothing),
        ("hidden-first", k, v * seen, nothing),
        ("hidden-first", k * seen, v * seen, nothing),
    ):
        rows = [masked(q[[i]], heads[i], mixed[i], bias[[i]]) for i in range(len(q))]
        found.append((rule, np.concatenate(rows)))
    return next((rule for rule, numbers in found if close(got, numbers)), "attends")
