"""Proof of the tests: wrong variants must lose points, correct ones must not, and a stub scores 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decodelab.check.rules import TodoResult
from decodelab.course import Chapter, Todo, load
from decodelab.grading import splice
from decodelab.grading.judge import Cases, Trial, attempt, hidden_cases, judge, load_suite, visible_cases
from decodelab.notebook.read import Submission

SECONDS = 5.0  # for an answer that should not end; a correct one needs a fraction of it


@dataclass(frozen=True)
class Variant:
    """An answer that differs from the reference in some regions, or in whole answer cells.

    A wrong one says which ``todo`` it gets wrong and the ``rule`` that must be named for it.
    """

    name: str
    regions: dict[str, str] = field(default_factory=dict)  # todo id -> code in its region
    cells: dict[str, str] = field(default_factory=dict)  # answer's grade id -> whole source
    rule: str = ""

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
    kind: str  # "wrong" | "correct" | "left out" | "stub"
    todo: str
    hidden: str  # the rule that caught it under the hidden suite; "" where nothing did
    visible: str
    ok: bool
    said: str = ""  # the English message a learner would read


@dataclass
class ProveReport:
    """The kill matrix of one chapter."""

    chapter: str
    seeds: int
    rows: list[Row]

    def of(self, kind: str) -> list[Row]:
        """The rows of one kind."""
        return [r for r in self.rows if r.kind == kind]

    @property
    def ok(self) -> bool:
        """No wrong variant survived, no correct one lost points, and what was left out cost its own points only."""
        return all(r.ok for r in self.rows)

    def lines(self) -> list[str]:
        """The matrix, a line a variant, ending in the line that sums it up."""
        width = max(len(r.name) for r in self.rows)
        shown = [
            f"{'ok  ' if r.ok else 'FAIL'} {r.kind:8} {r.todo:7} {r.name:{width}}  "
            f"hidden: {r.hidden or '-':22} visible: {r.visible or '-'}"
            for r in self.rows
        ]
        return [*shown, self.last_line()]

    def last_line(self) -> str:
        """As in ``ch01: hidden 12/12, visible 11/12, correct 4/4, stub 0``."""
        wrong, correct = self.of("wrong"), self.of("correct")
        return (
            f"{self.chapter}: hidden {sum(bool(r.hidden) for r in wrong)}/{len(wrong)}, "
            f"visible {sum(bool(r.visible) for r in wrong)}/{len(wrong)}, "
            f"correct {sum(r.ok for r in correct)}/{len(correct)}, stub {self.of('stub')[0].said}"
        )

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "chapter": self.chapter,
            "seeds": self.seeds,
            "ok": self.ok,
            "rows": [vars(r) for r in self.rows],
        }


def prove(chapter_id: str, grader: Path, seeds: int = 100) -> ProveReport:
    """Run every variant of ``grader/suites/chNN.py`` under the visible cases and the hidden ones of each seed."""
    chapter = load(chapter_id)
    suite = load_suite(grader, chapter.id)
    rows = [wrong_row(chapter, v, grader, seeds) for v in suite.WRONG]
    rows += [correct_row(chapter, v, grader, seeds) for v in suite.CORRECT]
    rows += [left_out_row(chapter, t, grader) for t in chapter.todos]
    rows.append(stub_row(chapter, grader))
    return ProveReport(chapter.id, seeds, rows)


def wrong_row(chapter: Chapter, variant: Variant, grader: Path, seeds: int) -> Row:
    """A wrong variant: caught under every seed, by the rule it breaks.

    Directed cases are in every draw, so where one of them catches it, every seed does.
    """
    todo = chapter.todo(variant.todo)
    submission = submission_of(chapter, variant)
    visible = examine(chapter, submission, todo, visible_cases(chapter))
    caught = [visible] if visible.finding else []
    if not caught:
        draws = (examine(chapter, submission, todo, draw) for draw in drawn(chapter, grader, seeds))
        caught = list(stop_at_survivor(draws))
    survived = not all(r.finding for r in caught)
    rule = "" if survived or not caught[0].finding else caught[0].finding.rule
    named = visible.finding.rule if visible.finding else ""
    said = caught[0].finding.text["en"] if caught and caught[0].finding else ""
    ok = not survived and all(r.finding and r.finding.rule == variant.rule for r in caught[:1])
    return Row(variant.name, "wrong", todo.id, rule, named, ok, said)


def stop_at_survivor(draws: Iterator[TodoResult]) -> Iterator[TodoResult]:
    """The results up to the first that found nothing."""
    for result in draws:
        yield result
        if not result.finding:
            return


def drawn(chapter: Chapter, grader: Path, seeds: int) -> Iterator[Cases]:
    """The hidden workloads of student seeds 0, 1, 2, ..."""
    return (hidden_cases(chapter, seed, grader) for seed in range(seeds))


def examine(chapter: Chapter, submission: Submission, todo: Todo, cases: Cases) -> TodoResult:
    """One TODO of a submission, the reference in the others."""
    trial = Trial(todo, chapter.checks.CHECKS[todo.id], cases(todo.id), SECONDS)
    return attempt(splice.alone(chapter, submission, todo)[0], trial)


def correct_row(chapter: Chapter, variant: Variant, grader: Path, seeds: int) -> Row:
    """A correct variant keeps every point: all seeds' cases in one sitting, judged as a submission is."""
    draws = list(drawn(chapter, grader, seeds))
    results = judge(
        chapter,
        submission_of(chapter, variant),
        cases=lambda todo: [*draws[0](todo), *(c for d in draws[1:] for c in d(todo) if c.get("drawn"))],
        seconds=60.0,
    )
    lost = next((r for r in results if r.state != "passed"), None)
    rule = lost.finding.rule if lost and lost.finding else ""
    said = lost.finding.text["en"] if lost and lost.finding else ""
    return Row(variant.name, "correct", lost.todo if lost else "all", rule, "", lost is None, said)


def left_out_row(chapter: Chapter, todo: Todo, grader: Path) -> Row:
    """The reference without one TODO loses that TODO's points only."""
    variant = Variant(f"without {todo.id}", {todo.id: f'raise TodoError("{todo.id}")'})
    results = judge(chapter, submission_of(chapter, variant), cases=hidden_cases(chapter, 0, grader))
    lost = [r.todo for r in results if r.state != "passed"]
    state = next(r.state for r in results if r.todo == todo.id)
    return Row(variant.name, "left out", todo.id, state, state, lost == [todo.id], ", ".join(lost))


def stub_row(chapter: Chapter, grader: Path) -> Row:
    """The untouched notebook, in either language, scores 0."""
    results = [
        result
        for lang in ("en", "zh")
        for result in judge(
            chapter,
            Submission({a.grade_id: a.stub[lang] for a in chapter.answers}, "", []),
            cases=hidden_cases(chapter, 0, grader),
        )
    ]
    points = sum(r.points for r in results)
    untouched = all(r.state == "not_started" for r in results)
    return Row(
        "untouched notebook", "stub", "all", "not_started" if untouched else "", "", untouched, f"{points:g}"
    )
