"""The statement of ``studio/consent.py`` as a box to tick, in its exact words."""

from __future__ import annotations

import gradio as gr

from studio.consent import STATEMENT


def consent_box(why: str, name: str, *, visible: bool = True) -> gr.Checkbox:
    """Render the box below ``why`` it is asked; ``name`` is its id on the page."""
    with gr.Column(elem_classes="consent", min_width=0, visible=visible):
        gr.HTML(f'<p class="info" id="{name}-why">{why}</p>')
        return gr.Checkbox(label=STATEMENT, elem_id=name, min_width=0)
