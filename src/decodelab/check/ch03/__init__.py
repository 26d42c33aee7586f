"""Chapter 3's rules and visible cases.

Policies are judged by the order that their keys give; queues by who comes out of them, each pop beside a
book-keeping of its own (``spec``).
"""

from decodelab.check.ch03.cases import VISIBLE, shown
from decodelab.check.ch03.jain import check_jain
from decodelab.check.ch03.order import check_order
from decodelab.check.ch03.queues import check_aging, check_queue, check_timeouts
from decodelab.check.ch03.turns import check_turns

CHECKS = {
    "ch03.1": check_order,
    "ch03.2": check_order,
    "ch03.3": check_queue,
    "ch03.4": check_queue,
    "ch03.5": check_aging,
    "ch03.6": check_jain,
    "ch03.7": check_turns,
    "ch03.8": check_timeouts,
}
__all__ = ["CHECKS", "VISIBLE", "shown"]
