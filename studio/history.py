"""Takes: what was spoken, kept with everything that makes it again, until its time is up.

- A take is a FLAC file with a random name and a row in the database. The file is whole and on the
  disk before the row is; one without the other is a leftover and goes when the folder is opened.
- Each owner may keep a number of takes, of an age, of a size. The oldest goes first. A star
  protects: a starred take goes when its owner deletes it, never by itself. It counts, though: where
  stars fill the bounds, the new take is not kept, and its owner is told.
- An id is random and never part of a path. Another owner's id is like one that does not exist.
- What goes is gone: the file, the row, the voice's numbers, and the pages of the database.
- Of a visit (public studios) everything goes, stars or not, some time after its owner's last sign.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine import Conflict, StorageFailed
from studio.catalogue import Catalogue
from studio.leftovers import unused
from studio.owner import Owner
from studio.take_file import TakeFile, storage_failed, take_files
from studio.takes import Making, Take, checked_title, folded, leaving_for, not_found, plain
from studio.vectors import from_bytes, to_bytes

MAX_PAGE = 100

SCHEMA = """
CREATE TABLE IF NOT EXISTS takes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    settings TEXT NOT NULL,
    seed INTEGER NOT NULL,
    voice TEXT NOT NULL,
    voice_id TEXT,
    model TEXT NOT NULL,
    speaker BLOB,
    file TEXT NOT NULL UNIQUE,
    size_bytes INTEGER NOT NULL,
    num_samples INTEGER NOT NULL,
    sample_rate_hz INTEGER NOT NULL,
    is_starred INTEGER NOT NULL,
    UNIQUE (owner, created_us)
) STRICT
"""
_COLUMNS = (
    *("id", "owner", "created_us", "title", "text", "settings", "seed", "voice", "voice_id"),
    *("model", "speaker", "file", "size_bytes", "num_samples", "sample_rate_hz", "is_starred"),
)
# A voice that was deleted: its numbers are gone, and that it had some is known.
_FORGOTTEN = b""


class History:
    """The takes in ``folder`` and ``catalogue``. Thread- and process-safe; every call blocks.

    ``max_takes`` 0 keeps no new ones. With ``visit_s``, an owner's takes go so many seconds after
    the owner was last here. Storage that fails is a ``StorageFailed`` everywhere.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        folder: Path,
        max_takes: int,
        max_age_days: float,
        max_mb: float,
        *,
        visit_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_takes = max_takes
        self.max_bytes = round(max_mb * 1e6)
        self._catalogue = catalogue
        self._folder = folder
        self._max_age_s = max_age_days * 24 * 3600
        self._visit_s = visit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._seen_s: dict[str, float] = {}  # by owner; of a visit only
        self._sweep()

    def close(self) -> None:
        """Let go of what is its own: nothing, for the catalogue serves others too."""

    @property
    def note(self) -> str:
        """Why no take is kept, in a sentence; empty where they are."""
        if self.max_takes:
            return ""
        return "takes: this studio keeps none (--max-takes 0); start it without that option."

    # Keeping ---------------------------------------------------------------------------------

    def record(self, owner: Owner, making: Making, sample_rate_hz: int) -> Recorder:
        """Begin to keep a take; nothing can be seen of it before ``Recorder.keep``."""
        if not self.max_takes:
            raise StorageFailed(self.note, code="takes_off")
        self._visit(owner)
        speaker = None if making.speaker is None else to_bytes(making.speaker)
        file = TakeFile(self._folder, sample_rate_hz, self.max_bytes, making.comment)
        take = Take(
            id=f"take_{secrets.token_urlsafe(16)}",
            owner=owner.id,
            place=0,
            title="",
            text=plain(making.text),
            settings=making.settings,
            seed=making.seed,
            voice=plain(making.voice),
            voice_id=making.voice_id,
            model=making.model,
            file=file.name,
            size_bytes=0,
            num_samples=0,
            sample_rate_hz=sample_rate_hz,
            is_starred=False,
        )
        return Recorder(take, file, lambda whole: self._insert(whole, speaker))

    def _insert(self, take: Take, speaker: bytes | None) -> Take:
        with self._catalogue.writing() as db:
            kept = db.execute(
                "SELECT file, size_bytes, is_starred FROM takes WHERE owner = ?"
                " ORDER BY created_us",
                (take.owner,),
            ).fetchall()
            leaving = leaving_for(take.size_bytes, kept, self.max_takes, self.max_bytes)
            db.executemany("DELETE FROM takes WHERE file = ?", [(file,) for file in leaving])
            # A clock that was set back does not put a new take behind older ones.
            (last,) = db.execute(
                "SELECT max(created_us) FROM takes WHERE owner = ?", (take.owner,)
            ).fetchone()
            take = replace(take, place=max(round(self._clock() * 1e6), (last or 0) + 1))
            db.execute(
                f"INSERT INTO takes ({', '.join(_COLUMNS)})"
                f" VALUES ({', '.join('?' for _ in _COLUMNS)})",
                _row(take, speaker),
            )
        # The new take stands; what could not be cleared up now is cleared up at the next start.
        with contextlib.suppress(StorageFailed):
            for file in leaving:
                self._unlink(file)
            if leaving:
                self._catalogue.erase_traces()
        return take

    # Finding ---------------------------------------------------------------------------------

    def newest(
        self,
        owner: Owner,
        limit: int = MAX_PAGE,
        *,
        after: int | None = None,
        words: str = "",
        is_starred: bool | None = None,
    ) -> list[Take]:
        """At most ``limit`` takes, the newest first; ``after`` is the ``place`` of the one before.

        ``words`` must stand in the title or text, in upper or lower case.
        """
        self._visit(owner)
        with self._catalogue.reading() as db:
            db.create_function("folded", 1, folded, deterministic=True)
            rows = db.execute(
                "SELECT * FROM takes WHERE owner = :owner"
                " AND (:after IS NULL OR created_us < :after)"
                " AND (:starred IS NULL OR is_starred = :starred)"
                " AND (:words = '' OR instr(folded(title || char(10) || text), :words))"
                " ORDER BY created_us DESC LIMIT :limit",
                {
                    "owner": owner.id,
                    "after": after,
                    "starred": is_starred,
                    "words": folded(plain(words.strip())),
                    "limit": limit,
                },
            ).fetchall()
        return [_take(row) for row in rows]

    def find(self, owner: Owner, take_id: str) -> Take:
        """The owner's take of that id; raises ``NotFound`` for any other."""
        return _take(self._found(owner, take_id))

    def speaker(self, owner: Owner, take_id: str) -> np.ndarray | None:
        """The embedding [dim] float32 that it was spoken with, None where there was none.

        Raises ``Conflict`` when the voice has been deleted since, ``NotFound`` as ``find`` does.
        """
        data = self._found(owner, take_id)["speaker"]
        if data == _FORGOTTEN:
            raise Conflict(
                "take: the voice it was spoken with has been deleted, so it cannot be made again;"
                " its sound is still here.",
                field="take",
                code="voice_deleted",
            )
        return None if data is None else from_bytes(data, "take")

    def path(self, take: Take) -> Path:
        """Its FLAC file."""
        return self._folder / take.file

    def _found(self, owner: Owner, take_id: str) -> sqlite3.Row:
        self._visit(owner)
        with self._catalogue.reading() as db:
            row: sqlite3.Row | None = db.execute(
                "SELECT * FROM takes WHERE id = ? AND owner = ?", (plain(take_id), owner.id)
            ).fetchone()
        if row is None:
            raise not_found(take_id)
        return row

    # Changing --------------------------------------------------------------------------------

    def change(
        self,
        owner: Owner,
        take_id: str,
        *,
        is_starred: bool | None = None,
        title: str | None = None,
    ) -> Take:
        """Set the star, the title, or both; raises ``NotFound`` and ``InvalidRequest``."""
        self._visit(owner)
        title = None if title is None else checked_title(title)
        with self._catalogue.writing() as db:
            row = db.execute(
                "UPDATE takes SET is_starred = coalesce(?, is_starred), title = coalesce(?, title)"
                " WHERE id = ? AND owner = ? RETURNING *",
                (is_starred, title, plain(take_id), owner.id),
            ).fetchone()
        if row is None:
            raise not_found(take_id)
        return _take(row)

    def delete(self, owner: Owner, take_id: str) -> None:
        """Delete one take, starred or not; raises ``NotFound``."""
        self._visit(owner)
        if not self._remove("id = ? AND owner = ?", plain(take_id), owner.id):
            raise not_found(take_id)

    def delete_all(self, owner: Owner, *, starred: bool = False) -> int:
        """Delete the owner's takes, with ``starred`` those as well -> how many."""
        self._visit(owner)
        return self._remove("owner = ? AND is_starred <= ?", owner.id, starred)

    def forget_voice(self, speaker: np.ndarray) -> None:
        """A voice was deleted: its numbers leave every take. The sound stays, ``again`` goes."""
        with self._catalogue.writing() as db:
            num_changed = db.execute(
                "UPDATE takes SET speaker = ? WHERE speaker = ?", (_FORGOTTEN, to_bytes(speaker))
            ).rowcount
        if num_changed:
            self._catalogue.erase_traces()

    def expire(self) -> int:
        """Delete what is too old, and what was left by visits that are over -> how many takes."""
        now_s = self._clock()
        num_gone = self._remove(
            "NOT is_starred AND created_us < ?", round((now_s - self._max_age_s) * 1e6)
        )
        if self._visit_s is not None:
            with self._lock:
                over = [who for who, seen in self._seen_s.items() if now_s - seen > self._visit_s]
                for who in over:
                    del self._seen_s[who]
            num_gone += sum(self._remove("owner = ?", who) for who in over)
        return num_gone

    def _visit(self, owner: Owner) -> None:
        """The owner is here; what is left of an earlier visit that is over goes first."""
        if self._visit_s is None:
            return
        now_s = self._clock()
        with self._lock:
            seen_s = self._seen_s.get(owner.id, now_s)
            self._seen_s[owner.id] = now_s
        if now_s - seen_s > self._visit_s:
            self._remove("owner = ?", owner.id)

    def _remove(self, condition: str, *values: object) -> int:
        """Delete the takes that meet ``condition``; their files first, so that a full disk has room
        for the database to say so."""
        with self._catalogue.writing() as db:
            rows = db.execute(f"SELECT file FROM takes WHERE {condition}", values).fetchall()
            for row in rows:
                self._unlink(row["file"])
            db.execute(f"DELETE FROM takes WHERE {condition}", values)
        if rows:
            self._catalogue.erase_traces()
        return len(rows)

    def _unlink(self, file: str) -> None:
        try:
            (self._folder / file).unlink(missing_ok=True)
        except OSError as error:
            raise storage_failed(error) from None

    def _sweep(self) -> None:
        """Remove leftovers: files without a row that nobody is writing, rows without a file."""
        with self._catalogue.reading() as db:
            rows = {row["file"] for row in db.execute("SELECT file FROM takes")}
        for file in take_files(self._folder) - rows:
            # Its writer lets go after the row stands, so only now the answer is final.
            with unused(self._folder / file) as is_left:
                if is_left and not self._has_row(file):
                    self._unlink(file)
        # A row comes after its file: one that lacks it now has lost it.
        lost = [(file,) for file in rows if not (self._folder / file).exists()]
        if lost:
            with self._catalogue.writing() as db:
                db.executemany("DELETE FROM takes WHERE file = ?", lost)
            self._catalogue.erase_traces()

    def _has_row(self, file: str) -> bool:
        with self._catalogue.reading() as db:
            return db.execute("SELECT 1 FROM takes WHERE file = ?", (file,)).fetchone() is not None


class Recorder:
    """A take in the making: ``write`` its sound, then ``keep`` or ``discard`` it.

    Blocking, for one thread at a time; whatever fails leaves nothing behind.
    """

    def __init__(self, take: Take, file: TakeFile, insert: Callable[[Take], Take]) -> None:
        self.take_id = take.id
        self._take = take
        self._file = file
        self._insert = insert

    def write(self, samples: np.ndarray) -> None:
        """Append int16 samples [n]; raises ``StorageFailed``, also when it grows too large."""
        self._file.write(samples)

    def keep(self, repairs: Sequence[Mapping[str, object]] = ()) -> Take:
        """The whole take, from now on found by its id; ``repairs`` stand with its settings.

        Raises ``StorageFailed``: the disk, or ``takes_full`` where stars leave no room for it.
        """
        is_kept = False
        try:
            size_bytes = self._file.finish()
            num_samples = self._file.num_samples
            settings = {**self._take.settings, **({"repairs": list(repairs)} if repairs else {})}
            take = self._insert(
                replace(
                    self._take, settings=settings, size_bytes=size_bytes, num_samples=num_samples
                )
            )
            is_kept = True
        finally:
            self._file.close(keep=is_kept)
        return take

    def discard(self) -> None:
        """Leave nothing of it; harmless after ``keep``."""
        self._file.close()


def _row(take: Take, speaker: bytes | None) -> tuple[object, ...]:
    """The columns of a take, in the order of ``_COLUMNS``."""
    settings = json.dumps(take.settings)
    return (
        *(take.id, take.owner, take.place, take.title, take.text, settings, take.seed),
        *(take.voice, take.voice_id, take.model, speaker, take.file, take.size_bytes),
        *(take.num_samples, take.sample_rate_hz, take.is_starred),
    )


def _take(row: sqlite3.Row) -> Take:
    values = {name: row[name] for name in _COLUMNS if name not in ("created_us", "speaker")}
    values |= {
        "place": row["created_us"],
        "settings": json.loads(row["settings"]),
        "is_starred": bool(row["is_starred"]),
    }
    return Take(**values)
