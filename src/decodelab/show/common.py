"""What every picture shares: the palette, names of requests, a figure that knows its words, and its image.

Colours are those of M. Okabe and K. Ito, "Color Universal Design" (2008); what they tell, a shape, a hatch, a
dash or a number tells too, so that a picture reads in grey. A figure holds numbers, ids and units only: no font
for Chinese is wanted. What its signs mean is in its module's ``CAPTION``, what it shows in ``alt_text``.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Id = TypeVar("Id", bound=Hashable)

FONT = "DejaVu Sans"  # comes with matplotlib
INK, GREY, PALE = "#333333", "#999999", "#c8c8c8"
ORANGE, SKY, GREEN, VERMILLION = "#E69F00", "#56B4E9", "#009E73", "#D55E00"
BLUE, PURPLE, YELLOW = "#0072B2", "#CC79A7", "#F0E442"
CYCLE = (SKY, GREEN, YELLOW, BLUE, ORANGE, VERMILLION, PURPLE)  # neighbours differ in grey too
STROKES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, INK)  # yellow is too pale for a line
DARK = (GREEN, BLUE, VERMILLION)  # white is read better on these
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "oo")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
MARKERS = "osD^vP*"
DPI = 110

ROOMY = 40  # up to this many columns a tile has room for its number
MOST = 400  # columns of a picture that aggregates
FEWEST = 8  # columns that a figure has room for, however few there are


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, which pyplot forgets: whoever asked for it shows it, once."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise DecodeLabError(
            both(
                en="A picture needs matplotlib; install it with `pip install matplotlib`.",
                zh="画图需要 matplotlib；请运行 `pip install matplotlib` 安装。",
            )
        ) from None
    with plt.ioff():
        figure = plt.figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    plt.close(figure)
    return figure


def on(ax: Axes | None, width: float, height: float, draw: Callable[[Axes], Text]) -> Figure:
    """Draw on ``ax``, or in a figure of its own that then knows the words which ``draw`` returns."""
    if ax is not None:
        draw(ax)
        return ax.figure  # type: ignore[return-value]  # never a subfigure of ours
    figure = new_figure(width, height)
    return described(figure, draw(figure.subplots()))


def described(figure: Figure, words: Text) -> Figure:
    """Give a figure the words that stand for it; a notebook shows them to those who do not see it."""
    vars(figure).update(words=words, _repr_html_=partial(as_img, figure))
    return figure


def alt_text(figure: Figure) -> Text:
    """What a figure of ``decodelab.show`` shows, in words."""
    return vars(figure)["words"]


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG file's bytes; the same figure gives the same bytes."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
        return file.getvalue()


def as_img(figure: Figure) -> str:
    """The figure as one self-contained HTML ``<img>`` with its words in the language spoken now."""
    data = base64.b64encode(as_png(figure)).decode("ascii")
    style = f"width:{round(figure.get_figwidth() * 96)}px;max-width:100%;height:auto"
    alt = html.escape(say(alt_text(figure)))
    return f'<img alt="{alt}" style="{style}" src="data:image/png;base64,{data}">'


def quiet(ax: Axes, x: str = "", y: str = "") -> None:
    """Take away all but ticks and units."""
    ax.set_facecolor("white")
    ax.tick_params(which="both", length=0, labelsize=8, labelcolor=INK, labelfontfamily=FONT)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(x, family=FONT, fontsize=8, color=INK, loc="right")
    ax.set_ylabel(y, family=FONT, fontsize=8, color=INK, loc="top")


def key(ax: Axes) -> None:
    """A legend above the axes, of what has a label and in that order."""
    options = {"family": FONT, "size": 8}
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=5, frameon=False, prop=options, borderaxespad=0.2
    )


def boxes(ax: Axes, sides: Sequence[tuple[float, float, float, float]], **looks: Any) -> None:
    """Rectangles (left, right, one y, the other y) that look alike: facecolors, edgecolors, hatch and so on."""
    from matplotlib.collections import PolyCollection

    corners = [[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, x1, y0, y1 in sides]
    ax.add_collection(PolyCollection(corners, **looks))


def name_tile(ax: Axes, x: float, y: float, request_id: Any, colour: str) -> None:
    """Write an id into a tile of this colour."""
    ink = "white" if colour in DARK else INK
    text = ax.text(x, y, label(request_id, 4), fontsize=7, family=FONT, color=ink, zorder=5)
    text.set(ha="center", va="center_baseline")


def counted(ax: Axes) -> None:
    """Ticks at whole numbers only on the y axis."""
    from matplotlib.ticker import MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))


def steps_below(ax: Axes, records: Sequence[Mapping[str, Any]]) -> None:
    """Let x run over the indices of records, a column each, and tell their step numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    last = len(records) - 1
    ax.set_xlim(-0.5, max(last, FEWEST - 1) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: str(records[int(x)]["step"]) if 0 <= x <= last else "")
    )


def wide(columns: int) -> float:
    """Inches for so many columns."""
    return min(0.8 + 0.3 * max(columns, FEWEST), 9.0)


def label(name: Any, most: int = 8) -> str:
    """A request's id or a mode's name as a figure may show it: ASCII, at most ``most`` characters."""
    text = "?" if name is None else ascii(name).strip("'")
    return text if len(text) <= most else text[: most - 1] + "…"


def rank(one: Any) -> tuple[bool, int, str]:
    """The place of an id among others: numbers by size, then names."""
    return type(one) is not int, one if type(one) is int else 0, label(one, 99)


def in_order(ids: Iterable[Id]) -> list[Id]:
    """Each id once, by ``rank``."""
    return sorted(set(ids), key=rank)


def colours(ids: Iterable[Id]) -> dict[Id, str]:
    """A colour for each id; every seventh has the same."""
    return {one: CYCLE[n % len(CYCLE)] for n, one in enumerate(in_order(ids))}


def bins(count: int, most: int = MOST) -> list[tuple[int, int]]:
    """``range(count)`` cut into at most ``most`` pieces of one length, as (start, stop)."""
    size = max(1, -(-count // most))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def means(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The edges and the mean heights of at most MOST columns: a long run, aggregated; one column of nothing."""
    values = values or [0]
    pieces = bins(len(values))
    edges = [float(start) for start, _ in pieces] + [float(len(values))]
    return edges, [sum(values[start:stop]) / (stop - start) for start, stop in pieces]


def number(value: float) -> str:
    """A number in few digits: at least three of them count."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
