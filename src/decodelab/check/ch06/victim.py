"""TODO 3: who is thrown out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# Answers the victim's place in ``running``, -1 where it is none of them.
ASK = """
def place_of_victim(policy, now, rows):
    running = [Sequence(Request(*row[:2], 1, 1, row[2])) for row in rows]
    before = list(running)
    victim = choose_victim(running, policy, now)
    return next((n for n, seq in enumerate(before) if seq is victim), -1), running == before
"""


def keys(policy: str, now: float, rows: list[list[Any]]) -> list[Any]:
    """The key of each [request_id, arrival_time, priority], by the policies of PRELUDE."""
    made = {
        "FCFS": lambda i, arrival, priority: (arrival, i),
        "PriorityOrder": lambda i, arrival, priority: (-priority, arrival, i),
        "Classes": lambda i, arrival, priority: -priority,
        "Impatience": lambda i, arrival, priority: -(priority + (now - arrival) ** 2),
    }
    return [made[policy](*row) for row in rows]


def check_victim(student: Student, case: Case) -> Finding | None:
    """The largest key, the first of equal ones; the list stays as it is."""
    student.load("check", PRELUDE + ASK)
    rows, policy, now = case["running"], case["policy"], case["now"]
    if not rows:
        return None  # shrunk to nobody
    got, unchanged = student.call("place_of_victim", student.new(policy), now, rows)
    found = keys(policy, now, rows)
    want = found.index(max(found))
    if got != want:
        return wrong_victim(got, want, rows, policy, now, found)
    if not unchanged:
        return finding(
            "only-looks",
            "choose_victim changed the list of who runs; it only names one of them.",
            "choose_victim 改动了正在运行的列表；它只要指出其中一个。",
        )
    return None


def wrong_victim(
    got: int, want: int, rows: list[list[Any]], policy: str, now: float, found: list[Any]
) -> Finding:
    """The finding where another one than ``rows[want]`` was chosen."""
    ids, due = [row[0] for row in rows], rows[want][0]
    who = f"running: {ids}, keys of {policy}() at now={now:g}: {found}"
    who_zh = f"在运行的：{ids}，{policy}() 在 now={now:g} 时给出的键：{found}"
    if got < 0:
        return finding(
            "one-of-the-running",
            f"{who}. choose_victim must return one of these sequences: that of request {due}.",
            f"{who_zh}。choose_victim 应当返回其中一个 Sequence：请求 {due} 的那个。",
            hint=0,
        )
    ties = found[got] == found[want]
    en = "of equal keys the one that was admitted first" if ties else "the largest key"
    zh = "键相同时，先放进来的那个" if ties else "键最大的那个"
    return finding(
        "first-of-equal-ones" if ties else "largest-key",
        f"{who}. The victim is {en}: request {due}, not {ids[got]}.",
        f"{who_zh}。被抢占的是{zh}：请求 {due}，而不是 {ids[got]}。",
        hint=2,
    )
