"""The log-mel front end against nano's recorded features and librosa's filters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speaker.features import LogMel

ROOT = Path(__file__).parents[3]
CONFIG = json.loads((ROOT / "assets" / "nano" / "speaker_encoder.json").read_text())
log_mel = LogMel.from_dict(CONFIG)


def test_features_equal_the_recorded_ones(spoken: np.ndarray) -> None:
    recorded = np.load(ROOT / "tests" / "golden" / "nano_check.npz")["speaker_features"]
    features = log_mel(torch.from_numpy(spoken))
    np.testing.assert_allclose(features.numpy(), recorded, atol=1e-4, rtol=0)


def test_filters_are_librosas_slaney_filters() -> None:
    librosa_filters = pytest.importorskip("librosa").filters
    oracle = librosa_filters.mel(sr=24_000, n_fft=1024, n_mels=80, fmin=0, fmax=12_000)
    np.testing.assert_allclose(log_mel.filters.T.numpy(), oracle, atol=1e-6)


@settings(deadline=None, max_examples=25)
@given(num_samples=st.integers(480, 5000), data=st.data())
def test_each_window_is_centred_on_its_hop(num_samples: int, data: st.DataObject) -> None:
    samples = torch.zeros(num_samples)
    features = log_mel(samples)
    assert features.shape == (num_samples // 480, 80)
    assert torch.equal(features, torch.full_like(features, np.log(1e-3)))
    number = data.draw(st.integers(0, num_samples // 480 - 1))
    samples[480 * number + 240] = 1.0
    assert int(log_mel(samples).sum(1).argmax()) == number


@pytest.mark.parametrize("key", ["mel_window", "mel_scale", "mel_norm", "log", "magnitude_power"])
def test_another_kind_of_front_end_is_refused_by_key(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        LogMel.from_dict(CONFIG | {key: "other"})
