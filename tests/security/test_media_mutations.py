"""Damaged headers, thousands of them, end in a reference or in a refusal, and in nothing else."""

import random
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine import InvalidReference, TooLarge
from studio.media.decode import ffmpeg_path
from studio.media.intake import read_bytes

RATE_HZ = 24000
HEADER_BYTES = 600
EXTREMES = (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)

CONTAINERS = {
    "wav": "-c:a pcm_s16le -f wav",
    "wav adpcm": "-c:a adpcm_ima_wav -f wav",
    "rf64": "-c:a pcm_f32le -rf64 always -f wav",
    "aiff": "-f aiff",
    "flac": "-f flac",
    "ogg opus": "-c:a libopus -f ogg",
    "ogg vorbis": "-c:a libvorbis -f ogg",
    "mp3": "-c:a libmp3lame -f mp3",
    "aac": "-c:a aac -f adts",
    "m4a": "-c:a aac -movflags faststart -f ipod",
    "fragmented mp4": "-c:a aac -movflags frag_keyframe+empty_moov -f mp4",
    "mov": "-c:a pcm_mulaw -ar 8000 -movflags faststart -f mov",
    "webm": "-c:a libopus -f webm",
}


@pytest.fixture(scope="module")
def recordings(audio: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A sound recording of 1.2 s in every container."""
    made = {}
    for name, options in CONTAINERS.items():
        path = tmp_path_factory.mktemp("containers") / "recording"
        source = ["-i", str(audio / "ref_control_16k_mono.wav"), "-t", "1.2"]
        command = [ffmpeg_path(), "-v", "error", *source, *options.split(), str(path)]
        subprocess.run(command, check=True)
        made[name] = path.read_bytes()
    return made


def mutated(data: bytes, random_source: random.Random) -> bytes:
    """Change a few places of the header: bytes, whole fields, or the length of the file."""
    changed = bytearray(data)
    end = min(HEADER_BYTES, len(changed) - 8)
    for _ in range(random_source.choice((1, 1, 2, 4, 8))):
        at = random_source.randrange(end)
        match random_source.randrange(6):
            case 0:
                changed[at] = random_source.randrange(256)
            case 1:
                changed[at] ^= 1 << random_source.randrange(8)
            case 2:
                order = random_source.choice("<>")
                struct.pack_into(f"{order}I", changed, at, random_source.choice(EXTREMES))
            case 3:
                piece = changed[at : at + random_source.randrange(1, 64)]
                changed[at:at] = piece
            case 4:
                del changed[at : at + random_source.randrange(1, 64)]
            case 5 if random_source.random() < 0.2:
                del changed[random_source.randrange(12, len(changed)) :]
            case _:
                changed[at] = 255
        end = min(HEADER_BYTES, len(changed) - 8)
        if end < 1:
            break
    return bytes(changed)


def outcome(data: bytes) -> int:
    try:
        reference = read_bytes(data, sample_rate_hz=RATE_HZ)
    except TooLarge as error:
        assert error.message
        return 413
    except InvalidReference as error:
        assert error.message
        return 400
    assert np.isfinite(reference.samples).all()
    assert 1.0 <= round(reference.report.seconds_used, 2) <= 30.0
    return 200


def outcomes(data: bytes, name: str, count: int) -> list[int]:
    variants = (mutated(data, random.Random(f"{name} {seed}")) for seed in range(count))
    with ThreadPoolExecutor(max_workers=2) as workers:
        return list(workers.map(outcome, variants))


@pytest.mark.parametrize("name", CONTAINERS)
def test_damaged_headers_are_used_or_refused(
    name: str, recordings: dict[str, bytes], temporary: Path
) -> None:
    assert outcome(recordings[name]) == 200
    found = outcomes(recordings[name], name, 24)
    assert set(found) <= {200, 400, 413}
    assert 400 in found  # the damage is real
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CONTAINERS)
def test_many_more_damaged_headers_are_used_or_refused(
    name: str, recordings: dict[str, bytes], temporary: Path
) -> None:
    found = outcomes(recordings[name], f"slow {name}", 1000)
    assert set(found) <= {200, 400, 413}
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("seed", range(80))
def test_noise_behind_every_magic_number_is_refused(seed: int) -> None:
    random_source = random.Random(seed)
    magic = random_source.choice(
        [
            b"RIFF\0\0\0\0WAVE",
            b"RF64\xff\xff\xff\xffWAVE",
            b"FORM\0\0\0\0AIFF",
            b"fLaC",
            b"OggS",
            b"ID3\x04\0\0\0\0\0\0",
            b"\xff\xfb\x90\x64",
            b"\xff\xf1\x50\x80",
            b"\0\0\0\x20ftypM4A ",
            b"\0\0\0\x08moov",
            b"\x1a\x45\xdf\xa3",
        ]
    )
    noise = random_source.randbytes(random_source.randrange(5000))
    assert outcome(magic + noise) == 400
