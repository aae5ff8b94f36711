"""Samples through one of FFmpeg's codecs into its container, by PyAV."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer

from studio.media.pcm import to_int16

# The muxer holds one page back until the next is full: the first sound leaves after 0.1 s of it.
_LIVE_OGG_PAGE_US = 40_000
# FFmpeg keeps the first for its own name.
_RENAMED_TAGS = {"encoder": "encoded_by"}


@dataclass(frozen=True)
class Codec:
    """FFmpeg's names of an encoder, its container and the samples it takes.

    ``rates_hz`` are those it can carry, empty for any; ``max_bitrate`` of one channel is in bits
    per second.
    """

    encoder: str
    muxer: str
    sample_format: str
    rates_hz: tuple[int, ...] = ()
    max_bitrate: int = 320_000

    @property
    def exists(self) -> bool:
        """Whether this build of PyAV has the encoder."""
        try:
            return av.codec.Codec(self.encoder, "w").is_encoder
        except av.codec.codec.UnknownCodecError:
            return False


class Muxed:
    """One body: ``write`` mono samples, then ``finish`` once; blocking; opened by the first call.

    Live, each call gives the bytes that are ready, and nothing written before is changed; else all
    of them come from ``finish``, with exact lengths at the start where the container has a place
    for them. Raises av.FFmpegError.
    """

    def __init__(
        self,
        codec: Codec,
        sample_rate_hz: int,
        bitrate: int | None,
        tags: Mapping[str, str],
        *,
        is_live: bool,
    ) -> None:
        self._codec = codec
        self._sample_rate_hz = sample_rate_hz
        self._bitrate = bitrate
        self._tags = tags
        self._is_live = is_live
        self._sink: _Pipe | io.BytesIO = _Pipe() if is_live else io.BytesIO()
        self._opened: tuple[OutputContainer, AudioStream] | None = None
        self._num_samples = 0

    def write(self, samples: np.ndarray) -> bytes:
        """Take float32 samples of any number."""
        container, stream = self._open()
        if len(samples):
            container.mux(stream.encode(self._frame(samples)))
        return self._ready()

    def finish(self) -> bytes:
        """Flush the codec and close the body."""
        container, stream = self._open()
        container.mux(stream.encode(None))
        container.close()
        return self._sink.getvalue() if isinstance(self._sink, io.BytesIO) else self._ready()

    def _frame(self, samples: np.ndarray) -> av.AudioFrame:
        sample_format = self._codec.sample_format
        if sample_format == "s16":
            samples = to_int16(samples).astype(np.int16, copy=False)
        else:
            samples = np.clip(samples, -1.0, 1.0)
        frame = av.AudioFrame.from_ndarray(samples[None], format=sample_format, layout="mono")
        frame.sample_rate = self._sample_rate_hz
        frame.time_base = Fraction(1, self._sample_rate_hz)
        frame.pts = self._num_samples
        self._num_samples += len(samples)
        return frame

    def _open(self) -> tuple[OutputContainer, AudioStream]:
        if self._opened is None:
            container = av.open(self._sink, "w", format=self._codec.muxer, options=self._options())
            container.metadata.update(
                {_RENAMED_TAGS.get(name, name): text for name, text in self._tags.items()}
            )
            stream = container.add_stream(self._codec.encoder, self._sample_rate_hz, layout="mono")
            assert isinstance(stream, AudioStream)
            context = stream.codec_context
            context.format = av.AudioFormat(self._codec.sample_format)
            context.thread_count = 1
            if self._bitrate is not None:
                context.bit_rate = self._bitrate
            container.start_encoding()
            self._opened = container, stream
        return self._opened

    def _options(self) -> dict[str, str]:
        # Bit-exact: the same samples are the same bytes, without serial numbers drawn by chance.
        options = {"fflags": "+bitexact", "metadata_header_padding": "0"}
        if self._codec.muxer == "mp3":
            options |= {"id3v2_version": "3", "write_xing": "0" if self._is_live else "1"}
        if self._is_live:
            options["flush_packets"] = "1"
            if self._codec.muxer == "ogg":
                options["page_duration"] = str(_LIVE_OGG_PAGE_US)
        return options

    def _ready(self) -> bytes:
        return self._sink.taken() if isinstance(self._sink, _Pipe) else b""


class _Pipe:
    """A file that can only be appended to, as FFmpeg finds out by the methods it lacks."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        self._bytes += data
        return len(data)

    def taken(self) -> bytes:
        """What was written since the last call."""
        data = bytes(self._bytes)
        self._bytes.clear()
        return data
