"""Tensors as a check sees them: drawn from a case's seed, compared with a tolerance, shown in short."""

from __future__ import annotations

from typing import Any

import numpy as np

from decodelab.check.rules import Array, Finding
from decodelab.check.toolkit import finding, items, listed

WATCH = """
import torch

def _watched(function, *args):
    # What a function returns, and which of its arguments are not what they were.
    before = [_bytes(x) for x in args]
    result = function(*args)
    return result, [i for i, x in enumerate(args) if _bytes(x) != before[i]]

def _bytes(x):
    return x.detach().numpy().tobytes() if isinstance(x, torch.Tensor) else None

def _named(name, *args):
    return _watched(eval(name), *args)

def _attended(kv, *args):
    return _watched(kv.attend, *args)
"""
TOLERANCE = 1e-3  # of the largest number there is; float32 stays far below it


def drawn(seed: int, *shape: int) -> np.ndarray:
    """Random numbers in float32, the same for the same seed and shape."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def close(got: np.ndarray, want: np.ndarray, tolerance: float = TOLERANCE) -> bool:
    """Whether all numbers are the same but for rounding; NaN is never close."""
    return got.shape == want.shape and bool(
        np.all(np.abs(got - want) <= tolerance * max(1.0, np.abs(want).max(initial=0)))
    )


def watched(reply: Any, names: str, call: str) -> tuple[Any, Finding | None]:
    """What ``_watched`` brought back: the result, and what there is to say of an argument that was changed."""
    result, touched = items(reply, 2)
    changed = [name for i, name in enumerate(names.split()) if i in listed(touched)]
    if not changed:
        return result, None
    return result, finding(
        "leaves-its-arguments",
        f"{call}: {changed[0]} belongs to the caller and must stay as it is; yours changed it in place, as *=, "
        f"{changed[0]}[…] = … and methods that end in _ do.",
        f"{call}：{changed[0]} 是调用者的，不能改；你的代码就地改动了它：*=、{changed[0]}[…] = …、"
        "名字以 _ 结尾的方法都会这样。",
        hint=0,
        call=call,
    )


def misfit(got: Any, shape: tuple[int, ...], call: str, dtype: str = "float32") -> Finding | None:
    """A result that is no tensor of this shape and type."""
    if not isinstance(got, Array):
        return finding("a-tensor", f"{call} must return a tensor; yours gave {got!r:.80}.",
                       f"{call} 应当返回张量，你的返回了 {got!r:.80}。", hint=0, call=call)  # fmt: skip
    if got.numbers.shape != shape:
        return finding("shape", f"{call} must have shape {shape}, not {got.numbers.shape}.",
                       f"{call} 的形状应当是 {shape}，而不是 {got.numbers.shape}。", call=call)  # fmt: skip
    if got.numbers.dtype.name != dtype:
        return finding("keeps-the-type", f"{call} must stay {dtype}, as its input is; yours is {got.numbers.dtype.name}.",
                       f"{call} 应当和输入一样是 {dtype}，你的是 {got.numbers.dtype.name}。", hint=0, call=call)  # fmt: skip
    return None


def worst(got: np.ndarray, want: np.ndarray) -> tuple[int, ...]:
    """Where the two differ most."""
    apart = np.nan_to_num(np.abs(got - want), nan=np.inf)
    return tuple(int(i) for i in np.unravel_index(apart.argmax(), apart.shape))


def row(numbers: np.ndarray) -> str:
    """The first few numbers of a row: ``[0.31, -1.2, …]``."""
    return f"[{', '.join(f'{x:.3g}' for x in numbers[:4])}{', …' if len(numbers) > 4 else ''}]"
