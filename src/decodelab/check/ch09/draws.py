"""TODO 5: a token for each request, from its own row, by its own settings, with its own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.common import row
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items

if TYPE_CHECKING:
    from decodelab.grading.student import Student

DRAW = """
import torch

def generators(temperatures, seeds):
    return [None if t == 0 and seed is None else torch.Generator().manual_seed(seed) for t, seed in zip(temperatures, seeds)]

def after(made):
    return [None if g is None else torch.rand((), generator=g, dtype=torch.float64).item() for g in made]

def together(logits, temperatures, top_ps, seeds, around):
    torch.manual_seed(around)
    given = {"logits": logits, "temperatures": temperatures, "top_ps": top_ps, "generators": generators(temperatures, seeds)}
    before = {name: x.clone() if name == "logits" else list(x) for name, x in given.items()}
    tokens = sample_batch(*given.values())
    same = [torch.equal(logits, before["logits"]), *(given[name] == before[name] for name in list(given)[1:])]
    return tokens, after(before["generators"]), [name for name, kept in zip(given, same) if not kept]

def one_by_one(logits, temperatures, top_ps, seeds):
    made = generators(temperatures, seeds)
    return [sample(*one) for one in zip(logits, temperatures, top_ps, made)], after(made)
"""


def rows_of(case: Case) -> np.ndarray:
    """The logits: as given, or drawn from the seed."""
    if "logits" in case:
        return np.array(case["logits"], np.float32)
    rng = np.random.RandomState(case["seed"])
    return (2 * rng.standard_normal((len(case["rows"]), case["vocab"]))).astype(np.float32)


def check_sample(student: Student, case: Case) -> Finding | None:
    """One batch, then each of its rows alone, and what chapter 8's ``sample`` makes of them."""
    rows = case["rows"]
    if not rows or ("logits" in case and len(case["logits"]) != len(rows)):
        return None
    logits, settings = rows_of(case), [list(column) for column in zip(*rows, strict=True)]
    probe = student.apart(DRAW, "sample_batch", "sample")
    batch = [probe.later("together", logits, *settings, around) for around in (1, 2)]
    alone = [probe.later("together", logits[[i]], *([x] for x in one), 1) for i, one in enumerate(rows)]
    due = probe.later("one_by_one", logits, *settings)
    got, moved, touched = items(batch[0](), 3)
    call = f"sample_batch(logits, {settings[0]}, {settings[1]}, generators)"
    if not isinstance(got, list) or len(got) != len(rows) or any(type(token) is not int for token in got):
        return finding("token-ids", f"{call} must return a list of {len(rows)} token ids, plain ints; yours returned {got!r:.100}.",
                       f"{call} 应当返回 {len(rows)} 个 token id 的列表（普通的 int）；你的返回了 {got!r:.100}。", hint=0, call=call)  # fmt: skip
    if touched != []:
        name = touched[0] if isinstance(touched, list) else "logits"
        return finding("leaves-its-arguments", f"{call}: {name} belong to the caller and must stay as they are; yours changed them in place.",
                       f"{call}：{name} 是调用者的，不能改；你的代码就地改动了它。", hint=0, call=call)  # fmt: skip
    wrong = next((w for i, one in enumerate(rows) if (w := one_row(call, i, logits[i], one, got[i]))), None)
    if wrong:
        return wrong
    if items(batch[1](), 3)[0] != got:
        return finding("its-own-generator", f"{call}: what torch's global generator holds must not matter; row i draws with generators[i].",
                       f"{call}：torch 全局生成器的状态不应有任何影响；第 i 行用 generators[i] 来抽。", hint=0, call=call)  # fmt: skip
    by_itself = [items(items(reply(), 3)[0], 1)[0] for reply in alone]
    if by_itself != got:
        i = next(i for i, (a, b) in enumerate(zip(by_itself, got, strict=True)) if a != b)
        return finding("whoever-else-is-there", f"{call}: row {i} alone gives token {by_itself[i]}, in the batch {got[i]}; a request must not notice the others.",
                       f"{call}：第 {i} 行单独抽得到 token {by_itself[i]}，在批里却得到 {got[i]}；别的请求在不在，都不应有影响。", hint=2, call=call)  # fmt: skip
    return as_sample(call, rows, got, moved, *items(due(), 2))


def one_row(call: str, i: int, logits: np.ndarray, settings: list[Any], token: int) -> Finding | None:
    """A token that its row's own settings allow."""
    temperature, top_p, _ = settings
    probs = oracle.distribution(logits, temperature, top_p)
    if 0 <= token < len(logits) and probs[token] > 0:
        return None
    if temperature == 0:
        return finding("greedy-rows", f"{call}: row {i} has temperature 0, so its token is that of the largest logit, {int(probs.argmax())}, not {token}.",
                       f"{call}：第 {i} 行温度为 0，应当取 logit 最大的 token {int(probs.argmax())}，而不是 {token}。", hint=1, call=call)  # fmt: skip
    kept = np.flatnonzero(probs).tolist()
    return finding("its-own-settings", f"{call}: row {i}, logits {row(logits)}, has temperature {temperature:g} and top_p {top_p:g}, so its token is one of {kept[:9]}, not {token}.",
                   f"{call}：第 {i} 行的 logits 是 {row(logits)}，温度 {temperature:g}、top_p {top_p:g}，所以 token 只能是 {kept[:9]} 之一，而不是 {token}。", hint=2, call=call)  # fmt: skip


def as_sample(
    call: str, rows: list[Any], got: list[int], moved: Any, due: Any, due_moved: Any
) -> Finding | None:
    """The very tokens that ``sample`` draws, and generators that stand where it leaves them."""
    if got != due:
        i = next((i for i, (a, b) in enumerate(zip(got, due, strict=False)) if a != b), 0)
        return finding("as-sample-draws", f"{call}: with the same generator, chapter 8's sample draws token {due[i]} for row {i}, {rows[i][:2]}; yours is {got[i]}.",
                       f"{call}：用同样的生成器，第 8 章的 sample 给第 {i} 行（{rows[i][:2]}）抽到 token {due[i]}；你的是 {got[i]}。", hint=2, call=call)  # fmt: skip
    if moved != due_moved:
        i = next((i for i, (a, b) in enumerate(zip(moved, due_moved, strict=False)) if a != b), 0)
        return finding("one-draw-each", f"{call}: generator {i} must stand where one call of sample leaves it: a greedy row draws nothing, another one token.",
                       f"{call}：第 {i} 个生成器应当停在调用一次 sample 之后的地方：贪心的行什么也不抽，别的行只抽一个。", hint=0, call=call)  # fmt: skip
    return None


def check_shares(student: Student, case: Case) -> Finding | None:
    """The same row many times over, a seed each: how often each token comes."""
    logits, (temperature, top_p), count = np.array(case["logits"], np.float32), case["setting"], case["count"]
    probe = student.apart(DRAW, "sample_batch", "sample")
    many = np.repeat(logits[None], count, 0)
    reply = probe.call("together", many, [temperature] * count, [top_p] * count, list(range(count)), 1)
    got = items(items(reply, 3)[0], count)
    counts = np.array([got.count(token) for token in range(len(logits))])
    want = oracle.distribution(logits, temperature, top_p)
    if np.all(np.abs(counts - count * want) <= 5 * np.sqrt(count * want * (1 - want))):
        return None
    call = f"sample_batch(the same logits {count} times, temperature {temperature:g}, top_p {top_p:g}, …)"
    return finding("as-often-as-probable", f"{call}: the tokens should come about {np.round(count * want).astype(int).tolist()} times, not {counts.tolist()}.",
                   f"{call}：各个 token 应当大约出现 {np.round(count * want).astype(int).tolist()} 次，而不是 {counts.tolist()} 次。", hint=2)  # fmt: skip
