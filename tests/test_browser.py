"""What people see: a learner's notebook in JupyterLab, an instructor's formgrader. Screenshots are kept as artefacts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="pip install selenium to test in a browser")
pytest.importorskip("jupyterlab", reason="pip install jupyterlab to test in a browser")

import browser
import handed_in
from browser import LabNotebook, shoot, until
from selenium import webdriver
from selenium.webdriver.remote.webelement import WebElement

from decodelab.course import load
from decodelab.grading import splice
from decodelab.lang import speaking
from decodelab.notebook.build import instructor_notebook

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(
        not (browser.CHROMIUM and browser.DRIVER), reason="apt-get install chromium chromium-driver"
    ),
]

CHAPTER = load("ch01")
NOTEBOOK = f"{CHAPTER.name}.ipynb"
ANSWER = CHAPTER.answers[0]
LAB = (sys.executable, "-m", "decodelab.cli", "lab")
LAST_ARRIVED = """\
active = [req for req in self.queue if not req.done]
if not active:
    return None
req = active[-1]"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    with browser.chromium(tmp_path / "profile") as driver:
        yield driver


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_a_learner_does_the_first_todo(tmp_path: Path, home: Path, driver: webdriver.Chrome) -> None:
    course = handed_in.course_folder(tmp_path / "course")
    with browser.served([*LAB, "--lang", "zh"], course, home) as url:
        notebook = LabNotebook(driver, url, NOTEBOOK)
        shoot(driver, "lab-zh-1-open")

        notebook.run_above("ch01-1")
        said = checked(notebook, "ch01-1")
        shoot(driver, "lab-zh-2-not-started")
        assert "○ ch01.1 请求入队：尚未开始" in said.text

        wrong = splice.replace_region(ANSWER.reference, "ch01.3", LAST_ARRIVED)
        assert wrong
        notebook.paste("ch01-answer", wrong)
        shoot(driver, "lab-zh-3-pasted")
        notebook.run("ch01-answer")
        said = checked(notebook, "ch01-3")
        shoot(driver, "lab-zh-4-failed")
        assert "✗ ch01.3" in said.text
        assert "还没有通过" in said.text
        assert is_seen(driver, said)
        shoot(driver, "lab-zh-5-compared")

        notebook.paste("ch01-answer", ANSWER.reference)
        notebook.run("ch01-answer")
        said = checked(notebook, "ch01-1")
        shoot(driver, "lab-zh-6-passed")
        assert "✓ ch01.1 请求入队：通过" in said.text
        said = checked(notebook, "ch01-3")
        assert "✓ ch01.3" in said.text
        assert is_seen(driver, said)
        shoot(driver, "lab-zh-7-picture")


def is_seen(driver: webdriver.Chrome, output: WebElement) -> bool:
    """Scroll to the picture in a cell's output: whether it is drawn, and has words for who does not see it."""
    picture = output.find_element("css selector", "figure img")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", picture)
    ready = driver.execute_script("return arguments[0].complete && arguments[0].naturalWidth", picture)
    return bool(ready and picture.is_displayed() and picture.get_attribute("alt"))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("chapter", ["ch00", "ch01"])
def test_a_solved_notebook_to_its_end(
    tmp_path: Path, home: Path, driver: webdriver.Chrome, chapter: str, lang: str
) -> None:
    course = handed_in.course_folder(tmp_path / "course")
    name = f"{load(chapter).name}.ipynb"
    (course / "work" / lang).mkdir(parents=True)
    solved = instructor_notebook(browser.ROOT / "solutions" / f"{load(chapter).name}.py", lang)
    handed_in.write(course / "work" / lang / name, solved)
    driver.set_window_size(1100, 1900)
    with browser.served([*LAB, "--lang", lang], course, home) as url:
        notebook = LabNotebook(driver, url, name)
        outputs = notebook.run_all()
        notebook.shoot_through(f"read-{lang}-{chapter}")
    assert [output for output in outputs if output["output_type"] == "error"] == []
    shown = "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    for todo in load(chapter).todos:
        assert f"✓ {todo.id} {todo.title[lang]}" in shown


def test_the_formgrader_lists_the_chapter(tmp_path: Path, home: Path, driver: webdriver.Chrome) -> None:
    pytest.importorskip("nbgrader", reason="pip install nbgrader to see its formgrader")
    from decodelab import demo

    course = tmp_path / "demo"
    with speaking("zh"):
        assert demo.run(course, None, 12, "zh") == 0
    with browser.served([sys.executable, "-m", "jupyterlab"], course, home) as url:
        driver.get(f"{url}/formgrader")
        assert "4" in row(driver, "ch01")
        shoot(driver, "formgrader-1-assignments")

        driver.get(f"{url}/formgrader/manage_submissions/ch01")
        scores = {
            "solved-zh": "13 / 13",
            "solved-en": "13 / 13",
            "one-mistake": "10 / 13",
            "untouched": "0 / 13",
        }
        for student, score in scores.items():
            assert score in row(driver, student)
        shoot(driver, "formgrader-2-submissions")

        driver.get(f"{url}/formgrader/gradebook/ch01/{CHAPTER.name}")
        row(driver, "10 / 13")
        shoot(driver, "formgrader-3-notebooks")
        driver.execute_script(f"{ROW}.querySelector('a[href*=submissions]').click()", "10 / 13")
        shown = until(driver, FEEDBACK, "priority-first")
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", shown)
        shoot(driver, "formgrader-4-feedback")
        assert "✗ ch01.2 队列的次序" in shown.text


FEEDBACK = (
    "return [...document.querySelectorAll('div[lang=zh]')].find(d => d.innerText.includes(arguments[0]))"
)
ROW = "[...document.querySelectorAll('tbody tr')].find(r => [...r.cells].some(c => c.innerText.trim() === arguments[0]))"


def row(driver: webdriver.Chrome, named: str) -> list[str]:
    """The cells of the row of a table that has this in one of its cells."""
    return until(
        driver, f"const row = {ROW}; return row && [...row.cells].map(c => c.innerText.trim())", named
    )


def checked(notebook: LabNotebook, cell: str) -> WebElement:
    notebook.run(cell)
    return notebook.output(cell)
