"""Chapter 1 by a second author, who had read the learner's notebook and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def wrong(todo: str, name: str, code: str) -> Variant:
    """An answer that a learner could well write, and that is not right."""
    return Variant(name, {todo: code})


ENQUEUE = [
    (
        "lengths of the answer not checked",
        """
require_length("prompt_len", prompt_len)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "a falsy answer length counts as none",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "a finished request's id is free again",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
for r in self.queue:
    if r.request_id == request_id and not r.done:
        raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "only the latest id is compared",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if self.queue and self.queue[-1].request_id == request_id:
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "ids looked for on the timeline",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if request_id in [event["request_id"] for event in self.timeline]:
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "ids compared with is",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id is request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "ids have to grow",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if self.queue and request_id <= self.queue[-1].request_id:
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "id 0 refused like a length",
        """
require_length("request_id", request_id)
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "a negative priority refused",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if priority < 0 or any(r.request_id == request_id for r in self.queue):
    raise ValueError("bad request")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "appended, then looked at",
        """
req = RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens)
taken = [r.request_id for r in self.queue]
self.queue.append(req)
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if request_id in taken:
    raise ValueError("taken")
""",
    ),
    (
        "a taken id is passed over in silence",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    return
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "assert instead of ValueError for a taken id",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
assert all(r.request_id != request_id for r in self.queue), "taken"
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "lengths turned into integers first",
        """
require_length("prompt_len", int(prompt_len))
if max_new_tokens is not None:
    require_length("max_new_tokens", int(max_new_tokens))
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
new = None if max_new_tokens is None else int(max_new_tokens)
self.queue.append(RequestState(request_id, int(prompt_len), 0, "prefill", priority, cache_hit, new))
""",
    ),
    (
        "True is a length",
        """
for length in (prompt_len, 1 if max_new_tokens is None else max_new_tokens):
    if not isinstance(length, int) or length <= 0:
        raise ValueError("positive integers please")
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "TypeError for a length that is no number",
        """
for length in (prompt_len, 1 if max_new_tokens is None else max_new_tokens):
    if type(length) is not int:
        raise TypeError("integers please")
    if length < 1:
        raise ValueError("positive please")
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "arguments handed on by position",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "priority forgotten",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, cache_hit=cache_hit, max_new_tokens=max_new_tokens))
""",
    ),
    (
        "a cache hit has no prefill",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
phase = "decode" if cache_hit else "prefill"
self.queue.append(RequestState(request_id, prompt_len, 0, phase, priority, cache_hit, max_new_tokens))
""",
    ),
    (
        "the queue kept in the order of the keys",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
self.queue.sort(key=self._schedule_key)
""",
    ),
    (
        "the arrival noted on the timeline",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
self.timeline.append({"request_id": request_id, "action": "enqueue"})
""",
    ),
    (
        "finished requests swept out at the door",
        """
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue = [r for r in self.queue if not r.done]
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
""",
    ),
]

HEAD = """
phase = 0 if req.phase == "prefill" else 1
cache = 0 if req.cache_hit else 1
"""
KEY = [
    ("the lower priority first", HEAD + "return (phase, cache, req.priority, req.total_len, req.request_id)"),
    (
        "decode first",
        """
phase = 1 if req.phase == "prefill" else 0
return (phase, 0 if req.cache_hit else 1, -req.priority, req.total_len, req.request_id)
""",
    ),
    (
        "phases compared as words",
        "return (req.phase, not req.cache_hit, -req.priority, req.total_len, req.request_id)",
    ),
    (
        "True sorts after False",
        "return (int(req.phase == 'decode'), int(req.cache_hit), -req.priority, req.total_len, req.request_id)",
    ),
    ("prompt only", HEAD + "return (phase, cache, -req.priority, req.prompt_len, req.request_id)"),
    ("generated only", HEAD + "return (phase, cache, -req.priority, req.generated_len, req.request_id)"),
    (
        "tokens to come",
        HEAD
        + "left = req.target - req.generated_len\nreturn (phase, cache, -req.priority, left, req.request_id)",
    ),
    (
        "the length it will have",
        HEAD + "return (phase, cache, -req.priority, req.prompt_len + req.target, req.request_id)",
    ),
    ("the longer first", HEAD + "return (phase, cache, -req.priority, -req.total_len, req.request_id)"),
    ("priority before cache", HEAD + "return (phase, -req.priority, cache, req.total_len, req.request_id)"),
    (
        "priority before everything",
        HEAD + "return (-req.priority, phase, cache, req.total_len, req.request_id)",
    ),
    ("cache before phase", HEAD + "return (cache, phase, -req.priority, req.total_len, req.request_id)"),
    ("length before priority", HEAD + "return (phase, cache, req.total_len, -req.priority, req.request_id)"),
    (
        "the id before the length",
        HEAD + "return (phase, cache, -req.priority, req.request_id, req.total_len)",
    ),
    ("without the id", HEAD + "return (phase, cache, -req.priority, req.total_len)"),
    ("the later id first", HEAD + "return (phase, cache, -req.priority, req.total_len, -req.request_id)"),
    (
        "ids compared as words",
        HEAD + "return (phase, cache, -req.priority, req.total_len, str(req.request_id))",
    ),
    (
        "the place in the queue instead of the id",
        HEAD + "return (phase, cache, -req.priority, req.total_len, self.queue.index(req))",
    ),
    (
        "the cache counts in prefill only",
        """
phase = 0 if req.phase == "prefill" else 1
cache = 0 if req.cache_hit or phase == 1 else 1
return (phase, cache, -req.priority, req.total_len, req.request_id)
""",
    ),
    (
        "urgent or not, without degrees",
        HEAD + "return (phase, cache, 0 if req.priority > 0 else 1, req.total_len, req.request_id)",
    ),
    (
        "the inverse of the priority",
        HEAD + "return (phase, cache, 1 / (1 + req.priority), req.total_len, req.request_id)",
    ),
    (
        "everything added up with weights",
        HEAD + "return (phase * 10_000 + cache * 1_000 - req.priority * 100 + req.total_len, req.request_id)",
    ),
]

STEP = [
    (
        "finished requests take part",
        "if not self.queue:\n    return None\nreq = min(self.queue, key=self._schedule_key)",
    ),
    (
        "the largest key",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = max(active, key=self._schedule_key)
""",
    ),
    (
        "nothing active, nothing thought of",
        "req = min([r for r in self.queue if not r.done], key=self._schedule_key)",
    ),
    (
        "the queue sorted in place",
        """
self.queue.sort(key=self._schedule_key)
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = active[0]
""",
    ),
    (
        "finished requests thrown away",
        """
self.queue = [r for r in self.queue if not r.done]
if not self.queue:
    return None
req = min(self.queue, key=self._schedule_key)
""",
    ),
    (
        "taken out and put back at the end",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = min(active, key=self._schedule_key)
self.queue.remove(req)
self.queue.append(req)
""",
    ),
    (
        "first come, first served",
        """
req = next((r for r in self.queue if not r.done), None)
if req is None:
    return None
""",
    ),
    (
        "round robin",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = active[len(self.timeline) % len(active)]
""",
    ),
    (
        "once begun, served to the end",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
begun = [r for r in active if r.phase == "decode"]
req = min(begun or active, key=self._schedule_key)
""",
    ),
    (
        "decode in order of arrival",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
fresh = [r for r in active if r.phase == "prefill"]
req = min(fresh, key=self._schedule_key) if fresh else active[0]
""",
    ),
    (
        "the key of the day it came",
        """
self._keys = getattr(self, "_keys", {})
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = min(active, key=lambda r: self._keys.setdefault(r.request_id, self._schedule_key(r)))
""",
    ),
    (
        "sorted once, latecomers wait for the next round",
        """
batch = [r for r in getattr(self, "_batch", []) if not r.done]
if not batch:
    batch = [r for r in self.queue if not r.done]
if not batch:
    return None
self._batch = batch
req = min(batch, key=self._schedule_key)
""",
    ),
    (
        "never the same one twice in a row",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
last = self.timeline[-1]["request_id"] if self.timeline else None
others = [r for r in active if r.request_id != last]
req = min(others or active, key=self._schedule_key)
""",
    ),
    (
        "equal but for the id: the first in the queue",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = min(active, key=lambda r: self._schedule_key(r)[:-1])
""",
    ),
    (
        "done when as long as the prompt",
        """
active = [r for r in self.queue if r.generated_len < r.prompt_len]
if not active:
    return None
req = min(active, key=self._schedule_key)
""",
    ),
    (
        "max_new_tokens taken for a number",
        """
active = [r for r in self.queue if r.generated_len < r.max_new_tokens]
if not active:
    return None
req = min(active, key=self._schedule_key)
""",
    ),
    (
        "stops at the first finished request",
        """
if not self.queue or any(r.done for r in self.queue):
    return None
req = min(self.queue, key=self._schedule_key)
""",
    ),
    (
        "served twice",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = min(active, key=self._schedule_key)
self._advance(req)
""",
    ),
    (
        "an idle step goes on the timeline",
        """
active = [r for r in self.queue if not r.done]
if not active:
    self.timeline.append(None)
    return None
req = min(active, key=self._schedule_key)
""",
    ),
    (
        "an empty event for an idle step",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return {}
req = min(active, key=self._schedule_key)
""",
    ),
    (
        "the event recorded once more",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = min(active, key=self._schedule_key)
event = self._advance(req)
self.timeline.append(event)
return event
""",
    ),
]

NEGATIVE = 'if max_steps < 0:\n    raise ValueError("negative")\n'
RUN = [
    (
        "any bound will do",
        "for _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "a negative bound means no step",
        "if max_steps < 0:\n    return self.timeline\n"
        "for _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "zero refused",
        'if max_steps <= 0:\n    raise ValueError("no steps")\n'
        "for _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "zero means the default",
        NEGATIVE
        + "for _ in range(max_steps or 100):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "a copy",
        NEGATIVE
        + "for _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn list(self.timeline)",
    ),
    (
        "only this call's events",
        NEGATIVE
        + "events = []\nwhile len(events) < max_steps and (event := self.step()):\n    events.append(event)\nreturn events",
    ),
    (
        "the timeline begun anew",
        NEGATIVE
        + "self.timeline = []\nfor _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "the timeline emptied first",
        NEGATIVE
        + "self.timeline.clear()\nfor _ in range(max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "counts the whole timeline",
        NEGATIVE
        + "while len(self.timeline) < max_steps:\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "counts over all calls",
        NEGATIVE
        + """
self._steps = getattr(self, "_steps", 0)
while self._steps < max_steps and self.step() is not None:
    self._steps += 1
return self.timeline
""",
    ),
    (
        "one step too many",
        NEGATIVE
        + "for _ in range(max_steps + 1):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "one step too few",
        NEGATIVE
        + "for _ in range(1, max_steps):\n    if self.step() is None:\n        break\nreturn self.timeline",
    ),
    (
        "looks at the bound after the step",
        NEGATIVE
        + """
steps = 0
while self.step() is not None:
    steps += 1
    if steps >= max_steps:
        break
return self.timeline
""",
    ),
    ("no bound at all", NEGATIVE + "while self.step() is not None:\n    pass\nreturn self.timeline"),
    (
        "goes on when nothing is left",
        NEGATIVE + "for _ in range(max_steps):\n    self.step()\nreturn self.timeline",
    ),
    (
        "goes on while the queue holds anything",
        NEGATIVE
        + "steps = 0\nwhile self.queue and steps < max_steps:\n    self.step()\n    steps += 1\nreturn self.timeline",
    ),
    (
        "stops at the first finish",
        NEGATIVE
        + """
for _ in range(max_steps):
    event = self.step()
    if event is None or event["action"] == "finish":
        break
return self.timeline
""",
    ),
    (
        "counts tokens, not steps",
        NEGATIVE
        + """
tokens = 0
while tokens < max_steps:
    event = self.step()
    if event is None:
        break
    tokens += event["phase"] == "decode"
return self.timeline
""",
    ),
    (
        "an error when the bound is reached",
        NEGATIVE
        + """
for _ in range(max_steps):
    if self.step() is None:
        return self.timeline
if any(not r.done for r in self.queue):
    raise RuntimeError("not finished")
return self.timeline
""",
    ),
    (
        "refuses after the first step",
        """
self.step()
if max_steps < 0:
    raise ValueError("negative")
for _ in range(max_steps - 1):
    if self.step() is None:
        break
return self.timeline
""",
    ),
    (
        "puts the events on the timeline itself",
        NEGATIVE
        + """
for _ in range(max_steps):
    event = self.step()
    if event is None:
        break
    self.timeline.append(event)
return self.timeline
""",
    ),
    ("nothing returned", NEGATIVE + "for _ in range(max_steps):\n    if self.step() is None:\n        break"),
    (
        "nothing returned when it ends early",
        NEGATIVE
        + "for _ in range(max_steps):\n    if self.step() is None:\n        return\nreturn self.timeline",
    ),
]

POP = "if not self._heap:\n    return None\n"
FAST = [
    ("never pushed back", POP + "_, req = heapq.heappop(self._heap)\nreturn self._advance(req)"),
    (
        "pushed back with its old key",
        POP
        + "key, req = heapq.heappop(self._heap)\nevent = self._advance(req)\n"
        + "if not req.done:\n    heapq.heappush(self._heap, (key, req))\nreturn event",
    ),
    (
        "pushed back before it advances",
        POP
        + "_, req = heapq.heappop(self._heap)\nheapq.heappush(self._heap, (self._schedule_key(req), req))\n"
        + "return self._advance(req)",
    ),
    (
        "pushed back when done",
        POP
        + "_, req = heapq.heappop(self._heap)\nevent = self._advance(req)\n"
        + "heapq.heappush(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    (
        "the heap is never empty",
        "_, req = heapq.heappop(self._heap)\nevent = self._advance(req)\n"
        "if not req.done:\n    heapq.heappush(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    (
        "appended instead of pushed",
        POP
        + "_, req = heapq.heappop(self._heap)\nevent = self._advance(req)\n"
        + "if not req.done:\n    self._heap.append((self._schedule_key(req), req))\nreturn event",
    ),
    (
        "popped from the front of a list",
        POP
        + "_, req = self._heap.pop(0)\nevent = self._advance(req)\n"
        + "if not req.done:\n    heapq.heappush(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    (
        "popped from the end",
        POP
        + "_, req = self._heap.pop()\nevent = self._advance(req)\n"
        + "if not req.done:\n    heapq.heappush(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    (
        "sorted into what heappush has left",
        POP
        + "import bisect\n\n_, req = self._heap.pop(0)\nevent = self._advance(req)\n"
        + "if not req.done:\n    bisect.insort(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    ("the slow step again", "return super().step()"),
    (
        "the smallest looked for in the whole queue",
        """
active = [r for r in self.queue if not r.done]
if not active:
    return None
return self._advance(min(active, key=self._schedule_key))
""",
    ),
    (
        "a new heap in every step",
        """
self._heap = [(self._schedule_key(r), r) for r in self.queue if not r.done]
heapq.heapify(self._heap)
return self._advance(self._heap[0][1]) if self._heap else None
""",
    ),
    (
        "served to the end at once",
        POP
        + "_, req = heapq.heappop(self._heap)\nwhile not req.done:\n    event = self._advance(req)\nreturn event",
    ),
    (
        "a key without the id",
        POP
        + "_, req = heapq.heappop(self._heap)\nevent = self._advance(req)\n"
        + "if not req.done:\n    heapq.heappush(self._heap, (self._schedule_key(req)[:4], req))\nreturn event",
    ),
    (
        "the finished one leaves the queue",
        POP
        + "_, req = heapq.heappop(self._heap)\nevent = self._advance(req)\n"
        + "if req.done:\n    self.queue.remove(req)\n"
        + "else:\n    heapq.heappush(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    (
        "the event recorded once more",
        POP
        + "_, req = heapq.heappop(self._heap)\nevent = self._advance(req)\nself.timeline.append(event)\n"
        + "if not req.done:\n    heapq.heappush(self._heap, (self._schedule_key(req), req))\nreturn event",
    ),
    (
        "nothing returned",
        POP
        + "_, req = heapq.heappop(self._heap)\nself._advance(req)\n"
        + "if not req.done:\n    heapq.heappush(self._heap, (self._schedule_key(req), req))",
    ),
]

WRONG = [
    wrong(todo, name, code)
    for todo, variants in [
        ("ch01.1", ENQUEUE),
        ("ch01.2", KEY),
        ("ch01.3", STEP),
        ("ch01.4", RUN),
        ("ch01.5", FAST),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "truth values for ranks",
        {
            "ch01.2": "return (req.phase != 'prefill', not req.cache_hit, -req.priority, "
            "req.prompt_len + req.generated_len, req.request_id)"
        },
    ),
    Variant(
        "an error class of its own, checks by hand",
        {
            "ch01.1": """
class BadRequest(ValueError):
    pass

lengths = [prompt_len] if max_new_tokens is None else [prompt_len, max_new_tokens]
for length in lengths:
    if type(length) is not int or length <= 0:
        raise BadRequest(f"not a length: {length!r}")
for req in self.queue:
    if req.request_id == request_id:
        raise BadRequest(f"{request_id} is taken")
self.queue += [
    RequestState(
        request_id=request_id,
        prompt_len=prompt_len,
        priority=priority,
        cache_hit=cache_hit,
        max_new_tokens=max_new_tokens,
    )
]
"""
        },
    ),
    Variant(
        "None resolved at the door",
        {
            "ch01.1": """
require_length("prompt_len", prompt_len)
if max_new_tokens is None:
    max_new_tokens = prompt_len
require_length("max_new_tokens", max_new_tokens)
if request_id in {r.request_id for r in self.queue}:
    raise ValueError("taken")
self.queue.append(RequestState(request_id, prompt_len, 0, "prefill", priority, cache_hit, max_new_tokens))
"""
        },
    ),
    Variant(
        "sorted copies and an early return",
        {
            "ch01.3": """
for candidate in sorted(self.queue, key=self._schedule_key):
    if not candidate.done:
        return self._advance(candidate)
return None
""",
            "ch01.4": """
if not max_steps >= 0:
    raise ValueError("max_steps")
while max_steps and self.step():
    max_steps -= 1
return self.timeline
""",
        },
    ),
    Variant(
        "a loop that remembers the best",
        {
            "ch01.3": """
req = None
for other in reversed(self.queue):
    if other.generated_len == other.target:
        continue
    if req is None or self._schedule_key(other) < self._schedule_key(req):
        req = other
if req is None:
    return None
""",
            "ch01.2": """
key = []
key.append({"prefill": 0, "decode": 1}[req.phase])
key.append({True: 0, False: 1}[req.cache_hit])
key.append(0 - req.priority)
key.append(req.total_len)
key.append(req.request_id)
return tuple(key)
""",
        },
    ),
    Variant(
        "a mix of iterators",
        {
            "ch01.3": """
req = min((r for r in self.queue if not r.done), key=self._schedule_key, default=None)
if req is None:
    return
""",
            "ch01.4": """
from itertools import islice

if max_steps < 0:
    raise ValueError("max_steps must not be negative")
for _ in islice(iter(self.step, None), max_steps):
    pass
return self.timeline
""",
        },
    ),
    Variant(
        "heapreplace at the top",
        {
            "ch01.5": """
try:
    req = self._heap[0][1]
except IndexError:
    return None
event = self._advance(req)
if req.done:
    heapq.heappop(self._heap)
else:
    heapq.heapreplace(self._heap, (self._schedule_key(req), req))
return event
"""
        },
    ),
    Variant(
        "the finished ones left to be popped later",
        {
            "ch01.5": """
while self._heap:
    key, req = heapq.heappop(self._heap)
    if not req.done:
        event = self._advance(req)
        heapq.heappush(self._heap, (self._schedule_key(req), req))
        return event
"""
        },
    ),
]
