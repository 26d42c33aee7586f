"""Chapter 0's rule and visible cases: the size of a KV cache, one argument at a time."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from decodelab.check.rules import Case, Finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

ONES = {"num_tokens": 1, "num_layers": 1, "num_kv_heads": 1, "head_dim": 1, "bytes_per_value": 1}


def counted(shape: dict[str, int]) -> int:
    """The bytes of the cache, by counting the vectors of one token one by one."""
    vectors = product(range(shape["num_layers"]), range(shape["num_kv_heads"]), ("key", "value"))
    return sum(shape["head_dim"] * shape["bytes_per_value"] for _ in vectors) * shape["num_tokens"]


def case(rule: str, level: int, requirement: Text, **shape: int) -> Case:
    """One call of ``kv_cache_bytes``, and the rule that it is about."""
    return {"name": rule, "hint": level, "requirement": requirement, "shape": ONES | shape}


def check_bytes(student: Student, case: Case) -> Finding | None:
    """The number of bytes for one shape."""
    shape, requirement = case["shape"], case["requirement"]
    want, got = counted(shape), student.call("kv_cache_bytes", **shape)
    if type(got) in (int, float) and got == want:
        return None
    (call,) = shown(case)
    if got is None:
        return Finding(
            "returns-a-number",
            both(
                en=f"{call} must return {want}; yours returned nothing. Is there a `return`?",
                zh=f"{call} 应当返回 {want}，你的函数却什么也没有返回：是不是少了 `return`？",
            ),
            hint=3,
        )
    return Finding(
        case["name"],
        both(
            en=f"{requirement['en']} {call} must be {want}; yours gave {got!r}.",
            zh=f"{requirement['zh']}{call} 应当是 {want}，你的结果是 {got!r}。",
        ),
        hint=case["hint"],
    )


def shown(case: Case) -> list[str]:
    """A case as the call it makes."""
    return [f"kv_cache_bytes({', '.join(f'{name}={value}' for name, value in case['shape'].items())})"]


EACH = both(
    en="The size is proportional to every argument.",
    zh="大小与每个参数都成正比。",
)
VISIBLE: dict[str, list[Case]] = {
    "ch00.1": [
        case(
            "keys-and-values",
            2,
            both(en="A token keeps a key and a value.", zh="每个 token 既存 key，也存 value。"),
        ),
        case("linear-in-tokens", 1, EACH, num_tokens=3),
        case("every-layer", 1, EACH, num_layers=3),
        case("every-kv-head", 1, EACH, num_kv_heads=3),
        case("every-number", 1, EACH, head_dim=5),
        case(
            "bytes-per-value",
            3,
            both(en="The answer is in bytes, not in numbers.", zh="结果以字节计，不是以个数计。"),
            bytes_per_value=4,
        ),
        case(
            "all-together",
            3,
            EACH,
            num_tokens=10,
            num_layers=30,
            num_kv_heads=3,
            head_dim=64,
            bytes_per_value=2,
        ),
    ]
}
CHECKS = {"ch00.1": check_bytes}
