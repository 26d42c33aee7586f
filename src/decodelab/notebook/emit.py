"""A chapter as notebooks and as course data, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from decodelab.course import Chapter, Todo
from decodelab.notebook import source as src
from decodelab.notebook.compile import ChapterSource, Item
from decodelab.notebook.setup import badges


def notebook_of(source: ChapterSource, lang: str, *, solved: bool = False) -> dict[str, Any]:
    """A chapter's notebook in one language, with stubs or solved."""
    cells = [_cell(source.id, n, item, lang, solved) for n, item in enumerate(source.items, 1)]
    first = next(cell for cell in cells if cell["cell_type"] == "markdown")
    first["source"] = _lines(badges("".join(first["source"]), source.name, lang, source.publishing))
    return {
        "cells": cells,
        "metadata": {
            "decodelab": {"chapter": source.id, "lang": lang},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(chapter: str, number: int, item: Item, lang: str, solved: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"nbgrader": item.grade} if item.grade else {}
    if item.tags:
        metadata["tags"] = item.tags
    cell = {
        "cell_type": item.kind,
        "id": item.grade.get("grade_id", f"{chapter}-c{number:02d}"),
        "metadata": metadata,
        "source": _lines((item.solved if solved else item.text)[lang]),
    }
    return cell if item.kind == "markdown" else cell | {"execution_count": None, "outputs": []}


def course_data(source: ChapterSource) -> Chapter:
    """What the package keeps of a chapter."""
    return Chapter(
        id=source.id,
        name=source.name,
        title=source.title,
        todos=tuple(_todo(source, todo) for todo in sorted(source.holes, key=_number)),
        answers=tuple(source.answers.values()),
        exports=tuple(source.exports),
    )


def _todo(source: ChapterSource, todo: str) -> Todo:
    hole, check = source.holes[todo], source.check_cells[todo]
    return Todo(
        id=todo,
        title=source.titles[todo],
        level=check.level,
        points=check.points,
        answer=hole.answer,
        symbol=hole.symbol,
        lines=src.line_count(hole.code),
        code=hole.code,
        hints=source.hints[todo],
        explanation=source.explanations[todo],
    )


def to_json(notebook: dict[str, Any]) -> str:
    """A notebook as nbformat writes it, the same bytes each time."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def signed(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook with the digest of its cells, by which a later build knows that nobody wrote into it."""
    metadata = notebook["metadata"]
    ours = metadata["decodelab"] | {"digest": _digest(notebook)}
    return notebook | {"metadata": metadata | {"decodelab": ours}}


def _digest(notebook: dict[str, Any]) -> str:
    cells = [[cell["cell_type"], "".join(cell["source"])] for cell in notebook["cells"]]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def as_built(text: str | None) -> bool:
    """Whether this is a notebook that a build made, whatever its outputs, and nobody wrote into."""
    try:
        notebook = json.loads(text or "")
        return notebook["metadata"]["decodelab"]["digest"] == _digest(notebook)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _number(todo: str) -> int:
    return int(todo.split(".")[1])
