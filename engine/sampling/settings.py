"""Sampling settings of one request: their ranges, and the values in force after the defaults.

- ``SAMPLING_RANGES`` is the one table of limits: API schema, page sliders and ``resolve`` read it.
- ``ResolvedSampling`` has no ``None`` left and spells "off" in one way per setting.
- Source: spec/zonos2.md section 5, spec/api.md F1, spec/SETTLED.md.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from engine.errors import InvalidRequest
from engine.request import Sampling

# What top_k below 1 means (SETTLED.md): all but the two least likely of the release's 1026 ids.
OPEN_TOP_K = 1024


@dataclass(frozen=True)
class Range:
    """Closed limits of one numeric setting, and what the number means, in a few words."""

    minimum: float
    maximum: float
    is_integer: bool
    meaning: str

    def check(self, field: str, value: object) -> float:
        """Return ``value`` as int or float within the limits, else raise ``InvalidRequest``."""
        kind = "a whole number" if self.is_integer else "a number"
        remedy = f"give {kind} from {self.minimum:.12g} to {self.maximum:.12g} ({self.meaning})"
        real = as_real(field, value, remedy)
        if not self.minimum <= real <= self.maximum or (self.is_integer and real != int(real)):
            raise InvalidRequest(f"{field}: {shown(value)} is not allowed; {remedy}.", field=field)
        return int(real) if self.is_integer else real


def as_real(field: str, value: object, remedy: str) -> float:
    """Return ``value`` as a finite float; truth values, text, NaN: ``InvalidRequest``."""
    real = math.nan
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            real = float(value)
        except OverflowError:  # an int beyond every float
            real = math.inf
    if not math.isfinite(real):
        raise InvalidRequest(f"{field}: {shown(value)} is not allowed; {remedy}.", field=field)
    return real


def shown(value: object) -> str:
    """Return ``value`` for an error sentence: short, whatever was sent."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print ints of more than 4300 digits
        return "a number of thousands of digits"


SAMPLING_RANGES: Mapping[str, Range] = {
    "temperature": Range(0.0, 2.0, False, "0 always takes the likeliest code"),
    "top_k": Range(-1, 1026, True, f"likeliest codes kept; below 1 keeps {OPEN_TOP_K}"),
    "top_p": Range(0.0, 1.0, False, "probability mass kept; 0 and 1 turn it off"),
    "min_p": Range(0.0, 1.0, False, "least share of the likeliest code's probability; 0 is off"),
    "repetition_penalty": Range(1.0, 3.0, False, "1 is off"),
    "repetition_window": Range(0, 1024, True, "latest frames looked at; 0 is off"),
    "repetition_codebooks": Range(-1, 9, True, "first codebooks penalised; -1 means all"),
}
MAX_WINDOW = int(SAMPLING_RANGES["repetition_window"].maximum)


@dataclass(frozen=True)
class ResolvedSampling:
    """The settings in force for one request. ``top_p`` 0 is off, ``top_k`` is at least 1."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    repetition_window: int
    repetition_codebooks: int


def resolve(sampling: Sampling, defaults: Mapping[str, float]) -> ResolvedSampling:
    """Fill in the checkpoint's ``defaults`` and check every value against ``SAMPLING_RANGES``.

    Raises ``InvalidRequest`` naming field, value, limits and remedy. Source: spec/SETTLED.md.
    """
    values = {}
    for field, limits in SAMPLING_RANGES.items():
        asked = getattr(sampling, field)
        values[field] = limits.check(field, defaults[field] if asked is None else asked)
    return ResolvedSampling(
        temperature=values["temperature"],
        top_k=int(values["top_k"]) if values["top_k"] >= 1 else OPEN_TOP_K,
        top_p=values["top_p"] if values["top_p"] < 1 else 0.0,
        min_p=values["min_p"],
        repetition_penalty=values["repetition_penalty"],
        repetition_window=int(values["repetition_window"]),
        repetition_codebooks=int(values["repetition_codebooks"]),
    )
