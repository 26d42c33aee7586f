"""The class list: who a student is, by id, by name, and by the number a platform gave them.

Nobody is guessed: what asks for a student gets all of those it fits, and one is an answer only if it is
the only one. Names are compared letter by letter, without regard to case, width, spaces or punctuation.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both
from decodelab.notebook.read import decode

# Heads of columns, as letters() has them; the first that is filled in counts. Beside a list of one's own
# these read nbgrader's students.csv (id, first_name, last_name, email, lms_user_id), Canvas' gradebook
# export (Student, ID, SIS User ID, SIS Login ID) and Moodle's grading worksheet (Identifier, Full name, …).
HEADS = {
    "id": "id studentid studentnumber idnumber sisuserid sisloginid username 学号 学生学号 学生编号 工号",
    "name": "name fullname student studentname 姓名 学生姓名 名字 全名",
    "first": "firstname givenname 名",
    "last": "lastname surname familyname 姓",
    "canvas_id": "canvasid canvasuserid lmsuserid",
    "moodle": "moodle moodlename moodleid identifier",
    "email": "email emailaddress mail 邮箱 电子邮箱 电子邮件 邮件 邮箱地址",
    "lang": "lang language 语言",
}
_ID = re.compile(r"[\w@+-][\w.@+-]*(?<!\.)")  # may name a folder on every system
_SHORTENED = re.compile(r"\d([.,]\d+)?E\+\d+")


@lru_cache(maxsize=10_000)
def normal(text: str) -> str:
    """``text`` without regard to case, width, invisible characters and how many spaces: ``Ｌi  Wei`` is ``li wei``."""
    shown = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Cf")
    for _ in range(2):  # The Unicode Standard 3.13, D146: either may undo the other once
        shown = unicodedata.normalize("NFKC", shown.casefold())
    return " ".join(shown.split())


@lru_cache(maxsize=10_000)
def letters(text: str) -> str:
    """Only the letters and digits of ``normal(text)``: what every platform keeps of a name."""
    return "".join(c for c in normal(text) if c.isalnum())


@dataclass(frozen=True)
class Student:
    """One line of the roster; what is not known is ``""``."""

    id: str  # names the folder in submitted/ and the student in nbgrader
    name: str = ""
    canvas_id: str = ""  # Canvas' user id, a number
    moodle: str = ""  # the full name in Moodle where it differs, or the number after it in a download
    email: str = ""
    lang: str = ""  # "en" | "zh" | ""

    def __str__(self) -> str:
        return f"{self.id} {self.name}".rstrip()


@dataclass
class Roster:
    """The students of a class, each id once."""

    students: list[Student]
    notes: list[Text] = field(default_factory=list)

    def by_canvas(self, number: str, name: str) -> list[Student]:
        """Whom a name in Canvas' download may mean: by user id, else by name those without one.

        Canvas writes the sortable name (``Last, First``), which it makes of a name by putting the last word
        first.
        """
        known = [s for s in self.students if s.canvas_id == number]
        return known or self._like(letters(name), lambda s: [] if s.canvas_id else [_sortable(s.name)])

    def by_moodle(self, number: str, name: str) -> list[Student]:
        """Whom a name in Moodle's download may mean: by its number, else by full name.

        The number is another one in each assignment, so one that differs says nothing.
        """
        known = [s for s in self.students if _number(s.moodle) == number]
        return known or self._like(
            letters(name), lambda s: [s.moodle if s.moodle and not _number(s.moodle) else s.name]
        )

    def by_text(self, text: str) -> list[Student]:
        """Whom ``text`` may mean: an id, a name, an e-mail address, or id and name together."""
        for form in (normal, letters):
            if found := self._like(form(text), _called, form):
                return found
        return []

    def by_beginning(self, text: str) -> list[Student]:
        """Whom the beginning of ``text`` up to the end or an underscore may mean; a number ends at any letter."""
        ends = [m.start() for m in re.finditer("_", text)]
        digits = re.match(r"\d{4,}(?!\d)", text)
        starts = {text, *(text[:end] for end in ends), *([digits[0]] if digits else [])}
        found = {student for start in starts for student in self.by_text(start)}
        return [s for s in self.students if s in found]

    def _like(
        self, key: str, called: Callable[[Student], list[str]], form: Callable[[str], str] = letters
    ) -> list[Student]:
        return [s for s in self.students if key and key in map(form, called(s))]


def _called(student: Student) -> list[str]:
    both_ways = [student.id + student.name, student.name + student.id]
    return [student.id, student.email, student.name, *both_ways]


def _sortable(name: str) -> str:
    words = name.split()
    return name if "," in name or not words else " ".join([words[-1], *words[:-1]])


def _number(moodle: str) -> str:
    match = re.fullmatch(r"\D*?(\d+)", moodle)
    return match[1] if match else ""


# The file ------------------------------------------------------------------------------------------


def read_roster(path: Path) -> Roster:
    """The roster in a CSV file of any usual encoding, separated by commas, semicolons or tabs.

    Needs a column for the id (``id``, ``学号``); knows those of HEADS. A line without an id is left out and
    noted; DecodeLabError where an id is there twice or cannot name a folder.
    """
    students: dict[str, Student] = {}
    notes: list[Text] = []
    for line, row in _rows(path):
        student = Student(**row)
        if not student.id:
            if any(row.values()):
                notes.append(
                    both(
                        en=f"{path.name}, line {line}: no id, so it was left out.",
                        zh=f"{path.name} 第 {line} 行没有学号，已略过。",
                    )
                )
            continue
        _require_id(path, line, student.id)
        if students.setdefault(normal(student.id), student) != student:
            raise DecodeLabError(
                both(
                    en=f"{path.name}, line {line}: the id {student.id} is there already; give each student one line.",
                    zh=f"{path.name} 第 {line} 行：学号 {student.id} 前面已经出现过；请让每个学生只占一行。",
                )
            )
    if not students:
        raise DecodeLabError(
            both(en=f"{path.name} lists no student.", zh=f"{path.name} 里没有学生，请检查文件内容。")
        )
    return Roster(list(students.values()), notes)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, fields of a Student) for every line below the head."""
    text = _text(path)
    lines = text.splitlines()
    skip = 1 if lines and re.fullmatch(r"sep=.", lines[0]) else 0  # a line that Excel understands
    head = next((line for line in lines[skip:] if line.strip()), "")
    separator = max(",;\t", key=head.count)
    reader = csv.reader(lines[skip:], delimiter=separator)
    columns: dict[str, list[int]] | None = None
    try:
        for cells in reader:
            if columns is None:
                columns = _columns(path, cells) if any(map(str.strip, cells)) else None
                continue
            values = [_plain(cell) for cell in cells]
            row = {
                field: next((values[at] for at in places if at < len(values) and values[at]), "")
                for field, places in columns.items()
            }
            row["name"] = row["name"] or f"{row.pop('first')} {row.pop('last')}".strip()
            row["lang"] = _lang(row["lang"])
            yield reader.line_num + skip, {k: row[k] for k in Student.__dataclass_fields__}
    except csv.Error as reason:
        raise DecodeLabError(
            both(
                en=f"{path.name}, line {reader.line_num + skip} is no CSV ({reason}): save it as CSV again.",
                zh=f"{path.name} 第 {reader.line_num + skip} 行不是 CSV（{reason}）：请重新存成 CSV。",
            )
        ) from None


def _columns(path: Path, head: list[str]) -> dict[str, list[int]]:
    """Where the columns of each field are."""
    heads = [letters(cell) for cell in head]
    if "id" in heads and {"sisuserid", "sisloginid"} & set(heads):  # Canvas' export: ID is Canvas' own
        heads[heads.index("id")] = "canvasid"
    columns = {
        field: [heads.index(name) for name in names.split() if name in heads]
        for field, names in HEADS.items()
    }
    if not columns["id"]:
        raise DecodeLabError(
            both(
                en=f"{path.name} has no column for the id: call one `id` in its first line.",
                zh=f"{path.name} 里没有学号这一列：请在第一行把它命名为“学号”或 `id`。",
            )
        )
    return columns


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(b"PK"):
            raise DecodeLabError("")
        return decode(path, data)
    except OSError as reason:
        raise DecodeLabError(
            both(
                en=f"The roster {path} cannot be opened ({reason.strerror}).",
                zh=f"花名册 {path} 打不开（{reason.strerror}），请检查路径。",
            )
        ) from None
    except DecodeLabError:
        raise DecodeLabError(
            both(
                en=f"{path.name} is no CSV file: in Excel choose Save as → CSV UTF-8.",
                zh=f"{path.name} 不是 CSV 文件：请在 Excel 里选择“另存为 → CSV UTF-8”。",
            )
        ) from None


def _plain(cell: str) -> str:
    """A cell without what spreadsheets put around a number to keep it text."""
    cell = cell.strip().lstrip("\ufeff").lstrip("'")
    quoted = re.fullmatch(r'="(.*)"', cell)
    return (quoted[1] if quoted else cell).strip()


def _lang(value: str) -> str:
    value = normal(value)
    return (
        "zh" if value.startswith(("zh", "ch", "中", "汉")) else "en" if value.startswith(("en", "英")) else ""
    )


def _require_id(path: Path, line: int, student_id: str) -> None:
    if _SHORTENED.fullmatch(student_id):
        raise DecodeLabError(
            both(
                en=f"{path.name}, line {line}: a spreadsheet has shortened the id to {student_id}; make the column text.",
                zh=f"{path.name} 第 {line} 行：表格软件把学号缩写成了 {student_id}；请把这一列设为文本格式后重新保存。",
            )
        )
    if not _ID.fullmatch(student_id) or len(student_id) > 64:
        raise DecodeLabError(
            both(
                en=f"{path.name}, line {line}: the id {student_id!r} cannot name a folder; use letters, digits and . _ - @ +.",
                zh=f"{path.name} 第 {line} 行：学号 {student_id!r} 不能用作文件夹名；请只用文字、数字和 . _ - @ +。",
            )
        )
