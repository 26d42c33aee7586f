"""The demo: its table, its files, and that it leaves everything else alone."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("nbgrader", reason="pip install nbgrader to run the demo")

from handed_in import notebook, write

from decodelab import demo
from decodelab.course import load
from decodelab.errors import DecodeLabError
from decodelab.events import read_jsonl
from decodelab.lang import speaking
from decodelab.models.tokenizer import lacking
from decodelab.notebook.build import build
from decodelab.workload import synthetic, write_azure_csv

ROOT = Path(__file__).parent.parent
CHAPTER = load("ch01")
ROWS, IN_FILE = 12, 30


@dataclass
class Demo:
    """One run: its folder, exit code and output; the learners' files before and after."""

    out: Path
    code: int
    printed: str
    before: dict[Path, bytes]
    after: dict[Path, bytes]


def files(*folders: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    base = tmp_path_factory.mktemp("demo")
    home = base / "home"
    home.mkdir()
    (home / "kept.txt").write_text("mine")
    write_azure_csv(base / "trace.csv", synthetic("azure-chat-like", IN_FILE))
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DECODELAB_HOME", str(home))
        patch.setattr("builtins.print", lambda text="", **_: lines.append(str(text)))
        before = files(home, ROOT / "work")
        code = demo.run(base / "out", base / "trace.csv", ROWS, "zh")
    return Demo(base / "out", code, "\n".join(lines), before, files(home, ROOT / "work"))


def test_the_table_reads_as_it_must(ran: Demo) -> None:
    assert ran.code == 0
    core = [t for t in CHAPTER.todos if t.level == "core"]
    left = sum(t.points for t in core if t.id != "ch01.2") / sum(t.points for t in core)
    rows = {line.split()[0]: line for line in ran.printed.splitlines() if re.search(r"\d %", line)}
    percents = {student: re.findall(r"(\d+) %", row) for student, row in rows.items()}
    assert percents == {
        "solved-zh": ["100", "100"],
        "solved-en": ["100", "100"],
        "one-mistake": [f"{100 * left:.0f}", "100"],
        "untouched": ["0", "0"],
    }
    assert re.search(r"one-mistake  ch01\.2  priority-first\n    .*priority", ran.printed)
    assert "ch01.1、ch01.2、ch01.3、ch01.4、ch01.5  not_started" in ran.printed


def test_a_line_for_each_stage_in_order(ran: Demo) -> None:
    assert re.findall(r"^\[(\d)/7\]", ran.printed, re.M) == list("1234567")


def test_every_path_it_names_is_there(ran: Demo) -> None:
    named = {Path(p) for p in re.findall(rf"{re.escape(str(ran.out))}\S*\.(?:html|png|jsonl)", ran.printed)}
    assert len(named) == 6  # four feedback pages, the picture, the events
    assert [p for p in named if not p.is_file()] == []


def test_the_trace_runs_to_its_end(ran: Demo) -> None:
    assert f"使用 {ROWS} 行，共读取 {IN_FILE} 行" in ran.printed
    events = read_jsonl(ran.out / "events.jsonl")
    requests = synthetic("azure-chat-like", IN_FILE).requests[:ROWS]
    assert len(events) == sum(1 + r.max_new_tokens for r in requests)
    assert {e["request_id"] for e in events if e["action"] == "finish"} == set(range(ROWS))
    assert (ran.out / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_the_scheduler_that_drives_the_model_is_a_graded_one(ran: Demo) -> None:
    todos = len(load("ch07").todos)
    assert f"ch07：{todos} 个 TODO 通过了 {todos} 个" in ran.printed
    assert (ran.out / f"{load('ch07').name}.ipynb").is_file()


def test_without_torch_it_says_what_to_install_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def missing(name: str) -> None:
        raise DecodeLabError(lacking(name))

    monkeypatch.setattr("decodelab.generate.library", missing)
    monkeypatch.setattr(demo, "grade_file", lambda *_: SimpleNamespace(todos=[]))
    assert demo.drive(ROOT, tmp_path)
    assert "decodelab[torch]" in capsys.readouterr().out


@pytest.mark.torch
def test_engine_and_simulator_show_the_same_strip(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path))
    path = write(tmp_path / "mine.ipynb", notebook("ch07", "en"))
    with speaking("en"):
        assert demo.stream(path)
    printed = capsys.readouterr().out
    engine, simulator = re.findall(r"^(?:engine|simulator)\n((?:.+\n)+)", printed, re.M)
    strips = [text.split("\nA row")[0].strip() for text in (engine, simulator)]
    assert strips[0] == strips[1]
    assert re.search(r"^1  PD+F$", strips[0], re.M)
    assert re.search(r"^2  p+PD+F$", strips[0], re.M)
    assert re.search(r"^1  春风.*，", printed, re.M)
    assert "the same in both" in printed
    monkeypatch.setattr(demo, "simulated", lambda steps, scheduler: demo.events_of(steps[:-1]))
    with speaking("en"):
        assert not demo.stream(path)
    assert "NOT AS EXPECTED" in capsys.readouterr().out


def test_learners_files_are_untouched(ran: Demo) -> None:
    assert ran.before == ran.after


def test_anything_but_the_expected_is_a_failure() -> None:
    grades = [demo.Grade(t.id, t.points, t.points) for t in CHAPTER.todos]
    zero = [demo.Grade(t.id, 0, t.points, "not_started") for t in CHAPTER.todos]
    wrong = [*grades[:1], demo.Grade("ch01.2", 0, 3, "priority-first"), *grades[2:]]
    good = {"solved-zh": grades, "solved-en": grades, "one-mistake": wrong, "untouched": zero}
    assert demo.as_expected(good, CHAPTER)
    assert not demo.as_expected(good | {"one-mistake": grades}, CHAPTER)
    assert not demo.as_expected(good | {"untouched": wrong}, CHAPTER)
    other = [*grades[:1], demo.Grade("ch01.2", 0, 3, "cache-first"), *grades[2:]]
    assert not demo.as_expected(good | {"one-mistake": other}, CHAPTER)


def test_only_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    demo.empty(out)
    (out / "old").touch()
    demo.empty(out)
    assert not (out / "old").exists()
    (tmp_path / "mine.txt").touch()
    with pytest.raises(DecodeLabError, match="--out"):
        demo.empty(tmp_path)
    assert (tmp_path / "mine.txt").exists()
    with pytest.raises(DecodeLabError, match="--out"):
        demo.empty(tmp_path / "mine.txt")


def test_notebooks_are_compared_and_never_written_over(tmp_path: Path) -> None:
    for folder in ("solutions", "src/decodelab/check"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "tests/data/ch07_mini.py", tmp_path / "solutions")
    (tmp_path / "src/decodelab/check/ch07.py").touch()
    build(tmp_path)
    demo.compare(tmp_path)
    mine = tmp_path / "notebooks/en/ch07_mini.ipynb"
    mine.write_text("mine")
    with pytest.raises(DecodeLabError, match=r"notebooks/en/ch07_mini\.ipynb"):
        demo.compare(tmp_path)
    assert mine.read_text() == "mine"


def test_its_last_command_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "a b"
    demo.farewell(out, CHAPTER, [out / "a.png", out / "b.jsonl"])
    (command,) = (line for line in capsys.readouterr().out.splitlines() if "&&" in line)
    assert shlex.split(command)[:2] == ["cd", str(out)]


def test_rows_below_one_are_refused() -> None:
    with pytest.raises(DecodeLabError, match="--rows"):
        demo.read(None, 0)
