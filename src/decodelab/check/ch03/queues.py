"""TODOs 3, 4, 5 and 8: a script of arrivals, cancels and pops, walked beside a book-keeping of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch03.order import check_order
from decodelab.check.ch03.spec import Asked, Line, TimedLine, TwoLines
from decodelab.check.ch03.things import ids_differ, make_policy
from decodelab.check.rules import Case, Finding, Opaque, Record
from decodelab.check.toolkit import finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

WAITING = both(en="Waiting at that moment", zh="当时在等的请求")


def check_queue(student: Student, case: Case) -> Finding | None:
    """A PolicyQueue under the case's policy."""
    queue = student.new("PolicyQueue", make_policy(student, case["policy"]))
    return walk(student, case, queue, Line(case["policy"]))


def check_two_lines(student: Student, case: Case) -> Finding | None:
    """A PriorityScheduler under the case's policy and ``burst``."""
    queue = student.new("PriorityScheduler", make_policy(student, case["policy"]), case["burst"])
    return walk(student, case, queue, TwoLines(case["policy"], case["burst"]))


def check_aging(student: Student, case: Case) -> Finding | None:
    """The order of aged keys; where there is a script, also who is served while newcomers keep coming."""
    return check_queue(student, case) if "script" in case else check_order(student, case)


def check_timeouts(student: Student, case: Case) -> Finding | None:
    """A TimeoutQueue around a PolicyQueue; ``gone`` is looked at after each pop."""
    inner = student.new("PolicyQueue", make_policy(student, case["policy"]))
    line = TimedLine(case["policy"], case["timeout"])
    queue = student.new("TimeoutQueue", inner, case["timeout"])
    return walk(student, case, queue, line) or wrong_reasons(queue, line)


def walk(student: Student, case: Case, queue: Remote, line: Line) -> Finding | None:
    """Make the calls of ``case["script"]`` up to the first pop that is wrong; nothing where an id comes twice."""
    student.context = line.state
    if not ids_differ(added(case)):
        return None
    for order, argument in case["script"]:
        if order == "add":
            queue.call("add", student.new("Request", **argument), argument["arrival_time"])
            line.add(argument)
        elif order == "cancel":
            queue.call("cancel", argument)
            line.cancel(argument)
        elif broken := one_pop(queue, line, argument):
            return broken
    return None


def added(case: Case) -> list[Asked]:
    """The requests of a script."""
    return [argument for order, argument in case["script"] if order == "add"]


def one_pop(queue: Remote, line: Line, now: float) -> Finding | None:
    """One call of pop, and the rule that it breaks."""
    got, due = queue.call("pop", now), line.due(now)
    waiting = line.state()
    broken = wrong_kind(got, due, f"pop(now={now})") or wrong_request(got, line, due, now)
    if broken:
        broken.state, broken.label, broken.call = waiting, WAITING, f"queue.pop(now={now})"
    else:
        line.leave(due, "served")
    return broken


def wrong_kind(got: Any, due: Any, call: str) -> Finding | None:
    """Of what ``call`` returned: nothing where somebody waits, somebody where nobody does, or no request at all."""
    if got is None and due is None:
        return None
    if got is None:
        return finding(
            "work-conserving",
            f"{call} returned None, but request {due} waits and is next.",
            f"{call} 返回了 None，可是请求 {due} 在等，而且轮到它了。",
        )
    if not isinstance(got, Record) or not isinstance(got.fields.get("request_id"), int | str):
        what = got if isinstance(got, Opaque) else repr(got)[:60]
        return finding(
            "returns-the-request",
            f"{call} must return the Request itself, or None where nobody waits; yours returned {what}.",
            f"{call} 应当返回 Request 本身，没有人在等就返回 None；你的返回了 {what}。",
            hint=2,
        )
    return None


def wrong_request(got: Any, line: Line, due: Any, now: float) -> Finding | None:
    """A request came: is it the one that is due?"""
    served = got.fields["request_id"] if got else None
    if served == due:
        return None
    if served in line.waiting and due is not None:
        rule, words = line.why(due, served, now)
        return finding(
            rule,
            f"pop(now={now}) must serve request {due}, not {served}: {words['en']}.",
            f"pop(now={now}) 应当服务请求 {due}，而不是 {served}：{words['zh']}。",
            hint=2,
        )
    rule, en, zh = NOT_HERE.get(line.left.get(served, ""), STRANGER)
    return finding(
        rule,
        f"pop(now={now}) served request {served}, {en}.",
        f"pop(now={now}) 服务了请求 {served}，{zh}。",
        hint=2,
    )


STRANGER = ("known-requests", "which was never added here", "而它从来没有加进这个队列")
NOT_HERE = {
    "cancelled": ("cancelled-never-served", "which was cancelled before", "而它早就取消了"),
    "served": ("served-once", "which has been served before", "而它已经服务过了"),
    "timeout": (
        "late-ones-leave",
        "which has waited longer than the timeout",
        "而它等待的时间已经超过 timeout",
    ),
}


def wrong_reasons(queue: Remote, line: TimedLine) -> Finding | None:
    """Who left unserved, and why, stands in ``gone``."""
    got, want = queue.get("gone"), line.gone()
    if got == want:
        return None
    return finding(
        "leaves-with-a-reason",
        f"gone must say who left unserved, and why: {want}; yours is {got!r}.",
        f"gone 要记下谁没被服务就离开了、为什么：应当是 {want}，你的是 {got!r}。",
        hint=2,
    )
