"""No path leads out of the media folder, and no reply tells what is there."""

import os
import threading
import time
from pathlib import Path

import pytest

from engine import InvalidReference
from studio.media.fetch import FetchPolicy
from studio.media.local import open_local
from studio.media.sources import Sources, read_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="local paths are refused here")

SECRET = b"secret"


@pytest.fixture
def media_root(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    (root / "inside").mkdir(parents=True)
    (root / "inside" / "ok.wav").write_bytes(b"recording")
    (tmp_path / "secret.wav").write_bytes(SECRET)
    (tmp_path / "media-two").mkdir()
    (tmp_path / "media-two" / "secret.wav").write_bytes(SECRET)
    (root / "link.wav").symlink_to(tmp_path / "secret.wav")
    (root / "linked").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "absolute").symlink_to("/etc/passwd")
    os.mkfifo(root / "fifo.wav")
    return root


ATTACKS = [
    "../secret.wav",
    "inside/../../secret.wav",
    "inside/../inside/ok.wav",
    "./inside/ok.wav",
    "inside/./ok.wav",
    "inside//ok.wav",
    "inside/ok.wav/",
    "inside",
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "{parent}/secret.wav",
    "{parent}/media-two/secret.wav",
    "{root}-two/secret.wav",
    "{root}/../secret.wav",
    "{root}//inside/ok.wav",
    "{root}",
    "~/secret.wav",
    "~root/.bashrc",
    "$HOME/secret.wav",
    "..%2fsecret.wav",
    "%2e%2e/secret.wav",
    "..%252fsecret.wav",
    "..\\secret.wav",
    "inside\\ok.wav",
    "..%5csecret.wav",
    "....//secret.wav",
    "..;/secret.wav",
    "．．/secret.wav",
    "..\u2215secret.wav",
    "\u002e\u002e\u2044secret.wav",
    "C:\\secret.wav",
    "C:/secret.wav",
    "\\\\host\\share\\secret.wav",
    "CON",
    "NUL.wav",
    "inside/ok.wav\0.txt",
    "inside/ok.wav%00",
    "\0",
    "\ud800.wav",
    "link.wav",
    "linked/secret.wav",
    "linked/media/inside/ok.wav",
    "loop",
    "loop/ok.wav",
    "absolute",
    "fifo.wav",
    "absent.wav",
    "absent/absent.wav",
    "a" * 300,
    "a/" * 2500 + "ok.wav",
    "inside/" + "b" * 5000,
    "file:///etc/passwd",
    "file://{parent}/secret.wav",
    "file://{root}/../secret.wav",
    "file://{root}/%2e%2e/secret.wav",
    "file://{root}/..%2fsecret.wav",
    "file://{root}/link.wav",
    "file://elsewhere{root}/inside/ok.wav",
    "file://127.0.0.1{root}/inside/ok.wav",
    "file:inside/ok.wav",
    "file://inside/ok.wav",
    "file:////etc/passwd",
    "file://{root}/inside/ok%00.wav",
    "file://{root}/%ff%fe.wav",
]


def refusal(text: str, media_root: Path | None) -> str:
    with pytest.raises(InvalidReference) as refused, open_local(text, media_root):
        pass
    return refused.value.message


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_every_way_out_ends_in_the_one_sentence(attack: str, media_root: Path) -> None:
    text = attack.format(root=media_root, parent=media_root.parent)
    message = refusal(text, media_root)  # a FIFO without a writer would be waited for without end
    assert message == refusal("absent.wav", media_root) == refusal("x", None)
    assert str(media_root) not in message and "secret" not in message


def test_the_good_path_beside_the_attacks_opens(media_root: Path) -> None:
    with open_local("inside/ok.wav", media_root) as file:
        assert file.read() == b"recording"


@pytest.mark.parametrize("attack", [text for text in ATTACKS if "." in text], ids=ascii)
def test_the_way_of_a_request_refuses_them_too(attack: str, media_root: Path) -> None:
    sources = Sources(24000, FetchPolicy(allows_public=False), media_root)
    text = attack.format(root=media_root, parent=media_root.parent)
    with pytest.raises(InvalidReference) as refused:
        read_text(text, sources)
    assert str(media_root) not in refused.value.message


@pytest.mark.parametrize("swapped", ["inside", "inside/ok.wav"])
def test_a_link_swapped_in_at_the_wrong_moment_is_never_followed(
    swapped: str, media_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "ok.wav").write_bytes(SECRET)
    target = media_root / swapped
    aside = media_root / "aside"
    link = tmp_path / "link"
    link.symlink_to(tmp_path if swapped == "inside" else tmp_path / "ok.wav")
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            target.rename(aside)
            link.rename(target)
            target.rename(link)
            aside.rename(target)

    swapper = threading.Thread(target=swap)
    swapper.start()
    opened, refused = 0, 0
    begin_s = time.monotonic()
    try:
        # Until the race was really run, however seldom one of the two threads gets a turn.
        while (age_s := time.monotonic() - begin_s) < 60:
            if age_s > 1 and opened and refused:
                break
            try:
                with open_local("inside/ok.wav", media_root) as file:
                    assert file.read() == b"recording"
                opened += 1
            except InvalidReference:
                refused += 1
    finally:
        is_over.set()
        swapper.join()
    assert opened and refused  # the race was really run
