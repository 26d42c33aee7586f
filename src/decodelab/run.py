"""The one loop: a workload, a scheduler and an executor, step by step, on a clock that is put in.

Simulator and engine differ in the executor only. What comes out is a ``Step`` each; ``log.py`` makes records
and events of them, ``Timings`` the times that metrics are made of.
"""

from __future__ import annotations

import heapq
import math
import time
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Protocol, TypeAlias

from decodelab.contract import Executor, Finished, Plan, Refused, Scheduler, State, Tokens, jobs_of
from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.request import Job, Request, RequestId

Workload: TypeAlias = "Iterable[Request] | Iterable[Job] | Iterable[Request | Job]"

IDLE_STEPS = 100  # plans without work, with nothing to come that could change it: the scheduler is stuck


class Clock(Protocol):
    """When jobs come and go, and what ``now`` is."""

    now: float  # seconds

    def arrives(self, job: Job) -> float:
        """When the job comes, in this clock's unit."""

    def reads(self) -> float:
        """The present in the unit of ``arrives`` and ``Job.abort_at``."""

    def tick(self, seconds: float) -> None:
        """A step that took ``seconds`` is over."""

    def skip(self, when: float) -> None:
        """Nothing can run before ``when``."""


class StepClock:
    """Logical: jobs come by step number, so what happens does not depend on how long steps take.

    ``now`` is the time that the executor's steps took together.
    """

    def __init__(self) -> None:
        self.now, self.step = 0.0, 0

    def arrives(self, job: Job) -> float:
        return job.arrival_step

    def reads(self) -> float:
        return self.step

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.step += 1

    def skip(self, when: float) -> None:
        self.step = max(self.step, math.ceil(when))


class TimeClock:
    """Simulated: jobs come by arrival time; a step takes as long as the executor says, waiting takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def arrives(self, job: Job) -> float:
        return job.request.arrival_time

    def reads(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds

    def skip(self, when: float) -> None:
        self.now = max(self.now, when)


class WallClock(TimeClock):
    """Real: jobs come by arrival time since the clock was made, steps take what they take, waiting is slept."""

    def __init__(self) -> None:
        super().__init__()
        self.began = time.monotonic()

    def reads(self) -> float:
        self.now = time.monotonic() - self.began
        return self.now

    def tick(self, seconds: float) -> None:
        self.reads()

    def skip(self, when: float) -> None:
        time.sleep(max(0.0, when - self.reads()))
        self.reads()


@dataclass(slots=True)
class Step:
    """One turn of the loop, as it happened."""

    number: int
    start: float  # seconds: ``now`` of schedule
    arrived: list[Request] = field(default_factory=list)
    refused: dict[RequestId, str] = field(default_factory=dict)  # of ``arrived``, and why
    aborted: list[RequestId] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    tokens: Tokens = field(default_factory=dict)
    finished: Finished = field(default_factory=dict)
    end: float = 0.0  # seconds: ``now`` of update
    scheduled: State | None = None  # after schedule; kept where ``watch`` is set
    updated: State | None = None  # after update


class Loop:
    """Drives one scheduler and one executor over one workload; iterate to make steps.

    workload: requests or jobs, in any order; where it has a method ``ended(request_id, when)``, that is told of
    each request that is over, by the clock's reading, and gives the requests or jobs that come because of it.
    clock: TimeClock by default. watch: keep the scheduler's state in each step, which a log needs.

    Of several arrivals with one id in a step, the first comes now and the next one a step later, so that an id
    says who is meant. It ends when no job is to come and none is active. DecodeLabError for a time that is none,
    for what the contract does not let a scheduler or a cost model return, and where the scheduler leaves active
    requests without work and nothing to come could change that.
    """

    def __init__(
        self,
        workload: Workload,
        scheduler: Scheduler,
        executor: Executor,
        clock: Clock | None = None,
        *,
        watch: bool = False,
    ) -> None:
        self.scheduler, self.executor, self.clock = scheduler, executor, clock or TimeClock()
        self.watch = watch
        # Sorting is stable: who stands first in the workload comes first. The next one is at the end.
        self.coming = sorted(self._queued(workload), key=lambda one: one[0])[::-1]
        self.ended: Callable[..., Iterable[Request | Job]] | None = getattr(workload, "ended", None)
        self.active: dict[RequestId, Job] = {}
        self.leaving: list[tuple[float, int, RequestId]] = []  # a heap of (when, order, id)
        self.number = self.idle = self.taken = 0

    def __iter__(self) -> Iterator[Step]:
        while step := self.step():
            yield step

    def step(self) -> Step | None:
        """Make one step; None when all is done."""
        clock, scheduler, watch = self.clock, self.scheduler, self.watch
        if not self.active:
            if not self.coming:
                return None
            clock.skip(self.coming[-1][0])
        reading = clock.reads()
        number, start = int(reading) if isinstance(clock, StepClock) else self.number, clock.now
        self.number += 1
        due = self.coming and self.coming[-1][0] <= reading
        came, refused = self._arrivals(reading) if due else ([], {})
        aborted = self._aborts(reading) if self.leaving else []
        if not self.active:
            clock.tick(0.0)
            state = scheduler.state() if watch else None
            return Step(number, start, came, refused, aborted, Plan(), {}, {}, clock.now, state, state)
        plan = scheduler.schedule(clock.now)
        if not isinstance(plan, Plan):
            raise _slip("schedule()", plan, en="a Plan", zh="一个 Plan")
        scheduled = scheduler.state() if watch else None
        for request_id in plan.dropped:
            self._ends(request_id)
        tokens, seconds = self.executor.execute(plan)
        if seconds is None or not 0 <= seconds < math.inf:
            raise _slip("The cost of a step", seconds, en="seconds, 0 or more", zh="不小于 0 的秒数")
        clock.tick(seconds)
        finished = scheduler.update(plan, tokens, clock.now)
        if not isinstance(finished, dict):
            raise _slip("update()", finished, en="a dict {request_id: reason}", zh="dict {request_id: 原因}")
        end = clock.now
        for request_id in finished:
            self._ends(request_id)
        updated = scheduler.state() if watch else None
        if plan.scheduled or plan.dropped:
            self.idle = 0
        else:
            self._waits()
        return Step(number, start, came, refused, aborted, plan, tokens, finished, end, scheduled, updated)

    def _queued(self, workload: Workload) -> list[tuple[float, Job]]:
        """Each job with the moment at which it comes."""
        queued = []
        for job in jobs_of(workload):
            when = self.clock.arrives(job)
            for name, moment in (("arrival", when), ("abort_at", job.abort_at or 0)):
                if not (isinstance(moment, Real) and math.isfinite(moment)):
                    raise _no_moment(job.request.request_id, name, moment)
            queued.append((when, job))
        return queued

    def _arrivals(self, reading: float) -> tuple[list[Request], dict[RequestId, str]]:
        """Take in who comes now; these, and why some of them are refused."""
        came: dict[RequestId, Request] = {}
        refused: dict[RequestId, str] = {}
        later: list[tuple[float, Job]] = []
        while self.coming and self.coming[-1][0] <= reading:
            when, job = self.coming.pop()
            request_id = job.request.request_id
            if request_id in came:
                later.append((when, job))
                continue
            if isinstance(self.clock, StepClock):
                job = replace(job, request=replace(job.request, arrival_time=self.clock.now))
            came[request_id] = job.request
            try:
                self.scheduler.add_request(job.request, self.clock.now)
            except Refused as refusal:
                refused[request_id] = refusal.reason
                self._follow(request_id)
            else:
                self._begins(job)
        self.coming += reversed(later)
        return list(came.values()), refused

    def _begins(self, job: Job) -> None:
        self.active[job.request.request_id] = job
        self.executor.begin(job)
        if job.abort_at is not None:
            heapq.heappush(self.leaving, (job.abort_at, self.taken, job.request.request_id))
        self.taken += 1

    def _aborts(self, reading: float) -> list[RequestId]:
        """Let go who gives up now."""
        aborted = []
        while self.leaving and self.leaving[0][0] <= reading:
            *_, request_id = heapq.heappop(self.leaving)
            if request_id in self.active:
                self.scheduler.abort(request_id, self.clock.now)
                self._ends(request_id)
                aborted.append(request_id)
        return aborted

    def _ends(self, request_id: RequestId) -> None:
        if self.active.pop(request_id, None):
            self.executor.end(request_id)
            self._follow(request_id)

    def _follow(self, request_id: RequestId) -> None:
        """Let the workload say who comes because this request is over; behind those who come at the same time."""
        if self.ended:
            for one in self._queued(self.ended(request_id, self.clock.reads())):
                insort(self.coming, one, key=lambda one: -one[0])

    def _waits(self) -> None:
        """A step without work: pass on to what comes next, or give up."""
        moments = [self.coming[-1][0]] if self.coming else []
        moments += [when for when, _, request_id in self.leaving if request_id in self.active]
        if moments:
            self.clock.skip(min(moments))
            return
        self.idle += 1
        if self.idle >= IDLE_STEPS:
            waiting = ", ".join(map(str, list(self.active)[:8]))
            raise DecodeLabError(
                both(
                    en=f"schedule() has returned {self.idle} empty plans in a row while these requests wait and "
                    f"nothing else is to come: {waiting}. Schedule them, or refuse in add_request what can never fit.",
                    zh=f"schedule() 接连返回了 {self.idle} 个空计划，而这些请求还在等，也不会再有别的事发生：{waiting}。"
                    "请调度它们；永远放不下的请求，应当在 add_request 里拒绝。",
                )
            )


def _slip(what: str, got: Any, *, en: str, zh: str) -> DecodeLabError:
    """The error for a value that the contract does not know."""
    return DecodeLabError(
        both(
            en=f"{what} came out as {got!r:.60}; return {en}, whatever way the code takes.",
            zh=f"{what} 得到的是 {got!r:.60}；代码无论走哪条分支，都应当返回{zh}。",
        )
    )


def _no_moment(request_id: RequestId, name: str, moment: Any) -> DecodeLabError:
    return DecodeLabError(
        both(
            en=f"The {name} of request {request_id!r} is {moment!r:.60}; give a finite number.",
            zh=f"请求 {request_id!r} 的 {name} 是 {moment!r:.60}；请给出一个有限的数。",
        )
    )
