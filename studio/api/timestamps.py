"""When what is said, for speech that is being made: sentences from its plan, words by estimate.

POST /v1/audio/speech/with-timestamps gives sound and times in one JSON object; of a stream, the
events of ``sse.py`` tell them. Source: spec/api.md F2, F3.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine import InvalidRequest
from studio.api.body import read_fields
from studio.api.docs import TIMESTAMPS_DOCS
from studio.api.doors import SGLANG
from studio.api.leaving import unless_client_leaves
from studio.api.owners import owner_of, share_of
from studio.api.parse import SpeechAsk, form_value
from studio.api.request_ids import request_id
from studio.api.speaking import Speaking, Spoken
from studio.media.encode import encoded
from studio.timing import ChunkClock, Granularity, Timed, granularities, timed_words

_NAMES = ("timestamps", "timestamp_granularities")


def timestamps_router(speaking: Speaking) -> APIRouter:
    """The route of sound with times."""
    router = APIRouter(tags=["speech"])

    @router.post("/v1/audio/speech/with-timestamps", response_class=Response, **TIMESTAMPS_DOCS)
    async def create_timed_speech(request: Request) -> Response:
        """Speak a text: the sound as base64, and when each sentence or word of it is said."""
        speaking.check_room(request)
        payload = await read_fields(request, form_value)
        wished = None
        for name in _NAMES:
            wished = wished or granularities(payload.pop(name, None), name)
        ask = await run_sync(speaking.check, payload, SGLANG)
        if ask.is_live:
            raise InvalidRequest(
                "stream: this route is not streamed; leave stream and stream_format out, or ask"
                " /v1/audio/speech for events.",
                field="stream",
                code="unsupported_parameter",
            )
        return await unless_client_leaves(
            request, lambda: _timed(speaking, ask, wished or ["chunk"], request)
        )

    return router


async def _timed(
    speaking: Speaking, ask: SpeechAsk, wished: Sequence[Granularity], request: Request
) -> Response:
    owner = owner_of(request)
    spoken = await speaking.begin(ask, owner, request_id(request), share_of(request, owner))
    async with spoken:
        times = Timestamps(spoken, wished)
        pieces = [piece async for piece in encoded(times.heard(spoken.chunks()), spoken.encoder)]
        body = await run_sync(b"".join, pieces)
        body = await run_sync(speaking.marker.signed, body, ask.format, spoken.tags)
        told = await times.news(is_all=True)
    reason = spoken.stream.finish_reason
    about = {
        "format": ask.format,
        "media_type": spoken.encoder.format.media_type,
        "sample_rate": spoken.encoder.sample_rate_hz,
        "duration": round(spoken.duration_s, 3),
        "timestamps": [
            {"granularity": news["granularity"], **item} for news in told for item in news["items"]
        ],
        "seed": spoken.stream.seed,
        "finish_reason": None if reason is None else reason.value,
        "usage": spoken.usage,
        "repairs": spoken.repairs,
    }
    sound = await run_sync(base64.b64encode, body)
    whole = json.dumps(about).encode()[:-1] + b', "audio": "' + sound + b'"}'
    headers = spoken.headers() | spoken.measured()
    return Response(whole, headers=headers, media_type="application/json")


class Timestamps:
    """The times of one speech, which passes through ``heard`` while it is given out."""

    def __init__(self, spoken: Spoken, wished: Sequence[Granularity]) -> None:
        self._stream = spoken.stream
        self._rate_hz = spoken.sample_rate_hz
        self._speed = spoken.ask.pace.stretch
        self._wished = wished
        self._prepared = spoken.prepared
        self._clock: ChunkClock | None = None  # comparing a long text with itself takes a while
        self._num_told = 0  # chunks
        self._held: list[np.ndarray] = []  # samples that words may still be looked for in
        self._held_from = 0

    async def heard(self, chunks: AsyncIterator[np.ndarray]) -> AsyncIterator[np.ndarray]:
        """``chunks`` of float32 samples as they come."""
        async for chunk in chunks:
            if "word" in self._wished:
                self._held.append(chunk)
            yield chunk

    async def news(self, *, is_all: bool = False) -> list[dict[str, Any]]:
        """What has been said since the last time, a granularity each, as JSON.

        ``is_all``: the sound has ended.
        """
        if len(self._stream.chunks_spoken) == self._num_told or not self._wished:
            return []
        return await run_sync(self._news, is_all)

    def _news(self, is_all: bool) -> list[dict[str, Any]]:
        if self._clock is None:
            self._clock = ChunkClock(self._rate_hz, self._speed, self._prepared)
        told: dict[str, list[Timed]] = {name: [] for name in self._wished}
        held_until = self._held_from + sum(map(len, self._held))
        for chunk in self._stream.chunks_spoken[self._num_told :]:
            begin, end = (round(at / self._speed) for at in chunk[1:])
            if "word" in told and not is_all and end > held_until:
                break
            timed = self._clock.timed(chunk)
            self._num_told += 1
            if "chunk" in told:
                told["chunk"].append(timed)
            if "word" in told:
                samples = self._taken(begin, end)
                told["word"] += timed_words(timed, chunk.text, samples, self._rate_hz)
        return [
            {"granularity": name, "items": [_item(timed) for timed in items]}
            for name, items in told.items()
            if items
        ]

    def _taken(self, begin: int, end: int) -> np.ndarray:
        """The samples from ``begin`` to ``end``; those before are let go."""
        held = np.concatenate([np.zeros(0, np.float32), *self._held])
        taken = held[max(0, begin - self._held_from) : max(0, end - self._held_from)]
        self._held = [held[max(0, end - self._held_from) :]]
        self._held_from = max(end, self._held_from)
        return taken


def _item(timed: Timed) -> dict[str, Any]:
    return {
        "text": timed.text,
        "start": round(timed.start_s, 3),
        "end": round(timed.end_s, 3),
        "chunk": timed.chunk,
    }
