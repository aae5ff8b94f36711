"""How requests stand and how full the queue is: GET /v1/audio/queue, /v1/audio/requests/{id}.

The page's player hears a request at /v1/audio/requests/{id}/audio, while it is made.

A client that wants to watch or end its request from elsewhere chooses the id itself and sends it as
``X-Request-ID``. Another owner's request does not exist.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from engine import NotFound
from studio.api import sse
from studio.api.docs import TRACKING_ERRORS
from studio.api.owners import owner_of
from studio.api.requests import Tracked
from studio.api.speaking import Speaking

# A place in the queue is looked up so often.
LOOK_S = 0.25
# No proxy may keep it, or hold it back until it is whole.
_LIVE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def tracking_router(speaking: Speaking) -> APIRouter:
    """The routes about running requests."""
    router = APIRouter(tags=["requests"])

    @router.get("/v1/audio/queue")
    def queue(request: Request) -> dict[str, Any]:
        """How full the studio is, what a new request would wait, and your running requests."""
        stats = speaking.engine.stats
        must_wait = stats.num_waiting > 0 or stats.num_live >= stats.num_slots
        must_wait |= stats.load_s > 0
        wait_s = stats.load_s + (stats.num_waiting + 1) / stats.num_slots * stats.mean_service_s
        return {
            "object": "audio.queue",
            "state": stats.state,
            "slots": stats.num_slots,
            "speaking": stats.num_live,
            "waiting": stats.num_waiting,
            "max_waiting": speaking.settings.max_waiting,
            "estimated_wait_s": round(wait_s, 1) if must_wait else 0.0,
            "requests": speaking.requests.running(owner_of(request)),
        }

    @router.get("/v1/audio/requests/{request_id}", responses=TRACKING_ERRORS)
    def report(request: Request, request_id: str) -> dict[str, Any]:
        """How a request of yours stands: its place, the seconds spoken, its timings, its end."""
        return speaking.requests.find(owner_of(request), request_id).report()

    @router.delete("/v1/audio/requests/{request_id}", responses=TRACKING_ERRORS)
    def cancel(request: Request, request_id: str) -> dict[str, Any]:
        """End a request of yours, wherever it stands; its slot is free within two steps."""
        tracked = speaking.requests.find(owner_of(request), request_id)
        tracked.cancel()
        return {"id": request_id, "object": "audio.request", "cancelled": not tracked.has_ended}

    @router.get(
        "/v1/audio/requests/{request_id}/events",
        response_class=StreamingResponse,
        responses=TRACKING_ERRORS,
    )
    async def events(request: Request, request_id: str) -> StreamingResponse:
        """The same report as server-sent events, whenever it changes, until the request ends."""
        tracked = speaking.requests.find(owner_of(request), request_id)
        changes = sse.with_pings(_changes(tracked))
        return StreamingResponse(changes, headers=_LIVE, media_type=sse.MEDIA_TYPE)

    @router.get(
        "/v1/audio/requests/{request_id}/audio",
        response_class=StreamingResponse,
        responses=TRACKING_ERRORS,
    )
    async def audio(request: Request, request_id: str) -> StreamingResponse:
        """What the page speaks, while it is made and once: 16-bit samples without a header.

        Whoever leaves before the end ends the request.
        """
        listening = speaking.requests.find(owner_of(request), request_id).listening
        if listening is None:
            raise NotFound(
                "audio: this request was not begun by the page; its sound is the answer to the"
                " request itself.",
                field="id",
                code="audio_not_found",
            )
        headers = _LIVE | {"X-Sample-Rate": str(listening.sample_rate_hz)}
        return StreamingResponse(listening.taken(), headers=headers, media_type="audio/pcm")

    return router


async def _changes(tracked: Tracked) -> AsyncIterator[bytes]:
    last = ""
    while True:
        has_ended = tracked.has_ended
        report = tracked.report()
        if (said := json.dumps(report)) != last:
            yield sse.event(report, report["status"])
            last = said
        if has_ended:
            return
        await asyncio.sleep(LOOK_S)
