"""The judge's end of a runner: student objects as remote handles, every reply as plain data."""

from __future__ import annotations

import itertools
import json
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from decodelab.check.rules import Opaque, Record, StudentError
from decodelab.grading import sandbox
from decodelab.grading.confine import resident

MAX_REPLY = 16 << 20  # bytes in one line from the runner
PEEK_SECONDS = 1.0


class Stuck(Exception):
    """No reply before the deadline: the ``line`` student code was on, watched attributes as ``seen``."""

    def __init__(self, line: str, seen: dict[str, Any]) -> None:
        super().__init__(line)
        self.line, self.seen = line, seen


class Died(Exception):
    """The runner is gone, or what came from it was no reply: ``code`` as in ``Popen.returncode``."""

    def __init__(self, code: int | None) -> None:
        super().__init__(str(code))
        self.code = code


def decode(value: Any) -> Any:
    """The runner's JSON as Python data; anything malformed is a ValueError."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "~" not in value:
        return {k: decode(v) for k, v in value.items()}
    kind, content = value.get("~"), value.get("v")
    if kind == "tuple" and isinstance(content, list):
        return tuple(decode(v) for v in content)
    if kind == "dict" and isinstance(content, list):
        return {freeze(decode(k)): decode(v) for k, v in content}
    if kind == "object" and isinstance(content, dict):
        return Record(str(value.get("type")), {k: decode(v) for k, v in content.items()})
    if kind == "repr":
        return Opaque(str(content))
    raise ValueError(f"not a reply: {kind!r}")


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

    def get(self, attribute: str) -> Any:
        """The attribute's value, as data."""
        return self.student.send([{"do": "get", "on": self.handle, "name": attribute}])[0]

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
        self.printed = ""
        self._handles = (f"o{i}" for i in itertools.count())
        self._replies: queue.Queue[bytes] = queue.Queue(maxsize=4)  # a flood waits in the pipe
        self.out_of_memory = False

    def __enter__(self) -> Student:
        self._folder = tempfile.TemporaryDirectory(prefix="decodelab-", ignore_cleanup_errors=True)
        self._process = sandbox.launch(self.rung, self._folder.name)
        threading.Thread(target=self._listen, daemon=True).start()
        if self.rung.memory:
            threading.Thread(target=self._watch_memory, daemon=True).start()
        self.restart_clock()
        try:
            self.send([{"do": "load", "parts": [list(p) for p in self.parts]}])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        sandbox.end(self.rung, self._process)
        self._folder.cleanup()

    def restart_clock(self) -> None:
        """Give the code ``seconds`` from now."""
        self.deadline = time.monotonic() + self.seconds

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
        self._write(orders)
        try:
            answers = json.loads(self._replies.get(timeout=max(self.deadline - time.monotonic(), 0.01)))
        except queue.Empty:
            raise self._stuck() from None
        except (ValueError, RecursionError):
            raise self._died() from None
        return self._values(answers, len(orders))

    def _values(self, answers: Any, count: int) -> list[Any]:
        try:
            *results, last = answers
            self.printed = str(last["printed"])
            if len(results) != count:
                raise ValueError("a reply is missing")
            for result in results:
                if "error" in result:
                    raise StudentError(**result["error"])
            return [decode(r["ok"]) for r in results]
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
            raise self._died() from None

    def _write(self, message: Any) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # a closed pipe
            raise self._died() from None

    def _listen(self) -> None:
        assert self._process.stdout
        try:
            while line := self._process.stdout.readline(MAX_REPLY):
                self._replies.put(line)
        except (OSError, ValueError):
            pass  # closed by sandbox.end
        self._replies.put(b"")  # no JSON: whoever waits learns that the runner is gone

    def _watch_memory(self) -> None:
        """Kill the runner when all its processes together take more memory than they may."""
        while self._process.poll() is None:
            if resident(self._process.pid) > self.rung.memory:
                self.out_of_memory = True
                self._process.kill()
            time.sleep(0.1)

    def _stuck(self) -> Stuck:
        self._write({"watch": self.watched})
        try:
            answer = json.loads(self._replies.get(timeout=PEEK_SECONDS))
            self.printed = str(answer["printed"])
            seen = {str(k): decode(v) for k, v in answer["ok"]["seen"].items()}
            return Stuck(str(answer["ok"]["line"]), seen)
        except (queue.Empty, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Stuck("", {})
        finally:
            sandbox.end(self.rung, self._process)

    def _died(self) -> Died:
        sandbox.end(self.rung, self._process)
        return Died(self._process.returncode)
