"""The takes of a caller: listed, heard, starred, deleted, exported, made again.

    GET    /v1/audio/takes                 the newest first; limit, after, q, starred
    DELETE /v1/audio/takes                 all without a star; with starred=true those too
    GET    /v1/audio/takes/export          all of them as one ZIP file
    GET    /v1/audio/takes/{id}            one, with its settings
    PATCH  /v1/audio/takes/{id}            starred, title
    DELETE /v1/audio/takes/{id}
    GET    /v1/audio/takes/{id}/audio      FLAC, or what format asks for
    POST   /v1/audio/takes/{id}/again      spoken again, the same samples

Another owner's take does not exist. Every take is found by its id in the database; no id, title or
text ever becomes part of a path.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import anyio
import numpy as np
import soundfile
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from engine import InvalidRequest, StudioError
from studio.api.again import ask_again
from studio.api.body import read_object
from studio.api.doors import SGLANG
from studio.api.headers import notes
from studio.api.leaving import unless_client_leaves
from studio.api.owners import owner_of
from studio.api.schemas import refused
from studio.api.speaking import Speaking
from studio.api.speech import speak
from studio.api.take_docs import (
    AGAIN_DOCS,
    AUDIO_DOCS,
    CHANGE_DOCS,
    DELETE_ALL_DOCS,
    DELETE_DOCS,
    EXPORT_DOCS,
    FIND_DOCS,
    LIST_DOCS,
)
from studio.history import MAX_PAGE, History
from studio.media.encode import Encoder, Format, encoded, known_format
from studio.media.pcm import FULL_SCALE
from studio.provenance import Marker
from studio.take_export import zipped
from studio.takes import Take, described, file_name, not_found

log = logging.getLogger(__name__)

DEFAULT_PAGE = 20
MAX_WORDS_CHARS = 200
# How often takes whose time is up are looked for.
EXPIRE_EVERY_S = 300.0
# Encoding uses a core; more at once would starve the engine.
_MAX_ENCODING = 2
_BLOCK_SAMPLES = 1 << 18
_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def takes_router(speaking: Speaking, history: History) -> APIRouter:
    """The routes over ``history``; while the application runs, takes go when their time is up."""
    encoding = CapacityLimiter(_MAX_ENCODING)

    @asynccontextmanager
    async def expiring(_: object) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(_expire, history)
            yield
            group.cancel_scope.cancel()

    router = APIRouter(tags=["takes"], lifespan=expiring)

    @router.get("/v1/audio/takes", **LIST_DOCS)
    def list_takes(request: Request) -> JSONResponse:
        """Your takes, the newest first. `next` is the `after` of the next page."""
        query = request.query_params
        limit = _number(query, "limit", 1, MAX_PAGE) or DEFAULT_PAGE
        page = history.newest(
            owner_of(request),
            limit + 1,
            after=_number(query, "after", 0, 2**63 - 1),
            words=query.get("q", "")[:MAX_WORDS_CHARS],
            is_starred=_truth(query, "starred"),
        )
        has_more = len(page) > limit
        body: dict[str, Any] = {
            "object": "list",
            "data": [described(take) for take in page[:limit]],
            "has_more": has_more,
            "next": str(page[limit - 1].place) if has_more else None,
        }
        if history.note:
            body["note"] = history.note
        return JSONResponse(body, headers=_PRIVATE)

    @router.delete("/v1/audio/takes", **DELETE_ALL_DOCS)
    def delete_takes(request: Request) -> JSONResponse:
        """Delete all of your takes that have no star; with `starred=true` those too."""
        starred = bool(_truth(request.query_params, "starred"))
        num_deleted = history.delete_all(owner_of(request), starred=starred)
        return JSONResponse({"object": "list.deleted", "deleted": num_deleted})

    @router.get("/v1/audio/takes/export", **EXPORT_DOCS)
    def export_takes(request: Request) -> StreamingResponse:
        """All of your takes as one ZIP file: their FLAC files, and takes.json about them."""
        headers = _PRIVATE | _attachment("takes.zip")
        pieces = zipped(history, owner_of(request))
        return StreamingResponse(pieces, headers=headers, media_type="application/zip")

    @router.get("/v1/audio/takes/{take_id}", **FIND_DOCS)
    def find_take(request: Request, take_id: str) -> JSONResponse:
        """One of your takes; its `settings` can be sent to /v1/audio/speech."""
        take = history.find(owner_of(request), take_id)
        return JSONResponse(described(take), headers=_PRIVATE)

    @router.patch("/v1/audio/takes/{take_id}", **CHANGE_DOCS)
    async def change_take(request: Request, take_id: str) -> JSONResponse:
        """Give a take a star or a title, or take them away."""
        given = await read_object(request)
        is_starred, title = _star(given), _title(given)
        if is_starred is None and title is None:
            raise InvalidRequest(
                'body: it changes nothing; send starred or title, such as {"starred": true}.',
                code="missing_required_parameter",
            )
        take = await run_sync(
            lambda: history.change(owner_of(request), take_id, is_starred=is_starred, title=title)
        )
        ignored = [name for name in given if name not in ("starred", "title")]
        return JSONResponse(described(take), headers=_PRIVATE | notes("", ignored, ""))

    @router.delete("/v1/audio/takes/{take_id}", **DELETE_DOCS)
    def delete_take(request: Request, take_id: str) -> JSONResponse:
        """Delete one of your takes, starred or not: its sound, its text, its voice's numbers."""
        history.delete(owner_of(request), take_id)
        return JSONResponse({"id": take_id, "object": "take.deleted", "deleted": True})

    @router.get("/v1/audio/takes/{take_id}/audio", **AUDIO_DOCS)
    async def take_audio(request: Request, take_id: str) -> Response:
        """The sound of a take: the kept FLAC file, of which parts can be asked for (Range)."""
        known = known_format(request.query_params.get("format", "flac"), "format")
        take = await run_sync(history.find, owner_of(request), take_id)
        if known.name == "flac":
            return _KeptSound(history, take)
        return await unless_client_leaves(
            request, lambda: _converted(history, take, known, speaking.marker, encoding)
        )

    @router.post("/v1/audio/takes/{take_id}/again", **AGAIN_DOCS)
    async def speak_again(request: Request, take_id: str) -> Response:
        """Speak a take again, as a WAV file: on the same machine, the same samples."""
        owner = owner_of(request)
        take = await run_sync(history.find, owner, take_id)
        ask = await ask_again(speaking, history, owner, take, SGLANG)
        return await unless_client_leaves(request, lambda: speak(speaking, ask, request))

    return router


class _KeptSound(FileResponse):
    """The FLAC file of a take; one that goes meanwhile is like one that never was."""

    def __init__(self, history: History, take: Take) -> None:
        super().__init__(
            history.path(take),
            headers=_PRIVATE | _attachment(file_name(take, "flac")),
            media_type="audio/flac",
        )
        self._take = take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await anyio.Path(self.path).exists():
            raise not_found(self._take.id)
        await super().__call__(scope, receive, send)


async def _converted(
    history: History, take: Take, known: Format, marker: Marker, limiter: CapacityLimiter
) -> Response:
    async def chunks() -> AsyncIterator[np.ndarray]:
        blocks = _blocks(history, take)
        while (block := await run_sync(next, blocks, None)) is not None:
            yield block

    tags = marker.tags(model=take.model, request_id=take.id, seed=take.seed)
    encoder = Encoder(known.name, take.sample_rate_hz, tags=tags, is_live=False)
    async with limiter:
        pieces = [piece async for piece in encoded(chunks(), encoder)]
        body = await run_sync(b"".join, pieces)
        body = await run_sync(marker.signed, body, known.name, tags)
    headers = _PRIVATE | _attachment(file_name(take, known.suffix))
    return Response(body, headers=headers, media_type=known.media_type)


def _attachment(name: str) -> dict[str, str]:
    quoted = quote(name)
    how = f'filename="{name}"' if quoted == name else f"filename*=utf-8''{quoted}"
    return {"Content-Disposition": f"attachment; {how}"}


def _blocks(history: History, take: Take) -> Iterator[np.ndarray]:
    """The kept samples as float32, in blocks; the rounding of every format gives them back."""
    try:
        file = history.path(take).open("rb")
    except FileNotFoundError:
        raise not_found(take.id) from None
    with file, soundfile.SoundFile(file) as sound:
        for block in sound.blocks(_BLOCK_SAMPLES, dtype="int16"):
            yield block.astype(np.float32) / FULL_SCALE


async def _expire(history: History) -> None:
    while True:
        try:
            if num_gone := await run_sync(history.expire):
                log.info("%d takes were too old", num_gone)
        except StudioError as error:
            log.warning("%s", error.message)
        await anyio.sleep(EXPIRE_EVERY_S)


def _number(query: QueryParams, name: str, minimum: int, maximum: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    if not is_number or not minimum <= int(text) <= maximum:
        remedy = f"give a whole number from {minimum} to {maximum}"
        if name == "after":
            remedy = "give what the page before said as next"
        raise refused(name, text, remedy)
    return int(text)


def _truth(query: QueryParams, name: str) -> bool | None:
    text = query.get(name)
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise refused(name, text, "give true or false")
    return text.lower() == "true"


def _star(given: dict[str, object]) -> bool | None:
    value = given.get("starred")
    if value is None or isinstance(value, bool):
        return value
    raise refused("starred", value, "give true or false")


def _title(given: dict[str, object]) -> str | None:
    """The new title; null takes it away."""
    if "title" not in given:
        return None
    value = given["title"]
    if value is None or isinstance(value, str):
        return value or ""
    raise refused("title", value, "give a text")
