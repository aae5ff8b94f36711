"""The fields of a speech request, as the outside world sends them.

- One pydantic model holds the union of everybody's fields; other names and spellings of them are
  undone in ``spellings.py`` before.
- Ranges come from the engine; a wrong value is an ``InvalidRequest`` that names the field as it was
  sent. A truth value, text or NaN is not a number; a fraction is not a whole number.
- What the checkpoint declares (rates, qualities, markers) is checked by the engine alone.
- Source: spec/api.md F1, spec/SETTLED.md.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from engine import (
    EMOTION_RANGES,
    GUIDANCE_RANGES,
    MAX_PRONUNCIATIONS,
    MAX_SEED,
    SAMPLING_RANGES,
    InvalidRequest,
    Pronunciation,
    Range,
    check_pronunciations,
)
from studio.api.languages import language_code
from studio.api.texts import RULES, Rule
from studio.media.encode import FORMATS, SAMPLE_RATES_HZ, bits_per_second, known_format
from studio.timing import GRANULARITIES, Granularity, granularities
from studio.vectors import MAX_DIM

FADE_RANGE = Range(0.0, 2000.0, False, "milliseconds; 0 fades nothing")
# OpenAI's limits, which its clients' users know.
SPEED_RANGE = Range(0.25, 4.0, False, "1 is the usual pace")
BLEND_RANGE = Range(0.0, 1.0, False, "share of the second voice")
_RANGES: Mapping[str, Range] = {
    **SAMPLING_RANGES,
    **EMOTION_RANGES,
    **GUIDANCE_RANGES,
    "fade_out_ms": FADE_RANGE,
    "speed": SPEED_RANGE,
    "speaker_blend_t": BLEND_RANGE,
}


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


class WordItem(BaseModel):
    """A word that is said otherwise than it is written."""

    model_config = ConfigDict(strict=True, extra="forbid")

    written: str = Field(description="a word, or some; whole words only")
    spoken: str = Field(description="what is said in its place")
    language: str | None = Field(None, description="only in this language; null: in every one")
    case_sensitive: bool = Field(False, description="true: only in this very spelling")


def words_of(items: Sequence[WordItem], field: str) -> tuple[Pronunciation, ...]:
    """The entries that were sent as ``field``, checked and tidied; raises ``InvalidRequest``."""
    return check_pronunciations(
        (
            Pronunciation(
                item.written,
                item.spoken,
                language_code(item.language, f"{field}[{at}].language"),
                item.case_sensitive,
            )
            for at, item in enumerate(items)
        ),
        field,
    )


def _limited(name: str, default: float | None = None) -> Any:
    limits = _RANGES[name]
    return Field(
        default,
        description=limits.meaning,
        json_schema_extra={"minimum": limits.minimum, "maximum": limits.maximum},
    )


def _per_feature(what: str) -> Any:
    return Field(
        None,
        description=f"{what} by name of quality feature, null for none; or a list in their order",
        json_schema_extra={"anyOf": [{"type": "object"}, {"type": "array"}, {"type": "null"}]},
    )


def _listed(value: object, info: ValidationInfo) -> object:
    """Words that came as ``{"word": "how"}`` as the items they mean."""
    if isinstance(value, list | dict) and len(value) > MAX_PRONUNCIATIONS:
        raise InvalidRequest(
            f"{sent_as(info)}: there are {len(value)} entries and the limit is"
            f" {MAX_PRONUNCIATIONS}; leave some out.",
            field=sent_as(info),
            code="too_many_pronunciations",
        )
    if not isinstance(value, dict):
        return value
    return [{"written": word, "spoken": spoken} for word, spoken in value.items()]


WordItems = Annotated[list[WordItem], BeforeValidator(_listed)]


class WordsBody(BaseModel):
    """The whole dictionary of an owner."""

    model_config = ConfigDict(strict=True, extra="forbid")

    pronunciations: WordItems


class SpeechBody(BaseModel):
    """The body of POST /v1/audio/speech. What is absent takes the model's own default."""

    model_config = ConfigDict(strict=True, extra="forbid")

    # What is said, and by whom; of the ways to name a speaker, one.
    input: str = Field(description="the text to speak; also accepted as text")
    model: str | None = Field(None, description="any name; the open model answers")
    voice: str | None = Field(
        None,
        description='a stored voice, as "name" or {"id": "name"}; also accepted as speaker,'
        " voice_id and speaker_embedding_id",
    )
    references: list[ReferenceItem] | None = Field(
        None, max_length=100, description="one recording to speak like"
    )
    ref_audio: str | bytes | None = Field(
        None,
        description="the same in short: data: URI, base64, URL, or path below --media-root; in a"
        " form also a file. Also accepted as speaker_audio_base64, speaker_wav_base64,"
        " reference_audio, reference, audio_sample",
    )
    speaker_embedding: list[float] | None = Field(
        None, max_length=MAX_DIM, description="a speaker embedding"
    )
    speaker_embedding_base64: str | bytes | None = Field(
        None,
        description="base64 of a .npy or .npz file with one embedding, or rows to be averaged",
    )
    speaker_blend_embedding_id_a: str | None = Field(
        None, description="the first of two voices to blend; also accepted as blend: {a, b, t}"
    )
    speaker_blend_embedding_id_b: str | None = Field(None, description="the second one")
    speaker_blend_t: float | None = _limited("speaker_blend_t")
    consent: bool | str | None = Field(
        None, description="true, or words: you may use the recording you send"
    )
    language: str | None = Field(
        None,
        description="name or code, or detect; null and Auto: text as it is; also lang, lang_code",
    )
    text_normalization: bool | None = Field(
        None,
        description="read numbers, dates and signs as words; null: where there is a language;"
        " false: the text as it is. Also accepted as normalize",
    )
    cleaning: bool | dict[Rule, bool] | None = Field(
        None, description="read what was pasted as a reader would; or single rules on and off"
    )
    markup: bool | None = Field(None, description="follow [pause 500ms] and SSML in the text")
    pronunciations: WordItems | None = Field(
        None,
        description='words said otherwise, in this request alone; also as {"word": "how"}',
    )
    # How the sound is sent.
    response_format: str | None = Field(
        None,
        description="also accepted as format and output_format, and as in mp3_44100_128; pcm:"
        " 16-bit little-endian samples without a header, pcm_f32: 32-bit floats",
        json_schema_extra={"anyOf": [{"enum": list(FORMATS)}, {"type": "null"}]},
    )
    sample_rate: int | None = Field(
        None,
        description="samples per second; the model's own if left out",
        json_schema_extra={"anyOf": [{"enum": list(SAMPLE_RATES_HZ)}, {"type": "null"}]},
    )
    bitrate: int | str | None = Field(
        None, description="of lossy formats: 32k to 320k, as 128000 or 128k; 128k if left out"
    )
    stream: bool = Field(False, description="send the sound while it is made")
    stream_format: Literal["audio", "sse"] | None = Field(
        None, description="audio: the sound while it is made; sse: OpenAI's events"
    )
    timestamps: list[Granularity] | None = Field(
        None,
        description="when what is said, with stream_format sse and in /with-timestamps; chunk:"
        " sentences as they were written, exact; word: as spoken, estimated, 48 ms off in the"
        " median and 180 ms at the 95th percentile. Also accepted as timestamp_granularities",
        json_schema_extra={
            "anyOf": [{"enum": ["none", *GRANULARITIES]}, {"type": "array"}, {"type": "null"}]
        },
    )
    store: bool = Field(False, description="keep the result among your takes")
    strict: bool = Field(False, description="refuse a field that would be ignored")
    # How the codes are drawn.
    seed: int | None = Field(
        None,
        description="same request and seed: same samples; null and -1 draw one, see X-Seed",
        json_schema_extra={"minimum": -1, "maximum": MAX_SEED},
    )
    max_new_tokens: int | None = Field(
        None,
        description="longest speech, in frames; also accepted as max_tokens, max_frames",
        json_schema_extra={"minimum": 1},
    )
    temperature: float | None = _limited("temperature")
    top_k: int | None = _limited("top_k")
    top_p: float | None = _limited("top_p")
    min_p: float | None = _limited("min_p")
    repetition_penalty: float | None = _limited("repetition_penalty")
    repetition_window: int | None = _limited("repetition_window")
    repetition_codebooks: int | None = _limited("repetition_codebooks")
    # How the words are spoken.
    speed: float | None = _limited("speed")
    speed_mode: Literal["auto", "condition", "stretch"] = Field(
        "auto", description="condition the model, or stretch the sound; auto: whatever it can"
    )
    speaking_rate: float | None = Field(None, description="UTF-8 bytes of text per second")
    speaking_rate_bucket: float | None = Field(
        None, description="index of the model's rate bucket; also accepted as rate_bucket"
    )
    speaking_rate_enabled: bool | None = Field(
        None, description="false ignores the fields of speed and rate"
    )
    quality: Literal["studio", "phone", "raw"] | None = Field(
        None, description="studio or phone for the features of one; raw for none at all"
    )
    quality_enabled: bool = Field(True, description="false conditions on no quality at all")
    quality_buckets: Any = _per_feature("bucket")
    quality_values: Any = _per_feature("measured value")
    accurate_mode: bool = Field(
        True, description="false speaks more freely; also accepted as mode: accurate or expressive"
    )
    clean_speaker_background: bool = Field(False, description="the reference is free of noise")
    fade_out_ms: float = _limited("fade_out_ms", 0.0)
    emotion_enabled: bool | None = Field(None, description="false ignores the emotion fields")
    emotion_sliders: dict[str, Any] | None = Field(
        None, description="weight of each emotion, 0 to 2, by name; also accepted as emotion"
    )
    emotion_valence: float | None = _limited("emotion_valence")
    emotion_arousal: float | None = _limited("emotion_arousal")
    emotion_strength: float | None = _limited("emotion_strength")
    cfg_scale: float | None = _limited("cfg_scale")
    emotion_cfg_scale: float | None = _limited("emotion_cfg_scale")
    prefix_cfg_scale: float | None = _limited("prefix_cfg_scale")

    @field_validator(*_RANGES, mode="before")
    @classmethod
    def _in_range(cls, value: object, info: ValidationInfo) -> float:
        assert info.field_name is not None
        return _RANGES[info.field_name].check(sent_as(info), value)

    @field_validator("voice", mode="before")
    @classmethod
    def _unwrap(cls, value: object) -> object:
        return value["id"] if isinstance(value, dict) and "id" in value else value

    @field_validator("stream_format", "speed_mode", "quality", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("response_format", mode="before")
    @classmethod
    def _known_format(cls, value: object, info: ValidationInfo) -> str:
        text = value if isinstance(value, str) else reprlib.repr(value)
        return known_format(text, sent_as(info)).name

    @field_validator("sample_rate", mode="before")
    @classmethod
    def _offered_rate(cls, value: object, info: ValidationInfo) -> int:
        if isinstance(value, bool | float) or value not in SAMPLE_RATES_HZ:
            remedy = f"choose one of {', '.join(map(str, SAMPLE_RATES_HZ))}"
            raise refused(sent_as(info), value, remedy)
        return int(str(value))

    @field_validator("bitrate", mode="before")
    @classmethod
    def _bits_per_second(cls, value: object, info: ValidationInfo) -> int:
        text = value if isinstance(value, str) else reprlib.repr(value)
        return bits_per_second(text, sent_as(info))

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str | None, info: ValidationInfo) -> str | None:
        return language_code(value, sent_as(info))

    @field_validator("cleaning", mode="before")
    @classmethod
    def _known_rules(cls, value: object, info: ValidationInfo) -> object:
        for name, is_on in value.items() if isinstance(value, dict) else ():
            if name not in RULES:
                raise refused(sent_as(info), name, f"choose from {', '.join(RULES)}")
            if not isinstance(is_on, bool):
                raise refused(f"{sent_as(info)}.{name}", is_on, "give true or false")
        return value

    @field_validator("pronunciations")
    @classmethod
    def _known_words(
        cls, value: list[WordItem] | None, info: ValidationInfo
    ) -> list[WordItem] | None:
        found = words_of(value or (), sent_as(info))
        return [WordItem(**word_fields(entry)) for entry in found] or None

    @field_validator("timestamps", mode="before")
    @classmethod
    def _granularities(cls, value: object, info: ValidationInfo) -> list[Granularity] | None:
        return granularities(value, sent_as(info))

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


def word_fields(entry: Pronunciation) -> dict[str, Any]:
    """An entry in the fields of a ``WordItem``."""
    fields = asdict(entry)
    return fields | {"case_sensitive": fields.pop("is_case_sensitive")}


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
