"""``say-as``: characters one by one, telephone numbers, dates and ranks.

What does not look like what it is said to be stays as it is, and so does what has no words in the
language; single figures are left to the normaliser.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping

from engine.text.signs import signs_of
from engine.text.words import can_count, words_of

_MAX_CHARS = 200
_ROMAN = re.compile(r"(?=.)M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def speak_as(text: str, say_as: str, order: str, language: str | None) -> str:
    """``text`` as ``say_as`` (one of ``SPOKEN_AS``) wants it read in ``language``, a code.

    ``order`` is the format of a date: "dmy", "mdy" or "ymd"; a date that begins with its year needs
    none.
    """
    core = text.strip()
    if say_as not in SPOKEN_AS or not core or len(core) > _MAX_CHARS:
        return text
    before, _, after = text.partition(core)
    return before + SPOKEN_AS[say_as](core, order, language) + after


def _characters(text: str, order: str, language: str | None) -> str:
    signs = signs_of(language)
    said = {} if signs is None else {
        ".": signs.dot, "/": signs.slash, "@": signs.at, "-": signs.hyphen, "_": signs.underscore,
        "+": signs.plus,
    }  # fmt: skip
    return " ".join(said.get(char, char.upper()) for char in text if char in said or char.isalnum())


def _telephone(text: str, order: str, language: str | None) -> str:
    signs = signs_of(language)
    plus = f"{signs.plus} " if signs and text.startswith("+") else ""
    groups = re.findall(r"[^\W_]+", text)
    return plus + ", ".join(" ".join(group.upper()) for group in groups)


def _cardinal(text: str, order: str, language: str | None) -> str:
    return str(_roman(text) or text)


def _ordinal(text: str, order: str, language: str | None) -> str:
    figures = re.match(r"\d{1,12}(?!\d)", text)
    rank = _roman(text) or (int(figures[0]) if figures else None)
    if rank is None or language is None or not can_count(language):
        return text
    return words_of(language).ordinal(rank) or text


def _date(text: str, order: str, language: str | None) -> str:
    figures = re.fullmatch(r"(\d{1,4})[\s./-]+(\d{1,2})[\s./-]+(\d{1,4})\.?", text)
    if figures is None or language is None or not can_count(language):
        return text
    if order not in ("dmy", "mdy", "ymd"):
        order = "ymd" if len(figures[1]) == 4 else ""
    part = dict(zip(order, map(int, figures.groups()), strict=False))
    try:
        return words_of(language).date(datetime.date(part["y"], part["m"], part["d"]))
    except (KeyError, ValueError):  # no order, or no such day
        return text


SPOKEN_AS: Mapping[str, Callable[[str, str, str | None], str]] = {
    "characters": _characters,
    "spell-out": _characters,
    "digits": _characters,
    "telephone": _telephone,
    "date": _date,
    "cardinal": _cardinal,
    "ordinal": _ordinal,
}


def _roman(text: str) -> int | None:
    """The value of a roman number, or None."""
    if not _ROMAN.fullmatch(text):
        return None
    values = [_ROMAN_VALUES[char] for char in text]
    following = [*values[1:], 0]
    return sum(-v if v < after else v for v, after in zip(values, following, strict=True))
