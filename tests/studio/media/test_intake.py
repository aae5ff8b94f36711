"""Any recording, from anywhere: what comes out is a reference or a refusal that says why."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import InvalidReference, InvalidRequest, TooLarge
from studio.media.intake import (
    Reference,
    read_base64,
    read_bytes,
    read_file,
    read_open_file,
    read_stream,
)
from studio.media.limits import Limits
from tests.studio.media.memory import can_measure_growth, memory_growth

RATE_HZ = 24000
MANIFEST = json.loads(
    (Path(__file__).resolve().parents[2] / "fixtures/audio/manifest.json").read_text()
)["files"]


def outcome(path: Path) -> Reference | InvalidRequest:
    try:
        return read_file(path, sample_rate_hz=RATE_HZ, field="voice_sample")
    except InvalidRequest as error:
        return error


def status_of(result: Reference | InvalidRequest) -> int:
    return 413 if isinstance(result, TooLarge) else 400 if isinstance(result, Exception) else 200


def processor_time_s() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


def codes(reference: Reference) -> list[str]:
    return [note.code for note in reference.report.notes]


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_every_recording_from_the_field_gives_what_the_manifest_says(
    entry: dict, audio: Path, temporary: Path
) -> None:
    before_s = processor_time_s()
    with memory_growth() as growth:
        result = outcome(audio / entry["file"])
    assert processor_time_s() - before_s < 3  # not the clock's: the machine may be busy
    assert growth.peak_bytes < 100e6
    assert status_of(result) == entry["http"], result
    assert list(temporary.iterdir()) == []
    if isinstance(result, InvalidRequest):
        assert result.field == "voice_sample"
        assert result.message.startswith("voice_sample ")
        assert not any(word in result.message.lower() for word in ("ffmpeg", "/", "traceback"))
        return
    assert result.sample_rate_hz == RATE_HZ
    assert result.samples.dtype == np.float32 and result.samples.ndim == 1
    assert np.isfinite(result.samples).all()
    assert 0.1 < np.abs(result.samples).max() <= 1.0
    assert abs(result.samples.mean()) < 0.01
    assert len(result.samples) == round(result.report.seconds_used * RATE_HZ) <= 30 * RATE_HZ
    assert result.report.duration_s == pytest.approx(entry["ffmpeg_decoded_s"], abs=0.05)
    assert result.content_hash == hashlib.sha256(result.samples.tobytes()).hexdigest()


def test_the_manifest_is_whole(audio: Path) -> None:
    assert len(MANIFEST) == 62
    for entry in MANIFEST:
        digest = hashlib.sha256((audio / entry["file"]).read_bytes()).hexdigest()
        assert digest == entry["sha256"], entry["file"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ref_2min_speech.ogg", "only_beginning_used"),
        ("ref_8k_ulaw.wav", "narrow_band"),
        ("ref_dc_offset_0p4.wav", "constant_offset"),
        ("ref_float_over_unity.wav", "above_full_scale"),
        ("ref_hard_clipped.wav", "clipped"),
        ("ref_stereo_antiphase.wav", "channels_cancel"),
        ("ref_stereo_right_silent.wav", "one_channel_silent"),
        ("ref_6ch_centre_only.wav", "loudest_channel_used"),
        ("ref_truncated.mp3", "short"),
    ],
)
def test_what_is_special_about_a_recording_is_reported(name: str, code: str, audio: Path) -> None:
    assert code in codes(read_file(audio / name, sample_rate_hz=RATE_HZ))


def test_a_clean_recording_is_not_nagged_about(audio: Path) -> None:
    assert codes(read_file(audio / "ref_control_16k_mono.wav", sample_rate_hz=RATE_HZ)) == []


def test_human_recordings_have_no_warnings(shared_folder: Path) -> None:
    paths = sorted((shared_folder / "voices").glob("*.mp3"))
    if not paths:
        pytest.skip("no human recordings in the shared folder")
    for path in paths:
        assert read_file(path, sample_rate_hz=RATE_HZ).report.warnings() == "", path.name


def test_a_voice_keeps_its_level_whatever_channels_it_came_in(audio: Path) -> None:
    control = read_file(audio / "ref_control_16k_mono.wav", sample_rate_hz=RATE_HZ)
    for name in ("ref_stereo_right_silent", "ref_stereo_antiphase", "ref_6ch_centre_only"):
        reference = read_file(audio / f"{name}.wav", sample_rate_hz=RATE_HZ)
        assert reference.report.level_dbfs == pytest.approx(control.report.level_dbfs, abs=6)


def test_lossless_containers_of_the_same_samples_are_the_same_reference(audio: Path) -> None:
    hashes = {
        read_file(audio / name, sample_rate_hz=RATE_HZ).content_hash
        for name in ("ref_control_16k_mono.wav", "ref_aiff.aiff", "ref_rf64.wav")
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("sample_rate_hz", [16000, 24000, 44100])
def test_the_rate_asked_for_is_the_rate_that_comes(sample_rate_hz: int, audio: Path) -> None:
    reference = read_file(audio / "ref_96k.flac", sample_rate_hz=sample_rate_hz)
    assert reference.sample_rate_hz == sample_rate_hz
    assert len(reference.samples) / sample_rate_hz == pytest.approx(4.37, abs=0.02)


@pytest.mark.parametrize("length_s", [0.5, 0.9, 0.98])
def test_below_one_second_the_message_has_both_lengths(
    length_s: float, control: np.ndarray, to_wav
) -> None:
    with pytest.raises(InvalidReference, match=rf"{length_s:.2f} s of sound.* 1\.0 s are needed"):
        read_bytes(to_wav(control[: round(length_s * 16000)]), sample_rate_hz=RATE_HZ)


@pytest.mark.parametrize("length_s", [1.0, 2.0, 3.0])
def test_from_one_second_on_it_is_accepted(length_s: float, control: np.ndarray, to_wav) -> None:
    reference = read_bytes(to_wav(control[: round(length_s * 16000)]), sample_rate_hz=RATE_HZ)
    assert reference.report.seconds_used == pytest.approx(length_s, abs=0.15)


def test_half_a_second_of_voice_in_silence_is_too_short(control: np.ndarray, to_wav) -> None:
    sound = np.concatenate([np.zeros(48000), control[:8000], np.zeros(48000)])
    with pytest.raises(InvalidReference, match="of sound and at least"):
        read_bytes(to_wav(sound), sample_rate_hz=RATE_HZ)


@pytest.mark.parametrize("level", [0.0, 0.0005])
def test_silence_is_refused_as_silence(level: float, to_wav) -> None:
    hiss = level * np.random.default_rng(0).standard_normal(5 * 16000)
    with pytest.raises(InvalidReference, match="silent"):
        read_bytes(to_wav(hiss), sample_rate_hz=RATE_HZ)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_one_broken_value_is_refused(value: float, control: np.ndarray, to_wav) -> None:
    broken = control.copy()
    broken[20000] = value
    with pytest.raises(InvalidReference, match="not sound"):
        read_bytes(to_wav(broken, subtype="FLOAT"), sample_rate_hz=RATE_HZ)


def test_integers_written_as_floats_are_scaled(control: np.ndarray, to_wav) -> None:
    reference = read_bytes(to_wav(32768 * control, subtype="FLOAT"), sample_rate_hz=RATE_HZ)
    assert np.abs(reference.samples).max() == pytest.approx(1.0)
    assert "above_full_scale" in codes(reference)


def test_longer_than_ten_minutes_is_too_large_whether_declared_or_not(audio: Path, to_wav) -> None:
    bomb = bytearray((audio / "ref_3h_silence_bomb.flac").read_bytes())
    with pytest.raises(TooLarge, match="longer than 600 s"):
        read_bytes(bytes(bomb), sample_rate_hz=RATE_HZ)
    bomb[21] &= 0xF0  # STREAMINFO's count of samples: 0 means unknown
    bomb[22:26] = bytes(4)
    with pytest.raises(TooLarge, match="longer than 600 s"):
        read_bytes(bytes(bomb), sample_rate_hz=RATE_HZ)
    with pytest.raises(TooLarge):
        read_bytes(to_wav(np.ones(601 * 8000) * 0.1, 8000), sample_rate_hz=RATE_HZ)
    read_bytes(to_wav(np.resize([0.1, -0.1, 0.0], 599 * 8000), 8000), sample_rate_hz=RATE_HZ)


def test_the_size_is_counted_while_reading_and_reading_stops() -> None:
    served = []

    def endless() -> Iterator[bytes]:
        while True:
            served.append(1)
            yield bytes(1000)

    with pytest.raises(TooLarge, match="20 MB"):
        read_stream(endless(), sample_rate_hz=RATE_HZ)
    assert len(served) == 20_001
    with pytest.raises(TooLarge):
        read_bytes(bytes(20_000_001), sample_rate_hz=RATE_HZ)
    with pytest.raises(TooLarge):
        read_base64("A" * 26_666_672, sample_rate_hz=RATE_HZ)


def test_base64_counts_its_decoded_size(audio: Path) -> None:
    data = (audio / "ref_control_16k_mono.wav").read_bytes()
    text = "data:audio/wav;base64," + base64.encodebytes(data).decode()
    exact = Limits(size_bytes=len(data))
    reference = read_base64(text, sample_rate_hz=RATE_HZ, limits=exact)
    assert reference.content_hash == read_bytes(data, sample_rate_hz=RATE_HZ).content_hash
    with pytest.raises(TooLarge):
        read_base64(text, sample_rate_hz=RATE_HZ, limits=Limits(size_bytes=len(data) - 1))


def test_broken_base64_names_the_field_and_does_not_echo_the_value() -> None:
    with pytest.raises(InvalidReference) as refused:
        read_base64("secret!", sample_rate_hz=RATE_HZ, field="speaker_audio_base64")
    assert refused.value.field == "speaker_audio_base64"
    assert "secret" not in refused.value.message


def test_a_file_on_disk_is_measured_before_it_is_read(tmp_path: Path) -> None:
    big = tmp_path / "big.wav"
    with big.open("wb") as file:
        file.truncate(20_000_001)
    with pytest.raises(TooLarge):
        read_file(big, sample_rate_hz=RATE_HZ)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_what_is_not_a_regular_file_is_refused() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with (
        os.fdopen(reader, "rb") as pipe,
        pytest.raises(InvalidReference, match="not a file"),
    ):
        read_open_file(pipe, sample_rate_hz=RATE_HZ)


def test_a_client_that_goes_away_leaves_nothing_behind(audio: Path, temporary: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield (audio / "ref_control_16k_mono.wav").read_bytes()[:1000]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        read_stream(broken(), sample_rate_hz=RATE_HZ)
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="processor time is measured on POSIX")
def test_a_usual_recording_takes_far_less_than_half_a_second_of_one_core(audio: Path) -> None:
    data = (audio / "ref_phone_aac_moov_end_27s.m4a").read_bytes()
    before_s = processor_time_s()
    for _ in range(4):
        read_bytes(data, sample_rate_hz=RATE_HZ)
    assert (processor_time_s() - before_s) / 4 < 0.5  # 0.15 s measured


@pytest.mark.skipif(not can_measure_growth, reason="the peak of memory is measured on Linux")
def test_base64_is_decoded_in_pieces() -> None:
    text = "A" * 26_000_000
    with pytest.raises(InvalidReference), memory_growth() as growth:
        read_base64(text, sample_rate_hz=RATE_HZ)
    assert growth.peak_bytes < 10e6  # not the 20 MB of the whole
