"""Verdicts: each TODO for itself, every state reached, and the words that go with it."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from decodelab.check.feedback import as_html, as_text
from decodelab.course import load
from decodelab.errors import DecodeLabError
from decodelab.grading import splice, suites
from decodelab.grading.judge import judge
from decodelab.grading.prove import Variant, submission_of
from decodelab.lang import speak
from decodelab.notebook.read import Submission
from decodelab.show.tell import plain

GRADER = Path(__file__).parents[1] / "grader"
CHAPTER = load("ch01")
REFERENCE = submission_of(CHAPTER, Variant("reference"))


@pytest.fixture(autouse=True, params=["en", "zh"])
def lang(request):
    speak(request.param)
    return request.param


def states(submission, **options):
    return {r.todo: r.state for r in judge(CHAPTER, submission, **options)}


def with_regions(**regions):
    return submission_of(CHAPTER, Variant("v", {k.replace("_", "."): code for k, code in regions.items()}))


def test_the_reference_passes_and_the_stub_is_not_started(lang):
    assert set(states(REFERENCE).values()) == {"passed"}
    stub = Submission({a.grade_id: a.stub[lang] for a in CHAPTER.answers}, "", [])
    results = judge(CHAPTER, stub)
    assert {r.state for r in results} == {"not_started"}
    assert sum(r.points for r in results) == 0
    for result in results:
        assert {"en": "not started", "zh": "尚未开始"}[lang] in as_text(result)


@pytest.mark.parametrize("todo", [t.id for t in CHAPTER.todos])
def test_a_syntax_error_in_one_todo_costs_that_todo_only(todo, lang):
    broken = with_regions(**{todo.replace(".", "_"): "if True print(1)"})
    got = states(broken)
    assert got.pop(todo) == "failed"
    assert set(got.values()) == {"passed"}


LOOP = "while True:\n    try:\n        x = 1\n    except BaseException:\n        pass"


def test_endless_loops_are_named_within_the_limit_side_by_side(lang):
    began = time.monotonic()
    results = judge(CHAPTER, with_regions(**{t.id.replace(".", "_"): LOOP for t in CHAPTER.todos}), seconds=1)
    assert time.monotonic() - began < 12
    for result in results:
        assert result.state == "timed_out"
        text = as_text(result)
        if result.todo != "ch01.5":
            assert {"en": f"TODO {result.todo} does not end", "zh": f"TODO {result.todo} 不会结束"}[
                lang
            ] in text


def test_an_interrupt_ends_every_runner_at_once():
    began, before = time.monotonic(), set(threading.enumerate())
    threading.Timer(1.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        judge(CHAPTER, with_regions(ch01_2=LOOP, ch01_3=LOOP), seconds=20)
    assert time.monotonic() - began < 5
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("ThreadPool")]
    assert left == []


def test_a_loop_in_step_says_the_step_and_shows_the_queue(lang):
    code = f"if len(self.timeline) == 3:\n{chr(10).join('    ' + x for x in LOOP.splitlines())}\n" + (
        CHAPTER.todo("ch01.3").code
    )
    (result,) = judge(CHAPTER, with_regions(ch01_3=code), ["ch01.3"], seconds=1)
    assert {"en": "it had made 3 steps", "zh": "当时已经走了 3 步"}[lang] in as_text(result)
    assert result.finding
    assert [r["request_id"] for r in result.finding.state] == [5, 4, 3, 2, 1]


def test_a_loop_in_run_is_seen_from_outside(lang):
    code = "for _ in range(2):\n    self.step()\n" + LOOP
    (result,) = judge(CHAPTER, with_regions(ch01_4=code), ["ch01.4"], seconds=1)
    assert {"en": "it had made 2 steps", "zh": "当时已经走了 2 步"}[lang] in as_text(result)


def test_leaving_the_process_is_died_and_an_exception_shows_its_line(lang):
    died, raised = (
        judge(CHAPTER, with_regions(ch01_3=code), ["ch01.3"])[0]
        for code in ("import os\nos._exit(0)", "return self.quueue")
    )
    assert died.state == "died"
    assert died.points == 0
    assert "return self.quueue" in as_text(raised)
    assert raised.finding
    assert raised.finding.rule == "no-exception"


def test_a_missing_answer_cell_is_not_found_and_costs_only_itself():
    got = states(Submission({"ch01-answer": REFERENCE.answers["ch01-answer"]}, "", []))
    assert got.pop("ch01.5") == "not_found"
    assert set(got.values()) == {"passed"}


def test_the_first_difference_comes_with_both_sequences_and_the_queue(lang):
    speak(lang)
    fifo = "active = [r for r in self.queue if not r.done]\nif not active: return None\nreq = active[0]"
    (result,) = judge(CHAPTER, with_regions(ch01_3=fifo), ["ch01.3"])
    finding = result.finding
    assert finding
    assert finding.at == 0
    assert finding.want[0]["request_id"] != finding.got[0]["request_id"]
    text = as_text(result)
    assert f"{finding.want[0]['request_id']}P" in text
    assert {"en": "Active requests at that moment", "zh": "当时的活跃请求"}[lang] in text
    assert plain(CHAPTER.todo("ch01.3").hints[lang][finding.hint - 1]).split("\n")[0] in text


def test_html_feedback_escapes_what_the_student_made():
    code = 'print("<script>alert(1)</script>")\nraise RuntimeError("<img src=x>")'
    (result,) = judge(CHAPTER, with_regions(ch01_3=code), ["ch01.3"])
    page = as_html(result)
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_the_learners_helpers_are_run_before_the_answers():
    helper = Submission(
        {"ch01-answer": with_regions(ch01_2="return my_key(req)").answers["ch01-answer"]},
        "def my_key(r):\n"
        "    return (r.phase != 'prefill', not r.cache_hit, -r.priority, r.total_len, r.request_id)",
        [],
    )
    assert states(helper)["ch01.2"] == "passed"


def test_hidden_workloads_repeat_for_a_seed_and_differ_between_seeds():
    one, again, other = (suites.hidden_cases(CHAPTER, seed, GRADER)("ch01.3") for seed in (1, 1, 2))
    assert one == again
    assert one != other
    json.dumps(one)  # plain data, so that a regrade can repeat it


def test_the_course_secret_is_made_once_and_seeds_follow_from_it(tmp_path):
    secret = suites.course_secret(tmp_path)
    assert suites.course_secret(tmp_path) == secret
    assert [p.name for p in (tmp_path / ".decodelab").iterdir()] == ["secret"]
    assert suites.course_secret(tmp_path / "other") != secret
    seeds = {suites.student_seed(secret, "ch01", s) for s in ("ada", "bob", "ada")}
    assert len(seeds) == 2


# --- splicing ---


def test_a_region_is_replaced_at_its_own_indentation():
    source = "class A:\n    def f(self):\n        # TODO ch01.2 (about 1 line)\n        return 1\n        # END ch01.2\n"
    got = splice.replace_region(source, "ch01.2", "if 1:\n    return 2")
    assert got == source.replace("return 1", "if 1:\n            return 2")
    assert splice.replace_region(source, "ch01.3", "x") is None


def test_lines_keep_the_number_that_they_have_in_the_students_cell():
    source = "a\n# TODO ch01.2\nb\nc\n# END ch01.2\nd"
    part = splice.in_region(splice.Part.cell("x", source), "ch01.2", "r1\nr2\nr3")
    assert part
    lines = part.source.split("\n")
    assert {lines[i]: part.line(i + 1) for i in range(len(lines))} == {
        "a": 1,
        "# TODO ch01.2": 2,
        "r1": 0,
        "r2": 0,
        "r3": 0,
        "# END ch01.2": 5,
        "d": 6,
    }


def test_without_marks_the_method_is_replaced_or_added():
    source = (
        "class A:\n    x = 1\n    @property\n    def f(self):\n        return 1\n\n    def g(self): pass\n"
    )
    reference = "class A:\n    def f(self):\n        return 2\n\n    def h(self):\n        return 3\n"
    names: dict = {}
    once = splice.in_symbol(splice.Part.cell("x", source), "A.f", reference)
    assert once
    twice = splice.in_symbol(once, "A.h", reference)
    assert twice
    exec(twice.source, names)
    assert (names["A"]().f(), names["A"]().h(), names["A"].x) == (2, 3, 1)
    assert splice.in_symbol(splice.Part.cell("x", "class B: pass"), "A.f", reference) is None
    assert splice.in_symbol(splice.Part.cell("x", "class A(:"), "A.f", reference) is None


def test_a_wrong_neighbour_does_not_cost_points_without_marks_either():
    source = REFERENCE.answers["ch01-answer"]
    unmarked = "\n".join(
        line for line in source.split("\n") if not line.strip().startswith(("# TODO ch01", "# END ch01"))
    )
    wrong = unmarked.replace("-req.priority,", "req.priority,")
    assert wrong != unmarked
    got = states(Submission(REFERENCE.answers | {"ch01-answer": wrong}, "", []))
    assert got.pop("ch01.2") == "failed"
    assert set(got.values()) == {"passed"}


def test_finding_regions_takes_one_pass_whatever_is_in_the_cell():
    hostile = "# TODO ch01.1\n" * 200_000
    assert splice.regions(hostile) == []
    assert splice.replace_region(hostile, "ch01.1", "x") is None
    assert len(splice.regions("# TODO ch01.1\nx\n# END ch01.1\n" * 3)) == 3


@pytest.mark.parametrize(
    ("swap", "says"),
    [
        (("    def step", "<<<<<<< HEAD\n    def step"), "conflict"),
        (("    def step", "=======\n    def step"), "conflict"),
        (("    def step", "    >>>>>>> theirs\n    def step"), "conflict"),
        (("class DecodeSchedulerSim", "class Mine"), "DecodeSchedulerSim is not there"),
    ],
)
def test_the_words_name_the_cause(swap, says):
    source = CHAPTER.answer("ch01-answer").reference.replace(*swap)
    for result in judge(CHAPTER, Submission({"ch01-answer": source}, "", []), ["ch01.2", "ch01.4"]):
        assert result.finding
        assert says in result.finding.text["en"]
        assert "ch01-answer" not in "".join(result.finding.text.values())


def test_a_secret_that_is_none_is_refused(tmp_path):
    (tmp_path / ".decodelab").mkdir()
    (tmp_path / ".decodelab" / "secret").write_text("")
    with pytest.raises(DecodeLabError) as caught:
        suites.course_secret(tmp_path)
    assert "too short" in caught.value.text["en"]


def test_a_traceback_holds_the_learners_frames_and_not_the_checks():
    answer = "t = timing.token_times\nreturn t[7]"
    chapter = load("ch02")
    [result] = [
        r
        for r in judge(chapter, submission_of(chapter, Variant("v", {"ch02.3": answer})))
        if r.todo == "ch02.3"
    ]
    assert result.finding
    assert "return t[7]" in result.finding.traceback
    assert "decodelab_probe" not in result.finding.traceback
    assert result.finding.error == "IndexError"


def test_a_given_cell_that_begins_with_a_decorator_is_given():
    chapter = load("ch01")
    decorated = "@print\ndef f(): ..."
    parts = splice.around(replace(chapter, exports=(*chapter.exports, decorated)), Submission({}, "", []))
    assert decorated in [part.source for part in parts]
    assert not any(part.source.startswith("@ch01") for part in parts)
