"""A Jupyter server of one's own and a headless Chromium, for tests that look at a page as people do."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).parent.parent
ARTEFACTS = Path(os.environ.get("DECODELAB_ARTEFACTS", ROOT / "artefacts"))
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SECONDS = 60  # for whatever a page is to show

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
NO_NEWS = '{"fetchNews": "false", "checkForUpdates": false}'


@contextmanager
def served(command: Sequence[str], folder: Path, home: Path) -> Iterator[str]:
    """Run a command that starts a Jupyter server in ``folder``; its URL, once it answers.

    home: stands for the user's own, so that nobody's settings are read or changed.
    """
    settings = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(NO_NEWS, encoding="utf-8")
    env = os.environ | {
        "HOME": str(home),
        "DECODELAB_HOME": str(home / "decodelab"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }
    port = free_port()
    options = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--LabApp.expose_app_in_browser=True",
    ]
    with (home / "server.log").open("w+", encoding="utf-8") as log:
        server = subprocess.Popen(
            [*command, *options],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/api/status", server, home / "server.log")
            yield url
        finally:
            stop(server)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return when ``url`` answers; AssertionError with the log where it does not in time."""
    end = time.monotonic() + SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"no server at {url}:\n{log.read_text(encoding='utf-8')}")


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and what it started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, how)
            server.wait(15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


@contextmanager
def chromium(profile: Path, width: int = 1280, height: int = 1000) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own."""
    assert CHROMIUM
    assert DRIVER
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(120)
    driver.set_page_load_timeout(SECONDS)
    try:
        yield driver
    finally:
        driver.quit()


def until(driver: webdriver.Chrome, script: str, *arguments: Any) -> Any:
    """What ``script`` returns, as soon as that is something."""
    return WebDriverWait(driver, SECONDS).until(lambda _: driver.execute_script(script, *arguments), script)


def settle(driver: webdriver.Chrome) -> None:
    """Wait until two pictures of the screen, a moment apart, are the same."""
    end, before = time.monotonic() + 10, b""
    while (now := driver.get_screenshot_as_png()) != before and time.monotonic() < end:
        before = now
        time.sleep(0.2)


def shoot(driver: webdriver.Chrome, name: str) -> None:
    """Keep what is on the screen, once it is still, as an artefact."""
    settle(driver)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    (ARTEFACTS / f"{name}.png").write_bytes(driver.get_screenshot_as_png())


class LabNotebook:
    """A notebook open in JupyterLab; a cell is named by its id."""

    HERE = """
        const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
        const index = notebook.widgets.findIndex(cell => cell.model.id === arguments[0]);
        const cell = notebook.widgets[index];
    """

    def __init__(self, driver: webdriver.Chrome, url: str, name: str) -> None:
        self.driver = driver
        driver.get(f"{url}/lab/tree/{name}")
        kernel = "return window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel"
        until(driver, f"{kernel}?.connectionStatus === 'connected'")
        until(driver, f"{kernel}.status === 'idle'")

    def show(self, cell: str) -> None:
        """Scroll to a cell."""
        self._do("notebook.activeCellIndex = index; await notebook.scrollToItem(index, 'start');", cell)
        until(self.driver, self.HERE + "return cell.node.isConnected && cell.isPlaceholder() === false", cell)

    def run(self, cell: str) -> None:
        """Run a cell to its end."""
        self._do("notebook.activeCellIndex = index; await app.commands.execute('notebook:run-cell');", cell)
        assert self.driver.execute_script(self.HERE + "return cell.model.executionCount", cell)

    def run_above(self, cell: str) -> None:
        """The menu's *Run All Above Selected Cell*."""
        command = "await app.commands.execute('notebook:run-all-above');"
        self._do(f"notebook.activeCellIndex = index; {command}", cell)

    def run_all(self) -> list[dict[str, Any]]:
        """Run the notebook from top to bottom; the outputs of all its cells."""
        self._do("await app.commands.execute('notebook:run-all-cells');")
        outputs = "notebook.widgets.flatMap(cell => cell.model.outputs?.toJSON() ?? [])"
        return self.driver.execute_script(f"{self.HERE} return {outputs}", "")

    def shoot_through(self, name: str) -> None:
        """Keep the whole notebook as artefacts, a screen each."""
        for old in ARTEFACTS.glob(f"{name}-*.png"):
            old.unlink()
        self._do("await app.commands.execute('application:toggle-left-area');")
        self._do("notebook.activeCellIndex = 0; await notebook.scrollToItem(0, 'start');")
        scroll = """
            const pane = document.querySelector('.jp-NotebookPanel .jp-WindowedPanel-outer');
            const before = pane.scrollTop;
            const last = [...document.querySelectorAll('.jp-NotebookPanel .jp-Cell')].at(-1);
            const ended = last.getBoundingClientRect().bottom <= pane.getBoundingClientRect().bottom;
            pane.scrollTop += pane.clientHeight - 40;
            return !ended && pane.scrollTop > before + 1;
        """
        for screen in range(1, 100):
            shoot(self.driver, f"{name}-{screen:02}")
            if not self.driver.execute_script(scroll):
                break

    def output(self, cell: str) -> WebElement:
        """The element of what a cell shows."""
        self.show(cell)
        find = "return cell.node.querySelector('.jp-OutputArea-output')?.closest('.jp-OutputArea')"
        return until(self.driver, self.HERE + find, cell)

    def paste(self, cell: str, text: str) -> None:
        """Click into a cell, select all of it, and paste."""
        self.show(cell)
        editor = until(self.driver, self.HERE + "return cell.node.querySelector('.cm-content')", cell)
        ActionChains(self.driver).move_to_element_with_offset(editor, 0, 0).perform()
        editor.click()
        editor.send_keys(Keys.CONTROL, "a")
        self.driver.execute_script(
            """
            const clipboardData = new DataTransfer();
            clipboardData.setData('text/plain', arguments[1]);
            const options = {clipboardData, bubbles: true, cancelable: true};
            arguments[0].dispatchEvent(new ClipboardEvent('paste', options));
            """,
            editor,
            text,
        )
        until(self.driver, self.HERE + "return cell.model.sharedModel.source === arguments[1]", cell, text)

    def _do(self, script: str, cell: str = "") -> None:
        done = "const done = arguments[arguments.length - 1];"
        wrapped = (
            f"{done} {self.HERE} (async () => {{ {script} }})().then(() => done(''), e => done(String(e)));"
        )
        problem = self.driver.execute_async_script(wrapped, cell)
        assert not problem, problem
