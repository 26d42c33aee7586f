"""Replaying a workload: the times of every request, one line of progress, the log in a file."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from schedulers import TinyScheduler, records_of

from decodelab.errors import DecodeLabError
from decodelab.lang import speaking
from decodelab.log import read_log
from decodelab.meter import Meter
from decodelab.replay import replay
from decodelab.request import Job, Request
from decodelab.run import Loop, StepClock, Workload
from decodelab.sim.executor import SimExecutor
from decodelab.timings import timings
from decodelab.workload import ClosedLoop, chat_like

LOAD = chat_like(30, seed=1, scale=0.02)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """As ipykernel's stream: no terminal, though somebody looks on."""


Notebook.__module__ = "ipykernel.iostream"


def test_it_gives_the_times_of_every_request() -> None:
    seen = replay(LOAD, TinyScheduler(), SimExecutor())
    assert list(seen) == list(timings(Loop(LOAD, TinyScheduler(), SimExecutor())))
    assert all(timing.reason == "length" for timing in seen)


@pytest.mark.parametrize("name", ["log", "log.gz"])
def test_the_log_goes_into_the_file(tmp_path: Path, name: str) -> None:
    jobs = [Job(request, 2 * i) for i, request in enumerate(LOAD)]
    seen = replay(jobs, TinyScheduler(), SimExecutor(), StepClock(), log=tmp_path / name)
    assert read_log(tmp_path / name) == records_of(jobs, clock=StepClock())
    assert list(seen) == list(timings(Loop(jobs, TinyScheduler(), SimExecutor(), StepClock())))


def test_a_log_that_has_no_place_is_refused_before_a_step_is_made(tmp_path: Path) -> None:
    scheduler = TinyScheduler()
    with pytest.raises(DecodeLabError, match="Cannot write the log"):
        replay(LOAD, scheduler, SimExecutor(), log=tmp_path / "nowhere" / "log")
    assert not scheduler.computed


def test_a_log_takes_no_memory_of_its_length(tmp_path: Path) -> None:
    def most(steps: int) -> int:
        tracemalloc.start()
        replay([Request(0, 0.0, 1, steps)], TinyScheduler(), SimExecutor(), log=tmp_path / "log")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    most(10)
    assert most(2000) - most(200) < 1800 * 100  # bytes; a record takes some thousand


def looked_at(workload: Workload, screen: io.StringIO, progress: bool = True) -> str:
    """What a replay wrote, in English, line upon line."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(screen), speaking("en"):
        patch.setattr("decodelab.meter.PAUSE", 0.0)
        replay(workload, TinyScheduler(), SimExecutor(), progress=progress)
    return screen.getvalue()


def test_progress_is_one_line_that_ends() -> None:
    jobs = [Job(request) for request in [*LOAD, Request(0, 0.0, 1, 1), Request("bad", 0.0, 0, 1)]]
    text = looked_at([*jobs, Job(Request("x", 0.0, 1, 9), abort_at=0)], Screen())
    assert text.count("\n") == 1
    assert text.rstrip().split("\r")[-1].startswith("33/33  ")
    assert " s left" in text


@pytest.mark.parametrize("workload", [ClosedLoop(LOAD, 2, 1.0), iter(LOAD)], ids=["closed", "iterator"])
def test_progress_knows_how_many_are_to_come(workload: Workload) -> None:
    assert looked_at(workload, Screen()).split("\r")[-1].startswith("30/30")


def test_nothing_is_said_where_nobody_looks_or_wants_it() -> None:
    assert looked_at(LOAD, Screen(), progress=False) == ""
    assert looked_at(LOAD, io.StringIO()) == ""


# The line


def test_a_notebook_sees_it_without_terminal_codes() -> None:
    stream = Notebook()
    with speaking("zh"):
        Meter(1, stream).show(1)
    assert stream.getvalue().startswith("\r1/1  每秒 ")
    assert "\x1b" not in stream.getvalue()


def test_a_shorter_line_covers_the_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 200.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    stream = Screen()
    with speaking("en"):
        meter = Meter(2000, stream)
        meter.show(1)
        meter.show(1999)
    _, first, second = stream.getvalue().split("\r")
    assert "1999 s left" in first
    assert second.rstrip().endswith(" 0 s left")
    assert len(second) >= len(first)


def test_it_is_not_written_more_often_than_anybody_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(i / 1000 for i in range(2001))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    stream = Screen()
    meter = Meter(2000, stream)
    for done in range(1, 2001):
        meter.show(done)
    assert 15 <= stream.getvalue().count("\r") <= 25
