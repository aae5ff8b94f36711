"""The page joined to the engine: which touch runs which handler, and how it is mounted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from gradio import processing_utils
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from engine import Engine
from studio.api.speakers import MAX_READING
from studio.api.voice_maker import VoiceMaker
from studio.media.limits import Limits
from studio.settings import Settings
from studio.ui import strings
from studio.ui.check_tab import MAX_CHECKING, CheckHandlers, CheckView
from studio.ui.code_handlers import CodeHandlers
from studio.ui.desk import Desk
from studio.ui.handlers import Handlers
from studio.ui.script_handlers import ScriptHandlers
from studio.ui.script_tab import ScriptView
from studio.ui.takes_handlers import TakesHandlers
from studio.ui.text_tools import TextHandlers
from studio.ui.theme import studio_theme, token_css
from studio.ui.view import View, build_view
from studio.ui.voices_handlers import VoicesHandlers

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "ui"
WORDS = ASSETS.parent / "i18n"
SCRIPTS = ("words", "player", "compare", "settings", "text", "studio")
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
        _wire_text(view, TextHandlers(desk, view.tools))
        folder = view.live.GRADIO_CACHE
        _wire_script(view.script, view.kept, ScriptHandlers(desk, view.script, folder))
        _wire_code(view, CodeHandlers(desk, view.code, view.settings))
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
    app.router.routes.append(Route("/page/words/{language}", _words, include_in_schema=False))
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
        css_paths=[ASSETS / "studio.css", ASSETS / "lists.css", ASSETS / "tools.css"],
        head=_scripts(),
        favicon_path=str(ASSETS / "favicon.svg"),
        max_file_size=Limits().size_bytes,
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
    )


def _scripts() -> str:
    """The page's scripts, with the one that runs on the audio thread as a text for the player."""
    source = {name: (ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS}
    worklet = json.dumps((ASSETS / "worklet.js").read_text(encoding="utf-8"))
    scripts = "\n".join(source.values()).replace('"WORKLET"', worklet.replace("</", "<\\/"))
    return f"<script>{scripts}</script>"


async def _words(request: Request) -> FileResponse:
    """The page's words in another language."""
    language = request.path_params["language"]
    if language not in strings.INTERFACE_LANGUAGES or language == "en":
        raise HTTPException(404)
    headers = {"Cache-Control": "no-cache"}
    return FileResponse(WORDS / f"{language}.json", headers=headers)


async def _refuse_address(url: str, cache_dir: str) -> str:
    """Gradio would fetch an address that stands for an upload: unlimited, whatever the settings."""
    raise gr.Error("Upload the recording itself.", print_exception=False)


def _notes(view: View) -> list[gr.HTML]:
    return [view.status, view.text_note, view.voice_note, view.settings_note]


def _performed(view: View) -> list[Any]:
    """What a press of Speak changes."""
    spoken = [view.live, view.stream, view.take, view.take_id, view.seed]
    return [view.speak, view.stop, view.press, *_notes(view), *spoken]


def _wire_speech(view: View, handlers: Handlers) -> None:
    remembered = [view.voice, view.language, *view.setting_fields]
    # The browser's storage is asked first, and told what is new.
    view.blocks.load(
        handlers.arrived,
        [view.kept, view.memory],
        [view.header, view.seed, view.kept, *remembered],
        js="studio.kept",
        **AT_ONCE,
    ).then(None, view.kept, js="studio.keep", **AT_ONCE)
    gr.on(
        [field.change for field in remembered],  # type: ignore[attr-defined]
        None,
        remembered,
        js="studio.remember",
        **AT_ONCE,
    )
    view.presets.click(handlers.preset, outputs=view.setting_fields, **AT_ONCE)
    view.speak.click(
        handlers.speak,
        [
            view.kept,
            view.player,
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
        js="studio.listens",
        concurrency_limit=None,
        **QUIET,
    ).then(handlers.performance.ready, view.press, [view.speak, view.stop], **AT_ONCE)
    # Sound that was sent but is not heard yet ends in the browser.
    view.stop.click(handlers.stop, view.press, js="studio.stop", **AT_ONCE)
    # A typed seed is meant, even if Speak is pressed at once.
    view.seed.input(None, outputs=view.keep_seed, js="() => true", **AT_ONCE)
    view.new_seed.click(handlers.new_seed, outputs=[view.seed, view.keep_seed], **AT_ONCE)
    view.reset.click(handlers.reset, outputs=view.setting_fields, **AT_ONCE)


def _wire_text(view: View, handlers: TextHandlers) -> None:
    # At once, not queued: a queued event that ends as Speak is pressed can take Gradio's stream of
    # answers with it, and the press is lost.
    tools = view.tools
    now = [view.kept, view.text, view.language, tools.is_open]
    tools.box.expand(handlers.opened, now[:3], [tools.is_open, tools.spoken], **AT_ONCE)
    tools.box.collapse(handlers.closed, outputs=tools.is_open, **AT_ONCE)
    gr.on(
        [view.text.blur, view.language.change],
        handlers.changed,
        now,
        tools.spoken,
        trigger_mode="always_last",
        **AT_ONCE,
    )
    tools.words_box.expand(handlers.words, view.kept, tools.words, **AT_ONCE)
    tools.words.click(handlers.acted, now, [tools.words, tools.note, tools.spoken], **AT_ONCE)
    gr.on(
        [tools.add.click, tools.said.submit],
        handlers.add,
        [*now, tools.written, tools.said],
        [tools.words, tools.note, tools.spoken, tools.written, tools.said],
        **AT_ONCE,
    )


def _wire_script(view: ScriptView, kept: gr.Textbox, handlers: ScriptHandlers) -> None:
    now = [kept, view.script, view.chosen]
    shown = [view.run, view.speak, view.stop, view.status, view.note, view.result, view.lines]
    gr.on(
        [view.tab.select, view.script.blur],
        handlers.read,
        now,
        [view.note, view.cast],
        trigger_mode="always_last",
        **AT_ONCE,
    )
    view.cast.input(handlers.choose, view.chosen, view.chosen, **AT_ONCE)
    view.stop.click(handlers.stop, view.run, js="studio.stop", **AT_ONCE)
    for spoken in (
        view.speak.click(handlers.speak, now, shown, concurrency_limit=None, **QUIET),
        view.lines.submit(handlers.again, view.run, shown, concurrency_limit=None, **QUIET),
    ):
        spoken.then(handlers.ready, view.run, [view.speak, view.stop], **AT_ONCE)


def _wire_code(view: View, handlers: CodeHandlers) -> None:
    view.code.tab.select(
        handlers.opened,
        [
            *(view.kept, view.text, view.language, view.voice, view.seed, view.keep_seed),
            *view.setting_fields,
        ],
        view.code.examples,
        **AT_ONCE,
    )


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

    tab.average.click(
        handlers.average,
        [*now, tab.clips, tab.clips_name, tab.clips_consent],
        [*shown, tab.average_note, tab.clips_name, tab.clips, tab.clips_consent],
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
            *(tab.list, tab.num_shown, view.tabs, view.take, view.take_id, view.stream),
            *(view.text, view.language, view.voice, view.seed, view.keep_seed),
            *(*view.setting_fields, view.settings_note, view.voice_note),
        ],
        trigger_mode="multiple",
        **AT_ONCE,
    )
    tab.list.submit(
        handlers.again,
        [view.kept, view.player, tab.num_shown, view.press],
        [tab.list, view.tabs, *_performed(view)],
        js="studio.listens",
        concurrency_limit=None,
        **QUIET,
    ).then(handlers.ready, view.press, [view.speak, view.stop], **AT_ONCE)


def _wire_check(view: CheckView) -> None:
    view.file.upload(
        CheckHandlers(view).check,
        view.file,
        [view.result, view.file],
        concurrency_limit=MAX_CHECKING,
        trigger_mode="always_last",
        **QUIET,
    )
