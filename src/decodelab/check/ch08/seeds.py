"""TODO 6, extension: every request draws from numbers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding
from decodelab.lang import Text, both

if TYPE_CHECKING:
    from decodelab.grading.student import Student

DRAW = """
def _draws(script):
    # script: [seed, request id], in order; a Seeds is made at the first mention of its seed.
    made, drawn, at = {}, [], {}
    torch.manual_seed(5)
    for seed, request_id in script:
        seeds = made.setdefault(seed, Seeds(seed))
        generator = seeds.generator(request_id)
        drawn.append(round(torch.rand((), generator=generator, dtype=torch.float64).item(), 12))
    return drawn, torch.rand(()).item() == torch.rand((), generator=torch.Generator().manual_seed(5)).item()
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
    return goes_on(script, first[0], {pair: numbers(reply()) for pair, reply in alone.items()}) or apart(
        script, first[0]
    )


def numbers(reply: Any) -> tuple[list[float], bool] | None:
    """What was drawn and whether the global generator is untouched; None where it is nothing of the kind."""
    well = isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[0], list)
    return reply if well and all(type(x) is float for x in reply[0]) else None


def told(rule: str, en: str, zh: str) -> Finding:
    """A finding about Seeds."""
    return finding(rule, f"Seeds: {en}", f"Seeds：{zh}", hint=2)


def goes_on(script: list[Any], drawn: list[float], alone: dict[Any, Any]) -> Finding | None:
    """A request that asks again goes on where it was, whoever drew in between."""
    for pair in alone:
        own = [x for p, x in zip(script, drawn, strict=False) if p == pair]
        if len(set(own)) < len(own):
            return told("goes-on", f"request {pair[1]!r} drew {own}: asked again it must go on with its generator, not begin anew.",
                        f"请求 {pair[1]!r} 取到 {own}：再次索取时应当接着用它的生成器，而不是从头开始。")  # fmt: skip
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
