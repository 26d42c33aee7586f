"""Forked runners: like fresh ones, only sooner there."""

import os

import pytest

from decodelab.check.rules import StudentError
from decodelab.errors import DecodeLabError
from decodelab.grading.sandbox import LEARNER
from decodelab.grading.student import Stuck, Student
from decodelab.grading.warm import warmed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

MINE = "import sys\ncount = 0\ndef more():\n    global count\n    count += 1\n    return count\ndef has(name):\n    return name in sys.modules\n"


def test_a_runner_has_what_was_imported_and_nothing_of_other_runners():
    with warmed(["colorsys"]) as rung:
        for _ in range(2):
            with Student([("cell", MINE)], rung=rung) as student:
                assert student.module.call("has", "colorsys")
                assert [student.module.call("more") for _ in range(3)] == [1, 2, 3]


def test_two_runners_at_once_do_not_hear_each_other():
    with (
        warmed(["colorsys"]) as rung,
        Student([("cell", MINE)], rung=rung) as one,
        Student([("cell", MINE)], rung=rung) as other,
    ):
        assert [one.module.call("more"), one.module.call("more"), other.module.call("more")] == [1, 2, 1]


def test_code_that_does_not_end_is_ended_and_the_next_runner_starts():
    loop = "def loop():\n    while True:\n        try:\n            pass\n        except BaseException:\n            pass\n"
    with warmed(["colorsys"]) as rung:
        with Student([("cell", loop)], seconds=1.0, rung=rung) as student, pytest.raises(Stuck):
            student.module.call("loop")
        with Student([("cell", "def five():\n    return 5\n")], rung=rung) as student:
            assert student.module.call("five") == 5


def test_an_error_is_the_answers_own():
    with (
        warmed(["colorsys"]) as rung,
        Student([("cell", "def wrong():\n    return {}['a']\n")], rung=rung) as student,
        pytest.raises(StudentError, match="KeyError"),
    ):
        student.module.call("wrong")


def test_no_libraries_no_server():
    with warmed([]) as rung:
        assert rung is LEARNER


def test_a_library_that_is_missing_is_no_answers_fault():
    with (
        warmed(["there_is_no_such_library"]) as rung,
        pytest.raises(DecodeLabError),
        Student([("cell", MINE)], rung=rung),
    ):
        pass
