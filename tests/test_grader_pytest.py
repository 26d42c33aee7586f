"""`pytest grader --submission FILE.ipynb`, run as an instructor runs it, in a copy of the folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decodelab.course import load
from decodelab.grading import splice
from decodelab.grading.suites import load_suite

ROOT = Path(__file__).parent.parent
GRADER = ROOT / "grader"
CHAPTER = load("ch01")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """grader/ without what nbgrader keeps there, and the notebooks that the tests hand in."""
    made = tmp_path_factory.mktemp("pytest")
    (made / "grader").mkdir()
    for name in ("conftest.py", "test_submission.py"):
        shutil.copy(GRADER / name, made / "grader")
    shutil.copytree(GRADER / "suites", made / "grader" / "suites")
    wrong = next(v for v in load_suite(GRADER, "ch01").WRONG if v.name == "priority sign")
    for lang in ("en", "zh"):
        (made / f"{lang}.ipynb").write_text(json.dumps(solved_but(wrong.regions, lang)), encoding="utf-8")
    return made


def solved_but(code: dict[str, str], lang: str) -> dict:
    """A learner's notebook with the reference in its TODOs, and other code in some."""
    notebook = json.loads((ROOT / "notebooks" / lang / f"{CHAPTER.name}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for todo in CHAPTER.todos if cell["cell_type"] == "code" else ():
            source = splice.replace_region("".join(cell["source"]), todo.id, code.get(todo.id, todo.code))
            cell["source"] = source or cell["source"]
    return notebook


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest's own summary needs no cache, no plugins and no configuration of ours."""
    command = [sys.executable, "-m", "pytest", "grader", "-v", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)


def test_an_item_a_todo(folder: Path) -> None:
    done = run(folder, "--submission", "en.ipynb", "--student", "ann")
    for todo in CHAPTER.todos:
        outcome = "FAILED" if todo.id == "ch01.2" else "PASSED"
        assert f"test_todo[{todo.id.replace('.', '_')}] {outcome}" in done.stdout
    assert done.returncode == 1


def test_k_selects_a_todo_and_the_failure_is_the_feedback(folder: Path) -> None:
    done = run(folder, "--submission", "zh.ipynb", "-k", "ch01_2")
    assert f"1 failed, {len(CHAPTER.todos) - 1} deselected" in done.stdout
    assert f"✗ ch01.2 {CHAPTER.todo('ch01.2').title['zh']}" in done.stdout
    assert "priority-first" in done.stdout
    assert "Traceback" not in done.stdout
    assert "assert" not in done.stdout


def test_a_chapter_that_the_metadata_names_wrongly_is_found_all_the_same(folder: Path) -> None:
    notebook = solved_but({}, "en")
    notebook["metadata"]["decodelab"]["chapter"] = "ch99"
    (folder / "ch99.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    done = run(folder, "--submission", "ch99.ipynb", "-k", "ch01_2")
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "pytest grader --submission FILE.ipynb"),
        (["--submission", "none.ipynb"], "none.ipynb"),
        (["--submission", "grader/conftest.py"], "conftest.py"),
    ],
)
def test_a_usage_error_is_one_sentence(folder: Path, arguments: list[str], said: str) -> None:
    done = run(folder, *arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_run_that_is_not_about_the_folder_passes_it_by(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", ".", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
