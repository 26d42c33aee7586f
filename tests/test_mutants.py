"""Mutants: every kind is made, each is valid Python that differs, and names stay when other lines change."""

import ast
from dataclasses import replace

import pytest

from decodelab.course import chapter_ids, load
from decodelab.grading.mutants import mutants

TODO = load("ch01").todos[0]


def made(code):
    return mutants(replace(TODO, id="ch09.1", code=code))


@pytest.mark.parametrize(
    ("code", "name", "becomes"),
    [
        ("return a < b", "ch09.1:1 Lt became LtE", "return a <= b"),
        ("return a + b", "ch09.1:1 Add became Sub", "return a - b"),
        ("n += 2", "ch09.1:1 Add became Sub", "n -= 2"),
        ("return a and b", "ch09.1:1 And became Or", "return a or b"),
        ("return -a", "ch09.1:1 minus removed", "return a"),
        ("return 5", "ch09.1:1 5 became 6", "return 6"),
        ("return 5", "ch09.1:1 5 became 4", "return 4"),
        ("return 5", "ch09.1:1 returned None", "return None"),
        ("return not a", "ch09.1:1 not removed", "return a"),
        ("return [x for x in a if x]", "ch09.1:1 condition negated", "return [x for x in a if not x]"),
        ("a()\nb()", "ch09.1:2 dropped statement", "a()\npass"),
        ("f(a, b)", "ch09.1:1 arguments 1 and 2 swapped", "f(b, a)"),
        ("f(a=x, b=y)", "ch09.1:1 a and b swapped", "f(a=y, b=x)"),
        ("return (a, b)", "ch09.1:1 fields 1 and 2 swapped", "return (b, a)"),
        ("return r.x + r.y", "ch09.1:1 x became y", "return r.y + r.y"),
    ],
)
def test_every_kind_of_slip(code, name, becomes):
    assert made(code)[name] == becomes


def test_the_same_slip_twice_on_a_line_has_two_names():
    found = made("return a * b * c")
    assert {found["ch09.1:1 Mult became Add"], found["ch09.1:1 Mult became Add (2)"]} == {
        "return a * b + c",
        "return (a + b) * c",
    }


def test_neither_true_nor_a_text_is_a_number():
    assert (
        set(made("return True"))
        == set(made("return 'a'"))
        == {
            "ch09.1:1 dropped statement",
            "ch09.1:1 returned None",
        }
    )


def test_an_edit_on_another_line_leaves_the_names():
    before, after = made("a = 1\nreturn a < b"), made("a = f(x, y)\nreturn a < b")
    assert {n for n in before if ":2 " in n} == {n for n in after if ":2 " in n}


@pytest.mark.parametrize("todo", [t for c in chapter_ids() for t in load(c).todos], ids=lambda t: t.id)
def test_the_references_own_mutants(todo):
    found = mutants(todo)
    assert found == mutants(todo)
    assert len(found) >= 3  # a TODO of one line has that many
    original = ast.dump(ast.parse(todo.code))
    dumps = [ast.dump(ast.parse(code)) for code in found.values()]
    assert original not in dumps
    assert len(set(dumps)) == len(dumps)
