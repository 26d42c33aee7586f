"""Timings: the raw times of each request, as its steps had them."""

from __future__ import annotations

from hypothesis import example, given
from schedulers import PagedTiny, TinyScheduler, records_of
from strategies import CROWD, TIGHT, configs, per_token, workloads

from decodelab.contract import Plan, SchedulerConfig
from decodelab.request import Job, Request
from decodelab.run import Loop, Step, StepClock
from decodelab.sim.executor import SimExecutor
from decodelab.timings import Timing, Timings, timings


def timed(workload: list[Job] | list[Request], config: SchedulerConfig | None = None) -> Timings:
    config = config or SchedulerConfig()
    scheduler = PagedTiny(config) if config.num_blocks else TinyScheduler(config)
    return timings(Loop(workload, scheduler, SimExecutor(per_token)))


def test_a_request_has_the_times_of_its_steps() -> None:
    seen = timings(
        Loop([Request(0, 0.5, 9, 3), Request(1, 2.0, 2, 1)], TinyScheduler(), SimExecutor(lambda *_: 1.0))
    )
    assert list(seen) == [
        Timing(0, 0.5, 9, 0.5, [1.5, 2.5, 3.5], "length"),
        Timing(1, 2.0, 2, 2.5, [3.5], "length"),
    ]


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_every_token_has_its_time(workload: list[Job], config: SchedulerConfig) -> None:
    records = records_of(workload, config, per_token)
    seen = timed(workload, config)
    for request_id, timing in seen.by_id.items():
        wanted = [record["time"] for record in records for _ in record["tokens"].get(request_id, ())]
        assert timing.token_times == wanted
        starts = [record["start"] for record in records if request_id in record["new"]]
        assert [timing.scheduled_time] == (starts or [None])
        assert timing.preemptions == sum(request_id in record["preempted"] for record in records)
        assert timing.reason


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_times_of_a_request_are_in_order(workload: list[Job], config: SchedulerConfig) -> None:
    for timing in timed(workload, config):
        assert timing.token_times == sorted(timing.token_times)
        if timing.scheduled_time is not None:
            assert timing.arrival_time <= timing.scheduled_time
        if timing.token_times:
            assert timing.scheduled_time is not None
            assert timing.scheduled_time < timing.token_times[0]


def test_tokens_of_one_step_have_its_time() -> None:
    """As speculative decoding gives them."""
    seen = timings(
        [
            Step(0, 0.0, [Request(0, 0.0, 1, 4)], plan=Plan({0: 1}, new=[0]), tokens={0: [5]}, end=1.0),
            Step(1, 1.0, plan=Plan({0: 3}), tokens={0: [6, 7, 8]}, finished={0: "length"}, end=3.0),
        ]
    )
    assert [timing.token_times for timing in seen] == [[1.0, 3.0, 3.0, 3.0]]
    assert len(seen) == 1


def test_the_reason_says_how_a_request_ended() -> None:
    jobs = [
        Job(Request("length", 0.0, 1, 2)),
        Job(Request("stop", 0.0, 1, 9, stop_token_ids=(5,)), stop_at=1),
        Job(Request("aborted", 0.0, 1, 999), abort_at=0.1),
        Job(Request("bad_length", 0.0, 0, 1)),
    ]
    assert all(timing.request_id == timing.reason for timing in timed(jobs))


def test_before_its_end_a_request_has_no_reason() -> None:
    loop = Loop([Request(0, 0.0, 1, 9)], TinyScheduler(), SimExecutor())
    seen = Timings()
    for _ in range(2):
        step = loop.step()
        assert step
        seen.see(step)
    assert [(timing.reason, len(timing.token_times)) for timing in seen] == [("", 2)]


def test_a_refused_request_leaves_another_with_its_id_alone() -> None:
    jobs = [Job(Request(0, 0.0, 4, 2)), Job(Request(0, 0.0, 9, 2))]
    assert [(t.prompt_len, t.reason) for t in timed(jobs)] == [(4, "length")]
    jobs = [Job(Request(0, 0.0, 0, 2)), Job(Request(0, 3.0, 9, 2))]
    assert [(t.prompt_len, t.arrival_time, t.reason) for t in timed(jobs)] == [(9, 3.0, "length")]


def test_on_the_logical_clock_a_request_arrives_when_its_step_begins() -> None:
    jobs = [Job(Request(0, 77.0, 1, 3)), Job(Request(1, 99.0, 1, 1), 2)]
    seen = timings(Loop(jobs, TinyScheduler(), SimExecutor(lambda *_: 0.25), StepClock()))
    assert [timing.arrival_time for timing in seen] == [0.0, 0.5]
