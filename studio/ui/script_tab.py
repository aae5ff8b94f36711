"""The tab of scripts: lines, who speaks them, and what became of them."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gradio as gr

from studio.dialogue import Line
from studio.ui import strings
from studio.ui.lists import entries_html, link_html, play_html, player_html, row_html
from studio.ui.markup import heading_html, status_html


@dataclass(frozen=True)
class ScriptView:
    """Every component of the tab that a handler reads or writes."""

    tab: gr.Tab
    script: gr.Textbox
    cast: gr.HTML
    chosen: gr.State
    speak: gr.Button
    stop: gr.Button
    status: gr.HTML
    note: gr.HTML
    result: gr.HTML
    lines: gr.HTML
    run: gr.State


def build_script(tab: gr.Tab) -> ScriptView:
    """Lay out the tab."""
    with gr.Row(elem_id="script-desk", elem_classes="desk halves"):
        with gr.Column(elem_classes="card", min_width=0):
            gr.HTML(heading_html(strings.SCRIPT))
            script = gr.Textbox(
                strings.SAMPLE_SCRIPT,
                label=strings.SCRIPT_INFO,
                lines=9,
                max_lines=30,
                elem_id="script",
            )
            note = gr.HTML(elem_id="script-note")
            cast = gr.HTML(elem_id="cast", js_on_load="studio.cast(element, trigger)")
            speak = gr.Button(strings.SPEAK_SCRIPT, variant="primary", elem_id="speak-script")
            stop = gr.Button(strings.STOP, variant="stop", elem_id="stop-script", visible=False)
            status = gr.HTML(status_html("ready", strings.READY), elem_id="script-status")
        with gr.Column(elem_classes="card", min_width=0):
            gr.HTML(heading_html(strings.SCRIPT_LINES))
            gr.HTML(player_html(), elem_classes="player-place")
            result = gr.HTML(elem_id="script-result", js_on_load="studio.list(element, trigger)")
            lines = gr.HTML(
                lines_html([], []), elem_id="lines", js_on_load="studio.list(element, trigger)"
            )
    return ScriptView(
        tab, script, cast, gr.State({}), speak, stop, status, note, result, lines, gr.State(None)
    )


def cast_html(cast: Mapping[str, str | None], voices: Sequence[tuple[str, str]]) -> str:
    """A list of voices for each name; "" is the name of whoever has none."""
    rows = []
    for name, chosen in cast.items():
        options = "".join(
            f'<option value="{html.escape(value)}"{" selected" * (value == chosen)}>'
            f"{html.escape(words)}</option>"
            for words, value in voices
        )
        shown = html.escape(name) or strings.NO_NAME
        rows.append(
            f'<label><bdi>{shown}</bdi> <select data-name="{html.escape(name)}">{options}'
            "</select></label>"
        )
    return f'<div class="cast" role="group" aria-label="{strings.CAST}">{"".join(rows)}</div>'


def lines_html(lines: Sequence[Line], sounds: Sequence[str], again: int | None = None) -> str:
    """What was spoken so far, each line with its sound; ``again`` is being made once more."""
    rows = []
    for line, sound in zip(lines, sounds, strict=True):
        who = line.name or line.voice
        caption = f"{who}: {line.text}"
        busy = ' aria-busy="true"' if line.index == again else ""
        facts = " · ".join((strings.seconds(line.duration_s), strings.seed(line.seed)))
        about = (
            f'<p class="said"{busy}><strong><bdi>{html.escape(who)}</bdi></strong>'
            f" <bdi>{html.escape(line.text)}</bdi></p>"
            f'<p class="facts">{facts}</p>'
        )
        named = html.escape(line.text[:40])
        acts = (
            f'<button type="button" data-do="again" aria-label="{strings.REROLL}: {named}"'
            f' title="{strings.REROLL_INFO}">{strings.REROLL}</button>'
        )
        rows.append(
            row_html(str(line.index), play_html(sound, caption, line.text[:40]), about, acts)
        )
    return entries_html(strings.NO_LINES, rows)


def result_html(sound: str, files: Mapping[str, tuple[str, str]], duration_s: float) -> str:
    """All lines as one: to play, and to keep with its subtitles."""
    links = "".join(link_html(address, name, words) for words, (address, name) in files.items())
    return (
        f'<div class="entry of-all" data-id="mix"><div class="whole">'
        f"{play_html(sound, strings.WHOLE_SCRIPT, strings.WHOLE_SCRIPT)}"
        f'<p class="name">{strings.WHOLE_SCRIPT} · {strings.seconds(duration_s)}</p></div>'
        f'<p class="downloads">{strings.DOWNLOAD} {links}</p></div>'
    )
