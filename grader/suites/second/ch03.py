"""Chapter 3 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def wrong(todo: str, name: str, code: str) -> Variant:
    """An answer that a learner could well write, and that is not right."""
    return Variant(name, {todo: code})


ARRIVAL = [
    ("the id alone", "return request.request_id"),
    ("the time alone", "return (request.arrival_time,)"),
    ("the id before the time", "return (request.request_id, request.arrival_time)"),
    ("last come, first served", "return (-request.arrival_time, request.request_id)"),
    ("the seconds waited, and the smallest first", "return (now - request.arrival_time, request.request_id)"),
    ("the seconds waited, negated", "return (request.arrival_time - now, request.request_id)"),
    ("ids compared as words", "return (request.arrival_time, str(request.request_id))"),
    ("ids by their length, then as words", "return (request.arrival_time, len(str(request.request_id)))"),
    (
        "the more urgent first",
        "return (-request.priority, request.arrival_time, request.request_id)",
    ),
    (
        "the more urgent first where the time is equal",
        "return (request.arrival_time, -request.priority, request.request_id)",
    ),
    (
        "the shorter prompt first where the time is equal",
        "return (request.arrival_time, request.prompt_len, request.request_id)",
    ),
    ("whole seconds", "return (int(request.arrival_time), request.request_id)"),
    ("milliseconds, rounded", "return (round(request.arrival_time, 3), request.request_id)"),
    ("time and id in one number", "return request.arrival_time + request.request_id / 1000"),
    ("time and id in one word", 'return f"{request.arrival_time:.3f} {request.request_id}"'),
    ("the two sorted by size", "return sorted([request.arrival_time, request.request_id])"),
    ("the place in memory instead of the id", "return (request.arrival_time, id(request))"),
    ("the hash of both", "return hash((request.arrival_time, request.request_id))"),
    (
        "in the order in which it was asked",
        """
self.seen = getattr(self, "seen", {})
return self.seen.setdefault(request.request_id, len(self.seen))
""",
    ),
    ("the request itself", "return request"),
    ("a dict of both", 'return {"arrival": request.arrival_time, "id": request.request_id}'),
    ("nothing returned", "(request.arrival_time, request.request_id)"),
]

TIE = "request.arrival_time, request.request_id)"
SIZE = [
    ("counts the tokens itself", "return (request.prompt_len + request.max_new_tokens, " + TIE),
    ("asks total_tokens", "return (total_tokens(request), " + TIE),
    (
        "asks size only where it is not the usual one, and counts the prompt else",
        "size = request.prompt_len if self.size is total_tokens else self.size(request)\nreturn (size, "
        + TIE,
    ),
    ("the prompt", "return (request.prompt_len, " + TIE),
    ("the answer", "return (request.max_new_tokens, " + TIE),
    ("size is not called", "return (self.size, " + TIE),
    ("the longest first", "return (-self.size(request), " + TIE),
    ("the size in whole numbers", "return (int(self.size(request)), " + TIE),
    ("the size rounded", "return (round(self.size(request)), " + TIE),
    ("sizes to the nearest ten", "return (self.size(request) // 10, " + TIE),
    ("sizes as powers of two", "return (int(self.size(request)).bit_length(), " + TIE),
    ("sizes as words", "return (str(self.size(request)), " + TIE),
    ("large is large", "return (min(self.size(request), 1000), " + TIE),
    ("the time before the size", "return (request.arrival_time, self.size(request), request.request_id)"),
    ("the size alone", "return (self.size(request),)"),
    ("without the time", "return (self.size(request), request.request_id)"),
    ("without the id", "return (self.size(request), request.arrival_time)"),
    ("the id before the time", "return (self.size(request), request.request_id, request.arrival_time)"),
    (
        "of equal ones the last to come",
        "return (self.size(request), -request.arrival_time, request.request_id)",
    ),
    ("of equal ones the one that waits for a shorter time", "return (self.size(request), now - " + TIE),
    ("the more urgent first", "return (-request.priority, self.size(request), " + TIE),
    ("size and time added up", "return (self.size(request) + request.arrival_time, request.request_id)"),
    (
        "a little aging",
        "return (self.size(request) - (now - request.arrival_time), " + TIE,
    ),
    (
        "of equal ones by the time still to wait",
        "return (self.size(request), request.arrival_time - now, " + TIE,
    ),
]

SOMEBODY = "if not self.waiting:\n    return None\n"
LEAVES = "return self.waiting.pop(request.request_id)"
POP = [
    (
        "nobody waits, nothing thought of",
        "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + LEAVES,
    ),
    (
        "an error where nobody waits",
        'if not self.waiting:\n    raise IndexError("empty")\n'
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + LEAVES,
    ),
    (
        "None for the last one too",
        "if len(self.waiting) <= 1:\n    return None\n"
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + LEAVES,
    ),
    (
        "it stays",
        SOMEBODY + "return min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))",
    ),
    (
        "removed after the return",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + "return request\ndel self.waiting[request.request_id]",
    ),
    (
        "the id is returned",
        SOMEBODY
        + "chosen = min(self.waiting, key=lambda i: self.policy.key(self.waiting[i], now))\n"
        + "del self.waiting[chosen]\nreturn chosen",
    ),
    (
        "id and request are returned",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + "return request.request_id, self.waiting.pop(request.request_id)",
    ),
    (
        "nothing is returned",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + "del self.waiting[request.request_id]",
    ),
    ("first in, first out", SOMEBODY + "return self.waiting.pop(next(iter(self.waiting)))"),
    ("last in, first out", SOMEBODY + "return self.waiting.popitem()[1]"),
    (
        "the largest key",
        SOMEBODY
        + "request = max(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))\n"
        + LEAVES,
    ),
    (
        "the smallest id",
        SOMEBODY + "return self.waiting.pop(min(self.waiting))",
    ),
    (
        "keys of the beginning of time",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, 0.0), r.request_id))\n"
        + LEAVES,
    ),
    (
        "keys of the arrival",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, r.arrival_time), r.request_id))\n"
        + LEAVES,
    ),
    (
        "keys of the first pop that saw it",
        SOMEBODY
        + """
self.keys = getattr(self, "keys", {})
for request in self.waiting.values():
    if request not in self.keys:
        self.keys[request] = self.policy.key(request, now)
request = min(self.waiting.values(), key=self.keys.get)
"""
        + LEAVES,
    ),
    (
        "keys of whole seconds",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, int(now)), r.request_id))\n"
        + LEAVES,
    ),
    (
        "of equal ones the first added",
        SOMEBODY + "request = min(self.waiting.values(), key=lambda r: self.policy.key(r, now))\n" + LEAVES,
    ),
    (
        "of equal ones the earlier arrival",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.arrival_time))\n"
        + LEAVES,
    ),
    (
        "of equal ones the last added",
        SOMEBODY
        + "rest = list(self.waiting.values())[::-1]\n"
        + "request = min(rest, key=lambda r: self.policy.key(r, now))\n"
        + LEAVES,
    ),
    (
        "the first field decides",
        SOMEBODY
        + "request = min(self.waiting.values(), key=lambda r: self.policy.key(r, now)[0])\n"
        + LEAVES,
    ),
    (
        "the dict kept sorted",
        SOMEBODY
        + """
order = sorted(self.waiting.values(), key=lambda r: self.policy.key(r, now))
self.waiting = {r.request_id: r for r in order}
request = order[0]
"""
        + LEAVES,
    ),
    (
        "the dict kept sorted, the smallest last",
        SOMEBODY
        + """
order = sorted(self.waiting.values(), key=lambda r: self.policy.key(r, now), reverse=True)
self.waiting = {r.request_id: r for r in order}
return self.waiting.popitem()[1]
""",
    ),
    (
        "sorted once, latecomers wait for the next round",
        """
self.round = [r for r in getattr(self, "round", []) if r.request_id in self.waiting]
if not self.round:
    self.round = sorted(self.waiting.values(), key=lambda r: self.policy.key(r, now))
if not self.round:
    return None
return self.waiting.pop(self.round.pop(0).request_id)
""",
    ),
    (
        "a heap that remembers those who cancelled",
        """
import heapq

self.heap = getattr(self, "heap", [])
known = {entry[2].request_id for entry in self.heap}
for n, request in enumerate(self.waiting.values()):
    if request.request_id not in known:
        heapq.heappush(self.heap, (self.policy.key(request, now), n, request))
if not self.heap:
    return None
request = heapq.heappop(self.heap)[2]
self.waiting.pop(request.request_id, None)
return request
""",
    ),
    (
        "id 0 taken for nobody",
        """
best = None
for request_id, request in self.waiting.items():
    if not best or self.policy.key(request, now) < self.policy.key(self.waiting[best], now):
        best = request_id
if not best:
    return None
return self.waiting.pop(best)
""",
    ),
    (
        "one neighbour compared with the next",
        SOMEBODY
        + """
rest = list(self.waiting.values())
request = rest[0]
for one, other in zip(rest, rest[1:]):
    if self.policy.key(other, now) < self.policy.key(one, now):
        request = other
"""
        + LEAVES,
    ),
    (
        "those who arrive later are not looked at",
        """
here = [r for r in self.waiting.values() if r.arrival_time < now]
if not here:
    return None
request = min(here, key=lambda r: self.policy.key(r, now))
"""
        + LEAVES,
    ),
]

URGENT = """
if self.urgent.waiting:
    self.row += 1
    return self.urgent.pop(now)
"""
TURN = "if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):\n"
CLASSES = [
    ("no guard", URGENT + "self.row = 0\nreturn self.normal.pop(now)"),
    (
        "one too many",
        "if self.normal.waiting and (self.row > self.burst or not self.urgent.waiting):\n"
        + "    self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT,
    ),
    (
        "one too few",
        "if self.normal.waiting and (self.row + 1 >= self.burst or not self.urgent.waiting):\n"
        + "    self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT,
    ),
    (
        "exactly burst",
        "if self.normal.waiting and (self.row == self.burst or not self.urgent.waiting):\n"
        + "    self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT,
    ),
    ("never set to 0", TURN + "    return self.normal.pop(now)\n" + URGENT),
    (
        "set to 1 by a normal one",
        TURN + "    self.row = 1\n    return self.normal.pop(now)\n" + URGENT,
    ),
    (
        "a full row only goes down by one",
        TURN + "    self.row -= 1\n    return self.normal.pop(now)\n" + URGENT,
    ),
    (
        "set to 0 only where the row was full",
        TURN
        + "    if self.row >= self.burst:\n        self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT,
    ),
    (
        "never counted",
        TURN
        + "    self.row = 0\n    return self.normal.pop(now)\n"
        + "if self.urgent.waiting:\n    return self.urgent.pop(now)",
    ),
    (
        "a pop that finds nobody counts",
        TURN
        + "    self.row = 0\n    return self.normal.pop(now)\nself.row += 1\nreturn self.urgent.pop(now)",
    ),
    (
        "a pop that finds nobody begins a new row",
        TURN + "    self.row = 0\n    return self.normal.pop(now)\n" + URGENT + "self.row = 0",
    ),
    (
        "counted only while a normal one waits",
        TURN
        + "    self.row = 0\n    return self.normal.pop(now)\n"
        + "if self.urgent.waiting:\n    self.row += bool(self.normal.waiting)\n    return self.urgent.pop(now)",
    ),
    (
        "no normal one waits: a new row",
        "if not self.normal.waiting:\n    self.row = 0\n"
        + TURN
        + "    self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT,
    ),
    (
        "the full row forgotten where no normal one waits",
        """
if self.row >= self.burst:
    self.row = 0
    if self.normal.waiting:
        return self.normal.pop(now)
"""
        + URGENT
        + "return self.normal.pop(now)",
    ),
    (
        "a full row and nobody normal: nobody goes",
        """
if self.row >= self.burst:
    self.row = 0
    return self.normal.pop(now)
"""
        + URGENT
        + "self.row = 0\nreturn self.normal.pop(now)",
    ),
    (
        "a normal one only where the row is full",
        "if self.normal.waiting and self.row >= self.burst:\n    self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT,
    ),
    (
        "the urgent class empty: a normal one, uncounted",
        "if self.normal.waiting and self.row >= self.burst:\n    self.row = 0\n    return self.normal.pop(now)\n"
        + URGENT
        + "return self.normal.pop(now)",
    ),
    (
        "normal ones first",
        "if self.normal.waiting:\n    self.row = 0\n    return self.normal.pop(now)\n" + URGENT,
    ),
    (
        "taking turns",
        """
if self.normal.waiting and (self.row or not self.urgent.waiting):
    self.row = 0
    return self.normal.pop(now)
"""
        + URGENT,
    ),
    (
        "burst normal ones after burst urgent ones",
        """
if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):
    self.row = self.row + 1 if self.urgent.waiting and self.row < 2 * self.burst - 1 else 0
    return self.normal.pop(now)
"""
        + URGENT,
    ),
    (
        "whoever of the two has the smaller key",
        """
rest = [*self.urgent.waiting.values(), *self.normal.waiting.values()]
if not rest:
    return None
best = min(rest, key=lambda r: self.urgent.policy.key(r, now))
if self.normal.waiting and (self.row >= self.burst or best.request_id in self.normal.waiting):
    self.row = 0
    return self.normal.pop(now)
self.row += 1
return self.urgent.pop(now)
""",
    ),
    (
        "both popped, one lost",
        """
urgent, normal = self.urgent.pop(now), self.normal.pop(now)
if normal is not None and (urgent is None or self.row >= self.burst):
    self.row = 0
    return normal
if urgent is not None:
    self.row += 1
return urgent
""",
    ),
    (
        "and binds tighter than or",
        "if self.normal.waiting and self.row >= self.burst or not self.urgent.waiting:\n"
        "    self.row = 0\n    return self.normal.pop(now)\nself.row += 1\nreturn self.urgent.pop(now)",
    ),
    (
        "first in, first out within a class",
        """
if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):
    self.row = 0
    return self.normal.waiting.pop(next(iter(self.normal.waiting)))
if self.urgent.waiting:
    self.row += 1
    return self.urgent.waiting.pop(next(iter(self.urgent.waiting)))
""",
    ),
    (
        "the row is a class's, not a scheduler's",
        """
if self.normal.waiting and (type(self).row >= self.burst or not self.urgent.waiting):
    type(self).row = 0
    return self.normal.pop(now)
if self.urgent.waiting:
    type(self).row = getattr(type(self), "row", 0) + 1
    return self.urgent.pop(now)
""",
    ),
]

TAKEN = "first, *rest = self.policy.key(request, now)\nwaited = now - request.arrival_time\n"
AGING = [
    ("who waits sinks", TAKEN + "return (first + self.rate * waited, *rest)"),
    ("no rate", TAKEN + "return (first - waited, *rest)"),
    ("seconds only", TAKEN + "return (-waited, *rest)"),
    ("the same for everyone", TAKEN + "return (first - self.rate * now, *rest)"),
    ("not aged at all", "return self.policy.key(request, now)"),
    ("the rest dropped", TAKEN + "return (first - self.rate * waited,)"),
    (
        "the rest made anew",
        TAKEN + "return (first - self.rate * waited, request.arrival_time, request.request_id)",
    ),
    ("the id alone behind it", TAKEN + "return (first - self.rate * waited, request.request_id)"),
    (
        "the last field alone behind it",
        "key = self.policy.key(request, now)\n"
        "return (key[0] - self.rate * (now - request.arrival_time), key[-1])",
    ),
    ("the whole key behind it", TAKEN + "return (first - self.rate * waited, first, *rest)"),
    ("the rest the other way round", TAKEN + "return (first - self.rate * waited, *rest[::-1])"),
    ("in front of the key", TAKEN + "return (-self.rate * waited, first, *rest)"),
    ("behind the key", TAKEN + "return (first, *rest, -self.rate * waited)"),
    (
        "every field aged",
        TAKEN + "return tuple(field - self.rate * waited for field in (first, *rest))",
    ),
    (
        "the size taken from the policy",
        "size = self.policy.size(request)\n"
        "return (size - self.rate * (now - request.arrival_time), request.arrival_time, request.request_id)",
    ),
    (
        "tokens, whatever the policy",
        "size = total_tokens(request)\n"
        "return (size - self.rate * (now - request.arrival_time), request.arrival_time, request.request_id)",
    ),
    (
        "an SJF of its own",
        "first, *rest = SJF().key(request, now)\n"
        "return (first - self.rate * (now - request.arrival_time), *rest)",
    ),
    ("never below 0", TAKEN + "return (max(0, first - self.rate * waited), *rest)"),
    ("whole seconds", TAKEN + "return (first - self.rate * int(waited), *rest)"),
    ("the result in whole numbers", TAKEN + "return (int(first - self.rate * waited), *rest)"),
    ("a minute at most", TAKEN + "return (first - self.rate * min(waited, 60), *rest)"),
    ("the wait squared", TAKEN + "return (first - self.rate * waited**2, *rest)"),
    ("a share of the field", TAKEN + "return (first * (1 - self.rate * waited), *rest)"),
    ("divided instead of subtracted", TAKEN + "return (first / (1 + self.rate * waited), *rest)"),
    (
        "the wait since it was first looked at",
        """
self.seen = getattr(self, "seen", {})
waited = now - self.seen.setdefault(request.request_id, now)
first, *rest = self.policy.key(request, now)
return (first - self.rate * waited, *rest)
""",
    ),
    (
        "the inner key of the arrival",
        "first, *rest = self.policy.key(request, request.arrival_time)\n"
        "return (first - self.rate * (now - request.arrival_time), *rest)",
    ),
    (
        "the inner key of the beginning of time",
        "first, *rest = self.policy.key(request, 0.0)\n"
        "return (first - self.rate * (now - request.arrival_time), *rest)",
    ),
    (
        "a tuple changed in place",
        "key = self.policy.key(request, now)\nkey[0] -= self.rate * (now - request.arrival_time)\nreturn key",
    ),
    (
        "a number and a tuple added",
        "key = self.policy.key(request, now)\n"
        "return key[0] - self.rate * (now - request.arrival_time) + key[1:]",
    ),
    ("nothing at rate 0", TAKEN + "if self.rate:\n    return (first - self.rate * waited, *rest)"),
    (
        "more every time it is asked",
        """
self.asked = getattr(self, "asked", {})
self.asked[request.request_id] = self.asked.get(request.request_id, 0) + 1
first, *rest = self.policy.key(request, now)
return (first - self.rate * self.asked[request.request_id], *rest)
""",
    ),
]

JAIN = [
    ("no thought of 0", "return sum(values) ** 2 / (len(values) * sum(x * x for x in values))"),
    (
        "only the empty list thought of",
        "if not values:\n    return 1.0\nreturn sum(values) ** 2 / (len(values) * sum(x * x for x in values))",
    ),
    (
        "only zeros thought of",
        "squares = sum(x * x for x in values)\n"
        "if values and squares == 0:\n    return 1.0\nreturn sum(values) ** 2 / (len(values) * squares)",
    ),
    (
        "nothing to share is unfair",
        "below = len(values) * sum(x * x for x in values)\nreturn sum(values) ** 2 / below if below else 0.0",
    ),
    (
        "any zero is nothing to share",
        "if not all(values):\n    return 1.0\nreturn sum(values) ** 2 / (len(values) * sum(x * x for x in values))",
    ),
    ("without n", "below = sum(x * x for x in values)\nreturn sum(values) ** 2 / below if below else 1.0"),
    (
        "n on top",
        "below = sum(x * x for x in values)\nreturn len(values) * sum(values) ** 2 / below if below else 1.0",
    ),
    (
        "upside down",
        "above = len(values) * sum(x * x for x in values)\nreturn above / sum(values) ** 2 if above else 1.0",
    ),
    (
        "the squares above, the sum below",
        "below = len(values) * sum(values) ** 2\nreturn sum(x * x for x in values) / below if below else 1.0",
    ),
    (
        "the sum not squared",
        "below = len(values) * sum(x * x for x in values)\nreturn sum(values) / below if below else 1.0",
    ),
    (
        "n squared",
        "below = len(values) ** 2 * sum(x * x for x in values)\nreturn sum(values) ** 2 / below if below else 1.0",
    ),
    (
        "divided, then multiplied",
        "squares = sum(x * x for x in values)\nreturn sum(values) ** 2 / len(values) * squares if squares else 1.0",
    ),
    (
        "only those who have something",
        "values = [x for x in values if x]\n"
        "return sum(values) ** 2 / (len(values) * sum(x * x for x in values)) if values else 1.0",
    ),
    (
        "equal shares counted once",
        "values = set(values)\nbelow = len(values) * sum(x * x for x in values)\n"
        "return sum(values) ** 2 / below if below else 1.0",
    ),
    ("the least over the most", "return min(values) / max(values) if values and max(values) else 1.0"),
    (
        "the mean over the most",
        "return sum(values) / len(values) / max(values) if values and max(values) else 1.0",
    ),
    (
        "whole numbers",
        "below = len(values) * sum(x * x for x in values)\nreturn sum(values) ** 2 // below if below else 1.0",
    ),
    (
        "rounded",
        "below = len(values) * sum(x * x for x in values)\nreturn round(sum(values) ** 2 / below, 3) if below else 1.0",
    ),
    (
        "little counts as nothing",
        "below = len(values) * sum(x * x for x in values)\nreturn sum(values) ** 2 / below if below > 1e-6 else 1.0",
    ),
    (
        "in per cent",
        "below = len(values) * sum(x * x for x in values)\nreturn 100 * sum(values) ** 2 / below if below else 100.0",
    ),
    (
        "one alone has nothing to compare",
        "if len(values) < 2:\n    return 0.0\nbelow = len(values) * sum(x * x for x in values)\n"
        "return sum(values) ** 2 / below if below else 1.0",
    ),
]

LINE = "if not self.turns:\n    return None\n"
TAKE = (
    "request = self.turns.popleft()\ntokens = min(self.slice_tokens, self.left[request.request_id])\n"
    "self.left[request.request_id] -= tokens\n"
)
BACK = "if self.left[request.request_id]:\n    self.turns.append(request)\n"
ROBIN = [
    ("an empty line is an error", TAKE + BACK + "return request, tokens"),
    ("back in line though done", LINE + TAKE + "self.turns.append(request)\nreturn request, tokens"),
    ("never back in line", LINE + TAKE + "return request, tokens"),
    (
        "back at the front",
        LINE
        + TAKE
        + "if self.left[request.request_id]:\n    self.turns.appendleft(request)\nreturn request, tokens",
    ),
    (
        "back in the second place",
        LINE
        + TAKE
        + "if self.left[request.request_id]:\n    self.turns.insert(1, request)\nreturn request, tokens",
    ),
    ("from the end of the line", LINE + TAKE.replace("popleft", "pop") + BACK + "return request, tokens"),
    (
        "always a whole slice",
        LINE
        + "request = self.turns.popleft()\nself.left[request.request_id] -= self.slice_tokens\n"
        + "if self.left[request.request_id] > 0:\n    self.turns.append(request)\n"
        + "return request, self.slice_tokens",
    ),
    (
        "below 0 is not 0",
        LINE
        + "request = self.turns.popleft()\ntokens = min(self.slice_tokens, self.left[request.request_id])\n"
        + "self.left[request.request_id] -= self.slice_tokens\n"
        + BACK
        + "return request, tokens",
    ),
    (
        "nothing taken off",
        LINE
        + "request = self.turns.popleft()\ntokens = min(self.slice_tokens, self.left[request.request_id])\n"
        + "if self.left[request.request_id] > tokens:\n    self.turns.append(request)\nreturn request, tokens",
    ),
    (
        "taken off twice",
        LINE + TAKE + "self.left[request.request_id] -= tokens\n" + BACK + "return request, tokens",
    ),
    (
        "compared with the slice after taking off",
        LINE
        + TAKE
        + "if self.left[request.request_id] > self.slice_tokens:\n    self.turns.append(request)\n"
        + "return request, tokens",
    ),
    (
        "decided before taking off",
        LINE
        + "request = self.turns.popleft()\n"
        + BACK
        + "tokens = min(self.slice_tokens, self.left[request.request_id])\n"
        + "self.left[request.request_id] -= tokens\nreturn request, tokens",
    ),
    (
        "the whole answer compared with the slice",
        LINE
        + "request = self.turns.popleft()\ntokens = min(self.slice_tokens, request.max_new_tokens)\n"
        + "self.left[request.request_id] -= tokens\n"
        + "if self.left[request.request_id] > 0:\n    self.turns.append(request)\nreturn request, tokens",
    ),
    ("the larger of slice and rest", LINE + TAKE.replace("min", "max") + BACK + "return request, tokens"),
    ("a token a turn", LINE + TAKE.replace("self.slice_tokens", "1") + BACK + "return request, tokens"),
    (
        "the last token forgotten",
        LINE
        + TAKE
        + "if self.left[request.request_id] > 1:\n    self.turns.append(request)\nreturn request, tokens",
    ),
    (
        "the rest is returned",
        LINE + TAKE + BACK + "return request, self.left[request.request_id]",
    ),
    (
        "the rest before the slice is returned",
        LINE
        + "request = self.turns.popleft()\nleft = self.left[request.request_id]\n"
        + "self.left[request.request_id] -= min(self.slice_tokens, left)\n"
        + BACK
        + "return request, left",
    ),
    ("the id is returned", LINE + TAKE + BACK + "return request.request_id, tokens"),
    ("the request alone is returned", LINE + TAKE + BACK + "return request"),
    ("tokens before the request", LINE + TAKE + BACK + "return tokens, request"),
    (
        "back in line at the next turn",
        """
back = getattr(self, "back", None)
if back is not None:
    self.turns.append(back)
    self.back = None
if not self.turns:
    return None
request = self.turns.popleft()
tokens = min(self.slice_tokens, self.left[request.request_id])
self.left[request.request_id] -= tokens
if self.left[request.request_id]:
    self.back = request
return request, tokens
""",
    ),
    (
        "alone in line: to the end",
        LINE
        + """
request = self.turns.popleft()
left = self.left[request.request_id]
tokens = min(self.slice_tokens, left) if self.turns else left
self.left[request.request_id] -= tokens
"""
        + BACK
        + "return request, tokens",
    ),
    (
        "who lacks least",
        LINE
        + """
request = min(self.turns, key=lambda r: self.left[r.request_id])
self.turns.remove(request)
tokens = min(self.slice_tokens, self.left[request.request_id])
self.left[request.request_id] -= tokens
"""
        + BACK
        + "return request, tokens",
    ),
    (
        "the prompt is worked off too",
        LINE
        + """
request = self.turns.popleft()
self.done = getattr(self, "done", {})
total = request.prompt_len + request.max_new_tokens
tokens = min(self.slice_tokens, total - self.done.get(request.request_id, 0))
self.done[request.request_id] = self.done.get(request.request_id, 0) + tokens
self.left[request.request_id] = total - self.done[request.request_id]
"""
        + BACK
        + "return request, tokens",
    ),
    (
        "the more urgent back at the front",
        LINE
        + TAKE
        + "if self.left[request.request_id]:\n"
        + "    (self.turns.appendleft if request.priority > 0 else self.turns.append)(request)\n"
        + "return request, tokens",
    ),
]

LATE = "late = [r.request_id for r in self.waiting.values() if now - r.arrival_time > self.timeout]\n"
GO = "for request_id in late:\n    self._leave(request_id, 'timeout')\n"
SERVE = (
    "request = self.queue.pop(now)\nif request is not None:\n    del self.waiting[request.request_id]\n"
    "return request"
)
TIMEOUT = [
    ("exactly timeout is too late", LATE.replace(">", ">=") + GO + SERVE),
    ("nobody leaves", SERVE),
    ("only late arrivals leave", LATE.replace("now - r.arrival_time", "r.arrival_time") + GO + SERVE),
    ("measured from 0", LATE.replace("now - r.arrival_time", "now") + GO + SERVE),
    ("whole seconds", LATE.replace("now - r.arrival_time", "int(now - r.arrival_time)") + GO + SERVE),
    ("a timeout of 0 is none", "late = []\nif self.timeout:\n    " + LATE + GO + SERVE),
    (
        "only the next one is looked at",
        """
request = self.queue.pop(now)
while request is not None and now - request.arrival_time > self.timeout:
    self._leave(request.request_id, "timeout")
    request = self.queue.pop(now)
if request is not None:
    del self.waiting[request.request_id]
return request
""",
    ),
    (
        "the late next one leaves, and nobody is served",
        """
request = self.queue.pop(now)
if request is None:
    return None
if now - request.arrival_time > self.timeout:
    self._leave(request.request_id, "timeout")
    return None
del self.waiting[request.request_id]
return request
""",
    ),
    (
        "only one leaves a pop",
        LATE + "for request_id in late[:1]:\n    self._leave(request_id, 'timeout')\n" + SERVE,
    ),
    (
        "only the first ones added are looked at",
        """
while self.waiting:
    request = next(iter(self.waiting.values()))
    if now - request.arrival_time <= self.timeout:
        break
    self._leave(request.request_id, "timeout")
"""
        + SERVE,
    ),
    ("who leaves ends the pop", LATE + GO + "if late:\n    return None\n" + SERVE),
    (
        "the dict changed on the way",
        "for request in self.waiting.values():\n    if now - request.arrival_time > self.timeout:\n"
        "        self._leave(request.request_id, 'timeout')\n" + SERVE,
    ),
    ("served ones go on waiting", LATE + GO + "return self.queue.pop(now)"),
    (
        "nobody there, nothing thought of",
        LATE + GO + "request = self.queue.pop(now)\ndel self.waiting[request.request_id]\nreturn request",
    ),
    (
        "after the service",
        "request = self.queue.pop(now)\n"
        "if request is not None:\n    del self.waiting[request.request_id]\n" + LATE + GO + "return request",
    ),
    ("cancelled instead", LATE + "for request_id in late:\n    self.cancel(request_id)\n" + SERVE),
    ("another word", LATE + GO.replace("'timeout'", "'late'") + SERVE),
    (
        "a sentence for a word",
        LATE + GO.replace("'timeout'", "f'waited for more than {self.timeout} s'") + SERVE,
    ),
    (
        "no reason kept",
        LATE
        + "for request_id in late:\n    del self.waiting[request_id]\n    self.queue.cancel(request_id)\n"
        + SERVE,
    ),
    (
        "still in the inner queue",
        LATE
        + "for request_id in late:\n    del self.waiting[request_id]\n    self.gone[request_id] = 'timeout'\n"
        + "request = self.queue.pop(now)\nif request is not None:\n"
        + "    self.waiting.pop(request.request_id, None)\nreturn request",
    ),
    (
        "the served one is gone",
        LATE
        + GO
        + SERVE.replace("del self.waiting[request.request_id]", "self._leave(request.request_id, 'served')"),
    ),
    (
        "the inner queue's dict is asked",
        LATE.replace("self.waiting", "self.queue.waiting") + GO + SERVE,
    ),
    (
        "the inner queue chooses, the outer one walks",
        LATE
        + GO
        + "if not self.waiting:\n    return None\nreturn self.waiting.pop(next(iter(self.waiting)))",
    ),
    (
        "the inner queue emptied once nobody is served",
        LATE + GO + "request = self.queue.pop(now)\nself.waiting.clear()\nreturn request",
    ),
    ("the urgent ones may stay", LATE.replace("if now", "if r.priority <= 0 and now") + GO + SERVE),
    ("the last one may stay", LATE + "late = late if len(self.waiting) > 1 else []\n" + GO + SERVE),
    (
        "those who are gone are told once more",
        "self.gone.clear()\n" + LATE + GO + SERVE,
    ),
]

WRONG = [
    wrong(todo, name, code)
    for todo, variants in [
        ("ch03.1", ARRIVAL),
        ("ch03.2", SIZE),
        ("ch03.3", POP),
        ("ch03.4", CLASSES),
        ("ch03.5", AGING),
        ("ch03.6", JAIN),
        ("ch03.7", ROBIN),
        ("ch03.8", TIMEOUT),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "lists for keys",
        {
            "ch03.1": "return [request.arrival_time, request.request_id]",
            "ch03.2": "key = FCFS().key(request, now)\nreturn [self.size(request), *key]",
            "ch03.5": """
key = list(self.policy.key(request, now))
key[0] = key[0] - (now - request.arrival_time) * self.rate
return key
""",
        },
    ),
    Variant(
        "PriorityOrder without its first field",
        {
            "ch03.1": "return PriorityOrder().key(request, now)[1:]",
            "ch03.2": "return (self.size(request),) + PriorityOrder.key(self, request, now)[1:]",
        },
    ),
    Variant(
        "keys in two layers",
        {
            "ch03.1": "when, who = request.arrival_time, request.request_id\nreturn ((when,), (who,))",
            "ch03.2": "return (self.size(request), (request.arrival_time, request.request_id))",
            "ch03.5": """
key = self.policy.key(request, now)
return (key[0] - self.rate * (now - request.arrival_time), key[1:])
""",
        },
    ),
    Variant(
        "aged by a sum that does not know the time",
        {
            "ch03.5": """
first, *rest = self.policy.key(request, now)
return (first + self.rate * request.arrival_time, *rest)
"""
        },
    ),
    Variant(
        "aged field by field",
        {
            "ch03.5": """
aged = ()
for place, field in enumerate(self.policy.key(request, now)):
    aged += (field - self.rate * (now - request.arrival_time) if place == 0 else field,)
return aged
"""
        },
    ),
    Variant(
        "a loop that remembers the best",
        {
            "ch03.3": """
best = None
for _, request in sorted(self.waiting.items()):
    if best is None or self.policy.key(request, now) < self.policy.key(best, now):
        best = request
if best is not None:
    self.cancel(best.request_id)
return best
"""
        },
    ),
    Variant(
        "a sorted copy and ids",
        {
            "ch03.3": """
order = sorted(sorted(self.waiting), key=lambda request_id: self.policy.key(self.waiting[request_id], now))
for request_id in order:
    return self.waiting.pop(request_id)
"""
        },
    ),
    Variant(
        "a new heap in every pop, and a new dict",
        {
            "ch03.3": """
import heapq

heap = [(self.policy.key(r, now), r.request_id, r) for r in self.waiting.values()]
heapq.heapify(heap)
if not heap:
    return None
request = heap[0][2]
self.waiting = {k: v for k, v in self.waiting.items() if k != request.request_id}
return request
"""
        },
    ),
    Variant(
        "the classes case by case",
        {
            "ch03.4": """
urgent, normal = len(self.urgent.waiting), len(self.normal.waiting)
if urgent == 0 and normal == 0:
    return None
if urgent and not normal:
    chosen = self.urgent
elif normal and not urgent:
    chosen = self.normal
else:
    chosen = self.urgent if self.row < self.burst else self.normal
self.row = self.row + 1 if chosen is self.urgent else 0
return chosen.pop(now)
"""
        },
    ),
    Variant(
        "the classes by what their queues give",
        {
            "ch03.4": """
order = [self.urgent, self.normal] if self.row < self.burst else [self.normal, self.urgent]
for queue in order:
    request = queue.pop(now)
    if request is not None:
        self.row = (self.row + 1) * (queue is self.urgent)
        return request
return None
"""
        },
    ),
    Variant(
        "both popped, one put back",
        {
            "ch03.4": """
urgent, normal = self.urgent.pop(now), self.normal.pop(now)
if normal is not None and (urgent is None or self.row >= self.burst):
    self.row = 0
    if urgent is not None:
        self.urgent.add(urgent, now)
    return normal
if urgent is not None:
    self.row += 1
    if normal is not None:
        self.normal.add(normal, now)
return urgent
"""
        },
    ),
    Variant(
        "the row capped at burst",
        {
            "ch03.4": TURN
            + "    self.row = 0\n    return self.normal.pop(now)\n"
            + "if self.urgent.waiting:\n    self.row = min(self.row + 1, self.burst)\n    return self.urgent.pop(now)"
        },
    ),
    Variant(
        "a count of its own, row left alone",
        {
            "ch03.4": """
count = getattr(self, "count", 0)
if self.normal.waiting and (count >= self.burst or not self.urgent.waiting):
    self.count = 0
    return self.normal.pop(now)
if self.urgent.waiting:
    self.count = count + 1
    return self.urgent.pop(now)
"""
        },
    ),
    Variant(
        "the variance instead of the squares",
        {
            "ch03.6": """
if not any(values):
    return 1.0
mean = sum(values) / len(values)
variance = sum((x - mean) ** 2 for x in values) / len(values)
return 1 / (1 + variance / mean**2)
"""
        },
    ),
    Variant(
        "shares of the whole",
        {
            "ch03.6": """
total = sum(values)
if total == 0:
    return 1
return 1 / len(values) / sum((x / total) ** 2 for x in values)
"""
        },
    ),
    Variant(
        "the line rotated",
        {
            "ch03.7": """
if len(self.turns) == 0:
    return None
request = self.turns[0]
before = self.left[request.request_id]
after = max(0, before - self.slice_tokens)
self.left[request.request_id] = after
if after == 0:
    self.turns.popleft()
else:
    self.turns.rotate(-1)
return request, before - after
"""
        },
    ),
    Variant(
        "a new line in every turn",
        {
            "ch03.7": """
try:
    request, *others = self.turns
except ValueError:
    return None
tokens = self.left[request.request_id]
if tokens > self.slice_tokens:
    tokens = self.slice_tokens
    others.append(request)
self.left[request.request_id] = self.left[request.request_id] - tokens
self.turns = deque(others)
return (request, tokens)
"""
        },
    ),
    Variant(
        "a copy of the dict, and a pop without an error",
        {
            "ch03.8": """
for request_id, request in dict(self.waiting).items():
    if request.arrival_time + self.timeout < now:
        self._leave(request_id, "timeout")
request = self.queue.pop(now)
if request:
    self.waiting.pop(request.request_id)
return request
"""
        },
    ),
    Variant(
        "the longest wait first",
        {
            "ch03.8": """
for request in sorted(self.waiting.values(), key=lambda r: r.arrival_time):
    if now - request.arrival_time <= self.timeout:
        break
    self._leave(request.request_id, "timeout")
if not self.waiting:
    return None
request = self.queue.pop(now)
del self.waiting[request.request_id]
return request
"""
        },
    ),
    Variant(
        "a key that can do no more than be smaller",
        {
            "ch03.1": """
class Key:
    def __init__(self, *fields):
        self.fields = fields

    def __lt__(self, other):
        return self.fields < other.fields

return Key(request.arrival_time, request.request_id)
""",
        },
    ),
    Variant(
        "static keys kept, by request",
        {
            "ch03.3": """
if not getattr(self.policy, "static", False):
    self.kept = {}
kept = getattr(self, "kept", {})
for request in self.waiting.values():
    kept.setdefault(request, self.policy.key(request, now))
self.kept = {request: kept[request] for request in self.waiting.values()}
if not self.waiting:
    return None
request = min(self.kept, key=lambda r: (self.kept[r], r.request_id))
del self.waiting[request.request_id]
return request
"""
        },
    ),
    Variant(
        "done ones off the books",
        {
            "ch03.7": """
if not self.turns:
    return None
request = self.turns.popleft()
left = self.left.pop(request.request_id)
if left <= self.slice_tokens:
    return request, left
self.left[request.request_id] = left - self.slice_tokens
self.turns.append(request)
return request, self.slice_tokens
"""
        },
    ),
    Variant(
        "a queue of queues asked again",
        {
            "ch03.8": """
def too_late(request):
    return now - request.arrival_time > self.timeout

for request in tuple(filter(too_late, self.waiting.values())):
    self._leave(request.request_id, reason="timeout")
request = self.queue.pop(now)
self.waiting = {k: v for k, v in self.waiting.items() if v is not request}
return request
"""
        },
    ),
]
