"""One press of Speak, from the request to the finished take, as updates of the page.

- However it ends, its request ends with it. It yields at least every ``HEARTBEAT_S``, because
  Gradio closes the generator of a closed tab at a yield.
- The page's player (assets/ui/player.js) hears the samples themselves, as soon as they are made, at
  an address that it is told once. A browser without one hears longer pieces in Gradio's.
- An error is shown beside its field and in the status line, in its own words; nothing else changes.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import gradio as gr
import numpy as np
from anyio.to_thread import run_sync

from engine import FinishReason, GenerationFailed, SpeechStream, StudioError
from studio.api.headers import repairs, rtf
from studio.api.keeping import Keeping, making_of
from studio.api.listening import Listening
from studio.api.owners import share_of
from studio.api.parse import SpeechAsk
from studio.api.speaking import Spoken
from studio.media.encode import Encoder, available_formats, known_format
from studio.media.pcm import FULL_SCALE
from studio.owner import Owner
from studio.takes import Making, Take, file_name
from studio.ui import strings
from studio.ui.desk import Desk, Update
from studio.ui.identity import connection_of
from studio.ui.markup import note_html, status_html, stream_html, take_html
from studio.ui.sound import (
    HEARTBEAT_S,
    LONG_PIECES,
    NO_PIECES,
    pieces_of,
    wav_bytes,
    waveform_peaks,
)
from studio.ui.view import View

# What a take can be kept as.
FORMATS = ("wav", "mp3", "flac", "opus")

log = logging.getLogger(__name__)


class Press:
    """One press of Speak, kept in the session's own state so that Stop can end it.

    Gradio's ``cancels`` would do so from the browser, but there the end of the cancelled event and
    the answer to Stop overtake each other: now and then the page shows an error, or keeps speaking.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        self.is_over = False
        self._stream: SpeechStream | None = None

    def begin(self, stream: SpeechStream) -> None:
        """Take the stream; a Stop that came before it ends it at once."""
        self._stream = stream
        if self.is_stopped:
            stream.cancel()

    def stop(self) -> None:
        """End the speech, now or as soon as it begins."""
        self.is_stopped = True
        if self._stream is not None:
            self._stream.cancel()


@dataclass(frozen=True, eq=False)
class Wish:
    """What shall be spoken, and what the page calls the voice; None: as the voice is called."""

    ask: SpeechAsk
    voice: str | None = None


class Performance:
    """Speaks wishes on one page."""

    def __init__(self, desk: Desk, view: View) -> None:
        self._desk = desk
        self._view = view

    async def perform(
        self,
        request: gr.Request,
        owner: Owner,
        wish: Callable[[], Awaitable[Wish]],
        *,
        has_player: bool = False,
    ) -> AsyncGenerator[Update, None]:
        """Speak what ``wish`` comes to; what it raises is told like any other error.

        ``has_player``: this browser can play the stream itself.
        """
        press = Press()
        yield self._started(press)
        spoken: Spoken | None = None
        listening: Listening | None = None
        try:
            wished = await wish()
            request_id = uuid.uuid4().hex
            if self._desk.engine.stats.state != "ready":
                yield {self._view.status: status_html("starting", strings.LOADING)}
            spoken = await self._desk.speaking.begin(
                wished.ask, owner, request_id, share_of(connection_of(request), owner)
            )
            press.begin(spoken.stream)
            if has_player:
                listening = Listening(spoken.sample_rate_hz, press.stop)
                self._desk.speaking.requests.find(owner, request_id).listening = listening
                path = f"/v1/audio/requests/{request_id}/audio"
                address = self._desk.tickets.address(owner, path)
                yield {self._view.stream: stream_html(address, spoken.sample_rate_hz)}
            async with aclosing(self._heard(spoken, owner, wished, listening)) as updates:
                async for update in updates:
                    yield update
        except StudioError as error:
            if spoken is None:
                self._desk.speaking.metrics.refused(error)
            yield self._stopped(spoken) if press.is_stopped else self.failed(error)
        except Exception as error:
            log.exception("the page failed on a request")
            yield self.failed(
                GenerationFailed(
                    f"request: the page failed ({type(error).__name__}); press Speak again."
                )
            )
        finally:
            press.is_over = True
            if listening is not None:
                listening.end()
            if spoken is not None:
                spoken.close()

    async def _heard(
        self, spoken: Spoken, owner: Owner, wish: Wish, listening: Listening | None
    ) -> AsyncGenerator[Update, None]:
        rate_hz = spoken.sample_rate_hz
        speaker = spoken.speaker
        if wish.voice is not None:
            speaker = replace(speaker, voice_name=wish.voice)
        body = await self._desk.speaking.as_kept(spoken.ask, owner)
        making = making_of(self._desk.engine, body, speaker, spoken.stream, spoken.tags)
        keeping = Keeping(
            self._desk.stores.history, owner, making, rate_hz, lambda: repairs(spoken.stream)
        )
        pcm: list[np.ndarray] = []
        told_s = 0.0
        lengths = LONG_PIECES if listening is None else NO_PIECES
        chunks = keeping.kept(spoken.chunks())
        async with aclosing(pieces_of(chunks, rate_hz, lengths)) as pieces:
            async for piece in pieces:
                if piece is not None:
                    pcm.append(piece)
                if listening is None:
                    yield self._progress(spoken, piece)
                    continue
                if piece is not None:
                    listening.put(piece)
                if piece is None or time.monotonic() > told_s + HEARTBEAT_S:
                    yield self._progress(spoken, None)
                    told_s = time.monotonic()
        if listening is not None:
            listening.end()
        whole = await run_sync(np.concatenate, pcm)
        yield await self._finished(spoken, owner, making, whole, keeping)

    def failed(self, error: StudioError) -> Update:
        """The error's own sentence, beside the field that it names and in the status line."""
        view = self._view
        update: Update = {view.status: status_html("error", error.message)}
        if error.field in ("voice", "reference", "consent"):
            update[view.voice_note] = note_html("bad", error.message)
        elif error.field == "input":
            update[view.text_note] = note_html("bad", error.message)
        elif error.field is not None:
            update[view.settings_note] = note_html("bad", error.message)
        return update

    def _started(self, press: Press) -> Update:
        view = self._view
        return {
            view.press: press,
            view.speak: gr.update(visible=False),
            view.stop: gr.update(visible=True),
            view.live: gr.update(value=None),
            view.stream: "",
            view.status: status_html("starting", strings.STARTING),
            view.text_note: "",
            view.settings_note: "",
        }

    def _progress(self, spoken: Spoken, piece: np.ndarray | None) -> Update:
        status = spoken.stream.status
        if status.num_ahead is not None and status.wait_s is not None:
            line = status_html("queued", strings.queued(status.num_ahead, status.wait_s))
        else:
            line = status_html("speaking", strings.speaking(spoken.duration_s))
        update: Update = {self._view.status: line}
        if piece is not None:
            update[self._view.live] = wav_bytes(piece, spoken.sample_rate_hz)
        return update

    async def _finished(
        self, spoken: Spoken, owner: Owner, making: Making, pcm: np.ndarray, keeping: Keeping
    ) -> Update:
        view, stream = self._view, spoken.stream
        words = strings.done(
            spoken.duration_s,
            (stream.timings.ttfa_ms or 0.0) / 1e3,
            rtf(stream),
            stream.seed,
            was_cut=stream.finish_reason is FinishReason.LENGTH,
        )
        caption = strings.take(making.voice or strings.NO_VOICE, spoken.duration_s, stream.seed)
        if keeping.take is None:
            sound = await self._file(spoken, pcm)
            downloads = {"wav": (sound, f"zonos2-seed-{stream.seed}.wav")}
            is_off = bool(self._desk.stores.history.note)
            reason = strings.KEEPS_NONE if is_off else strings.not_kept(keeping.note)
            note = note_html("info", reason)
        else:
            sound, downloads = self.address(owner, keeping.take), {}
            for kind in FORMATS:
                if kind in available_formats():
                    address = self.address(owner, keeping.take, kind)
                    downloads[kind] = (address, file_name(keeping.take, known_format(kind).suffix))
            note = note_html("good", strings.KEPT)
        peaks = await run_sync(waveform_peaks, pcm)
        return {
            view.status: status_html("done", words),
            view.take: take_html(sound, downloads, caption, peaks) + note,
            view.take_id: keeping.take and keeping.take.id,
            view.seed: stream.seed,
        }

    def address(self, owner: Owner, take: Take, kind: str | None = None) -> str:
        """Where the sound of a kept take is played, or comes as a file of the ``kind``."""
        path = f"/v1/audio/takes/{take.id}/audio"
        return self._desk.tickets.address(owner, path if kind is None else f"{path}?format={kind}")

    async def _file(self, spoken: Spoken, pcm: np.ndarray) -> str:
        """A WAV file of the session, marked as any other -> its address."""
        path = Path(self._view.live.GRADIO_CACHE) / uuid.uuid4().hex / "take.wav"
        await run_sync(self._write, path, spoken, pcm)
        return f"gradio_api/file={quote(str(path))}"

    def _write(self, path: Path, spoken: Spoken, pcm: np.ndarray) -> None:
        marker, tags = self._desk.speaking.marker, spoken.tags
        encoder = Encoder("wav", spoken.sample_rate_hz, tags=tags, is_live=False)
        body = encoder.feed(pcm.astype(np.float32) / FULL_SCALE) + encoder.finish()
        path.parent.mkdir(parents=True)
        path.write_bytes(marker.signed(body, "wav", tags))

    def _stopped(self, spoken: Spoken | None) -> Update:
        duration_s = 0.0 if spoken is None else spoken.duration_s
        return {self._view.status: status_html("stopped", strings.stopped(duration_s))}

    def ready(self, press: Press | None) -> Update:
        """Speak in the place of Stop, when the event of ``press`` is over.

        No part of that event itself: Gradio drops a press while the one before it still ends.
        """
        view = self._view
        if press is not None and not press.is_over:
            return {}
        return {view.speak: gr.update(visible=True), view.stop: gr.update(visible=False)}
