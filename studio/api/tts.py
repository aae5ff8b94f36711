"""Zyphra's routes: POST /tts/generate, GET /tts/capabilities, and the voices of /tts/speakers.

- A page or script of Zyphra's server works here unchanged; zonos2.cpp's ``input`` and ``format``
  are understood, and so is every field of POST /v1/audio/speech.
- Errors carry the sentence as ``detail`` first, where those clients look for it; a fault of the
  schema is 422 in FastAPI's form.
- Source: spec/api.md A1, A2, F15; spec/SETTLED.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine import StudioError
from studio.api.body import read_object
from studio.api.docs import errors
from studio.api.leaving import unless_client_leaves
from studio.api.speaking import Speaking
from studio.api.speech import speak
from studio.api.tts_capabilities import capabilities
from studio.api.tts_schemas import ZYPHRA, GenerateBody, SchemaFault, speech_fields, takes
from studio.media.encode import FORMATS

_DOCS: dict[str, Any] = {
    "openapi_extra": takes(
        GenerateBody,
        {"text": "The train leaves at nine.", "seed": 7},
        {"input": "As a file.", "format": "wav"},
    ),
    "responses": {
        200: {
            "description": "the sound; without a format, 32-bit floats while they are made",
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in dict.fromkeys(known.media_type for known in FORMATS.values())
            },
        },
        422: {"description": "a field has the wrong type, or the text is missing"},
        **errors(400, 403, 404, 413, 415, 429, 500, 503),
    },
}


def tts_router(speaking: Speaking) -> APIRouter:
    """The routes that speak and say what can be spoken."""
    router = APIRouter(tags=["zyphra"], route_class=ZyphraRoute)
    engine, max_input_chars = speaking.engine, speaking.settings.max_input_chars
    features = [control.name for control in engine.family.controls if control.kind == "quality"]

    @router.post("/tts/generate", response_class=Response, **_DOCS)
    async def generate(request: Request) -> Response:
        """Speak a text as Zyphra's server does: 32-bit floats at once, or a format of your choice.

        Every field of /v1/audio/speech may be sent, too.
        """
        speaking.check_room(request)
        fields, hidden = speech_fields(await read_object(request), features)
        with speaking.room(request):
            ask = await run_sync(speaking.check, fields, ZYPHRA)
            ask = replace(ask, ignored=(*ask.ignored, *hidden))
            return await unless_client_leaves(request, lambda: speak(speaking, ask, request))

    @router.get("/tts/capabilities")
    def show_capabilities() -> dict[str, Any]:
        """What the open model and this studio can do."""
        return capabilities(engine, speaking.texts.normaliser, max_input_chars)

    return router


class ZyphraRoute(APIRoute):
    """A route whose errors have the shape that Zyphra's clients read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors answered."""
        handler = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handler(request)
            except SchemaFault as fault:
                return JSONResponse({"detail": fault.detail}, 422)
            except (StudioError, HTTPException) as error:
                kind = StudioError if isinstance(error, StudioError) else HTTPException
                response = await request.app.exception_handlers[kind](request, error)
                return _detail_first(response)

        return answered


def _detail_first(response: Response) -> Response:
    told = json.loads(bytes(response.body))
    response.body = json.dumps({"detail": told["detail"]} | told).encode()
    return response
