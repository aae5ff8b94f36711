"""Opening a checkpoint's tensors safely, whatever spelling they came in.

- safetensors, or ``torch.save`` files read with ``weights_only=True`` and memory-mapped; nothing in
  a checkpoint is ever executed.
- Every missing, extra or misshapen tensor is named in one ``CheckpointError``.
- Source: spec/zonos2.md sections 1.1 and 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import CheckpointError
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config

WEIGHT_FILES = ("model.safetensors", "model.pth", "model.pt", "consolidated/consolidated.pth")
TRAINING_ONLY = (".router.ent_denom", ".router.normalized_entropy")
# Choosing experts is knife-edge (spec 2.6): these stay float32 whatever the weights' dtype is.
FLOAT32_SUFFIXES = (".balancing_biases",)
NAMES_SHOWN = 6


def load_backbone(
    folder: Path, config: Zonos2Config, device: torch.device | str, dtype: torch.dtype
) -> Backbone:
    """Open ``folder``'s weights as a ready ``Backbone`` in ``dtype`` on ``device``.

    Raises ``CheckpointError`` naming the file or tensors when anything is missing or misshapen.
    """
    tensors = canonical_names(read_tensors(find_weights(folder)))
    model = empty_backbone(config)
    check_tensors(expected_shapes(model), tensors)
    placed = {
        name: tensor.to(
            device=device, dtype=torch.float32 if name.endswith(FLOAT32_SUFFIXES) else dtype
        )
        for name, tensor in tensors.items()
    }
    model.load_state_dict(placed, strict=True, assign=True)
    model.prepare()
    return model.eval().requires_grad_(False)


def empty_backbone(config: Zonos2Config) -> Backbone:
    """A backbone without storage (meta device): names and shapes only."""
    with torch.device("meta"):
        return Backbone(config)


def expected_shapes(model: Backbone) -> dict[str, tuple[int, ...]]:
    """Every tensor name a checkpoint of this configuration must hold, with its shape."""
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def find_weights(folder: Path) -> Path:
    """The weight file of a checkpoint folder; raises ``CheckpointError`` naming the choices."""
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    raise CheckpointError(
        f"model: the folder {folder.name!r} has no weights; it must hold one of"
        f" {', '.join(WEIGHT_FILES)} beside params.json."
    )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of one weight file, memory-mapped where the format allows."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt", device="cpu") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, SafetensorError, RuntimeError, ValueError, EOFError) as error:
        raise CheckpointError(
            f"model: {path.name} is damaged or not a plain tensor file ({_first_line(error)})."
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
        raise CheckpointError(f"model: {path.name} holds entries that are no tensors: {strange}.")
    return dict(content)


def canonical_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo other spellings of the released layout: parametrised names, unfused experts."""
    named: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(TRAINING_ONLY):
            continue
        if ".parametrizations." in name and ".original" in name:
            name = name.replace(".parametrizations.", ".").replace(".original", "")
        named[name] = tensor
    for prefix in {name.rsplit("experts.", 1)[0] for name in named if "experts." in name}:
        _fuse_experts(named, prefix + "experts.")
    return named


def _fuse_experts(named: dict[str, Tensor], prefix: str) -> None:
    """Bring ``w1/w3/w2.weight`` or ``gate_up_proj/down_proj`` to ``w13`` (interleaved) and ``w2``."""
    if prefix + "gate_up_proj" in named:
        gate, up = named.pop(prefix + "gate_up_proj").chunk(2, dim=1)
        down = named.pop(prefix + "down_proj", None)
    elif prefix + "w1.weight" in named and prefix + "w3.weight" in named:
        gate, up = named.pop(prefix + "w1.weight"), named.pop(prefix + "w3.weight")
        down = named.pop(prefix + "w2.weight", None)
    else:
        return
    named[prefix + "w13"] = torch.stack([gate, up], dim=2).flatten(1, 2)
    if down is not None:
        named[prefix + "w2"] = down


def check_tensors(expected: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor]) -> None:
    """Raise one ``CheckpointError`` that names every missing, extra and misshapen tensor."""
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
        raise CheckpointError(f"model: the weights do not fit params.json ({told}).")


def _some(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:160]
