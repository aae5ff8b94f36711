"""The delay pattern: codebook k of a frame is written k rows late.

- ``shear`` and ``unshear`` move a whole block of rows.
- ``EndOfAudio`` is the exact end rule; ``DelayBuffer`` turns sampled rows into aligned frames.
- A frame that was handed out is never taken back: when an end-of-audio code first appears in row s
  at codebook m, ``end_frame = s - m``, and before that row at most s - (codebooks - 1) frames were
  complete, which is no more.
- Source: spec/zonos2.md 4.1, 4.2 and 4.4. The reference's overlapped server keeps one frame more;
  that is its defect, not this rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor


def shear(codes: Tensor, pad_id: int) -> Tensor:
    """Delay codebook j by j rows within the same T rows: [..., T, codebooks], pad where empty."""
    num_rows, num_codebooks = codes.shape[-2:]
    rows = torch.full_like(codes, pad_id)
    for j in range(min(num_rows, num_codebooks)):
        rows[..., j:, j] = codes[..., : num_rows - j, j]
    return rows


def unshear(rows: Tensor, pad_id: int) -> Tensor:
    """Undo ``shear`` within the same T rows; the last codebooks - 1 frames lack codes (pad)."""
    num_rows, num_codebooks = rows.shape[-2:]
    codes = torch.full_like(rows, pad_id)
    for j in range(min(num_rows, num_codebooks)):
        codes[..., : num_rows - j, j] = rows[..., j:, j]
    return codes


class EndOfAudio:
    """When one request ends, decided row by row on plain integers (spec 4.2).

    The first row that holds ``eoa_id`` in any codebook fixes ``end_frame``, the number of aligned
    frames to keep, from the highest such codebook. That row and as many more as there are codebooks
    are generated, so that every kept frame is complete; then ``finished`` is True.
    """

    def __init__(self, num_codebooks: int, eoa_id: int) -> None:
        self._eoa_id = eoa_id
        self._num_rows = 0
        self._rows_left = num_codebooks + 1
        self.end_frame: int | None = None

    @property
    def finished(self) -> bool:
        """Whether no further row is needed."""
        return self._rows_left == 0

    def step(self, codes: Sequence[int]) -> None:
        """Take the codes of the next generated row."""
        if self.end_frame is None and self._eoa_id in codes:
            highest = max(j for j, code in enumerate(codes) if code == self._eoa_id)
            self.end_frame = max(0, self._num_rows - highest)
        if self.end_frame is not None:
            self._rows_left = max(0, self._rows_left - 1)
        self._num_rows += 1


class DelayBuffer:
    """One request's sampled rows in, aligned frames out as soon as they are certain to be kept.

    Frame t is complete once row t + codebooks - 1 exists. Frames at or past ``end_frame``, and the
    incomplete frames left when generation stops without an end of audio (spec 4.4), never come out;
    so there is nothing to flush.
    """

    def __init__(self, num_codebooks: int, codebook_size: int, eoa_id: int) -> None:
        self._num_codebooks = num_codebooks
        self._largest_code = codebook_size - 1
        self._end = EndOfAudio(num_codebooks, eoa_id)
        self._rows: deque[Sequence[int]] = deque()  # from the first frame not yet taken on
        self._num_taken = 0

    @property
    def finished(self) -> bool:
        """Whether the end of audio was reached and no further row is needed."""
        return self._end.finished

    @property
    def end_frame(self) -> int | None:
        """The number of frames of the whole audio, once the end of audio was seen."""
        return self._end.end_frame

    def push(self, row: Sequence[int]) -> None:
        """Take the codes of the next generated row, one per codebook."""
        self._end.step(row)
        self._rows.append(row)

    def take_ready(self) -> Tensor:
        """The new certain frames, oldest first: [n, codebooks] int64, n may be 0.

        A stray end-of-audio or pad code in a kept frame becomes the largest code (spec 4.2).
        """
        frames: list[list[int]] = []
        while len(self._rows) >= self._num_codebooks and self._num_taken != self.end_frame:
            frame = (self._rows[j][j] for j in range(self._num_codebooks))
            frames.append([min(code, self._largest_code) for code in frame])
            self._rows.popleft()
            self._num_taken += 1
        return torch.tensor(frames, dtype=torch.int64).reshape(len(frames), self._num_codebooks)
