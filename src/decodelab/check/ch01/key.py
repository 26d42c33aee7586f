"""TODO 2: the key, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch01.spec import NEW, ORDER
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import called, finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_key(student: Student, case: Case) -> Finding | None:
    """``_schedule_key`` of every request in the case, asked twice, the request looked at before and after."""
    sim, asked = student.later_new("DecodeSchedulerSim"), []
    for request in case["states"]:
        state = student.later_new("RequestState", **request)
        before = state.later_get("")
        keys = [sim.later("_schedule_key", state) for _ in range(2)]
        asked.append((request, state.made, before, *keys, state.later_get("")))
    sim.made()
    for request, made, *replies in asked:
        made()
        if broken := wrong_key(request, *(reply() for reply in replies)):
            return broken
    return None


def wrong_key(request: dict[str, Any], before: Any, got: Any, again: Any, after: Any) -> Finding | None:
    """What is wrong with the key ``got`` of a request that was ``before`` and is ``after``, asked ``again``."""
    want, typed = tuple(rank(NEW | request) for _, rank, _ in ORDER), called("RequestState", request)
    if (got, before) != (again, after):
        return finding(
            "key-changes-nothing",
            f"_schedule_key only looks: asked twice for {typed}, it answered {got!r}, then {again!r}, "
            "or it changed the request.",
            f"_schedule_key 只看不改：对 {typed} 问两次，先得到 {got!r}，后得到 {again!r}，或者请求被改动了。",
            call=typed,
            hint=0,
        )
    if got == want and type(got) is tuple:
        return None
    if not isinstance(got, tuple) or len(got) != len(want):
        return finding(
            "key-shape",
            f"_schedule_key must return a tuple of {len(want)} fields; for {typed} it returned {got!r}.",
            f"_schedule_key 必须返回有 {len(want)} 个字段的 tuple；对 {typed} 它返回了 {got!r}。",
        )
    place = next(i for i in range(len(want)) if got[i] != want[i])
    rule, _, text = ORDER[place]
    return finding(
        rule,
        f"For {typed} field {place + 1} of the key is {got[place]!r}; it must be {want[place]!r}: "
        f"{text['en']}.",
        f"对 {typed}，键的第 {place + 1} 个字段是 {got[place]!r}，应当是 {want[place]!r}：{text['zh']}。",
        hint=2,
    )
