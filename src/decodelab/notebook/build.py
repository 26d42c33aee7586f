"""Build the notebooks of both languages and the package's course data from solutions/.

Everything is made in memory first: one problem anywhere, and nothing is written.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decodelab.errors import DecodeLabError
from decodelab.lang import LANGUAGES, Text, both
from decodelab.notebook.compile import CHAPTER_NAME, ChapterSource, compile_chapter
from decodelab.notebook.emit import as_built, course_data, notebook_of, signed, to_json
from decodelab.notebook.setup import Publishing, read_publishing


class BuildError(DecodeLabError):
    """Everything that is wrong in the sources; ``problems`` names file and cell of each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        listed = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(
            both(
                en=f"Nothing was written; put right {len(problems)} problem(s) in solutions/ and build again:\n{listed}",
                zh=f"没有写入任何文件；请先修正 solutions/ 里的 {len(problems)} 处问题，再重新构建：\n{listed}",
            )
        )


@dataclass(frozen=True)
class Report:
    """What differed from the sources, as paths below the course folder, and remarks."""

    stale: list[str]
    missing: list[str]
    extra: list[str]
    notes: list[Text]

    @property
    def clean(self) -> bool:
        """Whether every generated file was as the sources say."""
        return not (self.stale or self.missing or self.extra)


def build(root: Path, *, check: bool = False, publishing: Publishing | None = None) -> Report:
    """Bring notebooks/ and src/decodelab/course/ below ``root`` up to date with solutions/.

    With ``check`` nothing is written and the report says what is out of date. ``publishing``
    defaults to ``[tool.decodelab]`` in pyproject.toml. Raises BuildError with all problems. What
    somebody wrote into a notebook is never written over: DecodeLabError names that notebook.
    """
    publishing = publishing or read_publishing(root)
    sources = [compile_chapter(path, publishing) for path in chapter_paths(root)]
    if not sources:
        raise DecodeLabError(
            both(
                en=f"There is no chapter in {root / 'solutions'}: nothing to build.",
                zh=f"{root / 'solutions'} 里一章也没有，没有可构建的内容。",
            )
        )
    files = {name: text for source in sources if not source.problems for name, text in _files(source)}
    between = [*_dead_links(root, sources), *_twice(sources), *_unruled(root, sources)]
    if problems := [*(p for s in sources for p in s.problems), *between]:
        raise BuildError(problems)
    found = {name: _read(root / name) for name in [*files, *_generated(root)]}
    report = Report(
        stale=sorted(n for n in files if found[n] not in (None, files[n])),
        missing=sorted(n for n in files if found[n] is None),
        extra=sorted(n for n in found if n not in files),
        notes=publishing.notes(),
    )
    if not check:
        _refuse_edited({name: found[name] for name in report.stale})
        _write(root, files, report)
    return report


def chapter_paths(root: Path) -> list[Path]:
    """The chapters' sources in order."""
    return sorted((root / "solutions").glob("ch*.py"))


def instructor_notebook(path: Path, lang: str, publishing: Publishing | None = None) -> dict[str, Any]:
    """A chapter's notebook in ``lang`` with the reference in its regions; BuildError as ``build``."""
    source = compile_chapter(path, publishing or Publishing())
    if source.problems:
        raise BuildError(source.problems)
    return notebook_of(source, lang, solved=True)


def _files(source: ChapterSource) -> Iterator[tuple[str, str]]:
    for lang in LANGUAGES:
        yield f"notebooks/{lang}/{source.name}.ipynb", to_json(signed(notebook_of(source, lang)))
    data = json.dumps(asdict(course_data(source)), ensure_ascii=False, indent=1) + "\n"
    yield f"src/decodelab/course/{source.id}.json", data


def _generated(root: Path) -> list[str]:
    """The files that a build made, as they lie there now; a person's own notebooks are not among them."""
    notebooks = [path for lang in LANGUAGES for path in (root / "notebooks" / lang).glob("ch*.ipynb")]
    made = [path for path in notebooks if CHAPTER_NAME.match(path.stem) and as_built(_read(path))]
    data = (root / "src/decodelab/course").glob("ch[0-9][0-9].json")
    return [path.relative_to(root).as_posix() for path in (*made, *data)]


def _refuse_edited(stale: dict[str, str | None]) -> None:
    edited = [name for name, text in stale.items() if name.endswith(".ipynb") and not as_built(text)]
    if edited:
        names = ", ".join(edited)
        raise DecodeLabError(
            both(
                en=f"Somebody wrote into {names}: move that to work/, or delete it, and build again.",
                zh=f"有人改动过 {names}：请把它移到 work/ 里，或者删掉，再重新构建。",
            )
        )


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _write(root: Path, files: dict[str, str], report: Report) -> None:
    for name in [*report.stale, *report.missing]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name].encode())
    for name in report.extra:
        (root / name).unlink()


def _dead_links(root: Path, sources: list[ChapterSource]) -> Iterator[str]:
    """Relative links of the prose that lead nowhere from notebooks/<lang>/."""
    made = {f"notebooks/{lang}/{source.name}.ipynb" for source in sources for lang in LANGUAGES}
    for source in sources:
        for where, lang, link in source.links:
            target = os.path.normpath(f"notebooks/{lang}/{link.split('#')[0]}")
            if target.replace(os.sep, "/") not in made and not (root / target).exists():
                yield f"{where}: the link {link} leads nowhere from notebooks/{lang}/"


def _twice(sources: list[ChapterSource]) -> Iterator[str]:
    ids = Counter(source.id for source in sources)
    for source in sources:
        if ids[source.id] > 1:
            yield f"{source.file}: another source is {source.id} too"


def _unruled(root: Path, sources: list[ChapterSource]) -> Iterator[str]:
    for source in sources:
        rules = f"src/decodelab/check/{source.id}"
        if source.holes and not any((root / f"{rules}{end}.py").is_file() for end in ("", "/__init__")):
            yield f"{source.file}: its rules and visible cases are missing: {rules}.py"
