"""From a request's frames to the samples that are heard: decoded at once, handed out in time.

- Frames are numbered through the whole request, whatever was made again; pauses have no frames.
- ``mark`` and ``rewind``: frames pushed since the mark are replaced by others. What was handed out
  is not handed out again: its frames, and those it was decoded with, have to come as they were.
- Sound is decoded in windows whose borders follow from numbers of frames alone: they begin short,
  and double while the listener has something to hear. What is heard while it is made leaves in
  chunks of the sizes that were asked for; a chunk decodes as much of the windows as it needs, in
  calls of their shape, so that its size has no effect on the sound.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.streaming import CodecStream, Window
from engine.errors import InvalidRequest

# The first and the longest window of the codec, and chunk where no other size is asked for.
FIRST_CHUNK_S = 0.16
MAX_CHUNK_S = 1.0
# How long a gain takes to change, and sound to rise from silence or meet a pause.
RAMP_S = 0.02


@dataclass(frozen=True)
class ChunkFrames:
    """Frames of the ``first`` chunk and of the ``largest`` later one; None: as the codec has them.

    Raises ``InvalidRequest`` where the first would be larger than the largest.
    """

    first: int | None = None
    largest: int | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.largest is not None and self.first > self.largest:
            raise InvalidRequest(
                f"--first-chunk-frames: {self.first} is more than --chunk-frames {self.largest};"
                f" give at most {self.largest}, or leave one of them out.",
                field="first_chunk_frames",
            )

    def of(self, codec: Codec) -> tuple[int, int]:
        """Both sizes for ``codec``; one that was left out gives way to the other."""
        frame_rate_hz = codec.sample_rate_hz / codec.hop
        first, largest = (max(1, round(s * frame_rate_hz)) for s in (FIRST_CHUNK_S, MAX_CHUNK_S))
        return (
            min(first, self.largest or largest) if self.first is None else self.first,
            max(largest, self.first or first) if self.largest is None else self.largest,
        )


@dataclass(frozen=True, eq=False)
class Mark:
    """A place to come back to; see ``Outlet.mark``."""

    codec_stream: CodecStream
    num_pushed: int
    num_decoded: int
    chunk_frames: int
    chunk_end: int


class Outlet:
    """One request's sound on its way out."""

    def __init__(self, codec: Codec, chunks: ChunkFrames = ChunkFrames()) -> None:
        self._codec = codec
        self._window_frames = ChunkFrames().of(codec)
        first, self._max_chunk_frames = chunks.of(codec)
        self._chunk_frames = self._chunk_end = first  # the end counts as the codec stream does
        self._num_ramp = round(RAMP_S * codec.sample_rate_hz)
        self._codec_stream = CodecStream(codec)
        self._held = np.zeros((0, codec.hop), np.float32)  # decoded, from num_handed_out on
        self._gain = 1.0
        self._num_risen = 0  # samples of the rise from silence, so that no device clicks
        self.num_pushed = 0
        self.num_decoded = 0
        self.num_in_chunks = 0  # of the decoded ones, in chunks that are whole
        self.num_handed_out = 0

    @property
    def num_certain(self) -> int:
        """The first frames that cannot be replaced any more: handed out, or needed to be."""
        return min(self.num_handed_out + self._codec.context_right, self.num_pushed)

    def push(self, frames: Tensor) -> None:
        """Take the next aligned frames [n, codebooks]."""
        self._codec_stream.push(frames)
        self.num_pushed += len(frames)

    def next_window(self, is_heard: bool, is_end: bool, is_final: bool) -> Window | None:
        """The next frames to decode, or None while too few are there: a chunk where it ``is_heard``
        while it is made, else a window.

        At the end of a segment, up to the last frame that has all its right context; at the final
        end, where no frame follows in this sound, the others after these, up to the true end.
        """
        stream = self._codec_stream
        at, num_ready = stream.next_frame, stream.num_ready
        begin, end = self._window_of(at)
        due = self._chunk_end if is_heard else end
        if at < num_ready and (is_end or due <= num_ready):
            return stream.part(begin, end, until=min(end, num_ready if is_end else due))
        return stream.window(max(1, stream.num_pushed - at), final=True) if is_final else None

    def _window_of(self, frame: int) -> tuple[int, int]:
        """Where the window begins and ends that holds ``frame`` of the codec stream."""
        length, longest = self._window_frames
        begin = 0
        while length < longest and begin + length <= frame:
            begin, length = begin + length, min(2 * length, longest)
        begin += (frame - begin) // length * length
        return begin, begin + length

    def take(self, window: Window, samples: Tensor) -> np.ndarray:
        """Keep the decoded samples of ``window`` -> the same, [num_frames, hop]."""
        self._codec_stream.accept(window, samples)
        frames: np.ndarray = samples.numpy().reshape(-1, self._codec.hop)
        num_known = max(0, self.num_handed_out - self.num_decoded)
        self._held = np.concatenate([self._held, frames[num_known:]])
        self.num_decoded += window.num_frames
        if self._codec_stream.next_frame >= self._chunk_end:
            self.num_in_chunks = self.num_decoded
            self._lengthen()
        return frames

    def _lengthen(self) -> None:
        """Let the next chunk be twice as long; it ends with a window where that is nearly so."""
        self._chunk_frames = min(2 * self._chunk_frames, self._max_chunk_frames)
        begin = self._codec_stream.next_frame
        end = begin + self._chunk_frames
        border, _ = self._window_of(end)  # a window that is cut costs a call for each part
        self._chunk_end = border if border - begin > self._chunk_frames // 2 else end

    def hand_out(self, until: int, *, fades_out: bool = False) -> np.ndarray:
        """The samples before frame ``until`` that are decoded and were not handed out yet."""
        num_frames = max(0, min(until, self.num_decoded) - self.num_handed_out)
        samples: np.ndarray = self._held[:num_frames].reshape(-1)
        self._held = self._held[num_frames:]
        self.num_handed_out += num_frames
        if self._gain != 1.0:
            samples = samples * np.float32(self._gain)
        if self._num_risen < self._num_ramp and len(samples):
            begin, self._num_risen = self._num_risen, self._num_risen + len(samples)
            rise = self._ramp(0.0, max(self._num_risen, self._num_ramp))
            samples = samples * rise[begin : self._num_risen]
        if fades_out:
            samples = samples * self._ramp(0.0, len(samples))[::-1]
        return samples

    def change_gain(self, gain: float) -> None:
        """Multiply by ``gain`` from the first frame on that was not handed out."""
        if gain == self._gain:
            return
        flat = self._held.reshape(-1)
        self._held = (flat * self._ramp(self._gain / gain, len(flat))).reshape(self._held.shape)
        self._gain = gain

    @property
    def peak(self) -> float:
        """The largest sample that was decoded and not handed out, before any gain."""
        return float(np.abs(self._held).max(initial=0.0))

    def mark(self) -> Mark:
        """Where the frames are now, to ``rewind`` to."""
        codec_stream = copy.copy(self._codec_stream)
        counts = self.num_pushed, self.num_decoded, self._chunk_frames, self._chunk_end
        return Mark(codec_stream, *counts)

    def rewind(self, mark: Mark) -> None:
        """Forget the frames pushed since ``mark``."""
        self._codec_stream = copy.copy(mark.codec_stream)
        self._chunk_frames, self._chunk_end = mark.chunk_frames, mark.chunk_end
        self.num_pushed, self.num_decoded = mark.num_pushed, mark.num_decoded
        self.num_in_chunks = mark.num_decoded
        self._held = self._held[:0]

    def begin_anew(self) -> None:
        """After a final end: what follows has nothing to do with what was."""
        self._codec_stream = CodecStream(self._codec)
        self._num_risen = 0

    def _ramp(self, begin: float, num_samples: int) -> np.ndarray:
        """Factors [num_samples] float32 that go from ``begin`` to 1 and stay there."""
        ramp = np.ones(num_samples, np.float32)
        num_ramp = min(self._num_ramp, num_samples)
        ramp[:num_ramp] = np.linspace(begin, 1.0, num_ramp, endpoint=False)
        return ramp
