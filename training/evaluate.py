"""What the model is judged by: held-out bits a character, and how much of what it writes is copied.

python evaluate.py CHECKPOINTS/checkpoint.pt DATA
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from training.batches import END, START, padded
from training.corpus import corpus
from training.model import Decoder, Shape

PROMPTS = {
    "zh": ["", "春风", "明月", "故人"],
    "en": ["In the beginning", "The spring", "And the king", "Behold"],
}


@torch.no_grad()
def bits_per_character(model: Decoder, tokenizer: Tokenizer, texts: list[str], at_once: int = 16) -> float:
    """Bits that the model needs for ``texts``, each from its start to its end token, by their characters."""
    bits = 0.0
    texts = sorted(texts, key=len)
    for i in range(0, len(texts), at_once):
        ids = padded(tokenizer, texts[i : i + at_once])
        logits = model(ids[:, :-1])
        nats = F.cross_entropy(
            logits.flatten(0, 1).float(), ids[:, 1:].flatten(), ignore_index=START, reduction="sum"
        )
        bits += nats.item() / math.log(2)
    return bits / sum(map(len, texts))


@torch.no_grad()
def write(
    model: Decoder, tokenizer: Tokenizer, prompt: str, count: int, tokens: int, generator: torch.Generator
) -> list[str]:
    """``count`` texts that begin with ``prompt``, sampled, each to its end or to so many more ``tokens``."""
    ids = torch.tensor([tokenizer.encode(prompt).ids] * count)
    for _ in range(tokens):
        chances = model(ids)[:, -1].softmax(-1)
        ids = torch.cat((ids, torch.multinomial(chances, 1, generator=generator)), 1)
    return [tokenizer.decode(row[: row.index(END)] if END in row else row) for row in ids.tolist()]


def copied(texts: list[str], source: list[str], run: int = 21) -> float:
    """Share of the characters of ``texts`` that lie in a run of ``run`` or more which also stands in ``source``."""
    windows = {document[i : i + run] for document in source for i in range(len(document) - run + 1)}
    marked = total = 0
    for text in texts:
        hit = [text[i : i + run] in windows for i in range(len(text) - run + 1)]
        marked += sum(any(hit[max(0, i - run + 1) : i + 1]) for i in range(len(text)))
        total += len(text)
    return marked / total if total else 0.0


def judge(checkpoint: Path, data: Path, each: int = 50) -> Iterator[dict[str, Any]]:
    """For each language: held-out bits a character, share copied in runs over 20 characters, and a text a prompt, of ``each`` written."""
    state = torch.load(checkpoint, weights_only=True)
    model = Decoder(Shape(**state["shape"]))
    model.load_state_dict(state["mean"])
    tokenizer = Tokenizer.from_file(str(checkpoint.parent / "tokenizer.json"))
    texts, generator = corpus(data), torch.Generator().manual_seed(0)
    for lang, prompts in PROMPTS.items():
        written = [write(model, tokenizer, prompt, each, 80, generator) for prompt in prompts]
        yield {
            "language": lang,
            "step": state["at"],
            "bits_per_character": round(bits_per_character(model, tokenizer, texts.held_out[lang]), 4),
            "copied": round(copied(list(chain(*written)), texts.train[lang]), 4),
            "texts": [batch[0] for batch in written],
        }


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path, help="the folder that fetch.py filled")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for line in judge(args.checkpoint, args.data):
        print(json.dumps(line, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
