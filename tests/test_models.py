"""Models as they are published: read, checked, and refused where the course would compute something else."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.errors import DecodeLabError
from decodelab.models.config import Config, read_config
from decodelab.models.folders import EMBEDDED
from decodelab.models.load import load
from decodelab.sim.hardware import MODELS

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000.0,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "eos_token_id": 1,
}
QWEN3 = {
    **{name: value for name, value in LLAMA.items() if name != "rope_theta"},
    "model_type": "qwen3",
    "head_dim": 16,
    "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "eos_token_id": [7, 8],
    "attention_bias": False,
    "use_sliding_window": False,
}


def folder(path: Path, config: dict[str, Any]) -> Path:
    """A model folder that holds a config and nothing else."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def with_weights(path: Path, raw: dict[str, Any], change: Any = None) -> Path:
    """A whole model folder: random weights, after ``change`` has had them, and a tokenizer of bytes."""
    torch = pytest.importorskip("torch", reason="weights are torch tensors")
    safetensors = pytest.importorskip("safetensors.torch", reason="weights are kept as safetensors")
    tokenizers = pytest.importorskip("tokenizers", reason="text is encoded by tokenizers")
    made = {name: torch.randn(shape).half() for name, shape in read_config(folder(path, raw)).weights()}
    if change:
        change(made)
    for i, name in enumerate(made):
        part = {name: made[name]}
        safetensors.save_file(part, path / f"model-{i:05}-of-{len(made):05}.safetensors")
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], byte_fallback=True))
    tokenizer.decoder = tokenizers.decoders.ByteFallback()
    tokenizer.save(str(path / "tokenizer.json"))
    return path


# --- config -----------------------------------------------------------------------------------------


def test_llama_and_qwen3_are_read_in_old_and_new_spelling(tmp_path: Path) -> None:
    llama, qwen = read_config(folder(tmp_path / "a", LLAMA)), read_config(folder(tmp_path / "b", QWEN3))
    assert llama == Config(
        "a", 2, 32, 4, 2, 8, 48, 40, True, eps=1e-6, rope_theta=5000.0, max_positions=64, eos=(1,)
    )
    assert qwen == Config(
        "b", 2, 32, 4, 2, 16, 48, 40, False, True, eps=1e-6, rope_theta=1e6, max_positions=64, eos=(7, 8)
    )


def test_generation_config_knows_best_what_ends_a_text(tmp_path: Path) -> None:
    path = folder(tmp_path, LLAMA)
    (path / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    assert read_config(path).eos == (5, 6)


@pytest.mark.parametrize("shape", MODELS.values(), ids=MODELS)
def test_the_weights_of_known_models_add_up(shape: Any) -> None:
    assert numbers(Config(**vars(shape))) == shape.params


@given(st.builds(Config, st.just("any"), *[st.integers(1, 9)] * 7, st.booleans(), st.booleans()))
def test_the_weights_of_any_shape_add_up(config: Config) -> None:
    assert numbers(config) == config.params


def numbers(config: Config) -> int:
    """How many numbers the weights that the config names hold, each name once."""
    weights = dict(config.weights())
    assert len(weights) == len(list(config.weights()))
    return sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for shape in weights.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_type", "mistral"),
        ("attention_bias", True),
        ("mlp_bias", True),
        ("hidden_act", "gelu"),
        ("rope_scaling", {"rope_type": "llama3", "factor": 8.0}),
        ("rope_scaling", {"type": "linear", "factor": 2.0}),
        ("rope_parameters", {"rope_type": "yarn", "rope_theta": 1e6}),
        ("use_sliding_window", True),
        ("quantization_config", {"bits": 4}),
    ],
)
def test_what_would_compute_something_else_is_refused_by_name(tmp_path: Path, name: str, value: Any) -> None:
    shown = "rope_scaling" if name == "rope_parameters" else name
    refuses(lambda: read_config(folder(tmp_path, LLAMA | {name: value})), f"{shown} = ")


def refuses(call: Any, named: str) -> None:
    """Hold ``call`` to a refusal of one sentence in each language that names what is wrong."""
    with pytest.raises(DecodeLabError, match=re.escape(named)) as refusal:
        call()
    assert named in refusal.value.text["zh"]
    assert all("\n" not in text for text in refusal.value.text.values())


# --- loading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [LLAMA, QWEN3], ids=["llama", "qwen3"])
def test_a_folder_of_parts_loads_as_its_config_says(tmp_path: Path, raw: dict[str, Any]) -> None:
    model = load(with_weights(tmp_path, raw))
    assert {name: tuple(weight.shape) for name, weight in model.weights.items()} == dict(
        model.config.weights()
    )
    assert {str(weight.dtype) for weight in model.weights.values()} == {"torch.float32"}


def test_weights_come_in_the_type_that_is_asked_for(tmp_path: Path) -> None:
    path = with_weights(tmp_path, LLAMA)
    import torch

    assert {weight.dtype for weight in load(path, torch.bfloat16).weights.values()} == {torch.bfloat16}


def test_what_the_config_does_not_name_is_left_out(tmp_path: Path) -> None:
    path = with_weights(
        tmp_path, LLAMA, lambda made: made.update({"lm_head.weight": made["model.norm.weight"]})
    )
    assert "lm_head.weight" not in load(path).weights


def test_a_missing_weight_is_named(tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    path = with_weights(tmp_path, LLAMA, lambda made: made.pop(name))
    refuses(lambda: load(path), name)


def test_a_weight_of_another_shape_is_named(tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.k_proj.weight"
    path = with_weights(tmp_path, LLAMA, lambda made: made.update({name: made[name].T.contiguous()}))
    refuses(lambda: load(path), name)


def test_a_file_of_weights_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = with_weights(tmp_path, LLAMA) / "model-00003-of-00020.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    refuses(lambda: load(tmp_path), path.name)


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json"])
def test_an_incomplete_folder_is_named_with_what_it_lacks(tmp_path: Path, missing: str) -> None:
    path = with_weights(tmp_path, LLAMA)
    (path / missing).unlink()
    refuses(lambda: load(path), missing)


@pytest.mark.parametrize("content", [b"{", b"[]", b"", b"\xff\xfe", b'{"model_type": "llama"}'])
def test_a_damaged_config_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    refuses(lambda: read_config(tmp_path), "config.json")


def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    path = with_weights(tmp_path, LLAMA)
    (path / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1", encoding="utf-8")
    refuses(lambda: load(path), "tokenizer.json")


@pytest.mark.parametrize("dtype", ["float32", 16])
def test_a_type_that_is_none_is_refused(tmp_path: Path, dtype: Any) -> None:
    refuses(lambda: load(with_weights(tmp_path, LLAMA), dtype), repr(dtype))


@pytest.mark.parametrize("device", ["tpu9", "cuda:99"])
def test_a_device_there_is_not_is_refused(tmp_path: Path, device: str) -> None:
    refuses(lambda: load(with_weights(tmp_path, LLAMA), device=device), device)


def test_loaded_text_comes_back(tmp_path: Path) -> None:
    tokenizer = load(with_weights(tmp_path, LLAMA)).tokenizer
    assert tokenizer.decode(tokenizer.encode("春风 spring")) == "春风 spring"
    assert tokenizer.decode(tokenizer.encode("春")[:2]).strip("\ufffd") == ""


def test_without_torch_the_package_imports_and_loading_says_what_to_install(tmp_path: Path) -> None:
    program = """
import sys
sys.modules.update(dict.fromkeys(("torch", "safetensors", "safetensors.torch", "tokenizers")))
from decodelab.models.load import load
from decodelab.errors import DecodeLabError
try:
    load(sys.argv[1])
except DecodeLabError as refusal:
    print(*refusal.text.values())
"""
    command = [sys.executable, "-c", program, str(folder(tmp_path, LLAMA))]
    said = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    assert said.count("decodelab[torch]") == 2


# --- the embedded model -----------------------------------------------------------------------


def test_the_embedded_model_is_the_one_of_its_card() -> None:
    card = (EMBEDDED / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256((EMBEDDED / "model.safetensors").read_bytes()).hexdigest() in card
    assert f"{read_config(EMBEDDED).params:,} parameters" in card


def test_the_embedded_model_loads_and_reads_both_languages() -> None:
    for name in ("torch", "safetensors", "tokenizers"):
        pytest.importorskip(name, reason="make test-torch installs what models need")
    model = load("embedded")
    assert sum(weight.numel() for weight in model.weights.values()) == model.config.params
    for text in ("春风得意马蹄疾", "In the beginning God created"):
        assert model.tokenizer.decode(model.tokenizer.encode(text)).strip() == text
