"""From what was typed or pasted to what is spoken, in one order for every door.

    characters -> markup -> structure -> words (dictionary, links, capitals) -> say-as -> normaliser

- The dictionary comes before the normaliser: it knows words as people write them.
- Pieces that follow each other at one rate are one text, so that a sentence stays a sentence.
- Nothing fails here: what cannot be done is told in a note, and the text goes on without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import Protocol

from engine.text.alignment import changed_spans
from engine.text.characters import tidy_characters
from engine.text.clean import Cleaning, clean_structure, clean_words
from engine.text.detect import DETECT, detect_language
from engine.text.dictionary import Dictionary
from engine.text.markup import PARAGRAPH_MS, Pause, Spoken, mark, pieces
from engine.text.say_as import speak_as
from engine.text.spans import Span

MAX_NOTES = 20
DEADLINE_S = 20.0


class Normalised(Protocol):
    """What a normaliser made of a text."""

    @property
    def text(self) -> str: ...

    @property
    def notes(self) -> Sequence[str]: ...

    @property
    def languages(self) -> Sequence[str]: ...


class Normaliser(Protocol):
    """Reads numbers, dates and signs as words, within a time."""

    def normalise(self, text: str, language: str | None, *, deadline_s: float) -> Normalised: ...


@dataclass(frozen=True)
class Prepared:
    """What is spoken, piece by piece.

    ``written`` is the text that came; ``notes`` are sentences for the caller; ``languages`` are the
    codes of the languages it was read in, none where that is unknown.
    """

    pieces: tuple[Spoken | Pause, ...]
    notes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    written: str = ""

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """What changed between ``written`` and ``text``, in offsets of ``written``."""
        return changed_spans(self.written, self.text)

    @cached_property
    def text(self) -> str:
        """All that is spoken, with a blank line for each pause."""
        return _text(self.pieces)


def prepare(
    text: str,
    language: str | None = None,
    cleaning: Cleaning | None = None,
    dictionary: Dictionary | None = None,
    normaliser: Normaliser | None = None,
    *,
    deadline_s: float = DEADLINE_S,
) -> Prepared:
    """``text`` in ``language`` (an engine's code, "detect" or None) as it is spoken.

    Without a ``normaliser``, numbers stay as they are written; it has ``deadline_s`` for all pieces
    together.
    """
    arranged, notes = arrange(text, language, cleaning, dictionary)
    until = monotonic() + deadline_s
    spoken: list[Spoken | Pause] = []
    languages: list[str] = []
    around = detect_language(_text(arranged)) if language == DETECT else language
    for piece in arranged:
        if isinstance(piece, Spoken) and normaliser is not None:
            left_s = max(0.0, until - monotonic())
            # A heading says too little to have a language of its own.
            is_short = language != DETECT or (around and detect_language(piece.text) is None)
            own = around if is_short else DETECT
            normalised = normaliser.normalise(piece.text, own, deadline_s=left_s)
            notes += normalised.notes
            languages += normalised.languages
            piece = replace(piece, text=normalised.text.strip())
        if isinstance(piece, Pause) or piece.text:
            spoken.append(piece)
    told = tuple(dict.fromkeys(notes))[:MAX_NOTES]
    if around is not None and not (languages and language == DETECT):
        languages = [around]
    return Prepared(tuple(spoken), told, tuple(dict.fromkeys(languages)), text)


def arrange(
    text: str,
    language: str | None = None,
    cleaning: Cleaning | None = None,
    dictionary: Dictionary | None = None,
) -> tuple[list[Spoken | Pause], list[str]]:
    """All of ``prepare`` but the normaliser -> pieces and notes: quick, however long the text."""
    cleaning = cleaning or Cleaning()
    marked, events, notes = mark(text) if cleaning.reads_markup else (tidy_characters(text), [], [])
    words_language = detect_language(marked) if language == DETECT else language
    plain, more_notes = clean_structure(marked, words_language, cleaning)
    notes += more_notes
    paragraph_ms = PARAGRAPH_MS if cleaning.pauses_at_paragraphs else 0
    said: list[Spoken | Pause] = []
    for piece in pieces(plain, events, notes, paragraph_ms=paragraph_ms):
        if isinstance(piece, Pause):
            said.append(piece)
        elif piece.say_as is None:
            words = clean_words(piece.text, words_language, cleaning, dictionary)
            said.append(replace(piece, text=words))
        else:
            words = speak_as(piece.text, piece.say_as, piece.format, words_language)
            said.append(replace(piece, text=words, say_as=None, format=""))
    return _merged(said), notes


def _merged(found: Iterable[Spoken | Pause]) -> list[Spoken | Pause]:
    """Neighbours at one rate as one text; signs that stand alone go with what came before."""
    merged: list[Spoken | Pause] = []
    for piece in found:
        last = merged[-1] if merged else None
        if (
            isinstance(piece, Spoken)
            and isinstance(last, Spoken)
            and (piece.rate == last.rate or not _has_words(piece))
        ):
            merged[-1] = replace(last, text=last.text + piece.text)
        else:
            merged.append(piece)
    # Dots between two pauses say nothing; a text of nothing else is told so at the door.
    if any(map(_has_words, merged)):
        merged = [piece for piece in merged if isinstance(piece, Pause) or _has_words(piece)]
    return [
        replace(piece, text=" ".join(piece.text.split())) if isinstance(piece, Spoken) else piece
        for piece in merged
    ]


def _has_words(piece: Spoken | Pause) -> bool:
    return isinstance(piece, Spoken) and any(map(str.isalnum, piece.text))


def _text(found: Iterable[Spoken | Pause]) -> str:
    """The text of pieces, as ``Prepared.text`` has it."""
    parts: list[str] = []
    for piece in found:
        if isinstance(piece, Pause):
            parts.append("\n\n")
        else:
            between = " " if parts and not parts[-1].endswith("\n\n") else ""
            parts.append(between + piece.text)
    return "".join(parts).strip()
