"""TODO 3: a script walked event by event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from decodelab.check.ch01.order import wrong_event
from decodelab.check.ch01.spec import REQUEST_FIELDS, STRANGER, Turn, walked
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, listed, records

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

NOT_RETURNED = finding(
    "returns-event",
    "step() recorded an event in timeline but returned None: is there a `return event` missing?",
    "timeline 里多了一个事件，step() 却返回了 None：是不是漏了 return？",
    hint=0,
)
OWN_KEY = """
class OwnKeySim({name}):
    def _schedule_key(self, req):
        return (-req.request_id,)
"""


def check_step(student: Student, case: Case, name: str = "DecodeSchedulerSim") -> Finding | None:
    """Walk a script of ``["enqueue", {...}]`` and ``["steps", n]`` (None: to the end and one more).

    Beside it stands a second scheduler with a request of its own, which is no business of this one.
    With ``own_key`` the order of the queue is another, by a subclass: the largest id first.
    """
    if case.get("own_key"):
        return check_own_key(student, case, name)
    beside, sim, turns = student.later_new(name), student.later_new(name), walked(case["script"])
    first: list[Callable[[], Any]] = [
        beside.made,
        beside.later("enqueue", STRANGER, 1, priority=99, cache_hit=True),
        sim.made,
    ]
    sim.watch("queue", "timeline")
    replies = [sim.later(turn.method, **turn.arguments) for turn in turns]
    timeline, queue = sim.later_get("timeline"), sim.later_get("queue", *REQUEST_FIELDS)
    for reply in first:
        reply()
    got: list[Any] = []
    for number, (turn, reply) in enumerate(zip(turns, replies, strict=True)):
        student.context, student.step = turn.queue, len(got)
        event = reply()
        if turn.method == "enqueue":
            continue
        broken = wrong_event(event, turn.want, turn.before)
        if broken and event is None and recorded(student.new(name), turns[: number + 1]) > len(got):
            broken = NOT_RETURNED
        got += [] if event is None else [event]
        if broken:
            want, at = [t.want for t in turns if t.want], len(got) - (event is not None)
            return replace(broken, want=want, got=got, state=turn.before, at=at)
    ids = [turn.arguments["request_id"] for turn in turns if turn.method == "enqueue"]
    return kept_everything(timeline(), got, records(queue()), ids)


def recorded(sim: Remote, turns: list[Turn]) -> int:
    """How many events stand in timeline after these calls."""
    for turn in turns:
        sim.later(turn.method, **turn.arguments)
    return len(listed(sim.get("timeline")))


def check_own_key(student: Student, case: Case, name: str) -> Finding | None:
    """A subclass with a key of its own decides who is served."""
    student.new(name)  # so that a missing class is named as such
    sim = student.apart(OWN_KEY.format(name=name), name).keep("OwnKeySim")
    sim.calls("enqueue", [request for _, request in case["script"]])
    waiting = sorted(request["request_id"] for _, request in case["script"])
    event = sim.call("step")
    if isinstance(event, dict) and event.get("request_id") == waiting[-1]:
        return None
    return finding(
        "asks-the-key",
        "A subclass gave _schedule_key an order of its own (largest id first), and step did not follow it: "
        "ask self._schedule_key(req), do not write the fields again.",
        "子类给 _schedule_key 换了一种次序（id 大的在前），step 却没有照办：请调用 self._schedule_key(req)，不要把各个字段再写一遍。",
        hint=2,
    )


def kept_everything(
    timeline: Any, got: list[Any], queue: list[dict[str, Any]], enqueued: list[int]
) -> Finding | None:
    """The timeline holds every event, the queue every request in enqueue order."""
    if timeline != got:
        return finding(
            "timeline-records",
            "timeline must hold every event that step() returned, in order, and nothing else; _advance records it already.",
            "timeline 必须按顺序保存 step() 返回的每个事件，不多也不少；_advance 已经记过一次。",
            hint=0,
            want=got,
            got=listed(timeline),
        )
    ids = [r.get("request_id") for r in queue]
    if ids != enqueued:
        return finding(
            "queue-keeps-order",
            f"queue keeps every request, finished ones too, in enqueue order; it holds the ids {ids}.",
            f"queue 要按入队顺序保留所有请求，完成的也不例外；现在里面的 id 是 {ids}。",
        )
    return None
