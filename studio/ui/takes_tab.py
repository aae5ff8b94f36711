"""The tab of the takes: what was spoken, the newest first."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from studio.settings import Settings
from studio.ui import strings
from studio.ui.lists import compare_html, player_html
from studio.ui.markup import heading_html

# Takes that are shown at first, and with every press on more.
PAGE = 25


@dataclass(frozen=True)
class TakesView:
    """Every component of the tab that a handler reads or writes."""

    tab: gr.Tab
    list: gr.HTML
    num_shown: gr.State


def build_takes(settings: Settings, tab: gr.Tab) -> TakesView:
    """Lay out the tab."""
    with gr.Column(elem_classes="card", min_width=0):
        gr.HTML(heading_html(strings.YOUR_TAKES))
        gr.HTML(f'<p class="info">{strings.takes_info(settings)}</p>')
        gr.HTML(player_html(), elem_classes="player-place")
        listed = gr.HTML(elem_id="takes", js_on_load="studio.list(element, trigger)")
        gr.HTML(compare_html())
    return TakesView(tab, listed, gr.State(PAGE))
