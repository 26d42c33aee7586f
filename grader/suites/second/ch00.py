"""Chapter 0 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def wrong(name: str, code: str) -> Variant:
    """An answer that a learner could well write, and that is not right."""
    return Variant(name, {"ch00.1": code})


WRONG = [
    wrong("keys only", "return num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value"),
    wrong("numbers, not bytes", "return 2 * num_tokens * num_layers * num_kv_heads * head_dim"),
    wrong("always two bytes a number", "return 2 * num_tokens * num_layers * num_kv_heads * head_dim * 2"),
    wrong("bits", "return 2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value * 8"),
    wrong("KiB", "return 2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value // 1024"),
    wrong("one layer", "return 2 * num_tokens * num_kv_heads * head_dim * bytes_per_value"),
    wrong("one head", "return 2 * num_tokens * num_layers * head_dim * bytes_per_value"),
    wrong("one token", "return 2 * num_layers * num_kv_heads * head_dim * bytes_per_value"),
    wrong(
        "the newest token is not cached yet",
        "return 2 * (num_tokens - 1) * num_layers * num_kv_heads * head_dim * bytes_per_value",
    ),
    wrong(
        "a token for every token that it looks back at",
        "return 2 * num_tokens**2 * num_layers * num_kv_heads * head_dim * bytes_per_value",
    ),
    wrong(
        "the two added instead of multiplied",
        "return (2 + num_layers * num_kv_heads * head_dim) * bytes_per_value * num_tokens",
    ),
    wrong("printed", "print(2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value)"),
    wrong(
        "no value head is shared",
        "return num_tokens * num_layers * (num_kv_heads + 1) * head_dim * bytes_per_value",
    ),
]

CORRECT = [
    Variant(
        "in the hint's order",
        {
            "ch00.1": """
vectors = num_layers * num_kv_heads * 2
numbers = vectors * head_dim
token = numbers * bytes_per_value
return num_tokens * token
"""
        },
    ),
    Variant(
        "keys and values apart",
        {
            "ch00.1": """
keys = values = num_kv_heads * head_dim
return sum((keys + values) * bytes_per_value for _ in range(num_layers)) * num_tokens
"""
        },
    ),
    Variant(
        "math.prod",
        {
            "ch00.1": """
import math

return math.prod([2, num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_value])
"""
        },
    ),
]
