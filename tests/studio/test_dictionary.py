"""Words that an owner wants said otherwise: they last, stay private, and are gone when deleted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import MAX_PRONUNCIATIONS, InvalidRequest, NotFound, Pronunciation
from studio import dictionary
from studio.catalogue import FILE, Catalogue
from studio.dictionary import Words
from studio.owner import LOCAL, Owner

REPOSITORY = Path(__file__).resolve().parents[2]
ANNA, BEN, EVE = Owner("visitor:anna", (LOCAL.id,)), Owner("visitor:ben"), Owner("key:eve")


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    opened = Catalogue(tmp_path / "data", dictionary.SCHEMA)
    yield opened
    opened.close()


@pytest.fixture
def words(catalogue: Catalogue) -> Words:
    return Words(catalogue)


def test_a_word_is_there_after_a_restart(catalogue: Catalogue, words: Words) -> None:
    stored = words.put(ANNA, Pronunciation(" cafe\u0301", "kaffay", "fr-CA", True))
    assert stored.entry == Pronunciation("café", "kaffay", "fr", True)
    catalogue.close()
    assert Words(Catalogue(catalogue.folder, dictionary.SCHEMA)).list(ANNA) == [stored]


def test_writing_a_word_again_replaces_how_it_is_said(words: Words) -> None:
    first = words.put(ANNA, Pronunciation("SQL", "one"))
    again = words.put(ANNA, Pronunciation("sql", "two"))
    assert again.id == first.id
    assert [word.entry for word in words.list(ANNA)] == [Pronunciation("sql", "two")]
    words.put(ANNA, Pronunciation("sql", "three", "de"))
    words.put(ANNA, Pronunciation("SQL", "four", None, True))
    assert len(words.list(ANNA)) == 3


def test_words_are_seen_by_their_owner_and_those_who_may_read_them(words: Words) -> None:
    local = words.put(LOCAL, Pronunciation("gif", "giff"))
    own = words.put(ANNA, Pronunciation("gif", "jif"))
    assert words.list(ANNA) == [own, local]
    assert words.list(LOCAL) == [local]
    assert words.list(BEN) == words.list(EVE) == []
    # A dictionary takes the later one.
    assert [entry.spoken for entry in words.entries(ANNA)] == ["giff", "jif"]


def test_only_the_owner_deletes_a_word(words: Words) -> None:
    stored = words.put(LOCAL, Pronunciation("a", "b"))
    answers = set()
    for owner, word_id in (
        (ANNA, stored.id),
        (BEN, stored.id),
        (LOCAL, "word_x"),
        (LOCAL, "\ud800"),
    ):
        with pytest.raises(NotFound) as caught:
            words.delete(owner, word_id)
        answers.add((caught.value.code, caught.value.message.replace(repr(word_id), "…")))
    assert len(answers) == 1
    assert words.delete(LOCAL, stored.id) == stored
    assert words.list(LOCAL) == []


def test_all_words_are_replaced_at_once_or_none(words: Words) -> None:
    words.put(BEN, Pronunciation("mine", "x"))
    words.put(ANNA, Pronunciation("old", "x"))
    with pytest.raises(InvalidRequest, match=r"pronunciations\[1\]\.written"):
        words.replace(ANNA, [Pronunciation("new", "x"), Pronunciation("", "x")])
    assert [word.entry.written for word in words.list(ANNA)] == ["old"]
    stored = words.replace(ANNA, [Pronunciation("b", "x"), Pronunciation("a", "x")])
    assert [word.entry.written for word in stored] == ["a", "b"]
    assert words.replace(ANNA, []) == []
    assert len(words.list(BEN)) == 1


def test_there_is_room_for_so_many_words_and_no_more(words: Words) -> None:
    entries = [Pronunciation(f"w{number}", "x") for number in range(MAX_PRONUNCIATIONS)]
    words.replace(ANNA, entries)
    words.put(ANNA, Pronunciation("w1", "y"))
    with pytest.raises(InvalidRequest, match="500 words are stored") as caught:
        words.put(ANNA, Pronunciation("one more", "x"))
    assert caught.value.code == "too_many_pronunciations"
    assert len(words.list(ANNA)) == MAX_PRONUNCIATIONS
    words.put(BEN, Pronunciation("his own", "x"))


def test_a_deleted_word_is_gone_from_the_files(catalogue: Catalogue, words: Words) -> None:
    secret = "Xylophonius"
    stored = words.put(ANNA, Pronunciation(secret, "x"))
    words.delete(ANNA, stored.id)
    words.put(ANNA, Pronunciation(secret, "x"))
    words.replace(ANNA, [])
    files = [path for path in catalogue.folder.iterdir() if path.name.startswith(FILE)]
    assert files
    assert not any(secret.encode() in path.read_bytes() for path in files)
    assert not any(secret.lower().encode() in path.read_bytes() for path in files)


def test_the_store_needs_neither_torch_nor_gradio() -> None:
    program = (
        "import sys; import studio.dictionary\n"
        "print([name for name in ('torch', 'gradio', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr[-2000:]
