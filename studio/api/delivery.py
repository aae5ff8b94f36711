"""How the words are to be spoken: the fields of pace, quality and manner in the engine's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine import Control, Delivery
from studio.api.pace import Pace
from studio.api.schemas import SpeechBody, refused

# What a recording made there would measure; each model takes the features it knows.
_PRESETS: Mapping[str, Mapping[str, float]] = {
    "studio": {
        "lufs": -20.0,
        "estimated_snr": 60.0,
        "estimated_bandlimit_hz": 22_000.0,
        "bandwidth_hz": 22_000.0,
    },
    "phone": {"estimated_snr": 25.0, "estimated_bandlimit_hz": 3_400.0, "bandwidth_hz": 3_400.0},
}


def delivery_of(
    body: SpeechBody, pace: Pace, controls: Sequence[Control]
) -> tuple[Delivery, list[str]]:
    """What ``body`` asks for, and the fields that have no effect on this model.

    The engine checks what its checkpoint declares; raises ``InvalidRequest`` for a list that is
    longer than its features.
    """
    features = [control.name for control in controls if control.kind == "quality"]
    buckets = _by_feature("quality_buckets", body.quality_buckets, features)
    values = _by_feature("quality_values", body.quality_values, features)
    ignored = []
    if not body.quality_enabled or body.quality == "raw":
        buckets, values = dict.fromkeys(features), None
    elif body.quality is not None:
        meant = _PRESETS[body.quality]
        known = {name: meant[name] for name in features if name in meant}
        if not known:
            ignored.append("quality")
        if isinstance(values, Mapping | None):  # else the engine says what it should be
            own = {*(buckets if isinstance(buckets, Mapping) else ()), *(values or ())}
            left = {name: value for name, value in known.items() if name not in own}
            values = left | dict(values or {})
    delivery = Delivery(
        speaking_rate_bucket=pace.speaking_rate_bucket,  # type: ignore[arg-type]  # checked there
        speaking_rate=pace.speaking_rate,
        speed=pace.speed,
        quality_buckets=buckets,
        quality_values=values,
        accurate_mode=body.accurate_mode,
        clean_speaker_background=body.clean_speaker_background,
    )
    return delivery, ignored


def _by_feature(field: str, given: Any, features: Sequence[str]) -> Any:
    """A list becomes a map from feature to value; anything else is left to the engine's check."""
    if not isinstance(given, list):
        return given
    if len(given) > len(features):
        known = ", ".join(features) or "none"
        raise refused(field, given, f"this model has {len(features)} quality features: {known}")
    return dict(zip(features, given, strict=False))
