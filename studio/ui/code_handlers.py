"""What happens in the Code tab: the settings of the page as a request; what is at its default is
left out."""

from __future__ import annotations

from typing import Any

import gradio as gr
from anyio.to_thread import run_sync

from engine import StudioError
from studio.ui import strings
from studio.ui.code import examples_html
from studio.ui.code_tab import CodeView
from studio.ui.desk import Desk, Update
from studio.ui.markup import note_html
from studio.ui.panel import Setting, speech_fields
from studio.ui.recording import RECORDING
from studio.voices import Voice


class CodeHandlers:
    """The events of one Code tab."""

    def __init__(self, desk: Desk, view: CodeView, settings: tuple[Setting, ...]) -> None:
        self._desk = desk
        self._view = view
        self._settings = settings

    async def opened(
        self,
        request: gr.Request,
        kept: str,
        text: str,
        language: str,
        voice: str | None,
        seed: int | None,
        keeps_seed: bool,
        *settings: float,
    ) -> Update:
        """Write what the Speak tab would ask now."""
        owner = self._desk.owner(request, kept)
        fields: dict[str, Any] = {"model": self._desk.engine.name, "input": text}
        note = ""
        if voice == RECORDING:
            note = note_html("info", strings.CODE_RECORDING)
        elif voice is not None:
            try:
                found = await run_sync(self._desk.speaking.speakers.find, voice, owner)
            except StudioError as error:
                note = note_html("warn", error.message)
            else:
                fields["voice"] = found.name if isinstance(found, Voice) else str(found)
        if language != strings.AS_WRITTEN:
            fields["language"] = language
        if keeps_seed and seed is not None:
            fields["seed"] = int(seed)
        changed = [
            (setting, value)
            for setting, value in zip(self._settings, settings, strict=True)
            if value != setting.default
        ]
        fields |= speech_fields([setting for setting, _ in changed], [it for _, it in changed])
        has_keys = bool(self._desk.settings.api_key)
        return {self._view.examples: note + examples_html(fields, has_keys=has_keys)}
