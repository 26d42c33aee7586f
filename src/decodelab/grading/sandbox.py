"""Starting and ending the process that runs student code.

First rung only: resource limits and a process group of its own, killed whole. It stops accidents,
not attacks; what is in force is named by ``RUNG`` and stored with every grade.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

RUNNER = Path(__file__).with_name("runner.py")
POSIX = os.name == "posix"
RUNG = "rlimits" if POSIX else "none"

# Bytes, seconds of CPU and counts; address space is generous because torch maps many gigabytes.
LIMITS = {
    "RLIMIT_AS": 16 << 30,
    "RLIMIT_CPU": 60,
    "RLIMIT_FSIZE": 16 << 20,
    "RLIMIT_NOFILE": 256,
    "RLIMIT_CORE": 0,
}


def launch(folder: str, python: str = sys.executable) -> subprocess.Popen[bytes]:
    """A fresh runner process working in ``folder``, its stdin and stdout being the judge's pipes."""
    return subprocess.Popen(
        [python, "-X", "utf8", str(RUNNER), json.dumps(LIMITS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=POSIX,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the runner and everything in its process group, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        if POSIX:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
