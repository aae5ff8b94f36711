"""Checks of a request that need no model: said at the door, before a place is taken."""

from __future__ import annotations

import unicodedata

import torch

from engine.errors import InvalidRequest
from engine.family import Family
from engine.request import SpeechRequest

MAX_TEXT_CHARS = 50_000
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
    return text


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
