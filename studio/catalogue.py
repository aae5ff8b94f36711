"""The one database of what the studio keeps: a SQLite file, durable, private and erasable.

- A change is whole or absent, whatever kills the process; readers never wait for a writer.
- Several threads and processes may use one folder at once; a writer waits for the other.
- What is deleted is overwritten in the database and gone from its journal after ``erase_traces``.
- Each store (voices, takes, consents) owns its tables and hands in their schema.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine import StorageFailed

FILE = "studio.sqlite3"
# Another thread or process may write for so long before a request gives up.
BUSY_S = 10.0
# Raised by one whenever a table changes in a way that older code cannot read.
VERSION = 1
_MAKING = threading.Lock()


class Catalogue:
    """The database in ``folder``, which is made if it is missing."""

    def __init__(self, folder: Path, *schemas: str) -> None:
        self.folder = folder
        self._path = folder / FILE
        # A connection serves one transaction at a time, of whatever thread.
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_private(self._path)
        except OSError as error:
            raise StorageFailed(
                f"--data: the folder for voices and takes cannot be used ({error.strerror});"
                " choose another one.",
                field="data",
            ) from None
        with self.writing() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise StorageFailed(
                    f"--data: this folder was written by a newer studio (version {version}, known"
                    f" is {VERSION}); update the studio or choose another folder.",
                    field="data",
                )
            for schema in schemas:
                for statement in schema.split(";"):
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read from: one consistent state of the database."""
        with self._transaction("BEGIN") as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection to write with; everything takes effect at the end, or nothing does."""
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    def erase_traces(self) -> None:
        """Take what was deleted out of the journal too, as soon as no reader needs it."""
        with self._connection() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close what is open; the journal is folded into the file."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            db.execute(begin)
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with _told():
            with self._lock:
                db = self._idle.pop() if self._idle else None
            db = db or _connect(self._path)
            try:
                yield db
            finally:
                with self._lock:
                    self._idle.append(db)


def _make_private(path: Path) -> None:
    """Make the file if it is missing, for this user alone.

    A file that is there is never opened: closing it would drop every lock that SQLite holds on it
    anywhere in this process, and the next writers would damage it.
    """
    with _MAKING, suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",  # a finished write survives a power cut
        "secure_delete = ON",
        "foreign_keys = ON",
    ):
        db.execute(f"PRAGMA {pragma}").fetchall()
    return db


@contextmanager
def _told() -> Iterator[None]:
    """Database errors as ``StorageFailed``, without the path of the file."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # the stores know what it means
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            reason = "the disk is full; make room and try again"
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            reason = "another program holds it; try again"
        elif name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            reason = f"{FILE} is damaged; restore it from a copy, or move it away to begin anew"
        else:
            reason = f"{FILE} cannot be used ({name or 'unknown'}); see that the folder is writable"
        raise StorageFailed(f"storage: what the studio keeps is out of reach: {reason}.") from error
