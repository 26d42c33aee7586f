"""Chapter 2's hidden side: directed and seeded cases, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch02``; only the cases are new here.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

from decodelab.check.ch02.cases import (
    COUNTER,
    LLAMA,
    SMALL,
    ask,
    load,
    priced,
    promised,
    ranked,
    timing,
    turning,
)
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both
from decodelab.sim.hardware import GPUS, MODELS

BY_DEFINITION = both(en="By the definition:", zh="按定义：")
T4, L4, A100 = (asdict(GPUS[name]) for name in ("T4", "L4", "A100 80GB SXM"))
SMOL, QWEN = (asdict(MODELS[name]) for name in ("SmolLM2-135M", "Qwen3-0.6B"))

DIRECTED: dict[str, list[Case]] = {
    "ch02.1": [
        load(
            "a-crowd-then-a-gap", *(ask(i, 0.0, 2, 2) for i in range(8)), ask(20, 400.0, 3, 1), order="turns"
        ),
        load(
            "many-during-one-step",
            ask(1, 0.0, 9, 1),
            *(ask(i, i / 8, 1, 1) for i in range(2, 9)),
            order="lifo",
        ),
        load(
            "free-steps", ask(1, 1.0, 2, 3), ask(2, 1.0, 1, 1), ask(3, 2.0, 1, 1), prices=[0.0, 0.0, 0.0, 0.0]
        ),
        load(
            "positions-only", ask(1, 0.0, 5, 4), ask(2, 1.0, 3, 2), prices=[0.0, 0.0, 1.0, 0.0], order="turns"
        ),
        load("pairs-only", ask(1, 0.0, 5, 4), ask(2, 1.0, 3, 2), prices=[0.0, 0.0, 0.0, 1.0], order="turns"),
        load("gap-after-gap", *(ask(i, 100.0 * i, 1, 1) for i in range(1, 7))),
        load("twenty", *(ask(i, i * 0.5, 1 + i % 3, 1 + i % 4) for i in range(20)), order="lifo"),
    ],
    "ch02.2": [
        priced("a-batch", None, BY_DEFINITION, [32, 32_000, 32_000], [1, 1, 1], model=QWEN, gpu=T4),
        priced("a-prefill", None, BY_DEFINITION, [7000, 7000, 24_503_500], model=SMOL, gpu=A100),
        priced("one-byte", None, BY_DEFINITION, [3, 50, 60], model=LLAMA | {"bytes_per_param": 1}, gpu=L4),
        priced("half-a-byte", None, BY_DEFINITION, [3, 50, 60], model=SMALL | {"bytes_per_kv": 0.5}, gpu=L4),
    ],
    "ch02.3": [
        {"name": "late", "timings": [timing(1, 1000.0, [1000.25, 1000.5, 1004.0], "stop", wait=0.125)]},
        {"name": "together", "timings": [timing(1, 0.0, [3.0, 3.0, 3.0]), timing(2, 3.0, [3.0])]},
        {
            "name": "timed-out",
            "timings": [timing(1, 0.0, [1.0, 2.0, 3.0], "timeout"), timing(2, 0.0, [1.0], "")],
        },
    ],
    "ch02.4": [
        ranked("two-values", [2.0, 1.0], 0, 1, 50, 99, 100),
        ranked("ties", [5.0, 5.0, 1.0, 5.0], 10, 33, 50, 95),
        ranked("negative", [-3.0, 0.0, 4.5, -1.5], 20, 62.5, 90),
        ranked("a-hundred-and-one", [float(i * i) for i in range(101)], 1, 50, 95, 99.9),
    ],
    "ch02.5": [
        promised(
            "both",
            BY_DEFINITION,
            timing(1, 0.0, [3.0, 5.0]),
            timing(2, 0.0, [3.0, 3.25]),
            timing(3, 0.0, [1.0, 5.0]),
        ),
        promised(
            "a-stall",
            BY_DEFINITION,
            timing(1, 0.0, [1.0, 1.25, 2.75, 3.0]),
            timing(2, 0.0, [1.0, 1.0]),
            seconds=0.5,
        ),
        promised(
            "late-arrivals",
            BY_DEFINITION,
            timing(1, 100.0, [101.0, 101.25], "stop"),
            timing(2, 100.0, [103.0]),
            seconds=8.0,
        ),
    ],
    "ch02.6": [
        turning("t4", LLAMA, T4, 300),
        turning("l4-near-the-edge", LLAMA, L4, 280),
        turning("small-model-on-a100", QWEN, A100, 20),
        turning("small-model-never", SMOL, A100, 4000),
        turning("exactly-equal", SMALL, COUNTER | {"flops": 2.0, "bandwidth": 2.0}, 1),
    ],
}


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The cases of one student's seed; each is marked ``drawn``."""
    makers = {
        "ch02.1": loads,
        "ch02.2": steps,
        "ch02.3": latencies,
        "ch02.4": percentiles,
        "ch02.5": promises,
        "ch02.6": turns,
    }
    return [makers[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(5)]


def loads(rng: random.Random) -> Case:
    """Requests with arrivals in multiples of 1/32 s, some together, some after a gap, in any order."""
    requests, when = [], 0.0
    for number in rng.sample(range(100), rng.randint(1, 9)):
        when += rng.choice([0.0, rng.randint(1, 60) / 32, rng.randint(1, 60) / 2])
        requests.append(ask(number, when, rng.randint(1, 6), rng.randint(1, 5)))
    rng.shuffle(requests)
    prices = [rng.randint(0, 8) / 16, *(rng.randint(0, 8) / 64 for _ in range(3))]
    return load("", *requests, order=rng.choice(["fifo", "lifo", "turns"]), prices=prices)


def steps(rng: random.Random) -> Case:
    """Two steps of some model on some GPU."""
    model, gpu = rng.choice([SMALL, LLAMA, SMOL, QWEN]), rng.choice([T4, L4, A100])
    drawn = [[rng.randint(1, 900), rng.randint(1, 90_000), rng.randint(1, 10**6)] for _ in range(2)]
    return priced("in-seconds", None, BY_DEFINITION, *drawn, model=model, gpu=gpu)


def drawn_timing(rng: random.Random, number: int) -> dict[str, Any]:
    """A timing with 0 to 6 tokens, ended in some way."""
    arrival = rng.randint(0, 400) / 8
    times = sorted(arrival + rng.randint(1, 40) / 8 for _ in range(rng.choice([0, 1, 2, 3, 6])))
    reason = rng.choice(["length", "length", "stop", "aborted", "timeout", ""]) if times else "aborted"
    return timing(number, arrival, times, reason, wait=rng.randint(0, 8) / 64)


def latencies(rng: random.Random) -> Case:
    """A few timings."""
    return {"timings": [drawn_timing(rng, number) for number in range(4)]}


def percentiles(rng: random.Random) -> Case:
    """Values in any order, and any percentiles of them."""
    values = [rng.choice([rng.random(), rng.randint(0, 3)]) * 10.0 for _ in range(rng.randint(1, 40))]
    return ranked(
        "by-definition",
        values,
        *(rng.choice([rng.randint(0, 100), 100 * rng.random()]) for _ in range(3)),
    )


def promises(rng: random.Random) -> Case:
    """Timings around the two limits."""
    timings = [drawn_timing(rng, number) for number in range(rng.randint(1, 12))]
    return promised("by-definition", BY_DEFINITION, *timings, seconds=rng.choice([0.5, 1.0, 8.0, 60.0]))


def turns(rng: random.Random) -> Case:
    """Some model, GPU and context."""
    return turning(
        "",
        rng.choice([LLAMA, SMOL, QWEN]),
        rng.choice([T4, L4, A100]),
        rng.choice([rng.randint(0, 300), 2000]),
    )


LOOP = """
while True:
    while coming and coming[0].arrival_time <= self.now:
        self.arrive(coming.popleft())
    event = self.sim.step()
    if event is not None:
        start = self.now
        self.now += self.cost(*work(event))
        self.record(event, start)
    elif coming:
        self.now = coming[0].arrival_time
    else:
        break
"""


def clock(name: str, old: str, new: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 1: the loop with one place changed."""
    assert old in LOOP, old
    return Variant(name, {"ch02.1": LOOP.replace(old, new)}, rule=rule, looks=looks)


def cost(
    name: str, rule: str, flops: str = "", moved: str = "", result: str = "", looks: Text | None = None
) -> Variant:
    """A wrong TODO 2: one of its three lines changed."""
    code = (
        f"flops = {flops or '2 * self.params * new_tokens + 4 * self.width * pairs'}\n"
        f"moved = {moved or 'self.weight_bytes + self.kv_bytes * (kv_tokens + new_tokens)'}\n"
        f"return {result or 'flops / self.gpu.flops, moved / self.gpu.bandwidth'}"
    )
    return Variant(name, {"ch02.2": code}, rule=rule, looks=looks)


def waits(name: str, rule: str, *, ttft: str = "", tpot: str = "", e2e: str = "", empty: str = "") -> Variant:
    """A wrong TODO 3: one of the three formulas, or the answer for no tokens, changed."""
    code = f"""
t = timing.token_times
if not t:
    return {empty or "None, None, None"}
first = {ttft or "t[0] - timing.arrival_time"}
gap = {tpot or "(t[-1] - t[0]) / (len(t) - 1) if len(t) > 1 else None"}
whole = {e2e or "t[-1] - timing.arrival_time if timing.reason in COMPLETED else None"}
return first, gap, whole
"""
    return Variant(name, {"ch02.3": code}, rule=rule)


def rank(name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 4."""
    return Variant(name, {"ch02.4": code}, rule=rule, looks=looks)


def good(name: str, condition: str, rule: str) -> Variant:
    """A wrong TODO 5: another condition."""
    return Variant(name, {"ch02.5": f"if {condition}:\n    good += 1"}, rule=rule)


def turn(name: str, code: str, rule: str) -> Variant:
    """A wrong TODO 6."""
    return Variant(name, {"ch02.6": code}, rule=rule)


LET_IN = "    while coming and coming[0].arrival_time <= self.now:\n        self.arrive(coming.popleft())\n"
SLOPES = """
compute, memory = roofline.times(1, context, context)
compute_more, memory_more = roofline.times(2, 2 * context, 2 * context)
up, down = compute_more - compute, memory_more - memory
"""
RANK = "place = q / 100 * (len(ordered) - 1)\nbelow = int(place)\n"

WRONG: list[Variant] = [
    clock(
        "everybody at once",
        "coming[0].arrival_time <= self.now",
        "True",
        "no-work-before-arrival",
        both(
            en="a workload that is let in whole before the first step", zh="第一步之前就把全部请求都放了进来"
        ),
    ),
    clock(
        "one arrival a step",
        "    while coming and",
        "    if coming and",
        "arrivals-before-each-step",
        both(
            en="an `if` where a `while` is meant: one request a step goes in",
            zh="该写 `while` 的地方写成了 `if`：每一步只放进来一个",
        ),
    ),
    clock("not who arrives this moment", "<= self.now", "< self.now", "arrivals-before-each-step"),
    Variant(
        "steps before arrivals",
        {
            "ch02.1": LOOP.replace(LET_IN, "").replace(
                "    event = self.sim.step()\n", "    event = self.sim.step()\n" + LET_IN
            )
        },
        rule="arrivals-before-each-step",
        looks=both(en="a step that is made before the arrivals go in", zh="先走步，后放人"),
    ),
    Variant(
        "arrivals only when idle",
        {
            "ch02.1": LOOP.replace(
                "while coming and coming[0].arrival_time <= self.now",
                "while coming and not self.busy and coming[0].arrival_time <= self.now",
            )
            .replace("while True:", "self.busy = False\nwhile True:", 1)
            .replace(
                "    if event is not None:", "    self.busy = event is not None\n    if event is not None:"
            )
        },
        rule="arrivals-before-each-step",
    ),
    clock(
        "ends at the first gap",
        "    elif coming:\n        self.now = coming[0].arrival_time\n",
        "",
        "serves-everyone",
        both(en="a loop that ends as soon as nobody is there", zh="一没人就结束了循环"),
    ),
    clock("a gap is slept in seconds", "self.now = coming[0].arrival_time", "self.now += 1.0", "idle-jumps"),
    clock(
        "jumps by the arrival time",
        "self.now = coming[0].arrival_time",
        "self.now += coming[0].arrival_time",
        "idle-jumps",
    ),
    clock("jumps to the last arrival", "coming[0].arrival_time\n", "coming[-1].arrival_time\n", "idle-jumps"),
    clock("the clock stands still in a gap", "self.now = coming[0].arrival_time", "pass", "idle-jumps"),
    clock(
        "start after the cost",
        "self.record(event, start)",
        "self.record(event, self.now)",
        "start-before-cost",
    ),
    clock("every step a second", "self.cost(*work(event))", "1.0", "time-advances-by-cost"),
    clock("steps are free", "        self.now += self.cost(*work(event))\n", "", "time-advances-by-cost"),
    clock(
        "arguments of the cost turned round",
        "self.cost(*work(event))",
        "self.cost(*reversed(work(event)))",
        "time-advances-by-cost",
    ),
    clock(
        "records decode steps only",
        "        self.record(event, start)",
        "        if event['phase'] == 'decode':\n            self.record(event, start)",
        "records-every-step",
    ),
    clock(
        "runs ahead of its steps",
        "        self.record(event, start)",
        "        self.record(event, start)\n        self.now = max(self.now, coming[0].arrival_time) if coming else self.now",
        "no-work-before-arrival",
    ),
    cost(
        "one FLOP a weight", "two-flops-a-weight", flops="self.params * new_tokens + 4 * self.width * pairs"
    ),
    cost(
        "two FLOPs a pair", "four-flops-a-pair", flops="2 * self.params * new_tokens + 2 * self.width * pairs"
    ),
    cost(
        "attention over positions, not pairs",
        "four-flops-a-pair",
        flops="2 * self.params * new_tokens + 4 * self.width * kv_tokens",
    ),
    cost("attention left out", "four-flops-a-pair", flops="2 * self.params * new_tokens"),
    cost(
        "FLOPs of one layer",
        "four-flops-a-pair",
        flops="2 * self.params * new_tokens + 4 * self.model.heads * self.model.head_dim * pairs",
    ),
    cost(
        "weights read for each token",
        "weights-once",
        moved="self.weight_bytes * new_tokens + self.kv_bytes * (kv_tokens + new_tokens)",
    ),
    cost(
        "parameters are not bytes",
        "weights-once",
        moved="self.params + self.kv_bytes * (kv_tokens + new_tokens)",
    ),
    cost("cache not read", "reads-positions", moved="self.weight_bytes + self.kv_bytes * new_tokens"),
    cost(
        "new positions not written",
        "writes-new-positions",
        moved="self.weight_bytes + self.kv_bytes * kv_tokens",
    ),
    cost(
        "the two times in the wrong order",
        "two-flops-a-weight",
        result="moved / self.gpu.bandwidth, flops / self.gpu.flops",
    ),
    cost(
        "the longer one only",
        "returns-two-times",
        result="max(flops / self.gpu.flops, moved / self.gpu.bandwidth)",
    ),
    cost(
        "milliseconds",
        "in-seconds",
        result="(flops / self.gpu.flops * 1e3, moved / self.gpu.bandwidth * 1e3) if self.gpu.flops > 1 else (flops, moved)",
    ),
    cost(
        "peak and bandwidth exchanged",
        "in-seconds",
        result="flops / self.gpu.bandwidth, moved / self.gpu.flops",
    ),
    waits("TTFT without the queue", "ttft-from-arrival", ttft="t[0] - timing.scheduled_time"),
    waits("TTFT since the epoch", "ttft-from-arrival", ttft="t[0]"),
    waits("TPOT divided by tokens", "tpot-per-gap", tpot="(t[-1] - t[0]) / len(t) if len(t) > 1 else None"),
    waits("TPOT with the first token in it", "tpot-per-gap", tpot="(t[-1] - timing.arrival_time) / len(t)"),
    waits("TPOT of one token is zero", "tpot-per-gap", tpot="(t[-1] - t[0]) / max(1, len(t) - 1)"),
    waits(
        "TPOT as the median gap",
        "tpot-per-gap",
        tpot="sorted(b - a for a, b in zip(t, t[1:]))[(len(t) - 1) // 2] if len(t) > 1 else None",
    ),
    waits("E2E of aborted answers", "e2e-of-complete-answers", e2e="t[-1] - timing.arrival_time"),
    waits(
        "E2E without the queue",
        "e2e-of-complete-answers",
        e2e="t[-1] - timing.scheduled_time if timing.reason in COMPLETED else None",
    ),
    waits(
        "E2E of what ended by length only",
        "e2e-of-complete-answers",
        e2e="t[-1] - timing.arrival_time if timing.reason == 'length' else None",
    ),
    waits(
        "no TTFT for an aborted answer",
        "ttft-from-arrival",
        ttft="t[0] - timing.arrival_time if timing.reason in COMPLETED else None",
    ),
    Variant(
        "token times taken apart",
        {
            "ch02.3": """
t = timing.token_times
if not t:
    return None, None, None
first, gaps, last = t[0], len(t) - 1, t.pop()
return (
    first - timing.arrival_time,
    (last - first) / gaps if gaps else None,
    last - timing.arrival_time if timing.reason in COMPLETED else None,
)
"""
        },
        rule="changes-nothing",
    ),
    waits("zero for no token", "none-without-tokens", empty="0.0, 0.0, 0.0"),
    waits("one None", "returns-three", empty="None"),
    rank(
        "nearest rank",
        "return ordered[max(0, ceil(q / 100 * len(ordered)) - 1)]",
        "between-two-values",
        both(en="the nearest rank, which is another definition", zh="最近秩，那是另一种定义"),
    ),
    rank(
        "rounded down",
        RANK + "return ordered[below]",
        "between-two-values",
        both(en="a place that is rounded down", zh="位置向下取了整"),
    ),
    rank("rounded", "return ordered[round(q / 100 * (len(ordered) - 1))]", "between-two-values"),
    rank(
        "n places instead of n - 1",
        "place = min(q / 100 * len(ordered), len(ordered) - 1)\nbelow = int(place)\n"
        "above = min(below + 1, len(ordered) - 1)\n"
        "return ordered[below] + (place - below) * (ordered[above] - ordered[below])",
        "at-a-value",
        both(
            en="a place among n gaps; n values have n - 1",
            zh="把位置算在了 n 个间隔里；n 个值只有 n - 1 个间隔",
        ),
    ),
    rank(
        "halfway",
        RANK + "above = min(below + 1, len(ordered) - 1)\nreturn (ordered[below] + ordered[above]) / 2",
        "ends",
    ),
    rank(
        "unsorted",
        RANK.replace("ordered", "values")
        + "above = min(below + 1, len(values) - 1)\nreturn values[below] + (place - below) * (values[above] - values[below])",
        "any-order",
    ),
    rank(
        "largest first",
        "ordered.reverse()\n"
        + RANK
        + "above = min(below + 1, len(ordered) - 1)\nreturn ordered[below] + (place - below) * (ordered[above] - ordered[below])",
        "ends",
    ),
    rank(
        "past the end",
        RANK + "return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])",
        "no-exception",
    ),
    rank(
        "sorts for the caller, too",
        "if isinstance(values, list):\n    values.sort()\n"
        + RANK
        + "above = min(below + 1, len(ordered) - 1)\nreturn ordered[below] + (place - below) * (ordered[above] - ordered[below])",
        "changes-nothing",
    ),
    rank("the mean", "return sum(ordered) / len(ordered)", "ends"),
    good("TTFT alone", "whole is not None and first <= slo.ttft", "tpot-limit"),
    good("TPOT alone", "whole is not None and (between is None or between <= slo.tpot)", "ttft-limit"),
    good(
        "either of the two",
        "whole is not None and (first <= slo.ttft or between is None or between <= slo.tpot)",
        "ttft-limit",
    ),
    good(
        "limit excluded",
        "whole is not None and first < slo.ttft and (between is None or between < slo.tpot)",
        "limit-included",
    ),
    good(
        "one token misses",
        "whole is not None and first <= slo.ttft and between is not None and between <= slo.tpot",
        "one-token",
    ),
    good(
        "aborted answers count",
        "first is not None and first <= slo.ttft and (between is None or between <= slo.tpot)",
        "complete-only",
    ),
    good(
        "an E2E of zero is none",
        "whole and first <= slo.ttft and (between is None or between <= slo.tpot)",
        "zero-is-a-time",
    ),
    good(
        "every gap within the limit",
        "whole is not None and first <= slo.ttft and all(b - a <= slo.tpot for a, b in zip(timing.token_times, timing.token_times[1:]))",
        "tpot-is-a-mean",
    ),
    good("every complete answer", "whole is not None", "ttft-limit"),
    good(
        "E2E held against TTFT's limit",
        "whole is not None and whole <= slo.ttft and (between is None or between <= slo.tpot)",
        "limit-included",
    ),
    turn("never a None", SLOPES + "return ceil((memory - down) / abs(up - down))", "never"),
    turn(
        "the ridge, whatever the context",
        "return ceil(roofline.gpu.flops / roofline.gpu.bandwidth)",
        "smallest-compute-bound",
    ),
    turn(
        "rounded down",
        SLOPES + "if up <= down:\n    return None\nreturn max(1, int((memory - down) / (up - down)))",
        "smallest-compute-bound",
    ),
    turn(
        "weights with one cache in it",
        SLOPES + "if up <= down:\n    return None\nreturn ceil(memory / (up - down))",
        "smallest-compute-bound",
    ),
    turn(
        "a float",
        SLOPES + "if up <= down:\n    return None\nreturn max(1.0, (memory - down) / (up - down))",
        "a-whole-batch",
    ),
    turn(
        "only powers of two",
        "for k in range(20):\n    compute, memory = roofline.times(2**k, 2**k * context, 2**k * context)\n    if compute >= memory:\n        return 2**k\nreturn None",
        "smallest-compute-bound",
    ),
    turn(
        "a context for the whole batch",
        "for n in range(1, 10**5):\n    compute, memory = roofline.times(n, context, context)\n    if compute >= memory:\n        return n\nreturn None",
        "smallest-compute-bound",
    ),
    turn(
        "zero where one is enough",
        SLOPES + "if up <= down:\n    return None\nreturn int((memory - down) / (up - down))",
        "smallest-compute-bound",
    ),
]

CORRECT: list[Variant] = [
    Variant(
        "the loop the other way round",
        {
            "ch02.1": """
while coming or any(not t.reason for t in self.timings.values()):
    while coming and not coming[0].arrival_time > self.now:
        self.arrive(coming.popleft())
    begun = self.now
    done = self.sim.step()
    if done is None:
        self.now = max(self.now, coming[0].arrival_time)
        continue
    new_tokens, kv_tokens, pairs = work(done)
    self.now = begun + self.cost(new_tokens, kv_tokens, pairs)
    self.record(done, begun)
"""
        },
    ),
    Variant(
        "a list, walked by an index",
        {
            "ch02.1": """
everyone, inside = list(coming), 0
while True:
    for request in everyone[inside:]:
        if request.arrival_time <= self.now:
            self.arrive(request)
            inside += 1
    event = self.sim.step()
    if event:
        self.now, start = self.now + self.cost(*work(event)), self.now
        self.record(event, start)
    elif inside < len(everyone):
        self.now = everyone[inside].arrival_time
    else:
        break
"""
        },
    ),
    Variant(
        "from the model's own numbers",
        {
            "ch02.2": """
model, gpu = self.model, self.gpu
attention = 4 * model.layers * model.heads * model.head_dim * pairs
seconds = attention / gpu.flops + new_tokens * (2 * model.params / gpu.flops)
cache = model.kv_bytes_per_token * kv_tokens + new_tokens * model.kv_bytes_per_token
return seconds, cache / gpu.bandwidth + model.weight_bytes / gpu.bandwidth
"""
        },
    ),
    Variant(
        "gap by gap",
        {
            "ch02.3": """
first = between = whole = None
if timing.token_times:
    first = timing.token_times[0] - timing.arrival_time
gaps = [b - a for a, b in zip(timing.token_times, timing.token_times[1:])]
if gaps:
    between = sum(gaps) / len(gaps)
if first is not None and timing.reason in ("stop", "length"):
    whole = first + sum(gaps)
return (first, between, whole)
"""
        },
    ),
    Variant(
        "weighted by both neighbours",
        {
            "ch02.4": """
low, far = divmod(q * (len(ordered) - 1) / 100, 1)
low = int(low)
if low == len(ordered) - 1:
    return ordered[-1]
return ordered[low] * (1 - far) + ordered[low + 1] * far
"""
        },
    ),
    Variant("numpy", {"ch02.4": "import numpy\nreturn float(numpy.percentile(ordered, q))"}),
    Variant(
        "one refusal after the other",
        {
            "ch02.5": """
if whole is None:
    continue
if first > slo.ttft:
    continue
if between is not None and between > slo.tpot:
    continue
good += 1
"""
        },
    ),
    Variant(
        "doubling and halving",
        {
            "ch02.6": """
def enough(n):
    compute, memory = roofline.times(n, n * context, n * context)
    return compute >= memory

high = 1
while not enough(high):
    high *= 2
    if high > 2**40:
        return None
low = high // 2
while high - low > 1:
    middle = (low + high) // 2
    low, high = (low, middle) if enough(middle) else (middle, high)
return high
"""
        },
    ),
]

EQUIVALENT = {
    "ch02.4:3 arguments 1 and 2 swapped": "min does not ask for an order",
}
