"""What a listener gets: when each piece of one request came, and what follows from it.

Definitions are in README.md: rtf, ttfa, gaps, underruns.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Heard:
    """One request at its reader: times in seconds of one clock, pieces in seconds of sound."""

    sent_s: float
    pieces: list[tuple[float, float]] = field(default_factory=list)  # (came_s, duration_s)
    error: str | None = None

    @property
    def audio_s(self) -> float:
        """Seconds of sound."""
        return sum(duration_s for _, duration_s in self.pieces)

    @property
    def rtf(self) -> float:
        """From sending to the last sound, as a share of the sound."""
        return (self.pieces[-1][0] - self.sent_s) / self.audio_s

    @property
    def ttfa_ms(self) -> float:
        """From sending to the first sound."""
        return (self.pieces[0][0] - self.sent_s) * 1e3

    @property
    def max_gap_ms(self) -> float:
        """The longest wait between two pieces."""
        came = [came_s for came_s, _ in self.pieces]
        return max((b - a for a, b in pairwise(came)), default=0.0) * 1e3

    @property
    def num_underruns(self) -> int:
        """How often playback, begun with the first piece, had nothing left to play."""
        count, plays_until_s = 0, self.pieces[0][0]
        for came_s, duration_s in self.pieces:
            count += came_s > plays_until_s
            plays_until_s = max(plays_until_s, came_s) + duration_s
        return count


def summary(heard: Sequence[Heard], wall_s: float) -> dict[str, Any]:
    """The figures of one run of requests."""
    good = [one for one in heard if one.pieces and one.error is None]
    told: dict[str, Any] = {"requests": len(heard), "failed": len(heard) - len(good)}
    if not good:
        return told | {"first_error": heard[0].error if heard else None}
    rtf, ttfa_ms = ([f(one) for one in good] for f in (lambda h: h.rtf, lambda h: h.ttfa_ms))
    return told | {
        "rtf_median": round(statistics.median(rtf), 4),
        "rtf_p95": round(percentile(rtf, 0.95), 4),
        "ttfa_ms_median": round(statistics.median(ttfa_ms), 1),
        "ttfa_ms_p95": round(percentile(ttfa_ms, 0.95), 1),
        "audio_s_per_s": round(sum(one.audio_s for one in good) / wall_s, 2),
        "requests_per_s": round(len(good) / wall_s, 2),
        "mean_audio_s": round(statistics.mean(one.audio_s for one in good), 2),
        "max_gap_ms": round(max(one.max_gap_ms for one in good), 1),
        "streams_without_underrun": sum(one.num_underruns == 0 for one in good),
        "underruns": sum(one.num_underruns for one in good),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
