"""Text to token ids and back, by the ``tokenizer.json`` of a model folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from decodelab.errors import DecodeLabError
from decodelab.lang import Text, both


def library(name: str) -> ModuleType:
    """A library that only the real decoder uses; raises ``DecodeLabError`` where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise DecodeLabError(lacking(name.split(".")[0])) from None


def lacking(package: str) -> Text:
    """What to say of a package that only the real decoder uses, where it is not installed."""
    return both(
        en=f'Running a model needs {package}: install it with  pip install "decodelab[torch]"',
        zh=f'运行模型需要 {package}：请用  pip install "decodelab[torch]"  安装',
    )


class Tokenizer:
    """The tokenizer of one model."""

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.exists():
            raise DecodeLabError(
                both(
                    en=f"{folder} is no complete model folder: tokenizer.json is missing; copy it there from where the model is published.",
                    zh=f"{folder} 不是完整的模型文件夹：缺少 tokenizer.json；请从模型的发布处把它复制过来。",
                )
            )
        self._inner = library("tokenizers").Tokenizer.from_file(str(path))

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, after the token that begins a text where the model has one."""
        return self._inner.encode(text).ids

    def decode(self, ids: list[int]) -> str:
        """The text of ``ids``, without tokens that only begin or end one.

        The ids of one character may be several; where its last are missing, ``\\ufffd`` stands for it.
        """
        return self._inner.decode(ids)
