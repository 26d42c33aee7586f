"""``decodelab collect``: every form of download, generated here; what is not sure is listed, never guessed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from handed_in import notebook
from hypothesis import given
from hypothesis import strategies as st

from decodelab.errors import DecodeLabError
from decodelab.grading import downloads
from decodelab.grading.collect import collect, copy_number, guess, label, normalised
from decodelab.grading.downloads import member_names
from decodelab.grading.roster import Roster, Student, letters, normal, read_roster

NAME = "ch01_decode_scheduler.ipynb"
ANN = Student("s1", "Ann Lee", canvas_id="4711", email="ann@uni.example")
LI = Student("2021002", "李伟")
CLASS = Roster([ANN, LI, Student("s3", "O'Brien, Zoë")])


def written(answer: str = "pass", lang: str = "en", chapter: str = "ch01") -> bytes:
    """A notebook that differs by ``answer``."""
    content = notebook(chapter, lang)
    content["cells"].append(
        {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": [], "source": answer}
    )
    content["cells"][-1]["execution_count"] = None
    return json.dumps(content, ensure_ascii=False).encode()


def zipped(members: dict[str, bytes], gbk: bool = False) -> bytes:
    """A zip; with ``gbk`` its names are GBK bytes without the UTF-8 mark, as Windows in China writes them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(Unmarked(name) if gbk else name, data)
    return buffer.getvalue()


class Unmarked(zipfile.ZipInfo):
    def _encodeFilenameFlags(self):
        return self.filename.encode("gbk"), self.flag_bits & ~0x800


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def submitted(out: Path) -> dict[str, bytes]:
    """What nbgrader would see."""
    return {name: data for name, data in tree(out).items() if name[0] != "." and "/" in name}


@pytest.fixture
def run(tmp_path):
    """Collect these files, given as a folder or, with ``as_zip``, as the LMS's zip."""

    def collected(files, lms=None, roster=CLASS, as_zip=False, gbk=False, name="downloads"):
        if as_zip:
            (tmp_path / f"{name}.zip").write_bytes(zipped(files, gbk))
            source = tmp_path / f"{name}.zip"
        else:
            source = put(tmp_path / name, files)
        return collect(source, roster, tmp_path / "submitted", lms)

    return collected


# Forms of names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_zip", [False, True])
@pytest.mark.parametrize(
    ("lms", "name", "student"),
    [
        ("canvas", "leeann_4711_90_ch01_decode_scheduler.ipynb", "s1"),
        ("canvas", "leeann_LATE_4711_90_ch01_decode_scheduler-2.ipynb", "s1"),
        ("canvas", "4711_90_my_1_2_answer.ipynb", "s1"),
        ("canvas", "李伟_8_90_作业.ipynb", "2021002"),
        ("canvas", "obrienzoë_late_77_90_x.ipynb", "s3"),
        ("moodle", "Ann Lee_123456_assignsubmission_file_/ch01.ipynb", "s1"),
        ("moodle", "Ann Lee_123456_assignsubmission_file/sub/ch01.ipynb", "s1"),
        ("moodle", "Ann Lee_123456_assignsubmission_file_x_1_y.ipynb", "s1"),
        ("moodle", "李伟_7_assignsubmission_file/第一章.ipynb", "2021002"),
        ("plain", "s1/anything/x.ipynb", "s1"),
        ("plain", "ANN LEE/x.ipynb", "s1"),
        ("plain", "ann@uni.example_x.ipynb", "s1"),
        ("plain", "ch01/2021002-李伟/作业.ipynb", "2021002"),
        ("plain", "李伟2021002/作业.ipynb", "2021002"),
        ("plain", "２０２１００２李伟.ipynb", "2021002"),
        ("plain", "s1_homework.zip/x.ipynb", "s1"),
    ],
)
def test_names_of_each_platform(run, lms, name, student, as_zip):
    outer, inner, rest = name.partition(".zip/")
    files = {outer + ".zip": zipped({rest: written()})} if inner else {name: written()}
    done = run(files, as_zip=as_zip)
    assert done.lms == lms
    assert (done.left, done.new) == ([], [f"{student}/ch01/{NAME}"])
    assert submitted(done.out) == {f"{student}/ch01/{NAME}": written()}


@pytest.mark.parametrize(
    "name", ["x (1).ipynb", "Copy of x.ipynb", "“x”的副本.ipynb", "x - 副本.ipynb", "x.ipynb.txt", "X.IPYNB"]
)
def test_names_that_browsers_and_drives_make(run, name):
    done = run({f"s1/{name}": written()})
    assert list(submitted(done.out)) == [f"s1/ch01/{NAME}"]


def test_chinese_names_in_a_zip_from_windows(run):
    inner = zipped({"第一章/作业.ipynb": written()}, gbk=True)
    done = run({"李伟/作业.ipynb": written("1"), "2021002_补交.zip": inner}, as_zip=True, gbk=True)
    assert {f.source for f in done.files} == {"李伟/作业.ipynb", "2021002_补交.zip/第一章/作业.ipynb"}


def test_zip_names_with_and_without_the_mark():
    for name in ("李伟/作业.ipynb", "尤里的陰謀.ipynb", "a\\b.ipynb", "plain.ipynb"):
        for gbk in (False, True):
            with zipfile.ZipFile(io.BytesIO(zipped({name: b""}, gbk))) as opened:
                assert member_names(opened.infolist()) == [name.replace("\\", "/")]
    macos = zipfile.ZipInfo("李.ipynb".encode().decode("cp437"))
    assert member_names([macos]) == ["李.ipynb"]


@pytest.mark.skipif(sys.platform != "linux", reason="only there a file name is any bytes")
def test_names_that_unzip_left_as_gbk_bytes(tmp_path):
    folder = os.fsencode(tmp_path / "downloads") + b"/" + "李伟".encode("gbk")
    os.makedirs(folder)
    with open(folder + b"/x.ipynb", "wb") as file:
        file.write(written())
    done = collect(tmp_path / "downloads", CLASS, tmp_path / "out")
    assert (done.ok, [f.student for f in done.files]) == (True, ["2021002"])
    assert json.loads((done.out / "collect.json").read_text("utf-8"))["files"][0]["source"] == "李伟/x.ipynb"


def test_platform_is_told_by_most_names():
    assert guess([("a_1_2_x.ipynb",), ("b_3_4_y.ipynb",), ("readme.txt",)]) == "canvas"
    assert guess([("s1", "log_1_2_x.ipynb"), ("s1", "x.ipynb"), ("s3", "x.ipynb")]) == "plain"


# Whose it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("roster", "lms", "name"),
    [
        (CLASS, "canvas", "stranger_99_1_ch01.ipynb"),
        (CLASS, "canvas", "leeann_99_1_ch01.ipynb"),  # her name, another's Canvas id
        (CLASS, "canvas", "ch01.ipynb"),
        (CLASS, "canvas", f"leeann_4711_{'9' * 200}_ch01.ipynb"),
        (CLASS, "moodle", "Participant_5_assignsubmission_file/ch01.ipynb"),
        (CLASS, "moodle", "Lee Ann_5_assignsubmission_file/ch01.ipynb"),
        (CLASS, "plain", "Ann Leeson/ch01.ipynb"),
        (CLASS, "plain", "s10_ch01.ipynb"),
        (CLASS, "plain", "ch01.ipynb"),
    ],
)
def test_a_stranger_is_listed(run, roster, lms, name):
    done = run({name: written()}, lms, roster)
    assert (done.ok, submitted(done.out)) == (False, {})
    (left,) = done.left
    assert left.source == name
    assert all(left.why.values())


@pytest.mark.parametrize(
    ("students", "lms", "name"),
    [
        (
            [Student("a", "Li Wei"), Student("b", "LI  WEI")],
            "moodle",
            "Li Wei_5_assignsubmission_file/x.ipynb",
        ),
        ([Student("a", "Li Wei"), Student("b", "Wei, Li")], "canvas", "weili_5_6_x.ipynb"),
        ([Student("a", canvas_id="5"), Student("b", canvas_id="5")], "canvas", "weili_5_6_x.ipynb"),
        ([Student("a"), Student("a_b")], "plain", "a_b_x.ipynb"),
        ([Student("a", "b"), Student("b")], "plain", "b/x.ipynb"),
    ],
)
def test_who_may_be_two_is_listed_with_both(run, students, lms, name):
    done = run({name: written()}, lms, Roster(students))
    assert submitted(done.out) == {}
    assert all(str(s) in done.left[0].why["en"] and str(s) in done.left[0].why["zh"] for s in students)


def test_moodles_number_tells_two_of_a_name_apart(run):
    roster = Roster([Student("a", "Li Wei", moodle="Participant 51"), Student("b", "Li Wei", moodle="52")])
    done = run({f"Li Wei_{n}_assignsubmission_file/x.ipynb": written() for n in (51, 52)}, roster=roster)
    assert {(f.student, f.source[7:9]) for f in done.files} == {("a", "51"), ("b", "52")}


names = st.text(max_size=12) | st.text(st.sampled_from("aAbB _-'１1ßſﬁ\u0345\u0301é张\u200b"), max_size=6)


@given(names)
def test_normal_forms_are_stable(text):
    assert normal(normal(text)) == normal(text)
    assert letters(letters(text)) == letters(text)
    assert normal(text.upper().lower()) == normal(text.lower().upper().lower())


@given(st.lists(names, min_size=1, max_size=4), st.data())
def test_no_two_students_collapse(called, data):
    """Who has the same name as somebody is never left out where that one is found: two are no answer."""
    roster = Roster([Student(f"id-{at}", name) for at, name in enumerate(called)])
    student = data.draw(st.sampled_from(roster.students))
    lms = data.draw(st.sampled_from(["moodle", "plain"]))
    asked = student.name.replace("_", " ")
    found = label([f"{asked}_1_assignsubmission_file" if lms == "moodle" else asked, "x.ipynb"], lms, roster)
    assert found
    if not letters(asked):
        assert not found.students or lms == "plain"
        return
    form = letters if lms == "moodle" else normal
    assert student in found.students
    assert {s for s in roster.students if form(s.name) == form(asked)} <= set(found.students)
    assert {letters(s.name) for s in found.students} == {letters(asked)}


# Which one counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("leeann_4711_90_x-2.ipynb", "leeann_4711_95_x.ipynb"),
        ("leeann_4711_90_x.ipynb", "leeann_LATE_4711_95_x-1.ipynb"),
        ("s1/x.ipynb", "s1/x (2).ipynb"),
        ("s1/x (2).ipynb", "s1/x (10).ipynb"),
        (f"s1/{NAME[:-6]}.backup-20260131-120000.ipynb", f"s1/{NAME}"),
    ],
)
def test_the_latest_counts_and_the_other_is_kept(run, older, newer):
    done = run({older: written("old"), newer: written("new")})
    assert submitted(done.out) == {f"s1/ch01/{NAME}": written("new")}
    (kept,) = done.superseded()
    assert kept.source == older
    assert (done.out / kept.original).read_bytes() == written("old")
    assert any(older in line and kept.original in line for line in done.lines())


def test_when_it_was_handed_in_counts_first_and_goes_to_nbgrader(run):
    from nbgrader.utils import parse_utc

    done = run(
        {
            "s1/a/x (3).ipynb": written("old"),
            "s1/a/timestamp.txt": b"2026-02-02 10:00:00.5 America/Los_Angeles",
            "s1/b/x.ipynb": written("new"),
            "s1/b/timestamp.txt": b"2026-02-03T03:00:00 +0800\n",
            "2021002/x.ipynb": written(),
            "2021002/timestamp.txt": b"yesterday",
        }
    )
    assert set(submitted(done.out)) == {f"s1/ch01/{NAME}", "s1/ch01/timestamp.txt", f"2021002/ch01/{NAME}"}
    assert submitted(done.out)[f"s1/ch01/{NAME}"] == written("new")
    stamp = submitted(done.out)["s1/ch01/timestamp.txt"].decode()
    assert str(parse_utc(stamp)) == "2026-02-02 19:00:00"
    assert {f.submitted for f in done.files} == {"", stamp, "2026-02-02 18:00:00.500000 UTC"}


def test_copy_numbers():
    names = ["x.ipynb", "x-3.ipynb", "x (4).ipynb", "x(5).ipynb.txt", "x（6）.ipynb", "Copy of x.ipynb"]
    assert [copy_number(name) for name in names] == [0, 3, 4, 5, 6, 0]


def test_chapters_of_one_student_stand_side_by_side(run):
    done = run({"s1/a.ipynb": written(), "s1/b.ipynb": written(chapter="ch00", lang="zh")})
    assert set(submitted(done.out)) == {f"s1/ch01/{NAME}", "s1/ch00/ch00_preflight.ipynb"}
    assert done.absent == {"ch00": ["2021002", "s3"], "ch01": ["2021002", "s3"]}


# Run again ---------------------------------------------------------------------------------------------------


def test_a_second_run_changes_and_says_nothing(run):
    files = {
        "s1/a.ipynb": written("1"),
        "s1/a (1).ipynb": written("2"),
        "who/x.ipynb": written(),
        "n.pdf": b"",
    }
    first = run(files)
    before = tree(first.out)
    second = run({})
    assert (len(first.new), second.new, second.updated) == (1, [], [])
    assert tree(first.out) == before
    assert [line for line in second.lines() if "a (1)" in line or line[0] in "+~"] == []
    assert not second.ok


def test_a_later_download_brings_what_is_newer_only(run):
    run({"leeann_4711_90_x.ipynb": written("second")}, name="week1")
    older = run({"leeann_4711_80_x.ipynb": written("first")}, name="week0")
    assert (older.new, older.updated) == ([], [])
    newer = run({"leeann_4711_99_x.ipynb": written("third")}, name="week2")
    assert newer.updated == [f"s1/ch01/{NAME}"]
    assert submitted(newer.out) == {f"s1/ch01/{NAME}": written("third")}
    originals = [data for name, data in tree(newer.out).items() if name.startswith(".originals/")]
    assert sorted(originals) == sorted([written("first"), written("second"), written("third")])


def test_handed_in_again_the_same_content_counts_from_then(run):
    files = {"leeann_4711_1_x.ipynb": written("A"), "leeann_4711_2_x.ipynb": written("B")}
    assert submitted(run(files).out) == {f"s1/ch01/{NAME}": written("B")}
    again = run({"leeann_4711_3_x.ipynb": written("A")}, name="later")
    assert submitted(again.out) == {f"s1/ch01/{NAME}": written("A")}


def test_what_was_changed_by_hand_stays(run):
    target = run({"s1/x.ipynb": written("1")}).out / "s1" / "ch01" / NAME
    target.write_bytes(b"by hand")
    done = run({"s1/x (1).ipynb": written("2")})
    assert target.read_bytes() == b"by hand"
    assert NAME in done.left[0].why["en"]
    target.unlink()
    assert run({}).ok
    assert target.read_bytes() == written("2")


def test_out_inside_the_download_is_not_collected_again(tmp_path):
    put(tmp_path, {"s1/x.ipynb": written()})
    for _ in range(2):
        done = collect(tmp_path, CLASS, tmp_path / "submitted")
    assert [f.source for f in done.files] == ["s1/x.ipynb"]
    with pytest.raises(DecodeLabError):
        collect(tmp_path / "submitted", CLASS, tmp_path / "submitted")


# The notebook itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_encodings_become_utf8(run, encoding):
    data = written("答案 = 1", lang="zh")
    done = run({"s1/x.ipynb": data.decode().encode(encoding)})
    (placed,) = submitted(done.out).values()
    assert not placed.startswith(b"\xef\xbb\xbf")
    assert json.loads(placed.decode("utf-8")) == json.loads(data)
    assert (done.out / done.files[0].original).read_bytes() == data.decode().encode(encoding)


def test_what_a_platform_lost_is_put_in_and_grades_stay():
    import nbformat

    content = notebook("ch01", "en")
    want = [cell["metadata"].get("nbgrader") for cell in content["cells"]]
    for cell in content["cells"]:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    del content["nbformat_minor"]
    content["cells"] += [7, {"cell_type": "code", "input": "x = '\ud800'"}, {"cell_type": "heading"}]
    whole = nbformat.reads(normalised(json.dumps(content).encode()).decode("utf-8"), as_version=4)
    assert [cell.metadata.get("nbgrader") for cell in whole.cells] == [*want, None, None]
    assert whole.cells[-2].source == "x = '?'"
    nbformat.validate(nbformat.from_dict(whole), relax_add_props=True)


def test_unreadable_is_put_in_place_where_its_name_tells_the_chapter(run):
    done = run(
        {"s1_ch01-broken.ipynb": b'{"cells": [', "2021002/ch01.ipynb": b"", "s3/notes.ipynb": b"<html>"}
    )
    assert submitted(done.out) == {f"s1/ch01/{NAME}": b'{"cells": [', f"2021002/ch01/{NAME}": b""}
    assert [left.source for left in done.left] == ["s3/notes.ipynb"]
    assert len([line for line in done.lines() if line.startswith("! ")]) == 2


def test_a_notebook_of_something_else_is_listed(run):
    alien = json.dumps({"cells": [{"cell_type": "code", "source": "print(1)"}]}).encode()
    done = run({"s1/scratch.ipynb": alien, f"s1/{NAME}": written()})
    assert submitted(done.out) == {f"s1/ch01/{NAME}": written()}
    assert [left.source for left in done.left] == ["s1/scratch.ipynb"]


# What comes with it, and what should not -------------------------------------------------------------------------


def test_what_systems_leave_behind_is_passed_over(run):
    files = {
        "s1/.ipynb_checkpoints/x-checkpoint.ipynb": written("old"),
        "__MACOSX/s1/._x.ipynb": b"\0",
        "s1/.DS_Store": b"",
        "s1/x.ipynb": written(),
        "s1/data.csv": b"1",
    }
    for as_zip in (False, True):
        done = run(files, as_zip=as_zip)
        assert (done.ok, done.other, len(done.files)) == (True, ["s1/data.csv"], 1)


HOSTILE = {
    "up": zipped({"../../evil_ch01.ipynb": written()}),
    "backslash": zipped({"..\\..\\evil_ch01.ipynb": written()}),
    "absolute": zipped({"/etc/ch01.ipynb": written()}),
    "drive": zipped({"C:\\Temp\\ch01.ipynb": written()}),
    "damaged": zipped({"ch01.ipynb": written()})[:-40],
    "not a zip": b"Rar!",
    "empty": b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_zip_costs_itself_and_nothing_is_written_elsewhere(tmp_path, kind):
    source = put(tmp_path / "in" / "deep", {"s1_work.zip": HOSTILE[kind], "2021002/x.ipynb": written()})
    before = tree(tmp_path)
    done = collect(source, CLASS, tmp_path / "in" / "out")
    assert list(submitted(done.out)) == [f"2021002/ch01/{NAME}"]
    (left,) = done.left
    assert left.source.startswith("s1_work.zip")
    assert {name: data for name, data in tree(tmp_path).items() if not name.startswith("in/out/")} == before


def test_limits_hold_whatever_the_headers_say(run, monkeypatch):
    monkeypatch.setattr(downloads, "MAX_FILE", 200_000)
    monkeypatch.setattr(downloads, "MB", 2000)  # a student's zip may hold 256 of them
    big, many = b" " * 300_000, {f"{n}.ipynb": b" " * 150_000 + bytes([n]) for n in range(9)}
    lying = bytearray(zipped({"ch01.ipynb": big}))
    at = lying.index(b"PK\x01\x02") + 24
    lying[at : at + 4] = (10).to_bytes(4, "little")
    wide = zipped({f"{n}.txt": b"" for n in range(2001)})
    deep = zipped({"ch01.ipynb": written()})
    for _ in range(4):
        deep = zipped({"in.zip": deep})
    inner = {"big.zip": zipped({"ch01.ipynb": big}), "many.zip": zipped(many), "lying.zip": bytes(lying)}
    inner |= {"wide.zip": wide, "deep.zip": deep, "ok.zip": zipped({"ch01.ipynb": written()})}
    done = run({f"s1/{name}": data for name, data in inner.items()}, as_zip=True)
    left = {one.source.split("/")[1] for one in done.left}
    assert left == {"big.zip", "many.zip", "lying.zip", "wide.zip", "deep.zip"}
    assert [f.source for f in done.files] == ["s1/ok.zip/ch01.ipynb"]


def test_a_locked_zip_and_another_archive_are_listed(run):
    locked = bytearray(zipped({"ch01.ipynb": written()}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(mark) + offset] |= 1
    done = run({"s1.zip": bytes(locked), "s3.rar": b"Rar!", "2021002/x.ipynb": written()})
    why = {one.source: one.why["en"] for one in done.left}
    assert "password" in why["s1.zip/ch01.ipynb"]
    assert "Only zips" in why["s3.rar"]


def test_links_are_not_followed(tmp_path):
    secret = put(tmp_path / "secret", {"x.ipynb": written()})
    source = put(tmp_path / "downloads", {"2021002/x.ipynb": written()})
    (source / "s1").symlink_to(secret, target_is_directory=True)
    (source / "s1_x.ipynb").symlink_to(secret / "x.ipynb")
    done = collect(source, CLASS, tmp_path / "out")
    assert {one.source for one in done.left} == {"s1", "s1_x.ipynb"}
    assert [f.student for f in done.files] == ["2021002"]


def test_names_cannot_write_to_the_terminal_or_be_a_formula(run):
    done = run({"=cmd|x\x1b[2J_ch01.ipynb": written()}, as_zip=True)
    assert "\x1b" not in "".join(done.lines())
    assert "\n'=cmd" in (done.out / "collect.csv").read_text("utf-8-sig")


def test_nbgrader_sees_the_students_and_nothing_else(run):
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    done = run({"s1/x.ipynb": written(), "s1/x (1).ipynb": written("2"), "李伟/x.ipynb": written()})
    api = NbGraderAPI(CourseDirectory(root=str(done.out.parent)))
    assert api.get_submitted_students("ch01") == {"s1", "2021002"}
    assert api.get_submitted_students("*") == {"s1", "2021002"}


# The roster ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
@pytest.mark.parametrize("separator", ",;\t")
def test_rosters_of_every_spreadsheet(tmp_path, encoding, separator):
    rows = [
        ["学号", "姓名", "邮箱", "语言"],
        ['="0042"', "张 三", "z@x.cn", "中文"],
        ["", "", "", ""],
        ["7", "李四"],
    ]
    text = "\r\n".join(separator.join(row) for row in rows)
    (tmp_path / "r.csv").write_bytes(text.encode(encoding))
    roster = read_roster(tmp_path / "r.csv")
    assert roster.students == [Student("0042", "张 三", email="z@x.cn", lang="zh"), Student("7", "李四")]
    assert roster.notes == []


@pytest.mark.parametrize(
    ("text", "student"),
    [
        (
            'Student,ID,SIS User ID,SIS Login ID,Section\n"Lee, Ann",4711,s1,ann,A\n',
            Student("s1", "Lee, Ann", "4711"),
        ),
        (
            "id,first_name,last_name,email,lms_user_id\ns1,Ann,Lee,a@x,9\n",
            Student("s1", "Ann Lee", "9", email="a@x"),
        ),
        (
            "Identifier,Full name,ID number,Email address\nParticipant 5,Ann Lee,s1,a@x\n",
            Student("s1", "Ann Lee", moodle="Participant 5", email="a@x"),
        ),
        ("sep=;\nid;name;lang\ns1;Ann;English\n", Student("s1", "Ann", lang="en")),
    ],
)
def test_rosters_that_platforms_export(tmp_path, text, student):
    (tmp_path / "r.csv").write_text(text, encoding="utf-8")
    assert read_roster(tmp_path / "r.csv").students == [student]


def test_a_line_without_an_id_is_noted(tmp_path):
    (tmp_path / "r.csv").write_text("id,name\n,Points Possible\ns1,Ann\ns1,Ann\n", encoding="utf-8")
    roster = read_roster(tmp_path / "r.csv")
    assert [s.id for s in roster.students] == ["s1"]
    assert "line 2" in roster.notes[0]["en"]


@pytest.mark.parametrize(
    "text",
    [
        "name\nAnn\n",
        "",
        "id\n",
        "id,name\ns1,Ann\nS1,Bob\n",
        "id\n../x\n",
        "id\n.originals\n",
        "id\na/b\n",
        "id\n2.02E+11\n",
        "PK\x03\x04",
    ],
)
def test_a_roster_that_cannot_be_used_gets_one_sentence(tmp_path, text):
    (tmp_path / "r.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DecodeLabError) as told:
        read_roster(tmp_path / "r.csv")
    assert all(sentence and "\n" not in sentence for sentence in told.value.text.values())


# The command ----------------------------------------------------------------------------------------------------


def test_exit_codes_and_json(tmp_path):
    put(
        tmp_path,
        {"in/s1/x.ipynb": written(), "r.csv": b"id\ns1\n", "other.csv": b"id\ns2\n", "none/a.txt": b""},
    )

    def decodelab(source, roster, *more):
        words = [sys.executable, "-m", "decodelab.cli", "collect", source, "--roster", roster, *more]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)

    good = decodelab("in", "r.csv", "--json")
    assert (good.returncode, json.loads(good.stdout)["new"]) == (0, [f"s1/ch01/{NAME}"])
    assert (tmp_path / "submitted/s1/ch01" / NAME).is_file()
    bad = decodelab("in", "other.csv", "--out", "elsewhere", "--lang", "zh")
    assert bad.returncode == 1
    assert "未收录" in bad.stdout.splitlines()[-1]
    for words in (("in", "gone.csv"), ("gone", "r.csv"), ("none", "r.csv")):
        stopped = decodelab(*words, "--out", "elsewhere")
        assert (stopped.returncode, len(stopped.stderr.strip().splitlines())) == (2, 1)
