"""Reading the small files beside a checkpoint: one JSON object, one strict set of tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.errors import CheckpointError

DETAIL_CHARACTERS = 400


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``; raises ``CheckpointError`` when absent, unreadable or no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"model: the folder {path.parent.name!r} lacks {path.name}; copy it there."
        ) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"model: {path.name} cannot be read ({error}).") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"model: {path.name} must hold one JSON object.")
    return content


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; raises ``CheckpointError`` when absent or damaged."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise CheckpointError(
            f"model: the folder {path.parent.name!r} lacks {path.name}; copy it there."
        ) from None
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"model: {path.name} is damaged; copy it from the checkpoint again ({error})."
        ) from None


def load_strictly(module: nn.Module, tensors: Mapping[str, Tensor], file_name: str) -> None:
    """Fill ``module``; raises ``CheckpointError`` naming missing, extra and misshapen tensors."""
    try:
        module.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        detail = " ".join(str(error).split("\n", 1)[-1].split())
        raise CheckpointError(
            f"model: the tensors of {file_name} do not fit its JSON file"
            f" ({detail[:DETAIL_CHARACTERS]})."
        ) from None
