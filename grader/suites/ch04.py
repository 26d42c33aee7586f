"""Chapter 4's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch04``; only the workloads are new here.
"""

from __future__ import annotations

import random

from decodelab.check.ch04.cases import NO_LENGTHS, OTHER, STOP, room, times, tokens, walk
from decodelab.check.rules import Case
from decodelab.check.schedule.walk import job
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

WALKS: list[Case] = [
    walk("a-long-queue", 4, 20, *(job(i, 1 + i * 7 % 5, 1 + i * 5 % 9) for i in range(30))),
    walk("budget-is-the-limit", 16, 10, *(job(i, 3, 2 + i % 5) for i in range(14))),
    walk("one-slot", 1, 6, *(job(i, 1 + i % 6, 1 + i % 3, step=i // 2) for i in range(7))),
    walk("prompts-of-one", 8, 8, *(job(i, 1, 3) for i in range(20))),
    walk("large-then-small", 3, 10, job(1, 10, 2), job(2, 10, 2), *(job(i, 1, 5) for i in range(3, 9))),
    walk("all-finish-together", 3, 12, *(job(i, 4, 3) for i in range(9))),
    walk("everybody-aborts", 2, 8, *(job(i, 2, 9, abort_at=2 + i) for i in range(6))),
    walk("many-slots", 40, 400, *(job(i, 5, 1 + i % 13) for i in range(60))),
    walk(
        "priorities",
        2,
        9,
        *(job(i, 1 + i % 4, 1 + i % 3, step=i // 4, priority=i * 7 % 3) for i in range(16)),
        policy="PriorityOrder",
    ),
]
DIRECTED: dict[str, list[Case]] = {
    "ch04.1": [
        tokens("a-long-answer", 100, 50, [STOP], *[[OTHER]] * 50),
        tokens("many-at-once", 9, 7, [STOP, 4], [OTHER] * 5, [OTHER] * 9),
        tokens("stop-behind-the-end", 3, 2, [STOP], [OTHER], [OTHER, STOP]),
        tokens("first-token", 3, 1, [STOP], [STOP]),
    ],
    "ch04.2": [
        walk(
            "between-good-ones",
            2,
            5,
            *(job(10 + i, 2, 1 + i % 2) for i in range(4)),
            *(job(20 + i, bad, 3) for i, bad in enumerate((None, [1], False, 6, 10**9))),
            *(job(30 + i, 2, bad) for i, bad in enumerate((None, False, -1, "2"))),
            job(20, 5, 1),
            job(11, 1, 1, step=1),
        ),
        walk("an-old-id", 8, 8, *(job(i, 1, 1) for i in range(20)), job(0, 1, 1, step=30), job(7, 1, 1)),
        walk("a-large-budget", 2, 400, job(1, 400, 2), job(2, 401, 2), job(3, 1, 500)),
    ],
    "ch04.3": [
        room("a-large-batch", 64, 2048, [9] * 40, [2000, 8, 1, 1]),
        room("one-slot", 1, 9, [], [9, 1]),
        room("one-slot-taken", 1, 9, [9], [1, 8]),
        room("slots-and-budget", 4, 10, [3, 2], [9, 3, 6, 1]),
        room("an-empty-plan", 3, 10, [3, 2, 1], [2], planned=False),
        room("longer-answers", 8, 60, [3, 2], [20, 18, 2, 1], answered=17),
    ],
    "ch04.4": WALKS,
    "ch04.5": WALKS,
    "ch04.6": [
        times("a-wide-loop", 300, 1.0, each=1 / 130, steps=400),
        times("slower-than-one", 8, 0.1, each=0.3, steps=6),
        times("odd-numbers", 32, 1.0, seconds=[0.5] * 12 + [2, 0.5, 0.5, 2, 2, 0.5, 2]),
    ],
}


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    makers = {
        "ch04.1": token_lists,
        "ch04.2": callers,
        "ch04.3": rooms,
        "ch04.4": workload,
        "ch04.5": workload,
        "ch04.6": step_times,
    }
    return [makers[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(6)]


def token_lists(rng: random.Random) -> Case:
    """An answer in pieces of none to four tokens."""
    stops = rng.sample(range(1, 9), rng.randint(0, 2))
    steps = [[rng.randint(1, 30) for _ in range(rng.randint(0, 4))] for _ in range(12)]
    return tokens("", rng.randint(1, 50), rng.randint(1, 12), stops, *steps)


def callers(rng: random.Random) -> Case:
    """Good requests with refusals of every kind between them."""
    budget, made = rng.randint(4, 30), []
    for number in range(rng.randint(2, 5)):
        step = rng.randint(0, 6)
        made.append(job(number, rng.randint(1, budget), rng.randint(1, 4), step=step))
        made.append(job(50 + number, rng.choice([*NO_LENGTHS, budget + rng.randint(1, 3)]), 2, step=step))
        made.append(job(60 + number, 2, rng.choice(NO_LENGTHS), step=step))
        made.append(job(rng.randint(0, number), 1, 1, step=step + rng.randint(0, 9)))
    return walk("", rng.randint(1, 4), budget, *made)


def rooms(rng: random.Random) -> Case:
    """A batch that is partly filled, and prompts about as long as the budget's rest."""
    seqs, budget = rng.randint(1, 8), rng.randint(8, 40)
    running = [rng.randint(1, budget // 8) for _ in range(rng.randint(0, seqs))]
    prompts = [rng.randint(1, max(1, budget - 2)) for _ in range(6)]
    return room("", seqs, budget, running, prompts, answered=rng.choice([0, 0, 1, 5]))


def workload(rng: random.Random) -> Case:
    """Requests that come, go and stop at all times, mostly more of them than slots."""
    seqs, budget, made = rng.randint(1, 5), rng.randint(4, 16), []
    for number in rng.sample(range(100), rng.randint(3, 14)):
        wanted, step = rng.randint(1, 8), rng.choice([0, 0, rng.randint(0, 12)])
        made.append(
            job(
                number,
                rng.randint(1, budget),
                wanted,
                step=step,
                priority=rng.randint(0, 2),
                stop_at=rng.randint(0, wanted - 1) if rng.random() < 0.3 else None,
                abort_at=step + rng.randint(0, 6) if rng.random() < 0.2 else None,
            )
        )
    return walk("", seqs, budget, *made, policy=rng.choice(["FCFS", "PriorityOrder", "Patience"]))


def step_times(rng: random.Random) -> Case:
    """Steps in time and late ones, by chance or by the load."""
    most = rng.randint(2, 40)
    if rng.random() < 0.5:
        return times("", most, 1.0, each=1 / rng.randint(1, most), steps=3 * most)
    late = rng.choice([0.1, 0.3])
    seconds = [rng.choice([1.5, 9.0]) if rng.random() < late else rng.choice([0.2, 1.0]) for _ in range(60)]
    return times("", most, 1.0, seconds=seconds)


def wrong(todo: int, name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong answer to one TODO."""
    return Variant(name, {f"ch04.{todo}": code}, rule=rule, looks=looks)


LENGTHS = """
if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)):
    raise Refused("bad_length")
"""
TAKEN = """
if request.request_id in self.ids:
    raise Refused("duplicate_id")
"""
OVER = """
if request.prompt_len > self.config.max_num_batched_tokens:
    raise Refused("over_budget")
"""
FILL = """
while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):
    self.admit(plan, seq)
"""
SERVE = """
for seq in self.running:
    self.serve(plan, seq)
"""
OVERTAKE = """
for seq in self.waiting.ordered(now):
    if self.room_for(plan, seq):
        self.admit(plan, seq)
"""
BY_POLICY = "in sorted(self.running, key=lambda s: (self.waiting.policy.key(s.request, now), s.request_id)):"
NEW, DONE = "plan = Plan()\n", "return plan\n"
STATIC = f"""
{NEW}
if self.running:
    for seq in self.running:
        self.serve(plan, seq)
    return plan
"""
OVERTAKES = both(
    en="a scheduler that looks past what does not fit: small requests overtake",
    zh="越过放不下的往后看：小请求会插队",
)

WRONG: list[Variant] = [
    wrong(
        1,
        "length before stop",
        'for token in tokens:\n    seq.num_tokens += 1\n    if seq.num_tokens >= seq.longest:\n        return "length"\n    if token in seq.stop_token_ids:\n        return "stop"',
        "stop-before-length",
        both(en="the length asked before the stop token", zh="先看长度，后看停止 token"),
    ),
    wrong(
        1,
        "one token too many",
        'for token in tokens:\n    seq.num_tokens += 1\n    if token in seq.stop_token_ids:\n        return "stop"\n    if seq.num_tokens > seq.longest:\n        return "length"',
        "ends-on-time",
        both(en="an answer that is one token too long", zh="回答多给了一个 token"),
    ),
    wrong(
        1,
        "counted once a step",
        'seq.num_tokens += 1\nif any(t in seq.stop_token_ids for t in tokens):\n    return "stop"\nif seq.num_tokens >= seq.longest:\n    return "length"',
        "counts-each-token",
        both(en="one token counted for each step, however many came", zh="不管来几个 token，一步只计一个"),
    ),
    wrong(
        1,
        "all of them counted first",
        'seq.num_tokens += len(tokens)\nif any(t in seq.stop_token_ids for t in tokens):\n    return "stop"\nif seq.num_tokens >= seq.longest:\n    return "length"',
        "drops-what-follows",
        both(en="tokens behind the end counted, too", zh="把结束之后的 token 也算上了"),
    ),
    wrong(
        1,
        "stop token not counted",
        'for token in tokens:\n    if token in seq.stop_token_ids:\n        return "stop"\n    seq.num_tokens += 1\n    if seq.num_tokens >= seq.longest:\n        return "length"',
        "counts-each-token",
    ),
    wrong(
        1,
        "a stop token of one's own",
        'for token in tokens:\n    seq.num_tokens += 1\n    if token == 2:\n        return "stop"\n    if seq.num_tokens >= seq.longest:\n        return "length"',
        "ends-on-time",
    ),
    wrong(
        1,
        "only the last token asked",
        'for token in tokens:\n    seq.num_tokens += 1\nif tokens and tokens[-1] in seq.stop_token_ids:\n    return "stop"\nif seq.num_tokens >= seq.longest:\n    return "length"',
        "ends-on-time",
    ),
    wrong(
        1,
        "the prompt forgotten",
        'for token in tokens:\n    seq.num_tokens += 1\n    if token in seq.stop_token_ids:\n        return "stop"\n    if seq.num_tokens >= seq.request.max_new_tokens:\n        return "length"',
        "ends-on-time",
    ),
    wrong(
        1,
        "tokens eaten",
        'while tokens:\n    seq.num_tokens += 1\n    if tokens.pop(0) in seq.stop_token_ids:\n        return "stop"\n    if seq.num_tokens >= seq.longest:\n        return "length"',
        "changes-nothing-else",
    ),
    wrong(
        1,
        "counted as computed, too",
        'for token in tokens:\n    seq.num_tokens += 1\n    seq.num_computed_tokens += 1\n    if token in seq.stop_token_ids:\n        return "stop"\n    if seq.num_tokens >= seq.longest:\n        return "length"',
        "changes-nothing-else",
    ),
    wrong(2, "lengths not checked", TAKEN + OVER, "refuses-bad-length"),
    wrong(
        2,
        "zero max_new_tokens accepted",
        LENGTHS.replace(" and is_length(request.max_new_tokens)", "") + TAKEN + OVER,
        "refuses-bad-length",
    ),
    wrong(
        2,
        "empty prompt accepted",
        LENGTHS.replace(
            "is_length(request.prompt_len)", "(request.prompt_len == 0 or is_length(request.prompt_len))"
        )
        + TAKEN
        + OVER,
        "refuses-bad-length",
    ),
    wrong(
        2,
        "bool taken for a length",
        "for n in (request.prompt_len, request.max_new_tokens):\n    if not isinstance(n, int) or n < 1:\n"
        '        raise Refused("bad_length")\n' + TAKEN + OVER,
        "refuses-bad-length",
        both(
            en="a test with isinstance(value, int) alone: in Python True is an int, too",
            zh="只用 isinstance(value, int) 判断：在 Python 里 True 也是 int",
        ),
    ),
    wrong(2, "duplicate id accepted", LENGTHS + OVER, "refuses-duplicate-id"),
    wrong(
        2,
        "id free again once it is over",
        LENGTHS + TAKEN.replace("self.ids", "self.sequences") + OVER,
        "refuses-duplicate-id",
        both(
            en="an id that is free again once its request has finished or was aborted",
            zh="请求一完成或一取消，它的 id 就又可以用了",
        ),
    ),
    wrong(
        2,
        "budget exceeded by one",
        LENGTHS + TAKEN + OVER.replace("tokens:", "tokens + 1:"),
        "refuses-over-budget",
    ),
    wrong(2, "budget not asked", LENGTHS + TAKEN, "refuses-over-budget"),
    wrong(
        2,
        "a prompt as long as the budget refused",
        LENGTHS + TAKEN + OVER.replace(">", ">="),
        "accepts-good-requests",
    ),
    wrong(
        2,
        "prompt and answer against the budget",
        LENGTHS + TAKEN + OVER.replace("prompt_len >", "prompt_len + request.max_new_tokens >"),
        "accepts-good-requests",
    ),
    wrong(
        2,
        "id taken before it is checked",
        TAKEN + "self.ids.add(request.request_id)\n" + LENGTHS + OVER,
        "accepts-good-requests",
        both(en="an id that is taken although its request was refused", zh="请求被拒绝了，id 却已经占上"),
    ),
    wrong(
        2,
        "queued before it is checked",
        LENGTHS + TAKEN + "self.waiting.push(Sequence(request), now)\n" + OVER,
        "only-active-requests",
    ),
    wrong(
        2,
        "the wrong words",
        LENGTHS + TAKEN.replace("duplicate_id", "over_budget") + OVER,
        "names-the-reason",
    ),
    wrong(
        2,
        "returned in silence",
        "if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)):\n    return\n"
        + TAKEN
        + OVER,
        "refuses-bad-length",
        both(en="return where raise Refused(...) is meant", zh="该 raise Refused(...) 的地方写成了 return"),
    ),
    wrong(
        3,
        "slots not asked",
        "return sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens",
        "slots",
    ),
    wrong(
        3,
        "a slot too many",
        "return len(self.running) <= self.config.max_num_seqs and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens",
        "slots",
        both(en="one slot too many: <= where < is meant", zh="多放了一个：该用 < 的地方用了 <="),
    ),
    wrong(
        3,
        "only new ones take slots",
        "return len(plan.new) < self.config.max_num_seqs and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens",
        "slots",
    ),
    wrong(
        3,
        "budget exceeded by one",
        "return len(self.running) < self.config.max_num_seqs and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens + 1",
        "token-budget",
    ),
    wrong(
        3,
        "the last token of the budget unused",
        "return len(self.running) < self.config.max_num_seqs and sum(plan.scheduled.values()) + seq.num_tokens < self.config.max_num_batched_tokens",
        "fills-free-slots",
    ),
    wrong(
        3,
        "requests counted for tokens",
        "return len(self.running) < self.config.max_num_seqs and len(plan.scheduled) + seq.num_tokens <= self.config.max_num_batched_tokens",
        "token-budget",
        both(en="requests counted where tokens are meant", zh="该数 token 的地方数成了请求"),
    ),
    wrong(
        3,
        "each prompt against the whole budget",
        "return len(self.running) < self.config.max_num_seqs and seq.num_tokens <= self.config.max_num_batched_tokens",
        "token-budget",
    ),
    wrong(
        3,
        "the running cost nothing",
        "spent = sum(plan.scheduled[i] for i in plan.new)\nreturn len(self.running) < self.config.max_num_seqs and spent + seq.num_tokens <= self.config.max_num_batched_tokens",
        "token-budget",
    ),
    wrong(
        3,
        "nothing returned",
        "spent = sum(plan.scheduled.values())\nlen(self.running) < self.config.max_num_seqs and spent + seq.num_tokens <= self.config.max_num_batched_tokens",
        "yes-or-no",
    ),
    wrong(
        3,
        "entered into the plan",
        "fits = len(self.running) < self.config.max_num_seqs and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens\nif fits:\n    plan.scheduled[seq.request_id] = seq.num_tokens\nreturn fits",
        "changes-nothing",
    ),
    wrong(
        3,
        "slots of the plan",
        "return len(plan.scheduled) < self.config.max_num_seqs and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens",
        "slots",
        both(
            en="slots counted in the plan; they are in self.running",
            zh="在计划里数位置；占着位置的在 self.running 里",
        ),
    ),
    wrong(
        4,
        "in the order of the policy",
        STATIC.replace("in self.running:", BY_POLICY) + FILL + DONE,
        "batch-order",
    ),
    wrong(4, "cached not told", STATIC + FILL + "plan.cached.clear()\n" + DONE, "tells-cached"),
    wrong(
        4,
        "a continuous batch",
        NEW + SERVE + FILL + DONE,
        "one-batch-at-a-time",
        both(en="a continuous batch: newcomers join while others run", zh="连续批：还有人在跑，新人就进来了"),
    ),
    wrong(
        4,
        "a batch of one",
        STATIC
        + "seq = self.waiting.peek(now)\nif seq and self.room_for(plan, seq):\n    self.admit(plan, seq)\n"
        + DONE,
        "fills-free-slots",
    ),
    wrong(4, "overtaking", STATIC + OVERTAKE + DONE, "head-of-line", OVERTAKES),
    wrong(
        4,
        "the newest first",
        STATIC + FILL.replace("self.waiting.peek(now)", "(self.waiting.ordered(now) or [None])[-1]") + DONE,
        "batch-order",
    ),
    wrong(
        4,
        "only the first is served",
        STATIC.replace("in self.running:", "in self.running[:1]:") + FILL + DONE,
        "serves-the-running",
    ),
    wrong(
        4,
        "waits for a full batch",
        STATIC
        + "if len(self.waiting) >= self.config.max_num_seqs:\n    while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):\n        self.admit(plan, seq)\n"
        + DONE,
        "fills-free-slots",
        both(en="a batch that starts only when it is full", zh="不凑满就不开始"),
    ),
    wrong(
        4,
        "no plan when there is nothing to do",
        "if not self.running and not len(self.waiting):\n    return None\n" + STATIC + FILL + DONE,
        "returns-a-plan",
    ),
    wrong(
        4,
        "room not asked",
        STATIC + "while seq := self.waiting.peek(now):\n    self.admit(plan, seq)\n" + DONE,
        "slots",
    ),
    wrong(
        4,
        "a new batch when half is done",
        NEW
        + SERVE
        + "if 2 * len(self.running) <= self.config.max_num_seqs:\n"
        + FILL.replace("\n", "\n    ")
        + "\n"
        + DONE,
        "one-batch-at-a-time",
    ),
    wrong(
        5,
        "in the order of the policy",
        NEW + SERVE.replace("in self.running:", BY_POLICY) + FILL + DONE,
        "batch-order",
    ),
    wrong(
        5,
        "the clock stands still",
        NEW + SERVE + FILL.replace("peek(now)", "peek(0.0)") + DONE,
        "batch-order",
    ),
    wrong(5, "cached not told", NEW + SERVE + FILL + "plan.cached.clear()\n" + DONE, "tells-cached"),
    wrong(
        5,
        "a static batch",
        STATIC + FILL + DONE,
        "fills-free-slots",
        both(en="a static batch: it refills only when all are done", zh="静态批：全部做完才补位"),
    ),
    wrong(
        5,
        "a slot is filled one step late",
        NEW
        + "free = len(self.running) < getattr(self, 'before', 1)\nself.before = len(self.running)\n"
        + SERVE
        + "if not free or not self.running:\n"
        + FILL.replace("\n", "\n    ")
        + "\n"
        + DONE,
        "fills-free-slots",
    ),
    wrong(
        5,
        "newcomers first",
        NEW + "old = list(self.running)\n" + FILL + "for seq in old:\n    self.serve(plan, seq)\n" + DONE,
        "batch-order",
        both(en="newcomers in front of those who run", zh="新来的排到了在跑的前面"),
    ),
    wrong(
        5,
        "one newcomer a step",
        NEW
        + SERVE
        + "seq = self.waiting.peek(now)\nif seq and self.room_for(plan, seq):\n    self.admit(plan, seq)\n"
        + DONE,
        "fills-free-slots",
    ),
    wrong(5, "overtaking", NEW + SERVE + OVERTAKE + DONE, "head-of-line", OVERTAKES),
    wrong(
        5,
        "newcomers served twice",
        NEW + FILL + SERVE + DONE,
        "goes-on-where-it-stopped",
        both(
            en="newcomers served a second time, with nothing left to compute",
            zh="新来的又被服务了一遍，已经没有 token 可算",
        ),
    ),
    wrong(
        5,
        "prefill first",
        NEW + FILL + "if not plan.new:\n" + SERVE.replace("\n", "\n    ") + "\n" + DONE,
        "serves-the-running",
        both(
            en="prefill first: those who run wait whenever somebody comes in",
            zh="prefill 优先：一来新人，在跑的就得停下",
        ),
    ),
    wrong(
        5,
        "the policy not asked",
        NEW
        + SERVE
        + "while (seq := next(iter(self.waiting._waiting.values()), None)) and self.room_for(plan, seq):\n    self.admit(plan, seq)\n"
        + DONE,
        "next-in-line",
        both(en="the order of arrival, whatever the policy says", zh="只按到达次序，不问策略"),
    ),
    wrong(
        5,
        "slots not bounded",
        NEW
        + SERVE
        + "while (seq := self.waiting.peek(now)) and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens:\n    self.admit(plan, seq)\n"
        + DONE,
        "slots",
    ),
    wrong(
        5,
        "budget for newcomers only",
        NEW
        + "fresh = Plan()\n"
        + SERVE
        + "while (seq := self.waiting.peek(now)) and self.room_for(fresh, seq):\n    self.admit(plan, seq)\n    fresh.scheduled[seq.request_id] = seq.num_tokens\n"
        + DONE,
        "token-budget",
    ),
    wrong(
        5,
        "the last to come is not served",
        NEW + SERVE.replace("in self.running:", "in self.running[:3]:") + FILL + DONE,
        "serves-the-running",
    ),
    wrong(
        6,
        "no lower bound",
        "if seconds > self.target:\n    self.limit //= 2\nelse:\n    self.limit = min(self.config.max_num_seqs, self.limit + 1)",
        "stays-in-bounds",
    ),
    wrong(
        6,
        "no upper bound",
        "self.limit = max(1, self.limit // 2) if seconds > self.target else self.limit + 1",
        "stays-in-bounds",
    ),
    wrong(
        6,
        "one less when late",
        "step = -1 if seconds > self.target else 1\nself.limit = min(self.config.max_num_seqs, max(1, self.limit + step))",
        "halves-when-late",
    ),
    wrong(
        6,
        "doubled when in time",
        "self.limit = max(1, self.limit // 2) if seconds > self.target else min(self.config.max_num_seqs, 2 * self.limit)",
        "grows-by-one",
    ),
    wrong(
        6,
        "on time is late",
        "self.limit = max(1, self.limit // 2) if seconds >= self.target else min(self.config.max_num_seqs, self.limit + 1)",
        "grows-by-one",
    ),
    wrong(
        6,
        "back to one",
        "self.limit = 1 if seconds > self.target else min(self.config.max_num_seqs, self.limit + 1)",
        "halves-when-late",
    ),
    wrong(
        6,
        "who is too many goes",
        "if seconds > self.target:\n    self.limit = max(1, self.limit // 2)\n    for seq in self.running[self.limit :]:\n        self.abort(seq.request_id, self.now)\nelse:\n    self.limit = min(self.config.max_num_seqs, self.limit + 1)",
        "throws-nobody-out",
    ),
    wrong(
        6,
        "rounded up",
        "self.limit = (self.limit + 1) // 2 if seconds > self.target else min(self.config.max_num_seqs, self.limit + 1)",
        "halves-when-late",
    ),
]

EQUIVALENT = dict.fromkeys(
    ("ch04.6:2 arguments 1 and 2 swapped", "ch04.6:4 arguments 1 and 2 swapped"),
    "max and min of two numbers, in either order",
)

BY_HAND = """
class {name}(BatchScheduler):
    def schedule(self, now):
        plan = Plan()
        left = self.config.max_num_batched_tokens
        for seq in self.running:
            plan.scheduled[seq.request_id] = 1
            plan.start[seq.request_id] = seq.num_computed_tokens
            seq.num_computed_tokens += 1
            left -= 1
        for seq in self.waiting.ordered(now) if {when} else ():
            if seq.num_tokens > left or len(self.running) == self.config.max_num_seqs:
                return plan
            left -= seq.num_tokens
            self.waiting.remove(seq)
            self.running += [seq]
            plan.new += [seq.request_id]
            plan.cached[seq.request_id] = plan.start[seq.request_id] = 0
            plan.scheduled[seq.request_id] = seq.num_computed_tokens = seq.num_tokens
        return plan
"""

CORRECT: list[Variant] = [
    Variant(
        "cut first, then counted",
        {
            "ch04.1": """
tokens = list(tokens)[: seq.longest - seq.num_tokens]
for number, token in enumerate(tokens, 1):
    if token in seq.stop_token_ids:
        seq.num_tokens += number
        return "stop"
seq.num_tokens += len(tokens)
if seq.num_tokens == seq.longest:
    return "length"
"""
        },
    ),
    Variant("refusals in another order", {"ch04.2": "prompt = request.prompt_len\n" + TAKEN + LENGTHS + OVER}),
    Variant(
        "reasons gathered",
        {
            "ch04.2": """
good = all(type(n) is int and n > 0 for n in (request.prompt_len, request.max_new_tokens))
reasons = [] if good else ["bad_length"]
reasons += ["over_budget"] if good and request.prompt_len > self.config.max_num_batched_tokens else []
reasons += ["duplicate_id"] if request.request_id in self.ids else []
if reasons:
    raise Refused(reasons[-1])
"""
        },
    ),
    Variant(
        "what is left",
        {
            "ch04.3": """
left = self.config.max_num_batched_tokens
for count in plan.scheduled.values():
    left -= count
slots = self.config.max_num_seqs - len(self.running)
return slots > 0 and left >= seq.num_tokens - seq.num_computed_tokens
"""
        },
    ),
    Variant(
        "a loop with breaks",
        {
            "ch04.4": """
plan = Plan()
batch = list(self.running)
for seq in batch:
    self.serve(plan, seq)
while not batch:
    seq = self.waiting.peek(now)
    if seq is None or not self.room_for(plan, seq):
        break
    self.admit(plan, seq)
return plan
"""
        },
    ),
    Variant(
        "over the ordered queue",
        {
            "ch04.5": """
plan = Plan()
for seq in list(self.running):
    self.serve(plan, seq)
for seq in self.waiting.ordered(now):
    if not self.room_for(plan, seq):
        break
    self.admit(plan, seq)
return plan
"""
        },
    ),
    Variant("static by hand", cells={"ch04-answer-3": BY_HAND.format(name="StaticBatchScheduler", when="not self.running")}),
    Variant("continuous by hand", cells={"ch04-answer-4": BY_HAND.format(name="ContinuousBatchScheduler", when="True")}),
    Variant(
        "clamped at the end",
        {
            "ch04.6": """
wanted = self.limit >> 1 if self.target < seconds else self.limit + 1
self.limit = sorted((1, wanted, self.config.max_num_seqs))[1]
"""
        },
    ),
]  # fmt: skip
