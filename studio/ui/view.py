"""The components of the page and where they stand. Nothing here does anything.

Three columns on a desk, two on a tablet, one on a phone: assets/ui/studio.css.
"""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from engine import Engine
from studio.ui import strings
from studio.ui.markup import header_html, status_html
from studio.ui.panel import (
    Setting,
    delivery_settings,
    emotion_settings,
    guidance_settings,
    sampling_settings,
)
from studio.ui.theme import WAVEFORM

# How long the files of a session stay, and how often old ones are looked for, in seconds.
FILE_SWEEP_S, FILE_AGE_S = 600, 3600


@dataclass(frozen=True)
class View:
    """Every component that a handler reads or writes."""

    blocks: gr.Blocks
    header: gr.HTML
    voice: gr.Dropdown
    recording: gr.Audio
    judged: gr.State
    voice_note: gr.HTML
    text: gr.Textbox
    text_note: gr.HTML
    language: gr.Dropdown
    speak: gr.Button
    stop: gr.Button
    press: gr.State
    status: gr.HTML
    live: gr.Audio
    take: gr.HTML
    download: gr.DownloadButton
    seed: gr.Number
    keep_seed: gr.Checkbox
    new_seed: gr.Button
    settings: tuple[Setting, ...]
    settings_note: gr.HTML
    reset: gr.Button

    @property
    def setting_fields(self) -> list[Component]:
        """The fields of the settings, in their order."""
        return [setting.field for setting in self.settings]


def build_view(engine: Engine) -> View:
    """Lay out the page for what the engine's checkpoint offers."""
    parts: dict[str, object] = {}
    blocks = gr.Blocks(
        title=strings.TITLE, fill_width=True, delete_cache=(FILE_SWEEP_S, FILE_AGE_S)
    )
    with blocks:
        parts["header"] = gr.HTML(header_html(engine), elem_id="header")
        with gr.Row(elem_id="studio"):
            with gr.Column(elem_id="voice-panel", min_width=0):
                parts |= _voice_panel(engine)
            with gr.Column(elem_id="text-panel", min_width=0):
                parts |= _text_panel(engine)
            with gr.Column(elem_id="delivery-panel", min_width=0):
                parts |= _delivery_panel(engine)
    return View(blocks=blocks, **parts)  # type: ignore[arg-type]


def _voice_panel(engine: Engine) -> dict[str, object]:
    _heading(strings.VOICE)
    voice = gr.Dropdown(
        list(engine.voices),
        value=engine.default_voice,
        label=strings.VOICE_INFO,
        filterable=len(engine.voices) > 8,
        elem_id="voice",
    )
    # The file stays as it came: our own intake decodes it, within limits.
    recording = gr.Audio(
        sources=["microphone", "upload"],
        type="filepath",
        format=None,
        label=strings.RECORDING,
        elem_id="recording",
        buttons=[],
        waveform_options=WAVEFORM,
        visible=engine.encoder is not None,
    )
    gr.HTML(
        f'<p class="info">{strings.RECORDING_INFO}</p>'
        f'<p class="info" id="no-microphone" hidden>{strings.NO_MICROPHONE}</p>',
        visible=engine.encoder is not None,
    )
    return {
        "voice": voice,
        "recording": recording,
        "judged": gr.State(None),
        "voice_note": gr.HTML(elem_id="voice-note"),
    }


def _text_panel(engine: Engine) -> dict[str, object]:
    _heading(strings.TEXT)
    text = gr.Textbox(
        strings.SAMPLE_TEXT,
        label=strings.TEXT_INFO,
        placeholder=strings.TEXT_PLACEHOLDER,
        lines=8,
        max_lines=24,
        elem_id="text",
    )
    text_note = gr.HTML(elem_id="text-note")
    with gr.Row(elem_id="text-bar"):
        language = gr.Dropdown(
            strings.languages(),
            value=engine.family.default_language or strings.AS_WRITTEN,
            label=strings.LANGUAGE,
            filterable=False,
            elem_id="language",
            min_width=0,
        )
        gr.HTML(f'<p class="info shortcuts">{strings.SHORTCUTS}</p>')
    with gr.Column(elem_id="speak-bar", min_width=0):
        speak = gr.Button(strings.SPEAK, variant="primary", elem_id="speak")
        stop = gr.Button(strings.STOP, variant="stop", elem_id="stop", visible=False)
        status = gr.HTML(status_html("ready", strings.READY), elem_id="status")
        live = gr.Audio(
            label=strings.LIVE,
            streaming=True,
            autoplay=True,
            interactive=False,
            elem_id="live",
            buttons=[],
        )
    take = gr.HTML(elem_id="take")
    download = gr.DownloadButton(strings.DOWNLOAD, visible=False, elem_id="download", size="md")
    return {
        "text": text,
        "text_note": text_note,
        "language": language,
        "speak": speak,
        "stop": stop,
        "press": gr.State(None),
        "status": status,
        "live": live,
        "take": take,
        "download": download,
    }


def _delivery_panel(engine: Engine) -> dict[str, object]:
    _heading(strings.DELIVERY)
    delivery = [*delivery_settings(engine), *emotion_settings(engine), *guidance_settings(engine)]
    with gr.Column(elem_id="seed-panel", min_width=0):
        seed = gr.Number(
            label=strings.SEED,
            info=strings.SEED_INFO,
            placeholder=strings.SEED_PLACEHOLDER,
            precision=0,
            elem_id="seed",
            min_width=0,
        )
        with gr.Row(elem_id="seed-bar"):
            keep_seed = gr.Checkbox(label=strings.KEEP_SEED, elem_id="keep-seed", min_width=0)
            new_seed = gr.Button(strings.NEW_SEED, size="sm", elem_id="new-seed", min_width=0)
    settings_note = gr.HTML(elem_id="settings-note")
    with gr.Accordion(strings.SAMPLING, open=False, elem_id="sampling"):
        sampling = sampling_settings(engine)
        reset = gr.Button(strings.RESET, size="sm", elem_id="reset")
    return {
        "seed": seed,
        "keep_seed": keep_seed,
        "new_seed": new_seed,
        "settings": (*delivery, *sampling),
        "settings_note": settings_note,
        "reset": reset,
    }


def _heading(words: str) -> None:
    gr.HTML(f'<h2 class="heading">{words}</h2>')
