"""The folder that a model's name stands for; what is fetched is kept under the learner's home, whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from decodelab.errors import DecodeLabError
from decodelab.home import home
from decodelab.lang import both
from decodelab.models import hub, smollm2

EMBEDDED = Path(__file__).parent / "embedded"
SMOLLM2 = "SmolLM2-135M-Instruct"
REPOSITORY = re.compile(r"(?:(hf|modelscope):)?(\w[\w.-]*/\w[\w.-]*)")


def folder_of(model: str | Path) -> Path:
    """The folder of ``model``, as ``load`` takes it; fetched first where it is a name and not there yet."""
    if isinstance(model, Path):
        return model
    if model == "embedded":
        return EMBEDDED
    if model == "smollm2":
        return kept(SMOLLM2, smollm2.make)
    named = REPOSITORY.fullmatch(model)
    if not named or Path(model).is_dir():
        return Path(model)
    source = hub.HUBS[named[1] or "hf"]
    return kept(f"{source.name}/{named[2]}", lambda part, folder: hub.fetch(source, named[2], part, folder))


def kept(name: str, make: Callable[[Path, Path], None]) -> Path:
    """The folder of a fetched model.

    ``make(part, folder)`` fills ``part``, where an earlier try may have left something to go on with, and says
    ``folder`` where it says anything.
    """
    folder = home() / "models" / name
    if not folder.is_dir():
        part = folder.with_name(folder.name + ".part")
        try:
            part.mkdir(parents=True, exist_ok=True)
            make(part, folder)
            part.rename(folder)
        except OSError as reason:
            raise DecodeLabError(
                both(
                    en=f"The model could not be kept in {folder} ({reason}): make room there, or set DECODELAB_HOME to a folder that you may write to.",
                    zh=f"模型没能存进 {folder}（{reason}）：请腾出空间，或者把环境变量 DECODELAB_HOME 设为一个可写的文件夹。",
                )
            ) from reason
    return folder
