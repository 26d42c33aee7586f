"""What is right, in numpy and float64, written from the definitions: complex numbers, loops, and no cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from decodelab.models.config import Config

Weights: TypeAlias = "Mapping[str, np.ndarray]"
Numbers: TypeAlias = "Sequence[float] | np.ndarray"


def rope(x: np.ndarray, positions: Sequence[int], theta: float) -> np.ndarray:
    """``x`` (tokens, heads, head_dim): component i and i + head_dim/2 are one complex number, turned."""
    half = x.shape[-1] // 2
    turn = np.exp(1j * np.outer(positions, theta ** (-np.arange(half) / half)))[:, None]
    turned = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([turned.real, turned.imag], -1)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """Query row i sees keys 0 to ``positions[i]``; head h uses KV head ``h // group``. Shape of ``q``."""
    out, group = np.empty(q.shape), q.shape[1] // k.shape[1]
    for i, position in enumerate(positions):
        for h in range(q.shape[1]):
            keys, values = k[: position + 1, h // group], v[: position + 1, h // group]
            scores = keys @ q[i, h] / np.sqrt(q.shape[2])
            shares = np.exp(scores - scores.max())
            out[i, h] = shares @ values / shares.sum()
    return out


def norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """RMSNorm over the last axis."""
    return weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def logits(config: Config, weights: Weights, tokens: Sequence[int]) -> np.ndarray:
    """The logits after each of ``tokens``, (tokens, vocab): the whole sequence in one pass."""
    x = weights["model.embed_tokens.weight"][list(tokens)].astype(float)
    for i in range(config.layers):
        layer = {
            name: weights[f"model.layers.{i}.{name}.weight"].astype(float)
            for name, _ in config.layer_weights()
        }
        x = x + attended(config, layer, norm(x, layer["input_layernorm"], config.eps))
        y = norm(x, layer["post_attention_layernorm"], config.eps)
        gate = y @ layer["mlp.gate_proj"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ layer["mlp.up_proj"].T)) @ layer["mlp.down_proj"].T
    x = norm(x, weights["model.norm.weight"], config.eps)
    return x @ weights.get("lm_head.weight", weights["model.embed_tokens.weight"]).astype(float).T


def attended(config: Config, layer: Weights, x: np.ndarray) -> np.ndarray:
    """The attention block of one layer, from its normalised input."""
    positions = range(len(x))
    q, k, v = ((x @ layer[f"self_attn.{n}_proj"].T).reshape(len(x), -1, config.head_dim) for n in "qkv")
    if config.qk_norm:
        q, k = norm(q, layer["self_attn.q_norm"], config.eps), norm(k, layer["self_attn.k_norm"], config.eps)
    q, k = rope(q, positions, config.rope_theta), rope(k, positions, config.rope_theta)
    return attention(q, k, v, positions).reshape(len(x), -1) @ layer["self_attn.o_proj"].T


def greedy(config: Config, weights: Weights, prompt: Sequence[int], count: int) -> tuple[list[int], float]:
    """The ``count`` tokens that the model would say, and the smallest lead of a best logit over the second."""
    tokens, lead = list(prompt), np.inf
    for _ in range(count):
        last = logits(config, weights, tokens)[-1]
        second, first = np.sort(last)[-2:]
        tokens, lead = [*tokens, int(last.argmax())], min(lead, first - second)
    return tokens[len(prompt) :], lead


def softmax(logits: Numbers, temperature: float) -> np.ndarray:
    """Probabilities at a temperature above 0."""
    scaled = np.asarray(logits, float) / temperature
    shares = np.exp(scaled - scaled.max())
    return shares / shares.sum()


def nucleus(probs: np.ndarray, top_p: float) -> list[int]:
    """The most probable tokens, of equal ones the smaller id first, as few as reach ``top_p`` together."""
    kept: list[int] = []
    for token in sorted(range(len(probs)), key=lambda t: (-probs[t], t)):
        if kept and sum(probs[t] for t in kept) >= top_p:
            break
        kept.append(token)
    return kept


def only(probs: np.ndarray, kept: Sequence[int]) -> np.ndarray:
    """``probs`` without all that is not ``kept``, adding up to 1 again."""
    left = np.zeros(len(probs))
    left[list(kept)] = probs[list(kept)]
    return left / left.sum()


def distribution(logits: Numbers, temperature: float, top_p: float) -> np.ndarray:
    """What the next token is drawn from; at temperature 0 the first of the largest logits alone."""
    if temperature == 0:
        return np.eye(len(logits))[int(np.argmax(logits))]
    probs = softmax(logits, temperature)
    return only(probs, nucleus(probs, top_p))


def visible(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """What of ``text`` may be shown, and whether it is over: by trying every place where a stop could begin."""
    for i in range(len(text)):
        if any(text.startswith(stop, i) for stop in stops):
            return text[:i], True
    begun = (i for i in range(len(text)) if any(stop.startswith(text[i:]) for stop in stops))
    return text[: next(begun, len(text))], False
