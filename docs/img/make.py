"""The picture in README: three requests, run by the reference. `python docs/img/make.py`"""

import os
import tempfile
from pathlib import Path

from decodelab import chapter
from decodelab.check.ch01.cases import SHOWN
from decodelab.show.plots import as_png, event_strip

with tempfile.TemporaryDirectory() as nobodys_home:
    os.environ["DECODELAB_HOME"] = nobodys_home
    scheduler = chapter("ch01").DecodeSchedulerSim()

for request in SHOWN:
    scheduler.enqueue(**request)
picture = as_png(event_strip(scheduler.run(max_steps=20)))
Path(__file__).with_name("event-strip.png").write_bytes(picture)
