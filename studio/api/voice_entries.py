"""A voice as the lists of clients show it: ours, SGLang-Omni's and Open WebUI's fields in one."""

from __future__ import annotations

from typing import Any

from engine import Engine
from studio.api.models import CREATED_S
from studio.api.speakers import default_id
from studio.owner import Owner
from studio.voices import Voice


def voice_entry(voice: Voice, owner: Owner, encoder: str | None, path: str) -> dict[str, Any]:
    """A stored voice. ``scope`` is "library" for an own one and "shared" for another's of this
    personal studio; ``is_usable`` says whether a model with this ``encoder`` can speak with it.
    """
    card = voice.card
    entry = _entry(voice.id, card.name, path) | {
        "language": card.language,
        "tags": list(card.tags),
        "notes": card.notes,
        "scope": "library" if voice.owner == owner.id else "shared",
        "source": voice.source,
        "is_usable": voice.fits(encoder),
        "has_clip": voice.has_clip,
        "consent": None if voice.consent is None else f"statement {voice.consent}",
        "created_at": int(voice.created_s),
        "updated_at": int(voice.updated_s),
        "file_size": voice.size_bytes,
        "mime_type": "audio/flac" if voice.has_clip else "application/octet-stream",
        "speaker_description": card.notes,
    }
    return entry | ({"ref_text": card.transcript} if card.transcript else {})


def default_entry(engine: Engine, name: str, path: str) -> dict[str, Any]:
    """A voice that came with the model."""
    return _entry(default_id(name), name, path) | {
        "scope": "default",
        "source": "model",
        "is_default": name == engine.default_voice,
        "created_at": CREATED_S,
    }


def _entry(voice_id: str, name: str, path: str) -> dict[str, Any]:
    return {
        "id": voice_id,
        "object": "audio.voice",
        "voice_id": voice_id,
        "name": name,
        "language": None,
        "tags": [],
        "notes": "",
        "is_default": False,
        "is_usable": True,
        "has_clip": False,
        "preview_url": f"{path}/{voice_id}/preview",
        "consent": None,
    }
