"""TODOs 4 and 6: what a preemption changes, with and without a copy in host memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# ``rows``: [request_id, prompt_len, generated, tokens of this step (0: not scheduled yet)], in order of admission.
# 900 was preempted earlier in this step; where the host holds it, the plan copies it there.
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
            start = plan.start[request_id] = seq.num_tokens - count
            plan.scheduled[request_id] = count
            if kv.block_size * len(kv.tables[request_id]) - start >= kv.block_size:  # the table has grown
                plan.block_tables[request_id] = list(kv.tables[request_id])
        scheduler.running.append(seq)
    for request_id in case["waiting"]:
        scheduler.waiting.push(Sequence(Request(request_id, 0.0, 1, 1)), 0.0)
    for request_id, num_tokens in case["in_host"]:
        host.allocate(request_id, num_tokens)
    if 900 in host.tables:
        plan.swap_out[900] = [(block, there) for block, there in enumerate(host.tables[900])]
    return scheduler, plan


def copies(plan):
    return {key: list(map(list, pairs)) for key, pairs in plan.swap_out.items()}


def thrown_out(name, case):
    scheduler, plan = scheduler_of(case)
    kv, host = scheduler.kv, scheduler.host
    seq = next(s for s in scheduler.running if s.request_id == case["victim"])
    table, copied = list(kv.tables[seq.request_id]), copies(plan)
    returned = globals()[name](scheduler, seq, plan, 7.0)
    return {
        "table": table,
        "running": [s.request_id for s in scheduler.running],
        "waiting": [s.request_id for s in scheduler.waiting.ordered(7.0)],
        "tables": sorted(kv.tables),
        "num_free": kv.num_free,
        "num_tokens": seq.num_tokens,
        "num_computed_tokens": seq.num_computed_tokens,
        "preempted": seq.preempted,
        "told": plan.preempted,
        "scheduled": list(plan.scheduled),
        "start": list(plan.start),
        "block_tables": list(plan.block_tables),
        "rest": [name for name in ("new", "resumed", "cached", "dropped", "swap_in", "copy") if getattr(plan, name)],
        "copied": copied,
        "swap_out": copies(plan),
        "host": {key: list(blocks) for key, blocks in host.tables.items()},
        "host_free": host.num_free,
        "returned": returned,
    }
"""

WORDS = {  # rule: what is asked for, in both languages
    "leaves-running": ("scheduler.running must be {want}", "scheduler.running 应当是 {want}"),
    "frees-its-blocks": (
        "its blocks must be free, each once: {want} of {num_blocks} blocks are free then",
        "它的块应当全部空闲，每块一次：{num_blocks} 块里空闲 {want} 块",
    ),
    "frees-its-blocks/table": (
        "its block table must be gone, and nobody else's: kv.tables must have {want}",
        "它的块表应当没有了，别人的还在：kv.tables 里应当是 {want}",
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
        "plan.{field} must have no entry of it, and keep those of others: {want}",
        "plan.{field} 里不应当再有它，别人的还在：{want}",
    ),
    "changes-no-more": (
        "every other field of the plan stays as it was, here empty: none may be filled",
        "计划的其他字段都不变，这里都是空的：一个也不应当有内容",
    ),
    "copies-what-is-computed": (
        "plan.swap_out must pair the blocks of its computed tokens with its blocks in the host, and keep what it had: {want}",
        "plan.swap_out 应当把已算 token 的块和它在主机里的块一一配对，原有的也保留：{want}",
    ),
    "copies-what-is-computed/not": (
        "plan.swap_out must stay {want}, {stays}",
        "plan.swap_out 应当还是 {want}，{stays_zh}",
    ),
    "host-holds-it": (
        "{computed} computed tokens take {need} host blocks, so {want} of {host_blocks} stay free",
        "{computed} 个已算的 token 占 {need} 个主机块，所以 {host_blocks} 块里还空闲 {want} 块",
    ),
    "host-holds-it/not": (
        "the host must have {want} free blocks as before, {stays}",
        "主机应当还是空闲 {want} 块，{stays_zh}",
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
    probe = student.apart(PRELUDE + THROW, "Sequence", "BlockManager", "WaitingQueue", name)
    told = probe.call("thrown_out", name, case)
    got = told if isinstance(told, dict) else {}
    swaps = name == "swap_out"
    for rule, field, want in due(case, got, swaps):
        if got.get(field) != want or type(got.get(field)) is not type(want):
            facts = case | host_facts(case, swaps) | {"want": want, "field": field}
            en, zh = (words.format(**facts) for words in WORDS[rule])
            call = f"{name}(scheduler, victim, plan, now)"
            return finding(
                rule.split("/")[0],
                f"After {call} with request {case['victim']}: {en}; it is {got.get(field)!r}.",
                f"对请求 {case['victim']} 执行 {call} 之后：{zh}；现在是 {got.get(field)!r}。",
                hint=2,
            )
    return None


def row_of(case: Case) -> tuple[int, int, int]:
    """The victim's tokens, those that are computed, and those of this step."""
    _, prompt, generated, count = next(row for row in case["rows"] if row[0] == case["victim"])
    has = prompt + generated
    return has, has - count if count else has - 1, count


def host_facts(case: Case, swaps: bool) -> dict[str, Any]:
    """What the host has and is asked for; ``saved``: whether the victim goes there."""
    size, (_, computed, _) = case["block_size"], row_of(case)
    need, free = (
        blocks(computed, size),
        case["host_blocks"] - sum(blocks(n, size) for _, n in case["in_host"]),
    )
    full = (
        f"since the host is too full ({need} of its blocks are needed, {free} are free)",
        f"因为主机放不下（要 {need} 块，只空闲 {free} 块）",
    )
    stays, stays_zh = full if swaps else ("since nothing is swapped here", "因为这里什么都不换出")
    return {
        "computed": computed,
        "need": need,
        "free": free,
        "saved": swaps and need <= free,
        "stays": stays,
        "stays_zh": stays_zh,
    }


def due(case: Case, got: dict[str, Any], swaps: bool) -> Iterator[tuple[str, str, Any]]:
    """(rule, field, value) of all that must hold afterwards; behind a slash: which words of the rule."""
    size, victim = case["block_size"], case["victim"]
    others = [row for row in case["rows"] if row[0] != victim]
    (has, _, count), ids = row_of(case), [row[0] for row in others]
    held = sum(blocks(row[1] + row[2] - (not row[3]), size) for row in others)
    yield "leaves-running", "running", ids
    yield "keeps-its-tokens", "num_tokens", has
    yield "frees-its-blocks/table", "tables", sorted(ids)
    yield "frees-its-blocks", "num_free", case["num_blocks"] - held
    yield from due_in_host(case, got, swaps)
    yield "marks-it", "preempted", True
    yield "waits-again", "waiting", sorted([*case["waiting"], victim])
    yield "tells-preempted", "told", [900, victim]
    yield "out-of-the-plan", "scheduled", [row[0] for row in others if row[3]]
    yield "out-of-the-plan", "start", [row[0] for row in others if row[3]]
    yield "out-of-the-plan", "block_tables", [row[0] for row in others if grown(row, size)]
    yield "changes-no-more", "rest", []
    yield "gives-its-budget-back", "returned", count


def due_in_host(case: Case, got: dict[str, Any], swaps: bool) -> Iterator[tuple[str, str, Any]]:
    """As ``due``: where the computed tokens are."""
    facts, victim = host_facts(case, swaps), case["victim"]
    need, free = facts["need"], facts["free"]
    tables, copied = (got[n] if isinstance(got.get(n), dict) else {} for n in ("host", "copied"))
    if facts["saved"]:
        yield "host-holds-it", "host_free", free - need
        pairs = zip(
            items(listed(got.get("table"))[:need], need), items(tables.get(victim, []), need), strict=True
        )
        yield "copies-what-is-computed", "swap_out", copied | {victim: [list(pair) for pair in pairs]}
        yield "keeps-what-is-computed", "num_computed_tokens", facts["computed"]
    else:
        yield "host-holds-it/not", "host_free", free
        yield "copies-what-is-computed/not", "swap_out", copied
        yield "computes-again", "num_computed_tokens", 0


def grown(row: list[int], size: int) -> bool:
    """Whether this step has given it a block: then the plan tells its table."""
    has, count = row[1] + row[2], row[3]
    return count > 0 and blocks(has - count, size) < blocks(has, size)


def blocks(tokens: int, size: int) -> int:
    """Blocks for so many tokens."""
    return -(-tokens // size)
