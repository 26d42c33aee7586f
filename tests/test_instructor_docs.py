"""docs/instructors.md is a path that can be walked: its commands run, in their order, on a class of two."""

from __future__ import annotations

import csv
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from handed_in import ROOT, notebook, write

PAGES = {"en": ROOT / "docs" / "instructors.md", "zh": ROOT / "docs" / "instructors.zh.md"}
NOT_RUN = {
    "python3 -m venv .venv": "needs the network in the next line",
    ". .venv/bin/activate": "the test's own environment is active",
    'pip install -c constraints.txt -e ".[lab,grade,dev,torch]"': "network",
    "sudo apt install bubblewrap": "network and root",
    "jupyter lab": "a browser; test_browser.py drives the formgrader",
}
SERVERS = ("dask scheduler", "dask worker")  # they run beside the commands after them
SHORTER = {"decodelab prove ch01": "decodelab prove ch01 --seeds 1"}  # all hundred: test_prove.py
ALL_GO = ("--shard 1/2", "--dask")  # shown for a class without verdicts


def blocks(page: Path) -> list[list[str]]:
    """The commands of every bash block."""
    text = page.read_text(encoding="utf-8")
    return [block.splitlines() for block in re.findall(r"^```bash\n(.*?)^```", text, re.M | re.S)]


def test_both_languages_have_the_same_commands():
    assert blocks(PAGES["en"]) == blocks(PAGES["zh"])


def test_what_is_not_run_is_on_the_page():
    on_page = {line for block in blocks(PAGES["en"]) for line in block}
    assert NOT_RUN.keys() | SHORTER.keys() <= on_page
    assert all(any(line.startswith(server) for line in on_page) for server in SERVERS)


def test_git_leaves_the_class_and_the_secret_out():
    private = [
        "class/roster.csv",
        "class/graded/grades.csv",
        "grader/.decodelab/secret",
        "grader/submitted/x",
    ]
    run = subprocess.run(["git", "check-ignore", *private], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.split() == private


def roster_on(page: Path) -> str:
    """The class list that the Chinese page shows, as CSV."""
    rows = re.findall(r"^\| ((?:学号|\d+) .*) \|$", page.read_text(encoding="utf-8"), re.M)
    return "\n".join(row.replace(" | ", ",") for row in rows)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course before its first grading, with a download from Canvas and the Chinese page's class list."""
    for name in ("src", "grader", "solutions", "notebooks"):
        left = shutil.ignore_patterns(
            ".decodelab",
            "source",
            "release",
            "submitted",
            "autograded",
            "feedback",
            "gradebook.db*",
            "__pycache__",
        )
        shutil.copytree(ROOT / name, tmp_path / name, ignore=None if name == "src" else left)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    downloads = tmp_path / "class" / "downloads"
    downloads.mkdir(parents=True)
    (downloads.parent / "roster.csv").write_text(roster_on(PAGES["zh"]), encoding="utf-8")
    write(downloads / "leeann_4711_90_ch01_decode_scheduler-1.ipynb", notebook("ch01", "en"))
    mistaken = notebook("ch01", "zh", {"ch01.2": "return (0,)"})
    write(downloads / "李伟_late_4712_91_ch01_decode_scheduler.ipynb", mistaken)
    return tmp_path


class Walk:
    """Somebody at the terminal, who begins each block in the course's folder."""

    def __init__(self, course: Path) -> None:
        self.course = course
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "PYTHONPATH": str(course / "src")}
        self.servers: list[subprocess.Popen[bytes]] = []
        self.ran: list[str] = []

    def block(self, lines: list[str]) -> None:
        """Its commands, up to the first that fails."""
        at = self.course
        for line in lines:
            if line.startswith("cd "):
                at /= line.removeprefix("cd ")
            elif line not in NOT_RUN:
                self.command(line, at)

    def command(self, line: str, at: Path) -> None:
        """One line, by a shell; a server goes on beside what follows."""
        self.ran.append(line)
        typed = SHORTER.get(line, line).replace("8786", self.port)
        if line.startswith(SERVERS):
            self.serve(typed, at)
            return
        if any(option in line for option in ALL_GO):
            shutil.rmtree(self.course / "class" / "graded" / "results")
        run = subprocess.run(typed, shell=True, cwd=at, env=self.environment, capture_output=True, text=True)
        assert run.returncode == 0, f"{line}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"

    def serve(self, typed: str, at: Path) -> None:
        port = f" --port {self.port} --no-dashboard" if "scheduler" in typed else " --no-dashboard"
        quiet = subprocess.DEVNULL
        words = [*typed.split(), *port.split()]
        self.servers.append(subprocess.Popen(words, cwd=at, env=self.environment, stdout=quiet, stderr=quiet))


@contextmanager
def walk(course: Path) -> Iterator[Walk]:
    """A Walk; its servers end with it."""
    walker = Walk(course)
    try:
        yield walker
    finally:
        for server in walker.servers:
            server.terminate()
            server.wait()


def points(table: Path, who: str, column: str) -> dict[str, str]:
    """``column`` by ``who``."""
    with table.open(encoding="utf-8", newline="") as lines:
        return {row[who]: row[column] for row in csv.DictReader(lines)}


@pytest.mark.slow
def test_the_page_leads_from_downloads_to_grades(course: Path):
    graded = course / "class" / "graded"
    with walk(course) as walker:
        for block in blocks(PAGES["en"]):
            walker.block(block)
    assert len(walker.ran) > 15
    canvas = points(graded / "lms" / "canvas.csv", "ID", "Decode Lab ch01")
    most = float(canvas.pop(""))
    assert float(canvas["4711"]) == most
    assert 0 < float(canvas["4712"]) < most
    assert points(graded / "lms" / "moodle.csv", "ID number", "Full name") == {
        "1001": "Ann Lee",
        "1002": "李伟",
    }
    states = points(graded / "grades.csv", "todo", "state")  # the last student's
    assert states["ch01.2"] == "failed"
    assert {graded / "feedback" / who / "ch01.html" for who in ("1001", "1002")} == {
        *graded.glob("feedback/*/*")
    }
    assert "李伟" in (graded / "feedback" / "1002" / "ch01.html").read_text(encoding="utf-8")
    assert (graded / "report.html").is_file()
    scores = points(course / "grader" / "grades.csv", "student_id", "score")
    totals = points(graded / "lms" / "moodle.csv", "ID number", "Decode Lab ch01 extension")
    for who, number in (("1001", "4711"), ("1002", "4712")):
        assert float(scores[who]) == float(canvas[number]) + float(totals[who])
    assert len(list(course.glob("grader/feedback/*/ch01/*.html"))) == 2
