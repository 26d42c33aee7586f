"""Chapter 0's hidden side: more shapes, and answers that are known to be wrong or right."""

from __future__ import annotations

import random

from decodelab.check.ch00 import VISIBLE
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import both

RANGES = {
    "num_tokens": (1, 200_000),
    "num_layers": (1, 130),
    "num_kv_heads": (1, 130),
    "head_dim": (1, 256),
    "bytes_per_value": (1, 8),
}


def shape_case(name: str, **shape: int) -> Case:
    """A shape, told in the words of the visible case that has all arguments differ."""
    like = VISIBLE["ch00.1"][-1]
    return like | {"name": name, "shape": shape}


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The shapes of one student's seed; each is marked ``drawn``."""
    shapes = [{name: rng.randint(*bounds) for name, bounds in RANGES.items()} for _ in range(6)]
    return [shape_case("every-argument", **shape) | {"drawn": True} for shape in shapes]


DIRECTED: dict[str, list[Case]] = {
    "ch00.1": [
        shape_case(
            "nothing-kept", num_tokens=0, num_layers=30, num_kv_heads=3, head_dim=64, bytes_per_value=2
        )
        | {
            "rule": "no-token-no-bytes",
            "text": both(en="An empty cache holds nothing.", zh="空的 cache 里什么也没有。"),
        },
    ]
}


def answer(name: str, code: str, rule: str = "") -> Variant:
    """A whole answer to TODO 1."""
    return Variant(name, {"ch00.1": code}, rule=rule)


TOKEN = "num_layers * num_kv_heads * head_dim * bytes_per_value"

WRONG: list[Variant] = [
    answer("keys only", f"return num_tokens * {TOKEN}", "keys-and-values"),
    answer("nothing returned", f"2 * num_tokens * {TOKEN}", "returns-a-number"),
    answer("printed, not returned", f"print(2 * num_tokens * {TOKEN})", "returns-a-number"),
    answer("one token", f"return 2 * {TOKEN}", "grows-with-num-tokens"),
    answer("every pair of tokens", f"return 2 * num_tokens * num_tokens * {TOKEN}", "grows-with-num-tokens"),
    answer(
        "one layer",
        "return 2 * num_tokens * num_kv_heads * head_dim * bytes_per_value",
        "grows-with-num-layers",
    ),
    answer(
        "heads forgotten",
        "return 2 * num_tokens * num_layers * head_dim * bytes_per_value",
        "grows-with-num-kv-heads",
    ),
    answer(
        "a number a head",
        "return 2 * num_tokens * num_layers * num_kv_heads * bytes_per_value",
        "grows-with-head-dim",
    ),
    answer(
        "numbers, not bytes",
        "return 2 * num_tokens * num_layers * num_kv_heads * head_dim",
        "grows-with-bytes-per-value",
    ),
    answer(
        "always two bytes",
        "return 4 * num_tokens * num_layers * num_kv_heads * head_dim",
        "grows-with-bytes-per-value",
    ),
    answer(
        "two bytes at most",
        f"return 2 * num_tokens * {TOKEN} // bytes_per_value * min(bytes_per_value, 2)",
        "grows-with-bytes-per-value",
    ),
    answer("bits", f"return 16 * num_tokens * {TOKEN}", "keys-and-values"),
    answer("at least one token", f"return 2 * max(num_tokens, 1) * {TOKEN}", "no-token-no-bytes"),
]

CORRECT: list[Variant] = [
    answer(
        "step by step",
        "per_head = head_dim * bytes_per_value * 2\nper_token = per_head * num_kv_heads * num_layers\n"
        "return per_token * num_tokens",
    ),
    answer(
        "added up",
        f"total = 0\nfor _ in ('key', 'value'):\n    total += num_tokens * {TOKEN}\nreturn total",
    ),
    answer(
        "math.prod",
        "import math\nreturn math.prod([2, num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_value])",
    ),
    answer(
        "locals",
        "n = 1\nfor value in list(locals().values()):\n    n *= value\nreturn 2 * n",
    ),
]
