"""Chapter 7 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def wrong(todo: str, name: str, code: str) -> Variant:
    """An answer that a learner could well write, and that is not right."""
    return Variant(name, {todo: code})


LEFT = "count = seq.num_tokens - seq.num_computed_tokens\n"
CAP = """
cap = config.long_prefill_token_threshold
if cap and active > 1:
    count = min(count, cap)
"""
CUT = """
if count > budget:
    return budget if config.enable_chunked_prefill else 0
return count
"""

CHUNK = [
    ("no cap at all", LEFT + CUT),
    (
        "capped even alone",
        LEFT
        + """
if config.long_prefill_token_threshold:
    count = min(count, config.long_prefill_token_threshold)
"""
        + CUT,
    ),
    ("two are still alone", LEFT + CAP.replace("active > 1", "active > 2") + CUT),
    ("a threshold of 0 lets nothing through", LEFT + CAP.replace("cap and active", "active") + CUT),
    ("capped only when alone", LEFT + CAP.replace("active > 1", "active == 1") + CUT),
    ("always cut at the budget", LEFT + CAP + "return min(count, budget)"),
    ("what just fits is too much", LEFT + CAP + CUT.replace("count > budget", "count >= budget")),
    (
        "in one piece: the whole prompt, before the cap",
        LEFT
        + """
if not config.enable_chunked_prefill and count > budget:
    return 0
"""
        + CAP
        + "return min(count, budget)",
    ),
    ("the budget forgotten", LEFT + CAP + "return count"),
    (
        "in one piece, and else the budget forgotten",
        LEFT + CAP + "return 0 if count > budget and not config.enable_chunked_prefill else count",
    ),
    ("the prompt's tokens only", "count = seq.request.prompt_len - seq.num_computed_tokens\n" + CAP + CUT),
    ("what is computed is not subtracted", "count = seq.num_tokens\n" + CAP + CUT),
    ("up to the end of the answer", "count = seq.longest - seq.num_computed_tokens\n" + CAP + CUT),
    (
        "the cap is for prompts, not for an answer that is recomputed",
        LEFT
        + """
cap = config.long_prefill_token_threshold
if cap and active > 1 and seq.num_computed_tokens < seq.request.prompt_len:
    count = min(count, cap)
"""
        + CUT,
    ),
    (
        "only the first chunk is capped",
        LEFT
        + """
cap = config.long_prefill_token_threshold
if cap and active > 1 and seq.num_computed_tokens == 0:
    count = min(count, cap)
"""
        + CUT,
    ),
    (
        "no cap where nothing may be cut",
        LEFT + CAP.replace("if cap and", "if config.enable_chunked_prefill and cap and") + CUT,
    ),
    (
        "who may not be cut is not capped and may not be larger than the cap",
        LEFT
        + """
cap = config.long_prefill_token_threshold
if cap and active > 1 and count > cap:
    if not config.enable_chunked_prefill:
        return 0
    count = cap
"""
        + CUT,
    ),
    ("at least one, always", LEFT + CAP + CUT.replace("return budget if", "return max(1, budget) if")),
    (
        "nothing said where the budget is used up",
        "if budget:\n" + "    pass\nelse:\n    return\n" + LEFT + CAP + CUT,
    ),
    (
        "cut at the end of a block",
        LEFT
        + CAP
        + """
if count > budget:
    return budget - budget % config.block_size if config.enable_chunked_prefill else 0
return count
""",
    ),
    (
        "in one piece: against the budget of a whole step",
        LEFT
        + CAP
        + """
if count > config.max_num_batched_tokens and not config.enable_chunked_prefill:
    return 0
return min(count, budget)
""",
    ),
    (
        "the budget of a whole step",
        LEFT
        + CAP
        + CUT.replace("return budget", "return config.max_num_batched_tokens").replace(
            "> budget", "> config.max_num_batched_tokens"
        ),
    ),
    (
        "counts it as computed, too",
        LEFT + CAP + "count = count if count <= budget else budget * config.enable_chunked_prefill\n"
        "seq.num_computed_tokens += count\nreturn count",
    ),
    ("a fraction of a token", LEFT + CAP + CUT.replace("return budget", "return budget / 1")),
    ("one token more than the budget", LEFT + CAP + CUT.replace("return budget", "return budget + 1")),
    (
        "a single token more is no second chunk",
        LEFT + CAP + CUT.replace("count > budget", "count > budget + 1"),
    ),
    (
        "the cap is the answer",
        LEFT
        + """
cap = config.long_prefill_token_threshold
if cap and active > 1 and count > cap:
    return cap
"""
        + CUT,
    ),
    (
        "whoever is capped may be cut",
        LEFT
        + """
cap = config.long_prefill_token_threshold
if cap and active > 1:
    return min(count, cap, budget)
"""
        + CUT,
    ),
    ("on and off the wrong way round", LEFT + CAP + CUT.replace("if config", "if not config")),
    (
        "the cap before what is computed is taken off",
        """
count = seq.num_tokens
"""
        + CAP
        + "count -= seq.num_computed_tokens\n"
        + CUT,
    ),
    (
        "a fair share of the budget for everybody",
        LEFT + CAP + "budget = max(1, budget // active) if budget else 0\n" + CUT,
    ),
    ("the cap is the least, not the most", LEFT + CAP.replace("min(", "max(") + CUT),
    (
        "a decode is always one token, whatever is left of it",
        LEFT
        + "if seq.num_computed_tokens >= seq.request.prompt_len:\n    return min(1, budget)\n"
        + CAP
        + CUT,
    ),
    (
        "a decode is free",
        LEFT + "if count == 1:\n    return 1\n" + CAP + CUT,
    ),
    (
        "in one piece means from its first token",
        LEFT
        + CAP
        + """
if not config.enable_chunked_prefill and seq.num_tokens > budget:
    return 0
return min(count, budget)
""",
    ),
]

SERVE = """
budget, i = self.config.max_num_batched_tokens, 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    while not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        if self.running.index(victim) < i:
            i -= 1
        budget += preempt(self, victim, plan, now)
        if victim is seq:
            break
    else:
        budget -= count
        i += 1
return budget
"""


def but(old: str, new: str, code: str = SERVE) -> str:
    """The loop with one passage another one."""
    assert old in code
    return code.replace(old, new)


RUNNING = [
    (
        "who lacks blocks is passed over",
        """
budget = self.config.max_num_batched_tokens
for seq in self.running:
    if budget <= 0:
        break
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if self.compute(plan, seq, count):
        budget -= count
return budget
""",
    ),
    (
        "who lacks blocks ends the step",
        """
budget = self.config.max_num_batched_tokens
for seq in self.running:
    if budget <= 0:
        break
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if not self.compute(plan, seq, count):
        break
    budget -= count
return budget
""",
    ),
    (
        "nobody asks whether there were blocks",
        """
budget = self.config.max_num_batched_tokens
for seq in self.running:
    if budget:
        count = next_chunk(seq, budget, len(self.sequences), self.config)
        self.compute(plan, seq, count)
        budget -= count
return budget
""",
    ),
    (
        "one victim must do",
        """
budget, i = self.config.max_num_batched_tokens, 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        if self.running.index(victim) < i:
            i -= 1
        budget += preempt(self, victim, plan, now)
        if victim is seq:
            continue
        if not self.compute(plan, seq, count):
            i += 1
            continue
    budget -= count
    i += 1
return budget
""",
    ),
    ("the last one in the list", but("choose_victim(self.running, self.policy, now)", "self.running[-1]")),
    ("whoever lacks blocks goes", but("choose_victim(self.running, self.policy, now)", "seq")),
    (
        "the most urgent one goes",
        but(
            "choose_victim(self.running, self.policy, now)",
            "min(self.running, key=lambda s: self.policy.key(s.request, now))",
        ),
    ),
    (
        "somebody else, where there is one",
        but(
            "choose_victim(self.running, self.policy, now)",
            "choose_victim([s for s in self.running if s is not seq] or [seq], self.policy, now)",
        ),
    ),
    (
        "a victim only among those behind",
        but(
            "choose_victim(self.running, self.policy, now)",
            "choose_victim(self.running[i:], self.policy, now)",
        ),
    ),
    (
        "a victim only among those that had their turn",
        but(
            "choose_victim(self.running, self.policy, now)",
            "choose_victim(self.running[:i + 1], self.policy, now)",
        ),
    ),
    (
        "the one with the most blocks",
        but(
            "choose_victim(self.running, self.policy, now)",
            "max(self.running, key=lambda s: len(self.kv.tables.get(s.request_id, ())))",
        ),
    ),
    (
        "over a copy, victims and all",
        """
budget = self.config.max_num_batched_tokens
for seq in list(self.running):
    if budget <= 0:
        break
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    while not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        budget += preempt(self, victim, plan, now)
        if victim is seq:
            break
    else:
        budget -= count
return budget
""",
    ),
    (
        "a for over the list that shrinks",
        """
budget = self.config.max_num_batched_tokens
for seq in self.running:
    if budget <= 0:
        break
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    while not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        budget += preempt(self, victim, plan, now)
        if victim is seq:
            break
    else:
        budget -= count
return budget
""",
    ),
    ("the cursor stays", but("        if self.running.index(victim) < i:\n            i -= 1\n", "")),
    ("the cursor always goes back", but("if self.running.index(victim) < i", "if i > 0")),
    ("the cursor goes back for itself, too", but("index(victim) < i", "index(victim) <= i")),
    (
        "looked where it stood when it was gone",
        """
budget, i = self.config.max_num_batched_tokens, 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    while not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        budget += preempt(self, victim, plan, now)
        if victim in self.running and self.running.index(victim) < i:
            i -= 1
        if victim is seq:
            break
    else:
        budget -= count
        i += 1
return budget
""",
    ),
    ("the victim's tokens are lost", but("budget += preempt", "preempt")),
    (
        "the victim's blocks as tokens",
        but(
            "budget += preempt(self, victim, plan, now)",
            "budget += len(self.kv.tables.get(victim.request_id, ()))\n        preempt(self, victim, plan, now)",
        ),
    ),
    (
        "all that the victim had computed comes back",
        but(
            "budget += preempt(self, victim, plan, now)",
            "budget += victim.num_computed_tokens\n        preempt(self, victim, plan, now)",
        ),
    ),
    ("alone means that nobody else runs", but("len(self.sequences)", "len(self.running)")),
    ("alone is whom nobody waits behind", but("len(self.sequences)", "1 + len(self.waiting)")),
    ("active are those that were ever taken in", but("len(self.sequences)", "len(self.ids)")),
    ("everybody is taken to be alone", but("len(self.sequences)", "1")),
    ("the budget is never used up", but("        budget -= count\n", "")),
    ("says nothing at the end", but("return budget", "return None")),
    (
        "what was used, not what is left",
        but("return budget", "return self.config.max_num_batched_tokens - budget"),
    ),
    (
        "a whole budget for each",
        but("next_chunk(seq, budget,", "next_chunk(seq, self.config.max_num_batched_tokens,"),
    ),
    (
        "in the order of the policy",
        but(
            "budget, i = self.config.max_num_batched_tokens, 0",
            "budget, i = self.config.max_num_batched_tokens, 0\n"
            "self.running.sort(key=lambda s: self.policy.key(s.request, now))",
        ),
    ),
    (
        "decodes first",
        but(
            "budget, i = self.config.max_num_batched_tokens, 0",
            "budget, i = self.config.max_num_batched_tokens, 0\n"
            "self.running.sort(key=lambda s: s.num_tokens - s.num_computed_tokens > 1)",
        ),
    ),
    (
        "all that is left, without a cap",
        but(
            "next_chunk(seq, budget, len(self.sequences), self.config)",
            "min(seq.num_tokens - seq.num_computed_tokens, budget)",
        ),
    ),
    (
        "all that is left, whatever the budget",
        but(
            "next_chunk(seq, budget, len(self.sequences), self.config)",
            "seq.num_tokens - seq.num_computed_tokens",
        ),
    ),
    ("the step ends with who went himself", but("            break\n", "            return budget\n")),
    (
        "the one behind him is passed over",
        but("            break\n", "            i += 1\n            break\n"),
    ),
    (
        "the step ends with the first victim",
        but(
            "        budget -= count\n        i += 1\n",
            "        budget -= count\n        i += 1\n        if plan.preempted:\n            break\n",
        ),
    ),
    (
        "the plan does not hear of victims",
        but("preempt(self, victim, plan, now)", "preempt(self, victim, Plan(), now)"),
    ),
    (
        "preempts as soon as nothing is free",
        but(
            "    while not self.compute(plan, seq, count):",
            "    while self.kv.num_free == 0 or not self.compute(plan, seq, count):",
        ),
    ),
    (
        "asks the door",
        but(
            "    while not self.compute(plan, seq, count):",
            "    while not (may_admit(self.kv, seq, seq.num_computed_tokens + count, self.config, self.running)\n"
            "               and self.compute(plan, seq, count)):",
        ),
    ),
    (
        "paid before, and not paid back",
        """
budget, i = self.config.max_num_batched_tokens, 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    budget -= count
    while not self.compute(plan, seq, count):
        victim = choose_victim(self.running, self.policy, now)
        if self.running.index(victim) < i:
            i -= 1
        budget += preempt(self, victim, plan, now)
        if victim is seq:
            break
    else:
        i += 1
return budget
""",
    ),
    (
        "a chunk as large as there are blocks",
        """
budget = self.config.max_num_batched_tokens
i = 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    while count > 0 and not self.compute(plan, seq, count):
        count -= 1
    if count == 0:
        victim = choose_victim(self.running, self.policy, now)
        if self.running.index(victim) < i:
            i -= 1
        budget += preempt(self, victim, plan, now)
        continue
    budget -= count
    i += 1
return budget
""",
    ),
    (
        "the chunk is made anew with what the victim gave back",
        """
budget, i = self.config.max_num_batched_tokens, 0
while budget > 0 and i < len(self.running):
    seq = self.running[i]
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if self.compute(plan, seq, count):
        budget -= count
        i += 1
        continue
    victim = choose_victim(self.running, self.policy, now)
    if self.running.index(victim) < i:
        i -= 1
    budget += preempt(self, victim, plan, now)
return budget
""",
    ),
    (
        "everybody gets blocks for his whole prompt",
        but(
            "self.compute(plan, seq, count)",
            "(self.kv.allocate(seq.request_id, seq.num_tokens) and self.compute(plan, seq, count))",
        ),
    ),
    (
        "one is kept for each who waits",
        but(
            "budget, i = self.config.max_num_batched_tokens, 0",
            "budget, i = self.config.max_num_batched_tokens - len(self.waiting), 0",
        ),
    ),
    (
        "prompts go on only where nobody decodes",
        but(
            "    while not self.compute",
            "    if count > 1 and plan.scheduled and 1 in plan.scheduled.values():\n"
            "        i += 1\n        continue\n    while not self.compute",
        ),
    ),
]

DOOR = """
while budget > 0 and len(self.running) < self.config.max_num_seqs and len(self.waiting) > 0:
    seq = self.waiting.peek(now)
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if count == 0 or not may_admit(self.kv, seq, count, self.config, self.running):
        return
    self.let_in(plan, seq)
    self.compute(plan, seq, count)
    budget -= count
"""
SLOTS = "len(self.running) < self.config.max_num_seqs"
ASK = "may_admit(self.kv, seq, count, self.config, self.running)"
WAITING = [
    ("slots not counted", but(SLOTS + " and ", "", DOOR)),
    ("one slot too many", but(SLOTS, SLOTS.replace("<", "<="), DOOR)),
    ("one slot too few", but(SLOTS, "len(self.running) + 1 < self.config.max_num_seqs", DOOR)),
    ("only newcomers take a slot", but(SLOTS, "len(plan.new) < self.config.max_num_seqs", DOOR)),
    (
        "newcomers take two slots",
        but(SLOTS, "len(self.running) + len(plan.new) < self.config.max_num_seqs", DOOR),
    ),
    ("who waits takes a slot, too", but(SLOTS, "len(self.sequences) <= self.config.max_num_seqs", DOOR)),
    ("nobody asks for memory", but(f" or not {ASK}", "", DOOR)),
    (
        "blocks taken instead of asked for",
        """
while budget > 0 and len(self.running) < self.config.max_num_seqs and len(self.waiting) > 0:
    seq = self.waiting.peek(now)
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    start = seq.num_computed_tokens
    if count == 0 or not self.compute(plan, seq, count):
        return
    seq.num_computed_tokens = start
    self.let_in(plan, seq)
    seq.num_computed_tokens = start + count
    budget -= count
""",
    ),
    (
        "whoever fits comes in",
        """
for seq in self.waiting.ordered(now):
    if budget <= 0 or len(self.running) >= self.config.max_num_seqs:
        return
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if count and may_admit(self.kv, seq, count, self.config, self.running):
        self.let_in(plan, seq)
        self.compute(plan, seq, count)
        budget -= count
""",
    ),
    (
        "whose prompt may not be cut is overtaken",
        """
for seq in self.waiting.ordered(now):
    if budget <= 0 or len(self.running) >= self.config.max_num_seqs:
        return
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if count == 0:
        continue
    if not may_admit(self.kv, seq, count, self.config, self.running):
        return
    self.let_in(plan, seq)
    self.compute(plan, seq, count)
    budget -= count
""",
    ),
    ("lets in with nothing to compute", but("count == 0 or ", "", DOOR)),
    ("whole prompts only", but("count == 0", "count < seq.num_tokens - seq.num_computed_tokens", DOOR)),
    ("blocks for the whole prompt", but(ASK, ASK.replace("count", "seq.num_tokens"), DOOR)),
    ("blocks for prompt and answer", but(ASK, ASK.replace("count", "seq.longest - 1"), DOOR)),
    ("blocks for all of the budget", but(ASK, ASK.replace("count", "budget"), DOOR)),
    ("no watermark", but(ASK, ASK.replace("self.running", "[]"), DOOR)),
    ("the watermark even where nobody runs", but(ASK, ASK.replace("self.running", "[seq]"), DOOR)),
    (
        "the watermark by who ran before the step's newcomers",
        """
before = list(self.running)
while budget > 0 and len(self.running) < self.config.max_num_seqs and len(self.waiting) > 0:
    seq = self.waiting.peek(now)
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if count == 0 or not may_admit(self.kv, seq, count, self.config, before):
        return
    self.let_in(plan, seq)
    self.compute(plan, seq, count)
    budget -= count
""",
    ),
    ("one a step", but("while budget > 0", "if budget > 0", DOOR)),
    ("the budget never shrinks", but("    budget -= count\n", "", DOOR)),
    ("the budget shrinks by the whole prompt", but("budget -= count", "budget -= seq.num_tokens", DOOR)),
    (
        "first come, whatever the policy",
        but(
            "self.waiting.peek(now)",
            "min(self.waiting.ordered(now), key=lambda s: (s.request.arrival_time, s.request_id))",
            DOOR,
        ),
    ),
    (
        "the shortest prompt first",
        but("self.waiting.peek(now)", "min(self.waiting.ordered(now), key=lambda s: s.num_tokens)", DOOR),
    ),
    (
        "who was preempted comes first",
        but("self.waiting.peek(now)", "min(self.waiting.ordered(now), key=lambda s: not s.preempted)", DOOR),
    ),
    (
        "who was preempted comes last",
        but("self.waiting.peek(now)", "min(self.waiting.ordered(now), key=lambda s: s.preempted)", DOOR),
    ),
    (
        "computed, then let in",
        but(
            "    self.let_in(plan, seq)\n    self.compute(plan, seq, count)\n",
            "    self.compute(plan, seq, count)\n    self.let_in(plan, seq)\n",
            DOOR,
        ),
    ),
    ("let in, not computed", but("    self.compute(plan, seq, count)\n", "", DOOR)),
    ("computed, not let in", but("    self.let_in(plan, seq)\n", "    self.waiting.remove(seq)\n", DOOR)),
    ("alone means that nobody runs", but("len(self.sequences)", "len(self.running) + 1", DOOR)),
    ("active are those that wait", but("len(self.sequences)", "len(self.waiting)", DOOR)),
    ("active are those that run", but("len(self.sequences)", "len(self.running)", DOOR)),
    (
        "a new budget",
        but("next_chunk(seq, budget,", "next_chunk(seq, self.config.max_num_batched_tokens,", DOOR),
    ),
    ("a budget of its own", "budget = self.config.max_num_batched_tokens" + DOOR),
    (
        "no cap at the door",
        but("next_chunk(seq, budget, len(self.sequences), self.config)", "min(seq.num_tokens, budget)", DOOR),
    ),
    (
        "of who was preempted, the prompt only",
        but("    if count == 0", "    count = min(count, seq.request.prompt_len)\n    if count == 0", DOOR),
    ),
    (
        "nobody behind a prompt in pieces",
        but(
            "    budget -= count\n",
            "    budget -= count\n    if seq.num_computed_tokens < seq.num_tokens:\n        return\n",
            DOOR,
        ),
    ),
    (
        "nobody while a prompt is in pieces",
        "if any(s.num_computed_tokens < s.num_tokens - 1 for s in self.running):\n    return" + DOOR,
    ),
    ("nobody while others run", "if plan.scheduled:\n    return" + DOOR),
    (
        "nobody comes back while new ones wait",
        but(
            "    if count == 0",
            "    if seq.preempted and any(not s.preempted for s in self.waiting.ordered(now)):\n"
            "        return\n    if count == 0",
            DOOR,
        ),
    ),
    (
        "memory is made for who waits",
        but(
            "        return\n",
            "        if count == 0 or not self.running:\n            return\n"
            "        budget += preempt(self, choose_victim(self.running, self.policy, now), plan, now)\n"
            "        continue\n",
            DOOR,
        ),
    ),
    (
        "what is left of the budget counted anew",
        but("budget -= count", "budget = self.config.max_num_batched_tokens - count", DOOR),
    ),
    (
        "looked in line once",
        """
seq = self.waiting.peek(now)
while seq and budget > 0 and len(self.running) < self.config.max_num_seqs:
    count = next_chunk(seq, budget, len(self.sequences), self.config)
    if count == 0 or not may_admit(self.kv, seq, count, self.config, self.running):
        return
    self.let_in(plan, seq)
    self.compute(plan, seq, count)
    budget -= count
    seq = None
""",
    ),
]

LENGTH = [
    (
        "a prompt as long as the limit is let in",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len > limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "a prompt that leaves one token is refused",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len + 1 >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "refused if the answer could be too long",
        """
limit = self.config.max_model_len
if limit is not None and request.prompt_len + request.max_new_tokens > limit:
    raise Refused("over_model_len")
""",
    ),
    (
        "everybody ends at the limit",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = limit
""",
    ),
    (
        "nobody ends at the limit",
        """
limit = self.config.max_model_len
if limit is not None and request.prompt_len >= limit:
    raise Refused("over_model_len")
""",
    ),
    (
        "ended one too soon",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit - 1)
""",
    ),
    (
        "ended one too late",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit + 1)
""",
    ),
    (
        "no limit is not thought of",
        """
limit = self.config.max_model_len
if request.prompt_len >= limit:
    raise Refused("over_model_len")
seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "no limit is a limit of 0",
        """
limit = self.config.max_model_len or 0
if request.prompt_len >= limit:
    raise Refused("over_model_len")
seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "another word",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("never_fits")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "a ValueError",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise ValueError("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "passed over in silence",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        return
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "the reason is returned",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        return Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "the limit is the answer's",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, request.prompt_len + limit)
""",
    ),
    (
        "the answer alone is measured",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.max_new_tokens >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "a prompt that is too long is cut",
        """
limit = self.config.max_model_len
if limit is not None:
    seq.num_tokens = min(seq.num_tokens, limit - 1)
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "a refused id is taken",
        """
limit = self.config.max_model_len
self.ids.add(request.request_id)
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "a refused request stays among the active",
        """
limit = self.config.max_model_len
self.sequences[request.request_id] = seq
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "a refused request waits",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        self.waiting.push(seq, now)
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "the budget of a step as the limit",
        """
limit = self.config.max_num_batched_tokens
if self.config.max_model_len is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "the larger of the two",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = max(seq.longest, limit)
""",
    ),
    (
        "what never fits, before the limit",
        """
self.refuse_what_never_fits(seq.longest - 1)
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "refused only where prompts are not chunked",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit and not self.config.enable_chunked_prefill:
        raise Refused("over_model_len")
    seq.longest = min(seq.longest, limit)
""",
    ),
    (
        "the limit set where it is not needed",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    if request.max_new_tokens > limit:
        seq.longest = limit
""",
    ),
    (
        "the answer's tokens, not all",
        """
limit = self.config.max_model_len
if limit is not None:
    if request.prompt_len >= limit:
        raise Refused("over_model_len")
    seq.longest = min(request.max_new_tokens, limit - request.prompt_len)
""",
    ),
]

FINALE = [
    (
        "chapter 3's order",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else PriorityOrder())
""",
    ),
    (
        "classes, not objects",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS if policy == "fcfs" else VllmPriority)
""",
    ),
    (
        "the null block, too",
        """
if config.enable_prefix_caching:
    return None
kv = BlockManager(config.num_blocks + 1, config.block_size)
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority(), kv)
""",
    ),
    (
        "the null block taken off twice",
        """
if config.enable_prefix_caching:
    return None
kv = BlockManager(config.num_blocks - 1, config.block_size)
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority(), kv)
""",
    ),
    (
        "a prefix cache is not thought of",
        """
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "an error where it cannot",
        """
if config.enable_prefix_caching:
    raise NotImplementedError("chapter 11")
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "Refused where it cannot",
        """
if config.enable_prefix_caching:
    raise Refused("prefix_caching")
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "False where it cannot",
        """
if config.enable_prefix_caching:
    return False
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "the prefix cache switched off",
        """
from dataclasses import replace

config = replace(config, enable_prefix_caching=False)
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "first come, first served, always",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS())
""",
    ),
    (
        "priorities, always",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, VllmPriority())
""",
    ),
    (
        "the two the wrong way round",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, VllmPriority() if policy == "fcfs" else FCFS())
""",
    ),
    (
        "the name in capitals",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS() if policy == "FCFS" else VllmPriority())
""",
    ),
    (
        "the name handed on",
        """
if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, policy)
""",
    ),
    (
        "None for priorities",
        """
if config.enable_prefix_caching or policy != "fcfs":
    return None
return ChunkedScheduler(config, FCFS())
""",
    ),
    ("None always", "return None"),
    (
        "built, not returned",
        """
if config.enable_prefix_caching:
    return None
scheduler = ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "blocks and their size the wrong way round",
        """
if config.enable_prefix_caching:
    return None
kv = BlockManager(config.block_size, config.num_blocks)
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority(), kv)
""",
    ),
    (
        "as many blocks as there are slots",
        """
if config.enable_prefix_caching:
    return None
kv = BlockManager(config.num_blocks * config.block_size, config.block_size)
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority(), kv)
""",
    ),
    (
        "chapter 6's scheduler",
        """
if config.enable_prefix_caching:
    return None
return memory.PagedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "whole prompts reserved",
        """
from dataclasses import replace

if config.enable_prefix_caching:
    return None
config = replace(config, reserve_full_prompt=True)
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else VllmPriority())
""",
    ),
    (
        "a small priority is urgent",
        """
class Order:
    static = True

    def key(self, request, now):
        return (request.priority, request.arrival_time)

if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else Order())
""",
    ),
    (
        "of equal urgency, who came last is first",
        """
class Order:
    static = True

    def key(self, request, now):
        return (-request.priority, -request.arrival_time)

if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else Order())
""",
    ),
    (
        "priorities without arrivals",
        """
class Order:
    static = True

    def key(self, request, now):
        return -request.priority

if config.enable_prefix_caching:
    return None
return ChunkedScheduler(config, FCFS() if policy == "fcfs" else Order())
""",
    ),
]

KINDS = """
decodes = [s for s in running if s.num_tokens - s.num_computed_tokens == 1]
prefills = [s for s in running if s.num_tokens - s.num_computed_tokens > 1]
"""
THREE = """
if self.first == "decode":
    return decodes + prefills + newcomers
if self.first == "prefill":
    return prefills + newcomers + decodes
return running + newcomers
"""
ORDER = [
    (
        "newcomers behind the decodes",
        KINDS + but("prefills + newcomers + decodes", "prefills + decodes + newcomers", THREE),
    ),
    (
        "newcomers before the prefills",
        KINDS + but("decodes + prefills + newcomers", "decodes + newcomers + prefills", THREE),
    ),
    ("newcomers first", KINDS + but("return running + newcomers", "return newcomers + running", THREE)),
    ("newcomers forgotten", KINDS + but("return running + newcomers", "return running", THREE)),
    (
        "the two names the wrong way round",
        KINDS + but('"decode"', '"x"', THREE).replace('"prefill"', '"decode"').replace('"x"', '"prefill"'),
    ),
    (
        "a decode is who has an answer",
        but(
            "s.num_tokens - s.num_computed_tokens == 1", "s.num_tokens > s.request.prompt_len", KINDS
        ).replace("s.num_tokens - s.num_computed_tokens > 1", "s.num_tokens == s.request.prompt_len")
        + THREE,
    ),
    (
        "a decode is whose prompt is computed",
        but(
            "s.num_tokens - s.num_computed_tokens == 1",
            "s.num_computed_tokens >= s.request.prompt_len",
            KINDS,
        ).replace("s.num_tokens - s.num_computed_tokens > 1", "s.num_computed_tokens < s.request.prompt_len")
        + THREE,
    ),
    (
        "newcomers with one token decode, too",
        KINDS.replace("in running", "in running + newcomers")
        + "newcomers = [s for s in newcomers if s not in decodes and s not in prefills]"
        + THREE,
    ),
    (
        "the list of those who run grows",
        KINDS
        + but(
            "return running + newcomers",
            "running.extend(newcomers)\n    return running".replace("\n    ", "\n"),
            THREE,
        ),
    ),
    (
        "the list of those who run itself",
        KINDS + but("return running + newcomers", "running += newcomers\nreturn running", THREE),
    ),
    (
        "the shortest rest first",
        KINDS + "prefills.sort(key=lambda s: s.num_tokens - s.num_computed_tokens)" + THREE,
    ),
    (
        "sorted by what is left",
        "return sorted(running + newcomers, key=lambda s: s.num_tokens - s.num_computed_tokens, reverse=self.first == 'prefill')",
    ),
    ("decodes twice", KINDS.replace("> 1", ">= 1") + THREE),
]

QUOTA = [
    (
        "the share even where nobody decodes",
        """
quota = int(self.share * budget)
if self.pace:
    quota = bisect_right(range(decodes + 1, decodes + quota + 1), 1 / self.pace, key=self.seconds)
return max(quota, 1)
""",
    ),
    (
        "the share rounded",
        """
if not decodes:
    return budget
quota = round(self.share * budget)
if self.pace:
    quota = bisect_right(range(decodes + 1, decodes + quota + 1), 1 / self.pace, key=self.seconds)
return max(quota, 1)
""",
    ),
    (
        "the share rounded up",
        """
if not decodes:
    return budget
quota = -int(-self.share * budget // 1)
if self.pace:
    quota = bisect_right(range(decodes + 1, decodes + quota + 1), 1 / self.pace, key=self.seconds)
return max(quota, 1)
""",
    ),
    (
        "the time of the prompts alone",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota > 1 and self.seconds(quota) > 1 / self.pace:
    quota -= 1
return max(quota, 1)
""",
    ),
    (
        "just in time is late",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota > 1 and self.seconds(decodes + quota) >= 1 / self.pace:
    quota -= 1
return max(quota, 1)
""",
    ),
    (
        "nothing is possible",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota and self.seconds(decodes + quota) > 1 / self.pace:
    quota -= 1
return quota
""",
    ),
    (
        "one at least of the share, none of the pace",
        """
if not decodes:
    return budget
quota = max(1, int(self.share * budget))
while self.pace and quota and self.seconds(decodes + quota) > 1 / self.pace:
    quota -= 1
return quota
""",
    ),
    (
        "one less than the pace allows",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
if self.pace:
    quota = bisect_right(range(decodes + 1, decodes + quota), 1 / self.pace, key=self.seconds)
return max(quota, 1)
""",
    ),
    (
        "one more than the pace allows",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
if self.pace:
    quota = bisect_right(range(decodes, decodes + quota), 1 / self.pace, key=self.seconds)
return max(quota, 1)
""",
    ),
    (
        "tokens a second for all together",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota > 1 and self.seconds(decodes + quota) > decodes / self.pace:
    quota -= 1
return max(quota, 1)
""",
    ),
    (
        "the pace is the seconds",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota > 1 and self.seconds(decodes + quota) > self.pace:
    quota -= 1
return max(quota, 1)
""",
    ),
    (
        "the pace is not kept",
        """
if not decodes:
    return budget
return max(1, int(self.share * budget))
""",
    ),
    (
        "the pace instead of the share",
        """
if not decodes:
    return budget
if not self.pace:
    return max(1, int(self.share * budget))
quota = bisect_right(range(decodes + 1, decodes + budget + 1), 1 / self.pace, key=self.seconds)
return max(quota, 1)
""",
    ),
    (
        "a share of what the decodes leave",
        """
if not decodes:
    return budget
quota = int(self.share * (budget - decodes))
while self.pace and quota > 1 and self.seconds(decodes + quota) > 1 / self.pace:
    quota -= 1
return max(quota, 1)
""",
    ),
    (
        "halved until in time",
        """
if not decodes:
    return budget
quota = int(self.share * budget)
while self.pace and quota > 1 and self.seconds(decodes + quota) > 1 / self.pace:
    quota //= 2
return max(quota, 1)
""",
    ),
    (
        "as a float",
        """
if not decodes:
    return budget
quota = self.share * budget // 1
while self.pace and quota > 1 and self.seconds(decodes + quota) > 1 / self.pace:
    quota -= 1
return max(quota, 1)
""",
    ),
]

GATE = [
    (
        "closes above high",
        """
self.suspended = pressure > (self.low if self.suspended else self.high)
return self.suspended
""",
    ),
    (
        "opens below low",
        """
self.suspended = pressure >= (self.low if self.suspended else self.high)
return self.suspended
""",
    ),
    ("one threshold, high", "self.suspended = pressure >= self.high\nreturn self.suspended"),
    ("one threshold, low", "self.suspended = pressure > self.low\nreturn self.suspended"),
    ("nothing is kept", "return pressure > self.low if self.suspended else pressure >= self.high"),
    (
        "nothing is said",
        """
if pressure >= self.high:
    self.suspended = True
elif pressure <= self.low:
    self.suspended = False
""",
    ),
    ("never opens", "self.suspended = self.suspended or pressure >= self.high\nreturn self.suspended"),
    (
        "turns at either",
        """
if pressure >= self.high or pressure <= self.low:
    self.suspended = not self.suspended
return self.suspended
""",
    ),
    (
        "the thresholds the wrong way round",
        """
if self.suspended:
    self.suspended = pressure > self.high
else:
    self.suspended = pressure >= self.low
return self.suspended
""",
    ),
    (
        "says what was",
        """
before = self.suspended
if self.suspended:
    self.suspended = pressure > self.low
else:
    self.suspended = pressure >= self.high
return before
""",
    ),
    (
        "says whether it is open",
        """
if self.suspended:
    self.suspended = pressure > self.low
else:
    self.suspended = pressure >= self.high
return not self.suspended
""",
    ),
    (
        "in between it is open",
        "self.suspended = pressure >= self.high\nif pressure <= self.low:\n    self.suspended = False\nreturn self.suspended",
    ),
    (
        "open at once where the two are one",
        """
if not self.suspended and pressure >= self.high:
    self.suspended = True
if self.suspended and pressure <= self.low:
    self.suspended = False
return self.suspended
""",
    ),
]

WRONG = [
    wrong(todo, name, code)
    for todo, variants in [
        ("ch07.1", CHUNK),
        ("ch07.2", RUNNING),
        ("ch07.3", WAITING),
        ("ch07.4", LENGTH),
        ("ch07.5", FINALE),
        ("ch07.6", ORDER),
        ("ch07.7", QUOTA),
        ("ch07.8", GATE),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "the smallest of a list",
        {
            "ch07.1": """
missing = seq.num_tokens - seq.num_computed_tokens
limits = [missing]
if active != 1 and config.long_prefill_token_threshold != 0:
    limits.append(config.long_prefill_token_threshold)
wanted = min(limits)
if config.enable_chunked_prefill:
    return min(wanted, budget)
return wanted if wanted <= budget else 0
"""
        },
    ),
    Variant(
        "no cap is a very large cap",
        {
            "ch07.1": """
cap = config.long_prefill_token_threshold if active >= 2 else 0
count = min(seq.num_tokens - seq.num_computed_tokens, cap or seq.num_tokens)
return (count, budget * config.enable_chunked_prefill)[count > budget]
"""
        },
    ),
    Variant(
        "a copy of those who run, and who is gone is passed over",
        {
            "ch07.2": """
left = self.config.max_num_batched_tokens
for seq in list(self.running):
    if left == 0:
        break
    if seq not in self.running:
        continue
    chunk = next_chunk(seq, left, len(self.running) + len(self.waiting), self.config)
    while seq in self.running and not self.compute(plan, seq, chunk):
        left += preempt(self, choose_victim(self.running, self.policy, now), plan, now)
    if seq in self.running:
        left -= chunk
return left
"""
        },
    ),
    Variant(
        "the budget counted from the plan",
        {
            "ch07.2": """
def left():
    return self.config.max_num_batched_tokens - sum(plan.scheduled.values())

done = 0
while done < len(self.running) and left() > 0:
    seq = self.running[done]
    count = next_chunk(seq, left(), len(self.sequences), self.config)
    while seq in self.running:
        if self.compute(plan, seq, count):
            break
        preempt(self, choose_victim(self.running, self.policy, now), plan, now)
    done = self.running.index(seq) + 1 if seq in self.running else sum(
        other.request_id in plan.scheduled for other in self.running
    )
return left()
""",
            "ch07.3": """
for seq in self.waiting.ordered(now):
    left = self.config.max_num_batched_tokens - sum(plan.scheduled.values())
    if left <= 0 or len(self.running) == self.config.max_num_seqs:
        break
    count = next_chunk(seq, left, len(self.sequences), self.config)
    if count < 1 or not may_admit(self.kv, seq, count, self.config, self.running):
        break
    self.let_in(plan, seq)
    self.compute(plan, seq, count)
""",
        },
    ),
    Variant(
        "a budget of 0 gives a chunk of 0, and that ends it",
        {
            "ch07.3": """
while len(self.waiting) and len(self.running) < self.config.max_num_seqs:
    head = self.waiting.peek(now)
    count = next_chunk(head, budget, len(self.waiting) + len(self.running), self.config)
    if not count:
        break
    if not may_admit(self.kv, head, head.num_computed_tokens + count, self.config, self.running):
        break
    self.let_in(plan, head)
    assert self.compute(plan, head, count)
    budget -= count
"""
        },
    ),
    Variant(
        "a shorter request instead of a shorter sequence",
        {
            "ch07.4": """
from dataclasses import replace

room = self.config.max_model_len
if room is not None:
    room -= request.prompt_len
    if room <= 0:
        raise Refused("over_model_len")
    request = replace(request, max_new_tokens=min(room, request.max_new_tokens))
    seq = Sequence(request)
"""
        },
    ),
    Variant(
        "no limit is an infinite one",
        {
            "ch07.4": """
limit = self.config.max_model_len or float("inf")
if not request.prompt_len + 1 <= limit:
    raise Refused("over_model_len")
if seq.longest > limit:
    seq.longest = limit
"""
        },
    ),
    Variant(
        "a table of orders, and the scheduler's own block manager",
        {
            "ch07.5": """
orders = {"fcfs": FCFS(), "priority": VllmPriority()}
return None if config.enable_prefix_caching else ChunkedScheduler(config, orders[policy])
"""
        },
    ),
    Variant(
        "an order of its own, fractions of a priority",
        {
            "ch07.5": """
class Order:
    def key(self, request, now):
        return [0 - request.priority, float(request.arrival_time)]

if not config.enable_prefix_caching:
    kv = BlockManager(block_size=config.block_size, num_blocks=config.num_blocks)
    return ChunkedScheduler(config=config, policy=Order() if policy == "priority" else FCFS(), kv=kv)
"""
        },
    ),
    Variant(
        "sorted by rank, which keeps the order",
        {
            "ch07.6": """
ranks = {"decode": (0, 1, 2), "prefill": (2, 0, 1), "admission": (0, 0, 1)}[self.first]
ranked = [(ranks[seq.num_tokens - seq.num_computed_tokens > 1], seq) for seq in running]
ranked += [(ranks[2], seq) for seq in newcomers]
return [seq for rank, seq in sorted(ranked, key=lambda pair: pair[0])]
""",
            "ch07.7": """
if decodes == 0:
    return budget
most, least = int(self.share * budget), 1
while most > least:
    middle = (most + least + 1) // 2
    if self.pace and self.seconds(decodes + middle) > 1 / self.pace:
        most = middle - 1
    else:
        least = middle
return least
""",
            "ch07.8": """
if not self.suspended and pressure >= self.high:
    self.suspended = True
elif self.suspended and pressure <= self.low:
    self.suspended = False
return self.suspended
""",
        },
    ),
]
