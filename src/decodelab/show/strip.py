"""The event strip: a row a request, a column a step.

An event with a ``step`` stands in that step's column, where several may be. Without, events are one a step and
counted from 1: ``timeline[i]`` is step ``i + 1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from decodelab.lang import Text, both
from decodelab.show.common import (
    FEWEST,
    FONT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    ROOMY,
    SKY,
    VERMILLION,
    boxes,
    described,
    label,
    new_figure,
    on,
    quiet,
    rank,
    wide,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Look:
    """How an action is drawn: a tile ``height`` rows high, hatched or plain, with a dot at its end or without."""

    colour: str
    height: float
    edge: str = "white"  # also of the hatch
    hatch: str = ""
    dot: bool = False
    number: str = "generated_len"  # the event's field that a tile shows where there is room


LOOKS: dict[str, Look] = {  # by action
    "prefill_chunk": Look(ORANGE, 0.84, hatch="//", number=""),
    "prefill_to_decode": Look(ORANGE, 0.84, hatch="////", number="prompt_len"),
    "decode_one_step": Look(SKY, 0.5),
    "finish": Look(GREEN, 0.5, dot=True),
}
UNKNOWN = Look("white", 0.84, edge=GREY, hatch="xxxx")

# Actions that compute nothing: a sign on the row. Who is admitted or resumed has a tile in that step.
SIGNS = {"arrive": ">", "preempt": "X", "swap_out": "v", "swap_in": "^"}
SIGNS |= dict.fromkeys(("reject", "cancel", "timeout"), "s")
UNSEEN = ("admit", "resume")
ENDS = ("finish", "reject", "cancel", "timeout")

WINDOW = 12  # columns that a comparison shows on either side of the difference
NAMED = 8  # requests that the words name one by one

CAPTION = both(
    en="One row a request, one column a step. Tall and hatched: prefill, with the prompt's length. "
    "Low: decode, with the tokens generated so far. With a dot: the step that finishes a request. "
    "Thin line: begun and waiting.",
    zh="一行是一个请求，一列是一步。高格带斜纹：prefill，数字是提示词长度；矮格：decode，数字是已生成的 token 数；"
    "带圆点：完成请求的那一步；细线：已经开始、正在等待。",
)
PAIR_CAPTION = both(
    en="■ what the spec asks for, □ what yours did, ▼ the first step where they part, and its number. "
    + CAPTION["en"],
    zh="■ 规范要求的结果，□ 你的结果，▼ 两者第一次不同的那一步及其步号。" + CAPTION["zh"],
)
BATCH_CAPTION = both(
    en=CAPTION["en"]
    + " ▶ arrives, ✖ preempted, ▼ swapped out, ▲ swapped in, ■ ends unserved. Sparse hatch: a "
    "chunk of a prompt.",
    zh=CAPTION["zh"] + "▶ 到达，✖ 被抢占，▼ 换出，▲ 换入，■ 没有得到服务就结束了。斜纹稀疏：提示词的一块。",
)

_Rows: TypeAlias = "dict[str, int]"  # label of a request -> its row, 0 on top
_Placed: TypeAlias = "list[tuple[int, Any]]"  # (column, event), columns never going back


def event_strip(events: Sequence[Any], *, ax: Axes | None = None, mark: int | None = None) -> Figure:
    """Draw a timeline; up to some ten thousand events, without numbers from 41 steps on.

    events: in order; one that is no event is drawn as a grey crossed tile.
    ax: draw there instead of in a figure of its own.
    mark: index (from 0) of an event to point at.
    Returns the figure, which a notebook shows where it is a cell's value.
    """
    placed, rows = _placed(events), _rows(events)
    first, last = _extent(placed)

    def draw(ax: Axes) -> Text:
        _draw(ax, placed, rows, first, last, None if mark is None else _column(mark, placed))
        _steps(ax, first, last)
        return _words(placed)

    return on(ax, *_size(last - first + 1, len(rows)), draw)


def compare_strips(want: Sequence[Any], got: Sequence[Any], at: int | None = None) -> Figure:
    """Draw what the spec asks for (■) above what came (□), with a mark where they part.

    at: index (from 0) of the first difference, as ``first_difference`` gives it; None for no mark.
    Long timelines are cut to the steps around it, and to the requests that are in these.
    """
    pair = _placed(want), _placed(got)
    first, last = _extent(sorted((*pair[0], *pair[1]), key=lambda place: place[0]))
    column = None if at is None else _column(at, *pair)
    if last - first >= ROOMY:
        first = max(first, min((first if column is None else column) - WINDOW, last - 2 * WINDOW))
        last = first + 2 * WINDOW
    rows = _rows([event for placed in pair for x, event in placed if first <= x <= last])
    figure = new_figure(*_size(last - first + 1, 2 * len(rows) + 1))
    axes = figure.subplots(2, sharex=True)
    for ax, glyph, placed in zip(axes, "■□", pair, strict=True):
        _draw(ax, placed, rows, first, last, column)
        ax.set_ylabel(glyph, rotation=0, fontsize=15, family=FONT, color=INK, va="center", labelpad=14)
    _steps(axes[1], first, last)
    axes[0].tick_params(labelbottom=False)
    return described(figure, _words(pair[1]))


def _words(placed: _Placed) -> Text:
    """A timeline in words; at most NAMED requests one by one."""
    spans: dict[str, tuple[int, int, bool]] = {}
    for step, event in placed:
        name = _label(event)
        first = spans[name][0] if name in spans else step
        spans[name] = (first, step, _field(event, "action") == "finish")
    shown = [(name, *spans[name]) for name in list(_rows([event for _, event in placed]))[:NAMED]]
    left = len(spans) - len(shown)
    en = [
        f"request {name}, steps {first} to {last}, {'finished' if done else 'not finished'}"
        for name, first, last, done in shown
    ]
    zh = [
        f"请求 {name}，第 {first} 步到第 {last} 步，{'已完成' if done else '未完成'}"
        for name, first, last, done in shown
    ]
    if left:
        en.append(f"and {left} more")
        zh.append(f"另有 {left} 个请求")
    steps = len({step for step, _ in placed})
    return both(
        en=f"Timeline: steps {steps}, requests {len(spans)}" + "".join(f"; {part}" for part in en) + ".",
        zh=f"时间线：{steps} 步，{len(spans)} 个请求" + "".join(f"；{part}" for part in zh) + "。",
    )


# --- places -----------------------------------------------------------------------------------


def _placed(events: Sequence[Any]) -> _Placed:
    steps = [_field(event, "step") for event in events]
    ordered = all(type(step) is int for step in steps) and steps == sorted(steps)
    return list(zip(steps if ordered else range(1, len(events) + 1), events, strict=True))


def _extent(placed: _Placed) -> tuple[int, int]:
    """The first and the last column."""
    return (placed[0][0], placed[-1][0]) if placed else (1, 0)


def _column(index: int, *timelines: _Placed) -> int:
    """Where the event of this index stands; where one timeline has ended, in the other."""
    return min((placed[index][0] for placed in timelines if index < len(placed)), default=index + 1)


def _size(columns: int, rows: int) -> tuple[float, float]:
    return wide(columns), min(0.5 + 0.3 * max(rows, 1), 6.0)


# --- drawing ----------------------------------------------------------------------------------


def _draw(ax: Axes, placed: _Placed, rows: _Rows, first: int, last: int, mark: int | None) -> None:
    """Draw the columns from ``first`` to ``last``, and the waits of their requests."""
    frame(ax, list(rows))
    if mark is not None:
        _point_at(ax, mark)
    _waits(ax, placed, rows, last)
    shown = [(x, rows[_label(event)], event) for x, event in placed if first <= x <= last]
    looks = [(x, y, _look(event), event) for x, y, event in shown if not _is_sign(event)]
    columns = last - first + 1
    for look in (*LOOKS.values(), UNKNOWN):
        _tiles(ax, [(x, y) for x, y, its, _ in looks if its is look], look, columns)
    for action, sign in SIGNS.items() if columns <= 3 * ROOMY else ():
        _signs(ax, [(x, y) for x, y, event in shown if _field(event, "action") == action], sign)
    if columns <= ROOMY:
        for x, y, look, event in looks:
            _number(ax, x, y, _field(event, look.number), look)


def frame(ax: Axes, names: Sequence[str]) -> None:
    """A row each for so many requests, the first on top, named as far as there is room."""
    every = -(-len(names) // 24)
    ticks = {row: name for row, name in enumerate(names) if row % every == 0}
    quiet(ax)
    ax.set_yticks(list(ticks), list(ticks.values()), parse_math=False)
    ax.set_ylim(len(names) - 0.4 if names else 0.6, -0.6)
    for row in range(len(names)) if len(names) <= 24 else ():
        ax.axhline(row + 0.5, color="#f0f0f0", linewidth=0.8, zorder=0)


def _steps(ax: Axes, first: int, last: int) -> None:
    """Let the x axis run from step ``first`` to ``last``."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(12, integer=True).tick_values(first, max(last, first + 1))
    ax.set_xticks([int(tick) for tick in ticks if first <= tick <= last])
    margin = max(0.6, (last - first + 1) / 100)
    ax.set_xlim(first - margin, max(last, first + FEWEST - 1) + margin)


def _point_at(ax: Axes, step: int) -> None:
    top = ax.get_xaxis_transform()
    ax.axvspan(step - 0.5, step + 0.5, color=VERMILLION, alpha=0.13, linewidth=0, zorder=0.5)
    ax.plot(step, 1, "v", color=VERMILLION, markersize=8, clip_on=False, transform=top)
    text = ax.annotate(str(step), (step, 1), (7, 0), xycoords=top, textcoords="offset points", va="center")
    text.set(fontsize=8, family=FONT, color=VERMILLION)


def _waits(ax: Axes, placed: _Placed, rows: _Rows, last: int) -> None:
    """A line from a request's first event to its end, or to the edge where it has none."""
    begun: dict[str, float] = {}
    ended: dict[str, int] = {}
    for step, event in placed:
        begun.setdefault(_label(event), step - 0.4 if _action(event) == "arrive" else step)
        if _action(event) in ENDS:
            ended[_label(event)] = step
    edge = min(last, _extent(placed)[1]) + 0.5
    for name in rows.keys() & begun.keys():
        ends = (begun[name], ended.get(name, edge))
        ax.plot(ends, [rows[name]] * 2, color=PALE, linewidth=1, solid_capstyle="butt", zorder=1)


def _tiles(ax: Axes, places: Sequence[tuple[int, int]], look: Look, columns: int) -> None:
    roomy = columns <= 3 * ROOMY
    # However thin a column is, a tile keeps a pixel or so; the rare hatched ones keep three.
    half = max(0.5, columns / (500 if look.hatch else 2000))
    tall = look.height / 2
    boxes(
        ax,
        [(x - half, x + half, y - tall, y + tall) for x, y in places],
        facecolors=look.colour,
        edgecolors=look.edge if roomy else look.colour,
        linewidths=1.0 if roomy else 0.0,
        hatch=look.hatch if roomy else None,
        zorder=3 if look.hatch else 2,
    )
    if look.dot and places:
        ends = [x + half for x, _ in places]
        rows = [y for _, y in places]
        ax.plot(ends, rows, "o", color=look.colour, markeredgecolor="white", markersize=6, zorder=4)


def _signs(ax: Axes, places: Sequence[tuple[int, int]], sign: str) -> None:
    if places:
        xs, ys = [x - (0.4 if sign == ">" else 0) for x, _ in places], [y for _, y in places]
        colour = INK if sign == ">" else VERMILLION
        size = 5 if sign == ">" else 8
        ax.plot(xs, ys, sign, color=colour, markeredgecolor="white", markersize=size, zorder=4)


def _number(ax: Axes, x: int, y: int, value: Any, look: Look) -> None:
    if type(value) is not int or abs(value) > 9999:
        return
    behind = {"boxstyle": "round,pad=0.15", "facecolor": "white", "linewidth": 0} if look.hatch else None
    text = ax.text(x, y, str(value), ha="center", va="center_baseline", bbox=behind, zorder=5)
    text.set(fontsize=7, family=FONT, color="white" if look.dot else INK)


# --- events, or whatever came in their place --------------------------------------------------


def _rows(events: Sequence[Any]) -> _Rows:
    """The row of each request, by id, numbers before names."""
    ids = {_label(event): _field(event, "request_id") for event in events}
    return {name: row for row, name in enumerate(sorted(ids, key=lambda name: rank(ids[name])))}


def _label(event: Any) -> str:
    return label(_field(event, "request_id"))


def _action(event: Any) -> str:
    action = _field(event, "action")
    return action if isinstance(action, str) else ""


def _is_sign(event: Any) -> bool:
    return _action(event) in SIGNS or _action(event) in UNSEEN


def _look(event: Any) -> Look:
    return LOOKS.get(_action(event), UNKNOWN)


def _field(event: Any, name: str) -> Any:
    return event.get(name) if isinstance(event, Mapping) else None
