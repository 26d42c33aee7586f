"""TODOs 3 to 5: what a user waits, percentiles and goodput, each by its definition written out once more."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from decodelab.check.ch02.common import number, probe, same
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

Three = tuple[float | None, float | None, float | None]
NAMES = ("TTFT", "TPOT", "E2E")
RULES = ("ttft-from-arrival", "tpot-per-gap", "e2e-of-complete-answers")


def waits(timing: dict[str, Any]) -> Three:
    """TTFT, TPOT and E2E, the second one gap by gap."""
    times, arrival = timing["token_times"], timing["arrival_time"]
    gaps = [later - sooner for sooner, later in pairwise(times)]
    first = times[0] - arrival if times else None
    complete = bool(times) and timing["reason"] in ("stop", "length")
    return first, sum(gaps) / len(gaps) if gaps else None, max(times) - arrival if complete else None


def check_latencies(student: Student, case: Case) -> Finding | None:
    """The three latencies of every timing in a case."""
    for timing in case["timings"]:
        got, kept = items(probe(student, "waits", ["latencies"], timing), 2)
        want = waits(timing)
        typed = f"latencies({describe(timing)})"
        if not isinstance(got, tuple) or len(got) != 3:
            return finding(
                "returns-three",
                f"{typed} must return a tuple of three, (TTFT, TPOT, E2E); yours returned {got!r:.200}.",
                f"{typed} 必须返回三个值的元组（TTFT，TPOT，E2E）；你返回的是 {got!r:.200}。",
                hint=1,
            )
        for name, rule, came, right in zip(NAMES, RULES, got, want, strict=True):
            if not same(came, right):
                return wrong_wait(timing, name, rule, came, right)
        if not kept:
            return finding(
                "changes-nothing",
                f"{typed} changed the Timing that it was given: others read it, too.",
                f"{typed} 改动了传进来的 Timing：别人还要读它。",
                hint=1,
            )
    return None


def wrong_wait(timing: dict[str, Any], name: str, rule: str, came: Any, right: float | None) -> Finding:
    """The finding where the latency ``name`` is another than ``right``."""
    typed, reason = f"latencies({describe(timing)})", timing["reason"]
    why = why_zh = ""
    if name == "E2E" and right is None and timing["token_times"]:
        why, why_zh = f": reason {reason!r} is not in COMPLETED", f"：reason {reason!r} 不在 COMPLETED 里"
    return finding(
        rule if timing["token_times"] else "none-without-tokens",
        f"{typed}: {name} must be {right!r}, not {came!r:.50}{why}.",
        f"{typed}：{name} 应当是 {right!r}，而不是 {came!r:.50}{why_zh}。",
        hint=2 if timing["token_times"] and name != "E2E" else 1,
    )


def describe(timing: dict[str, Any]) -> str:
    """A timing in a few words."""
    names = ("arrival_time", "scheduled_time", "token_times", "reason")
    return ", ".join(f"{name}={timing[name]!r}" for name in names)


def between(values: list[float], q: float) -> float:
    """The q-th percentile in exact fractions: so far along the n - 1 gaps of the ordered values."""
    ordered = sorted(map(Fraction, values))
    place = Fraction(q) * (len(ordered) - 1) / 100
    total = ordered[0]
    for index, (low, high) in enumerate(pairwise(ordered)):
        total += (high - low) * min(max(place - index, Fraction(0)), Fraction(1))
    return float(total)


PLACES = {
    "ends": both(en="0 is the smallest value, 100 the largest.", zh="0 是最小值，100 是最大值。"),
    "at-a-value": both(en="A whole place is the value there.", zh="位置是整数，就取那里的值。"),
    "between-two-values": both(
        en="Between two places the value lies on the line.", zh="位置在两个值之间，就取连线上的点。"
    ),
    "any-order": both(en="Values come in any order.", zh="值不一定有序。"),
}


def check_percentile(student: Student, case: Case) -> Finding | None:
    """Each q of a case."""
    for q in case["qs"]:
        values, want = case["values"], between(case["values"], q)
        got, kept = items(probe(student, "ranked", ["percentile"], values, q), 2)
        if same(got, want) and not kept:
            return finding(
                "changes-nothing",
                f"percentile({values!r:.200}, {q}) changed the caller's list: `ordered` is a list of your own.",
                f"percentile({values!r:.200}, {q}) 改动了调用者的列表：`ordered` 才是你自己的列表。",
            )
        if same(got, want):
            continue
        place = q / 100 * (len(values) - 1)
        rule = "ends" if q in (0, 100) else "at-a-value" if place == int(place) else "between-two-values"
        if values != sorted(values) and same(student.call("percentile", sorted(values), q), want):
            rule = "any-order"
        typed, text = f"percentile({values!r:.200}, {q})", PLACES[rule]
        return finding(
            rule,
            f"{text['en']} {typed} stands at place {place:g}, so it is {want:.12g}; yours gave {got!r:.50}.",
            f"{text['zh']}{typed} 站在位置 {place:g} 上，所以是 {want:.12g}；你的结果是 {got!r:.50}。",
            hint=2,
        )
    return None


def is_good(timing: dict[str, Any], slo: list[float]) -> bool:
    """Whether a request was complete and kept both limits."""
    first, gap, whole = waits(timing)
    missed = whole is None or (first or 0.0) > slo[0] or (gap or 0.0) > slo[1]
    return not missed


def check_goodput(student: Student, case: Case) -> Finding | None:
    """The goodput of a case's timings; ``slo`` is [ttft, tpot] in seconds."""
    got = probe(student, "good", ["goodput"], case["timings"], case["slo"], case["seconds"])
    verdicts = [is_good(timing, case["slo"]) for timing in case["timings"]]
    want = sum(verdicts) / case["seconds"]
    if number(got) and same(got, want):
        return None
    limits = f"SLO(ttft={case['slo'][0]}, tpot={case['slo'][1]})"
    rows = [
        {"request": number, "good": good, **dict(zip(NAMES, waits(t), strict=True))}
        for number, (t, good) in enumerate(zip(case["timings"], verdicts, strict=True), 1)
    ]
    return finding(
        case["rule"],
        f"{case['text']['en']} With {limits}, {sum(verdicts)} of {len(verdicts)} requests are good in "
        f"{case['seconds']} s, so goodput is {want:.12g}; yours gave {got!r:.50}.",
        f"{case['text']['zh']}承诺为 {limits} 时，{len(verdicts)} 个请求里有 {sum(verdicts)} 个是好的，历时 {case['seconds']} 秒，"
        f"所以 goodput 是 {want:.12g}；你的结果是 {got!r:.50}。",
        hint=2 if case["rule"] in ("one-token", "zero-is-a-time") else 1,
        state=rows,
        label=both(en="The requests", zh="这些请求"),
    )
