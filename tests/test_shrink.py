"""Shrinking: the smallest workload that still breaks the same rule, never one that breaks another."""

from hypothesis import given
from hypothesis import strategies as st

from decodelab.check.rules import Finding
from decodelab.course import load
from decodelab.grading.judge import judge
from decodelab.grading.prove import Variant, submission_of
from decodelab.grading.shrink import shrink, smaller

TEXT = {"en": "", "zh": ""}


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9))
def test_a_single_culprit_is_isolated(items, culprit):
    def breaks(case):
        return Finding("bad", TEXT, case=case) if culprit in case["requests"] else None

    found = shrink({"name": "x", "requests": [*items, culprit]}, breaks, "bad")
    if items:
        assert found
        assert found.case["requests"] == [culprit]
    else:
        assert found is None, "nothing smaller breaks it"


@given(st.lists(st.integers(0, 9), max_size=9))
def test_another_rule_is_no_substitute(items):
    def breaks(case):
        return Finding("good" if len(case["requests"]) > 3 else "other", TEXT, case=case)

    found = shrink({"requests": items}, breaks, "good")
    assert found is None or len(found.case["requests"]) == 4


def test_every_candidate_is_smaller_and_the_case_is_left_alone():
    case = {"name": "n", "requests": [{"a": 3, "b": True}], "script": [["enqueue", {"n": 5}], ["steps", 4]]}
    copy = repr(case)
    sizes = [len(repr(c)) for c in smaller(case)]
    assert sizes
    assert all(size <= len(copy) for size in sizes)
    assert repr(case) == copy


def test_a_judged_failure_comes_with_a_minimal_workload():
    chapter = load("ch01")
    code = "active = [r for r in self.queue if not r.done]\nif not active:\n    return None\nreq = active[0]"
    many = [["enqueue", {"request_id": i, "prompt_len": 3, "priority": i % 3}] for i in range(1, 9)]
    case = {"name": "large", "script": [*many, ["steps", None]]}
    (result,) = judge(
        chapter,
        submission_of(chapter, Variant("fifo", {"ch01.3": code})),
        ["ch01.3"],
        cases=lambda todo: [case],
    )
    assert result.finding
    assert result.finding.rule == "priority-first"
    enqueued = [order for order in result.finding.case["script"] if order[0] == "enqueue"]
    assert len(enqueued) == 2


def test_without_marks_a_syntax_error_blocks_its_neighbours_and_says_so():
    chapter = load("ch01")
    reference = submission_of(chapter, Variant("reference"))
    cell = reference.answers["ch01-answer"]
    bare = "\n".join(line for line in cell.split("\n") if "# TODO" not in line and "# END" not in line)
    reference.answers["ch01-answer"] = bare.replace("def run(self", "def run(self,,")
    results = judge(chapter, reference)
    assert [r.state for r in results[:4]] == ["blocked"] * 4
    assert results[0].finding
    assert "ch01.4" in results[0].finding.text["en"]
