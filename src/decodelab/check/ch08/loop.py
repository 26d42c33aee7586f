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
    # A decoder whose k-th pass puts the k-th token of a script ahead by ``lead``, if its last row is asked.
    def __init__(self, script, vocab, lead):
        self.script, self.vocab, self.lead, self.calls = script, vocab, lead, []
        self.config = SimpleNamespace(layers=1, kv_heads=1, head_dim=2)
    def cache(self, capacity):
        self.capacity = capacity
        return self
    def forward(self, tokens, positions, kv):
        self.calls.append([_plain(tokens), _plain(positions), kv is self])
        return torch.tensor([[len(self.calls), i, len(tokens)] for i in range(len(tokens))])
    def logits(self, hidden):
        rows = []
        for step, i, n in hidden.reshape(-1, 3).tolist():
            rows.append([0.0] * self.vocab)
            rows[-1][self.script[step - 1] if i == n - 1 else 0] = self.lead
        return torch.tensor(rows).reshape(*hidden.shape[:-1], self.vocab)

def _plain(x):
    # Whole numbers of a tensor; of anything else what it is.
    if not isinstance(x, torch.Tensor):
        return type(x).__name__
    return str(x.dtype) if x.is_floating_point() else x.tolist()

def _played(decoder, prompt, limit, stops, seed=None, temperature=0.0, top_p=1.0):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    own = list(prompt)
    going = generate(decoder, own, limit, stops, temperature, top_p, generator)
    if not hasattr(going, "__next__"):
        return type(going).__name__, None, [], [], True
    tokens, passes, reason = [], [], None
    while len(tokens) < limit + 3:
        try:
            tokens.append(next(going))
            passes.append(len(getattr(decoder, "calls", ())))
        except StopIteration as end:
            reason = end.value
            break
    return tokens, reason, passes, getattr(decoder, "calls", []), own == prompt

def _sampled(config, weights, prompt, limit, seeds):
    from decodelab.models.config import Config
    decoder, said = Decoder(Config(**config), weights), []
    for around, seed in seeds:
        torch.manual_seed(around)
        said.append(_played(decoder, prompt, limit, (), seed, 1.0)[0])
    said.append(_by_hand(decoder, prompt, limit, torch.Generator().manual_seed(seeds[0][1])))
    return said

def _by_hand(decoder, prompt, limit, generator):
    # What one ``sample`` a token comes to, without a cache.
    ids = list(prompt)
    for _ in range(limit):
        n = len(ids)
        hidden = decoder.forward(torch.tensor(ids), torch.arange(n), decoder.cache(n))
        ids.append(sample(decoder.logits(hidden[-1]), 1.0, 1.0, generator))
    return ids[len(prompt):]

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
    asked = f", {tuple(stops)}, {case['temperature']:g}, {case['top_p']:g}" if "top_p" in case else ""
    asked = asked or (f", {stops}" if stops else "")
    return f"generate(decoder, {case['prompt']}, {case['max_new_tokens']}{asked})"


def due(script: list[int], case: Case) -> tuple[list[int], str]:
    """The tokens and the reason that this script comes to."""
    said = script[: case["max_new_tokens"]]
    ends = [i for i, token in enumerate(said) if token in case["stop_token_ids"]]
    return (said[: ends[0] + 1], "stop") if ends else (said, "length")


def account(reply: Any) -> tuple[Any, Any, Any, list[Any], Any]:
    """What ``_played`` told: tokens, reason, passes by each token, what every pass was given, and a prompt left alone."""
    tokens, reason, passes, calls, spared = (
        reply if isinstance(reply, tuple) and len(reply) == 5 else (None,) * 5
    )
    if not isinstance(calls, list) or any(not isinstance(call, list) or len(call) != 3 for call in calls):
        calls = []
    return tokens, reason, passes, calls, spared


def scripted(student: Student, case: Case) -> Finding | None:
    """Tokens, reason, and what every pass of the model was given."""
    prompt, limit, stops = case["prompt"], case["max_new_tokens"], case["stop_token_ids"]
    vocab = max([*case["script"], *prompt]) + 2
    script = [*case["script"], *[vocab - 1] * (limit + 3)]
    drawn = [0, case["temperature"], case["top_p"]] if "top_p" in case else []
    decoder = student.new("_Scripted", script, vocab, 1.0 if drawn else 50.0)
    tokens, reason, passes, calls, spared = account(
        student.call("_played", decoder, prompt, limit, tuple(stops), *drawn)
    )
    want, why = due(script, case)
    if drawn and tokens != want:
        return told("as-asked", case, f"this temperature and top_p leave one token to draw, {want} in all; yours gave {tokens!r:.100}: hand both on to sample.",
                    f"这样的温度和 top_p 每步只剩一个 token 可抽，一共是 {want}；你的给出了 {tokens!r:.100}：两个参数都要交给 sample。", hint=0)  # fmt: skip
    return (
        wrong_passes(case, calls, want)
        or wrong_tokens(case, tokens, want)
        or wrong_prompt(case, spared)
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
    if not isinstance(tokens, list) or not isinstance(positions, list):
        return told("tensors", case, f"tokens and positions go into forward as tensors of whole numbers; it got {tokens} and {positions}.",
                    f"token 和位置要以整数张量传给 forward；它拿到的是 {tokens} 和 {positions}。", hint=2)  # fmt: skip
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
    if isinstance(tokens, str):
        return told("yields", case, f"it must be a generator: `yield` each token as soon as it is drawn; yours returned {tokens}.",
                    f"它应当是生成器：每抽出一个 token 就 `yield` 它；你的返回了 {tokens}。", hint=0)  # fmt: skip
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


def wrong_prompt(case: Case, spared: Any) -> Finding | None:
    """The caller's list is as it was."""
    if spared is True:
        return None
    return told("leaves-its-arguments", case, "prompt belongs to the caller and must stay as it is; keep your tokens in a list of your own: `list(prompt)`.",
                "prompt 是调用者的，不能改；请把 token 放进你自己的列表：`list(prompt)`。", hint=0)  # fmt: skip


def wrong_end(case: Case, reason: Any, why: str, passes: Any, calls: Any, want: list[int]) -> Finding | None:
    """The reason is returned; a token is handed on before the next is computed, and none is computed for nothing."""
    if reason != why:
        return told(
            "says-why",
            case,
            f'the generator must return "{why}" at its end; yours returned {reason!r}.',
            f'生成器结束时应当返回 "{why}"，你的返回了 {reason!r}。',
            hint=2,
        )
    if passes == list(range(1, len(want) + 1)) and len(calls) > len(want):
        return told("streams", case, f"nobody needs the last token computed: {len(want)} passes of the model are due, yours made {len(calls)}.",
                    f"最后一个 token 不用再算：模型应当算 {len(want)} 次，你的算了 {len(calls)} 次。", hint=0)  # fmt: skip
    if passes != list(range(1, len(want) + 1)) or len(calls) != len(want):
        return told(
            "streams",
            case,
            f"token n is yielded after n passes of the model, before the next; when yours came there had been {passes}.",
            f"第 n 个 token 应当在模型算完第 n 次、还没算下一次时产出；你产出各个 token 时已经算了 {passes} 次。",
            hint=0,
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
    tokens, reason, *_ = account(student.call("_greedy", shape, numbers, prompt, limit, stops))
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
    if not isinstance(said, list) or len(said) != 5 or any(not isinstance(tokens, list) for tokens in said):
        return told("token-ids", case, f"it must yield token ids; yours gave {said!r:.100}.",
                    f"应当逐个产出 token id；你的给出了 {said!r:.100}。", hint=0)  # fmt: skip
    if said[0] != said[1]:
        return told("by-its-generator", case, "the same generator must give the same tokens, whatever else draws random numbers: hand `generator` on to sample.",
                    "同一个生成器应当给出同样的 token，不管别处怎样取随机数：要把 `generator` 交给 sample。", want=said[0], got=said[1], hint=0)  # fmt: skip
    if said[0] == said[2] == said[3]:
        return told("temperature-counts", case, "at temperature 1 other seeds must give other tokens: hand `temperature` and `generator` on to sample.",
                    "温度为 1 时，换一个种子就应当得到不同的 token：要把 `temperature` 和 `generator` 交给 sample。", got=said[0], hint=0)  # fmt: skip
    if said[0] != said[4]:
        return told("one-draw-a-token", case, f"each token is one `sample` of the logits of the last row: with this seed {said[4]}, not {said[0]}.",
                    f"每个 token 只对最后一行的 logits 做一次 `sample`：这个种子应当得到 {said[4]}，而不是 {said[0]}。", want=said[4], got=said[0], hint=0)  # fmt: skip
    return None
