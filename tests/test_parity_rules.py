"""Parity with vLLM comes from what the chapters taught: break one rule in its chapter's answer, and a recorded run parts.

Each rule is broken in the TODO that states it, everything else being the reference; then the composed scheduler runs
against every recorded workload without a prefix cache. What none of these comes across, the workloads of the checks do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from reference import lab

from decodelab.check.schedule.walk import Walk, job
from decodelab.contract import Plan, SchedulerConfig
from decodelab.course import load
from decodelab.parity import Difference, Workload, differences, recorded, workloads


def code(todo: str) -> str:
    """The reference's region."""
    return load(todo).todo(todo).code


RUNS = [
    w
    for name in ("plain", "priority")
    for w in workloads(recorded(name))
    if not w.config.enable_prefix_caching
]
SPARE = "spare = int(config.watermark * config.num_blocks) if running else 0\n"
WHOLE = "if config.reserve_full_prompt:\n    num_tokens = seq.num_tokens\n"
ROOM = "return kv.missing(seq.request_id, num_tokens) + spare <= kv.num_free"
OUT = """
request_id = victim.request_id
scheduler.running.remove(victim)
scheduler.kv.free(request_id)
victim.num_computed_tokens = 0
victim.preempted = True
scheduler.waiting.push(victim, now)
plan.preempted.append(request_id)
plan.start.pop(request_id, None)
plan.block_tables.pop(request_id, None)
return plan.scheduled.pop(request_id, 0)
"""
BUDGET_LOST = OUT.replace("return plan", "plan").replace("pop(request_id, 0)", "pop(request_id, 0)\nreturn 0")
RULES = [  # the rule that is broken, the TODO that states it, and the code there
    ("the victim has the largest key", "ch06.3", "return running[0]"),
    ("the victim is not just the last let in", "ch06.3", "return running[-1]"),
    (
        "of equal ones the first admitted is the victim",
        "ch06.3",
        "return max(reversed(running), key=lambda seq: policy.key(seq.request, now))",
    ),
    ("a watermark while others run", "ch06.2", WHOLE + "spare = 0\n" + ROOM),
    ("the whole prompt is reserved", "ch06.2", SPARE + ROOM),
    ("only where that is asked for", "ch06.2", "num_tokens = seq.num_tokens\n" + SPARE + ROOM),
    (
        "who is preempted keeps its tokens",
        "ch06.4",
        OUT.replace("_tokens = 0\n", "_tokens = 0\nvictim.num_tokens = victim.request.prompt_len\n"),
    ),
    ("who comes back is told as resumed", "ch06.4", OUT.replace("victim.preempted = True\n", "")),
]
UNSEEN = [  # likewise, with a workload that shows it
    (
        "no watermark on an idle machine",
        "ch06.2",
        WHOLE + SPARE.replace(" if running else 0", "") + ROOM,
        {
            "config": {"block_size": 1, "num_blocks": 12, "watermark": 0.5},
            "jobs": [job(0, 3, 3), job(1, 8, 5, step=3)],
        },
    ),
    (
        "the budget of a victim comes back",
        "ch06.4",
        BUDGET_LOST,
        {
            "config": {"max_num_batched_tokens": 5, "block_size": 4, "num_blocks": 6, "long_prefill_token_threshold": 6},
            "jobs": [job(1, 12, 5, priority=1), job(0, 3, 7, step=3, priority=2), job(2, 15, 4, step=3, priority=2)],
            "policy": "PriorityOrder",
        },
    ),
]  # fmt: skip


def parted(changed: Mapping[str, str], runs: list[Workload] = RUNS) -> list[Difference]:
    """What parts from the recordings with these TODOs changed; a scheduler that falls over has parted, too."""
    maker = lab(changed)("ch07").like_vllm
    found: list[Difference | None] = []
    for run in runs:
        try:
            found += differences([run], maker)
        except (AssertionError, LookupError, ValueError) as error:
            found.append(Difference(run.name, {"en": repr(error), "zh": repr(error)}))
    return [difference for difference in found if difference]


def test_the_reference_is_exact() -> None:
    assert parted({}) == []


@pytest.mark.parametrize(("rule", "todo", "code"), RULES, ids=[rule for rule, _, _ in RULES])
def test_a_broken_rule_makes_a_recorded_run_differ(rule: str, todo: str, code: str) -> None:
    assert parted({todo: code}), rule


@pytest.mark.parametrize(("rule", "todo", "code", "case"), UNSEEN, ids=[rule for rule, *_ in UNSEEN])
def test_what_no_recording_shows_a_small_workload_does(
    rule: str, todo: str, code: str, case: dict[str, Any]
) -> None:
    def found(changed: Mapping[str, str]) -> Any:
        chapter, config = lab(changed), SchedulerConfig(**case["config"])
        policy = getattr(chapter("ch03"), case.get("policy", "FCFS"))()
        return Walk(case, chapter("ch07").ChunkedScheduler(config, policy), []).run()

    assert found({}) is None
    assert found({todo: code}), rule
    assert parted({todo: code}) == [], "a recording does show it: move it up to RULES"


def test_nobody_is_let_in_in_a_step_that_preempted() -> None:
    """The rule stands in ch06.5 for the learner; the composed scheduler is given it."""
    composed = lab({})("ch07")

    class Careless(composed.ChunkedScheduler):  # type: ignore[name-defined]
        def schedule(self, now: float) -> Plan:
            plan = Plan()
            self.admit_waiting(plan, self.serve_running(plan, now), now)
            return plan

    composed.ChunkedScheduler = Careless
    assert [difference for difference in differences(RUNS, composed.like_vllm) if difference]
