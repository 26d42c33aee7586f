"""Workloads: real traces are read as they are, what is malformed is named, what is drawn is like its profile."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decodelab.errors import DecodeLabError
from decodelab.request import Request
from decodelab.workload import (
    PROFILES,
    Trace,
    read_azure_csv,
    read_mooncake_jsonl,
    read_trace,
    synthetic,
    write_azure_csv,
)

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
MOONCAKE = """{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 6001, "input_length": 512, "output_length": 1, "hash_ids": [0]}
"""
AZURE_ROWS = 19_366

unhurried = settings(deadline=None)  # a busy machine is no failure


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the Azure form and of the conversation trace's size."""
    path = tmp_path_factory.mktemp("trace") / "generated.csv"
    write_azure_csv(path, synthetic("azure-chat-like", AZURE_ROWS, seed=1))
    return path


def real(name: str) -> Path:
    folder = os.environ.get("DECODELAB_TRACES")
    if not folder:
        pytest.skip("DECODELAB_TRACES names no folder with the real traces")
    return Path(folder, name)


def refused(read: Callable[[], Any]) -> dict[str, str]:
    with pytest.raises(DecodeLabError) as caught:
        read()
    return caught.value.text


# Reading


def test_azure_rows_become_requests() -> None:
    trace = read_azure_csv(io.StringIO(AZURE))
    assert trace.requests == [
        Request(0, 0.0, 374, 44),
        Request(1, 4.314579, 396, 109),
        Request(2, 4.541877, 879, 55),
    ]
    assert (trace.rows_read, trace.skipped, trace.reasons) == (3, 0, ())


def test_mooncake_rows_become_requests() -> None:
    trace = read_mooncake_jsonl(io.StringIO(MOONCAKE))
    assert trace.requests == [
        Request(0, 0.0, 600, 5, prefix_hashes=(0, 1)),
        Request(1, 3.001, 512, 1, prefix_hashes=(0,)),
    ]


@pytest.mark.parametrize(
    ("text", "exact"), [(AZURE, read_azure_csv), (MOONCAKE, read_mooncake_jsonl)], ids=["azure", "mooncake"]
)
@pytest.mark.parametrize(
    "dress",
    [
        str.encode,
        lambda text: text.rstrip("\n").encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: b"\n \n" + text.replace("\n", "\n\n").encode(),
        lambda text: gzip.compress(text.encode()),
    ],
    ids=["plain", "no-last-newline", "crlf", "bom", "blank-lines", "gzip"],
)
def test_the_form_is_recognised_in_any_dress(
    tmp_path: Path, text: str, exact: Callable[..., Trace], dress: Callable[[str], bytes]
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(dress(text))
    wanted = exact(io.StringIO(text)).requests
    assert read_trace(path).requests == wanted
    assert exact(path.as_uri()).requests == wanted


def test_a_byte_order_mark_in_an_open_file_is_passed_over() -> None:
    assert len(read_azure_csv(io.StringIO("\ufeff" + AZURE))) == 3


def test_columns_are_found_by_name() -> None:
    text = 'Model,GeneratedTokens,"TIMESTAMP",ContextTokens\nm,7,"2024-05-10 00:00:00.009930+00:00",9\n'
    assert read_trace(io.StringIO(text)).requests == [Request(0, 0.0, 9, 7)]


def test_no_more_than_the_rows_wanted_are_read() -> None:
    file = io.StringIO(AZURE + "spoilt\n")
    trace = read_azure_csv(file, rows=2)
    assert [request.prompt_len for request in trace] == [374, 396]
    assert trace.rows_read == 2
    assert file.readline().startswith("2023-11-16 18:15:51")


def test_the_generated_file_is_read_back_whole(generated: Path) -> None:
    drawn = synthetic("azure-chat-like", AZURE_ROWS, seed=1)
    assert len(generated.read_text().splitlines()) == AZURE_ROWS + 1
    assert read_azure_csv(generated).requests == drawn.requests


def test_a_malformed_row_of_the_generated_file_is_refused_by_its_line(generated: Path) -> None:
    lines = generated.read_text().splitlines()
    lines[12_344] = lines[12_344].rsplit(",", 1)[0]
    text = refused(lambda: read_trace(io.StringIO("\n".join(lines))))
    assert "line 12345: it has 2 columns, the header 3" in text["en"]
    assert "第 12345 行：这一行有 2 列，而表头有 3 列" in text["zh"]


@pytest.mark.parametrize(
    ("name", "rows", "last", "prompt", "output"),
    [
        ("azure_llm_2023_conv.csv", AZURE_ROWS, 3501.721937, (1020, 14_050), (129, 1000)),
        ("azure_llm_2023_code.csv", 8_819, 3435.948056, (1469, 7437), (13, 1899)),
        ("mooncake_conversation.jsonl", 12_031, 3536.999, (6909, 126_195), (350, 2000)),
    ],
)
def test_the_published_traces(
    name: str, rows: int, last: float, prompt: tuple[int, int], output: tuple[int, int]
) -> None:
    trace = read_trace(real(name))
    prompts = np.array([request.prompt_len for request in trace])
    outputs = np.array([request.max_new_tokens for request in trace])
    assert (len(trace), trace.rows_read, trace.skipped) == (rows, rows, 0)
    assert trace.requests[-1].arrival_time == last
    assert (np.median(prompts), prompts.max()) == prompt
    assert (np.median(outputs), outputs.max()) == output


# Malformed input


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2023-11-16 18:15:52.0,374", "it has 2 columns, the header 3"),
        ("2023-11-16 18:15:52.0,1,2,3", "it has 4 columns, the header 3"),
        ("2023-11-16 18:15:52.0,,44", "ContextTokens is '', not a whole number"),
        ("2023-11-16 18:15:52.0,3.5,44", "ContextTokens is '3.5'"),
        ("2023-11-16 18:15:52.0,-3,44", "ContextTokens is '-3'"),
        ("2023-11-16 18:15:52.0,1_0,44", "ContextTokens is '1_0'"),
        ("2023-11-16 18:15:52.0,٣,44", "ContextTokens is '\\u0663'"),
        ("2023-11-16 18:15:52.0,374,0", "GeneratedTokens is 0, not a whole number from 1"),
        ("2023-11-16 18:15:52.0,374," + "9" * 5000, "GeneratedTokens is '999"),
        ("2023-11-16 18:15:52.0,3\x004,44", ""),
        ("2023-02-30 18:15:52.0,374,44", "TIMESTAMP is '2023-02-30 18:15:52.0', not a time"),
        ("16/11/2023 18:15,374,44", "TIMESTAMP is '16/11/2023 18:15', not a time"),
        ("2023-11-16 18:15:46.6805899,374,44", "the time is before that of the row above"),
        ('"2023-11-16 18:15:52.0,374,44', "it is not a line of CSV"),
    ],
)
def test_a_malformed_azure_row_is_named_or_skipped(row: str, reason: str) -> None:
    lines = [*AZURE.splitlines()[:2], row, *AZURE.splitlines()[2:]]
    spoilt = "\n".join(lines)
    assert f"<text>, line 3: {reason}" in refused(lambda: read_azure_csv(io.StringIO(spoilt)))["en"]
    trace = read_azure_csv(io.StringIO(spoilt), on_bad="skip")
    assert trace.requests == read_azure_csv(io.StringIO(AZURE)).requests
    assert (trace.rows_read, trace.skipped) == (4, 1)
    assert f"line 3: {reason}" in trace.reasons[0]["en"]
    assert "第 3 行" in trace.reasons[0]["zh"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "it is not a JSON object with timestamp"),
        ("[" * 100_000, "it is not a JSON object"),
        ('{"timestamp": 1, "input_length": 2, "output_length": 3}', "it is not a JSON object with timestamp"),
        ('{"timestamp": NaN, "input_length": 2, "output_length": 3, "hash_ids": []}', "timestamp is nan"),
        ('{"timestamp": 1e999, "input_length": 2, "output_length": 3, "hash_ids": []}', "timestamp is inf"),
        ('{"timestamp": true, "input_length": 2, "output_length": 3, "hash_ids": []}', "timestamp is True"),
        (
            '{"timestamp": 4000, "input_length": "2", "output_length": 3, "hash_ids": []}',
            "input_length is '2'",
        ),
        ('{"timestamp": 4000, "input_length": 2, "output_length": 0, "hash_ids": []}', "output_length is 0"),
        ('{"timestamp": 4000, "input_length": 2, "output_length": 3, "hash_ids": [1.5]}', "hash_ids is not"),
        ('{"timestamp": 2999, "input_length": 2, "output_length": 3, "hash_ids": []}', "the time is before"),
    ],
)
def test_a_malformed_mooncake_row_is_named_or_skipped(row: str, reason: str) -> None:
    first, second = MOONCAKE.splitlines()
    spoilt = "\n".join([first, row, second])
    assert f"<text>, line 2: {reason}" in refused(lambda: read_mooncake_jsonl(io.StringIO(spoilt)))["en"]
    trace = read_mooncake_jsonl(io.StringIO(spoilt), on_bad="skip")
    assert trace.requests == read_mooncake_jsonl(io.StringIO(MOONCAKE)).requests
    assert (trace.rows_read, trace.skipped) == (3, 1)


def test_a_byte_that_is_not_utf8_spoils_its_own_row_only(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(AZURE.encode().replace(b"396", b"3\xff6"))
    assert "line 3: ContextTokens" in refused(lambda: read_trace(path))["en"]
    assert [request.prompt_len for request in read_trace(path, on_bad="skip")] == [374, 879]


def test_every_skipped_row_is_counted_and_the_first_few_are_explained() -> None:
    trace = read_azure_csv(io.StringIO(AZURE + "spoilt\n" * 50), on_bad="skip")
    assert trace.skipped == 50
    assert [reason["en"].split(":")[0] for reason in trace.reasons] == [
        f"<text>, line {number}" for number in range(5, 10)
    ]


@pytest.mark.parametrize("header", ["", "a,b,c", "TIMESTAMP,ContextTokens", '"TIMESTAMP', "<!DOCTYPE html>"])
def test_another_header_is_refused_with_the_one_wanted(header: str) -> None:
    text = refused(lambda: read_trace(io.StringIO(f"{header}\n1,2,3\n"), on_bad="skip"))
    assert "give a file whose header is TIMESTAMP,ContextTokens,GeneratedTokens" in text["en"]
    assert "表头为 TIMESTAMP,ContextTokens,GeneratedTokens" in text["zh"]


@pytest.mark.parametrize("text", [AZURE.splitlines()[0], AZURE.splitlines()[0] + "\nspoilt"])
def test_a_trace_without_a_usable_row_is_refused(text: str) -> None:
    assert (
        "No request could be read" in refused(lambda: read_azure_csv(io.StringIO(text), on_bad="skip"))["en"]
    )


@pytest.mark.parametrize("source", ["nowhere.csv", ".", "a\0b", "http://[", "file:///nowhere.csv"])
def test_a_source_that_cannot_be_read_says_so(source: str) -> None:
    text = refused(lambda: read_trace(source))
    assert source in text["en"]
    assert "check the path or the link" in text["en"]


def test_a_line_without_end_is_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decodelab.workload.traces.LONGEST", 200)
    text = AZURE.splitlines()[0] + "\n" + "1" * 198 + "\n"
    assert "No request" in refused(lambda: read_trace(io.StringIO(text), on_bad="skip"))["en"]
    assert "a line has" in refused(lambda: read_trace(io.StringIO(text.replace("11", "111", 1))))["en"]


def test_a_truncated_gzip_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(AZURE.encode())[:-12])
    assert "Cannot read the trace" in refused(lambda: read_trace(path))["en"]


@pytest.mark.parametrize("options", [{"rows": 0}, {"rows": True}, {"on_bad": "ignore"}])
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    refused(lambda: read_trace(io.StringIO(AZURE), **options))


@unhurried
@given(
    text=st.sampled_from([AZURE, MOONCAKE]),
    edits=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), st.binary(max_size=3)), max_size=4),
    on_bad=st.sampled_from(["refuse", "skip"]),
)
def test_no_spoilt_file_crashes_a_reader(text: str, edits: list[tuple[int, int, bytes]], on_bad: str) -> None:
    content = text.encode()
    for at, cut, put in edits:
        content = content[:at] + put + content[at + cut :]
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        path.write_bytes(content)
        try:
            trace = read_trace(path, on_bad=on_bad)
        except DecodeLabError:
            return
    times = [request.arrival_time for request in trace]
    assert times == sorted(times)
    assert times[0] == 0
    assert all(request.prompt_len > 0 and request.max_new_tokens > 0 for request in trace)
    assert trace.rows_read == len(trace) + trace.skipped


# Synthetic workloads

profiles = pytest.mark.parametrize("profile", PROFILES)


@profiles
def test_a_draw_has_the_published_quantiles(profile: str) -> None:
    shape = PROFILES[profile]
    trace = synthetic(profile, 20_000)
    for wanted, lengths in [
        (shape.prompt, [request.prompt_len for request in trace]),
        (shape.output, [request.max_new_tokens for request in trace]),
    ]:
        assert np.quantile(lengths, [0.25, 0.5, 0.75, 0.9]) == pytest.approx(
            [wanted[4], wanted[5], wanted[8], wanted[10]], rel=0.08
        )


@profiles
def test_a_draw_has_the_published_rate_and_spread(profile: str) -> None:
    shape = PROFILES[profile]
    gaps = np.diff([request.arrival_time for request in synthetic(profile, 200_000)])
    assert gaps.mean() == pytest.approx(1 / shape.rate, rel=0.08)
    assert gaps.std() / gaps.mean() == pytest.approx(shape.gap_cv, rel=0.08)


@profiles
@unhurried
@given(n=st.integers(1, 300), seed=st.integers(0, 2**64))
def test_a_draw_stays_in_bounds_and_repeats(profile: str, n: int, seed: int) -> None:
    shape = PROFILES[profile]
    trace = synthetic(profile, n, seed)
    assert trace == synthetic(profile, n, seed)
    assert [request.request_id for request in trace] == list(range(n))
    assert all(shape.prompt[0] <= request.prompt_len <= shape.prompt[-1] for request in trace)
    assert all(shape.output[0] <= request.max_new_tokens <= shape.output[-1] for request in trace)
    times = [request.arrival_time for request in trace]
    assert times == sorted(times)
    assert times[0] == 0


@profiles
def test_a_draw_is_named_synthetic(profile: str) -> None:
    assert synthetic(profile, 1, seed=7).name == f"synthetic {profile} (seed 7)"


def test_seeds_differ() -> None:
    assert (
        synthetic("azure-chat-like", 5, seed=1).requests != synthetic("azure-chat-like", 5, seed=2).requests
    )


def test_a_profile_there_is_not_is_refused_with_those_there_are() -> None:
    assert all(name in refused(lambda: synthetic("chat", 1))["en"] for name in PROFILES)
    assert "n is 0" in refused(lambda: synthetic("azure-chat-like", 0))["en"]


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("azure_llm_2023_conv.csv", "azure-chat-like"),
        ("azure_llm_2023_code.csv", "azure-code-like"),
        ("mooncake_conversation.jsonl", "mooncake-conversation-like"),
    ],
)
def test_a_profile_holds_the_quantiles_of_its_trace(name: str, profile: str) -> None:
    from decodelab.workload.synthetic import LEVELS

    trace, shape = read_trace(real(name)), PROFILES[profile]
    for wanted, lengths in [
        (shape.prompt, [request.prompt_len for request in trace]),
        (shape.output, [request.max_new_tokens for request in trace]),
    ]:
        assert tuple(np.quantile(lengths, LEVELS, method="inverted_cdf")) == wanted
    assert (len(trace) - 1) / trace.requests[-1].arrival_time == pytest.approx(shape.rate, abs=0.001)


@unhurried
@given(
    st.lists(
        st.tuples(st.integers(0, 10**12), st.integers(1, 10**9 - 1), st.integers(1, 10**9 - 1)), min_size=1
    )
)
def test_the_azure_form_gives_back_what_was_written(rows: list[tuple[int, int, int]]) -> None:
    ticks = [0, *np.cumsum([gap for gap, _, _ in rows[1:]])]
    requests = [
        Request(i, int(tick) / 10**7, prompt, output)
        for i, (tick, (_, prompt, output)) in enumerate(zip(ticks, rows, strict=True))
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.csv")
        write_azure_csv(path, requests)
        assert read_azure_csv(path).requests == requests
