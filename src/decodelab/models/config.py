"""What ``config.json`` says of a model: Llama and Qwen3, in the form that Hugging Face publishes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.sim.hardware import ModelShape


@dataclass(frozen=True)
class Config(ModelShape):
    """A model's shape, so that a roofline takes it as it is, and what computing with it needs besides."""

    eps: float = 1e-5  # of RMSNorm
    rope_theta: float = 10000.0
    max_positions: int = 2048  # the longest sequence, in tokens, that the model is meant for
    eos: tuple[int, ...] = ()  # ids of the tokens that end a text

    def weights(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every weight; a matrix is ``(out, in)``."""
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for i in range(self.layers):
            for name, shape in self.layer_weights():
                yield f"model.layers.{i}.{name}.weight", shape
        yield "model.norm.weight", (self.hidden,)
        if not self.tied:
            yield "lm_head.weight", (self.vocab, self.hidden)

    def layer_weights(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of the weights of one layer."""
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield "input_layernorm", (self.hidden,)
        yield "self_attn.q_proj", (wide, self.hidden)
        yield "self_attn.k_proj", (narrow, self.hidden)
        yield "self_attn.v_proj", (narrow, self.hidden)
        yield "self_attn.o_proj", (self.hidden, wide)
        if self.qk_norm:
            yield "self_attn.q_norm", (self.head_dim,)
            yield "self_attn.k_norm", (self.head_dim,)
        yield "post_attention_layernorm", (self.hidden,)
        yield "mlp.gate_proj", (self.intermediate, self.hidden)
        yield "mlp.up_proj", (self.intermediate, self.hidden)
        yield "mlp.down_proj", (self.hidden, self.intermediate)


def read_config(folder: Path) -> Config:
    """The config of the model in ``folder``; raises ``DecodeLabError`` where this course cannot run it."""
    try:
        return config_of(folder)
    except (ValueError, KeyError, TypeError, AttributeError):  # no JSON, or not what a config says
        raise DecodeLabError(
            both(
                en=f"{folder / 'config.json'} or generation_config.json beside it is damaged, or says less than a Llama or Qwen3 needs: copy or download it again.",
                zh=f"{folder / 'config.json'} 或旁边的 generation_config.json 已损坏，或者缺少 Llama、Qwen3 所需的内容：请重新复制或下载。",
            )
        ) from None


def config_of(folder: Path) -> Config:
    """The config as its files say it, whatever they hold."""
    raw = read_json(folder / "config.json")
    rope = raw.get("rope_parameters") or {}  # where transformers 5 writes what stood in the open before
    refuse_what_differs(folder, raw, rope)
    heads = raw["num_attention_heads"]
    generation = folder / "generation_config.json"
    eos = (read_json(generation) if generation.exists() else raw).get("eos_token_id")
    return Config(
        name=folder.name,
        layers=raw["num_hidden_layers"],
        hidden=raw["hidden_size"],
        heads=heads,
        kv_heads=raw.get("num_key_value_heads", heads),
        head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
        intermediate=raw["intermediate_size"],
        vocab=raw["vocab_size"],
        tied=raw.get("tie_word_embeddings", False),
        qk_norm=raw["model_type"] == "qwen3",
        eps=raw["rms_norm_eps"],
        rope_theta=rope.get("rope_theta") or raw.get("rope_theta", 10000.0),
        max_positions=raw["max_position_embeddings"],
        eos=tuple(eos) if isinstance(eos, list) else (eos,) if eos is not None else (),
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of a model folder."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DecodeLabError(
            both(
                en=f'{path.parent} is no model folder: {path.name} is missing; give a folder as Hugging Face or ModelScope publish them, or a name, such as "smollm2" or "Qwen/Qwen3-0.6B".',
                zh=f"{path.parent} 不是模型文件夹：缺少 {path.name}；请给出 Hugging Face 或 ModelScope 发布的那种文件夹，或者一个名字，比如 “smollm2”、“Qwen/Qwen3-0.6B”。",
            )
        ) from None


def refuse_what_differs(folder: Path, raw: dict[str, Any], rope: dict[str, Any]) -> None:
    """Raise ``DecodeLabError`` for a model that would load and then compute something else."""
    scaling = raw.get("rope_scaling") or rope
    found = {
        "model_type": raw.get("model_type") not in ("llama", "qwen3"),
        "attention_bias": raw.get("attention_bias", False),
        "mlp_bias": raw.get("mlp_bias", False),
        "hidden_act": raw.get("hidden_act", "silu") != "silu",
        "rope_scaling": scaling.get("rope_type", scaling.get("type", "default")) != "default",
        "use_sliding_window": raw.get("use_sliding_window", False),
        "quantization_config": "quantization_config" in raw,
    }
    for name in (name for name, differs in found.items() if differs):
        value = json.dumps(scaling if name == "rope_scaling" else raw.get(name))
        raise DecodeLabError(
            both(
                en=f"The model in {folder} has {name} = {value}, which this course's decoder does not compute; choose a plain Llama or Qwen3 model.",
                zh=f"{folder} 里的模型设有 {name} = {value}，本课程的解码器不支持；请换一个普通的 Llama 或 Qwen3 模型。",
            )
        )
