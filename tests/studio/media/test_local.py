"""Local paths: what lies below the media folder opens, under each of its names."""

from pathlib import Path

import pytest

from engine import InvalidReference
from studio.media.local import open_local


@pytest.fixture
def media_root(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    (root / "people").mkdir(parents=True)
    (root / "people" / "Zoë & co.wav").write_bytes(b"recording")
    (root / "plain").write_bytes(b"recording")
    return root


@pytest.mark.parametrize(
    "name",
    [
        "people/Zoë & co.wav",
        "plain",
        "{root}/people/Zoë & co.wav",
        "file://{root}/people/Zo%C3%AB%20%26%20co.wav",
        "file://localhost{root}/plain",
        "FILE://{root}/plain",
    ],
)
def test_a_recording_below_the_root_opens(name: str, media_root: Path) -> None:
    with open_local(name.format(root=media_root), media_root) as file:
        assert file.read() == b"recording"


def test_without_a_media_folder_nothing_opens(media_root: Path) -> None:
    with pytest.raises(InvalidReference, match="--media-root"):
        open_local(str(media_root / "plain"), None)


def test_the_field_is_named(media_root: Path) -> None:
    with pytest.raises(InvalidReference) as refused:
        open_local("absent.wav", media_root, field="audio_path")
    assert refused.value.field == "audio_path"
    assert refused.value.message.startswith("audio_path ")
