"""Tiny models with random weights, and what Hugging Face's transformers computed with two of them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from decodelab.models.config import Config

COMMON = {"hidden": 24, "intermediate": 40, "vocab": 48, "bytes_per_param": 4, "bytes_per_kv": 4}
SHAPES: dict[str, dict[str, Any]] = {
    "llama": COMMON | {"layers": 2, "heads": 6, "kv_heads": 2, "head_dim": 4, "tied": True, "eps": 1e-5, "rope_theta": 10_000.0},
    "qwen3": COMMON | {"layers": 3, "heads": 4, "kv_heads": 1, "head_dim": 8, "tied": False, "qk_norm": True, "eps": 1e-6, "rope_theta": 1e6},
    "no-groups": COMMON | {"layers": 1, "heads": 3, "kv_heads": 3, "head_dim": 8, "tied": True, "eps": 1e-5, "rope_theta": 100.0},
}  # fmt: skip


def shape_of(name: str) -> dict[str, Any]:
    """The arguments of a tiny model's Config."""
    return {"name": name, **SHAPES[name]}


@cache
def weights(name: str, seed: int) -> dict[str, np.ndarray]:
    """Random weights in float32, the same everywhere: numpy has frozen what RandomState draws."""
    rng = np.random.RandomState(seed)
    made = {}
    for weight, shape in Config(**shape_of(name)).weights():
        drawn = rng.standard_normal(shape)
        made[weight] = (1 + 0.1 * drawn if len(shape) == 1 else 1.5 * drawn / shape[1] ** 0.5).astype(
            np.float32
        )
    return made


@cache
def recorded(name: str) -> tuple[list[int], np.ndarray]:
    """Tokens, and the logits after each, as transformers gives them for ``weights(name, 0)``."""
    with files("decodelab.recorded").joinpath("transformers-5.17.0-tiny.npz").open("rb") as file:
        kept = np.load(file, allow_pickle=False)
        return kept[f"{name}-tokens"].tolist(), kept[f"{name}-logits"]
