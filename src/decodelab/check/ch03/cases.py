"""The visible cases, and how a case is shown."""

from __future__ import annotations

from itertools import count
from typing import Any

from decodelab.check.ch03.spec import Policy, timed
from decodelab.check.ch03.things import own_keys, policy_text
from decodelab.check.rules import Case
from decodelab.check.toolkit import called
from decodelab.lang import both

# Policies by name; tuples, so that a shrinking case keeps its policy whole.
FCFS, SJF, PRIORITY = ("FCFS",), ("SJF",), ("PriorityOrder",)
COARSE, RATIO, MIXED = ("Coarse",), ("Ratio",), ("Mixed",)


def ask(
    request_id: int | str, arrival_time: float, prompt_len: int = 4, tokens: int = 4, **options: Any
) -> dict[str, Any]:
    """A request as keywords of Request."""
    lengths = {"prompt_len": prompt_len, "max_new_tokens": tokens}
    return {"request_id": request_id, "arrival_time": arrival_time, **lengths, **options}


def adds(*requests: dict[str, Any]) -> list[list[Any]]:
    """The requests of a script, in this order."""
    return [["add", request] for request in requests]


def pops(*moments: float, name: str = "pop") -> list[list[Any]]:
    """Pops at these moments."""
    return [[name, now] for now in moments]


def turns(times: int) -> list[list[Any]]:
    """So many turns in a row."""
    return pops(*map(float, range(times)), name="turn")


def newcomers(victim: dict[str, Any], short: int, seconds: int, first_id: int = 10) -> list[list[Any]]:
    """An adversary: a short request arrives just before each pop, one a second, for so many ``seconds``."""
    ids = count(first_id)
    script = adds(victim)
    for now in range(seconds):
        script += [*adds(ask(next(ids), float(now), short, short)), *pops(float(now))]
    return script


def shown(case: Case) -> list[str]:
    """A case as the calls it makes, as one would type them."""
    if "values" in case:
        return [f"jain({case['values']})"]
    own = own_keys(case.get("policy", ("FCFS",)))
    if "nows" in case:
        lines = [*own, f"policy = {policy_text(case['policy'])}"]
        lines += [called("Request", r) for r in case["requests"]]
        return lines + [f"policy.key(request, now={now})" for now in case["nows"]]
    name = "robin" if "slice" in case else "queue"
    return [*own, made(case), *(order_text(name, *order) for order in timed(case["script"]))]


def made(case: Case) -> str:
    """The line that makes the queue of a script."""
    if "slice" in case:
        return f"robin = RoundRobin({case['slice']})"
    policy = policy_text(case["policy"])
    queue = (
        f"PriorityScheduler({policy}, burst={case['burst']})" if "burst" in case else f"PolicyQueue({policy})"
    )
    return (
        f"queue = TimeoutQueue({queue}, timeout={case['timeout']})"
        if "timeout" in case
        else f"queue = {queue}"
    )


def order_text(name: str, order: str, argument: Any, now: float) -> str:
    """One line of a script."""
    if order == "add":
        return f"{name}.add({called('Request', argument)}, now={now})"
    return f"{name}.cancel({argument!r})" if order == "cancel" else f"{name}.{order}(now={now})"


def order(name: str, policy: Policy, *requests: dict[str, Any], nows: tuple[float, ...] = (10.0,)) -> Case:
    """A case for a policy's keys."""
    return {"name": name, "policy": policy, "requests": list(requests), "nows": list(nows)}


def script(name: str, policy: Policy, *parts: list[list[Any]], **more: Any) -> Case:
    """A case for a queue."""
    return {"name": name, "policy": policy, "script": [order for part in parts for order in part], **more}


def shares(name: str, rule: str, values: list[float], en: str, zh: str) -> Case:
    """A case for Jain's index."""
    return {"name": name, "rule": rule, "values": values, "text": both(en=en, zh=zh)}


URGENT = {"priority": 1}
QUEUES: list[Case] = [
    script("empty", FCFS, pops(0.0, 5.0)),
    script("first-come", FCFS, adds(ask(3, 0.0), ask(1, 1.0), ask(2, 2.0)), pops(2.0, 2.5, 3.0, 3.5)),
    script(
        "shortest-first", SJF, adds(ask(1, 0.0, 9), ask(2, 0.0, 2), ask(3, 0.5, 5)), pops(1.0, 2.0, 3.0, 4.0)
    ),
    script(
        "late-arrival",
        SJF,
        adds(ask(1, 0.0, 9), ask(2, 0.0, 7)),
        pops(0.0),
        adds(ask(3, 1.0, 2)),
        pops(1.0, 2.0),
    ),
    script("cancelled", SJF, adds(ask(1, 0.0, 2), ask(2, 0.0, 5)), [["cancel", 1]], pops(0.0, 1.0)),
    script("cancelled-then-empty", FCFS, adds(ask(1, 0.0)), [["cancel", 1], ["cancel", 9]], pops(0.0, 1.0)),
    script(
        "cancelled-between-pops",
        SJF,
        adds(ask(1, 0.0, 2), ask(2, 0.0, 3), ask(3, 0.0, 4)),
        pops(0.0),
        [["cancel", 2]],
        pops(1.0, 2.0),
    ),
    script("equal-keys", COARSE, adds(ask(7, 0.0), ask(2, 1.0), ask(5, 2.0)), pops(2.0, 3.0, 4.0)),
    script("ids-of-text", COARSE, adds(ask("b", 0.0), ask("a", 1.0)), pops(1.0, 2.0)),
    script("id-0", FCFS, adds(ask(1, 0.0), ask(0, 1.0)), pops(1.0, 2.0, 3.0)),
    script(
        "keys-that-change",
        RATIO,
        adds(ask(1, 0.0, 40), ask(2, 8.0, 4)),
        pops(9.0),
        adds(ask(3, 9.0, 4)),
        pops(10.0, 11.0),
    ),
    script("keys-between-seconds", RATIO, adds(ask(1, 0.0, 8), ask(2, 9.0, 1)), pops(10.5, 11.0)),
]
VISIBLE: dict[str, list[Case]] = {
    "ch03.1": [
        order("arrivals", FCFS, ask(1, 3.0), ask(2, 1.5), ask(3, 1.25)),
        order("ties", FCFS, ask(10, 1.0), ask(2, 1.0), ask(9, 1.0)),
        order("close", FCFS, ask(700, 1.0001), ask(9, 1.0002)),
        order("ids-of-text", FCFS, ask("b", 1.0), ask("a", 1.0), ask("c", 0.5)),
        order(
            "nothing-else-counts",
            FCFS,
            ask(1, 2.0, 1, 1, priority=9),
            ask(2, 1.0, 99, 99),
            nows=(2.0, 50.0),
        ),
        order("nothing-else-in-ties", FCFS, ask(1, 1.0, 9), ask(2, 1.0, 1, priority=1)),
    ],
    "ch03.2": [
        order("by-prompt", SJF, ask(1, 0.0, 9), ask(2, 1.0, 3), ask(3, 2.0, 6)),
        order("by-answer", SJF, ask(1, 0.0, 4, 9), ask(2, 1.0, 4, 3), ask(3, 2.0, 4, 6)),
        order("both-count", SJF, ask(1, 0.0, 2, 9), ask(2, 1.0, 9, 1), ask(3, 2.0, 5, 4)),
        order("ties", SJF, ask(3, 2.0, 3, 4), ask(5, 1.0, 4, 3), ask(4, 1.0, 2, 5)),
        order("own-size", ("SJF", "prompt_len"), ask(1, 0.0, 2, 9), ask(2, 1.0, 1, 50), ask(3, 2.0, 3, 1)),
        order("sizes-with-fractions", ("SJF", "prompt_len", 8), ask(1, 0.0, 11), ask(2, 1.0, 9)),
        order(
            "nothing-else-counts",
            SJF,
            ask(1, 0.0, 9, priority=9),
            ask(2, 1.0, 2),
            ask(3, 2.0, 2, priority=1),
            nows=(2.0, 50.0),
        ),
    ],
    "ch03.3": QUEUES,
    "ch03.4": [
        script("empty", FCFS, pops(0.0), burst=2),
        script("urgent-first", FCFS, adds(ask(1, 0.0), ask(2, 1.0, **URGENT)), pops(1.0, 2.0, 3.0), burst=2),
        script(
            "guard",
            FCFS,
            adds(*(ask(i, 0.0, **URGENT) for i in range(1, 7)), ask(8, 0.0), ask(9, 0.0)),
            pops(*map(float, range(8))),
            burst=2,
        ),
        script(
            "only-urgent",
            FCFS,
            adds(*(ask(i, 0.0, **URGENT) for i in (1, 2, 3))),
            pops(0.0, 1.0, 2.0, 3.0),
            burst=1,
        ),
        script(
            "count-goes-on",
            FCFS,
            adds(ask(1, 0.0, **URGENT)),
            pops(0.0, 1.0),
            adds(ask(2, 1.0, **URGENT), ask(3, 1.0)),
            pops(1.0, 2.0),
            burst=1,
        ),
        script(
            "row-beyond-burst",
            FCFS,
            adds(ask(1, 0.0, **URGENT), ask(2, 0.0, **URGENT)),
            pops(0.0, 1.0),
            adds(ask(3, 1.0, **URGENT), ask(4, 1.0)),
            pops(2.0, 3.0),
            burst=1,
        ),
        script(
            "a-normal-one-alone-resets",
            FCFS,
            adds(ask(1, 0.0, **URGENT)),
            pops(0.0),
            adds(ask(2, 0.0)),
            pops(1.0),
            adds(*(ask(i, 1.0, **URGENT) for i in (3, 4, 5)), ask(6, 1.0)),
            pops(2.0, 3.0, 4.0, 5.0),
            burst=2,
        ),
        script(
            "idle-does-not-count",
            FCFS,
            pops(0.0, 1.0, 2.0),
            adds(ask(1, 2.0, **URGENT), ask(2, 2.0)),
            pops(3.0, 4.0),
            burst=2,
        ),
        script(
            "policy-within",
            SJF,
            adds(ask(1, 0.0, 9, **URGENT), ask(2, 0.0, 3, **URGENT), ask(3, 0.0, 8), ask(4, 0.0, 2)),
            pops(0.0, 1.0, 2.0, 3.0),
            burst=4,
        ),
        script(
            "cancelled",
            FCFS,
            adds(ask(1, 0.0, **URGENT), ask(2, 0.0)),
            [["cancel", 1], ["cancel", 2]],
            pops(0.0),
            burst=2,
        ),
        script(
            "endless-urgent",
            FCFS,
            adds(ask(1, 0.0)),
            *([*adds(ask(10 + i, float(i), **URGENT)), *pops(float(i))] for i in range(6)),
            burst=3,
        ),
    ],
    "ch03.5": [
        order(
            "waiting-counts",
            ("Aging", SJF, 1.0),
            ask(1, 0.0, 9, 1),
            ask(2, 8.0, 5, 1),
            ask(3, 3.5, 5, 1),
            nows=(8.0, 9.0),
        ),
        order(
            "size-still-counts", ("Aging", SJF, 1.0), ask(1, 0.0, 9, 1), ask(2, 2.0, 5, 1), nows=(2.0, 30.0)
        ),
        order("ties", ("Aging", SJF, 2.0), ask(3, 0.0, 7, 1), ask(1, 2.0, 3, 1), ask(2, 2.0, 2, 2)),
        order("rate-0", ("Aging", SJF, 0.0), ask(1, 0.0, 9), ask(2, 90.0, 2), ask(3, 99.0, 5), nows=(100.0,)),
        order(
            "over-priorities",
            ("Aging", PRIORITY, 0.5),
            ask(1, 0.0),
            ask(2, 9.0, priority=3),
            ask(3, 1.0, priority=1),
            nows=(9.0,),
        ),
        order("fractions", ("Aging", SJF, 0.25), ask(1, 0.0, 5, 1), ask(2, 3.0, 4, 1), nows=(3.0,)),
        order(
            "other-fields",
            ("Aging", MIXED, 1.0),
            ask(1, 0.0, 4, 4),
            ask(2, 0.0, 4, 4, priority=2),
            ask(3, 4.0, 2, 2, priority=1),
        ),
        order(
            "aged-twice",
            ("Aging", ("Aging", SJF, 1.0), 1.0),
            ask(1, 0.0, 9, 1),
            ask(2, 4.0, 4, 1),
            nows=(5.0,),
        ),
        order("inner-key-of-now", ("Aging", RATIO, 0.0625), ask(1, 0.0, 8), ask(2, 8.0, 1)),
        order("ids-of-text", ("Aging", SJF, 1.0), ask("b", 1.0), ask("a", 1.0)),
        script("newcomers", ("Aging", SJF, 2.0), newcomers(ask(1, 0.0, 9, 9), 2, 12)),
    ],
    "ch03.6": [
        shares("equal", "equal-is-one", [3.0, 3.0, 3.0], "Equal shares give 1.", "份额相等，指数为 1。"),
        shares(
            "one-has-all",
            "one-takes-all",
            [5.0, 0.0, 0.0, 0.0],
            "One with everything gives 1/n.",
            "一个人独占，指数为 1/n。",
        ),
        shares(
            "two",
            "jain-index",
            [1.0, 3.0],
            "(sum)² over n times the sum of squares.",
            "和的平方，除以 n 乘平方和。",
        ),
        shares(
            "several",
            "jain-index",
            [0.2, 0.5, 1.0, 0.9, 0.1],
            "(sum)² over n times the sum of squares.",
            "和的平方，除以 n 乘平方和。",
        ),
        shares(
            "nobody",
            "nothing-to-share",
            [],
            "Where there is nobody, nobody is worse off: 1.",
            "一个人也没有，就没有谁吃亏：返回 1。",
        ),
        shares(
            "nothing",
            "nothing-to-share",
            [0.0, 0.0],
            "Where nobody has anything, all are alike: 1.",
            "人人都是 0，也就人人一样：返回 1。",
        ),
    ],
    "ch03.7": [
        {"name": "empty", "slice": 2, "script": turns(1)},
        {"name": "alone", "slice": 2, "script": [*adds(ask(1, 0.0, tokens=5)), *turns(4)]},
        {
            "name": "in-turn",
            "slice": 2,
            "script": [*adds(*(ask(i, 0.0, tokens=n) for i, n in ((3, 5), (1, 2), (2, 3)))), *turns(7)],
        },
        {
            "name": "newcomer",
            "slice": 3,
            "script": [*adds(ask(1, 0.0, tokens=7)), *turns(1), *adds(ask(2, 1.0, tokens=2)), *turns(5)],
        },
        {
            "name": "cancelled",
            "slice": 1,
            "script": [*adds(ask(1, 0.0), ask(2, 0.0)), *turns(2), ["cancel", 1], *turns(5)],
        },
        {
            "name": "long-slice",
            "slice": 100,
            "script": [*adds(ask(1, 0.0, tokens=9), ask(2, 0.0, tokens=4)), *turns(3)],
        },
    ],
    "ch03.8": [
        script("in-time", FCFS, adds(ask(1, 0.0), ask(2, 1.0)), pops(1.0, 3.0, 4.0), timeout=4.0),
        script("too-late", FCFS, adds(ask(1, 0.0), ask(2, 4.0)), pops(5.0, 6.0), timeout=4.0),
        script("exactly-then", FCFS, adds(ask(1, 0.0)), pops(4.0, 5.0), timeout=4.0),
        script("no-patience", FCFS, adds(ask(1, 0.0)), pops(0.0), adds(ask(2, 1.0)), pops(1.5), timeout=0.0),
        script("shortest-first", SJF, adds(ask(1, 0.0, 9), ask(2, 0.0, 2)), pops(1.0, 2.0), timeout=4.0),
        script(
            "last-in-order-leaves-too", SJF, adds(ask(1, 0.0, 99), ask(2, 9.0, 2)), pops(9.0), timeout=4.0
        ),
        script("all-late", SJF, adds(ask(1, 0.0), ask(2, 1.0)), pops(99.0, 100.0), timeout=4.0),
        script(
            "cancelled", FCFS, adds(ask(1, 0.0), ask(2, 0.0)), [["cancel", 1]], pops(1.0, 9.0), timeout=4.0
        ),
        script(
            "cancelled-after-service",
            FCFS,
            adds(ask(1, 0.0)),
            pops(1.0),
            [["cancel", 1]],
            pops(99.0),
            timeout=4.0,
        ),
        script("added-late", FCFS, adds(ask(1, 4.0), ask(2, 0.0)), pops(5.0), timeout=4.0),
        script(
            "around-two-classes",
            FCFS,
            adds(ask(1, 0.0), ask(2, 1.0, **URGENT), ask(3, 3.0), ask(4, 3.0, **URGENT)),
            pops(5.0, 5.5, 6.0),
            timeout=4.0,
            burst=1,
        ),
    ],
}
