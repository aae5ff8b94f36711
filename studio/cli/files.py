"""The files that commands write: checked before the work is done, and told by their option."""

from __future__ import annotations

import os
from pathlib import Path

from engine import MAX_SEED, InvalidRequest
from studio.media.encode import FORMATS, Format, available_formats


def seed_of(text: str | None) -> int | None:
    """The value of ``--seed``; None has one drawn. Raises ``InvalidRequest``."""
    if text in (None, "-1"):
        return None
    if not text.isdecimal() or len(text) > 10 or int(text) > MAX_SEED:
        raise InvalidRequest(
            f"--seed: {text[:40]!r} is not allowed; give a whole number from 0 to {MAX_SEED}."
        )
    return int(text)


def writable_sound(path: str) -> tuple[Path, Format]:
    """``path`` as a file of sound that can be written, and its format; raises what is wrong."""
    format = _by_ending().get(Path(path).suffix.lower())
    if format is None:
        raise unwritable(path, f"its name must end in {endings()}")
    return writable(path), format


def writable(path: str, option: str = "--out") -> Path:
    """``path`` as a file that can be written; raises ``InvalidRequest``."""
    out = Path(path)
    if out.is_dir():
        raise unwritable(out, "it is a folder", option)
    if not out.parent.is_dir():
        raise unwritable(out, "its folder does not exist", option)
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise unwritable(out, "permission denied", option)
    return out


def write(out: Path, data: bytes, option: str = "--out") -> None:
    """Write a file; raises ``InvalidRequest``."""
    try:
        out.write_bytes(data)
    except OSError as error:
        raise unwritable(out, str(error.strerror), option) from None


def endings() -> str:
    """The endings that choose a format."""
    *most, last = _by_ending()
    return f"{', '.join(most)} or {last}"


def unwritable(out: str | Path, reason: str, option: str = "--out") -> Exception:
    """The error for a file that cannot be written."""
    return InvalidRequest(
        f"{option}: {str(out)!r} cannot be written ({reason}); choose another file."
    )


def _by_ending() -> dict[str, Format]:
    return {f".{FORMATS[name].suffix}": FORMATS[name] for name in available_formats()}
