"""Where student code runs: rungs from strong to weak, the strongest that works here is taken.

docs/instructors.md has the table of what each rung stops. A learner's own check runs at ``LEARNER``,
which stops accidents; grading strangers' code takes ``strongest()`` or a rung named by the instructor.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import decodelab
from decodelab.errors import DecodeLabError
from decodelab.grading import confine
from decodelab.lang import both

POSIX = os.name == "posix"
ROOT = POSIX and os.geteuid() == 0
PACKAGE = Path(decodelab.__file__).resolve().parent
RUNNER = PACKAGE / "grading" / "runner.py"
INSIDE = ("runner.py", "confine.py", "syscalls.py")  # all of grading/ that a sandbox shows
HIDDEN = ("check", "course", "grading")  # rules, references and ourselves
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/localtime")

MEMORY = 1 << 30  # bytes, of one process's own address space and of all processes' resident memory together
SCRATCH = 64 << 20  # bytes of files
LIMITS = {
    "RLIMIT_AS": MEMORY,
    "RLIMIT_CPU": 60,
    "RLIMIT_FSIZE": 16 << 20,
    "RLIMIT_NOFILE": 128,
    "RLIMIT_CORE": 0,
}
PROCESSES = 48  # of one runner, threads included where it has a user of its own
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}

_numbers = itertools.count()


@dataclass(frozen=True)
class Rung:
    """A way to start a runner. ``command(folder)`` is the whole command line, ``folder`` its scratch space."""

    name: str
    command: Callable[[str], list[str]]
    environment: dict[str, str] | None = None  # None: the caller's own
    supervised: bool = False  # its first process must be asked to end, so that it ends all others
    watched: bool = False  # from outside: memory, processes and scratch files of all that it started together


def runner(options: dict[str, Any]) -> list[str]:
    """The command that starts a runner here."""
    return [sys.executable, "-X", "utf8", str(RUNNER), json.dumps(options)]


LEARNERS = {"limits": LIMITS | {"RLIMIT_AS": 16 << 30}}


def learners(folder: str) -> list[str]:
    """Limits that stop accidents, with memory for everything that a laptop holds."""
    return runner(LEARNERS)


LEARNER = Rung("rlimits", learners)


def own_user() -> dict[str, int]:
    """As root: a user id that nobody has, a new one for each runner."""
    return {"uid": 100_000_000 + os.getpid() % 100_000 * 1_000 + next(_numbers) % 1_000} if ROOT else {}


@cache
def most_processes(own_namespace: bool) -> int:
    """RLIMIT_NPROC: an ordinary user's other processes count, too, but not in a user namespace since Linux 5.14."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if ROOT or (own_namespace and release and tuple(map(int, release.groups())) >= (5, 14)):
        return PROCESSES
    busy = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            busy += len(os.listdir(entry / "task")) if entry.stat().st_uid == os.getuid() else 0
    return busy + 256 + 32 * (os.cpu_count() or 1)


def prefixes() -> list[Path]:
    """The folders of this Python and its environment."""
    return sorted({Path(p).resolve() for p in (sys.base_prefix, sys.prefix)})


@cache
def hidden() -> list[Path]:
    """What a sandbox must not show of this package, and of any other copy of it in the same Python."""
    places = [*prefixes(), Path("/usr"), Path("/usr/local")]
    copies = {p.resolve() for place in places for p in place.glob("lib/python3*/*-packages/decodelab")}
    return [
        folder / name for folder in sorted(copies | {PACKAGE}) for name in HIDDEN if (folder / name).is_dir()
    ]


def without(path: Path, secret: list[Path]) -> list[Path]:
    """``path``, or where it holds something ``secret`` all that it holds beside."""
    if path in secret:
        return []
    below = [s for s in secret if s.is_relative_to(path)]
    return [p for child in path.iterdir() for p in without(child, below)] if below else [path]


def bubblewrap(folder: str) -> list[str]:
    """Own user, processes, network, IPC and files: the system and Python read-only, a scratch /tmp."""
    args = ["bwrap", "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    args += ["--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
    if ROOT:  # the runner becomes a user that nobody has; with a user namespace it would stay root outside
        args += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        args += ["--unshare-user", "--uid", "65534", "--gid", "65534", "--disable-userns"]
    args += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):  # first: Python or the course may lie below /tmp
        args += ["--perms", "1777", "--size", str(SCRATCH), "--tmpfs", path]
    for path in SYSTEM:
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        else:
            args += ["--ro-bind-try", path, path]
    for prefix in [*prefixes(), PACKAGE]:
        if not prefix.is_relative_to("/usr"):
            for parent in reversed(prefix.parents[:-1]):  # bubblewrap's own would be for root alone
                args += ["--dir", str(parent)]
            args += ["--ro-bind", str(prefix), str(prefix)]
    for secret in hidden():
        args += ["--tmpfs", str(secret)]
    for name in INSIDE:
        args += ["--ro-bind", str(RUNNER.with_name(name)), str(RUNNER.with_name(name))]
    for path in (*map(str, hidden()), "/dev", "/"):
        args += ["--remount-ro", path]
    for name, value in ENVIRONMENT.items():
        args += ["--setenv", name, value]
    limits = LIMITS | {"RLIMIT_NPROC": most_processes(own_namespace=True)}
    options: dict[str, Any] = {"limits": limits, "filter": True, **own_user()}
    if confine.landlock_version():  # a second wall: not even the memory of the sandbox's own first process
        options["landlock"] = {"read": ["/"], "names": [], "write": ["/tmp", "/dev/shm", "/dev/null"]}
    return [*args, "--chdir", "/tmp", *runner(options)]


def landlocked(folder: str) -> list[str]:
    """Landlock over files, TCP and signals, a filter of system calls, rlimits, and a subreaper that ends what the runner started."""
    roots = [Path(p).resolve() for p in SYSTEM if os.path.exists(p)] + [*prefixes(), PACKAGE]
    inside = [RUNNER.with_name(name) for name in INSIDE]
    readable = {p for root in roots for p in without(root, hidden())} | set(inside)
    rules = {
        "read": [*map(str, sorted(readable)), "/dev/null", "/dev/urandom", "/proc/self"],
        "names": [str(root) for root in roots if root.is_dir()],
        "write": [folder, "/dev/null"],
    }
    limits = LIMITS | {"RLIMIT_NPROC": most_processes(own_namespace=False)}
    options = {"limits": limits, "filter": True, **own_user()}
    return runner(options | {"landlock": rules, "reads_all": True, "subreaper": True})


def container(command: str) -> Rung:
    """The instructor's own command, which must pass stdin and stdout through to a runner in its image.

    As in ``docker run --rm -i --network none IMAGE python -m decodelab.grading.runner``.
    """
    return Rung("container", lambda folder: [*shlex.split(command), json.dumps({"limits": LIMITS})])


BUBBLEWRAP = Rung("bubblewrap", bubblewrap, ENVIRONMENT, watched=True)
LANDLOCK = Rung("landlock", landlocked, ENVIRONMENT, supervised=True, watched=True)
UNSAFE = Rung("none", lambda folder: runner({"limits": LIMITS}), ENVIRONMENT, watched=True)


@cache
def strongest() -> Rung:
    """The strongest rung that works here; DecodeLabError says what to do where none does."""
    if shutil.which("bwrap") and works(BUBBLEWRAP):
        return BUBBLEWRAP
    if sys.platform == "linux" and confine.landlock_version() > 0 and works(LANDLOCK):
        return LANDLOCK
    raise DecodeLabError(
        both(
            en="No sandbox works here, so no stranger's code is run: install bubblewrap (Linux, WSL2), name a "
            "container with --container, or type --unsafe-no-sandbox.",
            zh="这台机器上没有可用的沙箱，所以不会运行别人的代码：请安装 bubblewrap（Linux、WSL2），"
            "用 --container 指定容器，或者明确加上 --unsafe-no-sandbox。",
        )
    )


def named(container_command: str | None = None, unsafe: bool = False) -> Rung:
    """The rung that the instructor asked for, else the strongest."""
    if container_command:
        return container(container_command)
    return UNSAFE if unsafe else strongest()


def works(rung: Rung) -> bool:
    """Whether a runner at this rung answers within 20 seconds."""
    order = json.dumps([{"do": "load", "parts": [["probe", "import decodelab, json, decimal\n"]]}])
    with tempfile.TemporaryDirectory(prefix="decodelab-") as folder, contextlib.suppress(OSError):
        process = launch(rung, folder)
        timer = threading.Timer(20, process.kill)
        timer.start()
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(order.encode() + b"\n")
            process.stdin.flush()
            return b'{"ok": null}' in process.stdout.readline()
        finally:
            timer.cancel()
            end(rung, process)
            process.stdout.close()
    return False


def launch(rung: Rung, folder: str, libraries: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """A fresh runner in ``folder``, its stdin and stdout being the judge's pipes.

    It imports ``libraries`` before its limits begin, so that it may use as much memory with them as without.
    """
    return subprocess.Popen(
        [*rung.command(folder), *libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=rung.environment,
        start_new_session=POSIX,
    )


def end(rung: Rung, process: subprocess.Popen[bytes], grace: float = 0.0) -> None:
    """End the runner and everything that it started, and reap it; ``grace``: seconds to leave by itself.

    Its stdout stays open: whoever reads it closes it, since a process that outlives a weak rung may hold it.
    """
    if process.returncode is not None:
        return
    gone = has_ended(process, grace)
    if rung.supervised and not gone:
        process.terminate()
        has_ended(process, 10)
    for pid in confine.descendants(process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if POSIX:  # before it is reaped, lest its number be somebody else's by now
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()


def has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends within ``seconds``; it is not reaped."""
    deadline = time.monotonic() + seconds
    while hasattr(os, "waitid"):
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            return True
        if time.monotonic() >= deadline:
            break
        time.sleep(0.005)
    return False
