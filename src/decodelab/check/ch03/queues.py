"""TODOs 3, 4, 5 and 8: a script of arrivals, cancels and pops, walked beside a book-keeping of its own."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from decodelab.check.ch03.order import check_order
from decodelab.check.ch03.spec import Asked, Line, TwoLines, timed
from decodelab.check.ch03.things import ids_differ, make_policy
from decodelab.check.rules import Case, Finding, Opaque, Record, StudentError
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Reply, Student

NOTHING = both(en="", zh="")
WAITING = both(en="Waiting at that moment", zh="当时在等的请求")


def check_queue(student: Student, case: Case) -> Finding | None:
    """A PolicyQueue under the case's policy, or where it has a ``burst`` a PriorityScheduler."""
    return walk(student, case, inner(student, case), line_of(case))


def check_aging(student: Student, case: Case) -> Finding | None:
    """The order of aged keys; where there is a script, also who is served while newcomers keep coming."""
    return check_queue(student, case) if "script" in case else check_order(student, case)


def check_timeouts(student: Student, case: Case) -> Finding | None:
    """A TimeoutQueue around the queue that ``check_queue`` would see; ``gone`` is looked at after all pops."""
    line = line_of(case)
    queue = student.new("TimeoutQueue", inner(student, case), case["timeout"])
    return walk(student, case, queue, line) or wrong_reasons(queue, line)


def inner(student: Student, case: Case) -> Remote:
    """The queue of a case, or the one inside its TimeoutQueue."""
    policy = make_policy(student, case["policy"])
    if "burst" in case:
        return student.new("PriorityScheduler", policy, case["burst"])
    return student.new("PolicyQueue", policy)


def line_of(case: Case) -> Line:
    """The book-keeping beside the queue of a case."""
    timeout = case.get("timeout", inf)
    if "burst" in case:
        return TwoLines(case["policy"], case["burst"], timeout)
    return Line(case["policy"], timeout)


def walk(student: Student, case: Case, queue: Remote, line: Line) -> Finding | None:
    """Make the calls of ``case["script"]`` up to the first pop that is wrong; nothing where an id comes twice."""
    student.context = line.state
    if not ids_differ(added(case)):
        return None
    for order, argument, now in timed(case["script"]):
        if order == "add":
            queue.call("add", student.new("Request", **argument), now)
            line.add(argument)
        elif order == "cancel":
            queue.call("cancel", argument)
            line.cancel(argument)
        elif broken := one_pop(queue, line, now):
            return broken
    return None


def added(case: Case) -> list[Asked]:
    """The requests of a script."""
    return [argument for order, argument in case["script"] if order == "add"]


def one_pop(queue: Remote, line: Line, now: float) -> Finding | None:
    """One call of pop, and the rule that it breaks."""
    two = line if isinstance(line, TwoLines) and line.timeout == inf else None
    row = two and queue.later_get("row")  # as it is before the pop
    got, due = queue.call("pop", now), line.due(now)
    waiting = line.state()
    broken = wrong_kind(got, due, f"pop(now={now})") or wrong_request(got, line, due, now)
    if broken:
        remarks = [exactly_then(line, due, now), other_row(two, row) if two and row else NOTHING]
        broken.text = {k: words + "".join(r[k] for r in remarks) for k, words in broken.text.items()}
        broken.state, broken.label, broken.call = waiting, WAITING, f"queue.pop(now={now})"
    else:
        line.leave(due, "served")
    return broken


def exactly_then(line: Line, due: Any, now: float) -> Text:
    """What to say where the one that is due has waited for as long as one may."""
    if due is None or now - line.waiting[due]["arrival_time"] != line.timeout:
        return NOTHING
    return both(
        en=f" Request {due} has waited exactly `timeout`: that is still in time.",
        zh=f"请求 {due} 正好等了 `timeout` 秒：还算及时。",
    )


def other_row(line: TwoLines, row: Reply) -> Text:
    """What to say where ``row`` was another than the book-keeping's before the pop."""
    try:
        yours = row()
    except StudentError:
        return NOTHING
    if yours == line.row:
        return NOTHING
    idle = both(en=" A pop that finds nobody does not count.", zh="没取到人的 pop 不算。")
    return both(
        en=f" Before this pop `row` should be {line.row}, yours is {yours!r}." + idle["en"] * line.idle,
        zh=f"这次 pop 之前，`row` 应当是 {line.row}，你的是 {yours!r}。" + idle["zh"] * line.idle,
    )


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


def wrong_reasons(queue: Remote, line: Line) -> Finding | None:
    """Who left unserved, and why, stands in ``gone``."""
    got, want = queue.get("gone"), line.gone()
    if got == want:
        return None
    served = [i for i in got if line.left.get(i) == "served"] if isinstance(got, dict) else []
    if served:
        return finding(
            "leaves-with-a-reason",
            f"Request {served[0]} was served, and stands in gone all the same: take it out of `waiting` "
            "when it is served.",
            f"请求 {served[0]} 已经服务过了，却又出现在 gone 里：服务的时候，要把它从 `waiting` 里拿掉。",
            hint=0,
        )
    return finding(
        "leaves-with-a-reason",
        f"gone must say who left unserved, and why: {want}; yours is {got!r}.",
        f"gone 要记下谁没被服务就离开了、为什么：应当是 {want}，你的是 {got!r}。",
        hint=2,
    )
