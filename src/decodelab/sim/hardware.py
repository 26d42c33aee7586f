"""Hardware and models in numbers: what a roofline needs to know of each.

GPUs: the maker's peak rates, so no real step is faster. Where a datasheet gives a rate "with sparsity" alone,
half of it stands here. A GB of memory is taken as 10^9 bytes, a little less than most of these have.
Models: the shape that the published config.json gives.
All looked up on 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPU:
    """What computes. One that was measured, say this machine, is made the same way, its source saying how."""

    name: str
    flops: float  # FLOP/s, dense, 16-bit inputs, 32-bit sums
    bandwidth: float  # bytes/s, of its own memory
    memory: float  # bytes
    source: str


@dataclass(frozen=True)
class ModelShape:
    """A decoder of the Llama family, as its matrices are.

    Each layer has q, k, v and output projections and a gated MLP of three matrices; no biases.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool  # whether the embedding is the output matrix, too
    qk_norm: bool = False  # whether each head's q and k pass a norm of their own
    bytes_per_param: float = 2
    bytes_per_kv: float = 2  # of one number in the KV cache

    @property
    def params(self) -> int:
        """Weights, norms included."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        layer = attention + 3 * self.hidden * self.intermediate + norms
        return self.layers * layer + self.hidden + (1 if self.tied else 2) * self.vocab * self.hidden

    @property
    def weight_bytes(self) -> float:
        """What all weights take in memory, and what a step reads of it at the most."""
        return self.params * self.bytes_per_param

    @property
    def kv_bytes_per_token(self) -> float:
        """What one token's keys and values take in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.bytes_per_kv


GPUS = {
    gpu.name: gpu
    for gpu in (
        GPU(
            "T4",
            65e12,
            320e9,
            16e9,
            "NVIDIA T4 datasheet: FP16 65 TFLOPS; 256 bits of GDDR6 at 10 Gbit/s, which it rounds to 300 GB/s",
        ),
        GPU("L4", 121e12, 300e9, 24e9, "NVIDIA L4 datasheet: FP16 and BF16 242 TFLOPS with sparsity, halved"),
        GPU(
            "RTX 4090",
            165.2e12,
            1008e9,
            24e9,
            "NVIDIA Ada GPU Architecture whitepaper v2.02, appendix A: FP16 with FP32 accumulate 165.2 TFLOPS dense",
        ),
        GPU("A100 80GB SXM", 312e12, 2039e9, 80e9, "NVIDIA A100 datasheet: BF16 312 TFLOPS dense"),
        GPU(
            "H100 SXM",
            989.5e12,
            3.35e12,
            80e9,
            "NVIDIA H100 datasheet: BF16 1,979 TFLOPS with sparsity, halved",
        ),
        GPU(
            "H200 SXM",
            989.5e12,
            4.8e12,
            141e9,
            "NVIDIA H200 datasheet: BF16 1,979 TFLOPS with sparsity, halved",
        ),
    )
}

MODELS = {
    shape.name: shape
    for shape in (
        ModelShape("SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49_152, tied=True),
        ModelShape("Qwen3-0.6B", 28, 1024, 16, 8, 128, 3072, 151_936, tied=True, qk_norm=True),
        ModelShape("Llama-2-7B", 32, 4096, 32, 32, 128, 11_008, 32_000, tied=False),
        ModelShape("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14_336, 128_256, tied=False),
    )
}
