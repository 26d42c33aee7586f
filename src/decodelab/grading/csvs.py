"""Grades as tables: ``grades.csv`` for people and programs, ``lms/canvas.csv`` and ``lms/moodle.csv`` to import.

All are RFC 4180 in UTF-8. A cell that a spreadsheet would take for a formula (it begins with ``= + - @``,
tab or carriage return) gets an apostrophe in front; ids of that form must be matched by hand in an LMS.

- Canvas reads ``Student, ID, SIS Login ID, Section``, then an assignment a column, and a row that begins
  with ``Points Possible``: lib/gradebook_importer.rb in instructure/canvas-lms. It finds a student by ID (its
  own number), else by login, else by name, and offers to make an assignment that it does not know.
- Moodle lets one choose the column that identifies a user (ID number or e-mail address) and the grade
  item of every other one: grade/import/csv/classes/load_data.php in moodle/moodle.

An empty cell is no grade, in both. Core and extension are columns of their own.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from decodelab.course import load
from decodelab.grading.grade import Graded
from decodelab.grading.roster import Roster, Student, normal

COLUMNS = ["student", "chapter", "todo", "points", "max", "state", "rule", "seed", "sandbox", "suite_version"]
FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row: TypeAlias = "Sequence[Any]"
Scores: TypeAlias = "dict[str, dict[str, float]]"  # student -> column -> points


def replace(path: Path, data: bytes) -> None:
    """Write a file so that whoever looks sees the old one or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")  # always the same: what a killed run left is written over
    beside.write_bytes(data)
    os.replace(beside, path)


def safe(cell: Any) -> str:
    """A cell as text that no spreadsheet takes for a formula."""
    text = f"{cell:g}" if isinstance(cell, float) else str(cell)
    return "'" + text if text.startswith(FORMULA) else text


def table(rows: Iterable[Row], bom: bool = False) -> bytes:
    """The rows as RFC 4180; ``bom``: with the mark by which Excel knows UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([safe(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8-sig" if bom else "utf-8", "backslashreplace")


def write(
    out: Path,
    graded: Sequence[Graded],
    waiting: Sequence[tuple[str, str]] = (),
    roster: Roster | None = None,
    bom: bool = False,
) -> None:
    """All three files; ``waiting`` are (student, chapter) without a whole verdict, whose cells stay empty."""
    scores, most = totals(graded, waiting)
    columns = list(most)
    people = {normal(s.id): s for s in roster.students} if roster else {}
    files: dict[str, Iterable[Row]] = {
        "grades.csv": grades(graded),
        "lms/canvas.csv": canvas(scores, most, columns, people),
        "lms/moodle.csv": moodle(scores, columns, people),
    }
    for name, rows in files.items():
        replace(out / name, table(rows, bom))


def grades(graded: Sequence[Graded]) -> list[Row]:
    """A row for every TODO of every submission."""
    rows: list[Row] = [COLUMNS]
    for one in graded:
        how = (one.seed, one.sandbox, one.suite_version)
        for t in one.todos:
            points = "" if t in one.ungraded else t.points
            rows.append((one.student, one.chapter, t.todo, points, t.max_points, t.state, t.rule, *how))
    return rows


def totals(graded: Sequence[Graded], waiting: Sequence[tuple[str, str]]) -> tuple[Scores, dict[str, float]]:
    """Points by student and column, and what each column is worth, in the order of the course."""
    students = {one.student for one in graded} | {student for student, _ in waiting}
    scores: Scores = {student: {} for student in sorted(students)}
    most: dict[str, float] = {}
    for chapter in sorted({g.chapter for g in graded} | {c for _, c in waiting}):
        for todo in load(chapter).todos:
            most[column(todo.id)] = most.get(column(todo.id), 0.0) + todo.points
    for one in graded:
        for result in one.todos:
            name = column(result.todo)
            scores[one.student][name] = scores[one.student].get(name, 0.0) + result.points
        for result in one.ungraded:
            scores[one.student].pop(column(result.todo), None)
    return scores, most


def column(todo_id: str) -> str:
    """The assignment that a TODO counts for: ``Decode Lab ch01``, or its extension."""
    chapter = load(todo_id)
    extension = chapter.todo(todo_id).level == "extension"
    return f"Decode Lab {chapter.id}" + (" extension" if extension else "")


def canvas(
    scores: Scores, most: dict[str, float], columns: Sequence[str], people: dict[str, Student]
) -> list[Row]:
    """Canvas' gradebook import."""
    rows: list[Row] = [
        ("Student", "ID", "SIS Login ID", "Section", *columns),
        ("    Points Possible", "", "", "", *(most[name] for name in columns)),
    ]
    for student, points in scores.items():
        who = people.get(normal(student), Student(student))
        cells = [points.get(name, "") for name in columns]
        rows.append((who.name or student, who.canvas_id, student, "", *cells))
    return rows


def moodle(scores: Scores, columns: Sequence[str], people: dict[str, Student]) -> list[Row]:
    """Moodle's grade import."""
    rows: list[Row] = [("ID number", "Full name", "Email address", *columns)]
    for student, points in scores.items():
        who = people.get(normal(student), Student(student))
        cells = [points.get(name, "") for name in columns]
        rows.append((student, who.name, who.email, *cells))
    return rows
