"""Arrivals: processes have the rate and spread that they are asked for; loads are like their trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.errors import DecodeLabError
from decodelab.request import Job, Request
from decodelab.workload import (
    ClosedLoop,
    arriving,
    chat_like,
    gamma,
    long_document_like,
    poisson,
    synthetic,
)

seeds = st.integers(0, 2**32)
rates = st.floats(0.01, 1000)


@given(rates, st.floats(0, 20), st.integers(1, 100), seeds)
def test_times_go_up_from_zero_and_repeat(rate: float, cv: float, n: int, seed: int) -> None:
    times = gamma(rate, cv, n, seed)
    assert times.shape == (n,)
    assert times[0] == 0
    assert (np.diff(times) >= 0).all()
    assert np.isfinite(times).all()
    assert (times == gamma(rate, cv, n, seed)).all()


@pytest.mark.parametrize("rate", [0.1, 20.0])
@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 3.0])
def test_gaps_have_the_mean_and_spread_asked_for(rate: float, cv: float) -> None:
    gaps = np.diff(gamma(rate, cv, 200_000, seed=1))
    assert gaps.mean() == pytest.approx(1 / rate, rel=0.03)
    assert gaps.std() * rate == pytest.approx(cv, rel=0.03, abs=1e-9)


def test_poisson_counts_in_equal_times_vary_as_much_as_their_mean() -> None:
    counts = np.bincount(poisson(5, 100_000, seed=2).astype(int))[:-1]
    assert counts.mean() == pytest.approx(5, rel=0.02)
    assert counts.var() == pytest.approx(5, rel=0.05)


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.sort(np.diff(poisson(1, 100_000, seed=3)))
    for share in (0.1, 0.5, 0.9):
        assert gaps[int(share * len(gaps))] == pytest.approx(-math.log(1 - share), rel=0.03)


@given(rates, st.integers(1, 50), seeds)
def test_a_generator_goes_on_from_where_it_is(rate: float, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = poisson(rate, n + 1, rng), poisson(rate, n + 1, rng)
    assert (first == poisson(rate, n + 1, seed)).all()
    assert (first != second).any()


def test_only_the_times_change() -> None:
    old = [Request("a", 9.0, 3, 4, priority=1), Request("b", 2.0, 5, 6, prefix_hashes=(7,))]
    new = arriving(old, [0.123456789, 1])
    assert [request.arrival_time for request in new] == [0.1234568, 1.0]
    assert arriving(new, [9.0, 2.0]) == old
    with pytest.raises(ValueError, match="zip"):
        arriving(old, [1.0])


# Loads


@pytest.mark.parametrize(
    ("load", "profile"), [(chat_like, "azure-chat-like"), (long_document_like, "mooncake-conversation-like")]
)
def test_a_load_is_drawn_from_its_profile(load: Callable[..., list[Request]], profile: str) -> None:
    assert load(50, seed=4) == synthetic(profile, 50, seed=4).requests


@given(rate=rates, seed=seeds)
def test_another_rate_is_the_same_load_faster(rate: float, seed: int) -> None:
    own, other = chat_like(30, 1.0, seed), chat_like(30, rate, seed)
    assert arriving(own, [0.0] * 30) == arriving(other, [0.0] * 30)
    rounded = 1e-7 * (1 + 1 / rate)  # seconds
    assert [r.arrival_time for r in other] == pytest.approx(
        [r.arrival_time / rate for r in own], abs=rounded, rel=1e-9
    )


@given(scale=st.floats(1e-4, 2), seed=seeds)
def test_lengths_are_scaled_and_stay_positive(scale: float, seed: int) -> None:
    for whole, scaled in zip(
        long_document_like(30, 1.0, seed), long_document_like(30, 1.0, seed, scale), strict=True
    ):
        assert scaled.arrival_time == whole.arrival_time
        for long, short in [
            (whole.prompt_len, scaled.prompt_len),
            (whole.max_new_tokens, scaled.max_new_tokens),
        ]:
            assert short >= 1
            assert short == 1 or abs(short - long * scale) <= 0.5 * (1 + scale)


def test_documents_are_longer_than_chats() -> None:
    chat, documents = (
        np.median([r.prompt_len for r in load(2000)]) for load in (chat_like, long_document_like)
    )
    assert documents > 5 * chat


# Closed loops


@given(st.integers(1, 5), st.floats(0, 100), st.integers(0, 12), seeds)
def test_a_closed_loop_asks_each_question_once(users: int, think: float, n: int, seed: int) -> None:
    loop = ClosedLoop([Request(i, 5.0, 1, 1) for i in range(n)], users, think, seed)
    jobs = list(loop)
    assert len(jobs) == min(users, n)
    ends = 0.0
    while more := loop.ended(None, ends):
        jobs += more
        assert ends <= more[0].request.arrival_time
        assert more[0].arrival_step == math.ceil(more[0].request.arrival_time)
        ends += 1
    assert [job.request.request_id for job in jobs] == list(range(n)) == list(range(len(loop)))
    assert all(isinstance(job, Job) for job in jobs)


def test_pauses_have_their_mean() -> None:
    loop = ClosedLoop([Request(i, 0.0, 1, 1) for i in range(20_000)], users=20_000, think=7.0)
    assert np.mean([job.request.arrival_time for job in loop]) == pytest.approx(7, rel=0.03)


# Refused


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: poisson(0, 5), "rate is 0"),
        (lambda: poisson(-1, 5), "rate is -1"),
        (lambda: poisson(math.inf, 5), "rate is inf"),
        (lambda: poisson(math.nan, 5), "rate is nan"),
        (lambda: gamma(1, -0.5, 5), "cv is -0.5"),
        (lambda: gamma(1, 101, 5), "cv is 101"),
        (lambda: gamma(1, math.nan, 5), "cv is nan"),
        (lambda: poisson(1, 0), "n is 0"),
        (lambda: chat_like(-1), "n is -1"),
        (lambda: chat_like(5, rate=0), "rate is 0"),
        (lambda: chat_like(5, scale=0), "scale is 0"),
        (lambda: ClosedLoop([], 0, 1), "users is 0"),
        (lambda: ClosedLoop([], 1, -1), "think is -1"),
    ],
)
def test_what_is_out_of_range_is_refused_by_its_name(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(DecodeLabError) as caught:
        ask()
    assert caught.value.text["en"].startswith(said)
    assert caught.value.text["zh"].startswith(said.replace(" is ", " 是 "))
