"""Speech as a browser takes it: pieces while it is made, a WAV file, and the peaks to draw."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np

from engine import SpeechStream
from studio.api.encoding import to_int16, wav_header

# The longest silence between two pieces, so that a closed tab is noticed.
HEARTBEAT_S = 0.4
# The first piece is small, for an early sound; each piece costs a request, so later ones are long.
FIRST_PIECE_S = 0.4
PIECE_S = 1.0
# Bars of a drawn waveform.
NUM_PEAKS = 120


async def pieces_of(stream: SpeechStream) -> AsyncIterator[np.ndarray | None]:
    """Yield the speech as int16 pieces, and None whenever ``HEARTBEAT_S`` brought nothing.

    Raises the ``StudioError`` that ended the request, if one did.
    """
    rate_hz = stream.sample_rate_hz
    chunks = aiter(stream)
    held: list[np.ndarray] = []
    num_taken = num_held = 0
    wanted_s = FIRST_PIECE_S

    def has_more() -> bool:
        return stream.finish_reason is not None or stream.spoken_s > num_taken / rate_hz

    while True:
        if not await stream.wait_change(has_more, HEARTBEAT_S):
            yield None
            continue
        chunk = await anext(chunks, None)
        if chunk is not None:
            held.append(chunk)
            num_taken += len(chunk)
            num_held += len(chunk)
        if held and (chunk is None or num_held >= wanted_s * rate_hz):
            yield to_int16(np.concatenate(held))
            held, num_held, wanted_s = [], 0, PIECE_S
        if chunk is None:
            return


def wav_bytes(pcm: np.ndarray, sample_rate_hz: int) -> bytes:
    """A whole WAV file of int16 samples."""
    return wav_header(sample_rate_hz, pcm.nbytes) + pcm.tobytes()


def write_wav(path: Path, pcm: np.ndarray, sample_rate_hz: int) -> None:
    """Write int16 samples into a new folder of their own."""
    path.parent.mkdir(parents=True)
    path.write_bytes(wav_bytes(pcm, sample_rate_hz))


def waveform_peaks(pcm: np.ndarray) -> list[float]:
    """The loudest sample of each of ``NUM_PEAKS`` stretches, 1 for the loudest of all."""
    stretches = np.array_split(np.abs(pcm.astype(np.float32)), min(NUM_PEAKS, len(pcm)))
    peaks = np.array([stretch.max() for stretch in stretches])
    return [float(peak) for peak in peaks / max(float(peaks.max()), 1.0)]
