"""Record what Hugging Face's transformers write, greedily, with the models that the course loads.

python -m training.greedy src/decodelab/recorded/transformers-5.17.0-greedy.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from decodelab.models.folders import folder_of

LENGTH = 64  # tokens
NEAR = 1e-4  # two logits nearer than this may change places in another implementation
PROMPTS = {
    "embedded": ["春风", "明月几时有", "In the beginning God created", "And he said unto them"],
    "smollm2": ["The capital of France is", "春天来了，"],
}
QUESTIONS = {"embedded": [], "smollm2": ["What is the capital of France?", "用一句话介绍北京。"]}


def record(name: str) -> list[dict[str, Any]]:
    """For each prompt and question: its token ids, those of the answer, and at which of these two were nearly tied."""
    folder = folder_of(name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    runs = [{"prompt": text, "ids": tokenizer(text)["input_ids"]} for text in PROMPTS[name]]
    for text in QUESTIONS[name]:
        said = [{"role": "user", "content": text}]
        encoded: Any = tokenizer.apply_chat_template(said, add_generation_prompt=True)
        runs.append({"question": text, "ids": encoded["input_ids"]})
    return [run | greedy(model, run["ids"]) for run in runs]


def greedy(model: Any, ids: list[int]) -> dict[str, Any]:
    """The answer to ``ids``, not ended by any token, and the places of near ties in it."""
    prompt = torch.tensor([ids])
    made = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=LENGTH,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    best = torch.stack(made.logits)[:, 0].topk(2).values
    near = (best[:, 0] - best[:, 1] < NEAR).nonzero().flatten().tolist()
    return {"tokens": made.sequences[0, len(ids) :].tolist(), "near_ties": near}


def main(path: Path) -> None:
    """Write the runs of every model, a line each."""
    runs = {name: record(name) for name in PROMPTS}
    lines = (
        f'"{name}": [\n' + ",\n".join(json.dumps(run, ensure_ascii=False) for run in made) + "\n]"
        for name, made in runs.items()
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
