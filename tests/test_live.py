"""What a terminal sees: texts that grow in place, and the event strip in letters."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedulers import records_of
from strategies import CROWD, TIGHT

from decodelab.log import events
from decodelab.request import EOS, Job, Request
from decodelab.run import StepClock
from decodelab.show.live import LEGEND, SIGNS, Lines, strip_text, tail
from decodelab.show.tell import width


class Screen(io.StringIO):
    """A terminal that knows two codes: so many lines up, and clear what is below."""

    def isatty(self) -> bool:
        return True

    def seen(self) -> list[str]:
        lines: list[str] = []
        at = 0
        for part in re.findall(r"\x1b\[\d+F\x1b\[J|[^\n\x1b]*\n", self.getvalue()):
            if up := re.match(r"\x1b\[(\d+)F", part):
                at -= int(up[1])
                del lines[at:]
            else:
                lines.append(part.rstrip("\n"))
                at += 1
        return lines


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")


def test_two_texts_grow_in_place(narrow: None) -> None:
    screen = Screen()
    lines = Lines(["1", "2"], screen)
    lines.show("1", "春风")
    assert screen.seen() == ["1  春风", "2  "]
    lines.show("2", "The\nspring")
    lines.show("1", "春风吹我醉，春色满园林")
    assert screen.seen() == ["1  …吹我醉，春色满园林", "2  The⏎spring"]
    assert all(width(line) <= 24 for line in screen.seen())
    lines.close()
    assert screen.seen() == ["1  春风吹我醉，春色满园林", "2  The⏎spring"]


def test_nothing_new_writes_nothing() -> None:
    screen = Screen()
    lines = Lines(["1"], screen)
    lines.show("1", "a")
    before = screen.getvalue()
    lines.show("1", "a")
    assert screen.getvalue() == before


@given(st.lists(st.text("ab 春\n", max_size=30), max_size=8))
def test_without_a_terminal_every_character_comes_once(pieces: list[str]) -> None:
    stream = io.StringIO()
    lines, text = Lines(["7"], stream), ""
    for piece in pieces:
        text += piece
        lines.show("7", text)
    lines.show("7", text, over=True)
    lines.close()
    told = stream.getvalue().split("\n")[:-1]
    assert all(line.startswith("7  ") for line in told)
    assert "".join(line[3:] for line in told) == text.replace("\n", "⏎")
    assert all(width(line) >= 32 for line in told[:-1])


@given(st.text("ab春，", max_size=40), st.integers(8, 40))
def test_a_tail_fits_and_is_as_long_as_can_be(text: str, columns: int) -> None:
    got = tail(text, columns)
    assert width(got) <= columns
    if got != text:
        assert text.endswith(got[1:])
        assert got[0] == "…"
        assert columns - width(got) < 2


def test_the_strip_in_letters() -> None:
    jobs = [
        Job(Request(1, 0.0, 2, 3)),
        Job(Request("two", 0.0, 1, 9, stop_token_ids=(EOS,)), 1, stop_at=1),
        Job(Request(3, 0.0, 4, 4), 1, abort_at=3),
        Job(Request(4, 0.0, 0, 1), 2),
    ]
    made = events(records_of(jobs, clock=StepClock()), [job.request for job in jobs])
    assert strip_text(made, {1: "春"}).split("\n") == [
        "     0",
        "春   PDF",
        "two   PF",
        "3     PDC",
        "4      R",
    ]


def test_preemption_and_waiting_have_their_letters() -> None:
    made = events(records_of(CROWD, TIGHT, clock=StepClock()), [job.request for job in CROWD])
    strip = strip_text(made)
    assert {"x", "·", "P", "D"} <= set(strip)
    assert strip.count("F") == len(CROWD)


@given(st.integers(5, 60))
def test_a_long_strip_goes_on_below(columns: int) -> None:
    made = events(records_of(CROWD, TIGHT, clock=StepClock()), [job.request for job in CROWD])
    whole = [line[3:] for line in strip_text(made, columns=1000).split("\n")[1:]]
    cut = strip_text(made, columns=columns).split("\n")
    parts = [cut[i : i + 1 + len(CROWD)] for i in range(0, len(cut), 1 + len(CROWD))]
    for number, row in enumerate(whole):
        assert "".join(part[1 + number][3:].ljust(columns) for part in parts).rstrip() == row
    assert [int(part[0].split()[0]) for part in parts] == list(range(0, len(parts) * columns, columns))


def test_the_legend_explains_every_letter() -> None:
    for text in LEGEND.values():
        assert all(re.search(rf"(?<![A-Za-z]){re.escape(sign)}(?![A-Za-z])", text) for sign in SIGNS.values())
