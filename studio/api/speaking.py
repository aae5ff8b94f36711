"""From a checked ask to sound: the one way for every door.

    spoken = await speaking.begin(ask, owner, request_id)
    async with spoken:
        async for piece in spoken.live():
            ...

- However it ends (heard to the end, failed, left, cancelled), the engine's slot is free, the
  request's end is remembered and counted.
- Nothing here blocks the event loop: voices are looked up, requests planned and sound encoded in
  worker threads.
- Logs hold ids and sizes, never text.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

import numpy as np
from anyio.to_thread import run_sync
from starlette.requests import HTTPConnection

from engine import (
    Engine,
    InvalidRequest,
    Prepared,
    Reservation,
    SpeechRequest,
    SpeechStream,
    StudioError,
    draw_seed,
)
from studio.api.doors import SGLANG, Door
from studio.api.headers import measured_headers, notes, repairs, rtf, sound_headers, usage
from studio.api.keeping import Keeping, making_of
from studio.api.metrics import Metrics, Playback
from studio.api.models import model_ids, unknown_model
from studio.api.owners import owner_of, share_of
from studio.api.parse import SpeechAsk, parse_speech
from studio.api.requests import Requests, Tracked
from studio.api.schemas import SpeechBody, WordItem, word_fields
from studio.api.speakers import Speaker, Speakers
from studio.api.texts import Texts
from studio.history import History
from studio.media.encode import Encoder, encoded
from studio.media.fade import faded
from studio.media.stretch import stretched
from studio.owner import Owner
from studio.provenance import Marker
from studio.quota import Place, Quota
from studio.settings import Settings

log = logging.getLogger(__name__)


class Speaking:
    """Begins speech over one engine, for whoever is allowed to ask."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        speakers: Speakers,
        history: History,
        marker: Marker,
        texts: Texts,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.speakers = speakers
        self.history = history
        self.marker = marker
        self.texts = texts
        self.requests = Requests()
        self.metrics = Metrics(engine)
        self.quota = Quota(settings.max_requests, settings.max_audio_s_per_hour)

    def check_room(self, connection: HTTPConnection) -> None:
        """Raise ``QueueFull`` where ``begin`` would, before anything of the request was read."""
        share = share_of(connection, owner_of(connection))
        self.quota.check(share)
        self.engine.check_room(share)

    def check(self, payload: Mapping[str, object], door: Door) -> SpeechAsk:
        """The fields of a request, checked; raises ``InvalidRequest`` and ``NotFound``."""
        ask = parse_speech(
            payload,
            self.settings.max_input_chars,
            door,
            self.engine.family.controls,
        )
        model = ask.body.model
        if model is not None and model not in model_ids(self.engine):
            if self.settings.strict_model:
                raise unknown_model(self.engine, model)
            ask = replace(ask, ignored=(*ask.ignored, "model"))
        if ask.body.timestamps and not ask.is_sse:
            ask = replace(ask, ignored=(*ask.ignored, "timestamps"))
        if ask.body.store and self.history.note:
            ask = replace(ask, ignored=(*ask.ignored, "store"))
        if ask.body.strict:
            _check_strictly(ask)
        return ask

    @contextmanager
    def room(self, connection: HTTPConnection) -> Iterator[None]:
        """Keep a place for a request whose body is here, until ``begin`` takes it or it fails."""
        reservation = self.engine.reserve(share_of(connection, owner_of(connection)))
        connection.state.reservation = reservation
        try:
            yield
        finally:
            reservation.give_up()

    async def begin(
        self,
        ask: SpeechAsk,
        owner: Owner,
        request_id: str,
        share: str | None = None,
        reservation: Reservation | None = None,
    ) -> Spoken:
        """Look up the voice, and give the request to the engine; ``share`` is whose place it takes.

        Raises what is wrong with the request, before any sound is made.
        """
        place = self.quota.take(share or owner.id)
        try:
            return await self._begun(ask, owner, request_id, share, place, reservation)
        except BaseException:
            place.give_back()
            raise

    async def _begun(
        self,
        ask: SpeechAsk,
        owner: Owner,
        request_id: str,
        share: str | None,
        place: Place,
        reservation: Reservation | None,
    ) -> Spoken:
        seed = draw_seed() if ask.body.seed is None else ask.body.seed
        tags = self.marker.tags(model=self.engine.name, request_id=request_id, seed=seed)
        encoder = Encoder(
            ask.format,
            self.engine.codec.sample_rate_hz,
            ask.sample_rate_hz,
            ask.body.bitrate,
            tags,
            is_live=ask.is_live,
        )
        tracked = self.requests.begin(owner, request_id)
        try:
            speaker = await self.speakers.resolve(ask.speaker, owner)
            text = ask.body.input
            prepared = await self.texts.ready(text, ask.text_wish, owner)
            body = await self.as_kept(ask, owner) if ask.body.store else ask.body
            wish = SpeechRequest(
                text=text if prepared.pieces else "",  # nothing is left, and the engine says so
                speaker=speaker.embedding,
                voice_id=speaker.voice_id,
                sampling=ask.sampling,
                delivery=ask.delivery,
                emotion=ask.emotion,
                guidance=ask.guidance,
                seed=seed,
                max_new_frames=ask.body.max_new_tokens,
                language=next(iter(prepared.languages), None),
                pieces=prepared.pieces,
                owner=share or owner.id,
                request_id=request_id,
            )
            stream = await run_sync(self.engine.submit, wish, reservation)
        except BaseException as error:
            self.requests.end(tracked, error if isinstance(error, StudioError) else None)
            raise
        tracked.attach(stream)
        keeping = None
        if body.store:
            making = making_of(self.engine, body, speaker, stream, tags)
            rate_hz = stream.sample_rate_hz
            keeping = Keeping(self.history, owner, making, rate_hz, lambda: repairs(stream))
        return Spoken(self, ask, speaker, prepared, stream, tracked, encoder, tags, keeping, place)

    async def as_kept(self, ask: SpeechAsk, owner: Owner) -> SpeechBody:
        """The body with the owner's words: a take says them as it did, whatever they become."""
        words = await run_sync(self.texts.words_in, ask.body.input, ask.text_wish, owner)
        items = [WordItem(**word_fields(word)) for word in words]
        return ask.body.model_copy(update={"pronunciations": items or None})


class Spoken:
    """Speech that is being made. It is heard once: as ``chunks``, ``live`` bytes or ``body``."""

    def __init__(
        self,
        speaking: Speaking,
        ask: SpeechAsk,
        speaker: Speaker,
        prepared: Prepared,
        stream: SpeechStream,
        tracked: Tracked,
        encoder: Encoder,
        tags: Mapping[str, str],
        keeping: Keeping | None,
        place: Place,
    ) -> None:
        self.ask = ask
        self.stream = stream
        self.speaker = speaker
        self.prepared = prepared
        self.encoder = encoder
        self.sample_rate_hz = stream.sample_rate_hz
        self.num_samples = 0  # of chunks that were given out
        self._speaking = speaking
        self._tracked = tracked
        self.tags = tags
        self._keeping = keeping
        self._place = place
        self._error: StudioError | None = None
        self._playback: Playback | None = None
        self._has_ended = False

    async def __aenter__(self) -> Spoken:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def duration_s(self) -> float:
        """Seconds of sound given out so far."""
        return self.num_samples / self.sample_rate_hz

    @property
    def usage(self) -> dict[str, int]:
        """Rows read and frames made, as OpenAI counts tokens."""
        return usage(self.stream.timings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the recording and the text, and why a take was not kept."""
        kept = "" if self._keeping is None else self._keeping.note
        return tuple(filter(None, (self.speaker.warnings, *self.prepared.notes, kept)))

    @property
    def repairs(self) -> list[dict[str, object]]:
        """What had to be made again, as JSON; whole at the end."""
        return repairs(self.stream)

    async def plain(self) -> AsyncIterator[np.ndarray]:
        """Float32 samples as the engine makes them, for whoever works on them before they go out.

        Raises the ``StudioError`` that ended the request.
        """
        try:
            async for chunk in self.stream:
                yield chunk
        except StudioError as error:
            self._error = error
            raise

    async def chunks(self) -> AsyncIterator[np.ndarray]:
        """Float32 samples at ``sample_rate_hz``: stretched, faded and marked.

        Raises the ``StudioError`` that ended the request.
        """
        rate_hz = self.sample_rate_hz
        chunks = stretched(self.plain(), self.ask.pace.stretch, rate_hz)
        chunks = faded(chunks, self.ask.body.fade_out_ms, rate_hz)
        chunks = self._speaking.marker.marked(chunks, rate_hz)
        if self._keeping is not None:
            chunks = self._keeping.kept(chunks)
        if self.ask.is_live:
            self._playback = self._speaking.metrics.playback(rate_hz)
            chunks = self._playback.of(chunks)
        try:
            async for chunk in chunks:
                self.num_samples += len(chunk)
                yield chunk
        except StudioError as error:
            self._error = error
            raise

    async def live(self) -> AsyncIterator[bytes]:
        """The encoded body, piece by piece while it is made; the first holds sound."""
        async for piece in encoded(self.chunks(), self.encoder):
            yield piece

    async def body(self) -> bytes:
        """The whole encoded body, signed where the studio can."""
        pieces = [piece async for piece in self.live()]
        body = await run_sync(b"".join, pieces)  # an hour of speech is 300 MB
        marker, name = self._speaking.marker, self.ask.format
        if not self.ask.is_live and marker.signs(name, is_live=False):
            body = await run_sync(marker.signed, body, name, self.tags)
        return body

    def headers(self) -> dict[str, str]:
        """What is known as soon as the first piece exists."""
        said = sound_headers(self.stream, self.encoder)
        said |= self._speaking.marker.headers(self.ask.format, is_live=self.ask.is_live)
        said["X-Model"] = self._speaking.engine.name
        if self._keeping is not None:
            said |= self._keeping.headers()
        said |= notes(self.speaker.voice_name, self.ask.ignored, " ".join(self.warnings))
        if self.ask.pace.way is not None:
            said["X-Speed"] = self.ask.pace.way
        if self.ask.pace.bucket is not None:
            said["X-Speaking-Rate-Bucket"] = str(self.ask.pace.bucket)
        return said

    def measured(self) -> dict[str, str]:
        """What is known at the end."""
        return measured_headers(self.stream, self.duration_s)

    def close(self) -> None:
        """Free the slot and remember how it ended; harmless after the first time."""
        if self._has_ended:
            return
        self._has_ended = True
        self.stream.cancel()
        self._place.give_back(self.stream.spoken_s)
        self._speaking.requests.end(self._tracked, self._error)
        self._speaking.metrics.ended(self.stream, self._playback)
        log.info(
            "request %s: %.2f s of sound, rtf %.2f, first chunk after %.0f ms, %s",
            self.stream.request_id,
            self.duration_s,
            rtf(self.stream),
            self.stream.timings.ttfa_ms or 0,
            self.stream.finish_reason or "left",
        )


def _check_strictly(ask: SpeechAsk) -> None:
    if ask.ignored:
        raise InvalidRequest(
            f"strict: {', '.join(ask.ignored)[:200]} would be ignored; leave it out, or strict.",
            field=ask.ignored[0][:200],
            code="unknown_field",
        )
    # SGLang-Omni streams samples only; what it would refuse is refused here on demand.
    is_bytes = ask.body.stream and ask.body.stream_format is None
    if ask.door == SGLANG and is_bytes and not ask.format.startswith("pcm"):
        raise InvalidRequest(
            f"response_format: with strict, a stream is pcm and not {ask.format}; ask for pcm, or"
            " leave strict out.",
            field="response_format",
            code="unsupported_format",
        )
