"""A chapter stands on the learner's own earlier one: chapter 4's scheduler asks chapter 3's policy who is next."""

from __future__ import annotations

from typing import Any

import pytest
from reference import reference
from test_chapters import answers, home, keep  # noqa: F401  (home: an empty desk for each test)

from decodelab import chapters, course
from decodelab.check.ch04.cases import limits
from decodelab.contract import SchedulerConfig
from decodelab.lang import speak
from decodelab.request import Request
from decodelab.run import Loop
from decodelab.sim.executor import SimExecutor

CH03 = course.load("ch03")
ASKED = "globals().setdefault('ASKED', []).append(request.request_id)\n"
FIRST_FIRST = "return (request.arrival_time, request.request_id)"
LAST_FIRST = "return (-request.arrival_time, request.request_id)"


def admitted(policy: Any) -> list[Any]:
    """Who is let in, in order, where there is one slot for four."""
    config = SchedulerConfig(**limits(1, 8))
    scheduler = reference("ch04").ContinuousBatchScheduler(config, policy)
    arrivals = [Request(9, 0.0, 2, 5), Request(1, 2.0, 2, 1), Request(2, 1.0, 2, 1), Request(3, 3.0, 2, 1)]
    return [i for step in Loop(arrivals, scheduler, SimExecutor()) for i in step.plan.new]


def test_a_learners_own_policy_decides_in_chapter_4(capsys):
    keep(CH03, answers(CH03, todo1=ASKED + FIRST_FIRST))
    policies = chapters.chapter("ch03")
    assert "your own code" in capsys.readouterr().out
    policies.__dict__["ASKED"] = []  # the checks asked, too
    assert admitted(policies.FCFS()) == [9, 2, 1, 3]
    assert set(policies.ASKED) == {1, 2, 3, 9}


@pytest.mark.parametrize(("lang", "words"), [("en", "the reference is used"), ("zh", "使用参考实现")])
def test_a_broken_one_is_refused_in_one_sentence(lang, words, capsys):
    speak(lang)
    keep(CH03, answers(CH03, todo1=ASKED + LAST_FIRST))
    policies = chapters.chapter("ch03")
    (said,) = capsys.readouterr().out.splitlines()
    assert words in said
    assert "ch03.1" in said
    assert not hasattr(policies, "MINE")
    assert admitted(policies.FCFS()) == [9, 2, 1, 3]


def test_own_chapters_of_both_work_together():
    """Chapter 4 itself in the learner's hand, over a policy of the learner's."""
    ch04 = course.load("ch04")
    keep(CH03, answers(CH03))
    keep(ch04, answers(ch04))
    mine = chapters.chapter("ch04")
    assert mine.MINE
    scheduler = mine.ContinuousBatchScheduler(
        SchedulerConfig(**limits(2, 8)), chapters.chapter("ch03").FCFS()
    )
    loop = Loop([Request(i, 0.0, 3, 2) for i in range(3)], scheduler, SimExecutor())
    assert [step.plan.scheduled for step in loop] == [{0: 3, 1: 3}, {0: 1, 1: 1}, {2: 3}, {2: 1}]
