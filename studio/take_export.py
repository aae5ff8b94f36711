"""All takes of an owner as one ZIP file, made while it is read: memory stays bounded."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from studio.history import MAX_PAGE, History
from studio.owner import Owner
from studio.takes import Take, described, file_name

MANIFEST = "takes.json"
_PIECE_BYTES = 1 << 18


class _Pipe:
    """What the archive has written and nobody has read yet."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data


def zipped(history: History, owner: Owner) -> Iterator[bytes]:
    """The archive in pieces: a FLAC file per take, and last ``takes.json`` about all of them.

    A take that is deleted meanwhile is left out. Blocking; raises ``StorageFailed``.
    """
    pipe = _Pipe()
    places = []
    with zipfile.ZipFile(cast(BinaryIO, pipe), "w") as archive:
        for take in all_takes(history, owner):
            try:
                sound = history.path(take).open("rb")
            except FileNotFoundError:
                continue
            places.append(take.place)
            with sound, archive.open(_entry(file_name(take, "flac"), take), "w") as entry:
                while data := sound.read(_PIECE_BYTES):
                    entry.write(data)
                    yield pipe.taken()
        exported = set(places)
        manifest = zipfile.ZipInfo(MANIFEST, _time(time.time()))
        manifest.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(manifest, "w") as entry:
            separator = "["
            for take in all_takes(history, owner):
                if take.place in exported:
                    about = described(take) | {"file": file_name(take, "flac")}
                    entry.write(f"{separator}\n{json.dumps(about, indent=1)}".encode())
                    separator = ","
                    yield pipe.taken()
            entry.write(b"[]\n" if separator == "[" else b"\n]\n")
    yield pipe.taken()


def all_takes(history: History, owner: Owner) -> Iterator[Take]:
    """Every take, the newest first, page by page."""
    after = None
    while page := history.newest(owner, MAX_PAGE, after=after):
        yield from page
        after = page[-1].place


def _entry(name: str, take: Take) -> zipfile.ZipInfo:
    """A FLAC file as it is: deflating it would take time and save nothing."""
    entry = zipfile.ZipInfo(name, _time(take.created_s))
    entry.file_size = take.size_bytes
    entry.external_attr = 0o600 << 16
    return entry


def _time(seconds: float) -> tuple[int, int, int, int, int, int]:
    year, month, day, hour, minute, second, *_ = time.localtime(seconds)
    return max((year, month, day, hour, minute, second), (1980, 1, 1, 0, 0, 0))  # ZIP's first day
