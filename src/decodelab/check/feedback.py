"""What a check found, told in the language spoken now: as text for a terminal, as HTML for a page."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decodelab.check.rules import Finding, TodoResult
from decodelab.course import chapter_ids, load
from decodelab.lang import say, spoken, tr
from decodelab.show.tell import plain, table_text

MARKS = {"passed": "✓", "not_started": "○"}  # every other state: ✗
LETTERS = {"prefill_to_decode": "P", "decode_one_step": "D", "finish": "F"}
COLOURS = {"P": "#e69f00", "D": "#56b4e9", "F": "#009e73", "": "#bbbbbb"}  # as show.plots draws them
SHOWN_EVENTS = 40  # around the place where two sequences part


@dataclass
class Block:
    """One piece of feedback: ``head``, ``text``, ``hint`` (Markdown), or with rows ``code``, ``strip``, ``table``."""

    kind: str
    text: str = ""
    rows: Sequence[Any] = ()
    mark: int | None = None  # in a strip: the column where the sequences part


def state_name(state: str) -> str:
    """A state in words."""
    names = {
        "passed": tr(en="passed", zh="通过"),
        "failed": tr(en="not yet", zh="还没有通过"),
        "not_started": tr(en="not started", zh="尚未开始"),
        "timed_out": tr(en="does not end", zh="没有结束"),
        "out_of_memory": tr(en="out of memory", zh="内存超限"),
        "blocked": tr(en="blocked by another TODO", zh="受其他 TODO 阻碍"),
        "unreadable": tr(en="the file cannot be read", zh="文件无法读取"),
        "died": tr(en="the process died", zh="进程中途退出"),
        "not_found": tr(en="not found", zh="没有找到"),
    }
    return str(names[state])


def blocks(result: TodoResult, terminal: bool = False) -> list[Block]:
    """The feedback on one TODO, piece by piece; what to type next as a call, on a ``terminal`` as a command."""
    todo = load(result.todo).todo(result.todo)
    mark, name = MARKS.get(result.state, "✗"), state_name(result.state)
    out = [Block("head", f"{mark} {result.todo} {say(todo.title)}{tr(en=': ', zh='：')}{name}")]
    out += [Block("text", say(note)) for note in result.notes]
    if result.state == "not_found":
        where = tr(
            en=f"This file has no cell with `# TODO {result.todo}`.",
            zh=f"这个文件里没有 `# TODO {result.todo}` 所在的单元格。",
        )
        return [*out, Block("text", where)]
    if result.state == "passed" or result.finding is None:
        return out
    if result.state == "not_started":
        start = tr(
            en=f"Replace `raise TodoError(...)` with about {todo.lines} line{'s' if todo.lines > 1 else ''} of yours, run the cell, check again. "
            f"Stuck? {hint_call(todo.id, 1, terminal)}",
            zh=f"把 `raise TodoError(...)` 换成你的代码（约 {todo.lines} 行），运行单元格，再检查一次。"
            f"没有思路？{hint_call(todo.id, 1, terminal)}",
        )
        return [*out, Block("text", start)]
    return out + evidence(result.todo, result.finding) + help_block(todo.id, result.finding, terminal)


def hint_call(todo_id: str, level: int, terminal: bool) -> str:
    """How to ask for a hint, where the learner is."""
    return f"`decodelab hint {todo_id} {level}`" if terminal else f'`hint("{todo_id}", {level})`'


def evidence(todo_id: str, finding: Finding) -> list[Block]:
    """Rule, words, case, the two sequences, the queue, the learner's own lines."""
    rule = tr(en="Rule ", zh="规则 ") + finding.rule + tr(en=": ", zh="：") + say(finding.text)
    out = [Block("text", rule)]
    if finding.case.get("name"):
        small = (
            tr(en=" (cut down to the smallest)", zh="（已缩减到最小）") if finding.case.get("shrunk") else ""
        )
        title = tr(en="Workload", zh="负载") + f" {finding.case['name']}{small}"
        out.append(Block("code", title, case_lines(todo_id, finding)))
    if finding.at is not None:
        out.append(strip_block(finding))
    if finding.state:
        title = tr(en="Active requests at that moment", zh="当时的活跃请求")
        out.append(Block("table", say(finding.label or title), table_rows(finding.state)))
    if finding.traceback:
        out.append(
            Block("code", tr(en="Where it happened", zh="出错位置"), own_lines(finding.traceback, todo_id))
        )
    if finding.printed.strip():
        title = tr(en="Your code printed (the end of it)", zh="你的代码打印的内容（末尾部分）")
        out.append(Block("code", title, finding.printed.rstrip().split("\n")[-12:]))
    return out


FRAME = re.compile(r'  File "(?P<part>[^"]+)"(?:, line (?P<line>\d+))?(?:, in (?P<function>\S+))?')


def own_lines(traceback: str, todo_id: str = "") -> list[str]:
    """A traceback in the learner's language, its places named as a learner knows them."""
    return [FRAME.sub(lambda frame: place(frame, todo_id), line) for line in traceback.rstrip().split("\n")]


def place(frame: re.Match[str], todo_id: str) -> str:
    """The place of one frame: the reference, or a cell of the learner's by the TODO in it, ``todo_id`` before others."""
    part, line, function = frame["part"], frame["line"], frame["function"]
    cell = part.removesuffix(", reference")
    todos = [t.id for c in map(load, chapter_ids()) for t in c.todos if t.answer == cell]
    if part != cell or cell == "given":
        where = tr(en="the reference", zh="参考实现")
    elif todos:
        named = todo_id if todo_id in todos else todos[0]
        where = tr(en=f"the cell with TODO {named}", zh=f"写着 TODO {named} 的单元格")
    else:
        where = tr(en="your other cells", zh="你的其他单元格")
    at = tr(en=f"line {line} of {where}", zh=f"{where}第 {line} 行") if line and todos else where
    inside = tr(en=f", in {function}", zh=f"，{function} 里") if function and function != "<module>" else ""
    return f"{at}{inside}"


def strip_block(finding: Finding) -> Block:
    """Spec and yours, event by event, cut to the neighbourhood of the difference; without a spec, yours."""
    at = (finding.at or 0) - finding.first
    cut = max(0, at - SHOWN_EVENTS // 2)
    window = slice(cut, cut + SHOWN_EVENTS)
    legend = tr(
        en=" (request id + P prefill, D decode, F finish):", zh="（请求 id + P 预填充，D 解码，F 完成）："
    )
    number = at + finding.first + 1
    parting = tr(
        en=f"The sequences differ from event {number} on", zh=f"两个序列从第 {number} 个事件开始不同"
    )
    wrong = tr(
        en=f"Up to the first wrong event, number {number}", zh=f"到第一个出错的事件（第 {number} 个）为止"
    )
    rows = [
        (tr(en="required", zh="要求"), [symbol(e) for e in finding.want[window]]),
        (tr(en="yours", zh="你的"), [symbol(e) for e in finding.got[window]]),
    ]
    kept = rows if finding.want else rows[1:]
    return Block("strip", (parting if finding.want else wrong) + legend, kept, mark=at - cut)


def symbol(event: Any) -> str:
    """A short name of an event: ``3P``; of anything else the beginning of its repr."""
    action = event.get("action") if isinstance(event, dict) else None
    if isinstance(action, str) and action in LETTERS:
        return f"{str(event.get('request_id'))[:12]}{LETTERS[action]}"
    return repr(event)[:12]


def case_lines(todo_id: str, finding: Finding) -> list[str]:
    """A workload as the calls it makes, in the words of the chapter's own ``shown``; the one that failed marked."""
    lines = load(todo_id).checks.shown(finding.case)
    if finding.call in lines:
        lines = [("→ " if line == finding.call else "  ") + line for line in lines]
    return lines if len(lines) <= 16 else [*lines[:15], f"… ({len(lines)})"]


def table_rows(state: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A header and a line a request, at most a dozen."""
    names = list(dict.fromkeys(k for r in state for k in r))
    rows = [[str(r.get(n, "")) for n in names] for r in state[:12]]
    return [names, *rows, *([["…"] + [""] * (len(names) - 1)] if len(state) > 12 else [])]


def help_block(todo_id: str, finding: Finding, terminal: bool) -> list[Block]:
    """The hint that fits, and how to go on; the third one is nearly the code and is never shown unasked."""
    hints = load(todo_id).todo(todo_id).hints[spoken()]
    level = min(finding.hint, 2)
    more = hint_call(todo_id, level + 1, terminal)
    if not level:
        return []
    return [
        Block(
            "hint",
            tr(
                en=f"Hint {level}: {hints[level - 1]} (More: {more})",
                zh=f"提示 {level}：{hints[level - 1]}（更多：{more}）",
            ),
        )
    ]


def as_text(result: TodoResult, terminal: bool = False) -> str:
    """The feedback as plain text."""
    lines: list[str] = []
    for block in blocks(result, terminal):
        indent = "" if block.kind == "head" else "  "
        text = plain(block.text) if block.kind == "hint" else block.text
        lines += [indent + line for line in text.split("\n")]
        if block.kind == "code":
            lines += ["      " + line for line in block.rows]
        elif block.kind == "table":
            lines += ["      " + line for line in columns(block.rows)]
        elif block.kind == "strip":
            lines += ["      " + line for line in strip_lines(block)]
    return "\n".join(lines)


def strip_lines(block: Block) -> list[str]:
    """Labels and events in columns, and a mark under the first difference."""
    widest = max(len(events) for _, events in block.rows)
    rows = [[label, *events, *[""] * (widest - len(events))] for label, events in block.rows]
    return columns(
        [*rows, ["", *["^" if i == block.mark else "" for i in range(max(widest, (block.mark or 0) + 1))]]]
    )


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of different lengths as text in aligned columns."""
    count = max(len(r) for r in rows)
    head, *rest = [[*r, *[""] * (count - len(r))] for r in rows]
    return table_text(head, rest).split("\n")


def as_html(result: TodoResult) -> str:
    """The feedback as a self-contained piece of HTML; everything in it is escaped."""
    colour = {"passed": "#009e73", "not_started": "#777777"}.get(result.state, "#d55e00")
    parts = [html_block(block) for block in blocks(result)]
    return (
        f'<div lang="{spoken()}" style="border-left:4px solid {colour};padding:2px 12px;margin:6px 0;'
        f'line-height:1.5">{"".join(parts)}</div>'
    )


def html_block(block: Block) -> str:
    """One block as HTML."""
    text = html.escape(block.text)
    if block.kind == "head":
        return f"<div><b>{text}</b></div>"
    if block.kind == "code":
        lines = html.escape("\n".join(block.rows))
        return f'<div>{text}</div><pre style="margin:2px 0 6px 12px;white-space:pre-wrap">{lines}</pre>'
    if block.kind == "table":
        return f"<div>{text}</div>{html_table(block.rows)}"
    if block.kind == "strip":
        return f"<div>{text}</div>{html_strip(block)}"
    return f"<div>{inline_markdown(text)}</div>"


def inline_markdown(escaped: str) -> str:
    """Code spans and emphasis of a hint, in text that is escaped already."""
    parts = re.split(r"`([^`\n]+)`", escaped)
    prose = [re.sub(r"(\*{1,2})(?=\S)([^*\n]+?)(?<=\S)\1", r"<b>\2</b>", p) for p in parts[::2]]
    code = [f"<code>{c}</code>" for c in parts[1::2]]
    return "".join(p + c for p, c in zip(prose, [*code, ""], strict=True))


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """A small table, its first row the header."""
    cell = "padding:1px 8px;text-align:left;border-bottom:1px solid #ddd"
    lines = [
        "<tr>" + "".join(f'<{tag} style="{cell}">{html.escape(c)}</{tag}>' for c in row) + "</tr>"
        for tag, row in zip(["th"] + ["td"] * (len(rows) - 1), rows, strict=True)
    ]
    return f'<table style="margin:2px 0 6px 12px;border-collapse:collapse;font-size:90%">{"".join(lines)}</table>'


def html_strip(block: Block) -> str:
    """Two rows of coloured cells, the first difference framed."""
    lines = []
    for label, events in block.rows:
        cells = "".join(html_event(e, i == block.mark) for i, e in enumerate(events))
        lines.append(f'<tr><td style="padding-right:8px">{html.escape(label)}</td>{cells}</tr>')
    return f'<div style="overflow-x:auto"><table style="margin:2px 0 6px 12px">{"".join(lines)}</table></div>'


def html_event(name: str, framed: bool) -> str:
    """One event as a coloured cell."""
    colour = COLOURS.get(name[-1:], COLOURS[""])
    frame = "outline:3px solid #d55e00;" if framed else ""
    style = f"background:{colour};color:#000;text-align:center;padding:1px 5px;font-family:monospace;{frame}"
    return f'<td style="{style}">{html.escape(name)}</td>'
