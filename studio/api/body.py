"""A body of JSON or of a form, read with a size limit and a deadline, before its fields count.

Files of a form may pass through a file without a name while they arrive; nothing of them is left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from engine import Cancelled, InvalidRequest, TooLarge

# A 20 MB recording is 27 MB of base64; the rest of a request is small.
MAX_BODY_BYTES = 30_000_000
# A client that sends nothing for so long is given up.
STALL_S = 30.0
# Larger bodies are parsed in a thread: parsing 30 MB takes longer than the event loop may stop.
_PARSE_HERE_BYTES = 1 << 18
_FORM = "multipart/form-data"
MAX_FORM_FIELDS = 200
MAX_FORM_FILES = 8


async def read_fields(
    request: Request, form_value: Callable[[str, str], object]
) -> dict[str, object]:
    """The fields of a JSON object or a form; ``form_value(name, text)`` reads a form's texts.

    Files of a form come as ``bytes``. Raises what ``read_object`` and ``read_form`` do.
    """
    if _kind(request) != _FORM:
        return await read_object(request)
    form = await read_form(request)
    return {
        name: form_value(name, value) if isinstance(value, str) else value
        for name, value in form.items()
    }


async def read_form(request: Request) -> dict[str, str | bytes]:
    """The fields of a form that sends each of them once; raises what ``read_form_items`` does."""
    fields: dict[str, str | bytes] = {}
    for name, value in await read_form_items(request):
        if name in fields:
            raise InvalidRequest(f"{name[:60]}: it was sent twice; send it once.", field=name[:60])
        fields[name] = value
    return fields


async def read_form_items(request: Request) -> list[tuple[str, str | bytes]]:
    """The fields of a form (multipart/form-data): text as it was sent, files as ``bytes``.

    An empty file input is left out. Raises ``InvalidRequest`` for a form that cannot be read,
    ``TooLarge``, and HTTP 415 and 408 for another content type and a stalled client.
    """
    if _kind(request) != _FORM:
        raise _not_accepted(_kind(request), f"a form with 'Content-Type: {_FORM}'")
    parser = MultiPartParser(
        request.headers,
        _pieces(request),
        max_files=MAX_FORM_FILES,
        max_fields=MAX_FORM_FIELDS,
        max_part_size=MAX_BODY_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise InvalidRequest(
            f"body: it is no form that can be read ({error.message[:80].rstrip('.')}); send"
            " multipart/form-data as curl -F does.",
            code="invalid_form",
        ) from None
    try:
        return [
            (name, value if isinstance(value, str) else await value.read())
            for name, value in form.multi_items()
            if isinstance(value, str) or value.size or value.filename
        ]
    finally:
        await form.close()


async def read_object(request: Request) -> dict[str, object]:
    """The JSON object in the body.

    Raises ``InvalidRequest`` for what is not one, ``TooLarge`` before the whole of a large body is
    in memory, and HTTP 415 and 408 for another content type and a stalled client.
    """
    kind = _kind(request)
    if kind != "application/json" and not kind.endswith("+json"):
        raise _not_accepted(kind, "JSON with 'Content-Type: application/json'")
    data = bytearray()
    async for piece in _pieces(request):
        if len(data) + len(piece) > MAX_BODY_BYTES:
            raise _too_large()
        data += piece
    if len(data) <= _PARSE_HERE_BYTES:
        return _parsed(data)
    return await run_sync(_parsed, data)


def _kind(request: Request) -> str:
    content_type = request.headers.get("content-type", "application/json")
    return content_type.partition(";")[0].strip().lower()


def _not_accepted(kind: str, remedy: str) -> HTTPException:
    return HTTPException(
        415, f"body: the content type {kind[:60]!r} is not accepted; send {remedy}."
    )


async def _pieces(request: Request) -> AsyncGenerator[bytes, None]:
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
