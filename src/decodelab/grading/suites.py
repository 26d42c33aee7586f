"""The workloads: those that a learner may see, the hidden ones, and the secret that the latter are drawn by."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib.util
import os
import random
import secrets
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from decodelab.check.rules import Case
from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.lang import both, tr

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
    if not path.exists():
        make_secret(path)
    secret = path.read_bytes()
    if len(secret) < 32:
        raise DecodeLabError(
            both(
                en=f"{path} is too short to be a secret: restore it from your backup, or delete it for a new one "
                "(hidden workloads then change).",
                zh=f"{path} 太短，不能作为密钥：请从备份恢复，或者删除它以生成新的（隐藏负载会随之改变）。",
            )
        )
    return secret


def make_secret(path: Path) -> None:
    """Write a new secret, whole or not at all; one that another process makes at the same moment stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:  # for its owner alone
        file.write(secrets.token_hex(32))
    with contextlib.suppress(FileExistsError):
        os.link(file.name, path)
        print(tr(en=f"The course's secret: {path}", zh=f"课程密钥：{path}"), file=sys.stderr)
    os.unlink(file.name)


def student_seed(secret: bytes, chapter_id: str, student: str) -> int:
    """The seed of a student's hidden workloads, which nobody without the secret can work out."""
    digest = hmac.new(secret, f"{chapter_id}\n{student}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:6], "big")  # 48 bits: exact wherever it is read, spreadsheets included
