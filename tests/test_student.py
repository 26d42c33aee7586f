"""The judge's end and the runner's end of a conversation, with code that misbehaves."""

import time

import pytest

from decodelab.check.rules import Opaque, Record, StudentError
from decodelab.grading.student import Died, Stuck, Student
from decodelab.grading.wire import encode

CODE = """
import os, sys

class Box:
    def __init__(self, n=0):
        self.items = [n]
    def add(self, x):
        self.items.append(x)
        return self.items
    def for_ever(self):
        while True:
            try:
                self.items[0] += 1
            except BaseException:
                pass

def echo(x): return x
def boom(): return 1 / 0
def leave(): os._exit(3)
def flood():
    os.write(1, b"x" * 100_000)
    print("y" * 100_000)
    print("the end")
def bye(): sys.exit("bye")
def lost(): raise TodoError("ch01.2")
def odd(): return {(1, 2): {3}, "deep": [[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}
"""
PARTS = [("decodelab", "from decodelab import TodoError"), ("cell", CODE)]


@pytest.fixture(scope="module")
def student():
    with Student(PARTS) as student:
        yield student


@pytest.mark.parametrize(
    "value",
    [None, True, 0, 1.5, "文字", [1, [2]], (1, (2, "x")), {"a": (1,), 2: None}, {(1, 2): [3]}, {"~": "x"}],
    ids=repr,
)
def test_plain_values_come_back_as_they_went(student, value):
    assert student.call("echo", value) == value


def test_objects_are_kept_over_there_and_seen_as_records(student):
    box = student.new("Box", 5)
    assert box.call("add", "x") == [5, "x"]
    assert student.call("echo", box) == Record("Box", {"items": [5, "x"]})
    assert student.call("echo", box).items == [5, "x"]
    same = box.keep("add", "y")
    same.call("append", "z")
    assert box.get("items") == [5, "x", "y", "z"], "keep keeps the very object"


def test_what_has_no_plain_form_becomes_its_repr(student):
    odd = student.call("odd")
    assert odd[(1, 2)] == Opaque("{3}")


def test_a_check_has_a_module_of_its_own_with_what_it_asks_for_and_pythons_own_functions():
    with Student([("cell", "len = lambda x: -1\nclass Box: pass\ndef hidden(): pass")]) as student:
        probe = student.apart("def sizes(*lists): return [len(x) for x in lists], Box.__name__", "Box")
        assert probe.call("sizes", [1], []) == ([1, 0], "Box")
        with pytest.raises(StudentError, match="hidden"):
            probe.call("hidden")
        with pytest.raises(StudentError, match="sizes"):
            student.call("sizes")
        with pytest.raises(StudentError) as gone:
            student.apart("", "Lost")
        assert (gone.value.kind, gone.value.message) == ("Missing", "Lost")


def test_an_exception_is_known_by_the_module_of_its_class_too():
    code = (
        "from decodelab.contract import Refused\ndef theirs(): raise Refused('x')\nclass Own(Refused): pass\n"
    )
    code += "def child(): raise Own('x')\ndef other():\n    class Refused(Exception): pass\n    raise Refused('x')"
    with Student([("cell", code)]) as student:
        for name, caught in (("theirs", True), ("child", True), ("other", False)):
            with pytest.raises(StudentError) as raised:
                student.call(name)
            assert raised.value.is_a("decodelab.contract.Refused") is caught
            assert raised.value.is_a("Refused")


def test_many_calls_in_one_round_trip(student):
    box = student.new("Box")
    box.calls("add", [{"x": i} for i in range(1000)])
    assert len(box.get("items")) == 1001


def test_replies_come_in_one_line_each_in_its_place(student, monkeypatch):
    sent: list[int] = []
    write = student._write

    def counted(orders, until):
        sent.append(len(orders))
        return write(orders, until)

    monkeypatch.setattr(student, "_write", counted)
    box = student.later_new("Box", 1)
    added, boom, again = box.later("add", 2), student.later("boom"), box.later("add", 3)
    missing = box.later_keep("no_such_method")
    assert again() == [1, 2, 3]
    assert added() == [1, 2], "what it was then, not what it is now"
    box.made()
    with pytest.raises(StudentError, match="ZeroDivisionError"):
        boom()
    with pytest.raises(StudentError, match="Missing"):
        missing.made()
    assert sent == [5]


def test_long_replies_come_one_by_one_and_none_is_lost(student):
    texts = [student.later("echo", str(i) * 700_000) for i in range(5)]
    assert texts[-1]() == "4" * 700_000
    assert [text()[0] for text in texts] == list("01234")


def test_a_new_case_drops_what_the_last_one_left_unasked(student):
    box = student.new("Box")
    box.later("add", 1)
    student.begin({"name": "next"})
    assert box.get("items") == [0]


def test_an_exception_brings_the_students_own_line(student):
    with pytest.raises(StudentError) as caught:
        student.call("boom")
    assert caught.value.kind == "ZeroDivisionError"
    assert "1 / 0" in caught.value.traceback
    assert "runner.py" not in caught.value.traceback


def test_a_todo_error_names_its_todo_and_exit_is_only_an_exception(student):
    with pytest.raises(StudentError) as caught:
        student.call("lost")
    assert caught.value.todo == "ch01.2"
    with pytest.raises(StudentError) as caught:
        student.call("bye")
    assert caught.value.kind == "SystemExit"


def test_printing_does_not_reach_the_protocol(student):
    student.call("flood")
    assert student.printed.endswith("the end\n")
    assert len(student.printed) <= 4_000


def test_a_loop_that_catches_everything_is_stopped_and_described():
    began = time.monotonic()
    with Student(PARTS, seconds=0.5) as student:
        box = student.new("Box")
        box.watch("items")
        with pytest.raises(Stuck) as caught:
            box.call("for_ever")
    assert time.monotonic() - began < 5
    assert caught.value.seen["items"][0] > 0
    part, number, function, line = caught.value.stack[-1]
    assert (part, function) == ("cell", "for_ever")
    assert line == CODE.split("\n")[number - 1].strip(), "the line that was running"


def test_replies_from_before_a_loop_without_end_are_there():
    with Student(PARTS, seconds=0.5) as student:
        box = student.new("Box")
        first, stuck, behind = box.later("add", 1), box.later("for_ever"), box.later("add", 2)
        assert first() == [0, 1]
        with pytest.raises(Stuck) as caught:
            stuck()
        with pytest.raises(Stuck):
            behind()
        with pytest.raises(Died):
            box.get("items")
    assert caught.value.stack[-1][2] == "for_ever"


def test_a_process_that_leaves_is_a_death_with_its_code():
    with Student(PARTS) as student:
        with pytest.raises(Died) as caught:
            student.call("leave")
        assert caught.value.code == 3


@pytest.mark.parametrize(
    "forged",
    [
        "[]",
        '{"ok": 1}',
        "not json",
        '[{"ok": {"~": "bomb"}}, {"printed": ""}]',
        '[{"error": {"kin": 1}}, {"printed": ""}]',
        "[" * 5000,
        '[{"ok": 1}]',
    ],
)
def test_a_forged_reply_is_a_death_never_a_value(forged):
    """Student code that finds the private pipe gains nothing by writing to it."""
    code = f"""
import os
def forge():
    for fd in range(3, 20):
        try:
            os.write(fd, {forged!r}.encode() + b"\\n")
        except OSError:
            pass
    os._exit(0)
"""
    with Student([("cell", code)]) as student, pytest.raises(Died):
        student.call("forge")


def test_a_syntax_error_is_the_students_and_shows_the_line():
    with pytest.raises(StudentError) as caught, Student([("cell", "x = 1\ndef f(:\n")]):
        pass
    assert caught.value.kind == "SyntaxError"
    assert "def f(:" in caught.value.traceback


def test_nothing_is_left_behind(tmp_path):
    mark = tmp_path / "alive"
    code = f"""
import subprocess, sys
def spawn():
    subprocess.Popen([sys.executable, "-c", "import time\\ntime.sleep(1.5)\\nopen({str(mark)!r}, 'w')"])
"""
    with Student([("cell", code)]) as student:
        student.call("spawn")
    time.sleep(2.5)
    assert not mark.exists()


def test_what_the_judge_sends_is_json_for_every_kind():
    assert encode((1, {"a": [2]})) == {"~": "tuple", "v": [1, {"a": [2]}]}
    assert encode({1: (2,)}) == {"~": "dict", "v": [[1, {"~": "tuple", "v": [2]}]]}
    assert encode({"~": 1}) == {"~": "dict", "v": [["~", 1]]}


UNUSUAL = """
import enum
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass

class Rank(enum.IntEnum):
    FIRST = 1
class Phase(str, enum.Enum):
    DECODE = "decode"
class Lonely(enum.Enum):
    ONE = 1
class Liar(str):
    def __str__(self): return "lie"
class Floaty(float): pass
class Items(list):
    def __iter__(self): return iter([])
Pair = namedtuple("Pair", "a b")

def plain(): return [Rank.FIRST, Phase.DECODE, Liar("truth"), Floaty(0.5), Items([1, 2]), deque([3]), Pair(1, 2)]
def mapping(): return OrderedDict({Phase.DECODE: Rank.FIRST})
def lonely(): return Lonely.ONE

class Node:
    def __init__(self, n): self.n, self.next, self.back = n, None, None
def ring(count):
    nodes = [Node(n) for n in range(count)]
    for i, node in enumerate(nodes):
        node.next, node.back, node.everyone = nodes[(i + 1) % count], nodes[i - 1], nodes
    return nodes
def loop():
    items = [1]
    items.append(items)
    return items
def tree():
    branch = []
    for _ in range(60):
        branch = [branch, branch]
    return branch

class Lazy:
    __slots__ = ("x", "y")
    def __init__(self): self.x = 1
    @property
    def twice(self): return 2 * self.x
    @property
    def broken(self): raise ValueError
class Desk:
    def __init__(self): self.top = [Lazy()]
"""


@pytest.fixture(scope="module")
def unusual():
    with Student([("cell", UNUSUAL)], seconds=20) as student:
        yield student


def test_a_subclass_of_a_plain_type_is_that_type_and_cannot_lie(unusual):
    got = unusual.call("plain")
    assert got == [1, "decode", "truth", 0.5, [1, 2], [3], (1, 2)]
    assert [type(value) for value in got] == [int, str, str, float, list, list, tuple]
    assert unusual.call("mapping") == {"decode": 1}
    assert repr(unusual.call("lonely")) == "<Lonely.ONE: 1>"


def test_objects_that_know_each_other_are_told_in_short(unusual):
    began = time.monotonic()
    nodes = unusual.call("ring", 200)
    assert [node.n for node in nodes] == list(range(200))
    assert repr(nodes[0].next) == "Node(…)"
    assert repr(nodes[0].everyone) == "[…]"
    assert unusual.call("loop")[0] == 1
    unusual.call("tree")
    assert time.monotonic() - began < 3


def test_slots_are_attributes_and_computed_ones_come_when_asked_for(unusual):
    desk = unusual.new("Desk")
    assert desk.get("top") == [Record("Lazy", {"x": 1})]
    assert desk.get("top", "x", "twice", "broken", "none") == [Record("Lazy", {"x": 1, "twice": 2})]


def test_our_own_names_are_not_in_what_a_learner_reads():
    request = Record(
        "RequestState", {"request_id": 1, "tags": [Opaque("{3}"), (Opaque("<Phase.X: 1>"), "a")]}
    )
    assert (
        f"{request}"
        == f"{[request]!r}"[1:-1]
        == "RequestState(request_id=1, tags=[{3}, (<Phase.X: 1>, 'a')])"
    )
    assert Opaque("decode") != "decode"


def test_what_a_notebook_always_has_is_there_and_prints():
    code = "def f(x):\n    display(x, {'a': 1})\n    get_ipython().run_line_magic('time', 'x')\n    return get_ipython().no_such_thing()"
    with Student([("cell", code)]) as student:
        assert student.call("f", [1]) is None
        assert student.printed == "[1]\n{'a': 1}\n"


def test_annotations_are_put_off_where_a_cell_asked_for_it_and_not_before():
    eager = "def f(x: int): ...\ndef kind(): return type(f.__annotations__['x']).__name__"
    later = "from __future__ import annotations"
    with Student([("one", eager)]) as student:
        assert student.call("kind") == "type"
    with Student([("one", later), ("two", eager)]) as student:
        assert student.call("kind") == "str"
