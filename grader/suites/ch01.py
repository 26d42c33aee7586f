"""Chapter 1's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch01``; only the workloads are new here.
"""

from __future__ import annotations

import random
from typing import Any

from decodelab.check.ch01.cases import ask, script
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

STEPS: list[Case] = [
    {"name": "one-token-requests", "script": script(*(ask(i, 1) for i in (3, 1, 2)))},
    {"name": "all-equal-but-id", "script": script(*(ask(i, 4) for i in (9, 30, 11, 2)))},
    {
        "name": "negative-and-zero-priority",
        "script": script(ask(1, 2, priority=-1), ask(2, 2), ask(3, 2, priority=1), ask(4, 2, priority=-7)),
    },
    {
        "name": "total-length-decides-in-decode",
        "script": script(
            ask(1, 4, max_new_tokens=5), ask(2, 2, max_new_tokens=6), ask(3, 3, max_new_tokens=1)
        ),
    },
    {
        "name": "miss-behind-steady-hits",
        "script": [
            ["enqueue", ask(1, 2, priority=9)],
            *(order for i in range(2, 8) for order in (["enqueue", ask(i, 2, cache_hit=True)], ["steps", 2])),
            ["steps", None],
        ],
    },
    {
        "name": "hit-after-a-miss-has-begun",
        "script": [
            ["enqueue", ask(1, 3)],
            ["steps", 2],
            ["enqueue", ask(2, 2, cache_hit=True)],
            ["steps", None],
        ],
    },
    {
        "name": "a-long-queue",
        "script": script(*(ask(i, 1 + i % 4, priority=i // 20) for i in range(40))),
    },
    {
        "name": "prefill-interrupts-decode",
        "script": [
            ["enqueue", ask(1, 3, priority=5, cache_hit=True)],
            ["steps", 3],
            ["enqueue", ask(2, 9, priority=-5)],
            ["steps", None],
        ],
    },
]

DIRECTED: dict[str, list[Case]] = {
    "ch01.1": [
        {
            "name": "more-bad-input",
            "requests": [
                ask(4, 1),
                *(ask(5, bad) for bad in (False, -7, 0.0, 3.0, None, [2])),
                *(ask(6, 3, max_new_tokens=bad) for bad in (False, 0, -1, 2.0, "2")),
                ask(4, 8, priority=3),
                ask(3, 2, priority=-2, cache_hit=True, max_new_tokens=1),
                ask(5, 2),
            ],
        },
        {"name": "long-ids", "requests": [ask(10**12, 1), ask(0, 3), ask(-3, 2), ask(0, 3), ask(10**12, 2)]},
        {
            "name": "an-old-id",
            "requests": [*(ask(i, 1) for i in range(30)), ask(2, 1), ask(30, 1), ask(29, 1)],
        },
        {
            "name": "several-finished",
            "requests": [ask(1, 1), ask(2, 1), ask(3, 2)],
            "after": 20,
            "then": [ask(3, 1), ask(1, 4), ask(4, 1)],
        },
    ],
    "ch01.2": [
        {
            "name": "field-order",
            "states": [ask(1, 9, cache_hit=True, phase="decode"), ask(2, 1, priority=9)],
        },
        {"name": "large-numbers", "states": [ask(1, 150), ask(2, 10**6), ask(1001, 5), ask(10**9, 5)]},
        {"name": "decode-total", "states": [ask(3, 4, generated_len=k, phase="decode") for k in range(4)]},
    ],
    "ch01.3": STEPS,
    "ch01.4": [
        {"name": "exact-bound", "requests": [ask(1, 2)], "runs": [3, 1]},
        {"name": "one-short-of-the-end", "requests": [ask(1, 2), ask(2, 1)], "runs": [4, 0, 1, 5]},
        {"name": "negative-first", "requests": [ask(1, 2)], "runs": [-5, 1, -1, 9]},
        {"name": "many-finishes", "requests": [ask(i, 1) for i in range(6)], "runs": [5, 5, 5]},
    ],
    "ch01.5": STEPS,
}


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    makers = {"ch01.1": enqueues, "ch01.2": keys, "ch01.3": strip, "ch01.4": runs, "ch01.5": strip}
    return [makers[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(6)]


def requests(rng: random.Random, most: int = 7) -> list[dict[str, Any]]:
    """Requests with distinct ids and few distinct values, so that ties at every field are common."""
    ids = rng.sample(range(100), rng.randint(1, most))
    return [
        ask(
            i,
            rng.randint(1, 4),
            priority=rng.randint(-1, 1),
            cache_hit=rng.random() < 0.5,
            max_new_tokens=rng.choice([None, 1, 2, 5]),
        )
        for i in ids
    ]


def enqueues(rng: random.Random) -> Case:
    """Good requests with refusals of every kind between them."""
    orders: list[dict[str, Any]] = []
    for request in requests(rng):
        orders.append(request)
        bad = rng.choice([0, -rng.randint(1, 9), True, rng.random(), None, str(rng.randint(1, 9))])
        orders.append(ask(200, bad))
        orders.append(ask(201, 3, max_new_tokens=rng.choice([0, -1, True, 1.5])))
        known = [r["request_id"] for r in orders if r["request_id"] < 200]
        orders.append(ask(rng.choice(known), rng.randint(1, 4)))
    return {"requests": orders}


def keys(rng: random.Random) -> Case:
    """A request, and twins of it that differ in one field each."""
    large = rng.choice([1, 10**6])
    base = ask(
        rng.randint(0, 99) * large,
        rng.randint(1, 30) * large,
        generated_len=rng.randint(0, 9),
        phase=rng.choice(["prefill", "decode"]),
        priority=rng.randint(-9, 9),
        cache_hit=rng.random() < 0.5,
    )
    twins = [
        base | {"phase": "decode" if base["phase"] == "prefill" else "prefill"},
        base | {"cache_hit": not base["cache_hit"]},
        base | {"priority": base["priority"] + rng.choice([-1, 1])},
        base | {"prompt_len": base["prompt_len"] + 1},
        base | {"generated_len": base["generated_len"] + 1},
        base | {"request_id": base["request_id"] + 1},
    ]
    rng.shuffle(twins)
    return {"states": [base, *twins]}


def strip(rng: random.Random) -> Case:
    """Requests that arrive between steps."""
    orders: list[list[Any]] = []
    for request in requests(rng):
        orders.append(["enqueue", request])
        if rng.random() < 0.5:
            orders.append(["steps", rng.randint(1, 4)])
    return {"script": [*orders, ["steps", None]]}


def runs(rng: random.Random) -> Case:
    """A handful of bounds, some of them negative."""
    bounds = [rng.choice([0, 1, 2, 3, 5, 8, -rng.randint(1, 5)]) for _ in range(rng.randint(2, 5))]
    return {"requests": requests(rng), "runs": [*bounds, None]}


REFUSALS = """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
"""
TAKEN = """
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
"""
APPEND = """
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
"""


def enqueue(name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 1."""
    return Variant(name, {"ch01.1": code}, rule=rule, looks=looks)


def key(name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 2; ``code`` is the tuple."""
    return Variant(name, {"ch01.2": f"return {code}"}, rule=rule, looks=looks)


def step(name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 3; ``active`` stands ready."""
    ready = "active = [r for r in self.queue if not r.done]\n"
    return Variant(name, {"ch01.3": ready + code}, rule=rule, looks=looks)


def run(name: str, code: str, rule: str, looks: Text | None = None, refuse: bool = True) -> Variant:
    """A wrong TODO 4, by default behind a right refusal of negative bounds."""
    refusal = 'if max_steps < 0:\n    raise ValueError("negative")\n'
    return Variant(name, {"ch01.4": (refusal if refuse else "") + code}, rule=rule, looks=looks)


PHASE, CACHE = '0 if req.phase == "prefill" else 1', "0 if req.cache_hit else 1"
NONE_LEFT = "if not active:\n    return None\n"

WRONG: list[Variant] = [
    enqueue("duplicate id accepted", REFUSALS + APPEND, "refuses-bad-input"),
    enqueue(
        "id free again once finished",
        REFUSALS + TAKEN.replace("self.queue)", "self.queue if not r.done)") + APPEND,
        "refuses-bad-input",
        both(
            en="an id that is free again as soon as its request has finished",
            zh="请求一完成，它的 id 就可以再用",
        ),
    ),
    enqueue("lengths not checked", TAKEN + APPEND, "refuses-bad-input"),
    enqueue(
        "bool taken for a length",
        REFUSALS.replace(
            "require_length", "(lambda n, v: None if isinstance(v, int) and v > 0 else require_length(n, v))"
        )
        + TAKEN
        + APPEND,
        "refuses-bad-input",
        both(
            en="a test with isinstance(value, int) alone: in Python True is an int, too",
            zh="只用 isinstance(value, int) 判断：在 Python 里 True 也是 int",
        ),
    ),
    enqueue(
        "zero output taken for default",
        REFUSALS.replace("max_new_tokens is not None", "max_new_tokens") + TAKEN + APPEND,
        "refuses-bad-input",
        both(
            en="`if max_new_tokens:` where `if max_new_tokens is not None:` is meant: 0 is false, too",
            zh="把 `if max_new_tokens is not None:` 写成了 `if max_new_tokens:`：0 也会当成假",
        ),
    ),
    enqueue(
        "appended before it is checked",
        APPEND + REFUSALS + TAKEN.replace("self.queue)", "self.queue[:-1])"),
        "unchanged-on-refusal",
        both(en="a queue that is changed first and checked afterwards", zh="先改了队列，然后才检查"),
    ),
    enqueue(
        "newest in front",
        REFUSALS + TAKEN + APPEND.replace("append(", "insert(0, "),
        "in-enqueue-order",
        both(en="a stack: the newest request is put in front", zh="用成了栈：新请求被放到最前面"),
    ),
    enqueue(
        "max_new_tokens dropped",
        REFUSALS + TAKEN + APPEND.replace(", max_new_tokens", ""),
        "fields",
        both(en="a request that is not told its max_new_tokens", zh="新建请求时漏掉了 max_new_tokens"),
    ),
    enqueue(
        "priority and cache_hit swapped",
        REFUSALS + TAKEN + APPEND.replace("priority, cache_hit", "cache_hit, priority"),
        "fields",
        both(
            en="priority and cache_hit handed over in each other's place",
            zh="priority 和 cache_hit 的位置弄反了",
        ),
    ),
    enqueue(
        "handed over by position",
        REFUSALS + TAKEN + APPEND.replace('0, "prefill", ', ""),
        "fields",
        both(
            en="arguments handed to RequestState by position: its third field is generated_len",
            zh="按位置把参数传给了 RequestState：它的第三个字段是 generated_len",
        ),
    ),
    enqueue("request returned", REFUSALS + TAKEN + APPEND + "return self.queue[-1]", "returns-nothing"),
    key(
        "decode before prefill",
        f'(0 if req.phase == "decode" else 1, {CACHE}, -req.priority, req.total_len, req.request_id)',
        "prefill-first",
    ),
    key("cache ignored", f"({PHASE}, 0, -req.priority, req.total_len, req.request_id)", "cache-first"),
    key(
        "miss before hit",
        f"({PHASE}, 1 if req.cache_hit else 0, -req.priority, req.total_len, req.request_id)",
        "cache-first",
    ),
    key(
        "priority sign",
        f"({PHASE}, {CACHE}, req.priority, req.total_len, req.request_id)",
        "priority-first",
        both(en="a priority without its minus sign", zh="priority 前面少了负号"),
    ),
    key(
        "priority before cache",
        f"({PHASE}, -req.priority, {CACHE}, req.total_len, req.request_id)",
        "cache-first",
        both(en="the priority in front of the cache rank", zh="priority 排到了缓存名次前面"),
    ),
    key(
        "longest first",
        f"({PHASE}, {CACHE}, -req.priority, -req.total_len, req.request_id)",
        "shortest-first",
        both(en="longest first", zh="长的优先"),
    ),
    key(
        "prompt length only",
        f"({PHASE}, {CACHE}, -req.priority, req.prompt_len, req.request_id)",
        "shortest-first",
        both(en="prompt_len where total_len is meant", zh="把 total_len 写成了 prompt_len"),
    ),
    key(
        "what is left instead of total",
        f"({PHASE}, {CACHE}, -req.priority, req.prompt_len - req.generated_len, req.request_id)",
        "shortest-first",
        both(
            en="shortest remaining time first: what is still to come instead of what is there",
            zh="最短剩余时间优先：看的是还剩多少，而不是现在有多少",
        ),
    ),
    key("no tie-break", f"({PHASE}, {CACHE}, -req.priority, req.total_len)", "key-shape"),
    key(
        "newest wins ties",
        f"({PHASE}, {CACHE}, -req.priority, req.total_len, -req.request_id)",
        "lowest-id-last-resort",
    ),
    enqueue(
        "ids compared with the last five only",
        REFUSALS + TAKEN.replace("self.queue)", "self.queue[-5:])") + APPEND,
        "refuses-bad-input",
    ),
    key(
        "length cut at a hundred",
        f"({PHASE}, {CACHE}, -req.priority, min(req.total_len, 100), req.request_id)",
        "shortest-first",
    ),
    key(
        "id modulo a thousand",
        f"({PHASE}, {CACHE}, -req.priority, req.total_len, req.request_id % 1000)",
        "lowest-id-last-resort",
    ),
    step(
        "the first ten active only",
        NONE_LEFT + "req = min(active[:10], key=self._schedule_key)",
        "priority-first",
    ),
    step(
        "gives up after sixty events",
        "if not active or len(self.timeline) >= 60:\n    return None\nreq = min(active, key=self._schedule_key)",
        "work-conserving",
    ),
    step(
        "the key written again",
        NONE_LEFT
        + f"req = min(active, key=lambda req: ({PHASE}, {CACHE}, -req.priority, req.total_len, req.request_id))",
        "asks-the-key",
    ),
    step(
        "first in, first out",
        NONE_LEFT + "req = active[0]",
        "cache-first",
        both(
            en="first in, first out (FIFO): the order of arrival decides, not the key",
            zh="先来先服务（FIFO）：按到达的先后选，没有按键来选",
        ),
    ),
    step(
        "last instead of best",
        NONE_LEFT + "req = active[-1]",
        "prefill-first",
        both(
            en="last in, first out (LIFO): the newest request goes first",
            zh="后来先服务（LIFO）：总是选最新的请求",
        ),
    ),
    step(
        "largest key",
        NONE_LEFT + "req = max(active, key=self._schedule_key)",
        "cache-first",
        both(en="the largest key instead of the smallest", zh="选了键最大的，而不是最小的"),
    ),
    step(
        "finished requests scheduled again",
        "if not self.queue:\n    return None\nreq = min(self.queue, key=self._schedule_key)",
        "skips-finished",
        both(
            en="a choice among all requests, the finished ones too", zh="在所有请求里选，连已完成的也算在内"
        ),
    ),
    step("no answer for an empty queue", "req = min(active, key=self._schedule_key)", "no-exception"),
    step(
        "key computed once",
        NONE_LEFT
        + 'for r in active:\n    r.__dict__.setdefault("key", self._schedule_key(r))\nreq = min(active, key=lambda r: r.key)',
        "prefill-first",
        both(
            en="keys that are computed once and kept, although they change with every step",
            zh="键只算了一次就一直沿用，可是每走一步键都会变",
        ),
    ),
    step(
        "one request to its end",
        NONE_LEFT
        + 'running = [r for r in active if r.phase == "decode"]\nreq = min(running or active, key=self._schedule_key)',
        "prefill-first",
        both(
            en="run to completion: whoever has begun keeps the machine to the end",
            zh="运行到完成：请求一旦开始，就一直占用机器直到结束",
        ),
    ),
    step(
        "finished requests dropped",
        "self.queue = active\n" + NONE_LEFT + "req = min(active, key=self._schedule_key)",
        "queue-keeps-order",
        both(en="a queue that finished requests are thrown out of", zh="把已完成的请求从队列里删掉了"),
    ),
    step(
        "only prefills while there are any, in order",
        NONE_LEFT
        + 'new = [r for r in active if r.phase == "prefill"]\nreq = new[0] if new else min(active, key=self._schedule_key)',
        "cache-first",
        both(
            en="prefills in order of arrival, and the key among decodes only",
            zh="prefill 按到达顺序选，只有 decode 才按键选",
        ),
    ),
    step(
        "static batching",
        """
batch = [r for r in getattr(self, "batch", []) if not r.done] or active
if not batch:
    return None
self.batch = batch
req = min(batch, key=self._schedule_key)
""",
        "prefill-first",
        both(
            en="static batching: newcomers wait until all who were there before them have finished",
            zh="静态批处理：新来的请求要等前一批全部完成",
        ),
    ),
    step(
        "round robin",
        NONE_LEFT + "req = active[len(self.timeline) % len(active)]",
        "cache-first",
        both(en="round robin: everybody in turn, whatever the key says", zh="轮转：大家轮流，不看键"),
    ),
    run(
        "the scan written again",
        "for _ in range(max_steps):\n    active = [r for r in self.queue if not r.done]\n    if not active:\n        break\n    self._advance(min(active, key=self._schedule_key))\nreturn self.timeline",
        "calls-step",
    ),
    run(
        "the class's own step",
        "for _ in range(max_steps):\n    if DecodeSchedulerSim.step(self) is None:\n        break\nreturn self.timeline",
        "calls-step",
    ),
    run(
        "bound off by one, above",
        "for _ in range(max_steps + 1):\n    if self.step() is None:\n        break\nreturn self.timeline",
        "bound",
        both(en="a bound that is one step too far", zh="上限多算了一步"),
    ),
    run(
        "bound off by one, below",
        "for _ in range(max_steps - 1):\n    if self.step() is None:\n        break\nreturn self.timeline",
        "bound",
        both(en="a bound that is one step too near", zh="上限少算了一步"),
    ),
    run(
        "counter not advanced",
        "made = 0\nwhile made < max_steps and self.step() is not None:\n    pass\nreturn self.timeline",
        "bound",
        both(
            en="a loop without a bound: it runs until nothing is left",
            zh="没有上限的循环：一直走到没有请求为止",
        ),
    ),
    run(
        "bound over all calls",
        "while len(self.timeline) < max_steps and self.step() is not None:\n    pass\nreturn self.timeline",
        "bound",
        both(
            en="a bound on the whole timeline, instead of on this call's steps",
            zh="上限算的是整条时间线，而不是本次调用的步数",
        ),
    ),
    run(
        "stops at the first finish",
        'for _ in range(max_steps):\n    event = self.step()\n    if event is None or event["action"] == "finish":\n        break\nreturn self.timeline',
        "bound",
        both(en="a loop that ends with the first finished request", zh="第一个请求一完成，循环就结束了"),
    ),
    run(
        "a step before the bound is looked at",
        "made = 0\nwhile self.step() is not None:\n    made += 1\n    if made >= max_steps:\n        break\nreturn self.timeline",
        "bound",
        both(en="a step that is made before the bound is looked at", zh="还没看上限就先走了一步"),
    ),
    run(
        "timeline copied",
        "for _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn list(self.timeline)",
        "returns-timeline",
        both(en="a copy of the timeline", zh="返回了时间线的副本"),
    ),
    run(
        "only this call's events returned",
        "before = len(self.timeline)\nfor _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline[before:]",
        "returns-timeline",
    ),
    run(
        "nothing returned",
        "for _ in range(max_steps):\n    if self.step() is None:\n        break",
        "returns-timeline",
    ),
    run(
        "negative bound accepted",
        "for _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
        "refuses-bad-input",
        refuse=False,
    ),
]

HEAP_STEP = """
if not self._heap:
    return None
key, req = heapq.heappop(self._heap)
event = self._advance(req)
if not req.done:
    heapq.heappush(self._heap, (self._schedule_key(req), req))
return event
"""


def fast(name: str, old: str, new: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 5: the heap's step with one line changed."""
    assert old in HEAP_STEP, old
    return Variant(name, {"ch01.5": HEAP_STEP.replace(old, new)}, rule=rule, looks=looks)


WRONG += [
    Variant("the scan again", {"ch01.5": "return super().step()"}, rule="scales"),
    Variant(
        "the heap made anew in every step",
        {
            "ch01.5": "self._heap = [(self._schedule_key(r), r) for r in self.queue if not r.done]\n"
            "heapq.heapify(self._heap)" + HEAP_STEP
        },
        rule="scales",
    ),
    fast(
        "key never renewed",
        "(self._schedule_key(req), req)",
        "(key, req)",
        "prefill-first",
        both(en="an entry that is pushed back with its old key", zh="放回堆里时还带着旧的键"),
    ),
    fast(
        "key renewed before the step",
        "event = self._advance(req)",
        "key = self._schedule_key(req)\nevent = self._advance(req)\n"
        "if not req.done:\n    heapq.heappush(self._heap, (key, req))\nreturn event",
        "prefill-first",
    ),
    fast(
        "not put back",
        "if not req.done:",
        "if False:",
        "work-conserving",
        both(
            en="a heap that a request leaves for good with its first step",
            zh="请求走了一步之后就没有放回堆里",
        ),
    ),
    fast(
        "put back when finished",
        "if not req.done:",
        "if True:",
        "skips-finished",
        both(en="a heap that finished requests are put back into", zh="已完成的请求也放回了堆里"),
    ),
    fast(
        "queue cut to the active ones",
        "return event",
        "self.queue = [r for _, r in self._heap]\nreturn event",
        "queue-keeps-order",
    ),
]

FAST = """
class FastDecodeSchedulerSim(DecodeSchedulerSim):
    def __init__(self):
        super().__init__()
        {make}

    def enqueue(self, *args, **kwargs):
        super().enqueue(*args, **kwargs)
        self._add(self.queue[-1])

    def _add(self, req):
        {add}

    def step(self):
        {take}
        event = self._advance(req)
        if not req.done:
            self._add(req)
        return event
"""

CORRECT: list[Variant] = [
    Variant(
        "sorted",
        {
            "ch01.3": "active = sorted((r for r in self.queue if not r.done), key=self._schedule_key)\nif not active:\n    return None\nreq = active[0]"
        },
    ),
    Variant(
        "a loop",
        {
            "ch01.3": """
req = None
for other in self.queue:
    if other.done:
        continue
    if req is None or self._schedule_key(other) < self._schedule_key(req):
        req = other
if req is None:
    return None
"""
        },
    ),
    Variant(
        "largest of the negated keys",
        {
            "ch01.3": "req = max((r for r in self.queue if not r.done), "
            "key=lambda r: tuple(-x for x in self._schedule_key(r)), default=None)\n"
            "if req is None:\n    return None"
        },
    ),
    Variant(
        "booleans as ranks",
        {
            "ch01.2": 'return (req.phase != "prefill", not req.cache_hit, -req.priority, req.total_len, req.request_id)'
        },
    ),
    Variant(
        "a counter",
        {
            "ch01.4": 'if max_steps < 0:\n    raise ValueError("negative")\nmade = 0\nwhile made != max_steps and self.step():\n    made += 1\nreturn self.timeline'
        },
    ),
    Variant(
        "ids in a set",
        {
            "ch01.1": REFUSALS
            + 'seen = {r.request_id for r in self.queue}\nif request_id in seen:\n    raise ValueError(f"{request_id} is taken")\nself.queue += [RequestState(request_id, prompt_len, priority=priority, cache_hit=cache_hit, max_new_tokens=max_new_tokens)]'
        },
    ),
    Variant(
        "a heap inside, filled by its own enqueue",
        {
            "ch01.1": REFUSALS
            + TAKEN
            + APPEND
            + 'self.__dict__.setdefault("heap", []).append((self._schedule_key(self.queue[-1]), self.queue[-1]))',
            "ch01.3": """
import heapq
heap = self.__dict__.setdefault("heap", [])
heap[:] = [(self._schedule_key(r), r) for _, r in heap if not r.done]
heapq.heapify(heap)
if not heap:
    return None
req = heap[0][1]
""",
        },
    ),
    Variant(
        "written anew, without the marks",
        cells={
            "ch01-answer": """
class DecodeSchedulerSim:
    def __init__(self):
        self.queue, self.timeline = [], []

    def enqueue(self, request_id, prompt_len, priority=0, cache_hit=False, max_new_tokens=None):
        for length in (prompt_len, 1 if max_new_tokens is None else max_new_tokens):
            if type(length) is not int or length <= 0:
                raise ValueError(f"not a length: {length!r}")
        if request_id in [r.request_id for r in self.queue]:
            raise ValueError("known id")
        self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))

    def _schedule_key(self, r):
        ranks = {"prefill": 0, "decode": 1}
        return ranks[r.phase], int(not r.cache_hit), -r.priority, r.total_len, r.request_id

    def _best(self):
        return min((r for r in self.queue if not r.done), key=self._schedule_key, default=None)

    def step(self):
        best = self._best()
        return best and self._advance(best)

    def _advance(self, r):
        served, r_was_new = r.phase, r.phase == "prefill"
        r.phase = "decode"
        r.generated_len += 0 if r_was_new else 1
        action = "prefill_to_decode" if r_was_new else "finish" if r.done else "decode_one_step"
        values = (r.request_id, served, action, r.prompt_len, r.generated_len)
        self.timeline.append(dict(zip(("request_id", "phase", "action", "prompt_len", "generated_len"), values)))
        return self.timeline[-1]

    def run(self, max_steps=100):
        if max_steps < 0:
            raise ValueError("negative")
        while max_steps > 0 and self.step() is not None:
            max_steps -= 1
        return self.timeline
"""
        },
    ),
    Variant(
        "a sorted list instead of a heap",
        cells={
            "ch01-answer-2": "import bisect\n"
            + FAST.format(
                make="self._sorted = []",
                add="bisect.insort(self._sorted, (self._schedule_key(req), req))",
                take="if not self._sorted:\n            return None\n        req = self._sorted.pop(0)[1]",
            )
        },
    ),
    Variant(
        "two heaps, prefill and decode",
        cells={
            "ch01-answer-2": "import heapq\n"
            + FAST.format(
                make="self._heaps = {'prefill': [], 'decode': []}",
                add="heapq.heappush(self._heaps[req.phase], (self._schedule_key(req), req))",
                take="heap = self._heaps['prefill'] or self._heaps['decode']\n        if not heap:\n"
                "            return None\n        req = heapq.heappop(heap)[1]",
            )
        },
    ),
]
