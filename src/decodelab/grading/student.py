"""The judge's end of a runner: student objects as remote handles, every reply as plain data."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import re
import select
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from decodelab.check.rules import Opaque, Record, StudentError
from decodelab.errors import DecodeLabError
from decodelab.grading import sandbox
from decodelab.grading.confine import usage
from decodelab.lang import both

MAX_REPLY = 8 << 20  # bytes in one line from the runner
MAX_DEPTH = 32  # of a value in it
MAX_ALIKE = 16  # keys of one dict that share a hash: more is an attack on whoever puts them in a dict
PEEK_SECONDS = 1.0
START_SECONDS = 20.0
STARTS = (0, 1, 3)  # seconds to wait before each try
NO_RUNNER = both(
    en="No process could be started for this code, so it was not judged: close other programs and try again.",
    zh="无法启动运行代码的进程，因此没有评判：请关闭其他程序后重试。",
)
UNSHOWABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Stuck(Exception):
    """No reply before the deadline: where student code was, and watched attributes as ``seen``.

    ``stack``: (part, line number, function, the line itself) of each of its frames, the innermost last.
    """

    def __init__(self, stack: list[tuple[str, int, str, str]], seen: dict[str, Any]) -> None:
        super().__init__(stack[-1][3] if stack else "")
        self.stack, self.seen = stack, seen


class Died(Exception):
    """The runner is gone, or what came from it was no reply: ``code`` as in ``Popen.returncode``."""

    def __init__(self, code: int | None) -> None:
        super().__init__(str(code))
        self.code = code


def parse(line: bytes) -> Any:
    """The JSON of a reply: what no file can hold (a lone surrogate) replaced, NaN, which equals nothing, opaque."""
    if b"\\ud" in line or b"\\uD" in line:
        line = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(line, parse_constant=lambda name: Opaque(name) if name == "NaN" else float(name))


def shown(value: Any, most: int) -> str:
    """The beginning of a text for people, without what moves a terminal's cursor or turns the writing round."""
    return UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", str(value)[:most])


def decode(value: Any, depth: int = 0) -> Any:
    """The runner's JSON as Python data; anything malformed is a ValueError."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, list):
        return [decode(v, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if "~" not in value:
        return {k: decode(v, depth + 1) for k, v in value.items()}
    kind, content = value.get("~"), value.get("v")
    if kind == "tuple" and isinstance(content, list):
        return tuple(decode(v, depth + 1) for v in content)
    if kind == "dict" and isinstance(content, list):
        pairs = [(freeze(decode(k, depth + 1)), decode(v, depth + 1)) for k, v in content]
        if max(Counter(hash(k) for k, _ in pairs).values(), default=0) > MAX_ALIKE:
            raise ValueError("keys that collide")
        return dict(pairs)
    if kind == "object" and isinstance(content, dict):
        fields = {k: decode(v, depth + 1) for k, v in content.items()}
        return Record(shown(value.get("type"), 100), fields)
    if kind == "repr":
        return Opaque(shown(content, 200))
    raise ValueError(f"not a reply: {kind!r}")


def student_error(fields: Any) -> StudentError:
    """The exception that a reply tells of; anything malformed is a KeyError, TypeError or ValueError."""
    todo = fields["todo"] if isinstance(fields["todo"], str) else None
    message, traceback = (shown(fields[name], 6000) for name in ("message", "traceback"))
    bases = [str(name)[:100] for name in fields.get("bases", [])[:20]]
    return StudentError(shown(fields["kind"], 100), message, todo, traceback, bases)


def freeze(key: Any) -> Any:
    """A dict key that can be hashed, whatever came."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def encode(value: Any) -> Any:
    """Python data as the runner's JSON; a Remote stands for the object it names."""
    if isinstance(value, Remote):
        return {"~": "kept", "v": value.handle}
    if isinstance(value, tuple):
        return {"~": "tuple", "v": [encode(v) for v in value]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        if "~" not in value and all(type(k) is str for k in value):
            return {k: encode(v) for k, v in value.items()}
        return {"~": "dict", "v": [[encode(k), encode(v)] for k, v in value.items()]}
    return value


class Remote:
    """An object that lives in the runner."""

    def __init__(self, student: Student, handle: str) -> None:
        self.student, self.handle = student, handle

    def call(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method and return what it returned, as data."""
        return self.student.order(self.handle, method, args, kwargs)

    def keep(self, method: str, /, *args: Any, **kwargs: Any) -> Remote:
        """Call a method and keep what it returned over there."""
        return self.student.keep(self.handle, method, args, kwargs)

    def calls(self, method: str, arguments: Iterable[dict[str, Any]]) -> None:
        """Call a method once for each ``arguments`` (keywords) in one round trip; the first error is raised."""
        self.student.send([call_order(self.handle, method, (), kwargs) for kwargs in arguments])

    def data(self) -> Any:
        """The object itself, as data."""
        return self.student.send([{"do": "get", "on": self.handle, "name": ""}])[0]

    def get(self, attribute: str, *asked: str) -> Any:
        """The attribute's value, as data; of objects in it also what ``asked`` names and they compute."""
        order = {"do": "get", "on": self.handle, "name": attribute, "asked": asked}
        return self.student.send([order])[0]

    def watch(self, *attributes: str) -> None:
        """Attributes to look at should student code never return."""
        self.student.watched = [[self.handle, a] for a in attributes]


def call_order(on: str | None, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The JSON of one call."""
    encoded = {k: encode(v) for k, v in kwargs.items()}
    return {"do": "call", "on": on, "name": name, "args": [encode(a) for a in args], "kwargs": encoded}


class Student:
    """One runner process with one submission's code in it. Use as a context manager.

    ``seconds`` from ``restart_clock`` on, the runner is killed and ``Stuck`` raised.
    """

    def __init__(
        self, parts: Sequence[tuple[str, str]], seconds: float = 10.0, rung: sandbox.Rung = sandbox.LEARNER
    ) -> None:
        """``parts``: (name, source) pairs, run in order in one namespace when the context is entered."""
        self.parts, self.seconds, self.rung = parts, seconds, rung
        self.watched: list[list[str]] = []
        # What the check knows by its own book-keeping, for the message when code does not return.
        self.context: Callable[[], list[dict[str, Any]]] | None = None
        self.step = 0
        self.case: dict[str, Any] = {}
        self.printed = ""
        self.out_of_memory = False
        self._handles = (f"o{i}" for i in itertools.count())
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: queue.Queue[bytes] = queue.Queue()
        self._over = threading.Event()
        self._ending = threading.Lock()
        self._closed = False

    def __enter__(self) -> Student:
        self._folder = tempfile.TemporaryDirectory(prefix="decodelab-", ignore_cleanup_errors=True)
        try:
            self._start()
            self.restart_clock()
            self.send([{"do": "load", "parts": [list(p) for p in self.parts]}])
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        """A runner that answers; DecodeLabError where there is none, which is nobody's fault but the machine's."""
        for pause in STARTS:
            time.sleep(pause)
            self.deadline = time.monotonic() + START_SECONDS
            with contextlib.suppress(OSError, Died, Stuck):
                self._launch()
                self.send([])
                return
            if self._closed:
                break
        raise DecodeLabError(NO_RUNNER)

    def _launch(self) -> None:
        self._over, self._replies = threading.Event(), queue.Queue(maxsize=2)  # a flood waits in the pipe
        self._process = process = sandbox.launch(self.rung, self._folder.name)
        assert process.stdin
        if sandbox.POSIX:
            os.set_blocking(process.stdin.fileno(), False)
        threading.Thread(target=listen, args=(process, self._replies, self._over), daemon=True).start()
        if self.rung.watched:
            threading.Thread(target=self._watch, args=(process, self._over), daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._end()
        self._folder.cleanup()

    def _end(self, grace: float = 0.0) -> None:
        """End the runner, and the threads that listen to it and watch it."""
        if self._process:
            with self._ending:
                sandbox.end(self.rung, self._process, grace)
        self._over.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._replies.get_nowait()  # the listener may be waiting to put one more in

    def restart_clock(self) -> None:
        """Give the code ``seconds`` from now."""
        self.deadline = time.monotonic() + self.seconds

    def load(self, name: str, source: str) -> None:
        """Run more code beside the submission's: the check's own, to look at it from within."""
        self.send([{"do": "load", "parts": [[name, source]]}])

    def new(self, name: str, /, *args: Any, **kwargs: Any) -> Remote:
        """Make an instance of a class of the submission."""
        return self.keep(None, name, args, kwargs)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the submission."""
        return self.order(None, name, args, kwargs)

    def order(self, on: str | None, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call ``name`` of a kept object, or of the module, and return its value."""
        return self.send([call_order(on, name, args, kwargs)])[0]

    def keep(self, on: str | None, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Remote:
        """As ``order``, but the value stays in the runner."""
        handle = next(self._handles)
        self.send([call_order(on, name, args, kwargs) | {"keep": handle}])
        return Remote(self, handle)

    def send(self, orders: list[dict[str, Any]]) -> list[Any]:
        """Send orders in one line; their values, or the first error among them."""
        if not self._replies.empty():  # somebody over there speaks out of turn
            raise self._died()
        if not self._write(orders, self.deadline):
            self._end()
            raise Stuck([], {})
        try:
            answers = parse(self._replies.get(timeout=max(self.deadline - time.monotonic(), 0.01)))
        except queue.Empty:
            raise self._stuck() from None
        except (ValueError, RecursionError):
            raise self._died() from None
        return self._values(answers, len(orders))

    def _values(self, answers: Any, count: int) -> list[Any]:
        try:
            *results, last = answers
            self.printed = shown(last["printed"], 8000)
            if len(results) != count:
                raise ValueError("a reply is missing")
            for result in results:
                if "error" in result:
                    raise student_error(result["error"])
            return [decode(r["ok"]) for r in results]
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            raise self._died() from None

    def _write(self, message: Any, until: float) -> bool:
        """Whether the runner took the message in: one that does not read must not hold us up."""
        assert self._process
        assert self._process.stdin
        data, pipe = memoryview(json.dumps(message).encode() + b"\n"), self._process.stdin.fileno()
        try:
            while data:
                if sandbox.POSIX and not writable(pipe, until - time.monotonic()):
                    return False
                data = data[os.write(pipe, data) :]
        except BlockingIOError:
            return False
        except (OSError, ValueError):  # a closed pipe
            raise self._died() from None
        return True

    def _watch(self, process: subprocess.Popen[bytes], over: threading.Event) -> None:
        """End the runner when all its processes together take more than they may."""
        while not over.wait(0.1):
            processes, memory = usage(process.pid)
            self.out_of_memory = memory > sandbox.MEMORY
            crowded = processes > sandbox.PROCESSES
            if self.out_of_memory or crowded or too_much(self._folder.name, sandbox.SCRATCH):
                with self._ending:
                    sandbox.end(self.rung, process)
                return

    def _stuck(self) -> Stuck:
        try:
            until = time.monotonic() + PEEK_SECONDS
            answer = (
                parse(self._replies.get(timeout=PEEK_SECONDS))
                if self._write({"watch": self.watched}, until)
                else {}
            )
            self.printed = shown(answer["printed"], 8000)
            seen = {str(k): decode(v) for k, v in answer["ok"]["seen"].items()}
            stack = [
                (shown(p, 100), int(n), shown(f, 100), shown(text, 200))
                for p, n, f, text in answer["ok"]["stack"][-50:]
            ]
            return Stuck(stack, seen)
        except (Died, queue.Empty, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Stuck([], {})
        finally:
            self._end()

    def _died(self) -> Died:
        self._end(grace=0.5)
        return Died(self._process.returncode if self._process else None)


def listen(process: subprocess.Popen[bytes], replies: queue.Queue[bytes], over: threading.Event) -> None:
    """Pass on what the runner says, line by line; at its end what is no JSON, so that whoever waits learns of it."""
    assert process.stdout
    with contextlib.suppress(OSError, ValueError), process.stdout as stdout:
        while not over.is_set() and (line := stdout.readline(MAX_REPLY)):
            replies.put(line)
    replies.put(b"")


def writable(pipe: int, seconds: float) -> bool:
    """Whether something fits into the pipe within that time, or nobody will ever read it."""
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(max(seconds, 0.01) * 1000))


def too_much(folder: str, most: int) -> bool:
    """Whether the files below ``folder`` are more than a thousand, or together larger than ``most`` bytes."""
    size = count = 0
    folders = [folder]
    for each in folders:  # grows while it is walked
        with contextlib.suppress(OSError), os.scandir(each) as entries:
            for entry in entries:
                count += 1
                size += entry.stat(follow_symlinks=False).st_blocks * 512
                if size > most or count > 1000:
                    return True
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return False
