"""The tab of the voices that last: the library, and beside it two ways to a new voice."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from engine import Engine
from studio.ui import strings
from studio.ui.consent_box import consent_box
from studio.ui.desk import choices, default_choice
from studio.ui.lists import player_html
from studio.ui.markup import heading_html
from studio.voice_card import MAX_NAME_CHARS


@dataclass(frozen=True)
class VoicesView:
    """Every component of the tab that a handler reads or writes."""

    tab: gr.Tab
    list: gr.HTML
    first: gr.Dropdown
    second: gr.Dropdown
    share: gr.Slider
    blend_name: gr.Textbox
    blend: gr.Button
    blend_note: gr.HTML
    file: gr.File
    file_name: gr.Textbox
    file_consent: gr.Checkbox
    bring: gr.Button
    bring_note: gr.HTML
    clips: gr.File
    clips_name: gr.Textbox
    clips_consent: gr.Checkbox
    average: gr.Button
    average_note: gr.HTML


def build_voices(engine: Engine, tab: gr.Tab) -> VoicesView:
    """Lay out the tab; forms that the open model cannot serve are left out."""
    has_encoder = engine.encoder is not None
    with gr.Row(elem_id="library", elem_classes="desk"):
        with gr.Column(elem_classes="card wide", min_width=0):
            gr.HTML(heading_html(strings.YOUR_VOICES))
            gr.HTML(player_html(), elem_classes="player-place")
            listed = gr.HTML(elem_id="voices", js_on_load="studio.list(element, trigger)")
        with gr.Column(elem_classes="aside", min_width=0, visible=has_encoder):
            with gr.Column(elem_classes="card", min_width=0):
                blend = _blend(engine)
            with gr.Column(elem_classes="card", min_width=0):
                bring = _bring()
            with gr.Column(elem_classes="card", min_width=0):
                average = _average()
    return VoicesView(tab, listed, *blend, *bring, *average)


def _blend(engine: Engine) -> tuple:
    gr.HTML(heading_html(strings.BLEND))
    gr.HTML(f'<p class="info">{strings.BLEND_INFO}</p>')
    voices, first = choices(engine), default_choice(engine)
    second = next((value for _, value in voices if value != first), first)
    return (
        gr.Dropdown(voices, value=first, label=strings.FIRST_VOICE, elem_id="blend-first"),
        gr.Dropdown(voices, value=second, label=strings.SECOND_VOICE, elem_id="blend-second"),
        gr.Slider(
            0, 100, 50, step=1, label=strings.SHARE, buttons=[], elem_id="blend-share", min_width=0
        ),
        gr.Textbox(
            label=strings.VOICE_NAME,
            placeholder=strings.VOICE_NAME_PLACEHOLDER,
            max_length=MAX_NAME_CHARS,
            elem_id="blend-name",
        ),
        gr.Button(strings.SAVE_BLEND, size="md", elem_id="blend"),
        gr.HTML(elem_id="blend-note"),
    )


def _bring() -> tuple:
    gr.HTML(heading_html(strings.BRING))
    gr.HTML(f'<p class="info">{strings.BRING_INFO}</p>')
    return (
        gr.File(label=strings.VOICE_FILE, height=120, elem_id="voice-file"),
        gr.Textbox(
            label=strings.VOICE_NAME,
            placeholder=strings.NAME_IN_FILE,
            max_length=MAX_NAME_CHARS,
            elem_id="bring-name",
        ),
        consent_box(strings.SAVE_CONSENT, "bring-consent"),
        gr.Button(strings.BRING_VOICE, size="md", elem_id="bring"),
        gr.HTML(elem_id="bring-note"),
    )


def _average() -> tuple:
    gr.HTML(heading_html(strings.AVERAGE))
    gr.HTML(f'<p class="info">{strings.AVERAGE_INFO}</p>')
    return (
        gr.File(label=strings.CLIPS, file_count="multiple", height=120, elem_id="clips"),
        gr.Textbox(
            label=strings.VOICE_NAME,
            placeholder=strings.VOICE_NAME_PLACEHOLDER,
            max_length=MAX_NAME_CHARS,
            elem_id="clips-name",
        ),
        consent_box(strings.SAVE_CONSENT, "clips-consent"),
        gr.Button(strings.SAVE_AVERAGE, size="md", elem_id="average"),
        gr.HTML(elem_id="average-note"),
    )
