"""Chapter 3's orders and queues as book-keeping: they share nothing with the reference.

A policy is named as ``("SJF",)``, with its arguments behind: ``("SJF", "prompt_len", 8)`` divides that field by 8,
``("Aging", ("SJF",), 2.0)`` goes around another. ``Coarse``, ``Ratio`` and ``Mixed`` are the check's own: a key that
ties, one whose order changes while requests wait, and one with a field more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
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
        en="the smaller job goes first (prompt_len + max_new_tokens, or what size() says)",
        zh="小的作业在前（看 prompt_len + max_new_tokens，或者 size() 给出的大小）",
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
TIE: Field = (
    "ties-by-id",
    LOWEST_ID[1],
    both(en="of equal keys the smaller request_id goes first", zh="键相等时，request_id 小的先走"),
)
RATIO: Field = (
    "key-of-now",
    lambda r, now: -(now - r["arrival_time"]) / r["prompt_len"],
    both(
        en="the longest wait for its prompt length goes first, as things stand at this pop",
        zh="等待时间与提示词长度之比最大的在前，按这次 pop 的时刻算",
    ),
)


def fields(policy: Policy) -> list[Field]:
    """What a policy compares, one after the other; the last is the id, so that no two requests are equal."""
    name, *arguments = policy
    if name == "Aging":
        inner, rate = arguments
        (_, rank, _), *rest = fields(inner)
        return [aged(rank, rate), *(behind(field, rate) for field in rest)]
    if name == "SJF" and arguments:
        return [sized(*arguments), EARLIER, LOWEST_ID]
    return {
        "FCFS": [EARLIER, LOWEST_ID],
        "SJF": [SHORTER, EARLIER, LOWEST_ID],
        "PriorityOrder": [PRIORITY, EARLIER, LOWEST_ID],
        "Coarse": [PRIORITY, TIE],
        "Ratio": [RATIO, (RATIO[0], *LOWEST_ID[1:])],
        "Mixed": [SHORTER, PRIORITY, EARLIER, LOWEST_ID],
    }[name]


def static(policy: Policy) -> bool:
    """Whether the keys of a policy of the chapter promise not to depend on ``now``."""
    return policy[0] in ("FCFS", "SJF", "PriorityOrder")


def sized(name: str, per: int = 1) -> Field:
    """The size that another function than the usual one gives."""
    return "asks-size", lambda r, now: r[name] / per, SHORTER[2]


def aged(rank: Rank, rate: float) -> Field:
    """A first field less what waiting has earned."""
    return (
        "ages",
        lambda r, now: rank(r, now) - rate * (now - r["arrival_time"]),
        both(
            en=f"the smaller first field goes first, less rate={rate} for every second waited",
            zh=f"首字段减去“等待秒数 × rate”，小的在前，这里 rate={rate}",
        ),
    )


def behind(field: Field, rate: float) -> Field:
    """A field that decides where the aged ones in front of it are equal."""
    rule, rank, text = field
    return (
        rule,
        rank,
        both(
            en=f"less rate={rate} for every second waited, their first fields are equal; then {text['en']}",
            zh=f"按 rate={rate} 减去等待之后，两个首字段相等，这时“{text['zh']}”",
        ),
    )


def key(policy: Policy, request: Asked, now: float) -> tuple[Any, ...]:
    """The ranks of a request, field by field."""
    return tuple(rank(request, now) for _, rank, _ in fields(policy))


def workings(policy: Policy, request: Asked, now: float) -> dict[str, Any]:
    """What a key's first field is made of, where that does not stand in the request itself."""
    first = key(policy, request, now)[0]
    if policy[0] == "SJF":
        return {"size": first}
    if policy[0] != "Aging":
        return {}
    waited = now - request["arrival_time"]
    return {"first_field": key(policy[1], request, now)[0], "waited": waited, "aged": first}


def parting(policy: Policy, due: Asked, other: Asked, now: float) -> tuple[str, Text]:
    """The rule by which ``due`` goes before ``other``, and its words."""
    rule, text = next(
        (rule, text) for rule, rank, text in fields(policy) if rank(due, now) != rank(other, now)
    )
    return named(rule, due, other), text


def named(rule: str, due: Asked, other: Asked) -> str:
    """Of a broken ``ages``, which half: overtaken beyond the bound, or passed by one that waited too little for it."""
    if rule != "ages":
        return rule
    return "bounded-wait" if other["arrival_time"] > due["arrival_time"] else "size-still-counts"


def timed(script: list[list[Any]]) -> Iterator[tuple[str, Any, float]]:
    """Each order with its moment: a request is added when it arrives, or at once where that is past."""
    now = 0.0
    for order, argument in script:
        if order == "add":
            now = max(now, argument["arrival_time"])
        elif order != "cancel":
            now = argument
        yield order, argument, now


QUEUES_OWN = ("key-of-now", "ties-by-id", "bounded-wait", "size-still-counts")


class Line:
    """One queue under one policy, in which nobody waits for longer than ``timeout`` seconds."""

    def __init__(self, policy: Policy, timeout: float = inf) -> None:
        self.policy, self.timeout = policy, timeout
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
        """The id of who goes next, once those have left who have waited too long; None where nobody waits."""
        for request_id, request in list(self.waiting.items()):
            if now - request["arrival_time"] > self.timeout:
                self.leave(request_id, "timeout")
        return self.first(list(self.waiting), now)

    def first(self, those: list[Any], now: float) -> Any:
        """The one with the smallest key; None of nobody."""
        return min(those, key=lambda i: key(self.policy, self.waiting[i], now), default=None)

    def why(self, due: Any, other: Any, now: float) -> tuple[str, Text]:
        """The rule by which ``due`` goes before ``other``; both wait."""
        rule, words = parting(self.policy, self.waiting[due], self.waiting[other], now)
        return (rule if rule in QUEUES_OWN else "smallest-key"), words

    def state(self) -> list[Asked]:
        """Who waits, in the order they were added."""
        return [dict(r) for r in self.waiting.values()]

    def gone(self) -> dict[Any, str]:
        """Who left unserved, and why."""
        return {i: why for i, why in self.left.items() if why != "served"}


class TwoLines(Line):
    """Urgent ones first, but after ``burst`` in a row a normal one that waits."""

    def __init__(self, policy: Policy, burst: int, timeout: float = inf) -> None:
        super().__init__(policy, timeout)
        self.burst, self.row = burst, 0
        self.idle = False  # whether some pop found nobody

    def urgent(self, request_id: Any) -> bool:
        """Whether a waiting request is urgent."""
        return bool(self.waiting[request_id].get("priority", 0) > 0)

    def first(self, those: list[Any], now: float) -> Any:
        """The smallest key of the class whose turn it is."""
        classes = {self.urgent(i) for i in those}
        turn = True not in classes or (False in classes and self.row >= self.burst)
        return super().first([i for i in those if self.urgent(i) is not turn], now)

    def leave(self, request_id: Any, why: str) -> None:
        """Count the urgent ones that were served."""
        self.idle |= request_id is None
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
            en=f"after burst={self.burst} urgent in a row a normal one that waits goes, and the row is {self.row} long",
            zh=f"连续走掉 burst={self.burst} 个紧急的之后，轮到等待中的普通请求，而现在已经连续走掉 {self.row} 个",
        )
