"""Whatever a student's process answers, a check decides or raises what the judge expects: never anything else."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from decodelab.check.feedback import as_html, as_text
from decodelab.check.rules import Array, Opaque, Record, StudentError, TodoResult
from decodelab.course import chapter_ids, load

FIELDS = ["request_id", "phase", "action", "prompt_len", "generated_len", "queue"]
scalars = st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=3)
scalars |= st.sampled_from(["prefill", "decode", "finish", "prefill_to_decode", "decode_one_step"])
names = st.sampled_from(FIELDS)
tensors = st.builds(Array, npst.arrays("f4", npst.array_shapes(min_dims=0, min_side=0, max_side=3)))
anything = st.recursive(
    scalars | st.builds(Opaque, st.text(max_size=3)) | tensors,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(names, inner, max_size=6)
        | st.fixed_dictionaries(dict.fromkeys(FIELDS[:5], inner))
        | st.builds(Record, st.just("RequestState"), st.dictionaries(names, inner))
    ),
    max_leaves=12,
)


class Liar:
    """A student, and every object in its process, whose every answer is made up."""

    printed = ""
    step = 0
    context = None

    def __init__(self, data: Any) -> None:
        self.source = data
        self.calls_left = 60

    def answer(self, *args: Any, **kwargs: Any) -> Any:
        self.calls_left -= 1
        if self.calls_left < 0 or self.source.draw(st.integers(0, 9)) == 0:
            raise StudentError(self.source.draw(st.sampled_from(["ValueError", "AttributeError", "Oops"])))
        return self.source.draw(anything)

    call = get = data = made = answer

    def new(self, *args: Any, **kwargs: Any) -> "Liar":
        return self

    keep = apart = later_new = later_keep = new

    def later(self, *args: Any, **kwargs: Any) -> Any:
        return self.answer

    later_get = later

    def calls(self, *args: Any) -> None:
        pass

    watch = load = calls


TODOS = [todo.id for chapter in chapter_ids() for todo in load(chapter).todos]


@pytest.mark.parametrize("todo", TODOS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_liar_is_found_out_or_fails_but_never_breaks_the_judge(todo, data):
    checks = load(todo).checks
    case = data.draw(st.sampled_from(checks.VISIBLE[todo]))
    with suppress(StudentError):
        finding = checks.CHECKS[todo](Liar(data), case)
        if finding:
            finding.case = case
            result = TodoResult(todo, "failed", 1.0, finding)
            assert finding.rule in as_text(result)
            as_html(result)
