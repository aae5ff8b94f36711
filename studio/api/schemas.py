"""The fields of a speech request, as the outside world sends them.

- One pydantic model holds the fields; ``ALIASES`` holds other people's names for them.
- Ranges come from the engine; a wrong value is an ``InvalidRequest`` that names the field as it was
  sent. A truth value, text or NaN is not a number; a fraction is not a whole number.
- What the checkpoint declares (rates, qualities, markers) is checked by the engine alone.
- Source: spec/api.md F1, spec/SETTLED.md.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from engine import (
    EMOTION_RANGES,
    GUIDANCE_RANGES,
    MAX_SEED,
    SAMPLING_RANGES,
    InvalidRequest,
    Range,
)
from studio.api.languages import language_code

ALIASES: Mapping[str, str] = {
    "text": "input",
    "speaker": "voice",
    "topk": "top_k",
    "max_tokens": "max_new_tokens",
    "format": "response_format",
}
FORMATS = ("wav", "pcm")
FADE_RANGE = Range(0.0, 2000.0, False, "milliseconds; 0 fades nothing")
# OpenAI's limits, which its clients' users know.
SPEED_RANGE = Range(0.25, 4.0, False, "1 is the usual pace")


class ReferenceItem(BaseModel):
    """One recording to speak like; exactly one field holds the sound or names it."""

    model_config = ConfigDict(strict=True, extra="allow")

    audio_path: str | None = Field(None, description="data: URI, URL, or path below --media-root")
    ref_audio: str | None = Field(None, description="the same")
    audio: str | None = Field(None, description="the same")
    url: str | None = Field(None, description="the same")
    data: str | None = Field(None, description="base64 of the recording")
    media_type: str | None = Field(None, description="accepted; the sound itself is looked at")

    @property
    def sounds(self) -> Mapping[str, str]:
        """What was given, by field name."""
        names = ("audio_path", "ref_audio", "audio", "url", "data")
        return {name: sound for name in names if (sound := getattr(self, name)) is not None}


def _limited(limits: Range) -> Any:
    return Field(
        None,
        description=limits.meaning,
        json_schema_extra={"minimum": limits.minimum, "maximum": limits.maximum},
    )


def _per_feature(what: str) -> Any:
    return Field(
        None,
        description=f"{what} by name of quality feature, null for none; or a list in their order",
        json_schema_extra={"anyOf": [{"type": "object"}, {"type": "array"}, {"type": "null"}]},
    )


class SpeechBody(BaseModel):
    """The body of POST /v1/audio/speech. What is absent takes the model's own default."""

    model_config = ConfigDict(strict=True, extra="forbid")

    input: str = Field(description="the text to speak; also accepted as text")
    model: str | None = Field(None, description="any name; the open model answers")
    voice: str | None = Field(
        None, description='a stored voice, as "name" or {"id": "name"}; also accepted as speaker'
    )
    references: list[ReferenceItem] | None = Field(None, description="one recording to speak like")
    ref_audio: str | None = Field(
        None, description="the same in short: data: URI, base64, URL, or path below --media-root"
    )
    language: str | None = Field(None, description="name or code; null and Auto: text as it is")
    response_format: Literal["wav", "pcm"] = Field(
        "wav", description="wav, or pcm: 16-bit little-endian samples without a header"
    )
    stream: bool = Field(False, description="send the sound while it is made")
    seed: int | None = Field(
        None,
        description="same request and seed: same samples; null and -1 draw one, see X-Seed",
        json_schema_extra={"minimum": -1, "maximum": MAX_SEED},
    )
    max_new_tokens: int | None = Field(
        None,
        description="longest speech, in frames; also accepted as max_tokens",
        json_schema_extra={"minimum": 1},
    )
    temperature: float | None = _limited(SAMPLING_RANGES["temperature"])
    top_k: int | None = _limited(SAMPLING_RANGES["top_k"])
    top_p: float | None = _limited(SAMPLING_RANGES["top_p"])
    min_p: float | None = _limited(SAMPLING_RANGES["min_p"])
    repetition_penalty: float | None = _limited(SAMPLING_RANGES["repetition_penalty"])
    repetition_window: int | None = _limited(SAMPLING_RANGES["repetition_window"])
    repetition_codebooks: int | None = _limited(SAMPLING_RANGES["repetition_codebooks"])
    speed: float | None = _limited(SPEED_RANGE)
    speaking_rate: float | None = Field(None, description="UTF-8 bytes of text per second")
    speaking_rate_bucket: float | None = Field(None, description="index of the model's rate bucket")
    quality_buckets: Any = _per_feature("bucket")
    quality_values: Any = _per_feature("measured value")
    accurate_mode: bool = Field(True, description="false speaks more freely")
    clean_speaker_background: bool = Field(False, description="the reference is free of noise")
    fade_out_ms: float = Field(
        0.0,
        description="length of a fade at the end",
        json_schema_extra={"minimum": FADE_RANGE.minimum, "maximum": FADE_RANGE.maximum},
    )
    emotion_enabled: bool | None = Field(None, description="false ignores the emotion fields")
    emotion_sliders: dict[str, Any] | None = Field(
        None, description="weight of each emotion, 0 to 2, by name"
    )
    emotion_valence: float | None = _limited(EMOTION_RANGES["emotion_valence"])
    emotion_arousal: float | None = _limited(EMOTION_RANGES["emotion_arousal"])
    emotion_strength: float | None = _limited(EMOTION_RANGES["emotion_strength"])
    cfg_scale: float | None = _limited(GUIDANCE_RANGES["cfg_scale"])
    emotion_cfg_scale: float | None = _limited(GUIDANCE_RANGES["emotion_cfg_scale"])
    prefix_cfg_scale: float | None = _limited(GUIDANCE_RANGES["prefix_cfg_scale"])
    strict: bool = Field(False, description="refuse a field that would be ignored")

    @field_validator("voice", mode="before")
    @classmethod
    def _unwrap(cls, value: object) -> object:
        return value["id"] if isinstance(value, dict) and "id" in value else value

    @field_validator("response_format", mode="before")
    @classmethod
    def _known_format(cls, value: object, info: ValidationInfo) -> str:
        name = value.strip().lower() if isinstance(value, str) else None
        if name not in FORMATS:
            remedy = f"choose one of {', '.join(FORMATS)}"
            raise refused(sent_as(info), value, remedy, code="unsupported_format")
        return name

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str | None, info: ValidationInfo) -> str | None:
        return language_code(value, sent_as(info))

    @field_validator(*SAMPLING_RANGES, mode="before")
    @classmethod
    def _in_range(cls, value: object, info: ValidationInfo) -> float:
        assert info.field_name is not None
        return SAMPLING_RANGES[info.field_name].check(sent_as(info), value)

    @field_validator(*EMOTION_RANGES, *GUIDANCE_RANGES, mode="before")
    @classmethod
    def _steers(cls, value: object, info: ValidationInfo) -> float:
        assert info.field_name is not None
        limits = {**EMOTION_RANGES, **GUIDANCE_RANGES}[info.field_name]
        return limits.check(sent_as(info), value)

    @field_validator("fade_out_ms", mode="before")
    @classmethod
    def _fades(cls, value: object, info: ValidationInfo) -> float:
        return FADE_RANGE.check(sent_as(info), value)

    @field_validator("speed", mode="before")
    @classmethod
    def _usual_is_absent(cls, value: object, info: ValidationInfo) -> float | None:
        speed = SPEED_RANGE.check(sent_as(info), value)
        return None if speed == 1 else speed  # OpenAI's clients send 1 without meaning it

    @field_validator("seed", mode="before")
    @classmethod
    def _seed(cls, value: object, info: ValidationInfo) -> int | None:
        remedy = f"give a whole number from 0 to {MAX_SEED}, or -1 to have one drawn"
        seed = _whole(sent_as(info), value, -1, MAX_SEED, remedy)
        return None if seed == -1 else seed

    @field_validator("max_new_tokens", mode="before")
    @classmethod
    def _at_least_one(cls, value: object, info: ValidationInfo) -> int:
        remedy = "give a whole number of frames from 1, or leave it out"
        return _whole(sent_as(info), value, 1, math.inf, remedy)


def sent_as(info: ValidationInfo) -> str:
    """The name under which the client sent the field at hand."""
    assert info.field_name is not None
    return str((info.context or {}).get(info.field_name, info.field_name))


def refused(
    field: str, value: object, remedy: str, *, code: str = "invalid_value"
) -> InvalidRequest:
    """The error for a value that cannot be used."""
    return InvalidRequest(
        f"{field}: {reprlib.repr(value)} is not allowed; {remedy}.", field=field, code=code
    )


def _whole(field: str, value: Any, minimum: int, maximum: float, remedy: str) -> int:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not is_whole or isinstance(value, bool) or not minimum <= value <= maximum:
        raise refused(field, value, remedy)
    return int(value)
