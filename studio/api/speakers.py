"""Whose voice a request asks for: a stored one, the default one, or that of a recording."""

from __future__ import annotations

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from torch import Tensor

from engine import Engine, InvalidReference, InvalidRequest, NotFound
from studio.api.parse import Sound, SpeechAsk
from studio.media.fetch import FetchPolicy
from studio.media.sources import Sources, read_text
from studio.settings import Settings

# OpenAI's names: its clients must send one, so they choose nothing.
STOCK_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
# Decoding and embedding use a core each; more at once would starve the engine.
MAX_READING = 2


class Speakers:
    """Turns the speaker fields of a request into an embedding."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._stock = dict(settings.stock_voice)
        self._limiter = CapacityLimiter(MAX_READING)
        self._sources = None
        if engine.encoder is not None:
            self._sources = Sources(
                engine.encoder.sample_rate_hz,
                FetchPolicy(settings.allows_urls, frozenset(settings.allow_media_host)),
                settings.media_root,
            )
        for name in self._stock.values():
            engine.voice(name)

    async def resolve(self, ask: SpeechAsk) -> tuple[Tensor | None, str | None, str]:
        """The embedding of the voice that ``ask`` names or brings, the stored voice's name or None,
        and warnings about a recording.

        Raises ``NotFound`` for an unknown voice, ``InvalidReference`` for an unusable recording,
        ``InvalidRequest`` when both were sent.
        """
        voice = (ask.body.voice or "").strip()
        if ask.sound is None:
            name = self._stored_name(voice)
            return self._engine.voice(name), name or self._engine.default_voice, ""
        if voice.lower() not in {"", "default", *STOCK_VOICES}:
            raise InvalidRequest(
                f"voice and {ask.sound.field} both choose a speaker; send one of them only.",
                field=ask.sound.field,
                code="conflicting_fields",
            )
        embedding, warnings = await run_sync(self._embed, ask.sound, limiter=self._limiter)
        return embedding, None, warnings

    def _stored_name(self, voice: str) -> str | None:
        """The stored voice that is meant; None: the default one."""
        if voice in self._engine.voices:
            return voice
        usual = None if voice.lower() in {"", "default", *STOCK_VOICES} else voice
        return self._stock.get(voice.lower(), usual)

    def _embed(self, sound: Sound) -> tuple[Tensor, str]:
        if self._sources is None:
            raise NotFound(
                f"{sound.field}: this model came without a speaker encoder; choose a stored voice.",
                field=sound.field,
                code="encoder_missing",
            )
        reference = read_text(sound.text, self._sources, field=sound.field)
        try:
            embedding = self._engine.embed(reference.samples, reference.sample_rate_hz)
        except InvalidReference as error:  # the engine does not know what the field was called
            sentence = error.message.removeprefix("reference")
            raise InvalidReference(sound.field + sentence, field=sound.field) from error
        return embedding, reference.report.warnings()
