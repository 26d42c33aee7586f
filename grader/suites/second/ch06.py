"""Chapter 6 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant

LONGEST = "longest = request.prompt_len + request.max_new_tokens - 1\n"
POOL = 'if longest > config.num_blocks * config.block_size:\n    return "never_fits"\n'
BUDGET = 'if longest > config.max_num_batched_tokens:\n    return "over_budget"\n'
REFUSAL = [
    ("the last token has a slot too", LONGEST.replace(" - 1", "") + POOL + BUDGET + "return None"),
    ("two tokens taken off", LONGEST.replace("- 1", "- 2") + POOL + BUDGET + "return None"),
    ("exactly full is too much", LONGEST + POOL.replace(">", ">=") + BUDGET + "return None"),
    ("exactly the budget is too much", LONGEST + POOL + BUDGET.replace(">", ">=") + "return None"),
    ("the prompt alone in the pool", LONGEST + POOL.replace("longest", "request.prompt_len") + BUDGET),
    (
        "the prompt alone in a step, as in chapter 4",
        LONGEST + POOL + BUDGET.replace("longest", "request.prompt_len"),
    ),
    ("the answer alone", LONGEST.replace("request.prompt_len + ", "") + POOL + BUDGET),
    ("tokens compared with blocks", LONGEST + POOL.replace(" * config.block_size", "") + BUDGET),
    (
        "blocks rounded down",
        LONGEST
        + POOL.replace(
            "longest > config.num_blocks * config.block_size",
            "longest // config.block_size > config.num_blocks",
        )
        + BUDGET,
    ),
    (
        "blocks one more than rounded down",
        LONGEST
        + POOL.replace(
            "longest > config.num_blocks * config.block_size",
            "longest // config.block_size + 1 > config.num_blocks",
        )
        + BUDGET,
    ),
    (
        "prompt and answer in blocks of their own",
        """
blocks = -(-request.prompt_len // config.block_size) + -(-(request.max_new_tokens - 1) // config.block_size)
if blocks > config.num_blocks:
    return "never_fits"
if request.prompt_len + request.max_new_tokens - 1 > config.max_num_batched_tokens:
    return "over_budget"
""",
    ),
    ("the budget forgotten", LONGEST + POOL + "return None"),
    ("the pool forgotten", LONGEST + BUDGET + "return None"),
    (
        "only where both are too small",
        LONGEST
        + """
if longest > max(config.num_blocks * config.block_size, config.max_num_batched_tokens):
    return "never_fits"
""",
    ),
    ("one word for both", LONGEST + POOL + BUDGET.replace("over_budget", "never_fits")),
    (
        "the words the wrong way round",
        LONGEST + POOL.replace("never_fits", "over_budget") + BUDGET.replace('"over_budget"', '"never_fits"'),
    ),
    (
        "the watermark taken off the pool",
        LONGEST
        + POOL.replace("config.num_blocks *", "int((1 - config.watermark) * config.num_blocks) *")
        + BUDGET,
    ),
    (
        "a sentence instead of a word",
        LONGEST + POOL.replace("never_fits", "never fits") + BUDGET.replace("over_budget", "over budget"),
    ),
    ("an empty word for a good one", LONGEST + POOL + BUDGET + 'return ""'),
    (
        "yes or no",
        LONGEST
        + "return longest > min(config.num_blocks * config.block_size, config.max_num_batched_tokens)",
    ),
    (
        "raised, not returned",
        LONGEST + POOL.replace("return", "raise Refused(").replace('fits"\n', 'fits")\n') + BUDGET,
    ),
    ("the exception returned", LONGEST + POOL.replace('"never_fits"', 'Refused("never_fits")') + BUDGET),
    (
        "both words together",
        LONGEST
        + """
words = []
if longest > config.num_blocks * config.block_size:
    words.append("never_fits")
if longest > config.max_num_batched_tokens:
    words.append("over_budget")
return " ".join(words) or None
""",
    ),
    (
        "the pool shared by all seats",
        LONGEST + POOL.replace("config.block_size:", "config.block_size // config.max_num_seqs:") + BUDGET,
    ),
]

TOKENS = "tokens = seq.num_tokens if config.reserve_full_prompt else num_tokens\n"
SPARE = "spare = int(config.watermark * config.num_blocks) if running else 0\n"
FITS = "return kv.missing(seq.request_id, tokens) + spare <= kv.num_free"
ADMIT = [
    ("never to the last block", TOKENS + SPARE + FITS.replace("<=", "<")),
    ("the reserve is always kept", TOKENS + "spare = int(config.watermark * config.num_blocks)\n" + FITS),
    ("no reserve at all", TOKENS + "return kv.missing(seq.request_id, tokens) <= kv.num_free"),
    ("the reserve only when nobody runs", TOKENS + SPARE.replace("if running", "if not running") + FITS),
    ("the reserve from the second on", TOKENS + SPARE.replace("if running", "if len(running) > 1") + FITS),
    (
        "the reserve rounded up",
        TOKENS
        + SPARE.replace("int(", "-int(-1 * ").replace(
            "-int(-1 * config.watermark * config.num_blocks)",
            "-(-int(config.watermark * config.num_blocks * 1000) // 1000)",
        )
        + FITS,
    ),
    ("the reserve to the nearest block", TOKENS + SPARE.replace("int(", "round(") + FITS),
    (
        "a broken block is kept back too",
        TOKENS
        + SPARE.replace("int(config.watermark * config.num_blocks)", "config.watermark * config.num_blocks")
        + FITS,
    ),
    ("a share of what is free", TOKENS + SPARE.replace("config.num_blocks", "kv.num_free") + FITS),
    (
        "the reserve counted in tokens",
        TOKENS + SPARE.replace("config.num_blocks", "config.num_blocks * config.block_size") + FITS,
    ),
    (
        "at least one block kept back",
        TOKENS
        + SPARE.replace(
            "int(config.watermark * config.num_blocks)", "max(1, int(config.watermark * config.num_blocks))"
        )
        + FITS,
    ),
    ("a block for each who runs", TOKENS + "spare = len(running)\n" + FITS),
    (
        "need or reserve, whichever is more",
        TOKENS + SPARE + "return max(kv.missing(seq.request_id, tokens), spare) <= kv.num_free",
    ),
    (
        "the reserve and the need each by itself",
        TOKENS + SPARE + "return kv.missing(seq.request_id, tokens) <= kv.num_free and spare <= kv.num_free",
    ),
    ("all tokens, whatever is set", "tokens = seq.num_tokens\n" + SPARE + FITS),
    ("this step only, whatever is set", "tokens = num_tokens\n" + SPARE + FITS),
    (
        "the switch the wrong way round",
        "tokens = num_tokens if config.reserve_full_prompt else seq.num_tokens\n" + SPARE + FITS,
    ),
    (
        "the prompt without the answer so far",
        TOKENS.replace("seq.num_tokens", "seq.request.prompt_len") + SPARE + FITS,
    ),
    ("the whole answer reserved", TOKENS.replace("seq.num_tokens", "seq.longest - 1") + SPARE + FITS),
    ("one token ahead", TOKENS + SPARE + FITS.replace("tokens)", "tokens + 1)")),
    (
        "the step added to the whole",
        TOKENS.replace("seq.num_tokens if", "seq.num_tokens + num_tokens if") + SPARE + FITS,
    ),
    ("blocks rounded down", TOKENS + SPARE + "return tokens // config.block_size + spare <= kv.num_free"),
    ("tokens against blocks", TOKENS + SPARE + "return tokens + spare <= kv.num_free"),
    ("the pool, not what is free", TOKENS + SPARE + FITS.replace("kv.num_free", "kv.num_blocks")),
    (
        "no reserve with whole prompts",
        TOKENS + SPARE.replace("if running", "if running and not config.reserve_full_prompt") + FITS,
    ),
    (
        "no reserve for who comes back",
        TOKENS + SPARE.replace("if running", "if running and not seq.preempted") + FITS,
    ),
    ("asked by trying", TOKENS + "return kv.allocate(seq.request_id, tokens)"),
    ("taken where there is room", TOKENS + SPARE + FITS + " and kv.allocate(seq.request_id, tokens)"),
    (
        "tried and given back",
        TOKENS + "ok = kv.allocate(seq.request_id, tokens)\nkv.free(seq.request_id)\nreturn ok",
    ),
    (
        "put among those who run",
        TOKENS
        + SPARE
        + "ok = kv.missing(seq.request_id, tokens) + spare <= kv.num_free\nif ok:\n    running.append(seq)\nreturn ok",
    ),
    (
        "the blocks that are left",
        TOKENS + SPARE + "return max(0, kv.num_free - spare - kv.missing(seq.request_id, tokens) + 1)",
    ),
    (
        "nothing said for a no",
        TOKENS + SPARE + "if kv.missing(seq.request_id, tokens) + spare <= kv.num_free:\n    return True",
    ),
    ("one and nought", TOKENS + SPARE + FITS.replace("return ", "return int(") + ")"),
    ("seats counted too", TOKENS + SPARE + FITS + " and len(running) < config.max_num_seqs"),
    (
        "the whole only for newcomers",
        TOKENS.replace("config.reserve_full_prompt", "config.reserve_full_prompt and not seq.preempted")
        + SPARE
        + FITS,
    ),
    ("always", "return True"),
]

VICTIM = [
    ("the first in line", "return min(running, key=lambda s: policy.key(s.request, now))"),
    ("the last of equal ones", "return sorted(running, key=lambda s: policy.key(s.request, now))[-1]"),
    (
        "the last of equal ones, in a loop",
        """
victim = running[0]
for s in running:
    if policy.key(s.request, now) >= policy.key(victim.request, now):
        victim = s
return victim
""",
    ),
    ("whoever was admitted last", "return running[-1]"),
    ("whoever was admitted first", "return running[0]"),
    ("whoever came last", "return max(running, key=lambda s: s.request.arrival_time)"),
    ("the least urgent", "return min(running, key=lambda s: s.request.priority)"),
    ("the largest id", "return max(running, key=lambda s: s.request_id)"),
    ("whoever holds most", "return max(running, key=lambda s: s.num_tokens)"),
    ("whoever has least to lose", "return min(running, key=lambda s: s.num_computed_tokens)"),
    ("whoever has most to come", "return max(running, key=lambda s: s.longest - s.num_tokens)"),
    (
        "ties to the smaller id",
        """
top = max(policy.key(s.request, now) for s in running)
return min((s for s in running if policy.key(s.request, now) == top), key=lambda s: s.request_id)
""",
    ),
    (
        "ties to the larger id",
        "return max(running, key=lambda s: (policy.key(s.request, now), s.request_id))",
    ),
    ("the key of the beginning", "return max(running, key=lambda s: policy.key(s.request, 0.0))"),
    (
        "each at its own arrival",
        "return max(running, key=lambda s: policy.key(s.request, s.request.arrival_time))",
    ),
    (
        "asks a clock of its own",
        "import time\n\nreturn max(running, key=lambda s: policy.key(s.request, time.time()))",
    ),
    ("keys compared as words", "return max(running, key=lambda s: str(policy.key(s.request, now)))"),
    ("never the first", "return max(running[1:] or running, key=lambda s: policy.key(s.request, now))"),
    ("never the last", "return max(running[:-1] or running, key=lambda s: policy.key(s.request, now))"),
    ("its request", "return max((s.request for s in running), key=lambda r: policy.key(r, now))"),
    ("its id", "return max(running, key=lambda s: policy.key(s.request, now)).request_id"),
    ("its place", "return max(range(len(running)), key=lambda i: policy.key(running[i].request, now))"),
    (
        "taken out at once",
        "return running.pop(max(range(len(running)), key=lambda i: policy.key(running[i].request, now)))",
    ),
    (
        "the list sorted in place",
        "running.sort(key=lambda s: policy.key(s.request, now), reverse=True)\nreturn running[0]",
    ),
    (
        "marked at once",
        "victim = max(running, key=lambda s: policy.key(s.request, now))\nvictim.preempted = True\nreturn victim",
    ),
    ("the whole sequence handed to the policy", "return max(running, key=lambda s: policy.key(s, now))"),
    ("a copy of it", "import copy\nreturn copy.copy(max(running, key=lambda s: policy.key(s.request, now)))"),
    (
        "those preempted before are spared",
        """
fresh = [s for s in running if not s.preempted]
return max(fresh or running, key=lambda s: policy.key(s.request, now))
""",
    ),
]

GONE = "scheduler.running.remove(victim)\n"
FREE = "scheduler.kv.free(victim.request_id)\n"
ZERO = "victim.num_computed_tokens = 0\n"
MARK = "victim.preempted = True\n"
PUSH = "scheduler.waiting.push(victim, now)\n"
TOLD = "plan.preempted.append(victim.request_id)\n"
UNDO = "plan.start.pop(victim.request_id, None)\nplan.block_tables.pop(victim.request_id, None)\n"
BACK = "return plan.scheduled.pop(victim.request_id, 0)"
OUT = GONE + FREE + ZERO + MARK + PUSH
PREEMPT = [
    ("still running", FREE + ZERO + MARK + PUSH + TOLD + UNDO + BACK),
    ("the last one leaves", "scheduler.running.pop()\n" + FREE + ZERO + MARK + PUSH + TOLD + UNDO + BACK),
    ("everybody leaves", "scheduler.running.clear()\n" + FREE + ZERO + MARK + PUSH + TOLD + UNDO + BACK),
    (
        "all behind it leave too",
        "del scheduler.running[scheduler.running.index(victim):]\n"
        + FREE
        + ZERO
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    ("the others turned round", OUT + "scheduler.running.reverse()\n" + TOLD + UNDO + BACK),
    (
        "a hole in the list",
        "scheduler.running[scheduler.running.index(victim)] = None\n"
        + FREE
        + ZERO
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    ("the blocks kept", GONE + ZERO + MARK + PUSH + TOLD + UNDO + BACK),
    (
        "the table thrown away, the blocks lost",
        GONE + "del scheduler.kv.tables[victim.request_id]\n" + ZERO + MARK + PUSH + TOLD + UNDO + BACK,
    ),
    (
        "the sequence freed, not its id",
        GONE + "scheduler.kv.free(victim)\n" + ZERO + MARK + PUSH + TOLD + UNDO + BACK,
    ),
    (
        "everybody's blocks freed",
        GONE
        + "for request_id in list(scheduler.kv.tables):\n    scheduler.kv.free(request_id)\n"
        + ZERO
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    (
        "counted free once more",
        GONE
        + "scheduler.kv.num_free += len(scheduler.kv.tables[victim.request_id])\n"
        + FREE
        + ZERO
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    ("what was computed stays computed", GONE + FREE + MARK + PUSH + TOLD + UNDO + BACK),
    (
        "only this step's tokens uncomputed",
        GONE
        + FREE
        + "victim.num_computed_tokens -= plan.scheduled.get(victim.request_id, 0)\n"
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    (
        "the prompt stays computed",
        GONE
        + FREE
        + "victim.num_computed_tokens = victim.request.prompt_len\n"
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    ("the answer thrown away", OUT + "victim.num_tokens = victim.request.prompt_len\n" + TOLD + UNDO + BACK),
    ("all tokens thrown away", OUT + "victim.num_tokens = 0\n" + TOLD + UNDO + BACK),
    (
        "begun anew as a fresh sequence",
        GONE + FREE + "victim = Sequence(victim.request)\n" + MARK + PUSH + TOLD + UNDO + BACK,
    ),
    ("not marked", GONE + FREE + ZERO + PUSH + TOLD + UNDO + BACK),
    (
        "marked where it was scheduled",
        GONE
        + FREE
        + ZERO
        + "if victim.request_id in plan.scheduled:\n    victim.preempted = True\n"
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    (
        "freed where it was scheduled",
        GONE
        + "if victim.request_id in plan.scheduled:\n    scheduler.kv.free(victim.request_id)\n"
        + ZERO
        + MARK
        + PUSH
        + TOLD
        + UNDO
        + BACK,
    ),
    (
        "those who were waiting are lost",
        "while seq := scheduler.waiting.peek(now):\n    scheduler.waiting.remove(seq)\n"
        + OUT
        + TOLD
        + UNDO
        + BACK,
    ),
    ("not waiting", GONE + FREE + ZERO + MARK + TOLD + UNDO + BACK),
    (
        "the request waits",
        GONE + FREE + ZERO + MARK + "scheduler.waiting.push(victim.request, now)\n" + TOLD + UNDO + BACK,
    ),
    ("not told", OUT + UNDO + BACK),
    ("told twice", OUT + TOLD + TOLD + UNDO + BACK),
    ("told at the front", OUT + "plan.preempted.insert(0, victim.request_id)\n" + UNDO + BACK),
    ("told as the only one", OUT + "plan.preempted = [victim.request_id]\n" + UNDO + BACK),
    (
        "told where it was scheduled",
        OUT
        + "if victim.request_id in plan.scheduled:\n    plan.preempted.append(victim.request_id)\n"
        + UNDO
        + BACK,
    ),
    (
        "told where it was not scheduled",
        OUT
        + "if victim.request_id not in plan.scheduled:\n    plan.preempted.append(victim.request_id)\n"
        + UNDO
        + BACK,
    ),
    ("the sequence itself in the plan", OUT + "plan.preempted.append(victim)\n" + UNDO + BACK),
    ("still scheduled", OUT + TOLD + UNDO + "return plan.scheduled.get(victim.request_id, 0)"),
    (
        "scheduled with no tokens",
        OUT
        + TOLD
        + UNDO
        + "back = plan.scheduled.get(victim.request_id, 0)\nif back:\n    plan.scheduled[victim.request_id] = 0\nreturn back",
    ),
    ("its start left behind", OUT + TOLD + "plan.block_tables.pop(victim.request_id, None)\n" + BACK),
    ("its table left behind", OUT + TOLD + "plan.start.pop(victim.request_id, None)\n" + BACK),
    (
        "an empty table left",
        OUT
        + TOLD
        + "plan.start.pop(victim.request_id, None)\nplan.block_tables[victim.request_id] = []\n"
        + BACK,
    ),
    (
        "undone for everybody",
        OUT
        + TOLD
        + "back = plan.scheduled.get(victim.request_id, 0)\nplan.scheduled.clear()\nplan.start.clear()\nplan.block_tables.clear()\nreturn back",
    ),
    (
        "the latest entry undone",
        OUT
        + TOLD
        + UNDO
        + "if victim.request_id in plan.scheduled:\n    return plan.scheduled.popitem()[1]\nreturn 0",
    ),
    (
        "a table is always there",
        OUT
        + TOLD
        + "back = plan.scheduled.pop(victim.request_id, 0)\nif back:\n    del plan.start[victim.request_id]\n    del plan.block_tables[victim.request_id]\nreturn back",
    ),
    (
        "it is always in the plan",
        OUT
        + TOLD
        + "plan.block_tables.pop(victim.request_id, None)\ndel plan.start[victim.request_id]\nreturn plan.scheduled.pop(victim.request_id)",
    ),
    ("None where there was none", OUT + TOLD + UNDO + "return plan.scheduled.pop(victim.request_id, None)"),
    ("nothing returned", OUT + TOLD + UNDO + BACK.replace("return ", "")),
    ("always nought returned", OUT + TOLD + UNDO + BACK.replace("return ", "") + "\nreturn 0"),
    ("always one returned", OUT + TOLD + UNDO + BACK.replace("return ", "") + "\nreturn 1"),
    (
        "all of its tokens returned",
        OUT + TOLD + UNDO + BACK.replace("return ", "") + "\nreturn victim.num_tokens",
    ),
    (
        "its blocks returned",
        "blocks = len(scheduler.kv.tables[victim.request_id])\n"
        + OUT
        + TOLD
        + UNDO
        + BACK.replace("return ", "")
        + "\nreturn blocks",
    ),
    (
        "looked up after it was removed",
        OUT
        + TOLD
        + UNDO
        + "plan.scheduled.pop(victim.request_id, None)\nreturn plan.scheduled.get(victim.request_id, 0)",
    ),
    ("resumed at once", OUT + TOLD + "plan.resumed.append(victim.request_id)\n" + UNDO + BACK),
]

NEED = "self.kv.allocate(seq.request_id, seq.num_tokens)"
DOOR = "if not plan.preempted:\n    self.let_in(plan, now)"
WALK = """
i = 0
while i < len(self.running):
    seq = self.running[i]
    own = False
    while not own and not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        place = self.running.index(victim)
        self.evict(victim, plan, now)
        own = victim is seq
        if place < i:
            i -= 1
    if not own:
        self.serve(plan, seq)
        i += 1
"""
STEP = [
    ("the place not moved", WALK.replace("place < i", "False") + DOOR),
    ("the place moved for those behind too", WALK.replace("place < i", "place != i") + DOOR),
    ("the place moved for itself too", WALK.replace("place < i", "place <= i and i") + DOOR),
    (
        "somebody skipped after its own eviction",
        WALK.replace(
            "        self.serve(plan, seq)\n        i += 1", "        self.serve(plan, seq)\n    i += 1"
        )
        + DOOR,
    ),
    (
        "a list that shrinks under a for",
        """
for seq in self.running:
    while not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        self.evict(victim, plan, now)
        if victim is seq:
            break
    else:
        self.serve(plan, seq)
"""
        + DOOR,
    ),
    (
        "a copy walked, the evicted ones too",
        """
for seq in list(self.running):
    while not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        self.evict(victim, plan, now)
        if victim is seq:
            break
    else:
        self.serve(plan, seq)
"""
        + DOOR,
    ),
    ("preempt called past evict", WALK.replace("self.evict(", "preempt(self, ") + DOOR),
    (
        "closed while anybody waits to come back",
        WALK
        + "back = any(s.preempted for s in self.waiting.ordered(now))\n"
        + "if not plan.preempted and not (self.running and back):\n    self.let_in(plan, now)",
    ),
    ("the door is always open", WALK + "self.let_in(plan, now)"),
    ("the door first", "self.let_in(plan, now)\n" + WALK),
    ("nobody is ever let in", WALK),
    (
        "let in only when nobody runs",
        WALK + "if not plan.preempted and not self.running:\n    self.let_in(plan, now)",
    ),
    (
        "let in only when somebody was served",
        WALK + "if not plan.preempted and plan.scheduled:\n    self.let_in(plan, now)",
    ),
    ("let in where blocks are free", WALK + "if self.kv.num_free:\n    self.let_in(plan, now)"),
    (
        "let in unless the victim was somebody else",
        WALK.replace(
            "own = victim is seq",
            "own = victim is seq\n        others = plan.preempted[:] if not own else []",
        ).replace("i = 0\n", "i, others = 0, []\n", 1)
        + "if not others:\n    self.let_in(plan, now)",
    ),
    (
        "let in one only",
        WALK
        + "if not plan.preempted and (seq := self.waiting.peek(now)) and len(self.running) < self.config.max_num_seqs and self.fits(seq):\n    if sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens:\n        self.admit(plan, seq)",
    ),
    (
        "those served are spared",
        WALK.replace("choose_victim(self.running,", "choose_victim(self.running[i:],") + DOOR,
    ),
    (
        "those behind are spared",
        WALK.replace("choose_victim(self.running,", "choose_victim(self.running[: i + 1],") + DOOR,
    ),
    (
        "always the last in the list",
        WALK.replace("choose_victim(self.running, self.policy, now)", "self.running[-1]") + DOOR,
    ),
    ("always itself", WALK.replace("choose_victim(self.running, self.policy, now)", "seq") + DOOR),
    (
        "itself only if there is nobody else",
        WALK.replace(
            "choose_victim(self.running,", "choose_victim([s for s in self.running if s is not seq] or [seq],"
        )
        + DOOR,
    ),
    (
        "the victim by time nought",
        WALK.replace(
            "choose_victim(self.running, self.policy, now)", "choose_victim(self.running, self.policy, 0.0)"
        )
        + DOOR,
    ),
    ("a block in advance", WALK.replace("seq.num_tokens)", "seq.num_tokens + 1)") + DOOR),
    ("blocks for the whole answer", WALK.replace("seq.num_tokens)", "seq.longest - 1)") + DOOR),
    (
        "who lacks a block is passed over",
        f"for seq in self.running:\n    if {NEED}:\n        self.serve(plan, seq)\n" + DOOR,
    ),
    (
        "evicts as soon as nothing is free",
        WALK.replace(
            "not own and not self.kv.allocate(seq.request_id, seq.num_tokens)",
            "not own and (not self.kv.num_free or not self.kv.allocate(seq.request_id, seq.num_tokens))",
        )
        + DOOR,
    ),
    (
        "the step ends with the first eviction",
        WALK.replace(
            "    seq = self.running[i]\n",
            "    seq = self.running[i]\n    if plan.preempted:\n        break\n",
        )
        + DOOR,
    ),
    (
        "who has evicted waits for the next step",
        WALK.replace(
            "        own = victim is seq\n",
            "        if victim is not seq:\n            i += place > i\n            break\n        own = True\n",
        )
        .replace("    if not own:", "    if not own and not plan.preempted:")
        .replace("        i += 1\n", "        i += 1\n    elif plan.preempted and not own:\n        break\n")
        + DOOR,
    ),
    (
        "served after its own eviction",
        WALK.replace("    if not own:\n", "    if not own or not plan.scheduled:\n") + DOOR,
    ),
    (
        "in the order of the policy",
        WALK.replace(
            "i = 0\n", "i = 0\nself.running.sort(key=lambda s: self.policy.key(s.request, now))\n", 1
        )
        + DOOR,
    ),
    ("the latest first", WALK.replace("i = 0\n", "i = 0\nself.running.reverse()\n", 1) + DOOR),
    (
        "from the start again after an eviction",
        WALK.replace(
            "        if place < i:\n            i -= 1\n",
            "        i = 0\n        seq = self.running[0] if self.running else seq\n",
        )
        + DOOR,
    ),
    (
        "all others evicted at once",
        """
for seq in list(self.running):
    if seq not in self.running:
        continue
    if not self.kv.allocate(seq.request_id, seq.num_tokens):
        for other in [s for s in self.running if s is not seq]:
            self.evict(other, plan, now)
        self.kv.allocate(seq.request_id, seq.num_tokens)
    self.serve(plan, seq)
"""
        + DOOR,
    ),
    (
        "blocks taken, nothing said",
        WALK.replace(
            "self.evict(victim, plan, now)",
            "self.kv.free(victim.request_id)\n        self.running.remove(victim)\n        self.waiting.push(victim, now)",
        )
        + DOOR,
    ),
    (
        "the table told before it has grown",
        WALK.replace("    own = False\n", "    own = False\n    self.serve(plan, seq)\n").replace(
            "        self.serve(plan, seq)\n        i += 1", "        i += 1"
        )
        + DOOR,
    ),
    (
        "the seats fewer than those who run",
        WALK
        + "if not plan.preempted and len(self.running) + 1 < self.config.max_num_seqs:\n    self.let_in(plan, now)",
    ),
    (
        "one spare victim for the next step",
        WALK.replace(
            "        self.serve(plan, seq)\n        i += 1",
            "        self.serve(plan, seq)\n        i += 1\n        if plan.preempted and not self.kv.num_free and len(self.running) > i:\n            self.evict(self.running[-1], plan, now)",
        )
        + DOOR,
    ),
    (
        "the door closed for a step longer",
        """
closed = getattr(self, "closed", False)
"""
        + WALK
        + "self.closed = bool(plan.preempted)\nif not plan.preempted and not closed:\n    self.let_in(plan, now)",
    ),
]

SWAP = """
rid = victim.request_id
computed = plan.start.get(rid, victim.num_computed_tokens)
if not scheduler.host.allocate(rid, computed):
    return preempt(scheduler, victim, plan, now)
plan.swap_out[rid] = list(zip(scheduler.kv.tables[rid], scheduler.host.tables.get(rid, []), strict=False))
back = preempt(scheduler, victim, plan, now)
victim.num_computed_tokens = computed
return back
"""
SWAPS = [
    ("never swapped", "return preempt(scheduler, victim, plan, now)"),
    (
        "the counter believed",
        SWAP.replace("plan.start.get(rid, victim.num_computed_tokens)", "victim.num_computed_tokens"),
    ),
    (
        "always one less",
        SWAP.replace("plan.start.get(rid, victim.num_computed_tokens)", "victim.num_computed_tokens - 1"),
    ),
    (
        "only the plan believed",
        SWAP.replace("plan.start.get(rid, victim.num_computed_tokens)", "plan.start.get(rid, 0)"),
    ),
    (
        "all tokens, computed or not",
        SWAP.replace("plan.start.get(rid, victim.num_computed_tokens)", "victim.num_tokens"),
    ),
    ("the counter forgotten", SWAP.replace("victim.num_computed_tokens = computed\n", "")),
    (
        "the counter set to all",
        SWAP.replace(
            "victim.num_computed_tokens = computed\n", "victim.num_computed_tokens = victim.num_tokens\n"
        ),
    ),
    (
        "the counter set before preempt clears it",
        SWAP.replace("victim.num_computed_tokens = computed\n", "").replace(
            "back = ", "victim.num_computed_tokens = computed\nback = "
        ),
    ),
    (
        "the pairs turned round",
        SWAP.replace(
            "zip(scheduler.kv.tables[rid], scheduler.host.tables.get(rid, []), strict=False)",
            "zip(scheduler.host.tables.get(rid, []), scheduler.kv.tables[rid])",
        ),
    ),
    (
        "host blocks only",
        SWAP.replace(
            "list(zip(scheduler.kv.tables[rid], scheduler.host.tables.get(rid, []), strict=False))",
            "list(scheduler.host.tables.get(rid, []))",
        ),
    ),
    ("from the back", SWAP.replace("zip(scheduler.kv.tables[rid],", "zip(scheduler.kv.tables[rid][::-1],")),
    (
        "the last blocks of the table",
        SWAP.replace(
            "scheduler.kv.tables[rid],",
            "scheduler.kv.tables[rid][-len(scheduler.host.tables.get(rid, [])) :],",
        ),
    ),
    (
        "full blocks only",
        SWAP.replace("strict=False))", "strict=False))[: computed // scheduler.kv.block_size]"),
    ),
    (
        "preempt first",
        SWAP.replace("back = preempt(scheduler, victim, plan, now)\n", "")
        .replace("plan.swap_out", "back = preempt(scheduler, victim, plan, now)\nplan.swap_out")
        .replace("kv.tables[rid]", "kv.tables.get(rid, [])"),
    ),
    (
        "no way back when the host is full",
        SWAP.replace(
            "if not scheduler.host.allocate(rid, computed):\n    return preempt(scheduler, victim, plan, now)\n",
            "scheduler.host.allocate(rid, computed)\n",
        ),
    ),
    (
        "nothing done when the host is full",
        SWAP.replace("    return preempt(scheduler, victim, plan, now)", "    return 0"),
    ),
    (
        "as much as the host has",
        SWAP.replace(
            "if not scheduler",
            "computed = min(computed, scheduler.host.num_free * scheduler.host.block_size)\nif not scheduler",
        ),
    ),
    (
        "an entry left when the host is full",
        SWAP.replace("    return preempt", "    plan.swap_out[rid] = []\n    return preempt"),
    ),
    ("the host given back at once", SWAP.replace("return back", "scheduler.host.free(rid)\nreturn back")),
    ("nothing returned", SWAP.replace("return back", "")),
    ("blocks returned", SWAP.replace("return back", "return len(plan.swap_out[rid])")),
    ("not a preemption", SWAP.replace("return back", "plan.preempted.remove(rid)\nreturn back")),
    (
        "the pairs of the latest only",
        SWAP.replace("plan.swap_out[rid] = list(", "plan.swap_out = dict.fromkeys([rid], list(").replace(
            "strict=False))", "strict=False)))"
        ),
    ),
    (
        "a flat list of pairs",
        SWAP.replace("plan.swap_out[rid] = list(", "plan.swap_out[rid] = sum(").replace(
            "strict=False))", "strict=False), ())"
        ),
    ),
]

GOOD = "blocks = sum(-(-(s.longest - 1) // config.block_size) for s in [*running, seq])\nreturn blocks <= config.num_blocks"
PROMISE = [
    ("the last token too", GOOD.replace("(s.longest - 1)", "s.longest")),
    (
        "added before they are rounded",
        "return -(-sum(s.longest - 1 for s in [*running, seq]) // config.block_size) <= config.num_blocks",
    ),
    (
        "rounded down",
        GOOD.replace("-(-(s.longest - 1) // config.block_size)", "(s.longest - 1) // config.block_size"),
    ),
    (
        "one more than rounded down",
        GOOD.replace("-(-(s.longest - 1) // config.block_size)", "(s.longest - 1) // config.block_size + 1"),
    ),
    ("one slot short", GOOD.replace("(s.longest - 1)", "(s.longest - 2)")),
    ("without the newcomer", GOOD.replace("[*running, seq]", "running")),
    ("without those who run", GOOD.replace("[*running, seq]", "[seq]")),
    ("the newcomer twice", GOOD.replace("[*running, seq]", "[*running, seq, seq]")),
    ("never the last block", GOOD.replace("<=", "<")),
    ("against what is free", GOOD.replace("config.num_blocks", "kv.num_free")),
    ("the newcomer against what is free", "return -(-(seq.longest - 1) // config.block_size) <= kv.num_free"),
    (
        "the newcomer's tokens of today",
        "blocks = sum(-(-(s.longest - 1) // config.block_size) for s in running) - (-num_tokens // config.block_size)\nreturn blocks <= config.num_blocks",
    ),
    ("everybody's tokens of today", GOOD.replace("(s.longest - 1)", "s.num_tokens")),
    ("what they hold added", GOOD.replace("return blocks", "return blocks + kv.num_blocks - kv.num_free")),
    ("the longest one only", GOOD.replace("sum(", "max(")),
    ("the answer without the prompt", GOOD.replace("(s.longest - 1)", "s.request.max_new_tokens")),
    ("the prompt without the answer", GOOD.replace("(s.longest - 1)", "s.request.prompt_len")),
    (
        "tokens of today and the whole answer",
        GOOD.replace("(s.longest - 1)", "(s.num_tokens + s.request.max_new_tokens - 1)"),
    ),
    (
        "nothing promised to who was preempted",
        GOOD.replace("[*running, seq]", "[*running, seq] if not s.preempted"),
    ),
    (
        "the watermark kept",
        GOOD.replace(
            "config.num_blocks",
            "config.num_blocks - int(config.watermark * config.num_blocks) * bool(running)",
        ),
    ),
    (
        "a number",
        GOOD.replace("return blocks <= config.num_blocks", "return max(0, config.num_blocks - blocks + 1)"),
    ),
    ("put among those who run", "running.append(seq)\n" + GOOD.replace("[*running, seq]", "running")),
    (
        "slots against slots",
        "return sum(s.longest - 1 for s in [*running, seq]) <= config.num_blocks * config.block_size",
    ),
]

WRONG = [
    Variant(name, {todo: code})
    for todo, variants in [
        ("ch06.1", REFUSAL),
        ("ch06.2", ADMIT),
        ("ch06.3", VICTIM),
        ("ch06.4", PREEMPT),
        ("ch06.5", STEP),
        ("ch06.6", SWAPS),
        ("ch06.7", PROMISE),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "blocks counted, the budget first",
        {
            "ch06.1": """
most = request.prompt_len - 1 + request.max_new_tokens
if not most <= config.max_num_batched_tokens:
    return "over_budget"
return "never_fits" if (most + config.block_size - 1) // config.block_size > config.num_blocks else None
""",
            "ch06.7": """
import math

left = config.num_blocks
for one in (seq, *reversed(running)):
    left -= math.ceil((one.longest - 1) / config.block_size)
return left >= 0
""",
        },
    ),
    Variant(
        "a table of limits",
        {
            "ch06.1": """
limits = {
    "never_fits": config.block_size * config.num_blocks,
    "over_budget": config.max_num_batched_tokens,
}
for word, most in limits.items():
    if request.prompt_len + request.max_new_tokens > most + 1:
        return word
""",
            "ch06.2": """
if config.reserve_full_prompt:
    num_tokens = max(num_tokens, seq.num_tokens)
free = kv.num_free
if len(running):
    free -= int(config.watermark * config.num_blocks)
return not kv.missing(seq.request_id, num_tokens) > free
""",
        },
    ),
    Variant(
        "blocks worked out by hand",
        {
            "ch06.2": """
need = (seq.num_tokens if config.reserve_full_prompt else num_tokens) + kv.block_size - 1
reserve = (config.num_blocks * config.watermark) // 1 if running != [] else 0
if need // kv.block_size > kv.num_free - reserve:
    return False
return True
""",
            "ch06.3": """
victim = None
for seq in running:
    if victim is None or policy.key(seq.request, now) > policy.key(victim.request, now):
        victim = seq
return victim
""",
        },
    ),
    Variant(
        "sorted the other way round",
        {
            "ch06.3": "return sorted(running, key=lambda s: policy.key(s.request, now), reverse=True)[0]",
            "ch06.4": """
rid = victim.request_id
tokens = 0
if rid in plan.scheduled:
    tokens = plan.scheduled[rid]
    for entries in (plan.scheduled, plan.start, plan.block_tables):
        entries.pop(rid, None)
plan.preempted += [rid]
scheduler.running = [s for s in scheduler.running if s is not victim]
victim.preempted, victim.num_computed_tokens = True, 0
scheduler.kv.free(rid)
scheduler.waiting.push(victim, now)
return tokens
""",
        },
    ),
    Variant(
        "the keys looked up once",
        {
            "ch06.3": """
keys = [policy.key(s.request, now) for s in running]
return running[keys.index(max(keys))]
""",
            "ch06.4": """
entry = {name: dict(getattr(plan, name)) for name in ("scheduled", "start", "block_tables")}
back = entry["scheduled"].get(victim.request_id, 0)
for name, old in entry.items():
    setattr(plan, name, {k: v for k, v in old.items() if k != victim.request_id})
plan.preempted = [*plan.preempted, victim.request_id]
scheduler.waiting.push(victim, now)
victim.num_computed_tokens = 0
victim.preempted = True
scheduler.kv.free(victim.request_id)
del scheduler.running[scheduler.running.index(victim)]
return back
""",
        },
    ),
    Variant(
        "one victim, which in this chapter is enough",
        {
            "ch06.5": """
i = 0
while i < len(self.running):
    seq = self.running[i]
    if not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        i -= self.running.index(victim) < i
        self.evict(victim, plan, now)
        if victim is seq:
            continue
        self.kv.allocate(seq.request_id, seq.num_tokens)
    self.serve(plan, seq)
    i += 1
"""
            + DOOR
        },
    ),
    Variant(
        "the host's table taken as it is, block size by the settings",
        {
            "ch06.6": """
rid = victim.request_id
done = plan.start.get(rid, victim.num_computed_tokens)
if not scheduler.host.allocate(rid, done):
    return preempt(scheduler, victim, plan, now)
blocks = -(-done // scheduler.host.block_size)
pairs = zip(scheduler.kv.tables[rid][:blocks], scheduler.host.tables[rid][:blocks], strict=True)
plan.swap_out[rid] = [list(pair) for pair in pairs]
back = preempt(scheduler, victim, plan, now)
victim.num_computed_tokens = done
return back
"""
        },
    ),
    Variant("an index and a flag", {"ch06.5": WALK + DOOR}),
    Variant(
        "a copy walked, whoever has gone passed over",
        {
            "ch06.5": """
for seq in list(self.running):
    if seq not in self.running:
        continue
    while seq in self.running and not self.kv.allocate(seq.request_id, seq.num_tokens):
        self.evict(choose_victim(self.running, self.policy, now), plan, now)
    if seq in self.running:
        self.serve(plan, seq)
if len(plan.preempted) == 0:
    self.let_in(plan, now)
"""
        },
    ),
    Variant(
        "blocks for all first, then the plan",
        {
            "ch06.5": """
todo = self.running[:]
while todo:
    seq = todo.pop(0)
    while not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        self.evict(victim, plan, now)
        if victim in todo:
            todo.remove(victim)
        if victim is seq:
            break
for seq in self.running:
    self.serve(plan, seq)
if plan.preempted:
    return plan
self.let_in(plan, now)
"""
        },
    ),
    Variant(
        "the next who has no blocks yet",
        {
            "ch06.5": """
def got_blocks(seq):
    while not self.kv.allocate(seq.request_id, seq.num_tokens):
        victim = choose_victim(self.running, self.policy, now)
        self.evict(victim, plan, now)
        if victim == seq:
            return False
    return True

while seq := next((s for s in self.running if s.request_id not in plan.scheduled), None):
    if got_blocks(seq):
        self.serve(plan, seq)
if not plan.preempted:
    self.let_in(plan, now)
"""
        },
    ),
    Variant(
        "the counter wound back",
        {
            "ch06.6": """
rid = victim.request_id
done = victim.num_computed_tokens - plan.scheduled.get(rid, 0)
blocks = list(scheduler.kv.tables[rid])
returned = preempt(scheduler, victim, plan, now)
if scheduler.host.allocate(rid, done):
    there = scheduler.host.tables.get(rid, [])
    plan.swap_out[rid] = [(blocks[i], there[i]) for i in range(len(there))]
    victim.num_computed_tokens = done
return returned
""",
            "ch06.7": "return sum((s.longest - 2) // config.block_size + 1 for s in running + [seq]) <= config.num_blocks",
        },
    ),
    Variant(
        "asked before it is taken",
        {
            "ch06.6": """
rid = victim.request_id
done = plan.start[rid] if rid in plan.scheduled else victim.num_computed_tokens
if scheduler.host.missing(rid, done) > scheduler.host.num_free:
    return preempt(scheduler, victim, plan, now)
scheduler.host.allocate(rid, done)
pairs = []
for position in range(0, done, scheduler.kv.block_size):
    i = position // scheduler.kv.block_size
    pairs.append((scheduler.kv.tables[rid][i], scheduler.host.tables[rid][i]))
plan.swap_out[rid] = pairs
back = preempt(scheduler, victim, plan, now)
victim.num_computed_tokens = done
return back
"""
        },
    ),
]
