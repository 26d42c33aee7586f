"""A chapter's source: its cells, the two languages in its code, and the regions learners fill.

Everything but ``read_cells`` is plain text work on the standard library.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from decodelab.lang import LANGUAGES
from decodelab.notebook.read import mask_magics

LINE_LENGTH = 100

_COMMENT = re.compile(r"(?P<lead>\s*# )(?P<lang>en|zh): (?P<text>.*)")
_MEANT = re.compile(r"#+\s*(en|zh)\s*[:：]", re.IGNORECASE)
_DOCLINE = re.compile(r"(?P<lead>\s*)(?P<lang>en|zh): (?P<text>.*)")
_QUOTES = re.compile(r"[rR]?(\"\"\"|'''|\"|')")
_OPEN = re.compile(r"(?P<indent>\s*)# TODO (?P<todo>ch\d\d\.\d+)(?P<size>(?: ?[(（].*[)）])?)\s*$")
_CLOSE = re.compile(r"\s*# END (?P<todo>\S*)\s*$")


class SourceError(ValueError):
    """What is wrong in a cell; whoever knows the cell adds its name."""


@dataclass(frozen=True)
class SourceCell:
    """One cell of a chapter's source: ``number`` counts from 1, ``attrs`` is its header's."""

    number: int
    kind: str  # "markdown" | "code"
    source: str
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def tags(self) -> list[str]:
        """The header's ``tags``."""
        return self.attrs.get("tags", [])

    def __str__(self) -> str:
        first = next((line.strip() for line in self.source.splitlines() if line.strip()), "empty")
        return f"cell {self.number} ({first[:60]})"


def read_cells(text: str) -> list[SourceCell]:
    """The cells of a chapter's source in jupytext's py:percent form; SourceError where it has none."""
    import jupytext  # an author's tool; what learners import does without
    from nbformat import ValidationError

    try:
        cells = jupytext.reads(text, fmt="py:percent").cells
    except ValidationError as error:
        raise SourceError(f"a cell's header is wrong: {error.message}") from None
    return [
        SourceCell(number, cell.cell_type, cell.source, _header(cell.metadata))
        for number, cell in enumerate(cells, 1)
    ]


def _header(metadata: dict[str, Any]) -> dict[str, Any]:
    """A cell's metadata without jupytext's notes on blank lines."""
    return {key: value for key, value in metadata.items() if not key.startswith("lines_to_")}


# --- two languages ----------------------------------------------------------------------------


def edition(source: str, lang: str) -> str:
    """One language's edition of a code cell; SourceError for a marker that cannot be resolved.

    Comment and docstring lines marked ``en:`` and ``zh:``, and calls of ``tr(en=..., zh=...)``, give
    way to that language's part; every ``# TODO`` line says how many lines the reference takes.
    """
    parse(source)
    for resolve in (_comments, _docstrings, _translations):
        source = resolve(source, lang)
    if any(_names_tr(node) for node in ast.walk(parse(source))) or _tr_in_magic(source):
        raise SourceError("`tr` is left over: write tr(en=..., zh=...), and import it in the setup cell only")
    return _sized(source, lang)


def parse(source: str) -> ast.Module:
    """The syntax tree of a cell that may hold IPython magics."""
    try:
        return ast.parse(mask_magics(source))
    except SyntaxError as error:
        raise SourceError(f"not valid Python: {error.msg} in line {error.lineno} of the cell") from None


def imported(source: str) -> set[str]:
    """The names that the imports of a cell bring."""
    imports = [node for node in ast.walk(parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _names_tr(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="tr") | ast.Attribute(attr="tr") | ast.alias(name="tr") | ast.alias(asname="tr"):
            return True
    return False


def _tr_in_magic(source: str) -> bool:
    """Whether IPython's own lines, which are not Python to us, call ``tr``."""
    python = mask_magics(source).split("\n")
    return any(re.search(r"\btr\(", line) for line in source.split("\n") if line not in python)


def _pick(lines: list[str], marked: list[re.Match[str] | None], lang: str) -> list[str]:
    """``lines`` without those marked for the other language; each run of en is followed by its zh."""
    tags = [m["lang"] if m else None for m in marked]
    runs = [(tag, list(run)) for tag, run in groupby(range(len(lines)), tags.__getitem__)]
    for here, after in pairwise([None, *(tag for tag, _ in runs), None]):
        if (here == "en") != (after == "zh"):
            raise SourceError(
                f"an unpaired `{here or after}:` line: each run of en: is directly followed by its zh:"
            )
    kept = [i for tag, run in runs if tag in (None, lang) for i in run]
    return [m["lead"] + m["text"] if (m := marked[i]) else lines[i] for i in kept]


def _comments(source: str, lang: str) -> str:
    lines = source.split("\n")
    marked: list[re.Match[str] | None] = [None] * len(lines)
    for token in tokenize.generate_tokens(io.StringIO(mask_magics(source)).readline):
        if token.type == tokenize.COMMENT and _MEANT.match(token.string):
            at = token.start[0] - 1
            marked[at] = _COMMENT.fullmatch(lines[at])
            if not _COMMENT.match(token.string):
                raise SourceError(f"`{token.string}` is no marker: write `# en: …`, then `# zh: …`")
            if not marked[at]:
                raise SourceError(f"`{token.string}` stands behind code: give it a line of its own")
    return "\n".join(_pick(lines, marked, lang))


def _docstrings(source: str, lang: str) -> str:
    spans = sorted((_span(source, node) for node in _docstring_nodes(parse(source))), reverse=True)
    for start, end in spans:
        source = source[:start] + _docstring(source[start:end], lang) + source[end:]
    return source


def _docstring_nodes(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as text), *_]:
                    yield text


def _docstring(literal: str, lang: str) -> str:
    quotes = _QUOTES.match(literal)
    if not quotes:
        return literal
    lines = literal[quotes.end() : -len(quotes[1])].split("\n")
    marked = [_DOCLINE.fullmatch(line) for line in lines]
    if not any(marked):
        return literal
    picked = _pick(lines, marked, lang)
    if marked[0]:
        picked[0] = picked[0].lstrip()
    if len(picked) == 2 and not picked[1].strip():
        picked.pop()  # one line of text: the closing quotes join it
    return quotes[0] + "\n".join(picked) + quotes[1]


def _translations(source: str, lang: str) -> str:
    while call := next((node for node in ast.walk(parse(source)) if _is_tr(node)), None):
        source = _translated(source, call, lang)
    return source


def _is_tr(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tr"


def _translated(source: str, call: Any, lang: str) -> str:
    """``source`` with this ``tr`` call replaced, by the first spelling that means the same."""
    values = {k.arg: k.value for k in call.keywords}
    if call.args or set(values) != set(LANGUAGES):
        raise SourceError("`tr` takes exactly en= and zh=")
    start, end = _span(source, call)
    value_start, value_end = _span(source, values[lang])
    text = source[value_start:value_end]
    shift = _indent(source, value_start) - _indent(source, start)
    before, after = source[:start], source[end:]
    wanted = ast.dump(_Replace(call, lang).visit(parse(source)))
    for new in (
        _on_one_line(before, text, after),
        before + _shifted(text, shift) + after,
        before + text + after,
        f"{before}({text}){after}",
    ):
        try:
            if new and ast.dump(parse(new)) == wanted:
                return new
        except SourceError:
            pass
    raise SourceError("a `tr` that cannot be replaced; around an f-string write tr(en=f'...', zh=f'...')")


class _Replace(ast.NodeTransformer):
    """Puts one language's argument in the place of one ``tr`` call."""

    def __init__(self, call: ast.Call, lang: str) -> None:
        self.at, self.lang = (call.lineno, call.col_offset, call.end_col_offset), lang

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_tr(node) and (node.lineno, node.col_offset, node.end_col_offset) == self.at:
            return next(k.value for k in node.keywords if k.arg == self.lang)
        return self.generic_visit(node)


def _on_one_line(before: str, text: str, after: str) -> str:
    """A call whose only argument shrank, joined to one line where that fits; else nothing."""
    opened, closed = re.search(r"[(\[]\n\s*$", before), re.match(r",?\n\s*([)\]])", after)
    if not (opened and closed) or "\n" in text:
        return ""
    head, tail = before[: opened.start() + 1], after[closed.start(1) :]
    joined = head.rpartition("\n")[2] + text + tail.partition("\n")[0]
    return head + text + tail if len(joined) <= LINE_LENGTH else ""


def _shifted(text: str, left: int) -> str:
    """The lines of ``text`` after its first, moved ``left`` columns to the left."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(line[min(left, len(line) - len(line.lstrip())) :] for line in rest)])


def _indent(source: str, at: int) -> int:
    line = source[source.rfind("\n", 0, at) + 1 :].partition("\n")[0]
    return len(line) - len(line.lstrip())


def _span(source: str, node: Any) -> tuple[int, int]:
    """A node's place in ``source``, in characters (the tree counts bytes of UTF-8)."""
    lines = source.split("\n")

    def offset(line: int, column: int) -> int:
        before = sum(len(text) + 1 for text in lines[: line - 1])
        return before + len(lines[line - 1].encode()[:column].decode())

    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)


# --- regions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """What lies between ``# TODO ch01.2`` and ``# END ch01.2``; indices of a cell's lines, from 0."""

    todo: str
    indent: str
    start: int  # the TODO line
    body: int  # the first line after the hint
    end: int  # the END line


def regions(source: str) -> list[Region]:
    """The TODO regions of a cell in order; SourceError for one that is not closed, or nested."""
    found: list[Region] = []
    lines = source.split("\n")
    opened: tuple[re.Match[str], int] | None = None
    for i, line in enumerate(lines):
        if re.match(r"\s*# TODO\b", line):
            mark = _OPEN.match(line)
            if not mark:
                raise SourceError(f"`{line.strip()}`: a region opens with `# TODO ch01.2` and nothing more")
            if opened:
                raise SourceError(f"TODO {mark['todo']} opens before `# END {opened[0]['todo']}`")
            opened = mark, i
        elif close := _CLOSE.match(line):
            if not opened or close["todo"] != opened[0]["todo"]:
                raise SourceError(f"`{line.strip()}` closes no region of that name")
            mark, start = opened
            body = next(n for n in range(start + 1, i + 1) if n == i or not _is_comment(lines[n]))
            found.append(Region(mark["todo"], mark["indent"], start, body, i))
            opened = None
    if opened:
        raise SourceError(
            f"the region of TODO {opened[0]['todo']} is not closed: `# END {opened[0]['todo']}`"
        )
    return found


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def stub(source: str) -> str:
    """An answer cell as a learner gets it: hints stay, each reference becomes ``raise TodoError``.

    ``source`` is one language's edition. Stubbing a stub changes nothing.
    """
    lines = source.split("\n")
    for region in reversed(regions(source)):
        lines[region.body : region.end] = [f'{region.indent}raise TodoError("{region.todo}")']
    return "\n".join(lines)


def reference(source: str, region: Region) -> str:
    """A region's code without its hint, dedented."""
    return textwrap.dedent("\n".join(source.split("\n")[region.body : region.end])).strip("\n")


def line_count(code: str) -> int:
    """The lines of ``code`` that are neither blank nor a comment."""
    return sum(1 for line in code.split("\n") if line.strip() and not _is_comment(line))


def enclosing(source: str, region: Region) -> str:
    """The function that holds a region, as ``"Class.method"``; SourceError where none does."""
    lines = source.split("\n")
    code = [n for n in range(region.body, region.end) if lines[n].strip() and not _is_comment(lines[n])]
    scopes = [
        node
        for node in ast.walk(parse(source))  # outer ones first
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= region.start
        and (node.end_lineno or 0) > max(code)
    ]
    if not scopes or isinstance(scopes[-1], ast.ClassDef):
        raise SourceError(f"TODO {region.todo} is in no function: its stub would stop the whole cell")
    return ".".join(scope.name for scope in scopes)


def check_region(source: str, region: Region) -> None:
    """SourceError unless a region of an *unresolved* cell has a hint in both languages and a reference."""
    lines = source.split("\n")
    hint = lines[region.start + 1 : region.body]
    if not hint or not all(_COMMENT.fullmatch(line) for line in hint):
        raise SourceError(
            f"TODO {region.todo}: begin the region with its hint, comment lines marked `en:` then `zh:`, and no other comment"
        )
    if not line_count(reference(source, region)):
        raise SourceError(f"TODO {region.todo}: the region holds no reference")


def _sized(source: str, lang: str) -> str:
    """``source`` with the size of each reference in its TODO line."""
    lines = source.split("\n")
    for region in regions(source):
        count = line_count(reference(source, region))
        size = f"（约 {count} 行）" if lang == "zh" else f" (about {count} line{'s' if count > 1 else ''})"
        lines[region.start] = f"{region.indent}# TODO {region.todo}{size}"
    return "\n".join(lines)


# --- prose ------------------------------------------------------------------------------------

_WIDE = "[\u2014\u2018-\u201d\u2026\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
_SOFT_BREAK = re.compile(rf"(?<={_WIDE})\n(?=\**{_WIDE})|(?<=[\u3000-\u303f\uff00-\uffef])\n")
_OWN_LINE = re.compile(r"\s*([-*+](?!\S)|---|[>|#]|\d+\. |$)")


def unwrapped(prose: str) -> str:
    """Markdown with each paragraph on one line.

    A line break in the source is white space to Markdown; between two Chinese characters it would
    show as a gap, so there it goes without a trace.
    """
    lines: list[str] = []
    fenced = False
    for line in prose.split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        alone = fenced or fence or _OWN_LINE.match(line) or not lines or not _open(lines[-1])
        if alone:
            lines.append(line)
        else:
            lines[-1] = _SOFT_BREAK.sub("", f"{lines[-1]}\n{line.strip()}").replace("\n", " ")
        fenced ^= fence
    return "\n".join(lines)


def _open(line: str) -> bool:
    """Whether a paragraph or list item may go on after this line."""
    text = line.strip()
    return bool(text) and not text.startswith(("#", "|", "```", "~~~")) and not line.endswith("  ")
