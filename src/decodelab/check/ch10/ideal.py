"""What an engine must show after each line of a script, from the definitions: bytes, scripts and counting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from decodelab.check.ch08.oracle import visible
from decodelab.check.rules import Case

_BYTE = re.compile(r"<([0-9A-F]{2})>")
STOP = ""  # the piece that is the stop token: no text


@dataclass
class Moment:
    """After one line: what it returned, what the toys were asked, steps made, outputs, who is active, holds blocks, is kept, has arrived, was aborted; prompts and stop strings."""

    told: Any
    log: list[Any]
    steps: int
    outputs: dict[str, list[Any]]
    active: list[str]
    held: list[str]
    kept: list[str]
    arrived: list[str]
    aborted: list[str]
    asked: dict[str, list[Any]]


@dataclass
class Going:
    """A request that goes on."""

    asked: dict[str, Any]
    computed: int = 0
    said: int = 0


def in_bytes(piece: str) -> bytes:
    """A piece of a case: text, or ``<E6>`` for one byte of it."""
    parts = _BYTE.split(piece)
    return b"".join(bytes.fromhex(p) if i % 2 else p.encode() for i, p in enumerate(parts))


def vocabulary(case: Case) -> tuple[list[bytes], dict[str, dict[str, Any]]]:
    """The pieces by token id, the stop token first; and the requests with their answers as token ids."""
    pieces = [STOP]
    for asked in case["requests"]:
        pieces += [piece for piece in asked["answer"] if piece not in pieces]
    prompt = len(pieces)  # what prompts are made of
    requests = {
        r["id"]: r | {"tokens": [pieces.index(p) for p in r["answer"]], "prompt": [prompt] * r["prompt_len"]}
        for r in case["requests"]
    }
    return [in_bytes(piece) for piece in (*pieces, "Q")], requests


def sensible(case: Case) -> bool:
    """Whether a case, perhaps a shrunk one, says who is meant wherever it names somebody."""
    ids, submitted = [asked["id"] for asked in case["requests"]], set()
    for op, *names in case["ops"]:
        if op == "submit":
            submitted |= set(names)
        known = {"submit": ids, "read": submitted - set(case.get("refuses", ()))}.get(op, names)
        if not set(names) <= set(known):
            return False
    return len(set(ids)) == len(ids)


def text_of(pieces: list[bytes], fallback: bool) -> str:
    """The text of pieces; with ``fallback`` single bytes in a row are text together, or each is ``\ufffd``."""
    if not fallback:
        return b"".join(pieces).decode("utf-8", "replace")
    text = ""
    for _, run in groupby(pieces, lambda piece: len(piece) == 1 and piece >= b"\x80"):
        joined = b"".join(run)
        try:
            text += joined.decode()
        except UnicodeDecodeError:
            text += "\ufffd" * len(joined)
    return text


class Ideal:
    """An engine that needs no model: everybody is served in every step."""

    def __init__(self, case: Case) -> None:
        self.case, self.chunk = case, case.get("chunk", 99)
        self.pieces, self.requests = vocabulary(case)
        self.outputs: dict[str, list[Any]] = {}
        self.active: dict[str, Going] = {}
        self.sent: dict[str, int] = {}
        self.arrived: list[str] = []
        self.aborted: list[str] = []
        self.log: list[Any] = []
        self.now, self.steps = 0.0, 0

    def after(self, op: list[Any]) -> Moment:
        """Do what a line says, and look."""
        self.log, self.steps = [], 0
        told = getattr(self, op[0])(*op[1:])
        outputs = {i: [list(ids), text, reason] for i, (ids, text, reason) in self.outputs.items()}
        held = [i for i, going in self.active.items() if going.computed]
        return Moment(
            told,
            self.log,
            self.steps,
            outputs,
            list(self.active),
            held,
            list(self.active),
            list(self.arrived),
            list(self.aborted),
            {i: [self.requests[i]["prompt"], self.requests[i]["stop"]] for i in self.outputs},
        )

    def submit(self, request_id: str) -> str | None:
        """None, or the reason why not."""
        if request_id in self.outputs:
            return "duplicate_id"
        if request_id in self.case.get("refuses", ()):
            return "never_fits"
        self.outputs[request_id] = [[], "", None]
        self.active[request_id] = Going(self.requests[request_id])
        self.arrived.append(request_id)
        self.log.append(self.now)
        return None

    def abort(self, request_id: str) -> None:
        """Who is there leaves at once."""
        if request_id in self.active:
            self.ends(request_id, "aborted")
            self.aborted.append(request_id)

    def ends(self, request_id: str, reason: str) -> None:
        """Over."""
        self.outputs[request_id][2] = reason
        del self.active[request_id]

    def step(self) -> list[Any] | None:
        """Everybody's next chunk or token: [who arrived, tokens, who ended, who was aborted]."""
        if not (self.active or self.arrived or self.aborted):
            return None
        (arrived, aborted), self.arrived, self.aborted = (self.arrived, self.aborted), [], []
        tokens: dict[str, list[int]] = {}
        finished: dict[str, str] = {}
        for request_id, going in list(self.active.items()):
            if request_id in self.case.get("drops", ()) and going.computed:
                self.ends(request_id, "timeout")
                continue
            left = going.asked["prompt_len"] + going.said - going.computed
            going.computed += min(left, self.chunk)
            if left <= self.chunk:
                tokens[request_id] = [
                    self.speaks(request_id, going) for _ in range(self.case.get("at_once", 1))
                ]
                if reason := self.hears(request_id, going):
                    finished[request_id] = reason
        self.now += 0.5
        self.steps += 1
        self.log.append([tokens, self.now])
        for request_id, reason in finished.items():
            self.ends(request_id, reason)
        return [arrived, tokens, finished, aborted]

    def speaks(self, request_id: str, going: Going) -> int:
        """The script's next token; after its end the stop token."""
        script = going.asked["tokens"]
        token = script[going.said] if going.said < len(script) else 0
        going.said += 1
        self.outputs[request_id][0].append(token)
        return token

    def hears(self, request_id: str, going: Going) -> str:
        """Bring the text up to date; why the request is over, "" where it is not."""
        ids = self.outputs[request_id][0]
        text = text_of([self.pieces[i] for i in ids], self.case.get("fallback", False)).rstrip("\ufffd")
        safe, cut = visible(text, going.asked["stop"])
        reason = (
            "stop" if cut or ids[-1] == 0 else "length" if going.said >= going.asked["max_new_tokens"] else ""
        )
        shown = text if reason and not cut else safe
        self.outputs[request_id][1] = max(self.outputs[request_id][1], shown, key=len)
        return reason

    def read(self, request_id: str) -> list[Any]:
        """What a stream gives next, stepping for it, and whether it is over: [[text], over]."""
        while True:
            text, reason = self.outputs[request_id][1:]
            if new := text[self.sent.get(request_id, 0) :]:
                self.sent[request_id] = len(text)
                return [[new], False]
            if reason:
                return [[], True]
            self.step()
