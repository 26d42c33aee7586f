"""The course as data: what `decodelab build` took out of solutions/, one ``chNN.json`` a chapter.

Those files are generated; write chapters in solutions/ and their rules in check/.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Todo:
    """One hole in a notebook, and what is said about it."""

    id: str  # "ch01.2"
    title: Text
    level: str  # "core" | "extension"
    points: float
    answer: str  # grade id of the cell that holds it, "ch01-answer"
    symbol: str  # the function or class around it, "DecodeSchedulerSim._schedule_key"
    lines: int  # lines of code in the reference
    code: str  # the reference's region, dedented
    hints: dict[str, list[str]]  # language -> three hints, each going further
    explanation: Text  # Markdown, shown by solution()

    @property
    def check_id(self) -> str:
        """Grade id of the check cell that bears the points: nbgrader allows no dot in one."""
        return self.id.replace(".", "-")


@dataclass(frozen=True)
class Answer:
    """One answer cell: the reference's source, and what a learner starts from."""

    grade_id: str
    reference: str
    stub: Text


@dataclass(frozen=True)
class Chapter:
    """A chapter's data, without its prose."""

    id: str  # "ch01"
    name: str  # "ch01_decode_scheduler": the notebook's file name without its ending
    title: Text
    todos: tuple[Todo, ...]
    answers: tuple[Answer, ...]
    exports: tuple[str, ...]  # code of the export cells in order; an answer cell stands as "@GRADE_ID"

    def todo(self, todo_id: str) -> Todo:
        """The TODO with this id; DecodeLabError names the ones there are."""
        for todo in self.todos:
            if todo.id == todo_id:
                return todo
        raise unknown_todo(todo_id, self)

    def answer(self, grade_id: str) -> Answer:
        """The answer cell with this grade id."""
        return next(a for a in self.answers if a.grade_id == grade_id)

    @property
    def checks(self) -> ModuleType:
        """The module with the chapter's rules and visible cases."""
        return import_module(f"decodelab.check.{self.id}")


def unknown_todo(todo_id: str, chapter: Chapter) -> DecodeLabError:
    """The error for a TODO id that ``chapter`` does not have."""
    known = ", ".join(t.id for t in chapter.todos)
    return DecodeLabError(
        both(
            en=f"There is no TODO {todo_id!r}; {chapter.id} has {known}.",
            zh=f"没有 TODO {todo_id!r}；{chapter.id} 里有 {known}。",
        )
    )


def chapter_ids() -> list[str]:
    """The chapters that this package carries, in order."""
    return sorted(p.stem for p in HERE.glob("ch*.json"))


@cache
def load(chapter_id: str) -> Chapter:
    """The chapter with this id (``"ch01"``, or a TODO's id in it); DecodeLabError if there is none."""
    chapter_id = chapter_id.split(".")[0]
    if chapter_id not in chapter_ids():
        known = ", ".join(chapter_ids())
        raise DecodeLabError(
            both(
                en=f"There is no chapter {chapter_id!r}; this package has {known}.",
                zh=f"没有 {chapter_id!r} 这一章；这个包里有 {known}。",
            )
        )
    return from_json(json.loads((HERE / f"{chapter_id}.json").read_text(encoding="utf-8")))


def from_json(data: dict[str, Any]) -> Chapter:
    """A Chapter from what ``chNN.json`` holds (``dataclasses.asdict`` of one)."""
    return Chapter(
        id=data["id"],
        name=data["name"],
        title=data["title"],
        todos=tuple(Todo(**t) for t in data["todos"]),
        answers=tuple(Answer(**a) for a in data["answers"]),
        exports=tuple(data["exports"]),
    )
