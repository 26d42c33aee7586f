"""TODOs 4 and 5: whole schedulers, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch04.cases import DRAWN, PRELUDE, REASONS
from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.books import Books, Broken, broken, ids
from decodelab.check.schedule.plans import PlanRule
from decodelab.check.schedule.remote import RemoteScheduler
from decodelab.check.schedule.spec import KEYS, Decision, Key, decide, difference
from decodelab.check.schedule.walk import check_walk, jobs
from decodelab.check.schedule.watched import Watched
from decodelab.contract import Plan, SchedulerConfig
from decodelab.log import LoggedEvent, events, record_all
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_static(student: Student, case: Case) -> Finding | None:
    """A case walked under the rule of the static batch."""
    student.load("check", PRELUDE)
    name = "StaticBatchScheduler"
    rules = [one_batch_at_a_time(KEYS[case.get("policy", "FCFS")])]
    return idle(student, case, name) or check_walk(student, case, name, REASONS, rules, exact=False)


def check_continuous(student: Student, case: Case) -> Finding | None:
    """A case walked beside the oracle: the plan that is due, and no other."""
    student.load("check", PRELUDE)
    name = "ContinuousBatchScheduler"
    return idle(student, case, name) or check_walk(student, case, name, REASONS)


def idle(student: Student, case: Case, name: str) -> Finding | None:
    """Before anybody has come, the plan is there and empty: the loop would not ask."""
    arguments = student.new("SchedulerConfig", **case["config"]), student.new("FCFS")
    scheduler = RemoteScheduler(student, name, *arguments)
    try:
        Watched(scheduler, SchedulerConfig(**case["config"]), REASONS).schedule(0.0)
    except Broken as found:
        return found.finding
    return None


def one_batch_at_a_time(key: Key) -> PlanRule:
    """Everybody in the batch is served until all are done; then a new one is filled, in the order of ``key``."""

    def rule(books: Books, plan: Plan) -> Finding | None:
        early = [i for i in plan.scheduled if not books.entries[i].running] if books.running else []
        if early:
            return broken(
                books,
                "one-batch-at-a-time",
                f"Step {len(books.history)}: {ids(early)} must wait until the batch is done; "
                f"{ids(books.running)} still runs.",
                f"第 {len(books.history)} 步：{ids(early)} 要等这一批全部做完；{ids(books.running)} 还在跑。",
                plan,
                hint=1,
            )
        together = Decision(dict.fromkeys(books.running, 1))
        return difference(books, plan, together if books.running else decide(books, key, books.now))

    return rule


def picture(student: Student, name: str) -> list[LoggedEvent]:
    """What the answer does with a few requests, shown when its check passes."""
    student.load("check", PRELUDE)
    arguments = student.new("SchedulerConfig", **DRAWN["config"]), student.new("FCFS")
    workload = jobs(DRAWN)
    loop = Loop(workload, RemoteScheduler(student, name, *arguments), SimExecutor(), StepClock())
    return events(record_all(loop), [job.request for job in workload])
