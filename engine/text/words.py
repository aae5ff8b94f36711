"""Numbers, units, sums and dates of a language in words: num2words, and CLDR where it has no words.

- num2words counts in 28 of the 34 languages; Unicode's own rules (CLDR, read by unicode-rbnf) spell
  the numbers of the other six. Names of units, currencies and months are CLDR's, by Babel.
- Nothing is loaded before a number is read.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import threading
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache, cached_property
from typing import Any

# The code of a language -> its name in CLDR.
_LOCALES = {
    "en_us": "en_US", "en_gb": "en_GB", "cmn": "zh_Hans_CN", "ja": "ja_JP", "ko": "ko_KR",
    "ru": "ru", "it": "it", "pt_br": "pt_BR", "fr_fr": "fr", "es": "es", "vi": "vi", "de": "de",
    "he": "he", "nl": "nl", "sv": "sv", "hi": "hi", "ta": "ta", "te": "te", "th": "th",
    "no": "nb", "bn": "bn", "tl": "fil", "ar": "ar", "da": "da", "id": "id", "pl": "pl",
    "uk": "uk", "ro": "ro", "fi": "fi", "hu": "hu", "lt": "lt", "et": "et", "sk": "sk",
    "hr": "hr", "lv": "lv",
}  # fmt: skip
# The languages whose numbers num2words does not know: CLDR's rules spell them.
_SPELLED_BY_CLDR = {"cmn", "hi", "ta", "tl", "et", "hr"}
# The decimal sign, where a library has none or another one than the people.
_POINTS = {
    "cmn": "点", "ja": "点", "hi": "दशमलव", "ta": "புள்ளி", "tl": "punto", "et": "koma",
    "hr": "zarez", "it": "virgola", "es": "coma", "vi": "phẩy", "id": "koma", "ar": "فاصلة",
    "bn": "দশমিক",
}  # fmt: skip
# Scripts that put no space between words.
UNSPACED = {"cmn", "ja", "th"}
_MINUSES = {"vi": "âm", "te": "మైనస్", "bn": "মাইনাস", "pl": "minus", "sk": "mínus"}
_NUM2WORDS_NAMES = {"en_us": "en", "en_gb": "en", "pt_br": "pt_BR", "fr_fr": "fr"}
# The first number of a counted thing, where it differs from counting aloud.
_ONES = {
    "de": ("eins", "ein"), "es": ("uno", "un"), "it": ("uno", "un"), "nl": ("één", "een"),
    "sk": ("jeden", "jeden"), "ro": ("unu", "un"),
}  # fmt: skip
_YEARS_OF_HUNDREDS = {"en_us", "en_gb", "de", "nl", "no", "da"}
_ORDINAL_DAY = re.compile(r"\b(\d{1,2})\.(?= )")
_DATE_SIGN = re.compile(r"\s(?:г|р|m|d)\.(?=\s|$)")  # "year", "day", shortened
_FIGURES = re.compile(r"(\d+)\.?")
PERCENT = "concentr-percent"
# Percent, where CLDR has only the sign for it.
_PERCENTS = {"cmn": "百分之{}", "ko": "{} 퍼센트", "vi": "{} phần trăm"}
# Longer numbers are read digit by digit: nobody hears what a quadrillion is.
_MAX_NUMBER = 10**15
# num2words keeps the precision of the number it is at in the converter itself.
_lock = threading.Lock()


def can_count(code: str) -> bool:
    """Whether numbers of this language can be said in words."""
    return code in _LOCALES


@cache
def words_of(code: str) -> Words:
    """The words of the language ``code``; each is made once."""
    return Words(code)


class Words:
    """Number words and CLDR names of one language (an engine code such as ``en_us``, ``cmn``)."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.locale = _LOCALES[code]

    @cached_property
    def decimal_sign(self) -> str:
        """What stands before the fraction in figures: a point or a comma."""
        from babel.numbers import get_decimal_symbol

        return str(get_decimal_symbol(self.locale))

    def cardinal(self, number: int) -> str:
        """``number`` in words; digit by digit beyond a quadrillion."""
        if number < 0 and self.code in _MINUSES:
            return f"{_MINUSES[self.code]} {self.cardinal(-number)}"
        if abs(number) < _MAX_NUMBER:
            with _lock, contextlib.suppress(OverflowError):  # Telugu ends at a hundred trillion
                # "one thousand, two hundred": nobody pauses there.
                return _one_spaced(self._spelled(number).replace(",", ""))
        return self.digits(str(abs(number)))

    def digits(self, figures: str) -> str:
        """Every figure by itself: "0123" as zero one two three."""
        return self._joined(self.cardinal(int(figure)) for figure in figures)

    def number(self, value: Decimal) -> str:
        """``value`` with its fraction in words."""
        whole, point, fraction = f"{value:f}".partition(".")
        if not point:
            return self.cardinal(int(whole))
        if self.code in _POINTS or abs(value) >= _MAX_NUMBER or len(fraction) > 6:
            point = _POINTS.get(self.code, ",")
            return self._joined((self.cardinal(int(whole)), point, self.digits(fraction)))
        if value < 0 and self.code in _MINUSES:
            return f"{_MINUSES[self.code]} {self.number(-value)}"
        with _lock:
            return _one_spaced(self._num2words(str(value), to="cardinal"))

    def ordinal(self, number: int) -> str | None:
        """``number`` as a rank, masculine where that matters; None where there is no word."""
        if self.code in _SPELLED_BY_CLDR:
            return None
        with _lock, contextlib.suppress(RuntimeError, AttributeError, LookupError):
            return _one_spaced(self._num2words(number, to="ordinal"))
        return None

    def year(self, number: int) -> str:
        """``number`` as a year: in English and German 1999 has nineteen hundreds."""
        if self.code not in _YEARS_OF_HUNDREDS:
            return self.cardinal(number)
        with _lock:
            return _one_spaced(self._num2words(number, to="year"))

    def measured(self, value: Decimal, unit: str, said: str | None = None) -> str:
        """``value``, or what is ``said`` for it, with a CLDR unit such as ``length-kilometer``."""
        from babel.numbers import format_decimal
        from babel.units import format_unit

        if unit == PERCENT and self.code in _PERCENTS:
            return _PERCENTS[self.code].format(said or self.number(value))
        written = format_unit(value, unit, "long", locale=self.locale)
        figures = format_decimal(value, locale=self.locale)
        return self._joined(written.replace(figures, f" {said or self.counted(value)} ").split())

    def money(self, value: Decimal, currency: str, *, is_said: bool = True) -> str:
        """``value`` of an ISO currency: the whole, its name, then the hundredths.

        Without ``is_said`` the numbers stay figures, for a grammar to say.
        """
        from babel.numbers import get_currency_name

        whole, _, fraction = f"{value:f}".partition(".")
        plural = value if int(fraction or 0) else Decimal(whole)
        name = get_currency_name(currency, count=plural, locale=self.locale)
        said: Callable[[Decimal], str] = self.counted if is_said else str
        parts = [said(Decimal(whole)), _short_name(name, currency)]
        if hundredths := int(fraction[:2].ljust(2, "0")):
            parts.append(said(Decimal(hundredths)))
        return self._joined(parts)

    def date(self, day: datetime.date) -> str:
        """``day`` in words, in CLDR's order and with its names of months."""
        from babel.dates import format_date

        written = format_date(day, "long", locale=self.locale)
        written = _DATE_SIGN.sub("", _ORDINAL_DAY.sub(self._rank, written))
        if self.locale == "en_US":
            written = written.replace(f" {day.day},", f" {self.ordinal(day.day)},")
        return _FIGURES.sub(self._figures, written)

    def _rank(self, figures: re.Match[str]) -> str:
        return self.ordinal(int(figures[1])) or self.cardinal(int(figures[1]))

    def _figures(self, figures: re.Match[str]) -> str:
        number = int(figures[1])
        if len(figures[1]) == 4:
            return self.digits(figures[1]) if self.code == "cmn" else self.year(number)
        return self.cardinal(number)

    def counted(self, value: Decimal) -> str:
        """``value`` before what it counts: German "ein Euro", counted aloud "eins"."""
        said = self.number(value)
        alone, counting = _ONES.get(self.code, ("", ""))
        return counting if value == 1 and said == alone else said

    def _spelled(self, number: int) -> str:
        if self.code in _SPELLED_BY_CLDR:
            return str(_rbnf(self.locale.partition("_")[0]).format_number(number).text)
        return self._num2words(number, to="cardinal")

    def _num2words(self, number: int | str, to: str) -> str:
        from num2words import num2words

        return str(num2words(number, lang=_NUM2WORDS_NAMES.get(self.code, self.code), to=to))

    def _joined(self, words: Iterable[str]) -> str:
        return ("" if self.code in UNSPACED else " ").join(words)


@cache
def _rbnf(language: str) -> Any:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)


def _one_spaced(text: str) -> str:
    return " ".join(text.replace("\u200b", "").replace("\u00ad", "").split())


def _short_name(name: str, currency: str) -> str:
    """Dollars, where CLDR says "US dollars" and "dollars des États-Unis" for a $."""
    parts = re.split(r"[ -]", name) if currency == "USD" else []
    return next((part for part in parts if part.lower().startswith(("dol", "dól"))), name)
