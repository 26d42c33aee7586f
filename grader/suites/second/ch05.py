"""Chapter 5 by a second author, who had read the learner's notebook, its contract and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant

HAD = "had = len(self.tables.get(request_id, ()))\n"
MISSING = [
    ("rounded down", HAD + "return max(0, num_tokens // self.block_size - had)"),
    ("one more always", HAD + "return max(0, num_tokens // self.block_size + 1 - had)"),
    ("rounded to the nearest", HAD + "return max(0, round(num_tokens / self.block_size) - had)"),
    ("below zero", HAD + "return -(-num_tokens // self.block_size) - had"),
    ("a distance", HAD + "return abs(-(-num_tokens // self.block_size) - had)"),
    (
        "the newcomer unknown",
        "return max(0, -(-num_tokens // self.block_size) - len(self.tables[request_id]))",
    ),
    (
        "nothing is missing to a stranger",
        """
if request_id not in self.tables:
    return 0
return max(0, -(-num_tokens // self.block_size) - len(self.tables[request_id]))
""",
    ),
    ("blocks taken for tokens", HAD + "return max(0, -(-(num_tokens - had) // self.block_size))"),
    ("the table forgotten", "return -(-num_tokens // self.block_size)"),
    ("the tokens come on top", "return -(-num_tokens // self.block_size) if num_tokens else 0"),
    (
        "no more than are free",
        HAD + "return min(self.num_free, max(0, -(-num_tokens // self.block_size) - had))",
    ),
    (
        "how many of them the pool lacks",
        HAD + "return max(0, -(-num_tokens // self.block_size) - self.num_free)",
    ),
    ("one at a time, as in decode", HAD + "return 1 if num_tokens > had * self.block_size else 0"),
    ("a whole block for no token", HAD + "return max(0, max(1, -(-num_tokens // self.block_size)) - had)"),
    ("not a whole number", HAD + "return max(0, num_tokens / self.block_size - had)"),
    (
        "a whole number of the wrong kind",
        HAD + "return max(0.0, float(-(-num_tokens // self.block_size)) - had)",
    ),
    ("blocks of 16, as everywhere", HAD + "return max(0, -(-num_tokens // 16) - had)"),
    ("blocks of 4, as in the figure", HAD + "return max(0, -(-num_tokens // 4) - had)"),
    ("the two numbers mixed up", HAD + "return max(0, -(-num_tokens // self.num_blocks) - had)"),
    ("tokens, not blocks", HAD + "return max(0, num_tokens - had * self.block_size)"),
    (
        "rounded down what is left",
        HAD + "return max(0, (num_tokens - had * self.block_size) // self.block_size)",
    ),
    ("a ceiling off by one", HAD + "return max(0, (num_tokens + self.block_size) // self.block_size - had)"),
    (
        "everybody's blocks",
        "return max(0, -(-num_tokens // self.block_size) - sum(map(len, self.tables.values())))",
    ),
    (
        "shrinks what it asks about",
        """
need = -(-num_tokens // self.block_size)
table = self.tables.get(request_id, [])
while len(table) > need:
    self._free.append(table.pop())
return need - len(table)
""",
    ),
    (
        "a place laid for whoever asks",
        "had = len(self.tables.setdefault(request_id, []))\n"
        + "return max(0, -(-num_tokens // self.block_size) - had)",
    ),
    (
        "takes what it finds missing",
        """
need = -(-num_tokens // self.block_size) - len(self.tables.get(request_id, ()))
if 0 < need <= len(self._free):
    self.tables[request_id] = self.tables.get(request_id, []) + [self._free.pop() for _ in range(need)]
return max(0, need)
""",
    ),
]

NEED = """
need = self.missing(request_id, num_tokens)
if need > self.num_free:
    return False
"""
ALLOCATE = [
    (
        "the last block never given",
        """
need = self.missing(request_id, num_tokens)
if need >= self.num_free:
    return False
table = self.tables.setdefault(request_id, [])
for _ in range(need):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "an empty pool refuses everybody",
        """
if not self._free:
    return False
need = self.missing(request_id, num_tokens)
if need > len(self._free):
    return False
table = self.tables.setdefault(request_id, [])
for _ in range(need):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "as far as it goes",
        """
table = self.tables.setdefault(request_id, [])
while self.missing(request_id, num_tokens):
    if not self._free:
        return False
    table.append(self._free.pop())
return True
""",
    ),
    (
        "half given back",
        """
table = self.tables.setdefault(request_id, [])
while self.missing(request_id, num_tokens):
    if not self._free:
        self.free(request_id)
        return False
    table.append(self._free.pop())
return True
""",
    ),
    (
        "someone else pays",
        """
while self.missing(request_id, num_tokens) > self.num_free:
    others = [r for r in self.tables if r != request_id]
    if not others:
        return False
    self.free(others[0])
table = self.tables.setdefault(request_id, [])
for _ in range(self.missing(request_id, num_tokens)):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "compared with the whole pool",
        """
need = self.missing(request_id, num_tokens)
if need > self.num_blocks:
    return False
table = self.tables.setdefault(request_id, [])
for _ in range(need):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "a table before the refusal",
        """
need = self.missing(request_id, num_tokens)
table = self.tables.setdefault(request_id, [])
if need > len(self._free):
    return False
for _ in range(need):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "no one asks",
        """
table = self.tables.setdefault(request_id, [])
for _ in range(self.missing(request_id, num_tokens)):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "an error for a full pool",
        """
need = self.missing(request_id, num_tokens)
if need > len(self._free):
    raise ValueError("no blocks")
table = self.tables.setdefault(request_id, [])
for _ in range(need):
    table.append(self._free.pop())
return True
""",
    ),
    (
        "an IndexError read as a no",
        """
table = self.tables.setdefault(request_id, [])
try:
    for _ in range(self.missing(request_id, num_tokens)):
        table.append(self._free.pop())
except IndexError:
    return False
return True
""",
    ),
    (
        "a new table each time",
        NEED + "self.tables[request_id] = [self._free.pop() for _ in range(need)]\nreturn True",
    ),
    (
        "at the front",
        NEED
        + "new = [self._free.pop() for _ in range(need)]\n"
        + "self.tables[request_id] = new + self.tables.get(request_id, [])\nreturn True",
    ),
    (
        "tidied up",
        NEED
        + "new = [self._free.pop() for _ in range(need)]\n"
        + "self.tables[request_id] = sorted(self.tables.get(request_id, []) + new)\nreturn True",
    ),
    (
        "newest first",
        NEED
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.insert(0, self._free.pop())\nreturn True",
    ),
    (
        "looked at, not taken",
        NEED + "self.tables.setdefault(request_id, []).extend(self._free[:need])\nreturn True",
    ),
    (
        "a slice of minus nothing",
        NEED
        + "self.tables.setdefault(request_id, []).extend(self._free[-need:])\n"
        + "del self._free[-need:]\nreturn True",
    ),
    (
        "taken at one end, struck off at the other",
        NEED
        + "self.tables.setdefault(request_id, []).extend(self._free[:need])\n"
        + "for _ in range(need):\n    self._free.pop()\nreturn True",
    ),
    (
        "one block many times",
        NEED
        + "if need:\n"
        + "    self.tables[request_id] = self.tables.get(request_id, []) + [self._free.pop()] * need\n"
        + "return True",
    ),
    (
        "a list in the list",
        NEED
        + "new = [self._free.pop() for _ in range(need)]\n"
        + "self.tables.setdefault(request_id, []).append(new)\nreturn True",
    ),
    (
        "numbers from a counter",
        NEED
        + "held = self.num_blocks - self.num_free\n"
        + "self.tables.setdefault(request_id, []).extend(range(held, held + need))\n"
        + "del self._free[:need]\nreturn True",
    ),
    (
        "one in reserve",
        NEED
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.append(self._free.pop())\n"
        + "if need and self._free:\n    table.append(self._free.pop())\nreturn True",
    ),
    (
        "one only",
        NEED
        + "table = self.tables.setdefault(request_id, [])\n"
        + "if need:\n    table.append(self._free.pop())\nreturn True",
    ),
    (
        "a goal that comes nearer by itself",
        NEED
        + "table = self.tables.setdefault(request_id, [])\ntaken = 0\n"
        + "while taken < self.missing(request_id, num_tokens):\n"
        + "    table.append(self._free.pop())\n    taken += 1\nreturn True",
    ),
    (
        "so many tokens more",
        """
table = self.tables.get(request_id, [])
need = -(-num_tokens // self.block_size)
if need > self.num_free:
    return False
self.tables[request_id] = table + [self._free.pop() for _ in range(need)]
return True
""",
    ),
    (
        "shrinks to fit",
        NEED
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.append(self._free.pop())\n"
        + "while len(table) > -(-num_tokens // self.block_size):\n    self._free.append(table.pop())\n"
        + "return True",
    ),
    (
        "False where nothing was taken",
        NEED
        + "if need == 0:\n    return False\n"
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.append(self._free.pop())\nreturn True",
    ),
    (
        "nothing returned",
        NEED
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.append(self._free.pop())",
    ),
    (
        "how many it took",
        NEED
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.append(self._free.pop())\nreturn need",
    ),
    (
        "one and nothing for True and False",
        """
need = self.missing(request_id, num_tokens)
if need > self.num_free:
    return 0
table = self.tables.setdefault(request_id, [])
for _ in range(need):
    table.append(self._free.pop())
return 1
""",
    ),
    (
        "asked again when it is done",
        """
need = self.missing(request_id, num_tokens)
if need <= self.num_free:
    table = self.tables.setdefault(request_id, [])
    for _ in range(need):
        table.append(self._free.pop())
return need <= self.num_free
""",
    ),
    (
        "request 0 is nobody",
        "if not request_id:\n    return True\n"
        + NEED.lstrip()
        + "table = self.tables.setdefault(request_id, [])\n"
        + "for _ in range(need):\n    table.append(self._free.pop())\nreturn True",
    ),
]

FREE = [
    ("a stranger is an error", "self._free.extend(self.tables.pop(request_id))"),
    (
        "a stranger is a ValueError",
        """
if request_id not in self.tables:
    raise ValueError("unknown")
self._free.extend(self.tables.pop(request_id))
""",
    ),
    (
        "an empty table stays",
        """
self._free.extend(self.tables.get(request_id, []))
self.tables[request_id] = []
""",
    ),
    (
        "None in place of a table",
        """
self._free.extend(self.tables.get(request_id) or [])
self.tables[request_id] = None
""",
    ),
    (
        "emptied, and the entry left",
        """
table = self.tables.get(request_id, [])
while table:
    self._free.append(table.pop())
""",
    ),
    (
        "who holds nothing is left where he is",
        """
table = self.tables.get(request_id)
if table:
    self._free.extend(table)
    del self.tables[request_id]
""",
    ),
    ("the table stays", "self._free.extend(self.tables.get(request_id, []))"),
    ("a list in the list", "self._free.append(self.tables.pop(request_id, []))"),
    (
        "a list in the list, or nothing",
        "if request_id in self.tables:\n    self._free.append(self.tables.pop(request_id))",
    ),
    ("the blocks are lost", "self.tables.pop(request_id, None)"),
    ("the free ones are lost", "self._free = self.tables.pop(request_id, self._free)"),
    (
        "only the last block",
        "table = self.tables.pop(request_id, [])\nif table:\n    self._free.append(table[-1])",
    ),
    ("the begun block is not given back", "self._free.extend(self.tables.pop(request_id, [])[:-1])"),
    (
        "removed under the loop's feet",
        """
table = self.tables.get(request_id, [])
for block in table:
    table.remove(block)
    self._free.append(block)
self.tables.pop(request_id, None)
""",
    ),
    (
        "blocks in a row",
        """
table = self.tables.pop(request_id, [])
if table:
    self._free.extend(range(table[0], table[0] + len(table)))
""",
    ),
    (
        "as many numbers as there were",
        """
count = len(self.tables.pop(request_id, []))
self._free.extend(range(len(self._free), len(self._free) + count))
""",
    ),
    ("each block twice", "self._free.extend(2 * self.tables.pop(request_id, []))"),
    (
        "everything is free",
        "self.tables.pop(request_id, None)\nself._free = list(range(self.num_blocks))",
    ),
    (
        "everybody goes",
        """
for table in self.tables.values():
    self._free.extend(table)
self.tables.clear()
""",
    ),
    (
        "whoever came last goes",
        "if request_id in self.tables:\n    self._free.extend(self.tables.popitem()[1])",
    ),
    ("request 0 is nobody", "if request_id:\n    self._free.extend(self.tables.pop(request_id, []))"),
    ("names only", "self._free.extend(self.tables.pop(str(request_id), []))"),
]

TABLE = "table, size = self.tables[request_id], self.block_size\n"
SLOTS = [
    ("logical blocks", "return list(range(start, start + count))"),
    (
        "from 0",
        TABLE + "return [table[p // size] * size + p % size for p in range(count)]",
    ),
    ("count is the end", TABLE + "return [table[p // size] * size + p % size for p in range(start, count)]"),
    (
        "the end belongs to it",
        TABLE
        + "return [table[p // size] * size + p % size for p in range(start, start + count + 1) if p // size < len(table)]",
    ),
    (
        "the first left out",
        TABLE
        + "return [table[p // size] * size + p % size for p in range(start + 1, start + count + 1) if p // size < len(table)]",
    ),
    (
        "not multiplied",
        TABLE + "return [table[p // size] + p % size for p in range(start, start + count)]",
    ),
    (
        "no offset",
        TABLE + "return [table[p // size] * size for p in range(start, start + count)]",
    ),
    (
        "no block",
        TABLE + "return [p % size for p in range(start, start + count)]",
    ),
    (
        "the number of blocks for their size",
        TABLE + "return [table[p // size] * self.num_blocks + p % size for p in range(start, start + count)]",
    ),
    (
        "division and rest exchanged",
        TABLE + "return [table[p % len(table)] * size + p // size for p in range(start, start + count)]",
    ),
    (
        "contiguous from the first on",
        TABLE
        + "if not count:\n    return []\n"
        + "first = table[start // size] * size + start % size\nreturn list(range(first, first + count))",
    ),
    (
        "all in the first one's block",
        TABLE + "return [table[start // size] * size + p % size for p in range(start, start + count)]",
    ),
    (
        "blocks from the table's beginning",
        TABLE + "return [table[i // size] * size + (start + i) % size for i in range(count)]",
    ),
    (
        "offsets from 0",
        TABLE + "return [table[(start + i) // size] * size + i % size for i in range(count)]",
    ),
    (
        "in order of the slots",
        TABLE + "return sorted(table[p // size] * size + p % size for p in range(start, start + count))",
    ),
    (
        "last one first",
        TABLE + "return [table[p // size] * size + p % size for p in range(start, start + count)][::-1]",
    ),
    (
        "blocks, not slots",
        TABLE + "return [table[p // size] for p in range(start, start + count)]",
    ),
    (
        "pairs",
        TABLE + "return [(table[p // size], p % size) for p in range(start, start + count)]",
    ),
    (
        "a bare number for one token",
        TABLE
        + "slots = [table[p // size] * size + p % size for p in range(start, start + count)]\n"
        + "return slots[0] if count == 1 else slots",
    ),
    (
        "None for no token",
        TABLE
        + "slots = [table[p // size] * size + p % size for p in range(start, start + count)]\n"
        + "return slots or None",
    ),
    (
        "an error for no token",
        TABLE
        + "if count < 1:\n    raise ValueError('count')\n"
        + "return [table[p // size] * size + p % size for p in range(start, start + count)]",
    ),
    (
        "one a block",
        TABLE + "return [table[i] * size for i in range(start // size, -(-(start + count) // size))]",
    ),
    (
        "numbers with a point",
        TABLE + "return [table[p // size] * size + p / 1 % size for p in range(start, start + count)]",
    ),
    (
        "rounded to the nearest block",
        TABLE
        + "return [table[min(round(p / size), len(table) - 1)] * size + p % size for p in range(start, start + count)]",
    ),
    (
        "the table used up",
        TABLE
        + "slots = [table[p // size] * size + p % size for p in range(start, start + count)]\n"
        + "del table[: (start + count) // size]\nreturn slots",
    ),
    (
        "the tables in a row",
        "size = self.block_size\nblocks = [b for t in self.tables.values() for b in t]\n"
        + "return [blocks[p // size] * size + p % size for p in range(start, start + count)]",
    ),
]

HELD = "held = (self.num_blocks - self.num_free) * self.block_size\n"
USED = "used = sum(n for r, n in num_tokens.items() if self.tables.get(r))\n"
WASTE = [
    ("of the whole pool", HELD + USED + "return (held - used) / (self.num_blocks * self.block_size)"),
    ("what is used", HELD + USED + "return used / held if held else 0.0"),
    ("divided by nothing", HELD + USED + "return 1 - used / held"),
    ("all is wasted where nothing is held", HELD + USED + "return 1 - used / held if held else 1.0"),
    ("None where nothing is held", HELD + USED + "return 1 - used / held if held else None"),
    (
        "those that wait too",
        HELD + "used = sum(num_tokens.values())\nreturn 1 - used / held if held else 0.0",
    ),
    (
        "those that wait too, but never below zero",
        HELD + "used = min(held, sum(num_tokens.values()))\nreturn 1 - used / held if held else 0.0",
    ),
    ("per cent", HELD + USED + "return 100 * (held - used) / held if held else 0.0"),
    ("slots, not a share", HELD + USED + "return float(held - used)"),
    ("a whole number", HELD + USED + "return (held - used) // held if held else 0"),
    ("two digits", HELD + USED + "return round((held - used) / held, 2) if held else 0.0"),
    ("of what is used", HELD + USED + "return (held - used) / used if used else 0.0"),
    (
        "tokens by blocks",
        USED + "held = self.num_blocks - self.num_free\nreturn (held - used) / held if held else 0.0",
    ),
    (
        "the mean of the requests",
        """
shares = [1 - num_tokens[r] / (len(t) * self.block_size) for r, t in self.tables.items() if t]
return sum(shares) / len(shares) if shares else 0.0
""",
    ),
    (
        "the worst request",
        """
shares = [1 - num_tokens[r] / (len(t) * self.block_size) for r, t in self.tables.items() if t]
return max(shares, default=0.0)
""",
    ),
    (
        "blocks that the tokens would need",
        USED
        + "held = sum(-(-n // self.block_size) * self.block_size for r, n in num_tokens.items() if self.tables.get(r))\n"
        + "return (held - used) / held if held else 0.0",
    ),
    (
        "a full last block is an empty one",
        HELD
        + "empty = sum(self.block_size - num_tokens[r] % self.block_size for r, t in self.tables.items() if t)\n"
        + "return empty / held if held else 0.0",
    ),
    (
        "what the last block lacks",
        HELD
        + "empty = sum(-num_tokens[r] % self.block_size for r, t in self.tables.items() if t)\n"
        + "return empty / held if held else 0.0",
    ),
    (
        "who waits is looked up",
        """
held = used = 0
for request_id, tokens in num_tokens.items():
    held += len(self.tables[request_id]) * self.block_size
    used += tokens
return (held - used) / held if held else 0.0
""",
    ),
    (
        "a block a request",
        USED + "held = len(self.tables) * self.block_size\nreturn (held - used) / held if held else 0.0",
    ),
    (
        "free slots",
        "total = self.num_blocks * self.block_size\nreturn self.num_free * self.block_size / total",
    ),
    (
        "the caller's dict cleared of strangers",
        """
for request_id in list(num_tokens):
    if request_id not in self.tables:
        del num_tokens[request_id]
held = (self.num_blocks - self.num_free) * self.block_size
return (held - sum(num_tokens.values())) / held if held else 0.0
""",
    ),
    (
        "who waits gets a table to look at",
        """
used = 0
for request_id, tokens in num_tokens.items():
    if self.allocate(request_id, tokens):
        used += tokens
held = (self.num_blocks - self.num_free) * self.block_size
return (held - used) / held if held else 0.0
""",
    ),
]

REFUSE = """
if parent not in self.tables or child in self.tables:
    raise ValueError("cannot fork")
"""
COUNT = "self.extra.update(self.tables[child])"
FORK = [
    ("one list, two names", REFUSE + "self.tables[child] = self.tables[parent]\n" + COUNT),
    ("nobody counts", REFUSE + "self.tables[child] = list(self.tables[parent])"),
    (
        "two is all it can count",
        REFUSE
        + "self.tables[child] = list(self.tables[parent])\n"
        + "for block in self.tables[child]:\n    self.extra[block] = 1",
    ),
    (
        "both owners counted",
        REFUSE
        + "self.tables[child] = list(self.tables[parent])\n"
        + "for block in self.tables[child]:\n    self.extra[block] += 2",
    ),
    (
        "the last block only",
        REFUSE
        + "self.tables[child] = list(self.tables[parent])\n"
        + "for block in self.tables[child][-1:]:\n    self.extra[block] += 1",
    ),
    (
        "full blocks only",
        REFUSE
        + "self.tables[child] = list(self.tables[parent])\n"
        + "for block in self.tables[child][:-1]:\n    self.extra[block] += 1",
    ),
    (
        "the begun block is not shared",
        REFUSE + "self.tables[child] = list(self.tables[parent])[:-1]\n" + COUNT,
    ),
    (
        "blocks of its own",
        REFUSE + "self.allocate(child, len(self.tables[parent]) * self.block_size)",
    ),
    (
        "in order of their numbers",
        REFUSE + "self.tables[child] = sorted(self.tables[parent])\n" + COUNT,
    ),
    (
        "the other way round",
        REFUSE + "self.tables[child] = self.tables[parent][::-1]\n" + COUNT,
    ),
    (
        "a parent without a table is a KeyError",
        "if child in self.tables:\n    raise ValueError\nself.tables[child] = list(self.tables[parent])\n"
        + COUNT,
    ),
    (
        "a parent without a table has a child without blocks",
        "if child in self.tables:\n    raise ValueError\n"
        + "self.tables[child] = list(self.tables.get(parent, ()))\n"
        + COUNT,
    ),
    (
        "a child may be overwritten",
        "if parent not in self.tables:\n    raise ValueError\n"
        + "self.tables[child] = list(self.tables[parent])\n"
        + COUNT,
    ),
    (
        "a child that has blocks gives them up",
        "if parent not in self.tables:\n    raise ValueError\nself.free(child)\n"
        + "self.tables[child] = list(self.tables[parent])\n"
        + COUNT,
    ),
    (
        "passed over in silence",
        "if parent not in self.tables or child in self.tables:\n    return\n"
        + "self.tables[child] = list(self.tables[parent])\n"
        + COUNT,
    ),
    (
        "counted before it is refused",
        "self.extra.update(self.tables.get(parent, ()))\n"
        + REFUSE.lstrip()
        + "self.tables[child] = list(self.tables[parent])",
    ),
    (
        "the parent moves out",
        REFUSE + "self.tables[child] = self.tables.pop(parent)",
    ),
]

SHARED_FREE = [
    ("as if alone", "super().free(request_id)"),
    (
        "counted down, then looked at",
        """
for block in self.tables.pop(request_id, []):
    self.extra[block] -= 1
    if self.extra[block] <= 0:
        self._free.append(block)
""",
    ),
    (
        "the first owner counted as well",
        """
for block in self.tables.pop(request_id, []):
    if self.extra[block] > 1:
        self.extra[block] -= 1
    else:
        self._free.append(block)
""",
    ),
    (
        "never counted down",
        """
for block in self.tables.pop(request_id, []):
    if not self.extra[block]:
        self._free.append(block)
""",
    ),
    (
        "counted down and given back",
        """
for block in self.tables.pop(request_id, []):
    if self.extra[block]:
        self.extra[block] -= 1
    self._free.append(block)
""",
    ),
    (
        "one goes, all counts go",
        """
for block in self.tables.pop(request_id, []):
    if block in self.extra:
        del self.extra[block]
    else:
        self._free.append(block)
""",
    ),
    (
        "no entry, or an entry of nothing",
        """
for block in self.tables.pop(request_id, []):
    if block in self.extra:
        self.extra[block] -= 1
    else:
        self._free.append(block)
""",
    ),
    (
        "once shared, the whole table is",
        """
table = self.tables.pop(request_id, [])
if any(self.extra[block] for block in table):
    self.extra.subtract(table)
else:
    self._free.extend(table)
""",
    ),
    (
        "looked at the first block only",
        """
table = self.tables.pop(request_id, [])
if table and self.extra[table[0]]:
    self.extra.subtract(table)
else:
    self._free.extend(table)
""",
    ),
    (
        "stops at the first shared one",
        """
for block in self.tables.pop(request_id, []):
    if self.extra[block]:
        self.extra[block] -= 1
        break
    self._free.append(block)
""",
    ),
    (
        "a stranger is an error",
        """
for block in self.tables.pop(request_id):
    if self.extra[block]:
        self.extra[block] -= 1
    else:
        self._free.append(block)
""",
    ),
    (
        "the table stays",
        """
for block in self.tables.get(request_id, []):
    if self.extra[block]:
        self.extra[block] -= 1
    else:
        self._free.append(block)
""",
    ),
    (
        "who holds nothing is left where he is",
        """
table = self.tables.get(request_id)
if not table:
    return
del self.tables[request_id]
for block in table:
    if self.extra[block]:
        self.extra[block] -= 1
    else:
        self._free.append(block)
""",
    ),
    (
        "still in its own table when it looks",
        """
for block in self.tables.get(request_id, []):
    if not any(block in table for table in self.tables.values()):
        self._free.append(block)
    elif self.extra[block]:
        self.extra[block] -= 1
self.tables.pop(request_id, None)
""",
    ),
]

ENTRY = "table, i = self.tables[request_id], position // self.block_size\nold = table[i]\n"
LOOK = (
    ENTRY
    + "if not self.extra[old]:\n    return None\nif not self._free:\n    raise ValueError('no block is free')\n"
)
WRITE = [
    ("the old one keeps its count", LOOK + "table[i] = self._free.pop()\nreturn old, table[i]"),
    (
        "the new one counted",
        LOOK
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nself.extra[table[i]] += 1\nreturn old, table[i]",
    ),
    ("to and from", LOOK + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn table[i], old"),
    (
        "the old one is free",
        LOOK
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nself._free.append(old)\nreturn old, table[i]",
    ),
    (
        "nobody shares the old one any more",
        LOOK + "table[i] = self._free.pop()\ndel self.extra[old]\nreturn old, table[i]",
    ),
    ("the new one only", LOOK + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn table[i]"),
    ("nothing returned", LOOK + "table[i] = self._free.pop()\nself.extra[old] -= 1"),
    (
        "the place in the table for the block",
        LOOK + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn i, table[i]",
    ),
    (
        "slots, not blocks",
        LOOK
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\n"
        + "size = self.block_size\nreturn old * size + position % size, table[i] * size + position % size",
    ),
    (
        "put behind the table",
        LOOK + "table.append(self._free.pop())\nself.extra[old] -= 1\nreturn old, table[-1]",
    ),
    (
        "always the last block",
        """
table = self.tables[request_id]
old = table[-1]
if not self.extra[old]:
    return None
if not self._free:
    raise ValueError
table[-1] = self._free.pop()
self.extra[old] -= 1
return old, table[-1]
""",
    ),
    (
        "everybody's table",
        LOOK
        + "new = self._free.pop()\nself.extra[old] -= 1\n"
        + "for other in self.tables.values():\n    other[:] = [new if b == old else b for b in other]\n"
        + "return old, new",
    ),
    (
        "the position for the place",
        """
table = self.tables[request_id]
old = table[position]
if not self.extra[old]:
    return None
if not self._free:
    raise ValueError
table[position] = self._free.pop()
self.extra[old] -= 1
return old, table[position]
""",
    ),
    (
        "a full pool refuses him who owns it alone",
        ENTRY
        + "if not self._free:\n    raise ValueError\nif not self.extra[old]:\n    return None\n"
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[i]",
    ),
    (
        "counted down before it is refused",
        ENTRY
        + "if not self.extra[old]:\n    return None\nself.extra[old] -= 1\n"
        + "if not self._free:\n    raise ValueError\ntable[i] = self._free.pop()\nreturn old, table[i]",
    ),
    (
        "copied for its only owner",
        ENTRY
        + "if not self._free:\n    raise ValueError\ntable[i] = self._free.pop()\n"
        + "if self.extra[old]:\n    self.extra[old] -= 1\nelse:\n    self._free.append(old)\nreturn old, table[i]",
    ),
    (
        "an IndexError for a full pool",
        ENTRY
        + "if not self.extra[old]:\n    return None\n"
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[i]",
    ),
    (
        "None for a full pool",
        ENTRY
        + "if not self.extra[old] or not self._free:\n    return None\n"
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[i]",
    ),
    (
        "shared by three at least",
        ENTRY
        + "if self.extra[old] <= 1:\n    return None\nif not self._free:\n    raise ValueError\n"
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[i]",
    ),
    (
        "an entry is an owner",
        ENTRY
        + "if old not in self.extra:\n    return None\nif not self._free:\n    raise ValueError\n"
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[i]",
    ),
    (
        "from the position on, all of them",
        LOOK
        + "for j in range(i, len(table)):\n"
        + "    if self.extra[table[j]] and self._free:\n"
        + "        self.extra[table[j]] -= 1\n        table[j] = self._free.pop()\n"
        + "return old, table[i]",
    ),
    (
        "a copy only in the middle of a block",
        ENTRY
        + "if not self.extra[old] or position % self.block_size == 0:\n    return None\n"
        + "if not self._free:\n    raise ValueError\n"
        + "table[i] = self._free.pop()\nself.extra[old] -= 1\nreturn old, table[i]",
    ),
]

WRONG = [
    Variant(name, {todo: code})
    for todo, variants in [
        ("ch05.1", MISSING),
        ("ch05.2", ALLOCATE),
        ("ch05.3", FREE),
        ("ch05.4", SLOTS),
        ("ch05.5", WASTE),
        ("ch05.6", FORK),
        ("ch05.7", SHARED_FREE),
        ("ch05.8", WRITE),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "begun blocks counted one by one",
        {
            "ch05.1": """
room = self.block_size * len(self.tables[request_id]) if request_id in self.tables else 0
blocks = 0
while room < num_tokens:
    room, blocks = room + self.block_size, blocks + 1
return blocks
"""
        },
    ),
    Variant(
        "a slice as long as it can be",
        {
            "ch05.2": """
new = self._free[: self.missing(request_id, num_tokens)]
if len(new) < self.missing(request_id, num_tokens):
    return False
del self._free[: len(new)]
self.tables[request_id] = [*self.tables.get(request_id, []), *new]
return True
""",
        },
    ),
    Variant(
        "whole blocks and a rest",
        {
            "ch05.1": """
whole, rest = divmod(num_tokens, self.block_size)
have = self.tables.get(request_id)
short = whole + (rest > 0) - (len(have) if have else 0)
return short if short > 0 else 0
""",
            "ch05.4": """
slots = []
for position in range(start, start + count):
    index, offset = divmod(position, self.block_size)
    slots.append(self.tables[request_id][index] * self.block_size + offset)
return slots
""",
        },
    ),
    Variant(
        "the smallest number first, everything sorted",
        {
            "ch05.2": """
need = self.missing(request_id, num_tokens)
if not need:
    return True
if not need <= len(self._free):
    return False
self._free.sort()
if request_id not in self.tables:
    self.tables[request_id] = []
for block in self._free[:need]:
    self.tables[request_id].append(block)
self._free = self._free[need:]
return True
""",
            "ch05.3": """
self._free = sorted(set(self._free).union(self.tables.pop(request_id, ())))
""",
        },
    ),
    Variant(
        "taken, and put back where it was too much",
        {
            "ch05.2": """
table = list(self.tables.get(request_id, []))
taken = []
while (len(table) + len(taken)) * self.block_size < num_tokens:
    if not self._free:
        self._free.extend(taken)
        return False
    taken.append(self._free.pop(0))
if taken:
    self.tables[request_id] = table + taken
return True
""",
            "ch05.3": """
try:
    table = self.tables.pop(request_id)
except KeyError:
    return None
while table:
    self._free.insert(0, table.pop())
""",
        },
    ),
    Variant(
        "all slots of the table, then a slice",
        {
            "ch05.4": """
slots = [block * self.block_size + i for block in self.tables[request_id] for i in range(self.block_size)]
return slots[start : start + count]
""",
            "ch05.5": """
slots = empty = 0
for request_id, table in self.tables.items():
    slots += len(table) * self.block_size
    empty += len(table) * self.block_size - num_tokens.get(request_id, 0)
return empty / max(slots, 1)
""",
        },
    ),
    Variant(
        "with numpy",
        {
            "ch05.4": """
import numpy as np

positions = np.arange(start, start + count)
table = np.array(self.tables[request_id], dtype=np.int64)
return table[positions // self.block_size] * self.block_size + positions % self.block_size
""",
            "ch05.5": """
import numpy as np

sizes = np.array([[len(t) * self.block_size, num_tokens[r]] for r, t in self.tables.items() if t])
if not sizes.size:
    return 0
held, used = sizes.sum(axis=0)
return 1 - used / held
""",
        },
    ),
    Variant(
        "a fraction to the last",
        {
            "ch05.5": """
from fractions import Fraction

held = sum(len(table) for table in self.tables.values()) * self.block_size
if held == 0:
    return 0.0
return float(1 - Fraction(sum(num_tokens[r] for r in num_tokens.keys() & self.tables.keys()), held))
""",
            "ch05.3": """
if request_id in self.tables:
    self._free += reversed(self.tables.pop(request_id))
return self.num_free
""",
        },
    ),
    Variant(
        "owners found in the tables, nothing counted",
        {
            "ch05.6": """
if child in self.tables or parent not in self.tables:
    raise ValueError(f"{parent} cannot be forked into {child}")
self.tables[child] = self.tables[parent][:]
""",
            "ch05.7": """
table = self.tables.pop(request_id, [])
held = {block for other in self.tables.values() for block in other}
self._free.extend(block for block in table if block not in held)
""",
            "ch05.8": """
table = self.tables[request_id]
block = table[position // self.block_size]
if sum(block in other for other in self.tables.values()) == 1:
    return None
try:
    table[position // self.block_size] = self._free.pop()
except IndexError:
    raise ValueError("no block is free") from None
return block, table[position // self.block_size]
""",
        },
    ),
    Variant(
        "all owners counted, where there are several",
        {
            "ch05.6": """
class CannotFork(ValueError):
    pass

if parent not in self.tables:
    raise CannotFork(parent)
if child in self.tables:
    raise CannotFork(child)
self.tables[child] = self.tables[parent].copy()
for block in self.tables[parent]:
    self.extra[block] = max(self.extra[block], 1) + 1
""",
            "ch05.7": """
for block in reversed(self.tables.pop(request_id, [])):
    owners = max(self.extra[block], 1) - 1
    if owners == 0:
        self._free.append(block)
    if owners < 2:
        self.extra.pop(block, None)
    else:
        self.extra[block] = owners
""",
            "ch05.8": """
table = self.tables[request_id]
index = position // self.block_size
old = table[index]
if self.extra[old] < 2:
    return None
if self.num_free == 0:
    raise ValueError("no block is free")
new = self._free.pop(0)
table[index] = new
self.extra[old] -= 1
if self.extra[old] == 1:
    del self.extra[old]
return [old, new]
""",
        },
    ),
]
