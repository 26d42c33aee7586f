"""Chapter 3's orders and queues as book-keeping: they share nothing with the reference.

A policy is named as ``("SJF",)``, with its arguments behind: ``("Aging", ("SJF",), 2.0)``. ``Coarse`` and
``Ratio`` are the check's own: a key that ties, and one whose order changes while requests wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from decodelab.lang import Text, both

Policy: TypeAlias = "tuple[Any, ...]"
Asked: TypeAlias = "dict[str, Any]"  # a request as keywords of Request
Rank: TypeAlias = "Callable[[Asked, float], Any]"  # of a request at ``now``; the smallest goes first
Field: TypeAlias = "tuple[str, Rank, Text]"  # rule, rank, words

PRIORITY: Field = (
    "urgent-first",
    lambda r, now: -r.get("priority", 0),
    both(en="the higher priority goes first", zh="priority 大的在前"),
)
SHORTER: Field = (
    "shorter-first",
    lambda r, now: r["prompt_len"] + r["max_new_tokens"],
    both(
        en="the smaller job goes first: prompt_len + max_new_tokens, or what size() says",
        zh="小的作业在前：看 prompt_len + max_new_tokens，或者 size() 给出的大小",
    ),
)
EARLIER: Field = (
    "earlier-first",
    lambda r, now: r["arrival_time"],
    both(en="who arrived earlier goes first", zh="先到的在前"),
)
LOWEST_ID: Field = (
    "lowest-id-last-resort",
    lambda r, now: r["request_id"],
    both(en="a full tie goes to the smaller request_id", zh="全部相同时，request_id 小的在前"),
)
COARSE: Field = ("smallest-key", PRIORITY[1], PRIORITY[2])
RATIO: Field = (
    "key-of-now",
    lambda r, now: -(now - r["arrival_time"]) / r["prompt_len"],
    both(
        en="the longest wait for its prompt length goes first, as things stand at this pop",
        zh="等待时间与提示词长度之比最大的在前，按这次 pop 的时刻算",
    ),
)


def fields(policy: Policy) -> list[Field]:
    """What a policy compares, one after the other."""
    name, *arguments = policy
    if name == "Aging":
        inner, rate = arguments
        (_, rank, _), *rest = fields(inner)
        return [aged(rank, rate), *rest]
    if name == "SJF" and arguments:
        return [("asks-size", lambda r, now: r[arguments[0]], SHORTER[2]), EARLIER, LOWEST_ID]
    return {
        "FCFS": [EARLIER, LOWEST_ID],
        "SJF": [SHORTER, EARLIER, LOWEST_ID],
        "PriorityOrder": [PRIORITY, EARLIER, LOWEST_ID],
        "Coarse": [COARSE],
        "Ratio": [RATIO, (RATIO[0], *LOWEST_ID[1:])],
    }[name]


def aged(rank: Rank, rate: float) -> Field:
    """A first field less what waiting has earned."""
    return (
        "ages",
        lambda r, now: rank(r, now) - rate * (now - r["arrival_time"]),
        both(
            en="the smaller first field goes first, less rate for every second waited",
            zh="首字段减去“等待秒数 × rate”，小的在前",
        ),
    )


def key(policy: Policy, request: Asked, now: float) -> tuple[Any, ...]:
    """The ranks of a request, field by field."""
    return tuple(rank(request, now) for _, rank, _ in fields(policy))


def parting(policy: Policy, due: Asked, other: Asked, now: float) -> tuple[str, Text]:
    """The rule by which ``due`` goes before ``other``, and its words; equal keys: who was added first."""
    for rule, rank, text in fields(policy):
        mine, its = rank(due, now), rank(other, now)
        if mine != its:
            return named(rule, due, other), text
    return "ties-keep-order", both(
        en="equal keys: who was added first goes first", zh="键相等时，先加入的先走"
    )


def named(rule: str, due: Asked, other: Asked) -> str:
    """Of a broken ``ages``, which half: overtaken beyond the bound, or passed by one that waited too little for it."""
    if rule != "ages":
        return rule
    return "bounded-wait" if other["arrival_time"] > due["arrival_time"] else "size-still-counts"


QUEUES_OWN = ("key-of-now", "ties-keep-order", "bounded-wait", "size-still-counts")


class Line:
    """One queue under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.waiting: dict[Any, Asked] = {}
        self.left: dict[Any, str] = {}  # who is no longer here, and why

    def add(self, request: Asked) -> None:
        """Take a request in."""
        self.waiting[request["request_id"]] = request

    def leave(self, request_id: Any, why: str) -> None:
        """A request that waits no more."""
        if self.waiting.pop(request_id, None):
            self.left[request_id] = why

    def cancel(self, request_id: Any) -> None:
        """Its user is gone."""
        self.leave(request_id, "cancelled")

    def due(self, now: float) -> Any:
        """The id of who goes next, None where nobody waits."""
        return min(self.waiting, key=lambda i: key(self.policy, self.waiting[i], now), default=None)

    def why(self, due: Any, other: Any, now: float) -> tuple[str, Text]:
        """The rule by which ``due`` goes before ``other``; both wait."""
        rule, words = parting(self.policy, self.waiting[due], self.waiting[other], now)
        return (rule if rule in QUEUES_OWN else "smallest-key"), words

    def state(self) -> list[Asked]:
        """Who waits, in the order they were added."""
        return [dict(r) for r in self.waiting.values()]


class TwoLines(Line):
    """Urgent ones first, but after ``burst`` in a row a normal one that waits."""

    def __init__(self, policy: Policy, burst: int) -> None:
        super().__init__(policy)
        self.burst, self.row = burst, 0

    def urgent(self, request_id: Any) -> bool:
        """Whether a waiting request is urgent."""
        return bool(self.waiting[request_id].get("priority", 0) > 0)

    def due(self, now: float) -> Any:
        """The smallest key of the class whose turn it is."""
        classes = {self.urgent(i) for i in self.waiting}
        turn = True not in classes or (False in classes and self.row >= self.burst)
        those = [i for i in self.waiting if self.urgent(i) is not turn]
        return min(those, key=lambda i: key(self.policy, self.waiting[i], now), default=None)

    def leave(self, request_id: Any, why: str) -> None:
        """Count the urgent ones that were served."""
        if why == "served" and request_id in self.waiting:
            self.row = self.row + 1 if self.urgent(request_id) else 0
        super().leave(request_id, why)

    def why(self, due: Any, other: Any, now: float) -> tuple[str, Text]:
        """Which class's turn it is, then the policy."""
        if self.urgent(due) is self.urgent(other):
            return super().why(due, other, now)
        if self.urgent(due):
            return "urgent-first", both(
                en=f"an urgent one goes first while fewer than {self.burst} in a row have gone",
                zh=f"连续走掉的紧急请求还不到 {self.burst} 个，紧急的先走",
            )
        return "burst-guard", both(
            en=f"{self.row} urgent ones in a row have gone and burst is {self.burst}: "
            "now a normal one that waits goes",
            zh=f"已经连续走掉 {self.row} 个紧急请求，burst 是 {self.burst}：现在轮到等待中的普通请求",
        )


class TimedLine(Line):
    """A queue that nobody waits in for longer than ``timeout`` seconds."""

    def __init__(self, policy: Policy, timeout: float) -> None:
        super().__init__(policy)
        self.timeout = timeout

    def due(self, now: float) -> Any:
        """First those leave who have waited too long."""
        for request_id, request in list(self.waiting.items()):
            if now - request["arrival_time"] > self.timeout:
                self.leave(request_id, "timeout")
        return super().due(now)

    def gone(self) -> dict[Any, str]:
        """Who left unserved, and why."""
        return {i: why for i, why in self.left.items() if why != "served"}
