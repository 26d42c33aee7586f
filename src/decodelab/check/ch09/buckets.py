"""TODO 6 and 7, extension: sizes rounded up to buckets, and the buckets that waste least."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_bucket(student: Student, case: Case) -> Finding | None:
    """One size after another into the same buckets."""
    buckets = case["buckets"]
    replies = [student.later("bucket", size, list(buckets)) for size in case["sizes"]]
    for size, reply in zip(case["sizes"], replies, strict=True):
        call, got = f"bucket({size}, {buckets})", reply()
        want = min((b for b in buckets if b >= size), default=None)
        if got == want and type(got) is type(want):
            continue
        if want is None:
            rule, en, zh = (
                "none-that-holds-it",
                "no bucket is large enough, so it is None",
                "没有装得下的桶，应当是 None",
            )
        elif isinstance(got, int) and got in buckets:
            rule, en, zh = ("holds-it", "a bucket must hold the size", "桶要装得下") if got < size else (
                "the-smallest", "of the buckets that hold it the smallest", "装得下的桶里取最小的")  # fmt: skip
        else:
            rule, en, zh = "a-bucket", "it is one of the buckets", "应当是其中一个桶"
        return finding(rule, f"{call}: {en}: {want}, not {got!r:.60}.", f"{call}：{zh}：{want}，而不是 {got!r:.60}。", call=call)  # fmt: skip
    return None


def rows_in(sizes: list[int], buckets: list[int]) -> int:
    """How many rows are computed when each size goes into the smallest bucket that holds it."""
    return sum(min(b for b in buckets if b >= size) for size in sizes)


def least(sizes: list[int], count: int) -> tuple[int, list[int]]:
    """The fewest rows with so many buckets, and buckets that come to it: every choice of them is tried."""
    *smaller, largest = sorted(set(sizes))
    choices = (
        [*some, largest] for n in range(min(count, len(smaller) + 1)) for some in combinations(smaller, n)
    )
    return min((rows_in(sizes, buckets), buckets) for buckets in choices)


def check_best(student: Student, case: Case) -> Finding | None:
    """As few rows as can be; which of equally good buckets is free."""
    sizes, count = case["sizes"], case["count"]
    if not sizes or count < 1:
        return None
    got = student.call("best_buckets", list(sizes), count)
    call = f"best_buckets({sizes}, {count})"
    if broken := misshapen(got, sizes, count):
        rule, en, zh = broken
        return finding(rule, f"{call}: {en}; yours returned {got!r:.100}.", f"{call}：{zh}；你的返回了 {got!r:.100}。", hint=0, call=call)  # fmt: skip
    fewest, buckets = least(sizes, count)
    if rows_in(sizes, got) == fewest:
        return None
    return finding("least-padding", f"{call}: {buckets} would compute {fewest} rows in all, yours, {got}, {rows_in(sizes, got)}.",
                   f"{call}：用 {buckets} 一共只要算 {fewest} 行，用你的 {got} 要算 {rows_in(sizes, got)} 行。", hint=2, call=call)  # fmt: skip


def misshapen(got: Any, sizes: list[int], count: int) -> tuple[str, str, str] | None:
    """What is wrong with buckets before anybody counts rows."""
    if not isinstance(got, list) or any(type(b) is not int for b in got):
        return "a-list", "it must return a list of whole numbers", "应当返回整数的列表"
    if len(got) > count:
        return "at-most-so-many", f"at most {count} buckets", f"最多 {count} 个桶"
    if not got or max(got) < max(sizes):
        return "everybody-fits", "the largest bucket must hold the largest size", "最大的桶要装得下最大的那个"
    if got != sorted(got):
        return "from-small-to-large", "the buckets stand from small to large", "桶要从小到大排"
    return None
