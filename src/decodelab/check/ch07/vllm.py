"""TODO 5: beside the recorded runs of vLLM's own scheduler."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING

from decodelab.check.ch07.cases import REASONS
from decodelab.check.rules import Case, Finding
from decodelab.check.schedule.books import Broken
from decodelab.check.schedule.remote import RemoteScheduler
from decodelab.check.schedule.walk import Walk
from decodelab.check.toolkit import finding
from decodelab.contract import SchedulerConfig, State
from decodelab.log import FIELDS
from decodelab.parity import Workload, compared, recorded, workloads

if TYPE_CHECKING:
    from decodelab.grading.student import Student

POLICIES = {"fcfs": "FCFS", "priority": "VllmPriority"}  # by vLLM's name


class Recorded(RemoteScheduler):
    """What ``like_vllm`` makes, and its queues: here they are compared, too."""

    def state(self) -> State:
        said = self.there.call("state")
        if isinstance(said, tuple) and len(said) == len(State._fields):
            return State(*said)
        raise Broken(
            finding(
                "tells-its-state",
                f"state() must return State(running, waiting, free_blocks); yours returned {said!r:.100}.",
                f"state() 应当返回 State(running, waiting, free_blocks)；你返回的是 {said!r:.100}。",
                hint=0,
            )
        )


def check_vllm(student: Student, case: Case) -> Finding | None:
    """A recorded run (``recording`` and its ``name``), or a workload of our own beside the oracle."""
    if "jobs" in case:
        config, policy = SchedulerConfig(**case["config"]), case["policy"]
        maker = made(student, config, policy)
        if maker is None:
            return not_made(policy)
        return Walk(case | {"policy": POLICIES[policy]}, maker, REASONS).run()
    run = recording(case["recording"])[case["run"]]
    maker = made(student, run.config, run.policy)
    if run.config.enable_prefix_caching:
        return None if maker is None else no_prefix_cache(run)
    if maker is None:
        return not_made(run.policy)
    try:
        parted = compared(run, maker, [field for field in FIELDS if field != "blocks"])
    except Broken as found:
        return found.finding
    if parted is None:
        return None
    rule = f"like-vllm-{parted.field.replace('_', '-')}" if parted.field else "like-vllm"
    return finding(rule, parted.text["en"], parted.text["zh"], hint=2)


@cache
def recording(name: str) -> dict[str, Workload]:
    """The runs of a recording, by name."""
    return {run.name: run for run in workloads(recorded(name))}


def made(student: Student, config: SchedulerConfig, policy: str) -> Recorded | None:
    """What the answer makes for a configuration; None where it gives none."""
    there = student.new("SchedulerConfig", **asdict(config))
    if student.call("like_vllm", there, policy) is None:
        return None
    return Recorded(student, "like_vllm", there, policy)


def not_made(policy: str) -> Finding:
    """The finding where no scheduler came back."""
    return finding(
        "makes-a-scheduler",
        f'like_vllm(config, "{policy}") must return a scheduler: this configuration needs no prefix cache.',
        f'like_vllm(config, "{policy}") 应当返回一个调度器：这个配置不需要前缀缓存。',
    )


def no_prefix_cache(run: Workload) -> Finding:
    """The finding where a scheduler came back that cannot do what the configuration asks."""
    return finding(
        "says-what-it-cannot-do",
        f"{run.name} has enable_prefix_caching, which comes in chapter 11: like_vllm must return None.",
        f"{run.name} 开着 enable_prefix_caching，那是第 11 章的事：like_vllm 应当返回 None。",
    )
