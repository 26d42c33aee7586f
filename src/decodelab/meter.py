"""How far something is: one line, written over, where somebody looks on."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from decodelab.lang import tr

PAUSE = 0.1  # seconds between two lines at least


class Meter:
    """The line ``done/total, speed, time left``, on a terminal or in a notebook; silent anywhere else.

    stream: standard output by default.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total, self.stream = total, stream or sys.stdout
        self.shows = self.stream.isatty() or type(self.stream).__module__.startswith("ipykernel.")
        self._began = time.monotonic()
        self._next = self._began
        self._width = 0

    def show(self, done: int) -> None:
        """``done`` of the total are done; the line ends with the last one."""
        now = time.monotonic()
        if not self.shows or (now < self._next and done < self.total):
            return
        self._next = now + PAUSE
        speed = done / max(now - self._began, 0.001)
        left = (self.total - done) / speed if speed else 0
        line = f"{done}/{self.total}  " + tr(
            en=f"{speed:.1f}/s  {left:.0f} s left", zh=f"每秒 {speed:.1f} 个  还需 {left:.0f} 秒"
        )
        # A notebook knows how to go back to the line's beginning, not how to clear it.
        self.stream.write("\r" + line.ljust(self._width) + ("\n" if done == self.total else ""))
        self.stream.flush()
        self._width = len(line)
