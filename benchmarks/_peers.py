"""Hugging Face's transformers as neighbours of the engine: its ``generate`` and its continuous batching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from decodelab.models.config import Config
from decodelab.request import Job

WIDTH = 16  # requests in a static batch
PAGED: dict[str, Any] = {
    "block_size": 32,
    "max_requests_per_batch": 16,
    "max_batch_tokens": 256,
}  # its best here; README.md


class Transformers:
    """A model of transformers with the engine's own weights; both ways of it answer every request to its full length."""

    def __init__(self, config: Config, weights: dict[str, torch.Tensor]) -> None:
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        kind = "qwen3" if config.qk_norm else "llama"
        embedding = weights["model.embed_tokens.weight"]
        with torch.device(embedding.device):
            self.model = transformers.AutoModelForCausalLM.from_config(
                transformers.AutoConfig.for_model(kind, **shape(config)), dtype=embedding.dtype
            ).eval()
        head = {"lm_head.weight": weights.get("lm_head.weight", embedding)}
        self.model.load_state_dict(weights | head)

    @torch.inference_mode()
    def generate(self, jobs: Sequence[Job]) -> dict[Any, list[int]]:
        """Batches of WIDTH in the order of arrival, padded on the left; each runs until its longest answer is whole."""
        answers = {}
        for start in range(0, len(jobs), WIDTH):
            batch = jobs[start : start + WIDTH]
            prompts = [list(job.request.prompt) for job in batch]
            longest = max(map(len, prompts))
            device = self.model.device
            padded = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=device)
            mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
            made = self.model.generate(input_ids=padded, attention_mask=mask, generation_config=greedy(batch))
            for job, row in zip(batch, made[:, longest:].tolist(), strict=True):
                answers[job.request.request_id] = row[: job.request.max_new_tokens]
        return answers

    def generate_batch(self, jobs: Sequence[Job]) -> dict[Any, list[int]]:
        """Its continuous batching, through the manager that ``generate_batch`` stands on: that has one length for all."""
        longest = max(job.request.prompt_len + job.request.max_new_tokens for job in jobs)
        blocks = PAGED["max_requests_per_batch"] * -(-longest // PAGED["block_size"])
        settings = transformers.ContinuousBatchingConfig(**PAGED, num_blocks=blocks)
        with self.model.continuous_batching_context_manager(
            generation_config=greedy(jobs, -1), continuous_batching_config=settings, block=True, timeout=5
        ) as manager:
            theirs = {
                manager.add_request(list(job.request.prompt), max_new_tokens=job.request.max_new_tokens): job
                for job in jobs
            }
            answers: dict[Any, list[int]] = {}
            while len(answers) < len(jobs):
                result = manager.get_result(timeout=1)
                if result and result.is_finished():
                    answers[theirs[result.request_id].request.request_id] = result.generated_tokens
                elif not result and not manager.is_running():
                    raise RuntimeError("the manager of transformers has stopped")
        return answers


def greedy(jobs: Sequence[Job], eos: int | None = None) -> Any:
    """No sampling, and no token that ends an answer: None says so to one of the two, -1 to the other."""
    most = max(job.request.max_new_tokens for job in jobs)
    return transformers.GenerationConfig(
        do_sample=False, eos_token_id=eos, pad_token_id=0, max_new_tokens=most
    )


def shape(config: Config) -> dict[str, Any]:
    """The config in the names of transformers."""
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "tie_word_embeddings": config.tied,
        "rms_norm_eps": config.eps,
        "max_position_embeddings": config.max_positions,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": 0,
    }
