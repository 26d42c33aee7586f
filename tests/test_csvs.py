"""Tables that spreadsheets, Canvas and Moodle open, whatever a student is called."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from decodelab.check.rules import Finding, TodoResult
from decodelab.course import load
from decodelab.grading.csvs import FORMULA, safe, table, write
from decodelab.grading.grade import Graded
from decodelab.grading.roster import Roster, Student

HOSTILE = [
    "=HYPERLINK(1)",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    'a "b", c',
    "two\nlines",
    "＝全角",
    "李雷",
    "a\udce4",
]
CHAPTER = load("ch01")
CORE = sum(t.points for t in CHAPTER.todos if t.level == "core")
MORE = sum(t.points for t in CHAPTER.todos if t.level == "extension")


def graded(student: str, lost: str = "", chapter_id: str = "ch01") -> Graded:
    todos = [
        TodoResult(t.id, "failed", t.points, Finding("a-rule", {"en": "", "zh": ""}))
        if t.id == lost
        else TodoResult(t.id, "passed", t.points)
        for t in load(chapter_id).todos
    ]
    return Graded(student, chapter_id, "en", 2**48 - 1, "bubblewrap", "abc", todos)


def read(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


def test_grades_have_these_columns_and_a_row_a_todo(tmp_path: Path) -> None:
    write(tmp_path, [graded("ann", "ch01.2")])
    head, *rows = read(tmp_path / "grades.csv")
    assert ",".join(head) == "student,chapter,todo,points,max,state,rule,seed,sandbox,suite_version"
    assert rows[0] == ["ann", "ch01", "ch01.1", "2", "2", "passed", "", str(2**48 - 1), "bubblewrap", "abc"]
    assert rows[1] == ["ann", "ch01", "ch01.2", "0", "3", "failed", "a-rule", *rows[0][-3:]]
    assert len(rows) == len(CHAPTER.todos)


@pytest.mark.parametrize("name", ["grades.csv", "lms/canvas.csv", "lms/moodle.csv"])
def test_no_cell_is_a_formula_and_every_row_is_whole(tmp_path: Path, name: str) -> None:
    roster = Roster([Student(student, name="=1+1", email="@x") for student in HOSTILE])
    write(tmp_path, [graded(student) for student in HOSTILE], [("=left", "ch01")], roster)
    rows = read(tmp_path / name)
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if cell.startswith(FORMULA)]
    plain = {cell.removeprefix("'") for row in rows for cell in row}
    assert plain >= {student.encode("utf-8", "backslashreplace").decode() for student in HOSTILE}


def test_lines_end_as_rfc_4180_says(tmp_path: Path) -> None:
    write(tmp_path, [graded("ann")])
    lines = (tmp_path / "grades.csv").read_bytes().split(b"\n")
    assert lines[-1] == b""
    assert all(line.endswith(b"\r") for line in lines[:-1])


def test_a_bom_only_if_asked_for() -> None:
    assert table([["学生"]], bom=True) == b"\xef\xbb\xbf" + table([["学生"]])


@pytest.mark.parametrize(
    ("cell", "shown"), [(2.0, "2"), (2.5, "2.5"), (0, "0"), ("", ""), ("-", "'-"), ("a-", "a-")]
)
def test_safe(cell: object, shown: str) -> None:
    assert safe(cell) == shown


def test_canvas_takes_its_file_for_a_gradebook(tmp_path: Path) -> None:
    """By the rules of its importer: see the module's docstring."""
    roster = Roster([Student("u1", "Ann Lee", canvas_id="77")])
    write(tmp_path, [graded("U1", "ch01.2"), graded("bob")], [("carl", "ch01")], roster)
    head, possible, *rows = read(tmp_path / "lms" / "canvas.csv")
    assert "Student" in head[0]
    assert "ID" in head[1]
    assert re.search(r"SIS\s+Login\s+ID", head[2])
    assert "Section" in head[3]
    assert head[4:] == ["Decode Lab ch01", "Decode Lab ch01 extension"]
    assert "Points Possible" in possible[0]
    assert [float(cell) for cell in possible[4:]] == [CORE, MORE]
    assert rows == [
        ["Ann Lee", "77", "U1", "", f"{CORE - 3:g}", f"{MORE:g}"],
        ["bob", "", "bob", "", f"{CORE:g}", f"{MORE:g}"],
        ["carl", "", "carl", "", "", ""],
    ]


def test_moodle_finds_the_user_and_no_grade_is_an_empty_cell(tmp_path: Path) -> None:
    roster = Roster([Student("u1", "Ann Lee", email="ann@x.edu")])
    write(tmp_path, [graded("u1"), graded("u1", chapter_id="ch00")], [("carl", "ch01")], roster)
    head, *rows = read(tmp_path / "lms" / "moodle.csv")
    assert head[:3] == ["ID number", "Full name", "Email address"]
    by_student = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_student["u1"]["Email address"] == "ann@x.edu"
    assert float(by_student["u1"]["Decode Lab ch01"]) == CORE
    assert by_student["u1"]["Decode Lab ch00"] != ""
    assert set(by_student["carl"].values()) == {"carl", ""}
