"""TODO 6, extension: blocks that move between device, host and each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.rules import Array, Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

LAYERS, HEADS, DIM = 3, 2, 2
MOVE = """
import torch
from types import SimpleNamespace
from decodelab.contract import Plan


def pool(shape, blocks, block_size, first):
    layers, kv_heads, head_dim = shape
    made = PagedKV(SimpleNamespace(layers=layers, kv_heads=kv_heads, head_dim=head_dim), blocks, block_size)
    made.keys = torch.arange(made.keys.numel()).reshape(made.keys.shape) + float(first)
    made.values = -made.keys - 1e5
    return made


def moved(shape, blocks, host_blocks, block_size, swap_out, swap_in, copy):
    kv, host = pool(shape, blocks, block_size, 0), pool(shape, host_blocks, block_size, 1000)
    move_blocks(Plan(swap_out=swap_out, swap_in=swap_in, copy=copy), kv, host)
    return [kv.keys, kv.values, host.keys, host.values]
"""
POOLS = (("kv.keys", 0), ("kv.values", 0), ("host.keys", 1), ("host.values", 1))


def fresh(blocks: int, size: int, first: int) -> np.ndarray:
    """Keys of a pool as it is before: (layers, blocks, block_size, kv_heads, head_dim)."""
    shape = (LAYERS, blocks, size, HEADS, DIM)
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + first


def check_move(student: Student, case: Case) -> Finding | None:
    """Both pools, keys and values, after one plan; pair by pair in the order that the contract has."""
    size, counts = case["block_size"], [case["blocks"], case["host_blocks"]]
    kinds = [("swap_out", 0, 1), ("swap_in", 1, 0), ("copy", 0, 0)]
    keys = [fresh(counts[0], size, 0), fresh(counts[1], size, 1000)]
    values = [-pool - np.float32(1e5) for pool in keys]
    pairs = {kind: case[kind] for kind, _, _ in kinds}
    if not all(a < counts[s] and b < counts[t] for kind, s, t in kinds for a, b in pairs[kind]):
        return None
    for kind, source, target in kinds:
        for a, b in pairs[kind]:
            for pools in (keys, values):
                pools[target][:, b] = pools[source][:, a]
    by_id = {
        kind: {
            f"r{n}": [tuple(pair) for pair in pairs[kind][n : n + 2]] for n in range(0, len(pairs[kind]), 2)
        }
        for kind in ("swap_out", "swap_in")
    }
    copy = [tuple(pair) for pair in pairs["copy"]]
    probe = student.apart(MOVE, "PagedKV", "move_blocks")
    reply = probe.call(
        "moved", (LAYERS, HEADS, DIM), *counts, size, by_id["swap_out"], by_id["swap_in"], copy
    )
    want = [keys[0], values[0], keys[1], values[1]]
    for n, (name, which) in enumerate(POOLS):
        got = (
            reply[n].numbers
            if isinstance(reply, list) and len(reply) == 4 and isinstance(reply[n], Array)
            else None
        )
        if got is None or got.size != want[n].size:
            return finding(
                "pools-stay", "kv and host must keep their shapes.", "kv 和 host 的形状不能变。", hint=0
            )
        if wrong := differs(case, name, which, got.reshape(want[n].shape), want[n]):
            return wrong
    return None


def differs(case: Case, name: str, which: int, got: np.ndarray, want: np.ndarray) -> Finding | None:
    """The first block that is not what it must be."""
    apart = (got != want).any(axis=(2, 3, 4))  # (layers, blocks)
    if not apart.any():
        return None
    layer, block = (int(i) for i in np.argwhere(apart)[0])
    targets = {b for kind in (("swap_in", "copy"), ("swap_out",))[which] for _, b in case[kind]}
    rule = "every-layer" if not apart.all(axis=0)[block] else "in-this-order"
    if block not in targets:
        rule = "nothing-else-moves"
    elif name.endswith("values") and rule == "in-this-order":
        rule = "keys-and-values"
    words = {
        "every-layer": ("a block moves in every layer", "一块要在每一层里都搬"),
        "in-this-order": ("a pair is (from, to), and every one counts: first those of swap_out, then of swap_in, then of copy", "一对就是（从、到），每一对都要搬：先 swap_out 的，再 swap_in 的，最后 copy 的"),
        "nothing-else-moves": ("a block that no pair has as its second stays as it is", "没有哪一对以它为目标的块，保持原样"),
        "keys-and-values": ("values move as keys do", "value 要和 key 一样搬"),
    }[rule]  # fmt: skip
    moves: dict[str, Any] = {kind: case[kind] for kind in ("swap_out", "swap_in", "copy")}
    return finding(
        rule,
        f"{moves}: {words[0]}; {name}, layer {layer}, block {block} is not what it must be.",
        f"{moves}：{words[1]}；{name} 第 {layer} 层的第 {block} 块不对。",
        hint=2,
    )
