"""The marks around a TODO, ``# TODO ch01.2`` to ``# END ch01.2``, and what stands between them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

from decodelab.course import Todo

MARK = re.compile(r"(?P<indent>[ \t]*)# (?P<kind>TODO|END) (?P<todo>ch\d+\.\d+)\b")


@dataclass(frozen=True)
class Region:
    """What stands between a TODO's two marks: lines ``first`` to ``last`` (from 0, ``last`` exclusive)."""

    todo: str
    indent: str
    first: int
    last: int


def regions(source: str) -> list[Region]:
    """Every region in ``source``, in one pass over its lines; a mark without its other half makes none."""
    found: list[Region] = []
    opened: Region | None = None
    for number, line in enumerate(source.split("\n")):
        mark = MARK.match(line)
        if mark and mark["kind"] == "TODO":
            opened = Region(mark["todo"], mark["indent"], number + 1, number + 1)
        elif mark and opened and mark["todo"] == opened.todo:
            found.append(replace(opened, last=number))
            opened = None
    return found


def written(source: str, todo: Todo) -> bool:
    """Whether the function around a TODO is there and no longer says that the TODO is not written."""
    name = re.escape(todo.symbol.split(".")[-1])
    stub = rf"^[ \t]*raise TodoError\(\s*['\"]{re.escape(todo.id)}['\"]"
    return bool(re.search(rf"^[ \t]*(?:async )?(?:def|class) {name}\b", source, re.M)) and not re.search(
        stub, source, re.M
    )


def filled(source: str, todo: Todo, other: str) -> str:
    """``source`` with this TODO's region taken from ``other``; as it is where one of them has none."""
    here, there = ([r for r in regions(s) if r.todo == todo.id] for s in (source, other))
    if not (here and there):
        return source
    lines, code = source.split("\n"), other.split("\n")[there[-1].first : there[-1].last]
    own = textwrap.indent(textwrap.dedent("\n".join(code)), here[-1].indent)
    return "\n".join([*lines[: here[-1].first], own, *lines[here[-1].last :]])
