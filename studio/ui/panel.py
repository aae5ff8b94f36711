"""Settings that stand in a table become fields on the page, and fields of a speech request.

- Sampling comes from ``SAMPLING_RANGES`` with the checkpoint's defaults in force.
- Delivery comes from the controls that the checkpoint declares: what it lacks is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Engine,
    Range,
)
from studio.api.schemas import SpeechBody
from studio.ui import naming, strings

# The choice that leaves a control out of the prompt. None would read as "nothing chosen".
UNSET = -1
FLOAT_STEP = 0.01
# The axes of the pad: from left to right, and upwards.
PAD_AXES = ("valence", "arousal")
# Before the name of an emotion, which could be that of an axis.
SLIDER = "slider:"
# Fields of other doors that the panel has no setting for.
_OFF_PAGE = frozenset(
    {
        *("speed", "speed_mode", "speaking_rate", "speaking_rate_enabled", "quality"),
        *("quality_enabled", "quality_values", "emotion_enabled", "emotion_strength"),
        *("prefix_cfg_scale", "fade_out_ms", "max_new_tokens"),
    }
)


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
    label = naming.control_name(control)
    if control.kind == "flag":
        is_on = bool(control.default)
        box = gr.Checkbox(is_on, label=label, elem_id=_id(control.name))
        return Setting(control.name, control.kind, is_on, box)
    default = UNSET if control.default is None else int(control.default)
    choices = [(strings.UNSET, UNSET)]
    for index, bucket in enumerate(control.buckets):
        choices.append((naming.bucket_name(bucket, control.unit), index))
    field = gr.Dropdown(
        choices,
        value=default,
        label=label,
        info=strings.SPEAKING_RATE_INFO if control.kind == "rate" else None,
        filterable=False,
        elem_id=_id(control.name),
    )
    return Setting(control.name, control.kind, default, field)


def emotion_settings(engine: Engine) -> list[Setting]:
    """Render sliders for the emotions and axes of the loaded directions; none without them."""
    emotions = engine.family.emotions
    if emotions is None:
        return []
    limits = {f"{SLIDER}{name}": SLIDER_RANGE for name in emotions.names}
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
        label=naming.plain_name(name.removeprefix(SLIDER)),
        info=limits.meaning[:1].upper() + limits.meaning[1:],
        buttons=[],
        elem_id=_id(name),
    )
    return Setting(name, kind, default, field)


def _id(name: str) -> str:
    """The id of a setting's field on the page; the names of emotions are a file's own."""
    return "setting-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def speech_fields(settings: Sequence[Setting], values: Sequence[float]) -> dict[str, Any]:
    """The values of ``settings``, in their order, as fields of a speech request."""
    fields: dict[str, Any] = {}
    for setting, value in zip(settings, values, strict=True):
        name = setting.name
        if setting.kind == "rate":
            if value != UNSET:
                fields["speaking_rate_bucket"] = int(value)
        elif setting.kind == "quality":
            fields.setdefault("quality_buckets", {})[name] = None if value == UNSET else int(value)
        elif setting.kind != "emotion":
            fields[name] = value
        elif value and name.startswith(SLIDER):
            fields.setdefault("emotion_sliders", {})[name.removeprefix(SLIDER)] = value
        elif value:
            fields[f"emotion_{name}"] = value
    return fields


def setting_values(settings: Sequence[Setting], fields: Mapping[str, Any]) -> list[float]:
    """What ``settings`` show for the fields of a speech request: the opposite of the above.

    What the fields leave out, or hold that this checkpoint has not, shows the default.
    """
    return [_shown(setting, fields) for setting in settings]


def unshown(fields: Mapping[str, Any]) -> list[str]:
    """The fields of a speech request that change the sound and that the page has not."""
    return sorted(
        name
        for name in _OFF_PAGE & fields.keys()
        if fields[name] != SpeechBody.model_fields[name].default
    )


def _shown(setting: Setting, fields: Mapping[str, Any]) -> float:
    name, value = setting.name, fields.get(setting.name)
    if setting.kind == "rate":
        value = fields.get("speaking_rate_bucket")
    elif setting.kind == "quality":
        buckets = fields.get("quality_buckets")
        if isinstance(buckets, Mapping) and name in buckets:
            value = UNSET if buckets[name] is None else buckets[name]
    elif setting.kind == "emotion" and name.startswith(SLIDER):
        value = (fields.get("emotion_sliders") or {}).get(name.removeprefix(SLIDER))
    elif setting.kind == "emotion":
        value = fields.get(f"emotion_{name}")
    return value if value is not None and is_offered(setting.field, value) else setting.default


def is_offered(field: Component, value: object) -> bool:
    """Whether a field can show a value, which may come from outside."""
    if isinstance(field, gr.Checkbox):
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(field, gr.Dropdown):
        return value in [choice for _, choice in field.choices or []]
    assert isinstance(field, gr.Slider)
    return bool(field.minimum <= value <= field.maximum)
