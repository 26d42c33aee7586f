"""``decodelab generate``: prompts answered together by the course's own engine, and one sentence where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from handed_in import notebook, write
from test_live import Screen

from decodelab import generate
from decodelab.cli import main
from decodelab.errors import DecodeLabError
from decodelab.lang import speaking


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))


# --- without torch ----------------------------------------------------------------------------------


def machine(cuda: bool = False, mps: bool = False, wide: bool = False) -> Any:
    """What ``place`` asks of torch."""
    return SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: cuda, is_bf16_supported=lambda including_emulation: wide),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
        **{name: name for name in ("float32", "bfloat16", "float16")},
    )


@pytest.mark.parametrize(
    ("there", "device", "dtype", "want"),
    [
        ({}, "auto", "auto", ("cpu", "float32")),
        ({"cuda": True, "wide": True}, "auto", "auto", ("cuda", "bfloat16")),
        ({"cuda": True, "mps": True}, "auto", "auto", ("cuda", "float16")),  # a T4
        ({"mps": True}, "auto", "auto", ("mps", "float16")),
        ({"cuda": True}, "cpu", "auto", ("cpu", "float32")),
        ({"cuda": True}, "auto", "float32", ("cuda", "float32")),
        ({}, "auto", "bfloat16", ("cpu", "bfloat16")),
    ],
)
def test_the_place_is_the_best_there_is(
    there: dict[str, bool], device: str, dtype: str, want: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "library", lambda name: machine(**there))
    assert generate.place(device, dtype) == want


@pytest.mark.parametrize(
    ("there", "device", "dtype", "words"),
    [
        ({}, "cuda", "auto", "--device cpu"),
        ({"cuda": True}, "mps", "auto", "--device cpu"),
        ({"cuda": True}, "auto", "bfloat16", "--dtype float16"),
    ],
)
def test_a_place_there_is_not_is_one_sentence(
    there: dict[str, bool], device: str, dtype: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "library", lambda name: machine(**there))
    with pytest.raises(DecodeLabError) as error:
        generate.place(device, dtype)
    assert all(words in text for text in error.value.text.values())


@pytest.mark.parametrize(
    "odd",
    [
        ["--temperature", "-1"],
        ["--temperature", "nan"],
        ["--top-p", "0"],
        ["--top-p", "1.5"],
        ["--stop", ""],
    ],
)
def test_an_option_out_of_range_is_refused(odd: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--prompt", "x", *odd]) == 2
    said = capsys.readouterr().err
    assert odd[0] in said
    assert len(said.splitlines()) == 1


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("decodelab.models.tokenizer.import_module", no_module)
    assert main(["generate", "--prompt", "x", "--lang", "zh"]) == 2
    assert "decodelab[torch]" in capsys.readouterr().err


def no_module(name: str) -> Any:
    raise ImportError(name)


# --- with torch -------------------------------------------------------------------------------------

PAIR = ["--prompt", "春风", "--prompt", "The spring"]


def answer(*words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["generate", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.torch
def test_two_prompts_in_two_languages(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(*PAIR, "--max-new-tokens", "20", capsys=capsys)
    verse, prose = (output["text"] for output in told["outputs"])
    assert "，" in verse
    assert prose.isascii()
    assert prose.startswith(" ")
    assert [output["reason"] for output in told["outputs"]] == ["length"] * 2
    assert told["stats"]["tokens"] == 40
    assert [event["action"] for event in told["events"]].count("finish") == 2
    served = [event["request_id"] for event in told["events"] if event["action"] == "decode_one_step"]
    assert served == [1, 2] * 18, "both in every step"


@pytest.mark.torch
def test_how_they_are_served_changes_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    three = [*PAIR, "--prompt", "In the beginning"]
    plenty = answer(*three, capsys=capsys)
    tight = answer(
        *three, "--num-blocks", "14", "--block-size", "4", "--max-num-batched-tokens", "3", capsys=capsys
    )
    assert [one["text"] for one in tight["outputs"]] == [one["text"] for one in plenty["outputs"]]
    actions = {event["action"] for event in tight["events"]}
    assert "preempt" in actions
    assert "preempt" not in {event["action"] for event in plenty["events"]}


@pytest.mark.torch
@pytest.mark.parametrize("num_blocks", [None, 14])
def test_the_simulator_tells_the_same_of_it(num_blocks: int | None) -> None:
    wish = generate.Wish(num_blocks=num_blocks, block_size=4, max_num_batched_tokens=3, max_num_seqs=3)
    made = generate.answered(["春风", "The spring", "In the beginning", "明月"], wish)
    real = generate.events_of(made.steps)
    again = generate.simulated(made.steps, generate.scheduler(made.scheduler.config))
    untimed = [[event | {"time": 0.0} for event in some] for some in (real, again)]
    assert untimed[0] == untimed[1]
    assert ("preempt" in {event["action"] for event in real}) is (num_blocks is not None)


@pytest.mark.torch
def test_a_seed_decides_what_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: str) -> list[str]:
        told = answer(*PAIR, "--temperature", "0.8", "--top-p", "0.9", "--seed", seed, capsys=capsys)
        return [output["text"] for output in told["outputs"]]

    assert drawn("1") == drawn("1") != drawn("2")


@pytest.mark.torch
def test_a_stop_text_ends_an_answer_and_is_no_part_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer("--prompt", "春风", "--stop", "，", capsys=capsys)
    assert "，" not in told["outputs"][0]["text"]
    assert told["outputs"][0]["reason"] == "stop"


@pytest.mark.torch
@pytest.mark.parametrize("number", ["ch06", "ch07"])
def test_a_notebooks_own_scheduler(number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = write(tmp_path / "mine.ipynb", notebook(number, "zh"))
    own = answer("--prompt", "春风", "--submission", str(given), capsys=capsys)
    assert own["outputs"] == answer("--prompt", "春风", capsys=capsys)["outputs"]


@pytest.mark.torch
def test_a_notebook_without_a_scheduler_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = write(tmp_path / "mine.ipynb", notebook("ch04", "en"))
    assert main(["generate", "--prompt", "x", "--submission", str(given)]) == 2
    assert "ch04" in capsys.readouterr().err
    todo = write(tmp_path / "todo.ipynb", notebook("ch07", "en", {"ch07.2": 'raise TodoError("ch07.2")'}))
    assert main(["generate", "--prompt", "x", "--submission", str(todo)]) == 2
    assert "ch07.2" in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prompt", "春" * 600], "601"),
        (["--prompt", "春风", "--num-blocks", "1"], "--num-blocks"),
        (["--prompt", "春风", "--num-blocks", str(10**7), "--block-size", str(10**7)], "--block-size"),
        (["--prompt", "春风", "--num-blocks", str(10**30)], "--num-blocks"),
        (["--prompt", "\ud800春"], "UTF-8"),
        (["--prompt", "春风", "--model", "no-such-folder"], "no-such-folder"),
        (["--prompt", "春风", "--device", "mps"], "--device"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for lang in ("en", "zh"):
        with speaking(lang):
            assert main(["generate", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert "Traceback" not in error


@pytest.mark.torch
def test_an_answer_ends_with_the_models_positions(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(
        "--prompt", "春" * 505, "--max-new-tokens", "99", "--max-num-batched-tokens", "512", capsys=capsys
    )
    assert len(told["outputs"][0]["token_ids"]) == 512 - 506


@pytest.mark.torch
def test_the_terminal_ends_with_texts_strip_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["generate", *PAIR, "--max-new-tokens", "12"]) == 0
    seen = "\n".join(screen.seen())
    assert [line[:4] for line in screen.seen() if line[:2] in ("1 ", "2 ")] == [
        "1  春",
        "2  T",
        "1  P",
        "2  P",
    ]
    assert "1  PDDDDDDDDDDF\n2  PDDDDDDDDDDF" in seen
    assert "tokens_per_second" in seen


@pytest.mark.torch
@pytest.mark.parametrize("tiny", [["--temperature", "1e-300"], ["--temperature", "1", "--top-p", "1e-300"]])
def test_what_leaves_one_token_is_greedy(tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--prompt", "春风", "--max-new-tokens", "6"]
    assert answer(*few, *tiny, capsys=capsys)["outputs"] == answer(*few, capsys=capsys)["outputs"]


@pytest.mark.torch
def test_the_pool_is_no_larger_than_the_model_can_use() -> None:
    wish = generate.Wish(max_new_tokens=10**30)
    model = generate.load("embedded")
    made = generate.engine(wish, model, [[1, 2]])
    assert made.scheduler.config.num_blocks * wish.block_size < model.config.max_positions + wish.block_size
