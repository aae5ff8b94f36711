"""What happens in the Takes tab: list, star, delete, use again, make again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import gradio as gr
from anyio.to_thread import run_sync

from engine import Conflict, NotFound, StudioError
from studio.api.again import ask_again
from studio.api.speakers import default_id
from studio.owner import Owner
from studio.takes import Take
from studio.ui import strings
from studio.ui.desk import PAGE_DOOR, Desk, Update
from studio.ui.lists import Fault, TakeRow, takes_html
from studio.ui.markup import NO_STREAM, note_html
from studio.ui.panel import setting_values, unshown
from studio.ui.performance import Performance, Press, Wish
from studio.ui.takes_tab import PAGE
from studio.ui.view import SPEAK, View
from studio.voices import Voice


class TakesHandlers:
    """The events of one Takes tab."""

    def __init__(self, desk: Desk, view: View, performance: Performance) -> None:
        self._desk = desk
        self._view = view
        self._history = desk.stores.history
        self._performance = performance
        self.ready = performance.ready

    async def opened(self, request: gr.Request, kept: str, num_shown: int) -> Update:
        """The takes as they are now."""
        return await self._listed(self._desk.owner(request, kept), num_shown)

    async def acted(
        self,
        request: gr.Request,
        kept: str,
        num_shown: int,
        last: str | None,
        event: gr.EventData,
    ) -> Update:
        """A button of a row was pressed; what cannot be done is told in the row."""
        owner = self._desk.owner(request, kept)
        act, which, text = (str(event._data.get(name, "")) for name in ("act", "id", "text"))
        try:
            if act == "use":
                return await self._used(owner, which)
            if act == "rename":
                await run_sync(lambda: self._history.change(owner, which, title=text))
            return await self._changed(owner, act, which, num_shown, last)
        except StudioError as error:
            mode = "delete" if act.startswith("delete") else "rename" if act == "rename" else ""
            return await self._listed(owner, num_shown, Fault(which, mode, error.message, text))

    async def again(
        self,
        request: gr.Request,
        kept: str,
        player: str,
        num_shown: int,
        press: Press | None,
        event: gr.EventData,
    ) -> AsyncGenerator[Update, None]:
        """Speak a take again, in the Speak tab; what stands in the way is told in the row."""
        owner, which = self._desk.owner(request, kept), str(event._data.get("id", ""))
        try:
            if press is not None and not press.is_over:
                raise Conflict(strings.STILL_SPEAKING)
            take = await run_sync(self._history.find, owner, which)
            ask = await ask_again(self._desk.speaking, self._history, owner, take, PAGE_DOOR)
        except StudioError as error:
            yield await self._listed(owner, num_shown, Fault(which, "", error.message))
            return

        async def wish() -> Wish:
            return Wish(ask, take.voice)

        yield {self._view.tabs: gr.Tabs(selected=SPEAK)}
        performed = self._performance.perform(request, owner, wish, has_player=bool(player))
        async with aclosing(performed) as updates:
            async for update in updates:
                yield update

    async def _changed(
        self, owner: Owner, act: str, which: str, num_shown: int, last: str | None
    ) -> Update:
        update: Update = {}
        if act == "more":
            num_shown += PAGE
            update[self._view.takes.num_shown] = num_shown
        elif act == "star":
            await run_sync(self._turn_star, owner, which)
        elif act == "delete":
            await run_sync(self._history.delete, owner, which)
        elif act in ("delete-all", "delete-starred"):
            await run_sync(lambda: self._history.delete_all(owner, starred=act == "delete-starred"))
        if last is not None and not await run_sync(self._is_there, owner, last):
            update |= {self._view.take: "", self._view.take_id: None, self._view.stream: NO_STREAM}
        return update | await self._listed(owner, num_shown)

    def _turn_star(self, owner: Owner, which: str) -> None:
        is_starred = self._history.find(owner, which).is_starred
        self._history.change(owner, which, is_starred=not is_starred)

    def _is_there(self, owner: Owner, which: str) -> bool:
        try:
            self._history.find(owner, which)
        except NotFound:
            return False
        return True

    async def _used(self, owner: Owner, which: str) -> Update:
        """Fill the form of the Speak tab with what a take was asked with."""
        view = self._view
        take = await run_sync(self._history.find, owner, which)
        fields = dict(take.settings)
        notes = []
        if left := unshown(fields):
            notes.append(note_html("info", strings.not_on_page(left)))
        update: Update = {
            view.tabs: gr.Tabs(selected=SPEAK),
            view.text: take.text,
            view.language: fields.get("language") or strings.AS_WRITTEN,
            view.seed: take.seed,
            view.keep_seed: True,
            **dict(zip(view.setting_fields, setting_values(view.settings, fields), strict=True)),
            view.settings_note: "".join(notes),
        }
        voice = await self._voice_of(owner, take)
        if voice is None:
            return update | {view.voice_note: note_html("info", strings.voice_gone(take.voice))}
        return update | {view.voice: voice, view.voice_note: ""}

    async def _voice_of(self, owner: Owner, take: Take) -> str | None:
        """What names the voice of a take in the list of voices, if it is still there."""
        name = take.voice_id or take.settings.get("voice")
        if not isinstance(name, str):
            return None
        try:
            found = await run_sync(self._desk.speaking.speakers.find, name, owner)
        except StudioError:
            return None
        if isinstance(found, Voice):
            return found.id
        return default_id(found) if isinstance(found, str) else None

    async def _listed(self, owner: Owner, num_shown: int, fault: Fault | None = None) -> Update:
        takes = await run_sync(self._history.newest, owner, num_shown + 1)
        rows = [self._row(owner, take) for take in takes[:num_shown]]
        export = self._desk.tickets.address(owner, "/v1/audio/takes/export")
        return {self._view.takes.list: takes_html(rows, len(takes) > num_shown, export, fault)}

    def _row(self, owner: Owner, take: Take) -> TakeRow:
        return TakeRow(
            take,
            self._performance.address(owner, take),
            self._performance.address(owner, take, "wav"),
        )
