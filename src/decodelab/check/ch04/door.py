"""TODO 2: who is turned away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch04.cases import PRELUDE, REASONS
from decodelab.check.rules import Case, Finding, StudentError
from decodelab.check.schedule.walk import check_walk
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# Whoever gets past the door is served, one after the other: a request that should not be in shows up in a plan.
ONE_AT_A_TIME = """
class OneAtATime(BatchScheduler):
    def schedule(self, now):
        plan = Plan()
        if self.running:
            self.serve(plan, self.running[0])
        elif len(self.waiting):
            self.admit(plan, self.waiting.peek(now))
        return plan
"""


def check_door(student: Student, case: Case) -> Finding | None:
    """Good and bad requests, some of them after others have finished or were aborted."""
    student.load("check", PRELUDE + ONE_AT_A_TIME)
    return during_a_step(student, case) or check_walk(student, case, "OneAtATime", REASONS, exact=False)


def during_a_step(student: Student, case: Case) -> Finding | None:
    """Whoever arrived while a step was computed is told of after it: ``now`` is later than the arrival."""
    config = student.new("SchedulerConfig", **case["config"])
    scheduler = student.new("OneAtATime", config, student.new("FCFS"))
    try:
        scheduler.call("add_request", student.new("Request", 1, 0.5, 1, 1), 2.0)
    except StudentError as error:
        if not error.is_a("Refused"):
            raise
        return finding(
            "accepts-good-requests",
            "Request(1, arrival_time=0.5, prompt_len=1, max_new_tokens=1) at now=2.0 came while a step was computed; "
            f"it can be served, but it was refused ({error.message:.60}).",
            "Request(1, arrival_time=0.5, prompt_len=1, max_new_tokens=1) 在 now=2.0 时才交来，因为它到达时正好在算一步；"
            f"它是能够服务的，却被拒绝了（{error.message:.60}）。",
        )
    return None
