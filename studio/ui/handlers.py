"""What happens when someone touches the page: plain async functions over the engine.

- Nothing of a user is kept here: what a session needs stands in its own components.
- ``speak`` is one async generator per press; however it ends, its request ends with it. It yields
  at least every ``HEARTBEAT_S``, because Gradio closes the generator of a closed tab at a yield.
- An error is shown beside its field and in the status line, in its own words; nothing else changes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from torch import Tensor

from engine import (
    Engine,
    FinishReason,
    GenerationFailed,
    InvalidReference,
    InvalidRequest,
    NotFound,
    SpeechRequest,
    SpeechStream,
    StudioError,
    draw_seed,
)
from studio.api.headers import rtf
from studio.media import intake
from studio.settings import Settings
from studio.ui import strings
from studio.ui.markup import header_html, note_html, status_html, take_html
from studio.ui.panel import read
from studio.ui.sound import pieces_of, wav_bytes, waveform_peaks, write_wav
from studio.ui.view import View

log = logging.getLogger(__name__)

# The entry of the voice list that stands for the session's own recording.
RECORDING = "@recording"
# Decoding and embedding use a core each; more at once would starve the engine.
MAX_JUDGING = 2

Update = dict[Any, Any]  # component: its new value


@dataclass(frozen=True, eq=False)
class Judged:
    """A recording that was judged. ``embedding`` is None when it cannot be used."""

    path: str
    embedding: Tensor | None


class Press:
    """One press of Speak, kept in the session's own state so that Stop can end it.

    Gradio's ``cancels`` would do so from the browser, but there the end of the cancelled event and
    the answer to Stop overtake each other: now and then the page shows an error, or keeps speaking.
    """

    def __init__(self) -> None:
        self.is_stopped = False
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


class Handlers:
    """The events of one page over one engine."""

    def __init__(self, engine: Engine, settings: Settings, view: View) -> None:
        self._engine = engine
        self._settings = settings
        self._view = view
        self._judging = CapacityLimiter(MAX_JUDGING)

    # Voice -----------------------------------------------------------------------------------

    async def judge_recording(self, path: str | None, voice: str | None) -> AsyncIterator[Update]:
        """Judge a new recording; a usable one becomes the voice that speaks."""
        view = self._view
        if path is None:
            yield self._without_recording(None, voice) | {view.voice_note: ""}
            return
        yield {view.voice_note: note_html("info", strings.JUDGING)}
        try:
            embedding, note = await self._judge(path)
        except StudioError as error:
            yield self._without_recording(Judged(path, None), voice) | self._failed(error)
            return
        choices = [*self._engine.voices, (strings.YOUR_RECORDING, RECORDING)]
        yield {
            view.judged: Judged(path, embedding),
            view.voice: gr.update(choices=choices, value=RECORDING),
            view.voice_note: note,
        }

    def _without_recording(self, judged: Judged | None, voice: str | None) -> Update:
        stored = self._engine.default_voice if voice == RECORDING else voice
        voices = gr.update(choices=list(self._engine.voices), value=stored)
        return {self._view.judged: judged, self._view.voice: voices}

    async def _judge(self, path: str) -> tuple[Tensor, str]:
        """Speaker embedding and report of a recording; raises ``StudioError``."""
        return await run_sync(self._judge_blocking, path, limiter=self._judging)

    def _judge_blocking(self, path: str) -> tuple[Tensor, str]:
        encoder = self._engine.encoder
        if encoder is None:
            raise NotFound(
                "reference: this model came without a speaker encoder; choose a stored voice.",
                field="reference",
                code="encoder_missing",
            )
        try:
            reference = intake.read_file(Path(path), sample_rate_hz=encoder.sample_rate_hz)
        except OSError:
            raise _recording_gone() from None
        embedding = self._engine.embed(reference.samples, reference.sample_rate_hz)
        report = reference.report
        has_warnings = any(note.severity == "warning" for note in report.notes)
        note = note_html(
            "info" if has_warnings else "good",
            strings.recording_used(report.seconds_used, report.level_dbfs),
        )
        for finding in report.notes:
            kind = "warn" if finding.severity == "warning" else "info"
            note += note_html(kind, finding.sentence)
        return embedding, note

    async def _speaker(
        self, voice: str | None, recording: str | None, judged: Judged | None
    ) -> tuple[str, Tensor | None]:
        """Name and embedding of the chosen voice; a recording not yet judged was chosen last."""
        if recording is not None and (judged is None or judged.path != recording):
            return strings.YOUR_RECORDING, (await self._judge(recording))[0]
        if voice != RECORDING:
            return voice or strings.NO_VOICE, self._engine.voice(voice)
        if judged is None or judged.embedding is None:
            raise _recording_gone()
        return strings.YOUR_RECORDING, judged.embedding

    # Speaking --------------------------------------------------------------------------------

    async def speak(
        self,
        request: gr.Request,
        text: str,
        language: str,
        voice: str | None,
        recording: str | None,
        judged: Judged | None,
        seed: int | None,
        keeps_seed: bool,
        *settings: float,
    ) -> AsyncIterator[Update]:
        """Speak, from the press of the button to the finished take."""
        press = Press()
        yield self._started(press)
        stream: SpeechStream | None = None
        try:
            self._check_length(text)
            choice = read(self._view.settings, settings)
            name, speaker = await self._speaker(voice, recording, judged)
            stream = self._engine.submit(
                SpeechRequest(
                    text=text,
                    speaker=speaker,
                    voice_id=None if voice == RECORDING else voice,
                    sampling=choice.sampling,
                    delivery=choice.delivery,
                    emotion=choice.emotion,
                    guidance=choice.guidance,
                    seed=seed if keeps_seed and seed is not None else draw_seed(),
                    language=None if language == strings.AS_WRITTEN else language,
                    owner=f"page:{request.session_hash}",
                )
            )
            press.begin(stream)
            pieces: list[np.ndarray] = []
            async for piece in pieces_of(stream):
                if piece is not None:
                    pieces.append(piece)
                yield self._progress(stream, piece)
            yield await self._finished(stream, pieces, name)
        except StudioError as error:
            yield self._stopped(stream) if press.is_stopped else self._failed(error)
        except Exception as error:
            log.exception("the page failed on a request")
            yield self._failed(
                GenerationFailed(
                    f"request: the page failed ({type(error).__name__}); press Speak again."
                )
            )
        finally:
            if stream is not None:
                stream.cancel()
        yield self._idle()

    @staticmethod
    def stop(press: Press | None) -> None:
        """End the speech; its own ``speak`` then puts the page right."""
        if press is not None:
            press.stop()

    def _check_length(self, text: str) -> None:
        num_chars, limit = len(text.strip()), self._settings.max_input_chars
        if num_chars > limit:
            raise InvalidRequest(
                f"input: the text has {num_chars} characters and the limit is {limit}; speak it in"
                " parts.",
                field="input",
                code="string_above_max_length",
            )

    def _started(self, press: Press) -> Update:
        view = self._view
        return {
            view.press: press,
            view.speak: gr.update(visible=False),
            view.stop: gr.update(visible=True),
            view.live: gr.update(value=None),
            view.status: status_html("starting", strings.STARTING),
            view.text_note: "",
            view.settings_note: "",
        }

    def _progress(self, stream: SpeechStream, piece: np.ndarray | None) -> Update:
        status = stream.status
        if status.num_ahead is not None and status.wait_s is not None:
            line = status_html("queued", strings.queued(status.num_ahead, status.wait_s))
        else:
            line = status_html("speaking", strings.speaking(stream.spoken_s))
        update: Update = {self._view.status: line}
        if piece is not None:
            update[self._view.live] = wav_bytes(piece, stream.sample_rate_hz)
        return update

    async def _finished(self, stream: SpeechStream, pieces: list[np.ndarray], voice: str) -> Update:
        view = self._view
        pcm = np.concatenate(pieces)
        folder = Path(view.download.GRADIO_CACHE) / uuid.uuid4().hex
        path = folder / f"zonos2-seed-{stream.seed}.wav"
        await asyncio.to_thread(write_wav, path, pcm, stream.sample_rate_hz)
        words = strings.done(
            stream.spoken_s,
            (stream.timings.ttfa_ms or 0.0) / 1e3,
            rtf(stream),
            stream.seed,
            was_cut=stream.finish_reason is FinishReason.LENGTH,
        )
        caption = strings.take(voice, stream.spoken_s, stream.seed)
        return {
            view.status: status_html("done", words),
            view.take: take_html(path, caption, waveform_peaks(pcm)),
            view.download: gr.update(value=str(path), visible=True),
            view.seed: stream.seed,
        }

    def _stopped(self, stream: SpeechStream | None) -> Update:
        spoken_s = 0.0 if stream is None else stream.spoken_s
        return {self._view.status: status_html("stopped", strings.stopped(spoken_s))}

    def _idle(self) -> Update:
        view = self._view
        return {view.speak: gr.update(visible=True), view.stop: gr.update(visible=False)}

    # The rest --------------------------------------------------------------------------------

    def _failed(self, error: StudioError) -> Update:
        """The error's own sentence, beside the field that it names and in the status line."""
        view = self._view
        update: Update = {view.status: status_html("error", error.message)}
        if error.field in ("voice", "reference"):
            update[view.voice_note] = note_html("bad", error.message)
        elif error.field == "input":
            update[view.text_note] = note_html("bad", error.message)
        elif error.field is not None:
            update[view.settings_note] = note_html("bad", error.message)
        return update

    def arrived(self) -> Update:
        """The state line now, and an empty seed: Gradio begins a number field with 0."""
        return {self._view.header: header_html(self._engine), self._view.seed: None}

    def new_seed(self) -> Update:
        """Draw a seed and keep it."""
        return {self._view.seed: draw_seed(), self._view.keep_seed: True}

    def reset(self) -> Update:
        """Every setting back to the checkpoint's default."""
        return {setting.field: setting.default for setting in self._view.settings}


def _recording_gone() -> InvalidReference:
    return InvalidReference(
        "reference: the recording is not here any more; record again or choose a stored voice.",
        field="reference",
    )
