"""The recording of a session: judged as soon as it is there, and saved as a voice when asked.

- A usable one becomes the voice that speaks. Its file goes when it is removed or saved, or with the
  session: nothing of it is kept but what was saved.
- Saving takes the exact statement of ``studio/consent.py``, agreed to for this one voice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from anyio.to_thread import run_sync
from torch import Tensor

from engine import Forbidden, InvalidReference, NotFound, StudioError
from studio.api.asks import Embedding, Sound, SpeakerAsk
from studio.api.voice_maker import Made
from studio.media import intake
from studio.owner import Owner
from studio.ui import strings
from studio.ui.desk import Desk, Update, default_choice, offered
from studio.ui.markup import note_html, status_html
from studio.ui.view import View
from studio.voice_card import Card

# The entry of the voice list that stands for the session's own recording.
RECORDING = "@recording"


@dataclass(frozen=True, eq=False)
class Judged:
    """A recording that was judged. ``embedding`` is None when it cannot be used.

    ``earlier`` are files that it was made of, such as the one before it was trimmed; ``saved_as``
    is the id of the voice that it has become.
    """

    path: str
    embedding: Tensor | None
    earlier: tuple[str, ...] = ()
    saved_as: str | None = None

    def forget(self) -> None:
        """Delete the files; blocking."""
        for path in filter(None, (self.path, *self.earlier)):
            Path(path).unlink(missing_ok=True)


class Recording:
    """The events of the recorder and of the form below it."""

    def __init__(self, desk: Desk, view: View) -> None:
        self._desk = desk
        self._view = view

    async def judge(
        self,
        request: gr.Request,
        kept: str,
        before: Judged | None,
        path: str | None,
        voice: str | None,
    ) -> AsyncIterator[Update]:
        """Judge a new recording; a usable one becomes the voice that speaks."""
        view, owner = self._view, self._desk.owner(request, kept)
        if path is None:
            if before is not None:
                await run_sync(before.forget)
                voice = before.saved_as or voice
            yield await self._without(owner, None, voice) | {view.voice_note: ""}
            return
        earlier = () if before is None else (*before.earlier, before.path)
        yield {view.voice_note: note_html("info", strings.JUDGING), view.save.note: ""}
        try:
            embedding, note = await self.judged(path)
        except StudioError as error:
            unusable = Judged(path, None, earlier)
            yield await self._without(owner, unusable, voice) | self._refused(error)
            return
        choices = [*await self._desk.choices(owner), (strings.YOUR_RECORDING, RECORDING)]
        yield {
            view.judged: Judged(path, embedding, earlier),
            view.voice: offered(choices, RECORDING),
            view.voice_note: note,
            view.save.open: gr.update(visible=True),
            view.save.form: gr.update(visible=False),
        }

    async def speaker(
        self, voice: str | None, path: str | None, judged: Judged | None, has_consent: bool
    ) -> tuple[SpeakerAsk, str | None]:
        """The speaker that is chosen, and what a recording is called; one that nobody has judged
        yet was chosen last.
        """
        if path is not None and (judged is None or judged.path != path):
            judged, voice = Judged(path, (await self.judged(path))[0]), RECORDING
        if voice != RECORDING:
            return SpeakerAsk(voice=voice), None
        if judged is None or judged.embedding is None:
            raise _gone()
        if self._desk.settings.require_consent and not has_consent:
            raise Forbidden(strings.TICK_FIRST, field="consent", code="consent_required")
        embedding = Embedding("reference", judged.embedding.numpy())
        return SpeakerAsk(embedding=embedding, has_consent=has_consent), strings.YOUR_RECORDING

    async def judged(self, path: str) -> tuple[Tensor, str]:
        """Speaker embedding and report of a recording; raises ``StudioError``."""
        return await self._desk.listening(lambda: self._judged(path))

    def _judged(self, path: str) -> tuple[Tensor, str]:
        engine = self._desk.engine
        if engine.encoder is None:
            raise NotFound(
                "reference: this model came without a speaker encoder; choose a stored voice.",
                field="reference",
                code="encoder_missing",
            )
        try:
            reference = intake.read_file(Path(path), sample_rate_hz=engine.encoder.sample_rate_hz)
        except OSError:
            raise _gone() from None
        embedding = engine.embed(reference.samples, reference.sample_rate_hz)
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

    async def _without(self, owner: Owner, judged: Judged | None, voice: str | None) -> Update:
        view = self._view
        stored = default_choice(self._desk.engine) if voice == RECORDING else voice
        return {
            view.judged: judged,
            view.voice: offered(await self._desk.choices(owner), stored),
            view.save.open: gr.update(visible=False),
            view.save.form: gr.update(visible=False),
        }

    def _refused(self, error: StudioError) -> Update:
        view = self._view
        return {
            view.status: status_html("error", error.message),
            view.voice_note: note_html("bad", error.message),
        }

    # Saving ----------------------------------------------------------------------------------

    def open_form(self) -> Update:
        """Show the form; what was agreed to before is asked again."""
        save = self._view.save
        return {
            save.open: gr.update(visible=False),
            save.form: gr.update(visible=True),
            save.consent: False,
            save.note: "",
        }

    def close_form(self) -> Update:
        """Leave the form without saving; its fields stay."""
        save = self._view.save
        return {save.open: gr.update(visible=True), save.form: gr.update(visible=False)}

    async def save(
        self,
        request: gr.Request,
        kept: str,
        judged: Judged | None,
        name: str,
        language: str,
        keeps_clip: bool,
        has_consent: bool,
    ) -> AsyncIterator[Update]:
        """Store the recording as a voice of the library; then it is the voice that speaks."""
        view, save, owner = self._view, self._view.save, self._desk.owner(request, kept)
        if not has_consent:  # the store would refuse in the words of its routes
            yield {save.note: note_html("bad", strings.CONSENT_NEEDED)}
            return
        yield {save.note: note_html("info", strings.SAVING)}
        try:
            card = Card(name, None if language == strings.AS_WRITTEN else language)
            made = await self._desk.listening(
                lambda: self._saved(owner, card, judged, keeps_clip, has_consent)
            )
            choices = await self._desk.choices(owner)
        except StudioError as error:
            yield {save.note: note_html("bad", error.message)}
            return
        # The empty field is judged next, and may still bring the recording as the chosen voice.
        choices.append((strings.YOUR_RECORDING, RECORDING))
        yield {
            view.voice: offered(choices, made.voice.id),
            view.recording: None,
            view.judged: Judged("", None, saved_as=made.voice.id),
            save.form: gr.update(visible=False),
            save.name: "",
            save.note: note_html("good", strings.saved(made.voice.name)),
        }

    def _saved(
        self,
        owner: Owner,
        card: Card,
        judged: Judged | None,
        keeps_clip: bool,
        has_consent: bool,
    ) -> Made:
        if judged is None or judged.embedding is None:
            raise _gone()
        try:
            sound = Sound("reference", data=Path(judged.path).read_bytes())
        except OSError:
            raise _gone() from None
        made = self._desk.maker.record(
            owner, card, [sound], has_consent=has_consent, keep_clip=keeps_clip
        )
        judged.forget()
        return made


def _gone() -> InvalidReference:
    return InvalidReference(
        "reference: the recording is not here any more; record again or choose a stored voice.",
        field="reference",
    )
