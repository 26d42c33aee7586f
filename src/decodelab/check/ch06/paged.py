"""TODO 5: the whole scheduler, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch06.cases import DRAWN, PRELUDE, REASONS
from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.remote import RemoteScheduler
from decodelab.check.schedule.walk import check_walk, jobs
from decodelab.check.toolkit import finding, items
from decodelab.log import LoggedEvent, events, record_all
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor

if TYPE_CHECKING:
    from decodelab.grading.student import Student


# A scheduler whose ``evict`` takes a note, driven until it has preempted.
THROUGH = """
def evicted(config, requests):
    noted = []

    class Noting(PagedScheduler):
        def evict(self, victim, plan, now):
            noted.append(victim.request_id)
            super().evict(victim, plan, now)

    scheduler = Noting(config, FCFS())
    for request_id, prompt_len, max_new_tokens in requests:
        scheduler.add_request(Request(request_id, 0.0, prompt_len, max_new_tokens), 0.0)
    for step in range(60):
        plan = scheduler.schedule(float(step))
        if plan.preempted:
            return noted, list(plan.preempted)
        scheduler.update(plan, {request_id: [7] for request_id in plan.scheduled}, step + 1.0)
    return noted, []
"""


def check_paged(student: Student, case: Case) -> Finding | None:
    """A case walked beside the oracle: the plan that is due, and no other."""
    student.load("check", PRELUDE)
    wrong = check_walk(student, case, "PagedScheduler", REASONS)
    return wrong or (past_evict(student, case) if case.get("evicts") else None)


def past_evict(student: Student, case: Case) -> Finding | None:
    """Whoever is preempted is so by ``evict``, which a subclass may write anew."""
    probe = student.apart(PRELUDE + THROUGH, "PagedScheduler")
    requests = [[j["request_id"], j["prompt_len"], j["max_new_tokens"]] for j in case["jobs"]]
    told = probe.call("evicted", probe.keep("SchedulerConfig", **case["config"]), requests)
    noted, preempted = items(told, 2)
    if isinstance(noted, list) and noted and noted == preempted:
        return None
    return finding(
        "by-evict",
        f"plan.preempted is {preempted}, but self.evict was called for {noted}: throw out with self.evict(victim, plan, "
        "now), so that a subclass can do it in another way (ch06.6 does).",
        f"plan.preempted 是 {preempted}，可是 self.evict 只对 {noted} 调用过：请用 self.evict(victim, plan, now) 请出去，"
        "子类才能换一种做法（ch06.6 就是这样）。",
        hint=0,
    )


def picture(student: Student) -> list[LoggedEvent]:
    """What the answer does when memory is short, shown when its check passes."""
    student.load("check", PRELUDE)
    arguments = student.new("SchedulerConfig", **DRAWN["config"]), student.new("FCFS")
    workload = jobs(DRAWN)
    loop = Loop(workload, RemoteScheduler(student, "PagedScheduler", *arguments), SimExecutor(), StepClock())
    return events(record_all(loop), [job.request for job in workload])
