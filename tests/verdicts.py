"""Verdicts made up for pages about them, and a reader of such pages."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from decodelab.check.rules import TodoResult
from decodelab.course import load
from decodelab.grading.grade import Graded

CHAPTER = load("ch01")
ATTACK = "</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'`<b>`&amp;\u202e"


def results(**states: str) -> list[TodoResult]:
    """Every TODO passed but those named (``ch01_2="died"``)."""
    found = {name.replace("_", "."): state for name, state in states.items()}
    return [TodoResult(t.id, found.get(t.id, "passed"), t.points) for t in CHAPTER.todos]


def graded(todos: list[TodoResult], lang: str = "en", **changes: Any) -> Graded:
    base = Graded("s1", "ch01", lang, 271828182845, "bubblewrap", "abc123def456", todos)
    return replace(base, **changes)


def everywhere(state: str) -> list[TodoResult]:
    return results(**{t.id.replace(".", "_"): state for t in CHAPTER.todos})


class Page(HTMLParser):
    """The tags, attributes, ids, links and the text of a page; complains about a tag that is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if "href" in found else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""
