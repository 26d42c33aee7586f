"""Workloads in which everything happens, drawn by number, each with the scheduler that serves it; and what happened."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from reference import reference

from decodelab.contract import Plan, Scheduler, SchedulerConfig
from decodelab.log import Record
from decodelab.request import EOS, Job, Request

KINDS = ("chunked", "swapping", "paged", "chunked", "swapping", "no-evict", "slots")
POLICIES = ("FCFS", "SJF", "PriorityOrder")


@dataclass(frozen=True)
class Load:
    """A workload, and what makes the scheduler that serves it."""

    name: str
    jobs: list[Job]
    config: SchedulerConfig
    maker: Callable[[], Scheduler]
    host_blocks: int  # blocks of host memory that the scheduler swaps to

    @property
    def num_blocks(self) -> int:
        """Blocks that an executor needs."""
        return self.config.num_blocks or self.config.max_num_seqs


class Slots:
    """Chapter 4's scheduler with a block for each place in the batch, as large as a request can get."""

    def __init__(self, config: SchedulerConfig, policy: Any) -> None:
        self.inner = reference("ch04").ContinuousBatchScheduler(config, policy)
        self.places = reference("ch05").BlockManager(config.max_num_seqs, config.block_size)
        self.add_request, self.state = self.inner.add_request, self.inner.state

    def schedule(self, now: float) -> Plan:
        plan = self.inner.schedule(now)
        for request_id in plan.new:
            self.places.allocate(request_id, 1)
            plan.block_tables[request_id] = list(self.places.tables[request_id])
        return plan

    def update(self, plan: Plan, tokens: Any, now: float) -> Any:
        finished = self.inner.update(plan, tokens, now)
        for request_id in finished:
            self.places.free(request_id)
        return finished

    def abort(self, request_id: Any, now: float) -> None:
        self.inner.abort(request_id, now)
        self.places.free(request_id)


def load(number: int, vocab: int) -> Load:
    """Workload ``number``, always the same; token ids are below ``vocab``."""
    rng = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    jobs = _jobs(rng, vocab)
    longest = max(job.request.prompt_len + job.request.max_new_tokens for job in jobs)
    config = _config(rng, kind, longest)
    policy = rng.choice(POLICIES)
    host_blocks = rng.choice([2, 8, 40]) if kind == "swapping" else 0

    def maker() -> Scheduler:
        order = getattr(reference("ch03"), policy)()
        made = scheduler(kind, config, order, host_blocks)
        if kind != "slots":
            random.Random(number).shuffle(made.kv._free)  # blocks lie anywhere
        return made

    return Load(f"{kind}-{number}", jobs, config, maker, host_blocks)


def scheduler(kind: str, config: SchedulerConfig, policy: Any, host_blocks: int) -> Any:
    """One of KINDS."""
    ch06 = reference("ch06")
    if kind == "swapping":
        return ch06.SwappingScheduler(config, policy, host_blocks)
    made = {"chunked": reference("ch07").ChunkedScheduler, "paged": ch06.PagedScheduler, "slots": Slots}
    return made.get(kind, ch06.NoEvictScheduler)(config, policy)


def _jobs(rng: random.Random, vocab: int) -> list[Job]:
    jobs, step = [], 0
    for i in range(rng.randint(3, 10)):
        step += rng.choice([0, 0, 0, 1, 2, 7])
        prompt = tuple(rng.randrange(vocab) for _ in range(rng.randint(1, 20)))
        name = rng.randrange(i) if i and rng.random() < 0.05 else i  # an id that is taken is refused
        wanted = rng.randint(1, 14)
        request = Request(
            name, 0.0, len(prompt), wanted, rng.randrange(3), prompt=prompt, stop_token_ids=(EOS,)
        )
        stop_at = rng.randrange(wanted) if rng.random() < 0.4 else None
        abort_at = step + rng.randrange(12) if rng.random() < 0.2 else None
        jobs.append(Job(request, step, stop_at, abort_at))
    return jobs


def _config(rng: random.Random, kind: str, longest: int) -> SchedulerConfig:
    """Memory for one of the longest, and a little more or a lot."""
    size = longest if kind == "slots" else rng.choice([1, 2, 4, 16])
    whole = kind != "chunked"
    return SchedulerConfig(
        max_num_seqs=rng.randint(2, 6),
        max_num_batched_tokens=longest + rng.randrange(20) if whole else rng.randint(1, 24),
        max_model_len=rng.choice([None, None, 20]) if kind == "chunked" else None,
        block_size=size,
        num_blocks=None if kind == "slots" else -(-longest // size) + rng.choice([0, 0, 1, 2, 50 // size]),
        watermark=rng.choice([0.0, 0.0, 0.1, 0.4]),
        reserve_full_prompt=rng.random() < 0.3,
        enable_chunked_prefill=not whole,
        long_prefill_token_threshold=rng.choice([0, 0, 3, 8]) if kind == "chunked" else 0,
    )


def happened(records: Iterable[Record]) -> Counter[str]:
    """How often each kind of thing happened in a run."""
    seen: Counter[str] = Counter()
    for record in records:
        reasons = list(record["finished"].values())
        seen += Counter(
            {
                "late arrivals": len(record["arrived"]) if record["step"] else 0,
                "refused": len(record["refused"]),
                "aborts": len(record["aborted"]),
                "chunks": len(record["scheduled"].keys() - record["tokens"].keys()),
                "preemptions by recompute": len(set(record["preempted"]) - record["swap_out"].keys()),
                "preemptions by swap": len(record["swap_out"]),
                "swapped back in": len(record["swap_in"]),
                "early stops": reasons.count("stop"),
                "ends by length": reasons.count("length"),
            }
        )
    return seen
