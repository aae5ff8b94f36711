"""Written text as it is spoken: figures, dates, sums, units and abbreviations in words.

- Nine languages are read by NeMo's grammars in child processes, the others by num2words and CLDR,
  which also read while a grammar is being built, and where there can be none. What read, and what
  could not be read, stands in the notes.
- Only the stretches that need reading are touched (``engine.text.windows``); of the rest only white
  space is set right. Nothing here fails a request: at worst a stretch stays as it is, and says so.
- Source: spec/zonos2.md section 9, with the wrong readings of ``engine.text.repairs``.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic

from engine.text.alignment import changed_spans
from engine.text.detect import DETECT, language_runs
from engine.text.grammar_pool import MAX_PROCESSES, GrammarFault, GrammarPool
from engine.text.grammar_store import CHILD, GRAMMARS, GrammarStore
from engine.text.reading import reader_of, with_ascii_digits
from engine.text.repairs import after, before
from engine.text.spans import Span
from engine.text.windows import is_plain, windows
from engine.text.words import can_count

# A whole call; a caller with a long text normalises it part by part.
DEADLINE_S = 10.0
_CACHED_WINDOWS = 4096

# A full stop after a figure, kept apart from it: some grammars cannot end in one (spec 9.2).
_FIGURE_STOP = re.compile(r"(?<=\d)(?=[.!?,;:](?:\s|$))")
_SPACED_STOP = re.compile(r" +(?=[.!?,;:](?:\s|$))")
_STOP = re.compile(r"[.!?,;:](?:\s|$)")
_SPACE = re.compile(r"\s+")
_FIGURE = re.compile(r"\d")
# Counting aloud takes a grammar 5 to 50 ms a number, and every reader says the same.
_COUNTING = re.compile(r"(?:\d{1,4}[,;]? ){9,}\d{1,4}[.,;]?")


@dataclass(frozen=True)
class Normalised:
    """``written`` as it is spoken: ``text``.

    ``notes`` are sentences for the caller about how it was read; ``languages`` the codes of the
    languages it was read in, in order; ``stretches`` (start, end, spoken) cover ``written``.
    """

    written: str
    text: str
    notes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    stretches: tuple[tuple[int, int, str], ...] = ()

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """What changed, in order and apart, in offsets of ``written``."""
        return tuple(
            replace(span, start=start + span.start, end=start + span.end)
            for start, end, spoken in self.stretches
            for span in changed_spans(self.written[start:end], spoken)
        )


class Normaliser:
    """Normalises texts of any language; threads may share one.

    ``folder`` is where grammars are kept, see ``GrammarStore``; where it cannot build, missing ones
    stay missing. Making one starts nothing: ``warm`` does, and never waits.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_processes: int = MAX_PROCESSES,
        child: Path = CHILD,
        can_build: bool = True,
    ) -> None:
        self._can_build = can_build
        self._store = GrammarStore(folder, child)
        self._pool = GrammarPool(max_processes, child)
        self._cache: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def warm(self, languages: Iterable[str]) -> None:
        """Have the grammars of these languages ready soon: loaded, or built in the background."""
        if self._store.version is None:
            return
        for grammar in dict.fromkeys(GRAMMARS[code] for code in languages if code in GRAMMARS):
            if folder := self._store.find(grammar):
                self._pool.load(grammar, folder)
            elif self._can_build:
                self._store.ask_for(grammar)

    def normalise(
        self,
        text: str,
        language: str | None,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> Normalised:
        """``text`` as it is spoken in ``language``: an engine code, "detect", or None for as it is.

        Blocks for ``deadline_s`` at most: what no grammar has read by then, num2words reads.
        """
        if language is None or not text.strip():
            return Normalised(text, text)
        call = _Call(text, monotonic() + deadline_s)
        runs = language_runs(text) if language == DETECT else [(0, len(text), language)]
        for start, end, code in runs:
            self._read_run(call, start, end, code)
        return call.result()

    def reads(self, language: str) -> str:
        """What reads the numbers of a language here: "grammar", "num2words", or "" for nothing."""
        if language in GRAMMARS and self._store.version is not None:
            return "grammar"
        return "num2words" if can_count(language) else ""

    def close(self) -> None:
        """End the child processes and a build that is running."""
        self._store.close()
        self._pool.close()

    def _read_run(self, call: _Call, start: int, end: int, code: str | None) -> None:
        """Read ``start`` to ``end`` of the call's text, all of one language."""
        if code is None or not can_count(code):
            name = "detect: too little text to tell its language" if code is None else code
            if next(windows(call.text[start:end], ""), None):
                call.note(f"{name}: no numbers are read in it, the text stays as it is.")
            call.keep(start, end)
            return
        call.languages[code] = None
        for first, last in windows(call.text[start:end], GRAMMARS.get(code, "")):
            window = call.text[start + first : start + last]
            call.say(start + first, start + last, self._spoken(window, code, call))

    def _spoken(self, window: str, code: str, call: _Call) -> str:
        """One window in words: from the cache, by the grammar, else by num2words."""
        with self._lock:
            if (code, window) in self._cache:
                self._cache.move_to_end((code, window))
                return self._cache[code, window]
        try:
            spoken, is_lasting = self._read(window, code, call)
        except Exception:  # of one of the libraries' many tables of words; the text is worth more
            call.note(f"{code}: some numbers could not be read and stay as they are.")
            return window
        if is_lasting:
            with self._lock:
                self._cache[code, window] = spoken
                if len(self._cache) > _CACHED_WINDOWS:
                    self._cache.popitem(last=False)
        return spoken

    def _read(self, window: str, code: str, call: _Call) -> tuple[str, bool]:
        """One window in words, and whether they are as good as they can be."""
        reader = reader_of(code)
        text = with_ascii_digits(" ".join(window.split()))
        grammar = GRAMMARS.get(code)
        if grammar is None:
            spoken = reader.read(text)
            if spoken != window:
                call.note(f"{code}: num2words reads the numbers, this language has no grammar.")
            return spoken, False
        if _COUNTING.fullmatch(text):
            return reader.read(text), True
        text = before(text, grammar)
        try:
            spoken = self._by_grammar(grammar, text, call.until)
        except GrammarFault as fault:
            spoken = after(reader.read(text), grammar)
            if spoken != window:
                call.note(f"{code}: num2words read some numbers, because its grammar {fault}.")
            return spoken, False
        # What the grammar left in figures.
        return reader.read(spoken) if _FIGURE.search(spoken) else spoken, True

    def _by_grammar(self, grammar: str, text: str, until: float) -> str:
        asked = _FIGURE_STOP.sub(" ", text)
        folder = self._folder(grammar)
        # Japanese has no spaces, and its grammar no reading for one.
        parts = asked.split() if grammar == "ja" else [asked]
        spoken = " ".join(
            part if is_plain(part, grammar) else self._pool.read(grammar, folder, part, until)
            for part in parts
        )
        return after(spoken, grammar)

    def _folder(self, grammar: str) -> Path:
        """Where ``grammar`` is; asks for it where it is not."""
        if self._store.version is None:
            raise GrammarFault("needs pynini, which this platform does not have")
        if folder := self._store.find(grammar):
            return folder
        if not self._can_build:
            raise GrammarFault("is not built yet (make grammars)")
        coming = self._store.ask_for(grammar)
        if coming.done() and coming.exception() is not None:
            raise GrammarFault("could not be built")
        raise GrammarFault("is still being built, which happens once")


class _Call:
    """One call of ``normalise``: its text, and what has become of it so far."""

    def __init__(self, text: str, until: float) -> None:
        self.text = text
        self.until = until
        self.languages: dict[str, None] = {}
        self._notes: dict[str, None] = {}
        self._said: list[tuple[int, int, str]] = []

    def note(self, sentence: str) -> None:
        self._notes[sentence] = None

    def keep(self, start: int, end: int) -> None:
        """Leave ``start`` to ``end`` as it is."""
        self.say(start, end, self.text[start:end])

    def say(self, start: int, end: int, spoken: str) -> None:
        """Speak ``start`` to ``end`` as ``spoken``."""
        self._between(start)
        self._said.append((start, end, spoken))

    def result(self) -> Normalised:
        self._between(len(self.text))
        said = self._tidied() if self.languages else self._said
        text = "".join(spoken for _, _, spoken in said)
        return Normalised(self.text, text, tuple(self._notes), tuple(self.languages), tuple(said))

    def _between(self, end: int) -> None:
        """What needs no reading: one space for many, and paragraphs stay."""
        start = self._said[-1][1] if self._said else 0
        if start < end:
            self._said.append((start, end, _SPACE.sub(_space, self.text[start:end])))

    def _tidied(self) -> list[tuple[int, int, str]]:
        """What is said, without a space at either end or before a full stop."""
        tidied: list[tuple[int, int, str]] = []
        is_last = True
        comes_stop = False
        for start, end, spoken in reversed(self._said):
            spoken = _SPACED_STOP.sub("", spoken)
            if is_last or comes_stop:
                spoken = spoken.rstrip()
            if spoken:
                is_last = False
                comes_stop = _STOP.match(spoken) is not None
            tidied.append((start, end, spoken))
        start, end, spoken = tidied[-1]
        tidied[-1] = (start, end, spoken.lstrip())
        return tidied[::-1]


def _space(found: re.Match[str]) -> str:
    return "\n\n" if found[0].count("\n") > 1 else " "
