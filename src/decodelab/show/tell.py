"""Say something where the user is: rich in a notebook, plain text on a terminal."""

from __future__ import annotations

import html
import re
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any


def shell() -> Any:
    """The IPython shell that this code runs in, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_notebook() -> bool:
    """Whether a notebook (any Jupyter kernel, Colab's too) shows what is displayed."""
    return getattr(shell(), "kernel", None) is not None


def tell(text: str, *, as_html: str = "", as_markdown: str = "") -> None:
    """Print ``text``; in a notebook show the HTML or the Markdown instead, where there is one."""
    if in_notebook() and (as_html or as_markdown):
        from IPython.display import display

        rich = {"text/html": as_html, "text/markdown": as_markdown}
        display({"text/plain": text} | {kind: body for kind, body in rich.items() if body}, raw=True)
    else:
        print(text)


_MARKUP = re.compile(
    r"```\w*\n(?P<block>.*?)\n```|(?P<code>`[^`]*`)|(?P<mark>\*\*?)(?=\S)(?P<text>.+?)(?<=\S)(?P=mark)", re.S
)


def plain(markdown: str) -> str:
    """Markdown as a terminal shows it: no asterisks, a block of code indented; `code` keeps its backticks."""

    def bare(match: re.Match[str]) -> str:
        if match["block"] is not None:
            return textwrap.indent(match["block"], "    ")
        return match["code"] or match["text"]

    return _MARKUP.sub(bare, markdown)


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns stand straight, also with Chinese in them."""
    lines = [list(head), *map(list, rows)]
    wide = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (w - width(cell)) for cell, w in zip(line, wide, strict=True)).rstrip()
        for line in lines
    )


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table for a notebook; every cell is escaped."""

    def line(tag: str, cells: Sequence[str]) -> str:
        styles = ["text-align:left;white-space:nowrap", *["text-align:left"] * (len(cells) - 1)]
        inside = zip(styles, cells, strict=True)
        return "<tr>" + "".join(f'<{tag} style="{s}">{html.escape(c)}</{tag}>' for s, c in inside) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"
