"""Chapter 8's rules and visible cases.

The judge runs no torch: tensors arrive as numbers and are compared with an oracle in numpy and float64 that shares
nothing with the reference. What is wrong is named by asking the oracle another question and seeing it answered.
"""

from decodelab.check.ch08.attend import check_attention
from decodelab.check.ch08.cache import check_cache
from decodelab.check.ch08.cases import VISIBLE, shown
from decodelab.check.ch08.choose import check_distribution
from decodelab.check.ch08.loop import check_generate
from decodelab.check.ch08.seeds import check_seeds
from decodelab.check.ch08.stops import check_visible
from decodelab.check.ch08.turn import check_rope

CHECKS = {
    "ch08.1": check_rope,
    "ch08.2": check_attention,
    "ch08.3": check_cache,
    "ch08.4": check_distribution,
    "ch08.5": check_generate,
    "ch08.6": check_seeds,
    "ch08.7": check_visible,
}
__all__ = ["CHECKS", "VISIBLE", "shown"]
