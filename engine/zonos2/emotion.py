"""Emotion directions: vectors that move a voice towards happy, sad, ... before the model hears it.

    delta = strength * sum over names of weight * calibration * direction

- Three spaces. In ``proj`` the delta is added to the projected row; in ``raw`` and ``lda`` it is
  added to the embedding or its LDA image, whose length is then restored.
- A calibration says how far one step goes for a voice; voices it does not know share a default.
- Files are plain JSON and ``.npy`` arrays of numbers. Source: spec/zonos2.md sections 6.1 and 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import CheckpointError, InvalidRequest
from engine.request import EMOTION_AXES, Emotion
from engine.weights import read_json
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config

MANIFEST_FILE = "manifest.json"
CALIBRATION_FILE = "calibration.json"
LDA_FILES = ("weight", "bias", "pinv")
# A shorter vector has no length to be brought back to; the reference leaves it as it is, too.
MIN_LENGTH = 1e-8


@dataclass(frozen=True)
class Calibration:
    """How far weight 1 of an emotion goes: by voice, else by emotion, else the same for all."""

    by_voice: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    default: Mapping[str, float] = field(default_factory=dict)
    global_default: float = 1.0

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Calibration:
        """Read ``calibration.json``; raises ``CheckpointError`` when a strength is no number."""
        try:
            calibration = cls(
                {
                    str(voice): {str(name): float(value) for name, value in strengths.items()}
                    for voice, strengths in raw.get("by_speaker", {}).items()
                },
                {str(name): float(value) for name, value in raw.get("default", {}).items()},
                float(raw.get("global_default", 1.0)),
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"emotion: {CALIBRATION_FILE} has an unusable value ({error})."
            ) from None
        strengths = [calibration.global_default, *calibration.default.values()]
        strengths += [value for voice in calibration.by_voice.values() for value in voice.values()]
        if not all(map(math.isfinite, strengths)):
            raise CheckpointError(
                f"emotion: {CALIBRATION_FILE} holds a strength that is not finite."
            )
        return calibration

    def strength(self, voice_id: str | None, name: str) -> float:
        """The calibrated strength of one emotion or axis for a stored voice, or for any other."""
        own = self.by_voice.get(voice_id or "", {})
        return own.get(name, self.default.get(name, self.global_default))


class EmotionDirections:
    """The directions of one folder for one model: ``names`` of emotions, and ``axes``."""

    def __init__(
        self,
        space: str,
        vectors: Mapping[str, Tensor],
        axes: tuple[str, ...],
        lda: Mapping[str, Tensor],
        calibration: Calibration | None,
    ) -> None:
        self.space = space
        self.axes = axes
        self.names = tuple(name for name in vectors if name not in axes)
        self.is_calibrated = calibration is not None
        self._vectors = vectors
        self._lda = lda
        self._calibration = calibration or Calibration()

    @classmethod
    def open(
        cls, folder: Path, config: Zonos2Config, device: torch.device | str = "cpu"
    ) -> EmotionDirections:
        """Read a folder of directions; raises ``CheckpointError`` naming the file that is wrong."""
        manifest = read_json(folder / MANIFEST_FILE)
        try:
            space, dim = str(manifest.get("space", "raw")), int(manifest["dim"])
            entries = {
                str(name): (str(entry["file"]), name in EMOTION_AXES or entry.get("kind") == "axis")
                for name, entry in manifest["directions"].items()
            }
            lda_files = (
                {part: str(manifest["lda"][part]) for part in LDA_FILES} if space == "lda" else {}
            )
        except KeyError as error:
            raise CheckpointError(
                f"emotion: {MANIFEST_FILE} lacks the key {error.args[0]!r}."
            ) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"emotion: {MANIFEST_FILE} has an unusable value ({error})."
            ) from None
        _check_width(space, dim, config)
        vectors = {
            name: _read_array(folder, file, (dim,)).to(device)
            for name, (file, _) in entries.items()
        }
        raw_dim = config.speaker_dim or 0
        shapes = {"weight": (dim, raw_dim), "bias": (dim,), "pinv": (raw_dim, dim)}
        calibration = None
        if (folder / CALIBRATION_FILE).exists():
            calibration = Calibration.from_dict(read_json(folder / CALIBRATION_FILE))
        return cls(
            space,
            vectors,
            tuple(name for name, (_, is_axis) in entries.items() if is_axis),
            {
                part: _read_array(folder, file, shapes[part]).to(device)
                for part, file in lda_files.items()
            },
            calibration,
        )

    def steer(
        self, model: Backbone, speaker: Tensor, emotion: Emotion, voice_id: str | None
    ) -> Tensor:
        """The hidden row [dim] of a speaker embedding [speaker_dim], moved by ``emotion``.

        Raises ``InvalidRequest`` naming the emotions there are, for one that there is not.
        """
        delta = self.delta(emotion, voice_id)
        if delta is None:
            return model.project_speaker(speaker)
        if self.space == "proj":
            return model.project_speaker(speaker).float() + delta
        base = speaker.float()
        if self.space == "raw":
            return model.project_speaker(_at_length_of(base, base + delta))
        image = self._lda["weight"] @ base + self._lda["bias"]
        moved = _at_length_of(image, image + delta)
        return model.project_speaker(self._lda["pinv"] @ (moved - self._lda["bias"]))

    def delta(self, emotion: Emotion, voice_id: str | None) -> Tensor | None:
        """The calibrated sum of directions in this space, or None when nothing is asked for.

        Raises ``InvalidRequest``; see ``steer``.
        """
        self._check(emotion)
        if not emotion.has_effect:
            return None
        return emotion.strength * sum(
            (
                weight * self._calibration.strength(voice_id, name) * self._vectors[name]
                for name, weight in emotion.weights.items()
            ),
            start=torch.zeros_like(next(iter(self._vectors.values()))),
        )

    def _check(self, emotion: Emotion) -> None:
        known = ", ".join((*self.names, *self.axes)) or "none"
        for name, weight in emotion.sliders.items():
            if name not in self._vectors:
                raise InvalidRequest(
                    f"emotion_sliders: there is no emotion {name[:64]!r}; choose from {known}.",
                    field="emotion_sliders",
                )
            _check_finite("emotion_sliders", weight)
        _check_finite("emotion_strength", emotion.strength)
        for axis in EMOTION_AXES:
            _check_finite(f"emotion_{axis}", weight := getattr(emotion, axis))
            if weight != 0 and axis not in self.axes:
                raise InvalidRequest(
                    f"emotion_{axis}: the loaded emotion directions have no axis {axis!r}; leave it"
                    f" at 0 and choose from {known}.",
                    field=f"emotion_{axis}",
                )


def _at_length_of(base: Tensor, moved: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(moved)
    rescaled = moved * (torch.linalg.vector_norm(base) / length)
    return torch.where(length > MIN_LENGTH, rescaled, moved)


def _check_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise InvalidRequest(f"{name}: {value} is no finite number; choose another.", field=name)


def _check_width(space: str, dim: int, config: Zonos2Config) -> None:
    widths = {"raw": config.speaker_dim, "lda": config.speaker_lda_dim, "proj": config.dim}
    if config.speaker_dim is None:
        raise CheckpointError("emotion: this model speaks without voices, so none can be moved.")
    if space not in widths:
        raise CheckpointError(
            f"emotion: {MANIFEST_FILE} has space {space!r}; known are {', '.join(widths)}."
        )
    if dim != widths[space]:
        raise CheckpointError(
            f"emotion: the directions are {dim} wide in space {space}, but this model has"
            f" {widths[space] or 'no such space'} there; build them for this model."
        )


def _read_array(folder: Path, name: str, shape: tuple[int, ...]) -> Tensor:
    if not name or Path(name).name != name:
        raise CheckpointError(
            f"emotion: {MANIFEST_FILE} names the file {name!r}; it must lie beside it."
        )
    try:
        array = np.load(folder / name, allow_pickle=False)
        values = torch.from_numpy(np.asarray(array, dtype=np.float32))
    except FileNotFoundError:
        raise CheckpointError(
            f"emotion: the folder {folder.name!r} has no {name}, which {MANIFEST_FILE} names."
        ) from None
    except (OSError, ValueError, TypeError, EOFError) as error:
        told = (str(error) or type(error).__name__).splitlines()[0][:160]
        raise CheckpointError(f"emotion: {name} is no array of numbers ({told}).") from None
    if tuple(values.shape) != shape or not bool(values.isfinite().all()):
        raise CheckpointError(
            f"emotion: {name} has shape {list(values.shape)}; it must hold finite numbers of shape"
            f" {list(shape)}."
        )
    return values
