"""POST /v1/audio/verify: what a sound file carries that says a machine spoke, and how sure that is.

The file comes as a form (``file``), as base64 or a data: URI in JSON (``audio``), or as the body
itself. Nothing of it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from engine import Cancelled, InvalidRequest, TooLarge, Unavailable
from studio.api.body import STALL_S, read_form, read_object
from studio.api.docs import errors
from studio.inspection import LIMITS, Inspection, inspect_bytes
from studio.media.base64_text import Base64Error, decoded_pieces

PATH = "/v1/audio/verify"
# Files that wait to be checked, up to 30 MB each.
MAX_WAITING = 8
_BINARY = {"type": "string", "format": "binary"}
_KINDS = "a form with a file, JSON with 'audio' in base64, or a sound file as the body"


class WatermarkFound(BaseModel):
    """What the detector heard."""

    found: bool
    confidence: float = Field(description="0 to 1, of the clearest stretch of 10 s")
    seconds_checked: float = Field(description="seconds without silence at both ends, at most 60")
    sentence: str


class MetadataFound(BaseModel):
    """What the words of the file say."""

    says_ai_generated: bool
    tags: dict[str, str]
    sentence: str


class StatementFound(BaseModel):
    """What a signed C2PA statement says."""

    found: bool
    intact: bool = Field(description="the signature holds, and the file is unchanged since")
    says_ai_generated: bool
    signer: str = Field(description="the name in the certificate; not confirmed")
    generator: str
    sentence: str


class Verified(BaseModel):
    """The answer of the route."""

    summary: str
    duration_s: float
    watermark: WatermarkFound
    metadata: MetadataFound
    c2pa: StatementFound


VERIFY_DOCS: dict[str, Any] = {
    "response_model": Verified,
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {"file": _BINARY},
                        "required": ["file"],
                    }
                },
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "audio": {"type": "string", "description": "base64 or a data: URI"}
                        },
                        "required": ["audio"],
                    }
                },
                "audio/*": {"schema": _BINARY},
            },
        }
    },
    "responses": errors(400, 413, 415, 503),
}


def verify_router() -> APIRouter:
    """The route. One file is checked at a time: speech that is being made goes first."""
    router = APIRouter(tags=["provenance"])
    one = CapacityLimiter(1)

    @router.post(PATH, **VERIFY_DOCS)
    async def verify(request: Request) -> Verified:
        """Whether a sound file says that a machine spoke: watermark, metadata, C2PA."""
        field, chunks = await _file_of(request)
        if one.statistics().tasks_waiting >= MAX_WAITING:
            raise Unavailable(
                f"verify: {MAX_WAITING} files are waiting to be checked; try again in a few"
                " seconds.",
                retry_after_s=5,
            )
        return told(await run_sync(_inspected, chunks, field, limiter=one))

    return router


def told(inspection: Inspection) -> Verified:
    """The answer for what was found."""
    statement = inspection.statement
    return Verified(
        summary=inspection.summary,
        duration_s=round(inspection.duration_s, 3),
        watermark=WatermarkFound(
            found=inspection.watermark.is_found,
            confidence=round(inspection.watermark.confidence, 3),
            seconds_checked=round(inspection.seconds_checked, 2),
            sentence=inspection.watermark_sentence,
        ),
        metadata=MetadataFound(
            says_ai_generated=inspection.tags_say_ai,
            tags=inspection.tags,
            sentence=inspection.tags_sentence,
        ),
        c2pa=StatementFound(
            found=statement is not None,
            intact=statement is not None and statement.is_intact,
            says_ai_generated=inspection.statement_says_ai,
            signer="" if statement is None else statement.signer,
            generator="" if statement is None else statement.generator,
            sentence=inspection.statement_sentence,
        ),
    )


def _inspected(chunks: Iterable[bytes], field: str) -> Inspection:
    try:
        return inspect_bytes(chunks, field)
    except Base64Error as error:
        raise InvalidRequest(
            f"{field} cannot be read: {error}. Send base64 of the whole file, or a data: URI.",
            field=field,
        ) from error


async def _file_of(request: Request) -> tuple[str, Iterable[bytes]]:
    """The name of the field that brings the file, and its bytes in pieces."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        data = (await read_form(request)).get("file")
        if not isinstance(data, bytes):
            raise _missing("file", "send a sound file as this field of the form")
        return "file", [data]
    if kind == "application/json":
        text = (await read_object(request)).get("audio")
        if not isinstance(text, str):
            raise _missing("audio", "send a sound file as base64 or a data: URI")
        return "audio", decoded_pieces(text)
    if kind.startswith(("audio/", "video/")) or kind in ("application/octet-stream", ""):
        return "body", [await _body_of(request)]
    raise HTTPException(
        415, f"body: the content type {kind[:60]!r} is not accepted; send {_KINDS}."
    )


async def _body_of(request: Request) -> bytes:
    """A body that is the file itself, given up where it is too large or stalls."""
    data = bytearray()
    pieces = aiter(request.stream())
    try:
        while True:
            async with asyncio.timeout(STALL_S):
                data += await anext(pieces)
            if len(data) > LIMITS.size_bytes:
                raise TooLarge(
                    f"body: it is larger than {LIMITS.size_bytes / 1e6:.0f} MB; send a part of the"
                    " sound, or the same as FLAC.",
                    code="body_too_large",
                )
    except StopAsyncIteration:
        return bytes(data)
    except TimeoutError:
        raise HTTPException(
            408, f"body: nothing arrived for {STALL_S:.0f} s; send the file again."
        ) from None
    except ClientDisconnect:
        raise Cancelled("request: the client left while sending it.") from None


def _missing(field: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field}: it is missing; {remedy}.", field=field, code="missing_required_parameter"
    )
