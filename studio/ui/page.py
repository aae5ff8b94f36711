"""The page joined to the engine: which touch runs which handler, and how it is mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from gradio import processing_utils

from engine import Engine
from studio.media.limits import Limits
from studio.settings import Settings
from studio.ui.handlers import MAX_JUDGING, Handlers
from studio.ui.theme import studio_theme, token_css
from studio.ui.view import View, build_view

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "ui"
# Events of the page's own queue that may wait; speech itself waits in the engine's queue.
MAX_WAITING_EVENTS = 256
# Jobs beside speech: recordings to judge, and requests about to be refused.
SPARE_JOBS = 16


def build_page(engine: Engine, settings: Settings) -> gr.Blocks:
    """The page over ``engine``, not yet mounted."""
    view = build_view(engine)
    with view.blocks:
        _wire(view, Handlers(engine, settings, view))
    # A tab that speaks or waits is one of Gradio's jobs: it needs as many as the engine admits.
    view.blocks.max_threads = settings.slots + settings.max_waiting + SPARE_JOBS
    view.blocks.queue(max_size=MAX_WAITING_EVENTS, api_open=False)
    return view.blocks


def mount_page(app: FastAPI, engine: Engine, settings: Settings) -> FastAPI:
    """Mount the page at "/" of ``app``; routes registered before keep their paths."""
    page = build_page(engine, settings)
    # Only launch() sets it, and without it every file of this machine passes for an upload.
    page.has_launched = True
    processing_utils.async_ssrf_protected_download = _refuse_address
    return gr.mount_gradio_app(
        app,
        page,
        path="/",
        theme=studio_theme(),
        css=token_css(),
        css_paths=[ASSETS / "studio.css"],
        head=f"<script>{(ASSETS / 'studio.js').read_text(encoding='utf-8')}</script>",
        favicon_path=str(ASSETS / "favicon.svg"),
        max_file_size=Limits().size_bytes,
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
    )


async def _refuse_address(url: str, cache_dir: str) -> str:
    """Gradio would fetch an address that stands for an upload: unlimited, whatever the settings."""
    raise gr.Error("Upload the recording itself.", print_exception=False)


def _wire(view: View, handlers: Handlers) -> None:
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    at_once: dict[str, Any] = quiet | {"queue": False}
    notes = [view.status, view.text_note, view.voice_note, view.settings_note]

    view.blocks.load(handlers.arrived, outputs=[view.header, view.seed], **at_once)
    view.recording.change(
        handlers.judge_recording,
        [view.recording, view.voice],
        [view.judged, view.voice, *notes],
        concurrency_limit=MAX_JUDGING,
        trigger_mode="always_last",
        **quiet,
    )
    view.speak.click(
        handlers.speak,
        [
            view.text,
            view.language,
            view.voice,
            view.recording,
            view.judged,
            view.seed,
            view.keep_seed,
            *view.setting_fields,
        ],
        [view.speak, view.stop, view.press, *notes, view.live, view.take, view.download, view.seed],
        concurrency_limit=None,
        **quiet,
    )
    # Sound that was sent but is not heard yet ends in the browser.
    view.stop.click(handlers.stop, view.press, js="studio.stop", **at_once)
    view.seed.input(lambda: True, outputs=view.keep_seed, **at_once)
    view.new_seed.click(handlers.new_seed, outputs=[view.seed, view.keep_seed], **at_once)
    view.reset.click(handlers.reset, outputs=view.setting_fields, **at_once)
