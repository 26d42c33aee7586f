"""Careless and hostile submissions of chapter 1, as data: what each tries, and what it must come to.

Every attack that a sandbox must stop is followed by the right answer: full points say that it came to nothing,
and a ``BROKE OUT`` in the result that it did not. Every forgery goes with a wrong answer, which must not pass.
"""

from corpus import bombs, damaged, ends, forged, loops, peeking, writing
from corpus.case import Case

CASES: list[Case] = [
    *ends.CASES,
    *loops.CASES,
    *bombs.CASES,
    *forged.CASES,
    *peeking.CASES,
    *writing.CASES,
    *damaged.CASES,
]
