"""The judge's end and the runner's end of a conversation, with code that misbehaves."""

import time

import pytest

from decodelab.check.rules import Opaque, Record, StudentError
from decodelab.grading.student import Died, Stuck, Student, encode

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


def test_many_calls_in_one_round_trip(student):
    box = student.new("Box")
    box.calls("add", [{"x": i} for i in range(1000)])
    assert len(box.get("items")) == 1001


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
