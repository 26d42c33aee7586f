"""Policies and requests in the student's process, and the check's own policies beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch03.spec import Asked, Policy

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

OWN = """
class _Coarse:
    def key(self, request, now):
        return -request.priority


class _Ratio:
    def key(self, request, now):
        return (-(now - request.arrival_time) / request.prompt_len, request.request_id)


def _decodelab_size(name):
    return lambda request: getattr(request, name)


def _decodelab_orders(policy, requests, now):
    places = list(range(len(requests)))
    key = lambda i: policy.key(requests[i], now)
    return [sorted(places, key=key), sorted(places[::-1], key=key)]
"""


def make_policy(student: Student, policy: Policy) -> Remote:
    """A policy by its name in a case: ``("SJF",)``, ``("SJF", "prompt_len")``, ``("Aging", ("SJF",), 2.0)``."""
    name, *arguments = policy
    if name == "Aging":
        inner, rate = arguments
        return student.new("Aging", make_policy(student, inner), rate)
    if name in ("Coarse", "Ratio"):
        student.load("check", OWN)
        return student.new(f"_{name}")
    student.new(name)  # so that a missing class is named as such
    student.load("check", OWN)
    if arguments:
        return student.new(name, student.new("_decodelab_size", *arguments))
    return student.new(name)


def make_requests(student: Student, asked: list[Asked]) -> list[Remote]:
    """The Request objects of a case."""
    return [student.new("Request", **request) for request in asked]


def ids_differ(requests: list[Asked]) -> bool:
    """Whether each request has an id of its own; shrinking may have made two alike."""
    return len({r["request_id"] for r in requests}) == len(requests)


def policy_text(policy: Policy) -> str:
    """A policy as one would type it."""
    name, *arguments = policy
    typed = [policy_text(tuple(a)) if isinstance(a, list | tuple) else a for a in arguments]
    if name == "SJF" and typed:
        typed = [f"size=lambda r: r.{arguments[0]}"]
    return f"{name}({', '.join(map(str, typed))})"
