"""What the course's scheduler decides, worked out anew for each step by plain book-keeping.

An oracle independent of every answer: it knows the books (what was decided before) and counts, it keeps no
queue, no block and no cursor of its own. Chapter 4's rules are chapter 7's with one piece a prompt and no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from decodelab.check.rules import Finding
from decodelab.check.schedule.books import Books, Entry, broken, ids
from decodelab.contract import Plan
from decodelab.request import Request, RequestId

Key = Callable[[Request, float], Any]


def arrival_order(request: Request, now: float) -> tuple[float, RequestId]:
    """First come, first served."""
    return (request.arrival_time, request.request_id)


def priority_order(request: Request, now: float) -> tuple[int, float, RequestId]:
    """The higher priority, then who came first."""
    return (-request.priority, request.arrival_time, request.request_id)


def vllm_priority(request: Request, now: float) -> tuple[int, float]:
    """vLLM's: its victim rule does not look at ids, so of equal ones the first admitted is preempted."""
    return (-request.priority, request.arrival_time)


def patience(request: Request, now: float) -> tuple[bool, float, RequestId]:
    """Whoever has waited ``priority`` seconds goes before all others: an order that time changes."""
    return (now - request.arrival_time < request.priority, request.arrival_time, request.request_id)


# By the name of the policy class in the student's notebook, or in what a check loads beside it.
KEYS: dict[str, Key] = {
    "FCFS": arrival_order,
    "PriorityOrder": priority_order,
    "VllmPriority": vllm_priority,
    "Patience": patience,
}


@dataclass
class Decision:
    """Who is scheduled, in order, and who is preempted."""

    scheduled: dict[RequestId, int] = field(default_factory=dict)
    preempted: list[RequestId] = field(default_factory=list)


def decide(books: Books, key: Key, now: float) -> Decision:
    """The decision that is due now."""
    return _Step(books, key, now).decision()


class _Step:
    def __init__(self, books: Books, key: Key, now: float) -> None:
        self.books, self.config, self.key, self.now = books, books.config, key, now
        self.running = [books.entries[i] for i in books.running]
        self.made = Decision()
        # Blocks that each holds after this step as far as it is decided.
        self.held = {id(e): self.blocks(e.computed) for e in self.running}

    def decision(self) -> Decision:
        alone = len(self.books.entries) == 1
        cap = self.config.long_prefill_token_threshold
        self.cap = cap if cap and not alone else self.config.max_num_batched_tokens
        self.serve_running()
        if not self.made.preempted:
            self.let_in()
        return self.made

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.config.block_size)

    def free(self) -> float:
        if self.config.num_blocks is None:
            return float("inf")
        return self.config.num_blocks - sum(self.held.values())

    def left(self) -> int:
        return self.config.max_num_batched_tokens - sum(self.made.scheduled.values())

    def serve_running(self) -> None:
        for entry in list(self.running):
            if entry not in self.running:
                continue  # preempted for one before it
            wanted = entry.num_tokens - entry.computed
            room = (self.config.max_model_len or entry.num_tokens + 1) - entry.computed - 1
            count = min(wanted, self.cap if wanted > 1 else 1, self.left(), max(room, 1))
            if count < 1:
                return
            if self.make_room(entry, self.blocks(entry.computed + count)):
                self.held[id(entry)] = self.blocks(entry.computed + count)
                self.made.scheduled[entry.request.request_id] = count

    def make_room(self, entry: Entry, need: int) -> bool:
        """Preempt until ``entry`` can hold ``need`` blocks; False where it was its own victim."""
        while need - self.held[id(entry)] > self.free():
            victim = max(self.running, key=lambda e: self.key(e.request, self.now))  # the first of equal ones
            self.running.remove(victim)
            del self.held[id(victim)]
            self.made.scheduled.pop(victim.request.request_id, None)
            self.made.preempted.append(victim.request.request_id)
            if victim is entry:
                return False
        return True

    def let_in(self) -> None:
        order = sorted(
            self.books.waiting(), key=lambda e: (self.key(e.request, self.now), e.request.request_id)
        )
        for entry in order:
            if len(self.running) >= self.config.max_num_seqs or self.left() < 1:
                return
            count = min(entry.num_tokens, self.cap)
            if not self.config.enable_chunked_prefill and count > self.left():
                return
            count = min(count, self.left())
            config = self.config
            spare = int(config.watermark * (config.num_blocks or 0)) if self.running else 0
            whole = entry.num_tokens if config.reserve_full_prompt else count
            if self.blocks(whole) + spare > self.free():
                return
            self.running.append(entry)
            self.held[id(entry)] = self.blocks(count)
            self.made.scheduled[entry.request.request_id] = count


def decides_as(key: Key) -> Callable[[Books, Plan], Finding | None]:
    """The rule that a plan is the one that is due."""

    def rule(books: Books, plan: Plan) -> Finding | None:
        return difference(books, plan, decide(books, key, books.now))

    return rule


def difference(books: Books, got: Plan, want: Decision) -> Finding | None:
    """Where a plan parts from the decision that is due, and which rule of the text says so."""
    if got.preempted != want.preempted:
        return _preempted(books, got, want)
    if list(got.scheduled.items()) == list(want.scheduled.items()):
        return None
    missing = [i for i in want.scheduled if i not in got.scheduled]
    extra = [i for i in got.scheduled if i not in want.scheduled]
    if stalled := [i for i in missing if books.entries[i].running]:
        rule, en, zh = (
            "serves-the-running",
            f"{ids(stalled)} is running and can go on, but gets no tokens in this step",
            f"{ids(stalled)} 正在运行，也能继续，这一步却没有得到 token",
        )
    elif extra and missing:
        rule, en, zh = (
            "next-in-line",
            f"{ids(missing)} is next in line, but {ids(extra)} was let in",
            f"轮到的是 {ids(missing)}，放进来的却是 {ids(extra)}",
        )
    elif missing:
        paged = books.config.num_blocks is not None
        rule, en, zh = (
            "fills-free-slots",
            f"there is a slot{', budget and memory' if paged else ' and budget'} for {ids(missing)}, but it goes on waiting",
            f"{'空位、预算和显存' if paged else '空位和预算'}都够，{ids(missing)} 却还在等",
        )
    elif extra:
        rule, en, zh = (
            "head-of-line",
            f"{ids(extra)} must wait in this step: {'nobody is let in after a preemption' if want.preempted else 'nobody is let in past one that does not fit'}",
            f"{ids(extra)} 这一步应当等待：{'发生了抢占的这一步不再放人进来' if want.preempted else '排在前面的放不下，后面的不能越过它'}",
        )
    elif wrong := [i for i, n in want.scheduled.items() if got.scheduled[i] != n]:
        rule, en, zh = (
            "how-many-tokens",
            f"{wrong[0]} must get {want.scheduled[wrong[0]]} tokens in this step, not {got.scheduled[wrong[0]]}",
            f"{wrong[0]} 这一步应当得到 {want.scheduled[wrong[0]]} 个 token，而不是 {got.scheduled[wrong[0]]} 个",
        )
    else:
        rule, en, zh = (
            "batch-order",
            f"the order in the batch must be {list(want.scheduled)}: the running in order of admission, then the new ones, the next in line first",
            f"批内次序应当是 {list(want.scheduled)}：先是正在运行的（按准入次序），然后是新来的（按策略，该先来的在前）",
        )
    return broken(
        books,
        rule,
        f"Step {len(books.history)}: {en}.",
        f"第 {len(books.history)} 步：{zh}。",
        got,
        want.scheduled,
        hint=2,
    )


def _preempted(books: Books, got: Plan, want: Decision) -> Finding:
    step = len(books.history)
    if not want.preempted:
        rule, en, zh = (
            "preempts-only-when-full",
            f"{ids(got.preempted)} was preempted, though there are blocks for everybody who runs",
            f"{ids(got.preempted)} 被抢占了，可是正在运行的请求都有块可用",
        )
    elif not got.preempted:
        rule, en, zh = (
            "preempts-when-full",
            f"there are no blocks left for who runs, so {ids(want.preempted)} must be preempted",
            f"正在运行的请求已经没有块可用，应当抢占 {ids(want.preempted)}",
        )
    else:
        rule, en, zh = (
            "victim",
            f"the victim must be {ids(want.preempted)}, not {ids(got.preempted)}",
            f"被抢占的应当是 {ids(want.preempted)}，而不是 {ids(got.preempted)}",
        )
    return broken(books, rule, f"Step {step}: {en}.", f"第 {step} 步：{zh}。", got, want.scheduled, hint=2)
