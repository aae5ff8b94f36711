"""From a form or a JSON object to a voice that somebody wants to store: other names undone.

- SGLang-Omni's names (``audio_sample``, ``ref_text``, ``speaker_description``) and OpenAI's
  (``type`` says nothing) stand for ours; null is absent; what nobody knows is noted.
- A form sends its files as bytes, a list as the same field several times, a truth value as a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import InvalidRequest
from studio import vectors
from studio.api.asks import Blend, Embedding, Sound
from studio.api.embeddings import read_embedding
from studio.api.languages import language_code
from studio.api.schemas import refused
from studio.voice_card import Card

_ALIASES = {
    "audio_sample": "ref_audio",
    "reference": "ref_audio",
    "speaker_description": "notes",
    "ref_text": "transcript",
    "tag": "tags",
}
_SILENT = {"type", "model"}
_CARD = ("name", "language", "tags", "notes", "transcript")
_EMPTY: Mapping[str, Any] = {"language": None, "tags": (), "notes": "", "transcript": ""}
_CHOICES = ("consent", "keep_clip", "overwrite")
_SPEAKERS = ("ref_audio", "speaker_embedding", "speaker_embedding_base64", "blend")
# Words that no client would state a right with.
_NO = {"", "false", "no", "off", "0"}


@dataclass(frozen=True, eq=False)
class VoiceAsk:
    """A checked wish for a voice: its card, and exactly one way to get at the speaker."""

    card: Card
    sounds: tuple[Sound, ...]
    embedding: Embedding | None
    blend: Blend | None
    has_consent: bool
    keep_clip: bool
    overwrite: bool
    ignored: tuple[str, ...]


class Fields:
    """What was sent, by our names: a value, or all values of a field that came several times."""

    def __init__(self, items: Iterable[tuple[str, object]], known: Sequence[str]) -> None:
        self.values: dict[str, Any] = {}
        self.sent_as: dict[str, str] = {}
        self.ignored: list[str] = []
        for name, value in items:
            field = _ALIASES.get(name, name)
            if value is None or name in _SILENT:
                continue
            if field not in known:
                self.ignored.append(name)
            elif field not in self.values:
                self.values[field], self.sent_as[field] = value, name
            elif field in ("ref_audio", "tags"):
                self.values[field] = [*_listed(self.values[field]), *_listed(value)]
            elif self.values[field] != value:
                raise InvalidRequest(
                    f"{self.sent_as[field]} and {name} contradict each other; send one of them"
                    " only.",
                    field=name,
                    code="conflicting_fields",
                )

    def is_yes(self, field: str) -> bool:
        """Whether a choice was made; a form writes it as a word."""
        value = self.values.get(field, False)
        if isinstance(value, str):
            return value.strip().lower() not in _NO
        if not isinstance(value, bool):
            raise refused(self.sent_as[field], value, "give true or false")
        return value

    def card_fields(self) -> dict[str, Any]:
        """The words that were sent for its card."""
        words = {name: self.values[name] for name in _CARD if name in self.values}
        if isinstance(language := words.get("language"), str):
            words["language"] = language_code(language)
        if isinstance(tags := words.get("tags"), str):  # a form: a JSON list, or a, b, c
            words["tags"] = _tags(tags)
        return words


def voice_ask(items: Iterable[tuple[str, object]]) -> VoiceAsk:
    """Check the fields of a new voice; raises ``InvalidRequest`` naming field, value, remedy."""
    fields = Fields(items, (*_CARD, *_CHOICES, *_SPEAKERS))
    given = [field for field in _SPEAKERS if field in fields.values]
    if len(given) != 1:
        names = [fields.sent_as[field] for field in given]
        raise InvalidRequest(
            f"{names[0]} and {names[1]} both choose a speaker; send one of them only."
            if names
            else "audio_sample: it is missing; send a recording of the voice.",
            field=names[1] if names else "audio_sample",
            code="conflicting_fields" if names else "missing_required_parameter",
        )
    return VoiceAsk(
        _card(fields),
        _sounds(fields),
        _embedding(fields),
        _blend(fields.values.get("blend")),
        fields.is_yes("consent"),
        fields.is_yes("keep_clip"),
        fields.is_yes("overwrite"),
        tuple(fields.ignored),
    )


@dataclass(frozen=True, eq=False)
class ImportAsk:
    """A checked wish to store the voice in a file, perhaps under another ``name``."""

    data: bytes
    name: str | None
    has_consent: bool
    overwrite: bool
    ignored: tuple[str, ...]


def import_ask(items: Iterable[tuple[str, object]]) -> ImportAsk:
    """Check the fields of an import; raises ``InvalidRequest``."""
    fields = Fields(items, ("file", "name", "consent", "overwrite"))
    data, name = fields.values.get("file"), fields.values.get("name")
    if not isinstance(data, bytes):
        raise InvalidRequest(
            "file: it is missing; send an exported voice as a file of the form.",
            field="file",
            code="missing_required_parameter",
        )
    if name is not None and not isinstance(name, str):
        raise refused("name", name, "give a text")
    overwrite = fields.is_yes("overwrite")
    return ImportAsk(data, name or None, fields.is_yes("consent"), overwrite, tuple(fields.ignored))


def changes(payload: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """What shall be written on a voice, and what nobody knows; null empties a field."""
    fields = Fields(payload.items(), _CARD)
    emptied = {_ALIASES.get(name, name) for name, value in payload.items() if value is None}
    empty = {name: value for name, value in _EMPTY.items() if name in emptied}
    return fields.card_fields() | empty, fields.ignored


def _card(fields: Fields) -> Card:
    words = fields.card_fields()
    if "name" not in words:
        raise InvalidRequest(
            "name: it is missing; give the voice a name.",
            field="name",
            code="missing_required_parameter",
        )
    return Card(**words)


def _sounds(fields: Fields) -> tuple[Sound, ...]:
    if "ref_audio" not in fields.values:
        return ()
    field = fields.sent_as["ref_audio"]
    sounds = []
    for value in _listed(fields.values["ref_audio"]):
        if not isinstance(value, (str, bytes)):
            raise refused(field, value, "send a file, a data: URI, base64 or a URL")
        sounds.append(Sound(field, value) if isinstance(value, str) else Sound(field, data=value))
    return tuple(sounds)


def _embedding(fields: Fields) -> Embedding | None:
    for field in ("speaker_embedding", "speaker_embedding_base64"):
        value = fields.values.get(field)
        if value is None:
            continue
        if isinstance(value, str) and value.lstrip().startswith("["):
            value = _json(value)
        if isinstance(value, (str, bytes)):
            return Embedding(field, read_embedding(value, field))
        return Embedding(field, vectors.checked(value, field))
    return None


def _blend(value: object) -> Blend | None:
    if value is None:
        return None
    value = _json(value) if isinstance(value, str) else value
    parts = value if isinstance(value, dict) else {}
    first, second, t = parts.get("a"), parts.get("b"), parts.get("t", 0.5)
    is_share = isinstance(t, (int, float)) and not isinstance(t, bool) and 0 <= t <= 1
    if not (isinstance(first, str) and isinstance(second, str) and is_share):
        raise InvalidRequest(
            'blend: give two voices and the share of the second one, such as {"a": "heart", "b":'
            ' "deep", "t": 0.5}.',
            field="blend",
        )
    return Blend(first, second, float(t))


def _tags(text: str) -> Any:
    if text.lstrip().startswith("["):
        return _json(text)
    return [tag for tag in map(str.strip, text.split(",")) if tag]


def _json(text: str) -> Any:
    """What a form's field holds; None where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
