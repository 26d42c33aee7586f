"""As test_parity_rules, for the rules that chapters 3, 4 and 7 state: broken one at a time, in their own TODO."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from reference import lab
from test_parity_rules import code, parted

from decodelab.check.ch07.cases import REASONS, VISIBLE
from decodelab.check.schedule.walk import Walk
from decodelab.contract import SchedulerConfig

COUNT = "count = seq.num_tokens - seq.num_computed_tokens\n"
CAP = "cap = config.long_prefill_token_threshold\nif active > 1 and cap:\n    count = min(count, cap)\n"
PIECE = "if count > budget and not config.enable_chunked_prefill:\n    return 0\n"
CHUNK = "return min(count, budget)"
LENGTH_FIRST = """
for token in tokens:
    seq.num_tokens += 1
    if seq.num_tokens >= seq.longest:
        return "length"
    if token in seq.stop_token_ids:
        return "stop"
"""
RULES = [  # the rule that is broken, the TODO that states it, and the code there
    ("first come, first served", "ch03.1", "return (-request.arrival_time, request.request_id)"),
    ("a long prefill is capped", "ch07.1", COUNT + PIECE + CHUNK),
    ("and is not, when alone", "ch07.1", COUNT + CAP.replace("active > 1 and ", "") + PIECE + CHUNK),
    ("a budget bounds a step", "ch07.1", COUNT + CAP + PIECE + "return count"),
    ("who runs goes on in order of admission", "ch07.2", code("ch07.2").replace("running[i]", "running[-1 - i]")),
    ("who waits may wait alone", "ch07.2", code("ch07.2").replace("len(self.sequences)", "len(running)")),
    ("a part of a prompt may come in", "ch07.3", code("ch07.3").replace("(count and", "(count == seq.num_tokens and")),
    ("a step fills all the slots that it can", "ch07.3", code("ch07.3") + "\n    return"),
    ("an answer goes on to the model's length", "ch07.4", code("ch07.4").replace("seq.longest, limit", "seq.longest, 64")),
    ("ties between victims do not look at ids", "ch07.5", code("ch07.5").replace("VllmPriority", "PriorityOrder")),
    ("the pool has the blocks that were recorded", "ch07.5", code("ch07.5").replace("num_blocks,", "num_blocks + 1,")),
]  # fmt: skip
UNSEEN = [  # likewise; no recorded run comes across these, the visible workloads of chapter 7 do
    ("a stop token counts before the length", "ch04.1", LENGTH_FIRST),
    ("a victim before the cursor moves it", "ch07.2", code("ch07.2").replace("< i\n", "< 0\n")),
    ("an answer ends at the model's length", "ch07.4", "pass"),
]


def walked(changed: Mapping[str, str]) -> list[str]:
    """The rules of the checks that chapter 7's visible workloads find broken."""
    chapter, found = lab(changed)("ch07"), []
    for case in VISIBLE["ch07.2"] + VISIBLE["ch07.4"]:
        policy = getattr(chapter, case.get("policy", "FCFS"))()
        scheduler = chapter.ChunkedScheduler(SchedulerConfig(**case["config"]), policy)
        finding = Walk(case, scheduler, REASONS).run()
        found += [finding.rule] if finding else []
    return found


@pytest.mark.parametrize(("todo", "broken"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_a_broken_rule_makes_a_recorded_run_differ(todo: str, broken: str) -> None:
    assert broken != code(todo)
    assert parted({todo: broken})


@pytest.mark.parametrize(("todo", "broken"), [row[1:] for row in UNSEEN], ids=[row[0] for row in UNSEEN])
def test_what_no_recording_shows_a_visible_workload_does(todo: str, broken: str) -> None:
    assert broken != code(todo)
    assert walked({todo: broken})
    assert parted({todo: broken}) == [], "a recording does show it: move it up to RULES"


def test_the_reference_breaks_none() -> None:
    assert walked({}) == []
