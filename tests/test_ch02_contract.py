"""Chapter 2's contract, sentence by sentence, on the reference: traces worked by hand, numpy, and the loop of run.py."""

from __future__ import annotations

import math
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from schedulers import TinyScheduler

from decodelab import chapters
from decodelab.check.ch02.cases import LLAMA
from decodelab.check.ch02.toy import Prices, ToySim
from decodelab.check.ch02.turn import smallest
from decodelab.contract import SchedulerConfig
from decodelab.course import load
from decodelab.errors import DecodeLabError
from decodelab.grading import sandbox, splice
from decodelab.grading.judge import judge
from decodelab.notebook.read import Submission
from decodelab.request import SLO, Request
from decodelab.run import Loop, TimeClock
from decodelab.sim.executor import SimExecutor
from decodelab.sim.hardware import GPUS, MODELS, ModelShape
from decodelab.timings import Timing, timings


def reference(chapter_id: str) -> ModuleType:
    return chapters.load(f"reference_{chapter_id}", splice.whole(load(chapter_id), Submission({}, "", [])))


ch01, ch02 = reference("ch01"), reference("ch02")
H100, LLAMA_8B = GPUS["H100 SXM"], MODELS["Llama-3.1-8B"]


def test_the_checks_run_where_a_sandbox_shows_no_check():
    try:
        rung = sandbox.strongest()
    except DecodeLabError as refused:
        pytest.skip(f"{refused}")
    own = Submission({answer.grade_id: answer.reference for answer in load("ch02").answers}, "", [])
    assert {r.todo: r.rule for r in judge(load("ch02"), own, rung=rung)} == {
        t.id: "" for t in load("ch02").todos
    }


def a_second_a_token(new_tokens: int, kv_tokens: int, pairs: int) -> float:
    return float(new_tokens)


def served(*times: float, arrival: float = 0.0, reason: str = "length") -> Timing:
    return Timing(1, arrival, 8, arrival, list(times), reason)


def worked() -> tuple[ModuleType, list[Timing]]:
    """0 to 3 s prefill A; 4 token A; B arrives and is prefilled to 6; 7 B ends; 8 A ends; idle; C from 20 to 22."""
    clocked = ch02.ClockedSim(ch01.DecodeSchedulerSim(), a_second_a_token)
    return clocked, clocked.run([Request(9, 20.0, 1, 1), Request(1, 0.0, 3, 2), Request(5, 4.0, 2, 1)])


# --- ch02.1 -----------------------------------------------------------------------------------


def test_a_trace_worked_by_hand():
    clocked, (a, b, c) = worked()
    assert (a.scheduled_time, a.token_times, a.reason) == (0.0, [4.0, 8.0], "length")
    assert (b.scheduled_time, b.token_times, b.reason) == (4.0, [7.0], "length")
    assert (c.scheduled_time, c.token_times, c.reason) == (20.0, [22.0], "length")
    assert [(e["request_id"], start, end) for e, start, end in clocked.log] == [
        (1, 0, 3),
        (1, 3, 4),
        (5, 4, 6),
        (5, 6, 7),
        (1, 7, 8),
        (9, 20, 21),
        (9, 21, 22),
    ]


def test_timings_keep_what_the_request_said_in_order_of_arrival():
    _, found = worked()
    assert [(t.request_id, t.arrival_time, t.prompt_len) for t in found] == [(1, 0, 3), (5, 4, 2), (9, 20, 1)]


def test_the_scheduler_hears_of_priority_and_length():
    clocked = ch02.ClockedSim(ch01.DecodeSchedulerSim(), a_second_a_token)
    clocked.run([Request(1, 0.0, 3, 2, priority=7)])
    assert [(r.priority, r.max_new_tokens, r.generated_len) for r in clocked.sim.queue] == [(7, 2, 2)]


def test_nobody_to_serve_takes_no_time():
    clocked = ch02.ClockedSim(ch01.DecodeSchedulerSim(), a_second_a_token)
    assert (clocked.run([]), clocked.now) == ([], 0.0)


@given(
    gaps=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=8
    ),
    prices=st.tuples(*[st.integers(0, 16).map(lambda n: n / 32)] * 4),
)
def test_one_at_a_time_it_is_the_loop_that_later_chapters_run(gaps, prices):
    """The toy's decode steps are those of an engine that was asked for one token more, its first one apart."""
    arrivals = np.cumsum([gap / 4 for gap, _, _ in gaps])
    requests = [
        Request(i, float(at), n, m) for i, (at, (_, n, m)) in enumerate(zip(arrivals, gaps, strict=True))
    ]
    mine = ch02.ClockedSim(ToySim("fifo"), Prices(*prices)).run(requests)
    config = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=100)
    engine = [replace(r, max_new_tokens=r.max_new_tokens + 1) for r in requests]
    loop = timings(Loop(engine, TinyScheduler(config), SimExecutor(Prices(*prices)), TimeClock()))
    for ours, theirs in zip(mine, loop, strict=True):
        assert ours.token_times == theirs.token_times[1:]
        assert ours.scheduled_time == theirs.scheduled_time >= ours.arrival_time
        assert len(ours.token_times) == requests[ours.request_id].max_new_tokens


# --- ch02.2 -----------------------------------------------------------------------------------


def test_the_work_of_an_event():
    prefill = {"phase": "prefill", "prompt_len": 4, "generated_len": 0}
    decode = {"phase": "decode", "prompt_len": 4, "generated_len": 3}
    assert ch02.work(prefill) == (4, 4, 1 + 2 + 3 + 4)
    assert ch02.work(decode) == (1, 7, 7)


def test_a_roofline_worked_by_hand():
    shape = ModelShape("hand", 1, 2, 1, 1, 2, 3, 5, tied=True)
    # q, k, v, o: 4 of 2 x 2; MLP: 3 of 2 x 3; three norms of 2; embedding: 5 x 2.
    assert shape.params == 16 + 18 + 6 + 10 == 50
    times = ch02.Roofline(shape, replace(H100, flops=10.0, bandwidth=4.0)).times
    assert times(1, 0, 0) == (100 / 10, (100 + 8) / 4)  # K and V of a token: 2 vectors of 2, 2 bytes each
    assert times(0, 3, 2) == (2 * 4 * 2 / 10, (100 + 3 * 8) / 4)


@pytest.mark.parametrize(
    ("step", "milliseconds"),
    [((7, 7, 28), 4.7947), ((7000, 7000, 24_503_500), 126.5998), ((1, 1000, 1000), 4.8334)],
)
def test_the_steps_that_the_chapter_opens_with(step, milliseconds):
    assert ch02.Roofline(LLAMA_8B, H100)(*step) * 1000 == pytest.approx(milliseconds, abs=1e-4)


@given(st.integers(1, 10**4), st.integers(1, 10**6), st.integers(1, 10**8))
def test_a_step_takes_the_longer_of_its_times_and_never_less_than_the_weights(new_tokens, kv_tokens, pairs):
    roofline = ch02.Roofline(LLAMA_8B, H100)
    price = roofline(new_tokens, kv_tokens, pairs)
    assert price == max(roofline.times(new_tokens, kv_tokens, pairs))
    assert price >= LLAMA_8B.weight_bytes / H100.bandwidth
    assert price <= roofline(new_tokens + 1, kv_tokens + 1, pairs + 1)


# --- ch02.3 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timing", "want"),
    [
        (served(5.0, 6.0, 9.0, arrival=2.0), (3.0, 2.0, 7.0)),
        (served(5.0, arrival=2.0, reason="stop"), (3.0, None, 3.0)),
        (served(5.0, 6.0, arrival=2.0, reason="aborted"), (3.0, 1.0, None)),
        (served(5.0, 6.0, arrival=2.0, reason=""), (3.0, 1.0, None)),
        (served(arrival=2.0, reason="never_fits"), (None, None, None)),
    ],
)
def test_latencies(timing, want):
    assert ch02.latencies(timing) == want
    assert (ch02.ttft(timing), ch02.tpot(timing), ch02.e2e(timing)) == want


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20).map(sorted))
def test_e2e_is_ttft_and_all_gaps(times):
    first, between, whole = ch02.latencies(served(*map(float, times)))
    assert whole == pytest.approx(first + between * (len(times) - 1), abs=1e-9)


# --- ch02.4 -----------------------------------------------------------------------------------

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)
QS = st.integers(0, 100) | st.floats(0, 100)


@given(VALUES, QS)
def test_percentile_is_numpy_s_default(values, q):
    assert ch02.percentile(values, q) == pytest.approx(np.percentile(values, q), rel=1e-9, abs=1e-6)


@given(VALUES, QS)
def test_percentile_leaves_the_list_alone_and_stays_between_the_ends(values, q):
    before = list(values)
    got = ch02.percentile(values, q)
    assert values == before
    assert min(values) <= got + 1e-6
    assert got <= max(values) + 1e-6


@pytest.mark.parametrize(("values", "q"), [([], 50), ([1.0], -1), ([1.0], 100.5), ([1.0], math.nan)])
def test_percentile_refuses(values, q):
    with pytest.raises(ValueError, match="percentile"):
        ch02.percentile(values, q)


# --- ch02.5 -----------------------------------------------------------------------------------


def test_goodput_worked_by_hand():
    _, found = worked()
    assert [ch02.ttft(t) for t in found] == [4.0, 3.0, 2.0]
    assert ch02.goodput(found, SLO(ttft=3.0, tpot=1.0), 22.0) == 2 / 22
    assert ch02.goodput(found, SLO(ttft=4.0, tpot=3.9), 22.0) == 2 / 22
    assert ch02.goodput(found, SLO(ttft=4.0, tpot=4.0), 22.0) == 3 / 22


@pytest.mark.parametrize("reason", ["aborted", "timeout", "never_fits", ""])
def test_an_answer_that_is_not_complete_is_no_good(reason):
    assert ch02.goodput([served(0.1, 0.2, reason=reason), served(reason=reason)], SLO(9, 9), 1.0) == 0


def test_a_report_is_plain_data():
    _, found = worked()
    table = ch02.report(found, SLO(ttft=3.0, tpot=1.0), 22.0)
    assert (table["requests"], table["completed"], table["tokens_per_second"]) == (3, 3, 4 / 22)
    assert (table["ttft_p50"], table["tpot_p99"], table["e2e_p50"]) == (3.0, 4.0, 3.0)
    assert ch02.report([], SLO(1, 1), 1.0)["ttft_p50"] is None


# --- ch02.6 -----------------------------------------------------------------------------------


@given(st.sampled_from(list(MODELS.values())), st.sampled_from(list(GPUS.values())), st.integers(0, 600))
def test_the_turning_point_is_the_smallest_compute_bound_batch(model, gpu, context):
    roofline = ch02.Roofline(model, gpu)
    batch = ch02.turning_point(roofline, context)
    assume(batch is None or batch < 10**6)
    compute, memory = roofline.times(batch or 10**9, (batch or 10**9) * context, (batch or 10**9) * context)
    if batch is None:
        assert compute < memory
        return
    assert compute >= memory * (1 - 1e-9)
    before, traffic = roofline.times(batch - 1, (batch - 1) * context, (batch - 1) * context)
    assert before < traffic * (1 + 1e-9)


def test_the_oracle_of_the_turning_point():
    case = {"model": LLAMA, "gpu": {**vars(H100)}, "context": 0}
    assert smallest(case) == 297
    assert smallest(case | {"context": 1000}) is None
