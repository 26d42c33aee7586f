"""Two worlds, one scheduler: on the logical clock the simulator and a real model give the same step log.

Token ids are left out, for only a model knows them; all else is the same byte for byte.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from loads import Load, happened, load
from reference import reference
from strategies import per_token

from decodelab.check.ch08 import tiny
from decodelab.contract import Plan
from decodelab.log import Record
from decodelab.models.config import Config
from decodelab.parity import Difference, logical_log, two_worlds
from decodelab.request import EOS
from decodelab.sim.executor import SimExecutor

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
CH08, CH10 = reference("ch08"), reference("ch10")
CONFIG = Config(**tiny.shape_of("llama"))
DECODER = CH08.Decoder(CONFIG, {name: torch.from_numpy(w) for name, w in tiny.weights("llama", 0).items()})
ALWAYS = ("late arrivals", "refused", "aborts", "chunks", "early stops", "ends by length")
PREEMPTIONS = ("preemptions by recompute", "preemptions by swap", "swapped back in")


def logs(one: Load, kind: Any = None, maker: Any = None) -> list[Iterator[Record]]:
    """The workload in the simulator and with a real model, both by the same cost model."""
    made, maker = kind or CH10.TorchExecutor, maker or one.maker
    real = made(
        DECODER, one.num_blocks, one.config.block_size, one.host_blocks, cost=per_token, fixed_ends=True
    )
    return [logical_log(one.jobs, maker(), world) for world in (SimExecutor(per_token), real)]


def parted(one: Load, kind: Any = None, maker: Any = None) -> Difference | None:
    return two_worlds(one.name, *logs(one, kind, maker))


def agree(numbers: range) -> Counter[str]:
    """In how many of these workloads each kind of thing happened; fails at the first that differs."""
    seen: Counter[str] = Counter()
    for one in (load(number, CONFIG.vocab) for number in numbers):
        simulated, real = map(list, logs(one))
        difference = two_worlds(one.name, simulated, real)
        assert difference is None, difference.text["en"]
        assert json.dumps(simulated) == json.dumps(real)
        seen.update(happened(simulated).keys())
    print(f"\nof {len(numbers)} workloads:", ", ".join(f"{n} with {kind}" for kind, n in seen.most_common()))
    return seen


@pytest.mark.parametrize("count", [140, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_same_workload_gives_the_same_log_in_both_worlds(count: int) -> None:
    seen = agree(range(count))
    assert set(seen) == {*ALWAYS, *PREEMPTIONS}
    assert min(seen.values()) >= count / 20


# --- what is wrong is seen, and named ---------------------------------------------------------------


class TokenForEveryChunk(CH10.TorchExecutor):  # type: ignore[name-defined]
    def execute(self, plan: Plan) -> Any:
        tokens, seconds = super().execute(plan)
        return {i: tokens.get(i, [7]) for i in plan.scheduled}, seconds


class NeverStops(CH10.TorchExecutor):  # type: ignore[name-defined]
    def execute(self, plan: Plan) -> Any:
        tokens, seconds = super().execute(plan)
        return {i: [7 if t == EOS else t for t in some] for i, some in tokens.items()}, seconds


class OtherOrder(CH10.TorchExecutor):  # type: ignore[name-defined]
    def execute(self, plan: Plan) -> Any:
        tokens, seconds = super().execute(plan)
        return dict(reversed(tokens.items())), seconds


class OtherSeconds(CH10.TorchExecutor):  # type: ignore[name-defined]
    def execute(self, plan: Plan) -> Any:
        tokens, seconds = super().execute(plan)
        return tokens, seconds + 2**-20


@pytest.mark.parametrize(
    ("wrong", "field"),
    [(TokenForEveryChunk, "tokens"), (NeverStops, "tokens"), (OtherOrder, "tokens"), (OtherSeconds, "time")],
)
def test_an_executor_that_is_wrong_parts_from_the_simulator(wrong: Any, field: str) -> None:
    found = [parted(load(number, CONFIG.vocab), wrong) for number in range(0, 25, 5)]
    assert {difference.field for difference in found if difference} == {field}
    first = next(difference for difference in found if difference)
    assert first.want != first.got or list(first.want) != list(first.got)
    assert all(first.workload in text and field in text for text in first.text.values())


def test_a_scheduler_that_reads_token_ids_lives_in_one_world_only() -> None:
    """What it decides by, the simulator does not know."""

    class Reads(reference("ch07").ChunkedScheduler):  # type: ignore[misc]
        def update(self, plan: Plan, tokens: Any, now: float) -> Any:
            finished = super().update(plan, tokens, now)
            for request_id, some in tokens.items():
                if request_id not in finished and some[0] % 2:
                    self.abort(request_id, now)
                    finished[request_id] = "length"
            return finished

    one = load(0, CONFIG.vocab)
    difference = parted(one, maker=lambda: Reads(one.config, reference("ch03").FCFS()))
    assert difference
    assert difference.field == "finished"
