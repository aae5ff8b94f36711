"""From a request's frames to the samples that are heard: decoded at once, handed out in time.

- Frames are numbered through the whole request, whatever was made again; pauses have no frames.
- ``mark`` and ``rewind``: frames pushed since the mark are replaced by others. What was handed out
  is not handed out again: its frames, and those it was decoded with, have to come as they were.
- Which windows are decoded follows from numbers of frames alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.streaming import CodecStream, Window

# Chunks begin short, for the first sound, and double while the listener has something to hear.
FIRST_CHUNK_S = 0.16
MAX_CHUNK_S = 1.0
# How long a gain takes to change, and sound to rise from silence or meet a pause.
RAMP_S = 0.02


@dataclass(frozen=True, eq=False)
class Mark:
    """A place to come back to; see ``Outlet.mark``."""

    codec_stream: CodecStream
    num_pushed: int
    num_decoded: int
    chunk_frames: int


class Outlet:
    """One request's sound on its way out."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        frame_rate_hz = codec.sample_rate_hz / codec.hop
        self._max_chunk_frames = max(1, round(MAX_CHUNK_S * frame_rate_hz))
        self._chunk_frames = max(1, round(FIRST_CHUNK_S * frame_rate_hz))
        self._num_ramp = round(RAMP_S * codec.sample_rate_hz)
        self._codec_stream = CodecStream(codec)
        self._held = np.zeros((0, codec.hop), np.float32)  # decoded, from num_handed_out on
        self._gain = 1.0
        self._fades_in = True  # from silence, so that no device clicks where it begins
        self.num_pushed = 0
        self.num_decoded = 0
        self.num_handed_out = 0

    @property
    def num_certain(self) -> int:
        """The first frames that cannot be replaced any more: handed out, or needed to be."""
        return min(self.num_handed_out + self._codec.context_right, self.num_pushed)

    def push(self, frames: Tensor) -> None:
        """Take the next aligned frames [n, codebooks]."""
        self._codec_stream.push(frames)
        self.num_pushed += len(frames)

    def next_window(self, is_end: bool, is_final: bool) -> Window | None:
        """The next window to decode, or None while too few frames are there.

        At the end of a segment it may be shorter, up to the last frame that has all its right
        context; at the final end, where no frame follows in this sound, up to the last frame.
        """
        num_frames = self._chunk_frames
        num_ready = self.num_pushed - self._codec.context_right - self.num_decoded
        if is_end and not is_final and 0 < num_ready < num_frames:
            num_frames = num_ready
        return self._codec_stream.window(num_frames, final=is_final)

    def take(self, window: Window, samples: Tensor) -> np.ndarray:
        """Keep the decoded samples of ``window`` -> the same, [num_frames, hop]."""
        self._codec_stream.accept(window, samples)
        frames: np.ndarray = samples.numpy().reshape(-1, self._codec.hop)
        num_known = max(0, self.num_handed_out - self.num_decoded)
        self._held = np.concatenate([self._held, frames[num_known:]])
        self.num_decoded += window.num_frames
        self._chunk_frames = min(2 * self._chunk_frames, self._max_chunk_frames)
        return frames

    def hand_out(self, until: int, *, fades_out: bool = False) -> np.ndarray:
        """The samples before frame ``until`` that are decoded and were not handed out yet."""
        num_frames = max(0, min(until, self.num_decoded) - self.num_handed_out)
        samples: np.ndarray = self._held[:num_frames].reshape(-1)
        self._held = self._held[num_frames:]
        self.num_handed_out += num_frames
        if self._gain != 1.0:
            samples = samples * np.float32(self._gain)
        if self._fades_in and len(samples):
            samples = samples * self._ramp(0.0, len(samples))
            self._fades_in = False
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
        return Mark(codec_stream, self.num_pushed, self.num_decoded, self._chunk_frames)

    def rewind(self, mark: Mark) -> None:
        """Forget the frames pushed since ``mark``."""
        self._codec_stream = copy.copy(mark.codec_stream)
        self._chunk_frames = mark.chunk_frames
        self.num_pushed, self.num_decoded = mark.num_pushed, mark.num_decoded
        self._held = self._held[:0]

    def begin_anew(self) -> None:
        """After a final end: what follows has nothing to do with what was."""
        self._codec_stream = CodecStream(self._codec)
        self._fades_in = True

    def _ramp(self, begin: float, num_samples: int) -> np.ndarray:
        """Factors [num_samples] float32 that go from ``begin`` to 1 and stay there."""
        ramp = np.ones(num_samples, np.float32)
        num_ramp = min(self._num_ramp, num_samples)
        ramp[:num_ramp] = np.linspace(begin, 1.0, num_ramp, endpoint=False)
        return ramp
