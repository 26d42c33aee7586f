"""One step of a run as a picture: who waits, what the batch computes, who owns which block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from decodelab.lang import Text, both
from decodelab.log import Record, as_records
from decodelab.show.common import (
    FONT,
    GREY,
    INK,
    boxes,
    colours,
    described,
    label,
    name_tile,
    new_figure,
    number,
    quiet,
)
from decodelab.show.memory import colour_of, owners
from decodelab.show.story import phases, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = both(
    en="Left: who waits, the next one on top. Middle: the batch, a bar a request with the tokens of this step, "
    "hatched for prefill. Right: the KV blocks, left to right and down, coloured by owner; white is free, black "
    "is shared.",
    zh="左：谁在等，最上面的下一个走。中：这一批，一条是一个请求，长度是这一步算的 token 数，带斜纹是 prefill。"
    "右：KV 块，从左到右、从上到下，颜色是所属的请求；白色空闲，黑色共用。",
)
FEWEST, TALLEST = 4, 12  # requests that a panel has room for; those beyond are counted
LISTED = 16  # requests that the words name
ACROSS = 16  # blocks in a row of the KV panel
NAMED = 160  # blocks: up to these each shows its owner's id


class Film:
    """A run, ready to be looked at step by step; ``at`` is an index of its records, at least one."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = as_records(records)
        self.phases = phases(self.records)
        self.paint = colours(i for record in self.records for i in (*record["arrived"], *record["scheduled"]))
        used = (b for record in self.records for table in record["blocks"].values() for b in table)
        self.blocks = 1 + max(used, default=-1)
        self.down = -(-self.blocks // ACROSS)
        most = max((len(r[name]) for r in self.records for name in ("waiting", "scheduled")), default=0)
        self.rows = min(max(most, FEWEST), TALLEST)
        self.widest = max((n for r in self.records for n in r["scheduled"].values()), default=1)

    def picture(self, at: int) -> Figure:
        """The step, in a row of panels."""
        return self.pictures([at])

    def pictures(self, steps: Sequence[int]) -> Figure:
        """Several steps, one below the other, with their numbers."""
        widths = [1, 4, 4] if self.blocks else [1, 8]
        figure = new_figure(9.0, (0.7 + 0.18 * max(self.rows, self.down)) * len(steps))
        grid = figure.subplots(len(steps), len(widths), width_ratios=widths, squeeze=False)
        for at, axes in zip(steps, grid, strict=True):
            self._queue(axes[0], self.records[at])
            self._batch(axes[1], at)
            if self.blocks:
                self._memory(axes[2], at)
        told = [self.words(at) for at in steps]
        return described(figure, both(en=" ".join(t["en"] for t in told), zh="".join(t["zh"] for t in told)))

    def words(self, at: int) -> Text:
        """The step in words."""
        record, phase = self.records[at], self.phases[at]
        en, zh = [f"waiting {len(record['waiting'])}"], [f"等待 {len(record['waiting'])} 个"]
        batch = [(label(i), f"{phase[i]} {count}") for i, count in record["scheduled"].items()]
        for what_en, what_zh, who in (
            ("batch", "这一批", batch),
            ("preempted", "被抢占", [(label(i), "") for i in record["preempted"]]),
            ("finished", "完成", [(label(i), "") for i in record["finished"]]),
        ):
            left = len(who) - LISTED
            if who:
                shown = [f"{i} ({how})" if how else i for i, how in who[:LISTED]]
                en.append(f"{what_en} {', '.join(shown)}" + (f" and {left} more" if left > 0 else ""))
                shown = [f"{i}（{how}）" if how else i for i, how in who[:LISTED]]
                zh.append(f"{what_zh} {'、'.join(shown)}" + (f" 等，另有 {left} 个" if left > 0 else ""))
        begins = number(record["start"])
        return both(
            en=f"Step {record['step']}, from {begins} s: {'; '.join(en)}.",
            zh=f"第 {record['step']} 步，开始于 {begins} 秒：{'；'.join(zh)}。",
        )

    def _queue(self, ax: Axes, record: Record) -> None:
        waiting = record["waiting"]
        quiet(ax)
        for y, request_id in enumerate(waiting[: self.rows]):
            colour = self.paint.get(request_id, "white")
            boxes(ax, [(-0.5, 0.5, y - 0.5, y + 0.5)], facecolors=colour, **_EDGE)
            name_tile(ax, 0, y, request_id, colour)
        if len(waiting) > self.rows:
            more = f"+{len(waiting) - self.rows}"
            ax.text(0, self.rows, more, ha="center", va="center", fontsize=8, family=FONT, color=INK)
        ax.set(xlim=(-0.6, 0.6), ylim=(self.rows + 0.5, -0.6), xticks=[], yticks=[])
        ax.set_title(f"#{record['step']}", loc="left", fontsize=9, family=FONT, color=INK)

    def _batch(self, ax: Axes, at: int) -> None:
        record, phase = self.records[at], self.phases[at]
        batch = list(record["scheduled"].items())
        quiet(ax, "tok")
        for y, (request_id, count) in enumerate(batch[: self.rows]):
            look: dict[str, Any] = {"hatch": "////"} if phase[request_id] == "prefill" else {}
            ax.barh(y, count, color=self.paint[request_id], edgecolor="white", linewidth=0, **look)
            text = ax.annotate(str(count), (count, y), (3, 0), textcoords="offset points", va="center")
            text.set(fontsize=7, family=FONT, color=INK)
        names = [label(request_id, 4) for request_id, _ in batch[: self.rows]]
        if len(batch) > self.rows:
            names.append(f"+{len(batch) - self.rows}")
        ax.set_yticks(range(len(names)), names)
        ax.set(ylim=(self.rows + 0.5, -0.6), xlim=(0, 1.1 * self.widest))

    def _memory(self, ax: Axes, at: int) -> None:
        owned = owners(next(islice(tables(self.records), at, None)))
        quiet(ax)
        places = {block: (block % ACROSS, block // ACROSS) for block in range(self.blocks)}
        paints = [colour_of(owned.get(block, ()), self.paint) for block in places]
        sides = [(x - 0.5, x + 0.5, y - 0.5, y + 0.5) for x, y in places.values()]
        boxes(ax, sides, facecolors=paints, **_EDGE)
        for block, colour in zip(places, paints, strict=True):
            if len(owned.get(block, ())) == 1 and self.blocks <= NAMED:
                name_tile(ax, *places[block], owned[block][0], colour)
        ax.set(xlim=(-0.6, ACROSS - 0.4), ylim=(max(self.down, self.rows / 2) - 0.4, -0.6), xticks=[])
        ticks = range(0, self.down, -(-self.down // 8))
        ax.set_yticks(ticks, [str(y * ACROSS) for y in ticks])


_EDGE: dict[str, Any] = {"edgecolors": GREY, "linewidths": 0.5}
