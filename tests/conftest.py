"""For every test: a slow machine is no failure, and what computes with torch is marked so."""

from __future__ import annotations

import pytest
from hypothesis import settings

from decodelab import lang
from decodelab.course import chapter_ids, load
from decodelab.grading.splice import needs

settings.register_profile("decodelab", deadline=None)
settings.load_profile("decodelab")

HEAVY = tuple(chapter for chapter in chapter_ids() if needs(load(chapter)))


@pytest.fixture(autouse=True)
def language(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test speaks, the next one does not."""
    monkeypatch.setattr(lang, "_spoken", [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test with one of these chapters, or a TODO of it, among its parameters belongs to ``make test-torch``."""
    for item in items:
        given = (
            item.callspec.params.values()
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else ()
        )
        names = (getattr(value, "id", value) for value in given)
        if HEAVY and any(isinstance(name, str) and name.startswith(HEAVY) for name in names):
            item.add_marker(pytest.mark.torch)
