"""TODO 1: what a step's tokens do to a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# The reason, num_tokens afterwards, and what else is another than before.
TAKE = """
def taken(seq, tokens):
    was = {"tokens": list(tokens)}
    was |= {f"seq.{name}": getattr(seq, name) for name in type(seq).__slots__ if name != "num_tokens"}
    reason = take_tokens(seq, tokens)
    now = {name: getattr(seq, name[4:]) if name.startswith("seq.") else tokens for name in was}
    return [reason, seq.num_tokens, [name for name in was if was[name] != now[name]]]
"""


def check_tokens(student: Student, case: Case) -> Finding | None:
    """One sequence and what ``steps`` brought it, a list of tokens each, up to the one that ends it."""
    prompt, wanted, stops = case["prompt_len"], case["max_new_tokens"], case["stops"]
    request = student.new("Request", 1, 0.0, prompt, wanted, stop_token_ids=tuple(stops))
    seq = student.new("Sequence", request)
    student.load("check", TAKE)
    answer = 0
    for tokens in case["steps"]:
        taken, reason = due(tokens, wanted - answer, stops)
        got, count, changed = items(student.call("taken", seq, tokens), 3)
        before, answer = answer, answer + taken
        typed = f"take_tokens(seq, {tokens!r}), after {before} of {wanted} tokens"
        typed_zh = f"take_tokens(seq, {tokens!r})（上限 {wanted} 个，此前 {before} 个）"
        broken = (
            wrong_reason(got, reason, typed, typed_zh)
            or wrong_count(count, prompt + answer, len(tokens) - taken, typed, typed_zh)
            or something_else(changed, typed, typed_zh)
        )
        if broken or reason:
            return broken
    return None


def due(tokens: list[int], left: int, stops: list[int]) -> tuple[int, str | None]:
    """How many of the tokens count where ``left`` more are allowed, and why the answer ends with them."""
    stop = next((i for i, token in enumerate(tokens, 1) if token in stops), left + 1)
    if stop <= left:
        return stop, "stop"
    return min(len(tokens), left), "length" if len(tokens) >= left else None


def wrong_reason(got: Any, want: str | None, typed: str, typed_zh: str) -> Finding | None:
    """The finding where the answer ends for another reason than ``want``, or at another time."""
    if got == want:
        return None
    if want == "stop" and got == "length":
        return finding(
            "stop-before-length",
            f'{typed}: a stop token on the last allowed place is "stop", not "length".',
            f"{typed_zh}：停止 token 正好落在最后一个允许的位置上，算 “stop”，不算 “length”。",
            hint=2,
        )
    return finding(
        "ends-on-time",
        f"{typed}: must return {want!r}; yours returned {got!r}.",
        f"{typed_zh}：应当返回 {want!r}，你的返回了 {got!r}。",
        hint=2,
    )


def wrong_count(got: Any, want: int, behind: int, typed: str, typed_zh: str) -> Finding | None:
    """The finding where num_tokens is not ``want``; ``behind``: how many tokens came after the end."""
    if got == want:
        return None
    if behind:
        return finding(
            "drops-what-follows",
            f"{typed}: num_tokens must be {want} afterwards, not {got!r}: what comes behind the end does not count.",
            f"{typed_zh}：之后 num_tokens 应当是 {want}，而不是 {got!r}：结束之后的 token 不计数。",
        )
    return finding(
        "counts-each-token",
        f"{typed}: num_tokens must be {want} afterwards, not {got!r}.",
        f"{typed_zh}：之后 num_tokens 应当是 {want}，而不是 {got!r}。",
    )


def something_else(changed: Any, typed: str, typed_zh: str) -> Finding | None:
    """The finding where more than num_tokens is another afterwards."""
    if not changed:
        return None
    return finding(
        "changes-nothing-else",
        f"{typed}: only seq.num_tokens changes; yours changed `{listed(changed)[0]}`, too.",
        f"{typed_zh}：只改 seq.num_tokens；你的还改了 `{listed(changed)[0]}`。",
    )
