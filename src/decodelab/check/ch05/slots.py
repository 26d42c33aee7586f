"""TODOs 4 and 5: where a token lies, and how much of what is held is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch05.grow import only_looks
from decodelab.check.ch05.pool import PRELUDE, Turn, many, walked
from decodelab.check.rules import Case, Finding, StudentError

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_slots(student: Student, case: Case) -> Finding | None:
    """Every ``slot_mapping`` of the script, against the tables as they then are."""
    return walked(student, case, {"slots": slots})


def check_waste(student: Student, case: Case) -> Finding | None:
    """Every ``waste`` of the script."""
    student.load("check", PRELUDE)
    return walked(student, case, {"waste": waste})


def slots(turn: Turn) -> Finding | None:
    """One slot a position, in order, in the block that the table names for it."""
    request_id, start, count = turn.args
    pool = [
        block * turn.block_size + offset
        for block in turn.before.tables[request_id]
        for offset in range(turn.block_size)
    ]
    want, got = pool[start : start + count], turn.reply()
    if not isinstance(got, list) or any(type(slot) is not int for slot in got):
        return turn.told(
            "a-list",
            f"{turn.typed} must be a list of whole numbers; yours gave {got!r}.",
            f"{turn.typed} 应当是整数列表，你的结果是 {got!r}。",
            hint=0,
        )
    if got == want:
        return only_looks(turn)
    table = turn.before.tables[request_id]
    return turn.told(
        slip(got, want, pool[:count], turn.block_size),
        f"{turn.typed} must be {want}, not {got}: the table is {table}, a block has {many(turn.block_size, 'slot')}, and "
        f"block b has the slots from b × {turn.block_size} on.",
        f"{turn.typed} 应当是 {want}，而不是 {got}：块表是 {table}，一个块有 {turn.block_size} 个槽位，"
        f"块 b 的槽位从 b × {turn.block_size} 开始。",
        hint=2,
    )


def slip(got: list[int], want: list[int], from_zero: list[int], block_size: int) -> str:
    """The rule that these slots break."""
    if len(got) != len(want):
        return "one-slot-each"
    if got == from_zero:
        return "from-start"
    blocks = [slot // block_size for slot in got] == [slot // block_size for slot in want]
    return "offset-in-block" if blocks else "by-the-table"


def waste(turn: Turn) -> Finding | None:
    """The share of the held slots that hold no token, 0 where none is held."""
    (num_tokens,) = turn.args
    held = len(turn.before.blocks) * turn.block_size
    if not held and (broken := divides_by_nothing(turn)):
        return broken
    got, used = turn.reply(), sum(num_tokens[request_id] for request_id in turn.before.tables)
    want = (held - used) / held if held else 0.0
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return turn.told(
            "a-number",
            f"{turn.typed} must be a number; yours gave {got!r}.",
            f"{turn.typed} 应当是一个数，你的结果是 {got!r}。",
            hint=0,
        )
    if abs(got - want) < 1e-9:
        return only_looks(turn) or leaves_the_dict(turn)
    if not held:
        return nothing_held(turn, f"gave {got!r:.20}", f"给出了 {got!r:.20}")
    return turn.told(
        rule_of_share(got, used, held, sum(num_tokens.values()), turn),
        f"{turn.typed} must be {want:.4g}, not {got!r:.20}: slots held: {held}, tokens stored in them: {used}.",
        f"{turn.typed} 应当是 {want:.4g}，而不是 {got!r:.20}：占着 {held} 个槽位，其中 {used} 个存着 token。",
        hint=2,
    )


def divides_by_nothing(turn: Turn) -> Finding | None:
    """Where no block is held, a share of nothing is asked for."""
    try:
        turn.reply()
    except StudentError as error:
        if not error.is_a("ZeroDivisionError"):
            raise
        return nothing_held(turn, f"raised {error.kind}", f"抛出了 {error.kind}")
    return None


def nothing_held(turn: Turn, en: str, zh: str) -> Finding:
    """0 is the share where there is no whole; ``en`` and ``zh`` say what came."""
    return turn.told(
        "nothing-held",
        f"{turn.typed}: no block is held, so it must be 0; yours {en}.",
        f"{turn.typed}：一块都没占，应当是 0；你的却{zh}。",
        hint=2,
    )


def leaves_the_dict(turn: Turn) -> Finding | None:
    """What is handed over belongs to the caller."""
    left = turn.sent[0].data()
    if left == turn.args[0]:
        return None
    return turn.told(
        "only-looks",
        f"{turn.typed} must leave the caller's dict as it is; afterwards it was {left}.",
        f"{turn.typed} 不能改动调用者传进来的 dict；执行之后它成了 {left}。",
        hint=0,
    )


def rule_of_share(got: Any, used: int, held: int, everybody: int, turn: Turn) -> str:
    """The rule that this share breaks."""
    everything = turn.num_blocks * turn.block_size
    if abs(got - (held - everybody) / held) < 1e-9:
        return "holders-only"
    if abs(got - (everything - used) / everything) < 1e-9:
        return "of-what-is-held"
    return "share-of-empty-slots"
