"""How the routes show themselves in /openapi.json and /docs: fields, headers, requests to try."""

from __future__ import annotations

from typing import Any

from studio.api.schemas import SpeechBody
from studio.media.encode import FORMATS

_SCHEMAS = "#/components/schemas/"
_EXAMPLES = {
    "shortest": {"summary": "The shortest request", "value": {"input": "Hello there."}},
    "openai": {
        "summary": "As OpenAI's clients ask",
        "value": {
            "model": "gpt-4o-mini-tts",
            "voice": "coral",
            "input": "Today is a good day to build something.",
            "response_format": "mp3",
        },
    },
    "sglang": {
        "summary": "As SGLang-Omni's page asks: bare samples while they are made",
        "value": {
            "model": "Zyphra/ZONOS2",
            "input": "You hear the beginning before the end has been made.",
            "response_format": "pcm",
            "stream": True,
        },
    },
    "events": {
        "summary": "OpenAI's events",
        "value": {"input": "Piece by piece.", "response_format": "pcm", "stream_format": "sse"},
    },
    "repeatable": {
        "summary": "The same samples every time",
        "value": {"input": "The train leaves at nine.", "voice": "default", "seed": 7},
    },
    "read": {
        "summary": "Numbers, markup and a word of your own",
        "value": {
            "input": "It costs $3.50. [pause 500ms] Ask the SQL server.",
            "language": "English",
            "pronunciations": {"SQL": "sequel"},
        },
    },
    "sampling": {
        "summary": "Sampling settings",
        "value": {"input": "One, two, three.", "temperature": 0.8, "top_k": 60, "min_p": 0.1},
    },
    "nested": {
        "summary": "As vLLM-Omni's clients ask",
        "value": {"input": "Slowly, please.", "speed": 0.8, "extra_params": {"seed": 7}},
    },
}
_HEADERS = {
    "X-Request-ID": "the id of this request, in the log too; send one to know it beforehand",
    "X-Model": "the model that spoke",
    "X-Voice": "the voice that spoke, percent-encoded",
    "X-AI-Generated": "true: a machine spoke",
    "X-Marked": "what says so in the body: watermark, metadata, c2pa",
    "X-Seed": "the seed that was used",
    "X-Sample-Rate": "samples per second; also X-Audio-Sample-Rate",
    "X-Channels": "channels; also X-Audio-Channels",
    "X-Bit-Depth": "bits of a decoded sample; X-Audio-Format says int16 or float32",
    "X-Queue-Ms": "milliseconds in the queue",
    "X-Speed": "condition or stretch: how a speed was brought about",
    "X-Speaking-Rate-Bucket": "the model's rate bucket that was used",
    "X-Ignored-Fields": "fields that have had no effect",
    "X-Warnings": "findings about the reference recording, and how the text was read",
    "X-Repairs": "segments that were made again, as 2:budget: number from 0, and why (whole files"
    " only)",
    "X-Take": "the id under which a result with `store` is found among your takes",
    "X-Audio-Duration": "seconds of sound (whole files only)",
    "X-Finish-Reason": "stop, or length when the frame budget ended it (whole files only)",
    "X-Prompt-Tokens": "rows that were read (whole files only)",
    "X-Completion-Tokens": "frames that were made (whole files only)",
    "X-Engine-Time": "seconds of work (whole files only)",
    "X-RTF": "seconds of work per second of sound (whole files only)",
}
_MEANINGS = {
    400: "a field cannot be used",
    403: "it may not be done like this",
    404: "there is no such thing",
    409: "the name or id is taken",
    413: "the body or the recording is too large",
    415: "the content type is not accepted",
    429: "your share of the queue is used up",
    500: "the engine failed on this request",
    503: "the queue is full, or the studio is stopping",
    507: "the disk is full",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its ``responses``."""
    content = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
    return {status: {"description": _MEANINGS[status], "content": content} for status in statuses}


def _speech_body(**examples: object) -> dict[str, Any]:
    """What a route is sent that takes a speech request, as JSON or as a form."""
    schema = {"schema": {"$ref": f"{_SCHEMAS}SpeechBody"}}
    content = {"application/json": schema | examples, "multipart/form-data": schema}
    return {"requestBody": {"required": True, "content": content}}


SPEECH_DOCS: dict[str, Any] = {
    "openapi_extra": _speech_body(examples=_EXAMPLES),
    "responses": {
        200: {
            "description": "the sound",
            "headers": {
                name: {"description": meaning, "schema": {"type": "string"}}
                for name, meaning in _HEADERS.items()
            },
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in dict.fromkeys(known.media_type for known in FORMATS.values())
            }
            | {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **errors(400, 403, 404, 409, 413, 415, 429, 500, 503, 507),
    },
}
TIMESTAMPS_DOCS: dict[str, Any] = {
    "openapi_extra": _speech_body(
        example={"input": "First this. Then that.", "timestamps": "word"}
    ),
    "responses": {
        200: {
            "description": "audio (base64), format, media_type, sample_rate, duration, seed,"
            " finish_reason, usage, repairs, and timestamps: granularity, text, start and end in"
            " seconds, chunk",
            "content": {"application/json": {}},
        },
        **errors(400, 403, 404, 409, 413, 415, 429, 500, 503, 507),
    },
}
METRICS_DOCS: dict[str, Any] = {
    "responses": {
        200: {"description": "Prometheus' text format", "content": {"text/plain": {}}},
        **errors(403),
    }
}
MODEL_ERRORS = errors(404)
TRACKING_ERRORS = errors(404)


def completed(page: dict[str, Any]) -> dict[str, Any]:
    """FastAPI's description of the routes, with the schemas of what they read themselves."""
    page.setdefault("components", {}).setdefault("schemas", {}).update(_component_schemas())
    for path, operations in page["paths"].items():
        if not path.startswith("/tts/"):  # whose clients expect it
            for operation in operations.values():
                operation["responses"].pop("422", None)  # FastAPI's word; ours is 400
    return page


def _component_schemas() -> dict[str, Any]:
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
