"""Chapters compose: what an earlier chapter built, in the learner's own hand where it is finished.

``chapter("ch05")`` is a module with the chapter's exports: the learner's saved code if every core TODO
has passed and still passes, otherwise the reference; one line says which. An extension that was not begun is the
reference's, for a later chapter may need it.
"""

from __future__ import annotations

import builtins
import linecache
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType

from decodelab import course
from decodelab.course import Chapter
from decodelab.grading import splice
from decodelab.grading.judge import Trial, attempt
from decodelab.grading.runner import NOTEBOOK, run_part
from decodelab.grading.suites import visible_cases
from decodelab.lang import Text, both, say
from decodelab.notebook.read import Submission
from decodelab.records import open_todos, passed


@cache
def chapter(chapter_id: str) -> ModuleType:
    """The exports of a chapter (``"ch01"``), loaded once a process; only its export cells are run."""
    data = course.load(str(chapter_id))
    own, reason = own_work(data)
    print(say(reason))
    parts = splice.whole(data, begun(data, own) if own else Submission({}, "", []))
    return load(f"decodelab_{data.id}", parts)


def own_work(data: Chapter) -> tuple[Submission | None, Text]:
    """The learner's finished code, or None; and the sentence that says which is used, and why."""
    if missing := open_todos(data):
        return None, both(
            en=f"{data.id}: the reference is used; {', '.join(missing)} not passed yet.",
            zh=f"{data.id}：使用参考实现；{'、'.join(missing)} 还没有通过。",
        )
    broken = ""
    for when, submission in saved(data):
        broken = first_broken(data, submission)
        if not broken:
            return submission, both(
                en=f"{data.id}: your own code is used, saved {when}.",
                zh=f"{data.id}：使用你自己的代码，保存于 {when}。",
            )
    return None, both(
        en=f"{data.id}: the reference is used; your saved code does not pass {broken}, check it again.",
        zh=f"{data.id}：使用参考实现；你保存的代码没有通过 {broken}，请重新检查。",
    )


def begun(data: Chapter, submission: Submission) -> Submission:
    """The submission with the reference in the TODOs that still say they are not written."""
    answers = dict(submission.answers)
    for todo in data.todos:
        if splice.written(answers.get(todo.answer, ""), todo.id) == [splice.stub(todo.id)]:
            filled = splice.replace_region(answers[todo.answer], todo.id, todo.code)
            answers[todo.answer] = filled or answers[todo.answer]
    return replace(submission, answers=answers)


def saved(data: Chapter) -> Iterator[tuple[str, Submission]]:
    """The different versions of the learner's code that passed something, newest first, with their time."""
    seen = []
    for record in sorted(passed(data.id).values(), key=lambda r: r.when, reverse=True):
        code = (record.answers, record.definitions)
        if code not in seen:
            seen.append(code)
            yield record.when.replace("T", " "), Submission(record.answers, record.definitions, [])


def first_broken(data: Chapter, submission: Submission) -> str:
    """The first core TODO whose visible checks the code, taken whole, does not pass; "" if none."""
    cases, parts = visible_cases(data), splice.whole(data, submission)
    for todo in data.todos:
        if todo.level == "core":
            result = attempt(parts, Trial(todo, data.checks.CHECKS[todo.id], cases(todo.id)))
            if result.state != "passed":
                return todo.id
    return ""


def load(name: str, parts: splice.Parts) -> ModuleType:
    """Run ``parts`` in a new module called ``name``; tracebacks quote its lines, dataclasses find it."""
    module = ModuleType(name)
    module.__dict__.update({k: v for k, v in NOTEBOOK.items() if not hasattr(builtins, k)})
    flags = 0
    sys.modules[name] = module
    for part in parts:
        file = f"<{name}: {part.name}>"
        linecache.cache[file] = (len(part.source), None, part.source.splitlines(keepends=True), file)
        flags = run_part(part.source, file, module.__dict__, flags)
    return module
