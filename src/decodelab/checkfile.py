"""A notebook file, judged with the visible checks: what ``decodelab check`` and ``import`` stand on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from decodelab import course
from decodelab.check.rules import TodoResult
from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.grading.judge import judge
from decodelab.lang import both, speak, spoken
from decodelab.notebook.read import Notebook, Submission, find_answers, read_notebook


@dataclass
class Checked:
    """A notebook file, judged with the visible checks."""

    chapter: Chapter
    lang: str
    submission: Submission
    results: list[TodoResult]

    def count(self, level: str) -> tuple[int, int]:
        """(passed, all) TODOs of a level."""
        of_level = {t.id for t in self.chapter.todos if t.level == level}
        return sum(r.todo in of_level and r.state == "passed" for r in self.results), len(of_level)

    @property
    def good(self) -> bool:
        """Every core TODO passed."""
        return len(set(self.count("core"))) == 1


def check_file(path: Path, lang: str | None = None) -> Checked:
    """Judge a notebook file; from here on its language is spoken unless ``lang`` names another."""
    notebook = read_notebook(path)
    speak(lang or notebook.lang or spoken())
    chapter = chapter_of(notebook, path)
    submission = find_answers(notebook.cells, chapter)
    submission.notes[:0] = notebook.notes
    return Checked(chapter, notebook.lang or spoken(), submission, judge(chapter, submission))


def chapter_of(notebook: Notebook, path: Path) -> Chapter:
    """The chapter of a notebook: by its metadata, else its file name, else the answers found in it."""
    known = course.chapter_ids()
    named = re.match(r"ch\d\d", path.name)
    for guess in (notebook.chapter, named and named[0]):
        if guess in known:
            return course.load(guess)
    found = {one: len(find_answers(notebook.cells, course.load(one)).answers) for one in known}
    best = max(found, key=found.__getitem__, default=None)
    if best is None or not found[best]:
        raise DecodeLabError(
            both(
                en=f"{path.name} holds no answer to any TODO of this course; is it the right file?",
                zh=f"在 {path.name} 里没有找到本课程任何 TODO 的答案；请确认选对了文件。",
            )
        )
    return course.load(best)
