"""How fast the words come: by conditioning the model, by stretching the finished sound, or by both.

- A checkpoint with rate buckets is told how fast to speak; any other is stretched, pitch kept.
- A checkpoint that follows its buckets only part of the way takes the nearest one, and stretching
  does the rest: how far each bucket gets stands in the checkpoint (``Control.paces``) and is the
  same for every text, so that streamed speech is the whole speech.
- ``speed`` 1 counts as absent, because OpenAI's clients send it; only with the gate explicitly open
  it asks for the bucket of the usual rate, as Zyphra's clients mean it.
- Source: spec/api.md F5.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from engine import Control, InvalidRequest
from studio.api.schemas import SpeechBody

# What is left below this is not worth touching the sound for (F5).
MIN_STRETCH = 1.05


@dataclass(frozen=True)
class Pace:
    """What the engine is told (at most one of the first three) and the factor of the stretching.

    ``bucket`` is the rate bucket that results, None if there is none or it is not known.
    """

    speaking_rate_bucket: float | None = None
    speaking_rate: float | None = None
    speed: float | None = None
    stretch: float = 1.0
    bucket: int | None = None

    @property
    def way(self) -> str | None:
        """``condition``, ``stretch`` or ``condition+stretch``; None where no pace was asked for."""
        asked = (self.speaking_rate_bucket, self.speaking_rate, self.speed)
        ways = ["condition"] if asked != (None, None, None) else []
        ways += ["stretch"] if self.stretch != 1 else []
        return "+".join(ways) or None


def pace_of(body: SpeechBody, controls: Sequence[Control]) -> Pace:
    """The pace that ``body`` asks for; raises ``InvalidRequest`` where two fields set it."""
    if body.speaking_rate_enabled is False:
        return Pace()
    fields = ("speaking_rate_bucket", "speaking_rate", "speed")
    asked = {name: value for name in fields if (value := getattr(body, name)) is not None}
    if body.speed == 1 and not body.speaking_rate_enabled:
        del asked["speed"]
    if len(asked) > 1:
        first, second, *_ = asked
        raise InvalidRequest(
            f"{first} and {second} both set the speaking rate; send one of them only.",
            field=second,
            code="conflicting_fields",
        )
    rate = next((control for control in controls if control.kind == "rate"), None)
    speed = asked.get("speed")
    if speed is not None and (
        body.speed_mode == "stretch" or (body.speed_mode == "auto" and rate is None)
    ):
        return Pace(stretch=speed)
    if speed is not None and body.speed_mode == "auto" and rate is not None and rate.paces:
        return _nearest(speed, rate.paces)
    return Pace(**asked, bucket=_bucket(rate, **asked) if rate and asked else None)


def _nearest(speed: float, paces: Sequence[float | None]) -> Pace:
    """The bucket whose pace is nearest, and the stretching that is left to do."""
    left = {bucket: speed / pace for bucket, pace in enumerate(paces) if pace is not None}
    bucket = min(left, key=lambda bucket: abs(math.log(left[bucket])))
    stretch = left[bucket]
    is_near = 1 / MIN_STRETCH < stretch < MIN_STRETCH
    stretch = 1.0 if is_near else min(max(stretch, 0.25), 4.0)
    return Pace(speaking_rate_bucket=bucket, stretch=stretch, bucket=bucket)


def _bucket(
    control: Control,
    *,
    speaking_rate_bucket: float | None = None,
    speaking_rate: float | None = None,
    speed: float | None = None,
) -> int | None:
    """The bucket that the engine takes, told from the labels ("8-11", "40+") of the control."""
    if speaking_rate_bucket is not None:  # the engine refuses what is no index
        return int(speaking_rate_bucket) if math.isfinite(speaking_rate_bucket) else None
    ranges = [re.fullmatch(r"([\d.]+)(?:-([\d.]+)|\+)", label) for label in control.buckets]
    if not all(ranges):
        return None
    starts = [float(found[1]) for found in ranges if found]
    if speed is not None:
        middle = len(starts) // 2  # whose middle is the usual rate
        end = starts[middle + 1] if middle + 1 < len(starts) else starts[middle]
        speaking_rate = speed * (starts[middle] + end) / 2
    assert speaking_rate is not None
    return max(0, bisect_right(starts, speaking_rate) - 1)
