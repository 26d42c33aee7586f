"""``decodelab replay``: a trace served by the chapters' own scheduler, under any policy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from decodelab import cli, service
from decodelab.cli import main
from decodelab.log import read_log
from decodelab.workload import synthetic, write_azure_csv


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))
    path = tmp_path / "trace.csv"
    write_azure_csv(path, synthetic("azure-chat-like", 60, seed=2, rate=40.0))
    return path


@pytest.mark.parametrize("policy", service.POLICIES)
def test_every_policy_serves_all(trace: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(trace), "--policy", policy, "--max-num-seqs", "4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["requests"], report["completed"], report["refused"]) == (60, 60, 0)
    assert 0 < report["ttft_p50"] <= report["ttft_p95"] <= report["seconds"]


def test_policies_differ_where_there_is_a_queue(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    medians = {}
    for policy in ("fcfs", "sjf"):
        main(["replay", str(trace), "--policy", policy, "--max-num-seqs", "1", "--json"])
        medians[policy] = json.loads(capsys.readouterr().out)["ttft_p50"]
    assert medians["sjf"] < medians["fcfs"]


def test_what_is_over_the_budget_is_counted_as_refused(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["replay", str(trace), "--max-num-batched-tokens", "500", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["refused"] > 0
    assert report["refused"] + report["completed"] == 60


def test_the_log_holds_every_step(trace: Path, tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl.gz"
    main(["replay", str(trace), "--rows", "5", "--log", str(log)])
    records = read_log(log)
    assert sum(len(r["finished"]) for r in records) == 5


@pytest.mark.parametrize("odd", [["--policy", "lifo"], ["--gpu", "H9000"], ["--model", "GPT-9"]])
def test_a_name_there_is_not_gets_one_sentence(
    trace: Path, odd: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(trace), *odd]) == 2
    assert odd[1] in capsys.readouterr().err


@pytest.mark.parametrize("way", ["same", "link", "url"])
def test_a_log_never_overwrites_its_trace(
    trace: Path, tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, link = trace.read_bytes(), tmp_path / "link"
    link.symlink_to(trace)
    source, log = {"same": (trace, trace), "link": (trace, link), "url": (trace.as_uri(), trace)}[way]
    assert main(["replay", str(source), "--log", str(log), "--lang", "zh"]) == 2
    assert "会覆盖 trace" in capsys.readouterr().err
    assert trace.read_bytes() == before


@pytest.mark.parametrize(
    "odd",
    [
        ["--slo", "-1", "0.05"],
        ["--slo", "nan", "0.05"],
        ["--slo", "1", "0"],
        ["--slo", "1", "x"],
        ["--log", "nowhere/log"],
        ["--log", "."],
    ],
)
def test_an_argument_out_of_range_is_refused_before_anything_is_read(
    odd: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "there-is-no-such-trace", *odd]) == 2
    said = capsys.readouterr().err
    assert odd[0] in said
    assert "there-is-no-such-trace" not in said
    assert len(said.splitlines()) == 1


def test_no_limit_is_a_limit() -> None:
    args = cli.parsed(["replay", "trace", "--slo", "inf", "0.05"])
    assert args.slo == [float("inf"), 0.05]


def test_a_torn_row_is_named_or_skipped_and_counted(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with trace.open("a") as file:
        file.write("torn\n")
    assert main(["replay", str(trace)]) == 2
    assert "--on-bad skip" in capsys.readouterr().err
    assert main(["replay", str(trace), "--on-bad", "skip", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["skipped"] == 1
    assert "line 62" in err or "第 62 行" in err


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="/dev/zero is there on Unix alone")
def test_a_source_without_end_is_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "/dev/zero", "--rows", "1"]) == 2
    assert "/dev/zero" in capsys.readouterr().err
