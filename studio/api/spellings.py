"""Other people's names and spellings of the fields of a speech request, undone.

Two names of one field may both be sent if they agree. ``default`` and OpenAI's stock names choose
no voice, so another name of the voice beside them wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from engine import InvalidRequest
from studio.api.schemas import SpeechBody, refused
from studio.media.encode import FORMATS
from studio.voice_card import chooses_nothing

ALIASES: Mapping[str, str] = {
    "text": "input",
    "speaker": "voice",
    "voice_id": "voice",
    "speaker_embedding_id": "voice",
    "speaker_audio_base64": "ref_audio",
    "speaker_wav_base64": "ref_audio",
    "reference_audio": "ref_audio",
    "reference": "ref_audio",
    "audio_sample": "ref_audio",
    "lang": "language",
    "lang_code": "language",
    "normalize": "text_normalization",
    "timestamp_granularities": "timestamps",
    "topk": "top_k",
    "max_tokens": "max_new_tokens",
    "max_frames": "max_new_tokens",
    "speed_factor": "speed",
    "rate_bucket": "speaking_rate_bucket",
    "speaker_cfg_scale": "cfg_scale",
}
# Fields that say nothing about the speech; clients may send them and nobody needs to know.
SILENT = frozenset({"user", "metadata", "speaker_audio_name", "speaker_embedding_name"})
# Objects whose fields count as if they stood beside them.
_NESTED = ("extra_params", "extra_body", "stage_params")
# As ElevenLabs writes it: mp3_44100_128, pcm_24000.
_FORMAT_RATE_BITRATE = re.compile(r"([a-z0-9]+(?:_f32)?)_(\d{4,6})(?:_(\d{2,3}))?")


def _output(field: str, value: object) -> dict[str, object]:
    found = None
    if isinstance(value, str) and value.strip().lower() not in FORMATS:
        found = _FORMAT_RATE_BITRATE.fullmatch(value.strip().lower())
    if found is None:
        return {"response_format": value}
    name, rate, kilobits = found.groups()
    fields: dict[str, object] = {"response_format": name, "sample_rate": int(rate)}
    return fields | ({"bitrate": f"{kilobits}k"} if kilobits else {})


def _emotion(field: str, value: object) -> dict[str, object]:
    return {"emotion_sliders": {value: 1.0} if isinstance(value, str) else value}


def _mode(field: str, value: object) -> dict[str, object]:
    mode = value.strip().lower() if isinstance(value, str) else None
    if mode not in ("accurate", "expressive"):
        raise refused(field, value, "choose accurate or expressive")
    return {"accurate_mode": mode == "accurate"}


def _blend(field: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict) or not {"a", "b"} <= set(value) <= {"a", "b", "t"}:
        raise refused(field, value, 'give an object such as {"a": "heart", "b": "deep", "t": 0.5}')
    names = {"a": "speaker_blend_embedding_id_a", "b": "speaker_blend_embedding_id_b"}
    return {(names.get(key) or "speaker_blend_t"): part for key, part in value.items()}


# Names whose values are written otherwise than in the fields they stand for.
_SPELLINGS: Mapping[str, Callable[[str, object], dict[str, object]]] = {
    "response_format": _output,
    "format": _output,
    "output_format": _output,
    "emotion": _emotion,
    "mode": _mode,
    "blend": _blend,
}
NAMES = (*SpeechBody.model_fields, *ALIASES, *_SPELLINGS)


class Spelled:
    """The fields by their own names, the name each was sent under, and names nobody knows."""

    def __init__(self, payload: Mapping[str, object]) -> None:
        self.fields: dict[str, object] = {}
        self.sent_as: dict[str, str] = {}
        self.unknown: list[str] = []
        for name, value in (*payload.items(), *_nested(payload)):
            if value is None or name in SILENT or name in _NESTED:
                continue
            known = ALIASES.get(name, name)
            if name in _SPELLINGS:
                for field, part in _SPELLINGS[name](name, value).items():
                    if part is not None:
                        self._put(field, part, name)
            elif known in SpeechBody.model_fields:
                self._put(known, value, name)
            else:
                self.unknown.append(name)

    def _put(self, field: str, value: object, name: str) -> None:
        is_free = field not in self.fields or (field == "voice" and _is_nobody(self.fields[field]))
        if is_free:
            self.fields[field], self.sent_as[field] = value, name
        elif self.fields[field] != value and not (field == "voice" and _is_nobody(value)):
            raise conflict(self.sent_as[field], name)


def conflict(first: str, second: str) -> InvalidRequest:
    """The error for two fields that cannot both hold."""
    return InvalidRequest(
        f"{first} and {second} contradict each other; send one of them only.",
        field=second,
        code="conflicting_fields",
    )


def _is_nobody(voice: object) -> bool:
    name = voice.get("id") if isinstance(voice, dict) else voice
    return isinstance(name, str) and chooses_nothing(name)


def _nested(payload: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    """The fields of nested objects that the top level does not set; the top level wins."""
    set_above = {ALIASES.get(name, name) for name, value in payload.items() if value is not None}
    for name in _NESTED:
        inner = payload.get(name)
        if inner is None:
            continue
        if not isinstance(inner, dict):
            raise refused(name, inner, "give an object of fields")
        for key, value in inner.items():
            if ALIASES.get(key, key) not in set_above:
                yield key, value
