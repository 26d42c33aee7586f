"""Tensors between judge and runner: the same numbers arrive, and nothing that a runner says of them is believed."""

from __future__ import annotations

import base64
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from decodelab.check.rules import Array, Opaque
from decodelab.errors import DecodeLabError
from decodelab.grading import sandbox, splice, student
from decodelab.grading.student import Student
from decodelab.grading.wire import decode, encode

CODE = """
def echo(x): return x
def product(a, b): return a @ b
def big(): return torch.zeros(3_000_000)
def hog(): return torch.ones(400_000_000).sum()
def inside(): return {"a": [torch.ones(2, dtype=torch.bfloat16)], "b": (torch.tensor(3),)}
def sparse(): return torch.ones(2, 2).to_sparse()
def turned(): return torch.arange(6).reshape(2, 3).T
def pairs(): return torch.complex(torch.ones(2), torch.arange(2.0)).conj()
def parts(): return pairs().imag, torch.ones(2, dtype=torch.uint16)
"""
PARTS = [(splice.GIVEN, "import torch\n"), ("cell", CODE)]


def sent(dtype: str, shape: object, content: bytes) -> dict:
    return {"~": "array", "dtype": dtype, "shape": shape, "v": base64.b64encode(content).decode()}


# --- without torch ----------------------------------------------------------------------------------


@given(
    npst.arrays(
        st.sampled_from(["f2", "f4", "f8", "i8", "i4", "?", "u1", "u2", "u8", "c8", "c16"]),
        npst.array_shapes(min_dims=0, min_side=0, max_side=4),
    )
)
def test_an_array_is_the_same_after_the_wire(array):
    order = encode([array])[0]
    got = decode(order | {"shape": list(order["shape"])})
    assert got == Array(array)
    assert got.numbers.dtype == array.dtype
    assert encode(got) == order


@pytest.mark.parametrize(
    "reply",
    [
        sent("<f4", [2], b"1234"),
        sent("<f4", [10**12], b"1234"),
        sent("<f4", [-1], b"1234"),
        sent("<f4", ["1"], b"1234"),
        sent("<f4", [True], b"1234"),
        sent("<f4", 1, b"1234"),
        sent("<f4", [1] * 99, b"1234"),
        sent("|O", [1], b"12345678"),
        sent("|S4", [1], b"1234"),
        sent("<U1", [1], b"1234"),
        sent(["<f4"], [1], b"1234"),  # type: ignore[arg-type]
        {"~": "array", "dtype": "<f4", "shape": [1], "v": "not base64!"},
        {"~": "array", "dtype": "<f4", "shape": [1], "v": 7},
        {"~": "array"},
    ],
    ids=str,
)
def test_what_is_no_array_is_malformed(reply):
    with pytest.raises(student.MALFORMED):
        decode(reply)


def test_arrays_are_compared_whole():
    one = Array(np.zeros(2, np.float32))
    assert one == Array(np.zeros(2, np.float32))
    assert one != Array(np.zeros(2, np.float64))
    assert one != Array(np.zeros((1, 2), np.float32))
    assert one != [0.0, 0.0]
    assert len({one, Array(np.zeros(2, np.float32))}) == 1
    assert repr(one) == "tensor(float32, (2,))"


def test_what_a_chapter_imports_is_known_from_its_given_cells():
    assert splice.libraries(PARTS) == ["torch"]
    assert splice.libraries([("cell", "import torch\n"), (splice.GIVEN, "import torchvision\n")]) == []


@pytest.mark.parametrize(("lang", "words"), [("en", "install it with"), ("zh", "请用")])
def test_a_missing_library_is_one_sentence_and_no_fault_of_the_answer(lang, words, monkeypatch):
    monkeypatch.setattr(student, "find_spec", lambda name: None)
    with pytest.raises(DecodeLabError) as error, Student(PARTS):
        pass
    assert words in error.value.text[lang]
    assert "decodelab[torch]" in error.value.text[lang]


# --- with torch -------------------------------------------------------------------------------------

needs_torch = pytest.mark.torch


@pytest.fixture(scope="module", params=["rlimits", "bubblewrap", "landlock"])
def lab(request):
    assert find_spec("torch"), "make test-torch installs it"
    rungs = (sandbox.LEARNER, sandbox.BUBBLEWRAP, sandbox.LANDLOCK)
    rung = next(r for r in rungs if r.name == request.param)
    if rung is not sandbox.LEARNER and not sandbox.works(rung):
        pytest.skip(f"{rung.name} does not work here")
    with Student(PARTS, rung=rung) as lab:
        yield lab


@needs_torch
def test_tensors_go_there_and_come_back(lab):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert lab.call("product", array, array.T.copy()) == Array(array @ array.T)
    assert np.array_equal(lab.call("turned").numbers, np.arange(6).reshape(2, 3).T)
    for dtype in ("f2", "f8", "i8", "?", "i4"):
        assert lab.call("echo", array.astype(dtype)) == Array(array.astype(dtype))
    mixed = lab.call("inside")
    assert mixed["a"] == [Array(np.ones(2, np.float32))]
    assert mixed["b"][0].numbers.shape == ()


@needs_torch
def test_what_torch_has_and_numpy_sees_otherwise_comes_back_too(lab):
    assert lab.call("pairs").numbers.tolist() == [1, 1 - 1j]
    negative, small = lab.call("parts")  # the first by a bit alone
    assert negative.numbers.tolist() == [0, -1]
    assert small == Array(np.ones(2, np.uint16))


@needs_torch
def test_a_tensor_that_is_too_large_is_no_reply(lab):
    assert lab.call("big") == Opaque("…")


@needs_torch
def test_what_cannot_cross_is_the_answers_own_error(lab):
    with pytest.raises(Exception, match="TypeError"):
        lab.call("sparse")


@needs_torch
def test_the_memory_limit_holds_beside_the_library(lab):
    if lab.rung is sandbox.LEARNER:
        pytest.skip("a learner's own machine has no such limit")
    with pytest.raises(Exception, match="memory"):
        lab.call("hog")
