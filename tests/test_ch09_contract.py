"""Chapter 9's contract on the reference: a batch is what its requests are alone, and nothing unwritten is read."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import reference

from decodelab.check.ch08 import oracle, tiny
from decodelab.check.ch09.buckets import least
from decodelab.contract import Plan
from decodelab.models.config import Config

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
ONE, LAB = reference("ch08"), reference("ch09")
few = settings(max_examples=40)
SIZES = st.sampled_from([1, 2, 3, 4, 16])


def model(name):
    """A tiny model, and the logits of a text alone as the oracle has them."""
    config, weights = Config(**tiny.shape_of(name)), tiny.weights(name, 0)
    there = ONE.Decoder(config, {key: torch.from_numpy(value) for key, value in weights.items()})
    return there, lambda tokens: oracle.logits(config, weights, tokens)


@st.composite
def runs(draw):
    """Steps of (request, tokens) pairs: chunks of any size, requests that join, wait, leave and change places."""
    left = {
        name: draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
        for name in "abcd"[: draw(st.integers(1, 4))]
    }
    steps = []
    while left:
        able = draw(st.permutations(sorted(left)))[: draw(st.integers(1, len(left)))]
        steps.append({name: left[name].pop() for name in able})
        left = {name: rest for name, rest in left.items() if rest}
    return steps


class Pool:
    """Blocks in a random order, NaN wherever nobody's token lies."""

    def __init__(self, decoder, block_size, seed):
        self.kv = LAB.PagedKV(decoder.config, 64, block_size)
        self.free = np.random.RandomState(seed).permutation(64).tolist()
        self.tables: dict = {}
        self.poison(self.free)

    def poison(self, blocks):
        for block in blocks:
            gone = slice(block * self.kv.block_size, (block + 1) * self.kv.block_size)
            self.kv.keys[:, gone], self.kv.values[:, gone] = float("nan"), float("nan")

    def hold(self, name, count):
        table = self.tables.setdefault(name, [])
        while len(table) * self.kv.block_size < count:
            table.append(self.free.pop())

    def release(self, name):
        gone = self.tables.pop(name)
        self.poison(gone)
        self.free += gone


def logits_of(decoder, steps, texts, block_size, seed):
    """What each step said of each of its requests: (name, tokens so far, logits)."""
    pool, done = Pool(decoder, block_size, seed), dict.fromkeys(texts, 0)
    for step in steps:
        plan = Plan(scheduled=step, start={name: done[name] for name in step})
        for name, count in step.items():
            done[name] += count
            pool.hold(name, done[name])
        rows = LAB.forward_batch(decoder, pool.kv, LAB.pack(plan, texts, pool.tables, block_size))
        yield from ((name, done[name], row.numpy()) for name, row in zip(step, rows, strict=True))
        for name in step:
            if done[name] == len(texts[name]):
                pool.release(name)


@few
@given(steps=runs(), name=st.sampled_from(sorted(tiny.SHAPES)), block_size=SIZES, seed=st.integers(0, 99))
def test_each_request_hears_what_it_hears_alone(steps, name, block_size, seed):
    decoder, alone = model(name)
    lengths: dict = {}
    for step in steps:
        for request, count in step.items():
            lengths[request] = lengths.get(request, 0) + count
    rng = np.random.RandomState(seed)
    texts = {request: rng.randint(48, size=n).tolist() for request, n in lengths.items()}
    want = {request: alone(tokens) for request, tokens in texts.items()}
    for request, end, row in logits_of(decoder, steps, texts, block_size, seed):
        assert np.abs(row - want[request][end - 1]).max() < 1e-4


@few
@given(lens=st.lists(st.integers(1, 9), min_size=1, max_size=5), block_size=SIZES, seed=st.integers(0, 99))
def test_where_blocks_lie_changes_no_bit(lens, block_size, seed):
    decoder, _ = model("llama")
    texts = {i: list(range(i, i + n)) for i, n in enumerate(lens)}
    steps = [dict(enumerate(lens))]
    here, there = (
        [row for _, _, row in logits_of(decoder, steps, texts, block_size, s)] for s in (seed, seed + 1)
    )
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=6))
def test_a_batch_is_its_requests_one_behind_the_other(asked):
    sequences = {
        i: list(range(100 * i, 100 * i + start + count + more))
        for i, (start, count, more) in enumerate(asked)
    }
    tables = {i: list(range(50 * i, 50 * i + 30)) for i in sequences}
    plan = Plan(
        scheduled={i: n for i, (_, n, _) in enumerate(asked)},
        start={i: s for i, (s, _, _) in enumerate(asked)},
    )
    batch = LAB.pack(plan, sequences, tables, 1)
    for i, (start, count, _) in enumerate(asked):
        rows = slice(batch.query_start_loc[i], batch.query_start_loc[i + 1])
        assert batch.positions[rows].tolist() == list(range(start, start + count))
        assert batch.tokens[rows].tolist() == sequences[i][start : start + count]
        assert batch.slot_mapping[rows].tolist() == tables[i][start : start + count]
        assert batch.seq_lens[i] == start + count
        assert batch.last[i] == batch.query_start_loc[i + 1] - 1
    assert sorted(batch.decodes + batch.chunks) == list(sequences)


def test_attention_goes_through_what_it_is_given():
    decoder, _ = model("llama")
    seen = []

    def attention(q, keys, values, batch):
        seen.append((q.shape, keys.shape))
        return LAB.paged_attention(q, keys, values, batch)

    kv = LAB.PagedKV(decoder.config, 4, 2, attention=attention)
    batch = LAB.pack(Plan(scheduled={"a": 3}, start={"a": 0}), {"a": [1, 2, 3]}, {"a": [3, 1]}, 2)
    LAB.forward_batch(decoder, kv, batch)
    assert seen == [((3, 6, 4), (8, 2, 4))] * decoder.config.layers


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_near_and_keeps_its_type(dtype):
    q, keys, values = torch.randn(3, 6, 8), torch.randn(20, 2, 8), torch.randn(20, 2, 8)
    own, lens = torch.tensor([[3, 4, 5], [9, 9, 9], [1, 7, 7]]), torch.tensor([3, 1, 2])
    want = LAB.decode_attention(q, keys, values, own, lens)
    got = LAB.decode_attention(*(x.to(getattr(torch, dtype)) for x in (q, keys, values)), own, lens)
    assert got.dtype == getattr(torch, dtype)
    assert (got.float() - want).abs().max() < 0.05


@few
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0, 1.7]), st.sampled_from([0.31, 0.87, 1.0]), st.integers(0, 99)
        ),
        min_size=1,
        max_size=6,
    ),
    vocab=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_a_row_draws_what_chapter_8_draws_whoever_else_is_there(rows, vocab, seed):
    logits = torch.from_numpy(
        np.random.RandomState(seed).standard_normal((len(rows), vocab)).astype(np.float32)
    )

    def generators():
        return [torch.Generator().manual_seed(s) for _, _, s in rows]

    made, kept = generators(), generators()
    got = LAB.sample_batch(logits, [t for t, _, _ in rows], [p for _, p, _ in rows], made)
    want = [ONE.sample(row, t, p, g) for row, (t, p, _), g in zip(logits, rows, kept, strict=True)]
    assert got == want
    assert [torch.rand((), generator=g) for g in made] == [torch.rand((), generator=g) for g in kept]


@settings(max_examples=150)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(1, 5))
def test_no_choice_of_buckets_needs_fewer_rows(sizes, count):
    got = LAB.best_buckets(sizes, count)
    assert got == sorted(got)
    assert len(got) <= count

    def rows(buckets):
        return sum(LAB.bucket(size, list(buckets)) or 10_000 for size in sizes)

    choices = (c for n in range(1, count + 1) for c in combinations(sorted(set(sizes)), n))
    assert rows(got) == min(rows(c) for c in choices) == least(sizes, count)[0]
