from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.codec.nano import NanoCodec, NanoCodecConfig
from engine.weights import read_json

NANO = Path(__file__).parents[3] / "assets" / "nano"


@pytest.fixture(autouse=True)
def without_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="session")
def nano() -> NanoCodec:
    return NanoCodec.open(NANO, read_json(NANO / "codec.json"), "cpu")


@pytest.fixture(scope="session")
def nano_config() -> NanoCodecConfig:
    return NanoCodecConfig.from_dict(read_json(NANO / "codec.json"))
