"""Pictures of a step log: each shows what an independent count of the log says, at any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from schedulers import records_of

from decodelab.contract import SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.log import Record, events
from decodelab.request import Job, Request
from decodelab.run import Step, StepClock
from decodelab.show.common import MOST, ROOMY, alt_text
from decodelab.show.gantt import EACH
from decodelab.show.moment import Film
from decodelab.show.plots import batch_composition, gantt, idle_slots, kv_map, queue_lengths
from decodelab.show.story import phases, spans, tables

pytestmark = pytest.mark.filterwarnings("error")  # also for a glyph that the font does not have

SLOTS, BUDGET, BLOCKS = 4, 16, 12
PAGED = SchedulerConfig(SLOTS, BUDGET, block_size=4, num_blocks=BLOCKS)

moments = st.floats(0, 30, allow_nan=False)
requests = st.builds(Request, st.integers(), moments, st.integers(1, 24), st.integers(1, 9))
loads = st.lists(requests, min_size=1, max_size=9).map(
    lambda some: [
        Request(n, request.arrival_time, request.prompt_len, request.max_new_tokens)
        for n, request in enumerate(some)
    ]
)


def chats(count: int) -> list[Request]:
    """So many small requests, the next one every second step."""
    return [Request(n, 2.0 * n, 5 + n % 11, 1 + n % 7) for n in range(count)]


TEN = records_of(chats(2), PAGED)
LONG = records_of([Request(n, 2.0 * n, 9, 8) for n in range(10_000)], PAGED)
PRESSED = records_of([Request(n, 0.0, 10 + n, 9) for n in range(5)], PAGED)

DRAW: dict[str, Callable[[Sequence[Record]], Figure]] = {
    "gantt": gantt,
    "batch_composition": lambda records: batch_composition(records, BUDGET),
    "queue_lengths": queue_lengths,
    "idle_slots": lambda records: idle_slots(records, SLOTS),
    "kv_map": kv_map,
    "film": lambda records: Film(records).pictures([0, len(records) - 1][: len(records)] or [0]),
}


def tiles(ax: Any) -> Iterator[tuple[float, float, float, float]]:
    """The rectangles on an axes: left, right, top, bottom; the background's hatched one is left out."""
    for collection in ax.collections:
        if isinstance(collection, PolyCollection) and not (
            collection.get_hatch() == "////" and _white(collection)
        ):
            for path in collection.get_paths():
                box = path.get_extents()
                yield box.x0, box.x1, box.y0, box.y1


def _white(collection: Any) -> bool:
    return tuple(collection.get_facecolor()[0]) == (1, 1, 1, 1)


def stairs(figure: Figure) -> Any:
    """The data of each stairs in a figure: values and edges."""
    found: Any = figure.axes[0].findobj(StepPatch)
    return [patch.get_data() for patch in found]


def heights(figure: Figure) -> list[list[float]]:
    return [list(data.values) for data in stairs(figure)]


def image(figure: Figure) -> Any:
    """Colours by block and column."""
    return figure.axes[0].images[0].get_array()


# --- what every picture does --------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAW)
@pytest.mark.parametrize("records", [TEN, PRESSED, LONG], ids=["short", "pressed", "long"])
def test_a_picture_holds_numbers_ids_and_units_only_and_knows_its_words(
    name: str, records: list[Record]
) -> None:
    figure = DRAW[name](records)
    figure.draw_without_rendering()
    texts = {text.get_text() for text in figure.findobj(Text) if text.get_visible()}
    assert all(text.replace("\N{MINUS SIGN}", "-").isascii() for text in texts)
    assert texts & {"s", "#", "tok", "#0"}
    assert not {text for text in texts if text.isalpha()} - {"s", "tok"}
    words = alt_text(figure)
    assert any(digit in words["en"] for digit in "123456789")
    assert "，" in words["zh"] or "；" in words["zh"]


@pytest.mark.parametrize("name", DRAW)
def test_steps_are_no_records(name: str) -> None:
    with pytest.raises(DecodeLabError, match=r"A Step is not .* record_all\(Loop"):
        DRAW[name]([Step(0, 0.0)])  # type: ignore[list-item]


@pytest.mark.parametrize("name", [name for name in DRAW if name != "film"])
def test_a_run_without_steps_is_an_empty_picture(name: str) -> None:
    figure = DRAW[name]([])
    figure.draw_without_rendering()
    assert "0" in alt_text(figure)["en"]


@settings(max_examples=40)
@given(loads)
def test_phases_are_those_of_the_events(load: list[Request]) -> None:
    records = records_of(load, PAGED)
    served = {"prefill_chunk", "prefill_to_decode", "decode_one_step", "finish"}
    told = [(e["step"], e["request_id"], e["phase"]) for e in events(records, load) if e["action"] in served]
    found = zip(records, phases(records), strict=True)
    assert told == [(record["step"], i, phase) for record, its in found for i, phase in its.items()]


@settings(max_examples=15)
@given(loads, st.integers(0, 20), st.sampled_from(sorted(DRAW)))
def test_records_cut_out_of_a_log_can_be_drawn(load: list[Request], start: int, name: str) -> None:
    records = records_of(load, PAGED)
    cut = records[start:] or records[-1:]
    DRAW[name](cut).draw_without_rendering()
    later = {i for record in cut for i in record["new"]}
    for found, whole in zip(phases(cut), phases(records)[-len(cut) :], strict=True):
        assert all(found[i] == whole[i] for i in later & found.keys())


@pytest.mark.parametrize("name", ["gantt", "batch_composition", "queue_lengths", "idle_slots", "kv_map"])
def test_a_picture_is_drawn_where_it_is_wanted(name: str) -> None:
    figure = Figure()
    own = {"idle_slots": {"max_num_seqs": SLOTS}}.get(name, {})
    draw = {"gantt": gantt, "batch_composition": batch_composition, "queue_lengths": queue_lengths}
    chosen: Any = draw | {"idle_slots": idle_slots, "kv_map": kv_map}
    assert chosen[name](TEN, ax=figure.subplots(), **own) is figure


def test_a_long_run_is_aggregated() -> None:
    assert len(LONG) >= 20_000
    for name in ("batch_composition", "queue_lengths", "idle_slots", "gantt"):
        assert all(0 < len(values) <= MOST for values in heights(DRAW[name](LONG)))
    assert image(DRAW["kv_map"](LONG)).shape[1] <= MOST


# --- the Gantt chart ------------------------------------------------------------------------------


@settings(max_examples=40)
@given(loads)
def test_a_requests_spans_follow_each_other_from_arrival_to_end(load: list[Request]) -> None:
    records = records_of(load, PAGED)
    story = spans(records, load)
    mine: dict[Any, list[tuple[float, float, str]]] = {request.request_id: [] for request in load}
    for state, some in story.states.items():
        for request_id, x0, x1 in some:
            mine[request_id].append((x0, x1, state))
    refused = {i for record in records for i in record["refused"]}
    assert {i for i, _ in story.unserved} == refused
    ends = dict(story.finished)
    for request in load:
        its = sorted(mine.pop(request.request_id))
        if request.request_id in refused:
            assert its == []
            continue
        assert its[0][0] == request.arrival_time
        assert its[-1][1] == ends[request.request_id]
        assert all(a[1] == b[0] and a[2] != b[2] for a, b in pairwise(its))
    served = sum(x1 - x0 for state in ("prefill", "decode") for _, x0, x1 in story.states.get(state, ()))
    assert served == pytest.approx(sum(len(record["scheduled"]) for record in records))
    assert sorted(story.preempted) == sorted((i, x0) for i, x0, _ in story.states.get("preempted", ()))
    assert Counter(i for i, _ in story.preempted) == Counter(i for r in records for i in r["preempted"])


@pytest.mark.parametrize("arrival_time", [0.0, 0.25, 99.0])
def test_on_the_logical_clock_a_request_waits_from_the_step_it_came_in(arrival_time: float) -> None:
    jobs = [Job(Request(1, 0.0, 4, 9)), Job(Request(2, arrival_time, 4, 2), arrival_step=3)]
    records = records_of(jobs, SchedulerConfig(1, 16), clock=StepClock())
    waiting = spans(records, [job.request for job in jobs]).states["waiting"]
    assert waiting == [(2, 3.0, 9.0)]


def test_who_gives_up_ends_there() -> None:
    jobs = [Job(Request(1, 0.0, 4, 9), abort_at=3.0), Job(Request(2, 0.0, 4, 2), abort_at=2.0)]
    records = records_of([*jobs, Request(3, 0.0, 4, 2)], SchedulerConfig(1, 16))
    dropped = [
        record | {"aborted": [], "dropped": dict.fromkeys(record["aborted"], "timeout")} for record in records
    ]
    for log in (records, dropped):
        story = spans(log)
        assert story.unserved == [(2, 2.0), (1, 3.0)]
        assert story.states == {
            "prefill": [(1, 0.0, 1.0), (3, 3.0, 4.0)],
            "decode": [(1, 1.0, 3.0), (3, 4.0, 5.0)],
            "waiting": [(2, 0.0, 2.0), (3, 0.0, 3.0)],
        }


def test_a_request_has_a_row_and_signs_for_its_preemptions_and_its_end() -> None:
    ax: Any = gantt(PRESSED).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2", "3", "4"]
    signs = {line.get_marker(): len(line.get_xdata()) for line in ax.lines}
    lost = sum(len(record["preempted"]) for record in PRESSED)
    assert (signs["o"], signs["X"]) == (5, lost)
    assert lost
    rows = {round((top + bottom) / 2) for _, _, top, bottom in tiles(ax)}
    assert rows == {0, 1, 2, 3, 4}


def test_a_crowd_is_counted_by_state() -> None:
    load = [Request(n, 0.0, 3, 4) for n in range(EACH + 1)]
    records = records_of(load, SchedulerConfig(1, 16))
    levels = heights(gantt(records))
    assert levels[-1][0] == pytest.approx(EACH + 1)
    area = sum(levels[-1]) * records[-1]["time"] / MOST
    assert area == pytest.approx(sum(4.0 * (n + 1) for n in range(EACH + 1)))


# --- the batch ------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(loads)
def test_a_batchs_tokens_are_split_by_phase(load: list[Request]) -> None:
    records = records_of(load, SchedulerConfig(SLOTS, BUDGET))
    decode, both = heights(batch_composition(records, BUDGET))
    assert both == [sum(record["scheduled"].values()) for record in records]
    assert sum(both) - sum(decode) == sum(request.prompt_len for request in load)


def test_the_budget_is_a_line_across() -> None:
    lines: Any = batch_composition(TEN, BUDGET).axes[0].lines
    assert [set(line.get_ydata()) for line in lines] == [{BUDGET}]
    assert not batch_composition(TEN).axes[0].lines


@settings(max_examples=20)
@given(loads)
def test_queues_are_as_long_as_the_log_says(load: list[Request]) -> None:
    records = records_of(load, PAGED)
    if not records:
        return
    running, waiting = stairs(queue_lengths(records))
    assert list(running.values) == [len(record["running"]) for record in records]
    assert list(waiting.values) == [len(record["waiting"]) for record in records]
    assert list(waiting.edges)[:-1] == [record["start"] for record in records]


@settings(max_examples=40)
@given(loads)
def test_each_request_in_a_batch_has_a_slot_to_itself(load: list[Request]) -> None:
    records = records_of(load, PAGED)
    places = [
        (round((x0 + x1) / 2), round((y0 + y1) / 2))
        for x0, x1, y0, y1 in tiles(idle_slots(records, SLOTS).axes[0])
    ]
    assert len(set(places)) == len(places)
    columns = Counter(x for x, _ in places)
    if len(records) <= 3 * ROOMY:
        assert [columns[x] for x in range(len(records))] == [len(record["scheduled"]) for record in records]
    assert all(0 <= slot < SLOTS for _, slot in places)


def test_a_request_keeps_its_slot_and_a_freed_one_is_taken() -> None:
    load = [Request(1, 0.0, 1, 2), Request(2, 0.0, 1, 5), Request(3, 0.0, 1, 2)]
    figure = idle_slots(records_of(load, SchedulerConfig(2, 16)), 2)
    slots = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert slots == {"1": (0, 0), "2": (0, 1), "3": (2, 0)}
    assert alt_text(figure)["en"] == "2 slots over 5 steps: 90 % busy, the rest idle."


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [-3, 0, BLOCKS - 1])
def test_a_map_has_room_for_every_block_of_its_log(odd: int) -> None:
    with pytest.raises(DecodeLabError, match=f"num_blocks is {odd}; give {BLOCKS} or more"):
        kv_map(PRESSED, odd)


@settings(max_examples=40)
@given(loads)
def test_what_is_not_owned_is_what_the_scheduler_calls_free(load: list[Request]) -> None:
    records = records_of(load, PAGED)
    for record, held in zip(records, tables(records), strict=True):
        used = [block for table in held.values() for block in table]
        assert (
            len(set(used))
            == len(used)
            == BLOCKS - (record["free_blocks"] or 0 if record["scheduled"] else BLOCKS)
        )


def test_the_map_is_white_where_a_block_is_free() -> None:
    white = (image(kv_map(PRESSED, BLOCKS)) == 1).all(axis=2).sum(axis=0)
    assert list(white) == [record["free_blocks"] for record in PRESSED]


def test_a_shared_block_is_black() -> None:
    shared = [TEN[0] | {"blocks": {0: [0, 1], 1: [0, 2]}}]
    column = image(kv_map(shared, 4))[:, 0]
    assert len(set(map(tuple, column))) == 4
    assert column[0].max() < 0.25


# --- one step -------------------------------------------------------------------------------------


def test_a_moment_shows_queue_batch_and_blocks_of_its_step() -> None:
    film = Film(PRESSED)
    at = next(n for n, record in enumerate(PRESSED) if record["preempted"])
    record = PRESSED[at]
    axes: Any = film.picture(at).axes
    queue, batch, memory = axes
    assert [text.get_text() for text in queue.texts] == [str(i) for i in record["waiting"]]
    assert [label.get_text() for label in batch.get_yticklabels()] == [str(i) for i in record["scheduled"]]
    assert [bar.get_width() for bar in batch.patches] == list(record["scheduled"].values())
    assert len(memory.texts) == BLOCKS - record["free_blocks"]
    words = film.words(at)
    assert f"preempted {record['preempted'][0]}" in words["en"]
    assert f"被抢占 {record['preempted'][0]}" in words["zh"]


def test_who_finishes_in_a_step_owns_blocks_in_it() -> None:
    film = Film(TEN)
    at = next(n for n, record in enumerate(TEN) if record["finished"])
    shown = {text.get_text() for text in film.picture(at).axes[2].texts}
    assert shown >= {str(i) for i in TEN[at]["finished"]}


def test_what_a_panel_has_no_room_for_is_counted() -> None:
    film = Film(records_of([Request(n, 0.0, 1, 1) for n in range(50)], SchedulerConfig(20, 64)))
    queue, batch = film.picture(0).axes
    assert queue.texts[-1].get_text() == "+18"
    assert batch.get_yticklabels()[-1].get_text() == "+8"
    assert "and 4 more" in film.words(0)["en"]
    assert "另有 4 个" in film.words(0)["zh"]
