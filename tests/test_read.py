"""Reading what learners hand in, in every shape that platforms give it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.course import Answer, Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.notebook.build import instructor_notebook
from decodelab.notebook.emit import to_json
from decodelab.notebook.read import Cell, find_answers, mask_magics, read_notebook

REFERENCE = "class Sim:\n    def step(self):\n        return 1\n\n    def run(self):\n        return 2"


def todo(number: int, symbol: str) -> Todo:
    text = {"en": "", "zh": ""}
    return Todo(f"ch01.{number}", text, "core", 1.0, "ch01-answer", symbol, 1, "", {}, text)


CHAPTER = Chapter(
    id="ch01",
    name="ch01_x",
    title={"en": "", "zh": ""},
    todos=(todo(1, "Sim.step"), todo(2, "Sim.run")),
    answers=(Answer("ch01-answer", REFERENCE, {"en": "", "zh": ""}),),
    exports=(),
)


def code(*sources: str) -> list[Cell]:
    return [Cell("code", source) for source in sources]


def written(tmp_path: Path, content: object, encoding: str = "utf-8") -> Path:
    path = tmp_path / "作业 1.ipynb"
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_bytes(text.encode(encoding))
    return path


def four(*cells: dict, **metadata: object) -> dict:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


# --- files --------------------------------------------------------------------------------------

ANSWER = {
    "cell_type": "code",
    "id": "ch01-answer",
    "metadata": {"nbgrader": {"grade_id": "ch01-answer"}},
    "source": ["x = 1  # 注释\n", "y = 2"],
}
PROSE = {"cell_type": "markdown", "metadata": {}, "source": "# 第 1 章：解码调度器"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030"])
def test_any_encoding(tmp_path: Path, encoding: str) -> None:
    read = read_notebook(written(tmp_path, four(PROSE, ANSWER), encoding))
    assert read.cells[0] == Cell("markdown", "# 第 1 章：解码调度器")
    assert read.cells[1] == Cell("code", "x = 1  # 注释\ny = 2", "ch01-answer")
    assert (read.lang, read.chapter, read.notes) == ("zh", "ch01", [])


def test_the_builders_own_metadata_wins(tmp_path: Path) -> None:
    made = four(PROSE, ANSWER, decodelab={"chapter": "ch09", "lang": "en"})
    read = read_notebook(written(tmp_path, made))
    assert (read.lang, read.chapter) == ("en", "ch09")


def test_colab_without_nbgraders_metadata_keeps_the_cell_id(tmp_path: Path) -> None:
    cell = ANSWER | {"metadata": {"id": "aBc", "colab": {"base_uri": "x"}}}
    assert read_notebook(written(tmp_path, four(cell))).cells[0].grade_id == "ch01-answer"


def test_colab_without_any_id_is_found_by_its_text(tmp_path: Path) -> None:
    plain = {"cell_type": "code", "metadata": {"id": "aBc"}, "source": "# TODO ch01.1\nclass Sim: ..."}
    read = read_notebook(written(tmp_path, four(plain, {"cell_type": "code", "source": 'check("ch01.1")'})))
    assert [c.grade_id for c in read.cells] == [None, None]
    assert read.chapter == "ch01"
    assert find_answers(read.cells, CHAPTER).answers == {"ch01-answer": "# TODO ch01.1\nclass Sim: ..."}


def test_nbformat_3(tmp_path: Path) -> None:
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1\r\n", "y = 2"]}]}], "nbformat": 3}
    assert read_notebook(written(tmp_path, old)).cells == code("x = 1\ny = 2")


def test_a_damaged_cell_is_left_out_and_noted(tmp_path: Path) -> None:
    read = read_notebook(written(tmp_path, four(ANSWER, None, {"cell_type": "code", "source": [1, "a"]}, {})))  # type: ignore[arg-type]
    assert [c.source for c in read.cells] == ["x = 1  # 注释\ny = 2", "a", ""]
    assert len(read.notes) == 1


@pytest.mark.parametrize("source", [{"a": 1}, 3, None])
def test_a_cell_whose_source_is_no_text_is_no_empty_answer(tmp_path: Path, source: object) -> None:
    read = read_notebook(written(tmp_path, four(ANSWER | {"source": source}, PROSE)))
    assert find_answers(read.cells, CHAPTER).answers == {}
    assert "1 cell(s)" in read.notes[0]["en"]


def test_nothing_tells_the_language_of_code_alone(tmp_path: Path) -> None:
    read = read_notebook(written(tmp_path, four({"cell_type": "code", "source": "x = 1"})))
    assert (read.lang, read.chapter) == (None, None)


@pytest.mark.parametrize(
    ("content", "says", "sagt"),
    [
        ("", "is empty", "空文件"),
        (" \n", "is empty", "空文件"),
        ('{"cells": [\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> other\n]}', "conflict", "冲突"),
        ("<!DOCTYPE html><html>", "web page", "网页"),
        ('{"cells": [{"cell_type": "co', "not a whole notebook", "不是完整的"),
        ("# Decode Lab\n\n[中文](README.zh.md)\n", "is no notebook", "不是 notebook"),
        ("[" * 100_000, "not a whole notebook", "不是完整的"),
        ("[1, 2]", "has no cells", "没有单元格"),
        ('{"cells": 3}', "has no cells", "没有单元格"),
    ],
)
def test_unreadable_in_one_clear_sentence(tmp_path: Path, content: str, says: str, sagt: str) -> None:
    with pytest.raises(DecodeLabError) as caught:
        read_notebook(written(tmp_path, content))
    text = caught.value.text
    assert "作业 1.ipynb" in text["en"]
    assert says in text["en"]
    assert sagt in text["zh"]
    assert "\n" not in text["en"] + text["zh"]


def test_no_text_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xff\xff")
    with pytest.raises(DecodeLabError, match="not text"):
        read_notebook(path)
    with pytest.raises(DecodeLabError, match="cannot be opened"):
        read_notebook(tmp_path / "none.ipynb")


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["cells", "metadata", "cell_type", "source", "nbgrader", "worksheets", "decodelab", "lang", "id"]), v, max_size=4)))  # fmt: skip
def test_whatever_json_holds_it_is_read_or_refused(tmp_path_factory, content: object) -> None:
    path = written(tmp_path_factory.getbasetemp(), content)
    try:
        read = read_notebook(path)
    except DecodeLabError:
        return
    assert all(isinstance(c.source, str) for c in read.cells)


def test_what_the_builder_makes_is_read_back(tmp_path: Path) -> None:
    source = Path(__file__).parent / "data" / "ch07_mini.py"
    read = read_notebook(written(tmp_path, to_json(instructor_notebook(source, "zh"))))
    assert (read.lang, read.chapter) == ("zh", "ch07")
    assert [c.grade_id for c in read.cells if c.grade_id] == ["ch07-answer", "ch07-1"]


def test_reading_needs_the_standard_library_alone() -> None:
    script = (
        "import sys, decodelab.notebook.read as r, decodelab.notebook.source as s; "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'nbformat','jupytext','numpy','IPython','nbgrader'}))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


# --- answers ------------------------------------------------------------------------------------


def test_the_grade_id_goes_before_marks_and_names() -> None:
    cells = [
        Cell("code", "class Sim: 'id'", "ch01-answer"),
        *code("# TODO ch01.1\nclass Sim: 'mark'", "class Sim: 'name'"),
    ]
    assert find_answers(cells, CHAPTER).answers == {"ch01-answer": "class Sim: 'id'"}


def test_marks_find_an_answer_that_defines_no_known_name() -> None:
    found = find_answers(code("x = 1", "    # TODO ch01.2（约 2 行）\nclass Renamed: 'mark'"), CHAPTER)
    assert "'mark'" in found.answers["ch01-answer"]


def test_the_last_by_marks_or_names_counts() -> None:
    found = find_answers(code("# TODO ch01.2\nclass Sim: 'mark'", "class Sim: 'name'"), CHAPTER)
    assert "'name'" in found.answers["ch01-answer"]


def test_names_find_an_answer_without_marks() -> None:
    cells = code("sim = Sim()", "# class Sim: no\nclass Simple: pass", "@final\nclass Sim(Base): 'yes'")
    assert "'yes'" in find_answers(cells, CHAPTER).answers["ch01-answer"]


def test_no_answer_is_no_answer() -> None:
    cells = [*code("# TODO ch01.11\nx = 1"), Cell("markdown", "# TODO ch01.1\nclass Sim: 'prose'")]
    assert find_answers(cells, CHAPTER).answers == {}


def test_the_last_of_several_wins_and_is_noted() -> None:
    found = find_answers([Cell("code", f"class Sim: {n}", "ch01-answer") for n in (1, 2, 3)], CHAPTER)
    assert found.answers["ch01-answer"] == "class Sim: 3"
    assert "3 cells" in found.notes[0]["en"]
    assert "3 个单元格" in found.notes[0]["zh"]


def test_an_emptied_cell_and_a_note_with_a_mark_are_no_answer() -> None:
    cells = [Cell("code", "# moved", "ch01-answer"), *code("# TODO ch01.1 think again\n\n# later")]
    assert find_answers(cells, CHAPTER).answers == {}


def test_each_todo_is_the_last_that_is_written() -> None:
    def cell(step: str, run: str) -> str:
        return (
            f"class Sim:\n    def step(self):\n        # TODO ch01.1\n        {step}\n        # END ch01.1\n\n"
            f"    def run(self):\n        # TODO ch01.2\n        {run}\n        # END ch01.2"
        )

    raw = 'raise TodoError("ch01.{}")'.format
    one, two, stub = cell("return 1", raw(2)), cell(raw(1), "return 2"), cell(raw(1), raw(2))
    assert find_answers(code(one, two), CHAPTER).answers == {"ch01-answer": cell("return 1", "return 2")}
    assert find_answers(code(one, cell("return 3", raw(2)), two, stub), CHAPTER).answers == {
        "ch01-answer": cell("return 3", "return 2")
    }
    assert find_answers(code(stub, one, stub), CHAPTER).answers == {"ch01-answer": one}
    assert find_answers(code(stub), CHAPTER).answers == {"ch01-answer": stub}


def test_an_answer_with_a_syntax_error_is_still_found() -> None:
    broken = "class Sim:\n    def step(self:"
    found = find_answers(code("class Sim: old", broken), CHAPTER)
    assert found.answers["ch01-answer"].startswith(broken)


def definitions(answer: str, *others: str) -> str:
    return find_answers([*code(*others), Cell("code", answer, "ch01-answer")], CHAPTER).definitions


def test_definitions_are_what_the_answers_use_transitively() -> None:
    text = definitions(
        "class Sim:\n    def step(self, spare):\n        return helper(LIMIT)",
        "import math\nimport heapq as hq\nLIMIT: int = 3\nspare = 1\nprint('side effect')",
        "import functools\n\n\n@functools.cache\ndef helper(x):\n    return math.floor(BASE) + x",
        "BASE, other = 1.5, open('nowhere')\nunused = helper(2)",
    )
    names: dict = {}
    exec(text.replace("open('nowhere')", "0"), names)
    assert names["helper"](3) == 4
    assert names["LIMIT"] == 3
    assert not {"hq", "spare", "unused"} & set(names)
    assert "print" not in text


def test_the_setup_cells_import_is_cut_to_what_is_used() -> None:
    text = definitions(
        "class Sim:\n    def step(self):\n        hint(); raise TodoError('x')",
        "from decodelab import TodoError, check, hint",
    )
    assert text == "from decodelab import hint"


def test_star_and_future_imports_are_always_taken() -> None:
    text = definitions("class Sim: pass", "from math import *\nfrom __future__ import annotations")
    assert text.split() == ["from", "__future__", "import", "annotations", "from", "math", "import", "*"]


def test_what_an_answer_defines_is_not_looked_for_elsewhere() -> None:
    assert (
        definitions("class Sim:\n    x = make()\ndef make(): ...", "def make(): 'old'", "class Sim: 'older'")
        == ""
    )


def test_cells_that_do_not_parse_are_passed_over() -> None:
    assert (
        definitions("class Sim:\n    x = a", "a = (", "%%bash\na = 1", "!ls\n%matplotlib inline\na = 2")
        == "a = 2"
    )


def test_a_later_patch_is_part_of_the_answer() -> None:
    cells = [
        *code("Sim.step = earlier"),
        Cell("code", "class Sim: pass", "ch01-answer"),
        *code("def better(self): return 5\nSim.step = better\nOther.step = better\nsim.step = 3"),
    ]
    found = find_answers(cells, CHAPTER)
    names: dict = {}
    exec(found.definitions + "\n" + found.answers["ch01-answer"], names)
    assert names["Sim"]().step() == 5
    assert "earlier" not in found.answers["ch01-answer"]
    assert "Other" not in found.answers["ch01-answer"]


@pytest.mark.parametrize(
    "hostile",
    [
        "\n" * 400_000,
        "".join(f"def f{i}(): f{i + 1}\n" for i in range(10_000)) + "f10000 = Sim",
        "f0 = []\n" + "f0.append(1)\n" * 20_000,
        "def f0():\n" + " y.a = 1\n" * 20_000 + "f0()\n" * 20_000,
    ],
    ids=["blank", "chain", "changes", "calls"],
)
def test_a_hostile_notebook_is_read_in_time(hostile: str) -> None:
    began = time.monotonic()
    answer = Cell("code", "class Sim:\n    def step(self):\n        f0", "ch01-answer")
    find_answers([*code(hostile), answer, *code("class Sim: 0") * 5000], CHAPTER)
    assert time.monotonic() - began < 20


# --- magics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "masked"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if x:\n    !pip install y\n    z = 2", "if x:\n    pass\n    z = 2"),
        ("files = !ls\nSim?\n?Sim", "pass\npass\npass"),
        ("%%time\nx = 1", "pass\nx = 1"),
        ("%%bash\nls (", "pass"),
        ('s = """\n%not magic\n!nor this\n"""\n!ls', 's = """\n%not magic\n!nor this\n"""\npass'),
        ("if x:\n    %time y = f(2)\n    %time\n    z = y", "if x:\n    y = f(2)\n    pass\n    z = y"),
        ("x = (7\n% 3)", "x = (7\n% 3)"),
        ("x = (", "x = ("),
    ],
)
def test_magics_give_way_and_strings_stay(source: str, masked: str) -> None:
    assert mask_magics(source) == masked
