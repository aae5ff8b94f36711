"""What of a recording is used, and which recordings are refused."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import InvalidReference
from engine.speaker.reference import MAX_SPEECH_S, as_recorded, resampled, speech_at_level

RATE_HZ = 16_000
LEVEL = 0.08


def babble(duration_s: float, rate_hz: int = RATE_HZ, rms: float = 0.1) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal(round(duration_s * rate_hz))
    return (rms * noise).astype(np.float32)


def silence(duration_s: float, rate_hz: int = RATE_HZ) -> np.ndarray:
    return np.zeros(round(duration_s * rate_hz), np.float32)


def rms_of(samples: np.ndarray) -> float:
    return float(np.sqrt(np.square(samples).mean()))


def test_ends_are_trimmed_and_inner_pauses_stay() -> None:
    samples = np.concatenate([silence(2), babble(1), silence(1), babble(1), silence(5)])
    assert len(speech_at_level(samples, RATE_HZ, LEVEL)) == pytest.approx(3.12 * RATE_HZ)


def test_a_noise_floor_and_a_click_do_not_hide_the_speech() -> None:
    samples = np.concatenate([silence(4), babble(3), silence(4)])
    samples += babble(11, rms=0.1 * 10 ** (-35 / 20))
    samples[5 * RATE_HZ] = 1.0
    assert len(speech_at_level(samples, RATE_HZ, LEVEL)) == pytest.approx(3.12 * RATE_HZ, rel=0.01)


@pytest.mark.parametrize("rms", [1e-3, 0.01, 0.5])
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_the_spoken_parts_have_the_level_of_training(rms: float, offset: float) -> None:
    samples = np.concatenate([babble(2, rms=rms), silence(6), babble(2, rms=rms)]) + offset
    speech = speech_at_level(samples, RATE_HZ, LEVEL)
    assert speech.dtype == np.float32
    assert rms_of(speech[:RATE_HZ]) == pytest.approx(LEVEL, rel=0.05)


def test_of_a_long_recording_the_first_30_s_count() -> None:
    samples = np.concatenate([silence(3), babble(40)])
    assert len(speech_at_level(samples, RATE_HZ, LEVEL)) == MAX_SPEECH_S * RATE_HZ


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (silence(0), "only 0.00 s are long"),
        (babble(0.9), "only 0.90 s are long"),
        (silence(3), "is silent"),
        (silence(3) + np.float32(0.5), "is silent"),
        (babble(3, rms=1e-5), "is silent"),
        (np.concatenate([silence(3), babble(0.5), silence(3)]), "left after trimming"),
        (np.full(RATE_HZ * 2, np.nan, np.float32), "no finite numbers"),
        (np.append(babble(2), np.float32(np.inf)), "no finite numbers"),
        (babble(2).reshape(-1, 2), "mix them to mono"),
    ],
    ids=["empty", "short", "silent", "constant", "faint", "mostly silent", "nan", "inf", "stereo"],
)
def test_a_recording_without_a_voice_is_refused_in_one_sentence(
    samples: np.ndarray, told: str
) -> None:
    with pytest.raises(InvalidReference) as caught:
        speech_at_level(samples, RATE_HZ, LEVEL)
    assert told in caught.value.message
    assert caught.value.field == "reference" and caught.value.code == "invalid_reference_audio"


def test_exactly_one_second_is_enough() -> None:
    for rate_hz in (8_000, 11_025, 22_050, 44_100, 48_000):
        assert len(speech_at_level(babble(1.0, rate_hz), rate_hz, LEVEL)) >= 0.99 * rate_hz


@pytest.mark.parametrize("rate_hz", [0, -1, 3_999, 192_001])
def test_a_rate_outside_the_limits_is_refused(rate_hz: int) -> None:
    with pytest.raises(InvalidReference, match=f"{rate_hz} Hz"):
        speech_at_level(babble(2), rate_hz, LEVEL)


def test_resampling_keeps_a_tone() -> None:
    time_s = np.arange(44_100) / 44_100
    tone = np.sin(2 * np.pi * 440 * time_s).astype(np.float32)
    lower = resampled(tone, 44_100, 24_000).numpy()
    expected = np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)
    np.testing.assert_allclose(lower[200:-200], expected[200:-200], atol=5e-3)


def test_an_odd_rate_is_refused_instead_of_using_up_the_memory() -> None:
    with pytest.raises(InvalidReference, match="44101 Hz is no usual sample rate"):
        resampled(babble(1, 44_101), 44_101, 24_000)


def test_the_recording_as_it_is_keeps_level_offset_and_silence() -> None:
    samples = np.concatenate([silence(1), babble(2, rms=0.01), silence(1)]) + np.float32(0.2)
    used = as_recorded(samples, RATE_HZ)
    assert used.dtype == np.float32 and np.array_equal(used, samples)


def test_of_a_long_recording_as_it_is_30_s_count_from_the_first_speech_on() -> None:
    long = np.concatenate([silence(3), babble(40)])
    assert np.array_equal(as_recorded(long, RATE_HZ), long[round(2.94 * RATE_HZ) :][: 30 * RATE_HZ])
    late = np.concatenate([silence(20), babble(15)])
    assert np.array_equal(as_recorded(late, RATE_HZ), late[5 * RATE_HZ :])


def test_what_carries_no_voice_is_refused_either_way() -> None:
    with pytest.raises(InvalidReference, match="is silent"):
        as_recorded(silence(3), RATE_HZ)
