"""The Llama-style decoder in torch, as training needs it: whole sequences, no cache.

Names of the weights and the rotation of halves are those of Hugging Face's Llama, so that what is trained
here loads there as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes, by the names that Hugging Face's ``config.json`` has for them."""

    vocab_size: int = 4608
    hidden_size: int = 192
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 32
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0


class Attention(nn.Module):
    """Causal attention with fewer key-value heads than heads, on rotated q and k."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.shape = s
        wide, narrow = s.num_attention_heads * s.head_dim, s.num_key_value_heads * s.head_dim
        self.q_proj = nn.Linear(s.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(s.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(s.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, s.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            projection(x).view(batch, length, -1, self.shape.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = attend(q.unflatten(1, (self.shape.num_key_value_heads, -1)), k, v, mask)
        return self.o_proj(mixed.flatten(1, 2).transpose(1, 2).flatten(2))


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of ``q [batch, kv head, group, length, dim]`` to ``k`` and ``v [batch, kv head, length, dim]``.

    ``mask [batch, 1, 1, length, length]`` is true where a position (fourth) sees another (fifth).

    Written out: on a CPU and for short sequences the backward pass of torch's own is several times slower.
    """
    grouped = q.shape
    scores = (q.flatten(2, 3) @ k.mT).view(*grouped[:-1], -1) * grouped[-1] ** -0.5
    weights = scores.float().masked_fill(~mask, -torch.inf).softmax(-1).to(v.dtype)
    return (weights.flatten(2, 3) @ v).view(grouped)


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(s.hidden_size, s.intermediate_size, bias=False)
        self.up_proj = nn.Linear(s.hidden_size, s.intermediate_size, bias=False)
        self.down_proj = nn.Linear(s.intermediate_size, s.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and MLP, each on a normed copy and added to what came in."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(s.hidden_size, s.rms_norm_eps)
        self.self_attn = Attention(s)
        self.post_attention_layernorm = nn.RMSNorm(s.hidden_size, s.rms_norm_eps)
        self.mlp = MLP(s)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Token ids ``[batch, length]`` to logits ``[batch, length, vocab]``; input and output embeddings are one."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        for name, matrix in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(matrix)

    def forward(self, ids: Tensor) -> Tensor:
        mask = visible(ids)
        cos, sin = rotation(self.shape, ids.shape[1])
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def visible(ids: Tensor) -> Tensor:
    """What each position sees: the positions of its own document up to itself. A document begins with token 0."""
    document = (ids == 0).cumsum(1)
    same = document[:, :, None] == document[:, None, :]
    return same.tril()[:, None, None]


def rotation(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angles, each ``[length, head_dim]``."""
    frequencies = shape.rope_theta ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
    angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of numbers, half a head apart, by its angle: RoPE."""
    left, right = x.chunk(2, -1)
    return (x * cos + torch.cat((-right, left), -1) * sin).to(x.dtype)
