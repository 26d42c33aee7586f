"""What is in a download: every notebook in folders, in zips, and in the zips that students put into them.

A student's zip may hold anything. No name in one becomes a path, nothing is unpacked to disk, and what is
read of one has limits that do not trust its headers.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from decodelab.lang import Text, both

MB = 1 << 20
MAX_FILE = 64 * MB  # one notebook, or one zip inside another
MAX_DEPTH = 3  # zips in zips
NOTEBOOK = re.compile(r"\.ipynb(\.(txt|json))?$", re.I)
_ZIP = re.compile(r"\.zip$", re.I)
_OTHER_ARCHIVE = re.compile(r"\.(rar|7z|tar|gz|tgz|bz2|xz)$", re.I)
_NOISE = re.compile(r"\.DS_Store|Thumbs\.db|desktop\.ini|\._.*|__MACOSX|\.ipynb_checkpoints|\.git", re.I)
_DAMAGE = (  # what the standard library raises at a damaged, locked or exotic zip
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    OSError,
    EOFError,
    ValueError,
)


@dataclass
class File:
    """A file of a download; ``data`` is b"" unless it is a notebook."""

    parts: tuple[str, ...]  # folders and zips around it, its name last
    changed: float  # seconds since 1970
    data: bytes = b""
    stamp: str = ""  # the text of the timestamp.txt beside it

    @property
    def source(self) -> str:
        """Its place in the download, as people read it."""
        return shown(self.parts)


@dataclass
class Left:
    """A file, or an archive, that is not taken, and why."""

    source: str
    why: Text


def shown(parts: Sequence[str]) -> str:
    """A place in a download on one line, whatever is in its names."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", "?", "/".join(parts))


class TooMuch(Exception):
    """An archive that unpacks to more than anybody hands in."""


@dataclass
class Budget:
    """What may yet be read of an archive and of all that is in it: bytes, members."""

    size: int
    members: int

    def read(self, file: IO[bytes]) -> bytes | None:
        """All of ``file``; None if it is larger than MAX_FILE."""
        data = file.read(min(MAX_FILE, max(self.size, 0)) + 1)
        self.size -= len(data)
        if self.size < 0:
            raise TooMuch
        return data if len(data) <= MAX_FILE else None


def outermost() -> Budget:
    """The budget of what the instructor downloaded: a class of hundreds."""
    return Budget(size=8 << 30, members=100_000)


def files(downloads: Path, skip: Path) -> Iterator[File | Left]:
    """Every file in ``downloads``, a folder or a zip, but what systems leave behind and what is in ``skip``."""
    if downloads.is_file():
        yield from _unpacked(downloads, (), outermost())
        return
    for folder, names in _folders(downloads, skip):
        parts = tuple(map(_meant, folder.relative_to(downloads).parts))
        stamp = _stamp_in(folder, names)
        for name in names:
            path, place = folder / name, (*parts, _meant(name))
            if path.is_symlink() or not path.is_file():
                yield Left(shown(place), _LINK)
            elif _ZIP.search(name):
                yield from _unpacked(path, place, outermost())
            else:
                with path.open("rb") as file:
                    yield _file(place, path.stat().st_mtime, file, outermost(), stamp)


def names(downloads: Path, skip: Path) -> list[tuple[str, ...]]:
    """The parts of every file, as ``files`` gives them, without opening what is in a zip."""
    if downloads.is_file():
        return _names_in(downloads, ())
    found: list[tuple[str, ...]] = []
    for folder, names_here in _folders(downloads, skip):
        for name in names_here:
            place = tuple(map(_meant, (*folder.relative_to(downloads).parts, name)))
            found += _names_in(folder / name, place) if _ZIP.search(name) else [place]
    return found


def _folders(root: Path, skip: Path) -> Iterator[tuple[Path, list[str]]]:
    """(folder, names of what is in it but folders), links to folders among the latter."""
    skip = skip.resolve()
    for here, folders, files_here in os.walk(root):
        folder = Path(here)
        links = [name for name in folders if (folder / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in links and not _NOISE.fullmatch(name) and (folder / name).resolve() != skip
        )
        yield folder, sorted(name for name in files_here + links if not _NOISE.fullmatch(name))


def _meant(name: str) -> str:
    """A name on disk that is no UTF-8, as unzip leaves one from a zip made in China, read as GB18030."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("gb18030", "replace")
    return name


def _stamp_in(folder: Path, names_here: Iterable[str]) -> str:
    if "timestamp.txt" not in names_here or (folder / "timestamp.txt").is_symlink():
        return ""
    with (folder / "timestamp.txt").open("rb") as file:
        return file.read(100).decode("utf-8", "replace")


def _file(
    place: tuple[str, ...], changed: float, file: IO[bytes], budget: Budget, stamp: str = ""
) -> File | Left:
    if _OTHER_ARCHIVE.search(place[-1]):
        return Left(shown(place), _NOT_A_ZIP)
    if not NOTEBOOK.search(place[-1]):
        return File(place, changed)
    data = budget.read(file)
    return Left(shown(place), _TOO_LARGE) if data is None else File(place, changed, data, stamp)


# Zips ------------------------------------------------------------------------------------------------


def _unpacked(
    archive: Path | IO[bytes], place: tuple[str, ...], budget: Budget, depth: int = 1
) -> Iterator[File | Left]:
    """What is in a zip, and in zips in it."""
    name = shown(place) or getattr(archive, "name", "")
    try:
        with zipfile.ZipFile(archive) as opened:
            budget.members -= len(opened.infolist())
            if budget.members < 0:
                raise TooMuch
            for info, parts in _members(opened):
                yield from _member(opened, info, (*place, *parts), budget, depth)
    except TooMuch:
        yield Left(name, _TOO_MUCH)
    except _DAMAGE:
        yield Left(name, _DAMAGED)


def _member(
    opened: zipfile.ZipFile, info: zipfile.ZipInfo, place: tuple[str, ...], budget: Budget, depth: int
) -> Iterator[File | Left]:
    source = shown(place)
    if info.flag_bits & 1:
        yield Left(source, _LOCKED)
        return
    if ".." in place or any(re.match(r"[A-Za-z]:", part) for part in place):
        yield Left(source, _OUTSIDE)
        return
    try:
        with opened.open(info) as member:
            if not _ZIP.search(place[-1]):
                found: File | Left = _file(place, _changed(info), member, budget, _stamp_beside(opened, info))
                inner = None
            else:
                inner = budget.read(member)
                found = Left(source, _TOO_LARGE if inner is None else _TOO_DEEP)
    except _DAMAGE:
        yield Left(source, _DAMAGED)
        return
    if inner is None or depth == MAX_DEPTH:
        yield found
    elif depth == 1:  # what one student handed in, on a budget of its own
        own = Budget(min(256 * MB, budget.size), 2000)
        before = own.size
        yield from _unpacked(io.BytesIO(inner), place, own, depth + 1)
        budget.size -= before - own.size
    else:
        yield from _unpacked(io.BytesIO(inner), place, budget, depth + 1)


def _members(opened: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    """The files of a zip with the parts of their names; an absolute name begins with ``..``."""
    infos = opened.infolist()
    for info, name in zip(infos, member_names(infos), strict=True):
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if parts and not name.endswith("/") and not any(_NOISE.fullmatch(part) for part in parts):
            yield info, ("..", *parts) if name.startswith("/") else parts


def _names_in(path: Path, place: tuple[str, ...]) -> list[tuple[str, ...]]:
    try:
        with zipfile.ZipFile(path) as opened:
            return [(*place, *parts) for _, parts in _members(opened)]
    except _DAMAGE:
        return []


def member_names(infos: Sequence[zipfile.ZipInfo]) -> list[str]:
    """The names in a zip as they were meant, with ``/`` between folders.

    A name is UTF-8 where bit 11 of its flags says so, else code page 437 (PKWARE's APPNOTE.TXT, appendix D),
    and zipfile reads it so. In fact Windows in China writes GBK and macOS UTF-8 without that bit
    (python/cpython#84587 and thejoshwolfe/yauzl#84, read in November 2026): such names of an archive are
    tried together as UTF-8, then GB18030.
    """
    raw = {i: _raw(info) for i, info in enumerate(infos)}
    unmarked = b"\n".join(name for name in raw.values() if name)
    encoding = next((e for e in ("utf-8", "gb18030") if _decodes(unmarked, e)), "cp437")
    meant = [(raw[i] or b"").decode(encoding) or info.orig_filename for i, info in enumerate(infos)]
    return [name.split("\0")[0].replace("\\", "/") for name in meant]


def _raw(info: zipfile.ZipInfo) -> bytes | None:
    """The bytes of a name that is not marked as UTF-8."""
    if info.flag_bits & 0x800:
        return None
    return info.orig_filename.encode("cp437", "replace")


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _changed(info: zipfile.ZipInfo) -> float:
    try:
        return datetime(*info.date_time).timestamp()
    except (*_DAMAGE, OverflowError):
        return 0.0


def _stamp_beside(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    folder = re.sub(r"[^/]*$", "", info.filename)
    try:
        with opened.open(f"{folder}timestamp.txt") as file:
            return file.read(100).decode("utf-8", "replace")
    except (KeyError, *_DAMAGE):
        return ""


# What is said ------------------------------------------------------------------------------------------

_LINK = both(en="It is a link: put the file itself there.", zh="这是一个链接：请换成文件本身。")
_NOT_A_ZIP = both(
    en="Only zips are opened here: unpack it where it is, then collect again.",
    zh="这里只能打开 zip：请先在原处解压，再重新收集。",
)
_TOO_LARGE = both(
    en=f"It is larger than {MAX_FILE // MB} MB: ask for the notebook without its outputs.",
    zh=f"文件超过 {MAX_FILE // MB} MB：请让学生清除输出后重新提交。",
)
_TOO_MUCH = both(
    en="The zip unpacks to more than a submission can be, so the rest of it was left: look into it by hand.",
    zh="这个 zip 解压后的体积或文件数远超正常作业，其余内容没有读取：请手动检查。",
)
_TOO_DEEP = both(
    en=f"It is a zip in a zip, {MAX_DEPTH + 1} deep: unpack it by hand.",
    zh=f"zip 套 zip 达到 {MAX_DEPTH + 1} 层：请手动解压。",
)
_OUTSIDE = both(
    en="Its name points out of the zip, so it was left there: unpack it by hand if you trust it.",
    zh="它的路径指向 zip 之外，没有读取：如果确认可信，请手动解压。",
)
_LOCKED = both(
    en="The zip is locked with a password: unpack it by hand, or ask for it again.",
    zh="这个 zip 有密码：请手动解压，或让学生重新提交。",
)
_DAMAGED = both(
    en="It cannot be opened as a zip: download it again, or unpack it by hand.",
    zh="无法作为 zip 打开：请重新下载，或手动解压。",
)
