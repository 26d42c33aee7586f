"""Chapter 1's rules and visible cases.

A book-keeping of its own (``spec``) says what must come next, and a log of events is walked beside
it up to the first event that breaks a rule: that is where the queue at that moment comes from, and
an oracle that shares nothing with the reference.
"""

from decodelab.check.ch01.cases import VISIBLE, picture, shown
from decodelab.check.ch01.enqueue import check_enqueue
from decodelab.check.ch01.fast import check_fast
from decodelab.check.ch01.key import check_key
from decodelab.check.ch01.run import check_run
from decodelab.check.ch01.step import check_step

CHECKS = {
    "ch01.1": check_enqueue,
    "ch01.2": check_key,
    "ch01.3": check_step,
    "ch01.4": check_run,
    "ch01.5": check_fast,
}
PICTURES = {
    "ch01.3": picture,
    "ch01.4": picture,
    "ch01.5": lambda student: picture(student, "FastDecodeSchedulerSim"),
}
__all__ = ["CHECKS", "PICTURES", "VISIBLE", "shown"]
