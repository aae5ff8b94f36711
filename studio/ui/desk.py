"""What every part of the page works with: the engine's one way to sound, the stores, the owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import gradio as gr
from anyio.to_thread import run_sync

from engine import Engine
from studio.api.doors import Door
from studio.api.speakers import default_id
from studio.api.speaking import Speaking
from studio.api.voice_maker import VoiceMaker
from studio.owner import Owner
from studio.settings import Settings
from studio.stores import Stores
from studio.ui import strings
from studio.ui.identity import page_owner
from studio.ui.tickets import Tickets
from studio.voices import Voice

# The page hears the samples themselves, while they are made.
PAGE_DOOR = Door("wav", None, True)
# A list of so many voices is looked through faster than it is searched.
SHORT_LIST = 8

Update = dict[Any, Any]  # component: its new value
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Desk:
    """The services behind one page. Nothing of a user is kept here."""

    speaking: Speaking
    stores: Stores
    maker: VoiceMaker
    tickets: Tickets = field(default_factory=Tickets)

    @property
    def engine(self) -> Engine:
        """The one engine."""
        return self.speaking.engine

    @property
    def settings(self) -> Settings:
        """The options in force."""
        return self.speaking.settings

    def owner(self, request: gr.Request, kept: str | None) -> Owner:
        """Whose voices and takes an event may see."""
        return page_owner(self.stores.identity, request, kept)

    async def voices(self, owner: Owner) -> list[Voice]:
        """Every stored voice that ``owner`` may use, the own ones first."""
        return await run_sync(self.stores.voices.list, owner)

    def fits(self, voice: Voice) -> bool:
        """Whether the open model can speak with a stored voice."""
        encoder = self.engine.encoder
        return voice.fits(None if encoder is None else encoder.identity)

    async def listening(self, act: Callable[[], T]) -> T:
        """Run what decodes or embeds, with the other readers of recordings: a core each."""
        return await run_sync(act, limiter=self.speaking.speakers.limiter)

    async def choices(self, owner: Owner) -> list[tuple[str, str]]:
        """The voices to choose from: what they are called, and what names each in a request."""
        return choices(self.engine, [v for v in await self.voices(owner) if self.fits(v)])


def choices(engine: Engine, stored: Sequence[Voice] = ()) -> list[tuple[str, str]]:
    """The ``stored`` voices and those of the model, as a list to choose from."""
    taken = {voice.name for voice in stored}
    own = [(voice.name, voice.id) for voice in stored]
    for name in engine.voices:
        own.append((strings.of_the_model(name) if name in taken else name, default_id(name)))
    return own


def offered(named: list[tuple[str, str]], *value: str | None) -> dict[str, Any]:
    """A list of voices to choose from, and perhaps the chosen one."""
    update = gr.update(choices=named, filterable=len(named) > SHORT_LIST)
    return update | ({"value": value[0]} if value else {})


def default_choice(engine: Engine) -> str | None:
    """What names the model's default voice in a request."""
    return None if engine.default_voice is None else default_id(engine.default_voice)
