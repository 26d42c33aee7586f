"""The learner's desk: in a real kernel, and what it keeps on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import datetime

import pytest
from handed_in import ENDLESS, course_folder
from jupyter_client.manager import start_new_kernel

from decodelab import advice, course, learner, records
from decodelab.check.rules import Finding, TodoResult
from decodelab.errors import DecodeLabError
from decodelab.grading import splice
from decodelab.grading.student import Stuck
from decodelab.lang import both, speak
from decodelab.notebook.read import Submission

CH00 = course.load("ch00")
REFERENCE = CH00.answer("ch00-answer").reference
SETUP = "from decodelab import TodoError, check, hint, progress, solution, start\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing a test saves goes to the real home."""
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))
    speak("en")
    return tmp_path / "home"


class Kernel:
    """A notebook's kernel; ``run`` gives what a cell shows: text, html, markdown, error."""

    def __init__(self, **environment):
        self.manager, self.client = start_new_kernel(env=os.environ | environment)

    def run(self, code, seconds=60):
        shown = {"text": "", "html": "", "markdown": "", "error": "", "traceback": ""}

        def show(message):
            content = message["content"]
            data = content.get("data", {})
            shown["text"] += content.get("text", "") + data.get("text/plain", "")
            shown["html"] += data.get("text/html", "")
            shown["markdown"] += data.get("text/markdown", "")
            shown["error"] += content.get("ename", "")
            shown["traceback"] += "\n".join(content.get("traceback", []))

        self.client.execute_interactive(code, timeout=seconds, output_hook=show)
        return shown

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def kernel(kept):
    """One kernel for the module, started as the first cell of the Chinese notebook does."""
    kernel = Kernel(DECODELAB_HOME=str(kept))
    kernel.run(SETUP + 'start("ch00", "zh")')
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def ch01(kept):
    kernel = Kernel(DECODELAB_HOME=str(kept))
    kernel.run(SETUP + 'start("ch01", "en")')
    for code in course.load("ch01").exports:
        if not code.startswith("@"):
            kernel.run(code)
    yield kernel
    kernel.close()


def test_before_the_answer_cell_ran_it_says_which_to_run(kernel):
    shown = kernel.run('%reset -f in\nfrom decodelab import check\ncheck("ch00.1")')
    assert "请先运行写有 TODO ch00.1 的单元格" in shown["html"]
    assert shown["error"] == ""


def test_an_untouched_answer_is_not_started(kernel):
    kernel.run(CH00.answer("ch00-answer").stub["zh"])
    shown = kernel.run('check("ch00.1")')
    assert "尚未开始" in shown["html"]
    assert "尚未开始" in shown["text"]
    assert shown["error"] == ""


def test_a_wrong_answer_hears_the_rule_and_a_right_one_is_kept(kernel, kept):
    wrong = REFERENCE.replace("return 2 * ", "return ")
    assert wrong != REFERENCE
    kernel.run(wrong)
    assert "每个 token 既存 key，也存 value" in kernel.run('check("ch00.1")')["html"]
    kernel.run(REFERENCE)
    assert "通过" in kernel.run('check("ch00.1")')["html"]
    record = json.loads((kept / "ch00.json").read_text(encoding="utf-8"))["todos"]["ch00.1"]
    assert (record["state"], record["lang"]) == ("passed", "zh")
    assert record["answers"]["ch00-answer"].strip() == REFERENCE.strip()
    kernel.run(wrong)
    kernel.run('check("ch00.1")')
    assert json.loads((kept / "ch00.json").read_text(encoding="utf-8"))["todos"]["ch00.1"] == record


def test_what_the_answer_needs_from_other_cells_comes_along(kernel):
    kernel.run("TWO = 2")
    kernel.run("def both_vectors(size):\n    return TWO * size")
    kernel.run(REFERENCE.replace("return 2 * num_tokens", "return both_vectors(num_tokens)"))
    assert "✓" in kernel.run('check("ch00.1")')["text"]


def test_magics_do_not_hide_an_answer(kernel):
    kernel.run("%%time\n" + REFERENCE)
    assert "✓" in kernel.run('check("ch00.1")')["text"]


def test_an_answer_that_is_no_python_is_judged_not_the_one_before(kernel):
    kernel.run(REFERENCE)
    kernel.run(REFERENCE.replace("return 2 * ", "return 2 * * "))
    shown = kernel.run('check("ch00.1")')
    assert "SyntaxError" in shown["text"]
    assert "✓" not in shown["text"]


def test_a_check_leaves_the_learners_objects_alone(ch01):
    for answer in course.load("ch01").answers:
        ch01.run(answer.reference)
    ch01.run("sim = DecodeSchedulerSim()\nsim.enqueue(1, 2)\nsim.step()\nbefore = repr(vars(sim)), dir()")
    assert "✓" in ch01.run('check("ch01.3")')["text"]
    assert ch01.run("print(before == (repr(vars(sim)), [n for n in dir() if n != 'before']))")["error"] == ""
    state = ch01.run("print(len(sim.timeline), sim.queue[0].phase, [n for n in dir() if 'decodelab' in n])")
    assert state["text"].strip() == "1 decode []"


def test_where_two_sequences_part_there_is_a_picture(ch01):
    wrong = course.load("ch01").answer("ch01-answer").reference.replace("-req.priority", "req.priority")
    ch01.run(wrong)
    assert "▼" not in ch01.run('check("ch01.3")')["html"], "the key is the reference's here: TODO 3 is right"
    ch01.run(wrong.replace("min(", "max("))
    shown = ch01.run('check("ch01.3")')
    assert "<img alt=" in shown["html"]
    assert "▼" in shown["html"]


def test_a_pass_of_step_shows_the_learners_own_run_and_does_not_give_the_worked_case_away(ch01):
    for answer in course.load("ch01").answers:
        ch01.run(answer.reference)
    for todo in ("ch01.3", "ch01.5"):
        shown = ch01.run(f'check("{todo}")')["html"]
        assert "steps 12, requests 3" in shown
        assert "<img alt=" in shown
    assert "<img" not in ch01.run('check("ch01.1")')["html"] + ch01.run('check("ch01.2")')["html"]


@pytest.mark.slow
def test_an_endless_answer_is_named_and_the_kernel_lives_on(kernel):
    body = ENDLESS.replace("\n", "\n    ")
    kernel.run(f"def kv_cache_bytes(*args, **kwargs):\n    {body}")
    began = time.monotonic()
    shown = kernel.run('check("ch00.1")')
    assert time.monotonic() - began < 15
    assert "TODO ch00.1 不会结束" in shown["html"]
    assert kernel.run("print(6 * 7)")["text"].strip() == "42"


def endless(answer):
    """An answer cell of chapter 1 whose TODO ch01.2 never returns."""
    return splice.replace_region(answer.reference, "ch01.2", ENDLESS)


def test_an_interrupt_is_one_sentence_and_takes_effect_at_once(ch01):
    ch01.run(endless(course.load("ch01").answers[0]))
    threading.Timer(2, ch01.manager.interrupt_kernel).start()
    began = time.monotonic()
    shown = ch01.run('check("ch01.2")')
    assert time.monotonic() - began < 6
    assert shown["traceback"] == "Stopped."
    assert ch01.run("print(6 * 7)")["text"].strip() == "42"


def test_a_picture_that_nobody_asked_for_takes_two_seconds_at_most():
    chapter = course.load("ch01")
    answers = {answer.grade_id: answer.reference for answer in chapter.answers}
    answers["ch01-answer"] = endless(chapter.answers[0])
    began = time.monotonic()
    with pytest.raises(Stuck):
        learner.own_run(chapter, Submission(answers, "", []), "ch01.2", chapter.checks.PICTURES["ch01.3"])
    assert time.monotonic() - began < 5


def test_hints_solution_and_progress_are_markdown_and_a_table(kernel):
    assert "**提示 1/3" in kernel.run('hint("ch00.1")')["markdown"]
    assert '`hint("ch00.1", 3)`' in kernel.run('hint("ch00.1", "2")')["markdown"]
    assert "```python\nreturn 2 *" in kernel.run('solution("ch00.1")')["markdown"]
    assert "<table" in kernel.run("progress()")["html"]


def test_a_wrong_id_is_one_sentence_not_a_traceback(kernel):
    for call in ('check("ch00.7")', 'hint("ch00.1", 9)', 'hint("ch00.1", True)', 'solution("nonsense")'):
        shown = kernel.run(call)
        assert shown["error"] == ""
        assert shown["html"].startswith("<p>")


def test_a_wrong_call_says_what_to_type(kernel):
    calls = {
        "hint()": "hint(&quot;ch01.2&quot;, 1)",
        "solution()": "solution(&quot;ch01.2&quot;)",
        'check("ch00.1", 2)': "check(&quot;ch01.2&quot;)",
        "progress(1, 2)": "progress()",
    }
    for call, wanted in calls.items():
        shown = kernel.run(call)
        assert shown["error"] == ""
        assert shown["html"] == f"<p>请这样写：{wanted}</p>"


def test_check_without_an_id_takes_the_whole_chapter(ch01):
    first, second = course.load("ch01").answers
    ch01.run("%reset -f in\n" + SETUP)
    shown = ch01.run("check()")
    assert "ch01.1, ch01.2, ch01.3, ch01.4, ch01.5 first" in shown["html"]
    ch01.run(first.reference.replace("-req.priority", "req.priority"))
    shown = ch01.run("check()")
    assert [f"{mark} ch01.{n}" in shown["text"] for n, mark in enumerate("✓✗✓✓", 1)] == [True] * 4
    assert "holds TODO ch01.5 first" in shown["text"]
    ch01.run(first.reference + "\n" + second.reference)
    assert ch01.run('check("ch01")')["text"].count("✓ ch01.") == 5


def test_progress_of_one_chapter(kernel):
    shown = kernel.run('progress("ch00")')["html"]
    assert "ch00.1" in shown
    assert "ch01.1" not in shown
    assert "没有 &#x27;ch77&#x27; 这一章" in kernel.run('progress("ch77")')["html"]
    assert "ch01.1" in kernel.run('progress("all")')["html"]
    own = kernel.run("progress()")["html"]  # of the chapter that this notebook has started
    assert ("ch00.1" in own) != ("ch01.1" in own)


def test_start_says_that_all_is_ready_and_greets_whoever_comes_back(home, tmp_path):
    keep("passed")
    for folder, wanted in (
        (tmp_path, "准备好了：第 0 章，中文版。"),
        (home, "准备好了：第 0 章，中文版。1 个 TODO，你已经通过了 1 个。"),
    ):
        kernel = Kernel(DECODELAB_HOME=str(folder))
        shown = kernel.run(SETUP + 'start("ch00", "zh")')
        kernel.close()
        assert shown["text"].strip() == wanted


def test_check_before_start_says_what_to_type():
    kernel = Kernel()
    shown = kernel.run(SETUP + "check()")
    kernel.close()
    assert 'check("ch01.2")' in shown["text"]
    assert shown["error"] == ""


# On disk -----------------------------------------------------------------------------------------


def result(state, todo="ch00.1"):
    finding = None if state == "passed" else Finding("rule", both(en="no", zh="不"))
    return TodoResult(todo, state, 2, finding)


def keep(state, code="code"):
    records.save(CH00, "en", Submission({"ch00-answer": code}, "", []), [result(state)])
    return records.records("ch00")["ch00.1"]


def test_what_passed_stays_passed():
    assert keep("failed").state == "failed"
    assert keep("failed").answers == {}
    first = keep("passed", "first")
    assert keep("timed_out", "worse") == first
    assert keep("passed", "second").answers == {"ch00-answer": "second"}


def test_a_record_that_cannot_be_read_is_put_aside(home):
    home.mkdir()
    (home / "ch00.json").write_text('{"todos": {"ch00.1": {"sta', encoding="utf-8")
    assert records.records("ch00") == {}
    keep("passed")
    (aside,) = home.glob("ch00.unreadable-*.json")
    assert aside.read_text(encoding="utf-8").startswith('{"todos"')
    assert records.passed("ch00")


def test_nothing_half_written_is_left(home, monkeypatch):
    keep("passed", "old")

    def stop(*_):
        raise OSError("power cut")

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(DecodeLabError, match="power cut"):
        keep("passed", "new")
    monkeypatch.undo()
    data = json.loads((home / "ch00.json").read_text(encoding="utf-8"))
    assert data["todos"]["ch00.1"]["answers"] == {"ch00-answer": "old"}


def test_home_is_the_named_folder_then_a_kept_one_then_ones_own(tmp_path, monkeypatch):
    assert records.home() == tmp_path / "home"
    monkeypatch.delenv("DECODELAB_HOME")
    drive = tmp_path / "MyDrive"
    monkeypatch.setattr("decodelab.home.KEPT_FOLDERS", (str(drive / "decodelab"),))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert records.home() == tmp_path / ".decodelab"
    drive.mkdir()
    assert records.home() == drive / "decodelab"


def test_no_name_is_taken_twice(tmp_path):
    path = tmp_path / "a.ipynb"
    seen = set()
    for _ in range(3):
        name = records.free_name(path, "backup")
        name.touch()
        seen.add(name)
    assert len(seen) == 3
    assert all(f".backup-{datetime.now():%Y%m%d}" in name.name for name in seen)


def test_progress_counts_points_and_marks_the_extension():
    keep("passed")
    rows = {row["todo"]: row for row in advice.progress_rows()}
    assert (rows["ch00.1"]["points"], rows["ch01.1"]["points"]) == (2, 0)
    head, lines = advice.progress_table()
    assert len(head) == len(lines[0]) == len(lines[-1])
    assert any("(extension)" in line[1] for line in lines)
    assert lines[-1][3].startswith("2/")


def test_a_todo_that_was_not_begun_has_no_time():
    keep("not_started")
    (row,) = advice.progress_rows("ch00")
    assert (row["state"], row["when"]) == ("not_started", "")


@pytest.mark.parametrize(
    ("content", "closed"), [('{"closed": ["ch00"]}', True), ("{}", False), ("[1", False)]
)
def test_a_class_can_close_solutions_by_file(home, content, closed):
    home.mkdir()
    (home / "course.json").write_text(content, encoding="utf-8")
    if closed:
        with pytest.raises(DecodeLabError, match="closed"):
            advice.solution_text("ch00.1")
    else:
        assert "return 2" in advice.solution_text("ch00.1")


def test_a_script_in_cells_is_its_own_notebook(tmp_path, capfd):
    assert "✓ ch00.1" in run_script(tmp_path / "mine.py", tmp_path)
    assert "ch00.1" in records.passed("ch00")


def test_what_an_authors_source_passes_is_nobodys_progress(tmp_path):
    folder = course_folder(tmp_path / "course")
    (folder / "solutions").mkdir()
    assert "✓ ch00.1" in run_script(folder / "solutions" / "ch00_preflight.py", folder)
    assert records.records("ch00") == {}


def run_script(script, folder):
    """What chapter 0, solved, prints as a script in cells that is run in ``folder``."""
    cells = [SETUP + 'start("ch00", "en")', REFERENCE, 'check("ch00.1")']
    script.write_text("".join(f"# %%\n{cell}\n\n" for cell in cells), encoding="utf-8")
    return subprocess.run(
        [sys.executable, script], cwd=folder, capture_output=True, encoding="utf-8", check=True
    ).stdout
