"""The judge: runs a check's cases against a runner and decides from the data that comes back."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib.util
import os
import random
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType

from decodelab.check.rules import Case, Check, Finding, Record, StudentError, TodoResult
from decodelab.course import Chapter, Todo
from decodelab.errors import DecodeLabError
from decodelab.grading import splice
from decodelab.grading.sandbox import LEARNER, Rung
from decodelab.grading.shrink import shrink
from decodelab.grading.student import Died, Stuck, Student
from decodelab.lang import Text, both
from decodelab.notebook.read import Submission

SECONDS = 10.0  # for all cases of one TODO
SHRINK_SECONDS = 2.0  # and as long as this to find a smaller workload

TOGETHER = both(
    en="It passes together with your other TODOs, not with the reference in their place.",
    zh="它和你写的其他 TODO 配合时通过；把其他 TODO 换成参考实现则不通过。",
)
OUT_OF_MEMORY = Finding(
    "memory",
    both(
        en="Your code asked for more memory than it may use: is there a list that grows without end?",
        zh="你的代码占用的内存超过了上限：是不是有一个列表在无止境地变长？",
    ),
)

Cases = Callable[[str], list[Case]]  # todo id -> workloads


def visible_cases(chapter: Chapter) -> Cases:
    """The workloads that a learner may see."""
    return lambda todo_id: list(chapter.checks.VISIBLE[todo_id])


def hidden_cases(chapter: Chapter, seed: int, grader: Path) -> Cases:
    """Visible, directed and seeded workloads of ``grader/suites/chNN.py``: the same for the same seed."""
    suite = load_suite(grader, chapter.id)

    def cases(todo_id: str) -> list[Case]:
        rng = random.Random(f"{seed}:{todo_id}")
        return [*chapter.checks.VISIBLE[todo_id], *suite.DIRECTED[todo_id], *suite.random_cases(todo_id, rng)]

    return cases


@cache
def load_suite(grader: Path, chapter_id: str) -> ModuleType:
    """``grader/suites/chNN.py`` as a module; DecodeLabError where the folder has none."""
    path = grader / "suites" / f"{chapter_id}.py"
    if not path.is_file():
        raise DecodeLabError(
            both(
                en=f"No hidden suite at {path}: run this from the course's repository.",
                zh=f"{path} 没有隐藏测试：请在课程仓库里运行。",
            )
        )
    spec = importlib.util.spec_from_file_location(f"decodelab_suite_{chapter_id}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def course_secret(folder: Path) -> bytes:
    """The course's secret, made on first use in ``folder/.decodelab/secret``; keep it and share it with no one."""
    path = folder / ".decodelab" / "secret"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    except FileExistsError:
        pass  # made before, perhaps by a process beside this one
    return path.read_bytes()


def student_seed(secret: bytes, chapter_id: str, student: str) -> int:
    """The seed of a student's hidden workloads, which nobody without the secret can work out."""
    digest = hmac.new(secret, f"{chapter_id}\n{student}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:6], "big")  # 48 bits: exact wherever it is read, spreadsheets included


def judge(
    chapter: Chapter,
    submission: Submission,
    todos: list[str] | None = None,
    *,
    cases: Cases | None = None,
    seconds: float = SECONDS,
    rung: Rung = LEARNER,
) -> list[TodoResult]:
    """Judge these TODOs (all by default), each in a process of its own at ``rung``, side by side."""
    wanted = [chapter.todo(t) for t in todos] if todos else list(chapter.todos)
    cases = cases or visible_cases(chapter)
    whole = splice.whole(chapter, submission)
    tasks = []
    for todo in wanted:  # spliced here: CPython's parser is not safe in several threads (gh-106905)
        trial = Trial(todo, chapter.checks.CHECKS[todo.id], cases(todo.id), seconds, rung)
        alone = splice.alone(chapter, submission, todo) if todo.answer in submission.answers else None
        tasks.append((trial, alone))
    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(judge_todo, trial, alone, whole) for trial, alone in tasks]
        results = [r.result() for r in running]
    for result in results:
        result.notes[:0] = submission.notes
    return results


@dataclass(frozen=True)
class Trial:
    """A TODO, and how it is tried."""

    todo: Todo
    check: Check
    cases: list[Case]
    seconds: float = SECONDS
    rung: Rung = LEARNER


def judge_todo(trial: Trial, alone: tuple[splice.Parts, list[str]] | None, whole: splice.Parts) -> TodoResult:
    """One TODO: with the reference around it, else (a design of the student's own) in the whole submission.

    ``alone``: as from ``splice.alone``; None where the submission has no such answer cell.
    """
    if alone is None:
        return TodoResult(trial.todo.id, "not_found", trial.todo.points)
    parts, left = alone
    result = attempt(parts, trial)
    if result.state != "failed":
        return result
    together = attempt(whole, trial)
    if together.state == "passed":
        together.notes.append(TOGETHER)
        return together
    if left and result.finding and result.finding.error in ("SyntaxError", "IndentationError", "TabError"):
        result.state, result.finding.text = "blocked", blocked_by(left, result.finding)
    return result if result.state == "blocked" else shrunk(result, parts, trial)


def blocked_by(left: list[str], finding: Finding) -> Text:
    """Why a TODO whose neighbours cannot be told apart from it cannot be judged."""
    others = ", ".join(left)
    return both(
        en=f"Python cannot read this cell, and without the marks `# TODO … # END` it cannot be told apart "
        f"from {others}. {finding.text['en']}",
        zh=f"Python 读不懂这个单元格；又因为缺少 `# TODO … # END` 标记，无法把它和 {others} 分开。{finding.text['zh']}",
    )


def shrunk(result: TodoResult, parts: splice.Parts, trial: Trial) -> TodoResult:
    """``result`` with the smallest workload that breaks the same rule."""
    finding = result.finding
    if not finding or not finding.case or "stuck" in finding.case:
        return result
    with (
        contextlib.suppress(StudentError, Stuck, Died),
        Student(parts, SHRINK_SECONDS, trial.rung) as student,
    ):

        def breaks(case: Case) -> Finding | None:
            try:
                found = trial.check(student, case)
            except StudentError as error:
                found = raised(error)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                return None  # shrunk to nonsense, not the student's doing
            return replace(found, case=case | {"shrunk": True}, printed=student.printed) if found else None

        result.finding = shrink(finding.case, breaks, finding.rule) or finding
    return result


def attempt(parts: splice.Parts, trial: Trial) -> TodoResult:
    """Load ``parts`` into a fresh runner and run the cases until one of them finds something."""
    todo = trial.todo
    result = TodoResult(todo.id, "passed", todo.points)
    student = Student(parts, trial.seconds, trial.rung)
    case: Case = {}
    try:
        with student:
            for case in trial.cases:
                result.cases += 1
                finding = trial.check(student, case)
                if finding:
                    return found(result, "failed", finding, case, student)
    except StudentError as error:
        return found(result, state_of(error, todo), raised(error), case, student)
    except Stuck as stuck:
        return found(result, "timed_out", no_end(todo, stuck, student, case), case, student)
    except Died as died:
        state = "out_of_memory" if student.out_of_memory else "died"
        return found(result, state, OUT_OF_MEMORY if student.out_of_memory else gone(died), case, student)
    return result


def state_of(error: StudentError, todo: Todo) -> str:
    """What an exception that no rule asked for means for this TODO."""
    if error.kind == "MemoryError":
        return "out_of_memory"
    return "not_started" if error.todo == todo.id else "failed"


def found(result: TodoResult, state: str, finding: Finding, case: Case, student: Student) -> TodoResult:
    """``result`` with what was found on ``case``."""
    result.state, result.finding = state, replace(finding, case=case, printed=student.printed)
    return result


def raised(error: StudentError) -> Finding:
    """An exception that no rule asked for."""
    if error.todo:
        return Finding(
            "written",
            both(en=f"TODO {error.todo} is not written yet.", zh=f"TODO {error.todo} 还没有写。"),
        )
    if error.kind == "MemoryError":
        return OUT_OF_MEMORY
    text = both(
        en=f"Your code raised {error.kind}: {error.message}",
        zh=f"你的代码抛出了 {error.kind}：{error.message}",
    )
    return Finding("no-exception", text, traceback=error.traceback, error=error.kind)


def no_end(todo: Todo, stuck: Stuck, student: Student, case: Case) -> Finding:
    """An answer that did not come back in time: where it was, and the queue at that moment."""
    if "stuck" in case:  # a case about speed says itself what slowness means
        return Finding(case["stuck"]["rule"], case["stuck"]["text"])
    timeline = stuck.seen.get("timeline")
    step = student.step if student.context else len(timeline) if isinstance(timeline, list) else None
    at = both(
        en=f" It had made {step} steps." if step is not None else "",
        zh=f" 当时已经走了 {step} 步。" if step is not None else "",
    )
    line = both(
        en=f" It was at the line: {stuck.line}" if stuck.line else "",
        zh=f" 当时执行到：{stuck.line}" if stuck.line else "",
    )
    text = both(
        en=f"TODO {todo.id} does not end (stopped after {student.seconds:g} s).{at['en']}{line['en']}",
        zh=f"TODO {todo.id} 不会结束（{student.seconds:g} 秒后被停止）。{at['zh']}{line['zh']}",
    )
    if student.context:
        return Finding("ends", text, state=student.context())
    queue = stuck.seen.get("queue")
    records = [r.fields for r in queue if isinstance(r, Record)] if isinstance(queue, list) else []
    return Finding("ends", text, state=records)


def gone(died: Died) -> Finding:
    """A runner that ended before it answered."""
    text = both(
        en=f"The process running your code ended before it answered (exit code {died.code}): "
        "it may have called exit, crashed, or answered something that is no answer.",
        zh=f"运行你代码的进程还没回答就结束了（退出码 {died.code}）："
        "可能调用了 exit、发生了崩溃，或者返回了无法理解的内容。",
    )
    return Finding("lives", text)
