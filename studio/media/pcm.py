"""Samples as bytes: 16-bit little-endian mono, bare or behind one WAV header.

- The same rounding everywhere, so that streamed, whole and written files hold the same samples.
- A stream's WAV header leaves its sizes open (0xFFFFFFFF), as players expect of a live source.
"""

from __future__ import annotations

import struct

import numpy as np

FULL_SCALE = 32_767
NUM_CHANNELS = 1
BIT_DEPTH = 16
_OPEN_SIZE = 0xFFFF_FFFF
_BYTES_AFTER_RIFF_SIZE = 36  # of a header without tags


def to_int16(samples: np.ndarray) -> np.ndarray:
    """Float samples, full scale 1.0 -> int16 little-endian; what is beyond is clipped."""
    return np.rint(np.clip(samples, -1.0, 1.0) * FULL_SCALE).astype("<i2")


def wav_header(sample_rate_hz: int, size_bytes: int | None, info: bytes = b"") -> bytes:
    """What stands before ``size_bytes`` of 16-bit mono samples; None where nobody knows yet.

    ``info`` is a finished RIFF chunk of tags. Without it the header has 44 bytes.
    """
    frame_bytes = NUM_CHANNELS * BIT_DEPTH // 8
    data_size = riff_size = _OPEN_SIZE
    bytes_around = _BYTES_AFTER_RIFF_SIZE + len(info)
    if size_bytes is not None and size_bytes + bytes_around < _OPEN_SIZE:
        data_size, riff_size = size_bytes, size_bytes + bytes_around
    format_block = struct.pack(
        "<4sI4s4sIHHIIHH",
        b"RIFF",
        riff_size,
        b"WAVE",
        b"fmt ",
        16,  # bytes of the format block that follows
        1,  # integer PCM
        NUM_CHANNELS,
        sample_rate_hz,
        sample_rate_hz * frame_bytes,
        frame_bytes,
        BIT_DEPTH,
    )
    return format_block + info + struct.pack("<4sI", b"data", data_size)
