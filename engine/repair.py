"""The guard of one segment: is it still speaking, is it over, or has it run away?

- It sees two things only: the first code of every row, and the level of every decoded frame. Both
  follow from the codes, so its verdict is the same alone, under load, streamed or whole.
- A fault is a stretch that begins at a known frame: a code pattern that repeats, a silence that
  goes on, an end that does not come within the budget, an end that comes far too early.
- While a fault is possible, ``hold_from`` names the frame from which on nothing should be heard.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from engine.family import Control
from engine.pace import asked_bytes_per_s, asked_silence_s, usual_bytes_per_s
from engine.request import Delivery

Reason = Literal["budget", "loop", "silence", "short", "empty"]

MAX_REPAIRS = 2
# A segment may take this long (spec/security.md 4.1): the base, and three times what its text takes
# at the rate that was asked for; without one, 0.16 s per byte, three times the usual rate.
BUDGET_BASE_S = 4.0
BUDGET_PER_BYTE_S = 0.16
BUDGET_FACTOR = 3.0
# Of its usual duration; less is no speech. 200 sentences of the embedded voices: 0.9 or more.
SHORTEST_SHARE = 1 / 3
# A frame is silent below both: an absolute level, and one beside the loudest frame so far.
SILENT_RMS, SILENT_SHARE = 0.004, 0.025
# 200 sentences of the embedded voices hold no silence above 0.72 s.
SILENCE_S = 1.5
SILENCE_SLACK_S = 1.25  # above what the quality features ask for
# After half of its usual duration, a pause this long may be the end of what there was to say.
PAUSE_S, EARLIEST_PAUSE_SHARE = 0.3, 0.5
# What of such a pause is kept where a segment is cut at it.
KEPT_PAUSE_S = 0.24
# What went wrong was drawn a little before it could be seen.
RUN_UP_S = 0.2
# Repetition: a match scores 1, a miss -3, for each period up to this; in the 200 sentences no score
# passes 14 frames (0.56 s).
LONGEST_PERIOD_S, SUSPECT_S, LOOP_S = 1.5, 0.6, 3.0
_MISS = 3


class Repair(NamedTuple):
    """A segment that was made again: its number in the text from 0, why, and which attempt failed.

    ``reason``: "budget" it did not end, "loop" it repeated itself, "silence" it fell silent,
    "short" it ended far too early, "empty" nothing of it sounds.
    """

    chunk: int
    reason: Reason
    attempt: int


class Fault(NamedTuple):
    """What is wrong, and the frame where it begins; None where that is not known."""

    reason: Reason
    begin: int | None


@dataclass(frozen=True)
class Limits:
    """What is expected of one segment, in frames."""

    usual: int
    shortest: int
    budget: int
    pause: int
    kept_pause: int
    run_up: int
    silence: float  # infinite where an open quality bucket asks for it
    longest_period: int
    suspect: int
    loop: float

    @classmethod
    def of(
        cls, text: str, delivery: Delivery, controls: Sequence[Control], frame_rate_hz: float
    ) -> Limits:
        """The limits of ``text`` spoken as ``delivery`` asks."""
        asked = asked_bytes_per_s(delivery, controls)
        usual_s = _spoken_bytes(text) / (asked or usual_bytes_per_s(controls))
        per_byte_s = BUDGET_FACTOR / asked if asked else BUDGET_PER_BYTE_S
        budget_s = BUDGET_BASE_S + per_byte_s * _num_bytes(text)
        silence_s = max(SILENCE_S, asked_silence_s(delivery, controls) + SILENCE_SLACK_S)
        return cls(
            usual=round(usual_s * frame_rate_hz),
            shortest=int(SHORTEST_SHARE * usual_s * frame_rate_hz),
            budget=math.ceil(budget_s * frame_rate_hz),
            pause=math.ceil(PAUSE_S * frame_rate_hz),
            kept_pause=round(KEPT_PAUSE_S * frame_rate_hz),
            run_up=round(RUN_UP_S * frame_rate_hz),
            silence=silence_s * frame_rate_hz,
            longest_period=round(LONGEST_PERIOD_S * frame_rate_hz),
            suspect=math.ceil(SUSPECT_S * frame_rate_hz),
            loop=max(LOOP_S, silence_s + SILENCE_S) * frame_rate_hz,
        )


class Guard:
    """Watches one attempt at one segment; frames and rows count from its beginning."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.first_sound: int | None = None  # frame
        self.end_of_sound = 0  # frame after the last one that sounds
        self._num_levels = 0
        self._loudest = 0.0
        self._pauses: list[int] = []  # first frames of those that may be the end
        self._num_rows = 0
        self._loops = _Loops(limits.longest_period)

    @property
    def hold_from(self) -> int | None:
        """The first frame that is not to be heard before the segment has ended well."""
        holds = self._pauses[:1]
        if self._loops.score >= self.limits.suspect:
            holds.append(self._loops.begin)
        return min(holds, default=None)

    @property
    def num_heard(self) -> int:
        """Frames to be heard now: a silence only together with the sound that ends it."""
        if self.first_sound is None:
            return self._num_levels
        hold = self.hold_from
        return self.end_of_sound if hold is None else min(self.end_of_sound, hold)

    def take_row(self, first_code: int) -> Fault | None:
        """Take the next row's first code; a fault if the rows repeat themselves or are too many."""
        self._num_rows += 1
        self._loops.take(first_code)
        if self._loops.score >= self.limits.loop:
            return Fault("loop", self._loops.begin)
        if self._num_rows >= self.limits.budget:
            return Fault("budget", self._pauses[0] if self._pauses else None)
        return None

    def take_levels(self, levels: np.ndarray) -> Fault | None:
        """Take the next frames' root mean squares; a fault if the silence has become too long."""
        for level in levels.tolist():
            self._num_levels += 1
            self._loudest = max(self._loudest, level)
            if level >= max(SILENT_RMS, SILENT_SHARE * self._loudest):
                if self.first_sound is None:
                    self.first_sound = self._num_levels - 1
                self.end_of_sound = self._num_levels
                continue
            begin = self.end_of_sound
            num_silent = self._num_levels - begin
            may_be_end = begin >= EARLIEST_PAUSE_SHARE * self.limits.usual and begin > 0
            if num_silent == self.limits.pause and may_be_end:
                self._pauses.append(begin)
            if num_silent > self.limits.silence:
                return Fault("silence", begin)
        return None

    def judge_end(self, num_frames: int) -> Fault | None:
        """The segment ended by itself after ``num_frames``: a fault if that is far too early."""
        if num_frames == 0:
            return Fault("empty", 0)
        return Fault("short", num_frames) if num_frames < self.limits.shortest else None

    def cut(self, fault: Fault, num_frames: int) -> int:
        """How many of ``num_frames`` to keep when no attempt is left: up to where it went wrong.

        Where it only did not end, up to the pause nearest to its usual duration.
        """
        if fault.reason in ("short", "empty"):
            return num_frames
        if fault.reason == "budget" and self._pauses:
            begin = min(self._pauses, key=lambda pause: abs(pause - self.limits.usual))
        elif fault.begin is None:
            return num_frames
        else:
            begin = fault.begin
        is_loop = fault.reason == "loop"
        return min(num_frames, begin + (0 if is_loop else self.limits.kept_pause))


class _Loops:
    """Whether a sequence of codes repeats itself with any period up to a longest one.

    Per period a score that grows by 1 with every match and falls by 3 with every miss, never below
    0 (a cumulated sum, Page 1954). The stretch begins one period before the score left 0.
    """

    def __init__(self, longest_period: int) -> None:
        self._periods = np.arange(1, longest_period + 1)
        self._latest = np.full(longest_period, -1)  # newest first
        self._scores = np.zeros(longest_period, np.int64)
        self._begins = np.zeros(longest_period, np.int64)
        self._count = 0
        self.score = 0
        self.begin = 0

    def take(self, code: int) -> None:
        """Take the next code."""
        matches = self._latest == code
        begins = matches & (self._scores == 0)
        self._begins[begins] = self._count - self._periods[begins]
        self._scores = np.where(matches, self._scores + 1, np.maximum(self._scores - _MISS, 0))
        best = int(self._scores.argmax())
        self.score, self.begin = int(self._scores[best]), int(self._begins[best])
        self._latest = np.concatenate([[code], self._latest[:-1]])
        self._count += 1


def _spoken_bytes(text: str) -> int:
    """UTF-8 bytes of what is heard of a text: its letters with their marks, digits and spaces."""
    return _num_bytes("".join(c for c in text if c == " " or unicodedata.category(c)[0] in "LMN"))


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))  # half a pair is the prompt's to refuse
