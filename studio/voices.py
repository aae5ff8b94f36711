"""The library: named voices that last, each whole in the database or not there at all.

- A voice is its card, one speaker embedding per encoder that knows it, and, if asked for, its clips
  and a preview: rows of one transaction, so that no crash leaves a half one.
- It belongs to one owner. ``find`` and ``list`` see what an owner may use; only the owner's own
  voices can be changed.
- An id is random and never part of a path. A name is unique per owner, whatever its case.
- Deleting takes the declarations of consent along and leaves nothing in the files.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from engine import Conflict, Forbidden, InvalidRequest, NotFound
from studio.catalogue import Catalogue
from studio.consent import Consent, Consents
from studio.owner import Owner
from studio.vectors import from_bytes
from studio.voice_card import Card, name_key
from studio.voice_records import (
    CARD_COLUMNS,
    SCHEMA,
    SELECT,
    Draft,
    Source,
    Voice,
    VoiceEmbedding,
    card_values,
    embeddings_of,
    insert_embedding,
    voice_of,
)

__all__ = ["SCHEMA", "Draft", "Source", "Voice", "VoiceEmbedding", "VoiceLibrary", "not_found"]


class VoiceLibrary:
    """The voices in ``catalogue``, at most ``max_voices`` for each owner. Thread- and process-safe.

    Unless ``keeps_sound``, neither clips nor previews are stored. ``forget`` is told of every
    embedding that is gone, for what else was kept with it.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        max_voices: int,
        *,
        keeps_sound: bool = True,
        forget: Callable[[np.ndarray], None] | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._consents = Consents(catalogue)
        self._max_voices = max_voices
        self._forget = forget
        self.keeps_sound = keeps_sound

    # Looking ---------------------------------------------------------------------------------

    def list(self, owner: Owner) -> list[Voice]:
        """Every voice that ``owner`` may use: the own ones first, each group by name."""
        with self._catalogue.reading() as db:
            rows = db.execute(
                f"{SELECT} WHERE owner IN ({_marks(owner.voices_of)})"
                " ORDER BY owner <> ?, name_key, owner",
                (*owner.voices_of, owner.id),
            ).fetchall()
        return [voice_of(row) for row in rows]

    def find(self, owner: Owner, which: str) -> Voice | None:
        """The voice with this id or name that ``owner`` may use; an id wins, then an own voice."""
        with self._catalogue.reading() as db:
            row = db.execute(
                f"{SELECT} WHERE owner IN ({_marks(owner.voices_of)})"
                " AND (id = ? OR name_key = ?) ORDER BY id <> ?, owner <> ?, owner LIMIT 1",
                (*owner.voices_of, _plain(which), name_key(_plain(which)), _plain(which), owner.id),
            ).fetchone()
        return None if row is None else voice_of(row)

    def own(self, owner: Owner, which: str) -> Voice:
        """The voice with this id or name, to change it; raises ``NotFound`` and ``Forbidden``."""
        voice = self.find(owner, which)
        if voice is None:
            raise not_found(which, [voice.name for voice in self.list(owner)])
        if voice.owner != owner.id:
            raise Forbidden(
                f"voice: {voice.name!r} belongs to the scripts of this studio; change it there, or"
                " store a copy under your own name.",
                field="voice",
            )
        return voice

    def vector(self, voice: Voice, encoder: str) -> np.ndarray | None:
        """The embedding [dim] float32 that ``encoder`` knows, or None."""
        row = self._part("SELECT data FROM voice_embeddings WHERE encoder = ? AND", voice, encoder)
        return None if row is None else from_bytes(row["data"], "voice")

    def embeddings(self, voice: Voice) -> tuple[VoiceEmbedding, ...]:
        """Its embedding for every encoder that knows it."""
        with self._catalogue.reading() as db:
            return embeddings_of(db, voice.id)

    def consents(self, voice: Voice) -> tuple[Consent, ...]:
        """What was declared about it, one declaration for each recording."""
        return self._consents.of(voice.id)

    def clips(self, voice: Voice) -> tuple[bytes, ...]:
        """Its recordings as FLAC files, where they were kept."""
        with self._catalogue.reading() as db:
            rows = db.execute(
                "SELECT data FROM voice_clips WHERE voice = ? ORDER BY position", (voice.id,)
            ).fetchall()
        return tuple(row["data"] for row in rows)

    def preview(self, voice: Voice, model: str | None = None) -> bytes | None:
        """A FLAC file of how it sounds in one model (or any), if one was made."""
        select = "SELECT data FROM voice_previews WHERE model = coalesce(?, model) AND"
        row = self._part(select, voice, model)
        return None if row is None else row["data"]

    # Changing --------------------------------------------------------------------------------

    def add(self, owner: Owner, draft: Draft, *, overwrite: bool = False) -> Voice:
        """Store a new voice, or with ``overwrite`` the new content of one that has the name.

        Raises ``Conflict`` (voice_exists) where the name is taken, ``InvalidRequest`` where the
        owner has no room for another voice.
        """
        now_s = time.time()
        replaced: tuple[VoiceEmbedding, ...] = ()
        with self._catalogue.writing() as db:
            taken = _taken(db, owner.id, draft.card)
            if taken is not None and not overwrite:
                raise _exists(draft.card, "overwrite it on purpose")
            if taken is not None:
                replaced = self._remove(db, taken)
            self._check_room(db, owner)
            voice_id = taken or f"voice_{secrets.token_urlsafe(16)}"
            db.execute(
                "INSERT INTO voices (id, owner, source, created_s, updated_s,"
                f" {', '.join(CARD_COLUMNS)}) VALUES ({_marks((*CARD_COLUMNS, *range(5)))})",
                (voice_id, owner.id, draft.source, now_s, now_s, *card_values(draft.card)),
            )
            for embedding in draft.embeddings:
                insert_embedding(db, voice_id, embedding)
            db.executemany(
                "INSERT INTO voice_clips (voice, position, data) VALUES (?, ?, ?)",
                [(voice_id, at, clip) for at, clip in enumerate(draft.clips)],
            )
            self._declare(db, owner, voice_id, draft)
            row = db.execute(f"{SELECT} WHERE id = ?", (voice_id,)).fetchone()
        if taken is not None:
            self._erase(replaced)
        return voice_of(row)

    def change(self, owner: Owner, which: str, **changes: Any) -> Voice:
        """Write ``changes`` of its card; raises as ``own`` and ``add`` do."""
        voice = self.own(owner, which)
        with self._catalogue.writing() as db:
            row = db.execute(f"{SELECT} WHERE id = ?", (voice.id,)).fetchone()
            if row is None:
                raise not_found(which)
            card = replace(voice_of(row).card, **changes)
            if _taken(db, owner.id, card) not in (None, voice.id):
                raise _exists(card)
            db.execute(
                f"UPDATE voices SET {', '.join(f'{name} = ?' for name in CARD_COLUMNS)},"
                " updated_s = ? WHERE id = ?",
                (*card_values(card), time.time(), voice.id),
            )
            row = db.execute(f"{SELECT} WHERE id = ?", (voice.id,)).fetchone()
        return voice_of(row)

    def delete(self, owner: Owner, which: str) -> tuple[Voice, tuple[str, ...]]:
        """Delete a voice and every trace of it -> what it was, and the hashes of its recordings."""
        voice = self.own(owner, which)
        hashes = tuple(consent.clip_hash for consent in self._consents.of(voice.id))
        with self._catalogue.writing() as db:
            if not _is_there(db, voice):
                raise not_found(which)
            gone = self._remove(db, voice.id)
        self._erase(gone)
        return voice, hashes

    def add_embedding(self, voice: Voice, embedding: VoiceEmbedding) -> None:
        """Remember what another encoder made of its clips."""
        with self._catalogue.writing() as db:
            if _is_there(db, voice):
                insert_embedding(db, voice.id, embedding)

    def set_preview(self, voice: Voice, model: str, flac: bytes) -> None:
        """Keep a FLAC file of how it sounds in one model."""
        with self._catalogue.writing() as db:
            if self.keeps_sound and _is_there(db, voice):
                db.execute(
                    "INSERT OR REPLACE INTO voice_previews (voice, model, data) VALUES (?, ?, ?)",
                    (voice.id, model, flac),
                )

    def _remove(self, db: sqlite3.Connection, voice_id: str) -> tuple[VoiceEmbedding, ...]:
        """Delete a voice and what was declared about it -> its embeddings."""
        gone = embeddings_of(db, voice_id)
        self._consents.forget(db, voice_id)
        db.execute("DELETE FROM voices WHERE id = ?", (voice_id,))
        return gone

    def _erase(self, gone: Iterable[VoiceEmbedding]) -> None:
        """Take what was removed out of everything else, and out of the journal."""
        for embedding in gone:
            if self._forget is not None:
                self._forget(embedding.vector)
        self._catalogue.erase_traces()

    def _part(self, select: str, voice: Voice, *values: str | None) -> sqlite3.Row | None:
        with self._catalogue.reading() as db:
            row: sqlite3.Row | None = db.execute(
                f"{select} voice = ?", (*values, voice.id)
            ).fetchone()
        return row

    def _check_room(self, db: sqlite3.Connection, owner: Owner) -> None:
        (num_stored,) = db.execute(
            "SELECT count(*) FROM voices WHERE owner = ?", (owner.id,)
        ).fetchone()
        if num_stored >= self._max_voices:
            raise InvalidRequest(
                f"name: {num_stored} voices are stored and the limit is {self._max_voices}; delete"
                " one first.",
                field="name",
                code="too_many_voices",
            )

    def _declare(self, db: sqlite3.Connection, owner: Owner, voice_id: str, draft: Draft) -> None:
        for clip_hash in draft.declared:
            self._consents.record(db, owner.id, voice_id, clip_hash)
        db.execute(
            "INSERT OR IGNORE INTO consents (subject, clip_hash, owner, version, given_s)"
            " SELECT ?, clip_hash, owner, version, given_s FROM consents"
            f" WHERE subject IN ({_marks(draft.of)})",
            (voice_id, *draft.of),
        )


def not_found(which: str, near: Iterable[str] = (), field: str = "voice") -> NotFound:
    """The one answer to a voice that does not exist or belongs to somebody else."""
    names = ", ".join(near)
    remedy = f"choose one of {names}" if names else "store one, or leave it out"
    return NotFound(
        f"{field}: there is no voice {which[:64]!r}; {remedy}.",
        field=field,
        code="voice_not_found",
    )


def _taken(db: sqlite3.Connection, owner: str, card: Card) -> str | None:
    """The id of the owner's voice that has this name."""
    row = db.execute(
        "SELECT id FROM voices WHERE owner = ? AND name_key = ?", (owner, name_key(card.name))
    ).fetchone()
    return None if row is None else row["id"]


def _is_there(db: sqlite3.Connection, voice: Voice) -> bool:
    return db.execute("SELECT 1 FROM voices WHERE id = ?", (voice.id,)).fetchone() is not None


def _exists(card: Card, remedy: str = "delete the other one first") -> Conflict:
    return Conflict(
        f"name: a voice {card.name!r} exists already; choose another name, or {remedy}.",
        field="name",
        code="voice_exists",
    )


def _plain(text: str) -> str:
    """``text`` as the database takes it: half surrogate pairs are no characters."""
    return text[:200].encode(errors="replace").decode()


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
