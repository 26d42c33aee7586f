"""The first code cell of every notebook, and the links that open it in a cloud."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from decodelab.lang import Text, both

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLOUDS = {
    "Colab": "https://colab.research.google.com/github/{place}",
    "ModelScope": "https://modelscope.cn/notebook/share/github/{place}",
}

_HERE = """\
# {first}
from importlib.util import find_spec

if find_spec("decodelab") is None:
    raise ModuleNotFoundError(
        "{absent}"
        "{remedy}"
    )

from decodelab import TodoError, check, hint, progress, solution, start

start("{chapter}", "{lang}")"""

_CLOUD = """\
# {first} {installs}
import subprocess
import sys
from importlib.util import find_spec

if find_spec("decodelab") is None:
    package = "git+{repository}@{release}"
    try:  # {reachable}
        ask = ["git", "ls-remote", "--exit-code", "{repository}", "{release}"]
        subprocess.run(ask, check=True, timeout=5, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        package = "{mirror}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", package], check=True)
    if absent := [name for name in ("numpy", "matplotlib", "ipywidgets") if find_spec(name) is None]:
        print("{missing} %pip install", *absent)

from decodelab import TodoError, check, hint, progress, solution, start

start("{chapter}", "{lang}")"""

_WORDS = {
    "first": both(en="Setup: run this cell first.", zh="准备：请先运行这个单元格。"),
    "installs": both(
        en="Where decodelab is missing it installs it, and nothing else.",
        zh="缺少 decodelab 时，它会装上，此外什么也不装。",
    ),
    "absent": both(
        en="This kernel has no decodelab: choose the course's own kernel (Kernel > Change Kernel), ",
        zh="这个内核里没有 decodelab：请换成课程自己的内核（Kernel > Change Kernel），",
    ),
    "remedy": both(
        en="or copy the whole course folder here and run  %pip install FOLDER  in a new cell.",
        zh="或者把整个课程文件夹复制到这里，在新单元格里运行  %pip install 文件夹。",
    ),
    "reachable": both(en="does the repository answer within 5 s?", zh="代码仓库 5 秒内有回应吗？"),
    "missing": both(en="Still missing here, run:", zh="这里还缺少以下依赖，请运行："),
    "open": both(en="Open in {cloud}", zh="在 {cloud} 中打开"),
}


@dataclass(frozen=True)
class Publishing:
    """Where the course is published; while a part is empty, no link to it is written."""

    repository: str = ""
    mirror: str = ""
    release: str = ""

    @property
    def complete(self) -> bool:
        """Whether a cloud machine can fetch the release."""
        return bool(self.repository and self.mirror and self.release)

    @property
    def github(self) -> str:
        """``owner/repo`` where the repository is on GitHub, else nothing."""
        found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", self.repository)
        return found[1] if found else ""

    def notes(self) -> list[Text]:
        """Why there are no badges, if there are none."""
        if not self.complete:
            return [
                both(
                    en="No cloud badges: fill in repository, mirror and release under [tool.decodelab] in pyproject.toml.",
                    zh="没有生成云端徽章：请在 pyproject.toml 的 [tool.decodelab] 里填好 repository、mirror、release。",
                )
            ]
        if not self.github:
            return [
                both(
                    en="No cloud badges: Colab and ModelScope open notebooks from https://github.com/OWNER/REPO only.",
                    zh="没有生成云端徽章：Colab 和 ModelScope 只能打开 https://github.com/OWNER/REPO 上的 notebook。",
                )
            ]
        return []


def read_publishing(root: Path) -> Publishing:
    """``[tool.decodelab]`` of the pyproject.toml in ``root``; empty where there is none."""
    path = root / "pyproject.toml"
    if not path.is_file():
        return Publishing()
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("decodelab", {})
    return Publishing(**{key: table.get(key, "") for key in ("repository", "mirror", "release")})


def setup_cell(chapter: str, lang: str, publishing: Publishing) -> str:
    """The bootstrap cell: where decodelab cannot be imported it installs it, or says how."""
    words = {key: text[lang] for key, text in _WORDS.items()}
    places = vars(publishing) if publishing.complete else {}
    return (_CLOUD if publishing.complete else _HERE).format(chapter=chapter, lang=lang, **words, **places)


def badges(text: str, name: str, lang: str, publishing: Publishing) -> str:
    """The first Markdown cell with its cloud links below the title."""
    if not (publishing.complete and publishing.github):
        return text
    place = f"{publishing.github}/blob/{publishing.release}/notebooks/{lang}/{name}.ipynb"
    links = [
        f"[{_WORDS['open'][lang].format(cloud=cloud)}]({url.format(place=place)})"
        for cloud, url in CLOUDS.items()
    ]
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{' · '.join(links)}\n{rest}"
