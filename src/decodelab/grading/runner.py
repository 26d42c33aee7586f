"""The process that holds student code: it runs what the judge sends and answers calls, nothing else.

Started by path, not imported: ``python runner.py OPTIONS``. One JSON object a line comes in on stdin, one
goes out on a private copy of stdout; the student's own stdin, stdout and stderr lead nowhere, what
is printed being kept (its end only) for feedback. A thread reads the orders, so that ``peek``
answers while student code is stuck in a loop.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import queue
import sys
import threading
import traceback
import types
from typing import Any

MODULE = "notebook"  # the module in which student code lives
MAX_DEPTH = 12
MAX_PRINTED = 4_000  # characters


class Tail(io.TextIOBase):
    """A text stream that keeps the last few thousand characters."""

    def __init__(self) -> None:
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-MAX_PRINTED:]
        return len(text)


def encode(value: Any, depth: int = 0) -> Any:
    """Plain JSON for ``value``: what JSON lacks becomes ``{"~": kind, ...}``; whatever is too deep, its repr."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if depth > MAX_DEPTH:
        return {"~": "repr", "v": repr(value)[:200]}
    if type(value) is list:
        return [encode(v, depth + 1) for v in value]
    if type(value) is tuple:
        return {"~": "tuple", "v": [encode(v, depth + 1) for v in value]}
    if isinstance(value, dict):
        if "~" not in value and all(type(k) is str for k in value):
            return {k: encode(v, depth + 1) for k, v in value.items()}
        return {"~": "dict", "v": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        return encode(value.tolist(), depth + 1)
    if hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType | types.FunctionType):
        fields = {k: encode(v, depth + 1) for k, v in vars(value).items()}
        return {"~": "object", "type": type(value).__name__, "v": fields}
    return {"~": "repr", "v": repr(value)[:200]}


def decode(value: Any, kept: dict[str, Any]) -> Any:
    """What the judge sent: plain JSON, tuples, and objects kept on this side by name."""
    if isinstance(value, list):
        return [decode(v, kept) for v in value]
    if isinstance(value, dict):
        if "~" not in value:
            return {k: decode(v, kept) for k, v in value.items()}
        if value["~"] == "kept":
            return kept[value["v"]]
        if value["~"] == "tuple":
            return tuple(decode(v, kept) for v in value["v"])
        return {decode(k, kept): decode(v, kept) for k, v in value["v"]}
    return value


class Missing(AttributeError):
    """A name that the judge asked for and the student's code does not have."""


def lookup(owner: Any, name: str) -> Any:
    """``owner.name``, or ``owner`` itself for no name."""
    if name and not hasattr(owner, name):
        whose = "" if isinstance(owner, types.ModuleType) else f"{type(owner).__name__}."
        raise Missing(whose + name)
    return getattr(owner, name) if name else owner


class Runner:
    """Student code in one module, and the objects that the judge asked to keep."""

    def __init__(self) -> None:
        self.module = types.ModuleType(MODULE)
        self.kept: dict[str, Any] = {}
        self.files: set[str] = set()

    def load(self, parts: list[list[str]]) -> None:
        """Run each ``[name, source]`` in the module; a traceback can quote its lines."""
        sys.modules[MODULE] = self.module
        for name, source in parts:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            self.files.add(name)
        for name, source in parts:
            exec(compile(source, name, "exec"), self.module.__dict__)

    def obey(self, order: dict[str, Any]) -> Any:
        """One order: ``load``, ``call`` (a function, a class, a method) or ``get`` (an attribute)."""
        if order["do"] == "load":
            return self.load(order["parts"])
        owner = self.module if order.get("on") is None else self.kept[order["on"]]
        value = lookup(owner, order["name"])
        if order["do"] == "call":
            args = [decode(a, self.kept) for a in order["args"]]
            value = value(*args, **{k: decode(v, self.kept) for k, v in order["kwargs"].items()})
        if order.get("keep"):
            self.kept[order["keep"]] = value
            return None
        return encode(value)

    def answer(self, order: dict[str, Any]) -> str:
        """The reply to an order as JSON: its value, or the error it raised with the student's own lines."""
        try:
            return json.dumps({"ok": self.obey(order)})
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the student's, too
            return self.describe(error)

    def describe(self, error: BaseException) -> str:
        """Name, message, TODO and the frames that lie in student code, as JSON."""
        try:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in self.files]
            lines = [] if isinstance(error, SyntaxError) else traceback.format_list(frames[-6:])
            told = {
                "kind": type(error).__name__,
                "bases": [c.__name__ for c in type(error).__mro__],
                "message": str(error)[:2000],
                "todo": getattr(error, "todo", None) if type(error).__name__ == "TodoError" else None,
                "traceback": "".join(lines + traceback.format_exception_only(error))[-6000:],
            }
            return json.dumps({"error": told})
        except BaseException as worse:  # an exception that raises when it is looked at
            told = {"kind": type(worse).__name__, "message": "", "todo": None, "traceback": ""}
            return json.dumps({"error": told})

    def peek(self, watch: list[list[str]], thread: int) -> dict[str, Any]:
        """Where student code is now (its innermost lines) and the watched attributes."""
        frame = sys._current_frames().get(thread)
        stack = [f for f in traceback.extract_stack(frame) if f.filename in self.files] if frame else []
        seen = {}
        for handle, name in watch:
            with contextlib.suppress(Exception):
                seen[name] = encode(getattr(self.kept[handle], name))
        frames = [[f.filename, f.lineno, f.name, f.line] for f in stack[-50:]]
        return {"ok": {"stack": frames, "seen": seen}}


def private_streams() -> tuple[io.TextIOBase, io.TextIOBase, Tail]:
    """The judge's two pipes under new numbers; the student's 0, 1 and 2 lead nowhere."""
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    printed = Tail()
    sys.stdout = sys.stderr = printed
    return orders, replies, printed


def main() -> None:
    """Answer orders until the judge hangs up."""
    orders, replies, printed = private_streams()
    runner = Runner()
    waiting: queue.Queue[list[dict[str, Any]] | None] = queue.Queue()
    student_thread = threading.get_ident()
    lock = threading.Lock()

    def reply(text: str) -> None:
        with lock:
            replies.write(text + "\n")
            replies.flush()

    def listen() -> None:
        for line in orders:
            order = json.loads(line)
            if isinstance(order, dict):  # a single order is a peek; a list is work
                seen = runner.peek(order["watch"], student_thread)
                reply(json.dumps(seen | {"printed": printed.text}))
            else:
                waiting.put(order)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        batch = waiting.get()
        answers = [runner.answer(order) for order in batch or ()]
        reply(f"[{', '.join([*answers, json.dumps({'printed': printed.text})])}]")


if __name__ == "__main__":
    # Run by path, Python puts this folder first on sys.path; the package's parent belongs there, last.
    here = sys.path.pop(0)
    sys.path.append(os.path.dirname(os.path.dirname(here)))
    from decodelab.grading.confine import confine

    confine(json.loads(sys.argv[-1]))
    main()
