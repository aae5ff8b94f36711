"""A JSON body, read with a size limit and a deadline, before any field is looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from engine import Cancelled, InvalidRequest, TooLarge

# A 20 MB recording is 27 MB of base64; the rest of a request is small.
MAX_BODY_BYTES = 30_000_000
# A client that sends nothing for so long is given up.
STALL_S = 30.0
# Larger bodies are parsed in a thread: parsing 30 MB takes longer than the event loop may stop.
_PARSE_HERE_BYTES = 1 << 18


async def read_object(request: Request) -> dict[str, object]:
    """The JSON object in the body.

    Raises ``InvalidRequest`` for what is not one, ``TooLarge`` before the whole of a large body is
    in memory, and HTTP 415 and 408 for another content type and a stalled client.
    """
    content_type = request.headers.get("content-type", "application/json")
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise HTTPException(
            415,
            f"body: the content type {kind[:60]!r} is not accepted; send JSON with"
            " 'Content-Type: application/json'.",
        )
    data = bytearray()
    async for piece in _pieces(request):
        if len(data) + len(piece) > MAX_BODY_BYTES:
            raise _too_large()
        data += piece
    if len(data) <= _PARSE_HERE_BYTES:
        return _parsed(data)
    return await run_sync(_parsed, data)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 12 or int(declared) > MAX_BODY_BYTES):
        raise _too_large()
    pieces = aiter(request.stream())
    try:
        while True:
            async with asyncio.timeout(STALL_S):
                piece = await anext(pieces)
            yield piece
    except StopAsyncIteration:
        return
    except TimeoutError:
        raise HTTPException(
            408, f"body: nothing arrived for {STALL_S:.0f} s; send the request again."
        ) from None
    except ClientDisconnect:
        raise Cancelled("request: the client left while sending it.") from None


def _parsed(data: bytearray) -> dict[str, object]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        place = ""
        if isinstance(error, json.JSONDecodeError):
            place = f" (line {error.lineno}, column {error.colno})"
        raise InvalidRequest(
            f'body: it is not JSON{place}; send one object such as {{"input": "Hello there."}}.',
            code="invalid_json",
        ) from None
    if not isinstance(value, dict):
        raise InvalidRequest(
            'body: it must be one JSON object; send for example {"input": "Hello there."}.',
            code="invalid_json",
        )
    return value


def _too_large() -> TooLarge:
    return TooLarge(
        f"body: it is larger than {MAX_BODY_BYTES / 1e6:.0f} MB; send a shorter recording, or the"
        " same one as MP3 or M4A.",
        code="body_too_large",
    )
