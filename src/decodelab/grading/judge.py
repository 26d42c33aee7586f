"""The judge: runs a check's cases against a runner and decides from the data that comes back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from decodelab.check.rules import Case, Check, Finding, StudentError, TodoResult, clipped
from decodelab.course import Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.grading import faults, splice
from decodelab.grading.sandbox import LEARNER, Rung
from decodelab.grading.shrink import shrink
from decodelab.grading.student import Died, Stuck, Student
from decodelab.grading.suites import Cases, visible_cases
from decodelab.notebook.read import Submission

SECONDS = 10.0  # for all cases of one TODO
TOGETHER_SECONDS = 2.0  # of those, in the submission as it is; what takes longer is judged by itself
SHRINK_SECONDS = 2.0  # to find a smaller workload


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
    """Judge these TODOs (all by default): first in the submission as it was handed in, all in one process.

    What does not pass there is judged for itself, the reference in the other TODOs, each in a process of
    its own, ``workers`` side by side; all at once by default, since one that does not end must not keep a
    learner from the rest. An interrupt ends them all at once too.
    """
    wanted = [chapter.todo(t) for t in todos] if todos else list(chapter.todos)
    cases = cases or visible_cases(chapter)
    runners = Runners()
    trials = [Trial(t, chapter.checks.CHECKS[t.id], cases(t.id), seconds, rung, runners) for t in wanted]
    results = {t.todo.id: settled(submission, t.todo) for t in trials}
    open_ = [t for t in trials if not results[t.todo.id]]
    results |= together(chapter, submission, open_)
    # Spliced before threads start: CPython's parser is not safe in several (gh-106905).
    rest = [(t, splice.alone(chapter, submission, t.todo)) for t in open_ if not results[t.todo.id]]
    with ThreadPoolExecutor(workers or len(rest) or 1) as pool:
        running = [pool.submit(by_itself, trial, *spliced) for trial, spliced in rest]
        try:
            while wait(running, timeout=0.2).not_done:
                pass  # a wait without a limit hears no Ctrl-C on Windows
            results |= {r.result().todo: r.result() for r in running}
        except BaseException:  # Ctrl-C, or a fault of ours: nobody waits for the rest
            runners.end(running)
            raise
    decided = [result for t in wanted if (result := results[t.id])]
    for result in decided:
        result.notes[:0] = submission.notes
        result.finding = result.finding and clipped(result.finding)
    return decided


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
    shrinks: bool = True  # whether a failing workload is cut down


def settled(submission: Submission, todo: Todo) -> TodoResult | None:
    """What needs no run: there is no such cell, or the TODO has its ``raise TodoError`` and no cell puts it right."""
    if todo.answer not in submission.answers:
        return TodoResult(todo.id, "not_found", todo.points)
    if todo.answer in submission.mended:
        return None
    own = splice.written(submission.answers[todo.answer], todo.id)
    if own == [splice.stub(todo.id)]:
        return TodoResult(todo.id, "not_started", todo.points, faults.not_written(todo.id))
    if splice.stub(todo.id) in own:
        return TodoResult(todo.id, "failed", todo.points, faults.unfinished(todo))
    return None


def together(chapter: Chapter, submission: Submission, trials: Sequence[Trial]) -> dict[str, TodoResult]:
    """The TODOs that pass in the submission as it is, in one runner: loaded cell by cell, tried after each."""
    passed: dict[str, TodoResult] = {}
    if not trials:
        return passed
    wanted = {trial.todo.answer for trial in trials}
    cells = splice.as_handed_in(chapter, submission)
    upto = max(i for i, cell in enumerate(cells, 1) if cell.name in wanted)
    seconds = trials[0].seconds
    brief = replace(trials[0], seconds=min(seconds, TOGETHER_SECONDS * max(1.0, seconds / SECONDS)))
    student = student_of(splice.around(chapter, submission), brief)
    with contextlib.suppress(StudentError, Stuck, Died), brief.runners.start(student):
        for cell in cells[:upto]:
            student.restart_clock()
            student.load(cell.name, cell.source)
            for trial in (t for t in trials if t.todo.answer == cell.name):
                student.restart_clock()
                if (result := passing(student, trial)).state == "passed":
                    passed[result.todo] = result
    return passed


def passing(student: Student, trial: Trial) -> TodoResult:
    """The result of one TODO in a runner that is loaded; whatever keeps it from passing is found out later."""
    result = TodoResult(trial.todo.id, "passed", trial.todo.points)
    try:
        run_cases(student, trial, result)
    except (Stuck, Died):
        raise
    except Exception:
        result.state = "failed"
    return result


def by_itself(trial: Trial, parts: splice.Parts, left: list[str]) -> TodoResult:
    """One TODO with the reference around it; ``left``: the TODOs in whose place it could not be put.

    A check that breaks down costs nobody points: its TODO is ungraded, and the others have their verdicts.
    """
    try:
        result = attempt(parts, trial)
    except (DecodeLabError, OSError):  # the machine's
        raise
    except Exception as fault:
        return TodoResult(trial.todo.id, "ungraded", trial.todo.points, faults.ours(trial.todo, fault))
    if left and result.finding and result.finding.error in faults.SYNTAX:
        result.state, result.finding = "blocked", faults.blocked(left, result.finding)
    return result


def attempt(parts: splice.Parts, trial: Trial) -> TodoResult:
    """Load ``parts`` into a fresh runner and run the cases until one of them finds something."""
    result = TodoResult(trial.todo.id, "passed", trial.todo.points)
    student = student_of(parts, trial)
    try:
        with trial.runners.start(student):
            try:
                run_cases(student, trial, result)
            except StudentError as error:
                result.state, result.finding = state_of(error, trial.todo), faults.raised(error, parts)
                result.finding = noted(result.finding, student)
            if result.state == "failed" and trial.shrinks:
                shrunk(result, student, parts, trial)
    except StudentError as error:  # while it was loaded
        result.state, result.finding = state_of(error, trial.todo), faults.raised(error, parts)
    except Stuck as stuck:
        result.state, result.finding = "timed_out", faults.no_end(trial.todo, stuck, student, parts)
        result.finding = noted(result.finding, student)
    except Died as died:
        result.state = "out_of_memory" if student.out_of_memory else "died"
        result.finding = faults.OUT_OF_MEMORY if student.out_of_memory else faults.gone(died)
        result.finding = noted(result.finding, student)
    return result


def run_cases(student: Student, trial: Trial, result: TodoResult) -> None:
    """Run the cases in a runner that is loaded, up to the first that finds something."""
    for case in trial.cases:
        result.cases += 1
        student.begin(case)
        if finding := trial.check(student, case):
            result.state, result.finding = "failed", noted(finding, student)
            return


def noted(finding: Finding, student: Student) -> Finding:
    """``finding`` with the case that was running and what was printed."""
    return replace(finding, case=student.case, printed=student.printed)


def shrunk(result: TodoResult, student: Student, parts: splice.Parts, trial: Trial) -> None:
    """Put the smallest workload that breaks the same rule in the finding's place, in the time there is."""
    finding = result.finding
    if not finding or not finding.case:
        return
    student.seconds = min(student.seconds, SHRINK_SECONDS)
    student.restart_clock()

    def breaks(case: Case) -> Finding | None:
        student.begin(case | {"shrunk": True})
        try:
            smaller = trial.check(student, case)
        except StudentError as error:
            smaller = faults.raised(error, parts)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return None  # shrunk to nonsense, not the student's doing
        if smaller is None or faults.origin(smaller) != faults.origin(finding):
            return None
        return noted(smaller, student)

    with contextlib.suppress(Stuck, Died):
        result.finding = shrink(finding.case, breaks, finding.rule) or finding


def student_of(parts: splice.Parts, trial: Trial) -> Student:
    """A runner for ``parts``, not started yet."""
    return Student([(p.name, p.source) for p in parts], trial.seconds, trial.rung)


def state_of(error: StudentError, todo: Todo) -> str:
    """What an exception that no rule asked for means for this TODO."""
    if error.kind == "MemoryError":
        return "out_of_memory"
    return "not_started" if error.todo == todo.id else "failed"
