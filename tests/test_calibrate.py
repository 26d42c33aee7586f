"""The benchmark of the calibrated simulator: small, and that its ratios say what they claim."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "calibrate.py"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))
    names = runpy.run_path(str(BENCHMARK))
    names["main"].__globals__["RESULTS"] = tmp_path
    return SimpleNamespace(**names)


def test_ratios_are_simulated_over_measured(bench: SimpleNamespace) -> None:
    measured = {name: [1.0, 2.0, 3.0, 4.0] for name in bench.METRICS}
    simulated = {name: [1.5 * v for v in values] for name, values in measured.items()}
    assert bench.compared(measured, simulated) == pytest.approx(
        {f"{name}_p{p}": 1.5 for name in ("ttft", "tpot", "e2e") for p in (50, 95)}
    )


def test_the_simulator_predicts_itself(bench: SimpleNamespace) -> None:
    def cost(new_tokens: int, kv_tokens: int, pairs: int) -> float:
        return 0.001 + 0.0001 * new_tokens

    requests = bench.asked(12, seed=3)
    seen = bench.latencies(bench.simulated(requests, cost))
    assert bench.compared(seen, seen) == dict.fromkeys(bench.compared(seen, seen), 1.0)
    assert all(len(values) == 12 for values in seen.values())


@pytest.mark.torch
def test_it_runs_and_keeps_every_latency(
    bench: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--seconds", "1", "--requests", "3", "--seeds", "1", "2", "--loads", "0.5"]) == 0
    told = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert set(told["ratios"]) == {"load 0.5"}
    kept = json.loads((tmp_path / "calibrate.json").read_text())
    assert [run["seed"] for run in kept["runs"]] == [1, 2]
    assert all(len(run["measured"]["e2e"]) == len(run["simulated"]["e2e"]) == 3 for run in kept["runs"])
