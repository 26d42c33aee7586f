"""Train the embedded model until a signal stops it; called again, it goes on from its checkpoint.

The learning rate is constant and the mean of the late weights is what counts, so a run can end at any step;
``--anneal`` then takes the rate to zero and writes ``final.pt``. Rows depend on the step at which a run was
taken up, so the log of losses says all that repeating a run needs.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from training.batches import END, START, Rows
from training.corpus import Corpus, corpus
from training.evaluate import bits_per_character
from training.model import Decoder, Shape
from training.optimizer import optimizers
from training.start import embedding
from training.tokens import train_tokenizer

SHARES = {"zh": 0.65, "en": 0.35}
LENGTH = 256
ROWS, MICRO = 16, 4  # rows a step, and rows at once: these fit a core's cache
INTERVAL = 180  # seconds from one checkpoint to the next
KEEP = 0.998  # of the running mean of the weights, a step
WARM_UP = 100
SAMPLE = {"zh": 200, "en": 30}  # held-out documents that the log goes by


class Run:
    """A training run: model, mean of its weights, optimizers and the step it is at."""

    def __init__(
        self, shape: Shape, rate: float = 3e-3, matrix_rate: float = 0.02, compiled: bool = True
    ) -> None:
        torch.manual_seed(0)
        self.model, self.mean = Decoder(shape), Decoder(shape)
        self.mean.load_state_dict(self.model.state_dict())
        self.optimizers = optimizers(self.model, rate, matrix_rate)
        self.rates = (matrix_rate, rate)
        loss = partial(cross_entropy, self.model)
        self.loss = torch.compile(loss) if compiled else loss
        self.at = 0

    def begin(self, tokenizer: Tokenizer, texts: dict[str, list[str]]) -> None:
        """Give the embedding its start, from the texts that are learnt from."""
        encoded = [e.ids for lang in SHARES for e in tokenizer.encode_batch(texts[lang])]
        ids = torch.tensor([token for document in encoded for token in (*document, END)])
        start = embedding(ids, *self.model.embed_tokens.weight.shape)
        for model in (self.model, self.mean):
            model.embed_tokens.weight.data.copy_(start)

    def step(self, rows: Tensor, scale: float) -> float:
        """One update from ``rows``, with ``scale`` times the learning rates; returns the loss in nats a token."""
        parts = rows.split(MICRO)
        total = 0.0
        for part in parts:
            loss = self.loss(part) / len(parts)
            loss.backward()
            total += loss.item()
        for optimizer, rate in zip(self.optimizers, self.rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
            optimizer.step()
            optimizer.zero_grad()
        self.at += 1
        keep = min(KEEP, self.at / (self.at + 10))
        with torch.no_grad():
            for mean, new in zip(self.mean.parameters(), self.model.parameters(), strict=True):
                mean.lerp_(new, 1 - keep)
        return total

    def save(self, path: Path) -> None:
        """Write everything that going on needs, there whole or not at all."""
        state = {
            "at": self.at,
            "shape": vars(self.model.shape),
            "model": self.model.state_dict(),
            "mean": self.mean.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def load(self, path: Path) -> None:
        """Take up what ``save`` wrote."""
        state = torch.load(path, weights_only=True)
        self.at = state["at"]
        self.model.load_state_dict(state["model"])
        self.mean.load_state_dict(state["mean"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def cross_entropy(model: Decoder, ids: Tensor) -> Tensor:
    """Mean loss in nats of the tokens after the first of each row; what begins a document is not guessed."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), ignore_index=START)


def train(run: Run, texts: Corpus, tokenizer: Tokenizer, folder: Path, anneal: int = 0) -> None:
    """Update until a signal or, where ``anneal`` says how many steps are left, until the rate is zero."""
    rows = Rows(tokenizer, texts.train, SHARES, LENGTH, seed=run.at)
    first, stopped, losses = run.at, [], []
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stopped.append(True))
    saved = time.monotonic()
    while not stopped and not (anneal and run.at == first + anneal):
        scale = (1 - (run.at - first) / anneal) if anneal else min(1, (run.at + 1) / WARM_UP)
        losses.append(run.step(rows.batch(ROWS), scale))
        last = bool(stopped) or run.at == first + anneal
        if last or time.monotonic() - saved > INTERVAL:
            note(folder, run, tokenizer, losses, texts.held_out)
            run.save(folder / ("final.pt" if anneal else "checkpoint.pt"))
            losses.clear()
            saved = time.monotonic()


def note(
    folder: Path, run: Run, tokenizer: Tokenizer, losses: list[float], held_out: dict[str, list[str]]
) -> None:
    """Add a line to the log of losses: step, seconds of CPU in this process, nats a token, held-out bits a character."""
    line: dict[str, Any] = {
        "step": run.at,
        "cpu_s": round(time.process_time()),
        "loss": round(sum(losses) / len(losses), 4),
    }
    for lang, texts in held_out.items():
        line[lang] = round(bits_per_character(run.mean, tokenizer, texts[: SAMPLE[lang]]), 4)
    with (folder / "losses.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")


def the_tokenizer(folder: Path, texts: dict[str, list[str]]) -> Tokenizer:
    """The run's tokenizer, made at its start."""
    path = folder / "tokenizer.json"
    if not path.exists():
        train_tokenizer([text for lang in sorted(texts) for text in texts[lang]]).save(str(path))
    return Tokenizer.from_file(str(path))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder that fetch.py filled")
    parser.add_argument("folder", type=Path, help="where checkpoints, the tokenizer and the log are")
    parser.add_argument(
        "--anneal", type=int, default=0, metavar="STEPS", help="end: rate to zero over so many steps"
    )
    parser.add_argument(
        "--shape", type=json.loads, default={}, help="JSON: sizes that differ from the model's"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.folder.mkdir(parents=True, exist_ok=True)
    run = Run(Shape(**args.shape))
    texts = corpus(args.data)
    tokenizer = the_tokenizer(args.folder, texts.train)
    if (args.folder / "checkpoint.pt").exists():
        run.load(args.folder / "checkpoint.pt")
    else:
        run.begin(tokenizer, texts.train)
    train(run, texts, tokenizer, args.folder, args.anneal)


if __name__ == "__main__":
    main()
