"""Chapter 8's hidden side: directed and seeded workloads, and answers that are known to be wrong or right.

The rules are those of ``decodelab.check.ch08``; only the workloads are new here.
"""

from __future__ import annotations

import random
from itertools import accumulate

import numpy as np

from decodelab.check.ch08 import oracle
from decodelab.check.ch08.cases import attend, calls, choice, draws, loop, model, text, turn
from decodelab.check.rules import Case
from decodelab.grading.prove import Variant
from decodelab.lang import Text, both

DIRECTED: dict[str, list[Case]] = {
    "ch08.1": [
        turn("one-head-two-numbers", [3], heads=1, head_dim=2),
        turn("a-wide-head", [0, 50, 3999], head_dim=128, theta=500_000.0),
        turn("far-along", [2049, 4097], dtype="float16"),
        turn("other-seed-other-theta", [1, 2, 4, 8, 16], heads=5, theta=77.0, seed=3),
    ],
    "ch08.2": [
        attend("three-groups-of-four", 6, [0, 3, 5], heads=12, kv_heads=3),
        attend("a-wide-head", 5, [2, 3, 4], heads=2, kv_heads=1, head_dim=64),
        attend("one-key-of-many", 9, [0]),
        attend("the-last-key", 300, [299], kv_heads=4),
    ],
    "ch08.3": [
        calls("token-by-token", 5, *([layer, p, 1] for p in range(5) for layer in (0, 1))),
        calls("back-to-the-start", 6, [0, 0, 5], [1, 0, 5], [0, 0, 2], [1, 0, 2], [0, 2, 1]),
        calls("full-to-the-last-row", 4, [1, 0, 3], [1, 3, 1]),
        model("llama-in-chunks", "llama", 1, 4, 7, recorded=True),
        model("no-groups", "no-groups", 3, 2, 1, 1),
    ],
    "ch08.4": [
        choice("one-token-alone", [2.0], 1.0, 0.3),
        choice("negative-logits", [-3.0, -1.0, -2.0], 0.7, 0.9),
        choice("large-logits", [1000.0, 999.0, 0.0], 1.0, 0.9),
        choice("a-tie-at-the-edge", [0.0, 2.0, 0.0, 0.0, 0.0, 0.0], 1.0, 0.7),
        choice("sixteen-alike", [0.0] * 16, 3.0, 0.25),
        choice("greedy-whatever-top-p", [0.0, 5.0, 4.9], 0.0, 0.1),
    ],
    "ch08.5": [
        loop("many-stops", [1], 9, [8, 3, 5], script=[2, 4, 5, 3]),
        loop("the-stop-token-is-the-last-but-one", [1, 2], 3, [6], script=[4, 6, 6]),
        loop("token-0-is-a-token", [0, 0], 3, [0], script=[1, 0, 2]),
        loop("the-same-over-and-over", [5, 5, 5], 4, [], script=[5, 5, 5, 5]),
        loop("qwen3-speaks", [1, 2, 3], 5, [], model="qwen3", seed=0),
        loop("another-with-seeds", [9], 9, [], model="qwen3", seed=1, seeds=[11, 12, 13]),
    ],
    "ch08.6": [
        draws("ids-that-are-words", [3, "a"], [3, "b"], [3, "ab"], [3, "a"], [3, "ba"]),
        draws("near-together", *([seed, i] for seed in (0, 1, 2) for i in (0, 1, 2))),
        draws("many", *([5, i] for i in (*range(50), *range(100, 110)))),
        draws("products", [2, 6], [3, 4], [4, 3], [6, 2], [12, 1]),
    ],
    "ch08.7": [
        text("begins-first-ends-last", ["b", "abc"], "xxabc"),
        text("ends-that-could-be-two", ["abab", "bad"], "xab", "a", "d"),
        text("begins-again", ["aab"], "a", "a", "a", "b"),
        text("a-single-character", ["!"], "well", "!", "no"),
        text("lines", ["\n\n", "###"], "one\n", "two\n", "#", "# three", "\n\n"),
        text("empty-so-far", ["end"], "", "e", "", "n"),
    ],
}  # fmt: skip


def random_cases(todo: str, rng: random.Random) -> list[Case]:
    """The workloads of one student's seed; each is marked ``drawn``."""
    return [DRAW[todo](rng) | {"name": f"drawn-{i}", "drawn": True} for i in range(2)]


def draw_turn(rng: random.Random) -> Case:
    positions = [rng.randint(0, 1500) for _ in range(rng.randint(2, 5))]
    more = {
        "heads": rng.randint(1, 4),
        "head_dim": rng.choice([4, 8, 16]),
        "theta": rng.choice([100.0, 1e4, 1e6]),
    }
    return turn("", positions, **more, seed=rng.randint(0, 999))


def draw_attention(rng: random.Random) -> Case:
    kv_heads, keys = rng.choice([2, 3]), rng.randint(4, 12)
    start = rng.randint(1, keys - 2)
    positions = list(range(start, rng.randint(start + 1, keys)))
    shape = {"heads": kv_heads * rng.choice([2, 3]), "kv_heads": kv_heads, "head_dim": rng.choice([4, 8])}
    return attend("", keys, positions, **shape, seed=rng.randint(0, 999))


def draw_cache(rng: random.Random) -> Case:
    """Either a script of calls on two layers, or a tiny model in chunks."""
    chunks = [rng.randint(1, 5) for _ in range(rng.randint(2, 4))]
    if rng.random() < 0.5:
        return model("", rng.choice(["llama", "qwen3", "no-groups"]), *chunks, seed=rng.randint(1, 20))
    starts = [0, *accumulate(chunks)]
    orders = [[layer, s, n] for s, n in zip(starts, chunks, strict=False) for layer in (0, 1)]
    back = rng.randint(0, starts[-1] - 1)
    return calls("", starts[-1] + 2, *orders, [1, back, 2], [0, starts[-1], 1], seed=rng.randint(0, 999))


def draw_choice(rng: random.Random) -> Case:
    """Logits whose nucleus no rounding can change."""
    while True:
        logits = [round(rng.gauss(0, 2), 2) for _ in range(rng.randint(4, 12))]
        temperature, top_p = rng.choice([0.5, 0.8, 1.3, 2.0]), rng.choice([0.3, 0.6, 0.8, 0.95])
        sums = np.cumsum(np.sort(oracle.softmax(logits, temperature))[::-1])
        if np.abs(sums - top_p).min() > 1e-3 and len(set(logits)) == len(logits):
            return choice("", logits, temperature, top_p)


def draw_loop(rng: random.Random) -> Case:
    prompt = [rng.randint(0, 9) for _ in range(rng.randint(2, 6))]
    script = [rng.randint(0, 9) for _ in range(8)]
    return loop("", prompt, rng.randint(2, 8), [rng.choice(script[1:])], script=script)


def draw_seeds(rng: random.Random) -> Case:
    ids = rng.sample(range(50), 3)
    return draws("", *([rng.randint(0, 3), rng.choice(ids)] for _ in range(8)), [7, ids[0]], [7, ids[0]])


def draw_text(rng: random.Random) -> Case:
    stops = ["".join(rng.choices("ab", k=rng.randint(2, 4))) for _ in range(2)]
    return text("", stops, *("".join(rng.choices("abc", k=rng.randint(1, 3))) for _ in range(6)))


DRAW = {
    "ch08.1": draw_turn,
    "ch08.2": draw_attention,
    "ch08.3": draw_cache,
    "ch08.4": draw_choice,
    "ch08.5": draw_loop,
    "ch08.6": draw_seeds,
    "ch08.7": draw_text,
}


def wrong(todo: str, name: str, code: str, rule: str, looks: Text | None = None) -> Variant:
    """An answer to ``ch08.<todo>`` that breaks ``rule``."""
    return Variant(name, {f"ch08.{todo}": code}, rule=rule, looks=looks)


SPEEDS = "half = x.shape[-1] // 2\nspeeds = theta ** (-torch.arange(half) / half)\n"
ANGLES = "angles = (positions[:, None] * speeds)[:, None]\n"
TURN = (
    "cos, sin = angles.cos(), angles.sin()\na, b = x[..., :half], x[..., half:]\n"
    "return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)"
)
GROUP = (
    "group = q.shape[1] // k.shape[1]\nk, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)\n"
)
SCORES = 'scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5\n'
LATER = "later = torch.arange(len(k)) > positions[:, None]\n"
MIX = 'return torch.einsum("hqk,khd->qhd", scores.masked_fill(later, float("-inf")).softmax(-1), v)'
KEEP = "self.keys[layer, positions] = k\nself.values[layer, positions] = v\n"
GREEDY = "if temperature == 0:\n    return torch.zeros_like(logits).scatter(-1, logits.argmax(), 1.0)\n"
PROBS = (
    "probs = (logits / temperature).softmax(-1)\nordered, ids = probs.sort(descending=True, stable=True)\n"
)
BACK = "return torch.zeros_like(probs).scatter(-1, ids, kept / kept.sum())"
START = "tokens, start = list(prompt), 0\nfor _ in range(max_new_tokens):\n"
PASS = "    hidden = decoder.forward(torch.tensor(tokens[start:]), torch.arange(start, len(tokens)), kv)\n    start = len(tokens)\n"
DRAWN = "    tokens.append(sample(decoder.logits(hidden[-1]), temperature, top_p, generator))\n"
END = '    yield tokens[-1]\n    if tokens[-1] in stop_token_ids:\n        return "stop"\nreturn "length"'
FIRST = "if request_id not in self._made:\n"
GIVE = "return self._made[request_id]"
FOUND = "found = [text.find(stop) for stop in stops if stop in text]\nif found:\n    return text[: min(found)], True\n"

WRONG: list[Variant] = [
    wrong("1", "neighbours are pairs", SPEEDS + "angles = (positions[:, None] * speeds)[:, None]\ncos, sin = angles.cos(), angles.sin()\n"
          "a, b = x[..., 0::2], x[..., 1::2]\nreturn torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)",
          "halves", both(en="pairing neighbouring components", zh="把相邻的分量配成一对")),
    wrong("1", "the row is the position", SPEEDS + "angles = (torch.arange(len(x))[:, None] * speeds)[:, None]\n" + TURN, "by-position",
          both(en="taking the row number for the position", zh="把行号当成位置")),
    wrong("1", "the other way round", SPEEDS + "angles = -(positions[:, None] * speeds)[:, None]\n" + TURN, "direction"),
    wrong("1", "half the exponent", SPEEDS.replace("/ half", "/ x.shape[-1]") + ANGLES + TURN, "frequencies"),
    wrong("1", "every pair alike", "half = x.shape[-1] // 2\nangles = positions[:, None, None].float()\n" + TURN, "turns"),
    wrong("1", "type not kept", SPEEDS + ANGLES + TURN.replace(".to(x.dtype)", ""), "keeps-the-type"),
    wrong("1", "angles in the type of x", SPEEDS.replace("speeds = ", "speeds = 1.0 * ") + ANGLES + "angles = angles.half().float()\n" + TURN, "turns"),
    wrong("1", "nothing at all", "return x", "turns"),
    wrong("1", "degrees", SPEEDS + "angles = (positions[:, None] * speeds)[:, None] * 3.14159265 / 180\n" + TURN, "turns"),
    wrong("1", "in x itself", SPEEDS + ANGLES + TURN.replace("return torch", "x.copy_(torch") + ")\nreturn x", "leaves-its-arguments"),
    wrong("1", "angles as coarse as x", SPEEDS + ANGLES + "angles = angles.to(x.dtype)\n" + TURN, "angles-in-float32"),
    wrong("2", "sees the future", GROUP + SCORES + 'return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)', "causal",
          both(en="attention without a causal mask", zh="没有因果遮罩的注意力")),
    wrong("2", "tril", GROUP + SCORES + "later = ~torch.ones(len(q), len(k)).tril().bool()\n" + MIX, "by-position",
          both(en="a mask by row number", zh="按行号做的遮罩")),
    wrong("2", "not itself", GROUP + SCORES + "later = torch.arange(len(k)) >= positions[:, None].clamp(min=1)\n" + MIX, "sees-itself"),
    wrong("2", "one too far", GROUP + SCORES + "later = torch.arange(len(k)) > positions[:, None] + 1\n" + MIX, "causal"),
    wrong("2", "heads in turn", GROUP.replace("repeat_interleave(group, 1)", "repeat(1, group, 1)") + SCORES + LATER + MIX, "groups",
          both(en="dealing out KV heads in turn", zh="轮流分配 KV 头")),
    wrong("2", "not scaled", GROUP + SCORES.replace(" / q.shape[-1] ** 0.5", "") + LATER + MIX, "scaled"),
    wrong("2", "scaled by the whole", GROUP + SCORES.replace(" ** 0.5", "") + LATER + MIX, "attends"),
    wrong("2", "softmax over the queries", GROUP + SCORES + LATER + MIX.replace("softmax(-1)", "softmax(1)"), "over-the-keys"),
    wrong("2", "zeros, not minus infinity", GROUP + SCORES + LATER + MIX.replace('float("-inf")', "0.0"), "hidden-first"),
    wrong("2", "masked after the softmax", GROUP + SCORES + LATER + 'return torch.einsum("hqk,khd->qhd", scores.softmax(-1).masked_fill(later, 0.0), v)', "hidden-first"),
    wrong("2", "hidden by a number", GROUP + SCORES + LATER + MIX.replace('float("-inf")', "-20.0"), "hidden-first"),
    wrong("2", "exp overflows", GROUP + SCORES + LATER + "shares = scores.exp().masked_fill(later, 0.0)\nreturn torch.einsum(\"hqk,khd->qhd\", shares / shares.sum(-1, keepdim=True), v)", "stays-finite"),
    wrong("2", "no groups", SCORES + LATER + MIX, "no-exception"),
    wrong("2", "q scaled in place", "q *= q.shape[-1] ** -0.5\n" + GROUP + SCORES.replace(" / q.shape[-1] ** 0.5", "") + LATER + MIX, "leaves-its-arguments"),
    wrong("3", "new ones only", "return attention(q, k, v, positions - positions[0])", "keeps-what-came",
          both(en="forgetting what was kept before", zh="忘了以前存的")),
    wrong("3", "one layer for all", KEEP.replace("layer", "0") + "end = int(positions[-1]) + 1\n"
          "return attention(q, self.keys[0, :end], self.values[0, :end], positions)", "layers-apart"),
    wrong("3", "the whole buffer", KEEP + "return attention(q, self.keys[layer], self.values[layer], positions)", "only-what-is-there"),
    wrong("3", "written from row 0", KEEP.replace("positions", ":len(k)") + "end = int(positions[-1]) + 1\n"
          "return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)", "only-what-is-there"),
    wrong("3", "the last row missing", KEEP + "end = int(positions[-1])\n"
          "return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)", "attends-over-all"),
    wrong("3", "keys only", "self.keys[layer, positions] = k\nend = int(positions[-1]) + 1\n"
          "return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)", "only-what-is-there"),
    wrong("3", "positions from zero", KEEP + "end = int(positions[-1]) + 1\n"
          "return attention(q, self.keys[layer, :end], self.values[layer, :end], torch.arange(len(q)))", "at-their-positions"),
    wrong("3", "appended, never overwritten", "if not hasattr(self, 'kept'):\n    self.kept = {}\n"
          "old = self.kept.get(layer, (k[:0], v[:0]))\nself.kept[layer] = torch.cat([old[0], k]), torch.cat([old[1], v])\n"
          "return attention(q, *self.kept[layer], positions)", "at-their-positions",
          both(en="appending without regard to positions", zh="不管位置，一味往后接")),
    wrong("3", "keys for values", KEEP.replace("= v", "= k") + "end = int(positions[-1]) + 1\n"
          "return attention(q, self.keys[layer, :end], self.values[layer, :end], positions)", "keeps-both"),
    wrong("3", "one drawer for all caches", "KVCache.rows = rows = KVCache.__dict__.get('rows', {})\n"
          "for at, *new in zip(positions.tolist(), k, v):\n    rows[layer, at] = new\n"
          "k, v = (torch.stack([rows[layer, at][i] for at in range(int(positions[-1]) + 1)]) for i in (0, 1))\n"
          "return attention(q, k, v, positions)", "caches-apart"),
    wrong("4", "temperature forgotten", GREEDY + PROBS.replace("(logits / temperature)", "logits") +
          "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n" + BACK, "temperature"),
    wrong("4", "stops before it is reached", GREEDY + PROBS + "kept = ordered.masked_fill(ordered.cumsum(-1) > top_p, 0.0)\nkept[0] = ordered[0]\n" + BACK,
          "keeps-what-crosses", both(en="leaving out the token that reaches top_p", zh="漏掉让总和达标的那个 token")),
    wrong("4", "one too many", GREEDY + PROBS + "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered > top_p, 0.0)\n" + BACK, "as-few-as-reach"),
    wrong("4", "top-p forgotten", GREEDY + "return (logits / temperature).softmax(-1)", "as-few-as-reach",
          both(en="a plain softmax", zh="普通的 softmax")),
    wrong("4", "not added up again", GREEDY + PROBS + "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n"
          "return torch.zeros_like(probs).scatter(-1, ids, kept)", "adds-up-to-one"),
    wrong("4", "in order of probability", GREEDY + PROBS + "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\nreturn kept / kept.sum()",
          "in-order-of-ids"),
    wrong("4", "greedy takes the last of equals", GREEDY.replace("logits.argmax()", "(len(logits) - 1 - logits.flip(0).argmax())") + PROBS +
          "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n" + BACK, "greedy"),
    wrong("4", "greedy divides by zero", PROBS + "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n" + BACK, "greedy"),
    wrong("4", "cold is greedy", GREEDY.replace("temperature == 0", "temperature < 0.3") + PROBS + "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n" + BACK, "temperature"),
    wrong("4", "multiplies", GREEDY + PROBS.replace("/ temperature", "* temperature") +
          "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n" + BACK, "temperature"),
    wrong("4", "min-p", GREEDY + "probs = (logits / temperature).softmax(-1)\nkept = probs.masked_fill(probs < top_p * probs.max(), 0.0)\nreturn kept / kept.sum()",
          "top-p"),
    wrong("4", "a token, not a distribution", "return int(logits.argmax())", "a-tensor"),
    wrong("4", "the larger id of equals", GREEDY + PROBS.replace("descending=True, ", "") + "ordered, ids = ordered.flip(0), ids.flip(0)\n"
          "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0)\n" + BACK, "first-of-equals"),
    wrong("4", "temperature behind top-p", GREEDY + PROBS.replace("(logits / temperature)", "logits") +
          "kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0.0) ** (1 / temperature)\n" + BACK, "temperature"),
    wrong("5", "everything anew each time", START + "    hidden = decoder.forward(torch.tensor(tokens), torch.arange(len(tokens)), kv)\n" + DRAWN + END,
          "one-token-a-pass", both(en="computing all tokens in every pass", zh="每次都把全部 token 重算一遍")),
    wrong("5", "prompt token by token", "tokens, start = list(prompt), 0\nfor token in prompt:\n"
          "    hidden = decoder.forward(torch.tensor([token]), torch.tensor([start]), kv)\n    start += 1\nfor _ in range(max_new_tokens):\n"
          "    token = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)\n    yield token\n"
          "    if token in stop_token_ids:\n        return 'stop'\n    hidden = decoder.forward(torch.tensor([token]), torch.tensor([start]), kv)\n"
          "    start += 1\nreturn 'length'", "prompt-at-once"),
    wrong("5", "positions from zero", START + PASS.replace("torch.arange(start, len(tokens))", "torch.arange(len(tokens) - start)") + DRAWN + END, "positions-go-on"),
    wrong("5", "a new cache each time", START + PASS.replace("kv)", "KVCache(decoder.config, 99))") + DRAWN + END, "one-cache"),
    wrong("5", "the first row", START + PASS + DRAWN.replace("hidden[-1]", "hidden[0]") + END, "one-token-a-pass"),
    wrong("5", "never stops", START + PASS + DRAWN + '    yield tokens[-1]\nreturn "length"', "stops",
          both(en="not looking at stop tokens", zh="不看停止 token")),
    wrong("5", "the stop token is swallowed", START + PASS + DRAWN + '    if tokens[-1] in stop_token_ids:\n        return "stop"\n    yield tokens[-1]\nreturn "length"',
          "stop-token-counts"),
    wrong("5", "stops in the prompt", START + PASS + DRAWN + '    yield tokens[-1]\n    if set(tokens) & set(stop_token_ids):\n        return "stop"\nreturn "length"',
          "all-of-them"),
    wrong("5", "one too many", START.replace("max_new_tokens", "max_new_tokens + 1") + PASS + DRAWN + END, "at-most-so-many"),
    wrong("5", "one too few", START.replace("max_new_tokens", "max_new_tokens - 1") + PASS + DRAWN + END, "all-of-them"),
    wrong("5", "length before stop", START + PASS + DRAWN + "    yield tokens[-1]\n    if len(tokens) == len(prompt) + max_new_tokens:\n"
          '        return "length"\n    if tokens[-1] in stop_token_ids:\n        return "stop"', "says-why"),
    wrong("5", "says nothing", START + PASS + DRAWN + "    yield tokens[-1]\n    if tokens[-1] in stop_token_ids:\n        return", "says-why"),
    wrong("5", "all at once at the end", START + PASS + DRAWN + "    if tokens[-1] in stop_token_ids:\n        break\nyield from tokens[len(prompt):]\n"
          'return "stop" if tokens[-1] in stop_token_ids else "length"', "streams"),
    wrong("5", "a pass for nothing", START + PASS + DRAWN + '    yield tokens[-1]\n    if tokens[-1] in stop_token_ids:\n        return "stop"\n'
          'decoder.forward(torch.tensor(tokens[start:]), torch.arange(start, len(tokens)), kv)\nreturn "length"', "streams"),
    wrong("5", "tensors", START + PASS + DRAWN + END.replace("yield tokens[-1]", "yield torch.tensor(tokens[-1])"), "token-ids"),
    wrong("5", "always greedy", START + PASS + DRAWN.replace("temperature, top_p, generator", "0.0, 1.0") + END, "temperature-counts"),
    wrong("5", "no generator", START + PASS + DRAWN.replace(", generator", "") + END, "by-its-generator"),
    wrong("5", "no top-p", START + PASS + DRAWN.replace(", top_p", ", 1.0") + END, "as-asked"),
    wrong("5", "drawn twice", START + PASS + DRAWN + "    tokens[-1] = sample(decoder.logits(hidden[-1]), temperature, top_p, generator)\n" + END, "one-draw-a-token"),
    wrong("5", "the caller's list", START.replace("list(prompt)", "prompt") + PASS + DRAWN + END, "leaves-its-arguments"),
    wrong("5", "lists for tensors", START + PASS.replace("torch.tensor(tokens[start:])", "tokens[start:]") + DRAWN + END, "tensors"),
    wrong("5", "a list", START + PASS + DRAWN + "return tokens[len(prompt):]", "yields"),
    wrong("6", "one for all", "if not self._made:\n    self._made[0] = torch.Generator().manual_seed(self.seed)\nreturn self._made[0]", "whoever-else-draws",
          both(en="one generator for all requests", zh="所有请求共用一个生成器")),
    wrong("6", "the seed alone", FIRST + "    self._made[request_id] = torch.Generator().manual_seed(self.seed)\n" + GIVE, "requests-apart"),
    wrong("6", "the request alone", FIRST + "    self._made[request_id] = torch.Generator().manual_seed(random.Random(str(request_id)).getrandbits(63))\n" + GIVE,
          "seeds-apart"),
    wrong("6", "a sum", FIRST + "    number = request_id if isinstance(request_id, int) else random.Random(request_id).getrandbits(60)\n"
          "    self._made[request_id] = torch.Generator().manual_seed(self.seed + number)\n" + GIVE, "no-two-alike",
          both(en="adding seed and request id", zh="把种子和请求 id 相加")),
    wrong("6", "digits in a row", FIRST + '    self._made[request_id] = torch.Generator().manual_seed(random.Random(f"{self.seed}{request_id}").getrandbits(63))\n' + GIVE,
          "no-two-alike"),
    wrong("6", "begins anew", 'return torch.Generator().manual_seed(random.Random(f"{self.seed}/{request_id}").getrandbits(63))', "goes-on",
          both(en="a new generator at every call", zh="每次调用都新建一个生成器")),
    wrong("6", "not seeded", FIRST + "    self._made[request_id] = torch.Generator()\n    self._made[request_id].seed()\n" + GIVE, "same-seed-same-draws"),
    wrong("6", "the global one", 'torch.manual_seed(random.Random(f"{self.seed}/{request_id}").getrandbits(63))\nreturn torch.default_generator', "its-own-generator"),
    wrong("6", "no generator", "return None", "its-own-generator"),
    wrong("6", "a number", "return random.Random(self.seed)", "no-exception"),
    wrong("6", "Python's hash", FIRST + "    self._made[request_id] = torch.Generator().manual_seed(hash((self.seed, request_id)) % 2**63)\n" + GIVE, "in-every-process"),
    wrong("7", "only the finished ones", FOUND + "return text, False", "holds-back",
          both(en="showing the beginning of a stop string", zh="把停止串的开头也显示了出来")),
    wrong("7", "the first in the list", "for stop in stops:\n    if stop in text:\n        return text.split(stop)[0], True\n"
          "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]\nreturn text[: len(text) - max(held, default=0)], False",
          "cuts-at-the-first"),
    wrong("7", "the stop string is shown", FOUND.replace("min(found)]", "min(found) + 1]") +
          "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]\nreturn text[: len(text) - max(held, default=0)], False",
          "cuts-at-the-first"),
    wrong("7", "as many as the longest", FOUND + "held = max((len(stop) - 1 for stop in stops), default=0)\nreturn text[: len(text) - held], False",
          "shows-what-is-safe", both(en="always holding back the same number of characters", zh="总是扣住固定的字符数")),
    wrong("7", "the shortest end", FOUND + "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]\n"
          "return text[: len(text) - min(held, default=0)], False", "holds-back"),
    wrong("7", "minus nothing", FOUND + "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]\n"
          "return text[: -max(held, default=0)], False", "shows-what-is-safe"),
    wrong("7", "at the end only", "for stop in stops:\n    if text.endswith(stop):\n        return text[: -len(stop)], True\n"
          "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]\nreturn text[: len(text) - max(held, default=0)], False",
          "says-when-over"),
    wrong("7", "an index for over", FOUND.replace("True", "1") + "held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]\n"
          "return text[: len(text) - max(held, default=0)], False", "true-or-false"),
    wrong("7", "text alone", "return text", "text-and-over"),
]  # fmt: skip

CORRECT = [
    Variant("complex numbers, torch's own attention, a list of rows", {
        "ch08.1": "half = x.shape[-1] // 2\nangles = torch.outer(positions.double(), theta ** (-torch.arange(half, dtype=torch.float64) / half))\n"
        "pairs = torch.complex(x[..., :half].double(), x[..., half:].double())\nturned = pairs * torch.exp(1j * angles)[:, None]\n"
        "return torch.cat([turned.real, turned.imag], dim=-1).type_as(x)",
        "ch08.2": "from torch.nn.functional import scaled_dot_product_attention\n"
        "mask = torch.arange(k.shape[0])[None, :] <= positions[:, None]\nq, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))\n"
        "return scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)[0].transpose(0, 1)",
        "ch08.3": "if not hasattr(self, 'rows'):\n    self.rows = {}\nrows = self.rows.setdefault(layer, [])\n"
        "del rows[int(positions[0]):]\nrows.extend(zip(k, v))\nk, v = (torch.stack(x) for x in zip(*rows))\nreturn attention(q, k, v, positions)",
    }),
    Variant("loops over heads and rows", {
        "ch08.2": "out = torch.empty_like(q)\nfor i, p in enumerate(positions.tolist()):\n    for h in range(q.shape[1]):\n"
        "        g = h * k.shape[1] // q.shape[1]\n        weight = torch.softmax(k[: p + 1, g] @ q[i, h] / q.shape[2] ** 0.5, 0)\n"
        "        out[i, h] = weight @ v[: p + 1, g]\nreturn out",
        "ch08.3": "end = positions[-1] + 1\nfor buffer, new in ((self.keys, k), (self.values, v)):\n"
        "    buffer[layer][positions[0] : end] = new\nreturn attention(q, self.keys[layer][:end], self.values[layer][:end], positions)",
        "ch08.4": "if not temperature:\n    return torch.nn.functional.one_hot(logits.argmax(), len(logits)).to(logits)\n"
        "probs = torch.softmax(logits / temperature, 0)\nkept = torch.zeros_like(probs)\n"
        "for i in sorted(range(len(probs)), key=lambda i: -probs[i]):\n    if kept.sum() >= top_p:\n        break\n    kept[i] = probs[i]\n"
        "return kept / kept.sum()",
    }),
    Variant("upwards, as transformers do", {
        "ch08.4": "if temperature == 0:\n    out = torch.zeros(len(logits))\n    out[logits.argmax()] = 1\n    return out\n"
        "scaled = logits / temperature\nvalues, ids = torch.sort(scaled, descending=True, stable=True)\nvalues, ids = values.flip(0), ids.flip(0)\n"
        "gone = values.softmax(-1).cumsum(-1) <= 1 - top_p\ngone[-1] = False\n"
        "return scaled.masked_fill(torch.zeros_like(gone).scatter(0, ids, gone), float('-inf')).softmax(-1)",
        "ch08.5": "todo, at, left = list(prompt), 0, max_new_tokens\nwhile left:\n"
        "    rows = decoder.logits(decoder.forward(torch.LongTensor(todo), torch.arange(len(todo)) + at, kv))\n"
        "    at, left = at + len(todo), left - 1\n    todo = [sample(rows[-1], temperature, top_p, generator)]\n    yield todo[0]\n"
        "    if todo[0] in stop_token_ids:\n        return 'stop'\nreturn 'length'",
        "ch08.6": "import hashlib\nwords = hashlib.sha256(repr((self.seed, request_id)).encode()).digest()\n"
        "made = self._made.get(request_id)\nif made is None:\n    made = self._made[request_id] = torch.Generator('cpu')\n"
        "    made.manual_seed(int.from_bytes(words[:8], 'big', signed=True))\nreturn made",
        "ch08.7": "for i in range(len(text)):\n    if text[i:].startswith(stops):\n        return text[:i], True\n"
        "for i in range(len(text)):\n    if any(stop.startswith(text[i:]) for stop in stops):\n        return text[:i], False\nreturn text, False",
    }),
]  # fmt: skip

ONE_AXIS = "there is one axis, so the first is the last"
EQUIVALENT = {
    "ch08.4:2 0 became -1": ONE_AXIS,
    "ch08.4:3 0 became -1": ONE_AXIS,
    "ch08.4:5 0 became -1": ONE_AXIS,
    "ch08.4:7 0 became -1": ONE_AXIS,
    "ch08.6:2 63 became 62": "a bit less mixes as well",
    "ch08.6:2 63 became 64": "a bit more mixes as well",
    "ch08.7:4 1 became 0": "every text ends with no character, which holds back none",
    "ch08.7:5 0 became -1": "a slice may end behind the text",
}
