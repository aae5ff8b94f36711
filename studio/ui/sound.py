"""Speech as a browser takes it: pieces while it is made, and the peaks to draw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import numpy as np

from studio.media.pcm import to_int16, wav_header

# The longest silence between two pieces, so that a closed tab is noticed.
HEARTBEAT_S = 0.4
# The first piece is small, for an early sound; each piece costs Gradio's player a request, so later
# ones are long.
FIRST_PIECE_S = 0.4
PIECE_S = 1.0
LONG_PIECES = (FIRST_PIECE_S, PIECE_S)
# Every chunk as it comes: for the page's own player.
NO_PIECES = (0.0, 0.0)
# Bars of a drawn waveform.
NUM_PEAKS = 120


async def pieces_of(
    chunks: AsyncIterator[np.ndarray],
    sample_rate_hz: int,
    lengths_s: tuple[float, float] = LONG_PIECES,
) -> AsyncGenerator[np.ndarray | None, None]:
    """Yield float32 ``chunks`` as int16 pieces, and None whenever ``HEARTBEAT_S`` brought nothing.

    ``lengths_s``: the least length of the first piece, and of each later one but the last.
    Raises what ``chunks`` raises, after what came before; closing it closes them.
    """
    held: list[np.ndarray] = []
    num_held, wanted_s = 0, lengths_s[0]
    coming: asyncio.Future[np.ndarray | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(chunks))
            await asyncio.wait([coming], timeout=HEARTBEAT_S)
            if not coming.done():
                yield None
                continue
            chunk, coming = await coming, None
            if chunk is not None:
                held.append(chunk)
                num_held += len(chunk)
            if held and (chunk is None or num_held >= wanted_s * sample_rate_hz):
                yield to_int16(np.concatenate(held))
                held, num_held, wanted_s = [], 0, lengths_s[1]
            if chunk is None:
                return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def _next(chunks: AsyncIterator[np.ndarray]) -> np.ndarray | None:
    return await anext(chunks, None)


def wav_bytes(pcm: np.ndarray, sample_rate_hz: int) -> bytes:
    """A whole WAV file of int16 samples."""
    return wav_header(sample_rate_hz, pcm.nbytes) + pcm.tobytes()


def waveform_peaks(pcm: np.ndarray) -> list[float]:
    """The loudest sample of each of ``NUM_PEAKS`` stretches, 1 for the loudest of all."""
    stretches = np.array_split(np.abs(pcm.astype(np.float32)), min(NUM_PEAKS, len(pcm)))
    peaks = np.array([stretch.max() for stretch in stretches])
    return [float(peak) for peak in peaks / max(float(peaks.max()), 1.0)]
