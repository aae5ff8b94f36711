"""The components of the page and where they stand. Nothing here does anything.

Seven tabs; that of speech has three columns on a desk, two on a tablet, one on a phone:
assets/ui/studio.css.
"""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from engine import Engine
from studio.settings import Settings
from studio.ui import naming, strings
from studio.ui.about_tab import build_about
from studio.ui.check_tab import CheckView, build_check
from studio.ui.code_tab import CodeView, build_code
from studio.ui.consent_box import consent_box
from studio.ui.desk import SHORT_LIST, choices, default_choice
from studio.ui.markup import (
    counter_html,
    header_html,
    heading_html,
    memory_html,
    pad_html,
    presets_html,
    status_html,
)
from studio.ui.panel import (
    PAD_AXES,
    Setting,
    delivery_settings,
    emotion_settings,
    guidance_settings,
    sampling_settings,
)
from studio.ui.player import player_html
from studio.ui.script_tab import ScriptView, build_script
from studio.ui.takes_tab import TakesView, build_takes
from studio.ui.text_tools import TextTools, build_text_tools
from studio.ui.theme import WAVEFORM
from studio.ui.voices_tab import VoicesView, build_voices
from studio.voice_card import MAX_NAME_CHARS

# The tab of speech, which other tabs lead to.
SPEAK = "speak"

# How long the files of a session stay, and how often old ones are looked for, in seconds.
FILE_SWEEP_S, FILE_AGE_S = 600, 3600


@dataclass(frozen=True)
class SaveForm:
    """The form that makes a voice of the recording, and the button that opens it."""

    open: gr.Button
    form: gr.Column
    name: gr.Textbox
    language: gr.Dropdown
    keeps_clip: gr.Checkbox
    consent: gr.Checkbox
    save: gr.Button
    cancel: gr.Button
    note: gr.HTML


@dataclass(frozen=True)
class View:
    """Every component that a handler reads or writes."""

    blocks: gr.Blocks
    header: gr.HTML
    kept: gr.Textbox
    player: gr.Textbox
    memory: gr.Textbox
    tabs: gr.Tabs
    voice: gr.Dropdown
    recording: gr.Audio
    judged: gr.State
    has_consent: gr.Checkbox
    voice_note: gr.HTML
    save: SaveForm
    text: gr.Textbox
    text_note: gr.HTML
    tools: TextTools
    language: gr.Dropdown
    speak: gr.Button
    stop: gr.Button
    press: gr.State
    status: gr.HTML
    live: gr.Audio
    stream: gr.HTML
    take: gr.HTML
    take_id: gr.State
    seed: gr.Number
    keep_seed: gr.Checkbox
    new_seed: gr.Button
    settings: tuple[Setting, ...]
    settings_note: gr.HTML
    reset: gr.Button
    presets: gr.HTML
    script: ScriptView
    voices: VoicesView
    takes: TakesView
    code: CodeView
    check: CheckView

    @property
    def setting_fields(self) -> list[Component]:
        """The fields of the settings, in their order."""
        return [setting.field for setting in self.settings]


def build_view(engine: Engine, settings: Settings) -> View:
    """Lay out the page for what the engine's checkpoint offers."""
    parts: dict[str, object] = {}
    blocks = gr.Blocks(
        title=strings.TITLE, fill_width=True, delete_cache=(FILE_SWEEP_S, FILE_AGE_S)
    )
    with blocks:
        parts["header"] = gr.HTML(header_html(engine), elem_id="header")
        # The signed text of a visitor whose cookies are blocked; see identity.py.
        parts["kept"] = gr.Textbox(visible=False)
        # Whether this browser can play a stream itself: see assets/ui/player.js.
        parts["player"] = gr.Textbox(visible=False)
        # What the browser remembers of the settings: see remembered.py.
        parts["memory"] = gr.Textbox(visible=False)
        with gr.Tabs(selected=SPEAK, elem_id="tabs") as tabs:
            with (
                tab(strings.SPEAK_TAB, SPEAK),
                gr.Row(elem_id="studio"),
            ):
                with gr.Column(elem_id="voice-panel", elem_classes="card", min_width=0):
                    parts |= _voice_panel(engine, settings)
                with gr.Column(elem_id="text-panel", elem_classes="card", min_width=0):
                    parts |= _text_panel(engine, settings)
                with gr.Column(elem_id="delivery-panel", elem_classes="card", min_width=0):
                    parts |= _delivery_panel(engine)
            with tab(strings.SCRIPT_TAB, "script") as opened:
                parts["script"] = build_script(opened)
            with tab(strings.VOICES_TAB, "voices") as opened:
                parts["voices"] = build_voices(engine, opened)
            with tab(strings.TAKES_TAB, "takes") as opened:
                parts["takes"] = build_takes(settings, opened)
            with tab(strings.CODE_TAB, "code") as opened:
                parts["code"] = build_code(opened)
            with tab(strings.CHECK_TAB, "check"):
                parts["check"] = build_check()
            with tab(strings.ABOUT_TAB, "about"):
                build_about(engine, settings)
    return View(blocks=blocks, tabs=tabs, **parts)  # type: ignore[arg-type]


def tab(words: str, name: str) -> gr.Tab:
    """A tab that stays as it is while another one is open: what plays goes on."""
    return gr.Tab(words, id=name, elem_id=f"{name}-tab", render_children=True)


def _voice_panel(engine: Engine, settings: Settings) -> dict[str, object]:
    gr.HTML(heading_html(strings.VOICE))
    voice = gr.Dropdown(
        choices(engine),
        value=default_choice(engine),
        label=strings.VOICE_INFO,
        filterable=len(engine.voices) > SHORT_LIST,
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
    is_asked = settings.require_consent and engine.encoder is not None
    has_consent = consent_box(strings.USE_CONSENT, "has-consent", visible=is_asked)
    return {
        "voice": voice,
        "recording": recording,
        "judged": gr.State(None),
        "has_consent": has_consent,
        "voice_note": gr.HTML(elem_id="voice-note"),
        "save": _save_form(settings),
    }


def _save_form(settings: Settings) -> SaveForm:
    opens = gr.Button(strings.SAVE_VOICE, visible=False, elem_id="save-voice", size="md")
    with gr.Column(visible=False, elem_id="save-form", min_width=0) as form:
        name = gr.Textbox(
            label=strings.VOICE_NAME,
            placeholder=strings.VOICE_NAME_PLACEHOLDER,
            max_length=MAX_NAME_CHARS,
            elem_id="save-name",
        )
        language = gr.Dropdown(
            naming.voice_languages(),
            value=strings.AS_WRITTEN,
            label=strings.VOICE_LANGUAGE,
            elem_id="save-language",
        )
        keeps_clip = gr.Checkbox(
            label=strings.KEEP_CLIP,
            info=strings.KEEP_CLIP_INFO,
            elem_id="save-clip",
            visible=not settings.public,
        )
        agreed = consent_box(strings.SAVE_CONSENT, "save-consent")
        with gr.Row(elem_classes="buttons"):
            save = gr.Button(
                strings.SAVE, variant="primary", size="md", elem_id="save", min_width=0
            )
            cancel = gr.Button(strings.CANCEL, size="md", elem_id="save-cancel", min_width=0)
    note = gr.HTML(elem_id="save-note")
    return SaveForm(opens, form, name, language, keeps_clip, agreed, save, cancel, note)


def _text_panel(engine: Engine, settings: Settings) -> dict[str, object]:
    gr.HTML(heading_html(strings.TEXT))
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
            naming.languages(),
            value=engine.family.default_language or strings.AS_WRITTEN,
            label=strings.LANGUAGE,
            info=strings.LANGUAGE_INFO,
            elem_id="language",
            min_width=0,
        )
        gr.HTML(counter_html(settings.max_input_chars))
    tools = build_text_tools()
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
        gr.HTML(player_html(), elem_id="player-place")
        stream = gr.HTML(elem_id="stream", visible="hidden")
    take = gr.HTML(elem_id="take")
    return {
        "text": text,
        "text_note": text_note,
        "tools": tools,
        "language": language,
        "speak": speak,
        "stop": stop,
        "press": gr.State(None),
        "status": status,
        "live": live,
        "stream": stream,
        "take": take,
        "take_id": gr.State(None),
    }


def _delivery_panel(engine: Engine) -> dict[str, object]:
    with gr.Row(elem_classes="heading-bar"):
        gr.HTML(heading_html(strings.DELIVERY))
        reset = gr.Button(strings.RESET, size="sm", elem_id="reset", min_width=0)
    delivery = delivery_settings(engine)
    emotions = engine.family.emotions
    gr.HTML(pad_html(), visible=emotions is not None and {*PAD_AXES} <= {*emotions.axes})
    delivery += [*emotion_settings(engine), *guidance_settings(engine)]
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
    with gr.Accordion(strings.PRESETS, open=False, elem_id="presets-box"):
        presets = gr.HTML(
            presets_html(), elem_id="presets", js_on_load="studio.presets(element, trigger)"
        )
    gr.HTML(memory_html((*delivery, *sampling)), visible="hidden")
    return {
        "seed": seed,
        "keep_seed": keep_seed,
        "new_seed": new_seed,
        "settings": (*delivery, *sampling),
        "settings_note": settings_note,
        "reset": reset,
        "presets": presets,
    }
