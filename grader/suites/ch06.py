"""Chapter 6's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch06``; only the workloads are new here.
"""

from __future__ import annotations

import random

from decodelab.check.ch06.cases import BACK, choice, door, entry, memory, throw, walk
from decodelab.check.rules import Case
from decodelab.check.schedule.walk import job
from decodelab.course import load
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

BIG = memory(40, 4, max_num_seqs=12)
THROWN: list[Case] = [
    throw("first-of-many", 3, [3, 7, 2, 1], *([i, 4, 1, 1] for i in range(4, 9))),
    throw("last-of-many", 8, *([i, 4, 1, 1] for i in range(3, 8)), [8, 7, 2, 0], waiting=(9, 1)),
    throw("a-long-answer", 2, [1, 1, 1, 0], [2, 3, 40, 1], size=2),
    throw("a-chunk", 2, [1, 5, 3, 1], [2, 20, 0, 7], [3, 4, 0, 4]),
]
DIRECTED: dict[str, list[Case]] = {
    "ch06.1": [
        door("blocks-of-one", 10, 1, 99, [10, 1], [10, 2], [5, 6], [5, 7], [11, 1]),
        door("no-slot-is-reserved", 10, 1, 99, [10, 1], [6, 5], [6, 6], watermark=0.3),
        door("both-at-once", 3, 4, 10, [30, 30], [10, 1], [11, 1], [12, 1], [13, 1]),
    ],
    "ch06.2": [
        entry("pool-is-full", 4, 4, [[16, 20]], [1, 1, 4], [4, 4, 9], reserve_full_prompt=True),
        entry("watermark-below-one-block", 9, 2, [[4, 9]], [14, 14, 20], [15, 15, 20], watermark=0.1),
        entry("all-slots-taken", 9, 2, [[4, 9], [4, 9]], [10, 10, 20], [11, 11, 20], max_num_seqs=2),
        entry("back-again", 9, 2, [[4, 9, BACK]], [10, 10, 20, BACK], [11, 11, 20, BACK], [12, 12, 20, BACK], watermark=0.23),
        entry("back-again-whole", 9, 2, [[4, 9]], [14, 3, 20, BACK], [15, 3, 20, BACK], reserve_full_prompt=True),
        entry("not-another-ones-table", 3, 4, [[4, 9], [8, 20]], [1, 1, 9]),
        entry("blocks-of-one", 10, 1, [[3, 9], [2, 9]], [5, 5, 9], [4, 4, 9], [3, 3, 9], watermark=0.1),
    ],
    "ch06.3": [
        choice("many", "PriorityOrder", *([i, float(i), i * 5 % 3] for i in range(12))),
        choice("many-equal", "Classes", *([i, float(i), 1] for i in (9, 3, 5, 1))),
        choice("most-were-out-before", "FCFS", [1, 1.0, 0], [2, 2.0, 0, BACK], [3, 0.0, 0, BACK]),
        choice("urgency-that-does-not-last", "Impatience", [5, 2.0, 9], [1, 0.0, 0], [2, 1.0, 1], now=2.5),
        choice("the-longest-wait-is-urgent", "Impatience", *([i, float(i), 0] for i in range(6)), now=5.0),
    ],
    "ch06.4": THROWN,
    "ch06.5": [
        walk("a-crowd", BIG, *(job(i, 5 + i % 7, 20, step=i // 3) for i in range(14))),
        walk(
            "a-crowd-of-classes",
            BIG,
            *(job(i, 5 + i % 7, 20, step=i // 3, priority=i * 7 % 4) for i in range(14)),
            policy="PriorityOrder",
        ),
        walk("patience", memory(9, 2), *(job(i, 3, 9, priority=3 * (i % 2)) for i in range(4)), policy="Patience"),
        walk("through-evict", memory(7, 2), *(job(i, 3, 9) for i in range(3)), evicts=True),
        walk("thrashing", memory(7, 1), *(job(i, 1, 6) for i in range(6))),
        walk("one-fills-the-pool", memory(6, 2), job(1, 1, 12), job(2, 11, 2), job(3, 12, 1)),
        walk(
            "reserve-and-watermark",
            memory(12, 2, watermark=0.25, reserve_full_prompt=True),
            *(job(i, 2 + i % 5, 9, step=i) for i in range(8)),
        ),
        walk("a-watermark-of-everything", memory(8, 2, watermark=0.99), *(job(i, 6, 5) for i in range(4))),
        walk("everybody-aborts", memory(6, 2), *(job(i, 3, 9, abort_at=3 + i) for i in range(1, 6))),
        walk("abort-while-out", memory(5, 2), job(1, 3, 6), job(2, 3, 7, abort_at=6), job(3, 3, 5, abort_at=9)),
    ],
    "ch06.6": [
        *THROWN,
        throw("not-even-one-block", 2, [1, 5, 3, 1], [2, 6, 4, 0], in_host=[[50, 60]], host_blocks=15),
        throw("one-block-too-few", 1, [1, 5, 4, 1], [2, 6, 4, 1], in_host=[[50, 60]], host_blocks=16),
    ],
    "ch06.7": [
        entry("a-full-house", 20, 2, [[3, 9]] * 4, [2, 2, 9], [2, 2, 10], [1, 1, 2]),
        entry("back-again", 9, 4, [[5, 17, BACK]], [4, 4, 21, BACK], [4, 4, 22, BACK], [9, 9, 22]),
        entry("a-watermark-besides", 10, 2, [[3, 9], [3, 7]], [2, 2, 7], [2, 2, 8], watermark=0.4),
        entry("nearly-done", 9, 4, [[19, 20]], [4, 4, 17], [4, 4, 18]),
    ],
}  # fmt: skip


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    makers = {
        "ch06.1": lengths,
        "ch06.2": at_the_door,
        "ch06.3": runners,
        "ch06.4": victims,
        "ch06.5": workload,
        "ch06.6": victims,
        "ch06.7": promises,
    }
    return [makers[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(6)]


def lengths(rng: random.Random) -> Case:
    """Requests about as long as the pool and as the budget."""
    num_blocks, size = rng.randint(1, 9), rng.choice([1, 2, 4, 8])
    slots, budget = num_blocks * size, rng.randint(4, 60)
    asked = []
    for edge in (slots, slots, budget, budget):
        longest = max(1, edge + rng.randint(-1, 1))
        prompt = rng.randint(1, longest)
        asked.append([prompt, longest - prompt + 1])
    return door("", num_blocks, size, budget, *asked)


def at_the_door(rng: random.Random) -> Case:
    """A pool that is partly full, and requests of about the size of what is free."""
    num_blocks, size = rng.randint(4, 20), rng.choice([1, 2, 4])
    running = [[rng.randint(1, size * num_blocks // 6 + 1), 99] for _ in range(rng.choice([0, 1, 1, 2]))]
    watermark = rng.choice([0.0, 0.1, 0.25, 0.5, 0.9])
    free = num_blocks - sum(-(-has // size) for has, _ in running)
    asked = []
    for spare in (0, 0, int(watermark * num_blocks), int(watermark * num_blocks)):
        has = max(1, (free - spare) * size + rng.randint(-size, 1))
        asked.append([has, rng.randint(1, has), 99])
        asked.append([has, has, 99] + [BACK] * rng.randint(0, 1))
    more = {"watermark": watermark, "reserve_full_prompt": rng.random() < 0.5}
    return entry("", num_blocks, size, running, *asked, **more)


def runners(rng: random.Random) -> Case:
    """Some who run, in any order, with equal keys among them."""
    ids = rng.sample(range(50), rng.randint(2, 7))
    rows = [[i, float(rng.randint(0, 5)), rng.randint(0, 2)] + [BACK] * rng.randint(0, 1) for i in ids]
    policy = rng.choice(["FCFS", "PriorityOrder", "Classes", "Impatience"])
    return choice("", policy, *rows, now=float(rng.randint(5, 9)))


def victims(rng: random.Random) -> Case:
    """A batch of which some are scheduled already."""
    ids = rng.sample(range(1, 50), rng.randint(3, 7))
    split = rng.randint(1, len(ids) - 1)
    rows = []
    for i in ids[:split]:
        prompt, answer = rng.randint(1, 6), rng.randint(1, 8)
        rows.append([i, prompt, answer, rng.choice([0, 1, 1, rng.randint(1, prompt + answer)])])
    size, used = rng.choice([2, 4]), rng.randint(1, 20)
    return throw(
        "", rng.choice(ids[:split]), *rows, waiting=tuple(ids[split:]), size=size,
        in_host=[[900, used]], host_blocks=-(-used // size) + rng.randint(0, 5),
    )  # fmt: skip


def workload(rng: random.Random) -> Case:
    """Requests that come, go and stop at all times, and a pool that is too small for them."""
    size = rng.choice([1, 2, 2, 4])
    config = memory(
        rng.randint(16 // size, 30 // size),
        size,
        max_num_seqs=rng.randint(2, 6),
        max_num_batched_tokens=rng.randint(16, 40),
        watermark=rng.choice([0.0, 0.0, 0.1, 0.3]),
        reserve_full_prompt=rng.random() < 0.3,
    )
    made = []
    for number in rng.sample(range(90), rng.randint(4, 9)):
        wanted, step = rng.randint(4, 12), rng.choice([0, 0, 1, rng.randint(0, 12)])
        made.append(
            job(
                number,
                rng.randint(1, 8),
                wanted,
                step=step,
                priority=rng.randint(0, 2),
                stop_at=rng.randint(0, wanted - 1) if rng.random() < 0.2 else None,
                abort_at=step + rng.randint(0, 9) if rng.random() < 0.2 else None,
            )
        )
    return walk("", config, *made, policy=rng.choice(["FCFS", "PriorityOrder", "PriorityOrder"]))


def promises(rng: random.Random) -> Case:
    """Those who run, with what they may still write, and one that asks for about the rest."""
    size = rng.choice([1, 2, 4])
    running = [[has := rng.randint(1, 9), has + rng.randint(1, 15)] for _ in range(rng.randint(0, 4))]
    promised = sum(-(-(longest - 1) // size) for _, longest in running)
    num_blocks = promised + rng.randint(1, 6)
    room = (num_blocks - promised) * size
    asked = [[rng.randint(1, edge), 1, edge + 1] for edge in (room, room + 1, max(1, room - 1))]
    return entry("", num_blocks, size, running, *asked)


def wrong(todo: int, name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong answer to one TODO."""
    return Variant(name, {f"ch06.{todo}": code}, rule=rule, looks=looks)


FITS = "longest = request.prompt_len + request.max_new_tokens - 1\n"
NEVER = 'if longest > config.num_blocks * config.block_size:\n    return "never_fits"\n'
OVER = 'if longest > config.max_num_batched_tokens:\n    return "over_budget"\n'
WHOLE = "if config.reserve_full_prompt:\n    num_tokens = seq.num_tokens\n"
SPARE = "spare = int(config.watermark * config.num_blocks) if running else 0\n"
ROOM = "return kv.missing(seq.request_id, num_tokens) + spare <= kv.num_free"
OUT = """
request_id = victim.request_id
scheduler.running.remove(victim)
scheduler.kv.free(request_id)
victim.num_computed_tokens = 0
victim.preempted = True
scheduler.waiting.push(victim, now)
plan.preempted.append(request_id)
plan.start.pop(request_id, None)
plan.block_tables.pop(request_id, None)
return plan.scheduled.pop(request_id, 0)
"""
STEP = """
i = 0
while i < len(self.running):
    seq = self.running[i]
    while not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        if self.running.index(victim) < i:
            i -= 1
        self.evict(victim, plan, now)
        if victim is seq:
            break
    else:
        self.serve(plan, seq)
        i += 1
if not plan.preempted:
    self.let_in(plan, now)
"""
SWAP = """
request_id = victim.request_id
computed = plan.start.get(request_id, victim.num_computed_tokens)
if not scheduler.host.allocate(request_id, computed):
    return preempt(scheduler, victim, plan, now)
there = scheduler.host.tables.get(request_id, [])
plan.swap_out[request_id] = list(zip(scheduler.kv.tables[request_id], there))
given_back = preempt(scheduler, victim, plan, now)
victim.num_computed_tokens = computed
return given_back
"""
PROMISE = "promised = sum(-(-(each.longest - 1) // config.block_size) for each in [*running, seq])\n"


def out(name: str, old: str, new: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 4: one piece of the reference replaced."""
    assert old in OUT
    return wrong(4, name, OUT.replace(old, new), rule, looks)


def step(name: str, old: str, new: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 5: one piece of the reference replaced."""
    assert old in STEP
    return wrong(5, name, STEP.replace(old, new), rule, looks)


def given(name: str, old: str, new: str, rule: str, looks: Text | None = None) -> Variant:
    """A right TODO 5 in a cell whose given code was damaged."""
    cell = load("ch06").answer("ch06-answer-5").reference
    assert cell.count(old) == 1
    return Variant(name, {"ch06.5": STEP}, {"ch06-answer-5": cell.replace(old, new)}, rule, looks)


def swap(name: str, old: str, new: str, rule: str, looks: Text | None = None) -> Variant:
    """A wrong TODO 6: one piece of the reference replaced."""
    assert old in SWAP
    return wrong(6, name, SWAP.replace(old, new), rule, looks)


WRONG: list[Variant] = [
    wrong(1, "never refused", OVER.replace("longest", "request.prompt_len"), "refuses-never-fits"),
    wrong(
        1,
        "the prompt alone",
        "longest = request.prompt_len\n" + NEVER + OVER,
        "refuses-never-fits",
        both(en="only the prompt held against pool and budget", zh="只拿提示词去比池和预算"),
    ),
    wrong(
        1,
        "the last token counted",
        FITS.replace(" - 1", "") + NEVER + OVER,
        "accepts-good-requests",
        both(en="a last token that takes a slot", zh="最后一个 token 也占了槽位"),
    ),
    wrong(1, "tokens against blocks", FITS + NEVER.replace(" * config.block_size", "") + OVER, "accepts-good-requests"),
    wrong(1, "a full pool refused", FITS + NEVER.replace(">", ">=") + OVER, "accepts-good-requests"),
    wrong(1, "a full budget refused", FITS + NEVER + OVER.replace(">", ">="), "accepts-good-requests"),
    wrong(1, "budget not asked", FITS + NEVER, "refuses-over-budget"),
    wrong(
        1,
        "budget for the prompt, as in chapter 4",
        FITS + NEVER + OVER.replace("longest", "request.prompt_len"),
        "refuses-over-budget",
        both(en="chapter 4's budget, which knew no preemption", zh="第 4 章的预算：那里还没有抢占"),
    ),
    wrong(1, "words exchanged", FITS + NEVER.replace("never_fits", "over_budget") + OVER, "names-the-reason"),
    wrong(1, "raised", FITS + NEVER.replace('return "never_fits"', 'raise Refused("never_fits")') + OVER, "returns-the-word"),
    wrong(1, "yes and no", FITS + "return longest > config.num_blocks * config.block_size", "accepts-good-requests"),
    wrong(2, "no watermark", WHOLE + "spare = 0\n" + ROOM, "leaves-the-watermark"),
    wrong(
        2,
        "a watermark always",
        WHOLE + SPARE.replace(" if running else 0", "") + ROOM,
        "watermark-only-while-others-run",
        both(
            en="a watermark that an idle machine keeps too, so large requests wait for ever",
            zh="机器空着也留水位线：大的请求会永远等下去",
        ),
    ),
    wrong(2, "the watermark when alone", WHOLE + SPARE.replace("if running", "if not running") + ROOM, "leaves-the-watermark"),
    wrong(2, "watermark in tokens", WHOLE + SPARE.replace("config.num_blocks)", "config.num_blocks * config.block_size)") + ROOM, "enough-blocks"),
    wrong(
        2,
        "watermark rounded up",
        WHOLE + "spare = -int(-config.watermark * config.num_blocks // 1) if running else 0\n" + ROOM,
        "enough-blocks",
    ),
    wrong(2, "no reservation", SPARE + ROOM, "whole-prompt"),
    wrong(2, "always a reservation", "num_tokens = seq.num_tokens\n" + SPARE + ROOM, "this-step-only"),
    wrong(2, "the last block unused", WHOLE + SPARE + ROOM.replace("<=", "<"), "enough-blocks"),
    wrong(2, "tokens against blocks", WHOLE + SPARE + "return num_tokens + spare <= kv.num_free", "enough-blocks"),
    wrong(2, "takes the blocks", WHOLE + SPARE + ROOM.replace("return ", "fits = ") + "\nif fits:\n    kv.allocate(seq.request_id, num_tokens)\nreturn fits", "only-looks"),
    wrong(2, "nothing returned", WHOLE + SPARE + ROOM.replace("return ", ""), "yes-or-no"),
    wrong(
        3,
        "the most urgent",
        "return min(running, key=lambda seq: policy.key(seq.request, now))",
        "largest-key",
        both(en="the one that is served first, who comes straight back", zh="最先服务的那个：它马上又会回来"),
    ),
    wrong(
        3,
        "the last in the list",
        "return running[-1]",
        "largest-key",
        both(en="the last that was let in, whatever the policy", zh="不管策略，总是最后放进来的那个"),
    ),
    wrong(3, "the last of equal ones", "return sorted(running, key=lambda seq: policy.key(seq.request, now))[-1]", "first-of-equal-ones"),
    wrong(3, "another time", "return max(running, key=lambda seq: policy.key(seq.request, 0.0))", "largest-key"),
    wrong(3, "most tokens", "return max(running, key=lambda seq: seq.num_tokens)", "largest-key"),
    wrong(3, "an id", "return max(running, key=lambda seq: policy.key(seq.request, now)).request_id", "one-of-the-running"),
    wrong(3, "marked already", "victim = max(running, key=lambda seq: policy.key(seq.request, now))\nvictim.preempted = True\nreturn victim", "only-looks"),
    wrong(3, "sorted in place", "running.sort(key=lambda seq: policy.key(seq.request, now), reverse=True)\nreturn running[0]", "only-looks"),
    out("goes on running", "scheduler.running.remove(victim)\n", "", "leaves-running"),
    out(
        "blocks leak",
        "scheduler.kv.free(request_id)\n",
        "",
        "frees-its-blocks",
        both(en="blocks that are never given back", zh="块没有还回去"),
    ),
    out(
        "freed twice",
        "scheduler.kv.free(request_id)\n",
        "scheduler.kv._free.extend(scheduler.kv.tables[request_id])\nscheduler.kv.free(request_id)\n",
        "frees-its-blocks",
    ),
    out(
        "generated tokens lost",
        "victim.preempted = True\n",
        "victim.preempted = True\nvictim.num_tokens = victim.request.prompt_len\n",
        "keeps-its-tokens",
        both(en="an answer that begins anew after a preemption", zh="抢占之后，回答从头写起"),
    ),
    out("counter kept", "victim.num_computed_tokens = 0\n", "", "computes-again"),
    out("the prompt counted as computed", "= 0\n", "= victim.request.prompt_len\n", "computes-again"),
    out("not marked", "victim.preempted = True\n", "", "marks-it"),
    out(
        "lost",
        "scheduler.waiting.push(victim, now)\n",
        "",
        "waits-again",
        both(en="a request that is thrown out and never waits again", zh="请求被请出去之后，再也没回到队列"),
    ),
    out("not told", "plan.preempted.append(request_id)\n", "", "tells-preempted"),
    out("earlier victims forgotten", ".append(request_id)\n", "[:] = [request_id]\n", "tells-preempted"),
    out(
        "still scheduled",
        "return plan.scheduled.pop(request_id, 0)",
        "return plan.scheduled.get(request_id, 0)",
        "out-of-the-plan",
        both(
            en="a preempted request that this step computes all the same", zh="已被抢占的请求，这一步照样在算"
        ),
    ),
    out("start left behind", "plan.start.pop(request_id, None)\n", "", "out-of-the-plan"),
    out("table left behind", "plan.block_tables.pop(request_id, None)\n", "", "out-of-the-plan"),
    out(
        "budget not given back",
        "return plan.scheduled.pop(request_id, 0)",
        "plan.scheduled.pop(request_id, None)\nreturn 0",
        "gives-its-budget-back",
        both(en="budget that is lost with the victim", zh="被抢占者的预算没有退回来"),
    ),
    out("told to be back", "plan.preempted.append(request_id)\n", "plan.preempted.append(request_id)\nplan.resumed.append(request_id)\n", "changes-no-more"),
    out("a token always given back", "pop(request_id, 0)", "pop(request_id, 1)", "gives-its-budget-back"),
    step(
        "nobody preempted",
        "        self.evict(victim, plan, now)\n        if victim is seq:\n            break\n",
        "        i += 1\n        break\n",
        "preempts-when-full",
    ),
    step(
        "always itself",
        "victim = choose_victim(self.running, self.policy, now)",
        "victim = seq",
        "victim",
        both(
            en="whoever needs a block throwing itself out",
            zh="谁要块，就把谁自己请出去",
        ),
    ),
    step("the last let in", "choose_victim(self.running, self.policy, now)", "self.running[-1]", "victim"),
    step(
        "only who comes after",
        "choose_victim(self.running, self.policy, now)",
        "choose_victim(self.running[i:], self.policy, now)",
        "victim",
        both(
            en="a victim chosen only among those who are not served yet",
            zh="只在这一步还没服务的请求里选被抢占者",
        ),
    ),
    step(
        "the cursor stays",
        "        if self.running.index(victim) < i:\n            i -= 1\n",
        "",
        "serves-the-running",
        both(
            en="a cursor that stays where it is when a victim before it leaves: the next one is skipped",
            zh="前面的被请出去了，下标却没动：跳过了下一个",
        ),
    ),
    step("the cursor always moves", "        if self.running.index(victim) < i:\n            i -= 1\n", "        i = max(0, i - 1)\n", "goes-on-where-it-stopped"),
    step(
        "the cursor looked at too late",
        "        if self.running.index(victim) < i:\n            i -= 1\n        self.evict(victim, plan, now)\n",
        "        self.evict(victim, plan, now)\n        if victim in self.running[:i]:\n            i -= 1\n",
        "serves-the-running",
    ),
    step("ends where it was its own victim", "            break\n    else:", "            i = len(self.running)\n            break\n    else:", "serves-the-running"),
    step("skips one behind its own place", "            break\n    else:", "            i += 1\n            break\n    else:", "serves-the-running"),
    step(
        "a copy walked",
        STEP.split("if not plan")[0],
        "for seq in list(self.running):\n"
        "    while not self.kv.allocate(seq.request_id, seq.num_tokens):\n"
        "        victim = choose_victim(self.running, self.policy, now)\n"
        "        self.evict(victim, plan, now)\n"
        "        if victim is seq:\n            break\n"
        "    else:\n        self.serve(plan, seq)\n",
        "tells-resumed",
    ),
    step(
        "lets in after a preemption",
        "if not plan.preempted:\n    self.let_in",
        "if True:\n    self.let_in",
        "head-of-line",
        both(en="newcomers let in in a step that preempted", zh="刚抢占过，同一步又放人进来"),
    ),
    step("nobody let in", "    self.let_in(plan, now)", "    pass", "fills-free-slots"),
    step("lets in first", STEP, "self.let_in(plan, now)\n" + STEP.split("if not plan")[0], "goes-on-where-it-stopped"),
    step("a block ahead", "seq.request_id, seq.num_tokens)", "seq.request_id, seq.num_tokens + 1)", "preempts-only-when-full"),
    step("the newest first", "seq = self.running[i]", "seq = self.running[-1 - i]", "batch-order"),
    step("past evict", "self.evict(victim, plan, now)", "preempt(self, victim, plan, now)", "by-evict"),
    step("the victim of the first moment", "self.policy, now)", "self.policy, 0.0)", "victim"),
    step("no block asked for", "self.kv.allocate(seq.request_id, seq.num_tokens)", "True", "blocks-for-its-tokens"),
    step("served without memory", "    else:\n        self.serve(plan, seq)\n        i += 1", "    self.serve(plan, seq)\n    i += 1", "no-exception"),
    given(
        "blocks leak on abort",
        "            self.waiting.remove(seq)\n        self.kv.free(request_id)\n",
        "            self.waiting.remove(seq)\n",
        "fills-free-slots",
        both(en="blocks that are lost with an aborted request", zh="请求取消之后，块没有还回去"),
    ),
    given(
        "blocks leak at the end",
        "            self.running.remove(self.sequences.pop(request_id))\n            self.kv.free(request_id)\n",
        "            self.running.remove(self.sequences.pop(request_id))\n",
        "fills-free-slots",
        both(en="blocks that are lost with a finished request", zh="请求完成之后，块没有还回去"),
    ),
    swap("never copied", "there = scheduler.host.tables.get(request_id, [])\n", "there = []\n", "copies-what-is-computed"),
    swap(
        "counter that has run ahead",
        "plan.start.get(request_id, victim.num_computed_tokens)",
        "victim.num_computed_tokens",
        "host-holds-it",
        both(en="tokens taken for computed that this step has only planned", zh="把这一步才安排的 token 当成已经算好"),
    ),
    swap("pairs the wrong way round", "zip(scheduler.kv.tables[request_id], there)", "zip(there, scheduler.kv.tables[request_id])", "copies-what-is-computed"),
    swap("nothing computed any more", "victim.num_computed_tokens = computed\n", "", "keeps-what-is-computed"),
    swap("a full host ignored", "if not scheduler.host.allocate(request_id, computed):\n    return preempt(scheduler, victim, plan, now)\n", "scheduler.host.allocate(request_id, computed)\n", "copies-what-is-computed"),
    swap("earlier copies lost", "plan.swap_out[request_id] = list(zip(scheduler.kv.tables[request_id], there))", "plan.swap_out = {request_id: list(zip(scheduler.kv.tables[request_id], there))}", "copies-what-is-computed"),
    swap("every token of it", "request_id, computed):", "request_id, victim.num_tokens):", "host-holds-it"),
    swap("budget lost", "return given_back", "return 0", "gives-its-budget-back"),
    swap("host never used", SWAP, "return preempt(scheduler, victim, plan, now)", "host-holds-it"),
    wrong(7, "who runs not counted", PROMISE.replace("[*running, seq]", "[seq]") + "return promised <= config.num_blocks", "counts-who-runs"),
    wrong(7, "what is held today", "return kv.missing(seq.request_id, seq.longest - 1) <= kv.num_free", "counts-who-runs"),
    wrong(7, "the last token counted", PROMISE.replace("each.longest - 1", "each.longest") + "return promised <= config.num_blocks", "last-token-needs-no-slot"),
    wrong(7, "only who runs promised", PROMISE.replace("[*running, seq]", "running") + "return promised + kv.missing(seq.request_id, seq.num_tokens) <= config.num_blocks", "counts-the-longest"),
    wrong(7, "rounded up once", "promised = -(-sum(each.longest - 1 for each in [*running, seq]) // config.block_size)\nreturn promised <= config.num_blocks", "rounds-up-each"),
    wrong(7, "rounded down", PROMISE.replace("-(-(each.longest - 1) // config.block_size)", "(each.longest - 1) // config.block_size") + "return promised <= config.num_blocks", "rounds-up"),
    wrong(7, "the answer without the prompt", PROMISE.replace("each.longest - 1", "each.request.max_new_tokens") + "return promised <= config.num_blocks", "counts-the-longest"),
    wrong(7, "the last block unused", PROMISE + "return promised < config.num_blocks", "enough-blocks"),
    wrong(7, "a number", PROMISE + "return config.num_blocks - promised", "yes-or-no"),
]  # fmt: skip

CORRECT: list[Variant] = [
    Variant(
        "by blocks, budget first",
        {
            "ch06.1": """
tokens = request.prompt_len - 1 + request.max_new_tokens
reasons = {"over_budget": tokens > config.max_num_batched_tokens}
reasons["never_fits"] = -(-tokens // config.block_size) > config.num_blocks
return next((word for word, holds in reasons.items() if holds), None)
"""
        },
    ),
    Variant(
        "one refusal after the other",
        {
            "ch06.2": """
wanted = seq.num_tokens if config.reserve_full_prompt else num_tokens
free = kv.num_free
if len(running) > 0:
    free -= int(config.watermark * config.num_blocks)
return not kv.missing(seq.request_id, wanted) > free
"""
        },
    ),
    Variant(
        "by hand",
        {
            "ch06.3": """
victim = running[0]
for seq in running[1:]:
    if policy.key(seq.request, now) > policy.key(victim.request, now):
        victim = seq
return victim
"""
        },
    ),
    Variant(
        "the plan first",
        {
            "ch06.4": """
given_back = 0
if victim.request_id in plan.scheduled:
    given_back = plan.scheduled[victim.request_id]
    del plan.scheduled[victim.request_id], plan.start[victim.request_id]
plan.block_tables.pop(victim.request_id, None)
plan.preempted += [victim.request_id]
scheduler.kv.free(victim.request_id)
victim.preempted, victim.num_computed_tokens = True, 0
scheduler.running[:] = [seq for seq in scheduler.running if seq is not victim]
scheduler.waiting.push(victim, now)
return given_back
"""
        },
    ),
    Variant(
        "a copy, and who is left is looked up",
        {
            "ch06.5": """
for seq in list(self.running):
    room = False
    while seq in self.running and not room:
        room = self.kv.allocate(seq.request_id, seq.num_tokens)
        if not room:
            self.evict(choose_victim(self.running, self.policy, now), plan, now)
    if room:
        self.serve(plan, seq)
if plan.preempted:
    return plan
self.let_in(plan, now)
"""
        },
    ),
    Variant(
        "who is done is counted",
        {
            "ch06.5": """
served = []
while len(served) < len(self.running):
    seq = next(s for s in self.running if s not in served)
    if self.kv.missing(seq.request_id, seq.num_tokens) > self.kv.num_free:
        victim = choose_victim(self.running, self.policy, now)
        self.evict(victim, plan, now)
        served = [s for s in served if s is not victim]
        continue
    self.kv.allocate(seq.request_id, seq.num_tokens)
    self.serve(plan, seq)
    served.append(seq)
if len(plan.preempted) == 0:
    self.let_in(plan, now)
"""
        },
    ),
    Variant(
        "pairs by index",
        {
            "ch06.6": """
own, size = victim.request_id, scheduler.kv.block_size
computed = plan.start[own] if own in plan.start else victim.num_computed_tokens
blocks = scheduler.kv.tables[own][: (computed + size - 1) // size]
if len(blocks) > scheduler.host.num_free:
    return preempt(scheduler, victim, plan, now)
scheduler.host.allocate(own, computed)
plan.swap_out[own] = [(block, scheduler.host.tables[own][n]) for n, block in enumerate(blocks)]
back = preempt(scheduler, victim, plan, now)
victim.num_computed_tokens = computed
return back
"""
        },
    ),
    Variant(
        "what is left",
        {
            "ch06.7": """
left = config.num_blocks
for each in (seq, *running):
    left -= (each.longest - 2) // config.block_size + 1
return left >= 0
"""
        },
    ),
]  # fmt: skip

EQUIVALENT = {"ch06.1:6 dropped statement": "a function that ends without return gives None"}
