"""What a chapter takes of earlier ones: ``chapter("ch04")`` in its given cells works in every runner, and nothing more."""

from __future__ import annotations

import pytest
from test_chapters import answers, home, keep  # noqa: F401  (home: an empty desk for each test)

from decodelab import chapters
from decodelab.contract import SchedulerConfig
from decodelab.course import load
from decodelab.grading import sandbox, splice
from decodelab.grading.splice import GIVEN, earlier
from decodelab.grading.student import Student
from decodelab.notebook.read import Submission
from decodelab.request import Request
from decodelab.run import Loop
from decodelab.sim.executor import SimExecutor

TAKES = 'from decodelab import chapter\npolicies, batching = chapter("ch03"), chapter("ch04")\n'
ASKS = """
def order():
    return policies.FCFS().key(batching.Request(7, 2.0, 1, 1), 0.0)


def reference(chapter_id):
    from decodelab import chapter
    return chapter(chapter_id).__name__
"""


@pytest.fixture(params=["learner", "strongest"])
def student(request):
    rung = sandbox.LEARNER if request.param == "learner" else sandbox.strongest()
    with Student([(GIVEN, TAKES), ("cell", ASKS)], rung=rung) as there:
        yield there


def test_a_given_cell_gets_the_reference_of_earlier_chapters(student):
    assert student.call("order") == (2.0, 7)


@pytest.mark.parametrize("wanted", ["ch06", "ch01", "ch99"])
def test_nothing_is_there_that_no_given_cell_takes(student, wanted):
    """So an answer cannot ask for its own chapter's reference."""
    with pytest.raises(Exception, match=wanted):
        student.call("reference", wanted)


def test_what_a_students_own_cells_say_brings_nothing():
    assert earlier([("ch04-answer", TAKES), ("your other cells", TAKES)]) == {}
    assert list(earlier([(GIVEN, TAKES)])) == ["ch03", "ch04"]


def test_a_chapter_that_stands_on_others_brings_them_first():
    given = 'from decodelab import chapter\nmemory = chapter("ch06")\n'
    found = list(earlier([(GIVEN, given)]))
    assert found[-1] == "ch06"
    assert set(found) == {"ch03", "ch04", "ch05", "ch06"}


def test_every_chapter_takes_earlier_ones_only():
    for chapter_id in ("ch04", "ch05", "ch06"):
        parts = splice.whole(load(chapter_id), Submission({}, "", []))
        assert all(taken < chapter_id for taken in earlier((p.name, p.source) for p in parts))


LAST_BLOCK_FIRST = """
need = self.missing(request_id, num_tokens)
if need > len(self._free):
    return False
self._free.sort()
self.tables.setdefault(request_id, []).extend(self._free.pop() for _ in range(need))
return True
"""


def test_a_learners_own_chapters_stand_on_each_other():
    """Chapter 6 in the learner's hand, over the learner's own block manager, which gives out the last block first."""
    ch05, ch06 = load("ch05"), load("ch06")
    keep(ch05, answers(ch05, todo2=LAST_BLOCK_FIRST))
    keep(ch06, answers(ch06))
    mine = chapters.chapter("ch06")
    assert mine.MINE
    assert mine.BlockManager is chapters.chapter("ch05").BlockManager
    config = SchedulerConfig(8, 64, None, 2, 5, enable_chunked_prefill=False)
    scheduler = mine.PagedScheduler(config, chapters.chapter("ch03").FCFS())
    steps = list(Loop([Request(i, 0.0, 3, 6) for i in (1, 2)], scheduler, SimExecutor()))
    assert steps[0].plan.block_tables == {1: [4, 3], 2: [2, 1]}
    assert sum(len(step.plan.preempted) for step in steps) == 1
    assert sorted(i for step in steps for i in step.finished) == [1, 2]
