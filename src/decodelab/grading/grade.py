"""One submission, one verdict: what nbgrader, pytest and ``decodelab grade`` all call."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from decodelab.check import rules
from decodelab.check.rules import TodoResult
from decodelab.course import HERE as COURSE_DATA
from decodelab.course import Chapter, load
from decodelab.errors import DecodeLabError
from decodelab.grading.judge import SECONDS, judge
from decodelab.grading.lookalike import Gallery, told
from decodelab.grading.sandbox import Rung, strongest
from decodelab.grading.suites import course_secret, hidden_cases, student_seed
from decodelab.lang import Text, both
from decodelab.notebook.read import Notebook, content_of, find_answers, from_content, parse

EVENTS_BEFORE = 3
DECIDES = ("judge", "splice", "suites", "student", "wire", "runner", "lookalike")  # what a verdict depends on
HIDDEN = both(
    en="It passes the workloads that you can see; this happened on one that you cannot, cut down to the smallest.",
    zh="它通过了你能看到的负载；下面的问题出现在一个不公开的负载上，这里给出的是缩减后的最小版本。",
)


@dataclass(frozen=True)
class Course:
    """The instructor's side: where the suites are, the secret, and what student code runs in."""

    grader: Path
    secret: bytes
    rung: Rung
    folder: Path | None = None  # where to keep what can be made again; None: nowhere
    seconds: float = SECONDS  # for one TODO
    workers: int | None = None  # runners of one submission at a time; None: one for each TODO

    @classmethod
    def open(cls, grader: Path, folder: Path | None = None, rung: Rung | None = None) -> Course:
        """The course whose secret lies in ``folder`` (``grader`` by default), in the strongest sandbox here."""
        folder = folder or grader
        return cls(grader, course_secret(folder), rung or strongest(), folder)


@dataclass
class Graded:
    """A verdict on every TODO of one submission, and all that it takes to repeat it."""

    student: str
    chapter: str
    lang: str
    seed: int
    sandbox: str
    suite_version: str
    todos: list[TodoResult]
    notes: list[Text] = field(default_factory=list)

    @property
    def points(self) -> float:
        """What the student gets, core and extension together."""
        return sum(r.points for r in self.todos)

    @property
    def ungraded(self) -> list[TodoResult]:
        """The TODOs whose check broke down: no points, and no zero."""
        return [r for r in self.todos if r.state == "ungraded"]

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data; ``from_json`` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Graded:
        """A verdict that was stored."""
        return cls(**{**data, "todos": [TodoResult.from_json(t) for t in data["todos"]]})


def grade_file(
    path: Path, chapter_id: str, student: str, course: Course, data: bytes | None = None
) -> Graded:
    """Judge the notebook at ``path``, or its ``data`` if at hand; one that cannot be read is a verdict, too."""
    chapter = load(chapter_id)
    try:
        notebook = from_content(parse(path, submitted_bytes(path) if data is None else data))
    except DecodeLabError as error:
        return unreadable(error.text, chapter, student, course)
    return grade_notebook(notebook, chapter, student, course)


def unreadable(why: Text, chapter: Chapter, student: str, course: Course) -> Graded:
    """The verdict on a file that cannot be read."""
    todos = [TodoResult(t.id, "unreadable", t.points) for t in chapter.todos]
    return verdict(chapter, student, course, "", todos, [why])


def submitted_bytes(path: Path) -> bytes:
    """The bytes of a submission; DecodeLabError where it is no file, or a link, maybe to another student's."""
    if path.is_symlink():
        raise DecodeLabError(
            both(
                en=f"{path.name} is a link: hand in the notebook itself.",
                zh=f"{path.name} 是链接：请提交 notebook 文件本身。",
            )
        )
    return content_of(path)


def grade_notebook(notebook: Notebook, chapter: Chapter, student: str, course: Course) -> Graded:
    """Judge a notebook under the hidden workloads of this student."""
    submission = find_answers(notebook.cells, chapter)
    cases = hidden_cases(chapter, student_seed(course.secret, chapter.id, student), course.grader)
    todos = judge(
        chapter, submission, cases=cases, rung=course.rung, seconds=course.seconds, workers=course.workers
    )
    gallery = Gallery(chapter.id, course.grader, suite_version(course.grader, chapter.id), course.folder)
    todos = [told(result, submission, gallery, course.rung) for result in todos]
    return verdict(chapter, student, course, notebook.lang or "", todos, notebook.notes)


def verdict(
    chapter: Chapter, student: str, course: Course, lang: str, todos: list[TodoResult], notes: list[Text]
) -> Graded:
    """``todos`` with what it takes to repeat them."""
    seed = student_seed(course.secret, chapter.id, student)
    version = suite_version(course.grader, chapter.id)
    return Graded(student, chapter.id, lang or "en", seed, course.rung.name, version, todos, notes)


def for_student(result: TodoResult, chapter: Chapter) -> TodoResult:
    """``result`` as the student may see it: of a hidden workload what it was shrunk to, not what was expected."""
    finding = result.finding
    visible = [case["name"] for case in chapter.checks.VISIBLE.get(result.todo, [])]
    if finding is None or finding.case.get("name") in (None, *visible):
        return result
    at, before = finding.at, 0
    if at is not None:
        before = max(0, at - EVENTS_BEFORE)
    got = finding.got[before : (at or 0) + 1]
    own = replace(finding, want=(), got=got, first=before, at=at, printed="")
    return replace(result, finding=own, notes=[*result.notes, HIDDEN])


def rule_files(chapter_id: str) -> list[Path]:
    """The files that hold a chapter's rules, ``check/chNN.py`` or all of ``check/chNN/``, and their toolkit."""
    folder = Path(rules.__file__).parent
    own = [*folder.glob(f"{chapter_id}.py"), *folder.glob(f"{chapter_id}/*.py")]
    return [folder / "toolkit.py", *sorted(own)]


@cache
def suite_version(grader: Path, chapter_id: str) -> str:
    """A name for exactly these rules and workloads: it changes when a grade could."""
    parts = [
        grader / "suites" / f"{chapter_id}.py",
        *rule_files(chapter_id),
        COURSE_DATA / f"{chapter_id}.json",
        *(Path(__file__).with_name(f"{name}.py") for name in DECIDES),
    ]
    return hashlib.sha256(b"\0".join(p.read_bytes() for p in parts)).hexdigest()[:12]
