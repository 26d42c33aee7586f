"""TODO 4: what the next token is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.common import WATCH, misfit, row, watched
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
    "first-of-equals": both(en="of equally probable tokens the one with the smaller id is kept", zh="概率一样时，留下 id 较小的"),
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
    call = f"distribution(logits, {temperature:g}, {top_p:g})"
    watch = student.apart(WATCH, "distribution")
    reply = watch.call("_named", "distribution", np.array(logits, np.float32), temperature, top_p)
    got, changed = watched(reply, "logits", call)
    if wrong := misfit(got, (len(logits),), call) or changed:
        return wrong
    want = oracle.distribution(np.array(logits, np.float32), temperature, top_p)
    if np.all(np.abs(got.numbers - want) < EXACT):
        return None
    rule = slip(got.numbers, want, case)
    return finding(
        rule,
        f"{call}, logits {row(np.array(logits))}: {SLIPS[rule]['en']}. It must be {few(want)}, not {few(got.numbers)}.",
        f"{call}，logits 是 {row(np.array(logits))}：{SLIPS[rule]['zh']}。应当是 {few(want)}，而不是 {few(got.numbers)}。",
        hint={"greedy": 0, "temperature": 0, "adds-up-to-one": 1, "top-p": 1}.get(rule, 2),
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
    probs = oracle.softmax(logits, temperature)
    kept = oracle.nucleus(probs, top_p)
    chosen = set(np.flatnonzero(got > EXACT).tolist())
    if temperature != 1 and (at_another(got, logits, case) or (top_p >= 1 and len(chosen) < len(kept))):
        return "temperature"
    if chosen != set(kept) and same(np.sort(probs[list(chosen)]), np.sort(probs[kept])):
        return "first-of-equals"
    if same(np.sort(got), np.sort(want)):
        return "in-order-of-ids"
    if chosen == set(kept):
        return "adds-up-to-one" if abs(got.sum() - 1) > EXACT else "top-p"
    if chosen == set(kept[:-1]):
        return "keeps-what-crosses"
    return "as-few-as-reach" if chosen > set(kept) else "top-p"


def at_another(got: np.ndarray, logits: np.ndarray, case: Case) -> bool:
    """Whether temperature was left out, multiplied by, or came behind top-p."""
    temperature, top_p = case["temperature"], case["top_p"]
    probs, plain = oracle.softmax(logits, temperature), oracle.softmax(logits, 1.0)
    times = oracle.softmax(logits, 1 / temperature)
    cuts = [oracle.nucleus(p, top_p) for p in (probs, plain, times)]
    return any(same(got, oracle.only(p, cut)) for p in (plain, times) for cut in cuts) or same(
        got, oracle.only(probs, cuts[1])
    )


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two distributions are the same."""
    return one.shape == other.shape and bool(np.all(np.abs(one - other) < EXACT))
