"""A notebook as nbformat and nbgrader want it, from whatever a platform made of it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from decodelab.errors import DecodeLabError
from decodelab.notebook.read import parse


def normalised(data: bytes) -> bytes:
    """The notebook as UTF-8 without a BOM and in nbformat's form, else untouched; unreadable bytes stay as they are.

    What nbformat needs of a cell and the platform lost is put in; metadata that is there stays.
    """
    try:
        content = parse(Path("notebook"), data)
        whole = _whole(copy.deepcopy(content))
        if whole == content and _is_utf8(data):
            return data
        return (json.dumps(whole, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
    except (DecodeLabError, RecursionError):
        return data


def _is_utf8(data: bytes) -> bool:
    try:
        return not data.decode("utf-8").startswith("\ufeff")
    except UnicodeDecodeError:
        return False


def _whole(content: dict[str, Any]) -> dict[str, Any]:
    if isinstance(content.get("worksheets"), list):  # nbformat 3, which nbformat itself brings up to date
        return content
    content.update(nbformat=4, nbformat_minor=_number(content.get("nbformat_minor"), 4))
    if not isinstance(content.get("metadata"), dict):
        content["metadata"] = {}
    content["cells"] = [_whole_cell(cell) for cell in content["cells"] if isinstance(cell, dict)]
    return content


def _whole_cell(cell: dict[str, Any]) -> dict[str, Any]:
    source = cell.get("source", cell.pop("input", ""))
    if isinstance(source, list):
        source = [line for line in source if isinstance(line, str)]
    cell["source"] = source if isinstance(source, str | list) else ""
    if not isinstance(cell.get("metadata"), dict):
        cell["metadata"] = {}
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        cell["cell_type"] = "raw"
    if cell["cell_type"] == "code":
        outputs = cell.get("outputs")
        cell["outputs"] = outputs if isinstance(outputs, list) else []
        cell["execution_count"] = _number(cell.get("execution_count"), None)
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    return cell


def _number(value: Any, otherwise: int | None) -> int | None:
    return value if type(value) is int and value >= 0 else otherwise
