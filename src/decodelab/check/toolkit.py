"""What the rules of every chapter are written with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from decodelab.check.rules import Finding, Record, StudentError
from decodelab.lang import Text, both


def finding(rule: str, en: str, zh: str, hint: int = 1, **evidence: Any) -> Finding:
    """A Finding with its text in both languages; ``evidence`` are further fields of it."""
    return Finding(rule, both(en=en, zh=zh), hint=hint, **evidence)


def called(name: str, arguments: dict[str, Any]) -> str:
    """A call as one would type it: ``enqueue(request_id=1, prompt_len=2)``."""
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


def listed(value: Any) -> list[Any]:
    """A student's list; anything else as the one item of a list."""
    return value if isinstance(value, list) else [value]


def items(value: Any, count: int) -> list[Any]:
    """The ``count`` things that came back together; as many Nones where that is not what came."""
    fits = isinstance(value, (list, tuple)) and len(value) == count
    return list(value) if fits else [None] * count


def records(value: Any) -> list[dict[str, Any]]:
    """A student's list of objects as plain dicts, {} for what is no object."""
    return [item.fields if isinstance(item, Record) else {} for item in listed(value)]


FRAME = re.compile(r"^  File .*\n\s*(.*)", re.MULTILINE)  # of a traceback: the line itself


def no_answer(error: StudentError) -> bool:
    """Whether an exception says nothing about a rule: a TODO not written, a name gone, memory used up.

    A MemoryError by a ``raise`` of the student's is an answer.
    """
    if error.kind == "MemoryError":
        return not any(line.startswith("raise ") for line in FRAME.findall(error.traceback)[-1:])
    return bool(error.todo) or error.kind == "Missing"


def refused(
    call: Callable[[], Any],
    typed: str,
    why: Text,
    before: Callable[[], Any] = lambda: None,
    after: Callable[[], Any] = lambda: None,
) -> Finding | None:
    """``call`` has bad input, so it must raise ValueError, and ``after`` sees what ``before`` saw.

    ``typed`` is the call as one would type it, ``why`` what is bad about it, a sentence without its capital and dot.
    """
    state = before()
    try:
        call()
    except StudentError as error:
        if no_answer(error):
            raise
        if not error.is_a("ValueError"):
            return finding(
                "refuses-bad-input",
                f"{typed} must raise ValueError; yours raised {error.kind}.",
                f"{typed} 应当抛出 ValueError，你抛出的是 {error.kind}。",
                call=typed,
            )
        if after() == state:
            return None
        return finding(
            "unchanged-on-refusal",
            f"{typed} raised ValueError as it must, but something had changed by then: first refuse, then act.",
            f"{typed} 按要求抛出了 ValueError，但在那之前已经改动了状态：先检查，再动手。",
            call=typed,
        )
    return finding(
        "refuses-bad-input",
        f"{typed} must raise ValueError: {why['en']}.",
        f"{typed} 必须抛出 ValueError：{why['zh']}。",
        hint=2,
        call=typed,
    )
