"""Words inside a WAV file: the LIST chunk of type INFO.

Source: Multimedia Programming Interface and Data Specifications 1.0 (1991), chapter 2.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

# FFmpeg's names of tags, and the four letters they have in a WAV file.
_LETTERS = {"title": b"INAM", "artist": b"IART", "comment": b"ICMT", "encoder": b"ISFT"}


def info_chunk(tags: Mapping[str, str]) -> bytes:
    """The chunk to stand between format and samples; empty where no tag has a place in it."""
    entries = b"".join(
        _chunk(_LETTERS[name], text.encode() + b"\0")
        for name, text in tags.items()
        if name in _LETTERS
    )
    return _chunk(b"LIST", b"INFO" + entries) if entries else b""


def _chunk(letters: bytes, content: bytes) -> bytes:
    """Every chunk begins at an even place; the filling is not counted."""
    return struct.pack("<4sI", letters, len(content)) + content + b"\0" * (len(content) % 2)
