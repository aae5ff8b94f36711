"""What the library keeps of a voice, as values and as rows of its tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from studio.vectors import from_bytes, to_bytes
from studio.voice_card import Card, name_key

Source = Literal["recording", "embedding", "blend", "import"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS voices (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    language TEXT,
    tags TEXT NOT NULL,
    notes TEXT NOT NULL,
    transcript TEXT NOT NULL,
    source TEXT NOT NULL,
    created_s REAL NOT NULL,
    updated_s REAL NOT NULL,
    UNIQUE (owner, name_key)
) STRICT;
CREATE TABLE IF NOT EXISTS voice_embeddings (
    voice TEXT NOT NULL REFERENCES voices (id) ON DELETE CASCADE,
    encoder TEXT NOT NULL,
    model TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (voice, encoder)
) STRICT;
CREATE TABLE IF NOT EXISTS voice_clips (
    voice TEXT NOT NULL REFERENCES voices (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (voice, position)
) STRICT;
CREATE TABLE IF NOT EXISTS voice_previews (
    voice TEXT NOT NULL REFERENCES voices (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (voice, model)
) STRICT
"""

SELECT = """
SELECT *,
    (SELECT json_group_object(encoder, model) FROM voice_embeddings WHERE voice = id) AS models,
    (SELECT count(*) FROM voice_clips WHERE voice = id) AS num_clips,
    (SELECT count(*) FROM voice_previews WHERE voice = id) AS has_preview,
    (SELECT coalesce(sum(length(data)), 0) FROM voice_embeddings WHERE voice = id)
        + (SELECT coalesce(sum(length(data)), 0) FROM voice_clips WHERE voice = id) AS size_bytes,
    (SELECT max(version) FROM consents WHERE subject = id) AS consent
FROM voices
"""
CARD_COLUMNS = ("name", "name_key", "language", "tags", "notes", "transcript")


@dataclass(frozen=True, eq=False)
class VoiceEmbedding:
    """A speaker embedding ``vector`` [dim] float32, the encoder that knows it, the model's name."""

    encoder: str
    model: str
    vector: np.ndarray


@dataclass(frozen=True, eq=False)
class Draft:
    """All of a voice that is not stored yet.

    ``clips`` are FLAC files of our own making. Consent is recorded for each of ``declared``, the
    hashes of what the owner stated to have a right to; a blend inherits that of the voices ``of``.
    """

    card: Card
    source: Source
    embeddings: tuple[VoiceEmbedding, ...]
    clips: tuple[bytes, ...] = ()
    declared: tuple[str, ...] = ()
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Voice:
    """A stored voice without its numbers and sounds; times are Unix time.

    ``models`` names, for each encoder that knows the voice, the model that it was stored with.
    ``consent`` is the number of the statement that was agreed to, None where none was asked for.
    """

    id: str
    owner: str
    card: Card = field(repr=False)
    source: Source
    created_s: float
    updated_s: float
    models: Mapping[str, str]
    num_clips: int
    has_preview: bool
    size_bytes: int
    consent: int | None

    @property
    def name(self) -> str:
        """What its owner calls it."""
        return self.card.name

    @property
    def has_clip(self) -> bool:
        """Whether its recordings were kept, so that another encoder can hear them."""
        return self.num_clips > 0

    def fits(self, encoder: str | None) -> bool:
        """Whether a model with this encoder can speak with it."""
        return encoder is not None and (encoder in self.models or self.has_clip)


def voice_of(row: sqlite3.Row) -> Voice:
    """The voice in a row of ``SELECT``."""
    return Voice(
        id=row["id"],
        owner=row["owner"],
        card=Card(
            row["name"],
            row["language"],
            tuple(json.loads(row["tags"])),
            row["notes"],
            row["transcript"],
        ),
        source=row["source"],
        created_s=row["created_s"],
        updated_s=row["updated_s"],
        models=json.loads(row["models"]),
        num_clips=row["num_clips"],
        has_preview=bool(row["has_preview"]),
        size_bytes=row["size_bytes"],
        consent=row["consent"],
    )


def card_values(card: Card) -> tuple[str | None, ...]:
    """The columns of a card, in the order of ``CARD_COLUMNS``."""
    tags = json.dumps(card.tags)
    return card.name, name_key(card.name), card.language, tags, card.notes, card.transcript


def embeddings_of(db: sqlite3.Connection, voice_id: str) -> tuple[VoiceEmbedding, ...]:
    """The embeddings of a voice, by encoder."""
    rows = db.execute(
        "SELECT * FROM voice_embeddings WHERE voice = ? ORDER BY encoder", (voice_id,)
    ).fetchall()
    return tuple(
        VoiceEmbedding(row["encoder"], row["model"], from_bytes(row["data"], "voice"))
        for row in rows
    )


def insert_embedding(db: sqlite3.Connection, voice_id: str, embedding: VoiceEmbedding) -> None:
    """Store an embedding in the place of the encoder's last one."""
    db.execute(
        "INSERT OR REPLACE INTO voice_embeddings (voice, encoder, model, data) VALUES (?, ?, ?, ?)",
        (voice_id, embedding.encoder, embedding.model, to_bytes(embedding.vector)),
    )
