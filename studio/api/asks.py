"""Whose voice a request asks for, as it was sent and not yet looked up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sound:
    """A recording and the field it came in: ``text`` holds or names it, or ``data`` is the file."""

    field: str
    text: str = ""
    data: bytes | None = None


@dataclass(frozen=True, eq=False)
class Embedding:
    """A speaker embedding [dim] float32 that the caller brought, and the field it came in."""

    field: str
    vector: np.ndarray


@dataclass(frozen=True)
class Blend:
    """Two stored voices, by id or name, and the share ``t`` of the second one."""

    first: str
    second: str
    t: float


@dataclass(frozen=True, eq=False)
class SpeakerAsk:
    """At most one of ``sound``, ``embedding``, ``blend`` and a ``voice`` that names one.

    ``voice`` is an id or a name; None, "default" and the stock names of OpenAI choose nothing, so
    they may stand beside the others. ``field`` is what the voice was called. ``has_consent``: the
    caller states to have the right to use the recording.
    """

    voice: str | None = None
    field: str = "voice"
    sound: Sound | None = None
    embedding: Embedding | None = None
    blend: Blend | None = None
    has_consent: bool = False
