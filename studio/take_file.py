"""The sound of a take on its way to the disk: a FLAC file, there whole or not at all.

- It is written under another name, flushed to the disk and renamed; memory stays bounded, however
  long the speech is.
- From its first byte until ``close`` it is held (``studio/leftovers.py``): whoever clears up what
  has no row in the database leaves it alone.
- What the disk refuses is a ``StorageFailed``, and the file goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile

from engine import StorageFailed
from studio.leftovers import create_held

_SUFFIX = ".flac"
_PART_SUFFIX = ".part"
# Only what was named here may be cleared up.
_OURS = re.compile(r"[0-9a-f]{32}\.flac(\.part)?")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TakeFile:
    """A new FLAC file of 16-bit mono samples in ``folder``, at most ``max_bytes`` long.

    ``comment`` is what it says about itself, "" for nothing.
    Blocking, for one thread at a time. Everything raises ``StorageFailed``.
    """

    def __init__(
        self, folder: Path, sample_rate_hz: int, max_bytes: int, comment: str = ""
    ) -> None:
        self.name = secrets.token_hex(16) + _SUFFIX
        self.num_samples = 0
        self._path = folder / self.name
        self._part = folder / (self.name + _PART_SUFFIX)
        self._max_bytes = max_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.fdopen(create_held(self._part), "wb")
        except OSError as error:
            raise storage_failed(error) from None
        self._sink = _Sink(self._file)
        self._sound = soundfile.SoundFile(
            self._sink, "w", sample_rate_hz, 1, subtype="PCM_16", format="FLAC"
        )
        if comment:
            self._sound.comment = comment

    def write(self, samples: np.ndarray) -> None:
        """Append int16 samples [n]."""
        self._try(lambda: self._sound.write(samples))
        self.num_samples += len(samples)
        if self._sink.size_bytes > self._max_bytes:
            self.close()
            raise StorageFailed(
                f"takes: this one is longer than the {self._max_bytes / 1e6:.0f} MB that may be"
                " kept; raise --takes-mb or speak it in parts.",
                code="take_too_large",
            )

    def finish(self) -> int:
        """Put the whole file in its place -> its size in bytes. It stays held until ``close``."""
        self._try(self._sound.close)
        self._try(self._settle)
        return self._path.stat().st_size

    def close(self, *, keep: bool = False) -> None:
        """Let go of the file, and unless it is to be kept remove it; harmless when repeated."""
        if self._file.closed:
            return
        with contextlib.suppress(soundfile.LibsndfileError):
            self._sound.close()
        if not keep:
            for path in (self._part, self._path):
                with contextlib.suppress(OSError):
                    path.unlink()
        with contextlib.suppress(OSError):  # bytes that found no room
            self._file.close()

    def _settle(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._part.rename(self._path)
        sync_folder(self._path.parent)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
            if self._sink.error is not None:
                raise self._sink.error
        except (OSError, soundfile.LibsndfileError) as error:
            self.close()
            raise storage_failed(error) from error


class _Sink:
    """A file for libsndfile, which does not say why a write failed: the first error is kept."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size_bytes = 0
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            if self.error is None:
                self._file.write(data)
                self.size_bytes = max(self.size_bytes, self._file.tell())
        except OSError as error:
            self.error = error
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return self._file.seek(offset, whence)
        except OSError as error:
            self.error = self.error or error
            return 0

    def tell(self) -> int:
        return self._file.tell()


def take_files(folder: Path) -> set[str]:
    """The names of all files of takes in ``folder``, finished or not; raises ``StorageFailed``."""
    try:
        return {path.name for path in folder.iterdir() if _OURS.fullmatch(path.name)}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise storage_failed(error) from None


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` last over a power cut; raises ``OSError``."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_failed(error: Exception) -> StorageFailed:
    """The sentence for what the disk said, without a path."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    if getattr(error, "errno", None) in _NO_ROOM:
        return StorageFailed("takes: the disk is full; make room and try again.", code="disk_full")
    return StorageFailed(
        f"takes: the folder of takes cannot be used ({reason}); see that it is writable."
    )
