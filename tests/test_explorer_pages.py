"""The explorer where people meet it: Colab's ipywidgets 7, and a slider dragged in JupyterLab."""

from __future__ import annotations

import sys
from pathlib import Path

import exploring
import pytest

from decodelab.show.explorer import VIEW

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


def test_on_colabs_versions(tmp_path: Path) -> None:
    from test_colab import COLAB, Machine

    pins = [pin for pin in COLAB if not pin.startswith("torch")]
    machine = Machine.made(sys.executable, tmp_path, *pins)
    machine.pip("install", "--quiet", "--no-deps", ROOT)
    run = machine.execute(exploring.notebook(tmp_path), "explore")
    assert "ipywidgets==7.7.1" in machine.packages()
    (output,) = run["cells"][0]["outputs"]
    assert {VIEW, "text/html", "text/plain"} <= output["data"].keys()
    state = run["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    slider = next(one for one in state.values() if one["model_name"] == "IntSliderModel")
    assert slider["model_module_version"] == "1.5.0"
    assert slider["state"]["value"] == 4


@pytest.mark.browser
def test_a_dragged_slider_changes_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("selenium", reason="pip install selenium to test in a browser")
    pytest.importorskip("jupyterlab", reason="pip install jupyterlab to test in a browser")
    import browser
    import nbformat
    from selenium.webdriver.common.action_chains import ActionChains

    if not (browser.CHROMIUM and browser.DRIVER):
        pytest.skip("apt-get install chromium chromium-driver")
    (tmp_path / "home").mkdir()
    (tmp_path / "course").mkdir()
    nbformat.write(exploring.notebook(tmp_path / "course"), tmp_path / "course" / "explore.ipynb")
    command = [sys.executable, "-m", "jupyterlab"]
    with (
        browser.chromium(tmp_path / "profile") as driver,
        browser.served(command, tmp_path / "course", tmp_path / "home") as url,
    ):
        notebook = browser.LabNotebook(driver, url, "explore.ipynb")
        notebook.run("cell-0")
        output = notebook.output("cell-0")
        picture = "return document.querySelector('.jp-OutputArea .widget-html img')?.getAttribute('alt')"
        before = browser.until(driver, picture)
        assert before.startswith("第 0 步")
        browser.shoot(driver, "explorer-1-first-step")
        slider = output.find_element("css selector", ".noUi-handle")
        ActionChains(driver).click_and_hold(slider).move_by_offset(220, 0).release().perform()
        browser.until(driver, f"return (() => {{ {picture} }})() !== arguments[0]", before)
        browser.shoot(driver, "explorer-2-dragged")
        notebook.run("cell-1")
        browser.until(driver, f"return (() => {{ {picture} }})().startsWith('第 4 步')")
        browser.shoot(driver, "explorer-3-other-policy")
        assert "控件" not in output.text  # the sentence for pages without widgets
