"""The contract: what a scheduler and an executor say to each other, in the simulator and in the real engine.

docs/contract.md says it in words. ``run.py`` holds the one loop that drives both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from decodelab.request import Job, Request, RequestId

Tokens: TypeAlias = "dict[RequestId, list[int]]"  # what a step generated; nothing for an unfinished prefill
Finished: TypeAlias = "dict[RequestId, str]"  # why each request ended: "stop" | "length"


class Refused(ValueError):
    """Raised by ``add_request`` for a request that can never be served as asked; ``reason`` is one word of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


REASONS = {  # docs/contract.md says exactly when
    "duplicate_id": "a request with this id was added before, and ids stay taken",
    "bad_length": "prompt_len or max_new_tokens is not a positive integer",
    "over_budget": "what may have to be computed at once is more than one step may take",
    "over_model_len": "the prompt leaves no room for an output token within max_model_len",
    "never_fits": "the pool has fewer blocks than the request needs at its longest",
}


@dataclass(slots=True)
class Plan:
    """Who runs in one step, in order, and what happens to memory before it.

    In this order the executor frees, swaps out, swaps in, copies and computes. A field of a plan is plain data:
    ids, ints, lists and dicts of those.
    """

    scheduled: dict[RequestId, int] = field(default_factory=dict)  # tokens to compute, at least 1 each
    start: dict[RequestId, int] = field(default_factory=dict)  # of the same requests: position of the first
    new: list[RequestId] = field(default_factory=list)  # scheduled for the first time
    resumed: list[RequestId] = field(default_factory=list)  # scheduled again after a preemption
    preempted: list[RequestId] = field(default_factory=list)  # lost their memory, back in waiting
    cached: dict[RequestId, int] = field(default_factory=dict)  # prefix hits (tokens) of new
    # Physical block ids in the order of the request's tokens, where the table is not the one last told.
    block_tables: dict[RequestId, list[int]] = field(default_factory=dict)
    swap_out: dict[RequestId, list[tuple[int, int]]] = field(default_factory=dict)  # (block, host block)
    swap_in: dict[RequestId, list[tuple[int, int]]] = field(default_factory=dict)  # (host block, block)
    copy: list[tuple[int, int]] = field(default_factory=list)  # (from block, to block)
    dropped: dict[RequestId, str] = field(default_factory=dict)  # ended by the scheduler itself, and why

    def data(self) -> dict[str, Any]:
        """The plan as plain data."""
        return asdict(self)


class State(NamedTuple):
    """What a scheduler holds, for the log and for pictures; nothing is decided by it."""

    running: list[RequestId]  # in order of admission
    waiting: list[RequestId]  # the next one first
    free_blocks: int | None = None  # None: no block manager


class Policy(Protocol):
    """The order in which requests are served: the smallest key first, ties by request_id."""

    def key(self, request: Request, now: float) -> Any:
        """A key that can be compared with those of all other requests at the same ``now`` (seconds)."""


class Scheduler(Protocol):
    """Decides; holds no tensors and asks no clock. Times are seconds and never go back."""

    def add_request(self, request: Request, now: float) -> None:
        """Take in a request; ``Refused`` leaves everything as it was."""

    def abort(self, request_id: RequestId, now: float) -> None:
        """Forget a request, waiting or running, and free its memory; an unknown or finished id is ignored."""

    def schedule(self, now: float) -> Plan:
        """What the next step computes; an empty plan where nothing can run."""

    def update(self, plan: Plan, tokens: Tokens, now: float) -> Finished:
        """Take in what the step of ``plan`` generated; which requests ended by it, and why."""

    def state(self) -> State:
        """Queues and free blocks as they are."""


class Executor(Protocol):
    """Computes; decides nothing about who runs."""

    def begin(self, job: Job) -> None:
        """A request was taken in: its prompt and where its answer ends."""

    def end(self, request_id: RequestId) -> None:
        """A request finished or was aborted; what is kept for it can go."""

    def execute(self, plan: Plan) -> tuple[Tokens, float]:
        """Run one step: the tokens generated, and the seconds it took."""


@dataclass(frozen=True)
class SchedulerConfig:
    """The knobs of a scheduler; each chapter reads those that it has taught. ValueError names a bad one."""

    max_num_seqs: int = 8  # requests in one step
    max_num_batched_tokens: int = 64  # tokens in one step
    max_model_len: int | None = None  # prompt and output tokens of one request; None: no limit
    block_size: int = 16  # tokens in a KV block
    num_blocks: int | None = None  # KV blocks that requests can use; None: no block manager
    watermark: float = 0.0  # share of the blocks that admission leaves free
    reserve_full_prompt: bool = False  # admit only where the whole prompt has blocks
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0  # most prompt tokens of one request in a step; 0: no cap
    enable_prefix_caching: bool = False

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "num_blocks", "max_model_len"):
            value = getattr(self, name)
            optional = name in ("num_blocks", "max_model_len")
            if not (_whole(value, 1) or (optional and value is None)):
                raise ValueError(f"{name} must be a positive integer, not {value!r} | {name} 必须是正整数")
        if not _whole(self.long_prefill_token_threshold, 0):
            raise ValueError(
                "long_prefill_token_threshold must be 0 (no cap) or a positive integer | "
                "long_prefill_token_threshold 必须是 0（不设上限）或正整数"
            )
        if not (isinstance(self.watermark, int | float) and 0 <= self.watermark < 1):
            raise ValueError(
                "watermark must be a number from 0 to below 1 | watermark 必须是 [0, 1) 之内的数"
            )
        for name in ("reserve_full_prompt", "enable_chunked_prefill", "enable_prefix_caching"):
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {value!r} | {name} 必须是 True 或 False")


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def jobs_of(workload: Iterable[Request | Job]) -> list[Job]:
    """Every item as a job: a bare request has no secrets and comes at step 0 of the logical clock."""
    return [item if isinstance(item, Job) else Job(item) for item in workload]
