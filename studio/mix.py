"""The lines of a dialogue as one sound: with the silences between them, or at the times they have.

- A pause lasts from the last sound of a line to the first sound of the next one; the silence that
  a line brings along is part of it.
- A line with a time begins there, or right after the line before it where that is still speaking.
- Blocking: an hour of speech is 300 MB.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine import Cue

if TYPE_CHECKING:
    from pydub import AudioSegment

DEFAULT_PAUSE_MS, MAX_PAUSE_MS = 350, 10_000
MAX_MIX_S = 5400
# What stays of a line's own silence, for breath and soft beginnings; its edges are faded.
LEAD_S, TAIL_S = 0.06, 0.12
FADE_MS = 10
# A line that begins later than this after its time is told.
_LATE_S = 0.1


@dataclass(frozen=True, eq=False)
class Placed:
    """A line's int16 ``samples`` and where it belongs.

    What is said in it, with the pauses that its text asks for, lasts from ``begin_s`` to ``end_s``;
    ``cues`` are in seconds from its beginning, too. ``pause_ms`` is the silence after it, None the
    usual one; ``start_s`` when it is due, None right after the pause before it.
    """

    samples: np.ndarray
    sample_rate_hz: int
    begin_s: float
    end_s: float
    cues: Sequence[Cue]
    pause_ms: int | None = None
    start_s: float | None = None


@dataclass(frozen=True, eq=False)
class Mix:
    """One sound of int16 ``samples``; ``cues`` [line][cue] and ``notes`` on what came too late."""

    samples: np.ndarray
    sample_rate_hz: int
    cues: tuple[tuple[Cue, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Its length in seconds."""
        return len(self.samples) / self.sample_rate_hz

    @property
    def all_cues(self) -> list[Cue]:
        """What is said when, line after line."""
        return [cue for cues in self.cues for cue in cues]


def mixed(lines: Sequence[Placed], pause_ms: int = DEFAULT_PAUSE_MS) -> Mix:
    """All ``lines`` in their order, none of them over another; at least one."""
    rate_hz = lines[0].sample_rate_hz
    parts: list[AudioSegment] = []
    cues, notes = [], []
    at = 0  # samples of ``parts``
    due = 0  # where the next line's sound begins if it has no time of its own
    for index, line in enumerate(lines):
        first, last = (round(time_s * rate_hz) for time_s in (line.begin_s, line.end_s))
        begin = max(0, first - round(LEAD_S * rate_hz))
        end = min(len(line.samples), last + round(TAIL_S * rate_hz))
        earliest = at + first - begin
        if line.start_s is None:
            sound = max(earliest, due)
        else:
            sound = max(earliest, round(line.start_s * rate_hz))
            late_s = sound / rate_hz - line.start_s
            if late_s > _LATE_S and index:
                notes.append(
                    f"turns[{index}]: it begins {late_s:.1f} s late, when the turn before it has"
                    " ended; shorten that one."
                )
        parts.append(_silence(sound - earliest, rate_hz))
        parts.append(_segment(line.samples[begin:end], rate_hz).fade_in(FADE_MS).fade_out(FADE_MS))
        shift = sound - first
        at = shift + end
        wait_ms = pause_ms if line.pause_ms is None else line.pause_ms
        due = shift + last + round(wait_ms / 1000 * rate_hz)
        cues.append(tuple(_shifted(cue, shift / rate_hz) for cue in line.cues))
    if lines[-1].pause_ms is not None:  # asked for, and not only the usual one
        parts.append(_silence(due - at, rate_hz))
    whole = _joined(parts)
    samples = np.frombuffer(whole.raw_data, "<i2")
    return Mix(samples, rate_hz, tuple(cues), tuple(notes))


def _shifted(cue: Cue, shift_s: float) -> Cue:
    return replace(cue, start_s=cue.start_s + shift_s, end_s=cue.end_s + shift_s)


def _segment(samples: np.ndarray, rate_hz: int) -> AudioSegment:
    data = samples.astype("<i2").tobytes()
    return _pydub()(data, sample_width=2, frame_rate=rate_hz, channels=1)


@functools.cache
def _pydub() -> type[AudioSegment]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it misses programs that read files: it is given none
        from pydub import AudioSegment
    return AudioSegment


def _silence(num_samples: int, rate_hz: int) -> AudioSegment:
    return _segment(np.zeros(max(0, num_samples), np.int16), rate_hz)


def _joined(parts: Sequence[AudioSegment]) -> AudioSegment:
    """All parts, one after the other; in halves, since each joining copies both of its sides."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _joined(parts[:middle]).append(_joined(parts[middle:]), crossfade=0)
