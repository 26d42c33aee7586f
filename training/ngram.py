"""The yardstick: a character n-gram model with interpolated Kneser-Ney smoothing, on the same split.

Source of the formulas: S. F. Chen and J. Goodman, An Empirical Study of Smoothing Techniques for Language
Modeling, TR-10-98, Harvard 1998, section 2.7; one discount an order, ``n1 / (n1 + 2 n2)``.

    python -m training.ngram DATA       held-out bits a character of the trigram and the 5-gram, by language
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.corpus import corpus

Keys = NDArray[np.int64]  # n-grams, a character in BITS bits each, the last one lowest
BITS = 12
START, END = 0, 1


class KneserNey:
    """An n-gram model of ``order`` characters over ``texts``; each text has a start and an end."""

    def __init__(self, texts: list[str], order: int) -> None:
        letters = sorted(set("".join(texts)))
        assert len(letters) + 2 <= 2**BITS
        self.codes = {letter: i for i, letter in enumerate(letters, start=2)}
        self.tables: list[Table] = []
        grams = self.grams(texts, order)
        for n in range(order, 0, -1):
            keys, counts = np.unique(suffix(grams, n), return_counts=True)
            if n < order:
                longer = suffix(self.tables[-1].keys, n)
                begins = (keys >> BITS * (n - 1)) == START
                counts = np.where(begins & (n > 1), counts, np.unique(longer, return_counts=True)[1])
            self.tables.append(Table(keys, counts))

    def grams(self, texts: list[str], order: int) -> Keys:
        """Every character of every text and its end, each with the ``order - 1`` characters before it."""
        codes = [
            code
            for text in texts
            for code in (*[START] * (order - 1), *map(self.codes.__getitem__, text), END)
        ]
        row = np.array(codes, dtype=np.int64)
        keys = np.zeros(len(row) - order + 1, dtype=np.int64)
        for i in range(order):
            keys = keys << BITS | row[i : len(row) - order + 1 + i]
        return keys[row[order - 1 :] != START]

    def bits_per_character(self, texts: list[str]) -> float:
        """Bits that the model needs for ``texts``, ends included, by their characters."""
        chances = self.chances(self.grams(texts, len(self.tables)))
        return float(-np.log2(chances).sum() / sum(map(len, texts)))

    def chances(self, grams: Keys) -> NDArray[np.float64]:
        """The chance of each n-gram's last character after the others."""
        chances = np.full(len(grams), 1 / (len(self.codes) + 1))
        for n, table in enumerate(reversed(self.tables), start=1):
            chances = table.interpolated(suffix(grams, n), chances)
        return chances


class Table:
    """The counts of one order."""

    def __init__(self, keys: Keys, counts: Keys) -> None:
        self.keys, self.counts = keys, counts
        once, twice = (counts == 1).sum(), (counts == 2).sum()
        self.discount = once / (once + 2 * twice) if once else 0.5
        self.contexts, first = np.unique(keys >> BITS, return_index=True)
        self.totals = np.add.reduceat(counts, first)
        self.kinds = np.diff(np.append(first, len(keys)))

    def interpolated(self, grams: Keys, lower: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each n-gram's chance, given the chance that the next lower order gives it."""
        counts = look_up(self.keys, self.counts, grams)
        totals = look_up(self.contexts, self.totals, grams >> BITS)
        kinds = look_up(self.contexts, self.kinds, grams >> BITS)
        known = np.maximum(totals, 1)
        chance = np.maximum(counts - self.discount, 0) / known + self.discount * kinds / known * lower
        return np.where(totals > 0, chance, lower)


def suffix(keys: Keys, n: int) -> Keys:
    """The last ``n`` characters of each."""
    return keys & ((1 << BITS * n) - 1)


def look_up(keys: Keys, values: Keys, wanted: Keys) -> Keys:
    """The values of the wanted keys, 0 where there is none. ``keys`` ascend."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    texts = corpus(parser.parse_args().data)
    for lang, training in texts.train.items():
        for order in (3, 5):
            model = KneserNey(training, order)
            bits = model.bits_per_character(texts.held_out[lang])
            print(
                json.dumps({"language": lang, "order": order, "bits_per_character": round(bits, 4)}),
                flush=True,
            )


if __name__ == "__main__":
    main()
