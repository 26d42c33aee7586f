"""How long a submission takes: ``decodelab grade`` beside stock nbgrader on the same notebooks, turn by turn.

Each round takes new notebooks. ``grade`` judges all of them with hidden workloads in its sandbox, a new
process and an empty OUT each time; stock nbgrader (its own preprocessors, Execute included) runs the first few
of them in kernels. ``stock, tests free`` is a lower bound for it: every check cell is ``pass``, as if tests
cost nothing. What nbgrader needs to start is timed on its own and taken off its share.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from textwrap import dedent, indent
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _runner import measure, report

from decodelab.course import Chapter, load
from decodelab.grading import splice
from decodelab.grading.suites import load_suite
from decodelab.lang import LANGUAGES
from decodelab.notebook.build import instructor_notebook
from decodelab.notebook.emit import to_json

ROOT = Path(__file__).parent.parent
CHAPTER = "ch01"
SEED = 3
WRONG_SHARE = 0.25
STUCK = ("ends", "memory")  # rules of variants that would wait for a time limit in both
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

Submission = tuple[str, str]  # a student's id and the notebook as JSON


# --- the notebooks ----------------------------------------------------------------------------


def submissions(count: int, seed: int) -> tuple[list[Submission], dict[str, set[str]]]:
    """``count`` distinct notebooks in both languages, and the TODOs that each of some students got wrong."""
    chapter, suite = load(CHAPTER), load_suite(ROOT / "grader", CHAPTER)
    rng = random.Random(seed)
    wrong = [v for v in suite.WRONG if len(v.regions) == 1 and not v.cells and v.rule not in STUCK]
    right = [v for v in suite.CORRECT if len(v.regions) == 1 and not v.cells]
    made, mistakes = [], {}
    for number in range(count):
        student, lang = f"s{number:03d}", LANGUAGES[number % len(LANGUAGES)]
        regions: dict[str, str] = {}
        for variant in rng.sample(right, min(2, len(right))):
            regions |= variant.regions
        if rng.random() < WRONG_SHARE:
            variant = rng.choice(wrong)
            regions = dict(variant.regions)  # beside the reference, so that it is wrong for certain
            mistakes[student] = set(regions)
        made.append((student, notebook(chapter, lang, regions, number)))
    assert len({content for _, content in made}) == count
    return made, mistakes


def notebook(chapter: Chapter, lang: str, regions: dict[str, str], number: int) -> str:
    """The solved notebook with other code in some TODOs, local names and comments of its own."""
    content = instructor_notebook(ROOT / "solutions" / f"{chapter.name}.py", lang)
    for todo in chapter.todos:
        cell = next(c for c in content["cells"] if c["id"] == todo.answer)
        source = "".join(cell["source"])
        code = dedent(regions.get(todo.id, todo.code)).strip("\n")
        outside = splice.replace_region(source, todo.id, "pass") or ""
        code = f"# attempt {number}\n{renamed(code, outside, number)}"
        cell["source"] = splice.replace_region(source, todo.id, code)
    return to_json(content)


def renamed(code: str, outside: str, number: int) -> str:
    """``code`` with another name for every local of its own."""
    nodes = list(ast.walk(ast.parse(f"def f(self):\n{indent(code, '    ')}")))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names -= {node.arg for node in nodes if isinstance(node, ast.keyword)}
    for name in sorted(names):
        if not re.search(rf"\b{name}\b", outside):
            code = re.sub(rf"(?<![\w.]){name}\b", f"{name}_{number}", code)
    return code


def hand_in(folder: Path, made: Sequence[Submission]) -> None:
    """Make ``folder`` the submitted folder of exactly these."""
    shutil.rmtree(folder, ignore_errors=True)
    for student, content in made:
        path = folder / student / CHAPTER / f"{load(CHAPTER).name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(content, encoding="utf-8")


# --- what is timed ----------------------------------------------------------------------------


class Watched:
    """Runs commands and knows the most memory (RSS, summed over a command and all below it) that one took."""

    def __init__(self) -> None:
        self.peak = 0

    def run(self, command: Sequence[str], cwd: Path) -> str:
        environment = {"DECODELAB_HOME": str(cwd / "home"), "DECODELAB_LANG": "en"}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | environment | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(process.pid, done))
        watch.start()
        out, err = process.communicate()
        done.set()
        watch.join()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: {err[-2000:]}")
        return out

    def _watch(self, pid: int, done: threading.Event) -> None:
        while not done.wait(0.1):
            self.peak = max(self.peak, memory(pid))


def memory(root: int) -> int:
    """Bytes of RSS of a process and all its descendants; shared pages count in each; 0 where there is no /proc."""
    parents, pages = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(path.parent.name)], pages[int(path.parent.name)] = int(fields[1]), int(fields[21])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return PAGE * sum(pages.get(pid, 0) for pid in family)


class Grade:
    """``decodelab grade`` over one chunk after the other."""

    def __init__(self, folder: Path, chunks: Sequence[Sequence[Submission]], *options: str) -> None:
        self.folder, self.chunks, self.options = folder, iter(chunks), options
        self.watched, self.points = Watched(), {}  # type: ignore[var-annotated]

    def __call__(self) -> None:
        hand_in(self.folder / "submitted", next(self.chunks))
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "decodelab.cli", "grade", "submitted", "--out", str(out)]
        self.watched.run([*command, "--grader", str(ROOT / "grader"), *self.options], self.folder)
        for path in out.glob(f"results/*/{CHAPTER}.json"):
            todos = json.loads(path.read_text(encoding="utf-8"))["todos"]
            self.points[path.parent.name] = {t["todo"] for t in todos if t["state"] != "passed"}


class Stock:
    """nbgrader's own autograde over the first few of one chunk after the other."""

    def __init__(self, folder: Path, chunks: Sequence[Sequence[Submission]], few: int, free: bool) -> None:
        self.folder, self.few, self.watched = folder, few, Watched()
        self.chunks = iter(chunks)
        register(folder, free, self.watched)

    def __call__(self) -> None:
        hand_in(self.folder / "submitted", next(self.chunks)[: self.few])
        shutil.rmtree(self.folder / "autograded", ignore_errors=True)
        self.watched.run([sys.executable, "-m", "nbgrader", "autograde", CHAPTER], self.folder)


def register(folder: Path, free: bool, watched: Watched) -> None:
    """A stock nbgrader course with the chapter in its gradebook."""
    chapter = load(CHAPTER)
    content = instructor_notebook(ROOT / "solutions" / f"{chapter.name}.py", "en")
    for cell in content["cells"]:
        if free and cell["id"] in {t.check_id for t in chapter.todos}:
            cell["source"] = "pass"
    path = folder / "source" / CHAPTER / f"{chapter.name}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(to_json(content), encoding="utf-8")
    (folder / "nbgrader_config.py").write_text('get_config().CourseDirectory.course_id = "stock"\n')
    watched.run([sys.executable, "-m", "nbgrader", "generate_assignment", CHAPTER], folder)


# --- the numbers ------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write results/grading.json, print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--stock", type=int, default=10, help="submissions that stock nbgrader gets in a round"
    )
    parser.add_argument("-j", default=str(os.cpu_count()), help="processes of decodelab grade")
    args = parser.parse_args(argv)
    size = args.submissions // args.rounds
    made, mistakes = submissions(size * args.rounds, SEED)
    warm_up = [("warm-up", made[0][1])]
    chunks = [warm_up, *(made[i : i + size] for i in range(0, len(made), size))]
    with TemporaryDirectory(prefix="decodelab-") as name:
        folder = Path(name)
        for part in ("grade", "one", "stock", "free"):
            (folder / part).mkdir()
        few = min(args.stock, size)
        start = Watched()
        cases: dict[str, Any] = {
            f"decodelab grade -j {args.j}": Grade(folder / "grade", chunks, "-j", args.j),
            "decodelab grade -j 1": Grade(folder / "one", chunks, "-j", "1"),
            "stock nbgrader": Stock(folder / "stock", chunks, few, free=False),
            "stock nbgrader, tests free": Stock(folder / "free", chunks, few, free=True),
            "stock nbgrader, start alone": lambda: start.run(
                [sys.executable, "-m", "nbgrader", "autograde", "--version"], folder
            ),
        }
        measured = measure(cases, args.rounds, SEED)
    tell(measured, cases, size, few, mistakes)
    return 0


def tell(
    measured: dict[str, Any],
    cases: dict[str, Callable[[], object]],
    size: int,
    few: int,
    mistakes: dict[str, set[str]],
) -> None:
    """Print the table, then write and print the result."""
    samples = measured["samples_s"]
    ours, one, stock, free, start = samples
    each = {name: median(samples[name]) / size for name in (ours, one)}
    for name in (stock, free):
        each[name] = (median(samples[name]) - median(samples[start])) / few
    grade: Any = cases[ours]
    graded = {student: wrong for student, wrong in grade.points.items() if student != "warm-up"}
    as_expected = sum(wrong == mistakes.get(student, set()) for student, wrong in graded.items())
    for name, seconds in each.items():
        print(f"{name:32} {seconds:7.3f} s a submission   {each[stock] / seconds:6.1f} × stock's speed")
    peak = max(case.watched.peak for case in cases.values() if isinstance(case, Grade))
    report(
        "grading",
        measured,
        shows="wall seconds for a round; grade: all submissions of it, stock: the first few",
        not_shown="submissions that wait for a time limit; several machines; the gradebook's rows",
        submissions_a_round={"grade": size, "stock": few},
        per_submission_s={name: round(seconds, 4) for name, seconds in each.items()},
        times_faster={
            "than stock": round(each[stock] / each[ours], 1),
            "than stock, tests free": round(each[free] / each[ours], 1),
        },
        peak_rss_mb=round(peak / 1e6),
        verdicts={"graded": len(graded), "as made": as_expected},
    )


if __name__ == "__main__":
    sys.exit(main())
