"""Which encoder a checkpoint folder holds, and what names its vector space."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from engine.errors import CheckpointError
from engine.speaker.encoder import open_speaker_encoder

NANO = Path(__file__).parents[3] / "assets" / "nano"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("speaker_encoder.json", "speaker_encoder.safetensors"):
        shutil.copy(NANO / name, tmp_path / name)
    return tmp_path


def test_a_checkpoint_without_an_encoder_has_none(tmp_path: Path) -> None:
    assert open_speaker_encoder(tmp_path) is None


def test_the_identity_changes_with_configuration_and_weights(folder: Path) -> None:
    def identity() -> str:
        encoder = open_speaker_encoder(folder)
        assert encoder is not None
        return encoder.identity

    original = identity()
    assert original == identity() and len(original) == 16
    config = json.loads((folder / "speaker_encoder.json").read_text())
    (folder / "speaker_encoder.json").write_text(json.dumps(config | {"rms_target": 0.1}))
    other_config = identity()
    tensors = load_file(folder / "speaker_encoder.safetensors")
    tensors["fc.conv.bias"][0] += 1
    save_file(tensors, folder / "speaker_encoder.safetensors")
    assert len({original, other_config, identity()}) == 3


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_half_of_the_releases_encoder_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "speaker_encoder").mkdir()
    if name != "config.json":
        (tmp_path / "speaker_encoder" / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=f"'speaker_encoder' has no {name}"):
        open_speaker_encoder(tmp_path)
