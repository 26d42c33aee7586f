"""Chapter 5's rules and visible cases.

Any free block is as good as another, so no table is compared with an expected one: every call is judged by what
it changed, against properties that hold for every right answer.
"""

from decodelab.check.ch05.cases import VISIBLE, shown
from decodelab.check.ch05.grow import check_allocate, check_free, check_missing
from decodelab.check.ch05.share import check_fork, check_release, check_write
from decodelab.check.ch05.slots import check_slots, check_waste

CHECKS = {
    "ch05.1": check_missing,
    "ch05.2": check_allocate,
    "ch05.3": check_free,
    "ch05.4": check_slots,
    "ch05.5": check_waste,
    "ch05.6": check_fork,
    "ch05.7": check_release,
    "ch05.8": check_write,
}
__all__ = ["CHECKS", "VISIBLE", "shown"]
