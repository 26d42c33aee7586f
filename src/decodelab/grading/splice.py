"""Putting one TODO into surroundings that are known to work, so that it is judged for itself."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable

from decodelab.course import Chapter, Todo
from decodelab.notebook.read import Submission

REGION = re.compile(
    r"^(?P<indent>[ \t]*)# TODO (?P<todo>ch\d+\.\d+)\b(?P<body>.*?)^[ \t]*# END (?P=todo)\b[^\n]*$",
    re.S | re.M,
)

Parts = list[tuple[str, str]]  # (name, source), run in order in one namespace


def replace_region(source: str, todo_id: str, code: str) -> str | None:
    """``source`` with the code between a TODO's two marks replaced; None where the marks are gone."""
    found = False

    def fill(match: re.Match[str]) -> str:
        nonlocal found
        if match["todo"] != todo_id:
            return match[0]
        found = True
        indent = match["indent"]
        body = textwrap.indent(code.strip("\n"), indent)
        return f"{indent}# TODO {todo_id}\n{body}\n{indent}# END {todo_id}"

    replaced = REGION.sub(fill, source)
    return replaced if found else None


def replace_symbol(source: str, symbol: str, reference: str) -> str | None:
    """``source`` with one function or class (``"Class.method"``) taken from ``reference``, marks or no marks.

    A class that lacks the method gets it. None where ``source`` is no valid Python or has no such class.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    *outer, name = symbol.split(".")
    wanted = find(ast.parse(reference), [*outer, name])
    body = tree.body if not outer else getattr(find(tree, outer), "body", None)
    if wanted is None or not body:
        return None
    new = textwrap.dedent("\n".join(reference.splitlines()[first_line(wanted) - 1 : wanted.end_lineno]))
    old, lines = find(tree, [*outer, name]), source.splitlines()
    indent = " " * body[-1].col_offset
    before, after = (first_line(old) - 1, old.end_lineno) if old else (body[-1].end_lineno,) * 2
    return "\n".join([*lines[:before], textwrap.indent(new, indent), *lines[after:]])


def first_line(node: ast.stmt) -> int:
    """The line on which a definition begins, its decorators included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def find(tree: ast.Module, path: list[str]) -> ast.stmt | None:
    """The last definition with this path of names in ``tree``, or None."""
    found: ast.stmt | None = None
    body: list[ast.stmt] = tree.body
    for name in path:
        found = next((n for n in reversed(body) if getattr(n, "name", None) == name), None)
        body = getattr(found, "body", [])
    return found


def with_reference(source: str, chapter: Chapter, todos: Iterable[Todo]) -> tuple[str, list[str]]:
    """An answer cell with the reference in these TODOs, and the ids of those that could not be put in.

    A TODO is found by its marks, else by the function that it is in.
    """
    left = []
    for todo in todos:
        reference = chapter.answer(todo.answer).reference
        replaced = replace_region(source, todo.id, todo.code) or replace_symbol(
            source, todo.symbol, reference
        )
        if replaced is None:
            left.append(todo.id)
        source = replaced or source
    return source, left


def alone(chapter: Chapter, submission: Submission, todo: Todo) -> tuple[Parts, list[str]]:
    """The student's TODO, everything else in the reference's hands; and the TODOs that could not be replaced."""
    others = [t for t in chapter.todos if t.answer == todo.answer and t.id != todo.id]
    own, left = with_reference(submission.answers[todo.answer], chapter, others)
    return assemble(chapter, submission, {todo.answer: own}), left


def whole(chapter: Chapter, submission: Submission) -> Parts:
    """The submission as it is; the reference only for answer cells that are not there."""
    return assemble(chapter, submission, submission.answers)


def assemble(chapter: Chapter, submission: Submission, answers: dict[str, str]) -> Parts:
    """The chapter's export cells in order, the student's own helpers, and ``answers`` or else the reference."""
    given = [code for code in chapter.exports if not code.startswith("@")]
    parts = [("given", code) for code in given] + [("your other cells", submission.definitions)]
    cells = [(a.grade_id, answers.get(a.grade_id, a.reference)) for a in chapter.answers]
    return [("decodelab", "from decodelab import TodoError"), *parts, *cells]
