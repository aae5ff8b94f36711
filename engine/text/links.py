"""Web and mail addresses as people say them: "example dot com slash docs".

A short reading is a good one: no scheme, no "www", no query, two steps of a path at most, no ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from engine.text.characters import tidy_characters
from engine.text.signs import Signs, signs_of
from engine.text.spans import Span

_MAX_STEPS = 2
_MAX_STEP_CHARS = 40

# Endings of an address that stands without "http"; those in the second group are words of some
# language too, so that they count only behind a longer name or before a path.
_ENDINGS = (
    "com|org|net|edu|gov|io|dev|ai|app|co|info|biz|eu|uk|fr|pt|br|jp|cn|kr|ca|au|nl|ru|pl|ch|"
    "cz|dk|fi|tv|gg|fm|xyz|site|online|tech|cloud|blog|shop"
)
_WORDLIKE_ENDINGS = "it|is|no|at|me|so|de|be|us|in|es|se"
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_REST = r"(?:[/?#][\w\-.~:/?#\[\]@!$&'()*+,;=%]{0,2000})?"
_TOP = r"[^\W\d_]{2,24}"
_MAIL = rf"(?:mailto:)?(?P<user>[^\W_][\w.+-]{{0,63}})@(?P<mail>(?:{_LABEL}\.){{1,6}}{_TOP})"
_URL = (
    r"(?:https?|ftp)://(?:[^\s/@<>]{1,80}@)?(?P<host>[\w.-]{1,253})(?::\d{1,5})?"
    rf"(?P<rest>{_REST})"
)
_BARE = (
    rf"(?P<bare>www\.(?:{_LABEL}\.){{1,5}}{_TOP}|(?:{_LABEL}\.){{1,5}}(?:{_ENDINGS})|"
    rf"(?:{_LABEL}\.){{2,5}}(?:{_WORDLIKE_ENDINGS})|{_LABEL}\.(?:{_WORDLIKE_ENDINGS})(?=/))"
    rf"(?![\w-]|\.\w)(?P<bare_rest>{_REST})"
)
_ADDRESS = re.compile(rf"(?<![\w@./+-])(?:{_URL}|{_MAIL}(?![\w-])|{_BARE})", re.ASCII)
_TRAILING = ".,;:!?'\"*_"


def links(text: str, language: str | None) -> Iterator[Span]:
    """Every address in ``text`` with how it is said; none in a language without ``Signs``."""
    signs = signs_of(language)
    if signs is None or not ("." in text or "/" in text):
        return
    for match in _ADDRESS.finditer(text):
        before = _without_trailing(match[0])
        rest = (match["rest"] or match["bare_rest"] or "")[: len(before) - len(match[0]) or None]
        host = (match["host"] or match["bare"] or "").rstrip(".")
        if match["user"]:
            said = f"{_name(match['user'], signs)} {signs.at} {_host(match['mail'], signs)}"
        elif host.replace(".", "").isdigit():
            said = host + _path(rest, signs)
        else:
            said = _host(host, signs) + _path(rest, signs)
        if said.strip():
            yield Span(match.start(), match.start() + len(before), before, said)


def _without_trailing(address: str) -> str:
    """An address without the marks of the sentence round it."""
    end = len(address)
    while end and (
        address[end - 1] in _TRAILING
        or (address[end - 1] in ")]" and address.count("(", 0, end) < address.count(")", 0, end))
        or (address[end - 1] == "]" and "[" not in address)
    ):
        end -= 1
    return address[:end]


def _name(name: str, signs: Signs) -> str:
    said = {".": signs.dot, "-": signs.hyphen, "_": signs.underscore, "+": signs.plus}
    return " ".join("".join(f" {said[c]} " if c in said else c for c in name).split())


def _host(host: str, signs: Signs) -> str:
    labels = host.lower().removeprefix("www.").split(".")
    if len(labels) > 1 and len(labels[-1]) == 2 and labels[-1] != "me":
        labels[-1] = " ".join(labels[-1].upper())  # of a country: said as letters
    return f" {signs.dot} ".join(_name(label, signs) for label in labels if label)


def _path(rest: str, signs: Signs) -> str:
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    steps = []
    for step in filter(None, tidy_characters(unquote(path)).split("/")):
        step = re.sub(r"[^\w.]+|_+", " ", step).strip(" .")
        if not step or len(step) > _MAX_STEP_CHARS or re.search(r"\d{5}|[0-9a-f]{12}", step):
            break
        steps.append(re.sub(r"(?<=\w)\.(?=\w)", f" {signs.dot} ", step))
    return "".join(f" {signs.slash} {step}" for step in steps[:_MAX_STEPS])
