"""TODO 7, extension: several answers to one prompt, which share its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch08 import tiny
from decodelab.check.ch10.execute import COUNTING, prompt_of
from decodelab.check.rules import Case, Finding, StudentError
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student

SHARE = (
    COUNTING
    + """
import torch
from decodelab.models.config import Config
from decodelab.request import Sampling


class Blocks:
    # A SharedBlockManager of the check's own: a free block is NaN.
    def __init__(self, num_blocks, kv):
        self.kv, self.block_size, self.tables = kv, kv.block_size, {}
        self.owners, self.num_blocks = [0] * num_blocks, num_blocks
        self.forks = self.copies = 0
        for pool in (kv.keys, kv.values):
            pool.fill_(float("nan"))

    @property
    def num_free(self):
        return self.owners.count(0)

    def take(self):
        if not self.num_free:
            raise ValueError("no block is free")
        block = len(self.owners) - 1 - self.owners[::-1].index(0)
        self.owners[block] = 1
        return block

    def allocate(self, request_id, num_tokens):
        table = self.tables.setdefault(request_id, [])
        need = -(-num_tokens // self.block_size) - len(table)
        if need > self.num_free:
            return False
        table += [self.take() for _ in range(need)]
        return True

    def fork(self, parent, child):
        if parent not in self.tables or child in self.tables:
            raise ValueError(f"cannot fork {parent!r} to {child!r}")
        self.forks += 1
        self.tables[child] = list(self.tables[parent])
        for block in self.tables[child]:
            self.owners[block] += 1

    def free(self, request_id):
        for block in self.tables.pop(request_id, ()):
            self.owners[block] -= 1
            if not self.owners[block]:
                for pool in (self.kv.keys, self.kv.values):
                    pool[:, block * self.block_size : (block + 1) * self.block_size] = float("nan")

    def write(self, request_id, position):
        table, at = self.tables[request_id], position // self.block_size
        old = table[at]
        if self.owners[old] == 1:
            return None
        table[at] = self.take()
        self.owners[old] -= 1
        self.copies += 1
        return old, table[at]


def answered(model, weights, num_blocks, block_size, prompt, n, max_new_tokens, sampling, stops):
    rows = []
    decoder = Counting(ch08.Decoder(Config(**model), weights), rows)
    kv = PagedKV(decoder.config, num_blocks, block_size)
    manager, given = Blocks(num_blocks, kv), list(prompt)
    said = parallel_samples(decoder, kv, manager, given, n, max_new_tokens, Sampling(*sampling), tuple(stops))
    return said, rows, manager.num_free, manager.forks, given == prompt


def alone(model, weights, prompt, n, max_new_tokens, sampling, stops):
    decoder, seeds = ch08.Decoder(Config(**model), weights), ch08.Seeds(sampling[2])
    temperature, top_p = sampling[:2]
    return [
        list(ch08.generate(decoder, prompt, max_new_tokens, tuple(stops), temperature, top_p, seeds.generator(i)))
        for i in range(n)
    ]
"""
)


def check_samples(student: Student, case: Case) -> Finding | None:
    """As many answers, each as if alone; one pass for the prompt, one for every further token of all."""
    model, weights = tiny.shape_of(case["model"]), tiny.weights(case["model"], case["weights"])
    prompt = prompt_of(case)
    asked = prompt, case["n"], case["max_new_tokens"], case["sampling"], case["stops"]
    if case["prompt_len"] < 1 or case["n"] < 1 or case["max_new_tokens"] < 1 or case["block_size"] < 1:
        return None
    probe = student.apart(SHARE, "parallel_samples", "PagedKV", "ch08")
    single = probe.later("alone", model, weights, *asked)
    reply = probe.later("answered", model, weights, case["num_blocks"], case["block_size"], *asked)
    want = single()
    try:
        got = reply()
    except StudentError as error:
        if "nan" not in error.message:  # what torch says of drawing from NaN
            raise
        return told(case, "copies-what-was-shared", "…", "NaN")
    if not isinstance(want, list) or not want or not all(isinstance(answer, list) for answer in want):
        return told(case, "as-many-as-asked", "…", want)
    said, rows, free, forks, same = got if isinstance(got, tuple) and len(got) == 5 else (None,) * 5
    if said != want:
        rule = "as-many-as-asked" if not isinstance(said, list) or len(said) != len(want) else "as-if-alone"
        return told(case, rule, want, said)
    due = rows_of(len(prompt), want)
    if rows != due:
        first = isinstance(rows, list) and rows[:1] == due[:1]
        return told(case, "all-in-one-batch" if first else "prompt-once", due, rows)
    if forks != case["n"] - 1:
        return told(case, "forks", case["n"] - 1, forks)
    if free != case["num_blocks"]:
        return told(case, "blocks-come-back", case["num_blocks"], free)
    return None if same is True else told(case, "prompt-stays", prompt, "…")


def rows_of(prompt_len: int, answers: list[list[int]]) -> list[int]:
    """Rows of each pass: the prompt, then one for everybody who goes on."""
    longest = max(len(answer) for answer in answers)
    return [prompt_len, *(sum(len(answer) > n for answer in answers) for n in range(1, longest))]


WORDS = {
    "as-many-as-asked": ("n answers, in order, each a list of token ids", "n 个回答，依次排列，每个是一串 token id"),
    "as-if-alone": ("each says what it would say alone, with its own generator", "每个回答都应当和它用自己的生成器单独生成时一样"),
    "copies-what-was-shared": ("a block that nobody has written was read: what write returns, (from, to), has to be copied, and only then computed with", "读了从没写过的块：write 返回的（从，到）要先复制，再拿来算"),
    "prompt-once": ("the prompt is computed once, for all; rows of each pass", "提示词只算一次，大家共用；每次计算的行数"),
    "all-in-one-batch": ("then one pass gives everybody who goes on one more token; rows of each pass", "之后每次计算让还没结束的各得一个 token；每次计算的行数"),
    "forks": ("all but the first are forks; how often fork was called", "除第一个外都由分叉而来；调用 fork 的次数"),
    "blocks-come-back": ("all blocks are free in the end; free blocks", "最后所有的块都空闲；空闲块数"),
    "prompt-stays": ("the list of the prompt is not changed", "不要改动传入的提示词列表"),
}  # fmt: skip


def told(case: Case, rule: str, want: Any, got: Any) -> Finding:
    """A finding about one call."""
    call = f"parallel_samples(…, n={case['n']}, max_new_tokens={case['max_new_tokens']})"
    en, zh = WORDS[rule]
    due = want != "…"
    return finding(
        rule,
        f"{call}, a prompt of {case['prompt_len']}, blocks of {case['block_size']}: {en}."
        + due * f" Due: {want!r:.200}; yours: {got!r:.200}.",
        f"{call}，提示词 {case['prompt_len']} 个 token，块大小 {case['block_size']}：{zh}。"
        + due * f"应当是 {want!r:.200}，你的是 {got!r:.200}。",
        hint=2,
    )
