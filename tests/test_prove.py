"""The kill matrix of every chapter: no wrong variant survives, no correct one loses a point."""

from pathlib import Path

import pytest

from decodelab.course import chapter_ids
from decodelab.grading.prove import Variant, correct_row, prove, wrong_row

GRADER = Path(__file__).parents[1] / "grader"


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapter_ids())
def test_every_variant_over_a_hundred_student_seeds(chapter):
    report = prove(chapter, GRADER, seeds=100)
    assert report.ok, "\n".join(report.lines())
    wrong = report.of("wrong")
    assert sum(bool(r.visible) for r in wrong) >= 0.85 * len(wrong)


def test_a_suite_that_is_blind_would_be_seen(monkeypatch):
    """A right answer listed as wrong survives, a wrong one listed as correct loses: both rows fail."""
    from decodelab.course import load

    chapter = load("ch01")
    code = chapter.todo("ch01.2").code
    assert not wrong_row(chapter, Variant("right", {"ch01.2": code}, rule="x"), GRADER, seeds=1).ok
    assert not correct_row(chapter, Variant("wrong", {"ch01.2": "return ()"}), GRADER, seeds=1).ok


def test_a_wrong_rule_name_fails_the_row():
    from decodelab.course import load

    variant = Variant("fifo", {"ch01.2": "return (req.request_id,)"}, rule="prefill-first")
    row = wrong_row(load("ch01"), variant, GRADER, seeds=1)
    assert (row.hidden, row.ok) == ("key-shape", False)
