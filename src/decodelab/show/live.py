"""For a terminal: texts that grow side by side, and the event strip in letters."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TextIO

from decodelab.lang import both
from decodelab.log import LoggedEvent
from decodelab.request import RequestId
from decodelab.show.tell import width

PIECE = 32  # columns of new text that are worth a line where nothing can be written over

SIGNS = {  # by action; the others compute nothing and leave a request where it is
    "prefill_chunk": "p",
    "prefill_to_decode": "P",
    "decode_one_step": "D",
    "finish": "F",
    "preempt": "x",
    "swap_out": "v",
    "swap_in": "^",
    "reject": "R",
    "cancel": "C",
    "timeout": "T",
}
OVER = ("finish", "reject", "cancel", "timeout")
LEGEND = both(
    en="A row a request, a column a step: p a chunk of its prompt, P its prompt's end and first token, D decode, F its "
    "last token, · waits; x preempted, v swapped out, ^ swapped in, R refused, C cancelled, T timed out.",
    zh="一行是一个请求，一列是一步：p 提示词的一块，P 提示词算完并得到第一个 token，D 解码，F 最后一个 token，· 等待；"
    "x 被抢占，v 换出，^ 换入，R 被拒绝，C 被取消，T 超时。",
)


class Lines:
    """Growing texts, each with a name: in place on a terminal, elsewhere a line for every PIECE of new text.

    stream: standard output by default.
    """

    def __init__(self, names: Sequence[str], stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.texts = dict.fromkeys(names, "")
        self.sent = dict.fromkeys(names, 0)  # characters told, where nothing can be written over
        self.in_place = self.stream.isatty()
        self._margin = max(map(width, names), default=0)
        self._drawn = 0

    def show(self, name: str, text: str, over: bool = False) -> None:
        """``text`` is all that there is of it so far; ``over``: no more will come."""
        if self.in_place:
            changed = self.texts[name] != text
            self.texts[name] = text
            if changed:
                self._draw([tail(text, self._room()) for text in self.texts.values()])
            return
        new = text[self.sent[name] :]
        if not over:  # up to the last space, where there is one
            new = new[: new.rfind(" ") + 1] or new
        if new and (over or width(new) >= PIECE):
            self._line(name, new)
            self.sent[name] += len(new)

    def close(self) -> None:
        """Leave every text there in full."""
        if self.in_place:
            self._draw(list(self.texts.values()))

    def _room(self) -> int:
        return max(8, shutil.get_terminal_size().columns - self._margin - 3)

    def _draw(self, shown: Sequence[str]) -> None:
        if self._drawn:
            self.stream.write(f"\x1b[{self._drawn}F\x1b[J")  # up to the first line, and nothing below
        for name, text in zip(self.texts, shown, strict=True):
            self._line(name, text)
        self._drawn = len(shown)

    def _line(self, name: str, text: str) -> None:
        self.stream.write(f"{padded(name, self._margin)}  {text.replace(chr(10), '⏎')}\n")
        self.stream.flush()


def tail(text: str, columns: int) -> str:
    """The end of a text that fits into so many columns, with … where something is cut."""
    if width(text) <= columns:
        return text
    sizes = list(accumulate(width(c) for c in reversed(text)))
    kept = sum(size <= columns - 1 for size in sizes)
    return "…" + text[len(text) - kept :]


def padded(text: str, columns: int) -> str:
    """Spaces behind it up to so many columns."""
    return text + " " * (columns - width(text))


def strip_text(
    events: Iterable[LoggedEvent], names: Mapping[RequestId, str] | None = None, columns: int = 100
) -> str:
    """The event strip in letters (LEGEND), a row a request; after ``columns`` steps it goes on below.

    names: what requests are called, their ids by default. Steps are counted from 0.
    """
    rows: dict[RequestId, dict[int, str]] = {}
    last: dict[RequestId, int] = {}
    steps = 0
    for event in events:
        row, step, action = rows.setdefault(event["request_id"], {}), event["step"], event["action"]
        row[step] = SIGNS.get(action) or row.get(step, "·")
        steps = step + 1
        if action in OVER:
            last[event["request_id"]] = step
    called = {i: (names or {}).get(i, f"{i}") for i in rows}
    margin = max(map(width, called.values()), default=0)
    lines = []
    for begin in range(0, steps, columns):
        span = range(begin, min(begin + columns, steps))
        lines.append(" " * margin + "  " + "".join(f"{n:<10}" for n in span if n % 10 == begin % 10).rstrip())
        for i, row in rows.items():
            first, end = min(row), last.get(i, steps)
            signs = "".join(row.get(n, "·") if first <= n <= end else " " for n in span)
            lines.append(f"{padded(called[i], margin)}  {signs}".rstrip())
    return "\n".join(lines)
