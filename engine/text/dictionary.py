"""A pronunciation dictionary: words that are said otherwise than they are written.

- Whole words only, marks included; in a script without spaces, wherever they stand.
- The longest entry wins; what an entry says is never looked up again.
- Text and entries are compared token by token in a tree: one pass, whatever is in them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from engine.errors import InvalidRequest
from engine.text.alignment import apply
from engine.text.characters import tidy_characters
from engine.text.signs import UNSPACED, base_language
from engine.text.spans import Span

MAX_PRONUNCIATIONS = 500
MAX_WRITTEN_CHARS = 100
MAX_SPOKEN_CHARS = 200

_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
# Languages whose trees are kept: a request has one.
_MAX_TREES = 8
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,3}")


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """``written`` is said as ``spoken``; in every language, or only in ``language``."""

    written: str
    spoken: str
    language: str | None = None
    is_case_sensitive: bool = False


def check_pronunciations(
    entries: Iterable[Pronunciation], field: str = "pronunciations"
) -> tuple[Pronunciation, ...]:
    """Entries that somebody sent, tidied; raises ``InvalidRequest`` for the first that is wrong."""
    found = tuple(entries)
    if len(found) > MAX_PRONUNCIATIONS:
        raise InvalidRequest(
            f"{field}: there are {len(found)} entries and the limit is {MAX_PRONUNCIATIONS}; leave"
            " some out.",
            field=field,
            code="too_many_pronunciations",
        )
    return tuple(check_pronunciation(entry, f"{field}[{at}]") for at, entry in enumerate(found))


def check_pronunciation(entry: Pronunciation, field: str = "pronunciation") -> Pronunciation:
    """An entry with tidy characters and the ISO 639 code of its language.

    Raises ``InvalidRequest`` naming field, value, limit and remedy.
    """
    written = " ".join(tidy_characters(entry.written).split())
    spoken = " ".join(tidy_characters(entry.spoken).split())
    for name, value, limit in (
        ("written", written, MAX_WRITTEN_CHARS),
        ("spoken", spoken, MAX_SPOKEN_CHARS),
    ):
        if not 1 <= len(value) <= limit:
            raise InvalidRequest(
                f"{field}.{name}: it has {len(value)} characters; write 1 to {limit}.",
                field=f"{field}.{name}",
            )
    if not any(map(str.isalnum, written)):
        raise InvalidRequest(
            f"{field}.written: {written!r} has no letter or number; write a word.",
            field=f"{field}.written",
        )
    if entry.language is not None and not _LANGUAGE.fullmatch(entry.language):
        raise InvalidRequest(
            f"{field}.language: {entry.language[:40]!r} is no language; write a code such as en or"
            " pt-BR, or leave it out.",
            field=f"{field}.language",
        )
    return Pronunciation(written, spoken, base_language(entry.language), entry.is_case_sensitive)


class _Node:
    """A place in the tree of tokens: what may follow, and which entries end here."""

    __slots__ = ("any_case", "exact", "following")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.any_case: str | None = None
        self.exact: dict[str, str] = {}

    def spoken(self, written: str) -> str | None:
        """What the entry says that ends here; one that asks for this very spelling knows better."""
        if self.exact and (said := self.exact.get(" ".join(written.split()))) is not None:
            return said
        return self.any_case


class Dictionary:
    """Entries ready to be looked up; a later one wins over an earlier one for the same word."""

    def __init__(self, entries: Iterable[Pronunciation] = ()) -> None:
        self.entries = tuple(entries)
        self._trees: dict[str | None, _Node] = {}

    def __bool__(self) -> bool:
        return bool(self.entries)

    def matches(self, text: str, language: str | None) -> Iterator[Span]:
        """Every word of ``text`` that has an entry, with what is said for it."""
        tree = self._tree(base_language(language))
        if not tree.following:
            return
        tokens = list(_token().finditer(text))
        keys = [_key(token[0]) for token in tokens]
        at, last_stop = 0, 0
        while at < len(tokens):
            node: _Node | None = tree
            found = None
            for end in range(at, len(tokens)):
                node = node.following.get(keys[end]) if node else None
                if node is None:
                    break
                if node.any_case is None and not node.exact:
                    continue
                start, stop = tokens[at].start(), tokens[end].end()
                said = node.spoken(text[start:stop])
                if said is not None:
                    found = end, start, stop, said
            if found is not None:
                at, start, stop, said = found
                said = _apart(said, text[stop : stop + 1], is_after_word=start == last_stop > 0)
                yield Span(start, stop, text[start:stop], said)
                last_stop = stop
            at += 1

    def apply(self, text: str, language: str | None) -> str:
        """``text`` as its words are said."""
        return apply(text, self.matches(text, language))

    def _tree(self, base: str | None) -> _Node:
        if base not in self._trees:
            if len(self._trees) >= _MAX_TREES:
                self._trees.clear()
            self._trees[base] = _planted(self.entries, base)
        return self._trees[base]


def _planted(entries: Iterable[Pronunciation], base: str | None) -> _Node:
    """The tree of the entries that count in one language."""
    root = _Node()
    for entry in entries:
        if entry.language is not None and base_language(entry.language) != base:
            continue
        node = root
        for token in _token().findall(entry.written):
            node = node.following.setdefault(_key(token), _Node())
        if entry.is_case_sensitive:
            node.exact[entry.written] = entry.spoken
        else:
            node.any_case = entry.spoken
    return root


def _apart(said: str, following: str, *, is_after_word: bool) -> str:
    """What is said, with the spaces that keep it from growing together with its neighbours."""
    is_joined = following.isalnum() and said[-1].isalnum() and not _IS_UNSPACED.match(following)
    return (" " if is_after_word else "") + said + (" " if is_joined else "")


def _key(token: str) -> str:
    return " " if token.isspace() else token.casefold()


@lru_cache(maxsize=1)
def _token() -> re.Pattern[str]:
    """A word with its marks, or white space, or one character: a sign, or one of a script without
    spaces."""
    marks = (chr(code) for code in range(0x300, 0x20000))
    mark = "".join(char for char in marks if unicodedata.category(char)[0] == "M")
    letter = rf"[^\W{UNSPACED}]"
    return re.compile(rf"{letter}++(?:[{mark}]++{letter}*+)*+|\s++|.", re.DOTALL)
