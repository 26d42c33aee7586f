"""TODO 6: the batch size that follows the time of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch04.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# A case tells how long each step takes, or how long a step takes for each request that the limit lets in.
FOLLOW = """
def limits_of(config, target, seconds, each, steps):
    scheduler = DynamicBatchScheduler(config, FCFS(), target)
    limits = [scheduler.limit]
    for number in range(steps):
        scheduler.adjust(seconds[number] if seconds else each * scheduler.limit)
        limits.append(scheduler.limit)
    return limits
"""


def check_adjust(student: Student, case: Case) -> Finding | None:
    """Every change of the limit, from a script of times or in a closed loop with a load that fills every slot."""
    student.load("check", PRELUDE + FOLLOW)
    most, target, times = case["config"]["max_num_seqs"], case["target"], case.get("seconds", [])
    each, steps = case.get("each", 0.0), case.get("steps", len(times))
    config = student.new("SchedulerConfig", **case["config"])
    got = listed(student.call("limits_of", config, target, times, each, steps))
    limit = 1
    for number, after in enumerate(got[1:]):
        seconds = times[number] if times else each * limit
        late = seconds > target
        want = max(1, limit // 2) if late else min(most, limit + 1)
        if type(after) is not int or after != want:
            return wrong_limit(after, limit, most, seconds, target, want)
        limit = want
    return None


def wrong_limit(got: Any, before: int, most: int, seconds: float, target: float, want: int) -> Finding:
    """The finding where a step of ``seconds`` changed the limit from ``before`` to something else than ``want``."""
    en = f"limit was {before}, the step took {seconds:g} s of {target:g}: limit must become {want}, not {got!r}"
    zh = f"limit 原来是 {before}，这一步用了 {seconds:g} 秒（目标 {target:g}）：应当变成 {want}，而不是 {got!r}"
    if type(got) is int and not 1 <= got <= most:
        rule, en, zh = (
            "stays-in-bounds",
            f"{en}; it stays from 1 to {most}",
            f"{zh}；它始终在 1 到 {most} 之间",
        )
    elif seconds > target:
        rule, en, zh = "halves-when-late", f"{en}; a late step halves it", f"{zh}；超时就减半"
    else:
        rule, en, zh = (
            "grows-by-one",
            f"{en}; a step in time lets it grow by one",
            f"{zh}；没有超时就加一",
        )
    return finding(rule, f"{en}.", f"{zh}。", hint=2)
