"""TODOs 2 to 4: an engine over a toy scheduler, a toy executor and a toy tokenizer, all of the check's own.

A case is a script of what users do. After each line the runner tells what the toys were asked and what the engine shows;
both are compared with ``ideal.Ideal``, which shares nothing with the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch10.ideal import Ideal, Moment, sensible, vocabulary
from decodelab.check.ch10.words import WORDS, evidence
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

TOYS = """
from decodelab.contract import Plan, Refused, State
from decodelab.request import Job, Request, Sampling
from decodelab.run import StepClock


class Endless(Exception):
    pass


class Scheduler:
    # Everybody runs at once, prompts in chunks; ``held`` are those with blocks.
    def __init__(self, refuses, drops, chunk, log):
        self.refuses, self.drops, self.chunk, self.log = refuses, drops, chunk, log
        self.known, self.ids, self.held, self.lonely, self.latest = {}, set(), [], 0, 0.0

    def add_request(self, request, now):
        self.log.append(["add", request.request_id, now])
        if request.request_id in self.ids:
            raise Refused("duplicate_id")
        if request.request_id in self.refuses:
            raise Refused("never_fits")
        self.ids.add(request.request_id)
        self.known[request.request_id] = [request, request.prompt_len, 0]

    def abort(self, request_id, now):
        self.latest = max(self.latest, now)
        self.known.pop(request_id, None)
        if request_id in self.held:
            self.held.remove(request_id)

    def schedule(self, now):
        self.lonely = 0 if self.known else self.lonely + 1
        if self.lonely > 20:
            raise Endless
        plan = Plan()
        for request_id, (_, num_tokens, computed) in list(self.known.items()):
            if request_id in self.drops and computed:
                plan.dropped[request_id] = "timeout"
                self.abort(request_id, now)
                continue
            if request_id not in self.held:
                self.held.append(request_id)
            plan.scheduled[request_id] = count = min(self.chunk, num_tokens - computed)
            plan.start[request_id] = computed
            self.known[request_id][2] += count
        return plan

    def update(self, plan, tokens, now):
        self.log.append(["update", {i: list(t) for i, t in tokens.items()}, now])
        finished = {}
        for request_id, new in tokens.items():
            if request_id in self.known:
                request = self.known[request_id][0]
                self.known[request_id][1] += len(new)
                if new[-1] in request.stop_token_ids:
                    finished[request_id] = "stop"
                elif self.known[request_id][1] - request.prompt_len >= request.max_new_tokens:
                    finished[request_id] = "length"
        for request_id in finished:
            self.abort(request_id, now)
        return finished

    def state(self):
        return State(list(self.known), [])


class Executor:
    # Says what the script has for each request, once its prompt is computed.
    def __init__(self, answers, log):
        self.answers, self.log, self.known = answers, log, {}

    def begin(self, job):
        self.log.append(["begin", job.request.request_id])
        self.known[job.request.request_id] = [job.request.prompt_len, list(self.answers[job.request.request_id])]

    def end(self, request_id):
        self.known.pop(request_id, None)

    def execute(self, plan):
        tokens = {}
        for request_id, count in plan.scheduled.items():
            known = self.known[request_id]
            if plan.start[request_id] + count == known[0]:
                known[0] += 1
                tokens[request_id] = [known[1].pop(0) if known[1] else 0]
        self.log.append(["execute", {i: list(t) for i, t in tokens.items()}])
        return tokens, 0.5


class Tokenizer:
    def __init__(self, pieces):
        self.pieces = [bytes.fromhex(piece) for piece in pieces]

    def decode(self, ids):
        return b"".join(self.pieces[i] for i in ids).decode("utf-8", "replace")


def look(engine, scheduler, executor):
    outputs = {i: [list(o.token_ids), o.text, o.reason] for i, o in engine.outputs.items()}
    arrived = [request.request_id for request in engine.arrived]
    return [outputs, list(engine.active), list(scheduler.held), list(executor.known), arrived]


def read(engine, request_id, streams):
    stream, pieces = streams.setdefault(request_id, [engine.stream(request_id), ""]), []
    while True:
        try:
            piece = next(stream[0])
        except StopIteration:
            return [pieces, True]
        pieces.append(piece)
        stream[1] += piece
        if len(stream[1]) >= len(engine.outputs[request_id].text) or len(pieces) > 99:
            return [pieces, False]


def act(engine, op, requests, streams):
    if op[0] == "submit":
        asked = requests[op[1]]
        request = Request(op[1], 0.0, asked["prompt_len"], asked["max_new_tokens"], stop_token_ids=(0,))
        try:
            return engine.submit(Job(request, sampling=Sampling(stop=tuple(asked["stop"]))))
        except Refused as refusal:
            return refusal.reason
    if op[0] == "abort":
        return engine.abort(op[1])
    if op[0] == "read":
        return read(engine, op[1], streams)
    step = engine.step()
    if step is None:
        return None
    return [[r.request_id for r in step.arrived], step.tokens, step.finished]


RAISED = []


def raise_it():
    raise RAISED[-1]


def play(ops, requests, pieces, refuses, drops, chunk):
    log, streams, seen = [], {}, []
    scheduler = Scheduler(refuses, drops, chunk, log)
    executor = Executor({i: asked["tokens"] for i, asked in requests.items()}, log)
    engine = Engine(scheduler, executor, Tokenizer(pieces), StepClock())
    for op in ops:
        begun, steps = len(log), len(engine.steps)
        try:
            told = act(engine, op, requests, streams)
        except Endless:
            told = "endless"
        except Exception as error:  # what the lines before it show counts first
            RAISED.append(error)
            break
        seen.append([told, log[begun:], len(engine.steps) - steps, *look(engine, scheduler, executor)])
        if told == "endless":
            break
    return seen
"""


def check_engine(student: Student, case: Case) -> Finding | None:
    """The whole script at once; then line by line."""
    if not sensible(case):
        return None
    pieces, requests = vocabulary(case)
    options = case.get("refuses", []), case.get("drops", []), case.get("chunk", 99)
    probe = student.apart(TOYS, "Engine")
    replies = probe.call("play", case["ops"], requests, [piece.hex() for piece in pieces], *options)
    ideal = Ideal(case)
    for number, op in enumerate(case["ops"]):
        want = ideal.after(op)
        if isinstance(replies, list) and len(replies) == number:
            probe.call("raise_it")
        got = moment(replies[number]) if isinstance(replies, list) and len(replies) > number else None
        if got is None:
            return finding("plays", *WORDS["plays"][1:], hint=0)
        if rule := broken(op, want, got):
            return told(case, number, op, want, got, rule)
    return None


CALLS = {"add": 3, "begin": 2, "execute": 2, "update": 3}  # how long each kind in the log is


def moment(reply: Any) -> Moment | None:
    """A line's reply as a Moment; None where it is none."""
    if not isinstance(reply, list) or len(reply) != 8:
        return None
    got = Moment(*reply)
    well = type(got.steps) is int and isinstance(got.log, list) and isinstance(got.outputs, dict)
    if not well or not all(isinstance(call, list) and call for call in got.log):
        return None
    calls = all(isinstance(c[0], str) and CALLS.get(c[0]) == len(c) for c in got.log)
    outputs = all(isinstance(o, list) and len(o) == 3 for o in got.outputs.values())
    lists = all(names(x) for x in (got.active, got.held, got.kept, got.arrived))
    return got if calls and outputs and lists else None


def names(value: Any) -> bool:
    """Whether a value is a list of ids."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def broken(op: list[Any], want: Moment, got: Moment) -> str:
    """The rule that a line breaks first; "" for none."""
    if got.told == "endless":
        return "stream-ends" if op[0] == "read" else "engine-rests"
    return {"submit": at_the_door, "step": at_a_step, "read": at_a_stream}.get(op[0], elsewhere)(want, got)


def at_the_door(want: Moment, got: Moment) -> str:
    if isinstance(want.told, str):
        if got.told != want.told:
            return "refusal-goes-through"
        return "" if state(got) == state(want) else "refused-leaves-no-trace"
    if got.told is not None:
        return "takes-in-good-requests"
    for name in ("add", "begin"):
        if sum(call[0] == name for call in got.log) != 1:
            return "told-once"
    if [call[2] for call in got.log if call[0] == "add"] != want.log:
        return "told-the-time"
    if got.outputs != want.outputs:
        return "has-an-output"
    if set(got.active) != set(want.active):
        return "is-active"
    return "" if got.arrived == want.arrived else "arrival-is-noted"


def at_a_step(want: Moment, got: Moment) -> str:
    if want.told is None or got.told is None:
        return "" if want.told is got.told else "engine-rests"
    if not isinstance(got.told, list) or len(got.told) != 3:
        return "plays"
    if got.told[0] != want.told[0]:
        return "arrival-is-noted"
    return served(want, got) or noted(want, got) or elsewhere(want, got)


def served(want: Moment, got: Moment) -> str:
    """Whether executor and scheduler were asked once each, and told the truth."""
    for name in ("execute", "update"):
        if sum(call[0] == name for call in got.log) != want.steps:
            return f"{name}s-once"
    updates = [call[1:] for call in got.log if call[0] == "update"]
    if [tokens for tokens, _ in updates] != [tokens for tokens, _ in want.log]:
        return "update-gets-the-tokens"
    return "" if updates == want.log else "time-passes"


def noted(want: Moment, got: Moment) -> str:
    """Whether the step itself says what happened."""
    if got.told[1] != want.told[1]:
        return "step-keeps-the-tokens"
    if got.told[2] == want.told[2]:
        return ""
    cut = [i for i, reason in want.told[2].items() if reason == "stop" and want.told[1][i] != [0]]
    missed = isinstance(got.told[2], dict) and any(got.told[2].get(i) != "stop" for i in cut)
    return "stop-string-ends" if missed else "step-says-who-ended"


def elsewhere(want: Moment, got: Moment) -> str:
    """Outputs, and what everybody keeps."""
    for request_id, (ids, text, reason) in want.outputs.items():
        mine = got.outputs.get(request_id)
        if not isinstance(mine, list):
            return "has-an-output"
        if mine[0] != ids:
            return "every-token-once"
        if mine[1] != text:
            return text_rule(mine[1], text, reason)
        if mine[2] != reason:
            return "says-why"
    if set(got.active) != set(want.active):
        return "ends-who-is-over"
    if set(got.held) != set(want.held):
        return "blocks-come-back"
    return "" if set(got.kept) == set(want.kept) else "executor-forgets"


def text_rule(got: Any, want: str, reason: str | None) -> str:
    """The rule that a text breaks."""
    if not isinstance(got, str) or "\ufffd" in got:
        return "whole-characters"
    if got.startswith(want):
        return "stop-string-is-hidden" if reason == "stop" else "holds-back"
    return "shows-the-rest" if reason else "shows-what-is-safe"


def at_a_stream(want: Moment, got: Moment) -> str:
    pieces, over = got.told if isinstance(got.told, list) and len(got.told) == 2 else (None, None)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        return "stream-gives-text"
    if "" in pieces:
        return "no-empty-piece"
    if got.steps > want.steps:
        return "gives-before-it-steps" if want.told[0] else "stream-ends"
    if "".join(pieces) != "".join(want.told[0]):
        return "stream-gives-what-is-new"
    if over is not want.told[1]:
        return "stream-ends" if want.told[1] else "stream-goes-on"
    return elsewhere(want, got)


def state(moment: Moment) -> list[Any]:
    """What must not change when a request is refused."""
    return [
        moment.arrived,
        moment.outputs,
        sorted(map(str, moment.active)),
        sorted(map(str, moment.held)),
        sorted(map(str, moment.kept)),
    ]


LABEL = both(
    en="What each request has by then (✓ due, ✗ yours)", zh="这时每个请求得到了什么（✓ 应有的，✗ 你的）"
)


def told(case: Case, number: int, op: list[Any], want: Moment, got: Moment, rule: str) -> Finding:
    """The finding, with the line of the script and the outputs at that moment."""
    rows = []
    for request_id in want.outputs:
        mine = got.outputs.get(request_id, ["·", "·", "·"])
        row: dict[str, Any] = {"request_id": request_id}
        for name, due, came in zip(
            ("tokens", "text", "reason"), want.outputs[request_id], mine, strict=False
        ):
            row[f"{name} ✓"], row[f"{name} ✗"] = f"{due}", f"{came}"[:60]
        rows.append(row)
    hint, en, zh = WORDS[rule]
    line = " ".join(map(str, op))
    due, came = evidence(rule, want, got)
    return finding(
        rule,
        f"Line {number + 1}, {line}: {en}{due and f' Due: {due}; yours: {came}.'}",
        f"第 {number + 1} 行，{line}：{zh}{due and f'应当是 {due}，你的是 {came}。'}",
        hint=hint,
        state=rows,
        label=LABEL,
    )
