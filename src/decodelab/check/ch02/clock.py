"""TODO 1: the calls that an answer's loop made, walked with a clock of the check's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from decodelab.check.ch02.common import probe, same, unreadable
from decodelab.check.ch02.toy import Prices, ToySim
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

OUTSIDE = both(en="Requests that are not in yet", zh="还没有放进来的请求")


class Served(NamedTuple):
    """A step as it must have been: whom it served, from when to when, and whether the clock had just jumped."""

    request_id: int
    start: float
    end: float
    jumped: bool
    decode: bool


class Walk:
    """The spec's own clock: requests outside, a scheduler of the same order, the steps so far."""

    def __init__(self, case: Case) -> None:
        self.sim, self.cost = ToySim(case["order"]), Prices(*case["prices"])
        self.outside = {request["request_id"]: request for request in case["requests"]}
        self.now, self.jumped = 0.0, False
        self.let_in = 0  # since the last step, or call for one
        self.steps: list[Served] = []

    def due(self) -> list[int]:
        """Who has arrived and is not in, in order of arrival."""
        come = [r for r in self.outside.values() if r["arrival_time"] <= self.now]
        return [r["request_id"] for r in sorted(come, key=lambda r: r["arrival_time"])]

    def enter(self, request_id: int) -> None:
        """Let a request in."""
        request = self.outside.pop(request_id)
        self.sim.enqueue(request_id, request["prompt_len"], max_new_tokens=request["max_new_tokens"])
        self.let_in += 1

    def step(self) -> None:
        """Make a step and pay for it; with nobody there, pass on to the next arrival."""
        event = self.sim.step() if self.sim.active else None
        if event is not None:
            start, self.now = self.now, self.now + self.cost(*demand(event))
            decode = event["phase"] == "decode"
            self.steps.append(Served(event["request_id"], start, self.now, self.jumped, decode))
        elif self.outside:
            self.now = max(self.now, min(r["arrival_time"] for r in self.outside.values()))
        self.jumped, self.let_in = event is None, 0

    def over(self) -> bool:
        """Whether everybody has been served."""
        return not self.outside and not self.sim.active


def demand(event: dict[str, Any]) -> tuple[int, int, int]:
    """New tokens, positions read, and pairs of a step, counted."""
    if event["phase"] == "prefill":
        return event["prompt_len"], event["prompt_len"], sum(range(1, event["prompt_len"] + 1))
    past = event["prompt_len"] + event["generated_len"]
    return 1, past, past


def expected(case: Case) -> list[Served]:
    """Every step that a case must give."""
    walk = Walk(case)
    while not walk.over():
        for request_id in walk.due():
            walk.enter(request_id)
        walk.step()
    return walk.steps


def check_clock(student: Student, case: Case) -> Finding | None:
    """Run a workload; then who went in when, how long each step took, and the timings."""
    answer = probe(student, "clocked", ["ClockedSim"], case["requests"], case["order"], case["prices"])
    if not isinstance(answer, dict) or not answer.keys() >= {"calls", "recorded", "timings", "stands_still"}:
        return unreadable("run", answer)
    want = expected(case)
    return calls_in_order(case, answer["calls"], answer["stands_still"] is True) or (
        steps_match(want, answer["recorded"]) or timings_match(case, want, answer["timings"])
    )


def calls_in_order(case: Case, calls: Any, stands_still: bool) -> Finding | None:
    """Nobody goes in before their time or after a step that they should have been in for; all are served."""
    walk = Walk(case)
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, (list, tuple)) or len(call) != 2:
            return unreadable("run", call)
        name, request_id = call
        if name == "enqueue":
            if type(request_id) is not int or request_id not in walk.outside:
                return unreadable("run", call)
            if broken := too_early(walk, request_id):
                return broken
            walk.enter(request_id)
        elif broken := left_outside(walk):
            return broken
        else:
            walk.step()
    if stands_still:
        return endless()
    return None if walk.over() else not_served(walk)


def too_early(walk: Walk, request_id: int) -> Finding | None:
    """A request that is let in before it has arrived, or before another that came first."""
    arrival = walk.outside[request_id]["arrival_time"]
    if arrival > walk.now and walk.jumped:
        return not_jumped(walk)
    if arrival > walk.now:
        return finding(
            "no-work-before-arrival",
            f"Request {request_id} arrives at {arrival} s, but went in at {walk.now} s.",
            f"请求 {request_id} 在 {arrival} 秒才到达，却在 {walk.now} 秒就放了进来。",
            hint=2,
            state=list(walk.outside.values()),
            label=OUTSIDE,
        )
    if request_id != walk.due()[0]:
        return finding(
            "in-order-of-arrival",
            f"Request {walk.due()[0]} arrived before request {request_id} and goes in first; "
            "of two that arrive together, the one that the workload names first.",
            f"请求 {walk.due()[0]} 比请求 {request_id} 先到，应当先放进来；同时到达的，按负载里的先后。",
            state=list(walk.outside.values()),
            label=OUTSIDE,
        )
    return None


def left_outside(walk: Walk) -> Finding | None:
    """A step that is made while somebody who has arrived is not in."""
    if not (late := walk.due()):
        return None
    if walk.jumped and not walk.let_in:
        return not_jumped(walk)
    arrival = walk.outside[late[0]]["arrival_time"]
    return finding(
        "arrivals-before-each-step",
        f"A step was made at {walk.now} s while request {late[0]}, there since {arrival} s, was not in: "
        "before each step, everybody goes in whose arrival_time is at most now.",
        f"在 {walk.now} 秒走了一步，而 {arrival} 秒就已到达的请求 {late[0]} 还没放进来：每一步之前，"
        "到达时刻不晚于 now 的请求都要先放进来。",
        hint=2,
        state=list(walk.outside.values()),
        label=OUTSIDE,
    )


def not_jumped(walk: Walk) -> Finding:
    """The clock did not go to the next arrival when nobody was there."""
    return finding(
        "idle-jumps",
        f"Nobody was there and the next arrival is at {walk.now} s, so self.now becomes {walk.now}; then the loop "
        "comes round, and just those go in who have arrived by then.",
        f"没有人可服务，下一个到达时刻是 {walk.now} 秒，所以 self.now 应当变成 {walk.now}；然后循环转回开头，"
        "恰好把那时已到达的放进来。",
        hint=2,
        state=list(walk.outside.values()),
        label=OUTSIDE,
    )


def endless() -> Finding:
    """The loop asks for steps for ever with nobody there."""
    return finding(
        "idle-jumps",
        "Nobody was there, and the loop asked for steps without end: where somebody is to come, set self.now to "
        "the next arrival; where nobody is, end.",
        "没有人可服务，循环却没完没了地要求走步：还有人没到，就把 self.now 设成下一个到达时刻；没有人要来了，就结束。",
        hint=2,
    )


def not_served(walk: Walk) -> Finding:
    """The loop ended too soon."""
    open_ = [r["request_id"] for r in walk.sim.active] + list(walk.outside)
    return finding(
        "serves-everyone",
        f"run ended while these requests were not finished: {open_}. It ends when step() returns None "
        "and nobody is to come.",
        f"run 结束时，这些请求还没有完成：{open_}。只有 step() 返回 None、而且没有人要来了，才该结束。",
        hint=2,
    )


def steps_match(want: list[Served], recorded: Any) -> Finding | None:
    """Each step is recorded, from when to when."""
    got = recorded if isinstance(recorded, list) else []
    for number, step in enumerate(want):
        row = got[number] if number < len(got) else None
        if not isinstance(row, (list, tuple)) or len(row) != 3 or row[0] != step.request_id:
            return not_recorded(number, step)
        if not same(row[1], step.start) or not same(row[2], step.end):
            return wrong_times(number, step, row) if len(got) == len(want) else not_recorded(number, step)
    return None


def not_recorded(number: int, step: Served) -> Finding:
    """A step that is missing from the log."""
    return finding(
        "records-every-step",
        f"Step {number} served request {step.request_id}, but self.record was not called for it.",
        f"第 {number} 步服务的是请求 {step.request_id}，却没有为它调用 self.record。",
    )


def wrong_times(number: int, step: Served, row: Any) -> Finding:
    """A step that began or ended at another time."""
    right, wrong = f"{step.start} s … {step.end} s", f"{row[1]!r:.30} … {row[2]!r:.30}"
    if not same(row[1], step.start) and same(row[2], step.end):
        return finding(
            "start-before-cost",
            f"Step {number} was recorded as {wrong} instead of {right}: start is what self.now was before "
            "the cost was added.",
            f"第 {number} 步记成了 {wrong}，应当是 {right}：start 是加上代价之前的 self.now。",
            hint=2,
        )
    if step.jumped and not same(row[1], step.start):
        return finding(
            "idle-jumps",
            f"Nobody was there before step {number}, so it begins when request {step.request_id} arrives: {right}; "
            f"yours: {wrong}.",
            f"第 {number} 步之前没有人在，所以它从请求 {step.request_id} 到达时开始：{right}；你的是 {wrong}。",
            hint=2,
        )
    if same(row[1], step.start) and row[1] == row[2]:
        return finding(
            "time-advances-by-cost",
            f"Step {number}, for request {step.request_id}, must be recorded as {right}; yours is {wrong}: first move "
            "self.now on by self.cost(*work(event)), then call self.record.",
            f"第 {number} 步（请求 {step.request_id}）应当记成 {right}，你的是 {wrong}："
            "先把 self.now 往前拨 self.cost(*work(event))，再调用 self.record。",
        )
    return finding(
        "time-advances-by-cost",
        f"Step {number}, for request {step.request_id}, must take {right}; yours took {wrong}. "
        "The clock moves on by self.cost(*work(event)), no more and no less.",
        f"第 {number} 步（请求 {step.request_id}）应当是 {right}，你的是 {wrong}。"
        "时钟往前拨的正好是 self.cost(*work(event))。",
    )


def timings_match(case: Case, want: list[Served], timings: Any) -> Finding | None:
    """One Timing a request, in order of arrival, with the times of its tokens: none is lost, none made up."""
    order = sorted(case["requests"], key=lambda r: r["arrival_time"])
    if not isinstance(timings, list):
        return finding(
            "returns-timings",
            f"run returned {timings}: leave the loop with `break`, so that the last line returns the timings.",
            f"run 返回了 {timings}：用 `break` 离开循环，让最后一行去返回 timings。",
            hint=0,
        )
    got = timings
    ids = [t.get("request_id") if isinstance(t, dict) else t for t in got]
    if ids != [r["request_id"] for r in order]:
        return finding(
            "returns-timings",
            f"run must return one Timing per request, in order of arrival; yours are of {ids!r:.200}.",
            f"run 必须给每个请求返回一个 Timing，按到达次序；你返回的依次属于 {ids!r:.200}。",
            hint=0,
        )
    for request, timing in zip(order, got, strict=True):
        steps = [s for s in want if s.request_id == request["request_id"]]
        tokens, first = [s.end for s in steps if s.decode], steps[0].start
        times = timing.get("token_times")
        alike = isinstance(times, list) and len(times) == len(tokens) and all(map(same, times, tokens))
        if not alike or not same(timing.get("scheduled_time"), first) or timing.get("reason") != "length":
            return finding(
                "tokens-conserved",
                f"Request {request['request_id']} must have been begun at {first} s, have tokens at {tokens} s and "
                f"end by length; yours: {timing!r:.300}.",
                f"请求 {request['request_id']} 应当从 {first} 秒开始，token 在 {tokens} 秒，因 length 结束；你的是 {timing!r:.300}。",
            )
    return None
