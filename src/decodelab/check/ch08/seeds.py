"""TODO 6, extension: every request draws from numbers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

DRAW = """
import builtins

def _elsewhere(value):
    # What ``hash`` would be in another process: another for a text, the same for a number.
    parts = value if isinstance(value, tuple) else (value,)
    own = any(isinstance(part, str) for part in parts)
    return builtins.hash((value, "elsewhere")) if own else builtins.hash(value)

def _draws(script, elsewhere=False):
    # script: [seed, request id], in order; a Seeds is made at the first mention of its seed.
    globals()["hash"] = _elsewhere if elsewhere else builtins.hash
    made, drawn = {}, []
    torch.manual_seed(5 + elsewhere)
    for seed, request_id in script:
        seeds = made.setdefault(seed, Seeds(seed))
        generator = seeds.generator(request_id)
        drawn.append(round(torch.rand((), generator=generator, dtype=torch.float64).item(), 12))
    return drawn, torch.rand(()).item() == torch.rand((), generator=torch.Generator().manual_seed(5 + elsewhere)).item()
"""
ALIKE: dict[str, Text] = {
    "requests-apart": both(
        en="two requests must not draw the same numbers", zh="两个请求不能取到同样的随机数"
    ),
    "seeds-apart": both(en="another seed must give other numbers", zh="换一个种子就应当得到别的随机数"),
    "no-two-alike": both(
        en="no two pairs of seed and request may come to the same numbers: adding them up, or writing them one behind the other, is too little",
        zh="任何两组“种子 + 请求”都不能得到同样的数：把两者相加、或者首尾相接，都不够",
    ),
}


def check_seeds(student: Student, case: Case) -> Finding | None:
    """The same script twice, and each request's share of it alone: what others draw changes nothing."""
    student.load("check", DRAW)
    script = [tuple(pair) for pair in case["script"]]
    both_ways = [student.later("_draws", script) for _ in range(2)]
    elsewhere = student.later("_draws", script, True)
    alone = {pair: student.later("_draws", [p for p in script if p == pair]) for pair in script}
    first, again = (numbers(reply()) for reply in both_ways)
    if first is None or again is None:
        return told(
            "a-generator",
            "generator(request_id) must return a torch.Generator.",
            "generator(request_id) 应当返回 torch.Generator。",
        )
    if first[1] is not True:
        return told("its-own-generator", "torch's global generator was touched; make a torch.Generator for each request.",
                    "你动了 torch 的全局生成器；应当给每个请求单独建一个 torch.Generator。")  # fmt: skip
    if first != again:
        return told("same-seed-same-draws", f"the same requests with the same seed drew {first[0][:4]} once and {again[0][:4]} once.",
                    f"同样的请求、同样的种子，一次取到 {first[0][:4]}，另一次取到 {again[0][:4]}。")  # fmt: skip
    if numbers(elsewhere()) != first:
        return told("in-every-process", "in another process the same seed and id must draw the same numbers; Python's hash of a text and the state of torch's own generator are others there.",
                    "换一个进程，同样的种子和 id 也要取到同样的数；而 Python 对文本的 hash、torch 全局生成器的状态，在那里都不一样。")  # fmt: skip
    return goes_on(script, first[0], {pair: numbers(reply()) for pair, reply in alone.items()}) or apart(
        script, first[0]
    )


def numbers(reply: Any) -> tuple[list[float], bool] | None:
    """What was drawn and whether the global generator is untouched; None where it is nothing of the kind."""
    well = isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[0], list)
    return reply if well and all(type(x) is float for x in reply[0]) else None


def told(rule: str, en: str, zh: str, hint: int = 2) -> Finding:
    """A finding about Seeds."""
    return finding(rule, f"Seeds: {en}", f"Seeds：{zh}", hint=hint)


def goes_on(script: list[Any], drawn: list[float], alone: dict[Any, Any]) -> Finding | None:
    """A request that asks again goes on where it was, whoever drew in between."""
    for pair in alone:
        own = [x for p, x in zip(script, drawn, strict=False) if p == pair]
        if len(set(own)) < len(own):
            return told("goes-on", f"request {pair[1]!r} drew {own}: asked again it must go on with its generator, not begin anew.",
                        f"请求 {pair[1]!r} 取到 {own}：再次索取时应当接着用它的生成器，而不是从头开始。", hint=1)  # fmt: skip
        if alone[pair] is None or alone[pair][0] != own:
            return told("whoever-else-draws", f"request {pair[1]!r} must draw the same numbers alone and among others.",
                        f"请求 {pair[1]!r} 单独运行和与别人一起运行，取到的数应当相同。")  # fmt: skip
    return None


def apart(script: list[Any], drawn: list[float]) -> Finding | None:
    """Different pairs draw different numbers."""
    first: dict[float, Any] = {}
    for pair, number in zip(script, drawn, strict=False):
        other = first.setdefault(number, pair)
        if other != pair:
            rule = (
                "requests-apart"
                if other[0] == pair[0]
                else "seeds-apart"
                if other[1] == pair[1]
                else "no-two-alike"
            )
            return told(rule, f"{ALIKE[rule]['en']}; (seed, request) {other} and {pair} did.",
                        f"{ALIKE[rule]['zh']}；（种子，请求）{other} 和 {pair} 却相同。")  # fmt: skip
    return None
