"""Code as somebody would read it aloud: names as words, long listings by their name only."""

from __future__ import annotations

import re

from engine.text.lines import ended
from engine.text.signs import signs_of

# A listing is read when it is as short as something said in passing.
_MAX_LINES = 2
_MAX_LINE_CHARS = 60
_MAX_INLINE_CHARS = 200

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=[A-Z][a-z])")
_DOT = re.compile(r"(?<=[^\W\d_])\.(?=[^\W_])|(?<=[^\W_])\.(?=[^\W\d_])")
_SLASH = re.compile(r"(?<=\w)/(?=\w)")
_NO_WORD = re.compile(r"[_`\\|^~<>{}\[\]()$*]+|(?<!\w)-+|;\s*$|->|=>|::")


def read_inline(code: str, language: str | None) -> str:
    """A name, path or command: ``getUserName()`` is "get User Name"."""
    if len(code) > _MAX_INLINE_CHARS:
        return code
    signs = signs_of(language)
    if signs is not None:
        code = _SLASH.sub(f" {signs.slash} ", _DOT.sub(f" {signs.dot} ", code))
    return " ".join(_HUMP.sub(" ", _NO_WORD.sub(" ", code)).split())


def read_block(code: str, language: str | None) -> tuple[str, bool]:
    """What is said for a listing, and whether it was left out."""
    lines = [line.strip() for line in code.split("\n") if line.strip()]
    if len(lines) > _MAX_LINES or any(len(line) > _MAX_LINE_CHARS for line in lines):
        signs = signs_of(language)
        return ("" if signs is None else ended(signs.code)), True
    return "\n".join(ended(read_inline(line, language)) for line in lines), False
