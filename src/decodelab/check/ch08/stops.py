"""TODO 7, extension: stop strings, in a text that grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from decodelab.check.ch08 import oracle
from decodelab.check.rules import Case, Finding
from decodelab.check.toolkit import finding

if TYPE_CHECKING:
    from decodelab.grading.student import Student


def check_visible(student: Student, case: Case) -> Finding | None:
    """Each text, piece by piece as it grows, up to the first that is over."""
    stops = tuple(case["stops"])
    texts = ["".join(case["pieces"][:n]) for n in range(1, len(case["pieces"]) + 1)]
    replies = [student.later("visible", text, stops) for text in texts]
    for text, reply in zip(texts, replies, strict=True):
        if wrong := one_text(text, stops, reply()):
            return wrong
        if oracle.visible(text, stops)[1]:
            return None
    return None


def one_text(text: str, stops: tuple[str, ...], got: Any) -> Finding | None:
    """What may be shown of one text."""
    call, want = f"visible({text!r}, {stops!r})", oracle.visible(text, stops)
    if not (isinstance(got, (tuple, list)) and len(got) == 2 and isinstance(got[0], str)):
        return finding("text-and-over", f"{call} must return (text, over); yours returned {got!r:.80}.",
                       f"{call} 应当返回 (text, over)；你的返回了 {got!r:.80}。", hint=0, call=call)  # fmt: skip
    shown, over = got
    if shown == want[0] and over is want[1]:
        return None
    rule, en, zh = slip(shown, over, want)
    return finding(rule, f"{call}: {en}. {want!r} is due, {tuple(got)!r} came.",
                   f"{call}：{zh}。应当是 {want!r}，得到的是 {tuple(got)!r}。", hint=2, call=call)  # fmt: skip


def slip(shown: str, over: Any, want: tuple[str, bool]) -> tuple[str, str, str]:
    """The rule that a reply breaks, and how it is said."""
    if bool(over) != want[1]:
        return (
            "says-when-over",
            "it is over when, and only when, a stop string is in the text",
            "文本里出现了停止串才算结束，没有就不算",
        )
    if over is not want[1]:
        return "true-or-false", "over must be True or False", "over 应当是 True 或 False"
    if want[1]:
        return (
            "cuts-at-the-first",
            "what stands before the stop string that begins first is shown, nothing else",
            "只显示最先开始的那个停止串之前的部分",
        )
    if len(shown) > len(want[0]):
        return (
            "holds-back",
            "an end that may become a stop string is held back",
            "结尾如果可能是某个停止串的开头，就先扣住不显示",
        )
    return (
        "shows-what-is-safe",
        "what cannot become a stop string any more is shown",
        "不可能再变成停止串的部分都要显示",
    )
