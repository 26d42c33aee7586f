"""A run to walk through by hand: pick a load and a policy, drag the step.

Works with ipywidgets 7 and 8. A page that runs no widgets shows a few steps instead, and says so.
"""

from __future__ import annotations

import html
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both, say, tr
from decodelab.log import Record
from decodelab.show.common import alt_text, as_img
from decodelab.show.moment import CAPTION, Film
from decodelab.show.tell import in_notebook

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run: TypeAlias = "Sequence[Record] | Callable[[], Sequence[Record]]"
Runs: TypeAlias = "Mapping[str, Mapping[str, Run]]"  # by load, then by policy

VIEW = "application/vnd.jupyter.widget-view+json"
STILLS = 4  # steps that are shown where nothing can be dragged


def explore(runs: Runs) -> Explorer:
    """Show runs step by step; let it be a notebook cell's value.

    runs: ``{load: {policy: records}}``, or a function that makes the records when they are first looked at.
    DecodeLabError where there is no run to show.
    """
    return Explorer(runs)


class Explorer:
    """What ``explore`` shows. ``load``, ``policy``, ``step``: the controls; ``picture``: the image (HTML)."""

    def __init__(self, runs: Runs) -> None:
        loads = list(runs.values()) if isinstance(runs, Mapping) else []
        if not any(loads) or not all(isinstance(policies, Mapping) for policies in loads):
            raise DecodeLabError(
                both(
                    en="There is no run to explore; give explore() {load: {policy: records}}.",
                    zh="没有可以查看的运行；请给 explore() 传入 `{load: {policy: records}}`。",
                )
            )
        self.runs = {load: dict(policies) for load, policies in runs.items() if policies}
        self._films: dict[tuple[str, str], Film] = {}
        self.panel = self._widgets() if in_notebook() else None

    def film(self, load: str, policy: str) -> Film:
        """A run, made when it is first asked for and kept."""
        if (load, policy) not in self._films:
            run = self.runs[load][policy]
            records = run() if callable(run) else run
            if not records:
                raise DecodeLabError(
                    both(
                        en=f"The run {load}, {policy} has no steps; give it requests to serve.",
                        zh=f"运行 {load}、{policy} 里一步也没有；请给它一些请求。",
                    )
                )
            self._films[load, policy] = Film(records)
        return self._films[load, policy]

    def stills(self) -> tuple[Figure, Text]:
        """A few steps of the first run, and the sentence that says why."""
        load = next(iter(self.runs))
        policy = next(iter(self.runs[load]))
        film = self.film(load, policy)
        last = len(film.records) - 1
        steps = sorted({last * n // (STILLS + 1) for n in range(1, STILLS + 1)})
        numbers = ", ".join(str(film.records[at]["step"]) for at in steps)
        return film.pictures(steps), both(
            en=f"This page runs no widgets, so you see steps {numbers} of {load}, {policy}; to drag through all "
            "of them, run `pip install ipywidgets` and open the notebook in JupyterLab or Colab.",
            zh=f"这个页面不能运行控件，所以只显示 {load}、{policy} 的第 {numbers} 步；想拖动查看每一步，请运行 "
            "`pip install ipywidgets`，再用 JupyterLab 或 Colab 打开 notebook。",
        )

    def __repr__(self) -> str:
        figure, why = self.stills()
        return f"{say(why)}\n{say(alt_text(figure))}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        view = (
            {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id} if self.panel else None
        )
        # Which of a bundle's forms Colab takes is its own affair; it runs widgets, so it gets nothing else.
        if view and "google.colab" in sys.modules:
            return {VIEW: view}
        figure, why = self.stills()
        still = f"<p>{html.escape(say(why))}</p>{_figure(figure)}"
        return {"text/plain": say(why), "text/html": still} | ({VIEW: view} if view else {})

    def _widgets(self) -> Any:
        try:
            import ipywidgets
        except ImportError:
            return None
        first = next(iter(self.runs))
        self.load = ipywidgets.Dropdown(options=list(self.runs), description=tr(en="load", zh="负载"))
        policies = list(self.runs[first])
        self.policy = ipywidgets.Dropdown(options=policies, description=tr(en="policy", zh="策略"))
        wide = ipywidgets.Layout(width="95%")
        self.step = ipywidgets.IntSlider(0, 0, 0, description=tr(en="step", zh="步"), layout=wide)
        self.picture = ipywidgets.HTML()
        self.load.observe(self._loaded, "value")
        for control in (self.policy, self.step):
            control.observe(self._draw, "value")
        self._draw()
        chosen = ipywidgets.HBox([self.load, self.policy])
        return ipywidgets.VBox([chosen, self.step, self.picture])

    def _loaded(self, change: Any) -> None:
        """Another load: the same policy where it has been run there too."""
        policy, policies = self.policy.value, list(self.runs[self.load.value])
        self.policy.options = policies
        if policy in policies:
            self.policy.value = policy
        self._draw()

    def _draw(self, change: Any = None) -> None:
        try:
            film = self.film(self.load.value, self.policy.value)
            self.step.max = len(film.records) - 1
            figure = film.picture(self.step.value)
            self.picture.value = f"{_figure(figure)}<p>{html.escape(say(alt_text(figure)))}</p>"
        except Exception as error:  # a callback's error is shown nowhere else
            said = "".join(traceback.format_exception_only(type(error), error))
            self.picture.value = f"<pre>{html.escape(said)}</pre>"


def _figure(figure: Figure) -> str:
    words = f"<figcaption>{html.escape(say(CAPTION))}</figcaption>"
    return f"<figure>{as_img(figure)}{words}</figure>"
