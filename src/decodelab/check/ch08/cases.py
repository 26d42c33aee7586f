"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.ch08.loop import call_of
from decodelab.check.rules import Case

LAYERS = {"layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 4}


def turn(name: str, positions: list[int], **other: Any) -> Case:
    """One ``rope``."""
    return {
        "name": name,
        "positions": positions,
        "heads": 2,
        "head_dim": 8,
        "theta": 10000.0,
        "seed": 1,
    } | other


def attend(name: str, keys: int, positions: list[int], **other: Any) -> Case:
    """One ``attention``."""
    return {
        "name": name,
        "keys": keys,
        "positions": positions,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 8,
        "seed": 1,
    } | other


def calls(name: str, capacity: int, *orders: list[int], **other: Any) -> Case:
    """Calls of ``attend`` on one cache: [layer, first position, tokens]."""
    return {"name": name, "shape": LAYERS, "capacity": capacity, "calls": list(orders), "seed": 1} | other


def model(name: str, model: str, *chunks: int, **other: Any) -> Case:
    """The whole model, its tokens in chunks."""
    return {"name": name, "model": model, "chunks": list(chunks), "seed": 0} | other


def choice(name: str, logits: list[float], temperature: float, top_p: float) -> Case:
    """One ``distribution``."""
    return {"name": name, "logits": logits, "temperature": temperature, "top_p": top_p}


def loop(name: str, prompt: list[int], max_new_tokens: int, stop_token_ids: list[int], **other: Any) -> Case:
    """One ``generate``."""
    return {
        "name": name,
        "prompt": prompt,
        "max_new_tokens": max_new_tokens,
        "stop_token_ids": stop_token_ids,
    } | other


def draws(name: str, *script: list[Any]) -> Case:
    """Draws, one each, [seed, request id]."""
    return {"name": name, "script": list(script)}


def text(name: str, stops: list[str], *pieces: str) -> Case:
    """A text that grows, and its stop strings."""
    return {"name": name, "stops": stops, "pieces": list(pieces)}


def shown(case: Case) -> list[str]:
    """A case as one would type it, as far as random tensors can be typed."""
    if "theta" in case:
        return [
            f"x: {len(case['positions'])} × {case['heads']} × {case['head_dim']}",
            f"rope(x, {case['positions']}, {case['theta']:g})",
        ]
    if "keys" in case:
        heads, kv_heads, dim = case["heads"], case["kv_heads"], case["head_dim"]
        large = f", times {case['scale']}" if "scale" in case else ""
        return [
            f"q: {len(case['positions'])} × {heads} × {dim}{large}; k, v: {case['keys']} × {kv_heads} × {dim}",
            f"attention(q, k, v, {case['positions']})",
        ]
    if "calls" in case:
        caches = ["kv", "another"] if case.get("neighbour") else ["kv"]
        return [
            *(f"{cache} = KVCache(config, {case['capacity']})" for cache in caches),
            *(
                f"{cache}.attend({i}, q, k, v, {list(range(s, s + n))})"
                for i, s, n in case["calls"]
                for cache in caches
            ),
        ]
    if "chunks" in case:
        return [f"decoder: {case['model']}", *(f"decoder.forward({n} tokens)" for n in case["chunks"])]
    if "logits" in case:
        return [f"distribution({case['logits']}, {case['temperature']:g}, {case['top_p']:g})"]
    if "prompt" in case:
        return [call_of(case)]
    if "script" in case:
        return [f"Seeds({seed}).generator({i!r})" for seed, i in case["script"]]
    return [f"visible({''.join(case['pieces'])!r}, {tuple(case['stops'])!r})"]


FOUR = [1.0, 3.0, 2.0, 0.0]  # probabilities 0.087, 0.644, 0.237, 0.032

VISIBLE: dict[str, list[Case]] = {
    "ch08.1": [
        turn("position-0-stays", [0]),
        turn("the-first-few", [0, 1, 2, 3]),
        turn("one-step", [1], head_dim=2),
        turn("in-the-middle-of-a-text", [700, 701]),
        turn("another-theta", [5, 6], theta=1e6, head_dim=16),
        turn("any-order", [9, 2, 2]),
        turn("half-precision", [0, 3, 701], dtype="float16"),
    ],
    "ch08.2": [
        attend("one-token", 1, [0]),
        attend("a-prompt", 4, [0, 1, 2, 3], kv_heads=4),
        attend("shared-heads", 4, [0, 1, 2, 3]),
        attend("one-kv-head-for-all", 3, [0, 1, 2], kv_heads=1),
        attend("a-decode-step", 7, [6], kv_heads=4),
        attend("a-second-chunk", 7, [4, 5, 6]),
        attend("more-keys-than-it-may-see", 8, [2, 3], kv_heads=4),
        attend("any-order", 6, [4, 1, 5]),
        attend("half-precision", 5, [3, 4], dtype="float16"),
        attend("large-scores", 6, [0, 1, 3, 5], scale=60),
    ],
    "ch08.3": [
        calls("one-pass", 4, [0, 0, 4]),
        calls("prefill-and-decode", 6, [0, 0, 4], [0, 4, 1], [0, 5, 1]),
        calls("two-layers", 4, [0, 0, 2], [1, 0, 2], [0, 2, 1], [1, 2, 1]),
        calls("room-to-spare", 50, [0, 0, 3], [0, 3, 1]),
        calls("two-caches", 4, [0, 0, 2], [0, 2, 1], neighbour=True),
        calls("back-and-once-more", 8, [0, 0, 6], [0, 3, 2], [0, 5, 1]),
        model("llama-as-in-transformers", "llama", 12, recorded=True),
        model("qwen3-in-chunks", "qwen3", 5, 1, 1, 5, recorded=True),
    ],
    "ch08.4": [
        choice("everything", FOUR, 1.0, 1.0),
        choice("greedy", FOUR, 0.0, 1.0),
        choice("greedy-tie", [-3.0, 2.0, 2.0], 0.0, 0.9),
        choice("cooler", FOUR, 0.5, 1.0),
        choice("hotter", FOUR, 2.0, 1.0),
        choice("nearly-cold", [0.0, 0.1, 0.2, 0.0], 0.1, 1.0),
        choice("two-of-four", FOUR, 1.0, 0.7),
        choice("the-first-is-enough", FOUR, 1.0, 0.5),
        choice("exactly-reached", [0.0, 0.0, 0.0, 0.0], 1.0, 0.5),
        choice("hot-and-cut", FOUR, 2.0, 0.8),
        choice("the-first-of-equals", [0.0, 1.0, 1.0, 1.0, 1.0], 1.0, 0.5),
    ],
    "ch08.5": [
        loop("three-tokens", [5, 6, 7], 3, [], script=[2, 4, 1]),
        loop("one-token", [3], 1, [], script=[2, 4]),
        loop("a-stop-token", [5, 6], 6, [4], script=[2, 4, 1, 3]),
        loop("stop-at-once", [5, 6], 3, [1, 2], script=[2, 4, 1]),
        loop("stop-on-the-last-place", [5], 2, [9], script=[3, 9, 9]),
        loop("a-stop-token-in-the-prompt", [5, 4], 2, [4], script=[1, 2]),
        loop("nearly-greedy", [5, 6], 6, [], script=[2, 4, 1, 3, 4, 2], temperature=0.01, top_p=1.0),
        loop("a-small-top-p", [5, 6], 6, [], script=[2, 4, 1, 3, 4, 2], temperature=1.0, top_p=0.1),
        loop("a-tiny-model", [7, 3, 30, 11], 6, [], model="llama", seed=0),
        loop("with-a-seed", [7, 3, 30], 8, [], model="llama", seed=0, seeds=[1, 2, 3]),
    ],
    "ch08.6": [
        draws("one-request", [0, 7], [0, 7], [0, 7]),
        draws("two-take-turns", [0, 1], [0, 2], [0, 1], [0, 2], [0, 1]),
        draws("two-seeds", [0, "a"], [1, "a"], [0, "b"], [1, "b"]),
        draws("numbers-that-add-up", [1, 2], [2, 1], [0, 3], [3, 0]),
        draws("digits-in-a-row", [1, 11], [11, 1], [111, 0], [11, 10]),
    ],
    "ch08.7": [
        text("none-in-sight", ["END"], "a text", " without"),
        text("all-at-once", ["END"], "so it goes END and END again"),
        text("at-the-very-beginning", ["END"], "END of it"),
        text("only-alike", ["END"], "in the end, AND"),
        text("piece-by-piece", ["END"], "so it goes ", "E", "N", "D"),
        text("only-a-beginning", ["END"], "an EN", "TRANCE"),
        text("the-first-of-two", ["。", "\n\n"], "春风", "又绿", "江南岸", "。明月"),
        text("the-earlier-wins", ["later", "now"], "not now and not later"),
        text("one-inside-the-other", ["b", "abc"], "xxa", "b", "c"),
        text("longer-and-longer", ["\n\n\n"], "one line", "\n", "\n", "another"),
        text("no-stop-strings", [], "anything"),
    ],
}  # fmt: skip
