"""Chapter 2's rules and visible cases.

What is right comes from book-keeping of its own: a clock that walks the calls which an answer made (``clock``),
exact fractions (``cost``, ``turn``), and the definitions written out once more (``metrics``). Seconds are compared
to one part in 10^9, so an answer may add in any order.
"""

from decodelab.check.ch02.cases import VISIBLE, shown
from decodelab.check.ch02.clock import check_clock
from decodelab.check.ch02.cost import check_cost
from decodelab.check.ch02.metrics import check_goodput, check_latencies, check_percentile
from decodelab.check.ch02.turn import check_turn

CHECKS = {
    "ch02.1": check_clock,
    "ch02.2": check_cost,
    "ch02.3": check_latencies,
    "ch02.4": check_percentile,
    "ch02.5": check_goodput,
    "ch02.6": check_turn,
}
__all__ = ["CHECKS", "VISIBLE", "shown"]
