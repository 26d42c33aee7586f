"""Chapter 4's rules and visible cases.

Whole schedulers are walked by ``decodelab.check.schedule`` beside its oracle; the three parts below them,
what a token does, who is turned away and who still fits, are asked one by one.
"""

from decodelab.check.ch04.adjust import check_adjust
from decodelab.check.ch04.batches import check_continuous, check_static, picture
from decodelab.check.ch04.cases import VISIBLE, shown
from decodelab.check.ch04.door import check_door
from decodelab.check.ch04.room import check_room
from decodelab.check.ch04.tokens import check_tokens

CHECKS = {
    "ch04.1": check_tokens,
    "ch04.2": check_door,
    "ch04.3": check_room,
    "ch04.4": check_static,
    "ch04.5": check_continuous,
    "ch04.6": check_adjust,
}
PICTURES = {
    "ch04.4": lambda student: picture(student, "StaticBatchScheduler"),
    "ch04.5": lambda student: picture(student, "ContinuousBatchScheduler"),
}
__all__ = ["CHECKS", "PICTURES", "VISIBLE", "shown"]
