"""What is written on a voice: its name, language, tags, notes and transcript.

- A name is any Unicode text of 1 to 64 characters in NFC, without what cannot be seen or typed;
  two names that differ in case alone are the same name.
- Names that clients send without meaning a voice ("default", OpenAI's stock names) stay free, and
  so do texts that look like an id.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from dataclasses import dataclass

from engine import InvalidRequest

MAX_NAME_CHARS = 64
MAX_TAGS = 16
MAX_TAG_CHARS = 32
MAX_NOTES_CHARS = 2000
MAX_TRANSCRIPT_CHARS = 4096
_MAX_LANGUAGE_CHARS = 40

# OpenAI's names: its clients must send one, so they choose nothing.
STOCK_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
RESERVED_NAMES = frozenset({"default", *STOCK_VOICES})
_ID = re.compile(r"(voice|default|spk)_[A-Za-z0-9_-]{16,}")
# Categories of characters that are not text: controls, halves of pairs, line and paragraph breaks.
_NO_TEXT = {"Cc", "Cs", "Zl", "Zp"}
# They turn the reading direction of whatever follows on a page.
_TURNS_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Card:
    """The words on a voice, checked and in NFC; raises ``InvalidRequest`` naming the field."""

    name: str
    language: str | None = None
    tags: tuple[str, ...] = ()
    notes: str = ""
    transcript: str = ""

    def __post_init__(self) -> None:
        tags = _tags(self.tags)
        language = self.language
        if language is not None:
            language = _line("language", language, _MAX_LANGUAGE_CHARS)
        for field, value in (
            ("name", _name(self.name)),
            ("language", language),
            ("tags", tags),
            ("notes", _text("notes", self.notes, MAX_NOTES_CHARS)),
            ("transcript", _text("transcript", self.transcript, MAX_TRANSCRIPT_CHARS)),
        ):
            object.__setattr__(self, field, value)


def name_key(name: str) -> str:
    """What equal names have in common; any text has one."""
    composed = unicodedata.normalize("NFC", name.strip())
    return unicodedata.normalize("NFC", composed.casefold())


def chooses_nothing(name: str | None) -> bool:
    """Whether a client sends this name without meaning a voice of its own choice."""
    return name is None or name_key(name) in {"", *RESERVED_NAMES}


def _name(value: object) -> str:
    name = _line("name", value, MAX_NAME_CHARS)
    if name_key(name) in RESERVED_NAMES or _ID.fullmatch(name):
        raise InvalidRequest(
            f"name: {name!r} has a meaning of its own for clients; choose another one.",
            field="name",
        )
    return name


def _tags(values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, (list, tuple)) or len(values) > MAX_TAGS:
        raise InvalidRequest(
            f'tags: give a list of at most {MAX_TAGS} words, such as ["warm", "narrator"].',
            field="tags",
        )
    tags = (_line("tags", value, MAX_TAG_CHARS) for value in values)
    return tuple({name_key(tag): tag for tag in tags}.values())


def _line(field: str, value: object, max_chars: int) -> str:
    """One line of text that can be seen, trimmed."""
    line = _text(field, value, max_chars)
    is_blank = all(unicodedata.category(letter)[0] in "CZM" for letter in line)
    if is_blank or "\n" in line or "\t" in line:
        raise InvalidRequest(
            f"{field}: {line[:max_chars]!r} is not allowed; give 1 to {max_chars} characters on one"
            " line, without control characters.",
            field=field,
        )
    return line


def _text(field: str, value: object, max_chars: int) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(
            f"{field}: {reprlib.repr(value)} is not allowed; give a text.", field=field
        )
    text = unicodedata.normalize("NFC", value.replace("\r\n", "\n").strip())
    if len(text) > max_chars:
        raise InvalidRequest(
            f"{field}: it has {len(text)} characters and the limit is {max_chars}; shorten it.",
            field=field,
        )
    bad = next((c for c in text if c not in "\n\t" and unicodedata.category(c) in _NO_TEXT), None)
    turn = _TURNS_DIRECTION.search(text)
    if bad is not None or turn is not None:
        raise InvalidRequest(
            f"{field}: the control character U+{ord(bad or turn[0]):04X} is not allowed; leave it"  # type: ignore[index]
            " out.",
            field=field,
        )
    return text
