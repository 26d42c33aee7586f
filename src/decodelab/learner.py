"""The learner's desk: ``start, check, hint, solution, progress``, which a notebook calls.

They show something and return nothing, so that a cell that runs without anybody watching never fails on
them. What they show comes from functions that return data or raise ``DecodeLabError``; the command line
uses those.
"""

from __future__ import annotations

import contextlib
import functools
import html
import inspect
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decodelab import course
from decodelab.advice import find_todo, hint_text, normal, progress_table, solution_text
from decodelab.course import Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.grading.splice import needs
from decodelab.home import home
from decodelab.lang import both, say, speak, spoken, tr
from decodelab.models.tokenizer import lacking
from decodelab.records import passed, save
from decodelab.show.tell import in_notebook, plain, shell, table_html, table_text, tell
from decodelab.workfolder import course_folder

if TYPE_CHECKING:
    from decodelab.check.rules import TodoResult
    from decodelab.grading.student import Student
    from decodelab.notebook.read import Cell, Submission

CALLS = {
    "start": 'start("ch01", "en")',
    "check": 'check("ch01.2")',
    "hint": 'hint("ch01.2", 1)',
    "solution": 'solution("ch01.2")',
    "progress": "progress()",
}
PICTURE_SECONDS = 2.0  # of the learner's time, for a picture that nobody asked for
_started: list[str] = []  # the chapter of this notebook


class Stopped(KeyboardInterrupt):
    """The learner's interrupt: a notebook shows its sentence alone, and does not go on to the next cell."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def told(front: Callable[..., None]) -> Callable[..., None]:
    """Show a DecodeLabError as the sentence that it is, instead of a traceback; a call with wrong arguments too."""
    signature, call = inspect.signature(front), CALLS[front.__name__]

    @functools.wraps(front)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            try:
                signature.bind(*args, **kwargs)
            except TypeError:
                raise DecodeLabError(both(en=f"Write it like this: {call}", zh=f"请这样写：{call}")) from None
            front(*args, **kwargs)
        except DecodeLabError as problem:
            sentence = say(problem.text)
            tell(sentence, as_html=f"<p>{html.escape(sentence)}</p>")
        except KeyboardInterrupt:
            raise Stopped(tr(en="Stopped.", zh="已停止。")) from None

    return wrapper


@told
def start(chapter: str, lang: str) -> None:
    """First cell of a chapter: speak ``lang``, say that all is ready, greet whoever has been here before."""
    speak(lang)
    data = course.load(chapter)
    _started[:] = [data.id]
    number, done, todos = int(data.id.removeprefix("ch")), len(passed(data.id)), len(data.todos)
    print(
        tr(
            en=f"Ready: chapter {number}, in English."
            + f" {done} of {todos} TODOs passed so far." * bool(done),
            zh=f"准备好了：第 {number} 章，中文版。"
            + f"{todos} 个 TODO，你已经通过了 {done} 个。" * bool(done),
        )
    )
    for library in needs(data):
        if find_spec(library) is None:
            print(say(lacking(library)))
    if "google.colab" in sys.modules and "MyDrive" not in str(home()):
        print(
            tr(
                en="Colab forgets this machine when you leave: mount your Drive (folder icon on the left) to keep "
                "what passes.",
                zh="离开后 Colab 会回收这台机器：先挂载云端硬盘（左侧的文件夹图标），通过的代码才能保留下来。",
            )
        )


@told
def check(todo_id: str = "") -> None:
    """Check the answer that was run last for this TODO, say what is wrong with it, keep it if nothing is.

    Without an id, or with a chapter's: every TODO of the chapter whose cell was run. Your code is run in a
    process of its own, on fresh objects, for at most 10 seconds: nothing in this notebook changes.
    """
    from decodelab.check import feedback
    from decodelab.grading.judge import judge
    from decodelab.notebook.read import find_answers

    chapter, asked = what(todo_id)
    submission = find_answers(executed_cells(), chapter)
    submission.notes.clear()  # that a cell ran several times is nothing to report here
    there = [todo.id for todo in asked if todo.answer in submission.answers]
    results = judge(chapter, submission, there) if there else []
    for result in results:
        tell(feedback.as_text(result), as_html=feedback.as_html(result))
    if len(asked) == len(results) == 1 and in_notebook():
        show_picture(chapter, submission, results[0])
    if results and not authors_script():
        save(chapter, spoken(), submission, results)
    if missing := [todo.id for todo in asked if todo.id not in there]:
        raise DecodeLabError(
            both(
                en=f"Run the cell that holds TODO {', '.join(missing)} first (Shift+Enter), then this check.",
                zh=f"请先运行写有 TODO {'、'.join(missing)} 的单元格（Shift+Enter），再运行这个检查。",
            )
        )


@told
def hint(todo_id: str, level: int = 1) -> None:
    """Show hint 1, 2 or 3 of a TODO, each going further than the one before."""
    text = hint_text(todo_id, level)
    tell(plain(text), as_markdown=text)


@told
def solution(todo_id: str) -> None:
    """Show the reference's code for a TODO and why it is so."""
    text = solution_text(todo_id)
    tell(plain(text), as_markdown=text)


@told
def progress(chapter: str = "") -> None:
    """Show what passed, and the points: of one chapter (``"ch01"``), by default this notebook's, or of ``"all"``."""
    wanted = chapter or "".join(_started)
    head, lines = progress_table("" if wanted == "all" else wanted)
    tell(table_text(head, lines), as_html=table_html(head, lines))


def what(todo_id: str) -> tuple[Chapter, list[Todo]]:
    """The chapter and the TODOs that ``check(todo_id)`` is about."""
    wanted = normal(todo_id) or "".join(_started)
    if not wanted:
        raise DecodeLabError(
            both(
                en=f"Say which TODO: {CALLS['check']}",
                zh=f"请写明检查哪个 TODO：{CALLS['check']}",
            )
        )
    chapter = course.load(wanted)
    return chapter, list(chapter.todos) if wanted == chapter.id else [find_todo(wanted)]


def executed_cells() -> list[Cell]:
    """The code cells that ran in this kernel, oldest first; outside one, the running script's own cells."""
    from decodelab.notebook.read import Cell

    if ipython := shell():
        return [Cell("code", source, None) for source in ipython.history_manager.input_hist_raw]
    here = script()
    if not here:
        return []
    parts = re.split(r"(?m)^# %%(.*)\n", here.read_text(encoding="utf-8"))[1:]
    marks, sources = parts[::2], parts[1::2]
    return [
        Cell("code", source, None)
        for mark, source in zip(marks, sources, strict=True)
        if "[markdown]" not in mark and '"checks"' not in mark
    ]


def script() -> Path | None:
    """The script that runs, if one does."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file).resolve() if file else None


def authors_script() -> bool:
    """Whether a chapter's own source runs as a script: what passes then is nobody's progress."""
    here = script()
    with contextlib.suppress(DecodeLabError):
        return here is not None and here.parent == course_folder() / "solutions"
    return False


def show_picture(chapter: Chapter, submission: Submission, result: TodoResult) -> None:
    """Under a check's words: the two sequences where they part; your own run where it passed.

    The latter for the TODOs in the ``PICTURES`` of the chapter's checks, whose values return a timeline.
    """
    from decodelab.check.rules import StudentError
    from decodelab.grading.student import Died, Stuck
    from decodelab.show import plots

    finding, draw = result.finding, getattr(chapter.checks, "PICTURES", {}).get(result.todo)
    # No matplotlib, or an answer that a picture's own calls are too much for: no picture.
    with contextlib.suppress(DecodeLabError, StudentError, Stuck, Died):
        if finding and finding.at is not None:
            figure = plots.compare_strips(finding.want, finding.got, finding.at)
            caption = plots.caption("compare_strips")
        elif draw and result.state == "passed":
            figure = plots.event_strip(own_run(chapter, submission, result.todo, draw))
            caption = plots.caption("event_strip")
        else:
            return
        words = f"<figcaption>{html.escape(say(caption))}</figcaption>"
        tell(say(plots.alt_text(figure)), as_html=f"<figure>{plots.as_img(figure)}{words}</figure>")


def own_run(
    chapter: Chapter, submission: Submission, todo_id: str, draw: Callable[[Student], list[Any]]
) -> list[Any]:
    """The timeline that ``draw`` gets out of this answer, in a process of its own."""
    from decodelab.grading import splice
    from decodelab.grading.student import Student

    parts = splice.alone(chapter, submission, chapter.todo(todo_id))[0]
    with Student([(p.name, p.source) for p in parts], PICTURE_SECONDS) as student:
        return draw(student)
