"""Chapter 1's scheduler as book-keeping: it shares nothing with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from decodelab.lang import Text, both

NEW = {"generated_len": 0, "phase": "prefill", "priority": 0, "cache_hit": False}  # a request's defaults
REQUEST_FIELDS = ("request_id", "prompt_len", *NEW, "max_new_tokens")
FIELDS = ("request_id", "phase", "action", "prompt_len", "generated_len")
STRANGER = 987_654_321  # a request that waits in another scheduler

# The order of the queue, field by field: rule name, rank (smallest first), words.
ORDER: list[tuple[str, Callable[[dict[str, Any]], int], Text]] = [
    (
        "prefill-first",
        lambda r: ["prefill", "decode"].index(r["phase"]),
        both(
            en="a request in prefill goes before one in decode",
            zh="处于 prefill 的请求先于处于 decode 的请求",
        ),
    ),
    (
        "cache-first",
        lambda r: 0 if r["cache_hit"] else 1,
        both(en="in the same phase, a cache hit goes before a miss", zh="阶段相同时，命中缓存的先于未命中的"),
    ),
    (
        "priority-first",
        lambda r: -r["priority"],
        both(
            en="with phase and cache alike, the higher priority goes first",
            zh="阶段、缓存都相同时，priority 大的先服务",
        ),
    ),
    (
        "shortest-first",
        lambda r: r["prompt_len"] + r["generated_len"],
        both(
            en="with all that alike, the smaller total_len (prompt + generated so far) goes first",
            zh="以上都相同时，total_len（提示词长度 + 已生成的 token 数）小的先服务",
        ),
    ),
    (
        "lowest-id-last-resort",
        lambda r: r["request_id"],
        both(en="a full tie goes to the smaller request_id", zh="全部相同时，request_id 小的先服务"),
    ),
]


def target(request: dict[str, Any]) -> int:
    """How many tokens the request is to generate in all."""
    wanted = request["max_new_tokens"]
    return int(request["prompt_len"] if wanted is None else wanted)


class Spec:
    """Chapter 1's scheduler as book-keeping: requests as plain dicts, the next one found by elimination."""

    def __init__(self) -> None:
        self.requests: dict[int, dict[str, Any]] = {}

    def enqueue(
        self,
        request_id: int,
        prompt_len: int,
        priority: int = 0,
        cache_hit: bool = False,
        max_new_tokens: int | None = None,
    ) -> None:
        """Take a request in."""
        self.requests[request_id] = {
            "request_id": request_id,
            "prompt_len": prompt_len,
            **NEW,
            "priority": priority,
            "cache_hit": cache_hit,
            "max_new_tokens": max_new_tokens,
        }

    def refuses(self, request: dict[str, Any]) -> bool:
        """Whether this request must be turned away."""
        lengths = [request["prompt_len"], request.get("max_new_tokens")]
        asked = lengths if lengths[1] is not None else lengths[:1]
        return request["request_id"] in self.requests or any(type(n) is not int or n < 1 for n in asked)

    def left(self, request: dict[str, Any]) -> int:
        """How many tokens the request still has to generate."""
        return target(request) - request["generated_len"]

    def queue(self) -> list[dict[str, Any]]:
        """The active requests, as they are now."""
        return [dict(r) for r in self.requests.values() if self.left(r) > 0]

    def due(self) -> int | None:
        """The id of the request that goes next: field by field, those that fall behind are left out."""
        candidates = self.queue()
        for _, rank, _ in ORDER:
            best = min(map(rank, candidates), default=0)
            candidates = [r for r in candidates if rank(r) == best]
        return candidates[0]["request_id"] if candidates else None

    def advance(self, request_id: int) -> dict[str, Any]:
        """Serve one step of this request: the event it must leave behind."""
        request = self.requests[request_id]
        served, action = request["phase"], "prefill_to_decode"
        if served == "prefill":
            request["phase"] = "decode"
        else:
            request["generated_len"] += 1
            action = "decode_one_step" if self.left(request) > 0 else "finish"
        return {
            "request_id": request_id,
            "phase": served,
            "action": action,
            "prompt_len": request["prompt_len"],
            "generated_len": request["generated_len"],
        }


@dataclass(frozen=True)
class Turn:
    """One call of a script, the active requests ``before`` it, and the event that it must leave."""

    method: str  # "enqueue" | "step"
    arguments: dict[str, Any]
    before: list[dict[str, Any]]
    want: dict[str, Any] | None = None

    def queue(self) -> list[dict[str, Any]]:
        """The active requests when the call is made."""
        return self.before


def walked(script: list[list[Any]]) -> list[Turn]:
    """The calls of a script of ``["enqueue", {...}]`` and ``["steps", n]`` (None: to the end and one more)."""
    spec, turns = Spec(), []
    for order, argument in script:
        if order == "enqueue":
            turns.append(Turn("enqueue", argument, spec.queue()))
            spec.enqueue(**argument)
            continue
        steps = sum(1 + spec.left(r) for r in spec.queue()) + 1 if argument is None else argument
        for _ in range(steps):
            before, due = spec.queue(), spec.due()
            turns.append(Turn("step", {}, before, None if due is None else spec.advance(due)))
    return turns
