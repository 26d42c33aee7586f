"""Chapter 1's contract, sentence by sentence, on the reference."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.check.ch01.cases import ask
from decodelab.check.ch01.spec import walked
from decodelab.course import load

WORKED = [
    (3, "prefill_to_decode"),
    (1, "prefill_to_decode"),
    (2, "prefill_to_decode"),
    (3, "finish"),
    (1, "decode_one_step"),
    (1, "finish"),
    (2, "decode_one_step"),
    (2, "decode_one_step"),
    (2, "finish"),
]


@pytest.fixture(scope="module")
def lab():
    """The names that chapter 1 exports, by the reference."""
    chapter = load("ch01")
    names: dict = {}
    for code in chapter.exports:
        exec(chapter.answer(code[1:]).reference if code.startswith("@") else code, names)
    return SimpleNamespace(**names)


@pytest.fixture(params=["DecodeSchedulerSim", "FastDecodeSchedulerSim"])
def sim(lab, request):
    """A fresh scheduler of either kind."""
    return getattr(lab, request.param)()


def worked(sim):
    """The three requests of the worked case."""
    sim.enqueue(1, 2, priority=2, cache_hit=True)
    sim.enqueue(2, 3, priority=1)
    sim.enqueue(3, 1, priority=3, cache_hit=True)
    return sim


def test_request_state_has_the_public_fields_and_defaults(lab):
    names = [f.name for f in fields(lab.RequestState)]
    assert names == [
        "request_id",
        "prompt_len",
        "generated_len",
        "phase",
        "priority",
        "cache_hit",
        "max_new_tokens",
    ]
    state = lab.RequestState(7, 3)
    assert (state.generated_len, state.phase, state.priority, state.cache_hit) == (0, "prefill", 0, False)
    assert state.max_new_tokens is None


def test_total_len_and_done(lab):
    assert lab.RequestState(1, 3, generated_len=2).total_len == 5
    assert not lab.RequestState(1, 3, generated_len=2).done
    assert lab.RequestState(1, 3, generated_len=3).done, "None means as many tokens as the prompt is long"
    assert lab.RequestState(1, 3, generated_len=1, max_new_tokens=1).done
    assert not lab.RequestState(1, 1, generated_len=1, max_new_tokens=2).done


def test_the_worked_case_gives_its_nine_events(sim):
    events = worked(sim).run(max_steps=20)
    assert [(e["request_id"], e["action"]) for e in events] == WORKED


def test_an_event_has_exactly_its_five_keys_and_the_phase_that_was_served(sim):
    sim.enqueue(4, 1)
    first, second = sim.step(), sim.step()
    assert first == {
        "request_id": 4,
        "phase": "prefill",
        "action": "prefill_to_decode",
        "prompt_len": 1,
        "generated_len": 0,
    }
    assert second == {
        "request_id": 4,
        "phase": "decode",
        "action": "finish",
        "prompt_len": 1,
        "generated_len": 1,
    }
    assert sim.timeline == [first, second]


def test_enqueue_returns_nothing_and_the_sim_starts_empty(sim):
    assert (sim.queue, sim.timeline) == ([], [])
    assert sim.enqueue(1, 2) is None


def test_step_returns_none_when_nothing_is_active(sim):
    assert sim.step() is None
    sim.enqueue(1, 1)
    sim.run()
    assert sim.step() is None
    assert len(sim.timeline) == 2


def test_queue_keeps_finished_requests_in_enqueue_order_and_their_ids_taken(sim):
    worked(sim).run()
    assert [r.request_id for r in sim.queue] == [1, 2, 3]
    with pytest.raises(ValueError, match="3"):
        sim.enqueue(3, 9)


def test_run_returns_the_timeline_itself_and_its_bound_is_per_call(sim):
    worked(sim)
    assert sim.run(max_steps=4) is sim.timeline
    assert len(sim.timeline) == 4
    sim.run(max_steps=3)
    assert len(sim.timeline) == 7
    sim.run(max_steps=0)
    assert len(sim.timeline) == 7
    sim.run()
    assert len(sim.timeline) == 9


def test_run_makes_a_hundred_steps_by_default(sim):
    sim.enqueue(1, 500)
    assert len(sim.run()) == 100


@pytest.mark.parametrize(
    "bad",
    [{"prompt_len": n} for n in (0, -1, True, False, 2.0, "2", None)]
    + [{"prompt_len": 2, "max_new_tokens": n} for n in (0, -1, True, 1.5, "1")]
    + [{"prompt_len": 2, "request_id": 1}],
    ids=repr,
)
def test_bad_input_is_refused_and_changes_nothing(sim, bad):
    worked(sim).run(max_steps=2)
    before = (list(sim.queue), list(sim.timeline))
    with pytest.raises(ValueError, match=r"."):
        sim.enqueue(**{"request_id": 9, **bad})
    with pytest.raises(ValueError, match="-1"):
        sim.run(max_steps=-1)
    assert (sim.queue, sim.timeline) == before
    assert len(sim.run()) == 9, "a refused request must not come back later"


def test_the_key_is_the_tuple_of_the_contract(lab):
    sim = lab.DecodeSchedulerSim()
    assert sim._schedule_key(lab.RequestState(7, 3, 2, "decode", 4, True)) == (1, 0, -4, 5, 7)
    assert sim._schedule_key(lab.RequestState(8, 3)) == (0, 1, 0, 3, 8)


requests = st.lists(
    st.builds(
        ask,
        st.integers(0, 30),
        st.integers(1, 4),
        priority=st.integers(-2, 2),
        cache_hit=st.booleans(),
        max_new_tokens=st.none() | st.integers(1, 4),
    ),
    max_size=6,
    unique_by=lambda r: r["request_id"],
)


@given(st.lists(st.tuples(requests, st.integers(0, 5)), max_size=4))
def test_reference_heap_and_the_rules_agree_on_random_scripts(lab, rounds):
    """The rules' own book-keeping is the oracle: it shares no code with either scheduler."""
    sims = [lab.DecodeSchedulerSim(), lab.FastDecodeSchedulerSim()]
    script: list = []
    taken: set = set()
    for new, steps in rounds:
        for request in new:
            if request["request_id"] not in taken:
                taken.add(request["request_id"])
                script.append(["enqueue", request])
        script.append(["steps", steps])
    for sim in sims:
        for order, argument in script:
            if order == "enqueue":
                sim.enqueue(**argument)
            else:
                sim.run(max_steps=argument)
        assert sim.timeline == [turn.want for turn in walked(script) if turn.want]
