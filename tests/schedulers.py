"""Schedulers of a screen each, to make step logs with; no chapter's answer is here."""

from __future__ import annotations

from collections.abc import Iterable

from decodelab.contract import Finished, Plan, Refused, SchedulerConfig, State, Tokens
from decodelab.log import Record, record_all
from decodelab.request import Job, Request, RequestId
from decodelab.run import Clock, Loop
from decodelab.sim.executor import Cost, SimExecutor, one_second


class TinyScheduler:
    """Continuous batching in order of arrival, prompts in chunks, memory without end."""

    def __init__(self, config: SchedulerConfig | None = None) -> None:
        self.config = config or SchedulerConfig()
        self.waiting: list[Request] = []
        self.running: dict[RequestId, Request] = {}
        self.computed: dict[RequestId, int] = {}  # tokens in the KV cache; its keys are the ids ever seen
        self.known: dict[RequestId, int] = {}  # tokens of prompt and answer
        self.lost: set[RequestId] = set()  # preempted and not back

    def add_request(self, request: Request, now: float) -> None:
        if request.request_id in self.computed:
            raise Refused("duplicate_id")
        if min(request.prompt_len, request.max_new_tokens) < 1:
            raise Refused("bad_length")
        self.computed[request.request_id], self.known[request.request_id] = 0, request.prompt_len
        self.waiting.append(request)

    def abort(self, request_id: RequestId, now: float) -> None:
        self.waiting = [request for request in self.waiting if request.request_id != request_id]
        if self.running.pop(request_id, None):
            self.free(request_id)

    def schedule(self, now: float) -> Plan:
        plan, budget = Plan(), self.config.max_num_batched_tokens
        for request_id in list(self.running):
            if request_id in self.running and budget:
                budget -= self.serve(request_id, budget, plan)
        while self.waiting and budget and not plan.preempted and len(self.running) < self.config.max_num_seqs:
            request = self.waiting[0]
            request_id = request.request_id
            if not self.fits(request_id, min(budget, self.known[request_id]), plan):
                break
            self.running[request_id] = self.waiting.pop(0)
            (plan.resumed if request_id in self.lost else plan.new).append(request_id)
            self.lost.discard(request_id)
            budget -= self.serve(request_id, budget, plan)
        return plan

    def serve(self, request_id: RequestId, budget: int, plan: Plan) -> int:
        """Put what the budget allows of a running request into the plan; how many tokens that is."""
        start = self.computed[request_id]
        count = min(self.known[request_id] - start, budget)
        while not self.fits(request_id, start + count, plan):
            if self.preempt(plan) == request_id:
                return 0
        plan.scheduled[request_id], plan.start[request_id] = count, start
        return count

    def preempt(self, plan: Plan) -> RequestId:
        """Send who was admitted last back to the head of the queue, with nothing computed."""
        request_id, request = self.running.popitem()
        self.free(request_id)
        self.computed[request_id] = 0
        self.waiting.insert(0, request)
        self.lost.add(request_id)
        plan.preempted.append(request_id)
        return request_id

    def update(self, plan: Plan, tokens: Tokens, now: float) -> Finished:
        finished: Finished = {}
        for request_id, count in plan.scheduled.items():
            request, made = self.running[request_id], tokens.get(request_id, [])
            self.computed[request_id] += count
            self.known[request_id] += len(made)
            if set(made) & set(request.stop_token_ids):
                finished[request_id] = "stop"
            elif self.known[request_id] - request.prompt_len >= request.max_new_tokens:
                finished[request_id] = "length"
        for request_id in finished:
            del self.running[request_id]
            self.free(request_id)
        return finished

    def state(self) -> State:
        return State(list(self.running), [request.request_id for request in self.waiting])

    def fits(self, request_id: RequestId, tokens: int, plan: Plan) -> bool:
        """Get memory for a request's first ``tokens``; whether that worked."""
        return True

    def free(self, request_id: RequestId) -> None:
        """Give a request's memory back."""


class PagedTiny(TinyScheduler):
    """The same on ``num_blocks`` KV blocks; who was admitted last makes room, and computes anew later."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        assert config.num_blocks
        self.pool = list(range(config.num_blocks))
        self.tables: dict[RequestId, list[int]] = {}

    def add_request(self, request: Request, now: float) -> None:
        if self.blocks(request.prompt_len + request.max_new_tokens - 1) > (self.config.num_blocks or 0):
            raise Refused("never_fits")
        super().add_request(request, now)

    def fits(self, request_id: RequestId, tokens: int, plan: Plan) -> bool:
        table = self.tables.setdefault(request_id, [])
        want = self.blocks(tokens) - len(table)
        if want > len(self.pool):
            return False
        if want > 0:
            table += self.pool[:want]
            del self.pool[:want]
            plan.block_tables[request_id] = list(table)
        return True

    def free(self, request_id: RequestId) -> None:
        self.pool += self.tables.pop(request_id, [])

    def state(self) -> State:
        return super().state()._replace(free_blocks=len(self.pool))

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.config.block_size)


def records_of(
    workload: Iterable[Request | Job],
    config: SchedulerConfig | None = None,
    cost: Cost = one_second,
    clock: Clock | None = None,
) -> list[Record]:
    """The step log of a TinyScheduler, or of a PagedTiny where the config has blocks."""
    config = config or SchedulerConfig()
    scheduler = PagedTiny(config) if config.num_blocks else TinyScheduler(config)
    return list(record_all(Loop(workload, scheduler, SimExecutor(cost), clock, watch=True)))
