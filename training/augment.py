"""What rooms, microphones and telephones do to speech, drawn at random: [n] samples to [n]."""

from __future__ import annotations

import numpy as np
from scipy.signal import fftconvolve

MIN_SNR_DB, MAX_SNR_DB = 8.0, 40.0
MIN_RT60_S, MAX_RT60_S = 0.1, 0.7


def disturb(samples: np.ndarray, sample_rate_hz: int, rng: np.random.Generator) -> np.ndarray:
    """Room, equaliser, band limits, noise and coarse levels, each in a share of the cases."""
    clip = samples
    if rng.random() < 0.5:
        clip = in_room(clip, sample_rate_hz, rng)
    if rng.random() < 0.7:
        clip = equalised(clip, sample_rate_hz, rng)
    if rng.random() < 0.6:
        clip = clip + noise(len(clip), rng) * np.sqrt((clip**2).mean()) * 10 ** (
            -rng.uniform(MIN_SNR_DB, MAX_SNR_DB) / 20
        )
    if rng.random() < 0.1:  # mu-law telephony
        peak = np.abs(clip).max() + 1e-9
        folded = np.sign(clip) * np.log1p(255 * np.abs(clip) / peak) / np.log(256)
        folded = np.round(folded * 127) / 127
        clip = np.sign(folded) * peak * (256 ** np.abs(folded) - 1) / 255
    return clip.astype(np.float32)


def in_room(samples: np.ndarray, sample_rate_hz: int, rng: np.random.Generator) -> np.ndarray:
    """Reverberation: exponentially falling noise behind the direct sound."""
    seconds = rng.uniform(MIN_RT60_S, MAX_RT60_S)
    time_s = np.arange(int(seconds * sample_rate_hz)) / sample_rate_hz
    tail = rng.standard_normal(len(time_s)) * np.exp(-6.9 * time_s / seconds)
    tail *= rng.uniform(0.1, 0.7) / (np.sqrt((tail**2).sum()) + 1e-9)
    tail[0] = 1.0
    wet: np.ndarray = fftconvolve(samples, tail)[: len(samples)]
    return wet


def equalised(samples: np.ndarray, sample_rate_hz: int, rng: np.random.Generator) -> np.ndarray:
    """A smooth random response of +-6 dB, and sometimes band limits."""
    spectrum = np.fft.rfft(samples)
    hertz = np.linspace(0, sample_rate_hz / 2, len(spectrum))
    knots = np.log(np.array([40.0, 150.0, 500.0, 1500.0, 4000.0, 12_000.0]))
    gains_db = np.interp(np.log(np.maximum(hertz, 20)), knots, rng.normal(0, 3.0, len(knots)))
    response = 10 ** (gains_db / 20)
    if rng.random() < 0.3:
        response = response / (1 + (hertz / rng.uniform(3400, 9000)) ** 8)
    if rng.random() < 0.3:
        response = response * hertz**4 / (hertz**4 + rng.uniform(60, 250) ** 4)
    shaped: np.ndarray = np.fft.irfft(spectrum * response, len(samples))
    return shaped


def noise(num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of unit power, between white and brown."""
    spectrum = np.fft.rfft(rng.standard_normal(num_samples))
    spectrum *= np.maximum(np.arange(len(spectrum)), 8) ** -rng.uniform(0, 1)
    made = np.fft.irfft(spectrum, num_samples)
    unit: np.ndarray = made / (made.std() + 1e-9)
    return unit
