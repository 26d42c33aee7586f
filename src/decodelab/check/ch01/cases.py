"""The visible cases, how a case is shown, and the picture of a right answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case
from decodelab.check.toolkit import called

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def ask(request_id: int, prompt_len: Any, **options: Any) -> dict[str, Any]:
    """A request as keywords of enqueue."""
    return {"request_id": request_id, "prompt_len": prompt_len, **options}


def script(*requests: dict[str, Any]) -> list[list[Any]]:
    """Enqueue these, then step to the end."""
    return [*(["enqueue", r] for r in requests), ["steps", None]]


def shown(case: Case) -> list[str]:
    """A case as the calls it makes, as one would type them."""
    orders = case.get("script", [])
    lines = [called("enqueue", a) if name == "enqueue" else f"step() × {a or '…'}" for name, a in orders]
    lines += [called("enqueue", r) for r in case.get("requests", [])]
    lines += [called("RequestState", r) for r in case.get("states", [])]
    lines += [f"enqueue(…) × {case['crowd']}", "run()"] if "crowd" in case else []
    lines += ["run()" if n is None else f"run(max_steps={n})" for n in case.get("runs", [])]
    lines += [f"run(max_steps={case['after']})"] if case.get("after") else []
    return lines + [called("enqueue", r) for r in case.get("then", [])]


WORKED_CASE = [
    ask(1, 2, priority=2, cache_hit=True),
    ask(2, 3, priority=1),
    ask(3, 1, priority=3, cache_hit=True),
]
SHOWN = [
    ask(1, 3),
    ask(2, 4, cache_hit=True),
    ask(3, 2),
]  # not the worked case, which the text has one predict


def picture(student: Student, name: str = "DecodeSchedulerSim") -> list[dict[str, Any]]:
    """The answer's own timeline, shown when its check passes."""
    sim = student.new(name)
    sim.calls("enqueue", SHOWN)
    return sim.call("run", max_steps=20)


STRIPS: list[Case] = [
    {
        "name": "one-field-at-a-time",
        "script": script(ask(5, 2), ask(4, 2), ask(3, 1), ask(2, 9, priority=1), ask(1, 9, cache_hit=True)),
    },
    {
        "name": "late-arrival",
        "script": [["enqueue", ask(1, 3)], ["steps", 2], ["enqueue", ask(2, 5)], ["steps", None]],
    },
    {"name": "own-length", "script": script(ask(1, 4, max_new_tokens=1), ask(2, 1, max_new_tokens=3))},
    {
        "name": "after-the-end",
        "script": [["enqueue", ask(1, 1)], ["steps", None], ["enqueue", ask(2, 1)], ["steps", None]],
    },
    {"name": "empty", "script": [["steps", None]]},
    {"name": "a-key-of-its-own", "own_key": True, "script": [["enqueue", ask(i, 1)] for i in (4, 6, 5)]},
    {"name": "worked-case", "script": script(*WORKED_CASE)},
]
VISIBLE: dict[str, list[Case]] = {
    "ch01.1": [
        {
            "name": "in-order",
            "requests": [
                ask(7, 3),
                ask(0, 5, priority=4, cache_hit=True),
                ask(5, 1, priority=-2, max_new_tokens=9),
            ],
        },
        {
            "name": "bad-lengths",
            "requests": [ask(1, 2), *(ask(2, bad) for bad in (0, -1, True, 2.5, "3"))],
        },
        {
            "name": "bad-output-lengths",
            "requests": [ask(1, 2), *(ask(2, 2, max_new_tokens=bad) for bad in (0, -4, True))],
        },
        {"name": "taken-id", "requests": [ask(1, 2), ask(1000, 2), ask(1, 5), ask(1000, 3)]},
        {
            "name": "id-of-a-finished-request",
            "requests": [ask(1, 1)],
            "after": 9,
            "then": [ask(1, 1), ask(2, 1)],
        },
    ],
    "ch01.2": [
        {"name": "prefill-or-decode", "states": [ask(1, 5), ask(1, 5, phase="decode")]},
        {"name": "hit-or-miss", "states": [ask(1, 5, cache_hit=True), ask(1, 5, cache_hit=False)]},
        {"name": "priorities", "states": [ask(1, 5, priority=p) for p in (0, 3, -2)]},
        {"name": "lengths", "states": [ask(1, 5), ask(1, 8), ask(1, 5, generated_len=2, phase="decode")]},
        {"name": "ids", "states": [ask(1, 5), ask(9, 5)]},
    ],
    "ch01.3": STRIPS,
    "ch01.4": [
        {"name": "worked-case", "requests": WORKED_CASE, "runs": [20]},
        {"name": "bounded", "requests": WORKED_CASE, "runs": [4]},
        {"name": "bound-counts-this-call", "requests": WORKED_CASE, "runs": [3, 2, 20]},
        {"name": "no-steps", "requests": WORKED_CASE, "runs": [0, 1]},
        {"name": "negative-bound", "requests": WORKED_CASE, "runs": [2, -1, 2]},
        {"name": "default-bound", "requests": [ask(1, 150)], "runs": [None, None]},
        {"name": "nothing-to-do", "requests": [], "runs": [5]},
        {"name": "a-far-bound", "requests": WORKED_CASE, "runs": [10_000]},
    ],
    "ch01.5": [
        *STRIPS,
        {"name": "crowd", "crowd": 300},
    ],
}
