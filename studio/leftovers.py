"""What a killed process leaves behind, told apart from what another one is using at the moment.

- Whoever uses a file or folder holds a lock on it. The system drops the lock when the process ends,
  however it ends.
- So what can be locked is in nobody's use; whether it is still wanted, the caller knows.
- Where there are no such locks (Windows), everything counts as in use and leftovers stay.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def create_held(path: Path) -> int:
    """Make a new file that only this user can read -> its descriptor, locked until it is closed.

    Raises ``OSError``.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if fcntl is None:
            return descriptor
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Before the lock was there, somebody may have taken the file for a leftover.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


@contextmanager
def unused(path: Path) -> Iterator[bool]:
    """Whether nobody uses the file or folder; while this lasts, nobody begins to."""
    if fcntl is None:
        yield False
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # gone, or not ours
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except OSError:
            is_free = False
        yield is_free
    finally:
        os.close(descriptor)


class ShortLivedFolder:
    """A folder below ``parent`` that is gone at ``close``, or when the next one is made after it.

    Raises ``OSError``.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        whole = os.open(parent, os.O_RDONLY)
        try:
            if fcntl is not None:  # one at a time: a new folder is not locked yet
                fcntl.flock(whole, fcntl.LOCK_EX)
            for folder in parent.iterdir():
                with unused(folder) as is_left:
                    if is_left:
                        shutil.rmtree(folder, ignore_errors=True)
            self.path = Path(tempfile.mkdtemp(dir=parent))
            self._lock = os.open(self.path, os.O_RDONLY)
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(whole)

    def close(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
