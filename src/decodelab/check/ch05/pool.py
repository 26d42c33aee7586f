"""A script of calls, played on a student's block manager, and what must hold after every one of them.

Which blocks a request gets is free, so nothing is compared with an expected table: each call is judged by
what it made of the tables and of the number of free blocks that stood before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import both

if TYPE_CHECKING:
    from decodelab.grading.student import Remote, Student

TABLES_BEFORE = both(en="Block tables before this call", zh="这次调用之前的块表")
METHODS = {"slots": "slot_mapping"}  # where a script has a shorter word
PRELUDE = (
    "def _given(value):\n    return value\n"  # a dict that is handed over can so be looked at afterwards
)


@dataclass(frozen=True)
class Held:
    """What a block manager holds: the tables that are not empty, all ids it has an entry for, free blocks."""

    tables: dict[Any, list[int]]
    ids: list[Any]
    num_free: int

    @property
    def blocks(self) -> set[int]:
        """Every block that somebody holds."""
        return {block for table in self.tables.values() for block in table}

    @property
    def entries(self) -> dict[Any, list[int]]:
        """The tables, also those without a block."""
        return {request_id: self.tables.get(request_id, []) for request_id in self.ids}

    def owners(self, block: int) -> list[Any]:
        """Who holds this block."""
        return [request_id for request_id, table in self.tables.items() if block in table]


@dataclass(frozen=True)
class Turn:
    """One call, and what stood before and after it.

    ``sent``: the arguments as they went over, a dict by its handle. ``reply()`` is what the call returned, or
    raises what it raised.
    """

    name: str
    args: list[Any]
    sent: list[Any]
    reply: Callable[[], Any]
    before: Held
    after: Held
    num_blocks: int
    block_size: int

    @property
    def typed(self) -> str:
        """The call as one would type it."""
        return call_of([self.name, *self.args])

    @property
    def changed(self) -> bool:
        """Whether tables or free blocks are not what they were; an entry that came without a block counts, too."""
        came = set(self.after.ids) - set(self.before.ids)
        return bool(came) or (self.before.tables, self.before.num_free) != (
            self.after.tables,
            self.after.num_free,
        )

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold that many tokens: one begins at each multiple of the block size below it."""
        return len(range(0, num_tokens, self.block_size))

    def told(self, rule: str, en: str, zh: str, hint: int = 1) -> Finding:
        """A finding about this call, with the tables before it."""
        tables = [{"request": i, "table": table} for i, table in self.before.tables.items()]
        return finding(rule, en, zh, hint, state=tables, label=TABLES_BEFORE, call=self.typed)


Judge: TypeAlias = "Callable[[Turn], Finding | None]"


def many(count: int, noun: str) -> str:
    """``1 block``, ``2 blocks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def call_of(order: list[Any]) -> str:
    """An order of a script as one would type it."""
    name, *args = order
    return f"kv.{METHODS.get(name, name)}({', '.join(map(repr, args))})"


def class_of(case: Case) -> str:
    """The class that a case is about."""
    return "SharedBlockManager" if case.get("shares") else "BlockManager"


def walked(student: Student, case: Case, judges: Mapping[str, Judge]) -> Finding | None:
    """Play the script on a new manager and judge its calls, those without a judge by what always holds.

    It ends at the first call that makes no sense, as a shrunk script may have one.
    """
    num_blocks, block_size = case["num_blocks"], case["block_size"]
    kv = student.new(class_of(case), num_blocks, block_size)
    before = Held({}, [], num_blocks)
    for (method, *args), sent, reply, look in list(played(student, kv, case["script"])):
        if not sensible(method, args, before, block_size):
            return None
        judge = judges.get(method)
        if judge is None:
            reply()
        after = look()
        if isinstance(after, Finding):
            reply()  # where the call raised, that is what to tell
            return after
        turn = Turn(method, args, sent, reply, before, after, num_blocks, block_size)
        if broken := (judge and judge(turn)) or unsound(turn):
            return broken
        before = after
    return None


def played(
    student: Student, kv: Remote, script: list[list[Any]]
) -> Iterator[tuple[list[Any], list[Any], Any, Callable[[], Held | Finding]]]:
    """Every order, what is sent, its reply and a look at what it left behind; all go over in one round trip."""
    for name, *args in script:
        sent = [student.later_new("_given", a) if isinstance(a, dict) else a for a in args]
        reply = kv.later(METHODS.get(name, name), *sent)
        tables, free = kv.later_get("tables"), kv.later_get("num_free")
        yield [name, *args], sent, reply, lambda tables=tables, free=free: seen(tables(), free())  # type: ignore[misc]


def seen(tables: Any, num_free: Any) -> Held | Finding:
    """Tables and free blocks as data; a finding where they are not of the form that the class came with."""
    well = isinstance(tables, dict) and type(num_free) is int
    if well and all(isinstance(t, list) and all(type(b) is int for b in t) for t in tables.values()):
        return Held({i: table for i, table in tables.items() if table}, list(tables), num_free)
    return finding(
        "tables-are-lists",
        "tables must map each request id to a list of block ids (whole numbers), and num_free be a whole number.",
        "tables 必须把每个 request_id 对应到一个块号（整数）列表，num_free 必须是整数。",
    )


def sensible(method: str, args: list[Any], held: Held, block_size: int) -> bool:
    """Whether the call is one that the contract says something about."""
    room = {i: len(table) * block_size for i, table in held.tables.items()}
    if method == "slots":
        request_id, start, count = args
        return request_id in room and start + count <= room[request_id]
    if method == "write":
        return args[0] in room and args[1] < room[args[0]]
    if method == "waste":
        return all(i in args[0] and args[0][i] <= room[i] for i in room)
    return True


def unsound(turn: Turn) -> Finding | None:
    """What holds after any call: it minds its own request, hands out free blocks, and loses none."""
    return others_changed(turn) or taken_twice(turn) or not_conserved(turn)


def others_changed(turn: Turn) -> Finding | None:
    """A call changes the table of its own request only; ``fork`` that of the child."""
    own = turn.args[-1 if turn.name == "fork" else 0] if turn.args else None
    for request_id in {**turn.before.tables, **turn.after.tables}:
        was, now = (held.tables.get(request_id, []) for held in (turn.before, turn.after))
        if request_id != own and was != now:
            return turn.told(
                "others-untouched",
                f"{turn.typed} changed the table of request {request_id!r} from {was} to {now}: a call changes the "
                "table of its own request only, and no two requests may share one list.",
                f"{turn.typed} 把请求 {request_id!r} 的块表从 {was} 改成了 {now}：一次调用只能改自己那个请求的块表，"
                "两个请求也不能共用同一个列表。",
            )
    return None


def taken_twice(turn: Turn) -> Finding | None:
    """A block that a table gains was free: in the pool, held by nobody, and not gained twice."""
    if turn.name == "fork":
        return None
    for request_id, table in turn.after.tables.items():
        old = turn.before.tables.get(request_id, [])
        gained = [block for i, block in enumerate(table) if old[i : i + 1] != [block]]
        for i, block in enumerate(gained):
            if block in turn.before.blocks or block in gained[:i] or not 0 <= block < turn.num_blocks:
                return turn.told(
                    "free-blocks-only",
                    f"{turn.typed} gave block {block} to request {request_id!r}, whose table is now {table}; but "
                    f"{not_free(turn, block, 'en')}.",
                    f"{turn.typed} 把块 {block} 给了请求 {request_id!r}，它的块表现在是 {table}；可是"
                    f"{not_free(turn, block, 'zh')}。",
                )
    return None


def not_free(turn: Turn, block: int, lang: str) -> str:
    """Why a block could not be taken."""
    if owners := turn.before.owners(block):
        holder = ", ".join(map(repr, owners))
        return {"en": f"request {holder} holds it", "zh": f"它正被请求 {holder} 占着"}[lang]
    if not 0 <= block < turn.num_blocks:
        last = turn.num_blocks - 1
        return {"en": f"block ids go from 0 to {last}", "zh": f"块号的范围是 0 到 {last}"}[lang]
    return {"en": "a block can be taken once only", "zh": "一个块只能被拿走一次"}[lang]


def not_conserved(turn: Turn) -> Finding | None:
    """Blocks that are held and blocks that are free are all blocks."""
    held, free = len(turn.after.blocks), turn.after.num_free
    if held + free == turn.num_blocks:
        return None
    return turn.told(
        "conservation",
        f"After {turn.typed} the tables hold {many(held, 'block')}, with {free} free, which makes {held + free}; "
        f"the pool has {turn.num_blocks}. A block is either held or free, always.",
        f"执行 {turn.typed} 之后，块表里占着 {held} 块，空闲 {free} 块，合计 {held + free} 块；而池里一共 "
        f"{turn.num_blocks} 块。一个块要么被占着，要么空闲，任何时候都如此。",
        hint=2,
    )
