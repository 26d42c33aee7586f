"""How long people waited: distributions side by side, and modes compared number by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decodelab.lang import Text, both, tr
from decodelab.show.common import (
    CYCLE,
    DASHES,
    FONT,
    HATCHES,
    INK,
    MARKERS,
    STROKES,
    described,
    key,
    label,
    new_figure,
    number,
    on,
    quiet,
)
from decodelab.show.tell import table_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ECDF_CAPTION = both(
    en="How large a share of the requests (%) waited at most so many seconds; one line a mode. Further left is "
    "better; the dotted lines are p50, p95 and p99.",
    zh="等待不超过这么多秒的请求占多少（%）；一条线是一种方式。越靠左越好；点线是 p50、p95 和 p99。",
)
COMPARE_CAPTION = both(
    en="One panel a metric, one bar a mode; the number is the bar's length.",
    zh="一格是一个指标，一条是一种方式；数字就是条的长度。",
)
SWEEP_CAPTION = both(
    en="One line a mode, one point a measurement.", zh="一条线是一种方式，一个点是一次测量。"
)

PERCENTS = (50, 95, 99)
TICKS = 10  # settings: up to so many are ticks
NAME = 20  # characters of a mode's name


def latency_ecdf(
    values: Mapping[str, Iterable[float | None]], *, log: bool = False, ax: Axes | None = None
) -> Figure:
    """Draw the empirical distributions of times (seconds), by name; None counts for nothing.

    log: a logarithmic time axis. ax: draw there instead.
    """
    times = _known(values)

    def draw(ax: Axes) -> Text:
        quiet(ax, "s", "%")
        for n, (name, found) in enumerate(times.items()):
            # One more point at the foot, so that the first step starts from 0 %.
            shares = [100 * i / len(found) for i in range(len(found) + 1)]
            style: dict[str, Any] = {
                "color": STROKES[n % 7],
                "linestyle": DASHES[n % 7],
                "label": label(name, NAME),
            }
            ax.step([*found[:1], *found], shares, where="post", linewidth=1.8, **style)
        for percent in PERCENTS:
            ax.axhline(percent, color=INK, linewidth=0.5, linestyle=":", zorder=0)
        ax.set(ylim=(0, 101), yticks=(0, *PERCENTS[:2], 100), xscale="log" if log else "linear")
        if times:
            key(ax)
        rows = [[name, *cells] for name, *cells in _rows(times)]
        told = "; ".join(f"{name}: n {n}, p50 {a} s, p95 {b} s, p99 {c} s" for name, n, a, b, c, _ in rows)
        return both(en=f"Distribution of times. {told}.", zh=f"时间的分布。{_chinese(told)}。")

    return on(ax, 6.0, 3.0, draw)


def latency_table(values: Mapping[str, Iterable[float | None]]) -> str:
    """The same distributions as a table to print: count, percentiles as in chapter 2, the largest (seconds)."""
    name, most = tr(en="mode", zh="方式"), tr(en="max", zh="最大")
    return table_text([name, "n", *(f"p{percent}" for percent in PERCENTS), most], _rows(_known(values)))


def _known(values: Mapping[str, Iterable[float | None]]) -> dict[str, list[float]]:
    """The values that there are, sorted; names without any are left out."""
    known = {name: sorted(v for v in some if v is not None) for name, some in values.items()}
    return {name: found for name, found in known.items() if found}


def _rows(times: Mapping[str, Sequence[float]]) -> list[list[str]]:
    import numpy as np

    return [
        [name, str(len(found)), *map(number, np.percentile(found, PERCENTS)), number(found[-1])]
        for name, found in times.items()
    ]


def _chinese(told: str) -> str:
    """Names and numbers with Chinese punctuation between them."""
    return told.replace(", ", "，").replace("; ", "；").replace(": ", "：")


def compare(modes: Mapping[str, Mapping[str, float | None]]) -> Figure:
    """Draw ``{mode: {metric: value}}``, a panel a metric; a metric's unit is best a part of its name."""
    metrics = list(dict.fromkeys(metric for its in modes.values() for metric in its))
    figure = new_figure(min(1.2 + 2.4 * max(1, len(metrics)), 10.0), 0.7 + 0.34 * max(1, len(modes)))
    axes = figure.subplots(1, max(1, len(metrics)), sharey=True, squeeze=False)[0]
    for ax, metric in zip(axes, metrics, strict=False):
        quiet(ax)
        ax.set_title(label(metric, NAME), fontsize=8, family=FONT, color=INK, loc="left")
        for y, its in enumerate(modes.values()):
            value = its.get(metric)
            look: dict[str, Any] = {"color": CYCLE[y % 7], "hatch": HATCHES[y % 7], "edgecolor": "white"}
            ax.barh(y, value or 0, height=0.7, linewidth=0, **look)
            said = "-" if value is None else number(value)
            text = ax.annotate(said, (value or 0, y), (3, 0), textcoords="offset points", va="center")
            text.set(fontsize=8, family=FONT, color=INK)
        ax.set_xticks([])
        ax.margins(x=0.3)
        ax.set_ylim(len(modes) - 0.5, -0.5)
        ax.set_yticks(range(len(modes)), [label(mode, NAME) for mode in modes])
    told = [
        f"{mode}: " + ", ".join(f"{m} {'-' if v is None else number(v)}" for m, v in its.items())
        for mode, its in modes.items()
    ]
    return described(
        figure,
        both(en=f"Comparison. {'; '.join(told)}.", zh=f"对比。{_chinese('; '.join(told))}。"),
    )


def sweep(
    curves: Mapping[str, Mapping[float, float | None]],
    x: str = "",
    y: str = "",
    *,
    log: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Draw ``{mode: {setting: value}}``, a line a mode.

    x, y: units, in ASCII. log: a logarithmic axis of settings. ax: draw there instead.
    """

    def draw(ax: Axes) -> Text:
        quiet(ax, x, y)
        told = []
        for n, (name, curve) in enumerate(curves.items()):
            points = [(a, b) for a, b in sorted(curve.items()) if b is not None]
            style: dict[str, Any] = {
                "color": STROKES[n % 7],
                "linestyle": DASHES[n % 7],
                "marker": MARKERS[n % 7],
            }
            ax.plot(*zip(*points, strict=True), label=label(name, NAME), **style)
            told.append(f"{name}: " + ", ".join(f"{number(a)} -> {number(b)}" for a, b in points))
        ax.set_xscale("log" if log else "linear")
        settings = sorted({a for curve in curves.values() for a in curve})
        if len(settings) <= TICKS:
            ax.set_xticks(settings, [number(setting) for setting in settings])
            ax.minorticks_off()
        ax.grid(axis="y", color="#eeeeee")
        if curves:
            key(ax)
        return both(en=f"Sweep. {'; '.join(told)}.", zh=f"扫描。{_chinese('; '.join(told))}。")

    return on(ax, 6.0, 3.0, draw)
