"""TODOs 3 to 5: what a user waits, percentiles and goodput, each by its definition written out once more."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from decodelab.check.ch02.common import number, probe, same
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
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
        got, want = probe(student, "waits", ["latencies"], timing), waits(timing)
        typed = f"latencies({describe(timing)})"
        if not isinstance(got, tuple) or len(got) != 3:
            return finding(
                "returns-three",
                f"{typed} must return three values, (TTFT, TPOT, E2E); yours returned {got!r:.200}.",
                f"{typed} 必须返回三个值（TTFT，TPOT，E2E）；你返回的是 {got!r:.200}。",
                hint=1,
            )
        for name, rule, came, right in zip(NAMES, RULES, got, want, strict=True):
            if not same(came, right):
                which = "none-without-tokens" if not timing["token_times"] else rule
                return finding(
                    which,
                    f"{typed}: {name} must be {right!r}, not {came!r:.50}.",
                    f"{typed}：{name} 应当是 {right!r}，而不是 {came!r:.50}。",
                    hint=2,
                )
    return None


def describe(timing: dict[str, Any]) -> str:
    """A timing in a few words."""
    return f"arrival_time={timing['arrival_time']}, token_times={timing['token_times']}, reason={timing['reason']!r}"


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
        got = student.call("percentile", values, q)
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
    rows = [
        {"request_id": t["request_id"], "good": good, **dict(zip(NAMES, waits(t), strict=True))}
        for t, good in zip(case["timings"], verdicts, strict=True)
    ]
    return finding(
        case["rule"],
        f"{case['text']['en']} With limits {case['slo']} s, {sum(verdicts)} of {len(verdicts)} requests are good in "
        f"{case['seconds']} s, so goodput is {want:.12g}; yours gave {got!r:.50}.",
        f"{case['text']['zh']}限度为 {case['slo']} 秒时，{len(verdicts)} 个请求里有 {sum(verdicts)} 个是好的，历时 {case['seconds']} 秒，"
        f"所以 goodput 是 {want:.12g}；你的结果是 {got!r:.50}。",
        hint=2,
        state=rows,
        label=both(en="The requests", zh="这些请求"),
    )
