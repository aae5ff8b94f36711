"""From recordings, embeddings, other voices or a file to a stored voice: the one way for all doors.

- Storing takes a declaration (``consent``), which is checked before anything is read.
- Of a recording nothing is kept but the embedding and, where asked, what the encoder heard.
- Everything here blocks: call it in a worker thread.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import soundfile

from engine import Engine, InvalidRequest, NotFound, average
from studio import consent, voice_file
from studio.api.asks import Blend, Embedding, Sound
from studio.api.speakers import Heard, Speakers
from studio.media.intake import Reference
from studio.owner import Owner
from studio.session_voices import SessionVoice
from studio.voice_card import Card
from studio.voices import Draft, Voice, VoiceEmbedding, VoiceLibrary

MAX_RECORDINGS = voice_file.MAX_CLIPS


@dataclass(frozen=True)
class Made:
    """A stored voice, and in ``warnings`` what was found in its recordings (ASCII)."""

    voice: Voice
    warnings: str = ""


class VoiceMaker:
    """Stores voices of any owner in the library of one studio."""

    def __init__(self, engine: Engine, speakers: Speakers, library: VoiceLibrary) -> None:
        self._engine = engine
        self._speakers = speakers
        self._library = library

    def record(
        self,
        owner: Owner,
        card: Card,
        sounds: Sequence[Sound],
        *,
        has_consent: bool,
        keep_clip: bool = False,
        overwrite: bool = False,
    ) -> Made:
        """A voice from 1 to 8 recordings of one speaker, whose embeddings are averaged.

        Raises ``Forbidden`` without consent, ``InvalidReference`` or ``TooLarge`` for an unusable
        recording, and what ``VoiceLibrary.add`` does.
        """
        consent.require(has_consent)
        if not 1 <= len(sounds) <= MAX_RECORDINGS:
            raise InvalidRequest(
                f"audio_sample: {len(sounds)} recordings were sent; send 1 to {MAX_RECORDINGS}.",
                field="audio_sample",
            )
        if keep_clip and not self._library.keeps_sound:
            raise InvalidRequest(
                "keep_clip: this studio faces strangers and keeps no recordings; leave it out.",
                field="keep_clip",
            )
        heard = [self._speakers.hear(sound) for sound in sounds]
        draft = Draft(
            card,
            "recording",
            (self._embedding(average([each.embedding for each in heard]).numpy()),),
            tuple(_flac(each.reference) for each in heard) if keep_clip else (),
            tuple(each.reference.content_hash for each in heard),
        )
        voice = self._library.add(owner, draft, overwrite=overwrite)
        self._forget(draft.declared)  # what is stored for good is kept in one place only
        return Made(voice, _warnings(heard))

    def bring(
        self,
        owner: Owner,
        card: Card,
        embedding: Embedding,
        *,
        has_consent: bool,
        overwrite: bool = False,
    ) -> Made:
        """A voice from an embedding that the caller has; raises as ``record`` does."""
        consent.require(has_consent)
        vector = self._speakers.given(embedding).numpy()
        draft = Draft(card, "embedding", (self._embedding(vector),), (), (_hash(vector),))
        return Made(self._library.add(owner, draft, overwrite=overwrite))

    def blend(
        self,
        owner: Owner,
        card: Card,
        blend: Blend,
        *,
        has_consent: bool = False,
        overwrite: bool = False,
    ) -> Made:
        """A voice between two others. What was declared for stored ones goes over to it; one of a
        working session needs consent like any recording.
        """
        parents = [
            self._speakers.find(which, owner, "blend") for which in (blend.first, blend.second)
        ]
        brought = [voice.embedding for voice in parents if isinstance(voice, SessionVoice)]
        if brought:
            consent.require(has_consent)
        draft = Draft(
            card,
            "blend",
            (self._embedding(self._speakers.blended(blend, owner).numpy()),),
            declared=tuple(map(_hash, brought)),
            of=tuple(voice.id for voice in parents if isinstance(voice, Voice)),
        )
        return Made(self._library.add(owner, draft, overwrite=overwrite))

    def import_file(
        self,
        owner: Owner,
        data: bytes,
        *,
        has_consent: bool,
        name: str | None = None,
        overwrite: bool = False,
        field: str = "file",
    ) -> Made:
        """A voice from an exported file, under its own name or another one.

        Its clips are decoded as any stranger's recording and written anew; its preview is left out,
        because it is spoken again on demand. Raises as ``record`` and ``voice_file.unpack`` do.
        """
        consent.require(has_consent)
        unpacked = voice_file.unpack(data, field)
        card = unpacked.card if name is None else replace(unpacked.card, name=name)
        for each in unpacked.embeddings:
            if self._engine.encoder is not None and each.encoder == self._engine.encoder.identity:
                self._speakers.given(Embedding(field, each.vector))
        clips, hashes = [], [_hash(each.vector) for each in unpacked.embeddings]
        if self._library.keeps_sound:
            for number, clip in enumerate(unpacked.clips, 1):
                sound = Sound(f"{field}: clip-{number}.flac", data=clip)
                reference = self._speakers.read(sound)
                clips.append(_flac(reference))
                hashes.append(reference.content_hash)
        draft = Draft(card, "import", unpacked.embeddings, tuple(clips), tuple(hashes))
        return Made(self._library.add(owner, draft, overwrite=overwrite))

    def delete(self, owner: Owner, which: str) -> Voice:
        """Delete a voice, on disk and in the engine's memory; raises as ``VoiceLibrary.own``."""
        voice, hashes = self._library.delete(owner, which)
        self._forget(hashes)
        return voice

    def _embedding(self, vector: np.ndarray) -> VoiceEmbedding:
        encoder = self._engine.encoder
        if encoder is None:  # nothing would tell which models the voice fits
            raise NotFound(
                "name: this model came without a speaker encoder and cannot store voices; open one"
                " that has it.",
                field="name",
                code="encoder_missing",
            )
        return VoiceEmbedding(encoder.identity, self._engine.name, vector)

    def _forget(self, hashes: Sequence[str]) -> None:
        for content_hash in hashes:
            self._engine.forget(content_hash)


def export_file(library: VoiceLibrary, voice: Voice) -> bytes:
    """The voice as one file, see ``voice_file``."""
    return voice_file.pack(
        voice, library.embeddings(voice), library.clips(voice), library.preview(voice)
    )


def _warnings(heard: Sequence[Heard]) -> str:
    found = [each.reference.report.warnings() for each in heard]
    if len(found) == 1:
        return found[0]
    return " ".join(f"Recording {n}: {text}" for n, text in enumerate(found, 1) if text)


def _flac(reference: Reference) -> bytes:
    file = io.BytesIO()
    rate_hz = reference.sample_rate_hz
    soundfile.write(file, reference.samples, rate_hz, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def _hash(vector: np.ndarray) -> str:
    return hashlib.sha256(vector.tobytes()).hexdigest()
