"""The speech of one request, handed from the engine thread to one reader.

- Chunks are float32 mono samples in order; the reader iterates, blocking or with ``async for``.
- The buffer is bounded: when the reader is ``BUFFER_S`` of audio behind, the engine parks the
  request's slot until there is room again.
- Leaving early is ``cancel()``; the slot is free within two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.errors import Cancelled, StudioError
from engine.repair import Repair
from engine.request import FinishReason, Timings

BUFFER_S = 10.0  # of sound that a reader may be behind


class SpokenChunk(NamedTuple):
    """A stretch of the text and where it sounds: from its first sounding frame to its last one.

    Samples count from the beginning of the stream, pauses included.
    """

    text: str
    begin_sample: int
    end_sample: int


@dataclass(frozen=True)
class StreamStatus:
    """Where a request is: ``queued`` (with its place), ``speaking``, or how it ended."""

    state: str
    num_ahead: int | None = None
    wait_s: float | None = None
    spoken_s: float = 0.0


class SpeechStream:
    """One request's audio and fate. Made by ``Engine.submit``; one reader at a time.

    ``chunks_spoken`` tells what of the text has been said and when, and ``repairs`` what had to be
    made again; both grow while it is spoken.
    """

    def __init__(
        self,
        request_id: str,
        seed: int,
        sample_rate_hz: int,
        timings: Timings,
        on_cancel: Callable[[], None],
        place: Callable[[], tuple[int, float] | None],
    ) -> None:
        self.request_id = request_id
        self.seed = seed
        self.sample_rate_hz = sample_rate_hz
        self.timings = timings
        self.finish_reason: FinishReason | None = None
        self.chunks_spoken: list[SpokenChunk] = []
        self.repairs: list[Repair] = []
        self._on_cancel = on_cancel
        self._place = place
        self._chunks: deque[np.ndarray] = deque()
        self._buffered = 0  # samples in _chunks
        self._num_samples = 0  # samples ever pushed
        self._error: StudioError | None = None
        self._changed = threading.Condition()
        self._wakers: list[Callable[[], None]] = []

    # The engine's side -----------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the reader keeps up, so that more audio may be made."""
        return self._buffered < BUFFER_S * self.sample_rate_hz

    def push(self, samples: np.ndarray) -> None:
        """Add a chunk of float32 samples."""
        with self._changed:
            self._chunks.append(samples)
            self._buffered += len(samples)
            self._num_samples += len(samples)
            self._wake()

    def finish(self, reason: FinishReason, error: StudioError | None = None) -> None:
        """End the stream; what was pushed can still be read. Only the first call counts."""
        with self._changed:
            if self.finish_reason is not None:
                return
            self.finish_reason, self._error = reason, error
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for waker in self._wakers:
            waker()
        self._wakers.clear()

    # The reader's side -----------------------------------------------------------------------

    @property
    def spoken_s(self) -> float:
        """Seconds of audio made so far."""
        return self._num_samples / self.sample_rate_hz

    @property
    def status(self) -> StreamStatus:
        """Where the request is now."""
        if self.finish_reason is not None:
            return StreamStatus(self.finish_reason.value, spoken_s=self.spoken_s)
        place = self._place() if not self._num_samples else None  # else it waits between segments
        if place is not None:
            return StreamStatus("queued", num_ahead=place[0], wait_s=place[1])
        return StreamStatus("speaking", spoken_s=self.spoken_s)

    def cancel(self) -> None:
        """Stop making this speech; harmless after the end."""
        self._on_cancel()

    def read(self) -> tuple[np.ndarray, int]:
        """Wait for the end -> all samples not yet read [n] float32, and the rate in hertz."""
        chunks = list(self)
        return np.concatenate(chunks or [np.zeros(0, np.float32)]), self.sample_rate_hz

    def __iter__(self) -> Iterator[np.ndarray]:
        """Chunks as they are made; raises the error that ended the request, if one did."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._chunks or self.finish_reason is not None)
                chunk = self._take()
            if chunk is None:
                return
            yield chunk

    async def __aiter__(self) -> AsyncIterator[np.ndarray]:
        """The same for coroutines; never blocks the event loop."""
        while True:
            await self.wait_change(lambda: self._chunks or self.finish_reason is not None)
            with self._changed:
                chunk = self._take()
            if chunk is None:
                return
            yield chunk

    async def wait_change(
        self, ready: Callable[[], object], timeout_s: float | None = None
    ) -> bool:
        """Wait until ``ready()`` is true, or ``timeout_s`` has passed -> whether it is ready."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while True:
            event = asyncio.Event()

            def waker(event: asyncio.Event = event) -> None:
                with contextlib.suppress(RuntimeError):  # the reader's loop has closed
                    loop.call_soon_threadsafe(event.set)

            with self._changed:
                if ready():
                    return True
                self._wakers.append(waker)
            try:
                left = None if deadline is None else deadline - loop.time()
                await asyncio.wait_for(event.wait(), left)
            except TimeoutError:
                return bool(ready())
            finally:
                with self._changed:
                    if waker in self._wakers:
                        self._wakers.remove(waker)

    def _take(self) -> np.ndarray | None:
        if self._chunks:
            chunk = self._chunks.popleft()
            self._buffered -= len(chunk)
            return chunk
        if self._error is not None:
            raise self._error
        if self.finish_reason is FinishReason.CANCELLED:
            raise Cancelled("request: it was cancelled before it ended.")
        return None
