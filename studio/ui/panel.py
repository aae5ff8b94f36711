"""Settings that stand in a table become fields, and their values become engine terms again.

- Sampling comes from ``SAMPLING_RANGES`` with the checkpoint's defaults in force.
- Delivery comes from the controls that the checkpoint declares: what it lacks is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from engine import (
    EMOTION_RANGES,
    GUIDANCE_RANGES,
    SAMPLING_RANGES,
    SLIDER_RANGE,
    Control,
    Delivery,
    Emotion,
    Engine,
    Guidance,
    Range,
    Sampling,
)
from studio.ui import strings

# The choice that leaves a control out of the prompt. None would read as "nothing chosen".
UNSET = -1
FLOAT_STEP = 0.01


@dataclass(frozen=True)
class Setting:
    """One field of the panel and the value it returns to."""

    name: str
    kind: str  # sampling, emotion, guidance, or a Control's kind
    default: float
    field: Component


def sampling_settings(engine: Engine) -> list[Setting]:
    """Render a slider for every sampling setting."""
    defaults = engine.family.sampling_defaults
    return [
        _slider(name, "sampling", defaults[name], limits)
        for name, limits in SAMPLING_RANGES.items()
    ]


def delivery_settings(engine: Engine) -> list[Setting]:
    """Render a field for every control that the checkpoint declares."""
    return [_delivery_setting(control) for control in engine.family.controls]


def _delivery_setting(control: Control) -> Setting:
    label = strings.control_name(control)
    if control.kind == "flag":
        is_on = bool(control.default)
        return Setting(control.name, control.kind, is_on, gr.Checkbox(is_on, label=label))
    default = UNSET if control.default is None else int(control.default)
    choices = [(strings.UNSET, UNSET)]
    for index, bucket in enumerate(control.buckets):
        choices.append((strings.bucket_name(bucket, control.unit), index))
    field = gr.Dropdown(
        choices,
        value=default,
        label=label,
        info=strings.SPEAKING_RATE_INFO if control.kind == "rate" else None,
        filterable=False,
    )
    return Setting(control.name, control.kind, default, field)


def emotion_settings(engine: Engine) -> list[Setting]:
    """Render sliders for the emotions and axes of the loaded directions; none without them."""
    emotions = engine.family.emotions
    if emotions is None:
        return []
    limits = {f"slider:{name}": SLIDER_RANGE for name in emotions.names}
    limits |= {axis: EMOTION_RANGES[f"emotion_{axis}"] for axis in emotions.axes}
    return [_slider(name, "emotion", 0.0, range_) for name, range_ in limits.items()]


def guidance_settings(engine: Engine) -> list[Setting]:
    """Render a slider for each kind of guidance that this model can follow."""
    names = ["cfg_scale"] if engine.family.speaker_dim is not None else []
    names += ["emotion_cfg_scale"] if engine.family.emotions is not None else []
    return [_slider(name, "guidance", 1.0, GUIDANCE_RANGES[name]) for name in names]


def _slider(name: str, kind: str, default: float, limits: Range) -> Setting:
    field = gr.Slider(
        limits.minimum,
        limits.maximum,
        value=default,
        step=1 if limits.is_integer else FLOAT_STEP,
        label=strings.plain_name(name.removeprefix("slider:")),
        info=limits.meaning[:1].upper() + limits.meaning[1:],
        buttons=[],
    )
    return Setting(name, kind, default, field)


@dataclass(frozen=True)
class Choice:
    """What the panel asks for, in the engine's terms."""

    sampling: Sampling
    delivery: Delivery
    emotion: Emotion | None
    guidance: Guidance


def read(settings: Sequence[Setting], values: Sequence[float]) -> Choice:
    """The values of ``settings``, in their order, as engine terms."""
    kinds = ("sampling", "quality", "rate", "flag", "emotion", "guidance")
    by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for setting, value in zip(settings, values, strict=True):
        by_kind[setting.kind][setting.name] = value
    rate = next((int(value) for value in by_kind["rate"].values() if value != UNSET), None)
    quality = {
        name: None if value == UNSET else int(value) for name, value in by_kind["quality"].items()
    }
    sliders = {name: weight for name, weight in by_kind["emotion"].items() if weight}
    emotion = Emotion(
        sliders={
            name.removeprefix("slider:"): weight
            for name, weight in sliders.items()
            if name.startswith("slider:")
        },
        valence=sliders.get("valence", 0.0),
        arousal=sliders.get("arousal", 0.0),
    )
    return Choice(
        Sampling(**by_kind["sampling"]),
        Delivery(speaking_rate_bucket=rate, quality_buckets=quality or None, **by_kind["flag"]),
        emotion if sliders else None,
        Guidance(
            speaker=by_kind["guidance"].get("cfg_scale", 1.0),
            emotion=by_kind["guidance"].get("emotion_cfg_scale", 1.0),
        ),
    )
