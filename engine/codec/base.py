"""What every codec offers the engine, and how one is opened.

- A codec turns aligned frames of codes into mono float32 samples, ``hop`` samples per frame.
- Its context is bounded: frame t depends on frames t - context_left .. t + context_right only, so
  ``engine.codec.streaming`` can decode any codec in pieces, exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from engine.codec.dac import DESCRIPT_FILE, TRANSFORMERS_FOLDER, DacCodec
from engine.codec.istft import IstftCodec
from engine.codec.nano import NanoCodec
from engine.errors import CheckpointError
from engine.weights import read_json


class Codec(Protocol):
    """A decoder of codes with bounded context, on one device."""

    sample_rate_hz: int
    hop: int  # samples per frame
    num_codebooks: int
    codebook_size: int
    context_left: int  # frames
    context_right: int  # frames

    @property
    def device(self) -> torch.device:
        """Where ``decode`` wants its codes."""
        ...

    @property
    def decode_rows(self) -> int:
        """Rows of every call made for streaming; see ``engine.codec.streaming``."""
        ...

    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, T, num_codebooks] int64 to samples [B, T * hop] float32.

        Beyond the first and last frame the codec's own zero padding applies.
        """
        ...


CODECS: dict[str, type[NanoCodec] | type[DacCodec] | type[IstftCodec]] = {
    "nano": NanoCodec,
    "dac": DacCodec,
    "istft": IstftCodec,
}


def open_codec(folder: Path, device: torch.device | str) -> Codec:
    """The codec of the checkpoint in ``folder``.

    It is described by ``codec.json``, or is the DAC that stands in or beside the checkpoint as
    people have it. Raises ``CheckpointError`` when it is unusable, or naming what to fetch.
    """
    if not (folder / "codec.json").exists():
        codec = DacCodec.find(folder, device)
        if codec is None:
            raise CheckpointError(
                f"model: the folder {folder.name!r} has no codec.json and no DAC codec; fetch"
                f" descript/dac_44khz (config.json, model.safetensors) into its subfolder"
                f" {TRANSFORMERS_FOLDER}, or put {DESCRIPT_FILE} into it."
            )
        return codec
    config = read_json(folder / "codec.json")
    codec_type = config.get("codec_type")
    if codec_type not in CODECS:
        raise CheckpointError(
            f"model: codec.json has codec_type {codec_type!r}; known are {', '.join(CODECS)}."
        )
    return CODECS[codec_type].open(folder, config, device)
