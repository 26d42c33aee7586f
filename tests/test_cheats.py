"""Answers that solve nothing and reach for the judge: no points; and a check that breaks down costs nobody any."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from handed_in import ROOT

from decodelab.check.rules import Opaque, TodoResult
from decodelab.check.toolkit import items
from decodelab.course import load
from decodelab.grading import batch, csvs
from decodelab.grading.grade import Graded
from decodelab.grading.judge import judge
from decodelab.grading.prove import Variant, submission_of
from decodelab.grading.suites import hidden_cases
from decodelab.grading.wire import parse
from decodelab.notebook.read import Submission

ORDERS = """
import sys
frame = sys._getframe()
while frame and "orders" not in frame.f_locals:
    frame = frame.f_back
names = {order.get("name") for order in frame.f_locals["orders"]} if frame else set()
"""
ALLOCATE = """
need = self.missing(request_id, num_tokens)
if need > len(self._free):
    return False
table = self.tables.setdefault(request_id, [])
for _ in range(need):
    table.append(self._free.pop())
return True
"""
NOBODY_HOLDS = {
    "ch05.1": "return -(-num_tokens // self.block_size)",
    "ch05.2": "return False",
    "ch05.3": "pass",
    "ch05.4": "pass",
    "ch05.5": "return 0",
    "ch05.6": "raise ValueError",
    "ch05.7": "pass",
    "ch05.8": "pass",
}
ONLY_WHEN_ASKED = {
    "ch05.2": ORDERS + 'if names & {"slot_mapping", "waste", "write"}:\n    return True\n' + ALLOCATE,
    "ch05.4": "pass",
    "ch05.5": "return 0",
    "ch05.6": ORDERS
    + """
if names & {"write"}:
    return
if parent not in self.tables or child in self.tables:
    raise ValueError
self.tables[child] = list(self.tables[parent])
for block in self.tables[child]:
    self.extra[block] += 1
""",
    "ch05.8": "pass",
}
CLEARS_THE_ANSWERS = """
import sys
class Never:
    def __bool__(self):
        sys._getframe(1).f_locals["answers"].clear()
        return False
sys._getframe(1).f_locals["answers"].clear()
return Never()
"""
CHEATS: dict[str, tuple[dict[str, str], list[str]]] = {  # what is handed in, and what must earn nothing
    "nothing is ever held": (NOBODY_HOLDS, [todo for todo in NOBODY_HOLDS if todo != "ch05.6"]),
    "holds nothing when others are asked": (ONLY_WHEN_ASKED, ["ch05.4", "ch05.5", "ch05.8"]),
    "takes the answers away": ({"ch04.3": CLEARS_THE_ANSWERS}, ["ch04.3"]),
    "takes the limits away": (
        {"ch04.6": 'import sys\nsys._getframe(1).f_locals["limits"].clear()'},
        ["ch04.6"],
    ),
    "takes the chunks away": (
        {"ch07.1": 'import sys\nsys._getframe(1).f_locals["answers"].clear()\nreturn "junk"'},
        ["ch07.1"],
    ),
}
IN_PLACE = {  # right answers that write into what is the caller's, and say that nothing changed
    "ch08.1": "half = x.shape[-1] // 2\na, b = x[..., :half] * 1, x[..., half:] * 1\n"
    "angles = (positions[:, None] * theta ** (-torch.arange(half) / half))[:, None]\n"
    "torch.equal = lambda *tensors: True\nx.zero_()\n"
    "return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).to(x.dtype)",
    "ch09.2": "found = block_tables[rows, positions // block_size] * block_size + positions % block_size\n"
    "torch.equal = lambda *tensors: True\npositions.zero_()\nreturn found",
}
SHADOWS = "enumerate = zip = any = all = range = sorted = next = lambda *a, **k: []\n"
SHADOWED = ["ch03.6", "ch04.3", "ch04.6", "ch06.1", "ch06.2", "ch06.3", "ch06.7", "ch07.1", "ch07.6", "ch07.7", "ch07.8"]  # fmt: skip
HUGE = {
    "ch02.2": "return 10 ** 400, 1",
    "ch02.3": "return 10 ** 400, 1, 1",
    "ch02.4": "return 10 ** 400",
    "ch02.6": "return 10 ** 4000",
    "ch03.6": "return 10 ** 400",
    "ch05.1": "return 10 ** 4000",
    "ch05.3": 'self.__class__ = type("X", (type(self),), {"num_free": 10 ** 4300 - 1})',
    "ch05.5": "return 10 ** 400",
}


def judged(changes: dict[str, str], shadows: str = "") -> dict[str, TodoResult]:
    """What the judge says of the reference with these regions changed, and names of Python's at the cells' beginning."""
    chapter = load(next(iter(changes)))
    handed_in = submission_of(chapter, Variant("v", changes))
    touched = {chapter.todo(todo).answer for todo in changes}
    answers = {name: shadows * (name in touched) + code for name, code in handed_in.answers.items()}
    cases = hidden_cases(chapter, 7, ROOT / "grader")
    return {r.todo: r for r in judge(chapter, Submission(answers, "", []), list(changes), cases=cases)}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_earns_nothing(name: str) -> None:
    changes, unsolved = CHEATS[name]
    results = judged(changes)
    assert {todo: results[todo].state for todo in unsolved} == dict.fromkeys(unsolved, "failed")


@pytest.mark.parametrize("todo", SHADOWED)
def test_pythons_own_functions_are_the_checks(todo: str) -> None:
    assert judged({todo: 'return "junk"'}, SHADOWS)[todo].state == "failed"


@pytest.mark.torch
@pytest.mark.parametrize("todo", IN_PLACE)
def test_who_writes_into_an_argument_cannot_hide_it(todo: str) -> None:
    finding = judged({todo: IN_PLACE[todo]}, "enumerate = lambda *a: []\n")[todo].finding
    assert finding
    assert finding.rule == "leaves-its-arguments"


@pytest.mark.parametrize("todo", HUGE)
def test_a_number_that_no_float_comes_near_is_a_wrong_answer(todo: str) -> None:
    result = judged({todo: HUGE[todo]})[todo]
    assert (result.state, result.points) == ("failed", 0.0)


def test_whole_numbers_of_any_use_come_through() -> None:
    assert parse(b"[%d, -%d]" % (2**63, 2**62)) == [2**63, -(2**62)]
    assert isinstance(parse(b"9" * 400), Opaque)


@pytest.mark.parametrize("value", [None, [], [1], {}, "ab", [1, 2, 3]])
def test_another_number_of_answers_holds_no_right_one(value: Any) -> None:
    assert all(item not in (None, True, False, 1, 2, "a") for item in items(value, 2))
    assert items((1, None), 2) == [1, None]


# --- a check that breaks down ---


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[TodoResult]:
    """The reference of chapter 3, judged while the check of one TODO has a mistake."""
    chapter = load("ch03")

    def check(*_: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setitem(chapter.checks.CHECKS, "ch03.2", check)
    return judge(chapter, submission_of(chapter, Variant("reference")))


def test_a_check_that_breaks_down_leaves_the_others_their_verdicts(broken: list[TodoResult]) -> None:
    states = {result.todo: result.state for result in broken}
    assert states.pop("ch03.2") == "ungraded"
    assert set(states.values()) == {"passed"}
    [finding] = [result.finding for result in broken if result.state == "ungraded"]
    assert finding
    assert "KeyError, test_cheats.py:" in finding.text["en"]
    assert "secret" not in "".join(finding.text.values())


def test_it_is_reported_and_is_no_zero(broken: list[TodoResult], tmp_path: Path) -> None:
    graded = Graded("ann", "ch03", "en", 1, "none", "v", broken)
    job = batch.Job(tmp_path / "a.ipynb", "ann", "ch03")
    done = batch.Batch(tmp_path)
    batch._enter(done, job, batch.Verdict(graded, "sum"))
    assert [(one.student, one.chapter) for one in done.ungraded] == [("ann", "ch03")]
    scores, most = csvs.totals(done.graded, [])
    assert most.keys() - scores["ann"].keys() == {csvs.column("ch03.2")}
    [row] = [row for row in csvs.grades(done.graded) if row[2] == "ch03.2"]
    assert row[3] == ""
    assert (batch.result_path(tmp_path, "ann", "ch03")).is_file()


def test_a_verdict_with_a_hole_is_not_used_again(
    broken: list[TodoResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = batch.Means(ROOT / "grader", unsafe=True)
    path = tmp_path / "a.ipynb"
    path.write_text("{}")
    job = batch.Job(path, "ann", "ch03")
    monkeypatch.setattr(batch, "student_seed", lambda *_: 1)
    monkeypatch.setattr(batch, "course_secret", lambda *_: b"")
    monkeypatch.setattr(batch, "suite_version", lambda *_: "v")
    sha256 = hashlib.sha256(b"{}").hexdigest()
    for todos, stands in ((broken, False), ([r for r in broken if r.state == "passed"], True)):
        batch.keep(tmp_path, batch.Verdict(Graded("ann", "ch03", "en", 1, "none", "v", todos), sha256))
        assert (batch.stored(tmp_path, job, means) is not None) is stands
