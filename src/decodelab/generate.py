"""``decodelab generate``: prompts served at once by the learner's scheduler, decoder and engine, shown as they grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from decodelab import chapters
from decodelab.chapters import chapter
from decodelab.checkfile import chapter_of
from decodelab.contract import Refused, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.grading import splice
from decodelab.lang import Text, both, say
from decodelab.log import LoggedEvent, events, record_all
from decodelab.models.load import Model, load
from decodelab.models.tokenizer import library
from decodelab.notebook.read import find_answers, read_notebook
from decodelab.request import EOS, Job, Request, Sampling
from decodelab.run import Loop, Step, StepClock
from decodelab.service import table
from decodelab.show.live import LEGEND, Lines, strip_text
from decodelab.show.tell import table_text
from decodelab.sim.executor import SimExecutor

SCHEDULERS = {"ch06": "PagedScheduler", "ch07": "ChunkedScheduler"}  # those that give out memory
MOST_SLOTS = 1 << 40  # of a pool; no machine has room for more


@dataclass(frozen=True)
class Wish:
    """How prompts are to be answered, and by what."""

    model: str = "embedded"  # a name or a folder, as of models.load
    device: str = "auto"
    dtype: str = "auto"
    max_new_tokens: int = 48
    sampling: Sampling = field(default_factory=Sampling)
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 256
    block_size: int = 16
    num_blocks: int | None = None  # None: enough for all prompts at once
    submission: Path | None = None  # a notebook whose scheduler is used; None: chapter 7's


def place(device: str, dtype: str) -> tuple[str, Any]:
    """Device and torch.dtype: what was asked for, or the best that this machine computes with.

    On its own: CUDA before MPS before the CPU; bfloat16 on a GPU that computes in it, else float16, and float32 on
    the CPU. DecodeLabError for a device there is not, and for bfloat16 on a GPU that does not compute in it.
    """
    torch = library("torch")
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    device = next(name for name, is_there in there.items() if is_there) if device == "auto" else device
    if not there[device]:
        raise DecodeLabError(
            both(
                en=f"torch finds no {device} device here; leave --device out, or say --device cpu.",
                zh=f"torch 在这台机器上找不到 {device} 设备；请去掉 --device，或者写 --device cpu。",
            )
        )
    wide = device != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    if dtype == "bfloat16" and not wide:
        raise DecodeLabError(
            both(
                en="This GPU does not compute in bfloat16; say --dtype float16.",
                zh="这块 GPU 不支持 bfloat16 计算；请写 --dtype float16。",
            )
        )
    own = {"cpu": "float32", "mps": "float16", "cuda": "bfloat16" if wide else "float16"}[device]
    return device, getattr(torch, own if dtype == "auto" else dtype)


def engine(wish: Wish, model: Model, prompts: Sequence[Sequence[int]]) -> Any:
    """Chapter 10's engine over chapter 8's decoder, with room for these prompts.

    DecodeLabError where the memory has no room for its blocks.
    """
    most = model.config.max_positions
    lengths = sorted((min(len(ids) + wish.max_new_tokens, most) for ids in prompts), reverse=True)
    enough = sum(-(-length // wish.block_size) for length in lengths[: wish.max_num_seqs])
    num_blocks = wish.num_blocks or enough
    config = SchedulerConfig(
        max_num_seqs=wish.max_num_seqs,
        max_num_batched_tokens=wish.max_num_batched_tokens,
        max_model_len=most,
        block_size=wish.block_size,
        num_blocks=num_blocks,
    )
    lab = chapter("ch10")
    decoder = chapter("ch08").Decoder(model.config, model.weights)
    try:
        if num_blocks * wish.block_size > MOST_SLOTS:
            raise MemoryError
        executor = lab.TorchExecutor(decoder, num_blocks, wish.block_size)
    except (MemoryError, RuntimeError):  # as torch says it
        raise DecodeLabError(no_room(config)) from None
    return lab.Engine(scheduler(config, wish.submission), executor, model.tokenizer)


def scheduler(config: SchedulerConfig, submission: Path | None = None) -> Any:
    """The scheduler of a notebook, or chapter 7's; first come, first served.

    DecodeLabError for a notebook of another chapter. What is missing in it raises when it is needed.
    """
    policy = chapter("ch03").FCFS()
    if submission is None:
        return chapter("ch07").ChunkedScheduler(config, policy)
    notebook = read_notebook(submission)
    data = chapter_of(notebook, submission)
    if data.id not in SCHEDULERS:
        raise DecodeLabError(
            both(
                en=f"{submission} is a notebook of {data.id}; give one of chapter 6 or 7, whose scheduler gives out memory.",
                zh=f"{submission} 是 {data.id} 的 notebook；请给第 6 或第 7 章的，那里的调度器会分配显存。",
            )
        )
    parts = splice.whole(data, find_answers(notebook.cells, data))
    return getattr(chapters.load("generate_scheduler", parts), SCHEDULERS[data.id])(config, policy)


def answered(texts: Sequence[str], wish: Wish, lines: Lines | None = None) -> Any:
    """An engine that has answered these prompts; ``lines`` shows the answers as they grow, by their number from 1.

    DecodeLabError for a prompt that leaves no room for an answer, that is empty, or that the scheduler refuses.
    """
    device, dtype = place(wish.device, wish.dtype)
    model = load(wish.model, dtype, device)
    prompts = [encoded(model, text) for text in texts]
    made = engine(wish, model, prompts)
    for number, ids in enumerate(prompts, 1):
        wanted = min(wish.max_new_tokens, model.config.max_positions - len(ids))
        try:
            made.add_request(
                ids, wanted, request_id=number, sampling=wish.sampling, stop_token_ids=model.config.eos
            )
        except Refused as refusal:
            raise DecodeLabError(refused(texts[number - 1], refusal.reason)) from None
    while made.active:
        made.step()
        if lines:
            for number, output in made.outputs.items():
                lines.show(f"{number}", texts[number - 1] + output.text, over=output.reason is not None)
    return made


def report(made: Any) -> tuple[str, dict[str, Any]]:
    """What an engine did: as text, the event strip and its numbers; and as data, with the answers."""
    happened, stats = events_of(made.steps), made.stats()
    outputs = [
        {"request_id": i, "text": one.text, "token_ids": one.token_ids, "reason": one.reason}
        for i, one in made.outputs.items()
    ]
    text = "\n".join([strip_text(happened), say(LEGEND), "", table_text(*table(stats))])
    return text, {"outputs": outputs, "events": happened, "stats": stats}


def no_room(config: SchedulerConfig) -> Text:
    """What to say where the memory does not hold the blocks."""
    blocks, size = config.num_blocks, config.block_size
    return both(
        en=f"This machine's memory has no room for {blocks} blocks of {size} tokens; choose a smaller --num-blocks or "
        "--block-size.",
        zh=f"这台机器的内存放不下 {blocks} 个 {size} token 的块；请调小 --num-blocks 或 --block-size。",
    )


def encoded(model: Model, text: str) -> list[int]:
    """The prompt's token ids."""
    ids = model.tokenizer.encode(text)
    most = model.config.max_positions
    if not ids:
        raise DecodeLabError(
            both(en="A prompt is empty; write at least one character.", zh="提示词是空的；请至少写一个字符。")
        )
    if len(ids) >= most:
        raise DecodeLabError(
            both(
                en=f"The prompt {text[:20]!r}… has {len(ids)} tokens, and {model.config.name} has room for {most} with the "
                "answer; shorten it.",
                zh=f"提示词“{text[:20]}……”有 {len(ids)} 个 token，而 {model.config.name} 连同回答只放得下 {most} 个；"
                "请缩短它。",
            )
        )
    return ids


def refused(text: str, reason: str) -> Text:
    """What to say where the scheduler can never serve a prompt."""
    option = "--max-num-batched-tokens" if reason == "over_budget" else "--num-blocks"
    return both(
        en=f"The scheduler refuses the prompt {text[:20]!r} ({reason}); give it a larger {option}.",
        zh=f"调度器拒绝了提示词“{text[:20]}”（{reason}）；请调大 {option}。",
    )


def events_of(steps: Sequence[Step]) -> list[LoggedEvent]:
    """What steps did to whom."""
    requests: list[Request] = [request for step in steps for request in step.arrived]
    return events(record_all(steps), requests)


def simulated(steps: Sequence[Step], scheduler: Any) -> list[LoggedEvent]:
    """What the simulator makes of the same requests, which come in the same steps and whose answers end where they did."""
    over = {i: reason for step in steps for i, reason in step.finished.items()}
    made = Counter(i for step in steps for i, tokens in step.tokens.items() for _ in tokens)
    gone = {i: number for number, step in enumerate(steps) for i in step.aborted}
    jobs = []
    for number, step in enumerate(steps):
        for request in step.arrived:
            i = request.request_id
            stop_at = made[i] - 1 if over.get(i) == "stop" else None
            jobs.append(Job(replace(request, stop_token_ids=(EOS,)), number, stop_at, gone.get(i)))
    return events_of(list(Loop(jobs, scheduler, SimExecutor(), StepClock(), watch=True)))
