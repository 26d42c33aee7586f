"""TODOs 1, 2 and 5: a policy is judged by the order that its keys give, not by what a key looks like."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from decodelab.check.ch03.spec import Asked, Policy, key, parting, static, workings
from decodelab.check.ch03.things import ids_differ, make_policy, make_requests
from decodelab.check.rules import Case, Finding, Opaque
from decodelab.check.toolkit import finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

THE_TWO = both(en="These two", zh="这两个请求")


def check_order(student: Student, case: Case) -> Finding | None:
    """Sort the case's requests by the policy's keys at each moment of ``nows``."""
    if not ids_differ(case["requests"]):
        return None
    policy = make_policy(student, case["policy"])
    requests = make_requests(student, case["requests"])
    for now in case["nows"]:
        broken = requests and no_key(policy.call("key", requests[0], now))
        if broken := broken or wrong_order(student, policy, requests, case, now):
            return broken
    if not static(case["policy"]):
        return None
    replies = [student.later("_decodelab_changes", policy, r, case["nows"]) for r in requests]
    return next(
        (changing(asked, case) for asked, r in zip(case["requests"], replies, strict=True) if r()), None
    )


def no_key(got: Any) -> Finding | None:
    """What key() returned is nothing, or has a function in it that was to be called."""
    if got is None:
        return finding(
            "returns-a-key",
            "key() returned None: is there a `return`?",
            "key() 返回了 None：是不是少了 `return`？",
            hint=0,
        )
    fields = got if isinstance(got, list | tuple) else [got]
    if any(isinstance(field, Opaque) and field.text.startswith("<function") for field in fields):
        return finding(
            "calls-size",
            "A field of the key is a function itself: call it with the request, and use what it returns.",
            "键里有一个字段是函数本身：要用请求去调用它，取它的返回值。",
            hint=2,
        )
    return None


def changing(asked: Asked, case: Case) -> Finding:
    """A key that differs from one ``now`` to another though its class is static."""
    nows = " and ".join(f"now={now}" for now in case["nows"])
    return finding(
        "static-key",
        f"The key of request {asked['request_id']} is not the same at {nows}: `static = True` promises "
        "that it does not depend on `now`.",
        f"请求 {asked['request_id']} 的键在 {nows.replace(' and ', ' 和 ')} 时不一样：`static = True` 承诺过，键不随 `now` 变。",
    )


def wrong_order(
    student: Student, policy: Remote, requests: list[Remote], case: Case, now: float
) -> Finding | None:
    """The two requests that stand the wrong way round, or whose keys are equal."""
    asked = case["requests"]
    got = student.call("_decodelab_orders", policy, requests, now)
    want = sorted(range(len(asked)), key=lambda i: key(case["policy"], asked[i], now))
    if got == [want, want]:
        return None
    orders = got if isinstance(got, list) else []
    places = [{i: at for at, i in enumerate(each)} for each in orders if is_order(each, want)]
    for first, second in pairwise(want):
        right = [place[first] < place[second] for place in places]
        if len(set(right)) > 1:
            return tied(case["policy"], asked[first], asked[second], now)
        if not all(right):
            return inverted(case["policy"], asked[first], asked[second], now)
    return finding(
        "keys-compare",
        "The keys of these requests cannot be sorted: return a tuple of numbers.",
        "这些请求的键没法排序：请返回由数字组成的元组。",
        hint=2,
    )


def is_order(got: Any, want: list[int]) -> bool:
    """Whether ``got`` holds each place once."""
    return isinstance(got, list) and all(type(i) is int for i in got) and sorted(got) == sorted(want)


def inverted(policy: Policy, due: Asked, other: Asked, now: float) -> Finding:
    """``due`` belongs before ``other``, and its key was not the smaller one."""
    rule, words = parting(policy, due, other, now)
    first, second = due["request_id"], other["request_id"]
    return finding(
        rule,
        f"At now={now} request {first} must have a smaller key than request {second}: {words['en']}. "
        "Yours puts them the other way round.",
        f"now={now} 时，请求 {first} 的键应当比请求 {second} 的小：{words['zh']}。你的次序正好相反。",
        hint=2,
        state=rows(policy, due, other, now),
        label=THE_TWO,
    )


def rows(policy: Policy, first: Asked, second: Asked, now: float) -> list[Asked]:
    """Two requests, and what their first fields are made of."""
    return [request | workings(policy, request, now) for request in (first, second)]


def tied(policy: Policy, first: Asked, second: Asked, now: float) -> Finding:
    """Two keys are equal, so that the order depends on who happened to stand first."""
    a, b = first["request_id"], second["request_id"]
    return finding(
        "no-ties",
        f"Requests {a} and {b} have equal keys, so their order is left to chance: end the key with arrival_time, "
        "then request_id.",
        f"请求 {a} 和 {b} 的键相等，谁先谁后就看运气了：在键的末尾依次加上 arrival_time 和 request_id。",
        hint=2,
        state=rows(policy, first, second, now),
        label=THE_TWO,
    )
