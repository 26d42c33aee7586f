"""When requests come: at random, whatever the server does, or each when its user has read the last answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.request import Job, Request, RequestId

Seed: TypeAlias = "int | np.random.Generator"  # a generator goes on from where it is


def gamma(rate: float, cv: float, n: int, seed: Seed = 0) -> npt.NDArray[np.float64]:
    """``n`` arrival times in seconds, shape (n,), the first one 0; the gaps are independent and gamma distributed.

    rate: requests a second. cv: standard deviation of the gaps over their mean, up to 100: 0 is a beat, 1 is
    Poisson, above it requests come in bursts. DecodeLabError for what is out of range.
    """
    needs(n >= 1, "n", n, en="ask for 1 request or more", zh="请至少要 1 个请求")
    needs(0 < rate < math.inf, "rate", rate, en="give a number above 0", zh="请给出大于 0 的数")
    needs(0 <= cv <= 100, "cv", cv, en="give a number from 0 to 100", zh="请给出 0 到 100 之间的数")
    rng = np.random.default_rng(seed)
    beat = cv < 1e-6  # nobody could tell, and the shape would be too large to compute with
    gaps = np.full(n - 1, 1 / rate) if beat else rng.gamma(cv**-2, cv**2 / rate, n - 1)
    return np.concatenate([[0.0], np.cumsum(gaps)])


def poisson(rate: float, n: int, seed: Seed = 0) -> npt.NDArray[np.float64]:
    """``n`` arrival times in seconds, shape (n,), of users who know nothing of one another; as ``gamma`` otherwise."""
    return gamma(rate, 1, n, seed)


def arriving(requests: Sequence[Request], times: Sequence[float] | npt.NDArray[np.float64]) -> list[Request]:
    """The same requests at other times (seconds), rounded to 100 ns; one time a request."""
    return [
        replace(request, arrival_time=round(float(when), 7))
        for request, when in zip(requests, times, strict=True)
    ]


class ClosedLoop:
    """A workload of ``users`` people who wait for an answer, think, and ask again.

    requests: shared out in order; their arrival times do not count. think: mean of the exponential pause before
    each request, in the unit of the loop's clock (seconds, or steps). Pauses belong to requests, not to how fast
    they are answered, so two schedulers meet the same. Iterating begins anew; one run at a time.
    """

    def __init__(self, requests: Sequence[Request], users: int, think: float, seed: Seed = 0) -> None:
        needs(users >= 1, "users", users, en="give 1 or more", zh="请给出不小于 1 的数")
        needs(0 <= think < math.inf, "think", think, en="give 0 or more", zh="请给出不小于 0 的数")
        self.requests, self.users = list(requests), users
        self._pauses = think * np.random.default_rng(seed).standard_exponential(len(self.requests))
        self._asked = 0

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[Job]:
        self._asked = 0
        for _ in range(self.users):
            yield from self.ended(None, 0.0)

    def ended(self, request_id: RequestId | None, when: float) -> Sequence[Job]:
        """An answer ended at ``when``, by the loop's clock: what its user asks next."""
        if self._asked == len(self.requests):
            return ()
        request, pause = self.requests[self._asked], float(self._pauses[self._asked])
        self._asked += 1
        return (Job(replace(request, arrival_time=when + pause), arrival_step=math.ceil(when + pause)),)


def needs(holds: bool, name: str, value: float, *, en: str, zh: str) -> None:
    """DecodeLabError, saying what to give, unless ``holds``."""
    if not holds:
        raise DecodeLabError(both(en=f"{name} is {value}; {en}.", zh=f"{name} 是 {value}；{zh}。"))
