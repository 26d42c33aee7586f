"""A whole workload under any scheduler, with the progress on one line and the log in a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sized
from pathlib import Path

from decodelab.contract import Executor, Scheduler
from decodelab.log import record_all, write_log
from decodelab.meter import Meter
from decodelab.run import Clock, Loop, Step, Workload
from decodelab.timings import Timings


def replay(
    workload: Workload,
    scheduler: Scheduler,
    executor: Executor,
    clock: Clock | None = None,
    *,
    progress: bool = True,
    log: str | Path | None = None,
) -> Timings:
    """Run a workload to its end; the times of every request.

    clock: TimeClock by default. progress: say how far it is, where somebody looks on. log: write the step log to
    this file as it is made, so that it takes no memory (gzip where the name ends in ``.gz``). DecodeLabError as of
    Loop, and where the file cannot be made.
    """
    if not isinstance(workload, Sized):
        workload = list(workload)
    loop = Loop(workload, scheduler, executor, clock, watch=log is not None)
    seen = Timings()
    steps = _counted(loop, seen, Meter(len(workload)) if progress else None)
    if log is None:
        deque(steps, maxlen=0)
    else:
        write_log(log, record_all(steps))
    return seen


def _counted(loop: Loop, seen: Timings, meter: Meter | None) -> Iterator[Step]:
    over = 0
    for step in loop:
        seen.see(step)
        if meter:
            ended = len(step.refused) + len(step.aborted) + len(step.plan.dropped) + len(step.finished)
            over += ended
            if ended:
                meter.show(over)
        yield step
