"""Notebooks that came to harm, or were never notebooks."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handed_in import notebook

from corpus.case import FILE, REFERENCE, WRONG, Case, World, save, void

UNREADABLE, UNGRADED = {"all": "unreadable"}, {"all": "ungraded"}
NOT_FOUND = {"all": "not_found"}
FIRST_CELL = {f"ch01.{n}": "not_found" for n in range(1, 5)}


def good() -> Any:
    """A notebook that gets full marks, each source in one piece."""
    content = notebook("ch01", "en")
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    return content


def changed(change: Callable[[Any], object]) -> Callable[[World, Path], None]:
    """The good notebook after ``change``, which may work in place."""

    def make(world: World, folder: Path) -> None:
        content = good()
        result = change(content)
        save(folder, content if result is None else result)

    return make


def written(encode: Callable[[str], bytes]) -> Callable[[World, Path], None]:
    """The good notebook's text in other bytes."""
    return lambda world, folder: void(
        (folder / FILE).write_bytes(encode(json.dumps(good(), ensure_ascii=False)))
    )


def answer_cells(content: Any) -> list[Any]:
    """The two answer cells."""
    return [c for c in content["cells"] if "answer" in c["metadata"].get("nbgrader", {}).get("grade_id", "")]


def add(content: Any, *sources: str, at: int = 1) -> None:
    """Code cells of the student's own."""
    made: list[Any] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": s}
        for s in sources
    ]
    content["cells"][at:at] = made


def duplicated(content: Any) -> None:
    """The answer cell twice with the same id: a wrong one, then the right one."""
    cell = answer_cells(content)[0]
    wrong = copy.deepcopy(cell)
    wrong["source"] = wrong["source"].replace(REFERENCE["ch01.3"].splitlines()[0], WRONG.splitlines()[0])
    content["cells"].insert(content["cells"].index(cell), wrong)


def split(content: Any) -> None:
    """The helper of an answer in a cell of its own."""
    cell = answer_cells(content)[0]
    cell["source"] = cell["source"].replace("-req.priority,", "rank(req),")
    add(content, "def rank(req):\n    return -req.priority")


def without_metadata(content: Any) -> None:
    """As after a round trip through a platform that keeps only sources."""
    content["metadata"] = {}
    for cell in content["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)


def claims(content: Any) -> None:
    """Points, tags and results that the student wrote into the file."""
    content["metadata"]["decodelab"]["points"] = 99
    for cell in content["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "raises-exception"]
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"]["points"] = 1000
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "ch01.3 passed"}]
            if cell["source"].startswith("check("):
                cell["source"] = "pass"
    cell = answer_cells(content)[0]
    cell["source"] = cell["source"].replace("min(active", "max(active")


def magics(content: Any) -> None:
    """Lines that only IPython reads, in the answer and around it."""
    cell = answer_cells(content)[0]
    cell["source"] = "%load_ext autoreload\n!pip install numpy\n" + cell["source"] + "\nDecodeSchedulerSim?\n"
    add(content, "%%bash\nrm -rf ~", "!ls\nx = !ls", "%timeit 1 + 1")


def huge_outputs(content: Any) -> None:
    """50 MB of outputs."""
    text = "x" * (1 << 20)
    for cell in content["cells"][:50]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [text] * 10}]


def chain(content: Any) -> None:
    """Definitions that need each other, the answer the first of them."""
    cell = answer_cells(content)[0]
    cell["source"] += "\nv0\n"
    add(content, "\n".join(f"v{i} = lambda: v{i + 1}" for i in range(9_000)))


def replaced(source: str) -> Callable[[World, Path], None]:
    """Another source in the first answer cell."""
    return changed(lambda content: answer_cells(content)[0].update(source=source))


def conflict(content: Any) -> str:
    """As git leaves it."""
    text = json.dumps(content, indent=1)
    half = text.index('"cells"')
    return f"{text[:half]}<<<<<<< HEAD\n{text[half : half + 99]}=======\n{text[half:]}>>>>>>> theirs\n"


def raw(text: str | bytes) -> Callable[[World, Path], None]:
    """A file that holds just this."""
    data = text.encode() if isinstance(text, str) else text
    return lambda world, folder: void((folder / FILE).write_bytes(data))


def locked(world: World, folder: Path) -> None:
    """A file that may not be read."""
    save(folder, good()).chmod(0)


CASES: list[Case] = [
    Case("utf-8-bom", "a byte order mark", written(lambda t: b"\xef\xbb\xbf" + t.encode())),
    Case("utf-16", "two bytes a character", written(lambda t: t.encode("utf-16")), quick=True),
    Case("gb18030", "a Chinese encoding", written(lambda t: t.encode("gb18030"))),
    Case("bytes", "bytes that are no text", raw(b"\xff\xfe\x00\xd8" * 100), UNREADABLE),
    Case("empty", "an empty file", raw(""), UNREADABLE),
    Case("not-json", "a Python file under the name", raw("import os\nprint(1)\n"), UNREADABLE),
    Case("web-page", "the page around the notebook", raw("<!doctype html><html></html>"), UNREADABLE),
    Case("cut-off", "half a download", written(lambda t: t.encode()[: len(t) // 2]), UNREADABLE, quick=True),
    Case(
        "conflict",
        "git conflict marks",
        lambda w, f: void((f / FILE).write_text(conflict(good()))),
        UNREADABLE,
    ),
    Case("no-cells", "JSON of something else", raw("{}"), UNREADABLE),
    Case("a-list", "JSON that is no object", raw("[1, 2]"), UNREADABLE),
    Case("deep-json", "nested beyond any parser", raw("[" * 200_000), UNREADABLE),
    Case("long-number", "a number without end", raw('{"cells": [], "x": ' + "9" * 100_000 + "}"), UNREADABLE),
    Case(
        "cells-of-junk",
        "cells that are no cells",
        raw('{"cells": [1, null, "x", {}, {"source": 7}, {"source": [1]}]}'),
        NOT_FOUND,
    ),
    Case("no-metadata", "a platform that keeps only sources", changed(without_metadata), quick=True),
    Case(
        "nbformat-3",
        "the format of 2013",
        changed(
            lambda c: {
                "nbformat": 3,
                "metadata": {},
                "worksheets": [{"cells": [dict(x, input=x["source"]) for x in c["cells"]]}],
            }
        ),
    ),
    Case("duplicated", "a copied cell: the last one counts", changed(duplicated)),
    Case("split", "a helper in another cell", changed(split)),
    Case(
        "deleted",
        "the first answer cell is gone",
        changed(lambda c: c["cells"].remove(answer_cells(c)[0])),
        FIRST_CELL,
    ),
    Case(
        "wrong-kernel",
        "a kernel that nobody has",
        changed(lambda c: c["metadata"].update(kernelspec={"name": "julia-9", "language": "julia"})),
    ),
    Case("magics", "lines that only IPython reads", changed(magics)),
    Case(
        "many-magics",
        "a hundred thousand such lines",
        replaced("%x\n" * 100_000),
        {f"ch01.{n}": "failed blocked" for n in range(1, 5)},
    ),
    Case(
        "many-marks",
        "twenty thousand marks of a TODO",
        replaced("# TODO ch01.1\n# END ch01.1\n" * 15_000),
        {f"ch01.{n}": "failed blocked not_found" for n in range(1, 5)},
    ),
    Case("huge-outputs", "50 MB of outputs", changed(huge_outputs)),
    Case(
        "many-cells",
        "twenty thousand cells",
        changed(lambda c: add(c, *["x = 1"] * 20_000, at=len(c["cells"]))),
    ),
    Case("much-code", "a cell of 5 MB", replaced("x = 1\n" * 900_000), FIRST_CELL),
    Case("chain", "definitions that need each other, nine thousand times", changed(chain)),
    Case(
        "null-byte",
        "a zero byte in the code",
        changed(lambda c: answer_cells(c)[0].update(source="x = 1\0")),
        {f"ch01.{n}": "failed blocked" for n in range(1, 5)},
    ),
    Case(
        "syntax-error",
        "no Python, and no marks",
        replaced("class DecodeSchedulerSim(:\n"),
        {f"ch01.{n}": "failed blocked" for n in range(1, 5)},
    ),
    Case(
        "nested-source",
        "brackets beyond the parser",
        replaced("(" * 100_000),
        {f"ch01.{n}": "failed blocked" for n in range(1, 5)},
    ),
    Case(
        "claims",
        "points and results written into the file",
        changed(claims),
        {"ch01.3": "failed"},
        quick=True,
    ),
    Case("folder", "a folder with the notebook's name", lambda w, f: (f / FILE).mkdir(), UNGRADED),
    Case(
        "no-file",
        "something else was handed in",
        lambda w, f: void((f / "answers.docx").write_bytes(b"PK")),
        UNGRADED,
    ),
    Case(
        "link-to-system",
        "a link to the system's accounts",
        lambda w, f: (f / FILE).symlink_to("/etc/passwd"),
        UNGRADED,
        quick=True,
    ),
    Case(
        "link-to-other",
        "a link to another student's notebook",
        lambda w, f: (f / FILE).symlink_to(w.other),
        UNGRADED,
        quick=True,
    ),
    Case(
        "link-to-nothing",
        "a link that leads nowhere",
        lambda w, f: (f / FILE).symlink_to("nowhere"),
        UNGRADED,
    ),
    Case("pipe", "a named pipe", lambda w, f: os.mkfifo(f / FILE), UNGRADED, quick=True),
    Case("locked", "a file that may not be read", locked, UNGRADED, root={}),
]
