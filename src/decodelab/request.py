"""The vocabulary: a request, what it may be promised, and what only its workload knows of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

RequestId: TypeAlias = "int | str"

EOS = 2  # the stop token of workloads that fix where an answer ends
LEAST = 1e-6  # of a temperature above 0 and of a top-p: below it float32 has no number to reckon with


@dataclass(frozen=True)
class Request:
    """What one user asks, as a scheduler sees it.

    Nothing is checked here: refusing a bad request is a scheduler's job.
    """

    request_id: RequestId
    arrival_time: float  # seconds since the workload began
    prompt_len: int  # tokens
    max_new_tokens: int  # tokens; the answer may end sooner
    priority: int = 0  # higher is more urgent
    prefix_hashes: tuple[int, ...] = ()  # one a prompt block; equal ids: equal prefix up to there
    prompt: tuple[int, ...] = ()  # token ids, where the workload has them
    stop_token_ids: tuple[int, ...] = ()  # a token that ends the answer


@dataclass(frozen=True)
class SLO:
    """A service level objective: a request is good if it meets both limits (seconds)."""

    ttft: float  # time to first token
    tpot: float  # mean time per token after the first


@dataclass(frozen=True)
class Sampling:
    """How an answer's tokens are drawn and which text ends it: what only the engine's side needs to know.

    ValueError for what nothing can be drawn by, and for a stop that is no tuple of texts.
    """

    temperature: float = 0.0  # 0: greedy
    top_p: float = 1.0  # above 0, at most 1
    seed: int = 0  # together with the request's id, of the numbers it draws
    stop: tuple[str, ...] = ()  # texts that end the answer; they are not part of it

    def __post_init__(self) -> None:
        if self.temperature != 0 and not LEAST <= self.temperature < math.inf:
            raise ValueError(
                "temperature must be 0 (greedy) or from 1e-6 on | temperature 必须是 0（贪心），或不小于 1e-6 的数"
            )
        if not LEAST <= self.top_p <= 1:
            raise ValueError("top_p must be from 1e-6 to 1 | top_p 必须在 1e-6 到 1 之间")
        if not (isinstance(self.stop, tuple) and all(isinstance(s, str) and s for s in self.stop)):
            raise ValueError(
                "stop must be a tuple of texts, none of them empty | stop 必须是由非空字符串组成的元组"
            )


@dataclass(frozen=True)
class Job:
    """A request with what its workload knows and no scheduler may see before its time.

    ValueError where an answer is to stop at a token and the request has no ``stop_token_ids``.
    """

    request: Request
    arrival_step: int = 0  # when it comes, on the logical clock
    stop_at: int | None = None  # which output token, from 0, is a stop token; None: none is
    abort_at: float | None = None  # when its user gives up: a step on the logical clock, else seconds
    sampling: Sampling = Sampling()

    def __post_init__(self) -> None:
        if self.stop_at is not None and not self.request.stop_token_ids:
            raise ValueError(
                "stop_at needs a request with stop_token_ids | 有 stop_at 的请求必须带 stop_token_ids"
            )
