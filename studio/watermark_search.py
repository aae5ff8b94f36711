"""Is Perth's mark in a sound? The network of its detector, run by torch on its own weights.

- The package brings the weights and is not imported: it would pull in torchaudio, librosa and
  pkg_resources (its answers are the same within 1e-4, as the tests say).
- The network was taught on speech and answers at random about chords, so what does not move as
  speech does is not put to it.
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

from studio.watermark import RATE_HZ, WINDOW

if TYPE_CHECKING:
    from torch import Tensor

MIN_S = 2.0  # of sound, for an answer as sure as bench/README.md measures
# Below, the network sees too little to run at all.
_LEAST_S = 0.25
STRETCH_S = 10.0
# Unmarked speech reached 0.45, marked speech has 0.99 until it is damaged (bench/README.md).
FOUND = 0.6
FOUND_AT_OTHER_SPEED = 0.9
OTHER_SPEEDS = (0.95, 0.97, 1.03, 1.05)
_HOP = 320
_BANDS = 128
_FLOOR, _HEADROOM_DB = 1e-9, 15.0
# A moment that is not digital silence: this share of the loudest one's level in all bands.
_HEARD_SHARE = 0.05
# Speech below 2 kHz, in dB: on the whole, bands stand apart from their neighbours by up to
# 7.5, those of chords by 9 and more; from frame to frame they change by 5 to 8 (9 where it is
# clipped), those of notes that begin and end by 10 and more.
_QUIETEST_POWER = 1e-4  # of the loudest frame's, of those that count
_MOST_APART_DB, _MOST_CHANGE_DB = 8.3, 9.5
_NEIGHBOURS = 25
_WEIGHTS = "perth_net/pretrained/implicit/perth_net_250000.pth.tar"


@dataclass(frozen=True)
class Search:
    """``confidence`` 0 to 1 of the clearest stretch; ``speed`` is that of the sound, 1 as made.

    Of ``num_stretches`` only those count that are like speech.
    """

    is_found: bool
    confidence: float
    num_stretches: int
    num_marked: int
    speed: float = 1.0


def search(samples: np.ndarray) -> Search:
    """Look for the mark in float32 mono samples at RATE_HZ, in stretches of about STRETCH_S."""
    num_stretches = max(1, round(len(samples) / (STRETCH_S * RATE_HZ)))
    stretches = [part for part in np.array_split(samples, num_stretches) if is_speech(part)]
    if not stretches:
        return Search(False, 0.0, 0, 0)
    found = [confidence(stretch) for stretch in stretches]
    num_marked = sum(value >= FOUND for value in found)
    if num_marked:
        return Search(True, max(found), len(stretches), num_marked)
    loudest = max(stretches, key=lambda stretch: float(stretch @ stretch))
    for speed in OTHER_SPEEDS:
        slowed = soxr.resample(loudest, RATE_HZ, RATE_HZ * speed, quality="HQ")
        if (value := confidence(slowed)) >= FOUND_AT_OTHER_SPEED:
            return Search(True, value, len(stretches), 1, speed)
    return Search(False, max(found), len(stretches), 0)


def is_speech(samples: np.ndarray) -> bool:
    """Whether float32 mono samples at RATE_HZ move as speech does, and are enough of it."""
    if len(samples) < _LEAST_S * RATE_HZ or not samples.any():
        return False
    bands_db = _levels_db(samples).numpy()[:_BANDS]
    power = (10 ** (bands_db / 10)).sum(0)
    loud = power > _QUIETEST_POWER * power.max()
    bands_db = bands_db[:, loud]
    average_db = bands_db.mean(1)
    margin = _NEIGHBOURS // 2
    around_db = np.convolve(
        np.pad(average_db, margin, mode="edge"), np.full(_NEIGHBOURS, 1 / _NEIGHBOURS), "valid"
    )
    return bool(
        (average_db - around_db).std() <= _MOST_APART_DB
        and np.diff(bands_db, axis=1).std() <= _MOST_CHANGE_DB
    )


def confidence(samples: np.ndarray) -> float:
    """What Perth's network says of speech, float32 mono at RATE_HZ: 0 unmarked, 1 marked."""
    import torch

    with torch.inference_mode():
        return float(_answer(_levels_db(samples)))


def _levels_db(samples: np.ndarray) -> Tensor:
    """Samples -> levels [bands, frames] of all bands."""
    import torch

    spectrum = torch.stft(
        torch.from_numpy(np.ascontiguousarray(samples)),
        WINDOW,
        _HOP,
        window=torch.hann_window(WINDOW),
        return_complex=True,
    )
    return 20 * torch.log10(spectrum.abs().clamp(min=_FLOOR))


def _answer(levels_db: Tensor) -> Tensor:
    """Three branches hear the sound at three speeds; each says how much it is to be believed."""
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
