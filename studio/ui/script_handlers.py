"""What happens in the Script tab: read, cast, speak line by line, say one again, and keep.

- The lines of a session are its own: they stand in its state, their files in Gradio's folder of
  session files, and both go with it.
- It yields at least every ``HEARTBEAT_S``, so that a closed tab takes its lines along.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import gradio as gr
from anyio.to_thread import run_sync

from engine import Cancelled, GenerationFailed, StudioError, draw_seed, read_script
from studio.api.owners import share_of
from studio.dialogue import Dialogue, Line, begin_dialogue
from studio.dialogue_files import DialogueFiles, FileKind
from studio.mix import Mix
from studio.owner import Owner
from studio.ui import strings
from studio.ui.desk import Desk, Update, default_choice
from studio.ui.identity import connection_of
from studio.ui.markup import note_html, status_html
from studio.ui.recording import RECORDING
from studio.ui.script_tab import ScriptView, cast_html, lines_html, result_html
from studio.ui.sound import HEARTBEAT_S

log = logging.getLogger(__name__)

MAX_SCRIPT_CHARS = 200_000
T = TypeVar("T")


@dataclass(eq=False)
class Run:
    """One press of the tab's Speak: the dialogue, the lines that are there, their addresses."""

    dialogue: Dialogue | None = None
    lines: list[Line] = field(default_factory=list)
    sounds: list[str] = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def __deepcopy__(self, memo: object) -> Run:
        return self  # one run, whoever looks at it


class ScriptHandlers:
    """The events of one Script tab."""

    def __init__(self, desk: Desk, view: ScriptView, folder: str) -> None:
        self._desk = desk
        self._view = view
        self._folder = Path(folder)

    async def read(
        self, request: gr.Request, kept: str, script: str, chosen: dict[str, str]
    ) -> Update:
        """Offer a voice for every name of the script."""
        view, owner = self._view, self._desk.owner(request, kept)
        try:
            cast, voices = await self._cast(owner, script, chosen)
        except StudioError as error:
            return {view.note: note_html("bad", error.message), view.cast: ""}
        return {view.note: "", view.cast: cast_html(cast, voices)}

    @staticmethod
    def choose(chosen: dict[str, str], event: gr.EventData) -> dict[str, str]:
        """A voice was chosen for a name."""
        name, voice = (str(event._data.get(part, ""))[:200] for part in ("id", "text"))
        return {**chosen, name: voice}

    async def speak(
        self, request: gr.Request, kept: str, script: str, chosen: dict[str, str]
    ) -> AsyncGenerator[Update, None]:
        """Speak all lines, from the press of the button to the file of all."""
        view, owner, run = self._view, self._desk.owner(request, kept), Run()
        yield self._started(run) | {view.lines: lines_html([], []), view.result: ""}
        try:
            cast, _ = await self._cast(owner, script, chosen)
            dialogue = run.dialogue = await begin_dialogue(
                self._desk.speaking,
                script[:MAX_SCRIPT_CHARS],
                owner,
                cast={name: voice for name, voice in cast.items() if name and voice},
                settings={"voice": cast[""]} if cast.get("") else None,
                seed=draw_seed(),
            )
            share = share_of(connection_of(request), owner)
            spoken = dialogue.lines(uuid.uuid4().hex, share=share)
            async with aclosing(_until_stopped(spoken, run.stopped)) as lines:
                async for line in lines:
                    if line is not None:
                        await self._add(run, line)
                        yield {view.lines: lines_html(run.lines, run.sounds)}
                    yield self._progress(run)
            yield await self._finished(run)
        except StudioError as error:
            yield self._failed(run, error)
        except Exception as error:
            yield self._broken(run, error)
        finally:
            run.is_over = True

    async def again(
        self, request: gr.Request, run: Run | None, event: gr.EventData
    ) -> AsyncGenerator[Update, None]:
        """Say one line again with another seed; all others stay."""
        view = self._view
        if run is None or not run.is_over or run.dialogue is None:
            return
        index = int(str(event._data.get("id", "0")))
        run.is_over, run.stopped = False, asyncio.Event()
        yield self._started(run) | {view.lines: lines_html(run.lines, run.sounds, again=index)}
        try:
            share = share_of(connection_of(request), run.dialogue.owner)
            job = run.dialogue.line(index, uuid.uuid4().hex, share, seed=draw_seed())
            async with aclosing(_until_stopped(_one(job), run.stopped)) as lines:
                async for line in lines:
                    if line is not None:
                        place = [each.index for each in run.lines].index(index)
                        run.sounds[place] = await self._file(run, line)
                        run.lines[place] = line
                    yield self._progress(run)
            if len(run.lines) == len(run.dialogue.turns):
                yield await self._finished(run)
        except StudioError as error:
            yield self._failed(run, error)
        except Exception as error:
            yield self._broken(run, error)
        finally:
            run.is_over = True
        yield {view.lines: lines_html(run.lines, run.sounds)}

    @staticmethod
    def stop(run: Run | None) -> None:
        """End what is being spoken; its own handler then puts the page right."""
        if run is not None:
            run.stopped.set()

    async def _cast(
        self, owner: Owner, script: str, chosen: dict[str, str]
    ) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
        """Who may speak what: the chosen voice, one of that name, or the next in the list."""
        turns = await run_sync(read_script, script[:MAX_SCRIPT_CHARS])
        voices = [each for each in await self._desk.choices(owner) if each[1] != RECORDING]
        known = [value for _, value in voices]
        default = default_choice(self._desk.engine)
        by_name = {name.casefold(): value for name, value in voices}
        cast: dict[str, str | None] = {}
        for name in dict.fromkeys(turn.voice or "" for turn in turns):
            picked = chosen.get(name)
            if picked not in known:
                free = (value for value in (default, *known) if value not in cast.values())
                picked = by_name.get(name.casefold(), next(free, default))
            cast[name] = picked
        return cast, voices

    async def _add(self, run: Run, line: Line) -> None:
        run.sounds.append(await self._file(run, line))
        run.lines.append(line)

    async def _file(self, run: Run, line: Line) -> str:
        """The line as a file of the session -> its address."""
        assert run.dialogue is not None
        dialogue = run.dialogue

        def write() -> str:
            alone = Mix(line.samples, line.sample_rate_hz, ())
            files = self._files(dialogue, [line], alone)
            return self._kept(files.line(0), f"line-{line.index + 1}.wav")

        return await run_sync(write)

    async def _finished(self, run: Run) -> Update:
        view, dialogue = self._view, run.dialogue
        assert dialogue is not None

        def write() -> tuple[str, dict[str, tuple[str, str]], float, tuple[str, ...]]:
            mix = dialogue.mix(run.lines)
            files = self._files(dialogue, run.lines, mix)
            script = json.dumps(files.script(), ensure_ascii=False, indent=1).encode()
            bodies = {
                "WAV": ("script.wav", files.mix()),
                "SRT": ("script.srt", files.srt().encode()),
                "VTT": ("script.vtt", files.vtt().encode()),
                "JSON": ("script.json", script),
            }
            kept = {words: (self._kept(body, name), name) for words, (name, body) in bodies.items()}
            return kept["WAV"][0], kept, mix.duration_s, mix.notes

        sound, files, duration_s, notes = await run_sync(write)
        return {
            view.result: result_html(sound, files, duration_s),
            view.note: "".join(note_html("warn", note) for note in notes),
            view.status: status_html("done", strings.script_done(len(run.lines), duration_s)),
        }

    def _files(self, dialogue: Dialogue, lines: list[Line], mix: Mix) -> DialogueFiles:
        marker, model = self._desk.speaking.marker, self._desk.engine.name
        return DialogueFiles(dialogue, lines, mix, FileKind("wav"), marker, model, "script")

    def _kept(self, body: bytes, name: str) -> str:
        path = self._folder / uuid.uuid4().hex / name
        path.parent.mkdir(parents=True)
        path.write_bytes(body)
        return f"gradio_api/file={quote(str(path))}"

    def _started(self, run: Run) -> Update:
        view = self._view
        return {
            view.run: run,
            view.speak: gr.update(visible=False),
            view.stop: gr.update(visible=True),
            view.status: status_html("starting", strings.STARTING),
            view.note: "",
        }

    def _progress(self, run: Run) -> Update:
        assert run.dialogue is not None
        words = strings.script_progress(len(run.lines), len(run.dialogue.turns))
        return {self._view.status: status_html("speaking", words)}

    def _failed(self, run: Run, error: StudioError) -> Update:
        view = self._view
        if run.stopped.is_set():
            words = strings.script_stopped(len(run.lines))
            return {view.status: status_html("stopped", words)}
        return {
            view.status: status_html("error", error.message),
            view.note: note_html("bad", error.message),
        }

    def _broken(self, run: Run, error: Exception) -> Update:
        log.exception("the page failed on a script")
        name = type(error).__name__
        return self._failed(
            run, GenerationFailed(f"request: the page failed ({name}); press Speak again.")
        )

    def ready(self, run: Run | None) -> Update:
        """Speak in the place of Stop: see ``Performance.ready``."""
        view = self._view
        if run is not None and not run.is_over:
            return {}
        return {view.speak: gr.update(visible=True), view.stop: gr.update(visible=False)}


async def _one(job: Awaitable[T]) -> AsyncIterator[T]:
    yield await job


async def _until_stopped(
    items: AsyncIterator[T], stopped: asyncio.Event
) -> AsyncGenerator[T | None, None]:
    """Yield ``items``, and None whenever ``HEARTBEAT_S`` brought none; raises ``Cancelled``."""
    waiting = asyncio.ensure_future(stopped.wait())
    coming: asyncio.Future[T | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(items))
            both: list[asyncio.Future[Any]] = [coming, waiting]
            await asyncio.wait(both, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                raise Cancelled("request: it was stopped.")
            if not coming.done():
                yield None
                continue
            item, coming = await coming, None
            if item is None:
                return
            yield item
    finally:
        waiting.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        if isinstance(items, AsyncGenerator):
            await items.aclose()


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)
