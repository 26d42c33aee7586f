"""Record what Hugging Face's transformers compute with chapter 8's tiny models, for checks that run without them.

python -m training.logits src/decodelab/recorded/transformers-5.17.0-tiny.npz
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from decodelab.check.ch08 import tiny

NAMES = ("llama", "qwen3")
LENGTH = 12  # tokens


def config_of(name: str) -> dict[str, Any]:
    """A tiny model's ``config.json``."""
    shape = tiny.SHAPES[name]
    return {
        "architectures": [{"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[name]],
        "model_type": name,
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["intermediate"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape["head_dim"],
        "vocab_size": shape["vocab"],
        "tie_word_embeddings": shape["tied"],
        "rms_norm_eps": shape["eps"],
        "rope_theta": shape["rope_theta"],
        "max_position_embeddings": 512,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
    }


def write(folder: Path, name: str, seed: int = 0) -> Path:
    """A tiny model as a folder that transformers and this course load."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(name)), encoding="utf-8")
    made = {key: torch.from_numpy(value) for key, value in tiny.weights(name, seed).items()}
    save_file(made, folder / "model.safetensors", {"format": "pt"})
    return folder


def by_transformers(folder: Path, tokens: list[int]) -> np.ndarray:
    """The logits after each token, (tokens, vocab)."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def record(path: Path) -> None:
    """Tokens and logits of every tiny model in one file."""
    kept: dict[str, Any] = {}
    for name in NAMES:
        tokens = np.random.RandomState(1).randint(tiny.SHAPES[name]["vocab"], size=LENGTH)
        with tempfile.TemporaryDirectory() as folder:
            logits = by_transformers(write(Path(folder), name), tokens.tolist())
        kept |= {f"{name}-tokens": tokens, f"{name}-logits": logits}
    np.savez(path, **kept)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
