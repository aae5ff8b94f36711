"""The tab of what this is for, what it cannot do, and what it asks of people."""

from __future__ import annotations

import gradio as gr

from engine import Engine
from studio.settings import Settings
from studio.ui import about
from studio.ui.markup import heading_html


def build_about(engine: Engine, settings: Settings) -> None:
    """Lay out the tab: only words."""
    with gr.Row(elem_classes="desk halves"):
        with gr.Column(elem_classes="card", min_width=0):
            gr.HTML(heading_html(about.LIMITS))
            gr.HTML(_list(about.limits(settings, engine.name, engine.num_slots)))
        with gr.Column(elem_classes="card", min_width=0):
            gr.HTML(heading_html(about.RESPONSIBLE))
            gr.HTML(_list(about.RESPONSIBLE_USE))


def _list(sentences: tuple[str, ...]) -> str:
    return f'<ul class="sentences">{"".join(f"<li>{each}</li>" for each in sentences)}</ul>'
