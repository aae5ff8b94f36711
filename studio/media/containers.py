"""Which container a recording is in, by its first bytes alone.

Names and media types are never asked: a browser, a phone and an attacker all get them wrong. What
is not in the table below is refused, so playlists and scripts never reach a demuxer.
"""

from __future__ import annotations

from typing import BinaryIO

ACCEPTED = "WAV, AIFF, FLAC, Ogg, MP3, AAC, M4A, MP4, MOV, Matroska or WebM"

_HEAD_BYTES = 16
_QUICKTIME_ATOMS = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")


def demuxer_of(file: BinaryIO) -> str | None:
    """Return FFmpeg's demuxer name for a seekable file, or None when it is none of ACCEPTED.

    The file position is moved. An ID3 tag, which may stand before MP3, AAC and FLAC, is skipped.
    """
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head[:3] != b"ID3":
        return _demuxer_of_head(head)
    # ID3v2: four bytes of seven bits each count what follows the ten bytes of tag header.
    tag_bytes = 0
    for byte in head[6:10]:
        tag_bytes = tag_bytes << 7 | byte & 0x7F
    file.seek(10 + tag_bytes)
    behind_tag = _demuxer_of_head(file.read(_HEAD_BYTES))
    return behind_tag if behind_tag in ("aac", "flac") else "mp3"


def _demuxer_of_head(head: bytes) -> str | None:
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "aiff"
    if head[:4] == b"fLaC":
        return "flac"
    if head[:4] == b"OggS":
        return "ogg"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "matroska"
    if head[4:8] in _QUICKTIME_ATOMS:
        return "mov"
    if len(head) >= 4 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return _mpeg_audio(head)
    return None


def _mpeg_audio(head: bytes) -> str | None:
    """Tell ADTS AAC from MPEG layers II and III by the fields of their frame header."""
    layer = head[1] >> 1 & 0b11
    if head[1] & 0xF0 == 0xF0 and layer == 0:
        rate_is_known = head[2] >> 2 & 0b1111 <= 12
        return "aac" if rate_is_known else None
    version_is_known = head[1] >> 3 & 0b11 != 1
    bitrate_is_known = head[2] >> 4 not in (0b0000, 0b1111)
    rate_is_known = head[2] >> 2 & 0b11 != 3
    layer_is_2_or_3 = layer in (0b10, 0b01)
    is_mpeg = layer_is_2_or_3 and version_is_known and bitrate_is_known and rate_is_known
    return "mp3" if is_mpeg else None
