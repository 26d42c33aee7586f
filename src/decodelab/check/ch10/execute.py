"""TODO 1: plans on a tiny model, its pool poisoned wherever nobody's keys lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from decodelab.check.ch08 import oracle, tiny
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding, items, listed
from decodelab.lang import both
from decodelab.models.config import Config

if TYPE_CHECKING:
    from decodelab.grading.student import Student

LEAD = 1e-3  # of a best logit over the second, where rounding decides nothing
NUM_BLOCKS = 24

COUNTING = """
class Counting:
    # A decoder that tells how many rows each pass had.
    def __init__(self, decoder, rows):
        self.config, self.embedding, self.logits, self.cache = decoder.config, decoder.embedding, decoder.logits, decoder.cache

        def forward(tokens, positions, kv):
            rows.append(len(tokens))
            return decoder.forward(tokens, positions, kv)

        self.forward = forward
"""
RUN = (
    COUNTING
    + """
import torch
from decodelab.contract import Plan
from decodelab.models.config import Config
from decodelab.request import Job, Request, Sampling


def poison(executor, tables):
    # What no table of a live request holds is NaN.
    size = executor.block_size
    held = [block * size + n for table in tables for block in table for n in range(size)]
    free = torch.ones(executor.kv.keys.shape[1], dtype=torch.bool)
    free[held] = False
    for pool in (executor.kv.keys, executor.kv.values):
        pool[:, free] = float("nan")


RAISED = []


def raise_it():
    raise RAISED[-1]


def play(model, weights, num_blocks, block_size, requests, lines):
    # lines: [begin, plan, end, tables that are held after it]
    rows = []
    decoder = Counting(ch08.Decoder(Config(**model), weights), rows)
    executor = TorchExecutor(decoder, num_blocks, block_size, cost=lambda *counts: sum(counts))
    poison(executor, [])
    told, RAISED[:] = [], []
    for begin, plan, end, tables in lines:
        for request_id in begin:
            prompt, sampling, stops = requests[request_id]
            request = Request(request_id, 0.0, len(prompt), 99, prompt=tuple(prompt), stop_token_ids=tuple(stops))
            executor.begin(Job(request, sampling=Sampling(*sampling)))
        try:
            reply = executor.execute(Plan(**plan))
            told.append([reply, {i: len(own) for i, own in executor.sequences.items()}, rows[:]])
        except Exception as error:  # what the steps before it gave counts first
            RAISED.append(error)
            break
        rows.clear()
        for request_id in end:
            executor.end(request_id)
        poison(executor, tables)
    return told


def alone(model, weights, requests, counts):
    # What each would say by itself, by chapter 8.
    decoder, said = ch08.Decoder(Config(**model), weights), {}
    for request_id, (prompt, (temperature, top_p, seed), stops) in requests.items():
        generator = ch08.Seeds(seed).generator(request_id)
        answer = ch08.generate(decoder, prompt, counts[request_id], (), temperature, top_p, generator)
        said[request_id] = list(answer)
    return said
"""
)


@dataclass
class Held:
    """A request on its way."""

    prompt: list[int]
    computed: int = 0
    said: int = 0
    table: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)  # the table that a plan told last
    lost: bool | None = None  # preempted and not back; None: never ran

    @property
    def known(self) -> int:
        """Tokens so far."""
        return len(self.prompt) + self.said


class Script:
    """Plans from a case's steps, {id: tokens}: blocks are dealt out in any order, and come back.

    A step may also say ``preempt`` and ``end``, lists of ids. ``due`` has for each plan who gets a token.
    """

    def __init__(self, case: Case) -> None:
        self.random, self.size = Random(case["seed"]), case["block_size"]
        self.free = list(range(blocks_of(case)))
        self.held: dict[str, Held] = {}
        self.prompts = {asked["id"]: prompt_of(asked) for asked in case["requests"]}
        self.said = dict.fromkeys(self.prompts, 0)
        self.lines: list[list[Any]] = []
        self.due: list[list[str]] = []
        for step in case["steps"]:
            self.add(step)

    def add(self, step: dict[str, Any]) -> None:
        """One more plan."""
        plan: dict[str, Any] = {"scheduled": {}, "start": {}, "block_tables": {}, "new": [], "resumed": [], "preempted": []}  # fmt: skip
        for request_id in step.get("preempt", ()):
            if request_id in self.held and self.held[request_id].table:
                self.give_back(self.held[request_id])
                self.held[request_id].lost = True
                plan["preempted"].append(request_id)
        begin, due = [], []
        for request_id, wanted in step["run"].items():
            if request_id not in self.held:
                begin.append(request_id)
                self.held[request_id] = Held(self.prompts[request_id])
            if self.runs(request_id, wanted, plan):
                due.append(request_id)
        end = [request_id for request_id in step.get("end", ()) if request_id in self.held]
        for request_id in end:
            self.give_back(self.held.pop(request_id))
            del self.prompts[request_id]  # an id comes once
        self.due.append(due)
        self.lines.append([begin, plan, end, [held.table for held in self.held.values()]])

    def runs(self, request_id: str, wanted: int, plan: dict[str, Any]) -> bool:
        """Schedule up to so many tokens; whether it is computed to its last one."""
        held = self.held[request_id]
        count = min(wanted, held.known - held.computed)
        more = -(-(held.computed + count) // self.size) - len(held.table)
        if count < 1 or more > len(self.free):
            return False
        for _ in range(more):
            held.table.append(self.free.pop(self.random.randrange(len(self.free))))
        if held.lost is not False:
            plan["resumed" if held.lost else "new"].append(request_id)
        if held.table != held.told:
            plan["block_tables"][request_id] = held.told = list(held.table)
        plan["scheduled"][request_id], plan["start"][request_id] = count, held.computed
        held.computed, held.lost = held.computed + count, False
        if held.computed < held.known:
            return False
        held.said += 1
        self.said[request_id] += 1
        return True

    def counts(self, number: int) -> list[int]:
        """How many tokens each request of a plan computes."""
        return list(self.lines[number][1]["scheduled"].values())

    def give_back(self, held: Held) -> None:
        """All its blocks."""
        self.free += held.table
        held.table, held.computed = [], 0


def blocks_of(case: Case) -> int:
    """How many blocks the pool has."""
    return int(case.get("num_blocks", NUM_BLOCKS))


def prompt_of(asked: dict[str, Any]) -> list[int]:
    """The random prompt of a request, the same for the same seed and length."""
    return np.random.RandomState(asked["seed"]).randint(3, 48, size=asked["prompt_len"]).tolist()


def check_execute(student: Student, case: Case) -> Finding | None:
    """Every plan's tokens: those that each request would get alone."""
    ids = [asked["id"] for asked in case["requests"]]
    if len(set(ids)) < len(ids) or any(set(step["run"]) - set(ids) for step in case["steps"]):
        return None
    script = Script(case)
    model, weights = tiny.shape_of(case["model"]), tiny.weights(case["model"], case["weights"])
    requests = {
        asked["id"]: [prompt_of(asked), asked.get("sampling", [0.0, 1.0, 0]), [0]]
        for asked in case["requests"]
    }
    greedy = {
        i: oracle.greedy(Config(**model), weights, p, script.said[i])
        for i, (p, s, _) in requests.items()
        if not s[0]
    }
    if any(lead < LEAD for _, lead in greedy.values()):
        return None
    probe = student.apart(RUN, "TorchExecutor", "ch08")
    by_itself = probe.later("alone", model, weights, requests, script.said)
    played = probe.later("play", model, weights, blocks_of(case), case["block_size"], requests, script.lines)
    own = by_itself()
    want = {i: own.get(i) if isinstance(own, dict) else None for i in ids} | {
        i: t for i, (t, _) in greedy.items()
    }
    odd = [i for i in ids if not isinstance(want[i], list) or len(want[i]) != script.said[i]]
    if odd or not all(may_say(Config(**model), weights, requests[i], want[i]) for i in ids):
        return told_of(case, script, 0, "says-what-it-would-alone", "…", own)
    replies = listed(played())
    given: dict[str, int] = dict.fromkeys(ids, 0)
    for number, due in enumerate(script.due):
        tokens = {i: [want[i][given[i]]] for i in due}
        if len(replies) <= number:
            probe.call("raise_it")
            return told_of(case, script, number, "tokens-and-seconds", tokens, None)
        reply, lengths, rows = items(replies[number], 3)
        if wrong := one_step(case, script, number, tokens, reply):
            return wrong
        if rows != (passes := [sum(counts)] if (counts := script.counts(number)) else []):
            return told_of(case, script, number, "one-pass-a-step", passes, rows)
        for request_id in due:
            given[request_id] += 1
        known = {i: len(requests[i][0]) + given[i] for i in due}
        mine = {i: lengths.get(i) for i in due} if isinstance(lengths, dict) else lengths
        if mine != known:
            return told_of(case, script, number, "token-is-kept", known, mine)
    return None


def may_say(config: Config, weights: dict[str, np.ndarray], asked: list[Any], said: list[int]) -> bool:
    """Whether each token of an answer has a probability; that of greedy ones is known already."""
    prompt, (temperature, top_p, _), _ = asked
    if not temperature or not said:
        return True
    rows = oracle.logits(config, weights, [*prompt, *said])[len(prompt) - 1 : -1]
    likely = [oracle.distribution(row, temperature, min(1.0, top_p + LEAD)) for row in rows]
    return all(
        type(t) is int and 0 <= t < config.vocab and shares[t] > 0
        for t, shares in zip(said, likely, strict=True)
    )


WORDS = {
    "tokens-and-seconds": ("execute returns ({request_id: [token]}, seconds)", "execute 应当返回（{request_id: [token]}, 秒数）"),
    "only-at-the-last-token": ("who is not computed to its last token yet gets none", "还没有算到自己最后一个 token 的请求，这一步没有 token"),
    "a-token-for-each": ("who is computed to its last token gets the next one", "算到自己最后一个 token 的请求，这一步得到下一个"),
    "token-is-kept": ("a new token is appended to self.sequences[request_id], once; how long they are by then", "新 token 要接到 self.sequences[request_id] 末尾，只接一次；这时各自的长度"),
    "one-pass-a-step": ("one pass of the model computes every row of the plan, and nothing else is computed; the rows of each pass", "模型只算一次，计划里的行全在这一次里，别的都不算；每次计算的行数"),
    "one-token-each": ("one new token for each, in a list", "每个请求一个新 token，放在列表里"),
    "says-what-it-would-alone": ("a request says what it would say alone", "请求说的话应当和它单独运行时一样"),
}  # fmt: skip


def one_step(
    case: Case, script: Script, number: int, want: dict[str, list[int]], reply: Any
) -> Finding | None:
    """What one plan came to."""
    tokens = reply[0] if isinstance(reply, (tuple, list)) and len(reply) == 2 else None
    if not isinstance(tokens, dict) or not isinstance(reply[1], (int, float)):
        return told_of(case, script, number, "tokens-and-seconds", want, reply)
    if tokens == want and all(type(t) is int for own in tokens.values() for t in own):
        return None
    if early := [i for i in tokens if i not in want]:
        return told_of(
            case, script, number, "only-at-the-last-token", want, tokens, ", ".join(map(str, early))
        )
    if any(i not in tokens for i in want):
        return told_of(case, script, number, "a-token-for-each", want, tokens)
    if any(not isinstance(t, list) or len(t) != 1 or type(t[0]) is not int for t in tokens.values()):
        return told_of(case, script, number, "one-token-each", want, tokens)
    return told_of(case, script, number, "says-what-it-would-alone", want, tokens)


LABEL = both(
    en="The plans up to this one: tokens computed, from position",
    zh="到这一步为止的计划：算几个 token，从哪个位置起",
)


def told_of(
    case: Case, script: Script, number: int, rule: str, want: Any, got: Any, who: str = ""
) -> Finding:
    """The finding, with the plans up to this one."""
    rows = []
    for i, (_, plan, end, _) in enumerate(script.lines[: number + 1]):
        runs = {r: f"{n} @ {plan['start'][r]}" for r, n in plan["scheduled"].items()}
        rows.append(
            {"step": i, **{r: runs.get(r, "·") for r in script.said}, "": f"end {end}" if end else ""}
        )
    en, zh = WORDS[rule]
    plan = script.lines[number][1]
    return finding(
        rule,
        f"Step {number}, scheduled {plan['scheduled']} from {plan['start']}: {en}{who and f' ({who})'}. Due: {want}; yours: {got!r:.200}.",
        f"第 {number} 步，scheduled 是 {plan['scheduled']}，从 {plan['start']} 起：{zh}{who and f'（{who}）'}。应当是 {want}，你的是 {got!r:.200}。",
        hint=2 if rule == "says-what-it-would-alone" else 1,
        state=rows[-8:],
        label=LABEL,
    )
