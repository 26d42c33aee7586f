"""Text to token ids and back, by the ``tokenizer.json`` of a model folder."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

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
        try:
            self._inner = library("tokenizers").Tokenizer.from_file(str(path))
        except DecodeLabError:
            raise
        except Exception as reason:  # tokenizers has no class of its own for it
            raise DecodeLabError(
                both(
                    en=f"{path} is damaged ({reason}): copy or download it again.",
                    zh=f"{path} 已损坏（{reason}）：请重新复制或下载。",
                )
            ) from reason
        self._folder = folder

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, after the token that begins a text where the model has one.

        Raises ``DecodeLabError`` where it is no text: half of a surrogate pair, as bytes that are no UTF-8 become.
        """
        if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
            raise DecodeLabError(
                both(
                    en="A prompt has bytes that are no text; write it in UTF-8.",
                    zh="提示词里有不成文字的字节；请用 UTF-8 书写。",
                )
            )
        return self._inner.encode(text).ids

    def chat(self, text: str, **given: Any) -> list[int]:
        """Token ids of ``text`` as a user says it, in the form that the model was trained to answer.

        The form is the model's own template; ``given`` is for what that asks besides, ``enable_thinking=False`` of
        Qwen3 for instance. Raises ``DecodeLabError`` where the model has none.
        """
        user = {"role": "user", "content": text}
        rules = library("jinja2.sandbox").ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        template = rules.from_string(chat_template(self._folder))
        said = template.render(messages=[user], add_generation_prompt=True, **given)
        return self._inner.encode(said, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        """The text of ``ids``, without tokens that only begin or end one.

        The ids of one character may be several; where its last are missing, ``\\ufffd`` stands for it.
        """
        return self._inner.decode(ids)


def chat_template(folder: Path) -> str:
    """The form of a conversation, in Jinja's language, as the folder of a model has it in one of two places."""
    alone, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if alone.exists():
        return alone.read_text(encoding="utf-8")
    known = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    if not isinstance(known.get("chat_template"), str):
        raise DecodeLabError(
            both(
                en=f"The model {folder.name} was not trained to chat: give it a text to continue, with encode(text).",
                zh=f"模型 {folder.name} 没有学过对话：请用 encode(text) 给它一段文字，让它接着写。",
            )
        )
    return known["chat_template"]
