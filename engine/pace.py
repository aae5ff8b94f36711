"""How fast and how silent a request asks to be: its delivery beside the declared controls."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from engine.family import Control
from engine.request import Delivery

# Neutral in the release's buckets; English of the embedded voices has 17 to 20.
USUAL_BYTES_PER_S = 19.0
_RANGE = re.compile(r"(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?)|\+)")
# Features whose upper end says how long a silence is meant to be.
_SILENCES = ("trailing_silence_s", "max_pause")


def usual_bytes_per_s(controls: Sequence[Control]) -> float:
    """What a speed of 1 means: the middle of the middle rate bucket."""
    rate = _named("speaking_rate", controls)
    return USUAL_BYTES_PER_S if rate is None else _middle(rate, len(rate.buckets) // 2)


def asked_bytes_per_s(delivery: Delivery, controls: Sequence[Control]) -> float | None:
    """UTF-8 bytes of text per second of sound, or None where the request leaves it open."""
    if delivery.speaking_rate is not None:
        return delivery.speaking_rate
    if delivery.speed is not None:
        return delivery.speed * usual_bytes_per_s(controls)
    rate = _named("speaking_rate", controls)
    if rate is None or delivery.speaking_rate_bucket is None:
        return None
    return _middle(rate, int(delivery.speaking_rate_bucket))


def delivery_at(pace: float, delivery: Delivery, controls: Sequence[Control]) -> Delivery:
    """``delivery`` at ``pace`` times its speed; unchanged for a checkpoint without such control."""
    if pace == 1.0 or _named("speaking_rate", controls) is None:
        return delivery
    rate = asked_bytes_per_s(delivery, controls) or usual_bytes_per_s(controls)
    return replace(delivery, speaking_rate=rate * pace, speed=None, speaking_rate_bucket=None)


def asked_silence_s(delivery: Delivery, controls: Sequence[Control]) -> float:
    """The longest silence that the quality features in force ask for, in seconds."""
    longest = 0.0
    for name in _SILENCES:
        control = _named(name, controls)
        if control is None:
            continue
        bucket = (delivery.quality_buckets or {}).get(name, control.default)
        if bucket is not None:
            longest = max(longest, _ends(control, int(bucket))[1])
        longest = max(longest, (delivery.quality_values or {}).get(name) or 0.0)
    return longest


def _named(name: str, controls: Sequence[Control]) -> Control | None:
    return next((control for control in controls if control.name == name), None)


def _ends(control: Control, bucket: int) -> tuple[float, float]:
    """A bucket's label as numbers; of a label without numbers nothing is known: 0 to infinity."""
    match = _RANGE.fullmatch(control.buckets[bucket])
    if match is None:
        return 0.0, math.inf
    return float(match[1]), float(match[2]) if match[2] else math.inf


def _middle(rate: Control, bucket: int) -> float:
    low, high = _ends(rate, bucket)
    if high < math.inf:
        return (low + high) / 2
    return low or USUAL_BYTES_PER_S
