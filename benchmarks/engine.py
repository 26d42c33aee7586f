"""The engine beside Hugging Face's transformers on a ragged load: same weights, type, threads and prompts, in one run.

Each row of the table serves all requests once a round; the rounds let the rows take turns. Answers end at their
length, never at a token, and only tokens that were asked for count. The rows of the engine differ in one thing each:
``paged``/``unpaged``, chapter 9's own attention over blocks of 16, or a block for each request and nothing to gather;
``+fused``, the kernels of oneDNN on the weights as they are; ``+packed``, the weights laid out for them.

With one thread the ratios are of CPU seconds, which do not count what else a machine is doing; the samples have both.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))
from _runner import SEED, measure, report

from decodelab import chapter
from decodelab.contract import SchedulerConfig
from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.models.config import Config
from decodelab.models.load import load
from decodelab.models.packed import PackedDecoder
from decodelab.models.tokenizer import library
from decodelab.models.unpaged import unpaged_attention
from decodelab.request import Job, Request
from decodelab.run import Loop, StepClock
from decodelab.sim.hardware import MODELS, ModelShape

if TYPE_CHECKING:
    import torch
else:
    torch = library("torch")  # which says what to install

SHAPES = {
    "random-smollm2": MODELS["SmolLM2-135M"],
    "random-qwen3": MODELS["Qwen3-0.6B"],
    "random-tiny": ModelShape("tiny", 2, 32, 4, 2, 8, 48, 96, tied=True),
}
ROWS = ("paged", "unpaged", "unpaged+fused", "paged+packed", "unpaged+packed")
# Two tokens whose logits are closer may change places. bfloat16 has 8 bits: from 16 to 32 its numbers are 0.125 apart.
TIE = {"float32": 1e-4, "bfloat16": 0.5, "float16": 0.0625}

Tokens = dict[Any, list[int]]
Serve = Callable[[Sequence[Job]], Tokens]


@dataclass
class Row:
    """A way to serve the load: timed by its caller; keeps its CPU seconds, and the tokens of its last run."""

    serve: Serve
    jobs: Sequence[Job]
    cpu_s: list[float] = field(default_factory=list)
    tokens: Tokens = field(default_factory=dict)

    def __call__(self) -> None:
        began = process_time()
        self.tokens = self.serve(self.jobs)
        self.cpu_s.append(process_time() - began)
        for job in self.jobs:
            assert len(self.tokens[job.request.request_id]) == job.request.max_new_tokens


class Engine:
    """Chapter 7's scheduler over chapter 10's executor, as one row of the table has it."""

    def __init__(
        self, name: str, config: Config, weights: dict[str, torch.Tensor], seqs: int, budget: int
    ) -> None:
        self.ch03, self.ch07, self.ch10 = (chapter(f"ch{n}") for n in ("03", "07", "10"))
        ch08, attention = chapter("ch08"), name.partition("+")[0]
        self.seqs, self.budget = seqs, budget
        self.attention = unpaged_attention if attention == "unpaged" else None
        if name == attention:
            self.decoder = ch08.Decoder(config, weights)
        else:
            self.decoder = PackedDecoder(config, weights, ch08.rope, reorder=name.endswith("packed"))
        self.counts: list[tuple[int, int, int]] = []  # of each step of the last run

    def __call__(self, jobs: Sequence[Job]) -> Tokens:
        """Serve all, everybody there from the start."""
        longest = max(job.request.prompt_len + job.request.max_new_tokens for job in jobs)
        size = longest if self.attention else 16
        blocks = min(self.seqs * -(-longest // size), room(self.decoder, size))
        config = SchedulerConfig(self.seqs, max(self.budget, self.seqs), block_size=size, num_blocks=blocks)
        executor = self.ch10.TorchExecutor(self.decoder, blocks, size, attention=self.attention)
        tokens: Tokens = {job.request.request_id: [] for job in jobs}
        self.counts = []
        for step in Loop(jobs, self.ch07.ChunkedScheduler(config, self.ch03.FCFS()), executor, StepClock()):
            self.counts.append(self.ch10.counts(step.plan))
            for request_id, new in step.tokens.items():
                tokens[request_id] += new
        return tokens


def room(decoder: Any, block_size: int) -> int:
    """How many blocks a GPU has memory for, something left over for computing; more than enough on the CPU."""
    if decoder.embedding.device.type == "cpu":
        return sys.maxsize
    torch.cuda.empty_cache()
    return int(0.7 * torch.cuda.mem_get_info()[0]) // (block_size * kv_bytes(decoder))


def kv_bytes(decoder: Any) -> int:
    """What one token's keys and values take in all layers."""
    config = decoder.config
    return 2 * config.layers * config.kv_heads * config.head_dim * decoder.embedding.element_size()


# --- what is served ---------------------------------------------------------------------------


def model(name: str, dtype: torch.dtype, device: str) -> tuple[Config, dict[str, torch.Tensor]]:
    """A model by its name, or random weights of a known shape: how fast it is does not depend on them."""
    if name not in SHAPES:
        found = load(name, dtype, device)
        return found.config, found.weights
    config = Config(**vars(SHAPES[name]))
    torch.manual_seed(SEED)
    return config, {
        name: (torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.03).to(device, dtype)
        for name, shape in config.weights()
    }


def peers(config: Config, weights: dict[str, torch.Tensor]) -> dict[str, Serve]:
    """The two ways in which transformers serve."""
    try:
        from _peers import Transformers
    except ModuleNotFoundError:
        raise DecodeLabError(
            both(
                en='There is nothing to compare with: install transformers with  pip install "decodelab[oracle]", or say --peers none.',
                zh='没有可以比较的对象：请用  pip install "decodelab[oracle]"  安装 transformers，或者加上 --peers none。',
            )
        ) from None
    theirs = Transformers(config, weights)
    return {"generate": theirs.generate, "generate_batch": theirs.generate_batch}


def workload(requests: int, lengths: tuple[int, int], vocab: int) -> list[Job]:
    """Requests with prompts and answers of evenly drawn lengths, all there from the start."""
    drawn, jobs = random.Random(SEED), []
    for number in range(requests):
        prompt = tuple(drawn.randrange(vocab) for _ in range(drawn.randint(*lengths)))
        jobs.append(Job(Request(number, 0.0, len(prompt), drawn.randint(*lengths), prompt=prompt)))
    return jobs


# --- what is said -----------------------------------------------------------------------------


def compared(want: Tokens, got: Tokens, jobs: Sequence[Job], decoder: Any, tie: float) -> dict[str, Any]:
    """How many answers are the same, part at a tie, or differ; and the largest gap at which one parts.

    The gap is between the logits, by chapter 8's decoder, of the two tokens where an answer first parts.
    """
    gaps = []
    for job in jobs:
        ours, theirs = got[job.request.request_id], want[job.request.request_id]
        parts = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), None)
        if parts is not None:
            logits = next_logits(decoder, [*job.request.prompt, *ours[:parts]])
            gaps.append(float(abs(logits[ours[parts]] - logits[theirs[parts]])))
    ties = sum(gap < tie for gap in gaps)
    found = {"same": len(jobs) - len(gaps), "tie": ties, "different": len(gaps) - ties}
    return found | {"largest_gap": round(max(gaps, default=0.0), 6)}


@torch.inference_mode()
def next_logits(decoder: Any, tokens: list[int]) -> torch.Tensor:
    """The logits (vocab,) of what follows ``tokens``, in float32."""
    ids = torch.tensor(tokens, device=decoder.embedding.device)
    places = torch.arange(len(ids), device=ids.device)
    return decoder.logits(decoder.forward(ids, places, decoder.cache(len(ids)))[-1]).float()


def bandwidth(device: str) -> float:
    """Bytes/s that this machine reads and writes in a large copy: the best of several."""
    source = torch.empty(2**28 if device == "cuda" else 2**24, device=device)
    target, best = torch.empty_like(source), float("inf")
    for _ in range(10):
        began = perf_counter()
        target.copy_(source)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, perf_counter() - began)
    return 2 * source.nbytes / best


def least_seconds(engine: Engine, bytes_per_s: float) -> float:
    """What the engine's last run takes if it only reads: all weights in each step, and the cache of who is in it."""
    weights = engine.decoder.config.params * engine.decoder.embedding.element_size()
    return sum(weights + kv * kv_bytes(engine.decoder) for _, kv, _ in engine.counts) / bytes_per_s


def table(
    tokens: int, seconds: dict[str, list[float]], same: dict[str, dict[str, int]], peers: list[str]
) -> None:
    """Print a line for each row."""
    print(
        f"{'':16} {'seconds':>8} {'tokens/s':>8} "
        + " ".join(f"{'× ' + name:>17}" for name in peers)
        + "  tokens"
    )
    for name, samples in seconds.items():
        faster = " ".join(f"{ratio(seconds[peer], samples):17.2f}" for peer in peers)
        print(f"{name:16} {median(samples):8.2f} {tokens / median(samples):8.1f} {faster}  {same[name]}")


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """How many times faster ours is: the median over the rounds, each by itself."""
    return round(median(a / b for a, b in zip(theirs, ours, strict=True)), 2)


def alone(args: argparse.Namespace) -> bool:
    """Whether CPU seconds tell what wall seconds would on an idle machine: one thread, and no GPU to wait for."""
    return args.threads == 1 and args.device == "cpu"


def told(
    args: argparse.Namespace, decoder: Any, rows: dict[str, Row], measured: dict[str, Any], peers: list[str]
) -> int:
    """Print the table and the JSON line and keep the samples; 1 where the engine's tokens differ and no tie explains it."""
    wall, cpu = measured["samples_s"], {name: row.cpu_s for name, row in rows.items()}
    seconds, want = cpu if alone(args) else wall, next(iter(rows.values()))
    same = {
        name: compared(want.tokens, row.tokens, row.jobs, decoder, TIE[args.dtype])
        for name, row in rows.items()
    }
    tokens = sum(job.request.max_new_tokens for job in want.jobs)
    table(tokens, seconds, same, peers)
    copied = bandwidth(args.device)
    engines = {name: row.serve for name, row in rows.items() if isinstance(row.serve, Engine)}
    last = list(engines)[-1]
    report(
        "engine" + "".join(f"-{odd}" for odd in (args.dtype, args.device) if odd not in ("float32", "cpu")),
        measured | {"cpu_s": cpu},
        shows="wall seconds in which each row answers all requests, which are there from the start; cpu_s: its CPU seconds",
        not_shown="arrivals over time, sampling, stop tokens, prefix caching, loading and laying out the weights",
        settings=vars(args),
        versions={name: version(name) for name in ("torch", "transformers") if name == "torch" or peers},
        tokens=tokens,
        same_tokens=same,
        tie=TIE[args.dtype],
        clock="cpu" if seconds is cpu else "wall",
        faster_than={peer: {name: ratio(seconds[peer], seconds[name]) for name in engines} for peer in peers},
        faster_than_by_wall={
            peer: {name: ratio(wall[peer], wall[name]) for name in engines} for peer in peers
        },
        copy_bandwidth_gb_s=round(copied / 1e9, 1),
        share_of_bandwidth={
            name: round(least_seconds(engine, copied) / seconds[name][-1], 3)
            for name, engine in engines.items()
        },
        **{f"ratio_vs_{peer}": ratio(seconds[peer], seconds[last]) for peer in peers},
    )
    return int(any(same[name]["different"] for name in engines))


# --- the command ------------------------------------------------------------------------------


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default="smollm2", help=f"what decodelab.models.load takes, or one of {list(SHAPES)}"
    )
    parser.add_argument("--peers", choices=("transformers", "none"), default="transformers")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, help="rows of the engine")
    parser.add_argument(
        "--dtype", choices=tuple(TIE), help="float32; on a GPU bfloat16 where it has that, else float16"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="more than 1 only where nothing else runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=(16, 256), help="tokens of a prompt, and of an answer"
    )
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--max-num-batched-tokens", type=int, default=512)
    args = parser.parse_args(argv)
    if args.device == "cuda":
        args.rows = [row for row in args.rows if "+" not in row]  # those kernels are the CPU's
        args.dtype = args.dtype or ("bfloat16" if torch.cuda.get_device_capability() >= (8, 0) else "float16")
    args.dtype = args.dtype or "float32"
    if args.rounds < 1 or not args.rows:
        parser.error("--rounds: 1 or more; --rows on a GPU: paged, unpaged")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and one JSON line, write results/engine*.json; 1 where the engine's tokens differ and no tie explains it."""
    args = arguments(argv)
    torch.set_num_threads(args.threads)
    config, weights = model(args.model, getattr(torch, args.dtype), args.device)
    jobs = workload(args.requests, tuple(args.lengths), config.vocab)
    serve: dict[str, Serve] = {
        name: Engine(name, config, weights, args.max_num_seqs, args.max_num_batched_tokens)
        for name in args.rows
    }
    theirs = peers(config, weights) if args.peers == "transformers" else {}
    serve = theirs | serve
    rows = {name: Row(way, jobs) for name, way in serve.items()}
    for way in serve.values():
        way(workload(2, (4, 8), config.vocab))
    measured = measure(rows, args.rounds, warm_up=False)
    return told(args, chapter("ch08").Decoder(config, weights), rows, measured, list(theirs))


if __name__ == "__main__":
    sys.exit(main())
