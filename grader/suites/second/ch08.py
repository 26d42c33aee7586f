"""Chapter 8 by a second author, who had read the learner's notebook, its contract and nothing else."""

from __future__ import annotations

from decodelab.grading.prove import Variant


def but(right: str, *changes: tuple[str, str]) -> str:
    """A right answer with one thing in it done otherwise."""
    for old, new in changes:
        assert old in right, f"{old!r} is not in the answer"
        right = right.replace(old, new)
    return right


ROPE = """
half = x.shape[-1] // 2
speeds = theta ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
angles = (positions[:, None].float() * speeds)[:, None, :]
cos, sin = angles.cos(), angles.sin()
a, b = x[..., :half].float(), x[..., half:].float()
return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)
"""
TURNED = "torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)"
ROPES = [
    (
        "neighbours are pairs",
        but(
            ROPE,
            ("x[..., :half]", "x[..., 0::2]"),
            ("x[..., half:]", "x[..., 1::2]"),
            (TURNED, "torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)"),
        ),
    ),
    (
        "neighbours are read, halves are written",
        but(ROPE, ("x[..., :half]", "x[..., 0::2]"), ("x[..., half:]", "x[..., 1::2]")),
    ),
    (
        "the last one is the first one's mate",
        but(
            ROPE,
            ("x[..., half:]", "x[..., half:].flip(-1)"),
            ("a * sin + b * cos]", "(a * sin + b * cos).flip(-1)]"),
        ),
    ),
    ("clockwise", but(ROPE, (TURNED, "torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)"))),
    ("both with a plus", but(ROPE, ("a * cos - b * sin", "a * cos + b * sin"))),
    ("the second one by its own", but(ROPE, ("a * sin + b * cos", "b * sin + a * cos"))),
    (
        "the halves change places",
        but(ROPE, (TURNED, "torch.cat([a * sin + b * cos, a * cos - b * sin], -1)")),
    ),
    ("the second half stays", but(ROPE, (TURNED, "torch.cat([a * cos - b * sin, b], dim=-1)"))),
    ("the whole head in the exponent", but(ROPE, ("(-torch.arange(half,", "(-0.5 * torch.arange(half,"))),
    ("2 i over half", but(ROPE, ("(-torch.arange(half,", "(-2 * torch.arange(half,"))),
    ("up instead of down", but(ROPE, ("(-torch.arange(half,", "(torch.arange(half,"))),
    ("the slowest reaches theta", but(ROPE, ("/ half)", "/ max(half - 1, 1))"))),
    ("counted from 1", but(ROPE, ("-torch.arange(half,", "-torch.arange(1, half + 1,"))),
    ("theta is 10,000", but(ROPE, ("theta **", "10000.0 **"))),
    ("one speed for all", but(ROPE, ("-torch.arange(half,", "-torch.zeros(half,"))),
    ("in degrees", but(ROPE, (".float() * speeds)", ".float() * speeds).deg2rad()"))),
    ("by row", but(ROPE, ("positions[:, None]", "torch.arange(len(x))[:, None]"))),
    (
        "from the first one on",
        but(ROPE, ("positions[:, None]", "(positions[0] + torch.arange(len(x)))[:, None]")),
    ),
    (
        "from the first one on, at 0",
        but(ROPE, ("positions[:, None]", "(positions - positions[:1])[:, None]")),
    ),
    ("the first token is number 1", but(ROPE, ("positions[:, None]", "(positions + 1)[:, None]"))),
    ("in order", but(ROPE, ("positions[:, None]", "positions.sort().values[:, None]"))),
    ("everybody at the first one's place", but(ROPE, ("positions[:, None]", "positions[:1, None]"))),
    (
        "a head further, a step further",
        but(ROPE, ("[:, None, :]", "[:, None, :] + torch.arange(x.shape[1])[:, None]")),
    ),
    ("angles in the type of x", but(ROPE, ("speeds)[:, None, :]", "speeds)[:, None, :].to(x.dtype)"))),
    (
        "positions in the type of x",
        but(ROPE, ("positions[:, None].float()", "positions[:, None].to(x.dtype)")),
    ),
    (
        "positions in half precision",
        but(ROPE, ("positions[:, None].float()", "positions[:, None].bfloat16()")),
    ),
    ("float32 whatever comes", but(ROPE, (".to(x.dtype)", ""))),
    (
        "in x itself",
        but(ROPE, ("return " + TURNED + ".to(x.dtype)", "x.copy_(" + TURNED + ")\nreturn x")),
    ),
    (
        "in x itself, and the first half comes too early",
        """
half = x.shape[-1] // 2
angles = (positions[:, None] * theta ** (-torch.arange(half) / half))[:, None]
a, b = x[..., :half], x[..., half:]
x[..., :half] = a * angles.cos() - b * angles.sin()
x[..., half:] = a * angles.sin() + b * angles.cos()
return x
""",
    ),
    ("the heads lie side by side", but(ROPE, (".to(x.dtype)", ".to(x.dtype).flatten(-2)"))),
    (
        "no angle beyond a full turn of positions",
        but(ROPE, ("positions[:, None]", "(positions % 2048)[:, None]")),
    ),
]

ATTENTION = """
group = q.shape[1] // k.shape[1]
keys, values = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
scores = torch.einsum("nhd,mhd->hnm", q, keys) / q.shape[-1] ** 0.5
later = torch.arange(len(k), device=q.device)[None, :] > positions[:, None]
shares = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
return torch.einsum("hnm,mhd->nhd", shares, values).to(q.dtype)
"""
ATTENTIONS = [
    ("the KV heads take turns", but(ATTENTION, ("_interleave(group, dim=1)", "(1, group, 1)"))),
    ("the values take turns", but(ATTENTION, ("v.repeat_interleave(group, dim=1)", "v.repeat(1, group, 1)"))),
    ("the keys take turns", but(ATTENTION, ("k.repeat_interleave(group, dim=1)", "k.repeat(1, group, 1)"))),
    (
        "the first KV head for everybody",
        but(ATTENTION, ("keys, values = ", "k, v = k[:, :1], v[:, :1]\ngroup = q.shape[1]\nkeys, values = ")),
    ),
    ("as many heads as KV heads", but(ATTENTION, ("(group, dim=1)", "(1, dim=1)"))),
    ("as often as there are KV heads", but(ATTENTION, ("(group, dim=1)", "(k.shape[1], dim=1)"))),
    ("along the tokens", but(ATTENTION, ("_interleave(group, dim=1)", "_interleave(group, dim=0)"))),
    ("not scaled", but(ATTENTION, (" / q.shape[-1] ** 0.5", ""))),
    ("divided by head_dim", but(ATTENTION, ("q.shape[-1] ** 0.5", "q.shape[-1]"))),
    ("divided by the root of the heads", but(ATTENTION, ("q.shape[-1] ** 0.5", "q.shape[1] ** 0.5"))),
    ("divided by the root of the keys", but(ATTENTION, ("q.shape[-1] ** 0.5", "len(k) ** 0.5"))),
    ("multiplied by the root", but(ATTENTION, (" / q.shape[-1]", " * q.shape[-1]"))),
    (
        "scaled behind the softmax",
        but(
            ATTENTION,
            (" / q.shape[-1] ** 0.5", ""),
            ("softmax(dim=-1)", "softmax(dim=-1) / q.shape[-1] ** 0.5"),
        ),
    ),
    (
        "the query scaled in place",
        but(ATTENTION, ("group =", "q *= q.shape[-1] ** -0.5\ngroup ="), (" / q.shape[-1] ** 0.5", "")),
    ),
    ("nothing hidden", but(ATTENTION, (".masked_fill(later, float('-inf'))".replace("'", '"'), ""))),
    ("itself hidden", but(ATTENTION, ("> positions", ">= positions"))),
    ("one more seen", but(ATTENTION, ("> positions[:, None]", "> positions[:, None] + 1"))),
    ("the past hidden", but(ATTENTION, ("> positions", "< positions"))),
    ("by row", but(ATTENTION, ("positions[:, None]", "torch.arange(len(q))[:, None]"))),
    (
        "the last rows, whatever they say",
        but(ATTENTION, ("positions[:, None]", "(torch.arange(len(q)) + len(k) - len(q))[:, None]")),
    ),
    (
        "one behind the other, from the first",
        but(ATTENTION, ("positions[:, None]", "(torch.arange(len(q)) + positions[0])[:, None]")),
    ),
    (
        "everybody sees what the last one sees",
        but(ATTENTION, ("positions[:, None]", "positions.max()[None, None]")),
    ),
    ("everybody sees what the first one sees", but(ATTENTION, ("positions[:, None]", "positions[:1, None]"))),
    ("in order", but(ATTENTION, ("positions[:, None]", "positions.sort().values[:, None]"))),
    ("a score of 0 for the hidden", but(ATTENTION, ('float("-inf")', "0.0"))),
    ("a score of -1 for the hidden", but(ATTENTION, ('float("-inf")', "-1.0"))),
    ("the smallest positive number", but(ATTENTION, ('float("-inf")', "torch.finfo(q.dtype).tiny"))),
    (
        "hidden behind the softmax",
        but(
            ATTENTION,
            (
                'scores.masked_fill(later, float("-inf")).softmax(dim=-1)',
                "scores.softmax(dim=-1).masked_fill(later, 0)",
            ),
        ),
    ),
    ("the softmax over the queries", but(ATTENTION, ("softmax(dim=-1)", "softmax(dim=1)"))),
    ("the softmax over the heads", but(ATTENTION, ("softmax(dim=-1)", "softmax(dim=0)"))),
    (
        "the largest takes it all",
        but(ATTENTION, ("return", "shares = (shares == shares.amax(-1, keepdim=True)).to(q.dtype)\nreturn")),
    ),
    ("the mix of the keys", but(ATTENTION, ("shares, values)", "shares, keys)"))),
    ("values for keys", but(ATTENTION, ("q, keys)", "q, values)"))),
    ("heads first", but(ATTENTION, ("->nhd", "->hnd"))),
    ("heads side by side", but(ATTENTION, (".to(q.dtype)", ".to(q.dtype).flatten(-2)"))),
    ("float32 whatever comes", but(ATTENTION, (".to(q.dtype)", ".float()"))),
    (
        "the library's own causal",
        """
from torch.nn.functional import scaled_dot_product_attention

heads = [t.transpose(0, 1)[None] for t in (q, k, v)]
return scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)[0].transpose(0, 1)
""",
    ),
    (
        "the library's mask upside down",
        """
from torch.nn.functional import scaled_dot_product_attention

heads = [t.transpose(0, 1)[None] for t in (q, k, v)]
mask = torch.arange(len(k)) > positions[:, None]
return scaled_dot_product_attention(*heads, attn_mask=mask, enable_gqa=True)[0].transpose(0, 1)
""",
    ),
    (
        "no further back than four",
        but(ATTENTION, ("shares =", "later |= torch.arange(len(k)) < positions[:, None] - 4\nshares =")),
    ),
]

ATTEND = """
self.keys[layer, positions] = k
self.values[layer, positions] = v
end = int(positions[-1]) + 1
return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)
"""
WRITE = "self.keys[layer, positions] = k\nself.values[layer, positions] = v\n"
ATTENDS = [
    ("nothing kept", "return attention(q, k, v, positions)"),
    ("nothing kept, by row", "return attention(q, k, v, torch.arange(len(q)))"),
    ("kept, and not asked", WRITE + "return attention(q, k, v, torch.arange(len(q)))"),
    ("everything read", WRITE + "return attention(q, self.keys[layer], self.values[layer], positions)"),
    ("the last one forgotten", but(ATTEND, ("int(positions[-1]) + 1", "int(positions[-1])"))),
    ("one row too many", but(ATTEND, ("+ 1", "+ 2"))),
    ("up to the first new one", but(ATTEND, ("positions[-1]", "positions[0]"))),
    ("as many as are new", but(ATTEND, ("int(positions[-1]) + 1", "len(k)"))),
    ("at the rows of this call", but(ATTEND, ("[layer, positions] =", "[layer, : len(k)] ="))),
    ("always the first layer", but(ATTEND, ("[layer,", "[0,"))),
    ("in all layers", but(ATTEND, ("[layer, positions] =", "[:, positions] ="))),
    (
        "the last row alone",
        but(
            ATTEND,
            ("[layer, positions] = k", "[layer, positions[-1]] = k[-1]"),
            ("[layer, positions] = v", "[layer, positions[-1]] = v[-1]"),
        ),
    ),
    ("keys for values", but(ATTEND, ("positions] = v", "positions] = k"))),
    ("the values never kept", but(ATTEND, ("self.values[layer, positions] = v\n", ""))),
    (
        "keys and values mixed up",
        but(
            ATTEND,
            (
                "q, self.keys[layer, :end], self.values[layer, :end]",
                "q, self.values[layer, :end], self.keys[layer, :end]",
            ),
        ),
    ),
    ("turned once more", but(ATTEND, ("positions] = k", "positions] = rope(k, positions, 10000.0)"))),
    ("into a copy", but(ATTEND, ("self.keys[layer, positions]", "self.keys[layer].clone()[positions]"))),
    (
        "into a copy, by a list of rows",
        but(ATTEND, ("self.keys[layer, positions]", "self.keys[[layer]][0, positions]")),
    ),
    ("asked by row", but(ATTEND, (":end], positions)", ":end], torch.arange(len(q)))"))),
    (
        "the old ones alone",
        "start = int(positions[0])\nseen = attention(q, self.keys[layer, :start], self.values[layer, :start], positions - 1) if start else attention(q, k, v, positions)\n"
        + WRITE
        + "return seen",
    ),
    (
        "put behind what there is",
        """
self.length = getattr(self, "length", {})
start = self.length.get(layer, 0)
self.length[layer] = end = start + len(k)
self.keys[layer, start:end] = k
self.values[layer, start:end] = v
return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)
""",
    ),
    (
        "one length for all layers",
        """
self.length = getattr(self, "length", 0)
self.keys[layer, self.length : self.length + len(k)] = k
self.values[layer, self.length : self.length + len(k)] = v
end = self.length + len(k)
if layer == len(self.keys) - 1:
    self.length = end
return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)
""",
    ),
    (
        "a list that only grows",
        """
self.parts = getattr(self, "parts", {})
self.parts.setdefault(layer, []).append((k, v))
keys, values = (torch.cat(each) for each in zip(*self.parts[layer]))
return attention(q, keys, values, positions)
""",
    ),
    (
        "what was written first stays",
        """
self.rows = getattr(self, "rows", {})
for at, key, value in zip(positions.tolist(), k, v):
    self.rows.setdefault((layer, at), (key, value))
rows = [self.rows[layer, at] for at in range(int(positions[-1]) + 1)]
return attention(q, torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows]), positions)
""",
    ),
    (
        "one drawer for all caches",
        """
rows = KVCache.__dict__.get("rows") or {}
KVCache.rows = rows
for at, key, value in zip(positions.tolist(), k, v):
    rows[layer, at] = key, value
seen = [rows[layer, at] for at in range(int(positions[-1]) + 1)]
return attention(q, torch.stack([r[0] for r in seen]), torch.stack([r[1] for r in seen]), positions)
""",
    ),
    (
        "emptied before every pass",
        but(
            ATTEND,
            (
                "self.keys[layer, positions] = k",
                "self.keys[layer].zero_(), self.values[layer].zero_()\nself.keys[layer, positions] = k",
            ),
        ),
    ),
    (
        "added to what stood there",
        but(ATTEND, ("positions] = k", "positions] = k + self.keys[layer, positions].nan_to_num()")),
    ),
    (
        "zeros for NaN, and they are seen",
        WRITE
        + "keys, values = self.keys[layer].nan_to_num(), self.values[layer].nan_to_num()\nreturn attention(q, keys, values, torch.full_like(positions, len(keys) - 1))",
    ),
    (
        "the last query alone",
        but(ATTEND, ("attention(q,", "attention(q[-1:],"), (", positions)", ", positions[-1:])")),
    ),
    (
        "in half precision",
        but(
            ATTEND,
            ("positions] = k", "positions] = k.bfloat16().to(k.dtype)"),
            ("positions] = v", "positions] = v.bfloat16().to(v.dtype)"),
        ),
    ),
]

DISTRIBUTION = """
if temperature == 0:
    greedy = torch.zeros_like(logits)
    greedy[logits.argmax()] = 1.0
    return greedy
probs = (logits / temperature).softmax(dim=-1)
ordered, ids = probs.sort(descending=True, stable=True)
ordered = torch.where(ordered.cumsum(0) - ordered < top_p, ordered, 0.0)
result = torch.zeros_like(probs)
result[ids] = ordered / ordered.sum()
return result
"""
BEFORE = "ordered.cumsum(0) - ordered < top_p"
DISTRIBUTIONS = [
    ("without the one that reaches it", but(DISTRIBUTION, (BEFORE, "ordered.cumsum(0) <= top_p"))),
    (
        "without the one that reaches it, but for the first",
        but(DISTRIBUTION, (BEFORE, "(ordered.cumsum(0) <= top_p) | (torch.arange(len(ids)) == 0)")),
    ),
    (
        "one more where it is reached exactly",
        but(DISTRIBUTION, (BEFORE, "ordered.cumsum(0) - ordered <= top_p")),
    ),
    (
        "one more always",
        but(
            DISTRIBUTION,
            (BEFORE, "torch.cat([torch.ones(1), (ordered.cumsum(0) - ordered < top_p).float()])[:-1] > 0"),
        ),
    ),
    (
        "all as probable as the last one",
        but(DISTRIBUTION, (BEFORE, "ordered >= ordered[" + BEFORE + "].min()")),
    ),
    ("as probable as top_p", but(DISTRIBUTION, (BEFORE, "ordered >= top_p"))),
    ("min-p", but(DISTRIBUTION, (BEFORE, "ordered >= top_p * ordered[0]"))),
    ("that share of the ids", but(DISTRIBUTION, (BEFORE, "torch.arange(len(ids)) < top_p * len(ids)"))),
    ("the rest", but(DISTRIBUTION, (BEFORE, "ordered.cumsum(0) - ordered >= top_p"))),
    ("nothing thrown away", but(DISTRIBUTION, (BEFORE, "ordered >= 0"))),
    (
        "in order of ids",
        but(DISTRIBUTION, ("probs.sort(descending=True, stable=True)", "probs, torch.arange(len(probs))")),
    ),
    ("the least probable first", but(DISTRIBUTION, ("descending=True", "descending=False"))),
    (
        "of equal ones the larger id",
        but(
            DISTRIBUTION,
            (
                "ordered, ids = probs.sort(descending=True, stable=True)",
                "ordered, ids = probs.sort(stable=True)\nordered, ids = ordered.flip(0), ids.flip(0)",
            ),
        ),
    ),
    (
        "from the other end, of equal ones the smaller id goes first",
        but(DISTRIBUTION, ("descending=True, ", ""), (BEFORE, "ordered.cumsum(0) > 1 - top_p")),
    ),
    ("left in order of probability", but(DISTRIBUTION, ("result[ids] =", "result[:] ="))),
    (
        "brought back by the wrong way",
        but(
            DISTRIBUTION, ("result[ids] = ordered / ordered.sum()", "result = (ordered / ordered.sum())[ids]")
        ),
    ),
    ("not 1 in all", but(DISTRIBUTION, (" / ordered.sum()", ""))),
    (
        "what is missing goes to the first",
        but(
            DISTRIBUTION,
            (
                "result[ids] = ordered / ordered.sum()",
                "ordered[0] += 1 - ordered.sum()\nresult[ids] = ordered",
            ),
        ),
    ),
    (
        "what is missing, in equal shares",
        but(
            DISTRIBUTION,
            (
                "result[ids] = ordered / ordered.sum()",
                "kept = ordered > 0\nordered[kept] += (1 - ordered.sum()) / kept.sum()\nresult[ids] = ordered",
            ),
        ),
    ),
    ("equal shares", but(DISTRIBUTION, ("result[ids] =", "ordered = (ordered > 0).float()\nresult[ids] ="))),
    (
        "softmax of the kept probabilities",
        but(
            DISTRIBUTION,
            ("ordered / ordered.sum()", 'ordered.masked_fill(ordered == 0, float("-inf")).softmax(0)'),
        ),
    ),
    ("times the temperature", but(DISTRIBUTION, ("logits / temperature", "logits * temperature"))),
    ("no temperature", but(DISTRIBUTION, ("(logits / temperature)", "logits"))),
    ("the root of the temperature", but(DISTRIBUTION, ("logits / temperature", "logits / temperature**0.5"))),
    (
        "top-p first, temperature then",
        but(
            DISTRIBUTION,
            ("(logits / temperature)", "logits"),
            ("result[ids] =", "ordered = ordered ** (1 / temperature)\nresult[ids] ="),
        ),
    ),
    (
        "probabilities divided by it",
        but(DISTRIBUTION, ("(logits / temperature).softmax(dim=-1)", "logits.softmax(dim=-1) / temperature")),
    ),
    (
        "the caller's logits divided",
        but(DISTRIBUTION, ("(logits / temperature)", "logits.div_(temperature)")),
    ),
    ("logarithms", but(DISTRIBUTION, ("return result", "return result.log()"))),
    ("temperature 0 forgotten", DISTRIBUTION.split("return greedy")[1]),
    ("nearly 0", "temperature = max(temperature, 1e-6)" + DISTRIBUTION.split("return greedy")[1]),
    (
        "greedy in equal shares",
        but(
            DISTRIBUTION,
            (
                "greedy[logits.argmax()] = 1.0",
                "best = logits == logits.max()\n    greedy[best] = 1.0 / best.sum()",
            ),
        ),
    ),
    (
        "greedy, all of the equal ones",
        but(DISTRIBUTION, ("greedy[logits.argmax()] = 1.0", "greedy[logits == logits.max()] = 1.0")),
    ),
    (
        "greedy, the last of equal ones",
        but(DISTRIBUTION, ("logits.argmax()", "len(logits) - 1 - logits.flip(0).argmax()")),
    ),
    ("greedy by the size", but(DISTRIBUTION, ("logits.argmax()", "logits.abs().argmax()"))),
    ("greedy gives the id", but(DISTRIBUTION, ("return greedy", "return logits.argmax()"))),
    (
        "greedy in whole numbers",
        but(DISTRIBUTION, ("torch.zeros_like(logits)", "torch.zeros(len(logits), dtype=torch.long)")),
    ),
    ("greedy keeps its logit", but(DISTRIBUTION, ("= 1.0", "= logits.max()"))),
    ("greedy below 1, too", but(DISTRIBUTION, ("temperature == 0", "temperature < 0.6"))),
    (
        "greedy without top-p only",
        but(
            DISTRIBUTION,
            ("temperature == 0", "temperature == 0 and top_p == 1"),
            ("probs = (logits / temperature)", "probs = (logits / (temperature or 1))"),
        ),
    ),
    ("in double precision", but(DISTRIBUTION, ("return result", "return result.double()"))),
    ("a list", but(DISTRIBUTION, ("return result", "return result.tolist()"))),
]

GENERATE = """
new, start = list(prompt), 0
for _ in range(max_new_tokens):
    hidden = decoder.forward(torch.tensor(new), torch.arange(start, start + len(new)), kv)
    token = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)
    yield token
    if token in stop_token_ids:
        return "stop"
    new, start = [token], start + len(new)
return "length"
"""
STOP = '    yield token\n    if token in stop_token_ids:\n        return "stop"\n'
GENERATES = [
    ("everything again", but(GENERATE, ("new, start = [token], start + len(new)", "new = [*new, token]"))),
    (
        "everything again, in a new cache",
        but(
            GENERATE,
            (
                "new, start = [token], start + len(new)",
                "new, kv = [*new, token], decoder.cache(len(prompt) + max_new_tokens)",
            ),
        ),
    ),
    (
        "a new cache for every pass",
        but(GENERATE, ("    hidden =", "    kv = decoder.cache(len(prompt) + max_new_tokens)\n    hidden =")),
    ),
    ("always at 0", but(GENERATE, ("torch.arange(start, start + len(new))", "torch.arange(len(new))"))),
    (
        "positions from 1",
        but(
            GENERATE,
            ("torch.arange(start, start + len(new))", "torch.arange(start + 1, start + len(new) + 1)"),
        ),
    ),
    ("a place left out", but(GENERATE, ("start + len(new)\nreturn", "start + len(new) + 1\nreturn"))),
    ("the last place once more", but(GENERATE, ("start + len(new)\nreturn", "start + len(new) - 1\nreturn"))),
    ("the place counts the answer only", but(GENERATE, ("[token], start + len(new)", "[token], _ + 1"))),
    ("always at the end of the prompt", but(GENERATE, ("[token], start + len(new)", "[token], len(prompt)"))),
    (
        "the prompt token by token",
        """
for at, token in enumerate(prompt):
    hidden = decoder.forward(torch.tensor([token]), torch.tensor([at]), kv)
for at in range(len(prompt), len(prompt) + max_new_tokens):
    token = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)
    yield token
    if token in stop_token_ids:
        return "stop"
    if at < len(prompt) + max_new_tokens - 1:
        hidden = decoder.forward(torch.tensor([token]), torch.tensor([at]), kv)
return "length"
""",
    ),
    (
        "the prompt's last token twice",
        but(
            GENERATE,
            (
                "new, start = list(prompt), 0",
                "decoder.forward(torch.tensor(prompt), torch.arange(len(prompt)), kv)\nnew, start = prompt[-1:], len(prompt) - 1",
            ),
        ),
    ),
    (
        "one pass ahead",
        """
hidden = decoder.forward(torch.tensor(prompt), torch.arange(len(prompt)), kv)
for at in range(len(prompt), len(prompt) + max_new_tokens):
    token = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)
    hidden = decoder.forward(torch.tensor([token]), torch.tensor([at]), kv)
    yield token
    if token in stop_token_ids:
        return "stop"
return "length"
""",
    ),
    (
        "the last one computed as well",
        """
hidden = decoder.forward(torch.tensor(prompt), torch.arange(len(prompt)), kv)
for at in range(len(prompt), len(prompt) + max_new_tokens):
    token = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)
    yield token
    if token in stop_token_ids:
        return "stop"
    hidden = decoder.forward(torch.tensor([token]), torch.tensor([at]), kv)
return "length"
""",
    ),
    (
        "all at the end",
        but(
            GENERATE,
            ("new, start = list(prompt), 0", "new, start, said, why = list(prompt), 0, [], 'length'"),
            (
                STOP,
                "    said.append(token)\n    if token in stop_token_ids:\n        why = 'stop'\n        break\n",
            ),
            ('return "length"', "yield from said\nreturn why"),
        ),
    ),
    (
        "a list",
        but(
            GENERATE,
            ("new, start = list(prompt), 0", "new, start, said = list(prompt), 0, []"),
            (STOP, "    said.append(token)\n    if token in stop_token_ids:\n        break\n"),
            ('return "length"', "return said"),
        ),
    ),
    (
        "the stop token kept back",
        but(GENERATE, (STOP, '    if token in stop_token_ids:\n        return "stop"\n    yield token\n')),
    ),
    ("stops at nothing", but(GENERATE, (STOP, "    yield token\n"))),
    (
        "stops at the first kind only",
        but(GENERATE, ("token in stop_token_ids", "token in stop_token_ids[:1]")),
    ),
    (
        "stops a token later",
        but(GENERATE, (STOP, '    yield token\n    if new[-1] in stop_token_ids:\n        return "stop"\n')),
    ),
    (
        "the prompt stops, too",
        but(GENERATE, ("for _", 'if prompt[-1] in stop_token_ids:\n    return "stop"\nfor _')),
    ),
    (
        "stops at what was in the prompt",
        but(GENERATE, ("token in stop_token_ids", "token in stop_token_ids and token not in prompt")),
    ),
    (
        "length on the last place",
        but(
            GENERATE, ("if token in stop_token_ids", "if token in stop_token_ids and _ < max_new_tokens - 1")
        ),
    ),
    ("always length", but(GENERATE, ('return "stop"', 'return "length"'))),
    ("always stop", but(GENERATE, ('return "length"', 'return "stop"'))),
    ("does not say why", but(GENERATE, ('return "stop"', "return"), ('return "length"', "return"))),
    ("says why as a token", but(GENERATE, ('return "length"', 'yield "length"'))),
    ("raises why", but(GENERATE, ('return "length"', 'raise StopIteration("length")'))),
    ("one too many", but(GENERATE, ("range(max_new_tokens)", "range(max_new_tokens + 1)"))),
    ("one too few", but(GENERATE, ("range(max_new_tokens)", "range(max(1, max_new_tokens - 1))"))),
    (
        "prompt and answer together",
        but(GENERATE, ("range(max_new_tokens)", "range(max(1, max_new_tokens - len(prompt)))")),
    ),
    ("no end", but(GENERATE, ("for _ in range(max_new_tokens):", "while True:"))),
    ("the first row", but(GENERATE, ("hidden[-1]", "hidden[0]"))),
    ("the mean of the rows", but(GENERATE, ("hidden[-1]", "hidden.mean(0)"))),
    ("always greedy", but(GENERATE, ("temperature, top_p, generator)", "0.0, top_p, generator)"))),
    (
        "always temperature 1",
        but(GENERATE, ("temperature, top_p, generator)", "temperature and 1.0, top_p, generator)")),
    ),
    ("no top-p", but(GENERATE, ("temperature, top_p, generator)", "temperature, 1.0, generator)"))),
    (
        "top-p and temperature mixed up",
        but(GENERATE, ("temperature, top_p, generator)", "top_p, temperature or 1.0, generator)")),
    ),
    ("torch's own generator", but(GENERATE, (", top_p, generator)", ", top_p)"))),
    (
        "a generator begun anew",
        but(
            GENERATE, ("new, start = list", "generator = torch.Generator().manual_seed(0)\nnew, start = list")
        ),
    ),
    (
        "thrown twice",
        but(
            GENERATE,
            (
                "    yield",
                "    token = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)\n    yield",
            ),
        ),
    ),
    ("tensors", but(GENERATE, ("yield token", "yield torch.tensor(token)"))),
    ("lists of one", but(GENERATE, ("yield token", "yield [token]"))),
    ("a batch of one", but(GENERATE, ("torch.tensor(new)", "torch.tensor([new])"))),
    (
        "the caller's prompt grows",
        but(
            GENERATE,
            ("new, start = list(prompt), 0", "new, start = prompt, 0"),
            ("    yield", "    prompt.append(token)\n    yield"),
            ("start + len(new)\nreturn", "len(prompt) - 1\nreturn"),
        ),
    ),
    (
        "the caller's prompt used up",
        but(GENERATE, ("list(prompt), 0", "[prompt.pop(0) for _ in range(len(prompt))], 0")),
    ),
    (
        "never says the same twice",
        but(GENERATE, ("    yield token", "    if [token] == new:\n        continue\n    yield token")),
    ),
]

SEEDED = """
if request_id not in self._made:
    number = random.Random(f"{self.seed}/{request_id}").getrandbits(63)
    self._made[request_id] = torch.Generator().manual_seed(number)
return self._made[request_id]
"""
NUMBER = 'random.Random(f"{self.seed}/{request_id}").getrandbits(63)'
SEEDS = [
    ("the seed alone", but(SEEDED, (NUMBER, "self.seed"))),
    ("the id alone", but(SEEDED, (NUMBER, "random.Random(str(request_id)).getrandbits(63)"))),
    (
        "added up",
        but(
            SEEDED,
            (
                NUMBER,
                "self.seed + random.Random(str(request_id)).getrandbits(32) if isinstance(request_id, str) else self.seed + request_id",
            ),
        ),
    ),
    (
        "multiplied",
        but(SEEDED, (NUMBER, "self.seed * (len(request_id) if isinstance(request_id, str) else request_id)")),
    ),
    (
        "either or",
        but(
            SEEDED,
            (
                NUMBER,
                "self.seed ^ (request_id if isinstance(request_id, int) else sum(map(ord, request_id)))",
            ),
        ),
    ),
    ("one behind the other", but(SEEDED, ("{self.seed}/{request_id}", "{self.seed}{request_id}"))),
    ("the letters added up", but(SEEDED, (NUMBER, "self.seed * 1000003 + sum(map(ord, str(request_id)))"))),
    (
        "the letters at any place",
        but(SEEDED, ("{self.seed}/{request_id}", "{self.seed}/{sorted(str(request_id))}")),
    ),
    ("Python's hash", but(SEEDED, (NUMBER, "hash((self.seed, str(request_id))) & (2**63 - 1)"))),
    (
        "the order of coming",
        but(SEEDED, (NUMBER, 'random.Random(f"{self.seed}/{len(self._made)}").getrandbits(63)')),
    ),
    ("by chance", but(SEEDED, (NUMBER, "random.getrandbits(63)"))),
    (
        "by the generator of the machine",
        but(
            SEEDED,
            ("torch.Generator().manual_seed(number)", "torch.Generator()\nself._made[request_id].seed()"),
            ("\nself._made", "\n    self._made"),
        ),
    ),
    ("by torch's own numbers", but(SEEDED, (NUMBER, "int(torch.randint(2**62, (1,)))"))),
    ("by torch's own seed", but(SEEDED, ("{self.seed}/", "{self.seed}/{torch.initial_seed()}/"))),
    (
        "torch's own generator, seeded",
        but(SEEDED, ("torch.Generator().manual_seed(number)", "torch.manual_seed(number)")),
    ),
    ("torch's own generator", "return torch.default_generator"),
    ("anew each time", but(SEEDED, ("if request_id not in self._made:", "if True:"))),
    (
        "begun again each time",
        but(
            SEEDED,
            (
                "return self._made[request_id]",
                "return self._made[request_id].manual_seed(self._made[request_id].initial_seed())",
            ),
        ),
    ),
    (
        "one for all",
        but(
            SEEDED,
            ("request_id not in self._made", "not self._made"),
            ("return self._made[request_id]", "return next(iter(self._made.values()))"),
        ),
    ),
    (
        "a copy each time",
        but(
            SEEDED,
            (
                "return self._made[request_id]",
                "copy = torch.Generator()\ncopy.set_state(self._made[request_id].get_state())\nreturn copy",
            ),
        ),
    ),
    ("of the id its first letter", but(SEEDED, ("{request_id}", "{str(request_id)[:1]}"))),
    ("eight bits", but(SEEDED, ("getrandbits(63)", "getrandbits(8)"))),
    (
        "whole hundreds of ids",
        but(SEEDED, ("{request_id}", "{request_id % 100 if isinstance(request_id, int) else request_id}")),
    ),
    ("even or odd", but(SEEDED, ("{self.seed}/", "{self.seed % 2}/"))),
    ("the number itself", but(SEEDED, ("torch.Generator().manual_seed(number)", "number"))),
    ("Python's generator", but(SEEDED, ("torch.Generator().manual_seed(number)", "random.Random(number)"))),
    (
        "kept by the class",
        but(
            SEEDED,
            ("self._made", "Seeds.__dict__.get('made', {})"),
            ("if request_id", "if 'made' not in Seeds.__dict__:\n    Seeds.made = {}\nif request_id"),
        ),
    ),
]

VISIBLE = """
found = [text.find(stop) for stop in stops if stop in text]
if found:
    return text[: min(found)], True
held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
return text[: len(text) - max(held, default=0)], False
"""
HELD = "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]"
VISIBLES = [
    ("the stop string shown", but(VISIBLE, ("text.find(stop) for", "text.find(stop) + len(stop) for"))),
    ("the first of the list", but(VISIBLE, ("min(found)", "found[0]"))),
    ("the last to begin", but(VISIBLE, ("min(found)", "max(found)"))),
    ("the last time it comes", but(VISIBLE, ("text.find(stop)", "text.rfind(stop)"))),
    (
        "the first to end",
        but(
            VISIBLE,
            (
                "text[: min(found)]",
                "text[: text.find(min((s for s in stops if s in text), key=lambda s: text.find(s) + len(s)))]",
            ),
        ),
    ),
    (
        "the longest",
        but(
            VISIBLE,
            ("text[: min(found)]", "text[: text.find(max((s for s in stops if s in text), key=len))]"),
        ),
    ),
    ("only at the end", but(VISIBLE, ("if stop in text]", "if text.endswith(stop)]"))),
    (
        "at the very end only, cut there",
        but(
            VISIBLE,
            (
                "[text.find(stop) for stop in stops if stop in text]",
                "[len(text) - len(stop) for stop in stops if text.endswith(stop)]",
            ),
        ),
    ),
    ("not at the beginning", but(VISIBLE, ("if stop in text]", "if text.find(stop) > 0]"))),
    (
        "goes on behind it",
        but(
            VISIBLE,
            (
                "return text[: min(found)], True",
                "for stop in stops:\n        text = text.replace(stop, '')\n    return text, True",
            ),
        ),
    ),
    ("nothing held", but(VISIBLE, ("max(held, default=0)", "0"))),
    ("one letter held", but(VISIBLE, ("range(1, len(stop))", "range(1, min(2, len(stop)))"))),
    (
        "all but one letter held",
        but(VISIBLE, ("range(1, len(stop))", "range(max(1, len(stop) - 1), len(stop))")),
    ),
    ("not all but one letter", but(VISIBLE, ("range(1, len(stop))", "range(1, len(stop) - 1)"))),
    ("the shortest end", but(VISIBLE, ("max(held", "min(held"))),
    ("the first end found", but(VISIBLE, ("max(held, default=0)", "(held or [0])[0]"))),
    ("the last end found", but(VISIBLE, ("max(held, default=0)", "(held or [0])[-1]"))),
    ("all ends together", but(VISIBLE, ("max(held, default=0)", "min(len(text), sum(held))"))),
    (
        "always as much as vLLM",
        but(VISIBLE, ("max(held, default=0)", "min(len(text), max(map(len, stops), default=1) - 1)")),
    ),
    (
        "always a whole stop string",
        but(VISIBLE, ("max(held, default=0)", "min(len(text), max(map(len, stops), default=0))")),
    ),
    (
        "an end with such letters",
        but(
            VISIBLE,
            (
                HELD,
                "held = [n for stop in stops for n in range(1, min(len(stop), len(text) + 1)) if set(text[-n:]) <= set(stop)]",
            ),
        ),
    ),
    (
        "an end from anywhere in it",
        but(
            VISIBLE,
            (
                HELD,
                "held = [n for stop in stops for n in range(1, min(len(stop), len(text) + 1)) if text[-n:] in stop]",
            ),
        ),
    ),
    ("a beginning anywhere in the text", but(VISIBLE, ("text.endswith(stop[:n])", "stop[:n] in text"))),
    ("a beginning like the text's", but(VISIBLE, ("text.endswith(stop[:n])", "text.startswith(stop[:n])"))),
    (
        "the first stop string's only",
        but(VISIBLE, ("held = [n for stop in stops for", "held = [n for stop in stops[:1] for")),
    ),
    (
        "nothing is text[:-0]",
        but(VISIBLE, ("text[: len(text) - max(held, default=0)]", "text[: -max(held, default=0)]")),
    ),
    ("no stop strings, no answer", but(VISIBLE, ("max(held, default=0)", "max(held)"))),
    ("over when held", but(VISIBLE, ("default=0)], False", "default=0)], bool(held)"))),
    ("never over", but(VISIBLE, ("True", "False"))),
    ("over, the other way round", but(VISIBLE, ("], False", "], None"))),
    ("1 and 0", but(VISIBLE, ("True", "1"), ("False", "0"))),
    ("the text alone", but(VISIBLE, (", True", ""), (", False", ""))),
    ("over first", but(VISIBLE, ("return text[: min(found)], True", "return True, text[: min(found)]"))),
    (
        "capitals do not matter",
        but(
            VISIBLE,
            ("found =", "lower = text.lower()\nfound ="),
            (
                "text.find(stop) for stop in stops if stop in text",
                "lower.find(stop.lower()) for stop in stops if stop.lower() in lower",
            ),
        ),
    ),
    (
        "blanks at the end gone",
        but(VISIBLE, ("text[: min(found)], True", "text[: min(found)].rstrip(), True")),
    ),
    ("blanks at the end gone, always", but(VISIBLE, ("], False", "].rstrip(), False"))),
    (
        "held before it is cut",
        HELD + "\nif held:\n    return text[: len(text) - max(held)], False\n" + VISIBLE,
    ),
    (
        "by a pattern",
        "import re\n\nfor stop in stops:\n    if m := re.search(stop, text):\n        return text[: m.start()], True\n"
        + VISIBLE,
    ),
]

WRONG = [
    Variant(name, {todo: code})
    for todo, variants in [
        ("ch08.1", ROPES),
        ("ch08.2", ATTENTIONS),
        ("ch08.3", ATTENDS),
        ("ch08.4", DISTRIBUTIONS),
        ("ch08.5", GENERATES),
        ("ch08.6", SEEDS),
        ("ch08.7", VISIBLES),
    ]
    for name, code in variants
]

CORRECT = [
    Variant(
        "complex numbers, a fused kernel, slices",
        {
            "ch08.1": """
half = x.shape[-1] // 2
angles = torch.outer(positions.double(), theta ** (torch.arange(half).double() / -half))
turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.polar(
    torch.ones_like(angles), angles
).unsqueeze(1)
return torch.cat([turned.real, turned.imag], -1).type_as(x)
""",
            "ch08.2": """
from torch.nn.functional import scaled_dot_product_attention

heads = [t.transpose(0, 1)[None] for t in (q, k, v)]
mask = torch.arange(len(k)) <= positions[:, None]
return scaled_dot_product_attention(*heads, attn_mask=mask, enable_gqa=True)[0].transpose(0, 1)
""",
            "ch08.3": """
start, end = int(positions[0]), int(positions[-1]) + 1
self.keys[layer, start:end] = k
self.values[layer][start:end].copy_(v)
return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)
""",
            "ch08.4": """
result = torch.zeros_like(logits)
if not temperature:
    result[int(logits.argmax())] = 1
    return result
probs = torch.softmax(logits.double() / temperature, 0)
order = sorted(range(len(logits)), key=lambda i: (-logits[i].item(), i))
kept, total = [], 0.0
for i in order:
    if total >= top_p:
        break
    kept.append(i)
    total += probs[i].item()
result[kept] = (probs[kept] / total).float()
return result
""",
            "ch08.5": """
tokens, computed = [*prompt], 0
while len(tokens) < len(prompt) + max_new_tokens:
    rows = decoder.forward(
        tokens=torch.as_tensor(tokens[computed:]),
        positions=torch.tensor([*range(computed, len(tokens))]),
        kv=kv,
    )
    computed = len(tokens)
    tokens += [sample(decoder.logits(rows)[-1], temperature, top_p, generator)]
    yield tokens[-1]
    if any(tokens[-1] == stop for stop in stop_token_ids):
        return "stop"
return "length"
""",
            "ch08.6": """
import hashlib

made = self._made.get(request_id)
if made is None:
    digest = hashlib.sha256(repr((self.seed, request_id)).encode()).digest()
    made = self._made[request_id] = torch.Generator()
    made.manual_seed(int.from_bytes(digest[:7], "little"))
return made
""",
            "ch08.7": """
for at in range(len(text)):
    rest = text[at:]
    if any(rest.startswith(stop) for stop in stops):
        return text[:at], True
for at in range(len(text)):
    if any(stop.startswith(text[at:]) for stop in stops):
        return [text[:at], False]
return text, False
""",
        },
    ),
    Variant(
        "rows and heads one by one",
        {
            "ch08.1": """
from math import cos, sin

result = x.clone()
half = x.shape[-1] // 2
for row, at in enumerate(positions.tolist()):
    for i in range(half):
        angle = at * theta ** (-i / half)
        a, b = x[row, :, i].double(), x[row, :, i + half].double()
        result[row, :, i] = (a * cos(angle) - b * sin(angle)).to(x.dtype)
        result[row, :, i + half] = (a * sin(angle) + b * cos(angle)).to(x.dtype)
return result
""",
            "ch08.2": """
result = torch.empty_like(q)
share = q.shape[1] // k.shape[1]
for row, at in enumerate(positions.tolist()):
    for head in range(q.shape[1]):
        keys, values = k[: at + 1, head // share], v[: at + 1, head // share]
        weights = torch.softmax(keys @ q[row, head] * q.shape[2] ** -0.5, 0)
        result[row, head] = weights @ values
return result
""",
            "ch08.3": """
for row, at in enumerate(positions.tolist()):
    self.keys[layer, at], self.values[layer, at] = k[row], v[row]
seen = slice(0, at + 1)
return attention(q, self.keys[layer][seen], self.values[layer][seen], positions)
""",
        },
    ),
    Variant(
        "the tables of other people",
        {
            "ch08.1": """
speeds = 1.0 / theta ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
angles = torch.outer(positions.float(), speeds).repeat(1, 2)[:, None]
wide = x.float()
left, right = wide.chunk(2, dim=-1)
return (wide * angles.cos() + torch.cat([-right, left], -1) * angles.sin()).to(x.dtype)
""",
            "ch08.2": """
n, heads, dim = q.shape
grouped = q.reshape(n, k.shape[1], heads // k.shape[1], dim).float()
scores = torch.einsum("nkgd,mkd->kgnm", grouped, k.float()) * dim**-0.5
scores = scores + torch.zeros(n, len(k)).masked_fill(torch.arange(len(k)) > positions.view(-1, 1), -1e30)
scores = (scores - scores.amax(-1, keepdim=True)).exp()
scores = scores / scores.sum(-1, keepdim=True)
return torch.einsum("kgnm,mkd->nkgd", scores, v.float()).reshape(q.shape).to(q.dtype)
""",
            "ch08.3": """
self.rows = getattr(self, "rows", {})
for at, key, value in zip(positions.tolist(), k.clone(), v.clone()):
    self.rows[layer, at] = key, value
rows = [self.rows[layer, at] for at in range(int(positions.max()) + 1)]
return attention(q, torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows]), positions)
""",
            "ch08.4": """
if temperature == 0:
    return torch.nn.functional.one_hot(logits.argmax(), len(logits)).to(logits)
scaled = logits / temperature
order = scaled.argsort(descending=True, stable=True)
sums = scaled[order].softmax(0).cumsum(0)
reached = int((sums < top_p).sum()) + 1
kept = torch.full_like(scaled, float("-inf"))
kept[order[:reached]] = scaled[order[:reached]]
return kept.softmax(0)
""",
            "ch08.5": """
def answer():
    fresh, behind = torch.tensor(prompt), 0
    while True:
        last = decoder.forward(fresh, behind + torch.arange(fresh.numel()), kv)[-1:]
        token = sample(decoder.logits(last)[0], temperature, top_p, generator)
        yield token
        behind += fresh.numel()
        fresh = fresh.new_tensor([token])

for count, token in enumerate(answer(), 1):
    yield token
    if token in set(stop_token_ids):
        return "stop"
    if count == max_new_tokens:
        return "length"
""",
            "ch08.6": """
if request_id not in self._made:
    import zlib

    text = f"{self.seed} {request_id}".encode()
    number = zlib.crc32(text) << 31 | zlib.crc32(text[::-1]) >> 1
    self._made[request_id] = torch.Generator(device="cpu").manual_seed(number)
return self._made[request_id]
""",
            "ch08.7": """
first = min((text.index(stop) for stop in stops if stop in text), default=-1)
if first >= 0:
    return text[:first], True
longest = max([len(stop) for stop in stops], default=0)
for n in range(min(longest, len(text)), 0, -1):
    if any(stop.startswith(text[len(text) - n :]) for stop in stops):
        return text[: len(text) - n], False
return text, False
""",
        },
    ),
    Variant(
        "what was never written is made harmless, and hidden by the mask",
        {
            "ch08.3": """
self.keys[layer, positions] = k
self.values[layer, positions] = v
return attention(q, self.keys[layer].nan_to_num(), self.values[layer].nan_to_num(), positions)
""",
        },
    ),
    Variant(
        "from the least probable up",
        {
            "ch08.4": """
if temperature <= 0.0:
    return (torch.arange(len(logits)) == logits.argmax()).float()
probs = torch.softmax(logits / temperature, dim=0)
upwards, ids = probs.flip(0).sort(stable=True)
ids = len(probs) - 1 - ids
before = upwards.flip(0).cumsum(0) - upwards.flip(0)
gone = ids.flip(0)[before >= top_p]
probs[gone] = 0
return probs / probs.sum()
""",
        },
    ),
]
