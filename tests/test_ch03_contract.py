"""Chapter 3's contract, sentence by sentence, on the reference; the oracles here share nothing with the checks."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.course import load
from decodelab.grading import splice
from decodelab.grading.judge import Trial, attempt
from decodelab.grading.prove import Variant, submission_of
from decodelab.request import Request


@pytest.fixture(scope="module")
def lab():
    """The names that chapter 3 exports, by the reference."""
    chapter = load("ch03")
    names: dict = {}
    for code in chapter.exports:
        exec(chapter.answer(code[1:]).reference if code.startswith("@") else code, names)
    return SimpleNamespace(**names)


eighths = st.integers(0, 80).map(lambda n: n / 8)
requests = st.lists(
    st.builds(Request, st.integers(0, 99), eighths, st.integers(1, 9), st.integers(1, 9), st.integers(-1, 2)),
    max_size=12,
    unique_by=lambda r: r.request_id,
)


def ids(items):
    return [r.request_id for r in items]


def drained(queue, waiting, now=10.0):
    """Add all, then pop to the end."""
    for request in waiting:
        queue.add(request, request.arrival_time)
    return ids(iter(lambda: queue.pop(now), None))


def seconds(request):
    """An answer that takes a second a token."""
    return list(range(1, request.max_new_tokens + 1))


@given(requests)
def test_first_come_is_the_order_of_arrival(lab, waiting):
    by_hand = []
    for when in sorted({r.arrival_time for r in waiting}):
        by_hand += sorted(r.request_id for r in waiting if r.arrival_time == when)
    assert drained(lab.PolicyQueue(lab.FCFS()), waiting) == by_hand


@given(requests)
def test_shortest_first_has_the_smallest_mean_wait_of_all_orders_of_those_who_are_there(lab, waiting):
    """Any two neighbours in the other order would wait no less together."""
    order = drained(lab.PolicyQueue(lab.SJF()), waiting)
    size = {r.request_id: r.prompt_len + r.max_new_tokens for r in waiting}
    assert all(size[a] <= size[b] for a, b in pairwise(order))


def test_size_is_whatever_function_was_given(lab):
    long_prompt, long_answer = Request(1, 0.0, 100, 1), Request(2, 0.0, 1, 9)
    for size, want in ((lambda r: r.prompt_len, [2, 1]), (lambda r: r.max_new_tokens, [1, 2])):
        assert drained(lab.PolicyQueue(lab.SJF(size)), [long_prompt, long_answer]) == want


class Alike:
    """A policy to which all are equal."""

    def key(self, request, now):
        return 0


@given(requests, st.booleans())
def test_of_equal_keys_the_smaller_id_goes_first_whoever_was_added_first(lab, waiting, text):
    if text:
        waiting = [replace(r, request_id=f"r{r.request_id}") for r in waiting]
    assert drained(lab.PolicyQueue(Alike()), waiting) == sorted(ids(waiting))


@given(requests)
def test_ids_of_text_are_as_good_as_numbers(lab, waiting):
    texts = [replace(r, request_id=f"{r.request_id:02}") for r in waiting]
    for policy in (lab.FCFS(), lab.SJF(), lab.PriorityOrder(), lab.Aging(lab.SJF(), 2.0)):
        numbers = drained(lab.PolicyQueue(policy), waiting)
        assert drained(lab.PolicyQueue(policy), texts) == [f"{n:02}" for n in numbers]


@given(requests, st.integers(1, 4))
def test_every_queue_serves_everyone_once(lab, waiting, burst):
    for queue in (
        *(
            lab.PolicyQueue(p)
            for p in (lab.FCFS(), lab.SJF(), lab.PriorityOrder(), lab.Aging(lab.SJF(), 2.0))
        ),
        lab.PriorityScheduler(lab.SJF(), burst),
        lab.TimeoutQueue(lab.PolicyQueue(lab.SJF()), 10.0),
    ):
        assert sorted(drained(queue, waiting)) == sorted(ids(waiting))
        assert queue.pop(11.0) is None


@given(requests, st.data())
def test_a_cancelled_one_is_never_served(lab, waiting, data):
    cancelled = set(data.draw(st.lists(st.integers(0, 99))))
    for queue in (
        lab.PolicyQueue(lab.SJF()),
        lab.PriorityScheduler(lab.FCFS(), 2),
        lab.TimeoutQueue(lab.PolicyQueue(lab.FCFS()), 99.0),
    ):
        for request in waiting:
            queue.add(request, request.arrival_time)
        for request_id in cancelled:
            queue.cancel(request_id)
        served = drained(queue, [])
        assert sorted(served) == sorted(set(ids(waiting)) - cancelled)


def test_an_id_that_waits_already_is_refused_and_changes_nothing(lab):
    queue = lab.PolicyQueue(lab.FCFS())
    queue.add(Request(1, 0.0, 5, 5), 0.0)
    with pytest.raises(ValueError, match="1"):
        queue.add(Request(1, 1.0, 9, 9), 1.0)
    assert queue.pop(2.0).prompt_len == 5
    assert queue.pop(3.0) is None


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_a_normal_one_is_overtaken_by_at_most_k_plus_1_bursts(lab, urgent, burst):
    """The adversary: everything is there from the start, and the urgent ones have the smaller ids."""
    waiting = [Request(n if u else 1000 + n, 0.0, 1, 1, int(u)) for n, u in enumerate(urgent)]
    served = drained(lab.PriorityScheduler(lab.FCFS(), burst), waiting)
    overtaken = normal = 0
    for request_id in served:
        overtaken += request_id < 1000
        if request_id >= 1000:
            assert overtaken <= (normal + 1) * burst
            normal += 1


@pytest.mark.parametrize("burst", [0, -1])
def test_a_burst_below_one_is_refused(lab, burst):
    with pytest.raises(ValueError, match="burst"):
        lab.PriorityScheduler(lab.FCFS(), burst)


@given(requests, st.sampled_from([0.25, 0.5, 1.0, 4.0]), st.integers(0, 50))
def test_nobody_who_comes_later_than_the_bound_overtakes(lab, waiting, rate, later):
    served = drained(lab.PolicyQueue(lab.Aging(lab.SJF(), rate)), waiting, now=10.0 + later)
    place = {request_id: at for at, request_id in enumerate(served)}
    size = {r.request_id: r.prompt_len + r.max_new_tokens for r in waiting}
    for me in waiting:
        for other in waiting:
            bound = (size[me.request_id] - size[other.request_id]) / rate
            if other.arrival_time - me.arrival_time > bound:
                assert place[me.request_id] < place[other.request_id]


def test_the_wait_of_an_aged_long_job_is_bounded_under_endless_short_ones_and_without_aging_it_is_not(lab):
    long, rate = Request(0, 0.0, 1, 40), 2.0
    short = [Request(n, float(n - 1), 1, 1) for n in range(1, 200)]
    answer = lambda request: [1.0]  # noqa: E731
    waits = {}
    for name, policy in (("aging", lab.Aging(lab.SJF(), rate)), ("sjf", lab.SJF())):
        served = lab.serve([long, *short], lab.PolicyQueue(policy), answer)
        waits[name] = next(t.scheduled_time for t in served if t.request_id == 0)
    assert waits["aging"] <= (41 - 2) / rate + 1
    assert waits["sjf"] == 199


def test_static_is_what_it_says(lab):
    request = Request(1, 0.5, 3, 4, 1)
    for policy in (lab.FCFS(), lab.SJF(), lab.PriorityOrder()):
        assert policy.static
        assert policy.key(request, 1.0) == policy.key(request, 99.0)
    assert not lab.Aging(lab.SJF(), 1.0).static


@given(requests)
def test_serve_starts_nobody_before_arrival_and_never_two_at_once(lab, waiting):
    served = lab.serve(waiting, lab.PolicyQueue(lab.FCFS()), seconds)
    assert sorted(t.request_id for t in served) == sorted(ids(waiting))
    free = 0.0
    for timing in served:
        assert timing.scheduled_time == max(free, timing.arrival_time)
        free = timing.token_times[-1]
        assert len(timing.token_times) == free - timing.scheduled_time


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(1, 9))
def test_jain_is_between_1_over_n_and_1_and_knows_no_units(lab, values, scale):
    index = lab.jain(values)
    assert 1 / max(1, len(values)) - 1e-9 <= index <= 1 + 1e-9
    assert lab.jain([scale * v for v in values]) == pytest.approx(index)
    assert (index == pytest.approx(1)) == (len(set(values)) <= 1)


@given(requests, st.integers(1, 5))
def test_round_robin_conserves_tokens_within_the_slice_and_lets_nobody_wait_longer_than_a_round(
    lab, waiting, most
):
    robin = lab.RoundRobin(most)
    for request in waiting:
        robin.add(request, 0.0)
    given_out: dict = {}
    turns = []
    while turn := robin.turn(0.0):
        request, tokens = turn
        assert 1 <= tokens <= most
        turns.append(request.request_id)
        given_out[request.request_id] = given_out.get(request.request_id, 0) + tokens
    assert given_out == {r.request_id: r.max_new_tokens for r in waiting}
    assert turns[: len(waiting)] == ids(waiting)


@given(requests, eighths, st.booleans())
def test_everyone_is_served_or_has_a_reason_never_both(lab, waiting, timeout, classes):
    inner = lab.PriorityScheduler(lab.SJF(), 2) if classes else lab.PolicyQueue(lab.SJF())
    queue = lab.TimeoutQueue(inner, timeout)
    served = lab.serve(waiting, queue, seconds)
    assert {t.request_id for t in served} | set(queue.gone) == set(ids(waiting))
    assert len(served) + len(queue.gone) == len(waiting)
    assert all(t.scheduled_time - t.arrival_time <= timeout for t in served)
    assert set(queue.gone.values()) <= {"timeout"}


@pytest.mark.parametrize(
    ("todo", "code", "rule"),
    [
        ("ch03.1", "return (request.arrival_time,)", "no-ties"),
        ("ch03.3", "return None", "work-conserving"),
        ("ch03.3", "return 7", "returns-the-request"),
        ("ch03.5", "return self.policy.key(request, now)", "bounded-wait"),
    ],
)
def test_a_wrong_answer_is_told_its_rule_on_a_small_case(todo, code, rule):
    chapter = load("ch03")
    result = visible(chapter, todo, code)
    assert result.rule == rule
    assert len(chapter.checks.shown(result.finding.case)) <= 8


def visible(chapter, todo, code):
    """What the visible cases say of an answer."""
    its = chapter.todo(todo)
    parts, _ = splice.alone(chapter, submission_of(chapter, Variant("wrong", {todo: code})), its)
    result = attempt(parts, Trial(its, chapter.checks.CHECKS[todo], list(chapter.checks.VISIBLE[todo])))
    assert result.finding
    return result


AGED = "first, *rest = self.policy.key(request, now)\nreturn (first - (now - request.arrival_time), *rest)"
ROW = """
if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):
    self.row = 0
    return self.normal.pop(now)
self.row += 1
return self.urgent.pop(now)
"""
TURN = """
if not self.turns:
    return None
request = self.turns.popleft()
tokens = min(self.slice_tokens, self.left[request.request_id])
self.left[request.request_id] -= tokens
self.turns.append(request)
return request, tokens
"""
LEAVE = """
for request in list(self.waiting.values()):
    if now - request.arrival_time {late} self.timeout:
        self._leave(request.request_id, "timeout")
request = self.queue.pop(now)
if request is not None:
    {served}
return request
"""
OUT = "del self.waiting[request.request_id]"


@pytest.mark.parametrize(
    ("todo", "code", "said"),
    [
        ("ch03.1", "return (request.arrival_time - now, request.request_id)", "`static = True`"),
        (
            "ch03.2",
            "return (self.size, request.arrival_time, request.request_id)",
            "call it with the request",
        ),
        ("ch03.4", ROW, "`row` should be 0, yours is 2. A pop that finds nobody does not count."),
        ("ch03.5", AGED, "rate=2.0"),
        ("ch03.7", TURN, "which has had its 1 token already."),
        ("ch03.8", LEAVE.format(late=">", served="pass"), "take it out of `waiting`"),
        ("ch03.8", LEAVE.format(late=">=", served=OUT), "has waited exactly `timeout`"),
    ],
)
def test_the_message_names_the_mistake(todo, code, said):
    assert said in visible(load("ch03"), todo, code).finding.text["en"]
