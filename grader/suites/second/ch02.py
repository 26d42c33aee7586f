"""Chapter 2 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def wrong(todo: str, name: str, code: str) -> Variant:
    """An answer that a learner could well write, and that is not right."""
    return Variant(name, {todo: code})


ARRIVED = """
while coming and coming[0].arrival_time <= self.now:
    self.arrive(coming.popleft())
"""
PRICED = """
start = self.now
self.now += self.cost(*work(event))
self.record(event, start)
"""
IDLE = """
if event is None:
    if not coming:
        break
    self.now = coming[0].arrival_time
    continue
"""


def loop(*parts: str) -> str:
    """``while True:`` around the parts."""
    lines = "\n".join(part.strip("\n") for part in parts).splitlines()
    return "while True:\n" + "\n".join("    " + line for line in lines)


STEP = "event = self.sim.step()"
RUN = [
    (
        "one newcomer a turn",
        loop(
            "if coming and coming[0].arrival_time <= self.now:\n    self.arrive(coming.popleft())",
            STEP,
            IDLE,
            PRICED,
        ),
    ),
    ("who comes this very moment waits", loop(ARRIVED.replace("<=", "<"), STEP, IDLE, PRICED)),
    (
        "all of them at the start",
        "while coming:\n    self.arrive(coming.popleft())\n" + loop(STEP, IDLE, PRICED),
    ),
    (
        "newcomers after the step, before its cost",
        loop(STEP, ARRIVED, IDLE, PRICED),
    ),
    (
        "recorded before the clock moves",
        loop(
            ARRIVED,
            STEP,
            IDLE,
            "start = self.now\nself.record(event, start)\nself.now += self.cost(*work(event))",
        ),
    ),
    (
        "start read after the clock moved",
        loop(ARRIVED, STEP, IDLE, "self.now += self.cost(*work(event))\nself.record(event, self.now)"),
    ),
    (
        "jumps by the arrival instead of to it",
        loop(ARRIVED, STEP, IDLE.replace("self.now = coming", "self.now += coming"), PRICED),
    ),
    ("done at the first idle moment", loop(ARRIVED, STEP, "if event is None:\n    break", PRICED)),
    (
        "done when the last one is in",
        "while coming:\n"
        + "\n".join("    " + line for line in loop(ARRIVED, STEP, IDLE, PRICED).splitlines()[1:]),
    ),
    (
        "who is jumped to is lost",
        loop(
            ARRIVED,
            STEP,
            IDLE.replace("coming[0].arrival_time", "coming.popleft().arrival_time"),
            PRICED,
        ),
    ),
    (
        "the clock jumps before every step",
        loop(
            "if coming:\n    self.now = max(self.now, coming[0].arrival_time)",
            ARRIVED,
            STEP,
            "if event is None:\n    break",
            PRICED,
        ),
    ),
    (
        "newcomers only when nobody is there",
        loop(
            STEP,
            "if event is None:\n    if not coming:\n        break\n"
            "    self.now = max(self.now, coming[0].arrival_time)",
            "    while coming and coming[0].arrival_time <= self.now:\n        self.arrive(coming.popleft())\n    continue",
            PRICED,
        ),
    ),
    (
        "jumps to the last arrival",
        loop(ARRIVED, STEP, IDLE.replace("coming[0]", "coming[-1]"), PRICED),
    ),
    (
        "waiting has a price",
        loop(ARRIVED, STEP, IDLE.replace("continue", "self.now += self.cost(0, 0, 0)\n    continue"), PRICED),
    ),
    (
        "waits in ticks of a second",
        loop(ARRIVED, STEP, IDLE.replace("self.now = coming[0].arrival_time", "self.now += 1.0"), PRICED),
    ),
    (
        "the clock set to the cost",
        loop(ARRIVED, STEP, IDLE, PRICED.replace("+=", "=")),
    ),
    (
        "the last to come goes in first",
        loop(
            "while coming and coming[-1].arrival_time <= self.now:\n    self.arrive(coming.pop())",
            STEP,
            IDLE,
            PRICED,
        ),
    ),
    (
        "done when one finishes and nobody is to come",
        loop(
            ARRIVED,
            STEP,
            IDLE,
            PRICED,
            'if event["action"] == "finish" and not coming:\n    break',
        ),
    ),
    ("not recorded", loop(ARRIVED, STEP, IDLE, "self.now += self.cost(*work(event))")),
    (
        "enqueued past arrive",
        loop(
            ARRIVED.replace(
                "self.arrive(coming.popleft())",
                "r = coming.popleft()\n    self.sim.enqueue(r.request_id, r.prompt_len, priority=r.priority, max_new_tokens=r.max_new_tokens)",
            ),
            STEP,
            IDLE,
            PRICED,
        ),
    ),
    (
        "the cost of the prompt in every step",
        loop(ARRIVED, STEP, IDLE, PRICED.replace("*work(event)", '*work({**event, "phase": "prefill"})')),
    ),
    ("nothing returned", loop(ARRIVED, STEP, IDLE.replace("break", "return"), PRICED)),
    (
        "a fast step is free",
        loop(
            ARRIVED,
            STEP,
            IDLE,
            PRICED.replace("self.cost(*work(event))", "round(self.cost(*work(event)), 3)"),
        ),
    ),
    (
        "a step lasts until somebody comes",
        loop(
            ARRIVED,
            STEP,
            IDLE,
            "start = self.now\nself.now += self.cost(*work(event))\nif coming:\n    self.now = max(start, min(self.now, coming[0].arrival_time))\nself.record(event, start)",
        ),
    ),
]

FLOPS = "flops = 2 * self.params * new_tokens + 4 * self.width * pairs\n"
MOVED = "moved = self.weight_bytes + self.kv_bytes * (kv_tokens + new_tokens)\n"
BOTH = "return flops / self.gpu.flops, moved / self.gpu.bandwidth"
TIMES = [
    ("traffic first", FLOPS + MOVED + "return moved / self.gpu.bandwidth, flops / self.gpu.flops"),
    ("new tokens not written", FLOPS + MOVED.replace(" + new_tokens", "") + BOTH),
    ("new tokens written twice", FLOPS + MOVED.replace("new_tokens", "2 * new_tokens") + BOTH),
    ("only new tokens moved", FLOPS + MOVED.replace("kv_tokens + ", "") + BOTH),
    ("weights read for every token", FLOPS + MOVED.replace("bytes +", "bytes * new_tokens +") + BOTH),
    ("weights not read", FLOPS + MOVED.replace("self.weight_bytes + ", "") + BOTH),
    ("one FLOP a weight", FLOPS.replace("2 * self", "self") + MOVED + BOTH),
    ("two FLOPs a pair and number", FLOPS.replace("4 *", "2 *") + MOVED + BOTH),
    ("attention for nothing", "flops = 2 * self.params * new_tokens\n" + MOVED + BOTH),
    ("every token with every position", FLOPS.replace("* pairs", "* new_tokens * kv_tokens") + MOVED + BOTH),
    ("attention by tokens, not pairs", FLOPS.replace("* pairs", "* new_tokens") + MOVED + BOTH),
    ("attention by positions", FLOPS.replace("* pairs", "* kv_tokens") + MOVED + BOTH),
    ("the longer one", FLOPS + MOVED + "return max(flops / self.gpu.flops, moved / self.gpu.bandwidth)"),
    ("not yet seconds", FLOPS + MOVED + "return flops, moved"),
    (
        "milliseconds",
        FLOPS + MOVED + "return 1000 * flops / self.gpu.flops, 1000 * moved / self.gpu.bandwidth",
    ),
    ("whole seconds", FLOPS + MOVED + BOTH.replace(" / ", " // ")),
    ("both over the bandwidth", FLOPS + MOVED + BOTH.replace("gpu.flops", "gpu.bandwidth")),
    ("two bytes a weight, always", FLOPS + MOVED.replace("self.weight_bytes", "2 * self.params") + BOTH),
    (
        "two bytes a number in the cache, always",
        FLOPS
        + MOVED.replace("self.kv_bytes", "4 * self.model.layers * self.model.kv_heads * self.model.head_dim")
        + BOTH,
    ),
    (
        "the cache as if all heads had their own",
        FLOPS + MOVED.replace("self.kv_bytes", "4 * self.width") + BOTH,
    ),
    (
        "only the key-value heads attend",
        FLOPS.replace("self.width", "self.model.layers * self.model.kv_heads * self.model.head_dim")
        + MOVED
        + BOTH,
    ),
    (
        "hidden size for heads times head_dim",
        FLOPS.replace("self.width", "self.model.layers * self.model.hidden") + MOVED + BOTH,
    ),
    ("weights counted in FLOPs once a step", FLOPS.replace("* new_tokens", "") + MOVED + BOTH),
    ("no new token, no time", "if not new_tokens:\n    return 0.0, 0.0\n" + FLOPS + MOVED + BOTH),
    (
        "gigabytes of 2 to the 30",
        FLOPS + MOVED + BOTH.replace("self.gpu.bandwidth", "(self.gpu.bandwidth * 1.024**3)"),
    ),
]

LATENCIES = """
times = timing.token_times
if not times:
    return None, None, None
first = times[0] - timing.arrival_time
gap = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
whole = times[-1] - timing.arrival_time if timing.reason in COMPLETED else None
return first, gap, whole
"""
WAITS = [
    ("divides by tokens", LATENCIES.replace("(len(times) - 1) if", "len(times) if")),
    ("E2E for everybody with a token", LATENCIES.replace(" if timing.reason in COMPLETED else None", "")),
    ("E2E for everything but aborted", LATENCIES.replace("in COMPLETED", '!= "aborted"')),
    ("E2E for whatever has a reason", LATENCIES.replace("timing.reason in COMPLETED", "timing.reason")),
    ("E2E for full answers only", LATENCIES.replace("in COMPLETED", '== "length"')),
    ("E2E for stops only", LATENCIES.replace("in COMPLETED", '== "stop"')),
    (
        "the queue left out of TTFT",
        LATENCIES.replace("times[0] - timing.arrival_time", "times[0] - timing.scheduled_time"),
    ),
    (
        "the queue left out of E2E",
        LATENCIES.replace("times[-1] - timing.arrival_time", "times[-1] - timing.scheduled_time"),
    ),
    (
        "E2E from the first token",
        LATENCIES.replace("times[-1] - timing.arrival_time", "times[-1] - times[0]"),
    ),
    (
        "TPOT from the arrival",
        LATENCIES.replace("(times[-1] - times[0])", "(times[-1] - timing.arrival_time)"),
    ),
    (
        "all the time over all tokens",
        LATENCIES.replace(
            "(times[-1] - times[0]) / (len(times) - 1)", "(times[-1] - timing.arrival_time) / len(times)"
        ),
    ),
    ("TPOT 0 for one token", LATENCIES.replace("else None\nwhole", "else 0.0\nwhole")),
    ("TPOT of one token is its TTFT", LATENCIES.replace("else None\nwhole", "else first\nwhole")),
    (
        "the largest gap",
        LATENCIES.replace(
            "(times[-1] - times[0]) / (len(times) - 1)", "max(b - a for a, b in zip(times, times[1:]))"
        ),
    ),
    (
        "the middle gap",
        LATENCIES.replace(
            "(times[-1] - times[0]) / (len(times) - 1)",
            "sorted(b - a for a, b in zip(times, times[1:]))[(len(times) - 1) // 2]",
        ),
    ),
    ("the last gap", LATENCIES.replace("(times[-1] - times[0]) / (len(times) - 1)", "times[-1] - times[-2]")),
    (
        "tokens a second",
        LATENCIES.replace(
            "(times[-1] - times[0]) / (len(times) - 1)", "(len(times) - 1) / ((times[-1] - times[0]) or 1)"
        ),
    ),
    (
        "nothing for an answer that is not complete",
        "if timing.reason not in COMPLETED:\n    return None, None, None" + LATENCIES,
    ),
    (
        "TPOT only for a complete answer",
        LATENCIES.replace("if len(times) > 1 else", "if len(times) > 1 and timing.reason in COMPLETED else"),
    ),
    (
        "E2E only with two tokens",
        LATENCIES.replace("if timing.reason in", "if gap is not None and timing.reason in"),
    ),
    ("no token is an error", LATENCIES.replace("if not times:\n    return None, None, None\n", "")),
    ("zeros without a token", LATENCIES.replace("return None, None, None", "return 0.0, 0.0, 0.0")),
    ("a TTFT of 0 is none", LATENCIES.replace("return first,", "return first or None,")),
    ("a TPOT of 0 is none", LATENCIES.replace("return first, gap,", "return first, gap or None,")),
    ("an E2E of 0 is none", LATENCIES.replace("gap, whole", "gap, whole or None")),
    (
        "takes the token times apart",
        """
times = timing.token_times
if not times:
    return None, None, None
count, last = len(times), times.pop()
first = times.pop(0) if times else last
return (
    first - timing.arrival_time,
    (last - first) / (count - 1) if count > 1 else None,
    last - timing.arrival_time if timing.reason in COMPLETED else None,
)
""",
    ),
    (
        "milliseconds",
        LATENCIES.replace(
            "return first, gap, whole",
            "return tuple(None if v is None else 1000 * v for v in (first, gap, whole))",
        ),
    ),
    (
        "rounded to milliseconds",
        LATENCIES.replace(
            "return first, gap, whole",
            "return tuple(None if v is None else round(v, 3) for v in (first, gap, whole))",
        ),
    ),
    ("E2E before TPOT", LATENCIES.replace("gap, whole", "whole, gap")),
]

LINE = """
place = q / 100 * (len(ordered) - 1)
low = int(place)
high = min(low + 1, len(ordered) - 1)
return ordered[low] + (place - low) * (ordered[high] - ordered[low])
"""
PERCENTILE = [
    ("nearest rank", "rank = max(1, ceil(q / 100 * len(ordered)))\nreturn ordered[rank - 1]"),
    (
        "n places",
        LINE.replace(
            "(len(ordered) - 1)\nlow = int(place)", "len(ordered)\nlow = min(int(place), len(ordered) - 1)"
        ),
    ),
    (
        "n + 1 places",
        LINE.replace(
            "q / 100 * (len(ordered) - 1)", "min(max(q / 100 * (len(ordered) + 1) - 1, 0), len(ordered) - 1)"
        ),
    ),
    (
        "a half off",
        LINE.replace(
            "q / 100 * (len(ordered) - 1)", "min(max(q / 100 * len(ordered) - 0.5, 0), len(ordered) - 1)"
        ),
    ),
    ("the lower neighbour", "return ordered[int(q / 100 * (len(ordered) - 1))]"),
    ("the upper neighbour", "return ordered[ceil(q / 100 * (len(ordered) - 1))]"),
    ("the nearer neighbour", "return ordered[round(q / 100 * (len(ordered) - 1))]"),
    (
        "between the neighbours",
        "place = q / 100 * (len(ordered) - 1)\nreturn (ordered[int(place)] + ordered[ceil(place)]) / 2",
    ),
    ("weights the wrong way round", LINE.replace("(place - low)", "(1 - place + low)")),
    ("the last place has no upper neighbour", LINE.replace("min(low + 1, len(ordered) - 1)", "low + 1")),
    ("q as a fraction", LINE.replace("q / 100", "min(q, 1)")),
    ("a whole place", LINE.replace("q / 100 * (len(ordered) - 1)", "q * (len(ordered) - 1) // 100")),
    ("a whole q", LINE.replace("q / 100", "int(q) / 100")),
    ("from the smallest to the largest", "return ordered[0] + q / 100 * (ordered[-1] - ordered[0])"),
    ("equal values once", "ordered = sorted(set(ordered))" + LINE),
    ("the values as they came", "ordered = list(values)" + LINE),
    ("from the top", "ordered.reverse()" + LINE),
    ("a whole number", LINE.replace("return ", "return int(") + ")"),
    ("one value is an error", "if len(ordered) < 2:\n    raise ValueError('too few')" + LINE),
    ("one value is 0", "if len(ordered) < 2:\n    return 0.0" + LINE),
    (
        "kept away from the last value",
        LINE.replace(
            "min(low + 1, len(ordered) - 1)",
            "min(low + 1, len(ordered) - 1)\nif q == 100:\n    low = high = max(0, len(ordered) - 2)",
        ),
    ),
    (
        "library function, another definition",
        "import statistics\n\nif len(ordered) < 2 or q in (0, 100):\n    return ordered[-1] if q else ordered[0]\ncuts = statistics.quantiles(ordered, n=100)\nreturn cuts[min(max(int(q), 1), 99) - 1]",
    ),
    ("sorts the caller's list", "if isinstance(values, list):\n    values.sort()" + LINE),
    ("zeros do not count", "ordered = [value for value in ordered if value] or [0]" + LINE),
]

GOOD = (
    "if whole is not None and first <= slo.ttft and (between is None or between <= slo.tpot):\n    good += 1"
)
GOODPUT = [
    ("TTFT below its limit", GOOD.replace("first <=", "first <")),
    ("TPOT below its limit", GOOD.replace("between <=", "between <")),
    (
        "no TPOT, not good",
        GOOD.replace(
            "(between is None or between <= slo.tpot)", "between is not None and between <= slo.tpot"
        ),
    ),
    ("no TPOT, an error", GOOD.replace("(between is None or between <= slo.tpot)", "between <= slo.tpot")),
    (
        "an aborted one is good too",
        GOOD.replace("whole is not None and first", "first is not None and first"),
    ),
    ("no token, an error", GOOD.replace("whole is not None and ", "")),
    ("either limit", GOOD.replace("and (between is None or between", "or (between is None or between")),
    (
        "and, or without brackets",
        GOOD.replace(
            "(between is None or between <= slo.tpot)",
            "between is None or between is not None and between <= slo.tpot",
        ),
    ),
    ("only TTFT", "if whole is not None and first <= slo.ttft:\n    good += 1"),
    ("only TPOT", GOOD.replace("and first <= slo.ttft ", "")),
    ("limits swapped", GOOD.replace("ttft", "x").replace("tpot", "ttft").replace("slo.x", "slo.tpot")),
    (
        "E2E within both limits together",
        "if whole is not None and whole <= slo.ttft + slo.tpot * (len(timing.token_times) - 1):\n    good += 1",
    ),
    ("E2E within the limit of TTFT", GOOD.replace("and first", "and whole")),
    (
        "every single gap",
        GOOD.replace(
            "between <= slo.tpot",
            "max(b - a for a, b in zip(timing.token_times, timing.token_times[1:])) <= slo.tpot",
        ),
    ),
    ("counts tokens", GOOD.replace("+= 1", "+= len(timing.token_times)")),
    ("one at the most", GOOD.replace("+=", "=")),
    ("a bad one costs", GOOD + "\nelse:\n    good -= 1"),
    ("ends at the first bad one", GOOD + "\nelse:\n    break"),
    ("all or nothing", GOOD + "\nelse:\n    return 0.0"),
    ("full answers only", GOOD.replace("whole is not None", 'timing.reason == "length"')),
    ("an E2E of 0 is none", GOOD.replace("whole is not None", "whole")),
    ("a TTFT of 0 is none", GOOD.replace("and first <=", "and first and first <=")),
    ("in milliseconds", GOOD.replace("first <=", "1000 * first <=")),
    (
        "one-token answers need no TTFT",
        "if whole is not None and (between is None or (first <= slo.ttft and between <= slo.tpot)):\n    good += 1",
    ),
    ("refuses at the limit by a hair", GOOD.replace("first <= slo.ttft", "first + 1e-6 <= slo.ttft")),
    ("divides twice", GOOD.replace("+= 1", "+= 1 / seconds")),
]

TURN = """
compute, memory = roofline.times(1, context, context)
compute_each, memory_each = (b - a for a, b in zip((compute, memory), roofline.times(2, 2 * context, 2 * context)))
if compute_each <= memory_each:
    return None
return max(1, ceil((memory - memory_each) / (compute_each - memory_each)))
"""
TURNING = [
    ("rounded down", TURN.replace("ceil(", "int(")),
    ("rounded", TURN.replace("ceil(", "round(")),
    ("one more, to be sure", TURN.replace("ceil(", "1 + ceil(")),
    ("parallel lines not told", TURN.replace("<=", "<")),
    ("None never", TURN.replace("if compute_each <= memory_each:\n    return None\n", "")),
    ("None the other way round", TURN.replace("compute_each <= memory_each", "compute_each > memory_each")),
    ("weights with one request's cache", TURN.replace("memory - memory_each", "memory")),
    ("only the slope of the arithmetic", TURN.replace("/ (compute_each - memory_each)", "/ compute_each")),
    ("slopes added", TURN.replace("(compute_each - memory_each)", "(compute_each + memory_each)")),
    (
        "batch 0",
        TURN.replace("max(1, ceil(", "max(0, ceil(").replace(
            "ceil((memory - memory_each)", "ceil((memory - memory_each) * 0"
        ),
    ),
    (
        "gives up at 4,096",
        "for batch in range(1, 4097):\n    a, b = roofline.times(batch, batch * context, batch * context)\n"
        "    if a >= b:\n        return batch\nreturn None",
    ),
    (
        "only powers of two",
        "batch = 1\nwhile batch < 2**40:\n    a, b = roofline.times(batch, batch * context, batch * context)\n"
        "    if a >= b:\n        return batch\n    batch *= 2\nreturn None",
    ),
    ("the context is not multiplied", TURN.replace("2 * context", "context")),
    ("no context, never", "if not context:\n    return None" + TURN),
    ("without the context", TURN.replace("2 * context", "0").replace("(1, context, context)", "(1, 0, 0)")),
    ("a float", TURN.replace("max(1, ceil(", "max(1.0, (")),
]

WRONG = [
    wrong(todo, name, code)
    for todo, variants in [
        ("ch02.1", RUN),
        ("ch02.2", TIMES),
        ("ch02.3", WAITS),
        ("ch02.4", PERCENTILE),
        ("ch02.5", GOODPUT),
        ("ch02.6", TURNING),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "newcomers behind the step",
        {
            "ch02.1": ARRIVED
            + loop(
                STEP,
                "if event is not None:",
                "    start = self.now\n    self.now += self.cost(*work(event))\n    self.record(event, start)",
                "elif coming:\n    self.now = coming[0].arrival_time\nelse:\n    break",
                ARRIVED,
            )
        },
    ),
    Variant(
        "let in where it jumps",
        {
            "ch02.1": """
event = {}
while event is not None or coming:
    if event is None:
        self.now = coming[0].arrival_time
        self.arrive(coming.popleft())
    for _ in range(len(coming)):
        if coming[0].arrival_time > self.now:
            break
        self.arrive(coming.popleft())
    event = self.sim.step()
    if event:
        start, seconds = self.now, self.cost(*work(event))
        self.now = start + seconds
        self.record(event, start)
"""
        },
    ),
    Variant(
        "a list and an index",
        {
            "ch02.1": """
everybody, i = list(coming), 0
while True:
    while i < len(everybody) and not everybody[i].arrival_time > self.now:
        self.arrive(everybody[i])
        i += 1
    for event in iter(self.sim.step, None):
        start = self.now
        new_tokens, kv_tokens, pairs = work(event)
        self.now = self.now + self.cost(new_tokens, kv_tokens, pairs)
        self.record(event, start)
        if i < len(everybody) and everybody[i].arrival_time <= self.now:
            break
    else:
        if i == len(everybody):
            return list(self.timings.values())
        self.now = everybody[i].arrival_time
"""
        },
    ),
    Variant(
        "from the model's own fields",
        {
            "ch02.2": """
m = self.model
per_pair = 4 * m.layers * m.heads * m.head_dim
arithmetic = (new_tokens * (m.params + m.params) + pairs * per_pair) / self.gpu.flops
cache = kv_tokens * m.kv_bytes_per_token + new_tokens * m.kv_bytes_per_token
return arithmetic, cache / self.gpu.bandwidth + m.weight_bytes / self.gpu.bandwidth
"""
        },
    ),
    Variant(
        "gaps summed up",
        {
            "ch02.3": """
times = list(timing.token_times)
first = between = whole = None
if times:
    first = times[0] - timing.arrival_time
    gaps = [later - sooner for sooner, later in zip(times, times[1:])]
    if gaps:
        between = sum(gaps) / len(gaps)
    if timing.reason in {"stop", "length"}:
        whole = first + sum(gaps)
return (first, between, whole)
""",
            "ch02.5": """
if whole is None:
    continue
if first > slo.ttft:
    continue
if between is not None and between > slo.tpot:
    continue
good += 1
""",
        },
    ),
    Variant(
        "errors caught",
        {
            "ch02.3": """
try:
    first, *_ = timing.token_times
except ValueError:
    return (None,) * 3
last, gaps = timing.token_times[-1], len(timing.token_times) - 1
return (
    first - timing.arrival_time,
    gaps and (last - first) / gaps or (0.0 if gaps else None),
    last - timing.arrival_time if timing.reason in COMPLETED else None,
)
""",
            "ch02.5": "good += whole is not None and max(first - slo.ttft, (between or 0) - slo.tpot) <= 0",
        },
    ),
    Variant(
        "no TPOT is as good as none to wait for",
        {
            "ch02.5": "if whole is not None and first <= slo.ttft and not (between and between > slo.tpot):\n    good += 1"
        },
    ),
    Variant(
        "a weighted mean of two neighbours",
        {
            "ch02.4": """
import math

share, low = math.modf(q * (len(ordered) - 1) / 100)
below = ordered[int(low)]
if share == 0:
    return float(below)
return (1 - share) * below + share * ordered[int(low) + 1]
"""
        },
    ),
    Variant(
        "counting gaps from the bottom",
        {
            "ch02.4": """
left = (len(ordered) - 1) * q / 100
value = ordered[0]
for sooner, later in zip(ordered, ordered[1:]):
    value += min(max(left, 0), 1) * (later - sooner)
    left -= 1
return value
"""
        },
    ),
    Variant("numpy", {"ch02.4": "import numpy\n\nreturn float(numpy.percentile(ordered, q))"}),
    Variant(
        "doubling, then halving",
        {
            "ch02.6": """
def bound(batch):
    compute, memory = roofline.times(batch, batch * context, batch * context)
    return compute >= memory


one, two = roofline.times(1, context, context), roofline.times(2, 2 * context, 2 * context)
if two[1] - one[1] >= two[0] - one[0]:
    return None
high = 1
while not bound(high):
    high *= 2
low = high // 2
while high - low > 1:
    middle = (low + high) // 2
    low, high = (low, middle) if bound(middle) else (middle, high)
return high
"""
        },
    ),
    Variant(
        "from an empty step",
        {
            "ch02.6": """
_, weights = roofline.times(0, 0, 0)
compute, memory = roofline.times(1, context, context)
gain = compute - (memory - weights)
return max(1, -int(-weights // gain)) if gain > 0 else None
"""
        },
    ),
]
