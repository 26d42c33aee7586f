"""Pictures of numbers: distributions, comparisons, sweeps and the roofline say what the numbers say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from decodelab.lang import speaking
from decodelab.show.plots import alt_text, compare, latency_ecdf, latency_table, roofline, sweep

pytestmark = pytest.mark.filterwarnings("error")  # also for a glyph that the font does not have

times = st.lists(st.floats(0.001, 100), min_size=1, max_size=30)


def curves(figure: Any) -> dict[str, list[tuple[float, float]]]:
    """The points of each labelled line."""
    return {
        str(line.get_label()): [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)]
        for line in figure.axes[0].lines
        if not str(line.get_label()).startswith("_")
    }


@settings(max_examples=40)
@given(times)
def test_a_distribution_rises_at_each_value_to_the_share_that_is_not_above_it(values: list[float]) -> None:
    points = curves(latency_ecdf({"a": [None, *values]}))["a"]
    assert points[0] == (min(values), 0)
    highest = dict(points)
    for value in values:
        assert highest[value] == pytest.approx(100 * sum(v <= value for v in values) / len(values))


def test_the_table_interpolates_between_neighbours_as_chapter_2_does() -> None:
    with speaking("zh"):
        table = latency_table({"fcfs": [4.0, 1.0, 3.0, None, 2.0], "one": [2.5, None], "none": [None]})
    assert table.splitlines() == [
        "方式  n  p50  p95   p99   最大",
        "fcfs  4  2.5  3.85  3.97  4",
        "one   1  2.5  2.5   2.5   2.5",
    ]


def test_modes_are_told_apart_without_colour() -> None:
    modes = {name: {"ttft s": 1.0, "jain": None} for name in "abcdefg"}
    bars: Any = compare(modes).axes[0].patches
    assert len({bar.get_hatch() for bar in bars}) == 7
    lines = latency_ecdf({name: [1.0, 2.0] for name in "abcdefg"}).axes[0].lines[:7]
    assert len({str(vars(line)["_unscaled_dash_pattern"]) for line in lines}) == 7


def test_a_comparison_has_a_panel_a_metric_and_a_bar_a_mode() -> None:
    figure = compare({"fcfs": {"ttft s": 3.25, "jain": 0.7}, "sjf": {"ttft s": 1.5, "jain": None}})
    panels: Any = figure.axes
    assert [ax.get_title("left") for ax in panels] == ["ttft s", "jain"]
    assert [[bar.get_width() for bar in ax.patches] for ax in panels] == [[3.25, 1.5], [0.7, 0]]
    assert [[text.get_text() for text in ax.texts] for ax in panels] == [["3.25", "1.5"], ["0.7", "-"]]
    assert alt_text(figure) == {
        "en": "Comparison. fcfs: ttft s 3.25, jain 0.7; sjf: ttft s 1.5, jain -.",
        "zh": "对比。fcfs：ttft s 3.25，jain 0.7；sjf：ttft s 1.5，jain -。",
    }


def test_a_sweep_is_drawn_in_order_of_its_settings() -> None:
    figure = sweep({"chunked": {512: 0.2, 32: 0.1, 64: None}}, "tok", "s", log=True)
    assert curves(figure) == {"chunked": [(32, 0.1), (512, 0.2)]}
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["32", "64", "512"]
    assert "32 -> 0.1" in alt_text(figure)["zh"]


PEAK, BANDWIDTH = 1e12, 1e10  # ridge: 100 FLOP/B
amounts = st.floats(1e3, 1e15)


@settings(max_examples=40)
@given(amounts, amounts)
def test_a_step_without_a_measured_time_lies_on_the_roof(flops: float, moved: float) -> None:
    figure: Any = roofline({"a": (flops, moved)}, PEAK, BANDWIDTH)
    (x, y) = next(line.get_data() for line in figure.axes[0].lines if line.get_marker() != "None")
    assert x[0] == pytest.approx(flops / moved)
    assert y[0] == pytest.approx(min(PEAK, BANDWIDTH * flops / moved))


def test_a_measured_step_lies_below_it_and_its_limit_is_told() -> None:
    figure: Any = roofline({"prefill": (1e12, 1e9), "decode": (1e9, 1e9, 0.5)}, PEAK, BANDWIDTH)
    points = [line.get_data() for line in figure.axes[0].lines if line.get_marker() != "None"]
    assert [(x[0], y[0]) for x, y in points] == [(1000, 1e12), (1, 2e9)]
    assert alt_text(figure)["en"] == (
        "Roofline with its ridge at 100 FLOP/B. prefill: 1000 FLOP/B, 100 % of the peak, compute-bound; "
        "decode: 1 FLOP/B, 0.2 % of the peak, memory-bound."
    )
    assert "访存受限" in alt_text(figure)["zh"]


@pytest.mark.parametrize("numbers", [(0, 1.0, 1.0), (1.0, -1, 1.0), (1.0, 1.0, 0)])
def test_a_roofline_of_nothing_is_refused(numbers: tuple[float, float, float]) -> None:
    flops, peak, bandwidth = numbers
    with pytest.raises(ValueError, match="positive"):
        roofline({"a": (flops, 1.0)}, peak, bandwidth)


@pytest.mark.parametrize(
    "figure",
    [
        latency_ecdf({"先来先服务": [1.0]}),
        compare({"先来先服务": {"首 token": 1.0}}),
        sweep({"分块": {1: 2.0}}),
        roofline({"解码": (1.0, 1.0)}, 2.0, 1.0),
        latency_ecdf({}),
        compare({}),
        sweep({}),
        roofline({}, 2.0, 1.0),
    ],
)
def test_names_from_anywhere_and_nothing_at_all_can_be_drawn(figure: Figure) -> None:
    figure.draw_without_rendering()
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert not any("\u4e00" <= letter <= "\u9fff" for text in texts for letter in text)
    assert alt_text(figure)["zh"].endswith("。")
