"""TODO 1: who can never be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch06.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

ASK = """
def reasons_for(config, asked):
    return [refusal(Request(n, 0.0, *lengths), config) for n, lengths in enumerate(asked)]
"""


def check_refusal(student: Student, case: Case) -> Finding | None:
    """``asked``: [prompt_len, max_new_tokens] of each request; of several reasons any is right."""
    student.load("check", PRELUDE + ASK)
    config = case["config"]
    there = student.new("SchedulerConfig", **config)
    answers = listed(student.call("reasons_for", there, case["asked"]))
    for (prompt, wanted), got in zip(case["asked"], answers, strict=False):
        longest = prompt + wanted - 1
        due = {
            "never_fits": longest > config["num_blocks"] * config["block_size"],
            "over_budget": longest > config["max_num_batched_tokens"],
        }
        reasons = [reason for reason, is_so in due.items() if is_so]
        if got not in reasons and (reasons or got is not None):
            return wrong_reason(got, prompt, wanted, reasons, config)
    return None


def wrong_reason(got: Any, prompt: int, wanted: int, due: list[str], config: dict[str, Any]) -> Finding:
    """The finding where a request is let through or turned away wrongly, or for another reason."""
    longest, slots = prompt + wanted - 1, config["num_blocks"] * config["block_size"]
    room = f"{slots} slots, a step computes {config['max_num_batched_tokens']} tokens"
    room_zh = f"{slots} 个槽位，一步最多算 {config['max_num_batched_tokens']} 个 token"
    asked = (
        f"prompt_len={prompt}, max_new_tokens={wanted}: up to {longest} tokens at once; the pool has {room}."
    )
    asked_zh = (
        f"prompt_len={prompt}，max_new_tokens={wanted}：最多同时需要 {longest} 个 token；池里有 {room_zh}。"
    )
    if not due:
        rule, en, zh = "accepts-good-requests", "It can be served: return None", "能够服务，应当返回 None"
    elif got is None:
        rule = f"refuses-{due[0].replace('_', '-')}"
        en, zh = f'It can never be served: return "{due[0]}"', f'永远服务不了，应当返回 "{due[0]}"'
    else:
        rule, en, zh = "names-the-reason", f'The reason is "{due[0]}"', f'原因是 "{due[0]}"'
    return finding(rule, f"{asked} {en}, not {got!r}.", f"{asked_zh}{zh}，而不是 {got!r}。", hint=2)
