"""The scripts that train the embedded model: the split, the yardstick, the tokenizer, and a run that goes on."""

from __future__ import annotations

import sys
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from training import corpus as texts
from training.ngram import KneserNey

POEMS = ["春眠不觉晓，处处闻啼鸟。", "夜来风雨声，花落知多少。", "白日依山尽，黄河入海流。"]
VERSES = ["In the beginning God created\nAnd the earth was void", "The spring of the waters"]


# --- the split --------------------------------------------------------------------------------------


@given(st.text(), st.sampled_from(["zh", "en"]))
def test_a_name_decides_alone(name: str, lang: str) -> None:
    assert texts.held_out(lang, name) is texts.held_out(lang, name)


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_share_held_out_is_the_one_stated(lang: str) -> None:
    share = sum(texts.held_out(lang, str(i)) for i in range(20_000)) / 20_000
    assert share == pytest.approx(texts.HELD_OUT[lang], abs=0.005)


@given(st.lists(st.text(alphabet="ab ", min_size=1), min_size=1), st.integers(1, 4))
def test_passages_lose_no_verse(verses: list[str], length: int) -> None:
    pieces = list(texts.passages("\n".join(verses), repeat(length)))
    assert "\n".join(pieces) == "\n".join(verses)
    assert all(piece.count("\n") < length for piece in pieces)


def test_verse_is_four_or_eight_lines_of_five_or_seven() -> None:
    line = "春眠不觉晓，"
    assert [bool(texts.VERSE.fullmatch(line * n)) for n in (3, 4, 6, 8)] == [False, True, False, True]
    assert not texts.VERSE.fullmatch(line * 3 + "处处闻啼，")


# --- the yardstick ----------------------------------------------------------------------------------


@given(st.lists(st.text(alphabet="abc", min_size=1), min_size=1, max_size=6), st.integers(1, 5), st.data())
def test_chances_of_what_may_follow_add_up_to_one(training: list[str], order: int, data: Any) -> None:
    model = KneserNey(training, order)
    context = data.draw(st.text(alphabet=sorted(model.codes), max_size=6))
    total = sum(2 ** -(bits(model, context + letter) - bits(model, context)) for letter in model.codes)
    end = 2 ** -(whole(model, context) - bits(model, context))
    assert total + end == pytest.approx(1)


def whole(model: KneserNey, text: str) -> float:
    """Bits of a text and its end."""
    return float(-np.log2(model.chances(model.grams([text], len(model.tables)))).sum())


def bits(model: KneserNey, text: str) -> float:
    """Bits of a text without its end."""
    return float(-np.log2(model.chances(model.grams([text], len(model.tables))[:-1])).sum())


def test_a_higher_order_knows_its_training_text_better() -> None:
    by_order = [KneserNey(POEMS * 2, order).bits_per_character(POEMS) for order in (1, 2, 3)]
    assert by_order == sorted(by_order, reverse=True)
    assert by_order[0] > by_order[-1]


# --- tokenizer, model, run --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    pytest.importorskip("tokenizers", reason="the tokenizer is one of the library tokenizers")
    from training.tokens import train_tokenizer

    return train_tokenizer(POEMS + VERSES)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_known_chinese_character_is_one_token(tokenizer: Any) -> None:
    assert [len(tokenizer.encode(text).ids) for text in ("春", "春风", "鬱")] == [2, 3, 4]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    pytest.importorskip("torch", reason="training is torch")
    from training.model import Shape
    from training.train import Run

    return Run(Shape(512, 32, 48, 2, 4, 2, 8), compiled=False)


def rows(seed: int) -> Any:
    """Two rows that repeat themselves, so that there is something to learn."""
    import torch

    start = torch.randint(2, 512, (2, 8), generator=torch.Generator().manual_seed(seed))
    return torch.cat((torch.zeros(2, 1, dtype=torch.long), start.repeat(1, 3)), 1)


def test_steps_lower_the_loss(run: Any) -> None:
    losses = [run.step(rows(0), 1) for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]


def test_a_run_goes_on_where_it_was_saved(run: Any, tmp_path: Path) -> None:
    import torch

    for seed in range(3):
        run.step(rows(seed), 1)
    run.save(tmp_path / "checkpoint.pt")
    other = type(run)(run.model.shape, compiled=False)
    other.load(tmp_path / "checkpoint.pt")
    assert [run.step(rows(seed), 0.5) for seed in (8, 9)] == [other.step(rows(seed), 0.5) for seed in (8, 9)]
    for mine, its in zip(run.mean.parameters(), other.mean.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_what_is_not_seen_does_not_matter(run: Any) -> None:
    import torch

    ids = rows(0)
    changed = torch.cat((ids[:, :10], ids[:, 10:] % 7 + 2), 1)
    started = torch.cat((ids[:, :10], ids[:, :15]), 1)
    run.step(rows(1), 1)
    with torch.no_grad():
        logits, later, second = (run.model(row) for row in (ids, changed, started))
    assert torch.equal(logits[:, :10], later[:, :10])
    assert torch.allclose(second[:, 10:], logits[:, :15], atol=1e-5), "a document sees the one before it"


def test_what_is_exported_is_what_was_trained(run: Any, tokenizer: Any, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="weights are kept as safetensors")
    from decodelab.models.load import load
    from training.export import export

    run.step(rows(0), 1)
    run.save(tmp_path / "final.pt")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    export(tmp_path / "final.pt", tmp_path / "model")
    model = load(tmp_path / "model")
    assert model.config.eos == (tokenizer.token_to_id("</s>"),)
    trained = run.mean.state_dict()
    assert {name.removeprefix("model.") for name in model.weights} == set(trained)
    for name, weight in model.weights.items():
        assert weight.equal(trained[name.removeprefix("model.")].half().float())


def test_transformers_computes_what_was_trained(run: Any, tokenizer: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="Hugging Face's own model is the oracle")
    import torch

    from training.export import export

    run.step(rows(0), 1)
    run.save(tmp_path / "final.pt")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    export(tmp_path / "final.pt", tmp_path / "model")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    ours = run.mean
    with torch.no_grad():
        for weight in ours.parameters():
            weight.copy_(weight.half())
        torch.testing.assert_close(ours(rows(0)), theirs(rows(0)).logits, atol=1e-4, rtol=1e-4)


# --- what is judged ---------------------------------------------------------------------------------


def test_copied_counts_runs_of_more_than_twenty_characters() -> None:
    pytest.importorskip("torch", reason="the judge of the model runs it")
    from training.evaluate import copied

    source = "abcdefghijklmnopqrstuvwxyz"
    assert copied([source[2:22]], [source]) == 0
    assert copied([source[2:23]], [source]) == 1
    assert copied(["#" * 21 + source[:21]], [source]) == 0.5


def test_padding_changes_no_bit(run: Any, tokenizer: Any) -> None:
    from training.evaluate import bits_per_character

    texts_ = [*POEMS, POEMS[0] + POEMS[1]]
    alone = sum(bits_per_character(run.model, tokenizer, [text]) * len(text) for text in texts_)
    assert bits_per_character(run.model, tokenizer, texts_) * sum(map(len, texts_)) == pytest.approx(
        alone, rel=1e-4
    )
