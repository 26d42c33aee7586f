"""A case run through the loop of the course: jobs, the student's scheduler under watch, and the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.books import Books, Broken, broken
from decodelab.check.schedule.plans import PlanRule
from decodelab.check.schedule.remote import RemoteScheduler
from decodelab.check.schedule.spec import KEYS, decides_as
from decodelab.check.schedule.watched import Watched
from decodelab.contract import Scheduler, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.request import EOS, Job, Request, RequestId
from decodelab.run import Loop, Step, StepClock
from decodelab.sim.executor import SimExecutor

if TYPE_CHECKING:
    from decodelab.grading.student import Student

MAX_STEPS = 20_000  # of one case


def job(
    request_id: RequestId,
    prompt_len: Any,
    max_new_tokens: Any,
    *,
    step: int = 0,
    priority: int = 0,
    stop_at: int | None = None,
    abort_at: int | None = None,
) -> dict[str, Any]:
    """A job of a case: arrives at ``step``, stops by itself at output token ``stop_at``, is aborted at a step."""
    return {
        "request_id": request_id,
        "prompt_len": prompt_len,
        "max_new_tokens": max_new_tokens,
        "step": step,
        "priority": priority,
        "stop_at": stop_at,
        "abort_at": abort_at,
    }


def jobs(case: Case) -> list[Job]:
    """The workload of a case. Every request can be stopped, whether or not it will be."""
    return [
        Job(
            Request(
                j["request_id"],
                0.0,
                j["prompt_len"],
                j["max_new_tokens"],
                j.get("priority", 0),
                stop_token_ids=(EOS,),
            ),
            j.get("step", 0),
            j.get("stop_at"),
            j.get("abort_at"),
        )
        for j in case["jobs"]
    ]


class Walk:
    """One case, one scheduler. ``rules`` beside those of every plan; with ``exact`` the plan that is due is required.

    case: ``config`` (fields of SchedulerConfig), ``jobs``, ``policy`` (a name in spec.KEYS, FCFS where there is none).
    """

    def __init__(
        self,
        case: Case,
        scheduler: Scheduler,
        reasons: Sequence[str],
        rules: Sequence[PlanRule] = (),
        exact: bool = True,
    ) -> None:
        self.clock = StepClock()
        key = KEYS[case.get("policy", "FCFS")]
        due = [decides_as(key)] if exact else []
        config = SchedulerConfig(**case["config"])
        self.watched = Watched(scheduler, config, reasons, [*rules, *due])
        self.loop = Loop(jobs(case), self.watched, SimExecutor(), self.clock)
        self.steps: list[Step] = []

    @property
    def books(self) -> Books:
        """What was told and planned so far."""
        return self.watched.books

    def run(self, seen: Callable[[Step], None] = lambda step: None) -> Finding | None:
        """Walk to the end or to the first broken rule; ``seen`` gets every step."""
        try:
            for step in self.loop:
                self.steps.append(step)
                seen(step)
                if len(self.steps) >= MAX_STEPS:
                    return self.endless()
        except Broken as found:
            return found.finding
        except DecodeLabError:  # the loop gave up: nothing is scheduled any more
            return self.endless()
        return None

    def endless(self) -> Finding:
        """The finding where requests never end."""
        return broken(
            self.books,
            "everything-finishes",
            "These requests are still active, and nothing happens any more: every request finishes or is refused.",
            "这些请求还没有结束，却再也没有进展：每个请求要么完成，要么一开始就被拒绝。",
        )


def check_walk(
    student: Student,
    case: Case,
    name: str,
    reasons: Sequence[str],
    rules: Sequence[PlanRule] = (),
    exact: bool = True,
    policy: bool = True,
) -> Finding | None:
    """Walk the student's scheduler class ``name``, made as ``name(config, policy)``, through a case."""
    arguments = [student.new("SchedulerConfig", **case["config"])]
    arguments += [student.new(case.get("policy", "FCFS"))] if policy else []
    walk = Walk(case, RemoteScheduler(student, name, *arguments), reasons, rules, exact)
    student.context = lambda: [{k: v for k, v in row.items() if v != "·"} for row in walk.books.table()]

    def count(step: Step) -> None:
        student.step = len(walk.steps)

    return walk.run(count)


def shown_jobs(case: Case) -> list[str]:
    """A case as a learner would write it."""
    config = ", ".join(f"{k}={v!r}" for k, v in case["config"].items())
    lines = [f"SchedulerConfig({config})" + (f", {case['policy']}()" if case.get("policy") else "")]
    for j in case["jobs"]:
        extra = [
            f"{k}={v}" for k, v in j.items() if k not in ("request_id", "prompt_len", "max_new_tokens") and v
        ]
        line = f"{j['request_id']}: prompt_len={j['prompt_len']!r}, max_new_tokens={j['max_new_tokens']!r}"
        lines.append(", ".join([line, *extra]))
    return lines
