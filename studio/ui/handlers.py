"""What happens when someone touches the Speak tab: plain async functions over the engine.

Nothing of a user is kept here: what a session needs stands in its own components.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import gradio as gr

from engine import draw_seed
from studio.ui import strings
from studio.ui.desk import PAGE_DOOR, Desk, Update, offered
from studio.ui.identity import text_to_keep
from studio.ui.markup import header_html
from studio.ui.panel import speech_fields
from studio.ui.performance import Performance, Press, Wish
from studio.ui.recording import Judged, Recording
from studio.ui.remembered import restored, restored_choices
from studio.ui.view import View


class Handlers:
    """The events of one Speak tab."""

    def __init__(self, desk: Desk, view: View) -> None:
        self._desk = desk
        self._view = view
        self.recording = Recording(desk, view)
        self.performance = Performance(desk, view)

    async def arrived(self, request: gr.Request, kept: str, memory: str) -> Update:
        """The state line now, the visitor's voices and settings, and what the browser has to keep.

        The seed is emptied: Gradio begins a number field with 0.
        """
        view = self._view
        kept = text_to_keep(self._desk.stores.identity, request, kept)
        choices = await self._desk.choices(self._desk.owner(request, kept))
        voice, language = restored_choices(view, memory, choices)
        update: Update = {
            view.header: header_html(self._desk.engine),
            view.seed: None,
            view.kept: kept,
            view.voice: offered(choices) if voice is None else offered(choices, voice),
        }
        if language is not None:
            update[view.language] = language
        return update | restored(view, memory)

    def preset(self, event: gr.EventData) -> Update:
        """The settings of a preset, which only the browser has."""
        return restored(self._view, str(event._data.get("text", "")))

    async def speak(
        self,
        request: gr.Request,
        kept: str,
        player: str,
        text: str,
        language: str,
        voice: str | None,
        path: str | None,
        judged: Judged | None,
        has_consent: bool,
        seed: int | None,
        keeps_seed: bool,
        *settings: float,
    ) -> AsyncGenerator[Update, None]:
        """Speak, from the press of the button to the finished take.

        ``player`` is empty where the browser cannot play the stream itself.
        """

        async def wish() -> Wish:
            fields = speech_fields(self._view.settings, settings) | {
                "input": text,
                "language": None if language == strings.AS_WRITTEN else language,
                "seed": seed if keeps_seed and seed is not None else draw_seed(),
            }
            ask = self._desk.speaking.check(fields, PAGE_DOOR)
            speaker, name = await self.recording.speaker(voice, path, judged, has_consent)
            body = ask.body.model_copy(update={"voice": speaker.voice})
            return Wish(replace(ask, speaker=speaker, body=body), name)

        owner = self._desk.owner(request, kept)
        performed = self.performance.perform(request, owner, wish, has_player=bool(player))
        async with aclosing(performed) as updates:
            async for update in updates:
                yield update

    @staticmethod
    def stop(press: Press | None) -> None:
        """End the speech; its own ``speak`` then puts the page right."""
        if press is not None:
            press.stop()

    def new_seed(self) -> Update:
        """Draw a seed and keep it."""
        return {self._view.seed: draw_seed(), self._view.keep_seed: True}

    def reset(self) -> Update:
        """Every setting back to the checkpoint's default."""
        return {setting.field: setting.default for setting in self._view.settings}
