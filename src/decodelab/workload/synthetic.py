"""Synthetic workloads: lengths and gaps drawn from the published shape of a real trace.

Only the quantiles of two lengths, the rate and the spread of the gaps are kept of each trace, so a draw is
like it in these and in nothing else: prompt and output lengths are independent (their correlation in the
traces is 0.1 or less), the rate does not drift, prompts share no prefix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.request import Request
from decodelab.workload.arrivals import arriving, gamma, needs
from decodelab.workload.traces import Trace

LEVELS = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999, 1)


@dataclass(frozen=True)
class Profile:
    """The shape of a trace. ``prompt`` and ``output`` are its lengths in tokens at LEVELS, smallest first."""

    source: str
    rate: float  # requests a second
    gap_cv: float  # standard deviation of the gaps between arrivals over their mean; 1 is Poisson
    prompt: tuple[int, ...]
    output: tuple[int, ...]


PROFILES: dict[str, Profile] = {
    "azure-chat-like": Profile(
        source="Azure LLM inference trace 2023, chat (19,366 rows); CC-BY 4.0, Patel et al., ISCA 2024",
        rate=5.530,
        gap_cv=1.09,
        prompt=(2, 29, 181, 207, 396, 1020, 1071, 1130, 1189, 1315, 2735, 4083, 4142, 6212, 14050),
        output=(7, 16, 41, 54, 85, 129, 177, 384, 395, 400, 424, 451, 601, 954, 1000),
    ),
    # One pause of 217 s makes most of this trace's CV. A gamma with it has the mean and the spread,
    # not the middle: nearly all gaps are 0 and requests come in bursts of some hundred.
    "azure-code-like": Profile(
        source="Azure LLM inference trace 2023, code (8,819 rows); CC-BY 4.0, Patel et al., ISCA 2024",
        rate=2.566,
        gap_cv=13.2,
        prompt=(3, 17, 75, 147, 578, 1469, 1909, 2433, 2745, 3193, 5194, 7315, 7436, 7437, 7437),
        output=(6, 6, 6, 7, 9, 13, 16, 20, 24, 29, 55, 90, 252, 831, 1899),
    ),
    # The file's times are rounded to 3 s, which makes a CV of 3.0 out of nothing. This one is from the
    # number of arrivals in each 3 s: their variance is 1.10 times their mean, near a Poisson process's 1.
    "mooncake-conversation-like": Profile(
        source="Mooncake conversation trace, FAST'25 release (12,031 rows); Apache-2.0, kvcache-ai/Mooncake",
        rate=3.401,
        gap_cv=1.05,
        prompt=(
            *(891, 894, 901, 964, 2306, 6909, 9570, 13196),
            *(15368, 17869, 27367, 39552, 85401, 121301, 126195),
        ),
        output=(1, 3, 10, 24, 156, 350, 399, 447, 472, 504, 597, 698, 1120, 2000, 2000),
    ),
}


def synthetic(profile: str, n: int, seed: int = 0, *, rate: float | None = None, scale: float = 1.0) -> Trace:
    """Draw ``n`` requests from a profile of PROFILES; the same seed gives the same requests.

    Lengths in tokens are drawn by inverting the quantile function, interpolated geometrically between
    LEVELS, so none is outside the trace's range; gaps in seconds are gamma distributed with the profile's
    mean and CV, arrival times rounded to 100 ns. The mean gap of a short draw may be far from the
    profile's where gap_cv is large. The trace's name says that it is synthetic.
    rate: requests a second in place of the profile's. scale: what lengths are multiplied by, none below 1.
    DecodeLabError for a profile there is not, or a number out of range.
    """
    shape = _profile(profile)
    needs(n >= 1, "n", n, en="ask for 1 request or more", zh="请至少要 1 个请求")
    needs(0 < scale < math.inf, "scale", scale, en="give a number above 0", zh="请给出大于 0 的数")
    rng = np.random.default_rng(seed)
    prompts, outputs = (_lengths(quantiles, n, rng, scale) for quantiles in (shape.prompt, shape.output))
    times = gamma(shape.rate if rate is None else rate, shape.gap_cv, n, rng)
    requests = [
        Request(i, 0.0, int(prompt), int(output))
        for i, (prompt, output) in enumerate(zip(prompts, outputs, strict=True))
    ]
    return Trace(f"synthetic {profile} (seed {seed})", arriving(requests, times), rows_read=n)


def chat_like(n: int, rate: float | None = None, seed: int = 0, scale: float = 1.0) -> list[Request]:
    """People who chat: prompts of about 1,000 tokens and answers of about 130, as in ``synthetic``."""
    return synthetic("azure-chat-like", n, seed, rate=rate, scale=scale).requests


def long_document_like(n: int, rate: float | None = None, seed: int = 0, scale: float = 1.0) -> list[Request]:
    """Long documents and questions on them: prompts of about 7,000 tokens, one in ten above 27,000, answers of 350."""
    return synthetic("mooncake-conversation-like", n, seed, rate=rate, scale=scale).requests


def _profile(name: str) -> Profile:
    if name in PROFILES:
        return PROFILES[name]
    known = ", ".join(PROFILES)
    raise DecodeLabError(
        both(
            en=f"There is no profile {name!r}; choose one of {known}.",
            zh=f"没有名为 {name!r} 的 profile；可选的有 {known}。",
        )
    )


def _lengths(
    quantiles: tuple[int, ...], n: int, rng: np.random.Generator, scale: float
) -> npt.NDArray[np.int64]:
    """``n`` lengths, shape (n,)."""
    drawn = np.exp(np.interp(rng.random(n), LEVELS, np.log(quantiles)))
    return np.maximum(np.rint(drawn * scale), 1).astype(np.int64)
