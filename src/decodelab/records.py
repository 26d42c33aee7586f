"""What passed is kept: a record for each TODO, in one file a chapter, in the learner's own folder."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.home import home
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.check.rules import TodoResult
    from decodelab.notebook.read import Submission


@dataclass
class Record:
    """What is known of one TODO: its last state, and the code with which it last passed."""

    state: str
    when: str  # ISO 8601, local time
    lang: str
    answers: dict[str, str] = field(default_factory=dict)  # grade id -> source of the answer cell
    definitions: str = ""  # what the answers need from other cells


def records(chapter_id: str) -> dict[str, Record]:
    """The saved records of a chapter by TODO id; none where nothing was saved or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        data = json.loads((home() / f"{chapter_id}.json").read_text(encoding="utf-8"))
        return {todo: Record(**record) for todo, record in data["todos"].items()}
    return {}


def passed(chapter_id: str) -> dict[str, Record]:
    """The records of the TODOs that passed."""
    return {todo: r for todo, r in records(chapter_id).items() if r.state == "passed"}


def open_todos(chapter: Chapter) -> list[str]:
    """The core TODOs of a chapter that have not passed, in order."""
    done = passed(chapter.id)
    return [t.id for t in chapter.todos if t.level == "core" and t.id not in done]


def save(chapter: Chapter, lang: str, submission: Submission, results: Iterable[TodoResult]) -> None:
    """Keep the code of what passed. A TODO that passed once stays passed, with the code it passed with.

    Where it cannot be saved, DecodeLabError says what to set.
    """
    known, now = records(chapter.id), datetime.now().isoformat(timespec="seconds")
    for result in results:
        if result.state == "passed":
            known[result.todo] = Record("passed", now, lang, submission.answers, submission.definitions)
        elif known.get(result.todo, Record("", "", "")).state != "passed":
            known[result.todo] = Record(result.state, now, lang)
    path = home() / f"{chapter.id}.json"
    data = {"chapter": chapter.id, "todos": {todo: vars(known[todo]) for todo in sorted(known)}}
    try:
        if path.exists() and not records(chapter.id):
            os.replace(path, free_name(path, "unreadable"))
        write_whole(path, json.dumps(data, ensure_ascii=False, indent=1))
    except OSError as reason:
        why = reason.strerror or reason
        raise DecodeLabError(
            both(
                en=f"This could not be saved ({why}): set DECODELAB_HOME to a folder that you may write to.",
                zh=f"没能保存这次结果（{why}）：请把环境变量 DECODELAB_HOME 设为一个可写的文件夹。",
            )
        ) from reason


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a power cut, never meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=path.name, suffix=".tmp", delete=False
    ) as file:
        file.write(text)
    os.replace(file.name, path)


def free_name(path: Path, word: str) -> Path:
    """A name beside ``path`` that nobody has: ``name.WORD-20260131-120000.ipynb``."""
    stamp = f"{path.stem}.{word}-{datetime.now():%Y%m%d-%H%M%S}"
    names = (
        path.with_name(f"{stamp}{more}{path.suffix}") for more in ("", *(f"-{i}" for i in range(2, 1000)))
    )
    return next(name for name in names if not name.exists())
