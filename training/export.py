"""Write a trained model as a folder that ``decodelab.models`` and Hugging Face's libraries load.

python export.py CHECKPOINTS/final.pt FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from training.batches import END, START
from training.model import Shape

MAX_POSITIONS = 512


def export(checkpoint: Path, folder: Path) -> None:
    """Config, tokenizer and the mean weights, in float16, of ``checkpoint``."""
    state = torch.load(checkpoint, weights_only=True)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": weight.half() for name, weight in state["mean"].items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.dumps(config_of(Shape(**state["shape"])), indent=2)
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")
    shutil.copy(checkpoint.parent / "tokenizer.json", folder)


def config_of(shape: Shape) -> dict[str, Any]:
    """What ``config.json`` says of a model of this shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **vars(shape),
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": START,
        "eos_token_id": END,
        "torch_dtype": "float16",
    }


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
