"""Read any notebook a learner hands in, and find the answers in it.

Plain JSON and the standard library: what comes back from a platform is rarely what nbformat accepts.
"""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import symtable
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.lang import LANGUAGES, Text, both

_GRADE_ID = re.compile(r"ch\d\d-(answer(-\d+)?|\d+)$")
_CHAPTER = re.compile(r"\bch\d\d(?=[.\-\"'])")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
_MAGIC = re.compile(r"\s*([%!?]|[\w.]+\s*=\s*[%!])|[^#]*\?\s*$")
MAX_FILE = 256 << 20  # bytes
MAX_CODE = (
    500_000  # characters of all code cells together: Python's parser takes a hundred times as much memory
)
MAX_MAGICS = 100  # lines in a cell, each of which costs one more parsing
_ALWAYS = {"*", "annotations"}  # what a star import or one from __future__ brings cannot be seen


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
    good = _within_reason([_cell(c) for c in cells if isinstance(c, dict)])
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


def _cell(raw: dict[str, Any]) -> Cell:
    source = raw.get("source", raw.get("input"))
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
            lines[at] = re.sub(r"\S.*", "pass", lines[at])
        except (ValueError, RecursionError, MemoryError):  # a null byte, or nested beyond reason
            break
        else:
            break
    return "\n".join(lines)


def find_answers(cells: Sequence[Cell], chapter: Chapter) -> Submission:
    """The chapter's answer cells, found by grade id, else by TODO marks or by what they define.

    The last of several wins, and a note says so. ``definitions`` is what the answers use of the
    notebook's other code cells, transitively: imports, functions, classes, assignments. A later
    ``Name.attr = …`` on a name that an answer defines is appended to that answer.
    """
    code = [c for c in cells if c.kind == "code"]
    sources = [mask_magics(c.source) for c in code]
    chosen: dict[str, int] = {}
    notes: list[Text] = []
    for answer in chapter.answers:
        todos = [t.id for t in chapter.todos if t.answer == answer.grade_id]
        found = _candidates(code, answer.grade_id, todos, _top_names(answer.reference))
        if found:
            chosen[answer.grade_id] = found[-1]
        if len(found) > 1:
            notes.append(_several(answer.grade_id, len(found)))
    rest = {i: source for i, source in enumerate(sources) if i not in chosen.values()}
    answers = {
        grade_id: "\n".join([sources[at], *_patches([rest[i] for i in rest if i > at], sources[at])])
        for grade_id, at in chosen.items()
    }
    return Submission(answers, _definitions(list(rest.values()), list(answers.values())), notes)


def _several(grade_id: str, count: int) -> Text:
    return both(
        en=f"{count} cells answer {grade_id}; the last one counts.",
        zh=f"有 {count} 个单元格都在回答 {grade_id}；以最后一个为准。",
    )


def _candidates(code: Sequence[Cell], grade_id: str, todos: Sequence[str], names: set[str]) -> list[int]:
    """Indices of the cells that may hold this answer: by grade id, else by TODO marks or what they define.

    The last that a kernel ran counts there, also where its marks were deleted.
    """
    by_id = [i for i, cell in enumerate(code) if cell.grade_id == grade_id]
    marked, defining = _matching(code, r"\s*# TODO", todos), _matching(code, "(?:class|def)", sorted(names))
    return by_id or sorted({*marked, *defining})


def _matching(code: Sequence[Cell], before: str, words: Sequence[str]) -> list[int]:
    any_word = "|".join(map(re.escape, words))
    line = re.compile(rf"^{before} (?:{any_word})\b", re.MULTILINE)
    return [i for i, cell in enumerate(code) if words and line.search(cell.source)]


def _body(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _top_names(source: str) -> set[str]:
    """The functions and classes that ``source`` defines at its top level."""
    return {s.name for s in _body(source) if isinstance(s, ast.FunctionDef | ast.ClassDef)}


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level import, definition or assignment binds."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {_name_of(alias) for alias in statement.names}
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            nodes = [node for target in targets for node in ast.walk(target)]
            return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def _free_names(source: str) -> set[str]:
    """The global names that ``source`` reads."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        top = table.get_type() == "module"
        yield from (s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global()))
        for child in table.get_children():
            yield from walk(child)

    try:
        return set(walk(symtable.symtable(source, "<answer>", "exec")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def _patches(rest: Sequence[str], answer: str) -> list[str]:
    """``Name.attr = …`` statements of other cells on names that ``answer`` defines."""
    names = _top_names(answer)

    def patches(statement: ast.stmt) -> bool:
        return isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name) and t.value.id in names
            for t in statement.targets
        )

    return [_text(source, s) for source in rest for s in _body(source) if patches(s)]


def _definitions(rest: Sequence[str], answers: Sequence[str]) -> str:
    offered = [(source, s) for source in rest for s in _body(source)]
    binding = defaultdict(set)  # name -> indices of the statements that bind it
    for at, (_, statement) in enumerate(offered):
        for name in _bound(statement):
            binding[name].add(at)
    defined = {name for answer in answers for s in _body(answer) for name in _bound(s)} | {"TodoError"}
    wanted: set[str] = set()
    fresh = {name for answer in answers for name in _free_names(answer)} - defined
    while fresh:
        wanted |= fresh
        texts = [_text(*offered[at]) for at in set().union(*(binding[name] for name in fresh))]
        fresh = {name for text in texts for name in _free_names(text)} - defined - wanted
    chosen = sorted(set().union(*(binding[name] for name in wanted | _ALWAYS)))
    kept = [_narrowed(_text(*offered[at]), wanted) for at in chosen]
    return "\n\n".join(sorted(kept, key=lambda text: not text.startswith("from __future__")))


def _narrowed(text: str, wanted: set[str]) -> str:
    """An import of only what is wanted: the setup cell's line would load the whole learner's part."""
    statement = ast.parse(text).body[0]
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return text
    statement.names = [alias for alias in statement.names if _name_of(alias) in wanted | _ALWAYS]
    return ast.unparse(statement)


def _name_of(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _text(source: str, statement: ast.stmt) -> str:
    """A statement's own text, decorators included."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    lines = list(_lines(source)[first - 1 : statement.end_lineno])
    lines[-1] = lines[-1][: statement.end_col_offset]
    lines[0] = lines[0][statement.col_offset if first == statement.lineno else 0 :]
    return b"\n".join(lines).decode()


@lru_cache(maxsize=64)
def _lines(source: str) -> list[bytes]:
    """``source`` in lines, as bytes: that is how ``ast`` counts columns."""
    return re.split(rb"\r\n|\r|\n", source.encode())
