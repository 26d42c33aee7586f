"""Chapter 7's rules and visible cases.

A chunk is asked for by itself; the scheduler is walked beside the oracle of ``decodelab.check.schedule``, and
in the end beside the recorded runs of vLLM's own.
"""

from decodelab.check.ch07.cases import VISIBLE, shown
from decodelab.check.ch07.chunk import check_chunk
from decodelab.check.ch07.sharing import check_gate, check_order, check_quota
from decodelab.check.ch07.vllm import check_vllm
from decodelab.check.ch07.walks import check_scheduler, picture

CHECKS = {
    "ch07.1": check_chunk,
    "ch07.2": check_scheduler,
    "ch07.3": check_scheduler,
    "ch07.4": check_scheduler,
    "ch07.5": check_vllm,
    "ch07.6": check_order,
    "ch07.7": check_quota,
    "ch07.8": check_gate,
}
PICTURES = {"ch07.3": picture}
__all__ = ["CHECKS", "PICTURES", "VISIBLE", "shown"]
