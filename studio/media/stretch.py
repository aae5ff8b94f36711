"""Faster or slower speech of the same pitch, also while it is being made.

FFmpeg's ``atempo`` (waveform similarity) in steps of at most two, beyond which it would leave sound
out. What it makes depends a little on how its input was cut, and where it ends does too: so it is
fed equal blocks, and silence behind the end until the whole length is out.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from fractions import Fraction

import av
import numpy as np
from anyio.to_thread import run_sync
from av.filter import Graph

from engine import GenerationFailed, InvalidRequest

SPEEDS = (0.25, 4.0)
# A step also gives sound in blocks, so small ones leave sooner; each costs 40 microseconds.
_BLOCK_SAMPLES = 512


class Stretch:
    """A filter: ``feed`` float32 mono samples in pieces of any size, then ``finish`` once.

    All pieces together have round(num_samples / speed) samples. Speed 1 passes samples unchanged.
    Blocking, for one thread at a time. Raises InvalidRequest, later GenerationFailed.
    """

    def __init__(self, sample_rate_hz: int, speed: float) -> None:
        if not SPEEDS[0] <= speed <= SPEEDS[1]:  # NaN fails too
            raise InvalidRequest(
                f"speed: {speed} is outside 0.25 to 4; choose a value between.", field="speed"
            )
        self._sample_rate_hz = sample_rate_hz
        self._speed = speed
        self._graph: Graph | None = None
        self._held = np.zeros(0, np.float32)  # less than a block
        self._num_in = 0
        self._num_filtered = 0
        self._num_out = 0

    def feed(self, samples: np.ndarray) -> np.ndarray:
        """Take samples; return those that are ready."""
        self._num_in += len(samples)
        if self._speed == 1:
            return samples
        return self._within_length(self._filtered(samples))

    def finish(self) -> np.ndarray:
        """Return the remaining samples."""
        pieces = [np.zeros(0, np.float32)]
        silence = np.zeros(_BLOCK_SAMPLES, np.float32)
        while self._speed != 1 and self._num_missing:
            pieces.append(self._within_length(self._filtered(silence)))
        return np.concatenate(pieces)

    @property
    def _num_missing(self) -> int:
        return round(self._num_in / self._speed) - self._num_out

    def _within_length(self, samples: np.ndarray) -> np.ndarray:
        # The filter lags behind what it was fed, so only the silence behind the end is ever cut.
        samples = samples[: self._num_missing]
        self._num_out += len(samples)
        return samples

    def _filtered(self, samples: np.ndarray) -> np.ndarray:
        samples = np.concatenate([self._held, samples])
        pieces = [np.zeros(0, np.float32)]
        num_whole = len(samples) // _BLOCK_SAMPLES * _BLOCK_SAMPLES
        try:
            graph = self._opened()
            for at in range(0, num_whole, _BLOCK_SAMPLES):
                graph.push(self._frame(samples[at : at + _BLOCK_SAMPLES]))
                pieces += _pulled(graph)
        except av.FFmpegError as error:
            raise GenerationFailed(
                f"The speech could not be brought to speed {self._speed}; ask again without speed."
            ) from error
        self._held = samples[num_whole:]
        return np.concatenate(pieces)

    def _frame(self, block: np.ndarray) -> av.AudioFrame:
        plane = np.ascontiguousarray(block[None], np.float32)
        frame = av.AudioFrame.from_ndarray(plane, format="flt", layout="mono")
        frame.sample_rate = self._sample_rate_hz
        frame.time_base = Fraction(1, self._sample_rate_hz)
        frame.pts = self._num_filtered
        self._num_filtered += len(block)
        return frame

    def _opened(self) -> Graph:
        if self._graph is None:
            graph = Graph()
            num_steps = math.ceil(abs(math.log2(self._speed)))
            last = graph.add_abuffer(
                sample_rate=self._sample_rate_hz,
                format="flt",
                layout="mono",
                time_base=Fraction(1, self._sample_rate_hz),
            )
            for _ in range(num_steps):
                step = graph.add("atempo", str(self._speed ** (1 / num_steps)))
                last.link_to(step)
                last = step
            last.link_to(graph.add("abuffersink"))
            graph.configure()
            self._graph = graph
        return self._graph


def _pulled(graph: Graph) -> list[np.ndarray]:
    pieces = []
    while True:
        try:
            pieces.append(graph.pull().to_ndarray()[0])
        except av.BlockingIOError:
            return pieces


async def stretched(
    chunks: AsyncIterator[np.ndarray], speed: float, sample_rate_hz: int
) -> AsyncIterator[np.ndarray]:
    """``chunks`` of float32 samples at ``speed`` times their pace, filtered in a worker thread."""
    stretch = Stretch(sample_rate_hz, speed)
    async for chunk in chunks:
        piece = chunk if speed == 1 else await run_sync(stretch.feed, chunk)
        if len(piece):
            yield piece
    if speed != 1 and len(piece := await run_sync(stretch.finish)):
        yield piece
