"""The kill matrix of every chapter: nothing wrong survives, nothing correct loses a point."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from decodelab.cli import main
from decodelab.course import chapter_ids, load
from decodelab.grading import prove as proof
from decodelab.grading.judge import judge
from decodelab.grading.mutants import mutants
from decodelab.grading.prove import (
    Bench,
    Variant,
    correct_row,
    hunt,
    mutant_row,
    prove,
    submission_of,
    wrong_row,
)
from decodelab.grading.suites import load_suite

GRADER = Path(__file__).parents[1] / "grader"
ONE_SEED = Bench("ch01", GRADER, 1)


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapter_ids())
def test_every_variant_and_mutant_over_a_hundred_student_seeds(chapter):
    report = prove(chapter, GRADER, seeds=100)
    assert report.ok, "\n".join(report.lines())
    for kind in ("wrong", "mutant"):
        rows = report.of(kind)
        assert sum(bool(r.visible) for r in rows) >= 0.85 * len(rows)


@pytest.fixture
def small(monkeypatch):
    """Chapter 0 with a handful of variants: the whole way in a second or two."""
    suite = load_suite(GRADER, "ch00")
    monkeypatch.setattr(suite, "WRONG", suite.WRONG[:2])
    monkeypatch.setattr(suite, "CORRECT", suite.CORRECT[:1])
    monkeypatch.setattr(load_suite(GRADER, "second/ch00"), "WRONG", [])
    monkeypatch.setattr(load_suite(GRADER, "second/ch00"), "CORRECT", [])
    return suite


def blind(monkeypatch, todo):
    """A check that finds nothing."""
    monkeypatch.setitem(load(todo).checks.CHECKS, todo, lambda student, case: None)


def test_the_lines_of_a_good_matrix(small):
    lines = prove("ch00", GRADER, seeds=2, jobs=1).lines()
    count = len(mutants(load("ch00").todos[0]))
    assert lines[-2] == f"mutants: hidden {count}/{count}, visible {count}/{count}, equivalent 0"
    assert lines[-1] == "ch00: hidden 2/2, visible 2/2, correct 2/2, stub 0"
    assert not [line for line in lines if line.startswith("FAIL")]


def test_what_a_blind_check_lets_through_fails(small, monkeypatch):
    blind(monkeypatch, "ch00.1")
    report = prove("ch00", GRADER, seeds=2, jobs=1)
    assert not report.ok
    rows = report.of("wrong", "mutant")
    assert not [r.name for r in rows if r.ok]
    assert sum(line.startswith("FAIL") for line in report.lines()) >= len(rows)


def test_a_survivor_listed_as_equivalent_is_in_order(small, monkeypatch):
    blind(monkeypatch, "ch00.1")
    names = mutants(load("ch00").todos[0])
    monkeypatch.setattr(small, "EQUIVALENT", dict.fromkeys(names, "nobody looks"), raising=False)
    report = prove("ch00", GRADER, seeds=2, jobs=1)
    assert [r.ok for r in report.of("equivalent")] == [True] * len(names)
    assert report.of("mutant") == []
    assert f"equivalent {len(names)}" in report.lines()[-2]


def test_an_equivalent_that_is_caught_or_is_no_mutant_is_stale(small, monkeypatch):
    stale = {"ch00.1:1 2 became 3": "once it was", "ch00.1:9 no such thing": "gone"}
    monkeypatch.setattr(small, "EQUIVALENT", stale, raising=False)
    report = prove("ch00", GRADER, seeds=2, jobs=1)
    assert not report.ok
    assert {r.name: r.said for r in report.of("equivalent")} == {
        "ch00.1:1 2 became 3": "EQUIVALENT lists it, but it is caught",
        "ch00.1:9 no such thing": "EQUIVALENT lists it, but there is no such mutant",
    }


def test_a_right_answer_listed_as_wrong_and_a_wrong_one_listed_as_correct_both_fail():
    code = load("ch01").todo("ch01.2").code
    assert not wrong_row(ONE_SEED, Variant("right", {"ch01.2": code}, rule="x")).ok
    assert not mutant_row(ONE_SEED, Variant("right", {"ch01.2": code})).ok
    assert not correct_row(ONE_SEED, Variant("wrong", {"ch01.2": "return ()"})).ok


def test_a_wrong_rule_name_fails_the_row_and_none_is_any():
    code = {"ch01.2": "return (req.request_id,)"}
    row = wrong_row(ONE_SEED, Variant("fifo", code, rule="prefill-first"))
    assert (row.hidden, row.ok) == ("key-shape", False)
    assert wrong_row(ONE_SEED, Variant("fifo", code)).ok


@pytest.fixture
def drawn_only(monkeypatch):
    """TODO 4 with one workload for each seed and no other: a run of ``seed`` steps."""
    suite = load_suite(GRADER, "ch01")
    monkeypatch.setitem(load("ch01").checks.VISIBLE, "ch01.4", [])
    monkeypatch.setitem(suite.DIRECTED, "ch01.4", [])
    numbers = iter(range(100))
    case = {"requests": [{"request_id": 1, "prompt_len": 50}], "drawn": True}
    monkeypatch.setattr(suite, "random_cases", lambda todo, rng: [case | {"runs": [next(numbers)]}])


@pytest.mark.parametrize("kind_of_slip", ["+ (max_steps != 3)", "+ 1", "+ 1 if max_steps != 4 else exit()"])
def test_one_seed_survived_is_survival(drawn_only, kind_of_slip):
    """Also behind a seed under which the runner itself does not survive."""
    code = f"for _ in range(max_steps {kind_of_slip}):\n    self.step()\nreturn self.timeline"
    visible, hidden = hunt(Bench("ch01", GRADER, 8), Variant("slip", {"ch01.4": code}))
    assert visible is None
    assert (hidden is None) == (kind_of_slip == "+ (max_steps != 3)")


def test_a_correct_variant_is_judged_where_it_differs(monkeypatch):
    asked = []

    def spy(chapter, submission, todos, **options):
        asked.append(todos)
        return judge(chapter, submission, todos, **options)

    monkeypatch.setattr(proof, "judge", spy)
    code = load("ch01").todo("ch01.3").code
    assert correct_row(ONE_SEED, Variant("longer", {"ch01.3": "once = 1\n" + code})).ok
    assert correct_row(ONE_SEED, Variant("the reference")).ok
    assert asked == [["ch01.3"], []]


def test_the_second_author_is_part_of_the_matrix():
    bench = Bench("ch01", GRADER, 1)
    suite, second = load_suite(GRADER, "ch01"), load_suite(GRADER, "second/ch01")
    assert len(second.WRONG) >= 20
    assert len(second.CORRECT) >= 6
    assert bench.variants("WRONG") == [*suite.WRONG, *second.WRONG]
    assert bench.variants("CORRECT") == [*suite.CORRECT, *second.CORRECT]


def test_every_variant_can_be_put_into_the_notebook():
    for chapter_id in chapter_ids():
        bench = Bench(chapter_id, GRADER, 1)
        for variant in [*bench.variants("WRONG"), *bench.variants("CORRECT")]:
            assert submission_of(bench.chapter, variant).answers


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_the_command_prints_the_matrix_and_says_by_its_exit_code_how_it_went(monkeypatch, capsys, ok, code):
    seen = []

    def small_proof(chapter, grader, seeds):
        seen.append((chapter, grader.name, seeds))
        return SimpleNamespace(ok=ok, lines=lambda: ["row", "last line"], to_json=lambda: {"ok": ok})

    monkeypatch.setattr(proof, "prove", small_proof)
    assert main(["prove", "ch00", "--seeds", "3"]) == code
    assert capsys.readouterr().out == "row\nlast line\n"
    assert main(["prove", "ch00", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == {"ok": ok}
    assert seen == [("ch00", "grader", 3), ("ch00", "grader", 100)]


def test_the_command_itself_in_processes_side_by_side(capsys):
    assert main(["prove", "ch00", "--seeds", "2"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    match = re.fullmatch(r"ch00: hidden (\d+)/\1, visible (\d+)/\1, correct (\d+)/\3, stub 0", last)
    assert match, last
    assert int(match[2]) >= 0.85 * int(match[1])


def test_a_chapter_without_a_suite_is_refused(capsys):
    assert main(["prove", "ch99"]) == 2
    assert "ch99" in capsys.readouterr().err
