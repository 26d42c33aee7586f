"""The visible cases, and how a case is shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from decodelab.check.ch02.metrics import describe
from decodelab.check.rules import Case
from decodelab.check.toolkit import called
from decodelab.lang import Text, both
from decodelab.sim.hardware import GPU, GPUS, MODELS, ModelShape

# Sums of these are exact in binary, so that who arrives at the very end of a step is no matter of rounding.
PRICES = [0.5, 0.125, 0.0625, 0.03125]  # seconds: a step, a new token, a position, a pair
SMALL = asdict(ModelShape("small", 2, 4, 3, 1, 5, 7, 11, tied=False))
EVEN = SMALL | {"name": "even", "head_dim": 4}  # one token's keys and values are 32 bytes
EVEN_FLOPS = 2 * ModelShape(**EVEN).params + 4 * 2 * 3 * 4  # of a decode step at one position
COUNTER = asdict(GPU("counter", 1.0, 1.0, 1e6, "one FLOP and one byte a second: times are counts"))


def ask(request_id: int, arrival_time: float, prompt_len: int, max_new_tokens: int) -> dict[str, Any]:
    """A request as data."""
    return {
        "request_id": request_id,
        "arrival_time": arrival_time,
        "prompt_len": prompt_len,
        "max_new_tokens": max_new_tokens,
    }


def load(name: str, *requests: dict[str, Any], order: str = "fifo", prices: list[float] = PRICES) -> Case:
    """A workload for TODO 1."""
    return {"name": name, "requests": list(requests), "order": order, "prices": prices}


def priced(rule: str, of: int | None, text: Text, *steps: list[int], **parts: dict[str, Any]) -> Case:
    """Steps for TODO 2, named by the term of the sum that they are about; ``of``: 0 arithmetic, 1 traffic, None both."""
    hardware = {"model": SMALL, "gpu": COUNTER} | parts
    return {"name": rule, "rule": rule, "of": of, "text": text, "steps": list(steps), **hardware}


def timing(
    request_id: int, arrival_time: float, token_times: list[float], reason: str = "length", wait: float = 0.5
) -> dict[str, Any]:
    """A Timing as data; its first step begins ``wait`` seconds after arrival."""
    return {
        "request_id": request_id,
        "arrival_time": arrival_time,
        "prompt_len": 8,
        "scheduled_time": arrival_time + wait if token_times else None,
        "token_times": token_times,
        "reason": reason,
    }


def ranked(name: str, values: list[float], *qs: float) -> Case:
    """Percentiles for TODO 4."""
    return {"name": name, "values": values, "qs": list(qs)}


def promised(rule: str, text: Text, *timings: dict[str, Any], seconds: float = 4.0) -> Case:
    """Timings for TODO 5, with limits of 2 s and 0.5 s."""
    return {
        "name": rule,
        "rule": rule,
        "text": text,
        "timings": list(timings),
        "slo": [2.0, 0.5],
        "seconds": seconds,
    }


def turning(name: str, model: dict[str, Any], gpu: dict[str, Any], context: int) -> Case:
    """One question for TODO 6."""
    return {"name": name, "model": model, "gpu": gpu, "context": context}


def hardware(model: ModelShape, gpu: dict[str, Any]) -> list[str]:
    """A roofline, and the numbers that its two times are made of."""
    width = model.layers * model.heads * model.head_dim
    return [
        f"Roofline({model.name}, {gpu['name']})",
        f"  params={model.params}, width={width}, weight_bytes={model.weight_bytes:g}, kv_bytes={model.kv_bytes_per_token:g}",
        f"  gpu.flops={gpu['flops']:g}, gpu.bandwidth={gpu['bandwidth']:g}",
    ]


def shown(case: Case) -> list[str]:
    """A case as one would type it."""
    lines = [called("Request", request) for request in case.get("requests", [])]
    if "prices" in case:
        base, token, position, pair = case["prices"]
        lines.append(f"cost = {base} + {token}·new_tokens + {position}·kv_tokens + {pair}·pairs   # s")
    if "model" in case:
        lines += hardware(ModelShape(**case["model"]), case["gpu"])
    lines += [f"times{tuple(step)}" for step in case.get("steps", [])]
    lines += [f"Timing({describe(t)})" for t in case.get("timings", [])]
    lines += (
        [f"SLO(ttft={case['slo'][0]}, tpot={case['slo'][1]}), seconds={case['seconds']}"]
        if "slo" in case
        else []
    )
    lines += [f"percentile({case['values']!r:.300}, {q})" for q in case.get("qs", [])]
    return lines + ([f"turning_point(roofline, {case['context']})"] if "context" in case else [])


H100, LLAMA = asdict(GPUS["H100 SXM"]), asdict(MODELS["Llama-3.1-8B"])
BY_TENS = [10.0, 20.0, 30.0, 40.0, 50.0]
VISIBLE: dict[str, list[Case]] = {
    "ch02.1": [
        load("one-request", ask(1, 0.0, 2, 2)),
        load("late-start", ask(1, 3.0, 2, 1)),
        load("idle-between", ask(1, 0.0, 2, 1), ask(2, 50.0, 1, 1), ask(3, 60.0, 4, 2)),
        load("arrives-during-a-step", ask(1, 0.0, 4, 2), ask(2, 0.25, 1, 1), order="lifo"),
        load("several-at-once", ask(1, 1.0, 1, 2), ask(2, 1.0, 1, 1), ask(3, 1.0, 1, 2), order="turns"),
        load("at-the-very-end-of-a-step", ask(1, 0.0, 1, 1), ask(2, 0.71875, 1, 1), order="lifo"),
        load("named-out-of-order", ask(1, 9.0, 1, 1), ask(2, 0.0, 3, 2), ask(3, 9.0, 2, 1)),
        load("nobody"),
    ],
    "ch02.2": [
        priced(
            "two-flops-a-weight",
            0,
            both(en="A new token takes 2 FLOPs per weight.", zh="每个新 token 对每个权重用 2 FLOP。"),
            [1, 0, 0],
            [3, 0, 0],
        ),
        priced(
            "four-flops-a-pair",
            0,
            both(
                en="A (query, key) pair takes 4 FLOPs for each number of a head, in every head of every layer.",
                zh="每个（query，key）对，对所有层所有 head 里的每个数用 4 FLOP。",
            ),
            [1, 0, 1],
            [1, 0, 10],
            [1, 10, 0],
        ),
        priced(
            "weights-once",
            1,
            both(
                en="The weights are read once, whatever the step does.", zh="不管这一步做什么，权重都读一次。"
            ),
            [0, 0, 0],
        ),
        priced(
            "reads-positions",
            1,
            both(en="Each position read takes kv_bytes.", zh="每读一个位置要 kv_bytes 字节。"),
            [0, 1, 0],
            [0, 100, 50],
        ),
        priced(
            "writes-new-positions",
            1,
            both(
                en="Each new token is written: kv_bytes more.",
                zh="每个新 token 要写一次，再加 kv_bytes 字节。",
            ),
            [1, 0, 0],
            [6, 6, 21],
        ),
        priced(
            "in-seconds",
            None,
            both(
                en="FLOPs go through the peak, bytes through the bandwidth.",
                zh="FLOP 数除以峰值算力，字节数除以带宽。",
            ),
            [1, 1000, 1000],
            [1000, 1000, 500_500],
            model=LLAMA,
            gpu=H100,
        ),
    ],
    "ch02.3": [
        {"name": "a-few-tokens", "timings": [timing(1, 2.0, [5.0, 6.0, 9.0, 10.0])]},
        {"name": "one-token", "timings": [timing(1, 1.0, [2.5], "stop")]},
        {"name": "on-arrival", "timings": [timing(1, 3.0, [3.0], "stop", wait=0.0)]},
        {"name": "no-token", "timings": [timing(1, 1.0, [], "aborted"), timing(2, 0.0, [], "never_fits")]},
        {"name": "aborted", "timings": [timing(1, 1.0, [2.0, 4.0], "aborted")]},
        {"name": "not-over", "timings": [timing(1, 1.0, [2.0, 2.5, 4.0], "")]},
    ],
    "ch02.4": [
        ranked("ends", BY_TENS, 0, 100),
        ranked("at-a-value", BY_TENS, 50, 25),
        ranked("between-two-values", BY_TENS, 90, 60, 99),
        ranked("any-order", [7.0, 1.0, 4.0, 2.0], 50, 75),
        ranked("one-value", [3.5], 0, 37, 100),
    ],
    "ch02.5": [
        promised(
            "all-good",
            both(en="Good requests are counted per second.", zh="数出好请求，再除以秒数。"),
            timing(1, 0.0, [1.0, 1.25]),
            timing(2, 1.0, [2.0, 2.25, 2.5], "stop"),
        ),
        promised(
            "ttft-limit",
            both(en="A TTFT over its limit is not good.", zh="TTFT 超限就不算好。"),
            timing(1, 0.0, [2.5, 2.75]),
            timing(2, 0.0, [1.0, 1.25]),
            timing(3, 5.0, [6.0, 6.25]),
        ),
        promised(
            "tpot-limit",
            both(en="A TPOT over its limit is not good.", zh="TPOT 超限就不算好。"),
            timing(1, 0.0, [1.0, 2.0]),
            timing(2, 0.0, [1.0, 1.25]),
        ),
        promised(
            "limit-included",
            both(en="Exactly at the limit is good.", zh="恰好等于限度，算好。"),
            timing(1, 1.0, [3.0, 3.5]),
        ),
        promised(
            "one-token",
            both(
                en="One token has no TPOT and cannot miss it.", zh="只有一个 token 就没有 TPOT，谈不上超限。"
            ),
            timing(1, 0.0, [1.0], "stop"),
        ),
        promised(
            "complete-only",
            both(en="Only a complete answer is good.", zh="只有完整的回答才算好。"),
            timing(1, 0.0, [1.0, 1.25], "aborted"),
            timing(2, 0.0, [], "timeout"),
            timing(3, 0.0, [1.0, 1.25]),
            timing(4, 0.0, [1.0], ""),
        ),
        promised(
            "zero-is-a-time",
            both(en="0.0 s is a time: only None is none.", zh="0.0 秒也是时间，只有 None 才算没有。"),
            timing(1, 3.0, [3.0], "stop", wait=0.0),
            timing(2, 0.0, [0.0, 0.25], wait=0.0),
            timing(3, 0.0, [1.0, 1.0, 1.0]),
        ),
        promised(
            "tpot-is-a-mean",
            both(
                en="TPOT is one number of the whole answer: a single gap may be longer than the limit.",
                zh="TPOT 是整个回答的一个数：单独一个间隔可以比限度长。",
            ),
            timing(1, 0.0, [1.0, 1.75, 1.875]),
        ),
        promised("nobody", both(en="No request, no goodput.", zh="没有请求，goodput 就是 0。")),
    ],
    "ch02.6": [
        turning("no-context", LLAMA, H100, 0),
        turning("short-context", LLAMA, H100, 100),
        turning("never", LLAMA, H100, 1000),
        turning("side-by-side", EVEN, COUNTER | {"flops": 2.0 * EVEN_FLOPS, "bandwidth": 128.0}, 1),
        turning("small-model", SMALL, COUNTER | {"flops": 64.0}, 1),
        turning("from-the-first-on", SMALL, COUNTER | {"bandwidth": 1e6}, 3),
    ],
}
