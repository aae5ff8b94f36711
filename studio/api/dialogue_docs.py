"""How the dialogue route shows itself in /openapi.json and /docs."""

from __future__ import annotations

from typing import Any

from studio.api.docs import errors
from studio.media.encode import FORMATS
from studio.mix import DEFAULT_PAUSE_MS, MAX_PAUSE_MS

_TEXT_OR_OBJECT = [{"type": "string"}, {"type": "object"}]
_TURN = {
    "type": "object",
    "description": "fields of /v1/audio/speech hold for this turn alone",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "what is said; may hold markup"},
        "voice": {"type": "string", "description": "a name of the cast, or a voice"},
        "pause_ms": {"type": "integer", "description": "the silence after it"},
        "start_s": {"type": "number", "description": "when it begins"},
        "end_s": {
            "type": "number",
            "description": "when it has to have ended: up to 1.5 times as fast, it is made to fit",
        },
        "seed": {"type": "integer", "description": "speaks this turn otherwise, or as it was"},
    },
}
_FIELDS = {
    "script": {
        "anyOf": _TEXT_OR_OBJECT,
        "description": "lines such as 'Anna: Hello.', '[voice: Anna]' before a passage, SRT or"
        " WebVTT, or {turns: [...]}; at most 1000 turns",
    },
    "turns": {"type": "array", "maxItems": 1000, "items": _TURN},
    "cast": {
        "type": "object",
        "description": "who speaks: by name a voice, or fields of /v1/audio/speech with a voice;"
        " a name that is not in it is itself a voice",
        "additionalProperties": {"anyOf": _TEXT_OR_OBJECT},
    },
    "pause_ms": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_PAUSE_MS,
        "default": DEFAULT_PAUSE_MS,
        "description": "silence between the sounds of two turns",
    },
    "output": {
        "enum": ["mix", "zip", "json"],
        "default": "mix",
        "description": "mix: one sound; zip: with it a file for each line, mix.srt, mix.vtt and a"
        " script.json that can be sent again; json: the sound as base64, with the times",
    },
}
_EXAMPLES = {
    "text": {
        "summary": "Lines of text",
        "value": {
            "script": "Anna: Did you see the boat?\nBen: It is still tied to the pier.",
            "cast": {"Anna": "heart", "Ben": {"voice": "deep", "speed": 0.9}},
        },
    },
    "turns": {
        "summary": "Turns with settings, and all files",
        "value": {
            "turns": [
                {"voice": "heart", "text": "One moment.", "pause_ms": 800},
                {"voice": "deep", "text": "Here it is.", "temperature": 0.7},
            ],
            "seed": 7,
            "output": "zip",
        },
    },
    "subtitles": {
        "summary": "Speech that fits the times of subtitles",
        "value": {
            "script": "1\n00:00:01,000 --> 00:00:03,000\nThe train leaves at nine.\n",
            "voice": "deep",
            "output": "json",
        },
    },
}
DIALOGUE_DOCS: dict[str, Any] = {
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "description": "also fields of SpeechBody, which hold for all turns",
                        "properties": _FIELDS,
                    },
                    "examples": _EXAMPLES,
                }
            },
        }
    },
    "responses": {
        200: {
            "description": "the mix; or a ZIP archive; or JSON: audio (base64), format, duration,"
            " seed, lines (name, voice, seed, start, end, cues, finish_reason), srt, vtt, usage,"
            " warnings, ignored_fields",
            "content": {
                **{
                    kind: {"schema": {"type": "string", "format": "binary"}}
                    for kind in dict.fromkeys(known.media_type for known in FORMATS.values())
                },
                "application/zip": {"schema": {"type": "string", "format": "binary"}},
                "application/json": {},
            },
        },
        **errors(400, 403, 404, 409, 413, 415, 429, 500, 503),
    },
}
