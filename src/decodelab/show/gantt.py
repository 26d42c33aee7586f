"""The Gantt chart: a row a request, x is time in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decodelab.lang import Text, both
from decodelab.log import Record, as_records
from decodelab.request import Request, RequestId
from decodelab.show.common import (
    FONT,
    GREEN,
    INK,
    MOST,
    ORANGE,
    PALE,
    ROOMY,
    SKY,
    VERMILLION,
    boxes,
    in_order,
    label,
    number,
    on,
    quiet,
)
from decodelab.show.story import Span, Spans, spans
from decodelab.show.strip import frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = both(
    en="One row a request, x is time in seconds. Tall and hatched: prefill; low: decode; thin line: waiting; "
    "crossed: preempted. ● finished, ✖ preempted at this moment, ■ refused, cancelled or timed out. "
    "Of more than 80 requests: how many are in each state, from below decode, prefill, preempted, waiting.",
    zh="一行是一个请求，横轴是时间（秒）。高条带斜纹：prefill；矮条：decode；细线：等待；带叉纹：被抢占、等着重来。"
    "● 完成，✖ 此刻被抢占，■ 被拒绝、取消或超时。"
    "请求超过 80 个时，画的是各种状态的请求数，自下而上：decode、prefill、被抢占、等待。",
)

BARS: dict[str, tuple[float, dict[str, Any]]] = {  # by state: half the height, and how it is filled
    "waiting": (0.05, {"facecolors": PALE, "edgecolors": PALE}),
    "preempted": (0.16, {"facecolors": "white", "edgecolors": VERMILLION, "hatch": "xxxxx"}),
    "decode": (0.24, {"facecolors": SKY, "edgecolors": SKY}),
    "prefill": (0.42, {"facecolors": ORANGE, "edgecolors": "white", "hatch": "////"}),
}
STACK = ("decode", "prefill", "preempted", "waiting")  # from the bottom, where there is no row for each
EACH = 80  # requests: up to these each has a row


def gantt(records: Sequence[Record], requests: Iterable[Request] = (), *, ax: Axes | None = None) -> Figure:
    """Draw who waited, was served or had been preempted when; any number of records.

    requests: those of the workload, for arrivals between two steps. ax: draw there instead.
    """
    records = as_records(records)
    story = spans(records, requests)
    rows = {request_id: row for row, request_id in enumerate(in_order(story.ids()))}

    end = records[-1]["time"] if records else 0.0

    def draw(ax: Axes) -> Text:
        if len(rows) <= EACH:
            _each(ax, story, rows)
        else:
            _crowd(ax, story, end)
        return _words(story, len(rows), end)

    return on(ax, 9.0, min(0.7 + 0.3 * max(len(rows), 1), 6.0 if len(rows) <= EACH else 3.0), draw)


def _each(ax: Axes, story: Spans, rows: Mapping[RequestId, int]) -> None:
    """Every request in a row of its own."""
    frame(ax, [label(request_id) for request_id in rows])
    ax.set_xlabel("s", loc="right", fontsize=8, family=FONT, color=INK)
    roomy = len(rows) <= ROOMY
    for state, (half, look) in BARS.items():
        sides = [(x0, x1, rows[i] - half, rows[i] + half) for i, x0, x1 in story.states.get(state, ())]
        boxes(ax, sides, **look, linewidths=0.6 if roomy else 0.0, zorder=2)
    for moments, sign, colour in (
        (story.finished, "o", GREEN),
        (story.preempted, "X", VERMILLION),
        (story.unserved, "s", VERMILLION),
    ):
        if moments:
            xs, ys = [when for _, when in moments], [rows[i] for i, _ in moments]
            size = 7 if roomy else 3
            (line,) = ax.plot(xs, ys, sign, color=colour, markersize=size, zorder=4, clip_on=False)
            line.set(markeredgecolor="white", markeredgewidth=0.7 if roomy else 0)
    ax.autoscale_view(scaley=False)


def _crowd(ax: Axes, story: Spans, end: float) -> None:
    """How many requests are in each state, one state on the other."""
    quiet(ax, "s")
    edges = [end * k / MOST for k in range(MOST + 1)]
    low = [0.0] * MOST
    for state in STACK:
        high = [a + b for a, b in zip(low, _levels(story.states.get(state, ()), end / MOST), strict=True)]
        look = {name.removesuffix("s"): value for name, value in BARS[state][1].items()}
        ax.stairs(high, edges, baseline=low, fill=True, linewidth=0, **look)
        low = high
    ax.plot([when for _, when in story.preempted], [0] * len(story.preempted), "X", color=VERMILLION)
    ax.set(xlim=(0, end), ylim=(0, 1.05 * max(*low, 1)))


def _levels(spans: Iterable[Span], width: float) -> list[float]:
    """How many of the spans cover each of MOST columns of ``width`` seconds, in the mean."""
    levels = [0.0] * MOST
    for _, x0, x1 in spans:
        for column in range(int(x0 / width), min(int(x1 / width) + 1, MOST)):
            levels[column] += max(0.0, min(x1, (column + 1) * width) - max(x0, column * width)) / width
    return levels


def _words(story: Spans, requests: int, end: float) -> Text:
    totals = {state: number(sum(x1 - x0 for _, x0, x1 in story.states.get(state, ()))) for state in BARS}
    counts = len(story.finished), len(story.unserved), len(story.preempted)
    return both(
        en=f"Gantt chart of {requests} requests over {number(end)} s: {counts[0]} finished, {counts[1]} ended "
        f"unserved, {counts[2]} preemptions. Seconds of all requests together: waiting {totals['waiting']}, "
        f"prefill {totals['prefill']}, decode {totals['decode']}, preempted {totals['preempted']}.",
        zh=f"甘特图：{requests} 个请求，共 {number(end)} 秒；完成 {counts[0]} 个，没做完就结束 {counts[1]} 个，"
        f"抢占 {counts[2]} 次。所有请求合计（秒）：等待 {totals['waiting']}，prefill {totals['prefill']}，"
        f"decode {totals['decode']}，被抢占 {totals['preempted']}。",
    )
