"""How the speech route shows itself in /docs: its fields, its headers, requests to try."""

from __future__ import annotations

from typing import Any

from studio.api.schemas import SpeechBody

_SCHEMAS = "#/components/schemas/"
_EXAMPLES = {
    "shortest": {"summary": "The shortest request", "value": {"input": "Hello there."}},
    "repeatable": {
        "summary": "The same samples every time",
        "value": {"input": "The train leaves at nine.", "voice": "default", "seed": 7},
    },
    "streamed": {
        "summary": "Bare samples while they are made",
        "value": {
            "input": "You hear the beginning before the end has been made.",
            "response_format": "pcm",
            "stream": True,
        },
    },
    "sampling": {
        "summary": "Sampling settings",
        "value": {"input": "One, two, three.", "temperature": 0.8, "top_k": 60, "min_p": 0.1},
    },
}
_HEADERS = {
    "X-Request-ID": "the id of this request, in the log too",
    "X-Seed": "the seed that was used",
    "X-Sample-Rate": "samples per second",
    "X-Channels": "channels",
    "X-Bit-Depth": "bits of a sample, signed, little-endian",
    "X-Queue-Ms": "milliseconds in the queue",
    "X-Ignored-Fields": "fields that have had no effect",
    "X-Warnings": "findings about the reference recording",
    "X-Audio-Duration": "seconds of sound (whole files only)",
    "X-Finish-Reason": "stop, or length when the frame budget ended it (whole files only)",
    "X-RTF": "seconds of work per second of sound (whole files only)",
}
_STATUSES = {
    400: "a field cannot be used",
    404: "there is no such voice",
    413: "the body or the recording is too large",
    415: "the body is not JSON",
    429: "your share of the queue is used up",
    500: "the engine failed on this request",
    503: "the queue is full, or the studio is stopping",
}


def _error(meaning: str) -> dict[str, Any]:
    schema = {"$ref": f"{_SCHEMAS}Error"}
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


SPEECH_DOCS: dict[str, Any] = {
    "summary": "Speak a text",
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"{_SCHEMAS}SpeechBody"},
                    "examples": _EXAMPLES,
                }
            },
        }
    },
    "responses": {
        200: {
            "description": "the sound",
            "headers": {
                name: {"description": meaning, "schema": {"type": "string"}}
                for name, meaning in _HEADERS.items()
            },
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in ("audio/wav", "audio/pcm")
            },
        },
        **{status: _error(meaning) for status, meaning in _STATUSES.items()},
    },
}


def component_schemas() -> dict[str, Any]:
    """The schemas that ``SPEECH_DOCS`` refers to, by name."""
    body = SpeechBody.model_json_schema(ref_template=_SCHEMAS + "{model}")
    text_or_null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    error = {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": text_or_null,
                    "code": {"type": "string"},
                },
                "required": ["message", "type", "param", "code"],
            },
            "detail": {"type": "string"},
        },
        "required": ["error", "detail"],
    }
    return {**body.pop("$defs"), "SpeechBody": body, "Error": error}
