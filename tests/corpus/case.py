"""What a case of the corpus is, and the few forms that most of them have."""

from __future__ import annotations

import json
import secrets
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handed_in import notebook

from decodelab import course

CHAPTER = course.load("ch01")
MARK = (
    f"98765.{secrets.randbelow(10**9):09d}"  # seconds that nobody else sleeps: two runs do not see each other
)
REFERENCE = {todo.id: todo.code for todo in CHAPTER.todos}
FILE = f"{CHAPTER.name}.ipynb"
WRONG = "req = max((r for r in self.queue if not r.done), key=self._schedule_key, default=None)\nif req is None:\n    return None"


@dataclass(frozen=True)
class World:
    """What is around a submission: paths as an attacker would guess them, and a mark for what is left running."""

    root: str
    mark: str
    canaries: dict[str, str]  # where it is -> a text that must never come out

    def __getattr__(self, name: str) -> str:
        places = {
            "course": "course",
            "secret": "course/.decodelab/secret",
            "suites": "course/suites/ch01.py",
            "gradebook": "course/gradebook.db",
            "config": "course/nbgrader_config.py",
            "submitted": "course/submitted",
            "other": f"course/submitted/honest-1/ch01/{FILE}",
            "home": "home",
            "key": "home/.ssh/id_rsa",
            "package": "src/decodelab",
            "out": "out",
        }
        if name not in places:
            raise AttributeError(name)
        return f"{self.root}/{places[name]}"

    def known(self) -> dict[str, Any]:
        """What an attack is told: every path, the canaries and the mark."""
        names: tuple[str, ...] = (
            "root",
            "course",
            "secret",
            "suites",
            "gradebook",
            "config",
            "submitted",
            "other",
        )
        names += ("home", "key", "package", "mark")
        return {name: getattr(self, name) for name in names} | {
            "canaries": [canary[:14] for canary in self.canaries.values()]  # enough to know one by
        }


Make = Callable[[World, Path], None]  # writes a submission into its folder


@dataclass(frozen=True)
class Case:
    """A submission: ``tries`` in words, ``make`` it, and the states it must come to, TODO by TODO.

    ``states``: todo id -> the states allowed (``"died timed_out"``); a TODO that is not named must pass.
    "ungraded" under "all": no verdict, which is no zero either.
    """

    name: str
    tries: str
    make: Make
    states: dict[str, str] = field(default_factory=dict)
    landlock: dict[str, str] | None = None  # where it comes to something else there, as the table says
    root: dict[str, str] | None = None  # where root's rights make a difference
    quick: bool = False

    def expected(self, rung: str, who: str) -> dict[str, set[str]]:
        """Todo id -> allowed states."""
        states = self.states
        if rung == "landlock" and self.landlock is not None:
            states = self.landlock
        if who == "root" and self.root is not None:
            states = self.root
        every = states.get("all", "passed")
        return {todo.id: set(states.get(todo.id, every).split()) for todo in CHAPTER.todos}


def save(folder: Path, content: Any) -> Path:
    """A notebook as a file under the chapter's name."""
    path = folder / FILE
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def answers(changes: dict[str, str]) -> Make:
    """The reference with other code in some TODOs."""
    return lambda world, folder: void(save(folder, notebook("ch01", "en", changes)))


def void(_: object) -> None:
    """For the sake of a lambda that must return nothing."""


def in_step(name: str, tries: str, code: str, states: str, quick: bool = False, **more: Any) -> Case:
    """``code`` before the right answer in ch01.3."""
    body = textwrap.dedent(code).strip("\n") + "\n" + REFERENCE["ch01.3"]
    return Case(name, tries, answers({"ch01.3": body}), {"ch01.3": states}, quick=quick, **more)


def in_step_once(name: str, tries: str, code: str, states: str, quick: bool = False, **more: Any) -> Case:
    """As ``in_step``, but only in the first call."""
    return in_step(name, tries, once(code), states, quick, **more)


def forging(name: str, tries: str, code: str, states: str = "failed died", quick: bool = False) -> Case:
    """``code`` that is run once before a wrong answer in ch01.3: it must not pass."""
    body = once(code) + "\n" + WRONG
    return Case(name, tries, answers({"ch01.3": body}), {"ch01.3": states}, quick=quick)


def returning(name: str, tries: str, code: str, states: str = "failed", quick: bool = False) -> Case:
    """ch01.3 that returns something odd instead of an event."""
    return Case(
        name, tries, answers({"ch01.3": textwrap.dedent(code).strip("\n")}), {"ch01.3": states}, quick=quick
    )


def once(code: str) -> str:
    """``code`` that is run in the first call only."""
    body = textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")
    return f"if not getattr(type(self), 'did', False):\n    type(self).did = True\n{body}"


def stopped(name: str, tries: str, code: str, quick: bool = False, **more: Any) -> Case:
    """An attack, then the right answer. ``code`` is the body of a function that gets the World as ``w``.

    It returns what it got hold of; an exception or nothing says that it was stopped.
    """

    def make(world: World, folder: Path) -> None:
        attack = "def attack(w):\n" + textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")
        run = (
            f"{attack}\ntry:\n    type(self).got = attack(type('W', (), {world.known()!r}))\n"
            "except Exception:\n    type(self).got = None"
        )
        tell = "if type(self).got:\n    raise RuntimeError(f'BROKE OUT: {self.got!r}'[:500])"
        body = f"{once(run)}\n{tell}\n" + REFERENCE["ch01.3"]
        save(folder, notebook("ch01", "en", {"ch01.3": body}))

    return Case(name, tries, make, quick=quick, **more)


def equipped(tools: str) -> Callable[..., Case]:
    """``stopped`` with these functions at hand in every attack."""

    def made(name: str, tries: str, code: str, quick: bool = False, **more: Any) -> Case:
        return stopped(name, tries, tools + textwrap.dedent(code), quick, **more)

    return made


BROKE_OUT = {"ch01.3": "failed"}  # what ``stopped`` comes to where a rung does not stop it
