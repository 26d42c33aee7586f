"""Chapter 1's rules and visible cases.

A book-keeping of its own (``Spec``) says what must come next, and a log of events is walked beside
it up to the first event that breaks a rule: that is where the queue at that moment comes from, and
an oracle that shares nothing with the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding, Record, StudentError
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

NEW = {"generated_len": 0, "phase": "prefill", "priority": 0, "cache_hit": False}  # a request's defaults
REQUEST_FIELDS = ("request_id", "prompt_len", *NEW, "max_new_tokens")
YOUR_QUEUE = both(en="Your queue", zh="你的队列")
FIELDS = ("request_id", "phase", "action", "prompt_len", "generated_len")

# The order of the queue, field by field: rule name, rank (smallest first), words.
ORDER: list[tuple[str, Callable[[dict[str, Any]], int], Text]] = [
    (
        "prefill-first",
        lambda r: ["prefill", "decode"].index(r["phase"]),
        both(
            en="a request in prefill goes before one in decode",
            zh="处于 prefill 的请求先于处于 decode 的请求",
        ),
    ),
    (
        "cache-first",
        lambda r: 0 if r["cache_hit"] else 1,
        both(en="in the same phase, a cache hit goes before a miss", zh="阶段相同时，命中缓存的先于未命中的"),
    ),
    (
        "priority-first",
        lambda r: -r["priority"],
        both(
            en="with phase and cache alike, the higher priority goes first",
            zh="阶段、缓存都相同时，priority 大的先服务",
        ),
    ),
    (
        "shortest-first",
        lambda r: r["prompt_len"] + r["generated_len"],
        both(
            en="with all that alike, the smaller total_len (prompt + generated so far) goes first",
            zh="以上都相同时，total_len（提示词长度 + 已生成的 token 数）小的先服务",
        ),
    ),
    (
        "lowest-id-last-resort",
        lambda r: r["request_id"],
        both(en="a full tie goes to the smaller request_id", zh="全部相同时，request_id 小的先服务"),
    ),
]


def finding(rule: str, en: str, zh: str, hint: int = 1, **evidence: Any) -> Finding:
    """A Finding with its text in both languages."""
    return Finding(rule, both(en=en, zh=zh), hint=hint, **evidence)


def listed(value: Any) -> list[Any]:
    """A student's list; anything else as the one item of a list."""
    return value if isinstance(value, list) else [value]


def queue_of(sim: Remote) -> list[dict[str, Any]]:
    """A student's queue as plain dicts, however its requests come by their fields; {} for what is no request."""
    queue = sim.get("queue", *REQUEST_FIELDS)
    return [item.fields if isinstance(item, Record) else {} for item in listed(queue)]


def target(request: dict[str, Any]) -> int:
    """How many tokens the request is to generate in all."""
    wanted = request["max_new_tokens"]
    return int(request["prompt_len"] if wanted is None else wanted)


class Spec:
    """Chapter 1's scheduler as book-keeping: requests as plain dicts, the next one found by elimination."""

    def __init__(self) -> None:
        self.requests: dict[int, dict[str, Any]] = {}

    def enqueue(
        self,
        request_id: int,
        prompt_len: int,
        priority: int = 0,
        cache_hit: bool = False,
        max_new_tokens: int | None = None,
    ) -> None:
        identity = {"request_id": request_id, "prompt_len": prompt_len}
        self.requests[request_id] = (
            identity
            | NEW
            | {
                "priority": priority,
                "cache_hit": cache_hit,
                "max_new_tokens": max_new_tokens,
            }
        )

    def refuses(self, request: dict[str, Any]) -> bool:
        """Whether this request must be turned away."""
        lengths = [request["prompt_len"], request.get("max_new_tokens")]
        asked = lengths if lengths[1] is not None else lengths[:1]
        return request["request_id"] in self.requests or any(type(n) is not int or n < 1 for n in asked)

    def left(self, request: dict[str, Any]) -> int:
        """How many tokens the request still has to generate."""
        return target(request) - request["generated_len"]

    def queue(self) -> list[dict[str, Any]]:
        """The active requests, as they are now."""
        return [dict(r) for r in self.requests.values() if self.left(r) > 0]

    def narrowed(self) -> Iterator[tuple[str, set[int]]]:
        """Field by field, the ids that are still in the running."""
        candidates = self.queue()
        for rule, rank, _ in ORDER:
            best = min(map(rank, candidates))
            candidates = [r for r in candidates if rank(r) == best]
            yield rule, {r["request_id"] for r in candidates}

    def due(self) -> int | None:
        """The id of the request that goes next."""
        if not self.queue():
            return None
        *_, (_, last) = self.narrowed()
        return min(last)

    def advance(self, request_id: int) -> dict[str, Any]:
        """Serve one step of this request: the event it must leave behind."""
        request = self.requests[request_id]
        served, action = request["phase"], "prefill_to_decode"
        if served == "prefill":
            request["phase"] = "decode"
        else:
            request["generated_len"] += 1
            action = "decode_one_step" if self.left(request) > 0 else "finish"
        return {
            "request_id": request_id,
            "phase": served,
            "action": action,
            "prompt_len": request["prompt_len"],
            "generated_len": request["generated_len"],
        }

    def judge(self, event: Any, want: dict[str, Any] | None, before: list[dict[str, Any]]) -> Finding | None:
        """What is wrong with ``event`` where ``want`` was due and the queue was ``before``."""
        if event == want:
            return None
        if want is None:
            return finding(
                "skips-finished",
                "Nothing is active any more, so step() must return None.",
                "已经没有活跃的请求，step() 应当返回 None。",
            )
        if event is None:
            return finding(
                "work-conserving",
                "There is still an active request, but step() returned None.",
                "还有活跃的请求，step() 却返回了 None。",
            )
        if isinstance(event, Record):
            return finding(
                "event-shape",
                "step() returned a request; it must return the event that self._advance(req) returns.",
                "step() 返回的是请求；它应当返回 self._advance(req) 给出的事件。",
                hint=0,
            )
        if not isinstance(event, dict) or set(event) != set(FIELDS):
            return finding(
                "event-shape",
                f"An event is a dict with exactly the keys {', '.join(FIELDS)}; yours is {event!r}.",
                f"事件是一个 dict，恰好有这些键：{', '.join(FIELDS)}；你的是 {event!r}。",
                hint=0,
            )
        if event["request_id"] != want["request_id"]:
            return self.wrong_choice(event["request_id"], want["request_id"], before)
        field = next(f for f in FIELDS if event[f] != want[f])
        return finding(
            "event-values",
            f"The right request ran, but its event has {field} = {event[field]!r}; it must be {want[field]!r}. "
            "_advance moves the request on, and once; step only chooses.",
            f"选对了请求，但事件里 {field} = {event[field]!r}，应当是 {want[field]!r}。"
            "请求由 _advance 推进，而且只推进一次；step 只负责选。",
            hint=0,
        )

    def wrong_choice(self, got: Any, want: int, before: list[dict[str, Any]]) -> Finding:
        """Which field of the order says that ``want`` goes before ``got``."""
        if got == STRANGER:
            return finding(
                "a-queue-for-each",
                "step() served a request of another scheduler: is there a list that all instances share?",
                "step() 服务了另一个调度器的请求：是不是有一个列表被所有实例共用了？",
                hint=0,
            )
        yours, due = (next((r for r in before if r["request_id"] == i), None) for i in (got, want))
        if yours is None or due is None:
            return finding(
                "skips-finished",
                f"Request {got!r} is finished or unknown; only an active request can be served.",
                f"请求 {got!r} 已经完成或不存在；只有活跃的请求才能被服务。",
            )
        for rule, rank, text in ORDER:
            if rank(yours) != rank(due):
                return finding(
                    rule,
                    f"Request {got} was served, but it was request {want}'s turn: {text['en']}.",
                    f"服务了请求 {got}，但应该轮到请求 {want}：{text['zh']}。",
                    hint=2,
                )
        raise AssertionError("two requests with the same key")


def expected(script: list[list[Any]]) -> list[dict[str, Any]]:
    """All the events that a script must give."""
    spec, events = Spec(), []
    for order, argument in script:
        if order == "enqueue":
            spec.enqueue(**argument)
        while order == "steps" and argument != 0 and (due := spec.due()) is not None:
            events.append(spec.advance(due))
            argument = None if argument is None else argument - 1
    return events


STRANGER = 987_654_321  # a request that waits in another scheduler
OWN_KEY = """
class OwnKeySim({name}):
    def _schedule_key(self, req):
        return (-req.request_id,)
"""


def check_step(student: Student, case: Case, name: str = "DecodeSchedulerSim") -> Finding | None:
    """Walk a script of ``["enqueue", {...}]`` and ``["steps", n]`` (None: to the end and one more).

    Beside it stands a second scheduler with a request of its own, which is no business of this one.
    With ``own_key`` the order of the queue is another, by a subclass: the largest id first.
    """
    if case.get("own_key"):
        return check_own_key(student, case, name)
    student.new(name).call("enqueue", STRANGER, 1, priority=99, cache_hit=True)
    sim, spec = student.new(name), Spec()
    got: list[dict[str, Any]] = []
    student.context = spec.queue
    sim.watch("queue", "timeline")

    def one_step() -> Finding | None:
        before, due = spec.queue(), spec.due()
        student.step = len(got)
        event = sim.call("step")
        want = None if due is None else spec.advance(due)
        broken = spec.judge(event, want, before)
        if broken and event is None and len(listed(sim.get("timeline"))) > len(got):
            broken = finding(
                "returns-event",
                "step() recorded an event in timeline but returned None: is there a `return event` missing?",
                "timeline 里多了一个事件，step() 却返回了 None：是不是漏了 return？",
                hint=0,
            )
        got.extend([event] if event is not None else [])
        if broken:
            broken.want, broken.got, broken.state = expected(case["script"]), got, before
            broken.at = len(got) - (event is not None)
        return broken

    for order, argument in case["script"]:
        if order == "enqueue":
            sim.call("enqueue", **argument)
            spec.enqueue(**argument)
            continue
        steps = sum(1 + spec.left(r) for r in spec.queue()) + 1 if argument is None else argument
        for _ in range(steps):
            broken = one_step()
            if broken:
                return broken
    return kept_everything(sim, spec, got)


def check_own_key(student: Student, case: Case, name: str) -> Finding | None:
    """A subclass with a key of its own decides who is served."""
    student.new(name)  # so that a missing class is named as such
    student.load("check", OWN_KEY.format(name=name))
    sim = student.new("OwnKeySim")
    for _, request in case["script"]:
        sim.call("enqueue", **request)
    waiting = sorted(request["request_id"] for _, request in case["script"])
    event = sim.call("step")
    if isinstance(event, dict) and event.get("request_id") == waiting[-1]:
        return None
    return finding(
        "asks-the-key",
        "A subclass gave _schedule_key an order of its own (largest id first), and step did not follow it: "
        "ask self._schedule_key(req), do not write the fields again.",
        "子类给 _schedule_key 换了一种次序（id 大的在前），step 却没有照办：请调用 self._schedule_key(req)，不要把各个字段再写一遍。",
        hint=2,
    )


def kept_everything(sim: Remote, spec: Spec, got: list[dict[str, Any]]) -> Finding | None:
    """The timeline holds every event, the queue every request in enqueue order."""
    timeline = sim.get("timeline")
    if timeline != got:
        return finding(
            "timeline-records",
            "timeline must hold every event that step() returned, in order, and nothing else; _advance records it already.",
            "timeline 必须按顺序保存 step() 返回的每个事件，不多也不少；_advance 已经记过一次。",
            hint=0,
            want=got,
            got=listed(timeline),
        )
    ids = [r.get("request_id") for r in queue_of(sim)]
    if ids != list(spec.requests):
        return finding(
            "queue-keeps-order",
            f"queue keeps every request, finished ones too, in enqueue order; it holds the ids {ids}.",
            f"queue 要按入队顺序保留所有请求，完成的也不例外；现在里面的 id 是 {ids}。",
        )
    return None


def check_enqueue(student: Student, case: Case) -> Finding | None:
    """Good and bad requests in a row; at most ``after`` steps are made before those in ``then``."""
    sim = student.new("DecodeSchedulerSim")
    wanted = Spec()
    student.context = wanted.queue
    for request in case["requests"]:
        broken = enqueue_one(sim, wanted, dict(request))
        if broken:
            return broken
    if case.get("after"):
        sim.call("run", max_steps=case["after"])
        for _ in range(case["after"]):
            if (due := wanted.due()) is not None:
                wanted.advance(due)
    for request in case.get("then", []):
        broken = enqueue_one(sim, wanted, dict(request))
        if broken:
            return broken
    return None


def enqueue_one(sim: Remote, wanted: Spec, request: dict[str, Any]) -> Finding | None:
    """Enqueue one request and look at queue and timeline afterwards."""
    refuse = wanted.refuses(request)
    typed = called("enqueue", request)
    before = (sim.get("queue"), sim.get("timeline"))
    try:
        returned = sim.call("enqueue", **request)
    except StudentError as error:
        if not error.is_a("ValueError") and (not refuse or error.todo or error.kind == "Missing"):
            raise
        if not refuse:
            return finding(
                "accepts-good-input",
                f"{typed} is a good request, but it was refused: {error}",
                f"{typed} 是合法的请求，却被拒绝了：{error}",
                call=typed,
            )
        if not error.is_a("ValueError"):
            return finding(
                "refuses-bad-input",
                f"{typed} must raise ValueError; yours raised {error.kind}.",
                f"{typed} 应当抛出 ValueError，你抛出的是 {error.kind}。",
                call=typed,
            )
        if (sim.get("queue"), sim.get("timeline")) != before:
            return finding(
                "unchanged-on-refusal",
                f"{typed} raised ValueError as it must, but it left a trace in queue or timeline.",
                f"{typed} 按要求抛出了 ValueError，但 queue 或 timeline 已经被改动。",
                call=typed,
            )
        return None
    if refuse:
        return finding(
            "refuses-bad-input",
            f"{typed} must raise ValueError: ids are unique, lengths are positive integers, no bools.",
            f"{typed} 必须抛出 ValueError：id 不能重复，长度必须是正整数，bool 不算整数。",
            hint=2,
            call=typed,
        )
    if returned is not None:
        return finding(
            "returns-nothing",
            f"enqueue returns nothing; yours returned {returned!r}.",
            f"enqueue 不返回任何值；你的返回了 {returned!r}。",
        )
    if sim.get("timeline") != before[1]:
        return finding(
            "timeline-untouched",
            f"{typed} changed timeline; enqueue makes no step, so it records nothing.",
            f"{typed} 改动了 timeline；enqueue 没有走任何一步，所以什么也不该记录。",
            call=typed,
            hint=0,
        )
    wanted.enqueue(**request)
    return queue_matches(sim, wanted, typed)


def queue_matches(sim: Remote, wanted: Spec, typed: str) -> Finding | None:
    """Every request so far stands in the queue, in order, with its fields."""
    got = queue_of(sim)
    want = list(wanted.requests.values())
    if [r.get("request_id") for r in got] != list(wanted.requests):
        return finding(
            "in-enqueue-order",
            f"After {typed} the queue must hold the requests {list(wanted.requests)}, in this order; "
            f"yours holds {[r.get('request_id') for r in got]}. A new request goes to the end.",
            f"执行 {typed} 之后，queue 里应当依次是请求 {list(wanted.requests)}，"
            f"你的是 {[r.get('request_id') for r in got]}。新请求加在末尾。",
            state=got,
            label=YOUR_QUEUE,
            call=typed,
            hint=0,
        )
    for request, record in zip(want, got, strict=True):
        for field, value in request.items():
            resolved = target(request) if field == "max_new_tokens" else value  # None or what it stands for
            if field not in record or record[field] not in (value, resolved):
                return finding(
                    "fields",
                    f"After {typed} the queued request's {field} must be {value!r}, "
                    f"not {record.get(field)!r}.",
                    f"执行 {typed} 之后，队列中该请求的 {field} 应当是 {value!r}，"
                    f"而不是 {record.get(field)!r}。",
                    hint=2,
                    state=got,
                    label=YOUR_QUEUE,
                    call=typed,
                )
    return None


def check_key(student: Student, case: Case) -> Finding | None:
    """``_schedule_key`` of every request in the case, field by field."""
    sim = student.new("DecodeSchedulerSim")
    for request in case["states"]:
        state = student.new("RequestState", **request)
        before, got = state.data(), sim.call("_schedule_key", state)
        again, after = sim.call("_schedule_key", state), state.data()
        want = tuple(rank(NEW | request) for _, rank, _ in ORDER)
        typed = called("RequestState", request)
        if (got, before) != (again, after):
            return finding(
                "key-changes-nothing",
                f"_schedule_key only looks: asked twice for {typed}, it answered {got!r}, then {again!r}, "
                "or it changed the request.",
                f"_schedule_key 只看不改：对 {typed} 问两次，先得到 {got!r}，后得到 {again!r}，或者请求被改动了。",
                call=typed,
                hint=0,
            )
        if got == want and type(got) is tuple:
            continue
        if not isinstance(got, tuple) or len(got) != len(want):
            return finding(
                "key-shape",
                f"_schedule_key must return a tuple of {len(want)} fields; for {typed} it returned {got!r}.",
                f"_schedule_key 必须返回有 {len(want)} 个字段的 tuple；对 {typed} 它返回了 {got!r}。",
            )
        place = next(i for i in range(len(want)) if got[i] != want[i])
        rule, _, text = ORDER[place]
        return finding(
            rule,
            f"For {typed} field {place + 1} of the key is {got[place]!r}; it must be {want[place]!r}: "
            f"{text['en']}.",
            f"对 {typed}，键的第 {place + 1} 个字段是 {got[place]!r}，应当是 {want[place]!r}：{text['zh']}。",
            hint=2,
        )
    return None


COUNTING = """
class CountingSim(DecodeSchedulerSim):
    steps_called = 0

    def step(self):
        self.steps_called += 1
        return super().step()
"""


def check_run(student: Student, case: Case) -> Finding | None:
    """``run`` as often as ``runs`` says (None: without an argument), its bound, its end and what it returns."""
    student.load("check", COUNTING)
    sim, spec = student.new("CountingSim"), Spec()
    sim.watch("queue", "timeline")
    for request in case["requests"]:
        sim.call("enqueue", **request)
        spec.enqueue(**request)
    want: list[dict[str, Any]] = []
    for bound in case["runs"]:
        arguments = {} if bound is None else {"max_steps": bound}
        typed = "run()" if bound is None else f"run(max_steps={bound})"
        if bound is not None and bound < 0:
            broken = refuses_bound(sim, arguments, typed)
        else:
            due = spec.due()
            for _ in range(100 if bound is None else bound):
                if due is None:
                    break
                want.append(spec.advance(due))
                due = spec.due()
            broken = run_once(sim, arguments, typed, want)
        if broken:
            return broken
    return None


def refuses_bound(sim: Remote, arguments: dict[str, Any], typed: str) -> Finding | None:
    """A negative bound raises ValueError and changes nothing."""
    before = (sim.get("queue"), sim.get("timeline"))
    try:
        sim.call("run", **arguments)
    except StudentError as error:
        if not error.is_a("ValueError"):
            raise
        if (sim.get("queue"), sim.get("timeline")) == before:
            return None
    return finding(
        "refuses-bad-input",
        f"{typed} must raise ValueError before it makes a step.",
        f"{typed} 必须在走任何一步之前抛出 ValueError。",
        hint=2,
    )


def counted(sim: Remote) -> int:
    """How often step() was called; 0 where the answer has put something else in the counter's place."""
    calls = sim.get("steps_called")
    return calls if isinstance(calls, int) else 0


def run_once(
    sim: Remote, arguments: dict[str, Any], typed: str, want: list[dict[str, Any]]
) -> Finding | None:
    """One call of run: the timeline it must leave, and that it returns that very list."""
    already, calls = len(listed(sim.get("timeline"))), counted(sim)
    try:
        returned = sim.keep("run", **arguments)
    except StudentError as error:
        if not error.is_a("ValueError"):
            raise
        return finding(
            "bound",
            f"{typed} is allowed; yours raised ValueError. Only a negative bound is refused.",
            f"{typed} 是合法的，你的却抛出了 ValueError。只有负的上限才要拒绝。",
            call=typed,
        )
    got = listed(sim.get("timeline"))
    if got[:already] != want[:already] or len(got) < already:
        return finding(
            "timeline-records",
            f"{typed} must leave the events that are in timeline already as they are.",
            f"{typed} 不能动 timeline 里已有的事件。",
            hint=0,
            call=typed,
        )
    if got != want:
        made, due = len(got) - already, len(want) - already
        at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))  # noqa: B905
        return finding(
            "bound",
            f"{typed} must make {due} steps here; yours made {made}. It stops when nothing is active "
            "or when this call has made max_steps steps, whichever comes first.",
            f"这里 {typed} 应当走 {due} 步，你的走了 {made} 步。没有活跃请求，"
            "或者本次调用已走满 max_steps 步时停止，以先到者为准。",
            hint=2,
            want=want,
            got=got,
            at=at,
            call=typed,
        )
    if got[already:] and counted(sim) == calls:
        return finding(
            "calls-step",
            f"{typed} made its steps without calling self.step(), so a subclass with a step of its own is passed by.",
            f"{typed} 没有调用 self.step() 就走了这些步，子类改写的 step 会被绕过。",
            hint=1,
            call=typed,
        )
    idle = counted(sim) - calls - (len(got) - already)
    if idle > 1:
        return finding(
            "stops-when-idle",
            f"{typed} called step() {idle} times with nothing left to do; it stops at the first None.",
            f"{typed} 在没有活跃请求之后还调用了 {idle} 次 step()；第一次返回 None 就该停下。",
            hint=2,
            call=typed,
        )
    try:
        returned.call("append", "probe")
    except StudentError as error:
        if not error.is_a("AttributeError"):
            raise
    if sim.get("timeline") != [*want, "probe"]:
        return finding(
            "returns-timeline",
            f"{typed} must return self.timeline itself: the same list, not a copy. "
            f"Yours returned {kind_of(returned, 'en')}.",
            f"{typed} 必须返回 self.timeline 本身：同一个列表，不是副本。你返回的是{kind_of(returned, 'zh')}。",
            hint=0,
            call=typed,
        )
    returned.call("pop")
    return None


def kind_of(returned: Remote, lang: str) -> str:
    """What came back instead, in a word or two."""
    value = returned.data()
    if value is None:
        return {"en": "None: is there a return?", "zh": " None：是不是没有 return？"}[lang]
    return {"en": "another list", "zh": "另一个列表"}[lang] if isinstance(value, list) else f" {value!r}"


LOOKS = """
class LooksSim(FastDecodeSchedulerSim):
    looks = 0

    def _schedule_key(self, req):
        LooksSim.looks += 1
        return super()._schedule_key(req)


def counted(read):
    def done(req):
        LooksSim.looks += 1
        return read(req)

    return property(done)


if isinstance(vars(RequestState).get("done"), property):
    RequestState.done = counted(RequestState.done.fget)
"""
LOOKS_PER_STEP = 8  # a heap needs three: one key in, one key back, one look at done


def check_fast(student: Student, case: Case) -> Finding | None:
    """The same scripts for the fast scheduler, and a crowd in which every look at a request is counted."""
    if "crowd" not in case:
        return check_step(student, case, "FastDecodeSchedulerSim")
    student.context = None
    student.new("FastDecodeSchedulerSim")  # so that a missing class is named as such
    student.load("check", LOOKS)
    sim, spec = student.new("LooksSim"), Spec()
    requests: list[dict[str, Any]] = [
        {
            "request_id": i,
            "prompt_len": 1 + i * 7919 % 97,
            "priority": i % 5,
            "cache_hit": i % 3 == 0,
            "max_new_tokens": 4,
        }
        for i in range(case["crowd"])
    ]
    sim.calls("enqueue", requests)
    timeline = sim.call("run", max_steps=10 * len(requests))
    for request in requests:
        spec.enqueue(**request)
    # Each request's own keys only grow, so the greedy order of all steps is their sorted order.
    steps = sorted(
        (phase, not r["cache_hit"], -r["priority"], r["prompt_len"] + made, r["request_id"])
        for r in requests
        for phase, made in [(0, 0), *((1, k) for k in range(r["max_new_tokens"]))]
    )
    want = [spec.advance(request_id) for *_, request_id in steps]
    looks = sim.get("looks")
    if isinstance(looks, int) and looks > LOOKS_PER_STEP * (len(requests) + len(want)):
        return finding(
            "scales",
            f"In {len(want)} steps over {len(requests)} requests yours looked at a request {looks} times (asked for "
            "its key or whether it is done): a step must not look at every request in the queue.",
            f"{len(requests)} 个请求走 {len(want)} 步，你的代码看了 {looks} 次请求（问它的键，或者问它完成没有）："
            "一步之内不能把队列里的每个请求都看一遍。",
        )
    if timeline == want:
        return None
    if not isinstance(timeline, list) or len(timeline) != len(want):
        return finding(
            "same-events",
            f"{len(requests)} requests must give {len(want)} events.",
            f"{len(requests)} 个请求应当产生 {len(want)} 个事件。",
        )
    at = next(i for i in range(len(want)) if timeline[i] != want[i])
    near = slice(max(0, at - 3), at + 4)
    return finding(
        "same-events",
        f"With {len(requests)} requests, event {at + 1} is not the one that DecodeSchedulerSim gives.",
        f"{len(requests)} 个请求时，第 {at + 1} 个事件和 DecodeSchedulerSim 的不同。",
        want=want[near],
        got=timeline[near],
        at=at - near.start,
    )


def called(name: str, arguments: dict[str, Any]) -> str:
    """A call as one would type it."""
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


def shown(case: Case) -> list[str]:
    """A case as the calls it makes, as one would type them."""
    orders = case.get("script", [])
    lines = [called("enqueue", a) if name == "enqueue" else f"step() × {a or '…'}" for name, a in orders]
    lines += [called("enqueue", r) for r in case.get("requests", [])]
    lines += [called("RequestState", r) for r in case.get("states", [])]
    lines += [f"enqueue(…) × {case['crowd']}", "run()"] if "crowd" in case else []
    lines += ["run()" if n is None else f"run(max_steps={n})" for n in case.get("runs", [])]
    lines += [f"run(max_steps={case['after']})"] if case.get("after") else []
    return lines + [called("enqueue", r) for r in case.get("then", [])]


def ask(request_id: int, prompt_len: Any, **options: Any) -> dict[str, Any]:
    """A request as keywords of enqueue."""
    return {"request_id": request_id, "prompt_len": prompt_len, **options}


def script(*requests: dict[str, Any]) -> list[list[Any]]:
    """Enqueue these, then step to the end."""
    return [*(["enqueue", r] for r in requests), ["steps", None]]


WORKED_CASE = [
    ask(1, 2, priority=2, cache_hit=True),
    ask(2, 3, priority=1),
    ask(3, 1, priority=3, cache_hit=True),
]


SHOWN = [
    ask(1, 3),
    ask(2, 4, cache_hit=True),
    ask(3, 2),
]  # not the worked case, which the text has one predict


def picture(student: Student, name: str = "DecodeSchedulerSim") -> list[dict[str, Any]]:
    """The answer's own timeline, shown when its check passes."""
    sim = student.new(name)
    sim.calls("enqueue", SHOWN)
    return sim.call("run", max_steps=20)


STRIPS: list[Case] = [
    {
        "name": "one-field-at-a-time",
        "script": script(ask(5, 2), ask(4, 2), ask(3, 1), ask(2, 9, priority=1), ask(1, 9, cache_hit=True)),
    },
    {
        "name": "late-arrival",
        "script": [["enqueue", ask(1, 3)], ["steps", 2], ["enqueue", ask(2, 5)], ["steps", None]],
    },
    {"name": "own-length", "script": script(ask(1, 4, max_new_tokens=1), ask(2, 1, max_new_tokens=3))},
    {
        "name": "after-the-end",
        "script": [["enqueue", ask(1, 1)], ["steps", None], ["enqueue", ask(2, 1)], ["steps", None]],
    },
    {"name": "empty", "script": [["steps", None]]},
    {"name": "a-key-of-its-own", "own_key": True, "script": [["enqueue", ask(i, 1)] for i in (4, 6, 5)]},
    {"name": "worked-case", "script": script(*WORKED_CASE)},
]
VISIBLE: dict[str, list[Case]] = {
    "ch01.1": [
        {
            "name": "in-order",
            "requests": [
                ask(7, 3),
                ask(0, 5, priority=4, cache_hit=True),
                ask(5, 1, priority=-2, max_new_tokens=9),
            ],
        },
        {
            "name": "bad-lengths",
            "requests": [ask(1, 2), *(ask(2, bad) for bad in (0, -1, True, 2.5, "3"))],
        },
        {
            "name": "bad-output-lengths",
            "requests": [ask(1, 2), *(ask(2, 2, max_new_tokens=bad) for bad in (0, -4, True))],
        },
        {"name": "taken-id", "requests": [ask(1, 2), ask(1000, 2), ask(1, 5), ask(1000, 3)]},
        {
            "name": "id-of-a-finished-request",
            "requests": [ask(1, 1)],
            "after": 9,
            "then": [ask(1, 1), ask(2, 1)],
        },
    ],
    "ch01.2": [
        {"name": "prefill-or-decode", "states": [ask(1, 5), ask(1, 5, phase="decode")]},
        {"name": "hit-or-miss", "states": [ask(1, 5, cache_hit=True), ask(1, 5, cache_hit=False)]},
        {"name": "priorities", "states": [ask(1, 5, priority=p) for p in (0, 3, -2)]},
        {"name": "lengths", "states": [ask(1, 5), ask(1, 8), ask(1, 5, generated_len=2, phase="decode")]},
        {"name": "ids", "states": [ask(1, 5), ask(9, 5)]},
    ],
    "ch01.3": STRIPS,
    "ch01.4": [
        {"name": "worked-case", "requests": WORKED_CASE, "runs": [20]},
        {"name": "bounded", "requests": WORKED_CASE, "runs": [4]},
        {"name": "bound-counts-this-call", "requests": WORKED_CASE, "runs": [3, 2, 20]},
        {"name": "no-steps", "requests": WORKED_CASE, "runs": [0, 1]},
        {"name": "negative-bound", "requests": WORKED_CASE, "runs": [2, -1, 2]},
        {"name": "default-bound", "requests": [ask(1, 150)], "runs": [None, None]},
        {"name": "nothing-to-do", "requests": [], "runs": [5]},
        {"name": "a-far-bound", "requests": WORKED_CASE, "runs": [10_000]},
    ],
    "ch01.5": [
        *STRIPS,
        {"name": "crowd", "crowd": 300},
    ],
}
CHECKS = {
    "ch01.1": check_enqueue,
    "ch01.2": check_key,
    "ch01.3": check_step,
    "ch01.4": check_run,
    "ch01.5": check_fast,
}
PICTURES = {
    "ch01.3": picture,
    "ch01.4": picture,
    "ch01.5": lambda student: picture(student, "FastDecodeSchedulerSim"),
}
