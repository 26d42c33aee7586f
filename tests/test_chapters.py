"""Chapters compose: whose code ``chapter()`` loads, and that it says so."""

from __future__ import annotations

import sys

import pytest

from decodelab import chapters, course, records
from decodelab.check.rules import TodoResult
from decodelab.errors import DecodeLabError
from decodelab.grading import splice
from decodelab.lang import speak
from decodelab.notebook.read import Submission

CH00, CH01 = course.load("ch00"), course.load("ch01")
MINE = "MINE = True\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A desk with nothing on it; chapters are loaded anew."""
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path))
    chapters.chapter.cache_clear()
    speak("en")
    return tmp_path


def keep(chapter, answers, todos=None, definitions=""):
    wanted = todos or [t.id for t in chapter.todos]
    results = [TodoResult(todo, "passed", 1) for todo in wanted]
    records.save(chapter, "zh", Submission(answers, definitions, []), results)


def answers(chapter, **changes):
    """The reference's answer cells with a mark in them, and other code in some TODOs."""
    cells = {answer.grade_id: MINE + answer.reference for answer in chapter.answers}
    for todo, code in changes.items():
        todo = chapter.todo(f"{chapter.id}.{todo.removeprefix('todo')}")
        cells[todo.answer] = splice.replace_region(cells[todo.answer], todo.id, code)
    return cells


def test_a_number_is_no_chapter():
    with pytest.raises(DecodeLabError, match=r"no chapter '4'; this package has .*ch04"):
        chapters.chapter(4)


def test_without_saved_work_the_reference_is_used(capsys):
    module = chapters.chapter("ch00")
    assert module.kv_cache_bytes(10, 30, 3, 64, 2) == 230_400
    assert "reference" in (said := capsys.readouterr().out)
    assert "ch00.1" in said
    assert len(said.splitlines()) == 1


def test_finished_work_is_ones_own(capsys):
    keep(CH01, answers(CH01))
    module = chapters.chapter("ch01")
    assert module.MINE
    sim = module.DecodeSchedulerSim()
    sim.enqueue(1, 2)
    assert [event["action"] for event in sim.run()] == ["prefill_to_decode", "decode_one_step", "finish"]
    assert "your own code" in capsys.readouterr().out


def test_definitions_from_other_cells_come_along():
    keep(CH00, answers(CH00, todo1="return size(locals())"), definitions=(
        "def size(shape):\n    total = 2\n    for n in shape.values():\n        total *= n\n    return total\n"
    ))  # fmt: skip
    assert chapters.chapter("ch00").kv_cache_bytes(1, 2, 3, 4, 5) == 240


def test_an_extension_is_not_asked_for_and_is_the_references_meanwhile():
    core = [t.id for t in CH01.todos if t.level == "core"]
    keep(CH01, answers(CH01, todo5='raise TodoError("ch01.5")'), core)
    own = chapters.chapter("ch01")
    assert own.MINE
    fast = own.FastDecodeSchedulerSim()
    fast.enqueue(1, 2)
    assert [event["action"] for event in fast.run()] == ["prefill_to_decode", "decode_one_step", "finish"]


@pytest.mark.parametrize("left_out", ["ch01.1", "ch01.4"])
def test_one_core_todo_missing_is_named(left_out, capsys):
    speak("zh")
    keep(CH01, answers(CH01), [t.id for t in CH01.todos if t.id != left_out])
    assert not hasattr(chapters.chapter("ch01"), "MINE")
    said = capsys.readouterr().out
    assert "参考实现" in said
    assert left_out in said


def test_saved_work_that_no_longer_passes_is_refused_by_name(capsys):
    keep(CH01, answers(CH01, todo2="return (req.request_id,)"))
    assert not hasattr(chapters.chapter("ch01"), "MINE")
    assert "ch01.2" in capsys.readouterr().out


def test_a_later_experiment_does_not_take_finished_work_away(monkeypatch):
    keep(CH01, answers(CH01))
    broken = answers(CH01, todo2="return (req.request_id,)")
    later = records.Record("passed", "2999-01-01T00:00:00", "en", broken, "")
    known = records.records("ch01") | {"ch01.1": later}
    monkeypatch.setattr(records, "records", lambda chapter_id: known)
    assert chapters.chapter("ch01").MINE


def test_loaded_once_a_process(capsys):
    first = chapters.chapter("ch00")
    assert chapters.chapter("ch00") is first
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert sys.modules[first.__name__] is first


def test_only_exports_run():
    module = chapters.chapter("ch00")
    assert "MODELS" not in vars(module), "an experiment's cell was run"
    assert "start" not in vars(module), "the setup cell was run"


def test_a_traceback_quotes_the_learners_line():
    keep(
        CH00,
        answers(CH00, todo1="return 2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value"),
    )
    with pytest.raises(TypeError) as error:
        chapters.chapter("ch00").kv_cache_bytes([], {}, 1, 1, 1)
    assert "return 2 * num_tokens" in str(error.traceback[-1].statement)


def test_a_learners_code_is_run_as_in_a_notebook(capsys):
    keep(CH00, answers(CH00, todo1="display(num_tokens)\nreturn 2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value"), definitions=(
        "def size(n: int): ...\nassert size.__annotations__['n'] is int"
    ))  # fmt: skip
    assert chapters.chapter("ch00").kv_cache_bytes(7919, 1, 1, 1, 1) == 2 * 7919
    assert capsys.readouterr().out.endswith("7919\n")
