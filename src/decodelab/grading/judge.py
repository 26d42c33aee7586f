"""The judge: runs a check's cases against a runner and decides from the data that comes back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from decodelab.check.rules import Case, Check, Finding, StudentError, TodoResult, clipped
from decodelab.course import Chapter, Todo
from decodelab.grading import faults, splice
from decodelab.grading.sandbox import LEARNER, Rung
from decodelab.grading.shrink import shrink
from decodelab.grading.student import Died, Stuck, Student
from decodelab.grading.suites import Cases, visible_cases
from decodelab.notebook.read import Submission

SECONDS = 10.0  # for all cases of one TODO
SHRINK_SECONDS = 2.0  # and as long as this to find a smaller workload


def judge(
    chapter: Chapter,
    submission: Submission,
    todos: list[str] | None = None,
    *,
    cases: Cases | None = None,
    seconds: float = SECONDS,
    rung: Rung = LEARNER,
    workers: int | None = None,
) -> list[TodoResult]:
    """Judge these TODOs (all by default), each in a process of its own at ``rung``, ``workers`` side by side.

    All at once by default: one that does not end must not keep a learner from the rest. An interrupt ends
    them all at once too.
    """
    wanted = [chapter.todo(t) for t in todos] if todos else list(chapter.todos)
    cases = cases or visible_cases(chapter)
    tasks, runners = [], Runners()
    for todo in wanted:  # spliced here: CPython's parser is not safe in several threads (gh-106905)
        trial = Trial(todo, chapter.checks.CHECKS[todo.id], cases(todo.id), seconds, rung, runners)
        tasks.append((trial, Tries.of(chapter, submission, todo)))
    with ThreadPoolExecutor(workers or len(tasks)) as pool:
        running = [pool.submit(judge_todo, trial, tries) for trial, tries in tasks]
        try:
            while wait(running, timeout=0.2).not_done:
                pass  # a wait without a limit hears no Ctrl-C on Windows
            results = [r.result() for r in running]
        except BaseException:  # Ctrl-C, or a fault of ours: nobody waits for the rest
            runners.end(running)
            raise
    for result in results:
        result.notes[:0] = submission.notes
        result.finding = result.finding and clipped(result.finding)
    return results


class Runners:
    """The runners at work for one judgement."""

    def __init__(self) -> None:
        self.at_work: set[Student] = set()
        self.over = False

    @contextlib.contextmanager
    def start(self, student: Student) -> Iterator[None]:
        """``with student``, known to ``end``; Died where that has been called."""
        if self.over:
            raise Died(None)
        self.at_work.add(student)
        try:
            with student:
                yield
        finally:
            self.at_work.discard(student)

    def end(self, tasks: Sequence[Future[TodoResult]]) -> None:
        """End every runner, also one that is just being started, until all ``tasks`` are done."""
        self.over = True
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks):
            for student in list(self.at_work):
                with contextlib.suppress(AttributeError):  # its process is not there yet
                    student.__exit__()
            time.sleep(0.02)


@dataclass(frozen=True)
class Trial:
    """A TODO, and how it is tried."""

    todo: Todo
    check: Check
    cases: list[Case]
    seconds: float = SECONDS
    rung: Rung = LEARNER
    runners: Runners = field(default_factory=Runners)


@dataclass(frozen=True)
class Tries:
    """The code of one TODO, with the reference around it and as it was handed in."""

    alone: splice.Parts
    whole: splice.Parts
    left: list[str]  # the TODOs in whose place the reference could not be put
    unfinished: bool  # the ``raise TodoError`` is still there, beside code

    @classmethod
    def of(cls, chapter: Chapter, submission: Submission, todo: Todo) -> Tries | None:
        """None where the submission has no such answer cell."""
        if todo.answer not in submission.answers:
            return None
        alone, left = splice.alone(chapter, submission, todo)
        unfinished = splice.leftover(submission.answers[todo.answer], todo.id)
        return cls(alone, splice.whole(chapter, submission, todo.answer), left, unfinished)


def judge_todo(trial: Trial, tries: Tries | None) -> TodoResult:
    """One TODO: with the reference around it, else (a design of the student's own) in the whole submission."""
    if tries is None:
        return TodoResult(trial.todo.id, "not_found", trial.todo.points)
    result = attempt(tries.alone, trial)
    if result.state == "not_started" and tries.unfinished:
        result.state, result.finding = "failed", faults.unfinished(trial.todo)
    if result.state != "failed":
        return result
    together = attempt(tries.whole, trial)
    if together.state == "passed":
        together.notes.append(faults.TOGETHER)
        return together
    if tries.left and result.finding and result.finding.error in faults.SYNTAX:
        result.state, result.finding = "blocked", faults.blocked(tries.left, result.finding)
        return result
    return shrunk(result, tries.alone, trial)


def shrunk(result: TodoResult, parts: splice.Parts, trial: Trial) -> TodoResult:
    """``result`` with the smallest workload that breaks the same rule."""
    finding = result.finding
    if not finding or not finding.case:
        return result
    student = student_of(parts, replace(trial, seconds=SHRINK_SECONDS))

    def breaks(case: Case) -> Finding | None:
        try:
            smaller = trial.check(student, case)
        except StudentError as error:
            smaller = faults.raised(error, parts)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return None  # shrunk to nonsense, not the student's doing
        if smaller is None or faults.origin(smaller) != faults.origin(finding):
            return None
        return replace(smaller, case=case | {"shrunk": True}, printed=student.printed)

    with contextlib.suppress(StudentError, Stuck, Died), trial.runners.start(student):
        result.finding = shrink(finding.case, breaks, finding.rule) or finding
    return result


def attempt(parts: splice.Parts, trial: Trial) -> TodoResult:
    """Load ``parts`` into a fresh runner and run the cases until one of them finds something."""
    result = TodoResult(trial.todo.id, "passed", trial.todo.points)
    student = student_of(parts, trial)
    case: Case = {}
    try:
        with trial.runners.start(student):
            for case in trial.cases:
                result.cases += 1
                if finding := trial.check(student, case):
                    result.state, result.finding = "failed", finding
                    break
    except StudentError as error:
        result.state, result.finding = state_of(error, trial.todo), faults.raised(error, parts)
    except Stuck as stuck:
        result.state, result.finding = "timed_out", faults.no_end(trial.todo, stuck, student, parts)
    except Died as died:
        result.state = "out_of_memory" if student.out_of_memory else "died"
        result.finding = faults.OUT_OF_MEMORY if student.out_of_memory else faults.gone(died)
    if result.finding:
        result.finding = replace(result.finding, case=case, printed=student.printed)
    return result


def student_of(parts: splice.Parts, trial: Trial) -> Student:
    """A runner for ``parts``, not started yet."""
    return Student([(p.name, p.source) for p in parts], trial.seconds, trial.rung)


def state_of(error: StudentError, todo: Todo) -> str:
    """What an exception that no rule asked for means for this TODO."""
    if error.kind == "MemoryError":
        return "out_of_memory"
    return "not_started" if error.todo == todo.id else "failed"
