"""The command line: exit codes, last lines, --json, and that it is one sentence when something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import browser
import pytest
from handed_in import ENDLESS, ROOT, course_folder, notebook, write

from decodelab import __version__ as version


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A course folder to stand in; what passes is kept beside it."""
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DECODELAB_LANG", "en")
    (tmp_path / "course").mkdir()
    return course_folder(tmp_path / "course")


def decodelab(here, *words):
    command = [sys.executable, "-m", "decodelab.cli", *map(str, words)]
    return subprocess.run(command, cwd=here, capture_output=True, encoding="utf-8", timeout=120, check=False)


def last_lines(run, count):
    return run.stdout.strip().splitlines()[-count:]


def test_check_of_a_solved_notebook(here):
    run = decodelab(here, "check", write(here / "mine.ipynb", notebook("ch00", "en")))
    assert (run.returncode, run.stderr) == (0, "")
    assert last_lines(run, 2) == ["ch00.1 passed", "ch00: 1/1 TODOs passed"]


def test_check_names_the_broken_rule_and_speaks_the_notebooks_language(here):
    forgotten = "return num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_value"
    content = notebook("ch00", "zh", {"ch00.1": forgotten})
    run = decodelab(here, "check", write(here / "mine.ipynb", content))
    assert run.returncode == 1
    assert last_lines(run, 2) == ["ch00.1 failed keys-and-values", "ch00: 0/1 TODOs passed"]
    assert "每个 token 既存 key" in run.stdout
    english = decodelab(here, "check", here / "mine.ipynb", "--lang", "en")
    assert "A token keeps a key and a value." in english.stdout
    assert "每个" not in english.stdout


def test_core_decides_and_the_extension_has_its_own_line(here):
    content = notebook("ch01", "en", {"ch01.5": 'raise TodoError("ch01.5")'})
    run = decodelab(here, "check", write(here / "mine.ipynb", content))
    assert run.returncode == 0
    *todos, extension, core = last_lines(run, 7)
    assert [line.split()[0] for line in todos] == [f"ch01.{n}" for n in range(1, 6)]
    assert todos[-1] == "ch01.5 not_started"
    assert (extension, core) == ("ch01 extension: 0/1 TODOs passed", "ch01: 4/4 TODOs passed")


def test_check_as_json_is_one_object_and_nothing_else(here):
    content = notebook("ch01", "zh", {"ch01.2": "return (req.request_id,)"})
    run = decodelab(here, "check", write(here / "mine.ipynb", content), "--json")
    data = json.loads(run.stdout)
    assert run.returncode == 1
    assert (data["chapter"], data["lang"], data["core"]) == ("ch01", "zh", {"passed": 3, "of": 4})
    states = {todo["todo"]: (todo["state"], todo["points"] > 0) for todo in data["todos"]}
    assert states["ch01.2"] == ("failed", False)
    assert states["ch01.1"] == ("passed", True)


@pytest.mark.parametrize("name", ["gone.ipynb", "notebooks", "pyproject.toml"])
def test_what_is_no_notebook_gets_one_sentence(here, name):
    run = decodelab(here, "check", name)
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.strip().splitlines()) == 1
    assert "Traceback" not in run.stderr


def test_a_notebook_of_something_else_is_no_chapter(here):
    alien = {"cells": [{"cell_type": "code", "source": "print(1)", "metadata": {}}], "metadata": {}}
    run = decodelab(here, "check", write(here / "alien.ipynb", alien), "--json", "--lang", "zh")
    assert run.returncode == 2
    assert "没有找到" in json.loads(run.stdout)["error"]


@pytest.mark.slow
def test_an_endless_answer_is_named(here):
    content = notebook("ch00", "en", {"ch00.1": ENDLESS})
    run = decodelab(here, "check", write(here / "mine.ipynb", content))
    assert run.returncode == 1
    assert last_lines(run, 2)[0] == "ch00.1 timed_out ends"
    assert "TODO ch00.1 does not end" in run.stdout


def test_ctrl_c_is_one_line_and_takes_effect_at_once(here):
    path = write(here / "mine.ipynb", notebook("ch00", "en", {"ch00.1": ENDLESS}))
    command = [sys.executable, "-m", "decodelab.cli", "check", path, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=here, stdout=pipe, stderr=pipe, encoding="utf-8") as run:
        while not any(p.read_text() for p in Path(f"/proc/{run.pid}/task").glob("*/children")):
            time.sleep(0.1)  # until the learner's code has a process
        run.send_signal(signal.SIGINT)
        began = time.monotonic()
        said, told = run.communicate(timeout=60)
    assert time.monotonic() - began < 4
    assert (run.returncode, told) == (130, "Stopped.\n")
    assert json.loads(said) == {"error": "Stopped."}


def test_a_verdict_that_cannot_be_kept_is_told_all_the_same(here, tmp_path):
    (tmp_path / "home").touch()
    decodelab(here, "lab", "--prepare")
    away = write(here / "away.ipynb", notebook("ch00", "en"))
    mine = write(here / "work" / "en" / "ch00_preflight.ipynb", notebook("ch00", "en"))
    for words in (["import", away], ["check", mine]):
        run = decodelab(here, *words)
        assert run.returncode == 2
        assert last_lines(run, 1) == ["ch00: 1/1 TODOs passed"]
        assert "DECODELAB_HOME" in run.stderr
        assert len(run.stderr.splitlines()) == 1
    data = json.loads(decodelab(here, "import", away, "--json").stdout)
    assert data["core"] == {"passed": 1, "of": 1}
    assert "DECODELAB_HOME" in data["error"]


@pytest.mark.parametrize("words", [["lab", "--prepare"], ["reset", "ch00"]])
def test_a_file_where_the_work_folder_should_be_is_named(here, words):
    (here / "work").write_text("mine", encoding="utf-8")
    run = decodelab(here, *words)
    assert run.returncode == 2
    assert f"{here / 'work' / 'en'} must be a folder" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_somebody_elses_project_is_no_course(tmp_path, monkeypatch):
    from decodelab.workfolder import course_folder as found

    thesis = tmp_path / "notebooks" / "mine" / "thesis.ipynb"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("{}", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'thesis'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert found() != tmp_path
    decodelab(tmp_path, "build", "--check")
    assert thesis.exists()


def test_hint_and_solution(here):
    second = decodelab(here, "hint", "ch00.1", "2").stdout
    assert "key" in second
    assert last_lines(decodelab(here, "hint", "ch00.1", "2"), 1) == ["Go further: `decodelab hint ch00.1 3`"]
    assert "`decodelab solution ch00.1`" in decodelab(here, "hint", "ch00.1", "3").stdout
    assert "**" not in second + decodelab(here, "solution", "ch00.1").stdout
    assert json.loads(decodelab(here, "hint", "ch00-1", "--json").stdout)["level"] == 1
    assert "return 2 *" in decodelab(here, "solution", "ch00.1").stdout
    for words, said in ((["hint", "ch00.1", "4"], "1 to 3"), (["solution", "ch99.1"], "no chapter")):
        run = decodelab(here, *words)
        assert run.returncode == 2
        assert said in run.stderr


def test_solutions_of_a_graded_class_are_closed(here, monkeypatch):
    monkeypatch.setenv("DECODELAB_CLOSED_SOLUTIONS", "ch05, ch00")
    run = decodelab(here, "solution", "ch00.1")
    assert run.returncode == 2
    assert "closed" in run.stderr
    assert decodelab(here, "solution", "ch01.1").returncode == 0


def test_lab_copies_once_and_never_overwrites(here):
    first = json.loads(decodelab(here, "lab", "--prepare", "--lang", "zh", "--json").stdout)
    mine = here / "work" / "zh" / "ch00_preflight.ipynb"
    assert mine.name in first["copied"]
    mine.write_text("mine", encoding="utf-8")
    second = json.loads(decodelab(here, "lab", "--prepare", "--lang", "zh", "--json").stdout)
    assert second["copied"] == []
    assert mine.name in second["kept"]
    assert mine.read_text(encoding="utf-8") == "mine"


def test_lab_outside_the_course_says_where_to_go(tmp_path, monkeypatch):
    monkeypatch.setattr("decodelab.workfolder.__file__", str(tmp_path / "a" / "b" / "c" / "workfolder.py"))
    monkeypatch.chdir(tmp_path)
    from decodelab import cli

    assert cli.main(["lab", "--prepare"]) == 2


def test_reset_keeps_a_backup(here):
    decodelab(here, "lab", "--prepare", "--lang", "zh")
    mine = here / "work" / "zh" / "ch00_preflight.ipynb"
    assert json.loads(decodelab(here, "reset", "ch00", "--json").stdout)["backup"] is None
    mine.write_text("mine", encoding="utf-8")
    told = json.loads(decodelab(here, "reset", "ch00", "--json").stdout)
    mine.write_text("mine again", encoding="utf-8")
    again = json.loads(decodelab(here, "reset", "ch00", "--json").stdout)
    assert told["backup"] != again["backup"]
    kept = [p.read_text(encoding="utf-8") for p in mine.parent.glob("ch00_preflight.backup-*.ipynb")]
    assert sorted(kept) == ["mine", "mine again"]
    assert mine.read_bytes() == (here / "notebooks" / "zh" / mine.name).read_bytes()


def test_import_keeps_what_passes_and_never_overwrites(here):
    away = write(here / "Copy of ch01 (1).ipynb", notebook("ch01", "zh", {"ch01.3": "return None"}))
    first = decodelab(here, "import", away)
    mine = here / "work" / "zh" / "ch01_decode_scheduler.ipynb"
    assert first.returncode == 1
    assert mine.read_bytes() == away.read_bytes()
    mine.write_text("mine", encoding="utf-8")
    second = decodelab(here, "import", away)
    assert mine.read_text(encoding="utf-8") == "mine"
    (beside,) = mine.parent.glob("ch01_decode_scheduler.imported-*.ipynb")
    assert beside.read_bytes() == away.read_bytes()
    assert str(mine) in second.stdout
    assert str(beside) in second.stdout
    todos = json.loads(decodelab(here, "progress", "--json").stdout)["todos"]
    states = {todo["todo"]: todo["state"] for todo in todos}
    assert (states["ch01.1"], states["ch01.3"]) == ("passed", "failed")


def test_import_takes_the_place_of_a_notebook_that_nobody_changed(here):
    decodelab(here, "lab", "--prepare", "--lang", "en")
    mine = here / "work" / "en" / "ch00_preflight.ipynb"
    opened = json.loads(mine.read_text(encoding="utf-8"))
    opened["metadata"]["widgets"] = {}  # as JupyterLab may write it back
    opened["cells"][3]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["Ready"]}]
    write(mine, opened)
    away = write(here / "ch00.ipynb", notebook("ch00", "en"))
    for _ in range(2):  # the second time it is there already
        assert decodelab(here, "import", away).returncode == 0
        assert mine.read_bytes() == away.read_bytes()
        assert [p.name for p in mine.parent.glob("ch00*")] == [mine.name]


def test_check_saves_only_what_lies_in_the_work_folder(here):
    elsewhere = write(here / "theirs.ipynb", notebook("ch00", "en"))
    decodelab(here, "check", elsewhere)
    assert json.loads(decodelab(here, "progress", "--json").stdout)["todos"][0]["state"] == "not_started"
    decodelab(here, "lab", "--prepare")
    decodelab(here, "check", write(here / "work" / "en" / "ch00_preflight.ipynb", notebook("ch00", "en")))
    progress = decodelab(here, "progress", "--lang", "zh").stdout
    assert "✓ 通过" in progress
    assert "2/2" in progress


def test_bench_passes_its_arguments_on_and_ends_in_json(here):
    (here / "benchmarks").mkdir()
    (here / "benchmarks" / "echo.py").write_text(
        "import json\ndef main(argv):\n    print('measuring')\n    print(json.dumps({'argv': argv}))\n",
        encoding="utf-8",
    )
    run = decodelab(here, "bench", "echo", "--rows", "3")
    assert json.loads(last_lines(run, 1)[0]) == {"argv": ["--rows", "3"]}
    assert json.loads(decodelab(here, "bench", "echo", "--json").stdout) == {"argv": []}
    unknown = decodelab(here, "bench", "nothing")
    assert unknown.returncode == 2
    assert "echo" in unknown.stderr


def test_a_fault_of_ours_keeps_its_traceback_and_is_no_judgement(here):
    (here / "benchmarks").mkdir()
    (here / "benchmarks" / "broken.py").write_text("def main(argv):\n    1 / 0\n", encoding="utf-8")
    run = decodelab(here, "bench", "broken", "--json")
    assert run.returncode == 2
    assert "Traceback" in run.stderr
    assert "ZeroDivisionError" in json.loads(run.stdout)["error"]


def test_a_new_chapter_builds_as_it_stands(here):
    from decodelab.notebook.build import build

    run = decodelab(here, "new-chapter", "ch42", "the_answer", "--json")
    assert run.returncode == 0
    assert len(json.loads(run.stdout)["files"]) == 3
    assert "notebooks/zh/ch42_the_answer.ipynb" in build(here, check=True).missing
    for check in (["format", "--check"], ["check"]):
        ruff = [sys.executable, "-m", "ruff", *check, *json.loads(run.stdout)["files"]]
        assert subprocess.run(ruff, cwd=here, capture_output=True, check=False).returncode == 0, check
    again = decodelab(here, "new-chapter", "ch42", "other_name")
    assert again.returncode == 2
    assert decodelab(here, "new-chapter", "42", "x").returncode == 2


def test_build_check_is_red_when_something_is_stale(here):
    decodelab(here, "new-chapter", "ch42", "the_answer")
    assert decodelab(here, "build", "--check").returncode == 1
    assert decodelab(here, "build").returncode == 0
    assert decodelab(here, "build", "--check").returncode == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "得分"),  # a locale that need not exist on this machine
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "points"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN:en"}, "得分"),
        ({"LANG": "zh_CN.UTF-8", "DECODELAB_LANG": "en"}, "points"),
        ({"LANG": "zh_CN.UTF-8", "DECODELAB_LANG": "fr"}, "得分"),
        ({}, "points"),
    ],
)
def test_the_language_is_the_environments(here, monkeypatch, settings, said):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "DECODELAB_LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    run = decodelab(here, "progress")
    assert said in run.stdout
    assert ("DECODELAB_LANG=fr" in run.stderr) == (settings.get("DECODELAB_LANG") == "fr")


def test_a_reader_who_has_seen_enough_is_no_fault(here):
    command = f"{sys.executable} -u -m decodelab.cli solution ch01.1 | head -n 1"
    run = subprocess.run(command, shell=True, cwd=here, capture_output=True, encoding="utf-8", check=False)
    assert "ch01.1" in run.stdout
    assert run.stderr == ""


def test_a_closed_output_is_no_fault(here):
    command = f"{sys.executable} -m decodelab.cli solution ch01.1 >&-"
    run = subprocess.run(command, shell=True, cwd=here, capture_output=True, encoding="utf-8", check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_full_disk_is_one_sentence(here):
    command = f"{sys.executable} -m decodelab.cli solution ch01.1 > /dev/full"
    run = subprocess.run(command, shell=True, cwd=here, capture_output=True, encoding="utf-8", check=False)
    assert run.returncode == 2
    assert "No space left" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_page_is_no_broken_notebook(here):
    (here / "README.md").write_text("# Decode Lab\n", encoding="utf-8")
    assert "is no notebook" in decodelab(here, "check", "README.md").stderr


def test_lab_opens_the_chapter_to_do_without_nbgraders_buttons(here, tmp_path):
    (tmp_path / "jupyter").mkdir()
    with browser.served([sys.executable, "-m", "decodelab.cli", "lab"], here, tmp_path / "jupyter") as url:
        page = urllib.request.urlopen(f"{url}/lab", timeout=60).read().decode()
        (opening,) = (tmp_path / "jupyter" / "runtime").glob("jpserver-file-to-run-*-open.html")
        assert "/lab/tree/ch00_preflight.ipynb" in opening.read_text(encoding="utf-8")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/formgrader", timeout=60)
    config = json.loads(
        page.partition('id="jupyter-config-data"')[2].partition(">")[2].partition("</script>")[0]
    )
    assert "@jupyter/nbgrader" in config["disabledExtensions"]
    assert "nbgrader" not in (tmp_path / "jupyter" / "server.log").read_text(encoding="utf-8")


def test_a_chapter_that_is_done_gives_way_to_the_next(here):
    from decodelab.workfolder import next_notebook

    decodelab(here, "lab", "--prepare")
    assert next_notebook(here / "work" / "en").name == "ch00_preflight.ipynb"
    decodelab(here, "import", write(here / "ch00.ipynb", notebook("ch00", "en")))
    assert next_notebook(here / "work" / "en").name == "ch01_decode_scheduler.ipynb"


@pytest.mark.skipif(getattr(os, "geteuid", os.getpid)() != 0, reason="only root is refused")
def test_lab_as_root_says_what_to_do(here):
    run = decodelab(here, "lab", "--no-browser")
    assert run.returncode == 2
    assert "make lab ARGS=--allow-root" in run.stderr.splitlines()[-1]


def test_without_a_command_it_helps_in_both_languages(here):
    run = decodelab(here)
    assert run.returncode == 0
    assert "check a notebook | 检查" in run.stdout


def test_it_says_its_version(here):
    assert decodelab(here, "--version").stdout.strip() == f"decodelab {version}"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["check", "x.ipynb", "--fast"], "--fast"),
        (["check"], "file"),
        (["prove", "ch01", "--seeds", "0"], "--seeds"),
        (["grade", "submitted", "--out", "out", "-j", "0"], "-j"),
        (["demo", "--out", "pyproject.toml"], "--out"),
    ],
)
def test_arguments_it_does_not_take(here, words, wrong):
    run = decodelab(here, *words, "--json", "--lang", "zh")
    assert run.returncode == 2
    assert wrong in run.stderr
    assert "Traceback" not in run.stderr
    assert wrong in json.loads(run.stdout)["error"]


def test_an_option_without_a_command(here):
    run = decodelab(here, "--fast")
    assert (run.returncode, run.stdout) == (2, "")
    assert "--fast" in run.stderr


def test_arguments_that_a_benchmark_does_not_take():
    run = decodelab(ROOT, "bench", "trace_reading", "--repeats", "0")
    assert run.returncode == 2
    assert "1 or more" in run.stderr
    assert "Traceback" not in run.stderr
