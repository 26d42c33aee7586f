"""From what an LMS lets an instructor download to ``submitted/{student}/{chapter}/``, as nbgrader has it.

Three forms of names are known, looked up in November 2026 in public sources:

- Canvas, ``lastfirst_[late_]USER_ATTACHMENT_name.ipynb``: ContentZipper in instructure/canvas-lms,
  app/models/content_zipper.rb, joins the sortable name (nothing but word characters, lower case), ``LATE`` and
  the user's id, then the attachment's id and name; without names under anonymous grading. A later upload of
  the same name becomes ``name-1.ipynb`` (``Attachment.make_unique_filename``), and has a larger attachment id.
- Moodle, ``Full Name_NUMBER_assignsubmission_file/name.ipynb``, or the same in one file name: mod_assign in
  moodle/moodle, mod/assign/classes/downloader.php (downloads of older versions have ``_`` after ``file``).
  Underscores of the name are spaces there; the number is a participant's, other in each assignment.
- plain, ``STUDENT/…/name.ipynb`` or ``STUDENT_name.ipynb``, where STUDENT is an id, a name or an e-mail address.

Neither LMS writes into these names when something was handed in, and a zip's own times may be the download's,
so a ``timestamp.txt`` is made only where one came with the notebook, as nbgrader's own exchange has it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from decodelab import course
from decodelab.checkfile import chapter_of
from decodelab.course import Chapter
from decodelab.errors import DecodeLabError
from decodelab.grading.csvs import replace, table
from decodelab.grading.downloads import NOTEBOOK, File, Left, files, names, shown
from decodelab.grading.roster import Roster, Student
from decodelab.lang import Text, both, say, tr
from decodelab.notebook.read import from_content, parse
from decodelab.notebook.whole import normalised

PLATFORMS = ("canvas", "moodle", "plain")
REPORT, TABLE, ORIGINALS = "collect.json", "collect.csv", ".originals"  # nbgrader's globs pass over a dot

_CANVAS = re.compile(
    r"(?:(?P<name>.+?)_)??(?P<late>late_)?(?P<number>\d{1,18})_(?P<attachment>\d{1,18})_(?P<file>.+)",
    re.I | re.S,
)
_MOODLE = re.compile(
    r"(?P<name>[^_]*)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<file>.+))?_?", re.S
)
_COPY_NUMBER = re.compile(r"(?:-| ?[(（])(\d{1,4})[)）]?$")
_BACKUP = re.compile(r"\.(backup|unreadable)-\d{8}-\d{6}", re.I)  # records.free_name, so `reset`
_CHAPTER = re.compile(r"(?<![a-z0-9])ch\d\d(?!\d)", re.I)


@dataclass
class HandedIn:
    """One notebook whose student and chapter are known; its original lies in ``.originals/``."""

    student: str
    chapter: str
    source: str  # where in the download: folders and zips joined by "/"
    sha256: str
    original: str  # path below the folder collected into
    submitted: str  # ISO 8601, UTC, from a timestamp.txt; "" where nothing tells
    attachment: int  # Canvas' id of the upload: the larger, the later; 0 elsewhere
    backup: bool  # one that `decodelab reset` put aside
    number: int  # of "name-2.ipynb", "name (2).ipynb"
    changed: float  # when the file was last changed, seconds since 1970
    late: bool = False  # Canvas says so
    note: Text | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same file when it is met again."""
        return self.student, self.chapter, self.sha256

    @property
    def rank(self) -> tuple[Any, ...]:
        """The greatest is the latest."""
        return self.submitted, self.attachment, not self.backup, self.number, self.changed, self.source


@dataclass
class Collected:
    """What ``collect`` found and did."""

    out: Path
    lms: str
    files: list[HandedIn] = field(default_factory=list)  # of earlier runs, too
    left: list[Left] = field(default_factory=list)
    other: list[str] = field(default_factory=list)  # neither notebooks nor archives
    placed: dict[str, str] = field(default_factory=dict)  # path below out -> sha256 of what we wrote there
    known: set[tuple[str, str, str]] = field(default_factory=set)  # keys of files of earlier runs
    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    absent: dict[str, list[str]] = field(default_factory=dict)  # chapter -> who handed in nothing
    notes: list[Text] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Everything found its place."""
        return not self.left

    def winners(self) -> list[HandedIn]:
        """The latest file of each student and chapter."""
        latest: dict[tuple[str, str], HandedIn] = {}
        for one in sorted(self.files, key=lambda f: f.rank):
            latest[one.student, one.chapter] = one
        return [latest[key] for key in sorted(latest)]

    def superseded(self) -> list[HandedIn]:
        """The files that a later one of the same student and chapter stands before."""
        first = {id(one) for one in self.winners()}
        return [one for one in self.files if id(one) not in first]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, without what this run was the first to do."""
        return {
            "lms": self.lms,
            "files": [asdict(f) for f in sorted(self.files, key=lambda f: (f.student, f.chapter, f.rank))],
            "placed": dict(sorted(self.placed.items())),
            "left": [asdict(u) for u in self.left],
            "other": self.other,
            "absent": self.absent,
            "notes": self.notes,
        }

    def lines(self) -> list[str]:
        """The report for a terminal, in the language spoken; the counts are its last line."""
        later = tr(en="a later one", zh="换成了更新的一份")
        kept = tr(en="kept, not the latest", zh="已保留，但不是最新的一份")
        nothing = tr(en="nothing from ", zh="以下学生没有提交：")
        comma = tr(en=", ", zh="、")
        left = tr(en="NOT COLLECTED", zh="未收录")
        return [
            *(say(note) for note in self.notes),
            *(f"+ {path}" for path in self.new),
            *(f"~ {path} ({later})" for path in self.updated),
            *(f"! {w.student}/{w.chapter}: {say(w.note)}" for w in self.winners() if w.note),
            *(f"{kept}: {s.source} -> {s.original}" for s in self.superseded() if s.key not in self.known),
            *(f"{chapter}: {nothing}{comma.join(ids)}" for chapter, ids in self.absent.items()),
            *(f"{left}: {one.source}: {say(one.why)}" for one in self.left),
            self.counts(),
        ]

    def counts(self) -> str:
        """The last line."""
        notebooks, latest = len(self.winners()), len(self.new) + len(self.updated)
        where = self.out / REPORT
        return tr(
            en=f"{notebooks} collected ({latest} new), {len(self.left)} not collected, {len(self.other)} other "
            f"files left alone; {where} lists all.",
            zh=f"已收录 {notebooks} 份（本次新增 {latest} 份），未收录 {len(self.left)} 份，另有 {len(self.other)} 个"
            f"其他文件未处理；全部列在 {where}。",
        )


def collect(downloads: Path, roster: Roster, out: Path, lms: str | None = None) -> Collected:
    """Put every notebook of ``downloads``, a folder or a zip, into ``out``; see ``Collected``.

    lms: one of PLATFORMS; by default the one whose names are there.
    Nothing outside ``out`` is written, nothing that was changed by hand is replaced, and a second run
    changes nothing. DecodeLabError where it cannot run at all.
    """
    if not downloads.exists() or downloads.resolve() == out.resolve():
        raise DecodeLabError(
            both(
                en=f"{downloads} is not there or is --out itself: give what your LMS let you download.",
                zh=f"{downloads} 不存在，或者就是 --out 本身：请给出从教学平台下载的文件夹或 zip。",
            )
        )
    lms = lms or guess(names(downloads, out))
    result = _earlier(out, lms)
    result.notes = list(roster.notes)
    for found in files(downloads, out):
        taken = (
            _take(found, roster, lms, out)
            if isinstance(found, File) and NOTEBOOK.search(found.parts[-1])
            else found
        )
        if isinstance(taken, HandedIn):
            _add(result.files, taken)
        elif isinstance(taken, Left):
            result.left.append(taken)
        elif taken.parts[-1] != "timestamp.txt":
            result.other.append(taken.source)
    if not (result.files or result.left):
        raise DecodeLabError(
            both(
                en=f"{downloads} holds no notebook: give the folder or the zip that your LMS let you download.",
                zh=f"{downloads} 里没有 notebook：请给出从教学平台下载的文件夹或 zip。",
            )
        )
    for one in result.winners():
        _place(result, one)
    for chapter in sorted({one.chapter for one in result.files}):
        there = {one.student for one in result.files if one.chapter == chapter}
        if absent := [s.id for s in roster.students if s.id not in there]:
            result.absent[chapter] = absent
    _report(result)
    return result


# Whose it is, and which chapter ----------------------------------------------------------------------


@dataclass
class Label:
    """What a name in the download says."""

    students: list[Student]
    said: str  # whom it names, in the platform's words
    file: str  # the student's own name for the file
    attachment: int = 0
    late: bool = False


def guess(found: Sequence[tuple[str, ...]]) -> str:
    """Whose names these are: Moodle's where one is there, Canvas' where most are, else plain."""
    if any(_MOODLE.fullmatch(part) for parts in found for part in parts):
        return "moodle"
    canvas = sum(any(_CANVAS.fullmatch(part) for part in parts) for parts in found)
    return "canvas" if canvas * 2 > len(found) else "plain"


def label(parts: Sequence[str], lms: str, roster: Roster) -> Label | None:
    """Whom the names of a file and of the folders and zips around it mean, outermost first.

    None where no name has the platform's form.
    """
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if lms == "canvas" and (m := _CANVAS.fullmatch(part)):
            who = roster.by_canvas(m["number"], m["name"] or "")
            said = f"{m['name'] or ''} (Canvas id {m['number']})".strip()
            return Label(who, said, m["file"] if last else parts[-1], int(m["attachment"]), bool(m["late"]))
        if lms == "moodle" and (m := _MOODLE.fullmatch(part)):
            who = roster.by_moodle(m["number"], m["name"])
            said = f"{m['name']} (Moodle number {m['number']})"
            return Label(who, said, (m["file"] or part) if last else parts[-1])
        if lms == "plain":
            name = _stem(part)
            if who := roster.by_beginning(name):
                return Label(who, name, parts[-1])
    return Label([], _stem(parts[0]), parts[-1]) if lms == "plain" else None


def _stem(name: str) -> str:
    return re.sub(r"\.zip$", "", NOTEBOOK.sub("", name), flags=re.I)


def copy_number(name: str) -> int:
    """N of ``name-N.ipynb`` and ``name (N).ipynb``; 0 without one."""
    match = _COPY_NUMBER.search(_stem(name).strip())
    return int(match[1]) if match else 0


def _take(file: File, roster: Roster, lms: str, out: Path) -> HandedIn | Left:
    """Find out whose a notebook is and which chapter, and keep it as it came."""
    found = label(file.parts, lms, roster)
    if not found or len(found.students) != 1:
        return Left(file.source, _nobody(found, lms))
    try:
        chapter, note = _chapter(file.data, found.file)
    except DecodeLabError as problem:
        return Left(file.source, problem.text)
    (student,) = found.students
    sha = _sha(file.data)
    safe = re.sub(r"[^\w.()（）“” -]", "_", found.file)[-60:]
    original = f"{ORIGINALS}/{student.id}/{chapter.id}/{sha[:12]} {safe}"
    if not (out / original).exists():
        replace(out / original, file.data)
    return HandedIn(
        student=student.id,
        chapter=chapter.id,
        source=file.source,
        sha256=sha,
        original=original,
        submitted=_utc(file.stamp),
        attachment=found.attachment,
        backup=bool(_BACKUP.search(found.file)),
        number=copy_number(found.file),
        changed=file.changed,
        late=found.late,
        note=note,
    )


def _nobody(found: Label | None, lms: str) -> Text:
    """Why a file has not exactly one student."""
    if found is None:
        name = lms.capitalize()
        return both(
            en=f"Its name has not {name}'s form: put it into a folder named by the student's id and use --lms plain.",
            zh=f"文件名不是 {name} 下载的格式：请放进以学号命名的文件夹，并加上 --lms plain。",
        )
    said = shown([found.said])
    columns = {"canvas": "canvas_id", "moodle": "moodle", "plain": "id"}
    if not found.students:
        return both(
            en=f"Nobody in the roster is {said}: add the line, or fill in its column {columns[lms]}.",
            zh=f"花名册里没有 {said}：请补上这个学生，或填写 {columns[lms]} 一列。",
        )
    people = [str(student) for student in found.students]
    return both(
        en=f"{said} may be {' or '.join(people)}: tell them apart in the roster's column {columns[lms]}.",
        zh=f"{said} 可能是 {'，也可能是 '.join(people)}：请在花名册的 {columns[lms]} 一列加以区分。",
    )


def _chapter(data: bytes, name: str) -> tuple[Chapter, Text | None]:
    """(chapter, note) of a notebook by its content, or else by its name; DecodeLabError if neither tells."""
    said = next((word.lower() for word in _CHAPTER.findall(name) if word.lower() in course.chapter_ids()), "")
    try:
        content = parse(Path(name), data)
    except DecodeLabError as problem:
        if said:
            return course.load(said), problem.text
        raise
    return chapter_of(from_content(content), Path(f"{said} {name}" if said else name)), None


def _utc(stamp: str) -> str:
    """nbgrader's timestamp as ``2026-03-01 12:00:00.000000 UTC``; "" for what is none (nbgrader would stop at it)."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?: ?(\S+))?", stamp.strip())
    if not match:
        return ""
    day, clock, zone = match.groups()
    try:
        time = datetime.fromisoformat(f"{day} {clock.partition('.')[0]}")
        time += timedelta(seconds=float("0." + (clock.partition(".")[2] or "0")))
        if offset := re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone or ""):
            minutes = int(offset[2]) * 60 + int(offset[3])
            time -= timedelta(minutes=minutes if offset[1] == "+" else -minutes)
        elif zone not in (None, "Z", "UTC", "UCT", "GMT"):
            from zoneinfo import ZoneInfo

            time = time.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
    except (ValueError, OverflowError, KeyError, OSError):
        return ""
    return f"{time:%Y-%m-%d %H:%M:%S.%f} UTC"


# What is written ---------------------------------------------------------------------------------------


def _add(files: list[HandedIn], new: HandedIn) -> None:
    """Note a file once a content; handed in again, it counts from then."""
    for at, old in enumerate(files):
        if old.key == new.key:
            new.original = old.original
            files[at] = max(old, new, key=lambda f: f.rank)
            return
    files.append(new)


def _place(result: Collected, one: HandedIn) -> None:
    """Put the latest of a student's files where nbgrader looks."""
    folder = f"{one.student}/{one.chapter}"
    name = f"{folder}/{course.load(one.chapter).name}.ipynb"
    data = normalised((result.out / one.original).read_bytes())
    if not _put(result, name, data):
        result.left.append(
            Left(
                one.source,
                both(
                    en=f"{name} was changed by hand and is left as it is: delete it to have it replaced.",
                    zh=f"{name} 被手动改过，没有覆盖：想换成新的一份，请先删除它。",
                ),
            )
        )
        return
    stamp, path = f"{folder}/timestamp.txt", result.out / folder / "timestamp.txt"
    if one.submitted:
        _put(result, stamp, one.submitted.encode())
    elif stamp in result.placed and path.is_file() and _sha(path.read_bytes()) == result.placed[stamp]:
        path.unlink()
        del result.placed[stamp]


def _put(result: Collected, name: str, data: bytes) -> bool:
    """Write below ``out`` unless something else than what we wrote is there; False then."""
    path, before = result.out / name, result.placed.get(name)
    there = _sha(path.read_bytes()) if path.is_file() else None
    if there not in (None, before, _sha(data)) or path.is_dir():
        return False
    if there != _sha(data):
        replace(path, data)
        if name.endswith(".ipynb"):
            (result.updated if there else result.new).append(name)
    result.placed[name] = _sha(data)
    return True


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _earlier(out: Path, lms: str) -> Collected:
    """What earlier runs put into ``out``."""
    path = out / REPORT
    if not path.exists():
        return Collected(out, lms)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        files = [HandedIn(**one) for one in data["files"]]
        return Collected(out, lms, files, placed=dict(data["placed"]), known={one.key for one in files})
    except (OSError, ValueError, TypeError, KeyError):
        raise DecodeLabError(
            both(
                en=f"{path} cannot be read, and it tells what was collected before: put it back or start a new --out.",
                zh=f"{path} 读不出来，而它记录着以前收录了什么：请恢复它，或换一个新的 --out。",
            )
        ) from None


def _report(result: Collected) -> None:
    replace(result.out / REPORT, (json.dumps(result.to_json(), ensure_ascii=False, indent=1) + "\n").encode())
    rows = [["file", "student", "chapter", "result", "late", "why"]]
    first = {id(one) for one in result.winners()}
    for one in sorted(result.files, key=lambda f: (f.student, f.chapter, f.rank)):
        state = "collected" if id(one) in first else "kept"
        rows.append([one.source, one.student, one.chapter, state, "late" * one.late, say(one.note or "")])
    rows += [[left.source, "", "", "not collected", "", say(left.why)] for left in result.left]
    replace(result.out / TABLE, table(rows, bom=True))
