"""The controls of a ZONOS3-shaped checkpoint: buckets between edges, and "unknown" when not chosen.

- Every control has a row in every prompt; what a request leaves open is the index after the last
  bucket. So an absent control (None in ``Delivery``) is "unknown" here and no row in ZONOS2.
- A number on an edge belongs to the upper bucket, as in ZONOS2.
- Source: spec/zonos3.md 1.4 and 4.11.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise

from engine.errors import InvalidRequest
from engine.family import Control
from engine.request import Delivery
from engine.sampling.settings import Range, as_real, shown
from engine.zonos3.config import Zonos3Config

RATE = "speaking_rate"
UNITS = {RATE: "bytes/s", "lufs": "LUFS", "bandwidth_hz": "Hz"}


def declared_controls(config: Zonos3Config) -> tuple[Control, ...]:
    """The controls of a checkpoint, for page, routes and documentation."""
    return tuple(
        Control(
            name=name,
            kind="rate" if name == RATE else "quality",
            unit=UNITS.get(name, ""),
            buckets=_labels(edges, is_rate=name == RATE),
            default=None,
        )
        for name, edges in config.condition_edges.items()
    )


def resolve_controls(config: Zonos3Config, delivery: Delivery) -> Mapping[str, int]:
    """The index of every control's row, in their order.

    Raises ``InvalidRequest`` naming the field that cannot be followed.
    """
    if not delivery.accurate_mode:
        raise _undeclared("accurate_mode", "the expressive mode")
    if delivery.clean_speaker_background:
        raise _undeclared("clean_speaker_background", "the background")
    features = [name for name in config.condition_edges if name != RATE]
    buckets = _features("quality_buckets", delivery.quality_buckets, features)
    values = _features("quality_values", delivery.quality_values, features)
    chosen: dict[str, int | None] = {}
    for name in features:
        bucket, value = buckets.get(name), values.get(name)
        if bucket is not None and value is not None:
            raise _conflict(f"quality_buckets.{name}", f"quality_values.{name}")
        if bucket is not None:
            chosen[name] = _bucket(config, name, f"quality_buckets.{name}", bucket)
        elif value is not None:
            chosen[name] = _bucket_of(config, name, f"quality_values.{name}", value)
    chosen[RATE] = _rate(config, delivery)
    indices = {}
    for name, edges in config.condition_edges.items():
        index = chosen.get(name)
        indices[name] = len(edges) + 1 if index is None else index
    return indices


def _rate(config: Zonos3Config, delivery: Delivery) -> int | None:
    fields = ("speaking_rate_bucket", "speaking_rate", "speed")
    asked = [field for field in fields if getattr(delivery, field) is not None]
    if not asked:
        return None
    if RATE not in config.condition_edges:
        raise _undeclared(asked[0], "a speaking rate")
    if len(asked) > 1:
        raise _conflict(*asked[:2])
    (field,) = asked
    value = getattr(delivery, field)
    if field == "speaking_rate_bucket":
        return _bucket(config, RATE, field, value)
    meaning = "UTF-8 bytes per second" if field == RATE else "a multiple of the usual"
    remedy = f"give a number above 0, {meaning}"
    number = as_real(field, value, remedy)
    if number <= 0:
        raise InvalidRequest(f"{field}: {shown(value)} is not allowed; {remedy}.", field=field)
    usual = 1.0 if field == RATE else _middle(config.condition_edges[RATE])
    return bisect_right(config.condition_edges[RATE], number * usual)


def _middle(edges: tuple[float, ...]) -> float:
    """The middle of the middle bucket: what a speed of 1 means."""
    upper = (len(edges) + 1) // 2
    return (edges[upper - 1] + edges[min(upper, len(edges) - 1)]) / 2


def _bucket(config: Zonos3Config, name: str, field: str, value: object) -> int:
    edges = config.condition_edges[name]
    labels = _labels(edges, is_rate=name == RATE)
    meaning = f"of the buckets {', '.join(labels)}"
    return int(Range(0, len(edges), True, meaning).check(field, value))


def _bucket_of(config: Zonos3Config, name: str, field: str, value: object) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # a measurement that failed conditions nothing
    number = as_real(field, value, f"give a number of {UNITS.get(name, name)}")
    return bisect_right(config.condition_edges[name], number)


def _features(field: str, given: object, known: list[str]) -> Mapping[str, object]:
    if given is None:
        return {}
    names = ", ".join(known) or "none"
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            f"{field}: {shown(given)} is not allowed; give a number per feature, of: {names}.",
            field=field,
        )
    for name in given:
        if name not in known:
            raise InvalidRequest(
                f"{field}: this model has no quality feature {shown(name)}; it has: {names}.",
                field=field,
            )
    return given


def _labels(edges: tuple[float, ...], is_rate: bool) -> tuple[str, ...]:
    """Every bucket in words: "0-8" or "below -40", "-40--35", "40+"."""
    numbers = [f"{edge:.10g}" for edge in edges]
    first = f"0-{numbers[0]}" if is_rate else f"below {numbers[0]}"
    between = [f"{low}-{high}" for low, high in pairwise(numbers)]
    return (first, *between, f"{numbers[-1]}+")


def _undeclared(field: str, what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field}: this model has no control for {what}; leave the field out.",
        field=field,
        code="unsupported_parameter",
    )


def _conflict(first: str, second: str) -> InvalidRequest:
    return InvalidRequest(
        f"{first} and {second} contradict each other; send one of them only.",
        field=second.partition(".")[0],
        code="conflicting_fields",
    )
