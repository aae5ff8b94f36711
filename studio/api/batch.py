"""POST /v1/audio/speech/batch: up to 32 texts in one request, with shared fields and their own.

- The items go through everybody's queue, and never more of them than their owner may have there. A
  batch that finds no place at all is refused as one request would be.
- One item's fault is told in its result; the others are spoken.
- A recording that several items share is prepared once.
- A client that leaves takes all of its items with it.
- Bounded: all texts together are no longer than the text of one request may be.
- Source: spec/api.md A3, F14.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from engine import InvalidRequest, QueueFull, StudioError
from studio.api.body import read_object
from studio.api.docs import errors
from studio.api.doors import SGLANG
from studio.api.errors import error_object
from studio.api.layers import layered
from studio.api.leaving import unless_client_leaves
from studio.api.owners import owner_of, share_of
from studio.api.parse import SpeechAsk
from studio.api.patience import begin_patiently
from studio.api.prepared import prepared, recording_of
from studio.api.request_ids import request_id
from studio.api.schemas import refused
from studio.api.speakers import Speaker
from studio.api.speaking import Speaking, Spoken
from studio.owner import Owner

MAX_ITEMS = 32
_ITEM = {"$ref": "#/components/schemas/SpeechBody"}
_ITEMS = {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": _ITEM}
_BODY = {"type": "object", "required": ["items"], "properties": {"items": _ITEMS}}
_EXAMPLE = {
    "voice": "default",
    "response_format": "mp3",
    "items": [{"input": "Good morning."}, {"input": "Good night.", "speed": 0.8}],
}
_DOCS: dict[str, Any] = {
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _BODY, "example": _EXAMPLE}},
        }
    },
    "responses": {
        200: {"description": "a result for each item", "content": {"application/json": {}}},
        **errors(400, 413, 415, 429, 503),
    },
}


def batch_router(speaking: Speaking) -> APIRouter:
    """The batch route."""
    router = APIRouter(tags=["speech"])

    @router.post("/v1/audio/speech/batch", response_class=Response, **_DOCS)
    async def create_batch(request: Request) -> Response:
        """Speak up to 32 texts: each result has its status, and the sound as base64.

        An item is a request of /v1/audio/speech; what stands beside `items` holds for all of them.
        """
        speaking.check_room(request)
        items = _items(await read_object(request))
        owner = owner_of(request)
        batch = _Batch(speaking, owner, share_of(request, owner), request_id(request))
        return await unless_client_leaves(request, lambda: batch.answer(items))

    return router


def _items(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items, each with the shared fields that it leaves open."""
    items = payload.get("items")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        remedy = f"give a list of 1 to {MAX_ITEMS} objects"
        raise refused("items", items, f"{remedy}, each with an input of its own")
    shared = {name: value for name, value in payload.items() if name != "items"}
    merged = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise refused(f"items[{index}]", item, 'give an object such as {"input": "Hello."}')
        merged.append(layered(shared, item))
    return merged


class _Batch:
    """One batch: its items share an owner, a share of the queue and the beginning of their ids."""

    def __init__(self, speaking: Speaking, owner: Owner, share: str, batch_id: str) -> None:
        self._speaking = speaking
        self._owner = owner
        self._share = share
        self._id = batch_id
        # They may all wait at once, when others hold the slots.
        num_at_once = min(speaking.engine.num_slots, speaking.settings.max_waiting_per_owner)
        self._at_once = anyio.CapacityLimiter(num_at_once)
        self._num_begun = 0
        self._warnings: dict[int, str] = {}  # of recordings, by item

    async def answer(self, items: Sequence[Mapping[str, Any]]) -> Response:
        """All results, in the order of the items; raises ``QueueFull`` where none had a place."""
        asks = [await run_sync(self._checked, item) for item in items]
        self._check_length(asks)
        asks = await self._prepared(asks)
        results: list[tuple[bytes, ...]] = [()] * len(asks)
        failures: list[StudioError] = []

        async def fill(index: int, ask: SpeechAsk | StudioError) -> None:
            try:
                if isinstance(ask, StudioError):
                    raise ask
                async with self._at_once:
                    results[index] = await self._result(index, ask)
            except StudioError as error:
                failures.append(error)
                told = {"index": index, "status": "error", "audio_data": None}
                results[index] = (json.dumps(told | _told(error)).encode(),)

        async with anyio.create_task_group() as group:
            for index, ask in enumerate(asks):
                group.start_soon(fill, index, ask)
        refusal = next((error for error in failures if isinstance(error, QueueFull)), None)
        if refusal is not None and self._num_begun == 0:
            raise refusal
        return self._response(results, len(failures))

    def _checked(self, item: Mapping[str, Any]) -> SpeechAsk | StudioError:
        """An item as it is asked for, or what is wrong with it."""
        try:
            ask = self._speaking.check(item, SGLANG)
            if ask.is_live:
                raise InvalidRequest(
                    "stream: a batch is not streamed; leave stream and stream_format out.",
                    field="stream",
                    code="unsupported_parameter",
                )
        except StudioError as error:
            return error
        return ask

    def _check_length(self, asks: Sequence[SpeechAsk | StudioError]) -> None:
        num_chars = sum(len(ask.body.input) for ask in asks if isinstance(ask, SpeechAsk))
        if num_chars > (max_chars := self._speaking.settings.max_input_chars):
            raise InvalidRequest(
                f"items: their texts have {num_chars} characters together and the limit is"
                f" {max_chars}; send several batches.",
                field="items",
                code="string_above_max_length",
            )

    async def _prepared(
        self, asks: Sequence[SpeechAsk | StudioError]
    ) -> list[SpeechAsk | StudioError]:
        """The same asks, with an embedding in the place of each recording; each is read once."""
        heard: dict[tuple[object, ...], tuple[SpeechAsk, Speaker] | StudioError] = {}
        ready: list[SpeechAsk | StudioError] = []
        for index, ask in enumerate(asks):
            if isinstance(ask, StudioError) or (sound := recording_of(ask.speaker)) is None:
                ready.append(ask)
                continue
            wish = ask.speaker
            key = (sound, wish.voice, wish.has_consent, wish.embedding, wish.blend)
            if key not in heard:
                try:
                    heard[key] = await prepared(self._speaking.speakers, ask, self._owner)
                except StudioError as error:
                    heard[key] = error
            found = heard[key]
            if isinstance(found, StudioError):
                ready.append(found)
                continue
            known, speaker = found
            ready.append(replace(ask, speaker=known.speaker))
            self._warnings[index] = speaker.warnings
        return ready

    async def _result(self, index: int, ask: SpeechAsk) -> tuple[bytes, ...]:
        """The result of an item as JSON, in pieces: the sound in its middle may be large."""
        async with await self._begun(ask, f"{self._id}-{index}") as spoken:
            body = await spoken.body()
        reason = spoken.stream.finish_reason
        about = {
            "index": index,
            "status": "success",
            "format": ask.format,
            "media_type": spoken.encoder.format.media_type,
            "sample_rate": spoken.encoder.sample_rate_hz,
            "duration": round(spoken.duration_s, 3),
            "seed": spoken.stream.seed,
            "finish_reason": None if reason is None else reason.value,
            "ignored_fields": list(ask.ignored),
            "warnings": " ".join(filter(None, (self._warnings.get(index), *spoken.warnings)))
            or None,
            "repairs": spoken.repairs,
            "usage": spoken.usage,
            "take": spoken.headers().get("X-Take"),
            "error": None,
        }
        sound = await run_sync(base64.b64encode, body)
        return json.dumps(about).encode()[:-1] + b', "audio_data": "', sound, b'"}'

    async def _begun(self, ask: SpeechAsk, item_id: str) -> Spoken:
        """An item in the queue; where that is full, it waits for others of the batch to end."""
        begin = partial(self._speaking.begin, ask, self._owner, item_id, self._share)
        spoken = await begin_patiently(begin, waits=lambda: self._num_begun > 0)
        self._num_begun += 1
        return spoken

    def _response(self, results: Sequence[tuple[bytes, ...]], num_failed: int) -> Response:
        pieces = [json.dumps({"id": self._id}).encode()[:-1] + b', "results": [']
        for index, result in enumerate(results):
            pieces += [b", " if index else b"", *result]
        total = len(results)
        counts = {"total": total, "succeeded": total - num_failed, "failed": num_failed}
        pieces.append(b"], " + json.dumps(counts).encode()[1:])
        return StreamingResponse(
            iter(pieces),
            media_type="application/json",
            headers={"Content-Length": str(sum(map(len, pieces))), "Cache-Control": "no-store"},
        )


def _told(error: StudioError) -> dict[str, str | None]:
    """What is wrong with an item: the sentence where SGLang's clients look for it, and the rest."""
    told = error_object(error)
    return {"error": told["message"], "code": told["code"], "param": told["param"]}
