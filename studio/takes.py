"""A take as a value: what is known of it, its title, and which others make room for it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import InvalidRequest, NotFound, StorageFailed

MAX_TITLE_CHARS = 200
MAX_NAME_CHARS = 48  # of a file, without its end
# They turn the reading direction of whatever follows.
_TURNS_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, eq=False)
class Making:
    """All that is known of a take before its sound.

    ``settings`` is the request in JSON, without recordings, as it can be sent again. ``voice`` is
    what the speaker is called, ``voice_id`` the model's own voice if it is one, ``speaker`` the
    embedding [dim] float32, or None where the model spoke without. ``comment`` are the words that
    its file says about itself.
    """

    text: str
    settings: Mapping[str, object]
    seed: int
    voice: str
    voice_id: str | None
    model: str
    speaker: np.ndarray | None
    comment: str = ""


@dataclass(frozen=True)
class Take:
    """A kept result, without its sound and its voice's numbers; ``created_s`` is Unix time.

    ``place`` orders the takes of one owner: a later one has a greater one.
    """

    id: str
    owner: str
    place: int
    title: str
    text: str
    settings: Mapping[str, object]
    seed: int
    voice: str
    voice_id: str | None
    model: str
    file: str
    size_bytes: int
    num_samples: int
    sample_rate_hz: int
    is_starred: bool

    @property
    def created_s(self) -> float:
        """When it was kept."""
        return self.place / 1e6

    @property
    def duration_s(self) -> float:
        """Seconds of sound."""
        return self.num_samples / self.sample_rate_hz


def leaving_for(
    size_bytes: int, kept: Iterable[tuple[str, int, bool]], max_takes: int, max_bytes: int
) -> list[str]:
    """The files of ``kept`` (file, size, star; oldest first) that make room for a new one.

    As few as possible, the oldest first; raises ``StorageFailed`` where stars leave no room.
    """
    kept = list(kept)
    num_takes, num_bytes = len(kept) + 1, sum(size for _, size, _ in kept) + size_bytes
    leaving = []
    for file, size, is_starred in kept:
        if num_takes <= max_takes and num_bytes <= max_bytes:
            break
        if not is_starred:
            leaving.append(file)
            num_takes -= 1
            num_bytes -= size
    if num_takes > max_takes or num_bytes > max_bytes:
        raise StorageFailed(
            f"takes: the new one was not kept, because starred ones fill the {max_takes} takes or"
            f" {max_bytes / 1e6:.0f} MB that may be; delete one or take its star away.",
            code="takes_full",
        )
    return leaving


def not_found(take_id: str) -> NotFound:
    """The one answer to a take that does not exist or belongs to somebody else."""
    return NotFound(
        f"take: there is no take {take_id[:64]!r}; the list of takes shows those there are.",
        field="take",
        code="take_not_found",
    )


def checked_title(text: str) -> str:
    """A title on one line; raises ``InvalidRequest`` for one that is too long."""
    title = unicodedata.normalize("NFC", one_line(text))
    if len(title) > MAX_TITLE_CHARS:
        raise InvalidRequest(
            f"title: it has {len(title)} characters and the limit is {MAX_TITLE_CHARS}; shorten"
            " it.",
            field="title",
        )
    return title


def one_line(text: str) -> str:
    """``text`` on one line, without what cannot be seen."""
    # Kept: what joins letters and emoji (Cf). Gone: controls and half surrogate pairs.
    visible = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in text)
    return " ".join(_TURNS_DIRECTION.sub("", visible).split())


def folded(text: str) -> str:
    """What texts have in common that differ in case or composition alone."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def plain(text: str) -> str:
    """``text`` as the database takes it: half surrogate pairs are no characters."""
    return text.encode(errors="replace").decode()


def described(take: Take) -> dict[str, Any]:
    """A take in JSON, as routes and exports show it."""
    return {
        "id": take.id,
        "object": "take",
        "created": take.created_s,
        "title": take.title,
        "text": take.text,
        "starred": take.is_starred,
        "seed": take.seed,
        "voice": take.voice,
        "model": take.model,
        "duration_s": round(take.duration_s, 3),
        "sample_rate_hz": take.sample_rate_hz,
        "size_bytes": take.size_bytes,
        "settings": dict(take.settings),
    }


def file_name(take: Take, suffix: str) -> str:
    """A name for the file of a take: its first words and enough of its id to be the only one."""
    words = re.findall(r"\w+", (take.title or take.text)[: 4 * MAX_NAME_CHARS])
    name = "-".join(words).strip("_")[:MAX_NAME_CHARS].rstrip("-_") or "take"
    return f"{name}-{take.id[5:13]}.{suffix}"
