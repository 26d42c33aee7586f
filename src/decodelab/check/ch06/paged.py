"""TODO 5: the whole scheduler, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch06.cases import DRAWN, PRELUDE, REASONS
from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.remote import RemoteScheduler
from decodelab.check.schedule.walk import check_walk, jobs
from decodelab.log import LoggedEvent, events, record_all
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_paged(student: Student, case: Case) -> Finding | None:
    """A case walked beside the oracle: the plan that is due, and no other."""
    student.load("check", PRELUDE)
    return check_walk(student, case, "PagedScheduler", REASONS)


def picture(student: Student) -> list[LoggedEvent]:
    """What the answer does when memory is short, shown when its check passes."""
    student.load("check", PRELUDE)
    arguments = student.new("SchedulerConfig", **DRAWN["config"]), student.new("FCFS")
    workload = jobs(DRAWN)
    loop = Loop(workload, RemoteScheduler(student, "PagedScheduler", *arguments), SimExecutor(), StepClock())
    return events(record_all(loop), [job.request for job in workload])
