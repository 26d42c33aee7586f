"""The composed scheduler of chapter 7 on a generated chat trace: CPU seconds by size, and the log streamed to a file."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _runner import RESULTS, machine, now

from decodelab import chapter
from decodelab.contract import SchedulerConfig
from decodelab.replay import replay
from decodelab.run import Loop
from decodelab.sim.executor import SimExecutor
from decodelab.sim.hardware import GPUS, MODELS
from decodelab.workload import synthetic

SIZES = (1_000, 5_000, 19_366)  # requests; the last is Azure's chat trace
SEED = 1
CONFIG = SchedulerConfig(
    max_num_seqs=256, max_num_batched_tokens=2048, max_model_len=16_384, num_blocks=28_000
)


def parts() -> tuple[Any, SimExecutor]:
    """A scheduler and an executor, fresh."""
    ch07 = chapter("ch07")
    cost = chapter("ch02").Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])
    return ch07.ChunkedScheduler(CONFIG, ch07.FCFS()), SimExecutor(cost)


def timed(run: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds, and the peak of memory that this process has ever had, in MB."""
    began = process_time()
    counted = run()
    seconds, peak = process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        **counted,
        "cpu_s": seconds,
        "us_per_request_step": 1e6 * seconds / counted["request_steps"],
        "peak_mb": peak,
    }


def through_the_loop(requests: list[Any]) -> dict[str, int]:
    """Loop, scheduler and simulator alone."""
    steps = request_steps = 0
    for step in Loop(requests, *parts()):
        steps, request_steps = steps + 1, request_steps + len(step.plan.scheduled)
    return {"steps": steps, "request_steps": request_steps}


def with_timings(requests: list[Any], log: Path | None = None) -> dict[str, int]:
    """Times of every request, and the log in a file where one is named."""
    seen = replay(requests, *parts(), progress=False, log=log)
    tokens = sum(len(timing.token_times) for timing in seen)
    return {"request_steps": tokens, "log_bytes": log.stat().st_size if log else 0}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write results/scheduler.json, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    args = parser.parse_args(argv)
    traces = {size: synthetic("azure-chat-like", size, SEED).requests for size in args.sizes}
    samples: list[dict[str, Any]] = []
    parts()  # the chapters are loaded before the first sample
    for number in range(args.repeats):
        for size, requests in traces.items():
            for name, run in (("loop", through_the_loop), ("timings", with_timings)):
                samples.append(
                    {"case": name, "requests": size, "round": number, **timed(partial(run, requests))}
                )
    with TemporaryDirectory() as folder:
        log = Path(folder) / "run.jsonl"
        size = args.sizes[-1]
        samples.append(
            {"case": "log", "requests": size, "round": 0, **timed(partial(with_timings, traces[size], log))}
        )
    report(samples)
    return 0


def report(samples: list[dict[str, Any]]) -> None:
    """Keep all samples; print the median of each case."""
    cases = dict.fromkeys((one["case"], one["requests"]) for one in samples)
    medians = {}
    for case, size in cases:
        own = sorted(one["cpu_s"] for one in samples if (one["case"], one["requests"]) == (case, size))
        medians[f"{case}, {size} requests"] = round(own[len(own) // 2], 3)
    about = {
        "benchmark": "scheduler",
        "shows": "CPU seconds of chapter 7's scheduler in the simulator on synthetic azure-chat-like requests, "
        "seed 1; log: every step's record streamed to a plain file",
        "not_shown": "a GPU, a real engine, preemptions (memory does not run out here)",
    }
    result = {**about, "when": now(), "machine": machine(), "samples": samples}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scheduler.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(
        json.dumps(
            {**about, "cpu_seconds_median": medians, "peak_mb": max(one["peak_mb"] for one in samples)}
        )
    )


if __name__ == "__main__":
    sys.exit(main())
