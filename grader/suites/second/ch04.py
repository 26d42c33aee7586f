"""Chapter 4 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def wrong(todo: str, name: str, code: str) -> Variant:
    """An answer that a learner could well write, and that is not right."""
    return Variant(name, {todo: code})


TAKE_TOKENS = """
for token in tokens:
    seq.num_tokens += 1
    if token in seq.stop_token_ids:
        return "stop"
    if seq.num_tokens >= seq.longest:
        return "length"
"""
TAKE = [
    (
        "length before stop",
        """
for token in tokens:
    seq.num_tokens += 1
    if seq.num_tokens >= seq.longest:
        return "length"
    if token in seq.stop_token_ids:
        return "stop"
""",
    ),
    (
        "all counted, then looked at",
        """
seq.num_tokens += len(tokens)
for token in tokens:
    if token in seq.stop_token_ids:
        return "stop"
if seq.num_tokens >= seq.longest:
    return "length"
""",
    ),
    (
        "one a step",
        """
seq.num_tokens += 1
if tokens and tokens[-1] in seq.stop_token_ids:
    return "stop"
if seq.num_tokens >= seq.longest:
    return "length"
""",
    ),
    (
        "no token counts as one",
        "tokens = tokens or [None]" + TAKE_TOKENS,
    ),
    (
        "a stop token does not count",
        """
for token in tokens:
    if token in seq.stop_token_ids:
        return "stop"
    seq.num_tokens += 1
    if seq.num_tokens >= seq.longest:
        return "length"
""",
    ),
    (
        "looks before it counts",
        """
for token in tokens:
    if token in seq.stop_token_ids:
        seq.num_tokens += 1
        return "stop"
    if seq.num_tokens >= seq.longest:
        return "length"
    seq.num_tokens += 1
""",
    ),
    ("one token too long", TAKE_TOKENS.replace(">=", ">")),
    ("one token too short", TAKE_TOKENS.replace("seq.longest", "seq.longest - 1")),
    (
        "only the last token can stop",
        TAKE_TOKENS.replace("if token in", "if token == tokens[-1] and token in"),
    ),
    ("only the first token can stop", TAKE_TOKENS.replace("token in seq", "tokens[0] in seq")),
    (
        "only one stop token",
        TAKE_TOKENS.replace("token in seq.stop_token_ids", "token in seq.stop_token_ids[:1]"),
    ),
    (
        "the last stop token only",
        TAKE_TOKENS.replace("token in seq.stop_token_ids", "token in seq.stop_token_ids[-1:]"),
    ),
    ("a token against the whole tuple", TAKE_TOKENS.replace("token in seq", "token == seq")),
    ("the stop token that everybody has", TAKE_TOKENS.replace("token in seq.stop_token_ids", "token == 2")),
    ("stop token 0 is none", TAKE_TOKENS.replace("if token in", "if token and token in")),
    ("prompt forgotten", TAKE_TOKENS.replace("seq.longest", "seq.request.max_new_tokens")),
    ("answer forgotten", TAKE_TOKENS.replace("seq.longest", "seq.request.prompt_len")),
    ("computed tokens counted instead", TAKE_TOKENS.replace("num_tokens >=", "num_computed_tokens >=")),
    ("computed as well", TAKE_TOKENS.replace("+= 1\n", "+= 1\n    seq.num_computed_tokens += 1\n")),
    ("stop tokens ignored", TAKE_TOKENS.replace("seq.stop_token_ids", "()")),
    (
        "never long enough",
        TAKE_TOKENS.replace('    if seq.num_tokens >= seq.longest:\n        return "length"\n', ""),
    ),
    ("ended, but not why", TAKE_TOKENS.replace('"length"', "True").replace('"stop"', "True")),
    ("a word of its own", TAKE_TOKENS.replace('"length"', '"max_new_tokens"')),
    (
        "the last reason found",
        "reason = None" + TAKE_TOKENS.replace("return ", "reason = ") + "return reason",
    ),
    (
        "the stop looked for everywhere first",
        """
for token in tokens:
    seq.num_tokens += 1
    if any(t in seq.stop_token_ids for t in tokens):
        return "stop"
    if seq.num_tokens >= seq.longest:
        return "length"
""",
    ),
    (
        "a stop behind the end",
        """
reason = None
for token in tokens:
    if seq.num_tokens < seq.longest:
        seq.num_tokens += 1
    if token in seq.stop_token_ids:
        return "stop"
    if seq.num_tokens >= seq.longest:
        reason = "length"
return reason
""",
    ),
    ("only the first token", TAKE_TOKENS.replace("in tokens:", "in tokens[:1]:")),
    (
        "done after the first",
        TAKE_TOKENS + "    return None",
    ),
]

DOOR = """
if not (is_length(request.prompt_len) and is_length(request.max_new_tokens)):
    raise Refused("bad_length")
if request.request_id in self.ids:
    raise Refused("duplicate_id")
if request.prompt_len > self.config.max_num_batched_tokens:
    raise Refused("over_budget")
"""
BUDGET = "request.prompt_len > self.config.max_num_batched_tokens"
LENGTHS = "not (is_length(request.prompt_len) and is_length(request.max_new_tokens))"
ADD = [
    ("only the prompt's length", DOOR.replace(" and is_length(request.max_new_tokens)", "")),
    ("only the answer's length", DOOR.replace("is_length(request.prompt_len) and ", "")),
    ("either length will do", DOOR.replace(" and is_length", " or is_length")),
    ("not below 1 will do", DOOR.replace(LENGTHS, "request.prompt_len < 1 or request.max_new_tokens < 1")),
    ("truth for a length", DOOR.replace(LENGTHS, "not request.prompt_len or not request.max_new_tokens")),
    (
        "True is an int",
        DOOR.replace(
            LENGTHS,
            "any(not isinstance(n, int) or n < 1 for n in (request.prompt_len, request.max_new_tokens))",
        ),
    ),
    (
        "no answer is fine",
        DOOR.replace(
            LENGTHS,
            "not (is_length(request.prompt_len) and (request.max_new_tokens == 0 or is_length(request.max_new_tokens)))",
        ),
    ),
    (
        "3.0 is 3",
        DOOR.replace(
            LENGTHS,
            "any(isinstance(n, bool) or n != int(n) or n < 1 for n in (request.prompt_len, request.max_new_tokens))",
        ),
    ),
    ("lengths not looked at", DOOR.replace(LENGTHS, "False")),
    (
        "lengths above 1",
        DOOR.replace(
            LENGTHS, "not (is_length(request.prompt_len - 1) and is_length(request.max_new_tokens))"
        ),
    ),
    ("an id is free when it has ended", DOOR.replace("self.ids", "self.sequences")),
    (
        "only who waits has an id",
        DOOR.replace("in self.ids", "in [seq.request_id for seq in self.waiting.ordered(now)]"),
    ),
    ("only who runs has an id", DOOR.replace("in self.ids", "in [seq.request_id for seq in self.running]")),
    (
        "the same request, not the same id",
        DOOR.replace(
            "request.request_id in self.ids", "request in [seq.request for seq in self.sequences.values()]"
        ),
    ),
    ("ids not looked at", DOOR.replace("request.request_id in self.ids", "False")),
    (
        "ids have to grow",
        DOOR.replace("request.request_id in self.ids", "self.ids and request.request_id <= max(self.ids)"),
    ),
    ("budget exactly used up is too much", DOOR.replace("> self", ">= self")),
    (
        "prompt and answer within the budget",
        DOOR.replace("request.prompt_len >", "request.prompt_len + request.max_new_tokens >"),
    ),
    (
        "prompt and answer but its last token",
        DOOR.replace("request.prompt_len >", "request.prompt_len + request.max_new_tokens - 1 >"),
    ),
    (
        "the answer within the budget",
        DOOR.replace("request.prompt_len >", "max(request.prompt_len, request.max_new_tokens) >"),
    ),
    ("slots for a budget", DOOR.replace("max_num_batched_tokens", "max_num_seqs")),
    (
        "what others wait for counts",
        DOOR.replace(
            "request.prompt_len >",
            "request.prompt_len + sum(seq.num_tokens for seq in self.waiting.ordered(now)) >",
        ),
    ),
    ("what runs counts", DOOR.replace("request.prompt_len >", "request.prompt_len + len(self.running) >")),
    ("nobody is over budget", DOOR.replace(BUDGET, "False")),
    (
        "busy is full",
        DOOR + 'if len(self.running) >= self.config.max_num_seqs:\n    raise Refused("over_budget")',
    ),
    (
        "too many wait",
        DOOR + 'if len(self.waiting) >= self.config.max_num_seqs:\n    raise Refused("over_budget")',
    ),
    (
        "words mixed up",
        DOOR.replace("over_budget", "x")
        .replace("bad_length", "over_budget")
        .replace("x", "bad_length", 1)
        .replace('Refused("x")', 'Refused("bad_length")'),
    ),
    ("one word for all", DOOR.replace("duplicate_id", "bad_length").replace("over_budget", "bad_length")),
    ("a sentence", DOOR.replace('"over_budget"', '"the prompt is over budget"')),
    ("another word", DOOR.replace('"over_budget"', '"never_fits"')),
    ("a plain ValueError", DOOR.replace("Refused(", "ValueError(")),
    ("returned, not raised", DOOR.replace("raise Refused", "return Refused")),
    ("made, not raised", DOOR.replace("raise Refused", "Refused")),
    ("quietly left out", DOOR.replace('raise Refused("over_budget")', "return")),
    ("the class, without a reason", DOOR.replace('Refused("over_budget")', "Refused")),
    (
        "a refused id is taken",
        "taken = request.request_id in self.ids\nself.ids.add(request.request_id)"
        + DOOR.replace("request.request_id in self.ids", "taken"),
    ),
    (
        "waits first, is refused then",
        DOOR.replace(f"if {BUDGET}:\n", f"if {BUDGET}:\n    self.waiting.push(Sequence(request), now)\n"),
    ),
    ("budget before lengths", f'if {BUDGET}:\n    raise Refused("over_budget")' + DOOR),
    ("late ones are refused", DOOR + 'if request.arrival_time < now:\n    raise Refused("bad_length")'),
    ("no priorities below 0", DOOR + 'if request.priority < 0:\n    raise Refused("bad_length")'),
]

ROOM_FOR = """
spent = sum(plan.scheduled.values())
slot = len(self.running) < self.config.max_num_seqs
return slot and spent + seq.num_tokens <= self.config.max_num_batched_tokens
"""
ROOM = [
    ("one more than there are slots", ROOM_FOR.replace("running) <", "running) <=")),
    ("one slot always free", ROOM_FOR.replace("running) <", "running) + 1 <")),
    ("slots of the plan", ROOM_FOR.replace("self.running", "plan.scheduled")),
    ("slots of the new", ROOM_FOR.replace("self.running", "plan.new")),
    ("the new counted twice", ROOM_FOR.replace("len(self.running)", "len(self.running) + len(plan.new)")),
    ("who waits takes a slot", ROOM_FOR.replace("self.running", "self.sequences")),
    ("slots not looked at", ROOM_FOR.replace("len(self.running) < self.config.max_num_seqs", "True")),
    ("budget never used up", ROOM_FOR.replace("num_tokens <=", "num_tokens <")),
    ("requests for tokens", ROOM_FOR.replace("sum(plan.scheduled.values())", "len(plan.scheduled)")),
    ("ids for tokens", ROOM_FOR.replace("plan.scheduled.values()", "plan.scheduled")),
    (
        "one token for everybody who runs",
        ROOM_FOR.replace("sum(plan.scheduled.values())", "len(self.running)"),
    ),
    (
        "only prompts spend",
        ROOM_FOR.replace("sum(plan.scheduled.values())", "sum(n for n in plan.scheduled.values() if n > 1)"),
    ),
    (
        "only the new spend",
        ROOM_FOR.replace("sum(plan.scheduled.values())", "sum(plan.scheduled[i] for i in plan.new)"),
    ),
    (
        "only decodes spend",
        ROOM_FOR.replace("sum(plan.scheduled.values())", "sum(n for n in plan.scheduled.values() if n == 1)"),
    ),
    (
        "the largest spends",
        ROOM_FOR.replace("sum(plan.scheduled.values())", "max(plan.scheduled.values(), default=0)"),
    ),
    ("positions for tokens", ROOM_FOR.replace("plan.scheduled.values()", "plan.start.values()")),
    (
        "all tokens of all who run",
        ROOM_FOR.replace("sum(plan.scheduled.values())", "sum(s.num_tokens for s in self.running)"),
    ),
    ("nothing spent yet", ROOM_FOR.replace("sum(plan.scheduled.values())", "0")),
    ("one token of the newcomer", ROOM_FOR.replace("seq.num_tokens", "1")),
    ("none of the newcomer", ROOM_FOR.replace("spent + seq.num_tokens <=", "spent <")),
    ("the whole answer too", ROOM_FOR.replace("seq.num_tokens", "seq.longest")),
    ("and the token that comes of it", ROOM_FOR.replace("seq.num_tokens", "seq.num_tokens + 1")),
    ("only the prompt", ROOM_FOR.replace("seq.num_tokens", "seq.request.prompt_len")),
    ("what it has computed", ROOM_FOR.replace("seq.num_tokens", "seq.num_computed_tokens")),
    ("either", ROOM_FOR.replace("slot and", "slot or")),
    ("slots for tokens", ROOM_FOR.replace("max_num_batched_tokens", "max_num_seqs")),
    ("an empty step has room", "if not plan.scheduled:\n    return True" + ROOM_FOR),
    (
        "the first newcomer has room",
        "if not plan.new:\n    return len(self.running) < self.config.max_num_seqs" + ROOM_FOR,
    ),
    (
        "how much is left",
        ROOM_FOR.replace(
            "return slot and spent + seq.num_tokens <= self.config.max_num_batched_tokens",
            "return slot and max(0, self.config.max_num_batched_tokens - spent - seq.num_tokens + 1)",
        ),
    ),
    ("None for no", ROOM_FOR.replace("return slot and", "if not slot:\n    return\nreturn")),
    ("True or nothing", ROOM_FOR.replace("return slot and", "if slot and") + "    return True"),
    (
        "an error for no",
        ROOM_FOR.replace("return slot and", 'if not slot:\n    raise Refused("over_budget")\nreturn'),
    ),
    (
        "lets it in at once",
        ROOM_FOR.replace("return slot and", "fits = slot and")
        + "if fits:\n    plan.scheduled[seq.request_id] = seq.num_tokens\nreturn fits",
    ),
    (
        "marks it as computed",
        ROOM_FOR.replace("return slot and", "fits = slot and")
        + "if fits:\n    seq.num_computed_tokens = seq.num_tokens\nreturn fits",
    ),
    (
        "spends from the configuration",
        "object.__setattr__(self.config, 'max_num_batched_tokens', self.config.max_num_batched_tokens - 1)"
        + ROOM_FOR,
    ),
]

SERVE = "for seq in self.running:\n    self.serve(plan, seq)\n"
ADMIT = "while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):\n    self.admit(plan, seq)\n"
OVERTAKE = (
    "for seq in self.waiting.ordered(now):\n    if self.room_for(plan, seq):\n        self.admit(plan, seq)\n"
)
FIFO = (
    "for seq in [s for s in self.sequences.values() if s not in self.running]:\n"
    "    if not self.room_for(plan, seq):\n        break\n    self.admit(plan, seq)\n"
)
BY_HAND = """
while (seq := self.waiting.peek(now)) and self.room_for(plan, seq):
    self.waiting.remove(seq)
    self.running.append(seq)
    plan.new.append(seq.request_id)
    plan.cached[seq.request_id] = 0
    plan.start[seq.request_id] = 0
    plan.scheduled[seq.request_id] = seq.num_tokens
    seq.num_computed_tokens = seq.num_tokens
"""


def indented(code: str) -> str:
    """A level deeper."""
    return "".join("    " + line + "\n" for line in code.strip("\n").splitlines())


def static(serve: str = SERVE, admit: str = ADMIT) -> str:
    """A static batch out of its two halves."""
    return "plan = Plan()\nif self.running:\n" + indented(serve) + "else:\n" + indented(admit) + "return plan"


def continuous(serve: str = SERVE, admit: str = ADMIT) -> str:
    """A continuous batch out of its two halves."""
    return "plan = Plan()\n" + serve + admit + "return plan"


HALVES = [  # wrong in both schedulers
    ("serve", "the last to come is served first", SERVE.replace("self.running", "reversed(self.running)")),
    (
        "serve",
        "served in order of ids",
        SERVE.replace("self.running", "sorted(self.running, key=lambda s: s.request_id)"),
    ),
    (
        "serve",
        "served in order of the policy",
        SERVE.replace("self.running", "sorted(self.running, key=lambda s: self.waiting._key(s, now))"),
    ),
    ("serve", "only the first is served", SERVE.replace("self.running", "self.running[:1]")),
    (
        "serve",
        "all but the last are served",
        SERVE.replace("self.running", "self.running[:-1] or self.running"),
    ),
    (
        "serve",
        "in turns, the first goes to the end",
        SERVE + "self.running[:] = self.running[1:] + self.running[:1]\n",
    ),
    (
        "serve",
        "all tokens computed again",
        "for seq in self.running:\n    seq.num_computed_tokens = 0\n    self.serve(plan, seq)\n",
    ),
    ("serve", "no positions told", SERVE + "plan.start.clear()\n"),
    (
        "serve",
        "one token each, never counted as computed",
        "for seq in self.running:\n    plan.start[seq.request_id] = seq.num_computed_tokens\n    plan.scheduled[seq.request_id] = 1\n",
    ),
    ("serve", "who runs is new in every step", SERVE + "    plan.new.append(seq.request_id)\n"),
    ("serve", "who runs is cached", SERVE + "    plan.cached[seq.request_id] = seq.num_computed_tokens\n"),
    (
        "serve",
        "who has waited longest first",
        SERVE.replace("self.running", "sorted(self.running, key=lambda s: -s.num_tokens)"),
    ),
    ("admit", "one newcomer a step", ADMIT.replace("while", "if")),
    ("admit", "the small overtake", OVERTAKE),
    ("admit", "first come, first served, whatever the policy", FIFO),
    (
        "admit",
        "the worst key first",
        "for seq in reversed(self.waiting.ordered(now)):\n    if not self.room_for(plan, seq):\n        break\n    self.admit(plan, seq)\n",
    ),
    (
        "admit",
        "as many as there are slots",
        "while (seq := self.waiting.peek(now)) and len(self.running) < self.config.max_num_seqs:\n    self.admit(plan, seq)\n",
    ),
    (
        "admit",
        "as many as there is budget",
        "while (seq := self.waiting.peek(now)) and sum(plan.scheduled.values()) + seq.num_tokens <= self.config.max_num_batched_tokens:\n    self.admit(plan, seq)\n",
    ),
    ("admit", "room asked of an empty plan", ADMIT.replace("room_for(plan,", "room_for(Plan(),")),
    (
        "admit",
        "room asked once",
        "seq = self.waiting.peek(now)\nif seq and self.room_for(plan, seq):\n    for seq in self.waiting.ordered(now)[: self.config.max_num_seqs - len(self.running)]:\n        self.admit(plan, seq)\n",
    ),
    (
        "admit",
        "one too many",
        "while seq := self.waiting.peek(now):\n    full = not self.room_for(plan, seq)\n    self.admit(plan, seq)\n    if full:\n        break\n",
    ),
    (
        "admit",
        "who came at this moment waits a step",
        ADMIT.replace("and self.room", "and seq.request.arrival_time < now and self.room"),
    ),
    ("admit", "the clock stands at 0", ADMIT.replace("peek(now)", "peek(0.0)")),
    ("admit", "new, but not said so", ADMIT + "plan.new.clear()\n"),
    ("admit", "cached not told", ADMIT + "plan.cached.clear()\n"),
    (
        "admit",
        "everything cached",
        BY_HAND.replace(
            "[seq.request_id] = 0\n    plan.start", "[seq.request_id] = seq.num_tokens\n    plan.start"
        ),
    ),
    (
        "admit",
        "prompts taken for computed",
        BY_HAND.replace(
            "plan.scheduled[seq.request_id] = seq.num_tokens", "plan.scheduled[seq.request_id] = 1"
        ),
    ),
    (
        "admit",
        "prompts computed for ever",
        BY_HAND.replace("    seq.num_computed_tokens = seq.num_tokens\n", ""),
    ),
    (
        "admit",
        "prompts all but the last token",
        BY_HAND.replace("= seq.num_tokens\n", "= max(1, seq.num_tokens - 1)\n"),
    ),
    (
        "admit",
        "a prompt that does not fit is cut",
        "while (seq := self.waiting.peek(now)) and len(self.running) < self.config.max_num_seqs:\n    left = self.config.max_num_batched_tokens - sum(plan.scheduled.values())\n    if left < 1:\n        break\n    self.admit(plan, seq)\n    plan.scheduled[seq.request_id] = min(left, seq.num_tokens)\n    seq.num_computed_tokens = plan.scheduled[seq.request_id]\n",
    ),
    (
        "admit",
        "serves the newcomers once more",
        ADMIT + "for seq in self.running:\n    self.serve(plan, seq)\n",
    ),
    (
        "admit",
        "a full batch or none",
        "if len(self.waiting) >= self.config.max_num_seqs - len(self.running):\n" + indented(ADMIT),
    ),
    ("admit", "nobody is let in", "pass\n"),
]

STATIC = [(name, static(**{half: code})) for half, name, code in HALVES] + [
    ("a continuous batch", continuous()),
    ("nothing while somebody runs", static(serve="pass")),
    (
        "a new batch when one is left",
        "plan = Plan()\n" + SERVE + "if len(self.running) <= 1:\n" + indented(ADMIT) + "return plan",
    ),
    (
        "a new batch in the step of the old",
        "plan = Plan()\n"
        + SERVE
        + "if not plan.scheduled or all(s.num_tokens + 1 >= s.longest for s in self.running):\n"
        + indented(ADMIT)
        + "return plan",
    ),
    (
        "fills up behind a newcomer",
        "plan = Plan()\nif not self.running or len(self.running) < self.config.max_num_seqs // 2:\n"
        + indented(SERVE + ADMIT)
        + "else:\n"
        + indented(SERVE)
        + "return plan",
    ),
    (
        "None when there is nothing to do",
        static().replace("return plan", "return plan if plan.scheduled else None"),
    ),
    (
        "one plan for all steps",
        static().replace("plan = Plan()", "plan = self.plan = getattr(self, 'plan', Plan())"),
    ),
    (
        "fills, then serves in the same step",
        "plan = Plan()\nif not self.running:\n" + indented(ADMIT) + SERVE + "return plan",
    ),
    ("nothing returned", static().replace("return plan", "")),
    (
        "a batch for one",
        static(
            admit="seq = self.waiting.peek(now)\nif seq and not self.running:\n    self.admit(plan, seq)\n"
        ),
    ),
    (
        "fills before the first is there",
        "plan = Plan()\nif self.running:\n"
        + indented(SERVE)
        + "else:\n"
        + indented(
            "seq = self.waiting.peek(now)\nwhile self.room_for(plan, seq):\n    self.admit(plan, seq)\n    seq = self.waiting.peek(now)\n"
        )
        + "return plan",
    ),
]

CONTINUOUS = [(name, continuous(**{half: code})) for half, name, code in HALVES] + [
    ("a static batch", static()),
    (
        "newcomers first",
        "plan = Plan()\n"
        + ADMIT
        + "for seq in self.running:\n    if seq.request_id not in plan.scheduled:\n        self.serve(plan, seq)\nreturn plan",
    ),
    ("newcomers first, everybody served", "plan = Plan()\n" + ADMIT + SERVE + "return plan"),
    (
        "newcomers have a step of their own",
        "plan = Plan()\n" + ADMIT + "if not plan.scheduled:\n" + indented(SERVE) + "return plan",
    ),
    (
        "the running have a step of their own",
        static(serve=SERVE).replace(
            "if self.running:", "if self.running and len(self.running) >= self.config.max_num_seqs:"
        ),
    ),
    (
        "a slot is filled a step later",
        "plan = Plan()\nbefore, self.before = getattr(self, 'before', 0), len(self.running)\n"
        + SERVE
        + "if before <= len(self.running):\n"
        + indented(ADMIT)
        + "return plan",
    ),
    (
        "fills when half of the slots are free",
        "plan = Plan()\n"
        + SERVE
        + "if 2 * len(self.running) <= self.config.max_num_seqs:\n"
        + indented(ADMIT)
        + "return plan",
    ),
    (
        "fills only after somebody left",
        "plan = Plan()\n"
        + SERVE
        + "if len(self.running) < getattr(self, 'before', 1):\n"
        + indented(ADMIT)
        + "self.before = len(self.running)\nreturn plan",
    ),
    (
        "newcomers before, decodes behind",
        "plan, late = Plan(), Plan()\n"
        + SERVE.replace("plan", "late")
        + ADMIT.replace("self.admit", "self.admit").replace("room_for(plan", "room_for(late")
        + "plan.scheduled.update(late.scheduled)\nplan.start.update(late.start)\nreturn plan",
    ),
    (
        "None when there is nothing to do",
        continuous().replace("return plan", "return plan if plan.scheduled else None"),
    ),
    (
        "one plan for all steps",
        continuous().replace("plan = Plan()", "plan = self.plan = getattr(self, 'plan', Plan())"),
    ),
    ("nothing returned", continuous().replace("return plan", "")),
    (
        "not past the last newcomer",
        continuous().replace("peek(now)) and", "peek(now)) and len(self.waiting) > 1 and"),
    ),
    (
        "who runs longest makes way",
        "plan = Plan()\nif len(self.running) == self.config.max_num_seqs and len(self.waiting):\n    self.waiting.push(self.running.pop(), now)\n"
        + SERVE
        + ADMIT
        + "return plan",
    ),
]

ADJUSTED = """
if seconds > self.target:
    self.limit = max(1, self.limit // 2)
else:
    self.limit = min(self.config.max_num_seqs, self.limit + 1)
"""
ADJUST = [
    ("just in time is late", ADJUSTED.replace("seconds >", "seconds >=")),
    ("the other way round", ADJUSTED.replace("seconds >", "seconds <=")),
    ("halved, rounded up", ADJUSTED.replace("self.limit // 2", "(self.limit + 1) // 2")),
    ("halved exactly", ADJUSTED.replace("// 2", "/ 2")),
    ("down to nobody", ADJUSTED.replace("max(1, self.limit // 2)", "self.limit // 2")),
    ("never below 2", ADJUSTED.replace("max(1,", "max(2,")),
    (
        "without an upper end",
        ADJUSTED.replace("min(self.config.max_num_seqs, self.limit + 1)", "self.limit + 1"),
    ),
    ("one short of the upper end", ADJUSTED.replace("max_num_seqs,", "max_num_seqs - 1,")),
    ("tokens for the upper end", ADJUSTED.replace("max_num_seqs", "max_num_batched_tokens")),
    ("one less when late", ADJUSTED.replace("self.limit // 2", "self.limit - 1")),
    ("back to 1 when late", ADJUSTED.replace("max(1, self.limit // 2)", "1")),
    ("doubles in time", ADJUSTED.replace("self.limit + 1", "2 * self.limit")),
    (
        "straight to the upper end",
        ADJUSTED.replace("min(self.config.max_num_seqs, self.limit + 1)", "self.config.max_num_seqs"),
    ),
    ("halves those who run", ADJUSTED.replace("self.limit // 2", "len(self.running) // 2")),
    ("grows from those who run", ADJUSTED.replace("self.limit + 1", "len(self.running) + 1")),
    ("grows only when full", ADJUSTED.replace("else:", "elif len(self.running) >= self.limit:")),
    ("stays when just below", ADJUSTED.replace("else:", "elif seconds < 0.9 * self.target:")),
    ("only ever falls", ADJUSTED.replace("self.limit + 1", "self.limit")),
    (
        "throws out who is too many",
        ADJUSTED.replace(
            "else:",
            "    for seq in self.running[self.limit :]:\n        self.abort(seq.request_id, self.now)\nelse:",
        ),
    ),
    ("by how late it is", ADJUSTED.replace("self.limit // 2", "int(self.limit * self.target / seconds)")),
    (
        "halves and adds one",
        "if seconds > self.target:\n    self.limit = max(1, self.limit // 2)\nself.limit = min(self.config.max_num_seqs, self.limit + 1)",
    ),
    ("a variable of its own", ADJUSTED.replace("    self.limit =", "    limit =")),
    ("milliseconds", ADJUSTED.replace("seconds >", "1000 * seconds >")),
    (
        "the slots of the configuration halved",
        ADJUSTED.replace("self.limit // 2", "self.config.max_num_seqs // 2"),
    ),
    (
        "returns what it found",
        "if seconds > self.target:\n    return max(1, self.limit // 2)\nreturn min(self.config.max_num_seqs, self.limit + 1)",
    ),
]

WRONG = [
    wrong(todo, name, code)
    for todo, variants in [
        ("ch04.1", TAKE),
        ("ch04.2", ADD),
        ("ch04.3", ROOM),
        ("ch04.4", STATIC),
        ("ch04.5", CONTINUOUS),
        ("ch04.6", ADJUST),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "cut off where it ends",
        {
            "ch04.1": """
room = seq.longest - seq.num_tokens
kept = tokens[:room]
ends = [i for i, token in enumerate(kept) if token in set(seq.stop_token_ids)]
if ends:
    seq.num_tokens += ends[0] + 1
    return "stop"
seq.num_tokens += len(kept)
return "length" if len(kept) == room else None
"""
        },
    ),
    Variant(
        "one reason, said at the end",
        {
            "ch04.1": """
reason, i = None, 0
while reason is None and i < len(tokens):
    seq.num_tokens = seq.num_tokens + 1
    if seq.num_tokens == seq.longest:
        reason = "length"
    if seq.stop_token_ids.count(tokens[i]):
        reason = "stop"
    i += 1
return reason
"""
        },
    ),
    Variant(
        "ids first, lengths by hand",
        {
            "ch04.2": """
limit = self.config.max_num_batched_tokens
reason = None
if request.request_id in self.ids:
    reason = "duplicate_id"
for length in (request.prompt_len, request.max_new_tokens):
    if type(length) is not int or length <= 0:
        reason = "bad_length"
if reason is None and request.prompt_len not in range(1, limit + 1):
    reason = "over_budget"
if reason:
    raise Refused(reason=reason)
"""
        },
    ),
    Variant(
        "an error of its own kind",
        {
            "ch04.2": """
class TurnedAway(Refused):
    pass


try:
    assert is_length(request.prompt_len)
    assert is_length(request.max_new_tokens)
except AssertionError:
    raise TurnedAway("bad_length") from None
if request.prompt_len > self.config.max_num_batched_tokens:
    raise TurnedAway("over_budget")
elif self.ids & {request.request_id}:
    raise TurnedAway("duplicate_id")
"""
        },
    ),
    Variant(
        "what is left",
        {
            "ch04.3": """
if not len(self.running) < self.config.max_num_seqs:
    return False
left = self.config.max_num_batched_tokens
for tokens in plan.scheduled.values():
    left -= tokens
return left >= seq.num_tokens - seq.num_computed_tokens
"""
        },
    ),
    Variant(
        "all of several",
        {
            "ch04.3": """
tokens = [*plan.scheduled.values(), seq.num_tokens]
return all([
    sum(tokens) <= self.config.max_num_batched_tokens,
    len([*self.running, seq]) <= self.config.max_num_seqs,
])
"""
        },
    ),
    Variant(
        "in the order of now",
        {
            "ch04.4": """
plan, batch = Plan(), list(self.running)
for seq in batch:
    self.serve(plan, seq)
for seq in () if batch else self.waiting.ordered(now):
    if not self.room_for(plan, seq):
        break
    self.admit(plan, seq)
return plan
""",
            "ch04.5": """
plan = Plan()
for seq in tuple(self.running):
    self.serve(plan, seq)
for seq in self.waiting.ordered(now):
    if not self.room_for(plan, seq):
        return plan
    self.admit(plan, seq)
return plan
""",
        },
    ),
    Variant("put together by hand", {"ch04.4": static(admit=BY_HAND), "ch04.5": continuous(admit=BY_HAND)}),
    Variant(
        "a flag and a break",
        {
            "ch04.4": """
plan = Plan()
fresh = not self.running
while fresh and len(self.waiting) > 0:
    seq = self.waiting.peek(now)
    if not self.room_for(plan, seq):
        break
    self.admit(plan, seq)
if not fresh:
    [self.serve(plan, seq) for seq in self.running]
return plan
""",
            "ch04.5": """
plan = Plan(
    scheduled={seq.request_id: 1 for seq in self.running},
    start={seq.request_id: seq.num_computed_tokens for seq in self.running},
)
for seq in self.running:
    seq.num_computed_tokens += 1
while True:
    seq = self.waiting.peek(now)
    if seq is None or not self.room_for(plan, seq):
        return plan
    self.admit(plan, seq)
""",
        },
    ),
    Variant(
        "clamped at the end",
        {
            "ch04.6": """
late = seconds > self.target
wanted = self.limit >> 1 if late else self.limit + 1
self.limit = sorted((1, wanted, self.config.max_num_seqs))[1]
"""
        },
    ),
    Variant(
        "by hand, at each end",
        {
            "ch04.6": """
if seconds <= self.target:
    if self.limit < self.config.max_num_seqs:
        self.limit += 1
    return
self.limit //= 2
if not self.limit:
    self.limit = 1
"""
        },
    ),
]
