"""Voices, alignment, level and silence of what the teachers say."""

import numpy as np
import pytest

from training.alignment import PHONEME_IDS, align
from training.shards import NO_ALIGNMENT, NO_PHONEME
from training.smoke import buzz
from training.speech import FRAME_SAMPLES, Take, draw_speaker, finish
from training.teacher import envelope_at_harmonics, stretch
from training.voices import DEEP, FIRST_FOLDED, HEART, MOODS, OTHER_PROGRAMS, voice_of, with_arousal


def take(text: str, phonemes: str, tick_ends: tuple[int, ...], num_frames: int) -> Take:
    return Take(text, "example", 0, 1.0, num_frames, 1.0, 0.2, phonemes, tick_ends)


def test_frames_follow_the_phonemes_and_the_words() -> None:
    # A frame is 3.2 ticks: pause to 3.2, "h" to 6.4, "ˈ" to 9.6, "O" to 16, then silence.
    byte_index, phoneme_id = align(take("Ho", "hˈO", (4, 7, 10, 16), 7))
    assert phoneme_id.tolist() == [
        0, PHONEME_IDS["h"], PHONEME_IDS["ˈ"], PHONEME_IDS["O"], PHONEME_IDS["O"], 0, 0,
    ]  # fmt: skip
    assert byte_index.tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_words_that_do_not_pair_up_stay_unaligned_but_keep_their_phonemes() -> None:
    byte_index, phoneme_id = align(take("one two", "wˈʌn", (2, 5, 8, 11, 14), 4))
    assert (byte_index == NO_ALIGNMENT).all()
    assert (phoneme_id != NO_PHONEME).all()
    byte_index, phoneme_id = align(take("one", "", (), 4))
    assert (byte_index == NO_ALIGNMENT).all()
    assert (phoneme_id == NO_PHONEME).all()


def test_every_drawn_speaker_can_be_spoken_and_defaults_are_common() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_speaker(rng) for _ in range(2000)]
    for speaker in set(drawn) - set(OTHER_PROGRAMS):
        voice, arousal = voice_of(speaker)
        assert 0.3 < voice.f0_scale < 1.7
        assert arousal in MOODS
    assert drawn.count(HEART) > 400
    assert drawn.count(DEEP) > 250
    assert len(set(drawn)) > 400
    with pytest.raises(ValueError, match="not rendered"):
        voice_of(601)


def test_arousal_moves_range_pace_and_tilt_and_nothing_else() -> None:
    plain, _ = voice_of(FIRST_FOLDED + 20 * len(MOODS) + 1)
    calm, excited = with_arousal(plain, -1), with_arousal(plain, 1)
    assert excited.f0_range / calm.f0_range > 1.4
    assert excited.pace > plain.pace > calm.pace
    assert excited.tilt > calm.tilt
    assert excited.formant_scale == calm.formant_scale == plain.formant_scale
    assert voice_of(FIRST_FOLDED + 20 * len(MOODS) + 2)[0] == excited


def test_a_take_has_whole_frames_a_known_level_and_true_silence() -> None:
    spoken = buzz("Hello there.", DEEP, 1.0, np.random.default_rng(0))
    samples, trailing_s = finish(spoken, np.random.default_rng(1))
    assert len(samples) % FRAME_SAMPLES == 0
    speech = samples[: spoken.speech_samples] / 32767
    assert np.sqrt((speech**2).mean()) == pytest.approx(0.08, rel=0.02)
    assert trailing_s == pytest.approx((len(samples) - spoken.speech_samples) / 24_000)
    assert (samples[spoken.speech_samples + 3500 :] == 0).all()


def test_formants_move_and_levels_are_read_at_harmonics() -> None:
    spectrum = np.zeros((601, 1), np.float32)
    spectrum[100] = 5.0
    assert stretch(spectrum, 1.2)[:, 0].argmax() == 120
    assert stretch(spectrum, 1.0) is spectrum
    # 200 Hz is bin 10: a dip between harmonics is bridged.
    level = np.ones((601, 3), np.float32)
    level[15] = -9.0
    read, turn = envelope_at_harmonics(level, np.zeros_like(level), np.full(3, 200.0, np.float32))
    assert read[15, 1] == pytest.approx(1.0)
    assert np.abs(turn).max() < 1e-5
    unvoiced, _ = envelope_at_harmonics(level, np.zeros_like(level), np.zeros(3, np.float32))
    assert unvoiced[15, 1] == -9.0
