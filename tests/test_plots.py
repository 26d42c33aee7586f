"""Strips: every event is drawn where it belongs, in shapes, numbers and ids; nothing that came breaks one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.text import Text
from nbclient import NotebookClient

from decodelab.errors import DecodeLabError
from decodelab.lang import speaking
from decodelab.show import plots
from decodelab.show.common import ROOMY
from decodelab.show.plots import CAPTIONS, alt_text, as_img, as_png, caption, compare_strips, event_strip
from decodelab.show.strip import LOOKS, SIGNS, WINDOW

pytestmark = pytest.mark.filterwarnings("error")  # also for a glyph that the font does not have

SERVED = [3, 1, 2, 3, 1, 1, 2, 2, 2]  # course.md's worked case: who was served
PROMPTS = {1: 2, 2: 3, 3: 1}


def served(ids: list[int], prompts: dict[int, int]) -> list[dict[str, Any]]:
    """The events of a toy that serves these requests in this order."""
    generated = dict.fromkeys(prompts, -1)
    events = []
    for request_id in ids:
        generated[request_id] += 1
        count, most = generated[request_id], prompts[request_id]
        action = "finish" if count == most else "decode_one_step" if count else "prefill_to_decode"
        phase = "decode" if count else "prefill"
        events.append(
            {
                "request_id": request_id,
                "phase": phase,
                "action": action,
                "prompt_len": most,
                "generated_len": count,
            }
        )
    return events


NINE = served(SERVED, PROMPTS)


def logged(step: int, request_id: int, action: str) -> dict[str, Any]:
    """An event of a step log."""
    lengths = {"prompt_len": 7, "generated_len": 2}
    return {"request_id": request_id, "phase": "decode", "action": action, "step": step} | lengths


BATCH = [
    logged(4, 1, "arrive"),
    logged(4, 2, "arrive"),
    logged(4, 1, "admit"),
    logged(4, 1, "prefill_chunk"),
    logged(5, 1, "prefill_to_decode"),
    logged(5, 2, "admit"),
    logged(5, 2, "decode_one_step"),
    logged(9, 2, "preempt"),
    logged(9, 1, "finish"),
    logged(11, 2, "cancel"),
]
LONG = served([i for i in range(1, 6) for _ in range(60)], dict.fromkeys(range(1, 6), 59))


def tiles(ax: Any) -> set[tuple[float, float]]:
    """Where the tiles of an axes are: (step, row)."""
    found = set()
    for collection in ax.collections:
        if isinstance(collection, PolyCollection):
            for path in collection.get_paths():
                box = path.get_extents()
                found.add(((box.x0 + box.x1) / 2, round((box.y0 + box.y1) / 2, 6)))
    return found


def words(figure: Any) -> Iterator[str]:
    """Every text that the figure shows."""
    figure.draw_without_rendering()
    return (t.get_text() for t in figure.findobj(Text) if t.get_visible() and t.get_text())


def marks(ax: Any) -> list[float]:
    return [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "v"]


def test_each_event_has_its_column_and_its_requests_row() -> None:
    (ax,) = event_strip(NINE).axes
    assert tiles(ax) == {(step, request_id - 1) for step, request_id in enumerate(SERVED, 1)}
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "3"]
    top, bottom = ax.get_ylim()[::-1]
    assert top < bottom


def test_events_of_a_batch_share_their_steps_column() -> None:
    ax: Any = event_strip(BATCH).axes[0]
    assert tiles(ax) == {(4, 0), (5, 0), (5, 1), (9, 0)}
    numbers = {text.get_position(): text.get_text() for text in ax.texts}
    assert numbers == {(5, 0): "7", (5, 1): "2", (9, 0): "2"}
    signs = {line.get_marker(): [*zip(line.get_xdata(), line.get_ydata(), strict=True)] for line in ax.lines}
    assert signs[SIGNS["preempt"]] == [(9, 1)]
    assert signs[SIGNS["cancel"]] == [(11, 1)]
    assert [y for _, y in signs[SIGNS["arrive"]]] == [0, 1]
    waits = [tuple(line.get_xdata()) for line in ax.lines if line.get_zorder() == 1]
    assert sorted(waits) == [(3.6, 9), (3.6, 11)]


def test_a_batchs_first_difference_is_marked_in_its_step() -> None:
    assert [marks(ax) for ax in compare_strips(BATCH, BATCH[:7], 7).axes] == [[9], [9]]
    assert [marks(ax) for ax in compare_strips(BATCH[:7], BATCH, 7).axes] == [[9], [9]]
    assert marks(event_strip(BATCH, mark=4).axes[0]) == [5]


def test_steps_that_go_back_are_no_columns() -> None:
    (ax,) = event_strip([logged(3, 1, "finish"), logged(2, 1, "finish")]).axes
    assert tiles(ax) == {(1, 0), (2, 0)}


def test_a_tile_shows_the_prompt_or_the_tokens_so_far() -> None:
    (ax,) = event_strip(NINE).axes
    numbers = {text.get_position(): text.get_text() for text in ax.texts}
    assert numbers[(1, 2)] == "1"
    assert numbers[(3, 1)] == "3"
    assert [numbers[(step, 0)] for step in (2, 5, 6)] == ["2", "1", "2"]


def test_actions_differ_without_colour() -> None:
    assert len({(look.height, look.hatch, look.dot) for look in LOOKS.values()}) == len(LOOKS)


@pytest.mark.parametrize("figure", [event_strip(NINE, mark=3), compare_strips(LONG, NINE, 1)])
def test_a_figure_holds_numbers_and_glyphs_only(figure: Any) -> None:
    shown = set(words(figure))
    assert "1" in shown
    assert all(text.isdecimal() or text in "■□" for text in shown)


@pytest.mark.parametrize("count", [0, 1, ROOMY, ROOMY + 1, 300])
def test_any_number_of_events_is_drawn_whole(count: int) -> None:
    (ax,) = event_strip(LONG[:count]).axes
    assert len(tiles(ax)) == count
    left, right = ax.get_xlim()
    assert left < 1
    assert right > count
    assert all(0 < tick <= count for tick in ax.get_xticks())
    assert bool(ax.texts) == (0 < count <= ROOMY)


def test_a_request_waits_from_its_first_event_to_its_end_or_the_edge() -> None:
    (ax,) = event_strip(NINE[:6]).axes
    lines: list[Any] = [line for line in ax.lines if line.get_zorder() == 1]
    spans = {line.get_ydata()[0]: tuple(line.get_xdata()) for line in lines}
    assert spans == {0: (2, 6), 1: (3, 6.5), 2: (1, 4)}


def test_the_mark_points_at_the_step_of_an_index() -> None:
    (ax,) = event_strip(NINE, mark=3).axes
    assert marks(ax) == [4]
    assert "4" in [text.get_text() for text in ax.texts if text.get_position() == (7, 0)]


def test_a_comparison_has_spec_and_yours_on_one_axis_with_the_difference_marked() -> None:
    spec, yours = compare_strips(NINE, NINE[:4], 4).axes
    assert (spec.get_ylabel(), yours.get_ylabel()) == ("■", "□")
    assert (len(tiles(spec)), len(tiles(yours))) == (9, 4)
    assert spec.get_xlim() == yours.get_xlim()
    assert spec.get_ylim() == yours.get_ylim()
    assert marks(spec) == marks(yours) == [5]


@pytest.mark.parametrize("at", [0, 5, 150, 299])
def test_a_long_comparison_is_cut_around_the_difference(at: int) -> None:
    spec, _ = compare_strips(LONG, LONG[:at], at).axes
    left, right = spec.get_xlim()
    assert left < at + 1 < right + 1
    assert 2 * WINDOW < right - left < ROOMY
    assert len(tiles(spec)) == 2 * WINDOW + 1
    assert tiles(spec) <= {(step, row) for step in range(int(left), int(right) + 1) for row in range(5)}
    assert spec.texts


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
oddities = st.lists(anything | st.fixed_dictionaries(dict.fromkeys(NINE[0], anything)), max_size=6)


@settings(deadline=None, max_examples=40)
@given(oddities)
def test_whatever_came_can_be_drawn_beside_the_spec(got: list[Any]) -> None:
    figure = compare_strips(NINE, got, 0)
    assert len(tiles(figure.axes[1])) == len(got)
    assert all(text.isascii() or set(text) & set("■□…") for text in words(figure))
    assert str(len(got)) in alt_text(event_strip(got))["zh"]


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    import matplotlib.pyplot as plt

    own = plt.figure()
    before = dict(matplotlib.rcParams)
    event_strip(NINE)
    compare_strips(NINE, NINE)
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == [own.number]
    assert plt.gcf() is own
    plt.close(own)


def test_a_strip_is_drawn_where_it_is_wanted() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots()
    assert event_strip(NINE, ax=ax) is figure
    assert len(tiles(ax)) == 9


def test_an_image_stands_alone_and_says_what_it_shows() -> None:
    first, second = as_png(event_strip(NINE)), as_png(event_strip(NINE))
    assert first.startswith(b"\x89PNG")
    assert first == second
    event = NINE[0] | {"request_id": '<">'}
    with speaking("en"):
        image = as_img(event_strip([event]))
    assert image.startswith('<img alt="Timeline: steps 1, requests 1; request &lt;&quot;&gt;, steps 1 to 1')
    assert "data:image/png;base64,iVBOR" in image


def test_a_timeline_in_words() -> None:
    assert alt_text(event_strip(NINE[:6])) == {
        "en": "Timeline: steps 6, requests 3; request 1, steps 2 to 6, finished; "
        "request 2, steps 3 to 3, not finished; request 3, steps 1 to 4, finished.",
        "zh": "时间线：6 步，3 个请求；请求 1，第 2 步到第 6 步，已完成；请求 2，第 3 步到第 3 步，未完成；"
        "请求 3，第 1 步到第 4 步，已完成。",
    }
    many = served(list(range(1, 11)), dict.fromkeys(range(1, 11), 1))
    assert alt_text(event_strip(many))["zh"].endswith("；另有 2 个请求。")
    assert alt_text(event_strip(BATCH))["en"].startswith(
        "Timeline: steps 4, requests 2; request 1, steps 4 to 9"
    )
    assert alt_text(compare_strips(NINE, NINE[:6])) == alt_text(event_strip(NINE[:6]))


def test_every_picture_has_a_caption() -> None:
    draws = {name for name in plots.__all__ if getattr(plots, name).__annotations__["return"] == "Figure"}
    assert draws | {"batch_strip"} == CAPTIONS.keys()
    for text in CAPTIONS.values():
        assert text.keys() == {"en", "zh"}
        assert all(text.values())


def test_captions_explain_every_glyph_in_both_languages() -> None:
    for lang in ("en", "zh"):
        assert all(glyph in caption("compare_strips")[lang] for glyph in "■□▼")
        assert caption("event_strip")[lang] in caption("compare_strips")[lang]
    with pytest.raises(ValueError, match="no caption 'bars'"):
        caption("bars")


def test_a_notebook_shows_a_figure_once_where_it_is_a_cells_value() -> None:
    cells = [f"from decodelab.show.plots import *\nstrip = event_strip({NINE[:1]})", "strip", "strip;"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    shown = [["image/png" in output.get("data", {}) for output in cell.outputs] for cell in notebook.cells]
    assert shown == [[], [True], []]
    assert "<img alt=" in notebook.cells[1].outputs[0]["data"]["text/html"]


def test_without_matplotlib_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(DecodeLabError, match="pip install matplotlib"):
        event_strip(NINE)


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, decodelab.show.plots as p; p.caption(); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
