"""The picture in README: chapter 1's worked case, run by the reference. `python docs/img/make.py`"""

import os
import tempfile
from pathlib import Path

from decodelab import chapter
from decodelab.show.plots import as_png, event_strip

with tempfile.TemporaryDirectory() as nobodys_home:
    os.environ["DECODELAB_HOME"] = nobodys_home
    scheduler = chapter("ch01").DecodeSchedulerSim()

scheduler.enqueue(1, prompt_len=2, priority=2, cache_hit=True)
scheduler.enqueue(2, prompt_len=3, priority=1, cache_hit=False)
scheduler.enqueue(3, prompt_len=1, priority=3, cache_hit=True)
picture = as_png(event_strip(scheduler.run(max_steps=20)))
Path(__file__).with_name("event-strip.png").write_bytes(picture)
