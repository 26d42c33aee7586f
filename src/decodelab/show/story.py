"""What pictures read out of a step log: who was served in which phase, who held which blocks, spans of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from decodelab.log import Record
from decodelab.request import Request, RequestId

Span: TypeAlias = "tuple[RequestId, float, float]"  # whose, from when, to when (seconds)


def phases(records: Iterable[Record]) -> list[dict[RequestId, str]]:
    """For each record: "prefill" or "decode" by the ids that it served; records may be cut out of a log."""
    prefilling: dict[RequestId, bool] = {}
    found = []
    for record in records:
        begins = {*record["new"], *record["resumed"]} - record.get("swap_in", {}).keys()
        prefilling.update(dict.fromkeys(begins, True))
        for request_id, count in record["scheduled"].items():
            prefilling.setdefault(request_id, count > 1)
        found.append({i: "prefill" if prefilling[i] else "decode" for i in record["scheduled"]})
        prefilling.update(dict.fromkeys((i for i, made in record["tokens"].items() if made), False))
    return found


def tables(records: Iterable[Record]) -> Iterator[dict[RequestId, list[int]]]:
    """For each record: the block tables in force while it computed; one dict, which the next turn changes."""
    held: dict[RequestId, list[int]] = {}
    for record in records:
        for request_id in (*record["preempted"], *record.get("aborted", ()), *record.get("dropped", ())):
            held.pop(request_id, None)
        held.update(record["blocks"])
        yield held
        for request_id in record["finished"]:
            held.pop(request_id, None)


@dataclass
class Spans:
    """Who was in which state when: "waiting", "prefill", "decode", "preempted"; and moments: (id, seconds)."""

    states: dict[str, list[Span]] = field(default_factory=dict)
    preempted: list[tuple[RequestId, float]] = field(default_factory=list)
    finished: list[tuple[RequestId, float]] = field(default_factory=list)
    unserved: list[tuple[RequestId, float]] = field(default_factory=list)  # refused, aborted, dropped
    _open: dict[RequestId, tuple[str, float]] = field(default_factory=dict)

    def turn(self, request_id: RequestId, state: str, when: float) -> None:
        """From ``when`` on the request is in ``state``; "" for none."""
        before, since = self._open.pop(request_id, ("", when))
        if state == before and state:
            self._open[request_id] = before, since
            return
        if before and since < when:
            self.states.setdefault(before, []).append((request_id, since, when))
        if state:
            self._open[request_id] = state, when

    def pause(self, request_id: RequestId, when: float) -> None:
        """Who has been served and is neither preempted nor gone waits from ``when`` on."""
        if self._open.get(request_id, ("", when))[0] in ("prefill", "decode"):
            self.turn(request_id, "waiting", when)

    def ids(self) -> set[RequestId]:
        """Everybody of whom there is something to tell."""
        moments = (*self.preempted, *self.finished, *self.unserved)
        return {i for its in self.states.values() for i, *_ in its} | {i for i, _ in moments}

    def close(self, when: float) -> None:
        """The log ends."""
        for request_id in list(self._open):
            self.turn(request_id, "", when)


def spans(records: Sequence[Record], requests: Iterable[Request] = ()) -> Spans:
    """The spans of a log. Who is in ``requests`` waits from its arrival time, others from the step they came in."""
    arrivals = {request.request_id: request.arrival_time for request in requests}
    made, served, before = Spans(), set[RequestId](), 0.0
    for first in records[:1]:  # of a log that is cut, some came before
        for request_id in set(first["waiting"]) - set(first["arrived"]):
            made.turn(request_id, "waiting", first["start"])
    for record, phase in zip(records, phases(records), strict=True):
        start = record["start"]
        for request_id in record["arrived"]:
            came = arrivals.get(request_id)
            if came is None or not before < came <= start:
                came = start
            made.turn(request_id, "waiting", came)
        for request_id in (*record["refused"], *record["aborted"], *record["dropped"]):
            made.turn(request_id, "", start)
            made.unserved.append((request_id, start))
        for request_id in record["preempted"]:
            made.turn(request_id, "preempted", start)
            made.preempted.append((request_id, start))
        for request_id in served - phase.keys():
            made.pause(request_id, start)
        for request_id, state in phase.items():
            made.turn(request_id, state, start)
        for request_id in record["finished"]:
            made.turn(request_id, "", record["time"])
            made.finished.append((request_id, record["time"]))
        served, before = set(phase) - record["finished"].keys(), start
    made.close(records[-1]["time"] if records else 0.0)
    return made
