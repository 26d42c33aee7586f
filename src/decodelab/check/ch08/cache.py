"""TODO 3: the KV cache, call by call, and the whole model through it, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.ch08 import oracle, tiny
from decodelab.check.ch08.common import WATCH, close, drawn, misfit, row, watched, worst
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both
from decodelab.models.config import Config

if TYPE_CHECKING:
    from decodelab.grading.student import Student

MAKE = """
def _cache(config, capacity):
    from decodelab.models.config import Config
    made = KVCache(Config(**config), capacity, torch.float32, "cpu")
    for own in vars(made).values():
        if isinstance(own, torch.Tensor):
            own.fill_(float("nan"))
    return made

def _decoder(config, weights):
    from decodelab.models.config import Config
    return Decoder(Config(**config), weights)

def _logits(decoder, tokens, positions, kv):
    return decoder.logits(decoder.forward(tokens, positions, kv))
"""
SLIPS: dict[str, Text] = {
    "keeps-what-came": both(en="it attends over all tokens so far, not the new ones alone", zh="要在到目前为止的全部 token 上做注意力，而不只是新来的"),
    "layers-apart": both(en="each layer has keys and values of its own", zh="每一层各有自己的 key 和 value"),
    "caches-apart": both(en="each KVCache keeps what is its own: two requests have two caches", zh="每个 KVCache 只存自己的：两个请求各有各的 cache"),
    "keeps-both": both(en="keys are kept as keys and values as values", zh="key 存到 key 里，value 存到 value 里"),
    "at-their-positions": both(en="a token's key and value belong to its position, which may be written again", zh="token 的 key 和 value 放在它自己的位置上，同一位置可以重写"),
    "only-what-is-there": both(en="rows that were never written (NaN here) must not be read", zh="没有写过的行（这里是 NaN）不能读"),
    "attends-over-all": both(en="it returns attention over all tokens so far", zh="应当返回在到目前为止的全部 token 上的注意力"),
}  # fmt: skip


def check_cache(student: Student, case: Case) -> Finding | None:
    """The cache by itself, or, where the case names a model, the whole forward pass."""
    student.load("check", MAKE)
    return whole(student, case) if "model" in case else attends(student, case)


def attends(student: Student, case: Case) -> Finding | None:
    """Each of ``calls``, [layer, first position, tokens], against attention over books kept here."""
    shape = {"name": "", "hidden": 8, "intermediate": 8, "vocab": 8, "tied": True} | case["shape"]
    layers, heads, kv_heads, dim = (shape[name] for name in ("layers", "heads", "kv_heads", "head_dim"))
    kv = student.new("_cache", shape, case["capacity"])
    books = [np.zeros((2, 0, kv_heads, dim), np.float32) for _ in range(layers)]
    asked, watch = [], student.apart(WATCH)
    other = student.new("_cache", shape, case["capacity"]) if case.get("neighbour") else None
    for n, (layer, start, count) in enumerate(case["calls"]):
        if not (layer < layers and start <= books[layer].shape[1] and 0 < count <= case["capacity"] - start):
            break  # a shrunk case may make no sense
        q = drawn(case["seed"] + n, count, heads, dim)
        new = drawn(case["seed"] + 100 + n, 2, count, kv_heads, dim)
        books[layer] = np.concatenate([books[layer][:, :start], new], 1)
        positions = np.arange(start, start + count)
        reply = watch.later("_attended", kv, layer, q, *new, positions)
        if other:
            away = drawn(case["seed"] + 200 + n, 2, count, kv_heads, dim)
            watch.later("_attended", other, layer, q, *away, positions)
        asked.append(((layer, start, count), q, list(books), reply))
    for n, ((layer, start, count), q, held, reply) in enumerate(asked):
        if wrong := one_call(n, (layer, start, count), q, held, reply(), bool(other)):
            return wrong
    return None


def one_call(
    n: int, order: tuple[int, int, int], q: np.ndarray, held: list[np.ndarray], got: Any, two: bool
) -> Finding | None:
    """What one ``attend`` returned, ``held`` being what each layer holds by then; ``two``: another cache is in use."""
    layer, start, count = order
    positions = range(start, start + count)
    call = f"kv.attend({layer}, q, k, v, [{start}{', …' if count > 1 else ''}])"
    got, changed = watched(got, "layer q k v positions", call)
    if wrong := misfit(got, q.shape, call) or changed:
        return wrong
    want = over(q, held[layer], positions)
    if close(got.numbers, want):
        return None
    rule = slip(got.numbers, q, held, order)
    rule = "caches-apart" if two and rule == "at-their-positions" else rule
    i, head, _ = at = worst(got.numbers, want)
    return finding(
        rule,
        f"Call {n + 1}, {call}: {SLIPS[rule]['en']}. Row {i}, head {head} must be {row(want[at[:2]])}, not {row(got.numbers[at[:2]])}.",
        f"第 {n + 1} 次调用 {call}：{SLIPS[rule]['zh']}。第 {i} 行、第 {head} 个头应当是 {row(want[at[:2]])}，而不是 {row(got.numbers[at[:2]])}。",
        hint=1 if rule == "keeps-what-came" else 2,
        call=call,
    )


def over(q: np.ndarray, held: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """Attention of ``q`` over keys and values, (2, tokens, kv_heads, head_dim)."""
    return oracle.attention(q, held[0], held[1], positions)


def slip(got: np.ndarray, q: np.ndarray, held: list[np.ndarray], order: tuple[int, int, int]) -> str:
    """The rule that an answer breaks."""
    layer, start, count = order
    if np.isnan(got).any():
        return "only-what-is-there"
    if start and close(got, over(q, held[layer][:, start:], range(count))):
        return "keeps-what-came"
    positions, own = range(start, start + count), held[layer][:, start : start + count]
    if any(close(got, over(q, held[layer][kinds], positions)) for kinds in ([0, 0], [1, 1], [1, 0])):
        return "keeps-both"
    for other in (h for i, h in enumerate(held) if i != layer and h.shape[1] >= start):
        found = np.concatenate([other[:, :start], own], 1), other[:, : start + count]
        if any(h.shape[1] == start + count and close(got, over(q, h, positions)) for h in found):
            return "layers-apart"
    return "at-their-positions" if start else "attends-over-all"


def whole(student: Student, case: Case) -> Finding | None:
    """Logits of a tiny model, its tokens coming in ``chunks``, against those without a cache."""
    name = case["model"]
    shape = tiny.shape_of(name)
    tokens, want = expected(case)
    ends = [min(end, len(tokens)) for end in accumulate(case["chunks"])]
    decoder = student.new("_decoder", shape, tiny.weights(name, case["seed"]))
    kv = student.new("_cache", shape, max(ends, default=0))
    spans = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]
    replies = [
        student.later("_logits", decoder, np.array(tokens[start:end]), np.arange(start, end), kv)
        for start, end in spans
    ]
    got = [reply() for reply in replies]
    for part, (start, end) in zip(got, spans, strict=True):
        if wrong := misfit(part, (end - start, shape["vocab"]), "decoder.logits(…)"):
            return wrong
    logits = np.concatenate([part.numbers for part in got] or [want[:0]])
    if close(logits, want[: len(logits)]):
        return None
    i, token = worst(logits, want[: len(logits)])
    return finding(
        "cached-equals-uncached",
        f"Tiny model {name!r}, {len(tokens)} tokens in chunks of {case['chunks']}: after token {i} the logit of {token} must be "
        f"{want[i, token]:.4g}, as without a cache; yours is {logits[i, token]:.4g}.",
        f"微型模型 {name!r}，{len(tokens)} 个 token，分块 {case['chunks']}：第 {i} 个 token 之后，{token} 的 logit 应当和不用 cache "
        f"时一样是 {want[i, token]:.4g}；你的是 {logits[i, token]:.4g}。",
        hint=2,
    )  # fmt: skip


def expected(case: Case) -> tuple[list[int], np.ndarray]:
    """The tokens of a case and the logits after each: as transformers gave them, or by the oracle."""
    if case.get("recorded"):
        return tiny.recorded(case["model"])
    shape = tiny.shape_of(case["model"])
    tokens = np.random.RandomState(case["seed"]).randint(shape["vocab"], size=sum(case["chunks"])).tolist()
    return tokens, oracle.logits(Config(**shape), tiny.weights(case["model"], case["seed"]), tokens)
