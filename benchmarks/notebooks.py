"""How long each solved notebook takes from top to bottom, in both languages, kernel start and checks included."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
from _runner import measure, report

from decodelab import course
from decodelab.lang import LANGUAGES
from decodelab.notebook.build import instructor_notebook
from decodelab.notebook.emit import to_json

ROOT = Path(__file__).parent.parent


def case(folder: Path, chapter: str, lang: str) -> Callable[[], object]:
    """Runs one notebook in a kernel of this environment, with a home of its own; a cell that fails stops it."""
    name = course.load(chapter).name
    path = folder / f"{chapter}-{lang}.ipynb"
    path.write_text(to_json(instructor_notebook(ROOT / "solutions" / f"{name}.py", lang)), encoding="utf-8")
    ran = folder / "ran"
    command = [
        "-m",
        "nbclient.cli",
        "--timeout=300",
        "--kernel_name=python3",
        f"--output={ran / '{notebook_name}'}",
    ]
    env = os.environ | {
        "DECODELAB_HOME": str(folder / "home"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    return lambda: subprocess.run(
        [sys.executable, *command, str(path)], env=env, check=True, capture_output=True
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write results/notebooks.json, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("chapters", nargs="*", default=course.chapter_ids())
    args = parser.parse_args(argv)
    with TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "ran").mkdir()
        cases = {f"{c}-{lang}": case(folder, c, lang) for c in args.chapters for lang in LANGUAGES}
        report("notebooks", measure(cases, args.repeats))
    return 0


if __name__ == "__main__":
    sys.exit(main())
