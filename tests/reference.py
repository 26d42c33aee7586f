"""The reference as modules, whatever anybody has saved; whole, or with other code in some TODOs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from unittest.mock import patch

import decodelab
from decodelab import chapters
from decodelab.course import load
from decodelab.grading import splice
from decodelab.notebook.read import Submission


def lab(changed: Mapping[str, str]) -> Callable[[str], ModuleType]:
    """``decodelab.chapter`` by the reference, with this code in the regions of these TODOs (``{"ch06.3": …}``)."""

    @cache
    def chapter(chapter_id: str) -> ModuleType:
        data = load(chapter_id)
        answers = {answer.grade_id: answer.reference for answer in data.answers}
        for todo_id, code in changed.items():
            if todo_id.startswith(f"{chapter_id}."):
                grade_id = data.todo(todo_id).answer
                answers[grade_id] = splice.replace_region(answers[grade_id], todo_id, code) or ""
        with patch.object(decodelab, "chapter", chapter):  # what its own export cells ask for
            return chapters.load(f"reference_{chapter_id}", splice.whole(data, Submission(answers, "", [])))

    return chapter


reference = lab({})  # a chapter's exports (``"ch04"``) in a module of their own
