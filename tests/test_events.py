"""Events: kept on disk without loss, and compared to the first difference."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decodelab.errors import DecodeLabError
from decodelab.events import Event, first_difference, read_jsonl, write_jsonl

EVENT: Event = {
    "request_id": 3,
    "phase": "prefill",
    "action": "prefill_to_decode",
    "prompt_len": 1,
    "generated_len": 0,
}
unhurried = settings(deadline=None)  # a busy machine is no failure
texts = st.text(st.characters(codec="utf-8"))
events: st.SearchStrategy[Event] = st.fixed_dictionaries(
    {
        "request_id": st.integers(),
        "phase": texts,
        "action": texts,
        "prompt_len": st.integers(),
        "generated_len": st.integers(),
    }
)  # type: ignore[assignment]
few = st.lists(st.integers(0, 2), max_size=6)


@unhurried
@given(few, few)
def test_first_difference_is_the_shortest_prefix_that_differs(want: list[int], got: list[int]) -> None:
    at = next((n for n in range(max(len(want), len(got))) if want[: n + 1] != got[: n + 1]), None)
    assert first_difference(want, got) == at


def test_a_prefix_parts_where_it_ends() -> None:
    assert first_difference([1, 2], [1, 2, 3]) == 2
    assert first_difference([1, 2, 3], [1]) == 1
    assert first_difference([], []) is None


@unhurried
@given(st.lists(events))
def test_jsonl_gives_back_what_was_written(timeline: list[Event]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "timeline.jsonl")
        write_jsonl(path, timeline)
        assert read_jsonl(path) == timeline
        assert path.read_bytes().count(b"\n") == len(timeline)


def test_jsonl_is_written_byte_for_byte(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "e.jsonl", [EVENT])
    assert (tmp_path / "e.jsonl").read_bytes() == (
        b'{"request_id": 3, "phase": "prefill", "action": "prefill_to_decode", '
        b'"prompt_len": 1, "generated_len": 0}\n'
    )


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1, 2]",
        "{}",
        '{"request_id": 1, "phase": "decode", "action": "finish", "prompt_len": 1}',
        '{"request_id": 1, "phase": "decode", "action": "finish", "prompt_len": 1, "generated_len": true}',
        '{"request_id": 1, "phase": "decode", "action": "finish", "prompt_len": 1, "generated_len": 1, "x": 0}',
        "[" * 100_000,
        "9" * 5_000,
        "\x00",
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "e.jsonl"
    write_jsonl(path, [EVENT])
    path.write_text(path.read_text() + "\r\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DecodeLabError, match=r"e\.jsonl, line 3 is not an event") as caught:
        read_jsonl(path)
    assert "e.jsonl 第 3 行不是事件" in caught.value.text["zh"]


@pytest.mark.parametrize("path", ["nowhere.jsonl", "a\0b", "."])
def test_a_file_that_cannot_be_read_says_so(path: str) -> None:
    with pytest.raises(DecodeLabError, match="check the path"):
        read_jsonl(path)


@unhurried
@given(st.binary())
def test_no_file_crashes_the_reader(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "e.jsonl")
        path.write_bytes(content)
        try:
            timeline: Any = read_jsonl(path)
        except DecodeLabError:
            return
        assert all(event.keys() == EVENT.keys() for event in timeline)
