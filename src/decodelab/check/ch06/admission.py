"""TODOs 2 and 7: whether who is next in line may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# Some run, with [tokens, longest] each; others ask, with [tokens, tokens of this step, longest]. Nobody is let in.
ASK = """
def made(request_id, num_tokens, longest):
    seq = Sequence(Request(request_id, 0.0, 1, max(1, longest - 1)))
    seq.num_tokens = num_tokens
    return seq


def answers_for(name, config, running, asked):
    kv = BlockManager(config.num_blocks, config.block_size)
    inside = [made(number, *counts) for number, counts in enumerate(running)]
    for seq in inside:
        kv.allocate(seq.request_id, seq.num_tokens)
    before = {key: list(table) for key, table in kv.tables.items()}, kv.num_free, list(inside)
    answers = []
    for number, (num_tokens, of_this_step, longest) in enumerate(asked, 100):
        seq = made(number, num_tokens, longest)
        answers.append(globals()[name](kv, seq, of_this_step, config, inside))
    return answers, (kv.tables, kv.num_free, inside) == before
"""


def check_admission(student: Student, case: Case) -> Finding | None:
    """May the step's tokens have their blocks, and the watermark beside them."""

    def judged(config: dict[str, Any], free: int, asked: list[int]) -> tuple[bool, dict[str, bool]]:
        num_tokens, of_this_step, _ = asked
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

        ends = [longest - 1 for _, longest in case["running"]]
        num_tokens, _, longest = asked
        return fits([*ends, longest - 1]), {
            "counts-who-runs": blocks(longest - 1, config) <= free,
            "counts-the-longest": fits([*ends, num_tokens]),
            "last-token-needs-no-slot": fits([end + 1 for end in [*ends, longest - 1]]),
        }

    return asked_in_turn(student, case, "may_admit_for_good", judged)


def blocks(tokens: int, config: dict[str, Any]) -> int:
    """Blocks for so many tokens."""
    return -(-tokens // int(config["block_size"]))


def asked_in_turn(student: Student, case: Case, name: str, judged: Any) -> Finding | None:
    """Each of ``asked``; ``judged`` gives the answer that is due, and what each mistake would answer."""
    student.load("check", PRELUDE + ASK)
    config = case["config"]
    there = student.new("SchedulerConfig", **config)
    replies, unchanged = student.call("answers_for", name, there, case["running"], case["asked"])
    free = config["num_blocks"] - sum(blocks(tokens, config) for tokens, _ in case["running"])
    if not unchanged:
        return finding(
            "only-looks",
            f"{name} changed the block manager or the list of who runs; it only answers a question.",
            f"{name} 改动了块管理器或正在运行的列表；它只回答问题，什么都不能改。",
        )
    answers = zip(case["asked"], listed(replies), strict=False)
    turns = [(asked, got, *judged(config, free, asked)) for asked, got in answers]
    for asked, got, want, mistakes in turns:
        if got is not want:
            explains = (r for r in mistakes if all(turn[1] is turn[3][r] for turn in turns))
            rule = next(explains, "enough-blocks") if isinstance(got, bool) else "yes-or-no"
            return wrong_answer(name, rule, case, free, asked, got, want)
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
    "yes-or-no": ("The answer is True or False", "答案是 True 或 False"),
    "enough-blocks": ("What is free decides, to the last block", "能不能进，看空闲块，最后一块也算"),
}


def wrong_answer(
    name: str, rule: str, case: Case, free: int, asked: list[int], got: Any, want: bool
) -> Finding:
    """The finding where ``asked`` got another answer than ``want``."""
    num_tokens, of_this_step, longest = asked
    size, running = case["config"]["block_size"], len(case["running"])
    en, zh = SAID[rule]
    return finding(
        rule,
        f"{running} running, {free} blocks of {size} free; a request of {num_tokens} tokens (at its longest {longest}) "
        f"asks, {of_this_step} of them in this step: {name} must be {want}, not {got!r}. {en}.",
        f"{running} 个在运行，空闲 {free} 块，每块 {size} 个 token；来问的请求有 {num_tokens} 个 token（最长 {longest}），"
        f"这一步算 {of_this_step} 个：{name} 应当是 {want}，而不是 {got!r}。{zh}。",
        hint=2,
    )
