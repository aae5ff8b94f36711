"""A model's name as folders: local ones as they are, repositories whole and checked or not."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import huggingface_hub.file_download
import pytest

import engine.download
from engine.errors import CheckpointError
from engine.hub import (
    CHECKPOINT,
    CODEC_REPOSITORY,
    ENCODER_REPOSITORY,
    PINNED,
    CheckpointFiles,
    locate,
)
from tests.shadow.hub import FakeHub, fake_hub

RELEASE = "Zyphra/ZONOS2"
WEIGHTS = bytes(range(256)) * 400


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub that serves the release and both companions; the cache is empty, nobody waits."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 60)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    monkeypatch.setattr(engine.download, "ANSWER_S", 60.0)
    monkeypatch.setattr(
        huggingface_hub.file_download, "time", SimpleNamespace(sleep=lambda seconds: None)
    )
    with fake_hub() as hub:
        hub.add(RELEASE, release_in(tmp_path / "release"), PINNED[RELEASE])
        hub.add(CODEC_REPOSITORY, companion_in(tmp_path / "codec"), "c" * 40)
        hub.add(ENCODER_REPOSITORY, companion_in(tmp_path / "encoder"), "e" * 40)
        yield hub


def release_in(folder: Path) -> Path:
    """A repository with the release's files; only params.json has to be right here."""
    folder.mkdir()
    tiny = Path(__file__).parents[1] / "golden" / "tiny_checkpoint" / "params.json"
    params = tiny.read_text().replace('"speaker_embedding_dim":96', '"speaker_embedding_dim":2048')
    (folder / "params.json").write_text(params)
    (folder / "model.pth").write_bytes(WEIGHTS)
    (folder / "modeling_zonos.py").write_text("raise SystemExit")
    return folder


def companion_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(folder.name.encode() * 1000)
    return folder


def cached_files(tmp_path: Path) -> set[str]:
    """Everything in the cache that another program would take for a file of a model."""
    return {path.name for path in (tmp_path / "cache").glob("models--*/snapshots/*/**/*.*")}


def test_a_repository_and_its_companions_are_fetched_and_told(hub: FakeHub, tmp_path: Path) -> None:
    told: list[str] = []
    files = locate(RELEASE, endpoint=hub.url, progress=told.append)
    assert files.name == RELEASE
    assert (files.folder / "model.pth").read_bytes() == WEIGHTS
    assert (files.codec_folder / "model.safetensors").read_bytes() == b"codec" * 1000
    assert files.encoder_folder is not None
    assert (files.encoder_folder / "model.safetensors").read_bytes() == b"encoder" * 1000
    assert files.folder.name == PINNED[RELEASE]
    assert f"model.pth: sha256 {hashlib.sha256(WEIGHTS).hexdigest()}, as the hub promises" in told
    assert any(line.startswith(f"{RELEASE} at {PINNED[RELEASE][:12]}: 102.4 kB") for line in told)
    assert any("model.pth: 102.4 kB of 102.4 kB (100%)" in line for line in told)
    assert any(CODEC_REPOSITORY in line and "not pinned" in line for line in told)
    assert not hub.fetched("modeling_zonos.py"), "code is never fetched"


def test_what_was_fetched_once_needs_no_network(hub: FakeHub) -> None:
    first = locate("Zyphra/zonos2", endpoint=hub.url)
    hub.requests.clear()
    assert locate(RELEASE, endpoint=hub.url) == first
    assert locate(RELEASE, offline=True) == first
    assert not hub.requests


def test_params_are_seen_before_anything_large_travels(hub: FakeHub) -> None:
    def refuse(folder: Path) -> None:
        assert (folder / "params.json").is_file()
        raise CheckpointError("model: too large.")

    with pytest.raises(CheckpointError, match="too large"):
        locate(RELEASE, endpoint=hub.url, check=refuse)
    assert not hub.fetched("model.pth")


def test_a_full_disk_is_told_before_anything_large_travels(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(disk_usage=lambda folder: SimpleNamespace(free=50_000))
    monkeypatch.setattr(engine.download, "shutil", disk)
    with pytest.raises(CheckpointError, match=r"102\.4 kB more on the disk .* 50\.0 kB are free"):
        locate(RELEASE, endpoint=hub.url)
    assert not hub.fetched("model.pth")


def test_a_connection_that_breaks_once_is_gone_on_with(hub: FakeHub) -> None:
    hub.dies_after, hub.comes_back = {"model.pth": 40_000}, True
    files = locate(RELEASE, endpoint=hub.url)
    assert (files.folder / "model.pth").read_bytes() == WEIGHTS
    assert "bytes=40000-" in hub.fetched("model.pth")


def test_a_hub_that_dies_halfway_leaves_nothing_to_open_and_the_next_try_goes_on(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.dies_after = {"model.pth": 40_000}
    with pytest.raises(CheckpointError, match="what has arrived is kept") as caught:
        locate(RELEASE, endpoint=hub.url)
    assert "\n" not in caught.value.message
    assert cached_files(tmp_path) == {"params.json"}
    hub.is_dead = False
    hub.requests.clear()
    told: list[str] = []
    files = locate(RELEASE, endpoint=hub.url, progress=told.append)
    assert (files.folder / "model.pth").read_bytes() == WEIGHTS
    assert set(hub.fetched("model.pth")) == {"bytes=40000-"}
    assert "model.pth: goes on at 40.0 kB of 102.4 kB" in told


@pytest.mark.parametrize("length", ["same", "longer"])
def test_a_wrong_checksum_is_told_with_both_and_thrown_away(
    hub: FakeHub, tmp_path: Path, length: str
) -> None:
    hub.spoilt = {"model.pth"}
    if length == "longer":
        blobs = tmp_path / "cache" / "models--Zyphra--ZONOS2" / "blobs"
        blobs.mkdir(parents=True)
        (blobs / f"{hashlib.sha256(WEIGHTS).hexdigest()}.part").write_bytes(bytes(200_000))
    with pytest.raises(CheckpointError) as caught:
        locate(RELEASE, endpoint=hub.url)
    spoilt = bytes(byte ^ 255 for byte in WEIGHTS)
    for content in (WEIGHTS, spoilt):
        assert hashlib.sha256(content).hexdigest() in caught.value.message
    assert cached_files(tmp_path) == {"params.json"}
    assert not list((tmp_path / "cache").rglob("*.part"))
    hub.spoilt.clear()
    assert (locate(RELEASE, endpoint=hub.url).folder / "model.pth").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "refused by the hub (401); log in"),
        (403, "refused by the hub (403)"),
        (404, "answered 404"),
        (429, "answered 429"),
        (500, "answered 500"),
        (200, "the answer is none of a hub"),
    ],
)
def test_a_hub_that_refuses_is_told_in_one_sentence(hub: FakeHub, status: int, told: str) -> None:
    hub.status = status
    with pytest.raises(CheckpointError) as caught:
        locate(RELEASE, endpoint=hub.url)
    assert told in caught.value.message
    assert caught.value.message.startswith(f"model: {RELEASE} ")
    assert "\n" not in caught.value.message


def test_a_hub_that_hangs_or_is_away_is_told_in_one_sentence(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.download, "ANSWER_S", 0.5)
    hub.is_silent = True
    with pytest.raises(CheckpointError, match="the hub does not answer"):
        locate(RELEASE, endpoint=hub.url)
    with pytest.raises(CheckpointError, match=r"could not be fetched .* check the network"):
        locate(RELEASE, endpoint="http://127.0.0.1:9")


def test_names_that_are_not_there_are_told(hub: FakeHub) -> None:
    with pytest.raises(CheckpointError, match=r"someone/else is not on the hub, or private"):
        locate("someone/else", endpoint=hub.url)
    with pytest.raises(CheckpointError, match=r"has no revision 'v9'"):
        locate(RELEASE, revision="v9", endpoint=hub.url)
    with pytest.raises(
        CheckpointError, match=r"must hold params.json and one of model.safetensors"
    ):
        locate(CODEC_REPOSITORY, endpoint=hub.url)


@pytest.mark.parametrize("model", ["nowhere", "../up", "a/b/c", "https://host/a/b", ""])
def test_neither_folder_nor_repository_is_told(model: str) -> None:
    with pytest.raises(CheckpointError, match="there is no folder"):
        locate(model)


def test_a_cold_cache_offline_names_the_repository_and_the_command(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError) as caught:
        locate(RELEASE, offline=True)
    command = f"hf download {RELEASE} --revision {PINNED[RELEASE]}"
    assert "offline" in caught.value.message
    assert command in caught.value.message
    # Only a companion is missing: it is that one which is named.
    hub.repositories.pop(CODEC_REPOSITORY)
    with pytest.raises(CheckpointError, match=f"{CODEC_REPOSITORY} is not on the hub"):
        locate(RELEASE, endpoint=hub.url)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=f"hf download {CODEC_REPOSITORY}`"):
        locate(RELEASE, endpoint=hub.url)


def test_of_two_weight_files_one_is_fetched(hub: FakeHub, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    for name, source in (("dac_44khz", "codec"), ("speaker_encoder", "encoder")):
        shutil.copytree(tmp_path / source, folder / name)
        (folder / name / "modeling.py").write_text("raise SystemExit")
    files = locate(RELEASE, endpoint=hub.url)
    assert not hub.fetched("model.pth")
    assert files == CheckpointFiles(RELEASE, files.folder, files.folder, files.folder)
    assert not hub.fetched(".py")
    assert (files.folder / "dac_44khz" / "model.safetensors").is_file()
    assert (files.folder / "speaker_encoder" / "config.json").is_file()


def test_everything_of_the_embedded_model_would_be_fetched() -> None:
    nano = Path(__file__).parents[2] / "assets" / "nano"
    names = [path.name for path in nano.iterdir()]
    assert set(CHECKPOINT.names(names)) == set(names) - {"NOTICE", "README.md"}


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    folder = release_in(tmp_path / "mine")
    with pytest.raises(CheckpointError) as caught:
        locate(folder)
    assert f"hf download {CODEC_REPOSITORY} config.json" in caught.value.message
    assert str(folder / "dac_44khz") in caught.value.message
    companion_in(folder / "dac_44khz")
    told: list[str] = []
    assert locate(folder, progress=told.append) == CheckpointFiles("mine", folder, folder, None)
    assert ENCODER_REPOSITORY in told[0]
    assert str(folder / "speaker_encoder") in told[0]
    companion_in(folder / "speaker_encoder")
    assert locate(str(folder)) == CheckpointFiles("mine", folder, folder, folder)
