"""Chapter 0's machine card: is this computer ready for the course, and if not, what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from decodelab.home import home
from decodelab.lang import Text, both, say, tr
from decodelab.show.tell import table_html, table_text, tell

GIB = 2**30
WORDS = {
    "ok": both(en="ok", zh="正常"),
    "warning": both(en="warning", zh="注意"),
    "blocked": both(en="blocked", zh="受阻"),
}
MARKS = {"ok": "✓", "warning": "!", "blocked": "✗"}


@dataclass(frozen=True)
class Row:
    """One line of the card; ``advice`` says what to do, or why nothing need be done."""

    state: str  # "ok" | "warning" | "blocked"
    name: Text
    found: Text | str
    advice: Text | str = ""


def card() -> None:
    """Show the card: as a table in a notebook, as text on a terminal."""
    rows = survey()
    head = tr(en=("", "what", "found", "note"), zh=("", "项目", "检测结果", "说明"))
    lines = [
        (f"{MARKS[r.state]} {say(WORDS[r.state])}", say(r.name), say(r.found), say(r.advice)) for r in rows
    ]
    last = say(verdict(rows))
    tell(f"{table_text(head, lines)}\n\n{last}", as_html=f"{table_html(head, lines)}<p><b>{last}</b></p>")


def verdict(rows: list[Row]) -> Text:
    """One sentence on the whole card."""
    states = {r.state for r in rows}
    if "blocked" in states:
        return both(
            en="Not ready yet: put the blocked rows right, then run this cell again.",
            zh="还不能开始：先解决“受阻”的那几行，再重新运行这个单元格。",
        )
    if "warning" in states:
        return both(
            en="You can start now; the warnings matter only where they say so.",
            zh="可以开始了；“注意”的那几行，只在它们提到的地方才有影响。",
        )
    return both(en="Everything is ready.", zh="一切就绪。")


def survey() -> list[Row]:
    """Every row of the card, in order; takes about a second, imports neither torch nor matplotlib."""
    return [
        python_row(),
        package_row("numpy", minimum=(1, 24), needed=True),
        package_row("matplotlib", minimum=(3, 8)),
        package_row("ipywidgets", minimum=(7, 7)),
        torch_row(),
        gpu_row(gpus()),
        memory_row(memory()),
        disk_row(home()),
        home_row(home()),
        child_row(),
        language_row(),
    ]


def python_row() -> Row:
    return Row("ok", both(en="Python", zh="Python"), platform.python_version())


def installed(name: str) -> str | None:
    """The version of an installed package, found without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package_row(name: str, minimum: tuple[int, int], needed: bool = False) -> Row:
    """A package that the course uses; without a ``needed`` one nothing works."""
    title, version = both(en=name, zh=name), installed(name)
    state = "blocked" if needed else "warning"
    wanted = f'pip install "{name}>={minimum[0]}.{minimum[1]}"'
    if version is None:
        use = {
            "matplotlib": both(en="for the pictures", zh="画图要用到"),
            "ipywidgets": both(en="for the sliders of later chapters", zh="后面章节的滑块要用到"),
        }.get(name, both(en="for everything", zh="全课都要用到"))
        return Row(
            state,
            title,
            both(en="not installed", zh="未安装"),
            both(en=f"{wanted}  ({use['en']})", zh=f"{wanted}（{use['zh']}）"),
        )
    if tuple(int(n) for n in version.split(".")[:2] if n.isdigit()) < minimum:
        return Row(state, title, version, both(en=f"too old: {wanted}", zh=f"版本太旧：{wanted}"))
    return Row("ok", title, version)


def torch_row() -> Row:
    version = installed("torch")
    name = both(en="PyTorch", zh="PyTorch")
    if version:
        return Row("ok", name, version)
    return Row(
        "ok",
        name,
        both(en="not installed", zh="未安装"),
        both(en="fine: needed from chapter 8 on", zh="没关系：第 8 章才用得到"),
    )


def gpus() -> list[tuple[str, float, str]]:
    """(name, compute capability, memory) of every NVIDIA GPU, as ``nvidia-smi`` tells it."""
    query = ["nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
        found = [[part.strip() for part in line.split(",")] for line in answer.splitlines()]
        return [(name, float(capability), memory) for name, capability, memory in found]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def gpu_row(found: list[tuple[str, float, str]]) -> Row:
    name = both(en="GPU", zh="GPU")
    if not found:
        return Row(
            "ok",
            name,
            both(en="none found", zh="未检测到"),
            both(
                en="fine: chapters 0 to 13 run on the CPU",
                zh="没关系：第 0 到 13 章在 CPU 上就能跑",
            ),
        )
    shown = ", ".join(f"{gpu}, {memory}" for gpu, _, memory in found)
    if min(capability for _, capability, _ in found) < 8.0:
        return Row(
            "warning",
            name,
            shown,
            both(
                en="no bfloat16 hardware: choose float16 where a GPU chapter asks for a dtype",
                zh="硬件不支持 bfloat16：GPU 章节要选 dtype 时，请用 float16",
            ),
        )
    return Row("ok", name, shown)


def memory() -> int | None:
    """Bytes of memory that this process may use (a container's limit counts), None if unknown."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _windows_memory()
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    return min(total, int(text)) if text.isdigit() else total


def _windows_memory() -> int | None:
    if sys.platform != "win32":
        return None
    import ctypes

    kilobytes = ctypes.c_ulonglong()
    known = ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024 if known else None


def memory_row(total: int | None) -> Row:
    name = both(en="memory", zh="内存")
    if total is None:
        return Row("ok", name, both(en="unknown", zh="无法得知"))
    found = f"{total / GIB:.1f} GiB"
    if total < 3.5 * GIB:
        return Row(
            "warning",
            name,
            found,
            both(
                en="enough for chapters 0 to 7; close other programs for the model chapters",
                zh="第 0 到 7 章够用；到了要加载模型的章节，请先关掉别的程序",
            ),
        )
    return Row("ok", name, found)


def disk_row(folder: Path) -> Row:
    """Free space where the learner's work is kept."""
    there = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(there).free
    name, found = both(en="free disk", zh="磁盘剩余"), f"{free / GIB:.1f} GiB"
    if free < GIB:
        return Row(
            "blocked" if free < GIB / 100 else "warning",
            name,
            found,
            both(en="Free at least 1 GiB.", zh="请至少腾出 1 GiB。"),
        )
    return Row("ok", name, found)


def home_row(folder: Path) -> Row:
    """Can a passing answer be saved?"""
    name = both(en="your saved work", zh="学习记录")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Row("ok", name, str(folder))
    except OSError as reason:
        return Row(
            "blocked",
            name,
            f"{folder}: {reason.strerror}",
            both(
                en="Set DECODELAB_HOME to a folder that you may write to.",
                zh="请把环境变量 DECODELAB_HOME 设为一个可写的文件夹。",
            ),
        )


def child_row(run: Callable[..., object] = subprocess.run) -> Row:
    """Can a check run your answer in a process of its own?"""
    name = both(en="child processes", zh="子进程")
    try:
        run([sys.executable, "-c", "pass"], check=True, timeout=60, capture_output=True)
        return Row("ok", name, both(en="can be started", zh="可以启动"))
    except (OSError, subprocess.SubprocessError) as reason:
        return Row(
            "blocked",
            name,
            type(reason).__name__,
            both(
                en="Checks need them: use a Python on your own machine, Colab or ModelScope.",
                zh="检查要靠子进程来运行：请换用本机的 Python、Colab 或 ModelScope。",
            ),
        )


def language_row() -> Row:
    return Row(
        "ok",
        both(en="language", zh="语言"),
        tr(en="English", zh="中文"),
        both(en="the other edition: notebooks/zh", zh="另一个版本：notebooks/en"),
    )
