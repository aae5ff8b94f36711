"""Checkpoints and the embedded engine, opened once for all engine tests."""

from __future__ import annotations

import lzma
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config

REPOSITORY = Path(__file__).parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden 5-layer checkpoint in the reference's own on-disk format."""
    folder = tmp_path_factory.mktemp("tiny")
    packed = GOLDEN / "tiny_checkpoint"
    (folder / "model.pth").write_bytes(lzma.decompress((packed / "model.pth.xz").read_bytes()))
    shutil.copy(packed / "params.json", folder)
    return folder


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    return GOLDEN


@pytest.fixture(scope="session")
def tiny_config(tiny_folder: Path) -> Zonos2Config:
    return Zonos2Config.load(tiny_folder)


@pytest.fixture
def tiny(tiny_folder: Path, tiny_config: Zonos2Config) -> Backbone:
    """A fresh copy for each test: some tests change weights."""
    return load_backbone(tiny_folder, tiny_config, "cpu", torch.float32)


@pytest.fixture(scope="session")
def golden_forward() -> dict[str, torch.Tensor]:
    with np.load(GOLDEN / "forward.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


@pytest.fixture
def spoilt() -> Callable[[int], dict[str, str]]:
    """The environment of a process in which all memory that is freed is written over with a byte.

    Other threads do that to some of it now and then.
    """
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("only glibc can spoil freed memory")
    return lambda byte: os.environ | {"GLIBC_TUNABLES": f"glibc.malloc.perturb={byte}"}
