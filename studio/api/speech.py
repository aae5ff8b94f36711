"""POST /v1/audio/speech: one request in, one sound out, whole or while it is made.

- Headers go out when the first chunk exists, so that every earlier fault keeps its status; a fault
  after that cuts the connection.
- A client that leaves frees its slot, whatever the phase.
- Logs hold ids and sizes, never text.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import numpy as np
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from engine import (
    Engine,
    InvalidRequest,
    SpeechRequest,
    SpeechStream,
    draw_seed,
)
from studio.api.body import read_object
from studio.api.docs import SPEECH_DOCS
from studio.api.encoding import to_int16, wav_header
from studio.api.headers import measured_headers, notes, rtf, sound_headers
from studio.api.leaving import unless_client_leaves
from studio.api.parse import SpeechAsk, parse_speech
from studio.api.request_ids import request_id
from studio.api.speakers import Speakers
from studio.api.system import model_ids
from studio.media.fade import faded
from studio.settings import Settings

log = logging.getLogger(__name__)

MEDIA_TYPES = {"wav": "audio/wav", "pcm": "audio/pcm"}


def speech_router(engine: Engine, settings: Settings) -> APIRouter:
    """The speech route over ``engine``."""
    router = APIRouter(tags=["speech"])
    speakers = Speakers(engine, settings)
    features = [control.name for control in engine.family.controls if control.kind == "quality"]

    async def speak(ask: SpeechAsk, ignored: list[str], request: Request) -> Response:
        speaker, voice_id, warnings = await speakers.resolve(ask)
        seed = ask.body.seed
        wish = SpeechRequest(
            text=ask.body.input,
            speaker=speaker,
            sampling=ask.sampling,
            delivery=ask.delivery(features),
            voice_id=voice_id,
            emotion=ask.emotion,
            guidance=ask.guidance,
            seed=draw_seed() if seed is None else seed,
            max_new_frames=ask.body.max_new_tokens,
            language=ask.body.language,
            owner=request.client.host if request.client else "local",
            request_id=request_id(request),
        )
        stream = await run_sync(engine.submit, wish)
        try:
            return await _answer(stream, ask, notes(ignored, warnings))
        except BaseException:
            stream.cancel()
            raise

    @router.post("/v1/audio/speech", response_class=Response, **SPEECH_DOCS)
    async def create_speech(request: Request) -> Response:
        """Speak a text: the whole sound with its length, or with `stream` while it is made."""
        ask = parse_speech(await read_object(request), settings.max_input_chars)
        ignored = list(ask.ignored)
        if ask.body.model not in {None, *model_ids(engine)}:
            ignored.append("model")
        if ignored and ask.body.strict:
            raise InvalidRequest(
                f"strict: {', '.join(ignored)[:200]} would be ignored; leave it out, or strict.",
                field=ignored[0][:200],
                code="unknown_field",
            )
        return await unless_client_leaves(request, lambda: speak(ask, ignored, request))

    return router


async def _answer(stream: SpeechStream, ask: SpeechAsk, extra: dict[str, str]) -> Response:
    name = ask.body.response_format
    chunks = aiter(faded(aiter(stream), ask.body.fade_out_ms, stream.sample_rate_hz))
    first = await anext(chunks)  # a request that ends without sound raises its reason
    headers = sound_headers(stream) | extra
    if ask.body.stream:
        head = wav_header(stream.sample_rate_hz, None) if name == "wav" else b""
        headers["X-Accel-Buffering"] = "no"
        return _LiveSound(stream, head, first, chunks, headers, MEDIA_TYPES[name])
    pieces = [to_int16(first).tobytes()]
    async for chunk in chunks:
        pieces.append(to_int16(chunk).tobytes())
    if name == "wav":
        pieces.insert(0, wav_header(stream.sample_rate_hz, sum(map(len, pieces))))
    _log_end(stream)
    headers |= measured_headers(stream)
    headers["Content-Disposition"] = f'attachment; filename="speech.{name}"'
    body = await run_sync(b"".join, pieces)  # an hour of speech is 300 MB
    return Response(body, headers=headers, media_type=MEDIA_TYPES[name])


class _LiveSound(StreamingResponse):
    """The sound as it is made. However it ends, the engine stops making it."""

    def __init__(
        self,
        stream: SpeechStream,
        head: bytes,
        first: np.ndarray,
        chunks: AsyncIterator[np.ndarray],
        headers: dict[str, str],
        media_type: str,
    ) -> None:
        async def body() -> AsyncIterator[bytes]:
            yield head + to_int16(first).tobytes()
            async for chunk in chunks:
                yield to_int16(chunk).tobytes()
            _log_end(stream)

        super().__init__(body(), headers=headers, media_type=media_type)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.cancel()


def _log_end(stream: SpeechStream) -> None:
    log.info(
        "request %s: %.2f s of sound, rtf %.2f, first chunk after %.0f ms, %s",
        stream.request_id,
        stream.spoken_s,
        rtf(stream),
        stream.timings.ttfa_ms or 0,
        stream.finish_reason,
    )
