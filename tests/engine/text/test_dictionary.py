"""The pronunciation dictionary: whole words, the longest first, each said once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.text.dictionary import (
    MAX_PRONUNCIATIONS,
    Dictionary,
    Pronunciation,
    check_pronunciation,
    check_pronunciations,
)
from tests.core_time import soon

WORDS = Dictionary(
    [
        Pronunciation("SQL", "sequel"),
        Pronunciation("C++", "see plus plus"),
        Pronunciation("New York", "the city"),
        Pronunciation("York", "yorrk"),
        Pronunciation("天气", "tian qi"),
        Pronunciation("天", "TIAN"),
        Pronunciation("US", "you ess", is_case_sensitive=True),
        Pronunciation("कि", "ki"),
        Pronunciation("Straße", "strah-seh", "de"),
        Pronunciation("café", "kaffay"),
        Pronunciation("gif", "jif"),
        Pronunciation("jif", "peanut butter"),
    ]
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sql, SQL. SQLite MySQL", "sequel, sequel. SQLite MySQL"),
        ("C++, C++11 or C", "see plus plus, see plus plus 11 or C"),
        ("in New  York and York", "in the city and yorrk"),
        ("US us Us USA", "you ess us Us USA"),
        ("今天天气好天", "今TIAN tian qi好TIAN"),
        ("हिन्दी किताब कि", "हिन्दी किताब ki"),
        ("Straße STRASSE", "Straße STRASSE"),
        ("CAFÉ cafés", "kaffay cafés"),
        ("gif", "jif"),
        ("", ""),
    ],
)
def test_words_are_said_as_the_dictionary_has_them(text: str, said: str) -> None:
    assert WORDS.apply(text, "en_us") == said


@pytest.mark.parametrize("language", ["de", "de-AT", "DE"])
def test_an_entry_counts_in_its_language(language: str) -> None:
    assert WORDS.apply("Straße STRASSE", language) == "strah-seh strah-seh"


def test_a_later_entry_wins_and_the_exact_spelling_wins_over_both() -> None:
    entries = [Pronunciation("Ab", "one"), Pronunciation("aB", "two")]
    exact = Pronunciation("AB", "three", is_case_sensitive=True)
    assert Dictionary([exact, *entries]).apply("ab AB", None) == "two three"


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (Pronunciation("", "x"), "written"),
        (Pronunciation("\u200b", "x"), "written"),
        (Pronunciation("++", "x"), "written"),
        (Pronunciation("a" * 101, "x"), "written"),
        (Pronunciation("a", " "), "spoken"),
        (Pronunciation("a", "b" * 201), "spoken"),
        (Pronunciation("a", "b", "klingon"), "language"),
        (Pronunciation("a", "b", "e"), "language"),
    ],
)
def test_an_entry_that_cannot_be_used_is_told_with_its_field(
    entry: Pronunciation, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_pronunciations([Pronunciation("ok", "ok"), entry], "words")
    assert caught.value.field == f"words[1].{field}"


def test_entries_are_tidied_and_counted() -> None:
    entry = Pronunciation(" cafe\u0301  x ", "a\u202eb", "pt-BR")
    assert check_pronunciation(entry) == Pronunciation("café x", "ab", "pt")
    entries = [Pronunciation(f"w{number}", "x") for number in range(MAX_PRONUNCIATIONS)]
    assert len(check_pronunciations(entries)) == MAX_PRONUNCIATIONS
    with pytest.raises(InvalidRequest, match="501 entries and the limit is 500"):
        check_pronunciations([*entries, entry])


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ([f"a{'b' * (n % 99)}{n}" for n in range(500)], "a " * 2000),
        (["天" * (1 + n % 90) + chr(0x4E00 + n) for n in range(500)], "天" * 3000),
        (["a " * (n % 50) + str(n) for n in range(500)], "a " * 2000),
    ],
)
def test_a_full_dictionary_takes_no_more_than_its_share_of_time(
    written: list[str], text: str
) -> None:
    words = Dictionary(Pronunciation(word, "x") for word in written)
    words.apply("", None)
    assert soon(lambda: words.apply(text, None), within_s=0.6) == text


ALPHABET = st.text(st.sampled_from("aAbé1+ .天\u0301"), max_size=6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(ALPHABET, st.booleans()), max_size=6), ALPHABET, ALPHABET)
def test_what_is_between_the_words_stays(
    written: list[tuple[str, bool]], before: str, after: str
) -> None:
    entries = [
        Pronunciation(word, "Z", is_case_sensitive=is_exact)
        for word, is_exact in written
        if any(map(str.isalnum, word))
    ]
    text = f"{before} {after}"
    spans = list(Dictionary(entries).matches(text, None))
    assert all(text[span.start : span.end] == span.before for span in spans)
    known = {" ".join(entry.written.split()).casefold() for entry in entries}
    assert all(" ".join(span.before.split()).casefold() in known for span in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
