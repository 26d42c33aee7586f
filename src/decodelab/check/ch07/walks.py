"""TODOs 2 to 4: the whole scheduler, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.ch07.cases import DRAWN, REASONS
from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.remote import RemoteScheduler
from decodelab.check.schedule.walk import Walk, check_walk, jobs
from decodelab.check.toolkit import finding, items
from decodelab.log import LoggedEvent, events, record_all
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_scheduler(student: Student, case: Case) -> Finding | None:
    """A case walked beside the oracle: the plan that is due, and no other."""
    student.load("check", PRELUDE)
    return check_walk(student, case, "ChunkedScheduler", REASONS)


RETURNED = """
class Returned(ChunkedScheduler):
    returned = ()

    def serve_running(self, plan, now):
        left = ChunkedScheduler.serve_running(self, plan, now)
        if plan.preempted:
            self.returned = (*self.returned, left)
        return left
"""


def check_running(student: Student, case: Case) -> Finding | None:
    """As ``check_scheduler``; with ``returned`` also what comes back after a preemption, which ``schedule`` never reads."""
    wrong = check_scheduler(student, case)
    if wrong or "returned" not in case:
        return wrong
    student.load("returned", RETURNED)
    arguments = student.new("SchedulerConfig", **case["config"]), student.new(case.get("policy", "FCFS"))
    scheduler = RemoteScheduler(student, "Returned", *arguments)
    walk = Walk(case, scheduler, REASONS)
    if wrong := walk.run():
        return wrong
    budget = case["config"]["max_num_batched_tokens"]
    short = [(n, step.plan) for n, step in enumerate(walk.steps) if step.plan.preempted]
    returned = items(scheduler.there.get("returned"), len(short))
    for (number, plan), got in zip(short, returned, strict=True):
        want = budget - sum(plan.scheduled.values())
        if got != want:
            return finding(
                "returns-what-is-left",
                f"Step {number} computes {plan.scheduled} of a budget of {budget}, so serve_running must return {want}, not {got!r}.",
                f"第 {number} 步在 {budget} 的预算里计算 {plan.scheduled}，所以 serve_running 应当返回 {want}，而不是 {got!r}。",
            )
    return None


def picture(student: Student) -> list[LoggedEvent]:
    """What the answer does with the worked case, shown when its check passes."""
    student.load("check", PRELUDE)
    arguments = student.new("SchedulerConfig", **DRAWN["config"]), student.new("FCFS")
    workload = jobs(DRAWN)
    loop = Loop(
        workload, RemoteScheduler(student, "ChunkedScheduler", *arguments), SimExecutor(), StepClock()
    )
    return events(record_all(loop), [job.request for job in workload])
