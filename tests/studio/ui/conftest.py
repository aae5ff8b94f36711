"""The page's components and handlers over the shared engine, without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from starlette.datastructures import Address

from engine import Engine
from studio.api.owners import COOKIE
from studio.api.voice_maker import VoiceMaker
from studio.owner import Owner
from studio.server import create_api
from studio.settings import Settings
from studio.ui import strings
from studio.ui.desk import Desk, Update, default_choice
from studio.ui.handlers import Handlers
from studio.ui.takes_handlers import TakesHandlers
from studio.ui.takes_tab import PAGE
from studio.ui.view import View, build_view
from studio.ui.voices_handlers import VoicesHandlers

TEXT = "The small boat is tied up."


@dataclass
class Page:
    """A session that presses buttons: what a browser would show stands in ``shown``."""

    view: View
    desk: Desk
    signed: str = ""
    shown: Update = field(default_factory=dict)
    client: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        self.signed = self.signed or self.desk.stores.identity.new_visitor()
        self.handlers = Handlers(self.desk, self.view)
        self.recording = self.handlers.recording
        self.voices = VoicesHandlers(self.desk, self.view)
        self.takes = TakesHandlers(self.desk, self.view, self.handlers.performance)

    @property
    def owner(self) -> Owner:
        """The visitor of this session."""
        owner = self.desk.stores.identity.visitor(self.signed)
        assert owner is not None
        return owner

    @property
    def request(self) -> Any:
        """What Gradio hands to a handler: here with the visitor's cookie."""
        return page_request({COOKIE: self.signed}, client=self.client)

    async def press(self, **changed: Any) -> AsyncGenerator[Update, None]:
        """Speak, with the page's own defaults but for ``changed``, and then be ready again."""
        values: dict[str, Any] = {
            "player": "",
            "text": TEXT,
            "language": strings.AS_WRITTEN,
            "voice": default_choice(self.desk.engine),
            "recording": None,
            "judged": None,
            "has_consent": False,
            "seed": 7,
            "keeps_seed": True,
        }
        values |= changed
        settings = [setting.default for setting in self.view.settings]
        press = None
        spoken = self.handlers.speak(self.request, "", *values.values(), *settings)
        async with aclosing(spoken) as updates:
            async for update in updates:
                press = update.get(self.view.press, press)
                yield update
        yield self.handlers.performance.ready(press)

    def run(self, updates: AsyncIterator[Update] | Awaitable[Update]) -> list[Update]:
        """All updates of a handler, in order; the last value of each component is ``shown``."""

        async def collect() -> list[Update]:
            if isinstance(updates, Awaitable):
                return [await updates]
            return [update async for update in updates]

        collected = asyncio.run(collect())
        for update in collected:
            self.shown |= update
        return collected

    def record(self, clip: str) -> None:
        """Choose a recording in the field."""
        before = self.shown.get(self.view.judged)
        voice = default_choice(self.desk.engine)
        self.run(self.recording.judge(self.request, "", before, clip, voice))

    def save(self, name: str, *, has_consent: bool = True, keeps_clip: bool = False) -> None:
        """Fill in the form below the recording and press Save."""
        judged = self.shown.get(self.view.judged)
        values = (name, strings.AS_WRITTEN, keeps_clip, has_consent)
        self.run(self.recording.save(self.request, "", judged, *values))

    def act(self, act: str, which: str = "", text: str = "") -> None:
        """Press a button in the list of voices."""
        event = gr.EventData(None, {"act": act, "id": which, "text": text})
        tab, judged = self.view.voices, self.shown.get(self.view.judged)
        chosen = [self.chosen(field) for field in (self.view.voice, tab.first, tab.second)]
        self.run(self.voices.acted(self.request, "", judged, *chosen, event))

    def chosen(self, field: gr.Dropdown) -> str | None:
        """The voice that is chosen in a list."""
        update = self.shown.get(field)
        if isinstance(update, dict) and "value" in update:
            return update["value"]
        return default_choice(self.desk.engine)

    def act_on_take(self, act: str, which: str = "") -> None:
        """Press a button in the list of takes."""
        event = gr.EventData(None, {"act": act, "id": which})
        if act == "again":
            press = self.shown.get(self.view.press)
            self.run(self.takes.again(self.request, "", "", PAGE, press, event))
        else:
            last = self.shown.get(self.view.take_id)
            self.run(self.takes.acted(self.request, "", PAGE, last, event))

    def status(self) -> str:
        """The status line now."""
        return self.shown[self.view.status]


def page_request(
    cookies: dict[str, str], owner: Owner | None = None, client: tuple[str, int] | None = None
) -> Any:
    """What Gradio hands to a handler, for a request with ``cookies``."""
    state = SimpleNamespace(owner=owner)
    connection = SimpleNamespace(cookies=cookies, state=state, client=client and Address(*client))
    return SimpleNamespace(session_hash="tab", request=connection)


def open_desk(engine: Engine, settings: Settings) -> Desk:
    """The services of a studio with ``settings``."""
    state = create_api(engine, settings).state
    maker = VoiceMaker(engine, state.speaking.speakers, state.stores.voices)
    return Desk(state.speaking, state.stores, maker)


@pytest.fixture(scope="session")
def view(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> View:
    """The components; they hold nothing of a session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        return build_view(engine, Settings())


@pytest.fixture(scope="session")
def desk(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A studio's services over a data folder of their own; the sound is the engine's own."""
    return open_desk(engine, Settings(data=tmp_path_factory.mktemp("data"), no_watermark=True))


@pytest.fixture
def page(view: View, desk: Desk) -> Page:
    """The session of a new visitor."""
    return Page(view, desk)


@pytest.fixture
def page_with(
    engine: Engine, view: View, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Page]:
    """Open a session of a studio with other settings."""

    def open_page(**options: Any) -> Page:
        folder = tmp_path_factory.mktemp("data")
        return Page(view, open_desk(engine, Settings(data=folder, **options)))

    return open_page
