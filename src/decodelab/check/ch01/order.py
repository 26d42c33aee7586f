"""Which rule an event breaks: its shape, its values, or the order of the queue."""

from __future__ import annotations

from typing import Any

from decodelab.check.ch01.spec import FIELDS, ORDER, STRANGER
from decodelab.check.rules import Finding, Record
from decodelab.check.toolkit import finding


def wrong_event(event: Any, want: dict[str, Any] | None, before: list[dict[str, Any]]) -> Finding | None:
    """What is wrong with ``event`` where ``want`` was due and the queue was ``before``."""
    if event == want:
        return None
    if want is None:
        return finding(
            "skips-finished",
            "Nothing is active any more, so step() must return None.",
            "已经没有活跃的请求，step() 应当返回 None。",
        )
    if event is None:
        return finding(
            "work-conserving",
            "There is still an active request, but step() returned None.",
            "还有活跃的请求，step() 却返回了 None。",
        )
    if broken := wrong_shape(event):
        return broken
    if event["request_id"] != want["request_id"]:
        return wrong_choice(event["request_id"], want["request_id"], before)
    field = next(f for f in FIELDS if event[f] != want[f])
    return finding(
        "event-values",
        f"The right request ran, but its event has {field} = {event[field]!r}; it must be {want[field]!r}. "
        "_advance moves the request on, and once; step only chooses.",
        f"选对了请求，但事件里 {field} = {event[field]!r}，应当是 {want[field]!r}。"
        "请求由 _advance 推进，而且只推进一次；step 只负责选。",
        hint=0,
    )


def wrong_shape(event: Any) -> Finding | None:
    """What came back is no event at all."""
    if isinstance(event, Record):
        return finding(
            "event-shape",
            "step() returned a request; it must return the event that self._advance(req) returns.",
            "step() 返回的是请求；它应当返回 self._advance(req) 给出的事件。",
            hint=0,
        )
    if not isinstance(event, dict) or set(event) != set(FIELDS):
        return finding(
            "event-shape",
            f"An event is a dict with exactly the keys {', '.join(FIELDS)}; yours is {event!r}.",
            f"事件是一个 dict，恰好有这些键：{', '.join(FIELDS)}；你的是 {event!r}。",
            hint=0,
        )
    return None


def wrong_choice(got: Any, want: int, before: list[dict[str, Any]]) -> Finding:
    """Which field of the order says that ``want`` goes before ``got``."""
    if got == STRANGER:
        return finding(
            "a-queue-for-each",
            "step() served a request of another scheduler: is there a list that all instances share?",
            "step() 服务了另一个调度器的请求：是不是有一个列表被所有实例共用了？",
            hint=0,
        )
    yours, due = (next((r for r in before if r["request_id"] == i), None) for i in (got, want))
    if yours is None or due is None:
        return finding(
            "skips-finished",
            f"Request {got!r} is finished or unknown; only an active request can be served.",
            f"请求 {got!r} 已经完成或不存在；只有活跃的请求才能被服务。",
        )
    for rule, rank, text in ORDER:
        if rank(yours) != rank(due):
            return finding(
                rule,
                f"Request {got} was served, but it was request {want}'s turn: {text['en']}.",
                f"服务了请求 {got}，但应该轮到请求 {want}：{text['zh']}。",
                hint=2,
            )
    raise AssertionError("two requests with the same key")
