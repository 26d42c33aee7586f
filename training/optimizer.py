"""Muon for the matrices inside, Adam for the embedding and the norms.

Muon (K. Jordan et al., 2024): momentum whose every update is made nearly orthogonal by five Newton-Schulz
steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Over matrices only. An update has singular values near ``lr``, more where a matrix has more rows than columns."""

    def __init__(
        self, matrices: Iterable[Tensor], lr: float, momentum: float = 0.95, decay: float = 0.0
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for matrix in group["params"]:
                mean = self.state[matrix].setdefault("mean", torch.zeros_like(matrix))
                mean.lerp_(matrix.grad, 1 - group["momentum"])
                update = orthogonal(matrix.grad.lerp(mean, group["momentum"]))
                matrix.mul_(1 - group["lr"] * group["decay"])
                matrix.add_(update, alpha=-group["lr"] * max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with its singular values pushed to about 1."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return (x.T if tall else x).to(matrix.dtype)


def optimizers(model: nn.Module, rate: float, matrix_rate: float) -> list[torch.optim.Optimizer]:
    """Both optimizers over ``model``; a matrix is what has two dimensions and is no embedding."""
    inner = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    outer = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        Muon(inner, lr=matrix_rate, decay=0.01),
        torch.optim.Adam(outer, lr=rate, betas=(0.9, 0.98), fused=True),
    ]
