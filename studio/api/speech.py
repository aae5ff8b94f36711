"""POST /v1/audio/speech and /openai/v1/audio/speech: one request in, one sound out.

- Whole with its length, or while it is made: as bytes or as events.
- Headers go out when the first piece exists, so that every earlier fault keeps its status; a fault
  after that cuts the connection.
- A client that leaves frees its slot, whatever the phase.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from studio.api import sse
from studio.api.body import read_fields
from studio.api.docs import SPEECH_DOCS
from studio.api.doors import OPENAI, SGLANG, Door
from studio.api.leaving import unless_client_leaves
from studio.api.owners import owner_of, share_of
from studio.api.parse import SpeechAsk, form_value
from studio.api.request_ids import request_id
from studio.api.speaking import Speaking, Spoken

# A client that takes nothing of its sound for so long is given up: it holds a slot.
SEND_STALL_S = 120.0


def speech_router(speaking: Speaking) -> APIRouter:
    """The speech routes."""
    router = APIRouter(tags=["speech"])

    async def answer(request: Request, door: Door) -> Response:
        speaking.check_room(request)
        payload = await read_fields(request, form_value)
        with speaking.room(request):
            ask = await run_sync(speaking.check, payload, door)  # 30 MB of fields take their time
            return await unless_client_leaves(request, lambda: speak(speaking, ask, request))

    @router.post("/v1/audio/speech", response_class=Response, **SPEECH_DOCS)
    async def create_speech(request: Request) -> Response:
        """Speak a text: the whole sound with its length, or with `stream` while it is made."""
        return await answer(request, SGLANG)

    @router.post("/openai/v1/audio/speech", response_class=Response, **SPEECH_DOCS)
    async def create_openai_speech(request: Request) -> Response:
        """The same with OpenAI's defaults: MP3, sent while it is made; pcm has 24 kHz."""
        return await answer(request, OPENAI)

    return router


async def speak(speaking: Speaking, ask: SpeechAsk, request: Request) -> Response:
    """The answer to ``request``: what ``ask`` wants to hear, as it wants to hear it.

    Raises what is wrong before the first sound. To be called within ``unless_client_leaves``.
    """
    owner = owner_of(request)
    share, reservation = share_of(request, owner), getattr(request.state, "reservation", None)
    spoken = await speaking.begin(ask, owner, request_id(request), share, reservation)
    try:
        if ask.is_live:
            return await _live(spoken)
        async with spoken:
            body = await spoken.body()
        known = spoken.encoder.format
        headers = spoken.headers() | spoken.measured()
        headers["Content-Disposition"] = f'attachment; filename="speech.{known.suffix}"'
        return Response(body, headers=headers, media_type=known.media_type)
    except BaseException:
        spoken.close()
        raise


async def _live(spoken: Spoken) -> Response:
    if spoken.ask.is_sse:
        media_type, pieces = sse.MEDIA_TYPE, sse.speech_events(spoken)
    else:
        media_type, pieces = spoken.encoder.format.media_type, spoken.live()
    first = await anext(pieces)  # a request that ends without sound raises its reason
    if spoken.ask.is_sse:
        pieces = sse.with_pings(pieces)
    return _LiveSound(spoken, first, pieces, media_type)


class _LiveSound(StreamingResponse):
    """The sound as it is made. However it ends, the engine stops making it."""

    def __init__(
        self, spoken: Spoken, first: bytes, pieces: AsyncIterator[bytes], media_type: str
    ) -> None:
        async def body() -> AsyncIterator[bytes]:
            yield first
            async for piece in pieces:
                yield piece

        headers = spoken.headers() | {"X-Accel-Buffering": "no"}
        super().__init__(body(), headers=headers, media_type=media_type)
        self._spoken = spoken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_or_give_up(message: Message) -> None:
            async with asyncio.timeout(SEND_STALL_S):
                await send(message)

        async with self._spoken:
            await super().__call__(scope, receive, send_or_give_up)
