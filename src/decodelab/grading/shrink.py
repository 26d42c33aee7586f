"""The smallest workload that still breaks the same rule: easier to read, and all that a student is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from decodelab.check.rules import Case, Finding

SMALL = 1  # what lengths and counts are tried as


def shrink(
    case: Case, breaks: Callable[[Case], Finding | None], rule: str, tries: int = 200
) -> Finding | None:
    """What ``breaks`` finds on the smallest case that still breaks ``rule``; None where no smaller one does.

    ``breaks`` may be asked about cases that make no sense; whatever it then says is no ``rule``.
    """
    best: Finding | None = None
    while tries > 0:
        for candidate in smaller(case):
            tries -= 1
            finding = breaks(candidate)
            if finding and finding.rule == rule:
                best, case = finding, candidate
                break
            if tries <= 0:
                return best
        else:
            return best
    return best


def smaller(case: Case) -> Iterator[Case]:
    """Cases one step smaller: a run of items left out of a list, or a number made 1."""
    lists = {name: value for name, value in case.items() if isinstance(value, list)}
    for name, items in lists.items():
        sizes = {max(1, len(items) >> k) for k in range(1, len(items).bit_length() + 1)}
        for size in sorted(sizes, reverse=True):
            for start in range(0, len(items), size):
                yield case | {name: items[:start] + items[start + size :]}
    for name, items in lists.items():
        for place, item in enumerate(items):
            for simpler in simplified(item):
                yield case | {name: [*items[:place], simpler, *items[place + 1 :]]}


def simplified(item: Any) -> Iterator[Any]:
    """An item with one of its numbers made 1; a list's own items one level down."""
    if isinstance(item, dict):
        for key, value in item.items():
            if type(value) is int and value > SMALL:
                yield item | {key: SMALL}
    elif isinstance(item, list):
        for place, value in enumerate(item):
            for simpler in simplified(value):
                yield [*item[:place], simpler, *item[place + 1 :]]
