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

from engine import SAMPLING_RANGES, Control, Delivery, Engine, Sampling
from studio.ui import strings

# The choice that leaves a control out of the prompt. None would read as "nothing chosen".
UNSET = -1
FLOAT_STEP = 0.01


@dataclass(frozen=True)
class Setting:
    """One field of the panel and the value it returns to."""

    name: str
    kind: str  # sampling, or a Control's kind
    default: float
    field: Component


def sampling_settings(engine: Engine) -> list[Setting]:
    """Render a slider for every sampling setting."""
    settings = []
    for name, limits in SAMPLING_RANGES.items():
        default = engine.family.sampling_defaults[name]
        field = gr.Slider(
            limits.minimum,
            limits.maximum,
            value=default,
            step=1 if limits.is_integer else FLOAT_STEP,
            label=strings.plain_name(name),
            info=limits.meaning[:1].upper() + limits.meaning[1:],
            buttons=[],
        )
        settings.append(Setting(name, "sampling", default, field))
    return settings


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


def read(settings: Sequence[Setting], values: Sequence[float]) -> tuple[Sampling, Delivery]:
    """The values of ``settings``, in their order, as engine terms."""
    by_kind: dict[str, dict[str, Any]] = {"sampling": {}, "quality": {}, "rate": {}, "flag": {}}
    for setting, value in zip(settings, values, strict=True):
        by_kind[setting.kind][setting.name] = value
    rate = next((int(value) for value in by_kind["rate"].values() if value != UNSET), None)
    quality = {
        name: None if value == UNSET else int(value) for name, value in by_kind["quality"].items()
    }
    return (
        Sampling(**by_kind["sampling"]),
        Delivery(speaking_rate_bucket=rate, quality_buckets=quality or None, **by_kind["flag"]),
    )
