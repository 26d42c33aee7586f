"""The decoder on oneDNN's kernels and attention without pages: the same numbers as the chapters' own, and the benchmark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import reference

from decodelab.check.ch08 import tiny
from decodelab.contract import Plan, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.models.config import Config
from decodelab.models.packed import PackedDecoder, has_kernels
from decodelab.models.unpaged import unpaged_attention
from decodelab.request import Job, Request
from decodelab.run import Loop, StepClock

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
CH03, CH07, CH08, CH09, CH10 = map(reference, ("ch03", "ch07", "ch08", "ch09", "ch10"))
NAMES = sorted(tiny.SHAPES)
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.25}  # of logits that reach 8 and more
few = settings(max_examples=30)


def model(name: str, dtype=torch.float32):
    weights = {key: torch.from_numpy(value).to(dtype) for key, value in tiny.weights(name, 0).items()}
    return Config(**tiny.shape_of(name)), weights


def both_decoders(name: str, dtype=torch.float32, reorder: bool = True):
    config, weights = model(name, dtype)
    if not has_kernels(torch, weights["model.embed_tokens.weight"]):
        pytest.skip(f"no oneDNN kernels for {dtype} on this processor")
    return CH08.Decoder(config, weights), PackedDecoder(config, weights, CH08.rope, reorder=reorder)


# --- the decoder ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reorder", [True, False], ids=["packed", "as they are"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_chapter_8(name, dtype, reorder):
    plain, packed = both_decoders(name, dtype, reorder)
    ids, places = torch.tensor([5, 40, 0, 17, 17, 3, 29, 8]), torch.arange(8)
    want, got = (d.logits(d.forward(ids, places, plain.cache(8))) for d in (plain, packed))
    assert got.dtype == dtype
    assert (got - want).abs().max() < TOLERANCE[dtype]
    assert want.abs().max() > 1


@few
@given(st.sampled_from(NAMES), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 2**31))
def test_any_chunks_through_chapter_8s_own_cache(name, counts, seed):
    plain, packed = both_decoders(name)
    total = sum(counts)
    ids = torch.randint(plain.config.vocab, (total,), generator=torch.Generator().manual_seed(seed))
    kv, rows = plain.cache(total), []
    for part in torch.arange(total).split(counts):
        rows.append(packed.forward(ids[part], part, kv))
    want = plain.forward(ids, torch.arange(total), plain.cache(total))
    assert (torch.cat(rows) - want).abs().max() < 1e-4


def test_weights_without_kernels_are_refused_in_a_sentence():
    config, weights = model("llama", torch.float64)
    with pytest.raises(DecodeLabError) as refused:
        PackedDecoder(config, weights, CH08.rope)
    assert "float64 (cpu)" in refused.value.text["en"]
    assert "第 8 章" in refused.value.text["zh"]


# --- attention --------------------------------------------------------------------------------------


@st.composite
def ragged(draw):
    """A plan of requests in blocks of their own, in any order, and the block size."""
    size = draw(st.integers(2, 12))
    spans = draw(
        st.lists(
            st.integers(1, size).flatmap(lambda end: st.tuples(st.integers(0, end - 1), st.just(end))),
            min_size=1,
            max_size=6,
        )
    )
    blocks = draw(st.permutations(range(len(spans) + 2)))
    plan = Plan(
        {i: end - start for i, (start, end) in enumerate(spans)},
        {i: start for i, (start, _) in enumerate(spans)},
    )
    return size, plan, {i: [blocks[i]] for i in range(len(spans))}


@few
@given(ragged(), st.sampled_from([(4, 2), (3, 3), (6, 1)]), st.integers(0, 2**31))
def test_without_pages_is_with_pages_and_reads_nothing_else(case, heads, seed):
    size, plan, tables = case
    torch.manual_seed(seed)
    sequences = {i: [0] * (plan.start[i] + count) for i, count in plan.scheduled.items()}
    batch = CH09.pack(plan, sequences, tables, size)
    q = torch.randn(len(batch.tokens), heads[0], 8)
    keys, values = torch.full((2, (len(tables) + 2) * size, heads[1], 8), torch.nan)
    for i, length in enumerate(batch.seq_lens):
        own = slice(tables[i][0] * size, tables[i][0] * size + length)
        keys[own], values[own] = torch.randn(2, length, heads[1], 8)
    got, want = (f(q, keys, values, batch) for f in (unpaged_attention, CH09.paged_attention))
    assert got.shape == q.shape
    assert (got - want).abs().max() < 1e-5


def test_a_request_that_needs_a_second_block_is_refused_in_a_sentence():
    batch = CH09.pack(Plan({"a": 5}, {"a": 0}), {"a": [0] * 5}, {"a": [0, 1]}, 4)
    with pytest.raises(DecodeLabError, match="make block_size 5 or more"):
        unpaged_attention(torch.randn(5, 2, 8), torch.randn(8, 1, 8), torch.randn(8, 1, 8), batch)


# --- the engine -------------------------------------------------------------------------------------


def served(decoder, jobs, blocks, size, seqs, attention=None):
    """The tokens of every request, and how many preemptions there were."""
    config = SchedulerConfig(seqs, 8, block_size=size, num_blocks=blocks)
    executor = CH10.TorchExecutor(decoder, blocks, size, attention=attention)
    tokens: dict = {job.request.request_id: [] for job in jobs}
    preempted = 0
    for step in Loop(jobs, CH07.ChunkedScheduler(config, CH03.FCFS()), executor, StepClock()):
        preempted += len(step.plan.preempted)
        for request_id, new in step.tokens.items():
            tokens[request_id] += new
    return tokens, preempted


@pytest.mark.parametrize("name", NAMES)
def test_greedy_tokens_are_the_same_whoever_joins_leaves_or_is_thrown_out(name):
    plain, packed = both_decoders(name)
    draw = torch.Generator().manual_seed(9)
    jobs: list = []
    want: dict = {}
    for i in range(10):
        length, count, step = (
            int(torch.randint(*span, (), generator=draw)) for span in ((1, 12), (1, 12), (0, 9))
        )
        prompt = torch.randint(plain.config.vocab, (length,), generator=draw).tolist()
        jobs.append(Job(Request(i, 0.0, length, count, prompt=tuple(prompt)), arrival_step=step))
        want[i] = list(CH08.generate(plain, prompt, count))
    tokens, preempted = served(packed, jobs, blocks=12, size=3, seqs=5)
    assert (tokens, preempted > 0) == (want, True)
    for decoder in (plain, packed):
        assert served(decoder, jobs, 4, 24, seqs=4, attention=unpaged_attention)[0] == want


# --- the benchmark ----------------------------------------------------------------------------------


@pytest.mark.parametrize("peers", ["none", "transformers"])
def test_the_benchmark_ends_in_its_ratios(peers, tmp_path: Path):
    if peers == "transformers":
        pytest.importorskip("transformers", reason="make test-torch installs it")
    folder = Path(__file__).parent.parent / "benchmarks"
    (tmp_path / "benchmarks").mkdir()
    for path in folder.glob("*.py"):
        shutil.copy(path, tmp_path / "benchmarks")
    words = f"--model random-tiny --rounds 1 --requests 5 --lengths 2 9 --threads 1 --peers {peers}".split()
    run = subprocess.run(
        [sys.executable, tmp_path / "benchmarks" / "engine.py", *words],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    said = json.loads(run.stdout.strip().splitlines()[-1])
    assert said["same_tokens"]["unpaged+packed"] == {
        "same": 5,
        "tie": 0,
        "different": 0,
        "largest_gap": 0.0,
    }
    assert ("ratio_vs_generate" in said, "ratio_vs_generate_batch" in said) == (peers != "none",) * 2
    kept = json.loads((tmp_path / "benchmarks" / "results" / "engine.json").read_text(encoding="utf-8"))
    assert {len(samples) for samples in kept["samples_s"].values()} == {1}
    assert sorted(kept["order"]) == sorted(kept["samples_s"]) == sorted(kept["cpu_s"])
