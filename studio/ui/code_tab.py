"""The tab that shows the present settings as requests: see code.py."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from studio.ui import strings
from studio.ui.markup import heading_html


@dataclass(frozen=True)
class CodeView:
    """Every component of the tab that a handler reads or writes."""

    tab: gr.Tab
    examples: gr.HTML


def build_code(tab: gr.Tab) -> CodeView:
    """Lay out the tab."""
    with gr.Column(elem_classes="card", min_width=0):
        gr.HTML(heading_html(strings.CODE))
        gr.HTML(f'<p class="info">{strings.CODE_INFO}</p>')
        return CodeView(tab, gr.HTML(elem_id="code"))
