"""TODOs 2 to 4: an engine over a toy scheduler, a toy executor and a toy tokenizer, all of the check's own.

A case is a script of what users do. After each line the runner tells what the toys were asked and what the engine shows;
both are compared with ``ideal.Ideal``, which shares nothing with the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch10.ideal import Ideal, Moment, sensible, vocabulary
from decodelab.check.ch10.toys import TOYS
from decodelab.check.ch10.words import WORDS, evidence
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_engine(student: Student, case: Case) -> Finding | None:
    """The whole script at once; then line by line."""
    if not sensible(case):
        return None
    pieces, requests = vocabulary(case)
    given = {"refuses": [], "drops": [], "chunk": 99, "at_once": 1, "fallback": False}
    options = [case.get(name, usual) for name, usual in given.items()]
    probe = student.apart(TOYS, "Engine")
    replies = probe.call("play", case["ops"], requests, [piece.hex() for piece in pieces], *options)
    ideal = Ideal(case)
    for number, op in enumerate(case["ops"]):
        want = ideal.after(op)
        if isinstance(replies, list) and len(replies) == number:
            probe.call("raise_it")
        got = moment(replies[number]) if isinstance(replies, list) and len(replies) > number else None
        if got is None:
            return finding("plays", *WORDS["plays"][1:], hint=0)
        if rule := broken(op, want, got):
            return told(case, number, op, want, got, rule)
    return None


CALLS = {"add": 3, "begin": 2, "execute": 2, "update": 3}  # how long each kind in the log is


def moment(reply: Any) -> Moment | None:
    """A line's reply as a Moment; None where it is none."""
    if not isinstance(reply, list) or len(reply) != 10:
        return None
    got = Moment(*reply)
    well = type(got.steps) is int and isinstance(got.log, list) and isinstance(got.outputs, dict)
    if not well or not all(isinstance(call, list) and call for call in got.log):
        return None
    calls = all(isinstance(c[0], str) and CALLS.get(c[0]) == len(c) for c in got.log)
    outputs = all(isinstance(o, list) and len(o) == 3 for o in got.outputs.values())
    lists = all(names(x) for x in (got.active, got.held, got.kept, got.arrived, got.aborted))
    return got if calls and outputs and lists else None


def names(value: Any) -> bool:
    """Whether a value is a list of ids."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def broken(op: list[Any], want: Moment, got: Moment) -> str:
    """The rule that a line breaks first; "" for none."""
    if got.told == "endless":
        return "stream-ends" if op[0] == "read" else "engine-rests"
    return {"submit": at_the_door, "step": at_a_step, "read": at_a_stream}.get(op[0], elsewhere)(want, got)


def at_the_door(want: Moment, got: Moment) -> str:
    if isinstance(want.told, str):
        if got.told != want.told:
            return "refusal-goes-through"
        return "" if state(got) == state(want) else "refused-leaves-no-trace"
    if got.told is not None:
        return "takes-in-good-requests"
    for name in ("add", "begin"):
        if sum(call[0] == name for call in got.log) != 1:
            return "told-once"
    if [call[2] for call in got.log if call[0] == "add"] != want.log:
        return "told-the-time"
    if got.outputs != want.outputs:
        return "has-an-output"
    if got.asked != want.asked:
        return "knows-its-stop-strings"
    if set(got.active) != set(want.active):
        return "is-active"
    return "" if got.arrived == want.arrived else "arrival-is-noted"


def at_a_step(want: Moment, got: Moment) -> str:
    if want.told is None or got.told is None:
        return "" if want.told is got.told else "engine-rests"
    if not isinstance(got.told, list) or len(got.told) != 4:
        return "plays"
    if got.told[0] != want.told[0]:
        return "arrival-is-noted"
    if got.told[3] != want.told[3]:
        return "aborted-by-users-only"
    return served(want, got) or noted(want, got) or elsewhere(want, got)


def served(want: Moment, got: Moment) -> str:
    """Whether executor and scheduler were asked once each, and told the truth."""
    for name in ("execute", "update"):
        if sum(call[0] == name for call in got.log) != want.steps:
            return f"{name}s-once"
    updates = [call[1:] for call in got.log if call[0] == "update"]
    if [tokens for tokens, _ in updates] != [tokens for tokens, _ in want.log]:
        return "update-gets-the-tokens"
    return "" if updates == want.log else "time-passes"


def noted(want: Moment, got: Moment) -> str:
    """Whether the step itself says what happened."""
    if got.told[1] != want.told[1]:
        return "step-keeps-the-tokens"
    if got.told[2] == want.told[2]:
        return ""
    cut = [i for i, reason in want.told[2].items() if reason == "stop" and want.told[1][i][-1] != 0]
    missed = isinstance(got.told[2], dict) and any(got.told[2].get(i) != "stop" for i in cut)
    return "stop-string-ends" if missed else "step-says-who-ended"


def elsewhere(want: Moment, got: Moment) -> str:
    """Outputs, and what everybody keeps."""
    for request_id, (ids, text, reason) in want.outputs.items():
        mine = got.outputs.get(request_id)
        if not isinstance(mine, list):
            return "has-an-output"
        if mine[0] != ids:
            return "every-token-once"
        if mine[1] != text:
            return text_rule(mine[1], text, reason)
        if mine[2] != reason:
            return "says-why"
    if set(got.active) != set(want.active):
        return "ends-who-is-over"
    if got.aborted != want.aborted:
        return "aborted-by-users-only"
    if set(got.held) != set(want.held):
        return "blocks-come-back"
    return "" if set(got.kept) == set(want.kept) else "executor-forgets"


def text_rule(got: Any, want: str, reason: str | None) -> str:
    """The rule that a text breaks."""
    if not isinstance(got, str) or "\ufffd" in got:
        return "whole-characters"
    if got.startswith(want):
        return "stop-string-is-hidden" if reason == "stop" else "holds-back"
    return "shows-the-rest" if reason else "shows-what-is-safe"


def at_a_stream(want: Moment, got: Moment) -> str:
    pieces, over = got.told if isinstance(got.told, list) and len(got.told) == 2 else (None, None)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        return "stream-gives-text"
    if "" in pieces:
        return "no-empty-piece"
    due, came = "".join(want.told[0]), "".join(pieces)
    if due and came and not came.startswith(due) and not due.startswith(came):
        return "stream-gives-what-is-new"
    if got.steps > want.steps:
        return "gives-before-it-steps" if want.told[0] else "stream-ends"
    if came != due:
        return "stream-gives-what-is-new"
    if over is not want.told[1]:
        return "stream-ends" if want.told[1] else "stream-goes-on"
    return elsewhere(want, got)


def state(moment: Moment) -> list[Any]:
    """What must not change when a request is refused."""
    return [
        moment.arrived,
        moment.outputs,
        sorted(map(str, moment.active)),
        sorted(map(str, moment.held)),
        sorted(map(str, moment.kept)),
    ]


LABEL = both(
    en="What each request has by then (✓ due, ✗ yours)", zh="这时每个请求得到了什么（✓ 应有的，✗ 你的）"
)


def told(case: Case, number: int, op: list[Any], want: Moment, got: Moment, rule: str) -> Finding:
    """The finding, with the line of the script and the outputs at that moment."""
    rows = []
    for request_id in want.outputs:
        mine = got.outputs.get(request_id, ["·", "·", "·"])
        row: dict[str, Any] = {"request_id": request_id}
        for name, due, came in zip(
            ("tokens", "text", "reason"), want.outputs[request_id], mine, strict=False
        ):
            say = repr if name == "text" else str
            row[f"{name} ✓"], row[f"{name} ✗"] = say(due), say(came)[:60]
        rows.append(row)
    hint, en, zh = WORDS[rule]
    line = " ".join(map(str, op))
    due, came = evidence(rule, want, got)
    return finding(
        rule,
        f"Line {number + 1}, {line}: {en}{due and f' Due: {due}; yours: {came}.'}",
        f"第 {number + 1} 行，{line}：{zh}{due and f'应当是 {due}，你的是 {came}。'}",
        hint=hint,
        state=rows,
        label=LABEL,
    )
