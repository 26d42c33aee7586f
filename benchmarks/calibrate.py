"""Simulated against measured latency: chapter 10's calibration, judged on other seeds at two Poisson rates."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _runner import RESULTS, machine, now

from decodelab import chapter
from decodelab.contract import SchedulerConfig
from decodelab.models.load import load
from decodelab.models.tokenizer import library
from decodelab.request import Job, Request
from decodelab.run import Loop, TimeClock
from decodelab.sim.executor import Cost, SimExecutor
from decodelab.timings import Timing, timings
from decodelab.workload import arriving, poisson

CONFIG = SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=64, max_model_len=256, num_blocks=128)
METRICS, PERCENTILES = ("ttft", "tpot", "e2e"), (50, 95)


def asked(count: int, seed: int) -> list[Request]:
    """Requests of chat-like shape, short enough for the embedded model, all there at 0."""
    drawn = random.Random(seed)
    return [Request(i, 0.0, drawn.randint(8, 160), drawn.randint(8, 64)) for i in range(count)]


def scheduler() -> Any:
    return chapter("ch07").ChunkedScheduler(CONFIG, chapter("ch03").FCFS())


def simulated(requests: list[Request], cost: Cost) -> list[Timing]:
    return list(timings(Loop(requests, scheduler(), SimExecutor(cost), TimeClock())))


def measured(requests: list[Request], engine: Any) -> list[Timing]:
    """The same on the wall clock, by a new engine: who is due comes in before its next step."""
    coming = sorted(requests, key=lambda one: one.arrival_time)[::-1]
    while coming or engine.active:
        engine.clock.reads()
        while coming and coming[-1].arrival_time <= engine.clock.now:
            engine.submit(Job(coming.pop()))
        if engine.active:
            engine.step()
        else:
            engine.clock.skip(coming[-1].arrival_time)
    return list(engine.timings)


def latencies(seen: Iterable[Timing]) -> dict[str, list[float]]:
    """Seconds of every request, by metric."""
    lab, seen = chapter("ch02"), list(seen)
    return {name: [v for t in seen if (v := getattr(lab, name)(t)) is not None] for name in METRICS}


def compared(want: dict[str, list[float]], got: dict[str, list[float]]) -> dict[str, float]:
    """Simulated over measured, of each percentile of each metric."""
    percentile = chapter("ch02").percentile
    return {
        f"{name}_p{p}": percentile(got[name], p) / percentile(want[name], p)
        for name in METRICS
        for p in PERCENTILES
    }


def runs(args: argparse.Namespace, engine_of: Callable[[], Any]) -> list[dict[str, Any]]:
    """Each seed at each load, with a piece of the calibration before each, for a machine's speed drifts.

    A load is a share of the requests a second that the simulator can serve after the first piece.
    """
    lab, pieces = chapter("ch10"), len(args.seeds) * len(args.loads) + 1
    engine = engine_of()

    def piece(number: int) -> list[Any]:
        return lab.measure(engine, CONFIG, args.seconds / pieces, longest=224, seed=-1 - number)

    samples = piece(0)
    found: list[dict[str, Any]] = []
    most = max(t.token_times[-1] for t in simulated(asked(args.requests, args.seeds[0]), lab.fit(samples)))
    for seed in args.seeds:
        for share in args.loads:
            rate = share * args.requests / most
            requests = arriving(asked(args.requests, seed), poisson(rate, args.requests, seed))
            samples += piece(len(found) + 1)
            want = latencies(measured(requests, engine_of()))
            found.append({"seed": seed, "load": share, "rate": rate, "requests": requests, "measured": want})
    cost = lab.fit(samples)
    for one in found:
        one["simulated"] = latencies(simulated(one.pop("requests"), cost))
        one["ratios"] = compared(one["measured"], one["simulated"])
        ratios = ", ".join(f"{name} {value:.3f}" for name, value in one["ratios"].items())
        print(f"seed {one['seed']}, load {one['load']}: {ratios}", flush=True)
    return found


def pooled(found: list[dict[str, Any]], share: float) -> dict[str, float]:
    """The ratios over all requests of all seeds at one load."""

    def all_of(kind: str) -> dict[str, list[float]]:
        of_load = [one[kind] for one in found if one["load"] == share]
        return {name: [v for one in of_load for v in one[name]] for name in METRICS}

    return compared(all_of("measured"), all_of("simulated"))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write results/calibrate.json, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--seconds", type=float, default=20.0, help="of calibration, in all")
    parser.add_argument("--requests", type=int, default=80, help="of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--loads", type=float, nargs="+", default=[0.35, 0.7])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    library("torch").set_num_threads(args.threads)
    model, lab = load(args.model), chapter("ch10")
    decoder = chapter("ch08").Decoder(model.config, model.weights)

    def engine() -> Any:
        return lab.Engine(scheduler(), lab.TorchExecutor(decoder, CONFIG.num_blocks, CONFIG.block_size))

    report(args, runs(args, engine))
    return 0


def report(args: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """Keep every request's latencies; print the ratios of each load, and the one that is farthest off."""
    ratios = {f"load {share}": pooled(found, share) for share in args.loads}
    worst = max(abs(v - 1) for one in ratios.values() for v in one.values())
    about = {
        "benchmark": "calibrate",
        "shows": "simulated over measured latency (P50, P95), all seeds of a load together; chapter 7's scheduler and "
        f"chapter 10's engine on {args.model} on the wall clock, calibrated for {args.seconds:g} s on other seeds, a piece before each run",
        "not_shown": "other models, other mixes of lengths, a GPU; a machine that others use at the same time",
        "config": {"requests": args.requests, "seeds": args.seeds, "threads": args.threads},
        "ratios": {load: {name: round(v, 3) for name, v in one.items()} for load, one in ratios.items()},
        "farthest_off": round(worst, 3),
    }
    result = {**about, "when": now(), "machine": machine(), "runs": found}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "calibrate.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(json.dumps(about))


if __name__ == "__main__":
    sys.exit(main())
