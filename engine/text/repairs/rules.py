"""What repairs are made of: patterns with what stands for them, applied one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Replacement = str | Callable[[re.Match[str]], str]
Rules = Sequence[tuple[re.Pattern[str], Replacement]]

_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
ROMAN = r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})"


def rules(*pairs: tuple[str, Replacement]) -> Rules:
    """Compile ``pairs`` of a pattern and what stands for it."""
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


def applied(text: str, rules: Rules) -> str:
    """``text`` after every rule in turn."""
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def roman_value(numeral: str) -> int:
    """XVI is 16; ``numeral`` is one that ``ROMAN`` matched."""
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-v if v < after else v for v, after in zip(values, following, strict=True))


def spaced_digits(figures: str) -> str:
    """The figures "0123" as 0 1 2 3, so that each is read by itself."""
    return " ".join(figures)
