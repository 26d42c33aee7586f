"""TODOs 6 to 8, the extension: blocks with several owners, and who may write into one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from decodelab.check.ch05.grow import forgotten
from decodelab.check.ch05.pool import Turn, many, unsound, walked
from decodelab.check.rules import Case, Finding, StudentError
from decodelab.check.toolkit import refused
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

WHY_NO_FORK = both(
    en="the parent must have a table and the child none", zh="parent 必须有块表，child 必须没有"
)
WHY_NO_COPY = both(en="a copy is needed and no block is free", zh="需要复制，却没有空闲块")
WHO_COUNTS = both(
    en=" A shared block is free only when its last owner has gone: does `fork` count the new owner?",
    zh="共用的块要等最后一个主人离开才空闲：`fork` 有没有把新主人数进去？",
)


def check_fork(student: Student, case: Case) -> Finding | None:
    """Every ``fork`` of the script; whether owners were counted shows in what is free later."""
    return walked(student, case, {"fork": fork, "free": counted})


def check_release(student: Student, case: Case) -> Finding | None:
    """Every ``free`` of the script, where blocks have several owners."""
    return walked(student, case, {"free": release})


def check_write(student: Student, case: Case) -> Finding | None:
    """Every ``write`` of the script."""
    return walked(student, case, {"write": write})


def fork(turn: Turn) -> Finding | None:
    """The child has the parent's blocks, in order, and no block is taken."""
    parent, child = turn.args
    before, after = turn.before, turn.after
    if parent not in before.ids or child in before.ids:
        return refused_unchanged(turn, WHY_NO_FORK)
    turn.reply()
    table = before.tables.get(parent, [])
    if after.tables.get(child, []) != table:
        return turn.told(
            "same-blocks",
            f"After {turn.typed} the table of {child!r} must be that of {parent!r}, {table}; "
            f"it is {after.tables.get(child, [])}.",
            f"执行 {turn.typed} 之后，{child!r} 的块表应当和 {parent!r} 的一样，即 {table}；"
            f"现在是 {after.tables.get(child, [])}。",
        )
    if after.num_free != before.num_free:
        return turn.told(
            "takes-no-block",
            f"{turn.typed} shares blocks and takes none, so {before.num_free} must stay free, "
            f"not {after.num_free}.",
            f"{turn.typed} 只是共用，不拿新块，所以空闲块应当仍是 {before.num_free}，而不是 {after.num_free}。",
        )
    return None


def refused_unchanged(turn: Turn, why: Text) -> Finding | None:
    """ValueError, and everything as it was."""
    broken = refused(turn.reply, turn.typed, why, lambda: False, lambda: turn.changed)
    return broken and replace(broken, hint=1)


def counted(turn: Turn) -> Finding | None:
    """Owners that a ``fork`` did not count show when one of them goes."""
    turn.reply()
    broken = unsound(turn)
    if broken is None or broken.rule != "conservation":
        return broken
    return replace(broken, text={lang: words + WHO_COUNTS[lang] for lang, words in broken.text.items()})


def release(turn: Turn) -> Finding | None:
    """Blocks that nobody else holds are free again; the others stay with their other owners."""
    (request_id,) = turn.args
    if broken := forgotten(turn):
        return broken
    left = {block for i, table in turn.before.tables.items() if i != request_id for block in table}
    want, got = turn.num_blocks - len(left), turn.after.num_free
    if got == want:
        return None
    table = turn.before.tables.get(request_id, [])
    shared = [block for block in table if block in left]
    return turn.told(
        "others-still-hold" if got > want else "last-owner-gives-back",
        f"After {turn.typed} {many(want, 'block')} must be free, not {got}: of its blocks {table} others still hold "
        f"{shared or 'none'}.",
        f"执行 {turn.typed} 之后应当有 {want} 个空闲块，而不是 {got} 个：它的块是 {table}，"
        + (f"其中 {shared} 还有别人占着。" if shared else "没有一个还被别人占着。"),
        hint=2,
    )


def write(turn: Turn) -> Finding | None:
    """A block with one owner is written in place; a shared one is copied first."""
    request_id, position = turn.args
    index = position // turn.block_size
    block = turn.before.tables[request_id][index]
    others = [owner for owner in turn.before.owners(block) if owner != request_id]
    if not others:
        return in_place(turn, block)
    if not turn.before.num_free:
        return refused_unchanged(turn, WHY_NO_COPY)
    return copied(turn, turn.reply(), block, index, others)


def in_place(turn: Turn, block: int) -> Finding | None:
    """Nothing to copy: None, and nothing changed."""
    if broken := refuses_its_owner(turn, block):
        return broken
    if (got := turn.reply()) is None and not turn.changed:
        return None
    return turn.told(
        "writes-in-place",
        f"{turn.typed}: block {block} has no other owner, so nothing is copied and nothing changes; yours returned "
        f"{got!r} and left the table {turn.after.tables.get(turn.args[0])}.",
        f"{turn.typed}：块 {block} 没有别的主人，不用复制，什么都不变；你的返回了 {got!r}，"
        f"块表成了 {turn.after.tables.get(turn.args[0])}。",
    )


def refuses_its_owner(turn: Turn, block: int) -> Finding | None:
    """Who owns a block alone needs no free one."""
    try:
        turn.reply()
    except StudentError as error:
        if turn.before.num_free or not (error.is_a("ValueError") or error.is_a("IndexError")):
            raise
        return turn.told(
            "writes-in-place",
            f"{turn.typed}: block {block} has no other owner, so None even when no block is free; yours raised "
            f"{error.kind}.",
            f"{turn.typed}：块 {block} 没有别的主人，没有空闲块也应当返回 None；你的却抛出了 {error.kind}。",
        )
    return None


def copied(turn: Turn, got: Any, block: int, index: int, others: list[Any]) -> Finding | None:
    """(from, to), and ``to`` in the place of ``from`` in this one table."""
    request_id, _ = turn.args
    old, new = turn.before.tables[request_id], turn.after.tables.get(request_id, [])
    if new == old:
        return turn.told(
            "copies-what-is-shared",
            f"{turn.typed}: block {block} also belongs to {others}, so this request needs one of its own; yours "
            f"returned {got!r} and left the table as it was.",
            f"{turn.typed}：块 {block} 同时属于 {others}，所以这个请求需要一个自己的块；"
            f"你的返回了 {got!r}，块表没有变。",
        )
    if len(new) != len(old) or new[:index] != old[:index] or new[index + 1 :] != old[index + 1 :]:
        return turn.told(
            "that-entry-only",
            f"{turn.typed} must change entry {index} of the table {old} and nothing else; it is now {new}.",
            f"{turn.typed} 应当只改块表 {old} 的第 {index} 项（从 0 数）；现在是 {new}。",
        )
    if not isinstance(got, (tuple, list)) or list(got) != [block, new[index]]:
        return turn.told(
            "from-and-to",
            f"{turn.typed} must return ({block}, {new[index]}): copy from the old block to the new; "
            f"yours returned {got!r}.",
            f"{turn.typed} 应当返回 ({block}, {new[index]})：从旧块复制到新块；你的返回了 {got!r}。",
            hint=2,
        )
    return None
