"""Server-sent events: OpenAI's events of a speech, and a sign of life where nothing happens.

A comment goes out after ``PING_S`` of silence, so that no proxy takes the connection for dead.
Source: spec/api.md F3.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from engine import StudioError
from studio.api.errors import error_object
from studio.api.speaking import Spoken
from studio.api.timestamps import Timestamps
from studio.media.encode import encoded

MEDIA_TYPE = "text/event-stream"
PING_S = 15.0
_PING = b": ping\n\n"


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    """One event, ASCII only."""
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(data)}\n\n".encode()


async def speech_events(spoken: Spoken) -> AsyncIterator[bytes]:
    """The speech as ``speech.audio.delta`` events and one ``speech.audio.done``.

    Where they were asked for, ``speech.audio.timestamps`` follow what they are about.

    A fault before the first event is raised; a later one is told in ``speech.audio.error`` and then
    raised, so that the connection is cut.
    """
    about = {"response_format": spoken.ask.format, "sample_rate": spoken.encoder.sample_rate_hz}
    index = 0
    times = Timestamps(spoken, spoken.ask.body.timestamps or ())
    try:
        async for piece in encoded(times.heard(spoken.chunks()), spoken.encoder):
            audio = base64.b64encode(piece).decode()
            delta = {"type": "speech.audio.delta", "audio": audio, **about, "index": index}
            yield event(delta)
            index += 1
            for told in await times.news():
                yield event({"type": "speech.audio.timestamps", **told})
        for told in await times.news(is_all=True):
            yield event({"type": "speech.audio.timestamps", **told})
    except StudioError as error:
        if index:
            yield event({"type": "speech.audio.error", "error": error_object(error)})
        raise
    reason = spoken.stream.finish_reason
    yield event(
        {
            "type": "speech.audio.done",
            "usage": spoken.usage,
            "seed": spoken.stream.seed,
            "duration": round(spoken.duration_s, 3),
            "finish_reason": None if reason is None else reason.value,
            "repairs": spoken.repairs,
        }
    )


async def with_pings(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """``events``, and a comment whenever none came for ``PING_S``."""
    pending: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            pending = asyncio.ensure_future(anext(events, None))
            while not (await asyncio.wait({pending}, timeout=PING_S))[0]:
                yield _PING
            item = pending.result()
            if item is None:
                return
            yield item
    finally:
        if pending is not None and not pending.done():
            pending.cancel()
            with contextlib.suppress(asyncio.CancelledError, StudioError):
                await pending
