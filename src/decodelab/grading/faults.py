"""What is found where no rule was broken in the open: an exception, no end, no process; and the words for it."""

from __future__ import annotations

import re

from decodelab.check.rules import Finding, Record, StudentError
from decodelab.course import Todo
from decodelab.grading.splice import Parts
from decodelab.grading.student import Died, Stuck, Student
from decodelab.lang import Text, both

SYNTAX = ("SyntaxError", "IndentationError", "TabError")
OUT_OF_MEMORY = Finding(
    "memory",
    both(
        en="Your code asked for more memory than it may use: is there a list that grows without end?",
        zh="你的代码占用的内存超过了上限：是不是有一个列表在无止境地变长？",
    ),
    hint=0,
)
UNDEFINED = re.compile(r"name '(\w+)' is not defined\W?.*")
WHERE = re.compile(
    r" \([^()]*, line \d+\)$"
)  # which Python adds in numbers of the code that was put together
CONFLICT = re.compile(r"^\s*(<{7}|={7}|>{7})( |$)", re.MULTILINE)
FRAME = re.compile(r'File "(?P<part>[^"]+)", line (?P<line>\d+)')
WHOLE_FRAME = re.compile(r'^  File "(?P<part>[^"]+)", line \d+, in .*\n(?: {4}.*\n)*', re.MULTILINE)


def not_written(todo_id: str) -> Finding:
    """A TODO that nobody has written yet."""
    text = both(en=f"TODO {todo_id} is not written yet.", zh=f"TODO {todo_id} 还没有写。")
    return Finding("written", text, hint=0)


def unfinished(todo: Todo) -> Finding:
    """Code was written, but the line that says "not written" is still there."""
    return Finding(
        "written",
        both(
            en=f'There is code of yours in TODO {todo.id}, but `raise TodoError("{todo.id}")` is still there: '
            "delete that line.",
            zh=f'TODO {todo.id} 里已经有你的代码，但 `raise TodoError("{todo.id}")` 这一行还留着：把它删掉。',
        ),
        hint=0,
    )


def blocked(left: list[str], finding: Finding) -> Finding:
    """A TODO that cannot be judged because its neighbours cannot be told apart from it."""
    others = ", ".join(left)
    text = both(
        en="Python cannot read this cell, and without the marks `# TODO … # END` it cannot be told apart "
        f"from {others}. {finding.text['en']}",
        zh=f"Python 读不懂这个单元格；又因为缺少 `# TODO … # END` 标记，无法把它和 {others} 分开。{finding.text['zh']}",
    )
    return Finding("blocked", text, traceback=finding.traceback, error=finding.error, hint=0)


def raised(error: StudentError, parts: Parts) -> Finding:
    """An exception that no rule asked for, with the lines as they are numbered in the student's own cell."""
    if error.todo:
        return not_written(error.todo)
    if error.kind == "MemoryError":
        return OUT_OF_MEMORY
    if error.kind == "Missing":
        return missing(error.message)
    if name := unknown_to_us(error, parts):
        return missing(name)
    message = WHERE.sub("", error.message) if error.kind in SYNTAX else error.message
    text = both(
        en=f"Your code raised {error.kind}: {message}{advice(error)['en']}",
        zh=f"你的代码抛出了 {error.kind}：{message}{advice(error)['zh']}",
    )
    lines = renumbered(error.traceback, parts)
    return Finding("no-exception", text, traceback=lines, error=error.kind, hint=0)


def missing(name: str) -> Finding:
    """A name that the course calls and the answer no longer has."""
    text = both(
        en=f"{name} is not there: the names of classes, methods and functions must stay as they were given.",
        zh=f"找不到 {name}：类、方法和函数的名字不能改。",
    )
    return Finding("names-stay", text, hint=0)


def unknown_to_us(error: StudentError, parts: Parts) -> str:
    """The name that a check's own code, not the student's, found undefined; "" where that is not what happened."""
    name = UNDEFINED.fullmatch(error.message) if error.kind == "NameError" else None
    places = FRAME.findall(error.traceback)
    return name[1] if name and places and places[-1][0] not in {p.name for p in parts} else ""


def advice(error: StudentError) -> Text:
    """What an exception of this kind usually means here; empty where nothing does."""
    if error.kind in SYNTAX and CONFLICT.search(error.traceback):
        return both(
            en=". The cell holds git conflict marks (<<<<<<<, =======, >>>>>>>): keep one of the two versions and "
            "delete the marks",
            zh="。单元格里有 git 冲突标记（<<<<<<<、=======、>>>>>>>）：两个版本只保留一个，并删掉这些标记",
        )
    if error.kind == "TypeError" and "object is not callable" in error.message:
        return both(
            en=". A property is read without parentheses: `req.done`, not `req.done()`",
            zh="。属性不加括号：写 `req.done`，不写 `req.done()`",
        )
    return both(en="", zh="")


def origin(finding: Finding) -> tuple[str, str]:
    """Which exception it was and the line that raised it; ("", "") where none did."""
    lines = [line for line in finding.traceback.split("\n") if line.lstrip().startswith("File ")]
    return finding.error, lines[-1] if lines else ""


def renumbered(traceback: str, parts: Parts) -> str:
    """A traceback whose line numbers are those of the student's own cells, the reference's lines said so.

    The frames of the check that called are left out.
    """
    known = {p.name: p for p in parts}

    def own(match: re.Match[str]) -> str:
        part = known.get(match["part"])
        if part is None:
            return match[0]
        number = part.line(int(match["line"]))
        return f'File "{part.name}", line {number}' if number else f'File "{part.name}, reference"'

    return FRAME.sub(
        own, WHOLE_FRAME.sub(lambda match: match[0] if match["part"] in known else "", traceback)
    )


def no_end(todo: Todo, stuck: Stuck, student: Student, parts: Parts) -> Finding:
    """An answer that did not come back in time: where it was, and the queue at that moment."""
    timeline, queue = stuck.seen.get("timeline"), stuck.seen.get("queue")
    step = student.step if student.context else len(timeline) if isinstance(timeline, list) else None
    line = where(todo, stuck, parts)
    text = both(
        en=f"TODO {todo.id} does not end (stopped after {student.seconds:g} s)"
        + (f"; it had made {step} steps" if step is not None else "")
        + (f" and was at: {line}" if line else "."),
        zh=f"TODO {todo.id} 不会结束，跑了 {student.seconds:g} 秒后被停止"
        + (f"；当时已经走了 {step} 步" if step is not None else "")
        + (f"，停在：{line}" if line else "。"),
    )
    records = [r.fields for r in queue if isinstance(r, Record)] if isinstance(queue, list) else []
    label = both(en="The queue at that moment", zh="当时的队列")
    return Finding("ends", text, state=student.context() if student.context else records, label=label, hint=0)


def where(todo: Todo, stuck: Stuck, parts: Parts) -> str:
    """The line that code was on: the innermost in the TODO's own function, else the innermost of the student's."""
    known = {p.name: p for p in parts}
    own = [f for f in stuck.stack if f[0] in known and known[f[0]].numbers and known[f[0]].line(f[1])]
    in_todo = [f for f in own if f[2] == todo.symbol.split(".")[-1]]
    return (in_todo or own)[-1][3] if own else ""


def gone(died: Died) -> Finding:
    """A runner that ended before it answered."""
    text = both(
        en=f"The process running your code ended before it gave a result (exit code {died.code}): "
        "it may have called exit, crashed, or answered something that is no answer.",
        zh=f"运行你代码的进程没给出结果就退出了（退出码 {died.code}）："
        "可能调用了 exit、发生了崩溃，或者返回了无法理解的内容。",
    )
    return Finding("lives", text, hint=0)
