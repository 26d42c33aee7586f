"""What a student gets back: readable, in their language, and nothing from a submission acts in it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdicts import ATTACK, CHAPTER, Page, everywhere, graded, results

from decodelab.check.rules import Finding, TodoResult
from decodelab.grading.pages import POLICY, feedback_page, feedback_path, write_feedback
from decodelab.lang import both

MAY_STAND = set(
    re.findall(
        r"\w+",
        "html head meta title style body header h1 h2 p span bdi br b i div code pre table thead tbody tr th td a "
        "section footer ul li",
    )
)
MAY_HAVE = {"lang", "charset", "http-equiv", "content", "name", "class", "style", "href", "id"}


def test_whatever_a_submission_holds_is_only_text():
    finding = Finding(
        "no-exception",
        both(en=ATTACK, zh=ATTACK),
        want=[{"request_id": ATTACK, "action": "finish"}],
        got=[ATTACK],
        at=0,
        state=[{ATTACK: ATTACK}],
        traceback=ATTACK,
        printed=ATTACK,
        case=CHAPTER.checks.VISIBLE["ch01.3"][0],
    )
    note = both(en=ATTACK, zh=ATTACK)
    for lang in ("en", "zh"):
        todos = [TodoResult(t.id, "failed", t.points, finding, 1, [note]) for t in CHAPTER.todos]
        todos[1].notes = []
        page = feedback_page(graded(todos, lang, student=ATTACK, notes=[note]), CHAPTER, ATTACK)
        seen = Page(page)
        assert seen.tags <= MAY_STAND
        assert seen.attributes <= MAY_HAVE
        assert all(link.startswith("#") for link in seen.links)
        assert seen.text.count("alert(1)") >= 20, "it is shown, not dropped"


def test_the_policy_allows_no_script_and_stands_before_everything():
    page = feedback_page(graded(results()), CHAPTER)
    assert "default-src 'none'" in POLICY
    assert "script" not in POLICY
    assert page.index("Content-Security-Policy") < page.index("<title>") < page.index("<style>")
    assert "http:" not in page
    assert "https:" not in page


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_points_states_and_titles_are_there_in_the_students_language(lang):
    page = Page(
        feedback_page(graded(results(ch01_2="timed_out", ch01_5="not_started"), lang), CHAPTER, "李娜")
    )
    for todo in CHAPTER.todos:
        assert todo.title[lang] in page.text
    words = {
        "en": ["Core7 / 10", "Extension0 / 3", "does not end"],
        "zh": ["核心7 / 10", "扩展0 / 3", "没有结束"],
    }
    for word in [*words[lang], "李娜", "s1", "bubblewrap", "abc123def456"]:
        assert word in page.text
    assert page.links == ["#ch01-2", "#ch01-5"]
    assert page.ids == ["ch01-2", "ch01-5"]
    assert bool(re.search("[\u4e00-\u9fff]", page.text.replace("李娜", ""))) == (lang == "zh")


def test_the_seed_is_not_told():
    assert "271828182845" not in feedback_page(graded(results(ch01_1="failed")), CHAPTER)


def test_of_a_hidden_workload_what_was_wanted_is_not_told():
    hidden = {
        "name": "drawn-3",
        "script": [["enqueue", {"request_id": 77, "prompt_len": 1}], ["steps", None]],
    }
    want = [{"request_id": 770077, "action": "finish"}]
    finding = Finding(
        "skips-finished", both(en="text", zh="文字"), want, [], 0, case=hidden, printed="770077"
    )
    todos = [replace(r, finding=finding) if r.todo == "ch01.3" else r for r in results(ch01_3="failed")]
    assert "770077" not in feedback_page(graded(todos), CHAPTER)


@pytest.mark.parametrize(
    ("todos", "says"),
    [
        (everywhere("unreadable"), "hand it in again"),
        (everywhere("not_found"), "holds the cells with # TODO"),
        (everywhere("not_started"), "start with TODO ch01.1"),
        (results(), "Well done"),
        (results(ch01_5="failed"), "The core is complete"),
        (results(ch01_1="blocked", ch01_3="died"), "Go to TODO ch01.3"),
        (results(ch01_2="out_of_memory", ch01_5="failed"), "Go to TODO ch01.2"),
    ],
)
def test_what_to_do_next(todos, says):
    english = Page(feedback_page(graded(todos), CHAPTER))
    assert says in english.text
    chinese = Page(feedback_page(graded(todos, "zh"), CHAPTER))
    assert says not in chinese.text
    assert len(chinese.links) == len(english.links) == len(set(english.ids))


def test_a_note_on_the_file_stands_once():
    note = both(en="2 cells answer ch01-answer; the last one counts.", zh="以最后一个为准。")
    todos = [replace(r, notes=[note]) for r in results(ch01_2="failed")]
    assert feedback_page(graded(todos), CHAPTER).count("the last one counts") == 1


def test_written_where_the_report_looks(tmp_path):
    one = graded(results(), "zh", student="2023 张伟/../..", notes=[both(en="\ud800", zh="\ud800")])
    path = write_feedback(one, tmp_path, "张伟")
    assert path == tmp_path / feedback_path(one.student, "ch01")
    assert path.resolve().is_relative_to(tmp_path.resolve() / "feedback")
    assert "张伟" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("plain", ["s123456", "li.na@example.edu", "张伟", "Ann_2", "2023-001"])
def test_an_ordinary_id_is_its_own_folder(plain):
    assert feedback_path(plain, "ch01") == Path("feedback", plain, "ch01.html")


@settings(deadline=None)
@given(
    st.lists(
        st.text(max_size=120)
        | st.sampled_from(["..", ".", "", "con", "NUL.txt", "a/b", "a\\b", "a.", "e\u0301", "é"]),
        unique=True,
    )
)
def test_different_ids_have_different_safe_folders(ids):
    folders = [feedback_path(one, "ch01").parts for one in ids]
    assert len(set(folders)) == len(ids)
    for _, folder, _ in folders:
        assert folder not in (".", "..")
        assert not re.search(r'[\x00-\x1f/\\:*?"<>|]|[. ]$', folder)
        assert len(folder.encode()) <= 255
        assert unicodedata.normalize("NFC", folder) == folder
