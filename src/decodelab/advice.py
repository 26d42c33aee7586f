"""Hints, solutions and progress as Markdown and tables, in the language spoken: for a notebook or a terminal."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from decodelab import course
from decodelab.course import Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.home import home
from decodelab.lang import both, say, spoken, tr
from decodelab.records import Record, records


def normal(todo_id: str) -> str:
    """``ch01-2``, the form that nbgrader can bear, as ``ch01.2``."""
    return str(todo_id).strip().replace("-", ".")


def find_todo(todo_id: str) -> Todo:
    """The TODO of this id, in whichever chapter it is."""
    return course.load(normal(todo_id)).todo(normal(todo_id))


def hint_text(todo_id: str, level: int | str = 1, *, terminal: bool = False) -> str:
    """Hint 1, 2 or 3 of a TODO as Markdown, with the call (on a ``terminal``, the command) that goes further."""
    todo = find_todo(todo_id)
    hints = todo.hints[spoken()]
    number = int(level) if str(level).strip().isdecimal() else 0
    if not 1 <= number <= len(hints):
        raise DecodeLabError(
            both(
                en=f"Ask for hint 1 to {len(hints)} of {todo.id}; there is no hint {level}.",
                zh=f"{todo.id} 有第 1 到 {len(hints)} 条提示，没有第 {level} 条。",
            )
        )
    if number < len(hints):
        words = tr(en="Go further: ", zh="再多一点：")
        call = f"decodelab hint {todo.id} {number + 1}" if terminal else f'hint("{todo.id}", {number + 1})'
    else:
        words = tr(en="The reference: ", zh="参考实现：")
        call = f"decodelab solution {todo.id}" if terminal else f'solution("{todo.id}")'
    head = tr(en=f"Hint {number} of {len(hints)}", zh=f"提示 {number}/{len(hints)}")
    return f"**{head} · {todo.id} {say(todo.title)}**\n\n{hints[number - 1]}\n\n{words}`{call}`"


def solution_text(todo_id: str) -> str:
    """The reference of a TODO and its explanation as Markdown; DecodeLabError where a class closed it."""
    todo = find_todo(todo_id)
    chapter_id = todo.id.split(".")[0]
    if chapter_id in closed_solutions():
        raise DecodeLabError(
            both(
                en=f"Your class has closed the solutions of {chapter_id} for now; try hint 3 of {todo.id}.",
                zh=f"你所在的班级暂时关闭了 {chapter_id} 的参考答案；可以先看 {todo.id} 的第 3 条提示。",
            )
        )
    return (
        f"**{todo.id} {say(todo.title)}**\n\n```python\n{todo.code.rstrip()}\n```\n\n{say(todo.explanation)}"
    )


def closed_solutions() -> set[str]:
    """Chapters whose solutions a graded class closed: ``DECODELAB_CLOSED_SOLUTIONS=ch01,ch02`` or ``course.json``."""
    named = set(os.environ.get("DECODELAB_CLOSED_SOLUTIONS", "").replace(" ", "").split(","))
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        settings = json.loads((home() / "course.json").read_text(encoding="utf-8"))
        named |= set(settings.get("closed", []))
    return named


def progress_rows(chapter_id: str = "") -> list[dict[str, Any]]:
    """One dict a TODO, of one chapter or of all: chapter, todo, title, level, state, points, max_points, when."""
    wanted = [normal(chapter_id)] if chapter_id else course.chapter_ids()
    return [row for chapter in map(course.load, wanted) for row in chapter_rows(chapter)]


def chapter_rows(chapter: Chapter) -> list[dict[str, Any]]:
    """``progress_rows`` of one chapter."""
    known, new = records(chapter.id), Record("not_started", "", "")
    return [
        {
            "chapter": chapter.id,
            "todo": todo.id,
            "title": say(todo.title),
            "level": todo.level,
            "state": record.state,
            "points": todo.points if record.state == "passed" else 0,
            "max_points": todo.points,
            "when": "" if record.state == "not_started" else record.when,
        }
        for todo in chapter.todos
        for record in [known.get(todo.id, new)]
    ]


def progress_table(chapter_id: str = "") -> tuple[list[str], list[list[str]]]:
    """Head and lines of the progress table in the language spoken, a total last."""
    from decodelab.check import feedback

    extension = tr(en=" (extension)", zh="（扩展）")
    rows = progress_rows(chapter_id)
    lines = [
        [
            row["todo"],
            row["title"] + (extension if row["level"] == "extension" else ""),
            f"{feedback.MARKS.get(row['state'], '✗')} {feedback.state_name(row['state'])}",
            f"{row['points']:g}/{row['max_points']:g}",
            row["when"].replace("T", " ")[:16],
        ]
        for row in rows
    ]
    points = f"{sum(r['points'] for r in rows):g}/{sum(r['max_points'] for r in rows):g}"
    head = tr(en=["TODO", "title", "state", "points", "when"], zh=["TODO", "标题", "状态", "得分", "时间"])
    return head, [*lines, [tr(en="total", zh="合计"), "", "", points, ""]]
