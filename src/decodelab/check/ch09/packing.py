"""TODO 1: which rows a step has, in which order; TODO 2: into which slots they go."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.ch08.common import WATCH, misfit, watched
from decodelab.check.rules import Array, Case, Finding
from decodelab.check.toolkit import finding, items
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

PACK = """
from decodelab.contract import Plan

def _packed(scheduled, start, sequences, tables, block_size):
    given = sequences, tables, scheduled, start
    before = repr(given)
    batch = pack(Plan(scheduled=scheduled, start=start), sequences, tables, block_size)
    fields = "tokens", "positions", "query_start_loc", "seq_lens"
    return [getattr(batch, name) for name in fields], repr(given) == before
"""
FIELDS: dict[str, tuple[str, Text]] = {
    "tokens": ("tokens-of-this-step", both(en="a request brings the ids at its positions start to start + count − 1, one request behind the other", zh="每个请求带来位置 start 到 start + count − 1 上的 id，一个请求接一个请求")),
    "positions": ("positions-go-on", both(en="a position counts in the request's own text, from plan.start on", zh="位置是在请求自己文本里的位置，从 plan.start 数起")),
    "query_start_loc": ("boundaries", both(en="the boundaries are 0 and, after each request, how many rows there are so far", zh="边界先是 0，然后是排完每个请求之后一共有多少行")),
    "seq_lens": ("lengths-after-the-step", both(en="a length is how many tokens of the request lie in the cache once the step is done", zh="长度是这一步做完之后，这个请求有多少个 token 在 cache 里")),
}  # fmt: skip
ORDER = both(
    en="requests stand in the plan's order, whatever their ids are",
    zh="请求按计划里的次序排，与 id 的大小无关",
)


def sense(case: Case) -> bool:
    """Whether a case, perhaps a shrunk one, is a step that could be."""
    requests, ids = case["requests"], [r["id"] for r in case["requests"]]
    room = all(
        1 <= r["count"] <= r["length"] - r["start"]
        and len(r["blocks"]) * case["block_size"] >= r["start"] + r["count"]
        for r in requests
    )
    return bool(requests) and room and len(set(ids)) == len(ids)


def tokens_of(case: Case) -> dict[Any, list[int]]:
    """All token ids of each request, no two alike."""
    everybody = [*case["requests"], *case.get("waiting", [])]
    return {r["id"]: [1000 * (n + 1) + p for p in range(r["length"])] for n, r in enumerate(everybody)}


def due(case: Case, requests: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The fields of the batch that these requests make, in this order."""
    tokens = tokens_of(case)
    want: dict[str, list[int]] = {name: [] for name in FIELDS} | {"query_start_loc": [0]}
    for r in requests:
        for p in range(r["start"], r["start"] + r["count"]):
            want["tokens"].append(tokens[r["id"]][p])
            want["positions"].append(p)
        want["query_start_loc"].append(len(want["tokens"]))
        want["seq_lens"].append(r["start"] + r["count"])
    return want


def check_pack(student: Student, case: Case) -> Finding | None:
    """One batch, field by field; nothing that was handed in may change."""
    if not sense(case):
        return None
    student.load("check", PACK)
    requests = case["requests"]
    everybody = [*requests, *case.get("waiting", [])]
    scheduled, start = ({r["id"]: r[name] for r in requests} for name in ("count", "start"))
    tables = {r["id"]: list(r["blocks"]) for r in reversed(everybody)}
    sequences = dict(reversed(tokens_of(case).items()))  # whose order nobody promised
    reply = student.call("_packed", scheduled, start, sequences, tables, case["block_size"])
    fields, untouched = items(reply, 2)
    brought = dict(zip(FIELDS, items(fields, len(FIELDS)), strict=True))
    got = {name: numbers(value) for name, value in brought.items()}
    want = due(case, requests)
    if wrong := next((name for name in FIELDS if got[name] != want[name]), None):
        rule, words = FIELDS[wrong]
        if any(got[wrong] == due(case, list(order))[wrong] for order in permutations(requests)):
            rule, words = "plan-order", ORDER
        return finding(rule, f"pack(plan, …): {words['en']}. {wrong} must be {want[wrong]}, not {got[wrong]}.",
                       f"pack(plan, …)：{words['zh']}。{wrong} 应当是 {want[wrong]}，而不是 {got[wrong]}。",
                       hint=0 if rule == "plan-order" else 2, want=want[wrong], got=got[wrong] if isinstance(got[wrong], list) else [])  # fmt: skip
    for name in ("query_start_loc", "seq_lens"):
        if isinstance(brought[name], Array) or any(type(n) is not int for n in brought[name]):
            return finding("plain-lists", f"pack(plan, …): {name} stays a plain list of ints: Python decides by it, and would have to ask the device for each number of a tensor.",
                           f"pack(plan, …)：{name} 要留作普通列表，里面是 int：Python 要靠它做决定，换成张量就得一个数一个数地去问设备。", hint=0)  # fmt: skip
    if untouched is not True:
        return finding("changes-nothing", "pack(plan, …): the plan, the sequences and the tables must stay as they were.",
                       "pack(plan, …)：plan、sequences、tables 都应当保持原样。", hint=0)  # fmt: skip
    return None


def numbers(value: Any) -> Any:
    """A flat tensor's or list's whole numbers; what else came as it is."""
    return value.numbers.tolist() if isinstance(value, Array) else value


SLIPS: dict[str, Text] = {
    "whole-blocks": both(en="a block begins at slot block × block_size", zh="一个块从槽位 块号 × block_size 开始"),
    "offset": both(en="the offset in the block, position mod block_size, is added", zh="要加上块内偏移，也就是位置对 block_size 取余"),
    "from-the-table": both(en="the block comes from the request's table; its number there is not the block's", zh="块号要从请求的块表里查；它在表里排第几并不是块号"),
    "own-row": both(en="each request has its own row of the table", zh="每个请求查自己那一行块表"),
    "slots": both(en="the block of the position, times block_size, plus the offset in it", zh="位置所在的块号乘以 block_size，再加块内偏移"),
}  # fmt: skip


def check_slots(student: Student, case: Case) -> Finding | None:
    """One call: whole numbers, in the shape that rows and positions broadcast to."""
    size, rows, positions = case["block_size"], case["rows"], np.array(case["positions"], np.int64)
    tables = np.array(case["tables"], np.int64)
    if tables.ndim != 2 or not positions.size:
        return None
    try:
        at = np.array(rows, np.int64)
        want = tables[at, positions // size] * size + positions % size
    except (IndexError, ValueError):  # a shrunk case may make no sense
        return None
    call = f"slots(block_tables, {rows}, {case['positions']}, {size})"
    watch = student.apart(WATCH, "slots")
    reply = watch.call("_named", "slots", tables, rows if isinstance(rows, int) else at, positions, size)
    got, touched = watched(reply, "block_tables rows positions", call)
    if wrong := misfit(got, want.shape, call, "int64") or touched:
        return wrong
    if np.array_equal(got.numbers, want):
        return None
    rule = slip(got.numbers, want.shape, tables, at, positions, size)
    return finding(rule, f"{call}, block_tables {case['tables']}: {SLIPS[rule]['en']}. It must be {want.tolist()}, not {got.numbers.tolist()}.",
                   f"{call}，block_tables 是 {case['tables']}：{SLIPS[rule]['zh']}。应当是 {want.tolist()}，而不是 {got.numbers.tolist()}。",
                   hint=2, call=call)  # fmt: skip


def slip(
    got: np.ndarray,
    shape: tuple[int, ...],
    tables: np.ndarray,
    rows: np.ndarray,
    positions: np.ndarray,
    size: int,
) -> str:
    """The rule that an answer breaks, by what it equals."""
    blocks = tables[rows, positions // size]
    slips = {
        "offset": blocks * size,
        "whole-blocks": blocks + positions % size,
        "from-the-table": positions,
        "own-row": tables[0, positions // size] * size + positions % size,
    }
    return next(
        (rule for rule, n in slips.items() if np.array_equal(got, np.broadcast_to(n, shape))), "slots"
    )
