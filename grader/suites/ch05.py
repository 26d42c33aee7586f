"""Chapter 5's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch05``; only the workloads are new here.
"""

from __future__ import annotations

import random
from typing import Any

from decodelab.check.ch05.cases import FORKED, MIXED, case, shared, takes
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

DIRECTED: dict[str, list[Case]] = {
    "ch05.1": [
        case("large-numbers", 8, 16, *(["missing", "a", n] for n in (999_985, 10**6, 160, 161))),
        case("every-remainder", 9, 5, *(["missing", 0, n] for n in range(12)), *takes((0, 11)), ["missing", 0, 15]),
        case("back-to-nothing", 6, 4, *takes(("a", 8)), ["free", "a"], ["missing", "a", 8]),
    ],
    "ch05.2": [
        case("a-long-one", 64, 3, *takes(("a", 100), ("b", 90), ("a", 102), ("b", 91), ("c", 1))),
        case("fails-and-goes-on", 5, 2, *takes(("a", 4), ("b", 3), ("a", 7), ("c", 1), ("c", 3), ("b", 4))),
        case("a-failing-newcomer", 2, 4, *takes(("a", 9), ("b", 8), ("a", 1))),
        case("ids-of-both-kinds", 6, 4, *takes((1, 4), ("1", 8), (1, 5), (0, 4))),
    ],
    "ch05.3": [
        case("in-and-out", 5, 2, *takes(("a", 6), ("b", 3)), ["free", "b"], ["free", "b"], *takes(("c", 4)),
             ["free", "a"], *takes(("d", 6)), ["free", "c"], ["free", "d"], *takes(("e", 10))),
        case("many-small-ones", 12, 1, *takes(*((i, 1) for i in range(12))), *(["free", i] for i in range(0, 12, 2)),
             *takes(("x", 6)), *(["free", i] for i in range(12)), ["free", "x"], *takes(("y", 12))),
    ],
    "ch05.4": [
        case("to-the-last-slot", 8, 4, *MIXED, ["slots", "a", 0, 12], ["slots", "b", 15, 1], ["slots", "b", 0, 16]),
        case("a-block-that-holds-all", 4, 64, *takes(("x", 1), ("a", 40)), ["slots", "a", 7, 30]),
        case("odd-sizes", 9, 7, *takes(("x", 7), ("a", 8), ("y", 7), ("a", 30)), ["slots", "a", 5, 20]),
    ],
    "ch05.5": [
        case("nearly-everything", 8, 16, *takes(("a", 17), (3, 1)), ["waste", {"a": 17, 3: 1}]),
        case("stored-less-than-it-may", 8, 4, *takes(("a", 20)), ["waste", {"a": 0}], ["waste", {"a": 20}]),
        case("a-full-pool", 4, 4, *takes(("a", 16)), ["waste", {"a": 13, "b": 9}]),
    ],
    "ch05.6": [
        shared("fork-of-a-fork", 9, 2, *takes(("a", 5)), ["fork", "a", "b"], ["fork", "b", "c"], *takes(("c", 9)),
             ["fork", "c", "d"], *(["free", i] for i in "cabd"), *takes(("e", 18))),
        shared("no-block-free", 3, 4, *FORKED, ["fork", "a", "c"], ["free", "a"], ["free", "c"]),
        shared("a-name-once-more", 8, 4, *FORKED, ["free", "b"], ["fork", "a", "b"], ["free", "a"], ["free", "b"]),
        shared("with-itself", 8, 4, *takes(("a", 6)), ["fork", "a", "a"], ["free", "a"]),
    ],
    "ch05.7": [
        shared("fork-of-a-fork", 9, 2, *takes(("a", 5)), ["fork", "a", "b"], ["fork", "b", "c"], *takes(("c", 9)),
             ["fork", "c", "d"], *(["free", i] for i in "cabd"), *takes(("e", 18))),
        shared("no-block-free", 3, 4, *FORKED, ["free", "b"], ["fork", "a", "c"], ["free", "a"], ["free", "c"]),
    ],
    "ch05.8": [
        shared("beams", 12, 2, *takes(("a", 4)), ["fork", "a", "b"], ["write", "a", 3], ["free", "b"], ["fork", "a", "c"],
             *takes(("a", 6), ("c", 6)), ["write", "c", 5], ["write", "c", 2], ["write", "a", 2], ["free", "a"],
             ["write", "c", 0], ["free", "c"]),
        shared("the-last-free-block", 4, 4, *FORKED, ["write", "a", 4], ["write", "b", 4], ["write", "b", 0]),
    ],
}  # fmt: skip


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    return [Draw(rng, todo).case() | {"name": f"drawn-{i}", "drawn": True} for i in range(2)]


WORDS = {  # which calls a script of each TODO has
    "ch05.1": ("allocate", "missing", "missing", "free"),
    "ch05.2": ("allocate", "allocate", "allocate", "free"),
    "ch05.3": ("allocate", "free"),
    "ch05.4": ("allocate", "slots", "free"),
    "ch05.5": ("allocate", "waste", "free"),
    "ch05.6": ("allocate", "fork", "free"),
    "ch05.7": ("allocate", "fork", "free"),
    "ch05.8": ("allocate", "fork", "write", "write", "free"),
}


class Draw:
    """Draws a script of calls that make sense, with a pool of its own to know which do."""

    def __init__(self, rng: random.Random, todo: str) -> None:
        self.rng, self.words, self.refusals = rng, WORDS[todo], todo == "ch05.6"
        self.num_blocks, self.block_size = rng.randint(4, 14), rng.choice([1, 2, 3, 4, 16])
        self.tables: dict[str, list[object]] = {}  # what stands for a block is an object of its own

    def case(self) -> Case:
        """A pool and some two dozen calls, all blocks given back and taken once more at the end."""
        script = [order for _ in range(24) if (order := getattr(self, self.rng.choice(self.words))())]
        left = [["free", i] for i in self.rng.sample(sorted(self.tables), len(self.tables))]
        everything = ["allocate", "z", self.num_blocks * self.block_size]
        made = shared if "fork" in self.words else case
        return made("", self.num_blocks, self.block_size, *script, *left, everything)

    def anyone(self) -> str:
        """One of a few ids, known or not."""
        return self.rng.choice("abcdef")

    def holder(self) -> str | None:
        """Somebody who holds blocks."""
        return self.rng.choice([i for i, t in self.tables.items() if t] or [None])

    def num_free(self) -> int:
        return self.num_blocks - len({block for table in self.tables.values() for block in table})

    def tokens(self, request_id: str) -> int:
        """A few more or fewer than the request has room for, and often up to a block's end."""
        room = len(self.tables.get(request_id, ())) * self.block_size
        return max(
            1, room + self.rng.choice([-1, 0, 1, self.block_size, self.rng.randint(1, 4 * self.block_size)])
        )

    def allocate(self) -> list[Any]:
        request_id = self.anyone()
        num_tokens = self.tokens(request_id)
        need = -(-num_tokens // self.block_size) - len(self.tables.get(request_id, ()))
        if need <= self.num_free():
            self.tables.setdefault(request_id, []).extend(object() for _ in range(need))
        return ["allocate", request_id, num_tokens]

    def missing(self) -> list[Any]:
        request_id = self.anyone()
        return ["missing", request_id, self.tokens(request_id)]

    def free(self) -> list[Any]:
        request_id = self.anyone()
        self.tables.pop(request_id, None)
        return ["free", request_id]

    def slots(self) -> list[Any] | None:
        if (request_id := self.holder()) is None:
            return None
        room = len(self.tables[request_id]) * self.block_size
        start = self.rng.randrange(room)
        return ["slots", request_id, start, self.rng.randint(0, room - start)]

    def waste(self) -> list[Any]:
        used = {i: self.rng.randint(0, len(t) * self.block_size) for i, t in self.tables.items()}
        return ["waste", used | ({"waits": 9} if self.rng.random() < 0.3 else {})]

    def fork(self) -> list[Any] | None:
        parent, child = self.anyone(), self.anyone()
        if parent in self.tables and child not in self.tables:
            self.tables[child] = list(self.tables[parent])
        elif not self.refusals:
            return None
        return ["fork", parent, child]

    def write(self) -> list[Any] | None:
        if (request_id := self.holder()) is None:
            return None
        position = self.rng.randrange(len(self.tables[request_id]) * self.block_size)
        index = position // self.block_size
        block = self.tables[request_id][index]
        if sum(block in table for table in self.tables.values()) > 1 and self.num_free():
            self.tables[request_id][index] = object()
        return ["write", request_id, position]


def wrong(todo: str, name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """An answer to ``ch05.<todo>`` that breaks ``rule``."""
    return Variant(name, {f"ch05.{todo}": code}, rule=rule, looks=looks)


NEED = "need = self.missing(request_id, num_tokens)\n"
REFUSE = "if need > len(self._free):\n    return False\n"
TABLE = "table = self.tables.setdefault(request_id, [])\n"
TAKE = "for _ in range(need):\n    table.append(self._free.pop())\n"
WHO = "if parent not in self.tables or child in self.tables:\n    raise ValueError('no')\n"
COUNT = "for block in self.tables[child]:\n    self.extra[block] += 1\n"
FIND = "table, index = self.tables[request_id], position // self.block_size\nold = table[index]\n"
ALONE = "if not self.extra[old]:\n    return None\n"
FULL = "if not self._free:\n    raise ValueError('full')\n"

WRONG: list[Variant] = [
    wrong("1", "rounds down", "return max(0, num_tokens // self.block_size - len(self.tables.get(request_id, ())))",
          "rounds-up", both(en="rounding down", zh="向下取整")),
    wrong("1", "one more, always", "return max(0, num_tokens // self.block_size + 1 - len(self.tables.get(request_id, ())))",
          "rounds-up", both(en="a block too many at exact multiples", zh="正好整除时多算一块")),
    wrong("1", "counts anew each time", "return -(-num_tokens // self.block_size)", "counts-what-it-has",
          both(en="not counting the blocks it has", zh="没有减去已有的块")),
    wrong("1", "goes below nothing", "return -(-num_tokens // self.block_size) - len(self.tables.get(request_id, ()))",
          "never-negative"),
    wrong("1", "a newcomer has no table", "return max(0, -(-num_tokens // self.block_size) - len(self.tables[request_id]))",
          "newcomer-has-none"),
    wrong("1", "an empty table for a newcomer",
          "return max(0, -(-num_tokens // self.block_size) - len(self.tables.setdefault(request_id, [])))", "only-looks"),
    wrong("1", "a float", "return max(0, num_tokens / self.block_size - len(self.tables.get(request_id, ())))", "a-number"),
    wrong("1", "only as many as are free",
          "needed = -(-num_tokens // self.block_size) - len(self.tables.get(request_id, ()))\n"
          "return min(max(0, needed), self.num_free)", "rounds-up"),
    wrong("1", "whether, not how many",
          "return -(-num_tokens // self.block_size) > len(self.tables.get(request_id, ()))", "a-number"),
    wrong("1", "tokens, not blocks",
          "return max(0, num_tokens - len(self.tables.get(request_id, ())) * self.block_size)", "rounds-up"),
    wrong("2", "takes what there is", NEED + TABLE +
          "for _ in range(need):\n    if not self._free:\n        return False\n    table.append(self._free.pop())\nreturn True",
          "all-or-nothing", both(en="keeping half of the blocks when there are too few", zh="块不够时留着拿到的一半")),
    wrong("2", "a table for whoever asks", TABLE + NEED + REFUSE + TAKE + "return True", "all-or-nothing",
          both(en="an empty table for a request that is refused", zh="给被拒绝的请求留下一张空表")),
    wrong("2", "a full pool is a MemoryError",
          NEED + "if need > len(self._free):\n    raise MemoryError\n" + TABLE + TAKE + "return True", "says-no-when-full"),
    wrong("2", "runs into the empty list", NEED + TABLE + TAKE + "return True", "says-no-when-full"),
    wrong("2", "leaves the last block", NEED + "if need >= len(self._free):\n    return False\n" + TABLE + TAKE + "return True",
          "uses-the-last-block"),
    wrong("2", "a new table each time",
          NEED + REFUSE + "self.tables[request_id] = [self._free.pop() for _ in range(need)]\nreturn True",
          "keeps-the-table"),
    wrong("2", "new blocks in front", NEED + REFUSE + TABLE + "for _ in range(need):\n    table.insert(0, self._free.pop())\nreturn True",
          "keeps-the-table"),
    wrong("2", "all blocks anew, none given back",
          "need = -(-num_tokens // self.block_size)\n" + REFUSE + TABLE + TAKE + "return True", "no-more-than-needed"),
    wrong("2", "one block a call", NEED + REFUSE + TABLE + "if need:\n    table.append(self._free.pop())\nreturn True", "enough-blocks"),
    wrong("2", "a block for every token", NEED + REFUSE + TABLE + "table.append(self._free.pop())\nreturn True", "no-more-than-needed"),
    wrong("2", "says nothing", NEED + REFUSE + TABLE + TAKE, "true-or-false"),
    wrong("2", "how many it took", NEED + REFUSE + TABLE + TAKE + "return need", "true-or-false"),
    wrong("2", "looks but does not take",
          NEED + REFUSE + TABLE + "table.extend(self._free[:need])\nreturn True", "conservation"),
    wrong("2", "numbers from a count of tables",
          NEED + REFUSE + TABLE + "used = sum(map(len, self.tables.values()))\nfor i in range(need):\n"
          "    table.append(used + i)\n    self._free.pop()\nreturn True", "free-blocks-only"),
    wrong("2", "shrinks", "keep = -(-num_tokens // self.block_size)\n" + NEED + REFUSE + TABLE + TAKE +
          "self._free += table[keep:]\ndel table[keep:]\nreturn True", "keeps-the-table"),
    wrong("2", "full when it is asked for nothing", NEED + "if not self._free or need > len(self._free):\n    return False\n" + TABLE + TAKE + "return True",
          "uses-the-last-block"),
    wrong("3", "keeps the table", "self._free.extend(self.tables.get(request_id, ()))", "forgets-the-table",
          both(en="a double free: the table stays", zh="重复释放：块表还在")),
    wrong("3", "who holds nothing may stay", "table = self.tables.get(request_id)\nif table:\n    self._free.extend(self.tables.pop(request_id))",
          "forgets-the-table"),
    wrong("3", "an empty table stays", "self._free.extend(self.tables.get(request_id, ()))\nself.tables[request_id] = []", "forgets-the-table"),
    wrong("3", "nothing comes back", "self.tables.pop(request_id, None)", "gives-all-back",
          both(en="a leak: blocks do not come back", zh="泄漏：块没有还回来")),
    wrong("3", "unknown ids are an error", "self._free.extend(self.tables.pop(request_id))", "unknown-ignored"),
    wrong("3", "the last block stays away", "self._free.extend(self.tables.pop(request_id, ())[:-1])", "gives-all-back"),
    wrong("3", "the table as one block", "self._free.append(self.tables.pop(request_id, ()))", "gives-all-back"),
    wrong("3", "the right number of wrong blocks", "self._free.extend(range(len(self.tables.pop(request_id, ()))))", "free-blocks-only"),
    wrong("3", "a set of what was free", "self._free = list({*self._free, *self.tables.get(request_id, ())})", "forgets-the-table"),
    wrong("3", "everybody's", "for table in self.tables.values():\n    self._free.extend(table)\nself.tables.clear()", "gives-all-back"),
    wrong("3", "the free list begun anew", "self._free = list(self.tables.pop(request_id, ()))", "gives-all-back"),
    wrong("4", "blocks in a row", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[0] * size + p for p in range(start, start + count)]", "by-the-table",
          both(en="taking the blocks to lie in a row", zh="以为块是连续的")),
    wrong("4", "the logical block", "return list(range(start, start + count))", "by-the-table"),
    wrong("4", "from the beginning", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[p // size] * size + p % size for p in range(count)]", "from-start"),
    wrong("4", "count taken for the end", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[p // size] * size + p % size for p in range(start, count)]", "one-slot-each"),
    wrong("4", "one too many", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[p // size] * size + p % size for p in range(start, min(start + count + 1, len(table) * size))]", "one-slot-each"),
    wrong("4", "only the blocks", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[p // size] for p in range(start, start + count)]", "by-the-table"),
    wrong("4", "the block's first slot", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[p // size] * size for p in range(start, start + count)]", "offset-in-block"),
    wrong("4", "the offset from start", "table, size = self.tables[request_id], self.block_size\n"
          "return [table[p // size] * size + (p - start) % size for p in range(start, start + count)]", "offset-in-block"),
    wrong("4", "all slots of the blocks", "table, size = self.tables[request_id], self.block_size\n"
          "first, last = start // size, -(-(start + count) // size)\n"
          "return [b * size + i for b in table[first:last] for i in range(size)]", "one-slot-each"),
    wrong("4", "a generator", "table, size = self.tables[request_id], self.block_size\n"
          "return (table[p // size] * size + p % size for p in range(start, start + count))", "a-list"),
    wrong("4", "in order of slots", "table, size = self.tables[request_id], self.block_size\n"
          "return sorted(table[p // size] * size + p % size for p in range(start, start + count))", "by-the-table"),
    wrong("5", "of the whole pool", "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "used = sum(num_tokens[i] for i in self.tables)\nreturn (held - used) / (self.num_blocks * self.block_size)", "share-of-empty-slots"),
    wrong("5", "what is not used of the pool", "used = sum(num_tokens[i] for i in self.tables)\n"
          "return 1 - used / (self.num_blocks * self.block_size)", "of-what-is-held",
          both(en="counting free blocks as wasted", zh="把空闲块也算成浪费")),
    wrong("5", "those that wait, too", "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "return (held - sum(num_tokens.values())) / held if held else 0.0", "holders-only"),
    wrong("5", "divides by nothing", "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "return (held - sum(num_tokens[i] for i in self.tables)) / held", "nothing-held"),
    wrong("5", "strikes strangers from the caller's dict", "for i in num_tokens.keys() - self.tables.keys():\n    del num_tokens[i]\n"
          "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "return (held - sum(num_tokens.values())) / held if held else 0.0", "only-looks"),
    wrong("5", "slots, not a share", "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "return held - sum(num_tokens[i] for i in self.tables)", "share-of-empty-slots"),
    wrong("5", "the share in use", "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "return sum(num_tokens[i] for i in self.tables) / held if held else 0.0", "share-of-empty-slots"),
    wrong("5", "blocks against tokens", "held = self.num_blocks - self.num_free\n"
          "return (held - sum(num_tokens[i] for i in self.tables)) / held if held else 0.0", "share-of-empty-slots"),
    wrong("5", "a full pool is all waste when empty", "held = (self.num_blocks - self.num_free) * self.block_size\n"
          "return (held - sum(num_tokens[i] for i in self.tables)) / held if held else 1.0", "nothing-held"),
    wrong("5", "the mean of shares", "size = self.block_size\n"
          "shares = [1 - num_tokens[i] / (len(t) * size) for i, t in self.tables.items() if t]\n"
          "return sum(shares) / len(shares) if shares else 0.0", "share-of-empty-slots"),
    wrong("6", "one list for two", WHO + "self.tables[child] = self.tables[parent]\n" + COUNT, "others-untouched",
          both(en="one table with two names", zh="两个名字共用同一张表")),
    wrong("6", "owners not counted", WHO + "self.tables[child] = list(self.tables[parent])", "conservation",
          both(en="a fork whose owners are not counted", zh="分叉时没有数主人")),
    wrong("6", "only the last block counted", WHO + "self.tables[child] = list(self.tables[parent])\nself.extra[self.tables[child][-1]] += 1", "conservation"),
    wrong("6", "two owners at most", WHO + "self.tables[child] = list(self.tables[parent])\nfor block in self.tables[child]:\n    self.extra[block] = 1", "conservation"),
    wrong("6", "counted for both", WHO + "self.tables[child] = list(self.tables[parent])\nfor block in self.tables[child]:\n    self.extra[block] += 2", "conservation"),
    wrong("6", "a deep copy", WHO + "self.allocate(child, len(self.tables[parent]) * self.block_size)", "same-blocks"),
    wrong("6", "in order of their numbers", WHO + "self.tables[child] = sorted(self.tables[parent])\n" + COUNT, "same-blocks"),
    wrong("6", "full blocks only", WHO + "self.tables[child] = self.tables[parent][:-1]\n" + COUNT, "same-blocks"),
    wrong("6", "any child will do", "self.tables[child] = list(self.tables[parent])\n" + COUNT, "refuses-bad-input"),
    wrong("6", "any parent will do", "if child in self.tables:\n    raise ValueError('taken')\n"
          "self.tables[child] = list(self.tables.get(parent, ()))\n" + COUNT, "refuses-bad-input"),
    wrong("6", "refuses when it is done", "known = parent in self.tables and child not in self.tables\n"
          "self.tables[child] = list(self.tables.get(parent, ()))\n" + COUNT + "if not known:\n    raise ValueError('no')", "unchanged-on-refusal"),
    wrong("7", "as if nothing were shared", "self._free.extend(self.tables.pop(request_id, ()))", "others-still-hold",
          both(en="giving shared blocks back at once", zh="共用的块也立刻还回去")),
    wrong("7", "both at once", "for block in self.tables.pop(request_id, ()):\n    if self.extra[block]:\n        self.extra[block] -= 1\n"
          "    self._free.append(block)", "others-still-hold"),
    wrong("7", "counts below one", "for block in self.tables.pop(request_id, ()):\n    self.extra[block] -= 1\n    if not self.extra[block]:\n"
          "        self._free.append(block)", "last-owner-gives-back"),
    wrong("7", "shared ones never come back", "for block in self.tables.pop(request_id, ()):\n    if not self.extra[block]:\n"
          "        self._free.append(block)", "last-owner-gives-back"),
    wrong("7", "forgets all owners", "for block in self.tables.pop(request_id, ()):\n    if not self.extra.pop(block, 0):\n"
          "        self._free.append(block)", "others-still-hold"),
    wrong("7", "keeps the table", "for block in self.tables.get(request_id, ()):\n    if self.extra[block]:\n        self.extra[block] -= 1\n"
          "    else:\n        self._free.append(block)", "forgets-the-table"),
    wrong("7", "unknown ids are an error", "for block in self.tables.pop(request_id):\n    if self.extra[block]:\n        self.extra[block] -= 1\n"
          "    else:\n        self._free.append(block)", "unknown-ignored"),
    wrong("7", "decided by the first block", "table = self.tables.pop(request_id, ())\nif table and self.extra[table[0]]:\n"
          "    self.extra.subtract(table)\nelse:\n    self._free.extend(table)", "last-owner-gives-back"),
    wrong("8", "never copies", "return None", "copies-what-is-shared", both(en="writing into shared blocks", zh="直接写进共用的块")),
    wrong("8", "always copies", FIND + FULL + "table[index] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[index]", "writes-in-place"),
    wrong("8", "the owner stays counted", FIND + ALONE + FULL + "table[index] = self._free.pop()\nreturn old, table[index]", "writes-in-place"),
    wrong("8", "the other way round", FIND + ALONE + FULL + "table[index] = self._free.pop()\nself.extra[old] -= 1\nreturn table[index], old", "from-and-to"),
    wrong("8", "always the last block", "table, index = self.tables[request_id], -1\nold = table[index]\n" + ALONE + FULL +
          "table[index] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[index]", "that-entry-only"),
    wrong("8", "a block behind the others", FIND + ALONE + FULL + "table.append(self._free.pop())\nself.extra[old] -= 1\nreturn old, table[-1]", "that-entry-only"),
    wrong("8", "no block is no error", FIND + "if not self.extra[old] or not self._free:\n    return None\n"
          "table[index] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[index]", "refuses-bad-input"),
    wrong("8", "free blocks before owners", FIND + FULL + ALONE + "table[index] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[index]",
          "writes-in-place"),
    wrong("8", "one owner less, then refused", FIND + ALONE + "self.extra[old] -= 1\n" + FULL + "table[index] = self._free.pop()\nreturn old, table[index]",
          "conservation"),
    wrong("8", "the new block is counted", FIND + ALONE + FULL + "table[index] = self._free.pop()\nself.extra[old] -= 1\n"
          "self.extra[table[index]] += 1\nreturn old, table[index]", "writes-in-place"),
    wrong("8", "for every owner", FIND + ALONE + FULL + "new = self._free.pop()\nfor other in self.tables.values():\n"
          "    other[:] = [new if b == old else b for b in other]\nself.extra[old] -= 1\nreturn old, new", "others-untouched"),
    wrong("8", "only the new block", FIND + ALONE + FULL + "table[index] = self._free.pop()\nself.extra[old] -= 1\nreturn table[index]", "from-and-to"),
    wrong("8", "the block is not taken", FIND + ALONE + FULL + "table[index] = self._free[-1]\nself.extra[old] -= 1\nreturn old, table[index]", "conservation"),
]  # fmt: skip

HEAD = """
class BlockManager:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.tables = {}
"""
WASTE = """
    def waste(self, num_tokens):
        held = sum(map(len, self.tables.values())) * self.block_size
        return 1 - sum(n for i, n in num_tokens.items() if i in self.tables) / held if held else 0
"""

CORRECT = [
    Variant("a deque, oldest first", cells={"ch05-answer": HEAD + """        self._free = deque(range(num_blocks))

    @property
    def num_free(self):
        return len(self._free)

    def missing(self, request_id, num_tokens):
        return max(0, math.ceil(num_tokens / self.block_size) - len(self.tables.get(request_id, [])))

    def allocate(self, request_id, num_tokens):
        if self.missing(request_id, num_tokens) <= self.num_free:
            while self.missing(request_id, num_tokens):
                self.tables.setdefault(request_id, []).append(self._free.popleft())
            return True
        return False

    def free(self, request_id):
        for block in reversed(self.tables.pop(request_id, [])):
            self._free.append(block)

    def slot_mapping(self, request_id, start, count):
        table = self.tables[request_id]
        slots = [b * self.block_size + i for b in table for i in range(self.block_size)]
        return slots[start : start + count]
""" + WASTE + "\nimport math\nfrom collections import deque\n"}),
    Variant("a set", cells={"ch05-answer": HEAD + """        self._free = set(range(num_blocks))

    num_free = property(lambda self: len(self._free))

    def missing(self, request_id, num_tokens):
        have = len(self.tables[request_id]) if request_id in self.tables else 0
        need = (num_tokens + self.block_size - 1) // self.block_size
        return need - have if need > have else 0

    def allocate(self, request_id, num_tokens):
        missing = self.missing(request_id, num_tokens)
        if missing > self.num_free:
            return False
        table = self.tables.get(request_id, [])
        while missing:
            table = [*table, self._free.pop()]
            missing -= 1
        if table:
            self.tables[request_id] = table
        return True

    def free(self, request_id):
        if request_id in self.tables:
            self._free |= set(self.tables[request_id])
            del self.tables[request_id]

    def slot_mapping(self, request_id, start, count):
        slots = []
        for position in range(start, start + count):
            block, offset = divmod(position, self.block_size)
            slots.append(self.tables[request_id][block] * self.block_size + offset)
        return slots
""" + WASTE}),
    Variant("a bitmap", cells={"ch05-answer": HEAD + """        self.used = [False] * num_blocks

    @property
    def num_free(self):
        return self.used.count(False)

    def missing(self, request_id, num_tokens):
        blocks, rest = divmod(num_tokens, self.block_size)
        blocks += rest > 0
        return max(blocks - len(self.tables.get(request_id, "")), 0)

    def allocate(self, request_id, num_tokens):
        free = [block for block, used in enumerate(self.used) if not used]
        mine = free[: self.missing(request_id, num_tokens)]
        if len(mine) < self.missing(request_id, num_tokens):
            return False
        for block in mine:
            self.used[block] = True
        self.tables[request_id] = self.tables.get(request_id, []) + mine
        return True

    def free(self, request_id):
        for block in self.tables.pop(request_id, []):
            self.used[block] = False

    def slot_mapping(self, request_id, start, count):
        import numpy as np

        positions = np.arange(start, start + count)
        blocks = np.array(self.tables[request_id])[positions // self.block_size]
        return (blocks * self.block_size + positions % self.block_size).tolist()
""" + WASTE}),
    Variant("owners counted from one", cells={"ch05-answer-2": """
class SharedBlockManager(BlockManager):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.owners = [0] * num_blocks

    def allocate(self, request_id, num_tokens):
        before = len(self.tables.get(request_id, ()))
        done = super().allocate(request_id, num_tokens)
        for block in self.tables.get(request_id, [])[before:]:
            self.owners[block] = 1
        return done

    def fork(self, parent, child):
        if child in self.tables:
            raise ValueError("taken")
        if parent not in self.tables:
            raise ValueError("unknown")
        self.tables[child] = self.tables[parent].copy()
        for block in self.tables[child]:
            self.owners[block] += 1

    def free(self, request_id):
        for block in self.tables.pop(request_id, []):
            self.owners[block] -= 1
            if self.owners[block] == 0:
                self._free.append(block)

    def write(self, request_id, position):
        index = position // self.block_size
        block = self.tables[request_id][index]
        if self.owners[block] == 1:
            return None
        if self.num_free == 0:
            raise ValueError("full")
        new = self._free.pop()
        self.owners[new] = 1
        self.owners[block] -= 1
        self.tables[request_id][index] = new
        return [block, new]
"""}),
    Variant("owners looked up in the tables", {
        "ch05.6": "if parent in self.tables and child not in self.tables:\n    self.tables[child] = self.tables[parent][:]\n"
        "    self.extra.update(self.tables[parent])\nelse:\n    raise ValueError('no')",
        "ch05.7": "table = self.tables.pop(request_id, ())\nheld = {b for t in self.tables.values() for b in t}\n"
        "self._free.extend(b for b in table if b not in held)\nself.extra.subtract(b for b in table if b in held)",
        "ch05.8": "table = self.tables[request_id]\nindex = position // self.block_size\nblock = table[index]\n"
        "if sum(block in t for t in self.tables.values()) == 1:\n    return\n"
        "if self.num_free == 0:\n    raise ValueError('no room')\nself.extra[block] -= 1\n"
        "table[index : index + 1] = [self._free.pop(0)]\nreturn block, table[index]",
    }),
    Variant("sliced from the free list", {
        "ch05.2": "need = self.missing(request_id, num_tokens)\nif self.num_free - need < 0:\n    return False\n"
        "if need:\n    self.tables.setdefault(request_id, []).extend(self._free[:need])\n    self._free = self._free[need:]\nreturn True",
        "ch05.3": "try:\n    self._free = self.tables.pop(request_id) + self._free\nexcept KeyError:\n    pass",
    }),
]  # fmt: skip

EQUIVALENT = {"ch05.1:2 arguments 1 and 2 swapped": "max of the same two numbers"}
