"""Chapter 7's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch07``; only the workloads are new here.
"""

from __future__ import annotations

import random
from typing import Any

from decodelab.check.ch07.cases import chunks, gate, limits, order, quota, run, walk
from decodelab.check.rules import Case
from decodelab.check.schedule.walk import job
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both
from decodelab.parity import recorded, workloads

RUNS = [
    w.name
    for n in ("plain", "priority")
    for w in workloads(recorded(n))
    if not w.config.enable_prefix_caching
]
WALKS: list[Case] = [
    walk("a-long-queue", limits(20), *(job(i, 1 + i * 7 % 23, 1 + i * 5 % 9) for i in range(24))),
    walk("many-slots", limits(40, max_num_seqs=30, num_blocks=400), *(job(i, 5 + i % 3, 1 + i % 13) for i in range(40))),
    walk("a-small-budget", limits(2), *(job(i, 3, 3, step=i) for i in range(6))),
    walk("a-budget-of-one", limits(1), job(1, 4, 3), job(2, 2, 2)),
    walk("blocks-of-one", limits(9, block_size=1, num_blocks=30), *(job(i, 6, 7) for i in range(6))),
    walk("memory-for-one", limits(16, num_blocks=5), *(job(i, 9, 8) for i in range(4))),
    walk(
        "priorities-and-little-memory",
        limits(12, num_blocks=9, max_num_seqs=5),
        *(job(i, 4 + i % 5, 5 + i % 7, step=i // 3, priority=i * 7 % 4) for i in range(14)),
        policy="PriorityOrder",
    ),
    walk(
        "chunks-of-who-was-preempted",
        limits(5, num_blocks=8, max_num_seqs=4),
        *(job(i, 6, 12, priority=i % 3, step=i) for i in range(6)),
        policy="PriorityOrder",
    ),
    walk(
        "a-cap-and-little-memory",
        limits(12, long_prefill_token_threshold=3, num_blocks=9),
        *(job(i, 5 + i % 9, 4, step=i // 2) for i in range(8)),
    ),
]  # fmt: skip
DIRECTED: dict[str, list[Case]] = {
    "ch07.1": [
        chunks("large-numbers", 10**12, [0, 10**9, 2], [10**12 - 1, 10**9, 2], [10**12 - 10**9, 10**9, 1]),
        chunks("a-cap-of-one", 5, [0, 9, 2], [4, 9, 2], [3, 9, 1], long_prefill_token_threshold=1),
        chunks("cap-above-budget", 90, [0, 30, 2], [0, 30, 1], [80, 30, 2], long_prefill_token_threshold=64),
        chunks("one-piece-of-one", 1, [0, 1, 1], [0, 0, 2], enable_chunked_prefill=False),
    ],
    "ch07.2": WALKS,
    "ch07.3": WALKS,
    "ch07.4": [
        walk("a-limit-of-two", limits(8, max_model_len=2), job(1, 1, 9), job(2, 2, 1), job(3, 1, 1)),
        walk("a-large-limit", limits(32, max_model_len=60), job(1, 45, 30), job(2, 59, 9), job(3, 60, 1), job(4, 8, 52)),
        walk("a-queue", limits(16, max_model_len=10), *(job(i, 1 + i, 2 + i % 7) for i in range(12))),
        walk("none-at-all", limits(16, num_blocks=256), job(1, 90, 50), job(2, 90, 1)),
        walk("short-of-memory", limits(16, max_model_len=24, num_blocks=6), *(job(i, 3 + 3 * i, 50) for i in range(7))),
    ],
    "ch07.5": [run(name) for name in (*RUNS, "priority-001")],
    "ch07.6": [
        order("many", "decode", [[i, 10 + i % 3, 9] for i in range(12)], [[20, 3, 0]]),
        order("all-prefills", "prefill", [[i, 50, 10 * i] for i in range(4)], [[8, 1, 0]]),
        order("all-decodes", "prefill", [[i, 50, 49] for i in range(4)], [[8, 1, 0]]),
    ],
    "ch07.7": [
        quota("one-token", 1, 0.5, 1, 0, pace=1.0, base=5.0),
        quota("a-long-way-down", 2048, 0.9, 3, 500, pace=0.0078125, each=0.0625, base=2.0),
        quota("more-decodes-than-budget", 16, 0.5, 40, pace=0.03125, each=1.0),
    ],
    "ch07.8": [gate("one-threshold", 4, 4, 3, 4, 4, 5, 4, 3, 4), gate("a-long-way", 0, 100, 99, 100, 101, 1, 0, 99)],
}  # fmt: skip


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    makers = {
        "ch07.1": some_chunks,
        "ch07.2": workload,
        "ch07.3": workload,
        "ch07.4": lengths,
        "ch07.5": like_recorded,
        "ch07.6": an_order,
        "ch07.7": a_quota,
        "ch07.8": a_gate,
    }
    return [makers[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(6)]


def some_chunks(rng: random.Random) -> Case:
    """Questions about one request, near its end, its cap and its budget."""
    tokens, whole = rng.randint(1, 90), rng.random() < 0.3
    cap = rng.choice([0, 1, rng.randint(2, 40)])
    asked = [
        [rng.choice([0, rng.randrange(tokens), tokens - 1]), rng.choice([0, 1, rng.randint(1, 60)]), rng.choice([1, 2, 9])]
        for _ in range(6)
    ]  # fmt: skip
    return chunks("", tokens, *asked, enable_chunked_prefill=not whole, long_prefill_token_threshold=cap)


def workload(rng: random.Random) -> Case:
    """Requests of all kinds in a pool that is often too small."""
    size, whole = rng.choice([1, 2, 4, 8]), rng.random() < 0.2
    config = limits(
        rng.randint(16, 40) if whole else rng.randint(2, 24),
        max_num_seqs=rng.randint(1, 6),
        block_size=size,
        num_blocks=rng.randint(24 // size, 64 // size + 2),
        watermark=rng.choice([0.0, 0.0, 0.1, 0.3]),
        reserve_full_prompt=rng.random() < 0.4,
        enable_chunked_prefill=not whole,
        long_prefill_token_threshold=rng.choice([0, 0, 3, 7]),
        max_model_len=rng.choice([None, None, 20]),
    )
    return walk("", config, *some_jobs(rng), policy=rng.choice(["FCFS", "PriorityOrder"]))


def some_jobs(rng: random.Random) -> list[dict[str, Any]]:
    step, made = 0, []
    for number in range(rng.randint(2, 9)):
        step += rng.choice([0, 0, 1, 3])
        prompt, wanted = rng.randint(1, 18), rng.randint(1, 12)
        extra: dict[str, Any] = {
            "priority": rng.randint(0, 2),
            "stop_at": rng.choice([None, None, rng.randrange(wanted)]),
            "abort_at": rng.choice([None] * 4 + [step + rng.randint(0, 9)]),
        }
        made.append(job(number, prompt, wanted, step=step, **extra))
    return made


def lengths(rng: random.Random) -> Case:
    """Prompts and answers around the model's length."""
    limit = rng.randint(2, 30)
    config = limits(rng.randint(4, 30), max_model_len=limit, num_blocks=rng.randint(4, 12))
    made = [
        job(i, max(1, limit + rng.randint(-6, 1)), rng.choice([1, 2, 5, 60]), step=i, stop_at=rng.choice([None, 0, 1]))
        if rng.random() < 0.6
        else job(i, rng.randint(1, limit), rng.randint(1, 2 * limit), step=i)
        for i in range(6)
    ]  # fmt: skip
    return walk("", config, *[j if j["stop_at"] is None or j["stop_at"] < j["max_new_tokens"] else j | {"stop_at": None} for j in made])  # fmt: skip


def like_recorded(rng: random.Random) -> Case:
    """A workload that nobody has recorded. No two come together: ties of vLLM's victims may never end."""
    made = [
        job(i, rng.randint(1, 30), rng.randint(1, 20), step=2 * i, priority=rng.randint(0, 2))
        for i in range(rng.randint(2, 7))
    ]
    config = limits(rng.randint(6, 30), num_blocks=rng.randint(13, 20), max_model_len=128)
    return walk("", config, *made, policy=rng.choice(["fcfs", "priority"]))


def an_order(rng: random.Random) -> Case:
    """A batch of decodes and prefills."""
    rows = [
        [i, left + 9, 9]
        for i in rng.sample(range(20), rng.randint(1, 7))
        for left in [rng.choice([1, 1, 2, 30])]
    ]
    return order("", rng.choice(["decode", "prefill", "admission"]), rows, [[30, 4, 0], [21, 1, 0]])


def a_quota(rng: random.Random) -> Case:
    """A share and a pace; numbers that are exact in binary."""
    step = {
        "pace": rng.choice([0.0, 0.25, 0.0625]),
        "base": rng.randint(0, 4) / 2,
        "each": rng.choice([0.125, 0.5]),
    }
    share = rng.choice([0.125, 0.3, 0.5, 0.7, 1.0])
    return quota("", rng.choice([4, 31, 100, 512]), share, 0, 1, rng.randint(2, 40), **step)


def a_gate(rng: random.Random) -> Case:
    """A pressure that wanders."""
    low = rng.randint(0, 4)
    high = low + rng.randint(1, 5)
    return gate("", low, high, *(rng.randint(0, high + 2) for _ in range(14)))


LEFT = "count = seq.num_tokens - seq.num_computed_tokens\n"
CAP = "cap = config.long_prefill_token_threshold\nif cap and active > 1:\n    count = min(count, cap)\n"
PIECE = "if count > budget and not config.enable_chunked_prefill:\n    return 0\n"
SERVE = """
running, i = self.running, 0
budget = self.config.max_num_batched_tokens
while i < len(running) and budget > 0:
    seq = running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    while not self.compute(plan, seq, count):
        victim = choose_victim(running, self.policy, now)
        i -= running.index(victim) < i
        budget += preempt(self, victim, plan, now)
        if victim is seq:
            break
    else:
        budget -= count
        i += 1
return budget
"""
ADMIT = """
while budget > 0 and len(self.running) < self.config.max_num_seqs and (seq := self.waiting.peek(now)):
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if not (count and may_admit(self.kv, seq, count, self.config, self.running)):
        return
    self.let_in(plan, seq)
    self.compute(plan, seq, count)
    budget -= count
"""
LIMIT = """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
"""
MADE = """
if config.enable_prefix_caching:
    return None
order = FCFS() if policy == "fcfs" else VllmPriority()
return ChunkedScheduler(config, order, BlockManager(config.num_blocks, config.block_size))
"""
ORDER = """
decodes = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens == 1]
prefills = [seq for seq in running if seq.num_tokens - seq.num_computed_tokens > 1]
if self.first == "decode":
    return decodes + prefills + newcomers
if self.first == "prefill":
    return prefills + newcomers + decodes
return running + newcomers
"""
QUOTA = """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota > 0 and self.seconds(decodes + quota) > 1 / self.pace:
    quota -= 1
return max(quota, 1)
"""
GATE = (
    "self.suspended = pressure > self.low if self.suspended else pressure >= self.high\nreturn self.suspended"
)


def wrong(todo: int, name: str, code: str, rule: str = "", looks: Text | None = None) -> Variant:
    """A wrong answer to ``ch07.{todo}``."""
    return Variant(name, {f"ch07.{todo}": code}, rule=rule, looks=looks)


def changed(
    todo: int, name: str, code: str, old: str, new: str, rule: str, looks: Text | None = None
) -> Variant:
    """A right answer with one thing in it changed."""
    assert old in code, f"{name}: {old}"
    return wrong(todo, name, code.replace(old, new), rule, looks)


WRONG: list[Variant] = [
    wrong(1, "no budget", LEFT + CAP + PIECE + "return count", "token-budget"),
    wrong(1, "budget exceeded by one", LEFT + CAP + PIECE + "return min(count, budget + 1)", "token-budget"),
    wrong(1, "no cap", LEFT + PIECE + "return min(count, budget)", "long-prefill-cap"),
    wrong(
        1,
        "a cap of zero means nothing at all",
        LEFT + CAP.replace("cap and active", "active") + PIECE + "return min(count, budget)",
        "how-many-tokens",
        both(en="a cap of 0 taken for a limit: it means that there is none", zh="把上限 0 当真了：0 表示不设上限"),
    ),
    wrong(
        1,
        "capped when alone",
        LEFT + CAP.replace(" and active > 1", "") + PIECE + "return min(count, budget)",
        "no-cap-when-alone",
        both(en="the cap also for a request that is alone", zh="独自一个时也设了上限"),
    ),
    wrong(1, "the whole prompt again", "count = seq.num_tokens\n" + CAP + PIECE + "return min(count, budget)", "no-more-than-it-has"),
    wrong(
        1,
        "the prompt only",
        "count = seq.request.prompt_len - seq.num_computed_tokens\n" + CAP + PIECE + "return min(count, budget)",
        "never-negative",
        both(en="the prompt's length where num_tokens is meant", zh="该用 num_tokens 的地方用了提示词长度"),
    ),
    wrong(1, "always the cap", LEFT + CAP.replace("min(count, cap)", "cap") + PIECE + "return min(count, budget)", "no-more-than-it-has"),
    wrong(1, "cut all the same", LEFT + CAP + "return min(count, budget)", "whole-prompts"),
    wrong(1, "in one piece needs more than it takes", LEFT + CAP + PIECE.replace(">", ">=") + "return min(count, budget)", "how-many-tokens"),
    wrong(1, "at least one token", LEFT + CAP + PIECE + "return max(1, min(count, budget))", "token-budget"),
    wrong(1, "chunks of a power of two", LEFT + CAP + PIECE + "n = min(count, budget)\nreturn 1 << (n.bit_length() - 1) if n else 0", "how-many-tokens"),
    wrong(1, "the last token is kept for decode", LEFT + CAP + PIECE + "return min(max(1, count - 1), budget)", "how-many-tokens"),
    changed(2, "newest first", SERVE, "seq = running[i]", "seq = running[-1 - i]", ""),
    changed(2, "budget not counted", SERVE, "        budget -= count\n", "", "token-budget"),
    changed(2, "budget starts one too high", SERVE, "max_num_batched_tokens", "max_num_batched_tokens + 1", "token-budget"),
    changed(
        2,
        "a victim keeps its budget",
        SERVE,
        "budget += preempt(",
        "preempt(",
        "",
        both(en="the tokens of a victim are not given back to the budget", zh="被抢占者这一步的 token 没有还给预算"),
    ),
    changed(
        2,
        "the cursor does not move",
        SERVE,
        "        i -= running.index(victim) < i\n",
        "",
        "serves-the-running",
        both(
            en="a victim in front of the cursor is taken out, and the next request is skipped",
            zh="被抢占的排在游标前面，拿走以后没有挪游标，漏掉了下一个",
        ),
    ),
    changed(2, "the last admitted is the victim", SERVE, "choose_victim(running, self.policy, now)", "running[-1]", "victim"),
    changed(2, "the first admitted is the victim", SERVE, "choose_victim(running, self.policy, now)", "running[0]", "victim"),
    changed(2, "always itself", SERVE, "choose_victim(running, self.policy, now)", "seq", "victim"),
    wrong(
        2,
        "who finds no memory waits",
        SERVE[: SERVE.index("    while not")]
        + "    if self.compute(plan, seq, count):\n        budget -= count\n    i += 1\nreturn budget",
        "preempts-when-full",
    ),
    wrong(
        2,
        "goes on after it preempted itself",
        SERVE.replace("        if victim is seq:\n            break\n", "").replace(
            "    while not self.compute(plan, seq, count):", "    while seq in running and not self.compute(plan, seq, count):"
        ),
        "",
    ),
    changed(2, "stops after it preempted itself", SERVE, "            break\n", "            return budget\n", "serves-the-running"),
    wrong(
        2,
        "prefill first",
        "order = sorted(self.running, key=lambda s: s.num_tokens - s.num_computed_tokens == 1)\nself.running[:] = order\n"
        + SERVE,
        "",
        both(en="prompts go before those who decode", zh="提示词排到了 decode 前面"),
    ),
    wrong(
        2,
        "decode first",
        "order = sorted(self.running, key=lambda s: s.num_tokens - s.num_computed_tokens > 1)\nself.running[:] = order\n"
        + SERVE,
        "",
    ),
    changed(2, "alone means one that runs", SERVE, "len(self.sequences)", "len(running)", "how-many-tokens"),
    changed(2, "never alone", SERVE, "len(self.sequences)", "2", "how-many-tokens"),
    changed(2, "no budget to hand on", SERVE, "return budget", "return 0", "fills-free-slots"),
    changed(2, "one less after a preemption", SERVE, "return budget", "return budget - bool(plan.preempted)", "returns-what-is-left"),
    changed(2, "the whole budget handed on", SERVE, "return budget", "return self.config.max_num_batched_tokens", "token-budget"),
    wrong(
        2,
        "a budget that may go below zero",
        "spent = sum(s.num_tokens - s.num_computed_tokens == 1 for s in self.running)\n"
        + SERVE.replace("while i < len(running) and budget > 0:", "while i < len(running):").replace(
            "next_chunk(seq, budget, len(self.sequences), self.config)",
            "min(seq.num_tokens - seq.num_computed_tokens, budget - spent + 1)",
        ),
        "",
    ),
    wrong(
        2,
        "one prefill a step",
        SERVE.replace(
            "    while not",
            "    if seq.num_tokens - seq.num_computed_tokens > 1 and any(n > 1 for n in plan.scheduled.values()):\n"
            "        i += 1\n        continue\n    while not",
            1,
        ),
        "serves-the-running",
    ),
    changed(3, "slots not asked", ADMIT, "len(self.running) < self.config.max_num_seqs and ", "", "slots"),
    changed(3, "a slot too many", ADMIT, "< self.config", "<= self.config", "slots"),
    changed(3, "memory not asked", ADMIT, "count and may_admit(self.kv, seq, count, self.config, self.running)", "count", ""),
    changed(3, "budget not counted", ADMIT, "    budget -= count\n", "", "token-budget"),
    changed(
        3,
        "whole prompts only",
        ADMIT,
        "if not (count",
        "if not (count == seq.num_tokens and count",
        "fills-free-slots",
        both(en="nobody is let in with a part of a prompt", zh="不肯让提示词只进来一部分"),
    ),
    changed(3, "one a step", ADMIT, "    budget -= count\n", "    return\n", "fills-free-slots"),
    wrong(
        3,
        "overtaking",
        """
for seq in self.waiting.ordered(now):
    count = next_chunk(seq, budget, len(self.sequences), self.config) if budget > 0 else 0
    full = len(self.running) >= self.config.max_num_seqs
    if count and not full and may_admit(self.kv, seq, count, self.config, self.running):
        self.let_in(plan, seq)
        self.compute(plan, seq, count)
        budget -= count
""",
        "head-of-line",
        both(en="a request is let in past one that does not fit", zh="越过放不下的那个，放进了后面的"),
    ),
    wrong(3, "nobody", "return", ""),
    changed(3, "let in but not computed", ADMIT, "    self.compute(plan, seq, count)\n", "", ""),
    changed(3, "the whole prompt's memory is asked", ADMIT, "seq, count, self.config", "seq, seq.num_tokens, self.config", "fills-free-slots"),
    changed(3, "memory for one token is asked", ADMIT, "may_admit(self.kv, seq, count,", "may_admit(self.kv, seq, 1,", ""),
    changed(3, "as if nobody ran", ADMIT, "self.config, self.running)):", "self.config, [])):", "head-of-line"),
    changed(3, "never alone", ADMIT, "len(self.sequences)", "2", "how-many-tokens"),
    changed(3, "alone means nobody runs", ADMIT, "len(self.sequences)", "len(self.running) + 1", ""),
    changed(
        3,
        "the policy not asked",
        ADMIT,
        "(seq := self.waiting.peek(now))",
        "(seq := next((s for s in self.sequences.values() if s not in self.running), None))",
        "",
    ),
    changed(3, "a chunk of nothing", ADMIT, "count and may_admit", "may_admit", ""),
    wrong(4, "no limit", "pass", "refuses-over-model-len"),
    changed(
        4,
        "a prompt as long as the limit",
        LIMIT,
        ">= limit",
        "> limit",
        "refuses-over-model-len",
        both(en="a prompt as long as the limit is let in, and never gets a token", zh="和限度一样长的提示词放进来了，永远得不到 token"),
    ),
    changed(4, "a prompt one shorter than the limit", LIMIT, ">= limit", ">= limit - 1", "accepts-good-requests"),
    changed(4, "the wish refused", LIMIT, "request.prompt_len >=", "seq.longest >", "accepts-good-requests"),
    changed(4, "goes on beyond the limit", LIMIT, "    seq.longest = min(seq.longest, limit)\n", "", ""),
    changed(4, "one token too many", LIMIT, "min(seq.longest, limit)", "min(seq.longest, limit + 1)", ""),
    changed(4, "one token too few", LIMIT, "min(seq.longest, limit)", "min(seq.longest, limit - 1)", ""),
    changed(4, "always to the limit", LIMIT, "min(seq.longest, limit)", "limit", ""),
    changed(4, "the answer's length against the limit", LIMIT, "min(seq.longest, limit)", "request.prompt_len + min(request.max_new_tokens, limit)", ""),
    changed(4, "the wrong word", LIMIT, "over_model_len", "bad_length", "names-the-reason"),
    wrong(4, "a limit where there is none", LIMIT.replace("if limit is not None:", "limit = limit or 64\nif True:"), "ends-on-time"),
    changed(
        5,
        "our own order of priority",
        MADE,
        "VllmPriority()",
        "PriorityOrder()",
        "like-vllm-scheduled",
        both(en="ties between victims broken by the id", zh="抢占时的平局，按 id 分了先后"),
    ),
    changed(5, "first come, first served at any rate", MADE, 'FCFS() if policy == "fcfs" else VllmPriority()', "FCFS()", ""),
    changed(5, "priorities at any rate", MADE, 'FCFS() if policy == "fcfs" else VllmPriority()', "VllmPriority()", ""),
    changed(5, "the classes for policies", MADE, 'FCFS() if policy == "fcfs" else VllmPriority()', 'FCFS if policy == "fcfs" else VllmPriority', ""),
    changed(5, "a block for the null block", MADE, "config.num_blocks,", "config.num_blocks + 1,", ""),
    changed(5, "a block too few", MADE, "config.num_blocks,", "config.num_blocks - 1,", ""),
    changed(5, "blocks and their size swapped", MADE, "config.num_blocks, config.block_size", "config.block_size, config.num_blocks", ""),
    changed(5, "prefix caching ignored", MADE, "config.enable_prefix_caching", "False", "says-what-it-cannot-do"),
    wrong(5, "nothing is supported", "return None", "makes-a-scheduler"),
    changed(6, "decode and prefill swapped", ORDER, "decodes + prefills + newcomers", "prefills + decodes + newcomers", "decode-first"),
    changed(6, "newcomers last in any case", ORDER, "prefills + newcomers + decodes", "prefills + decodes + newcomers", "prefill-first"),
    changed(6, "newcomers first", ORDER, "prefills + newcomers + decodes", "newcomers + prefills + decodes", "prefill-first"),
    changed(6, "two tokens left count as decode", ORDER, "== 1", "<= 2", ""),
    changed(6, "newcomers forgotten", ORDER, "return running + newcomers", "return running", "everybody-once"),
    changed(6, "never as admitted", ORDER, "return running + newcomers", "return decodes + prefills + newcomers", "admission-first"),
    wrong(6, "sorted by id", ORDER.replace("return running + newcomers", "return sorted(running + newcomers, key=lambda seq: seq.request_id)"), "admission-first"),
    changed(6, "a one-token prompt decodes", ORDER, "seq in running if seq.num_tokens - seq.num_computed_tokens == 1", "seq in running + newcomers if seq.num_tokens - seq.num_computed_tokens == 1", "everybody-once"),
    wrong(7, "the share also when nobody decodes", QUOTA.replace("if not decodes:\n    return budget\n", ""), "all-when-nobody-decodes"),
    changed(7, "no share", QUOTA, "int(self.share * budget)", "budget", "keeps-the-share"),
    changed(7, "the decodes' share", QUOTA, "self.share * budget", "(1 - self.share) * budget", ""),
    changed(7, "rounded up", QUOTA, "int(self.share * budget)", "-int(-self.share * budget // 1)", "keeps-the-share"),
    wrong(7, "no pace", QUOTA.replace("while self.pace and", "while False and"), "keeps-the-pace"),
    changed(7, "decodes cost nothing", QUOTA, "self.seconds(decodes + quota)", "self.seconds(quota)", "keeps-the-pace"),
    changed(7, "in time is too late", QUOTA, "> 1 / self.pace", ">= 1 / self.pace", "uses-its-share"),
    changed(7, "the pace in seconds", QUOTA, "1 / self.pace", "self.pace", "uses-its-share"),
    changed(7, "nothing at all", QUOTA, "max(quota, 1)", "quota", "at-least-one-token"),
    changed(7, "not a whole number", QUOTA, "int(self.share * budget)", "self.share * budget", "a-number-of-tokens"),
    changed(7, "halved until it fits", QUOTA, "quota -= 1", "quota //= 2", "uses-its-share"),
    wrong(
        8,
        "one threshold for both",
        "self.suspended = pressure >= self.high\nreturn self.suspended",
        "stays-closed-above-low",
        both(en="one threshold for closing and opening", zh="关和开共用一个阈值"),
    ),
    changed(8, "never resumes at zero", GATE, "pressure > self.low", "pressure >= self.low", "resumes-at-low"),
    changed(8, "closes above high", GATE, ">= self.high", "> self.high", "closes-at-high"),
    changed(8, "closes at low", GATE, ">= self.high", ">= self.low", "stays-open-below-high"),
    wrong(8, "never resumes", "self.suspended = self.suspended or pressure >= self.high\nreturn self.suspended", "resumes-at-low"),
    wrong(8, "nothing kept", "return pressure > self.low if self.suspended else pressure >= self.high", "keeps-its-state"),
    changed(8, "turned round", GATE, "return self.suspended", "return not self.suspended", ""),
    wrong(8, "nothing returned", GATE.replace("return self.suspended", ""), "yes-or-no"),
]  # fmt: skip

EITHER = "min and max of two numbers, in either order"
EQUIVALENT = dict.fromkeys(
    (
        "ch07.1:3 arguments 1 and 2 swapped",
        "ch07.4:5 arguments 1 and 2 swapped",
        "ch07.7:6 arguments 1 and 2 swapped",
    ),
    EITHER,
) | dict.fromkeys(
    (
        "ch07.2:3 Gt became GtE",
        "ch07.2:3 0 became -1",
        "ch07.3:2 Gt became GtE",
        "ch07.3:2 0 became -1",
    ),
    "whoever runs had a token of this budget before and takes no more of it now; for who waits next_chunk gives 0",
)

CORRECT: list[Variant] = [
    Variant(
        "the smallest of a list",
        {
            "ch07.1": """
most = [seq.num_tokens - seq.num_computed_tokens]
if active != 1 and config.long_prefill_token_threshold > 0:
    most.append(config.long_prefill_token_threshold)
if not config.enable_chunked_prefill:
    return min(most) if budget >= min(most) else 0
return min(*most, budget)
"""
        },
    ),
    Variant(
        "over a copy of the list",
        {
            "ch07.2": """
left = self.config.max_num_batched_tokens
for seq in list(self.running):
    while seq in self.running and left > 0:
        count = next_chunk(seq, left, len(self.sequences), self.config)
        if self.compute(plan, seq, count):
            left -= count
            break
        victim = choose_victim(self.running, self.policy, now)
        while not self.kv.missing(seq.request_id, seq.num_computed_tokens + count) <= self.kv.num_free:
            left += preempt(self, victim, plan, now)
            if victim is seq:
                break
            victim = choose_victim(self.running, self.policy, now)
        else:
            self.compute(plan, seq, count)
            left -= count
            break
return left
"""
        },
    ),
    Variant(
        "a loop with a flag",
        {
            "ch07.2": """
budget, i = self.config.max_num_batched_tokens, 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.running) + len(self.waiting), self.config)
    alive = True
    while alive and not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        if self.running.index(victim) < i:
            i -= 1
        budget += preempt(self, victim, plan, now)
        alive = victim is not seq
    if alive:
        budget, i = budget - count, i + 1
return budget
"""
        },
    ),
    Variant(
        "over the ordered queue",
        {
            "ch07.3": """
for seq in self.waiting.ordered(now):
    if budget < 1 or len(self.running) == self.config.max_num_seqs:
        break
    count = next_chunk(seq, budget, len(self.running) + len(self.waiting), self.config)
    if count == 0 or not may_admit(self.kv, seq, count, self.config, self.running):
        break
    self.let_in(plan, seq)
    assert self.compute(plan, seq, count)
    budget -= count
"""
        },
    ),
    Variant(
        "room first",
        {
            "ch07.4": """
if self.config.max_model_len:
    room = self.config.max_model_len - request.prompt_len
    if room < 1:
        raise Refused("over_model_len")
    if room < request.max_new_tokens:
        seq.longest = self.config.max_model_len
"""
        },
    ),
    Variant(
        "by a table",
        {
            "ch07.5": """
orders = {"fcfs": FCFS, "priority": VllmPriority}
if not config.enable_prefix_caching:
    return ChunkedScheduler(config, orders[policy]())
"""
        },
    ),
    Variant(
        "sorted by kind",
        {
            "ch07.6": """
kind = lambda seq: 2 if seq in newcomers else int(seq.num_computed_tokens < seq.num_tokens - 1)
ranks = {"admission": {0: 0, 1: 0, 2: 1}, "decode": {0: 0, 1: 1, 2: 2}, "prefill": {1: 0, 2: 1, 0: 2}}
return sorted(running + newcomers, key=lambda seq: ranks[self.first][kind(seq)])
"""
        },
    ),
    Variant("counted down", {"ch07.7": QUOTA}),
    Variant(
        "two returns",
        {
            "ch07.8": """
if self.suspended and pressure <= self.low:
    self.suspended = False
elif not self.suspended and pressure >= self.high:
    self.suspended = True
return self.suspended
"""
        },
    ),
]  # fmt: skip
