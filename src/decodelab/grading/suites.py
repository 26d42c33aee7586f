"""The workloads: those that a learner may see, the hidden ones, and the secret that the latter are drawn by."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import os
import random
import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from decodelab.check.rules import Case
from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.lang import both

Cases: TypeAlias = "Callable[[str], list[Case]]"  # todo id -> workloads


def visible_cases(chapter: Chapter) -> Cases:
    """The workloads that a learner may see."""
    return lambda todo_id: list(chapter.checks.VISIBLE[todo_id])


def hidden_cases(chapter: Chapter, seed: int, grader: Path) -> Cases:
    """Visible, directed and seeded workloads of ``grader/suites/chNN.py``: the same for the same seed."""
    suite = load_suite(grader, chapter.id)

    def cases(todo_id: str) -> list[Case]:
        rng = random.Random(f"{seed}:{todo_id}")
        return [*chapter.checks.VISIBLE[todo_id], *suite.DIRECTED[todo_id], *suite.random_cases(todo_id, rng)]

    return cases


@cache
def load_suite(grader: Path, chapter_id: str) -> ModuleType:
    """``grader/suites/chNN.py`` as a module; DecodeLabError where the folder has none."""
    path = grader / "suites" / f"{chapter_id}.py"
    if not path.is_file():
        raise DecodeLabError(
            both(
                en=f"No hidden suite at {path}: run this from the course's repository.",
                zh=f"{path} 没有隐藏测试：请在课程仓库里运行。",
            )
        )
    spec = importlib.util.spec_from_file_location(f"decodelab_suite_{chapter_id}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def course_secret(folder: Path) -> bytes:
    """The course's secret, made on first use in ``folder/.decodelab/secret``; keep it and share it with no one."""
    path = folder / ".decodelab" / "secret"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    except FileExistsError:
        pass  # made before, perhaps by a process beside this one
    return path.read_bytes()


def student_seed(secret: bytes, chapter_id: str, student: str) -> int:
    """The seed of a student's hidden workloads, which nobody without the secret can work out."""
    digest = hmac.new(secret, f"{chapter_id}\n{student}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:6], "big")  # 48 bits: exact wherever it is read, spreadsheets included
