"""SimExecutor: runs plans on a cost model; tokens are numbers that its workload fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from decodelab.contract import Plan, Tokens
from decodelab.request import EOS, Job, RequestId

# Seconds of a step, from: tokens computed; KV positions read (each request's context after the step, summed);
# query-key pairs under the causal mask.
Cost: TypeAlias = "Callable[[int, int, int], float]"

FIRST_TOKEN = 100  # token k of every answer is FIRST_TOKEN + k, or a stop token where its job says so


def one_second(new_tokens: int, kv_tokens: int, pairs: int) -> float:
    """The cost model that counts steps."""
    return 1.0


@dataclass(slots=True)
class _Answer:
    """How far a request's answer is."""

    num_tokens: int  # prompt and generated
    prompt_len: int
    stop_at: int | None
    stop_token: int


class SimExecutor:
    """The executor contract without a model: ``cost(new_tokens, kv_tokens, pairs)`` gives a step's seconds.

    A request gets a token in each step that computes up to its last known token, as a model would; whose
    prefill ends in a later step gets none.
    """

    def __init__(self, cost: Cost = one_second) -> None:
        self.cost = cost
        self._answers: dict[RequestId, _Answer] = {}

    def begin(self, job: Job) -> None:
        request = job.request
        stop_token = request.stop_token_ids[0] if request.stop_token_ids else EOS
        self._answers[request.request_id] = _Answer(
            request.prompt_len, request.prompt_len, job.stop_at, stop_token
        )

    def end(self, request_id: RequestId) -> None:
        self._answers.pop(request_id, None)

    def execute(self, plan: Plan) -> tuple[Tokens, float]:
        answers, starts, tokens = self._answers, plan.start, {}
        new_tokens = kv_tokens = pairs = 0
        for request_id, count in plan.scheduled.items():
            answer = answers[request_id]
            end = starts[request_id] + count
            new_tokens += count
            kv_tokens += end
            pairs += end if count == 1 else count * (2 * end - count + 1) // 2
            if end >= answer.num_tokens:
                index = answer.num_tokens - answer.prompt_len
                answer.num_tokens += 1
                token = answer.stop_token if index == answer.stop_at else FIRST_TOKEN + index
                tokens[request_id] = [token]
        return tokens, self.cost(new_tokens, kv_tokens, pairs) if new_tokens else 0.0
