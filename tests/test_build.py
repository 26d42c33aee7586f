"""The builder: two editions from one source, and everything it refuses."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import nbformat
import pytest
from hypothesis import given
from nbgrader.nbgraderformat import MetadataValidator

import decodelab
from decodelab.course import from_json
from decodelab.errors import DecodeLabError
from decodelab.notebook.build import BuildError, build, instructor_notebook
from decodelab.notebook.compile import relative_links
from decodelab.notebook.emit import signed
from decodelab.notebook.setup import Publishing, badges, read_publishing, setup_cell
from decodelab.notebook.source import SourceError, edition, read_cells, stub, unwrapped

ROOT = Path(__file__).parents[1]
MINI = Path(__file__).parent / "data" / "ch07_mini.py"
PUBLISHED = Publishing("https://github.com/someone/lab", "https://mirror.example/lab.zip", "v1.2")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of one small chapter."""
    for folder in ("solutions", "src/decodelab/check"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(MINI, tmp_path / "solutions")
    (tmp_path / "src/decodelab/check/ch07.py").touch()
    return tmp_path


def chapter_file(course: Path) -> Path:
    return course / "solutions" / "ch07_mini.py"


def notebook(course: Path, lang: str) -> nbformat.NotebookNode:
    return nbformat.read(course / "notebooks" / lang / "ch07_mini.ipynb", as_version=4)


def problems(course: Path) -> list[str]:
    with pytest.raises(BuildError) as caught:
        build(course)
    assert not (course / "notebooks").exists(), "something was written in spite of a problem"
    assert all(p in caught.value.text["zh"] for p in caught.value.problems)
    return caught.value.problems


# --- what comes out -----------------------------------------------------------------------------


def test_a_rebuild_is_no_diff(course: Path) -> None:
    first = build(course)
    assert len(first.missing) == 3
    written = {p: p.read_bytes() for p in course.rglob("*") if p.is_file()}
    assert build(course).clean
    assert {p: p.read_bytes() for p in course.rglob("*") if p.is_file()} == written


def test_check_names_what_is_stale_missing_or_extra_and_writes_nothing(course: Path) -> None:
    build(course)
    en, zh = (course / "notebooks" / lang / "ch07_mini.ipynb" for lang in ("en", "zh"))
    zh.unlink()
    shutil.copy(course / "notebooks/en/ch07_mini.ipynb", course / "notebooks/en/ch06_gone.ipynb")
    en.write_text(en.read_text("utf-8").replace('"points": 1.0', '"points": 2.0'), "utf-8")
    before = en.read_bytes()
    report = build(course, check=True)
    assert report.stale == ["notebooks/en/ch07_mini.ipynb"]
    assert report.missing == ["notebooks/zh/ch07_mini.ipynb"]
    assert report.extra == ["notebooks/en/ch06_gone.ipynb"]
    assert not report.clean
    assert en.read_bytes() == before
    assert not zh.exists()
    build(course)
    assert build(course, check=True).clean
    assert not (course / "notebooks/en/ch06_gone.ipynb").exists()


def test_a_build_deletes_no_notebook_of_a_persons_own(course: Path) -> None:
    build(course)
    made = json.loads((course / "notebooks/en/ch07_mini.ipynb").read_text("utf-8"))
    made["cells"][3]["source"] = "my answer"
    own = {
        "mine/thesis.ipynb": "{}",
        "en/ch06_notes.ipynb": "{}",
        "en/my_own_copy.ipynb": json.dumps(made),
        "zh/ch07_mini_copy.ipynb": json.dumps(made),
    }
    for name, text in own.items():
        (course / "notebooks" / name).parent.mkdir(exist_ok=True)
        (course / "notebooks" / name).write_text(text, "utf-8")
    assert build(course).clean
    assert {name: (course / "notebooks" / name).read_text("utf-8") for name in own} == own


@pytest.mark.parametrize("text", ["mine", '{"metadata": {"decodelab": {"digest": "0"}}, "cells": []}', ""])
def test_a_build_writes_over_no_notebook_that_somebody_wrote_into(course: Path, text: str) -> None:
    build(course)
    en, zh = (course / "notebooks" / lang / "ch07_mini.ipynb" for lang in ("en", "zh"))
    zh.unlink()
    edited = text or en.read_text("utf-8").replace("What you build", "My notes")
    en.write_text(edited, "utf-8")
    with pytest.raises(DecodeLabError, match=r"notebooks/en/ch07_mini\.ipynb: move"):
        build(course)
    assert en.read_text("utf-8") == edited
    assert not zh.exists(), "something was written in spite of it"


def test_outputs_are_nothing_that_somebody_wrote(course: Path) -> None:
    build(course)
    path = course / "notebooks" / "en" / "ch07_mini.ipynb"
    run = json.loads(path.read_text("utf-8"))
    run["cells"][2] |= {"execution_count": 1, "outputs": [{"output_type": "stream", "text": ["Ready"]}]}
    path.write_text(json.dumps(run), "utf-8")
    assert build(course).stale == ["notebooks/en/ch07_mini.ipynb"]
    assert build(course, check=True).clean


def test_without_a_source_there_is_nothing_to_build(course: Path) -> None:
    build(course)
    chapter_file(course).unlink()
    with pytest.raises(DecodeLabError, match="nothing to build"):
        build(course)
    assert len(list(course.glob("notebooks/*/*.ipynb"))) == 2


def test_a_build_leaves_the_learners_folder_alone(course: Path) -> None:
    own = course / "work" / "en" / "ch07_mini.ipynb"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    build(course)
    assert own.read_text() == "mine"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_jupyter_and_nbgrader_accept_the_notebook(course: Path, lang: str) -> None:
    build(course)
    made = notebook(course, lang)
    nbformat.validate(made)
    MetadataValidator().validate_nb(made)
    assert (made.nbformat, made.nbformat_minor) == (4, 5)
    assert set(made.metadata) == {"decodelab", "kernelspec", "language_info"}
    assert made.metadata.decodelab.chapter == "ch07"
    assert made.metadata.decodelab.lang == lang
    assert [c.id for c in made.cells] == [
        "ch07-c01",
        "ch07-c02",
        "ch07-c03",
        "ch07-answer",
        "ch07-1",
        "ch07-c06",
    ]
    answer, check = (c.metadata.nbgrader for c in made.cells[3:5])
    assert (answer.solution, answer.grade, answer.locked) == (True, False, False)
    assert (check.solution, check.grade, check.locked, check.points) == (False, True, True, 1.0)
    assert all(c.outputs == [] and c.execution_count is None for c in made.cells if c.cell_type == "code")


def test_the_editions_hold_the_stub_in_their_language(course: Path) -> None:
    build(course)
    en, zh = (notebook(course, lang).cells[3].source for lang in ("en", "zh"))
    assert en == (
        'def double(x: int) -> int:\n    """Twice ``x``."""\n    # TODO ch07.1 (about 1 line)\n'
        '    # One line.\n    raise TodoError("ch07.1")\n    # END ch07.1'
    )
    assert "    # TODO ch07.1（约 1 行）\n    # 一行。\n    raise TodoError" in zh
    assert "两倍。" in zh


def test_the_instructors_notebook_differs_in_the_references_alone(course: Path) -> None:
    build(course)
    for lang in ("en", "zh"):
        made = instructor_notebook(chapter_file(course), lang)
        nbformat.validate(made)
        released = json.loads((course / "notebooks" / lang / "ch07_mini.ipynb").read_text("utf-8"))
        source = "".join(made["cells"][3]["source"])
        assert "return 2 * x" in source
        assert stub(source) == "".join(released["cells"][3]["source"])
        made["cells"][3] = released["cells"][3]
        assert signed(made) == released


def test_the_course_data_is_what_the_package_reads(course: Path) -> None:
    build(course)
    data = (course / "src/decodelab/course/ch07.json").read_text("utf-8")
    chapter = from_json(json.loads(data))
    todo = chapter.todo("ch07.1")
    assert (todo.symbol, todo.answer, todo.check_id) == ("double", "ch07-answer", "ch07-1")
    assert (todo.level, todo.points, todo.lines, todo.code) == ("core", 1.0, 1, "return 2 * x")
    assert todo.title == {"en": "Double a number", "zh": "翻倍"}
    assert todo.hints["en"][0] == "What is `double(3)`? And `double(0)`?"
    assert todo.hints["en"][2] == "`return 2 * x`"
    assert len(todo.hints["zh"]) == 3
    assert chapter.exports == ("@ch07-answer", "LIMIT = 3")
    names: dict = {}
    exec(chapter.answer("ch07-answer").reference, names)
    assert names["double"](4) == 8


def test_the_source_itself_is_valid_python(course: Path) -> None:
    ast.parse(chapter_file(course).read_text("utf-8"))


def test_the_courses_own_notebooks_are_up_to_date() -> None:
    report = build(ROOT, check=True)
    assert report.clean, f"run `decodelab build`: {report}"


# --- what it refuses ----------------------------------------------------------------------------

EN, ZH = '# %% [markdown] lang="en"', '# %% [markdown] lang="zh"'
ANSWER = '# %% answer="ch07-answer" tags=["export"]'
CHECK = '# %% check="ch07.1" points=1 level="core"\ncheck("ch07.1")\n'
HINT = "    # en: One line.\n    # zh: 一行。\n"

REFUSED = {
    "a pair without its twin": (f"{ZH}\n# # 第", "# %%\n# # 第", "cell 1 (# Chapter 7", "unpaired"),
    "a markdown cell without a language": (EN, "# %% [markdown]", "cell 1 (# Chapter 7", "unpaired"),
    "a twin of another kind": (f'{ZH} explain="ch07.1"', ZH, "cell 8 (Twice a number", "unpaired"),
    "headings of other levels": ("# ## TODO ch07.1 · 翻倍", "# ### TODO ch07.1 · 翻倍", "cell 4", "unmatched headings"),
    "headings of other TODOs": ("# ## TODO ch07.1 · 翻倍", "# ## TODO ch07.2 · 翻倍", "cell 4", "different TODOs"),
    "no heading of a TODO": ("TODO ch07.1 · ", "Task ", "TODO ch07.1", "no heading"),
    "a grade id twice": (CHECK, CHECK + "\n" + CHECK, "cell 12 (check", "duplicate grade id"),
    "a check cell without a grade id": ('# %% check="ch07.1" points=1 level="core"', "# %%", "cell 11", "missing grade id"),
    "an answer cell without a proper one": ('answer="ch07-answer"', 'answer="answer"', "cell 10", "missing grade id"),
    "an answer grade id twice": (
        CHECK,
        f'{CHECK}\n{ANSWER}\ndef triple():\n    # TODO ch07.2\n{HINT}    return 3\n    # END ch07.2\n',
        "cell 12 (def triple",
        "duplicate grade id",
    ),
    "a TODO twice": (
        CHECK,
        f'{CHECK}\n# %% answer="ch07-answer-2"\ndef f():\n    # TODO ch07.1\n{HINT}    return 3\n    # END ch07.1\n',
        "cell 12 (def f",
        "duplicate TODO",
    ),
    "a TODO without check": (CHECK, "", "TODO ch07.1", "TODO without check"),
    "a check without TODO": (CHECK, CHECK + "\n" + CHECK.replace("07.1", "07.2"), "cell 12", "check without TODO"),
    "points that are none": ("points=1", "points=0", "cell 11", "points above 0"),
    "points that are no number": ("points=1", "points=NaN", "cell 11", "points above 0"),
    "points without end": ("points=1", "points=1e999", "cell 11", "points above 0"),
    "a level that is none": ('level="core"', 'level="easy"', "cell 11", "level="),
    "more in a check cell": (CHECK, CHECK + "print(1)\n", "cell 11", "nothing else"),
    "a region outside an answer cell": (ANSWER, "# %%", "cell 10 (def double", "outside an answer cell"),
    "an answer cell without region": (CHECK, f'{CHECK}\n# %% answer="ch07-answer-2"\nx = 1\n', "cell 12 (x = 1", "without a TODO"),
    "an unclosed region": ("    # END ch07.1\n", "", "cell 10 (def double", "not closed"),
    "a region closed by another": ("# END ch07.1", "# END ch07.2", "cell 10", "closes no region"),
    "a nested region": ("    # END", "    # TODO ch07.2\n    # END", "cell 10", "opens before"),
    "a region without a name": ("# TODO ch07.1\n    #", "# TODO: double it\n    #", "cell 10", "a region opens with"),
    "a region in no function": (
        CHECK,
        f'{CHECK}\n# %% answer="ch07-answer-2"\nclass A:\n    # TODO ch07.2\n{HINT}    x = 3\n    # END ch07.2\n',
        "cell 12 (class A",
        "in no function",
    ),
    "an unmarked comment after the hint": (HINT, HINT + "    # so\n", "cell 10", "no other comment"),
    "no hint comment": (HINT, "", "cell 10", "begin the region with its hint"),
    "a region without reference": ("    return 2 * x\n", "", "cell 10", "no reference"),
    "a reference in two languages": ("return 2 * x", "return tr(en=2, zh=2) * x", "cell 10", "same in both languages"),
    "a hint in one language": ("    # zh: 一行。\n", "", "cell 10", "unpaired `en:`"),
    "hints out of order": ("# 2. One operator", "# 7. One operator", "cell 6", "found: 1. 7. 3."),
    "two hints": ("# 2. One operator is enough.\n", "", "cell 6", "three hints"),
    "no hints": (' hint="ch07.1"', "", "TODO ch07.1", "missing hints"),
    "no explanation": (' explain="ch07.1"', "", "TODO ch07.1", "missing explanation"),
    "a dead link": ("# What you build", "# [See](../../docs/no.md) what you build", "cell 1", "../../docs/no.md leads nowhere"),
    "tr left over": (CHECK, CHECK + "\n# %%\nsay = tr\n", "cell 12 (say = tr", "`tr` is left over"),
    "tr with other arguments": (CHECK, CHECK + '\n# %%\nprint(tr(en="a", de="b"))\n', "cell 12", "exactly en= and zh="),
    "tr of the package": (CHECK, CHECK + '\n# %%\nprint(decodelab.tr(en="a", zh="b"))\n', "cell 12", "`tr` is left over"),
    "tr by another name": (CHECK, CHECK + "\n# %%\nfrom decodelab import tr as t\n", "cell 12", "`tr` is left over"),
    "tr in a magic": (CHECK, CHECK + '\n# %%\n!echo {tr(en="a", zh="b")}\n', "cell 12", "`tr` is left over"),
    "a marker without a space": (CHECK, CHECK + "\n# %%\n#en: a\n#zh: b\n", "cell 12", "is no marker"),
    "a marker with a Chinese colon": (CHECK, CHECK + "\n# %%\n# en: a\n# zh：b\n", "cell 12", "is no marker"),
    "no Python": (CHECK, CHECK + "\n# %%\nif if\n", "cell 12 (if if", "not valid Python"),
    "an unknown attribute": ("points=1", "point=1", "cell 11", "'point'"),
    "an unknown tag": ('tags=["export"]', 'tags=["exports"]', "cell 10", "'exports'"),
    "a tag that is no list": ('tags=["export"]', 'tags="export"', "ch07_mini.py", "header is wrong"),
    "a tag twice": ('tags=["export"]', 'tags=["export", "export"]', "ch07_mini.py", "header is wrong"),
    "a header without its end": ('tags=["export"]', 'tags=["export"', "cell 10", "cannot be read"),
    "a raw cell": (CHECK, CHECK + "\n# %% [raw]\n# hello\n", "cell 12", "raw cell"),
    "points of a plain cell": (CHECK, CHECK + "\n# %% points=3\nx = 1\n", "cell 12", "'points'"),
    "a language of a code cell": (CHECK, CHECK + '\n# %% lang="en"\nx = 1\n', "cell 12", "'lang'"),
    "a hint of a code cell": (CHECK, CHECK + '\n# %% hint="ch07.1"\nx = 1\n', "cell 12", "'hint'"),
    "no setup cell": ('# %% tags=["setup"]', "# %%", "ch07_mini.py", "no setup cell"),
    "another chapter's setup": ('start("ch07"', 'start("ch06"', "cell 3", 'start("ch07"'),
    "a setup cell that imports more": ("import TodoError,", "import TodoError, chapter,", "cell 3", "does not import chapter"),
    "no title": ("# # ", "# ", "ch07_mini.py", "no title"),
    "half-width punctuation in Chinese": ("一个数的两倍，就是", "一个数的两倍,就是", "cell 9", "half-width"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_by_file_and_cell(course: Path, old: str, new: str, place: str, reason: str) -> None:
    source = chapter_file(course)
    text = source.read_text("utf-8")
    assert old in text
    source.write_text(text.replace(old, new), "utf-8")
    assert any("solutions/ch07_mini.py" in p and place in p and reason in p for p in problems(course))


def test_all_problems_are_told_at_once(course: Path) -> None:
    source = chapter_file(course)
    text = (
        source.read_text("utf-8")
        .replace("points=1", "points=0")
        .replace("# 2. One operator is enough.\n", "")
    )
    source.write_text(text, "utf-8")
    told = "\n".join(problems(course))
    assert "points above 0" in told
    assert "three hints" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    # END ch07.1\n", ""),
        ("# 2. One operator is enough.\n", ""),
        ("points=1", "points=0"),
        ("# # 第", "# ## 第"),
        (EN, "# %% [markdown]"),
        ('answer="ch07-answer"', 'answer="answer"'),
    ],
)
def test_one_mistake_is_one_problem(course: Path, old: str, new: str) -> None:
    source = chapter_file(course)
    source.write_text(source.read_text("utf-8").replace(old, new, 1), "utf-8")
    assert len(problems(course)) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "gb18030"])
def test_a_source_in_another_encoding_is_named(course: Path, encoding: str) -> None:
    source = chapter_file(course)
    source.write_bytes(source.read_text("utf-8").encode(encoding))
    assert problems(course) == ["solutions/ch07_mini.py: this is not UTF-8: save it as UTF-8"]


def test_a_byte_order_mark_is_no_part_of_a_source(course: Path) -> None:
    build(course)
    source = chapter_file(course)
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    assert build(course).clean


def test_two_sources_of_one_number_are_refused(course: Path) -> None:
    (course / "solutions/ch07_twin.py").write_text(chapter_file(course).read_text("utf-8"), "utf-8")
    assert any("ch07_twin.py: another source is ch07" in p for p in problems(course))


def test_a_chapter_without_rules_is_refused(course: Path) -> None:
    (course / "src/decodelab/check/ch07.py").unlink()
    assert any("src/decodelab/check/ch07.py" in p for p in problems(course))
    (course / "src/decodelab/check/ch07").mkdir()
    (course / "src/decodelab/check/ch07/__init__.py").touch()
    build(course)


def test_links_that_lead_somewhere_are_fine(course: Path) -> None:
    (course / "docs").mkdir()
    (course / "docs/here.md").touch()
    links = "[a](../../docs/here.md#part) [b](ch07_mini.ipynb) [c](https://x.example) [d](#here) `[e](no.md)`"
    source = chapter_file(course)
    source.write_text(source.read_text("utf-8").replace("# What you build", f"# {links}"), "utf-8")
    assert build(course).missing


def test_relative_links_are_seen_in_markdown_and_html() -> None:
    text = '[a](x.md) ![b](pic/y.png "title") <img src="z.png"> [c](<w.md>)\n```\n[d](no.md)\n```'
    assert sorted(relative_links(text)) == ["pic/y.png", "w.md", "x.md", "z.png"]


# --- two languages in code ----------------------------------------------------------------------


def test_comments_and_docstrings_keep_their_language() -> None:
    source = (
        'def f():\n    """en: One.\n    en: Two.\n    zh: 一。\n\n    Both.\n    """\n'
        "    # en: first\n    # en: second\n    # zh: 第一\n    # both\n    s = '''\n# en: text\n'''\n    return s\n"
    )
    assert edition(source, "zh") == (
        "def f():\n    \"\"\"一。\n\n    Both.\n    \"\"\"\n    # 第一\n    # both\n    s = '''\n# en: text\n'''\n    return s\n"
    )
    assert "One.\n    Two.\n\n" in edition(source, "en")


@pytest.mark.parametrize(
    ("source", "zh"),
    [
        ('print(tr(en="a", zh="甲"))', 'print("甲")'),
        ('print(\n    tr(\n        en="a",\n        zh="甲",\n    )\n)', 'print("甲")'),
        ('x = "é", tr(en="a", zh="甲"), "中", tr(en=1, zh=2)', 'x = "é", "甲", "中", 2'),
        ('x = tr(en="a", zh=("甲"\n  "乙"))', 'x = ("甲"\n  "乙")'),
        ("x = tr(en=1, zh=2 + y) * 3", "x = (2 + y) * 3"),
        ('%matplotlib inline\ntr(en="a", zh="甲")', '%matplotlib inline\n"甲"'),
        ('tr(en="a", zh=f(tr(en="b", zh="乙")))', 'f("乙")'),
    ],
)
def test_tr_gives_way_to_its_value(source: str, zh: str) -> None:
    assert edition(source, "zh") == zh


@pytest.mark.parametrize("source", ["x = 1  # en: one\n", "# zh: 一\n", "# en: a\nx = 1\n# zh: 一\n"])
def test_a_marker_out_of_place_is_refused(source: str) -> None:
    with pytest.raises(SourceError):
        edition(source, "en")


texts = st.text(st.sampled_from("ab中é'\"\\\n{}#％"), max_size=6)
values = st.recursive(
    st.integers(-3, 3).map(str) | texts.map(repr) | st.sampled_from(['"a" "b"', '("甲"\n  "乙")', "(1, 2)", "[k for k in 'ab']"]),
    lambda inner: (
        st.tuples(inner, inner).map("tr(en={0[0]}, zh={0[1]})".format)
        | st.tuples(inner, inner).map("tr(\n    zh={0[0]},\n    en={0[1]},\n)".format)
        | st.tuples(inner, inner).map("[{0[0]}, {0[1]}]".format)
        | st.tuples(inner, inner, inner).map("({0[0]} if {0[1]} else {0[2]})".format)
        | inner.map("({} or 'é')".format)
        | inner.map("str({})".format)
        | inner.map("(lambda: {})()".format)
    ),
    max_leaves=8,
)  # fmt: skip


@given(values, st.sampled_from(["en", "zh"]))
def test_an_edition_is_worth_what_tr_gives(expression: str, lang: str) -> None:
    wanted = eval(expression, {"tr": lambda **text: text[lang]})
    names: dict = {}
    exec(edition(f"x = {expression}\n", lang), names)
    assert names["x"] == wanted


# --- stubs --------------------------------------------------------------------------------------

lines = st.sampled_from(
    ["x = 1", "", "# why", "if x:\n    y = 2", "return '# END'", 's = """\n  # not a mark\n"""']
)


@given(
    st.lists(lines, min_size=1, max_size=5),
    st.lists(st.sampled_from(["# hint", "# 提示"]), max_size=2),
    st.integers(0, 2),
    st.booleans(),
)
def test_stubbing_a_stub_changes_nothing(body: list[str], hint: list[str], depth: int, sized: bool) -> None:
    indent = "    " * depth
    code = "\n".join(["# TODO ch01.2", *hint, *body, "# END ch01.2"]).split("\n")
    source = "\n".join(["before", *(indent + line if line else line for line in code), "after"])
    once = stub(source.replace("# TODO ch01.2", "# TODO ch01.2（约 3 行）") if sized else source)
    assert stub(once) == once
    assert f'{indent}raise TodoError("ch01.2")\n{indent}# END ch01.2\nafter' in once
    assert all(h in once for h in hint)
    assert "x = 1" not in once


def test_two_regions_of_a_cell_are_stubbed_each() -> None:
    source = "# TODO ch01.1\nx = 1\n# END ch01.1\nmiddle\n# TODO ch01.2\nx = 2\n# END ch01.2"
    assert stub(source) == (
        '# TODO ch01.1\nraise TodoError("ch01.1")\n# END ch01.1\nmiddle\n'
        '# TODO ch01.2\nraise TodoError("ch01.2")\n# END ch01.2'
    )


def test_cells_know_their_number_and_first_line() -> None:
    cells = read_cells('# %% [markdown] lang="en"\n# Hello\n\n# %% tags=["export"]\n\nx = 1\n')
    assert [str(c) for c in cells] == ["cell 1 (Hello)", "cell 2 (x = 1)"]
    assert cells[1].tags == ["export"]


# --- the setup cell and the cloud ---------------------------------------------------------------


def run_setup(monkeypatch, *, installed: bool, answers: bool = True) -> tuple[list[list[str]], list]:
    """Run the published setup cell in a made-up machine; the commands that it ran, and start's arguments."""
    commands: list[list[str]] = []
    started: list = []

    def run(command: list[str], **how: object) -> None:
        commands.append(command)
        if command[0] == "git":
            assert how["timeout"] == 5
            if not answers:
                raise subprocess.TimeoutExpired(command, 5)

    found = SimpleNamespace(
        find_spec=lambda name: ((name != "decodelab" or installed) and name != "ipywidgets") or None
    )
    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("importlib.util.find_spec", found.find_spec)
    for name in ("check", "hint", "progress", "solution"):
        monkeypatch.setattr(decodelab, name, None, raising=False)
    monkeypatch.setattr(decodelab, "start", lambda *args: started.append(args), raising=False)
    exec(setup_cell("ch01", "zh", PUBLISHED), {})
    return commands, started


def test_setup_does_nothing_where_decodelab_is(monkeypatch, capsys) -> None:
    commands, started = run_setup(monkeypatch, installed=True)
    assert commands == []
    assert started == [("ch01", "zh")]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("answers", [True, False])
def test_setup_installs_from_the_repository_else_from_the_mirror(monkeypatch, capsys, answers: bool) -> None:
    commands, started = run_setup(monkeypatch, installed=False, answers=answers)
    wanted = "git+https://github.com/someone/lab@v1.2" if answers else "https://mirror.example/lab.zip"
    assert commands[-1][1:] == ["-m", "pip", "install", "--quiet", "--no-deps", wanted]
    assert "%pip install ipywidgets" in capsys.readouterr().out
    assert started == [("ch01", "zh")]


@pytest.mark.parametrize(
    ("lang", "word"), [("en", "choose the course's own kernel"), ("zh", "请换成课程自己的内核")]
)
def test_setup_of_an_unpublished_course_says_how_to_install(monkeypatch, lang: str, word: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=word):
        exec(setup_cell("ch01", lang, Publishing()), {})


@pytest.mark.parametrize("publishing", [PUBLISHED, Publishing()])
def test_setup_is_short(publishing: Publishing) -> None:
    assert len(setup_cell("ch01", "en", publishing).splitlines()) <= 22


def test_badges_only_where_every_link_is_alive(course: Path) -> None:
    assert "No cloud badges" in build(course).notes[0]["en"]
    first = notebook(course, "zh").cells[0].source
    assert "colab" not in first
    report = build(course, publishing=PUBLISHED)
    assert report.notes == []
    first = notebook(course, "zh").cells[0].source
    path = "github/someone/lab/blob/v1.2/notebooks/zh/ch07_mini.ipynb"
    assert f"(https://colab.research.google.com/{path})" in first
    assert f"(https://modelscope.cn/notebook/share/{path})" in first
    assert first.startswith("# 第 7 章")


def test_a_repository_elsewhere_gets_no_badges() -> None:
    elsewhere = Publishing("file:///somewhere/repo", "file:///somewhere/repo.zip", "v1")
    assert elsewhere.notes()
    assert badges("# Title\ntext", "ch07_mini", "en", elsewhere) == "# Title\ntext"
    assert "git+file:///somewhere/repo@v1" in setup_cell("ch07", "en", elsewhere)


def test_publishing_is_read_from_pyproject(tmp_path: Path) -> None:
    assert read_publishing(tmp_path) == Publishing()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.decodelab]\nrepository = "r"\nmirror = "m"\nrelease = "v"\n'
    )
    assert read_publishing(tmp_path) == Publishing("r", "m", "v")


def test_a_soft_line_break_between_chinese_characters_leaves_no_gap():
    prose = "# 标题\n第一行，\n第二行 code\n`x` 第三行\n**第四行**\n\n- 项目\n  接着说\n- 又一项\n\n| 表 |\n|---|\n| 格 |\n\n```\n代\n码\n```\n末\n尾"
    assert unwrapped(prose) == (
        "# 标题\n第一行，第二行 code `x` 第三行**第四行**\n\n- 项目接着说\n- 又一项\n\n| 表 |\n|---|\n| 格 |\n\n```\n代\n码\n```\n末尾"
    )


def test_english_keeps_its_spaces():
    assert unwrapped("one\ntwo\n\nthree") == "one two\n\nthree"
