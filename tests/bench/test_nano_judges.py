"""The word judge compares what was meant, not how it was written."""

import json

import numpy as np
import pytest

from bench.judges import median_pitch_hz, num_edits, plain_words
from bench.nano_eval import SENTENCES, Spoken, VoiceResult, summary, table


@pytest.mark.parametrize(
    ("written", "heard"),
    [
        ("In nineteen sixty nine, people walked.", "in 1969 people walked"),
        ("Tickets cost fifteen dollars.", "Tickets cost $15."),
        ("the thirtieth of September", "the 30th of September"),
        ("room five hundred and twelve", "Room 512"),
        ("three percent", "3%"),
        ("Doctor Fernandez, it's fine", "Dr. Fernandez its fine"),
        ("two thousand meters", "2,000 metres"),
    ],
)
def test_numbers_and_spellings_are_alike(written: str, heard: str) -> None:
    assert plain_words(written) == plain_words(heard)


def test_edits_are_counted() -> None:
    assert num_edits(["the", "old", "house"], ["an", "old", "mouse", "here"]) == 3
    assert num_edits([], ["a"]) == 1
    assert num_edits(["a"], []) == 1


@pytest.mark.slow
def test_pitch_is_heard() -> None:
    time_s = np.arange(44_100) / 44_100
    for hertz in (90.0, 180.0, 260.0):
        tone = sum(np.sin(2 * np.pi * hertz * k * time_s) / k for k in range(1, 9))
        assert median_pitch_hz(tone.astype(np.float32), 44_100) == pytest.approx(hertz, rel=0.02)


@pytest.mark.slow
def test_one_cry_does_not_raise_the_pitch_of_all_that_is_spoken() -> None:
    time_s = np.arange(44_100) / 44_100
    # Where a voice is louder it is higher, too; one short cry is far above the rest.
    tones = {hertz: np.sin(2 * np.pi * hertz * time_s) * hertz / 1000 for hertz in (120, 130, 140)}
    talk = np.concatenate([*tones.values()] * 3)
    cry = 2 * np.sin(2 * np.pi * 400 * time_s[:4_410])
    for samples in (talk, np.concatenate([talk, cry])):
        assert median_pitch_hz(samples, 44_100) == pytest.approx(130, rel=0.02)


def test_a_result_tells_its_row() -> None:
    spoken = [
        Spoken("Yes.", "yes", 1.0, True, 0, 1, 0, 3),
        Spoken("The old house is red.", "the old mouse is red", 2.0, False, 1, 5, 1, 20),
    ]
    result = VoiceResult("a", "human", spoken, 110.0, 100.0, 0.9, 0.7, "a")
    row = result.row()
    assert row["wer"] == pytest.approx(100 / 6, abs=0.01)
    assert row["wer_short"] == 20.0
    assert row["one_or_two_words_right"] == "1/1"
    assert row["ended"] == "1/2"
    assert row["pitch_error_percent"] == 10.0
    assert summary([result])["human"]["cosine_margin_min"] == 0.2
    assert "| a |" in table([json.loads(json.dumps(row))]) or "a | 2" in table([row])


def test_there_are_a_hundred_different_sentences() -> None:
    assert len(set(SENTENCES)) == 100
    assert all(text.isascii() and not any(c.isdigit() for c in text) for text in SENTENCES)
