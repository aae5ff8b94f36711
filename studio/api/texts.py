"""What becomes of a request's text before it is spoken: one way for every door.

- Without a language a text stays as it is written; with one it is cleaned, its markup is followed
  and its numbers are read. Each of the three can be turned on and off by itself.
- The owner's dictionary and the request's own words count in any case: they were asked for.
- Source: spec/SETTLED.md (language), spec/zonos2.md section 9.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from engine import (
    Cleaning,
    Dictionary,
    Normaliser,
    Prepared,
    Pronunciation,
    StorageFailed,
    prepare,
)
from studio.dictionary import Words
from studio.owner import Owner

log = logging.getLogger(__name__)

Rule = Literal["markdown", "html", "code", "emoji", "links", "capitals", "lines", "paragraphs"]
# The names of the rules in a request, and in the engine.
RULES: Mapping[Rule, str] = {
    "markdown": "reads_markdown",
    "html": "reads_html",
    "code": "shortens_code",
    "emoji": "drops_emoji",
    "links": "speaks_links",
    "capitals": "reads_capitals",
    "lines": "joins_lines",
    "paragraphs": "pauses_at_paragraphs",
}
# What no grammar has read by then, num2words reads.
DEADLINE_S = 10.0
# Texts that are prepared at once. They mostly wait for a grammar, and one of a slow language must
# not keep those of the others waiting.
_AT_ONCE = 32
# A paragraph is no change of the words; a reader pauses there in any case.
_AS_WRITTEN = replace(Cleaning.off(), pauses_at_paragraphs=True)
_NO_LANGUAGE = (
    "text_normalization: no language was named, so numbers stay as they are; send one, or detect."
)


@dataclass(frozen=True)
class TextWish:
    """What is to become of a text; ``language`` is an engine's code, "detect" or None."""

    language: str | None = None
    cleaning: Cleaning = _AS_WRITTEN
    normalises: bool = False
    pronunciations: tuple[Pronunciation, ...] = ()


def text_wish(
    language: str | None,
    *,
    text_normalization: bool | None = None,
    cleaning: bool | Mapping[Rule, bool] | None = None,
    markup: bool | None = None,
    pronunciations: tuple[Pronunciation, ...] = (),
) -> TextWish:
    """The wish of a request's fields; ``language`` is an engine's code, "detect" or None.

    What is None follows the language: without one, and with ``text_normalization`` false, the text
    is spoken as it is written. ``cleaning`` turns rules of ``RULES`` on or off.
    """
    is_read = language is not None if text_normalization is None else text_normalization
    follows = is_read and language is not None
    rules = Cleaning() if follows else _AS_WRITTEN
    if isinstance(cleaning, Mapping):
        rules = replace(rules, **{RULES[name]: is_on for name, is_on in cleaning.items()})
    elif cleaning is not None:
        rules = Cleaning() if cleaning else _AS_WRITTEN
    rules = replace(rules, reads_markup=follows if markup is None else markup)
    return TextWish(language, rules, is_read, pronunciations)


def rules_of(cleaning: Cleaning) -> dict[Rule, bool]:
    """The rules by the names that a request has for them."""
    return {name: getattr(cleaning, field) for name, field in RULES.items()}


class Texts:
    """Prepares texts with one normaliser and everybody's dictionaries."""

    def __init__(self, normaliser: Normaliser, words: Words) -> None:
        self.normaliser = normaliser
        self.words = words
        self._at_once = CapacityLimiter(_AT_ONCE)

    async def ready(self, text: str, wish: TextWish, owner: Owner) -> Prepared:
        """``prepared`` in a worker thread."""
        return await run_sync(self.prepared, text, wish, owner, limiter=self._at_once)

    def prepared(self, text: str, wish: TextWish, owner: Owner) -> Prepared:
        """``text`` as it is spoken. Blocks for about ``DEADLINE_S`` at most; nothing fails."""
        return prepared_text(text, wish, self._entries(wish, owner), self.normaliser)

    def words_in(self, text: str, wish: TextWish, owner: Owner) -> tuple[Pronunciation, ...]:
        """The entries in force that ``text`` may hold: what a take needs to be said again."""
        text = _folded(text)
        entries = self._entries(wish, owner)
        return tuple(entry for entry in entries if _folded(entry.written) in text)

    def _entries(self, wish: TextWish, owner: Owner) -> tuple[Pronunciation, ...]:
        """The owner's words, then those of the request: a later one wins."""
        try:
            kept = self.words.entries(owner)
        except StorageFailed as error:  # speech is worth more than how a word is said
            log.warning("a dictionary is left out: %s", error.message)
            kept = ()
        return (*kept, *wish.pronunciations)


def prepared_text(
    text: str, wish: TextWish, entries: Iterable[Pronunciation], normaliser: Normaliser
) -> Prepared:
    """``text`` as it is spoken, with the words of ``entries``; blocks like ``Texts.prepared``."""
    done = prepare(
        text,
        wish.language,
        wish.cleaning,
        Dictionary(entries),
        normaliser if wish.normalises else None,
        deadline_s=DEADLINE_S,
    )
    if wish.normalises and wish.language is None:
        done = replace(done, notes=(*done.notes, _NO_LANGUAGE))
    return done


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
