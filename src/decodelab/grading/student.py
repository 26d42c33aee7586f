"""The judge's end of a runner: student objects as remote handles, every reply as plain data."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from decodelab.errors import DecodeLabError
from decodelab.grading import sandbox
from decodelab.grading.confine import usage
from decodelab.grading.splice import earlier, libraries
from decodelab.grading.wire import Kept, call_order, decode, get_order, outcome, parse, shown
from decodelab.lang import both
from decodelab.models.tokenizer import lacking

MAX_REPLY = 8 << 20  # bytes in one line from the runner
PEEK_SECONDS = 1.0
MALFORMED = (TypeError, ValueError, KeyError, AttributeError, RecursionError)  # of a reply
START_SECONDS = 20.0
IMPORT_SECONDS = 40.0  # more for each library
STARTS = (0, 1, 3)  # seconds to wait before each try
NO_RUNNER = both(
    en="No process could be started for this code, so it was not judged: close other programs and try again.",
    zh="无法启动运行代码的进程，因此没有评判：请关闭其他程序后重试。",
)


class Stuck(Exception):
    """No reply before the deadline: where student code was, and watched attributes as ``seen``.

    ``stack``: (part, line number, function, the line itself) of each of its frames, the innermost last.
    ``outcomes``: of the orders in the same line that were done by then.
    """

    def __init__(
        self, stack: list[tuple[str, int, str, str]], seen: dict[str, Any], outcomes: Iterable[Any] = ()
    ) -> None:
        super().__init__(stack[-1][3] if stack else "")
        self.stack, self.seen, self.outcomes = stack, seen, list(outcomes)


class Died(Exception):
    """The runner is gone, or what came from it was no reply: ``code`` as in ``Popen.returncode``."""

    def __init__(self, code: int | None) -> None:
        super().__init__(str(code))
        self.code = code


class Reply:
    """What an order brings: call it for the value, or to have raised what the order raised.

    An order waits until a reply is wanted; then all that wait go over in one line, so many cost no more than one.
    """

    def __init__(self, student: Student, order: dict[str, Any]) -> None:
        self.student, self.order = student, order
        self.settled, self.outcome = False, None
        student.waiting.append(self)

    def settle(self, outcome: Any) -> None:
        """Take in the value, or the exception that stands in its place."""
        self.settled, self.outcome = True, outcome

    def __call__(self) -> Any:
        while not self.settled:
            self.student.flush()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Remote(Kept):
    """An object that lives in the runner; ``made`` is the reply to the call that brought it."""

    def __init__(self, student: Student, handle: str | None, made: Callable[[], Any]) -> None:
        super().__init__(handle)
        self.student, self.made = student, made

    def later(self, method: str, /, *args: Any, **kwargs: Any) -> Reply:
        """Call a method when its reply, or a later one, is wanted."""
        return Reply(self.student, call_order(self.handle, method, args, kwargs))

    def later_get(self, attribute: str, *asked: str) -> Reply:
        """Look at an attribute when its reply, or a later one, is wanted."""
        return Reply(self.student, get_order(self.handle, attribute, asked))

    def later_keep(self, method: str, /, *args: Any, **kwargs: Any) -> Remote:
        """As ``later``, but what the method returns stays over there: its ``made`` raises what the call raised."""
        handle = self.student.new_handle()
        order = call_order(self.handle, method, args, kwargs) | {"keep": handle}
        return Remote(self.student, handle, Reply(self.student, order))

    def call(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method and return what it returned, as data."""
        return self.later(method, *args, **kwargs)()

    def keep(self, method: str, /, *args: Any, **kwargs: Any) -> Remote:
        """Call a method and keep what it returned over there."""
        kept = self.later_keep(method, *args, **kwargs)
        kept.made()
        return kept

    def calls(self, method: str, arguments: Iterable[dict[str, Any]]) -> None:
        """Call a method once for each ``arguments`` (keywords) in one round trip; the first error is raised."""
        for reply in [self.later(method, **kwargs) for kwargs in arguments]:
            reply()

    def get(self, attribute: str, *asked: str) -> Any:
        """The attribute's value, as data; of objects in it also what ``asked`` names and they compute."""
        return self.later_get(attribute, *asked)()

    def data(self) -> Any:
        """The object itself, as data."""
        return self.get("")

    def watch(self, *attributes: str) -> None:
        """Attributes to look at should student code never return."""
        self.student.watched = [[self.handle, a] for a in attributes]


class Student:
    """One runner process with one submission's code in it. Use as a context manager.

    ``seconds`` from ``restart_clock`` on, the runner is killed and ``Stuck`` raised.
    """

    def __init__(
        self, parts: Sequence[tuple[str, str]], seconds: float = 10.0, rung: sandbox.Rung = sandbox.LEARNER
    ) -> None:
        """``parts``: (name, source) pairs, run in order in one namespace when the context is entered."""
        self.parts, self.seconds, self.rung = parts, seconds, rung
        self.earlier = earlier(parts)
        self.libraries = libraries([*parts, *(part for parts in self.earlier.values() for part in parts)])
        self.waiting: list[Reply] = []
        self.watched: list[list[str | None]] = []
        # What the check knows by its own book-keeping, for the message when code does not return.
        self.context: Callable[[], list[dict[str, Any]]] | None = None
        self.step = 0
        self.case: dict[str, Any] = {}
        self.printed = ""
        self.out_of_memory = False
        self.module = Remote(self, None, lambda: None)
        self.new_handle = map("o{}".format, itertools.count()).__next__
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
            for chapter_id, parts in self.earlier.items():
                Reply(self, {"do": "give", "chapter": chapter_id, "parts": parts})
            self._load(self.parts)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        """A runner that answers; DecodeLabError where there is none, which is nobody's fault but the machine's."""
        for name in self.libraries:
            if find_spec(name) is None:
                raise DecodeLabError(lacking(name))
        for pause in STARTS:
            time.sleep(pause)
            self.deadline = time.monotonic() + START_SECONDS + IMPORT_SECONDS * len(self.libraries)
            with contextlib.suppress(OSError, Died, Stuck):
                self._launch()
                self._exchange([])
                return
            if self._closed:
                break
        raise DecodeLabError(NO_RUNNER)

    def _launch(self) -> None:
        self._over, self._replies = threading.Event(), queue.Queue(maxsize=2)  # a flood waits in the pipe
        self._process = process = sandbox.launch(self.rung, self._folder.name, self.libraries)
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

    def begin(self, case: dict[str, Any]) -> None:
        """A case starts: what the last one left unasked is dropped, and what it knew is out of date."""
        self.case, self.waiting, self.context = case, [], None

    def load(self, name: str, source: str) -> None:
        """Run more code in the submission's own module, a cell of it or names that it may call."""
        self._load([(name, source)])

    def apart(self, source: str, *names: str) -> Remote:
        """The check's own code, out of the submission's reach: a module that holds of it only these ``names``.

        Python's own functions are in it as they were before the submission ran.
        """
        handle = self.new_handle()
        order = {"do": "apart", "source": source, "names": names, "keep": handle}
        module = Remote(self, handle, Reply(self, order))
        module.made()
        return module

    def _load(self, parts: Sequence[tuple[str, str]]) -> None:
        Reply(self, {"do": "load", "parts": [list(part) for part in parts]})()

    def later_new(self, name: str, /, *args: Any, **kwargs: Any) -> Remote:
        """As ``new``, when a reply is wanted; its ``made`` raises what that raised."""
        return self.module.later_keep(name, *args, **kwargs)

    def new(self, name: str, /, *args: Any, **kwargs: Any) -> Remote:
        """Make an instance of a class of the submission."""
        return self.module.keep(name, *args, **kwargs)

    def later(self, name: str, /, *args: Any, **kwargs: Any) -> Reply:
        """As ``call``, when a reply is wanted."""
        return self.module.later(name, *args, **kwargs)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the submission."""
        return self.module.call(name, *args, **kwargs)

    def flush(self) -> None:
        """Send all orders that wait, in one line, and settle their replies; those not answered yet go on waiting."""
        replies = self.waiting
        assert replies, "the case of this reply is over"
        try:
            outcomes = self._exchange([reply.order for reply in replies])
        except Stuck as stuck:
            done = stuck.outcomes[: len(replies) - 1]
            outcomes = done + [stuck] * (len(replies) - len(done))
        except Died as died:
            outcomes = [died] * len(replies)
        self.waiting = replies[len(outcomes) :]
        for reply, came in zip(replies, outcomes):  # noqa: B905
            reply.settle(came)

    def _exchange(self, orders: list[dict[str, Any]]) -> list[Any]:
        """What these orders, sent in one line, come to: values, and a StudentError where one raised.

        Where that grows long, of the first orders alone.
        """
        if self._over.is_set() or not self._replies.empty():  # it has ended, or speaks out of turn
            raise self._died()
        if not self._write(orders, self.deadline):
            self._end()
            raise Stuck([], {})
        try:
            answers = parse(self._replies.get(timeout=max(self.deadline - time.monotonic(), 0.01)))
            *results, last = answers
            self.printed = shown(last["printed"], 8000)
            if not min(len(orders), 1) <= len(results) <= len(orders):
                raise ValueError("replies to something else")
            return [outcome(result) for result in results]
        except queue.Empty:
            raise self._stuck() from None
        except MALFORMED:
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
            done = [outcome(parse(text.encode("utf-8", "replace"))) for text in answer["done"]]
            return Stuck(stack, seen, done)
        except (Died, queue.Empty, *MALFORMED):
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
