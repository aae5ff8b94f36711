"""From what the user calls a model to a folder on disk."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import CheckpointError

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
# The model page writes both spellings; the repository has one.
_ALIASES = {"Zyphra/zonos2": "Zyphra/ZONOS2"}
_WANTED = ["*.json", "*.safetensors", "*.pth"]


def checkpoint_folder(model: str | Path) -> Path:
    """The folder of ``model``: a path as it is, or a hub repository ``owner/name`` downloaded.

    Raises ``CheckpointError`` when there is no such folder or the download fails.
    """
    if Path(model).is_dir():
        return Path(model)
    name = _ALIASES.get(str(model), str(model))
    if not _REPOSITORY.fullmatch(name) or name.startswith("."):
        raise CheckpointError(
            f"model: there is no folder {str(model)!r}; give a checkpoint folder or a hub"
            " repository such as Zyphra/ZONOS2."
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CheckpointError(
            f"model: {name} must be downloaded and huggingface_hub is not installed; install it, or"
            " give a checkpoint folder."
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED))
    except Exception as error:
        raise CheckpointError(
            f"model: {name} could not be downloaded ({type(error).__name__}); check the network, or"
            " give a folder that holds it."
        ) from None
