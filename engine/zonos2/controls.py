"""The conditioning controls a checkpoint declares, and what a request chose of them.

- ``declared_controls`` is data: page, routes and documentation are made from it.
- ``resolve_controls`` turns a ``Delivery`` into buckets; a control the checkpoint lacks is refused.
- ``quality_values`` beside the default bucket is no conflict: the default gives way (SETTLED.md).
- Source: spec/zonos2.md 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from engine.errors import CheckpointError, InvalidRequest
from engine.family import Control
from engine.request import Delivery
from engine.sampling.settings import Range, as_real, shown
from engine.zonos2.buckets import (
    bucket_of_rate,
    bucket_of_value,
    neutral_rate,
    parse_buckets,
    rate_buckets,
)
from engine.zonos2.config import Zonos2Config

Background = Literal["clean", "noisy"]

_END = "trailing_silence_s"
_UNITS = {"lufs": "LUFS", "estimated_snr": "dB", "max_pause": "s"}
_UNITS_BY_ENDING = {"_hz": "Hz", "_s": "s"}


@dataclass(frozen=True)
class ResolvedControls:
    """The conditioning of one prompt. ``quality`` is in feature order; None means no row."""

    rate_bucket: int | None
    quality: Mapping[str, int | None]
    background: Background | None
    accurate: bool


def declared_controls(config: Zonos2Config) -> tuple[Control, ...]:
    """Return the controls of a checkpoint; raises ``CheckpointError`` for unreadable buckets."""
    controls = []
    if config.num_rate_buckets:
        if config.rate_buckets:
            rate_buckets(config.rate_buckets)
        labels = config.rate_buckets or tuple(map(str, range(config.num_rate_buckets)))
        controls.append(
            Control("speaking_rate", "rate", "bytes/s", labels, None, config.rate_paces)
        )
    for name, labels in config.quality_buckets.items():
        parse_buckets(labels)
        default = config.default_quality.get(name)
        if default is not None and not 0 <= default < len(labels):
            raise CheckpointError(
                f"model: default_quality_buckets has bucket {default} for {name!r}, which has"
                f" {len(labels)} buckets."
            )
        controls.append(Control(name, "quality", _unit(name), labels, default))
    if config.has_background_marker:
        default_background = Delivery().clean_speaker_background
        controls.append(Control("clean_speaker_background", "flag", "", (), default_background))
    if config.has_accurate_marker:
        controls.append(Control("accurate_mode", "flag", "", (), Delivery().accurate_mode))
    return tuple(controls)


def resolve_controls(
    config: Zonos2Config, delivery: Delivery, has_speaker: bool
) -> ResolvedControls:
    """Return the buckets and markers of a prompt; raises ``InvalidRequest`` naming the field.

    Background and accurate markers need a voice; without one they have no effect (spec 3.2).
    """
    if not delivery.accurate_mode and not config.has_accurate_marker:
        raise _undeclared("accurate_mode", "the expressive mode")
    if delivery.clean_speaker_background and not config.has_background_marker:
        raise _undeclared("clean_speaker_background", "the background")
    background: Background = "clean" if delivery.clean_speaker_background else "noisy"
    return ResolvedControls(
        rate_bucket=_rate_bucket(config, delivery),
        quality=_quality(config, delivery),
        background=background if has_speaker and config.has_background_marker else None,
        accurate=has_speaker and config.has_accurate_marker and delivery.accurate_mode,
    )


def without_end(controls: ResolvedControls) -> ResolvedControls:
    """The same without a silence asked for at the end: for a segment that is not the last."""
    quality = {name: None if name == _END else bucket for name, bucket in controls.quality.items()}
    return replace(controls, quality=quality)


def _rate_bucket(config: Zonos2Config, delivery: Delivery) -> int | None:
    asked = {
        field: value
        for field in ("speaking_rate_bucket", "speaking_rate", "speed")
        if (value := getattr(delivery, field)) is not None
    }
    if not asked:
        return None
    field, value = next(iter(asked.items()))
    if config.num_rate_buckets == 0:
        raise _undeclared(field, "a speaking rate")
    if len(asked) > 1:
        raise InvalidRequest(
            f"{' and '.join(asked)} both set the speaking rate; send one of them only.",
            field=list(asked)[1],
            code="conflicting_fields",
        )
    if field == "speaking_rate_bucket":
        return _bucket(field, value, config.rate_buckets, config.num_rate_buckets)
    meaning = "UTF-8 bytes per second" if field == "speaking_rate" else "a multiple of the usual"
    remedy = f"give a number above 0, {meaning}"
    rate = as_real(field, value, remedy)
    if rate <= 0:
        raise InvalidRequest(f"{field}: {shown(value)} is not allowed; {remedy}.", field=field)
    if field == "speed":
        rate *= neutral_rate(config.rate_buckets)
    return bucket_of_rate(rate, config.rate_buckets, config.num_rate_buckets)


def _quality(config: Zonos2Config, delivery: Delivery) -> Mapping[str, int | None]:
    buckets = _features(config, "quality_buckets", delivery.quality_buckets)
    values = _features(config, "quality_values", delivery.quality_values)
    chosen: dict[str, int | None] = {}
    for name, labels in config.quality_buckets.items():
        bucket, value = buckets.get(name), values.get(name)
        if bucket is not None and value is not None:
            raise InvalidRequest(
                f"quality_buckets and quality_values both set {name!r}; send one of them only.",
                field="quality_values",
                code="conflicting_fields",
            )
        if value is not None:
            chosen[name] = _bucket_of_measured(name, value, labels)
        elif bucket is not None:
            chosen[name] = _bucket(f"quality_buckets.{name}", bucket, labels, len(labels))
        else:
            chosen[name] = None if name in buckets else config.default_quality.get(name)
    return chosen


def _features(config: Zonos2Config, field: str, given: object) -> Mapping[str, object]:
    if given is None:
        return {}
    known = ", ".join(config.quality_buckets) or "none"
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            f"{field}: {shown(given)} is not allowed; give a number per feature, of: {known}.",
            field=field,
        )
    for name in given:
        if name not in config.quality_buckets:
            raise InvalidRequest(
                f"{field}: this model has no quality feature {shown(name)}; it has: {known}.",
                field=field,
            )
    return given


def _bucket(field: str, value: object, labels: tuple[str, ...], count: int) -> int:
    meaning = f"of the buckets {', '.join(labels)}" if labels else "of as many even buckets"
    return int(Range(0, count - 1, True, meaning).check(field, value))


def _bucket_of_measured(name: str, value: object, labels: tuple[str, ...]) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # a measurement that failed conditions nothing (spec 3.3)
    unit = _unit(name)
    remedy = f"give a number{' of ' + unit if unit else ''}"
    return bucket_of_value(as_real(f"quality_values.{name}", value, remedy), labels)


def _undeclared(field: str, what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field}: this model has no control for {what}; leave the field out.",
        field=field,
        code="unsupported_parameter",
    )


def _unit(name: str) -> str:
    ending = next((unit for end, unit in _UNITS_BY_ENDING.items() if name.endswith(end)), "")
    return _UNITS.get(name, ending)
