"""``decodelab grade``: a class graded once, killed and resumed, in shards, and over Dask: always the same files."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from handed_in import notebook

from decodelab.check.rules import TodoResult
from decodelab.course import load
from decodelab.errors import DecodeLabError
from decodelab.grading import batch, executors
from decodelab.grading.batch import Batch, Job, Means, Verdict
from decodelab.grading.grade import Graded, suite_version
from decodelab.grading.sandbox import Rung
from decodelab.grading.suites import course_secret, load_suite, student_seed
from decodelab.lang import speaking

ROOT = Path(__file__).parent.parent
CHAPTER = load("ch01")
FILE = f"{CHAPTER.name}.ipynb"
WRONG = {v.name: v.regions for v in load_suite(ROOT / "grader", "ch01").WRONG}
FULL = sum(t.points for t in CHAPTER.todos)
FORMULA = "=cmd|' C'!A1, \"q\""


def made(lang: str = "en", changes: dict[str, str] | None = None, chapter_id: str = "ch01") -> bytes:
    return json.dumps(notebook(chapter_id, lang, changes), ensure_ascii=False).encode()


def unmarked() -> bytes:
    """As a platform gives it back that drops all metadata."""
    content = notebook("ch01", "zh")
    content["cells"] = [{**cell, "metadata": {}, "id": f"x{i}"} for i, cell in enumerate(content["cells"])]
    return json.dumps(content).encode()


def untouched() -> bytes:
    return (ROOT / "notebooks" / "zh" / FILE).read_bytes()


SUBMISSIONS: dict[tuple[str, str], Callable[[], bytes]] = {
    ("ann", "ch01"): made,
    ("bob", "ch01"): partial(made, "zh", WRONG["priority sign"]),
    ("bob", "ch00"): partial(made, "zh", None, "ch00"),
    ("carl", "ch01"): partial(made, "en", WRONG["last instead of best"]),
    ("dora", "ch01"): untouched,
    ("emil", "ch01"): partial(made, "en", {"ch01.1": "import os\nos._exit(3)"}),
    ("fay", "ch01"): partial(made, "zh", {"ch01.3": 'raise TodoError("ch01.3")'}),
    ("gus", "ch01"): lambda: made()[:-300],
    ("hana", "ch01"): lambda: b"",
    ("ida", "ch01"): lambda: made("zh").decode().encode("utf-16"),
    ("李雷", "ch01"): unmarked,
    (FORMULA, "ch01"): partial(made, "en", {"ch01.5": "return None"}),
}


@dataclass
class School:
    """A grader folder with its secret, a class of submissions, and what one undisturbed run made of them."""

    folder: Path
    grader: Path
    out: Path
    run: subprocess.CompletedProcess[str]

    @property
    def means(self) -> Means:
        return Means(self.grader)

    def verdict(self, student: str, chapter: str = "ch01") -> Graded:
        path = batch.result_path(self.out, student, chapter)
        return Verdict.from_json(json.loads(path.read_text(encoding="utf-8"))).graded

    def command(self, out: Path, *more: str) -> list[str]:
        words = ["grade", str(self.folder), "--out", str(out), "--grader", str(self.grader), "--lang", "en"]
        return [sys.executable, "-m", "decodelab.cli", *words, *more]

    def grade(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(out, *more), capture_output=True, text=True, encoding="utf-8", check=False
        )


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> School:
    root = tmp_path_factory.mktemp("school")
    grader, folder, out = root / "grader", root / "submitted", root / "out"
    shutil.copytree(
        ROOT / "grader" / "suites", grader / "suites", ignore=shutil.ignore_patterns("__pycache__")
    )
    for (student, chapter), content in SUBMISSIONS.items():
        path = folder / student / chapter / f"{load(chapter).name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(content())
    made = School(folder, grader, out, None)  # type: ignore[arg-type]
    made.run = made.grade(out, "-j", "2")
    return made


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def canned(means: Means, job: Job) -> Verdict:
    """A verdict without a judge."""
    seed = student_seed(course_secret(means.grader), job.chapter, job.student)
    todos = [TodoResult(t.id, "passed", t.points) for t in load(job.chapter).todos]
    version = suite_version(means.grader, job.chapter)
    return Verdict(Graded(job.student, job.chapter, "en", seed, "bubblewrap", version, todos), "sum")


def without_fay(means: Means, job: Job) -> Verdict:
    if job.student == "fay":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.student == "dora":
        raise OSError("the disk is full")
    return canned(means, job)


# --- the verdicts -----------------------------------------------------------------------------


@pytest.mark.parametrize("student", ["ann", "ida", "李雷"])
def test_a_solved_notebook_has_all_points_in_whatever_form_it_comes(school: School, student: str) -> None:
    assert school.verdict(student).points == FULL


def test_every_other_one_has_its_own_states(school: School) -> None:
    def states(student: str) -> dict[str, str]:
        return {r.todo: r.state for r in school.verdict(student).todos if r.state != "passed"}

    everything = [t.id for t in CHAPTER.todos]
    assert states("bob") == {"ch01.2": "failed"}
    assert states("dora") == dict.fromkeys(everything, "not_started")
    assert states("gus") == states("hana") == dict.fromkeys(everything, "unreadable")
    assert states("emil")["ch01.1"] == "died"
    assert states("fay")["ch01.3"] == "not_started"
    assert states(FORMULA) == {"ch01.5": "failed"}
    assert school.verdict("bob", "ch00").points > 0


def test_grades_csv_is_what_the_results_say(school: School) -> None:
    with open(school.out / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(load(chapter).todos) for _, chapter in SUBMISSIONS)
    for row in rows:
        graded = school.verdict(row["student"].removeprefix("'"), row["chapter"])
        result = next(r for r in graded.todos if r.todo == row["todo"])
        assert (float(row["points"]), row["state"], row["rule"]) == (result.points, result.state, result.rule)
        assert (int(row["seed"]), row["sandbox"]) == (graded.seed, graded.sandbox)


def test_the_end_is_a_summary_and_a_fixed_line(school: School) -> None:
    *_, sandbox, states, last = school.run.stdout.splitlines()
    assert last == f"{len(SUBMISSIONS)} graded, 0 ungraded"
    assert sandbox == f"Sandbox: {school.verdict('ann').sandbox}"
    assert f"unreadable {2 * len(CHAPTER.todos)}" in states
    assert f"12/{len(SUBMISSIONS)} " in school.run.stdout
    assert school.run.returncode == 0, school.run.stderr


def test_every_student_has_a_page_and_the_class_a_report(school: School) -> None:
    assert len(list((school.out / "feedback").rglob("*.html"))) == len(SUBMISSIONS)
    assert "ch01" in (school.out / "report.html").read_text(encoding="utf-8")


# --- again ------------------------------------------------------------------------------------


def test_a_second_run_judges_nothing_and_changes_nothing(school: School) -> None:
    before = tree(school.out)
    assert json.loads(school.grade(school.out, "--json").stdout)["reused"] == len(SUBMISSIONS)
    assert tree(school.out) == before


def damaged(path: Path, how: str) -> None:
    text = path.read_text(encoding="utf-8")
    data = json.loads(text)
    if how == "cut":
        text = text[:100]
    elif how == "empty":
        text = ""
    else:
        text = json.dumps(data | {how: "x"})
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("how", ["cut", "empty", "sha256", "seed", "suite_version", "student", "todos"])
def test_a_result_that_is_damaged_or_of_another_time_does_not_count(
    school: School, tmp_path: Path, how: str
) -> None:
    shutil.copytree(school.out / "results", tmp_path / "results")
    job = Job(school.folder / "ann" / "ch01" / FILE, "ann", "ch01")
    assert batch.stored(tmp_path, job, school.means) == school.verdict("ann")
    damaged(batch.result_path(tmp_path, "ann", "ch01"), how)
    assert batch.stored(tmp_path, job, school.means) is None


def test_one_reached_without_a_sandbox_counts_only_if_that_is_wanted(school: School, tmp_path: Path) -> None:
    graded = school.verdict("ann")
    graded.sandbox = "none"
    sha256 = json.loads(batch.result_path(school.out, "ann", "ch01").read_text(encoding="utf-8"))["sha256"]
    batch.keep(tmp_path, Verdict(graded, sha256))
    job = Job(school.folder / "ann" / "ch01" / FILE, "ann", "ch01")
    assert batch.stored(tmp_path, job, school.means) is None
    assert batch.stored(tmp_path, job, Means(school.grader, unsafe=True)) == graded


def test_a_new_submission_is_judged_alone(school: School, tmp_path: Path) -> None:
    folder, out = tmp_path / "submitted", tmp_path / "out"
    shutil.copytree(school.folder, folder)
    shutil.copytree(school.out, out)
    (folder / "dora" / "ch01" / FILE).write_bytes(made("zh"))
    done = batch.run(folder, out, school.means, executors.local(1))
    assert done.reused == len(SUBMISSIONS) - 1
    assert next(g for g in done.graded if g.student == "dora").points == FULL


# --- killed -----------------------------------------------------------------------------------


def verdicts(out: Path) -> dict[Path, int]:
    """The results that are there, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in (out / "results").rglob("*.json")}


def killed_at_random(school: School, out: Path, times: int) -> None:
    """Start it again and again, and kill each start at a random moment: at once, or after another verdict or two."""
    moments = random.Random(0)
    for _ in range(times):
        enough = len(verdicts(out)) + moments.randint(0, 2)
        process = subprocess.Popen(school.command(out, "-j", "2"), stdout=subprocess.DEVNULL)
        while len(verdicts(out)) < enough and process.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.5))
        process.kill()
        process.wait()


def resumed(school: School, out: Path) -> int:
    """Run it to its end and compare; returns how many verdicts were there before."""
    there = verdicts(out)
    done = json.loads(school.grade(out, "--json").stdout)
    assert (done["graded"], done["reused"]) == (len(SUBMISSIONS), len(there))
    assert there.items() <= verdicts(out).items()
    assert tree(out) == tree(school.out)
    return len(there)


def test_killed_and_resumed_it_is_the_same(school: School, tmp_path: Path) -> None:
    killed_at_random(school, tmp_path / "out", 3)
    assert 0 < resumed(school, tmp_path / "out") < len(SUBMISSIONS)


@pytest.mark.slow
def test_killed_ten_times_and_resumed_it_is_the_same(school: School, tmp_path: Path) -> None:
    killed_at_random(school, tmp_path / "out", 10)
    assert resumed(school, tmp_path / "out") > 0


def test_what_a_kill_left_half_written_is_written_over(school: School, tmp_path: Path) -> None:
    graded = school.verdict("ann")
    path = batch.result_path(tmp_path, "ann", "ch01")
    path.parent.mkdir(parents=True)
    path.with_name(f".{path.name}.part").write_text("{", encoding="utf-8")
    batch.keep(tmp_path, Verdict(graded, "sum"))
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# --- over several machines ----------------------------------------------------------------------


def test_shards_share_the_work_and_add_up(school: School, tmp_path: Path) -> None:
    shares = []
    for part in ("1/3", "2/3", "3/3"):
        done = batch.run(school.folder, tmp_path, school.means, executors.local(2), part)
        assert (done.reused, done.ungraded) == (0, [])
        shares.append(done.graded)
    assert sum(map(len, shares)) == len(SUBMISSIONS)
    assert max(map(len, shares)) < len(SUBMISSIONS)
    assert {p.name for p in tmp_path.iterdir()} == {"results"}
    merged = json.loads(school.grade(tmp_path, "--json").stdout)
    assert merged["reused"] == len(SUBMISSIONS)
    assert tree(tmp_path) == tree(school.out)


@pytest.mark.parametrize("part", ["0/3", "4/3", "x", "1/", "1/0", "-1/3"])
def test_a_shard_that_is_none_is_refused(part: str) -> None:
    with pytest.raises(DecodeLabError, match="--shard 2/8"):
        batch.shard([], part)


def test_more_shards_than_jobs_lose_none() -> None:
    jobs = [Job(Path(), f"s{i}", "ch01") for i in range(5)]
    found = [job for i in range(1, 12) for job in batch.shard(jobs, f"{i}/11")]
    assert sorted(job.student for job in found) == [job.student for job in jobs]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """A Dask scheduler on loopback with two workers; neither starts another one when it dies."""
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    where = ["--host", "127.0.0.1", "--no-dashboard"]
    log = open(folder / "dask.log", "wb")  # noqa: SIM115 - closed below
    start = partial(subprocess.Popen, stdout=log, stderr=log, cwd=folder)
    parts = [start([*dask, "scheduler", *where, "--port", "0", "--scheduler-file", str(file)])]
    try:
        while not file.exists() and parts[0].poll() is None:
            time.sleep(0.1)
        alone = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--scheduler-file", str(file)]
        parts += [start([*dask, "worker", *where, *alone]) for _ in range(2)]
        yield json.loads(file.read_text(encoding="utf-8"))["address"], parts[1:]
    finally:
        for part in parts:
            part.kill()
            part.wait()
        log.close()


@pytest.mark.slow
def test_two_dask_workers_one_killed_midway_give_the_same(school: School, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="pip install distributed to test --dask")
    with cluster(tmp_path) as (address, workers):
        command = school.command(tmp_path / "out", "--dask", address)
        run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        assert run.stdout
        for line in run.stdout:
            if line.startswith("3/"):
                workers[0].send_signal(signal.SIGKILL)
                break
        rest = run.communicate(timeout=120)[0]
    assert rest.splitlines()[-1] == f"{len(SUBMISSIONS)} graded, 0 ungraded"
    assert run.returncode == 0
    assert workers[0].returncode == -signal.SIGKILL
    assert tree(tmp_path / "out") == tree(school.out)


# --- what cannot be graded ------------------------------------------------------------------------


def test_a_fault_of_ours_is_ungraded_and_never_a_zero(school: School, tmp_path: Path) -> None:
    done = batch.run(school.folder, tmp_path, school.means, executors.local(2), work=without_fay)
    assert [(one.student, one.chapter) for one in done.ungraded] == [("dora", "ch01"), ("fay", "ch01")]
    assert len(done.graded) == len(SUBMISSIONS) - 2
    batch.write(done)
    with open(tmp_path / "grades.csv", encoding="utf-8", newline="") as file:
        assert not {"dora", "fay"} & {row["student"] for row in csv.DictReader(file)}
    with open(tmp_path / "lms" / "moodle.csv", encoding="utf-8", newline="") as file:
        rows = {row["ID number"]: row for row in csv.DictReader(file)}
    assert rows["fay"]["Decode Lab ch01"] == rows["dora"]["Decode Lab ch01"] == ""
    assert not batch.result_path(tmp_path, "fay", "ch01").exists()
    with speaking("en"):
        *_, last = said = list(batch.lines(done))
    assert last == f"{len(SUBMISSIONS) - 2} graded, 2 ungraded"
    assert "ungraded: dora ch01: OSError: the disk is full" in said


def test_a_chapter_without_a_suite_is_ungraded_and_the_others_go_on(school: School, tmp_path: Path) -> None:
    grader, folder, out = tmp_path / "grader", tmp_path / "submitted", tmp_path / "out"
    shutil.copytree(school.grader, grader)
    (grader / "suites" / "ch00.py").unlink()
    shutil.copytree(school.folder / "bob", folder / "bob")
    command = ["grade", str(folder), "--out", str(out), "--grader", str(grader), "--json", "--lang", "en"]
    run = subprocess.run(
        [sys.executable, "-m", "decodelab.cli", *command], capture_output=True, text=True, check=False
    )
    data = json.loads(run.stdout)
    assert run.returncode == 1
    assert (data["graded"], [one["chapter"] for one in data["ungraded"]]) == (1, ["ch00"])
    assert "No hidden suite" in data["ungraded"][0]["reason"]


def test_no_sandbox_is_refused_before_anything_runs(
    school: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Rung:
        raise DecodeLabError("No sandbox works here")

    monkeypatch.setattr(batch, "named", refuse)
    with pytest.raises(DecodeLabError, match="No sandbox"):
        batch.run(school.folder, tmp_path, school.means, executors.local(1))
    assert not list(tmp_path.iterdir())
    again = batch.run(school.folder, school.out, school.means, executors.local(1))
    assert again.reused == len(SUBMISSIONS)


def test_ctrl_c_is_a_sentence_and_leaves_a_run_to_go_on(school: School, tmp_path: Path) -> None:
    process = subprocess.Popen(
        school.command(tmp_path, "-j", "1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    while not process.stdout.readline().startswith("1/"):
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (2, "Stopped: run the same again to go on.\n")
    assert verdicts(tmp_path)


def names(folder: Path) -> Batch:
    return batch.find(folder, folder / "out")


def test_files_that_are_nobodys_are_listed(tmp_path: Path) -> None:
    for name in (
        "ann/ch01/mine.ipynb",
        "bob/ch01/mine.ipynb",
        f"bob/ch01/{FILE}",
        "carl/ch01/a.ipynb",
        "carl/ch01/b.ipynb",
        "dora/ch01/answer.py",
        "emil/ch77/x.ipynb",
        "loose.ipynb",
        "out/results/x.json",
        ".originals/x.ipynb",
        "collect.csv",
        "ann/ch01/.ipynb_checkpoints/mine.ipynb",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = names(tmp_path)
    assert {(job.student, job.path.name) for job in found.jobs} == {("ann", "mine.ipynb"), ("bob", FILE)}
    assert sorted(found.strays) == ["bob/ch01/mine.ipynb", "emil/ch77/x.ipynb", "loose.ipynb"]
    assert {one.student: FILE in one.reason["zh"] for one in found.ungraded} == {"carl": True, "dora": True}


def test_no_folder_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DecodeLabError, match="decodelab collect"):
        names(tmp_path / "none")


def test_a_name_cannot_act_on_the_terminal() -> None:
    assert batch.printable("a\x1b[2J\n李") == "a\ufffd[2J\ufffd李"


class Terminal:
    """A stream that says it is one."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_progress_is_one_line_on_a_terminal(school: School) -> None:
    stream: Any = Terminal()
    results = [(Job(Path(), "ann", "ch01"), Verdict(school.verdict("ann"), "sum"))] * 3
    with speaking("en"):
        assert list(batch.progress(iter(results), 3, stream)) == results
    assert stream.text.count("\n") == 1
    assert stream.text.startswith("\r1/3  ")
    assert "3/3" in stream.text
    assert "/s" in stream.text
