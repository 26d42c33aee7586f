"""Runners that are forked from a process which has imported their libraries: quick to start, for our own code only.

``import torch`` takes longer than most checks. What is forked shares its hash seed and all that was imported, and no
sandbox is around it, so a stranger's answer gets a runner of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from decodelab.grading import confine, runner
from decodelab.grading.sandbox import LEARNER, LEARNERS, POSIX, Rung

# In place of a runner: hands folder, stdin and stdout to a fork of the server, and ends when that does.
JOIN = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [os.getcwd().encode()], [0, 1])
    server.recv(1)
"""


@contextmanager
def warmed(libraries: Sequence[str]) -> Iterator[Rung]:
    """A rung whose runners have ``libraries`` already; where there are none, or no fork, the learner's own."""
    if not (libraries and POSIX):
        yield LEARNER
        return
    with tempfile.TemporaryDirectory(prefix="decodelab-") as folder:
        path = os.path.join(folder, "warm")
        command = [sys.executable, "-X", "utf8", "-m", __name__, path, json.dumps(LEARNERS), *libraries]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            assert server.stdout
            server.stdout.readline()  # it listens, or is gone: then every runner fails to start, and that is told
            yield Rung("warm", partial(joining, path))
        finally:
            server.kill()
            server.communicate()


def joining(path: str, folder: str) -> list[str]:
    """The command that stands for a runner."""
    return [sys.executable, "-I", "-S", "-c", JOIN, path]


def serve(path: str, options: dict[str, Any]) -> None:
    """Fork a runner for everybody who joins at ``path``, for ever."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                become(caller, options)
            caller.close()


def become(caller: socket.socket, options: dict[str, Any]) -> None:
    """The runner of ``caller``, until it hangs up; the connection closes with this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder, pipes, *_ = socket.recv_fds(caller, 4096, 2)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.chdir(folder)
    os.setsid()
    confine.confine(options)
    runner.main()


if __name__ == "__main__":
    runner.preload(sys.argv[3:])
    serve(sys.argv[1], json.loads(sys.argv[2]))
