"""Chapter 10 by a second author, who had read the learner's notebook, its contract and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def but(right: str, *changes: tuple[str, str]) -> str:
    """A right answer with one thing in it done otherwise."""
    for old, new in changes:
        assert old in right, f"{old!r} is not in the answer"
        right = right.replace(old, new)
    return right


EXECUTE = """
for request_id, table in plan.block_tables.items():
    self.tables[request_id] = list(table)
if plan.scheduled:
    batch = pack(plan, self.sequences, self.tables, self.block_size, self.device)
    logits = forward_batch(self.decoder, self.kv, batch)
    rows = [n for n, i in enumerate(batch.request_ids) if batch.seq_lens[n] == len(self.sequences[i])]
    ids = [batch.request_ids[n] for n in rows]
    if ids:
        for request_id, token in zip(ids, self.choose(ids, logits[rows]), strict=True):
            self.sequences[request_id].append(token)
            tokens[request_id] = [token]
"""
NOTED = """for request_id, table in plan.block_tables.items():
    self.tables[request_id] = list(table)
"""
READY = "batch.seq_lens[n] == len(self.sequences[i])"
CHOSEN = "self.choose(ids, logits[rows])"
EXECUTES = [
    ("only this plan's tables", but(EXECUTE, (NOTED, "self.tables = dict(plan.block_tables)\n"))),
    (
        "the first table for ever",
        but(EXECUTE, ("self.tables[request_id] = list(table)", "self.tables.setdefault(request_id, table)")),
    ),
    (
        "a table told again is put behind the old one",
        but(
            EXECUTE,
            ("self.tables[request_id] = list(table)", "self.tables.setdefault(request_id, []).extend(table)"),
        ),
    ),
    (
        "tables of newcomers only",
        but(
            EXECUTE,
            (
                "plan.block_tables.items():\n",
                "plan.block_tables.items():\n    if request_id in plan.new:\n    ",
            ),
        ),
    ),
    (
        "tables of newcomers and of who comes back",
        but(
            EXECUTE,
            (
                "plan.block_tables.items():\n",
                "plan.block_tables.items():\n    if request_id in plan.new + plan.resumed:\n    ",
            ),
        ),
    ),
    ("tables noted after the pass", but(EXECUTE, (NOTED, "")) + NOTED),
    (
        "who is preempted loses the table that still holds",
        "for request_id in plan.preempted:\n    self.tables.pop(request_id, None)\n" + EXECUTE,
    ),
    (
        "who is preempted forgets what it said",
        "for i in plan.preempted:\n    del self.sequences[i][self.jobs[i].request.prompt_len :]\n" + EXECUTE,
    ),
    (
        "who is preempted draws from the beginning",
        "for i in plan.preempted:\n    if i in self.generators:\n"
        "        self.generators[i] = Seeds(self.jobs[i].sampling.seed).generator(i)\n" + EXECUTE,
    ),
    (
        "no pass too many: an empty plan is packed",
        but(EXECUTE, ("if plan.scheduled:", "if plan is not None:")),
    ),
    ("a token for everybody", but(EXECUTE, (" if " + READY, ""))),
    (
        "a token as soon as the prompt is done",
        but(EXECUTE, (READY, "batch.seq_lens[n] >= self.jobs[i].request.prompt_len")),
    ),
    (
        "a token at the prompt's end only",
        but(EXECUTE, (READY, "batch.seq_lens[n] == self.jobs[i].request.prompt_len")),
    ),
    ("who computes one token gets one", but(EXECUTE, (READY, "plan.scheduled[i] == 1 or " + READY))),
    ("one row, one token", but(EXECUTE, (READY, "plan.scheduled[i] == 1"))),
    ("newcomers get none", but(EXECUTE, (READY, READY + " and i not in plan.new"))),
    ("who comes back gets none", but(EXECUTE, (READY, READY + " and i not in plan.resumed"))),
    ("one short of the last token", but(EXECUTE, (READY, "batch.seq_lens[n] + 1 == len(self.sequences[i])"))),
    ("the first rows instead of theirs", but(EXECUTE, (CHOSEN, "self.choose(ids, logits[: len(ids)])"))),
    ("the last rows instead of theirs", but(EXECUTE, (CHOSEN, "self.choose(ids, logits[-len(ids) :])"))),
    ("ids sorted, rows not", but(EXECUTE, (CHOSEN, "self.choose(sorted(ids), logits[rows])"))),
    ("always the likeliest", but(EXECUTE, (CHOSEN, "logits[rows].argmax(-1).tolist()"))),
    (
        "drawn for all, kept for some",
        but(
            EXECUTE,
            (CHOSEN, "[t for n, t in enumerate(self.choose(batch.request_ids, logits)) if n in rows]"),
        ),
    ),
    (
        "drawn at random, whatever the seed",
        but(
            EXECUTE,
            (CHOSEN, "torch.multinomial(torch.softmax(logits[rows].float(), -1), 1)[:, 0].tolist()"),
        ),
    ),
    ("not appended", but(EXECUTE, ("            self.sequences[request_id].append(token)\n", ""))),
    ("appended as a list", but(EXECUTE, ("].append(token)", "].append([token])"))),
    ("the sequence is only the new token", but(EXECUTE, ("].append(token)", "] = [token]"))),
    ("appended twice", but(EXECUTE, ("].append(token)", "].extend([token, token])"))),
    ("put at the front", but(EXECUTE, ("].append(token)", "].insert(0, token)"))),
    ("bare numbers", but(EXECUTE, ("= [token]", "= token"))),
    (
        "the whole answer each time",
        but(
            EXECUTE, ("= [token]", "= self.sequences[request_id][self.jobs[request_id].request.prompt_len :]")
        ),
    ),
    (
        "by place in the batch, not by id",
        but(EXECUTE, ("tokens[request_id] =", "tokens[ids.index(request_id)] =")),
    ),
    ("the pool in host memory", but(EXECUTE, ("self.kv, batch", "self.host, batch"))),
    ("only the first one ready", but(EXECUTE, ("= [token]\n", "= [token]\n            break\n"))),
    (
        "an entry for everybody",
        but(EXECUTE, ("    if ids:\n", "    tokens = {i: [] for i in plan.scheduled}\n    if ids:\n")),
    ),
]

SUBMIT = """
self.scheduler.add_request(request, self.clock.now)
self.executor.begin(job)
self.outputs[request.request_id] = Output(request.prompt, job.sampling.stop)
self.active.add(request.request_id)
self.arrived.append(request)
"""
ASKED, BEGUN, PUT, JOINED, LISTED = (line + "\n" for line in SUBMIT.split("\n")[1:-1])
SUBMITS = [
    ("the executor first", BEGUN + ASKED + PUT + JOINED + LISTED),
    ("the output first", PUT + ASKED + BEGUN + JOINED + LISTED),
    ("active first", JOINED + ASKED + BEGUN + PUT + LISTED),
    ("on the list of arrivals first", LISTED + ASKED + BEGUN + PUT + JOINED),
    ("the scheduler last", BEGUN + PUT + JOINED + LISTED + ASKED),
    (
        "begun, and ended again when refused",
        BEGUN
        + f"try:\n    {ASKED}except ValueError:\n    self.executor.end(request.request_id)\n    raise\n"
        + PUT
        + JOINED
        + LISTED,
    ),
    (
        "refused in silence",
        f"try:\n    {ASKED}except ValueError:\n    return\n" + BEGUN + PUT + JOINED + LISTED,
    ),
    (
        "refused, and taken in all the same",
        f"try:\n    {ASKED}except ValueError:\n    pass\n" + BEGUN + PUT + JOINED + LISTED,
    ),
    (
        "refused by another error",
        f"try:\n    {ASKED}except ValueError as refusal:\n    raise RuntimeError('refused') from refusal\n"
        + BEGUN
        + PUT
        + JOINED
        + LISTED,
    ),
    (
        "a refusal has an output",
        f"try:\n    {ASKED}except ValueError as refusal:\n"
        "    self.outputs[request.request_id] = Output(request.prompt, reason=str(refusal))\n    raise\n"
        + BEGUN
        + PUT
        + JOINED
        + LISTED,
    ),
    ("the time that the request says", but(SUBMIT, ("self.clock.now", "request.arrival_time"))),
    ("time zero", but(SUBMIT, ("self.clock.now", "0.0"))),
    ("the reading, which may be a step", but(SUBMIT, ("self.clock.now", "self.clock.reads()"))),
    ("the scheduler gets the job", but(SUBMIT, ("add_request(request,", "add_request(job,"))),
    ("the scheduler is asked twice", ASKED + SUBMIT),
    ("the executor gets the request", but(SUBMIT, ("begin(job)", "begin(request)"))),
    ("the executor is told twice", SUBMIT + BEGUN),
    ("the executor is not told", but(SUBMIT, (BEGUN, ""))),
    ("no stop strings", but(SUBMIT, (", job.sampling.stop", ""))),
    ("stop tokens for stop strings", but(SUBMIT, ("job.sampling.stop", "request.stop_token_ids"))),
    (
        "the prompt's length for the prompt",
        but(SUBMIT, ("Output(request.prompt,", "Output(request.prompt_len,")),
    ),
    ("the request for an output", but(SUBMIT, ("Output(request.prompt, job.sampling.stop)", "request"))),
    ("not active", but(SUBMIT, (JOINED, ""))),
    ("active alone", but(SUBMIT, (JOINED, "self.active = {request.request_id}\n"))),
    (
        "the request is active, not its id",
        but(SUBMIT, ("active.add(request.request_id)", "active.add(request)")),
    ),
    (
        "active letter by letter",
        but(SUBMIT, ("active.add(request.request_id)", "active.update(str(request.request_id))")),
    ),
    ("nobody arrived", but(SUBMIT, (LISTED, ""))),
    ("arrived alone", but(SUBMIT, (LISTED, "self.arrived = [request]\n"))),
    ("the latest first", but(SUBMIT, (LISTED, "self.arrived.insert(0, request)\n"))),
    ("ids arrive", but(SUBMIT, ("arrived.append(request)", "arrived.append(request.request_id)"))),
    ("jobs arrive", but(SUBMIT, ("arrived.append(request)", "arrived.append(job)"))),
    ("a step at once", SUBMIT + "self.step()\n"),
]

STEP = r"""
tokens, seconds = executor.execute(plan)
step.tokens = tokens
clock.tick(seconds)
step.finished = dict(scheduler.update(plan, tokens, clock.now))
for request_id, new in tokens.items():
    output = self.outputs[request_id]
    output.token_ids.extend(new)
    text = self.decoded(output).rstrip("\ufffd")
    safe, stopped = visible(text, output.stop)
    if stopped:
        scheduler.abort(request_id, clock.now)
        step.finished[request_id] = "stop"
    elif request_id in step.finished:
        safe = text
    output.show(safe)
for request_id, reason in (*plan.dropped.items(), *step.finished.items()):
    self.end(request_id, reason)
"""
TICKED = "clock.tick(seconds)\n"
STRIPPED = r'self.decoded(output).rstrip("\ufffd")'
VISIBLE = "visible(text, output.stop)"
OVER = "    elif request_id in step.finished:\n        safe = text\n"
SHOWN = "    output.show(safe)\n"
STOPPED = '        step.finished[request_id] = "stop"\n'
TOLD = "        scheduler.abort(request_id, clock.now)\n"
EXTENDED = "    output.token_ids.extend(new)\n"
ENDED = "(*plan.dropped.items(), *step.finished.items())"
STEPS = [
    ("no tick", but(STEP, (TICKED, ""))),
    ("two ticks", but(STEP, (TICKED, TICKED * 2))),
    ("a tick of one second", but(STEP, (TICKED, "clock.tick(1.0)\n"))),
    (
        "a tick before the pass",
        but(STEP, (TICKED, ""), ("\ntokens, seconds", "\nclock.tick(0.0)\ntokens, seconds")),
    ),
    (
        "a tick after the update",
        but(STEP, (TICKED, ""), ("clock.now))\nfor", "clock.now))\nclock.tick(seconds)\nfor")),
    ),
    ("the update at the step's beginning", but(STEP, ("tokens, clock.now))", "tokens, step.start))"))),
    ("computed twice", but(STEP, ("step.tokens = tokens", "step.tokens = executor.execute(plan)[0]"))),
    ("tokens not kept", but(STEP, ("step.tokens = tokens\n", ""))),
    (
        "the whole answers in step.tokens",
        STEP + "step.tokens = {i: self.outputs[i].token_ids for i in tokens}\n",
    ),
    (
        "who ended is not kept",
        but(STEP, ("step.finished", "finished")),
    ),
    (
        "not updated where there are no tokens",
        but(
            STEP,
            (
                "dict(scheduler.update(plan, tokens, clock.now))",
                "dict(scheduler.update(plan, tokens, clock.now)) if tokens else {}",
            ),
        ),
    ),
    (
        "no pass for an empty plan",
        "if not plan.scheduled:\n    clock.tick(0.0)\nelse:\n"
        + "".join(f"    {line}\n" for line in STEP.strip().split("\n")),
    ),
    ("the newest tokens only", but(STEP, ("token_ids.extend(new)", "token_ids[:] = new"))),
    ("a list in the list", but(STEP, ("token_ids.extend(new)", "token_ids.append(new)"))),
    ("the first of the new ones", but(STEP, ("token_ids.extend(new)", "token_ids.append(new[0])"))),
    (
        "the last token does not count",
        but(STEP, (EXTENDED, "    if request_id in step.finished:\n        continue\n" + EXTENDED)),
    ),
    (
        "a stop token is not part of the answer",
        but(STEP, (EXTENDED, "    if step.finished.get(request_id) != 'stop':\n    " + EXTENDED)),
    ),
    ("text without its newest token", but(STEP, (EXTENDED, ""), (SHOWN, SHOWN + EXTENDED))),
    ("half characters shown", but(STEP, (STRIPPED, "self.decoded(output)"))),
    (
        "half a half character taken off",
        but(STEP, (STRIPPED, r'self.decoded(output).removesuffix("\ufffd")')),
    ),
    (
        "broken characters taken out everywhere",
        but(STEP, (STRIPPED, r'self.decoded(output).replace("\ufffd", "")')),
    ),
    ("blanks taken off, too", but(STEP, (STRIPPED, STRIPPED + ".rstrip()"))),
    ("blanks taken off at the front", but(STEP, (STRIPPED, STRIPPED + ".lstrip()"))),
    (
        "half characters taken off what was found safe",
        but(STEP, (STRIPPED, "self.decoded(output)"), (SHOWN, '    output.show(safe.rstrip("\\ufffd"))\n')),
    ),
    (
        "half a character shown at the very end",
        but(STEP, ("        safe = text\n", "        safe = self.decoded(output)\n")),
    ),
    (
        "no text while a character is half",
        but(
            STEP,
            (
                SHOWN,
                '    if not self.decoded(output).endswith("\\ufffd"):\n    ' + SHOWN,
            ),
        ),
    ),
    (
        "each token decoded alone",
        but(STEP, (STRIPPED, 'output.text + self.tokenizer.decode(new).rstrip("\\ufffd")')),
    ),
    (
        "the prompt is part of the text",
        but(STEP, (STRIPPED, 'self.tokenizer.decode([*output.prompt, *output.token_ids]).rstrip("\\ufffd")')),
    ),
    (
        "decoded without the prompt before it",
        but(STEP, (STRIPPED, 'self.tokenizer.decode(output.token_ids).rstrip("\\ufffd")')),
    ),
    ("nothing held back", but(STEP, (SHOWN, "    output.show(safe if stopped else text)\n"))),
    ("everything shown, stop string and all", but(STEP, (SHOWN, "    output.show(text)\n"))),
    ("held back for ever", but(STEP, (OVER, ""))),
    (
        "the rest only at a stop",
        but(STEP, ("in step.finished:", "in step.finished and step.finished[request_id] == 'stop':")),
    ),
    (
        "the rest only at the length",
        but(STEP, ("in step.finished:", "in step.finished and step.finished[request_id] == 'length':")),
    ),
    ("the first stop string only", but(STEP, (VISIBLE, "visible(text, output.stop[:1])"))),
    ("no stop strings at all", but(STEP, (VISIBLE, "visible(text, ())"))),
    (
        "looked for in the newest token",
        but(STEP, (VISIBLE, "(text, any(s in self.tokenizer.decode(new) for s in output.stop))")),
    ),
    (
        "looked for at the end only",
        but(
            STEP,
            (
                VISIBLE,
                "next(((text.removesuffix(s), True) for s in output.stop if text.endswith(s)), (visible(text, output.stop)[0], False))",
            ),
        ),
    ),
    (
        "no stop string with the last token",
        but(STEP, ("    if stopped:", "    if stopped and request_id not in step.finished:")),
    ),
    (
        "the scheduler's word before the text's",
        but(STEP, (STOPPED, '        step.finished.setdefault(request_id, "stop")\n')),
    ),
    ("the scheduler is not told", but(STEP, (TOLD, ""))),
    (
        "the scheduler is told a step later",
        but(
            STEP,
            (TOLD, ""),
            (
                "\ntokens, seconds",
                "\nfor i, o in self.outputs.items():\n    if o.reason == 'stop':\n        scheduler.abort(i, clock.now)\ntokens, seconds",
            ),
        ),
    ),
    ("aborted like a user's", but(STEP, (TOLD, "        self.abort(request_id)\n"))),
    ("aborted, and so it says", but(STEP, (STOPPED, '        step.finished[request_id] = "aborted"\n'))),
    ("told, but it goes on", but(STEP, (STOPPED, ""))),
    (
        "a step with a stop string reports an abort",
        but(STEP, (STOPPED, STOPPED + "        step.aborted.append(request_id)\n")),
    ),
    (
        "tokens cut at the stop string",
        but(STEP, (STOPPED, STOPPED + "        del output.token_ids[-len(new) :]\n")),
    ),
    ("text set, even to less", but(STEP, (SHOWN, "    output.text = safe\n"))),
    ("text only once it is over", but(STEP, (SHOWN, "    if request_id in step.finished:\n    " + SHOWN))),
    ("text added up", but(STEP, (SHOWN, "    output.text += safe\n"))),
    ("the dropped stay", but(STEP, (ENDED, "step.finished.items()"))),
    (
        "the dropped are aborted",
        but(STEP, (ENDED, "(*dict.fromkeys(plan.dropped, 'aborted').items(), *step.finished.items())")),
    ),
    (
        "the dropped count as finished",
        but(STEP, ("\nfor request_id, new", "\nstep.finished |= plan.dropped\nfor request_id, new")),
    ),
    ("nobody leaves but the dropped", but(STEP, (ENDED, "plan.dropped.items()"))),
    (
        "who leaves is seen too early",
        but(
            STEP,
            (f"for request_id, reason in {ENDED}:\n    self.end(request_id, reason)\n", ""),
            (
                "\nfor request_id, new",
                f"\nfor request_id, reason in {ENDED}:\n    self.end(request_id, reason)\nfor request_id, new",
            ),
        ),
    ),
    (
        "only a reason, no leaving",
        but(STEP, ("    self.end(request_id, reason)", "    self.outputs[request_id].reason = reason")),
    ),
    (
        "the executor keeps it",
        but(
            STEP,
            (
                "    self.end(request_id, reason)",
                "    self.active.discard(request_id)\n    self.outputs[request_id].reason = reason",
            ),
        ),
    ),
    ("always for a stop", but(STEP, ("self.end(request_id, reason)", 'self.end(request_id, "stop")'))),
    (
        "gone from the outputs",
        but(
            STEP,
            (
                "    self.end(request_id, reason)",
                "    self.end(request_id, reason)\n    del self.outputs[request_id]",
            ),
        ),
    ),
    (
        "the first one that ends ends the loop",
        but(STEP, ("    output.show(safe)\n", "    output.show(safe)\n    if stopped:\n        break\n")),
    ),
]

STREAM = """
while True:
    new = output.text[sent:]
    sent += len(new)
    if new:
        yield new
    elif output.reason:
        return
    else:
        self.step()
"""
STREAMS = [
    (
        "counted after giving",
        but(
            STREAM,
            ("    sent += len(new)\n", ""),
            ("yield new\n", "yield new\n        sent = len(output.text)\n"),
        ),
    ),
    (
        "while it goes on",
        "while output.reason is None:\n    if new := output.text[sent:]:\n        sent += len(new)\n        yield new\n    else:\n        self.step()\n",
    ),
    (
        "while it is active, and a step in each turn",
        "while request_id in self.active:\n    self.step()\n    if new := output.text[sent:]:\n        sent += len(new)\n        yield new\n",
    ),
    ("the text of the beginning", "text = output.text\n" + but(STREAM, ("output.text", "text"))),
    (
        "empty pieces",
        but(
            STREAM,
            ("    if new:\n", "    if new or output.reason is None:\n"),
            ("        return\n    else:\n        self.step()\n", "        return\n    self.step()\n"),
        ),
    ),
    ("a step first, always", "self.step()\n" + STREAM),
    (
        "a step after each piece",
        but(STREAM, ("        yield new\n", "        yield new\n        self.step()\n")),
    ),
    (
        "a step before each piece",
        but(STREAM, ("        yield new\n", "        self.step()\n        yield new\n")),
    ),
    ("one turn", but(STREAM, ("while True:", "for _ in range(1):"))),
    ("one step, one piece", "self.step()\nyield output.text\n"),
    ("everything again each time", but(STREAM, ("        yield new\n", "        yield output.text\n"))),
    ("nothing is counted", but(STREAM, ("    sent += len(new)\n", ""))),
    ("counted from the last piece", but(STREAM, ("sent += len(new)", "sent = len(new)"))),
    ("only what comes from now on", "sent = len(output.text)\n" + STREAM),
    (
        "all at the end",
        "while output.reason is None:\n    self.step()\nif output.text:\n    yield output.text\n",
    ),
    (
        "over, so the rest is dropped",
        "while True:\n    if output.reason:\n        return\n    if new := output.text[sent:]:\n        sent += len(new)\n        yield new\n    else:\n        self.step()\n",
    ),
    (
        "over when nobody is there",
        but(
            STREAM,
            (
                "    elif output.reason:\n        return\n    else:\n        self.step()\n",
                "    elif self.step() is None:\n        return\n",
            ),
        ),
    ),
    ("over when all are over", but(STREAM, ("output.reason:", "not self.active:"))),
    ("over by a stop only", but(STREAM, ("output.reason:", "output.reason == 'stop':"))),
    (
        "over by a stop or the length only",
        but(STREAM, ("output.reason:", "output.reason in ('stop', 'length'):")),
    ),
    (
        "over where nothing is new",
        but(
            STREAM,
            (
                "    elif output.reason:\n        return\n    else:\n        self.step()\n",
                "    else:\n        self.step()\n        if not output.text[sent:]:\n            return\n",
            ),
        ),
    ),
    ("a step more at the end", but(STREAM, ("        return\n", "        self.step()\n        return\n"))),
    (
        "two steps at a time",
        but(STREAM, ("        self.step()\n", "        self.step()\n        self.step()\n")),
    ),
    ("stopped by StopIteration", but(STREAM, ("        return\n", "        raise StopIteration\n"))),
    (
        "a list, made at the call",
        "pieces = []\n"
        + but(STREAM, ("yield new", "pieces.append(new)"), ("return\n", "return iter(pieces)\n")),
    ),
    (
        "tokens, not characters",
        but(
            STREAM,
            ("output.text[sent:]", "self.tokenizer.decode(output.token_ids[sent:])"),
            ("sent += len(new)", "sent = len(output.token_ids)"),
        ),
    ),
    (
        "the last character is kept",
        but(STREAM, ("output.text[sent:]", "output.text[sent : len(output.text) - 1]")),
    ),
    (
        "the end aborts it",
        but(
            STREAM,
            ("        return\n", "        self.abort(request_id)\n        raise RuntimeError('over')\n"),
        ),
    ),
    ("blanks are not text", but(STREAM, ("    if new:", "    if new.strip():"))),
]

FIT = """
table = np.array(samples, float)
rows, seconds = features(table[:, 0], table[:, 1], table[:, 2]), table[:, 3]
size = np.maximum(rows.max(axis=0), 1)


def solved(expected):
    used = list(range(rows.shape[1]))
    while True:
        scaled = (rows / size)[:, used] / expected[:, None]
        found = np.linalg.lstsq(scaled, seconds / expected, rcond=None)[0]
        if found.min() >= 0:
            break
        del used[int(found.argmin())]
    weights = np.zeros(rows.shape[1])
    weights[used] = found / size[used]
    return weights


weights = solved(seconds)
for _ in range(4):
    weights = solved(rows @ weights)
return lambda new, kv, pairs: float(features(new, kv, pairs) @ weights)
"""
LOOKED = "        if found.min() >= 0:\n            break\n        del used[int(found.argmin())]\n"
FITS = [
    ("divided by what was measured only", but(FIT, ("range(4)", "range(0)"))),
    ("always the mean", "mean = float(np.mean([s for *_, s in samples]))\nreturn lambda *step: mean\n"),
    (
        "always the median",
        "middle = float(np.median([s for *_, s in samples]))\nreturn lambda *step: middle\n",
    ),
    (
        "seconds a token",
        "table = np.array(samples, float)\neach = table[:, 3].sum() / table[:, 0].sum()\nreturn lambda new, kv, pairs: each * new\n",
    ),
    (
        "no pairs",
        but(
            FIT, ("weights = np.zeros", "found[-1] *= used[-1] != rows.shape[1] - 1\n    weights = np.zeros")
        ),
    ),
    ("the pairs are not looked at", but(FIT, ("features(new, kv, pairs)", "features(new, kv, 0)"))),
    ("the cache is not looked at", but(FIT, ("features(new, kv, pairs)", "features(new, 0, pairs)"))),
    ("cache and pairs mixed up", but(FIT, ("features(new, kv, pairs)", "features(new, pairs, kv)"))),
    (
        "one straight line of new tokens",
        "table = np.array(samples, float)\nrows = np.c_[np.ones(len(table)), table[:, :3]]\n"
        "found = np.linalg.lstsq(rows / table[:, 3:], np.ones(len(table)), rcond=None)[0].clip(0)\n"
        "return lambda *step: float(np.array([1, *step]) @ found)\n",
    ),
    (
        "the nearest sample",
        "table = np.array(samples, float)\n"
        "return lambda *step: float(table[np.abs(table[:, :3] - np.array(step)).sum(1).argmin(), 3])\n",
    ),
    (
        "the nearest number of new tokens",
        "table = np.array(samples, float)\nreturn lambda new, kv, pairs: float(table[np.abs(table[:, 0] - new).argmin(), 3])\n",
    ),
    (
        "a table of what was seen",
        "seen = {tuple(step): s for *step, s in samples}\nmean = float(np.mean(list(seen.values())))\n"
        "return lambda *step: seen.get(tuple(step), mean)\n",
    ),
    (
        "inverted by hand",
        "table = np.array(samples, float)\nrows = features(*table[:, :3].T) / table[:, 3:]\n"
        "found = np.linalg.inv(rows.T @ rows) @ rows.T @ np.ones(len(table))\n"
        "return lambda *step: float(features(*step) @ found)\n",
    ),
    ("rows divided, seconds not", but(FIT, ("seconds / expected, rcond", "seconds, rcond"))),
    ("seconds divided, rows not", but(FIT, ("[:, used] / expected[:, None]", "[:, used]"))),
    (
        "rows multiplied",
        but(
            FIT,
            ("[:, used] / expected[:, None]", "[:, used] * expected[:, None]"),
            ("seconds / expected, rcond", "seconds * expected, rcond"),
        ),
    ),
    ("the highest weight goes", but(FIT, ("found.argmin()", "found.argmax()"))),
    ("the last weight goes", but(FIT, ("del used[int(found.argmin())]", "used.pop()"))),
    ("their sizes, signs off", but(FIT, (LOOKED, "        found = np.abs(found)\n        break\n"))),
    (
        "negative weights stay",
        but(FIT, (LOOKED, "        break\n"), ("rows @ weights)\n", "np.abs(rows @ weights))\n")),
    ),
    (
        "negative weights set to zero",
        but(
            FIT,
            (LOOKED, "        found = found.clip(0)\n        break\n"),
            ("rows @ weights)\n", "np.maximum(rows @ weights, 1e-9))\n"),
        ),
    ),
    (
        "weights moved to other features",
        but(FIT, ("weights[used] = found / size[used]", "weights[: len(used)] = found / size[: len(used)]")),
    ),
    ("the scale forgotten", but(FIT, ("found / size[used]", "found"))),
    (
        "milliseconds",
        but(FIT, ("return lambda new, kv, pairs: float(", "return lambda new, kv, pairs: 1e3 * float(")),
    ),
    (
        "a row instead of a number",
        but(FIT, ("float(features(new, kv, pairs) @ weights)", "features(new, kv, pairs) * weights")),
    ),
    (
        "the weights themselves",
        but(
            FIT, ("return lambda new, kv, pairs: float(features(new, kv, pairs) @ weights)", "return weights")
        ),
    ),
    (
        "whole milliseconds",
        but(
            FIT,
            (
                "float(features(new, kv, pairs) @ weights)",
                "round(float(features(new, kv, pairs) @ weights), 3)",
            ),
        ),
    ),
    (
        "the first hundred samples",
        but(FIT, ("np.array(samples, float)", "np.array(samples[:100], float)[:20]")),
    ),
    (
        "a sum of logarithms",
        "table = np.array(samples, float)\nrows = np.c_[np.ones(len(table)), np.log(table[:, :3])]\n"
        "found = np.linalg.lstsq(rows, np.log(table[:, 3]), rcond=None)[0]\n"
        "return lambda *step: float(np.exp(np.array([1, *np.log(step)]) @ found))\n",
    ),
]

MOVE = """
for pairs, source, target in (
    ([pair for some in plan.swap_out.values() for pair in some], kv, host),
    ([pair for some in plan.swap_in.values() for pair in some], host, kv),
    (plan.copy, kv, kv),
):
    for old, new in ((source.keys, target.keys), (source.values, target.values)):
        for start, to in pairs:
            size = kv.block_size
            new[:, to * size : (to + 1) * size] = old[:, start * size : (start + 1) * size].to(new.device)
"""
OUT = "    ([pair for some in plan.swap_out.values() for pair in some], kv, host),\n"
BACK = "    ([pair for some in plan.swap_in.values() for pair in some], host, kv),\n"
WITHIN = "    (plan.copy, kv, kv),\n"
MOVES = [
    ("in before out", but(MOVE, (OUT + BACK, BACK + OUT))),
    ("the copies first", but(MOVE, (WITHIN, ""), (OUT, WITHIN + OUT))),
    ("the copies before what comes in", but(MOVE, (BACK + WITHIN, WITHIN + BACK))),
    ("nothing goes out", but(MOVE, (OUT, ""))),
    ("nothing comes in", but(MOVE, (BACK, ""))),
    ("nothing is copied", but(MOVE, (WITHIN, ""))),
    ("out where in should be", but(MOVE, (BACK, BACK.replace("host, kv", "kv, host")))),
    ("in where out should be", but(MOVE, (OUT, OUT.replace("kv, host", "host, kv")))),
    ("copied into the host's pool", but(MOVE, (WITHIN, WITHIN.replace("kv, kv", "kv, host")))),
    ("copied from the host's pool", but(MOVE, (WITHIN, WITHIN.replace("kv, kv", "host, kv")))),
    ("pairs the other way round", but(MOVE, ("for start, to in pairs", "for to, start in pairs"))),
    ("copies the other way round", but(MOVE, (WITHIN, "    ([(b, a) for a, b in plan.copy], kv, kv),\n"))),
    (
        "keys only",
        but(MOVE, (", (source.values, target.values)", ",")),
    ),
    ("values only", but(MOVE, ("(source.keys, target.keys), ", ""), ("target.values))", "target.values),)"))),
    ("keys for values", but(MOVE, ("(source.values, target.values)", "(source.keys, target.values)"))),
    ("the first layer", but(MOVE, ("new[:,", "new[0,"), ("= old[:,", "= old[0,"))),
    ("all layers get the first one's", but(MOVE, ("= old[:,", "= old[:1,"))),
    ("the last layer is forgotten", but(MOVE, ("new[:,", "new[:-1,"), ("= old[:,", "= old[:-1,"))),
    ("a slot for a block", but(MOVE, ("size = kv.block_size", "size = 1"))),
    (
        "the first slot of each block",
        but(MOVE, ("(to + 1) * size]", "to * size + 1]"), ("(start + 1) * size]", "start * size + 1]")),
    ),
    (
        "all slots but the last",
        but(
            MOVE,
            ("(to + 1) * size]", "(to + 1) * size - 1]"),
            ("(start + 1) * size]", "(start + 1) * size - 1]"),
        ),
    ),
    (
        "from the block behind",
        but(
            MOVE,
            ("to * size : (to + 1) * size", "(to - 1) * size : to * size"),
            ("start * size : (start + 1)", "(start - 1) * size : (start)"),
        ),
    ),
    (
        "the first request's pairs",
        but(MOVE, ("in plan.swap_out.values() for", "in list(plan.swap_out.values())[:1] for")),
    ),
    ("the first pair of each", but(MOVE, ("for pair in some]", "for pair in some[:1]]"))),
    (
        "moved, so the old place is cleared",
        but(
            MOVE,
            (
                ".to(new.device)\n",
                ".to(new.device)\n            old[:, start * size : (start + 1) * size] = 0\n",
            ),
        ),
    ),
    (
        "changed places",
        but(
            MOVE,
            (
                "            new[:, to",
                "            kept = new[:, to * size : (to + 1) * size].clone()\n            new[:, to",
            ),
            (
                ".to(new.device)\n",
                ".to(new.device)\n            old[:, start * size : (start + 1) * size] = kept\n",
            ),
        ),
    ),
    (
        "into a copy of the pool",
        but(
            MOVE,
            (
                "in ((source.keys, target.keys), (source.values, target.values))",
                "in ((source.keys, target.keys.clone()), (source.values, target.values.clone()))",
            ),
        ),
    ),
    (
        "the whole pool",
        but(
            MOVE,
            (
                "            new[:, to * size : (to + 1) * size] = old[:, start * size : (start + 1) * size].to(new.device)",
                "            new[:, : old.shape[1]] = old[:, : new.shape[1]]",
            ),
        ),
    ),
    ("added to what was there", but(MOVE, ("(to + 1) * size] =", "(to + 1) * size] +="))),
    (
        "what comes in is taken before anything goes out",
        "came = [(host.keys.clone(), kv.keys), (host.values.clone(), kv.values)]\n"
        + but(MOVE, (BACK, ""), (WITHIN, ""))
        + "for old, new in came:\n    for some in plan.swap_in.values():\n        for start, to in some:\n            new[:, to * kv.block_size : (to + 1) * kv.block_size] = old[:, start * kv.block_size : (start + 1) * kv.block_size]\n"
        + but(MOVE, (OUT, ""), (BACK, "")),
    ),
]

SAMPLES = """
manager.allocate(0, len(prompt))
logits = compute(Plan(scheduled={0: len(prompt)}, start={0: 0}))
for i in range(1, n):
    manager.fork(0, i)
going = draw(list(range(n)), logits.expand(n, -1))
while going:
    plan = Plan()
    for i in going:
        position = len(sequences[i]) - 1
        plan.scheduled[i], plan.start[i] = 1, position
        manager.allocate(i, position + 1)
        if pair := manager.write(i, position):
            plan.copy.append(pair)
    going = draw(going, compute(plan))
"""
WRITTEN = "        if pair := manager.write(i, position):\n            plan.copy.append(pair)\n"
ROOM = "        manager.allocate(i, position + 1)\n"
FORKED = "for i in range(1, n):\n    manager.fork(0, i)\n"
LOGITS = "logits = compute(Plan(scheduled={0: len(prompt)}, start={0: 0}))\n"
PARALLEL = [
    ("no room for the prompt", but(SAMPLES, ("manager.allocate(0, len(prompt))\n", ""))),
    (
        "all but the prompt's last token",
        but(SAMPLES, ("Plan(scheduled={0: len(prompt)}", "Plan(scheduled={0: len(prompt) - 1}")),
    ),
    (
        "the prompt's last token only",
        but(
            SAMPLES,
            (
                "Plan(scheduled={0: len(prompt)}, start={0: 0})",
                "Plan(scheduled={0: 1}, start={0: len(prompt) - 1})",
            ),
        ),
    ),
    (
        "the prompt token by token",
        but(
            SAMPLES,
            (
                LOGITS,
                "for k in range(len(prompt)):\n    logits = compute(Plan(scheduled={0: 1}, start={0: k}))\n",
            ),
        ),
    ),
    ("the prompt for each sample", but(SAMPLES, (LOGITS, LOGITS * 2))),
    (
        "a table and a pass of its own for each",
        but(
            SAMPLES,
            (
                FORKED,
                "for i in range(1, n):\n    manager.allocate(i, len(prompt))\n    compute(Plan(scheduled={i: len(prompt)}, start={i: 0}))\n",
            ),
        ),
    ),
    (
        "no fork: all prompts in one batch",
        but(
            SAMPLES,
            (FORKED, ""),
            (
                LOGITS,
                "for i in range(1, n):\n    manager.allocate(i, len(prompt))\nlogits = compute(Plan(dict.fromkeys(range(n), len(prompt)), dict.fromkeys(range(n), 0)))\n",
            ),
            ("logits.expand(n, -1)", "logits"),
        ),
    ),
    ("forked from the one before, and 0 again", but(SAMPLES, ("range(1, n)", "range(n)"))),
    ("one fork short", but(SAMPLES, ("range(1, n)", "range(1, n - 1)"))),
    ("forked after the first draw", but(SAMPLES, (FORKED, ""), ("while going:", FORKED + "while going:"))),
    ("one row for all", but(SAMPLES, ("logits.expand(n, -1)", "logits"))),
    (
        "the first token for one only",
        but(SAMPLES, ("draw(list(range(n)), logits.expand(n, -1))", "draw([0], logits)")),
    ),
    (
        "drawn one after the other by the last to go on",
        but(
            SAMPLES,
            (
                "going = draw(list(range(n)), logits.expand(n, -1))",
                "for i in range(n):\n    going = draw([i], logits)",
            ),
        ),
    ),
    (
        "the first row goes to the last sample",
        but(
            SAMPLES, ("going = draw(going, compute(plan))", "going = draw(going[::-1], compute(plan))[::-1]")
        ),
    ),
    ("no room for the new token", but(SAMPLES, (ROOM, ""))),
    ("room for one less", but(SAMPLES, ("allocate(i, position + 1)", "allocate(i, position)"))),
    ("written before there is room", but(SAMPLES, (ROOM, ""), (WRITTEN, WRITTEN + ROOM))),
    ("nobody asks before writing", but(SAMPLES, (WRITTEN, ""))),
    ("asked, and not copied", but(SAMPLES, (WRITTEN, "        manager.write(i, position)\n"))),
    ("asked for the next place", but(SAMPLES, ("write(i, position)", "write(i, position + 1)"))),
    ("asked for the place before", but(SAMPLES, ("write(i, position)", "write(i, position - 1)"))),
    ("copied the other way", but(SAMPLES, ("append(pair)", "append(pair[::-1])"))),
    ("only the last copy", but(SAMPLES, ("plan.copy.append(pair)", "plan.copy = [pair]"))),
    (
        "copied after computing",
        but(
            SAMPLES,
            (WRITTEN, "        pairs += [manager.write(i, position)]\n"),
            ("    plan = Plan()\n", "    plan, pairs = Plan(), []\n"),
            (
                "    going = draw(going, compute(plan))",
                "    logits = compute(plan)\n    move_blocks(Plan(copy=[p for p in pairs if p]), kv, kv)\n    going = draw(going, logits)",
            ),
        ),
    ),
    (
        "the first step computes the last prompt token again",
        but(SAMPLES, ("position = len(sequences[i]) - 1", "position = len(sequences[i]) - 2")),
    ),
    (
        "computed where it would come next",
        but(SAMPLES, ("plan.start[i] = 1, position", "plan.start[i] = 1, position + 1")),
    ),
    (
        "everything computed again",
        but(SAMPLES, ("plan.start[i] = 1, position", "plan.start[i] = position + 1, 0")),
    ),
    ("all samples, also those over", but(SAMPLES, ("    for i in going:", "    for i in range(n):"))),
    (
        "a pass for each sample",
        but(
            SAMPLES,
            (
                "    plan = Plan()\n    for i in going:\n",
                "    left = []\n    for i in going:\n        plan = Plan()\n",
            ),
            (
                "    going = draw(going, compute(plan))",
                "        left += draw([i], compute(plan))\n    going = left",
            ),
        ),
    ),
    (
        "one sample after the other",
        but(
            SAMPLES,
            (
                "while going:\n    plan = Plan()\n    for i in going:\n",
                "while going:\n    plan = Plan()\n    for i in going[:1]:\n",
            ),
            ("going = draw(going, compute(plan))", "going = draw(going[:1], compute(plan)) + going[1:]"),
        ),
    ),
    ("stopped when the first is over", but(SAMPLES, ("while going:", "while len(going) == n:"))),
    ("one token", but(SAMPLES, ("while going:", "if going:"))),
    (
        "a pass more at the end",
        SAMPLES + "manager.allocate(0, len(prompt))\ncompute(Plan({0: 1}, {0: 0}))\nmanager.free(0)\n",
    ),
    ("the prompt's blocks are kept", "manager.allocate('prompt', len(prompt))\n" + SAMPLES),
]

WRONG = [
    Variant(name, {todo: code})
    for todo, variants in [
        ("ch10.1", EXECUTES),
        ("ch10.2", SUBMITS),
        ("ch10.3", STEPS),
        ("ch10.4", STREAMS),
        ("ch10.5", FITS),
        ("ch10.6", MOVES),
        ("ch10.7", PARALLEL),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "stop strings looked for behind what was shown",
        {
            "ch10.3": but(
                STEP,
                (VISIBLE, "visible(text[len(output.text) :], output.stop)"),
                ("output.show(safe)", "output.show(output.text + safe)"),
                ("safe = text", "safe = text[len(output.text) :]"),
            )
        },
    ),
    Variant(
        "one at a time, sums of the plan, a generator of slices",
        {
            "ch10.1": """
self.tables |= plan.block_tables
if not plan.scheduled:
    return {}, self.seconds(plan, began)
logits = forward_batch(self.decoder, self.kv, pack(plan, self.sequences, self.tables, self.block_size, self.device))
for row, (i, count) in zip(logits, plan.scheduled.items(), strict=True):
    if plan.start[i] + count < len(self.sequences[i]):
        continue
    tokens[i] = self.choose([i], row[None])
    self.sequences[i] += tokens[i]
""",
            "ch10.2": """
who = request.request_id
try:
    self.scheduler.add_request(request, now=self.clock.now)
except ValueError:
    raise
else:
    self.arrived += [request]
    self.active |= {who}
    self.outputs |= {who: Output(prompt=request.prompt, stop=job.sampling.stop)}
    self.executor.begin(job)
""",
            "ch10.3": r"""
step.tokens, seconds = executor.execute(plan)
clock.tick(seconds)
finished = {**scheduler.update(plan, step.tokens, clock.now)}
for i in step.tokens:
    output = self.outputs[i]
    for token in step.tokens[i]:
        output.token_ids.append(token)
    text = self.decoded(output)
    while text.endswith("\ufffd"):
        text = text[:-1]
    shown, met = visible(text, output.stop)
    if met:
        finished[i] = "stop"
    self.outputs[i].show(text if i in finished and not met else shown)
    if met and i not in self.aborted:
        scheduler.abort(i, clock.now)
step.finished = finished
ended = finished | plan.dropped
for i in ended:
    self.end(i, ended[i])
""",
            "ch10.4": """
while output.reason is None or sent < len(output.text):
    if sent == len(output.text):
        self.step()
        continue
    start, sent = sent, len(output.text)
    yield output.text[start:sent]
""",
            "ch10.6": """
size, layers = kv.block_size, len(kv.keys)
moves = [(p, kv, host) for some in plan.swap_out.values() for p in some]
moves += [(p, host, kv) for some in plan.swap_in.values() for p in some]
moves += [(p, kv, kv) for p in plan.copy]
for (start, to), source, target in moves:
    for layer in range(layers):
        for slot in range(size):
            target.keys[layer, to * size + slot] = source.keys[layer, start * size + slot]
            target.values[layer, to * size + slot] = source.values[layer, start * size + slot]
""",
        },
    ),
    Variant(
        "indices as tensors, a helper, character by character",
        {
            "ch10.1": """
for i in plan.block_tables:
    self.tables[i] = plan.block_tables[i]
ready = [i for i in plan.scheduled if plan.start[i] + plan.scheduled[i] == len(self.sequences[i])]
if plan.scheduled:
    batch = pack(plan, self.sequences, self.tables, self.block_size, self.device)
    logits = forward_batch(self.decoder, self.kv, batch)
    if ready:
        where = torch.tensor([batch.request_ids.index(i) for i in reversed(ready)], device=self.device)
        drawn = dict(zip(reversed(ready), self.choose(ready[::-1], logits.index_select(0, where)), strict=True))
        for i in drawn:
            self.sequences[i] = [*self.sequences[i], drawn[i]]
            tokens[i] = [drawn[i]]
""",
            "ch10.4": """
def unsent():
    nonlocal sent
    while sent < len(output.text):
        sent += 1
        yield output.text[sent - 1]


yield from unsent()
while request_id in self.active:
    self.step()
    yield from unsent()
""",
            "ch10.6": """
def rows(blocks):
    return [b * kv.block_size + k for b in blocks for k in range(kv.block_size)]


def move(pairs, source, target):
    for start, to in pairs:
        target.keys[:, rows([to])] = source.keys[:, rows([start])].to(target.keys.device)
        target.values[:, rows([to])] = source.values[:, rows([start])].to(target.values.device)


for pairs in plan.swap_out.values():
    move(pairs, kv, host)
for pairs in plan.swap_in.values():
    move(pairs, host, kv)
move(plan.copy, kv, kv)
""",
            "ch10.7": """
total = len(prompt) + max_new_tokens - 1
manager.allocate(0, total)
logits = compute(Plan({0: len(prompt)}, {0: 0}))
[manager.fork(i - 1, i) for i in range(1, n)]
going = draw([*range(n)], torch.cat([logits] * n))
while going:
    starts = {i: len(sequences[i]) - 1 for i in going}
    pairs = [manager.write(i, position) for i, position in starts.items()]
    going = draw(going, compute(Plan(dict.fromkeys(going, 1), starts, copy=[p for p in pairs if p])))
""",
        },
    ),
    Variant(
        "coordinate descent that never goes below zero",
        {
            "ch10.5": """
rows = np.stack([features(a, b, c) for a, b, c, _ in samples])
seconds = np.array([s for *_, s in samples])
size = np.maximum(rows.max(axis=0), 1.0)
weights, expected = np.zeros(rows.shape[1]), seconds
for _ in range(5):
    scaled = rows / size / expected[:, None]
    products, wanted = scaled.T @ scaled, scaled.T @ (seconds / expected)
    for _ in range(2000):
        for k in range(len(weights)):
            if products[k, k] > 0:
                rest = wanted[k] - products[k] @ weights + products[k, k] * weights[k]
                weights[k] = max(0.0, rest / products[k, k])
    expected = np.maximum(rows / size @ weights, 1e-12)
weights = weights / size
return lambda *step: features(*step).dot(weights).item()
"""
        },
    ),
    Variant(
        "every negative weight left out at once, more rounds",
        {
            "ch10.5": """
table = np.asarray(samples)
rows, seconds = features(*table.T[:3]), table[:, 3]
expected = seconds.copy()
for _ in range(8):
    used = np.ones(rows.shape[1], bool)
    while True:
        found = np.linalg.lstsq(rows[:, used] / expected[:, None], seconds / expected, rcond=None)[0]
        if (found >= 0).all():
            break
        lowest = np.flatnonzero(used)[found.argmin()]
        used[lowest] = False
    expected = rows[:, used] @ found


def cost(new_tokens, kv_tokens, pairs):
    return np.dot(features(new_tokens, kv_tokens, pairs)[used], found)


return cost
"""
        },
    ),
    Variant(
        "a next piece made by a function, moves by index_copy_",
        {
            "ch10.4": """
def piece():
    nonlocal sent
    while len(output.text) == sent:
        if output.reason is not None:
            return ""
        self.step()
    new, sent = output.text[sent:], len(output.text)
    return new


yield from iter(piece, "")
""",
            "ch10.6": """
def move(pairs, source, target):
    if not pairs:
        return
    start, to = zip(*pairs, strict=True)
    for name in ("keys", "values"):
        old, new = getattr(source, name), getattr(target, name)
        shape = (new.shape[0], -1, kv.block_size, *new.shape[2:])
        chosen = old.view(old.shape[0], -1, kv.block_size, *old.shape[2:]).index_select(1, torch.tensor(start).to(old.device))
        new.view(shape).index_copy_(1, torch.tensor(to).to(new.device), chosen.to(new.device))


move(sum(plan.swap_out.values(), []), kv, host)
move(sum(plan.swap_in.values(), []), host, kv)
move(plan.copy, kv, kv)
""",
        },
    ),
]
