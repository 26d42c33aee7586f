"""Chapter 10's rules and visible cases.

Toys of the check's own surround the student's engine and executor in the runner; what is right is worked out here, by
counting, by chapter 8's oracle, and on machines that there are not.
"""

from decodelab.check.ch10.cases import VISIBLE, shown
from decodelab.check.ch10.engine import check_engine
from decodelab.check.ch10.execute import check_execute
from decodelab.check.ch10.fitting import check_fit
from decodelab.check.ch10.moving import check_move
from decodelab.check.ch10.samples import check_samples

CHECKS = {
    "ch10.1": check_execute,
    "ch10.2": check_engine,
    "ch10.3": check_engine,
    "ch10.4": check_engine,
    "ch10.5": check_fit,
    "ch10.6": check_move,
    "ch10.7": check_samples,
}
__all__ = ["CHECKS", "VISIBLE", "shown"]
