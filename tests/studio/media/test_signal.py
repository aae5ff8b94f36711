"""Channel choice, silence and the measures of quality, on sound whose answer is known."""

import numpy as np
import pytest

from studio.media import signal

RATE_HZ = 16000


def stereo(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.stack([left, right], axis=1)


def test_equal_channels_are_averaged_to_themselves(control: np.ndarray) -> None:
    mono = signal.one_channel(stereo(control, control))
    assert mono.choice == "mean"
    np.testing.assert_allclose(mono.samples, control - control.mean(), atol=1e-6)


@pytest.mark.parametrize("live", [0, 1])
def test_a_dead_channel_is_left_out_instead_of_halving_the_voice(
    live: int, control: np.ndarray
) -> None:
    hiss = 1e-4 * np.random.default_rng(0).standard_normal(len(control)).astype(np.float32)
    pair = (control, hiss) if live == 0 else (hiss, control)
    mono = signal.one_channel(stereo(*pair))
    assert (mono.choice, mono.channel) == ("other_is_dead", live)
    assert np.abs(mono.samples).max() == pytest.approx(np.abs(control).max(), rel=0.01)


def test_channels_that_cancel_are_not_summed(control: np.ndarray) -> None:
    mono = signal.one_channel(stereo(control, -0.9 * control))
    assert (mono.choice, mono.channel) == ("they_cancel", 0)
    assert np.square(mono.samples).mean() == pytest.approx(np.square(control).mean(), rel=0.01)


def test_independent_channels_are_averaged() -> None:
    random = np.random.default_rng(1)
    mono = signal.one_channel(random.standard_normal((RATE_HZ, 2)).astype(np.float32))
    assert mono.choice == "mean"


def test_of_many_channels_the_loudest_is_taken(control: np.ndarray) -> None:
    channels = np.zeros((len(control), 6), np.float32)
    channels[:, 2] = control
    channels[:, 4] = 0.1 * control
    mono = signal.one_channel(channels)
    assert (mono.choice, mono.channel) == ("loudest_of_many", 2)


def test_a_constant_offset_is_removed_and_told(control: np.ndarray) -> None:
    mono = signal.one_channel((control + 0.25)[:, None])
    assert mono.offset == pytest.approx(0.25, abs=0.01)
    assert abs(mono.samples.mean()) < 1e-4


@pytest.mark.parametrize("gain", [1.0, 0.05])
@pytest.mark.parametrize("noise", [0.0, 0.0005])
def test_silence_at_both_ends_is_found_at_any_level(
    gain: float, noise: float, control: np.ndarray
) -> None:
    speech = control[: 4 * RATE_HZ]
    silence = np.zeros(3 * RATE_HZ, np.float32)
    sound = np.concatenate([silence, speech, silence])
    sound += noise * np.random.default_rng(2).standard_normal(len(sound)).astype(np.float32)
    begin, end = signal.sound_range(gain * sound, RATE_HZ)
    assert begin / RATE_HZ == pytest.approx(2.9, abs=0.05)
    assert end / RATE_HZ == pytest.approx(7.1, abs=0.15)


def test_a_click_does_not_set_the_level_and_does_not_hide_the_voice(control: np.ndarray) -> None:
    sound = np.concatenate([np.zeros(RATE_HZ, np.float32), 0.01 * control])
    sound[100] = 1.0
    begin, end = signal.sound_range(sound, RATE_HZ)
    assert begin == 0  # the click is sound too
    assert end / RATE_HZ > 5


@pytest.mark.parametrize("level", [0.0, 0.0003])
def test_silence_is_nowhere_sound(level: float) -> None:
    hiss = level * np.random.default_rng(3).standard_normal(2 * RATE_HZ).astype(np.float32)
    assert signal.sound_range(hiss, RATE_HZ) == (0, 0)


def test_too_short_for_one_frame_is_silence() -> None:
    assert signal.sound_range(np.ones(10, np.float32), RATE_HZ) == (0, 0)


@pytest.mark.parametrize("gain", [1.5, 2.0, 4.0])
def test_the_clipped_share_is_about_right_whatever_came_after(
    gain: float, control: np.ndarray
) -> None:
    loud = gain * control / np.abs(control).max()
    clipped = np.clip(loud, -0.5, 0.5)
    truth = np.mean(np.abs(loud) >= 0.5)
    assert 0.5 * truth < signal.clipped_share(clipped) < 1.2 * truth
    assert signal.clipped_share(0.1 * clipped) == pytest.approx(signal.clipped_share(clipped))


def test_speech_is_not_clipped(control: np.ndarray) -> None:
    assert signal.clipped_share(control) < 0.001


@pytest.mark.parametrize(("below_db", "least", "most"), [(10, 10, 18), (20, 18, 28), (60, 35, 70)])
def test_noise_is_measured_from_the_voice(
    below_db: float, least: float, most: float, control: np.ndarray
) -> None:
    level = np.sqrt(np.square(control).mean()) * 10 ** (-below_db / 20)
    noise = level * np.random.default_rng(4).standard_normal(len(control)).astype(np.float32)
    levels_dbfs = signal.frame_levels_dbfs(control + noise, RATE_HZ)
    assert least < signal.noise_below_voice_db(levels_dbfs) < most


def test_a_full_scale_sine_has_its_textbook_level() -> None:
    sine = np.sin(2 * np.pi * 1000 * np.arange(RATE_HZ) / RATE_HZ).astype(np.float32)
    levels_dbfs = signal.frame_levels_dbfs(sine, RATE_HZ)
    assert signal.heard_level_dbfs(levels_dbfs) == pytest.approx(-3.01, abs=0.01)
    assert signal.high_band_db(sine, RATE_HZ) < -60
