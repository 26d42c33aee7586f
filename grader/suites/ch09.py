"""Chapter 9's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch09``; only the workloads are new here.
"""

from __future__ import annotations

import random

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch09.cases import batch, best, chunk, decodes, draw, fits, places, request, turns
from decodelab.check.ch09.draws import rows_of
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

DIRECTED: dict[str, list[Case]] = {
    "ch09.1": [
        batch("ids-that-are-words", 4, request("zz", 0, 2, [3]), request("a", 0, 1, [1]), request("m", 5, 1, [0, 2])),
        batch("large-ids-first", 16, request(90, 3, 1, [2]), request(8, 15, 2, [4, 0]), request(7, 0, 5, [6])),
        batch("many-decodes", 1, *(request(i, i, 1, list(range(20 * i, 20 * i + i + 1))) for i in (5, 2, 4, 1))),
        batch("others-wait", 4, request(4, 4, 4, [7, 1], 20), waiting=[request(1, 0, 3, [2]), request(2, 0, 3, [])]),
    ],
    "ch09.2": [
        places("three-rows", 8, [[9, 1, 4], [0, 7, 0], [3, 2, 5]], [2, 0, 1, 2], [23, 8, 15, 0]),
        places("the-last-of-a-block", 16, [[5, 6]], [0, 0], [15, 16]),
        places("a-single-place", 4, [[7, 2], [5, 3]], 1, [6]),
        places("blocks-of-six", 6, [[2, 8], [0, 5]], [[1], [0]], [[5, 6, 10], [3, 7, 11]]),
    ],
    "ch09.3": [
        chunk("three-groups-of-four", 6, [0, 3, 5], heads=12, kv_heads=3),
        chunk("one-row", 9, [8]),
        chunk("a-wide-head", 5, [2, 3, 4], heads=2, kv_heads=1, head_dim=64),
        chunk("nobody-else-in-the-pool", 5, [3, 4], spare=0),
        chunk("backwards-and-twice", 7, [6, 3, 3, 0], heads=6),
        turns("chunks-of-every-size", "no-groups", 4, "a2 b6", "a6", "b2 c3", "c3 a2", "b2 c2 d5 a2"),
    ],
    "ch09.4": [
        decodes("many", 1, 2, 3, 4, 5, 6, 7, 8, heads=6, kv_heads=2),
        decodes("one-token-each", 1, 1, 1),
        decodes("the-long-one-first", 9, 1, 2, heads=3, kv_heads=1),
        decodes("a-wide-head", 4, 6, heads=4, kv_heads=4, head_dim=64),
        decodes("every-slot-taken", 3, 4, spare=0),
        decodes("half-precision-and-groups", 7, 1, 3, heads=6, dtype="float16"),
        turns("joins-and-leaves", "llama", 2, "a3 b2", "a1 b1 c4", "c2 d3", "d1 e2 c1", "e1"),
        turns("small-blocks-reused", "llama", 1, "a4 b3", "b1 a1", "c5 b1", "d4 c1", "c1 d1 e2"),
        turns("blocks-larger-than-anything", "qwen3", 16, "a4 b3", "b1 a1", "c5 b1"),
        turns("only-decodes", "llama", 4, "a5 b1 c3", *["c1 a1 b1"] * 3, "b1 c1", "c1"),
    ],
    "ch09.5": [
        draw("greedy-beside-hot", (2.5, 1.0, 4), (0.0, 0.1, None), (0.0, 1.0, 9), (2.5, 1.0, 5), vocab=12),
        draw("same-seed-other-temperature", (0.3, 1.0, 8), (1.0, 1.0, 8), (3.0, 1.0, 8), seed=5),
        draw("narrow-and-wide", (1.0, 0.05, 1), (1.0, 1.0, 2), (2.0, 0.5, 3), (1.5, 0.95, 4), seed=3),
        draw("all-draw", *((1.0, 0.9, i) for i in range(8)), seed=4),
        {"name": "many-times-hot", "logits": [2.0, 0.0, 1.0, 3.0, -1.0], "setting": [2.0, 1.0], "count": 600},
        {"name": "many-times-cut", "logits": [0.0, 2.0, 1.9, -2.0], "setting": [0.7, 0.8], "count": 400},
    ],
    "ch09.6": [fits("one-bucket", [16], 1, 16, 17), fits("repeated", [4, 4, 2], 3, 2, 1), fits("from-large-to-small", [64, 32, 16], 40, 16, 1)],
    "ch09.7": [
        best("all-alike", 3, 7, 7, 7),
        best("frequent-ones-decide", 2, *[5] * 9, 6, *[20] * 2),
        best("not-halves", 3, 1, 2, 3, 30, 31, 32, 33, 34),
        best("one-size", 4, 12),
        best("unsorted", 2, 9, 1, 8, 2, 10),
        best("greedy-would-err", 3, 1, 4, 5, 8, 9, 9, 12),
        best("one-more-each-time-would-err", 3, 8, 6, 2, 7, 10, 6),
        best("one-fewer-each-time-would-err", 3, 12, 3, 10, 6, 8, 10, 11),
        best("more-than-anybody-tries", 8, *(n * n % 499 + 7 for n in range(100))),
    ],
}  # fmt: skip


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    return [each | {"name": f"drawn-{i}", "drawn": True} for i, each in enumerate(DRAW[todo](rng))]


def draw_turns(rng: random.Random, *counts: int) -> Case:
    """Requests that join, wait, leave and change places; each computes some of these ``counts`` of tokens at a time."""
    left = {name: rng.choices(counts, k=rng.randint(2, 4)) for name in "abcde"[: rng.randint(3, 5)]}
    steps = []
    while left:
        able = rng.sample(sorted(left), rng.randint(1, min(3, len(left))))
        steps.append(" ".join(f"{name}{left[name].pop()}" for name in able))
        left = {name: rest for name, rest in left.items() if rest}
    model, size = rng.choice(["llama", "qwen3", "no-groups"]), rng.choice([1, 2, 3, 4, 8])
    return turns("", model, size, *steps, seed=rng.randint(1, 20))


def draw_pack(rng: random.Random) -> list[Case]:
    size, blocks = rng.choice([1, 3, 4]), rng.sample(range(60), 60)
    requests = []
    for name in rng.sample(range(100), rng.randint(2, 5)):
        start, count = rng.randint(1, 8), rng.choice([1, rng.randint(2, 6)])
        need = -(-(start + count) // size)
        own, blocks = blocks[:need], blocks[need:]
        requests.append(request(name, start, count, own, start + count + rng.choice([0, 3])))
    return [batch("", size, *requests)]


def draw_slots(rng: random.Random) -> list[Case]:
    size, width = rng.choice([2, 3, 16]), rng.randint(2, 4)
    blocks = rng.sample(range(1, 40), 3 * width)
    tables = [blocks[i * width : (i + 1) * width] for i in range(3)]
    rows = [rng.randint(1, 2) for _ in range(4)]
    return [
        places("", size, tables, rows, [rng.randint(size, size * width - 1) for _ in rows]),
    ]


def draw_shape(rng: random.Random) -> dict[str, int]:
    kv_heads = rng.choice([2, 3])
    return {
        "heads": kv_heads * rng.choice([2, 3]),
        "kv_heads": kv_heads,
        "head_dim": rng.choice([4, 8]),
        "seed": rng.randint(0, 999),
    }


def draw_chunk(rng: random.Random) -> list[Case]:
    length = rng.randint(4, 12)
    start = rng.randint(1, length - 2)
    return [
        chunk("", length, list(range(start, rng.randint(start + 1, length))), **draw_shape(rng)),
        draw_turns(rng, 2, 3, 4, 5),
    ]


def draw_decodes(rng: random.Random) -> list[Case]:
    lens = rng.sample(range(2, 14), rng.randint(2, 5))
    return [decodes("", *lens, **draw_shape(rng)), draw_turns(rng, 1, 1, 1, 2, 4)]


def draw_sample(rng: random.Random) -> list[Case]:
    """Rows whose nucleus no rounding can change."""
    while True:
        rows = [
            (rng.choice([0.0, 0.7, 1.0, 1.6]), rng.choice([0.4, 0.8, 0.95]), rng.randint(0, 99))
            for _ in range(rng.randint(3, 6))
        ]
        case = draw("", *rows, vocab=rng.randint(6, 30), seed=rng.randint(0, 999))
        sums = [
            np.cumsum(np.sort(oracle.softmax(logits, t))[::-1]) - p
            for logits, (t, p, _) in zip(rows_of(case), rows, strict=True)
            if t
        ]
        if sums and min(np.abs(s).min() for s in sums) > 1e-3:
            return [case]


def draw_bucket(rng: random.Random) -> list[Case]:
    return [fits("", rng.sample(range(1, 60), 5), *(rng.randint(1, 60) for _ in range(6)))]


def draw_best(rng: random.Random) -> list[Case]:
    sizes = [rng.choice([rng.randint(1, 9), rng.randint(20, 40)]) for _ in range(rng.randint(6, 10))]
    return [best("", rng.randint(2, 4), *sizes)]


DRAW = {
    "ch09.1": draw_pack,
    "ch09.2": draw_slots,
    "ch09.3": draw_chunk,
    "ch09.4": draw_decodes,
    "ch09.5": draw_sample,
    "ch09.6": draw_bucket,
    "ch09.7": draw_best,
}


def wrong(todo: str, name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """An answer to ``ch09.<todo>`` that breaks ``rule``."""
    return Variant(name, {f"ch09.{todo}": code}, rule=rule, looks=looks)


BEGIN = "tokens, positions, query_start_loc, seq_lens = [], [], [0], []\n"
EACH = (
    BEGIN
    + "for request_id, count in plan.scheduled.items():\n    start = plan.start[request_id]\n    end = start + count\n"
)
IDS = "    tokens.extend(sequences[request_id][start:end])\n"
PLACES = "    positions.extend(range(start, end))\n"
BOUNDS = "    query_start_loc.append(len(tokens))\n"
LENS = "    seq_lens.append(end)\n"
GATHER = "k, v = keys[slots].transpose(0, 1), values[slots].transpose(0, 1)\n"
SEEN = "seen = torch.arange(len(slots), device=q.device) <= positions[:, None]\n"
SDPA = "scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, enable_gqa=True)"
MIXED = f"return {SDPA}.transpose(0, 1)"
ALL = "k, v = keys[slots].transpose(1, 2), values[slots].transpose(1, 2)\n"
GROUPED = "grouped = q.unflatten(1, (k.shape[1], -1))\n"
VALID = "seen = torch.arange(slots.shape[1], device=q.device) < seq_lens[:, None]\n"
TOGETHER = "return scaled_dot_product_attention(grouped, k, v, attn_mask=seen[:, None, None]).flatten(1, 2)"
GREEDY = "tokens = logits.argmax(-1).tolist()\ndrawn = [i for i, temperature in enumerate(temperatures) if temperature > 0]\nif not drawn:\n    return tokens\n"
COLUMNS = "heat = torch.tensor([temperatures[i] for i in drawn])[:, None]\nreach = torch.tensor([top_ps[i] for i in drawn])[:, None]\n"
SORTED = "ordered, ids = (logits[drawn] / heat).softmax(-1).sort(descending=True, stable=True)\n"
CUT = "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= reach, 0.0)\n"
BACK = "probs = torch.zeros_like(kept).scatter(-1, ids, kept)\n"
DRAWN = "for n, i in enumerate(drawn):\n    tokens[i] = int(torch.multinomial(probs[n], 1, generator=generators[i]))\nreturn tokens"
LOOP = (
    "tokens = []\nfor row, temperature, top_p, generator in zip(logits, temperatures, top_ps, generators):\n"
)

WRONG: list[Variant] = [
    wrong("1", "positions from zero", EACH + IDS + "    positions.extend(range(count))\n" + BOUNDS + LENS, "positions-go-on",
          both(en="positions that restart in every step", zh="每一步都从 0 开始数位置")),
    wrong("1", "positions are rows", EACH + IDS + "    positions.extend(range(len(tokens) - count, len(tokens)))\n" + BOUNDS + LENS, "positions-go-on",
          both(en="the row of the batch as the position", zh="拿批里的行号当位置")),
    wrong("1", "the end of the text", EACH + "    tokens.extend(sequences[request_id][-count:])\n" + PLACES + BOUNDS + LENS, "tokens-of-this-step"),
    wrong("1", "the beginning of the text", EACH + "    tokens.extend(sequences[request_id][:count])\n" + PLACES + BOUNDS + LENS, "tokens-of-this-step"),
    wrong("1", "everything from start on", EACH + "    tokens.extend(sequences[request_id][start:])\n" + PLACES + BOUNDS + LENS, "tokens-of-this-step"),
    wrong("1", "no 0 in front", EACH.replace("[0]", "[]") + IDS + PLACES + BOUNDS + LENS, "boundaries"),
    wrong("1", "boundaries that are counts", EACH + IDS + PLACES + "    query_start_loc.append(count)\n" + LENS, "boundaries"),
    wrong("1", "boundaries that are lengths", EACH + IDS + PLACES + "    query_start_loc.append(query_start_loc[-1] + end)\n" + LENS, "boundaries"),
    wrong("1", "lengths before the step", EACH + IDS + PLACES + BOUNDS + "    seq_lens.append(start)\n", "lengths-after-the-step",
          both(en="lengths as they were before the step", zh="这一步之前的长度")),
    wrong("1", "lengths of all that is known", EACH + IDS + PLACES + BOUNDS + "    seq_lens.append(len(sequences[request_id]))\n", "lengths-after-the-step"),
    wrong("1", "lengths that are counts", EACH + IDS + PLACES + BOUNDS + "    seq_lens.append(count)\n", "lengths-after-the-step"),
    wrong("1", "sorted by id", EACH.replace("plan.scheduled.items()", "sorted(plan.scheduled.items(), key=lambda pair: str(pair[0]))") + IDS + PLACES + BOUNDS + LENS,
          "plan-order", both(en="requests sorted by id", zh="按 id 排序")),
    wrong("1", "decodes first", EACH.replace("plan.scheduled.items()", "sorted(plan.scheduled.items(), key=lambda pair: pair[1])") + IDS + PLACES + BOUNDS + LENS, "plan-order"),
    wrong("1", "in the order of sequences", BEGIN + "for request_id in [r for r in sorted(sequences, key=str) if r in plan.scheduled]:\n    count, start = plan.scheduled[request_id], plan.start[request_id]\n    end = start + count\n"
          + IDS + PLACES + BOUNDS + LENS, "plan-order"),
    wrong("1", "takes the tokens out", EACH + "    tokens.extend(sequences[request_id][start:end])\n    del sequences[request_id][start:end]\n" + PLACES + BOUNDS + LENS, "changes-nothing"),
    wrong("1", "lengths as a tensor", EACH + IDS + PLACES + BOUNDS + LENS + "seq_lens = torch.tensor(seq_lens)\n", "plain-lists"),
    wrong("1", "in the order in which sequences came", EACH.replace("plan.scheduled.items()", "[(i, plan.scheduled[i]) for i in sequences if i in plan.scheduled]") + IDS + PLACES + BOUNDS + LENS, "plan-order"),
    wrong("1", "floats for lengths", EACH + IDS + PLACES + BOUNDS + "    seq_lens.append(float(end))\n", "plain-lists"),
    wrong("1", "one position too far", EACH + IDS + "    positions.extend(range(start + 1, end + 1))\n" + BOUNDS + LENS, "positions-go-on"),
    wrong("2", "the offset is lost", "return block_tables[rows, positions // block_size] * block_size + 0 * positions", "offset",
          both(en="the first slot of the block for every token of it", zh="一个块里的 token 全都放到块的第一个槽位")),
    wrong("2", "blocks as slots", "return block_tables[rows, positions // block_size] + positions % block_size", "whole-blocks",
          both(en="adding the offset to the block's number", zh="直接把块号和偏移相加")),
    wrong("2", "the number within the request", "return (positions // block_size + 0 * block_tables[rows, positions // block_size]) * block_size + positions % block_size", "from-the-table",
          both(en="positions as slots", zh="把位置当成槽位")),
    wrong("2", "everybody in the first row", "return block_tables[0, positions // block_size] * block_size + positions % block_size + 0 * torch.as_tensor(rows)", "own-row",
          both(en="the first request's blocks for everybody", zh="大家都用第一个请求的块")),
    wrong("2", "remainder and quotient changed", "return block_tables[rows, positions % block_size % block_tables.shape[1]] * block_size + positions // block_size", "slots"),
    wrong("2", "rounded up", "return block_tables[rows, (-(-positions // block_size)).clamp(max=block_tables.shape[1] - 1)] * block_size + positions % block_size", "slots"),
    wrong("2", "true division", "return block_tables[rows, positions // block_size] * block_size + (positions / block_size % 1) * block_size", "keeps-the-type"),
    wrong("2", "all pairs", "return block_tables[rows][..., positions // block_size] * block_size + positions % block_size", "shape"),
    wrong("2", "the lowest bits for a remainder", "return block_tables[rows, positions // block_size] * block_size + (positions & (block_size - 1))", "slots"),
    wrong("2", "multiplies the table itself", "block_tables *= block_size\nreturn block_tables[rows, positions // block_size] + positions % block_size", "leaves-its-arguments"),
    wrong("2", "wraps around", "return block_tables[rows, positions // block_size % 2] * block_size + positions % block_size", "slots"),
    wrong("3", "no mask", GATHER + MIXED.replace("attn_mask=seen, ", ""), "causal", both(en="attention without a mask", zh="没有遮罩的注意力")),
    wrong("3", "is_causal", GATHER + MIXED.replace("attn_mask=seen", "is_causal=True"), "by-position",
          both(en="is_causal=True, which counts rows from 0", zh="is_causal=True：它从第 0 行数起")),
    wrong("3", "not itself", GATHER + SEEN.replace("<= positions[:, None]", "< positions[:, None].clamp(min=1)") + MIXED, "sees-itself"),
    wrong("3", "one too far", GATHER + SEEN.replace("positions[:, None]", "positions[:, None] + 1") + MIXED, "causal"),
    wrong("3", "hides what it should see", GATHER + SEEN.replace("<=", ">=") + MIXED, "true-where-it-may-look"),
    wrong("3", "hides itself, and all of row 0", GATHER + SEEN.replace("<=", "<") + MIXED, "sees-itself"),
    wrong("3", "a mask of numbers", GATHER + SEEN + MIXED.replace("attn_mask=seen", "attn_mask=seen.to(q.dtype)"), "hidden-first"),
    wrong("3", "rows are the last ones", GATHER + SEEN.replace("positions[:, None]", "torch.arange(len(slots) - len(q), len(slots))[:, None]") + MIXED, "by-position"),
    wrong("3", "rows in order", GATHER + SEEN.replace("positions[:, None]", "positions.sort().values[:, None]") + MIXED, "by-position"),
    wrong("3", "values in turn", GATHER + SEEN + "group = q.shape[1] // keys.shape[1]\nk, v = k.repeat_interleave(group, 0), v.repeat(group, 1, 1)\n" + MIXED.replace(", enable_gqa=True", ""), "groups"),
    wrong("3", "cleans the pool", "keys.nan_to_num_()\n" + GATHER + SEEN + MIXED, "leaves-its-arguments"),
    wrong("3", "in the order of the pool", GATHER.replace("slots]", "slots.sort().values]") + SEEN + MIXED, "in-the-order-of-tokens",
          both(en="keys in the order of the pool", zh="按池里的次序读 key")),
    wrong("3", "the first slots of the pool", GATHER.replace("[slots]", "[: len(slots)]") + SEEN + MIXED, "only-its-own",
          both(en="the beginning of the pool", zh="读池开头的那些槽位")),
    wrong("3", "the whole pool, masked", "k, v = keys.transpose(0, 1), values.transpose(0, 1)\nseen = torch.zeros(len(q), len(keys), dtype=torch.bool)\n"
          "for i, p in enumerate(positions.tolist()):\n    seen[i, slots[: p + 1]] = True\n" + MIXED, "only-its-own",
          both(en="attention over the whole pool with a mask", zh="对整个池做注意力，再遮住其余的")),
    wrong("3", "heads in turn", GATHER + SEEN + "group = q.shape[1] // keys.shape[1]\nk, v = k.repeat(group, 1, 1), v.repeat(group, 1, 1)\n" + MIXED.replace(", enable_gqa=True", ""), "groups",
          both(en="dealing out KV heads in turn", zh="轮流分配 KV 头")),
    wrong("3", "not scaled", GATHER + SEEN + MIXED.replace("enable_gqa=True", "enable_gqa=True, scale=1.0"), "scaled"),
    wrong("3", "heads and rows not changed back", GATHER + SEEN + f"return {SDPA}.reshape(q.shape)", "attends"),
    wrong("3", "heads in front", GATHER + SEEN + f"return {SDPA}", "shape"),
    wrong("3", "values are keys", GATHER.replace("values[slots]", "keys[slots]") + SEEN + MIXED, "attends"),
    wrong("3", "only the new ones", GATHER.replace("[slots]", "[slots[positions]]") + "seen = positions <= positions[:, None]\n" + MIXED, "attends"),
    wrong("4", "no mask", ALL + GROUPED + TOGETHER.replace(", attn_mask=seen[:, None, None]", ""), "hides-what-fills-up",
          both(en="no mask over what fills up", zh="没有遮住补齐的部分")),
    wrong("4", "one too many", ALL + GROUPED + VALID.replace("<", "<=") + TOGETHER, "hides-what-fills-up"),
    wrong("4", "one too few", ALL + GROUPED + VALID.replace("seq_lens", "(seq_lens - 1).clamp(min=1)") + TOGETHER, "its-own-length",
          both(en="without the newest token", zh="漏掉最新的 token")),
    wrong("4", "the first one's length for all", ALL + GROUPED + VALID.replace("seq_lens[:, None]", "seq_lens[:1, None].expand(len(q), 1)") + TOGETHER, "its-own-length"),
    wrong("4", "the mean length", ALL + GROUPED + VALID.replace("seq_lens[:, None]", "seq_lens.float().mean().expand(len(q), 1)") + TOGETHER, "attends"),
    wrong("4", "the first one's slots for all", ALL.replace("[slots]", "[slots[:1].expand_as(slots)]") + GROUPED + "seen = torch.arange(slots.shape[1]) < seq_lens[:1, None].expand(len(q), 1)\n" + TOGETHER, "its-own-request"),
    wrong("4", "heads in turn", ALL + "grouped = q.unflatten(1, (-1, k.shape[1])).transpose(1, 2)\n" + VALID +
          "return scaled_dot_product_attention(grouped, k, v, attn_mask=seen[:, None, None]).transpose(1, 2).flatten(1, 2)", "groups",
          both(en="dealing out KV heads in turn", zh="轮流分配 KV 头")),
    wrong("4", "not scaled", ALL + GROUPED + VALID + TOGETHER.replace("None])", "None], scale=1.0)"), "scaled"),
    wrong("4", "scaled by the whole", ALL + GROUPED + VALID + TOGETHER.replace("None])", "None], scale=1 / q.shape[-1])"), "attends"),
    wrong("4", "everybody's keys", "own = slots.flatten()\nk, v = keys[own].transpose(0, 1), values[own].transpose(0, 1)\n"
          "return scaled_dot_product_attention(q.transpose(0, 1), k, v, enable_gqa=True).transpose(0, 1)", "attends",
          both(en="scores over the other requests' keys, too", zh="把别的请求的 key 也算了进去")),
    wrong("4", "zeros, not hidden", ALL + GROUPED + VALID + "k = k * seen[:, None, :, None]\nreturn scaled_dot_product_attention(grouped, k, v).flatten(1, 2)", "hidden-first"),
    wrong("4", "a mask of numbers", ALL + GROUPED + VALID + TOGETHER.replace("None, None]", "None, None].to(q.dtype)"), "hidden-first"),
    wrong("4", "hides what it should see", ALL + GROUPED + VALID.replace("<", ">=") + TOGETHER, "true-where-it-may-look"),
    wrong("4", "the first KV head for all", ALL + "k, v = k[:, :1], v[:, :1]\n" + GROUPED + VALID + TOGETHER, "groups"),
    wrong("4", "the whole pool, masked", "k, v = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]\nseen = torch.zeros(len(q), len(keys), dtype=torch.bool)\n"
          "for i, n in enumerate(seq_lens.tolist()):\n    seen[i, slots[i, :n]] = True\n" + GROUPED.replace("k.shape[1]", "keys.shape[1]") + TOGETHER, "only-its-own",
          both(en="attention over the whole pool with a mask", zh="对整个池做注意力，再遮住其余的")),
    wrong("4", "changes the pool afterwards", ALL + GROUPED + VALID + TOGETHER.replace("return ", "mixed = ") + "\nkeys[slots[:, 0]] = 0.0\nreturn mixed", "leaves-its-arguments"),
    wrong("4", "computes in float32", ALL + GROUPED + VALID + TOGETHER.replace("grouped, k, v", "grouped.float(), k.float(), v.float()"), "keeps-the-type"),
    wrong("4", "heads left in groups", ALL + GROUPED + VALID + TOGETHER.replace(".flatten(1, 2)", ""), "shape"),
    wrong("5", "all greedy", "return logits.argmax(-1).tolist()", "as-sample-draws"),
    wrong("5", "one temperature for all", LOOP + "    tokens.append(sample(row, temperatures[0], top_p, generator))\nreturn tokens", "whoever-else-is-there"),
    wrong("5", "one generator for all", LOOP.replace("in zip", "in zip") + "    tokens.append(sample(row, temperature, top_p, next((g for g in generators if g is not None), None)))\nreturn tokens",
          "whoever-else-is-there", both(en="one generator for the whole batch", zh="整批共用一个生成器")),
    wrong("5", "no generator", LOOP + "    tokens.append(sample(row, temperature, top_p))\nreturn tokens", "its-own-generator",
          both(en="torch's global generator", zh="用 torch 的全局生成器")),
    wrong("5", "temperature forgotten", LOOP + "    tokens.append(sample(row, 1.0 if temperature else 0.0, top_p, generator))\nreturn tokens", "its-own-settings"),
    wrong("5", "top-p forgotten", LOOP + "    tokens.append(sample(row, temperature, 1.0, generator))\nreturn tokens", "its-own-settings",
          both(en="sampling without top-p", zh="抽样时没有用 top-p")),
    wrong("5", "the smallest top-p for all", LOOP + "    tokens.append(sample(row, temperature, min(top_ps), generator))\nreturn tokens", "whoever-else-is-there"),
    wrong("5", "top-p over the whole batch", GREEDY + COLUMNS + "flat, where = ((logits[drawn] / heat).softmax(-1) / len(drawn)).flatten().sort(descending=True, stable=True)\n"
          "flat = flat.masked_fill(flat.cumsum(0) - flat >= reach.max(), 0.0)\nprobs = torch.zeros_like(flat).scatter(0, where, flat).view(len(drawn), -1) + 1e-30\n" + DRAWN, "its-own-settings"),
    wrong("5", "greedy rows are drawn", GREEDY + "rows = (logits / torch.tensor(temperatures).clamp(min=1e-6)[:, None]).softmax(-1)\nordered, ids = rows.sort(descending=True, stable=True)\n"
          "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= torch.tensor(top_ps)[:, None], 0.0)\nprobs = torch.zeros_like(kept).scatter(-1, ids, kept)\n"
          "return [int(torch.multinomial(p, 1, generator=g)) for p, g in zip(probs, generators)]", ""),
    wrong("5", "in order of probability", GREEDY + COLUMNS + SORTED + CUT + "probs = kept\nfor n, i in enumerate(drawn):\n    tokens[i] = int(ids[n, torch.multinomial(probs[n], 1, generator=generators[i])])\nreturn tokens",
          "as-sample-draws"),
    wrong("5", "ranks as tokens", GREEDY + COLUMNS + SORTED + CUT + "probs = kept\n" + DRAWN, "as-sample-draws"),
    wrong("5", "by its place among those drawn", GREEDY + COLUMNS + SORTED + CUT + BACK + DRAWN.replace("generators[i]", "generators[n]"), ""),
    wrong("5", "draws twice", LOOP + "    sample(row, temperature, top_p, generator)\n    tokens.append(sample(row, temperature, top_p, generator))\nreturn tokens", "as-sample-draws"),
    wrong("5", "a draw more", LOOP + "    tokens.append(sample(row, temperature, top_p, generator))\n    if generator is not None:\n        torch.rand((), generator=generator)\nreturn tokens", "one-draw-each"),
    wrong("5", "divides in place", "for i, t in enumerate(temperatures):\n    if t:\n        logits[i] /= t\nreturn [sample(row, min(t, 1.0), p, g) for row, t, p, g in zip(logits, map(lambda t: float(t > 0), temperatures), top_ps, generators)]", "leaves-its-arguments"),
    wrong("5", "fills in what is None", "for i, g in enumerate(generators):\n    generators[i] = g or torch.Generator()\nreturn [sample(*each) for each in zip(logits, temperatures, top_ps, generators)]", "leaves-its-arguments"),
    wrong("5", "a tensor", "return logits.argmax(-1)", "token-ids"),
    wrong("5", "the last of equals", LOOP + "    if temperature == 0:\n        tokens.append(len(row) - 1 - int(row.flip(0).argmax()))\n        continue\n    tokens.append(sample(row, temperature, top_p, generator))\nreturn tokens", "greedy-rows"),
    wrong("6", "larger than the size", "return min((b for b in buckets if b > size), default=None)", "the-smallest"),
    wrong("6", "the largest", "return max(buckets) if buckets and max(buckets) >= size else None", "the-smallest"),
    wrong("6", "the first in the list", "return next((b for b in buckets if b >= size), None)", "the-smallest", both(en="the first bucket in the list that holds it", zh="列表里第一个装得下的桶")),
    wrong("6", "the largest for what is too large", "return min((b for b in buckets if b >= size), default=max(buckets, default=None))", "none-that-holds-it"),
    wrong("6", "the nearest", "return min(buckets, key=lambda b: abs(b - size), default=None)", "holds-it", both(en="the nearest bucket", zh="最接近的桶")),
    wrong("6", "0 for none", "return min((b for b in buckets if b >= size), default=0)", "none-that-holds-it"),
    wrong("6", "sorts the caller's list", "buckets.sort()\nreturn next((b for b in buckets if b >= size), None)", "leaves-its-arguments"),
    wrong("6", "its place in the list", "from bisect import bisect_left\ni = bisect_left(sorted(buckets), size)\nreturn i if i < len(buckets) else None", "a-bucket"),
    wrong("7", "equal shares of the list", "ordered = sorted(sizes)\nreturn sorted({ordered[-(-len(ordered) * i // count) - 1] for i in range(1, count + 1) if len(ordered) * i >= count})", "least-padding",
          both(en="equally many sizes for each bucket", zh="每个桶分到同样多的大小")),
    wrong("7", "powers of two", "return [2**i for i in range(max(sizes).bit_length() + 1)][-count:]", "least-padding"),
    wrong("7", "the most frequent", "from collections import Counter\ntop = max(sizes)\nreturn sorted({s for s, _ in Counter(s for s in sizes if s != top).most_common(count - 1)} | {top})", "least-padding"),
    wrong("7", "at the widest gaps", "own = sorted(set(sizes))\ngaps = sorted(zip(own, own[1:]), key=lambda pair: pair[0] - pair[1])[: count - 1]\nreturn sorted([a for a, _ in gaps] + own[-1:])", "least-padding",
          both(en="a new bucket behind the widest gaps", zh="在间隔最大的地方分桶")),
    wrong("7", "every size once", "from itertools import combinations\nown = sorted(set(sizes))\n"
          "return min(([*c, own[-1]] for n in range(count) for c in combinations(own[:-1], n)), key=lambda c: sum(min(b for b in c if b >= s) for s in own))", "least-padding"),
    wrong("7", "one after the other", "chosen = [max(sizes)]\nwhile len(chosen) < count and set(sizes) - set(chosen):\n"
          "    chosen.append(min(sorted(set(sizes) - set(chosen)), key=lambda extra: sum(min(b for b in [*chosen, extra] if b >= s) for s in sizes)))\nreturn sorted(chosen)", "least-padding",
          both(en="adding the best bucket, one after the other", zh="一个一个地加当前最好的桶")),
    wrong("7", "the least useful dropped", "chosen = sorted(set(sizes))\nwhile len(chosen) > count:\n"
          "    chosen.remove(min(chosen[:-1], key=lambda gone: sum(min(b for b in chosen if b >= s and b != gone) for s in sizes)))\nreturn chosen", "least-padding"),
    wrong("7", "every choice", "from itertools import combinations\nown = sorted(set(sizes))\n"
          "return min(([*c, own[-1]] for n in range(min(count, len(own))) for c in combinations(own[:-1], n)), key=lambda c: sum(min(b for b in c if b >= s) for s in sizes))", "ends"),
    wrong("7", "sorts the caller's list", "from functools import cache\nsizes.sort()\n\n@cache\ndef best(n, left):\n    if n == 0 or left == 0:\n        return (0 if n == 0 else 10**9), ()\n"
          "    return min((best(m, left - 1)[0] + (n - m) * sizes[n - 1], (*best(m, left - 1)[1], sizes[n - 1])) for m in range(n))\n\nreturn list(best(len(sizes), count)[1])", "leaves-its-arguments"),
    wrong("7", "one more", "from itertools import combinations\nown = sorted(set(sizes))\n"
          "return min(([*c, own[-1]] for n in range(min(count + 1, len(own))) for c in combinations(own[:-1], n)), key=lambda c: sum(min(b for b in c if b >= s) for s in sizes))", "at-most-so-many"),
    wrong("7", "the largest left out", "return sorted(set(sizes))[:count]", "everybody-fits"),
    wrong("7", "a tuple", "return tuple(sorted(set(sizes))[-count:])", "a-list"),
    wrong("7", "from large to small", "from itertools import combinations\nown = sorted(set(sizes))\n"
          "return sorted(min(([*c, own[-1]] for n in range(min(count, len(own))) for c in combinations(own[:-1], n)), key=lambda c: sum(min(b for b in c if b >= s) for s in sizes)), reverse=True)",
          "from-small-to-large"),
]  # fmt: skip

CORRECT = [
    Variant("a loop over everything", {
        "ch09.1": "query_start_loc, seq_lens, tokens, positions = [0], [], [], []\nfor r in plan.scheduled:\n    for p in range(plan.start[r], plan.start[r] + plan.scheduled[r]):\n"
        "        tokens.append(sequences[r][p])\n        positions.append(p)\n    query_start_loc += [query_start_loc[-1] + plan.scheduled[r]]\n    seq_lens += [positions[-1] + 1]",
        "ch09.2": "rows, positions = torch.broadcast_tensors(torch.as_tensor(rows, device=positions.device), positions)\n"
        "flat = [int(block_tables[r, p // block_size]) * block_size + p % block_size for r, p in zip(rows.flatten().tolist(), positions.flatten().tolist())]\n"
        "return torch.tensor(flat).reshape(positions.shape)",
        "ch09.3": "return ch08.attention(q, keys[slots], values[slots], positions)",
        "ch09.4": "rows = [ch08.attention(q[i : i + 1], keys[slots[i, :n]], values[slots[i, :n]], torch.tensor([n - 1])) for i, n in enumerate(seq_lens.tolist())]\nreturn torch.cat(rows)",
        "ch09.5": "return [sample(*each) for each in zip(logits, temperatures, top_ps, generators)]",
    }),
    Variant("einsum in place of PyTorch's attention", {
        "ch09.3": "group = q.shape[1] // keys.shape[1]\nk, v = (x[slots].repeat_interleave(group, 1) for x in (keys, values))\n"
        "scores = torch.einsum('qhd,khd->hqk', q, k) * q.shape[-1] ** -0.5\nlater = torch.arange(len(slots)) > positions[:, None]\n"
        "return torch.einsum('hqk,khd->qhd', scores.masked_fill(later, float('-inf')).softmax(-1), v)",
        "ch09.4": "group = q.shape[1] // keys.shape[1]\nk, v = (x[slots].repeat_interleave(group, 2) for x in (keys, values))\n"
        "scores = torch.einsum('nhd,nkhd->nhk', q, k) / q.shape[-1] ** 0.5\nover = torch.arange(slots.shape[1]) >= seq_lens[:, None]\n"
        "return torch.einsum('nhk,nkhd->nhd', scores.masked_fill(over[:, None], float('-inf')).softmax(-1), v)",
    }),
    Variant("divmod, gather, an additive mask", {
        "ch09.1": "from itertools import accumulate\ntokens = [t for r, n in plan.scheduled.items() for t in sequences[r][plan.start[r] : plan.start[r] + n]]\n"
        "positions = [plan.start[r] + i for r, n in plan.scheduled.items() for i in range(n)]\nquery_start_loc = [0, *accumulate(plan.scheduled.values())]\n"
        "seq_lens = [plan.start[r] + n for r, n in plan.scheduled.items()]",
        "ch09.2": "block, offset = positions // block_size, positions.remainder(block_size)\nreturn torch.add(offset, block_tables[rows, block], alpha=block_size)",
        "ch09.3": "k, v = keys.index_select(0, slots)[None].transpose(1, 2), values.index_select(0, slots)[None].transpose(1, 2)\n"
        "group = q.shape[1] // keys.shape[1]\nk, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)\n"
        "mask = torch.zeros(len(q), len(slots), dtype=q.dtype).masked_fill(torch.arange(len(slots)) > positions[:, None], float('-inf'))\n"
        "return scaled_dot_product_attention(q[None].transpose(1, 2), k, v, mask)[0].transpose(0, 1)",
        "ch09.4": "k, v = keys[slots].transpose(1, 2), values[slots].transpose(1, 2)\nmask = torch.arange(slots.shape[1])[None] < seq_lens[:, None]\n"
        "return scaled_dot_product_attention(q[:, :, None], k, v, mask[:, None, None], enable_gqa=True)[:, :, 0]",
    }),
    Variant("top-p without a sort of everything, other searches", {
        "ch09.5": "tokens = []\nfor row, t, p, g in zip(logits, temperatures, top_ps, generators):\n    if not t:\n        tokens.append(row.argmax().item())\n        continue\n"
        "    probs, sum_, kept = (row / t).softmax(0), 0.0, torch.zeros_like(row)\n    for i in sorted(range(len(row)), key=lambda i: -probs[i].item()):\n        if sum_ >= p:\n            break\n"
        "        kept[i], sum_ = probs[i], sum_ + probs[i].item()\n    tokens.append(int(torch.multinomial(kept / kept.sum(), 1, generator=g)))\nreturn tokens",
        "ch09.6": "for b in sorted(buckets):\n    if b >= size:\n        return b\nreturn None",
        "ch09.7": "own, ways = sorted(sizes), {0: (0, [])}\nfor _ in range(count):\n    ways = {0: (0, [])} | {\n"
        "        n: min((ways[m][0] + (n - m) * own[n - 1], [*ways[m][1], own[n - 1]]) for m in ways if m < n) for n in range(1, len(own) + 1)\n    }\nreturn ways[len(own)][1]",
    }),
    Variant("a table, upwards", {
        "ch09.6": "from bisect import bisect_left\nordered = sorted(buckets)\ni = bisect_left(ordered, size)\nreturn ordered[i] if i < len(ordered) else None",
        "ch09.7": "own, n = sorted(sizes), len(sizes)\nrows = [[0] * (count + 1)] + [[10**9] * (count + 1) for _ in range(n)]\nfrom_ = [[0] * (count + 1) for _ in range(n + 1)]\n"
        "for j in range(1, n + 1):\n    for k in range(1, count + 1):\n        rows[j][k], from_[j][k] = min((rows[m][k - 1] + (j - m) * own[j - 1], m) for m in range(j))\n"
        "k = min(range(count + 1), key=lambda k: rows[n][k])\nfound, j = [], n\nwhile j:\n    found.append(own[j - 1])\n    j, k = from_[j][k], k - 1\nreturn sorted(found)",
    }),
]  # fmt: skip

SYMMETRIC = "changing two axes is the same either way round"
TWO_AXES = "there are two axes, so the second is the last"
EQUIVALENT = {
    "ch09.3:1 arguments 1 and 2 swapped": SYMMETRIC,
    "ch09.3:1 arguments 1 and 2 swapped (2)": SYMMETRIC,
    "ch09.3:3 arguments 1 and 2 swapped (2)": SYMMETRIC,
    "ch09.3:4 arguments 1 and 2 swapped": SYMMETRIC,
    "ch09.4:1 arguments 1 and 2 swapped": SYMMETRIC,
    "ch09.4:1 arguments 1 and 2 swapped (2)": SYMMETRIC,
    "ch09.5:1 minus removed": TWO_AXES,
    "ch09.5:6 minus removed": TWO_AXES,
    "ch09.5:7 minus removed": TWO_AXES,
    "ch09.5:8 minus removed": TWO_AXES,
    "ch09.5:8 zeros_like became tensor": "every place is written over",
    "ch09.7:6 0 became 1": "a constant more in every choice",
    "ch09.7:6 0 became -1": "a constant less in every choice",
}
