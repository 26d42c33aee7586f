"""The loop: nothing before its time, nothing lost, the same again; and simulated execution."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from schedulers import PagedTiny, TinyScheduler, records_of
from strategies import CROWD, TIGHT, configs, costs, per_token, workloads

from decodelab import run
from decodelab.contract import Executor, Plan, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.log import Record
from decodelab.request import EOS, Job, Request
from decodelab.run import IDLE_STEPS, Clock, Loop, Step, StepClock, TimeClock, WallClock
from decodelab.sim.executor import FIRST_TOKEN, Cost, SimExecutor
from decodelab.workload import ClosedLoop

Workload = list[Job]


class Counting(SimExecutor):
    """Keeps count of whom it was told of, and of tokens by request."""

    def __init__(self, cost: Cost = per_token) -> None:
        super().__init__(cost)
        self.begun: Counter = Counter()
        self.over: Counter = Counter()

    def begin(self, job: Job) -> None:
        self.begun[job.request.request_id] += 1
        super().begin(job)

    def end(self, request_id: int | str) -> None:
        self.over[request_id] += 1
        super().end(request_id)


def scheduler(config: SchedulerConfig | None = None) -> TinyScheduler:
    config = config or SchedulerConfig()
    return PagedTiny(config) if config.num_blocks else TinyScheduler(config)


def steps(
    workload: run.Workload,
    config: SchedulerConfig | None = None,
    clock: Clock | None = None,
    executor: Executor | None = None,
) -> list[Step]:
    return list(Loop(workload, scheduler(config), executor or SimExecutor(), clock))


def untimed(records: list[Record]) -> str:
    return json.dumps([{k: v for k, v in r.items() if k not in ("start", "time")} for r in records])


# The same again


@given(workloads, configs, costs)
def test_the_same_workload_gives_the_same_log(
    workload: Workload, config: SchedulerConfig, cost: Cost
) -> None:
    once, again = (records_of(workload, config, cost, StepClock()) for _ in range(2))
    assert json.dumps(once) == json.dumps(again)


@given(workloads, configs, costs)
def test_on_the_logical_clock_only_times_depend_on_the_cost(
    workload: Workload, config: SchedulerConfig, cost: Cost
) -> None:
    logs = [records_of(workload, config, each, StepClock()) for each in (cost, per_token)]
    assert untimed(logs[0]) == untimed(logs[1])


@given(st.permutations(range(8)), st.sampled_from([StepClock, TimeClock]))
def test_a_workload_may_stand_in_any_order(order: list[int], clock: Callable[[], Clock]) -> None:
    jobs = [Job(Request(i, 3.0 * i, 5, 4), 3 * i) for i in range(8)]
    assert records_of([jobs[i] for i in order], clock=clock()) == records_of(jobs, clock=clock())


def test_who_stands_first_comes_first_where_times_are_equal() -> None:
    [first, *_] = steps([Request(i, 0.0, 1, 1) for i in "bca"])
    assert [request.request_id for request in first.arrived] == ["b", "c", "a"]


# Times


@given(workloads, configs, costs)
def test_nobody_is_served_before_arriving(workload: Workload, config: SchedulerConfig, cost: Cost) -> None:
    came: set = set()
    for step in steps(workload, config, TimeClock(), SimExecutor(cost)):
        came |= {request.request_id for request in step.arrived}
        assert all(request.arrival_time <= step.start for request in step.arrived)
        assert set(step.plan.scheduled) <= came


@given(workloads, configs)
def test_on_the_logical_clock_jobs_come_in_their_step(workload: Workload, config: SchedulerConfig) -> None:
    first: dict = {}
    for job in workload:
        request_id = job.request.request_id
        first[request_id] = min(job.arrival_step, first.get(request_id, job.arrival_step))
    came: dict = {}
    for step in steps(workload, config, StepClock()):
        for request in step.arrived:
            came.setdefault(request.request_id, step.number)
            assert request.arrival_time == step.start
    assert came == first


@given(workloads, configs, costs, st.sampled_from([StepClock, TimeClock]))
def test_time_goes_on_by_what_steps_take(
    workload: Workload, config: SchedulerConfig, cost: Cost, clock: Callable[[], Clock]
) -> None:
    before = Step(-1, 0.0)
    for step in steps(workload, config, clock(), SimExecutor(cost)):
        assert before.end <= step.start <= step.end
        assert step.number > before.number
        if not step.plan.scheduled:
            assert step.end == step.start
        before = step


def test_idle_time_is_skipped() -> None:
    far = [Job(Request(0, 0.0, 1, 1)), Job(Request(1, 1e6, 1, 1), 10**6)]
    assert [step.number for step in steps(far, clock=StepClock())] == [0, 10**6]
    assert [step.start for step in steps(far, clock=TimeClock())] == [0.0, 1e6]


def test_the_wall_clock_sleeps_until_somebody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    class Slow(SimExecutor):
        def execute(self, plan: Plan) -> tuple[dict, float]:
            now[0] += 0.25
            return super().execute(plan)

    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(run.time, "sleep", sleep)
    took = steps([Request(0, 0.0, 1, 2), Request(1, 3.0, 1, 1)], clock=WallClock(), executor=Slow())
    assert [(step.start, step.end) for step in took] == [(0.0, 0.25), (0.25, 0.5), (3.0, 3.25)]
    assert sum(slept) == 2.5


# Nothing is lost


@given(workloads, configs, st.sampled_from([StepClock, TimeClock]))
def test_whoever_came_ends_once(
    workload: Workload, config: SchedulerConfig, clock: Callable[[], Clock]
) -> None:
    executor = Counting()
    ends: Counter = Counter()
    came = 0
    for step in steps(workload, config, clock(), executor):
        came += len(step.arrived)
        ends.update([*step.refused, *step.aborted, *step.plan.dropped, *step.finished])
    assert came == len(workload) == sum(ends.values())
    assert executor.begun == executor.over
    assert all(count == 1 for count in executor.begun.values())


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_an_answer_is_as_long_as_its_workload_says(workload: Workload, config: SchedulerConfig) -> None:
    unique = list({job.request.request_id: replace(job, abort_at=None) for job in workload}.values())
    answers: dict = {}
    reasons: dict = {}
    for step in steps(unique, config):
        for request_id, tokens in step.tokens.items():
            answers[request_id] = answers.get(request_id, []) + tokens
        reasons |= step.finished | step.refused
    for job in unique:
        request = job.request
        answer = answers.get(request.request_id, [])
        stopped = job.stop_at is not None and job.stop_at < request.max_new_tokens
        if reasons[request.request_id] == "stop":
            assert stopped
            assert len(answer) == (job.stop_at or 0) + 1
            assert answer[-1] == EOS
        elif reasons[request.request_id] == "length":
            assert not stopped
            assert answer == [FIRST_TOKEN + k for k in range(request.max_new_tokens)]


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_plans_take_a_request_up_where_it_was(workload: Workload, config: SchedulerConfig) -> None:
    computed: dict = {}
    for step in steps(workload, config, StepClock()):
        computed |= dict.fromkeys(step.plan.preempted, 0)
        for request_id, count in step.plan.scheduled.items():
            assert step.plan.start[request_id] == computed.get(request_id, 0)
            computed[request_id] = step.plan.start[request_id] + count


# Aborts


@pytest.mark.parametrize("clock", [StepClock, TimeClock])
@pytest.mark.parametrize(
    ("abort_at", "tokens"), [(0, 0), (5, 0), (6, 1), (9, 4)], ids=["before", "as-it-comes", "next", "later"]
)
def test_an_abort_is_there_before_the_step_is_planned(
    clock: Callable[[], Clock], abort_at: int, tokens: int
) -> None:
    job = Job(Request(0, 5.0, 3, 10), 5, abort_at=abort_at)
    taken = steps([job], clock=clock())
    assert sum(len(step.tokens.get(0, ())) for step in taken) == tokens
    assert [step.aborted for step in taken][-1] == [0]


@pytest.mark.parametrize("clock", [StepClock, TimeClock])
def test_an_abort_after_the_end_is_nothing(clock: Callable[[], Clock]) -> None:
    jobs = [Job(Request(0, 0.0, 1, 2), 0, abort_at=4), Job(Request(1, 3.0, 1, 4), 3)]
    taken = steps(jobs, clock=clock())
    assert not any(step.aborted for step in taken)
    assert [step.finished for step in taken if step.finished] == [{0: "length"}, {1: "length"}]


def test_aborts_of_one_moment_go_in_order_of_arrival_whatever_their_ids() -> None:
    jobs = [Job(Request(i, 0.0, 1, 9), 0, abort_at=2) for i in (7, "a", 3, "7")]
    [last] = [step for step in steps(jobs, clock=StepClock()) if step.aborted]
    assert last.aborted == [7, "a", 3, "7"]


def test_nobody_is_left_when_the_last_one_gives_up() -> None:
    taken = records_of(
        [Job(Request(0, 0.0, 9, 9), abort_at=1)], SchedulerConfig(num_blocks=4), clock=StepClock()
    )
    assert [(r["free_blocks"], r["free_after"]) for r in taken] == [(3, 3), (4, 4)]


# Refused


def test_a_taken_id_is_refused_and_the_first_goes_on() -> None:
    jobs = [Job(Request(0, 0.0, 2, 4)), Job(Request(0, 2.0, 9, 9), 2), Job(Request(0, 9.0, 9, 9), 9)]
    executor = Counting()
    taken = steps(jobs, clock=StepClock(), executor=executor)
    assert [step.number for step in taken if step.refused == {0: "duplicate_id"}] == [2, 9]
    assert sum(len(step.tokens.get(0, ())) for step in taken) == 4
    assert executor.begun == {0: 1}


def test_one_id_comes_once_a_step() -> None:
    jobs = [Job(Request(i, 0.0, 1, 3)) for i in (0, 0, 1, 0)]
    taken = steps(jobs, clock=StepClock())
    assert [[request.request_id for request in step.arrived] for step in taken] == [[0, 1], [0], [0]]
    assert [step.refused for step in taken] == [{}, {0: "duplicate_id"}, {0: "duplicate_id"}]


def test_an_id_refused_for_its_length_may_come_again() -> None:
    jobs = [Job(Request(0, 0.0, 0, 1)), Job(Request(0, 0.0, 1, 1))]
    first, second = steps(jobs, clock=StepClock())
    assert first.refused == {0: "bad_length"}
    assert second.finished == {0: "length"}


# Settings


@pytest.mark.parametrize(
    "odd",
    [
        {"watermark": "x"},
        {"watermark": None},
        {"enable_chunked_prefill": "no"},
        {"enable_prefix_caching": 0},
        {"reserve_full_prompt": None},
        {"max_num_seqs": 0},
    ],
)
def test_an_odd_setting_is_named_in_both_languages(odd: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(odd))} must be .* \| .*必须"):
        SchedulerConfig(**odd)


# Stuck


class Lazy(TinyScheduler):
    """Serves nobody before ``since`` (seconds)."""

    def __init__(self, since: float) -> None:
        super().__init__()
        self.since, self.asked = since, 0

    def schedule(self, now: float) -> Plan:
        self.asked += 1
        return super().schedule(now) if now >= self.since else Plan()


@pytest.mark.parametrize("clock", [StepClock, TimeClock])
def test_a_scheduler_that_never_serves_is_told_so(clock: Callable[[], Clock]) -> None:
    lazy = Lazy(since=1e9)
    with pytest.raises(DecodeLabError) as caught:
        list(Loop([Request(i, 0.0, 1, 1) for i in "ab"], lazy, SimExecutor(), clock()))
    assert lazy.asked == IDLE_STEPS
    for text in caught.value.text.values():
        assert "a, b" in text
        assert str(IDLE_STEPS) in text


def test_who_waits_for_a_later_moment_is_not_stuck() -> None:
    jobs = [Job(Request(0, 0.0, 1, 1)), Job(Request(1, 50.0, 1, 1))]
    taken = list(Loop(jobs, Lazy(since=20.0), SimExecutor()))
    assert [(step.start, step.finished) for step in taken if step.finished] == [
        (50.0, {0: "length", 1: "length"})
    ]


def test_an_abort_to_come_ends_the_waiting() -> None:
    jobs = [Job(Request(0, 0.0, 1, 1), abort_at=7), Job(Request(1, 0.0, 1, 1), abort_at=5)]
    lazy = Lazy(since=1e9)
    taken = list(Loop(jobs, lazy, SimExecutor()))
    assert [(step.start, step.aborted) for step in taken] == [(0.0, []), (5.0, [1]), (7.0, [0])]


def test_time_does_not_jump_to_the_abort_of_a_finished_request() -> None:
    class Sluggish(TinyScheduler):
        turn = 0

        def schedule(self, now: float) -> Plan:
            self.turn += 1
            return Plan() if self.turn == 3 else super().schedule(now)

    jobs = [Job(Request(0, 0.0, 1, 1), abort_at=1000), Job(Request(1, 0.0, 1, 4))]
    assert [step.start for step in Loop(jobs, Sluggish(), SimExecutor())] == [0.0, 1.0, 2.0, 2.0, 3.0]


# What the loop cannot go on with


def broken(loop: Callable[[], Iterable[Step]]) -> str:
    """What the loop says against it, in both languages."""
    with pytest.raises(DecodeLabError) as caught:
        list(loop())
    assert len(set(caught.value.text.values())) == 2
    return " ".join(caught.value.text.values())


@pytest.mark.parametrize("method", ["schedule", "update"])
@pytest.mark.parametrize("value", [None, [], "x" * 999])
def test_a_return_value_that_the_contract_does_not_know_is_named(method: str, value: Any) -> None:
    wrong = TinyScheduler()
    setattr(wrong, method, lambda *_: value)
    said = broken(lambda: Loop([Request(0, 0.0, 1, 1)], wrong, SimExecutor()))
    assert f"{method}()" in said
    assert len(said) < 400


@pytest.mark.parametrize("cost", [None, -1.0, math.nan, math.inf])
def test_a_step_takes_seconds(cost: Any) -> None:
    said = broken(lambda: Loop([Request(0, 0.0, 1, 1)], TinyScheduler(), SimExecutor(lambda *_: cost)))
    assert f"cost of a step came out as {cost}" in said


@pytest.mark.parametrize("moment", [None, "x", math.nan, math.inf])
def test_whoever_comes_comes_at_a_moment(moment: Any) -> None:
    by_time, by_step = Job(Request(7, moment, 1, 1)), Job(Request(7, 0.0, 1, 1), moment)
    for said in (broken(lambda: steps([by_time])), broken(lambda: steps([by_step], clock=StepClock()))):
        assert f"arrival of request 7 is {moment!r}" in said


@pytest.mark.parametrize("moment", ["x", math.nan, math.inf])
def test_whoever_gives_up_does_so_at_a_moment(moment: Any) -> None:
    job = Job(Request("a", 0.0, 1, 1), abort_at=moment)
    said = broken(lambda: Loop([Request(0, 0.0, 1, 1), job], TinyScheduler(), SimExecutor()))
    assert f"abort_at of request 'a' is {moment!r}" in said


def test_a_workload_that_answers_names_moments_too() -> None:
    class Endless(list):
        def ended(self, request_id: int | str, when: float) -> list[Request]:
            return [Request("next", math.nan, 1, 1)]

    said = broken(lambda: Loop(Endless([Request(0, 0.0, 1, 1)]), TinyScheduler(), SimExecutor()))
    assert "'next'" in said


def test_moments_may_be_numpys() -> None:
    jobs = [Job(Request(0, np.float32(0.5), 1, 1), abort_at=np.int64(9)), Job(Request(1, np.int64(2), 1, 1))]
    assert [step.start for step in steps(jobs)] == [0.5, 2.0]


# Users who wait for their answer

closed = st.builds(
    lambda n, users, think, seed: ClosedLoop([Request(i, 0.0, 3, 4) for i in range(n)], users, think, seed),
    n=st.integers(0, 20),
    users=st.integers(1, 5),
    think=st.sampled_from([0.0, 0.5, 10.0]),
    seed=st.integers(0, 99),
)


@given(closed, configs, st.sampled_from([StepClock, TimeClock]))
def test_in_a_closed_loop_nobody_asks_twice_at_once(
    workload: ClosedLoop, config: SchedulerConfig, clock: Callable[[], Clock]
) -> None:
    inside = came = 0
    for step in steps(workload, config, clock()):
        came += len(step.arrived)
        inside += len(step.arrived) - len(step.refused)
        assert inside <= workload.users
        inside -= len(step.finished)
    assert came == len(workload)
    assert inside == 0


@given(closed)
def test_a_closed_loop_begins_anew(workload: ClosedLoop) -> None:
    assert records_of(workload) == records_of(workload)


def test_who_does_not_think_asks_in_the_next_step() -> None:
    workload = ClosedLoop([Request(i, 0.0, 1, 2) for i in range(3)], users=1, think=0)
    taken = steps(workload, clock=StepClock())
    assert [step.number for step in taken if step.arrived] == [0, 2, 4]


def test_pauses_do_not_depend_on_the_scheduler() -> None:
    workload = ClosedLoop([Request(i, 0.0, 1, 2) for i in range(12)], users=3, think=5.0, seed=1)
    pauses = []
    for seconds in (1.0, 4.0):
        ended: list[float] = [0.0] * 3
        found: dict = {}
        for step in Loop(workload, TinyScheduler(), SimExecutor(lambda *_, s=seconds: s)):
            found |= {r.request_id: r.arrival_time for r in step.arrived}
            ended += [step.end] * len(step.finished)
        pauses.append([round(found[i] - ended[i], 9) for i in range(12)])
    assert pauses[0] == pauses[1]


def test_a_refused_user_asks_the_next_question() -> None:
    workload = ClosedLoop([Request(0, 0.0, 0, 1), Request(1, 0.0, 1, 1)], users=1, think=1)
    assert [step.finished for step in steps(workload)][-1] == {1: "length"}


# Simulated execution


def seen_by_cost(*plans: Plan, prompt_len: int = 10) -> list[tuple[int, ...]]:
    seen: list[tuple[int, ...]] = []

    def cost(*counts: int) -> float:
        seen.append(counts)
        return 1.0

    executor = SimExecutor(cost)
    for request_id in ("a", "b"):
        executor.begin(Job(Request(request_id, 0.0, prompt_len, 5)))
    for plan in plans:
        executor.execute(plan)
    return seen


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 50)), min_size=1, max_size=2))
def test_the_cost_gets_tokens_context_and_pairs(chunks: list[tuple[int, int]]) -> None:
    plan = Plan(
        scheduled={i: count for i, (count, _) in zip("ab", chunks, strict=False)},
        start={i: start for i, (_, start) in zip("ab", chunks, strict=False)},
    )
    [(new_tokens, kv_tokens, pairs)] = seen_by_cost(plan)
    assert new_tokens == sum(count for count, _ in chunks)
    assert kv_tokens == sum(start + count for count, start in chunks)
    assert pairs == sum(
        key <= query
        for count, start in chunks
        for query in range(start, start + count)
        for key in range(start + count)
    )


def test_a_step_without_work_takes_no_time() -> None:
    assert SimExecutor(lambda *_: 1.0).execute(Plan()) == ({}, 0.0)
    assert seen_by_cost(Plan()) == []


def test_a_token_comes_with_the_last_token_that_is_known() -> None:
    executor = SimExecutor()
    executor.begin(Job(Request(0, 0.0, 4, 9, stop_token_ids=(50, 51)), stop_at=2))
    answers = [
        executor.execute(Plan(scheduled={0: count}, start={0: start}))[0]
        for start, count in [(0, 3), (3, 1), (4, 1), (0, 5), (5, 1), (6, 1)]  # the fourth begins anew
    ]
    assert answers == [{}, {0: [100]}, {0: [101]}, {}, {0: [50]}, {0: [103]}]


def test_who_ended_is_forgotten() -> None:
    executor = SimExecutor()
    executor.begin(Job(Request(0, 0.0, 1, 1)))
    executor.end(0)
    executor.end(0)
    with pytest.raises(KeyError):
        executor.execute(Plan({0: 1}, {0: 0}))
