"""Chapter 4's contract on the reference: cases worked by hand, books kept by a machine, an oracle beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reference import reference

from decodelab.check.ch04.batches import one_batch_at_a_time
from decodelab.check.ch04.cases import REASONS, VISIBLE, limits
from decodelab.check.rules import Finding
from decodelab.check.schedule.spec import KEYS
from decodelab.check.schedule.walk import Walk, job
from decodelab.contract import Finished, Plan, Refused, SchedulerConfig, Tokens
from decodelab.request import EOS, Job, Request
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor
from decodelab.workload import synthetic

ch04 = reference("ch04")
FLOW = 7  # a token that stops nothing


class FCFS:
    static = True

    def key(self, request: Request, now: float) -> Any:
        return request.arrival_time


class Urgent(FCFS):
    def key(self, request: Request, now: float) -> Any:
        return -request.priority, request.arrival_time


class Restless(Urgent):
    static = False  # no heap: asked anew every time


class Patience(FCFS):
    static = False

    def key(self, request: Request, now: float) -> Any:
        return now - request.arrival_time < request.priority, request.arrival_time


def config(seqs: int, budget: int) -> SchedulerConfig:
    return SchedulerConfig(**limits(seqs, budget))


def static(seqs: int, budget: int) -> Any:
    return ch04.StaticBatchScheduler(config(seqs, budget), FCFS())


def continuous(seqs: int, budget: int) -> Any:
    return ch04.ContinuousBatchScheduler(config(seqs, budget), FCFS())


def dynamic(seqs: int, budget: int) -> Any:
    return ch04.DynamicBatchScheduler(config(seqs, budget), FCFS(), target=1.5)


KINDS = [static, continuous, dynamic]


def scheduled(scheduler: Any, *jobs: Job) -> list[dict[Any, int]]:
    return [step.plan.scheduled for step in Loop(jobs, scheduler, SimExecutor(), StepClock())]


# --- worked by hand ---------------------------------------------------------------------------

THREE = [Job(Request(1, 0.0, 5, 4)), Job(Request(2, 0.0, 3, 1)), Job(Request(3, 0.0, 6, 2), arrival_step=1)]


def test_the_worked_case_continuous():
    assert scheduled(continuous(2, 8), *THREE) == [{1: 5, 2: 3}, {1: 1, 3: 6}, {1: 1, 3: 1}, {1: 1}]


def test_the_worked_case_static():
    assert scheduled(static(2, 8), *THREE) == [{1: 5, 2: 3}, {1: 1}, {1: 1}, {1: 1}, {3: 6}, {3: 1}]


def test_a_prompt_that_does_not_fit_holds_up_those_behind_it():
    jobs = [Job(Request(1, 0.0, 4, 3)), Job(Request(2, 0.0, 5, 1)), Job(Request(3, 0.0, 1, 1))]
    assert scheduled(continuous(4, 8), *jobs) == [{1: 4}, {1: 1, 2: 5, 3: 1}, {1: 1}]


def test_who_is_in_a_step_for_the_first_time_is_new_and_has_nothing_cached():
    scheduler = continuous(2, 8)
    scheduler.add_request(Request(1, 0.0, 3, 2), 0.0)
    assert scheduler.schedule(0.0) == Plan(scheduled={1: 3}, start={1: 0}, new=[1], cached={1: 0})
    assert scheduler.update(scheduler.schedule(0.0), {1: [FLOW]}, 1.0) == {}
    assert scheduler.schedule(1.0) == Plan(scheduled={1: 1}, start={1: 3})


def test_the_chapters_claims_about_skew():
    """The table at the top, and that answers of one length leave nothing to gain."""
    answers = [request.max_new_tokens for request in synthetic("azure-chat-like", 8000, seed=1)]
    mean = sum(answers) / len(answers)
    for size, longest, share in [(2, 298, 70), (4, 390, 54), (8, 459, 46), (16, 516, 41), (32, 580, 36)]:
        groups = [answers[i : i + size] for i in range(0, len(answers), size)]
        longest_mean = sum(map(max, groups)) / len(groups)
        assert (round(longest_mean), round(100 * mean / longest_mean)) == (longest, share)
    alike = [Job(Request(i, 0.0, 2, 5)) for i in range(12)]
    assert len(scheduled(static(4, 64), *alike)) == len(scheduled(continuous(4, 64), *alike)) == 15


# --- the door, and configurations ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"prompt_len": n}, "bad_length") for n in (0, -1, True, 2.0, "3", None)]
    + [({"max_new_tokens": n}, "bad_length") for n in (0, -1, True, 1.5)]
    + [({"prompt_len": 9}, "over_budget"), ({"request_id": 1}, "duplicate_id")],
)
def test_what_can_never_be_served_is_refused_and_changes_nothing(kind, changed, reason):
    scheduler = kind(2, 8)
    scheduler.add_request(Request(1, 0.0, 2, 1), 0.0)
    before = scheduler.state(), set(scheduler.ids), set(scheduler.sequences)
    with pytest.raises(Refused) as refused:
        scheduler.add_request(replace(Request(5, 0.0, 2, 2), **changed), 0.0)
    assert refused.value.reason == reason
    assert (scheduler.state(), set(scheduler.ids), set(scheduler.sequences)) == before
    scheduler.add_request(Request(5, 0.0, 8, 2), 0.0)  # an id that was refused is free


@pytest.mark.parametrize("name", ["max_num_seqs", "max_num_batched_tokens"])
@pytest.mark.parametrize("value", [0, -1, True, 2.5, None])
def test_a_bad_configuration_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        SchedulerConfig(**{name: value})


# --- the queue ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3), st.booleans())))
def test_the_heap_and_the_scan_agree_on_who_is_next(moves):
    """Ids come back after they left: an old entry of the heap must not speak for a new sequence."""
    queues = [ch04.WaitingQueue(Urgent()), ch04.WaitingQueue(Restless())]
    held: dict[int, list[Any]] = {}
    for number, priority, arrival, leaves in moves:
        if number in held and leaves:
            for queue, seq in zip(queues, held.pop(number), strict=True):
                queue.remove(seq)
        elif number not in held:
            held[number] = [ch04.Sequence(Request(number, arrival, 1, 1, priority)) for _ in queues]
            for queue, seq in zip(queues, held[number], strict=True):
                queue.push(seq, 0.0)
        order = sorted(held, key=lambda i: (*Urgent().key(held[i][0].request, 0.0), i))
        for queue, seqs in zip(queues, zip(*held.values(), strict=True), strict=False):
            assert [seq.request_id for seq in queue.ordered(0.0)] == order
            assert queue.peek(0.0).request_id == order[0]
            assert queue.peek(0.0) in seqs
        assert [len(queue) for queue in queues] == [len(held)] * 2
        assert held or [queue.peek(0.0) for queue in queues] == [None, None]


# --- what a token does ----------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 9), st.lists(st.lists(st.integers(1, 5), max_size=4), max_size=9))
def test_tokens_count_up_to_the_first_that_ends_the_answer(prompt, wanted, steps):
    seq = ch04.Sequence(Request(1, 0.0, prompt, wanted, stop_token_ids=(5, 4)))
    answer: list[int] = []
    for tokens in steps:
        reason = ch04.take_tokens(seq, tokens)
        whole = [*answer, *tokens]
        ends = [i for i, token in enumerate(whole, 1) if token in (5, 4) or i == wanted]
        answer = whole[: ends[0]] if ends else whole
        assert seq.num_tokens == prompt + len(answer)
        assert reason == (None if not ends else "stop" if answer[-1] in (5, 4) else "length")
        if reason:
            break


# --- whole runs beside the oracle ---------------------------------------------------------------

workloads = st.lists(
    st.builds(
        job,
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(0, 6),
        step=st.integers(0, 8),
        priority=st.integers(0, 2),
        stop_at=st.none() | st.integers(0, 5),
        abort_at=st.none() | st.integers(0, 12),
    ),
    max_size=14,
)
cases = st.builds(
    lambda seqs, budget, jobs, policy: {"config": limits(seqs, budget), "jobs": jobs, "policy": policy},
    st.integers(1, 4),
    st.integers(1, 14),
    workloads,
    st.sampled_from(["FCFS", "PriorityOrder", "Patience"]),
)
POLICIES = {"FCFS": FCFS, "PriorityOrder": Urgent, "Patience": Patience}


def walked(name: str, case: dict[str, Any]) -> Finding | None:
    scheduler = getattr(ch04, name)(SchedulerConfig(**case["config"]), POLICIES[case["policy"]]())
    is_static = name == "StaticBatchScheduler"
    rules = [one_batch_at_a_time(KEYS[case["policy"]])] if is_static else []
    return Walk(case, scheduler, REASONS, rules, exact=not is_static).run()


@pytest.mark.parametrize("name", ["StaticBatchScheduler", "ContinuousBatchScheduler"])
@given(case=cases)
def test_reference_and_oracle_agree_on_random_workloads(name, case):
    assert walked(name, case) is None


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("StaticBatchScheduler", "ContinuousBatchScheduler"),
        ("ContinuousBatchScheduler", "StaticBatchScheduler"),
    ],
)
def test_each_is_told_from_the_other(name, other, monkeypatch):
    case = next(c for c in VISIBLE["ch04.5"] if c["name"] == "skewed-lengths") | {"policy": "FCFS"}
    assert walked(name, case) is None
    monkeypatch.setattr(getattr(ch04, name), "schedule", getattr(ch04, other).schedule)
    found = walked(name, case)
    assert found
    assert found.rule in ("one-batch-at-a-time", "fills-free-slots")


# --- the machine: nothing is lost, whatever happens when ------------------------------------------


class Books(RuleBasedStateMachine):
    """A scheduler, and beside it who was taken in, how far each is and where it will end."""

    kind = staticmethod(continuous)
    SLOTS, BUDGET = 3, 7

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = self.kind(self.SLOTS, self.BUDGET)
        self.now = 0.0
        self.active: dict[int | str, dict[str, Any]] = {}
        self.over: set[int | str] = set()

    @rule(i=st.integers(0, 9), prompt=st.integers(0, 9), wanted=st.integers(0, 5), stop=st.integers(0, 5))
    def add(self, i: int, prompt: int, wanted: int, stop: int) -> None:
        bad = not prompt or not wanted or prompt > self.BUDGET or i in self.active or i in self.over
        request = Request(i, self.now, prompt, wanted, stop_token_ids=(EOS,))
        if bad:
            with pytest.raises(Refused):
                self.scheduler.add_request(request, self.now)
            return
        self.scheduler.add_request(request, self.now)
        self.active[i] = {"has": prompt, "done": 0, "left": wanted, "stop": stop}

    @rule(i=st.integers(0, 12))
    def abort(self, i: int) -> None:
        self.scheduler.abort(i, self.now)
        if self.active.pop(i, None):
            self.over.add(i)

    @precondition(lambda self: self.active)
    @rule(aborted=st.none() | st.integers(0, 9), seconds=st.sampled_from([1.0, 2.0]))
    def step(self, aborted: int | None = None, seconds: float = 1.0) -> None:
        """One step; somebody may give up while it is computed."""
        plan = self.scheduler.schedule(self.now)
        assert sum(plan.scheduled.values()) <= self.BUDGET
        assert len(plan.scheduled) <= self.SLOTS
        assert plan.scheduled, "somebody is active, so somebody runs"
        for i, count in plan.scheduled.items():
            entry = self.active[i]
            assert (plan.start[i], count) == (entry["done"], entry["has"] - entry["done"])
            assert (i in plan.new) == (entry["done"] == 0)
            entry["done"] = entry["has"]
        if aborted is not None:
            self.abort(aborted)
        self.now += seconds
        self.finish(plan)

    def finish(self, plan: Plan) -> None:
        tokens: Tokens = {}
        due: Finished = {}
        for i in plan.scheduled:
            entry = self.active.get(i, {"stop": 1, "left": 9, "has": 0})  # who gave up gets a token, too
            tokens[i] = [FLOW if entry["stop"] else EOS]
            entry["has"] += 1
            entry["left"] -= 1
            if i in self.active and not (entry["stop"] and entry["left"]):
                due[i] = "length" if entry["stop"] else "stop"
            entry["stop"] -= 1
        assert self.scheduler.update(plan, tokens, self.now) == due
        for i in due:
            del self.active[i]
            self.over.add(i)

    @invariant()
    def nobody_is_lost_or_there_twice(self) -> None:
        running, waiting, _ = self.scheduler.state()
        assert sorted([*running, *waiting]) == sorted(self.active)
        assert len(running) <= self.SLOTS
        assert set(running) == {i for i, entry in self.active.items() if entry["done"]}

    def teardown(self) -> None:
        """Everybody who was taken in finishes, within as many steps as there is work."""
        for _ in range(sum(entry["left"] for entry in self.active.values())):
            if self.active:
                self.step()
        assert not self.active
        assert self.scheduler.state()[:2] == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_no_request_and_no_token_is_lost(kind):
    machine = type(f"Books_{kind.__name__}", (Books,), {"kind": staticmethod(kind)})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30))


# --- the batch size that adjusts itself -----------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 60))
def test_the_limit_settles_below_what_is_late(just_in_time, most, start):
    scheduler = ch04.DynamicBatchScheduler(config(most, 64), FCFS(), target=float(just_in_time))
    scheduler.limit = min(start, most)
    seen = []
    for _ in range(3 * max(most, start)):
        scheduler.adjust(float(scheduler.limit))
        seen.append(scheduler.limit)
    assert all(1 <= limit <= most for limit in seen)
    settled = seen[2 * max(most, start) :]
    low, high = max(1, (just_in_time + 1) // 2), just_in_time + 1
    assert all(low <= limit <= high for limit in settled) or set(settled) == {most}


def test_a_smaller_limit_throws_nobody_out():
    scheduler = dynamic(8, 64)
    for i in range(8):
        scheduler.add_request(Request(i, 0.0, 2, 20), 0.0)
    sizes = []
    for seconds in [1.0] * 7 + [2.0, 2.0, 2.0, 1.0]:
        plan = scheduler.schedule(0.0)
        sizes.append(len(plan.scheduled))
        scheduler.update(plan, {i: [FLOW] for i in plan.scheduled}, seconds)
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8]
    assert scheduler.limit == 2
