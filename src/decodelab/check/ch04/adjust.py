"""TODO 6: the batch size that follows the time of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch04.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# A case tells how long each step takes, or how long a step takes for each request that the limit lets in. A few run.
FOLLOW = """
def limits_of(config, target, seconds, each, steps):
    scheduler = DynamicBatchScheduler(config, FCFS(), target)
    for number in range(min(3, config.max_num_seqs)):
        scheduler.add_request(Request(number, 0.0, 1, 9), 0.0)
        scheduler.admit(Plan(), scheduler.waiting.peek(0.0))
    limits = [scheduler.limit]
    for number in range(steps):
        scheduler.adjust(seconds[number] if seconds else each * scheduler.limit)
        limits.append(scheduler.limit)
    return [limits, [seq.request_id for seq in scheduler.running]]
"""


def check_adjust(student: Student, case: Case) -> Finding | None:
    """Every change of the limit, from a script of times or in a closed loop with a load that fills every slot."""
    student.load("check", PRELUDE + FOLLOW)
    most, target, times = case["config"]["max_num_seqs"], case["target"], case.get("seconds", [])
    each, steps = case.get("each", 0.0), case.get("steps", len(times))
    config = student.new("SchedulerConfig", **case["config"])
    got, running = items(student.call("limits_of", config, target, times, each, steps), 2)
    limit = 1
    for number, after in enumerate(listed(got)[1 : steps + 1]):
        seconds = times[number] if times else each * limit
        late = seconds > target
        want = max(1, limit // 2) if late else min(most, limit + 1)
        if type(after) is not int or after != want:
            return wrong_limit(after, limit, most, seconds, target, want)
        limit = want
    return None if running == list(range(min(3, most))) else thrown_out(running)


def thrown_out(running: Any) -> Finding:
    """The finding where the batch itself was changed."""
    return finding(
        "throws-nobody-out",
        f"adjust changes self.limit alone: whoever runs goes on. Of requests 0, 1, 2 only {running} still run.",
        f"adjust 只改 self.limit，在跑的继续跑。请求 0、1、2 里还在跑的只剩 {running}。",
    )


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
