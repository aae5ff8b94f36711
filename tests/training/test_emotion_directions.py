"""Directions and calibration from a small labelled folder whose every number is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from training.emotion_directions import (
    STRENGTHS,
    Audio,
    Clip,
    axes_of,
    calibrate,
    directions_of,
    embed_corpus,
    read_corpus,
    write_calibration,
    write_directions,
)

RATE_HZ = 8000
VOICES_HZ = {"ann": 210.0, "bob": 110.0, "cy": 160.0}
# What an emotion does to pitch and loudness.
SHIFTS = {"neutral": (0.0, 1.0), "happy": (60.0, 1.2), "sad": (-25.0, 0.5)}


def tone(pitch_hz: float, level: float, duration_s: float = 0.3) -> np.ndarray:
    time_s = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    return (0.4 * level * np.sin(2 * np.pi * pitch_hz * time_s)).astype(np.float32)


def measured(samples: np.ndarray, sample_rate_hz: int) -> Tensor | None:
    """An "embedding" that can be checked by hand: pitch in hertz, level, and a constant."""
    if np.abs(samples).max() < 0.01:
        return None
    pitch_hz = np.abs(np.fft.rfft(samples)).argmax() * sample_rate_hz / len(samples)
    return torch.tensor([pitch_hz, 100 * np.sqrt(np.mean(samples**2)), 7.0]).float()


def record(folder: Path, pitch_hz: float, level: float, num_clips: int = 2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(num_clips):
        drift = (number - (num_clips - 1) / 2) * 10
        soundfile.write(folder / f"{number}.wav", tone(pitch_hz + drift, level), RATE_HZ)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three speakers as SPEAKER/EMOTION; cy was never recorded neutral."""
    folder = tmp_path / "corpus"
    for speaker, pitch_hz in VOICES_HZ.items():
        for emotion, (shift_hz, level) in SHIFTS.items():
            if (speaker, emotion) != ("cy", "neutral"):
                record(folder / speaker / emotion.title(), pitch_hz + shift_hz, level)
    return folder


def labels(clips: list[Clip]) -> set[tuple[str, str]]:
    return {(clip.speaker, clip.emotion) for clip in clips}


def test_speakers_and_emotions_are_read_from_folders(corpus: Path) -> None:
    clips = read_corpus(corpus)
    assert len(clips) == 16
    assert ("ann", "happy") in labels(clips) and ("cy", "neutral") not in labels(clips)


@pytest.mark.parametrize(
    ("path", "speaker", "emotion"),
    [
        ("Angry", "everybody", "angry"),
        ("sad/part 2", "everybody", "sad"),
        ("03_happy", "03", "happy"),
        ("en/f_01_calm/takes", "en/f_01", "calm"),
        ("en/ann/Surprise", "en/ann", "surprise"),
    ],
)
def test_every_layout_tells_who_and_how(
    tmp_path: Path, path: str, speaker: str, emotion: str
) -> None:
    record(tmp_path / path, 200, 1, num_clips=1)
    (tmp_path / "notes.txt").write_text("not a recording")
    assert labels(read_corpus(tmp_path)) == {(speaker, emotion)}


def test_a_manifest_lists_emotions_that_folders_cannot(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        record(tmp_path / name, 200, 1, num_clips=1)
    listed = {"Very Bored": {"ann": ["a/0.wav"]}, "neutral": ["b/0.wav", "c/0.wav"]}
    (tmp_path / "manifest.json").write_text(json.dumps(listed))
    clips = read_corpus(tmp_path)
    assert labels(clips) == {("ann", "very_bored"), ("everybody", "neutral")}
    assert all(clip.path.is_file() for clip in clips) and len(clips) == 3


def test_a_folder_that_tells_nothing_or_holds_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no recording"):
        read_corpus(tmp_path)
    record(tmp_path / "ann" / "jubilant", 200, 1)
    with pytest.raises(ValueError, match=r"'ann/jubilant' names no emotion .* manifest\.json"):
        read_corpus(tmp_path)


def test_a_direction_is_the_mean_over_speakers_of_the_step_from_their_own_neutral(
    corpus: Path,
) -> None:
    embeddings = embed_corpus(read_corpus(corpus), measured)
    directions = directions_of(embeddings)
    assert list(directions) == ["happy", "sad"]
    # ann and bob move by 60 Hz; cy, without neutral, is measured from the mean of 210 and 110 Hz.
    assert float(directions["happy"][0]) == pytest.approx((60 + 60 + (160 + 60 - 160)) / 3, abs=4)
    assert float(directions["sad"][0]) == pytest.approx(-25, abs=4)
    level = 100 * 0.4 / math.sqrt(2)
    assert float(directions["happy"][1]) == pytest.approx(0.2 * level, rel=0.05)
    assert float(directions["sad"][1]) == pytest.approx(-0.5 * level, rel=0.05)
    assert float(directions["happy"][2]) == pytest.approx(0, abs=1e-5)
    lengths = [math.hypot(hz, level, 7) for hz in (205, 215, 105, 115)]
    assert embeddings.mean_neutral_length == pytest.approx(np.mean(lengths), rel=0.02)


def test_speakers_count_alike_however_many_clips_they_have(tmp_path: Path) -> None:
    for speaker, shift_hz, num_clips in (("ann", 20.0, 7), ("bob", 80.0, 1)):
        record(tmp_path / f"{speaker}_neutral", 200, 1, num_clips=1)
        record(tmp_path / f"{speaker}_angry", 200 + shift_hz, 1, num_clips)
    directions = directions_of(embed_corpus(read_corpus(tmp_path), measured))
    assert float(directions["angry"][0]) == pytest.approx(50, abs=4)


def test_another_space_is_measured_there(corpus: Path) -> None:
    embeddings = embed_corpus(read_corpus(corpus), measured)
    matrix = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    mapped = embeddings.mapped(lambda vectors: vectors @ matrix.T + 5)
    for name, direction in directions_of(mapped).items():
        expected = matrix @ directions_of(embeddings)[name]
        torch.testing.assert_close(direction, expected, atol=1e-3, rtol=0)


def test_axes_are_the_means_of_signed_directions() -> None:
    vectors = torch.eye(4)
    names = ("happy", "sad", "excited", "surprised")
    axes = axes_of(dict(zip(names, vectors, strict=True)))
    torch.testing.assert_close(axes["valence"], torch.tensor([1.0, -1.0, 0.5, 0.0]) / 3)
    torch.testing.assert_close(axes["arousal"], torch.tensor([1.0, -1.0, 1.0, 1.0]) / 4)
    assert axes_of({"sleepy": vectors[0]}).keys() == {"arousal"}
    assert axes_of({"bored": vectors[0]}) == {}


def test_clips_that_cannot_be_used_are_left_out_and_neutral_is_needed(tmp_path: Path) -> None:
    record(tmp_path / "happy", 200, 1)
    record(tmp_path / "neutral", 200, 0.001)
    with pytest.raises(ValueError, match="labelled happy; directions need 'neutral'"):
        embed_corpus(read_corpus(tmp_path), measured)
    record(tmp_path / "neutral", 200, 1, num_clips=1)
    embeddings = embed_corpus(read_corpus(tmp_path), measured)
    assert len(embeddings.by_emotion["neutral"]["everybody"]) == 1


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder, vector = tmp_path / "directions", torch.ones(3)
    write_directions(folder, "raw", {"happy": vector, "sad": vector}, {}, 1.0)
    write_calibration(folder, {"default": {}})
    write_directions(folder, "raw", {"happy": 2 * vector}, {"valence": vector}, 1.5)
    names = {path.name for path in folder.iterdir()}
    assert names == {"manifest.json", "happy.npy", "valence.npy"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["directions"]["happy"] == {
        "file": "happy.npy",
        "kind": "named",
        "norm": pytest.approx(2 * math.sqrt(3)),
    }
    assert (manifest["dim"], manifest["space"], manifest["ref_base_norm"]) == (3, "raw", 1.5)
    with pytest.raises(AttributeError):
        write_directions(folder, "raw", {"happy": vector, "sad": None}, {}, 1.0)  # type: ignore
    assert {path.name for path in folder.iterdir()} == names
    np.testing.assert_array_equal(np.load(folder / "happy.npy"), 2 * vector.numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["directions"]


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds something else"):
        write_directions(tmp_path, "raw", {"happy": torch.ones(3)}, {}, 1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# Calibration, with pitch range standing in for a recogniser of emotions.

LIVELIEST = {"ann": {"happy": 4.0, "sad": 3.0}, "bob": {"happy": 6.0, "sad": 8.0}}


def speak(text: str, voice: str, emotion: str | None, strength: float) -> Audio:
    """Speech whose pitch moves most at the voice's own best strength."""
    swing_hz = 0.0
    if emotion is not None:
        swing_hz = 80 - 10 * abs(strength - LIVELIEST[voice][emotion])
    time_s = np.arange(RATE_HZ) / RATE_HZ
    pitch_hz = VOICES_HZ[voice] + 100 + swing_hz * np.sin(2 * np.pi * time_s)
    return np.sin(2 * np.pi * np.cumsum(pitch_hz) / RATE_HZ).astype(np.float32), RATE_HZ


def pitch_range(audio: Audio) -> float:
    samples, sample_rate_hz = audio
    rises = np.flatnonzero((samples[:-1] < 0) & (samples[1:] >= 0))
    pitches_hz = sample_rate_hz / np.diff(rises)
    return float(np.percentile(pitches_hz, 90) - np.percentile(pitches_hz, 10))


def liveliness(spoken: Audio, plain: Audio, emotion: str) -> float:
    return (pitch_range(spoken) - pitch_range(plain)) / 200


def test_calibration_finds_the_strength_that_the_judge_hears_best() -> None:
    found = calibrate(speak, liveliness, ["happy", "sad"], ["ann", "bob"], ["one", "two"])
    assert found["by_speaker"] == LIVELIEST
    assert found["default"] == {"happy": 5.0, "sad": 5.5}
    assert found["global_default"] == 5.25
    assert (found["grid"], found["min_prob"]) == (list(STRENGTHS), 0.12)


def test_a_voice_that_does_not_carry_the_emotion_has_no_say_in_the_default() -> None:
    def deaf_to_bob(spoken: Audio, plain: Audio, emotion: str) -> float:
        is_bob = pitch_mean(plain) < VOICES_HZ["ann"] + 50
        return liveliness(spoken, plain, emotion) * (0.01 if is_bob else 1.0)

    def pitch_mean(audio: Audio) -> float:
        return float(((audio[0][:-1] < 0) & (audio[0][1:] >= 0)).sum() * RATE_HZ / len(audio[0]))

    found = calibrate(speak, deaf_to_bob, ["happy"], ["ann", "bob"], ["one"])
    assert found["by_speaker"]["bob"] == {"happy": 6.0}
    assert found["default"] == {"happy": 4.0}
    unheard = calibrate(speak, lambda *_: 0.0, ["happy"], ["ann", "bob"], ["one"])
    assert unheard["default"] == {"happy": STRENGTHS[0]}


def test_the_calibration_lies_beside_its_directions(tmp_path: Path) -> None:
    write_calibration(tmp_path, {"global_default": 3.0})
    assert json.loads((tmp_path / "calibration.json").read_text()) == {"global_default": 3.0}
    assert [path.name for path in tmp_path.iterdir()] == ["calibration.json"]
