"""Chapter 9 by a second author, who had read the learner's notebook, its contract and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def but(right: str, *changes: tuple[str, str]) -> str:
    """A right answer with one thing in it done otherwise."""
    for old, new in changes:
        assert old in right, f"{old!r} is not in the answer"
        right = right.replace(old, new)
    return right


PACK = """
tokens, positions, query_start_loc, seq_lens = [], [], [0], []
for request_id, count in plan.scheduled.items():
    start = plan.start[request_id]
    tokens += sequences[request_id][start : start + count]
    positions += range(start, start + count)
    query_start_loc.append(len(tokens))
    seq_lens.append(start + count)
"""
PACKS = [
    ("the whole text of everybody", but(PACK, ("[start : start + count]", ""))),
    ("from the beginning", but(PACK, ("[start : start + count]", "[:count]"))),
    ("the newest ones", but(PACK, ("[start : start + count]", "[-count:]"))),
    ("all that is left", but(PACK, ("[start : start + count]", "[start:]"))),
    ("up to count", but(PACK, ("[start : start + count]", "[start:count]"))),
    ("the token before", but(PACK, ("[start : start + count]", "[max(start - 1, 0) :][:count]"))),
    ("the tokens behind", but(PACK, ("[start : start + count]", "[start + 1 : start + count + 1]"))),
    ("every chunk begins at 0", but(PACK, ("range(start, start + count)", "range(count)"))),
    (
        "places in the batch",
        but(PACK, ("range(start, start + count)", "range(len(positions), len(positions) + count)")),
    ),
    (
        "the first token is number 1",
        but(PACK, ("range(start, start + count)", "range(start + 1, start + count + 1)")),
    ),
    ("everybody at its start", but(PACK, ("range(start, start + count)", "[start] * count"))),
    ("everybody at its end", but(PACK, ("range(start, start + count)", "[start + count - 1] * count"))),
    (
        "places from the end of the text",
        but(
            PACK,
            (
                "range(start, start + count)",
                "range(len(sequences[request_id]) - count, len(sequences[request_id]))",
            ),
        ),
    ),
    ("no zero in front", but(PACK, ("[0], []", "[], []"))),
    (
        "beginnings, no end",
        but(
            PACK,
            ("[0], []", "[], []"),
            ("    tokens +=", "    query_start_loc.append(len(tokens))\n    tokens +="),
            ("    query_start_loc.append(len(tokens))\n    seq", "    seq"),
        ),
    ),
    ("how many, not how far", but(PACK, ("append(len(tokens))", "append(count)"))),
    (
        "the sum of the ends",
        but(PACK, ("append(len(tokens))", "append(query_start_loc[-1] + start + count)")),
    ),
    ("one boundary too many", PACK + "query_start_loc.append(len(tokens))\n"),
    ("the last row, not the end", but(PACK, ("append(len(tokens))", "append(len(tokens) - 1)"))),
    ("a zero in front of the lengths, too", but(PACK, ("[0], []", "[0], [0]"))),
    ("lengths before the step", but(PACK, ("append(start + count)", "append(start)"))),
    ("lengths of the step", but(PACK, ("append(start + count)", "append(count)"))),
    ("lengths of the text", but(PACK, ("append(start + count)", "append(len(sequences[request_id]))"))),
    ("the last position for a length", but(PACK, ("append(start + count)", "append(start + count - 1)"))),
    (
        "room for a length",
        but(PACK, ("append(start + count)", "append(len(tables[request_id]) * block_size)")),
    ),
    (
        "a running sum of lengths",
        but(PACK, ("append(start + count)", "append(sum(seq_lens) + start + count)")),
    ),
    (
        "everybody who is known",
        but(
            PACK,
            ("in plan.scheduled.items():", "in ((i, plan.scheduled.get(i, 0)) for i in sequences):"),
            ("plan.start[request_id]", "plan.start.get(request_id, 0)"),
        ),
    ),
    (
        "in the order of the sequences",
        but(
            PACK,
            (
                "in plan.scheduled.items():",
                "in [(i, plan.scheduled[i]) for i in sequences if i in plan.scheduled]:",
            ),
        ),
    ),
    ("in the order of ids", but(PACK, ("in plan.scheduled.items():", "in sorted(plan.scheduled.items()):"))),
    (
        "decodes first",
        but(PACK, ("in plan.scheduled.items():", "in sorted(plan.scheduled.items(), key=lambda it: it[1]):")),
    ),
    (
        "decodes last",
        but(
            PACK, ("in plan.scheduled.items():", "in sorted(plan.scheduled.items(), key=lambda it: -it[1]):")
        ),
    ),
    (
        "only the new ones bring more than a token",
        but(
            PACK, ("    start = plan", "    count = count if request_id in plan.new else 1\n    start = plan")
        ),
    ),
    ("one token each", but(PACK, ("    start = plan", "    count = 1\n    start = plan"))),
    (
        "eaten up",
        but(
            PACK,
            (
                "    query_start_loc",
                "    del sequences[request_id][:0]\n    sequences[request_id][:] = sequences[request_id][: start + count]\n    query_start_loc",
            ),
        ),
    ),
    (
        "the first list is the batch's",
        but(
            PACK,
            (
                "    tokens += sequences[request_id][start : start + count]",
                "    rows = sequences[request_id]\n    tokens = rows if not tokens and not start and count == len(rows) else tokens\n    tokens += [] if tokens is rows else rows[start : start + count]",
            ),
        ),
    ),
    (
        "start moved on",
        PACK + "for request_id, count in plan.scheduled.items():\n    plan.start[request_id] += count\n",
    ),
    ("the plan emptied", PACK + "plan.start.clear()\n"),
    (
        "tables filled up in place",
        PACK
        + "most = max(len(tables[i]) for i in plan.scheduled)\nfor i in plan.scheduled:\n    tables[i].extend([0] * (most - len(tables[i])))\n",
    ),
    (
        "strangers thrown out",
        PACK + "for i in [i for i in tables if i not in plan.scheduled]:\n    del tables[i]\n",
    ),
    (
        "tensors for lists",
        PACK + "query_start_loc, seq_lens = torch.tensor(query_start_loc), torch.tensor(seq_lens)\n",
    ),
    ("floats", PACK + "seq_lens = [float(n) for n in seq_lens]\n"),
    (
        "a list in a list",
        but(
            PACK,
            (
                "    tokens += sequences[request_id][start : start + count]",
                "    tokens.append(sequences[request_id][start : start + count])",
            ),
        ),
    ),
    (
        "ids for rows",
        but(PACK, ("sequences[request_id][start : start + count]", "range(start, start + count)")),
    ),
    (
        "padded to the longest",
        but(
            PACK,
            (
                "    query_start_loc",
                "    tokens += [0] * (max(plan.scheduled.values()) - count)\n    positions += [0] * (max(plan.scheduled.values()) - count)\n    query_start_loc",
            ),
        ),
    ),
    ("a tuple of boundaries", PACK + "query_start_loc = tuple(query_start_loc)\n"),
]

SLOTS = "blocks = block_tables[rows, positions // block_size]\nreturn blocks * block_size + positions % block_size"
SLOT = [
    ("the position for the column", but(SLOTS, ("positions // block_size]", "positions]"))),
    ("the offset for the column", but(SLOTS, ("positions // block_size]", "positions % block_size]"))),
    (
        "the block's number in the request",
        but(
            SLOTS,
            (
                "blocks = block_tables[rows, positions // block_size]",
                "blocks = positions // block_size + 0 * rows",
            ),
        ),
    ),
    ("no offset", but(SLOTS, (" + positions % block_size", ""))),
    ("the whole position behind the block", but(SLOTS, (" % block_size", ""))),
    ("the block is no slot", but(SLOTS, ("blocks * block_size", "blocks"))),
    (
        "blocks of sixteen",
        but(SLOTS, ("// block_size", "// 16"), ("* block_size", "* 16"), ("% block_size", "% 16")),
    ),
    (
        "blocks of four",
        but(SLOTS, ("// block_size", "// 4"), ("* block_size", "* 4"), ("% block_size", "% 4")),
    ),
    ("with a mask for a modulo", but(SLOTS, ("positions % block_size", "(positions & (block_size - 1))"))),
    ("modulo by the width of the table", but(SLOTS, ("% block_size", "% block_tables.shape[1]"))),
    (
        "offset from the end",
        but(SLOTS, ("positions % block_size", "block_size - 1 - positions % block_size")),
    ),
    ("rounded up", but(SLOTS, ("positions // block_size", "-(-positions // block_size)"))),
    ("the true division", but(SLOTS, ("positions // block_size", "(positions / block_size).round().long()"))),
    ("the first request's blocks", but(SLOTS, ("[rows,", "[0,"))),
    (
        "rows by themselves",
        but(
            SLOTS,
            (
                "block_tables[rows, positions // block_size]",
                "block_tables[rows][..., positions // block_size]",
            ),
        ),
    ),
    ("rows in their order", but(SLOTS, ("[rows,", "[torch.arange(len(positions)) % len(block_tables),"))),
    (
        "with gather",
        but(
            SLOTS,
            (
                "block_tables[rows, positions // block_size]",
                "block_tables[rows].gather(-1, positions // block_size)",
            ),
        ),
    ),
    (
        "a table transposed",
        but(
            SLOTS,
            ("block_tables[rows, positions // block_size]", "block_tables[positions // block_size, rows]"),
        ),
    ),
    ("block 0 is nobody's", but(SLOTS, ("blocks * block_size", "(blocks - 1) * block_size"))),
    ("counted from one", but(SLOTS, ("positions // block_size]", "(positions - 1).clamp(0) // block_size]"))),
    ("floats", but(SLOTS, ("return ", "return 1.0 * "))),
    (
        "a list",
        but(
            SLOTS,
            (
                "return blocks * block_size + positions % block_size",
                "return (blocks * block_size + positions % block_size).tolist()",
            ),
        ),
    ),
    (
        "flat",
        but(
            SLOTS,
            (
                "return blocks * block_size + positions % block_size",
                "return (blocks * block_size + positions % block_size).flatten()",
            ),
        ),
    ),
    (
        "sorted",
        but(
            SLOTS,
            (
                "return blocks * block_size + positions % block_size",
                "return (blocks * block_size + positions % block_size).sort().values",
            ),
        ),
    ),
    (
        "the table multiplied where it lies",
        "block_tables *= block_size\nreturn block_tables[rows, positions // block_size] + positions % block_size",
    ),
    (
        "positions divided where they lie",
        "offset = positions % block_size\npositions //= block_size\nreturn block_tables[rows, positions] * block_size + offset",
    ),
    (
        "only for rows that are tensors",
        "return block_tables[rows.long(), positions // block_size] * block_size + positions % block_size",
    ),
    (
        "pairs only",
        "return torch.stack([block_tables[r, p // block_size] * block_size + p % block_size for r, p in zip(rows, positions)])",
    ),
]

CHUNK = """
k, v = keys[slots].transpose(0, 1), values[slots].transpose(0, 1)
seen = torch.arange(len(slots), device=q.device) <= positions[:, None]
return scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, enable_gqa=True).transpose(0, 1)
"""
CHUNKS = [
    ("no mask", but(CHUNK, ("attn_mask=seen, ", ""))),
    ("is_causal", but(CHUNK, ("attn_mask=seen, ", "is_causal=True, "))),
    (
        "a triangle in the corner below",
        but(
            CHUNK,
            (
                "torch.arange(len(slots), device=q.device) <= positions[:, None]",
                "torch.ones(len(q), len(slots), dtype=torch.bool).tril(len(slots) - len(q))",
            ),
        ),
    ),
    (
        "a triangle from the first one's place on",
        but(
            CHUNK,
            (
                "torch.arange(len(slots), device=q.device) <= positions[:, None]",
                "torch.ones(len(q), len(slots), dtype=torch.bool).tril(int(positions[0]))",
            ),
        ),
    ),
    ("a triangle from the top", but(CHUNK, ("positions[:, None]", "torch.arange(len(q))[:, None]"))),
    ("not itself", but(CHUNK, ("<= positions", "< positions"))),
    ("one too many", but(CHUNK, ("<= positions[:", "<= 1 + positions[:"))),
    ("the other way round", but(CHUNK, ("<= positions", "> positions"))),
    ("the mask of the later ones", but(CHUNK, ("attn_mask=seen", "attn_mask=~seen"))),
    ("everybody at the last place", but(CHUNK, ("positions[:, None]", "positions[-1]"))),
    ("everybody at the last place of all", but(CHUNK, ("positions[:, None]", "positions.max()"))),
    ("everybody at the first one's place", but(CHUNK, ("positions[:, None]", "positions[0]"))),
    ("in order", but(CHUNK, ("positions[:, None]", "positions.sort().values[:, None]"))),
    ("slots compared with positions", but(CHUNK, ("torch.arange(len(slots), device=q.device)", "slots"))),
    (
        "a mask of numbers",
        but(CHUNK, ("<= positions[:, None]", "<= positions[:, None]\nseen = seen.to(q.dtype)")),
    ),
    (
        "minus 1 for what is later",
        but(
            CHUNK,
            ("seen = ", "seen = 1.0 * ~("),
            (
                "positions[:, None]",
                "positions[:, None]).bool()\nseen = torch.where(seen > 0, -1.0, 0.0).to(q.dtype)",
            ),
        ),
    ),
    (
        "the KV heads take turns",
        but(
            CHUNK,
            (", enable_gqa=True", ""),
            ("attn_mask", "attn_mask"),
            (
                "seen = ",
                "k, v = k.repeat(q.shape[1] // len(k), 1, 1), v.repeat(q.shape[1] // len(v), 1, 1)\nseen = ",
            ),
        ),
    ),
    (
        "the values take turns",
        but(
            CHUNK,
            (", enable_gqa=True", ""),
            (
                "seen = ",
                "k, v = k.repeat_interleave(q.shape[1] // len(k), 0), v.repeat(q.shape[1] // len(v), 1, 1)\nseen = ",
            ),
        ),
    ),
    ("the first KV head for all", but(CHUNK, ("seen = ", "k, v = k[:1], v[:1]\nseen = "))),
    ("no groups", but(CHUNK, (", enable_gqa=True", ""))),
    (
        "the heads stay in the middle",
        "seen = torch.arange(len(slots)) <= positions[:, None]\nreturn scaled_dot_product_attention(q, keys[slots], values[slots], attn_mask=seen, enable_gqa=True)",
    ),
    ("not turned back", but(CHUNK, ("enable_gqa=True).transpose(0, 1)", "enable_gqa=True)"))),
    (
        "reshaped, not turned back",
        but(CHUNK, ("enable_gqa=True).transpose(0, 1)", "enable_gqa=True).reshape(q.shape)")),
    ),
    (
        "the beginning of the pool",
        but(CHUNK, ("keys[slots]", "keys[: len(slots)]"), ("values[slots]", "values[: len(slots)]")),
    ),
    (
        "from the first slot on",
        but(
            CHUNK,
            ("keys[slots]", "keys[slots[0] :][: len(slots)]"),
            ("values[slots]", "values[slots[0] :][: len(slots)]"),
        ),
    ),
    ("in the order of the pool", but(CHUNK, ("k, v = ", "slots = slots.sort().values\nk, v = "))),
    ("backwards", but(CHUNK, ("k, v = ", "slots = slots.flip(0)\nk, v = "))),
    ("values by the order of the pool", but(CHUNK, ("values[slots]", "values[slots.sort().values]"))),
    ("keys for values", but(CHUNK, ("values[slots]", "keys[slots]"))),
    (
        "the whole pool, masked",
        """
seen = torch.zeros(len(q), len(keys), dtype=torch.bool)
for row, at in enumerate(positions.tolist()):
    seen[row, slots[: at + 1]] = True
k, v = keys.transpose(0, 1), values.transpose(0, 1)
return scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, enable_gqa=True).transpose(0, 1)
""",
    ),
    ("only the new ones", but(CHUNK, ("k, v = ", "slots = slots[positions]\nk, v = "))),
    (
        "all but the new ones",
        but(
            CHUNK,
            (
                "<= positions[:, None]",
                "<= positions[:, None]\nseen = seen & ((torch.arange(len(slots)) < positions[0]) | (torch.arange(len(slots)) == positions[:, None]))",
            ),
        ),
    ),
    (
        "scaled twice",
        but(
            CHUNK,
            ("scaled_dot_product_attention(q.", "scaled_dot_product_attention(q.div(q.shape[-1] ** 0.5)."),
        ),
    ),
    ("not scaled", but(CHUNK, ("attn_mask=seen", "attn_mask=seen, scale=1.0"))),
    (
        "scaled by all heads' width",
        but(CHUNK, ("attn_mask=seen", "attn_mask=seen, scale=(q.shape[1] * q.shape[2]) ** -0.5")),
    ),
    ("dropout", but(CHUNK, ("attn_mask=seen", "attn_mask=seen, dropout_p=0.1"))),
    (
        "float32 whatever comes",
        but(
            CHUNK,
            ("transpose(0, 1)\nseen", "transpose(0, 1)\nq, k, v = q.float(), k.float(), v.float()\nseen"),
        ),
    ),
    (
        "q scaled in place",
        but(
            CHUNK,
            ("seen = ", "q *= q.shape[-1] ** -0.5\nseen = "),
            ("attn_mask=seen", "attn_mask=seen, scale=1.0"),
        ),
    ),
    (
        "the pool cleaned in place",
        but(CHUNK, ("k, v = ", "keys.nan_to_num_(), values.nan_to_num_()\nk, v = ")),
    ),
    ("the result into q", but(CHUNK, ("return scaled", "q[:] = scaled")) + "return q\n"),
    ("positions moved", but(CHUNK, ("seen = ", "positions += 1\nseen = "), ("<= positions", "< positions"))),
    (
        "with all of chapter 8, row by row number",
        "return ch08.attention(q, keys[slots], values[slots], torch.arange(len(q)))",
    ),
    (
        "chapter 8 at the end of the slots",
        "return ch08.attention(q, keys[slots], values[slots], torch.arange(len(slots) - len(q), len(slots)))",
    ),
    ("chapter 8 on the pool", "return ch08.attention(q, keys, values, slots[positions])"),
]

DECODE = """
k, v = keys[slots].transpose(1, 2), values[slots].transpose(1, 2)
seen = torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]
rows = q.unflatten(1, (k.shape[1], -1))
return scaled_dot_product_attention(rows, k, v, attn_mask=seen[:, None, None]).flatten(1, 2)
"""
DECODES = [
    ("no mask", but(DECODE, (", attn_mask=seen[:, None, None]", ""))),
    ("is_causal", but(DECODE, ("attn_mask=seen[:, None, None]", "is_causal=True"))),
    ("one too many", but(DECODE, ("< seq_lens", "<= seq_lens"))),
    ("one too few", but(DECODE, ("< seq_lens[:, None]", "< (seq_lens - 1).clamp(1)[:, None]"))),
    (
        "one too few, and nothing where one is all",
        but(DECODE, ("< seq_lens[:, None]", "< seq_lens[:, None] - 1")),
    ),
    ("the other way round", but(DECODE, ("< seq_lens", ">= seq_lens"))),
    ("the last ones", but(DECODE, ("< seq_lens[:, None]", ">= slots.shape[1] - seq_lens[:, None]"))),
    ("as many as the shortest", but(DECODE, ("seq_lens[:, None]", "seq_lens.min()"))),
    ("as many as the first", but(DECODE, ("seq_lens[:, None]", "seq_lens[:1, None]"))),
    ("as many as the longest", but(DECODE, ("seq_lens[:, None]", "seq_lens.max()"))),
    ("cut at the shortest", but(DECODE, ("k, v = ", "slots = slots[:, : int(seq_lens.min())]\nk, v = "))),
    (
        "where a slot comes for the first time",
        but(
            DECODE,
            (
                "torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]",
                "torch.nn.functional.pad(slots[:, 1:] > slots[:, :-1], (1, 0), value=True)",
            ),
        ),
    ),
    (
        "a slot 0 is padding",
        but(DECODE, ("< seq_lens[:, None]", "< seq_lens[:, None]\nseen = seen & (slots > 0)")),
    ),
    (
        "what fills up counts for nothing, not even where it stands first",
        but(
            DECODE,
            (
                "torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]",
                "slots != slots[:, -1:]\nseen[:, 0] = True",
            ),
        ),
    ),
    ("a mask without axes for the heads", but(DECODE, ("seen[:, None, None]", "seen"))),
    ("a mask with one axis", but(DECODE, ("seen[:, None, None]", "seen[:, None]"))),
    ("axes in front", but(DECODE, ("seen[:, None, None]", "seen[None, None]"))),
    ("the axes at the end", but(DECODE, ("seen[:, None, None]", "seen[:, None, :, None]"))),
    ("the mask of what fills up", but(DECODE, ("attn_mask=seen", "attn_mask=~seen"))),
    (
        "a mask of numbers",
        but(DECODE, ("attn_mask=seen[:, None, None]", "attn_mask=seen[:, None, None].to(q.dtype)")),
    ),
    (
        "the group is the outer one",
        but(
            DECODE,
            ("(k.shape[1], -1))", "(-1, k.shape[1])).transpose(1, 2)"),
            (".flatten(1, 2)", ".transpose(1, 2).flatten(1, 2)"),
        ),
    ),
    ("in by group, out by head", but(DECODE, ("(k.shape[1], -1))", "(-1, k.shape[1])).transpose(1, 2)"))),
    ("in by head, out by group", but(DECODE, (".flatten(1, 2)", ".transpose(1, 2).flatten(1, 2)"))),
    (
        "groups are KV heads",
        but(DECODE, ("q.unflatten(1, (k.shape[1], -1))", "q.unflatten(1, (-1, k.shape[1]))")),
    ),
    (
        "the KV heads take turns",
        but(
            DECODE,
            (
                "rows = q.unflatten(1, (k.shape[1], -1))",
                "rows = q[:, :, None]\nk, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v))",
            ),
        ),
    ),
    (
        "the values take turns",
        but(
            DECODE,
            (
                "rows = q.unflatten(1, (k.shape[1], -1))",
                "rows = q[:, :, None]\nk, v = k.repeat_interleave(q.shape[1] // k.shape[1], 1), v.repeat(1, q.shape[1] // v.shape[1], 1, 1)",
            ),
        ),
    ),
    ("the first KV head for all", but(DECODE, ("rows = ", "k, v = k[:, :1], v[:, :1]\nrows = "))),
    ("no groups", but(DECODE, ("q.unflatten(1, (k.shape[1], -1))", "q[:, :, None]"))),
    (
        "heads are rows of one KV head",
        but(
            DECODE,
            ("q.unflatten(1, (k.shape[1], -1))", "q[:, None]"),
            (
                "k, v = keys[slots].transpose(1, 2), values[slots].transpose(1, 2)",
                "k, v = keys[slots].mean(2)[:, None], values[slots].mean(2)[:, None]",
            ),
        ),
    ),
    (
        "the axes stay as they were gathered",
        but(
            DECODE,
            ("keys[slots].transpose(1, 2), values[slots].transpose(1, 2)", "keys[slots], values[slots]"),
        ),
    ),
    ("left as KV heads and groups", but(DECODE, (".flatten(1, 2)", ""))),
    (
        "a row too many",
        but(
            DECODE,
            ("rows = q.unflatten(1, (k.shape[1], -1))", "rows = q[:, :, None]"),
            (
                "attn_mask=seen[:, None, None]).flatten(1, 2)",
                "attn_mask=seen[:, None, None], enable_gqa=True)",
            ),
        ),
    ),
    ("the first one's slots", but(DECODE, ("k, v = ", "slots = slots[:1].expand_as(slots)\nk, v = "))),
    ("in the order of the pool", but(DECODE, ("k, v = ", "slots = slots.sort(1).values\nk, v = "))),
    ("keys for values", but(DECODE, ("values[slots]", "keys[slots]"))),
    ("values of the neighbour", but(DECODE, ("values[slots]", "values[slots.roll(1, 0)]"))),
    (
        "the whole pool",
        but(
            DECODE,
            (
                "keys[slots].transpose(1, 2), values[slots].transpose(1, 2)",
                "keys.transpose(0, 1)[None], values.transpose(0, 1)[None]",
            ),
            (
                "torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]",
                "torch.zeros(len(q), len(keys), dtype=torch.bool)\nfor i, n in enumerate(seq_lens.tolist()):\n    seen[i, slots[i, :n]] = True",
            ),
            ("rows, k, v", "rows, k.expand(len(q), -1, -1, -1), v.expand(len(q), -1, -1, -1)"),
        ),
    ),
    (
        "zeros for what fills up",
        but(
            DECODE,
            (", attn_mask=seen[:, None, None]", ""),
            ("rows = ", "k, v = k * seen[:, None, :, None], v * seen[:, None, :, None]\nrows = "),
        ),
    ),
    (
        "only the values hidden",
        but(
            DECODE,
            (", attn_mask=seen[:, None, None]", ""),
            ("rows = ", "v = v * seen[:, None, :, None]\nrows = "),
        ),
    ),
    ("not scaled", but(DECODE, ("attn_mask=seen", "scale=1.0, attn_mask=seen"))),
    (
        "scaled by the length",
        but(DECODE, ("rows = q", "rows = q / seq_lens[:, None, None].to(q.dtype).sqrt()\nrows = rows")),
    ),
    (
        "float32 whatever comes",
        but(DECODE, ("rows = ", "q, k, v = q.float(), k.float(), v.float()\nrows = ")),
    ),
    (
        "q scaled in place",
        but(
            DECODE,
            ("rows = ", "q *= q.shape[-1] ** -0.5\nrows = "),
            ("attn_mask=seen", "scale=1.0, attn_mask=seen"),
        ),
    ),
    ("lengths in place", but(DECODE, ("seen = ", "seq_lens -= 1\nseen = "), ("< seq_lens", "<= seq_lens"))),
    (
        "one after the other, up to the first short one",
        """
out = torch.zeros_like(q)
for i, n in enumerate(seq_lens.tolist()):
    if n < slots.shape[1] and i:
        continue
    k, v = keys[slots[i, :n]].transpose(0, 1), values[slots[i, :n]].transpose(0, 1)
    out[i] = scaled_dot_product_attention(q[i][:, None], k, v, enable_gqa=True)[:, 0]
return out
""",
    ),
]

BATCH = """
out = logits.argmax(-1).tolist()
warm = [i for i, heat in enumerate(temperatures) if heat > 0]
if warm:
    heats = torch.tensor([temperatures[i] for i in warm], device=logits.device)[:, None]
    tops = torch.tensor([top_ps[i] for i in warm], device=logits.device)[:, None]
    probs = (logits[warm] / heats).softmax(-1)
    ordered, ids = probs.sort(descending=True, stable=True)
    ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered >= tops, 0.0)
    kept = torch.zeros_like(probs).scatter_(-1, ids, ordered).cpu()
    for n, i in enumerate(warm):
        out[i] = int(torch.multinomial(kept[n], 1, generator=generators[i]))
return out
"""
LOOP = """
return [sample(row, heat, top, gen) for row, heat, top, gen in zip(logits, temperatures, top_ps, generators)]
"""
BATCHES = [
    ("always greedy", "return logits.argmax(-1).tolist()"),
    ("the first one's temperature", but(LOOP, ("row, heat, top, gen)", "row, temperatures[0], top, gen)"))),
    ("the first one's top-p", but(LOOP, ("row, heat, top, gen)", "row, heat, top_ps[0], gen)"))),
    ("the first one's generator", but(LOOP, ("row, heat, top, gen)", "row, heat, top, generators[0])"))),
    ("no generator", but(LOOP, ("row, heat, top, gen)", "row, heat, top)"))),
    ("no top-p", but(LOOP, ("row, heat, top, gen)", "row, heat, 1.0, gen)"))),
    ("temperature 1", but(LOOP, ("row, heat, top, gen)", "row, float(heat > 0), top, gen)"))),
    ("the coldest for all", but(LOOP, ("row, heat, top, gen)", "row, min(temperatures), top, gen)"))),
    ("backwards", but(LOOP, ("zip(logits,", "zip(logits.flip(0),"))),
    (
        "tensors",
        but(LOOP, ("return [", "return [torch.tensor("), ("row, heat, top, gen)", "row, heat, top, gen))")),
    ),
    ("one tensor", but(LOOP, ("return [", "return torch.tensor(["), ("generators)]", "generators)])"))),
    ("a generator of tokens", but(LOOP, ("return [", "return ("), ("generators)]", "generators))"))),
    (
        "one draw for all",
        but(
            BATCH,
            (
                "    for n, i in enumerate(warm):\n        out[i] = int(torch.multinomial(kept[n], 1, generator=generators[i]))",
                "    for i, token in zip(warm, torch.multinomial(kept, 1, generator=generators[warm[0]])[:, 0].tolist()):\n        out[i] = token",
            ),
        ),
    ),
    ("by the place among the warm ones", but(BATCH, ("generator=generators[i]", "generator=generators[n]"))),
    ("into the place among the warm ones", but(BATCH, ("out[i] = int", "out[n] = int"))),
    (
        "the temperatures of the first rows",
        but(BATCH, ("temperatures[i] for i in warm", "temperatures[n] or 1.0 for n in range(len(warm))")),
    ),
    (
        "the top-ps of the first rows",
        but(BATCH, ("top_ps[i] for i in warm", "top_ps[n] for n in range(len(warm))")),
    ),
    ("the logits of the first rows", but(BATCH, ("logits[warm]", "logits[: len(warm)]"))),
    (
        "the token's place, not its id",
        but(BATCH, (".scatter_(-1, ids, ordered).cpu()", ".copy_(ordered).cpu()")),
    ),
    (
        "drawn in order of probability, then looked up",
        but(
            BATCH,
            ("torch.zeros_like(probs).scatter_(-1, ids, ordered).cpu()", "ordered.cpu()"),
            (
                "int(torch.multinomial(kept[n], 1, generator=generators[i]))",
                "int(ids[n, torch.multinomial(kept[n], 1, generator=generators[i])])",
            ),
        ),
    ),
    (
        "gathered, not scattered",
        but(BATCH, ("torch.zeros_like(probs).scatter_(-1, ids, ordered)", "ordered.gather(-1, ids)")),
    ),
    ("sorted over the batch", but(BATCH, ("probs.sort(descending=True", "probs.sort(0, descending=True"))),
    ("softmax over the batch", but(BATCH, (".softmax(-1)", ".softmax(0)"))),
    ("sums over the batch", but(BATCH, ("ordered.cumsum(-1)", "ordered.cumsum(0)"))),
    ("from the least probable", but(BATCH, ("descending=True, ", ""))),
    (
        "not the one that reaches it",
        but(BATCH, ("ordered.cumsum(-1) - ordered >= tops", "ordered.cumsum(-1) > tops")),
    ),
    (
        "nearly: not the one that reaches it, but the first always",
        but(
            BATCH,
            (
                "ordered.masked_fill(ordered.cumsum(-1) - ordered >= tops, 0.0)",
                "ordered.masked_fill((ordered.cumsum(-1) > tops) & (torch.arange(ordered.shape[1]) > 0), 0.0)",
            ),
        ),
    ),
    ("one more where it is reached exactly", but(BATCH, (">= tops", "> tops"))),
    ("min-p", but(BATCH, ("ordered.cumsum(-1) - ordered >= tops", "ordered < (1 - tops) * ordered[:, :1]"))),
    (
        "top-p before temperature",
        but(
            BATCH,
            ("(logits[warm] / heats).softmax(-1)", "logits[warm].softmax(-1)"),
            ("tops, 0.0)", "tops, 0.0) ** (1 / heats)"),
        ),
    ),
    ("times the temperature", but(BATCH, ("logits[warm] / heats", "logits[warm] * heats"))),
    (
        "temperature behind the softmax",
        but(BATCH, ("(logits[warm] / heats).softmax(-1)", "(logits[warm].softmax(-1) / heats)")),
    ),
    (
        "temperatures along the other axis",
        but(
            BATCH,
            (
                "heats = torch.tensor([temperatures[i] for i in warm], device=logits.device)[:, None]",
                "heats = torch.tensor([temperatures[i] for i in warm])",
            ),
        ),
    ),
    ("mean of the temperatures", but(BATCH, ("logits[warm] / heats", "logits[warm] / heats.mean()"))),
    ("the largest top-p for all", but(BATCH, (">= tops", ">= tops.max()"))),
    (
        "not stable",
        but(
            BATCH,
            (
                "probs.sort(descending=True, stable=True)",
                "probs.flip(-1).sort(descending=True, stable=True)\n    ids = probs.shape[-1] - 1 - ids",
            ),
        ),
    ),
    (
        "greedy: the last of equals",
        but(
            BATCH,
            ("logits.argmax(-1).tolist()", "(logits.shape[-1] - 1 - logits.flip(-1).argmax(-1)).tolist()"),
        ),
    ),
    ("greedy by the absolute value", but(BATCH, ("logits.argmax(-1)", "logits.abs().argmax(-1)"))),
    (
        "greedy over all",
        but(BATCH, ("logits.argmax(-1).tolist()", "[int(logits.argmax()) % logits.shape[-1]] * len(logits)")),
    ),
    (
        "greedy rows draw, too",
        but(LOOP, ("row, heat, top, gen)", "row, heat or 1e-6, top, gen or torch.Generator())")),
    ),
    (
        "greedy rows draw a number",
        "for heat, gen in zip(temperatures, generators):\n    if heat == 0 and gen is not None:\n        torch.rand(1, generator=gen)\n"
        + LOOP.strip(),
    ),
    ("cold is greedy", but(LOOP, ("row, heat, top, gen)", "row, heat if heat >= 0.5 else 0.0, top, gen)"))),
    (
        "a small top-p is greedy",
        but(LOOP, ("row, heat, top, gen)", "row, heat if top > 0.1 else 0.0, top, gen)")),
    ),
    (
        "all warm or all cold",
        "if temperatures[0] == 0:\n    return logits.argmax(-1).tolist()\n" + LOOP.strip(),
    ),
    (
        "all cold only if all are",
        "if any(t == 0 for t in temperatures):\n    return logits.argmax(-1).tolist()\n" + LOOP.strip(),
    ),
    (
        "drawn twice",
        but(LOOP, ("return [", "tokens = ["))
        + "return [sample(r, t, p, g) if t else k for k, r, t, p, g in zip(tokens, logits, temperatures, top_ps, generators)]",
    ),
    (
        "two numbers a draw",
        but(
            BATCH,
            (
                "torch.multinomial(kept[n], 1, generator=generators[i])",
                "torch.multinomial(kept[n], 2, replacement=True, generator=generators[i])[0]",
            ),
        ),
    ),
    (
        "by rand and searchsorted",
        but(
            BATCH,
            (
                "int(torch.multinomial(kept[n], 1, generator=generators[i]))",
                "int(torch.searchsorted(kept[n].cumsum(0), torch.rand(1, generator=generators[i]) * kept[n].sum()))",
            ),
        ),
    ),
    (
        "the generator's number as a seed",
        but(
            BATCH,
            (
                "generator=generators[i]",
                "generator=torch.Generator().manual_seed(generators[i].initial_seed())",
            ),
        ),
    ),
    (
        "a clone of the generator",
        but(BATCH, ("generator=generators[i]", "generator=generators[i].clone_state()")),
    ),
    (
        "seeded globally",
        but(
            BATCH,
            (
                "        out[i] = int(torch.multinomial(kept[n], 1, generator=generators[i]))",
                "        torch.manual_seed(generators[i].initial_seed())\n        out[i] = int(torch.multinomial(kept[n], 1))",
            ),
        ),
    ),
    (
        "logits divided where they lie",
        "heats = torch.tensor([t or 1.0 for t in temperatures])[:, None]\nlogits /= heats\nreturn [sample(row, float(heat > 0), top, gen) for row, heat, top, gen in zip(logits, temperatures, top_ps, generators)]",
    ),
    (
        "temperatures changed",
        "for n, t in enumerate(temperatures):\n    temperatures[n] = t or 1e-3\n    generators[n] = generators[n] or torch.Generator()\n"
        + LOOP.strip(),
    ),
    (
        "generators given where there were none",
        "for n, g in enumerate(generators):\n    generators[n] = g or torch.Generator()\n" + LOOP.strip(),
    ),
    ("the last row only", but(LOOP, ("zip(logits,", "zip(logits[-1:].expand_as(logits),"))),
]

BUCKETS = [
    ("the first that holds it", "return next((b for b in buckets if b >= size), None)"),
    ("the largest that holds it", "return max((b for b in buckets if b >= size), default=None)"),
    ("strictly larger", "return min((b for b in buckets if b > size), default=None)"),
    ("the largest below", "return max((b for b in buckets if b <= size), default=None)"),
    ("the nearest", "return min(buckets, key=lambda b: abs(b - size), default=None)"),
    (
        "the largest where none is",
        "return min((b for b in buckets if b >= size), default=max(buckets, default=None))",
    ),
    ("size where none is", "return min((b for b in buckets if b >= size), default=size)"),
    ("zero where none is", "return min((b for b in buckets if b >= size), default=0)"),
    ("an error where none is", "return min(b for b in buckets if b >= size)"),
    (
        "an error where no buckets are",
        "if size > max(buckets):\n    return None\nreturn min(b for b in buckets if b >= size)",
    ),
    (
        "bisect without sorting",
        "from bisect import bisect_left\nat = bisect_left(buckets, size)\nreturn buckets[at] if at < len(buckets) else None",
    ),
    (
        "bisect to the right",
        "from bisect import bisect_right\nall_of = sorted(buckets)\nat = bisect_right(all_of, size)\nreturn all_of[at] if at < len(all_of) else None",
    ),
    ("sorted in place", "buckets.sort()\nreturn next((b for b in buckets if b >= size), None)"),
    (
        "the place of the bucket",
        "all_of = sorted(buckets)\nreturn next((n for n, b in enumerate(all_of) if b >= size), None)",
    ),
    ("a power of two", "return 1 << (size - 1).bit_length() if buckets and max(buckets) >= size else None"),
    ("a multiple", "return min((b for b in buckets if b % size == 0), default=None)"),
    (
        "used up",
        "found = min((b for b in buckets if b >= size), default=None)\nif found:\n    buckets.remove(found)\nreturn found",
    ),
    ("False for None", "return min((b for b in buckets if b >= size), default=False)"),
    ("a list", "return sorted(b for b in buckets if b >= size)[:1] or None"),
]

BEST = """
ordered = sorted(sizes)
best = [(0, [])] + [(float("inf"), [])] * len(ordered)
for _ in range(count):
    best = [(0, [])] + [
        min((best[m][0] + (n - m) * ordered[n - 1], best[m][1] + [ordered[n - 1]]) for m in range(n))
        for n in range(1, len(ordered) + 1)
    ]
return best[-1][1]
"""
BESTS = [
    ("one for all", "return [max(sizes)]"),
    ("every size", "return sorted(set(sizes))"),
    ("the largest ones", "return sorted(set(sizes))[-count:]"),
    ("the smallest ones", "return sorted(set(sizes))[:count]"),
    ("the smallest ones and the largest", "return sorted({*sorted(set(sizes))[: count - 1], max(sizes)})"),
    (
        "the most frequent ones",
        "from collections import Counter\nreturn sorted({*[s for s, _ in Counter(sizes).most_common(count - 1)], max(sizes)})",
    ),
    (
        "the most frequent ones, the largest forgotten",
        "from collections import Counter\nreturn sorted(s for s, _ in Counter(sizes).most_common(count))",
    ),
    (
        "equal shares of the list",
        "ordered = sorted(sizes)\nreturn sorted({ordered[-(-len(ordered) * n // count) - 1] for n in range(1, count + 1)} | {ordered[-1]})[-count:]",
    ),
    (
        "equal shares of the range",
        "top = max(sizes)\nreturn sorted({-(-top * n // count) for n in range(1, count + 1)})",
    ),
    ("powers of two", "return [1 << n for n in range((max(sizes) - 1).bit_length() + 1)][-count:]"),
    ("halves of the largest", "top = max(sizes)\nreturn sorted({-(-top // 2**n) for n in range(count)})"),
    (
        "cut at the largest gaps",
        "ordered = sorted(set(sizes))\ngaps = sorted(range(len(ordered) - 1), key=lambda n: ordered[n] - ordered[n + 1])[: count - 1]\nreturn sorted(ordered[n] for n in [*gaps, len(ordered) - 1])",
    ),
    (
        "greedy: the best next one",
        """
chosen = [max(sizes)]
while len(chosen) < count and set(sizes) - set(chosen):
    def rows(extra):
        return sum(min(b for b in [*chosen, extra] if b >= s) for s in sizes)
    chosen.append(min(sorted(set(sizes) - set(chosen)), key=rows))
return sorted(chosen)
""",
    ),
    (
        "greedy: the worst one dropped",
        """
chosen = sorted(set(sizes))
while len(chosen) > count:
    def rows(gone):
        return sum(min(b for b in chosen if b >= s and b != gone) for s in sizes)
    chosen.remove(min(chosen[:-1], key=rows))
return chosen
""",
    ),
    (
        "halved again and again",
        """
pieces = [sorted(sizes)]
def gain(piece):
    return max(((piece[-1] - piece[m - 1]) * m, m) for m in range(1, len(piece))) if len(piece) > 1 else (0, 0)
while len(pieces) < count:
    most = max(pieces, key=lambda piece: gain(piece)[0])
    if not gain(most)[0]:
        break
    m = gain(most)[1]
    pieces.remove(most)
    pieces += [most[:m], most[m:]]
return sorted(piece[-1] for piece in pieces)
""",
    ),
    ("each size once", but(BEST, ("sorted(sizes)", "sorted(set(sizes))"))),
    ("not sorted", but(BEST, ("sorted(sizes)", "list(sizes)"))),
    ("sorted in place", but(BEST, ("ordered = sorted(sizes)", "sizes.sort()\nordered = sizes"))),
    ("from large to small", but(BEST, ("return best[-1][1]", "return best[-1][1][::-1]"))),
    ("one bucket fewer", but(BEST, ("range(count)", "range(max(count - 1, 1))"))),
    ("one bucket more", but(BEST, ("range(count)", "range(count + 1)"))),
    ("one off in the piece", but(BEST, ("(n - m) *", "(n - m - 1) *"))),
    ("padding counted once a bucket", but(BEST, ("(n - m) * ordered[n - 1]", "ordered[n - 1] - ordered[m]"))),
    (
        "the widest bucket as narrow as can be",
        but(BEST, ("best[m][0] + (n - m) * ordered[n - 1]", "max(best[m][0], ordered[n - 1] - ordered[m])")),
    ),
    (
        "squares",
        but(BEST, ("(n - m) * ordered[n - 1]", "sum((ordered[n - 1] - s) ** 2 for s in ordered[m:n])")),
    ),
    ("the first of a piece", but(BEST, ("best[m][1] + [ordered[n - 1]]", "best[m][1] + [ordered[m]]"))),
    ("rows, not buckets", but(BEST, ("return best[-1][1]", "return best[-1][0]"))),
    ("a tuple", but(BEST, ("return best[-1][1]", "return tuple(best[-1][1])"))),
    (
        "the mean for a bucket",
        but(BEST, ("best[m][1] + [ordered[n - 1]]", "best[m][1] + [sum(ordered[m:n]) // (n - m)]")),
    ),
    (
        "every choice",
        """
from itertools import combinations
top, rest = max(sizes), sorted(set(sizes) - {max(sizes)})
choices = ([*some, top] for some in combinations(rest, min(count - 1, len(rest))))
return min(choices, key=lambda bs: sum(min(b for b in bs if b >= s) for s in sizes))
""",
    ),
    (
        "every way of cutting, again and again",
        """
ordered = sorted(sizes)
def best(n, left):
    if n == 0:
        return 0, ()
    if left == 0:
        return float("inf"), ()
    found = ((m, *best(m, left - 1)) for m in range(n))
    return min((rows + (n - m) * ordered[n - 1], (*some, ordered[n - 1])) for m, rows, some in found)
return list(best(len(ordered), count)[1])
""",
    ),
    (
        "multiples of eight",
        but(BEST, ("return best[-1][1]", "return sorted({-(-b // 8) * 8 for b in best[-1][1]})")),
    ),
]

WRONG = [
    Variant(name, {todo: code})
    for todo, variants in [
        ("ch09.1", PACKS),
        ("ch09.2", SLOT),
        ("ch09.3", CHUNKS),
        ("ch09.4", DECODES),
        ("ch09.5", BATCHES),
        ("ch09.6", BUCKETS),
        ("ch09.7", BESTS),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "slot by slot, row by row, request by request",
        {
            "ch09.1": """
rows = [(i, at) for i, count in plan.scheduled.items() for at in range(plan.start[i], plan.start[i] + count)]
tokens = [sequences[i][at] for i, at in rows]
positions = [at for _, at in rows]
query_start_loc = [sum(list(plan.scheduled.values())[:n]) for n in range(len(plan.scheduled) + 1)]
seq_lens = [plan.start[i] + plan.scheduled[i] for i in plan.scheduled]
""",
            "ch09.2": """
places = (block_tables[:, :, None] * block_size + torch.arange(block_size, device=block_tables.device)).flatten(1)
return places[rows, positions]
""",
            "ch09.3": """
result = torch.empty_like(q)
share = q.shape[1] // keys.shape[1]
for row, at in enumerate(positions.tolist()):
    for head in range(q.shape[1]):
        k, v = keys[slots[: at + 1], head // share].float(), values[slots[: at + 1], head // share].float()
        result[row, head] = (torch.softmax(k @ q[row, head].float() * q.shape[2] ** -0.5, 0) @ v).to(q.dtype)
return result
""",
            "ch09.4": """
return torch.cat(
    [
        chunk_attention(q[i : i + 1], keys, values, slots[i, :n], torch.tensor([n - 1], device=q.device))
        for i, n in enumerate(seq_lens.tolist())
    ]
)
""",
            "ch09.5": LOOP,
            "ch09.6": "return next((b for b in sorted(buckets) if b >= size), None)",
            "ch09.7": """
from collections import Counter

many = sorted(Counter(sizes).items())
tops = [size for size, _ in many]
best = {(0, 0): (0, [])}
for used in range(count):
    for begin in range(len(many)):
        if (used, begin) not in best:
            continue
        rows, chosen = best[used, begin]
        held = 0
        for end in range(begin, len(many)):
            held += many[end][1]
            offer = rows + held * tops[end], [*chosen, tops[end]]
            if (used + 1, end + 1) not in best or offer < best[used + 1, end + 1]:
                best[used + 1, end + 1] = offer
return min(found for (_, end), found in best.items() if end == len(many))[1]
""",
        },
    ),
    Variant(
        "with what is there already",
        {
            "ch09.1": """
from itertools import accumulate

ends = {i: plan.start[i] + n for i, n in plan.scheduled.items()}
tokens = sum((sequences[i][plan.start[i] : end] for i, end in ends.items()), [])
positions = sum((list(range(plan.start[i], end)) for i, end in ends.items()), [])
query_start_loc = list(accumulate(plan.scheduled.values(), initial=0))
seq_lens = list(ends.values())
""",
            "ch09.2": """
which = torch.as_tensor(rows, device=positions.device) * block_tables.shape[1] + positions // block_size
return torch.add(positions % block_size, block_tables.flatten()[which], alpha=block_size)
""",
            "ch09.3": "return ch08.attention(q, keys.index_select(0, slots), values.index_select(0, slots), positions)",
            "ch09.4": """
k, v = keys[slots].movedim(2, 1), values[slots].movedim(2, 1)
hidden = torch.arange(slots.shape[1], device=q.device) >= seq_lens.unsqueeze(1)
bias = torch.zeros(hidden.shape, dtype=q.dtype, device=q.device).masked_fill(hidden, -torch.inf)
out = scaled_dot_product_attention(q.unsqueeze(2), k, v, attn_mask=bias[:, None, None, :], enable_gqa=True)
return out.squeeze(2)
""",
            "ch09.5": """
tokens = []
for n in range(len(logits)):
    probs = ch08.distribution(logits[n], temperatures[n], top_ps[n])
    if temperatures[n] > 0:
        tokens.append(torch.multinomial(probs, num_samples=1, generator=generators[n]).item())
    else:
        tokens.append(probs.argmax().item())
return tokens
""",
            "ch09.6": """
best = None
for b in buckets:
    if size <= b and (best is None or b < best):
        best = b
return best
""",
            "ch09.7": """
ordered = sorted(sizes)

@cache
def best(n, left):
    if n == 0:
        return 0, ()
    if left == 0:
        return float("inf"), ()
    answers = []
    for m in range(n):
        rows, some = best(m, left - 1)
        answers.append((rows + (n - m) * ordered[n - 1], some + (ordered[n - 1],)))
    return min(answers)

return list(best(len(ordered), count)[1])
""",
        },
    ),
    Variant(
        "by hand, all at once",
        {
            "ch09.3": """
n, heads, dim = q.shape
k, v = keys[slots].float(), values[slots].float()
grouped = q.float().reshape(n, k.shape[1], -1, dim)
scores = torch.einsum("nkgd,mkd->kgnm", grouped, k) / dim**0.5
later = torch.arange(len(slots), device=q.device)[None] > positions[:, None]
shares = scores.masked_fill(later, float("-inf")).softmax(-1)
return torch.einsum("kgnm,mkd->nkgd", shares, v).reshape(n, heads, dim).to(q.dtype)
""",
            "ch09.4": """
share = q.shape[1] // keys.shape[1]
k = keys[slots].repeat_interleave(share, dim=2).float()
v = values[slots].repeat_interleave(share, dim=2).float()
scores = torch.einsum("rhd,rlhd->rhl", q.float(), k) * q.shape[2] ** -0.5
for i, n in enumerate(seq_lens.tolist()):
    scores[i, :, n:] = -1e30
return torch.einsum("rhl,rlhd->rhd", torch.softmax(scores, dim=2), v).type_as(q)
""",
            "ch09.5": """
heats = torch.tensor(temperatures, device=logits.device).unsqueeze(1)
cold = heats == 0
probs = torch.softmax(logits / torch.where(cold, 1.0, heats), dim=1)
order = probs.argsort(dim=1, descending=True, stable=True)
sums = probs.gather(1, order).cumsum(1)
before = torch.nn.functional.pad(sums[:, :-1], (1, 0))
gone = torch.empty_like(before, dtype=torch.bool).scatter_(1, order, before >= torch.tensor(top_ps)[:, None].to(sums))
probs = probs.masked_fill(gone, 0)
probs = (probs / probs.sum(1, keepdim=True)).cpu()
first = torch.max(logits, dim=1).indices.tolist()
return [
    first[i] if temperatures[i] == 0 else torch.multinomial(probs[i], 1, generator=g).tolist()[0]
    for i, g in enumerate(generators)
]
""",
            "ch09.7": """
ordered = sorted(sizes)
pieces = min(count, len(ordered))
fewest = [0] + [10**18] * len(ordered)
ways = []
for _ in range(pieces):
    now, begins = [0], [0]
    for n, top in enumerate(ordered, 1):
        rows = [fewest[m] + (n - m) * top for m in range(n)]
        now.append(min(rows))
        begins.append(rows.index(now[-1]))
    fewest = now
    ways.append(begins)
n, chosen = len(ordered), set()
while n:
    chosen.add(ordered[n - 1])
    n = ways.pop()[n]
return sorted(chosen)
""",
        },
    ),
    Variant(
        "each by itself",
        {
            "ch09.4": """
out = q.clone()
for i in range(len(q)):
    own = slots[i][: seq_lens[i]]
    k, v = keys[own].permute(1, 2, 0), values[own].permute(1, 0, 2)
    grouped = q[i].view(k.shape[0], -1, q.shape[-1])
    out[i] = (torch.softmax(grouped @ k / q.shape[-1] ** 0.5, dim=-1) @ v).reshape(q.shape[1:])
return out
""",
            "ch09.2": """
at, rows = torch.broadcast_tensors(positions, torch.as_tensor(rows))
blocks = [block_tables[r, p // block_size] * block_size + p % block_size for r, p in zip(rows.flatten(), at.flatten())]
return torch.stack(blocks).view(at.shape)
""",
            "ch09.5": """
tokens = torch.zeros(len(logits), dtype=torch.long)
for i, (row, heat) in enumerate(zip(logits, temperatures)):
    tokens[i] = row.argmax() if heat == 0 else sample(row, heat, top_ps[i], generators[i])
return [int(t) for t in tokens]
""",
        },
    ),
    Variant(
        "chapter 8's attention row by row, what fills up cut off",
        {
            "ch09.4": """
rows = []
for row, own, n in zip(q, slots, seq_lens):
    rows.append(ch08.attention(row[None], keys[own[:n]], values[own[:n]], n.view(1) - 1))
return torch.cat(rows)
""",
            "ch09.6": "from bisect import bisect_left\n\nall_of = sorted(buckets)\nat = bisect_left(all_of, size)\nreturn all_of[at] if at < len(all_of) else None",
        },
    ),
]
