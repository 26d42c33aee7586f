"""Every chapter's notebooks as they are handed out, and the chapters on which each stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decodelab import course
from decodelab.checkfile import check_file
from decodelab.lang import LANGUAGES, speaking

ROOT = Path(__file__).parent.parent
CHAPTERS = course.chapter_ids()


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_an_untouched_notebook_is_not_started_and_scores_nothing(chapter: str, lang: str) -> None:
    with speaking(lang):
        checked = check_file(ROOT / "notebooks" / lang / f"{course.load(chapter).name}.ipynb")
    assert {r.todo: r.state for r in checked.results} == {
        todo.id: "not_started" for todo in course.load(chapter).todos
    }
    assert sum(r.points for r in checked.results) == 0


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_takes_from_earlier_ones_only(chapter: str) -> None:
    """So step k runs with steps 1 to k alone."""
    source = (ROOT / "solutions" / f"{course.load(chapter).name}.py").read_text(encoding="utf-8")
    taken = re.findall(r"""\bchapter\(["'](ch\d\d)["']\)""", source)
    assert all(other < chapter for other in taken)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_core_is_at_most_five_todos_and_a_todo_at_most_fifteen_lines(chapter: str) -> None:
    todos = course.load(chapter).todos
    assert sum(todo.level == "core" for todo in todos) <= 5
    assert all(1 <= todo.lines <= 15 for todo in todos)
