"""TODO 5: the same events, with few looks at the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch01.spec import Spec
from decodelab.check.ch01.step import check_step
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

LOOKS = """
looks = 0

def look():
    global looks
    looks += 1

class LooksSim(FastDecodeSchedulerSim):
    def _schedule_key(self, req):
        look()
        return super()._schedule_key(req)

def counted(read):
    def done(req):
        look()
        return read(req)

    return property(done)

if isinstance(vars(RequestState).get("done"), property):
    RequestState.done = counted(RequestState.done.fget)
"""


LOOKS_PER_STEP = 8  # a heap needs three: one key in, one key back, one look at done


def check_fast(student: Student, case: Case) -> Finding | None:
    """The same scripts for the fast scheduler, and a crowd in which every look at a request is counted."""
    if "crowd" not in case:
        return check_step(student, case, "FastDecodeSchedulerSim")
    student.new("FastDecodeSchedulerSim")  # so that a missing class is named as such
    probe, requests = student.apart(LOOKS, "FastDecodeSchedulerSim", "RequestState"), crowd(case["crowd"])
    sim = probe.keep("LooksSim")
    sim.calls("enqueue", requests)
    timeline = sim.call("run", max_steps=10 * len(requests))
    want = sorted_steps(requests)
    return few_looks(probe.get("looks"), len(requests), len(want)) or same_events(
        timeline, want, len(requests)
    )


def crowd(count: int) -> list[dict[str, Any]]:
    """``count`` requests of four tokens each, with ties at every field."""
    return [
        {
            "request_id": i,
            "prompt_len": 1 + i * 7919 % 97,
            "priority": i % 5,
            "cache_hit": i % 3 == 0,
            "max_new_tokens": 4,
        }
        for i in range(count)
    ]


def sorted_steps(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All events that they must give: a request's own keys only grow, so the greedy order is the sorted one."""
    spec = Spec()
    for request in requests:
        spec.enqueue(**request)
    steps = sorted(
        (phase, not r["cache_hit"], -r["priority"], r["prompt_len"] + made, r["request_id"])
        for r in requests
        for phase, made in [(0, 0), *((1, k) for k in range(r["max_new_tokens"]))]
    )
    return [spec.advance(request_id) for *_, request_id in steps]


def few_looks(looks: Any, requests: int, steps: int) -> Finding | None:
    """How often a request was looked at is bounded by a count a step."""
    if not isinstance(looks, int) or looks <= LOOKS_PER_STEP * (requests + steps):
        return None
    return finding(
        "scales",
        f"In {steps} steps over {requests} requests yours looked at a request {looks} times (asked for "
        "its key or whether it is done): a step must not look at every request in the queue.",
        f"{requests} 个请求走 {steps} 步，你的代码看了 {looks} 次请求（问它的键，或者问它完成没有）："
        "一步之内不能把队列里的每个请求都看一遍。",
    )


def same_events(timeline: Any, want: list[dict[str, Any]], requests: int) -> Finding | None:
    """The crowd's events are those of the slow scheduler."""
    if timeline == want:
        return None
    if not isinstance(timeline, list) or len(timeline) != len(want):
        return finding(
            "same-events",
            f"{requests} requests must give {len(want)} events.",
            f"{requests} 个请求应当产生 {len(want)} 个事件。",
        )
    at = next(i for i in range(len(want)) if timeline[i] != want[i])
    near = slice(max(0, at - 3), at + 4)
    return finding(
        "same-events",
        f"With {requests} requests, event {at + 1} is not the one that DecodeSchedulerSim gives.",
        f"{requests} 个请求时，第 {at + 1} 个事件和 DecodeSchedulerSim 的不同。",
        want=want[near],
        got=timeline[near],
        at=at - near.start,
    )
