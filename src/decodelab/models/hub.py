"""Model folders from Hugging Face and ModelScope: what a repository holds, fetched with what the course needs of it.

The addresses are those that the hubs' own clients ask, looked up on 2026-11-29: huggingface_hub 1.33.0, and
``modelscope/hub/file_download.py`` of github.com/modelscope/modelscope.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both, tr
from decodelab.models.config import read_config

WANTED = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|model\.safetensors\.index)\.json"
    r"|chat_template\.jinja|model(-\d+-of-\d+)?\.safetensors"
)
# what a network does; a full disk is not among it
BROKEN = (URLError, HTTPException, ConnectionError, TimeoutError, SSLError, json.JSONDecodeError)
TIMEOUT = 30  # seconds without a byte
BLOCK = 1 << 16  # bytes read at a time


class File(NamedTuple):
    """A file of a repository."""

    name: str
    size: int  # bytes
    sha256: str  # "" where the hub does not say


@dataclass(frozen=True)
class Hub:
    """Where models are published."""

    name: str
    variable: str  # of the environment: another address to ask, that of a mirror for instance
    address: str
    listing: str  # path of what a repository holds
    path: str  # path of one of its files

    def url(self, path: str) -> str:
        """The address of ``path`` here, or at the mirror that the environment names."""
        return (os.environ.get(self.variable) or self.address).rstrip("/") + path


HUGGING_FACE = Hub(
    "huggingface",
    "HF_ENDPOINT",
    "https://huggingface.co",
    "/api/models/{repo}/tree/main",
    "/{repo}/resolve/main/{file}",
)
MODELSCOPE = Hub(
    "modelscope",
    "MODELSCOPE_ENDPOINT",
    "https://www.modelscope.cn",
    "/api/v1/models/{repo}/repo/files?Revision=master",
    "/api/v1/models/{repo}/repo?Revision=master&FilePath={file}",
)
HUBS = {"hf": HUGGING_FACE, "modelscope": MODELSCOPE}


def fetch(hub: Hub, repo: str, part: Path, folder: Path) -> None:
    """Bring ``repo`` into ``part``, which becomes ``folder``: first its config, and more only if the course can run it.

    Raises ``DecodeLabError`` where the hub cannot be reached, has no such model or sends something else. What
    came until then stays, and the next call goes on with it.
    """
    try:
        files = needed(repo, listed(hub, repo))
        progress = Progress(repo, sum(file.size for file in files))
        say_what_comes(repo, hub.url(""), progress.total, folder)
        for file in files:
            bring(hub.url(hub.path.format(repo=repo, file=file.name)), part / file.name, file, progress)
            progress.before += file.size
            if file.name == "config.json":
                read_config(part)
        print(file=sys.stderr)
    except BROKEN as reason:
        if isinstance(reason, HTTPError) and reason.code in (401, 403, 404):
            raise DecodeLabError(absent(hub, repo, reason.code)) from reason
        raise DecodeLabError(unreachable(hub, repo, reason, folder)) from reason


def say_what_comes(name: str, source: str, size: int, folder: Path) -> None:
    """One line on stderr before a download: what, from where, how large, and where it will be kept."""
    amount = f"{size / 1e6:,.0f} MB"
    print(
        tr(
            en=f"Fetching {name} from {source}: {amount}, once, into {folder}",
            zh=f"正在从 {source} 下载 {name}：{amount}，只需一次，存到 {folder}",
        ),
        file=sys.stderr,
    )


def listed(hub: Hub, repo: str) -> list[File]:
    """What a repository holds at its top."""
    with ask(hub.url(hub.listing.format(repo=repo))) as reply:
        found: Any = json.load(reply)
    if hub is MODELSCOPE:
        return [
            File(f["Path"], f["Size"], f.get("Sha256", "")) for f in (found["Data"] or {}).get("Files", [])
        ]
    return [File(f["path"], f["size"], (f.get("lfs") or {}).get("oid", "")) for f in found]


def needed(repo: str, files: list[File]) -> list[File]:
    """The files that a model folder needs, its config first."""
    wanted = [file for file in files if WANTED.fullmatch(file.name)]
    ends = {file.name.split(".")[-1] for file in wanted} | {file.name for file in wanted}
    for name in ("config.json", "tokenizer.json", "safetensors"):
        if name not in ends:
            raise DecodeLabError(
                both(
                    en=f"{repo} comes without {name}, which this course needs; choose a model that has it, such as Qwen/Qwen3-0.6B.",
                    zh=f"{repo} 没有本课程需要的 {name}；请换一个有的模型，比如 Qwen/Qwen3-0.6B。",
                )
            )
    return sorted(wanted, key=lambda file: (file.name != "config.json", file.size))


class Progress:
    """How much has come, on one line of stderr that is written over."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.before = 0  # bytes of the files that are whole
        self.shown = -1  # percent

    def __call__(self, held: int) -> None:
        """Show, where it is a percent more, that ``held`` bytes of the present file are there."""
        done = self.before + held
        percent = 100 * done // max(1, self.total)
        if percent != self.shown:
            self.shown = percent
            print(f"\r{self.name}: {done / 1e6:,.1f} MB, {percent} %", end="", file=sys.stderr, flush=True)


def bring(url: str, path: Path, file: File, progress: Callable[[int], None]) -> None:
    """Have ``path`` hold the whole file, in as many tries as bring more of it."""
    have = held(path)
    progress(have)
    while have < file.size:
        before = have
        problem: Exception = ConnectionError(tr(en="the connection was cut", zh="连接中断"))
        try:
            more(url, path, have, progress)
        except HTTPError:
            raise
        except BROKEN as reason:
            problem = reason
        have = held(path)
        if have <= before:
            raise problem
    if have > file.size or file.sha256 not in ("", sha256(path)):
        path.unlink()
        raise DecodeLabError(
            both(
                en=f"{file.name} did not arrive as it was sent, and was thrown away: load the model again.",
                zh=f"{file.name} 传输有误，已删除：请重新加载这个模型。",
            )
        )


def more(url: str, path: Path, have: int, progress: Callable[[int], None]) -> None:
    """Add to ``path`` what follows its ``have`` bytes; all of it anew from a server that only sends whole files."""
    with ask(url, have) as reply, path.open("ab" if reply.status == 206 else "wb") as out:
        while block := reply.read(BLOCK):
            out.write(block)
            progress(out.tell())


def ask(url: str, start: int = 0) -> Any:
    """The answer to a request, from byte ``start`` on; under our own name, for some mirrors turn urllib's away."""
    headers = {"User-Agent": "decodelab"} | ({"Range": f"bytes={start}-"} if start else {})
    return urlopen(Request(url, headers=headers), timeout=TIMEOUT)


def held(path: Path) -> int:
    """Bytes of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def sha256(path: Path) -> str:
    """The sum of a file, in hexadecimal digits."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    return total.hexdigest()


def absent(hub: Hub, repo: str, code: int) -> Text:
    """What to say of a model that a hub does not have, or does not give to everybody."""
    return both(
        en=f"{hub.url('')} has no public model {repo} (HTTP {code}), and no folder of that name is here: check the name; a model that asks for an account, fetch yourself and load its folder.",
        zh=f"{hub.url('')} 没有公开的模型 {repo}（HTTP {code}），这里也没有这个名字的文件夹：请检查名字；需要账号的模型，请自行下载后加载它的文件夹。",
    )


def unreachable(hub: Hub, repo: str, reason: Exception, folder: Path) -> Text:
    """What to say where a model could not be fetched, or not to its end."""
    other = next(f"{prefix}:{repo}" for prefix, one in HUBS.items() if one is not hub)
    why = reason.reason if type(reason) is URLError else reason
    return both(
        en=f'{repo} could not be fetched from {hub.url("")} ({why}): load it again, which goes on where this stopped, or "{other}", or set {hub.variable} to a mirror, or copy the model\'s folder to {folder}, or use "embedded".',
        zh=f"没能从 {hub.url('')} 下载 {repo}（{why}）：可以重新加载（会从断开处接着下载），可以改用 “{other}”，可以把环境变量 {hub.variable} 设为镜像站，可以把模型文件夹复制到 {folder}，也可以先用 “embedded”。",
    )
