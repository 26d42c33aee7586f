"""What chapter 2's checks run beside an answer, in its process: a scheduler that notes who called it, and prices."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

from decodelab.request import SLO, Request
from decodelab.sim.hardware import GPU, ModelShape
from decodelab.timings import Timing

IDLE = 200  # calls of step with nobody there, in a row, after which an answer's clock stands still


class StandsStillError(Exception):
    """The loop asks for steps and moves neither clock nor requests."""


class ToySim:
    """A scheduler of chapter 1's kind with a simple order; ``calls`` is what was asked of it.

    Orders: ``fifo`` one request to its end, ``lifo`` the newest first, ``turns`` one step each in turn.
    """

    def __init__(self, order: str) -> None:
        self.order = order
        self.active: list[dict[str, Any]] = []
        self.calls: list[tuple[str, Any]] = []
        self.idle = 0

    def enqueue(
        self,
        request_id: int,
        prompt_len: int,
        priority: int = 0,
        cache_hit: bool = False,
        max_new_tokens: int | None = None,
    ) -> None:
        self.calls.append(("enqueue", request_id))
        target = prompt_len if max_new_tokens is None else max_new_tokens
        event = {"request_id": request_id, "prompt_len": prompt_len, "generated_len": 0, "phase": ""}
        self.active.append(event | {"target": target})

    def step(self) -> dict[str, Any] | None:
        if not self.active:
            self.calls.append(("idle", None))
            self.idle += 1
            if self.idle > IDLE:
                raise StandsStillError
            return None
        self.idle = 0
        request = self.active.pop(-1 if self.order == "lifo" else 0)
        decoding = request["phase"] != ""
        request["phase"] = "decode" if decoding else "prefill"
        request["generated_len"] += decoding
        done = request["generated_len"] == request["target"]
        action = "finish" if done else "decode_one_step" if decoding else "prefill_to_decode"
        if not done:
            place = 0 if self.order == "fifo" else len(self.active)
            self.active.insert(place, request)
        event = {k: v for k, v in request.items() if k != "target"} | {"action": action}
        self.calls.append(("step", event))
        return dict(event)


class Prices:
    """A cost that needs all three numbers of a step: ``base`` seconds, and so many a token, position and pair."""

    def __init__(self, base: float, token: float, position: float, pair: float) -> None:
        self.base, self.token, self.position, self.pair = base, token, position, pair

    def __call__(self, new_tokens: int, kv_tokens: int, pairs: int) -> float:
        return self.base + self.token * new_tokens + self.position * kv_tokens + self.pair * pairs


def clocked(
    clocked_sim: Any, requests: list[dict[str, Any]], order: str, prices: list[float]
) -> dict[str, Any]:
    """Drive an answer's ClockedSim; its calls, what it recorded (request, start, end) and its timings, as data."""
    sim = ToySim(order)
    clocked = clocked_sim(sim, Prices(*prices))
    stands_still = False
    timings: Any = []
    try:
        timings = clocked.run([Request(**request) for request in requests])
    except StandsStillError:
        stands_still = True
    return {
        "calls": sim.calls,
        "recorded": [(event["request_id"], start, end) for event, start, end in clocked.log],
        "timings": [as_data(t) for t in timings] if isinstance(timings, list) else repr(timings)[:100],
        "stands_still": stands_still,
    }


def as_data(timing: Any) -> Any:
    """A Timing as a dict; anything else as it is."""
    return asdict(timing) if is_dataclass(timing) and not isinstance(timing, type) else timing


def times(roofline: Any, model: dict[str, Any], gpu: dict[str, Any], steps: list[list[int]]) -> list[Any]:
    """What an answer's Roofline says of each step: its two times, and the price of the whole."""
    priced = roofline(ModelShape(**model), GPU(**gpu))
    both = [priced.times(*step) for step in steps]
    return [
        (two, priced(*step) if isinstance(two, tuple) else None)
        for two, step in zip(both, steps, strict=True)
    ]


def waits(latencies: Any, timing: dict[str, Any]) -> Any:
    """What an answer's latencies says, and whether its Timing is as it was."""
    given, before = Timing(**timing), asdict(Timing(**timing))
    return [latencies(given), asdict(given) == before]


def ranked(percentile: Any, values: list[float], q: float) -> Any:
    """What an answer's percentile says, and whether the caller's list is as it was."""
    given = list(values)
    return [percentile(given, q), given == values]


def good(goodput: Any, timings: list[dict[str, Any]], slo: list[float], seconds: float) -> Any:
    """What an answer's goodput says."""
    return goodput([Timing(**timing) for timing in timings], SLO(*slo), seconds)


def turn(turning_point: Any, roofline: Any, model: dict[str, Any], gpu: dict[str, Any], context: int) -> Any:
    """What an answer's turning_point says."""
    return turning_point(roofline(ModelShape(**model), GPU(**gpu)), context)
