"""What hypothesis draws for the loop's tests: workloads with late arrivals, aborts, early stops, taken ids."""

from __future__ import annotations

from hypothesis import strategies as st

from decodelab.contract import SchedulerConfig
from decodelab.request import EOS, Job, Request
from decodelab.sim.executor import Cost, one_second

ids = st.one_of(st.integers(0, 12), st.sampled_from("abcdef"))


@st.composite
def one_job(draw: st.DrawFn) -> Job:
    step = draw(st.integers(0, 30))
    request = Request(
        draw(ids),
        arrival_time=float(step),
        prompt_len=draw(st.integers(0, 40)),  # 0 is refused
        max_new_tokens=draw(st.integers(1, 12)),
        stop_token_ids=(EOS,),
    )
    stop_at = draw(st.none() | st.integers(0, 12))
    return Job(request, step, stop_at, draw(st.none() | st.integers(0, 60)))


workloads = st.lists(one_job(), max_size=12)  # a time is the number of a step, too
configs = st.builds(
    SchedulerConfig,
    max_num_seqs=st.integers(1, 4),
    max_num_batched_tokens=st.integers(1, 48),
    block_size=st.sampled_from([1, 4, 16]),
    num_blocks=st.none() | st.integers(4, 60),
)


def per_token(new_tokens: int, kv_tokens: int, pairs: int) -> float:
    """A cost that no two different steps are likely to share, exact in binary."""
    return (new_tokens + kv_tokens / 64 + pairs / 4096) / 1024


costs: st.SearchStrategy[Cost] = st.sampled_from([one_second, per_token, lambda *counts: 0.0])

# Memory for fewer than want it: with these two, requests are preempted and come back.
CROWD = [Job(Request(i, 0.0, 7, 9), i) for i in range(5)]
TIGHT = SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=16, block_size=4, num_blocks=8)
