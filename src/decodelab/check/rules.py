"""What a check can find: the first broken rule, as data that both languages and every front can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from decodelab.lang import Text

if TYPE_CHECKING:  # the remote end of a check lives one floor up
    import numpy as np

    from decodelab.grading.student import Student

MAX_WORDS, MAX_EVENTS, MAX_ITEMS = 3000, 400, 30  # of a finding, kept with the grade

Case: TypeAlias = "dict[str, Any]"  # a workload as plain data; "name" names it
Check: TypeAlias = "Callable[[Student, Case], Finding | None]"


class StudentError(Exception):
    """Student code raised: ``kind`` (class name) and its base classes, ``message``, ``todo`` it names, ``traceback``."""

    def __init__(
        self,
        kind: str,
        message: str = "",
        todo: str | None = None,
        traceback: str = "",
        bases: Iterable[str] = (),
    ) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.todo, self.traceback = kind, message, todo, traceback
        self.kinds = {kind, *bases}

    def is_a(self, kind: str) -> bool:
        """Whether ``except`` with the class of this name would have caught it."""
        return kind in self.kinds


@dataclass(repr=False)
class Record:
    """A student's object as data: the name of its class and its attributes."""

    type: str
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.type}({', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None


class Array:
    """A student's tensor as data: its numbers, equal to an array of the same type and the same numbers."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and repr(self) == repr(other) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> bytes:
        return self.numbers.tobytes()

    def __repr__(self) -> str:
        return f"tensor({self.numbers.dtype}, {self.numbers.shape})"


class Opaque:
    """A student's value that has no plain form: its repr, equal to nothing but the same of its kind."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


@dataclass
class Finding:
    """The first rule that an answer broke on a case, and the evidence."""

    rule: str  # a name that stays the same: "prefill-first"
    text: Text  # one or two sentences: what is required, what happened
    want: Sequence[Any] = ()  # the sequence the spec asks for
    got: Sequence[Any] = ()  # the sequence that came
    at: int | None = None  # index of the first event where they part; None: no sequence involved
    first: int = 0  # index of the first event that want and got hold: a hidden run is shown in part
    state: Sequence[dict[str, Any]] = ()  # the queue at that moment, by the spec's own book-keeping
    label: Text | None = None  # what ``state`` is, where it is something else
    call: str = ""  # the call of the case that went wrong, as ``shown`` writes it
    hint: int = 1  # which of the first two hints fits; 0: none does
    case: Case = field(default_factory=dict)  # filled in by the judge
    traceback: str = ""  # the learner's own lines, where an exception was the reason
    error: str = ""  # the class of that exception
    printed: str = ""  # the end of what the answer printed


def clipped(finding: Finding) -> Finding:
    """``finding`` without what would only fill a page: the events near ``at``, the beginnings of long values."""
    start = max(0, (finding.at or 0) - finding.first - MAX_EVENTS // 2)
    near = slice(start, start + MAX_EVENTS)
    return replace(
        finding,
        text={lang: words[:MAX_WORDS] for lang, words in finding.text.items()},
        want=[brief(event) for event in finding.want[near]],
        got=[brief(event) for event in finding.got[near]],
        first=finding.first + start,
        state=[brief(record) for record in finding.state[:MAX_ITEMS]],
        error=finding.error[:100],
    )


def brief(value: Any) -> Any:
    """``value`` with long texts, lists and dicts cut off."""
    if isinstance(value, str):
        return value[:200]
    if isinstance(value, (list, tuple)):
        return [brief(item) for item in value[:MAX_ITEMS]]
    if isinstance(value, dict):
        return {str(key)[:200]: brief(value[key]) for key in list(value)[:MAX_ITEMS]}
    return Opaque(f"{value.type}(…)") if isinstance(value, Record) else value


@dataclass
class TodoResult:
    """What was decided about one TODO, and why.

    ``state``: passed, failed (``finding`` names the rule), not_started, timed_out, out_of_memory, died,
    blocked (by another TODO), not_found, unreadable, ungraded (its check broke down). Only ``passed`` earns points.
    """

    todo: str
    state: str
    max_points: float
    finding: Finding | None = None
    cases: int = 0  # how many were run
    notes: list[Text] = field(default_factory=list)

    @property
    def points(self) -> float:
        """All of them or none."""
        return self.max_points if self.state == "passed" else 0.0

    @property
    def rule(self) -> str:
        """The name of the broken rule, "" where none was."""
        return self.finding.rule if self.finding and self.state != "not_started" else ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TodoResult:
        """A result from ``dataclasses.asdict`` of one."""
        finding = data["finding"]
        return cls(**{**data, "finding": Finding(**finding) if finding else None})
