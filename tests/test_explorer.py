"""The explorer: what is chosen is what is shown, on ipywidgets 7 and 8; without widgets, stills and a sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exploring
import pytest
from nbclient import NotebookClient
from schedulers import records_of

from decodelab.errors import DecodeLabError
from decodelab.lang import speaking
from decodelab.show import explorer
from decodelab.show.explorer import VIEW, explore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")

RECORDS = {
    name.removesuffix(".jsonl"): records_of(exploring.SMALL, config)
    for name, config in exploring.RUNS.items()
}


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    with speaking("en"):
        yield


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where widgets are made, as in a notebook."""
    pytest.importorskip("ipywidgets", reason="pip install ipywidgets to test the explorer")
    monkeypatch.setattr(explorer, "in_notebook", lambda: True)


def shown(explorer: Any) -> str:
    """The words under the picture."""
    return explorer.picture.value.rpartition("<p>")[2].removesuffix("</p>")


@pytest.mark.usefixtures("notebook")
def test_the_step_and_the_policy_that_are_chosen_are_shown() -> None:
    it = explore({"chat": RECORDS})
    assert shown(it).startswith("Step 0, from 0 s")
    assert it.step.max == len(RECORDS["slots"]) - 1
    picture = it.picture.value
    it.step.value = 5
    assert it.picture.value != picture
    assert shown(it).startswith("Step 5, ")
    it.policy.value = "blocks"
    assert it.step.max == len(RECORDS["blocks"]) - 1
    assert shown(it).startswith("Step 5, ")


@pytest.mark.usefixtures("notebook")
def test_a_run_is_made_when_it_is_first_looked_at_and_kept() -> None:
    made: list[str] = []

    def run(name: str) -> Any:
        made.append(name)
        return RECORDS[name]

    it = explore({"chat": {"slots": lambda: run("slots"), "blocks": lambda: run("blocks")}})
    assert made == ["slots"]
    for policy in ("blocks", "slots", "blocks"):
        it.policy.value = policy
    assert made == ["slots", "blocks"]


@pytest.mark.usefixtures("notebook")
def test_another_load_keeps_the_policy_where_it_has_it() -> None:
    short = RECORDS["blocks"][:3]
    it = explore(
        {
            "chat": RECORDS,
            "documents": {"first": short, "blocks": short},
            "bursts": {"slots": RECORDS["slots"][:2]},
        }
    )
    it.policy.value = "blocks"
    it.step.value = 9
    it.load.value = "documents"
    assert (it.policy.value, it.step.max, it.step.value) == ("blocks", 2, 2)
    assert shown(it).startswith("Step 2, ")
    it.load.value = "bursts"
    assert (it.policy.value, it.step.max) == ("slots", 1)


@pytest.mark.usefixtures("notebook")
def test_a_run_that_fails_says_so_where_its_picture_would_be() -> None:
    def wrong() -> Any:
        raise TypeError("key() takes 2 arguments, <none> given")

    it = explore({"chat": {"slots": RECORDS["slots"], "mine": wrong, "none": []}})
    it.policy.value = "mine"
    assert it.picture.value == "<pre>TypeError: key() takes 2 arguments, &lt;none&gt; given\n</pre>"
    it.policy.value = "none"
    assert "has no steps; give it requests" in it.picture.value
    it.policy.value = "slots"
    assert shown(it).startswith("Step 0, ")


@pytest.mark.usefixtures("notebook")
def test_a_page_without_widgets_gets_stills_and_a_sentence_in_the_same_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = explore({"chat": RECORDS})
    bundle: Any = it._repr_mimebundle_()
    assert bundle[VIEW]["model_id"] == it.panel.model_id  # type: ignore[union-attr]
    assert "This page runs no widgets, so you see steps" in bundle["text/html"]
    assert bundle["text/html"].count("<img alt=") == 1
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    assert it._repr_mimebundle_().keys() == {VIEW}


@pytest.mark.parametrize("where", ["terminal", "no ipywidgets"])
def test_without_ipywidgets_or_a_notebook_there_are_stills(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "no ipywidgets":
        monkeypatch.setattr(explorer, "in_notebook", lambda: True)
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
    it = explore({"chat": {"slots": lambda: RECORDS["slots"]}})
    assert VIEW not in it._repr_mimebundle_()
    assert "pip install ipywidgets" in it._repr_mimebundle_()["text/html"]
    sentence, words = repr(it).splitlines()
    figure, _ = it.stills()
    assert [title for ax in figure.axes if (title := ax.get_title("left"))] == [
        f"#{n}" for n in sentence.partition("steps ")[2].partition(" of")[0].split(", ")
    ]
    assert words.startswith("Step ")


def test_the_shortest_run_has_one_still() -> None:
    figure, why = explore({"chat": {"slots": RECORDS["slots"][:1]}}).stills()
    assert len(figure.axes) == 2
    assert "的第 0 步" in why["zh"]


@pytest.mark.parametrize("runs", [{}, {"chat": {}}, RECORDS["slots"], {"chat": RECORDS["slots"]}, None])
def test_no_run_is_refused(runs: Any) -> None:
    with pytest.raises(DecodeLabError, match="no run to explore"):
        explore(runs)


def test_it_is_a_cells_value(tmp_path: Path) -> None:
    pytest.importorskip("ipywidgets", reason="pip install ipywidgets to test the explorer")
    notebook = exploring.notebook(tmp_path)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", timeout=120, resources=resources).execute()
    (output,) = notebook.cells[0].outputs
    assert {VIEW, "text/html", "text/plain"} <= output["data"].keys()
    assert "这个页面不能运行控件" in output["data"]["text/plain"]
    state = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert output["data"][VIEW]["model_id"] in state
