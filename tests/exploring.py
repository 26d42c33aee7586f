"""A notebook that explores a run, for every front end that shows one."""

from __future__ import annotations

from pathlib import Path

import nbformat
from schedulers import records_of

from decodelab.contract import SchedulerConfig
from decodelab.log import write_log
from decodelab.request import Request

SMALL = [Request(n, 2.0 * n, 5 + 7 * n % 11, 2 + n % 7) for n in range(8)]
RUNS = {
    "slots.jsonl": SchedulerConfig(3, 16),
    "blocks.jsonl": SchedulerConfig(6, 16, block_size=4, num_blocks=6),
}

CELLS = (
    """
from decodelab.lang import speak
from decodelab.log import read_log
from decodelab.show.explorer import explore
speak("zh")
shown = explore({"chat": {"slots": read_log("slots.jsonl"), "blocks": lambda: read_log("blocks.jsonl")}})
shown
""",
    """
before = shown.picture.value
shown.step.value = 4
assert shown.picture.value != before
assert "第 4 步" in shown.picture.value
before, most = shown.picture.value, shown.step.max
shown.policy.value = "blocks"
assert shown.picture.value != before
assert shown.step.max != most
""",
)


def notebook(folder: Path) -> nbformat.NotebookNode:
    """The notebook, with the logs that it reads beside it in ``folder``."""
    for name, config in RUNS.items():
        write_log(folder / name, records_of(SMALL, config))
    cells = [nbformat.v4.new_code_cell(cell.strip(), id=f"cell-{n}") for n, cell in enumerate(CELLS)]
    kernel = {"name": "python3", "display_name": "Python 3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
