"""Who wrote alike: what two students share and neither the starter nor the reference has.

Each answer becomes a sequence of tokens in which names, numbers, strings, comments and layout no longer
differ; every GRAM tokens in a row are a fingerprint. Fingerprints of the starter and the reference are
taken away, and those that many in the class have. Two students are named together if most of what one
of them has left is in the other's answer, and it is enough to say something. This is winnowing (Schleimer,
Wilkerson, Aiken, SIGMOD 2003) with a window of one: at the size of a hole nothing is saved by keeping less.

It is evidence to look at, never a verdict: friends who planned a solution together look like this, too,
and a short hole leaves little room to differ. Who copied from whom it cannot say, and more than COMMON
students with the same text look like a habit of the class.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from decodelab.course import Chapter
from decodelab.grading.splice import regions

GRAM = 8  # tokens in a fingerprint
HOLE = 40  # tokens; a shorter hole is ignored
SHARE = 0.7  # of the fingerprints of the one who has fewer
TOKENS = 50  # of their own that the two must share
COMMON = 10  # students, or one in twenty where that is more: what more than that have is a habit
MOST = 20_000  # tokens that are read of one student

Line = tuple[int, str]  # number and text
Gram = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two students, ``first`` < ``second``, whose answers deserve to be read side by side."""

    first: str
    second: str
    share: float  # 0 to 1: how much of what the one with less of their own wrote is in the other's answer
    tokens: int  # that both wrote and nobody gave them
    first_lines: tuple[Line, ...]
    second_lines: tuple[Line, ...]
    chapter: str = ""


def similar_in(chapter: Chapter, answers: Mapping[str, Mapping[str, str]]) -> list[Pair]:
    """``similar_pairs`` of a chapter; ``answers``: student -> grade id of an answer cell -> its source."""
    ids = [a.grade_id for a in chapter.answers]
    sources = {who: "\n\n".join(cells[i] for i in ids if i in cells) for who, cells in answers.items()}
    starter = [text for a in chapter.answers for text in a.stub.values()]
    return similar_pairs(sources, starter, "\n\n".join(a.reference for a in chapter.answers), chapter.id)


def similar_pairs(
    sources: Mapping[str, str], starter: str | Sequence[str], reference: str, chapter: str = ""
) -> list[Pair]:
    """The pairs of students to look at, the most alike first.

    sources: student -> what they handed in; starter: what they were given (one or several editions);
    reference: the published solution. A source that is no valid Python is compared as far as it goes.
    """
    given = [Writing(text) for text in ([starter] if isinstance(starter, str) else [*starter]) + [reference]]
    attributes = {token.text for writing in given for token in writing.tokens if token.attribute}
    known = {gram for writing in given for gram in writing.grams(attributes, 0)}
    own = {who: Own(Writing(text), attributes, known) for who, text in sorted(sources.items())}
    holders: dict[Gram, list[str]] = defaultdict(list)
    for who, writing in own.items():
        for gram in writing.grams:
            holders[gram].append(who)
    habit = max(COMMON, len(sources) // 20)
    common: dict[tuple[str, str], set[Gram]] = defaultdict(set)
    left: Counter[str] = Counter()
    for gram, whose in holders.items():
        if len(whose) <= habit:
            left.update(whose)
            for pair in combinations(whose, 2):
                common[pair].add(gram)
    pairs = []
    for (a, b), grams in common.items():
        share = len(grams) / min(left[a], left[b])
        tokens = min(own[a].tokens(grams), own[b].tokens(grams)) if share >= SHARE else 0
        if tokens >= TOKENS:
            pairs.append(Pair(a, b, share, tokens, own[a].lines(grams), own[b].lines(grams), chapter))
    return sorted(pairs, key=lambda p: (-p.share, -p.tokens, p.first, p.second))


@dataclass(frozen=True)
class Token:
    """A token, the line it stands on, and whether it is a name after a dot."""

    text: str
    line: int
    attribute: bool = False

    def normal(self, attributes: set[str]) -> str:
        """The same for every choice of names and values; the course's own attributes keep their names."""
        if (self.attribute and self.text in attributes) or keyword.iskeyword(self.text):
            return self.text
        return "name" if self.text.isidentifier() else self.text


class Writing:
    """A source as ``tokens``, and the ``holes`` that they fall into: indices of tokens."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokens_of(source)
        place = places(source)
        holes: dict[int, list[int]] = defaultdict(list)
        for index, token in enumerate(self.tokens):
            holes[place.get(token.line, 0)].append(index)
        self.holes = list(holes.values())

    def grams(self, attributes: set[str], shortest: int = HOLE) -> dict[Gram, list[list[int]]]:
        """Every fingerprint of the holes, and where it is: the indices of its tokens."""
        normal = [token.normal(attributes) for token in self.tokens]
        found: dict[Gram, list[list[int]]] = defaultdict(list)
        for hole in self.holes:
            if len(hole) >= shortest:
                for at in range(len(hole) - GRAM + 1):
                    indices = hole[at : at + GRAM]
                    found[tuple(normal[i] for i in indices)].append(indices)
        return found


class Own:
    """What is a student's own in a writing: ``grams`` that nobody gave them."""

    def __init__(self, writing: Writing, attributes: set[str], known: set[Gram]) -> None:
        grams = writing.grams(attributes)
        self.writing = writing
        self.grams = {gram: where for gram, where in grams.items() if gram not in known}
        self.given = covered(where for gram, where in grams.items() if gram in known)

    def tokens(self, grams: Iterable[Gram]) -> int:
        """How many tokens these fingerprints cover, without those that the course gave."""
        return len(covered(self.grams[gram] for gram in grams) - self.given)

    def lines(self, grams: Iterable[Gram]) -> tuple[Line, ...]:
        """The lines on which those tokens stand."""
        text = self.writing.source.split("\n")
        own = covered(self.grams[gram] for gram in grams) - self.given
        return tuple((n, text[n - 1]) for n in sorted({self.writing.tokens[i].line for i in own}))


def covered(places: Iterable[list[list[int]]]) -> set[int]:
    """All indices in there."""
    return {index for where in places for indices in where for index in indices}


def tokens_of(source: str) -> list[Token]:
    """The tokens of ``source`` without comments, layout and last commas, up to the first that is none."""
    found: list[Token] = []
    depth = 0  # of f-strings, which are tokens of their own from Python 3.12 on
    try:
        for token in islice(tokenize.generate_tokens(io.StringIO(source).readline), MOST):
            kind, last = tokenize.tok_name[token.type], found[-1].text if found else ""
            depth += {"FSTRING_START": 1, "FSTRING_END": -1}.get(kind, 0)
            text = {"NUMBER": "0", "STRING": "''", "FSTRING_END": "''"}.get(kind, token.string)
            side_by_side = text == last == "''"
            if depth or side_by_side or kind not in ("NAME", "OP", "NUMBER", "STRING", "FSTRING_END"):
                continue
            if last == "," and text in (")", "]", "}"):
                found.pop()
            found.append(Token(text, token.start[0], kind == "NAME" and last == "."))
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def places(source: str) -> dict[int, int]:
    """Line -> the hole it lies in: a TODO's region, else the outermost function around it."""
    found: dict[int, int] = {}
    for number, (first, last) in enumerate(functions(source), 1):
        found |= dict.fromkeys(range(first, last + 1), number)
    for region in regions(source):
        found |= dict.fromkeys(range(region.first, region.last + 2), -region.first)
    return found


def functions(source: str) -> list[tuple[int, int]]:
    """First and last line of each function that is in no other; nothing where ``source`` is no valid Python."""
    try:
        todo: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((node.lineno, node.end_lineno or node.lineno))
        else:
            todo += ast.iter_child_nodes(node)
    return found
