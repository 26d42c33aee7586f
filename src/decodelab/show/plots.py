"""Every picture of the course, from one place.

Each takes a step log's records (``decodelab.log``), events or numbers, and returns a figure that knows its words:
``alt_text(figure)``. ``caption(name)`` says what the signs of a kind of picture mean. Needs matplotlib 3.8 or
later, imported when the first figure is drawn.
"""

from decodelab.lang import Text
from decodelab.show import batch, latency, memory, strip
from decodelab.show import gantt as gantt_chart
from decodelab.show import roofline as roofs
from decodelab.show.batch import batch_composition, idle_slots, queue_lengths
from decodelab.show.common import alt_text, as_img, as_png
from decodelab.show.gantt import gantt
from decodelab.show.latency import compare, latency_ecdf, latency_table, sweep
from decodelab.show.memory import kv_map
from decodelab.show.roofline import roofline
from decodelab.show.strip import compare_strips, event_strip

__all__ = [
    "alt_text",
    "as_img",
    "as_png",
    "batch_composition",
    "caption",
    "compare",
    "compare_strips",
    "event_strip",
    "gantt",
    "idle_slots",
    "kv_map",
    "latency_ecdf",
    "latency_table",
    "queue_lengths",
    "roofline",
    "sweep",
]

CAPTIONS: dict[str, Text] = {  # by the name of what draws it
    "event_strip": strip.CAPTION,
    "batch_strip": strip.BATCH_CAPTION,  # an event_strip of a step log's events
    "compare_strips": strip.PAIR_CAPTION,
    "gantt": gantt_chart.CAPTION,
    "batch_composition": batch.COMPOSITION_CAPTION,
    "queue_lengths": batch.QUEUES_CAPTION,
    "idle_slots": batch.SLOTS_CAPTION,
    "kv_map": memory.CAPTION,
    "latency_ecdf": latency.ECDF_CAPTION,
    "compare": latency.COMPARE_CAPTION,
    "sweep": latency.SWEEP_CAPTION,
    "roofline": roofs.CAPTION,
}


def caption(name: str = "event_strip") -> Text:
    """What the signs in a picture mean, by the name of the function that draws it."""
    if name not in CAPTIONS:
        raise ValueError(f"there is no caption {name!r}; choose one of {', '.join(CAPTIONS)}")
    return CAPTIONS[name]
