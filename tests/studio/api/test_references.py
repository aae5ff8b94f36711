"""Recordings from the field, as a speech request brings them: every one, in every spelling."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from engine import Engine
from studio.api.body import MAX_BODY_BYTES
from studio.media.decode import ffmpeg_path
from studio.media.intake import read_file
from studio.server import create_api
from studio.settings import Settings
from tests.studio.media.memory import memory_growth

AUDIO = Path(__file__).resolve().parents[2] / "fixtures" / "audio"
MANIFEST = json.loads((AUDIO / "manifest.json").read_text())["files"]
CONTROL = AUDIO / "ref_control_16k_mono.wav"
# The shortest sound: what is asked here is the recording.
SHORT = {"input": "Please close the door.", "seed": 1, "max_new_tokens": 10}


def bare(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_uri(data: bytes, kind: str = "audio/wav") -> str:
    return f"data:{kind};base64,{bare(data)}"


# What X-Warnings must say; the control must not be nagged about.
WARNINGS = {
    "ref_2min_speech.ogg": "Of 128.5 s only the first 30.0 s of sound were used",
    "ref_6ch_centre_only.wav": "Of 6 channels only the loudest (number 3)",
    "ref_8k_ulaw.wav": "as on a telephone",
    "ref_control_16k_mono.wav": "",
    "ref_dc_offset_0p4.wav": "A constant offset of 0.40 was removed",
    "ref_hard_clipped.wav": "is clipped",
    "ref_stereo_antiphase.wav": "cancel each other",
    # nano's encoder leans on what lies below 300 Hz: without it the cosine to the control is 0.47.
    "ref_telephone_band_sox.wav": "as on a telephone",
    "ref_truncated.mp3": "5 to 20 s give a closer voice",
}
# What programs call base64, without a data: URI around it.
SPELLINGS: tuple[Callable[[bytes], str], ...] = (
    bare,
    lambda data: base64.encodebytes(data).decode(),  # lines of 76
    lambda data: base64.urlsafe_b64encode(data).decode(),
    lambda data: bare(data).rstrip("="),
    lambda data: "\r\n".join(re.findall(".{1,64}", bare(data))) + "\r\n",
)


def processor_time_s() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.fixture
def post(client, engine: Engine):
    engine.encoder.warm()
    return lambda fields: client.post("/v1/audio/speech", json=SHORT | fields)


def check_refusal(response, field: str) -> str:
    """The refusal's sentence: it names the field and nothing of how we decode."""
    error = response.json()["error"]
    assert error["param"] == field
    assert error["message"].startswith(field) and error["message"].endswith(".")
    assert not re.search("ffmpeg|[/\\\\]|traceback|exit", error["message"], re.IGNORECASE)
    assert response.json()["detail"] == error["message"]
    return error["message"]


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_every_recording_gets_the_answer_of_the_manifest(entry: dict, post) -> None:
    data = (AUDIO / entry["file"]).read_bytes()
    before_s = processor_time_s()
    with memory_growth() as growth:
        response = post({"ref_audio": data_uri(data)})
    assert processor_time_s() - before_s < 3  # not the clock's: the machine may be busy
    assert growth.peak_bytes < 100e6
    assert response.status_code == entry["http"]
    if entry["http"] == 200:
        assert response.content[:4] == b"RIFF"
        warnings = response.headers.get("X-Warnings", "")
        expected = WARNINGS.get(entry["file"])
        assert warnings.isascii()
        assert expected is None or (expected in warnings if expected else warnings == "")
    else:
        check_refusal(response, "ref_audio")


def check_spellings(entry: dict, spellings: Sequence[Callable[[bytes], str]], post) -> None:
    """Bare base64 is answered like the same recording in a data: URI, under its own field."""
    data = (AUDIO / entry["file"]).read_bytes()
    as_uri = post({"ref_audio": data_uri(data)})
    for spell in spellings:
        as_text = post({"references": [{"data": spell(data)}]})
        assert as_text.status_code == as_uri.status_code == entry["http"]
        if entry["http"] == 200:
            assert as_text.content == as_uri.content
            assert as_text.headers.get("X-Warnings") == as_uri.headers.get("X-Warnings")
        else:
            sentence = check_refusal(as_uri, "ref_audio")
            field = "references[0].data"
            assert check_refusal(as_text, field) == sentence.replace("ref_audio", field)


@pytest.mark.parametrize("file", ["ref_mp3_named_wav.wav", "ref_random_bytes.wav"])
def test_bare_base64_has_many_spellings(file: str, post) -> None:
    (entry,) = (entry for entry in MANIFEST if entry["file"] == file)
    check_spellings(entry, SPELLINGS, post)


@pytest.mark.slow
@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_every_recording_gets_it_as_bare_base64_too(entry: dict, post) -> None:
    check_spellings(entry, [SPELLINGS[MANIFEST.index(entry) % len(SPELLINGS)]], post)


def test_after_all_that_the_control_is_still_answered(post) -> None:
    assert post({"ref_audio": data_uri(CONTROL.read_bytes())}).status_code == 200


@pytest.mark.parametrize("kind", ["", "application/octet-stream", "audio/x-wav;codecs=opus"])
def test_the_media_type_of_a_data_uri_is_not_believed(kind: str, post) -> None:
    data = (AUDIO / "ref_phone_aac.m4a").read_bytes()
    assert post({"ref_audio": data_uri(data, kind)}).status_code == 200


# Cosines to the same sentence in the control file. Lossless, and at the rate or above it: 0.98.
# Lossy: 0.9. At 8 kHz, of one channel of several and of half the sentence: as cases.json has them.
SAME_SPEECH = {
    **dict.fromkeys(
        (
            *("ref_24bit.wav", "ref_32float.wav", "ref_8bit_unsigned.wav", "ref_96k.flac"),
            *("ref_aiff.aiff", "ref_dc_offset_0p4.wav", "ref_extensible_24bit.wav"),
            *("ref_ffmpeg_pipe_ffffffff.wav", "ref_flac.flac", "ref_float_over_unity.wav"),
            *("ref_list_chunk_before_data.wav", "ref_rf64.wav", "ref_size_zero_placeholder.wav"),
            "ref_voice_memo_alac.m4a",
        ),
        0.98,
    ),
    **dict.fromkeys(
        (
            *("ref_m4a_named_mp3.mp3", "ref_mediarecorder_live_noduration.webm"),
            *("ref_mediarecorder_opus.webm", "ref_mp3_named_wav.wav", "ref_mp3_vbr_id3_art.mp3"),
            *("ref_phone_aac.m4a", "ref_phone_aac_moov_end.m4a", "ref_phone_aac_moov_end_27s.m4a"),
            *("ref_raw_adts.aac", "ref_safari_recorder_fragmented.mp4", "ref_truncated.mp3"),
            *("ref_video_with_audio.mp4", "ref_voice_note_opus.ogg", "ref_vorbis.ogg"),
            *("ref_2min_speech.ogg", "ref_truncated_mid_data.wav"),
        ),
        0.90,
    ),
    **dict.fromkeys(("ref_stereo_antiphase.wav", "ref_stereo_right_silent.wav"), 0.85),
    **dict.fromkeys(
        (
            *("ref_64float.wav", "ref_6ch_centre_only.wav", "ref_8k_adpcm_ima.wav"),
            *("ref_8k_ulaw.wav", "ref_no_extension", "ref_samsung_like_ulaw_mov.mov"),
            *("ref_uppercase_ext.WAV", "ref_hard_clipped.wav"),
        ),
        0.75,
    ),
}


@pytest.fixture(scope="module")
def embedding_of(engine: Engine) -> Callable[[Path], torch.Tensor]:
    def embed(path: Path) -> torch.Tensor:
        reference = read_file(path, sample_rate_hz=engine.encoder.sample_rate_hz)
        return engine.embed(reference.samples, reference.sample_rate_hz)

    return embed


def cosine(first: torch.Tensor, second: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(first, second, dim=0))


def test_the_same_speech_has_the_same_voice_in_every_container(embedding_of) -> None:
    control = embedding_of(CONTROL)
    found = {name: cosine(embedding_of(AUDIO / name), control) for name in SAME_SPEECH}
    assert {name: value for name, value in found.items() if value < SAME_SPEECH[name]} == {}


# A human voice in what people's programs write: (the least cosine, FFmpeg's options).
ENCODINGS = [
    (0.98, "-c:a pcm_s16le -f wav"),
    (0.98, "-c:a pcm_s24le -f wav"),
    (0.98, "-c:a pcm_f32le -rf64 always -f wav"),
    (0.98, "-f aiff"),
    (0.98, "-f flac"),
    (0.98, "-c:a flac -f ogg"),
    (0.98, "-c:a alac -f ipod"),
    (0.98, "-c:a pcm_s16le -f mov"),
    (0.98, "-c:a flac -f matroska"),
    (0.98, "-ac 2 -f wav"),
    (0.9, "-c:a libmp3lame -b:a 64k -f mp3"),
    (0.9, "-c:a libmp3lame -b:a 128k -f mp3"),
    (0.9, "-c:a aac -b:a 64k -f adts"),
    (0.9, "-c:a aac -b:a 64k -f ipod"),
    (0.9, "-c:a aac -b:a 96k -movflags frag_keyframe+empty_moov -f mp4"),
    (0.9, "-c:a aac -b:a 96k -f matroska"),
    (0.9, "-c:a libopus -b:a 24k -f ogg"),
    (0.9, "-c:a libopus -b:a 32k -f webm"),
    (0.9, "-c:a libvorbis -q:a 3 -f ogg"),
    (0.9, "-c:a mp2 -b:a 96k -f mp2"),
]


@pytest.mark.slow
def test_a_human_voice_stays_itself_in_twenty_containers(
    embedding_of, shared_folder: Path, tmp_path: Path
) -> None:
    voices = sorted((shared_folder / "voices").glob("*.mp3"))
    if not voices:
        pytest.skip("no human recordings in the shared folder")
    for voice in voices:
        cut = ["-i", str(voice), "-t", "12", "-ac", "1"]
        make = [ffmpeg_path(), "-y", "-v", "error", *cut]
        subprocess.run([*make, "-f", "wav", str(tmp_path / "control")], check=True)
        control = embedding_of(tmp_path / "control")
        for least, options in ENCODINGS:
            subprocess.run([*make, *options.split(), str(tmp_path / "voice")], check=True)
            found = cosine(embedding_of(tmp_path / "voice"), control)
            assert found >= least, (voice.name, options, found)


def test_warnings_stand_in_the_header_of_a_stream_too(post) -> None:
    response = post({"ref_audio": bare((AUDIO / "ref_truncated.mp3").read_bytes()), "stream": True})
    assert "5 to 20 s give a closer voice" in response.headers["X-Warnings"]


def test_both_channels_the_same_are_the_one(post, tmp_path: Path) -> None:
    stereo = tmp_path / "stereo.wav"
    make = [ffmpeg_path(), "-v", "error", "-i", str(CONTROL), "-ac", "2", str(stereo)]
    subprocess.run(make, check=True)
    expected = post({"ref_audio": bare(CONTROL.read_bytes())}).content
    assert post({"ref_audio": bare(stereo.read_bytes())}).content == expected


@pytest.mark.parametrize("length_s", [0.9, 1.0, 2.0, 3.0])
def test_one_second_of_sound_is_the_least(length_s: float, post, tmp_path: Path) -> None:
    cut = tmp_path / "cut.wav"
    make = [ffmpeg_path(), "-v", "error", "-i", str(CONTROL), "-t", str(length_s), str(cut)]
    subprocess.run(make, check=True)
    response = post({"ref_audio": bare(cut.read_bytes())})
    if length_s >= 1:
        assert response.status_code == 200
    else:
        assert response.status_code == 400
        sentence = check_refusal(response, "ref_audio")
        assert "0.90 s of sound" in sentence and "at least 1.0 s" in sentence


def test_a_recording_over_a_megabyte_comes_through(post, tmp_path: Path) -> None:
    big = tmp_path / "big.wav"
    source = ["-stream_loop", "3", "-i", str(CONTROL), "-ar", "48000", "-t", "16"]
    subprocess.run([ffmpeg_path(), "-v", "error", *source, str(big)], check=True)
    assert big.stat().st_size > 1_500_000
    assert post({"ref_audio": bare(big.read_bytes())}).status_code == 200


def test_twenty_megabytes_is_the_most_counted_decoded(post) -> None:
    silence = (AUDIO / "ref_header_only_44b.wav").read_bytes() + bytes(20_000_000)
    with memory_growth() as growth:
        response = post({"ref_audio": bare(silence)})
    assert response.status_code == 413
    assert "20 MB" in check_refusal(response, "ref_audio")
    assert growth.peak_bytes < 350e6  # this process is the client, too: the text and its JSON
    assert post({"ref_audio": "A" * MAX_BODY_BYTES}).status_code == 413


def test_an_encoders_own_refusal_names_the_field_as_it_was_sent(post) -> None:
    speech, rate_hz = soundfile.read(CONTROL, dtype="float32")
    speech[round(0.7 * rate_hz) :] *= 0.03  # sound for us, too soft a voice for the encoder
    file = io.BytesIO()
    soundfile.write(file, speech[: round(1.4 * rate_hz)], rate_hz, format="WAV")
    data = file.getvalue()
    for field, fields in (
        ("ref_audio", {"ref_audio": bare(data)}),
        ("references[0].audio", {"references": [{"audio": bare(data)}]}),
    ):
        response = post(fields)
        assert response.status_code == 400
        assert "left after trimming the silence" in check_refusal(response, field)


def test_a_long_recording_does_not_hold_up_the_others(engine: Engine, serving) -> None:
    slow = json.dumps(
        SHORT | {"ref_audio": bare((AUDIO / "ref_30min_mostly_silence.flac").read_bytes())}
    ).encode()
    answers: list[int] = []

    def ask(address: str) -> None:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(
                urllib.request.Request(
                    f"{address}/v1/audio/speech", slow, {"Content-Type": "application/json"}
                ),
                timeout=120,
            )
        answers.append(refused.value.code)

    with serving(create_api(engine, Settings())) as address:
        workers = [threading.Thread(target=ask, args=(address,)) for _ in range(3)]
        for worker in workers:
            worker.start()
        waits_s, slow_begin_s = [], time.monotonic()
        while any(worker.is_alive() for worker in workers):
            begin_s = time.monotonic()
            urllib.request.urlopen(f"{address}/health", timeout=120).read()
            waits_s.append(time.monotonic() - begin_s)
            time.sleep(0.01)
        for worker in workers:
            worker.join()
        slow_s = time.monotonic() - slow_begin_s
    assert answers == [413] * 3
    assert np.median(waits_s) < max(0.2, slow_s / 10)  # whoever is held up waits for all of it
