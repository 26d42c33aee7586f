"""`pytest grader --submission FILE.ipynb [-k ch01_2] [--student ID]`: the hidden suite, one item a TODO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from decodelab.check.rules import TodoResult
from decodelab.checkfile import chapter_of
from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.grading.grade import Course
from decodelab.grading.judge import judge
from decodelab.grading.suites import hidden_cases, student_seed
from decodelab.lang import both, say, speak
from decodelab.notebook.read import Submission, find_answers, read_notebook

HERE = Path(__file__).parent
OPENED = pytest.StashKey[tuple[Chapter, Submission]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("decodelab")
    group.addoption("--submission", type=Path, metavar="FILE.ipynb", help="the notebook to judge")
    group.addoption("--student", default="", metavar="ID", help="whose hidden workloads to draw")


def pytest_configure(config: pytest.Config) -> None:
    asked = (Path(config.invocation_params.dir, arg.split("::")[0]) for arg in config.args)
    if not any(HERE in (path, *path.parents) for path in asked):
        return  # found on the way by a run that is not about this folder
    try:
        config.stash[OPENED] = opened(config.option.submission)
    except DecodeLabError as problem:
        raise pytest.UsageError(say(problem.text)) from None


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if OPENED in config.stash else True


def opened(path: Path | None) -> tuple[Chapter, Submission]:
    """The chapter that a notebook belongs to and the answers in it; its language is spoken from now on."""
    if path is None:
        raise DecodeLabError(
            both(
                en="Name the notebook to judge: pytest grader --submission FILE.ipynb",
                zh="请指定要评判的 notebook：pytest grader --submission FILE.ipynb",
            )
        )
    notebook = read_notebook(path)
    if notebook.lang:
        speak(notebook.lang)
    chapter = chapter_of(notebook, path)
    return chapter, find_answers(notebook.cells, chapter)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chapter, _ = metafunc.config.stash[OPENED]
    metafunc.parametrize("todo", [t.id for t in chapter.todos], ids=lambda todo: todo.replace(".", "_"))


@pytest.fixture(scope="session")
def verdict(pytestconfig: pytest.Config) -> Callable[[str], TodoResult]:
    """Judges one TODO of the submission by the same runner, judge and workloads as the gradebook's."""
    chapter, submission = pytestconfig.stash[OPENED]
    course = Course.open(HERE)
    seed = student_seed(course.secret, chapter.id, pytestconfig.getoption("student"))
    cases = hidden_cases(chapter, seed, HERE)
    return lambda todo: judge(chapter, submission, [todo], cases=cases, rung=course.rung)[0]
