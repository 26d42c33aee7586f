"""A trace served by the learner's own scheduler, or the reference's, and its latencies: ``decodelab replay``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decodelab.chapters import chapter
from decodelab.contract import SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.lang import both, tr
from decodelab.replay import replay
from decodelab.request import SLO, Request
from decodelab.sim.executor import SimExecutor
from decodelab.sim.hardware import GPUS, MODELS

POLICIES = ("fcfs", "sjf", "priority", "aging")


def policy_named(name: str) -> Any:
    """One of chapter 3's policies; ``aging`` is SJF that forgives 100 tokens a second waited."""
    lab = chapter("ch03")
    made = {"fcfs": lab.FCFS, "sjf": lab.SJF, "priority": lab.PriorityOrder}
    return lab.Aging(lab.SJF(), 100.0) if name == "aging" else made[name]()


def served(
    requests: Sequence[Request],
    policy: str,
    gpu: str,
    model: str,
    slo: SLO,
    config: SchedulerConfig,
    log: Path | None = None,
) -> dict[str, Any]:
    """Serve ``requests`` by continuous batching on a simulated GPU; chapter 2's report and who was refused.

    Seconds are those of the cost model. DecodeLabError for a policy, GPU or model there is not.
    """
    for kind, name, known in (("policy", policy, POLICIES), ("GPU", gpu, GPUS), ("model", model, MODELS)):
        if name not in known:
            listed = ", ".join(known)
            raise DecodeLabError(
                both(
                    en=f"There is no {kind} {name!r}; choose one of {listed}.",
                    zh=f"没有名为 {name!r} 的 {kind}；可选的有 {listed}。",
                )
            )
    costs = chapter("ch02")
    scheduler = chapter("ch04").ContinuousBatchScheduler(config, policy_named(policy))
    seen = replay(requests, scheduler, SimExecutor(costs.Roofline(MODELS[model], GPUS[gpu])), log=log)
    timings = list(seen)
    over = max((t.token_times[-1] for t in timings if t.token_times), default=0.0)
    return costs.report(timings, slo, over or 1.0) | {
        "seconds": over,
        "refused": sum(not t.token_times and bool(t.reason) for t in timings),
    }


def table(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """A report as head and rows."""
    rows = [[name, shown(name, value)] for name, value in report.items()]
    return [tr(en="measure", zh="指标"), tr(en="value", zh="值")], rows


def shown(name: str, value: float | None) -> str:
    """A number of the report with its unit."""
    if value is None:
        return "-"
    if name.startswith(("ttft", "tpot", "e2e")):
        return f"{value * 1000:,.1f} ms"
    return f"{value:,.0f}" if isinstance(value, int) else f"{value:,.2f}"
