"""Open a recording below the media folder, and nothing else on this machine.

The path is walked folder by folder with descriptors, following no link, so that nothing can be
swapped between check and use. Every refusal has the same sentence, whether the file exists or not.
"""

from __future__ import annotations

import os
import stat
import urllib.parse
from pathlib import Path
from typing import BinaryIO

from engine import InvalidReference

_MAX_PATH_CHARACTERS = 4096
# O_NONBLOCK: opening a FIFO must not wait for its writer.
_FILE_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_FOLDER_FLAGS = _FILE_FLAGS | getattr(os, "O_DIRECTORY", 0)


def is_file_url(text: str) -> bool:
    """Tell whether ``text`` begins like a file:// URL."""
    return text[:7].lower() == "file://"


def open_local(path_text: str, media_root: Path | None, *, field: str = "reference") -> BinaryIO:
    """Open the regular file that ``path_text`` names: relative to ``media_root``, absolute below
    it, or a file:// URL below it. The file is unbuffered; the caller closes it.

    Raises InvalidReference with one generic sentence. Without ``media_root``, and on platforms
    that cannot open relative to a folder (Windows), everything is refused.
    """
    try:
        if media_root is None or os.open not in os.supports_dir_fd:
            raise PermissionError
        return os.fdopen(_walk(media_root, _parts(path_text, media_root)), "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise InvalidReference(
            f"{field} cannot be opened: a local path must name a recording below the folder that"
            " this server was started with (--media-root), without links; or upload the recording"
            " instead.",
            field=field,
        ) from error


def _parts(path_text: str, media_root: Path) -> list[str]:
    """Split the path into names below the root; raise ValueError where it is not one."""
    if len(path_text) > _MAX_PATH_CHARACTERS:
        raise ValueError("too long")
    if is_file_url(path_text):
        host, path_text = "", path_text[7:]
        if not path_text.startswith("/"):
            host, _, path_text = path_text.partition("/")
            path_text = "/" + path_text
        if host not in ("", "localhost"):
            raise ValueError("a file of another machine")
        path_text = urllib.parse.unquote(path_text, errors="strict")
    if path_text.startswith("/"):
        path_text = path_text.removeprefix(f"{media_root.absolute()}/")
    parts = path_text.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise ValueError("not a plain path below the root")
    return parts


def _walk(media_root: Path, parts: list[str]) -> int:
    """Open the last of ``parts`` as a regular file and return its descriptor."""
    folder = os.open(media_root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for name in parts[:-1]:
            deeper = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = deeper
        descriptor = os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a file")
    return descriptor
