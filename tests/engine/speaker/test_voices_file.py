"""The ready voices of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import CheckpointError
from engine.speaker.voices import load_voices

NANO = Path(__file__).parents[3] / "assets" / "nano"


def test_nano_has_eight_voices() -> None:
    voices = load_voices(NANO)
    assert list(voices) == [
        "bright", "calm", "clear", "deep", "heart", "lively", "soft", "warm",
    ]  # fmt: skip
    assert all(voice.shape == (128,) and voice.dtype == torch.float32 for voice in voices.values())


def test_a_checkpoint_without_the_file_has_none(tmp_path: Path) -> None:
    assert load_voices(tmp_path) == {}


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        ({"flat": torch.zeros(2, 4)}, "'flat'"),
        ({"broken": torch.tensor([1.0, torch.nan])}, "'broken'"),
        ({"long": torch.zeros(5), "short": torch.zeros(4)}, "differ in size"),
    ],
)
def test_an_unusable_voice_is_named(tmp_path: Path, tensors: dict, told: str) -> None:
    save_file(tensors, tmp_path / "voices.safetensors")
    with pytest.raises(CheckpointError, match=told):
        load_voices(tmp_path)
