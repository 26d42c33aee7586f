"""``decodelab grade``: a folder of submissions, each judged once, and everything that is made of the verdicts.

``OUT/results/{student}/{chapter}.json`` is the only thing that a run adds to: one file a verdict, there
whole or not at all. A verdict is used again while submission, seed and suite are the same, so a run goes
on where another was killed, and the runs of several shards add up. All other files are derived from the
verdicts at the end and hold no time, so the way there leaves no trace in them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from decodelab.course import chapter_ids, load
from decodelab.errors import DecodeLabError
from decodelab.grading import csvs
from decodelab.grading.executors import Executor, Fault
from decodelab.grading.grade import Course, Graded, grade_file, submitted_bytes, suite_version
from decodelab.grading.pages import write_feedback
from decodelab.grading.report import report_page
from decodelab.grading.roster import Roster, normal
from decodelab.grading.sandbox import Rung, named
from decodelab.grading.similarity import Pair, similar_in
from decodelab.grading.suites import course_secret, student_seed
from decodelab.lang import Text, both, say, tr
from decodelab.meter import Meter
from decodelab.notebook.read import find_answers, read_notebook

NOTEBOOK = ".ipynb"
COLLECTS = ("collect.json", "collect.csv")  # its own report in submitted/
RUNNERS = (
    2  # of one submission at a time: one waits while its judge works; more would starve each other of time
)
_ONE_AT_A_TIME = threading.Lock()  # a Dask worker may have threads; CPython's parser is not safe in several


@dataclass(frozen=True)
class Job:
    """A notebook to grade: ``FOLDER/{student}/{chapter}/NAME.ipynb``."""

    path: Path
    student: str
    chapter: str


@dataclass(frozen=True)
class Verdict:
    """A verdict, and the SHA-256 of the bytes that it is about."""

    graded: Graded
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """As ``results/`` has it: the verdict's own fields beside the sum."""
        return self.graded.to_json() | {"sha256": self.sha256}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verdict:
        """One that was stored."""
        return cls(Graded.from_json({k: v for k, v in data.items() if k != "sha256"}), data["sha256"])


@dataclass(frozen=True)
class Ungraded:
    """A submission, or a TODO of one, without a verdict, which is not a zero: what it is, and why."""

    student: str
    chapter: str
    reason: Text

    def to_json(self) -> dict[str, Any]:
        return {"student": self.student, "chapter": self.chapter, "reason": say(self.reason)}


@dataclass(frozen=True)
class Means:
    """What judging takes: the folder with suites and secret, and the rung that the instructor named."""

    grader: Path
    container: str | None = None
    unsafe: bool = False

    def rung(self) -> Rung:
        """The rung that was named, else the strongest on this machine; DecodeLabError where there is none."""
        return named(self.container, self.unsafe)

    def accept(self, sandbox: str) -> bool:
        """Whether a verdict from this rung stands: without a sandbox it may be forged, so only if that is wanted."""
        return sandbox != "none" or self.unsafe


@dataclass
class Batch:
    """What a run comes to."""

    out: Path
    jobs: list[Job] = field(default_factory=list)
    graded: list[Graded] = field(default_factory=list)
    ungraded: list[Ungraded] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)  # files that are nobody's, or not the one that counts
    reused: int = 0  # verdicts that were there before

    @property
    def states(self) -> Counter[str]:
        """How many TODOs are in which state."""
        return Counter(todo.state for graded in self.graded for todo in graded.todos)

    @property
    def sandboxes(self) -> list[str]:
        """The rungs that the verdicts were reached in."""
        return sorted({graded.sandbox for graded in self.graded})

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "graded": len(self.graded),
            "reused": self.reused,
            "ungraded": [one.to_json() for one in self.ungraded],
            "strays": self.strays,
            "states": dict(sorted(self.states.items())),
            "sandbox": self.sandboxes,
        }


# What there is to do ---------------------------------------------------------------------------------


def find(folder: Path, out: Path) -> Batch:
    """A Batch with the notebooks in ``folder`` that are somebody's, and with all that cannot be graded.

    Names that begin with a dot are passed over, as nbgrader does, and so is ``out``.
    """
    batch = Batch(out)
    if not folder.is_dir():
        raise DecodeLabError(
            both(
                en=f"There is no folder {folder}: give the one that `decodelab collect` wrote, submitted/.",
                zh=f"没有文件夹 {folder}：请给出 `decodelab collect` 生成的 submitted/。",
            )
        )
    handed_in: dict[tuple[str, str], list[Path]] = {}
    for place in folder.glob("[!.]*/[!.]*"):  # with nothing in it, too
        if place.is_dir() and place.name in chapter_ids():
            handed_in[place.parent.name, place.name] = []
    for path in _files(folder, out):
        parts = path.relative_to(folder).parts
        if parts[0] in COLLECTS:
            continue
        if len(parts) > 2 and parts[1] in chapter_ids():
            handed_in.setdefault((parts[0], parts[1]), []).append(path)
        else:
            batch.strays.append("/".join(parts))
    for (student, chapter), paths in handed_in.items():
        notebooks = [p for p in paths if p.suffix == NOTEBOOK and p.parent == folder / student / chapter]
        chosen = choose(notebooks, f"{load(chapter).name}{NOTEBOOK}")
        if isinstance(chosen, Path):
            batch.jobs.append(Job(chosen, student, chapter))
            batch.strays += [str(p.relative_to(folder).as_posix()) for p in notebooks if p != chosen]
        else:
            batch.ungraded.append(Ungraded(student, chapter, chosen))
    return batch


def _files(folder: Path, out: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if n[0] != "." and Path(at, n) != out)
        yield from (Path(at, name) for name in sorted(names) if name[0] != ".")


def choose(notebooks: Sequence[Path], name: str) -> Path | Text:
    """The one that counts: the only one, else the one with the chapter's own ``name``; else why there is none."""
    if len(notebooks) == 1:
        return notebooks[0]
    if not notebooks:
        return both(
            en=f"There is no notebook among the files: add {name}.",
            zh=f"提交的文件里没有 notebook：请补上 {name}。",
        )
    return next((path for path in notebooks if path.name == name), None) or both(
        en=f"There are {len(notebooks)} notebooks and none is called {name}: rename the one that counts.",
        zh=f"有 {len(notebooks)} 个 notebook，但没有一个叫 {name}：请把要评分的那个改成这个名字。",
    )


def shard(jobs: Sequence[Job], part: str) -> list[Job]:
    """The share ``part`` (``"2/8"``: the second of eight) of the jobs: always the same one."""
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise DecodeLabError(
            both(
                en=f"--shard {part}: write it as i/n with i from 1 to n, as in --shard 2/8.",
                zh=f"--shard {part}：请写成 i/n，i 从 1 到 n，例如 --shard 2/8。",
            )
        )
    return [job for job in jobs if _number(job) % int(count) == int(number) - 1]


def _number(job: Job) -> int:
    name = f"{job.student}/{job.chapter}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.sha256(name).digest(), "big")


# One verdict -----------------------------------------------------------------------------------------


def grade_one(means: Means, job: Job) -> Verdict:
    """Judge one notebook, wherever this runs; what it raises is a fault of ours."""
    with _ONE_AT_A_TIME:
        course = replace(Course.open(means.grader, rung=means.rung()), workers=RUNNERS)
        data = submitted_bytes(job.path)
        graded = grade_file(job.path, job.chapter, job.student, course, data)
        return Verdict(graded, hashlib.sha256(data).hexdigest())


def result_path(out: Path, student: str, chapter: str) -> Path:
    """Where a verdict is kept."""
    return out / "results" / student / f"{chapter}.json"


def stored(out: Path, job: Job, means: Means) -> Graded | None:
    """The verdict on this very submission that an earlier run left, if it is whole and still stands."""
    try:
        text = result_path(out, job.student, job.chapter).read_text(encoding="utf-8")
        verdict = Verdict.from_json(json.loads(text))
        graded = verdict.graded
        is_about = (graded.student, graded.chapter, verdict.sha256, graded.seed, graded.suite_version)
        sha256 = hashlib.sha256(submitted_bytes(job.path)).hexdigest()
        seed = student_seed(course_secret(means.grader), job.chapter, job.student)
        now = (job.student, job.chapter, sha256, seed, suite_version(means.grader, job.chapter))
    except (DecodeLabError, OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return graded if is_about == now and means.accept(graded.sandbox) and not graded.ungraded else None


def keep(out: Path, verdict: Verdict) -> Graded:
    """Store a verdict, and return it as a later run will read it."""
    text = json.dumps(verdict.to_json(), ensure_ascii=False, indent=1, default=repr) + "\n"
    data = text.encode("utf-8", "backslashreplace")  # half a surrogate becomes its escape in JSON
    csvs.replace(result_path(out, verdict.graded.student, verdict.graded.chapter), data)
    return Verdict.from_json(json.loads(data)).graded


# The whole folder ------------------------------------------------------------------------------------


def run(
    folder: Path,
    out: Path,
    means: Means,
    executor: Executor[Job, Verdict],
    part: str | None = None,
    here: bool = True,
    work: Callable[[Means, Job], Verdict] = grade_one,
) -> Batch:
    """Judge what has no verdict yet, keep each verdict at once, and return all of them.

    part: a shard, ``"2/8"``; ``None`` is everything. here: whether it is this machine that judges; then
    DecodeLabError if it has no sandbox.
    """
    batch = find(folder, out)
    if part:
        batch.jobs = shard(batch.jobs, part)
        batch.ungraded, batch.strays = [], []  # the run that merges the shards tells
    known = {job: graded for job in batch.jobs if (graded := stored(out, job, means))}
    batch.graded, batch.reused = list(known.values()), len(known)
    left = [job for job in batch.jobs if job not in known]
    if left:
        if here:
            print(tr(en=f"Sandbox: {means.rung().name}", zh=f"沙箱：{means.rung().name}"), flush=True)
        for done in progress(executor(partial(work, means), left), len(left)):
            _enter(batch, *done)
    batch.graded.sort(key=lambda graded: (graded.student, graded.chapter))
    batch.ungraded.sort(key=lambda one: (one.student, one.chapter))
    return batch


def _enter(batch: Batch, job: Job, result: Verdict | Fault) -> None:
    if isinstance(result, Fault):
        batch.ungraded.append(Ungraded(job.student, job.chapter, result.reason))
        return
    batch.graded.append(keep(batch.out, result))
    reasons = [todo.finding.text for todo in result.graded.ungraded if todo.finding]
    batch.ungraded += [Ungraded(job.student, job.chapter, reason) for reason in reasons]


def progress(
    results: Iterator[tuple[Job, Verdict | Fault]], total: int, stream: TextIO | None = None
) -> Iterator[tuple[Job, Verdict | Fault]]:
    """Pass ``results`` on and say how far it is: in one line on a terminal, else in a line each."""
    stream = stream or sys.stdout
    meter = Meter(total, stream)
    for done, (job, result) in enumerate(results, 1):
        yield job, result
        if meter.shows:
            meter.show(done)
        else:
            print(
                f"{done}/{total} {printable(job.student)} {job.chapter}: {outcome(result)}",
                file=stream,
                flush=True,
            )


def outcome(result: Verdict | Fault) -> str:
    """One submission's result in a few words."""
    if isinstance(result, Fault):
        return tr(en="ungraded", zh="未评分")
    return f"{result.graded.points:g}/{sum(t.max_points for t in result.graded.todos):g}"


def printable(name: str) -> str:
    """A name that cannot act on a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in name)


# What is made of it ----------------------------------------------------------------------------------


def write(batch: Batch, roster: Roster | None = None, bom: bool = False) -> None:
    """``grades.csv``, ``lms/``, ``feedback/`` and ``report.html`` of a whole batch."""
    waiting = [(one.student, one.chapter) for one in batch.ungraded]
    csvs.write(batch.out, batch.graded, waiting, roster, bom)
    names = {normal(student.id): student.name for student in roster.students} if roster else {}
    for graded in batch.graded:
        write_feedback(graded, batch.out, names.get(normal(graded.student), ""))
    page = report_page(batch.graded, batch.ungraded, alike(batch))
    csvs.replace(batch.out / "report.html", page.encode("utf-8", "backslashreplace"))


def alike(batch: Batch) -> list[Pair]:
    """The pairs of graded submissions whose answers deserve to be read side by side."""
    graded = {(one.student, one.chapter) for one in batch.graded}
    answers: dict[str, dict[str, dict[str, str]]] = {}
    for job in batch.jobs:
        if (job.student, job.chapter) in graded:
            with suppress(DecodeLabError):  # what cannot be read is nobody's double
                cells = read_notebook(job.path).cells
                found = find_answers(cells, load(job.chapter)).answers
                answers.setdefault(job.chapter, {})[job.student] = found
    return [pair for chapter, theirs in sorted(answers.items()) for pair in similar_in(load(chapter), theirs)]


def lines(batch: Batch) -> Iterator[str]:
    """The end of what ``decodelab grade`` prints."""
    for stray in batch.strays:
        yield tr(en=f"left out: {printable(stray)}", zh=f"未计入：{printable(stray)}")
    for one in batch.ungraded:
        yield f"{tr(en='ungraded', zh='未评分')}: {printable(one.student)} {one.chapter}: {say(one.reason)}"
    if batch.graded:
        yield tr(en="Sandbox: ", zh="沙箱：") + ", ".join(batch.sandboxes)
        yield " · ".join(f"{state} {count}" for state, count in sorted(batch.states.items()))
    yield f"{len(batch.graded)} graded, {len(batch.ungraded)} ungraded"
