"""Text that arrives in pieces, given on in sentences or clauses as soon as they are whole.

Joining what comes out with spaces gives the text again, but for white space and for what holds no
letter or number and so has nothing to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_CLOSING = r"[\"'”’»)\]」』）]*"
_PARAGRAPH = r"\n\s*\n"
# A sentence ends after . ! ? … (with what closes a quotation) before white space, after 。！？ at
# once, and at an empty line; a clause also after a comma, a semicolon or a colon.
BORDERS: Mapping[str, re.Pattern[str]] = {
    "sentence": re.compile(rf"(?<=[.!?…]){_CLOSING}\s+|(?<=[。！？]){_CLOSING}|{_PARAGRAPH}"),
    "clause": re.compile(
        rf"(?<=[.!?…,;:]){_CLOSING}\s+|(?<=[。！？，；：、]){_CLOSING}|{_PARAGRAPH}"
    ),
}
# After these a full stop ends no sentence: titles before a name, and initials.
_GOES_ON = re.compile(r"(?:^|\W)(?:mr|mrs|ms|dr|prof|st|mt|vs|jr|sr|[^\W\d])\.$", re.IGNORECASE)
_LONGEST_TITLE = 8  # characters before a border that decide on it, one more than any title needs
# Looked at again when more arrives, since a border may have been cut: no text is read twice whole.
_OVERLAP = 32


class Sentences:
    """Collects text; ``granularity`` is a key of ``BORDERS``."""

    def __init__(self, granularity: str = "sentence") -> None:
        self._border = BORDERS[granularity]
        self._rest = ""
        self._num_read = 0

    def __len__(self) -> int:
        """Characters that no sentence has taken yet."""
        return len(self._rest)

    def feed(self, text: str) -> list[str]:
        """Take more text -> the sentences that are whole now."""
        self._rest += text
        whole, begin = [], 0
        for border in self._border.finditer(self._rest, max(0, self._num_read - _OVERLAP)):
            end = border.end()
            # What closes a quotation may still be on its way.
            is_open = end == len(self._rest) and not self._rest[end - 1].isspace()
            before = self._rest[max(begin, border.start() - _LONGEST_TITLE) : border.start()]
            if end > begin and not is_open and not _GOES_ON.search(before):
                whole.append(self._rest[begin:end])
                begin = end
        self._rest = self._rest[begin:]
        self._num_read = len(self._rest)
        return _speakable(whole)

    def flush(self) -> list[str]:
        """The text that is left, as one last sentence, if there is any."""
        rest, self._rest, self._num_read = self._rest, "", 0
        return _speakable([rest])


def _speakable(sentences: list[str]) -> list[str]:
    return [sentence.strip() for sentence in sentences if any(map(str.isalnum, sentence))]
