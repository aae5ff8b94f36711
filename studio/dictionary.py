"""The pronunciation dictionary: how words are said, kept for each owner.

- A word is unique per owner, language and case rule; writing it again replaces how it is said.
- An owner hears the own words and those of the owners that it may read; an own one wins. Only own
  words can be changed.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine import (
    MAX_PRONUNCIATIONS,
    InvalidRequest,
    NotFound,
    Pronunciation,
    check_pronunciation,
    check_pronunciations,
)
from studio.catalogue import Catalogue
from studio.owner import Owner

SCHEMA = """
CREATE TABLE IF NOT EXISTS pronunciations (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    word_key TEXT NOT NULL,
    written TEXT NOT NULL,
    spoken TEXT NOT NULL,
    language TEXT NOT NULL,
    is_case_sensitive INTEGER NOT NULL,
    created_s REAL NOT NULL,
    UNIQUE (owner, word_key, language, is_case_sensitive)
) STRICT
"""


@dataclass(frozen=True)
class Word:
    """A stored entry of a dictionary, and whose it is."""

    id: str
    owner: str
    entry: Pronunciation
    created_s: float


class Words:
    """The words in ``catalogue``, at most ``MAX_PRONUNCIATIONS`` for each owner."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def list(self, owner: Owner) -> Sequence[Word]:
        """Every word that counts for ``owner``: the own ones first, each group by the alphabet."""
        with self._catalogue.reading() as db:
            rows = db.execute(
                f"SELECT * FROM pronunciations WHERE owner IN ({_marks(owner.voices_of)})"
                " ORDER BY owner <> ?, word_key, language, is_case_sensitive",
                (*owner.voices_of, owner.id),
            ).fetchall()
        return [_word(row) for row in rows]

    def entries(self, owner: Owner) -> tuple[Pronunciation, ...]:
        """What a ``Dictionary`` for ``owner`` is made of: the own words come last and so win."""
        return tuple(word.entry for word in reversed(self.list(owner)))

    def put(self, owner: Owner, entry: Pronunciation) -> Word:
        """Store a word, or say it otherwise from now on; raises ``InvalidRequest``."""
        checked = check_pronunciation(entry)
        with self._catalogue.writing() as db:
            stored = _put(db, owner, checked)
            _check_room(db, owner)
        return stored

    def replace(self, owner: Owner, entries: Iterable[Pronunciation]) -> Sequence[Word]:
        """Store these words in the place of all of the owner's; raises ``InvalidRequest``."""
        checked = check_pronunciations(entries)
        with self._catalogue.writing() as db:
            db.execute("DELETE FROM pronunciations WHERE owner = ?", (owner.id,))
            for entry in checked:
                _put(db, owner, entry)
        self._catalogue.erase_traces()
        return [word for word in self.list(owner) if word.owner == owner.id]

    def delete(self, owner: Owner, word_id: str) -> Word:
        """Forget one of the owner's words; raises ``NotFound``."""
        with self._catalogue.writing() as db:
            row = db.execute(
                "DELETE FROM pronunciations WHERE id = ? AND owner = ? RETURNING *",
                (word_id[:64].encode(errors="replace").decode(), owner.id),
            ).fetchone()
        if row is None:
            raise NotFound(
                f"pronunciation: there is no word {word_id[:64]!r}; list them to see their ids.",
                field="pronunciation",
                code="pronunciation_not_found",
            )
        self._catalogue.erase_traces()
        return _word(row)


def _put(db: sqlite3.Connection, owner: Owner, entry: Pronunciation) -> Word:
    key = entry.written if entry.is_case_sensitive else entry.written.casefold()
    row = db.execute(
        "INSERT INTO pronunciations"
        " (id, owner, word_key, written, spoken, language, is_case_sensitive, created_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (owner, word_key, language, is_case_sensitive)"
        " DO UPDATE SET written = excluded.written, spoken = excluded.spoken RETURNING *",
        (
            f"word_{secrets.token_urlsafe(16)}",
            owner.id,
            key,
            entry.written,
            entry.spoken,
            entry.language or "",
            entry.is_case_sensitive,
            time.time(),
        ),
    ).fetchone()
    return _word(row)


def _check_room(db: sqlite3.Connection, owner: Owner) -> None:
    (num_stored,) = db.execute(
        "SELECT count(*) FROM pronunciations WHERE owner = ?", (owner.id,)
    ).fetchone()
    if num_stored > MAX_PRONUNCIATIONS:
        raise InvalidRequest(
            f"pronunciation: {MAX_PRONUNCIATIONS} words are stored and that is the limit; delete"
            " one first.",
            field="pronunciation",
            code="too_many_pronunciations",
        )


def _word(row: sqlite3.Row) -> Word:
    entry = Pronunciation(
        row["written"], row["spoken"], row["language"] or None, bool(row["is_case_sensitive"])
    )
    return Word(row["id"], row["owner"], entry, row["created_s"])


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
