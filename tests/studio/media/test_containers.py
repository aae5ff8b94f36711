"""The container is told by content: by what is there, never by a name."""

import io

import pytest

from studio.media.containers import demuxer_of


@pytest.mark.parametrize(
    ("head", "demuxer"),
    [
        (b"RIFF\0\0\0\0WAVEfmt ", "wav"),
        (b"RF64\xff\xff\xff\xffWAVE", "wav"),
        (b"FORM\0\0\0\0AIFF", "aiff"),
        (b"FORM\0\0\0\0AIFC", "aiff"),
        (b"fLaC\0\0\0\x22", "flac"),
        (b"OggS\0\x02", "ogg"),
        (b"\x1a\x45\xdf\xa3\x9f", "matroska"),
        (b"\0\0\0\x20ftypM4A ", "mov"),
        (b"\0\0\0\x20ftypqt  ", "mov"),
        (b"\0\0\x10\0moov\0\0\0\0mvhd", "mov"),
        (b"\0\0\0\x08wide\0\0\0\0mdat", "mov"),
        (b"\xff\xfb\x90\x64", "mp3"),
        (b"\xff\xf3\x48\xc4", "mp3"),
        (b"\xff\xf1\x50\x80", "aac"),
        (b"\xff\xf9\x50\x80", "aac"),
        (b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + b"\xff\xfb\x90\x64", "mp3"),
        (b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + b"\xff\xf1\x50\x80", "aac"),
        (b"ID3\x04\0\0\0\0\x01\x00" + bytes(128) + b"fLaC", "flac"),
    ],
)
def test_accepted_containers_are_told_by_their_first_bytes(head: bytes, demuxer: str) -> None:
    assert demuxer_of(io.BytesIO(head + bytes(64))) == demuxer


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"RIFF",
        b"RIFF\0\0\0\0AVI LIST",
        b"#EXTM3U\n#EXT-X-TARGETDURATION:5",
        b"ffconcat version 1.0\nfile x.wav\n",
        b"<!DOCTYPE html>",
        b"\x7fELF\x02\x01\x01",
        b"%PDF-1.7",
        b"PK\x03\x04",
        b"\x89PNG\r\n\x1a\n",
        b"<?xml version='1.0'?><MPD>",
        b"[playlist]\nFile1=http://127.0.0.1/",
        b"\xff\xfb\xf0\x64",  # MPEG audio with an impossible bitrate
        b"\xff\xfb\x9c\x64",  # and with an impossible sample rate
        b"\xff\xfe\x41\x00",  # UTF-16 text
        b"\xff\xd8\xff\xe0",  # JPEG
    ],
)
def test_everything_else_is_none_of_them(head: bytes) -> None:
    assert demuxer_of(io.BytesIO(head)) is None
