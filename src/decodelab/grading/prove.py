"""Proof of the tests: wrong answers and mutants of the reference must lose points, right ones must not."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from decodelab.check.rules import Case, Finding, StudentError
from decodelab.course import Chapter, Todo, load
from decodelab.grading import splice
from decodelab.grading.judge import Trial, attempt, judge, student_of
from decodelab.grading.mutants import mutants
from decodelab.grading.sandbox import LEARNER, Rung
from decodelab.grading.student import Died, Stuck, Student
from decodelab.grading.suites import hidden_cases, load_suite
from decodelab.grading.warm import warmed
from decodelab.lang import Text
from decodelab.notebook.read import Submission

SECONDS = 5.0  # for an answer that should not end; a correct one needs a fraction of it


@dataclass(frozen=True)
class Variant:
    """An answer that differs from the reference in some regions, or in whole answer cells.

    A wrong one says which ``todo`` it gets wrong and the ``rule`` that must be named for it ("": any). ``looks``
    names the mistake, to fit behind "this looks like", where a submission that behaves alike should be told so.
    """

    name: str
    regions: dict[str, str] = field(default_factory=dict)  # todo id -> code in its region
    cells: dict[str, str] = field(default_factory=dict)  # answer's grade id -> whole source
    rule: str = ""
    looks: Text | None = None

    @property
    def todo(self) -> str:
        """The TODO that a wrong variant gets wrong."""
        return next(iter(self.regions))


def submission_of(chapter: Chapter, variant: Variant) -> Submission:
    """The reference's answers with the variant's code in them."""
    answers = {a.grade_id: a.reference for a in chapter.answers} | variant.cells
    for todo_id, code in variant.regions.items():
        grade_id = chapter.todo(todo_id).answer
        replaced = splice.replace_region(answers[grade_id], todo_id, code)
        assert replaced is not None, f"{variant.name}: no region {todo_id} in {grade_id}"
        answers[grade_id] = replaced
    return Submission(answers, "", [])


@dataclass
class Row:
    """One line of the kill matrix."""

    name: str
    kind: str  # "wrong" | "mutant" | "equivalent" | "correct" | "left out" | "stub"
    todo: str
    hidden: str  # the rule that caught it under the hidden suite; "" where nothing did
    visible: str
    ok: bool
    said: str = ""  # the English message a learner would read, or what is wrong with the row


@dataclass
class ProveReport:
    """The kill matrix of one chapter."""

    chapter: str
    seeds: int
    rows: list[Row]

    def of(self, *kinds: str) -> list[Row]:
        """The rows of these kinds."""
        return [r for r in self.rows if r.kind in kinds]

    @property
    def ok(self) -> bool:
        """Nothing wrong survived, nothing correct lost points, and what was left out cost its own points only."""
        return all(r.ok for r in self.rows)

    def lines(self) -> list[str]:
        """The matrix, a line a variant (of the mutants only what needs a look), then the lines that sum it up."""
        shown = [r for r in self.rows if not r.ok or r.kind != "mutant"]
        width = max(len(r.name) for r in shown)
        rows = [
            f"{'ok  ' if r.ok else 'FAIL'} {r.kind:10} {r.todo:7} {r.name:{width}}  "
            f"hidden: {r.hidden or '-':22} visible: {r.visible or '-'}"
            for r in shown
        ]
        caught = f"mutants: {self.caught('mutant')}, equivalent {len(self.of('equivalent'))}"
        return [*rows, caught, self.last_line()]

    def caught(self, kind: str) -> str:
        """How many of a kind each suite caught."""
        rows = self.of(kind)
        hidden, visible = sum(bool(r.hidden) for r in rows), sum(bool(r.visible) for r in rows)
        return f"hidden {hidden}/{len(rows)}, visible {visible}/{len(rows)}"

    def last_line(self) -> str:
        """As in ``ch01: hidden 12/12, visible 11/12, correct 4/4, stub 0``."""
        correct = self.of("correct")
        passed = f"correct {sum(r.ok for r in correct)}/{len(correct)}"
        return f"{self.chapter}: {self.caught('wrong')}, {passed}, stub {self.of('stub')[0].said}"

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "chapter": self.chapter,
            "seeds": self.seeds,
            "ok": self.ok,
            "rows": [vars(r) for r in self.rows],
        }


@dataclass(frozen=True)
class Bench:
    """A chapter, its hidden suite, how many student seeds to try, and where."""

    chapter_id: str
    grader: Path
    seeds: int
    rung: Rung = LEARNER

    @property
    def chapter(self) -> Chapter:
        """The chapter's data."""
        return load(self.chapter_id)

    @property
    def equivalent(self) -> dict[str, str]:
        """Mutants that no test can catch, and why."""
        return dict(getattr(load_suite(self.grader, self.chapter_id), "EQUIVALENT", {}))

    def variants(self, kind: str) -> list[Variant]:
        """``WRONG`` or ``CORRECT`` of the suite, and of the second author's where there is one."""
        names = [self.chapter_id, f"second/{self.chapter_id}"]
        there = [n for n in names if (self.grader / "suites" / f"{n}.py").is_file()]
        return [v for name in there for v in getattr(load_suite(self.grader, name), kind)]

    def drawn(self, todo_id: str) -> Iterator[list[Case]]:
        """The workloads that only this seed draws, for the seeds 0, 1, 2, ..."""
        for seed in range(self.seeds):
            cases = hidden_cases(self.chapter, seed, self.grader)(todo_id)
            yield [c for c in cases if c.get("drawn")]


Job = tuple[Callable[[Bench, Variant], Row], Bench, Variant]


def prove(chapter_id: str, grader: Path, seeds: int = 100, jobs: int | None = None) -> ProveReport:
    """Run all variants and mutants under the visible cases and the hidden ones of each seed, ``jobs`` side by side.

    ``jobs=1`` stays in this process; None takes as many as there are cores.
    """
    with warmed(splice.needs(load(chapter_id))) as rung:
        bench = Bench(chapter_id, grader, seeds, rung)
        todo = list(work(bench))
        jobs = min(jobs or os.cpu_count() or 1, len(todo))
        if jobs == 1:
            rows = [row(job) for job in todo]
        else:  # processes: CPython's parser is not safe in several threads (gh-106905)
            with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
                rows = list(pool.map(row, todo))
    return ProveReport(chapter_id, seeds, rows + unknown(bench))


def work(bench: Bench) -> Iterator[Job]:
    """All rows to be made; the long ones first."""
    chapter = bench.chapter
    for variant in [Variant("the reference"), *bench.variants("CORRECT")]:
        yield correct_row, bench, variant
    for variant in bench.variants("WRONG"):
        yield wrong_row, bench, variant
    for todo in chapter.todos:
        for name, code in mutants(todo).items():
            yield mutant_row, bench, Variant(name, {todo.id: code})
    for todo in chapter.todos:
        yield left_out_row, bench, Variant(f"without {todo.id}", {todo.id: splice.stub(todo.id)})
    yield stub_row, bench, Variant("untouched notebook")


def row(job: Job) -> Row:
    """One line of the matrix."""
    make, bench, variant = job
    return make(bench, variant)


def unknown(bench: Bench) -> list[Row]:
    """A failing row for every name in ``EQUIVALENT`` that no mutant bears."""
    known = {name for todo in bench.chapter.todos for name in mutants(todo)}
    return [
        Row(
            name,
            "equivalent",
            name.split(":")[0],
            "",
            "",
            False,
            "EQUIVALENT lists it, but there is no such mutant",
        )
        for name in bench.equivalent
        if name not in known
    ]


def wrong_row(bench: Bench, variant: Variant) -> Row:
    """A wrong variant: caught under every seed, by the rule it breaks."""
    visible, hidden = hunt(bench, variant)
    ok = hidden is not None and variant.rule in ("", hidden.rule)
    said = hidden.text["en"] if hidden else ""
    return Row(variant.name, "wrong", variant.todo, rule_of(hidden), rule_of(visible), ok, said)


def mutant_row(bench: Bench, variant: Variant) -> Row:
    """A mutant: caught under every seed, unless it is listed as equivalent; then by none."""
    visible, hidden = hunt(bench, variant)
    equivalent = variant.name in bench.equivalent
    ok = (hidden is None) == equivalent
    said = "EQUIVALENT lists it, but it is caught" if equivalent and hidden else variant.regions[variant.todo]
    kind = "equivalent" if equivalent else "mutant"
    return Row(variant.name, kind, variant.todo, rule_of(hidden), rule_of(visible), ok, said)


def rule_of(finding: Finding | None) -> str:
    """The name of the broken rule, "" where none was."""
    return finding.rule if finding else ""


def hunt(bench: Bench, variant: Variant) -> tuple[Finding | None, Finding | None]:
    """What the visible cases find; what the hidden suite finds under every seed (None: under one, nothing)."""
    chapter, todo = bench.chapter, bench.chapter.todo(variant.todo)
    parts = splice.alone(chapter, submission_of(chapter, variant), todo)[0]
    checks = chapter.checks
    trial = Trial(todo, checks.CHECKS[todo.id], checks.VISIBLE[todo.id], SECONDS, bench.rung, shrinks=False)
    visible = attempt(parts, trial).finding
    if visible:
        return visible, visible
    directed = replace(trial, cases=load_suite(bench.grader, chapter.id).DIRECTED[todo.id])
    return None, attempt(parts, directed).finding or every_draw(parts, trial, bench.drawn(todo.id))


def every_draw(parts: splice.Parts, trial: Trial, draws: Iterable[list[Case]]) -> Finding | None:
    """What the last draw found, if each of them found something. One runner serves them until it ends."""
    draws, finding = iter(draws), None
    for cases in draws:
        finding = attempt(parts, replace(trial, cases=cases)).finding
        if finding is None or not others_find(parts, trial, draws):
            return None
    return finding


def others_find(parts: splice.Parts, trial: Trial, draws: Iterator[list[Case]]) -> bool:
    """Whether each draw finds something, up to one that the runner does not survive."""
    with suppress(Stuck, Died), student_of(parts, trial) as student:
        for cases in draws:
            student.restart_clock()
            if not any(finds(trial, student, case) for case in cases):
                return False
    return True


def finds(trial: Trial, student: Student, case: Case) -> bool:
    """Whether a case catches the answer in this runner."""
    student.begin(case)
    try:
        return trial.check(student, case) is not None
    except StudentError:
        return True


def correct_row(bench: Bench, variant: Variant) -> Row:
    """A correct variant keeps every point: all seeds' cases in one sitting, judged as a submission is.

    TODOs in which it is the reference, word for word, are judged once, with the reference.
    """
    chapter = bench.chapter
    submission = submission_of(chapter, variant)
    reference = submission_of(chapter, Variant("the reference"))
    own = [t.id for t in chapter.todos if code_of(chapter, submission, t) != code_of(chapter, reference, t)]

    def cases(todo_id: str) -> list[Case]:
        first = hidden_cases(chapter, 0, bench.grader)(todo_id)
        fixed = [c for c in first if not c.get("drawn")]
        return fixed + [c for draw in bench.drawn(todo_id) for c in draw]

    results = judge(chapter, submission, own, cases=cases, rung=bench.rung, seconds=60.0)
    lost = next((r for r in results if r.state != "passed"), None)
    said = lost.finding.text["en"] if lost and lost.finding else ""
    todo = lost.todo if lost else own[0] if len(own) == 1 else "all"
    return Row(variant.name, "correct", todo, lost.rule if lost else "", "", lost is None, said)


def code_of(chapter: Chapter, submission: Submission, todo: Todo) -> list[str]:
    """All the code that one TODO is judged by."""
    return [part.source for part in splice.alone(chapter, submission, todo)[0]]


def left_out_row(bench: Bench, variant: Variant) -> Row:
    """The reference without one TODO loses that TODO's points only."""
    chapter, todo = bench.chapter, variant.todo
    cases = hidden_cases(chapter, 0, bench.grader)
    results = judge(chapter, submission_of(chapter, variant), cases=cases, rung=bench.rung)
    lost = [r.todo for r in results if r.state != "passed"]
    state = next(r.state for r in results if r.todo == todo)
    return Row(variant.name, "left out", todo, state, state, lost == [todo], ", ".join(lost))


def stub_row(bench: Bench, variant: Variant) -> Row:
    """The untouched notebook, in either language, scores 0."""
    chapter = bench.chapter
    results = [
        result
        for lang in ("en", "zh")
        for result in judge(
            chapter,
            Submission({a.grade_id: a.stub[lang] for a in chapter.answers}, "", []),
            cases=hidden_cases(chapter, 0, bench.grader),
            rung=bench.rung,
        )
    ]
    points = sum(r.points for r in results)
    untouched = all(r.state == "not_started" for r in results)
    state = "not_started" if untouched else ""
    return Row(variant.name, "stub", "all", state, "", untouched, f"{points:g}")
