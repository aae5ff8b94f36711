"""The ready voices that come with a checkpoint."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from engine.errors import CheckpointError
from engine.weights import read_tensors

VOICES_FILE = "voices.safetensors"


def load_voices(folder: Path) -> dict[str, Tensor]:
    """Speaker embeddings [dim] float32 by name, in the order of names; empty without the file.

    Raises ``CheckpointError`` naming a voice that is no finite vector of the others' size.
    """
    if not (folder / VOICES_FILE).exists():
        return {}
    voices = {
        name: tensor.float() for name, tensor in sorted(read_tensors(folder / VOICES_FILE).items())
    }
    sizes = {tuple(voice.shape) for voice in voices.values()}
    for name, voice in voices.items():
        if voice.ndim != 1 or not voice.isfinite().all():
            raise CheckpointError(
                f"model: the voice {name!r} in {VOICES_FILE} is no vector of finite numbers."
            )
    if len(sizes) > 1:
        raise CheckpointError(
            f"model: the voices in {VOICES_FILE} differ in size: {sorted(sizes)}."
        )
    return voices
