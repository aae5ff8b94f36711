"""What is asked of the engine and what comes back, as plain values.

- A ``SpeechRequest`` is immutable: nothing in it can leak into another request.
- ``None`` in ``Sampling`` and ``Delivery`` means "the checkpoint's own default".
- Units stand in the names; ranges are checked by ``engine.validate`` before admission.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from engine.text.markup import Pause, Spoken


@dataclass(frozen=True)
class Sampling:
    """How codes are drawn; see spec/zonos2.md section 5. ``None``: the checkpoint's default."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    repetition_window: int | None = None
    repetition_codebooks: int | None = None


@dataclass(frozen=True)
class Delivery:
    """How the words are spoken: the conditioning controls the checkpoint declares.

    ``speaking_rate_bucket``, ``speaking_rate`` (UTF-8 bytes per second) and ``speed`` (multiple of
    the neutral rate) exclude each other. ``quality_buckets`` maps a quality feature to a bucket or
    to None (row absent); features it does not name keep the checkpoint's default.
    ``quality_values`` maps a feature to its raw metric.
    """

    speaking_rate_bucket: int | None = None
    speaking_rate: float | None = None
    speed: float | None = None
    quality_buckets: Mapping[str, int | None] | None = None
    quality_values: Mapping[str, float] | None = None
    accurate_mode: bool = True
    clean_speaker_background: bool = False


EMOTION_AXES = ("valence", "arousal")


@dataclass(frozen=True)
class Emotion:
    """Where the voice is moved: named directions, two axes, and one strength over all of them.

    ``sliders`` maps a direction's name to its weight; axes run from -1 to 1. Source: spec 6.2.
    """

    sliders: Mapping[str, float] = field(default_factory=dict)
    valence: float = 0.0
    arousal: float = 0.0
    strength: float = 1.0

    @property
    def weights(self) -> dict[str, float]:
        """Weights by direction; an axis may come as a slider, too, and then both add up."""
        weights = dict(self.sliders)
        for axis in EMOTION_AXES:
            if value := getattr(self, axis):
                weights[axis] = weights.get(axis, 0.0) + value
        return weights

    @property
    def has_effect(self) -> bool:
        """Whether it moves a voice at all, so that speech without it would differ."""
        return self.strength != 0 and any(self.weights.values())


@dataclass(frozen=True)
class Guidance:
    """How far the speech is pushed away from what it would be without voice, emotion or prefix.

    1 is off. Each scale s adds (s - 1) times the difference of two logits, so several combine.
    """

    speaker: float = 1.0
    emotion: float = 1.0
    prefix: float = 1.0


@dataclass(frozen=True, eq=False)
class SpeechRequest:
    """One ask. ``speaker`` is a speaker embedding [speaker_dim] float32, or None for no voice.

    ``voice_id`` names the stored voice it came from, for calibrations kept by voice. ``pieces``, if
    there are any, are what is said of ``text`` and where it is silent.
    """

    text: str
    speaker: torch.Tensor | None = None
    voice_id: str | None = None
    sampling: Sampling = Sampling()
    delivery: Delivery = Delivery()
    emotion: Emotion | None = None
    guidance: Guidance = Guidance()
    seed: int = 0
    max_new_frames: int | None = None
    language: str | None = None
    owner: str = "local"
    pieces: tuple[Spoken | Pause, ...] = ()
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)


class FinishReason(enum.StrEnum):
    """Why a request ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass
class Timings:
    """When things happened to a request, in seconds of the engine's monotonic clock."""

    submitted_s: float
    admitted_s: float | None = None
    first_chunk_s: float | None = None
    finished_s: float | None = None
    num_prompt_rows: int = 0
    num_frames: int = 0

    @property
    def queue_ms(self) -> float | None:
        """Time spent waiting for a slot."""
        return None if self.admitted_s is None else (self.admitted_s - self.submitted_s) * 1e3

    @property
    def ttfa_ms(self) -> float | None:
        """Time from submission to the first chunk of audio samples."""
        return None if self.first_chunk_s is None else (self.first_chunk_s - self.submitted_s) * 1e3

    @property
    def total_s(self) -> float | None:
        """Time from submission to the end."""
        return None if self.finished_s is None else self.finished_s - self.submitted_s
