"""TODO 3: who still fits into a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch04.cases import PRELUDE
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items, listed

if TYPE_CHECKING:
    from decodelab.grading.student import Student

# Some run already; the others ask in turn, and come in where the answer is yes: [answer, what it changed].
ASK = """
def seen_by(scheduler, plan, seq):
    return {
        "plan": plan.data(),
        "seq": [getattr(seq, name) for name in type(seq).__slots__],
        "self.running": list(scheduler.running),
        "self.waiting": scheduler.waiting.ordered(1.0),
        "self.config": scheduler.config.max_num_batched_tokens,
    }


def room_for_each(config, running, prompts, answered, planned):
    scheduler, before, plan = BatchScheduler(config, FCFS()), Plan(), Plan()
    for number, prompt_len in enumerate(running):
        scheduler.add_request(Request(number, 0.0, prompt_len, 9), 0.0)
        scheduler.admit(before, scheduler.waiting.peek(0.0))
    for seq in scheduler.running if planned else ():
        seq.num_tokens += 1
        scheduler.serve(plan, seq)
    answers = []
    for number, prompt_len in enumerate(prompts, len(running)):
        scheduler.add_request(Request(number, 1.0, prompt_len, 9), 1.0)
        seq = scheduler.waiting.peek(1.0)
        seq.num_tokens += answered
        was = seen_by(scheduler, plan, seq)
        answer = scheduler.room_for(plan, seq)
        now = seen_by(scheduler, plan, seq)
        answers.append([answer, [name for name in was if was[name] != now[name]]])
        if answers[-1][1]:
            break
        if answer:
            scheduler.admit(plan, seq)
        else:
            scheduler.waiting.remove(seq)
    return answers
"""


def check_room(student: Student, case: Case) -> Finding | None:
    """``running`` decode, then each of ``prompts`` asks for room in the same step, up to the first wrong answer."""
    student.load("check", PRELUDE + ASK)
    config = student.new("SchedulerConfig", **case["config"])
    asked = case["running"], case["prompts"], case["answered"], case["planned"]
    answers = listed(student.call("room_for_each", config, *asked))
    slots, budget = case["config"]["max_num_seqs"], case["config"]["max_num_batched_tokens"]
    running, spent = len(case["running"]), len(case["running"]) * case["planned"]
    for prompt, answer in zip(case["prompts"], answers, strict=False):
        got, changed = items(answer, 2)
        tokens, free, left = prompt + case["answered"], running < slots, budget - spent
        if changed:
            return something_changed(listed(changed)[0])
        if got is not (free and tokens <= left):
            return wrong_answer(got, tokens, free, left)
        running, spent = running + got, spent + got * tokens
    return None


def something_changed(what: Any) -> Finding:
    """The finding where asking for room had an effect."""
    return finding(
        "changes-nothing",
        f"room_for answers a question and changes nothing, but after it `{what}` was another: `admit` does the letting in.",
        f"room_for 只回答问题，什么都不改；可是问过之后，`{what}` 变了：放人进来是 `admit` 的事。",
        hint=1,
    )


def wrong_answer(got: Any, tokens: int, free: bool, left: int) -> Finding:
    """The finding where ``tokens`` meet ``left`` in the budget, and a free slot or none."""
    asked = f"With {'a free slot' if free else 'all slots taken'} and {left} tokens left in the budget, room_for a request of {tokens} tokens"
    asked_zh = f"{'有空位' if free else '位置全满'}，预算还剩 {left} 个 token 时，问 {tokens} 个 token 的请求放不放得下"
    if type(got) is not bool:
        rule, en, zh = (
            "yes-or-no",
            "must return True or False",
            "应当返回 True 或 False",
        )
    elif free and tokens <= left:
        rule, en, zh = "fills-free-slots", "must be True", "应当是 True"
    elif not free:
        rule, en, zh = (
            "slots",
            "must be False: max_num_seqs run already",
            "应当是 False：已经有 max_num_seqs 个在跑",
        )
    else:
        rule, en, zh = "token-budget", "must be False: it is too long", "应当是 False：太长了"
    return finding(
        rule, f"{asked} {en}; yours returned {got!r}.", f"{asked_zh}，{zh}；你的返回了 {got!r}。", hint=2
    )
