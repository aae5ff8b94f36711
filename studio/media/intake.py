"""Any recording, from anywhere, to a checked reference: mono float32 at the encoder's rate.

- Size is counted while reading, into a file that has no name: nothing can be left behind.
- The container is told by its first bytes; decoding happens in a limited child (decode.py).
- All functions block, up to ``Limits.wall_s``: call them in a worker thread.

Errors are InvalidReference or TooLarge, name ``field`` and never a path.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine import InvalidReference, TooLarge
from studio.media import signal
from studio.media.base64_text import Base64Error, decoded_pieces
from studio.media.containers import ACCEPTED, demuxer_of
from studio.media.decode import Decoded, DecodeError, TooLong, decode
from studio.media.limits import DEFAULT_LIMITS, Limits
from studio.media.report import Report
from studio.media.speakers import voice_change

_SOUND_BELOW = 1e10  # full scale is 1.0, or 2**31 where integers were written as floats


@dataclass(frozen=True, eq=False)
class Reference:
    """A checked recording: ``samples`` [num_samples] float32 within [-1, 1].

    ``content_hash`` is the SHA-256 of the samples in hex: the same sound has the same hash
    whatever it came in, as far as the container is lossless.
    """

    samples: np.ndarray
    sample_rate_hz: int
    content_hash: str
    report: Report


def read_bytes(
    data: bytes, *, sample_rate_hz: int, limits: Limits = DEFAULT_LIMITS, field: str = "reference"
) -> Reference:
    """Read a recording that is already in memory."""
    return read_stream([data], sample_rate_hz=sample_rate_hz, limits=limits, field=field)


def read_base64(
    text: str, *, sample_rate_hz: int, limits: Limits = DEFAULT_LIMITS, field: str = "reference"
) -> Reference:
    """Read a recording from base64 or a data: URI; the size limit counts the decoded bytes."""
    try:
        return read_stream(
            decoded_pieces(text), sample_rate_hz=sample_rate_hz, limits=limits, field=field
        )
    except Base64Error as error:
        raise InvalidReference(
            f"{field} cannot be read: {error}. Send base64 of the whole recording, or a data: URI.",
            field=field,
        ) from error


def read_stream(
    chunks: Iterable[bytes],
    *,
    sample_rate_hz: int,
    limits: Limits = DEFAULT_LIMITS,
    field: str = "reference",
) -> Reference:
    """Read a recording that arrives in pieces, and stop at the piece that is one too many."""
    size_bytes = 0
    # Unbuffered: the child shares the file's position, and a buffer would not know that it moved.
    with tempfile.TemporaryFile(buffering=0) as file:
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > limits.size_bytes:
                raise _too_big(field, limits)
            if file.write(chunk) != len(chunk):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return read_open_file(file, sample_rate_hz=sample_rate_hz, limits=limits, field=field)


def read_file(
    path: Path, *, sample_rate_hz: int, limits: Limits = DEFAULT_LIMITS, field: str = "reference"
) -> Reference:
    """Read a recording from a path that we chose ourselves (an upload's temporary file)."""
    with path.open("rb", buffering=0) as file:
        return read_open_file(file, sample_rate_hz=sample_rate_hz, limits=limits, field=field)


def read_open_file(
    file: BinaryIO,
    *,
    sample_rate_hz: int,
    limits: Limits = DEFAULT_LIMITS,
    field: str = "reference",
) -> Reference:
    """Read a recording from an open, unbuffered regular file; it stays open, its position moves."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise _unusable(field, "it is not a file")
    if status.st_size > limits.size_bytes:
        raise _too_big(field, limits)
    if status.st_size == 0:
        raise _unusable(field, "it is empty (0 bytes)")
    demuxer = demuxer_of(file)
    if demuxer is None:
        raise _unusable(field, "it is not a recording in an accepted format")
    try:
        decoded = decode(file, demuxer, sample_rate_hz, limits)
    except TooLong as error:
        raise TooLarge(
            f"{field} is longer than {limits.max_duration_s:.0f} s: send 5 to"
            f" {limits.max_used_s:.0f} s of it.",
            field=field,
        ) from error
    except DecodeError as error:
        raise _unusable(field, error.reason) from error
    return _checked(decoded, limits, field)


def _checked(decoded: Decoded, limits: Limits, field: str) -> Reference:
    rate_hz = decoded.sample_rate_hz
    if not (np.abs(decoded.samples) < _SOUND_BELOW).all():  # false for NaN too
        raise _unusable(field, "it holds values that are not sound (NaN, infinite or huge)")
    if _rounded_s(decoded.duration_s) < limits.min_used_s:
        raise _too_short(field, decoded.duration_s, limits)
    if len(decoded.samples) == 0:
        raise _silent(field)
    mono = signal.one_channel(decoded.samples)
    begin, end = signal.sound_range(mono.samples, rate_hz)
    if begin == end:
        raise _silent(field)
    used = mono.samples[begin:end]
    if _rounded_s(len(used) / rate_hz) < limits.min_used_s:
        raise _too_short(field, len(used) / rate_hz, limits)
    peak = float(np.abs(used).max())
    clipped_share = signal.clipped_share(used)
    used = np.ascontiguousarray(used / max(peak, 1.0), dtype=np.float32)
    levels_dbfs = signal.frame_levels_dbfs(used, rate_hz)
    report = Report(
        duration_s=decoded.duration_s,
        seconds_used=len(used) / rate_hz,
        is_cut=decoded.is_cut,
        leading_silence_s=decoded.skipped_s + begin / rate_hz,
        trailing_silence_s=(len(mono.samples) - end) / rate_hz,
        level_dbfs=signal.heard_level_dbfs(levels_dbfs),
        peak=peak,
        clipped_share=clipped_share,
        noise_below_voice_db=signal.noise_below_voice_db(levels_dbfs),
        high_band_db=signal.high_band_db(used, rate_hz),
        voice_change=voice_change(used, rate_hz),
        num_channels=decoded.samples.shape[1],
        channel=mono.channel,
        channel_choice=mono.choice,
        offset=mono.offset,
    )
    return Reference(used, rate_hz, hashlib.sha256(used.tobytes()).hexdigest(), report)


def _rounded_s(seconds: float) -> float:
    """To hundredths, as messages show them: a codec may drop a few samples of a whole second."""
    return round(seconds, 2)


def _unusable(field: str, reason: str) -> InvalidReference:
    return InvalidReference(
        f"{field} cannot be used: {reason}. Send a recording as {ACCEPTED}.", field=field
    )


def _silent(field: str) -> InvalidReference:
    return InvalidReference(
        f"{field} cannot be used: it is silent (below {signal.SILENCE_DBFS:.0f} dBFS). Check the"
        " microphone and record again.",
        field=field,
    )


def _too_short(field: str, sound_s: float, limits: Limits) -> InvalidReference:
    return InvalidReference(
        f"{field} cannot be used: it holds {sound_s:.2f} s of sound and at least"
        f" {limits.min_used_s:.1f} s are needed; 5 to 20 s are best.",
        field=field,
    )


def _too_big(field: str, limits: Limits) -> TooLarge:
    return TooLarge(
        f"{field} is larger than {limits.size_bytes / 1e6:.0f} MB: send a shorter recording, or"
        " the same one as MP3 or M4A.",
        field=field,
    )
