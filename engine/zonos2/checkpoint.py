"""A checkpoint as a ready backbone, whatever file and spelling its tensors came in.

Source: spec/zonos2.md sections 1.1, 1.3 and 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import CheckpointError
from engine.weights import check_tensors, read_tensors, shapes_of
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.gguf import GgufFile, is_gguf
from engine.zonos2.narrow import narrowed, scale_name

WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model.pth",
    "model.pt",
    "consolidated/consolidated.pth",
)
TRAINING_ONLY = (".router.ent_denom", ".router.normalized_entropy")
# Choosing experts is knife-edge (spec 2.6): these stay float32 whatever the weights' dtype is.
FLOAT32_SUFFIXES = (".balancing_biases",)


def load_backbone(
    checkpoint: Path,
    config: Zonos2Config,
    device: torch.device | str,
    dtype: torch.dtype,
    experts_dtype: torch.dtype | None = None,
) -> Backbone:
    """Open the weights of a folder or GGUF file as a ready ``Backbone`` in ``dtype`` on ``device``.

    ``experts_dtype`` int8 or float8_e4m3fn makes the experts narrow, one tensor after the other.
    Raises ``CheckpointError`` naming the file or tensors when anything is missing or misshapen.
    """
    model = empty_backbone(config)
    place = _place_gguf if is_gguf(checkpoint) else _place_folder
    placed, scales = place(checkpoint, model, device, dtype, experts_dtype)
    model.requires_grad_(False).load_state_dict(placed, strict=True, assign=True)
    for name, scale_rows in scales.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, scale_rows)
    model.prepare()
    return model.eval()


# Tensors by our names, and the scales of narrow ones.
Placed = tuple[dict[str, Tensor], dict[str, Tensor]]


def _place_folder(
    folder: Path,
    model: Backbone,
    device: torch.device | str,
    dtype: torch.dtype,
    experts_dtype: torch.dtype | None,
) -> Placed:
    tensors = canonical_names(read_tensors(find_weights(folder)))
    check_tensors(shapes_of(model), tensors, "the weights do not fit params.json")
    placed: dict[str, Tensor] = {}
    scales: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        scale = None if experts_dtype is None else scale_name(name)
        if scale is not None and experts_dtype is not None:
            placed[name], scales[scale] = narrowed(tensor.to(device), experts_dtype)
        else:
            placed[name] = tensor.to(device=device, dtype=_kept_dtype(name, dtype))
    return placed, scales


def _place_gguf(
    file: Path,
    model: Backbone,
    device: torch.device | str,
    dtype: torch.dtype,
    experts_dtype: torch.dtype | None,
) -> Placed:
    opened, shapes = GgufFile(file), shapes_of(model)
    opened.check(shapes)
    placed: dict[str, Tensor] = {}
    scales: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        scale = None if experts_dtype is None else scale_name(name)
        if scale is not None and experts_dtype is not None:
            placed[name] = torch.empty(shape, dtype=experts_dtype, device=device)
            scales[scale] = torch.empty(shape[:-1], device=device)
            for wide, rows, row_scales in opened.matrices(name, placed[name], scales[scale]):
                narrow, scale_rows = narrowed(wide.to(device), experts_dtype)
                rows.copy_(narrow)
                row_scales.copy_(scale_rows)
        else:
            placed[name] = torch.empty(shape, dtype=_kept_dtype(name, dtype), device=device)
            for wide, part in opened.matrices(name, placed[name]):
                part.copy_(wide)
    return placed, scales


def _kept_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if name.endswith(FLOAT32_SUFFIXES) else dtype


def empty_backbone(config: Zonos2Config) -> Backbone:
    """A backbone without storage (meta device): names and shapes only."""
    with torch.device("meta"):
        return Backbone(config)


def find_weights(folder: Path) -> Path:
    """The weight file of a checkpoint folder; raises ``CheckpointError`` naming the choices."""
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            return folder / name
    raise CheckpointError(
        f"model: the folder {folder.name!r} has no weights; it must hold one of"
        f" {', '.join(WEIGHT_FILES)} beside params.json."
    )


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
    """Bring ``w1/w3/w2.weight`` or ``gate_up_proj/down_proj`` to interleaved ``w13`` and ``w2``."""
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
