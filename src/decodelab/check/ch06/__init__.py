"""Chapter 6's rules and visible cases.

The parts, who can never fit, who may come in, who is thrown out and what that does, are asked one by one;
the scheduler that is made of them is walked beside the oracle of ``decodelab.check.schedule``.
"""

from decodelab.check.ch06.admission import check_admission, check_guarantee
from decodelab.check.ch06.cases import VISIBLE, shown
from decodelab.check.ch06.door import check_refusal
from decodelab.check.ch06.paged import check_paged, picture
from decodelab.check.ch06.thrown_out import check_preempt, check_swap_out
from decodelab.check.ch06.victim import check_victim

CHECKS = {
    "ch06.1": check_refusal,
    "ch06.2": check_admission,
    "ch06.3": check_victim,
    "ch06.4": check_preempt,
    "ch06.5": check_paged,
    "ch06.6": check_swap_out,
    "ch06.7": check_guarantee,
}
PICTURES = {"ch06.5": picture}
__all__ = ["CHECKS", "PICTURES", "VISIBLE", "shown"]
