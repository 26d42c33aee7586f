"""TODO 5: a cost model fitted to the steps of a made-up machine; judged by what it predicts, not by how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

FIT = """
def predicted(samples, points):
    cost = fit([tuple(sample) for sample in samples])
    if not callable(cost):
        return cost
    replies = [cost(*point) for point in points]
    try:
        return [float(reply) for reply in replies]
    except TypeError:
        return repr(replies[0])
"""
POINTS = 60  # steps that were not measured
Counts = tuple[int, int, int]


@dataclass(frozen=True)
class Machine:
    """How long a step takes on a machine that there is not."""

    base: float  # seconds, for starting all operations
    read: float  # seconds, for the weights
    token: float  # seconds a new token
    kv: float  # seconds a token in the cache
    pair: float  # seconds a query-key pair

    def seconds(self, counts: Counts) -> float:
        """A floor; a roofline of the weights, read or computed with; attention, which reads and computes on its own."""
        new, kv, pairs = counts
        return self.base + max(self.read, self.token * new) + self.kv * kv + self.pair * pairs

    def varied(self, rng: Random) -> Machine:
        """One of its kind that nobody has seen: faster or slower in all, and a little different in each number."""
        whole = rng.choice([-1, 1]) * rng.uniform(0.4, 0.7)
        return Machine(*(number * math.exp(whole + rng.uniform(-0.15, 0.15)) for number in astuple(self)))


MACHINES = {  # milliseconds would be easier to read: a decode step of 2 ms, a chunk of 128 tokens of 20 ms
    "cpu": Machine(base=5e-4, read=1e-3, token=1.5e-4, kv=1e-6, pair=5e-8),
    "gpu": Machine(base=4e-3, read=6e-3, token=2e-5, kv=4e-8, pair=1e-10),
    "slow-memory": Machine(base=1e-3, read=2e-3, token=4e-5, kv=6e-6, pair=1e-8),
    "bends-late": Machine(base=5e-4, read=6e-3, token=1e-4, kv=1e-6, pair=2e-8),
    "wide": Machine(base=2e-4, read=3e-4, token=3e-4, kv=1e-7, pair=1e-9),
    "long-texts": Machine(base=1e-3, read=1e-3, token=5e-5, kv=2e-6, pair=4e-7),
}


def step(rng: Random, most: int = 256, context: int = 1000) -> Counts:
    """A step as engines make them: some decode, and in every other step there is a chunk of a prompt, too."""
    decodes = rng.choice([0, 1, 2, 4, 8, 16, 32])
    ends = [rng.randint(1, context) for _ in range(decodes)]
    chunk = rng.choice([0, rng.randint(1, most)]) if decodes else rng.randint(1, most)
    before = rng.choice([0, rng.randint(0, context)])
    new, kv, pairs = decodes + chunk, sum(ends), sum(ends)
    if chunk:
        kv, pairs = kv + before + chunk, pairs + chunk * before + chunk * (chunk + 1) // 2
    return new, kv, pairs


def samples_of(case: Case) -> tuple[list[list[float]], list[Counts], Machine]:
    """What was measured, further steps to predict, and the machine."""
    rng, machine = Random(case["seed"]), MACHINES[case["machine"]]
    if case.get("varied"):
        machine = machine.varied(Random(case["seed"]))
    measured = [step(rng) for _ in range(case["count"])]
    rows = []
    for counts in measured:
        seconds = machine.seconds(counts) * (1 + rng.uniform(-1, 1) * case.get("noise", 0.0))
        rows.append([*counts, seconds])
    points = [step(rng) for _ in range(POINTS)] if case["count"] >= 100 else measured
    return rows, points, machine


def check_fit(student: Student, case: Case) -> Finding | None:
    """Fit once, ask many steps: measured ones, others, and some beyond."""
    rows, points, machine = samples_of(case)
    chain = [(new, 500 + new, 500 * new) for new in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    beyond = [(1, 1, 1), (1024, 20_000, 1_000_000), (1, 10_000_000, 10_000_000), (256, 300, 100_000_000)]
    probe = student.apart(FIT, "fit")
    reply = probe.call("predicted", rows, [*points, *chain, *beyond])
    got = reply if isinstance(reply, list) and len(reply) == len(points) + len(chain) + len(beyond) else None
    if got is None or any(type(x) is not float or not math.isfinite(x) for x in got):
        return told(case, "a-number-of-seconds", "fit must return a function, and cost(new_tokens, kv_tokens, pairs) seconds, one finite number",
                    "fit 应当返回一个函数，cost(new_tokens, kv_tokens, pairs) 应当返回秒数，一个有限的数", str(reply)[:60])  # fmt: skip
    if min(got) < 0:
        at = [*points, *chain, *beyond][int(np.argmin(got))]
        return told(case, "never-negative", f"no step takes less than no time: cost{at} came out as {min(got):.2g} s",
                    f"没有一步的时间会小于零：cost{at} 得到 {min(got):.2g} 秒")  # fmt: skip
    return accurate(case, points, got[: len(points)], machine) or rising(case, chain, got[len(points) :])


def accurate(case: Case, points: Sequence[Counts], got: Sequence[float], machine: Machine) -> Finding | None:
    """Whether most predictions are near; which kind of step is off."""
    within = case["within"]
    ratio = np.array([g / machine.seconds(p) for p, g in zip(points, got, strict=True)])
    off = abs(ratio - 1)
    if np.quantile(off, 0.9) <= within:
        return None
    true = np.array([machine.seconds(p) for p in points])
    full = np.array([p[1] for p in points])
    worst = int(off.argmax())
    rule = "as-near-as-it-can"
    with np.errstate(invalid="ignore"):  # of all alike
        if abs(np.corrcoef(full, np.array(got) / true)[0, 1]) > 0.6:
            rule = "counts-the-cache"
    if case.get("noise") and np.quantile(ratio, 0.9) < 1 - within / 2:
        rule = "slow-counts-as-fast"
    words = {
        "slow-counts-as-fast": ("nearly all predictions are too low: who divides by the measured time lets steps that happened to be fast count more than slow ones", "几乎所有预测都偏低：除以实测时间，碰巧快的那些步就比慢的更算数"),
        "as-near-as-it-can": ("predictions are too far off: the first new tokens of a step are nearly free, the later ones are not", "预测偏得太多：一步里前面的新 token 几乎不花时间，后面的就不是了"),
        "counts-the-cache": ("it is off the more, the more tokens are in the cache", "cache 里的 token 越多，偏得越多"),
    }[rule]  # fmt: skip
    n, p = points[worst], machine.seconds(points[worst])
    return told(case, rule, f"{words[0]}: nine in ten steps must be within {within:.0%}; cost{n} must be {1e3 * p:.3g} ms, yours is {1e3 * got[worst]:.3g} ms",
                f"{words[1]}：十步里要有九步在 {within:.0%} 以内；cost{n} 应当是 {1e3 * p:.3g} 毫秒，你的是 {1e3 * got[worst]:.3g} 毫秒")  # fmt: skip


def rising(case: Case, chain: Sequence[Counts], got: Sequence[float]) -> Finding | None:
    """More work does not take less time, but for a little."""
    for (less, more), a, b in zip(pairwise(chain), got, got[1:], strict=False):
        if case["count"] >= 100 and b < 0.9 * a:
            return told(case, "more-takes-longer", f"cost{more} must not be less than cost{less}; yours are {1e3 * b:.3g} and {1e3 * a:.3g} ms",
                        f"cost{more} 不应当小于 cost{less}；你的是 {1e3 * b:.3g} 和 {1e3 * a:.3g} 毫秒")  # fmt: skip
    return None


def told(case: Case, rule: str, en: str, zh: str, got: Any = "") -> Finding:
    """A finding about one fit."""
    more = f" ({got})" if got else ""
    return finding(
        rule,
        f"fit of {case['count']} steps of the machine {case['machine']!r}: {en}{more}.",
        f"用机器 {case['machine']!r} 的 {case['count']} 步做 fit：{zh}{more}。",
        hint=2,
    )
