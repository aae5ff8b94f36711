"""The inaudible mark in the sound: Perth's, applied as the fixed filter that it is.

Measured (bench/README.md): what Perth's network adds to a signal is, to one part in 500 of its
energy, always the same gain in each of 128 narrow bands below 2 kHz, whoever speaks and however
loud. So the residual (marked minus original) is a convolution. Its impulse response is worked out
on Perth's own grid of 32 kHz and written down for the rate of the sound.

- Added in blocks at absolute positions: the same samples come out however the sound was cut.
- The length stays, all above 2 kHz stays, and silence stays silent.
- Who has Perth can find it, with the package alone (``studio/watermark_search.py`` does).

Needs numpy alone. Source: resemble-perth 1.0.1, PerthImplicitWatermarker.
"""

from __future__ import annotations

import functools

import numpy as np

# Mean gain in dB of each band that Perth changes; band k lies at k * BAND_HZ.
GAINS_DB = (
    *(-2.92, -2.77, 2.40, 2.28, -2.14, -2.17, -2.07, 2.05, 1.98, 1.87, 1.94, 1.91, 1.84, -1.78),
    *(-1.86, -1.70, 1.84, -1.62, -1.76, -1.83, -1.75, -1.84, -1.84, -1.82, -1.68, 1.68, 1.86, 1.79),
    *(1.78, 1.80, 1.68, -1.72, -1.75, -1.80, -1.50, 1.71, -1.58, -1.72, -1.66, 1.73, 1.85, 1.74),
    *(-1.78, -1.80, -1.68, 1.71, 1.74, -1.55, -1.59, 1.40, -1.59, -1.35, 1.77, 1.79, -1.56, -1.70),
    *(-1.71, -1.67, -1.71, -1.79, -1.66, 1.86, 1.88, 1.78, -1.54, -1.73, -1.84, -1.89, -1.61, 1.79),
    *(1.78, 1.58, 1.80, 1.69, 1.89, 1.66, -1.66, -1.83, -1.82, -1.69, -1.61, 1.66, 1.81, 1.90),
    *(1.70, -1.64, -1.91, -1.83, -1.58, 1.76, 1.82, -1.61, -1.70, -1.65, 1.71, -1.66, -1.74, -1.57),
    *(1.90, 1.80, -1.42, -1.82, -1.82, -1.85, -1.64, 1.47, -1.64, 1.60, 1.69, 1.75, 1.76, 1.71),
    *(1.73, 1.71, 1.76, 1.56, -1.62, -1.80, -1.80, -1.70, -1.73, -1.72, -1.74, -1.65, -1.81, -1.65),
    *(1.73, 1.94),
)
RATE_HZ = 32_000  # Perth's grid
WINDOW = 2_048  # samples of it that one spectrum sees, under a Hann window
BAND_HZ = RATE_HZ / WINDOW
# How far the filter looks to both sides; beyond, its response is 35 dB and more below its peak.
REACH_S = 0.034
BLOCK = 512  # samples; a hop of the codec, so that its chunks need not wait for a block's end


class Watermark:
    """Marks one sound: ``feed`` its pieces, then ``finish``; together they are as long as it was.

    What comes out lags behind what went in by up to REACH_S and a block.
    """

    def __init__(self, sample_rate_hz: int) -> None:
        self._reach = _reach(sample_rate_hz)
        self._response = _response(sample_rate_hz)
        # From ``reach`` before the next block on; before the beginning there is silence.
        self._samples = np.zeros(self._reach, np.float32)

    def feed(self, samples: np.ndarray) -> np.ndarray:
        """Take float32 mono samples; return those that are marked, none at first."""
        self._samples = np.concatenate([self._samples, samples])
        reach = self._reach
        num_blocks = max(0, (len(self._samples) - 2 * reach) // BLOCK)
        marked = self._samples[reach : reach + num_blocks * BLOCK].copy()
        for begin in range(0, len(marked), BLOCK):
            heard = self._samples[begin : begin + BLOCK + 2 * reach]
            marked[begin : begin + BLOCK] += self._residual(heard)
        self._samples = self._samples[len(marked) :]
        return marked

    def finish(self) -> np.ndarray:
        """Return the rest."""
        num_left = len(self._samples) - self._reach
        return self.feed(np.zeros(self._reach + BLOCK - 1, np.float32))[:num_left]

    def _residual(self, heard: np.ndarray) -> np.ndarray:
        """What is added to the block in the middle of ``heard``: overlap-save convolution."""
        size = 2 * (len(self._response) - 1)
        whole = np.fft.irfft(np.fft.rfft(heard, size) * self._response, size)
        return whole[2 * self._reach : len(heard)].astype(np.float32)


def impulse_response(sample_rate_hz: int) -> np.ndarray:
    """The residual filter [2 * reach + 1], symmetric, for sound at ``sample_rate_hz``.

    A gain per band, seen and put back through one Hann window each: cosines under the Hann
    window's autocorrelation.
    """
    reach = _reach(sample_rate_hz)
    time_s = np.arange(-reach, reach + 1) / sample_rate_hz
    window = np.hanning(WINDOW + 1)[:-1]
    overlap = np.correlate(window, window, "full") / (window @ window)
    lag_s = np.arange(1 - WINDOW, WINDOW) / RATE_HZ
    weights = 2 * (10 ** (np.asarray(GAINS_DB) / 20) - 1)
    weights[0] /= 2  # 0 Hz has no mirror image
    band_hz = np.arange(len(GAINS_DB)) * BAND_HZ
    cosines = weights @ np.cos(2 * np.pi * np.outer(band_hz, time_s))
    response: np.ndarray = cosines * np.interp(time_s, lag_s, overlap) * BAND_HZ / sample_rate_hz
    return response


def _reach(sample_rate_hz: int) -> int:
    return round(REACH_S * sample_rate_hz)


@functools.lru_cache(maxsize=8)
def _response(sample_rate_hz: int) -> np.ndarray:
    """Spectrum of the filter, complex64, for blocks and what they reach to on both sides."""
    size = 1 << (2 * _reach(sample_rate_hz) + BLOCK - 1).bit_length()
    return np.fft.rfft(impulse_response(sample_rate_hz), size).astype(np.complex64)
