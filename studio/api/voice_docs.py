"""How the routes of the voice library show themselves in /openapi.json and /docs."""

from __future__ import annotations

from typing import Any

from studio.api.docs import errors
from studio.consent import STATEMENT
from studio.voice_card import MAX_NAME_CHARS, MAX_NOTES_CHARS, MAX_TAG_CHARS, MAX_TAGS
from studio.voice_file import MAX_CLIPS

_FILE = {"type": "string", "format": "binary"}
_CARD = {
    "name": {
        "type": "string",
        "maxLength": MAX_NAME_CHARS,
        "description": "any text on one line; unique among your voices, whatever the case",
    },
    "language": {"type": ["string", "null"], "description": "name or code"},
    "tags": {
        "type": "array",
        "items": {"type": "string", "maxLength": MAX_TAG_CHARS},
        "maxItems": MAX_TAGS,
    },
    "notes": {
        "type": "string",
        "maxLength": MAX_NOTES_CHARS,
        "description": "also accepted as speaker_description",
    },
    "transcript": {
        "type": "string",
        "description": "what the recording says; kept, not used; also accepted as ref_text",
    },
}
_CONSENT = {
    "type": ["boolean", "string"],
    "description": f"true, or any words, declares: {STATEMENT}",
}
_OVERWRITE = {"type": "boolean", "description": "replace the voice that has the name"}
_CHOICES = {
    "consent": _CONSENT,
    "keep_clip": {
        "type": "boolean",
        "description": "keep the recording too, so that another model can hear it",
    },
    "overwrite": _OVERWRITE,
}
_SPEAKER_JSON = {
    "ref_audio": {
        "type": ["string", "array"],
        "items": {"type": "string"},
        "maxItems": MAX_CLIPS,
        "description": "data: URI, base64, URL or path of a recording, or a list of them",
    },
    "speaker_embedding": {
        "type": "array",
        "items": {"type": "number"},
        "description": "in the place of a recording: the numbers of a speaker",
    },
    "speaker_embedding_base64": {"type": "string", "description": "the same as a .npy file"},
    "blend": {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string"},
            "t": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["a", "b"],
        "description": "in the place of a recording: two voices and the share of the second one",
    },
}
_EXAMPLES = {
    "blend": {
        "summary": "A voice between two others",
        "value": {"name": "Between", "blend": {"a": "heart", "b": "deep", "t": 0.5}},
    },
    "recording": {
        "summary": "A voice from a recording",
        "value": {"name": "Anna", "consent": True, "ref_audio": "data:audio/wav;base64,UklGR..."},
    },
}


def _body(**contents: dict[str, Any]) -> dict[str, Any]:
    kinds = {"json": "application/json", "form": "multipart/form-data"}
    content = {kinds[kind]: details for kind, details in contents.items()}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": properties, "required": required}}


def _sent(kind: str, meaning: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": meaning, "content": {kind: {"schema": _FILE}}}}


LIST: dict[str, Any] = {"responses": errors(507)}
CREATE: dict[str, Any] = {
    **_body(
        form=_object(
            ["name", "consent", "audio_sample"],
            audio_sample={"type": "array", "items": _FILE, "maxItems": MAX_CLIPS},
            **_CARD,
            **_CHOICES,
        ),
        json={**_object(["name"], **_SPEAKER_JSON, **_CARD, **_CHOICES), "examples": _EXAMPLES},
    ),
    "responses": errors(400, 403, 404, 409, 413, 415, 507),
}
IMPORT: dict[str, Any] = {
    **_body(
        form=_object(
            ["file", "consent"],
            file=_FILE,
            consent=_CONSENT,
            name={"type": "string", "description": "another name than the one in the file"},
            overwrite=_OVERWRITE,
        )
    ),
    "responses": errors(400, 403, 409, 413, 415, 507),
}
READ: dict[str, Any] = {"responses": errors(404, 507)}
CHANGE: dict[str, Any] = {
    **_body(json=_object([], **_CARD)),
    "responses": errors(400, 403, 404, 409, 413, 415, 507),
}
DELETE: dict[str, Any] = {"responses": errors(403, 404, 507)}
PREVIEW: dict[str, Any] = {
    "responses": {
        **_sent("audio/flac", "a sentence in this voice"),
        **errors(400, 404, 429, 500, 503, 507),
    }
}
EMBEDDING: dict[str, Any] = {
    "responses": {
        **_sent("application/octet-stream", "a .npy file with the numbers, float32"),
        **errors(400, 404, 507),
    }
}
EXPORT: dict[str, Any] = {
    "responses": {
        **_sent("application/zip", "the voice as one file"),
        **errors(403, 404, 507),
    }
}
