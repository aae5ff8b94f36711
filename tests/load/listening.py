"""What is measured at the seams of a sound."""

from __future__ import annotations

import numpy as np


def flux(samples: np.ndarray, rate_hz: int) -> tuple[np.ndarray, int]:
    """Spectral flux (sum of the rises of the magnitudes) every 10 ms, and that hop in samples."""
    hop, size = rate_hz // 100, rate_hz // 50
    window = np.hanning(size).astype(np.float32)
    starts = np.arange(0, len(samples) - size, hop)
    values, before = [], None
    for first in range(0, len(starts), 2000):
        frames = np.stack([samples[s : s + size] for s in starts[first : first + 2000]]) * window
        spectra = np.abs(np.fft.rfft(frames, axis=1))
        whole = spectra if before is None else np.concatenate([before, spectra])
        values.append(np.maximum(np.diff(whole, axis=0), 0).sum(axis=1))
        before = spectra[-1:]
    return np.concatenate(values), hop


def clicks_at(samples: np.ndarray, places: list[int], rate_hz: int) -> int:
    """Places where the signal steps by more than 3 times the usual of 50 ms on both sides."""
    steps = np.abs(np.diff(samples))
    reach = rate_hz // 20
    count = 0
    for place in places:
        around = steps[max(0, place - reach) : place + reach]
        usual = float(np.sqrt(np.square(around).mean()))
        count += bool(steps[place - 1] > 3 * usual and steps[place - 1] > 1e-3)
    return count
