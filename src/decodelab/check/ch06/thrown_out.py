"""TODOs 4 and 6: what a preemption changes, with and without a copy in host memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# ``rows``: [request_id, prompt_len, generated, tokens of this step (0: not scheduled yet)], in order of admission.
# 900 was preempted earlier in this step.
THROW = """
from types import SimpleNamespace


def scheduler_of(case):
    kv, host = (BlockManager(case[n], case["block_size"]) for n in ("num_blocks", "host_blocks"))
    scheduler = SimpleNamespace(kv=kv, host=host, running=[], waiting=WaitingQueue(FCFS()))
    plan = Plan(preempted=[900])
    for request_id, prompt_len, generated, count in case["rows"]:
        seq = Sequence(Request(request_id, 0.0, prompt_len, 99))
        seq.num_tokens += generated
        seq.num_computed_tokens = seq.num_tokens if count else seq.num_tokens - 1
        kv.allocate(request_id, seq.num_computed_tokens)
        if count:
            plan.scheduled[request_id], plan.start[request_id] = count, seq.num_tokens - count
            plan.block_tables[request_id] = list(kv.tables[request_id])
        scheduler.running.append(seq)
    for request_id in case["waiting"]:
        scheduler.waiting.push(Sequence(Request(request_id, 0.0, 1, 1)), 0.0)
    for request_id, num_tokens in case["in_host"]:
        host.allocate(request_id, num_tokens)
    return scheduler, plan


def thrown_out(name, case):
    scheduler, plan = scheduler_of(case)
    kv, host = scheduler.kv, scheduler.host
    seq = next(s for s in scheduler.running if s.request_id == case["victim"])
    table = list(kv.tables[seq.request_id])
    returned = globals()[name](scheduler, seq, plan, 7.0)
    return {
        "table": table,
        "running": [s.request_id for s in scheduler.running],
        "waiting": [s.request_id for s in scheduler.waiting.ordered(7.0)],
        "blocks": [sorted(kv.tables), kv.num_free],
        "num_tokens": seq.num_tokens,
        "num_computed_tokens": seq.num_computed_tokens,
        "preempted": seq.preempted,
        "told": plan.preempted,
        "plan": [list(plan.scheduled), list(plan.start), list(plan.block_tables)],
        "swap_out": {key: list(map(list, pairs)) for key, pairs in plan.swap_out.items()},
        "host": {key: list(blocks) for key, blocks in host.tables.items()},
        "host_free": host.num_free,
        "returned": returned,
    }
"""

WORDS = {  # rule: what is asked for, in both languages
    "leaves-running": ("scheduler.running must be {want}", "scheduler.running 应当是 {want}"),
    "frees-its-blocks": (
        "its blocks must be free, each once: tables of {want[0]} and {want[1]} free blocks",
        "它的块应当全部空闲，每块一次：剩下 {want[0]} 的块表，空闲 {want[1]} 块",
    ),
    "keeps-its-tokens": (
        "it keeps what it generated: num_tokens must be {want}",
        "已生成的 token 要保留：num_tokens 应当是 {want}",
    ),
    "computes-again": (
        "its memory is gone: num_computed_tokens must be {want}",
        "显存没有了：num_computed_tokens 应当是 {want}",
    ),
    "keeps-what-is-computed": (
        "{want} of its tokens are safe in host memory: num_computed_tokens must be {want}",
        "有 {want} 个 token 已保存在主机内存里：num_computed_tokens 应当是 {want}",
    ),
    "marks-it": ("its preempted must be {want}", "它的 preempted 应当是 {want}"),
    "waits-again": (
        "it must wait again, in its place: {want}",
        "它应当重新排队，排在该排的位置：{want}",
    ),
    "tells-preempted": ("plan.preempted must be {want}", "plan.preempted 应当是 {want}"),
    "out-of-the-plan": (
        "it must be in none of plan.scheduled, plan.start and plan.block_tables: {want}",
        "plan.scheduled、plan.start、plan.block_tables 里都不应当再有它：{want}",
    ),
    "copies-what-is-computed": (
        "plan.swap_out must pair the blocks of its computed tokens with its blocks in the host: {want}",
        "plan.swap_out 应当把已算 token 的块和它在主机里的块一一配对：{want}",
    ),
    "host-holds-it": (
        "it must hold as many host blocks as its computed tokens need, and nobody else's: {want}",
        "它占的主机块应当正好放下已算的 token，也不能动别人的：{want}",
    ),
    "gives-its-budget-back": (
        "it must return {want}, its tokens of this step",
        "应当返回 {want}，也就是它在这一步的 token 数",
    ),
}


def check_preempt(student: Student, case: Case) -> Finding | None:
    """One running sequence loses its memory."""
    return thrown_out(student, case, "preempt")


def check_swap_out(student: Student, case: Case) -> Finding | None:
    """One running sequence moves to host memory, or loses its memory where there is no room."""
    return thrown_out(student, case, "swap_out")


def thrown_out(student: Student, case: Case, name: str) -> Finding | None:
    """The first thing that is not as it must be afterwards."""
    if case["victim"] not in [row[0] for row in case["rows"]]:
        return None  # shrunk to nobody
    student.load("check", PRELUDE + THROW)
    got = student.call("thrown_out", name, case)
    for rule, field, want in due(case, got, name == "swap_out"):
        if got[field] != want or type(got[field]) is not type(want):
            en, zh = (words.format(want=want) for words in WORDS[rule])
            call = f"{name}(scheduler, seq, plan, now)"
            return finding(
                rule,
                f"After {call} with request {case['victim']}: {en}; it is {got[field]!r}.",
                f"对请求 {case['victim']} 执行 {call} 之后：{zh}；现在是 {got[field]!r}。",
                hint=2,
            )
    return None


def due(case: Case, got: dict[str, Any], swaps: bool) -> Iterator[tuple[str, str, Any]]:
    """(rule, field, value) of all that must hold afterwards."""
    size, victim = case["block_size"], case["victim"]
    others = [row for row in case["rows"] if row[0] != victim]
    _, prompt, generated, count = next(row for row in case["rows"] if row[0] == victim)
    has, ids = prompt + generated, [row[0] for row in others]
    computed = has - count if count else has - 1
    held = sum(blocks(row[1] + row[2] - (not row[3]), size) for row in others)
    host = {request_id: blocks(tokens, size) for request_id, tokens in case["in_host"]}
    free = case["host_blocks"] - sum(host.values())
    saved = swaps and blocks(computed, size) <= free
    yield "leaves-running", "running", ids
    yield "keeps-its-tokens", "num_tokens", has
    yield "frees-its-blocks", "blocks", [sorted(ids), case["num_blocks"] - held]
    if saved:
        yield "host-holds-it", "host_free", free - blocks(computed, size)
        pairs = zip(got["table"], got["host"].get(victim, []), strict=False)
        moved = [list(pair) for pair in pairs][: blocks(computed, size)]
        yield "copies-what-is-computed", "swap_out", {victim: moved}
        yield "keeps-what-is-computed", "num_computed_tokens", computed
    else:
        yield "host-holds-it", "host_free", free
        yield "copies-what-is-computed", "swap_out", {}
        yield "computes-again", "num_computed_tokens", 0
    yield "marks-it", "preempted", True
    yield "waits-again", "waiting", sorted([*case["waiting"], victim])
    yield "tells-preempted", "told", [900, victim]
    told = [row[0] for row in others if row[3]]
    yield "out-of-the-plan", "plan", [told, told, told]
    yield "gives-its-budget-back", "returned", count


def blocks(tokens: int, size: int) -> int:
    """Blocks for so many tokens."""
    return -(-tokens // size)
