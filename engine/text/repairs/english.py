"""What NeMo's English grammar reads wrongly, written so that it reads it right.

Ranges, seven-digit telephone numbers, heights, Roman numerals, versions, web addresses and signs
(the tables of wrong readings in the cases from the field).
"""

from __future__ import annotations

import re

from engine.text.reading import RANGE, reader_of
from engine.text.repairs.rules import ROMAN, applied, roman_value, rules, spaced_digits
from engine.text.words import words_of

_NUMBERED = (
    "Chapter|Part|Act|Scene|Volume|Vol\\.|Book|Section|Article|Title|Phase|Type|Level|Appendix|"
    "Figure|Fig\\.|Table|Class|Unit|Stage|Mark|Canto|Psalm|Episode|Season|Round|War"
)
_REIGNING = (
    "Alexander|Alfonso|Benedict|Boniface|Carl|Catherine|Charles|Christian|Clement|Edward|"
    "Elizabeth|Ferdinand|Francis|Frederick|George|Gregory|Gustav|Haakon|Harald|Henry|Innocent|"
    "Ivan|James|John|Juan|Leo|Leopold|Louis|Ludwig|Margaret|Mary|Napoleon|Nicholas|Olaf|Otto|"
    "Paul|Peter|Philip|Pius|Ptolemy|Ramesses|Ramses|Richard|Robert|Sixtus|Umberto|Urban|Victor|"
    "Wilhelm|William|Xerxes"
)
# Words that begin a sentence and are no name that is numbered.
_LITTLE_WORDS = (
    "The|An|His|Her|Your|My|Our|Their|This|That|Some|Any|Each|Every|No|With|By|For|On|In|At|And|Or|"
    "But|If|When|As|From|To|Of"
)
_COUNTED_IN_MILLIONS = (
    "views|users|followers|people|subscribers|downloads|dollars|euros|pounds|likes|copies|"
    "customers|records|players|tons|jobs|visitors|members|streams"
)
_END = r"(?![\w%])"
_NUMBER = r"\d+(?:[.,]\d+)*"
_FREE = r"(?<![\w.,:/+-])"


def _rank(found: re.Match[str]) -> str:
    value = roman_value(found[2])
    return f"{found[1]} the {words_of('en_us').ordinal(value)}" if value else found[0]


def _part(found: re.Match[str]) -> str:
    return f"{found[1]} {roman_value(found[2])}"


def _telephone(found: re.Match[str]) -> str:
    groups = re.findall(r"\d+", found[0])
    said = ", ".join(spaced_digits(group) for group in groups)
    return f"plus {said}" if found[0][0] == "+" else said


def _grouped(found: re.Match[str]) -> str:
    return f"{int(found[0]):,}"


def _version(found: re.Match[str]) -> str:
    name = "version " if found[1] else ""
    return name + found[2].replace(".", " point ")


BEFORE = rules(
    # https://host/path?query: the host is what a listener can use.
    (r"\bhttps?://((?:[\w-]+\.)+[A-Za-z]{2,})(?::\d+)?(?:/[^\s,;)\"]*)?(?<![.!?])", r"\1"),
    (r"(?:№|#)\s?(?=\d)|\bNo\.\s(?=\d)", "number "),
    (r"\b[Vv]er\.\s?(?=\d)", "version "),
    (r"\bpp\.\s?(?=\d)", "pages "),
    (r"\bp\.\s?(?=\d)", "page "),
    (r"\b(\d)['’′]\s?(\d{1,2})(?:[\"”″]|''|’’)", r"\1 feet \2"),
    # "Henry I think" is no king.
    (rf"\b({_REIGNING}) ((?=[IVX]{{2}}|[VX]){ROMAN}|I(?=[,.;:!?)]|['’]s|$| of\b))\b", _rank),
    (rf"\b({_NUMBERED}) ({ROMAN})\b", _part),
    (rf"\b(?!(?:{_LITTLE_WORDS}) )([A-Z][a-z]+) (?=[IVX]{{2}})({ROMAN})\b(?!-)", _part),
    # Versions, not addresses of four numbers and not dates.
    (rf"{_FREE}([vV]?)(\d{{1,3}}(?:\.\d{{1,3}}){{2}})(?!\.?\w)", _version),
    (r"\b[vV](\d+\.\d+)(?!\.?\w)", r"version \1"),
    (r"([€$£])(\d{1,3}(?:\.\d{3})+),(\d{2})\b", lambda m: f"{m[1]}{m[2].replace('.', '')}.{m[3]}"),
    (rf"{_FREE}({_NUMBER})\s?([€$£])(?!\w|\d)", r"\2\1"),
    (rf"{_FREE}({_NUMBER}) (?:USD)\b|\bUSD ({_NUMBER})", lambda m: f"${m[1] or m[2]}"),
    (rf"{_FREE}({_NUMBER}) (?:EUR)\b|\bEUR ({_NUMBER})", lambda m: f"€{m[1] or m[2]}"),
    (rf"([€$£])({_NUMBER})\s?[-–—]\s?(?={_NUMBER})(?!{_NUMBER}[-\d])", r"\1\2 to \1"),
    (rf"([€$£]{_NUMBER})\s?[-–—]\s?(?=[€$£]\d)", r"\1 to "),
    (rf"₹({_NUMBER})", r"\1 rupees"),
    (rf"({_NUMBER})¢", r"\1 cents"),
    (r"\+\d{1,3}(?:[ -]\d{2,5}){2,4}\b", _telephone),
    (rf"(?<!\)){_FREE}(?<!\) )\d{{3}}-\d{{4}}{_END}", _telephone),
    (rf"{_FREE}\d{{4}}(?: \d{{4}}){{3}}\b", _telephone),
    (rf"{_FREE}24/7\b", "24 7"),
    (rf"{_FREE}(50/50|9/11)\b", lambda m: m[1].replace("/", " ")),
    (rf"{_FREE}(\d{{1,2}}):(\d)(?![\d:])", r"\1 to \2"),
    (rf"\b(\d+)m(?= (?:{_COUNTED_IN_MILLIONS})\b)", r"\1 million"),
    (r"(?<![\d$€£.,])\b(\d{1,3})k\b", r"\1 thousand"),
    (rf"(?<![$€£])\b({_NUMBER})\s?m{_END}(?!['’^²³/])", r"\1 meters"),
    (r"(?<=\d)\s?km/h\b", " kilometers per hour"),
    (r"(?<=\d)\s?m/s\b(?!\^)", " meters per second"),
    (r"(?<=\d)\s?(?:HP|hp)\b", " horsepower"),
    (rf"(?:~|≈)\s?(?={_NUMBER})", "about "),
    (rf"±\s?(?={_NUMBER})", "plus or minus "),
    (r"(?<=\d) ?> ?(?=\d)", " is greater than "),
    (r"(?<=\d) ?< ?(?=\d)", " is less than "),
    (r"\b(\d+)\^(\d+)\b", r"\1 to the power of \2"),
    # The same unit at both ends of a range.
    (rf"{_FREE}({_NUMBER}\s?(?:[A-Za-z]+|%))\s?[–—]\s?(?=\d)", r"\1 to "),
    (r"\b(\d{1,3}(?:st|nd|rd|th))\s?[-–—]\s?(?=\d{1,3}(?:st|nd|rd|th)\b)", r"\1 to "),
    (r"\b(\d{3,})-(?=[a-z]{3})", r"\1 "),
    (rf"{_FREE}[1-9]\d{{1,11}}000\b(?![-.,]?\d)", _grouped),
    # At the end of a text its full stop is also that of the sentence.
    (r"\b([A-Z][a-z]+|\d+(?:st|nd|rd|th)) St\b(?:\.(?=[,;:!?)]| [a-z])|(?!\.))", r"\1 Street"),
    (r"\b([A-Z][a-z]+|\d+(?:st|nd|rd|th)) St\.(?=\s*$)", r"\1 Street."),
    (r"\b(\d+(?:st|nd|rd|th)) St\.(?= [A-Z])", r"\1 Street."),
    (r"\bApt\. ?(?=\d)", "Apartment "),
)


def before(text: str) -> str:
    """``text`` written so that the grammar reads it right."""
    return reader_of("en_us").read(applied(text, BEFORE), (RANGE,))
