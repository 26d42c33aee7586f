"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.rules import Case
from decodelab.check.schedule.walk import job, shown_jobs

REASONS = ("duplicate_id", "bad_length", "over_model_len", "over_budget", "never_fits")  # all that there are


def limits(budget: int, **more: Any) -> dict[str, Any]:
    """A configuration with memory for everybody, unless told otherwise."""
    return {"max_num_seqs": 8, "max_num_batched_tokens": budget, "block_size": 4, "num_blocks": 64} | more


def chunks(name: str, num_tokens: int, *asked: list[int], **config: Any) -> Case:
    """A case of TODO 1: [computed, budget, active] of each question."""
    return {"name": name, "config": config, "num_tokens": num_tokens, "asked": list(asked)}


def walk(name: str, config: dict[str, Any], *jobs: dict[str, Any], **options: Any) -> Case:
    """A case of TODOs 2 to 4."""
    return {"name": name, "config": config, "jobs": list(jobs), **options}


def run(name: str) -> Case:
    """A recorded run, ``plain-004`` for instance."""
    return {"name": name, "recording": name.split("-")[0], "run": name}


def order(name: str, first: str, running: list[list[int]], newcomers: list[list[int]] | None = None) -> Case:
    """A case of TODO 6: [request_id, num_tokens, num_computed_tokens] of each sequence."""
    return {
        "name": name,
        "config": limits(8),
        "first": first,
        "running": running,
        "newcomers": newcomers or [],
    }


def quota(name: str, budget: int, share: float, *decodes: int, **step: float) -> Case:
    """A case of TODO 7; step: ``pace``, and ``base`` and ``each``, the seconds of a step and of a token in it."""
    times = {"pace": 0.0, "base": 0.0, "each": 0.0} | step
    return {"name": name, "config": limits(budget), "share": share, "decodes": list(decodes)} | times


def gate(name: str, low: int, high: int, *pressures: int) -> Case:
    """A case of TODO 8."""
    return {"name": name, "config": limits(8), "low": low, "high": high, "pressures": list(pressures)}


def shown(case: Case) -> list[str]:
    """A case as a learner would write it."""
    if "jobs" in case:
        return shown_jobs(case)
    if "run" in case:
        return [f"decodelab.parity: {case['run']}"]
    if "asked" in case:
        knobs = ", ".join(f"{name}={value}" for name, value in case["config"].items())
        lines = [f"SchedulerConfig({knobs}), num_tokens={case['num_tokens']}"]
        return lines + [f"num_computed_tokens={c}, budget={b}, active={a}" for c, b, a in case["asked"]]
    rest = {name: value for name, value in case.items() if name not in ("name", "config", "drawn")}
    return [
        f"max_num_batched_tokens={case['config']['max_num_batched_tokens']}",
        *(f"{name}={value}" for name, value in rest.items()),
    ]


WORKED = [job(1, 3, 5), job(2, 16, 2), job(3, 7, 2, step=1)]
DRAWN = walk("", limits(8), *WORKED)  # a picture's
SHORT = {"num_blocks": 6, "max_num_seqs": 4}  # memory that runs out
LENGTHS = (7, 8, 9, 15, 16, 17)  # around one budget of 8 and around two
WALKS: list[Case] = [
    walk("one", limits(8), job(1, 5, 3)),
    walk("worked-case", limits(8), *WORKED),
    *(walk(f"a-prompt-of-{n}-and-a-budget-of-8", limits(8), job(1, n, 3)) for n in LENGTHS),
    walk("decodes-and-a-long-prompt", limits(8), job(1, 2, 9), job(2, 3, 9), job(3, 30, 2, step=2)),
    walk("more-decodes-than-budget", limits(3), *(job(i, 1, 6) for i in range(6))),
    walk("short-ones-behind-a-long-one", limits(16), job(1, 40, 2), *(job(i, 2, 3) for i in (2, 3, 4))),
    walk(
        "a-cap-on-long-prefills",
        limits(16, long_prefill_token_threshold=5),
        job(1, 40, 2),
        *(job(i, 2, 3) for i in (2, 3, 4)),
    ),
    walk(
        "no-cap-when-alone", limits(16, long_prefill_token_threshold=5), job(1, 30, 3), job(2, 3, 2, step=4)
    ),
    walk(
        "one-runs-and-one-waits",
        limits(16, max_num_seqs=1, long_prefill_token_threshold=5),
        job(1, 30, 2),
        job(2, 3, 2),
    ),
    walk("slots", limits(16, max_num_seqs=2), *(job(i, 3, 2 + i) for i in range(5))),
    walk("memory-runs-out", limits(16, **SHORT), job(1, 9, 9), job(2, 9, 5), job(3, 5, 4)),
    walk("a-chunk-finds-no-blocks", limits(6, **SHORT), job(1, 8, 8), job(2, 12, 3), job(3, 4, 2)),
    walk(
        "an-urgent-one-takes-the-memory",
        limits(16, **SHORT),
        *(job(i, 7, 9) for i in (1, 2, 3)),
        job(4, 8, 6, step=2, priority=5),
        policy="PriorityOrder",
    ),
    walk(
        "the-one-in-front-is-the-victim",
        limits(12, num_blocks=5),
        job(3, 9, 9),
        job(2, 3, 4, step=1, priority=2),
        job(1, 1, 5, step=2, priority=1),
        policy="PriorityOrder",
    ),
    walk(
        "a-victim-gives-its-budget-back",
        limits(5, num_blocks=10),
        job(3, 13, 7, step=2),
        job(2, 16, 4, step=4, priority=2),
        job(1, 6, 6, step=6, priority=2),
        policy="PriorityOrder",
    ),
    walk(
        "the-whole-prompt-is-reserved",
        limits(6, reserve_full_prompt=True, **SHORT),
        job(1, 8, 8),
        job(2, 14, 3),
        job(3, 2, 2),
    ),
    walk("a-watermark", limits(16, watermark=0.34, **SHORT), job(1, 9, 4), job(2, 6, 3), job(3, 4, 2)),
    walk(
        "no-watermark-when-nobody-runs", limits(16, watermark=0.5, num_blocks=4), job(1, 12, 2), job(2, 1, 4)
    ),
    walk("prompts-in-one-piece", limits(20, enable_chunked_prefill=False), *(job(i, 7, 3) for i in range(5))),
    walk(
        "stops-and-aborts",
        limits(8),
        job(1, 12, 9, stop_at=1),
        job(2, 9, 9, abort_at=2),
        job(3, 20, 2, step=1, abort_at=3),
        job(4, 3, 3, step=3, stop_at=2),
    ),
]
DOOR: list[Case] = [
    walk("no-limit", limits(8, max_model_len=None), job(1, 30, 40)),
    walk(
        "no-room-for-a-token",
        limits(8, max_model_len=16),
        *(job(i, n, 1) for i, n in enumerate((16, 15, 17, 160))),
    ),
    walk("one-token-of-room", limits(8, max_model_len=16), job(1, 15, 1), job(2, 15, 9), job(3, 14, 9)),
    walk("ends-at-the-limit", limits(8, max_model_len=16), job(1, 4, 50), job(2, 4, 12), job(3, 4, 13)),
    walk(
        "stops-on-the-last-place",
        limits(8, max_model_len=12),
        *(job(i, 4, 50, stop_at=stop) for i, stop in enumerate((6, 7, 8))),
    ),
    walk(
        "the-limit-makes-it-fit",
        limits(8, max_model_len=20, block_size=1, num_blocks=19),
        job(1, 4, 1_000),
        job(2, 19, 1_000),
    ),
    walk(
        "never-fits", limits(8, max_model_len=60, num_blocks=5), job(1, 10, 11), job(2, 10, 12), job(3, 2, 99)
    ),
    walk(
        "in-one-piece",
        limits(12, enable_chunked_prefill=False, max_model_len=12),
        job(1, 11, 30),
        job(2, 12, 2),
    ),
    walk("other-reasons", limits(8, max_model_len=9), job(1, 0, 1), job(2, 3, 0), job(3, 3, 9), job(3, 3, 9)),
    walk("a-refused-id-is-free", limits(8, max_model_len=9), job(1, 9, 1), job(1, 8, 1, step=1)),
]
ROWS = [[3, 9, 8], [1, 40, 8], [4, 5, 4], [2, 6, 4]]

VISIBLE: dict[str, list[Case]] = {
    "ch07.1": [
        chunks("a-decode-step", 10, [9, 64, 3], [9, 1, 3], [9, 64, 1]),
        chunks("around-the-budget", 9, [0, 8, 2], [0, 9, 2], [0, 10, 2], [1, 8, 2], [2, 8, 1]),
        chunks("goes-on", 100, [0, 64, 1], [64, 64, 1], [98, 64, 1], [40, 7, 4]),
        chunks("nothing-left-in-the-budget", 30, [0, 0, 2], [29, 0, 2]),
        chunks(
            "a-cap",
            70,
            *([[0, 64, 2], [20, 64, 2], [60, 64, 2], [49, 64, 9], [50, 64, 9], [51, 64, 9], [0, 7, 2]]),
            long_prefill_token_threshold=20,
        ),
        chunks("alone", 70, [0, 64, 1], [64, 64, 1], [0, 15, 1], long_prefill_token_threshold=20),
        chunks("in-one-piece", 9, [0, 8, 2], [0, 9, 2], [0, 64, 1], [8, 1, 2], enable_chunked_prefill=False),
    ],
    "ch07.2": WALKS,
    "ch07.3": WALKS,
    "ch07.4": DOOR,
    "ch07.5": [run(name) for name in ("plain-005", "plain-010", "plain-001", "priority-019", "priority-004", "prefix-000")],
    "ch07.6": [
        order("decodes-first", "decode", ROWS, [[8, 3, 0], [7, 1, 0]]),
        order("prefills-first", "prefill", ROWS, [[8, 3, 0], [7, 1, 0]]),
        order("as-admitted", "admission", ROWS, [[8, 3, 0], [7, 1, 0]]),
        *(order(f"nobody-new-{first}", first, ROWS) for first in ("decode", "prefill", "admission")),
        order("nobody-runs", "decode", [], [[2, 5, 0], [1, 5, 0]]),
        order("two-tokens-left", "prefill", [[1, 6, 5], [2, 6, 4]], [[3, 9, 0]]),
    ],
    "ch07.7": [
        quota("nobody-decodes", 100, 0.3, 0, 0),
        quota("a-share", 100, 0.7, 1, 30, 90),
        quota("rounded-down", 99, 0.5, 1),
        quota("a-small-share", 64, 0.01, 1, 5),
        quota("a-pace", 100, 1.0, 1, 10, 30, 0, pace=0.03125, each=1.0),
        quota("exactly-in-time", 64, 1.0, 8, 9, pace=0.0625, base=4.0, each=0.5),
        quota("share-and-pace", 100, 0.25, 2, 10, pace=0.03125, each=1.0),
        quota("too-slow-for-the-pace", 100, 0.5, 4, 40, pace=0.5, base=3.0, each=1.0),
    ],
    "ch07.8": [
        gate("up-and-down", 2, 5, 0, 3, 4, 5, 4, 3, 2, 3, 4, 5, 6, 1, 4),
        gate("down-to-nobody", 0, 1, 0, 1, 1, 0, 1, 0),
        gate("far-apart", 1, 8, 7, 8, 9, 2, 7, 1, 7, 8, 0),
        gate("next-to-each-other", 3, 4, 3, 4, 3, 4, 4, 3, 3),
    ],
}  # fmt: skip
