"""Bucket labels of ``params.json`` as ranges, and which bucket a number falls into.

- Labels read "-50--45.5", "40+" or "0"; spaces are allowed, exponents are not.
- Source: spec/zonos2.md 1.2 and 3.3; the tolerances are the reference's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from engine.errors import CheckpointError

_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+))"
_LABEL = re.compile(rf"\s*{_NUMBER}\s*(?:(\+)|-\s*{_NUMBER})?\s*")
# A rate this close to an edge lies on it, and an edge belongs to the upper bucket (spec 3.3).
_EDGE = {"rel_tol": 1e-12, "abs_tol": 1e-9}
# Without labels, or with an open middle bucket, the reference takes this as neutral (spec 3.3).
_NEUTRAL_BYTES_PER_S = 15.0
# Without labels, the buckets divide this evenly: the reference's own frame rate.
_UNLABELLED_BYTES_PER_S = 86 * 44070 / 44000


@dataclass(frozen=True)
class Bucket:
    """Numbers from ``low`` up to, not including, ``high``; equal ends mean exactly that number."""

    low: float
    high: float


@lru_cache(maxsize=64)
def parse_buckets(labels: tuple[str, ...]) -> tuple[Bucket, ...]:
    """Read labels such as "-50--45.5", "40+" and "0"; raises ``CheckpointError`` naming one."""
    buckets = []
    for label in labels:
        match = _LABEL.fullmatch(label)
        if match is None:
            raise CheckpointError(f"model: the bucket label {label!r} in params.json is no range.")
        low = float(match[1])
        high = math.inf if match[2] else float(match[3] or low)
        if match[3] and high <= low:
            raise CheckpointError(f"model: the bucket {label!r} in params.json is empty.")
        buckets.append(Bucket(low, high))
    return tuple(buckets)


@lru_cache(maxsize=64)
def rate_buckets(labels: tuple[str, ...]) -> tuple[Bucket, ...]:
    """Read the speaking-rate labels, which must lead from 0 without a gap to an open end."""
    buckets = parse_buckets(labels)
    edges = [0.0, *(bucket.high for bucket in buckets)]
    is_whole = all(
        bucket.low == edge and bucket.high > bucket.low
        for bucket, edge in zip(buckets, edges, strict=False)
    )
    if not is_whole or edges[-1] != math.inf:
        raise CheckpointError(
            "model: speaking_rate_buckets in params.json must lead from 0 without a gap to an"
            f" open end such as '40+', not {', '.join(labels)}."
        )
    return buckets


def neutral_rate(labels: tuple[str, ...]) -> float:
    """Return the bytes per second that ``speed`` 1 means: the middle of the middle bucket."""
    if not labels:
        return _NEUTRAL_BYTES_PER_S
    middle = rate_buckets(labels)[len(labels) // 2]
    return (middle.low + middle.high) / 2 if middle.high < math.inf else _NEUTRAL_BYTES_PER_S


def bucket_of_rate(rate: float, labels: tuple[str, ...], count: int) -> int:
    """Return the bucket of ``rate`` (UTF-8 bytes per second, above 0)."""
    if not labels:
        return int(min(rate / _UNLABELLED_BYTES_PER_S * count, count - 1))
    below = (
        index
        for index, bucket in enumerate(rate_buckets(labels))
        if rate < bucket.high and not math.isclose(rate, bucket.high, **_EDGE)
    )
    return next(below, len(labels) - 1)


def bucket_of_value(value: float, labels: tuple[str, ...]) -> int:
    """Return the bucket of a measured ``value``: an exact one first, then ranges, ends clamped."""
    buckets = parse_buckets(labels)
    ranges = []
    for index, bucket in enumerate(buckets):
        if bucket.low < bucket.high:
            ranges.append((index, bucket))
        elif math.isclose(value, bucket.low, **_EDGE):
            return index
    below = (index for index, bucket in ranges if value < bucket.high)
    return next(below, ranges[-1][0] if ranges else len(buckets) - 1)
