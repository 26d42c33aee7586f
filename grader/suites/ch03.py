"""Chapter 3's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch03``; only the workloads are new here. Times and rates are multiples of
1/8, so that every key is exact and right answers of any form agree.
"""

from __future__ import annotations

import random
from typing import Any

from decodelab.check.ch03.cases import (
    COARSE,
    FCFS,
    MIXED,
    PRIORITY,
    RATIO,
    SJF,
    URGENT,
    adds,
    ask,
    newcomers,
    order,
    pops,
    script,
    shares,
    turns,
)
from decodelab.check.ch03.spec import Policy
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import both

QUEUES: list[Case] = [
    script("one-by-one", SJF, *([*adds(ask(i, float(i))), *pops(float(i))] for i in range(5)), pops(9.0)),
    script("all-alike", FCFS, adds(*(ask(i, 0.0) for i in (12, 3, 100, 21))), pops(*map(float, range(5)))),
    script(
        "cancel-the-next",
        SJF,
        adds(*(ask(i, 0.0, i) for i in (1, 2, 3))),
        [["cancel", 1]],
        pops(0.0, 1.0, 2.0),
    ),
    script(
        "cancel-after-service",
        FCFS,
        adds(ask(1, 0.0), ask(2, 0.0)),
        pops(0.0),
        [["cancel", 1]],
        pops(1.0, 2.0),
    ),
    script(
        "an-id-comes-back", SJF, adds(ask(1, 0.0, 9)), [["cancel", 1]], adds(ask(2, 1.0, 5)), pops(1.0, 2.0)
    ),
    script(
        "ratios-cross",
        RATIO,
        adds(ask(1, 0.0, 100), ask(2, 50.0, 10)),
        pops(60.0),
        adds(ask(3, 60.0, 1)),
        pops(61.0, 61.5),
    ),
    script(
        "many", SJF, adds(*(ask(i, 0.0, 1 + i * 37 % 50) for i in range(60))), pops(*map(float, range(61)))
    ),
    script(
        "coarse-many",
        COARSE,
        adds(*(ask(50 - i, 0.0, priority=i % 2) for i in range(20))),
        pops(*map(float, range(21))),
    ),
]
TWO: list[Case] = [
    script(
        "burst-1",
        FCFS,
        adds(*(ask(i, 0.0, priority=i % 2) for i in range(9))),
        pops(*map(float, range(10))),
        burst=1,
    ),
    script(
        "negative-priorities-are-normal",
        FCFS,
        adds(ask(1, 0.0, priority=-1), ask(2, 0.0), ask(3, 1.0, priority=7)),
        pops(1.0, 2.0, 3.0),
        burst=2,
    ),
    script(
        "guard-with-a-cancelled-one",
        SJF,
        adds(*(ask(i, 0.0, i, **URGENT) for i in (1, 2, 3)), ask(4, 0.0, 1), ask(5, 0.0, 2)),
        pops(0.0),
        [["cancel", 4]],
        pops(1.0, 2.0, 3.0, 4.0),
        burst=1,
    ),
    script(
        "long-row",
        FCFS,
        adds(*(ask(i, 0.0, **URGENT) for i in range(30)), *(ask(100 + i, 0.0) for i in range(3))),
        pops(*map(float, range(34))),
        burst=9,
    ),
]
AGED: list[Case] = [
    order("older-and-smaller", ("Aging", SJF, 1.0), ask(1, 0.0, 5, 1), ask(2, 2.0, 6, 1)),
    order(
        "long-waits",
        ("Aging", SJF, 0.5),
        ask(1, 0.0, 900, 100),
        ask(2, 1990.0, 3, 1),
        ask(3, 1500.0, 400, 1),
        nows=(2000.0, 9000.0),
    ),
    order("over-arrivals", ("Aging", FCFS, 1.0), ask(3, 2.5), ask(1, 2.25), ask(2, 2.25), nows=(3.0,)),
    order(
        "own-size",
        ("Aging", ("SJF", "prompt_len"), 1.0),
        ask(1, 0.0, 5, 900),
        ask(2, 1.0, 6, 1),
        ask(3, 2.0, 2, 50),
    ),
    script("newcomers-slow", ("Aging", SJF, 0.5), newcomers(ask(1, 0.0, 6, 6), 2, 20)),
    script(
        "newcomers-over-priority",
        ("Aging", PRIORITY, 0.25),
        adds(ask(1, 0.0)),
        *([*adds(ask(10 + i, float(i), priority=2)), *pops(float(i))] for i in range(14)),
    ),
]
SHARES: list[Case] = [
    shares("scaled", "jain-index", [1e6, 3e6], "Units do not count.", "与单位无关。"),
    shares(
        "k-of-n",
        "jain-index",
        [2.0, 2.0, 0.0, 0.0, 0.0],
        "k of n that share evenly give k/n.",
        "n 个里 k 个平分，指数是 k/n。",
    ),
    shares("single", "equal-is-one", [7.0], "One alone is equal to itself.", "只有一个，自然相等。"),
    shares("small", "jain-index", [1e-6, 3e-6], "Units do not count.", "与单位无关。"),
]
ROBIN: list[Case] = [
    {
        "name": "exact-multiple",
        "slice": 3,
        "script": [*adds(ask(1, 0.0, tokens=6), ask(2, 0.0, tokens=3)), *turns(4)],
    },
    {
        "name": "slice-1",
        "slice": 1,
        "script": [*adds(*(ask(i, 0.0, tokens=i) for i in (1, 2, 3))), *turns(7)],
    },
    {
        "name": "cancel-the-next",
        "slice": 2,
        "script": [*adds(*(ask(i, 0.0, tokens=5) for i in (1, 2, 3))), *turns(1), ["cancel", 2], *turns(7)],
    },
    {
        "name": "late",
        "slice": 2,
        "script": [
            *turns(1),
            *adds(ask(1, 1.0, tokens=1)),
            *turns(2),
            *adds(ask(2, 3.0, tokens=3)),
            *turns(3),
        ],
    },
    {"name": "long", "slice": 7, "script": [*adds(ask(1, 0.0, 1, 40), ask(2, 0.0, 500, 9)), *turns(9)]},
]
TIMED: list[Case] = [
    script(
        "several-late", FCFS, adds(*(ask(i, float(i)) for i in range(6))), pops(6.5, 7.0, 8.0), timeout=4.0
    ),
    script(
        "late-behind",
        SJF,
        adds(ask(1, 0.0, 50), ask(2, 3.0, 2), ask(3, 3.0, 3)),
        pops(4.5, 5.0, 6.0),
        timeout=4.0,
    ),
    script("served-then-old", FCFS, adds(ask(1, 0.0), ask(2, 9.0)), pops(1.0, 9.0, 10.0), timeout=4.0),
    script(
        "cancelled-then-late", FCFS, adds(ask(1, 0.0), ask(2, 0.0)), [["cancel", 2]], pops(9.0), timeout=1.0
    ),
]
DIRECTED: dict[str, list[Case]] = {
    "ch03.1": [
        order("in-step", FCFS, ask(1, 1.0), ask(2, 2.0), ask(3, 3.0)),
        order("close", FCFS, ask(1, 0.625), ask(2, 0.5), ask(3, 0.125), ask(4, 1000.0), ask(5, 999.875)),
        order("ids-of-two-digits", FCFS, ask(10, 1.0), ask(9, 1.0), ask(100, 1.0)),
        order(
            "nothing-else",
            FCFS,
            ask(1, 1.0, 1, 1, priority=9),
            ask(2, 0.5, 900, 900, priority=-9),
            nows=(1.0, 500.0),
        ),
    ],
    "ch03.2": [
        order("large", SJF, ask(1, 0.0, 100_000, 1), ask(2, 1.0, 1, 99_999), ask(3, 2.0, 50_000, 50_000)),
        order("ties-by-arrival", SJF, ask(1, 3.0), ask(2, 2.5), ask(3, 2.25, 1, 7), ask(10, 2.25, 7, 1)),
        order(
            "nothing-else", SJF, ask(1, 0.0, 9, priority=9), ask(2, 5.0, 2, priority=-9), nows=(5.0, 500.0)
        ),
        order(
            "own-size", ("SJF", "max_new_tokens"), ask(1, 0.0, 1, 3), ask(2, 0.0, 900, 2), ask(3, 1.0, 1, 2)
        ),
    ],
    "ch03.3": QUEUES,
    "ch03.4": TWO,
    "ch03.5": AGED,
    "ch03.6": SHARES,
    "ch03.7": ROBIN,
    "ch03.8": TIMED,
}


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    makers = {
        "ch03.1": lambda: orders(rng, FCFS),
        "ch03.2": lambda: orders(rng, rng.choice([SJF, ("SJF", "prompt_len"), ("SJF", "prompt_len", 8)])),
        "ch03.3": lambda: queue(rng, rng.choice([FCFS, SJF, PRIORITY, COARSE, RATIO])),
        "ch03.4": lambda: queue(rng, rng.choice([FCFS, SJF, COARSE]), burst=rng.randint(1, 4)),
        "ch03.5": lambda: rng.choice([orders, queue])(rng, aging(rng)),
        "ch03.6": lambda: drawn_shares(rng),
        "ch03.7": lambda: robin(rng),
        "ch03.8": lambda: queue(
            rng,
            rng.choice([FCFS, SJF]),
            timeout=rng.randint(0, 40) / 8,
            **rng.choice([{}, {"burst": rng.randint(1, 4)}]),
        ),
    }
    return [makers[todo]() | {"name": f"drawn-{i}", "drawn": True} for i in range(6)]


def aging(rng: random.Random) -> Policy:
    """Aging around some policy."""
    return (
        "Aging",
        rng.choice([SJF, PRIORITY, MIXED, ("SJF", "prompt_len", 8), ("Aging", SJF, 1.0)]),
        rng.choice([0.25, 0.5, 1.0, 2.0, 8.0]),
    )


def drawn_ids(rng: random.Random, most: int, how_many: int) -> list[int] | list[str]:
    """Ids of one kind: numbers, or now and then words."""
    ids = rng.sample(range(most), how_many)
    return [f"r{i}" for i in ids] if rng.random() < 0.25 else ids


def asked(rng: random.Random, request_id: int | str, now: float) -> dict[str, Any]:
    """A request among few distinct values, so that ties at every field are common."""
    return ask(request_id, now, rng.randint(1, 9), rng.randint(1, 9), priority=rng.randint(-1, 3))


def orders(rng: random.Random, policy: Policy) -> Case:
    """A handful of requests, and two moments after they came."""
    ids = drawn_ids(rng, 120, rng.randint(2, 8))
    requests = [asked(rng, i, rng.randint(0, 24) / 8) for i in ids]
    return order("", policy, *requests, nows=(3.0, 3.0 + rng.randint(1, 99)))


def queue(rng: random.Random, policy: Policy, **more: Any) -> Case:
    """Arrivals, cancels and pops on a clock that goes on by eighths."""
    now, orders, ids = 0.0, list[list[Any]](), drawn_ids(rng, 200, 30)
    known: list[int | str] = []
    for _ in range(rng.randint(10, 40)):
        now += rng.randint(0, 8) / 8
        what = rng.random()
        if what < 0.5 and ids:
            known.append(ids.pop())
            orders += adds(asked(rng, known[-1], now))
        elif what < 0.6 and known:
            orders.append(["cancel", rng.choice(known)])
        else:
            orders += pops(now)
    return script("", policy, orders, pops(*(now + i for i in range(len(known) + 1))), **more)


def robin(rng: random.Random) -> Case:
    """As ``queue``, with turns."""
    case = queue(rng, FCFS)
    order = {"pop": "turn"}
    steps = [[order.get(name, name), argument] for name, argument in case["script"]]
    return {"slice": rng.randint(1, 5), "script": [*steps, *turns(20)]}


def drawn_shares(rng: random.Random) -> Case:
    """Some shares, a few of them nothing."""
    values = [rng.choice([0.0, rng.randint(1, 99) / 8, rng.random()]) for _ in range(rng.randint(1, 12))]
    return shares(
        "", "jain-index", values, "(sum)² over n times the sum of squares.", "和的平方，除以 n 乘平方和。"
    )


def wrong(todo: str, name: str, code: str, rule: str, en: str = "", zh: str = "") -> Variant:
    """A wrong answer; ``en`` and ``zh`` name the mistake where a student should be told so."""
    return Variant(name, {todo: code}, rule=rule, looks=both(en=en, zh=zh) if en else None)


SIZE, ARRIVAL, ID = "self.size(request)", "request.arrival_time", "request.request_id"
POLICIES = [
    wrong("ch03.1", "by id", f"return ({ID},)", "earlier-first", "an order by id alone", "只按 id 排"),
    wrong(
        "ch03.1",
        "newest first",
        f"return (-{ARRIVAL}, {ID})",
        "earlier-first",
        "last in, first out (LIFO)",
        "后来先服务（LIFO）",
    ),
    wrong(
        "ch03.1",
        "no tie-break",
        f"return ({ARRIVAL},)",
        "no-ties",
        "a key that is the arrival time alone",
        "键里只有到达时间",
    ),
    wrong("ch03.1", "newest id wins ties", f"return ({ARRIVAL}, -{ID})", "lowest-id-last-resort"),
    wrong(
        "ch03.1",
        "id as text",
        f"return ({ARRIVAL}, str({ID}))",
        "lowest-id-last-resort",
        'ids compared as text: "10" is before "9"',
        "把 id 当文本比：“10”排在“9”前面",
    ),
    wrong(
        "ch03.1",
        "whole seconds",
        f"return (int({ARRIVAL}), {ID})",
        "earlier-first",
        "arrivals rounded to whole seconds",
        "到达时间取整到了秒",
    ),
    wrong(
        "ch03.1",
        "priority in front",
        f"return (-request.priority, {ARRIVAL}, {ID})",
        "earlier-first",
        "PriorityOrder",
        "PriorityOrder",
    ),
    wrong("ch03.1", "short ones in front", f"return (request.prompt_len, {ARRIVAL}, {ID})", "earlier-first"),
    wrong(
        "ch03.2",
        "longest first",
        f"return (-{SIZE}, {ARRIVAL}, {ID})",
        "shorter-first",
        "longest job first",
        "长作业优先",
    ),
    wrong(
        "ch03.2",
        "prompt only",
        f"return (request.prompt_len, {ARRIVAL}, {ID})",
        "shorter-first",
        "a size that is the prompt alone",
        "只看提示词长度",
    ),
    wrong(
        "ch03.2",
        "answer only",
        f"return (request.max_new_tokens, {ARRIVAL}, {ID})",
        "shorter-first",
        "a size that is the answer alone",
        "只看回答长度",
    ),
    wrong(
        "ch03.2",
        "the longer of the two",
        f"return (max(request.prompt_len, request.max_new_tokens), {ARRIVAL}, {ID})",
        "shorter-first",
    ),
    wrong(
        "ch03.2",
        "tokens counted by itself",
        f"return (total_tokens(request), {ARRIVAL}, {ID})",
        "asks-size",
        "a size of its own, where self.size was to be asked",
        "没有调用 self.size，自己算了大小",
    ),
    wrong("ch03.1", "moves with the clock", f"return ({ARRIVAL} - now, {ID})", "static-key"),
    wrong("ch03.2", "size never called", f"return (self.size, {ARRIVAL}, {ID})", "calls-size"),
    wrong("ch03.2", "whole sizes", f"return (int({SIZE}), {ARRIVAL}, {ID})", "asks-size"),
    wrong(
        "ch03.2",
        "first come, first served",
        f"return ({ARRIVAL}, {SIZE}, {ID})",
        "shorter-first",
        "first come, first served",
        "先来先服务",
    ),
    wrong(
        "ch03.2",
        "no tie-break",
        f"return ({SIZE},)",
        "no-ties",
        "a key that is the size alone",
        "键里只有大小",
    ),
    wrong(
        "ch03.2",
        "ties by id",
        f"return ({SIZE}, {ID})",
        "earlier-first",
        "ties that go by id at once",
        "大小相同就直接比 id",
    ),
    wrong("ch03.2", "ties to the newest", f"return ({SIZE}, -{ARRIVAL}, {ID})", "earlier-first"),
    wrong("ch03.2", "sizes cut at a hundred", f"return (min({SIZE}, 100), {ARRIVAL}, {ID})", "shorter-first"),
    wrong("ch03.2", "remaining wait", f"return ({SIZE} - now, {ARRIVAL}, -{ID})", "lowest-id-last-resort"),
]
EMPTY = "if not self.waiting:\n    return None\n"
TAKE = "return self.waiting.pop(request.request_id)"
MIN = "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, {now}), r.request_id))\n"
QUEUE_ANSWERS = [
    wrong(
        "ch03.3",
        "first in, first out",
        EMPTY + "return self.waiting.pop(next(iter(self.waiting)))",
        "smallest-key",
        "first in, first out (FIFO)",
        "先进先出（FIFO）",
    ),
    wrong(
        "ch03.3",
        "largest key",
        EMPTY + MIN.format(now="now").replace("min(", "max(") + TAKE,
        "smallest-key",
        "the largest key instead of the smallest",
        "取了键最大的",
    ),
    wrong(
        "ch03.3",
        "arrival instead of the policy",
        EMPTY + "request = min(self.waiting.values(), key=lambda r: (r.arrival_time, r.request_id))\n" + TAKE,
        "smallest-key",
        "an order of its own, where the policy was to be asked",
        "没有问策略，自己定了次序",
    ),
    wrong(
        "ch03.3",
        "never taken out",
        EMPTY + MIN.format(now="now") + "return request",
        "served-once",
        "a request that stays in the queue when it is served",
        "服务过的请求还留在队列里",
    ),
    wrong("ch03.3", "no answer for an empty queue", MIN.format(now="now") + TAKE, "no-exception"),
    wrong(
        "ch03.3",
        "the last one never leaves",
        "if len(self.waiting) < 2:\n    return None\n" + MIN.format(now="now") + TAKE,
        "work-conserving",
    ),
    wrong(
        "ch03.3",
        "keys of the beginning",
        EMPTY + MIN.format(now="0.0") + TAKE,
        "key-of-now",
        "keys of another moment than this pop's",
        "用的不是这次 pop 时刻的键",
    ),
    wrong(
        "ch03.3",
        "keys kept from the first look",
        EMPTY
        + """
keys = self.__dict__.setdefault("keys", {})
for r in self.waiting.values():
    keys.setdefault(r.request_id, self.policy.key(r, now))
request = min(self.waiting.values(), key=lambda r: (keys[r.request_id], r.request_id))
"""
        + TAKE,
        "key-of-now",
    ),
    wrong(
        "ch03.3",
        "last among equals",
        EMPTY
        + MIN.format(now="now")
        .replace(", r.request_id)", ",)")
        .replace("self.waiting.values()", "reversed(self.waiting.values())")
        + TAKE,
        "ties-by-id",
        "the newest of those with equal keys",
        "键相等时取了最晚加入的",
    ),
    wrong(
        "ch03.3",
        "first among equals",
        EMPTY + MIN.format(now="now").replace(", r.request_id)", ",)") + TAKE,
        "ties-by-id",
        "the one added first of those with equal keys",
        "键相等时取了先加入的",
    ),
    wrong(
        "ch03.3",
        "a list that forgets no one",
        """
line = self.__dict__.setdefault("line", [])
line += [r for r in self.waiting.values() if r not in line]
if not line:
    return None
request = min(line, key=lambda r: self.policy.key(r, now))
line.remove(request)
self.waiting.pop(request.request_id, None)
return request
""",
        "cancelled-never-served",
        "a list beside the queue from which cancel takes nothing out",
        "另存了一份列表，取消时没有从里面删",
    ),
    wrong(
        "ch03.3",
        "the id returned",
        EMPTY + MIN.format(now="now") + "return self.waiting.pop(request.request_id).request_id",
        "returns-the-request",
    ),
    wrong(
        "ch03.3",
        "the first ten only",
        EMPTY
        + "request = min(list(self.waiting.values())[:10], key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + TAKE,
        "smallest-key",
    ),
]
GUARD = """
if self.normal.waiting and ({turn}):
    self.row = 0
    return self.normal.pop(now)
{count}
return self.urgent.pop(now)
"""
COUNT = "if self.urgent.waiting:\n    self.row += 1"
FULL, ALONE = "self.row >= self.burst", "not self.urgent.waiting"
TWO_ANSWERS = [
    wrong(
        "ch03.4",
        "no guard",
        GUARD.format(turn=ALONE, count=COUNT),
        "burst-guard",
        "urgent ones first, without any guard",
        "紧急的一直先走，没有保险",
    ),
    wrong(
        "ch03.4",
        "normal first",
        GUARD.format(turn="True", count=COUNT),
        "urgent-first",
        "normal ones first",
        "普通的先走",
    ),
    wrong(
        "ch03.4",
        "one too many",
        GUARD.format(turn=f"self.row > self.burst or {ALONE}", count=COUNT),
        "burst-guard",
        "a guard that lets one more go",
        "保险多放走了一个",
    ),
    wrong(
        "ch03.4",
        "one too few",
        GUARD.format(turn=f"self.row >= self.burst - 1 or {ALONE}", count=COUNT),
        "urgent-first",
        "a guard that comes one too early",
        "保险早了一个",
    ),
    wrong(
        "ch03.4",
        "row never reset",
        GUARD.format(turn=f"{FULL} or {ALONE}", count=COUNT).replace("    self.row = 0\n", ""),
        "urgent-first",
        "a count that is never set back to 0",
        "计数没有归 0",
    ),
    wrong(
        "ch03.4",
        "a full row lets nobody in",
        GUARD.format(turn=f"{FULL} or {ALONE}", count=f"if {FULL}:\n    return None\n{COUNT}"),
        "work-conserving",
        "an urgent one that waits for a normal one who is not there",
        "没有普通的在等，紧急的也不让走",
    ),
    wrong(
        "ch03.4",
        "idle turns count",
        GUARD.format(turn=f"{FULL} or {ALONE}", count="self.row += 1"),
        "urgent-first",
        "a count that grows while nobody is served",
        "没有服务人，计数也在涨",
    ),
    wrong(
        "ch03.4",
        "an idle turn resets",
        GUARD.format(turn=f"{FULL} or {ALONE}", count=f"{COUNT}\nelse:\n    self.row = 0"),
        "burst-guard",
        "a count that an idle moment sets back",
        "空闲一下，计数就归 0 了",
    ),
    wrong(
        "ch03.4",
        "counts only while a normal one waits",
        GUARD.format(turn=f"{FULL} or {ALONE}", count="if self.normal.waiting:\n    self.row += 1"),
        "burst-guard",
        "a count of those alone that passed a waiting normal one",
        "只数越过了普通请求的那些",
    ),
    wrong(
        "ch03.4",
        "a normal one alone does not reset",
        GUARD.format(turn=f"{FULL} or {ALONE}", count=COUNT).replace(
            "    self.row = 0\n", "    self.row = 0 if self.urgent.waiting else self.row\n"
        ),
        "urgent-first",
    ),
    wrong(
        "ch03.4",
        "by turns",
        "self.row += 1\nfirst, second = (self.urgent, self.normal) if self.row % 2 else (self.normal, self.urgent)\nreturn first.pop(now) or second.pop(now)",
        "urgent-first",
        "both classes by turns",
        "两级轮流",
    ),
    wrong("ch03.4", "urgent ones only", "return self.urgent.pop(now)", "work-conserving"),
]
AGING = "first, *rest = self.policy.key(request, now)\n"
WAITED = "(now - request.arrival_time)"
AGING_ANSWERS = [
    wrong(
        "ch03.5",
        "no aging",
        "return self.policy.key(request, now)",
        "bounded-wait",
        "the inner policy, without aging",
        "内层策略，没有老化",
    ),
    wrong(
        "ch03.5",
        "waiting counts against",
        AGING + f"return (first + self.rate * {WAITED}, *rest)",
        "bounded-wait",
        "a wait that makes the key larger",
        "等得越久键越大",
    ),
    wrong(
        "ch03.5",
        "the clock instead of the wait",
        AGING + "return (first - self.rate * now, *rest)",
        "bounded-wait",
    ),
    wrong(
        "ch03.5",
        "rate ignored",
        AGING + f"return (first - {WAITED}, *rest)",
        "earlier-first",
        "a rate of 1, whatever was asked",
        "不管给的是什么，rate 都当成 1",
    ),
    wrong(
        "ch03.5",
        "divided by the rate",
        AGING + f"return (first - {WAITED} / (self.rate or 1), *rest)",
        "earlier-first",
    ),
    wrong(
        "ch03.5",
        "rest dropped",
        AGING + f"return (first - self.rate * {WAITED},)",
        "no-ties",
        "a key without its tie-break",
        "丢掉了打破平局的字段",
    ),
    wrong(
        "ch03.5",
        "tokens instead of the policy",
        f"return (total_tokens(request) - self.rate * {WAITED}, request.arrival_time, request.request_id)",
        "size-still-counts",
        "sizes of its own, where the inner policy was to be asked",
        "没有问内层策略，自己算了大小",
    ),
    wrong(
        "ch03.5",
        "whole seconds",
        AGING + f"return (first - self.rate * int{WAITED}, *rest)",
        "size-still-counts",
        "waits in whole seconds",
        "等待时间取整到了秒",
    ),
    wrong(
        "ch03.5",
        "credit capped",
        AGING + f"return (first - self.rate * min({WAITED}, 5), *rest)",
        "earlier-first",
        "waiting that counts for some seconds only",
        "等待只在前几秒有用",
    ),
    wrong(
        "ch03.5",
        "who waits goes first",
        AGING + f"return (-{WAITED}, first, *rest)",
        "size-still-counts",
        "first come, first served",
        "先来先服务",
    ),
    wrong(
        "ch03.5",
        "every field aged",
        f"return tuple(field - self.rate * {WAITED} for field in self.policy.key(request, now))",
        "urgent-first",
    ),
    wrong(
        "ch03.5",
        "the inner key of the arrival",
        AGING.replace("now)", "request.arrival_time)") + f"return (first - self.rate * {WAITED}, *rest)",
        "bounded-wait",
    ),
    wrong(
        "ch03.5",
        "a ratio",
        AGING + f"return (first / (1 + self.rate * {WAITED}), *rest)",
        "size-still-counts",
        "a quotient instead of a difference",
        "用了除法，不是减法",
    ),
]
JAIN_ANSWERS = [
    wrong(
        "ch03.6",
        "no square",
        "total = sum(x * x for x in values)\nreturn sum(values) / (len(values) * total) if total else 1.0",
        "equal-is-one",
        "a sum that is not squared",
        "和没有平方",
    ),
    wrong(
        "ch03.6",
        "no n",
        "total = sum(x * x for x in values)\nreturn sum(values) ** 2 / total if total else 1.0",
        "equal-is-one",
        "an index without the n below",
        "分母里漏了 n",
    ),
    wrong(
        "ch03.6",
        "square of the sum below",
        "total = sum(values) ** 2\nreturn total / (len(values) * total) if total else 1.0",
        "equal-is-one",
    ),
    wrong(
        "ch03.6",
        "smallest over largest",
        "return min(values) / max(values) if values and max(values) else 1.0",
        "one-takes-all",
        "the smallest over the largest",
        "最小值除以最大值",
    ),
    wrong(
        "ch03.6",
        "nothing is not looked at",
        "return sum(values) ** 2 / (len(values) * sum(x * x for x in values))",
        "no-exception",
    ),
    wrong(
        "ch03.6",
        "nobody counts as unfair",
        "total = len(values) * sum(x * x for x in values)\nreturn sum(values) ** 2 / total if total else 0.0",
        "nothing-to-share",
        "0 where there is nothing to compare",
        "没有可比的时候返回了 0",
    ),
    wrong(
        "ch03.6",
        "rounded",
        "total = len(values) * sum(x * x for x in values)\nreturn round(sum(values) ** 2 / total, 3) if total else 1.0",
        "jain-index",
    ),
]
ROBIN_ANSWER = """
if not self.turns:
    return None
request = self.turns.popleft()
tokens = min(self.slice_tokens, self.left[request.request_id])
self.left[request.request_id] -= tokens
if self.left[request.request_id]:
    self.turns.append(request)
return request, tokens
"""


def robin_wrong(name: str, old: str, new: str, rule: str, en: str = "", zh: str = "") -> Variant:
    """The reference with ``old`` replaced."""
    assert old in ROBIN_ANSWER, name
    return wrong("ch03.7", name, ROBIN_ANSWER.replace(old, new), rule, en, zh)


ROBIN_ANSWERS = [
    robin_wrong(
        "one slice and out",
        "self.turns.append(request)",
        "pass",
        "work-conserving",
        "a line that one leaves after one slice",
        "做完一个时间片就离开了队伍",
    ),
    robin_wrong(
        "back to the front",
        "append(",
        "appendleft(",
        "in-turn",
        "first come, first served, in slices",
        "先来先服务，只是切成了片",
    ),
    robin_wrong("newest first", "popleft()", "pop()", "in-turn", "the newest in line first", "队尾的先走"),
    robin_wrong(
        "the whole rest",
        "min(self.slice_tokens, self.left[request.request_id])",
        "self.left[request.request_id]",
        "slice-bound",
        "no slice at all: everything at once",
        "没有切片，一次做完",
    ),
    robin_wrong(
        "always a full slice",
        "min(self.slice_tokens, self.left[request.request_id])",
        "self.slice_tokens",
        "tokens-conserved",
        "a full slice even where less is left",
        "剩得不够也给满一个时间片",
    ),
    robin_wrong(
        "tokens never taken off",
        "self.left[request.request_id] -= tokens\n",
        "",
        "tokens-conserved",
        "a rest that never shrinks",
        "剩余的 token 没有减",
    ),
    robin_wrong(
        "finished ones stay",
        "if self.left[request.request_id]:",
        "if True:",
        "served-once",
        "a line that finished requests stay in",
        "完成的请求还留在队里",
    ),
    robin_wrong(
        "the last token is lost",
        "if self.left[request.request_id]:",
        "if self.left[request.request_id] > 1:",
        "work-conserving",
    ),
    robin_wrong("no answer for an empty line", "if not self.turns:\n    return None\n", "", "no-exception"),
    robin_wrong(
        "tokens left instead of tokens",
        "return request, tokens",
        "return request, self.left[request.request_id]",
        "slice-bound",
    ),
]
LATE = "late = [r.request_id for r in self.waiting.values() if now - r.arrival_time > self.timeout]\n"
AWAY = 'for request_id in late:\n    self._leave(request_id, "timeout")\n'
NEXT = "request = self.queue.pop(now)\n"
OUT = "if request is not None:\n    del self.waiting[request.request_id]\nreturn request"
TIMED_ANSWERS = [
    wrong(
        "ch03.8",
        "nobody leaves",
        NEXT + OUT,
        "late-ones-leave",
        "a queue in which people wait for ever",
        "谁也不会超时",
    ),
    wrong(
        "ch03.8",
        "exactly then is too late",
        LATE.replace(">", ">=") + AWAY + NEXT + OUT,
        "work-conserving",
        "a timeout that strikes at exactly timeout seconds",
        "正好等于 timeout 就送走了",
    ),
    wrong(
        "ch03.8",
        "only the next one is looked at",
        """
while (request := self.queue.pop(now)) is not None:
    del self.waiting[request.request_id]
    if now - request.arrival_time <= self.timeout:
        return request
    self.gone[request.request_id] = "timeout"
return None
""",
        "leaves-with-a-reason",
        "late ones that leave only when it is their turn",
        "迟到的要等轮到才离开",
    ),
    wrong(
        "ch03.8",
        "a late one ends the search",
        NEXT
        + """
if request is None:
    return None
late = now - request.arrival_time > self.timeout
del self.waiting[request.request_id]
if late:
    self.gone[request.request_id] = "timeout"
    return None
return request
""",
        "work-conserving",
        "one late request that sends the machine idle",
        "碰到一个迟到的就空手而归",
    ),
    wrong(
        "ch03.8",
        "no reason",
        LATE
        + "for request_id in late:\n    del self.waiting[request_id]\n    self.queue.cancel(request_id)\n"
        + NEXT
        + OUT,
        "leaves-with-a-reason",
        "people who leave without a reason",
        "送走了却没有记原因",
    ),
    wrong(
        "ch03.8",
        "another reason",
        LATE + AWAY.replace("timeout", "cancelled") + NEXT + OUT,
        "leaves-with-a-reason",
    ),
    wrong(
        "ch03.8",
        "served ones keep waiting",
        LATE + AWAY + NEXT + "return request",
        "leaves-with-a-reason",
        "served requests that still count as waiting",
        "服务过的还算在等",
    ),
    wrong(
        "ch03.8",
        "late ones not cancelled",
        LATE
        + 'for request_id in late:\n    self.gone[request_id] = "timeout"\n    del self.waiting[request_id]\n'
        + NEXT
        + "if request is not None:\n    self.waiting.pop(request.request_id, None)\nreturn request",
        "late-ones-leave",
    ),
    wrong(
        "ch03.8",
        "served first, looked at afterwards",
        NEXT + LATE + "late = [i for i in late if request is None or i != request.request_id]\n" + AWAY + OUT,
        "late-ones-leave",
        "a check for late ones after the choice",
        "先选人，后查超时",
    ),
    wrong(
        "ch03.8",
        "the inner queue's dict",
        LATE.replace("self.waiting", "self.queue.waiting") + AWAY + NEXT + OUT,
        "no-exception",
    ),
    wrong(
        "ch03.8",
        "empty raises",
        LATE + AWAY + NEXT + "del self.waiting[request.request_id]\nreturn request",
        "no-exception",
    ),
]
WRONG: list[Variant] = [
    *POLICIES,
    *QUEUE_ANSWERS,
    *TWO_ANSWERS,
    *AGING_ANSWERS,
    *JAIN_ANSWERS,
    *ROBIN_ANSWERS,
    *TIMED_ANSWERS,
]

ANEW = """
class FCFS:
    static = True

    def key(self, request, now):
        return [request.arrival_time, request.request_id]


class SJF(FCFS):
    def __init__(self, size=total_tokens):
        self.size = size

    def key(self, request, now):
        return [self.size(request), *super().key(request, now)]
"""
QUEUE_ANEW = """
class PolicyQueue:
    def __init__(self, policy):
        self.policy, self.waiting = policy, {}

    def add(self, request, now):
        if request.request_id in self.waiting:
            raise ValueError("waits already")
        self.waiting[request.request_id] = request

    def cancel(self, request_id):
        self.waiting = {i: r for i, r in self.waiting.items() if i != request_id}

    def pop(self, now):
        line = sorted(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))
        for request in line[:1]:
            del self.waiting[request.request_id]
            return request
"""
CORRECT: list[Variant] = [
    Variant("lists, one class on the other, no marks", cells={"ch03-answer": ANEW}),
    Variant("nested fields", {"ch03.2": f"return ({SIZE}, ({ARRIVAL}, {ID}))"}),
    Variant("more fields than needed", {"ch03.1": f"return (0, {ARRIVAL}, {ID}, request.prompt_len)"}),
    Variant("a sorted line, no marks", cells={"ch03-answer-2": QUEUE_ANEW}),
    Variant(
        "a loop",
        {
            "ch03.3": """
best = None
for request_id in sorted(self.waiting):
    request = self.waiting[request_id]
    if best is None or self.policy.key(request, now) < self.policy.key(best, now):
        best = request
return best and self.waiting.pop(best.request_id)
"""
        },
    ),
    Variant(
        "a heap made anew",
        {
            "ch03.3": """
import heapq
heap = [(self.policy.key(r, now), r.request_id) for r in self.waiting.values()]
heapq.heapify(heap)
return self.waiting.pop(heap[0][1]) if heap else None
"""
        },
    ),
    Variant(
        "urgent one asked first",
        {
            "ch03.4": """
normal = bool(self.normal.waiting)
if self.urgent.waiting and not (normal and self.row >= self.burst):
    self.row += 1
    return self.urgent.pop(now)
if normal:
    self.row = 0
return self.normal.pop(now)
"""
        },
    ),
    Variant(
        "tried, then counted",
        {
            "ch03.4": """
queues = [self.urgent, self.normal]
if self.row >= self.burst:
    queues.reverse()
for queue in queues:
    request = queue.pop(now)
    if request is not None:
        self.row = self.row + 1 if request.priority > 0 else 0
        return request
return None
"""
        },
    ),
    Variant(
        "the static form", {"ch03.5": AGING + "return (first + self.rate * request.arrival_time, *rest)"}
    ),
    Variant(
        "by index",
        {
            "ch03.5": f"key = list(self.policy.key(request, now))\nkey[0] -= self.rate * {WAITED}\nreturn tuple(key)"
        },
    ),
    Variant(
        "by numpy",
        {
            "ch03.6": """
import numpy as np
x = np.array(values, dtype=float)
return float(x.mean() ** 2 / (x * x).mean()) if x.any() else 1.0
"""
        },
    ),
    Variant(
        "put back by its rest",
        {
            "ch03.7": """
if self.turns:
    request = self.turns[0]
    lacks = self.left[request.request_id]
    tokens = lacks if lacks < self.slice_tokens else self.slice_tokens
    self.left[request.request_id] = lacks - tokens
    self.turns.rotate(-1)
    if lacks == tokens:
        self.turns.pop()
    return [request, tokens]
"""
        },
    ),
    Variant(
        "late ones one by one",
        {
            "ch03.8": """
for request_id, waiting in list(self.waiting.items()):
    if waiting.arrival_time + self.timeout < now:
        self._leave(request_id, "timeout")
request = self.queue.pop(now)
self.waiting.pop(getattr(request, "request_id", None), None)
return request
"""
        },
    ),
]
EQUIVALENT = {"ch03.7:4 arguments 1 and 2 swapped": "the smaller of two numbers is the same either way round"}
