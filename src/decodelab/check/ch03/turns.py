"""TODO 7: round robin, turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch03.queues import NOT_HERE, STRANGER, WAITING, added, wrong_kind
from decodelab.check.ch03.spec import timed
from decodelab.check.ch03.things import ids_differ
from decodelab.check.rules import Case, Finding, Record
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

Turns = dict[Any, int]  # id -> tokens left; the next one first


def check_turns(student: Student, case: Case) -> Finding | None:
    """A script of arrivals, cancels and turns; each turn's request and tokens are known beforehand."""
    robin, turns, left = student.new("RoundRobin", case["slice"]), Turns(), dict[Any, str]()
    student.context = lambda: table(turns)
    if not ids_differ(added(case)):
        return None
    for order, argument, now in timed(case["script"]):
        if order == "add":
            robin.call("add", student.new("Request", **argument), now)
            turns[argument["request_id"]] = argument["max_new_tokens"]
        elif order == "cancel":
            robin.call("cancel", argument)
            left |= {argument: "cancelled"} if turns.pop(argument, 0) else {}
        else:
            before = table(turns)
            if broken := wrong_turn(robin.call("turn", now), turns, left, case["slice"], now):
                broken.state, broken.label, broken.call = before, WAITING, f"robin.turn(now={now})"
                return broken
    return None


def table(turns: Turns) -> list[dict[str, Any]]:
    """Who waits, the next one first."""
    return [{"request_id": i, "tokens_left": n} for i, n in turns.items()]


def wrong_turn(got: Any, turns: Turns, left: dict[Any, str], most: int, now: float) -> Finding | None:
    """The rule that a turn breaks; where it breaks none, ``turns`` is moved on."""
    due = next(iter(turns), None)
    pair = got if isinstance(got, tuple | list) and len(got) == 2 else (got, None)
    request, tokens = pair
    if broken := wrong_kind(request, due, f"turn(now={now})"):
        return broken
    if due is None:
        return None if request is None else not_here(request, left)
    served = request.fields["request_id"] if isinstance(request, Record) else None
    if served not in turns:
        return not_here(request, left)
    if served != due:
        return finding(
            "in-turn",
            f"It is request {due}'s turn, not {served}'s: who has had a slice goes to the end of the line.",
            f"轮到的是请求 {due}，不是 {served}：用完一个时间片的，要排到队尾去。",
            hint=2,
        )
    want = min(most, turns[due])
    if tokens != want or type(tokens) is not int:
        return wrong_tokens(tokens, want, most, due)
    rest = turns.pop(due) - want
    turns |= {due: rest} if rest else {}
    left |= {} if rest else {due: "served"}
    return None


def not_here(request: Any, left: dict[Any, str]) -> Finding:
    """A turn for somebody who does not wait."""
    served = request.fields["request_id"] if isinstance(request, Record) else request
    rule, en, zh = NOT_HERE.get(left.get(served, ""), STRANGER)
    if left.get(served) == "served":
        asked = request.fields["max_new_tokens"]
        en, zh = f"which has had its {tokens_en(asked)} already", f"而它的 {asked} 个 token 已经全给了"
    return finding(
        rule,
        f"turn() gave a turn to request {served}, {en}.",
        f"turn() 把这一轮给了请求 {served}，{zh}。",
        hint=2,
    )


def tokens_en(number: int) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{number} token{'s' * (number != 1)}"


def wrong_tokens(tokens: Any, want: int, most: int, due: Any) -> Finding:
    """The right request, another number of tokens."""
    rule = "slice-bound" if isinstance(tokens, int) and tokens > most else "tokens-conserved"
    return finding(
        rule,
        f"Request {due} gets {tokens_en(want)} in this turn: a slice of {most}, or what it still lacks; "
        f"yours gave {tokens!r}.",
        f"请求 {due} 这一轮应当得到 {want} 个 token：一个时间片是 {most} 个，剩得不够就给剩下的；你给的是 {tokens!r}。",
        hint=2,
    )
