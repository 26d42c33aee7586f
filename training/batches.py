"""Rows of tokens: documents one after the other, each between ``<s>`` and ``</s>``."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.corpus import passages

START, END = 0, 1


class Rows:
    """Endless rows of ``length`` + 1 token ids, each of one language, drawn from ``documents`` by ``shares``.

    The rows depend on the seed and on nothing else.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        documents: dict[str, list[str]],
        shares: dict[str, float],
        length: int,
        seed: int,
    ) -> None:
        self.random = random.Random(seed)
        self.length = length + 1
        self.languages, self.weights = zip(*shares.items(), strict=True)
        self.streams = {lang: self.stream(tokenizer, documents[lang]) for lang in shares}

    def stream(self, tokenizer: Tokenizer, documents: list[str]) -> Iterator[int]:
        """Tokens of the documents in ever new orders; a chapter is cut anew each time."""
        shuffle = random.Random(self.random.random())
        while True:
            shuffle.shuffle(documents := list(documents))
            for document in documents:
                for piece in passages(document, iter(lambda: 1 + int(shuffle.expovariate(1 / 6)), 0)):
                    yield from (*tokenizer.encode(piece).ids, END)

    def row(self) -> list[int]:
        """The next row."""
        lang = self.random.choices(self.languages, self.weights)[0]
        return list(islice(self.streams[lang], self.length))

    def batch(self, rows: int) -> Tensor:
        """The next rows as ``[rows, length + 1]``."""
        return torch.tensor([self.row() for _ in range(rows)])


def padded(tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """Documents as rows of equal length, filled up with ``<s>``, which nothing counts."""
    rows = [[*encoding.ids, END] for encoding in tokenizer.encode_batch(texts)]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[START] * (longest - len(row))] for row in rows])
