"""The step log: whole, the same when read back, and told as events that add up."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from schedulers import PagedTiny, TinyScheduler, records_of
from strategies import CROWD, TIGHT, configs, per_token, workloads

from decodelab.contract import Plan, SchedulerConfig, State
from decodelab.errors import DecodeLabError
from decodelab.log import BESIDE, FIELDS, LoggedEvent, Record, events, read_log, record_all, write_log
from decodelab.request import Job, Request
from decodelab.run import Loop, Step, StepClock
from decodelab.sim.executor import SimExecutor

ENDS = ("finish", "reject", "cancel", "timeout")


def told(workload: list[Job], config: SchedulerConfig) -> list[LoggedEvent]:
    return events(records_of(workload, config, per_token, StepClock()), [job.request for job in workload])


# Records


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_a_record_has_every_field_and_plain_data_only(workload: list[Job], config: SchedulerConfig) -> None:
    for record in records_of(workload, config, clock=StepClock()):
        assert set(record) == {*FIELDS, *BESIDE}
        json.dumps(record)


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_states_and_plans_agree(workload: list[Job], config: SchedulerConfig) -> None:
    for record in records_of(workload, config, clock=StepClock()):
        assert list(record["scheduled"]) == [i for i in record["running"] if i in record["scheduled"]]
        assert set(record["new"]) | set(record["resumed"]) <= set(record["scheduled"])
        assert set(record["preempted"]) <= set(record["waiting"])
        assert not set(record["running"]) & set(record["waiting"])
        if config.num_blocks:
            held = [block for i in record["scheduled"] for block in record["blocks"][i]]
            assert len(held) == len(set(held)) <= config.num_blocks - record["free_blocks"]


def test_blocks_are_told_for_everyone_scheduled_though_plans_tell_changes_only() -> None:
    alone = records_of([Request(0, 0.0, 3, 3)], SchedulerConfig(block_size=8, num_blocks=2))
    assert [record["blocks"] for record in alone] == [{0: [0]}] * 3


class Live(TinyScheduler):
    """Hands out its own queues."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list = []

    def state(self) -> State:
        self.queue[:] = self.running
        return State(self.queue, [])


def test_a_record_stays_what_it_was_when_the_scheduler_goes_on() -> None:
    made, kept = [], []
    for record in record_all(Loop([Request(0, 0.0, 1, 2)], Live(), SimExecutor(), watch=True)):
        made.append(record)
        kept.append(copy.deepcopy(record))
    assert made == kept


# Files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@given(workload=workloads, config=configs, name=st.sampled_from(["log.jsonl", "log.jsonl.gz"]))
def test_what_was_written_is_read(
    folder: Path, workload: list[Job], config: SchedulerConfig, name: str
) -> None:
    records = records_of(workload, config, per_token)
    write_log(folder / name, records)
    assert read_log(folder / name) == records


def test_pairs_of_blocks_are_read_as_they_were(tmp_path: Path) -> None:
    plan = Plan({7: 1}, swap_out={7: [(1, 2)]}, swap_in={"a": [(3, 4), (5, 6)]}, copy=[(8, 9)])
    step = Step(0, 0.0, [Request(7, 0.0, 1, 1), Request("a", 0.0, 1, 1)], plan=plan)
    written = list(record_all([step]))
    write_log(tmp_path / "log", written)
    assert read_log(tmp_path / "log") == written


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_the_same_records_make_the_same_bytes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for when, place in enumerate(("one", "other")):
        monkeypatch.setattr("time.time", lambda when=when: 1e9 * when)
        path = tmp_path / place / name
        path.parent.mkdir()
        write_log(path, records_of(CROWD, TIGHT))
        made.append(path.read_bytes())
    assert made[0] == made[1]


def test_records_are_written_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def passing() -> Iterator[Record]:
        for number in range(20_000):
            yield {"step": number, "scheduled": {}}
        assert path.stat().st_size > 100_000

    write_log(path, passing())


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        "3",
        "{}",
        '{"step": 1, "scheduled": {}}',
        '{"scheduled": [1]}',
        '{"arrived": [[]]}',
        '{"arrived": 5}',
        '{"swap_in": {"a": [1]}}',
        '{"copy": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log"
    write_log(path, records_of([Request(0, 0.0, 1, 1)]))
    path.write_text(path.read_text() + "\n" + line + "\n")
    with pytest.raises(DecodeLabError) as caught:
        read_log(path)
    assert "line 3" in caught.value.text["en"]
    assert "take the line out" in caught.value.text["en"]
    assert "第 3 行" in caught.value.text["zh"]
    assert "请删掉这一行" in caught.value.text["zh"]


@pytest.mark.parametrize("name", ["nowhere/log", "."])
def test_a_log_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DecodeLabError, match="Cannot write the log") as caught:
        write_log(tmp_path / name, [])
    assert "写不了日志" in caught.value.text["zh"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe\n", b"cut short"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "log.gz"
    if content == b"cut short":
        path.write_bytes(gzip.compress(b"{}" * 10_000)[:30])
    elif content:
        path.write_bytes(gzip.compress(content))
    with pytest.raises(DecodeLabError, match=r"Cannot read .*log\.gz"):
        read_log(path)


# Events


def test_a_request_is_told_from_its_arrival_to_its_end() -> None:
    made = told([Job(Request(4, 0.0, 20, 3), 2)], SchedulerConfig(max_num_batched_tokens=16))
    assert [(e["step"], e["action"], e["phase"], e["generated_len"]) for e in made] == [
        (2, "arrive", "prefill", 0),
        (2, "admit", "prefill", 0),
        (2, "prefill_chunk", "prefill", 0),
        (3, "prefill_to_decode", "prefill", 1),
        (4, "decode_one_step", "decode", 2),
        (5, "finish", "decode", 3),
    ]
    assert {e["prompt_len"] for e in made} == {20}
    assert made[-1]["time"] == pytest.approx((20 + 1 + 1) / 1024, rel=0.1)


def test_refused_cancelled_and_preempted_are_told() -> None:
    jobs = [*CROWD, Job(Request(9, 0.0, 7, 99), 1), Job(Request(0, 0.0, 3, 3), 3)]
    jobs.append(Job(Request("late", 0.0, 5, 5), 1, abort_at=2))
    made = told(jobs, TIGHT)
    actions = {i: [e["action"] for e in made if e["request_id"] == i] for i in (9, "late")}
    assert actions == {9: ["arrive", "reject"], "late": ["arrive", "admit", "prefill_to_decode", "cancel"]}
    assert [(e["step"], e["request_id"]) for e in made if e["action"] == "reject"] == [(1, 9), (3, 0)]
    lost = [e["action"] for e in made if e["action"] in ("preempt", "resume")]
    assert lost.count("preempt") == lost.count("resume") > 0


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_events_lose_no_token(workload: list[Job], config: SchedulerConfig) -> None:
    records = records_of(workload, config, clock=StepClock())
    made: dict = {}
    for event in events(records, [job.request for job in workload]):
        made.setdefault(event["request_id"], []).append(event)
    for request_id, its in made.items():
        tokens = sum(len(record["tokens"].get(request_id, ())) for record in records)
        lengths = [event["generated_len"] for event in its]
        giving = sum(e["action"] in ("prefill_to_decode", "decode_one_step", "finish") for e in its)
        assert lengths == sorted(lengths)
        assert lengths[-1] == giving == tokens
        assert its[0]["action"] == "arrive"
        arrivals = sum(event["action"] == "arrive" for event in its)
        assert sum(event["action"] in ENDS for event in its) == arrivals
    assert sum(e["action"] == "arrive" for its in made.values() for e in its) == len(workload)


@given(workloads, configs)
@example(CROWD, TIGHT)
def test_a_preempted_request_is_prefilled_anew(workload: list[Job], config: SchedulerConfig) -> None:
    after: dict = {}
    for event in told(workload, config):
        before, after[event["request_id"]] = after.get(event["request_id"]), event["action"]
        if event["action"] == "preempt":
            assert before not in (None, "arrive", *ENDS)
        elif before == "preempt":
            assert event["action"] in ("resume", "cancel", "arrive")
        elif before == "resume":
            assert event["action"] in ("prefill_chunk", "prefill_to_decode", "finish")
            assert event["phase"] == "prefill"


def test_what_was_swapped_goes_on_decoding() -> None:
    class Swapping(PagedTiny):
        """Tells the executor to keep what a victim had."""

        def schedule(self, now: float) -> Plan:
            plan = super().schedule(now)
            plan.swap_out = {i: [(0, 0)] for i in plan.preempted}
            plan.swap_in = {i: [(0, 0)] for i in plan.resumed}
            return plan

    steps = Loop(CROWD, Swapping(TIGHT), SimExecutor(), StepClock(), watch=True)
    made = events(record_all(steps), [job.request for job in CROWD])
    actions = [e["action"] for e in made]
    assert actions.count("swap_out") == actions.count("swap_in") > 0
    assert not {"preempt", "resume"} & set(actions)
    first: set = set()
    for event in made:
        if event["action"] == "prefill_to_decode":
            assert event["request_id"] not in first
            first.add(event["request_id"])


def test_one_dropped_by_the_scheduler_timed_out_or_was_rejected() -> None:
    steps = [
        Step(0, 0.0, [Request(i, 0.0, 1, 1) for i in "ab"]),
        Step(1, 0.0, plan=Plan(dropped={"a": "timeout", "b": "never_fits"}), end=1.0),
    ]
    made = events(record_all(steps), [])
    assert [(e["request_id"], e["action"]) for e in made][2:] == [("a", "timeout"), ("b", "reject")]


@pytest.mark.parametrize("odd", [Step(0, 0.0), {"request_id": 0, "action": "finish"}, 3])
def test_what_is_no_record_is_told_how_to_become_one(tmp_path: Path, odd: Any) -> None:
    for use in (lambda: events([odd], []), lambda: write_log(tmp_path / "log", [odd])):
        with pytest.raises(DecodeLabError, match=r"record_all\(Loop") as caught:
            use()
        assert "record_all(Loop" in caught.value.text["zh"]


@pytest.mark.parametrize("cut", range(1, 6))
def test_events_of_a_log_without_its_beginning_are_refused(cut: int) -> None:
    records = records_of(CROWD, TIGHT, clock=StepClock())
    with pytest.raises(DecodeLabError, match="lacks the arrival of request") as caught:
        events(records[cut:], [])
    assert "从第一步开始" in caught.value.text["zh"]


def test_of_two_requests_with_one_id_the_first_is_told_of() -> None:
    jobs = [Job(Request(0, 0.0, 4, 2)), Job(Request(0, 0.0, 9, 2))]
    assert {e["prompt_len"] for e in told(jobs, SchedulerConfig())} == {4}
