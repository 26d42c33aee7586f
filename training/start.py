"""Where the embedding starts: at the neighbourhoods of the tokens, which counting finds in seconds.

O. Levy and Y. Goldberg, Neural Word Embedding as Implicit Matrix Factorization, NeurIPS 2014: the leading
directions of the positive pointwise mutual information of tokens that stand near each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEAR = 3  # tokens


def embedding(ids: Tensor, vocabulary: int, size: int, spread: float = 0.02) -> Tensor:
    """An embedding ``[vocabulary, size]`` from one long row of ids; its numbers have the deviation ``spread``."""
    together = torch.zeros(vocabulary, vocabulary)
    for distance in range(1, NEAR + 1):
        pairs = ids[:-distance] * vocabulary + ids[distance:]
        counts = torch.bincount(pairs, minlength=vocabulary**2).view(vocabulary, vocabulary)
        together += counts + counts.T
    frequency = together.sum(1, keepdim=True).clamp(min=1)
    information = (together * frequency.sum() / frequency / frequency.T).log().clamp(min=0)
    torch.manual_seed(0)
    u, s, _ = torch.svd_lowrank(information, q=size, niter=4)
    found = u * s.sqrt()
    never = together.sum(1) == 0
    found[never] = torch.randn(int(never.sum()), size) * found[~never].std()
    return found * spread / found.std()
