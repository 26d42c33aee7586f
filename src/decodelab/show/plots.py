"""One way to draw a timeline, which every chapter extends: a strip with a row a request and a column a step.

Actions are told apart by shape and hatch as well as by colour (the palette of M. Okabe and K. Ito, "Color
Universal Design", 2008), so that a strip reads in grey too. Figures hold numbers and ids only: no font for
Chinese is wanted, and the words are in ``caption`` and ``alt_text``. Step numbers count from 1: the event
``timeline[i]`` is step ``i + 1``. Needs matplotlib 3.8 or later, imported when the first figure is drawn.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = "DejaVu Sans"  # comes with matplotlib
INK, PALE = "#333333", "#c8c8c8"
ORANGE, SKY, GREEN, VERMILLION = "#E69F00", "#56B4E9", "#009E73", "#D55E00"


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
    "prefill_to_decode": Look(ORANGE, 0.84, hatch="////", number="prompt_len"),
    "decode_one_step": Look(SKY, 0.5),
    "finish": Look(GREEN, 0.5, dot=True),
}
UNKNOWN = Look("white", 0.84, edge="#999999", hatch="xxxx")

ROOMY = 40  # up to this many columns a tile has room for its number
FEWEST = 8  # columns that a figure has room for, however few the events
WINDOW = 12  # columns that a comparison shows on either side of the difference

_Rows: TypeAlias = "dict[str, int]"  # label of a request -> its row, 0 on top


def event_strip(events: Sequence[Any], *, ax: Axes | None = None, mark: int | None = None) -> Figure:
    """Draw a timeline; up to some ten thousand events, without numbers from 41 on.

    events: one a step, in order; one that is no event is drawn as a grey crossed tile.
    ax: draw there instead of in a figure of its own.
    mark: index (from 0) of an event to point at.
    Returns the figure, which a notebook shows where it is a cell's value.
    """
    rows = _rows(events)
    if ax is None:
        figure = _figure(len(events), len(rows))
        ax = figure.subplots()
    _draw(ax, events, rows, 0, len(events), mark)
    _steps(ax, 0, len(events))
    return ax.figure  # type: ignore[return-value]  # never a subfigure of ours


def compare_strips(want: Sequence[Any], got: Sequence[Any], at: int | None = None) -> Figure:
    """Draw what the spec asks for (■) above what came (□), with a mark where they part.

    at: index (from 0) of the first difference, as ``first_difference`` gives it; None for no mark.
    Long timelines are cut to the steps around it, and to the requests that are in these.
    """
    length = max(len(want), len(got))
    start = 0 if at is None or length <= ROOMY else max(0, min(at - WINDOW, length - 2 * WINDOW - 1))
    stop = length if length <= ROOMY else start + 2 * WINDOW + 1
    rows = _rows([*want[start:stop], *got[start:stop]])
    figure = _figure(stop - start, 2 * len(rows) + 1)
    axes = figure.subplots(2, sharex=True)
    for ax, glyph, events in zip(axes, "■□", (want, got), strict=True):
        _draw(ax, events, rows, start, stop, at)
        ax.set_ylabel(glyph, rotation=0, fontsize=15, family=FONT, color=INK, va="center", labelpad=14)
    _steps(axes[1], start, stop)
    axes[0].tick_params(labelbottom=False)
    return figure


def caption(kind: str = "strip") -> Text:
    """What the signs in a figure mean: of an event ``"strip"``, or of a ``"compare"`` pair."""
    strip = both(
        en="One row a request, one column a step. Tall and hatched: prefill, with the prompt's length. "
        "Low: decode, with the tokens generated so far. With a dot: the step that finishes a request. "
        "Thin line: begun and waiting.",
        zh="一行是一个请求，一列是一步。高格带斜纹：prefill，数字是提示词长度；矮格：decode，数字是已生成的 token 数；"
        "带圆点：完成请求的那一步；细线：已经开始、正在等待。",
    )
    pair = both(
        en="■ what the spec asks for, □ what yours did, ▼ the first step where they part, and its number. ",
        zh="■ 规范要求的结果，□ 你的结果，▼ 两者第一次不同的那一步及其步号。",
    )
    if kind == "strip":
        return strip
    if kind == "compare":
        return both(en=pair["en"] + strip["en"], zh=pair["zh"] + strip["zh"])
    raise ValueError(f"there is no caption {kind!r}; choose 'strip' or 'compare'")


def alt_text(events: Sequence[Any], most: int = 8) -> Text:
    """A timeline in words, for those who do not see the picture; at most ``most`` requests one by one."""
    spans: dict[str, tuple[int, int, bool]] = {}
    for step, event in enumerate(events, 1):
        label = _label(event)
        first = spans[label][0] if label in spans else step
        spans[label] = (first, step, _field(event, "action") == "finish")
    shown = [(label, *spans[label]) for label in list(_rows(events))[:most]]
    left = len(spans) - len(shown)
    en = [
        f"request {label}, steps {first} to {last}, {'finished' if done else 'not finished'}"
        for label, first, last, done in shown
    ]
    zh = [
        f"请求 {label}，第 {first} 步到第 {last} 步，{'已完成' if done else '未完成'}"
        for label, first, last, done in shown
    ]
    if left:
        en.append(f"and {left} more")
        zh.append(f"另有 {left} 个请求")
    return both(
        en=f"Timeline: steps {len(events)}, requests {len(spans)}"
        + "".join(f"; {part}" for part in en)
        + ".",
        zh=f"时间线：{len(events)} 步，{len(spans)} 个请求" + "".join(f"；{part}" for part in zh) + "。",
    )


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG file's bytes; the same figure gives the same bytes."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
        return file.getvalue()


def as_img(figure: Figure, alt: str) -> str:
    """The figure as one self-contained HTML ``<img>`` with a text that stands for it."""
    data = base64.b64encode(as_png(figure)).decode("ascii")
    width = round(figure.get_figwidth() * 96)
    style = f"width:{width}px;max-width:100%;height:auto"
    return f'<img alt="{html.escape(alt)}" style="{style}" src="data:image/png;base64,{data}">'


def _figure(columns: int, rows: int) -> Figure:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise DecodeLabError(
            both(
                en="A picture needs matplotlib; install it with `pip install matplotlib`.",
                zh="画图需要 matplotlib；请运行 `pip install matplotlib` 安装。",
            )
        ) from None
    size = (min(0.8 + 0.3 * max(columns, FEWEST), 9.0), min(0.5 + 0.3 * max(rows, 1), 6.0))
    with plt.ioff():
        figure = plt.figure(figsize=size, dpi=110, facecolor="white", layout="constrained")
    plt.close(figure)  # whoever asked for it shows it, once
    return figure


def _draw(ax: Axes, events: Sequence[Any], rows: _Rows, start: int, stop: int, mark: int | None) -> None:
    """Draw ``events[start:stop]``, and the waits of their requests."""
    _frame(ax, rows)
    if mark is not None:
        _point_at(ax, mark + 1)
    _waits(ax, events, rows, stop)
    shown = [(step, event) for step, event in enumerate(events, 1) if start < step <= stop]
    places = [(step, rows[_label(event)], _look(event)) for step, event in shown]
    for look in (*LOOKS.values(), UNKNOWN):
        _tiles(ax, [(x, y) for x, y, its in places if its is look], look, stop - start)
    if stop - start <= ROOMY:
        for (_, event), (x, y, look) in zip(shown, places, strict=True):
            _number(ax, x, y, _field(event, look.number), look)


def _frame(ax: Axes, rows: _Rows) -> None:
    every = -(-len(rows) // 24)
    ticks = {row: label for label, row in rows.items() if row % every == 0}
    ax.set_yticks(list(ticks), list(ticks.values()), parse_math=False)
    ax.set_ylim(len(rows) - 0.4 if rows else 0.6, -0.6)
    ax.set_facecolor("white")
    ax.tick_params(length=0, labelsize=8, labelcolor=INK, labelfontfamily=FONT)
    ax.spines[:].set_visible(False)
    for row in rows.values() if len(rows) <= 24 else ():
        ax.axhline(row + 0.5, color="#f0f0f0", linewidth=0.8, zorder=0)


def _steps(ax: Axes, start: int, stop: int) -> None:
    """Let the x axis run from step ``start + 1`` to ``stop``."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(12, integer=True).tick_values(start + 1, max(stop, start + 2))
    ax.set_xticks([int(tick) for tick in ticks if start < tick <= stop])
    margin = max(0.6, (stop - start) / 100)
    ax.set_xlim(start + 1 - margin, max(stop, start + FEWEST) + margin)


def _point_at(ax: Axes, step: int) -> None:
    top = ax.get_xaxis_transform()
    ax.axvspan(step - 0.5, step + 0.5, color=VERMILLION, alpha=0.13, linewidth=0, zorder=0.5)
    ax.plot(step, 1, "v", color=VERMILLION, markersize=8, clip_on=False, transform=top)
    text = ax.annotate(str(step), (step, 1), (7, 0), xycoords=top, textcoords="offset points", va="center")
    text.set(fontsize=8, family=FONT, color=VERMILLION)


def _waits(ax: Axes, events: Sequence[Any], rows: _Rows, stop: int) -> None:
    """A line from a request's first event to its end, or to the edge where it has none."""
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for step, event in enumerate(events, 1):
        begun.setdefault(_label(event), step)
        if _field(event, "action") == "finish":
            ended[_label(event)] = step
    edge = min(stop, len(events)) + 0.5
    for label in rows.keys() & begun.keys():
        ends = (begun[label], ended.get(label, edge))
        ax.plot(ends, [rows[label]] * 2, color=PALE, linewidth=1, solid_capstyle="butt", zorder=1)


def _tiles(ax: Axes, places: Sequence[tuple[int, int]], look: Look, columns: int) -> None:
    from matplotlib.collections import PolyCollection

    roomy = columns <= 3 * ROOMY
    # However thin a column is, a tile keeps a pixel or so; the rare hatched ones keep three.
    half = max(0.5, columns / (500 if look.hatch else 2000))
    tall = look.height / 2
    corners = [
        [(x - half, y - tall), (x + half, y - tall), (x + half, y + tall), (x - half, y + tall)]
        for x, y in places
    ]
    tiles = PolyCollection(
        corners,
        facecolors=look.colour,
        edgecolors=look.edge if roomy else look.colour,
        linewidths=1.0 if roomy else 0.0,
        hatch=look.hatch if roomy else None,
        zorder=3 if look.hatch else 2,
    )
    ax.add_collection(tiles)
    if look.dot and places:
        ends = [x + half for x, _ in places]
        rows = [y for _, y in places]
        ax.plot(ends, rows, "o", color=look.colour, markeredgecolor="white", markersize=6, zorder=4)


def _number(ax: Axes, x: int, y: int, value: Any, look: Look) -> None:
    if type(value) is not int or abs(value) > 9999:
        return
    behind = {"boxstyle": "round,pad=0.15", "facecolor": "white", "linewidth": 0} if look.hatch else None
    text = ax.text(x, y, str(value), ha="center", va="center_baseline", bbox=behind, zorder=5)
    text.set(fontsize=7, family=FONT, color="white" if look.dot else INK)


def _rows(events: Sequence[Any]) -> _Rows:
    """The row of each request, by id, numbers before names."""
    labels = {_label(event): _field(event, "request_id") for event in events}
    ordered = sorted(labels, key=lambda label: (type(labels[label]) is not int, _order(labels[label]), label))
    return {label: row for row, label in enumerate(ordered)}


def _order(request_id: Any) -> int:
    return request_id if type(request_id) is int else 0


def _label(event: Any) -> str:
    request_id = _field(event, "request_id")
    text = "?" if request_id is None else ascii(request_id).strip("'")
    return text if len(text) <= 8 else text[:7] + "…"


def _look(event: Any) -> Look:
    action = _field(event, "action")
    return LOOKS.get(action, UNKNOWN) if isinstance(action, str) else UNKNOWN


def _field(event: Any, name: str) -> Any:
    return event.get(name) if isinstance(event, Mapping) else None
