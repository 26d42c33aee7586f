"""What surrounds the student's engine in the runner: a toy scheduler, executor and tokenizer, and who plays a script with them."""

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
    def __init__(self, answers, at_once, log):
        self.answers, self.at_once, self.log, self.known = answers, at_once, log, {}

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
                known[0] += self.at_once
                tokens[request_id] = [known[1].pop(0) if known[1] else 0 for _ in range(self.at_once)]
        self.log.append(["execute", {i: list(t) for i, t in tokens.items()}])
        return tokens, 0.5


class Tokenizer:
    # Like many a real one: a text's first blank is lost, and with ``fallback`` a run of bytes is text as a whole or not at all.
    def __init__(self, pieces, fallback):
        self.pieces, self.fallback = [bytes.fromhex(piece) for piece in pieces], fallback

    def decode(self, ids):
        runs = [b""]
        for piece in (self.pieces[i] for i in ids):
            alone = len(piece) == 1 and piece >= b"\\x80"
            if self.fallback and alone != (runs[-1][:1] >= b"\\x80"):
                runs.append(b"")
            runs[-1] += piece
        return "".join(map(self.text, runs)).removeprefix(" ")

    def text(self, run):
        try:
            return run.decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(run) if self.fallback else run.decode("utf-8", "replace")


def look(engine, scheduler, executor):
    outputs = {i: [list(o.token_ids), o.text, o.reason] for i, o in engine.outputs.items()}
    asked = {i: [list(o.prompt), list(o.stop)] for i, o in engine.outputs.items()}
    arrived = [request.request_id if isinstance(request, Request) else repr(request) for request in engine.arrived]
    active = [i if isinstance(i, str) else repr(i) for i in engine.active]
    return [outputs, active, list(scheduler.held), list(executor.known), arrived, list(engine.aborted), asked]


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
        prompt = tuple(asked["prompt"])
        request = Request(op[1], 0.0, len(prompt), asked["max_new_tokens"], prompt=prompt, stop_token_ids=(0,))
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
    return [[r.request_id for r in step.arrived], step.tokens, step.finished, list(step.aborted)]


RAISED = []


def raise_it():
    raise RAISED[-1]


def play(ops, requests, pieces, refuses, drops, chunk, at_once, fallback):
    log, streams, seen = [], {}, []
    scheduler = Scheduler(refuses, drops, chunk, log)
    executor = Executor({i: asked["tokens"] for i, asked in requests.items()}, at_once, log)
    engine = Engine(scheduler, executor, Tokenizer(pieces, fallback), StepClock())
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
