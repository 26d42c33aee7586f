"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.rules import Case
from decodelab.check.schedule.walk import job, shown_jobs
from decodelab.lang import tr

REASONS = ("duplicate_id", "bad_length", "over_budget")  # that this chapter refuses for
NO_LENGTHS: tuple[Any, ...] = (0, -4, True, 2.5, "3")
STOP, OTHER = 2, 7  # a stop token and one that is none

# Names that checks use in the runner, whatever the answer has made of its own.
PRELUDE = """
from decodelab.contract import Plan, SchedulerConfig
from decodelab.request import Request


class FCFS:
    static = True

    def key(self, request, now):
        return request.arrival_time


class PriorityOrder:
    static = True

    def key(self, request, now):
        return -request.priority, request.arrival_time


class Patience:
    static = False

    def key(self, request, now):
        return now - request.arrival_time < request.priority, request.arrival_time
"""
PATIENCE = "Patience: key = (now - arrival_time < priority, arrival_time)"


def limits(max_num_seqs: int, max_num_batched_tokens: int) -> dict[str, Any]:
    """A configuration of this chapter, in which prompts are not cut."""
    return {
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "enable_chunked_prefill": False,
    }


def tokens(name: str, prompt_len: int, max_new_tokens: int, stops: list[int], *steps: list[int]) -> Case:
    """A case of TODO 1."""
    return {
        "name": name,
        "prompt_len": prompt_len,
        "max_new_tokens": max_new_tokens,
        "stops": stops,
        "steps": list(steps),
    }


def walk(name: str, seqs: int, budget: int, *jobs: dict[str, Any], **options: Any) -> Case:
    """A case of TODOs 2, 4 and 5."""
    return {"name": name, "config": limits(seqs, budget), "jobs": list(jobs), **options}


def room(name: str, seqs: int, budget: int, running: list[int], prompts: list[int], **options: Any) -> Case:
    """A case of TODO 3. ``answered``: tokens that everybody who asks has beside the prompt; ``planned``: who runs is in
    the plan already."""
    case = {"name": name, "config": limits(seqs, budget), "running": running, "prompts": prompts}
    return case | {"answered": 0, "planned": True} | options


def times(name: str, most: int, target: float, **options: Any) -> Case:
    """A case of TODO 6."""
    return {"name": name, "config": limits(most, 64), "target": target, **options}


def shown(case: Case) -> list[str]:
    """A case as a learner would write it."""
    if "jobs" in case:
        return shown_jobs(case) + ([PATIENCE] if case.get("policy") == "Patience" else [])
    if "steps" in case and "stops" in case:
        asked = f"prompt_len={case['prompt_len']}, max_new_tokens={case['max_new_tokens']}"
        first = f"Request(1, 0.0, {asked}, stop_token_ids={tuple(case['stops'])})"
        return [first, *(f"take_tokens(seq, {step})" for step in case["steps"])]
    config = f"max_num_seqs={case['config']['max_num_seqs']}"
    if "target" in case:
        each = f"{case.get('each')} s × limit, {case.get('steps')} ×"
        return [f"{config}, target={case['target']}", f"adjust: {case.get('seconds') or each}"]
    config += f", max_num_batched_tokens={case['config']['max_num_batched_tokens']}"
    scheduled = dict.fromkeys(range(len(case["running"])), 1) if case["planned"] else {}
    more = (
        tr(en=f" ({case['answered']} answered)", zh=f"（已答 {case['answered']} 个）")
        if case["answered"]
        else ""
    )
    asked = tr(en="room_for, in turn; who fits is let in", zh="逐个问 room_for，放得下的就放进来")
    return [
        config,
        f"len(running): {len(case['running'])}, plan.scheduled: {scheduled!s:.60}",
        f"{asked}: prompt_len={case['prompts']}{more}",
    ]


SKEWED = [job(i, 2, wanted) for i, wanted in enumerate((2, 7, 1, 3, 5, 1))]
DRAWN = walk("", 2, 16, *(job(i, 2, wanted) for i, wanted in enumerate((2, 6, 1, 3))))  # a picture's
WALKS: list[Case] = [
    walk("one", 2, 8, job(1, 5, 3)),
    walk("worked-case", 2, 8, job(1, 5, 4), job(2, 3, 1), job(3, 6, 2, step=1)),
    walk("skewed-lengths", 2, 16, *SKEWED),
    walk("budget-used-exactly", 4, 8, job(1, 4, 3), job(2, 4, 3), job(3, 6, 2), job(4, 1, 2)),
    walk("head-of-line", 4, 8, job(1, 2, 6), job(2, 2, 6), job(3, 8, 2), job(4, 1, 2)),
    walk("after-a-pause", 2, 8, job(1, 2, 1), job(2, 2, 2, step=6), job(3, 2, 2, step=6)),
    walk("late-arrivals", 3, 12, *(job(i, 1 + i % 3, 2 + i % 4, step=i) for i in range(8))),
    walk("stops-by-itself", 2, 8, job(1, 3, 9, stop_at=1), job(2, 3, 2, stop_at=1), job(3, 3, 2)),
    walk("aborts", 2, 8, job(1, 3, 9, abort_at=2), job(2, 3, 4), job(3, 3, 4, abort_at=1), job(4, 3, 2)),
    walk(
        "urgent-first",
        1,
        8,
        job(1, 2, 2),
        job(2, 2, 2),
        job(3, 2, 1, priority=4),
        job(4, 2, 1, step=1, priority=9),
        policy="PriorityOrder",
    ),
    walk(
        "urgent-while-others-run",
        2,
        8,
        job(1, 2, 4),
        job(2, 2, 3, step=1, priority=5),
        policy="PriorityOrder",
    ),
    walk("patience-in-a-batch", 2, 8, job(1, 2, 5, priority=2), job(2, 2, 4), policy="Patience"),
    walk(
        "patience-at-the-door",
        2,
        8,
        job(1, 2, 3, priority=1),
        *(job(i, 2, 2) for i in (2, 3, 4)),
        policy="Patience",
    ),
]

VISIBLE: dict[str, list[Case]] = {
    "ch04.1": [
        tokens("one-a-step", 4, 3, [STOP], [OTHER], [OTHER], [OTHER]),
        tokens("stop-token", 4, 5, [STOP], [OTHER], [STOP]),
        tokens("stop-on-the-last-place", 4, 2, [STOP], [OTHER], [STOP]),
        tokens("several-at-once", 4, 6, [STOP], [OTHER, 9], [8, OTHER, 9]),
        tokens("stop-inside", 4, 9, [STOP], [OTHER, STOP, OTHER]),
        tokens("length-inside", 4, 2, [STOP], [OTHER, 9, STOP]),
        tokens("another-stop-token", 1, 4, [5, 6], [STOP], [6]),
        tokens("either-stop-token", 1, 4, [5, 6], [STOP], [5]),
        tokens("token-0-stops", 2, 5, [0], [OTHER, 0, OTHER]),
        tokens("no-stop-token", 1, 2, [], [STOP], [STOP]),
        tokens("nothing-came", 3, 2, [STOP], [], [OTHER], [], [OTHER]),
    ],
    "ch04.2": [
        walk("good-ones", 4, 8, job(1, 1, 1), job(2, 8, 3), job(3, 5, 2)),
        walk("bad-lengths", 4, 8, *(job(i, bad, 2) for i, bad in enumerate(NO_LENGTHS)), job(9, 1, 1)),
        walk("bad-output-lengths", 4, 8, *(job(i, 2, bad) for i, bad in enumerate(NO_LENGTHS))),
        walk("over-the-budget", 4, 8, job(1, 8, 1), job(2, 9, 1), job(3, 7, 2), job(4, 800, 1)),
        walk("good-while-another-runs", 1, 8, job(1, 1, 6), job(2, 8, 1, step=2, priority=-1)),
        walk("taken-id", 4, 8, job(1, 2, 4), job(2, 2, 2), job(1, 3, 1), job(2, 2, 2, step=1)),
        walk("id-of-a-finished-request", 4, 8, job(1, 2, 1), job(2, 2, 1), job(1, 2, 1, step=5)),
        walk("id-of-an-aborted-request", 4, 8, job(1, 2, 9, abort_at=1), job(1, 2, 1, step=3)),
        walk("a-refused-id-is-free", 4, 8, job(1, 9, 1), job(1, 2, 2), job(2, 0, 1), job(2, 2, 2), job(1, 2, 2)),
    ],
    "ch04.3": [
        room("slots", 3, 64, [4], [2, 2, 2]),
        room("a-full-batch", 2, 64, [4, 4], [1]),
        room("budget", 8, 16, [], [10, 7, 6, 1]),
        room("running-cost-a-token-each", 8, 16, [3, 3, 3], [14, 13]),
        room("prompts-of-one", 4, 6, [2, 1], [1, 4, 3]),
        room("a-full-batch-in-an-empty-plan", 2, 64, [4, 4], [1], planned=False),
        room("an-answer-begun", 4, 16, [3], [12, 10, 1], answered=5),
    ],
    "ch04.4": WALKS,
    "ch04.5": WALKS,
    "ch04.6": [
        times("in-time", 4, 0.1, seconds=[0.05] * 5),
        times("late", 16, 0.1, seconds=[0.05] * 8 + [0.2, 0.2, 0.05, 0.2, 0.2, 0.2, 0.05]),
        times("exactly-the-target", 8, 0.1, seconds=[0.1, 0.1, 0.1, 0.11]),
        times("one-slot", 1, 0.1, seconds=[0.2, 0.05, 0.2]),
        times("in-a-closed-loop", 64, 1.0, each=0.1, steps=60),
    ],
}  # fmt: skip
