"""Stage ``emotion --corpus``: directions of one checkpoint from an emotion-labelled corpus.

- Needs the checkpoint's speaker encoder and, for the spaces lda and proj, its speaker projections;
  the rest of its weights is not computed with.
- The calibration lets the engine speak and asks ``CorpusJudge``. That judge hears with the same
  encoder, so it tells whether the spoken audio carries the shift, not whether people hear it: with
  a recogniser of emotions at hand, give that to ``training.emotion_directions.calibrate``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.engine import Engine
from engine.errors import InvalidReference
from engine.request import Delivery, Emotion, SpeechRequest
from engine.speaker.encoder import SpeakerEncoder, open_speaker_encoder
from engine.weights import read_tensors
from engine.zonos2.checkpoint import find_weights
from training.emotion_directions import (
    NEUTRAL,
    Audio,
    Encode,
    LabelledEmbeddings,
    Speak,
    axes_of,
    calibrate,
    directions_of,
    embed_corpus,
    read_corpus,
    write_calibration,
    write_directions,
)

SEED = 1234
SENTENCES = (
    "The library opens at nine and closes at six on every working day.",
    "There are two boxes of paper on the shelf beside the window.",
    "The road to the village follows the river for about four miles.",
)


def make_from_corpus(
    corpus: Path,
    model: Path,
    folder: Path,
    space: str = "proj",
    open_engine: Callable[[], Engine] | None = None,
) -> None:
    """Write the directions of ``model`` into ``folder``, calibrated if an engine can be opened.

    ``open_engine`` is called after the directions are written and must load them. Raises
    ``ValueError`` for a corpus or model that cannot serve, ``CheckpointError`` for damaged files.
    """
    encoder = open_speaker_encoder(model)
    if encoder is None:
        raise ValueError(f"model: {model} has no speaker encoder, so nothing can be measured.")
    encode = usable(encoder)
    raw = embed_corpus(read_corpus(corpus), encode)
    project, lda = speaker_spaces(model, space)
    embeddings = raw.mapped(project)
    directions = directions_of(embeddings)
    length = embeddings.mean_neutral_length
    write_directions(folder, space, directions, axes_of(directions), length, lda)
    if open_engine is not None:
        with open_engine() as engine:
            voices = engine.voices or {
                speaker: raw.neutral_of(speaker) for speaker in raw.by_emotion[NEUTRAL]
            }
            speak, judge = speaking(engine, voices), CorpusJudge(raw, encode)
            found = calibrate(speak, judge, list(directions), list(voices), SENTENCES)
        write_calibration(folder, found)


def usable(encoder: SpeakerEncoder) -> Encode:
    """The encoder's embeddings, None for a recording that cannot carry a voice."""

    def encode(samples: np.ndarray, sample_rate_hz: int) -> Tensor | None:
        try:
            return encoder.encode(samples, sample_rate_hz)
        except InvalidReference:
            return None

    return encode


def speaker_spaces(
    model: Path, space: str
) -> tuple[Callable[[Tensor], Tensor], dict[str, Tensor] | None]:
    """The map from embeddings to ``space``, and the LDA's matrices where the directions need them.

    Raises ``ValueError`` for a space that the checkpoint does not have.
    """
    if space == "raw":
        return lambda vectors: vectors, None
    tensors = {
        name: tensor.float()
        for name, tensor in read_tensors(find_weights(model)).items()
        if name.startswith("speaker_")
    }
    lda = _layer(tensors, "speaker_lda_projection")
    projection = _layer(tensors, "speaker_projection")
    if space == "lda" and lda is not None:
        weight, bias = lda
        matrices = {"weight": weight, "bias": bias, "pinv": torch.linalg.pinv(weight)}
        return lambda vectors: F.linear(vectors, *lda), matrices
    if space == "proj" and projection is not None:
        if lda is None:
            return lambda vectors: F.linear(vectors, *projection), None
        return lambda vectors: F.linear(F.linear(vectors, *lda), *projection), None
    raise ValueError(f"model: {model} has no space {space!r}; use raw, lda or proj.")


def _layer(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor] | None:
    if name + ".weight" not in tensors:
        return None
    return tensors[name + ".weight"], tensors[name + ".bias"]


class CorpusJudge:
    """How likely the step from a plain to a moved recording is the corpus's step to an emotion.

    Steps away from a speaker's neutral mean are compared within the span of the directions, as
    normal clouds of one common width around each emotion's mean step; neutral is no step.
    """

    def __init__(self, embeddings: LabelledEmbeddings, encode: Encode) -> None:
        self._encode = encode
        directions = torch.stack(list(directions_of(embeddings).values()))
        self._basis = torch.linalg.qr(directions.T).Q  # [dim, emotions]
        clouds = {
            emotion: torch.cat(
                [
                    (own - embeddings.neutral_of(speaker)) @ self._basis
                    for speaker, own in by_speaker.items()
                ]
            )
            for emotion, by_speaker in embeddings.by_emotion.items()
        }
        self._emotions = list(clouds)
        self._centres = torch.stack([cloud.mean(0) for cloud in clouds.values()])
        spread = torch.cat([cloud - cloud.mean(0) for cloud in clouds.values()])
        self._variance = spread.square().mean().clamp(min=1e-12)

    def __call__(self, spoken: Audio, plain: Audio, emotion: str) -> float:
        moved, base = self._encode(*spoken), self._encode(*plain)
        if moved is None or base is None:
            return 0.0  # so strong that no speech is left
        distances = ((moved - base) @ self._basis - self._centres).square().sum(1)
        likelihoods = (-distances / (2 * self._variance)).softmax(0)
        return float(likelihoods[self._emotions.index(emotion)])


def speaking(engine: Engine, voices: Mapping[str, Tensor]) -> Speak:
    """Let ``engine`` speak with one seed, without quality controls and without a calibration."""
    quality = {
        control.name: None for control in engine.family.controls if control.kind == "quality"
    }

    def speak(text: str, voice: str, emotion: str | None, strength: float) -> Audio:
        moved = None if emotion is None else Emotion({emotion: 1.0}, strength=strength)
        request = SpeechRequest(
            text,
            speaker=voices[voice],
            emotion=moved,
            delivery=Delivery(quality_buckets=quality),
            seed=SEED,
        )
        return engine.submit(request).read()

    return speak
