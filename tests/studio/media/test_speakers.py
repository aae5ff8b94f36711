"""A change of voice is suspected where there is one, and not where there is none."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from studio.media.intake import Reference, read_file
from studio.media.speakers import voice_change

RATE_HZ = 24000


@pytest.fixture(scope="module")
def humans(shared_folder: Path) -> list[np.ndarray]:
    paths = sorted((shared_folder / "voices").glob("*.mp3"))
    if not paths:
        pytest.skip("no human recordings in the shared folder")
    return [read_file(path, sample_rate_hz=RATE_HZ).samples for path in paths]


def test_one_voice_is_one_voice(humans: list[np.ndarray]) -> None:
    assert [voice_change(human, RATE_HZ) > 1.5 for human in humans] == [False] * len(humans)


def test_two_voices_one_after_the_other_are_suspected(humans: list[np.ndarray]) -> None:
    cut = 10 * RATE_HZ
    for one, other in permutations(humans, 2):
        assert voice_change(np.concatenate([one[:cut], other[:cut]]), RATE_HZ) > 1.5


def test_the_level_of_the_recording_does_not_matter(humans: list[np.ndarray]) -> None:
    loud = voice_change(humans[0], RATE_HZ)
    assert voice_change(0.003 * humans[0], RATE_HZ) == pytest.approx(loud, rel=0.01)


def test_a_long_recording_of_one_synthetic_voice_is_one_voice(audio: Path) -> None:
    reference: Reference = read_file(audio / "ref_2min_speech.ogg", sample_rate_hz=RATE_HZ)
    assert 0 < reference.report.voice_change < 1.5


@pytest.mark.parametrize("length_s", [0.0, 0.01, 1.0, 9.0])
def test_short_recordings_are_not_judged(length_s: float, control: np.ndarray) -> None:
    samples = np.resize(control, round(length_s * RATE_HZ))
    assert voice_change(samples, RATE_HZ) == 0.0
