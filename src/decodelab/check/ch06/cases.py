"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.rules import Case
from decodelab.check.schedule.walk import job, shown_jobs

REASONS = ("duplicate_id", "bad_length", "over_budget", "never_fits")  # that this chapter refuses for

# Names that checks use in the runner, whatever the answer has made of its own.
PRELUDE = """
from decodelab.contract import Plan, Refused, SchedulerConfig
from decodelab.request import Request


class FCFS:
    static = True

    def key(self, request, now):
        return request.arrival_time, request.request_id


class PriorityOrder:
    static = True

    def key(self, request, now):
        return -request.priority, request.arrival_time, request.request_id


class Classes:
    static = True

    def key(self, request, now):
        return -request.priority


class Impatience:
    static = False

    def key(self, request, now):
        return -(request.priority + (now - request.arrival_time) ** 2)


class Patience:
    static = False

    def key(self, request, now):
        return now - request.arrival_time < request.priority, request.arrival_time, request.request_id
"""


BACK = 1


def memory(num_blocks: int, block_size: int, **more: Any) -> dict[str, Any]:
    """A configuration of this chapter, in which prompts are not cut."""
    usual = {"max_num_seqs": 8, "max_num_batched_tokens": 64, "enable_chunked_prefill": False}
    return {**usual, "num_blocks": num_blocks, "block_size": block_size, **more}


def door(
    name: str, num_blocks: int, block_size: int, budget: int, *asked: list[int], watermark: float = 0.0
) -> Case:
    """A case of TODO 1: [prompt_len, max_new_tokens] of each request."""
    config = memory(num_blocks, block_size, max_num_batched_tokens=budget, watermark=watermark)
    return {"name": name, "config": config, "asked": list(asked)}


def entry(
    name: str, num_blocks: int, block_size: int, running: list[list[int]], *asked: list[int], **more: Any
) -> Case:
    """A case of TODOs 2 and 7: [tokens, longest] of who runs; [tokens, of this step, longest] of who asks.

    Whoever has a further item, BACK, was preempted before.
    """
    config = memory(num_blocks, block_size, **more)
    return {"name": name, "config": config, "running": running, "asked": list(asked)}


def choice(name: str, policy: str, *running: list[Any], now: float = 9.0) -> Case:
    """A case of TODO 3: [request_id, arrival_time, priority] in order of admission; BACK as in ``entry``."""
    return {"name": name, "policy": policy, "now": now, "running": list(running)}


def throw(
    name: str, victim: int, *rows: list[int], waiting: tuple[int, ...] = (), size: int = 4, **host: Any
) -> Case:
    """A case of TODOs 4 and 6: rows of [request_id, prompt, generated, tokens of this step]."""
    return {
        "name": name,
        "num_blocks": 32,
        "block_size": size,
        "host_blocks": host.get("host_blocks", 16),
        "rows": list(rows),
        "waiting": list(waiting),
        "in_host": host.get("in_host", []),
        "victim": victim,
    }


def walk(
    name: str, config: dict[str, Any], *jobs: dict[str, Any], policy: str = "FCFS", evicts: bool = False
) -> Case:
    """A case of TODO 5; at its end a request comes that needs every block that there is.

    With ``evicts`` somebody is preempted, and must be so by ``evict``.
    """
    slots = config["num_blocks"] * config["block_size"]
    last = job(99, min(slots, config["max_num_batched_tokens"]), 1, step=400)
    return {"name": name, "config": config, "jobs": [*jobs, last], "policy": policy, "evicts": evicts}


PREEMPTED = ", preempted=True"


def shown(case: Case) -> list[str]:
    """A case as a learner would write it."""
    if "jobs" in case:
        return shown_jobs(case)
    if "policy" in case:
        rows = [
            f"Request({i!r}, arrival_time={at!r}, priority={p!r})" + PREEMPTED * bool(back)
            for i, at, p, *back in case["running"]
        ]
        return [f"{case['policy']}(), now={case['now']:g}", *rows]
    if "rows" in case:
        made = f"block_size={case['block_size']}, num_blocks={case['num_blocks']}, host_blocks={case['host_blocks']}"
        rows = [
            f"{i}: prompt_len={prompt}, generated={answer}, plan.scheduled={count or '-'}"
            for i, prompt, answer, count in case["rows"]
        ]
        return [made, *rows, f"waiting: {case['waiting']}", f"victim: {case['victim']}"]
    config = ", ".join(f"{k}={v!r}" for k, v in case["config"].items())
    if "running" not in case:
        asked = [f"prompt_len={prompt}, max_new_tokens={wanted}" for prompt, wanted in case["asked"]]
        return [f"SchedulerConfig({config})", *asked]
    running = [
        f"running: num_tokens={has}, longest={end}" + PREEMPTED * bool(back)
        for has, end, *back in case["running"]
    ]
    asked = [
        f"asks ({number}): num_tokens={has}, this step {now}, longest={end}" + PREEMPTED * bool(back)
        for number, (has, now, end, *back) in enumerate(case["asked"], 1)
    ]
    return [f"SchedulerConfig({config})", *running, *asked]


GROW = [job(1, 3, 6), job(2, 3, 6), job(3, 2, 4)]
DRAWN: Case = {"config": memory(5, 2), "jobs": [job(i, 3, 6) for i in (1, 2, 3)]}  # a picture's
WALKS: list[Case] = [
    walk("room-for-all", memory(16, 2), *GROW),
    walk("alone-to-the-last-block", memory(4, 2), job(1, 3, 6)),
    walk("two-grow", memory(5, 2), job(1, 3, 6), job(2, 3, 6), evicts=True),
    walk("three-grow", memory(6, 2), *GROW),
    walk("blocks-of-one", memory(9, 1), job(1, 3, 5), job(2, 2, 6), job(3, 1, 3, step=2)),
    walk("a-small-one-behind", memory(6, 2), job(1, 3, 8), job(2, 3, 8), job(3, 5, 2, step=2), job(4, 1, 2, step=3)),
    walk("slots-and-budget", memory(6, 2, max_num_seqs=2, max_num_batched_tokens=12), job(1, 5, 6), job(2, 5, 6), job(3, 2, 3)),
    walk("a-slot-becomes-free", memory(12, 2, max_num_seqs=2), job(1, 3, 2), job(2, 3, 6), job(3, 2, 3)),
    walk("urgent-last", memory(6, 2), job(1, 3, 7), job(2, 3, 7, priority=1, step=1), job(3, 3, 5, priority=2, step=2),
         policy="PriorityOrder"),
    walk("urgent-first", memory(6, 2), job(1, 3, 7, priority=2), job(2, 3, 7), job(3, 3, 5, priority=1, step=1),
         policy="PriorityOrder"),
    walk("victim-in-the-middle", memory(7, 2), job(1, 3, 7, priority=1), job(2, 3, 7), job(3, 3, 7, priority=2),
         job(4, 1, 5, priority=1, step=1), policy="PriorityOrder"),
    walk("gives-up-its-own-place", memory(8, 1), job(1, 2, 5), job(2, 2, 4, priority=3, step=1), job(3, 2, 4, priority=1, step=1),
         policy="PriorityOrder"),
    walk("a-policy-that-time-changes", memory(6, 2), job(1, 3, 9, priority=2), job(2, 3, 9), policy="Patience"),
    walk("aborts", memory(6, 2), job(1, 3, 8, abort_at=3), job(2, 3, 8), job(3, 3, 8, abort_at=6), job(4, 3, 4)),
    walk("stops-by-itself", memory(6, 2), job(1, 3, 8, stop_at=4), job(2, 3, 8), job(3, 3, 8, stop_at=2)),
    walk("a-watermark", memory(10, 2, watermark=0.3), *(job(i, 3, 6) for i in range(1, 6))),
    walk("refused", memory(4, 2, max_num_batched_tokens=12), job(1, 3, 2), job(2, 5, 5), job(3, 6, 3), job(1, 2, 2),
         job(4, 0, 2), job(5, 9, 1)),
]  # fmt: skip

THROWN: list[Case] = [
    throw("not-scheduled-yet", 2, [1, 5, 3, 1], [2, 6, 4, 0]),
    throw("scheduled-already", 1, [1, 5, 4, 1], [2, 6, 4, 1], [3, 2, 1, 0]),
    throw("no-table-told", 1, [1, 5, 3, 1], [2, 6, 3, 1]),
    throw("just-let-in", 2, [1, 5, 3, 1], [2, 6, 3, 9]),
    throw("alone", 7, [7, 9, 0, 0]),
    throw("among-others-who-wait", 2, [1, 4, 1, 0], [2, 8, 2, 0], waiting=(1000, 3, 0)),
    throw("blocks-of-one", 2, [2, 3, 2, 1], [1, 4, 1, 1], size=1),
]

VISIBLE: dict[str, list[Case]] = {
    "ch06.1": [
        door("fits", 8, 4, 64, [5, 5], [1, 1], [32, 1], [1, 32]),
        door("one-too-many", 8, 4, 64, [33, 1], [1, 33], [16, 18], [32, 2]),
        door("the-last-token-needs-no-slot", 4, 1, 9, [3, 2], [2, 3], [3, 3]),
        door("more-than-a-step", 16, 4, 20, [20, 1], [10, 11], [10, 12], [21, 1]),
        door("far-too-long", 2, 4, 64, [400, 1], [1, 400]),
        door("a-watermark-is-no-wall", 8, 4, 64, [32, 1], [12, 21], [33, 1], watermark=0.5),
    ],
    "ch06.2": [
        entry("nobody-runs", 8, 4, [], [9, 9, 12], [32, 32, 40], [33, 33, 40]),
        entry("others-run", 8, 4, [[9, 20], [5, 9]], [12, 12, 20], [13, 13, 20]),
        entry("watermark", 10, 4, [[9, 20]], [20, 20, 24], [16, 16, 24], [21, 21, 24], watermark=0.2),
        entry("watermark-when-alone", 10, 4, [], [40, 40, 41], [33, 33, 40], watermark=0.5),
        entry("watermark-rounded-down", 10, 4, [[4, 9]], [28, 28, 30], [24, 24, 30], watermark=0.29),
        entry("whole-prompt", 8, 4, [[9, 20]], [20, 4, 24], [24, 4, 30], reserve_full_prompt=True),
        entry("a-part-is-enough", 8, 4, [[9, 20]], [40, 4, 44], [40, 20, 44], [40, 21, 44]),
        entry("whole-prompt-and-watermark", 10, 4, [[9, 20]], [20, 4, 24], [24, 4, 26], reserve_full_prompt=True, watermark=0.2),
        entry("who-comes-back", 10, 4, [[9, 20, BACK]], [20, 20, 24, BACK], [21, 21, 24, BACK], watermark=0.2),
        entry("who-comes-back-whole", 8, 4, [[9, 20]], [20, 4, 24, BACK], [24, 4, 30, BACK], reserve_full_prompt=True),
        entry("slots-are-not-asked-for", 8, 4, [[9, 20]], [12, 12, 20], [21, 21, 24], max_num_seqs=1),
    ],
    "ch06.3": [
        choice("last-come", "FCFS", [1, 0.0, 0], [2, 1.0, 0], [3, 2.0, 0]),
        choice("let-in-again", "FCFS", [2, 1.0, 0], [3, 2.0, 0], [1, 0.0, 0]),
        choice("least-urgent", "PriorityOrder", [1, 0.0, 2], [2, 1.0, 0], [3, 2.0, 1]),
        choice("equal-priority", "PriorityOrder", [2, 1.0, 0], [4, 3.0, 0], [3, 2.0, 0]),
        choice("equal-keys", "Classes", [1, 0.0, 1], [2, 1.0, 0], [3, 2.0, 0], [4, 3.0, 2]),
        choice("equal-keys-let-in-again", "Classes", [1, 0.0, 1], [3, 2.0, 0], [2, 1.0, 0]),
        choice("by-the-time", "Impatience", [1, 0.0, 50], [2, 8.0, 60], [3, 4.0, 40], now=9.0),
        choice("at-another-time", "Impatience", [1, 0.0, 50], [2, 8.0, 60], [3, 8.5, 55], now=8.5),
        choice("an-order-that-turns-later", "Impatience", [1, 0.0, 0], [2, 1.0, 5], now=1.5),
        choice("preempted-before", "FCFS", [1, 0.0, 0], [2, 1.0, 0], [3, 2.0, 0, BACK]),
        choice("alone", "FCFS", [5, 3.0, 1]),
    ],
    "ch06.4": THROWN,
    "ch06.5": WALKS,
    "ch06.6": [
        *THROWN,
        throw("the-second-victim", 2, [1, 5, 3, 1], [2, 6, 4, 0], in_host=[[900, 9]]),
        throw("host-holds-others", 2, [1, 5, 3, 1], [2, 6, 4, 0], in_host=[[50, 9], [51, 4]]),
        throw("host-to-the-last-block", 2, [1, 5, 3, 1], [2, 6, 4, 0], in_host=[[50, 9]], host_blocks=6),
        throw("host-is-full", 2, [1, 5, 3, 1], [2, 6, 4, 0], in_host=[[50, 9]], host_blocks=5),
        throw("at-a-block-boundary", 2, [1, 5, 3, 1], [2, 6, 3, 1], host_blocks=2),
    ],
    "ch06.7": [
        entry("nobody-runs", 8, 4, [], [9, 9, 33], [9, 9, 34], [9, 9, 32], [9, 9, 37]),
        entry("one-that-will-grow", 8, 4, [[5, 20]], [5, 5, 13], [5, 5, 14], [5, 5, 9], [5, 5, 17], [5, 5, 23]),
        entry("three-that-will-grow", 12, 4, [[5, 13], [9, 13], [2, 9]], [3, 3, 17], [3, 3, 18], [3, 3, 5]),
        entry("blocks-of-one", 9, 1, [[2, 5]], [2, 2, 6], [2, 2, 7]),
        entry("who-comes-back", 8, 4, [[5, 20, BACK]], [5, 5, 13, BACK], [5, 5, 14, BACK], [5, 5, 14]),
        entry("no-watermark", 8, 4, [[5, 20]], [5, 5, 13], [5, 5, 14], [5, 5, 9], watermark=0.5),
    ],
}  # fmt: skip
