"""Two languages: which one is spoken now, and text that exists in both.

``tr`` picks one text now; ``both`` keeps the pair for whoever reads it later (a grade is judged
once and read in the student's own language). In a chapter's source ``tr(en=..., zh=...)`` is also
the builder's marker: each edition gets its own argument in place of the call.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

LANGUAGES = ("en", "zh")

Text: TypeAlias = "dict[str, str]"  # {"en": ..., "zh": ...}

_spoken: list[str] = []


def both(*, en: str, zh: str) -> Text:
    """A text in both languages."""
    return {"en": en, "zh": zh}


def speak(lang: str) -> None:
    """Make ``lang`` (``"en"`` or ``"zh"``) the language of everything printed from now on."""
    if lang not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, not {lang!r}")
    _spoken[:] = [lang]


def spoken() -> str:
    """The language in force: what ``speak`` chose, else ``DECODELAB_LANG``, else the system's."""
    return _spoken[0] if _spoken else chosen() or systems()


def chosen() -> str:
    """The language that ``DECODELAB_LANG`` asks for, "" where it names none of ours."""
    wanted = os.environ.get("DECODELAB_LANG", "").lower()[:2]
    return wanted if wanted in LANGUAGES else ""


def systems() -> str:
    """The language of the environment, whether or not a locale of that name was ever generated here."""
    named = (
        os.environ.get(name) for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    )  # gettext's order
    wanted = next(filter(None, named), None) or locale.getlocale()[0] or ""
    return "zh" if wanted.lower().startswith(("zh", "chinese")) else "en"


@contextmanager
def speaking(lang: str) -> Iterator[None]:
    """Speak ``lang`` inside a ``with`` block, and after it what was spoken before."""
    before = list(_spoken)
    speak(lang)
    try:
        yield
    finally:
        _spoken[:] = before


def tr(*, en: Any, zh: Any) -> Any:
    """``en`` or ``zh``, whichever language is spoken now."""
    return zh if spoken() == "zh" else en


def say(text: Text | str) -> str:
    """A text of ``both`` in the language spoken now."""
    return text if isinstance(text, str) else text[spoken()]
