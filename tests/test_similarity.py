"""Who wrote alike: copies in any dress are named, what the course gave and what everybody writes is not."""

from __future__ import annotations

import io
import random
import re
import textwrap
import time
import tokenize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decodelab.course import load
from decodelab.grading import similarity, splice
from decodelab.grading.similarity import similar_in

few = settings(max_examples=25, deadline=None)
CHAPTER = load("ch01")
REFERENCE = {a.grade_id: a.reference for a in CHAPTER.answers}
STUB = {a.grade_id: a.stub["zh"] for a in CHAPTER.answers}

# Independent answers to each TODO, in the styles that learners have.
STYLES = {
    "ch01.1": [
        """\
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
for r in self.queue:
    if r.request_id == request_id:
        raise ValueError("duplicate id")
self.queue.append(RequestState(request_id=request_id, prompt_len=prompt_len, priority=priority,
                               cache_hit=cache_hit, max_new_tokens=max_new_tokens))
""",
        """\
if request_id in [other.request_id for other in self.queue]:
    raise ValueError(f"{request_id} is taken")
for name, length in (("prompt_len", prompt_len), ("max_new_tokens", max_new_tokens)):
    if length is not None or name == "prompt_len":
        require_length(name, length)
new = RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens)
self.queue.append(new)
""",
        """\
exists = False
for q in self.queue:
    if q.request_id == request_id:
        exists = True
        break
if exists:
    raise ValueError("exists")
lengths = {"prompt_len": prompt_len}
if not (max_new_tokens is None):
    lengths["max_new_tokens"] = max_new_tokens
for key in lengths:
    require_length(key, lengths[key])
state = RequestState(request_id, prompt_len)
state.priority, state.cache_hit, state.max_new_tokens = priority, cache_hit, max_new_tokens
self.queue = self.queue + [state]
""",
    ],
    "ch01.2": [
        """\
phase_rank = 0 if req.phase == "prefill" else 1
cache_rank = 0 if req.cache_hit else 1
return (phase_rank, cache_rank, -req.priority, req.total_len, req.request_id)
""",
        """\
if req.phase == "prefill":
    phase = 0
else:
    phase = 1
hit = {True: 0, False: 1}[req.cache_hit]
return phase, hit, -1 * req.priority, req.total_len, req.request_id
""",
        """\
return (int(req.phase == "decode"), int(not req.cache_hit), -req.priority, req.total_len, req.request_id)
""",
    ],
    "ch01.3": [
        """\
active = [r for r in self.queue if not r.done]
if len(active) == 0:
    return None
active.sort(key=self._schedule_key)
req = active[0]
""",
        """\
req = None
for r in self.queue:
    if r.done:
        continue
    if req is None or self._schedule_key(r) < self._schedule_key(req):
        req = r
if req is None:
    return None
""",
        """\
best = min(((self._schedule_key(r), r) for r in self.queue if r.done is False), default=None)
if best is None:
    return
_, req = best
""",
    ],
    "ch01.4": [
        """\
if max_steps < 0:
    raise ValueError("max_steps")
count = 0
while count < max_steps:
    event = self.step()
    if event is None:
        break
    count += 1
return self.timeline
""",
        """\
if not max_steps >= 0:
    raise ValueError("negative")
while max_steps > 0 and self.step() is not None:
    max_steps -= 1
return self.timeline
""",
        """\
if max_steps < 0:
    raise ValueError("negative")
for i in range(max_steps):
    if any(not r.done for r in self.queue):
        self.step()
return self.timeline
""",
    ],
}


def answers(*styles: int) -> dict[str, str]:
    """A student's cells with these styles in TODO 1, 2, …; -1 is the reference."""
    cells = dict(REFERENCE)
    for (todo_id, codes), style in zip(STYLES.items(), styles, strict=True):
        if style >= 0:
            cells["ch01-answer"] = replaced(cells["ch01-answer"], todo_id, codes[style])
    return cells


def replaced(source: str, todo_id: str, code: str) -> str:
    result = splice.replace_region(source, todo_id, code)
    assert result is not None
    return result


def renamed(source: str, names: dict[str, str]) -> str:
    """``source`` with these local names changed (no attribute, no keyword argument), and new comments."""
    tokens, last = [], ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and last != ".":
            tokens.append((token.type, names.get(token.string, token.string)))
        elif token.type != tokenize.COMMENT or token.string.startswith(("# TODO", "# END")):
            tokens.append((token.type, token.string))
        last = token.string
    return tokenize.untokenize(tokens)


ORIGINAL = answers(2, 1, 1, 0)
LOCALS = ["exists", "q", "lengths", "key", "state", "phase", "hit", "r", "req", "count", "event"]
COPY = {k: renamed(v, {n: f"my_{n}" for n in LOCALS}) for k, v in ORIGINAL.items()}


def names(pairs: list[similarity.Pair]) -> list[tuple[str, str]]:
    return [(p.first, p.second) for p in pairs]


def test_a_copy_with_other_names_and_comments_is_found_among_independent_answers():
    others = {f"s{i}": answers(i, i, i, i) for i in range(3)} | {"mixed": answers(0, 1, 2, 1)}
    (pair,) = similar_in(CHAPTER, others | {"owner": ORIGINAL, "copy": COPY, "one": REFERENCE})[:1]
    assert (pair.first, pair.second, pair.chapter) == ("copy", "owner", "ch01")
    assert pair.share > 0.9
    assert any("my_exists" in text for _, text in pair.first_lines)
    assert all(text == ORIGINAL["ch01-answer"].split("\n")[n - 1] for n, text in pair.second_lines)
    assert not any("self.timeline.append" in text for _, text in pair.second_lines), "the course wrote that"


def test_independent_answers_are_not_named():
    assert similar_in(CHAPTER, {f"s{i}": answers(i, i, i, i) for i in range(3)}) == []


def test_one_hole_written_alike_is_not_enough():
    for todo in range(1, 4):
        styles = [[-1] * 4, [-1] * 4]
        for style in range(3):
            styles[0][todo] = styles[1][todo] = style
            a, b = (answers(*s) for s in styles)
            assert similar_in(CHAPTER, {"a": a, "b": b}) == []


def test_short_holes_are_ignored_even_several_of_them():
    both_wrote = answers(-1, 2, 2, 1)
    assert similar_in(CHAPTER, {"a": both_wrote, "b": both_wrote}) == []


def test_a_long_hole_written_alike_is_named_unless_more_is_written_otherwise():
    alike = {"a": answers(2, -1, -1, -1), "b": answers(2, -1, -1, -1)}
    assert names(similar_in(CHAPTER, alike)) == [("a", "b")]
    for cells, style in zip(alike.values(), (0, 1), strict=True):
        own = "".join(STYLES[todo_id][style] for todo_id in ("ch01.2", "ch01.3", "ch01.4"))
        cells["ch01-answer-2"] = "def helper(self, req, max_steps):\n" + textwrap.indent(own, "    ")
    assert similar_in(CHAPTER, alike) == []


def test_what_the_course_gave_around_a_line_does_not_count():
    source = REFERENCE["ch01-answer"]
    for todo in CHAPTER.todos[:4]:
        source = replaced(source, todo.id, re.sub(r"^(?=\w)", "x = 0\n", todo.code, flags=re.M))
    assert source.count("x = 0") > 8
    cells = {"ch01-answer": source}
    assert similar_in(CHAPTER, {"a": cells, "b": cells}) == []


@few
@given(st.lists(st.lists(st.integers(-2, -1), min_size=4, max_size=4), min_size=2, max_size=4), st.booleans())
def test_starter_and_reference_in_any_mixture_say_nothing(choices, without_marks):
    students = {}
    for number, choice in enumerate(choices):
        source = REFERENCE["ch01-answer"]
        for todo, kept in zip(STYLES, choice, strict=True):
            if kept == -2:
                source = replaced(source, todo, f'raise TodoError("{todo}")')
        if without_marks:
            source = "\n".join(line for line in source.split("\n") if not line.lstrip().startswith("#"))
        students[f"s{number}"] = {"ch01-answer": source, "ch01-answer-2": STUB["ch01-answer-2"]}
    assert similar_in(CHAPTER, students) == []


identifiers = st.from_regex(r"[a-zA-Z_\u4e00-\u9fa5][\w]{0,12}", fullmatch=True).filter(
    lambda name: name.isidentifier() and not similarity.keyword.iskeyword(name)
)


@few
@given(st.lists(identifiers, min_size=len(LOCALS), max_size=len(LOCALS), unique=True))
def test_renaming_changes_nothing(new):
    change = dict(zip(LOCALS, new, strict=True))
    again = {grade_id: renamed(source, change) for grade_id, source in ORIGINAL.items()}
    (want,) = similar_in(CHAPTER, {"a": ORIGINAL, "b": ORIGINAL})
    (got,) = similar_in(CHAPTER, {"a": ORIGINAL, "b": again})
    assert (got.share, got.tokens) == (want.share, want.tokens) == (1.0, want.tokens)


@few
@given(st.tuples(*[st.integers(-1, 2)] * 4), st.tuples(*[st.integers(-1, 2)] * 4))
def test_it_does_not_matter_who_is_named_first(one, other):
    there = similar_in(CHAPTER, {"a": answers(*one), "b": answers(*other)})
    back = similar_in(CHAPTER, {"a": answers(*other), "b": answers(*one)})
    assert [(p.share, p.tokens, p.first_lines, p.second_lines) for p in there] == [
        (p.share, p.tokens, p.second_lines, p.first_lines) for p in back
    ]


@pytest.mark.parametrize(
    "disguise",
    [
        lambda source: source.replace("# TODO", "# todo").replace("# END", "# end"),
        lambda source: re.sub(r"(?m)^([^\"#\n]*\w)\)$", "\\1,\n)", source.replace("    ", "  ")),
        lambda source: source.replace('"exists"', '"already " f"there: {request_id}"'),
        lambda source: source + "\n    def broken(self:\n",
    ],
    ids=["marks gone", "laid out otherwise", "another message", "not valid Python"],
)
def test_a_disguised_copy_is_found(disguise):
    copy = {grade_id: disguise(source) for grade_id, source in ORIGINAL.items()}
    assert copy != ORIGINAL
    (pair,) = similar_in(CHAPTER, {"a": ORIGINAL, "b": copy})
    assert pair.share > 0.95


def test_a_ring_is_found_and_a_habit_is_not():
    ring = {f"r{i}": ORIGINAL for i in range(similarity.COMMON)}
    assert len(similar_in(CHAPTER, ring)) == 45
    assert similar_in(CHAPTER, ring | {"one more": ORIGINAL}) == []


def test_source_that_is_no_program_is_no_error():
    for source in (
        "",
        "\0",
        "x = '''never closed",
        "  a\n b\n",
        "(" * 5000,
        "€ ? $",
        "def f(:\n" * 99,
        "# TODO ch01.1\n" * 99_999,
    ):
        cells = {"ch01-answer": source}
        assert similar_in(CHAPTER, {"a": cells, "b": ORIGINAL, "c": {}}) == []


def test_three_hundred_students_take_seconds():
    draw = random.Random(7)
    students = {
        f"s{i:03}": {
            "ch01-answer": REFERENCE["ch01-answer"],
            "ch01-answer-2": "def step(self):\n"
            + "\n".join(
                f"    self.{draw.choice('abcdef')} {draw.choice('+-*/')}= {draw.choice(['f(x)', 'x', 'x[0]'])}"
                for _ in range(60)
            ),
        }
        for i in range(300)
    }
    started = time.process_time()
    similar_in(CHAPTER, students)
    assert time.process_time() - started < 30  # 2 s on an idle machine
