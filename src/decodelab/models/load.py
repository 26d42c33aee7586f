"""One loader for every model: a folder with ``config.json``, ``tokenizer.json`` and safetensors files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from decodelab.errors import DecodeLabError
from decodelab.lang import both
from decodelab.models.config import Config, read_config
from decodelab.models.tokenizer import Tokenizer, library

if TYPE_CHECKING:
    import torch

EMBEDDED = Path(__file__).parent / "embedded"


@dataclass(frozen=True)
class Model:
    """A model as it was published: no code, only numbers."""

    config: Config
    weights: dict[str, torch.Tensor]  # by the names of ``config.weights()``
    tokenizer: Tokenizer


def load(model: str | Path = "embedded", dtype: torch.dtype | None = None, device: str = "cpu") -> Model:
    """The model in a folder, or the one that the course brings: ``"embedded"``.

    Weights become ``dtype`` (float32 where none is given) on ``device``. Raises ``DecodeLabError`` where
    the folder is incomplete, its weights are not those of its config, or a library is missing.
    """
    folder = EMBEDDED if model == "embedded" else Path(model)
    config = read_config(folder)
    return Model(config, read_weights(folder, config, dtype, device), Tokenizer(folder))


def read_weights(
    folder: Path, config: Config, dtype: torch.dtype | None = None, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Every weight that ``config`` names, from the safetensors files of ``folder``; what else these hold is left out."""
    read, float32 = library("safetensors.torch").load_file, library("torch").float32
    found = {
        name: weight for path in sorted(folder.glob("*.safetensors")) for name, weight in read(path).items()
    }
    weights = {}
    for name, shape in config.weights():
        if name not in found or tuple(found[name].shape) != shape:
            raise DecodeLabError(misfit(folder, name, shape, found.get(name)))
        weights[name] = found[name].to(device, dtype or float32)
    return weights


def misfit(folder: Path, name: str, shape: tuple[int, ...], got: torch.Tensor | None) -> dict[str, str]:
    """What to say of a weight that is missing, or of another shape than the config's."""
    en, zh = ("is missing", "缺失") if got is None else (f"is {tuple(got.shape)}", f"是 {tuple(got.shape)}")
    return both(
        en=f"The weights in {folder} do not belong to its config.json: {name} should be {shape} and {en}; download the model again.",
        zh=f"{folder} 里的权重与 config.json 不符：{name} 应为 {shape}，实际{zh}；请重新下载模型。",
    )
