"""What a request will become before anybody speaks it: its segments, and about how long they take.

The estimate is the rate that was asked for, or the usual one, and the pauses.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.family import Family
from engine.longform import plan_segments
from engine.pace import asked_bytes_per_s, usual_bytes_per_s
from engine.request import SpeechRequest
from engine.text.markup import pieces


@dataclass(frozen=True)
class Forecast:
    """``chunks`` are the texts of the segments, in order."""

    chunks: tuple[str, ...]
    duration_s: float


def forecast(request: SpeechRequest, family: Family) -> Forecast:
    """The plan of ``request``, which need not be fit to be spoken; quick, whatever its length."""
    said = request.pieces or pieces(request.text)
    segments = plan_segments(said, family.segment_chars, request.language)
    rate = asked_bytes_per_s(request.delivery, family.controls) or usual_bytes_per_s(
        family.controls
    )
    sound_s = sum(len(part.text.encode()) / (rate * part.pace) for part in segments)
    pauses_ms = sum(part.pause_before_ms + part.pause_after_ms for part in segments)
    return Forecast(tuple(part.text for part in segments), sound_s + pauses_ms / 1000)
