"""What NeMo's French, Italian, Portuguese and Spanish grammars read wrongly or not at all.

Units, sums, times and ordinals that they leave as signs; thousands with points; ranges; reigns.
"""

from __future__ import annotations

import re

from engine.text.reading import (
    DATE,
    MEASURE,
    MONEY,
    ORDINAL,
    PHONE,
    RANGE,
    TIME,
    UNITS,
    reader_of,
)
from engine.text.repairs.rules import ROMAN, Replacement, Rules, applied, roman_value, rules
from engine.text.words import words_of

_NAME = r"([A-ZÀ-Þ][a-zß-ÿ]+)"
_LONG_ROMAN = rf"(?=[IVX]{{2}})({ROMAN})"


def _without_points(found: re.Match[str]) -> str:
    return found[1].replace(".", "")


def _as_number(found: re.Match[str]) -> str:
    return f"{found[1]} {roman_value(found[2])}"


def _italian_rank(found: re.Match[str]) -> str:
    return f"{found[1]} {words_of('it').ordinal(roman_value(found[2]))}"


def _italian_century(found: re.Match[str]) -> str:
    return f"{words_of('it').ordinal(roman_value(found[1]))} secolo"


def _low_rank(code: str) -> Replacement:
    """Spanish and Portuguese monarchs and popes: ordinals to ten, then plain numbers."""

    def said(found: re.Match[str]) -> str:
        value = roman_value(found[2])
        return f"{found[1]} {words_of(code).ordinal(value) if value <= 10 else value}"

    return said


def _spanish_century(found: re.Match[str]) -> str:
    return f"{found[1]} {words_of('es').cardinal(roman_value(found[2]))}"


def _spanish_telephone(found: re.Match[str]) -> str:
    return ", ".join(words_of("es").digits(group) for group in found[0].split())


_THOUSANDS = (r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+)(?![.\d])", _without_points)
_BEFORE: dict[str, Rules] = {
    "fr": rules(
        _THOUSANDS,
        (r"\bM\. (?=[A-ZÀ-Þ])", "Monsieur "),
        (r"\bMM\. ", "Messieurs "),
        (r"\bMme\b\.?", "Madame"),
        (r"\bMlle\b\.?", "Mademoiselle"),
        (r"\bDr\b\.?", "docteur"),
        (r"\bPr\b\.? (?=[A-ZÀ-Þ])", "professeur "),
        (r"\bp\. ?ex\.", "par exemple"),
        (r"\bTél\.", "téléphone"),
        (r"\bn[°º] ?(?=\d)", "numéro "),
        (r"\+(?=\d)", "plus "),
        (r"\b1re\b", "première"),
        (r"\b2nd\b", "second"),
        (r"\b2nde\b", "seconde"),
        (r"\b([XVI]+)e(?= siècle)", lambda m: f"{roman_value(m[1])}e"),
        (rf"\b{_NAME} {_LONG_ROMAN}\b", _as_number),
        (rf"\b{_NAME} Ier\b", r"\1 premier"),
        (r"(?<=\w)@(?=\w)", " arobase "),
        (r"(?<=[a-z])\.(?=[a-z]{2,})", " point "),
    ),
    "it": rules(
        _THOUSANDS,
        (r"\bn(?:r|°)?\. ?(?=\d)", "numero "),
        (r"\b1 (?=(?:gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre"
         r"|novembre|dicembre)\b)", "primo "),
        (r"\b1 euro\b", "un euro"),
        (r"(?<![\d.,])(\d+,\d\d) euro\b", r"€ \1"),
        (r"\b1/2\b", "un mezzo"),
        (r"\b1/3\b", "un terzo"),
        (r"\b2/3\b", "due terzi"),
        (r"\b1/4\b", "un quarto"),
        (r"\b3/4\b", "tre quarti"),
        (rf"\b({ROMAN}) secolo\b", _italian_century),
        (rf"\b([Ss]ecolo) ({ROMAN})\b", _italian_rank),
        (rf"\b([Cc]apitolo|[Aa]tto|[Pp]arte) ({ROMAN})\b", _as_number),
        (rf"\b{_NAME} {_LONG_ROMAN}\b", _italian_rank),
        # "ha" before a participle is no hectare.
        (
            r"(?<![\d/.])(\d{1,4})(?= ha [a-zà-ù]+(?:to|so|sto|tto|lto|nto|rto)\b)",
            lambda m: words_of("it").cardinal(int(m[1])),
        ),
    ),
    "pt": rules(
        _THOUSANDS,
        (r"\bn\.?[º°] ?(?=\d)", "número "),
        (r"\bDr\.", "Doutor"),
        (r"\bDra\.", "Doutora"),
        (r"\bSr\.", "Senhor"),
        (r"\bSra\.", "Senhora"),
        (r"\bProf\.", "Professor"),
        (r"\bProfa\.", "Professora"),
        (rf"\b([Ss]éculo|[Cc]apítulo|[Pp]arte) ({ROMAN})\b", _as_number),
        (rf"\b{_NAME} {_LONG_ROMAN}\b", _low_rank("pt_br")),
        # A bracket at a figure stops the grammar.
        (r"([(\[{“«])(?=\d)", r"\1 "),
        (r"(?<=\d)(?=[)\]}”»])", " "),
        (r"(?<=\d)\s?km/h\b", " quilômetros por hora"),
        (r"(?<=\d)\s?m/s\b", " metros por segundo"),
        # A unit is read only with a space after it.
        (rf"(?<=\d)(\s?(?:{'|'.join(map(re.escape, UNITS))}))(?=[.,;:!?](?:\s|$))", r"\1 "),
    ),
    "es": rules(
        (r"\bn\.?[º°] ?(?=\d)", "número "),
        (rf"\b([Ss]iglo) ({ROMAN})\b", _spanish_century),
        (rf"\b{_NAME} {_LONG_ROMAN}\b", _low_rank("es")),
        (r"(?<![\d+])\d{2,3}(?: \d{2,3}){3}\b", _spanish_telephone),
    ),
}  # fmt: skip
_CODES = {"fr": "fr_fr", "it": "it", "pt": "pt_br", "es": "es"}
# What our own reader says instead of the grammar.
_SAID = {
    "fr": (TIME,),
    "it": (DATE, PHONE, ORDINAL),
    "pt": (),
    "es": (PHONE,),
}
_NAMED = {"fr": (MONEY, MEASURE), "it": (MEASURE,), "pt": (), "es": (MEASURE,)}
_PADDED_BRACKET = re.compile(r"(?<=[(\[{“«]) | (?=[)\]}”»])")
_RANK_SIGN = re.compile(r"(?<=\d)°(?= [a-zà-ù])")
_SHORT_HOUR = re.compile(r"(?<![\d:])\d:\d{2}(?![\d:])")


def before(text: str, grammar: str) -> str:
    """``text`` written so that ``grammar`` reads it right."""
    code = _CODES[grammar]
    reader = reader_of(code)
    text = applied(text, _BEFORE[grammar])
    if grammar == "it":
        text = _RANK_SIGN.sub("º", text)
        text = _SHORT_HOUR.sub(lambda found: reader.read(found[0], (TIME,)), text)
    text = reader.read(text, _SAID[grammar])
    text = reader_of(code, keeps_figures=True).read(text, _NAMED[grammar])
    return reader.read(text, (RANGE,))


def after(text: str, grammar: str) -> str:
    """The reading without the spaces that ``before`` put at brackets."""
    return _PADDED_BRACKET.sub("", text) if grammar == "pt" else text
