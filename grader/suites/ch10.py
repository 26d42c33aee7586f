"""Chapter 10's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch10``; only the workloads are new here.
"""

from __future__ import annotations

import random
from typing import Any

from decodelab.check.ch10.cases import (
    MOON,
    asked,
    machine,
    moves,
    out,
    plans,
    run,
    script,
    several,
    tiny_request,
)
from decodelab.check.ch10.fitting import MACHINES
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

A, B, C = asked("a", "x", "y", "z", ""), asked("b", "1", "2", "3", "4", ""), asked("c", "r", "s", "")
LINES = asked("a", "one", "\n", "two", "\n", "\n", "three", stop=("\n\n", "###"))

DIRECTED: dict[str, list[Case]] = {
    "ch10.1": [
        plans("three-of-different-lengths", [tiny_request("a", 3), tiny_request("b", 11, seed=2), tiny_request("c", 6, seed=4)],
              run(a=3), run(a=1, b=4), run(a=1, b=4, c=2), run(b=3, a=1, c=4), run(c=1, a=1, b=1), run("a", c=1, b=1, a=1), run(b=1, c=1)),
        plans("the-last-chunk-is-one-token", [tiny_request("a", 5)], run(a=2), run(a=2), run(a=1), run(a=1)),
        plans("blocks-of-one", [tiny_request("a", 4), tiny_request("b", 4, seed=2)], run(a=4), run(a=1, b=4), run("a", b=1, a=1), run(b=1), block_size=1),
        plans("out-and-in-twice", [tiny_request("a", 6), tiny_request("b", 4, seed=5)], run(a=6, b=4), run(a=1, b=1), out("a", b=1), run(b=1, a=7), out("a", b=1),
              run(a=8, b=1), run(a=1, b=1)),
        plans("the-same-blocks-again", [tiny_request("a", 5)], run(a=5), run(a=1), out("a", a=4), run(a=2), run(a=1), run(a=1), block_size=16, num_blocks=1),
        plans("drawn-out-and-back", [tiny_request("a", 5, 1.0, 1.0, 2), tiny_request("b", 4, 1.0, 0.9, 2, seed=2)], run(a=5, b=4), run(a=1, b=1), out("a", b=1), run(a=6), run(a=1, b=1), run(b=1, a=1)),
        plans("another-model", [tiny_request("a", 7), tiny_request("b", 3, seed=3)], run(a=7), run(b=3, a=1), run(b=1, a=1), run(a=1, b=1), model="qwen3"),
        plans("sampled-in-company", [tiny_request(i, 4, 1.0, 0.95, 1) for i in "abcd"], run(a=4, b=2), run(b=2, a=1, c=4), run(d=4, c=1, a=1, b=1), run(a=1, b=1, c=1, d=1)),
    ],
    "ch10.2": [
        script("four-at-the-door", [A, B, C, asked("d", "q", "")], "submit a", "submit b", "step", "submit c", "submit d", "step", "step", refuses=["c"]),
        script("refused-then-another", [A, B], "submit a", "submit b", "step", "step", refuses=["a"]),
        script("the-id-of-one-that-is-over", [C, A], "submit c", "step", "step", "step", "submit c", "submit a", "step"),
        script("one-with-stop-strings", [LINES, A], "submit a", "step"),
        script("an-id-of-several-letters", [asked("first", "x", ""), asked("second", "y", "", stop=("y",))], "submit first", "submit second", "step"),
        script("twice-before-any-step", [A, B], "submit a", "submit a", "submit b", "step"),
        script("the-id-of-one-aborted", [A, B], "submit a", "step", "abort a", "submit a", "submit b", "step"),
    ],
    "ch10.3": [
        script("stop-strings-of-two", [LINES, asked("b", "##", "#", "x", stop=("###",))], "submit a", "submit b", *["step"] * 7),
        script("a-stop-string-inside-a-piece", [asked("a", "so it ", "goes. And", " on", stop=(".",)), B], "submit a", "submit b", *["step"] * 4),
        script("half-a-stop-string", [asked("a", "月", "<E6>", "<98>", "<8E>", "!", stop=("no", "月明"))], "submit a", *["step"] * 6),
        script("bytes-that-never-meet", [asked("a", "<F0>", "<E6>", "<E6>", "x<98>", "y", "")], "submit a", *["step"] * 7),
        script("three-at-once", [asked("a", *"abcdef", max_new_tokens=6), asked("b", *"EN DEN", stop=("END", "DEN"), max_new_tokens=9)], "submit a", "submit b", *["step"] * 4, at_once=3),
        script("broken-and-whole-again", [asked("a", "so ", "<E6>", "<98>", "<8E>", "<E5>", "<85>", "<89>", "!", "<E6>", max_new_tokens=9, stop=("!!",)), B], "submit a", "submit b", *["step"] * 9, fallback=True),
        script("over-while-broken", [asked("a", "<E6>", "<98>", "<8E>", "<E5>", max_new_tokens=4)], "submit a", *["step"] * 5, fallback=True),
        script("blanks-around", [asked("a", " ", " x", "  ", "\n", max_new_tokens=4)], "submit a", *["step"] * 5),
        script("four-bytes-of-one", [asked("a", "<F0>", "<9F>", "<98>", "<80>", "!", "")], "submit a", *["step"] * 7),
        script("half-a-character-before-a-stop-string", [asked("a", "<E6>", "<98>", "<8E>", "。", stop=("。",))], "submit a", *["step"] * 5),
        script("held-then-let-go", [asked("a", "E", "N", "x", "E", "N", "", stop=("END",))], "submit a", *["step"] * 7),
        script("both-end-at-once", [asked("a", "x", "", max_new_tokens=2), asked("b", "y", "", max_new_tokens=2)], "submit a", "submit b", *["step"] * 3),
        script("abort-then-a-step-for-the-other", [A, B, C], "submit a", "submit b", "step", "submit c", "abort b", *["step"] * 4),
        script("chunks-and-company", [asked("a", "x", "", prompt_len=9), B], "submit b", "submit a", *["step"] * 7, chunk=3),
        script("dropped-and-others-go-on", [A, B, C], "submit a", "submit b", "submit c", *["step"] * 6, drops=["b"]),
        script("nobody-is-left", [asked("a", "x", "END", stop=("END",))], "submit a", *["step"] * 4),
        script("stop-token-and-held-text", [asked("a", "go", "E", "", stop=("END",))], "submit a", *["step"] * 4),
    ],
    "ch10.4": [
        script("three-in-turn", [A, B, C], "submit a", "submit b", "submit c", *["read c", "read a", "read b"] * 6),
        script("blanks-in-turn", [asked("a", " ", "\n", "x", " ", ""), B], "submit a", "submit b", *["read a", "read b"] * 6),
        script("late-to-the-show", [A, B], "submit a", *["step"] * 5, "submit b", "read a", "read a", "read b"),
        script("a-stop-string", [LINES, B], "submit a", "submit b", *["read a", "read b"] * 7),
        script("chunks-first", [asked("a", "x", "y", "", prompt_len=9)], "submit a", *["read a"] * 4, chunk=2),
        script("aborted-by-another", [A, B], "submit a", "submit b", "read a", "read b", "abort b", "read b", *["read a"] * 3),
        script("dropped", [A, B], "submit a", "submit b", *["read a"] * 3, *["read b"] * 6, drops=["a"]),
        script("a-character-at-a-time", [asked("a", *MOON, *MOON, "")], "submit a", *["read a"] * 9),
    ],
    "ch10.5": [
        machine("long-texts", "long-texts", 400, 0.06, seed=2),
        machine("bends-late-with-noise", "bends-late", 400, 0.08, seed=3, noise=0.05),
        machine("slow-memory-with-noise", "slow-memory", 400, 0.08, seed=4, noise=0.1),
        machine("gpu-with-noise", "gpu", 400, 0.06, seed=15, noise=0.15),
        machine("many-mishaps", "bends-late", 1000, 0.08, seed=2, noise=0.4),
        machine("five-steps", "gpu", 5, 0.15, seed=5),
        machine("one-step", "cpu", 1, 0.05, seed=6),
    ],
    "ch10.6": [
        moves("everything-out", swap_out=[(n, n) for n in range(4)]),
        moves("round-about", swap_out=[(0, 0), (1, 1)], swap_in=[(2, 0), (3, 1)], copy=[(5, 2), (5, 3)]),
        moves("out-and-back-at-once", swap_out=[(4, 2)], swap_in=[(2, 5)]),
        moves("large-blocks", swap_out=[(1, 0)], copy=[(0, 1)], block_size=16),
        moves("one-block-each", swap_out=[(0, 0)], blocks=1, host_blocks=1),
    ],
    "ch10.7": [
        several("five-answers", 5, 10, 9, 1.2, 0.9, 4),
        several("blocks-of-one", 3, 5, 5, 1.0, 1.0, 8, block_size=1),
        several("one-token-of-a-prompt", 3, 1, 6, 1.0, 1.0, 9),
        several("in-one-large-block", 4, 6, 6, 1.0, 1.0, 3, block_size=16),
        several("no-block-to-spare", 2, 8, 5, 1.0, 1.0, 6, num_blocks=4),
        several("stops-at-once", 3, 6, 5, 2.0, 1.0, 5, stops=list(range(0, 48, 2))),
    ],
}  # fmt: skip


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    return [DRAW[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(2)]


def draw_plans(rng: random.Random) -> Case:
    """Three requests in chunks, preempted now and then."""
    names = ["a", "b", "c"]
    requests = [tiny_request(name, rng.randint(2, 9), seed=rng.randint(1, 99)) for name in names]
    for one in rng.sample(requests, 1):
        one["sampling"] = [1.0, 0.9, rng.randint(0, 9)]
    steps = []
    for n in range(9):
        going = rng.sample(names, rng.randint(1, 3))
        lost = rng.sample(names, 1) if n > 2 and rng.random() < 0.3 else []
        steps.append({"run": {name: rng.choice([1, 1, 2, 4, 9]) for name in going}, "preempt": lost})
    size = rng.choice([1, 2, 4])
    return plans("", requests, *steps, weights=rng.randint(1, 9), seed=rng.randint(0, 99), block_size=size)


STOPS = (("END",), ("\n\n",), ("。", "ab"), ())
PIECES = ["E", "N", "D", "\n", "。", "a", "b", "明", "<E5>", "<85>", "<89>", "EN", "x"]


def draw_requests(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Requests with answers out of pieces that may come to a stop string or a character."""
    return [
        asked(
            name,
            *rng.choices(PIECES, k=rng.randint(1, 8)),
            *rng.choice([("",), ("<E5>", "<85>", "<89>", "")]),
            prompt_len=rng.randint(1, 5),
            max_new_tokens=rng.randint(1, 9),
            stop=rng.choice(STOPS),
        )
        for name in "abcd"[:count]
    ]


def draw_script(rng: random.Random, verbs: list[str]) -> Case:
    """Some come, some go, at any time."""
    requests = draw_requests(rng, 4)
    names = [one["id"] for one in requests]
    lines: list[str] = []
    there: list[str] = []
    waiting = list(names)
    for _ in range(24):
        verb = rng.choice(verbs)
        if waiting and (verb == "submit" or not there):
            there.append(waiting.pop(0))
            lines.append(f"submit {there[-1]}")
        elif verb == "step":
            lines.append("step")
        elif there:
            lines.append(f"{'read' if verb == 'submit' else verb} {rng.choice(there)}")
    refuses = [names[-1]] if "read" not in verbs and rng.random() < 0.7 else []
    return script("", requests, *[x for x in lines if "read" in verbs or not x.startswith("read")], refuses=refuses, chunk=rng.choice([2, 99]))  # fmt: skip


def draw_door(rng: random.Random) -> Case:
    return draw_script(rng, ["submit", "submit", "submit", "step", "abort"])


def draw_steps(rng: random.Random) -> Case:
    return draw_script(rng, ["submit", "step", "step", "step", "step", "step", "abort"])


def draw_streams(rng: random.Random) -> Case:
    return draw_script(rng, ["submit", "read", "read", "read", "read", "step", "abort"])


def draw_machine(rng: random.Random) -> Case:
    kind, noise = rng.choice(sorted(MACHINES)), rng.choice([0.0, 0.04])
    return machine("", kind, rng.randint(300, 500), 0.08, seed=rng.randint(0, 9999), noise=noise, varied=True)


def draw_moves(rng: random.Random) -> Case:
    """Targets differ within a kind; across kinds a number may come again."""
    outs = zip(rng.sample(range(6), 3), rng.sample(range(4), 3), strict=True)
    back = zip(rng.sample(range(4), 3), rng.sample(range(6), 3), strict=True)
    blocks = rng.sample(range(6), 4)
    some = [pairs[: rng.randint(1, 3)] for pairs in (list(outs), list(back))]
    return moves("", swap_out=some[0], swap_in=some[1], copy=[(blocks[0], blocks[1]), (blocks[2], blocks[3])])


def draw_several(rng: random.Random) -> Case:
    sampling = rng.choice([0.8, 1.0, 1.5]), rng.choice([0.8, 1.0]), rng.randint(0, 99)
    stops = rng.sample(range(48), rng.choice([0, 6]))
    more: dict[str, Any] = {
        "block_size": rng.choice([1, 3, 4, 16]),
        "stops": stops,
        "seed": rng.randint(1, 99),
    }
    return several(
        "", rng.randint(2, 4), rng.randint(2, 9), rng.randint(2, 8), *sampling, **more, num_blocks=60
    )


DRAW = {
    "ch10.1": draw_plans,
    "ch10.2": draw_door,
    "ch10.3": draw_steps,
    "ch10.4": draw_streams,
    "ch10.5": draw_machine,
    "ch10.6": draw_moves,
    "ch10.7": draw_several,
}


def wrong(todo: str, name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """An answer to ``ch10.<todo>`` that breaks ``rule``."""
    return Variant(name, {f"ch10.{todo}": code}, rule=rule, looks=looks)


TABLES = "self.tables.update(plan.block_tables)\nif plan.scheduled:\n"
PASS = "    batch = pack(plan, self.sequences, self.tables, self.block_size, self.device)\n    logits = forward_batch(self.decoder, self.kv, batch)\n"
READY = "    ready = [n for n, i in enumerate(batch.request_ids) if batch.seq_lens[n] == len(self.sequences[i])]\n"
IDS = "    ids = [batch.request_ids[n] for n in ready]\n"
EACH = "    for request_id, token in zip(ids, self.choose(ids, logits[ready])):\n"
KEEP = "        self.sequences[request_id].append(token)\n"
GIVE = "        tokens[request_id] = [token]"

ADD, BEGIN = "self.scheduler.add_request(request, self.clock.now)\n", "self.executor.begin(job)\n"
OUTPUT = "self.outputs[request.request_id] = Output(request.prompt, job.sampling.stop)\n"
ACTIVE, ARRIVED = "self.active.add(request.request_id)\n", "self.arrived.append(request)\n"

RUN, TICK = "step.tokens, seconds = executor.execute(plan)\n", "clock.tick(seconds)\n"
UPDATE = "step.finished = scheduler.update(plan, step.tokens, clock.now)\n"
LOOP = "for request_id, tokens in step.tokens.items():\n    output = self.outputs[request_id]\n"
TAKE = "    output.token_ids += tokens\n"
TEXT = '    text = self.decoded(output).rstrip("\\ufffd")\n'
SAFE = "    shown, over = visible(text, output.stop)\n"
STOP = '    if over:\n        scheduler.abort(request_id, clock.now)\n        step.finished[request_id] = "stop"\n'
SHOW = "    output.show(shown if over or request_id not in step.finished else text)\n"
ENDS = "for request_id, reason in (plan.dropped | step.finished).items():\n    self.end(request_id, reason)"
SERVE = RUN + TICK + UPDATE

NEW = "while True:\n    new = output.text[sent:]\n    sent += len(new)\n"
REST = "    elif output.reason:\n        return\n    else:\n        self.step()"

COUNTED = "new_tokens, kv_tokens, pairs, seconds = np.array(samples, float).T\n"
ROWS = "rows = features(new_tokens, kv_tokens, pairs) / seconds[:, None]\n"
SOLVE = "weights = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]\n"
COST = "return lambda new_tokens, kv_tokens, pairs: float(features(new_tokens, kv_tokens, pairs) @ weights)"
CLIPPED = COST.replace("float(features", "max(0.0, features").replace("weights)", "weights)")

PAIRS = (
    "out, back = ([p for some in pairs.values() for p in some] for pairs in (plan.swap_out, plan.swap_in))\n"
)
KINDS = "for pairs, source, target in ((out, kv, host), (back, host, kv), (plan.copy, kv, kv)):\n"
EVERY = "    for a, b in pairs:\n        for old, new in ((source.keys, target.keys), (source.values, target.values)):\n"
ONE = "            new.unflatten(1, (-1, kv.block_size))[:, b] = old.unflatten(1, (-1, kv.block_size))[:, a]"

FIRST = "manager.allocate(0, len(prompt))\nlogits = compute(Plan({0: len(prompt)}, {0: 0}))\n"
FORK = "for i in range(1, n):\n    manager.fork(0, i)\n"
DRAWN = "going = draw(list(range(n)), logits.expand(n, -1))\nwhile going:\n    plan = Plan()\n    for i in going:\n"
NEXT = "        plan.scheduled[i], plan.start[i] = 1, len(sequences[i]) - 1\n        manager.allocate(i, len(sequences[i]))\n"
WRITE = "        if moved := manager.write(i, plan.start[i]):\n            plan.copy.append(moved)\n"
AGAIN = "    going = draw(going, compute(plan))"

WRONG: list[Variant] = [
    wrong("1", "a token for everybody", TABLES + PASS + "    ready = range(len(batch.request_ids))\n" + IDS + EACH + KEEP + GIVE, "only-at-the-last-token",
          both(en="sampling for unfinished prefills", zh="预填充还没做完就抽样")),
    wrong("1", "a token once the prompt is done", TABLES + PASS + READY.replace("== len(self.sequences[i])", ">= self.jobs[i].request.prompt_len") + IDS + EACH + KEEP + GIVE,
          "only-at-the-last-token", both(en="drawing anew before an old answer is computed again", zh="旧的回答还没重算完，就又抽了新的")),
    wrong("1", "decodes only", TABLES + PASS + READY.replace("if ", "if plan.scheduled[i] == 1 and ") + IDS + EACH + KEEP + GIVE, "a-token-for-each",
          both(en="no token at the end of a prefill", zh="预填充做完时没有给出 token")),
    wrong("1", "prompts computed, not answers", TABLES + PASS + READY.replace("len(self.sequences[i])", "self.jobs[i].request.prompt_len") + IDS + EACH + KEEP + GIVE,
          "a-token-for-each"),
    wrong("1", "not kept", TABLES + PASS + READY + IDS + EACH + GIVE, "token-is-kept"),
    wrong("1", "kept twice", TABLES + PASS + READY + IDS + EACH + KEEP + KEEP + GIVE, "token-is-kept", both(en="keeping each token twice", zh="每个 token 记了两遍")),
    wrong("1", "tables of the last plan only", "self.tables = dict(plan.block_tables)\nif plan.scheduled:\n" + PASS + READY + IDS + EACH + KEEP + GIVE, "no-exception"),
    wrong("1", "the first table for ever", "for i, table in plan.block_tables.items():\n    self.tables.setdefault(i, table)\nif plan.scheduled:\n" + PASS + READY + IDS + EACH + KEEP + GIVE,
          "no-exception"),
    wrong("1", "tables grow", "for i, table in plan.block_tables.items():\n    self.tables.setdefault(i, []).extend(table)\nif plan.scheduled:\n" + PASS + READY + IDS + EACH + KEEP + GIVE,
          "says-what-it-would-alone"),
    wrong("1", "rows of logits mixed up", TABLES + PASS + READY + IDS + EACH.replace("logits[ready]", "logits[: len(ids)]") + KEEP + GIVE, "says-what-it-would-alone"),
    wrong("5", "the machine from the public check that fits best", "known = dict(\n    cpu=(5e-4, 1e-3, 1.5e-4, 1e-6, 5e-8), gpu=(4e-3, 6e-3, 2e-5, 4e-8, 1e-10), slow=(1e-3, 2e-3, 4e-5, 6e-6, 1e-8),\n"
          "    late=(5e-4, 6e-3, 1e-4, 1e-6, 2e-8), wide=(2e-4, 3e-4, 3e-4, 1e-7, 1e-9), long=(1e-3, 1e-3, 5e-5, 2e-6, 4e-7),\n)\n"
          "def cost_of(base, read, token, kv, pair):\n    return lambda n, k, p: base + max(read, token * n) + kv * k + pair * p\n"
          "costs = [cost_of(*numbers) for numbers in known.values()]\nreturn min(costs, key=lambda cost: sum((s / cost(n, k, p) - 1) ** 2 for n, k, p, s in samples))", ""),
    wrong("1", "one by one", "self.tables.update(plan.block_tables)\nfor i, n in plan.scheduled.items():\n    batch = pack(Plan({i: n}, {i: plan.start[i]}), self.sequences, self.tables, self.block_size, self.device)\n"
          "    logits = forward_batch(self.decoder, self.kv, batch)\n    if batch.seq_lens[0] == len(self.sequences[i]):\n        (token,) = self.choose([i], logits)\n        self.sequences[i].append(token)\n        tokens[i] = [token]",
          "one-pass-a-step", both(en="one pass for each request", zh="每个请求各算一次")),
    wrong("1", "everything again, without the cache", "for i, n in plan.scheduled.items():\n    ids = self.sequences[i]\n    if plan.start[i] + n == len(ids):\n        hidden = self.decoder.forward(torch.tensor(ids), torch.arange(len(ids)), self.decoder.cache(len(ids)))\n"
          "        (token,) = self.choose([i], self.decoder.logits(hidden[-1:]))\n        ids.append(token)\n        tokens[i] = [token]", "one-pass-a-step"),
    wrong("1", "by chapter 8's generate", "for i, n in plan.scheduled.items():\n    ids = self.sequences[i]\n    if plan.start[i] + n == len(ids):\n        rules = self.jobs[i].sampling\n"
          "        token = next(ch08.generate(self.decoder, ids, 1, (), rules.temperature, rules.top_p, self.generators.get(i)))\n        ids.append(token)\n        tokens[i] = [token]", "one-pass-a-step"),
    wrong("1", "a bare token", TABLES + PASS + READY + IDS + EACH + KEEP + GIVE.replace("[token]", "token"), "one-token-each"),
    wrong("1", "the whole answer each time", TABLES + PASS + READY + IDS + EACH + KEEP + "        tokens[request_id] = self.sequences[request_id][self.jobs[request_id].request.prompt_len:]",
          "one-token-each"),
    wrong("1", "an empty plan is computed", "self.tables.update(plan.block_tables)\nif True:\n" + PASS + READY + IDS + EACH + KEEP + GIVE, "no-exception"),
    wrong("1", "always greedy", TABLES + PASS + READY + IDS + EACH.replace("self.choose(ids, logits[ready])", "logits[ready].argmax(-1).tolist()") + KEEP + GIVE, "says-what-it-would-alone"),
    wrong("1", "one generator for all", TABLES + PASS + READY + IDS + "    s = [self.jobs[i].sampling for i in ids]\n    shared = next(iter(self.generators.values()), None)\n"
          "    drawn = sample_batch(logits[ready], [x.temperature for x in s], [x.top_p for x in s], [shared] * len(ids))\n"
          "    for request_id, token in zip(ids, drawn):\n" + KEEP + GIVE, "says-what-it-would-alone", both(en="one generator shared by all requests", zh="所有请求共用一个随机数生成器")),
    wrong("2", "executor first", BEGIN + ADD + OUTPUT + ACTIVE + ARRIVED, "refused-leaves-no-trace", both(en="keeping a request before the scheduler has agreed", zh="调度器还没点头就先记下了请求")),
    wrong("2", "output first", OUTPUT + ADD + BEGIN + ACTIVE + ARRIVED, "refused-leaves-no-trace"),
    wrong("2", "refusals are swallowed", "try:\n    self.scheduler.add_request(request, self.clock.now)\nexcept ValueError:\n    return None\n" + BEGIN + OUTPUT + ACTIVE + ARRIVED,
          "refusal-goes-through", both(en="swallowing refusals", zh="把拒绝悄悄吞掉")),
    wrong("2", "the executor is not told", ADD + OUTPUT + ACTIVE + ARRIVED, "told-once"),
    wrong("2", "no output", ADD + BEGIN + ACTIVE + ARRIVED, "has-an-output"),
    wrong("2", "one output for all", ADD + BEGIN + "self.outputs = {request.request_id: Output(request.prompt, job.sampling.stop)}\n" + ACTIVE + ARRIVED, "has-an-output"),
    wrong("2", "no stop strings", ADD + BEGIN + "self.outputs[request.request_id] = Output(request.prompt)\n" + ACTIVE + ARRIVED, "knows-its-stop-strings",
          both(en="forgetting the stop strings", zh="没有带上停止串")),
    wrong("2", "jobs arrive", ADD + BEGIN + OUTPUT + ACTIVE + "self.arrived.append(job)", "arrival-is-noted"),
    wrong("2", "not active", ADD + BEGIN + OUTPUT + ARRIVED, "is-active"),
    wrong("2", "arrival forgotten", ADD + BEGIN + OUTPUT + ACTIVE, "arrival-is-noted"),
    wrong("2", "only the last arrival", ADD + BEGIN + OUTPUT + ACTIVE + "self.arrived = [request]", "arrival-is-noted"),
    wrong("2", "added twice", ADD + BEGIN + BEGIN + OUTPUT + ACTIVE + ARRIVED, "told-once"),
    wrong("3", "the last token is lost", SERVE + LOOP + "    if request_id not in step.finished:\n        output.token_ids += tokens\n" + TEXT + SAFE + STOP + SHOW + ENDS, "every-token-once",
          both(en="losing the token with which a request ends", zh="丢了请求的最后一个 token")),
    wrong("3", "tokens twice", SERVE + LOOP + TAKE + TAKE + TEXT + SAFE + STOP + SHOW + ENDS, "every-token-once"),
    wrong("3", "only the newest", SERVE + LOOP + "    output.token_ids = tokens\n" + TEXT + SAFE + STOP + SHOW + ENDS, "every-token-once"),
    wrong("3", "half characters", SERVE + LOOP + TAKE + TEXT.replace('.rstrip("\\ufffd")', "") + SAFE + STOP + SHOW + ENDS, "whole-characters",
          both(en="showing half characters", zh="显示了半个字")),
    wrong("3", "stop strings only looked for", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + "    output.show(text)\n" + ENDS, "holds-back"),
    wrong("3", "beginnings are shown", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + "    output.show(shown if over else text)\n" + ENDS, "holds-back",
          both(en="showing what may become a stop string", zh="把可能变成停止串的结尾显示了出来")),
    wrong("3", "held for ever", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + "    output.show(shown)\n" + ENDS, "shows-the-rest", both(en="holding text back for ever", zh="扣住的文本永远不放")),
    wrong("3", "text at the end only", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + "    if request_id in step.finished:\n        output.show(shown if over else text)\n" + ENDS, "shows-what-is-safe"),
    wrong("3", "stop strings do not end", SERVE + LOOP + TAKE + TEXT + SAFE + SHOW + ENDS, "stop-string-ends"),
    wrong("3", "the scheduler is not told", SERVE + LOOP + TAKE + TEXT + SAFE + '    if over:\n        step.finished[request_id] = "stop"\n' + SHOW + ENDS, "blocks-come-back",
          both(en="not telling the scheduler of a stop string", zh="遇到停止串没有告诉调度器")),
    wrong("3", "a stop string is an abort", SERVE + LOOP + TAKE + TEXT + SAFE + "    if over:\n        self.abort(request_id)\n" + SHOW + ENDS, "stop-string-ends"),
    wrong("3", "the step reports an abort", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + "        step.aborted.append(request_id)\n" + SHOW + ENDS, "aborted-by-users-only"),
    wrong("3", "length before stop", SERVE + LOOP + TAKE + TEXT + SAFE + "    if over:\n        scheduler.abort(request_id, clock.now)\n        step.finished.setdefault(request_id, 'stop')\n" + SHOW + ENDS,
          "stop-string-ends"),
    wrong("3", "nobody ends", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW, "says-why"),
    wrong("3", "dropped ones stay", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + ENDS.replace("(plan.dropped | step.finished)", "step.finished"), "says-why",
          both(en="forgetting those whom the scheduler dropped", zh="忘了被调度器丢掉的请求")),
    wrong("3", "everybody ends", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + "for request_id in list(self.active):\n    self.end(request_id, step.finished.get(request_id))", "ends-who-is-over"),
    wrong("3", "the executor keeps it", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + "for request_id, reason in (plan.dropped | step.finished).items():\n"
          "    self.active.discard(request_id)\n    self.outputs[request_id].reason = reason", "executor-forgets"),
    wrong("3", "the executor alone is told", SERVE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + "for request_id, reason in (plan.dropped | step.finished).items():\n"
          "    self.executor.end(request_id)\n    self.outputs[request_id].reason = reason", "ends-who-is-over"),
    wrong("3", "time stands still", RUN + UPDATE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + ENDS, "time-passes", both(en="a clock that stands still", zh="时钟没有走")),
    wrong("3", "update before the tick", RUN + UPDATE + TICK + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + ENDS, "time-passes"),
    wrong("3", "not updated", RUN + TICK + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + ENDS, "updates-once"),
    wrong("3", "executed twice", RUN + SERVE + LOOP + TAKE + TEXT + SAFE + STOP + SHOW + ENDS, "executes-once"),
    wrong("3", "the step says nothing of tokens", SERVE.replace("step.tokens", "made") + LOOP.replace("step.tokens", "made") + TAKE + TEXT + SAFE + STOP + SHOW + ENDS, "step-keeps-the-tokens"),
    wrong("3", "the step says nothing of ends", SERVE.replace("step.finished", "over_now") + LOOP + TAKE + TEXT + SAFE + STOP.replace("step.finished", "over_now") +
          SHOW.replace("step.finished", "over_now") + ENDS.replace("step.finished", "over_now"), "step-says-who-ended"),
    wrong("4", "everything again", NEW.replace("output.text[sent:]", "output.text if len(output.text) > sent else ''").replace("sent += len(new)", "sent = len(output.text)") + "    if new:\n        yield new\n" + REST,
          "stream-gives-what-is-new", both(en="giving the whole text again each time", zh="每次都把全文再给一遍")),
    wrong("4", "at the end", "while not output.reason:\n    self.step()\nif output.text:\n    yield output.text", "gives-before-it-steps", both(en="giving all text at the end", zh="等结束了才一次给完")),
    wrong("4", "steps first", "while not output.reason:\n    self.step()\n    new = output.text[sent:]\n    sent += len(new)\n    if new:\n        yield new", "gives-before-it-steps"),
    wrong("4", "steps for ever", NEW + "    if new:\n        yield new\n    else:\n        self.step()", "ends"),
    wrong("4", "a step too many", NEW + "    if new:\n        yield new\n    elif output.reason:\n        self.step()\n        return\n    else:\n        self.step()", "stream-ends"),
    wrong("4", "empty pieces", NEW + "    yield new\n    if not new:\n        if output.reason:\n            return\n        self.step()", "no-empty-piece"),
    wrong("4", "ends before its last text", NEW.replace("while True", "while not output.reason") + "    if new:\n        yield new\n    else:\n        self.step()", "stream-gives-what-is-new",
          both(en="losing the text of the last step", zh="丢了最后一步的文本")),
    wrong("4", "never steps", NEW + "    if new:\n        yield new\n    else:\n        return", "stream-gives-what-is-new"),
    wrong("4", "only the next piece", NEW + "    if new:\n        yield new\n        return\n" + REST, "stream-gives-what-is-new"),
    wrong("4", "serves itself alone", "for other in list(self.active):\n    if other != request_id:\n        self.abort(other)\n" + NEW + "    if new:\n        yield new\n" + REST, "every-token-once"),
    wrong("4", "counts after it gave", "while True:\n    if output.text[sent:]:\n        yield output.text[sent:]\n        sent = len(output.text)\n" + REST, "stream-gives-what-is-new",
          both(en="losing what came while a piece was read", zh="别人读的时候到的文本丢了")),
    wrong("4", "token ids", "given = 0\nwhile True:\n    if len(output.token_ids) > given:\n        yield output.token_ids[given]\n        given += 1\n" + REST, "no-exception"),
    wrong("4", "one stream at a time", "self.streaming = getattr(self, 'streaming', request_id)\n" + NEW + "    if new:\n        yield new\n    elif output.reason or self.streaming != request_id:\n        return\n    else:\n        self.step()",
          "every-token-once"),
    wrong("5", "a straight line", COUNTED + "rows = np.stack([np.ones(len(samples)), new_tokens, kv_tokens, pairs], 1)\nweights = np.linalg.lstsq(rows / seconds[:, None], np.ones(len(rows)), rcond=None)[0]\n"
          "return lambda *counts: max(0.0, float(weights[0] + np.dot(weights[1:], counts)))", "as-near-as-it-can", both(en="a straight line", zh="一条直线")),
    wrong("5", "the cache does not count", COUNTED + "rows = features(new_tokens, 0 * kv_tokens, 0 * pairs) / seconds[:, None]\n" + SOLVE +
          "return lambda new_tokens, kv_tokens, pairs: max(0.0, float(features(new_tokens, 0, 0) @ weights))", "counts-the-cache", both(en="ignoring the cache", zh="没有计入 cache")),
    wrong("5", "the mean", COUNTED + "return lambda *counts: float(seconds.mean())", "as-near-as-it-can", both(en="the same time for every step", zh="每一步都是同样的时间")),
    wrong("5", "weights below zero", COUNTED + ROWS + "weights = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0] - 2 * np.eye(rows.shape[1])[0]\n" + COST, "never-negative"),
    wrong("5", "kv and pairs swapped", COUNTED + ROWS + SOLVE + "return lambda new_tokens, kv_tokens, pairs: max(0.0, float(features(new_tokens, pairs, kv_tokens) @ weights))", "as-near-as-it-can"),
    wrong("5", "the nearest step", COUNTED + "known = np.stack([new_tokens, kv_tokens, pairs])\n"
          "return lambda *counts: float(seconds[np.abs(known - np.array(counts)[:, None]).sum(0).argmin()])", "as-near-as-it-can", both(en="the time of the nearest measured step", zh="拿最接近的一步的时间充数")),
    wrong("5", "milliseconds", COUNTED + ROWS + SOLVE + "return lambda new_tokens, kv_tokens, pairs: max(0.0, 1e3 * float(features(new_tokens, kv_tokens, pairs) @ weights))", "as-near-as-it-can"),
    wrong("5", "an array", COUNTED + ROWS + SOLVE + "return lambda *counts: features(*counts)", "a-number-of-seconds"),
    wrong("5", "weights, no function", COUNTED + ROWS + SOLVE + "return weights", "a-number-of-seconds"),
    wrong("5", "divided by what was measured", COUNTED + ROWS + SOLVE + "return lambda *counts: max(0.0, float(features(*counts) @ weights))", "slow-counts-as-fast",
          both(en="dividing by the measured times alone", zh="只除以实测时间，没有再除以预计的时间")),
    wrong("5", "no attention to pairs", COUNTED + "rows = features(new_tokens, kv_tokens, 0 * pairs) / seconds[:, None]\n" + SOLVE +
          "return lambda new_tokens, kv_tokens, pairs: max(0.0, float(features(new_tokens, kv_tokens, 0) @ weights))", "as-near-as-it-can"),
    wrong("6", "in before out", PAIRS + KINDS.replace("(out, kv, host), (back, host, kv)", "(back, host, kv), (out, kv, host)") + EVERY + ONE, "in-this-order",
          both(en="swapping in before swapping out", zh="先换入、后换出")),
    wrong("6", "copies first", PAIRS + KINDS.replace("((out", "((plan.copy, kv, kv), (out").replace(", (plan.copy, kv, kv)):", "):") + EVERY + ONE, "in-this-order"),
    wrong("6", "layer 0 alone", PAIRS + KINDS + EVERY + ONE.replace("[:, b]", "[0, b]").replace("[:, a]", "[0, a]"), "every-layer", both(en="copying the first layer alone", zh="只搬了第一层")),
    wrong("6", "keys alone", PAIRS + KINDS + EVERY.replace(", (source.values, target.values)", ",") + ONE, "keys-and-values", both(en="copying keys alone", zh="只搬了 key")),
    wrong("6", "slots, not blocks", PAIRS + KINDS + EVERY + "            new[:, b] = old[:, a]", "nothing-else-moves", both(en="copying slots in place of blocks", zh="把块号当成了槽位")),
    wrong("6", "the other way round", PAIRS + KINDS + EVERY + ONE.replace("[:, b]", "[:, A]").replace("[:, a]", "[:, b]").replace("[:, A]", "[:, a]"), "in-this-order"),
    wrong("6", "the first pair of each", PAIRS + KINDS + EVERY.replace("in pairs:", "in pairs[:1]:") + ONE, "in-this-order"),
    wrong("6", "copies forgotten", PAIRS + KINDS.replace(", (plan.copy, kv, kv)", "") + EVERY + ONE, "in-this-order"),
    wrong("6", "the first slot of a block", PAIRS + KINDS + EVERY + "            new[:, b * kv.block_size] = old[:, a * kv.block_size]", "in-this-order"),
    wrong("6", "swapped, both ways", PAIRS + KINDS + EVERY + "            x, y = new.unflatten(1, (-1, kv.block_size)), old.unflatten(1, (-1, kv.block_size))\n"
          "            keep = x[:, b].clone()\n            x[:, b] = y[:, a]\n            y[:, a] = keep", "nothing-else-moves"),
    wrong("7", "the prompt for everybody", "going, plan = list(range(n)), Plan()\nfor i in going:\n    manager.allocate(i, len(prompt))\n    plan.scheduled[i], plan.start[i] = len(prompt), 0\n"
          "going = draw(going, compute(plan))\nwhile going:\n    plan = Plan()\n    for i in going:\n" + NEXT + AGAIN, "prompt-once", both(en="computing the prompt n times", zh="提示词算了 n 遍")),
    wrong("7", "one after the other", FIRST + FORK + "for i in draw(list(range(n)), logits.expand(n, -1)):\n    mine = [i]\n    while mine:\n        plan = Plan({i: 1}, {i: len(sequences[i]) - 1})\n"
          "        manager.allocate(i, len(sequences[i]))\n        if moved := manager.write(i, plan.start[i]):\n            plan.copy.append(moved)\n        mine = draw(mine, compute(plan))", "all-in-one-batch",
          both(en="one sample after the other", zh="一个样本接一个样本地算")),
    wrong("7", "never unshared", FIRST + FORK + DRAWN + NEXT + AGAIN, "as-if-alone", both(en="writing into shared blocks", zh="直接写进了共用的块")),
    wrong("7", "unshared, not copied", FIRST + FORK + DRAWN + NEXT + "        manager.write(i, plan.start[i])\n" + AGAIN, "copies-what-was-shared", both(en="a new block without the old one's content", zh="换了新块，却没有复制内容")),
    wrong("7", "only the last copy", FIRST + FORK + DRAWN + NEXT + WRITE.replace("plan.copy.append(moved)", "plan.copy = [moved]") + AGAIN, "copies-what-was-shared"),
    wrong("7", "copied backwards", FIRST + FORK + DRAWN + NEXT + WRITE.replace("append(moved)", "append(moved[::-1])") + AGAIN, "copies-what-was-shared"),
    wrong("7", "no room for the new token", FIRST + FORK + DRAWN + NEXT.replace("        manager.allocate(i, len(sequences[i]))\n", "") + WRITE + AGAIN, "no-exception"),
    wrong("7", "written one place too early", FIRST + FORK + DRAWN + NEXT + WRITE.replace("plan.start[i])", "plan.start[i] - 1)") + AGAIN, "no-exception"),
    wrong("7", "the last position again", FIRST + FORK + DRAWN + NEXT.replace("len(sequences[i]) - 1\n", "len(sequences[i]) - 2\n") + WRITE + AGAIN, "as-if-alone"),
    wrong("7", "all alike", FIRST + FORK + "going = draw(list(range(n)), logits.expand(n, -1))\nfor i in going:\n    sequences[i] = list(sequences[0])\nwhile going:\n    plan = Plan()\n    for i in going:\n" + NEXT + WRITE + AGAIN,
          "as-if-alone"),
    wrong("7", "one too few", FIRST + FORK.replace("range(1, n)", "range(1, n - 1)") + DRAWN.replace("range(n)", "range(max(n - 1, 1))").replace("expand(n,", "expand(max(n - 1, 1),") + NEXT + WRITE + AGAIN, "as-if-alone"),
]  # fmt: skip

CORRECT = [
    Variant("in other words", {
        "ch10.1": "for request_id in plan.block_tables:\n    self.tables[request_id] = list(plan.block_tables[request_id])\nif not plan.scheduled:\n    return {}, self.seconds(plan, began)\n"
        "batch = pack(plan, self.sequences, self.tables, self.block_size, self.device)\nlogits = forward_batch(self.decoder, self.kv, batch)\n"
        "for row, request_id in enumerate(batch.request_ids):\n    if plan.start[request_id] + plan.scheduled[request_id] >= len(self.sequences[request_id]):\n"
        "        (token,) = self.choose([request_id], logits[row : row + 1])\n        tokens[request_id] = [token]\n        self.sequences[request_id] += [token]",
        "ch10.2": "self.scheduler.add_request(request, self.clock.now)\nkey = request.request_id\nself.arrived += [request]\nself.active |= {key}\n"
        "self.outputs.update({key: Output(prompt=request.prompt, stop=job.sampling.stop)})\nself.executor.begin(job)",
        "ch10.3": "made, took = executor.execute(plan)\nclock.tick(took)\nended = dict(scheduler.update(plan, made, clock.now))\n"
        "for key in made:\n    self.outputs[key].token_ids.extend(made[key])\n    text = self.decoded(self.outputs[key])\n    while text.endswith('\\ufffd'):\n        text = text[:-1]\n"
        "    safe, cut = visible(text, self.outputs[key].stop)\n    if cut:\n        ended[key] = 'stop'\n        scheduler.abort(key, clock.now)\n"
        "    self.outputs[key].show(text if key in ended and not cut else safe)\nstep.tokens, step.finished = made, ended\n"
        "for key in ended:\n    self.end(key, ended[key])\nfor key in plan.dropped:\n    self.end(key, plan.dropped[key])",
        "ch10.4": "while not output.reason or sent < len(output.text):\n    if sent == len(output.text):\n        self.step()\n    else:\n        yield output.text[sent]\n        sent += 1",
        "ch10.5": "data = np.array(samples, float)\nA, y = features(*data[:, :3].T), data[:, 3]\nexpected = y\nfor _ in range(3):\n"
        "    w = np.linalg.lstsq(A / expected[:, None], y / expected, rcond=1e-9)[0]\n    expected = np.maximum(A @ w, y / 10)\n"
        "def cost(new_tokens, kv_tokens, pairs):\n    return max(0.0, float(features(new_tokens, kv_tokens, pairs).dot(w)))\nreturn cost",
        "ch10.6": "size = kv.block_size\n\ndef place(block):\n    return slice(block * size, block * size + size)\n\n"
        "for some in plan.swap_out.values():\n    for a, b in some:\n        host.keys[:, place(b)] = kv.keys[:, place(a)].cpu()\n        host.values[:, place(b)] = kv.values[:, place(a)].cpu()\n"
        "for some in plan.swap_in.values():\n    for a, b in some:\n        kv.keys[:, place(b)] = host.keys[:, place(a)].to(kv.keys.device)\n        kv.values[:, place(b)] = host.values[:, place(a)].to(kv.keys.device)\n"
        "for a, b in plan.copy:\n    for pool in (kv.keys, kv.values):\n        pool[:, place(b)] = pool[:, place(a)].clone()",
        "ch10.7": "if not manager.allocate(0, len(prompt)):\n    raise ValueError('no room')\nfirst = compute(Plan(scheduled={0: len(prompt)}, start={0: 0}))\n"
        "list(map(lambda i: manager.fork(0, i), range(1, n)))\nleft = draw([*range(n)], torch.cat([first] * n))\n"
        "while left:\n    at = {i: len(sequences[i]) - 1 for i in left}\n    copies = []\n    for i in left:\n        manager.allocate(i, at[i] + 1)\n        copies.append(manager.write(i, at[i]))\n"
        "    left = draw(left, compute(Plan(scheduled=dict.fromkeys(left, 1), start=at, copy=[c for c in copies if c])))",
    }),
    Variant("by other means", {
        "ch10.1": "self.tables |= plan.block_tables\nif plan.scheduled:\n    batch = pack(plan, self.sequences, self.tables, self.block_size, self.device)\n"
        "    hidden = self.decoder.forward(batch.tokens, batch.positions, self.kv.use(batch))\n"
        "    done = {i: row for row, i in zip(batch.last.tolist(), batch.request_ids) if plan.start[i] + plan.scheduled[i] == len(self.sequences[i])}\n"
        "    if done:\n        chosen = self.choose(list(done), self.decoder.logits(hidden[list(done.values())]))\n        for i, token in zip(done, chosen):\n"
        "            tokens[i] = [token]\n            self.sequences[i].append(token)",
        "ch10.4": "def fresh():\n    nonlocal sent\n    text, sent = output.text[sent:], len(output.text)\n    return text\nwhile True:\n    if text := fresh():\n        yield text\n        continue\n    if output.reason is not None:\n        break\n    self.step()",
        "ch10.5": "data = np.array(samples, float)\nA = np.stack([np.ones(len(data)), *(np.maximum(0, data[:, 0] - h) for h in (0, 4, 10, 20, 40, 60, 90, 128)), data[:, 1], data[:, 2]], 1)\n"
        "expected, y = data[:, 3], data[:, 3]\nfor _ in range(3):\n    B = A / expected[:, None]\n    scale = np.abs(B).max(0) + 1e-30\n    ridge = 1e-6 * np.eye(A.shape[1])\n"
        "    w = np.linalg.solve((B / scale).T @ (B / scale) + ridge, (B / scale).T @ (y / expected)) / scale\n    expected = np.maximum(A @ w, y / 10)\n"
        "return lambda n, k, p: max(0.0, float(np.dot([1, *(max(0, n - h) for h in (0, 4, 10, 20, 40, 60, 90, 128)), k, p], w)))",
    }),
    Variant("robustly", {
        "ch10.5": "data = np.array(samples, float)\nA, y = features(*data[:, :3].T), data[:, 3]\nexpected, kept = y, np.ones(len(A), bool)\n"
        "for _ in range(4):\n    w = np.linalg.lstsq((A / expected[:, None])[kept], (y / expected)[kept], rcond=None)[0]\n    expected = np.maximum(A @ w, y / 10)\n"
        "    near = np.abs(y / expected - 1) < 0.6\n    kept = near if near.any() else kept\n"
        "return lambda *c: max(0.0, float(features(*c) @ w))",
        "ch10.6": "def move(pairs, a, b):\n    for old, new in pairs:\n        for x, y in ((a.keys, b.keys), (a.values, b.values)):\n"
        "            s = kv.block_size\n            for n in range(s):\n                y[:, new * s + n] = x[:, old * s + n].to(y.device)\n"
        "for owner in plan.swap_out:\n    move(plan.swap_out[owner], kv, host)\nfor owner in plan.swap_in:\n    move(plan.swap_in[owner], host, kv)\nmove(plan.copy, kv, kv)",
    }),
    Variant("a scheduler that does not mind", {
        "ch10.3": "step.tokens, seconds = executor.execute(plan)\nclock.tick(seconds)\nstep.finished = scheduler.update(plan, step.tokens, clock.now)\n"
        "for key, new in step.tokens.items():\n    output = self.outputs[key]\n    output.token_ids.extend(new)\n    whole = self.decoded(output).rstrip('\\ufffd')\n    found = [whole.find(s) for s in output.stop if s in whole]\n"
        "    if found:\n        whole = whole[: min(found)]\n        step.finished[key] = 'stop'\n        scheduler.abort(key, clock.now)\n    elif key not in step.finished:\n        whole = visible(whole, output.stop)[0]\n    output.show(whole)\n"
        "gone = {**plan.dropped, **step.finished}\nfor key in gone:\n    self.end(key, gone[key])",
    }),
]  # fmt: skip

ROUNDS = "a round more or less refines what is good enough"
EQUIVALENT = {
    "ch10.5:4 4 became 5": ROUNDS,
    "ch10.5:4 4 became 3": ROUNDS,
    "ch10.5:11 1 became 2": ROUNDS,
    "ch10.5:8 Lt became LtE": "a feature of no weight may go",
    "ch10.5:11 arguments 1 and 2 swapped": "the larger of two is one",
    "ch10.5:11 10 became 11": "a bound that nothing reaches",
    "ch10.5:11 10 became 9": "a bound that nothing reaches",
    "ch10.6:5 fields 1 and 2 swapped": "keys first or values first is one",
}
