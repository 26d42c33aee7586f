"""Parity, step by step and field by field: a scheduler of the course against recorded runs of vLLM's own, and the
same scheduler in two worlds.

The recordings' form is described in recorded/README.md. What a scheduler does not support counts as not exact.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from decodelab.contract import Executor, Scheduler, SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both
from decodelab.log import BESIDE, FIELDS, Record, record_all
from decodelab.request import EOS, Job, Request
from decodelab.run import Loop, StepClock
from decodelab.sim.executor import SimExecutor

RECORDED = Path(__file__).parent / "recorded"

# Makes a scheduler from a configuration and "fcfs" or "priority"; None where it has no such thing.
Maker: TypeAlias = "Callable[[SchedulerConfig, str], Scheduler | None]"


@dataclass(frozen=True)
class Workload:
    """One recorded run: what was asked, and what vLLM's scheduler did."""

    name: str
    config: SchedulerConfig
    policy: str  # "fcfs" | "priority"
    jobs: list[Job]
    events: list[Record]


@dataclass(frozen=True)
class Difference:
    """The first place where two runs part."""

    workload: str
    text: Text
    step: int | None = None
    field: str = ""
    want: Any = None
    got: Any = None


@dataclass(frozen=True)
class Sides:
    """What the two runs of a comparison are called."""

    want: Text
    got: Text


RECORDING = Sides(both(en="vLLM's run", zh="vLLM 的运行"), both(en="your run", zh="你的运行"))
WORLDS = Sides(both(en="the simulator", zh="模拟器"), both(en="the engine", zh="引擎"))


def recorded(name: str) -> Path:
    """A recording that the package carries: ``"plain"``, ``"priority"`` or ``"prefix"``."""
    return RECORDED / f"vllm-0.33.0-{name}.jsonl.gz"


def workloads(path: str | Path) -> list[Workload]:
    """The workloads of a recording, gzipped or not; DecodeLabError names the first line that is none."""
    opened = gzip.open if str(path).endswith(".gz") else open
    found = []
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    found.append(_workload(line, f"{path}", number))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DecodeLabError(
            both(
                en=f"Cannot read {path} ({error}); check the path.",
                zh=f"读不了 {path}（{error}）；请检查路径。",
            )
        ) from error
    if not found:
        raise DecodeLabError(
            both(
                en=f"{path} holds no workload; give a recording with a workload a line.",
                zh=f"{path} 里没有负载；请给出每行一个负载的运行记录。",
            )
        )
    return found


def _workload(line: str, name: str, number: int) -> Workload:
    try:
        data = json.loads(line)
        lacking = [f for event in data["events"] for f in FIELDS if f not in event]
        if lacking:
            raise KeyError(lacking[0])
        jobs = [_job(request) for request in data["requests"]]
        return Workload(data["name"], _config(data["config"]), data["config"]["policy"], jobs, data["events"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DecodeLabError(
            both(
                en=f"{name}, line {number} is not a recorded workload ({type(error).__name__}: {error}); its form is "
                "described in decodelab/recorded/README.md.",
                zh=f"{name} 第 {number} 行不是运行记录（{type(error).__name__}：{error}）；"
                "格式见 decodelab/recorded/README.md。",
            )
        ) from error


def _config(data: dict[str, Any]) -> SchedulerConfig:
    """vLLM's settings as ours: its pool has a null block that no request gets, and its watermark counts it."""
    usable = data["num_blocks"] - 1
    spare = int(data["watermark"] * data["num_blocks"])
    return SchedulerConfig(
        max_num_seqs=data["max_num_seqs"],
        max_num_batched_tokens=data["max_num_batched_tokens"],
        max_model_len=data["max_model_len"],
        block_size=data["block_size"],
        num_blocks=usable,
        watermark=(spare + 0.5) / usable if spare else 0.0,
        reserve_full_prompt=data["reserve_full_isl"],
        enable_chunked_prefill=data["enable_chunked_prefill"],
        long_prefill_token_threshold=data["long_prefill_token_threshold"],
        enable_prefix_caching=data["enable_prefix_caching"],
    )


def _job(data: dict[str, Any]) -> Job:
    prompt = tuple(data["prompt"])
    priority = -data["priority"]  # higher is more urgent here
    request = Request(
        data["id"], 0.0, len(prompt), data["max_tokens"], priority, prompt=prompt, stop_token_ids=(EOS,)
    )
    return Job(request, data["arrival"], data.get("stop_at"), data.get("abort_at"))


def differences(found: list[Workload], maker: Maker, block_ids: bool = False) -> Iterator[Difference | None]:
    """For each workload the first difference, or None where every step is exact.

    block_ids: compare physical block ids too; vLLM's are ours + 1.
    """
    fields = [field for field in FIELDS if block_ids or field != "blocks"]
    for workload in found:
        scheduler = maker(workload.config, workload.policy)
        if scheduler is None:
            yield Difference(
                workload.name,
                both(
                    en=f"{workload.name} is not supported yet: its configuration needs a prefix cache.",
                    zh=f"{workload.name} 还不支持：它的配置需要前缀缓存。",
                ),
            )
        else:
            yield compared(workload, scheduler, fields)


def compared(workload: Workload, scheduler: Scheduler, fields: Sequence[str]) -> Difference | None:
    """Run the workload on the logical clock beside the recording, up to the first difference."""
    loop = Loop(workload.jobs, scheduler, SimExecutor(), StepClock(), watch=True)
    mine = (record for record in record_all(loop) if record["scheduled"])
    if "blocks" in fields:
        mine = (record | {"blocks": _plus_one(record["blocks"])} for record in mine)
    return first_difference(workload.name, workload.events, mine, fields, RECORDING)


def logical_log(jobs: Sequence[Job], scheduler: Scheduler, executor: Executor) -> Iterator[Record]:
    """The step log of a workload on the logical clock, without token ids, which only a model knows.

    Of a request's tokens in a step it says how many there are, and whether the last one stops. A step's seconds are
    the executor's: for a log that is the same in two worlds, take them from the same cost model.
    """
    stops = {job.request.request_id: job.request.stop_token_ids for job in jobs}
    for record in record_all(Loop(jobs, scheduler, executor, StepClock(), watch=True)):
        told = {i: [len(tokens), tokens[-1] in stops[i]] for i, tokens in record["tokens"].items()}
        yield record | {"tokens": told}


def two_worlds(name: str, simulator: Iterable[Record], engine: Iterable[Record]) -> Difference | None:
    """The first difference of two logs of ``logical_log``, in any field."""
    return first_difference(name, simulator, engine, (*FIELDS, *BESIDE), WORLDS)


def first_difference(
    name: str, wanted: Iterable[Record], came: Iterable[Record], fields: Sequence[str], sides: Sides
) -> Difference | None:
    """The first field of the first step in which two logs part; a run that gets stuck has parted, too."""
    mine = iter(came)
    try:
        for want in wanted:
            got = next(mine, None)
            if got is None:
                return _ended(name, want["step"], want["step"], None, sides)
            for field in fields:
                if not same(want[field], got[field]):
                    return _parted(name, want["step"], field, want[field], got[field], sides)
        extra = next(mine, None)
    except DecodeLabError as stuck:
        return Difference(name, stuck.text)
    return _ended(name, extra["step"], None, extra["step"], sides) if extra else None


def same(want: Any, got: Any) -> bool:
    """Whether two fields are equal, the order of a dict's keys included: it is the order of the batch."""
    return want == got and (not isinstance(want, dict) or list(want) == list(got))


def _plus_one(blocks: dict[Any, list[int]]) -> dict[Any, list[int]]:
    return {request_id: [block + 1 for block in table] for request_id, table in blocks.items()}


def _parted(name: str, step: int, field: str, want: Any, got: Any, sides: Sides) -> Difference:
    text = both(
        en=f"{name}, step {step}, {field}: {sides.want['en']} has {want}, {sides.got['en']} has {got}.",
        zh=f"{name} 第 {step} 步，{field}：{sides.want['zh']}是 {want}，{sides.got['zh']}是 {got}。",
    )
    return Difference(name, text, step, field, want, got)


def _ended(name: str, step: int, want: int | None, got: int | None, sides: Sides) -> Difference:
    """One of the two runs is over before ``step``."""
    over, goes_on = (sides.got, sides.want) if got is None else (sides.want, sides.got)
    text = both(
        en=f"{name}: {over['en']} ends before step {step}, {goes_on['en']} goes on.",
        zh=f"{name}：{over['zh']}在第 {step} 步之前就结束了，{goes_on['zh']}还在继续。",
    )
    return Difference(name, text, step, "step", want, got)
