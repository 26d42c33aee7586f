"""The machine card: every row's states, and that it needs neither torch nor a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from importlib import metadata

import pytest

from decodelab import preflight
from decodelab.lang import speak


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path))
    speak("en")


@pytest.mark.parametrize(
    ("version", "needed", "state"),
    [("2.0.2", True, "ok"), ("1.23.5", True, "blocked"), (None, True, "blocked"), (None, False, "warning")],
)
def test_packages(monkeypatch, version, needed, state):
    monkeypatch.setattr(preflight, "installed", lambda name: version)
    row = preflight.package_row("numpy", (1, 24), needed)
    assert row.state == state
    assert (state == "ok") == (not row.advice)


def test_a_package_is_found_without_importing_it():
    code = (
        "import sys; from decodelab import preflight; preflight.survey(); print('matplotlib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_no_torch_and_no_gpu_are_fine(monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert preflight.torch_row().state == "ok"
    assert preflight.gpu_row([]).state == "ok"


def test_a_t4_has_no_bfloat16_and_an_h200_has():
    assert preflight.gpu_row([("Tesla T4", 7.5, "15360 MiB")]).state == "warning"
    assert preflight.gpu_row([("NVIDIA H200", 9.0, "143771 MiB")]).state == "ok"


@pytest.mark.parametrize("answer", ["", "No devices were found", "T4, seven, 1"])
def test_what_nvidia_smi_says_is_not_trusted(monkeypatch, answer):
    Answer = namedtuple("Answer", "stdout")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: Answer(answer))
    assert preflight.gpus() == []


@pytest.mark.parametrize(("free", "state"), [(50 << 30, "ok"), (1 << 29, "warning"), (1 << 20, "blocked")])
def test_disk(monkeypatch, tmp_path, free, state):
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: Usage(0, 0, free))
    assert preflight.disk_row(tmp_path / "not" / "there" / "yet").state == state


@pytest.mark.parametrize(("total", "state"), [(None, "ok"), (2 << 30, "warning"), (16 << 30, "ok")])
def test_memory(total, state):
    assert preflight.memory_row(total).state == state


def test_a_home_that_cannot_be_written_is_blocked(tmp_path):
    (tmp_path / "file").touch()
    row = preflight.home_row(tmp_path / "file" / "home")
    assert row.state == "blocked"
    assert "DECODELAB_HOME" in str(row.advice)


def test_no_child_processes_is_blocked():
    def refuse(*_, **__):
        raise OSError("not supported")

    assert preflight.child_row().state == "ok"
    assert preflight.child_row(refuse).state == "blocked"


def test_the_verdict_is_that_of_the_worst_row():
    def rows(*states):
        return [preflight.Row(state, {"en": "", "zh": ""}, "") for state in states]

    assert preflight.verdict(rows("ok", "ok"))["en"] == "Everything is ready."
    assert "start now" in preflight.verdict(rows("ok", "warning"))["en"]
    assert "Not ready" in preflight.verdict(rows("warning", "blocked"))["en"]


def test_every_row_that_is_not_ok_says_what_to_do_in_the_language_spoken(capsys, monkeypatch):
    monkeypatch.setattr(preflight, "installed", lambda name: None)
    speak("zh")
    preflight.card()
    said = capsys.readouterr().out
    assert "✗ 受阻  numpy" in said
    assert "pip install" in said
    rows = preflight.survey()
    assert all(row.advice for row in rows if row.state != "ok")
