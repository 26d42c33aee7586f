"""Which known mistake a failing answer behaves like, so that it can be told so by name.

Two answers are alike when the check says the same about both on every fixed workload (visible and directed):
the same rule, at the same event, after the same events. Only wrong variants that bear ``looks`` are known here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from decodelab.check.rules import Case, Finding, StudentError, TodoResult
from decodelab.course import Chapter, load
from decodelab.grading import splice
from decodelab.grading.judge import Trial, student_of
from decodelab.grading.prove import Variant, submission_of
from decodelab.grading.sandbox import LEARNER, Rung
from decodelab.grading.student import Died, Stuck, Student
from decodelab.grading.suites import load_suite
from decodelab.lang import both
from decodelab.notebook.read import Submission

SECONDS = 3.0  # for all fixed workloads together; an answer that needs longer looks like nothing


@dataclass(frozen=True)
class Gallery:
    """The known mistakes of one chapter, and where their fingerprints are kept (None: in memory only)."""

    chapter_id: str
    grader: Path
    version: str  # of the suite: fingerprints of another one do not count
    folder: Path | None = None

    @property
    def chapter(self) -> Chapter:
        """The chapter's data."""
        return load(self.chapter_id)

    def known(self, todo_id: str) -> list[Variant]:
        """The wrong variants that a failing answer may be likened to."""
        suite = load_suite(self.grader, self.chapter_id)
        return [v for v in suite.WRONG if v.looks and v.todo == todo_id]

    def trial(self, todo_id: str, rung: Rung) -> Trial:
        """The fixed workloads of one TODO."""
        directed = load_suite(self.grader, self.chapter_id).DIRECTED[todo_id]
        cases = [*self.chapter.checks.VISIBLE[todo_id], *directed]
        return Trial(self.chapter.todo(todo_id), self.chapter.checks.CHECKS[todo_id], cases, SECONDS, rung)


def told(result: TodoResult, submission: Submission, gallery: Gallery, rung: Rung) -> TodoResult:
    """``result``; where it failed as a known mistake does, with that said in its notes."""
    variant = lookalike(submission, result.todo, gallery, rung) if result.state == "failed" else None
    if variant is None or variant.looks is None:
        return result
    looks = both(en=f"This looks like {variant.looks['en']}.", zh=f"这看起来像：{variant.looks['zh']}。")
    return replace(result, notes=[*result.notes, looks])


def lookalike(submission: Submission, todo_id: str, gallery: Gallery, rung: Rung) -> Variant | None:
    """The known mistake in one TODO that this submission behaves like on every fixed workload."""
    known = gallery.known(todo_id)
    seen = fingerprint(submission, gallery.chapter, gallery.trial(todo_id, rung)) if known else ()
    if not any(seen):
        return None
    prints = fingerprints(gallery, todo_id)
    return next((v for v in known if prints[v.name] == seen), None)


def fingerprint(submission: Submission, chapter: Chapter, trial: Trial) -> tuple[str, ...]:
    """What the check makes of every case; () for an answer that does not get through them."""
    parts = splice.alone(chapter, submission, trial.todo)[0]
    try:
        with student_of(parts, trial) as student:
            return tuple(digest(student, trial, case) for case in trial.cases)
    except (StudentError, Stuck, Died):
        return ()


def digest(student: Student, trial: Trial, case: Case) -> str:
    """One case: rule, event and what came, or the class of an exception, in short; "" where nothing is wrong."""
    student.begin(case)
    try:
        finding = trial.check(student, case)
    except StudentError as error:
        return shortened(["no-exception", error.kind])
    return shortened([finding.rule, finding.at, came(finding)]) if finding else ""


def came(finding: Finding) -> Sequence[object]:
    """The events up to the wrong one; where no sequence is involved the words, which quote what came."""
    return finding.text["en"] if finding.at is None else finding.got[: finding.at + 1]


def shortened(value: object) -> str:
    """A short name for a value."""
    return hashlib.sha256(json.dumps(value, default=repr).encode()).hexdigest()[:16]


@cache
def fingerprints(gallery: Gallery, todo_id: str) -> dict[str, tuple[str, ...]]:
    """By name, those of the known mistakes in one TODO: made once for a suite, then read from the folder."""
    path = (
        gallery.folder and gallery.folder / ".decodelab" / "lookalikes" / f"{todo_id}-{gallery.version}.json"
    )
    known = gallery.known(todo_id)
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        kept = json.loads(path.read_text(encoding="utf-8")) if path else {}
        if set(kept) == {v.name for v in known}:
            return {name: tuple(seen) for name, seen in kept.items()}
    trial = gallery.trial(todo_id, LEARNER)
    prints = {v.name: fingerprint(submission_of(gallery.chapter, v), gallery.chapter, trial) for v in known}
    if path:
        keep(path, json.dumps(prints))
    return prints


def keep(path: Path, text: str) -> None:
    """Write a file whole or not at all; a folder that cannot be written costs time only."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}")
        half.write_text(text, encoding="utf-8")
        half.replace(path)
