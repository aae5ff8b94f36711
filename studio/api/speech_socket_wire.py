"""The messages of a speech socket: JSON in, JSON and sound out, within limits and deadlines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.websockets import WebSocket

from engine import InvalidRequest, QueueFull, StudioError, TooLarge
from studio.api.errors import error_object
from studio.api.speech import SEND_STALL_S

MAX_CONFIG_BYTES = 15 << 20  # 10 MB of a recording as base64, and what stands beside it
MAX_MESSAGE_BYTES = 128 << 10
# Larger messages are parsed in a thread, so that nobody else's sound waits for it.
_PARSE_HERE_BYTES = 256 << 10


class Silence(Exception):
    """The other side sent nothing for as long as it may."""


class Left(Exception):
    """The other side has closed the socket."""


class Wire:
    """One accepted socket. Several tasks may send; one receives.

    Sending raises ``WebSocketDisconnect`` when nobody is there any more, ``TimeoutError`` when
    nothing is taken.
    """

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._sending = asyncio.Lock()
        self._last_sign_s = time.monotonic()

    async def message(
        self, timeout_s: float, is_busy: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """The next message; while ``is_busy()``, silence is no matter.

        Raises ``InvalidRequest`` and ``TooLarge`` for one that cannot be read, ``Silence``,
        ``Left``.
        """
        frame = await self._frame(timeout_s, is_busy)
        if frame["type"] == "websocket.disconnect":
            raise Left
        text = frame.get("text")
        if not isinstance(text, str):
            raise InvalidRequest("message: it is binary; send JSON as text.", code="invalid_json")
        size_bytes = len(text.encode(errors="replace"))
        _check_size(size_bytes, MAX_CONFIG_BYTES)
        is_small = size_bytes <= _PARSE_HERE_BYTES
        message = _parsed(text) if is_small else await run_sync(_parsed, text)
        if message.get("type") != "session.config":
            _check_size(size_bytes, MAX_MESSAGE_BYTES)
        return message

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        await self._send({"type": "websocket.send", "text": json.dumps({"type": kind} | fields)})

    async def tell_error(self, error: StudioError, **about: Any) -> None:
        """Send what is wrong: in words at the top, as vLLM's clients read it, and as an object."""
        told: dict[str, Any] = error_object(error)
        wait = {"retry_after_s": error.retry_after_s} if isinstance(error, QueueFull) else {}
        flat = {name: told[name] for name in ("message", "code", "param")}
        await self.tell("error", **about, **flat, error=told, **wait)

    async def sound(self, data: bytes) -> None:
        """Send a binary frame."""
        await self._send({"type": "websocket.send", "bytes": data})

    async def close(self, code: int) -> None:
        """Close the socket."""
        await self._socket.close(code)

    async def _frame(self, timeout_s: float, is_busy: Callable[[], bool]) -> Any:
        left_s = timeout_s
        while True:
            with anyio.move_on_after(left_s):
                frame = await self._socket.receive()
                self._last_sign_s = time.monotonic()
                return frame
            left_s = self._last_sign_s + timeout_s - time.monotonic()
            if is_busy():
                left_s = timeout_s
            elif left_s <= 0:
                raise Silence

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending, asyncio.timeout(SEND_STALL_S):
            await self._socket.send(message)
        self._last_sign_s = time.monotonic()


def _parsed(text: str) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise InvalidRequest(
            'message: it is no JSON object; send one such as {"type": "input.done"}.',
            code="invalid_json",
        )
    return message


def _check_size(size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise TooLarge(
            f"message: it has {size_bytes} bytes and the limit is {max_bytes}; send it in parts.",
            code="message_too_large",
        )
