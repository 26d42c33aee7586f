"""Recorded runs: read whole, refused in one sentence, and the first difference named."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decodelab.check.schedule.spec import KEYS, decide
from decodelab.check.schedule.walk import Walk
from decodelab.contract import Plan, SchedulerConfig, State
from decodelab.errors import DecodeLabError
from decodelab.log import FIELDS
from decodelab.parity import Workload, compared, differences, recorded, same, workloads

NAMES = {"plain": 14, "priority": 21, "prefix": 19}


@pytest.mark.parametrize("name", NAMES)
def test_the_recordings_are_there_and_whole(name: str) -> None:
    found = workloads(recorded(name))
    assert len(found) == NAMES[name]
    assert all(event.keys() == set(FIELDS) for w in found for event in w.events)


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"name": "x", "config": {}, "requests": [], "events": [{}]}']
)
def test_what_is_no_recording_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(DecodeLabError, match=r"runs\.jsonl, line 2"):
        workloads(path)


def test_a_file_that_is_missing_empty_or_torn_is_one_sentence(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(b"{}\n" * 50)[:-9])
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    for path in (tmp_path / "none.jsonl", torn, empty):
        with pytest.raises(DecodeLabError):
            workloads(path)


def test_dicts_are_equal_in_the_order_of_the_batch_only() -> None:
    assert same({"a": 1, "b": 2}, {"a": 1, "b": 2})
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})


class Replayed:
    """Meets the contract by repeating what was recorded, with one field of one step changed if told so."""

    def __init__(self, workload: Workload, wrong: tuple[int, str, Any] | None = None) -> None:
        events = json.loads(json.dumps(workload.events))
        if wrong:
            index, field, value = wrong
            events[index][field] = value
        self.events, self.at = events, -1
        self.sizes = {job.request.request_id: 0 for job in workload.jobs}

    def add_request(self, request: Any, now: float) -> None: ...

    def abort(self, request_id: Any, now: float) -> None: ...

    def schedule(self, now: float) -> Plan:
        self.at += 1
        event = self.events[self.at]
        for request_id in event["preempted"]:
            self.sizes[request_id] = 0
        start = {i: self.sizes[i] for i in event["scheduled"]}
        for request_id, count in event["scheduled"].items():
            self.sizes[request_id] += count
        return Plan(
            scheduled=event["scheduled"],
            start=start,
            new=event["new"],
            resumed=event["resumed"],
            preempted=event["preempted"],
            cached=event["cached"],
            block_tables={i: [b - 1 for b in table] for i, table in event["blocks"].items()},
        )

    def update(self, plan: Plan, tokens: Any, now: float) -> Any:
        return self.events[self.at]["finished"]

    def state(self) -> State:
        event = self.events[self.at]
        return State(
            event["running"], event["waiting"], event["free_after" if self._updated() else "free_blocks"]
        )

    def _updated(self) -> bool:
        self.turn = getattr(self, "turn", 0) + 1
        return self.turn % 2 == 0  # asked after schedule, then after update


def exact(workload: Workload, wrong: tuple[int, str, Any] | None = None) -> Any:
    return next(differences([workload], lambda config, policy: Replayed(workload, wrong), block_ids=True))


def test_the_recording_itself_is_exact() -> None:
    for workload in workloads(recorded("plain")):
        assert exact(workload) is None


def test_the_run_that_ends_first_is_named() -> None:
    whole = workloads(recorded("plain"))[0]
    last = whole.events[-1]
    for events, words in [
        ([*whole.events, {**last, "step": last["step"] + 1}], "your run ends before step"),
        (whole.events[:-1], f"vLLM's run ends before step {last['step']}"),
    ]:
        found = compared(replace(whole, events=events), Replayed(whole), list(FIELDS))
        assert found
        assert found.field == "step"
        assert words in found.text["en"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("waiting", ["nobody"]), ("preempted", ["r00"]), ("free_blocks", 99), ("blocks", {"r03": [9, 9, 9, 9]})],
)
def test_the_first_difference_names_workload_step_field_and_both_values(field: str, value: Any) -> None:
    workload = workloads(recorded("plain"))[0]
    found = exact(workload, (0, field, value))
    assert (found.workload, found.step, found.field, found.got) == ("plain-000", 3, field, value)
    assert found.want == workload.events[0][field]
    assert "plain-000" in found.text["zh"]


def test_what_is_not_supported_is_not_exact() -> None:
    found = differences(workloads(recorded("prefix")), lambda config, policy: None)
    assert all(d is not None and "prefix cache" in d.text["en"] for d in found)


class Decided:
    """The checks' own oracle as a scheduler without block ids: books and ``decide``."""

    def __init__(self, config: SchedulerConfig, policy: str) -> None:
        case = {"config": {}, "jobs": [], "policy": "FCFS"}
        self.books = Walk(case, self, []).books
        self.books.config, self.key = config, KEYS[policy]

    def add_request(self, request: Any, now: float) -> None:
        self.books.add(request)

    def abort(self, request_id: Any, now: float) -> None:
        self.books.remove(request_id)

    def schedule(self, now: float) -> Plan:
        made, entries = decide(self.books, self.key, now), self.books.entries
        let_in = [i for i in made.scheduled if not entries[i].running]
        plan = Plan(
            scheduled=made.scheduled,
            start={i: entries[i].computed for i in made.scheduled},
            new=[i for i in let_in if not entries[i].begun],
            resumed=[i for i in let_in if entries[i].begun],
            preempted=made.preempted,
        )
        plan.cached = dict.fromkeys(plan.new, 0)
        self.books.apply(plan)
        return plan

    def update(self, plan: Plan, tokens: Any, now: float) -> Any:
        finished = self.books.take(tokens)
        for request_id in finished:
            self.books.remove(request_id)
        return finished

    def state(self) -> State:
        config, books = self.books.config, self.books
        held = sum(-(-books.entries[i].computed // config.block_size) for i in books.running)
        order = sorted(books.waiting(), key=lambda e: (self.key(e.request, 0.0), e.request.request_id))
        return State(
            list(books.running), [e.request.request_id for e in order], (config.num_blocks or 0) - held
        )


@pytest.mark.parametrize("name", ["plain", "priority"])
def test_the_oracle_of_the_checks_decides_as_vllm_did(name: str) -> None:
    """So an answer that passes the checks of chapters 6 and 7 takes the decisions of a production scheduler."""
    found = [w for w in workloads(recorded(name)) if not w.config.enable_prefix_caching]
    policies = {"fcfs": "FCFS", "priority": "VllmPriority"}
    parted = differences(found, lambda config, policy: Decided(config, policies[policy]))
    assert [d for d in parted if d] == []
