"""TODO 1: what enqueue takes in and what it turns away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from decodelab.check.ch01.spec import REQUEST_FIELDS, Spec, target
from decodelab.check.rules import Case, Finding, StudentError
from decodelab.check.toolkit import called, finding, records, refused
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

YOUR_QUEUE = both(en="Your queue", zh="你的队列")
WHY_REFUSED = both(
    en="ids are unique, lengths are positive integers, no bools",
    zh="id 不能重复，长度必须是正整数，bool 不算整数",
)


def check_enqueue(student: Student, case: Case) -> Finding | None:
    """Good and bad requests in a row; at most ``after`` steps are made before those in ``then``."""
    sim, wanted = student.new("DecodeSchedulerSim"), Spec()
    student.context = wanted.queue
    if broken := first_broken(sim, wanted, case["requests"]):
        return broken
    if case.get("after"):
        sim.call("run", max_steps=case["after"])
        for _ in range(case["after"]):
            if (due := wanted.due()) is not None:
                wanted.advance(due)
    return first_broken(sim, wanted, case.get("then", []))


def first_broken(sim: Remote, wanted: Spec, requests: list[dict[str, Any]]) -> Finding | None:
    """Enqueue one after the other, up to the first that goes wrong."""
    before = seen(sim)
    for request, call, after in [(r, sim.later("enqueue", **r), seen(sim)) for r in requests]:
        typed = called("enqueue", request)
        if wanted.refuses(request):
            broken = refused(call, typed, WHY_REFUSED, before, after)
        else:
            broken = accepted(call, typed, before, after)
            wanted.enqueue(**request)
            broken = broken or queue_matches(after()[0], wanted, typed)
        if broken:
            return broken
        before = after
    return None


def seen(sim: Remote) -> Callable[[], tuple[Any, Any]]:
    """Queue and timeline as they are once the calls before this one are made."""
    queue, timeline = sim.later_get("queue", *REQUEST_FIELDS), sim.later_get("timeline")
    return lambda: (queue(), timeline())


def accepted(
    call: Callable[[], Any],
    typed: str,
    before: Callable[[], tuple[Any, Any]],
    after: Callable[[], tuple[Any, Any]],
) -> Finding | None:
    """A good request is taken in: no exception, nothing returned, and timeline as it was."""
    timeline = before()[1]
    try:
        returned = call()
    except StudentError as error:
        if not error.is_a("ValueError"):
            raise
        return finding(
            "accepts-good-input",
            f"{typed} is a good request, but it was refused: {error}",
            f"{typed} 是合法的请求，却被拒绝了：{error}",
            call=typed,
        )
    if returned is not None:
        return finding(
            "returns-nothing",
            f"enqueue returns nothing; yours returned {returned!r}.",
            f"enqueue 不返回任何值；你的返回了 {returned!r}。",
        )
    if after()[1] != timeline:
        return finding(
            "timeline-untouched",
            f"{typed} changed timeline; enqueue makes no step, so it records nothing.",
            f"{typed} 改动了 timeline；enqueue 没有走任何一步，所以什么也不该记录。",
            call=typed,
            hint=0,
        )
    return None


def queue_matches(queue: Any, wanted: Spec, typed: str) -> Finding | None:
    """Every request so far stands in the queue, in order, with its fields."""
    got = records(queue)
    want = list(wanted.requests.values())
    if [r.get("request_id") for r in got] != list(wanted.requests):
        return finding(
            "in-enqueue-order",
            f"After {typed} the queue must hold the requests {list(wanted.requests)}, in this order; "
            f"yours holds {[r.get('request_id') for r in got]}. A new request goes to the end.",
            f"执行 {typed} 之后，queue 里应当依次是请求 {list(wanted.requests)}，"
            f"你的是 {[r.get('request_id') for r in got]}。新请求加在末尾。",
            state=got,
            label=YOUR_QUEUE,
            call=typed,
            hint=0,
        )
    for request, record in zip(want, got, strict=True):
        for field, value in request.items():
            resolved = target(request) if field == "max_new_tokens" else value  # None or what it stands for
            if field not in record or record[field] not in (value, resolved):
                return finding(
                    "fields",
                    f"After {typed} the queued request's {field} must be {value!r}, "
                    f"not {record.get(field)!r}.",
                    f"执行 {typed} 之后，队列中该请求的 {field} 应当是 {value!r}，"
                    f"而不是 {record.get(field)!r}。",
                    hint=2,
                    state=got,
                    label=YOUR_QUEUE,
                    call=typed,
                )
    return None
