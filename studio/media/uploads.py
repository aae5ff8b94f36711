"""Uploads of the page that end before they are whole leave no file behind.

Gradio writes an upload into its folder while it arrives. It removes the file of a malformed body,
but not that of a client that left: those would stay until the studio ends. So a client that leaves,
stalls or sends too much is passed on as what Gradio cleans up after: a body that breaks off in the
head of another part.
"""

from __future__ import annotations

import asyncio

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.media.limits import DEFAULT_LIMITS

_PATH = "/gradio_api/upload"
# A client that sends nothing for so long is given up.
STALL_S = 30.0
# The page sends one file at a time; its multipart dress is small.
MAX_BODY_BYTES = DEFAULT_LIMITS.size_bytes + (1 << 20)


class UnfinishedUploads:
    """Middleware before the page; every other request passes untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith(_PATH):
            _, options = parse_options_header(Headers(scope=scope).get("content-type", ""))
            if boundary := options.get(b"boundary"):
                receive = _broken_off(receive, boundary)
        await self._app(scope, receive, send)


def _broken_off(receive: Receive, boundary: bytes) -> Receive:
    """``receive``, with a malformed end in the place of none."""
    size_bytes = 0
    is_over = False

    async def receive_or_break() -> Message:
        nonlocal size_bytes, is_over
        if is_over:
            return await receive()
        try:
            async with asyncio.timeout(STALL_S):
                message = await receive()
        except TimeoutError:
            message = {"type": "http.disconnect"}
        size_bytes += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or size_bytes > MAX_BODY_BYTES:
            is_over = True
            end = b"\r\n--" + boundary + b"\r\n\0\r\n"  # no header has a NUL in its name
            return {"type": "http.request", "body": end, "more_body": False}
        is_over = not message.get("more_body", False)
        return message

    return receive_or_break
