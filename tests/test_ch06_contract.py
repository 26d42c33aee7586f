"""Chapter 6's contract on the reference: cases worked by hand, an oracle beside it, a machine that knows counts only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from reference import reference

from decodelab.check.ch06.cases import PRELUDE, REASONS, VISIBLE, memory
from decodelab.check.schedule.walk import Walk, job
from decodelab.contract import Plan, Refused, SchedulerConfig
from decodelab.parity import differences, recorded, workloads
from decodelab.request import EOS, Job, Request
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import FIRST_TOKEN, SimExecutor
from decodelab.sim.hardware import GPUS, MODELS
from decodelab.timings import timings
from decodelab.workload import synthetic

ch02, ch03, ch04, ch06 = (reference(name) for name in ("ch02", "ch03", "ch04", "ch06"))
HOST = 7  # blocks
KINDS = ["PagedScheduler", "SwappingScheduler", "NoEvictScheduler"]
POLICIES = {"FCFS": ch03.FCFS, "PriorityOrder": ch03.PriorityOrder}
CHECKED: dict[str, Any] = {}  # the policies of the checks, by name
exec(PRELUDE, CHECKED)


def made(kind: str, config: SchedulerConfig, policy: str = "FCFS") -> Any:
    extra = {"host_blocks": HOST} if kind == "SwappingScheduler" else {}
    return getattr(ch06, kind)(config, (POLICIES.get(policy) or CHECKED[policy])(), **extra)


def paged(**config: Any) -> Any:
    return made("PagedScheduler", SchedulerConfig(**memory(**config)))


def plans(scheduler: Any, *jobs: Job) -> list[Plan]:
    return [step.plan for step in Loop(jobs, scheduler, SimExecutor(), StepClock())]


# --- worked by hand ---------------------------------------------------------------------------


def test_two_grow_until_one_must_go():
    """Four blocks of 2: after step 1 both hold two, and neither has a slot left."""
    jobs = [Job(Request(i, 0.0, 3, 4)) for i in (1, 2)]
    steps = plans(paged(num_blocks=4, block_size=2), *jobs)
    assert [(p.scheduled, p.preempted, p.resumed) for p in steps] == [
        ({1: 3, 2: 3}, [], []),
        ({1: 1, 2: 1}, [], []),
        ({1: 1}, [2], []),
        ({1: 1}, [], []),
        ({2: 5}, [], [2]),  # prompt of 3 and the 2 tokens it had, in one go
        ({2: 1}, [], []),
    ]


def test_four_in_ten_blocks_as_the_text_says():
    jobs = [Job(Request(i, 0.0, 4, 11), i - 1) for i in (1, 2, 3, 4)]
    steps = list(Loop(jobs, paged(num_blocks=10, block_size=2), SimExecutor(), StepClock()))
    assert [i for step in steps for i in step.finished] == [1, 2, 3, 4]
    starts = [i for step in steps for i in (*step.plan.new, *step.plan.resumed)]
    assert starts.count(4) == 3
    assert steps[4].plan.preempted == [3], "the youngest first"


def test_a_victim_that_was_scheduled_already_is_taken_out_of_the_step():
    """Six blocks of 1: in step 2 request 1 takes the last one, then the urgent request 2 needs one more."""
    jobs = [
        Job(Request(1, 0.0, 2, 5)),
        Job(Request(2, 0.0, 2, 4, priority=2), arrival_step=1),
        Job(Request(3, 0.0, 1, 2, priority=1), arrival_step=2),
    ]
    scheduler = made("PagedScheduler", SchedulerConfig(**memory(6, 1)), "PriorityOrder")
    steps = plans(scheduler, *jobs)
    assert (steps[1].scheduled, steps[1].preempted) == ({1: 1, 2: 2}, [])
    assert (steps[2].scheduled, steps[2].start, steps[2].preempted) == ({2: 1}, {2: 2}, [1])
    assert set(steps[2].block_tables) == {2}
    assert steps[3].new == [3], "the urgent one of those who wait, and only in the next step"
    (back,) = [plan for plan in steps if plan.resumed]
    assert (back.start[1], back.scheduled[1]) == (0, 4), "prompt and the two tokens it had"


def test_only_what_is_computed_moves_to_the_host_and_comes_back():
    """The same six blocks: request 1 had three tokens computed, and a fourth block for what this step had only planned."""
    jobs = [Job(Request(1, 0.0, 2, 5)), Job(Request(2, 0.0, 2, 4, priority=2), arrival_step=1)]
    scheduler = made("SwappingScheduler", SchedulerConfig(**memory(6, 1)), "PriorityOrder")
    scheduler.host.allocate("somebody else", 4)  # so that ids here and there differ
    steps = plans(scheduler, *jobs)
    out = steps[2].swap_out[1]
    assert [block for block, _ in out] == steps[1].block_tables[1]
    assert len({there for _, there in out}) == len(out) == 3
    (back,) = [plan for plan in steps if plan.resumed]
    assert (back.start[1], back.scheduled[1]) == (3, 1)
    assert [there for there, _ in back.swap_in[1]] == [there for _, there in out]
    assert [block for _, block in back.swap_in[1]] == back.block_tables[1][:3]


@pytest.mark.parametrize(
    ("prompt", "wanted", "fits"), [(3, 6, True), (3, 7, False), (8, 1, True), (9, 1, False)]
)
def test_a_request_fits_that_fills_the_pool_to_the_last_slot(prompt, wanted, fits):
    scheduler = paged(num_blocks=4, block_size=2)
    if fits:
        (*_, last) = Loop([Request(1, 0.0, prompt, wanted)], scheduler, SimExecutor())
        assert last.finished == {1: "length"}
    else:
        with pytest.raises(Refused, match="never_fits"):
            scheduler.add_request(Request(1, 0.0, prompt, wanted), 0.0)
        assert scheduler.state() == ([], [], 4)


def test_an_idle_machine_lets_in_what_needs_the_reserve():
    (first, *_) = plans(paged(num_blocks=10, block_size=2, watermark=0.9), Job(Request(1, 0.0, 18, 2)))
    assert first.new == [1]


# --- the parts by themselves ----------------------------------------------------------------------


def sequence(number: int, num_tokens: int = 1, arrival: float = 0.0) -> Any:
    return ch04.Sequence(Request(number, arrival, num_tokens, 9))


@given(
    st.integers(0, 12),
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(0, 0.99),
    st.booleans(),
    st.booleans(),
)
def test_who_may_come_in_and_that_asking_takes_nothing(held, has, of_it, watermark, reserve, alone):
    config = SchedulerConfig(**memory(12, 4, watermark=watermark, reserve_full_prompt=reserve))
    kv, now = ch06.BlockManager(12, 4), min(has, of_it)
    kv.allocate("others", 4 * held)
    running = [] if alone else [sequence(1)]
    need = -(-(has if reserve else now) // 4)
    room = 12 - held - (0 if alone else int(watermark * 12))
    assert ch06.may_admit(kv, sequence(2, has), now, config, running) is (need <= room)
    assert (kv.num_free, len(kv.tables.get(2, []))) == (12 - held, 0)


class Alternating:
    """Even and odd seconds turn the order round; thirds of the ids are equal."""

    def key(self, request: Request, now: float) -> int:
        return int(request.request_id) % 3 * (1 if now % 2 else -1)


@given(st.lists(st.integers(0, 20), min_size=1, unique=True), st.integers(0, 5))
def test_the_victim_is_the_first_of_the_largest_keys_at_this_moment(ids, now):
    running = [sequence(i) for i in ids]
    keys = [Alternating().key(seq.request, now) for seq in running]
    assert ch06.choose_victim(list(running), Alternating(), now) is running[keys.index(max(keys))]


# --- beside the oracle --------------------------------------------------------------------------

cases = st.builds(
    lambda blocks, size, seqs, budget, watermark, reserve, jobs, policy: {
        "config": memory(
            blocks,
            size,
            max_num_seqs=seqs,
            max_num_batched_tokens=budget,
            watermark=watermark,
            reserve_full_prompt=reserve,
        ),
        "jobs": jobs,
        "policy": policy,
    },
    st.integers(3, 14),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 5),
    st.integers(8, 30),
    st.sampled_from([0.0, 0.1, 0.3, 0.9]),
    st.booleans(),
    st.lists(
        st.builds(
            job,
            st.integers(0, 20),
            st.integers(0, 9),
            st.integers(0, 12),
            step=st.integers(0, 6),
            priority=st.integers(0, 2),
            stop_at=st.none() | st.integers(0, 9),
            abort_at=st.none() | st.integers(0, 15),
        ),
        max_size=9,
    ),
    st.sampled_from(sorted(POLICIES)),
)


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases)
def test_every_kind_keeps_the_rules_and_gives_all_blocks_back(kind, case):
    """Preempting by recompute decides as the oracle does; the others keep the rules of every plan."""
    config = SchedulerConfig(**case["config"])
    scheduler = made(kind, config, case["policy"])
    walk = Walk(case, scheduler, REASONS, exact=kind == "PagedScheduler")
    assert walk.run() is None
    assert scheduler.state() == ([], [], config.num_blocks)
    if kind == "SwappingScheduler":
        assert scheduler.host.num_free == HOST
    if kind == "NoEvictScheduler":
        assert not any(step.plan.preempted for step in walk.steps)


@given(case=cases)
def test_no_token_is_computed_twice_where_the_host_has_room(case):
    config = SchedulerConfig(**case["config"])
    scheduler = ch06.SwappingScheduler(config, POLICIES[case["policy"]](), host_blocks=10_000)
    walk = Walk(case, scheduler, REASONS, exact=False)
    assert walk.run() is None
    for step in walk.steps:
        assert all(step.plan.start[i] > 0 for i in step.plan.resumed)
        assert set(step.plan.swap_out) == set(step.plan.preempted)


@given(case=cases)
def test_swaps_bring_back_what_they_took_away(case):
    """A pool of numbers, copied as the plans say, holds each request's own tokens in every step."""
    config = SchedulerConfig(**case["config"])
    walk = Walk(case, made("SwappingScheduler", config, case["policy"]), REASONS, exact=False)
    size = config.block_size
    device: dict[Any, Any] = {}
    host: dict[Any, Any] = {}
    tables: dict[Any, list[int]] = {}
    assert walk.run() is None
    for step in walk.steps:
        plan = step.plan
        for pairs in plan.swap_out.values():
            for block, there in pairs:
                host.update({(there, k): device.get((block, k)) for k in range(size)})
        for pairs in plan.swap_in.values():
            for there, block in pairs:
                device.update({(block, k): host.get((there, k)) for k in range(size)})
        tables |= plan.block_tables
        for i, count in plan.scheduled.items():
            spots = [(tables[i][p // size], p % size) for p in range(plan.start[i] + count)]
            device.update({spot: (i, p) for p, spot in enumerate(spots) if p >= plan.start[i]})
            assert [device[spot] for spot in spots] == [(i, p) for p in range(len(spots))]


# --- the machine: nothing is lost, whatever happens when ------------------------------------------


class Pressure(RuleBasedStateMachine):
    """A scheduler with too little memory, and beside it what each answer must be."""

    kind = "PagedScheduler"
    SLOTS = 4

    @initialize(
        size=st.sampled_from([1, 2, 4]),
        slots=st.integers(8, 24),
        policy=st.sampled_from(sorted(POLICIES)),
        watermark=st.sampled_from([0.0, 0.2]),
    )
    def begin(self, size, slots, policy, watermark):
        self.config = SchedulerConfig(
            **memory(slots // size, size, max_num_seqs=self.SLOTS, watermark=watermark)
        )
        self.scheduler = made(self.kind, self.config, policy)
        self.now, self.ids = 0.0, set()
        self.wanted: dict[int, list[int]] = {}  # of who is active: the whole answer
        self.answers: dict[int, list[int]] = {}  # of everybody: what came

    @rule(
        i=st.integers(0, 12),
        prompt=st.integers(1, 9),
        wanted=st.integers(1, 12),
        priority=st.integers(0, 2),
        stops=st.booleans(),
    )
    def add(self, i, prompt, wanted, priority, stops):
        request = Request(i, self.now, prompt, wanted, priority, stop_token_ids=(EOS,))
        longest, slots = prompt + wanted - 1, (self.config.num_blocks or 0) * self.config.block_size
        if i in self.ids or longest > min(slots, self.config.max_num_batched_tokens):
            before = self.scheduler.state()
            with pytest.raises(Refused):
                self.scheduler.add_request(request, self.now)
            assert self.scheduler.state() == before
            return
        self.scheduler.add_request(request, self.now)
        self.ids.add(i)
        answer = [FIRST_TOKEN + k for k in range(wanted)]
        self.wanted[i] = [*answer[: wanted // 2], EOS] if stops else answer
        self.answers[i] = []

    @rule(i=st.integers(0, 14))
    def abort(self, i):
        self.scheduler.abort(i, self.now)
        self.wanted.pop(i, None)

    @precondition(lambda self: self.wanted)
    @rule(gives_up=st.none() | st.integers(0, 12))
    def step(self, gives_up=None):
        """One step; somebody may give up while it is computed."""
        plan = self.scheduler.schedule(self.now)
        assert plan.scheduled, "somebody is active, so somebody gets a token"
        assert not (plan.preempted and (plan.new or plan.resumed)), "nobody comes in after a preemption"
        if gives_up is not None:
            self.abort(gives_up)
        self.now += 1.0
        tokens, due = {}, {}
        for i in plan.scheduled:
            if i not in self.wanted:
                tokens[i] = [FIRST_TOKEN]  # of who has just given up
                continue
            answer, whole = self.answers[i], self.wanted[i]
            answer.append(whole[len(answer)])
            tokens[i] = answer[-1:]
            if answer == whole:
                due[i] = "stop" if whole[-1] == EOS else "length"
        assert self.scheduler.update(plan, tokens, self.now) == due
        for i in due:
            del self.wanted[i]

    @invariant()
    def every_block_has_one_place(self):
        if not hasattr(self, "scheduler"):
            return
        running, waiting, free = self.scheduler.state()
        tables = self.scheduler.kv.tables
        held = [block for i in running for block in tables.get(i, [])]
        assert sorted([*running, *waiting]) == sorted(self.wanted)
        assert set(tables) <= set(running)
        assert len(set(held)) == len(held) == self.config.num_blocks - free

    def teardown(self):
        """Everybody who was taken in finishes with the whole answer: no livelock, whatever was preempted."""
        if not hasattr(self, "scheduler"):
            return
        for _ in range(20 * sum(map(len, self.wanted.values()))):
            if self.wanted:
                self.step()
        assert not self.wanted
        assert self.scheduler.state() == ([], [], self.config.num_blocks)


class Swapping(Pressure):
    kind = "SwappingScheduler"


class NoEvict(Pressure):
    kind = "NoEvictScheduler"


for machine in (Pressure, Swapping, NoEvict):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPressure, TestSwapping, TestNoEvict = Pressure.TestCase, Swapping.TestCase, NoEvict.TestCase


# --- answers are the same however little memory there is -------------------------------------------


def answers(num_blocks: int, kind: str, jobs: list[Job]) -> dict[Any, list[int]]:
    got: dict[Any, list[int]] = {}
    scheduler = made(kind, SchedulerConfig(**memory(num_blocks, 2)), "PriorityOrder")
    for step in Loop(jobs, scheduler, SimExecutor(), StepClock()):
        for i, tokens in step.tokens.items():
            got.setdefault(i, []).extend(tokens)
    return got


def some_jobs() -> Iterator[Job]:
    for i in range(9):
        yield Job(
            Request(i, 0.0, 2 + i % 4, 5 + i % 6, i * 5 % 3, stop_token_ids=(EOS,)),
            i // 2,
            3 if i % 4 == 1 else None,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_preemption_changes_no_answer(kind):
    plenty = answers(200, kind, list(some_jobs()))
    for num_blocks in (8, 9, 11, 15):
        assert answers(num_blocks, kind, list(some_jobs())) == plenty


# --- what the text claims -------------------------------------------------------------------------


def test_the_table_at_the_beginning():
    model, gpu = MODELS["Llama-3.1-8B"], GPUS["RTX 4090"]
    num_blocks = int((0.9 * gpu.memory - model.weight_bytes) / (16 * model.kv_bytes_per_token))
    assert num_blocks == 2641
    chat = [replace(request, arrival_time=0.0) for request in synthetic("azure-chat-like", 300, seed=6)]
    found = []
    for kind, watermark in (("NoEvictScheduler", 0.0), ("PagedScheduler", 0.0), ("PagedScheduler", 0.02)):
        config = SchedulerConfig(256, 16_384, None, 16, num_blocks, watermark, enable_chunked_prefill=False)
        loop = Loop(chat, made(kind, config), SimExecutor(ch02.Roofline(model, gpu)))
        steps = list(loop)
        seen = timings(iter(steps))
        tokens = sum(len(t.token_times) for t in seen)
        once = sum(t.prompt_len + len(t.token_times) - 1 for t in seen)
        computed = sum(sum(step.plan.scheduled.values()) for step in steps)
        found.append(
            (
                max(len(step.plan.scheduled) for step in steps),
                sum(t.preemptions for t in seen),
                round(100 * (computed / once - 1), 1),
                round(tokens / loop.clock.now),
            )
        )
    assert found == [(34, 0, 0.0, 759), (42, 35, 10.9, 757), (39, 2, 0.4, 792)]


def test_a_recorded_run_with_a_preemption_is_exact_already():
    """Two of vLLM's recorded runs need nothing of chapter 7."""
    exact = [w for w in workloads(recorded("plain")) if w.name in ("plain-006", "plain-009")]
    assert sum(len(event["preempted"]) for w in exact for event in w.events) > 0
    maker = lambda config, policy: made("PagedScheduler", config)  # noqa: E731
    assert list(differences(exact, maker, block_ids=True)) == [None, None]


def test_the_visible_cases_do_preempt():
    """Else they would show nothing of this chapter."""
    counts = {}
    for case in VISIBLE["ch06.5"]:
        walk = Walk(case, made("PagedScheduler", SchedulerConfig(**case["config"]), case["policy"]), REASONS)
        assert walk.run() is None
        counts[case["name"]] = sum(len(step.plan.preempted) for step in walk.steps)
    assert sum(count > 0 for count in counts.values()) >= 10, counts
