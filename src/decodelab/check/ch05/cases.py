"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.ch05.pool import call_of, class_of
from decodelab.check.rules import Case


def case(name: str, num_blocks: int, block_size: int, *script: list[Any]) -> Case:
    """A pool and the calls that are made on it, each ``[method, *arguments]``."""
    return {"name": name, "num_blocks": num_blocks, "block_size": block_size, "script": list(script)}


def shared(name: str, num_blocks: int, block_size: int, *script: list[Any]) -> Case:
    """The same for a manager whose blocks may have several owners."""
    return case(name, num_blocks, block_size, *script) | {"shares": True}


def shown(case: Case) -> list[str]:
    """A case as the calls it makes, as one would type them."""
    made = f"kv = {class_of(case)}(num_blocks={case['num_blocks']}, block_size={case['block_size']})"
    return [made, *map(call_of, case["script"])]


def takes(*wanted: tuple[Any, int]) -> list[list[Any]]:
    """``allocate`` for each (request, tokens)."""
    return [["allocate", request_id, num_tokens] for request_id, num_tokens in wanted]


# Whoever gives out the free blocks of a pool in a row, up or down, leaves no table of these in a row.
MIXED = [
    *takes(("x", 4), ("a", 4), ("y", 4), ("b", 8)),
    ["free", "x"],
    ["free", "y"],
    *takes(("a", 11), ("b", 13)),
]
FORKED = [*takes(("a", 10)), ["fork", "a", "b"]]

VISIBLE: dict[str, list[Case]] = {
    "ch05.1": [
        case("a-newcomer", 8, 4, *(["missing", "a", n] for n in (1, 3, 4, 5, 8, 9))),
        case("one-with-blocks", 8, 4, *takes(("b", 4), ("a", 5)), *(["missing", "a", n] for n in (9, 8, 6, 17))),
        case("more-than-it-needs", 8, 4, *takes(("a", 12)), *(["missing", "a", n] for n in (12, 8, 1))),
        case("blocks-of-one", 8, 1, ["missing", 0, 3], *takes((0, 2)), ["missing", 0, 3]),
        case("nothing-to-hold", 8, 4, ["missing", "a", 0]),
        case("more-than-there-is", 2, 4, ["missing", "a", 100]),
    ],
    "ch05.2": [
        case("one-request-grows", 8, 4, *takes(*(("a", n) for n in (3, 4, 5, 8, 9, 20)))),
        case("two-take-turns", 8, 4, *takes(("a", 4), ("b", 4), ("a", 5), ("b", 12), ("a", 8), ("a", 9))),
        case("into-the-gaps", 8, 4, *MIXED),
        case("the-last-block", 4, 4, *takes(("a", 8), ("b", 8), ("a", 8))),
        case("one-too-many", 4, 4, *takes(("a", 8), ("b", 9), ("b", 4), ("a", 13), ("b", 8))),
        case("never-shrinks", 4, 4, *takes(("a", 12), ("a", 4), ("a", 12), ("b", 5))),
        case("blocks-of-one", 3, 1, *takes((0, 1), (0, 2), (1, 2), (1, 1))),
        case("given-back-and-taken-again", 3, 2, *takes(("a", 2), ("b", 2)), ["free", "a"], *takes(("c", 3), ("d", 1))),
    ],
    "ch05.3": [
        case("one-goes", 6, 4, *takes(("a", 9), ("b", 6)), ["free", "a"]),
        case("all-can-be-taken-again", 6, 4, *MIXED[:6], *takes(("c", 8), ("d", 4)), ["free", "b"], ["free", "c"],
             *takes(("e", 16))),
        case("twice", 4, 4, *takes((0, 8), (1, 4)), ["free", 0], ["free", 0], *takes((2, 12))),
        case("one-without-blocks", 4, 4, ["free", "a"], *takes(("b", 8)), ["free", "a"]),
        case("one-that-holds-nothing-yet", 4, 4, *takes(("a", 0)), ["free", "a"]),
        case("an-id-that-comes-back", 4, 4, *takes(("a", 8)), ["free", "a"], *takes(("a", 16)), ["free", "a"]),
    ],
    "ch05.4": [
        case("from-the-beginning", 8, 4, *takes(("a", 10)), ["slots", "a", 0, 10]),
        case("a-table-all-over-the-pool", 8, 4, *MIXED, ["slots", "a", 0, 11], ["slots", "b", 0, 13]),
        case("the-next-token", 8, 4, *MIXED, *(["slots", "b", n, 1] for n in (12, 11, 4, 0))),
        case("a-part", 8, 4, *MIXED, ["slots", "a", 3, 6], ["slots", "b", 5, 4]),
        case("nothing", 8, 4, *MIXED, ["slots", "a", 5, 0], ["slots", "a", 12, 0]),
        case("blocks-of-one", 8, 1, *takes(("x", 1), ("a", 2), ("y", 1)), ["free", "x"], *takes(("a", 4)),
             ["slots", "a", 1, 3]),
    ],
    "ch05.5": [
        case("half-empty", 8, 4, *takes(("a", 5)), ["waste", {"a": 4}]),
        case("full-blocks", 8, 4, *takes(("a", 8), ("b", 4)), ["waste", {"a": 8, "b": 4}]),
        case("two-of-them", 8, 4, *takes((0, 9), (1, 1)), ["waste", {0: 9, 1: 1}]),
        case("one-that-waits", 8, 4, *takes(("a", 6)), ["waste", {"a": 6, "waits": 30}]),
        case("nobody-holds-anything", 8, 4, ["waste", {}], ["waste", {"waits": 3}]),
        case("after-one-has-gone", 8, 4, *takes(("a", 6), ("b", 3)), ["free", "a"], ["waste", {"b": 3}]),
    ],
    "ch05.6": [
        shared("the-same-blocks", 8, 4, *FORKED),
        shared("each-grows-alone", 8, 4, *FORKED, *takes(("b", 14), ("a", 13))),
        shared("the-parent-goes", 8, 4, *FORKED, ["free", "a"], *takes(("c", 20)), ["free", "b"]),
        shared("three-of-them", 8, 4, *takes((0, 10)), ["fork", 0, 1], ["fork", 1, 2], *(["free", i] for i in (1, 0, 2))),
        shared("a-table-all-over-the-pool", 8, 4, *MIXED, ["fork", "a", "c"], ["fork", "b", "d"]),
        shared("no-such-parent", 8, 4, ["fork", "a", "b"], *takes(("c", 4)), ["fork", "a", "c"]),
        shared("a-child-that-has-blocks", 8, 4, *takes(("a", 8), ("b", 4)), ["fork", "a", "b"], ["free", "a"]),
    ],
    "ch05.7": [
        shared("nothing-shared", 8, 4, *takes(("a", 10), ("b", 6)), ["free", "a"], ["fork", "b", "c"]),
        shared("the-parent-goes", 8, 4, *FORKED, ["free", "a"], *takes(("c", 20)), ["free", "b"]),
        shared("the-child-goes", 8, 4, *FORKED, ["free", "b"], *takes(("c", 20)), ["free", "a"]),
        shared("a-tail-of-its-own", 8, 4, *FORKED, *takes(("b", 18)), ["free", "b"], ["free", "a"]),
        shared("three-of-them", 8, 4, *FORKED, ["fork", "a", "c"], *(["free", i] for i in "bac")),
        shared("twice", 8, 4, *FORKED, ["free", "b"], ["free", "b"], ["free", "x"], ["free", "a"]),
        shared("one-that-holds-nothing-yet", 8, 4, *takes(("a", 0)), ["free", "a"]),
    ],
    "ch05.8": [
        shared("nobody-else", 8, 4, *FORKED[:1], ["write", "a", 9], ["fork", "a", "b"]),
        shared("the-child-writes", 8, 4, *FORKED, ["write", "b", 10], ["write", "b", 11], ["write", "a", 10]),
        shared("the-parent-writes", 8, 4, *FORKED, ["write", "a", 9], ["write", "b", 9], ["free", "a"], ["free", "b"]),
        shared("in-the-middle", 8, 4, *FORKED, ["write", "b", 5], ["write", "b", 0], ["write", "a", 5]),
        shared("a-table-all-over-the-pool", 8, 4, *MIXED, ["fork", "a", "c"], ["write", "c", 9]),
        shared("three-owners", 8, 4, *FORKED, ["fork", "a", "c"], *(["write", i, 8] for i in "abc"),
             *(["free", i] for i in "abc")),
        shared("no-block-free", 3, 4, *FORKED, ["write", "b", 9], ["free", "a"], ["write", "b", 9]),
        shared("a-new-block-is-its-own", 8, 4, *FORKED, *takes(("b", 13)), ["write", "b", 12], ["write", "b", 11]),
    ],
}  # fmt: skip
