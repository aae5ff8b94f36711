"""Whose voice a request asks for: a stored one, the default one, or one that it brings along.

- A text names, in this order: the id of a stored voice, its name, a voice of the model, a stock
  name of OpenAI. What an owner may not use does not exist for it.
- A stored voice of another encoder is heard anew if its recordings were kept, else refused.
- Source: spec/api.md F7.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from torch import Tensor

from engine import Engine, InvalidReference, InvalidRequest, NotFound, average, nearest, slerp
from studio import consent, vectors
from studio.api.asks import Blend, Embedding, Sound, SpeakerAsk
from studio.media.base64_text import is_data_uri
from studio.media.fetch import FetchPolicy, is_url
from studio.media.intake import Reference, read_bytes
from studio.media.sources import Sources, read_text
from studio.owner import Owner
from studio.session_voices import SessionVoice, SessionVoices
from studio.settings import Settings
from studio.voice_card import STOCK_VOICES, chooses_nothing, name_key
from studio.voices import Voice, VoiceEmbedding, VoiceLibrary, not_found

# Decoding and embedding use a core each; more at once would starve the engine.
MAX_READING = 2

# A stored voice, one of a working session, or the name of a voice of the model (None: it has none).
Found = Voice | SessionVoice | str | None


@dataclass(frozen=True, eq=False)
class Speaker:
    """Who speaks: ``embedding`` [dim] float32, or None for nobody in particular.

    ``voice_id`` is what the model's calibrations know, ``voice_name`` what people call it, and
    ``warnings`` what was found in a recording, in ASCII.
    """

    embedding: Tensor | None
    voice_id: str | None
    voice_name: str
    warnings: str = ""


@dataclass(frozen=True, eq=False)
class Heard:
    """A recording that was read, and the speaker embedding [dim] of whoever speaks in it."""

    reference: Reference
    embedding: Tensor


def default_id(name: str) -> str:
    """The id of a voice of the model, in the form that Zyphra's clients know."""
    return f"default_{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:16]}"


class Speakers:
    """Turns what a request says about its speaker into an embedding; one for all doors."""

    def __init__(
        self, engine: Engine, settings: Settings, library: VoiceLibrary, sessions: SessionVoices
    ) -> None:
        self._engine = engine
        self._library = library
        self._sessions = sessions
        self._requires_consent = settings.require_consent
        self._stock = dict(settings.stock_voice)
        self.limiter = CapacityLimiter(MAX_READING)
        self._sources = None
        if engine.encoder is not None:
            self._sources = Sources(
                engine.encoder.sample_rate_hz,
                FetchPolicy(settings.allows_urls, frozenset(settings.allow_media_host)),
                settings.media_root,
            )
        for name in self._stock.values():
            engine.voice(name)

    async def resolve(self, ask: SpeakerAsk, owner: Owner) -> Speaker:
        """The speaker that ``ask`` names or brings.

        Raises ``NotFound`` for an unknown voice, ``InvalidReference`` for an unusable recording,
        ``Forbidden`` where the studio wants a declaration, ``InvalidRequest`` for the rest.
        """
        sound, voice = ask.sound, (ask.voice or "").strip()
        if is_url(voice) or is_data_uri(voice):
            sound, voice = sound or Sound(ask.field, voice), "" if sound is None else voice
        brought = [wish.field for wish in (sound, ask.embedding) if wish is not None]
        brought += [] if ask.blend is None else ["blend"]
        if brought and not chooses_nothing(voice):
            brought.insert(0, ask.field)
        if len(brought) > 1:
            raise InvalidRequest(
                f"{brought[0]} and {brought[1]} both choose a speaker; send one of them only.",
                field=brought[1],
                code="conflicting_fields",
            )
        if self._requires_consent and (sound or ask.embedding):
            consent.require(ask.has_consent)
        if sound is not None:
            heard = await run_sync(self.hear, sound, limiter=self.limiter)
            return Speaker(heard.embedding, None, "reference", heard.reference.report.warnings())
        if ask.embedding is not None:
            return Speaker(self.given(ask.embedding), None, "embedding")
        if ask.blend is not None:
            return Speaker(await run_sync(self.blended, ask.blend, owner), None, "blend")
        return await run_sync(self.stored, voice, owner, ask.field)

    # Blocking, for worker threads and the command line --------------------------------------

    def find(self, which: str | None, owner: Owner, field: str = "voice") -> Found:
        """The voice that a text means; raises ``NotFound`` with near names."""
        text = (which or "").strip()
        if name_key(text) in {"", "default"}:
            return self._engine.default_voice
        if (stored := self._library.find(owner, text)) is not None:
            return stored
        if (session := self._sessions.find(owner.id, text)) is not None:
            return session
        for name in self._engine.voices:
            if text in (name, default_id(name)):
                return name
        by_key = {name_key(name): name for name in self._engine.voices}
        if name_key(text) in by_key:
            return by_key[name_key(text)]
        if name_key(text) in {*self._stock, *STOCK_VOICES}:
            return self._stock.get(name_key(text), self._engine.default_voice)
        names = [voice.name for voice in self._library.list(owner)] + [*self._engine.voices]
        raise not_found(text, nearest(text[:64], names), field)

    def embedding_of(self, found: Found, field: str = "voice") -> Tensor | None:
        """The embedding [dim] of a voice; raises ``InvalidRequest`` for one of another encoder."""
        if isinstance(found, SessionVoice):
            return torch.from_numpy(found.embedding)
        if isinstance(found, Voice):
            return torch.from_numpy(self._vector(found, field))
        return None if found is None else self._engine.voices[found]

    def hear(self, sound: Sound) -> Heard:
        """Read and embed a recording; raises ``InvalidReference`` and ``TooLarge``."""
        reference = self.read(sound)
        try:
            embedding = self._engine.embed(reference.samples, reference.sample_rate_hz)
        except InvalidReference as error:  # the engine does not know what the field was called
            sentence = error.message.removeprefix("reference")
            raise InvalidReference(sound.field + sentence, field=sound.field) from error
        return Heard(reference, embedding)

    def read(self, sound: Sound) -> Reference:
        """Read a recording; raises ``InvalidReference`` and ``TooLarge``."""
        if self._sources is None:
            raise NotFound(
                f"{sound.field}: this model came without a speaker encoder; choose a stored voice.",
                field=sound.field,
                code="encoder_missing",
            )
        if sound.data is None:
            return read_text(sound.text, self._sources, field=sound.field)
        rate_hz = self._sources.sample_rate_hz
        return read_bytes(sound.data, sample_rate_hz=rate_hz, field=sound.field)

    def given(self, embedding: Embedding) -> Tensor:
        """An embedding [dim] that a caller brought; raises ``InvalidRequest``."""
        dim = self._engine.family.speaker_dim
        if dim is None:
            raise InvalidRequest(
                f"{embedding.field}: this model takes no speaker embedding; leave it out.",
                field=embedding.field,
                code="unsupported_parameter",
            )
        return torch.from_numpy(vectors.checked(embedding.vector, embedding.field, dim))

    def blended(self, blend: Blend, owner: Owner) -> Tensor:
        """The embedding [dim] between two voices; raises what ``find`` and ``embedding_of`` do."""
        first, second = (
            self.embedding_of(self.find(which, owner, "blend"), "blend")
            for which in (blend.first, blend.second)
        )
        if first is None or second is None:
            raise InvalidRequest(
                "blend: this model has no voices to blend; choose another model.", field="blend"
            )
        return slerp(first, second, blend.t)

    def stored(self, which: str, owner: Owner, field: str = "voice") -> Speaker:
        found = self.find(which, owner, field)
        embedding = self.embedding_of(found, field)
        if isinstance(found, Voice):
            return Speaker(embedding, None, found.name)
        if isinstance(found, SessionVoice):
            return Speaker(embedding, None, found.label)
        return Speaker(embedding, found, found or "")

    def _vector(self, voice: Voice, field: str) -> np.ndarray:
        encoder = self._engine.encoder
        identity = "" if encoder is None else encoder.identity
        vector = self._library.vector(voice, identity)
        if vector is None and encoder is not None and voice.has_clip:
            vector = self._heard_anew(voice, field)
            self._library.add_embedding(voice, VoiceEmbedding(identity, self._engine.name, vector))
        if vector is None:
            made_with = " or ".join(sorted(set(voice.models.values()))) or "another model"
            raise InvalidRequest(
                f"{field}: {voice.name!r} was made with {made_with}, whose speaker encoder is not"
                f" the one of {self._engine.name}; record it again, or open {made_with}.",
                field=field,
                code="voice_of_another_model",
            )
        return vectors.checked(vector, field, self._engine.family.speaker_dim)

    def _heard_anew(self, voice: Voice, field: str) -> np.ndarray:
        heard = [self.hear(Sound(field, data=clip)) for clip in self._library.clips(voice)]
        for recording in heard:  # what is stored for good is kept in one place only
            self._engine.forget(recording.reference.content_hash)
        return average([recording.embedding for recording in heard]).numpy()
