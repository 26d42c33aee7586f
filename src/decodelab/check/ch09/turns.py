"""The whole step, many times over: whoever joins, leaves or waits, each request hears what it would hear alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.ch08 import oracle, tiny
from decodelab.check.ch08.common import close, misfit
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.models.config import Config

if TYPE_CHECKING:
    from decodelab.grading.student import Student

PLAY = """
from decodelab.contract import Plan
from decodelab.models.config import Config

def _decoder(config, weights):
    return Decoder(Config(**config), weights)

def _pool(config, num_blocks, block_size):
    kv = PagedKV(Config(**config), num_blocks, block_size)
    kv.keys.fill_(float("nan")), kv.values.fill_(float("nan"))
    return kv

def _turn(decoder, kv, scheduled, start, sequences, tables, freed):
    batch = pack(Plan(scheduled=scheduled, start=start), sequences, tables, kv.block_size)
    logits = forward_batch(decoder, kv, batch)
    for block in freed:
        gone = slice(block * kv.block_size, (block + 1) * kv.block_size)
        kv.keys[:, gone], kv.values[:, gone] = float("nan"), float("nan")
    return logits
"""


@dataclass
class Turn:
    """One step: how many tokens of whom from where on, in which blocks, and which blocks are free afterwards."""

    scheduled: dict[str, int]
    start: dict[str, int]
    tables: dict[str, list[int]]
    freed: list[int]

    def end(self, name: str) -> int:
        """How many tokens of a request are computed once the step is done."""
        return self.start[name] + self.scheduled[name]


class Blocks:
    """Free blocks in no order, those that came back last given out first; more where there are none."""

    def __init__(self, seed: int, spare: int) -> None:
        self.free, self.count = np.random.RandomState(seed).permutation(spare).tolist(), spare

    def take(self) -> int:
        """A block."""
        if not self.free:
            self.free, self.count = [self.count], self.count + 1
        return self.free.pop()


def turns_of(case: Case) -> tuple[list[Turn], dict[str, int], int]:
    """The steps of a case, the length of each request by the end, and how many blocks it takes."""
    size, blocks = case["block_size"], Blocks(case["seed"], 5)
    last = {name: n for n, step in enumerate(case["turns"]) for name, _ in step}
    done: dict[str, int] = dict.fromkeys(last, 0)
    tables: dict[str, list[int]] = {name: [] for name in last}
    turns = []
    for n, step in enumerate(case["turns"]):
        scheduled = dict(step)
        turn = Turn(scheduled, {name: done[name] for name in scheduled}, {}, [])
        for name, count in step:
            done[name] += count
            while len(tables[name]) * size < done[name]:
                tables[name].append(blocks.take())
            turn.tables[name] = list(tables[name])
        turn.freed = [block for name, _ in step if last[name] == n for block in tables[name]]
        blocks.free += turn.freed
        turns.append(turn)
    return turns, done, blocks.count


def sense(case: Case) -> bool:
    """Whether a case, perhaps a shrunk one, is a run that could be."""
    return all(
        step and len(dict(step)) == len(step) and all(count >= 1 for _, count in step)
        for step in case["turns"]
    )


def check_turns(student: Student, case: Case) -> Finding | None:
    """A tiny model, step by step, against the oracle's logits of each request by itself."""
    if not sense(case):
        return None
    student.load("check", PLAY)
    shape, weights = tiny.shape_of(case["model"]), tiny.weights(case["model"], case["seed"])
    turns, lengths, blocks = turns_of(case)
    rng = np.random.RandomState(case["seed"])
    texts = {name: rng.randint(shape["vocab"], size=n).tolist() for name, n in sorted(lengths.items())}
    want = {name: oracle.logits(Config(**shape), weights, tokens) for name, tokens in texts.items()}
    decoder = student.new("_decoder", shape, weights)
    kv = student.new("_pool", shape, blocks, case["block_size"])
    replies = []
    for turn in turns:
        known = {
            name: tokens[: max(turn.end(name), 1)] for name, tokens in texts.items() if name in turn.start
        }
        replies.append(
            student.later("_turn", decoder, kv, turn.scheduled, turn.start, known, turn.tables, turn.freed)
        )
    for n, (turn, reply) in enumerate(zip(turns, replies, strict=True)):
        if wrong := one_turn(n, turn, reply(), want, shape["vocab"]):
            return wrong
    return None


def one_turn(n: int, turn: Turn, got: Any, want: dict[str, np.ndarray], vocab: int) -> Finding | None:
    """The logits after each request's last row of one step."""
    call = f"forward_batch(decoder, kv, pack(Plan({turn.scheduled}, start={turn.start}), …))"
    if wrong := misfit(got, (len(turn.scheduled), vocab), call):
        return wrong
    for i, name in enumerate(turn.scheduled):
        row, due = got.numbers[i], want[name][turn.end(name) - 1]
        if close(row, due):
            continue
        if np.isnan(row).any():
            return finding("only-what-was-written", f"Step {n + 1}, {call}: the logits of request {name!r} are NaN; slots that nobody wrote and blocks that became free hold NaN here, and must not be read.",
                           f"第 {n + 1} 步，{call}：请求 {name!r} 的 logits 是 NaN；没人写过的槽位和已经释放的块，这里放的都是 NaN，不能读。", hint=2)  # fmt: skip
        worst = int(np.abs(row - due).argmax())
        return finding("as-if-alone", f"Step {n + 1}, {call}: request {name!r} must hear what it hears alone. The logit of token {worst} must be {due[worst]:.4g}, not {row[worst]:.4g}.",
                       f"第 {n + 1} 步，{call}：请求 {name!r} 应当和单独运行时一样。token {worst} 的 logit 应当是 {due[worst]:.4g}，而不是 {row[worst]:.4g}。", hint=2)  # fmt: skip
    return None
