"""Chapter 10's contract on the reference: whoever comes and goes, no token and no block is lost, and every text is its own."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from itertools import pairwise, zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import reference

from decodelab.check.ch08 import oracle, tiny
from decodelab.contract import Plan, Refused, SchedulerConfig, State
from decodelab.errors import DecodeLabError
from decodelab.log import record_all
from decodelab.models.config import Config
from decodelab.models.load import load
from decodelab.request import Job, Request, Sampling
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor, one_second

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
LAB, MODEL, ORDER, CHUNKED = map(reference, ("ch10", "ch08", "ch03", "ch07"))
STOP = 5  # a stop token that the tiny model says now and then


@cache
def decoder():
    weights = {name: torch.from_numpy(w) for name, w in tiny.weights("llama", 1).items()}
    return MODEL.Decoder(Config(**tiny.shape_of("llama")), weights)


@cache
def alone(request_id, prompt: tuple[int, ...], sampling: Sampling, limit: int = 10) -> list[int]:
    """What chapter 8's loop says for one request by itself."""
    generator = MODEL.Seeds(sampling.seed).generator(request_id)
    answer = MODEL.generate(
        decoder(), list(prompt), limit, (STOP,), sampling.temperature, sampling.top_p, generator
    )
    return list(answer)


def engine_of(config: SchedulerConfig, scheduler=None, **how):
    how = {"cost": one_second} | how
    executor = LAB.TorchExecutor(decoder(), config.num_blocks, config.block_size, **how)
    chosen = scheduler or CHUNKED.ChunkedScheduler(config, ORDER.FCFS())
    return LAB.Engine(chosen, executor, clock=StepClock())


def poison(engine) -> None:
    """Free blocks become NaN."""
    kv, size = engine.executor.kv, engine.executor.block_size
    free = torch.ones(kv.keys.shape[1], dtype=torch.bool)
    for table in engine.scheduler.kv.tables.values():
        for block in table:
            free[block * size : (block + 1) * size] = False
    kv.keys[:, free] = kv.values[:, free] = float("nan")


# --- whoever comes and goes -------------------------------------------------------------------------

SAMPLINGS = (Sampling(), Sampling(1.0, 0.9, 3), Sampling(1.3, 1.0, 4))


def play(seed: int) -> Counter:
    """A random life of an engine, every claim checked; what happened in it, counted."""
    rng = random.Random(seed)
    happened: Counter[str] = Counter()
    size, seqs = rng.choice([1, 2, 4]), rng.randint(1, 4)
    budget = rng.choice([2, 3, 8, 32])
    config = SchedulerConfig(seqs, budget, block_size=size, num_blocks=rng.randint(24, 40) // size)
    engine, asked = engine_of(config), {}
    for _ in range(rng.randint(10, 40)):
        what = rng.random()
        if what < 0.3:
            prompt = tuple(rng.choices(range(6, 40), k=rng.randint(1, 9)))
            sampling = rng.choice(SAMPLINGS)
            request_id = engine.add_request(list(prompt), 10, sampling=sampling, stop_token_ids=(STOP,))
            asked[request_id] = prompt, sampling
        elif what < 0.38 and asked:
            engine.abort(rng.choice([*asked, "nobody"]))
        else:
            engine.step()
            poison(engine)
    while engine.step():
        poison(engine)
    check_life(engine, asked, happened)
    return happened


def check_life(engine, asked, happened: Counter) -> None:
    """No block lost, none kept; every text that of its request alone, an aborted one's beginning."""
    assert engine.scheduler.kv.num_free == engine.scheduler.config.num_blocks
    assert not engine.active
    for kept in ("jobs", "sequences", "tables", "generators"):
        assert not getattr(engine.executor, kept)
    for request_id, (prompt, sampling) in asked.items():
        output, want = engine.outputs[request_id], alone(request_id, prompt, sampling)
        if output.reason == "aborted":
            assert output.token_ids == want[: len(output.token_ids)]
        else:
            assert output.token_ids == want
            assert output.reason == ("stop" if want[-1] == STOP else "length")
        happened[output.reason] += 1
    told: Counter[int | str] = Counter()
    for step in engine.steps:
        told.update({i: len(tokens) for i, tokens in step.tokens.items()})
        happened["preempted"] += len(step.plan.preempted)
    assert told == Counter({i: len(o.token_ids) for i, o in engine.outputs.items() if o.token_ids})


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_token_and_no_block_is_lost(first):
    happened = sum((play(seed) for seed in range(first, first + 20)), Counter())
    assert min(happened[what] for what in ("stop", "length", "aborted", "preempted")) > 0, happened


@pytest.mark.slow
def test_no_token_and_no_block_is_lost_in_two_thousand_lives():
    happened = sum((play(seed) for seed in range(100, 2100)), Counter())
    assert min(happened[what] for what in ("stop", "length", "aborted", "preempted")) > 100, happened


def run_out(engine) -> list[list[int]]:
    """To the end, free blocks poisoned after every step; everybody's tokens."""
    while engine.step():
        poison(engine)
    return [output.token_ids for output in engine.outputs.values()]


@pytest.mark.parametrize("seed", range(4))
def test_swapped_blocks_come_back_as_they_were(seed):
    rng = random.Random(seed)
    prompts = [rng.choices(range(6, 40), k=rng.randint(3, 9)) for _ in range(6)]
    config = SchedulerConfig(4, 64, block_size=2, num_blocks=14, enable_chunked_prefill=False)
    scheduler = reference("ch06").SwappingScheduler(config, ORDER.FCFS(), host_blocks=30)
    engine = engine_of(config, scheduler, host_blocks=30)
    engine.executor.host.keys.fill_(float("nan"))
    for prompt in prompts:
        engine.add_request(prompt, 10, sampling=SAMPLINGS[1], stop_token_ids=(STOP,))
    want = [alone(i, tuple(prompt), SAMPLINGS[1]) for i, prompt in enumerate(prompts)]
    assert run_out(engine) == want
    assert sum(len(step.plan.swap_in) for step in engine.steps) > 0
    assert scheduler.host.num_free == 30


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 2, 4, 16]), st.integers(0, 99))
def test_samples_share_their_prompt_and_say_what_they_would_alone(n, prompt_len, size, seed):
    prompt = random.Random(seed).choices(range(6, 40), k=prompt_len)
    kv = LAB.PagedKV(decoder().config, 160 // size, size)
    kv.keys.fill_(float("nan")), kv.values.fill_(float("nan"))
    manager = reference("ch05").SharedBlockManager(160 // size, size)
    sampling = Sampling(1.0, 0.9, seed)
    got = LAB.parallel_samples(decoder(), kv, manager, prompt, n, 10, sampling, (STOP,))
    assert got == [alone(i, tuple(prompt), sampling) for i in range(n)]
    assert manager.num_free == 160 // size


def test_too_small_a_pool_is_refused_in_one_sentence():
    kv, manager = LAB.PagedKV(decoder().config, 3, 4), reference("ch05").SharedBlockManager(3, 4)
    with pytest.raises(DecodeLabError, match="need 4 free blocks, there are 3"):
        LAB.parallel_samples(decoder(), kv, manager, [7] * 8, 2, 5, Sampling())
    assert manager.num_free == 3


# --- the log ----------------------------------------------------------------------------------------


def replayed(engine, jobs: list[Job]) -> list[dict]:
    """The jobs' users played on an engine, step by step."""
    coming = sorted(jobs, key=lambda job: job.arrival_step)
    while coming or engine.active or engine.arrived:
        now = engine.clock.step
        if not engine.active and coming and coming[0].arrival_step > now:
            engine.clock.skip(coming[0].arrival_step)
            now = engine.clock.step
        while coming and coming[0].arrival_step <= now:
            engine.submit(coming.pop(0))
        for job in jobs:
            if job.abort_at == now:
                engine.abort(job.request.request_id)
        engine.step()
    return list(record_all(engine.steps))


def drawn_jobs(seed: int) -> list[Job]:
    rng = random.Random(seed)
    jobs = []
    for i in range(rng.randint(1, 7)):
        request = Request(i, 0.0, rng.randint(1, 12), rng.randint(1, 8), stop_token_ids=(STOP,))
        step = rng.randint(0, 20)
        stop_at = rng.choice([None, None, 0, 2])
        jobs.append(Job(request, step, stop_at, rng.choice([None, None, step + rng.randint(1, 9)])))
    return jobs


@pytest.mark.parametrize("seed", range(12))
def test_an_engine_keeps_the_loops_log(seed):
    jobs = drawn_jobs(seed)
    config = SchedulerConfig(3, 6, block_size=2, num_blocks=12)
    loop = Loop(jobs, CHUNKED.ChunkedScheduler(config, ORDER.FCFS()), SimExecutor(), StepClock(), watch=True)
    want = list(record_all(loop))
    simulated = LAB.Engine(CHUNKED.ChunkedScheduler(config, ORDER.FCFS()), SimExecutor(), clock=StepClock())
    assert replayed(simulated, jobs) == want
    real = replayed(engine_of(config, fixed_ends=True), jobs)
    for record in (*want, *real):  # only a model knows which tokens
        record["tokens"] = {i: [t == STOP for t in tokens] for i, tokens in record["tokens"].items()}
    assert real == want


# --- text -------------------------------------------------------------------------------------------


class Spelling:
    """A tokenizer whose tokens are bytes, as some characters of every real one's are."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")


class Parrot(SimExecutor):
    """Says after each prompt what the script has."""

    def __init__(self, script: bytes) -> None:
        super().__init__()
        self.script = script

    def execute(self, plan):
        tokens, seconds = super().execute(plan)
        return {i: [self.script[t - 100] for t in made] for i, made in tokens.items()}, seconds


def parrot(text: str, stop: tuple[str, ...] = (), length: int | None = None):
    scheduler = CHUNKED.ChunkedScheduler(SchedulerConfig(4, 64, num_blocks=64), ORDER.FCFS())
    engine = LAB.Engine(scheduler, Parrot(text.encode()), Spelling(), StepClock())
    engine.add_request("春", length or len(text.encode()), sampling=Sampling(stop=stop))
    return engine


@settings(max_examples=150)
@given(
    st.text("ab。月😀", min_size=1, max_size=12),
    st.lists(st.text("ab。月", min_size=1, max_size=3), max_size=2),
)
def test_text_only_grows_and_ends_where_it_must(text, stops):
    engine, seen = parrot(text, tuple(stops)), ""
    while engine.step():
        now = engine.outputs[0].text
        assert now.startswith(seen)
        assert not any(stop in now for stop in stops)
        assert "\ufffd" not in now
        seen = now
    prefixes = (oracle.visible(text[:n], stops) for n in range(len(text) + 1))
    want, cut = next(
        (told for told in prefixes if told[1]), (text, False)
    )  # of two, the one that is whole first
    assert (seen, engine.outputs[0].reason) == ((want, "stop") if cut else (text, "length"))
    assert engine.scheduler.kv.num_free == 64


@settings(max_examples=60)
@given(st.text("ab。月", min_size=1, max_size=12))
def test_a_stream_gives_every_character_once(text):
    assert "".join(parrot(text).stream(0)) == text


def test_two_streams_take_turns_and_half_a_character_is_never_given():
    engine = parrot("明月几时有", length=13)  # one byte into the last character
    other = engine.add_request("x", 15)
    pairs = list(zip_longest(engine.stream(0), engine.stream(other), fillvalue=""))
    assert "".join(left for left, _ in pairs) == "明月几时"
    assert "".join(right for _, right in pairs) == "明月几时有"
    assert len(engine.steps) == 15


def test_the_embedded_tokenizers_bytes_take_nothing_back():
    """Its decoder turns complete characters into replacement characters while a run of bytes is incomplete."""
    tokenizer = load().tokenizer
    ids = tokenizer.encode("a😀😀b")
    engine = parrot("", length=1)
    engine.tokenizer, output = tokenizer, LAB.Output((0,))
    seen = []
    for token in ids[1:]:
        output.token_ids.append(token)
        output.show(engine.decoded(output).rstrip("\ufffd"))
        seen.append(output.text)
    assert all(b.startswith(a) for a, b in pairwise(seen))
    assert seen[-1] == "a😀😀b"


# --- the cost model ---------------------------------------------------------------------------------

SAMPLES = st.lists(
    st.tuples(st.integers(1, 300), st.integers(1, 5000), st.integers(1, 90000), st.floats(1e-4, 1)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=100)
@given(SAMPLES, st.integers(1, 600), st.integers(1, 9000), st.integers(1, 10**6))
def test_a_fit_is_never_negative_and_more_never_takes_less(samples, new, kv, pairs):
    cost = LAB.fit(samples)
    assert 0 <= cost(new, kv, pairs) <= cost(new + 1, kv, pairs) * (1 + 1e-9)
    assert cost(new, kv, pairs) <= cost(new, kv + 10, pairs + 10) * (1 + 1e-9)


@settings(max_examples=40)
@given(SAMPLES, st.sampled_from([1e-3, 1000.0]))
def test_a_fit_does_not_care_for_the_unit_of_time(samples, unit):
    scaled = LAB.fit([(*counts, unit * seconds) for *counts, seconds in samples])
    for *counts, _ in samples[:5]:
        assert scaled(*counts) == pytest.approx(unit * LAB.fit(samples)(*counts), rel=1e-5)


def test_a_fit_adds_up_to_what_was_measured():
    rng = random.Random(1)
    samples = [
        (n := rng.randint(1, 64), 20 * n, 20 * n, (1 + n / 50) * rng.uniform(0.4, 1.6)) for _ in range(900)
    ]
    expected = sum(LAB.fit(samples)(*counts) for *counts, _ in samples)
    assert expected == pytest.approx(sum(sample[3] for sample in samples), rel=0.02)


def test_measuring_leaves_nothing_behind():
    config = SchedulerConfig(4, 16, block_size=4, num_blocks=40)
    engine = engine_of(config, cost=None)
    samples = LAB.measure(engine, config, seconds=0.3, longest=30)
    assert samples
    assert all(0 < new <= 16 and new <= kv <= pairs and took > 0 for new, kv, pairs, took in samples)
    assert not engine.active
    assert engine.scheduler.kv.num_free == 40
    assert engine.step() is None


# --- the door, and what else users meet ---------------------------------------------------------------


def test_ids_are_given_and_taken():
    engine = parrot("abc")
    given = [engine.add_request("x"), engine.add_request([7], request_id=7), engine.add_request("y")]
    assert given == [1, 7, 3]
    before = dict(engine.outputs), set(engine.active), list(engine.arrived)
    with pytest.raises(Refused, match="duplicate_id"):
        engine.add_request("z", request_id=7)
    with pytest.raises(Refused, match="bad_length"):
        engine.add_request("")
    assert (engine.outputs, engine.active, engine.arrived) == before


def test_text_needs_a_tokenizer():
    with pytest.raises(DecodeLabError, match="token ids"):
        engine_of(SchedulerConfig(num_blocks=8)).add_request("text")


def test_what_nobody_asked_for_changes_nothing():
    engine = parrot("abc")
    engine.abort("nobody")
    assert "".join(engine.stream(0)) == "abc"
    engine.abort(0)
    assert engine.outputs[0].reason == "length"
    assert engine.step() is None


def test_a_scheduler_that_schedules_nobody_is_found_out():
    class Idle:
        def add_request(self, request, now): ...
        def abort(self, request_id, now): ...
        def schedule(self, now):
            return Plan()

        def update(self, plan, tokens, now):
            return {}

        def state(self):
            return State([], [])

    engine = LAB.Engine(Idle(), SimExecutor(), clock=StepClock())
    engine.add_request([1])
    with pytest.raises(DecodeLabError, match="empty plans"):
        list(engine.stream(0))


def test_prompts_are_drawn_by_their_id():
    first, second = (LAB.TorchExecutor(decoder(), 4, 4) for _ in range(2))
    for executor in (first, second):
        for request_id in ("a", "b"):
            executor.begin(Job(Request(request_id, 0.0, 9, 1)))
    assert first.sequences == second.sequences
    assert first.sequences["a"] != first.sequences["b"]
    assert len(first.sequences["a"]) == 9


def test_stats_say_what_happened():
    engine = parrot("abcd")
    other = engine.add_request("x", 4)
    for _ in range(3):
        engine.step()
    engine.abort(other)
    while engine.step():
        pass
    told = engine.stats()
    assert (told["finished"], told["aborted"], told["running"], told["waiting"]) == (1, 1, 0, 0)
    assert (told["tokens"], told["free_blocks"]) == (7, 64)
    assert (told["ttft"], told["tpot"], told["e2e"]) == (1.0, 1.0, 4.0)


@pytest.mark.parametrize("ids", [[10**6], [-1], [3, 48]])
def test_a_token_that_there_is_not_is_refused_at_the_door_and_others_go_on(ids: list[int]) -> None:
    engine = engine_of(SchedulerConfig(num_blocks=8, block_size=4))
    other = engine.add_request([5, 6, 7], 4)
    with pytest.raises(DecodeLabError, match="vocabulary"):
        engine.add_request(ids, 4)
    while engine.active:
        engine.step()
    assert len(engine.outputs[other].token_ids) == 4
    assert len(engine.outputs) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": 1e-46},
        {"top_p": 0.0},
        {"top_p": 2.0},
        {"stop": ("",)},
        {"stop": "ab"},
    ],
)
def test_what_nothing_can_be_drawn_by_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**wrong)
