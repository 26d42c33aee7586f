"""What goes between judge and runner: Python data as the runner's JSON, and what came back as plain data.

An array here is a tensor there. It crosses as the bytes of its numbers, so nothing is ever unpickled.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from decodelab.check.rules import Array, Opaque, Record, StudentError

MAX_DEPTH = 32  # of a value in it
MAX_DIGITS = 20  # of a whole number
ITEM_BYTES = {
    "|b1": 1,
    "|i1": 1,
    "|u1": 1,
    "<i2": 2,
    "<i4": 4,
    "<i8": 8,
    "<f2": 2,
    "<f4": 4,
    "<f8": 8,
    "<u2": 2,
    "<u4": 4,
    "<u8": 8,
    "<c8": 8,
    "<c16": 16,
}  # by dtype
MAX_ALIKE = 16  # keys of one dict that share a hash: more is an attack on whoever puts them in a dict
UNSHOWABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Kept:
    """An object that lives in the runner under the name ``handle``; None: the module itself."""

    def __init__(self, handle: str | None) -> None:
        self.handle = handle


def parse(line: bytes) -> Any:
    """The JSON of a reply: what no file can hold (a lone surrogate) replaced; opaque what nobody can reckon with.

    That is NaN, which equals nothing, and a whole number that no float comes near.
    """
    if b"\\ud" in line or b"\\uD" in line:
        line = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(line, parse_int=whole, parse_constant=lambda n: Opaque(n) if n == "NaN" else float(n))


def whole(digits: str) -> int | Opaque:
    """A whole number, as such where it is of a size that anything here is."""
    return int(digits) if len(digits) <= MAX_DIGITS else Opaque(f"{digits[:MAX_DIGITS]}…")


def shown(value: Any, most: int) -> str:
    """The beginning of a text for people, without what moves a terminal's cursor or turns the writing round."""
    return UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", str(value)[:most])


def decode(value: Any, depth: int = 0) -> Any:
    """The runner's JSON as Python data; anything malformed is a ValueError."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, list):
        return [decode(v, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if "~" not in value:
        return {k: decode(v, depth + 1) for k, v in value.items()}
    kind, content = value.get("~"), value.get("v")
    if kind == "tuple" and isinstance(content, list):
        return tuple(decode(v, depth + 1) for v in content)
    if kind == "dict" and isinstance(content, list):
        pairs = [(freeze(decode(k, depth + 1)), decode(v, depth + 1)) for k, v in content]
        if max(Counter(hash(k) for k, _ in pairs).values(), default=0) > MAX_ALIKE:
            raise ValueError("keys that collide")
        return dict(pairs)
    if kind == "object" and isinstance(content, dict):
        fields = {k: decode(v, depth + 1) for k, v in content.items()}
        return Record(shown(value.get("type"), 100), fields)
    if kind == "array":
        return array(value)
    if kind == "repr":
        return Opaque(shown(content, 200))
    raise ValueError(f"not a reply: {kind!r}")


def array(value: dict[str, Any]) -> Array:
    """A tensor's numbers; ValueError, TypeError or KeyError where type, shape and bytes do not fit together."""
    import numpy as np  # only where tensors cross: grading a chapter without any needs no numpy

    dtype, shape, content = value["dtype"], value["shape"], base64.b64decode(value["v"], validate=True)
    if dtype not in ITEM_BYTES or len(shape) > MAX_DEPTH or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("no array")
    if math.prod(shape) * ITEM_BYTES[dtype] != len(content):
        raise ValueError("not so many bytes")
    return Array(np.ndarray(shape, dtype, content))


def student_error(fields: Any) -> StudentError:
    """The exception that a reply tells of; anything malformed is a KeyError, TypeError or ValueError."""
    todo = fields["todo"] if isinstance(fields["todo"], str) else None
    message, traceback = (shown(fields[name], 6000) for name in ("message", "traceback"))
    bases = [str(name)[:100] for name in fields.get("bases", [])[:40]]
    return StudentError(shown(fields["kind"], 100), message, todo, traceback, bases)


def freeze(key: Any) -> Any:
    """A dict key that can be hashed, whatever came."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def encode(value: Any) -> Any:
    """Python data as the runner's JSON; what is kept over there goes by its name."""
    if isinstance(value, Array):
        value = value.numbers
    if type(value).__name__ == "ndarray":
        content = base64.b64encode(value.tobytes()).decode()
        return {"~": "array", "dtype": value.dtype.str, "shape": value.shape, "v": content}
    if isinstance(value, Kept):
        return {"~": "kept", "v": value.handle}
    if isinstance(value, tuple):
        return {"~": "tuple", "v": [encode(v) for v in value]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        if "~" not in value and all(type(k) is str for k in value):
            return {k: encode(v) for k, v in value.items()}
        return {"~": "dict", "v": [[encode(k), encode(v)] for k, v in value.items()]}
    return value


def get_order(on: str | None, name: str, asked: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON of one look at an attribute, or at the object itself for no name."""
    return {"do": "get", "on": on, "name": name, "asked": asked}


def call_order(on: str | None, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The JSON of one call."""
    encoded = {k: encode(v) for k, v in kwargs.items()}
    return {"do": "call", "on": on, "name": name, "args": [encode(a) for a in args], "kwargs": encoded}


def outcome(result: Any) -> Any:
    """What one order came to: its value, or a StudentError; anything malformed is a KeyError, TypeError or ValueError."""
    return student_error(result["error"]) if "error" in result else decode(result["ok"])
