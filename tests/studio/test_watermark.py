"""The mark: what it adds, that it is the same in pieces, and that it is Perth's."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine
from engine.compat import ensure_torchaudio
from studio.watermark import BLOCK, RATE_HZ, REACH_S, Watermark, impulse_response
from studio.watermark_search import FOUND, MIN_S, confidence, search

CODEC_RATE_HZ = 44_100


def mark(
    samples: np.ndarray, sample_rate_hz: int = CODEC_RATE_HZ, cuts: list[int] = ()
) -> np.ndarray:
    watermark = Watermark(sample_rate_hz)
    pieces = [watermark.feed(piece) for piece in np.split(samples, cuts)]
    return np.concatenate([*pieces, watermark.finish()])


def heard(samples: np.ndarray, speed: float = 1.0) -> np.ndarray:
    """As the search takes it; played faster, where ``speed`` is above 1."""
    return soxr.resample(samples, CODEC_RATE_HZ * speed, RATE_HZ).astype(np.float32)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return (np.random.default_rng(1).standard_normal(30_000) * 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def speech(recording: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(recording), dtype="float32")[0]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 30_000), max_size=12))
def test_pieces_are_the_whole_bit_for_bit(noise: np.ndarray, cuts: list[int]) -> None:
    assert np.array_equal(mark(noise, cuts=sorted(cuts)), mark(noise))


@pytest.mark.parametrize("num_samples", [0, 1, BLOCK - 1, BLOCK, 1_499, 1_500, 3_000, 20_001])
def test_the_length_stays(noise: np.ndarray, num_samples: int) -> None:
    marked = mark(noise[:num_samples])
    assert (len(marked), marked.dtype) == (num_samples, np.float32)


@pytest.mark.parametrize("sample_rate_hz", [22_050, 24_000, 44_100, 48_000])
def test_what_is_added_is_the_convolution(noise: np.ndarray, sample_rate_hz: int) -> None:
    response = impulse_response(sample_rate_hz)
    reach = len(response) // 2
    assert reach == round(REACH_S * sample_rate_hz)
    whole = noise + np.convolve(noise.astype(np.float64), response)[reach:-reach]
    np.testing.assert_allclose(mark(noise, sample_rate_hz), whole, atol=1e-6)


def test_silence_stays_silent_and_the_treble_stays(noise: np.ndarray) -> None:
    silence = np.zeros(20_000, np.float32)
    assert not mark(silence).any()
    assert not mark(np.concatenate([silence, noise]))[:18_000].any()
    added = np.abs(np.fft.rfft(mark(noise) - noise))
    hz = np.fft.rfftfreq(len(noise), 1 / CODEC_RATE_HZ)
    assert added[hz > 2_500].max() < added[hz < 2_000].max() / 100


@pytest.mark.slow
def test_the_mark_is_what_perths_own_package_adds(speech: np.ndarray) -> None:
    ensure_torchaudio()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import perth
    package = perth.PerthImplicitWatermarker()
    low = heard(speech)
    its = package.apply_watermark(low, RATE_HZ)
    its = its - low[: len(its)]
    ours = heard(mark(speech))[: len(its)] - low[: len(its)]
    inner = slice(RATE_HZ // 10, -RATE_HZ // 10)
    assert np.square((its - ours)[inner]).sum() < 0.015 * np.square(its[inner]).sum()
    for sound in (low, low + np.pad(ours, (0, len(low) - len(ours)))):
        told = float(package.get_watermark(sound, RATE_HZ, round=False))
        assert confidence(sound) == pytest.approx(told, abs=1e-4)


def test_it_is_found_in_speech_and_not_where_it_is_not(speech: np.ndarray) -> None:
    assert len(speech) >= MIN_S * CODEC_RATE_HZ
    assert search(heard(mark(speech))).confidence > 0.95
    assert search(heard(speech)).confidence < 0.1


@pytest.mark.parametrize("speed", [0.95, 0.99, 1.05])
def test_it_is_found_at_another_speed(speech: np.ndarray, speed: float) -> None:
    found = search(heard(mark(speech), speed))
    assert found.is_found
    assert found.speed == pytest.approx(speed, abs=0.021)


def test_a_marked_part_of_a_longer_sound_is_found(speech: np.ndarray) -> None:
    found = search(heard(np.concatenate([np.tile(speech, 4), np.tile(mark(speech), 4)])))
    assert (found.is_found, found.num_stretches, found.num_marked) == (True, 2, 1)


def test_chords_are_not_put_to_the_network_which_takes_them_for_marked() -> None:
    random = np.random.default_rng(0)
    time_s = np.arange(3 * RATE_HZ) / RATE_HZ
    chords = [
        np.sin(np.outer(random.uniform(80, 1_500, 6) * 2 * np.pi, time_s)).sum(0) * 0.08
        + random.standard_normal(len(time_s)) * 0.01
        for _ in range(6)
    ]
    chords = [chord.astype(np.float32) for chord in chords]
    assert max(map(confidence, chords)) > FOUND
    assert not any(search(chord).num_stretches for chord in chords)


def test_silence_and_a_single_click_hold_no_mark() -> None:
    click = np.zeros(2 * RATE_HZ, np.float32)
    assert search(click).confidence == 0
    click[RATE_HZ] = 0.8
    assert search(click).confidence < FOUND


def test_what_is_too_short_for_the_network_is_not_found() -> None:
    found = search(np.ones(5_000, np.float32))
    assert (found.is_found, found.num_stretches) == (False, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_at_least_99_of_100_outputs_are_found_and_none_that_is_unmarked(engine: Engine) -> None:
    from bench.watermark import human_alarms, speak_outputs

    outputs = [samples for _, samples in speak_outputs(engine, 200)]
    found = [search(heard(mark(samples))).is_found for samples in outputs]
    alarms = [search(heard(samples)) for samples in outputs]
    assert np.mean(found) >= 0.99
    assert not [alarm for alarm in alarms if alarm.is_found]
    assert max(alarm.confidence for alarm in alarms) < FOUND
    for kind in human_alarms().values():
        assert kind["false_alarms"] == 0
