"""Voices for a working session: kept in memory, for a day at most, by owner and session.

- A session is whatever its client calls it; it belongs to the owner that made it, and another
  owner's session of the same name is another one.
- Bounded: a full session forgets the voice that was used longest ago; where all sessions together
  are full, the owner who keeps the most loses one, so that nobody can push out another's voices.
- Nothing is written to disk, and a restart forgets all of it; ``studio/voices.py`` is what lasts.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

PREFIX = "spk_"
MAX_PER_SESSION = 32
# A voice with 30 s of sound takes 1.5 MB: 370 MB when all of them have it.
MAX_VOICES = 256
LIFETIME_S = 24 * 3600.0


@dataclass(frozen=True, eq=False)
class SessionVoice:
    """One voice of a session: its ``embedding`` [dim] float32 and, of a recording, the sound.

    ``preview`` is the used part of the recording as a 24 kHz WAV file, None where an embedding was
    brought. ``content_hash`` is the SHA-256 (hex) of the samples, or else of the embedding.
    """

    id: str
    owner: str
    session: str
    label: str
    source_type: Literal["audio", "embedding_file"]
    original_name: str
    embedding: np.ndarray
    preview: bytes | None
    content_hash: str
    created_s: float  # Unix time


class SessionVoices:
    """All voices of all sessions; safe to use from several threads."""

    def __init__(
        self,
        max_per_session: int = MAX_PER_SESSION,
        max_voices: int = MAX_VOICES,
        lifetime_s: float = LIFETIME_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_per_session = max_per_session
        self._max_voices = max_voices
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._lock = threading.Lock()
        self._voices: OrderedDict[str, SessionVoice] = OrderedDict()  # used longest ago first

    def add(
        self,
        owner: str,
        session: str,
        *,
        label: str,
        original_name: str,
        embedding: np.ndarray,
        preview: bytes | None,
        content_hash: str,
    ) -> SessionVoice:
        """Keep a voice; the one that it displaces is gone at once."""
        voice = SessionVoice(
            id=PREFIX + secrets.token_urlsafe(16),
            owner=owner,
            session=session,
            label=label,
            source_type="embedding_file" if preview is None else "audio",
            original_name=original_name,
            embedding=embedding,
            preview=preview,
            content_hash=content_hash,
            created_s=self._clock(),
        )
        with self._lock:
            self._forget_old()
            self._voices[voice.id] = voice
            self._make_room(voice)
        return voice

    def of(self, owner: str, session: str) -> list[SessionVoice]:
        """The voices of one session, the newest first."""
        with self._lock:
            self._forget_old()
            return sorted(
                self._of_session(owner, session), key=lambda voice: voice.created_s, reverse=True
            )

    def find(self, owner: str, voice_id: str) -> SessionVoice | None:
        """The owner's voice of this id, in whichever session; it counts as used."""
        with self._lock:
            self._forget_old()
            voice = self._voices.get(voice_id)
            if voice is None or voice.owner != owner:
                return None
            self._voices.move_to_end(voice_id)
            return voice

    def remove(self, owner: str, voice_id: str) -> SessionVoice | None:
        """Forget the owner's voice -> what it was, or None where there was none."""
        with self._lock:
            self._forget_old()
            voice = self._voices.get(voice_id)
            if voice is None or voice.owner != owner:
                return None
            return self._voices.pop(voice_id)

    def _of_session(self, owner: str, session: str) -> list[SessionVoice]:
        """Used longest ago first."""
        return [v for v in self._voices.values() if (v.owner, v.session) == (owner, session)]

    def _forget_old(self) -> None:
        oldest_s = self._clock() - self._lifetime_s
        for voice in [v for v in self._voices.values() if v.created_s <= oldest_s]:
            del self._voices[voice.id]

    def _make_room(self, new: SessionVoice) -> None:
        in_session = self._of_session(new.owner, new.session)
        if len(in_session) > self._max_per_session:
            del self._voices[in_session[0].id]
        if len(self._voices) > self._max_voices:
            kept = Counter(voice.owner for voice in self._voices.values())
            most = max(kept.values())
            del self._voices[next(v.id for v in self._voices.values() if kept[v.owner] == most)]
