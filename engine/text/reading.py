"""Figures and signs of a text in words, without a grammar: dates, times, sums, units, numbers.

- It reads where no grammar is at hand, and what a grammar left or is known to read wrongly: then
  only the classes that are asked for.
- What a number is, is told by its form alone; the words are those of ``engine.text.words``.
- Every pattern is linear in the text: no part of one can match what its neighbour matches.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache

from engine.text.words import PERCENT, UNSPACED, words_of

# How a unit is written -> its name in CLDR.
UNITS = {
    "%": PERCENT, "‰": "concentr-permille", "°C": "temperature-celsius",
    "°F": "temperature-fahrenheit", "°": "angle-degree",
    "km/h": "speed-kilometer-per-hour", "m/s": "speed-meter-per-second",
    "km²": "area-square-kilometer", "m²": "area-square-meter", "cm²": "area-square-centimeter",
    "ha": "area-hectare", "m³": "volume-cubic-meter", "km": "length-kilometer",
    "cm": "length-centimeter", "mm": "length-millimeter", "m": "length-meter",
    "kg": "mass-kilogram", "mg": "mass-milligram", "g": "mass-gram", "t": "mass-tonne",
    "ml": "volume-milliliter", "l": "volume-liter", "L": "volume-liter",
    "GB": "digital-gigabyte", "MB": "digital-megabyte", "TB": "digital-terabyte",
    "kWh": "energy-kilowatt-hour", "kW": "power-kilowatt", "W": "power-watt",
    "MHz": "frequency-megahertz", "GHz": "frequency-gigahertz", "kHz": "frequency-kilohertz",
    "Hz": "frequency-hertz", "min": "duration-minute", "h": "duration-hour", "s": "duration-second",
}  # fmt: skip
# How a currency is written -> its ISO code.
CURRENCIES = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "￥": "JPY", "₹": "INR", "₽": "RUB",
    "₴": "UAH", "₩": "KRW", "₪": "ILS", "₫": "VND", "₱": "PHP", "฿": "THB", "zł": "PLN",
    "US$": "USD", "R$": "BRL", "EUR": "EUR", "USD": "USD", "GBP": "GBP", "CHF": "CHF",
}  # fmt: skip
# "to" between the two ends of a range.
_TO = {
    "en_us": "to", "en_gb": "to", "de": "bis", "fr_fr": "à", "it": "a", "pt_br": "a", "es": "a",
    "nl": "tot", "sv": "till", "no": "til", "da": "til", "pl": "do", "ru": "до", "uk": "до",
    "ro": "până la", "id": "sampai", "vi": "đến", "tl": "hanggang", "th": "ถึง", "hi": "से",
    "cmn": "到", "ja": "から", "ko": "에서", "hr": "do", "sk": "až", "fi": "viiva", "et": "kuni",
    "lt": "iki", "lv": "līdz", "ar": "إلى", "he": "עד", "ta": "முதல்", "bn": "থেকে", "te": "నుండి",
    "hu": "–",
}  # fmt: skip
# What is said between hour and minute, and after the minute, where it is not a pause.
_CLOCKS = {
    "cmn": ("点", "分"), "ja": ("時", "分"), "ko": ("시 ", "분"), "de": (" Uhr ", ""),
    "fr_fr": (" heures ", ""), "pt_br": (" horas e ", ""), "it": (" e ", ""), "es": (" y ", ""),
}  # fmt: skip
_PLUS = {"it": "più", "es": "más", "pt_br": "mais", "ru": "плюс", "uk": "плюс", "cmn": "加",
         "ja": "プラス", "ko": "플러스"}  # fmt: skip

# The classes that ``read`` knows, in the order in which they claim their figures.
DATE, TIME, PHONE, MONEY, MEASURE, RANGE, ORDINAL, NUMBER = EVERY_CLASS = (
    "date", "time", "phone", "money", "measure", "range", "ordinal", "number"
)  # fmt: skip

# Not in the middle of a Latin word, a longer number, an address; scripts without spaces go on.
_LETTER = r"A-Za-z\u00c0-\u024f\d_"
_FREE = rf"(?<![{_LETTER}.,:/+-])"
_END = rf"(?![{_LETTER}])"
_DATE = re.compile(
    rf"{_FREE}(?:(\d{{4}})([./-])(\d{{1,2}})\2(\d{{1,2}})|(\d{{1,2}})([./-])(\d{{1,2}})\6(\d{{4}}))"
    rf"(?![{_LETTER}/-])"
)
_TIME = re.compile(rf"{_FREE}(\d{{1,2}})(?::|\s?h\s?)(\d{{2}})(?::\d{{2}})?(?![{_LETTER}:])")
_PHONE = re.compile(rf"{_FREE}(?:\+\d|0\d)[\d ()/-]{{4,20}}\d{_END}")
_ORDINAL = re.compile(rf"{_FREE}(\d{{1,4}})\.?([ºª°]){_END}")
_MIN_PHONE_DIGITS = 7
_MAX_DIGITS = 15


def _one_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


@cache
def reader_of(code: str, *, keeps_figures: bool = False) -> Reader:
    """The reader of the language ``code``; each is made once."""
    return Reader(code, keeps_figures)


def with_ascii_digits(text: str) -> str:
    """``text`` with the digits of every script (full width, Arabic, Devanagari …) as 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)


class Reader:
    """Reads the figures of one language (an engine code such as ``de``, ``pt_br``).

    With ``keeps_figures`` it only names units and currencies and leaves their numbers to a grammar.
    """

    def __init__(self, code: str, keeps_figures: bool = False) -> None:
        self._keeps_figures = keeps_figures
        self.words = words_of(code)
        self.code = code
        self._decimal_sign = self.words.decimal_sign
        # "1 234" is one number where the comma is the decimal sign, and two elsewhere.
        spaced = r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:,\d+)?|"
        number = rf"(?:{spaced if self._decimal_sign == ',' else ''}\d+(?:[.,]\d+)*)"
        money, units = _one_of(CURRENCIES), _one_of(UNITS)
        self._readings: dict[str, tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = {
            DATE: (_DATE, self._date),
            TIME: (_TIME, self._time),
            PHONE: (_PHONE, self._phone),
            MONEY: (
                re.compile(
                    rf"(?<![{_LETTER}])({money})\s?({number}){_END}"
                    rf"|{_FREE}({number})\s?({money}){_END}"
                ),
                self._money,
            ),
            MEASURE: (
                re.compile(rf"(?:((?<!\S)[-−])|{_FREE})({number})\s?({units})(?![{_LETTER}/²³])"),
                self._measure,
            ),
            RANGE: (
                re.compile(rf"{_FREE}({number})\s?([-–—~〜～])\s?(?=({number})(?![\d-]))"),
                self._range,
            ),
            ORDINAL: (_ORDINAL, self._ordinal),
            NUMBER: (re.compile(rf"((?<!\S)[-−])?({number})"), self._number),
        }

    def read(self, text: str, classes: Iterable[str] = EVERY_CLASS) -> str:
        """``text`` with the figures of these classes in words; what has no words stays."""
        for name in classes:
            pattern, say = self._readings[name]
            text = pattern.sub(say, text)
        return text

    def value(self, figures: str) -> Decimal | None:
        """The number that ``figures`` write, or None: a version, an address, "007"."""
        figures = "".join(figures.split())
        signs = [c for c in figures if c in ".,"]
        if not signs:
            is_code = figures[0] == "0" and len(figures) > 1
            return None if is_code or len(figures) > _MAX_DIGITS else Decimal(figures)
        whole, _, tail = figures.rpartition(signs[-1])
        is_grouped = len(tail) == 3 and signs[-1] != self._decimal_sign and whole[0] != "0"
        if len(signs) > 1 and len(set(signs)) == 1:
            parts = figures.split(signs[0])
            if any(len(part) != 3 for part in parts[1:]):
                return None
            is_grouped = True
        whole = whole.replace(",", "").replace(".", "")
        if len(whole) + len(tail) > _MAX_DIGITS:
            return None
        return Decimal(whole + tail if is_grouped else f"{whole}.{tail}")

    def _said(self, figures: str) -> str:
        value = self.value(figures)
        if value is not None:
            return self.words.number(value)
        parts = re.split(r"[.,\s]+", figures)
        return " ".join(self.words.digits(part) for part in parts)

    def _date(self, found: re.Match[str]) -> str:
        first, sign, month, last = found.group(1, 2, 3, 4) if found[1] else found.group(5, 6, 7, 8)
        year, day = (first, last) if found[1] else (last, first)
        if not found[1] and sign == "/" and self.code == "en_us":
            month, day = day, month
        try:
            return self.words.date(datetime.date(int(year), int(month), int(day)))
        except ValueError:  # the 31st of June, or no date at all
            return found[0]

    def _time(self, found: re.Match[str]) -> str:
        hour, minute = int(found[1]), int(found[2])
        if hour > 24 or minute > 59:
            return found[0]
        between, after = _CLOCKS.get(self.code, (" ", ""))
        if minute == 0:
            return (self.words.cardinal(hour) + between.rstrip("e y")).strip()
        minutes = self.words.cardinal(minute)
        if minute < 10 and self.code not in _CLOCKS:
            minutes = self.words.digits(found[2])
        return self.words.cardinal(hour) + between + minutes + after

    def _phone(self, found: re.Match[str]) -> str:
        groups = re.findall(r"\d+", found[0])
        if sum(map(len, groups)) < _MIN_PHONE_DIGITS:
            return found[0]
        said = ", ".join(self.words.digits(group) for group in groups)
        return f"{_PLUS.get(self.code, 'plus')} {said}" if found[0][0] == "+" else said

    def _money(self, found: re.Match[str]) -> str:
        sign, figures = found.group(1, 2) if found[1] else found.group(4, 3)
        value = self.value(figures)
        if value is None:
            return found[0]
        return self.words.money(value, CURRENCIES[sign], is_said=not self._keeps_figures)

    def _measure(self, found: re.Match[str]) -> str:
        value = self.value(found[2])
        if value is None:
            return found[0]
        figures = f"{found[1] or ''}{found[2]}" if self._keeps_figures else None
        return self.words.measured(-value if found[1] else value, UNITS[found[3]], figures)

    def _range(self, found: re.Match[str]) -> str:
        start, end = self.value(found[1]), self.value(found[3])
        if start is None or end is None or (found[2] == "-" and start >= end):
            return found[0]
        before, after = ("", "") if self.code in UNSPACED else (" ", " ")
        if self.code == "ko":  # the particle stands at the first number
            before = ""
        return f"{found[1]}{before}{_TO[self.code]}{after}"

    def _ordinal(self, found: re.Match[str]) -> str:
        said = self.words.ordinal(int(found[1]))
        if said is None or found[2] == "°":
            return found[0]
        return said[:-1] + "a" if found[2] == "ª" and said.endswith("o") else said

    def _number(self, found: re.Match[str]) -> str:
        said = self._said(found[2])
        if found[1]:
            value = self.value(found[2])
            said = said if value is None else self.words.number(-value)
        if self.code in UNSPACED or self.code == "ko":
            return said
        before = found.string[: found.start()][-1:]
        after = found.string[found.end() :][:1]
        return f"{' ' * before.isalpha()}{said}{' ' * after.isalpha()}"
