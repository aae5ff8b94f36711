"""From a JSON object or a form to what was asked: every field checked, the unknown noted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from engine import (
    SAMPLING_RANGES,
    Control,
    Delivery,
    Emotion,
    Guidance,
    InvalidRequest,
    Sampling,
)
from studio.api.asks import Blend, Embedding, Sound, SpeakerAsk
from studio.api.delivery import delivery_of
from studio.api.doors import SGLANG, Door
from studio.api.embeddings import read_embedding
from studio.api.pace import Pace, pace_of
from studio.api.schemas import ReferenceItem, SpeechBody, refused, words_of
from studio.api.spellings import ALIASES, Spelled, conflict
from studio.api.texts import TextWish, text_wish
from studio.media.encode import FORMATS
from studio.vectors import checked

_REMEDIES = {
    "string_type": "give a text",
    "bool_type": "give true or false",
    "float_type": "give a number",
    "int_type": "give a whole number",
    "finite_number": "give a number",
    "list_type": "give a list",
    "model_type": "give an object",
    "dict_type": "give an object",
}
# Words that no client would state a right with.
_NO_CONSENT = {"", "false", "no", "off", "0"}


@dataclass(frozen=True, eq=False)
class SpeechAsk:
    """A checked request: its fields, whose voice, how it is spoken, and what will be ignored."""

    body: SpeechBody
    door: Door
    speaker: SpeakerAsk
    delivery: Delivery
    pace: Pace
    ignored: tuple[str, ...]

    @property
    def format(self) -> str:
        """The name of the format of the body."""
        return self.body.response_format or self.door.response_format

    @property
    def sample_rate_hz(self) -> int | None:
        """The rate asked for; None is the model's own."""
        if self.body.sample_rate is None and self.format == "pcm":
            return self.door.pcm_rate_hz
        return self.body.sample_rate

    @property
    def is_sse(self) -> bool:
        """Whether the sound is sent as OpenAI's events."""
        return self.body.stream_format == "sse"

    @property
    def is_live(self) -> bool:
        """Whether the sound is sent while it is made."""
        return self.door.is_live or self.body.stream or self.body.stream_format is not None

    @property
    def sampling(self) -> Sampling:
        """The sampling settings in the engine's terms."""
        return Sampling(**{name: getattr(self.body, name) for name in SAMPLING_RANGES})

    @property
    def text_wish(self) -> TextWish:
        """What is to become of the text before it is spoken."""
        body = self.body
        return text_wish(
            body.language,
            text_normalization=body.text_normalization,
            cleaning=body.cleaning,
            markup=body.markup,
            pronunciations=words_of(body.pronunciations or (), "pronunciations"),
        )

    @property
    def emotion(self) -> Emotion | None:
        """The emotion in the engine's terms, or None when nothing of it was asked for."""
        body = self.body
        given = (body.emotion_sliders, body.emotion_valence, body.emotion_arousal)
        if body.emotion_enabled is False or not any(given):
            return None
        return Emotion(
            sliders=body.emotion_sliders or {},
            valence=body.emotion_valence or 0.0,
            arousal=body.emotion_arousal or 0.0,
            strength=1.0 if body.emotion_strength is None else body.emotion_strength,
        )

    @property
    def guidance(self) -> Guidance:
        """The guidance in the engine's terms; 1 is off."""
        body = self.body
        scales = (body.cfg_scale, body.emotion_cfg_scale, body.prefix_cfg_scale)
        return Guidance(*(1.0 if scale is None else scale for scale in scales))


def parse_speech(
    payload: Mapping[str, object],
    max_input_chars: int,
    door: Door = SGLANG,
    controls: Sequence[Control] = (),
) -> SpeechAsk:
    """Check every field of ``payload``; raises ``InvalidRequest`` naming field, value, remedy.

    ``controls`` are those of the open model. Values of ``bytes`` are files of a form.
    """
    spelled = Spelled(payload)
    try:
        body = SpeechBody.model_validate(spelled.fields, context=spelled.sent_as)
    except ValidationError as error:
        raise first_fault(error, spelled.sent_as) from None
    _check_text(body.input, spelled.sent_as["input"], max_input_chars)
    speaker, ignored_of_sound = _speaker(body, spelled.sent_as)
    pace = pace_of(body, controls)
    delivery, ignored_of_delivery = delivery_of(body, pace, controls)
    ignored = [*spelled.unknown, *ignored_of_sound, *ignored_of_delivery]
    ask = SpeechAsk(body, door, speaker, delivery, pace, tuple(ignored))
    if body.bitrate is not None and FORMATS[ask.format].is_lossless:
        ask = replace(ask, ignored=(*ask.ignored, spelled.sent_as["bitrate"]))
    return ask


def form_value(name: str, text: str) -> object:
    """The value that a form's field means: text stays text where the field takes it."""
    known = ALIASES.get(name, name)
    if text == "" and known != "input":
        return None  # what a page sends for an empty field
    field = SpeechBody.model_fields.get(known)
    is_text = field is None or "str" in str(field.annotation)
    if is_text and not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _check_text(text: str, field: str, max_chars: int) -> None:
    length = len(text.strip())
    if length > max_chars:
        raise InvalidRequest(
            f"{field}: the text has {length} characters and the limit is {max_chars}; send it in"
            " parts.",
            field=field,
            code="string_above_max_length",
        )


def _speaker(body: SpeechBody, sent_as: Mapping[str, str]) -> tuple[SpeakerAsk, list[str]]:
    """Whose voice it shall be, and what a reference's object holds besides."""
    sound, ignored = _sound(body, sent_as)
    ways = [] if sound is None else [sound.field]
    names = ("speaker_embedding", "speaker_embedding_base64", "speaker_blend_embedding_id_a")
    ways += [sent_as[name] for name in names if getattr(body, name) is not None]
    if len(ways) > 1:
        raise conflict(ways[0], ways[1])
    consent = body.consent
    says_so = isinstance(consent, str) and consent.strip().lower() not in _NO_CONSENT
    ask = SpeakerAsk(
        voice=body.voice,
        field=sent_as.get("voice", "voice"),
        sound=sound,
        embedding=_embedding(body, sent_as),
        blend=_blend(body),
        has_consent=consent is True or says_so,
    )
    return ask, ignored


def _sound(body: SpeechBody, sent_as: Mapping[str, str]) -> tuple[Sound | None, list[str]]:
    """The one recording of the request, and what its object holds besides."""
    short = sent_as.get("ref_audio", "ref_audio")
    if not body.references:
        if isinstance(body.ref_audio, bytes):
            return Sound(short, data=body.ref_audio), []
        return (None if body.ref_audio is None else Sound(short, body.ref_audio)), []
    if body.ref_audio is not None:
        raise conflict("references", short)
    if len(body.references) > 1:
        raise InvalidRequest(
            f"references: {len(body.references)} recordings were sent and the limit is 1; send the"
            " best one.",
            field="references",
        )
    (item,) = body.references
    if len(item.sounds) > 1:
        first, second, *_ = item.sounds
        raise conflict(f"references[0].{first}", f"references[0].{second}")
    if not item.sounds:
        raise InvalidRequest(
            "references[0]: it holds no recording; send one as audio_path or data.",
            field="references[0]",
            code="missing_required_parameter",
        )
    ((name, text),) = item.sounds.items()
    return Sound(f"references[0].{name}", text), _unknown(item)


def _unknown(item: ReferenceItem) -> list[str]:
    extra = item.model_extra or {}
    return [f"references[0].{name}" for name, value in extra.items() if value is not None]


def _embedding(body: SpeechBody, sent_as: Mapping[str, str]) -> Embedding | None:
    vector: np.ndarray
    if body.speaker_embedding is not None:
        field = sent_as["speaker_embedding"]
        vector = checked(body.speaker_embedding, field)
    elif body.speaker_embedding_base64 is not None:
        field = sent_as["speaker_embedding_base64"]
        vector = read_embedding(body.speaker_embedding_base64, field)
    else:
        return None
    return Embedding(field, vector)


def _blend(body: SpeechBody) -> Blend | None:
    names = ("speaker_blend_embedding_id_a", "speaker_blend_embedding_id_b")
    first, second = (getattr(body, name) for name in names)
    if first is None and second is None:
        return None
    if first is None or second is None:
        missing = names[0] if first is None else names[1]
        raise InvalidRequest(
            f"{missing}: it is missing; name both voices of the blend.",
            field=missing,
            code="missing_required_parameter",
        )
    return Blend(first, second, 0.5 if body.speaker_blend_t is None else body.speaker_blend_t)


def first_fault(error: ValidationError, sent_as: Mapping[str, str]) -> InvalidRequest:
    """pydantic's first finding as one sentence."""
    fault = error.errors(include_url=False, include_context=False)[0]
    head, *rest = fault["loc"]
    field = sent_as.get(str(head), str(head))
    field += "".join(_place(part) for part in rest)
    if fault["type"] == "missing":
        return InvalidRequest(
            f"{field}: it is missing; send {'the text to speak' if head == 'input' else 'it'}.",
            field=field,
            code="missing_required_parameter",
        )
    remedy = _REMEDIES.get(fault["type"], fault["msg"][:1].lower() + fault["msg"][1:])
    return refused(field, fault["input"], remedy)


def _place(part: Any) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    # Of a field that takes several types pydantic names the one it tried.
    return "" if part in ("str", "bytes", "bool", "int") else f".{part}"
