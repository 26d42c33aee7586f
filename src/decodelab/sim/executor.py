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
    first: int  # token k is first + (num_tokens before it)
    stop_at: int  # num_tokens before the stop token; -1: there is none
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
        prompt_len = request.prompt_len
        self._answers[request.request_id] = _Answer(
            prompt_len,
            FIRST_TOKEN - prompt_len,
            -1 if job.stop_at is None else prompt_len + job.stop_at,
            stop_token,
        )

    def end(self, request_id: RequestId) -> None:
        self._answers.pop(request_id, None)

    def execute(self, plan: Plan) -> tuple[Tokens, float]:
        answers, starts, tokens = self._answers, plan.start, {}
        kv_tokens = chunked = masked = (
            0  # of chunks: the tokens after the first, and the pairs less the context
        )
        for request_id, count in plan.scheduled.items():
            answer = answers[request_id]
            end = starts[request_id] + count
            kv_tokens += end
            if count != 1:
                chunked += count - 1
                masked += count * (2 * end - count + 1) // 2 - end
            known = answer.num_tokens
            if end >= known:
                answer.num_tokens = known + 1
                tokens[request_id] = [answer.stop_token if known == answer.stop_at else known + answer.first]
        new_tokens = len(plan.scheduled) + chunked
        return tokens, self.cost(new_tokens, kv_tokens, kv_tokens + masked) if new_tokens else 0.0
