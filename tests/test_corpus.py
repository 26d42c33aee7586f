"""Careless and hostile submissions, graded in one batch with honest ones: the right state and points for each,
nothing read, nothing written, nothing left running.

As root the corpus is graded twice, the second time as a user without rights, with a Python that one can read.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpus import CASES
from corpus.case import CHAPTER, MARK, Case, World, save
from handed_in import ROOT, notebook

from decodelab.grading.confine import landlock_version

NOBODY = 65534
ROOT_HERE = os.geteuid() == 0
RUNGS = ("bubblewrap", "landlock")
USERS = ("root", "user") if ROOT_HERE else ("user",)
HONEST = ("honest-1", "honest-2", "honest-3")
MAX_VERDICT = 300_000  # bytes of one stored verdict: nobody fills the gradebook

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandbox rungs are Linux's")


@dataclass
class Outcome:
    """A batch after grading."""

    world: World
    verdicts: dict[str, dict[str, Any]]
    ungraded: set[str]
    left: list[str]
    changed: list[str]


def tree(root: Path) -> dict[str, str]:
    """Path -> kind, mode, time and content of everything below ``root`` but what the grader itself writes."""
    own = {root / "out", root / "course" / ".decodelab" / "lookalikes"}
    found = {}
    for at, folders, names in os.walk(root):
        folders[:] = [f for f in folders if Path(at, f) not in own]
        for path in [Path(at, name) for name in (*folders, *names)]:
            about = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
            size = about.st_mtime_ns if not stat.S_ISDIR(about.st_mode) else 0
            found[str(path)] = f"{about.st_mode:o} {about.st_uid} {size} {hashlib.sha256(data).hexdigest()}"
    return found


def built(root: Path, cases: list[Case]) -> World:
    """A course folder with these cases and honest submissions, a home, and canaries everywhere."""
    places = ("secret", "gradebook", "key", "environment", "config", "suites")
    world = World(str(root), MARK, {place: f"canary{secrets.token_hex(16)}" for place in places})
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        ROOT / "grader" / "suites", root / "course" / "suites", ignore=shutil.ignore_patterns("__pycache__")
    )
    for place in ("secret", "gradebook", "config", "key"):
        path = Path(getattr(world, place))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(world.canaries[place])
        path.chmod(0o600)
    with open(world.suites, "a") as suite:
        suite.write(f"\n# {world.canaries['suites']}\n")
    (root / "home" / ".bashrc").touch()
    for name in HONEST:
        save(folder_of(root, name), notebook("ch01", "en"))
    for case in cases:
        case.make(world, folder_of(root, case.name))
    return world


def folder_of(root: Path, student: str) -> Path:
    """Where a student's files for chapter 1 are."""
    folder = root / "course" / "submitted" / student / "ch01"
    folder.mkdir(parents=True)
    return folder


@cache
def python_for(who: str) -> str:
    """A Python that this user can start."""
    for python in (sys.executable, "/usr/bin/python3"):
        probe = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
        try:
            if subprocess.run(probe, check=False, cwd="/", **identity(who)).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("no Python 3.10 that an ordinary user can read: install python3 of the system")


def identity(who: str) -> dict[str, Any]:
    """Options of subprocess.run that make it this user's."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if ROOT_HERE and who == "user" else {}


def graded(who: str, rung: str, cases: list[Case]) -> Outcome:
    """Grade these cases beside honest submissions, as ``who``, at ``rung``."""
    with tempfile.TemporaryDirectory(prefix="corpus-", dir="/var/tmp") as name:
        root = Path(name).resolve()
        world = built(root, cases)
        (root / "out").mkdir()
        if identity(who):
            for path in [root, *root.rglob("*")]:
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        before = tree(root)
        done = subprocess.run(
            [python_for(who), str(ROOT / "tests" / "corpus_run.py"), str(root), rung, MARK],
            env={
                "PYTHONPATH": str(root / "src"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "HOME": world.home,
                "CANARY": world.canaries["environment"],
            },
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
            timeout=1800,
            check=True,
            **identity(who),
        )
        tail = json.loads(done.stdout.splitlines()[-1])
        after = tree(root)
        assert_nothing_came_out(root, world)
        results = (root / "out" / "results").glob("*/ch01.json")
        return Outcome(
            world,
            {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in results},
            {one["student"] for one in tail["ungraded"]},
            tail["left"],
            sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)),
        )


def assert_nothing_came_out(root: Path, world: World) -> None:
    """No canary in anything that the grader wrote, no seed in what students see, no verdict that fills the disk."""
    seeds = {str(json.loads(p.read_text())["seed"]) for p in (root / "out" / "results").glob("*/ch01.json")}
    for path in (p for p in (root / "out").rglob("*") if p.is_file()):
        text = path.read_text(encoding="utf-8")
        for place, canary in world.canaries.items():
            assert canary not in text, f"{place} came out in {path.name}"
        if path.suffix == ".html":
            assert not seeds & set(text.split()), path
            assert "<script>alert" not in text, path
            assert "\x1b" not in text, path
        assert len(text) < MAX_VERDICT or path.parent == root / "out", path


def check(case: Case, outcome: Outcome, rung: str, who: str) -> None:
    """The verdict on one case is what the corpus says."""
    want = case.expected(rung, who)
    if "ungraded" in want["ch01.1"]:
        assert case.name in outcome.ungraded
        assert case.name not in outcome.verdicts
        return
    verdict = outcome.verdicts[case.name]
    assert verdict["sandbox"] == rung
    got = {todo["todo"]: todo for todo in verdict["todos"]}
    told = {name: (todo["state"], (todo["finding"] or {}).get("text")) for name, todo in got.items()}
    for todo in CHAPTER.todos:
        assert got[todo.id]["state"] in want[todo.id], told
        assert got[todo.id]["max_points"] == todo.points


def check_batch(outcome: Outcome) -> None:
    """Nothing changed, nothing left, everybody else graded."""
    assert not outcome.changed
    assert not outcome.left
    for name in HONEST:
        assert {todo["state"] for todo in outcome.verdicts[name]["todos"]} == {"passed"}, name


def test_the_corpus_is_as_large_as_promised():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 60
    assert all(case.tries for case in CASES)


def test_quick_ones_at_the_strongest_rung():
    who = "root" if ROOT_HERE else "user"
    cases = [case for case in CASES if case.quick]
    outcome = graded(who, "bubblewrap", cases)
    check_batch(outcome)
    for case in cases:
        check(case, outcome, "bubblewrap", who)


@pytest.fixture(scope="module", params=[(who, rung) for rung in RUNGS for who in USERS], ids="-".join)
def whole(request: pytest.FixtureRequest) -> tuple[str, str, Outcome]:
    """The whole corpus, graded once for each user and rung."""
    who, rung = request.param
    if rung == "landlock" and landlock_version() < 6:
        pytest.skip("this kernel's Landlock does not hold signals back (Linux 6.12 does)")
    return who, rung, graded(who, rung, CASES)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each(whole, case):
    who, rung, outcome = whole
    check(case, outcome, rung, who)


@pytest.mark.slow
def test_nothing_changed_and_nothing_left_and_the_others_graded(whole):
    check_batch(whole[2])
