"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.ch09.buckets import few
from decodelab.check.rules import Case


def request(name: int | str, start: int, count: int, blocks: list[int], length: int = 0) -> dict[str, Any]:
    """A request in a step; ``length``: of its tokens, where more are known than the step computes."""
    return {"id": name, "start": start, "count": count, "blocks": blocks, "length": length or start + count}


def batch(name: str, block_size: int, *requests: dict[str, Any], **other: Any) -> Case:
    """One ``pack``."""
    return {"name": name, "block_size": block_size, "requests": list(requests)} | other


def places(name: str, block_size: int, tables: list[list[int]], rows: Any, positions: Any) -> Case:
    """One ``slots``."""
    return {"name": name, "block_size": block_size, "tables": tables, "rows": rows, "positions": positions}


HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 8, "seed": 1, "dtype": "float32"}


def chunk(name: str, length: int, positions: list[int], **other: Any) -> Case:
    """One ``chunk_attention``."""
    return {"name": name, "length": length, "positions": positions} | HEADS | other


def decodes(name: str, *lens: int, **other: Any) -> Case:
    """One ``decode_attention``."""
    return {"name": name, "lens": list(lens)} | HEADS | other


def turns(name: str, model: str, block_size: int, *steps: str, seed: int = 0) -> Case:
    """A run of the whole thing; a step is written ``"a5 b1"``: five tokens of a, one of b, in this order."""
    listed = [[[part[0], int(part[1:])] for part in step.split()] for step in steps]
    return {"name": name, "model": model, "block_size": block_size, "turns": listed, "seed": seed}


def draw(name: str, *rows: tuple[float, float, int | None], **other: Any) -> Case:
    """One ``sample_batch``: (temperature, top_p, seed) of each row."""
    return {"name": name, "rows": [list(one) for one in rows], "vocab": 40, "seed": 1} | other


def fits(name: str, buckets: list[int], *sizes: int) -> Case:
    """Sizes, each put into one of these buckets."""
    return {"name": name, "buckets": buckets, "sizes": list(sizes)}


def best(name: str, count: int, *sizes: int) -> Case:
    """One ``best_buckets``."""
    return {"name": name, "count": count, "sizes": list(sizes)}


def shown(case: Case) -> list[str]:
    """A case as one would type it, as far as random tensors can be typed."""
    if "requests" in case:
        scheduled, start = ({r["id"]: r[name] for r in case["requests"]} for name in ("count", "start"))
        tables = {r["id"]: r["blocks"] for r in case["requests"]}
        return [
            f"pack(Plan(scheduled={scheduled}, start={start}), sequences, {tables}, {case['block_size']})"
        ]
    if "tables" in case:
        return [f"slots({case['tables']}, {case['rows']}, {case['positions']}, {case['block_size']})"]
    if "turns" in case:
        return [f"{', '.join(f'{name}: {count}' for name, count in step)}" for step in case["turns"]]
    if "positions" in case:
        return [f"chunk_attention(q, keys, values, slots of {case['length']}, {case['positions']})"]
    if "lens" in case:
        return [f"decode_attention(q, keys, values, slots, {case['lens']})"]
    if "rows" in case:
        return [
            f"sample_batch(logits, {[r[0] for r in case['rows']]}, {[r[1] for r in case['rows']]}, generators)"
        ]
    if "setting" in case:
        return [f"sample_batch({case['logits']} x {case['count']}, {case['setting']}, generators)"]
    if "buckets" in case:
        return [f"bucket({size}, {case['buckets']})" for size in case["sizes"]]
    return [f"best_buckets({few(case['sizes'])}, {case['count']})"]


VISIBLE: dict[str, list[Case]] = {
    "ch09.1": [
        batch("one-prompt", 4, request("a", 0, 3, [0])),
        batch("one-decode", 4, request("a", 6, 1, [5, 2])),
        batch("three-mixed", 4, request("b", 0, 4, [1]), request("a", 6, 1, [5, 2]), request("c", 4, 3, [0, 3])),
        batch("a-chunk-of-a-longer-prompt", 4, request(7, 2, 3, [4, 1], 12), request(3, 0, 2, [9], 9)),
        batch("somebody-waits", 2, request(2, 1, 1, [3]), request(1, 3, 1, [8, 6, 7]), waiting=[request(9, 0, 4, [])]),
    ],
    "ch09.2": [
        places("the-first-token", 4, [[7]], [0], [0]),
        places("inside-a-block", 4, [[7, 2]], [0, 0, 0], [1, 3, 6]),
        places("two-requests", 4, [[7, 2], [5, 0]], [0, 1, 1], [5, 5, 2]),
        places("blocks-of-one", 1, [[3, 0, 2]], [0, 0, 0], [0, 1, 2]),
        places("blocks-of-three", 3, [[4, 0, 6]], [0, 0, 0, 0], [2, 3, 5, 7]),
        places("one-request-by-its-number", 2, [[7, 2], [5, 1]], 1, [0, 1, 2, 3]),
        places("a-column-of-requests", 2, [[7, 2], [5, 1]], [[0], [1]], [[0, 1, 2], [0, 1, 1]]),
    ],
    "ch09.3": [
        chunk("a-prompt", 4, [0, 1, 2, 3], heads=2),
        chunk("shared-heads", 4, [0, 1, 2, 3]),
        chunk("a-second-chunk", 7, [4, 5, 6]),
        chunk("not-the-last-ones", 8, [2, 3], kv_heads=4),
        chunk("in-any-order", 6, [4, 1, 5, 0], heads=2),
        chunk("half-precision", 5, [3, 4], dtype="float16"),
        chunk("large-scores", 6, [0, 1, 3, 5], scale=60),
        turns("only-chunks", "llama", 2, "a5", "b3", "c2 a2 b2", "c4 d2 b2"),
    ],
    "ch09.4": [
        decodes("one-request", 5, kv_heads=4),
        decodes("equal-lengths", 3, 3, kv_heads=4),
        decodes("a-short-one-and-a-long-one", 2, 7, kv_heads=4),
        decodes("shared-heads", 4, 1, 6),
        decodes("one-kv-head-for-all", 3, 5, kv_heads=1),
        decodes("half-precision", 2, 4, dtype="float16"),
        decodes("large-scores", 1, 5, 3, 1, 1, scale=60),
        turns("the-whole-step", "qwen3", 4, "a5", "a1 b3", "c2 a1 b1", "b1 c4 d1", "d1 c1", "c1 e6 d1"),
        turns("blocks-of-one", "llama", 1, "a2 b3", "b1 a1", "a1 c3", "c1 a1"),
    ],
    "ch09.5": [
        draw("all-greedy", (0.0, 1.0, None), (0.0, 0.5, None), (0.0, 1.0, None)),
        draw("ties", (0.0, 1.0, None), (0.0, 1.0, None), logits=[[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]]),
        draw("one-draws", (1.0, 1.0, 5)),
        draw("some-draw", (0.0, 1.0, None), (0.8, 0.9, 7), (0.0, 1.0, 3), (1.5, 0.6, 7)),
        draw("each-its-own", (0.5, 1.0, 1), (2.0, 1.0, 1), (1.0, 0.3, 1), (1.0, 0.99, 1), (1.0, 0.01, 1)),
        draw("exactly-reached", *((1.0, 0.5, i) for i in range(6)), logits=[[0.0] * 4] * 6),
        draw("cold-and-narrow", *((0.25, 0.7, i) for i in range(5)), vocab=12),
        {"name": "many-times", "logits": [1.0, 3.0, 2.0, 0.0], "setting": [1.0, 0.9], "count": 600},
    ],
    "ch09.6": [
        fits("powers-of-two", [1, 2, 4, 8], 1, 2, 3, 5, 8),
        fits("beyond-the-last", [1, 2, 4], 5),
        fits("in-any-order", [8, 1, 4], 2, 4, 6),
        fits("none-at-all", [], 1),
    ],
    "ch09.7": [
        best("one-for-all", 1, 3, 1, 2),
        best("enough-for-each", 3, 1, 5, 9),
        best("two-clusters", 2, 1, 2, 2, 15, 16),
        best("the-smallest-counts-too", 2, 1, 5, 5, 6),
        best("what-is-frequent-counts-more", 2, 4, 4, 4, 4, 4, 4, 6, 6, 10),
        best("one-long-one", 2, 2, 3, 3, 4, 100),
        best("mostly-alike", 2, 8, 8, 8, 8, 9, 10, 11, 12),
        best("one-after-the-other-would-err", 3, 1, 5, 8, 10, 12),
        best("a-hundred", 8, *(n * n % 997 + 1 for n in range(100))),
    ],
}  # fmt: skip
