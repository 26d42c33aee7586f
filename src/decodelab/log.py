"""The step log: one record a step, in the form of the recorded runs of vLLM's scheduler and a few fields more.

A record is plain data, the same for the same workload in the simulator and in the real engine. ``events``
makes of it what happened to each request, in the words of chapter 1.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from decodelab.contract import Plan, State
from decodelab.errors import DecodeLabError
from decodelab.events import Event
from decodelab.lang import both
from decodelab.request import Request, RequestId
from decodelab.run import Step

Record: TypeAlias = "dict[str, Any]"

# What a record of the recorded runs has; ours adds BESIDE.
FIELDS = (
    *("step", "scheduled", "new", "resumed", "cached", "preempted", "running", "waiting", "free_blocks"),
    *("blocks", "tokens", "finished", "free_after"),
)
BESIDE = ("start", "time", "arrived", "refused", "aborted", "dropped", "swap_out", "swap_in", "copy")
BY_ID = ("scheduled", "cached", "blocks", "tokens", "finished", "refused", "dropped", "swap_out", "swap_in")


class Recorder:
    """Makes records of the steps of one run, in order; the loop must ``watch``."""

    def __init__(self) -> None:
        self._tables: dict[RequestId, list[int]] = {}

    def record(self, step: Step) -> Record:
        """The record of the next step. Times are seconds: ``start`` of schedule, ``time`` of update."""
        plan, after = step.plan, step.scheduled or State([], [])
        blocks = self._blocks(plan)
        return {
            "step": step.number,
            "start": step.start,
            "time": step.end,
            "arrived": [request.request_id for request in step.arrived],
            "refused": step.refused,
            "aborted": step.aborted,
            "dropped": plan.dropped,
            "scheduled": plan.scheduled,
            "new": plan.new,
            "resumed": plan.resumed,
            "cached": plan.cached,
            "preempted": plan.preempted,
            "swap_out": plan.swap_out,
            "swap_in": plan.swap_in,
            "copy": plan.copy,
            "running": list(after.running),
            "waiting": list(after.waiting),
            "free_blocks": after.free_blocks,
            "blocks": blocks,
            "tokens": step.tokens,
            "finished": step.finished,
            "free_after": step.updated.free_blocks if step.updated else None,
        }

    def _blocks(self, plan: Plan) -> dict[RequestId, list[int]]:
        for request_id, table in plan.block_tables.items():
            self._tables[request_id] = list(table)
        return {i: self._tables[i] for i in plan.scheduled if i in self._tables}


def record_all(steps: Iterable[Step]) -> Iterator[Record]:
    """The records of a whole run."""
    recorder = Recorder()
    return (recorder.record(step) for step in steps)


def as_records(records: Iterable[Record]) -> list[Record]:
    """The records as a list; DecodeLabError where one of them is none, a Step for instance."""
    return [_known(record) for record in records]


def _known(record: Record) -> Record:
    if isinstance(record, dict) and "scheduled" in record:
        return record
    kind = type(record).__name__
    raise DecodeLabError(
        both(
            en=f"A {kind} is not the record of a step; "
            "make records with record_all(Loop(..., watch=True)), or read them with read_log(path).",
            zh=f"{kind} 不是一步的记录；请用 record_all(Loop(..., watch=True)) 生成记录，或用 read_log(path) 读取。",
        )
    )


# --- files ------------------------------------------------------------------------------------


def write_log(path: str | Path, records: Iterable[Record]) -> None:
    """Write records as they come, one JSON object a line; gzip where the name ends in ``.gz``.

    The same records make the same file, byte for byte. DecodeLabError where the file cannot be made.
    """
    with _writing(path) as file:
        file.writelines(json.dumps(_known(record), separators=(",", ":")) + "\n" for record in records)


@contextmanager
def _writing(path: str | Path) -> Iterator[IO[str]]:
    with ExitStack() as opened:
        file: IO[Any] = opened.enter_context(_made(path))
        if str(path).endswith(".gz"):  # with neither name nor time in its header
            file = opened.enter_context(cast("IO[Any]", gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
        yield opened.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))


def _made(path: str | Path) -> IO[bytes]:
    try:
        return open(path, "wb")
    except OSError as error:
        raise DecodeLabError(
            both(
                en=f"Cannot write the log {path} ({error.strerror}); name a file in a folder that there is.",
                zh=f"写不了日志 {path}（{error.strerror}）；请指定一个已有文件夹里的文件。",
            )
        ) from error


def read_log(path: str | Path) -> list[Record]:
    """The records that ``write_log`` wrote. DecodeLabError names the first line that is no record.

    JSON knows text keys only: an id that arrived as a number is one again. (A workload with the ids 7 and "7"
    cannot be told apart.)
    """
    ids: dict[str, RequestId] = {}
    records = []
    reading = gzip.open if str(path).endswith(".gz") else open
    try:
        with cast("IO[str]", reading(path, "rt", encoding="utf-8")) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    records.append(_record(line, f"{path}", number, ids))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DecodeLabError(
            both(
                en=f"Cannot read {path} ({error}); check the path.",
                zh=f"读不了 {path}（{error}）；请检查路径。",
            )
        ) from error
    return records


def _record(line: str, name: str, number: int, ids: dict[str, RequestId]) -> Record:
    try:
        record = json.loads(line)
        ids.update((str(i), i) for i in record.get("arrived", ()))
        missing = [f for f in FIELDS if f not in record]
        for field in filter(record.__contains__, BY_ID):
            record[field] = {ids.get(k, k): v for k, v in record[field].items()}
        for field in filter(record.__contains__, ("swap_out", "swap_in")):
            record[field] = {i: [tuple(pair) for pair in pairs] for i, pairs in record[field].items()}
        if "copy" in record:
            record["copy"] = [tuple(pair) for pair in record["copy"]]
    except (ValueError, TypeError, AttributeError, RecursionError):
        missing = list(FIELDS)
    if missing:
        raise DecodeLabError(
            both(
                en=f"{name}, line {number} is not the record of a step, it lacks {', '.join(missing)}; "
                "take the line out, or write the log again.",
                zh=f"{name} 第 {number} 行不是一步的记录，缺少 {', '.join(missing)}；请删掉这一行，或重新写一份日志。",
            )
        )
    return cast("Record", record)


# --- events -----------------------------------------------------------------------------------


class LoggedEvent(Event):
    """An event of chapter 1 with the step it belongs to and the time at that step's end (seconds).

    Actions beside chapter 1's: arrive, admit, prefill_chunk, preempt, resume, swap_out, swap_in, reject, cancel,
    timeout. ``prefill_to_decode`` is the chunk that ends a prefill, and gives a token.
    """

    step: int
    time: float


@dataclass(slots=True)
class _Progress:
    prompt_len: int
    generated: int = 0
    prefilling: bool = True


class _Everybody(dict[RequestId, _Progress]):
    """The progress of everybody who has arrived."""

    def __missing__(self, request_id: RequestId) -> _Progress:
        raise DecodeLabError(
            both(
                en=f"The log lacks the arrival of request {request_id!r}; "
                "give events() all records, from the first step on.",
                zh=f"日志里没有请求 {request_id!r} 的到达；请把从第一步开始的全部记录交给 events()。",
            )
        )


def events(records: Iterable[Record], requests: Iterable[Request]) -> list[LoggedEvent]:
    """What happened to whom, in order.

    requests: those of the workload, for their lengths; one that ``requests`` lacks has length 0, and of several
    with one id the first one counts. Within a step:
    who arrived, was rejected, cancelled or timed out; who lost its memory; then, in batch order, who was let in
    and what was computed for it. DecodeLabError for what are no records, and for a log whose beginning is cut off.
    """
    lengths: dict[RequestId, int] = {}
    for request in requests:
        lengths.setdefault(request.request_id, request.prompt_len)
    progress = _Everybody()
    made: list[LoggedEvent] = []
    for record in as_records(records):
        for request_id, action in _actions(record, progress, lengths):
            at = progress[request_id]
            made.append(
                {
                    "request_id": cast("int", request_id),
                    "phase": "prefill" if at.prefilling else "decode",
                    "action": action,
                    "prompt_len": at.prompt_len,
                    "generated_len": at.generated,
                    "step": record["step"],
                    "time": record["time"],
                }
            )
            if action in ("prefill_to_decode", "finish"):
                at.prefilling = False
    return made


def _actions(
    record: Record, progress: dict[RequestId, _Progress], lengths: Mapping[RequestId, int]
) -> Iterator[tuple[RequestId, str]]:
    """(id, action) of everything in a step; ``progress`` is brought up to each before it is given."""
    for request_id in record["arrived"]:
        if request_id not in progress:
            progress[request_id] = _Progress(lengths.get(request_id, 0))
        yield request_id, "arrive"
        if request_id in record["refused"]:
            yield request_id, "reject"
    yield from ((i, "cancel") for i in record["aborted"])
    for request_id, reason in record["dropped"].items():
        yield request_id, "timeout" if reason == "timeout" else "reject"
    for request_id in record["preempted"]:
        swapped = request_id in record["swap_out"]
        yield request_id, "swap_out" if swapped else "preempt"
        progress[request_id].prefilling |= not swapped
    for request_id in record["scheduled"]:
        yield from _served(request_id, record, progress[request_id])


def _served(request_id: RequestId, record: Record, at: _Progress) -> Iterator[tuple[RequestId, str]]:
    if request_id in record["new"]:
        yield request_id, "admit"
    elif request_id in record["resumed"]:
        yield request_id, "swap_in" if request_id in record["swap_in"] else "resume"
    made = record["tokens"].get(request_id, ())
    at.generated += len(made)
    if request_id in record["finished"]:
        yield request_id, "finish"
    elif at.prefilling:
        yield request_id, "prefill_to_decode" if made else "prefill_chunk"
    else:
        yield request_id, "decode_one_step"
