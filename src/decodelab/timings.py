"""When each request got what: the raw times from which chapter 2's metrics are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from decodelab.request import RequestId
from decodelab.run import Step


@dataclass(slots=True)
class Timing:
    """One request's times, in seconds on the run's clock."""

    request_id: RequestId
    arrival_time: float
    prompt_len: int  # tokens
    scheduled_time: float | None = None  # start of the first step that worked for it
    token_times: list[float] = field(default_factory=list)  # one an output token
    reason: str = ""  # stop, length, aborted, or why it was refused or dropped; "" while it is not over
    preemptions: int = 0


class Timings:
    """The timings of a run, by id in order of arrival; feed it each step."""

    def __init__(self) -> None:
        self.by_id: dict[RequestId, Timing] = {}

    def __iter__(self) -> Iterator[Timing]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def see(self, step: Step) -> None:
        """Take in the next step. A refused request leaves the times of another with its id alone."""
        by_id, plan, end = self.by_id, step.plan, step.end
        for request in step.arrived:
            reason = step.refused.get(request.request_id, "")
            if not (reason and request.request_id in by_id):
                timing = Timing(request.request_id, request.arrival_time, request.prompt_len, reason=reason)
                by_id[request.request_id] = timing
        if step.aborted or plan.dropped or step.finished:
            for ended in (dict.fromkeys(step.aborted, "aborted"), plan.dropped, step.finished):
                for request_id, reason in ended.items():
                    by_id[request_id].reason = reason
        for request_id in plan.new:
            by_id[request_id].scheduled_time = step.start
        for request_id in plan.preempted:
            by_id[request_id].preemptions += 1
        for request_id, tokens in step.tokens.items():
            if len(tokens) == 1:
                by_id[request_id].token_times.append(end)
            else:
                by_id[request_id].token_times.extend([end] * len(tokens))


def timings(steps: Iterable[Step]) -> Timings:
    """The timings of a whole run."""
    seen = Timings()
    for step in steps:
        seen.see(step)
    return seen
