"""Exact streaming for any codec with bounded context.

- Every piece is decoded inside a window of real neighbouring frames as wide as the codec's context,
  and only the samples of the new frames are kept: the pieces laid end to end are the whole decode
  within rounding. At the true start and end the codec's own padding applies.
- Which windows a request gets depends on its own frame counts alone, and every decode call has the
  same number of rows: a request's samples are the same alone and under load.
- A window may be decoded in parts, as its frames arrive: each part is a call of the whole window's
  shape, so that a frame's samples are the same to the bit however many of them are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.codec.base import Codec


@dataclass(frozen=True, eq=False)
class Window:
    """New frames with their context: ``codes`` [frames, codebooks] int64.

    The new frames are ``codes[num_left : num_left + num_frames]``; the first of them is frame
    ``first_frame`` of the request.
    """

    codes: Tensor
    first_frame: int
    num_left: int
    num_frames: int


class CodecStream:
    """One request's way from frames to windows to delivered samples.

    The caller asks for ``window``s until there is none, or for ``part``s of windows of its own,
    decodes each with ``decode_windows`` and tells the stream with ``accept``. Only frames that a
    later window needs are kept.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._left, self._right = codec.context_left, codec.context_right
        self._frames = torch.empty(0, codec.num_codebooks, dtype=torch.int64)
        self._first_kept = 0  # number of the request's frame in self._frames[0]
        self._next = 0  # number of the first frame whose samples were not accepted yet

    @property
    def next_frame(self) -> int:
        """The first frame whose samples were not accepted yet."""
        return self._next

    @property
    def num_pushed(self) -> int:
        """Frames so far."""
        return self._first_kept + len(self._frames)

    @property
    def num_ready(self) -> int:
        """Frames that can be decoded before the end is known: all but the last ones' context."""
        return max(self._next, self.num_pushed - self._right)

    def push(self, frames: Tensor) -> None:
        """Take the request's next aligned frames: [n, codebooks] int64, n may be 0."""
        self._frames = torch.cat([self._frames, frames])

    def part(self, begin: int, end: int, until: int) -> Window:
        """The next frames, before ``until``, in a call of the shape of frames ``begin`` .. ``end``.

        ``begin <= next_frame < until <= end`` and ``until <= num_ready``. Frames of the window or
        its context that are not there yet are filled with code 0: what is not in the context of a
        frame has no say in its samples, and its place and the shape of the call stay the same.
        """
        start, stop = max(0, begin - self._left), end + self._right
        codes = self._frames[start - self._first_kept : stop - self._first_kept]
        return Window(
            codes=F.pad(codes, (0, 0, 0, stop - start - len(codes))),
            first_frame=self._next,
            num_left=self._next - start,
            num_frames=until - self._next,
        )

    def window(self, min_frames: int, final: bool) -> Window | None:
        """The next window, or None while too few frames are there.

        A window carries exactly ``min_frames`` new frames as soon as these have all their right
        context. With ``final`` no frame will follow, and the last window carries whatever remains,
        up to the true end. Asking again without ``accept`` gives the same window.
        """
        num_pushed = self.num_pushed
        end = self._next + min_frames
        if end + self._right > num_pushed:
            if not final or self._next == num_pushed:
                return None
            end = num_pushed
        start = max(0, self._next - self._left)
        stop = min(end + self._right, num_pushed)
        return Window(
            codes=self._frames[start - self._first_kept : stop - self._first_kept],
            first_frame=self._next,
            num_left=self._next - start,
            num_frames=end - self._next,
        )

    def accept(self, window: Window, samples: Tensor) -> None:
        """Note that ``samples``, the decoded new frames of ``window``, are delivered."""
        if window.first_frame != self._next:
            raise ValueError(f"the next window begins at {self._next}, not {window.first_frame}")
        if samples.numel() != window.num_frames * self._codec.hop:
            raise ValueError(f"{samples.numel()} samples are not {window.num_frames} frames")
        self._next += window.num_frames
        start = window.first_frame - window.num_left
        has_more = self._next < start + len(window.codes) - self._right  # parts, of the same shape
        num_done = (start if has_more else max(0, self._next - self._left)) - self._first_kept
        if num_done > 0:
            self._frames = self._frames[num_done:]
            self._first_kept += num_done


def decode_windows(codec: Codec, windows: Sequence[Window]) -> list[Tensor]:
    """The samples [num_frames * hop] float32 of each window's new frames, on the CPU.

    A row's last bits change with the shape of the call but neither with its neighbours nor with its
    place (measured on CPU), and padding a shorter window would change its samples outright. So only
    windows of equal length share a call, and each call has ``codec.decode_rows`` rows: a last call
    that is not full repeats a window.
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for index, window in enumerate(windows):
        by_length[len(window.codes)].append(index)
    pieces: dict[int, Tensor] = {}
    for indices in by_length.values():
        for first in range(0, len(indices), codec.decode_rows):
            members = indices[first : first + codec.decode_rows]
            rows = members + members[-1:] * (codec.decode_rows - len(members))
            codes = torch.stack([windows[index].codes for index in rows])
            samples = codec.decode(codes.to(codec.device)).cpu()  # [decode_rows, length * hop]
            for row, index in enumerate(members):
                begin = windows[index].num_left * codec.hop
                end = begin + windows[index].num_frames * codec.hop
                pieces[index] = samples[row, begin:end].clone()  # frees the context's samples
    return [pieces[index] for index in range(len(windows))]
