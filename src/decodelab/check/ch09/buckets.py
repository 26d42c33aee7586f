"""TODO 6 and 7, extension: sizes rounded up to buckets, and the buckets that waste least."""

from __future__ import annotations

from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items

if TYPE_CHECKING:
    from decodelab.grading.student import Student


ASK = """
def _kept(name, numbers, *args):
    # What a function returns, and whether its list is what it was.
    mine = list(numbers)
    return eval(name)(*[mine if x is None else x for x in args]), mine == numbers
"""


def changed(call: str, name: str) -> Finding:
    """A list that is no longer what it was."""
    return finding("leaves-its-arguments", f"{call}: {name} belongs to the caller and must stay as it is; yours changed it, as sort(), remove() and append() do.",
                   f"{call}：{name} 是调用者的，不能改；你的代码改动了它：sort()、remove()、append() 都会这样。", hint=0, call=call)  # fmt: skip


def check_bucket(student: Student, case: Case) -> Finding | None:
    """One size after another into the same buckets."""
    buckets = case["buckets"]
    probe = student.apart(ASK, "bucket")
    replies = [probe.later("_kept", "bucket", buckets, size, None) for size in case["sizes"]]
    for size, reply in zip(case["sizes"], replies, strict=True):
        call, (got, untouched) = f"bucket({size}, {buckets})", items(reply(), 2)
        want = min((b for b in buckets if b >= size), default=None)
        if untouched is not True:
            return changed(call, "buckets")
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
    """The fewest rows with so many buckets, and buckets that come to it."""
    own = sorted(set(sizes))
    up_to = [0, *accumulate(sizes.count(size) for size in own)]
    best: list[tuple[float, list[int]]] = [(0, []), *[(inf, [])] * len(own)]
    for _ in range(count):
        best = [(0, [])] + [
            min(
                (best[m][0] + (up_to[n] - up_to[m]) * own[n - 1], [*best[m][1], own[n - 1]]) for m in range(n)
            )
            for n in range(1, len(best))
        ]
    return int(best[-1][0]), best[-1][1]


def check_best(student: Student, case: Case) -> Finding | None:
    """As few rows as can be; which of equally good buckets is free."""
    sizes, count = case["sizes"], case["count"]
    if not sizes or count < 1:
        return None
    probe = student.apart(ASK, "best_buckets")
    got, untouched = items(probe.call("_kept", "best_buckets", sizes, None, count), 2)
    call = f"best_buckets({few(sizes)}, {count})"
    if untouched is not True:
        return changed(call, "sizes")
    if broken := misshapen(got, sizes, count):
        rule, en, zh = broken
        return finding(rule, f"{call}: {en}; yours returned {got!r:.100}.", f"{call}：{zh}；你的返回了 {got!r:.100}。", hint=0, call=call)  # fmt: skip
    fewest, buckets = least(sizes, count)
    if rows_in(sizes, got) == fewest:
        return None
    return finding("least-padding", f"{call}: {buckets} would compute {fewest} rows in all, yours, {got}, {rows_in(sizes, got)}.",
                   f"{call}：用 {buckets} 一共只要算 {fewest} 行，用你的 {got} 要算 {rows_in(sizes, got)} 行。", hint=2, call=call)  # fmt: skip


def few(sizes: list[int]) -> str:
    """Sizes as one would type them, a hundred of them in short."""
    return f"{sizes}" if len(sizes) <= 20 else f"[{', '.join(map(str, sizes[:8]))}, …]"


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
