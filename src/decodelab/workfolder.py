"""``work/<lang>``, where learners work: filled once, never overwritten; what must give way is kept beside it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from decodelab import course
from decodelab.checkfile import Checked, check_file
from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.lang import LANGUAGES, both, spoken
from decodelab.notebook.read import read_notebook
from decodelab.records import free_name, open_todos, save

SETTINGS = Path(__file__).parent / "jupyter"  # with nbgrader's extensions off


def course_folder() -> Path:
    """The checkout of this course that we are in, else the one this package was installed from."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and is_course(folder / "pyproject.toml"):
            return folder
    raise DecodeLabError(
        both(
            en="Run this inside the folder that you cloned the course into (it holds notebooks/).",
            zh="请在克隆下来的课程文件夹（里面有 notebooks/）中运行这个命令。",
        )
    )


def is_course(pyproject: Path) -> bool:
    """Whether a pyproject.toml says where this course is published; others have ``notebooks/`` too."""
    with contextlib.suppress(OSError, ValueError):
        return bool(re.search(r"^\[tool\.decodelab\]", pyproject.read_text(encoding="utf-8"), re.M))
    return False


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Make ``folder`` and put something into it; DecodeLabError where the system does not let us."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as reason:
        raise DecodeLabError(
            both(
                en=f"{folder} must be a folder that you may write to ({reason.strerror}).",
                zh=f"{folder} 必须是一个可写的文件夹（{reason.strerror}）。",
            )
        ) from reason


def prepare(lang: str) -> tuple[Path, list[str], list[str]]:
    """Make ``work/<lang>``: (folder, names of notebooks copied, names of those already there and left alone)."""
    root = course_folder()
    folder = root / "work" / lang
    copied: list[str] = []
    kept: list[str] = []
    with filling(folder):
        for source in sorted((root / "notebooks" / lang).glob("*.ipynb")):
            new = copy_new(source, folder / source.name)
            (copied if new else kept).append(source.name)
    return folder, copied, kept


def copy_new(source: Path, target: Path) -> bool:
    """Copy unless there is something of that name already; True if copied."""
    try:
        with source.open("rb") as old, target.open("xb") as new:
            shutil.copyfileobj(old, new)
    except FileExistsError:
        return False
    return True


def same(one: Path, other: Path) -> bool:
    """Whether two notebooks hold the same cells, whatever their outputs; what cannot be read is its own."""
    with contextlib.suppress(DecodeLabError):
        return read_notebook(one).cells == read_notebook(other).cells
    return False


def place(chapter: Chapter, lang: str) -> tuple[Path, Path]:
    """A chapter's notebook as it is handed out, and where a learner's own one lies."""
    root, name = course_folder(), f"{chapter.name}.ipynb"
    return root / "notebooks" / lang / name, root / "work" / lang / name


def next_notebook(folder: Path) -> Path:
    """The notebook to open in ``work/<lang>``: of the first chapter that is not done, else of the last one."""
    there = [c for c in map(course.load, course.chapter_ids()) if (folder / f"{c.name}.ipynb").is_file()]
    unfinished = next((c for c in there if open_todos(c)), there[-1] if there else None)
    return folder / f"{unfinished.name}.ipynb" if unfinished else folder


def jupyter_environment() -> dict[str, str]:
    """The environment of a learner's Jupyter, and of no other: without nbgrader's buttons.

    Its *Validate* runs the notebook and takes whatever raises no exception for a success, an untouched TODO too.
    """
    paths = [str(SETTINGS), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


def reset(chapter_id: str, lang: str | None = None) -> tuple[Path, Path | None]:
    """A fresh notebook in the work folder: (its path, the backup of the one before if something was changed in it).

    Without ``lang``: the edition that is in the work folder, if there is just one.
    """
    chapter = course.load(chapter_id)
    worked_in = [one for one in LANGUAGES if place(chapter, one)[1].exists()]
    lang = lang or (worked_in[0] if len(worked_in) == 1 else spoken())
    source, target = place(chapter, lang)
    if not source.is_file():
        raise DecodeLabError(
            both(
                en=f"notebooks/{lang}/{source.name} is missing; run `decodelab build` (authors) or clone the course again.",
                zh=f"缺少 notebooks/{lang}/{source.name}；请重新克隆课程，课程作者可运行 `decodelab build`。",
            )
        )
    backup = None
    with filling(target.parent):
        if target.exists() and not same(source, target):
            backup = free_name(target, "backup")
            os.replace(target, backup)
        shutil.copyfile(source, target)
    return target, backup


@dataclass
class Imported:
    """What ``import_file`` did: the judged file, the copy it made in the work folder, and what was there before it."""

    checked: Checked
    copy: Path | None = None  # None: no work folder here, or the same notebook is there already
    there: Path | None = None  # a notebook of the learner's that was left as it is
    problem: DecodeLabError | None = None  # why something could not be written


def import_file(path: Path, lang: str | None = None) -> Imported:
    """Bring a notebook from elsewhere: keep what passes, and put a copy into ``work/``.

    It takes the place of a notebook that nobody has changed, and stands beside one that somebody has.
    """
    done = Imported(check_file(path, lang))
    try:
        save(done.checked.chapter, done.checked.lang, done.checked.submission, done.checked.results)
        done.copy, done.there = bring(path, done.checked)
    except DecodeLabError as problem:  # the verdict is worth telling all the same
        done.problem = problem
    return done


def bring(path: Path, checked: Checked) -> tuple[Path | None, Path | None]:
    """Copy a judged notebook into the work folder: (the copy, what was there and is left as it is)."""
    try:
        source, target = place(checked.chapter, checked.lang)
    except DecodeLabError:  # installed without the course's files: what passed is kept all the same
        return None, None
    with filling(target.parent):
        if target.exists() and same(path, target):
            return None, target
        if not target.exists() or same(source, target):
            shutil.copyfile(path, target)
            return target, None
        beside = free_name(target, "imported")
        shutil.copyfile(path, beside)
        return beside, target


def own_work(path: Path) -> bool:
    """Whether a file lies in the learner's own work folder."""
    with contextlib.suppress(DecodeLabError):
        return (course_folder() / "work") in path.resolve().parents
    return False
