"""Events: what a scheduler did, step by step, as plain data that can be kept, read back and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from decodelab.errors import DecodeLabError
from decodelab.lang import both


class Event(TypedDict):
    """What one step did to one request; a timeline is a list of these, one a step."""

    request_id: int
    phase: str  # the phase that the step served: "prefill" | "decode"
    action: str  # "prefill_to_decode" | "decode_one_step" | "finish"
    prompt_len: int  # tokens
    generated_len: int  # tokens, after the step


FIELDS: dict[str, type] = {
    "request_id": int,
    "phase": str,
    "action": str,
    "prompt_len": int,
    "generated_len": int,
}


def first_difference(want: Sequence[Any], got: Sequence[Any]) -> int | None:
    """Index (from 0) of the first place where two sequences part; None where they are equal.

    Where one is the beginning of the other, that is the length of the shorter one.
    """
    for index, (wanted, came) in enumerate(zip(want, got, strict=False)):
        if wanted != came:
            return index
    return None if len(want) == len(got) else min(len(want), len(got))


def write_jsonl(path: str | Path, events: Iterable[Event]) -> None:
    """Write events to ``path``, one JSON object a line (UTF-8, ``\\n``), replacing what was there."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


def read_jsonl(path: str | Path) -> list[Event]:
    """The events that ``write_jsonl`` wrote; blank lines are passed over.

    DecodeLabError where the file cannot be read, or names the first line that is not an event.
    """
    try:
        lines = Path(path).read_bytes().decode("utf-8-sig", errors="replace").split("\n")
    except (OSError, ValueError) as error:
        raise DecodeLabError(
            both(
                en=f"Cannot read {path} ({error}); check the path.",
                zh=f"读不了 {path}（{error}）；请检查路径。",
            )
        ) from error
    return [_event(line, f"{path}", number) for number, line in enumerate(lines, 1) if line.strip()]


def _event(line: str, name: str, number: int) -> Event:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not _is_event(event):
        fields = ", ".join(FIELDS)
        raise DecodeLabError(
            both(
                en=f"{name}, line {number} is not an event; write one JSON object there, with {fields}.",
                zh=f"{name} 第 {number} 行不是事件；这一行应是一个 JSON 对象，含 {fields}。",
            )
        )
    return event


def _is_event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == FIELDS.keys()
        and all(type(value[field]) is kind for field, kind in FIELDS.items())
    )
