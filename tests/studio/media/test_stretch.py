"""Another pace, the same pitch: in pieces as in one, and exactly as long as asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import InvalidRequest
from studio.media import stretch
from studio.media.stretch import Stretch, stretched

RATE_HZ = 44_100
CHUNK = 7_056  # the engine's first: 0.16 s
SPEEDS = (0.25, 0.4, 0.5, 0.8, 1.25, 2.0, 2.7, 4.0)
_RNG = np.random.default_rng(0)
BUZZ = (0.2 * np.sign(np.sin(np.arange(30_000) / 40)) + 0.02 * _RNG.standard_normal(30_000)).astype(
    np.float32
)
BUZZ[20_000:26_000] = 0


def at_speed(
    samples: np.ndarray, speed: float, cuts: list[int] | None = None, rate_hz: int = RATE_HZ
) -> np.ndarray:
    filter_ = Stretch(rate_hz, speed)
    pieces = np.split(samples, cuts if cuts is not None else range(CHUNK, len(samples), CHUNK))
    return np.concatenate([*(filter_.feed(piece) for piece in pieces), filter_.finish()])


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.25, 4),
    st.sampled_from([RATE_HZ, 24_000]),
    st.integers(0, 30_000),
    st.lists(st.integers(0, 30_000), max_size=5).map(sorted),
)
def test_pieces_are_the_whole_and_its_length_is_exact(speed, rate_hz, num_samples, cuts):
    sound = BUZZ[:num_samples]
    whole = at_speed(sound, speed, [], rate_hz)
    assert whole.dtype == np.float32
    assert len(whole) == round(num_samples / speed)
    assert np.array_equal(at_speed(sound, speed, cuts, rate_hz), whole)


def test_speed_one_is_the_sound_itself():
    assert np.array_equal(at_speed(BUZZ, 1, [5, 5, 999]), BUZZ)


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_tone_keeps_its_pitch_and_level(speed):
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * RATE_HZ) / RATE_HZ)
    heard = at_speed(tone.astype(np.float32), speed)
    spectrum = np.abs(np.fft.rfft(heard * np.hanning(len(heard)), 1 << 19))
    assert spectrum.argmax() * RATE_HZ / (1 << 19) == pytest.approx(440, rel=0.005)
    assert np.sqrt(2 * np.mean(heard**2)) == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize("speed", [0.78, 0.9, 1.1, 1.35])
def test_a_spoken_sentence_keeps_its_voice_and_its_order(speed, recording, wav):
    pcm, _ = wav(recording)
    spoken = pcm.astype(np.float32) / 2**15
    heard = at_speed(spoken, speed)
    assert pitch_hz(heard) == pytest.approx(pitch_hz(spoken), rel=0.03)
    assert np.corrcoef(loudness(heard), loudness(spoken))[0, 1] > 0.85
    assert np.abs(heard).max() == pytest.approx(np.abs(spoken).max(), rel=0.2)


def test_nothing_is_lost_at_either_end():
    pulse = 0.3 * np.sin(2 * np.pi * 500 * np.arange(882) / RATE_HZ)
    sound = np.concatenate([pulse, np.zeros(RATE_HZ), pulse]).astype(np.float32)
    for speed in (0.5, 1.25, 2.0):
        heard = at_speed(sound, speed)
        half = len(heard) // 2
        for end in (heard[:half], heard[half:]):
            assert np.sum(end**2) > 0.6 * np.sum(pulse**2) / speed


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.25, 2.0])
def test_the_first_chunk_is_heard_before_the_second(speed):
    assert len(Stretch(RATE_HZ, speed).feed(BUZZ[:CHUNK])) > 0.3 * CHUNK / speed


@pytest.mark.parametrize("speed", [0, 0.249, 4.01, -1, float("nan"), float("inf")])
def test_a_speed_beyond_the_limits_is_refused(speed):
    with pytest.raises(InvalidRequest, match=r"speed: .* is outside 0\.25 to 4"):
        Stretch(RATE_HZ, speed)


def test_the_event_loop_is_left_alone(monkeypatch):
    threads = set()

    class Watched(Stretch):
        def feed(self, samples: np.ndarray) -> np.ndarray:
            threads.add(threading.get_ident())
            return super().feed(samples)

    monkeypatch.setattr(stretch, "Stretch", Watched)

    async def source() -> AsyncIterator[np.ndarray]:
        for piece in np.array_split(BUZZ, 4):
            yield piece

    async def collect() -> np.ndarray:
        return np.concatenate([piece async for piece in stretched(source(), 1.25, RATE_HZ)])

    assert np.array_equal(asyncio.run(collect()), at_speed(BUZZ, 1.25))
    assert threads
    assert threading.get_ident() not in threads


def pitch_hz(samples: np.ndarray) -> float:
    """The pitch that the loud frames of 50 ms have in common, within the octave of a deep voice."""
    size = round(0.05 * RATE_HZ)
    frames = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    level = np.square(frames).mean(axis=1)
    spectra = np.square(np.abs(np.fft.rfft(frames[level > np.median(level)], 2 * size)))
    correlation = np.fft.irfft(spectra)[:, :size]
    common = (correlation / correlation[:, :1]).mean(axis=0) / (1 - np.arange(size) / size)
    lags = slice(RATE_HZ // 150, RATE_HZ // 75)
    return RATE_HZ / (lags.start + int(common[lags].argmax()))


def loudness(samples: np.ndarray) -> np.ndarray:
    """The level of 40 equal stretches: where a sentence is loud."""
    return np.array([np.sqrt(np.mean(part**2)) for part in np.array_split(samples, 40)])
