"""How long it takes to read a trace of 19,366 rows: into requests, and merely line by line beside it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
from _runner import measure, report

from decodelab.workload import read_trace, synthetic, write_azure_csv

ROWS = 19_366
SEED = 1


def cases(folder: Path) -> dict[str, Callable[[], object]]:
    """What is timed; the real traces too where DECODELAB_TRACES names their folder."""
    generated = folder / "generated.csv"
    write_azure_csv(generated, synthetic("azure-chat-like", ROWS, seed=SEED))
    found: dict[str, Callable[[], object]] = {
        "generated.csv": lambda: read_trace(generated),
        "generated.csv, lines only": lambda: generated.read_text().splitlines(),
    }
    if traces := os.environ.get("DECODELAB_TRACES"):
        for name in ("azure_llm_2023_conv.csv", "azure_llm_2023_code.csv", "mooncake_conversation.jsonl"):
            found[name] = lambda path=Path(traces, name): read_trace(path)  # type: ignore[misc]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write results/trace_reading.json, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args(argv)
    if args.repeats < 1:
        parser.error("--repeats: 1 or more")
    with TemporaryDirectory() as folder:
        measured = measure(cases(Path(folder)), args.repeats)
    report(
        "trace_reading",
        measured,
        shows=f"seconds to read a file into requests; generated.csv has {ROWS} rows (seed {SEED})",
        not_shown="reading from a disk that has not cached the file, or over a network",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
