"""The instructor's page: it counts right, names what to look at, and the same verdicts give the same bytes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from verdicts import ATTACK, Page, everywhere, graded, results

from decodelab.check.rules import Finding
from decodelab.grading.batch import Ungraded
from decodelab.grading.pages import feedback_path
from decodelab.grading.report import report_page
from decodelab.grading.similarity import Pair
from decodelab.lang import both, speaking

PAIR = Pair("s01", "s02", 0.875, 64, ((3, "x = 1"), (9, ATTACK)), ((4, "y = 1"),), "ch01")


def failed(todo_id: str, rule: str, text: str, hint: int = 1):
    """Every TODO passed but this one."""
    finding = Finding(rule, both(en=text, zh=f"中文 {text}"), hint=hint)
    return [
        replace(r, finding=finding) if r.todo == todo_id else r
        for r in results(**{todo_id.replace(".", "_"): "failed"})
    ]


def a_class():
    """Ten students: five perfect, three with one broken rule, one file that cannot be read, one not begun."""
    todos = [results()] * 5 + [failed("ch01.2", "cache-first", f"field {i}", 2) for i in (10, 2)]
    todos += [
        failed("ch01.2", "priority-first", "field 3", 1),
        everywhere("unreadable"),
        everywhere("not_started"),
    ]
    return [graded(t, student=f"s{i:02}") for i, t in enumerate(todos)]


def rows(page: str) -> list[list[str]]:
    """The text of every table row's cells."""
    lines = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    return [
        [re.sub("<[^>]*>", "", c) for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.S)]
        for line in lines
    ]


def test_the_counts_are_right():
    page = report_page(a_class(), [], [], "en")
    table = rows(page)
    head = next(row for row in table if row[0] == "TODO")
    assert head == ["TODO", "", "passed", "not yet", "not started", "the file cannot be read"]
    assert next(row for row in table if row[0].startswith("ch01.2 ·"))[2:] == ["5", "3", "1", "1"]
    assert next(row for row in table if row[0].startswith("ch01.1 ·"))[2:] == ["8", "·", "1", "1"]
    bars = re.search(r'<div class="bars">(.*?)</p>|<div class="bars">(.*?)<p', page, re.S)
    assert bars
    assert re.findall(r"<span>(\d*)</span>", bars[0]) == ["2", "", "", "", "", "", "", "3", "", "", "5"]
    assert "Mean 7.1 and median 8.5 of 10 points" in page


def test_the_rule_that_fails_most_comes_first_with_the_hint_that_helps():
    table = [row for row in rows(report_page(a_class(), [], [], "zh")) if row[0] == "ch01.2"]
    assert [row[1:4] for row in table] == [
        ["cache-first", "2", "中文 field 2"],
        ["priority-first", "1", "中文 field 3"],
    ]
    assert table[0][4].startswith("2. 小心方向")


def test_the_same_verdicts_give_the_same_bytes():
    ungraded = [Ungraded(f"u{i}", "ch01", both(en="a", zh="b")) for i in range(3)]
    pairs = [PAIR, replace(PAIR, first="s00")]
    draw, seen = random.Random(1), set()
    for _ in range(5):
        everyone, waiting, alike = a_class(), list(ungraded), list(pairs)
        for some in (everyone, waiting, alike):
            draw.shuffle(some)
        seen.add(report_page(everyone, waiting, alike, "en"))
    assert len(seen) == 1


def test_it_speaks_the_language_asked_for_else_the_one_in_force():
    with speaking("zh"):
        assert report_page([], [], []) == report_page([], [], [], "zh") != report_page([], [], [], "en")


def test_ungraded_is_no_zero_and_says_why():
    page = report_page(a_class(), [Ungraded("zoe", "ch01", both(en="disk full", zh="磁盘满了"))], [], "en")
    assert ["zoe", "ch01", "disk full"] in rows(page)
    assert "10 graded, 1 ungraded" in page
    assert "not a zero" in page


def test_every_student_has_a_row_that_leads_to_their_page():
    students = [*a_class(), graded(results(ch01_1="died"), student="a b/#?<%>张")]
    links = Page(report_page(students, [], [], "en")).links
    assert {unquote(link) for link in links} == {
        feedback_path(g.student, "ch01").as_posix() for g in students
    }
    assert not any(re.search(r"[#?<>\s]", link) for link in links)


def test_what_cannot_be_compared_or_trusted_is_pointed_out():
    calm = report_page(a_class(), [], [], "en")
    mixed = [replace(g, suite_version="other") if g.student == "s03" else g for g in a_class()]
    unsafe = [replace(g, sandbox="none") if g.student == "s03" else g for g in a_class()]
    assert "⚠" not in calm
    assert "abc123def456" in calm
    assert "different suites" in report_page(mixed, [], [], "en")
    assert "without a sandbox" in report_page(unsafe, [], [], "en")


def test_similar_pairs_are_shown_side_by_side_as_something_to_look_at():
    page = report_page(a_class(), [], [PAIR], "en")
    text = Page(page).text
    assert "not a verdict" in text
    assert "88% of what the one with less wrote, 64 tokens" in text
    assert "  3  x = 1\n  ⋮\n  9  " in text
    assert "No two submissions" in report_page(a_class(), [], [], "en")


def test_notes_and_what_was_not_found_are_listed_with_names():
    note = both(en="odd", zh="怪")
    students = [replace(g, notes=[note]) for g in a_class()[:9]] + [
        graded(results(ch01_1="not_found"), student="lost")
    ]
    table = rows(report_page(students, [], [], "en"))
    assert ["ch01", "Not found: ch01.1", "1", "lost"] in table
    assert next(row for row in table if row[1] == "odd")[2:] == [
        "9",
        "s00, s01, s02, s03, s04, s05, s06, s07 … (+1)",
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_in_it_acts(lang):
    note = both(en=ATTACK, zh=ATTACK)
    students = [replace(g, student=g.student + ATTACK, notes=[note]) for g in a_class()]
    students += [graded(failed("ch01.1", ATTACK, ATTACK), student="x", suite_version=ATTACK, sandbox=ATTACK)]
    page = Page(report_page(students, [Ungraded(ATTACK, ATTACK, note)], [replace(PAIR, first=ATTACK)], lang))
    assert page.tags & {"script", "img", "link", "iframe", "svg", "form"} == set()
    assert not any(name.startswith("on") or name == "src" for name in page.attributes)
    assert page.text.count("alert(1)") > 10
    assert all(link.startswith("feedback/") for link in page.links)
