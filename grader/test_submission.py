"""A submission's TODOs as pytest items; conftest.py says how to run them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decodelab.check.feedback import as_text
from decodelab.check.rules import TodoResult


def test_todo(todo: str, verdict: Callable[[str], TodoResult]) -> None:
    result = verdict(todo)
    if result.state != "passed":
        pytest.fail(as_text(result), pytrace=False)
