"""Chapter 8's contract on the reference: against transformers on the same weights, an oracle in numpy, and properties."""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))  # training/ is no part of the package

from reference import reference

from decodelab.check.ch08 import oracle, tiny
from decodelab.models.config import Config

torch = pytest.importorskip("torch", reason="make test-torch installs it")
pytestmark = pytest.mark.torch
LAB = reference("ch08")
NAMES = sorted(tiny.SHAPES)
few = settings(max_examples=40)


def decoder(name: str, seed: int = 0):
    weights = {key: torch.from_numpy(value) for key, value in tiny.weights(name, seed).items()}
    return LAB.Decoder(Config(**tiny.shape_of(name)), weights)


def logits(model, tokens, chunks):
    """The logits after each token, the tokens coming in chunks through one cache."""
    kv, ends = model.cache(len(tokens)), list(accumulate(chunks))
    rows = [
        model.forward(torch.tensor(tokens[start:end]), torch.arange(start, end), kv)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    return model.logits(torch.cat(rows)).numpy()


def close(got, want):
    return np.abs(np.asarray(got) - np.asarray(want)).max(initial=0) < 1e-4


# --- the whole model --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_logits_are_those_that_transformers_gave(name):
    tokens, want = tiny.recorded(name)
    assert close(logits(decoder(name), tokens, [len(tokens)]), want)
    assert close(oracle.logits(Config(**tiny.shape_of(name)), tiny.weights(name, 0), tokens), want)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_logits_are_those_of_transformers_today(name, seed, tmp_path: Path):
    pytest.importorskip("transformers", reason="make test-torch installs it")
    from training.logits import by_transformers, write

    tokens = np.random.RandomState(seed).randint(48, size=20).tolist()
    want = by_transformers(write(tmp_path, name, seed), tokens)
    assert close(logits(decoder(name, seed), tokens, [20]), want)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_64_greedy_tokens_are_those_of_transformers(name, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="make test-torch installs it")
    from training.logits import write

    model = transformers.AutoModelForCausalLM.from_pretrained(write(tmp_path, name), dtype=torch.float32)
    prompt = torch.tensor([[7, 3, 30, 11]])
    want = model.generate(prompt, max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert list(LAB.generate(decoder(name), prompt[0].tolist(), 64)) == want[0, 4:].tolist()


@few
@given(
    name=st.sampled_from(NAMES),
    chunks=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    seed=st.integers(0, 5),
)
def test_cached_equals_uncached_in_any_chunks(name, chunks, seed):
    tokens = np.random.RandomState(seed).randint(48, size=sum(chunks)).tolist()
    config, weights = Config(**tiny.shape_of(name)), tiny.weights(name, seed)
    assert close(logits(decoder(name, seed), tokens, chunks), oracle.logits(config, weights, tokens))


@few
@given(name=st.sampled_from(NAMES), count=st.integers(2, 9), data=st.data())
def test_a_later_token_changes_no_earlier_logit(name, count, data):
    at = data.draw(st.integers(1, count - 1))
    one = list(range(count))
    other = [*one[:at], *(47 - t for t in one[at:])]
    first, second = (logits(decoder(name), tokens, [count]) for tokens in (one, other))
    assert close(first[:at], second[:at])
    assert not close(first[at:], second[at:])


def test_bfloat16_runs_through_and_stays_near():
    model = decoder("qwen3")
    half = LAB.Decoder(model.config, {name: w.bfloat16() for name, w in model.weights.items()})
    tokens = list(range(8))
    got, want = logits_of(half, tokens), logits(model, tokens, [8])
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()


def logits_of(model, tokens):
    rows = model.forward(torch.tensor(tokens), torch.arange(len(tokens)), model.cache(len(tokens)))
    assert rows.dtype == torch.bfloat16
    return model.logits(rows).float().numpy()


# --- the parts --------------------------------------------------------------------------------------


@few
@given(shift=st.integers(0, 500), apart=st.integers(0, 50), theta=st.sampled_from([100.0, 1e4, 1e6]))
def test_a_score_depends_on_the_distance_alone(shift, apart, theta):
    q, k = torch.from_numpy(np.random.RandomState(apart).standard_normal((2, 1, 1, 16)).astype(np.float32))
    scores = [
        float((LAB.rope(q, torch.tensor([at + apart]), theta) * LAB.rope(k, torch.tensor([at]), theta)).sum())
        for at in (0, shift)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=2e-3)


def test_rope_keeps_lengths_and_position_0():
    x = torch.randn(3, 2, 8)
    assert torch.equal(LAB.rope(x[:1], torch.tensor([0]), 1e4), x[:1])
    assert torch.allclose(LAB.rope(x, torch.tensor([5, 70, 900]), 1e4).norm(dim=-1), x.norm(dim=-1))


def test_heads_of_a_group_share_the_kv_head_beside_them():
    q, k, v = torch.randn(2, 6, 4), torch.randn(2, 2, 4), torch.randn(2, 2, 4)
    together = LAB.attention(q, k, v, torch.arange(2))
    for head in range(6):
        alone = LAB.attention(q[:, head : head + 1], k[:, [head // 3]], v[:, [head // 3]], torch.arange(2))
        assert torch.allclose(together[:, head : head + 1], alone, atol=1e-6)


def test_rows_that_were_never_written_are_never_read():
    kv = LAB.KVCache(Config(**tiny.shape_of("llama")), 9)
    kv.keys.fill_(float("nan")), kv.values.fill_(float("nan"))
    for start, count in ((0, 3), (3, 1), (1, 2)):
        q, (k, v) = torch.randn(count, 6, 4), torch.randn(2, count, 2, 4)
        assert not kv.attend(1, q, k, v, torch.arange(start, start + count)).isnan().any()


# --- what to say ------------------------------------------------------------------------------------

LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=12)


@settings(max_examples=150)
@given(LOGITS, st.sampled_from([0.0, 0.3, 1.0, 1.7]), st.floats(0.01, 1.0))
def test_top_p_keeps_the_fewest_that_reach_it(numbers, temperature, top_p):
    got = LAB.distribution(torch.tensor(numbers), temperature, top_p).double().numpy()
    assert got.sum() == pytest.approx(1)
    probs = oracle.softmax(numbers, temperature) if temperature else oracle.distribution(numbers, 0.0, 1.0)
    kept = np.flatnonzero(got)
    assert probs[kept].min() >= np.delete(probs, kept).max(initial=0) - 1e-6
    assert probs[kept].sum() >= top_p - 1e-5
    assert probs[kept].sum() - probs[kept].min() < top_p + 1e-5


def test_draws_follow_the_distribution():
    logits, generator = torch.tensor([0.0, 1.0, 2.0]), torch.Generator().manual_seed(1)
    drawn = np.bincount([LAB.sample(logits, 1.0, 1.0, generator) for _ in range(4000)], minlength=3) / 4000
    assert np.abs(drawn - oracle.softmax([0.0, 1.0, 2.0], 1.0)).max() < 0.05
    assert {LAB.sample(logits, 1.0, 0.5, generator) for _ in range(100)} == {2}


@few
@given(stop=st.integers(0, 47), limit=st.integers(1, 12))
def test_an_answer_ends_at_a_stop_token_or_at_its_limit(stop, limit):
    def answer(*stops):
        said, going = [], LAB.generate(decoder("llama"), [7, 3], limit, stops)
        while True:
            try:
                said.append(next(going))
            except StopIteration as end:
                return said, end.value

    free, reason = answer()
    assert (len(free), reason) == (limit, "length")
    assert answer(stop) == ((free[: free.index(stop) + 1], "stop") if stop in free else (free, "length"))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c"])), max_size=12))
def test_a_request_draws_its_own_numbers_whoever_else_does(order):
    def drawn(script):
        made: dict = {}
        numbers: dict = {}
        for seed, name in script:
            generator = made.setdefault(seed, LAB.Seeds(seed)).generator(name)
            numbers.setdefault((seed, name), []).append(torch.rand((), generator=generator).item())
        return numbers

    among_others = drawn(order)
    for pair, numbers in among_others.items():
        assert drawn([pair] * len(numbers))[pair] == numbers
    firsts = [numbers[0] for numbers in among_others.values()]
    assert len(set(firsts)) == len(firsts)


WORDS = st.text("ab。", max_size=8)


@settings(max_examples=300)
@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(st.text("ab。", min_size=1, max_size=4), max_size=3))
def test_nothing_shown_is_ever_taken_back(pieces, stops):
    shown = ""
    for text in accumulate(pieces):
        now, over = LAB.visible(text, tuple(stops))
        assert (now, over) == oracle.visible(text, stops)
        assert now.startswith(shown)
        assert not any(stop in now for stop in stops)
        shown = now
        if over:
            break
