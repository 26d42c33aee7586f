"""TODO 1: how many tokens come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

ASK = """
def chunks_of(config, num_tokens, asked):
    answers = []
    for computed, budget, active in asked:
        seq = Sequence(Request(1, 0.0, 1, 10**9))
        seq.num_tokens, seq.num_computed_tokens = num_tokens, computed
        answers.append(next_chunk(seq, budget, active, config))
        if (seq.num_tokens, seq.num_computed_tokens) != (num_tokens, computed):
            answers[-1] = "changed"
    return answers
"""


def check_chunk(student: Student, case: Case) -> Finding | None:
    """``asked``: [tokens computed so far, budget left, requests that run or wait], of a request of ``num_tokens``."""
    student.load("check", PRELUDE + ASK)
    config = student.new("SchedulerConfig", **case["config"])
    answers = listed(student.call("chunks_of", config, case["num_tokens"], case["asked"]))
    for asked, got in zip(case["asked"], answers, strict=False):
        want = due(case, *asked)
        if type(got) is not int or got != want:
            return wrong_chunk(case, asked, got, want)
    return None


def due(case: Case, computed: int, budget: int, active: int) -> int:
    """The chunk by the text of the TODO."""
    left, cap = case["num_tokens"] - computed, case["config"].get("long_prefill_token_threshold", 0)
    capped = min(left, cap) if cap and active > 1 else left
    if capped > budget and not case["config"].get("enable_chunked_prefill", True):
        return 0
    return min(capped, budget)


def wrong_chunk(case: Case, asked: list[int], got: Any, want: int) -> Finding:
    """The finding where a chunk is another one than ``want``."""
    computed, budget, active = asked
    left, cap = case["num_tokens"] - computed, case["config"].get("long_prefill_token_threshold", 0)
    whole = not case["config"].get("enable_chunked_prefill", True)
    if got == "changed":
        rule, en, zh = "only-looks", "it must change nothing", "它什么都不能改"
    elif type(got) is not int:
        rule, en, zh = "a-number-of-tokens", "it must return an int", "应当返回整数"
    elif got < 0:
        rule, en, zh = "never-negative", "a chunk is never negative", "分块不会是负数"
    elif whole and want == 0:
        rule, en, zh = "whole-prompts", "what does not fit is not cut", "放不下的不许切开"
    elif got > budget:
        rule, en, zh = "token-budget", "never more than the budget", "绝不超过预算"
    elif got > left:
        rule, en, zh = "no-more-than-it-has", "it has no more to compute", "没有那么多要算"
    elif cap and active > 1 and got > cap:
        rule, en, zh = "long-prefill-cap", "others are there, so the cap holds", "还有别的请求，上限有效"
    elif cap and active == 1 and got < want:
        rule, en, zh = (
            "no-cap-when-alone",
            "nobody else is there, so there is no cap",
            "没有别的请求，不设上限",
        )
    else:
        rule, en, zh = (
            "how-many-tokens",
            "that is what is left, cap and budget kept",
            "剩下的就是这么多，不超过上限和预算",
        )
    given = (
        f"num_tokens={case['num_tokens']}, num_computed_tokens={computed}, budget={budget}, active={active}"
    )
    knobs = ", ".join(f"{name}={value}" for name, value in case["config"].items())
    return finding(
        rule,
        f"next_chunk with {given} ({knobs or 'default config'}) must be {want}, not {got!r}: {en}.",
        f"next_chunk（{given}；{knobs or '默认配置'}）应当是 {want}，而不是 {got!r}：{zh}。",
        hint=2,
    )
