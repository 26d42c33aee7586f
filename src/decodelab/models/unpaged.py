"""Attention without pages: where each request lies in one block, nothing has to be gathered."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.models.tokenizer import library

if TYPE_CHECKING:
    from torch import Tensor


def unpaged_attention(q: Tensor, keys: Tensor, values: Tensor, batch: Any) -> Tensor:
    """Takes the place of chapter 9's ``paged_attention``: each request reads its block where it lies, by itself.

    q (rows, heads, dim); keys and values of one layer (slots, kv_heads, dim); batch: a ``Batch`` of chapter 9 whose
    ``block_size`` is no less than its longest sequence, else DecodeLabError. A request with one row has the heads of
    a group as rows of their KV head, so that no key is copied; it needs no mask either, for there is no padding.
    """
    if max(batch.seq_lens) > batch.block_size:
        raise DecodeLabError(too_long(batch))
    k, v = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]
    counts = [end - start for start, end in pairwise(batch.query_start_loc)]
    rows = q.unflatten(1, (keys.shape[1], -1)).split(counts)
    places = (batch.block_tables[:, 0] * batch.block_size).tolist()
    mixed = [
        alone(own, k.narrow(2, place, length), v.narrow(2, place, length))
        for own, place, length in zip(rows, places, batch.seq_lens, strict=True)
    ]
    return library("torch").cat(mixed).flatten(1, 2)


def alone(rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """One request's last rows (new, kv_heads, group, dim) over its keys and values (1, kv_heads, length, dim); shape of rows."""
    torch, (new, kv_heads, *_), length = library("torch"), rows.shape, keys.shape[2]
    attention = torch.nn.functional.scaled_dot_product_attention
    if new == 1:
        return attention(rows, keys, values)
    q, whole = rows.flatten(1, 2).transpose(0, 1)[None], new == length
    seen = None if whole else torch.ones(new, length, dtype=torch.bool, device=q.device).tril(length - new)
    mixed = attention(q, keys, values, attn_mask=seen, is_causal=whole, enable_gqa=True)
    return mixed[0].transpose(0, 1).unflatten(1, (kv_heads, -1))


def too_long(batch: Any) -> dict[str, str]:
    """What to say where a request would need a second block."""
    longest = max(batch.seq_lens)
    return both(
        en=f"Without pages a request lies in one block, and one of {longest} tokens does not fit into {batch.block_size}: "
        f"make block_size {longest} or more, or use chapter 9's paged_attention.",
        zh=f"不分页时，一个请求占一块，而 {longest} 个 token 放不进 {batch.block_size} 个槽位的块："
        f"请把 block_size 设为至少 {longest}，或者用第 9 章的 paged_attention。",
    )
