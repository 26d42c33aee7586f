"""TODOs 2 and 7: whether who is next in line may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# Some run, with [tokens, longest] each; others ask, with [tokens, tokens of this step, longest]; a further item where
# it was preempted before. Half of the tokens of who runs or comes back are the answer so far. Nobody is let in.
ASK = """
def made(request_id, num_tokens, longest, begun, preempted):
    prompt_len = max(1, min(num_tokens // 2 if begun else num_tokens, longest - 1))
    seq = Sequence(Request(request_id, 0.0, prompt_len, max(1, longest - prompt_len)))
    seq.num_tokens, seq.preempted = num_tokens, preempted
    return seq


def looks(kv, inside):
    tables = {key: list(table) for key, table in kv.tables.items()}
    return tables, kv.num_free, [(id(seq), seq.num_tokens, seq.num_computed_tokens, seq.preempted) for seq in inside]


def answers_for(name, config, running, asked):
    kv = BlockManager(config.num_blocks, config.block_size)
    inside = [made(number, has, longest, True, bool(back)) for number, (has, longest, *back) in enumerate(running)]
    for seq in inside:
        kv.allocate(seq.request_id, seq.num_tokens)
    before = looks(kv, inside)
    answers = []
    for number, (num_tokens, of_this_step, longest, *back) in enumerate(asked, 100):
        seq = made(number, num_tokens, longest, bool(back), bool(back))
        answers.append(globals()[name](kv, seq, of_this_step, config, inside))
    return answers, looks(kv, inside) == before
"""


def check_admission(student: Student, case: Case) -> Finding | None:
    """May the step's tokens have their blocks, and the watermark beside them."""

    def judged(config: dict[str, Any], free: int, asked: list[int]) -> tuple[bool, dict[str, bool]]:
        num_tokens, of_this_step, *_ = asked
        spare = int(config.get("watermark", 0) * config["num_blocks"])
        reserve, alone = config.get("reserve_full_prompt", False), not case["running"]

        def fits(tokens: int, spare: int) -> bool:
            return blocks(tokens, config) + spare <= free

        due = num_tokens if reserve else of_this_step
        want = fits(due, 0 if alone else spare)
        return want, {
            "watermark-only-while-others-run" if alone else "leaves-the-watermark": fits(
                due, spare if alone else 0
            ),
            "whole-prompt" if reserve else "this-step-only": fits(
                of_this_step if reserve else num_tokens, 0 if alone else spare
            ),
        }

    return asked_in_turn(student, case, "may_admit", judged)


def check_guarantee(student: Student, case: Case) -> Finding | None:
    """May everybody who runs, and the one who asks, grow to the end side by side."""

    def judged(config: dict[str, Any], free: int, asked: list[int]) -> tuple[bool, dict[str, bool]]:
        def fits(ends: list[int]) -> bool:
            return sum(blocks(end, config) for end in ends) <= config["num_blocks"]

        ends, size = [longest - 1 for _, longest, *_ in case["running"]], config["block_size"]
        num_tokens, _, longest, *_ = asked
        at_their_longest = [*ends, longest - 1]
        return fits(at_their_longest), {
            "counts-who-runs": blocks(longest - 1, config) <= free,
            "rounds-up": sum(end // size for end in at_their_longest) <= config["num_blocks"],
            "rounds-up-each": blocks(sum(at_their_longest), config) <= config["num_blocks"],
            "counts-the-longest": fits([*ends, num_tokens]),
            "last-token-needs-no-slot": fits([end + 1 for end in at_their_longest]),
        }

    return asked_in_turn(student, case, "may_admit_for_good", judged)


def blocks(tokens: int, config: dict[str, Any]) -> int:
    """Blocks for so many tokens."""
    return -(-tokens // int(config["block_size"]))


def asked_in_turn(student: Student, case: Case, name: str, judged: Any) -> Finding | None:
    """Each of ``asked``; ``judged`` gives the answer that is due, and what each mistake would answer."""
    probe, config = student.apart(PRELUDE + ASK, "Sequence", "BlockManager", name), case["config"]
    there = probe.keep("SchedulerConfig", **config)
    replies, unchanged = items(probe.call("answers_for", name, there, case["running"], case["asked"]), 2)
    free = config["num_blocks"] - sum(blocks(tokens, config) for tokens, *_ in case["running"])
    if not unchanged:
        return finding(
            "only-looks",
            f"{name} changed the block manager or the list of who runs; it only answers a question.",
            f"{name} 改动了块管理器或正在运行的列表；它只回答问题，什么都不能改。",
        )
    answers = zip(case["asked"], items(replies, len(case["asked"])), strict=True)
    turns = [(asked, got, *judged(config, free, asked)) for asked, got in answers]
    for number, (_, got, want, mistakes) in enumerate(turns, 1):
        if got is not want:
            explains = (r for r in mistakes if all(turn[1] is turn[3][r] for turn in turns))
            rule = next(explains, "enough-blocks") if isinstance(got, bool) else "yes-or-no"
            return wrong_answer(name, rule, case, free, number, got, want)
    return None


SAID = {
    "watermark-only-while-others-run": (
        "Nobody runs, so nothing needs to stay free",
        "没有请求在运行，所以不必留空",
    ),
    "leaves-the-watermark": (
        "While others run, int(watermark * num_blocks) blocks stay free",
        "有请求在运行时，要留出 int(watermark * num_blocks) 个空闲块",
    ),
    "whole-prompt": (
        "With reserve_full_prompt all of its tokens must fit",
        "开着 reserve_full_prompt，它的全部 token 都要放得下",
    ),
    "this-step-only": (
        "Without reserve_full_prompt the tokens of this step are enough",
        "没开 reserve_full_prompt，放得下这一步的 token 就够",
    ),
    "counts-who-runs": (
        "Those who run will need blocks of their own until their end",
        "在运行的请求，到写完为止还会要块",
    ),
    "counts-the-longest": (
        "What counts is the request at its longest",
        "要按请求最长的时候来算",
    ),
    "last-token-needs-no-slot": (
        "The last token is never computed, so it needs no slot",
        "最后一个 token 不用再算，不占槽位",
    ),
    "rounds-up": ("A block that is begun counts whole: round up", "用到一点的块也算一整块：要向上取整"),
    "rounds-up-each": (
        "Blocks are not shared: round up each request's, then add",
        "块不能共用：每个请求先各自向上取整，再相加",
    ),
    "yes-or-no": ("The answer is True or False", "答案是 True 或 False"),
    "enough-blocks": ("What is free decides, to the last block", "能不能进，看空闲块，最后一块也算"),
}


def why(name: str, rule: str, case: Case, longest: int) -> tuple[str, str]:
    """What the text says about it, with the numbers of the case."""
    config = case["config"]
    num_blocks, watermark = config["num_blocks"], config.get("watermark", 0)
    if rule == "enough-blocks" and name == "may_admit_for_good":
        need = sum(blocks(end - 1, config) for end in [*(row[1] for row in case["running"]), longest])
        return (
            f"All at their longest take {need} blocks; the pool has {num_blocks}",
            f"全部写到最长要 {need} 块，池里有 {num_blocks} 块",
        )
    en, zh = SAID[rule]
    if rule == "enough-blocks" and watermark and case["running"]:
        kept = f"int({watermark} · {num_blocks}) = {int(watermark * num_blocks)}"
        return f"{en}, and {kept} of them stay back", f"{zh}，其中 {kept} 块要留着"
    return en, zh


def wrong_answer(name: str, rule: str, case: Case, free: int, number: int, got: Any, want: bool) -> Finding:
    """The finding where the ``number``-th that asks got another answer than ``want``."""
    num_tokens, of_this_step, longest, *_ = case["asked"][number - 1]
    config, running = case["config"], len(case["running"])
    size, num_blocks = config["block_size"], config["num_blocks"]
    en, zh = why(name, rule, case, longest)
    return finding(
        rule,
        f"{running} running, {free} of {num_blocks} blocks of {size} free; ({number}) asks, a request of {num_tokens} "
        f"tokens (at its longest {longest}), {of_this_step} of them in the cache after this step: {name} must be "
        f"{want}, not {got!r}. {en}.",
        f"{running} 个在运行，{num_blocks} 块里空闲 {free} 块，每块 {size} 个 token；来问的是（{number}），有 {num_tokens} 个 "
        f"token（最长 {longest}），这一步之后有 {of_this_step} 个在缓存里：{name} 应当是 {want}，而不是 {got!r}。{zh}。",
        hint=2,
    )
