"""What a scheduler has been told and has planned, kept apart from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from decodelab.check.rules import Finding
from decodelab.contract import Finished, Plan, SchedulerConfig, Tokens
from decodelab.lang import both
from decodelab.request import Request, RequestId

STEPS_SHOWN = 8  # of the history that a finding shows


class Broken(Exception):
    """A rule is broken: ``finding`` says which."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.rule)
        self.finding = finding


@dataclass
class Entry:
    """An active request."""

    request: Request
    num_tokens: int  # prompt and generated
    computed: int = 0  # tokens whose KV is there
    running: bool = False
    begun: bool = False  # it was scheduled before
    table: list[int] = field(default_factory=list)

    @property
    def generated(self) -> int:
        """Output tokens so far."""
        return self.num_tokens - self.request.prompt_len


class Books:
    """Active requests, who runs in order of admission, and what each step scheduled."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.entries: dict[RequestId, Entry] = {}
        self.ids: set[RequestId] = set()  # every one that was ever taken in
        self.running: list[RequestId] = []
        self.history: list[dict[RequestId, int]] = []
        self.now = 0.0  # of the last call of schedule, seconds

    def waiting(self) -> list[Entry]:
        """Those that wait, in the order they came."""
        return [entry for entry in self.entries.values() if not entry.running]

    def add(self, request: Request) -> None:
        """The request was taken in."""
        self.entries[request.request_id] = Entry(request, request.prompt_len)
        self.ids.add(request.request_id)

    def remove(self, request_id: RequestId) -> None:
        """The request is over."""
        self.entries.pop(request_id, None)
        if request_id in self.running:
            self.running.remove(request_id)

    def apply(self, plan: Plan) -> None:
        """What a plan that meets the rules changes."""
        self.history.append(dict(plan.scheduled))
        for request_id in plan.dropped:
            self.remove(request_id)
        for request_id in plan.preempted:
            entry = self.entries[request_id]
            entry.running = False
            self.running.remove(request_id)
            if request_id not in plan.swap_out:
                entry.computed, entry.table = 0, []
        for request_id, count in plan.scheduled.items():
            entry = self.entries[request_id]
            if not entry.running:
                self.running.append(request_id)
            entry.running = entry.begun = True
            entry.computed = plan.start[request_id] + count
            entry.table = list(plan.block_tables.get(request_id, entry.table))

    def take(self, tokens: Tokens) -> Finished:
        """What these tokens change; who is over by them, and why."""
        finished: Finished = {}
        for request_id, made in tokens.items():
            entry = self.entries[request_id]
            for token in made:
                entry.num_tokens += 1
                if reason := self.reason(entry, token):
                    finished[request_id] = reason
                    break
        return finished

    def reason(self, entry: Entry, token: int) -> str:
        """Why the answer ends with ``token``; "" where it goes on."""
        if token in entry.request.stop_token_ids:
            return "stop"
        limit = self.config.max_model_len
        full = limit is not None and entry.num_tokens >= limit
        return "length" if full or entry.generated >= entry.request.max_new_tokens else ""

    def table(
        self, got: Plan | None = None, want: dict[RequestId, int] | None = None
    ) -> list[dict[str, Any]]:
        """A row a request: where it is, and its tokens in the last steps; ✗ what was planned, ✓ what is required."""
        first = max(0, len(self.history) - STEPS_SHOWN)
        rows = []
        for request_id, entry in self.entries.items():
            row: dict[str, Any] = {
                "request_id": request_id,
                "": "running" if entry.running else "waiting",
                "prompt_len": entry.request.prompt_len,
                "generated": entry.generated,
                "computed": entry.computed,
            }
            for number, step in enumerate(self.history[first:], first):
                row[f"step {number}"] = step.get(request_id, "·")
            for mark, chosen in (("✗", got.scheduled if got else None), ("✓", want)):
                if chosen is not None:
                    row[f"step {len(self.history)} {mark}"] = chosen.get(request_id, "·")
            rows.append(row)
        return rows


TABLE_LABEL = both(
    en="Active requests as they stood before this step, and the tokens scheduled for each in the last steps (✗ yours, ✓ required)",
    zh="这一步开始之前的活跃请求，以及最近几步为每个请求安排的 token 数（✗ 你的，✓ 要求的）",
)


def broken(
    books: Books,
    rule: str,
    en: str,
    zh: str,
    got: Plan | None = None,
    want: dict[RequestId, int] | None = None,
    **evidence: Any,
) -> Finding:
    """A finding with the requests at that moment."""
    details: dict[str, Any] = {"hint": 1, "state": books.table(got, want), "label": TABLE_LABEL}
    return Finding(rule, both(en=en, zh=zh), **(details | evidence))


def ids(requests: Sequence[Any]) -> str:
    """Ids for a sentence, at most eight."""
    return ", ".join(map(str, requests[:8])) + (" …" if len(requests) > 8 else "")
