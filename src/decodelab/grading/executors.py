"""Who does the work: processes of this machine, or the workers of a Dask cluster.

An ``Executor`` takes a function and the jobs and gives back each job with its result as it is done, in
any order. What went wrong on our side of it is a ``Fault`` in place of the result, and the others go on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeAlias, TypeVar

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both

TRIES = 2  # a worker that dies may have been killed for another's sake

J = TypeVar("J")
R = TypeVar("R")


@dataclass(frozen=True)
class Fault:
    """Why a job has no result: a fault of ours, of the machine or of the network."""

    reason: Text


Executor: TypeAlias = "Callable[[Callable[[J], R], Sequence[J]], Iterator[tuple[J, R | Fault]]]"


def guarded(work: Callable[[J], R], job: J) -> R | Fault:
    """``work(job)``, or what it raised as a Fault."""
    try:
        return work(job)
    except DecodeLabError as error:
        return Fault(error.text)
    except Exception as error:
        return Fault(_plain(f"{type(error).__name__}: {error}"))


def _plain(words: str) -> Text:
    return both(en=words, zh=words)


# Processes of this machine ---------------------------------------------------------------------------


@dataclass
class Worker:
    """A process that takes jobs one by one over a pipe."""

    process: SpawnProcess
    pipe: Connection


def local(workers: int | None = None) -> Executor[Any, Any]:
    """Processes of this machine, as many as it has cores by default.

    Each imports what it needs once. One that dies takes its job with it, which is tried once more.
    """
    return partial(_local, workers or os.cpu_count() or 1)


def _local(workers: int, work: Callable[[J], R], jobs: Sequence[J]) -> Iterator[tuple[J, R | Fault]]:
    waiting = deque((job, 1) for job in jobs)
    idle: list[Worker] = []
    busy: dict[Any, tuple[Worker, J, int]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                job, tries = waiting.popleft()
                worker = idle.pop() if idle else _hire(work)
                with suppress(OSError):  # it has died already: its pipe says so below
                    worker.pipe.send(job)
                busy[worker.pipe] = worker, job, tries
            for pipe in wait(list(busy)):
                worker, job, tries = busy.pop(pipe)
                try:
                    result = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    if tries < TRIES:
                        waiting.append((job, tries + 1))
                    else:
                        yield job, _died(worker.process.exitcode)
                    continue
                idle.append(worker)
                yield job, result
    finally:
        for worker in [*idle, *(worker for worker, _, _ in busy.values())]:
            worker.process.terminate()
            worker.process.join()
            worker.pipe.close()


def _hire(work: Callable[[J], R]) -> Worker:
    context = get_context("spawn")  # a forked one would hold the pipes of the others open
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, work), daemon=True)
    process.start()
    there.close()
    return Worker(process, here)


def _serve(pipe: Connection, work: Callable[[J], R]) -> None:
    """A worker's life: jobs from the pipe until it closes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(guarded(work, pipe.recv()))


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent
    parent.join()
    os._exit(1)


def _died(code: int | None) -> Fault:
    return Fault(
        both(
            en=f"The process that graded it died {TRIES} times (exit code {code}); run this again, with a "
            "smaller -j if memory is short.",
            zh=f"负责评分的进程中止了 {TRIES} 次（退出码 {code}）；请再运行一次，内存不够时把 -j 调小。",
        )
    )


# A Dask cluster --------------------------------------------------------------------------------------


def dask(address: str) -> Executor[Any, Any]:
    """The workers of the Dask scheduler at ``address``, which see the same files under the same paths.

    The job of a worker that dies is given to another one by Dask itself.
    """
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError:
        raise DecodeLabError(
            both(
                en="--dask needs the package distributed: pip install distributed, here and where the workers run.",
                zh="--dask 需要 distributed：请在本机和各个 worker 上运行 pip install distributed。",
            )
        ) from None
    return partial(_dask, address)


def _dask(address: str, work: Callable[[J], R], jobs: Sequence[J]) -> Iterator[tuple[J, R | Fault]]:
    from distributed import Client, as_completed

    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise DecodeLabError(
            both(
                en=f"No Dask scheduler answers at {address} ({error}): start one with `dask scheduler`.",
                zh=f"{address} 没有 Dask 调度器应答（{error}）：请先用 `dask scheduler` 启动。",
            )
        ) from None
    with client:
        futures = client.map(partial(guarded, work), jobs, pure=False)
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future in as_completed(futures):
            job = jobs[numbers[future.key]]
            if future.status == "finished":
                yield job, future.result()
            else:
                yield job, Fault(_plain(f"Dask: {future.exception()}"))
