"""Policies and requests in the student's process, and the check's own policies beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch03.spec import Asked, Policy

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

KEYS = {  # the check's own policies, as a learner would type their keys
    "Coarse": "-r.priority",
    "Ratio": "(-(now - r.arrival_time) / r.prompt_len, r.request_id)",
    "Mixed": "(r.prompt_len + r.max_new_tokens, -r.priority, r.arrival_time, r.request_id)",
}
CLASS = """
class _{name}:
    def key(self, r, now):
        return {key}
"""
OWN = """
def _decodelab_size(name, per=1):
    return lambda request: getattr(request, name) / per


def _decodelab_orders(policy, requests, now):
    places = list(range(len(requests)))
    key = lambda i: policy.key(requests[i], now)
    return [sorted(places, key=key), sorted(places[::-1], key=key)]


def _decodelab_changes(policy, request, nows):
    keys = [policy.key(request, now) for now in nows]
    return any(one < other for one in keys for other in keys)
""" + "".join(CLASS.format(name=name, key=key) for name, key in KEYS.items())


def make_policy(student: Student, policy: Policy) -> Remote:
    """A policy by its name in a case, see ``spec``."""
    name, *arguments = policy
    if name == "Aging":
        inner, rate = arguments
        return student.new("Aging", make_policy(student, inner), rate)
    if name in KEYS:
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
        typed = [f"size=lambda r: r.{' / '.join(map(str, arguments))}"]
    return f"{name}({', '.join(map(str, typed))})"


def own_keys(policy: Policy) -> list[str]:
    """The check's own policies in this one, as one would type them."""
    name, *arguments = policy
    if name == "Aging":
        return own_keys(arguments[0])
    return [f"{name}.key = lambda self, r, now: {KEYS[name]}"] if name in KEYS else []
