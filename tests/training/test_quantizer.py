"""The codec's quantizer, as a stage of hours needs it."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from training.quantizer import Quantizer

NANO = Path(__file__).parents[2] / "assets" / "nano"


def test_a_file_written_over_meanwhile_changes_no_codes(tmp_path: Path) -> None:
    path = Path(shutil.copy(NANO / "codec.safetensors", tmp_path))
    quantizer = Quantizer.load(tmp_path)
    features = torch.randn(50, len(quantizer.mean), generator=torch.Generator().manual_seed(0))
    codes = quantizer.encode(features)
    assert len(codes.unique()) > 50
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert torch.equal(quantizer.encode(features), codes)
