"""Chapter 8's decoder on the kernels of oneDNN: what a processor gives beyond plain matrix products.

Lab equipment, no answer to anything: matrices are laid out once as the kernels read them, q, k and v are one product,
and an activation, a gate or a residual is added while the product's numbers are still in registers. The rotary
embedding is the caller's own; pairs of components lie side by side here, so that turning all of them by their
position is one product of complex numbers. A dot product of q and k does not mind in which order its terms come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.models.config import Config
from decodelab.models.tokenizer import library

if TYPE_CHECKING:
    from torch import Tensor

Rope: TypeAlias = "Callable[[Tensor, Tensor, float], Tensor]"


@dataclass(frozen=True)
class Layer:
    """The weights of one layer; matrices may be in a layout that only oneDNN reads."""

    before: Tensor  # of the norm before attention (hidden,)
    qkv: Tensor
    qk_norm: Tensor | None  # (heads + kv_heads, head_dim)
    o: Tensor
    after: Tensor  # of the norm before the MLP (hidden,)
    gate: Tensor
    up: Tensor
    down: Tensor


class PackedDecoder:
    """Takes the place of chapter 8's ``Decoder``: the same config, embedding, forward and logits.

    weights: by the names of ``config.weights()``, on the CPU. rope: (x, positions, theta), as chapter 8 has it.
    reorder: lay the matrices out anew, a second copy of them; without it oneDNN reads them as they are.
    DecodeLabError where torch has no oneDNN for these weights.
    """

    def __init__(
        self, config: Config, weights: dict[str, Tensor], rope: Rope, *, reorder: bool = True
    ) -> None:
        torch = library("torch")
        self.config, self.rope, self.embedding = config, rope, weights["model.embed_tokens.weight"]
        if not has_kernels(torch, self.embedding):
            raise DecodeLabError(no_kernels(self.embedding))
        self.torch, self.product = torch, torch.ops.mkldnn._linear_pointwise
        self.laid_out = torch.ops.mkldnn._reorder_linear_weight if reorder else lambda matrix: matrix
        with torch.inference_mode():
            self.layers = [self.layer(weights, f"model.layers.{i}.") for i in range(config.layers)]
            self.head = self.laid_out(weights.get("lm_head.weight", self.embedding))
        self.norm = weights["model.norm.weight"]

    def layer(self, weights: dict[str, Tensor], prefix: str) -> Layer:
        """One layer's weights, laid out."""
        torch, c = self.torch, self.config
        w = {name: weights[f"{prefix}{name}.weight"] for name, _ in c.layer_weights()}
        pairs = torch.arange(c.head_dim).view(2, -1).t().flatten()  # 0, half, 1, half + 1, …

        def paired(name: str) -> Tensor:
            return w[f"self_attn.{name}"].unflatten(0, (-1, c.head_dim))[:, pairs]

        qkv = torch.cat(
            [paired("q_proj").flatten(0, 1), paired("k_proj").flatten(0, 1), w["self_attn.v_proj"]]
        )
        qk_norm = None
        if c.qk_norm:
            qk_norm = torch.cat(
                [paired("q_norm").expand(c.heads, -1), paired("k_norm").expand(c.kv_heads, -1)]
            )
        o, *mlp = (w["self_attn.o_proj"], *(w[f"mlp.{name}_proj"] for name in ("gate", "up", "down")))
        gate, up, down = map(self.laid_out, mlp)
        return Layer(
            w["input_layernorm"],
            self.laid_out(qkv),
            qk_norm,
            self.laid_out(o),
            w["post_attention_layernorm"],
            gate,
            up,
            down,
        )

    def forward(self, tokens: Tensor, positions: Tensor, kv: Any) -> Tensor:
        """tokens (n,) at positions (n,), attending through ``kv``; returns the last hidden rows (n, hidden)."""
        fused, x, turns = self.product.binary, self.embedding[tokens], self.turns(positions)
        for i, w in enumerate(self.layers):
            mixed = kv.attend(i, *self.heads(w, self.normed(x, w.before), turns), positions)
            x = fused(mixed.flatten(-2), x, w.o, None, "add")
            y = self.normed(x, w.after)
            gated = fused(y, self.product(y, w.gate, None, "swish", [], ""), w.up, None, "mul")
            x = fused(gated, x, w.down, None, "add")
        return self.normed(x, self.norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, hidden) to (…, vocab)."""
        return self.product(hidden, self.head, None, "none", [], "")

    def turns(self, positions: Tensor) -> Tensor:
        """What each pair is multiplied with at each position (n, 1, half), complex: what ``rope`` makes of (1, 0)."""
        half = self.config.head_dim // 2
        ones = self.torch.arange(2 * half).lt(half).float().expand(len(positions), 1, -1)
        return self.torch.complex(*self.rope(ones, positions, self.config.rope_theta).split(half, -1))

    def heads(self, w: Layer, x: Tensor, turns: Tensor) -> list[Tensor]:
        """q, k and v (n, heads or kv_heads, head_dim) of one layer; q and k turned."""
        torch, c = self.torch, self.config
        qkv = self.product(x, w.qkv, None, "none", [], "").unflatten(-1, (-1, c.head_dim))
        qk, v = qkv.split([c.heads + c.kv_heads, c.kv_heads], -2)
        if w.qk_norm is not None:
            qk = self.normed(qk, None) * w.qk_norm
        turned = torch.view_as_complex(qk.float().unflatten(-1, (-1, 2))) * turns
        q, k = torch.view_as_real(turned).flatten(-2).to(x.dtype).split([c.heads, c.kv_heads], -2)
        return [q, k, v]

    def normed(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Each row (last axis) divided by its root mean square, times ``weight``."""
        return self.torch.rms_norm(x, x.shape[-1:], weight, self.config.eps)


def has_kernels(torch: Any, weight: Tensor) -> bool:
    """Whether oneDNN multiplies with weights of this type on this processor, from this build of torch."""
    ops = torch.ops.mkldnn
    known = hasattr(ops, "_linear_pointwise") and hasattr(ops, "_reorder_linear_weight")
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available() or not known:
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and ops._is_mkldnn_bf16_supported()
    )


def no_kernels(weight: Tensor) -> dict[str, str]:
    """What to say where these kernels are not to be had."""
    kind = f"{weight.dtype} ({weight.device.type})".removeprefix("torch.")
    return both(
        en=f"This torch has no oneDNN kernels for {kind} on this processor: use chapter 8's Decoder, which needs none.",
        zh=f"这个 torch 在这个处理器上没有适用于 {kind} 的 oneDNN kernel：请用第 8 章的 Decoder，它不需要这些。",
    )
