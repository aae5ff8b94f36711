"""The sound of a running request for one listener elsewhere: the player of the page.

    listening = Listening(leave=stream.cancel)     whoever makes the sound: put(pcm) ..., end()
    async for piece in listening.taken(): ...      whoever hears it, once

- It is handed out once. A listener that goes away before the end takes the request along.
- Everything here happens on the event loop. What nobody came for is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import numpy as np

from engine import Conflict

# How long the sound of a finished request waits for its listener.
LISTENER_COMES_S = 10.0


class Listening:
    """Int16 samples at ``sample_rate_hz`` on their way to one listener."""

    def __init__(self, sample_rate_hz: int, leave: Callable[[], None]) -> None:
        self.sample_rate_hz = sample_rate_hz
        self._leave = leave
        self._pieces: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._is_taken = False
        self._has_ended = False

    def put(self, pcm: np.ndarray) -> None:
        """More of the sound: int16 samples."""
        self._pieces.append(pcm.tobytes())
        self._news.set()

    def end(self) -> None:
        """There will be no more; harmless after the first time."""
        self._has_ended = True
        self._news.set()
        asyncio.get_running_loop().call_later(LISTENER_COMES_S, self._forget)

    def taken(self) -> AsyncIterator[bytes]:
        """The samples from the first on, little-endian; raises ``Conflict`` the second time."""
        if self._is_taken:
            raise Conflict("audio: the sound of a request is given out once; ask for its take.")
        self._is_taken = True
        return self._heard()

    async def _heard(self) -> AsyncIterator[bytes]:
        try:
            while True:
                self._news.clear()
                while self._pieces:
                    yield self._pieces.popleft()
                if self._has_ended:
                    return
                await self._news.wait()
        finally:
            if not self._has_ended:
                self._leave()

    def _forget(self) -> None:
        if not self._is_taken:
            self._is_taken = True
            self._pieces.clear()
