"""The tokenizer: a Chinese character is one token, English words are pieces, all else is bytes."""

from __future__ import annotations

import json

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ("<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
VOCABULARY = 4608
WORDS = r" ?[A-Za-z]+|\n|[^A-Za-z]"


def train_tokenizer(documents: list[str]) -> Tokenizer:
    """A byte-fallback BPE over ``documents``, in the form that Hugging Face's libraries read.

    Every character of the documents is a token; the rest of the vocabulary are pieces of English words.
    A character that is none of them is written as the bytes of its UTF-8.
    """
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL + BYTES),
        initial_alphabet=sorted(set("".join(documents))),
        show_progress=False,
    )
    learnt.train_from_iterator(documents, trainer)
    pieces = json.loads(learnt.to_str())["model"]
    names = [*SPECIAL, *BYTES, *sorted(pieces["vocab"], key=pieces["vocab"].get)]
    return assembled(names, [tuple(merge) for merge in pieces["merges"]])


def assembled(names: list[str], merges: list[tuple[str, str]]) -> Tokenizer:
    """The tokenizer whose token i is ``names[i]``; it puts ``<s>`` before what it encodes."""
    vocab = {name: i for i, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=False))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocab["<s>"])]
    )
    return tokenizer
