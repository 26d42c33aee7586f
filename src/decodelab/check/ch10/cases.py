"""The visible cases, and how a case is shown."""

from __future__ import annotations

from typing import Any

from decodelab.check.rules import Case


def asked(
    request_id: str, *answer: str, prompt_len: int = 2, max_new_tokens: int = 99, stop: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A request and what the toy model says to it; the piece "" is the stop token, ``<E6>`` one byte."""
    return {"id": request_id, "answer": list(answer), "prompt_len": prompt_len, "max_new_tokens": max_new_tokens, "stop": list(stop)}  # fmt: skip


def script(name: str, requests: list[dict[str, Any]], *lines: str, **other: Any) -> Case:
    """An engine and what its users do: ``submit a``, ``step``, ``abort a``, ``read a``."""
    return {"name": name, "requests": requests, "ops": [line.split() for line in lines]} | other


def tiny_request(request_id: str, prompt_len: int, *sampling: float, seed: int = 1) -> dict[str, Any]:
    """A request to a tiny model; sampling: temperature, top-p, seed, or nothing for greedy."""
    own = {"id": request_id, "prompt_len": prompt_len, "seed": seed}
    return own | ({"sampling": list(sampling)} if sampling else {})


def plans(name: str, requests: list[dict[str, Any]], *steps: dict[str, Any], **other: Any) -> Case:
    """Plans, one a step: {"run": {id: tokens}, "preempt": [...], "end": [...]}."""
    return {"name": name, "model": "llama", "weights": 1, "seed": 3, "block_size": 4, "requests": requests, "steps": list(steps)} | other  # fmt: skip


def run(*ends: str, **tokens: int) -> dict[str, Any]:
    """A step: tokens by request; who ends with it."""
    return {"run": tokens, "end": list(ends)}


def out(*names: str, **tokens: int) -> dict[str, Any]:
    """A step before which some lose their blocks."""
    return {"run": tokens, "preempt": list(names)}


def machine(name: str, kind: str, count: int, within: float, **other: Any) -> Case:
    """Measured steps of a made-up machine, and how near nine in ten predictions must be."""
    return {"name": name, "machine": kind, "count": count, "within": within, "seed": 1} | other


def moves(name: str, *, swap_out: Any = (), swap_in: Any = (), copy: Any = (), **other: Any) -> Case:
    """One plan's pairs of blocks."""
    pairs = {
        "swap_out": list(map(list, swap_out)),
        "swap_in": list(map(list, swap_in)),
        "copy": list(map(list, copy)),
    }
    return {"name": name, "blocks": 6, "host_blocks": 4, "block_size": 2} | pairs | other


def several(name: str, n: int, prompt_len: int, max_new_tokens: int, *sampling: float, **other: Any) -> Case:
    """``n`` answers; sampling: temperature, top-p, seed."""
    own = {"n": n, "prompt_len": prompt_len, "max_new_tokens": max_new_tokens, "sampling": list(sampling)}
    rest = {
        "name": name,
        "model": "llama",
        "weights": 1,
        "seed": 1,
        "block_size": 4,
        "num_blocks": 40,
        "stops": [],
    }
    return rest | own | other


def shown(case: Case) -> list[str]:
    """A case as one would write it down."""
    if "ops" in case:
        return [*map(said, case["requests"]), *(" ".join(op) for op in case["ops"]), *noted(case)]
    if "steps" in case:
        prompts = [f"{asked['id']}: prompt_len={asked['prompt_len']}" for asked in case["requests"]]
        return [f"{case['model']}, block_size={case['block_size']}", *prompts, *map(planned, case["steps"])]
    if "machine" in case:
        return [f"fit({case['count']} steps of the machine {case['machine']!r})"]
    if "swap_out" in case:
        return [f"plan.{kind} = {case[kind]}" for kind in ("swap_out", "swap_in", "copy") if case[kind]]
    return [
        f"parallel_samples(…, n={case['n']}, max_new_tokens={case['max_new_tokens']})",
        f"prompt: {case['prompt_len']} tokens, block_size={case['block_size']}",
    ]


def said(asked: dict[str, Any]) -> str:
    """A request of a script, and what the toy model will say to it."""
    stops = f", stop={tuple(asked['stop'])}" if asked["stop"] else ""
    return f"{asked['id']}: prompt_len={asked['prompt_len']}, max_new_tokens={asked['max_new_tokens']}{stops}; answer {asked['answer']}"  # fmt: skip


def noted(case: Case) -> list[str]:
    """What toy scheduler and toy executor do beside their work."""
    told = {"refuses": case.get("refuses"), "drops": case.get("drops"), "chunk": case.get("chunk")}
    more = [f"executor: {case['at_once']} tokens at once"] if "at_once" in case else []
    more += ["tokenizer: <E6> <98> → '\\ufffd\\ufffd'"] if "fallback" in case else []
    return [f"scheduler: {name} {value}" for name, value in told.items() if value] + more


def planned(step: dict[str, Any]) -> str:
    """A plan in short."""
    before = f"preempted {step['preempt']}; " if step.get("preempt") else ""
    after = f"; end {step['end']}" if step.get("end") else ""
    return f"{before}{step['run']}{after}"


MOON = ["明", "月", "<E5>", "<85>", "<89>", "。"]  # the third character comes in bytes
GUEST = asked("guest", "so", " ", "be", " it", stop=("it", "END"))
ONE, TWO = asked("a", "x", "y", "z", ""), asked("b", "1", "2", "3", "4", "")

VISIBLE: dict[str, list[Case]] = {
    "ch10.1": [
        plans("a-prompt-and-its-answer", [tiny_request("a", 5)], run(a=5), run(a=1), run(a=1), run(a=1)),
        plans("a-prompt-in-chunks", [tiny_request("a", 9)], run(a=4), run(a=1), run(a=4), run(a=1)),
        plans("two-together", [tiny_request("a", 5), tiny_request("b", 6, seed=2)], run(a=5), run(a=1, b=3), run(a=1, b=3), run(a=1, b=1), run(b=1)),
        plans("an-unfinished-prompt-goes-first", [tiny_request("a", 4), tiny_request("b", 9, seed=2)], run(a=4), run(b=4, a=1), run(b=4, a=1), run(b=1, a=1)),
        plans("nothing-to-do", [tiny_request("a", 3)], run(), run(a=3), run(), run(a=1)),
        plans("one-leaves-another-comes", [tiny_request("a", 6), tiny_request("b", 7, seed=2)], run(a=6), run("a", a=1), run(b=7), run(b=1), run(b=1)),
        plans("preempted-and-back", [tiny_request("a", 6), tiny_request("b", 5, 1.0, 1.0, 4, seed=2)], run(a=6, b=5), run(a=1, b=1), out("b", a=1), run(a=1, b=6), run(a=1, b=9), run(b=1)),
        plans("back-in-one-go", [tiny_request("a", 6)], run(a=6), run(a=1), out("a", a=8), run(a=1)),
        plans("back-in-the-same-block", [tiny_request("a", 4)], run(a=4), run(a=1), out("a", a=9), run(a=1), block_size=16, num_blocks=1),
        plans("drawn-with-seeds", [tiny_request("a", 4, 1.0, 1.0, 7), tiny_request("b", 4, 1.0, 0.9, 7), tiny_request("c", 4)], run(a=4, b=4, c=4), run(c=1, b=1, a=1), run(a=1, b=1), run(b=1, a=1, c=1)),
    ],
    "ch10.2": [
        script("one-request", [ONE], "submit a", "step"),
        script("two-requests", [ONE, TWO], "submit a", "submit b", "step", "step"),
        script("one-comes-later", [ONE, TWO], "submit a", "step", "submit b", "step"),
        script("the-scheduler-refuses", [ONE, TWO], "submit a", "submit b", "step", refuses=["b"]),
        script("an-id-twice", [ONE, TWO], "submit a", "step", "submit a", "step", "submit b"),
        script("come-and-go", [GUEST], "submit guest", "abort guest", "step", "step"),
        script("with-a-stop-string", [GUEST, ONE], "submit a", "submit guest", "step"),
    ],
    "ch10.3": [
        script("to-a-stop-token", [ONE], "submit a", *["step"] * 6),
        script("to-its-length", [asked("a", "x", "y", "z", max_new_tokens=2)], "submit a", *["step"] * 4),
        script("two-at-once", [ONE, TWO], "submit a", "step", "submit b", *["step"] * 6),
        script("a-prompt-in-chunks", [asked("a", "x", "y", "", prompt_len=5)], "submit a", *["step"] * 7, chunk=2),
        script("half-a-character", [asked("a", *MOON, "")], "submit a", *["step"] * 8),
        script("half-a-character-with-others", [asked("a", "go <E5>", "<85>", "<89>!", "")], "submit a", *["step"] * 5),
        script("broken-bytes", [asked("a", "x", "<E6>", "<E6>", "<98>", "<8E>", "")], "submit a", *["step"] * 7),
        script("a-whole-character-breaks-for-a-while", [asked("a", "<E6>", "<98>", "<8E>", "<E5>", "<85>", "<89>", "")], "submit a", *["step"] * 8, fallback=True),
        script("blanks", [asked("a", " so", " ", "be", "\n", "")], "submit a", *["step"] * 6),
        script("two-tokens-at-once", [asked("a", "v", "w", "x", "y", max_new_tokens=4)], "submit a", *["step"] * 3, at_once=2),
        script("ends-in-half-a-character", [asked("a", "明", "<E6>", max_new_tokens=2)], "submit a", *["step"] * 3),
        script("a-stop-string", [asked("a", "one", "\n", "\n", "two", stop=("\n\n",)), TWO], "submit a", "submit b", *["step"] * 5),
        script("a-stop-string-in-the-middle", [asked("a", "so", " be. I", "t", stop=(".",))], "submit a", *["step"] * 3),
        script("half-of-what-ends-it", [asked("a", "月", "<E6>", "<98>", "<8E>", stop=("月明",))], "submit a", *["step"] * 5),
        script("a-stop-token-while-text-is-held", [asked("a", "go", "E", "", stop=("END",))], "submit a", *["step"] * 4),
        script("the-second-stop-string", [asked("a", "so", "E", "N", "D", stop=("stop", "END"))], "submit a", *["step"] * 5),
        script("never-a-stop-string", [asked("a", "E", "N", "T", "E", stop=("END",), max_new_tokens=4)], "submit a", *["step"] * 5),
        script("a-stop-string-at-the-last-token", [asked("a", "E", "N", "D", stop=("END",), max_new_tokens=3)], "submit a", *["step"] * 4),
        script("aborted-half-way", [ONE, TWO], "submit a", "submit b", "step", "abort a", "step", "step", "abort a", "abort c"),
        script("nobody-is-left-but-one-left", [ONE], "submit a", "step", "abort a", "step", "step"),
        script("dropped-by-the-scheduler", [ONE, TWO], "submit a", "submit b", "step", "step", "step", drops=["a"]),
    ],
    "ch10.4": [
        script("read-to-the-end", [ONE], "submit a", *["read a"] * 5),
        script("two-take-turns", [ONE, TWO], "submit a", "submit b", *["read a", "read b"] * 6),
        script("one-is-read-the-other-moves", [ONE, TWO], "submit a", "submit b", *["read a"] * 4, *["read b"] * 4),
        script("blanks-are-text", [asked("a", " so", " ", "be", "\n", "")], "submit a", *["read a"] * 6),
        script("characters-in-pieces", [asked("a", *MOON, "")], "submit a", *["read a"] * 5),
        script("steps-in-between", [ONE], "submit a", "step", "step", "read a", "step", "read a", "read a"),
        script("aborted-while-read", [ONE], "submit a", "read a", "abort a", "read a", "read a"),
        script("says-nothing", [asked("a", "")], "submit a", "read a", "read a"),
        script("held-back-to-the-end", [asked("a", "E", "N", stop=("END",), max_new_tokens=2)], "submit a", "read a", "read a"),
    ],
    "ch10.5": [
        machine("a-cpu", "cpu", 300, 0.06),
        machine("a-gpu", "gpu", 300, 0.06),
        machine("slow-memory", "slow-memory", 300, 0.06),
        machine("bends-late", "bends-late", 300, 0.06),
        machine("short-and-long", "wide", 400, 0.12, noise=0.15),
        machine("with-noise", "cpu", 400, 0.07, noise=0.1),
        machine("with-more-noise", "gpu", 400, 0.06, seed=17, noise=0.15),
        machine("fast-and-slow-mishaps", "cpu", 1000, 0.08, noise=0.4),
        machine("a-handful-of-steps", "cpu", 6, 0.15),
    ],
    "ch10.6": [
        moves("one-block-out", swap_out=[(2, 1)]),
        moves("one-block-back", swap_in=[(3, 0)]),
        moves("a-copy", copy=[(4, 5)]),
        moves("nothing-to-move"),
        moves("several-at-once", swap_out=[(0, 3), (5, 0), (3, 1)], swap_in=[(1, 2), (2, 3)], copy=[(4, 1)]),
        moves("a-number-used-again", swap_out=[(2, 0)], swap_in=[(3, 2)]),
        moves("copied-after-it-came-back", swap_in=[(1, 4)], copy=[(4, 0)]),
        moves("blocks-of-one", swap_out=[(0, 1)], swap_in=[(2, 5)], copy=[(3, 4)], block_size=1),
    ],
    "ch10.7": [
        several("two-answers", 2, 6, 6, 1.0, 1.0, 7),
        several("one-is-enough", 1, 5, 4, 1.0, 1.0, 3),
        several("a-full-last-block", 3, 8, 7, 1.0, 0.9, 5),
        several("greedy-twice", 2, 5, 6, 0.0, 1.0, 0),
        several("they-end-one-by-one", 4, 7, 12, 1.5, 1.0, 2, stops=list(range(12))),
        several("just-enough-blocks", 2, 4, 5, 1.0, 1.0, 4, num_blocks=3),
        several("one-token-each", 3, 6, 1, 1.0, 1.0, 1),
    ],
}  # fmt: skip
