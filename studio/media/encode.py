"""Speech as bytes of seven formats, whole or while it is made.

- A body has one container header, however many pieces it is made from. Live bodies never need to be
  rewritten at their start; whole files carry exact lengths wherever their format can say them.
- What comes out depends on the samples alone, not on how they were cut: the resampler and the
  codecs keep their state from piece to piece.
- Lossless formats hold the same rounded samples, live and whole.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import av
import numpy as np
import soxr
from anyio.to_thread import run_sync

from engine import GenerationFailed, InvalidRequest
from studio.media.muxed import Codec, Muxed
from studio.media.pcm import BIT_DEPTH, to_int16, wav_header
from studio.media.wav_info import info_chunk

SAMPLE_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 44_100, 48_000)
DEFAULT_BITRATE = 128_000  # bits per second
BITRATES = (32_000, 320_000)
_MP3_RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_AAC_RATES_HZ = (*_MP3_RATES_HZ, 64_000, 88_200, 96_000)


@dataclass(frozen=True)
class Format:
    """How a body is written; without ``codec`` its samples stand there as they are."""

    name: str
    media_type: str
    suffix: str
    codec: Codec | None = None
    is_lossless: bool = False
    bit_depth: int = BIT_DEPTH

    @property
    def sample_type(self) -> str:
        """What a decoded sample is: int16 or float32."""
        return "float32" if self.bit_depth == 32 else "int16"

    @property
    def is_available(self) -> bool:
        """Whether this installation can write it."""
        return self.codec is None or self.codec.exists


_MP3 = Codec("libmp3lame", "mp3", "fltp", _MP3_RATES_HZ)
_OPUS = Codec("libopus", "ogg", "flt", (48_000,), max_bitrate=256_000)
_AAC = Codec("aac", "adts", "fltp", _AAC_RATES_HZ)
_FLAC = Codec("flac", "flac", "s16")

FORMATS: Mapping[str, Format] = {
    known.name: known
    for known in (
        Format("wav", "audio/wav", "wav", is_lossless=True),
        Format("mp3", "audio/mpeg", "mp3", _MP3),
        Format("opus", "audio/ogg", "opus", _OPUS),
        Format("aac", "audio/aac", "aac", _AAC),
        Format("flac", "audio/flac", "flac", _FLAC, is_lossless=True),
        Format("pcm", "audio/pcm", "pcm", is_lossless=True),
        Format("pcm_f32", "audio/pcm", "f32", is_lossless=True, bit_depth=32),
    )
}


@functools.cache
def available_formats() -> tuple[str, ...]:
    """The names of the formats that this installation can write."""
    return tuple(name for name, known in FORMATS.items() if known.is_available)


def known_format(name: str, field: str = "response_format") -> Format:
    """The format of this name, in upper or lower case; raises InvalidRequest naming the others."""
    known = FORMATS.get(name.strip().lower())
    if known is not None and known.name in available_formats():
        return known
    reason = "is no format of this studio" if known is None else "needs a codec that is missing"
    raise InvalidRequest(
        f"{field}: {name[:40]!r} {reason}; use one of {', '.join(available_formats())}.",
        field=field,
        code="unsupported_format",
    )


def bits_per_second(bitrate: int | str | None, field: str = "bitrate") -> int:
    """A bitrate such as 128000 or "128k"; None is the default. Raises InvalidRequest."""
    if bitrate is None:
        return DEFAULT_BITRATE
    text = str(bitrate).strip().lower()
    digits = text.removesuffix("k")
    if digits.isascii() and digits.isdecimal() and len(digits) < 10:
        value = int(digits) * (1000 if text != digits else 1)
        if BITRATES[0] <= value <= BITRATES[1]:
            return value
    raise InvalidRequest(
        f"{field}: {text[:40]!r} is no bitrate from 32k to 320k; send one such as 128k or 128000.",
        field=field,
    )


class Encoder:
    """One body: ``feed`` samples in pieces of any size, then ``finish`` once.

    A live encoder gives its bytes as early as the format allows; any other gives the whole file at
    the end. Cheap to make: what is wrong is raised here (InvalidRequest), the codec opens with the
    first samples. Blocking, for one thread at a time. A codec that fails raises GenerationFailed.

    ``sample_rate_hz`` is the rate of the body: the one asked for (None: the source's), or the next
    higher one that the codec has. AAC and raw samples have no place for ``tags``.
    """

    def __init__(
        self,
        format: str,
        source_rate_hz: int,
        sample_rate_hz: int | None = None,
        bitrate: int | str | None = None,
        tags: Mapping[str, str] | None = None,
        *,
        is_live: bool,
    ) -> None:
        self.format = known_format(format)
        self.sample_rate_hz = _rate_in_body(self.format, source_rate_hz, sample_rate_hz)
        self._source_rate_hz = source_rate_hz
        self._resampler: soxr.ResampleStream | None = None
        checked_bitrate = bits_per_second(bitrate)
        self._writer: Muxed | _Bare
        if (codec := self.format.codec) is None:
            self._writer = _Bare(self.format, self.sample_rate_hz, tags or {}, is_live=is_live)
        else:
            used = None if self.format.is_lossless else min(checked_bitrate, codec.max_bitrate)
            self._writer = Muxed(codec, self.sample_rate_hz, used, tags or {}, is_live=is_live)

    def feed(self, samples: np.ndarray) -> bytes:
        """Take float32 mono samples of the source's rate; return the bytes that are ready."""
        with self._failures_told():
            return self._writer.write(self._at_rate_of_body(samples, is_last=False))

    def finish(self) -> bytes:
        """Return the remaining bytes: the tail of a live body, or the whole file."""
        with self._failures_told():
            rest = self._at_rate_of_body(np.zeros(0, np.float32), is_last=True)
            return self._writer.write(rest) + self._writer.finish()

    def _at_rate_of_body(self, samples: np.ndarray, *, is_last: bool) -> np.ndarray:
        samples = np.ascontiguousarray(samples, np.float32)
        if self.sample_rate_hz == self._source_rate_hz:
            return samples
        if self._resampler is None:
            self._resampler = soxr.ResampleStream(
                self._source_rate_hz, self.sample_rate_hz, num_channels=1, quality="HQ"
            )
        return self._resampler.resample_chunk(samples, last=is_last)

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            raise GenerationFailed(
                f"The speech could not be written as {self.format.name}; ask again, or for wav."
            ) from error


async def encoded(chunks: AsyncIterator[np.ndarray], encoder: Encoder) -> AsyncIterator[bytes]:
    """The bytes of ``chunks`` as they become ready, encoded in a worker thread."""
    async for chunk in chunks:
        if piece := await run_sync(encoder.feed, chunk):
            yield piece
    if piece := await run_sync(encoder.finish):
        yield piece


class _Bare:
    """Samples as they are, behind a header where the format has one."""

    def __init__(
        self, known: Format, sample_rate_hz: int, tags: Mapping[str, str], *, is_live: bool
    ) -> None:
        self._format = known
        self._sample_rate_hz = sample_rate_hz
        self._tags = tags
        self._is_live = is_live
        self._has_begun = False
        self._held: list[bytes] = []

    def write(self, samples: np.ndarray) -> bytes:
        is_float = self._format.bit_depth == 32
        data = samples.astype("<f4").tobytes() if is_float else to_int16(samples).tobytes()
        if self._is_live:
            return self._head(None) + data
        self._held.append(data)
        return b""

    def finish(self) -> bytes:
        return b"".join((self._head(sum(map(len, self._held))), *self._held))

    def _head(self, size_bytes: int | None) -> bytes:
        if self._has_begun or self._format.name != "wav":
            return b""
        self._has_begun = True
        return wav_header(self._sample_rate_hz, size_bytes, info_chunk(self._tags))


def _rate_in_body(known: Format, source_rate_hz: int, wanted_hz: int | None) -> int:
    wanted = source_rate_hz if wanted_hz is None else wanted_hz
    if wanted not in (source_rate_hz, *SAMPLE_RATES_HZ):
        raise InvalidRequest(
            f"sample_rate: {wanted} Hz is not offered; use one of"
            f" {', '.join(map(str, SAMPLE_RATES_HZ))}.",
            field="sample_rate",
        )
    possible = (known.codec.rates_hz if known.codec else ()) or (wanted,)
    return min((rate for rate in possible if rate >= wanted), default=max(possible))
