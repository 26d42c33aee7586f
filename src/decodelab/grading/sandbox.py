"""Where student code runs: rungs from strong to weak, the strongest that works here is taken.

docs/instructors.md has the table of what each rung stops. A learner's own check runs at ``LEARNER``,
which stops accidents; grading strangers' code takes ``strongest()`` or a rung named by the instructor.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
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
INSIDE = ("runner.py", "confine.py")  # all of grading/ that a sandbox shows
HIDDEN = ("check", "course", "grading")  # rules, references and ourselves
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/localtime")

MEMORY = 1 << 30  # bytes, of one process's address space and of all processes' resident memory together
SCRATCH = 64 << 20  # bytes of files
LIMITS = {
    "RLIMIT_AS": MEMORY,
    "RLIMIT_CPU": 60,
    "RLIMIT_FSIZE": 16 << 20,
    "RLIMIT_NOFILE": 128,
    "RLIMIT_CORE": 0,
}
PROCESSES = {"RLIMIT_NPROC": 48}  # threads count; meaningful where the runner has a user of its own
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
    memory: int = 0  # bytes of resident memory of all its processes; 0: not watched


def runner(options: dict[str, Any]) -> list[str]:
    """The command that starts a runner here."""
    return [sys.executable, "-X", "utf8", str(RUNNER), json.dumps(options)]


LEARNER = Rung("rlimits", lambda folder: runner({"limits": LIMITS | {"RLIMIT_AS": 16 << 30}}))


def own_user() -> dict[str, int]:
    """As root: a user id that nobody has, a new one for each runner."""
    return {"uid": 100_000_000 + os.getpid() % 100_000 * 1_000 + next(_numbers) % 1_000} if ROOT else {}


def prefixes() -> list[str]:
    """The folders of this Python, its environment and this package."""
    return sorted({str(Path(p).resolve()) for p in (sys.base_prefix, sys.prefix)} | {str(PACKAGE)})


def bubblewrap(folder: str) -> list[str]:
    """Own user, processes, network, IPC and files: the system and Python read-only, a scratch /tmp."""
    args = ["bwrap", "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    args += ["--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
    if ROOT:  # the runner becomes a user that nobody has; with a user namespace it would stay root outside
        args += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        args += ["--unshare-user", "--uid", "65534", "--gid", "65534", "--disable-userns"]
    for path in SYSTEM:
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        else:
            args += ["--ro-bind-try", path, path]
    for path in prefixes():
        if not path.startswith("/usr/"):
            for parent in reversed(Path(path).parents[:-1]):  # bubblewrap's own would be for root alone
                args += ["--dir", str(parent)]
            args += ["--ro-bind", path, path]
    for name in HIDDEN:
        args += ["--tmpfs", str(PACKAGE / name)]
    for name in INSIDE:
        args += ["--ro-bind", str(RUNNER.with_name(name)), str(RUNNER.with_name(name))]
    args += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):
        args += ["--perms", "1777", "--size", str(SCRATCH), "--tmpfs", path]
    for name in HIDDEN:
        args += ["--remount-ro", str(PACKAGE / name)]
    for name, value in ENVIRONMENT.items():
        args += ["--setenv", name, value]
    return [*args, "--chdir", "/tmp", *runner({"limits": LIMITS | PROCESSES, **own_user()})]


def landlocked(folder: str) -> list[str]:
    """Landlock over files, TCP and signals, rlimits, and a subreaper that ends what the runner started."""
    visible = [str(p) for p in PACKAGE.iterdir() if p.name not in HIDDEN]
    inside = [str(RUNNER.with_name(name)) for name in INSIDE]
    outside = [p for p in prefixes() if p != str(PACKAGE) and not PACKAGE.is_relative_to(p)]
    around = [] if len(outside) == len(prefixes()) - 1 else siblings(prefixes())
    rules = {
        "read": [*SYSTEM, *outside, *around, *visible, *inside, "/dev/null", "/dev/urandom", "/proc/self"],
        "write": [folder, "/dev/null"],
    }
    return runner({"limits": LIMITS, "landlock": rules, "subreaper": True})


def siblings(folders: list[str]) -> list[str]:
    """Where the package is installed inside a Python prefix: everything of that prefix but the package."""
    found = []
    for prefix in (Path(f) for f in folders if PACKAGE.is_relative_to(f) and Path(f) != PACKAGE):
        for parent in [p for p in PACKAGE.parents if p.is_relative_to(prefix)]:
            found += [str(p) for p in parent.iterdir() if not PACKAGE.is_relative_to(p)]
    return found


def container(command: str) -> Rung:
    """The instructor's own command, which must pass stdin and stdout through to a runner in its image.

    As in ``docker run --rm -i --network none IMAGE python -m decodelab.grading.runner``.
    """
    return Rung("container", lambda folder: [*shlex.split(command), json.dumps({"limits": LIMITS})])


BUBBLEWRAP = Rung("bubblewrap", bubblewrap, ENVIRONMENT, memory=MEMORY)
LANDLOCK = Rung("landlock", landlocked, ENVIRONMENT, supervised=True, memory=MEMORY)
UNSAFE = Rung("none", lambda folder: runner({"limits": LIMITS}), ENVIRONMENT, memory=MEMORY)


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
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write(order.encode() + b"\n")
            process.stdin.flush()
            return b'{"ok": null}' in process.stdout.readline()
        finally:
            timer.cancel()
            end(rung, process)
    return False


def launch(rung: Rung, folder: str) -> subprocess.Popen[bytes]:
    """A fresh runner in ``folder``, its stdin and stdout being the judge's pipes."""
    return subprocess.Popen(
        rung.command(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=rung.environment,
        start_new_session=POSIX,
    )


def end(rung: Rung, process: subprocess.Popen[bytes]) -> None:
    """End the runner and everything that it started, and reap it."""
    if rung.supervised and process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if POSIX:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
