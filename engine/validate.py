"""Checks before anything runs: of a request, and of the parts that make an engine."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from engine.codec.base import Codec
from engine.errors import CheckpointError, InvalidRequest
from engine.family import Family
from engine.request import SpeechRequest
from engine.sampling.settings import Range
from engine.speaker.encoder import SpeakerEncoder

MAX_TEXT_CHARS = 50_000
SLIDER_RANGE = Range(
    -1.0, 2.0, False, "weight of this emotion; 0 is none, below 0 leads away from it"
)
EMOTION_RANGES: Mapping[str, Range] = {
    "emotion_valence": Range(-1.0, 1.0, False, "from unpleasant to pleasant"),
    "emotion_arousal": Range(-1.0, 1.0, False, "from calm to excited"),
    "emotion_strength": Range(0.0, 12.0, False, "over all emotions; 1 is as calibrated"),
}
GUIDANCE_RANGES: Mapping[str, Range] = {
    "cfg_scale": Range(-2.0, 5.0, False, "push towards the voice; 1 is off"),
    "emotion_cfg_scale": Range(-2.0, 5.0, False, "push towards the emotion; 1 is off"),
    "prefix_cfg_scale": Range(-2.0, 5.0, False, "push towards what was said before; 1 is off"),
}
MAX_SEED = 2**32 - 1


def check_request(request: SpeechRequest, family: Family) -> str:
    """The text to speak, stripped; raises ``InvalidRequest`` naming field, value, limit, remedy."""
    text = request.text.strip()
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidRequest(
            f"input: the text has {len(text)} characters and the limit is {MAX_TEXT_CHARS};"
            " send it in parts.",
            field="input",
            code="string_above_max_length",
        )
    # One letter or number is enough to have something to say.
    if not any(unicodedata.category(char)[0] in "LN" for char in text):
        raise InvalidRequest(
            f"input: {text[:40]!r} has no letter or number to speak; send some words.",
            field="input",
        )
    if not 0 <= request.seed <= MAX_SEED:
        raise InvalidRequest(
            f"seed: {request.seed} is out of range; choose a whole number from 0 to {MAX_SEED}.",
            field="seed",
        )
    limit = request.max_new_frames
    if limit is not None and not limit >= 1:
        raise InvalidRequest(
            f"max_new_tokens: {limit} is out of range; ask for at least 1, or leave it out.",
            field="max_new_tokens",
        )
    _check_speaker(request, family)
    _check_steering(request)
    return text


def _check_steering(request: SpeechRequest) -> None:
    emotion, guidance = request.emotion, request.guidance
    if emotion is not None:
        for name, weight in emotion.sliders.items():
            SLIDER_RANGE.check(f"emotion_sliders.{name}", weight)
        for field, limits in EMOTION_RANGES.items():
            limits.check(field, getattr(emotion, field.removeprefix("emotion_")))
    scales = (guidance.speaker, guidance.emotion, guidance.prefix)
    for field, scale in zip(GUIDANCE_RANGES, scales, strict=True):
        GUIDANCE_RANGES[field].check(field, scale)


def _check_speaker(request: SpeechRequest, family: Family) -> None:
    speaker = request.speaker
    if speaker is None:
        return
    if family.speaker_dim is None:
        raise InvalidRequest(
            "voice: this model speaks without voices; leave it out.", field="voice"
        )
    if tuple(speaker.shape) != (family.speaker_dim,) or not bool(torch.isfinite(speaker).all()):
        raise InvalidRequest(
            f"voice: a speaker embedding of this model has {family.speaker_dim} finite numbers and"
            f" this one has shape {list(speaker.shape)}; make it again with this model.",
            field="voice",
        )


def check_parts(
    family: Family, codec: Codec, encoder: SpeakerEncoder | None, voices: Mapping[str, Tensor]
) -> None:
    """Raise ``CheckpointError`` when parts of different models were put together."""
    if (codec.num_codebooks, codec.codebook_size) != (family.num_codebooks, family.codebook_size):
        raise CheckpointError(
            f"model: its codec has {codec.num_codebooks} codebooks of {codec.codebook_size} codes"
            f" and the model speaks {family.num_codebooks} of {family.codebook_size}; put the codec"
            " beside it that it was made for."
        )
    sizes = [] if encoder is None else [("speaker encoder", encoder.dim)]
    sizes += [(f"voice {name!r}", voice.shape[0]) for name, voice in voices.items()]
    for what, size in sizes:
        if family.speaker_dim is not None and size != family.speaker_dim:
            raise CheckpointError(
                f"model: its {what} has {size} numbers and the model takes {family.speaker_dim};"
                " put the one beside it that it was made with."
            )


def nearest(name: str, names: Iterable[str], most: int = 10) -> list[str]:
    """What may have been meant by ``name``: names like it, the most alike first, then the others.

    The others stand in the order of the alphabet: a name like none tells nothing by their order.
    """
    known = sorted(set(names))
    alike = difflib.get_close_matches(name, known, n=most)
    return [*alike, *(other for other in known if other not in alike)][:most]
