"""Models fetched from a hub: a server of this machine stands for it, and the internet is never asked."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodelab.errors import DecodeLabError
from decodelab.lang import speaking
from decodelab.models import hub
from decodelab.models.folders import EMBEDDED, folder_of

CONFIG = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))
FILES = {
    "config.json": json.dumps(CONFIG).encode(),
    "tokenizer.json": b"{}",
    "model-00001-of-00002.safetensors": bytes(range(256)) * 3000,
    "model-00002-of-00002.safetensors": b"second" * 20_000,
    "model.safetensors.index.json": b'{"weight_map": {}}',
}
BESIDE = {
    "README.md": b"card",
    "pytorch_model.bin": b"pickled",
    "onnx/model.onnx": b"",
    "original.safetensors": b"x",
}


class Site(ThreadingHTTPServer):
    """What a hub answers: its files, and how it misbehaves."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = FILES | BESIDE
        self.cut: list[int] = []  # after so many bytes, once each, an answer breaks off
        self.ranges = True  # whether it sends parts of files
        self.claims: dict[str, Any] = {}  # what the listing says otherwise of a file
        self.asked: list[tuple[str, str | None]] = []  # name of a file, and the range wanted

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def row(self, name: str) -> dict[str, Any]:
        data = self.files[name]
        return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} | self.claims.get(name, {})


class Answer(BaseHTTPRequestHandler):
    """Hugging Face's two kinds of address, and ModelScope's."""

    server: Site

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query)
        rows = {name: self.server.row(name) for name in self.server.files}
        if path == "/api/models/maker/small/tree/main":
            listing: Any = [{"type": "directory", "path": "onnx", "size": 0}]
            for name, row in rows.items():
                lfs = {"lfs": {"oid": row["sha256"]}} if name.endswith("safetensors") else {}
                listing.append({"type": "file", "path": name, "size": row["size"]} | lfs)
            self.send(json.dumps(listing).encode())
        elif path == "/api/v1/models/maker/small/repo/files" and query == {"Revision": ["master"]}:
            found = [
                {"Path": n, "Size": r["size"], "Sha256": r["sha256"], "Type": "blob"} for n, r in rows.items()
            ]
            self.send(json.dumps({"Code": 200, "Data": {"Files": found}}).encode())
        elif match := re.fullmatch("/maker/small/resolve/main/(.*)", path):
            self.send_file(match[1])
        elif path == "/api/v1/models/maker/small/repo" and query.get("Revision") == ["master"]:
            self.send_file(query["FilePath"][0])
        else:
            self.send_error(404)

    def send_file(self, name: str) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((name, wanted))
        data = self.server.files[name]
        start = int(wanted[6:-1]) if wanted and self.server.ranges else 0
        self.send(data[start:], 206 if wanted and self.server.ranges else 200)

    def send(self, data: bytes, status: int = 200) -> None:
        cut = self.server.cut.pop(0) if self.server.cut and len(data) > 10_000 else None
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(BrokenPipeError):
            self.wfile.write(data[:cut])

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    with Site() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "home"))
        for variable in ("HF_ENDPOINT", "MODELSCOPE_ENDPOINT"):
            monkeypatch.setenv(variable, server.address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield server
        server.shutdown()


def whole(folder: Path) -> bool:
    """Whether a folder holds what a model needs of the site, byte for byte, and nothing else."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} == FILES


def refusal(name: str) -> str:
    """What is said of a model that cannot be had: one sentence in each language, and no folder that looks whole."""
    with pytest.raises(DecodeLabError) as refused:
        folder_of(name)
    assert all("\n" not in text and text.endswith((".", "。")) for text in refused.value.text.values())
    assert re.findall(r"https?://\S+?[\w/]+", refused.value.text["zh"]) == re.findall(
        r"https?://\S+?[\w/]+", str(refused.value)
    )
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("maker/small", "huggingface/maker/small"),
        ("hf:maker/small", "huggingface/maker/small"),
        ("modelscope:maker/small", "modelscope/maker/small"),
    ],
)
def test_a_name_brings_what_a_model_needs_and_is_asked_once(
    site: Site, tmp_path: Path, name: str, where: str
) -> None:
    folder = folder_of(name)
    assert folder == tmp_path / "home" / "models" / where
    assert whole(folder)
    assert not folder.with_name("small.part").exists()
    assert sorted(file for file, _ in site.asked) == sorted(FILES)
    assert site.asked[0][0] == "config.json"
    site.asked.clear()
    assert folder_of(name) == folder
    assert not site.asked


@pytest.mark.parametrize(("lang", "word"), [("en", "Fetching"), ("zh", "正在")])
def test_it_says_what_comes_from_where_how_large_and_where_it_is_kept(
    site: Site, capfd: pytest.CaptureFixture[str], lang: str, word: str
) -> None:
    with speaking(lang):
        folder = folder_of("maker/small")
    out, err = capfd.readouterr()
    first, progress, rest = err.split("\n")
    assert not out
    assert not rest
    assert first.startswith(word)
    assert all(part in first for part in ("maker/small", site.address, "1 MB", str(folder)))
    shown = [int(percent) for percent in re.findall(r"\rmaker/small: [\d.]+ MB, (\d+) %", progress)]
    assert shown == sorted(shown)
    assert shown[-1] == 100
    assert len(shown) > 3


def test_a_cut_connection_is_taken_up_where_it_broke(site: Site) -> None:
    site.cut = [70_000, 30_000]
    assert whole(folder_of("maker/small"))
    assert [wanted for _, wanted in site.asked if wanted] == ["bytes=70000-", "bytes=100000-"]


def test_an_interrupted_call_is_taken_up_by_the_next_one(site: Site) -> None:
    site.cut = [70_000, 0]
    assert "cut" in refusal("maker/small")
    site.asked.clear()
    assert whole(folder_of("maker/small"))
    assert site.asked == [
        ("model-00002-of-00002.safetensors", "bytes=70000-"),
        ("model-00001-of-00002.safetensors", None),
    ]


def test_a_server_that_sends_whole_files_only_is_asked_again(site: Site) -> None:
    site.cut, site.ranges = [70_000], False
    assert whole(folder_of("maker/small"))


@pytest.mark.parametrize("claim", [{"size": 5}, {"sha256": "0" * 64}])
@pytest.mark.parametrize("prefix", ["hf:", "modelscope:"])
def test_what_is_not_what_was_listed_is_thrown_away(site: Site, claim: dict[str, Any], prefix: str) -> None:
    name = "model-00001-of-00002.safetensors"
    site.claims = {name: claim}
    assert name in refusal(f"{prefix}maker/small")
    site.claims = {}
    assert whole(folder_of(f"{prefix}maker/small"))


def test_a_file_that_ends_early_is_not_whole(site: Site) -> None:
    site.claims = {"model-00002-of-00002.safetensors": {"size": 10**6}}
    assert "could not be fetched" in refusal("maker/small")


def test_a_model_that_the_hub_lacks_is_named(site: Site) -> None:
    assert "no public model maker/other (HTTP 404)" in refusal("maker/other")


@pytest.mark.parametrize("lacking", ["config.json", "tokenizer.json", "safetensors"])
def test_a_repository_without_what_is_needed_is_refused_before_anything_comes(
    site: Site, lacking: str
) -> None:
    site.files = {name: data for name, data in site.files.items() if lacking not in name or name in BESIDE}
    assert f"comes without {lacking}" in refusal("maker/small")
    assert not site.asked


def test_a_model_that_the_course_cannot_run_is_refused_before_its_weights_come(site: Site) -> None:
    site.files["config.json"] = json.dumps(CONFIG | {"model_type": "mamba"}).encode()
    with pytest.raises(DecodeLabError, match="mamba"):
        folder_of("maker/small")
    assert [name for name, _ in site.asked] == ["config.json"]


@pytest.mark.parametrize(
    ("name", "variable", "other"),
    [("maker/small", "HF_ENDPOINT", "modelscope:maker/small"), ("modelscope:maker/small", "MODELSCOPE_ENDPOINT", "hf:maker/small")],
)  # fmt: skip
def test_offline_the_sentence_says_what_to_do(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, variable: str, other: str
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")  # the discard port, where nobody listens
    said = refusal(name)
    assert all(part in said for part in (variable, other, "embedded", str(tmp_path / "home" / "models")))


def test_a_page_in_place_of_the_listing_is_no_listing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer.send
    monkeypatch.setattr(Answer, "send", lambda self, data: answer(self, b"<html>please log in"))
    assert "could not be fetched" in refusal("maker/small")


def test_a_folder_of_that_name_goes_before_a_hub(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "maker" / "small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert folder_of("maker/small") == Path("maker/small")
    assert folder_of(tmp_path / "elsewhere") == tmp_path / "elsewhere"
    assert folder_of(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    assert folder_of("../b") == Path("../b")


def test_a_home_that_cannot_be_written_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DECODELAB_HOME", str(tmp_path / "file"))
    assert "DECODELAB_HOME" in refusal("maker/small")


@given(st.from_regex(hub.WANTED, fullmatch=True))
def test_nothing_that_is_wanted_lies_outside_the_folder(name: str) -> None:
    assert Path(name).name == name
