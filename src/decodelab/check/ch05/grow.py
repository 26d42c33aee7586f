"""TODOs 1 to 3: how many blocks are missing, taking them, giving them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decodelab.check.ch05.pool import Turn, many, walked
from decodelab.check.rules import Case, Finding, StudentError
from decodelab.check.toolkit import no_answer

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_missing(student: Student, case: Case) -> Finding | None:
    """Every ``missing`` of the script, against the table as it then is."""
    return walked(student, case, {"missing": missing})


def check_allocate(student: Student, case: Case) -> Finding | None:
    """Every ``allocate`` of the script."""
    return walked(student, case, {"allocate": allocate})


def check_free(student: Student, case: Case) -> Finding | None:
    """Every ``free`` of the script, and what can be taken afterwards."""
    return walked(student, case, {"free": free})


def missing(turn: Turn) -> Finding | None:
    """The blocks that the tokens need, less those that the table has, and never fewer than none."""
    request_id, num_tokens = turn.args
    has, needs = len(turn.before.tables.get(request_id, [])), turn.blocks_for(num_tokens)
    if broken := newcomer_unknown(turn):
        return broken
    want, got = max(0, needs - has), turn.reply()
    if type(got) is not int:
        return turn.told(
            "a-number",
            f"{turn.typed} must be a whole number; yours gave {got!r}.",
            f"{turn.typed} 应当是整数，你的结果是 {got!r}。",
            hint=0,
        )
    if got != want:
        rule = "never-negative" if got < 0 else "counts-what-it-has" if has and got == needs else "rounds-up"
        return turn.told(
            rule,
            f"{turn.typed} must be {want}, not {got}: it takes {many(needs, 'block')} of {turn.block_size} to hold "
            f"{many(num_tokens, 'token')}, and request {request_id!r} has {has}.",
            f"{turn.typed} 应当是 {want}，而不是 {got}：{num_tokens} 个 token 要用 {needs} 个大小为 {turn.block_size} "
            f"的块，请求 {request_id!r} 已经有 {has} 个。",
            hint=2,
        )
    return only_looks(turn, hint=2)


def newcomer_unknown(turn: Turn) -> Finding | None:
    """A request that is not in the tables yet has no blocks: that is no KeyError."""
    request_id, num_tokens = turn.args
    try:
        turn.reply()
    except StudentError as error:
        if not error.is_a("KeyError") or request_id in turn.before.ids:
            raise
        return turn.told(
            "newcomer-has-none",
            f"{turn.typed} must be {turn.blocks_for(num_tokens)}: request {request_id!r} has no table yet, so it has "
            f"0 blocks; yours raised {error.kind}.",
            f"{turn.typed} 应当是 {turn.blocks_for(num_tokens)}：请求 {request_id!r} 还没有块表，也就是 0 块；"
            f"你的却抛出了 {error.kind}。",
            hint=2,
        )
    return None


def only_looks(turn: Turn, hint: int = 0) -> Finding | None:
    """A question changes nothing."""
    if not turn.changed:
        return None
    return turn.told(
        "only-looks",
        f"{turn.typed} only answers a question and changes nothing, not even by an empty table; afterwards the "
        f"tables were {turn.after.entries}, with {turn.after.num_free} free.",
        f"{turn.typed} 只回答问题，什么都不能改，空表也不能建；可是执行之后块表是 {turn.after.entries}，"
        f"空闲 {turn.after.num_free} 块。",
        hint=hint,
    )


def allocate(turn: Turn) -> Finding | None:
    """Enough blocks and no more at the table's end and True; or False, and nothing changed."""
    request_id, num_tokens = turn.args
    old, new = (held.tables.get(request_id, []) for held in (turn.before, turn.after))
    need = max(0, turn.blocks_for(num_tokens) - len(old))
    if need > turn.before.num_free:
        return fails(turn, need)
    if (said := turn.reply()) is False:
        return turn.told(
            "uses-the-last-block",
            f"{turn.typed} needs {many(need, 'more block')}, with {turn.before.num_free} free, so it must succeed; "
            "yours returned False.",
            f"{turn.typed} 还需要 {need} 块，空闲的有 {turn.before.num_free} 块，应当成功；你的却返回了 False。",
            hint=2,
        )
    return true_or_false(turn, said) or grown(turn, old, new, need)


def fails(turn: Turn, need: int) -> Finding | None:
    """Not enough blocks: False, and everything as it was."""
    free, raised, said = turn.before.num_free, "", None
    try:
        said = turn.reply()
    except StudentError as error:
        if no_answer(error):
            raise
        raised = error.kind
    if said is True or raised:
        en, zh = (f"raised {raised}", f"抛出了 {raised}") if raised else ("returned True", "返回了 True")
        return turn.told(
            "says-no-when-full",
            f"{turn.typed} needs {many(need, 'more block')}, with {free} free, so it must return False; yours {en}.",
            f"{turn.typed} 还需要 {need} 块，空闲的只有 {free} 块，应当返回 False；你的却{zh}。",
        )
    if turn.changed:
        return turn.told(
            "all-or-nothing",
            f"{turn.typed} needs {many(need, 'more block')}, with {free} free, so it must change nothing; afterwards "
            f"the tables were {turn.after.entries}, with {turn.after.num_free} free.",
            f"{turn.typed} 还需要 {need} 块，空闲的只有 {free} 块，应当什么都不改；可是执行之后块表是 "
            f"{turn.after.entries}，空闲 {turn.after.num_free} 块。",
        )
    return true_or_false(turn, said)


def true_or_false(turn: Turn, said: object) -> Finding | None:
    """The answer is a bool."""
    if isinstance(said, bool):
        return None
    return turn.told(
        "true-or-false",
        f"{turn.typed} must return True or False; yours returned {said!r}.",
        f"{turn.typed} 应当返回 True 或 False，你的返回了 {said!r}。",
        hint=0,
    )


def grown(turn: Turn, old: list[int], new: list[int], need: int) -> Finding | None:
    """The table is what it was, and ``need`` blocks behind it."""
    request_id, _ = turn.args
    if new[: len(old)] != old:
        return turn.told(
            "keeps-the-table",
            f"{turn.typed} turned the table {old} into {new}; the blocks it has hold tokens already, so new ones "
            "go to the end.",
            f"{turn.typed} 把块表 {old} 变成了 {new}；已有的块里存着 token，新块只能加在末尾。",
            hint=2,
        )
    if len(new) == len(old) + need:
        return None
    few = len(new) < len(old) + need
    return turn.told(
        "enough-blocks" if few else "no-more-than-needed",
        f"{turn.typed} must leave request {request_id!r} with {many(len(old) + need, 'block')} of {turn.block_size}: "
        f"it had {len(old)} and now has {len(new)}.",
        f"执行 {turn.typed} 之后，请求 {request_id!r} 应当有 {len(old) + need} 个大小为 {turn.block_size} 的块："
        f"原来 {len(old)} 个，现在 {len(new)} 个。",
        hint=2,
    )


def free(turn: Turn) -> Finding | None:
    """All blocks of the request are free again, and its entry is gone; an unknown id changes nothing."""
    (request_id,) = turn.args
    table = turn.before.tables.get(request_id, [])
    if broken := forgotten(turn):
        return broken
    if turn.after.num_free - turn.before.num_free == len(table):
        return None
    return turn.told(
        "gives-all-back",
        f"{turn.typed} must give back {many(len(table), 'block')}, {table}; {turn.before.num_free} were free before, "
        f"{turn.after.num_free} are now.",
        f"{turn.typed} 应当归还 {len(table)} 块：{table}；空闲块原来有 {turn.before.num_free} 个，"
        f"现在有 {turn.after.num_free} 个。",
    )


def forgotten(turn: Turn) -> Finding | None:
    """No exception for an id without blocks, and no entry left in tables."""
    (request_id,) = turn.args
    try:
        turn.reply()
    except StudentError as error:
        if error.todo or request_id in turn.before.ids or error.kind == "Missing":
            raise
        return turn.told(
            "unknown-ignored",
            f"{turn.typed}: this request holds no blocks, so nothing is to be done; yours raised {error.kind}.",
            f"{turn.typed}：这个请求一个块也没占，什么都不用做；你的却抛出了 {error.kind}。",
            hint=2,
        )
    if request_id not in turn.after.ids:
        return None
    return turn.told(
        "forgets-the-table",
        f"After {turn.typed} the request must have no entry in tables any more.",
        f"执行 {turn.typed} 之后，tables 里不应当再有这个请求的条目。",
        hint=2,
    )
