"""From a user's recording to speech that an encoder may judge.

- What cannot carry a voice is refused with one sentence: silence, too little speech, broken values.
- Speech is what is louder than a twentieth of the typical loud level (-26 dB). That level is the
  energy-weighted mean over 20 ms pieces, which neither long pauses nor a single click move much.
- What an encoder is given of it is what it was trained on: ``speech_at_level`` or ``as_recorded``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from engine.compat import ensure_torchaudio
from engine.errors import InvalidReference

MIN_SPEECH_S = 1.0
MAX_SPEECH_S = 30.0
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
PIECE_S = 0.02
LOUD_RATIO = 0.05
MARGIN_S = 0.06  # kept before the first and after the last loud piece; the training data had it
SILENCE_RMS = 10 ** (-70 / 20)  # of full scale
# A resampling filter has this many taps for each phase; odd pairs of rates would need gigabytes.
MAX_RATIO_TERM = 4_000


@dataclass(frozen=True)
class Speech:
    """Where in a recording somebody speaks: its samples ``begin`` to ``end``.

    ``offset`` is the recording's mean, ``loud_rms`` the level of its loud parts without it.
    """

    begin: int
    end: int
    offset: float
    loud_rms: float


def speech_at_level(samples: np.ndarray, sample_rate_hz: int, rms: float) -> np.ndarray:
    """The speech of a recording: ends trimmed, at most 30 s, its loud parts brought to ``rms``.

    Mono float samples [n] to float32 [m] at the same rate. Raises ``InvalidReference``.
    """
    speech = find_speech(samples, sample_rate_hz)
    end = min(speech.end, speech.begin + round(MAX_SPEECH_S * sample_rate_hz))
    centred = samples[speech.begin : end].astype(np.float64) - speech.offset
    return (centred * (rms / speech.loud_rms)).astype(np.float32)


def as_recorded(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """The recording unchanged; of one longer than 30 s, the 30 s from the first speech on.

    Mono float samples [n] to float32 [m] at the same rate. Raises ``InvalidReference``.
    """
    speech = find_speech(samples, sample_rate_hz)
    num_used = round(MAX_SPEECH_S * sample_rate_hz)
    begin = min(speech.begin, max(0, len(samples) - num_used))
    return samples[begin : begin + num_used].astype(np.float32)


def find_speech(samples: np.ndarray, sample_rate_hz: int) -> Speech:
    """Where the recording [n] carries a voice; raises ``InvalidReference`` when it does not."""
    if samples.ndim != 1:
        raise InvalidReference(
            f"reference: the samples have {samples.ndim} dimensions; mix them to mono [n].",
            field="reference",
        )
    if not MIN_RATE_HZ <= sample_rate_hz <= MAX_RATE_HZ:
        raise InvalidReference(
            f"reference: {sample_rate_hz} Hz is no sample rate from {MIN_RATE_HZ} to {MAX_RATE_HZ};"
            " resample the recording to 24000 Hz.",
            field="reference",
        )
    if not np.isfinite(samples).all():
        raise InvalidReference(
            "reference: the recording holds values that are no finite numbers; export it again,"
            " for example as 16-bit WAV.",
            field="reference",
        )
    piece = max(1, round(PIECE_S * sample_rate_hz))
    num_pieces = len(samples) // piece
    if num_pieces * PIECE_S < MIN_SPEECH_S:
        raise _too_short(len(samples) / sample_rate_hz, "long")
    offset = float(samples.mean(dtype=np.float64))
    centred = samples.astype(np.float64) - offset
    power = np.square(centred[: num_pieces * piece]).reshape(num_pieces, piece).mean(axis=1)
    level = np.sqrt(power)  # RMS of each piece
    if level.max() < SILENCE_RMS:
        raise InvalidReference(
            "reference: the recording is silent; record or choose one with speech.",
            field="reference",
        )
    is_loud = level > LOUD_RATIO * (power * level).sum() / power.sum()
    loud = np.flatnonzero(is_loud)
    margin = round(MARGIN_S / PIECE_S)
    first = max(0, int(loud[0]) - margin)
    last = min(num_pieces, int(loud[-1]) + 1 + margin)
    if (speech_s := (last - first) * PIECE_S) < MIN_SPEECH_S:
        raise _too_short(speech_s, "left after trimming the silence")
    loud_rms = math.sqrt(power[is_loud].mean())
    return Speech(first * piece, last * piece, offset, loud_rms)


def resampled(samples: np.ndarray, from_hz: int, to_hz: int) -> torch.Tensor:
    """Samples [n] at another rate, float32; raises ``InvalidReference`` for odd pairs of rates."""
    if max(from_hz, to_hz) // math.gcd(from_hz, to_hz) > MAX_RATIO_TERM:
        raise InvalidReference(
            f"reference: {from_hz} Hz is no usual sample rate; resample the recording to"
            f" {to_hz} Hz.",
            field="reference",
        )
    ensure_torchaudio()
    from torchaudio.transforms import Resample

    # The class computes its filter in float64, torchaudio.functional.resample in float32.
    higher_precision: torch.Tensor = Resample(from_hz, to_hz)(torch.from_numpy(samples))
    return higher_precision


def _too_short(duration_s: float, what: str) -> InvalidReference:
    return InvalidReference(
        f"reference: only {duration_s:.2f} s are {what}, but at least {MIN_SPEECH_S:.1f} s of"
        " speech are needed; choose a longer recording.",
        field="reference",
    )
