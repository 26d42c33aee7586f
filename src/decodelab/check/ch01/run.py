"""TODO 4: run, its bound, its end and what it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch01.spec import Spec
from decodelab.check.rules import Case, Finding, StudentError
from decodelab.check.toolkit import called, finding, listed, refused
from decodelab.events import first_difference
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

DEFAULT_BOUND = 100
WHY_REFUSED = both(en="a bound is never negative", zh="上限不能是负数")
COUNTING = """
steps_called = 0

class CountingSim(DecodeSchedulerSim):
    def step(self):
        global steps_called
        steps_called += 1
        return super().step()
"""


class Run:
    """A call of run that is still to be made, and what is to be seen around it."""

    def __init__(self, sim: Remote, probe: Remote, bound: int | None) -> None:
        arguments = {} if bound is None else {"max_steps": bound}
        self.bound, self.typed = bound, called("run", arguments)
        self.before = Look(sim, probe)
        self.returned = sim.later_keep("run", **arguments)
        self.after = Look(sim, probe)
        self.value = self.returned.later_get("")
        self.append = self.returned.later("append", "probe")
        self.probed = sim.later_get("timeline")
        self.returned.later("pop")


class Look:
    """A scheduler at one moment."""

    def __init__(self, sim: Remote, probe: Remote) -> None:
        self.replies = [sim.later_get("queue"), sim.later_get("timeline")]
        self.calls = probe.later_get("steps_called")

    def state(self) -> list[Any]:
        """Queue and timeline."""
        return [reply() for reply in self.replies]

    def timeline(self) -> list[Any]:
        """The events so far."""
        return listed(self.state()[1])

    def counted(self) -> int:
        """How often step() was called; 0 where the reply was forged and is no number."""
        calls = self.calls()
        return calls if isinstance(calls, int) else 0


def check_run(student: Student, case: Case) -> Finding | None:
    """``run`` as often as ``runs`` says (None: without an argument), its bound, its end and what it returns."""
    probe, spec = student.apart(COUNTING, "DecodeSchedulerSim"), Spec()
    sim = probe.keep("CountingSim")
    sim.watch("queue", "timeline")
    sim.calls("enqueue", case["requests"])
    for request in case["requests"]:
        spec.enqueue(**request)
    want: list[dict[str, Any]] = []
    for run in [Run(sim, probe, bound) for bound in case["runs"]]:
        if run.bound is not None and run.bound < 0:
            broken = refused(run.returned.made, run.typed, WHY_REFUSED, run.before.state, run.after.state)
        else:
            for _ in range(DEFAULT_BOUND if run.bound is None else run.bound):
                if (due := spec.due()) is None:
                    break
                want.append(spec.advance(due))
            broken = wrong_run(run, want)
        if broken:
            return broken
    return None


def wrong_run(run: Run, want: list[dict[str, Any]]) -> Finding | None:
    """The timeline that it must leave, and that it returns that very list."""
    already, calls = len(run.before.timeline()), run.before.counted()
    try:
        run.returned.made()
    except StudentError as error:
        if not error.is_a("ValueError"):
            raise
        return finding(
            "bound",
            f"{run.typed} is allowed; yours raised ValueError. Only a negative bound is refused.",
            f"{run.typed} 是合法的，你的却抛出了 ValueError。只有负的上限才要拒绝。",
            call=run.typed,
        )
    got = run.after.timeline()
    return (
        events_match(got, want, already, run.typed)
        or steps_called(run.after.counted() - calls, len(got) - already, run.typed)
        or returns_timeline(run, want)
    )


def events_match(got: list[Any], want: list[dict[str, Any]], already: int, typed: str) -> Finding | None:
    """What was in timeline ``already`` stays, and as many steps are made as are due."""
    if got[:already] != want[:already] or len(got) < already:
        return finding(
            "timeline-records",
            f"{typed} must leave the events that are in timeline already as they are.",
            f"{typed} 不能动 timeline 里已有的事件。",
            hint=0,
            call=typed,
        )
    if got == want:
        return None
    made, due = len(got) - already, len(want) - already
    return finding(
        "bound",
        f"{typed} must make {due} steps here; yours made {made}. It stops when nothing is active "
        "or when this call has made max_steps steps, whichever comes first.",
        f"这里 {typed} 应当走 {due} 步，你的走了 {made} 步。没有活跃请求，"
        "或者本次调用已走满 max_steps 步时停止，以先到者为准。",
        hint=2,
        want=want,
        got=got,
        at=first_difference(want, got),
        call=typed,
    )


def steps_called(calls: int, made: int, typed: str) -> Finding | None:
    """Each of the ``made`` events came from step(), and one call more found nothing to do."""
    if made and not calls:
        return finding(
            "calls-step",
            f"{typed} made its steps without calling self.step(), so a subclass with a step of its own is passed by.",
            f"{typed} 没有调用 self.step() 就走了这些步，子类改写的 step 会被绕过。",
            hint=1,
            call=typed,
        )
    if (idle := calls - made) > 1:
        return finding(
            "stops-when-idle",
            f"{typed} called step() {idle} times with nothing left to do; it stops at the first None.",
            f"{typed} 在没有活跃请求之后还调用了 {idle} 次 step()；第一次返回 None 就该停下。",
            hint=2,
            call=typed,
        )
    return None


def returns_timeline(run: Run, want: list[dict[str, Any]]) -> Finding | None:
    """What is put into the list that came back stands in timeline."""
    try:
        run.append()
    except StudentError as error:
        if not error.is_a("AttributeError"):
            raise
    if run.probed() == [*want, "probe"]:
        return None
    value, typed = run.value(), run.typed
    return finding(
        "returns-timeline",
        f"{typed} must return self.timeline itself: the same list, not a copy. "
        f"Yours returned {kind_of(value, 'en')}.",
        f"{typed} 必须返回 self.timeline 本身：同一个列表，不是副本。你返回的是{kind_of(value, 'zh')}。",
        hint=0,
        call=typed,
    )


def kind_of(value: Any, lang: str) -> str:
    """What came back instead, in a word or two."""
    if value is None:
        return {"en": "None: is there a return?", "zh": " None：是不是没有 return？"}[lang]
    return {"en": "another list", "zh": "另一个列表"}[lang] if isinstance(value, list) else f" {value!r}"
