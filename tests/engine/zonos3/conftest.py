"""A random checkpoint of five layers, written once, and the family opened from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.zonos3.config import Zonos3Config
from engine.zonos3.family import Zonos3Family
from tests.engine.zonos3.random_checkpoint import PARAMS, make_checkpoint

SMALL = {"n_layers": 5, "attention_layers": [3], "codebook_size": 64}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("zonos3") / "random", **SMALL)


@pytest.fixture(scope="session")
def config() -> Zonos3Config:
    return Zonos3Config.from_dict(PARAMS | SMALL)


@pytest.fixture(scope="session")
def family(folder: Path) -> Zonos3Family:
    return Zonos3Family.open(folder, torch.device("cpu"), None)
