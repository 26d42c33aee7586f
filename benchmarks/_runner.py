"""Times functions side by side and keeps every sample: what each benchmark here is made of."""

from __future__ import annotations

import json
import os
import platform
import random
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns
from typing import Any

RESULTS = Path(__file__).parent / "results"
SEED = 0


def measure(
    cases: Mapping[str, Callable[[], object]], repeats: int, seed: int = SEED, warm_up: bool = True
) -> dict[str, Any]:
    """Time each case ``repeats`` times, after one run that warms up; each round has an order of its own.

    Returns ``order``, the case of every sample as it was run, and ``samples_s``, seconds by case in that
    order. No sample is left out.
    """
    shuffled = random.Random(seed).sample
    for run in cases.values() if warm_up else ():
        run()
    order: list[str] = []
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for name in (name for _ in range(repeats) for name in shuffled(list(cases), len(cases))):
        began = perf_counter_ns()
        cases[name]()
        samples[name].append((perf_counter_ns() - began) / 1e9)
        order.append(name)
    return {"seed": seed, "order": order, "samples_s": samples}


def report(name: str, measured: Mapping[str, Any], **about: Any) -> None:
    """Write ``results/NAME.json`` with the machine beside the samples, and print one JSON line.

    The line has what ``about`` says and minimum, median and maximum of each case, in seconds.
    """
    result = {"benchmark": name, "when": now(), "machine": machine(), **about, **measured}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    seconds = {
        case: dict(zip(("min", "median", "max"), (min(s), sorted(s)[len(s) // 2], max(s)), strict=True))
        for case, s in measured["samples_s"].items()
    }
    print(json.dumps({"benchmark": name, **about, "seconds": seconds}, ensure_ascii=False))


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def machine() -> dict[str, Any]:
    """What the samples were taken on."""
    return {
        "system": platform.platform(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "python": sys.version.split()[0],
        "numpy": version("numpy"),
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0].split(":", 1)[1].strip() if names else platform.processor()
