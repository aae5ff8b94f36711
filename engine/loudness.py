"""Integrated loudness after ITU-R BS.1770-4 of mono sound that comes in pieces.

- Blocks of 400 ms every 100 ms, K-weighted by their spectrum, with both gates of the standard.
- Kept are the powers of the blocks, not the sound.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

BLOCK_S, STEP_S = 0.4, 0.1
ABSOLUTE_GATE_LUFS, RELATIVE_GATE_LU = -70.0, -10.0
_OFFSET_LU = -0.691


class LoudnessMeter:
    """Feed it samples in order; ask when enough were fed."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._step = round(STEP_S * sample_rate_hz)
        self._block = round(BLOCK_S * sample_rate_hz)
        self._weights = _k_weights(sample_rate_hz, self._block)
        self._rest = np.zeros(0, np.float32)
        self._powers: list[float] = []

    def feed(self, samples: np.ndarray) -> None:
        """Take the next float32 samples."""
        self._rest = np.concatenate([self._rest, samples])
        while len(self._rest) >= self._block:
            self._powers.append(self._power(self._rest[: self._block]))
            self._rest = self._rest[self._step :]

    def lufs(self) -> float:
        """Integrated loudness so far; minus infinity where all is below the absolute gate."""
        powers = np.array(self._powers or [self._power(self._rest)])
        powers = powers[_lufs(powers) > ABSOLUTE_GATE_LUFS]
        if not len(powers):
            return -math.inf
        gate = _lufs(powers.mean()) + RELATIVE_GATE_LU
        return float(_lufs(powers[_lufs(powers) > gate].mean()))

    def _power(self, block: np.ndarray) -> float:
        """Mean square of the weighted block; a shorter one counts as if followed by silence."""
        spectrum = np.fft.rfft(block, self._block)
        return float((np.square(np.abs(spectrum)) * self._weights).sum() / self._block**2)


class SpeechLoudness:
    """The loudness of speech between its first and its last sounding frame."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._meter = LoudnessMeter(sample_rate_hz)
        self._num_taken = 0
        self._waiting = np.zeros(0, np.float32)  # what has been silent since the last sound

    def take(self, frames: np.ndarray, first_sound: int | None, end_of_sound: int) -> None:
        """Take the next ``frames`` [n, hop]; the two say which of all so far sound."""
        if first_sound is None:
            self._num_taken += len(frames)
            return
        own = frames[max(0, first_sound - self._num_taken) :].reshape(-1)
        self._num_taken += len(frames)
        num_silent = max(0, self._num_taken - end_of_sound) * frames.shape[1]
        waiting = np.concatenate([self._waiting, own])
        num_sounding = max(0, len(waiting) - num_silent)
        self._meter.feed(waiting[:num_sounding])
        self._waiting = waiting[num_sounding:]

    def lufs(self) -> float:
        """Integrated loudness so far."""
        return self._meter.lufs()


def _lufs(power: np.ndarray) -> np.ndarray:
    return _OFFSET_LU + 10 * np.log10(np.maximum(power, 1e-12))


@lru_cache(maxsize=4)
def _k_weights(sample_rate_hz: int, num_samples: int) -> np.ndarray:
    """Squared gain of both K filters per bin of a one-sided spectrum, whose bins stand for two.

    The filters are the standard's two second-order sections, designed for the rate: a shelf of
    +4 dB above 1.7 kHz and a high-pass at 38 Hz.
    """
    z = np.exp(-2j * np.pi * np.arange(num_samples // 2 + 1) / num_samples)
    gain_db, q, hz = 3.999843853973347, 0.7071752369554196, 1681.974450955533
    k = math.tan(math.pi * hz / sample_rate_hz)
    high = 10 ** (gain_db / 20)
    band = high**0.4996667741545416
    shelf = _section(
        (high + band * k / q + k * k, 2 * (k * k - high), high - band * k / q + k * k), k, q, z
    )
    k, q = math.tan(math.pi * 38.13547087602444 / sample_rate_hz), 0.5003270373238773
    low_cut = _section((1.0, -2.0, 1.0), k, q, z)
    weights: np.ndarray = np.square(np.abs(shelf * low_cut))
    weights[1 : (num_samples + 1) // 2] *= 2
    return weights


def _section(
    numerator: tuple[float, float, float], k: float, q: float, z: np.ndarray
) -> np.ndarray:
    """Response of a second-order section with the pole pair of ``k`` and ``q``."""
    denominator = (1 + k / q + k * k, 2 * (k * k - 1), 1 - k / q + k * k)
    response: np.ndarray = np.polyval(numerator[::-1], z) / np.polyval(denominator[::-1], z)
    return response
