"""Batching changes no answer: whoever else is in the batch, however the prompt is cut, wherever the blocks lie.

Chapter 10's executor under the schedulers of chapters 4 to 7, against chapter 8's ``generate`` on one request at a time.
After every step all memory that holds nobody's keys and values is filled with NaN, in the pool and on the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any

import pytest
from loads import Load, happened, load
from reference import reference

from decodelab.check.ch08 import tiny
from decodelab.contract import Plan
from decodelab.events import first_difference
from decodelab.log import Record, record_all
from decodelab.models.config import Config
from decodelab.models.load import load as load_model
from decodelab.request import Job, RequestId
from decodelab.run import Loop, StepClock

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
CH08, CH10 = reference("ch08"), reference("ch10")
TIE = 1e-4  # two largest logits nearer than this may change places
NAN = float("nan")


@cache
def decoder(name: str, dtype: Any = torch.float32) -> Any:
    if name == "embedded":
        model = load_model("embedded", dtype)
        return CH08.Decoder(model.config, model.weights)
    weights = {key: torch.from_numpy(w).to(dtype) for key, w in tiny.weights(name, 0).items()}
    return CH08.Decoder(Config(**tiny.shape_of(name)), weights)


class Poisoned:
    """An executor, and after every step NaN wherever no request's own keys and values lie."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.tables: dict[RequestId, list[int]] = {}
        self.ends: dict[RequestId, int] = {}  # of who has blocks: tokens in the cache
        self.away: dict[RequestId, list[int]] = {}  # blocks on the host
        self.poison()

    def begin(self, job: Job) -> None:
        self.inner.begin(job)

    def end(self, request_id: RequestId) -> None:
        self.inner.end(request_id)
        for kept in (self.tables, self.ends, self.away):
            kept.pop(request_id, None)

    def execute(self, plan: Plan) -> Any:
        done = self.inner.execute(plan)
        for request_id in plan.preempted:
            self.tables.pop(request_id), self.ends.pop(request_id)
        self.away |= {i: [there for _, there in pairs] for i, pairs in plan.swap_out.items()}
        for request_id in plan.swap_in:
            del self.away[request_id]
        self.tables |= plan.block_tables
        self.ends |= {i: plan.start[i] + count for i, count in plan.scheduled.items()}
        self.poison()
        return done

    def poison(self) -> None:
        size, host = self.inner.block_size, self.inner.host
        used = [
            table[p // size] * size + p % size
            for i, table in self.tables.items()
            for p in range(self.ends[i])
        ]
        fill(self.inner.kv, used)
        if host:
            fill(
                host,
                [block * size + k for blocks in self.away.values() for block in blocks for k in range(size)],
            )


def fill(kv: Any, used: list[int]) -> None:
    """NaN in all slots but these."""
    free = torch.ones(kv.keys.shape[1], dtype=torch.bool)
    free[used] = False
    kv.keys[:, free], kv.values[:, free] = NAN, NAN


def freely(one: Load, stops: tuple[int, ...]) -> list[Job]:
    """The jobs, with answers that end where the model ends them."""
    return [
        replace(job, stop_at=None, request=replace(job.request, stop_token_ids=stops)) for job in one.jobs
    ]


def batched(
    one: Load, jobs: list[Job], model: Any, **how: Any
) -> tuple[dict[RequestId, list[int]], list[Record]]:
    """What each request was answered, and the log."""
    inner = CH10.TorchExecutor(model, one.num_blocks, one.config.block_size, one.host_blocks, **how)
    loop = Loop(jobs, one.maker(), Poisoned(inner), StepClock(), watch=True)
    answers: dict[RequestId, list[int]] = {}
    log = list(record_all(loop))
    for record in log:
        for request_id, tokens in record["tokens"].items():
            answers.setdefault(request_id, []).extend(tokens)
    return answers, log


def alone(model: Any, job: Job, limit: int | None) -> list[int]:
    """The request's answer where nobody else is served; ``limit``: tokens of prompt and answer, if there is one."""
    request = job.request
    wanted = min(request.max_new_tokens, (limit or 10**6) - request.prompt_len)
    return list(CH08.generate(model, list(request.prompt), wanted, request.stop_token_ids))


def is_tie(model: Any, prompt: tuple[int, ...], answer: list[int]) -> bool:
    """Whether the next token after these is as good as another."""
    first, second = logits(model, [*prompt, *answer])[-1].topk(2).values
    return bool(first - second < TIE)


def logits(model: Any, tokens: list[int]) -> Any:
    """Those after each token, of one request alone."""
    positions = torch.arange(len(tokens))
    return model.logits(model.forward(torch.tensor(tokens), positions, model.cache(len(tokens)))).float()


def compared(one: Load, model: Any, stops: tuple[int, ...], **how: Any) -> Counter[str]:
    """How many tokens were compared, and at how many ties an answer went another way; and what happened.

    Fails at any other difference. Only who was aborted has less than the whole answer.
    """
    jobs = freely(one, stops)
    answers, log = batched(one, jobs, model, **how)
    own = taken_in(jobs, log)
    over = {i for record in log for i in record["finished"]}
    seen = happened(log)
    for request_id, got in answers.items():
        job = own[request_id]
        want = alone(model, job, one.config.max_model_len)
        want = want if request_id in over else want[: len(got)]
        same = first_difference(want, got)
        seen["tokens"] += len(got) if same is None else same
        if same is not None:
            assert is_tie(model, job.request.prompt, want[:same]), (one.name, request_id, want, got)
            seen["ties"] += 1
    return seen


def taken_in(jobs: list[Job], log: list[Record]) -> dict[RequestId, Job]:
    """By id the job that was served: an id that was refused may come again."""
    arrived = [(i, i in record["refused"]) for record in log for i in record["arrived"]]
    coming = {i: [job for job in jobs if job.request.request_id == i] for i, _ in arrived}
    order = [(i, coming[i].pop(0), refused) for i, refused in arrived]
    return {i: job for i, job, refused in order if not refused}


def all_of(name: str, loads: Iterable[Load], stops: tuple[int, ...] = (), **how: Any) -> Counter[str]:
    """``compared`` over several workloads, told; ties are fewer than one in a thousand tokens."""
    model, seen = decoder(name), Counter[str](ties=0)
    for one in loads:
        seen.update(compared(one, model, stops, **how))
    print(f"\n{name}:", ", ".join(f"{count} {what}" for what, count in seen.most_common()))
    assert seen["ties"] < seen["tokens"] / 1000
    return seen


@pytest.mark.parametrize(
    ("name", "count"),
    [("llama", 70), ("qwen3", 70), ("no-groups", 70), pytest.param("llama", 1000, marks=pytest.mark.slow)],
)
def test_an_answer_does_not_depend_on_who_else_is_served(name: str, count: int) -> None:
    seen = all_of(name, (load(number, 48) for number in range(count)), stops=(5, 9, 30))
    assert seen["tokens"] > 10 * count
    assert {"aborts", "chunks", "preemptions by recompute", "swapped back in", "early stops"} <= set(seen)


def test_the_embedded_model_says_the_same_in_any_company() -> None:
    texts = (
        "春风",
        "The spring",
        "明月几时有，",
        "And it came to pass, that",
        "In the beginning God created the heaven",
    )
    encode = load_model("embedded").tokenizer.encode
    loads = [with_prompts(load(number, 48), [tuple(encode(text)) for text in texts]) for number in range(21)]
    assert all_of("embedded", loads)["tokens"] > 500


def with_prompts(one: Load, prompts: list[tuple[int, ...]]) -> Load:
    """The workload with these prompts in turns."""
    jobs = []
    for job, prompt in zip(one.jobs, cycle(prompts), strict=False):
        jobs.append(replace(job, request=replace(job.request, prompt=prompt, prompt_len=len(prompt))))
    return replace(one, jobs=jobs)


# --- bfloat16 ---------------------------------------------------------------------------------------


class Told:
    """A decoder that keeps the logits that it was asked for."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.rows: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def logits(self, hidden: Any) -> Any:
        self.rows.append(self.inner.logits(hidden))
        return self.rows[-1]


def drawn_from(one: Load, model: Any) -> list[tuple[list[int], list[Any]]]:
    """For each request its prompt, and the rows of logits that its tokens come from, in a batch: (token, row)."""
    told = Told(model)
    rows: dict[RequestId, list[Any]] = {}
    jobs = freely(one, ())
    _, log = batched(one, jobs, told)
    steps = [record for record in log if record["scheduled"]]
    for record, logits in zip(steps, told.rows, strict=True):
        for request_id, row in zip(record["scheduled"], logits, strict=True):
            for token in record["tokens"].get(request_id, ()):
                assert int(row.argmax()) == token
                rows.setdefault(request_id, []).append((token, row.float()))
    own = taken_in(jobs, log)
    return [(list(own[i].request.prompt), drawn) for i, drawn in rows.items()]


def test_batching_adds_nothing_to_what_bfloat16_rounds() -> None:
    """After the same tokens a batch's logits are as near to float32's as those of one request alone.

    Every one within 0.2 of the largest logit (one request alone: 0.17), on the average within 1.1 times what bfloat16
    alone is off.
    """
    half, full = decoder("llama", torch.bfloat16), decoder("llama")
    off: dict[str, list[float]] = {"batch": [], "alone": []}
    for one in (load(number, 48) for number in range(70)):
        for prompt, drawn in drawn_from(one, half):
            tokens = prompt + [token for token, _ in drawn[:-1]]
            want = logits(full, tokens)[-len(drawn) :]
            found = {
                "batch": torch.stack([row for _, row in drawn]),
                "alone": logits(half, tokens)[-len(drawn) :],
            }
            for name, got in found.items():
                off[name] += ((got - want).abs().amax(1) / want.abs().amax(1)).tolist()
    mean = {name: sum(some) / len(some) for name, some in off.items()}
    print(
        f"\nbfloat16, {len(off['batch'])} rows: mean {mean}, largest {max(off['batch']):.3f}, {max(off['alone']):.3f}"
    )
    assert max(off["batch"]) < 0.2
    assert mean["batch"] < 1.1 * mean["alone"]


# --- what is wrong is seen --------------------------------------------------------------------------

WATCHED = [load(number, 48) for number in range(35)]


def test_who_reads_what_is_nobodys_is_seen() -> None:
    def reads_all(q: Any, keys: Any, values: Any, batch: Any) -> Any:
        return reference("ch09").paged_attention(q, keys, values, batch) + 0 * values.sum()

    with pytest.raises(AssertionError):
        all_of("llama", WATCHED, attention=reads_all)


def test_swaps_that_move_nothing_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CH10, "move_blocks", lambda plan, kv, host: None)
    with pytest.raises(AssertionError, match="swapping"):
        all_of("llama", WATCHED)


def test_an_answer_of_another_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = CH10.TorchExecutor.execute

    def mixed(self: Any, plan: Plan) -> Any:
        tokens, seconds = real(self, plan)
        return dict(zip(tokens, reversed(tokens.values()), strict=True)), seconds

    monkeypatch.setattr(CH10.TorchExecutor, "execute", mixed)
    with pytest.raises(AssertionError):
        all_of("llama", WATCHED)
