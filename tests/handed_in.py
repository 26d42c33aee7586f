"""Notebooks as a learner would hand them in, and a course folder of one's own, for several tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from decodelab import course
from decodelab.grading import splice

ROOT = Path(__file__).parent.parent
ENDLESS = """\
while True:
    try:
        pass
    except BaseException:
        pass"""


def course_folder(folder: Path) -> Path:
    """A folder with nothing but the notebooks, as the commands for learners want it."""
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def notebook(chapter_id: str, lang: str, changes: dict[str, str] | None = None) -> dict[str, Any]:
    """A chapter's notebook with the reference in its answer cells; ``changes``: todo id -> code in its place."""
    chapter = course.load(chapter_id)
    path = ROOT / "notebooks" / lang / f"{chapter.name}.ipynb"
    content = json.loads(path.read_text(encoding="utf-8"))
    sources = {answer.grade_id: answer.reference for answer in chapter.answers}
    for todo_id, code in (changes or {}).items():
        todo = chapter.todo(todo_id)
        sources[todo.answer] = splice.replace_region(sources[todo.answer], todo_id, code) or ""
    for cell in content["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in sources:
            cell["source"] = sources[grade_id]
    return content


def write(path: Path, content: dict[str, Any]) -> Path:
    """The notebook as a file."""
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path
