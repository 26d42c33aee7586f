"""Recorded traces: the CSV form of the Azure LLM inference traces and the JSONL form of Mooncake's.

Azure (conversation and code, 2023): github.com/Azure/AzurePublicDataset, CC-BY 4.0; P. Patel et al.,
"Splitwise: Efficient Generative LLM Inference Using Phase Splitting", ISCA 2024.
Mooncake (FAST'25 release): github.com/kvcache-ai/Mooncake, Apache-2.0; R. Qin et al., "Mooncake: Trading
More Storage for Less Computation", FAST 2025.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeAlias, cast
from urllib.request import urlopen

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both
from decodelab.request import Request

Source: TypeAlias = "str | Path | TextIO"

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
REASONS_KEPT = 5
LONGEST = 1_000_000  # characters of a line; what has longer ones is no trace, and may never end


@dataclass(frozen=True)
class Trace:
    """A workload, in order of arrival: ``requests[i].request_id == i``, the first one arrives at 0."""

    name: str  # the file, or the profile that it was drawn from
    requests: list[Request]
    rows_read: int  # rows looked at: those taken and those skipped
    skipped: int = 0
    reasons: tuple[Text, ...] = ()  # for the first few of the skipped rows

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)


def read_azure_csv(source: Source, rows: int | None = None, on_bad: str = "refuse") -> Trace:
    """Read a trace with the columns TIMESTAMP, ContextTokens and GeneratedTokens (others are ignored).

    source: a path, an http(s) or file URL, or an open text file; a path or URL may lead to a gzip file.
    rows: take at most this many requests and read no further; None for all.
    on_bad: what to do with a malformed row: "refuse" it, or "skip" and count it. A row is one line. It is
        malformed where a column is missing, a length is not a whole number from 1 to 999,999,999, the
        time cannot be read, or the time is before that of the row above.

    Arrival times are seconds since the first row taken; prompt_len is ContextTokens and max_new_tokens is
    GeneratedTokens. DecodeLabError names file and line of a row refused, a header that is not this form's,
    a source that cannot be read, or one without a single usable row.
    """
    return _read(source, rows, on_bad, _azure)


def read_mooncake_jsonl(source: Source, rows: int | None = None, on_bad: str = "refuse") -> Trace:
    """Read a trace with timestamp (ms), input_length, output_length and hash_ids in one object a line.

    ``hash_ids``, one for each 512-token block of the prompt, become ``prefix_hashes``. Everything else
    is as in read_azure_csv. The published timestamps are rounded to 3 s, so requests arrive in groups.
    """
    return _read(source, rows, on_bad, _mooncake)


def read_trace(source: Source, rows: int | None = None, on_bad: str = "refuse") -> Trace:
    """Read a trace in either form: JSONL where the first line opens an object, else CSV."""
    return _read(source, rows, on_bad, _either)


def write_azure_csv(path: str | Path, requests: Iterable[Request]) -> None:
    """Write requests (or a Trace) in the Azure form, times counted from 2000-01-01 00:00:00.

    Reading it back gives the same lengths, and arrival times rounded to the form's 100 ns.
    """
    start = datetime(2000, 1, 1)
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(AZURE_COLUMNS)
        for request in requests:
            seconds, ticks = divmod(round(request.arrival_time * 10**7), 10**7)
            when = f"{start + timedelta(seconds=seconds)}.{ticks:07d}"
            table.writerow((when, request.prompt_len, request.max_new_tokens))


class _Row(NamedTuple):
    nanoseconds: int
    prompt_len: int
    max_new_tokens: int
    prefix_hashes: tuple[int, ...] = ()


class _BadRow(Exception):
    def __init__(self, *, en: str, zh: str) -> None:
        self.reason = both(en=en, zh=zh)


_Lines: TypeAlias = "Iterator[tuple[int, str]]"  # line number from 1, line; never a blank one
_ParseRow: TypeAlias = "Callable[[str], _Row]"
_Form: TypeAlias = "Callable[[str, _Lines], tuple[_ParseRow, _Lines]]"  # takes what stands before the rows


def _read(source: Source, rows: int | None, on_bad: str, form: _Form) -> Trace:
    _check_options(rows, on_bad)
    taken: list[_Row] = []
    skipped = 0
    reasons: list[Text] = []
    with _opened(source) as (name, file):
        parse, lines = form(name, ((number, line) for number, line in enumerate(file, 1) if line.strip()))
        while rows is None or len(taken) < rows:
            number, line = next(lines, (0, ""))
            if not number:
                break
            try:
                taken.append(_in_order(parse(line), taken))
            except _BadRow as bad:
                if on_bad == "refuse":
                    raise _refusal(name, number, bad.reason) from None
                skipped += 1
                if len(reasons) < REASONS_KEPT:
                    reasons.append(_at(name, number, bad.reason))
    if not taken:
        raise _no_rows(name, reasons)
    start = taken[0].nanoseconds
    requests = [
        Request(
            i, (row.nanoseconds - start) / 10**9, row.prompt_len, row.max_new_tokens, 0, row.prefix_hashes
        )
        for i, row in enumerate(taken)
    ]
    return Trace(name, requests, len(taken) + skipped, skipped, tuple(reasons))


def _in_order(row: _Row, taken: list[_Row]) -> _Row:
    if taken and row.nanoseconds < taken[-1].nanoseconds:
        raise _BadRow(en="the time is before that of the row above", zh="时间早于上一行")
    return row


def _azure(name: str, lines: _Lines) -> tuple[_ParseRow, _Lines]:
    number, header = next(lines, (1, ""))
    try:
        columns = [column.strip() for column in _split(header)]
        places = [columns.index(column) for column in AZURE_COLUMNS]
    except (_BadRow, ValueError):
        raise _wrong_header(name, number, header) from None

    def parse(line: str) -> _Row:
        fields = _split(line)
        if len(fields) != len(columns):
            raise _BadRow(
                en=f"it has {len(fields)} columns, the header {len(columns)}",
                zh=f"这一行有 {len(fields)} 列，而表头有 {len(columns)} 列",
            )
        when, context, generated = (fields[place].strip() for place in places)
        return _Row(
            _nanoseconds(when), _digits(context, "ContextTokens"), _digits(generated, "GeneratedTokens")
        )

    return parse, lines


def _split(line: str) -> list[str]:
    """The fields of one line; a quote left open ends with the line instead of swallowing the next ones."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], strict=True), [])
    except csv.Error:
        raise _BadRow(en="it is not a line of CSV", zh="它不是合法的 CSV") from None


_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?", re.ASCII
)  # 2023: seven digits after the point; the 2024 files: six, and +00:00
_EPOCH = datetime(1970, 1, 1)
_DIGITS = re.compile(r"[0-9]{1,9}")


def _nanoseconds(text: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    try:
        since = datetime.fromisoformat(match[1] if match else "") - _EPOCH
    except ValueError:
        raise _BadRow(
            en=f"TIMESTAMP is {_quoted(text)}, not a time like 2023-11-16 18:15:46.6805900",
            zh=f"TIMESTAMP 是 {_quoted(text)}，应为 2023-11-16 18:15:46.6805900 这样的时间",
        ) from None
    assert match is not None
    return (since.days * 86_400 + since.seconds) * 10**9 + int((match[2] or "").ljust(9, "0"))


def _digits(text: str, column: str) -> int:
    return _length(int(text) if _DIGITS.fullmatch(text) else text, column)


def _length(value: Any, column: str) -> int:
    if type(value) is int and 1 <= value < 10**9:
        return value
    raise _BadRow(
        en=f"{column} is {_quoted(value)}, not a whole number from 1 to 999,999,999",
        zh=f"{column} 是 {_quoted(value)}，应为 1 到 999,999,999 之间的整数",
    )


def _mooncake(name: str, lines: _Lines) -> tuple[_ParseRow, _Lines]:
    return _mooncake_row, lines


def _mooncake_row(line: str) -> _Row:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not all(field in record for field in MOONCAKE_FIELDS):
        fields = ", ".join(MOONCAKE_FIELDS)
        raise _BadRow(en=f"it is not a JSON object with {fields}", zh=f"它不是含 {fields} 的 JSON 对象")
    when, prompt, output, hashes = (record[field] for field in MOONCAKE_FIELDS)
    if type(when) not in (int, float) or not 0 <= when < 10**15 or not math.isfinite(when):
        raise _BadRow(
            en=f"timestamp is {_quoted(when)}, not a number of milliseconds",
            zh=f"timestamp 是 {_quoted(when)}，应为毫秒数",
        )
    if not isinstance(hashes, list) or not all(type(h) is int and h >= 0 for h in hashes):
        raise _BadRow(en="hash_ids is not a list of whole numbers", zh="hash_ids 不是整数列表")
    return _Row(
        round(when * 10**6),
        _length(prompt, "input_length"),
        _length(output, "output_length"),
        tuple(hashes),
    )


def _either(name: str, lines: _Lines) -> tuple[_ParseRow, _Lines]:
    first = next(lines, (1, ""))
    form = _mooncake if first[1].lstrip("\ufeff \t").startswith("{") else _azure
    return form(name, chain([first], lines))


_URL = re.compile(r"(https?|file)://", re.IGNORECASE)


@contextmanager
def _opened(source: Source) -> Iterator[tuple[str, Iterator[str]]]:
    """The source's name, and its lines without a byte order mark; what cannot be read is a DecodeLabError."""
    name = str(source) if isinstance(source, (str, Path)) else str(getattr(source, "name", "<text>"))
    try:
        if isinstance(source, (str, Path)):
            with _decoded(source) as file:
                yield name, _lines(file)
        else:
            yield name, _without_mark(_lines(source))
    except (OSError, EOFError, zlib.error, HTTPException, ValueError) as error:
        raise DecodeLabError(
            both(
                en=f"Cannot read the trace {name} ({error}); check the path or the link.",
                zh=f"读不了 trace {name}（{error}）；请检查路径或链接。",
            )
        ) from error


@contextmanager
def _decoded(source: str | Path) -> Iterator[TextIO]:
    with _raw(source) as raw:
        packed = io.BufferedReader(raw)
        unpacked = gzip.GzipFile(fileobj=packed) if packed.peek(2)[:2] == b"\x1f\x8b" else packed
        # A byte that is not UTF-8 must spoil its own row only.
        with io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors="replace") as file:
            yield file


def _raw(source: str | Path) -> io.RawIOBase:
    if _URL.match(str(source)):
        return cast(io.RawIOBase, urlopen(str(source), timeout=30))
    return open(source, "rb", buffering=0)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise ValueError(f"a line has {LONGEST} characters or more")
        yield line


def _without_mark(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix("\ufeff")


def _check_options(rows: int | None, on_bad: str) -> None:
    if rows is not None and (type(rows) is not int or rows < 1):
        raise DecodeLabError(
            both(
                en=f"rows is {rows!r}; give a whole number from 1, or None for all rows.",
                zh=f"rows 是 {rows!r}；请给出不小于 1 的整数，或用 None 表示全部。",
            )
        )
    if on_bad not in ("refuse", "skip"):
        raise DecodeLabError(
            both(
                en=f"on_bad is {on_bad!r}; give 'refuse' or 'skip'.",
                zh=f"on_bad 是 {on_bad!r}；请用 'refuse' 或 'skip'。",
            )
        )


def _quoted(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _at(name: str, number: int, reason: Text) -> Text:
    return both(en=f"{name}, line {number}: {reason['en']}", zh=f"{name} 第 {number} 行：{reason['zh']}")


def _refusal(name: str, number: int, reason: Text) -> DecodeLabError:
    found = _at(name, number, reason)
    return DecodeLabError(
        both(
            en=f"{found['en']}; correct the row, or leave such rows out with on_bad='skip' "
            "(decodelab replay: --on-bad skip).",
            zh=f"{found['zh']}；请改正这一行，或用 on_bad='skip' 跳过这样的行（decodelab replay 用 --on-bad skip）。",
        )
    )


def _wrong_header(name: str, number: int, header: str) -> DecodeLabError:
    wanted = ",".join(AZURE_COLUMNS)
    return DecodeLabError(
        both(
            en=f"{name}, line {number} is {_quoted(header.strip())}; give a file whose header is {wanted}.",
            zh=f"{name} 第 {number} 行是 {_quoted(header.strip())}；请换一个表头为 {wanted} 的文件。",
        )
    )


def _no_rows(name: str, reasons: list[Text]) -> DecodeLabError:
    first = reasons[0] if reasons else both(en="it holds no rows", zh="里面没有数据行")
    return DecodeLabError(
        both(
            en=f"No request could be read from {name} ({first['en']}); give a file with at least one row.",
            zh=f"{name} 里读不到任何请求（{first['zh']}）；请换一个至少有一行数据的文件。",
        )
    )
