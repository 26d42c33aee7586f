"""TODO 5: the generate loop, over a model whose answers are a script, and over a real tiny one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch08 import oracle, tiny
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.models.config import Config

if TYPE_CHECKING:
    from decodelab.grading.student import Student

PLAY = """
from types import SimpleNamespace

class _Scripted:
    # A decoder whose k-th pass makes the k-th token of a script the likeliest, if its last row is asked.
    def __init__(self, script, vocab):
        self.script, self.vocab, self.calls = script, vocab, []
        self.config = SimpleNamespace(layers=1, kv_heads=1, head_dim=2)
    def cache(self, capacity):
        self.capacity = capacity
        return self
    def forward(self, tokens, positions, kv):
        self.calls.append([tokens.tolist(), positions.tolist(), kv is self])
        return torch.tensor([[len(self.calls), i, len(tokens)] for i in range(len(tokens))])
    def logits(self, hidden):
        rows = []
        for step, i, n in hidden.reshape(-1, 3).tolist():
            rows.append([0.0] * self.vocab)
            rows[-1][self.script[step - 1] if i == n - 1 else 0] = 50.0
        return torch.tensor(rows).reshape(*hidden.shape[:-1], self.vocab)

def _played(decoder, prompt, limit, stops, seed=None, temperature=0.0):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    going = generate(decoder, prompt, limit, stops, temperature, 1.0, generator)
    tokens, passes = [], []
    while len(tokens) < limit + 3:
        try:
            tokens.append(next(going))
            passes.append(len(getattr(decoder, "calls", ())))
        except StopIteration as end:
            return tokens, end.value, passes, getattr(decoder, "calls", [])
    return tokens, None, passes, getattr(decoder, "calls", [])

def _sampled(config, weights, prompt, limit, seeds):
    from decodelab.models.config import Config
    decoder, said = Decoder(Config(**config), weights), []
    for around, seed in seeds:
        torch.manual_seed(around)
        said.append(_played(decoder, prompt, limit, (), seed, 1.0)[0])
    return said

def _greedy(config, weights, prompt, limit, stops):
    from decodelab.models.config import Config
    return _played(Decoder(Config(**config), weights), prompt, limit, stops)
"""


def check_generate(student: Student, case: Case) -> Finding | None:
    """A scripted model where the case has a script; else a tiny one, greedy or with seeds."""
    if not case["prompt"] or case["max_new_tokens"] < 1:
        return None
    student.load("check", PLAY)
    if "script" in case:
        return scripted(student, case)
    return seeded(student, case) if "seeds" in case else greedy(student, case)


def call_of(case: Case) -> str:
    """The call as one would type it."""
    stops = case.get("stop_token_ids", [])
    return f"generate(decoder, {case['prompt']}, {case['max_new_tokens']}{f', {stops}' if stops else ''})"


def due(script: list[int], case: Case) -> tuple[list[int], str]:
    """The tokens and the reason that this script comes to."""
    said = script[: case["max_new_tokens"]]
    ends = [i for i, token in enumerate(said) if token in case["stop_token_ids"]]
    return (said[: ends[0] + 1], "stop") if ends else (said, "length")


def account(reply: Any) -> tuple[Any, Any, Any, list[Any]]:
    """What ``_played`` told: tokens, reason, passes by each token, and what every pass was given."""
    tokens, reason, passes, calls = reply if isinstance(reply, tuple) and len(reply) == 4 else (None,) * 4
    if not isinstance(calls, list) or any(not isinstance(call, list) or len(call) != 3 for call in calls):
        calls = []
    return tokens, reason, passes, calls


def scripted(student: Student, case: Case) -> Finding | None:
    """Tokens, reason, and what every pass of the model was given."""
    prompt, limit, stops = case["prompt"], case["max_new_tokens"], case["stop_token_ids"]
    vocab = max([*case["script"], *prompt]) + 2
    decoder = student.new("_Scripted", [*case["script"], *[vocab - 1] * (limit + 3)], vocab)
    tokens, reason, passes, calls = account(student.call("_played", decoder, prompt, limit, tuple(stops)))
    want, why = due([*case["script"], *[vocab - 1] * limit], case)
    return (
        wrong_passes(case, calls, want)
        or wrong_tokens(case, tokens, want)
        or wrong_end(case, reason, why, passes, calls, want)
    )


def told(rule: str, case: Case, en: str, zh: str, **evidence: Any) -> Finding:
    """A finding about one call of ``generate``."""
    call = call_of(case)
    return finding(rule, f"{call}: {en}", f"{call}：{zh}", call=call, **evidence)


def wrong_passes(case: Case, calls: list[Any], want: list[int]) -> Finding | None:
    """The whole prompt at once from position 0, then one token a pass, each with the one cache."""
    prompt = case["prompt"]
    due = [[prompt, list(range(len(prompt))), True]]
    due += [[[token], [len(prompt) + n], True] for n, token in enumerate(want[:-1])]
    at = next((i for i, (a, b) in enumerate(zip(calls, due, strict=False)) if a != b), None)
    if at is None:
        return None
    tokens, positions, cache = calls[at]
    rule = (
        ("prompt-at-once" if at == 0 else "one-token-a-pass") if tokens != due[at][0] else "positions-go-on"
    )
    if cache is not True:
        rule = "one-cache"
    return told(
        rule,
        case,
        f"pass {at + 1} of the model must get tokens {due[at][0]} at positions {due[at][1]}, with the cache that was made; it got "
        f"{tokens} at {positions}.",
        f"模型的第 {at + 1} 次计算应当拿到 token {due[at][0]}、位置 {due[at][1]} 和开头建好的那个 cache；实际拿到 {tokens}、位置 {positions}。",
        hint=2,
    )


def wrong_tokens(case: Case, tokens: Any, want: list[int]) -> Finding | None:
    """The tokens of the script, up to the stop token or the limit, as whole numbers."""
    if tokens == want and all(type(token) is int for token in tokens):
        return None
    if not isinstance(tokens, list) or any(type(token) is not int for token in tokens):
        return told("token-ids", case, f"it must yield token ids, whole numbers; yours gave {tokens!r:.100}.",
                    f"应当逐个产出 token id（整数）；你的给出了 {tokens!r:.100}。", hint=0)  # fmt: skip
    stops, limit = case["stop_token_ids"], case["max_new_tokens"]
    if len(tokens) > limit:
        rule = "at-most-so-many"
    elif tokens[: len(want)] == want:
        rule = "stops"
    elif tokens == want[: len(tokens)]:
        rule = "stop-token-counts" if tokens == want[:-1] and want[-1] in stops else "all-of-them"
    else:
        rule = "from-the-last-row"
    words = {
        "at-most-so-many": (f"at most {limit} tokens", f"最多 {limit} 个 token"),
        "stops": ("nothing after a stop token", "停止 token 之后什么都不再产出"),
        "stop-token-counts": ("the stop token itself is yielded, too", "停止 token 本身也要产出"),
        "all-of-them": (f"{limit} tokens, unless a stop token comes first", f"一共 {limit} 个 token，除非先遇到停止 token"),
        "from-the-last-row": ("the next token comes from the logits of the last row", "下一个 token 取自最后一行的 logits"),
    }[rule]  # fmt: skip
    return told(rule, case, f"{words[0]}: {want} is due, {tokens} came.", f"{words[1]}：应当是 {want}，得到的是 {tokens}。",
                want=want, got=tokens, hint=1)  # fmt: skip


def wrong_end(case: Case, reason: Any, why: str, passes: Any, calls: Any, want: list[int]) -> Finding | None:
    """The reason is returned; a token is handed on before the next is computed, and none is computed for nothing."""
    if reason != why:
        return told(
            "says-why",
            case,
            f'the generator must return "{why}" at its end; yours returned {reason!r}.',
            f'生成器结束时应当返回 "{why}"，你的返回了 {reason!r}。',
        )
    if passes != list(range(1, len(want) + 1)) or len(calls) != len(want):
        return told(
            "streams",
            case,
            f"token n is yielded after n passes of the model; by your tokens there had been {passes}, {len(calls)} in all.",
            f"第 n 个 token 应当在模型算完第 n 次时产出；你产出各个 token 时已经算了 {passes} 次，总共 {len(calls)} 次。",
            hint=2,
        )
    return None


def greedy(student: Student, case: Case) -> Finding | None:
    """A tiny model's own words, by the oracle without a cache; close calls, where rounding decides, are left out."""
    name, prompt, limit = case["model"], case["prompt"], case["max_new_tokens"]
    shape, numbers = tiny.shape_of(name), tiny.weights(name, case["seed"])
    script, lead = oracle.greedy(Config(**shape), numbers, prompt, limit)
    if lead < 1e-3:
        return None
    want, why = due(script, case)
    stops = tuple(case["stop_token_ids"])
    tokens, reason, _, _ = account(student.call("_greedy", shape, numbers, prompt, limit, stops))
    if tokens == want and reason == why:
        return None
    return told(
        "as-without-a-cache",
        case,
        f'the tiny model {name!r} says {want}, then "{why}"; yours said {tokens!r:.100}, then {reason!r}.',
        f'微型模型 {name!r} 应当说出 {want}，然后返回 "{why}"；你的是 {tokens!r:.100}，返回 {reason!r}。',
    )


def seeded(student: Student, case: Case) -> Finding | None:
    """Temperature 1: the generator alone decides, and it does."""
    name, seeds = case["model"], case["seeds"]
    if len(seeds) != 3:
        return None
    orders = [(1, seeds[0]), (2, seeds[0]), (1, seeds[1]), (1, seeds[2])]
    args = tiny.shape_of(name), tiny.weights(name, case["seed"]), case["prompt"], case["max_new_tokens"]
    said = student.call("_sampled", *args, orders)
    if not isinstance(said, list) or len(said) != 4 or any(not isinstance(tokens, list) for tokens in said):
        return told("token-ids", case, f"it must yield token ids; yours gave {said!r:.100}.",
                    f"应当逐个产出 token id；你的给出了 {said!r:.100}。", hint=0)  # fmt: skip
    if said[0] != said[1]:
        return told("by-its-generator", case, "the same generator must give the same tokens, whatever else draws random numbers.",
                    "同一个生成器应当给出同样的 token，不管别处怎样取随机数。", want=said[0], got=said[1], hint=2)  # fmt: skip
    if said[0] == said[2] == said[3]:
        return told("temperature-counts", case, "at temperature 1 other seeds must give other tokens.",
                    "温度为 1 时，换一个种子就应当得到不同的 token。", got=said[0], hint=2)  # fmt: skip
    return None
