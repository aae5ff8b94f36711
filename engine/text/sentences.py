"""Where sentences end, in any language, and a long text as a plan of chunks.

- Borders come from sentencex (Wikimedia's rules for some 300 languages, compiled): abbreviations,
  decimals, initials, quotes and scripts without spaces; ours mend what it gets wrong.
- Sentences joined are the text again, character for character; chunks joined with spaces are the
  text up to white space.
- It takes time in proportion to the text: sentencex sees 2,000 characters at once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise

from engine.text.signs import base_language

# sentencex takes 1.7 s for 50,000 opening quotes at once, and nothing for them in parts.
_WINDOW_CHARS = 2000
_STRONG = re.compile(r"[.!?…。！？।॥؟۔።]+[\"'”’»›」』）)\]]*(?:\s+|(?<=[。！？」』）])|$)")
_CLAUSE = re.compile(r"[,;:—–،؛][\"'”’»)\]]*\s+|[，；：、]")
_SPACE = re.compile(r"\s+")

# Before a full stop: never the end of a sentence when more follows.
_TITLES = {
    "en": "Mr Mrs Ms Dr Prof Rev Hon Gen Col Sgt Capt Lt Gov Sen Rep Pres vs",
    "de": "Hr Fr Dr Prof Ing Dipl Mag Nr Str St bzw ca evtl ggf sog vgl",
    "fr": "M MM Mme Mlle Mgr Dr Pr Me Ste St av env",
    "es": "Sr Sra Srta Dr Dra Prof Lic Ing Ud Uds Av Avda pág núm",
    "it": "sig sigg sigra dott prof avv ing arch on pag",
    "pt": "Sr Sra Srta Dr Dra Prof Profa Eng Av pág núm Exmo",
    "pl": "dr prof mgr inż ul al św np tzw pt",
    "nl": "dhr mevr mw dr prof ir ing drs bijv nr blz",
    "vi": "TS ThS PGS GS BS KS TP Q P",
    "ru": "г ул д стр рис проф акад им",
    "uk": "вул м проф акад ім",
}
_COMMON_TITLES = frozenset({"dr", "prof", "mr", "mrs", "ms", "sr", "nr"})
_NUMBERED = re.compile(r"[(\[]?(?:\d{1,4}|[a-zA-Z]|[ivxIVX]{1,5})[.)]\s*")
_LAST_WORD = re.compile(r"(?:^|[\s(\"'“„«.])([^\W\d_]{1,6})\.\s*$")


def sentences(text: str, language: str | None = None) -> list[str]:
    """The sentences of ``text``, each with the white space after it: joined, they are ``text``."""
    cuts = [0, *_borders(text, language), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if end > start]


def plan_chunks(text: str, max_chars: int, language: str | None = None) -> list[str]:
    """Cut ``text`` into chunks of about ``max_chars`` characters, where people pause.

    Cuts fall after sentences; a sentence that is too long is cut after a mark inside it, after a
    clause, between words or, without any, between characters as people see them. What has no marks
    inside may have twice the characters before it is cut.
    """
    chunks: list[str] = []
    between = ""
    for sentence in [text] if len(text) <= max_chars else sentences(text, language):
        line = " ".join(sentence.split())
        for part in _fit(line, max_chars) if line else ():
            if chunks and len(chunks[-1]) + len(between) + len(part.rstrip()) <= max_chars:
                chunks[-1] += between + part.rstrip()
            else:
                chunks.append(part.rstrip())
            between = " " if part[-1].isspace() else ""
        between = " " if sentence[-1:].isspace() else between
    return chunks


def _fit(line: str, max_chars: int, level: int = 0) -> Iterator[str]:
    """A sentence in parts that fit; the space between two words stays with the first."""
    length = len(line.rstrip())
    if length <= max_chars:
        yield line
        return
    borders: list[int] = []
    while not borders and level < len(_LEVELS):
        if level == _WORDS and length <= 2 * max_chars:
            yield line
            return
        borders = [at for at in _LEVELS[level](line) if 0 < at < length]
        level += 1
    at = 0
    while borders and length - at > max_chars:
        num_parts = -(-(length - at) // max_chars)
        first = bisect_right(borders, at)
        last = bisect_right(borders, at + max_chars)
        if first == len(borders):
            break
        # The border that makes the parts most equal, of those that make this one fit.
        target = at + (length - at) / num_parts
        cut = min(borders[first : max(last, first + 1)], key=lambda border: abs(border - target))
        yield from _fit(line[at:cut], max_chars, level)
        at = cut
    yield from _fit(line[at:], max_chars, level)


def _graphemes(line: str) -> Iterator[int]:
    import regex

    return (match.end() for match in regex.finditer(r"\X", line))


def _after(pattern: re.Pattern[str]) -> Callable[[str], Iterator[int]]:
    return lambda line: (match.end() for match in pattern.finditer(line))


# Where a sentence may be cut, the best first.
_LEVELS = (
    *map(_after, (_STRONG, _CLAUSE, _SPACE)),
    _graphemes,
    lambda line: iter(range(1, len(line))),
)
_WORDS = 2


def _borders(text: str, language: str | None) -> Iterator[int]:
    """Where one sentence ends and the next begins, in order."""
    # A half surrogate pair cannot be handed over; it is no letter of any word.
    plain = text.encode("utf-8", "replace").decode("utf-8")
    base = base_language(language) or "en"
    at = 0
    while at < len(plain):
        window = plain[at : at + _WINDOW_CHARS]
        is_last = at + len(window) == len(plain)
        borders = list(_borders_within(window, base))
        if not is_last and not borders:
            borders = [max((m.end() for m in _SPACE.finditer(window)), default=len(window))]
        yield from (at + border for border in borders)
        # The last sentence may go on behind the window: it begins the next one.
        at += len(window) if is_last else borders[-1]


def _borders_within(window: str, base: str) -> Iterator[int]:
    import sentencex

    at, before = 0, ""
    for sentence in sentencex.segment(base, window):
        if before and _is_border(before, sentence, base):
            yield at
            before = ""
        before += sentence
        at += len(sentence)


def _is_border(before: str, after: str, base: str) -> bool:
    """Whether a border that sentencex sees is one."""
    if "\n" in before[len(before.rstrip()) :] or not after.strip():
        return "\n\n" in before[len(before.rstrip()) :] and bool(after.strip())
    if not any(map(str.isalnum, before)) or not any(map(str.isalnum, after)):
        return False  # quotes alone
    if _NUMBERED.fullmatch(before):
        return False  # "1." before an item
    word = _LAST_WORD.search(before)
    following = after.lstrip("\"'“„«([ ")[:1]
    if word is None:
        return not (before.rstrip()[-2:-1].isdigit() and following.islower())  # "3. maja"
    if word[1].lower() in _COMMON_TITLES and (following.isupper() or following.isdigit()):
        return False
    if len(word[1]) == 1 and following.isdigit():
        return False  # "n. 5"
    return word[1] not in _TITLES.get(base, "").split()
