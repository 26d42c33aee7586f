"""nbgrader's side of grading: our stubs stand in for its stubs, our judge for running the notebook.

``grader/`` is an nbgrader course whose ``nbgrader_config.py`` calls ``configure``. An assignment is a
chapter (``ch01``), its notebook has the chapter's name, and the English edition registers it; a
submission in either language is graded by it, since grade ids are the same in both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

from decodelab.check import feedback
from decodelab.check.rules import TodoResult
from decodelab.course import load
from decodelab.errors import DecodeLabError
from decodelab.grading.grade import Course, Graded, for_student, grade_notebook, submitted_bytes, unreadable
from decodelab.lang import LANGUAGES, Text, both, say, speaking
from decodelab.notebook.build import chapter_paths, instructor_notebook
from decodelab.notebook.emit import to_json
from decodelab.notebook.read import from_content, parse
from decodelab.notebook.setup import read_publishing
from decodelab.notebook.source import stub
from decodelab.notebook.whole import normalised


def configure(
    c: Any, course: Path, grader: Path | None = None, chapters: Sequence[str] | None = None
) -> None:
    """Make ``course`` an nbgrader course for these chapters (all by default).

    c: the configuration object of traitlets.
    course: nbgrader's root, where it keeps its folders and gradebook, and we the course's secret.
    grader: the folder with ``suites/``, in a checkout of the course; ``course`` itself by default.
    """
    course = course.resolve()
    grader = (grader or course).resolve()
    write_source(grader.parent, course, chapters)
    find_alembic()
    c.CourseDirectory.root = str(course)
    c.CourseDirectory.course_id = "decodelab"
    stubs, sanitize, grade = (
        GenerateAssignment.preprocessors.default(),
        Autograde.sanitize_preprocessors.default(),
        Autograde.autograde_preprocessors.default(),
    )
    c.GenerateAssignment.preprocessors = [ClearTodos if p is ClearSolutions else p for p in stubs]
    c.Autograde.sanitize_preprocessors = [Restore, *sanitize]
    c.Autograde.autograde_preprocessors = [Judge if p is Execute else p for p in grade]
    c.Autograde.exporter_class = AnyNotebook
    c.Judge.course, c.Judge.grader = str(course), str(grader)


def find_alembic() -> None:
    """Put this environment's programs on the PATH: nbgrader calls one of them when it makes a gradebook."""
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if here not in path.split(os.pathsep):
        os.environ["PATH"] = here + os.pathsep + path


def write_source(root: Path, course: Path, chapters: Sequence[str] | None = None) -> list[Path]:
    """Write the instructor's notebooks, ``course/source/ch01/ch01_name.ipynb``, from ``root``/solutions.

    Only those that are missing or older than what they are made of; returns their paths. BuildError
    where a chapter cannot be built.
    """
    written = []
    for source in chapter_paths(root):
        chapter = source.stem.split("_")[0]
        target = course / "source" / chapter / f"{source.stem}.ipynb"
        if (chapters is None or chapter in chapters) and older(target, source, root / "pyproject.toml"):
            notebook = instructor_notebook(source, "en", read_publishing(root))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(to_json(notebook), encoding="utf-8", newline="\n")
            written.append(target)
    return written


def older(target: Path, *sources: Path) -> bool:
    """Whether ``target`` is missing or was written before one of ``sources``."""
    if not target.exists():
        return True
    return any(s.exists() and s.stat().st_mtime > target.stat().st_mtime for s in sources)


class ClearTodos(NbGraderPreprocessor):
    """Puts the course's own stubs, one a TODO, into answer cells."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if cell.cell_type == "code" and is_solution(cell):
            cell.source = stub(cell.source)
        return cell, resources


class AnyNotebook(NotebookExporter):
    """Reads what nbformat refuses but ``decodelab check`` accepts; in place of what nobody can read, why."""

    def from_file(
        self, file_stream: Any, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        try:
            nb = notebook_of(Path(file_stream.name))
        except DecodeLabError as error:
            nb = explained(error.text)
        return self.from_notebook_node(nb, resources=resources, **kw)


def notebook_of(path: Path) -> NotebookNode:
    """The notebook at ``path``, without what nbformat cannot hold; DecodeLabError for what is no notebook."""
    data = submitted_bytes(path)
    content = parse(path, data)
    try:
        return nbformat.reads(normalised(data).decode(), as_version=4)
    except Exception:
        read = from_content(content)
    cells = []
    for cell in read.cells:
        known = {"nbgrader": {"grade_id": cell.grade_id}} if cell.grade_id else {}
        new = new_code_cell if cell.kind == "code" else new_markdown_cell
        cells.append(new(cell.source, metadata=known))
    return new_notebook(cells=cells, metadata={"decodelab": {"lang": read.lang, "chapter": read.chapter}})


def explained(why: Text) -> NotebookNode:
    """A notebook in place of one that cannot be read: what is wrong with it, in words, and as data."""
    title = both(
        en="The notebook that was handed in cannot be shown here.", zh="提交的 notebook 无法在这里显示。"
    )
    texts = [text[lang].replace("<", "&lt;") for lang in LANGUAGES for text in (title, why)]
    cell = new_markdown_cell("\n\n".join(texts), id="explained")
    return new_notebook(cells=[cell], metadata={"decodelab": {"unreadable": why}})


def not_read(nb: NotebookNode) -> Text | None:
    """Why ``explained`` stands in place of a submission; None for a submission."""
    ours = nb.metadata.get("decodelab")
    why = ours.get("unreadable") if isinstance(ours, dict) else None
    return dict(why) if isinstance(why, dict) and set(why) == set(LANGUAGES) else None


class Restore(NbGraderPreprocessor):
    """Gives every cell of a submission the grading metadata that the gradebook has for it, and no other.

    nbgrader itself believes a submission's own flags, and stops at a check cell that was deleted,
    doubled or lost its metadata. Of doubled cells the last one counts; a missing check cell is added.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        missing = registered_cells(resources["nbgrader"])
        for cell in reversed(nb.cells):
            own = cell.metadata.pop("nbgrader", None)
            named = own.get("grade_id") if isinstance(own, dict) else None
            grade_id = next((i for i in (named, cell.get("id")) if isinstance(i, str) and i in missing), None)
            if grade_id:
                cell.metadata.nbgrader = missing.pop(grade_id).metadata.nbgrader
        nb.cells += [cell for cell in missing.values() if is_grade(cell)]
        if (nb.nbformat, nb.nbformat_minor) < (4, 5):
            for cell in nb.cells:
                cell.pop("id", None)
        return nb, resources


def registered_cells(names: dict[str, str]) -> dict[str, NotebookNode]:
    """The cells that the gradebook knows of a notebook, by grade id, as they were registered.

    ``names``: what nbgrader calls ``resources["nbgrader"]``.
    """
    with Gradebook(names["db_url"]) as gradebook:
        notebook = gradebook.find_notebook(names["notebook"], names["assignment"])
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
        solutions = {cell.name for cell in notebook.solution_cells}
        cells = {}
        for cell in notebook.source_cells:
            metadata = {
                "schema_version": 3,
                "grade_id": cell.name,
                "grade": cell.name in points,
                "solution": cell.name in solutions,
                "locked": cell.locked,
                "task": False,
                "cell_type": cell.cell_type,
                "checksum": cell.checksum,
            }
            if cell.name in points:
                metadata["points"] = points[cell.name]
            new = new_code_cell if cell.cell_type == "code" else new_markdown_cell
            cells[cell.name] = new(cell.source, metadata={"nbgrader": metadata})
    return cells


class Judge(NbGraderPreprocessor):
    """Judges the submission and writes what was decided into its check cells; runs nothing in here.

    A check cell gets the feedback in the submission's language and, unless the TODO passed, an error
    output, by which nbgrader gives it 0 points; ``metadata.decodelab`` has the verdict as data. A fault
    of ours is raised, not graded: nbgrader leaves that submission ungraded, and it can be graded again.
    """

    course = Unicode(help="The nbgrader course's folder, which has the secret.").tag(config=True)
    grader = Unicode(help="The folder with suites/.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        names = resources["nbgrader"]
        chapter = load(names["notebook"].split("_")[0])
        course = Course.open(Path(self.grader), Path(self.course))
        if why := not_read(nb):
            graded = unreadable(why, chapter, names["student"], course)
        else:
            graded = grade_notebook(from_content(nb), chapter, names["student"], course)
        if faults := [result.finding.text for result in graded.ungraded if result.finding]:
            raise DecodeLabError(faults[0])
        fill(nb, graded)
        return nb, resources


def fill(nb: NotebookNode, graded: Graded) -> None:
    """Write a verdict into the check cells of a notebook: feedback for people, data for programs."""
    chapter = load(graded.chapter)
    verdicts = {chapter.todo(r.todo).check_id: r for r in graded.todos}
    how = {"seed": graded.seed, "sandbox": graded.sandbox, "suite_version": graded.suite_version}
    with speaking(graded.lang):
        for cell in nb.cells:
            if is_grade(cell) and not is_solution(cell):
                result = verdict_of(cell, verdicts)
                cell.outputs = outputs(for_student(result, chapter))
                cell.metadata["decodelab"] = as_data(result) | how


def verdict_of(cell: NotebookNode, verdicts: dict[str, TodoResult]) -> TodoResult:
    """The verdict on a check cell; a cell without one must not pass for lack of an error."""
    grade_id = cell.metadata.nbgrader.grade_id
    if grade_id not in verdicts:
        raise DecodeLabError(
            both(
                en=f"The gradebook has {grade_id}, this version of the course has not: generate the assignment again.",
                zh=f"成绩册里有 {grade_id}，这个版本的课程里没有：请重新运行 generate_assignment。",
            )
        )
    return verdicts[grade_id]


def outputs(result: TodoResult) -> list[NotebookNode]:
    """The feedback as a cell's outputs, and an error if the TODO did not pass."""
    page = {"text/html": feedback.as_html(result), "text/plain": feedback.as_text(result)}
    shown = new_output("display_data", data=page)
    if result.state == "passed":
        return [shown]
    name = result.rule or result.state
    text = say(result.finding.text) if result.finding else feedback.state_name(result.state)
    return [shown, new_output("error", ename=name, evalue=text, traceback=[name])]


def as_data(result: TodoResult) -> dict[str, Any]:
    """The verdict for who reads it later: a person in either language, or a program."""
    finding = result.finding
    return {
        "todo": result.todo,
        "state": result.state,
        "rule": result.rule or None,
        "message": finding.text if finding else None,
        "case": finding.case.get("name") if finding else None,
        "cases": result.cases,
        "notes": result.notes,
    }
