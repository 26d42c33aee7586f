"""nbgrader's side of ``decodelab grade --gradebook``: its rows and its ``autograded/``, from verdicts that stand.

nbgrader's own autograde writes them, as the plugin configures it, with the stored verdict in place of the
judge. So the formgrader shows what it would show after ``nbgrader autograde``, late penalties included,
and points, extra credit and comments that somebody gave by hand stay what they were.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import parse_utc
from traitlets import Unicode
from traitlets.config import Config, PyFileConfigLoader

from decodelab.course import Chapter, load
from decodelab.errors import DecodeLabError
from decodelab.grading.batch import Batch, Job, Verdict, result_path
from decodelab.grading.grade import Graded, submitted_bytes
from decodelab.grading.nbgrader_plugin import Judge, configure, fill
from decodelab.lang import both


class Recall(NbGraderPreprocessor):
    """Stands where ``Judge`` stands, and takes the verdict from ``OUT/results`` instead of judging."""

    out = Unicode(help="The folder with results/.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        names = resources["nbgrader"]
        stored = result_path(Path(self.out), names["student"], names["assignment"]).read_text(
            encoding="utf-8"
        )
        fill(nb, Verdict.from_json(json.loads(stored)).graded)
        return nb, resources


def write(batch: Batch, grader: Path, where: str) -> None:
    """Bring the gradebook at ``where`` and the ``autograded`` folder beside it up to this batch.

    where: ``sqlite:///…``, the path of a database, or an nbgrader course's folder, which has ``gradebook.db``.
    DecodeLabError names the submissions that nbgrader did not take.
    """
    root, url = place(where)
    warnings.filterwarnings("ignore", module="nbgrader")  # SQLAlchemy's, about nbgrader's own code
    jobs = {(job.student, job.chapter): job for job in batch.jobs}
    chapters = sorted({graded.chapter for graded in batch.graded})
    refused: list[str] = []
    for chapter in map(load, chapters):
        course = open_course(root, url, grader, batch.out, chapter.id)
        register(course, chapter)
        left = [(graded, jobs[graded.student, graded.chapter]) for graded in batch.graded]
        left = [(graded, job) for graded, job in left if graded.chapter == chapter.id and not graded.ungraded]
        autograde(course, chapter, left)
        missing = [graded for graded, _ in left if not autograded(root, chapter, graded).is_file()]
        refused += [f"{graded.student}/{chapter.id}" for graded in missing]
    if refused:
        raise DecodeLabError(
            both(
                en=f"nbgrader did not take {', '.join(refused)}: rename these students' folders and run this again.",
                zh=f"nbgrader 没有接受 {'、'.join(refused)}：请修改这些学生的文件夹名后再运行一次。",
            )
        )


def place(where: str) -> tuple[Path, str]:
    """nbgrader's course folder, and its gradebook as a URL."""
    path = Path(where.removeprefix("sqlite:///")).absolute()
    if path.is_dir():
        path /= "gradebook.db"
    return path.parent.resolve(), f"sqlite:///{path}"


def open_course(root: Path, url: str, grader: Path, out: Path, chapter_id: str) -> NbGraderAPI:
    """The course as its own ``nbgrader_config.py`` and the plugin configure it, with ``Recall`` for the judge."""
    config = own_config(root, grader)
    configure(config, root, grader, [chapter_id])
    stages = config.Autograde.autograde_preprocessors
    config.Autograde.autograde_preprocessors = [Recall if stage is Judge else stage for stage in stages]
    config.CourseDirectory.db_url = url
    config.Recall.out = str(out)
    return NbGraderAPI(CourseDirectory(config=config), config=config, log_level="ERROR")


def own_config(*folders: Path) -> Config:
    """The settings of the first ``nbgrader_config.py`` in these folders: late penalties, for one."""
    for folder in folders:
        if (folder / "nbgrader_config.py").is_file():
            return PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    return Config()


def register(course: NbGraderAPI, chapter: Chapter) -> None:
    """Run ``nbgrader generate_assignment`` if the gradebook does not know the chapter."""
    try:
        with course.gradebook as gradebook:
            gradebook.find_notebook(chapter.name, chapter.id)
    except MissingEntry:
        done = course.generate_assignment(chapter.id)
        if not done["success"]:
            raise DecodeLabError(
                both(
                    en=f"nbgrader could not generate {chapter.id}: run `nbgrader generate_assignment {chapter.id}` "
                    "and see what it says.",
                    zh=f"nbgrader 无法生成 {chapter.id}：请运行 `nbgrader generate_assignment {chapter.id}` 查看原因。",
                )
            ) from None


def autograde(course: NbGraderAPI, chapter: Chapter, handed_in: Sequence[tuple[Graded, Job]]) -> None:
    """Run ``nbgrader autograde`` over these."""
    own = course.coursedir.submitted_directory
    with TemporaryDirectory(prefix="decodelab-") as folder:
        for graded, job in handed_in:
            here = Path(folder, graded.student, chapter.id)
            here.mkdir(parents=True)
            (here / f"{chapter.name}.ipynb").write_bytes(submitted_bytes(job.path))
            if stamp := timestamp(job.path.parent):
                (here / "timestamp.txt").write_text(stamp, encoding="utf-8")
            kept = Path(course.coursedir.root, own, graded.student, chapter.id)
            if not kept.exists():
                shutil.copytree(job.path.parent, kept, symlinks=True)
        if handed_in:
            course.coursedir.submitted_directory = folder
            course.autograde(chapter.id, "*")
            course.coursedir.submitted_directory = own


def timestamp(folder: Path) -> str:
    """When it was handed in, as nbgrader wants it; ``""`` where nothing readable says so."""
    try:
        stamp = (folder / "timestamp.txt").read_text(encoding="utf-8").strip()
        parse_utc(stamp)
    except (OSError, ValueError):
        return ""
    return stamp


def autograded(root: Path, chapter: Chapter, graded: Graded) -> Path:
    """Where nbgrader puts the graded notebook."""
    return root / "autograded" / graded.student / chapter.id / f"{chapter.name}.ipynb"
