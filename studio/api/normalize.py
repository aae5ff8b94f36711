"""POST /v1/audio/normalize and /tts/normalize: what will be said, without saying it.

- The body is that of a speech request: the same fields, defaults and limits as at its own door.
- Spans count in characters of the text that was sent; put in its place, each ``after`` makes
  ``normalized`` of it.
- Source: spec/api.md F13 (normalize).
"""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request

from engine import Prepared, SpeechRequest, forecast
from studio.api.body import read_fields, read_object
from studio.api.docs import errors
from studio.api.doors import SGLANG
from studio.api.owners import owner_of
from studio.api.parse import SpeechAsk, form_value
from studio.api.speaking import Speaking
from studio.api.tts import ZyphraRoute
from studio.api.tts_schemas import ZYPHRA, GenerateBody, speech_fields, takes

_EXAMPLES: dict[str, Any] = {
    "english": {
        "summary": "Numbers and signs",
        "value": {"input": "It costs $3.50 at 10:30.", "language": "en"},
    },
    "pasted": {
        "summary": "What was pasted, with a word of your own",
        "value": {
            "input": "## News\n\nSee https://example.com, says **SQL**. [pause 500ms] Done.",
            "language": "detect",
            "pronunciations": {"SQL": "sequel"},
        },
    },
}
_SPAN = {
    "type": "object",
    "properties": {
        "from": {"type": "integer", "description": "first character of the text that was sent"},
        "to": {"type": "integer", "description": "the character after the last one"},
        "before": {"type": "string"},
        "after": {"type": "string"},
    },
}
_STRINGS = {"type": "array", "items": {"type": "string"}}
_ANSWER = {
    "type": "object",
    "properties": {
        "object": {"const": "audio.normalization"},
        "normalized": {"type": "string", "description": "a blank line stands for a pause"},
        "language": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "languages": _STRINGS | {"description": "more than one where detect found more"},
        "spans": {"type": "array", "items": _SPAN},
        "chunks": _STRINGS | {"description": "the segments in which it is spoken"},
        "notes": _STRINGS | {"description": "how it was read, and what could not be"},
        "bytes": {"type": "integer", "description": "of normalized, in UTF-8"},
        "estimated_seconds": {"type": "number", "description": "at the pace asked for"},
        "ignored_fields": _STRINGS,
    },
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "what would be said",
        "content": {"application/json": {"schema": _ANSWER}},
    },
    **errors(400, 413, 415),
}
_BODY = {"$ref": "#/components/schemas/SpeechBody"}
_DOCS: dict[str, Any] = {
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _BODY, "examples": _EXAMPLES},
                "multipart/form-data": {"schema": _BODY},
            },
        }
    },
    "responses": _RESPONSES,
}
_TTS_DOCS: dict[str, Any] = {
    "openapi_extra": takes(GenerateBody, {"text": "It costs $3.50 at 10:30."}),
    "responses": _RESPONSES,
}


def normalize_router(speaking: Speaking) -> APIRouter:
    """The two routes."""
    router = APIRouter(tags=["speech"])

    @router.post("/v1/audio/normalize", **_DOCS)
    async def normalize(request: Request) -> dict[str, Any]:
        """Show what a text becomes before it is spoken: every change, the chunks, the length.

        Every field of /v1/audio/speech may be sent; those about the text and the pace count.
        """
        payload = await read_fields(request, form_value)
        ask = await run_sync(speaking.check, payload, SGLANG)
        return await _shown(speaking, ask, request)

    return router


def tts_normalize_router(speaking: Speaking) -> APIRouter:
    """The same with Zyphra's names and defaults."""
    router = APIRouter(tags=["zyphra"], route_class=ZyphraRoute)
    features = [c.name for c in speaking.engine.family.controls if c.kind == "quality"]

    @router.post("/tts/normalize", **_TTS_DOCS)
    async def normalize(request: Request) -> dict[str, Any]:
        """Show what /tts/generate would say; English unless another language is named."""
        fields, _ = speech_fields(await read_object(request), features)
        ask = await run_sync(speaking.check, fields, ZYPHRA)
        return await _shown(speaking, ask, request)

    return router


async def _shown(speaking: Speaking, ask: SpeechAsk, request: Request) -> dict[str, Any]:
    prepared = await speaking.texts.ready(ask.body.input, ask.text_wish, owner_of(request))
    return await run_sync(_answer, speaking, ask, prepared)


def _answer(speaking: Speaking, ask: SpeechAsk, prepared: Prepared) -> dict[str, Any]:
    language = next(iter(prepared.languages), None)
    wish = SpeechRequest(
        prepared.text, delivery=ask.delivery, language=language, pieces=prepared.pieces
    )
    expected = forecast(wish, speaking.engine.family)
    return {
        "object": "audio.normalization",
        "normalized": prepared.text,
        "language": language,
        "languages": list(prepared.languages),
        "spans": [
            {"from": span.start, "to": span.end, "before": span.before, "after": span.after}
            for span in prepared.spans
        ],
        "chunks": list(expected.chunks),
        "notes": list(prepared.notes),
        "bytes": len(prepared.text.encode()),
        "estimated_seconds": round(expected.duration_s / ask.pace.stretch, 2),
        "ignored_fields": list(ask.ignored),
    }
