"""A request: what one user asks of the server, in the field's own names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One row of a workload. Nothing is checked here: refusing a bad request is a scheduler's job."""

    request_id: int
    arrival_time: float  # seconds since the workload began
    prompt_len: int  # tokens
    max_new_tokens: int  # tokens
    priority: int = 0  # higher is more urgent
    prefix_hashes: tuple[int, ...] = ()  # one a prompt block; equal ids: equal prefix up to there
