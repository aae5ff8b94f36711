"""The page joined to the engine: which touch runs which handler, and how it is mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from gradio import processing_utils

from engine import Engine
from studio.api.speakers import MAX_READING
from studio.api.voice_maker import VoiceMaker
from studio.media.limits import Limits
from studio.settings import Settings
from studio.ui.check_tab import MAX_CHECKING, CheckHandlers, CheckView
from studio.ui.desk import Desk
from studio.ui.handlers import Handlers
from studio.ui.takes_handlers import TakesHandlers
from studio.ui.theme import studio_theme, token_css
from studio.ui.view import View, build_view
from studio.ui.voices_handlers import VoicesHandlers

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "ui"
# Events of the page's own queue that may wait; speech itself waits in the engine's queue.
MAX_WAITING_EVENTS = 256
# Jobs beside speech: recordings to judge, and requests about to be refused.
SPARE_JOBS = 16

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
AT_ONCE: dict[str, Any] = QUIET | {"queue": False}


def build_page(desk: Desk) -> gr.Blocks:
    """The page over what stands on ``desk``, not yet mounted."""
    settings = desk.settings
    view = build_view(desk.engine, settings)
    with view.blocks:
        handlers = Handlers(desk, view)
        _wire_speech(view, handlers)
        _wire_recording(view, handlers)
        _wire_voices(view, VoicesHandlers(desk, view))
        _wire_takes(view, TakesHandlers(desk, view, handlers.performance))
        _wire_check(view.check)
    # A tab that speaks or waits is one of Gradio's jobs: it needs as many as the engine admits.
    view.blocks.max_threads = settings.slots + settings.max_waiting + SPARE_JOBS
    view.blocks.queue(max_size=MAX_WAITING_EVENTS, api_open=False)
    return view.blocks


def mount_page(app: FastAPI, engine: Engine, settings: Settings) -> FastAPI:
    """Mount the page at "/" of ``app``; routes registered before keep their paths."""
    stores, speaking = app.state.stores, app.state.speaking
    desk = Desk(speaking, stores, VoiceMaker(engine, speaking.speakers, stores.voices))
    app.router.routes.append(desk.tickets.route())
    page = build_page(desk)
    # Only launch() sets it, and without it every file of this machine passes for an upload.
    page.has_launched = True
    processing_utils.async_ssrf_protected_download = _refuse_address
    return gr.mount_gradio_app(
        app,
        page,
        path="/",
        theme=studio_theme(),
        css=token_css(),
        css_paths=[ASSETS / "studio.css", ASSETS / "lists.css"],
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


def _notes(view: View) -> list[gr.HTML]:
    return [view.status, view.text_note, view.voice_note, view.settings_note]


def _performed(view: View) -> list[Any]:
    """What a press of Speak changes."""
    spoken = [view.live, view.take, view.take_id, view.seed]
    return [view.speak, view.stop, view.press, *_notes(view), *spoken]


def _wire_speech(view: View, handlers: Handlers) -> None:
    # The browser's storage is asked first, and told what is new.
    view.blocks.load(
        handlers.arrived,
        view.kept,
        [view.header, view.seed, view.kept, view.voice],
        js="studio.kept",
        **AT_ONCE,
    ).then(None, view.kept, js="studio.keep", **AT_ONCE)
    view.speak.click(
        handlers.speak,
        [
            view.kept,
            view.text,
            view.language,
            view.voice,
            view.recording,
            view.judged,
            view.has_consent,
            view.seed,
            view.keep_seed,
            *view.setting_fields,
        ],
        _performed(view),
        concurrency_limit=None,
        **QUIET,
    )
    # Sound that was sent but is not heard yet ends in the browser.
    view.stop.click(handlers.stop, view.press, js="studio.stop", **AT_ONCE)
    view.seed.input(lambda: True, outputs=view.keep_seed, **AT_ONCE)
    view.new_seed.click(handlers.new_seed, outputs=[view.seed, view.keep_seed], **AT_ONCE)
    view.reset.click(handlers.reset, outputs=view.setting_fields, **AT_ONCE)


def _wire_recording(view: View, handlers: Handlers) -> None:
    save, recording = view.save, handlers.recording
    opened = [save.open, save.form]
    view.recording.change(
        recording.judge,
        [view.kept, view.judged, view.recording, view.voice],
        [view.judged, view.voice, *_notes(view), *opened, save.note],
        concurrency_limit=MAX_READING,
        trigger_mode="always_last",
        **QUIET,
    )
    save.open.click(recording.open_form, outputs=[*opened, save.consent, save.note], **AT_ONCE)
    save.cancel.click(recording.close_form, outputs=opened, **AT_ONCE)
    save.save.click(
        recording.save,
        [view.kept, view.judged, save.name, save.language, save.keeps_clip, save.consent],
        [view.voice, view.recording, view.judged, save.form, save.name, save.note],
        concurrency_limit=MAX_READING,
        **QUIET,
    )


def _wire_voices(view: View, handlers: VoicesHandlers) -> None:
    tab = view.voices
    now = [view.kept, view.judged, view.voice, tab.first, tab.second]
    shown = [tab.list, view.voice, tab.first, tab.second]
    tab.tab.select(handlers.opened, now, shown, **AT_ONCE)
    tab.list.click(handlers.acted, now, [*shown, view.tabs], trigger_mode="multiple", **AT_ONCE)
    tab.blend.click(
        handlers.blend,
        [*now, tab.share, tab.blend_name],
        [*shown, tab.blend_note, tab.blend_name],
        concurrency_limit=MAX_READING,
        **QUIET,
    )
    tab.bring.click(
        handlers.bring,
        [*now, tab.file, tab.file_name, tab.file_consent],
        [*shown, tab.bring_note, tab.file_name, tab.file, tab.file_consent],
        concurrency_limit=MAX_READING,
        **QUIET,
    )


def _wire_takes(view: View, handlers: TakesHandlers) -> None:
    tab = view.takes
    tab.tab.select(handlers.opened, [view.kept, tab.num_shown], tab.list, **AT_ONCE)
    tab.list.click(
        handlers.acted,
        [view.kept, tab.num_shown, view.take_id],
        [
            *(tab.list, tab.num_shown, view.tabs, view.take, view.take_id),
            *(view.text, view.language, view.voice, view.seed, view.keep_seed),
            *(*view.setting_fields, view.settings_note, view.voice_note),
        ],
        trigger_mode="multiple",
        **AT_ONCE,
    )
    tab.list.submit(
        handlers.again,
        [view.kept, tab.num_shown, view.press],
        [tab.list, view.tabs, *_performed(view)],
        concurrency_limit=None,
        **QUIET,
    )


def _wire_check(view: CheckView) -> None:
    view.file.upload(
        CheckHandlers(view).check,
        view.file,
        [view.result, view.file],
        concurrency_limit=MAX_CHECKING,
        trigger_mode="always_last",
        **QUIET,
    )
