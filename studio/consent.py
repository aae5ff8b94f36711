"""What somebody declared when a voice was stored: which words, when, about which recording.

- The words are fixed and numbered: a record holds the number, and every number keeps its words.
- A record is written in the transaction that stores the voice, and goes in the one that deletes it.
- Of the recording only a hash is kept here: it proves which one was meant and cannot be played.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from engine import Forbidden
from studio.catalogue import Catalogue

# Words that were shown once are never edited: a change is a new number.
STATEMENTS = {
    1: (
        "I have the right to make speech with this voice: it is my own, or the person it belongs"
        " to has agreed. I will not use it to deceive, defame or harm anybody."
    ),
}
VERSION = max(STATEMENTS)
STATEMENT = STATEMENTS[VERSION]

SCHEMA = """
CREATE TABLE IF NOT EXISTS consents (
    subject TEXT NOT NULL,
    clip_hash TEXT NOT NULL,
    owner TEXT NOT NULL,
    version INTEGER NOT NULL,
    given_s REAL NOT NULL,
    PRIMARY KEY (subject, clip_hash)
) STRICT
"""


@dataclass(frozen=True)
class Consent:
    """One declaration; ``given_s`` is Unix time, ``clip_hash`` the SHA-256 of the clip in hex."""

    version: int
    given_s: float
    clip_hash: str

    @property
    def statement(self) -> str:
        """The exact words that were agreed to."""
        return STATEMENTS[self.version]


class Consents:
    """The declarations about each ``subject``, which is the id of a stored voice."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def record(self, db: sqlite3.Connection, owner: str, subject: str, clip_hash: str) -> Consent:
        """Note, in the caller's transaction, that ``owner`` agreed to STATEMENT for one clip.

        A voice made of several clips has one record for each; the same clip again renews its own.
        Where a voice came without a clip, the hash is that of its embedding.
        """
        consent = Consent(VERSION, time.time(), clip_hash)
        db.execute(
            "INSERT OR REPLACE INTO consents (subject, clip_hash, owner, version, given_s)"
            " VALUES (?, ?, ?, ?, ?)",
            (subject, clip_hash, owner, consent.version, consent.given_s),
        )
        return consent

    def of(self, subject: str) -> tuple[Consent, ...]:
        """The declarations about ``subject``, oldest first; not inside another transaction."""
        with self._catalogue.reading() as db:
            rows = db.execute(
                "SELECT version, given_s, clip_hash FROM consents WHERE subject = ?"
                " ORDER BY given_s, clip_hash",
                (subject,),
            ).fetchall()
        return tuple(Consent(*row) for row in rows)

    def forget(self, db: sqlite3.Connection, subject: str) -> None:
        """Delete, in the caller's transaction, what was declared about ``subject``."""
        db.execute("DELETE FROM consents WHERE subject = ?", (subject,))


def require(is_given: object, field: str = "consent") -> None:
    """Raise ``Forbidden`` (code consent_required) unless ``is_given`` is True itself."""
    if is_given is not True:
        raise Forbidden(
            f"{field}: it must be true, which declares: {STATEMENT!r}",
            field=field,
            code="consent_required",
        )
