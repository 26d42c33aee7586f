"""Chapter 7's contract on the reference: cases worked by hand, an oracle beside it, a machine that keeps count."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from reference import reference
from test_chapters import answers, home, keep  # noqa: F401  (home: an empty desk for each test)

from decodelab import chapters, course
from decodelab.check.ch07.cases import REASONS, VISIBLE, limits
from decodelab.check.rules import Finding
from decodelab.check.schedule.books import Books
from decodelab.check.schedule.spec import KEYS, Decision, decides_as, difference
from decodelab.check.schedule.walk import Walk, job
from decodelab.check.schedule.watched import Watched
from decodelab.cli import main
from decodelab.contract import Plan, Refused, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.parity import recorded
from decodelab.request import EOS, Job, Request
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor
from decodelab.sim.hardware import GPUS, MODELS
from decodelab.timings import timings
from decodelab.workload import synthetic

ch07 = reference("ch07")
POLICIES = {name: getattr(ch07, name) for name in ("FCFS", "PriorityOrder", "VllmPriority")}
FLOW = 7  # a token that stops nothing


def made(config: dict[str, Any], policy: str = "FCFS") -> Any:
    return ch07.ChunkedScheduler(SchedulerConfig(**config), POLICIES[policy]())


def run(config: dict[str, Any], *jobs: Job) -> list[Any]:
    return list(Loop(jobs, made(config), SimExecutor(), StepClock()))


def scheduled(config: dict[str, Any], *jobs: Job) -> list[dict[Any, int]]:
    return [step.plan.scheduled for step in run(config, *jobs)]


def walked(case: dict[str, Any]) -> Finding | None:
    return Walk(case, made(case["config"], case.get("policy", "FCFS")), REASONS).run()


# --- worked by hand ---------------------------------------------------------------------------


def test_the_worked_case():
    jobs = [Job(Request(1, 0.0, 3, 5)), Job(Request(2, 0.0, 16, 2)), Job(Request(3, 0.0, 7, 2), 1)]
    steps = run(limits(8), *jobs)
    assert [step.plan.scheduled for step in steps] == [
        {1: 3, 2: 5},
        {1: 1, 2: 7},
        {1: 1, 2: 4, 3: 3},
        {1: 1, 2: 1, 3: 4},
        {1: 1, 3: 1},
    ]
    assert [list(step.tokens) for step in steps] == [[1], [1], [1, 2], [1, 2, 3], [1, 3]]


@pytest.mark.parametrize(("prompt", "chunks"), [(7, [7, 1]), (8, [8, 1]), (9, [8, 1, 1]), (16, [8, 8, 1])])
def test_prompts_around_the_budget(prompt, chunks):
    assert scheduled(limits(8), Job(Request(1, 0.0, prompt, 2))) == [{1: count} for count in chunks]


def test_the_cap_as_measured_on_vllm():
    """goldens/vllm_scheduler.md, 6: threshold 20, a prompt of 70; beside another one, and alone."""
    config = limits(64, long_prefill_token_threshold=20)
    beside = scheduled(config, Job(Request(1, 0.0, 70, 1)), Job(Request(2, 0.0, 1, 9)))
    assert [step[1] for step in beside if 1 in step] == [20, 20, 20, 10]
    assert scheduled(config, Job(Request(1, 0.0, 70, 1))) == [{1: 64}, {1: 6}]


@pytest.mark.parametrize("budget", [64, 512])
def test_a_prompt_as_long_as_the_model_allows_is_refused_where_vllm_loops(budget):
    config = limits(budget, max_model_len=256, num_blocks=999)
    steps = run(config, Job(Request(1, 0.0, 256, 5)), Job(Request(2, 0.0, 255, 5)))
    assert steps[0].refused == {1: "over_model_len"}
    assert [(len(s.tokens), s.finished) for s in steps][-1] == (1, {2: "length"})


def test_a_stop_token_on_the_models_last_place():
    config = limits(8, max_model_len=6)
    jobs = [
        Job(Request(i, 0.0, 4, 9, stop_token_ids=(EOS,)), stop_at=stop) for i, stop in ((1, 1), (2, None))
    ]
    assert [step.finished for step in run(config, *jobs)][-1] == {1: "stop", 2: "length"}


def test_what_can_never_be_served_is_refused_and_changes_nothing():
    scheduler = made(limits(8, max_model_len=12, num_blocks=2))
    scheduler.add_request(Request(1, 0.0, 2, 2), 0.0)
    before = scheduler.state(), set(scheduler.ids), set(scheduler.sequences)
    for request, reason in [
        (Request(2, 0.0, 12, 1), "over_model_len"),
        (Request(2, 0.0, 3, 7), "never_fits"),
        (Request(2, 0.0, 0, 7), "bad_length"),
        (Request(1, 0.0, 1, 1), "duplicate_id"),
    ]:
        with pytest.raises(Refused) as refused:
            scheduler.add_request(request, 0.0)
        assert refused.value.reason == reason
        assert (scheduler.state(), set(scheduler.ids), set(scheduler.sequences)) == before


def test_a_tie_that_never_ends_and_does_with_the_id_in_the_key():
    """Exercise 4: two of equal rank throw each other out, each the first of equals in its turn."""
    config = limits(
        5, block_size=2, num_blocks=15, max_num_seqs=3, long_prefill_token_threshold=3, max_model_len=24
    )
    shared = [job(i, 19, wanted, priority=2) for i, wanted in ((1, 15), (3, 3))]
    others = [job(0, 18, 5, stop_at=4), job(2, 5, 13, priority=2, stop_at=6, abort_at=8)]
    case = {"config": config, "jobs": sorted([*shared, *others], key=lambda j: j["request_id"])}
    stuck = Walk(case | {"policy": "VllmPriority"}, made(config, "VllmPriority"), REASONS).run()
    assert stuck
    assert stuck.rule == "everything-finishes"
    assert walked(case | {"policy": "PriorityOrder"}) is None


# --- numbers of the text ------------------------------------------------------------------------


def test_the_table_at_the_top():
    llama = reference("ch02").Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])
    for prompt, ms in [(0, 6.0), (256, 6.1), (512, 8.9), (2048, 34.9), (8192, 151.3), (14_050, 280.9)]:
        pairs = 32_000 + prompt * (prompt + 1) // 2
        assert round(1000 * llama(32 + prompt, 32_000 + prompt, pairs), 1) == ms


def test_chunks_bound_the_gap_and_reserving_prompts_ends_the_thrashing():
    llama = reference("ch02").Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])

    def gap(budget: int, chunked: bool) -> float:
        config = limits(
            budget, num_blocks=9999, max_num_seqs=128, block_size=16, enable_chunked_prefill=chunked
        )
        load = synthetic("azure-chat-like", 120, seed=4, rate=12).requests
        seen = timings(Loop(load, made(config), SimExecutor(llama)))
        return max(b - a for t in seen for a, b in zip(t.token_times, t.token_times[1:], strict=False))

    assert gap(512, True) < gap(8192, False) / 5

    def preempted(reserve: bool) -> int:
        config = limits(2048, num_blocks=2600, max_num_seqs=128, block_size=16, reserve_full_prompt=reserve)
        load = synthetic("azure-chat-like", 120, seed=4, rate=20).requests
        return sum(len(step.plan.preempted) for step in Loop(load, made(config), SimExecutor(llama)))

    assert preempted(True) < preempted(False) / 3


# --- chunks, and whole runs beside the oracle -----------------------------------------------------


@given(
    st.integers(1, 99),
    st.integers(0, 98),
    st.integers(0, 99),
    st.integers(1, 3),
    st.integers(0, 40),
    st.booleans(),
)
def test_a_chunk_is_the_least_of_what_is_left_cap_and_budget(tokens, computed, budget, active, cap, chunked):
    seq = ch07.Sequence(Request(1, 0.0, tokens, 1))
    seq.num_computed_tokens = min(computed, tokens - 1)
    config = SchedulerConfig(enable_chunked_prefill=chunked, long_prefill_token_threshold=cap)
    wanted = tokens - seq.num_computed_tokens
    if active > 1 and cap:
        wanted = min(wanted, cap)
    due = min(wanted, budget) if chunked else wanted * (wanted <= budget)
    assert ch07.next_chunk(seq, budget, active, config) == due


whole = st.booleans().map(lambda chunked: {"enable_chunked_prefill": chunked})
configs = st.builds(
    lambda **knobs: limits(knobs.pop("budget"), **knobs),
    budget=st.integers(1, 24),
    max_num_seqs=st.integers(1, 5),
    block_size=st.sampled_from([1, 2, 4]),
    num_blocks=st.integers(4, 20),
    watermark=st.sampled_from([0.0, 0.2, 0.5]),
    reserve_full_prompt=st.booleans(),
    long_prefill_token_threshold=st.sampled_from([0, 1, 5]),
    max_model_len=st.none() | st.integers(2, 24),
)
workloads_ = st.lists(
    st.builds(
        job,
        st.integers(0, 30),
        st.integers(0, 20),
        st.integers(0, 9),
        step=st.integers(0, 12),
        priority=st.integers(0, 2),
        stop_at=st.none() | st.integers(0, 8),
        abort_at=st.none() | st.integers(0, 20),
    ),
    max_size=10,
)


@given(configs, whole, workloads_, st.sampled_from(["FCFS", "PriorityOrder"]))
def test_reference_and_oracle_agree_and_nobody_who_runs_is_left_out(config, piece, jobs, policy):
    if not piece["enable_chunked_prefill"]:
        config = config | piece | {"long_prefill_token_threshold": 0}
    scheduler = made(config, policy)
    walk = Walk({"config": config, "jobs": jobs, "policy": policy}, scheduler, REASONS)

    def nobody_left_out(step: Any) -> None:
        running = {seq.request_id for seq in scheduler.running}
        assert running <= set(step.plan.scheduled) | set(step.finished)

    assert walk.run(nobody_left_out) is None
    assert scheduler.kv.num_free == config["num_blocks"]
    assert scheduler.state()[:2] == ([], [])


@pytest.mark.parametrize(
    "case", [c for t in ("ch07.2", "ch07.4") for c in VISIBLE[t]], ids=lambda c: c["name"]
)
def test_visible_workloads_pass(case):
    assert walked(case) is None


# --- the machine ------------------------------------------------------------------------------------


class Driven:
    """A scheduler under watch beside the oracle, driven one operation at a time."""

    def __init__(self, config: dict[str, Any], policy: str) -> None:
        self.scheduler, self.now = made(config, policy), 0.0
        self.blocks, self.stops = config["num_blocks"], dict[Any, int]()
        due = decides_as(KEYS[policy])
        self.watched = Watched(self.scheduler, SchedulerConfig(**config), REASONS, [due])

    def add(self, i: int, prompt: int, wanted: int, priority: int, stop: int) -> None:
        try:
            request = Request(i, self.now, prompt, wanted, priority, stop_token_ids=(EOS,))
            self.watched.add_request(request, self.now)
        except Refused:
            return
        self.stops[i] = stop

    def abort(self, i: int) -> None:
        self.watched.abort(i, self.now)
        self.balanced()

    def step(self, seconds: float) -> None:
        plan, entries = self.watched.schedule(self.now), self.watched.books.entries
        whole = [i for i in plan.scheduled if entries[i].computed == entries[i].num_tokens]
        tokens = {i: [EOS if entries[i].generated == self.stops[i] else FLOW] for i in whole}
        assert plan.scheduled or not entries, "somebody is active, so somebody runs"
        self.now += seconds
        self.watched.update(plan, tokens, self.now)
        self.balanced()

    def balanced(self) -> None:
        books, kv = self.watched.books, self.scheduler.kv
        held = sum(len(entry.table) for entry in books.entries.values())
        assert kv.num_free == self.blocks - held
        assert [seq.request_id for seq in self.scheduler.running] == books.running
        assert {seq.request_id for seq in self.scheduler.waiting.ordered(self.now)} == {
            entry.request.request_id for entry in books.waiting()
        }

    def finish(self) -> int:
        steps = 0
        while self.watched.books.entries:
            self.step(1.0)
            steps += 1
            assert steps < 5_000, "everybody who was taken in finishes"
        return steps


class Machine(RuleBasedStateMachine):
    @initialize(config=configs, policy=st.sampled_from(["FCFS", "PriorityOrder"]))
    def begin(self, config: dict[str, Any], policy: str) -> None:
        self.driven = Driven(config, policy)

    @rule(i=st.integers(0, 30), prompt=st.integers(0, 20), wanted=st.integers(0, 9), priority=st.integers(0, 2), stop=st.integers(0, 9))  # fmt: skip
    def add(self, **request: int) -> None:
        self.driven.add(**request)

    @rule(i=st.integers(0, 30))
    def abort(self, i: int) -> None:
        self.driven.abort(i)

    @rule(seconds=st.sampled_from([0.5, 1.0]))
    def step(self, seconds: float) -> None:
        self.driven.step(seconds)

    def teardown(self) -> None:
        if hasattr(self, "driven"):
            self.driven.finish()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.slow
def test_a_million_operations():
    done, seed = 0, 0
    while done < 1_000_000:
        rng, seed = random.Random(seed), seed + 1
        config = limits(
            rng.randint(1, 24),
            max_num_seqs=rng.randint(1, 6),
            block_size=rng.choice([1, 2, 4]),
            num_blocks=rng.randint(6, 24),
            watermark=rng.choice([0.0, 0.2, 0.5]),
            reserve_full_prompt=rng.random() < 0.5,
            long_prefill_token_threshold=rng.choice([0, 0, 1, 5]),
            max_model_len=rng.choice([None, 20]),
        )
        driven = Driven(config, rng.choice(["FCFS", "PriorityOrder"]))
        for i in range(400):
            if (draw := rng.random()) < 0.15:
                driven.add(i, rng.randint(0, 20), rng.randint(0, 9), rng.randint(0, 2), rng.randint(0, 9))
            elif draw < 0.18:
                driven.abort(rng.randint(0, i))
            else:
                driven.step(rng.choice([0.5, 1.0]))
        done += 400 + driven.finish()


# --- what is said where a plan parts from the one that is due ------------------------------------


def door(name: str) -> type:
    """A scheduler with one slip in how it lets requests in."""

    base: Any = ch07.ChunkedScheduler

    class Slip(base):
        def admit_waiting(self, plan: Any, budget: int, now: float) -> None:
            order = self.waiting.ordered(now)
            for seq in reversed(order) if name == "reversed" else order:
                count = ch07.next_chunk(seq, budget, len(self.sequences), self.config)
                if not count:
                    return
                if name == "computed first":
                    self.compute(plan, seq, count)
                self.let_in(plan, seq)
                if name not in ("computed first", "not computed"):
                    self.compute(plan, seq, count)
                budget -= count

    return Slip


@pytest.mark.parametrize(
    ("slip", "rule", "words"),
    [
        ("computed first", "tells-cached", "nothing is cached before chapter 11"),
        ("not computed", "tells-new", "1, 2 is in plan.new and not in plan.scheduled"),
        ("reversed", "next-in-line", "1 is next in line, but 2 was let in"),
        ("none", "", ""),
    ],
)
def test_a_slip_at_the_door_is_named(slip, rule, words):
    case: dict[str, Any] = {"config": limits(8), "jobs": [job(1, 6, 2), job(2, 5, 2)]}
    found = Walk(case, door(slip)(SchedulerConfig(**case["config"]), ch07.FCFS()), REASONS).run()
    assert (found.rule if found else "") == rule
    assert words in (found.text["en"] if found else "")


def test_the_first_wrong_share_is_named_before_what_follows_from_it():
    """Request 1 takes too much, so nothing is left for request 2: the first is the mistake, not the second."""
    books = Books(SchedulerConfig(**limits(8)))
    for i in (1, 2):
        books.add(Request(i, 0.0, 9, 1))
    found = difference(books, Plan(scheduled={1: 8}), Decision({1: 5, 2: 3}))
    assert found
    assert (found.rule, found.hint) == ("how-many-tokens", 1)
    assert "1 must get 5 tokens" in found.text["en"]


# --- the command, and the seam for chapter 10 -----------------------------------------------------


def test_parity_on_the_command_line(capsys):
    plain = str(recorded("plain"))
    assert main(["parity", plain, "--block-ids"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{plain}: 14/14 exact"
    assert main(["parity", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["recordings"]
    assert [(one["exact"], one["of"]) for one in told] == [(14, 14), (0, 19), (6, 21)]
    assert "prefix cache" in told[1]["first"]
    assert main(["parity", "no-such-file.jsonl"]) == 2


def test_a_core_path_learner_has_the_reference_of_6_and_7_over_their_own_4_and_5(capsys):
    for chapter_id in ("ch04", "ch05"):
        data = course.load(chapter_id)
        keep(data, answers(data))
    mine = chapters.chapter("ch07")
    said = capsys.readouterr().out
    assert [line.split(":")[0] for line in said.splitlines() if "your own code" in line] == ["ch04", "ch05"]
    scheduler = mine.ChunkedScheduler(SchedulerConfig(**limits(8)), mine.FCFS())
    assert type(scheduler.kv) is chapters.chapter("ch05").BlockManager
    loop = Loop([Request(i, 0.0, 9, 3) for i in range(4)], scheduler, SimExecutor())
    assert [i for step in loop for i in step.finished] == [0, 1, 2, 3]


def test_a_scheduler_that_is_stuck_is_told(capsys):
    """Where vLLM's tie rule never ends, the loop that drives a run gives up in a sentence, not in silence."""
    scheduler = made(limits(8, num_blocks=4))
    scheduler.serve_running = lambda plan, now: 0
    with pytest.raises(DecodeLabError, match="empty plans"):
        list(Loop([Request(1, 0.0, 4, 4)], scheduler, SimExecutor()))
