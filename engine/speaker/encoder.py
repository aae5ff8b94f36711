"""What a speaker encoder offers, and how the one of a checkpoint is opened.

- An encoder turns a recording of one speaker into the vector that the model was trained to follow.
- ``identity`` names the space of its vectors: a stored voice fits only the encoder that made it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from engine.errors import CheckpointError
from engine.speaker import ecapa, nano
from engine.speaker.ecapa import EcapaSpeakerEncoder
from engine.speaker.nano import NanoSpeakerEncoder
from engine.weights import read_json, read_tensors


class SpeakerEncoder(Protocol):
    """From a recording to a speaker embedding. Thread-safe."""

    name: str
    identity: str
    dim: int
    sample_rate_hz: int

    def encode(self, samples: np.ndarray, sample_rate_hz: int) -> Tensor:
        """Mono float32 samples [n] at any rate to an embedding [dim] float32.

        Raises ``InvalidReference`` when the recording cannot carry a voice.
        """
        ...

    def warm(self) -> None:
        """Load what the first ``encode`` would load; raises ``CheckpointError``."""
        ...


# By the "type" of a speaker_encoder.json.
ENCODERS: dict[str, type[NanoSpeakerEncoder]] = {"ecapa_tdnn": NanoSpeakerEncoder}


def open_speaker_encoder(folder: Path) -> SpeakerEncoder | None:
    """The encoder that came with the checkpoint in ``folder``, or None without one.

    It is described by ``speaker_encoder.json``, or is the release's in the subfolder
    ``speaker_encoder``. Raises ``CheckpointError`` when its files cannot be used.
    """
    if (folder / nano.CONFIG_FILE).exists():
        config = read_json(folder / nano.CONFIG_FILE)
        weights = folder / nano.WEIGHTS_FILE
        encoder_type = config.get("type")
        if encoder_type not in ENCODERS:
            raise CheckpointError(
                f"model: {nano.CONFIG_FILE} has type {encoder_type!r}; known are"
                f" {', '.join(ENCODERS)}."
            )
        return ENCODERS[encoder_type](config, read_tensors(weights), identity_of(config, weights))
    subfolder = folder / ecapa.FOLDER
    if (folder / "config.json").is_file() and not (folder / "params.json").is_file():
        subfolder = folder  # a repository of the encoder alone
    if subfolder.is_dir():
        config, weights = read_json(subfolder / "config.json"), subfolder / "model.safetensors"
        return EcapaSpeakerEncoder(config, read_tensors(weights), identity_of(config, weights))
    return None


def identity_of(config: Mapping[str, Any], weights: Path) -> str:
    """A short name of an encoder's vector space: 16 hex digits of configuration and weights."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    digest.update(weights.read_bytes())
    return digest.hexdigest()[:16]
