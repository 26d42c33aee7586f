"""Putting one TODO into surroundings that are known to work, so that it is judged for itself."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from decodelab.course import Chapter, Todo, load
from decodelab.notebook.marks import regions
from decodelab.notebook.read import Submission

MAX_COPIES = 20  # of one TODO's region in a cell
GIVEN = "given"  # the name of a chapter's own cells, which no student wrote
_TAKEN = re.compile(r"""\bchapter\(["'](ch\d\d)["']\)""")
_HEAVY = re.compile(r"^import (torch)$", re.MULTILINE)

Parts: TypeAlias = "list[Part]"  # run in order in one namespace


@dataclass(frozen=True)
class Part:
    """Code to run under a name; ``numbers``: the line of the student's cell that each line is, 0 for the reference's."""

    name: str
    source: str
    numbers: tuple[int, ...] = ()  # empty: the lines are the cell's own

    @classmethod
    def cell(cls, name: str, source: str) -> Part:
        """A student's cell as it is."""
        return cls(name, source, tuple(range(1, len(source.split("\n")) + 1)))

    def replaced(self, start: int, end: int, code: str) -> Part:
        """This cell with its lines ``start`` to ``end`` (from 0, ``end`` exclusive) replaced by the reference's."""
        lines, new = self.source.split("\n"), code.split("\n")
        return Part(
            self.name,
            "\n".join([*lines[:start], *new, *lines[end:]]),
            (*self.numbers[:start], *[0] * len(new), *self.numbers[end:]),
        )

    def line(self, number: int) -> int:
        """The line of the student's own cell; 0 where the reference stands."""
        return self.numbers[number - 1] if 0 < number <= len(self.numbers) else 0 if self.numbers else number


def replace_region(source: str, todo_id: str, code: str) -> str | None:
    """``source`` with the code between a TODO's two marks replaced; None where the marks are gone."""
    part = in_region(Part.cell("", source), todo_id, code)
    return part.source if part else None


def in_region(part: Part, todo_id: str, code: str) -> Part | None:
    """``part`` with the code between a TODO's two marks replaced; None where the marks are gone."""
    found = [r for r in regions(part.source) if r.todo == todo_id]
    if len(found) > MAX_COPIES:
        return None
    for region in reversed(found):
        part = part.replaced(region.first, region.last, textwrap.indent(code.strip("\n"), region.indent))
    return part if found else None


def in_symbol(part: Part, symbol: str, reference: str) -> Part | None:
    """``part`` with one function or class (``"Class.method"``) taken from ``reference``, marks or no marks.

    A class that lacks the method gets it. None where ``part`` is no valid Python or has no such class.
    """
    try:
        tree = ast.parse(part.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    *outer, name = symbol.split(".")
    wanted = find(ast.parse(reference), [*outer, name])
    body = tree.body if not outer else getattr(find(tree, outer), "body", None)
    if wanted is None or not body:
        return None
    new = textwrap.dedent("\n".join(reference.splitlines()[first_line(wanted) - 1 : wanted.end_lineno]))
    old = find(tree, [*outer, name])
    start, end = (first_line(old) - 1, old.end_lineno) if old else (body[-1].end_lineno,) * 2
    return part.replaced(start or 0, end or 0, textwrap.indent(new, " " * body[-1].col_offset))


def first_line(node: ast.stmt) -> int:
    """The line on which a definition begins, its decorators included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def find(tree: ast.Module, path: Sequence[str]) -> ast.stmt | None:
    """The last definition with this path of names in ``tree``, or None."""
    found: ast.stmt | None = None
    body: list[ast.stmt] = tree.body
    for name in path:
        found = next((n for n in reversed(body) if getattr(n, "name", None) == name), None)
        body = getattr(found, "body", [])
    return found


def with_reference(part: Part, chapter: Chapter, todos: Iterable[Todo]) -> tuple[Part, list[str]]:
    """An answer cell with the reference in these TODOs, and the ids of those that could not be put in.

    A TODO is found by its marks, else by the function that it is in.
    """
    left = []
    for todo in todos:
        reference = chapter.answer(todo.answer).reference
        replaced = in_region(part, todo.id, todo.code) or in_symbol(part, todo.symbol, reference)
        if replaced is None:
            left.append(todo.id)
        part = replaced or part
    return part, left


def alone(chapter: Chapter, submission: Submission, todo: Todo) -> tuple[Parts, list[str]]:
    """The student's TODO, everything else in the reference's hands; and the TODOs that could not be replaced."""
    others = [t for t in chapter.todos if t.answer == todo.answer and t.id != todo.id]
    cell = Part.cell(todo.answer, submission.answers[todo.answer])
    own, left = with_reference(cell, chapter, others)
    cells = cells_of(chapter, {todo.answer: own})
    upto = [a.grade_id for a in chapter.answers].index(todo.answer) + 1
    return [*around(chapter, submission), *cells[:upto]], left


def whole(chapter: Chapter, submission: Submission) -> Parts:
    """The submission as it is; the reference for answer cells that are missing."""
    return [*around(chapter, submission), *as_handed_in(chapter, submission)]


def as_handed_in(chapter: Chapter, submission: Submission) -> Parts:
    """The answer cells in order; the reference for those that are missing."""
    own = {grade_id: Part.cell(grade_id, source) for grade_id, source in submission.answers.items()}
    return cells_of(chapter, own)


def earlier(parts: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The chapters that the given cells among ``parts`` take by ``chapter("ch04")``, what these stand on first.

    Each is (name, source) pairs, by the reference: a runner has no course to load, and no mistake of an earlier
    chapter costs points in this one.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for chapter_id in _TAKEN.findall("\n".join(source for name, source in parts if name == GIVEN)):
        if chapter_id not in found:
            whole_one = [(p.name, p.source) for p in whole(load(chapter_id), Submission({}, "", []))]
            found |= earlier(whole_one) | {chapter_id: whole_one}
    return found


def libraries(parts: Iterable[tuple[str, str]]) -> list[str]:
    """What the given cells among ``parts`` import that takes seconds and much memory to import."""
    return sorted(set(_HEAVY.findall("\n".join(source for name, source in parts if name == GIVEN))))


def needs(chapter: Chapter) -> list[str]:
    """The same of a chapter."""
    return libraries((GIVEN, code) for code in chapter.exports)


def around(chapter: Chapter, submission: Submission) -> Parts:
    """The chapter's given cells in order, and the student's helpers."""
    marks = {f"@{answer.grade_id}" for answer in chapter.answers}
    given = [Part(GIVEN, code) for code in chapter.exports if code not in marks]
    helpers = Part("your other cells", submission.definitions)
    return [Part("decodelab", "from decodelab import TodoError"), *given, helpers]


def cells_of(chapter: Chapter, own: dict[str, Part]) -> Parts:
    """The answer cells in order, the student's own or else the reference's."""
    return [own.get(a.grade_id) or Part(a.grade_id, a.reference, (0,) * 999) for a in chapter.answers]


def written(source: str, todo_id: str) -> list[str]:
    """The lines of code between a TODO's two marks, without comments."""
    lines = source.split("\n")
    own = [x.strip() for r in regions(source) if r.todo == todo_id for x in lines[r.first : r.last]]
    return [line for line in own if line and not line.startswith("#")]


def stub(todo_id: str) -> str:
    """The one line of a TODO that nobody has begun."""
    return f'raise TodoError("{todo_id}")'
