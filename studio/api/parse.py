"""From a JSON object to what was asked: other names undone, null left out, the unknown noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from engine import SAMPLING_RANGES, Delivery, Emotion, Guidance, InvalidRequest, Sampling
from studio.api.schemas import ALIASES, ReferenceItem, SpeechBody, refused

# Fields that say nothing about the speech; clients may send them and nobody needs to know.
_SILENT = {"user", "metadata"}
_REMEDIES = {
    "string_type": "give a text",
    "bool_type": "give true or false",
    "float_type": "give a number",
    "finite_number": "give a number",
    "list_type": "give a list",
    "model_type": "give an object",
    "dict_type": "give an object",
}


@dataclass(frozen=True)
class Sound:
    """A recording as it was sent: the text that holds or names it, and the field it came in."""

    field: str
    text: str


@dataclass(frozen=True)
class SpeechAsk:
    """A checked request: the fields, the recording if one came, and what will be ignored."""

    body: SpeechBody
    sound: Sound | None
    ignored: tuple[str, ...]

    @property
    def sampling(self) -> Sampling:
        """The sampling settings in the engine's terms."""
        return Sampling(**{name: getattr(self.body, name) for name in SAMPLING_RANGES})

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

    def delivery(self, features: Sequence[str]) -> Delivery:
        """The controls in the engine's terms; ``features`` are the model's, in their order."""
        body = self.body
        bucket = body.speaking_rate_bucket
        return Delivery(
            speaking_rate_bucket=bucket,  # type: ignore[arg-type]  # the engine checks for whole numbers
            speaking_rate=body.speaking_rate,
            speed=body.speed,
            quality_buckets=_by_feature("quality_buckets", body.quality_buckets, features),
            quality_values=_by_feature("quality_values", body.quality_values, features),
            accurate_mode=body.accurate_mode,
            clean_speaker_background=body.clean_speaker_background,
        )


def parse_speech(payload: Mapping[str, object], max_input_chars: int) -> SpeechAsk:
    """Check every field of ``payload``; raises ``InvalidRequest`` naming field, value, remedy."""
    fields: dict[str, object] = {}
    sent_as: dict[str, str] = {}
    ignored = []
    for name, value in payload.items():
        known = ALIASES.get(name, name)
        if value is None or name in _SILENT:
            continue
        if known not in SpeechBody.model_fields:
            ignored.append(name)
        elif known in fields and fields[known] != value:
            raise _conflict(sent_as[known], name)
        else:
            fields[known], sent_as[known] = value, name
    try:
        body = SpeechBody.model_validate(fields, context=sent_as)
    except ValidationError as error:
        raise _first_fault(error, sent_as) from None
    _check_text(body.input, sent_as["input"], max_input_chars)
    sound, ignored_of_sound = _sound(body)
    return SpeechAsk(body, sound, (*ignored, *ignored_of_sound))


def _check_text(text: str, field: str, max_chars: int) -> None:
    length = len(text.strip())
    if length > max_chars:
        raise InvalidRequest(
            f"{field}: the text has {length} characters and the limit is {max_chars}; send it in"
            " parts.",
            field=field,
            code="string_above_max_length",
        )


def _sound(body: SpeechBody) -> tuple[Sound | None, list[str]]:
    """The one recording of the request, and what its object holds besides."""
    if not body.references:
        return (None if body.ref_audio is None else Sound("ref_audio", body.ref_audio)), []
    if body.ref_audio is not None:
        raise _conflict("references", "ref_audio")
    if len(body.references) > 1:
        raise InvalidRequest(
            f"references: {len(body.references)} recordings were sent and the limit is 1; send the"
            " best one.",
            field="references",
        )
    (item,) = body.references
    if len(item.sounds) > 1:
        first, second, *_ = item.sounds
        raise _conflict(f"references[0].{first}", f"references[0].{second}")
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


def _by_feature(field: str, given: Any, features: Sequence[str]) -> Mapping[str, Any] | None:
    """A list becomes a map from feature to value; anything else is left to the engine's check."""
    if not isinstance(given, list):
        return given
    if len(given) > len(features):
        known = ", ".join(features) or "none"
        raise refused(field, given, f"this model has {len(features)} quality features: {known}")
    return dict(zip(features, given, strict=False))


def _conflict(first: str, second: str) -> InvalidRequest:
    return InvalidRequest(
        f"{first} and {second} contradict each other; send one of them only.",
        field=second,
        code="conflicting_fields",
    )


def _first_fault(error: ValidationError, sent_as: Mapping[str, str]) -> InvalidRequest:
    """pydantic's first finding as one sentence."""
    fault = error.errors(include_url=False, include_context=False)[0]
    head, *rest = fault["loc"]
    field = sent_as.get(str(head), str(head))
    field += "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)
    if fault["type"] == "missing":
        return InvalidRequest(
            f"{field}: it is missing; send the text to speak.",
            field=field,
            code="missing_required_parameter",
        )
    remedy = _REMEDIES.get(fault["type"], fault["msg"][:1].lower() + fault["msg"][1:])
    return refused(field, fault["input"], remedy)
