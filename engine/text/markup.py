"""Pauses and the plain parts of SSML in a text: what is spoken how, and where it is silent.

- Read are ``[pause 500ms]`` and ``<break>``, ``<say-as>``, ``<sub>``, ``<p>``, ``<s>`` and
  ``<prosody rate>``; every other tag of SSML is taken out, its content stays.
- ``mark`` puts one private-use character in the place of each sign, so that the text may be cleaned
  before ``pieces`` cuts it there: what cleaning drops is dropped with its signs.
- Nothing here fails: what cannot be understood stays text or is left out, and a note tells it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape

from engine.text.characters import tidy_characters
from engine.text.lines import end_mark
from engine.text.say_as import SPOKEN_AS

MAX_PAUSE_MS = 10_000
MAX_PAUSES_MS = 300_000  # all pauses of one text together
PARAGRAPH_MS = 500
MIN_RATE, MAX_RATE = 0.5, 2.0

_MAX_DEPTH = 20
_FIRST_MARK = 0xF0000
_MAX_MARKS = 0xFFFD
MARK = re.compile("([\U000f0000-\U000ffffc])")
_PARAGRAPH = re.compile(r"\s*\n\s*\n\s*")

_PAUSE = r"\[\s{0,9}(?:pause|break)(?P<pause>[\s:=][^\[\]\n]{0,40})?\]"
# The value may hold ">": it is in quotes. Each attribute begins where the last one ended, so that
# no text is looked at twice.
_ATTRIBUTE = r"\s++([a-zA-Z:_-]++)\s*+=\s*+(\"[^\"<]*+\"|'[^'<]*+')"
_TAG = (
    r"<(?P<close>/)?(?P<name>speak|break|say-as|sub|p|s|prosody|emphasis|voice|phoneme|audio|mark|"
    r"lang|lexicon|lookup|metadata|meta|desc|token|w|par|seq|media|"
    rf"(?:amazon|google|mstts|ssml):[a-z-]++)(?P<attributes>(?:{_ATTRIBUTE})*+)\s*+(?P<empty>/)?>"
)
_SIGN = re.compile(f"{_PAUSE}|{_TAG}", re.IGNORECASE)
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_TIME = re.compile(r"\s*:?=?\s*\+?(\d{0,6}(?:\.\d{0,6})?)\s*(ms|s|sec|secs|seconds?)\s*", re.I)
_STRENGTHS_MS = {
    "none": 0, "x-weak": 100, "weak": 250, "medium": 500, "strong": 750, "x-strong": 1000,
}  # fmt: skip
_RATES = {
    "x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence, in milliseconds."""

    ms: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """Text that is spoken at ``rate`` times the usual speed; ``say_as`` tells how to read it."""

    text: str
    rate: float = 1.0
    say_as: str | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class _Open:
    """An element begins, and what it changes in what it holds."""

    name: str
    rate: float = 1.0
    say_as: str | None = None
    format: str = ""
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class _Close:
    name: str


@dataclass(frozen=True, slots=True)
class _SentenceBorder:
    """A sentence begins or ends here."""


Event = Pause | _Open | _Close | _SentenceBorder


def mark(text: str) -> tuple[str, list[Event], list[str]]:
    """``text`` with a mark in the place of each sign, what the marks stand for, and notes."""
    events: list[Event] = []
    notes: list[str] = []

    def place(match: re.Match[str]) -> str:
        if len(events) >= _MAX_MARKS:
            return match[0]
        event = _pause(match, notes) if match["name"] is None else _element(match, notes)
        if isinstance(event, str):
            return event
        events.append(event)
        return chr(_FIRST_MARK + len(events) - 1)

    return _SIGN.sub(place, tidy_characters(text)), events, notes


def pieces(
    text: str,
    events: Sequence[Event] = (),
    notes: list[str] | None = None,
    *,
    paragraph_ms: int = PARAGRAPH_MS,
) -> list[Spoken | Pause]:
    """A marked text as what is spoken and what is silent, in order; notes are added to ``notes``.

    Between paragraphs lie ``paragraph_ms``, unless a pause was asked for at that place. No
    ``Spoken`` is blank, and the pauses keep to the limits.
    """
    told: list[str] = [] if notes is None else notes
    bounded: list[Spoken | Pause] = []
    left_ms = MAX_PAUSES_MS
    for piece in _paused_at_paragraphs(_read(text, events, told), paragraph_ms):
        if isinstance(piece, Pause):
            piece = Pause(min(piece.ms, left_ms))
            left_ms -= piece.ms
        if not isinstance(piece, Pause) or piece.ms:
            bounded.append(piece)
    if not left_ms:
        told.append(f"All pauses together last at most {MAX_PAUSES_MS // 1000} s.")
    return bounded


def _pause(match: re.Match[str], notes: list[str]) -> Event | str:
    ms = _milliseconds(match["pause"] or "")
    if ms is None:
        notes.append(f"{match[0][:40]!r} is read as text: write [pause 500ms] or [pause 2s].")
        return match[0]
    return _limited(ms, notes)


def _element(match: re.Match[str], notes: list[str]) -> Event | str:
    name = match["name"].lower()
    if name == "p":
        return "\n\n"
    if name == "s":
        return _SentenceBorder()
    if name not in ("break", "say-as", "sub", "prosody") or (name == "break" and match["close"]):
        return ""
    if match["close"]:
        return _Close(name)
    given = {
        key.lower(): tidy_characters(unescape(value[1:-1])).strip()
        for key, value in _ATTRIBUTES.findall(match["attributes"])
    }
    if name == "break":
        return _break(given, notes)
    element = _Open(name)
    if name == "say-as":
        way = given.get("interpret-as", "").lower()
        if way in SPOKEN_AS:
            element = _Open(name, say_as=way, format=given.get("format", "").lower())
        else:
            notes.append(f"say-as {way[:40]!r} is read as usual: {', '.join(SPOKEN_AS)} are known.")
    elif name == "sub" and given.get("alias"):
        element = _Open(name, instead=given["alias"])
    elif name == "prosody" and "rate" in given:
        rate = _rate(given["rate"])
        if rate is None:
            notes.append(f"prosody rate {given['rate'][:40]!r} is not known: write slow or 80%.")
        else:
            element = _Open(name, rate=rate)
    return element if not match["empty"] else ""


def _break(given: Mapping[str, str], notes: list[str]) -> Event | str:
    ms = _STRENGTHS_MS.get(given.get("strength", "medium").lower(), _STRENGTHS_MS["medium"])
    if "time" in given:
        time_ms = _milliseconds(given["time"])
        if time_ms is None:
            notes.append(f"break time {given['time'][:40]!r} is not known: write 500ms or 2s.")
        else:
            ms = time_ms
    return _limited(ms, notes)


def _milliseconds(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None or not match[1].strip("."):
        return None
    return round(float(match[1]) * (1 if match[2].lower() == "ms" else 1000))


def _limited(ms: int, notes: list[str]) -> Pause:
    if ms > MAX_PAUSE_MS:
        notes.append(f"A pause lasts at most {MAX_PAUSE_MS // 1000} s, not {ms / 1000:g} s.")
    return Pause(min(ms, MAX_PAUSE_MS))


def _rate(text: str) -> float | None:
    """A rate such as "slow", "80%", "+10%" or "1.2", as a multiple of the usual one."""
    if text.lower() in _RATES:
        return _RATES[text.lower()]
    match = re.fullmatch(r"([+-]?)(\d{1,4}(?:\.\d{1,4})?)(%?)", text)
    if match is None:
        return None
    value = float(match[2]) / (100 if match[3] else 1)
    return 1 + value * (1 if match[1] == "+" else -1) if match[1] else value


def _read(text: str, events: Sequence[Event], notes: list[str]) -> Iterator[Spoken | Pause]:
    """Walk the text from mark to mark with the elements that are open."""
    open_elements: list[_Open] = []
    last = ""
    for run in MARK.split(text):
        event = events[ord(run) - _FIRST_MARK] if MARK.fullmatch(run) else None
        is_replaced = any(element.instead for element in open_elements)
        if event is None:
            if run and not is_replaced:
                last = run if run.strip() else last
                yield _spoken(run, open_elements)
        elif isinstance(event, Pause):
            yield event
        elif isinstance(event, _SentenceBorder):
            yield Spoken(end_mark(last) + " ")
            last = ""
        elif isinstance(event, _Open):
            if len(open_elements) == _MAX_DEPTH:
                notes.append(f"More than {_MAX_DEPTH} elements are open; the rest is left out.")
                continue
            if event.instead and not is_replaced:
                last = event.instead
                yield replace(_spoken(last, open_elements), say_as="alias", format="")
            open_elements.append(event)
        elif event.name in (names := [element.name for element in open_elements]):
            del open_elements[len(names) - 1 - names[::-1].index(event.name) :]
        else:
            notes.append(f"</{event.name}> closes nothing and is left out.")
    notes += [f"<{element.name}> is never closed." for element in open_elements]


def _spoken(text: str, open_elements: Sequence[_Open]) -> Spoken:
    rate = 1.0
    say_as, form = None, ""
    for element in open_elements:
        rate *= element.rate
        if element.say_as:
            say_as, form = element.say_as, element.format
    rate = round(min(max(rate, MIN_RATE), MAX_RATE), 4)
    return Spoken(text, rate, say_as, form)


def _paused_at_paragraphs(
    found: Iterable[Spoken | Pause], paragraph_ms: int
) -> Iterator[Spoken | Pause]:
    has_text = is_due = False
    gap = ""  # white space between two pieces, given to the one after it
    for piece in found:
        if isinstance(piece, Pause):
            has_text, is_due, gap = False, False, ""
            yield piece
            continue
        for at, paragraph in enumerate(_PARAGRAPH.split(piece.text)):
            is_due = is_due or (has_text and at > 0)
            if not paragraph.strip():
                gap = " " if paragraph and has_text else gap
                continue
            if is_due:
                gap = "" if paragraph_ms else " "
                if paragraph_ms:
                    yield Pause(paragraph_ms)
            yield replace(piece, text=gap + paragraph)
            has_text, is_due, gap = True, False, ""
