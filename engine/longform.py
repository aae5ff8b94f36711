"""A long text as a plan of stretches that one prompt each can carry.

- Joining the stretches with spaces gives the text again, up to whitespace: nothing is lost.
- Cuts fall after sentences, else after clauses, else between words, else (unspaced scripts)
  between characters; a sentence without inner punctuation is kept whole up to twice the limit.
"""

from __future__ import annotations

import re
from itertools import pairwise

# A sentence ends after . ! ? … (with closing quotes) before white space, after 。！？ at once, and
# at the end of a paragraph.
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])[”’」』）]*|\n\s*\n")
_CLAUSE_END = re.compile(r"(?<=[,;:—–])\s+|(?<=[，；：、])")


def plan_segments(text: str, max_chars: int) -> list[str]:
    """Cut ``text`` into stretches of about ``max_chars`` characters, at natural borders."""
    segments: list[str] = []
    for sentence in _pieces(text, _SENTENCE_END):
        for part in _fit(sentence, max_chars):
            if segments and len(segments[-1]) + 1 + len(part) <= max_chars:
                segments[-1] += " " + part
            else:
                segments.append(part)
    return segments


def _pieces(text: str, border: re.Pattern[str]) -> list[str]:
    """``text`` cut at every ``border``; what the border matched stays with the piece before it."""
    cuts = [0, *(match.end() for match in border.finditer(text)), len(text)]
    pieces = (" ".join(text[a:b].split()) for a, b in pairwise(cuts))
    return [piece for piece in pieces if piece]


def _fit(sentence: str, max_chars: int) -> list[str]:
    """Cut one sentence that is too long, near its middle, until every part fits."""
    if len(sentence) <= max_chars:
        return [sentence]
    parts = _pieces(sentence, _CLAUSE_END)
    if len(parts) == 1:
        if len(sentence) <= 2 * max_chars:
            return parts
        parts = sentence.split(" ")
    if len(parts) == 1:
        middle = len(sentence) // 2
        return _fit(sentence[:middle], max_chars) + _fit(sentence[middle:], max_chars)
    balanced = min(
        range(1, len(parts)), key=lambda i: abs(len(" ".join(parts[:i])) * 2 - len(sentence))
    )
    return _fit(" ".join(parts[:balanced]), max_chars) + _fit(" ".join(parts[balanced:]), max_chars)
