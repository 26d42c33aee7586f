"""A student's scheduler, in the runner, as an object that meets the contract here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Opaque, Record, StudentError
from decodelab.check.schedule.books import Broken
from decodelab.check.toolkit import finding
from decodelab.contract import Finished, Plan, Refused, State, Tokens
from decodelab.request import Request, RequestId

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student


class RemoteScheduler:
    """``student``'s class ``name``, made with these arguments. Plans come back as data and are taken for nothing else."""

    def __init__(self, student: Student, name: str, *args: Any, **kwargs: Any) -> None:
        self.student = student
        self.there = student.new(name, *args, **kwargs)
        self.there.watch("running", "waiting")
        self.planned: tuple[Plan, Remote] | None = None

    def add_request(self, request: Request, now: float) -> None:
        there = self.student.new("Request", **asdict(request))
        try:
            self.there.call("add_request", there, now)
        except StudentError as error:
            if error.is_a("Refused"):
                raise Refused(error.message) from None
            if error.kind != "ValueError":
                raise
            raise Broken(
                finding(
                    "raises-refused",
                    f"add_request refuses with Refused(reason), so that the loop goes on; yours raised ValueError: {error.message[:80]}",
                    f"add_request 用 Refused(reason) 拒绝请求，循环才能继续；你抛出的是 ValueError：{error.message[:80]}",
                    hint=0,
                    traceback=error.traceback,
                )
            ) from None

    def abort(self, request_id: RequestId, now: float) -> None:
        self.there.call("abort", request_id, now)

    def schedule(self, now: float) -> Plan:
        remote = self.there.later_keep("schedule", now)
        told = remote.later("data")
        remote.made()  # one line for both
        try:
            data = told()
        except StudentError as error:
            if error.kind != "Missing":
                raise
            raise no_plan(remote.data()) from None
        plan = plan_of(data)
        self.planned = (plan, remote)
        return plan

    def update(self, plan: Plan, tokens: Tokens, now: float) -> Finished:
        assert self.planned
        assert self.planned[0] is plan
        finished = self.there.call("update", self.planned[1], tokens, now)
        if isinstance(finished, dict) and all(isinstance(v, str) for v in finished.values()):
            return finished
        raise Broken(
            finding(
                "returns-finished",
                f"update must return a dict {{request_id: reason}} of the requests that ended; yours returned {brief(finished)}.",
                f"update 应当返回这一步结束的请求：dict {{request_id: 原因}}；你返回的是 {brief(finished)}。",
                hint=0,
            )
        )

    def state(self) -> State:
        return State([], [])


NUMBERS, IDS = ("scheduled", "start", "cached"), ("new", "resumed", "preempted")
PAIRS = ("swap_out", "swap_in")


def plan_of(data: Any) -> Plan:
    """A plan from what came back; Broken where it is none."""
    if not isinstance(data, dict) or set(data) - set(Plan.__dataclass_fields__):
        raise no_plan(data)
    for name, value in data.items():
        if not well_formed(name, value):
            raise Broken(
                finding(
                    "plan-shape",
                    f"plan.{name} is {brief(value)}, which is not of its form: see Plan in decodelab.contract.",
                    f"plan.{name} 是 {brief(value)}，形式不对：请看 decodelab.contract 里的 Plan。",
                    hint=0,
                )
            )
    return Plan(**data)


def no_plan(data: Any) -> Broken:
    """What is said of anything but a plan."""
    return Broken(
        finding(
            "returns-a-plan",
            f"schedule must return a Plan; yours returned {brief(data)}.",
            f"schedule 应当返回一个 Plan；你返回的是 {brief(data)}。",
            hint=0,
        )
    )


def well_formed(name: str, value: Any) -> bool:
    """Whether a field of a plan has the type that it must have."""
    if name in NUMBERS:
        return isinstance(value, dict) and all(map(_id, value)) and all(map(_count, value.values()))
    if name in IDS:
        return isinstance(value, list) and all(map(_id, value)) and len(set(value)) == len(value)
    if name == "block_tables":
        return isinstance(value, dict) and all(
            isinstance(t, list) and all(map(_count, t)) for t in value.values()
        )
    if name in PAIRS:
        return isinstance(value, dict) and all(
            isinstance(p, list) and all(map(_pair, p)) for p in value.values()
        )
    if name == "copy":
        return isinstance(value, list) and all(map(_pair, value))
    return isinstance(value, dict) and all(isinstance(reason, str) for reason in value.values())


def _id(value: Any) -> bool:
    return type(value) in (int, str)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_count, value))


def brief(value: Any) -> str:
    """The beginning of a value's repr."""
    text = value.type if isinstance(value, Record) else repr(value)
    return str(value) if isinstance(value, Opaque) else text[:120]
