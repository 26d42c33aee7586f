"""Chapter 9's rules and visible cases.

As in chapter 8 the judge runs no torch: tensors arrive as numbers, and what is right comes from chapter 8's oracle, asked for
each request by itself. What nobody wrote holds NaN, so that reading it shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch09.buckets import check_best, check_bucket
from decodelab.check.ch09.cases import VISIBLE, shown
from decodelab.check.ch09.draws import check_sample, check_shares
from decodelab.check.ch09.packing import check_pack, check_slots
from decodelab.check.ch09.pages import check_chunk, check_decodes
from decodelab.check.ch09.turns import check_turns
from decodelab.check.rules import Case, Check, Finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def by_field(field: str, special: Check, usual: Check) -> Check:
    """A check that has two kinds of cases: those with ``field`` go to ``special``."""

    def check(student: Student, case: Case) -> Finding | None:
        return (special if field in case else usual)(student, case)

    return check


CHECKS = {
    "ch09.1": check_pack,
    "ch09.2": check_slots,
    "ch09.3": by_field("turns", check_turns, check_chunk),
    "ch09.4": by_field("turns", check_turns, check_decodes),
    "ch09.5": by_field("setting", check_shares, check_sample),
    "ch09.6": check_bucket,
    "ch09.7": check_best,
}
__all__ = ["CHECKS", "VISIBLE", "shown"]
