"""What an instructor reads after a batch: one page about the class, made of the verdicts alone.

The same verdicts give the same bytes: everything is sorted, nothing has a time.
"""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean, median
from typing import TYPE_CHECKING
from urllib.parse import quote

from decodelab.check.feedback import state_name
from decodelab.check.rules import Finding, TodoResult
from decodelab.course import Chapter, Todo, load
from decodelab.grading.grade import Graded
from decodelab.grading.pages import document, feedback_path, isolated, level_name, prose
from decodelab.grading.similarity import Line, Pair
from decodelab.lang import say, speaking, spoken, tr

if TYPE_CHECKING:  # the batch is told by this page
    from decodelab.grading.batch import Ungraded

STATES = (  # as they stand in a bar, from left to right
    "passed",
    "failed",
    "timed_out",
    "out_of_memory",
    "died",
    "blocked",
    "not_started",
    "not_found",
    "unreadable",
    "ungraded",
)
COLOURS = {  # Okabe and Ito's palette, which colour-blind readers can tell apart
    "passed": "#009e73",
    "failed": "#d55e00",
    "timed_out": "#e69f00",
    "out_of_memory": "#cc79a7",
    "died": "#882255",
    "blocked": "#0072b2",
    "not_started": "#c4c4c8",
    "not_found": "#94949c",
    "unreadable": "#5c5c64",
    "ungraded": "#1c1c20",
}
MOST_RULES = 3  # a TODO
MOST_PAIRS = 50
STYLE = """\
.bars { display: grid; grid-template-columns: repeat(11, 1fr); gap: .3rem; align-items: end; max-width: 46rem; margin: 1rem 0; }
.bars div { display: flex; flex-direction: column; justify-content: flex-end; height: 9rem; text-align: center; }
.bars i { display: block; background: #56b4e9; border-radius: 3px 3px 0 0; height: var(--height); min-height: 1px; }
.bars div:last-child i { background: #009e73; }
.bars span { font-size: .75rem; white-space: nowrap; }
.bars .soft { border-top: 1px solid var(--line); }
.stack { display: flex; height: .8rem; min-width: 10rem; border-radius: 3px; overflow: hidden; background: var(--line); margin-top: .45rem; }
.stack i { flex: var(--count) 0 0; background: var(--colour); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
.legend i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; background: var(--colour); margin-right: .4rem; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; } .two pre { margin: .3rem 0; overflow-x: auto; }
.scroll { overflow-x: auto; }
details { border-bottom: 1px solid var(--line); padding: .4rem 0; } summary { cursor: pointer; }
.list .text { min-width: 10rem; }
.warn { color: var(--failed); }
@media (max-width: 44rem) { .two { grid-template-columns: 1fr; } .bars { gap: .15rem; } .bars .soft { font-size: .55rem; } }
"""


def report_page(
    graded: Sequence[Graded], ungraded: Sequence[Ungraded], similar: Sequence[Pair], lang: str | None = None
) -> str:
    """The page about a batch: scores, TODOs, rules, what to look at, and every student.

    ungraded: submissions without a verdict (student, chapter, reason); similar: of ``similarity``.
    lang: ``"en"`` or ``"zh"``, by default the language spoken now. Links lead to ``pages.feedback_path``.
    """
    graded = sorted(graded, key=lambda g: (g.chapter, g.student))
    with speaking(lang or spoken()):
        title = tr(en="Grading report", zh="评分报告")
        body = [f"<h1>{title}</h1>", in_force(graded, len(ungraded)), waiting(ungraded)]
        for chapter_id in sorted({g.chapter for g in graded}):
            body.append(about_chapter([g for g in graded if g.chapter == chapter_id], load(chapter_id)))
        body += [noticed(graded), alike(similar), everybody(graded)]
        return document(title, "\n".join(filter(None, body)), STYLE, "wide")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: str) -> str:
    """A table of pieces of HTML; ``kinds`` has a letter a column: n number, s short, t text."""
    names = {"n": "number", "s": "short", "t": "text"}

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(f'<{tag} class="{names[k]}">{c}</{tag}>' for k, c in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="list"><thead><tr>{line("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'


def in_force(graded: Sequence[Graded], ungraded: int) -> str:
    """How many, in which sandboxes, by which suites; a warning where verdicts are not comparable."""
    counts = tr(
        en=f"{len(graded)} graded, {ungraded} ungraded", zh=f"已评分 {len(graded)} 份，未评分 {ungraded} 份"
    )
    if not graded:
        return f"<p>{counts}</p>"
    sandboxes = sorted({g.sandbox for g in graded})
    suites = sorted({(g.chapter, g.suite_version) for g in graded})
    lines = [
        counts,
        tr(en="Sandbox: ", zh="沙箱：") + html.escape(", ".join(sandboxes)),
        tr(en="Suites: ", zh="测试版本：") + html.escape(", ".join(f"{c} {v}" for c, v in suites)),
    ]
    body = f"<p>{' · '.join(lines)}</p>"
    if len(suites) > len({chapter for chapter, _ in suites}):
        body += warning(
            tr(
                en="Verdicts of different suites are mixed here: grade all of them again before you compare.",
                zh="这里混有不同测试版本的结果：比较之前请全部重新评分。",
            )
        )
    if "none" in sandboxes:
        body += warning(
            tr(
                en="Some were graded without a sandbox: their verdicts can have been forged.",
                zh="有的提交是在没有沙箱的情况下评分的：这些结果有可能是伪造的。",
            )
        )
    return body


def warning(text: str) -> str:
    """A sentence that should not be overlooked."""
    return f'<p class="warn">⚠ {html.escape(text)}</p>'


def waiting(ungraded: Sequence[Ungraded]) -> str:
    """Submissions without a verdict, and why: none of these is a zero."""
    if not ungraded:
        return ""
    title = tr(en="Not graded yet", zh="尚未评分")
    text = tr(
        en="These have no verdict, which is not a zero. Put the reason right and run the same command again.",
        zh="这些提交还没有结果，不等于零分。解决原因之后，把同一条命令再运行一次即可。",
    )
    heads = [tr(en="Student", zh="学生"), tr(en="Chapter", zh="章节"), tr(en="Reason", zh="原因")]
    ordered = sorted(ungraded, key=lambda one: (one.chapter, one.student))
    rows = [[isolated(u.student), html.escape(u.chapter), prose(say(u.reason))] for u in ordered]
    return f"<h2>{title}</h2><p>{text}</p>{table(heads, rows, 'tst')}"


# One chapter -----------------------------------------------------------------------------------------


def about_chapter(graded: Sequence[Graded], chapter: Chapter) -> str:
    """Scores, states and rules of one chapter."""
    by_todo = {todo.id: [r for g in graded for r in g.todos if r.todo == todo.id] for todo in chapter.todos}
    return "\n".join(
        [
            f"<h2>{html.escape(say(chapter.title))}</h2>",
            distribution(graded, chapter),
            state_table(by_todo, chapter),
            rule_table(by_todo, chapter),
        ]
    )


def points(graded: Graded, chapter: Chapter, level: str) -> tuple[float, float]:
    """What a student has of a level, and could have."""
    mine = [r for r in graded.todos if chapter.todo(r.todo).level == level]
    return sum(r.points for r in mine), sum(r.max_points for r in mine)


def distribution(graded: Sequence[Graded], chapter: Chapter) -> str:
    """The core's scores as bars of ten per cent each, full marks apart; mean and median."""
    scores = [points(g, chapter, "core") for g in graded]
    shares = [100 * got / most for got, most in scores if most]
    if not shares:
        return ""
    bins = Counter(min(int(share) // 10, 10) for share in shares)
    highest = max(bins.values())
    bars = "".join(
        f"<div><span>{bins[b] or ''}</span>"
        f'<i style="--height:{90 * bins[b] / highest:.0f}%"></i>'
        f'<span class="soft">{"100" if b == 10 else f"{10 * b}–{10 * b + 9}"}</span></div>'
        for b in range(11)
    )
    got, most = [g for g, _ in scores], scores[0][1]
    summary = tr(
        en=f"Core scores in per cent, {len(scores)} students. Mean {mean(got):.1f} and median {median(got):g} of {most:g} points.",
        zh=f"核心部分得分率（百分比），共 {len(scores)} 人。满分 {most:g} 分，平均 {mean(got):.1f} 分，中位数 {median(got):g} 分。",
    )
    return f'<p>{summary}</p><div class="bars">{bars}</div>'


def state_table(by_todo: dict[str, list[TodoResult]], chapter: Chapter) -> str:
    """How many are in which state, TODO by TODO."""
    seen = [s for s in STATES if any(r.state == s for rs in by_todo.values() for r in rs)]
    legend = "".join(
        f'<span><i style="--colour:{COLOURS[s]}"></i>{html.escape(state_name(s))}</span>' for s in seen
    )
    rows = []
    for todo in chapter.todos:
        counts = Counter(r.state for r in by_todo[todo.id])
        stack = "".join(
            f'<i style="--count:{counts[s]};--colour:{COLOURS[s]}"></i>' for s in seen if counts[s]
        )
        rows.append(
            [todo_name(todo), f'<div class="stack">{stack}</div>', *(str(counts[s] or "·") for s in seen)]
        )
    heads = ["TODO", "", *(html.escape(state_name(s)) for s in seen)]
    return f'<p class="legend soft">{legend}</p>{table(heads, rows, "tt" + "n" * len(seen))}'


def todo_name(todo: Todo) -> str:
    """Id, title and, for the extension, level."""
    level = f' <span class="soft">{level_name(todo.level)}</span>' if todo.level != "core" else ""
    return f"{todo.id} · {html.escape(say(todo.title))}{level}"


def rule_table(by_todo: dict[str, list[TodoResult]], chapter: Chapter) -> str:
    """The rules that fail most, TODO by TODO, with one student's message and the hint that helps."""
    rows = []
    for todo in chapter.todos:
        broken: dict[str, list[Finding]] = defaultdict(list)
        for result in by_todo[todo.id]:
            if result.rule and result.finding:
                broken[result.rule].append(result.finding)
        often = sorted(broken.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_RULES]
        rows += [[todo.id, *rule_cells(rule, findings, todo)] for rule, findings in often]
    if not rows:
        return ""
    heads = ["TODO", tr(en="Rule", zh="规则"), tr(en="Students", zh="人数")]
    heads += [
        tr(en="As one student saw it", zh="某位学生看到的说明"),
        tr(en="Hint that helps", zh="对应的提示"),
    ]
    return f"<h3>{tr(en='Which rules fail most', zh='最常违反的规则')}</h3>{table(heads, rows, 'ssntt')}"


def rule_cells(rule: str, findings: Sequence[Finding], todo: Todo) -> list[str]:
    """Rule, count, the message that most of them got, the hint that most of them need."""
    messages = Counter(say(f.text) for f in findings)
    levels = Counter(f.hint for f in findings)
    message = min(messages, key=lambda text: (-messages[text], len(text), text))
    hints = todo.hints[spoken()]
    level = min(max(min(levels, key=lambda n: (-levels[n], n)), 1), len(hints))
    hint = f"{level}. {hints[level - 1]}"
    return [f"<code>{html.escape(rule)}</code>", str(len(findings)), prose(cut(message, 300)), prose(hint)]


def cut(text: str, most: int) -> str:
    """``text`` or its beginning."""
    return text if len(text) <= most else text[: most - 1] + "…"


# All chapters ----------------------------------------------------------------------------------------


def noticed(graded: Sequence[Graded]) -> str:
    """What was noted while submissions were read, and whose they are."""
    whose: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in graded:
        for note in [*one.notes, *(n for r in one.todos for n in r.notes)]:
            whose[one.chapter, say(note)].add(one.student)
        if missing := [r.todo for r in one.todos if r.state == "not_found"]:
            text = tr(en=f"Not found: {', '.join(missing)}", zh=f"没有找到：{'、'.join(missing)}")
            whose[one.chapter, text].add(one.student)
    if not whose:
        return ""
    rows = [
        [html.escape(chapter), prose(cut(note, 300)), str(len(students)), named(sorted(students))]
        for (chapter, note), students in sorted(
            whose.items(), key=lambda item: (item[0][0], -len(item[1]), item[0])
        )
    ]
    heads = [tr(en="Chapter", zh="章节"), tr(en="Note", zh="说明")]
    heads += [tr(en="Number", zh="人数"), tr(en="Students", zh="学生")]
    return f"<h2>{tr(en='Noticed while reading', zh='读取时注意到的')}</h2>{table(heads, rows, 'stnt')}"


def named(students: Sequence[str], most: int = 8) -> str:
    """The first few by name, the others as a number."""
    shown = ", ".join(map(isolated, students[:most]))
    return shown if len(students) <= most else f"{shown} … (+{len(students) - most})"


def alike(similar: Sequence[Pair]) -> str:
    """Pairs to read side by side."""
    title = f"<h2>{tr(en='Written alike', zh='写法相近')}</h2>"
    if not similar:
        nobody = tr(en="No two submissions are conspicuously alike.", zh="没有两份提交相近到需要留意。")
        return f"{title}<p>{nobody}</p>"
    text = tr(
        en="Read these side by side: much of what these two wrote is the same, names and comments aside, and stands "
        "neither in the starter nor in the reference. That is a reason to look and to ask, not a verdict.",
        zh="这些提交请并排读一读：撇开命名和注释，两人自己写的部分大多相同，而且既不在初始代码里，也不在参考实现里。"
        "这只说明值得看一看、问一问，不是结论。",
    )
    ordered = sorted(similar, key=lambda p: (p.chapter, -p.share, -p.tokens, p.first, p.second))
    pairs = "".join(map(pair, ordered[:MOST_PAIRS]))
    rest = f"<p>… (+{len(similar) - MOST_PAIRS})</p>" if len(similar) > MOST_PAIRS else ""
    return f"{title}<p>{text}</p>{pairs}{rest}"


def pair(alike: Pair) -> str:
    """Two students and the lines that they share, closed until somebody looks."""
    share = tr(
        en=f"{alike.share:.0%} of what the one with less wrote, {alike.tokens} tokens",
        zh=f"占写得较少一方的 {alike.share:.0%}，{alike.tokens} 个 token",
    )
    sides = zip((alike.first, alike.second), (alike.first_lines, alike.second_lines), strict=True)
    columns = "".join(f"<div>{isolated(who)}<pre>{excerpt(lines)}</pre></div>" for who, lines in sides)
    return (
        f"<details><summary>{html.escape(alike.chapter)} {isolated(alike.first)} · {isolated(alike.second)} "
        f'<span class="soft">{share}</span></summary><div class="two">{columns}</div></details>'
    )


def excerpt(lines: Sequence[Line], most: int = 60) -> str:
    """Numbered lines, a gap where some are left out."""
    parts, before = [], lines[0][0] - 1 if lines else 0
    for number, text in lines[:most]:
        if number != before + 1:
            parts.append("  ⋮")
        parts.append(f"{number:>3}  {html.escape(cut(text, 160))}")
        before = number
    return "\n".join(parts + (["  …"] if len(lines) > most else []))


def everybody(graded: Sequence[Graded]) -> str:
    """Every student's points, and the way to the page that the student gets."""
    if not graded:
        return ""
    rows = []
    for one in graded:
        chapter = load(one.chapter)
        scores = [points(one, chapter, level) for level in ("core", "extension")]
        link = quote(feedback_path(one.student, one.chapter).as_posix())
        cells = [f"{got:g} / {most:g}" if most else "" for got, most in scores]
        left = [f"{r.todo} {r.rule or state_name(r.state)}" for r in one.todos if r.state != "passed"]
        rows.append(
            [
                f'<a href="{link}">{isolated(one.student)}</a>',
                one.chapter,
                *cells,
                html.escape(", ".join(left)),
            ]
        )
    heads = [
        tr(en="Student", zh="学生"),
        tr(en="Chapter", zh="章节"),
        level_name("core"),
        level_name("extension"),
    ]
    heads.append(tr(en="What is left", zh="未通过的"))
    return f"<h2>{tr(en='Students', zh='学生')}</h2>{table(heads, rows, 'tsnnt')}"
