"""Words in capitals: shouted words are words, initials are letters.

- "THIS IS AN EXAMPLE" is a sentence, the FBI is an F B I, NASA is a word: what can be pronounced is
  a word unless it is a known set of initials, what cannot be is spelled.
- Roman numbers, and capitals beside a figure (units, models), are left to the normaliser.
- Latin letters only get spelled; other scripts are only taken out of a shouted sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from engine.text.signs import UNSPACED
from engine.text.spans import Span


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Initials that could be pronounced, and would be wrong so.
_INITIALS = _set(
    """
    AA ABC AFC AGI AI AIG API APIS ASAP ASL ASMR ATA AWD BBC BBQ CEO CEOS CFO CIA CIO COO CPI CPU
    CPUS CTO CV DEA DIY DJ DNA DOA DOB DOD DOJ DUI EEG EKG EMI EOD EPA ESA ESL ESPN ETA EU EUR EV
    FAQ FAQS FDA GNU GPA GPU GPUS GUI HIV HOA HQ HR IBAN IBM ID IDE IDS IO IOU IP IPA IPO IQ IRS
    ISBN ISO ISP IVF LGBT LLM MIA MMA MRI MVP NBA NDA NFC NHL NIH NSA NYC OCD OCR OEM PDA PR PTA QA
    QR RFID RNA ROI RSA RSI RSVP SDK SEC SEO SMS SOS SSID SUV TBA TBD TV UAE UCLA UFC UFO UFOS UI UK
    UN UNHCR UPI UPS URI URL URLS USA USB USD USSR UTC UV UX VIP VIPS VPN ADAC AOK BGB BRD CDU CSU
    DDR EDV FDP GEZ KFZ LKW ÖBB ÖVP PKW SPD SPÖ USW ZDF ADN ONU SNCF TVA CGIL EEUU OMS OVNI
    """
)
# These are also words, and are words in a sentence that is shouted as a whole.
_AMBIGUOUS = frozenset(
    {"AM", "IT", "LED", "MIT", "OR", "PA", "PM", "POS", "SAT", "UE", "US", "WHO"}
)
# Two letters with a vowel are initials, unless they are one of these.
_SHORT_WORDS = _set(
    """
    AH AL AM AN AS AT AU AY BE BY CE DA DE DI DO DU EH EL EM EN ER ES ET GO HA HE HI HO IF IL IM IN
    IS JA JE LE LO LU MA ME MI MY NE NO NU OB OF OH ON OR OU SE SI SO SU TE TO TU UM UP VA WE WO YA
    YO ZU
    """
)
_LEFT_ALONE = frozenset({"OK"})
_TITLES = frozenset({"MR", "MRS", "MS", "DR", "JR", "SR", "PROF", "ST"})

_LETTER = rf"[^\W\d_{UNSPACED}\uac00-\ud7a3]"
_PART = re.compile(f"{_LETTER}+")
_WORD = re.compile(rf"{_LETTER}+(?:['’]{_LETTER}+)?")
_SENTENCE = re.compile(r"[^.!?…\n]+")
_ROMAN = re.compile(r"(?=[IVXLCDM]{2})M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
# Words and initials that would be roman numbers.
_NOT_ROMAN = _set(
    """
    CC CD CM CV DC DI DIM DIV DM DVI LCD LI MC MCI MD MI MIX MM MMM XL
    """
)
# What a European word may begin and end with, and what may stand between two vowels.
_ONSET = re.compile(
    r"(?:[bcdfghjklmnpqrstvwxyz]?|[bcdfgkptv]h?[lr]|s[chklmnpqtvw]|s[cpt]h?[lr]|[cgkpstw]h|sch[lmnrw]?"
    r"|qu|kn|gn|ps|pf|pfl|zw|dw|tw|thr|shr|tz|ts|dž|gu|wr|mc)"
)
_CODA = re.compile(
    r"[rlhw]{0,2}(?:m{1,2}|n{1,2}|ng)?"
    r"(?:p{1,2}|t{1,2}|c?k|c|b{1,2}|d{1,2}|g{1,2}|f{1,2}|v|s{1,2}|t?s?ch|[tspgc]h|gh|x|t?z{1,2}|s[kmpt]"
    r"|[cpf]t|thm)?(?:th?|d)?s?t?|l{2}s?|[rl]{1,2}[dst]?|[jy]"
)
_VOWELS = "aeiouyàáâãäåæèéêëìíîïòóôõöøœùúûüýÿ"
_SPLIT = re.compile(f"[{_VOWELS}]+")


def capitals(text: str) -> Iterator[Span]:
    """Every word in capitals that is read otherwise than it stands there."""
    if text.upper() == text.lower():
        return
    for sentence in _SENTENCE.finditer(text):
        words = list(_words(text, sentence.start(), sentence.end()))
        shouted = [word for word in words if _is_capital(word[0])]
        if not shouted:
            continue
        is_shouted = _is_shouted([word[0] for word in words])
        for word in shouted:
            if _is_beside_figure(text, word):
                continue
            is_joined = "&" in text[max(0, word.start() - 1) : word.end() + 1]  # AT&T
            said = _spelled(word[0]) if is_joined else _said(word[0], is_shouted)
            if said is None:
                continue
            if word.start() == words[0].start() and len(said) > 1 and " " not in said:
                said = said[0].upper() + said[1:]
            if said != word[0]:
                yield Span(word.start(), word.end(), word[0], said)


def _words(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The words of a sentence; "l'ONU" is two, "DON'T" is one."""
    for word in _WORD.finditer(text, start, end):
        if word[0].isupper() or word[0].isalpha():
            yield word
        else:
            yield from _PART.finditer(text, word.start(), word.end())


def _said(word: str, is_shouted: bool) -> str | None:
    """How one word in capitals is said, or None: as it stands."""
    if word in _LEFT_ALONE or (len(word) == 1 and (word == "I" or not is_shouted)):
        return None
    if _ROMAN.fullmatch(word) and word not in _NOT_ROMAN:
        return None
    if not _is_latin(word):
        return word.lower() if is_shouted else None
    if word in _TITLES:
        return word.capitalize()
    if _is_plural(word):  # PDFs
        said = _said(word[:-1], is_shouted=False)
        return None if said is None else said + "s"
    if "'" in word or "’" in word:  # DON'T, L'ONU
        parts = re.split("(['’])", word)
        return "".join(
            part.lower() if len(part) == 1 else _said(part, is_shouted) or part for part in parts
        )
    if word in _INITIALS or (word in _AMBIGUOUS and not is_shouted):
        return _spelled(word)
    if len(word) == 2 and not is_shouted and word not in _SHORT_WORDS:
        return _spelled(word)
    return word.lower() if _is_pronounceable(word.lower()) else _spelled(word)


def _is_shouted(words: list[str]) -> bool:
    """Whether a sentence is in capitals as a whole: three words, or one that is clearly a word."""
    if not all(word.isupper() for word in words):
        return False
    return sum(len(word) > 1 for word in words) >= 3 or any(
        len(word) >= 4 and word not in _INITIALS and _is_pronounceable(word.lower())
        for word in words
    )


def _is_capital(word: str) -> bool:
    return (word.isupper() and word != "I") or _is_plural(word)


def _is_plural(word: str) -> bool:
    return len(word) > 2 and word[-1] == "s" and word[:-1].isupper()


def _is_beside_figure(text: str, word: re.Match[str]) -> bool:
    """Whether a word belongs to a figure (a unit, a model) or to the name of a file."""
    before, after = text[max(0, word.start() - 2) : word.start()], text[word.end() : word.end() + 2]
    if any(char.isdigit() or char == "_" for char in before[-1:] + after[:1]):
        return True
    if after[:1] == "." and after[1:].isalnum():
        return True
    is_short = len(word[0]) <= 3
    return is_short and (
        (before[-1:] in (" ", "-") and before[:1].isdigit())
        or (after[:1] in (" ", "-") and after[1:].isdigit())
    )


def _is_latin(word: str) -> bool:
    return all(char in "'’" or unicodedata.name(char, "").startswith("LATIN") for char in word)


def _spelled(word: str) -> str:
    return " ".join(word)


def _is_pronounceable(word: str) -> bool:
    """Whether European mouths could take ``word`` (in small letters) for a word."""
    runs = _SPLIT.split(word)
    if len(runs) == 1:
        return False
    onset, *inner, coda = runs
    return (
        _ONSET.fullmatch(onset) is not None
        and _CODA.fullmatch(coda) is not None
        and all(len(run) <= 4 for run in inner)
    )
