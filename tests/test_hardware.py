"""Hardware in numbers: models have the parameters that they are published with, GPUs the rates of their makers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.sim.hardware import GPUS, MODELS, ModelShape

PUBLISHED = {  # of each checkpoint, as counted where it was loaded
    "SmolLM2-135M": 134_515_008,
    "Qwen3-0.6B": 596_049_920,
    "Llama-2-7B": 6_738_415_616,
    "Llama-3.1-8B": 8_030_261_248,
}


def test_a_shape_has_the_parameters_of_its_checkpoint() -> None:
    assert {name: shape.params for name, shape in MODELS.items()} == PUBLISHED


@pytest.mark.parametrize(
    ("name", "kib"), [("SmolLM2-135M", 22.5), ("Qwen3-0.6B", 112), ("Llama-2-7B", 512), ("Llama-3.1-8B", 128)]
)
def test_a_token_takes_two_bytes_a_number_of_its_keys_and_values(name: str, kib: float) -> None:
    assert MODELS[name].kv_bytes_per_token == kib * 1024


@given(bits=st.sampled_from([4, 8, 16, 32]), shape=st.sampled_from(list(MODELS.values())))
def test_fewer_bytes_a_number_are_fewer_bytes_in_all(bits: int, shape: ModelShape) -> None:
    small = replace(shape, bytes_per_param=bits / 8, bytes_per_kv=bits / 8)
    assert small.params == shape.params
    assert small.weight_bytes * 16 == shape.weight_bytes * bits
    assert small.kv_bytes_per_token * 16 == shape.kv_bytes_per_token * bits


@given(st.sampled_from(list(MODELS.values())))
def test_tying_saves_one_embedding(shape: ModelShape) -> None:
    tied, untied = (replace(shape, tied=tied) for tied in (True, False))
    assert untied.params - tied.params == shape.vocab * shape.hidden


def test_gpus_stand_under_their_names_and_say_where_their_numbers_are_from() -> None:
    for name, gpu in GPUS.items():
        assert gpu.name == name
        assert re.match(r"NVIDIA .*(datasheet|whitepaper)", gpu.source)
        # A step that reads its memory once takes 10 to 100 ms on each of them; no unit is off by 1000.
        assert 0.01 < gpu.memory / gpu.bandwidth < 0.1
        # Computing turns cheaper than reading only at 100 to 500 operations a byte.
        assert 100 < gpu.flops / gpu.bandwidth < 500


def test_rates_with_sparsity_are_halved() -> None:
    halved = {name for name, gpu in GPUS.items() if "with sparsity" in gpu.source}
    assert halved == {"L4", "H100 SXM", "H200 SXM"}
    for name in halved:
        sparse = re.search(r"([\d,]+) TFLOPS with sparsity, halved", GPUS[name].source)
        assert sparse
        assert GPUS[name].flops == float(sparse[1].replace(",", "")) * 1e12 / 2
