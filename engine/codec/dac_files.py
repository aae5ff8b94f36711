"""What a DAC file says: the decoder's sizes and its tensors under one set of names.

- Three spellings exist: descript's own file, which carries its sizes along, transformers'
  ``DacModel`` folder, and a ``codec.json`` with transformers' keys. All become descript's names.
- Weight normalisation is folded here, whichever way torch spelled it.
- Only the decoder's half is taken: what belongs to the encoder is left out by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.codec.context import Convolution, Upsampling
from engine.errors import CheckpointError

KERNEL = 7
DILATIONS = (1, 3, 9)
# What descript's constructor takes for granted: the 44.1 kHz, 8 kbit/s release.
DESCRIPT_DEFAULTS: Mapping[str, Any] = {
    "encoder_dim": 64,
    "encoder_rates": (2, 4, 8, 8),
    "latent_dim": None,
    "decoder_dim": 1536,
    "decoder_rates": (8, 8, 4, 2),
    "n_codebooks": 9,
    "codebook_size": 1024,
    "codebook_dim": 8,
    "sample_rate": 44_100,
}
ENCODER_TENSOR = re.compile(r"encoder\.|quantizer\.quantizers\.\d+\.in_proj\.")
# Length and direction of a weight-normalised tensor: torch's older and newer spelling.
WEIGHT_NORM = {
    ".weight_g": ".weight_v",
    ".parametrizations.weight.original0": ".parametrizations.weight.original1",
}


@dataclass(frozen=True)
class DacConfig:
    """Sizes of the decoder; raises ``CheckpointError`` naming what is missing or impossible."""

    sample_rate_hz: int
    num_codebooks: int
    codebook_size: int
    codebook_dim: int
    latent_dim: int
    width: int  # channels before the first block; every block halves them
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.strides or any(stride < 2 or stride % 2 for stride in self.strides):
            raise CheckpointError(
                f"model: the DAC codec has upsampling strides {list(self.strides)}; only even ones"
                " give whole frames."
            )
        if self.width < 1 or self.width % 2 ** len(self.strides):
            raise CheckpointError(
                f"model: the DAC codec's decoder width {self.width} cannot be halved"
                f" {len(self.strides)} times."
            )

    @classmethod
    def from_transformers(cls, raw: Mapping[str, Any]) -> DacConfig:
        """Read the keys of transformers' ``DacConfig``."""
        try:
            strides = tuple(map(int, raw["downsampling_ratios"]))[::-1]
            return cls(
                sample_rate_hz=int(raw["sampling_rate"]),
                num_codebooks=int(raw["n_codebooks"]),
                codebook_size=int(raw["codebook_size"]),
                codebook_dim=int(raw["codebook_dim"]),
                latent_dim=int(raw["encoder_hidden_size"]) * 2 ** len(strides),
                width=int(raw["decoder_hidden_size"]),
                strides=strides,
            )
        except KeyError as error:
            raise CheckpointError(
                f"model: the DAC codec's JSON file lacks the key {error.args[0]!r}."
            ) from None
        except (TypeError, ValueError) as error:
            raise _unusable(error) from None

    @classmethod
    def from_descript(cls, raw: Mapping[str, Any]) -> DacConfig:
        """Read the constructor arguments kept in descript's file."""
        given = {**DESCRIPT_DEFAULTS, **raw}
        try:
            latent_dim = given["latent_dim"] or (
                int(given["encoder_dim"]) * 2 ** len(given["encoder_rates"])
            )
            return cls(
                sample_rate_hz=int(given["sample_rate"]),
                num_codebooks=int(given["n_codebooks"]),
                codebook_size=int(given["codebook_size"]),
                codebook_dim=int(given["codebook_dim"]),
                latent_dim=int(latent_dim),
                width=int(given["decoder_dim"]),
                strides=tuple(map(int, given["decoder_rates"])),
            )
        except (TypeError, ValueError) as error:
            raise _unusable(error) from None

    @property
    def hop(self) -> int:
        """Samples per frame."""
        return math.prod(self.strides)

    @property
    def layers(self) -> list[Convolution | Upsampling]:
        """The layers that mix time, in the order of the forward pass."""
        reach = KERNEL // 2
        layers: list[Convolution | Upsampling] = [Convolution(reach, reach)]
        for stride in self.strides:
            layers.append(Upsampling(stride, 2 * stride, stride // 2))
            layers += [Convolution(reach * dilation, reach * dilation) for dilation in DILATIONS]
        return [*layers, Convolution(reach, reach)]


def decoder_tensors(tensors: Mapping[str, Tensor], num_blocks: int) -> dict[str, Tensor]:
    """The decoder's tensors under descript's names, weight normalisation folded.

    Those of the encoder are left out; a name that is not understood stays as it is.
    """
    decoder = {name: tensor for name, tensor in tensors.items() if not ENCODER_TENSOR.match(name)}
    modules = _transformers_modules(num_blocks)
    ready: dict[str, Tensor] = {}
    for name, tensor in _folded(decoder).items():
        module, _, leaf = name.rpartition(".")
        ready[f"{modules.get(module, module)}.{leaf}"] = tensor
    return ready


def _folded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every length g and direction v as one weight g v / |v|, |v| over all dimensions but 0."""
    for length, direction in WEIGHT_NORM.items():
        for name in [name for name in tensors if name.endswith(length)]:
            prefix = name.removesuffix(length)
            if prefix + direction in tensors:
                g = tensors.pop(name).float()
                v = tensors.pop(prefix + direction).float()
                norm = torch.linalg.vector_norm(v, dim=tuple(range(1, v.ndim)), keepdim=True)
                tensors[prefix + ".weight"] = v * (g / norm)
    return tensors


def _transformers_modules(num_blocks: int) -> dict[str, str]:
    """Module names of transformers' ``DacModel`` and what descript calls them."""
    names = {
        "decoder.conv1": "decoder.model.0",
        "decoder.snake1": f"decoder.model.{num_blocks + 1}",
        "decoder.conv2": f"decoder.model.{num_blocks + 2}",
    }
    for block in range(num_blocks):
        theirs, ours = f"decoder.block.{block}", f"decoder.model.{block + 1}.block"
        names |= {f"{theirs}.snake1": f"{ours}.0", f"{theirs}.conv_t1": f"{ours}.1"}
        for unit in range(len(DILATIONS)):
            for part, name in enumerate(("snake1", "conv1", "snake2", "conv2")):
                names[f"{theirs}.res_unit{unit + 1}.{name}"] = f"{ours}.{unit + 2}.block.{part}"
    return names


def read_descript(file: Path) -> tuple[DacConfig, dict[str, Tensor]]:
    """Sizes and tensors of ``{"state_dict": ..., "metadata": {"kwargs": ...}}``.

    Beside tensors the file holds numbers, lists and None only, so nothing has to be executed to
    read it. Raises ``CheckpointError`` for a file that is absent, damaged or holds more.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        told = (str(error) or type(error).__name__).splitlines()[0][:160]
        raise CheckpointError(
            f"model: {file.name} is damaged or not a plain tensor file ({told}); copy or download"
            " it again."
        ) from None
    except Exception:
        # weights_only raises UnpicklingError, a pickle type we do not import: refused for good.
        raise CheckpointError(
            f"model: {file.name} holds more than tensors and plain values and is refused."
        ) from None
    content = content if isinstance(content, Mapping) else {}
    metadata, tensors = content.get("metadata"), content.get("state_dict")
    sizes = metadata.get("kwargs") if isinstance(metadata, Mapping) else None
    if not isinstance(sizes, Mapping) or not isinstance(tensors, Mapping):
        raise CheckpointError(
            f"model: {file.name} lacks descript's state_dict or metadata; download it again."
        )
    return DacConfig.from_descript(sizes), dict(tensors)


def _unusable(error: Exception) -> CheckpointError:
    return CheckpointError(f"model: the DAC codec's sizes cannot be used ({error}).")
