"""The rules that every plan meets, whatever its scheduler's policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from decodelab.check.rules import Finding
from decodelab.check.schedule.books import Books, broken, ids
from decodelab.contract import Plan
from decodelab.request import RequestId

PlanRule: TypeAlias = "Callable[[Books, Plan], Finding | None]"


def known_requests(books: Books, plan: Plan) -> Finding | None:
    """Whoever a plan names is active."""
    named = [*plan.scheduled, *plan.start, *plan.new, *plan.resumed, *plan.preempted, *plan.dropped]
    strangers = [i for i in named if i not in books.entries]
    if not strangers:
        return None
    return broken(
        books,
        "only-active-requests",
        f"The plan names {ids(strangers)}: finished, aborted, refused or never added. Only active requests can be in a plan.",
        f"计划里出现了 {ids(strangers)}：它已经结束、已取消、被拒绝，或者从未加入。计划里只能有活跃的请求。",
        plan,
    )


def positions(books: Books, plan: Plan) -> Finding | None:
    """Each request goes on where it stopped, by at least one token and by no more than it has."""
    if list(plan.start) != list(plan.scheduled):
        return broken(
            books,
            "start-for-each",
            f"plan.start must name the requests of plan.scheduled, in the same order: {ids(list(plan.scheduled))}.",
            f"plan.start 和 plan.scheduled 里的请求必须相同，次序也相同：{ids(list(plan.scheduled))}。",
            plan,
            hint=0,
        )
    for request_id, count in plan.scheduled.items():
        entry, start = books.entries[request_id], plan.start[request_id]
        due = 0 if request_id in plan.preempted else entry.computed
        if start != due + plan.cached.get(request_id, 0):
            return broken(
                books,
                "goes-on-where-it-stopped",
                *(
                    served_twice(request_id)
                    if not count and not entry.running
                    else elsewhere(request_id, due, start)
                ),
                plan,
                hint=1 if count else 2,
            )
        if count < 1:
            return broken(
                books,
                "at-least-one-token",
                f"Request {request_id} is scheduled with {count} tokens; who has nothing to do is left out of the plan.",
                f"请求 {request_id} 被安排了 {count} 个 token；没有活可干的请求不该写进计划。",
                plan,
            )
        if start + count > entry.num_tokens:
            return broken(
                books,
                "no-more-than-it-has",
                f"Request {request_id} has {entry.num_tokens} tokens (prompt and generated); the plan computes "
                f"{count} from position {start} on.",
                f"请求 {request_id} 一共只有 {entry.num_tokens} 个 token（提示词加已生成）；计划却要从位置 {start} 起算 {count} 个。",
                plan,
            )
    return None


def served_twice(request_id: RequestId) -> tuple[str, str]:
    """Of one that came in with this plan: nothing was left to compute when it was entered again."""
    return (
        f"Request {request_id} gets 0 tokens: it was served twice in this step; letting it in serves it already.",
        f"请求 {request_id} 得到 0 个 token：它在这一步里被服务了两遍；放它进来的时候，就已经服务过了。",
    )


def elsewhere(request_id: RequestId, due: int, start: int) -> tuple[str, str]:
    """Of one that does not go on where it stopped."""
    return (
        f"Request {request_id} has {due} tokens computed, so it goes on there; plan.start says {start}.",
        f"请求 {request_id} 已经算好 {due} 个 token，应当从那里接着算；plan.start 写的却是 {start}。",
    )


def new_or_resumed(books: Books, plan: Plan) -> Finding | None:
    """``new``, ``resumed``, ``cached`` and ``preempted`` tell what happened."""
    let_in = [i for i in plan.scheduled if not books.entries[i].running or i in plan.preempted]
    new = [i for i in let_in if not books.entries[i].begun]
    resumed = [i for i in let_in if books.entries[i].begun]
    for name, got, want in (("new", plan.new, new), ("resumed", plan.resumed, resumed)):
        if got != want:
            return broken(
                books,
                f"tells-{name}",
                f"plan.{name} must be {want}, in batch order; it is {got}.",
                f"plan.{name} 应当是 {want}（按批内次序），现在是 {got}。",
                plan,
                hint=0,
            )
    told = {i: plan.cached.get(i) for i in new}
    if not books.config.enable_prefix_caching and any(count != 0 for count in told.values()):
        return broken(
            books,
            "tells-cached",
            f"plan.cached must say 0 for each new request ({ids(new)}); it is {plan.cached}.",
            f"plan.cached 里，每个新来的请求（{ids(new)}）都应当是 0；现在是 {plan.cached}。",
            plan,
            hint=0,
        )
    idle = [i for i in plan.preempted if not books.entries[i].running]
    if idle:
        return broken(
            books,
            "preempts-the-running",
            f"plan.preempted names {ids(idle)}, which did not run.",
            f"plan.preempted 里的 {ids(idle)} 并没有在运行。",
            plan,
        )
    return None


def slots(books: Books, plan: Plan) -> Finding | None:
    """At most ``max_num_seqs`` requests run at once."""
    running = [i for i in books.running if i not in plan.preempted and i not in plan.dropped]
    running += [i for i in plan.scheduled if i not in running]
    most = books.config.max_num_seqs
    if len(running) <= most:
        return None
    return broken(
        books,
        "slots",
        f"With this plan {len(running)} requests run at once; max_num_seqs is {most}.",
        f"按这个计划会有 {len(running)} 个请求同时运行；max_num_seqs 是 {most}。",
        plan,
        hint=2,
    )


def token_budget(books: Books, plan: Plan) -> Finding | None:
    """A step computes at most ``max_num_batched_tokens``."""
    total, most = sum(plan.scheduled.values()), books.config.max_num_batched_tokens
    if total <= most:
        return None
    return broken(
        books,
        "token-budget",
        f"The plan computes {total} tokens in one step; max_num_batched_tokens is {most}.",
        f"这个计划一步要算 {total} 个 token；max_num_batched_tokens 是 {most}。",
        plan,
        hint=2,
    )


def whole_prompts(books: Books, plan: Plan) -> Finding | None:
    """Without chunking a request's tokens are computed in one piece."""
    if books.config.enable_chunked_prefill:
        return None
    for request_id, count in plan.scheduled.items():
        if plan.start[request_id] + count < books.entries[request_id].num_tokens:
            return broken(
                books,
                "whole-prompts",
                f"Request {request_id} gets {count} tokens, which is a part of its prefill; chunks come in chapter 7.",
                f"请求 {request_id} 只得到 {count} 个 token，是它预填充的一部分；分块要到第 7 章才有。",
                plan,
            )
    return None


def memory(books: Books, plan: Plan) -> Finding | None:
    """Block tables hold what is computed, in blocks of the pool that nobody else has."""
    config = books.config
    if config.num_blocks is None:
        return None
    tables = dict(_tables(books, plan))
    owner: dict[int, RequestId] = {}
    for request_id, table in tables.items():
        for block in table:
            if block >= config.num_blocks or block in owner:
                other = owner.get(block, "")
                return broken(
                    books,
                    "a-block-for-one",
                    f"Block {block} of request {request_id} belongs to {other or 'no pool'}: the pool has blocks 0 to "
                    f"{config.num_blocks - 1}, each for one request at a time.",
                    f"请求 {request_id} 的块 {block} {f'已经属于请求 {other}' if other != '' else '不在池里'}：池里是 0 到 "
                    f"{config.num_blocks - 1} 号块，一块同时只能给一个请求。",
                    plan,
                )
            owner[block] = request_id
    for request_id, count in plan.scheduled.items():
        end, held = plan.start[request_id] + count, len(tables.get(request_id, []))
        need = -(-end // config.block_size)
        if held != need:
            return broken(
                books,
                "blocks-for-its-tokens",
                f"Request {request_id} has {end} tokens after this step, which take {need} blocks of "
                f"{config.block_size}; its table has {held}.",
                f"这一步之后请求 {request_id} 有 {end} 个 token，要占 {need} 个大小为 {config.block_size} 的块；"
                f"它的块表里有 {held} 个。",
                plan,
            )
    return kept_tables(books, plan)


def _tables(books: Books, plan: Plan) -> Iterator[tuple[RequestId, list[int]]]:
    for request_id, entry in books.entries.items():
        lost = request_id in plan.preempted or request_id in plan.dropped
        if request_id in plan.scheduled or (entry.running and not lost):
            yield request_id, plan.block_tables.get(request_id, [] if lost else entry.table)


def kept_tables(books: Books, plan: Plan) -> Finding | None:
    """A table grows at its end: what is computed stays where it is."""
    for request_id, table in plan.block_tables.items():
        entry = books.entries.get(request_id)
        kept = entry and entry.running and request_id not in plan.preempted
        if entry and kept and table[: len(entry.table)] != entry.table and not plan.copy:
            return broken(
                books,
                "tables-grow-at-the-end",
                f"The block table of request {request_id} was {entry.table} and is now {table}: its KV cache would be lost.",
                f"请求 {request_id} 的块表原来是 {entry.table}，现在是 {table}：已经算好的 KV cache 会丢失。",
                plan,
            )
    return None


EVERY_PLAN: tuple[PlanRule, ...] = (
    known_requests,
    positions,
    new_or_resumed,
    slots,
    token_budget,
    whole_prompts,
    memory,
)
