"""Is Perth's mark in a sound? Two witnesses have to agree: Perth's network, and the mark itself.

- The network was taught on speech and takes many a steady chord for marked. So the mark's known
  gains must also be seen in the average spectrum, which chance and music seldom bring about.
- Perth's package brings the weights and is not imported: it would pull in torchaudio, librosa and
  pkg_resources (its answers are the same within 1e-4, as the tests say).
- A mark that was played faster or slower lies at other frequencies: those are tried too, and
  must be clearer to count, since more tries find more by chance.

Blocking; torch is imported by the first call. Source: resemble-perth 1.0.1.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soxr

from studio.watermark import RATE_HZ, WINDOW, impulse_response

if TYPE_CHECKING:
    from torch import Tensor

MIN_S = 2.0  # of sound, for an answer as sure as bench/README.md measures
# Below, the network sees too little to run at all.
_LEAST_S = 0.25
STRETCH_S = 10.0
# Unmarked sound stays below 0.3, marked sound above 0.9 until it is damaged (bench/README.md).
FOUND = 0.5
FOUND_AT_OTHER_SPEED = 0.9
OTHER_SPEEDS = (0.95, 0.97, 1.03, 1.05)
_HOP = 320
_BANDS = 128
_FLOOR, _HEADROOM_DB = 1e-9, 15.0
# A moment that is not digital silence: this share of the loudest one's level in all bands.
_HEARD_SHARE = 0.05
# The second witness: each band against the mean of so many around it, as far as it tells gains of
# 2 dB and not the voice; frames that are loud enough; the correlation at which it begins to agree
# and does so wholly. Marked speech has 0.23 and more, half of all else less than 0.05.
_AROUND = 25
_MAX_DB = 6.0
_QUIETEST_POWER = 1e-4  # of the loudest frame's
_AGREES_FROM, _AGREES_AT = 0.12, 0.22
_STEADY_DB = 6.0  # bands of the average stand so far apart in tones that do not move; voices do
_EDGE = 2  # bands at both ends that have too few neighbours
_WEIGHTS = "perth_net/pretrained/implicit/perth_net_250000.pth.tar"


@dataclass(frozen=True)
class Search:
    """``confidence`` 0 to 1 of the clearest stretch; ``speed`` is that of the sound, 1 as made."""

    is_found: bool
    confidence: float
    num_stretches: int
    num_marked: int
    speed: float = 1.0


def search(samples: np.ndarray) -> Search:
    """Look for the mark in float32 mono samples at RATE_HZ, in stretches of about STRETCH_S."""
    if len(samples) < _LEAST_S * RATE_HZ:
        return Search(False, 0.0, 0, 0)
    num_stretches = max(1, round(len(samples) / (STRETCH_S * RATE_HZ)))
    stretches = np.array_split(samples, num_stretches)
    found = [confidence(stretch) for stretch in stretches]
    num_marked = sum(value >= FOUND for value in found)
    if num_marked:
        return Search(True, max(found), num_stretches, num_marked)
    loudest = max(stretches, key=lambda stretch: float(stretch @ stretch))
    for speed in OTHER_SPEEDS:
        slowed = soxr.resample(loudest, RATE_HZ, RATE_HZ * speed, quality="HQ")
        if (value := confidence(slowed)) >= FOUND_AT_OTHER_SPEED:
            return Search(True, value, num_stretches, 1, speed)
    return Search(False, max(found), num_stretches, 0)


def confidence(samples: np.ndarray) -> float:
    """What both witnesses say of float32 mono samples at RATE_HZ: 0 unmarked, 1 marked."""
    import torch

    if not samples.any():
        return 0.0
    with torch.inference_mode():
        levels_db = band_levels_db(torch.from_numpy(np.ascontiguousarray(samples)))
        return float(network_answer(levels_db)) * _agreement(levels_db.numpy())


def band_levels_db(samples: Tensor) -> Tensor:
    """Samples -> levels [bands, frames] of all bands in dB."""
    import torch

    spectrum = torch.stft(
        samples, WINDOW, _HOP, window=torch.hann_window(WINDOW), return_complex=True
    )
    return 20 * torch.log10(spectrum.abs().clamp(min=_FLOOR))


def _agreement(levels_db: np.ndarray) -> float:
    """0 where the gains of the mark are not to be seen in the average of levels, 1 where they are.

    Source of the idea: correlation with a known pattern, as in spread-spectrum watermarks.
    """
    power = (10 ** (levels_db / 10)).sum(0)
    loud_db = levels_db[:_BANDS, power > _QUIETEST_POWER * power.max()]
    apart_db = loud_db - _around(loud_db)
    spread_db = apart_db.mean(1)[_EDGE:-_EDGE].std()
    if not 0 < spread_db <= _STEADY_DB:
        return 0.0
    apart_db = np.clip(apart_db, -_MAX_DB, _MAX_DB).mean(1)
    gains_db = _gains_db()
    gains_db = gains_db - _around(gains_db[:, None])[:, 0]
    inner = slice(_EDGE, _BANDS - _EDGE)
    seen = np.corrcoef(apart_db[inner], gains_db[inner])[0, 1]
    return float(np.clip((seen - _AGREES_FROM) / (_AGREES_AT - _AGREES_FROM), 0, 1))


def _around(levels: np.ndarray) -> np.ndarray:
    """The mean of the bands around each band [bands, ...]; the outermost ones are repeated."""
    margin = _AROUND // 2
    padded = np.pad(levels, ((margin + 1, margin), (0, 0)), mode="edge").cumsum(0, dtype=np.float64)
    mean: np.ndarray = (padded[_AROUND:] - padded[:-_AROUND]) / _AROUND
    return mean


@functools.cache
def _gains_db() -> np.ndarray:
    """What the mark does to each band [bands], seen through a window of the spectrum."""
    response = impulse_response(RATE_HZ)
    time = np.arange(len(response)) - len(response) // 2
    turns = np.outer(np.arange(_BANDS), time) / WINDOW
    gains_db: np.ndarray = 20 * np.log10(1 + np.cos(2 * np.pi * turns) @ response)
    return gains_db


def network_answer(levels_db: Tensor) -> Tensor:
    """What Perth's network says of levels [bands, frames] in dB: 0 unmarked, 1 marked.

    Three branches hear the sound at three speeds; each says how much it is to be believed.
    """
    import torch
    from torch.nn import functional

    floor_db = 20 * np.log10(_FLOOR)
    levels = (levels_db - floor_db) / (_HEADROOM_DB - floor_db)
    total = levels.sum(0)
    is_heard = (total > _HEARD_SHARE * total.max()).float()[None, None]
    bands = levels[None, :_BANDS]
    beliefs, answers = [], []
    for name, stretch in (("slow", 1.25), ("normal", 1.0), ("fast", 0.75)):
        num_frames = int(bands.shape[2] * stretch)
        seen = bands
        if stretch != 1.0:
            seen = functional.interpolate(bands, num_frames, mode="linear", align_corners=True)
        counted = functional.interpolate(is_heard, num_frames, mode="nearest")
        belief, answer = (_branch(name, seen) * counted).sum(2)[0] / counted.sum()
        beliefs.append(belief)
        answers.append(answer)
    shares = torch.stack(beliefs).softmax(0)
    return (shares * torch.stack(answers)).sum().clamp(0, 1)


def _branch(name: str, seen: Tensor) -> Tensor:
    """Bands [1, bands, frames] -> belief and answer [1, 2, frames], through seven convolutions."""
    from torch.nn import functional

    layers = _layers(name)
    for number, (weight, bias) in enumerate(layers, start=1):
        seen = functional.conv1d(seen, weight, bias, padding=weight.shape[2] // 2)
        if number < len(layers):
            seen = functional.leaky_relu(seen)
    return seen


@functools.cache
def _layers(branch: str) -> list[tuple[Tensor, Tensor]]:
    """Weight and bias of each convolution of a branch."""
    weights = _weights()
    names = [f"decoder.{branch}_layers.{number}.conv" for number in range(7)]
    return [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in names]


@functools.cache
def _weights() -> dict[str, Tensor]:
    import torch

    spec = find_spec("perth")
    if spec is None or spec.origin is None:
        raise RuntimeError("the watermark's detector is missing: pip install resemble-perth")
    path = Path(spec.origin).parent / _WEIGHTS
    state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)["model"]
    return state
