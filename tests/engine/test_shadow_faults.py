"""Damaged releases: each is refused in one sentence, nothing runs and nothing is left behind."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import engine.memory
from engine import CheckpointError, Engine, NotFound
from engine.codec.dac import DESCRIPT_FILE
from tests.shadow.release import make_release


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small release: six of the layers."""
    return make_release(tmp_path_factory.mktemp("whole"), ends=False, n_layers=6)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "release"))


class Bomb:
    """What a pickle can do to whoever opens it: here, make a folder."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self.canary),)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size * 2 // 3)


def rewrite(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated weights": (lambda f: cut(f / "model.pth"), "model.pth is damaged"),
    "empty weights": (lambda f: (f / "model.pth").write_bytes(b""), "model.pth is damaged"),
    "no weights": (lambda f: (f / "model.pth").unlink(), "has no weights"),
    "no params": (lambda f: (f / "params.json").unlink(), "has no params.json"),
    "a page instead of params": (
        lambda f: (f / "params.json").write_text("<html>"),
        "params.json cannot be read",
    ),
    "a key is missing": (lambda f: (f / "params.json").write_text("{}"), "lacks the key"),
    "other sizes": (lambda f: rewrite(f / "params.json", dim=128), "do not fit params.json"),
    "no codec": (lambda f: shutil.rmtree(f / "dac_44khz"), "hf download descript/dac_44khz"),
    "an empty codec folder": (
        lambda f: (f / "dac_44khz" / "config.json").unlink(),
        "'dac_44khz' has no config.json",
    ),
    "a truncated codec": (
        lambda f: cut(f / "dac_44khz" / "model.safetensors"),
        "model.safetensors is damaged",
    ),
    "a codec of other sizes": (
        lambda f: rewrite(f / "dac_44khz" / "config.json", decoder_hidden_size=128),
        "do not fit",
    ),
    "a truncated encoder": (
        lambda f: cut(f / "speaker_encoder" / "model.safetensors"),
        "model.safetensors is damaged",
    ),
    "an encoder of other sizes": (
        lambda f: rewrite(f / "speaker_encoder" / "config.json", enc_dim=1024),
        "do not fit",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_in_one_sentence_and_nothing_is_left(folder: Path, fault: str) -> None:
    damage, told = FAULTS[fault]
    damage(folder)
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    threads = set(threading.enumerate())
    with pytest.raises(CheckpointError) as caught:
        Engine.open(folder, device="cpu", num_slots=1)
    assert told in caught.value.message
    assert caught.value.message.startswith("model: ")
    assert "\n" not in caught.value.message
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == files
    assert set(threading.enumerate()) <= threads


def test_a_checkpoint_in_shards_is_the_same_and_each_is_needed(folder: Path) -> None:
    def opened() -> np.ndarray:
        with Engine.open(folder, device="cpu", num_slots=1) as engine:
            return engine.speak("Hi.", seed=1, max_new_frames=12).read()[0]

    as_one = opened()
    (folder / "model.pth").unlink()
    make_release(folder, ends=False, n_layers=6, num_shards=3)
    np.testing.assert_array_equal(opened(), as_one)
    shard = folder / "model-00002-of-00003.safetensors"
    cut(shard)
    with pytest.raises(CheckpointError, match=r"model-00002-of-00003\.safetensors is damaged"):
        opened()
    shard.unlink()
    with pytest.raises(CheckpointError, match=r"has no model-00002-of-00003\.safetensors"):
        opened()
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"out_norm.weight": "../secret.safetensors"}}')
    with pytest.raises(CheckpointError, match="does not list the files beside it"):
        opened()


@pytest.mark.parametrize("place", ["model.pth", DESCRIPT_FILE, "speaker_encoder/model.safetensors"])
def test_a_pickle_bomb_does_not_go_off(folder: Path, tmp_path: Path, place: str) -> None:
    canary = tmp_path / "canary"
    (folder / place).write_bytes(pickle.dumps({"state_dict": Bomb(canary)}))
    with pytest.raises(CheckpointError, match=place.rpartition("/")[2]):
        Engine.open(folder, device="cpu", num_slots=1)
    assert not canary.exists()
    pickle.loads((folder / place).read_bytes())
    assert canary.exists(), "the bomb is live"


def test_too_little_memory_is_told_before_the_weights_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "model.pth").unlink()
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: 50_000_000)
    with pytest.raises(CheckpointError, match=r"of memory are missing on cpu: .* --slots \d+ fits"):
        Engine.open(folder, device="cpu", num_slots=8)


def test_without_an_encoder_it_speaks_and_says_what_to_fetch(folder: Path) -> None:
    shutil.rmtree(folder / "speaker_encoder")
    told: list[str] = []
    with Engine.open(folder, device="cpu", num_slots=1, progress=told.append) as mute:
        with pytest.raises(NotFound, match="without a speaker encoder"):
            mute.embed(np.ones(48_000, np.float32), 24_000)
        samples, _ = mute.speak("Hi.", seed=1, max_new_frames=10).read()
        assert samples.any()
    assert "to clone voices, fetch it with `hf download marksverdhei/" in told[0]
