"""The bodies of Zyphra's routes: its names, types and defaults, and what they mean at every door.

- A field of the wrong type is a fault of the schema, answered with 422 as Zyphra's server does.
  What a value means is checked where all requests are, and answered with 400.
- Null is absent, but for the two fields in which Zyphra gives it a meaning of its own.
- A gate that is closed (``speaking_rate_enabled``, ``emotion_enabled``) hides the fields behind it;
  they are reported as ignored, so that nobody wonders.
- Source: spec/api.md A1, F15; spec/zonos2.md 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from engine import InvalidRequest
from studio.api.doors import Door

# Bare samples are 32-bit floats here, at the model's own rate.
ZYPHRA = Door("pcm_f32", None, False)
_RAW = "pcm_f32"
_FORMAT_FIELDS = ("format", "response_format", "output_format")
_RATE_FIELDS = ("speaking_rate_bucket", "speaking_rate", "speed")
_RATE_GATED = (*_RATE_FIELDS, "speed_factor", "rate_bucket", "speed_mode")
_EMOTION_GATED = (
    *("emotion", "emotion_sliders", "emotion_valence", "emotion_arousal"),
    *("emotion_strength", "emotion_cfg_scale"),
)
# Any pace above 0 is accepted here; one beyond these means the first or the last bucket anyway.
_SPEEDS = (0.25, 4.0)

# JSON knows no whole numbers: 106.0 is one, and whether it is, is said in words elsewhere.
Whole = Annotated[float, WithJsonSchema({"type": "integer"})]
PerFeature = dict[str, Any] | list[Any]


class _ZyphraBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class GenerateBody(_ZyphraBody):
    """The body of POST /tts/generate; every field of POST /v1/audio/speech may be sent, too."""

    text: str = Field(description="the text to speak; also accepted as input")
    language: str | None = Field("en_us", description="code or name, or detect; null: as it is")
    text_normalization: bool = Field(True, description="false: text as it is")
    stream: bool = Field(True, description="send the sound while it is made")
    format: str = Field(
        "pcm", description="pcm: 32-bit floats; wav, mp3, ...: whole files unless stream is true"
    )
    seed: Whole | None = Field(None, description="drawn if absent, see X-Seed")
    temperature: float | None = Field(None, description="the model's own default, as all below")
    topk: Whole | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_window: Whole | None = None
    repetition_penalty: float | None = None
    repetition_codebooks: Whole | None = None
    max_tokens: Whole | None = Field(None, description="longest speech, in frames")
    fade_out_ms: float = 0.0
    cfg_scale: float = 1.0
    prefix_cfg_scale: float = 1.0
    speaking_rate_enabled: bool = Field(False, description="opens the three fields that follow")
    speed: float | None = Field(None, description="multiple of the usual rate")
    speaking_rate: float | None = Field(None, description="UTF-8 bytes of text per second")
    speaking_rate_bucket: Whole | None = None
    quality_enabled: bool = Field(True, description="false: no quality is asked for")
    quality_buckets: PerFeature | None = Field(
        None, description="the whole choice; the model's own if absent, nothing at all if null"
    )
    quality_values: PerFeature | None = None
    clean_speaker_background: bool = False
    accurate_mode: bool = True
    emotion_enabled: bool = Field(False, description="opens the fields that follow")
    emotion_sliders: dict[str, Any] | None = None
    emotion_valence: float = 0.0
    emotion_arousal: float = 0.0
    emotion_strength: float = 1.0
    emotion_cfg_scale: float = 1.0
    long_form: bool | None = None
    long_form_chunk_chars: Whole | None = None
    long_form_window_chunks: Whole | None = None
    long_form_pin_anchor: bool | None = None
    long_form_split_mode: str | None = None
    speaker_audio_base64: str | None = Field(None, description="a recording; one speaker of these")
    speaker_wav_base64: str | None = Field(None, description="the same")
    speaker_audio_name: str | None = None
    speaker_embedding_base64: str | None = Field(None, description="a .npy or .npz file")
    speaker_embedding_name: str | None = None
    speaker_embedding_id: str | None = Field(None, description="an id of GET /tts/speakers")
    speaker_blend_embedding_id_a: str | None = None
    speaker_blend_embedding_id_b: str | None = None
    speaker_blend_t: float | None = Field(None, description="share of the second one; 0.5")


class SpeakerBody(_ZyphraBody):
    """The body of POST /tts/speakers: one recording or one embedding."""

    label: str | None = Field(None, description="what people call it; the file's name if absent")
    speaker_audio_base64: str | None = Field(None, description="a recording, or a data: URI of it")
    speaker_wav_base64: str | None = Field(None, description="the same")
    speaker_audio_name: str | None = Field(None, description="the name of its file")
    speaker_embedding_base64: str | None = Field(None, description="a .npy or .npz file")
    speaker_embedding_name: str | None = Field(None, description="the name of its file")
    consent: bool = Field(False, description="true: you may use this voice")


class SaveBody(_ZyphraBody):
    """The body of POST /tts/speakers/{id}/save."""

    name: str | None = Field(None, description="its name in the library; the label if absent")
    consent: bool = Field(False, description="true: you have the right to store this voice")
    language: str | None = None
    tags: list[str] = Field(default_factory=list)
    notes: str = ""


class SchemaFault(Exception):
    """Fields of the wrong type: ``detail`` in FastAPI's form, without what was sent."""

    def __init__(self, error: ValidationError) -> None:
        super().__init__(str(error.error_count()))
        found = error.errors(include_url=False, include_context=False, include_input=False)
        self.detail = [{**fault, "loc": ["body", *fault["loc"]]} for fault in found]


def checked_types(model: type[_ZyphraBody], payload: Mapping[str, object]) -> dict[str, Any]:
    """The fields of ``payload`` that are not null; raises ``SchemaFault``."""
    given = {name: value for name, value in payload.items() if value is not None}
    try:
        model.model_validate(given)
    except ValidationError as error:
        raise SchemaFault(error) from None
    return given


def speech_fields(
    payload: Mapping[str, object], features: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """A body of POST /tts/generate in the fields of every door, and those behind closed gates.

    ``features`` are the quality features of the open model. Raises ``SchemaFault``, and
    ``InvalidRequest`` for an open gate with nothing behind it.
    """
    named = payload if "text" in payload else {**payload, "text": payload.get("input")}
    fields = checked_types(GenerateBody, named)
    if "input" in fields and "text" not in payload:
        del fields["text"]
    fields.setdefault("speaking_rate_enabled", False)
    fields["emotion_enabled"] = bool(fields.get("emotion_enabled"))
    ignored = _behind_closed_gates(fields)
    _set_pace(fields)
    _set_language(fields, payload)
    _set_quality(fields, payload, features)
    _set_format(fields)
    return fields, ignored


def _behind_closed_gates(fields: dict[str, Any]) -> list[str]:
    hidden = [] if fields["speaking_rate_enabled"] else [n for n in _RATE_GATED if n in fields]
    if not fields["emotion_enabled"]:
        hidden += [name for name in _EMOTION_GATED if name in fields]
    for name in hidden:
        del fields[name]
    return hidden


def _set_pace(fields: dict[str, Any]) -> None:
    if not fields["speaking_rate_enabled"]:
        return
    if not any(name in fields for name in _RATE_GATED):
        raise InvalidRequest(
            f"speaking_rate_enabled: it needs one of {', '.join(_RATE_FIELDS)}; send one of them.",
            field="speaking_rate_enabled",
            code="missing_required_parameter",
        )
    fields.setdefault("speed_mode", "condition")
    speed = fields.get("speed", 0)
    if speed > 0:
        fields["speed"] = min(max(speed, _SPEEDS[0]), _SPEEDS[1])


def _set_language(fields: dict[str, Any], payload: Mapping[str, object]) -> None:
    if not any(name in payload for name in ("language", "lang", "lang_code")):
        fields["language"] = "en_us"


def _set_quality(
    fields: dict[str, Any], payload: Mapping[str, object], features: Sequence[str]
) -> None:
    """A choice that was sent is the whole choice: what it does not name is not asked for."""
    if "quality_buckets" not in payload or not fields.get("quality_enabled", True):
        return
    chosen = fields.get("quality_buckets", {})
    if isinstance(chosen, list):
        fields["quality_buckets"] = [*chosen, *[None] * (len(features) - len(chosen))]
    else:
        fields["quality_buckets"] = dict.fromkeys(features) | chosen


def _set_format(fields: dict[str, Any]) -> None:
    for name in _FORMAT_FIELDS:
        if isinstance(fields.get(name), str) and fields[name].strip().lower() == "pcm":
            fields[name] = _RAW
    is_raw = all(fields.get(name, _RAW) == _RAW for name in _FORMAT_FIELDS)
    fields.setdefault("stream", is_raw and "stream_format" not in fields)


def takes(model: type[_ZyphraBody], *examples: dict[str, Any]) -> dict[str, Any]:
    """What a route says of its body in /openapi.json."""
    content = {
        "schema": model.model_json_schema(),
        "examples": {f"example {at}": {"value": value} for at, value in enumerate(examples, 1)},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}
