"""TODOs 6 to 8: how a step is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# Rows are [request_id, num_tokens, num_computed_tokens]. A step of n tokens takes base + each * n seconds.
ASK = """
def order_of(config, first, rows, newcomers):
    scheduler = SharedScheduler(config, FCFS(), first)
    sequences = []
    for request_id, num_tokens, computed in [*rows, *newcomers]:
        sequences.append(Sequence(Request(request_id, 0.0, 1, 10**9)))
        sequences[-1].num_tokens, sequences[-1].num_computed_tokens = num_tokens, computed
    running, coming = sequences[: len(rows)], sequences[len(rows) :]
    ordered = [seq.request_id for seq in scheduler.serving_order(running, coming)]
    return ordered, running + coming == sequences


def quotas_of(config, share, pace, base, each, decodes):
    scheduler = SharedScheduler(config, FCFS(), share=share, pace=pace, seconds=lambda n: base + each * n)
    return [scheduler.prefill_quota(n) for n in decodes]


def gates_of(config, low, high, pressures):
    scheduler = SharedScheduler(config, FCFS(), low=low, high=high)
    return [(scheduler.gate(pressure), scheduler.suspended) for pressure in pressures]
"""


def two(value: Any) -> tuple[Any, Any]:
    """A pair that came back, whatever did."""
    return (value[0], value[1]) if isinstance(value, tuple) and len(value) == 2 else (value, None)


def check_order(student: Student, case: Case) -> Finding | None:
    """Who takes from the budget first."""
    student.load("check", PRELUDE + ASK)
    config = student.new("SchedulerConfig", **case["config"])
    rows, coming, first = case["running"], case["newcomers"], case["first"]
    got, unchanged = two(student.call("order_of", config, first, rows, coming))
    decodes = [row[0] for row in rows if row[1] - row[2] == 1]
    prefills = [row[0] for row in rows if row[1] - row[2] > 1]
    new = [row[0] for row in coming]
    orders = {
        "decode": [*decodes, *prefills, *new],
        "prefill": [*prefills, *new, *decodes],
        "admission": [*(row[0] for row in rows), *new],
    }
    if got != orders[first]:
        everybody = sorted(map(str, listed(got))) == sorted(map(str, orders[first]))
        rule = f"{first}-first" if everybody else "everybody-once"
        return finding(
            rule,
            f'first="{first}": the order must be {orders[first]}, not {got}; decodes {decodes}, prefills {prefills}, '
            f"newcomers {new}.",
            f'first="{first}"：次序应当是 {orders[first]}，而不是 {got}；decode {decodes}，prefill {prefills}，新来的 {new}。',
            hint=2,
        )
    if not unchanged:
        return finding(
            "only-looks",
            "serving_order changed the lists that it was given; it returns a new one.",
            "serving_order 改动了传给它的列表；它应当返回一个新列表。",
        )
    return None


def check_quota(student: Student, case: Case) -> Finding | None:
    """What prompts may take of a step."""
    student.load("check", PRELUDE + ASK)
    config = student.new("SchedulerConfig", **case["config"])
    knobs = [case[name] for name in ("share", "pace", "base", "each", "decodes")]
    answers = listed(student.call("quotas_of", config, *knobs))
    for decodes, got in zip(case["decodes"], answers, strict=False):
        want = quota(case, decodes)
        if type(got) is not int or got != want:
            return wrong_quota(case, decodes, got, want)
    return None


def quota(case: Case, decodes: int) -> int:
    """The quota by the text of the TODO: counted down from the share."""
    budget = case["config"]["max_num_batched_tokens"]
    if not decodes:
        return int(budget)
    found = int(case["share"] * budget)
    while case["pace"] and found > 0 and case["base"] + case["each"] * (decodes + found) > 1 / case["pace"]:
        found -= 1
    return max(found, 1)


def wrong_quota(case: Case, decodes: int, got: Any, want: int) -> Finding:
    """The finding where prompts may take another number of tokens than ``want``."""
    budget = case["config"]["max_num_batched_tokens"]
    share = int(case["share"] * budget)
    if type(got) is not int:
        rule, en, zh = "a-number-of-tokens", "it must return an int", "应当返回整数"
    elif not decodes:
        rule, en, zh = (
            "all-when-nobody-decodes",
            "nobody decodes, so all of the budget",
            "没有人在 decode，就是全部预算",
        )
    elif got < 1:
        rule, en, zh = "at-least-one-token", "never less than one token", "不会少于一个 token"
    elif got > max(share, 1):
        rule, en, zh = "keeps-the-share", f"the share is {share}", f"份额是 {share}"
    elif got > want:
        rule, en, zh = "keeps-the-pace", "with more, the step takes too long", "再多，这一步就超时了"
    else:
        rule, en, zh = "uses-its-share", "there is room for more", "还可以更多"
    given = f"decodes={decodes}, share={case['share']}, pace={case['pace']}, budget={budget}"
    return finding(
        rule,
        f"prefill_quota with {given}, where a step of n tokens takes {case['base']} + {case['each']} n seconds, "
        f"must be {want}, not {got!r}: {en}.",
        f"prefill_quota（{given}；n 个 token 的一步要 {case['base']} + {case['each']} n 秒）应当是 {want}，"
        f"而不是 {got!r}：{zh}。",
        hint=2,
    )


def check_gate(student: Student, case: Case) -> Finding | None:
    """When long prefills pause, and when they go on."""
    student.load("check", PRELUDE + ASK)
    config = student.new("SchedulerConfig", **case["config"])
    answers = listed(student.call("gates_of", config, case["low"], case["high"], case["pressures"]))
    closed = False
    for pressure, answer in zip(case["pressures"], answers, strict=False):
        got, kept = two(answer)
        want = pressure > case["low"] if closed else pressure >= case["high"]
        if got is not want or kept is not want:
            return wrong_gate(case, pressure, closed, want, got, kept)
        closed = want
    return None


def wrong_gate(case: Case, pressure: int, closed: bool, want: bool, got: Any, kept: Any) -> Finding:
    """The finding where the gate is not as it must be."""
    if got is want:
        rule, en, zh = "keeps-its-state", f"self.suspended is {kept!r}", f"self.suspended 却是 {kept!r}"
    elif type(got) is not bool:
        rule, en, zh = "yes-or-no", f"yours returned {got!r}", f"你返回的是 {got!r}"
    elif closed and not want:
        rule, en, zh = "resumes-at-low", "yours stays closed", "你的还关着"
    elif closed:
        rule, en, zh = "stays-closed-above-low", "yours has opened", "你的已经打开"
    elif want:
        rule, en, zh = "closes-at-high", "yours stays open", "你的还开着"
    else:
        rule, en, zh = "stays-open-below-high", "yours has closed", "你的已经关上"
    was, was_zh = ("closed", "关着") if closed else ("open", "开着")
    return finding(
        rule,
        f"low {case['low']}, high {case['high']}; the gate is {was} and the pressure {pressure}: gate must return "
        f"{want}; {en}.",
        f"low {case['low']}，high {case['high']}；闸门{was_zh}，压力是 {pressure}：gate 应当返回 {want}；{zh}。",
        hint=2,
    )
