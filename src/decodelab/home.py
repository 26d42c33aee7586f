"""Where a learner's things are kept: what passed, and the models that were fetched."""

from __future__ import annotations

import os
from pathlib import Path

KEPT_FOLDERS = ("/content/drive/MyDrive/decodelab", "/mnt/workspace/.decodelab")  # Colab's Drive, ModelScope


def home() -> Path:
    """The folder that keeps a learner's passing code: ``$DECODELAB_HOME``, a cloud's kept folder, or ~/.decodelab."""
    if named := os.environ.get("DECODELAB_HOME"):
        return Path(named).expanduser()
    kept = (Path(folder) for folder in KEPT_FOLDERS)
    return next((f for f in kept if os.access(f.parent, os.W_OK)), Path.home() / ".decodelab")
