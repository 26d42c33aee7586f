"""A chapter on its way from source cells to notebooks and course data: everything taken in and checked."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decodelab.course import Answer
from decodelab.lang import LANGUAGES, Text, both
from decodelab.notebook import source as src
from decodelab.notebook.setup import Publishing, setup_cell
from decodelab.notebook.source import SourceCell, SourceError

TAGS = {"setup", "export"}
LEVELS = ("core", "extension")

CHAPTER_NAME = re.compile(r"(ch\d\d)_[a-z0-9_]+$")
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_TODO_HEADING = re.compile(r"TODO (ch\d\d\.\d+)\s*·\s*(.+)")
_LINK = re.compile(r"\]\(<?([^)>\s]+)|\b(?:src|href)=[\"']([^\"']+)")
_HALF_WIDTH = re.compile(r".{0,8}([\u4e00-\u9fff][,;:?!(]|[,;:?!(][\u4e00-\u9fff]).{0,8}")
_HINT = re.compile(r"^(\d+)\. +", re.MULTILINE)


@dataclass
class Item:
    """A cell of the notebooks: its text in each language, as learners get it and solved."""

    kind: str
    text: Text
    solved: Text
    grade: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)


@dataclass
class Check:
    """A check cell's header."""

    points: float
    level: str


@dataclass
class Hole:
    """A TODO region and the answer cell that it is in."""

    answer: str
    symbol: str
    code: str


def compile_chapter(path: Path, publishing: Publishing) -> ChapterSource:
    """The chapter at ``path``, its ``problems`` included."""
    chapter = ChapterSource(path, publishing)
    try:
        cells = src.read_cells(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        chapter.problem(None, "this is not UTF-8: save it as UTF-8")
    except SourceError as error:
        chapter.problem(None, str(error))
    else:
        chapter.compile(cells)
    return chapter


class ChapterSource:
    """One chapter, taken in cell by cell; ``problems`` says what is wrong with it."""

    def __init__(self, path: Path, publishing: Publishing) -> None:
        self.file, self.name = f"solutions/{path.name}", path.stem
        self.id = self.name.split("_")[0]
        self.publishing = publishing
        self.problems: list[str] = []
        self.links: list[tuple[str, str, str]] = []  # (where, language, target)
        self.items: list[Item] = []
        self.titles: dict[str, Text] = {}
        self.hints: dict[str, dict[str, list[str]]] = {}
        self.explanations: dict[str, Text] = {}
        self.answers: dict[str, Answer] = {}
        self.holes: dict[str, Hole] = {}
        self.check_cells: dict[str, Check] = {}
        self.exports: list[str] = []
        self.title: Text = {}

    def problem(self, cell: SourceCell | None, text: str) -> None:
        """Note what is wrong, with its place."""
        self.problems.append(f"{self.file}, {cell}: {text}" if cell else f"{self.file}: {text}")

    def compile(self, cells: list[SourceCell]) -> None:
        """Take in every cell, then look at what only shows in the whole."""
        if not CHAPTER_NAME.match(self.name):
            self.problem(None, "a chapter's file is called chNN_name.py")
        if not any("setup" in cell.tags for cell in cells):
            self.problem(None, 'no setup cell: # %% tags=["setup"]')
        waiting = list(cells)
        while waiting:
            cell = waiting.pop(0)
            try:
                self._header(cell)
                if cell.kind == "markdown":
                    self._prose(cell, waiting)
                else:
                    self._code(cell)
            except SourceError as error:
                self.problem(cell, str(error))
                if cell.kind == "markdown" and waiting and waiting[0].attrs.get("lang") == "zh":
                    waiting.pop(0)
        if not self.problems:  # else half of what is found missing would be there, in a cell that was refused
            self._whole()

    def _header(self, cell: SourceCell) -> None:
        if cell.kind not in ("markdown", "code"):
            raise SourceError(f"a {cell.kind} cell has no place in a chapter")
        if "incorrectly_encoded_metadata" in cell.attrs:
            raise SourceError(f"a header that cannot be read: {cell.attrs['incorrectly_encoded_metadata']}")
        if unknown := [*(set(cell.attrs) - keys_of(cell)), *(set(cell.tags) - TAGS)]:
            raise SourceError(f"the header of such a cell knows no {', '.join(map(repr, sorted(unknown)))}")

    # prose

    def _prose(self, cell: SourceCell, waiting: list[SourceCell]) -> None:
        twin = waiting[0] if waiting else None
        paired = twin and twin.kind == "markdown" and twin.attrs == cell.attrs | {"lang": "zh"}
        if cell.attrs.get("lang") != "en" or not twin or not paired:
            raise SourceError(
                'an unpaired language cell: lang="en" is directly followed by its lang="zh" twin'
            )
        text = {"en": cell.source, "zh": twin.source}
        for one, lang in ((cell, "en"), (twin, "zh")):
            if lang == "zh" and (half := _HALF_WIDTH.search(_FENCE.sub("", one.source))):
                self.problem(one, f"half-width punctuation in Chinese: {half[0]}")
            self.links += [(f"{self.file}, {one}", lang, link) for link in relative_links(one.source)]
        if "hint" in cell.attrs:
            self._keep(self.hints, cell.attrs["hint"], {k: self._three_hints(v) for k, v in text.items()})
        elif "explain" in cell.attrs:
            self._keep(
                self.explanations, cell.attrs["explain"], {k: src.unwrapped(v) for k, v in text.items()}
            )
        else:
            self._headings(text)
            text["zh"] = src.unwrapped(text["zh"])
            self.items.append(Item("markdown", text, text))
        waiting.pop(0)

    def _keep(self, kept: dict[str, Any], todo: str, value: Any) -> None:
        if todo in kept:
            raise SourceError(f"a second cell like this for {todo}")
        kept[todo] = value

    def _three_hints(self, text: str) -> list[str]:
        before, *found = _HINT.split(text)
        if before.strip() or found[::2] != ["1", "2", "3"]:
            numbers = " ".join(f"{number}." for number in found[::2])
            raise SourceError(f"three hints are wanted, numbered 1. 2. 3.; found: {numbers or 'none'}")
        return [src.unwrapped(inspect.cleandoc(hint)) for hint in found[1::2]]

    def _headings(self, text: Text) -> None:
        found = {lang: _HEADING.findall(_FENCE.sub("", t)) for lang, t in text.items()}
        if [level for level, _ in found["en"]] != [level for level, _ in found["zh"]]:
            raise SourceError("unmatched headings: the twins have different ones")
        for (level, en), (_, zh) in zip(found["en"], found["zh"], strict=True):
            if level == "#" and not self.title:
                self.title = both(en=en, zh=zh)
            todo, twin = _TODO_HEADING.search(en), _TODO_HEADING.search(zh)
            if (todo and todo[1]) != (twin and twin[1]):
                raise SourceError(f"unmatched headings: {en!r} and {zh!r} name different TODOs")
            if todo and twin:
                self._keep(self.titles, todo[1], both(en=todo[2], zh=twin[2]))

    # code

    def _code(self, cell: SourceCell) -> None:
        if "setup" in cell.tags:
            self._setup(cell)
        elif "check" in cell.attrs:
            self._check(cell)
        elif "answer" in cell.attrs:
            self._answer(cell)
        else:
            self._plain(cell)

    def _setup(self, cell: SourceCell) -> None:
        if any(item.kind == "code" for item in self.items):
            raise SourceError("the setup cell is the first code cell, and the only one of its kind")
        if not re.search(rf'^start\("{self.id}", tr\(', cell.source, re.MULTILINE):
            raise SourceError(f'the setup cell calls start("{self.id}", tr(en="en", zh="zh"))')
        text = {lang: setup_cell(self.id, lang, self.publishing) for lang in LANGUAGES}
        if more := src.imported(cell.source) - src.imported(text["en"]) - {"tr"}:
            names = ", ".join(sorted(more))
            raise SourceError(
                f"a notebook's setup cell does not import {names}: import it where it is first used"
            )
        self.items.append(Item("code", text, text, tags=["setup"]))

    def _check(self, cell: SourceCell) -> None:
        todo, points, level = cell.attrs["check"], cell.attrs.get("points"), cell.attrs.get("level")
        if not re.fullmatch(rf"{self.id}\.\d+", str(todo)):
            raise SourceError(f"missing grade id: check={todo!r} is no TODO of {self.id}")
        if cell.source.strip() != f'check("{todo}")':
            raise SourceError(f'a check cell holds check("{todo}") and nothing else')
        if not isinstance(points, int | float) or isinstance(points, bool) or not 0 < points < math.inf:
            raise SourceError("a check cell has points above 0")
        if level not in LEVELS:
            raise SourceError('a check cell has level="core" or level="extension"')
        if todo in self.check_cells:
            raise SourceError(f"duplicate grade id: {todo} has a check cell already")
        if todo not in self.holes and not self.problems:
            raise SourceError(f"a check without TODO: no region # TODO {todo} above it")
        self.check_cells[todo] = Check(float(points), level)
        text = dict.fromkeys(LANGUAGES, cell.source.strip())
        self.items.append(Item("code", text, text, _grade(todo.replace(".", "-"), float(points))))

    def _answer(self, cell: SourceCell) -> None:
        grade_id = cell.attrs["answer"]
        if not re.fullmatch(rf"{self.id}-answer(-\d+)?", str(grade_id)):
            raise SourceError(
                f"missing grade id: an answer cell of {self.id} is {self.id}-answer, {self.id}-answer-2 …"
            )
        if grade_id in self.answers:
            raise SourceError(f"duplicate grade id: {grade_id} is taken")
        self._holes(grade_id, cell.source)
        solved = _editions(cell.source)
        text = {lang: src.stub(code) for lang, code in solved.items()}
        for code in text.values():
            src.parse(code)
        self.answers[grade_id] = Answer(grade_id, solved["en"], text)
        if "export" in cell.tags:
            self.exports.append(f"@{grade_id}")
        self.items.append(Item("code", text, solved, _grade(grade_id), cell.tags))

    def _holes(self, grade_id: str, source: str) -> None:
        regions = src.regions(source)
        if not regions:
            raise SourceError("an answer cell without a TODO region")
        for region in regions:
            src.check_region(source, region)
            if not region.todo.startswith(f"{self.id}."):
                raise SourceError(f"TODO {region.todo} is no TODO of {self.id}")
            if region.todo in self.holes:
                raise SourceError(f"duplicate TODO: {region.todo} has a region already")
            code = src.reference(source, region)
            if any(src.edition(code, lang) != code for lang in LANGUAGES):
                raise SourceError(
                    f"TODO {region.todo}: its reference is the same in both languages; explain it in explain="
                )
            self.holes[region.todo] = Hole(grade_id, src.enclosing(source, region), code)

    def _plain(self, cell: SourceCell) -> None:
        if src.regions(cell.source):
            raise SourceError(f'a solution region outside an answer cell: # %% answer="{self.id}-answer"')
        if re.match(r"check\(", cell.source):
            raise SourceError(f'missing grade id: # %% check="{self.id}.1" points=1 level="core"')
        text = _editions(cell.source)
        if "export" in cell.tags:
            self.exports.append(text["en"])
        self.items.append(Item("code", text, text, tags=cell.tags))

    # the whole

    def _whole(self) -> None:
        if not self.title:
            self.problem(None, "the first cell has no title: `# …` in both languages")
        for found, lack in (
            (self.titles, "no heading `## TODO {} · its title`"),
            (self.check_cells, 'a TODO without check: no cell `# %% check="{}" …`'),
            (self.hints, 'missing hints: no cell `# %% [markdown] lang="en" hint="{}"`'),
            (self.explanations, 'missing explanation: no cell `# %% [markdown] lang="en" explain="{}"`'),
        ):
            for todo in sorted(set(self.holes) - set(found)):
                self.problem(None, f"TODO {todo}: {lack.format(todo)}")
            for todo in sorted(set(found) - set(self.holes)):
                self.problem(None, f"TODO {todo} is named, but no answer cell has its region")


def keys_of(cell: SourceCell) -> set[str]:
    """What the header of a cell of this kind may say."""
    if cell.kind == "markdown":
        return {"lang", "hint"} if "hint" in cell.attrs else {"lang", "explain"}
    if "check" in cell.attrs:
        return {"check", "points", "level"}
    return {"answer", "tags"} if "answer" in cell.attrs else {"tags"}


def _editions(source: str) -> Text:
    return {lang: src.edition(source, lang) for lang in LANGUAGES}


def _grade(grade_id: str, points: float | None = None) -> dict[str, Any]:
    """nbgrader's metadata, schema 3: an answer cell, or with points a check cell."""
    graded = points is not None
    data: dict[str, Any] = {
        "schema_version": 3,
        "grade_id": grade_id,
        "grade": graded,
        "locked": graded,
        "solution": not graded,
        "task": False,
    }
    return data | {"points": points} if graded else data


def relative_links(text: str) -> list[str]:
    """The targets of Markdown and HTML links in ``text`` that name a file, outside code."""
    found = [a or b for a, b in _LINK.findall(_FENCE.sub("", text))]
    return [link for link in found if not re.match(r"[a-z][a-z0-9+.-]*:|#|//", link)]
