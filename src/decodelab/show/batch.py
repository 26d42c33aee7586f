"""What a batch is made of, step by step: its tokens, its queues, its slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from decodelab.lang import Text, both
from decodelab.log import Record, as_records
from decodelab.request import RequestId
from decodelab.show.common import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    ROOMY,
    SKY,
    VERMILLION,
    boxes,
    colours,
    counted,
    means,
    name_tile,
    number,
    on,
    quiet,
    steps_below,
    wide,
)
from decodelab.show.story import phases

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMPOSITION_CAPTION = both(
    en="Tokens computed in each step: plain below, decode; hatched above, prefill. Dashed line: the token "
    "budget. A long run shows the mean of neighbouring steps.",
    zh="每一步计算的 token 数：下面的素色是 decode，上面带斜纹的是 prefill；虚线是 token 预算。步数很多时，画的是相邻几步的平均。",
)
QUEUES_CAPTION = both(
    en="Requests over time in seconds. Solid: running; dashed: waiting. A long run shows the mean of neighbouring steps.",
    zh="请求数随时间（秒）的变化。实线：正在运行；虚线：正在等待。步数很多时，画的是相邻几步的平均。",
)
SLOTS_CAPTION = both(
    en="One row a slot of the batch, one column a step; a number is the request in the slot. Hatched: idle. A "
    "long run shows how many slots are busy, the mean of neighbouring steps.",
    zh="一行是批里的一个槽位，一列是一步；数字是槽里的请求；带斜纹：空着。步数很多时，画的是有几个槽在用，取相邻几步的平均。",
)


def batch_composition(
    records: Sequence[Record], budget: int | None = None, *, ax: Axes | None = None
) -> Figure:
    """Draw the prefill and decode tokens of each step; any number of records.

    budget: ``max_num_batched_tokens``, drawn as a line. ax: draw there instead.
    """
    records = as_records(records)
    decode, prefill = _tokens(records, "decode"), _tokens(records, "prefill")

    def draw(ax: Axes) -> Text:
        quiet(ax, "#", "tok")
        edges, low = means(decode)
        high = [a + b for a, b in zip(low, means(prefill)[1], strict=True)]
        edges = [edge - 0.5 for edge in edges]
        ax.stairs(low, edges, fill=True, color=SKY)
        ax.stairs(
            high, edges, baseline=low, fill=True, facecolor=ORANGE, edgecolor="white", hatch="////", lw=0
        )
        if budget is not None:
            ax.axhline(budget, color=INK, linestyle="--", linewidth=1)
        ax.set_ylim(0, 1.08 * max(budget or 0, *high, 1))
        steps_below(ax, records)
        return _composition_words(decode, prefill, budget)

    return on(ax, wide(len(records)), 2.6, draw)


def _tokens(records: Sequence[Record], phase: str) -> list[int]:
    return [
        sum(count for i, count in record["scheduled"].items() if its[i] == phase)
        for record, its in zip(records, phases(records), strict=True)
    ]


def _composition_words(decode: Sequence[int], prefill: Sequence[int], budget: int | None) -> Text:
    most = max(map(sum, zip(decode, prefill, strict=True)), default=0)
    en, zh = (f", of a budget of {budget}", f"，预算是 {budget}") if budget is not None else ("", "")
    return both(
        en=f"Tokens a step over {len(decode)} steps: {sum(prefill)} prefill and {sum(decode)} decode in all, "
        f"at most {most} in a step{en}.",
        zh=f"{len(decode)} 步里每步的 token 数：prefill 共 {sum(prefill)}，decode 共 {sum(decode)}，一步最多 {most}{zh}。",
    )


def queue_lengths(records: Sequence[Record], *, ax: Axes | None = None) -> Figure:
    """Draw how many requests run and how many wait, over time; any number of records. ax: draw there instead."""
    records = as_records(records)
    end = records[-1]["time"] if records else 0.0
    times = [*(record["start"] for record in records), end, end]  # the last for a run without steps
    running, waiting = ([len(record[name]) for record in records] for name in ("running", "waiting"))

    def draw(ax: Axes) -> Text:
        quiet(ax, "s")
        for lengths, colour, dash in ((running, BLUE, "-"), (waiting, VERMILLION, "--")):
            edges, heights = means(lengths)
            at = [times[int(edge)] for edge in edges]
            ax.stairs(heights, at, color=colour, linestyle=dash, linewidth=1.6, baseline=None)
        top = max(*running, *waiting, 1, 1)
        ax.set_ylim(-0.04 * top, 1.08 * top)
        counted(ax)
        return both(
            en=f"Queues over {number(end)} s: at most {max(running, default=0)} running "
            f"and {max(waiting, default=0)} waiting.",
            zh=f"{number(end)} 秒内的队列：最多 {max(running, default=0)} 个在运行，"
            f"{max(waiting, default=0)} 个在等待。",
        )

    return on(ax, 9.0, 2.2, draw)


def idle_slots(records: Sequence[Record], max_num_seqs: int, *, ax: Axes | None = None) -> Figure:
    """Draw which of the batch's slots work in which step; any number of records. ax: draw there instead."""
    records = as_records(records)
    busy = [min(len(record["scheduled"]), max_num_seqs) for record in records]
    share = sum(busy) / max(1, max_num_seqs * len(records))

    def draw(ax: Axes) -> Text:
        quiet(ax, "#")
        idle = {"facecolors": "white", "edgecolors": GREY, "hatch": "////", "linewidths": 0}
        boxes(ax, [(-0.5, len(records) - 0.5, -0.5, max_num_seqs - 0.5)], **idle)
        if len(records) <= 3 * ROOMY:
            _slots(ax, records, max_num_seqs)
        else:
            edges, heights = means(busy)
            tops = [height - 0.5 for height in heights]
            ax.stairs(tops, [edge - 0.5 for edge in edges], baseline=-0.5, fill=True, color=SKY)
        ax.set_ylim(max_num_seqs - 0.5, -0.5)
        counted(ax)
        steps_below(ax, records)
        return both(
            en=f"{max_num_seqs} slots over {len(records)} steps: {100 * share:.0f} % busy, the rest idle.",
            zh=f"{max_num_seqs} 个槽位，{len(records)} 步：{100 * share:.0f} % 在用，其余空着。",
        )

    return on(ax, wide(len(records)), min(0.7 + 0.3 * max_num_seqs, 4.0), draw)


def _slots(ax: Axes, records: Sequence[Record], max_num_seqs: int) -> None:
    """A tile for each request in each step, in the slot that it took first; its id where the tile begins."""
    paint = colours(i for record in records for i in record["scheduled"])
    seats: dict[RequestId, int] = {}
    tiles: dict[str, list[tuple[float, float, float, float]]] = {}
    for x, record in enumerate(records):
        here = set(record["running"]) | record["scheduled"].keys()
        seats = {i: seat for i, seat in seats.items() if i in here}
        for request_id in record["scheduled"]:
            begins = request_id not in seats
            if begins:
                free = (seat for seat in range(max_num_seqs) if seat not in seats.values())
                seats[request_id] = next(free, max_num_seqs)
            y = seats[request_id]
            tiles.setdefault(paint[request_id], []).append((x - 0.5, x + 0.5, y - 0.5, y + 0.5))
            if begins:
                ax.plot([x - 0.5] * 2, [y - 0.5, y + 0.5], color=INK, linewidth=1.5, zorder=3)
                name_tile(ax, x, y, request_id, paint[request_id])
    for colour, sides in tiles.items():
        boxes(ax, sides, facecolors=colour, edgecolors="white", linewidths=1, zorder=2)
