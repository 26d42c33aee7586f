"""The KV map: a row a physical block, a column a step, coloured by owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both
from decodelab.log import Record, as_records
from decodelab.request import RequestId
from decodelab.show.common import (
    INK,
    MOST,
    ROOMY,
    bins,
    colours,
    counted,
    name_tile,
    on,
    quiet,
    steps_below,
    wide,
)
from decodelab.show.story import tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = both(
    en="One row a physical block, one column a step, one colour an owner, whose id stands where it begins. White: "
    "free. Black: shared by several requests. A long run shows one step in so many.",
    zh="一行是一个物理块，一列是一步，一种颜色是一个请求，它的编号写在开头处。白色：空闲；黑色：几个请求共用。步数很多时，隔几步画一列。",
)
SHARED = INK
READABLE = 40  # blocks: up to these a row has room for an id

Owned: TypeAlias = "Mapping[int, Sequence[RequestId]]"  # by block: who owns it


def kv_map(records: Sequence[Record], num_blocks: int | None = None, *, ax: Axes | None = None) -> Figure:
    """Draw who owned which block when; any number of records.

    num_blocks: of the pool; by default as many as the log names, DecodeLabError for fewer. ax: draw there instead.
    """
    records = as_records(records)
    least = 1 + max((b for r in records for t in r["blocks"].values() for b in t), default=0)
    blocks = least if num_blocks is None else num_blocks
    if blocks < least:
        raise DecodeLabError(
            both(
                en=f"num_blocks is {blocks}; give {least} or more, which this log has, or leave it out.",
                zh=f"num_blocks 是 {blocks}；这份日志里有 {least} 块，请给出不小于它的数，或不写。",
            )
        )
    pieces = bins(len(records))
    paint = colours(i for record in records for i in record["blocks"])

    def draw(ax: Axes) -> Text:
        quiet(ax, "#")
        peak = last = 0
        columns: list[dict[int, list[RequestId]]] = []
        begins = {start for start, _ in pieces}
        for index, held in enumerate(tables(records)):
            owned = owners(held)
            peak = max(peak, len(owned))
            last = max(last, max(owned, default=0))
            if index in begins:
                columns.append(owned)
        _image(ax, columns, blocks, len(records), paint)
        if len(records) <= 2 * ROOMY and blocks <= READABLE:
            _ids(ax, columns, paint)
        steps_below(ax, records)
        return both(
            en=f"KV map: {len(records)} steps, {blocks} blocks, {len(paint)} owners; at most {peak} blocks in use.",
            zh=f"KV 内存图：{len(records)} 步，{blocks} 个块，{len(paint)} 个请求用过；最多同时用 {peak} 块。",
        )

    return on(ax, wide(len(records)), min(0.7 + 0.16 * blocks, 6.0), draw)


def owners(held: Mapping[RequestId, Sequence[int]]) -> dict[int, list[RequestId]]:
    """Who owns each block that is in use, from block tables."""
    found: dict[int, list[RequestId]] = {}
    for request_id, table in held.items():
        for block in table:
            found.setdefault(block, []).append(request_id)
    return found


def colour_of(who: Sequence[RequestId], paint: Mapping[RequestId, str]) -> str:
    """The colour of a block that these own: none, one or several."""
    return "white" if not who else paint[who[0]] if len(who) == 1 else SHARED


def _image(
    ax: Axes, columns: Sequence[Owned], blocks: int, steps: int, paint: Mapping[RequestId, str]
) -> None:
    import numpy as np
    from matplotlib.colors import to_rgb

    image = np.ones((blocks, max(1, len(columns)), 3))
    for x, owned in enumerate(columns):
        for block, who in owned.items():
            image[block, x] = to_rgb(colour_of(who, paint))
    ends = (-0.5, max(steps, 1) - 0.5, blocks - 0.5, -0.5)
    ax.imshow(image, aspect="auto", interpolation="nearest", extent=ends)
    counted(ax)
    if steps <= MOST and blocks <= READABLE:
        ax.hlines([block + 0.5 for block in range(blocks - 1)], -0.5, steps - 0.5, "white", linewidth=0.8)


def _ids(ax: Axes, columns: Iterable[Owned], paint: Mapping[RequestId, str]) -> None:
    """An owner's id in the first column of each of its stays in a block."""
    before: Owned = {}
    for x, owned in enumerate(columns):
        for block, who in owned.items():
            if len(who) == 1 and before.get(block) != who:
                name_tile(ax, x, block, who[0], paint[who[0]])
        before = owned
