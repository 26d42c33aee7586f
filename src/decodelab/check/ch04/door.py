"""TODO 2: who is turned away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch04.cases import PRELUDE, REASONS
from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.walk import check_walk

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
    return check_walk(student, case, "OneAtATime", REASONS, exact=False)
