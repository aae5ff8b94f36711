"""What happens in the Voices tab: list, rename, delete, blend, bring.

Whatever changes the library shows it anew everywhere: in the list, and where voices are chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gradio as gr
from anyio.to_thread import run_sync

from engine import InvalidRequest, StudioError
from studio.api.asks import Blend, Sound
from studio.api.voice_maker import Made
from studio.owner import Owner
from studio.ui import strings
from studio.ui.desk import Desk, Update, choices, default_choice, offered
from studio.ui.lists import Fault, VoiceRow, voices_html
from studio.ui.markup import note_html
from studio.ui.recording import RECORDING, Judged
from studio.ui.view import SPEAK, View
from studio.voice_card import Card
from studio.voices import Voice

# What is chosen to speak, and as the first and the second voice of a blend.
Chosen = tuple[str | None, str | None, str | None]


class VoicesHandlers:
    """The events of one Voices tab."""

    def __init__(self, desk: Desk, view: View) -> None:
        self._desk = desk
        self._view = view
        self._tab = view.voices

    async def opened(
        self,
        request: gr.Request,
        kept: str,
        judged: Judged | None,
        voice: str | None,
        first: str | None,
        second: str | None,
    ) -> Update:
        """The library as it is now; scripts and other tabs change it, too."""
        owner = self._desk.owner(request, kept)
        return await self._changed(owner, judged, (voice, first, second))

    async def acted(
        self,
        request: gr.Request,
        kept: str,
        judged: Judged | None,
        voice: str | None,
        first: str | None,
        second: str | None,
        event: gr.EventData,
    ) -> Update:
        """A button of a row was pressed; what cannot be done is told in the row."""
        owner = self._desk.owner(request, kept)
        act, which, text = (str(event._data.get(name, "")) for name in ("act", "id", "text"))
        try:
            if act == "speak":
                return {self._view.tabs: gr.Tabs(selected=SPEAK), self._view.voice: which}
            if act == "rename":
                await run_sync(lambda: self._desk.stores.voices.change(owner, which, name=text))
            elif act == "tag":
                tags = [tag.strip() for tag in text.split(",") if tag.strip()]
                await run_sync(lambda: self._desk.stores.voices.change(owner, which, tags=tags))
            elif act == "delete":
                await run_sync(self._desk.maker.delete, owner, which)
        except StudioError as error:
            return await self._library(owner, fault=Fault(which, act, error.message, text))
        return await self._changed(owner, judged, (voice, first, second))

    async def blend(
        self,
        request: gr.Request,
        kept: str,
        judged: Judged | None,
        voice: str | None,
        first: str | None,
        second: str | None,
        share: float,
        name: str,
    ) -> Update:
        """Store a voice between two others."""
        tab, owner = self._tab, self._desk.owner(request, kept)
        blend = Blend(first or "", second or "", share / 100)

        def made() -> Made:
            return self._desk.maker.blend(owner, Card(name), blend)

        chosen = (voice, first, second)
        return await self._stored(made, owner, judged, chosen, tab.blend_note, tab.blend_name)

    async def bring(
        self,
        request: gr.Request,
        kept: str,
        judged: Judged | None,
        voice: str | None,
        first: str | None,
        second: str | None,
        path: str | None,
        name: str,
        has_consent: bool,
    ) -> Update:
        """Store the voice in an exported file; the file that was sent is not kept."""
        tab, owner = self._tab, self._desk.owner(request, kept)
        if not has_consent:  # the store would refuse in the words of its routes
            return {tab.bring_note: note_html("bad", strings.CONSENT_NEEDED)}

        def made() -> Made:
            data = _content(path)
            return self._desk.maker.import_file(
                owner, data, has_consent=True, name=name.strip() or None
            )

        chosen = (voice, first, second)
        update = await self._stored(made, owner, judged, chosen, tab.bring_note, tab.file_name)
        if tab.list not in update:
            return update
        await run_sync(lambda: Path(str(path)).unlink(missing_ok=True))
        return update | {tab.file: None, tab.file_consent: False}

    async def average(
        self,
        request: gr.Request,
        kept: str,
        judged: Judged | None,
        voice: str | None,
        first: str | None,
        second: str | None,
        paths: list[str] | None,
        name: str,
        has_consent: bool,
    ) -> Update:
        """Store a voice of several recordings of one person; the files that were sent go."""
        tab, owner = self._tab, self._desk.owner(request, kept)
        if not has_consent:  # the store would refuse in the words of its routes
            return {tab.average_note: note_html("bad", strings.CONSENT_NEEDED)}

        def made() -> Made:
            sounds = [Sound("audio_sample", data=_content(path)) for path in paths or ()]
            return self._desk.maker.record(owner, Card(name), sounds, has_consent=True)

        chosen = (voice, first, second)
        update = await self._stored(made, owner, judged, chosen, tab.average_note, tab.clips_name)
        if tab.list not in update:
            return update
        for path in paths or ():
            await run_sync(_forget, path)
        return update | {tab.clips: None, tab.clips_consent: False}

    async def _stored(
        self,
        make: Callable[[], Made],
        owner: Owner,
        judged: Judged | None,
        chosen: Chosen,
        note: gr.HTML,
        name: gr.Textbox,
    ) -> Update:
        try:
            made = await self._desk.listening(make)
        except StudioError as error:
            return {note: note_html("bad", error.message)}
        told = {note: note_html("good", strings.stored(made.voice.name)), name: ""}
        return told | await self._changed(owner, judged, chosen)

    async def _changed(self, owner: Owner, judged: Judged | None, chosen: Chosen) -> Update:
        """The library, and the voices to choose from; a deleted one gives way to the default."""
        view, tab, engine = self._view, self._tab, self._desk.engine
        stored = await self._desk.voices(owner)
        named = choices(engine, [each for each in stored if self._desk.fits(each)])
        spoken = list(named)
        if judged is not None and judged.embedding is not None:
            spoken.append((strings.YOUR_RECORDING, RECORDING))
        update = self._listed(owner, stored)
        fields = ((view.voice, spoken), (tab.first, named), (tab.second, named))
        for (field, offers), value in zip(fields, chosen, strict=True):
            is_there = value in [offer for _, offer in offers]
            update[field] = offered(offers, value if is_there else default_choice(engine))
        return update

    async def _library(self, owner: Owner, fault: Fault | None = None) -> Update:
        return self._listed(owner, await self._desk.voices(owner), fault)

    def _listed(self, owner: Owner, stored: list[Voice], fault: Fault | None = None) -> Update:
        rows = [self._row(owner, voice) for voice in stored]
        return {self._tab.list: voices_html(rows, fault)}

    def _row(self, owner: Owner, voice: Voice) -> VoiceRow:
        path, address = f"/v1/audio/voices/{voice.id}", self._desk.tickets.address
        return VoiceRow(
            voice,
            is_own=voice.owner == owner.id,
            fits=self._desk.fits(voice),
            sound=address(owner, f"{path}/preview"),
            export=address(owner, f"{path}/export"),
        )


def _forget(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _content(path: str | None) -> bytes:
    """The bytes of an uploaded file."""
    if path is None:
        raise InvalidRequest("file: it is missing; choose an exported voice.", field="file")
    try:
        return Path(path).read_bytes()
    except OSError:
        raise InvalidRequest(
            "file: it is not here any more; choose it again.", field="file"
        ) from None
