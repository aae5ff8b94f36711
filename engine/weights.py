"""Reading a checkpoint's files safely: JSON objects and named tensors, nothing executed.

- safetensors, or ``torch.save`` files read with ``weights_only=True`` and memory-mapped.
- Every missing, extra or misshapen tensor is named in one ``CheckpointError``.
- A matrix may be stored as int8 beside a scale per row (``NAME.row_scale``); it is read as the
  product, in float32. That halves the embedded checkpoint's bfloat16.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.errors import CheckpointError

NAMES_SHOWN = 6
# A checkpoint in several files has a list of them beside it.
INDEX_SUFFIX = ".safetensors.index.json"
ROW_SCALE = ".row_scale"


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``; raises ``CheckpointError`` when absent, unreadable or no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _absent(path) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"model: {path.name} cannot be read ({error}).") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"model: {path.name} must hold one JSON object.")
    return content


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of one weight file by name, memory-mapped where the format allows.

    Raises ``CheckpointError`` when the file is absent, damaged or holds more than tensors.
    """
    return expand_rows(_read_shards(path) if path.name.endswith(INDEX_SUFFIX) else _read(path))


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of one file as they are stored."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt", device="cpu") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except FileNotFoundError:
        raise _absent(path) from None
    except (OSError, SafetensorError, RuntimeError, ValueError, EOFError) as error:
        raise CheckpointError(
            f"model: {path.name} is damaged or not a plain tensor file ({_first_line(error)});"
            " copy or download it again."
        ) from None
    except Exception as error:
        # weights_only raises UnpicklingError (a pickle type we do not import) for anything
        # that is not a tensor: refused, never retried with execution allowed.
        raise CheckpointError(
            f"model: {path.name} holds more than tensors and is refused ({_first_line(error)})."
        ) from None
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        content = content["model"]
    if not isinstance(content, Mapping):
        raise CheckpointError(f"model: {path.name} does not hold a table of named tensors.")
    strange = [name for name, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise CheckpointError(
            f"model: {path.name} holds entries that are no tensors: {_some(strange)}."
        )
    return dict(content)


def store_rows(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix [..., in] as int8 of the same shape and its scales [..., 1] float32.

    The largest number of each row becomes 127, so no number is off by more than 1/254 of it.
    """
    scale = matrix.float().abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / 127
    return torch.round(matrix.float() / scale).to(torch.int8), scale


def expand_rows(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo ``store_rows`` for every tensor that has a ``.row_scale`` beside it."""
    for name in [name for name in tensors if name.endswith(ROW_SCALE)]:
        matrix = name.removesuffix(ROW_SCALE)
        if matrix in tensors:
            tensors[matrix] = tensors[matrix].float() * tensors.pop(name)
    return tensors


def _read_shards(index: Path) -> dict[str, Tensor]:
    """The tensors of all files beside ``index`` that it lists."""
    listed = read_json(index).get("weight_map")
    files = set(map(str, listed.values())) if isinstance(listed, Mapping) else set()
    if not files or any(Path(file).name != file for file in files):
        raise CheckpointError(f"model: {index.name} does not list the files beside it.")
    tensors: dict[str, Tensor] = {}
    for file in sorted(files):
        tensors |= _read(index.parent / file)
    return tensors


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Every tensor name that ``module`` loads, with its shape."""
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def check_tensors(
    expected: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor], what: str
) -> None:
    """Raise one ``CheckpointError`` that names every missing, extra and misshapen tensor.

    ``what`` says which tensors do not fit which description.
    """
    problems = [
        (title, names)
        for title, names in (
            ("missing", sorted(expected.keys() - tensors.keys())),
            ("unexpected", sorted(tensors.keys() - expected.keys())),
            (
                "misshapen",
                [
                    f"{name} is {list(tensors[name].shape)}, must be {list(shape)}"
                    for name, shape in expected.items()
                    if name in tensors and tuple(tensors[name].shape) != shape
                ],
            ),
        )
        if names
    ]
    if problems:
        told = "; ".join(f"{len(names)} {title}: {_some(names)}" for title, names in problems)
        raise CheckpointError(f"model: {what} ({told}).")


def load_strictly(module: nn.Module, tensors: Mapping[str, Tensor], file_name: str) -> None:
    """Fill ``module`` in its own precision; raises ``CheckpointError`` naming what does not fit."""
    check_tensors(
        shapes_of(module), tensors, f"the tensors of {file_name} do not fit its JSON file"
    )
    module.load_state_dict(tensors, strict=True)


def _absent(path: Path) -> CheckpointError:
    return CheckpointError(
        f"model: the folder {path.parent.name!r} has no {path.name}; choose a folder that holds"
        " the whole checkpoint, or copy the file there."
    )


def _some(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(map(str, names[:NAMES_SHOWN])) + (f" and {more} more" if more > 0 else "")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:160]
