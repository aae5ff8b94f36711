"""What NeMo's German grammar reads wrongly: days, years, sums, thousands, ranges, abbreviations.

Its compounds stay in parts ("fünf und zwanzig"), as the model's own front end gives them.
"""

from __future__ import annotations

import re

from engine.text.reading import MONEY, RANGE, TIME, reader_of
from engine.text.repairs.rules import ROMAN, applied, roman_value, rules
from engine.text.words import words_of

_MONTHS = "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
_MONTH_NAMES = _MONTHS.split("|")
# After these an ordinal ends in -n, after the others in -e; without either in -r.
_DATIVE = (
    r"am|dem|den|des|im|vom|zum|zur|beim|ab|bis|seit|nach|vor|einem|einer|jedem|jeden|seinem|"
    r"seinen|ihrem|ihren|meinem|meinen|unserem|unseren|diesem|diesen"
)
_ARTICLES = rf"{_DATIVE}|der|die|das|jede|jeder|jedes|diese|dieser|dieses"
_YEAR = r"1[1-9]\d\d"


def _rank(number: str, before: str) -> str:
    word = words_of("de").ordinal(int(number)) or number
    if before.lower() in _DATIVE.split("|"):
        return word + "n"
    return word if before.lower() in _ARTICLES.split("|") else word + "r"


def _ordinal(found: re.Match[str]) -> str:
    return f"{found[1]} {_rank(found[2], found[1])} "


def _day(found: re.Match[str]) -> str:
    return f"{found[1] or ''}{_rank(found[2], (found[1] or '').strip())} "


def _date(found: re.Match[str]) -> str:
    before, day, month, year = found.group(1, 2, 3, 4)
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return found[0]
    name = f"{_rank(day, (before or '').strip())} {_MONTH_NAMES[int(month) - 1]}"
    return f"{before or ''}{name}{f' {_year_words(year)}' if year else ''}"


def _year_words(figures: str) -> str:
    return words_of("de").year(int(figures))


def _reign(found: re.Match[str]) -> str:
    return f"{found[1]} der {(words_of('de').ordinal(roman_value(found[2])) or '').capitalize()}"


def _decade(found: re.Match[str]) -> str:
    words = words_of("de")
    number = int(found[1])
    return (words.year(number) if number > 99 else words.cardinal(number)) + "er"


BEFORE = rules(
    (r"\busw\.", "und so weiter"),
    (r"\bbzw\.", "beziehungsweise"),
    (r"\bz\. ?B\.", "zum Beispiel"),
    (r"\bd\. ?h\.", "das heißt"),
    (r"\bu\. ?a\.", "unter anderem"),
    (r"\bevtl\.", "eventuell"),
    (r"\bggf\.", "gegebenenfalls"),
    (r"\binkl\.", "inklusive"),
    (r"\bca\.", "circa"),
    (r"\bHr\.", "Herr"),
    (r"\bProf\.", "Professor"),
    (r"\bTel\.", "Telefon"),
    (r"\bS\. ?(?=\d)", "Seite "),
    (r"\bAbs\. ?(?=\d)", "Absatz "),
    (r"\bArt\. ?(?=\d)", "Artikel "),
    (r"\bKap\. ?(?=\d)", "Kapitel "),
    (r"§ ?(?=\d)", "Paragraf "),
    (r"(?<=\d) ?Mio\.", " Millionen"),
    (r"(?<=\d) ?Mrd\.", " Milliarden"),
    (r"\b(\w+)str\.(?=\s|$)", r"\1straße"),
    (r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+)(?![.\d])", lambda m: m[1].replace(".", "")),
    (rf"(?i:\b((?:{_ARTICLES}) ))?(?<![\d.])(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}})?(?!\d)", _date),
    (rf"(?i:\b((?:{_ARTICLES}) ))?(?<![\d.])(\d{{1,2}})\. ?(?=(?:{_MONTHS})\b)", _day),
    (rf"(?i:\b({_ARTICLES})) (\d{{1,3}})\. (?=[A-Za-zÄÖÜäöü])", _ordinal),
    (rf"\b({_MONTHS}) ({_YEAR})\b", lambda m: f"{m[1]} {_year_words(m[2])}"),
    (
        rf"(?i:\b(Jahr|Jahre|Jahres|seit|anno|um|nach|vor|bis|von|in|wurde|war|ab)) ({_YEAR})\b"
        r"(?![.,]\d|\s?[€$%–-]| [A-ZÄÖÜ])",
        lambda m: f"{m[1]} {_year_words(m[2])}",
    ),
    (r"\b(\d\d|\d{4})er\b", _decade),
    (rf"\b([A-ZÄÖÜ][a-zäöüß]+) ({ROMAN})\.", _reign),
)


def before(text: str) -> str:
    """``text`` written so that the grammar reads it right."""
    reader = reader_of("de")
    text = reader.read(applied(text, BEFORE), (MONEY, RANGE))
    # "14:30 Uhr" is read right as it is.
    return re.sub(
        r"\d{1,2}:\d{2}(?![\d:]| ?Uhr)", lambda found: reader.read(found[0], (TIME,)), text
    )
