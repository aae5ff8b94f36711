"""Base64 as people and programs really send it, decoded piece by piece.

Accepted: the standard and the URL-safe alphabet, white space anywhere, padding present or missing,
and all of it behind ``data:[type][;parameters];base64,``. Everything else is a Base64Error.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

# A multiple of four, so that a piece without white space leaves nothing behind.
_PIECE_CHARACTERS = 1 << 18
_DATA_HEAD = re.compile(r"\s*data:([^,]{0,256}),", re.IGNORECASE)
_TO_STANDARD = str.maketrans("-_", "+/", " \t\r\n\f\v")


class Base64Error(ValueError):
    """The text is not base64; its message says so in words."""


def is_data_uri(text: str) -> bool:
    """Tell whether ``text`` begins like a data: URI."""
    return text[:16].lstrip()[:5].lower() == "data:"


def decoded_pieces(text: str) -> Iterator[bytes]:
    """Yield the bytes that ``text`` encodes, at most 192 KiB at a time; raise Base64Error."""
    start = 0
    if is_data_uri(text):
        head = _DATA_HEAD.match(text)
        if head is None or not head[1].strip().lower().endswith("base64"):
            raise Base64Error("a data: URI must say ;base64,")
        start = head.end()
    pending = ""
    for at in range(start, len(text), _PIECE_CHARACTERS):
        pending += text[at : at + _PIECE_CHARACTERS].translate(_TO_STANDARD)
        usable = max(len(pending) - 1, 0) // 4 * 4  # the last quartet waits: it may be the end
        if "=" in pending[:usable]:
            raise Base64Error("it goes on after the padding of its base64")
        yield _decoded(pending[:usable])
        pending = pending[usable:]
    pending = pending.rstrip("=")
    yield _decoded(pending + "=" * (-len(pending) % 4))


def _decoded(quartets: str) -> bytes:
    try:
        return base64.b64decode(quartets, validate=True)
    except ValueError as error:  # binascii.Error is one; a character beyond ASCII is another
        raise Base64Error("it is not base64") from error
