"""The process that holds student code: it runs what the judge sends and answers calls, nothing else.

Started by path, not imported: ``python runner.py OPTIONS [LIBRARY ...]``. One JSON object a line comes in on
stdin, one goes out on a private copy of stdout; the student's own stdin, stdout and stderr lead nowhere, what
is printed being kept (its end only) for feedback. A thread reads the orders, so that ``peek``
answers while student code is stuck in a loop.
"""

from __future__ import annotations
import __future__

import base64
import builtins
import contextlib
import enum
import importlib
import io
import json
import linecache
import os
import queue
import reprlib
import sys
import threading
import traceback
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

MODULE = "notebook"  # the module in which student code lives
BUILTINS = dict(vars(builtins))  # as they were before student code
MAX_DEPTH = 12
MAX_NODES = 300_000  # containers in one value
MAX_OWN = 100  # in one object
CONTAINER = 16  # bytes of a tensor that count as a container
EXACT = frozenset([type(None), bool, int, float, str])  # JSON as they are
CONTAINERS = frozenset([list, tuple, dict])
PLAIN: dict[type, Callable[[Any], Any]] = {int: int.__int__, float: float.__float__, str: str.__str__}
NO_RECORDS = (type, types.ModuleType, types.FunctionType, types.MethodType, enum.Enum, BaseException)
SHORT = reprlib.Repr()
SHORT.maxlevel = 2
SHORT.maxother = SHORT.maxstring = 200
LONG = 1 << 20  # characters in one line to the judge, its last reply beside
MAX_PRINTED = 4_000  # characters


class Tail(io.TextIOBase):
    """A text stream that keeps the last few thousand characters."""

    def __init__(self) -> None:
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text = (self.text + text[-MAX_PRINTED:])[-MAX_PRINTED:]
        return len(text)


class Encoder:
    """Plain JSON for one value: what JSON lacks becomes ``{"~": kind, ...}``.

    A subclass of a plain type is that type, a tensor its bytes. An object is its attributes, and of ``asked`` those that it
    computes, too. An object inside another, a cycle, and what is too deep or too much are a word or two.
    """

    def __init__(self, asked: Sequence[str] = (), left: int = MAX_NODES, path: Iterable[int] = ()) -> None:
        self.asked, self.left = asked, left
        self.inside = bool(path)  # an object
        self.path = set(path)  # the containers around the value

    def encode(self, value: Any) -> Any:
        """The value as JSON."""
        if type(value) in EXACT:
            return value
        if type(value) not in CONTAINERS:
            for kind, exact in PLAIN.items():
                if isinstance(value, kind):
                    return exact(value)
        self.left -= 1
        if self.left < 0:
            return {"~": "repr", "v": "…"}
        if len(self.path) > MAX_DEPTH or id(value) in self.path:
            return in_short(value)
        self.path.add(id(value))
        try:
            return self.container(value)
        finally:
            self.path.remove(id(value))

    def container(self, value: Any) -> Any:
        """A list, tuple, dict, array or object."""
        if isinstance(value, (list, deque)):
            items = list.__iter__(value) if isinstance(value, list) else deque.__iter__(value)
            return [v if type(v) in EXACT else self.encode(v) for v in items]
        if isinstance(value, tuple):
            return {"~": "tuple", "v": [self.encode(v) for v in tuple.__iter__(value)]}
        if isinstance(value, dict):
            pairs = [
                (k if type(k) in EXACT else self.encode(k), v if type(v) in EXACT else self.encode(v))
                for k, v in dict.items(value)
            ]
            if all(type(k) is str and k != "~" for k, _ in pairs):
                return dict(pairs)
            return {"~": "dict", "v": pairs}
        if hasattr(value, "item") and type(value).__module__ == "numpy":
            return self.encode(value.tolist())
        if is_tensor(value):
            return self.tensor(value)
        if self.inside or not is_record(value):
            return in_short(value)
        own = Encoder(left=MAX_OWN, path=self.path)
        fields = {k: own.encode(v) for k, v in attributes(value, self.asked).items()}
        return {"~": "object", "type": type(value).__name__, "v": fields}

    def tensor(self, value: Any) -> Any:
        """A tensor's type, shape and bytes; bfloat16, which numpy lacks, as float32."""
        self.left -= value.numel() * value.element_size() // CONTAINER
        if self.left < 0:
            return {"~": "repr", "v": "…"}
        plain = value.detach().cpu().resolve_conj().resolve_neg()  # numpy has no view of a negative
        array = (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
        content = base64.b64encode(array.tobytes()).decode()
        return {"~": "array", "dtype": array.dtype.str, "shape": array.shape, "v": content}


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch, which nothing here imports."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_record(value: Any) -> bool:
    """Whether a value is shown by its attributes."""
    return (hasattr(value, "__dict__") or bool(slots(value))) and not isinstance(value, NO_RECORDS)


def slots(value: Any) -> list[str]:
    """The attributes that ``__slots__`` name in the student's own classes."""
    own = (c.__dict__.get("__slots__", ()) for c in reversed(type(value).__mro__) if c.__module__ == MODULE)
    return [name for names in own for name in ([names] if isinstance(names, str) else names)]


def attributes(value: Any, asked: Sequence[str]) -> dict[str, Any]:
    """An object's own attributes, and those of ``asked`` that it has by other means."""
    fields = dict(getattr(value, "__dict__", {}))
    for name in [*slots(value), *asked]:
        if name not in fields:
            with contextlib.suppress(Exception):
                fields[name] = getattr(value, name)
    return fields


def in_short(value: Any) -> dict[str, str]:
    """A value in a word or two: ``RequestState(…)``, ``[…]``, or the beginning of its repr."""
    if isinstance(value, list | tuple | dict | deque):
        text = "{…}" if isinstance(value, dict) else "[…]"
    else:
        text = f"{type(value).__name__}(…)" if is_record(value) else SHORT.repr(value)[:200]
    return {"~": "repr", "v": text}


def decode(value: Any, kept: dict[str, Any]) -> Any:
    """What the judge sent: plain JSON, tuples, arrays, which become tensors, and objects kept on this side by name."""
    if isinstance(value, list):
        return [decode(v, kept) for v in value]
    if isinstance(value, dict):
        if "~" not in value:
            return {k: decode(v, kept) for k, v in value.items()}
        if value["~"] == "kept":
            return kept[value["v"]]
        if value["~"] == "tuple":
            return tuple(decode(v, kept) for v in value["v"])
        if value["~"] == "array":
            return tensor_of(value)
        return {decode(k, kept): decode(v, kept) for k, v in value["v"]}
    return value


def tensor_of(value: dict[str, Any]) -> Any:
    """A tensor of its own from an array's type, shape and bytes."""
    import numpy
    import torch

    numbers = numpy.ndarray(value["shape"], value["dtype"], base64.b64decode(value["v"]))
    return torch.from_numpy(numbers.copy())


class Missing(AttributeError):
    """A name that the judge asked for and the student's code does not have."""


def lookup(owner: Any, name: str) -> Any:
    """``owner.name``, or ``owner`` itself for no name."""
    if name and not hasattr(owner, name):
        whose = "" if isinstance(owner, types.ModuleType) else f"{type(owner).__name__}."
        raise Missing(whose + name)
    return getattr(owner, name) if name else owner


def display(*values: Any, **_: Any) -> None:
    """IPython's, which a learner left in: prints."""
    print(*values, sep="\n")


class Shell:
    """What ``get_ipython()`` returns where there is none: everything can be called and does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


NOTEBOOK = {"display": display, "get_ipython": Shell}  # names that every notebook has


def run_part(source: str, file: str, names: dict[str, Any], flags: int = 0) -> int:
    """Run ``source`` as a cell; returns ``flags``, with those that its ``from __future__`` sets for later cells."""
    code = compile(source, file, "exec", flags, dont_inherit=True)
    exec(code, names)
    return flags | code.co_flags & __future__.annotations.compiler_flag


class Runner:
    """Student code in one module, and the objects that the judge asked to keep."""

    def __init__(self) -> None:
        self.module = types.ModuleType(MODULE)
        self.module.__dict__.update(NOTEBOOK)
        self.flags = 0
        self.kept: dict[str, Any] = {}
        self.chapters: dict[str, types.ModuleType] = {}
        self.files: set[str] = set()
        self.done: list[str] = []  # the replies to the orders at hand so far

    def load(self, parts: list[list[str]]) -> None:
        """Run each ``[name, source]`` in the module; a traceback can quote its lines."""
        sys.modules[MODULE] = self.module
        for name, source in parts:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            self.files.add(name)
        for name, source in parts:
            self.flags = run_part(source, name, self.module.__dict__, self.flags)

    def apart(self, source: str, names: list[str]) -> types.ModuleType:
        """The check's own ``source`` in a module of its own, which holds what the submission calls by ``names``."""
        module = types.ModuleType("check")
        module.__dict__.update({name: lookup(self.module, name) for name in names})
        module.__dict__["__builtins__"] = dict(BUILTINS)
        run_part(source, "check", module.__dict__)
        return module

    def give(self, chapter: str, parts: list[list[str]]) -> None:
        """Run an earlier chapter in a module of its own, which ``decodelab.chapter`` then returns."""
        module = types.ModuleType(f"{MODULE}_{chapter}")
        sys.modules[module.__name__] = self.chapters[chapter] = module
        sys.modules["decodelab"].__dict__["chapter"] = self.chapters.__getitem__
        flags = 0
        for name, source in parts:
            flags = run_part(source, f"{chapter}: {name}", module.__dict__, flags)

    def obey(self, order: dict[str, Any]) -> Any:
        """One order: ``load``, ``apart``, ``give``, ``call`` (a function, a class, a method) or ``get`` (an attribute)."""
        if order["do"] == "load":
            return self.load(order["parts"])
        if order["do"] == "give":
            return self.give(order["chapter"], order["parts"])
        if order["do"] == "apart":
            self.kept[order["keep"]] = self.apart(order["source"], order["names"])
            return None
        owner = self.module if order.get("on") is None else self.kept[order["on"]]
        value = lookup(owner, order["name"])
        if order["do"] == "call":
            args = [decode(a, self.kept) for a in order["args"]]
            value = value(*args, **{k: decode(v, self.kept) for k, v in order["kwargs"].items()})
        if order.get("keep"):
            self.kept[order["keep"]] = value
            return None
        return Encoder(order.get("asked", ())).encode(value)

    def answer(self, order: dict[str, Any]) -> str:
        """The reply to an order as JSON: its value, or the error it raised with the student's own lines."""
        try:
            return json.dumps({"ok": self.obey(order)})
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the student's, too
            return self.describe(error)

    def answer_all(self, orders: list[dict[str, Any]]) -> None:
        """Put the replies into ``done``, of the first orders alone where they grow long: the judge asks again."""
        self.done, length = [], 0
        for order in orders:
            if length > LONG:
                break
            self.done.append(self.answer(order))
            length += len(self.done[-1])

    def describe(self, error: BaseException) -> str:
        """Name, message, TODO and the frames that lie in student code, as JSON."""
        try:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in self.files]
            lines = [] if isinstance(error, SyntaxError) else traceback.format_list(frames[-6:])
            told = {
                "kind": type(error).__name__,
                "bases": [
                    n for c in type(error).__mro__ for n in (c.__name__, f"{c.__module__}.{c.__name__}")
                ],
                "message": str(error)[:2000],
                "todo": getattr(error, "todo", None) if type(error).__name__ == "TodoError" else None,
                "traceback": "".join(lines + traceback.format_exception_only(error))[-6000:],
            }
            return json.dumps({"error": told})
        except BaseException as worse:  # an exception that raises when it is looked at
            told = {"kind": type(worse).__name__, "message": "", "todo": None, "traceback": ""}
            return json.dumps({"error": told})

    def peek(self, watch: list[list[str]], thread: int) -> dict[str, Any]:
        """Where student code is now (its innermost lines), the watched attributes, and the orders that are done."""
        frame = sys._current_frames().get(thread)
        stack = [f for f in traceback.extract_stack(frame) if f.filename in self.files] if frame else []
        seen = {}
        for handle, name in watch:
            with contextlib.suppress(Exception):
                seen[name] = Encoder().encode(getattr(self.kept[handle], name))
        frames = [[f.filename, f.lineno, f.name, f.line] for f in stack[-50:]]
        return {"ok": {"stack": frames, "seen": seen}, "done": list(self.done)}


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


def preload(libraries: list[str]) -> None:
    """Import what takes seconds; one thread is enough, for what a check computes is small."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for library in libraries:
        importlib.import_module(library)


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
        runner.answer_all(batch or [])
        reply(f"[{', '.join([*runner.done, json.dumps({'printed': printed.text})])}]")


if __name__ == "__main__":
    # Run by path, Python puts this folder first on sys.path; the package's parent belongs there, last.
    here = sys.path.pop(0)
    sys.path.append(os.path.dirname(os.path.dirname(here)))
    from decodelab.grading.confine import confine

    preload(sys.argv[2:])  # before the limits: what they map is not the student's doing
    confine(json.loads(sys.argv[1]))
    main()
