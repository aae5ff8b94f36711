"""What no reader sees is taken out of a text, and one letter is spelled in one way.

- Afterwards there is no control character but the line end, no half surrogate pair, no
  bidirectional or zero-width sign, no private-use and no unassigned character; letters are
  composed (NFC) and carry at most six marks.
- Private-use characters are free for ``engine.text`` to mark places with.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# More marks on one letter than any language puts there.
_MAX_MARKS = 6
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# ASCII art for letters: ligatures of PDF files, full-width and mathematical letters and digits.
_STYLED = re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]")
# Joiners shape the letters of Arabic and Indic scripts; anywhere else nobody sees them.
_JOINER = re.compile("(?<![\u0600-\u0dff])[\u200c\u200d]|[\u200c\u200d](?![\u0600-\u0dff])")
_PLAIN = re.compile(r"[\n -~]*")


def tidy_characters(text: str) -> str:
    """``text`` without what cannot be read."""
    if _PLAIN.fullmatch(text):
        return text
    text = _LINE_END.sub("\n", text)
    text = _JOINER.sub("", "".join(map(_kept, text)))
    text = _STYLED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return composed(text)


def composed(text: str) -> str:
    """Letters and their marks in the one spelling that Unicode composes them to."""
    return text if text.isascii() else unicodedata.normalize("NFC", _few_marks(text))


@lru_cache(maxsize=4096)
def _kept(char: str) -> str:
    """The character, a space for a kind of space, or nothing."""
    if char in "\n\u200c\u200d":
        return char
    if "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000":  # choose between pictures
        return ""
    category = unicodedata.category(char)
    if category == "Zs" or char == "\t":
        return " "
    return "" if category[0] == "C" or char in "\ufffc\ufffd" else char


def _few_marks(text: str) -> str:
    """Composing takes time in the square of the marks on a letter: a flood is cut first."""
    kept, num_marks = [], 0
    for char in text:
        num_marks = num_marks + 1 if _is_mark(char) else 0
        if num_marks <= _MAX_MARKS:
            kept.append(char)
    return "".join(kept)


@lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"
