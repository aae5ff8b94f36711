"""Recordings with damaged headers: bounded, seeded, and deep enough to reach the decoders."""

import random
import struct
import subprocess
from pathlib import Path

import numpy as np

from engine import InvalidReference, TooLarge
from studio.media.decode import ffmpeg_path
from studio.media.intake import read_bytes

RATE_HZ = 24000
_HEADER_BYTES = 600
_EXTREMES = (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_OGG_HEAD_BYTES = 27
_OGG_CHECKSUM_AT = 22

# Container -> FFmpeg's options for what is found in it.
CONTAINERS = {
    "wav": ("-c:a pcm_s16le -f wav", "-c:a adpcm_ima_wav -f wav", "-c:a pcm_f32le -rf64 1 -f wav"),
    "aiff": ("-f aiff",),
    "flac": ("-f flac",),
    "ogg": ("-c:a libopus -f ogg", "-c:a libvorbis -f ogg"),
    "mp3": ("-c:a libmp3lame -f mp3", "-c:a libmp3lame -write_xing 0 -id3v2_version 0 -f mp3"),
    "aac": ("-c:a aac -f adts",),
    "mov": (
        "-c:a aac -movflags faststart -f ipod",
        "-c:a aac -movflags frag_keyframe+empty_moov -f mp4",
        "-c:a pcm_mulaw -ar 8000 -movflags faststart -f mov",
    ),
    "matroska": ("-c:a libopus -f webm", "-c:a libopus -live 1 -f webm"),
}


def recordings_in(container: str, source: Path, folder: Path) -> list[bytes]:
    """The first 1.2 s of ``source`` in every variant of a container."""
    made = []
    for number, options in enumerate(CONTAINERS[container]):
        path = folder / f"{container} {number}"
        cut = ["-i", str(source), "-t", "1.2", *options.split()]
        subprocess.run([ffmpeg_path(), "-v", "error", *cut, str(path)], check=True)
        made.append(path.read_bytes())
    return made


def mutant(container: str, recordings: list[bytes], number: int) -> bytes:
    """Mutant ``number`` of a container: the same bytes every time.

    Ogg pages get their checksums back in three of four, or no damage would pass the first check.
    """
    random_source = random.Random(f"{container} {number}")
    data = _mutated(recordings[number % len(recordings)], random_source)
    return (
        _with_ogg_checksums(data) if container == "ogg" and random_source.random() < 0.75 else data
    )


def outcome(data: bytes) -> int:
    """What a request with this recording would be answered; anything unexpected raises."""
    try:
        reference = read_bytes(data, sample_rate_hz=RATE_HZ)
    except (InvalidReference, TooLarge) as error:
        assert error.message.startswith("reference ") and error.field == "reference"
        return 413 if isinstance(error, TooLarge) else 400
    assert np.isfinite(reference.samples).all()
    assert 1.0 <= round(reference.report.seconds_used, 2) <= 30.0
    return 200


def _mutated(data: bytes, random_source: random.Random) -> bytes:
    """Change a few places of the header: bytes, whole fields, or the length of the file."""
    changed = bytearray(data)
    end = min(_HEADER_BYTES, len(changed) - 8)
    for _ in range(random_source.choice((1, 1, 2, 4, 8))):
        at = random_source.randrange(end)
        match random_source.randrange(6):
            case 0:
                changed[at] = random_source.randrange(256)
            case 1:
                changed[at] ^= 1 << random_source.randrange(8)
            case 2:
                order = random_source.choice("<>")
                struct.pack_into(f"{order}I", changed, at, random_source.choice(_EXTREMES))
            case 3:
                piece = changed[at : at + random_source.randrange(1, 64)]
                changed[at:at] = piece
            case 4:
                del changed[at : at + random_source.randrange(1, 64)]
            case 5 if random_source.random() < 0.2:
                del changed[random_source.randrange(12, len(changed)) :]
            case _:
                changed[at] = 255
        end = min(_HEADER_BYTES, len(changed) - 8)
        if end < 1:
            break
    return bytes(changed)


def _with_ogg_checksums(data: bytes) -> bytes:
    """Give every page that can be followed from the start the checksum of what it now holds."""
    pages = bytearray(data)
    at = 0
    while pages[at : at + 4] == b"OggS" and at + _OGG_HEAD_BYTES < len(pages):
        lacing = pages[at + _OGG_HEAD_BYTES : at + _OGG_HEAD_BYTES + pages[at + 26]]
        end = min(at + _OGG_HEAD_BYTES + len(lacing) + sum(lacing), len(pages))
        struct.pack_into("<I", pages, at + _OGG_CHECKSUM_AT, 0)
        struct.pack_into("<I", pages, at + _OGG_CHECKSUM_AT, _ogg_checksum(pages[at:end]))
        at = end
    return bytes(pages)


def _ogg_checksum_table() -> list[int]:
    table = []
    for byte in range(256):
        register = byte << 24
        for _ in range(8):
            register = (register << 1) ^ (0x04C11DB7 if register & 0x80000000 else 0)
        table.append(register & 0xFFFFFFFF)
    return table


_OGG_TABLE = _ogg_checksum_table()


def _ogg_checksum(page: bytes | bytearray) -> int:
    """RFC 3533: CRC-32 with polynomial 0x04c11db7, nothing reflected or inverted."""
    register = 0
    for byte in page:
        register = (register << 8 & 0xFFFFFFFF) ^ _OGG_TABLE[register >> 24 ^ byte]
    return register
