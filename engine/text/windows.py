"""Which stretches of a text need reading: figures, signs, abbreviations, and the words beside.

- Most of a text is plain words, which every grammar hands back as they are, at 1 to 50 ms each.
  Only the windows round the other tokens are read: a long text costs what its figures cost.
- A window has two plain words on either side, for what is read by its neighbours ("May 3"), never
  crosses a paragraph, and is at most ``MAX_WINDOW_CHARS`` long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

MAX_WINDOW_CHARS = 160
_CONTEXT_WORDS = 2

# Scripts without spaces are cut where a sentence ends.
_TOKEN = re.compile(r"[^\s。！？；]+[。！？；]*[”』」）]*|[。！？；”』」）]+")
_BREAK = re.compile(r"\n\s*\n")
# No figure either: fractions, raised and enclosed ones count as letters for Python.
_LETTER = r"[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209f\u2150-\u218b\u2460-\u24ff]"
# Letters and the punctuation that nobody says; the groups never give back what they took.
_PLAIN = re.compile(
    r"[\"'“”‘’„«»‹›(\[¿¡—–]*+"
    rf"((?:{_LETTER}|[\u0300-\u036f]|['’](?=\w)|(?<=\w)-(?={_LETTER})|[、，：「」『』（）《》・ー—])*+)"
    r"(\.?)[\"'“”‘’«»‹›)\],;:!?.…—–。！？；]*+"
)
_ROMAN = re.compile(r"[IVX]{2,}(?:e|er|ème)?|[VX]e?")
# What a full stop shortens, per grammar; lower case, without the stop. Single letters always count.
_SHORTENED = {
    "en": "mr mrs ms dr prof st ave blvd rd ln apt bldg dept no nos vol ch fig figs p pp sec vs etc"
    " inc ltd co corp jr sr lt sgt capt col gen gov sen rep rev hon pres mt ft approx est tel ext"
    " ver jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun esq bros",
    "de": "dr mr mrs ms nr hr fr prof dipl ing usw bzw ca evtl ggf inkl exkl vgl str tel abs art"
    " kap bd bspw etc jh jhd geb gest mio mrd tsd st zzgl sog s",
    "fr": "m mm mme mlle dr pr prof etc av apr tél p pp vol chap art env ex st ste bd",
    "es": "sr sra srta sres dr dra prof profa d da ud uds vd vds av avda pág págs tel gob esq etc"
    " núm art cap dpto ee uu blvr blvd ctra carret cta pje pza plza c",
    "it": "dr dott prof proff sig sigg avv arch rag geom ing ingg fam rev on onn min sen ecc loc"
    " ist segr tel pag art cap vol nr n ca",
    "pt": "sr sra srta dr dra prof profa eng av tel pág págs art cap vol nº n etc exmo exma min sen"
    " dep gov gen sto sta ltda ex",
}
_SHORTENINGS = {grammar: frozenset(words.split()) for grammar, words in _SHORTENED.items()}
# Words that a grammar knows as shortened even without a full stop.
_BARE = {
    "en": frozenset({"vs"}),
    "it": frozenset({"sig", "ecc"}),
    "fr": frozenset({"mme", "mlle", "dr", "pr"}),
}


def windows(text: str, grammar: str) -> Iterator[tuple[int, int]]:
    """Start and end of every stretch of ``text`` that needs reading, in order and apart."""
    start = 0
    for end in [*(found.start() for found in _BREAK.finditer(text)), len(text)]:
        tokens = [found.span() for found in _TOKEN.finditer(text, start, end)]
        needed = {
            near
            for i, (first, last) in enumerate(tokens)
            if not is_plain(text[first:last], grammar)
            for near in range(i - _CONTEXT_WORDS, i + _CONTEXT_WORDS + 1)
        }
        numbers = (i for i in range(len(tokens)) if i in needed)
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
            yield from _fitting(text, [tokens[i] for _, i in run])
        start = end


def is_plain(token: str, grammar: str) -> bool:
    """Whether ``token`` is a word that is said as it is written."""
    found = _PLAIN.fullmatch(token)
    if found is None or _ROMAN.fullmatch(found[1]):
        return False
    word = found[1].lower()
    if word in _BARE.get(grammar, ()):
        return False
    return not found[2] or (len(word) > 1 and word not in _SHORTENINGS.get(grammar, ()))


def _fitting(text: str, tokens: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The run of ``tokens`` cut into windows of at most ``MAX_WINDOW_CHARS``."""
    while tokens:
        start = tokens[0][0]
        limit = start + MAX_WINDOW_CHARS
        if tokens[-1][1] <= limit:
            yield start, tokens[-1][1]
            return
        if tokens[0][1] > limit:  # one endless token
            yield start, limit
            tokens[0] = (limit, tokens[0][1])
            continue
        num_fitting = sum(end <= limit for _, end in tokens)
        clauses = (i for i in range(num_fitting, 0, -1) if text[tokens[i - 1][1] - 1] in ".,;:!?")
        cut = next(clauses, num_fitting)
        yield start, tokens[cut - 1][1]
        tokens = tokens[cut:]
