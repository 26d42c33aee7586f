"""The learner's desk: check an answer, ask for a hint, keep what passed, and the work folder.

``start, check, hint, solution, progress`` are what a notebook calls; they show something and return
nothing, so that a cell that runs without anybody watching never fails on them. What they show comes
from functions that return data or raise ``DecodeLabError``; the command line uses those.
"""

from __future__ import annotations

import contextlib
import functools
import html
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decodelab import course
from decodelab.course import Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.lang import LANGUAGES, both, say, speak, spoken, tr
from decodelab.show.tell import in_notebook, shell, table_html, table_text, tell

if TYPE_CHECKING:
    from decodelab.check.rules import TodoResult
    from decodelab.grading.student import Student
    from decodelab.notebook.read import Cell, Notebook, Submission

KEPT_FOLDERS = ("/content/drive/MyDrive/decodelab", "/mnt/workspace/.decodelab")  # Colab's Drive, ModelScope


# What passed is kept -----------------------------------------------------------------------------


def home() -> Path:
    """The folder that keeps a learner's passing code: ``$DECODELAB_HOME``, a cloud's kept folder, or ~/.decodelab."""
    if named := os.environ.get("DECODELAB_HOME"):
        return Path(named).expanduser()
    kept = (Path(folder) for folder in KEPT_FOLDERS)
    return next((f for f in kept if os.access(f.parent, os.W_OK)), Path.home() / ".decodelab")


@dataclass
class Record:
    """What is known of one TODO: its last state, and the code with which it last passed."""

    state: str
    when: str  # ISO 8601, local time
    lang: str
    answers: dict[str, str] = field(default_factory=dict)  # grade id -> source of the answer cell
    definitions: str = ""  # what the answers need from other cells


def records(chapter_id: str) -> dict[str, Record]:
    """The saved records of a chapter by TODO id; none where nothing was saved or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        data = json.loads((home() / f"{chapter_id}.json").read_text(encoding="utf-8"))
        return {todo: Record(**record) for todo, record in data["todos"].items()}
    return {}


def passed(chapter_id: str) -> dict[str, Record]:
    """The records of the TODOs that passed."""
    return {todo: r for todo, r in records(chapter_id).items() if r.state == "passed"}


def save(chapter: Chapter, lang: str, submission: Submission, results: Iterable[TodoResult]) -> None:
    """Keep the code of what passed. A TODO that passed once stays passed, with the code it passed with."""
    known, now = records(chapter.id), datetime.now().isoformat(timespec="seconds")
    for result in results:
        if result.state == "passed":
            known[result.todo] = Record("passed", now, lang, submission.answers, submission.definitions)
        elif known.get(result.todo, Record("", "", "")).state != "passed":
            known[result.todo] = Record(result.state, now, lang)
    path = home() / f"{chapter.id}.json"
    if path.exists() and not records(chapter.id):
        os.replace(path, free_name(path, "unreadable"))
    data = {"chapter": chapter.id, "todos": {todo: vars(known[todo]) for todo in sorted(known)}}
    write_whole(path, json.dumps(data, ensure_ascii=False, indent=1))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a power cut, never meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=path.name, suffix=".tmp", delete=False
    ) as file:
        file.write(text)
    os.replace(file.name, path)


def free_name(path: Path, word: str) -> Path:
    """A name beside ``path`` that nobody has: ``name.WORD-20260131-120000.ipynb``."""
    stamp = f"{path.stem}.{word}-{datetime.now():%Y%m%d-%H%M%S}"
    names = (
        path.with_name(f"{stamp}{more}{path.suffix}") for more in ("", *(f"-{i}" for i in range(2, 1000)))
    )
    return next(name for name in names if not name.exists())


# What a notebook calls -----------------------------------------------------------------------------


def told(front: Callable[..., None]) -> Callable[..., None]:
    """Show a DecodeLabError as the sentence that it is, instead of a traceback."""

    @functools.wraps(front)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            front(*args, **kwargs)
        except DecodeLabError as problem:
            sentence = say(problem.text)
            tell(sentence, as_html=f"<p>{html.escape(sentence)}</p>")

    return wrapper


@told
def start(chapter: str, lang: str) -> None:
    """First cell of a chapter: speak ``lang``, greet whoever has been here before."""
    speak(lang)
    data = course.load(chapter)
    done = passed(data.id)
    if done:
        print(
            tr(
                en=f"Welcome back: {len(done)} of {len(data.todos)} TODOs of {data.id} passed so far.",
                zh=f"欢迎回来：{data.id} 的 {len(data.todos)} 个 TODO，你已经通过了 {len(done)} 个。",
            )
        )
    if "google.colab" in sys.modules and "MyDrive" not in str(home()):
        print(
            tr(
                en="Colab forgets this machine when you leave: mount your Drive (folder icon on the left) to keep "
                "what passes.",
                zh="离开后 Colab 会回收这台机器：先挂载云端硬盘（左侧的文件夹图标），通过的代码才能保留下来。",
            )
        )


@told
def check(todo_id: str) -> None:
    """Check the answer that was run last for this TODO, say what is wrong with it, keep it if nothing is.

    Your code is run in a process of its own, on fresh objects, for at most 10 seconds: nothing in this
    notebook changes.
    """
    from decodelab.check import feedback
    from decodelab.grading.judge import judge
    from decodelab.notebook.read import find_answers

    chapter = course.load(normal(todo_id))
    todo = chapter.todo(normal(todo_id))
    submission = find_answers(executed_cells(), chapter)
    submission.notes.clear()  # that a cell ran several times is nothing to report here
    if todo.answer not in submission.answers:
        raise DecodeLabError(
            both(
                en=f"Run the cell that holds TODO {todo.id} first (Shift+Enter), then this check.",
                zh=f"请先运行写有 TODO {todo.id} 的单元格（Shift+Enter），再运行这个检查。",
            )
        )
    (result,) = judge(chapter, submission, [todo.id])
    tell(feedback.as_text(result), as_html=feedback.as_html(result))
    if in_notebook():
        show_picture(chapter, submission, result)
    try:
        save(chapter, spoken(), submission, [result])
    except OSError as reason:
        raise DecodeLabError(
            both(
                en=f"This could not be saved ({reason.strerror}): set DECODELAB_HOME to a folder that you may "
                "write to.",
                zh=f"没能保存这次结果（{reason.strerror}）：请把环境变量 DECODELAB_HOME 设为一个可写的文件夹。",
            )
        ) from reason


@told
def hint(todo_id: str, level: int = 1) -> None:
    """Show hint 1, 2 or 3 of a TODO, each going further than the one before."""
    text = hint_text(todo_id, level)
    tell(text, as_markdown=text)


@told
def solution(todo_id: str) -> None:
    """Show the reference's code for a TODO and why it is so."""
    text = solution_text(todo_id)
    tell(text, as_markdown=text)


@told
def progress() -> None:
    """Show every chapter's TODOs: what passed, and the points."""
    head, lines = progress_table()
    tell(table_text(head, lines), as_html=table_html(head, lines))


def normal(todo_id: str) -> str:
    """``ch01-2``, the form that nbgrader can bear, as ``ch01.2``."""
    return str(todo_id).strip().replace("-", ".")


def executed_cells() -> list[Cell]:
    """The code cells that ran in this kernel, oldest first; outside one, the running script's own cells."""
    from decodelab.notebook.read import Cell

    if here := shell():
        return [Cell("code", source, None) for source in here.history_manager.input_hist_raw]
    script = getattr(sys.modules["__main__"], "__file__", None)
    if not script:
        return []
    parts = re.split(r"(?m)^# %%(.*)\n", Path(script).read_text(encoding="utf-8"))[1:]
    marks, sources = parts[::2], parts[1::2]
    return [
        Cell("code", source, None)
        for mark, source in zip(marks, sources, strict=True)
        if "[markdown]" not in mark and '"checks"' not in mark
    ]


def show_picture(chapter: Chapter, submission: Submission, result: TodoResult) -> None:
    """Under a check's words: the two sequences where they part; your own run where it passed.

    A chapter whose checks have ``picture(student)``, which returns a timeline, gets the latter.
    """
    from decodelab.check.rules import StudentError
    from decodelab.grading.student import Died, Stuck
    from decodelab.show import plots

    finding, draw = result.finding, getattr(chapter.checks, "picture", None)
    # No matplotlib, or an answer that a picture's own calls are too much for: no picture.
    with contextlib.suppress(DecodeLabError, StudentError, Stuck, Died):
        if finding and finding.at is not None:
            figure = plots.compare_strips(finding.want, finding.got, finding.at)
            caption, alt = plots.caption("compare"), plots.alt_text(finding.got)
        elif draw and result.state == "passed":
            events = own_run(chapter, submission, result.todo, draw)
            figure, caption, alt = plots.event_strip(events), plots.caption(), plots.alt_text(events)
        else:
            return
        image = plots.as_img(figure, say(alt))
        tell(
            say(alt), as_html=f"<figure>{image}<figcaption>{html.escape(say(caption))}</figcaption></figure>"
        )


def own_run(
    chapter: Chapter, submission: Submission, todo_id: str, draw: Callable[[Student], list[Any]]
) -> list[Any]:
    """The timeline that ``draw`` gets out of this answer, in a process of its own."""
    from decodelab.grading import splice
    from decodelab.grading.student import Student

    with Student(splice.alone(chapter, submission, chapter.todo(todo_id))[0]) as student:
        return draw(student)


# What they show, as data -----------------------------------------------------------------------------


def hint_text(todo_id: str, level: int = 1) -> str:
    """Hint 1, 2 or 3 of a TODO as Markdown, in the language spoken."""
    todo = find_todo(todo_id)
    hints = todo.hints[spoken()]
    if not (isinstance(level, int) and 1 <= level <= len(hints)):
        raise DecodeLabError(
            both(
                en=f"Ask for hint 1 to {len(hints)} of {todo.id}; there is no hint {level}.",
                zh=f"{todo.id} 有第 1 到 {len(hints)} 条提示，没有第 {level} 条。",
            )
        )
    head = tr(en=f"Hint {level} of {len(hints)}", zh=f"提示 {level}/{len(hints)}")
    last = tr(en=f'The reference: `solution("{todo.id}")`', zh=f'参考实现：`solution("{todo.id}")`')
    more = tr(
        en=f'Go further: `hint("{todo.id}", {level + 1})`', zh=f'再多一点：`hint("{todo.id}", {level + 1})`'
    )
    return f"**{head} · {todo.id} {say(todo.title)}**\n\n{hints[level - 1]}\n\n{last if level == len(hints) else more}"


def solution_text(todo_id: str) -> str:
    """The reference of a TODO and its explanation as Markdown; DecodeLabError where a class closed it."""
    todo = find_todo(todo_id)
    chapter_id = todo.id.split(".")[0]
    if chapter_id in closed_solutions():
        raise DecodeLabError(
            both(
                en=f'Your class has closed the solutions of {chapter_id} for now; try hint("{todo.id}", 3).',
                zh=f'你所在的班级暂时关闭了 {chapter_id} 的参考答案；可以先看 hint("{todo.id}", 3)。',
            )
        )
    return (
        f"**{todo.id} {say(todo.title)}**\n\n```python\n{todo.code.rstrip()}\n```\n\n{say(todo.explanation)}"
    )


def closed_solutions() -> set[str]:
    """Chapters whose solutions a graded class closed: ``DECODELAB_CLOSED_SOLUTIONS=ch01,ch02`` or ``course.json``."""
    named = set(os.environ.get("DECODELAB_CLOSED_SOLUTIONS", "").replace(" ", "").split(","))
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        settings = json.loads((home() / "course.json").read_text(encoding="utf-8"))
        named |= set(settings.get("closed", []))
    return named


def find_todo(todo_id: str) -> Todo:
    """The TODO of this id, in whichever chapter it is."""
    return course.load(normal(todo_id)).todo(normal(todo_id))


def progress_rows() -> list[dict[str, Any]]:
    """One dict a TODO: chapter, todo, title, level, state, points, max_points, when."""
    rows = []
    for chapter in map(course.load, course.chapter_ids()):
        known = records(chapter.id)
        for todo in chapter.todos:
            record = known.get(todo.id, Record("not_started", "", ""))
            rows.append(
                {
                    "chapter": chapter.id,
                    "todo": todo.id,
                    "title": say(todo.title),
                    "level": todo.level,
                    "state": record.state,
                    "points": todo.points if record.state == "passed" else 0,
                    "max_points": todo.points,
                    "when": record.when,
                }
            )
    return rows


def progress_table() -> tuple[list[str], list[list[str]]]:
    """Head and lines of the progress table in the language spoken, a total last."""
    from decodelab.check import feedback

    extension = tr(en=" (extension)", zh="（扩展）")
    rows = progress_rows()
    lines = [
        [
            row["todo"],
            row["title"] + (extension if row["level"] == "extension" else ""),
            f"{feedback.MARKS.get(row['state'], '✗')} {feedback.state_name(row['state'])}",
            f"{row['points']:g}/{row['max_points']:g}",
            row["when"].replace("T", " ")[:16],
        ]
        for row in rows
    ]
    points = f"{sum(r['points'] for r in rows):g}/{sum(r['max_points'] for r in rows):g}"
    head = tr(en=["TODO", "title", "state", "points", "when"], zh=["TODO", "标题", "状态", "得分", "时间"])
    return head, [*lines, [tr(en="total", zh="合计"), "", "", points, ""]]


# The work folder -----------------------------------------------------------------------------


def course_folder() -> Path:
    """The checkout with ``notebooks/`` that we are in, else the one this package was installed from."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    raise DecodeLabError(
        both(
            en="Run this inside the folder that you cloned the course into (it holds notebooks/).",
            zh="请在克隆下来的课程文件夹（里面有 notebooks/）中运行这个命令。",
        )
    )


def prepare(lang: str) -> tuple[Path, list[str], list[str]]:
    """Make ``work/<lang>``: (folder, names of notebooks copied, names of those already there and left alone)."""
    root = course_folder()
    folder, copied, kept = root / "work" / lang, [], []
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted((root / "notebooks" / lang).glob("*.ipynb")):
        if copy_new(source, folder / source.name):
            copied.append(source.name)
        else:
            kept.append(source.name)
    return folder, copied, kept


def copy_new(source: Path, target: Path) -> bool:
    """Copy unless there is something of that name already; True if copied."""
    try:
        with source.open("rb") as old, target.open("xb") as new:
            shutil.copyfileobj(old, new)
    except FileExistsError:
        return False
    return True


def reset(chapter_id: str, lang: str | None = None) -> tuple[Path, Path | None]:
    """A fresh notebook in the work folder: (its path, the path of the backup of the one before, if any).

    Without ``lang``: the edition that is in the work folder, if there is just one.
    """
    root, chapter = course_folder(), course.load(chapter_id)
    name = f"{chapter.name}.ipynb"
    worked_in = [one for one in LANGUAGES if (root / "work" / one / name).exists()]
    lang = lang or (worked_in[0] if len(worked_in) == 1 else spoken())
    source, target = root / "notebooks" / lang / name, root / "work" / lang / name
    if not source.is_file():
        raise DecodeLabError(
            both(
                en=f"notebooks/{lang}/{name} is missing; run `decodelab build` (authors) or clone the course again.",
                zh=f"缺少 notebooks/{lang}/{name}；请重新克隆课程，课程作者可运行 `decodelab build`。",
            )
        )
    backup = None
    if target.exists():
        backup = free_name(target, "backup")
        os.replace(target, backup)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy_new(source, target)
    return target, backup


# A notebook file -----------------------------------------------------------------------------


@dataclass
class Checked:
    """A notebook file, judged with the visible checks."""

    chapter: Chapter
    lang: str
    submission: Submission
    results: list[TodoResult]

    def count(self, level: str) -> tuple[int, int]:
        """(passed, all) TODOs of a level."""
        of_level = {t.id for t in self.chapter.todos if t.level == level}
        return sum(r.todo in of_level and r.state == "passed" for r in self.results), len(of_level)

    @property
    def good(self) -> bool:
        """Every core TODO passed."""
        return len(set(self.count("core"))) == 1


def check_file(path: Path, lang: str | None = None) -> Checked:
    """Judge a notebook file; from here on its language is spoken unless ``lang`` names another."""
    from decodelab.grading.judge import judge
    from decodelab.notebook.read import find_answers, read_notebook

    notebook = read_notebook(path)
    speak(lang or notebook.lang or spoken())
    chapter = chapter_of(notebook, path)
    submission = find_answers(notebook.cells, chapter)
    return Checked(chapter, notebook.lang or spoken(), submission, judge(chapter, submission))


def chapter_of(notebook: Notebook, path: Path) -> Chapter:
    """The chapter of a notebook: by its metadata, else its file name, else the answers found in it."""
    from decodelab.notebook.read import find_answers

    known = course.chapter_ids()
    named = re.match(r"ch\d\d", path.name)
    for guess in (notebook.chapter, named and named[0]):
        if guess in known:
            return course.load(guess)
    found = {one: len(find_answers(notebook.cells, course.load(one)).answers) for one in known}
    best = max(found, key=found.__getitem__, default=None)
    if best is None or not found[best]:
        raise DecodeLabError(
            both(
                en=f"{path.name} holds no answer to any TODO of this course; is it the right file?",
                zh=f"在 {path.name} 里没有找到本课程任何 TODO 的答案；请确认选对了文件。",
            )
        )
    return course.load(best)


@dataclass
class Imported:
    """What ``import_file`` did: the judged file, and the copy it made in the work folder, if it made one."""

    checked: Checked
    copy: Path | None
    there: Path | None  # the notebook that was there already and was left alone


def import_file(path: Path, lang: str | None = None) -> Imported:
    """Bring a notebook from elsewhere: keep what passes, and put a copy into ``work/`` unless one is there."""
    checked = check_file(path, lang)
    save(checked.chapter, checked.lang, checked.submission, checked.results)
    try:
        folder = course_folder() / "work" / checked.lang
    except DecodeLabError:  # installed without the course's files: what passed is kept all the same
        return Imported(checked, None, None)
    target = folder / f"{checked.chapter.name}.ipynb"
    folder.mkdir(parents=True, exist_ok=True)
    if copy_new(path, target):
        return Imported(checked, target, None)
    return Imported(checked, None, target)


def own_work(path: Path) -> bool:
    """Whether a file lies in the learner's own work folder."""
    with contextlib.suppress(DecodeLabError):
        return (course_folder() / "work") in path.resolve().parents
    return False
