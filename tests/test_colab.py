"""Where learners run without a checkout: Colab's pins, a plain environment, and no way to the repository.

What stands for Colab here: its versions (June 2026) of what the course touches, on Python 3.11, with
torch 2.13.0 in place of its 2.11.0, the CPU build of which a machine may have on its disk. The course is
published as it would be: a git repository with a tag, and a zip of that tag.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from decodelab import course
from decodelab.grading.splice import needs
from decodelab.notebook.build import instructor_notebook
from decodelab.notebook.emit import to_json
from decodelab.notebook.setup import Publishing, setup_cell

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
RELEASE = "v0.test"
COLAB = (
    "ipykernel==6.17.1",
    "ipython==7.34.0",
    "ipywidgets==7.7.1",
    "jupyter_client==7.4.9",
    "matplotlib==3.10.0",
    "nbclient==0.10.4",
    "nbformat==5.10.4",
    "notebook==6.5.7",
    "numpy==2.0.2",
    "traitlets==5.7.1",
    "widgetsnbextension==3.6.10",
    "safetensors==0.8.0",
    "tokenizers==0.23.3",
    "torch==2.13.0",
)
ORIGIN = """
import decodelab, importlib.metadata, pathlib, sys
assert pathlib.Path(sys.prefix) in pathlib.Path(decodelab.__file__).parents
print(importlib.metadata.distribution("decodelab").read_text("direct_url.json"))
"""


def say(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command that must succeed; its stdout."""
    run = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return run.stdout


@dataclass(frozen=True)
class Machine:
    """A virtual environment that knows nothing of this checkout, and a folder of its own to work in."""

    folder: Path

    @classmethod
    def made(cls, python: str, folder: Path, *packages: str) -> Machine:
        machine = cls(folder)
        say(python, "-m", "venv", folder / "venv", cwd=folder)
        if packages:
            machine.pip("install", "--quiet", *packages)
        return machine

    def run(self, program: str, *arguments: str | Path) -> str:
        ours = ("PYTHON", "VIRTUAL_ENV", "PYENV", "JUPYTER", "DECODELAB", "COVERAGE", "MPL")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        for name in ("DECODELAB_HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            env[name] = str(self.folder / name.lower())
        env |= {"IPYTHONDIR": str(self.folder / "ipython"), "MPLCONFIGDIR": str(self.folder / "matplotlib")}
        return say(self.folder / "venv" / "bin" / program, *arguments, cwd=self.folder, env=env)

    def pip(self, *arguments: str | Path) -> str:
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments)

    def execute(self, notebook: dict[str, Any], name: str) -> dict[str, Any]:
        """The notebook, run from top to bottom by this machine's own kernel; a cell that fails fails it."""
        path = self.folder / f"{name}.ipynb"
        path.write_text(to_json(notebook), encoding="utf-8")
        self.run("jupyter-execute", "--inplace", "--timeout=120", "--kernel_name=python3", path)
        return json.loads(path.read_text(encoding="utf-8"))

    def packages(self) -> list[str]:
        """``name==version`` of everything but the course."""
        frozen = self.pip("freeze").splitlines()
        return [line for line in frozen if not line.startswith("decodelab")]

    def saved(self, chapter: str) -> dict[str, str]:
        """The states of a chapter's TODOs, as the checks saved them; the record is used up."""
        path = self.folder / "decodelab_home" / f"{chapter}.json"
        todos = json.loads(path.read_text(encoding="utf-8"))["todos"]
        path.unlink()
        return {todo: record["state"] for todo, record in todos.items()}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Publishing:
    """This working tree, committed and tagged in a repository of its own, and its zip."""
    checkout, zipped = (tmp_path_factory.mktemp("published") / name for name in ("course", "course.zip"))
    listed = say("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (["init"], ["add", "--all"], [*who, "commit", "--message=Release"], ["tag", RELEASE]):
        say("git", *command, cwd=checkout)
    say("git", "archive", f"--prefix=course-{RELEASE}/", "--output", zipped, RELEASE, cwd=checkout)
    return Publishing(checkout.as_uri(), zipped.as_uri(), RELEASE)


@pytest.fixture(scope="module")
def colab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("colab")
    yield Machine.made(sys.executable, folder, *COLAB)
    shutil.rmtree(folder)  # over a gigabyte, which pytest would keep


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a repository that takes a call and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/course.git"


def solved(chapter: str, lang: str, publishing: Publishing) -> dict[str, Any]:
    name = course.load(chapter).name
    return instructor_notebook(ROOT / "solutions" / f"{name}.py", lang, publishing)


def only_setup(publishing: Publishing) -> dict[str, Any]:
    notebook = solved("ch01", "zh", publishing)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"][:1]
    assert "ls-remote" in "".join(cells[0]["source"])
    return notebook | {"cells": cells}


def printed(notebook: dict[str, Any]) -> str:
    """All text that a run notebook shows."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join("".join(text) for text in texts)


# --- Colab ------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", ["repository", "nothing there", "silence"])
def test_the_setup_cell_installs_the_release_and_nothing_else(
    colab: Machine, published: Publishing, silent: str, answers: str
) -> None:
    urls = {"repository": published.repository, "nothing there": f"{published.repository}-gone"}
    publishing = replace(published, repository=urls.get(answers, silent))
    colab.pip("uninstall", "--quiet", "--yes", "decodelab")
    before, complaints, begun = colab.packages(), colab.pip("check"), time.monotonic()

    run = colab.execute(only_setup(publishing), "setup")

    origin = json.loads(colab.run("python", "-c", ORIGIN))
    if answers == "repository":
        assert (origin["url"], origin["vcs_info"]["requested_revision"]) == (published.repository, RELEASE)
    else:
        assert origin["url"] == published.mirror
    assert time.monotonic() - begun < 60
    assert colab.packages() == before
    assert colab.pip("check") == complaints
    assert set(COLAB) - {"torch==2.13.0"} <= set(before)
    assert printed(run) == "准备好了：第 1 章，中文版。\n"


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("chapter", course.chapter_ids())
def test_a_solved_notebook_runs_through(
    colab: Machine, published: Publishing, chapter: str, lang: str
) -> None:
    run = colab.execute(solved(chapter, lang, published), f"{chapter}-{lang}")
    todos = course.load(chapter).todos
    assert colab.saved(chapter) == {todo.id: "passed" for todo in todos}
    for todo in todos:
        assert f"✓ {todo.id} {todo.title[lang]}" in printed(run)
    assert all(
        output["output_type"] != "error" for cell in run["cells"] for output in cell.get("outputs", [])
    )


# --- a plain environment ----------------------------------------------------------------------


def interpreter(version: str) -> str:
    """The path of a Python of this version; pyenv's shims are asked for the real one."""
    shim = shutil.which(f"python{version}")
    if shim:
        ask = [shim, "-c", "import sys; print(sys.executable)"]
        env = os.environ | {"PYENV_VERSION": version}
        run = subprocess.run(ask, env=env, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return run.stdout.strip()
    pytest.skip(f"no python{version} on this machine")


@pytest.mark.parametrize(
    ("version", "numpy"), [("3.10", "numpy==1.24.4"), ("3.11", "numpy"), ("3.12", "numpy")]
)
def test_the_package_is_all_a_learner_needs(
    tmp_path: Path, published: Publishing, version: str, numpy: str
) -> None:
    machine = Machine.made(interpreter(version), tmp_path, numpy, published.mirror)
    use_chapter = ("-c", "import decodelab; print(decodelab.chapter('ch01').DecodeSchedulerSim)")
    assert "reference is used" in machine.run("python", *use_chapter)

    for chapter in (c for c in course.chapter_ids() if not needs(course.load(c))):
        path = tmp_path / f"{chapter}.ipynb"
        path.write_text(to_json(solved(chapter, "en", published)), encoding="utf-8")
        core = sum(todo.level == "core" for todo in course.load(chapter).todos)
        said = machine.run("decodelab", "check", path)
        assert said.splitlines()[-1] == f"{chapter}: {core}/{core} TODOs passed"
        assert "reference is used" in machine.run(
            "python", "-c", f"import decodelab; decodelab.chapter({chapter!r})"
        )

    machine.run("decodelab", "import", tmp_path / "ch01.ipynb")
    assert "your own code is used" in machine.run("python", *use_chapter)
    assert set(machine.saved("ch01").values()) == {"passed"}


def test_the_setup_cell_names_what_is_missing(tmp_path: Path, published: Publishing) -> None:
    machine = Machine.made(sys.executable, tmp_path)
    said = machine.run("python", "-c", setup_cell("ch01", "en", published))
    assert said.splitlines() == [
        "Still missing here, run: %pip install numpy matplotlib ipywidgets",
        "Ready: chapter 1, in English.",
    ]
    assert machine.packages() == []
