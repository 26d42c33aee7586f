"""Chapter 0's rule and visible cases: the size of a KV cache, one argument at a time."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

ONES = {"num_tokens": 1, "num_layers": 1, "num_kv_heads": 1, "head_dim": 1, "bytes_per_value": 1}


def counted(shape: dict[str, int]) -> int:
    """The bytes of the cache, by counting the vectors of one token one by one."""
    vectors = product(range(shape["num_layers"]), range(shape["num_kv_heads"]), ("key", "value"))
    return sum(shape["head_dim"] * shape["bytes_per_value"] for _ in vectors) * shape["num_tokens"]


def check_bytes(student: Student, case: Case) -> Finding | None:
    """One shape; where the case names an ``argument``, how the answer grows with it, before how large it is."""
    shape, argument = case["shape"], case.get("argument")
    (call,) = shown(case)
    got = student.call("kv_cache_bytes", **shape)
    if got is None:
        return Finding(
            "returns-a-number",
            both(
                en=f"{call} returned nothing: is there a `return`?",
                zh=f"{call} 什么也没有返回：是不是少了 `return`？",
            ),
            hint=0,
        )
    if type(got) is not int:
        return Finding(
            "a-whole-number",
            both(
                en=f"Bytes are counted in whole numbers (int); {call} gave {got!r}.",
                zh=f"字节数是整数（int）；{call} 得到的是 {got!r}。",
            ),
            hint=0,
        )
    if argument:
        return grows(argument, shape[argument], student.call("kv_cache_bytes", **ONES), got)
    if got == counted(shape):
        return None
    return Finding(
        case["rule"],
        both(
            en=f"{case['text']['en']} {call} must be {counted(shape)}; yours gave {got!r}.",
            zh=f"{case['text']['zh']}{call} 应当是 {counted(shape)}，你的结果是 {got!r}。",
        ),
        hint=2,
    )


def grows(argument: str, times: int, one: Any, many: Any) -> Finding | None:
    """The size is proportional to every argument."""
    if type(one) is int and many == times * one:
        return None
    return Finding(
        f"grows-with-{argument.replace('_', '-')}",
        both(
            en=f"With {argument} = {times} instead of 1, everything else being 1, the size must be {times} times "
            f"as large; yours went from {one!r} to {many!r}.",
            zh=f"其他参数都是 1，把 {argument} 从 1 改成 {times}，结果应当变成 {times} 倍；你的从 {one!r} 变成了 {many!r}。",
        ),
        hint=1,
    )


def shown(case: Case) -> list[str]:
    """A case as the call it makes."""
    return [f"kv_cache_bytes({', '.join(f'{name}={value}' for name, value in case['shape'].items())})"]


def argument_case(name: str, value: int) -> Case:
    """One argument larger than 1."""
    return {"name": name.replace("_", "-"), "argument": name, "shape": ONES | {name: value}}


BOTH_VECTORS = both(en="A token keeps a key and a value.", zh="每个 token 既存 key，也存 value。")
VISIBLE: dict[str, list[Case]] = {
    "ch00.1": [
        argument_case("num_tokens", 3),
        argument_case("num_layers", 3),
        argument_case("num_kv_heads", 3),
        argument_case("head_dim", 5),
        argument_case("bytes_per_value", 4),
        {"name": "one-of-each", "rule": "keys-and-values", "text": BOTH_VECTORS, "shape": ONES},
        {
            "name": "a-real-shape",
            "rule": "keys-and-values",
            "text": BOTH_VECTORS,
            "shape": {
                "num_tokens": 10,
                "num_layers": 30,
                "num_kv_heads": 3,
                "head_dim": 64,
                "bytes_per_value": 2,
            },
        },
    ]
}
CHECKS = {"ch00.1": check_bytes}
