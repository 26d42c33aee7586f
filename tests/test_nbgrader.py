"""Grading through nbgrader's own commands: what is released, what a submission gets, what a student reads.

One course folder for the whole module: a copy of the checkout, as a stranger has it, in which nbgrader's
commands are run once over all the submissions below.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from decodelab.check.rules import Finding, TodoResult
from decodelab.course import load
from decodelab.errors import DecodeLabError
from decodelab.grading import splice
from decodelab.grading.batch import Verdict, result_path
from decodelab.grading.grade import Graded
from decodelab.grading.suites import load_suite
from decodelab.lang import both, speaking

pytest.importorskip("nbgrader", reason="pip install nbgrader to test grading")

import nbformat
from nbformat import from_dict
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from decodelab.grading.nbgrader_plugin import (
    Judge,
    configure,
    for_student,
    not_read,
    notebook_of,
    older,
    outputs,
    write_source,
)
from decodelab.notebook.build import instructor_notebook
from decodelab.notebook.read import find_answers, from_content

ROOT = Path(__file__).parent.parent
CHAPTER = load("ch01")
FILE = f"{CHAPTER.name}.ipynb"
WRONG = {v.name: v for v in load_suite(ROOT / "grader", "ch01").WRONG}
POINTS = {t.id: t.points for t in CHAPTER.todos}
EVIL = "<script>alert(1)</script>"
RAN = "student-code-ran.txt"
ENDLESS = """
while True:
    try:
        pass
    except BaseException:
        pass
"""

Notebook = dict[str, Any]


def solved(lang: str = "en") -> Notebook:
    return instructor_notebook(ROOT / "solutions" / f"{CHAPTER.name}.py", lang)


def untouched(lang: str) -> Notebook:
    return json.loads((ROOT / "notebooks" / lang / FILE).read_text(encoding="utf-8"))


def cell_of(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    return next(c for c in notebook["cells"] if c["id"] == grade_id)


def but(code: dict[str, str], lang: str = "en") -> Notebook:
    """Solved, with other code in some TODOs."""
    notebook = solved(lang)
    for todo, lines in code.items():
        cell = cell_of(notebook, CHAPTER.todo(todo).answer)
        cell["source"] = splice.replace_region("".join(cell["source"]), todo, lines)
    return notebook


def mistakes() -> Notebook:
    """A different mistake in each core TODO, and code beside the answers."""
    notebook = but(
        {
            "ch01.1": f"print({EVIL!r})\nraise RuntimeError({EVIL!r})",
            **WRONG["priority sign"].regions,
            **WRONG["last instead of best"].regions,
            "ch01.4": ENDLESS,
        },
        "zh",
    )
    beside: dict[str, Any] = {
        "cell_type": "code",
        "id": "beside",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
    }
    notebook["cells"].append(beside | {"source": f"open({RAN!r}, 'w').close()"})
    return notebook


def without(*grade_ids: str) -> Notebook:
    notebook = solved()
    notebook["cells"] = [c for c in notebook["cells"] if c["id"] not in grade_ids]
    return notebook


def doubled() -> Notebook:
    """An untouched answer and check before the solved ones, with the same grade ids."""
    notebook = solved()
    first = [copy.deepcopy(cell_of(untouched("en"), i)) for i in ("ch01-answer", "ch01-1")]
    for cell in first:
        cell["id"] += "-copy"
    notebook["cells"][1:1] = first
    return notebook


def forged() -> Notebook:
    """Untouched, but its check cells claim to be worth more, to be no check cells, or hold a float."""
    notebook = untouched("en")
    cell_of(notebook, "ch01-1")["metadata"]["nbgrader"]["points"] = 100
    cell_of(notebook, "ch01-2")["metadata"]["nbgrader"] |= {"grade": False, "locked": False}
    cell_of(notebook, "ch01-3")["metadata"]["nbgrader"] |= {"solution": True}
    cell_of(notebook, "ch01-4")["source"] = "2.0"
    cell_of(notebook, "ch01-5")["metadata"]["nbgrader"] = {"grade": True}
    return notebook


def unmarked() -> Notebook:
    """Solved, as a platform gives it back that drops all metadata and renames the cells."""
    notebook = solved("zh")
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"], cell["id"] = {}, f"cell-{number}"
    return notebook


def bare() -> Notebook:
    """Solved, without the parts that nbformat insists on."""
    notebook = unmarked()
    notebook["metadata"] = None
    for cell in notebook["cells"]:
        cell["metadata"] = None
        for part in ("id", "outputs", "execution_count"):
            cell.pop(part, None)
    notebook["cells"] += [None, {}, {"cell_type": "code", "source": {"a": 1}}]
    return {"cells": notebook["cells"], "metadata": None}


def old() -> Notebook:
    """Solved, in the form of nbformat 3, damaged."""
    cells = [
        {"cell_type": "code", "input": c["source"], "language": "python", "outputs": 3}
        for c in solved()["cells"]
        if c["cell_type"] == "code"
    ]
    return {"worksheets": [1, {"cells": cells}], "nbformat": 3}


def stub_last() -> Notebook:
    """The answer cell doubled, the stub below."""
    notebook = solved()
    at = notebook["cells"].index(cell_of(notebook, "ch01-answer"))
    notebook["cells"].insert(at + 1, copy.deepcopy(cell_of(untouched("en"), "ch01-answer")))
    return notebook


def in_a_new_cell() -> Notebook:
    """The answer in a cell of the student's own above the stub that was left."""
    notebook = stub_last()
    cell = cell_of(notebook, "ch01-answer")
    cell["id"], cell["metadata"] = "own", {}
    return notebook


SUBMISSIONS: dict[str, Callable[[], Notebook]] = {
    "solved-en": solved,
    "solved-zh": lambda: solved("zh"),
    "untouched-zh": lambda: untouched("zh"),
    "left-out": lambda: but({"ch01.3": 'raise TodoError("ch01.3")'}, "zh"),
    "mistakes": mistakes,
    "no-check-cell": lambda: without("ch01-1", "ch01-4"),
    "no-answer": lambda: without("ch01-answer", "ch01-1"),
    "doubled": doubled,
    "forged": forged,
    "unmarked": unmarked,
    "utf-16": solved,
    "gb18030": lambda: solved("zh"),
    "bare": bare,
    "old": old,
    "stub-last": stub_last,
    "new-cell": in_a_new_cell,
}
BROKEN = {"cut-off": '{"cells": [', "no-notebook": "<html>"}
HANDED_IN = [*SUBMISSIONS, *BROKEN]
WORTH_LESS = {"untouched-zh", "left-out", "mistakes", "no-answer", "forged"}
ENCODINGS = {"utf-16": "utf-16", "gb18030": "gb18030", "bare": "utf-8-sig"}  # else utf-8


@dataclass
class Course:
    """The course folder after all commands."""

    folder: Path

    def cells(self, student: str) -> dict[str, dict[str, Any]]:
        """A student's graded check cells by TODO."""
        path = self.folder / "autograded" / student / "ch01" / FILE
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return {c["metadata"]["decodelab"]["todo"]: c for c in cells if "decodelab" in c["metadata"]}

    def verdict(self, student: str, todo: str) -> dict[str, Any]:
        return self.cells(student)[todo]["metadata"]["decodelab"]

    def points(self, student: str) -> dict[str, float]:
        """A student's points by TODO, from the gradebook."""
        with api(self.folder).gradebook as gradebook:
            grades = gradebook.find_submission_notebook(CHAPTER.name, "ch01", student).grades
            return {g.name.replace("-", "."): g.score for g in grades}

    def feedback(self, student: str) -> str:
        return (self.folder / "feedback" / student / "ch01" / f"{CHAPTER.name}.html").read_text(
            encoding="utf-8"
        )


def api(folder: Path) -> NbGraderAPI:
    config = Config()
    configure(config, folder)
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def nbgrader(folder: Path, *arguments: str) -> None:
    """Run a command in the course folder, its environment's bin not on the PATH."""
    away = os.pathsep.join(
        p for p in os.environ["PATH"].split(os.pathsep) if p != str(Path(sys.executable).parent)
    )
    run = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env=os.environ | {"PATH": away},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "solutions").mkdir()
    shutil.copy(ROOT / "solutions" / f"{CHAPTER.name}.py", checkout / "solutions")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    folder = checkout / "grader"
    folder.mkdir()
    shutil.copy(ROOT / "grader" / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "grader" / "suites", folder / "suites")
    nbgrader(folder, "generate_assignment", "ch01")
    texts = {student: json.dumps(make(), ensure_ascii=False) for student, make in SUBMISSIONS.items()}
    for student, text in (texts | BROKEN).items():
        path = folder / "submitted" / student / "ch01" / FILE
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding=ENCODINGS.get(student, "utf-8"))
    for command in (["autograde", "ch01"], ["generate_feedback", "ch01"], ["export"]):
        nbgrader(folder, *command)
    return Course(folder)


# --- what is released -------------------------------------------------------------------------


def test_the_release_is_the_learners_notebook(course: Course) -> None:
    release = json.loads((course.folder / "release" / "ch01" / FILE).read_text(encoding="utf-8"))
    for cell in release["cells"]:
        cell["source"] = "".join(cell["source"])
        for added in ("deletable", "editable"):
            cell["metadata"].pop(added, None)
        for added in ("checksum", "cell_type"):
            cell["metadata"].get("nbgrader", {}).pop(added, None)
    want = untouched("en")
    want["metadata"]["decodelab"].pop("digest", None)
    for cell in want["cells"]:
        cell["source"] = "".join(cell["source"])
    assert release == want


def test_the_source_is_the_reference_and_is_written_once(tmp_path: Path) -> None:
    (path,) = write_source(ROOT, tmp_path, ["ch01"])
    assert json.loads(path.read_text(encoding="utf-8")) == solved()
    assert path == tmp_path / "source" / "ch01" / FILE
    assert write_source(ROOT, tmp_path, ["ch01"]) == []
    os.utime(path, (1, 1))
    assert write_source(ROOT, tmp_path, ["ch01"]) == [path]


def test_older(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    assert older(new, old)
    for path, when in ((old, 1), (new, 2)):
        path.touch()
        os.utime(path, (when, when))
    assert older(old, new)
    assert not older(new, old, tmp_path / "none")


def written(tmp_path: Path, content: Any, encoding: str = "utf-8") -> Path:
    path = tmp_path / FILE
    path.write_bytes(json.dumps(content, ensure_ascii=False).encode(encoding, "replace"))
    return path


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "gb18030", "gbk", "big5"])
def test_nbgrader_reads_any_encoding(tmp_path: Path, encoding: str) -> None:
    found = find_answers(from_content(notebook_of(written(tmp_path, solved("zh"), encoding))).cells, CHAPTER)
    for grade_id, source in find_answers(from_content(solved("zh")).cells, CHAPTER).answers.items():
        assert (
            ast.dump(ast.parse(found.answers[grade_id])) == ast.dump(ast.parse(source)) or encoding == "big5"
        )
        assert compile(found.answers[grade_id], grade_id, "exec")


@pytest.mark.parametrize(
    "damage",
    [
        lambda nb: nb.pop("metadata"),
        lambda nb: nb.update(metadata=[1]),
        lambda nb: nb.update(metadata={"decodelab": [1]}),
        lambda nb: nb["metadata"].update(decodelab={"unreadable": "x"}),
        lambda nb: nb.update(nbformat="4", nbformat_minor=None),
        lambda nb: nb.pop("nbformat"),
        lambda nb: [cell.pop("metadata") for cell in nb["cells"]],
        lambda nb: [cell.update(id=None, metadata=None) for cell in nb["cells"]],
        lambda nb: nb["cells"].extend(
            [None, "x", {}, {"cell_type": "heading"}, {"cell_type": "code", "source": 3}]
        ),
        lambda nb: nb["cells"].append(
            {"cell_type": "code", "source": "1", "outputs": [{"output_type": "no"}]}
        ),
    ],
)
def test_nbgrader_reads_what_nbformat_refuses(tmp_path: Path, damage: Callable[[Notebook], object]) -> None:
    notebook = solved()
    damage(notebook)
    read = notebook_of(written(tmp_path, notebook))
    assert not_read(read) is None
    answers = find_answers(from_content(read).cells, CHAPTER).answers
    assert answers == find_answers(from_content(solved()).cells, CHAPTER).answers
    nbformat.writes(read)


# --- points -----------------------------------------------------------------------------------


@pytest.mark.parametrize("student", [s for s in SUBMISSIONS if s not in WORTH_LESS])
def test_all_points(course: Course, student: str) -> None:
    assert course.points(student) == POINTS


@pytest.mark.parametrize("student", ["untouched-zh", "forged"])
def test_no_points(course: Course, student: str) -> None:
    assert course.points(student) == dict.fromkeys(POINTS, 0.0)
    assert {course.verdict(student, t)["state"] for t in POINTS} == {"not_started"}


def test_a_todo_left_out_costs_its_own_points(course: Course) -> None:
    assert course.points("left-out") == POINTS | {"ch01.3": 0.0}
    assert course.verdict("left-out", "ch01.3")["state"] == "not_started"


def test_every_mistake_is_named_for_itself(course: Course) -> None:
    verdicts = {t: course.verdict("mistakes", t) for t in POINTS}
    assert {t: (v["state"], v["rule"]) for t, v in verdicts.items()} == {
        "ch01.1": ("failed", "no-exception"),
        "ch01.2": ("failed", "priority-first"),
        "ch01.3": ("failed", WRONG["last instead of best"].rule),
        "ch01.4": ("timed_out", "ends"),
        "ch01.5": ("passed", None),
    }
    assert course.points("mistakes") == dict.fromkeys(POINTS, 0.0) | {"ch01.5": POINTS["ch01.5"]}


@pytest.mark.parametrize("student", BROKEN)
def test_what_cannot_be_read_is_said_to_be_so(course: Course, student: str) -> None:
    assert course.points(student) == dict.fromkeys(POINTS, 0.0)
    assert {course.verdict(student, t)["state"] for t in POINTS} == {"unreadable"}
    assert FILE in course.feedback(student)


def test_a_missing_answer_is_not_found(course: Course) -> None:
    lost = {t.id: 0.0 for t in CHAPTER.todos if t.answer == "ch01-answer"}
    assert course.points("no-answer") == POINTS | lost
    assert {course.verdict("no-answer", t)["state"] for t in lost} == {"not_found"}
    assert "# TODO ch01.1" in course.feedback("no-answer")


def test_the_formgrader_has_a_row_for_every_submission(course: Course) -> None:
    rows = {row["student"]: row for row in api(course.folder).get_submissions("ch01")}
    assert rows.keys() == set(HANDED_IN)
    assert all(row["autograded"] and not row["needs_manual_grade"] for row in rows.values())
    assert rows["solved-zh"]["score"] == rows["solved-zh"]["max_score"] == sum(POINTS.values())


def test_export_has_the_points(course: Course) -> None:
    with open(course.folder / "grades.csv", encoding="utf-8") as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores == {student: sum(course.points(student).values()) for student in HANDED_IN}


# --- verdict and feedback ---------------------------------------------------------------------


def test_the_verdict_is_stored_as_data(course: Course) -> None:
    verdict = course.verdict("mistakes", "ch01.2")
    assert set(verdict["message"]) == {"en", "zh"}
    assert verdict["sandbox"]
    assert verdict["cases"] > 0
    seeds = {course.verdict(student, "ch01.1")["seed"] for student in HANDED_IN}
    assert len(seeds) == len(HANDED_IN)


def test_feedback_speaks_the_submissions_language(course: Course) -> None:
    title = CHAPTER.todo("ch01.2").title
    assert f"✓ ch01.2 {title['zh']}" in course.feedback("solved-zh")
    assert f"✓ ch01.2 {title['en']}" in course.feedback("solved-en")
    assert "priority 大的先服务" in course.feedback("mistakes")


def test_what_a_student_printed_or_raised_is_escaped(course: Course) -> None:
    page = course.feedback("mistakes")
    _, _, after = page.partition('name="ch01-1"')
    shown, _, _ = after.partition('name="ch01-2"')
    assert "no-exception" in shown
    assert shown.count("alert(1)") >= 2
    assert EVIL not in page


def test_a_visible_workload_is_shown(course: Course) -> None:
    page = course.cells("mistakes")["ch01.3"]["outputs"][0]["data"]["text/html"]
    assert course.verdict("mistakes", "ch01.3")["case"] in "".join(page)
    assert "<table" in "".join(page)


def test_of_a_hidden_workload_nothing_expected_is_shown_and_no_more_than_three_events_before() -> None:
    hidden = load_suite(ROOT / "grader", "ch01").DIRECTED["ch01.3"][0]
    expected = {"request_id": 7351, "action": "finish"}
    own = [{"request_id": 8100 + i, "action": "finish"} for i in range(9)]
    finding = Finding(
        "cache-first",
        both(en="a hit goes first", zh="命中的先执行"),
        want=[expected] * 9,
        got=own,
        at=6,
        state=[{"request_id": 5}],
        case=hidden,
        printed="7351",
    )
    result = TodoResult("ch01.3", "failed", 3, finding)
    for lang, words in finding.text.items():
        with speaking(lang):
            shown = json.dumps(outputs(for_student(result, CHAPTER)), ensure_ascii=False)
        assert "cache-first" in shown
        assert words in shown
        assert "7351" not in shown
        assert [e["request_id"] for e in own if f"{e['request_id']}F" in shown] == [8103, 8104, 8105, 8106]
        assert hidden["name"] in shown
    assert finding.case == hidden


def test_a_fault_of_ours_leaves_a_submission_ungraded(course: Course, tmp_path: Path) -> None:
    judge = Judge(course=str(course.folder), grader=str(tmp_path))
    resources = {"nbgrader": {"student": "ann", "assignment": "ch01", "notebook": CHAPTER.name}}
    with pytest.raises(DecodeLabError, match="No hidden suite"):
        judge.preprocess(from_dict(solved()), resources)


def test_a_check_cell_without_a_verdict_is_no_pass(course: Course) -> None:
    notebook = from_dict(untouched("en"))
    cell = next(c for c in notebook.cells if c.id == "ch01-5")
    cell.metadata.nbgrader.grade_id = "ch01-6"
    judge = Judge(course=str(course.folder), grader=str(course.folder))
    resources = {"nbgrader": {"student": "ann", "assignment": "ch01", "notebook": CHAPTER.name}}
    with pytest.raises(DecodeLabError, match="ch01-6"):
        judge.preprocess(notebook, resources)


def test_nbgrader_ran_no_student_code_itself(course: Course) -> None:
    assert RAN in (course.folder / "autograded" / "mistakes" / "ch01" / FILE).read_text(encoding="utf-8")
    assert not list(course.folder.rglob(RAN))


# --- decodelab grade and pytest grader say the same ---------------------------------------------


@dataclass
class Twin:
    """The same submissions and two damaged ones, graded by ``decodelab grade`` into a gradebook of its own."""

    course: Course
    out: Path

    def graded(self, student: str) -> Graded:
        path = result_path(self.out, student, "ch01")
        return Verdict.from_json(json.loads(path.read_text(encoding="utf-8"))).graded


@pytest.fixture(scope="session")
def twin(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    checkout = tmp_path_factory.mktemp("twin")
    shutil.copytree(course.folder.parent, checkout, dirs_exist_ok=True)
    folder = checkout / "grader"
    for made in ("autograded", "feedback", "release"):
        shutil.rmtree(folder / made)
    (folder / "gradebook.db").unlink()
    (folder / "submitted" / "cut-off" / "ch01" / "timestamp.txt").write_text("2026-10-01 12:00:00 UTC\n")
    twin = Twin(Course(folder), checkout / "out")
    assert regrade(twin).returncode == 0
    return twin


def command(twin: Twin) -> list[str]:
    folder = twin.course.folder
    words = ["grade", str(folder / "submitted"), "--out", str(twin.out), "--grader", str(folder)]
    return [sys.executable, "-m", "decodelab.cli", *words, "--gradebook", str(folder)]


def regrade(twin: Twin) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(twin), capture_output=True, text=True, encoding="utf-8", check=False)


def shown(folder: Path, student: str) -> list[dict[str, Any]]:
    """The autograded cells but for what differs from run to run: ids that nbformat draws, and where a loop was."""
    content = json.loads((folder / "autograded" / student / "ch01" / FILE).read_text(encoding="utf-8"))
    cells = [{k: v for k, v in cell.items() if k != "id"} for cell in content["cells"]]
    return [c for c in cells if c["metadata"].get("decodelab", {}).get("state") != "timed_out"]


@pytest.mark.parametrize("student", HANDED_IN)
def test_grade_and_autograde_say_the_same(course: Course, twin: Twin, student: str) -> None:
    assert twin.course.points(student) == course.points(student)
    told = {r.todo: (r.state, r.rule or None) for r in twin.graded(student).todos}
    verdicts = {t: course.verdict(student, t) for t in POINTS}
    assert told == {t: (v["state"], v["rule"]) for t, v in verdicts.items()}
    assert {r.todo: r.points for r in twin.graded(student).todos} == course.points(student)


ALIKE = sorted(
    {*HANDED_IN} - {"doubled", "stub-last"}
)  # nbgrader strips the double before anybody can note it


@pytest.mark.parametrize("student", ALIKE)
def test_grade_writes_what_autograde_writes(course: Course, twin: Twin, student: str) -> None:
    assert shown(twin.course.folder, student) == shown(course.folder, student)


@pytest.mark.parametrize("student", ["left-out", "no-answer", "unmarked"])
def test_pytest_grader_passes_what_autograde_passes(course: Course, tmp_path: Path, student: str) -> None:
    grader = tmp_path / "grader"
    shutil.copytree(course.folder, grader, ignore=shutil.ignore_patterns("*ed", "gradebook.db", "nbgrader*"))
    for name in ("conftest.py", "test_submission.py"):
        shutil.copy(ROOT / "grader" / name, grader)
    path = course.folder / "submitted" / student / "ch01" / FILE
    command = [sys.executable, "-m", "pytest", "grader", "-rA", "-p", "no:cacheprovider"]
    command += ["--submission", str(path), "--student", student]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
    told = re.findall(r"^(PASSED|FAILED) .*::test_todo\[(\w+)\]", run.stdout, re.M)
    assert {todo.replace("_", "."): outcome == "PASSED" for outcome, todo in told} == {
        todo: course.verdict(student, todo)["state"] == "passed" for todo in POINTS
    }


def test_the_formgrader_lists_what_grade_judged(twin: Twin) -> None:
    rows = {row["student"]: row for row in api(twin.course.folder).get_submissions("ch01")}
    assert rows.keys() == set(HANDED_IN)
    assert all(row["autograded"] and not row["needs_manual_grade"] for row in rows.values())
    assert {rows[student]["score"] for student in BROKEN} == {0}
    assert {r.state for student in BROKEN for r in twin.graded(student).todos} == {"unreadable"}
    assert "2026-10-01" in rows["cut-off"]["display_timestamp"]


def test_points_given_by_hand_survive_a_regrade(twin: Twin) -> None:
    def grade(gradebook: Any) -> Any:
        return gradebook.find_grade("ch01-3", CHAPTER.name, "ch01", "left-out")

    def comment(gradebook: Any) -> Any:
        return gradebook.find_comment("ch01-answer", CHAPTER.name, "ch01", "left-out")

    with api(twin.course.folder).gradebook as gradebook:
        grade(gradebook).manual_score = 1.5
        grade(gradebook).extra_credit = 0.25
        comment(gradebook).manual_comment = "Half way there."
        gradebook.db.commit()
    result_path(twin.out, "left-out", "ch01").unlink()
    assert regrade(twin).returncode == 0
    with api(twin.course.folder).gradebook as gradebook:
        assert (grade(gradebook).auto_score, grade(gradebook).score) == (0.0, 1.75)
        assert comment(gradebook).comment == "Half way there."


@pytest.mark.slow
def test_late_penalties_are_those_of_the_courses_own_config(twin: Twin, tmp_path: Path) -> None:
    folder = tmp_path / "grader"
    shutil.copytree(twin.course.folder, folder, ignore=shutil.ignore_patterns("autograded"))
    shutil.copytree(twin.out, tmp_path / "out")
    late = Twin(Course(folder), tmp_path / "out")
    (folder / "submitted" / "solved-en" / "ch01" / "timestamp.txt").write_text("2026-10-02 12:00:00 UTC\n")
    with api(folder).gradebook as gradebook:
        gradebook.update_or_create_assignment("ch01", duedate="2026-10-01 12:00:00 UTC")
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write('\nget_config().LateSubmissionPlugin.penalty_method = "zero"  # noqa: F821\n')
    assert regrade(late).returncode == 0
    with api(folder).gradebook as gradebook:
        submission = gradebook.find_submission("ch01", "solved-en")
        assert (submission.score, submission.late_submission_penalty) == (13.0, 13.0)
        assert not gradebook.find_submission("ch01", "cut-off").late_submission_penalty


@pytest.mark.slow
def test_killed_and_resumed_the_gradebook_is_the_same(twin: Twin, tmp_path: Path) -> None:
    folder = tmp_path / "grader"
    shutil.copytree(twin.course.folder, folder, ignore=shutil.ignore_patterns("autograded", "gradebook.db"))
    shutil.copytree(twin.out, tmp_path / "out")
    result_path(tmp_path / "out", "solved-en", "ch01").unlink()
    again = Twin(Course(folder), tmp_path / "out")
    moments = random.Random(1)
    for _ in range(10):
        process = subprocess.Popen(command(again), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.5, 12))
        process.kill()
        process.wait()
    assert regrade(again).returncode == 0
    for student in SUBMISSIONS.keys() - {"left-out"}:  # which another test grades by hand
        assert again.course.points(student) == twin.course.points(student)
        assert shown(folder, student) == shown(twin.course.folder, student)
