"""The decode child: its limits hold, it leaves nothing behind, and it always decodes the same."""

import os
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from studio.media import decode as decode_module
from studio.media.decode import Decoded, DecodeError, TooLong, decode, ffmpeg_path
from studio.media.limits import DEFAULT_LIMITS, Limits

SCRIPT = Path(decode_module.__file__).with_name("limited_child.py")
RATE_HZ = 24000
# Sun AU: magic, offset 24, unknown size, float32, 24,000 Hz, one channel.
AU_HEADER = struct.pack(">4s5I", b".snd", 24, 0xFFFFFFFF, 6, RATE_HZ, 1)
WRITE_HEADER = f"os.write(1, {AU_HEADER!r})"
SLEEP = "time.sleep(60)"
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
FLOOD = "[os.write({where}, bytes(65536)) for _ in range({times})]"

only_posix = pytest.mark.skipif(os.name != "posix", reason="limits of the process are POSIX")


@pytest.fixture
def play_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put other statements in the decoder's place."""

    def play(*statements: str) -> None:
        program, python = tmp_path / "decoder", tmp_path / "python"
        python.symlink_to(sys.executable)  # whose own path may hold a space
        lines = (f"#!{python} -IS", "import os, signal, time", *statements)
        program.write_text("\n".join(lines))
        program.chmod(0o700)
        monkeypatch.setattr(decode_module, "ffmpeg_path", lambda: str(program))

    return play


def decode_file(path: Path, limits: Limits = DEFAULT_LIMITS, demuxer: str = "wav") -> Decoded:
    with path.open("rb") as file:
        return decode(file, demuxer, RATE_HZ, limits)


def limited(*command: str, memory_bytes: int = 1 << 29) -> str:
    """Run a program under the limits of the decode child and return what it prints."""
    finished = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), str(memory_bytes), "7", *command],
        env={"SECRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return finished.stdout + finished.stderr


def test_the_same_file_gives_the_same_samples_every_time(audio: Path) -> None:
    path = audio / "ref_2min_speech.ogg"
    first, again = (decode_file(path, demuxer="ogg") for _ in range(2))
    np.testing.assert_array_equal(first.samples, again.samples)
    assert first.samples.shape == (30 * RATE_HZ, 1)
    assert first.samples.dtype == np.float32
    assert first.is_cut
    assert first.duration_s == pytest.approx(128.45, abs=0.02)


def test_digital_silence_before_the_sound_does_not_use_up_the_kept_seconds(
    control: np.ndarray, to_wav, tmp_path: Path
) -> None:
    late = tmp_path / "late.wav"
    late.write_bytes(to_wav(np.concatenate([np.zeros(40 * 16000, np.float32), control])))
    decoded = decode_file(late)
    assert decoded.skipped_s == 40.0
    assert len(decoded.samples) / RATE_HZ == pytest.approx(4.59, abs=0.01)
    assert not decoded.is_cut


def test_silence_behind_the_kept_seconds_is_not_a_cut(
    control: np.ndarray, to_wav, tmp_path: Path
) -> None:
    padded = tmp_path / "padded.wav"
    padded.write_bytes(to_wav(np.concatenate([control, np.zeros(60 * 16000, np.float32)])))
    assert not decode_file(padded).is_cut


@pytest.mark.parametrize("tag", ["Duration: 20:00:00.00", "a\n  Duration: 20:00:00.00, start"])
def test_what_a_tag_says_about_the_duration_is_not_believed(
    tag: str, audio: Path, tmp_path: Path
) -> None:
    tagged = tmp_path / "tagged.m4a"
    source = ["-i", str(audio / "ref_phone_aac.m4a"), "-c", "copy", "-metadata", f"comment={tag}"]
    subprocess.run([ffmpeg_path(), "-v", "error", *source, str(tagged)], check=True)
    assert b"20:00:00" in tagged.read_bytes()
    assert decode_file(tagged, demuxer="mov").duration_s == pytest.approx(4.59, abs=0.02)


@pytest.mark.parametrize(("codec", "muxer"), [("mp2", "mp2"), ("libmp3lame", "mp3")])
def test_both_layers_of_mpeg_audio_are_decoded(
    codec: str, muxer: str, audio: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    source = ["-i", str(audio / "ref_control_16k_mono.wav"), "-c:a", codec, "-ar", "24000"]
    subprocess.run([ffmpeg_path(), "-v", "error", *source, "-f", muxer, str(made)], check=True)
    assert decode_file(made, demuxer="mp3").duration_s == pytest.approx(4.59, abs=0.1)


@only_posix
def test_the_child_has_no_environment_no_files_and_little_of_everything() -> None:
    assert limited("/usr/bin/env") == "MALLOC_ARENA_MAX=1\n"
    limits = limited("/bin/cat", "/proc/self/limits")
    if not limits:
        pytest.skip("no /proc: this system cannot show the limits of a process")
    for name, value in (
        ("Max address space", str(1 << 29)),
        ("Max cpu time", "7"),
        ("Max file size", "0"),
        ("Max core file size", "0"),
        ("Max open files", "6"),
    ):
        row = next(line for line in limits.splitlines() if line.startswith(name))
        assert row.removeprefix(name).split()[:2] == [value, value], row


@only_posix
def test_the_child_cannot_write_a_file(tmp_path: Path) -> None:
    target = tmp_path / "written"
    write = f"open({str(target)!r}, 'wb', 0).write(b'something')"
    assert "too large" in limited(sys.executable, "-IS", "-c", write)
    assert not target.exists() or target.stat().st_size == 0


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux")
def test_the_child_has_no_network_where_the_kernel_permits() -> None:
    permitted = subprocess.run(["unshare", "-U", "-n", "true"], capture_output=True)
    if permitted.returncode:
        pytest.skip("this kernel or container does not permit network namespaces")
    devices = limited("/bin/cat", "/proc/self/net/dev").splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]


@only_posix
def test_a_decoder_that_wants_too_much_memory_is_refused(audio: Path) -> None:
    with pytest.raises(DecodeError):
        decode_file(audio / "ref_control_16k_mono.wav", Limits(memory_bytes=16 << 20))


@only_posix
def test_a_decoder_that_spins_is_ended_by_its_cpu_limit(audio: Path, play_decoder) -> None:
    play_decoder("while True: pass")
    begin_s = time.monotonic()
    with pytest.raises(DecodeError, match="memory or time"):
        decode_file(audio / "ref_control_16k_mono.wav", Limits(cpu_s=1, wall_s=60))
    assert time.monotonic() - begin_s < 30


@only_posix
@pytest.mark.parametrize("statements", [(SLEEP,), (WRITE_HEADER, SLEEP)])
def test_a_decoder_that_hangs_is_ended_by_the_wall_clock(
    statements: tuple[str, ...], audio: Path, temporary: Path, play_decoder
) -> None:
    play_decoder(*statements)
    begin_s = time.monotonic()
    with pytest.raises(DecodeError, match="takes too long"):
        decode_file(audio / "ref_control_16k_mono.wav", Limits(wall_s=0.3))
    assert time.monotonic() - begin_s < 30  # half of what it would sleep
    assert list(temporary.iterdir()) == []


@only_posix
@pytest.mark.parametrize("statements", [(KILL,), (WRITE_HEADER, KILL)])
def test_a_killed_decoder_is_a_refusal(
    statements: tuple[str, ...], audio: Path, play_decoder
) -> None:
    play_decoder(*statements)
    with pytest.raises(DecodeError, match="more memory or time"):
        decode_file(audio / "ref_control_16k_mono.wav")


@only_posix
def test_endless_output_is_cut_at_the_longest_duration(audio: Path, play_decoder) -> None:
    play_decoder(WRITE_HEADER, FLOOD.format(where=1, times=1_000_000))
    with pytest.raises(TooLong):
        decode_file(audio / "ref_control_16k_mono.wav", Limits(max_duration_s=20))


@only_posix
def test_endless_messages_neither_block_nor_fill_the_memory(audio: Path, play_decoder) -> None:
    play_decoder(WRITE_HEADER, FLOOD.format(where=2, times=300), "os.write(1, bytes(48000))")
    assert decode_file(audio / "ref_control_16k_mono.wav").duration_s == 0.5


@only_posix
@pytest.mark.parametrize("output", [b"", b".snd", bytes(24), AU_HEADER])
def test_a_decoder_that_writes_no_sound_is_a_refusal(
    output: bytes, audio: Path, play_decoder
) -> None:
    play_decoder(f"os.write(1, {output!r})")
    with pytest.raises(DecodeError, match="no sound"):
        decode_file(audio / "ref_control_16k_mono.wav")


def test_more_channels_than_a_studio_has_are_refused(
    control: np.ndarray, to_wav, tmp_path: Path
) -> None:
    wide = tmp_path / "wide.wav"
    wide.write_bytes(to_wav(np.tile(control[:16000, None], (1, 9))))
    with pytest.raises(DecodeError, match="9 channels; the limit is 8"):
        decode_file(wide)


@pytest.mark.parametrize(
    ("name", "demuxer"),
    [
        ("ref_control_16k_mono.wav", "wav"),
        ("ref_m4a_missing_moov.m4a", "mov"),
        ("ref_3h_silence_bomb.flac", "flac"),
        ("ref_video_no_audio.mp4", "mov"),
    ],
)
def test_nothing_is_left_in_the_temporary_folder(
    name: str, demuxer: str, audio: Path, temporary: Path
) -> None:
    try:
        decode_file(audio / name, demuxer=demuxer)
    except DecodeError:
        assert name != "ref_control_16k_mono.wav"
    assert list(temporary.iterdir()) == []


@only_posix
def test_the_working_folder_is_private_empty_and_gone_after_a_kill(
    audio: Path, tmp_path: Path, temporary: Path, play_decoder
) -> None:
    seen = tmp_path / "seen"
    play_decoder(f"while not os.path.exists({str(seen)!r}): time.sleep(0.01)", KILL)
    outcome = []

    def run() -> None:
        with pytest.raises(DecodeError):
            decode_file(audio / "ref_control_16k_mono.wav", Limits(wall_s=60))
        outcome.append("refused")

    worker = threading.Thread(target=run)
    worker.start()
    try:
        deadline_s = time.monotonic() + 50
        while not (folders := list(temporary.iterdir())) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700]
        assert list(folders[0].iterdir()) == []
    finally:
        seen.touch()
        worker.join()
    assert outcome == ["refused"]
    assert list(temporary.iterdir()) == []


def test_a_missing_decoder_is_our_fault_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import imageio_ffmpeg

    old = tmp_path / "ffmpeg"
    old.write_text("#!/bin/sh\necho ' file pipe http'\n")
    old.chmod(0o700)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(old))
    monkeypatch.setattr(decode_module.shutil, "which", lambda *_, **__: None)
    ffmpeg_path.cache_clear()
    try:
        with pytest.raises(RuntimeError, match="imageio-ffmpeg"):
            ffmpeg_path()
    finally:
        ffmpeg_path.cache_clear()
