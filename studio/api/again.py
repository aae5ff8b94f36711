"""A take as a request once more: the same words, settings, seed and voice, so the same samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from anyio.to_thread import run_sync

from engine import Conflict, Engine
from studio.api.asks import Embedding, SpeakerAsk
from studio.api.doors import Door
from studio.api.keeping import NO_SETTINGS
from studio.api.parse import SpeechAsk
from studio.api.speakers import default_id
from studio.api.speaking import Speaking
from studio.history import History
from studio.owner import Owner
from studio.takes import Take


async def ask_again(
    speaking: Speaking, history: History, owner: Owner, take: Take, door: Door
) -> SpeechAsk:
    """The request that speaks ``take`` again; raises ``Conflict`` where nothing could."""
    vector = await run_sync(history.speaker, owner, take.id)
    engine = speaking.engine
    if take.model != engine.name:
        raise Conflict(
            f"take: it was spoken by {take.model} and {engine.name} is open; start the studio"
            f" with {take.model} to make it again.",
            field="take",
            code="take_of_another_model",
        )
    no_wish = ("model", "response_format", "sample_rate", "bitrate", "repairs", *NO_SETTINGS)
    fields = {name: value for name, value in take.settings.items() if name not in no_wish}
    ask = await run_sync(speaking.check, fields, door)
    return replace(ask, speaker=_speaker(engine, take, vector))


def _speaker(engine: Engine, take: Take, vector: np.ndarray | None) -> SpeakerAsk:
    """The model's own voice if it is still the same, else what the take was spoken with."""
    own = engine.voices.get(take.voice_id or "")
    if vector is None or (own is not None and np.array_equal(own.numpy(), vector)):
        return SpeakerAsk(voice=None if own is None else default_id(str(take.voice_id)))
    return SpeakerAsk(embedding=Embedding("take", vector), has_consent=True)
