"""Decode Lab | 解码调度实验室: the equipment of the course.

What a learner uses is importable from here and loaded on first use, so that ``import decodelab``
costs milliseconds and needs the standard library alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from decodelab.errors import DecodeLabError, TodoError

if TYPE_CHECKING:
    from decodelab.chapters import chapter
    from decodelab.lang import tr
    from decodelab.learner import check, hint, progress, solution, start
else:
    # Loading the package decodelab.check binds its name here, once; learners mean the function.
    import_module("decodelab.check")
    del check

__version__ = "0.2.0"

_LAZY = {
    "chapter": "decodelab.chapters",
    "check": "decodelab.learner",
    "hint": "decodelab.learner",
    "progress": "decodelab.learner",
    "solution": "decodelab.learner",
    "start": "decodelab.learner",
    "tr": "decodelab.lang",
}

__all__ = [
    "DecodeLabError",
    "TodoError",
    "__version__",
    "chapter",
    "check",
    "hint",
    "progress",
    "solution",
    "start",
    "tr",
]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'decodelab' has no attribute {name!r}")
