"""How the rules of an engine are said: which hint fits, in English and in Chinese."""

from __future__ import annotations

from typing import Any

from decodelab.check.ch10.ideal import Moment

WORDS: dict[str, tuple[int, str, str]] = {
    "plays": (0, "the engine must play through the whole script.", "引擎应当把整个脚本走完。"),
    "engine-rests": (0, "with nobody there step() returns None.", "没有请求时 step() 应当返回 None。"),
    "refusal-goes-through": (1, "the scheduler refused it, so submit must raise that Refused.", "调度器拒绝了它，submit 应当让这个 Refused 原样抛出。"),
    "refused-leaves-no-trace": (1, "it was refused, so nothing may have changed: not the outputs, not who is active, nothing at the executor.", "它被拒绝了，所以什么都不能变：outputs、active、执行器都不能有它。"),
    "takes-in-good-requests": (1, "the scheduler takes it, so submit must take it and return None.", "调度器收下了它，submit 也应当收下，并返回 None。"),
    "told-once": (1, "scheduler.add_request and executor.begin are called once each.", "scheduler.add_request 和 executor.begin 各调用一次。"),
    "told-the-time": (1, "the scheduler is told the clock's time, self.clock.now.", "告诉调度器的时刻应当是 self.clock.now。"),
    "has-an-output": (1, "self.outputs must have an empty Output for it, and nothing of anybody else's may change.", "self.outputs 里应当有它的一个空 Output，别人的不能变。"),
    "knows-its-stop-strings": (1, "an Output takes the request's prompt and the stop strings of its sampling: Output(request.prompt, job.sampling.stop).", "Output 要拿到请求的提示词，还有 sampling 里的停止串：Output(request.prompt, job.sampling.stop)。"),
    "is-active": (1, "its id belongs into self.active.", "它的 id 应当放进 self.active。"),
    "arrival-is-noted": (1, "self.arrived lists the requests that came since the last step, in order, each once.", "self.arrived 记的是上一步之后来的请求本身，按先后，每个一次。"),
    "executes-once": (1, "the plan is executed once in a step.", "每一步执行一次计划。"),
    "updates-once": (1, "the scheduler is updated once in a step.", "每一步 update 一次。"),
    "update-gets-the-tokens": (1, "scheduler.update gets the tokens that the executor generated.", "scheduler.update 拿到的应当是执行器生成的 token。"),
    "time-passes": (1, "the step took its seconds: clock.tick(seconds), and update is told the time after it.", "这一步花了时间：先 clock.tick(seconds)，update 拿到的是之后的时刻。"),
    "step-keeps-the-tokens": (1, "step.tokens are the tokens that the executor generated.", "step.tokens 应当是执行器生成的 token。"),
    "step-says-who-ended": (2, "step.finished says who ended in this step, and why.", "step.finished 应当写明这一步谁结束了、为什么。"),
    "stop-string-ends": (2, 'a stop string ends its request: step.finished says "stop" for it.', "出现停止串，请求就结束：step.finished 里它的原因是 \"stop\"。"),
    "every-token-once": (2, "an output's token_ids are all tokens of its request in order, each once, the last one too.", "output 的 token_ids 是这个请求的全部 token，按次序，每个一次，最后一个也在内。"),
    "whole-characters": (2, "half a character is never shown: what is missing comes with the next tokens.", "半个字不能显示：缺的部分会随后面的 token 到来。"),
    "stop-string-is-hidden": (2, "the text ends before the stop string.", "文本到停止串之前为止。"),
    "holds-back": (2, "an end that may become a stop string is held back while the request goes on.", "请求还没结束时，可能变成停止串的结尾要先扣住。"),
    "shows-the-rest": (2, "it is over and no stop string came, so all of its text is shown.", "它结束了，也没有出现停止串，所以文本要全部显示。"),
    "shows-what-is-safe": (2, "what cannot become a stop string, and is no half character, is shown at once, and never taken back.", "不会变成停止串、也不是半个字的部分，要马上显示，以后也不收回。"),
    "says-why": (2, "an output's reason says why it ended, and is None before.", "output 的 reason 写明为什么结束；结束之前是 None。"),
    "ends-who-is-over": (2, "who is over leaves self.active, and nobody else.", "结束的请求要离开 self.active，别人不能动。"),
    "blocks-come-back": (2, "a request that is over holds no blocks: where the scheduler did not end it itself, it must be told (abort).", "结束的请求不能再占着块：不是调度器自己结束的，要告诉它（abort）。"),
    "aborted-by-users-only": (2, "who was aborted by a user is listed as aborted, and nobody else: of a stop string only the scheduler is told, by scheduler.abort.", "只有被用户取消的才记作 aborted：碰到停止串，只要用 scheduler.abort 告诉调度器。"),
    "executor-forgets": (2, "executor.end is called for whoever is over, and for nobody else.", "谁结束了，就对谁调用 executor.end，别人不能动。"),
    "stream-gives-text": (1, "a stream yields text.", "stream 产出的应当是文本。"),
    "no-empty-piece": (1, "a stream yields only where there is something new.", "有新文本才产出，不要产出空文本。"),
    "gives-before-it-steps": (2, "there was text to give already, or after fewer steps: a step is made only where nothing new is there.", "已经有可给的文本，或者少走几步就有：没有新文本时才走一步。"),
    "stream-gives-what-is-new": (2, "a stream gives all of its request's text, each character once, also what came while others made steps.", "stream 给出这个请求的全部文本，每个字符恰好一次；别人走步时到的，也不能丢。"),
    "stream-ends": (2, "a stream ends when its request is over and all its text is given, and makes no further step.", "请求结束、文本给完，stream 就结束，不再走下一步。"),
    "stream-goes-on": (2, "a stream ends only when its request is over and all its text is given.", "请求结束、文本全部给完之后，stream 才能结束。"),
}  # fmt: skip


def evidence(rule: str, want: Moment, got: Moment) -> tuple[str, str]:
    """What is due and what came, in short, where a sentence gains by it; ("", "") elsewhere."""
    if rule.startswith(("update", "time", "step-", "stop-string-ends")):
        return (
            f"{want.told} {want.log}",
            f"{got.told} {[call[1:] for call in got.log if call[0] == 'update']}",
        )
    if rule.startswith(("gives", "stream")) and isinstance(got.told, list) and len(got.told) == 2:
        return read(want.told, want.steps), read(got.told, got.steps)
    for request_id, output in want.outputs.items():
        mine: Any = got.outputs.get(request_id)
        if mine != output:
            return f"{request_id!r} {output}", f"{mine}"[:120]
    return "", ""


def read(told: list[Any], steps: int) -> str:
    """What a stream gave: ``'text', step() × 2``, or its end."""
    pieces, over = told
    text = "".join(pieces) if isinstance(pieces, list) and all(isinstance(p, str) for p in pieces) else pieces
    return f"{text!r:.60}{', return' if over else ''}, step() × {steps}"
