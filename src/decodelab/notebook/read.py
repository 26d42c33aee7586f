"""Read any notebook a learner hands in, and find the answers in it.

Plain JSON and the standard library: what comes back from a platform is rarely what nbformat accepts.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decodelab.course import Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.lang import LANGUAGES, Text, both
from decodelab.notebook.marks import filled, written
from decodelab.notebook.needs import gather, names_of, top_level

_GRADE_ID = re.compile(r"ch\d\d-(answer(-\d+)?|\d+)$")
_CHAPTER = re.compile(r"\bch\d\d(?=[.\-\"'])")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
_MAGIC = re.compile(r"\s*([%!?]|[\w.]+\s*=\s*[%!])|[^#]*\?\s*$")
_TIMED = re.compile(r"(\s*)%time\s+(?=[^-\s])")  # a line that is run all the same
MAX_FILE = 256 << 20  # bytes
MAX_CODE = (
    500_000  # characters of all code cells together: Python's parser takes a hundred times as much memory
)
MAX_CELLS = 20  # that may be the same answer
MAX_MAGICS = 100  # lines in a cell, each of which costs one more parsing
CODE = re.compile(r"^[ \t]*[^\s#]", re.MULTILINE)  # anything but blank lines and comments


@dataclass
class Cell:
    """A cell without its outputs; ``kind`` is ``"code"`` or ``"markdown"`` (raw text counts as such)."""

    kind: str
    source: str
    grade_id: str | None = None


@dataclass
class Notebook:
    """What was read; ``lang`` and ``chapter`` are None where nothing tells them."""

    cells: list[Cell]
    lang: str | None
    chapter: str | None
    notes: list[Text] = field(default_factory=list)


@dataclass
class Submission:
    """A learner's answers by grade id, and the code of other cells that they need."""

    answers: dict[str, str]
    definitions: str
    notes: list[Text] = field(default_factory=list)
    mended: set[str] = field(default_factory=set)  # the answers that later cells change


# --- the file ---------------------------------------------------------------------------------


def read_notebook(path: Path | str) -> Notebook:
    """The notebook at ``path``, in any encoding and nbformat that platforms produce.

    DecodeLabError says in one sentence what is wrong with a file that cannot be read.
    """
    path = Path(path)
    return from_content(parse(path, content_of(path)))


def content_of(path: Path) -> bytes:
    """What is in a file; DecodeLabError for what is no file (a pipe would keep us waiting), too large, or closed to us."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            about = os.fstat(file.fileno())
            if stat.S_ISREG(about.st_mode) and about.st_size <= MAX_FILE:
                return file.read()
    except OSError as error:
        raise _unreadable(
            path, en=f"cannot be opened ({error.strerror})", zh=f"打不开（{error.strerror}）"
        ) from None
    raise _unreadable(
        path,
        en=f"is no file, or one above {MAX_FILE >> 20} MB: hand in the notebook itself, its outputs cleared",
        zh=f"不是普通文件，或者超过 {MAX_FILE >> 20} MB：请清除输出后提交 notebook 文件本身",
    )


def parse(path: Path, data: bytes) -> dict[str, Any]:
    """The JSON of a notebook whose bytes are at hand; ``path`` is only its name in what is said.

    DecodeLabError says in one sentence what is wrong with it.
    """
    content = _json(path, decode(path, data))
    if _raw_cells(content) is None:
        raise _unreadable(
            path,
            en="is JSON but has no cells: download it again as .ipynb",
            zh="是 JSON，但没有单元格：请重新下载 .ipynb 文件",
        )
    return content


def from_content(content: dict[str, Any]) -> Notebook:
    """The notebook in JSON that has been parsed already, of nbformat 3 or 4."""
    cells = _raw_cells(content) or []
    good = _within_reason([_cell(c) for c in cells if isinstance(c, dict) and _is_whole(c)])
    notes = []
    if lost := len(cells) - len(good):
        notes.append(
            both(
                en=f"{lost} cell(s) were damaged or far too long and left out.",
                zh=f"有 {lost} 个单元格已损坏或过长，未计入。",
            )
        )
    metadata = _dict(content.get("metadata"))
    ours = _dict(metadata.get("decodelab"))
    return Notebook(good, _language(ours, good), _chapter(ours, good), notes)


def _within_reason(cells: Sequence[Cell]) -> list[Cell]:
    """The cells without the code that goes beyond ``MAX_CODE``."""
    kept, size = [], 0
    for cell in cells:
        length = len(cell.source) if cell.kind == "code" else 0
        if size + length <= MAX_CODE:
            kept.append(cell)
            size += length
    return kept


def decode(path: Path, data: bytes) -> str:
    """Text of any encoding that platforms and spreadsheets write: UTF-8 with or without a BOM, UTF-16, GB18030."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    elif b"\0" in data[:4]:
        encodings = ["utf-16-le" if data[1:2] == b"\0" else "utf-16-be"]
    else:
        encodings = ["utf-8-sig", "gb18030"]
    for encoding in encodings:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            pass
    raise _unreadable(
        path,
        en="is not text: save it as UTF-8 and hand it in again",
        zh="不是文本文件：请存成 UTF-8 后重新提交",
    )


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable(path, **_why_not_json(text)) from None
    return content if isinstance(content, dict) else {}


def _why_not_json(text: str) -> Text:
    if not text.strip():
        return both(en="is empty: download or save it again", zh="是空文件：请重新下载或保存")
    if _CONFLICT.search(text):
        return both(
            en="holds git conflict marks (<<<<<<<): settle the conflict and save it again",
            zh="里有 git 冲突标记（<<<<<<<）：请先解决冲突再保存",
        )
    if text.lstrip()[:1] == "<":
        return both(
            en="is a web page, not a notebook: download the raw .ipynb file",
            zh="是网页而不是 notebook：请下载 .ipynb 原始文件",
        )
    if text.lstrip()[:1] not in "{[":
        return both(en="is no notebook: choose an .ipynb file", zh="不是 notebook：请选择 .ipynb 文件")
    return both(
        en="is not a whole notebook (its JSON is broken): save or download it again",
        zh="不是完整的 notebook（JSON 已损坏）：请重新保存或下载",
    )


def _unreadable(path: Path, *, en: str, zh: str) -> DecodeLabError:
    return DecodeLabError(both(en=f"{path.name} {en}.", zh=f"{path.name} {zh}。"))


def _raw_cells(content: dict[str, Any]) -> list[Any] | None:
    """The cells of nbformat 4, or of nbformat 3's worksheets."""
    sheets = content.get("worksheets")
    if isinstance(sheets, list):
        found = [_dict(sheet).get("cells") for sheet in sheets]
        return [cell for cells in found if isinstance(cells, list) for cell in cells]
    cells = content.get("cells")
    return cells if isinstance(cells, list) else None


def _is_whole(raw: dict[str, Any]) -> bool:
    return isinstance(_source(raw), str | list)


def _source(raw: dict[str, Any]) -> Any:
    return raw.get("source", raw.get("input", ""))


def _cell(raw: dict[str, Any]) -> Cell:
    source = _source(raw)
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    text = source.replace("\r\n", "\n") if isinstance(source, str) else ""
    kind = "code" if raw.get("cell_type") == "code" else "markdown"
    return Cell(kind, text, _grade_id(raw))


def _grade_id(raw: dict[str, Any]) -> str | None:
    """nbgrader's id; where the platform dropped nbgrader's metadata, the cell id that the build gave."""
    for grade_id in (_dict(_dict(raw.get("metadata")).get("nbgrader")).get("grade_id"), raw.get("id")):
        if isinstance(grade_id, str) and _GRADE_ID.match(grade_id):
            return grade_id
    return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _language(ours: dict[str, Any], cells: Sequence[Cell]) -> str | None:
    if ours.get("lang") in LANGUAGES:
        return ours["lang"]
    prose = "".join(c.source for c in cells if c.kind == "markdown")
    if not prose.strip():
        return None
    return "zh" if len(_CHINESE.findall(prose)) * 10 > len(prose) else "en"


def _chapter(ours: dict[str, Any], cells: Sequence[Cell]) -> str | None:
    if isinstance(ours.get("chapter"), str):
        return ours["chapter"]
    named = Counter(_CHAPTER.findall("\n".join(f'"{c.grade_id}"\n{c.source}' for c in cells)))
    return named.most_common(1)[0][0] if named else None


# --- the code in it ---------------------------------------------------------------------------


def mask_magics(source: str) -> str:
    """``source`` with IPython's lines (``%…``, ``!…``, ``…?``) replaced by ``pass``, line for line.

    Only lines that Python refuses are replaced, so text inside a string stays.
    """
    if source.lstrip().startswith("%%"):
        cell_magic = source.lstrip().split(None, 1)[0]
        if cell_magic not in ("%%time", "%%timeit", "%%capture", "%%prun"):
            return "pass"
    lines = source.split("\n")
    for _ in lines[:MAX_MAGICS]:
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 1) - 1
            if at >= len(lines) or not _MAGIC.match(lines[at]):
                break
            lines[at] = (
                _TIMED.sub(r"\1", lines[at])
                if _TIMED.match(lines[at])
                else re.sub(r"\S.*", "pass", lines[at])
            )
        except (ValueError, RecursionError, MemoryError):  # a null byte, or nested beyond reason
            break
        else:
            break
    return "\n".join(lines)


def find_answers(cells: Sequence[Cell], chapter: Chapter) -> Submission:
    """The chapter's answer cells, found by grade id, else by what they define, else by TODO marks.

    Of several cells the last counts in which most TODOs are written, and a note says so; a TODO that is
    not written in it comes from the last cell in which it is. ``definitions`` is what the answers use of
    the other code cells, transitively. What a later cell changes of a name that an answer defines
    (``Name.attr = …``) is appended to that answer.
    """
    code = [Cell("code", mask_magics(c.source), c.grade_id) for c in cells if c.kind == "code"]
    notes: list[Text] = []
    taken: dict[str, int] = {}
    answers: dict[str, str] = {}
    owners: dict[str, tuple[str, float]] = {}
    for answer in chapter.answers:
        todos = [t for t in chapter.todos if t.answer == answer.grade_id]
        names = _top_names(answer.reference)
        found = _candidates(code, answer.grade_id, todos, names)
        if found:
            at, answers[answer.grade_id] = _best([(i, code[i].source) for i in found], todos)
            taken[answer.grade_id] = at
            names = set(names_of(answers[answer.grade_id]).defined)
        if len(found) > 1:
            notes.append(_several(answer.grade_id, len(found)))
        owners |= {name: (answer.grade_id, taken.get(answer.grade_id, math.inf)) for name in names}
    rest = {i: cell.source for i, cell in enumerate(code) if i not in taken.values()}
    definitions, later = gather(rest, list(answers.values()), owners)
    answers = {
        grade_id: "\n".join([source, *later.get(grade_id, [])]) for grade_id, source in answers.items()
    }
    return Submission(answers, definitions, notes, set(later))


def _several(grade_id: str, count: int) -> Text:
    return both(
        en=f"{count} cells answer {grade_id}; of each TODO the last one that is written counts.",
        zh=f"有 {count} 个单元格都在回答 {grade_id}；每个 TODO 以最后写好的那份为准。",
    )


def _candidates(code: Sequence[Cell], grade_id: str, todos: Sequence[Todo], names: set[str]) -> list[int]:
    """Indices of the cells that may hold this answer, those with its grade id last.

    Among all that a kernel ran, the marks may have been deleted; marks alone may be a note of the learner's.
    """
    full = [i for i, cell in enumerate(code) if CODE.search(cell.source)]
    by_id = [i for i in full if code[i].grade_id == grade_id]
    any_name = "|".join(map(re.escape, sorted(names)))
    defining = re.compile(rf"^[ \t]*(?:class|def) ({any_name})\b(?![^:\n]*\b\1\b)", re.MULTILINE)
    others = [i for i in full if i not in by_id and defining.search(code[i].source)]
    any_todo = "|".join(re.escape(todo.id) for todo in todos)
    mark = re.compile(rf"^[ \t]*# TODO (?:{any_todo})\b", re.MULTILINE)
    return [*others, *by_id] or [i for i in full if mark.search(code[i].source)]


def _best(found: Sequence[tuple[int, str]], todos: Sequence[Todo]) -> tuple[int, str]:
    """(place, source) of the last cell that comes to most written TODOs when the others fill its gaps."""
    found = found[-MAX_CELLS:]
    last = {t.id: next((s for _, s in reversed(found) if written(s, t)), "") for t in todos}
    best: tuple[int, int, str] = (-1, 0, "")
    for at, source in found:
        for todo in todos:
            if not written(source, todo):
                source = filled(source, todo, last[todo.id])
        count = sum(written(source, todo) for todo in todos)
        if count >= best[0]:
            best = (count, at, source)
    return best[1:]


def _top_names(source: str) -> set[str]:
    """The functions and classes that ``source`` defines at its top level."""
    return {s.name for s in top_level(source) if isinstance(s, ast.FunctionDef | ast.ClassDef)}
