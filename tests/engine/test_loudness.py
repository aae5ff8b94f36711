"""Loudness as the standard's reference implementation measures it."""

from __future__ import annotations

import numpy as np
import pyloudnorm
import pytest

from engine.loudness import LoudnessMeter, SpeechLoudness

RATE_HZ = 44_100


def phrases(rng: np.random.Generator) -> np.ndarray:
    """Noise with a slope, in bursts, and gaps that the gates leave out."""
    noise = np.cumsum(rng.standard_normal(6 * RATE_HZ)) * 0.97 ** np.arange(6 * RATE_HZ).clip(max=9)
    noise = np.diff(noise, prepend=0) + 0.3 * rng.standard_normal(6 * RATE_HZ)
    loud = np.repeat(rng.choice([0.0, 0.004, 0.05, 0.2], 20), 6 * RATE_HZ // 20)
    return (noise * loud).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_pyloudnorm_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sound = phrases(rng)
    meter = LoudnessMeter(RATE_HZ)
    for piece in np.split(sound, sorted(rng.integers(0, len(sound), 12))):
        meter.feed(piece)
    expected = pyloudnorm.Meter(RATE_HZ).integrated_loudness(sound.astype(np.float64))
    assert meter.lufs() == pytest.approx(expected, abs=0.1)
    assert sound.any()


def test_pieces_are_the_whole_and_silence_has_no_loudness() -> None:
    sound = phrases(np.random.default_rng(9))
    whole, pieces = LoudnessMeter(RATE_HZ), LoudnessMeter(RATE_HZ)
    whole.feed(sound)
    for start in range(0, len(sound), 1764):
        pieces.feed(sound[start : start + 1764])
    assert whole.lufs() == pieces.lufs()
    silent = LoudnessMeter(RATE_HZ)
    silent.feed(np.zeros(RATE_HZ, np.float32))
    assert silent.lufs() == -np.inf


def test_what_is_shorter_than_a_block_still_counts() -> None:
    meter = LoudnessMeter(RATE_HZ)
    meter.feed(0.1 * np.sin(np.arange(8820) / 8).astype(np.float32))
    assert -30 < meter.lufs() < -20


def test_of_speech_only_what_lies_between_its_silences_counts() -> None:
    frames = phrases(np.random.default_rng(5))[: 100 * 441].reshape(100, 441)
    frames[[*range(7), *range(40, 60), *range(91, 100)]] = 0
    meter, speech = LoudnessMeter(RATE_HZ), SpeechLoudness(RATE_HZ)
    meter.feed(frames[7:91].reshape(-1))
    for first, last in [(0, 5), (5, 12), (12, 45), (45, 50), (50, 92), (92, 96), (96, 100)]:
        end = {5: 0, 45: 40, 50: 40}.get(last, min(last, 91))
        speech.take(frames[first:last], None if end == 0 else 7, end)
    assert speech.lufs() == pytest.approx(meter.lufs())
