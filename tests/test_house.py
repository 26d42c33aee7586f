"""The house itself: layers, dependencies, links, and what README promises."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
import yaml
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

import decodelab
from decodelab.lang import LANGUAGES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "decodelab"

# From the ground floor up: a module imports only what stands before it. A package stands for its
# modules unless they are listed themselves.
STOREYS = (
    "lang errors home meter",
    "request events contract run log timings replay",
    "workload sim parity course",
    "models",
    "show",
    "check.rules check",
    "notebook.marks notebook.needs notebook.read notebook.whole notebook.source notebook.setup notebook.compile notebook.emit notebook.build notebook.skeleton",
    "grading.roster grading.downloads",
    "grading.syscalls grading.confine grading.sandbox grading.runner grading.wire grading.splice grading.student",
    "grading.shrink grading.suites grading.faults grading.judge grading.mutants grading.warm grading.prove grading.lookalike grading.grade",
    "grading.csvs grading.similarity grading.pages grading.report grading.executors grading.batch",
    "grading.nbgrader_plugin",
    "records advice checkfile workfolder learner preflight chapters service generate",
    "grading.collect grading.gradebook",
    "demo cli",
)
FLOORS = [name for storey in STOREYS for name in storey.split()]

NOT_FOR_LEARNERS = (
    "notebook.build",
    "notebook.compile",
    "notebook.emit",
    "notebook.setup",
    "notebook.skeleton",
    "notebook.source",
    "grading.nbgrader_plugin",
    "grading.gradebook",
    "demo",
)


def modules() -> dict[str, Path]:
    """Every module below ``decodelab`` by its dotted name, without the generated course data."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__")
        if not re.match(r"course\.ch\d", name):
            found[name.rstrip(".")] = path
    return found


def floor(module: str) -> int | None:
    """Index in FLOORS of the longest entry that ``module`` is or lies in."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((FLOORS.index(name) for name in names if name in FLOORS), None)


def imports(node: ast.AST) -> set[str]:
    """Dotted names of what run-time code below ``node`` imports."""
    found = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom):
            inside = {f"{child.module}.{alias.name}" for alias in child.names}
            found |= {name for name in inside if module_exists(name)} or {child.module or ""}
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            found |= imports(child)
    return found


def module_exists(dotted: str) -> bool:
    base = ROOT / "src" / Path(*dotted.split("."))
    return base.is_dir() or base.with_suffix(".py").is_file()


def text_files() -> list[Path]:
    """What git holds or would hold, binaries left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements() -> list[str]:
    """Everything that pyproject.toml asks for, extras included."""
    extras = project()["optional-dependencies"].values()
    return [*project()["dependencies"], *(line for extra in extras for line in extra)]


def bounds(requirements: list[str]) -> dict[str, str]:
    """``["numpy>=1.24"]`` as ``{"numpy": ">=1.24"}``."""
    split = (re.match(r"([\w.-]+)(.*)", requirement) for requirement in requirements)
    return {match[1].lower(): match[2].strip() for match in split if match}


@pytest.mark.parametrize("module", [name for name in modules() if name])
def test_imports_go_down(module):
    path = modules()[module]
    here = floor(module)
    names = {n for n in imports(ast.parse(path.read_text(encoding="utf-8"))) if n.startswith("decodelab.")}
    if here is None:
        assert path.name == "__init__.py", f"{module} has no place in STOREYS"
        assert not names, "a package that is spread over storeys imports nothing itself"
        return
    for name in names:
        there = floor(name.removeprefix("decodelab."))
        assert there is not None, f"{module} imports {name}, which has no place in STOREYS"
        assert there <= here, f"{module} must not import {name}: it stands above it"


def without(*, allowed: set[str], names: list[str]) -> subprocess.CompletedProcess:
    """Import ``names`` in a new process in which only the standard library and ``allowed`` exist."""
    script = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {allowed!r}:
            raise ModuleNotFoundError(f"{{name}} is not for learners", name=name)

sys.meta_path.insert(0, Refuse())
for name in {names!r}:
    __import__(name)
"""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_import_decodelab_needs_the_standard_library_alone():
    run = without(allowed={"decodelab"}, names=["decodelab"])
    assert run.returncode == 0, run.stderr


def test_learners_part_needs_numpy_alone():
    chapters = [
        f"decodelab.course.{path.parent.name}.checks" for path in PACKAGE.glob("course/ch*/checks.py")
    ]
    names = [f"decodelab.{name}" for name in modules() if name and name not in NOT_FOR_LEARNERS]
    run = without(allowed={"decodelab", "numpy"}, names=names + chapters)
    assert run.returncode == 0, run.stderr


def test_the_refusal_refuses():
    assert without(allowed={"decodelab"}, names=["numpy"]).returncode == 1


def test_environment_is_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    conda = bounds([line for line in environment if isinstance(line, str)])
    pip = [line["pip"] for line in environment if isinstance(line, dict)]
    want = bounds(requirements()) | {"python": project()["requires-python"], "pip": ""}
    want["pytorch"] = want.pop("torch")
    assert conda == want
    assert pip == [["-e ."]]


def test_constraints_pin_every_dependency_within_its_bound():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {r.name: r for r in (Requirement(line) for line in lines if line and not line.startswith("#"))}
    for text in requirements():
        wanted = Requirement(text)
        (pin,) = pins[wanted.name].specifier
        assert pin.operator == "=="
        assert wanted.specifier.contains(pin.version), f"{pins[wanted.name]} is outside {text}"


def test_version_is_the_newest_in_the_changelog():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None
    assert newest[1] == decodelab.__version__


def test_no_file_names_a_path_outside_the_repository():
    outside = re.compile(r"(?<![\w.}/~-])/(?:work|tmp|root|home|Users)/\w|\.\./shared|\b[A-Z]:\\\\?Users")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in text_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if outside.search(line)
    ]
    assert found == []


HALF_WIDTH = re.compile(r"[\u4e00-\u9fff][,;:?!(](?! [A-Za-z0-9`])|[,;:?!)][\u4e00-\u9fff]")
CODE_OR_LINK = re.compile(r"`[^`]*`|\]\([^)]*\)")


def test_chinese_has_full_width_punctuation():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in text_files()
        if ROOT / "tests" not in path.parents  # where the builder's own check for it is tested
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in HALF_WIDTH.finditer(CODE_OR_LINK.sub("`", line))
    ]
    assert found == []


def links(path: Path) -> list[str]:
    """Targets of the Markdown links and images in ``path`` that point into the repository."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    return [target for target in targets if not re.match(r"[a-z]+:|#", target)]


PAGES = [path for path in text_files() if path.suffix == ".md"]


def asterisks(markdown: str) -> list[str]:
    """Emphasis that shows as asterisks: in Chinese `**话。**下一句` does, for want of a space after it."""
    inline = [block for block in MarkdownIt().enable("table").parse(markdown) if block.children]
    texts = [part.content for block in inline for part in block.children or [] if part.type == "text"]
    return [text for text in texts if "**" in text]


def prose(path: Path) -> list[str]:
    """The Markdown in a page, a notebook or a chapter's data."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [text]
    data = json.loads(text)
    if path.suffix == ".ipynb":
        return ["".join(cell["source"]) for cell in data["cells"] if cell["cell_type"] == "markdown"]
    told = [
        todo[key][lang] for todo in data["todos"] for key in ("hints", "explanation") for lang in LANGUAGES
    ]
    return [text for one in told for text in ([one] if isinstance(one, str) else one)]


def test_emphasis_is_shown_as_emphasis():
    assert asterisks("**检查。**下一句") == ["**检查。**下一句"]
    paths = [*PAGES, *ROOT.glob("notebooks/*/*.ipynb"), *PACKAGE.glob("course/ch*.json")]
    found = [(path.name, text) for path in paths for one in prose(path) for text in asterisks(one)]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    dead = [target for target in links(page) if not (page.parent / target.partition("#")[0]).exists()]
    assert dead == []


def headings(path: Path) -> list[int]:
    """The level of every heading, in order."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    return [len(marks) for marks in re.findall(r"^(#+) ", text, re.M)]


PAIRS = [page for page in PAGES if page.name.endswith(".zh.md")]


@pytest.mark.parametrize("chinese", PAIRS, ids=lambda page: str(page.relative_to(ROOT)))
def test_both_languages_have_the_same_sections(chinese):
    english = chinese.with_name(chinese.name.replace(".zh.md", ".md"))
    assert headings(chinese) == headings(english)
    assert headings(chinese)


def test_pages_for_people_exist_in_both_languages():
    names = {str(page.relative_to(ROOT)) for page in PAIRS}
    assert {"README.zh.md", "docs/learners.zh.md", "docs/instructors.zh.md"} <= names


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_readmes_commands_are_targets_of_the_makefile(readme):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    named = set(re.findall(r"\bmake ([a-z][\w-]*)", (ROOT / readme).read_text(encoding="utf-8")))
    assert {"demo", "test"} <= named <= targets
