"""The page's components and handlers over the shared engine, without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from engine import Engine
from studio.settings import Settings
from studio.ui import strings
from studio.ui.handlers import Handlers, Update
from studio.ui.view import View, build_view

TEXT = "The small boat is tied up."


@dataclass
class Page:
    """A session that presses buttons: what a browser would show stands in ``shown``."""

    view: View
    handlers: Handlers

    def __post_init__(self) -> None:
        self.shown: Update = {}

    def press(self, **changed: Any) -> AsyncIterator[Update]:
        """Speak, with the page's own defaults but for ``changed``."""
        values: dict[str, Any] = {
            "text": TEXT,
            "language": strings.AS_WRITTEN,
            "voice": self.handlers._engine.default_voice,
            "recording": None,
            "judged": None,
            "seed": 7,
            "keeps_seed": True,
        }
        values |= changed
        settings = [setting.default for setting in self.view.settings]
        return self.handlers.speak(SimpleNamespace(session_hash="tab"), *values.values(), *settings)

    def run(self, updates: AsyncIterator[Update]) -> list[Update]:
        """All updates of a handler, in order; the last value of each component is ``shown``."""

        async def collect() -> list[Update]:
            return [update async for update in updates]

        collected = asyncio.run(collect())
        for update in collected:
            self.shown |= update
        return collected

    def status(self) -> str:
        """The status line now."""
        return self.shown[self.view.status]


@pytest.fixture(scope="session")
def view(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> View:
    """The components; they hold nothing of a session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        return build_view(engine)


@pytest.fixture
def page(engine: Engine, view: View) -> Page:
    return Page(view, Handlers(engine, Settings(), view))
