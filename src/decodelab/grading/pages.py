"""What a student gets back: one page of HTML a chapter, in the student's language, nothing in it can act.

Everything that came from a submission is escaped, and the page's own policy (CSP) allows no script, no
request and no form; only inline styles.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from decodelab.check.feedback import MARKS, as_html, inline_markdown, state_name
from decodelab.check.rules import TodoResult
from decodelab.course import Chapter, load
from decodelab.grading.grade import Graded, for_student
from decodelab.lang import Text, say, speaking, tr

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """\
:root { color-scheme: light dark; --text: #1d1d1f; --soft: #6a6a70; --line: #dcdce0; --page: #fff; --raised: #f6f6f8;
  --passed: #007a58; --failed: #b84a00; --waiting: #6a6a70; --accent: #0063b1; }
@media (prefers-color-scheme: dark) { :root { --text: #ececf0; --soft: #a2a2aa; --line: #3c3c42; --page: #1b1b1e;
  --raised: #26262a; --passed: #3fc79a; --failed: #ff9a56; --waiting: #a2a2aa; --accent: #7cbcf5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 52rem; color: var(--text); background: var(--page);
  font: 16px/1.65 system-ui, -apple-system, "Segoe UI", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei",
  "Noto Sans CJK SC", "Source Han Sans SC", sans-serif; overflow-wrap: anywhere; }
body.wide { max-width: 76rem; }
h1 { font-size: 1.7rem; line-height: 1.3; margin: 0; text-wrap: balance; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .5rem 0; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace; font-size: .875em; }
code { background: var(--raised); padding: .1em .3em; border-radius: 4px; }
pre { background: var(--raised); padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap; line-height: 1.5; }
table { border-collapse: collapse; }
table.list { width: 100%; }
.list th { text-align: left; font-weight: 500; color: var(--soft); font-size: .875rem; }
.list th, .list td { padding: .5rem .75rem .5rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.list .number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 1.25rem; }
.list .number, .list .short { white-space: nowrap; }
.list tr > :last-child { padding-right: 0; }
.soft { color: var(--soft); font-size: .875rem; }
.next { border: 1px solid var(--line); border-radius: 10px; padding: .6rem 1.1rem .8rem; background: var(--raised); margin: 1.75rem 0; }
.next h2 { margin: .2rem 0; font-size: 1rem; }
.next code { background: var(--page); }
.scores { display: flex; flex-wrap: wrap; gap: 1rem 3rem; margin: 1.5rem 0; }
.scores div { min-width: 9rem; }
.scores b { font-size: 1.9rem; font-weight: 600; line-height: 1.2; font-variant-numeric: tabular-nums; }
.scores i { display: block; height: 4px; margin-top: .3rem; border-radius: 2px; background: var(--line); overflow: hidden; }
.scores i::before { content: ""; display: block; height: 100%; width: var(--share); background: var(--passed); }
.state { white-space: nowrap; }
.passed { color: var(--passed); } .failed { color: var(--failed); } .waiting { color: var(--waiting); }
.remark { padding-left: 16px; }
footer { margin-top: 2rem; }
section { overflow-x: auto; margin: 1rem 0 1.5rem; }
@media (max-width: 34rem) { body { padding-top: 1.5rem; } .list th, .list td { padding-right: .5rem; } .state { white-space: normal; } }
@media print { :root { color-scheme: light; --text: #000; --soft: #555; --line: #ccc; --page: #fff; --raised: #f4f4f4;
    --passed: #007a58; --failed: #b84a00; --waiting: #555; --accent: #000; }
  body { padding: 0; max-width: none; font-size: 11pt; } * { print-color-adjust: exact; }
  section, tr, .next { break-inside: avoid; } h2, h3 { break-after: avoid; } section { overflow: visible; } }
"""

PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))[\w@+-][\w.@+-]{0,79}(?<!\.)", re.I)


def document(title: str, body: str, style: str = "", kind: str = "") -> str:
    """A whole page in the language spoken now; ``title`` is text, ``body`` is HTML, ``kind`` a class."""
    return f"""\
<!DOCTYPE html>
<html lang="{tr(en="en", zh="zh-CN")}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{html.escape(title)}</title>
<style>
{STYLE}{style}</style>
</head>
<body class="{kind}">
{body}
</body>
</html>
"""


def prose(text: str) -> str:
    """Text with code spans as HTML; whatever else is in it stays text."""
    return inline_markdown(html.escape(text))


def isolated(name: str) -> str:
    """A name from outside as HTML, which keeps its writing direction to itself."""
    return f"<bdi>{html.escape(name)}</bdi>"


def write_feedback(graded: Graded, out: Path, name: str = "") -> Path:
    """Write ``out/feedback/{student}/{chapter}.html`` and return its path; ``name``: what to call the student."""
    path = out / feedback_path(graded.student, graded.chapter)
    path.parent.mkdir(parents=True, exist_ok=True)
    page = feedback_page(graded, load(graded.chapter), name)
    path.write_bytes(page.encode("utf-8", "backslashreplace"))
    return path


def feedback_path(student: str, chapter_id: str) -> Path:
    """Where a student's page lies below the output folder: an id that cannot name a folder gets a sum instead.

    Different ids have different paths: ``~`` is in no plain one.
    """
    folder = student
    if not PLAIN.fullmatch(student) or unicodedata.normalize("NFC", student) != student:
        kept = re.sub(r"[^A-Za-z0-9]+", "-", student)[:20].strip("-")
        digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        folder = f"{kept}~{digest}"
    return Path("feedback", folder, f"{chapter_id}.html")


def feedback_page(graded: Graded, chapter: Chapter, name: str = "") -> str:
    """The page of one student and chapter, in the language of the submission.

    graded: the whole verdict; what the student may not see of it is left out here.
    name: what to call the student beside the id.
    """
    with speaking(graded.lang):
        shared = [note for note in graded.todos[0].notes if all(note in r.notes for r in graded.todos)]
        about = graded.notes + [note for note in shared if note not in graded.notes]
        results = [replace(r, notes=[n for n in r.notes if n not in about]) for r in graded.todos]
        body = [
            header(graded, chapter, name),
            next_steps(results, chapter),
            notes_list(about),
            todo_table(results, chapter),
            details([for_student(r, chapter) for r in told(results)]),
            footer(graded),
        ]
        return document(f"{say(chapter.title)} · {name or graded.student}", "\n".join(filter(None, body)))


def header(graded: Graded, chapter: Chapter, name: str) -> str:
    """Chapter, student, and the points of the core and of the extension."""
    who = isolated(name) + f' <span class="soft">{isolated(graded.student)}</span>' if name else ""
    scores = "".join(score(level, graded.todos, chapter) for level in ("core", "extension"))
    return (
        f"<header><h1>{html.escape(say(chapter.title))}</h1><p>{who or isolated(graded.student)}</p>"
        f'<div class="scores">{scores}</div></header>'
    )


def level_name(level: str) -> str:
    """``core`` or ``extension`` in words."""
    return str(tr(en="Core", zh="核心") if level == "core" else tr(en="Extension", zh="扩展"))


def score(level: str, results: Sequence[TodoResult], chapter: Chapter) -> str:
    """Points of one level, and a bar; nothing where the chapter has no such TODO."""
    mine = [r for r in results if chapter.todo(r.todo).level == level]
    got, most = sum(r.points for r in mine), sum(r.max_points for r in mine)
    if not most:
        return ""
    return (
        f'<div><span class="soft">{level_name(level)}</span><br><b>{got:g}</b> / {most:g}'
        f'<i style="--share:{100 * got / most:.0f}%"></i></div>'
    )


def next_steps(results: Sequence[TodoResult], chapter: Chapter) -> str:
    """The box that says what to do now."""
    steps = "".join(f"<p>{prose(text)}</p>" for text in advice(results, chapter))
    return f'<div class="next"><h2>{tr(en="What to do next", zh="接下来做什么")}</h2>{steps}</div>'


def advice(results: Sequence[TodoResult], chapter: Chapter) -> list[str]:
    """One or two steps: what is wrong with the whole file, else the first TODO that is left, the core's first."""
    whole = whole_file(results)
    left = [r for r in results if r.state != "passed"]
    if whole or not left:
        return whole or [
            tr(
                en=f'Everything passes. Well done! Now read how the reference does it, `solution("{results[0].todo}")` '
                "and so on, and compare it with yours; then go on to the next chapter.",
                zh=f'全部通过，做得好！接下来可以看看参考实现：`solution("{results[0].todo}")`，依此类推，'
                "和自己的写法对照一下，然后进入下一章。",
            )
        ]
    left.sort(key=lambda r: (chapter.todo(r.todo).level != "core", r.state == "blocked"))
    first = left[0]
    steps = []
    if chapter.todo(first.todo).level != "core":
        steps.append(
            tr(
                en="The core is complete: that is all that later chapters need. What is left is the extension.",
                zh="核心部分已经全部完成，后面的章节只需要这些；剩下的是扩展部分。",
            )
        )
    steps.append(
        tr(
            en=f"Go to TODO {first.todo} in your notebook. What happened there is told below; change your code, run its "
            f'cell, then run `check("{first.todo}")`.',
            zh=f'打开 notebook，找到 TODO {first.todo}。下面写着那里发生了什么；改好代码、运行单元格，再运行 `check("{first.todo}")`。',
        )
    )
    return steps


def whole_file(results: Sequence[TodoResult]) -> list[str]:
    """What to do where every TODO is in the same state, and that is the file's fault or nobody's; else nothing."""
    state = results[0].state if len({r.state for r in results}) == 1 else ""
    if state == "unreadable":
        return [
            tr(
                en="Your file could not be opened, so nothing was judged: this says nothing about your code.",
                zh="你的文件打不开，所以什么都没有评：这和你的代码写得好不好无关。",
            ),
            tr(
                en="Open the notebook where you wrote it and look whether it is complete; save it, download it again "
                "as `.ipynb` and hand it in again. If you no longer can, show this page to your instructor.",
                zh="请在当初写作业的地方打开 notebook，确认内容完整，保存，重新下载成 `.ipynb`，再提交一次。"
                "如果已经不能提交，请把这一页给老师看。",
            ),
        ]
    if state == "not_found":
        return [
            tr(
                en="Your file opened, but none of this chapter's answers is in it. Is it another chapter's notebook, or "
                "a copy without your work? Hand in the one that holds the cells with `# TODO`.",
                zh="文件可以打开，但里面没有这一章的任何答案。是不是交成了别的章节，或者交了一份没写过的副本？"
                "请提交含有 `# TODO` 单元格的那一份。",
            )
        ]
    if state == "not_started":
        return [
            tr(
                en="This is the notebook as it was given out. Did you write your answers in another copy, or were they "
                "not saved? Then save that one and hand it in.",
                zh="这份 notebook 还是发下来时的样子。是不是写在了另一份副本里，或者没有保存？如果是，请保存那一份再提交。",
            ),
            tr(
                en=f"If you have not begun: start with TODO {results[0].todo}, it is a few lines. "
                f'`hint("{results[0].todo}", 1)` helps.',
                zh=f'如果还没有动手：从 TODO {results[0].todo} 开始，只要几行。`hint("{results[0].todo}", 1)` 会给你提示。',
            ),
        ]
    return []


def notes_list(notes: Sequence[Text]) -> str:
    """What was noticed about the file as a whole."""
    if not notes:
        return ""
    items = "".join(f"<li>{prose(say(note))}</li>" for note in notes)
    return f"<h2>{tr(en='About your file', zh='关于你的文件')}</h2><ul>{items}</ul>"


def todo_table(results: Sequence[TodoResult], chapter: Chapter) -> str:
    """Every TODO with its state and points."""
    heads = [("", "TODO"), ("", tr(en="State", zh="状态")), ("number", tr(en="Points", zh="得分"))]
    rows = [todo_row(r, chapter, r in told(results)) for r in results]
    head = "".join(f'<th class="{kind}">{text}</th>' for kind, text in heads)
    return f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def todo_row(result: TodoResult, chapter: Chapter, is_told: bool) -> str:
    """One TODO; its name leads to what happened, where that is told."""
    todo = chapter.todo(result.todo)
    name = f"{todo.id} · {html.escape(say(todo.title))}"
    if is_told:
        name = f'<a href="#{todo.check_id}">{name}</a>'
    level = f' <span class="soft">{level_name(todo.level)}</span>' if todo.level != "core" else ""
    return (
        f"<tr><td>{name}{level}</td><td>{state_mark(result.state)}</td>"
        f'<td class="number">{result.points:g} / {result.max_points:g}</td></tr>'
    )


def state_mark(state: str) -> str:
    """A state as a coloured mark and words."""
    quiet = ("not_started", "not_found", "unreadable", "blocked", "ungraded")
    kind = "waiting" if state in quiet else "passed" if state == "passed" else "failed"
    return f'<span class="state {kind}">{MARKS.get(state, "✗")}&nbsp;{html.escape(state_name(state))}</span>'


def told(results: Sequence[TodoResult]) -> list[TodoResult]:
    """The TODOs about which there is more to say than their state."""
    if whole_file(results):
        return []
    return [r for r in results if r.notes or r.state not in ("passed", "unreadable")]


def details(results: Sequence[TodoResult]) -> str:
    """What happened in these TODOs."""
    if not results:
        return ""
    sections = [
        f'<section id="{r.todo.replace(".", "-")}">{as_html(r)}{remark(r.state)}</section>' for r in results
    ]
    return f"<h2>{tr(en='What happened', zh='具体情况')}</h2>\n" + "\n".join(sections)


def remark(state: str) -> str:
    """What a state that is about the process, not about a rule, usually comes from."""
    remarks = {
        "timed_out": tr(
            en="Usually a loop whose condition never changes: look at what should make it end.",
            zh="通常是某个循环的条件一直不变：看看本该由什么让它结束。",
        ),
        "out_of_memory": tr(
            en="Usually something is appended in a loop that does not end, or a whole list is copied in every step.",
            zh="通常是在一个停不下来的循环里不断追加，或者每一步都复制整个列表。",
        ),
        "died": tr(
            en="Usually a call such as `exit()` or `quit()`, or recursion without an end. Take it out, and the rest is judged.",
            zh="通常是调用了 `exit()`、`quit()`，或者递归没有出口。去掉它，其余部分就能评了。",
        ),
        "blocked": tr(
            en="Your code here was not judged: put the other TODO right, and this one is tried again.",
            zh="这里的代码还没有评：先把另一个 TODO 改对，这一个会重新评。",
        ),
    }
    return f'<p class="soft remark">{prose(remarks[state])}</p>' if state in remarks else ""


def footer(graded: Graded) -> str:
    """By what it was judged; the seed stays with the instructor, since the workloads follow from it."""
    if all(r.state in ("unreadable", "not_found") for r in graded.todos):
        return ""
    text = tr(
        en=f"Judged on workloads of your own, by suite {graded.suite_version}, sandbox {graded.sandbox}.",
        zh=f"评分所用的负载因人而异；测试版本 {graded.suite_version}，沙箱 {graded.sandbox}。",
    )
    return f'<footer class="soft"><p>{html.escape(text)}</p></footer>'
