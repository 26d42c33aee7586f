"""The roofline: what a machine can do at most, at a given number of FLOPs for each byte it moves.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from decodelab.lang import Text, both
from decodelab.show.common import CYCLE, FONT, GREY, INK, MARKERS, label, number, on, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = both(
    en="Both axes are logarithmic: FLOPs for each byte moved, and FLOPs each second. Slope: "
    "memory-bound; flat and hatched below: compute-bound; where they meet, the number is the ridge.",
    zh="两轴都取对数：横轴是每搬一字节做多少 FLOP，纵轴是每秒多少 FLOP。斜线：访存受限；平线（下方带斜纹）：计算受限；"
    "两者相交处的数字是拐点。",
)


def roofline(
    points: Mapping[str, tuple[float, ...]],
    peak_flops: float,
    bandwidth: float,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw steps under the roof of a machine.

    points: by name, (FLOPs, bytes) of a step, which lies on the roof; or (FLOPs, bytes, seconds) as measured.
    peak_flops: FLOP/s. bandwidth: bytes/s. ax: draw there instead. ValueError where a number is not positive.
    """
    if min(peak_flops, bandwidth, *(value for point in points.values() for value in point)) <= 0:
        raise ValueError("a roofline is drawn from positive numbers | roofline 只能用正数来画")
    ridge = peak_flops / bandwidth
    placed = {name: _place(*point, peak=peak_flops, bandwidth=bandwidth) for name, point in points.items()}

    def draw(ax: Axes) -> Text:
        quiet(ax, "FLOP/B", "FLOP/s")
        xs = [ridge, *(x for x, _ in placed.values())]
        left, right = min(xs) / 8, max(xs) * 8
        ax.plot([left, ridge, right], [left * bandwidth, peak_flops, peak_flops], color=INK, linewidth=1.8)
        ax.plot([ridge, ridge], [left * bandwidth / 4, peak_flops], color=GREY, linewidth=1, linestyle=":")
        ax.fill_between([ridge, right], left * bandwidth / 4, peak_flops, hatch="//", **_HATCHED)
        _say(ax, number(ridge), ridge, peak_flops, (0, 5))
        for n, (name, (x, y)) in enumerate(placed.items()):
            ax.plot(x, y, MARKERS[n % 7], color=CYCLE[n % 7], markeredgecolor=INK, markersize=9, zorder=3)
            _say(ax, label(name, 20), x, y, (8, -12))
        ax.set(xscale="log", yscale="log", xlim=(left, right), ylim=(left * bandwidth / 4, peak_flops * 3))
        return _words(placed, peak_flops, ridge)

    return on(ax, 6.0, 3.2, draw)


_HATCHED: dict[str, Any] = {"facecolor": "none", "edgecolor": "#dddddd", "linewidth": 0, "zorder": 0}


def _place(
    flops: float, moved: float, seconds: float | None = None, *, peak: float, bandwidth: float
) -> tuple[float, float]:
    return flops / moved, flops / (seconds or max(flops / peak, moved / bandwidth))


def _say(ax: Axes, text: str, x: float, y: float, away: tuple[int, int]) -> None:
    ax.annotate(text, (x, y), away, textcoords="offset points", fontsize=8, family=FONT, color=INK)


def _words(placed: Mapping[str, tuple[float, float]], peak: float, ridge: float) -> Text:
    limits = {name: x < ridge for name, (x, _) in placed.items()}
    en = [
        f"{name}: {number(x)} FLOP/B, {100 * y / peak:.3g} % of the peak, "
        + ("memory-bound" if limits[name] else "compute-bound")
        for name, (x, y) in placed.items()
    ]
    zh = [
        f"{name}：{number(x)} FLOP/B，达到峰值的 {100 * y / peak:.3g} %，{'访存受限' if limits[name] else '计算受限'}"
        for name, (x, y) in placed.items()
    ]
    return both(
        en=f"Roofline with its ridge at {number(ridge)} FLOP/B. " + "; ".join(en) + ".",
        zh=f"roofline，拐点在 {number(ridge)} FLOP/B。" + "；".join(zh) + "。",
    )
