"""TODO 4: what the next token is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.common import misfit, row
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

EXACT = 1e-5  # of a probability
SLIPS: dict[str, Text] = {
    "greedy": both(en="at temperature 0 the largest logit, the first of equal ones, has probability 1", zh="温度为 0 时，最大的 logit（相等时取第一个）概率为 1"),
    "temperature": both(en="logits are divided by the temperature before the softmax", zh="softmax 之前，logits 要除以温度"),
    "keeps-what-crosses": both(en="the token with which the sum reaches top_p is kept, too", zh="让总和达到 top_p 的那个 token 也要留下"),
    "as-few-as-reach": both(en="once the sum has reached top_p, no further token is kept", zh="总和一旦达到 top_p，后面的 token 就不再保留"),
    "adds-up-to-one": both(en="what is kept must add up to 1 again", zh="留下来的概率加起来要重新等于 1"),
    "in-order-of-ids": both(en="the result is in order of token ids, not of probability", zh="结果按 token id 排列，不是按概率"),
    "top-p": both(en="as few of the most probable tokens are kept as reach top_p together", zh="从概率最大的开始留，够到 top_p 就停"),
}  # fmt: skip


def check_distribution(student: Student, case: Case) -> Finding | None:
    """One call; the numbers are few, so both results are shown whole."""
    logits, temperature, top_p = case["logits"], case["temperature"], case["top_p"]
    if not logits:
        return None
    got = student.call("distribution", np.array(logits, np.float32), temperature, top_p)
    call = f"distribution(logits, {temperature:g}, {top_p:g})"
    if wrong := misfit(got, (len(logits),), call):
        return wrong
    want = oracle.distribution(np.array(logits, np.float32), temperature, top_p)
    if np.all(np.abs(got.numbers - want) < EXACT):
        return None
    rule = slip(got.numbers, want, case)
    return finding(
        rule,
        f"{call}, logits {row(np.array(logits))}: {SLIPS[rule]['en']}. It must be {few(want)}, not {few(got.numbers)}.",
        f"{call}，logits 是 {row(np.array(logits))}：{SLIPS[rule]['zh']}。应当是 {few(want)}，而不是 {few(got.numbers)}。",
        hint=2,
        call=call,
    )


def few(probs: np.ndarray) -> str:
    """The tokens that can be drawn, with their probabilities."""
    some = [f"{i}: {p:.3f}" for i, p in enumerate(probs) if not abs(p) < EXACT]
    return f"{{{', '.join(some[:6])}{', …' if len(some) > 6 else ''}}}"


def slip(got: np.ndarray, want: np.ndarray, case: Case) -> str:
    """The rule that an answer breaks."""
    logits, temperature, top_p = np.array(case["logits"], np.float32), case["temperature"], case["top_p"]
    if temperature == 0:
        return "greedy"
    probs, plain = oracle.softmax(logits, temperature), oracle.softmax(logits, 1.0)
    kept = oracle.nucleus(probs, top_p)
    if temperature != 1 and any(
        same(got, oracle.only(plain, k)) for k in (kept, oracle.nucleus(plain, top_p))
    ):
        return "temperature"
    if same(got, np.sort(want)[::-1]):
        return "in-order-of-ids"
    chosen = set(np.flatnonzero(got > EXACT).tolist())
    if chosen == set(kept):
        return "adds-up-to-one" if abs(got.sum() - 1) > EXACT else "top-p"
    if chosen == set(kept[:-1]):
        return "keeps-what-crosses"
    return "as-few-as-reach" if chosen > set(kept) else "top-p"


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two distributions are the same."""
    return bool(np.all(np.abs(one - other) < EXACT))
